/* oracle/ops_impl.h: the body of oracle/ops_<isa>.c; see oracle/ops.h. Defines `OPS`, the table.
 * Sums run over 16 lanes (element k in lane k % 16, k ascending, fma), lanes are added as a tree: oracle/v16.h. */
#include <math.h>

#include "kernels/dequant.h"
#include "oracle/kv_block.h"
#include "oracle/ops.h"
#include "oracle/v16.h"

#define INLINE static inline __attribute__((always_inline))

/* The last n % 16 elements, zeros behind them. */
INLINE v16 load_tail(const float *p, uint32_t n)
{
    float t[16] = { 0 };
    memcpy(t, p, n * sizeof *t);
    return v16_load(t);
}

INLINE void store_tail(float *p, v16 a, uint32_t n)
{
    float t[16];
    v16_store(t, a);
    memcpy(p, t, n * sizeof *t);
}

/* `full` for every i of 16 lanes that lie inside n, then `tail` for what is left. */
#define FOR16(n, i, full, tail)                                                                                        \
    do {                                                                                                               \
        uint32_t i = 0;                                                                                                \
        for (; i + 16 <= (n); i += 16)                                                                                 \
            full;                                                                                                      \
        if (i < (n))                                                                                                   \
            tail;                                                                                                      \
    } while (0)

INLINE float sum_sq(const float *x, uint32_t n)
{
    v16 acc = v16_set(0.0f);
    FOR16(n, i, { v16 a = v16_load(x + i); acc = v16_fma(a, a, acc); },
          { v16 a = load_tail(x + i, n - i); acc = v16_fma(a, a, acc); });
    return v16_sum(acc);
}

INLINE float rms_scale(const float *x, uint32_t n, float eps)
{
    return 1.0f / sqrtf(sum_sq(x, n) / (float)n + eps);
}

INLINE v16 norm_lanes(v16 x, v16 s, v16 w, bool has_w, v16 resid, bool has_resid)
{
    v16 y = v16_mul(x, s);
    if (has_w)
        y = v16_mul(y, w);
    return has_resid ? v16_add(resid, y) : y;
}

static void op_norm(float *y, const float *x, const float *w, const float *resid, uint32_t n, float eps)
{
    v16 s = v16_set(rms_scale(x, n, eps)), none = v16_set(0.0f);
    FOR16(n, i, {
        v16 wv = w ? v16_load(w + i) : none;
        v16 rv = resid ? v16_load(resid + i) : none;
        v16_store(y + i, norm_lanes(v16_load(x + i), s, wv, w, rv, resid));
    }, {
        v16 wv = w ? load_tail(w + i, n - i) : none;
        v16 rv = resid ? load_tail(resid + i, n - i) : none;
        store_tail(y + i, norm_lanes(load_tail(x + i, n - i), s, wv, w, rv, resid), n - i);
    });
}

static void op_add(float *y, const float *a, const float *b, uint32_t n)
{
    FOR16(n, i, v16_store(y + i, v16_add(v16_load(a + i), v16_load(b + i))),
          store_tail(y + i, v16_add(load_tail(a + i, n - i), load_tail(b + i, n - i)), n - i));
}

static void op_scale(float *y, uint32_t n, float s)
{
    v16 sv = v16_set(s);
    FOR16(n, i, v16_store(y + i, v16_mul(v16_load(y + i), sv)),
          store_tail(y + i, v16_mul(load_tail(y + i, n - i), sv), n - i));
}

static void op_embed(enum qtype t, const void *row, float *y, uint32_t n, float scale)
{
    dequant_row(t, row, y, n);
    for (uint32_t i = 0; i < n; i++)
        y[i] *= scale;
}

/* ---- what follows a product ---- */

INLINE v16 finish_lanes(v16 y, v16 b, v16 resid, float scale, const struct op_finish *f)
{
    if (f->b)
        y = v16_add(y, b);
    if (f->scale)
        y = v16_mul(y, v16_set(scale));
    if (f->resid)
        y = v16_add(y, resid);
    if (f->softcap > 0.0f) {
        v16 cap = v16_set(f->softcap);
        y = v16_mul(cap, v16_tanh(v16_div(y, cap)));
    }
    return y;
}

