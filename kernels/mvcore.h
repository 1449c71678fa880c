/* kernels/mvcore.h
 * What the decode products of kernels/matvec.c share: a warp takes tiles of output rows, keeps the
 * next items of weights on their way in registers while it multiplies the present ones, and adds up its lanes' sums
 * at the end of a tile.
 *
 * A tile is T slots for rows, each as many rows as stand side by side in a warp; with pairs (gate and up) slot t is
 * row t / 2 of matrix t % 2. C steps of a tile are in flight together. R rows of x. T, C, R and the weights' type
 * are constants wherever these functions are called. A row's sum has the same order for every T, C and R: a lane
 * adds its items in ascending order, then lanes are added 1, 2, 4, 8, 16 apart. */
#ifndef ZINC_KERNELS_MVCORE_H
#define ZINC_KERNELS_MVCORE_H

#include "kernels/wdot.h"
#include "kernels/xquant.h"

enum {
    MV_PREFETCH_BYTES = 16 << 10, /* of weights that a warp asks for ahead, into the level-2 cache */
    MV_PREFETCH_TILES = 8,
    MV_LINE = 128
};

/* Numbers that the compiler does not see through. An address that is one is not computed for all rows beforehand, and
 * sums that are stay in the order that they are written in: otherwise registers fill up with what waits for them. */
KD_FN uint32_t mv_opaque(uint32_t v)
{
#if defined(__NVPTX__)
    __asm__ volatile("" : "+r"(v));
#elif defined(__AMDGCN__)
    __asm__ volatile("" : "+v"(v));
#endif
    return v;
}
KD_FN float mv_pinned(float v)
{
#if defined(__NVPTX__)
    __asm__ volatile("" : "+f"(v));
#elif defined(__AMDGCN__)
    __asm__ volatile("" : "+v"(v));
#endif
    return v;
}

/* ---- x ---- */

/* A layout as the kernels of a set have it; type: QSET_ALONE. */
KD_FN struct mv_x mv_x_own(uint32_t type, struct mv_x l)
{
    uint32_t book = KD_PICKS ? mv_book_bytes(type) : 0;
    l.book = book != 0;
    l.nibbles = KD_PICKS && wd_is_nibbles(type) ? 4 * wd_sub_words(type) : 0;
    l.q += book, l.meta += book, l.f += book, l.end += book;
    return l;
}

/* The codebook; xq_prepare's and mo_prepare's barriers follow. */
KD_FN void mv_book(uint32_t type)
{
    if (KD_PICKS)
        wk_book(type);
}

/* A run of x that shares a scale. */
struct mv_run_x {
    uint32_t q[WD_SUB_WORDS];
    float d;
    int32_t sum;
};

KD_FN void mv_get4(uint32_t *q, uint32_t at)
{
    kd_u32x4 v = *KD_SHARED_AT(const kd_u32x4, at);
    q[0] = v[0], q[1] = v[1], q[2] = v[2], q[3] = v[3];
}

KD_FN void mv_meta(uint32_t type, uint32_t i, uint32_t d, uint32_t sums, struct mv_run_x *x)
{
    x->d = f32_from_bits(d);
    x->sum = wd_is_k(type) ? kd_half(sums, i & 1) : kd_half(sums, 0) + kd_half(sums, 1);
}

/* Run s of item i of the row at byte `row` behind the first. */
KD_FN void mv_x_run(uint32_t type, const struct mv_x *l, uint32_t row, uint32_t i, uint32_t s, struct mv_run_x *x)
{
    uint32_t q = l->q + row, run = i * wd_subs(type) + s;
    uint32_t block = wd_is_k(type) ? (i >> 1) * 4 + s : wd_run(type) == 16 ? run >> 1 : run;
    if (wd_is_k(type)) {
        mv_get4(x->q, q + s * l->q_stride + i * 16);
    } else if (wd_run(type) == 16) {
        mv_get4(x->q, q + (block & 3) * l->q_stride + (block >> 2) * 32 + (run & 1) * 16);
    } else {
        mv_get4(x->q, q + (block & 3) * l->q_stride + (block >> 2) * 32);
        mv_get4(x->q + 4, q + (block & 3) * l->q_stride + (block >> 2) * 32 + 16);
    }
    kd_u32x2 meta = *KD_SHARED_AT(const kd_u32x2, l->meta + row + block * 8);
    mv_meta(type, i, meta[0], meta[1], x);
}

