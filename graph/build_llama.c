/* llama: Llama 2 and 3, Mistral, and what shares their layout; with experts, Mixtral.
 *     x1 = x + Wo attention(rope(rms(x)))      adjacent-pair rotation, frequency factors where the file has them
 *     x2 = x1 + ffn(rms(x1))                   or the experts of Mixtral: softmax, top-k, renormalised */
#include "graph/ir.h"

void graph_build_llama(struct graph *g)
{
    const struct model *m = g->m;
    gref x = graph_embed(g, m->token_embd, m->embed_scale, "embed");   /* f32 [n_embd] */

    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        g->layer = il;
        gref h = graph_norm(g, x, l->attn_norm, "attn_norm");          /* f32 [n_embd] */
        x = graph_add(g, x, graph_block_attn(g, l, h), "h");           /* f32 [n_embd] */
        h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                 /* f32 [n_embd] */
        x = l->router ? graph_block_moe(g, l, x, h)
                      : graph_add(g, x, graph_block_ffn(g, l, h), "x"); /* f32 [n_embd] */
    }
    graph_block_head(g, x);
}