static void op_finish(float *y, size_t ldy, const float *t, size_t ldt, uint32_t rows, uint32_t n,
                      const struct op_finish *f)
{
    v16 none = v16_set(0.0f);
    for (uint32_t r = 0; r < rows; r++) {
        float *yr = y + r * ldy, scale = f->scale ? f->scale[r] : 0.0f;
        const float *tr = t + r * ldt, *res = f->resid ? f->resid + r * f->ldr : NULL;
        FOR16(n, i, {
            v16 b = f->b ? v16_load(f->b + i) : none;
            v16 rv = res ? v16_load(res + i) : none;
            v16_store(yr + i, finish_lanes(v16_load(tr + i), b, rv, scale, f));
        }, {
            v16 b = f->b ? load_tail(f->b + i, n - i) : none;
            v16 rv = res ? load_tail(res + i, n - i) : none;
            store_tail(yr + i, finish_lanes(load_tail(tr + i, n - i), b, rv, scale, f), n - i);
        });
    }
}

INLINE float act_one(float g, float u, enum ka_act act)
{
    return act == KA_SILU ? k_silu(g) * u : act == KA_GELU_TANH ? k_gelu_tanh(g) * u : k_swiglu_oai(g, u);
}

INLINE void gate_rows(float *y, size_t ldy, const float *g, const float *u, size_t ldt, uint32_t rows, uint32_t n,
                      const float *bg, const float *bu, enum ka_act act)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < n; i += 16) {
            uint32_t m = n - i < 16 ? n - i : 16;
            float t[16], tb[16], ub[16];
            /* tiles are padded to panels of 16: the lanes behind n may be read */
            v16_store(tb, bg ? v16_add(v16_load(g + r * ldt + i), load_tail(bg + i, m)) : v16_load(g + r * ldt + i));
            v16_store(ub, bu ? v16_add(v16_load(u + r * ldt + i), load_tail(bu + i, m)) : v16_load(u + r * ldt + i));
            for (int l = 0; l < 16; l++)
                t[l] = act_one(tb[l], ub[l], act);
            if (m == 16)
                v16_store(y + r * ldy + i, v16_load(t));
            else
                memcpy(y + r * ldy + i, t, m * sizeof *t);
        }
}

static void op_gate(float *y, size_t ldy, const float *g, const float *u, size_t ldt, uint32_t rows, uint32_t n,
                    const float *bg, const float *bu, enum ka_act act)
{
    if (act == KA_SILU)
        gate_rows(y, ldy, g, u, ldt, rows, n, bg, bu, KA_SILU);
    else if (act == KA_GELU_TANH)
        gate_rows(y, ldy, g, u, ldt, rows, n, bg, bu, KA_GELU_TANH);
    else
        gate_rows(y, ldy, g, u, ldt, rows, n, bg, bu, KA_SWIGLU_OAI);
}

INLINE void act_lanes(float *y, v16 x, v16 a, enum ka_act act)
{
    float g[16], u[16];
    v16_store(g, x);
    v16_store(u, a);
    for (int l = 0; l < 16; l++)
        y[l] = act_one(g[l], u[l], act);
}

INLINE void act_mul_row(float *y, const float *x, const float *a, uint32_t n, enum ka_act act)
{
    float t[16];
    FOR16(n, i, act_lanes(y + i, v16_load(x + i), v16_load(a + i), act), {
        act_lanes(t, load_tail(x + i, n - i), load_tail(a + i, n - i), act);
        memcpy(y + i, t, (n - i) * sizeof *t);
    });
}

static void op_act_mul(float *y, const float *x, const float *a, uint32_t n, enum ka_act act)
{
    if (act == KA_SILU)
        act_mul_row(y, x, a, n, KA_SILU);
    else if (act == KA_GELU_TANH)
        act_mul_row(y, x, a, n, KA_GELU_TANH);
    else
        act_mul_row(y, x, a, n, KA_SWIGLU_OAI);
}

static float op_cutoff(const float *x, uint32_t n, float cut)
{
    v16 acc = v16_set(0.0f);
    FOR16(n, i, acc = v16_add(acc, v16_load(x + i)), acc = v16_add(acc, load_tail(x + i, n - i)));
    float mean = v16_sum(acc) / (float)n;
    v16 m = v16_set(mean);
    acc = v16_set(0.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        float d[16] = { 0 };
        if (i + 16 <= n)
            v16_store(d, v16_sub(v16_load(x + i), m));
        else
            store_tail(d, v16_sub(load_tail(x + i, n - i), m), n - i); /* zeros behind, as they are no elements */
        acc = v16_fma(v16_load(d), v16_load(d), acc);
    }
    return k_fma(cut, sqrtf(v16_sum(acc) / (float)n), mean);
}

