/* gpt-oss: biases on every projection, attention sinks, sliding windows on every other layer, experts chosen by
 * top-k of the biased logits and weighted by a softmax over the chosen, clamped activation.
 *     x1 = x + Wo attention(rope(q), rope(k); sinks) + bo
 *     x2 = x1 + experts(rms(x1))               the norm's tensor is called post_attention_norm in the file */
#include "graph/ir.h"

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    x = graph_add(g, x, graph_block_attn(g, l, h), "h");               /* f32 [n_embd] */
    h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                     /* f32 [n_embd] */
    return graph_block_moe(g, l, x, h);                                /* f32 [n_embd] */
}

const struct graph_family family_gpt_oss = {.layer = layer};
