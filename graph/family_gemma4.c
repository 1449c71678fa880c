/* gemma4: gemma3's norms; attention of scale 1 whose values are normed, on full layers of the large models taken from
 * the K projection; the last layers may read an earlier layer's cache; some sizes have experts beside the dense block.
 *     x1 = x + rms(Wo attention(rope(rms_head(q)), rope(rms_head(k)), rms_head(v)))
 *     x2 = (x1 + rms(ffn(rms(x1)))) * out_scale                                          or, with experts,
 *     x2 = (x1 + rms(rms(ffn(rms(x1))) + rms(experts(rms'(x1), router(rms''(x1)))))) * out_scale */
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

/* The experts read x by norms of their own: the router's has no other weight than router_scale / sqrt(n_embd). */
static gref experts(struct graph *g, const struct model_layer *l, gref x)
{
    struct groute r = graph_router(g, l, graph_router_norm(g, l, x, "router_norm")); /* ids, weights [n_used] */
    gref h = graph_norm(g, x, l->pre_ffn_norm_2, "pre_ffn_norm_2");    /* f32 [n_embd]           */
    gref ff = graph_moe_up(g, l, h, r.ids, "moe");                     /* f32 [n_used, n_ff_exp] */
    h = graph_moe_down(g, l, ff, r, "moe_out");                        /* f32 [n_embd]           */
    return graph_norm(g, h, l->post_ffn_norm_2, "post_ffn_norm_2");    /* f32 [n_embd]           */
}

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    gref h = graph_norm(g, x, l->attn_norm, "attn_norm");              /* f32 [n_embd] */
    h = graph_norm(g, attention(g, l, h), l->post_attn_norm, "post_attn_norm");
    x = graph_add(g, x, h, "h");                                       /* f32 [n_embd] */
    h = graph_norm(g, x, l->ffn_norm, "ffn_norm");                     /* f32 [n_embd] */
    h = graph_block_ffn(g, l, h);                                      /* f32 [n_embd] */
    if (l->router) {
        h = graph_norm(g, h, l->post_ffn_norm_1, "post_ffn_norm_1");
        h = graph_add(g, h, experts(g, l, x), "ffn_sum");              /* f32 [n_embd] */
    }
    h = graph_norm(g, h, l->post_ffn_norm, "post_ffn_norm");           /* f32 [n_embd] */
    return graph_add_scaled(g, x, h, l->out_scale, "x");               /* f32 [n_embd] */
}

static void check(struct graph *g)
{
    if (g->m->n_embd_ple)
        graph_fail(g, -ENOTSUP, "gemma4.embedding_length_per_layer_input is %u, expected 0: per-layer embeddings are "
                   "not built (run 31B or 26B-A4B instead of E2B or E4B)", g->m->n_embd_ple);
}

const struct graph_family family_gemma4 = {.check = check, .layer = layer};
