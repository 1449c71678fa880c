/* oracle/mm_avx2_rows.h: products of several rows of x with plain AVX2, for oracle/mm_avx2.h.
 *
 * A range of a panel is opened once (struct opened), then up to four rows pass over it at a time. A tile is these rows by the
 * panel's 16: per group of four elements two vectors of weights meet a broadcast of each row, so that eight products take six
 * loads. Their sums take half of the sixteen registers, which is why the rows' totals wait in y.
 *
 *              w[g] rows 0..7     w[g] rows 8..15
 *     x[0][g]  part[0][0]         part[0][1]
 *     ...                                          one VPMADDUBSW and one addition each
 *     x[3][g]  part[3][0]         part[3][1]
 *
 * Codes are opened as small as they go: q = mul * u - off. Where runs of 16 have scales, these are the factors with which sums of
 * 16 bits are widened (VPMADDWD), and the sum of both runs is converted once: integers below 2^24, so that it is what the
 * canonical sum in floats is. */
#ifndef ZINC_ORACLE_MM_AVX2_ROWS_H
#define ZINC_ORACLE_MM_AVX2_ROWS_H

#include "oracle/mm_block.h"

struct opened {
    uint32_t w[8][16];       /* [k / 4][row], 4 bytes each                                               */
    float dw[16], mw[16];    /* as in struct mm_xblk                                                     */
    uint32_t s[2][16];       /* of each run of 16: its scale as f32, or as a factor in both halves       */
    uint32_t back[16];       /* -off times these factors, one in each half; Q2_K: the minimum codes      */
} __attribute__((aligned(64)));

/* How a type is opened: q = mul * u - off. */
struct form {
    enum step step;
    int mul, off;
};

MM_INLINE struct form form_of(enum qtype t)
{
    switch (t) {
    case QT_IQ1_S: case QT_IQ1_M: return (struct form){ STEP_8, 2, 9 }; /* even numbers to 18 */
    case QT_IQ3_S: return (struct form){ STEP_8, 2, 15 };               /* odd ones from -15 to 15 */
    case QT_IQ3_XXS: return (struct form){ STEP_2, 2, 62 };             /* even ones from -62 to 62 */
    default: return (struct form){ step_of(t), 1, flip_of(t) ? 0 : mm_offset(t) };
    }
}

/* Two vectors of integers in the halves of words. */
MM_INLINE mm_vu halves_of(mm_vf low, mm_vf high)
{
    mm_vi a = __builtin_convertvector(low, mm_vi), b = __builtin_convertvector(high, mm_vi);
    return ((mm_vu)a & 0xffff) | (mm_vu)b << 16;
}

#define OPEN_STORE(to, v)                                                                                              \
    do {                                                                                                               \
        __auto_type v_ = (v);                                                                                          \
        memcpy((to) + 8 * h, &v_, sizeof v_);                                                                          \
    } while (0)

/* Half h of a panel's run b of a block. */
MM_INLINE void open_run(enum qtype t, const uint8_t *head, const uint8_t *words, uint32_t b, uint32_t h, struct opened *o)
{
    const enum qtype_scales kind = qtype_scales(t);
    const struct form f = form_of(t);
    mm_vu w[8];
    struct mm_scales s;
    mm_open_quants(t, words, b, w);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        if (f.step == STEP_SIGNED)
            w[g] = (mm_vu)((mm_vb)w[g] - (uint8_t)mm_offset(t));
        else if (f.mul == 2)
            w[g] = (w[g] - MM_B(mm_offset(t) - f.off)) >> 1;
        OPEN_STORE(o->w[g], w[g]);
    }
    mm_open_scales(t, head, words, b, &s);
    if (kind != QS_HALVES)
        OPEN_STORE(o->dw, s.dw);
    if (kind == QS_SCALE_MIN || kind == QS_RUNS_MIN)
        OPEN_STORE(o->mw, s.mw);
    if (kind == QS_RUNS_MIN)
        OPEN_STORE(o->back, halves_of(s.m0, s.m1));
    if (kind == QS_RUNS || kind == QS_RUNS_MIN) {
        mm_vf m = (mm_vf){} + (float)f.mul, off = (mm_vf){} - (float)f.off;
        OPEN_STORE(o->s[0], halves_of(s.s0 * m, s.s0 * m));
        OPEN_STORE(o->s[1], halves_of(s.s1 * m, s.s1 * m));
        if (kind == QS_RUNS)
            OPEN_STORE(o->back, halves_of(s.s0 * off, s.s1 * off));
    } else if (kind == QS_HALVES) {
        OPEN_STORE(o->s[0], s.s0);
        OPEN_STORE(o->s[1], s.s1);
    }
}

