/* Values, ops and the helpers that append them. Every helper checks the shapes it is given: a model that model_read
 * passed never fails here, one made by hand gets a message with layer and tensor. */
#include "graph/ir.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"

int graph_fail(struct graph *g, int code, const char *fmt, ...)
{
    if (g->rc)
        return g->rc;
    char msg[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    if (g->layer == CMD_NO_LAYER)
        err_set(&g->err, code, "graph: %s: %s", g->m->name, msg);
    else
        err_set(&g->err, code, "graph: %s: layer %u: %s", g->m->name, g->layer, msg);
    return g->rc = code;
}

void graph_finish(struct graph *g)
{
    free(g->ops);
    free(g->vals);
    free(g->weights);
}

/* Makes room for one more element behind *n; false: out of memory. */
static bool grow(struct graph *g, void **p, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t want = *cap ? *cap * 2 : 64;
    void *q = realloc(*p, want * size);
    if (!q) {
        graph_fail(g, -ENOMEM, "%u elements of %zu bytes", want, size);
        return false;
    }
    *p = q;
    *cap = want;
    return true;
}

static gref new_value(struct graph *g, const char *name, enum ka_rows rows, uint64_t n)
{
    if (g->rc)
        return 0;
    if (n == 0 || n > INT32_MAX) {
        graph_fail(g, -EINVAL, "%s: rows of %llu elements, expected 1..2^31-1", name, (unsigned long long)n);
        return 0;
    }
    if (!grow(g, (void **)&g->vals, g->n_vals, &g->cap_vals, sizeof *g->vals))
        return 0;
    if (g->n_vals == 0)
        g->vals[g->n_vals++] = (struct gvalue){0}; /* gref 0 is none; cap is 64 by now */
    g->vals[g->n_vals] = (struct gvalue){
        .name = name, .layer = g->layer, .rows = rows, .n = (uint32_t)n, .buf = UINT32_MAX};
    return g->n_vals++;
}

/* A new op; on error a place to write to that nobody reads. */
static struct gop *new_op(struct graph *g, enum gop_kind kind)
{
    static _Thread_local struct gop nowhere;
    if (g->rc || !grow(g, (void **)&g->ops, g->n_ops, &g->cap_ops, sizeof *g->ops))
        return &nowhere;
    struct gop *op = &g->ops[g->n_ops++];
    *op = (struct gop){.kind = kind, .layer = g->layer};
    return op;
}

void graph_append(struct graph *g, const struct gop *op)
{
    *new_op(g, op->kind) = *op;
}

uint32_t graph_weight_index(const struct graph *g, const struct gguf_tensor *t)
{
    for (uint32_t i = 0; i < g->n_weights; i++)
        if (g->weights[i] == t)
            return i;
    return UINT32_MAX;
}

static void add_weight(struct graph *g, const struct gguf_tensor *t)
{
    if (g->rc || graph_weight_index(g, t) != UINT32_MAX)
        return;
    if (grow(g, (void **)&g->weights, g->n_weights, &g->cap_weights, sizeof *g->weights))
        g->weights[g->n_weights++] = t;
}

#define T_NAME(t) (int)(t)->name.len, (t)->name.s

/* A matrix [n_in, n_out (any when 0), depth] of any type whose block divides its rows. */
static bool take_matrix(struct graph *g, const struct gguf_tensor *t, const char *what, uint64_t n_in, uint64_t n_out,
                        uint64_t depth)
{
    if (g->rc)
        return false;
    if (!t) {
        graph_fail(g, -EINVAL, "no tensor for %s", what);
        return false;
    }
    if (t->ne[0] != n_in || (n_out && t->ne[1] != n_out) || t->ne[2] != depth || t->ne[3] != 1) {
        graph_fail(g, -EINVAL, "%.*s is [%llu, %llu, %llu, %llu], %s reads [%llu, %llu, %llu]", T_NAME(t),
                   (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
                   (unsigned long long)t->ne[3], what, (unsigned long long)n_in,
                   (unsigned long long)(n_out ? n_out : t->ne[1]), (unsigned long long)depth);
        return false;
    }
    uint32_t block = qtype_block(t->type);
    if (block == 0 || n_in % block != 0) {
        graph_fail(g, -EINVAL, "%.*s: rows of %llu elements are no multiple of type %s's block of %u", T_NAME(t),
                   (unsigned long long)n_in, qtype_name(t->type), block);
        return false;
    }
    if (t->ne[1] > INT32_MAX) {
        graph_fail(g, -EINVAL, "%.*s has %llu rows, the most is 2^31-1", T_NAME(t), (unsigned long long)t->ne[1]);
        return false;
    }
    add_weight(g, t);
    return !g->rc;
}

/* n f32 elements in whatever shape; NULL passes when optional. */
static bool check_f32(struct graph *g, const struct gguf_tensor *t, const char *what, uint64_t n, bool optional)
{
    if (g->rc)
        return false;
    if (!t) {
        if (!optional)
            graph_fail(g, -EINVAL, "no tensor for %s", what);
        return optional;
    }
    uint64_t have = 1;
    bool fits = true;
    for (int d = 0; d < 4; d++)
        fits = fits && ckd_mul_u64(have, t->ne[d], &have);
    if (t->type != QT_F32) {
        graph_fail(g, -ENOTSUP, "%.*s has type %s, %s is read as F32 (convert the file with F32 norms and biases)",
                   T_NAME(t), qtype_name(t->type), what);
        return false;
    }
    if (!fits || have != n) {
        graph_fail(g, -EINVAL, "%.*s has %llu elements, %s reads %llu", T_NAME(t), (unsigned long long)have, what,
                   (unsigned long long)n);
        return false;
    }
    return true;
}

static bool take_f32(struct graph *g, const struct gguf_tensor *t, const char *what, uint64_t n, bool optional)
{
    if (!check_f32(g, t, what, n, optional))
        return false;
    if (t)
        add_weight(g, t);
    return !g->rc;
}

static bool check_same_shape(struct graph *g, gref a, gref b, const char *what)
{
    if (g->rc)
        return false;
    if (g->vals[a].n == g->vals[b].n && g->vals[a].rows == g->vals[b].rows)
        return true;
    graph_fail(g, -EINVAL, "%s: rows of %u and of %u elements", what, g->vals[a].n, g->vals[b].n);
    return false;
}

gref graph_embed(struct graph *g, const struct gguf_tensor *w, uint32_t n, float scale, const char *name)
{
    if (!take_matrix(g, w, name, n, g->m->n_vocab, 1))
        return 0;
    gref y = new_value(g, name, ROWS_STEP, n);
    struct gop *op = new_op(g, G_EMBED);
    op->out[OUT_Y] = y;
    op->mat[0].w = w;
    op->scale = scale;
    return y;
}

gref graph_norm(struct graph *g, gref x, const struct gguf_tensor *w, const char *name)
{
    if (g->rc || !take_f32(g, w, name, g->vals[x].n, false))
        return 0;
    gref y = new_value(g, name, g->vals[x].rows, g->vals[x].n);
    struct gop *op = new_op(g, G_NORM);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->norm = w;
    return y;
}

/* A norm whose weight is a constant made of t, f32 [n]: it is read here and now, as rope_freqs is, and is not in the weight
 * table. */
static gref const_norm(struct graph *g, gref x, const struct gguf_tensor *t, uint32_t n, enum gnorm as, float eps,
                       const char *name)
{
    if (g->rc)
        return 0;
    if (!t || t->type != QT_F32 || t->ne[0] != n || !t->data) {
        graph_fail(g, -EINVAL, "%s: no F32 weight of %u elements", name, n);
        return 0;
    }
    gref y = new_value(g, name, g->vals[x].rows, g->vals[x].n);
    struct gop *op = new_op(g, G_NORM);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->norm = t;
    op->norm_as = as;
    op->eps = eps;
    return y;
}

gref graph_router_norm(struct graph *g, const struct model_layer *l, gref x, const char *name)
{
    return g->rc ? 0 : const_norm(g, x, l->router_scale, g->vals[x].n, GNORM_ROUTER, 0, name);
}

/* rms(x s) = x s / sqrt(mean (x s)^2 + eps) = x / sqrt(mean x^2 + eps / s^2), s = 1 / sqrt(n_embd). */
gref graph_ple_norm(struct graph *g, gref x, const char *name)
{
    const struct model *m = g->m;
    if (g->rc)
        return 0;
    if (!m->n_embd_ple || g->vals[x].n % m->n_embd_ple) {
        graph_fail(g, -EINVAL, "%s: rows of %u elements, expected a multiple of %u", name, g->vals[x].n, m->n_embd_ple);
        return 0;
    }
    return const_norm(g, x, m->ple_proj_norm, m->n_embd_ple, GNORM_PLE, m->norm_eps * (float)m->n_embd, name);
}

gref graph_add(struct graph *g, gref a, gref b, const char *name)
{
    return graph_add_scaled(g, a, b, NULL, name);
}

gref graph_add_scaled(struct graph *g, gref a, gref b, const struct gguf_tensor *scale, const char *name)
{
    if (!check_same_shape(g, a, b, name) || !take_f32(g, scale, "the output scale", 1, true))
        return 0;
    gref y = new_value(g, name, g->vals[a].rows, g->vals[a].n);
    struct gop *op = new_op(g, G_ADD);
    op->in[IN_X] = a;
    op->in[IN_A] = b;
    op->out[OUT_Y] = y;
    op->out_scale = scale;
    return y;
}

gref graph_add_halves(struct graph *g, gref a, gref b, const char *name)
{
    gref y = graph_add(g, a, b, name);
    if (y)
        g->ops[g->n_ops - 1].half_power = true;
    return y;
}

/* The number beside w; NULL: 1. */
static const struct gguf_tensor *scale_of(const struct graph *g, const struct gguf_tensor *w)
{
    for (uint32_t i = 0; i < g->m->n_scales; i++)
        if (g->m->scales[i].w == w)
            return g->m->scales[i].by;
    return NULL;
}

gref graph_matmul(struct graph *g, gref x, const struct gguf_tensor *w, const struct gguf_tensor *bias,
                  const char *name)
{
    if (g->rc || !take_matrix(g, w, name, g->vals[x].n, 0, 1))
        return 0;
    const struct gguf_tensor *scale = scale_of(g, w);
    if (!take_f32(g, scale, "a matrix's number", 1, true) || !take_f32(g, bias, name, w->ne[1], true))
        return 0;
    gref y = new_value(g, name, g->vals[x].rows, w->ne[1]);
    struct gop *op = new_op(g, G_MATMUL);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->mat[0] = (struct gmat){.w = w, .scale = scale, .b = bias};
    op->n_mats = 1;
    return y;
}

gref graph_matmul_of(struct graph *g, gref x, const struct gguf_tensor *w, uint32_t first, uint32_t count, const char *name)
{
    if (g->rc || !take_matrix(g, w, name, g->vals[x].n, 0, w ? w->ne[2] : 1))
        return 0;
    if (first > w->ne[2] || count > w->ne[2] - first) {
        graph_fail(g, -EINVAL, "%s: matrices %u to %u of the %llu of %.*s", name, first, first + count, (unsigned long long)w->ne[2],
                   T_NAME(w));
        return 0;
    }
    gref y = new_value(g, name, g->vals[x].rows, w->ne[1] * count);
    struct gop *op = new_op(g, G_MATMUL);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->mat[0] = (struct gmat){.w = w};
    op->n_mats = 1;
    op->off = (uint32_t)(w->ne[1] * first);
    op->n_out = (uint32_t)(w->ne[1] * count);
    return y;
}

gref graph_act_mul_sparse(struct graph *g, gref gate, gref up, float cut, const char *name)
{
    gref y = graph_act_mul(g, gate, up, name);
    if (!y)
        return 0;
    g->ops[g->n_ops - 1].sparse = true;
    g->ops[g->n_ops - 1].cut = cut;
    return y;
}

gref graph_match(struct graph *g, gref x, gref like, gref resid, float scale, const char *name)
{
    if (g->rc || (resid && !check_same_shape(g, x, resid, name)))
        return 0;
    if (g->vals[x].n % g->vals[like].n) {
        graph_fail(g, -EINVAL, "%s: rows of %u elements, expected a multiple of %u", name, g->vals[x].n, g->vals[like].n);
        return 0;
    }
    gref y = new_value(g, name, g->vals[x].rows, g->vals[x].n);
    struct gop *op = new_op(g, G_MATCH);
    op->in[IN_X] = x;
    op->in[IN_A] = like;
    op->in[IN_RESID] = resid;
    op->out[OUT_Y] = y;
    op->scale = scale;
    return y;
}

/* The values of an op of G_ALTUP; NULL: an error. */
static struct gop *altup(struct graph *g, const struct model_layer *l, enum ka_altup_form form, struct gstreams s, gref m, bool rest,
                         const char *name, const char *rest_name)
{
    const struct gguf_tensor *w = form == KA_ALTUP_PREDICT ? l->altup_predict : l->altup_correct;
    uint32_t n = g->rc ? 0 : g->vals[s.first].n;
    if (g->rc || !take_f32(g, w, name, KA_STREAMS * (form == KA_ALTUP_PREDICT ? KA_STREAMS * KA_STREAMS : KA_STREAMS), false) ||
        !take_f32(g, form == KA_ALTUP_FIRST ? l->altup_scale : NULL, name, n, true))
        return NULL;
    if (g->vals[m].n != KA_STREAMS || (rest && g->vals[s.rest].n != (KA_STREAMS - 1) * n)) {
        graph_fail(g, -EINVAL, "%s: %u numbers for streams of %u and %u elements", name, g->vals[m].n, n, g->vals[s.rest].n);
        return NULL;
    }
    gref y = new_value(g, name, g->vals[s.first].rows, n);
    gref y_rest = rest ? new_value(g, rest_name, g->vals[s.first].rows, (KA_STREAMS - 1) * (uint64_t)n) : 0;
    struct gop *op = new_op(g, G_ALTUP);
    op->in[IN_X] = s.first;
    op->in[IN_A] = s.rest;
    op->in[IN_B] = m;
    op->out[OUT_Y] = y;
    op->out[OUT_REST] = y_rest;
    op->form = form;
    op->ml = l;
    return op;
}

struct gstreams graph_altup_predict(struct graph *g, const struct model_layer *l, struct gstreams s, gref m)
{
    const struct gop *op = altup(g, l, KA_ALTUP_PREDICT, s, m, true, "predicted", "predicted_rest");
    return op ? (struct gstreams){op->out[OUT_Y], op->out[OUT_REST]} : (struct gstreams){0, 0};
}

struct gstreams graph_altup_correct(struct graph *g, const struct model_layer *l, struct gstreams s, gref m, gref a, gref add)
{
    if (!check_same_shape(g, s.first, a, "x") || !check_same_shape(g, s.first, add, "x"))
        return (struct gstreams){0, 0};
    struct gop *op = altup(g, l, KA_ALTUP_CORRECT, s, m, true, "x", "rest");
    if (!op)
        return (struct gstreams){0, 0};
    op->in[IN_C] = a;
    op->in[IN_D] = add;
    return (struct gstreams){op->out[OUT_Y], op->out[OUT_REST]};
}

gref graph_altup_first(struct graph *g, const struct model_layer *l, gref first, gref m, gref a)
{
    if (!check_same_shape(g, first, a, "corrected"))
        return 0;
    struct gop *op = altup(g, l, KA_ALTUP_FIRST, (struct gstreams){first, 0}, m, false, "corrected", NULL);
    if (!op)
        return 0;
    op->in[IN_C] = a;
    return op->out[OUT_Y];
}

gref graph_act_mul(struct graph *g, gref gate, gref up, const char *name)
{
    if (!check_same_shape(g, gate, up, name))
        return 0;
    gref y = new_value(g, name, g->vals[gate].rows, g->vals[gate].n);
    struct gop *op = new_op(g, G_ACT_MUL);
    op->in[IN_X] = gate;
    op->in[IN_A] = up;
    op->out[OUT_Y] = y;
    return y;
}

gref graph_row_gate(struct graph *g, gref x, const struct gguf_tensor *w, const char *name)
{
    if (g->rc || !take_f32(g, w, name, g->vals[x].n, false))
        return 0;
    gref y = new_value(g, name, g->vals[x].rows, 1);
    struct gop *op = new_op(g, G_ROW_GATE);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->norm = w;
    return y;
}

gref graph_row_scale(struct graph *g, gref x, gref scale, const char *name)
{
    if (g->rc)
        return 0;
    gref y = new_value(g, name, g->vals[x].rows, g->vals[x].n);
    struct gop *op = new_op(g, G_ROW_SCALE);
    op->in[IN_X] = x;
    op->in[IN_SCALE] = scale;
    op->out[OUT_Y] = y;
    return y;
}

gref graph_softcap(struct graph *g, gref x, float cap, const char *name)
{
    if (g->rc)
        return 0;
    gref y = new_value(g, name, g->vals[x].rows, g->vals[x].n);
    struct gop *op = new_op(g, G_SOFTCAP);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    op->softcap = cap;
    return y;
}

gref graph_view(struct graph *g, gref x, uint32_t off, uint32_t n)
{
    if (g->rc)
        return 0;
    if (off > g->vals[x].n || n > g->vals[x].n - off) {
        graph_fail(g, -EINVAL, "%s: elements %u..%u of rows of %u", g->vals[x].name, off, off + n, g->vals[x].n);
        return 0;
    }
    gref y = new_value(g, g->vals[x].name, g->vals[x].rows, n);
    if (!y)
        return 0;
    g->vals[y].base = g->vals[x].base ? g->vals[x].base : x;
    g->vals[y].off = g->vals[x].off + off;
    return y;
}

gref graph_rope_kv(struct graph *g, const struct model_layer *l, gref q, gref k, gref v)
{
    if (g->rc)
        return 0;
    uint64_t kv_dim = (uint64_t)l->n_head_kv * l->head_dim, q_dim = (uint64_t)l->n_head * l->head_dim;
    bool own = k != 0;
    if ((own && (g->vals[k].n != kv_dim || g->vals[v].n != kv_dim)) || g->vals[q].n != q_dim * (l->q_gate ? 2 : 1)) {
        graph_fail(g, -EINVAL, "q, k, v have %u, %u, %u rows, expected %llu, %llu, %llu for %u heads, %u kv heads "
                   "of %u", g->vals[q].n, g->vals[k].n, g->vals[v].n, (unsigned long long)q_dim * (l->q_gate ? 2 : 1),
                   (unsigned long long)kv_dim, (unsigned long long)kv_dim, l->n_head, l->n_head_kv, l->head_dim);
        return 0;
    }
    if (l->n_head_kv == 0 || l->n_head % l->n_head_kv != 0 || l->rope.n_rot > l->head_dim || l->rope.n_rot % 2 != 0) {
        graph_fail(g, -EINVAL, "%u heads over %u kv heads, %u rotated of %u dimensions", l->n_head, l->n_head_kv,
                   l->rope.n_rot, l->head_dim);
        return 0;
    }
    if (KA_KV_IS_BLOCKS(kv_type_of(g, l)) && l->head_dim % KA_KV_BLOCK != 0) {
        graph_fail(g, -EINVAL, "a %s KV cache needs heads of a multiple of %d dimensions, these have %u (use f16)",
                   stream_kv_name(g->o->kv_type), KA_KV_BLOCK, l->head_dim);
        return 0;
    }
    if (!take_f32(g, l->q_norm, "the q norm", l->head_dim, true) ||
        !take_f32(g, own ? l->k_norm : NULL, "the k norm", l->head_dim, true))
        return 0;
    gref y = graph_view(g, q, 0, g->vals[q].n);
    struct gop *op = new_op(g, G_ROPE_KV);
    op->in[IN_X] = q;
    op->in[IN_A] = k;
    op->in[IN_B] = v;
    op->out[OUT_Y] = y;
    op->ml = l;
    return y;
}

gref graph_attn(struct graph *g, const struct model_layer *l, gref q, gref gate, const char *name)
{
    if (g->rc || !take_f32(g, l->sinks, "the attention sinks", l->n_head, true))
        return 0;
    gref y = new_value(g, name, ROWS_STEP, (uint64_t)l->n_head * l->head_dim);
    struct gop *op = new_op(g, G_ATTN);
    op->in[IN_X] = q;
    op->in[IN_A] = gate;
    op->out[OUT_Y] = y;
    op->ml = l;
    return y;
}

gref graph_gdn(struct graph *g, const struct model_layer *l, gref qkv, gref z, gref alpha, gref beta,
               const char *name)
{
    const struct model *m = g->m;
    if (g->rc)
        return 0;
    uint32_t conv_dim = gdn_conv_dim(m);
    if (m->gdn_n_k == 0 || m->gdn_n_v % m->gdn_n_k != 0 || g->vals[qkv].n != conv_dim ||
        g->vals[z].n != m->gdn_n_v * m->gdn_head_dim) {
        graph_fail(g, -EINVAL, "DeltaNet inputs of %u and %u rows do not fit %u k-heads and %u v-heads of %u",
                   g->vals[qkv].n, g->vals[z].n, m->gdn_n_k, m->gdn_n_v, m->gdn_head_dim);
        return 0;
    }
    if (!take_f32(g, l->gdn_conv, "the convolution", (uint64_t)conv_dim * m->gdn_conv_kernel, false) ||
        !take_f32(g, l->gdn_dt, "dt", m->gdn_n_v, false) || !take_f32(g, l->gdn_a, "a", m->gdn_n_v, false) ||
        !take_f32(g, l->gdn_norm, "the DeltaNet norm", m->gdn_head_dim, false))
        return 0;
    gref y = new_value(g, name, ROWS_STEP, (uint64_t)m->gdn_n_v * m->gdn_head_dim);
    gref c = new_value(g, "conv_out", ROWS_STEP, conv_dim);
    struct gop *op = new_op(g, G_GDN);
    op->in[IN_X] = qkv;
    op->in[IN_A] = z;
    op->in[IN_B] = alpha;
    op->in[IN_C] = beta;
    op->out[OUT_Y] = y;
    op->out[OUT_C] = c;
    op->ml = l;
    return y;
}

struct groute graph_router(struct graph *g, const struct model_layer *l, gref x)
{
    struct groute none = {0, 0};
    if (g->rc || !take_matrix(g, l->router, "the router", g->vals[x].n, g->m->n_expert, 1) ||
        !take_f32(g, l->router_b, "the router's bias", g->m->n_expert, true) ||
        !take_f32(g, l->exp_down_scale, "the experts' scale", g->m->n_expert, true)) /* MOE_DOWN's where experts have biases */
        return none;
    if (l->n_expert_used == 0 || l->n_expert_used > g->m->n_expert) {
        graph_fail(g, -EINVAL, "%u of %u experts used", l->n_expert_used, g->m->n_expert);
        return none;
    }
    struct groute r = {.ids = new_value(g, "expert_ids", ROWS_STEP, l->n_expert_used),
                       .weights = new_value(g, "expert_weights", ROWS_STEP, l->n_expert_used)};
    gref logits = new_value(g, "router_logits", ROWS_STEP, g->m->n_expert);
    if (r.ids)
        g->vals[r.ids].ints = true;
    struct gop *op = new_op(g, G_ROUTER);
    op->in[IN_X] = x;
    op->out[OUT_IDS] = r.ids;
    op->out[OUT_WEIGHTS] = r.weights;
    op->out[OUT_LOGITS] = logits;
    op->mat[0] = (struct gmat){.w = l->router, .b = l->router_b};
    op->ml = l;
    return r;
}

gref graph_moe_up(struct graph *g, const struct model_layer *l, gref x, gref ids, const char *name)
{
    if (g->rc)
        return 0;
    uint64_t n_in = g->vals[x].n, n_ff = l->n_ff_exp, n_expert = g->m->n_expert;
    bool ok = l->exp_gate_up ? take_matrix(g, l->exp_gate_up, name, n_in, 2 * n_ff, n_expert)
                             : take_matrix(g, l->exp_gate, name, n_in, n_ff, n_expert) &&
                                   take_matrix(g, l->exp_up, name, n_in, n_ff, n_expert);
    if (!ok || !take_f32(g, l->exp_gate_b, name, n_ff * n_expert, true) ||
        !take_f32(g, l->exp_up_b, name, n_ff * n_expert, true) ||
        !take_f32(g, l->exp_gate_scale, "the experts' scale", n_expert, true) ||
        !take_f32(g, l->exp_up_scale, "the experts' scale", n_expert, true))
        return 0;
    gref y = new_value(g, name, ROWS_STEP, l->n_expert_used * n_ff);
    struct gop *op = new_op(g, G_MOE_UP);
    op->in[IN_X] = x;
    op->in[IN_A] = ids;
    op->out[OUT_Y] = y;
    op->ml = l;
    return y;
}

gref graph_moe_down(struct graph *g, const struct model_layer *l, gref x, struct groute r, const char *name)
{
    uint32_t n_embd = g->m->n_embd;
    if (g->rc || !take_matrix(g, l->exp_down, name, l->n_ff_exp, n_embd, g->m->n_expert) ||
        !take_f32(g, l->exp_down_b, name, (uint64_t)n_embd * g->m->n_expert, true))
        return 0;
    gref y = new_value(g, name, ROWS_STEP, n_embd);
    struct gop *op = new_op(g, G_MOE_DOWN);
    op->in[IN_X] = x;
    op->in[IN_A] = r.ids;
    op->in[IN_B] = r.weights;
    op->out[OUT_Y] = y;
    op->ml = l;
    return y;
}

gref graph_gather(struct graph *g, gref x, const char *name)
{
    if (g->rc)
        return 0;
    gref y = new_value(g, name, ROWS_OUT, g->vals[x].n);
    struct gop *op = new_op(g, G_GATHER);
    op->in[IN_X] = x;
    op->out[OUT_Y] = y;
    return y;
}

void graph_step_out(struct graph *g)
{
    new_op(g, G_STEP_OUT);
}

void graph_argmax(struct graph *g, gref logits)
{
    if (g->rc)
        return;
    g->vals[logits].place = GP_LOGITS;
    struct gop *op = new_op(g, G_ARGMAX);
    op->in[IN_X] = logits;
}

void graph_vectors_out(struct graph *g, gref x)
{
    if (g->rc)
        return;
    CHECK(g->vals[x].place == GP_SCRATCH && !g->vals[x].base);
    g->vals[x].place = GP_VECTORS;
    new_op(g, G_VECTORS_OUT)->in[IN_X] = x;
}

gref graph_residual_in(struct graph *g)
{
    g->layer = g->o->first_layer - 1; /* who made it */
    gref y = new_value(g, "x", ROWS_STEP, g->m->n_embd);
    g->layer = CMD_NO_LAYER;
    if (y)
        g->vals[y].place = GP_RESIDUAL;
    new_op(g, G_RESIDUAL_IN)->out[OUT_Y] = y;
    return y;
}

void graph_residual_out(struct graph *g, gref x)
{
    if (g->rc)
        return;
    CHECK(g->vals[x].place == GP_SCRATCH && !g->vals[x].base && g->vals[x].n == g->m->n_embd);
    g->vals[x].place = GP_RESIDUAL;
    new_op(g, G_RESIDUAL_OUT)->in[IN_X] = x;
}
