/* A place for everything that has an address.
 *
 *     WEIGHTS   the tensors, in order of first use, row-major     the same for every stream of a model
 *     CONST     rotation frequencies, one table per distinct set of parameters; the router    likewise, and by n_ctx
 *               norms of layers that have a router_scale; the norm of per-layer embeddings;
 *               the scales of queries by position
 *     KV        per attention layer K, then V: [slot][n_kv, n_ctx, head_dim]    by n_ctx, slots, type
 *     STATE     per DeltaNet layer the convolution's ring and the state, per slot            by slots
 *     SCRATCH   values by liveness: first fit over [op that makes it, last op that reads it, and one more]
 *     IO        the step block, the residual where the model is cut, the logits
 *
 * A sum is written over the residual it reads where nobody reads that later, but for a norm's. */
#include "graph/ir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "model/rope.h"

static uint64_t sat_mul(uint64_t a, uint64_t b)
{
    uint64_t r;
    return ckd_mul_u64(a, b, &r) ? r : UINT64_MAX;
}

static bool room(struct graph *g, void **p, uint32_t need, uint32_t *cap, size_t size)
{
    if (need <= *cap)
        return true;
    uint32_t want = MAX(need, MAX(*cap * 2, 64u));
    void *q = realloc(*p, want * size);
    if (!q) {
        graph_fail(g, -ENOMEM, "%u elements of %zu bytes", want, size);
        return false;
    }
    *p = q;
    *cap = want;
    return true;
}

/* "name.index", or without the index; returns its offset. */
static uint32_t add_name(struct graph *g, struct gplan *p, const char *name, size_t len, uint32_t index)
{
    char tail[16] = "";
    if (index != CMD_NO_LAYER)
        snprintf(tail, sizeof tail, ".%u", index);
    size_t n = len + strlen(tail) + 1;
    if (n > (1u << 20) || p->str_bytes > (1u << 30)) {
        graph_fail(g, -E2BIG, "names of %u bytes", p->str_bytes);
        return 0;
    }
    if (g->rc || !room(g, (void **)&p->strs, p->str_bytes + (uint32_t)n, &p->cap_strs, 1))
        return 0;
    char *s = p->strs + p->str_bytes;
    memcpy(s, name, len);
    memcpy(s + len, tail, strlen(tail) + 1);
    p->str_bytes += (uint32_t)n;
    return p->str_bytes - (uint32_t)n;
}

/* The next place in an arena. */
static uint64_t take(struct graph *g, struct gplan *p, enum arena a, uint64_t bytes)
{
    static const char *const names[] = {"weights", "constants", "kv", "state", "scratch", "io"};
    uint64_t off = p->arena_bytes[a], end;
    if (g->rc)
        return 0;
    if (!ckd_add_u64(off, bytes, &end) || !ckd_align_u64(end, STREAM_ALIGN, &end) || end > STREAM_MAX_ARENA) {
        graph_fail(g, -E2BIG, "the %s arena would pass 2^48 bytes (fewer positions, slots or rows)", names[a]);
        return 0;
    }
    p->arena_bytes[a] = end;
    return off;
}

/* `name` lies at off in arena a. */
static uint32_t put_buf(struct graph *g, struct gplan *p, const char *name, uint32_t index, enum arena a,
                        uint64_t off, uint64_t bytes, uint32_t ld)
{
    uint32_t s = add_name(g, p, name, strlen(name), index);
    if (g->rc || !room(g, (void **)&p->bufs, p->n_bufs + 1, &p->cap_bufs, sizeof *p->bufs))
        return 0;
    p->bufs[p->n_bufs] =
        (struct stream_buf){.name = s, .arena = a, .off = off, .bytes = bytes, .weight = UINT32_MAX, .ld = ld};
    return p->n_bufs++;
}

static uint32_t add_buf(struct graph *g, struct gplan *p, const char *name, uint32_t index, enum arena a,
                        uint64_t bytes, uint32_t ld)
{
    return put_buf(g, p, name, index, a, take(g, p, a, bytes), bytes, ld);
}

