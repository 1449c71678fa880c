/* gemma3n (E2B, E4B): four streams, of which a layer computes with the first. It predicts all of them from each other (AltUp), works
 * on the first prediction p, and corrects all by what came of it; beside attention goes a learned residual of low rank (LAuReL).
 * Like gemma4's small models it feeds every layer a part of a second embedding, and its last layers read an earlier one's cache.
 *     p, p' = predict(s, s'; tanh(Wr rms(s) / n_embd))                              s', p': the other three streams
 *     h  = rms(p)
 *     x1 = (p + rms(Wo attention(rope(rms_head(q)), rope(rms_head(k)), rms_head(v))) + h + rms(Wright Wleft h)) / sqrt(2)
 *     x2 = x1 + rms(ffn(rms(x1)))                    in the first layers of the gate only what lies far above its mean
 *     c  = tanh(Wr rms(x2) / n_embd)
 *     f  = rms(Wproj (gelu(Wgate (correct(p; c, x2) * scale)) * ple[layer]))
 *     s, s' = correct(p; c, x2), correct(p'; c, x2) + f
 * In front of the layers s' are three products of the embedding, each as large as the embedding; behind them three products of s'
 * come back, each as large as s, and the head reads the mean of these and s. */
#include <math.h>

#include "graph/ir.h"

static gref attention(struct graph *g, const struct model_layer *l, gref h)
{
    gref k = 0, v = 0;
    gref q = graph_matmul(g, h, l->wq, NULL, "q");                     /* f32 [n_head, head_dim] */
    if (l->kv_from == g->layer) {
        k = graph_matmul(g, h, l->wk, NULL, "k");                      /* f32 [n_kv, head_dim]   */
        v = graph_matmul(g, h, l->wv, NULL, "v");                      /* f32 [n_kv, head_dim]   */
    }
    q = graph_rope_kv(g, l, q, k, v);                                  /* norms and stores k, v  */
    gref a = graph_attn(g, l, q, 0, "attn");                           /* f32 [n_head, head_dim] */
    return graph_matmul(g, a, l->wo, NULL, "attn_out");                /* f32 [n_embd]           */
}

/* Its matrices have another type than attention's, in files as they are released: a product of its own. */
static gref laurel(struct graph *g, const struct model_layer *l, gref h)
{
    gref y = graph_matmul_of(g, h, l->laurel_l, 0, 1, "laurel_l");     /* f32 [rank]   */
    y = graph_matmul_of(g, y, l->laurel_r, 0, 1, "laurel_r");          /* f32 [n_embd] */
    return graph_add(g, h, graph_norm(g, y, l->laurel_norm, "laurel_norm"), "laurel");
}

static gref ffn(struct graph *g, const struct model_layer *l, gref h)
{
    if (!l->sparse)
        return graph_block_ffn(g, l, h);
    gref gate = graph_matmul(g, h, l->ffn_gate, NULL, "ffn_gate");     /* f32 [n_ff]   */
    gref up = graph_matmul(g, h, l->ffn_up, NULL, "ffn_up");           /* f32 [n_ff]   */
    gref ff = graph_act_mul_sparse(g, gate, up, l->sparse_cut, "ff");  /* f32 [n_ff]   */
    return graph_matmul(g, ff, l->ffn_down, NULL, "ffn_out");          /* f32 [n_embd] */
}

/* n_embd times what the streams hang together by. */
static gref route(struct graph *g, const struct model_layer *l, gref x, const char *norm, const char *name)
{
    gref m = graph_matmul(g, graph_norm(g, x, l->altup_router_norm, norm), l->altup_router, NULL, name);
    return graph_softcap(g, m, (float)g->m->n_embd, name);             /* f32 [4]      */
}

static gref per_layer(struct graph *g, const struct model_layer *l, gref x)
{
    uint32_t d = g->m->n_embd_ple;
    gref h = graph_matmul(g, x, l->ple_gate, NULL, "ple_gate");        /* f32 [n_embd_ple] */
    h = graph_act_mul(g, h, graph_view(g, g->ple, g->layer * d, d), "ple_act");
    h = graph_matmul(g, h, l->ple_proj, NULL, "ple_out");              /* f32 [n_embd]     */
    return graph_norm(g, h, l->ple_norm, "ple_post_norm");             /* f32 [n_embd]     */
}

static gref layer(struct graph *g, const struct model_layer *l, gref x)
{
    struct gstreams p = graph_altup_predict(g, l, (struct gstreams){x, g->rest}, route(g, l, x, "router_norm", "router"));
    gref h = graph_norm(g, p.first, l->attn_norm, "attn_norm");        /* f32 [n_embd] */
    gref low = laurel(g, l, h);                                        /* f32 [n_embd] */
    gref a = graph_norm(g, attention(g, l, h), l->post_attn_norm, "post_attn_norm");
    x = graph_add_halves(g, graph_add(g, p.first, a, "attn_x"), low, "h");
    a = ffn(g, l, graph_norm(g, x, l->ffn_norm, "ffn_norm"));          /* f32 [n_embd] */
    x = graph_add(g, x, graph_norm(g, a, l->post_ffn_norm, "post_ffn_norm"), "ffn_x");
    gref m = route(g, l, x, "router_2_norm", "router_2");
    gref more = per_layer(g, l, graph_altup_first(g, l, p.first, m, x));
    struct gstreams y = graph_altup_correct(g, l, p, m, x, more);
    g->rest = y.rest;                                                  /* f32 [3, n_embd] */
    return y.first;                                                    /* f32 [n_embd] */
}

static void begin(struct graph *g, gref x)
{
    const struct model *m = g->m;
    uint32_t d = m->n_embd_ple, n = d * m->n_layer;
    gref p = graph_matmul(g, x, m->ple_model_proj, NULL, "ple_proj");  /* f32 [n_layer, n_embd_ple] */
    p = graph_ple_norm(g, p, "ple_norm");                              /* f32 [n_layer, n_embd_ple] */
    gref t = graph_embed(g, m->ple_token_embd, n, sqrtf((float)d / 2), "ple_token");
    g->ple = graph_add(g, t, p, "ple");                                /* f32 [n_layer, n_embd_ple] */
    gref s = graph_matmul_of(g, x, m->altup_proj, 0, KA_STREAMS - 1, "streams");
    g->rest = graph_match(g, s, x, 0, 1, "rest");                      /* f32 [3, n_embd] */
}

static gref end(struct graph *g, gref x)
{
    const struct model *m = g->m;
    gref sum = x;
    for (uint32_t i = 0; i < KA_STREAMS - 1; i++) {
        gref s = graph_view(g, g->rest, i * m->n_embd, m->n_embd);
        s = graph_matmul_of(g, s, m->altup_unembd_proj, i, 1, "stream");
        sum = graph_match(g, s, x, sum, i == KA_STREAMS - 2 ? 1.0f / KA_STREAMS : 1, "streams_sum");
    }
    return sum;                                                        /* f32 [n_embd] */
}

const struct graph_family family_gemma3n = {.begin = begin, .layer = layer, .end = end};