static void op_above(float *y, const float *x, uint32_t n, float from)
{
    v16 f = v16_set(from), none = v16_set(0.0f);
    FOR16(n, i, v16_store(y + i, v16_max(v16_sub(v16_load(x + i), f), none)),
          store_tail(y + i, v16_max(v16_sub(load_tail(x + i, n - i), f), none), n - i));
}

static void op_match(float *y, const float *x, const float *like, const float *resid, uint32_t n, float scale)
{
    float own = sqrtf(sum_sq(x, n) / (float)n), other = sqrtf(sum_sq(like, n) / (float)n);
    v16 by = v16_set(other / (own > KA_MATCH_LEAST ? own : KA_MATCH_LEAST)), s = v16_set(scale), none = v16_set(0.0f);
    FOR16(n, i, {
        v16 rv = resid ? v16_load(resid + i) : none;
        v16_store(y + i, v16_mul(norm_lanes(v16_load(x + i), by, none, false, rv, resid), s));
    }, {
        v16 rv = resid ? load_tail(resid + i, n - i) : none;
        store_tail(y + i, v16_mul(norm_lanes(load_tail(x + i, n - i), by, none, false, rv, resid), s), n - i);
    });
}

INLINE v16 load_some(const float *p, uint32_t n)
{
    return n < 16 ? load_tail(p, n) : v16_load(p);
}
INLINE void store_some(float *p, v16 a, uint32_t n)
{
    if (n < 16)
        store_tail(p, a, n);
    else
        v16_store(p, a);
}

#define ALTUP_F32(va) ((float *)(uintptr_t)(va))

/* Elements [k, k + n) of every stream, n up to 16; c: the coefficients. */
INLINE void altup_lanes(const ka_altup *a, const float *c, size_t r, uint32_t k, uint32_t n)
{
    size_t at = r * a->n + k, rest = r * (KA_STREAMS - 1) * a->n + k;
    v16 s[KA_STREAMS], y[KA_STREAMS];
    s[0] = load_some(ALTUP_F32(a->x0) + at, n);
    for (size_t i = 1; i < KA_STREAMS && a->form != KA_ALTUP_FIRST; i++)
        s[i] = load_some(ALTUP_F32(a->x) + rest + (i - 1) * a->n, n);
    if (a->form == KA_ALTUP_PREDICT) {
        for (int i = 0; i < KA_STREAMS; i++) {
            y[i] = s[i];
            for (int j = 0; j < KA_STREAMS; j++)
                y[i] = v16_fma(v16_set(c[i * KA_STREAMS + j]), s[j], y[i]);
        }
    } else {
        v16 d = v16_sub(load_some(ALTUP_F32(a->a) + at, n), s[0]);
        y[0] = v16_fma(v16_set(1.0f + c[0]), d, s[0]);
        if (a->form == KA_ALTUP_FIRST)
            y[0] = v16_mul(y[0], load_some(ALTUP_F32(a->scale) + k, n));
        for (int i = 1; i < KA_STREAMS && a->form == KA_ALTUP_CORRECT; i++)
            y[i] = v16_add(v16_fma(v16_set(1.0f + c[i]), d, s[i]), load_some(ALTUP_F32(a->add) + at, n));
    }
    store_some(ALTUP_F32(a->y0) + at, y[0], n);
    for (size_t i = 1; i < KA_STREAMS && a->form != KA_ALTUP_FIRST; i++)
        store_some(ALTUP_F32(a->y) + rest + (i - 1) * a->n, y[i], n);
}

static void op_altup(const ka_altup *a, uint32_t r)
{
    uint32_t n_c = a->form == KA_ALTUP_PREDICT ? KA_STREAMS * KA_STREAMS : KA_STREAMS;
    const float *w = ALTUP_F32(a->w), *m = ALTUP_F32(a->m) + (size_t)r * KA_STREAMS;
    float c[KA_STREAMS * KA_STREAMS];
    for (uint32_t i = 0; i < n_c; i++, w += KA_STREAMS) {
        float v = w[0] * m[0];
        for (int j = 1; j < KA_STREAMS; j++)
            v = k_fma(w[j], m[j], v);
        c[i] = v * a->m_scale;
    }
    for (uint32_t k = 0; k < a->n; k += 16)
        altup_lanes(a, c, r, k, a->n - k < 16 ? a->n - k : 16);
}