/* One place with a name for each end that the model is cut at. */
static void plan_residual(struct graph *g, struct gplan *p)
{
    uint32_t first = g->o->first_layer, end = g->o->end_layer, n = g->m->n_embd;
    bool in = first > 0, out = end < g->m->n_layer;
    uint64_t bytes = sat_mul(4ull * n, g->o->row_cap), off = in || out ? take(g, p, ARENA_IO, bytes) : 0;
    p->buf_residual_in = in ? put_buf(g, p, "x", first - 1, ARENA_IO, off, bytes, n) : UINT32_MAX;
    p->buf_residual_out = out ? put_buf(g, p, "x", end - 1, ARENA_IO, off, bytes, n) : UINT32_MAX;
}

static void plan_io(struct graph *g, struct gplan *p)
{
    uint32_t rows = g->o->row_cap, outs = g->o->out_cap, n_vocab = g->m->n_vocab;
    p->buf_step = add_buf(g, p, "step", CMD_NO_LAYER, ARENA_IO, step_bytes(rows, outs), 0);
    plan_residual(g, p);
    p->buf_logits = p->buf_vectors = UINT32_MAX;
    if (g->o->end_layer < g->m->n_layer)
        return;
    if (g->o->pooling == POOLING_NONE) {
        p->buf_logits = add_buf(g, p, "logits", CMD_NO_LAYER, ARENA_IO, sat_mul(4ull * n_vocab, outs), n_vocab);
    } else {
        uint32_t n = g->o->pooling == POOLING_RANK ? g->m->n_labels : g->m->n_embd;
        p->buf_vectors = add_buf(g, p, "vectors", CMD_NO_LAYER, ARENA_IO, sat_mul(4ull * n, outs), n);
    }
}

static bool same_frequencies(const struct model_layer *la, const struct model_layer *lb)
{
    const struct rope_params *a = &la->rope, *b = &lb->rope;
    return la->rope_freqs == lb->rope_freqs && la->rope_long == lb->rope_long && a->base == b->base && a->freq_scale == b->freq_scale &&
           a->ext_factor == b->ext_factor && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           a->n_ctx_orig == b->n_ctx_orig && a->n_rot == b->n_rot;
}

/* The frequency factors of n pairs, copied: a file's data have any alignment. NULL: none, or failed. */
static float *freq_factors(struct graph *g, const struct gguf_tensor *t, uint32_t n)
{
    if (!t)
        return NULL;
    if (t->type != QT_F32 || t->ne[0] < n) {
        graph_fail(g, -EINVAL, "%.*s: %llu elements of type %s, expected %u of F32", (int)t->name.len, t->name.s,
                   (unsigned long long)t->ne[0], qtype_name(t->type), n);
        return NULL;
    }
    float *f = malloc(n * sizeof *f + 1);
    if (!f)
        graph_fail(g, -ENOMEM, "%u frequency factors", n);
    else
        memcpy(f, t->data, n * sizeof *f);
    return f;
}

/* Room for n floats among the constants; *at is where they go, NULL when something failed. */
static uint32_t add_const(struct graph *g, struct gplan *p, const char *name, uint32_t index, uint32_t n, float **at)
{
    uint32_t b = add_buf(g, p, name, index, ARENA_CONST, n * 4ull, n);
    uint64_t end = p->arena_bytes[ARENA_CONST];
    *at = NULL;
    if (end > UINT32_MAX)
        graph_fail(g, -E2BIG, "%llu bytes of constants", (unsigned long long)end);
    if (g->rc || !room(g, (void **)&p->consts, (uint32_t)end, &p->cap_consts, 1))
        return 0;
    memset(p->consts + p->const_bytes, 0, end - p->const_bytes);
    p->const_bytes = (uint32_t)end;
    *at = (float *)(p->consts + p->bufs[b].off);
    return b;
}

static uint32_t add_inv_freq(struct graph *g, struct gplan *p, const struct model_layer *l, uint32_t index)
{
    uint32_t n = l->rope.n_rot / 2;
    if (n == 0 || n > (1u << 20)) {
        graph_fail(g, -EINVAL, "%u rotated dimensions", l->rope.n_rot);
        return 0;
    }
    float *ff = freq_factors(g, rope_divisors(l, g->o->n_ctx), n), *at;
    uint32_t b = add_const(g, p, "inv_freq", index, n, &at);
    if (at)
        rope_inv_freq(&l->rope, ff, at);
    free(ff);
    return b;
}