KD_FN void mv_x_floats(uint32_t type, const struct mv_x *l, uint32_t row, uint32_t i, float x[8])
{
    kd_f32x4 v;
    if (type == QT_F32) {
        v = *KD_SHARED_AT(const kd_f32x4, l->f + row + (i & 1) * l->f_stride + (i >> 1) * 16);
        x[0] = v[0], x[1] = v[1], x[2] = v[2], x[3] = v[3];
        return;
    }
    v = *KD_SHARED_AT(const kd_f32x4, l->f + row + i * 16);
    x[0] = v[0], x[1] = v[1], x[2] = v[2], x[3] = v[3];
    v = *KD_SHARED_AT(const kd_f32x4, l->f + row + l->f_stride + i * 16);
    x[4] = v[0], x[5] = v[1], x[6] = v[2], x[7] = v[3];
}

/* ---- the dot product of an item ---- */

/* Codes of a run may be 2^mv_shift times too large, or bytes without a sign: what saves instructions to open them. An integer sum
 * is started at the bits of a float whose last place is worth 1, or so much less, and is that float plus the sum when it ends. */
KD_FN uint32_t mv_shift(uint32_t type, uint32_t s)
{
    switch (type) {
    case QT_Q4_K: return 4 * (s & 1);
    case QT_Q2_K: case QT_TQ2_0: return 2 * s;
    case QT_Q3_K: return s < 3 ? 2 * s : 4;
    case QT_Q6_K: return s < 3 ? 0 : 2;
    default: return 0;
    }
}
KD_FN bool mv_unsigned(uint32_t type) { return mv_shift(type, 3) && type != QT_Q3_K; }
KD_FN float mv_magic(uint32_t type, uint32_t s) { return 12582912.0f / (float)(1u << mv_shift(type, s)); }
KD_FN int32_t mv_start(uint32_t type, uint32_t s, int32_t sum)
{
    return (int32_t)f32_bits(mv_magic(type, s)) + wd_bias(type, s) * sum * (1 << mv_shift(type, s));
}

/* Run s of an item: the words that meet x, by which order and codebook l says, and the factors. */
KD_FN void mv_open(uint32_t type, const struct mv_x *l, const uint32_t *w, const struct wd_scale *c, uint32_t gi, uint32_t s,
                   uint32_t *q, float *dw, float *mw)
{
    if (l->nibbles || l->book || type == QT_TQ2_0)
        *dw = wd_factor(type, w, c, gi, s), *mw = c->m;
    uint32_t zero = l->n_pad & kd_lane() & 1; /* n_pad is even */
    if (l->nibbles) {
        wd_open_nibbles(type, w, s, zero, q);
    } else if (l->book) {
        wk_open(type, true, wd_sub_words(type), w, s, zero, q);
    } else if (type == QT_TQ2_0) {
        KD_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            q[k] = w[k] & 0x03030303u << 2 * s;
    } else {
        wd_open(type, w, c, gi, s, q, dw, mw);
        const uint32_t by = mv_shift(type, s), left = 2 * s - by; /* left: what is still to be shifted */
        KD_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            if (type == QT_Q2_K)
                q[k] = w[k] & 0x03030303u << by;
            if (type == QT_Q3_K)
                q[k] = (w[k] >> left & 0x03030303u << by) | (w[4 + k] >> (gi & 2) * 2 << (2 + by - s) & 0x04040404u << by);
            if (type == QT_Q6_K && s == 3)
                q[k] = (w[4 + k] >> 2 & 0x3c3c3c3cu) | (w[8 + k] & 0xc0c0c0c0u);
        }
    }
}

/* A run's integer sum as a float. words: twice those of x where two meet each; they are added apart, as an addition waits for
 * the one before it. */
KD_FN float mv_sum_run(uint32_t type, uint32_t s, uint32_t words, const uint32_t *q, const struct mv_run_x *x)
{
    const uint32_t n = wd_sub_words(type);
    int32_t sum = mv_start(type, s, x->sum), other = 0;
    KD_UNROLL
    for (uint32_t k = 0; k < WD_SUB_WORDS; k++) {
        if (k < n)
            sum = mv_unsigned(type) ? kd_dot4u(q[k], x->q[k], sum) : kd_dot4(q[k], x->q[k], sum);
        if (k + n < words)
            other = kd_dot4(q[k + n], x->q[k], other);
    }
    return f32_from_bits((uint32_t)(sum + other)) - mv_magic(type, s);
}

