/* gpt-oss: biases on every projection, attention sinks, sliding windows on every other layer, experts chosen by
 * top-k of the biased logits and weighted by a softmax over the chosen, clamped activation.
 *     x1 = x + Wo attention(rope(q), rope(k); sinks) + bo
 *     x2 = x1 + experts(rms(x1))               the norm's tensor is called post_attention_norm in the file */
#include "graph/ir.h"

void graph_build_gpt_oss(struct graph *g)
{
    const struct model *m = g->m;
    gref x = graph_embed(g, m->token_embd, m->embed_scale, "embed");   /* f32 [n_embd] */

    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        g->layer = il;
        gref h = graph_norm(g, x, l->attn_norm, "attn_norm");          /* f32 [n_embd] */
        x = graph_add(g, x, graph_block_attn(g, l, h), "h");           /* f32 [n_embd] */
        h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                 /* f32 [n_embd] */
        x = graph_block_moe(g, l, x, h);                               /* f32 [n_embd] */
    }
    graph_block_head(g, x);
}