/* router_scale / sqrt(n_embd): what the router's normed input is multiplied by. */
static uint32_t add_router_norm(struct graph *g, struct gplan *p, const struct model_layer *l, uint32_t il)
{
    uint32_t n = g->m->n_embd;
    float by = 1.0f / sqrtf((float)n), *at;
    uint32_t b = add_const(g, p, "router_norm_w", il, n, &at);
    if (at) {
        memcpy(at, l->router_scale->data, n * sizeof *at); /* a file's data have any alignment */
        for (uint32_t i = 0; i < n; i++)
            at[i] *= by;
    }
    return b;
}

/* ple_proj_norm / sqrt(2). */
static uint32_t add_ple_norm(struct graph *g, struct gplan *p)
{
    uint32_t n = g->m->n_embd_ple;
    float *at;
    uint32_t b = add_const(g, p, "ple_norm_w", CMD_NO_LAYER, n, &at);
    if (at) {
        memcpy(at, g->m->ple_proj_norm->data, n * sizeof *at);
        for (uint32_t i = 0; i < n; i++)
            at[i] *= sqrtf(0.5f);
    }
    return b;
}

/* The root of a half. */
static uint32_t add_half_power(struct graph *g, struct gplan *p)
{
    float *at;
    uint32_t b = add_const(g, p, "half_power", CMD_NO_LAYER, 1, &at);
    if (at)
        *at = sqrtf(0.5f);
    return b;
}

/* 1 + attn_temp ln(1 + i), i = floor(pos / attn_temp_every), for the positions of the context. */
static uint32_t add_q_scale(struct graph *g, struct gplan *p)
{
    const struct model *m = g->m;
    uint32_t n = (g->o->n_ctx - 1) / m->attn_temp_every + 1;
    float *at;
    uint32_t b = add_const(g, p, "q_scale", CMD_NO_LAYER, n, &at);
    for (uint32_t i = 0; at && i < n; i++)
        at[i] = (float)(1 + (double)m->attn_temp * log1p(i));
    return b;
}

/* Numbers the distinct tables of frequencies, over the whole model: so a table has one name in all of its streams. */
static void number_tables(const struct model *m, struct gplan *p)
{
    uint32_t n = 0;
    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        uint32_t j = 0;
        if (l->kind != LAYER_ATTN)
            continue;
        while (j < il && !(m->layers[j].kind == LAYER_ATTN && same_frequencies(&m->layers[j], l)))
            j++;
        p->layers[il].freq_table = j < il ? p->layers[j].freq_table : n++;
    }
}

static void plan_consts(struct graph *g, struct gplan *p)
{
    const struct model *m = g->m;
    number_tables(m, p);
    p->ple_norm = g->ple ? add_ple_norm(g, p) : UINT32_MAX;
    p->half_power = m->family == FAMILY_GEMMA3N ? add_half_power(g, p) : UINT32_MAX;
    p->q_scale = m->attn_temp > 0 && g->o->n_ctx > m->attn_temp_every ? add_q_scale(g, p) : UINT32_MAX; /* within it: 1 */
    for (uint32_t il = g->o->first_layer; il < g->o->end_layer && !g->rc; il++) {
        const struct model_layer *l = &m->layers[il];
        struct glayer_plan *lp = &p->layers[il];
        if (l->kind != LAYER_ATTN)
            continue;
        g->layer = il;
        for (uint32_t j = g->o->first_layer; j < il && lp->inv_freq == UINT32_MAX; j++)
            if (p->layers[j].freq_table == lp->freq_table)
                lp->inv_freq = p->layers[j].inv_freq;
        if (lp->inv_freq == UINT32_MAX)
            lp->inv_freq = add_inv_freq(g, p, l, lp->freq_table);
        if (l->router && l->router_scale)
            lp->router_norm = add_router_norm(g, p, l, il);
    }
}