KD_FN float mv_dot_run(uint32_t type, uint32_t s, uint32_t words, const uint32_t *q, float dw, float mw, const struct mv_run_x *x,
                       float acc)
{
    acc = k_fma(dw * x->d, mv_sum_run(type, s, words, q, x), acc);
    return wd_has_min(type) ? k_fma(mw, x->d * (float)x->sum, acc) : acc;
}

KD_FN float mv_dot_floats(uint32_t type, const uint32_t *w, const float *x, float acc)
{
    KD_UNROLL
    for (uint32_t e = 0; e < 8; e++)
        if (e < mv_item_elems(type))
            acc = k_fma(wd_float(type, w, e), x[e], acc);
    return acc;
}

KD_FN float mv_code(uint32_t type, uint32_t codes, uint32_t s)
{
    float c = type == QT_Q6_K ? kd_signed_byte_f32(codes, s) : kd_byte_f32(codes, s);
    return type == QT_Q3_K ? c - 32.0f : c;
}

/* What comes next into a slot's words: item i of the row whose planes are at p, where `is`. */
struct mv_refill {
    const gpu_va (*p)[PLANES_MAX]; /* [slots] */
    uint32_t i;
    bool is;
};
KD_FN void mv_refill(uint32_t type, uint32_t T, uint32_t part, const struct mv_refill *next, uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t t = 0; t < T; t++)
        wd_load_part(type, part, false, next->is, w[t], next->p[t], next->i);
}

/* Word k of run s of piece p, of a type by blocks. Q4_K's high nibbles stay where they are, bytes without a sign. */
KD_FN uint32_t mv_open_blocks(uint32_t type, const uint32_t *w, uint32_t gi, uint32_t p, uint32_t s, uint32_t k)
{
    if (type == QT_Q4_K)
        return w[4 * p + k] & (s ? 0xf0f0f0f0u : 0x0f0f0f0fu);
    uint32_t high = w[12 + k] >> (gi & 2) * 2; /* bits 0 to 3: the item's runs */
    return (w[4 * p + k] >> 4 * s & 0x0f0f0f0fu) | (high << (4 - 2 * p - s) & 0x10101010u);
}

/* The types by blocks: what mv_dot_k does with scales at hand. A run of weights is a block of x, of which neighbouring lanes have a
 * half each, for two pairs of runs: they give each other the integer sums of the pair that is not theirs, so that what follows a sum
 * is done for each block once. All lanes of the warp take part. */