/* Runs [k0, k0 + n) of a panel; n_runs is the panel's number of them, k0 starts a block. */
MM_INLINE void open_runs(enum qtype t, const uint8_t *panel, uint32_t n_runs, uint32_t k0, uint32_t n, struct opened *o)
{
    const uint32_t per = qtype_block(t) / QK, nb = n_runs / per;
    for (uint32_t ib = k0 / per; ib < (k0 + n) / per; ib++, o += per) {
        struct mm_where at = mm_where(t, nb, ib);
        const uint8_t *head = panel + at.head, *words = panel + at.words;
        mm_prefetch(words, 64 * (size_t)mm_words(t));
        for (uint32_t h = 0; h < 2; h++)
#pragma GCC unroll 8
            for (uint32_t b = 0; b < per; b++)
                open_run(t, head + mm_head_bytes(t) * MM_LANES * h, words + sizeof(mm_vu) * h, b, h, &o[b]);
    }
}

MM_INLINE __m256i half_of(const uint32_t v[16], uint32_t h)
{
    return _mm256_load_si256((const __m256i *)(v + 8 * h));
}

/* A tile: rows of x that pass together, and what they are added to. */
struct tile {
    const int8_t *q;
    const float *d, *dx;
    const int16_t *s16;
    size_t ldq, ldd, ldy;
    float *y;
};

/* A sum as it stands: the compiler would add in a tree, and keep all products for it in memory. */
MM_INLINE void added(__m256i *v)
{
    __asm__("" : "+x"(*v));
}

/* sum[r][h] (+)= products of groups [g0, g1) times scale[h]. */
MM_INLINE void products(enum step step, uint32_t R, const struct opened *o, uint32_t g0, uint32_t g1, const struct tile *x,
                        const __m256i scale[2], bool onto, __m256i sum[4][2])
{
    const uint32_t n = step == STEP_SIGNED ? 1 : (uint32_t)step < g1 - g0 ? (uint32_t)step : g1 - g0;
#pragma GCC unroll 8
    for (uint32_t g = g0; g < g1; g += n) {
        __m256i part[4][2];
#pragma GCC unroll 8
        for (uint32_t s = 0; s < n; s++) {
            __m256i w[2] = { half_of(o->w[g + s], 0), half_of(o->w[g + s], 1) };
#pragma GCC unroll 4
            for (uint32_t r = 0; r < R; r++) {
                __m256i q = word4(x->q + r * x->ldq + 4 * (g + s));
#pragma GCC unroll 2
                for (uint32_t h = 0; h < 2; h++) {
                    __m256i p = step == STEP_SIGNED ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[h]), _mm256_sign_epi8(q, w[h]))
                                                    : _mm256_maddubs_epi16(w[h], q);
                    part[r][h] = s ? _mm256_add_epi16(part[r][h], p) : p;
                    added(&part[r][h]);
                }
            }
        }
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++)
#pragma GCC unroll 2
            for (uint32_t h = 0; h < 2; h++) {
                __m256i p = _mm256_madd_epi16(part[r][h], scale[h]);
                sum[r][h] = onto || g > g0 ? _mm256_add_epi32(sum[r][h], p) : p;
                added(&sum[r][h]);
            }
    }
}

MM_INLINE __m256 floats_of(const float v[16], uint32_t h)
{
    return _mm256_load_ps(v + 8 * h);
}

/* y += the sums of a run (of its groups up to 4, or from 4 on), by their scales: the canonical order. */
MM_INLINE void scaled(enum qtype_scales kind, uint32_t R, const struct opened *o, const float *dw, const struct tile *x,
                      __m256i sum[4][2])
{
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; r++) {
        const __m256 d = _mm256_set1_ps(x->d[r]);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < 2; h++) {
            float *to = x->y + r * x->ldy + 8 * h;
            __m256 acc = _mm256_fmadd_ps(_mm256_mul_ps(floats_of(dw, h), d), _mm256_cvtepi32_ps(sum[r][h]), _mm256_loadu_ps(to));
            if (kind == QS_SCALE_MIN)
                acc = _mm256_fmadd_ps(floats_of(o->mw, h), _mm256_set1_ps(x->dx[r]), acc);
            if (kind == QS_RUNS_MIN) {
                __m256 m = _mm256_cvtepi32_ps(_mm256_madd_epi16(word4(x->s16 + 2 * r), half_of(o->back, h)));
                acc = _mm256_fnmadd_ps(_mm256_mul_ps(floats_of(o->mw, h), d), m, acc);
            }
            _mm256_storeu_ps(to, acc);
        }
    }
}

/* sum[r][h] += the offset of run `run`, or of both (2): -off times sums of x. */
MM_INLINE void offset(enum qtype_scales kind, uint32_t R, const struct opened *o, const struct back *back, uint32_t run,
                      const struct tile *x, __m256i sum[4][2])
{
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; r++) {
        const __m256i pair = word4(x->s16 + 2 * r);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < 2; h++)
            sum[r][h] = _mm256_add_epi32(sum[r][h], _mm256_madd_epi16(pair, kind == QS_RUNS ? half_of(o->back, h)
                                                                            : run == 2      ? back->both
                                                                                            : back->run[run]));
    }
}

