/* gemma3: norms before and after each block, the second inside the residual branch; embeddings times sqrt(n_embd);
 * sliding windows with their own rotation base on most layers; gelu.
 *     x1 = x + rms(Wo attention(rope(rms_head(q)), rope(rms_head(k))))
 *     x2 = x1 + rms(ffn(rms(x1))) */
#include "graph/ir.h"

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    h = graph_norm(g, graph_block_attn(g, l, h), l->post_attn_norm, "post_attn_norm");
    x = graph_add(g, x, h, "h");                                       /* f32 [n_embd] */
    h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                     /* f32 [n_embd] */
    h = graph_norm(g, graph_block_ffn(g, l, h), l->post_ffn_norm, "post_ffn_norm");
    return graph_add(g, x, h, "x");                                    /* f32 [n_embd] */
}

const struct graph_family family_gemma3 = {.layer = layer};