KD_FN void mv_dot_blocks(uint32_t type, uint32_t T, uint32_t R, uint32_t (*w)[WD_WORDS], const struct wd_scale *sc, uint32_t iw,
                         uint32_t ix, const struct mv_x *l, float *acc, const struct mv_refill *next)
{
    const bool odd = ix & 1;
    int32_t sum[2][2][16]; /* [pair][run][slot and row] */
    uint32_t row;
    KD_UNROLL
    for (uint32_t p = 0; p < 2; p++) {
        uint32_t q[2][4][4];
        row = 0;
        KD_UNROLL
        for (uint32_t t = 0; t < T; t++)
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                q[0][t][k] = mv_open_blocks(type, w[t], iw, p, 0, k), q[1][t][k] = mv_open_blocks(type, w[t], iw, p, 1, k);
        if (next)
            mv_refill(type, T, 1 + p, next, w);
        KD_UNROLL
        for (uint32_t r = 0; r < R; r++) {
            KD_UNROLL
            for (uint32_t s = 0; s < 2; s++) {
                uint32_t x[4];
                mv_get4(x, l->q + row + (2 * p + s) * l->q_stride + ix * 16);
                KD_UNROLL
                for (uint32_t t = 0; t < T; t++) {
                    int32_t v = odd == (p == 1) ? mv_start(type, s, 0) : 0; /* of its own */
                    KD_UNROLL
                    for (uint32_t k = 0; k < 4; k++)
                        v = mv_unsigned(type) ? kd_dot4u(q[s][t][k], x[k], v) : kd_dot4(q[s][t][k], x[k], v);
                    sum[p][s][t * R + r] = v;
                }
            }
            if (R > 1)
                row = mv_opaque(row + (r < l->last ? l->q_row : 0));
        }
    }
    row = 0;
    KD_UNROLL
    for (uint32_t r = 0; r < R; r++) {
        kd_u32x4 meta = *KD_SHARED_AT(const kd_u32x4, l->meta + row + ix * 16);
        float d[2], by_sum[2];
        KD_UNROLL
        for (uint32_t s = 0; s < 2; s++) {
            d[s] = f32_from_bits(meta[2 * s]);
            by_sum[s] = d[s] * (float)(kd_half(meta[2 * s + 1], 0) + kd_half(meta[2 * s + 1], 1));
        }
        if (R > 1)
            row = mv_opaque(row + (r < l->last ? l->q_row : 0));
        KD_UNROLL
        for (uint32_t t = 0; t < T; t++) {
            uint32_t i = t * R + r;
            float sum_d = 0.0f, sum_m = 0.0f;
            KD_UNROLL
            for (uint32_t s = 0; s < 2; s++) {
                int32_t own = odd ? sum[1][s][i] : sum[0][s][i], other = odd ? sum[0][s][i] : sum[1][s][i];
                float v = f32_from_bits((uint32_t)own + kd_shfl_xor_u32((uint32_t)other, 1)) - mv_magic(type, s);
                sum_d = k_fma(mv_code(type, sc[t].sc, s), v * d[s], sum_d);
                sum_m = k_fma(mv_code(type, sc[t].mn, s), by_sum[s], sum_m);
            }
            acc[i] = k_fma(sc[t].d, sum_d, acc[i]);
            acc[i] = k_fma(sc[t].m, sum_m, acc[i]);
        }
    }
}

/* K types: T slots and R rows. The runs' sums are weighted by their codes, and by d and the minimum's factor once for
 * the item. next, or NULL: what the words are filled with again, as soon as they are open. */
KD_FN void mv_dot_k(uint32_t type, uint32_t T, uint32_t R, uint32_t (*w)[WD_WORDS], uint32_t iw, uint32_t ix,
                    const struct mv_x *l, float *acc, const struct mv_refill *next)
{
    struct wd_scale sc[4];
    float sum_d[16], sum_m[16];
    KD_UNROLL
    for (uint32_t t = 0; t < T; t++)
        sc[t] = wd_scale(type, w[t], iw);
    if (next)
        mv_refill(type, T, 0, next, w);
    if (wd_by_blocks(type)) {
        mv_dot_blocks(type, T, R, w, sc, iw, ix, l, acc, next);
        return;
    }
    KD_UNROLL
    for (uint32_t i = 0; i < T * R; i++)
        sum_d[i] = sum_m[i] = 0.0f;
    KD_UNROLL
    for (uint32_t s = 0; s < WD_SUBS; s++) {
        uint32_t q[4][WD_SUB_WORDS], row = 0;
        float code_d[4], code_m[4];
        KD_UNROLL
        for (uint32_t t = 0; t < T; t++) {
            float dw, mw;
            mv_open(type, l, w[t], &sc[t], iw, s, q[t], &dw, &mw);
            code_d[t] = mv_code(type, sc[t].sc, s);
            code_m[t] = mv_code(QT_Q4_K, sc[t].mn, s);
        }
        KD_UNROLL
        for (uint32_t r = 0; r < R; r++) {
            struct mv_run_x x;
            mv_x_run(type, l, row, ix, s, &x);
            if (R > 1)
                row = mv_opaque(row + (r < l->last ? l->q_row : 0));
            float by_sum = wd_has_min(type) ? x.d * (float)x.sum : 0.0f;
            KD_UNROLL
            for (uint32_t t = 0; t < T; t++) {
                float v = mv_sum_run(type, s, 4, q[t], &x) * x.d;
                sum_d[t * R + r] = k_fma(code_d[t], v, sum_d[t * R + r]);
                if (wd_has_min(type))
                    sum_m[t * R + r] = k_fma(code_m[t], by_sum, sum_m[t * R + r]);
            }
        }
        if (next && s == wd_part_run(type))
            mv_refill(type, T, 1, next, w);
        if (next && s + 1 == WD_SUBS)
            mv_refill(type, T, 2, next, w);
    }
    KD_UNROLL
    for (uint32_t t = 0; t < T; t++) {
        KD_UNROLL
        for (uint32_t r = 0; r < R; r++) {
            acc[t * R + r] = k_fma(sc[t].d, sum_d[t * R + r], acc[t * R + r]);
            if (wd_has_min(type))
                acc[t * R + r] = k_fma(sc[t].m, sum_m[t * R + r], acc[t * R + r]);
        }
    }
}