/* Of the whole model's layers, wherever it is cut. */
enum ka_kv kv_type_of(const struct graph *g, const struct model_layer *l)
{
    const struct model *m = g->m;
    enum ka_kv kv = g->o->kv_type;
    uint32_t at = 0, n = 0;
    if (!g->o->kv_edge || kv == KA_KV_F32)
        return kv;
    for (uint32_t il = 0; il < m->n_layer; il++)
        if (m->layers[il].kind == LAYER_ATTN && m->layers[il].kv_from == il) {
            at = il == l->kv_from ? n : at;
            n++;
        }
    return at < g->o->kv_edge || n - at <= g->o->kv_edge ? KA_KV_F16 : kv;
}

uint64_t kv_slot_bytes(const struct graph *g, const struct model_layer *l)
{
    uint64_t b = sat_mul((uint64_t)l->n_head_kv * g->o->n_ctx, KA_KV_BYTES(kv_type_of(g, l), (uint64_t)l->head_dim));
    return b > STREAM_MAX_ARENA ? STREAM_MAX_ARENA : align_up(b, STREAM_ALIGN);
}
uint64_t conv_slot_bytes(const struct model *m)
{
    return align_up(4ull * m->gdn_conv_kernel * gdn_conv_dim(m), STREAM_ALIGN);
}
uint64_t state_slot_bytes(const struct model *m)
{
    return align_up(4ull * m->gdn_n_v * m->gdn_head_dim * m->gdn_head_dim, STREAM_ALIGN);
}

static void plan_caches(struct graph *g, struct gplan *p)
{
    const struct model *m = g->m;
    for (uint32_t il = g->o->first_layer; il < g->o->end_layer && !g->rc; il++) {
        const struct model_layer *l = &m->layers[il];
        struct glayer_plan *lp = &p->layers[il];
        g->layer = il;
        if (l->kind == LAYER_ATTN && l->kv_from != il)
            continue;
        if (l->kind == LAYER_ATTN) {
            uint64_t bytes = sat_mul(kv_slot_bytes(g, l), g->o->n_slots);
            lp->k = add_buf(g, p, "kv.k", il, ARENA_KV, bytes, 0);
            lp->v = add_buf(g, p, "kv.v", il, ARENA_KV, bytes, 0);
        } else {
            lp->conv = add_buf(g, p, "conv", il, ARENA_STATE, sat_mul(conv_slot_bytes(m), g->o->n_slots),
                               gdn_conv_dim(m));
            lp->state = add_buf(g, p, "state", il, ARENA_STATE, sat_mul(state_slot_bytes(m), g->o->n_slots),
                                m->gdn_head_dim);
        }
    }
    g->layer = CMD_NO_LAYER;
}

static void plan_weights(struct graph *g, struct gplan *p)
{
    p->weights = calloc(g->n_weights + 1, sizeof *p->weights);
    if (!p->weights) {
        graph_fail(g, -ENOMEM, "%u weights", g->n_weights);
        return;
    }
    p->buf_weight0 = p->n_bufs;
    for (uint32_t i = 0; i < g->n_weights && !g->rc; i++) {
        const struct gguf_tensor *t = g->weights[i];
        uint64_t bytes = sat_mul(sat_mul(qtype_row_bytes(t->type, t->ne[0]), t->ne[1]), sat_mul(t->ne[2], t->ne[3]));
        uint32_t name = add_name(g, p, t->name.s, t->name.len, CMD_NO_LAYER);
        uint64_t off = take(g, p, ARENA_WEIGHTS, bytes);
        p->weights[i] = (struct stream_weight){.name = name, .type = t->type,
                                               .ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]}, .off = off,
                                               .bytes = bytes, .part = t->part, .file_off = t->file_off};
        if (g->rc || !room(g, (void **)&p->bufs, p->n_bufs + 1, &p->cap_bufs, sizeof *p->bufs))
            return;
        p->bufs[p->n_bufs++] = (struct stream_buf){.name = name, .arena = ARENA_WEIGHTS, .off = off, .bytes = bytes,
                                                   .weight = i};
    }
}

/* ---- scratch ---- */

/* Bytes of memory that one or, in place, several values use. [v] is meaningful where store[v] == v. */
struct lives {
    gref *store;      /* [n_vals] whose memory a value uses: its own, its base's, its residual's */
    uint32_t *first, *last; /* ops */
    uint64_t *off;
};

static gref whole(const struct graph *g, gref v)
{
    return g->vals[v].base ? g->vals[v].base : v;
}

