/* The blocks that families share. h is the block's normed input; the caller adds the residual. */
#include "graph/ir.h"

gref graph_block_attn(struct graph *g, const struct model_layer *l, gref h)
{
    uint32_t q_dim = l->n_head * l->head_dim, kv_dim = l->n_head_kv * l->head_dim;
    gref q, k, v, gate = 0;

    if (l->wqkv) {
        if (l->bq || l->bk || l->bv) {
            graph_fail(g, -ENOTSUP, "separate q, k, v biases beside the fused attn_qkv (fuse or split both)");
            return 0;
        }
        gref qkv = graph_matmul(g, h, l->wqkv, l->bqkv, "qkv");     /* f32 [q_dim + 2 kv_dim]      */
        q = graph_view(g, qkv, 0, q_dim);
        k = graph_view(g, qkv, q_dim, kv_dim);
        v = graph_view(g, qkv, q_dim + kv_dim, kv_dim);
    } else {
        q = graph_matmul(g, h, l->wq, l->bq, "q");                  /* f32 [n_head, (2) head_dim]  */
        k = graph_matmul(g, h, l->wk, l->bk, "k");                  /* f32 [n_kv, head_dim]        */
        v = graph_matmul(g, h, l->wv, l->bv, "v");                  /* f32 [n_kv, head_dim]        */
    }
    q = graph_rope_kv(g, l, q, k, v);                               /* stores k, v                 */
    if (l->q_gate)
        gate = graph_view(g, q, l->head_dim, (2 * l->n_head - 1) * l->head_dim);
    gref a = graph_attn(g, l, q, gate, "attn");                     /* f32 [n_head, head_dim]      */
    return graph_matmul(g, a, l->wo, l->bo, "attn_out");            /* f32 [n_embd]                */
}

gref graph_block_gdn(struct graph *g, const struct model_layer *l, gref h)
{
    const struct model *m = g->m;
    gref alpha, beta;
    gref qkv = graph_matmul(g, h, l->gdn_qkv, NULL, "gdn_qkv");     /* f32 [conv_dim]              */
    gref z = graph_matmul(g, h, l->gdn_gate, NULL, "gdn_z");        /* f32 [n_v, head_dim]         */

    if (l->gdn_ba) {                                                /* per k-head r betas, r alphas */
        uint32_t r = m->gdn_n_k ? m->gdn_n_v / m->gdn_n_k : 0;
        gref ba = graph_matmul(g, h, l->gdn_ba, NULL, "gdn_ba");    /* f32 [n_k, 2, r]             */
        beta = graph_view(g, ba, 0, 2 * m->gdn_n_v - r);
        alpha = graph_view(g, ba, r, 2 * m->gdn_n_v - r);
    } else {
        alpha = graph_matmul(g, h, l->gdn_alpha, NULL, "gdn_alpha"); /* f32 [n_v]                  */
        beta = graph_matmul(g, h, l->gdn_beta, NULL, "gdn_beta");    /* f32 [n_v]                  */
    }
    gref o = graph_gdn(g, l, qkv, z, alpha, beta, "gdn");           /* f32 [n_v, head_dim]         */
    return graph_matmul(g, o, l->gdn_out, NULL, "gdn_out");         /* f32 [n_embd]                */
}

gref graph_block_ffn_up(struct graph *g, const struct model_layer *l, gref h)
{
    gref gate = graph_matmul(g, h, l->ffn_gate, NULL, "ffn_gate");  /* f32 [n_ff]                  */
    gref up = graph_matmul(g, h, l->ffn_up, NULL, "ffn_up");        /* f32 [n_ff]                  */
    return graph_act_mul(g, gate, up, "ff");                        /* f32 [n_ff]                  */
}

gref graph_block_ffn(struct graph *g, const struct model_layer *l, gref h)
{
    return graph_matmul(g, graph_block_ffn_up(g, l, h), l->ffn_down, NULL, "ffn_out"); /* f32 [n_embd] */
}

/* sigmoid(shexp_router . h) * (Wdown (act(Wgate h) * (Wup h))), split so that its first products can run beside the router
 * and its last one beside the experts' first. */
static gref shared_up(struct graph *g, const struct model_layer *l, gref h)
{
    gref gate = graph_matmul(g, h, l->shexp_gate, NULL, "sh_gate"); /* f32 [n_ff_shexp]            */
    gref up = graph_matmul(g, h, l->shexp_up, NULL, "sh_up");       /* f32 [n_ff_shexp]            */
    return graph_act_mul(g, gate, up, "sh_ff");                     /* f32 [n_ff_shexp]            */
}

static gref shared_down(struct graph *g, const struct model_layer *l, gref ff, gref share)
{
    gref y = graph_matmul(g, ff, l->shexp_down, NULL, "sh_out");    /* f32 [n_embd]                */
    return share ? graph_row_scale(g, y, share, "sh_scaled") : y;
}

gref graph_block_moe(struct graph *g, const struct model_layer *l, gref x, gref h)
{
    struct groute r = graph_router(g, l, h);                        /* ids, weights [n_used]       */
    gref share = l->shexp_router ? graph_row_gate(g, h, l->shexp_router, "share") : 0;
    gref sh = l->shexp_gate ? shared_up(g, l, h) : 0;               /* f32 [n_ff_shexp]            */
    gref ff = graph_moe_up(g, l, h, r.ids, "moe");                  /* f32 [n_used, n_ff_exp]      */
    if (l->shexp_gate)
        x = graph_add(g, x, shared_down(g, l, sh, share), "sh_x");  /* f32 [n_embd]                */
    gref y = graph_moe_down(g, l, ff, r, "moe_out");                /* f32 [n_embd]                */
    return graph_add(g, x, y, "x");
}