/* T slots and R rows: weights are opened once, x is read once for all slots. Adds to acc [T][R]. All lanes of a warp call it. iw: the
 * item that the weights are of, ix: where its x lies. */
KD_FN void mv_dot_rows(uint32_t type, uint32_t T, uint32_t R, const uint32_t (*w)[WD_WORDS], uint32_t iw, uint32_t ix,
                       const struct mv_x *l, float *acc)
{
    if (mv_is_float(type)) {
        uint32_t row = 0;
        KD_UNROLL
        for (uint32_t r = 0; r < R; r++) {
            float xf[8];
            mv_x_floats(type, l, row, ix, xf);
            row = mv_opaque(row + (r < l->last ? l->f_row : 0));
            KD_UNROLL
            for (uint32_t t = 0; t < T; t++)
                acc[t * R + r] = mv_pinned(mv_dot_floats(type, w[t], xf, acc[t * R + r]));
        }
        return;
    }
    if (wd_is_k(type)) {
        mv_dot_k(type, T, R, (uint32_t(*)[WD_WORDS])w, iw, ix, l, acc, 0);
        return;
    }
    const uint32_t words = wd_sub_words(type) * (l->nibbles ? 2 : 1);
    struct wd_scale sc[4];
    KD_UNROLL
    for (uint32_t t = 0; t < T; t++)
        sc[t] = wd_scale(type, w[t], iw);
    KD_UNROLL
    for (uint32_t s = 0; s < wd_subs(type); s++) {
        uint32_t q[4][WD_OPEN_WORDS], row = 0;
        float dw[4], mw[4];
        KD_UNROLL
        for (uint32_t t = 0; t < T; t++)
            mv_open(type, l, w[t], &sc[t], iw, s, q[t], &dw[t], &mw[t]);
        KD_UNROLL
        for (uint32_t r = 0; r < R; r++) {
            struct mv_run_x x;
            mv_x_run(type, l, row, ix, s, &x);
            if (R > 1)
                row = mv_opaque(row + (r < l->last ? l->q_row : 0));
            KD_UNROLL
            for (uint32_t t = 0; t < T; t++)
                acc[t * R + r] = mv_pinned(mv_dot_run(type, s, words, q[t], dw[t], mw[t], &x, acc[t * R + r]));
        }
    }
}

/* ---- adding up ---- */

/* Sums v over the `lanes` lanes that share rows. Values come in n groups of `keep`; where there are several groups,
 * neighbouring lanes end with different ones: v then starts with the *left groups from *first on, which lanes
 * il < mv_holders(n) hold. */
KD_FN void mv_reduce(uint32_t n, uint32_t keep, float *v, uint32_t lanes, uint32_t *first, uint32_t *left)
{
    *first = 0;
    KD_UNROLL
    for (uint32_t m = 1; m <= 2; m *= 2) {
        bool upper = kd_lane() & m;
        if (n > 1) {
            n /= 2;
            *first += upper ? n : 0;
            KD_UNROLL
            for (uint32_t i = 0; i < n * keep; i++) {
                float lo = v[i], hi = v[i + n * keep];
                v[i] = (upper ? hi : lo) + kd_shfl_xor_f32(upper ? lo : hi, m);
            }
        } else {
            KD_UNROLL
            for (uint32_t i = 0; i < keep; i++)
                v[i] += kd_shfl_xor_f32(v[i], m);
        }
    }
    KD_UNROLL
    for (uint32_t m = 4; m <= 16; m *= 2)
        if (m < lanes) {
            KD_UNROLL
            for (uint32_t i = 0; i < n * keep; i++)
                v[i] += kd_shfl_xor_f32(v[i], m);
        }
    *left = n;
}
KD_FN uint32_t mv_holders(uint32_t n) { return n >= 4 ? 4 : n; }
KD_FN uint32_t mv_left(uint32_t n) { return n >= 4 ? n / 4 : 1; }

