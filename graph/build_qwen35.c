/* qwen35, qwen35moe, qwen3next: most layers are gated DeltaNet, every few a full attention whose output is gated;
 * the norm before the FFN is called post_attention_norm; experts come with a shared one.
 *     x1 = x + (gated DeltaNet | Wo (attention * sigmoid(gate)))(rms(x))
 *     x2 = x1 + ffn(rms(x1)), or experts + sigmoid(shexp_router . h) * shared expert */
#include "graph/ir.h"

void graph_build_qwen35(struct graph *g)
{
    const struct model *m = g->m;
    gref x = graph_embed(g, m->token_embd, m->embed_scale, "embed");   /* f32 [n_embd] */

    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        g->layer = il;
        gref h = graph_norm(g, x, l->attn_norm, "attn_norm");          /* f32 [n_embd] */
        gref a = l->kind == LAYER_GDN ? graph_block_gdn(g, l, h) : graph_block_attn(g, l, h);
        x = graph_add(g, x, a, "h");                                   /* f32 [n_embd] */
        h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                 /* f32 [n_embd] */
        x = l->router ? graph_block_moe(g, l, x, h)
                      : graph_add(g, x, graph_block_ffn(g, l, h), "x"); /* f32 [n_embd] */
    }
    graph_block_head(g, x);
}