static void op_mix(float *y, const float *o, size_t ldo, const uint32_t *idx, const uint32_t *ids, const float *w,
                   uint32_t k, const float *b, size_t ldb, const float *resid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t m = n - i < 16 ? n - i : 16;
        v16 s = v16_set(0.0f);
        for (uint32_t j = 0; j < k; j++) {
            v16 x = v16_load(o + idx[j] * ldo + i); /* a tile: padded */
            if (b)
                x = v16_add(x, load_tail(b + ids[j] * ldb + i, m));
            s = j ? v16_fma(v16_set(w[j]), x, s) : v16_mul(v16_set(w[j]), x);
        }
        if (resid)
            s = v16_add(s, load_tail(resid + i, m));
        store_tail(y + i, s, m);
    }
}

/* ---- rotary embedding and the KV cache ---- */

/* cs: n_rot / 2 cosines, then as many sines. */
INLINE void rotate(float *x, const float *cs, uint32_t n_rot, enum ka_rope kind)
{
    uint32_t half = n_rot / 2, i = 0;
    for (; kind == KA_ROPE_NEOX && i + 16 <= half; i += 16) {
        v16 c = v16_load(cs + i), s = v16_load(cs + half + i), x0 = v16_load(x + i), x1 = v16_load(x + half + i);
        v16_store(x + i, v16_sub(v16_mul(x0, c), v16_mul(x1, s)));
        v16_store(x + half + i, v16_add(v16_mul(x0, s), v16_mul(x1, c)));
    }
    uint32_t step = kind == KA_ROPE_NORM ? 2 : 1, apart = kind == KA_ROPE_NORM ? 1 : half;
    for (; i < half; i++) {
        float c = cs[i], s = cs[half + i], x0 = x[step * i], x1 = x[step * i + apart];
        x[step * i] = x0 * c - x1 * s;
        x[step * i + apart] = x0 * s + x1 * c;
    }
}

/* Where the cache's pieces lie, in bytes of a slot. K: groups [n_kv, n_ctx / 16] of [head_dim, 16], a lane is a
 * position; with blocks the group's codes, then its scales f16 [head_dim / 32, 16]. V: rows [n_kv, n_ctx] of [head_dim]; with
 * blocks the row's codes, then its scales f16 [head_dim / 32]. 4-bit codes of K: bytes [head_dim / 2, 16], dimension 2 i in
 * the low half; of V: 8 bytes for 16 dimensions, the first eight in the low halves. */
INLINE size_t k_group_at(enum ka_kv kv, uint32_t h, uint32_t pos, uint32_t n_ctx, uint32_t head_dim)
{
    return ((size_t)h * (n_ctx / 16) + pos / 16) * KA_KV_BYTES(kv, (size_t)head_dim * 16);
}
INLINE size_t v_row_at(enum ka_kv kv, uint32_t h, uint32_t pos, uint32_t n_ctx, uint32_t head_dim)
{
    return ((size_t)h * n_ctx + pos) * KA_KV_BYTES(kv, (size_t)head_dim);
}

/* Codes of a block, a byte each, and its scale. */
INLINE uint16_t block_store(enum ka_kv kv, const float *x, uint8_t q[KA_KV_BLOCK])
{
    return kv == KA_KV_Q8_0 ? kv_q8_store(x, (int8_t *)q) : kv4_store(kv, x, q);
}