/* ---- what follows a product ---- */

/* Rows of y: ld apart. pairs: y = act(v0 + b0, v1 + b1), else MATMUL's ending. */
struct mv_out {
    gpu_va y, wscale[2], b[2], scale, resid;
    uint64_t ld, ldr;
    uint32_t n_out, rows, row0, act;
    float softcap;
    bool pairs;
};

/* It waits in shared memory, one for each matrix of a command, so that it takes no registers from the product. */
enum { MV_OUT_AT = 512 };
_Static_assert(MV_OUT_AT + 4 * sizeof(struct mv_out) <= MV_HEAD_BYTES, "the head of shared memory");
KD_FN void mv_out_put(uint32_t m, const struct mv_out *o)
{
    if (kd_tid() == 0)
        *KD_SHARED_AT(struct mv_out, MV_OUT_AT + m * sizeof *o) = *o;
}
KD_FN struct mv_out mv_out_get(uint32_t m)
{
    return *KD_SHARED_AT(const struct mv_out, mv_opaque(MV_OUT_AT + m * (uint32_t)sizeof(struct mv_out)));
}

/* What a result will be combined with, read while the product is on its way. */
struct mv_epilogue {
    float own[2], b[2], resid[2], scale; /* own: the matrix's number, or those of gate and up */
};

/* Output row `row` (and row2, without pairs) of row r of x. */
KD_FN void mv_epilogue_load(const struct mv_out *o, uint32_t row, uint32_t row2, uint32_t r, struct mv_epilogue *w)
{
    *w = (struct mv_epilogue){ { 1.0f, 1.0f }, { 0.0f, 0.0f }, { 0.0f, 0.0f }, 0.0f };
    if (r >= o->rows)
        return;
    uint64_t at = o->row0 + r;
    KD_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        gpu_va own = o->wscale[o->pairs ? k : 0];
        if (own)
            w->own[k] = *KD_PTR(const float, own);
        uint32_t n = k && !o->pairs ? row2 : row;
        if (n >= o->n_out)
            continue;
        gpu_va b = o->pairs ? o->b[k] : o->b[0];
        w->b[k] = b ? KD_PTR(const float, b)[n] : 0.0f;
        w->resid[k] = o->resid ? KD_PTR(const float, o->resid)[at * o->ldr + n] : 0.0f;
    }
    w->scale = o->scale ? KD_PTR(const float, o->scale)[at] : 0.0f;
}

/* act(g, u), or the soft cap of g: kernels/mathf.h's functions around one exp. */
KD_FN float mv_activate(const struct mv_out *o, float g, float u)
{
    float c = g > 7.0f ? 7.0f : g, t = g / o->softcap, at = -g;
    if (o->pairs && o->act == KA_SWIGLU_OAI)
        at = -1.702f * c;
    if (o->pairs && o->act == KA_GELU_TANH)
        t = 0.79788456f * g * k_fma(0.044715f * g, g, 1.0f);
    bool tanh = !o->pairs || o->act == KA_GELU_TANH;
    float e = k_exp(tanh ? 2.0f * (t < 0.0f ? -t : t) : at), h = 1.0f - k_over(2.0f, e);
    h = t < 0.0f ? -h : h;
    if (!o->pairs)
        return o->softcap * h;
    if (tanh)
        return 0.5f * g * (1.0f + h) * u;
    if (o->act == KA_SILU)
        return k_over(g, e) * u;
    u = u > 7.0f ? 7.0f : u < -7.0f ? -7.0f : u;
    return k_over(c, e) * (u + 1.0f);
}

