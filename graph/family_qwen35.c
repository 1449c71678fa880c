/* qwen35, qwen35moe, qwen3next: most layers are gated DeltaNet, every few a full attention whose output is gated;
 * the norm before the FFN is called post_attention_norm; experts come with a shared one.
 *     x1 = x + (gated DeltaNet | Wo (attention * sigmoid(gate)))(rms(x))
 *     x2 = x1 + ffn(rms(x1)), or experts + sigmoid(shexp_router . h) * shared expert */
#include "graph/ir.h"

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    gref a = l->kind == LAYER_GDN ? graph_block_gdn(g, l, h) : graph_block_attn(g, l, h);
    x = graph_add(g, x, a, "h");                                       /* f32 [n_embd] */
    h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                     /* f32 [n_embd] */
    return l->router ? graph_block_moe(g, l, x, h)
                     : graph_add(g, x, graph_block_ffn(g, l, h), "x"); /* f32 [n_embd] */
}

const struct graph_family family_qwen35 = {.layer = layer};