static void find_lives(const struct graph *g, struct lives *s)
{
    for (uint32_t v = 0; v < g->n_vals; v++) {
        s->store[v] = whole(g, v);
        s->first[v] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct gop *op = &g->ops[i];
        for (int j = 0; j < OUT_COUNT; j++) {
            gref v = whole(g, op->out[j]);
            if (s->first[v] == UINT32_MAX)
                s->first[v] = i;
            s->last[v] = i;
        }
        for (int j = 0; j < IN_COUNT; j++)
            s->last[whole(g, op->in[j])] = i;
    }
}

/* The residual that goes out takes the place of the one that came in: nobody reads that any more. */
static void check_residual(const struct graph *g, const struct lives *s)
{
    gref in = 0, out = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind == G_RESIDUAL_IN)
            in = g->ops[i].out[OUT_Y];
        if (g->ops[i].kind == G_RESIDUAL_OUT)
            out = g->ops[i].in[IN_X];
    }
    CHECK(!in || !out || s->last[in] <= s->first[out]);
}

/* Memory rests for one op after its last reader, so that the next op, if independent, need not wait for it. */
enum { REST_OPS = 1 };

static bool reads(const struct graph *g, const struct lives *s, const struct gop *op, gref m)
{
    bool any = false;
    for (int j = 0; j < IN_COUNT; j++)
        any = any || (op->in[j] && s->store[whole(g, op->in[j])] == m);
    return any;
}

/* Does the op before i, for which i need not wait, read m? */
static bool is_resting(const struct graph *g, const struct lives *s, uint32_t i, gref m)
{
    bool needs = false;
    if (i < REST_OPS || !reads(g, s, &g->ops[i - REST_OPS], m))
        return false;
    for (int j = 0; j < OUT_COUNT; j++)
        needs = needs || (g->ops[i - REST_OPS].out[j] && reads(g, s, &g->ops[i], s->store[whole(g, g->ops[i - REST_OPS].out[j])]));
    return !needs;
}

/* A sum takes over its residual's memory when it is the last to read it, once. */
static void share_in_place(const struct graph *g, struct lives *s)
{
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct gop *op = &g->ops[i];
        int slot = op->kind == G_ADD ? IN_X : IN_RESID;
        if (op->kind == G_NORM || op->kind == G_MATCH) /* the launches of a product may make it for themselves, and read both meanwhile */
            continue;
        gref r = op->in[slot], y = op->out[OUT_Y];
        if (!r || g->vals[r].base || g->vals[y].place != GP_SCRATCH || g->vals[r].place != GP_SCRATCH)
            continue;
        gref m = s->store[r];
        bool alone = s->last[m] == i && !is_resting(g, s, i, m);
        for (int j = 0; j < IN_COUNT; j++)
            alone = alone && (j == slot || !op->in[j] || s->store[whole(g, op->in[j])] != m);
        if (!alone)
            continue;
        s->store[y] = m;
        s->last[m] = s->last[y];
    }
}

/* First fit: the lowest gap among the memories alive at the same time. `live` is kept in order of offset. */
static uint64_t first_fit(const struct lives *s, const uint64_t *bytes, gref *live, uint32_t *n_live, gref v)
{
    uint32_t n = 0, at = 0;
    uint64_t off = 0;
    for (uint32_t i = 0; i < *n_live; i++)
        if (s->last[live[i]] + REST_OPS >= s->first[v])
            live[n++] = live[i];
    while (at < n && s->off[live[at]] - off < bytes[v]) {
        off = s->off[live[at]] + bytes[live[at]];
        at++;
    }
    memmove(live + at + 1, live + at, (n - at) * sizeof *live);
    live[at] = v;
    *n_live = n + 1;
    return off;
}