/* Two results of row r of x: of output rows row and row2, or a pair's. */
KD_FN void mv_store(const struct mv_out *o, float v0, float v1, uint32_t row, uint32_t row2, uint32_t r,
                    const struct mv_epilogue *w)
{
    KD_GLOBAL float *y = KD_PTR(float, o->y) + (o->row0 + r) * o->ld;
    if (r >= o->rows)
        return;
    WD_ROLLED
    for (uint32_t k = 0; k < (o->pairs ? 1 : 2); k++) {
        uint32_t n = k ? row2 : row;
        float v = k ? v1 * w->own[1] : v0 * w->own[0], u = v1 * w->own[1];
        if (o->b[0])
            v += k ? w->b[1] : w->b[0];
        if (o->pairs && o->b[1])
            u += w->b[1];
        if (o->scale)
            v *= w->scale;
        if (o->resid)
            v += k ? w->resid[1] : w->resid[0];
        if (o->pairs || o->softcap > 0.0f)
            v = mv_activate(o, v, u);
        if (n < o->n_out)
            y[n] = v;
    }
}

/* ---- a matrix, or a pair of one type ---- */

struct mv_job {
    struct wd_mat m;
    uint64_t second; /* bytes from it to the other matrix of pairs, or 0 */
    struct mv_geom g;
    uint32_t abreast, side, il; /* rows side by side in a warp; this lane's among them, and its place in the row */
    uint32_t n_out;
    bool pairs;
};

KD_FN struct mv_job mv_job(uint32_t type, gpu_va w0, gpu_va w1, uint32_t n_out, uint32_t n_in, bool pairs)
{
    struct mv_job j = { .g = mv_geom(type, n_in), .n_out = n_out, .pairs = pairs };
    j.m = wd_mat(type, w0, n_out, n_in);
    j.second = pairs ? w1 - w0 : 0;
    j.abreast = KD_WARP / j.g.lanes;
    j.side = kd_lane() / j.g.lanes;
    j.il = kd_lane() % j.g.lanes;
    return j;
}

KD_FN uint32_t mv_tile_rows(const struct mv_job *j, uint32_t T) { return (j->pairs ? T / 2 : T) * j->abreast; }
KD_FN uint32_t mv_tiles(const struct mv_job *j, uint32_t T) { return kd_div_up(j->n_out, mv_tile_rows(j, T)); }
/* This lane's row of slot t; it may lie behind the last. */
KD_FN uint32_t mv_row(const struct mv_job *j, uint32_t T, uint32_t tile, uint32_t t)
{
    return tile * mv_tile_rows(j, T) + (j->pairs ? t >> 1 : t) * j->abreast + j->side;
}

KD_FN void mv_fetch(uint32_t type, const struct mv_job *j, uint32_t T, uint32_t tile, uint32_t step, uint32_t t,
                    uint32_t *w)
{
    uint32_t row = kd_min_u32(mv_row(j, T, tile, t), j->n_out - 1);
    uint32_t i = kd_min_u32(step * j->g.lanes + j->il, j->g.items - 1);
    struct wd_mat m = j->m;
    KD_UNROLL
    for (uint32_t f = 0; f < PLANES_MAX; f++)
        m.p[f] += t & 1 ? j->second : 0;
    wd_load(type, false, w, &m, row * j->g.items + i);
}

/* Slots of a lane: fewer where several rows of x want registers too. */
KD_FN uint32_t mv_slots(uint32_t type, bool one)
{
    return one || wd_slots(type) == 2 ? wd_slots(type) : wd_slots(type) / 2;
}

/* Fills S slots for a tile's first steps. */
KD_FN void mv_fill(uint32_t type, uint32_t S, const struct mv_job *j, uint32_t T, uint32_t tile,
                   uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t k = 0; k < WD_SLOTS; k++)
        if (k < S && k / T < j->g.steps)
            mv_fetch(type, j, T, tile, k / T, k % T, w[k]);
}

/* Asks for all lines of a tile. */
KD_FN void mv_prefetch(uint32_t type, const struct mv_job *j, uint32_t T, uint32_t tile)
{
    uint32_t rows = mv_tile_rows(j, T), from = tile * rows;
    if (from >= j->n_out)
        return;
    rows = kd_min_u32(rows, j->n_out - from);
    struct planes p = planes_of((enum qtype)type);
    uint32_t blocks = j->m.n_in / qtype_block((enum qtype)type);
    KD_UNROLL
    for (uint32_t f = 0; f < PLANES_MAX; f++) {
        uint32_t len = mv_is_float(type) ? (f ? 0 : qtype_block_bytes((enum qtype)type)) : p.f[f].len;
        uint32_t bytes = rows * blocks * len;
        gpu_va at = j->m.p[f] + (uint64_t)from * blocks * len;
        if (len)
            for (uint32_t o = kd_lane() * MV_LINE; o < bytes; o += KD_WARP * MV_LINE) {
                kd_prefetch(KD_PTR(const void, at + o));
                if (j->pairs)
                    kd_prefetch(KD_PTR(const void, at + o + j->second));
            }
    }
}