INLINE void store_k(enum ka_kv kv, uint8_t *group, uint32_t lane, const float *k, uint32_t hd)
{
    uint16_t *scales = (uint16_t *)(group + KA_KV_CODES(kv, (size_t)hd * 16));
    uint8_t q[KA_KV_BLOCK];
    for (uint32_t d = 0; KA_KV_IS_BLOCKS(kv) && d < hd; d += KA_KV_BLOCK) {
        scales[d / KA_KV_BLOCK * 16 + lane] = block_store(kv, k + d, q);
        for (uint32_t i = 0; kv == KA_KV_Q8_0 && i < KA_KV_BLOCK; i++)
            group[(size_t)(d + i) * 16 + lane] = q[i];
        for (uint32_t i = 0; kv != KA_KV_Q8_0 && i < KA_KV_BLOCK; i += 2)
            group[(size_t)(d + i) / 2 * 16 + lane] = (uint8_t)(q[i] | q[i + 1] << 4);
    }
    for (uint32_t d = 0; !KA_KV_IS_BLOCKS(kv) && d < hd; d++) {
        size_t at = (size_t)d * 16 + lane;
        if (kv == KA_KV_F16)
            ((uint16_t *)group)[at] = f16_from_f32(k[d]);
        else if (kv == KA_KV_FP8)
            group[at] = (uint8_t)e4m3_from_f32(k[d]);
        else
            ((float *)group)[at] = k[d];
    }
}

INLINE void store_v(enum ka_kv kv, uint8_t *row, const float *v, uint32_t hd)
{
    uint16_t *scales = (uint16_t *)(row + KA_KV_CODES(kv, hd));
    uint8_t q[KA_KV_BLOCK];
    if (kv == KA_KV_F32)
        memcpy(row, v, hd * sizeof *v);
    for (uint32_t d = 0; kv == KA_KV_F16 && d < hd; d += 16)
        v16_store_h((uint16_t *)row + d, v16_load(v + d));
    for (uint32_t d = 0; kv == KA_KV_FP8 && d < hd; d++)
        row[d] = (uint8_t)e4m3_from_f32(v[d]);
    for (uint32_t d = 0; KA_KV_IS_BLOCKS(kv) && d < hd; d += KA_KV_BLOCK) {
        scales[d / KA_KV_BLOCK] = block_store(kv, v + d, q);
        if (kv == KA_KV_Q8_0)
            memcpy(row + d, q, sizeof q);
        for (uint32_t i = 0; kv != KA_KV_Q8_0 && i < KA_KV_BLOCK / 2; i++)
            row[d / 2 + i] = (uint8_t)(q[i / 8 * 16 + i % 8] | q[i / 8 * 16 + i % 8 + 8] << 4);
    }
}

static void op_rope_kv(const ka_rope_kv *a, const ka_row *row, uint32_t r, const float *cs)
{
    uint32_t hd = a->head_dim;
    float t[ATTN_MAX_DIM];
    const float *q_norm = (const float *)(uintptr_t)a->q_norm, *k_norm = (const float *)(uintptr_t)a->k_norm;
    for (uint32_t h = 0; h < a->n_head; h++) {
        float *q = (float *)(uintptr_t)a->q + (size_t)r * a->ldq + (size_t)h * a->q_hs;
        if (q_norm)
            op_norm(q, q, q_norm, NULL, hd, a->eps);
        rotate(q, cs, a->n_rot, a->rope);
        if (a->kv_type == KA_KV_ROT4)
            kv_rotate(q, hd, true);
        if (a->q_scale)
            op_scale(q, hd, ((const float *)(uintptr_t)a->q_scale)[row->pos / a->q_every]);
    }
    if (!a->k)
        return;
    uint8_t *kc = (uint8_t *)(uintptr_t)a->kc + row->slot * a->slot_bytes;
    uint8_t *vc = (uint8_t *)(uintptr_t)a->vc + row->slot * a->slot_bytes;
    for (uint32_t h = 0; h < a->n_kv; h++) {
        const float *k = (const float *)(uintptr_t)a->k + (size_t)r * a->ldk + (size_t)h * hd;
        const float *v = (const float *)(uintptr_t)a->v + (size_t)r * a->ldv + (size_t)h * hd;
        if (k_norm)
            op_norm(t, k, k_norm, NULL, hd, a->eps);
        else
            memcpy(t, k, hd * sizeof *t);
        rotate(t, cs, a->n_rot, a->rope);
        if (a->kv_type == KA_KV_ROT4)
            kv_rotate(t, hd, false);
        store_k(a->kv_type, kc + k_group_at(a->kv_type, h, row->pos, a->n_ctx, hd), row->pos % 16, t, hd);
        if (a->v_norm)
            op_norm(t, v, NULL, NULL, hd, a->eps);
        else
            memcpy(t, v, hd * sizeof *t);
        store_v(a->kv_type, vc + v_row_at(a->kv_type, h, row->pos, a->n_ctx, hd), t, hd);
    }
}

#include "oracle/ops_attn.h"
#include "oracle/ops_gdn.h"