/* R rows by n opened runs. */
MM_INLINE void tile_r(enum qtype_scales kind, struct form f, uint32_t R, const struct opened *o, uint32_t n, const struct mm_rows *rows,
                      uint32_t row, float *y, size_t ldy, bool first)
{
    const struct back back = back_of(f.off);
    const __m256i mul[2] = { _mm256_set1_epi16((int16_t)f.mul), _mm256_set1_epi16((int16_t)f.mul) };
    struct tile x = { rows->q + row * rows->ldq, rows->d + row, rows->dx + row, rows->s16 + 2 * row, rows->ldq, rows->ldd, ldy,
                      y + row * ldy };
    if (first)
        for (uint32_t r = 0; r < R; r++)
            memset(x.y + r * ldy, 0, MM_ROWS * sizeof *y);
    for (; n; n--, o++, x.q += QK, x.d += x.ldd, x.dx += x.ldd, x.s16 += 2 * x.ldd) {
        __m256i sum[4][2];
        if (kind == QS_SCALE || kind == QS_SCALE_MIN) {
            products(f.step, R, o, 0, 8, &x, mul, false, sum);
            if (kind == QS_SCALE && f.off)
                offset(kind, R, o, &back, 2, &x, sum);
            scaled(kind, R, o, o->dw, &x, sum);
        } else if (kind == QS_HALVES) {
            for (uint32_t i = 0; i < 2; i++) {
                products(f.step, R, o, 4 * i, 4 * i + 4, &x, mul, false, sum);
                offset(kind, R, o, &back, i, &x, sum);
                scaled(kind, R, o, (const float *)o->s[i], &x, sum);
            }
        } else {
            const __m256i s0[2] = { half_of(o->s[0], 0), half_of(o->s[0], 1) }, s1[2] = { half_of(o->s[1], 0), half_of(o->s[1], 1) };
            products(f.step, R, o, 0, 4, &x, s0, false, sum);
            products(f.step, R, o, 4, 8, &x, s1, true, sum);
            if (kind == QS_RUNS)
                offset(kind, R, o, &back, 2, &x, sum);
            scaled(kind, R, o, o->dw, &x, sum);
        }
    }
}

typedef void rows_fn(const struct opened *o, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y, size_t ldy, bool first);

#define ROWS(name, kind, step, mul)                                                                                    \
    static void name(const struct opened *o, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y,  \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        const struct form f = { step, mul, off };                                                                      \
        uint32_t r = 0;                                                                                                \
        for (; n_rows - r >= 4; r += 4)                                                                                \
            tile_r(kind, f, 4, o, n, x, r, y, ldy, first);                                                             \
        if (n_rows - r >= 2) {                                                                                         \
            tile_r(kind, f, 2, o, n, x, r, y, ldy, first);                                                             \
            r += 2;                                                                                                    \
        }                                                                                                              \
        if (n_rows > r)                                                                                                \
            tile_r(kind, f, 1, o, n, x, r, y, ldy, first);                                                             \
    }
ROWS(scale_signed, QS_SCALE, STEP_SIGNED, 1)
ROWS(scale_1, QS_SCALE, STEP_1, 1)
ROWS(scale_2, QS_SCALE, STEP_2, 2)
ROWS(scale_4, QS_SCALE, STEP_4, 1)
ROWS(scale_8, QS_SCALE, STEP_8, 1)
ROWS(scale_8_twice, QS_SCALE, STEP_8, 2)
ROWS(min_4, QS_SCALE_MIN, STEP_4, 1)
ROWS(min_8, QS_SCALE_MIN, STEP_8, 1)
ROWS(runs_1, QS_RUNS, STEP_1, 1)
ROWS(runs_2, QS_RUNS, STEP_2, 1)
ROWS(runs_8, QS_RUNS, STEP_8, 1)
ROWS(runs_min_8, QS_RUNS_MIN, STEP_8, 1)
ROWS(halves_4, QS_HALVES, STEP_4, 1)
#undef ROWS

MM_INLINE rows_fn *rows_of(enum qtype t)
{
    const struct form f = form_of(t);
    switch (qtype_scales(t)) {
    case QS_SCALE:
        return f.step == STEP_SIGNED ? scale_signed : f.step == STEP_1 ? scale_1 : f.step == STEP_2 ? scale_2
               : f.step == STEP_4    ? scale_4 : f.mul == 2 ? scale_8_twice : scale_8;
    case QS_SCALE_MIN: return f.step == STEP_4 ? min_4 : min_8;
    case QS_RUNS: return f.step == STEP_1 ? runs_1 : f.step == STEP_2 ? runs_2 : runs_8;
    case QS_HALVES: return halves_4;
    default: return runs_min_8;
    }
}

/* mm_walk. */
MM_INLINE void many_rows(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a, uint32_t row0,
                         uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    const uint32_t n_runs = n_in / QK;
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in), y += MM_ROWS)
        for (uint32_t k = 0; k < n_runs; k += MM_RANGE) {
            uint32_t n = n_runs - k < MM_RANGE ? n_runs - k : MM_RANGE;
            struct mm_rows x = mm_rows(a, row0, k);
            open_runs(t, panels, n_runs, k, n, scratch);
            rows_of(t)(scratch, n, form_of(t).off, &x, n_rows, y, ldy, k == 0);
        }
}

#endif