/* Tiles ahead of the present one that are asked for. */
KD_FN uint32_t mv_ahead(uint32_t type, const struct mv_job *j, uint32_t T)
{
    uint32_t bytes = T * j->abreast * (uint32_t)qtype_row_bytes((enum qtype)type, j->m.n_in);
    return kd_max_u32(kd_min_u32(MV_PREFETCH_BYTES / bytes, MV_PREFETCH_TILES), 1);
}

/* Multiplies tiles `tile`, tile + stride, ... and stores them as the out-th mv_out says. loaded: w holds the first
 * tile's first steps. */
KD_FN void mv_stream(uint32_t type, uint32_t T, uint32_t R, const struct mv_job *j, const struct mv_x *l,
                     uint32_t out, uint32_t tile, uint32_t stride, uint32_t (*w)[WD_WORDS], bool loaded)
{
    const uint32_t S = mv_slots(type, R == 1), C = S / T, keep = T > 1 ? 2 : 1, groups = T * R / keep;
    uint32_t tiles = mv_tiles(j, T), steps = j->g.steps, lanes = j->g.lanes, ahead = mv_ahead(type, j, T);
    if (!loaded && tile < tiles)
        mv_fill(type, S, j, T, tile, w);
    for (uint32_t next; tile < tiles; tile = next) {
        float acc[8 * 4];
        KD_UNROLL
        for (uint32_t i = 0; i < T * R; i++)
            acc[i] = 0.0f;
        next = tile + stride;
        mv_prefetch(type, j, T, tile + (ahead + 1) * stride);
        /* a group of results: slots 2 (g / R) and the next one, row g % R */
        uint32_t left, first = groups > 1 ? j->il & 1 : 0; /* for R = 1 */
        bool holder = j->il < mv_holders(groups);
        struct mv_epilogue with;
        if (R == 1 && holder) {
            struct mv_out o = mv_out_get(out);
            mv_epilogue_load(&o, mv_row(j, T, tile, first * keep), mv_row(j, T, tile, first * keep + 1), 0, &with);
        }
        for (uint32_t s0 = 0; s0 < steps; s0 += C) {
            bool last = s0 + C >= steps;
            uint32_t then = last ? next : tile, from = last ? 0 : s0 + C;
            bool more = then < tiles;
            KD_UNROLL
            for (uint32_t c = 0; c < C; c++) {
                if (s0 + c < steps) {
                    uint32_t ix = (s0 + c) * lanes + j->il, iw = kd_min_u32(ix, j->g.items - 1);
                    mv_dot_rows(type, T, R, (const uint32_t(*)[WD_WORDS])(w + c * T), iw, ix, l, acc);
                }
                if (more && from + c < steps) {
                    KD_UNROLL
                    for (uint32_t t = 0; t < T; t++)
                        mv_fetch(type, j, T, then, from + c, t, w[c * T + t]);
                }
            }
        }
        float v[8 * 4];
        KD_UNROLL
        for (uint32_t t = 0; t < T; t++) {
            KD_UNROLL
            for (uint32_t r = 0; r < R; r++)
                v[((t / keep) * R + r) * keep + t % keep] = acc[t * R + r];
        }
        mv_reduce(groups, keep, v, lanes, &first, &left);
        if (holder) {
            struct mv_out o = mv_out_get(out);
            KD_UNROLL
            for (uint32_t g = 0; g < mv_left(groups); g++) {
                uint32_t t = (first + g) / R * keep, r = (first + g) % R, row = mv_row(j, T, tile, t);
                uint32_t row2 = keep == 2 ? mv_row(j, T, tile, t + 1) : o.n_out;
                if (R > 1)
                    mv_epilogue_load(&o, row, row2, r, &with);
                mv_store(&o, v[g * keep], keep == 2 ? v[g * keep + 1] : 0.0f, row, row2, r, &with);
            }
        }
    }
}

#endif