/* ---- choosing ---- */

/* The k largest of x, ties to the lowest id; a NaN is never larger. */
INLINE void select_top(const float *x, uint32_t n, uint32_t k, uint32_t *ids)
{
    uint8_t taken[1024] = { 0 };
    for (uint32_t j = 0; j < k; j++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++)
            if (!taken[i] && (best == n || x[i] > x[best]))
                best = i;
        taken[best] = 1;
        ids[j] = best;
    }
}

/* x = exp(x - max x); returns the sum, 16 lanes and the tree. */
INLINE float exp_sum(float *x, uint32_t n)
{
    float m = x[0];
    for (uint32_t i = 1; i < n; i++)
        m = x[i] > m ? x[i] : m;
    v16 acc = v16_set(0.0f), mv = v16_set(m);
    FOR16(n, i, {
        v16 p = v16_exp(v16_sub(v16_load(x + i), mv));
        v16_store(x + i, p);
        acc = v16_add(acc, p);
    }, {
        v16 p = v16_exp(v16_sub(load_tail(x + i, n - i), mv));
        store_tail(x + i, p, n - i);
        acc = v16_add(acc, load_tail(x + i, n - i));
    });
    return v16_sum(acc);
}

static void op_topk(float *logits, uint32_t n, uint32_t k, enum ka_gating gating, float scale,
                    const float *expert_scale, uint32_t *ids, float *weights)
{
    float sum;
    if (gating == KA_SOFTMAX_TOPK) {
        float total = exp_sum(logits, n);
        for (uint32_t i = 0; i < n; i++)
            logits[i] /= total;
    }
    select_top(logits, n, k, ids);
    for (uint32_t j = 0; j < k; j++)
        weights[j] = logits[ids[j]];
    if (gating == KA_SOFTMAX_TOPK) {
        sum = 0.0f;
        for (uint32_t j = 0; j < k; j++)
            sum += weights[j];
        sum = sum > 0x1p-14f ? sum : 0x1p-14f;
    } else {
        sum = exp_sum(weights, k);
    }
    for (uint32_t j = 0; j < k; j++)
        weights[j] = weights[j] / sum * scale;
    for (uint32_t j = 0; expert_scale && j < k; j++)
        weights[j] *= expert_scale[ids[j]];
}

static uint32_t op_argmax(const float *x, uint32_t n, float *best)
{
    uint32_t at = 0;
    float m = -INFINITY;
    for (uint32_t i = 0; i < n; i += 16) { /* blocks that hold nothing larger are passed over */
        uint32_t end = n - i < 16 ? n : i + 16;
        int larger = 0;
        if (end - i == 16)
            for (uint32_t j = 0; j < 16; j++)
                larger |= x[i + j] > m;
        else
            larger = 1;
        for (uint32_t j = i; larger && j < end; j++)
            if (x[j] > m) {
                m = x[j];
                at = j;
            }
    }
    *best = m;
    return at;
}

/* At any address. */
typedef float f32x8 __attribute__((vector_size(32), aligned(4)));
typedef double f64x8 __attribute__((vector_size(64), aligned(8)));

static double op_dot64(const float *w, const double *x, uint32_t n)
{
    f64x8 acc = { 0 };
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        acc += __builtin_convertvector(*(const f32x8 *)(w + i), f64x8) * *(const f64x8 *)(x + i);
    for (; i < n; i++)
        acc[0] += (double)w[i] * x[i];
    return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

static float op_sigmoid(float x)
{
    return k_sigmoid(x);
}

const struct cpu_ops OPS = {
    .norm = op_norm,
    .add = op_add,
    .act_mul = op_act_mul,
    .cutoff = op_cutoff,
    .above = op_above,
    .match = op_match,
    .altup = op_altup,
    .scale = op_scale,
    .embed = op_embed,
    .finish = op_finish,
    .gate = op_gate,
    .rope_kv = op_rope_kv,
    .attn = op_attn,
    .attn_merge = op_attn_merge,
    .gdn_conv = op_gdn_conv,
    .gdn_step = op_gdn_step,
    .gdn_gate = op_gdn_gate,
    .topk = op_topk,
    .mix = op_mix,
    .argmax = op_argmax,
    .sigmoid = op_sigmoid,
    .dot64 = op_dot64,
    .isa = OPS_ISA,
};
