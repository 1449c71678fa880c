/* llama, mistral3: Llama 2 and 3, Mistral, and what shares their layout; with experts, Mixtral.
 *     x1 = x + Wo attention(rope(rms(x)))      adjacent-pair rotation, frequency factors where the file has them
 *     x2 = x1 + ffn(rms(x1))                   or experts: softmax over all, top-k, renormalised
 *
 * qwen2 (Qwen2, Qwen2.5): the same with biases on q, k and v, and rotation of half-split pairs.
 *
 * qwen3, qwen3moe: the same, with q and k heads normed before the rotation, of half-split pairs.
 *     x1 = x + Wo attention(rope(rms_head(q)), rope(rms_head(k))) */
#include "graph/ir.h"

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    x = graph_add(g, x, graph_block_attn(g, l, h), "h");               /* f32 [n_embd] */
    h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                     /* f32 [n_embd] */
    return l->router ? graph_block_moe(g, l, x, h)
                     : graph_add(g, x, graph_block_ffn(g, l, h), "x"); /* f32 [n_embd] */
}

const struct graph_family family_llama = {.layer = layer};