static void place_scratch(struct graph *g, struct gplan *p, struct lives *s, uint64_t *bytes, gref *live)
{
    uint32_t n_live = 0;
    for (uint32_t i = 0; i < g->n_ops && !g->rc; i++) {
        for (int j = 0; j < OUT_COUNT; j++) {
            gref v = g->ops[i].out[j];
            struct gvalue *val = &g->vals[v];
            if (!v || val->base)
                continue;
            if (val->place != GP_SCRATCH) {
                val->buf = val->place == GP_LOGITS            ? p->buf_logits
                           : val->place == GP_VECTORS        ? p->buf_vectors
                           : g->ops[i].kind == G_RESIDUAL_IN ? p->buf_residual_in
                                                              : p->buf_residual_out;
                continue;
            }
            uint32_t rows = val->rows == ROWS_OUT ? g->o->out_cap : g->o->row_cap;
            uint64_t n = sat_mul(4ull * val->n, rows);
            gref m = s->store[v];
            if (m == v) {
                bytes[v] = n > STREAM_MAX_ARENA ? STREAM_MAX_ARENA : align_up(n, STREAM_ALIGN);
                s->off[v] = first_fit(s, bytes, live, &n_live, v);
                if (s->off[v] > STREAM_MAX_ARENA) {
                    graph_fail(g, -E2BIG, "the scratch arena would pass 2^48 bytes (fewer rows)");
                    return;
                }
                p->arena_bytes[ARENA_SCRATCH] = MAX(p->arena_bytes[ARENA_SCRATCH], s->off[v] + bytes[v]);
            }
            char name[64];
            snprintf(name, sizeof name, "%s%s", val->gathered ? "last." : "", val->name);
            val->buf = put_buf(g, p, name, val->layer, ARENA_SCRATCH, s->off[m], n, val->ints ? 0 : val->n);
        }
    }
    if (p->arena_bytes[ARENA_SCRATCH] > STREAM_MAX_ARENA)
        graph_fail(g, -E2BIG, "the scratch arena would pass 2^48 bytes (fewer rows)");
}

static void plan_scratch(struct graph *g, struct gplan *p)
{
    if (g->rc)
        return;
    size_t n = g->n_vals + 1;
    struct lives s = {.store = calloc(n, sizeof(gref)), .first = calloc(n, sizeof(uint32_t)),
                      .last = calloc(n, sizeof(uint32_t)), .off = calloc(n, sizeof(uint64_t))};
    uint64_t *bytes = calloc(n, sizeof *bytes);
    gref *live = calloc(n, sizeof *live);
    if (!s.store || !s.first || !s.last || !s.off || !bytes || !live) {
        graph_fail(g, -ENOMEM, "%zu values", n);
    } else {
        find_lives(g, &s);
        check_residual(g, &s);
        share_in_place(g, &s);
        place_scratch(g, p, &s, bytes, live);
    }
    free(s.store);
    free(s.first);
    free(s.last);
    free(s.off);
    free(bytes);
    free(live);
}

void graph_plan(struct graph *g, struct gplan *p)
{
    *p = (struct gplan){0};
    g->layer = CMD_NO_LAYER;
    if (g->rc)
        return;
    p->layers = malloc((g->m->n_layer + 1) * sizeof *p->layers);
    if (!p->layers) {
        graph_fail(g, -ENOMEM, "%u layers", g->m->n_layer);
        return;
    }
    memset(p->layers, 0xff, (g->m->n_layer + 1) * sizeof *p->layers);
    plan_io(g, p);
    plan_consts(g, p);
    plan_caches(g, p);
    plan_scratch(g, p);
    if (!g->rc)
        plan_weights(g, p);
}

void graph_plan_finish(struct gplan *p)
{
    free(p->bufs);
    free(p->weights);
    free(p->strs);
    free(p->consts);
    free(p->layers);
}

void graph_print_plan(FILE *f, const struct stream *s)
{
    static const struct {
        enum arena a;
        const char *name;
    } parts[] = {{ARENA_WEIGHTS, "weights"}, {ARENA_KV, "kv"}, {ARENA_STATE, "state"}, {ARENA_SCRATCH, "scratch"},
                 {ARENA_IO, "io"}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        double b = (double)s->h.arena_bytes[parts[i].a];
        fprintf(f, "%s%s ", i ? ", " : "", parts[i].name);
        if (b == 0)
            fprintf(f, "0");
        else if (b < 1048576.0)
            fprintf(f, "%.1f KiB", b / 1024);
        else if (b < 1073741824.0)
            fprintf(f, "%.1f MiB", b / 1048576.0);
        else
            fprintf(f, "%.2f GiB", b / 1073741824.0);
    }
    fprintf(f, "\n");
}
