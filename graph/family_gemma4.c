/* gemma4: gemma3's norms; attention of scale 1 whose values are normed, on full layers of the large models taken from
 * the K projection; the last layers may read an earlier layer's cache; some sizes have experts beside the dense block.
 *     x1 = x + rms(Wo attention(rope(rms_head(q)), rope(rms_head(k)), rms_head(v)))
 *     x2 = (x1 + rms(ffn(rms(x1)))) * out_scale                                          or, with experts,
 *     x2 = (x1 + rms(rms(ffn(rms(x1))) + rms(experts(rms'(x1), router(rms''(x1)))))) * out_scale
 * The small models (E2B, E4B) also feed every layer a part of a second, wide embedding of the token, and in them x2 is
 *     x2 = x1 + rms(ffn(rms(x1)));  x3 = (x2 + rms(Wproj (gelu(Wgate x2) * ple[layer]))) * out_scale
 *     ple = (rms(Wmodel embed / sqrt(n_embd)) + E[token] * sqrt(n_embd_ple)) / sqrt(2), rms by layers */
#include <math.h>

#include "graph/ir.h"

static gref attention(struct graph *g, const struct model_layer *l, gref h)
{
    gref k = 0, v = 0;
    gref q = graph_matmul(g, h, l->wq, NULL, "q");                     /* f32 [n_head, head_dim] */
    if (l->kv_from == g->layer) {
        k = graph_matmul(g, h, l->wk, NULL, "k");                      /* f32 [n_kv, head_dim]   */
        v = l->v_from_k ? k : graph_matmul(g, h, l->wv, NULL, "v");    /* f32 [n_kv, head_dim]   */
    }
    q = graph_rope_kv(g, l, q, k, v);                                  /* norms and stores k, v  */
    gref a = graph_attn(g, l, q, 0, "attn");                           /* f32 [n_head, head_dim] */
    return graph_matmul(g, a, l->wo, NULL, "attn_out");                /* f32 [n_embd]           */
}

/* The experts read x by norms of their own: the router's has no other weight than router_scale / sqrt(n_embd). Products of both
 * kinds take turns, so that each can run beside the one before. */
static gref ffn_and_experts(struct graph *g, const struct model_layer *l, gref x)
{
    struct groute r = graph_router(g, l, graph_router_norm(g, l, x, "router_norm")); /* ids, weights [n_used] */
    gref h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                /* f32 [n_embd]           */
    gref ff = graph_block_ffn_up(g, l, h);                             /* f32 [n_ff]             */
    h = graph_norm(g, x, l->pre_ffn_norm_2, "pre_ffn_norm_2");         /* f32 [n_embd]           */
    gref moe = graph_moe_up(g, l, h, r.ids, "moe");                    /* f32 [n_used, n_ff_exp] */
    h = graph_matmul(g, ff, l->ffn_down, NULL, "ffn_out");             /* f32 [n_embd]           */
    gref y = graph_moe_down(g, l, moe, r, "moe_out");                  /* f32 [n_embd]           */
    h = graph_norm(g, h, l->post_ffn_norm_1, "post_ffn_norm_1");
    y = graph_norm(g, y, l->post_ffn_norm_2, "post_ffn_norm_2");
    return graph_add(g, h, y, "ffn_sum");                              /* f32 [n_embd]           */
}

static gref per_layer(struct graph *g, const struct model_layer *l, gref x)
{
    uint32_t d = g->m->n_embd_ple;
    gref h = graph_matmul(g, x, l->ple_gate, NULL, "ple_gate");        /* f32 [n_embd_ple]     */
    h = graph_act_mul(g, h, graph_view(g, g->ple, g->layer * d, d), "ple_act"); /* f32 [n_embd_ple] */
    h = graph_matmul(g, h, l->ple_proj, NULL, "ple_out");              /* f32 [n_embd]         */
    return graph_norm(g, h, l->ple_norm, "ple_post_norm");             /* f32 [n_embd]         */
}

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    h = graph_norm(g, attention(g, l, h), l->post_attn_norm, "post_attn_norm");
    x = graph_add(g, x, h, "h");                                       /* f32 [n_embd] */
    h = l->router ? ffn_and_experts(g, l, x)
                  : graph_block_ffn(g, l, graph_norm(g, x, l->ffn_norm, "ffn_norm"));
    h = graph_norm(g, h, l->post_ffn_norm, "post_ffn_norm");           /* f32 [n_embd] */
    if (!g->ple)
        return graph_add_scaled(g, x, h, l->out_scale, "x");           /* f32 [n_embd] */
    x = graph_add(g, x, h, "ffn_x");                                   /* f32 [n_embd] */
    return graph_add_scaled(g, x, per_layer(g, l, x), l->out_scale, "x");
}

/* The layers' parts of the step's tokens. Where the model is cut, every stream makes them for itself. */
static void begin(struct graph *g, gref x)
{
    const struct model *m = g->m;
    uint32_t d = m->n_embd_ple, n = d * m->n_layer;
    if (!d)
        return;
    if (!x)
        x = graph_embed(g, m->token_embd, m->n_embd, m->embed_scale, "embed");
    gref p = graph_matmul(g, x, m->ple_model_proj, NULL, "ple_proj");  /* f32 [n_layer, n_embd_ple] */
    p = graph_ple_norm(g, p, "ple_norm");                              /* f32 [n_layer, n_embd_ple] */
    gref t = graph_embed(g, m->ple_token_embd, n, sqrtf((float)d / 2), "ple_token");
    g->ple = graph_add(g, t, p, "ple");                                /* f32 [n_layer, n_embd_ple] */
}

const struct graph_family family_gemma4 = {.begin = begin, .layer = layer};
