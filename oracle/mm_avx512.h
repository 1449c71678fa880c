/* oracle/mm_avx512.h: products with AVX-512 and VNNI, the body of mm_avx512.c and of mm_vbmi.c. A lane is a weight row; VPDPBUSD takes 4 quants of 16 rows (as u,
 * unsigned) and 4 of x (signed, broadcast from memory); the offset comes back with one VPDPWSSD on the sums of x. */
#ifndef ZINC_ORACLE_MM_AVX512_H
#define ZINC_ORACLE_MM_AVX512_H

#include "oracle/mm_block.h"
#if defined(__AVX512VBMI__) && defined(__GFNI__)
#include "oracle/mm_books_row.h"
#endif

MM_INLINE __m512i word4(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

/* Vectors that bring the offset back: its negative for both runs, and for one alone. */
struct back {
    __m512i both, run[2];
};

MM_INLINE struct back back_of(int off)
{
    return (struct back){ _mm512_set1_epi16((int16_t)-off),
                          { _mm512_set1_epi32(-off & 0xffff), _mm512_set1_epi32((int32_t)((uint32_t)-off << 16)) } };
}

MM_INLINE __m512i dot4(__m512i sum, const mm_vu w[8], uint32_t g0, uint32_t g1, const int8_t *q)
{
#pragma GCC unroll 8
    for (uint32_t g = g0; g < g1; g++)
        sum = _mm512_dpbusd_epi32(sum, (__m512i)w[g], word4(q + 4 * g));
    return sum;
}

/* One run of 32 and one row, whose q, d, dx and sums these are. */
MM_INLINE __m512 add_run(enum qtype_scales kind, const mm_vu w[8], const struct mm_scales *s, const struct back *back,
                         const int8_t *q, float d, float dx, const int16_t *s16, __m512 acc)
{
    __m512i pair = word4(s16), zero = _mm512_setzero_si512();
    __m512 dr = _mm512_set1_ps(d), sum;
    if (kind == QS_SCALE || kind == QS_SCALE_MIN) {
        __m512i s0 = kind == QS_SCALE ? _mm512_dpwssd_epi32(zero, back->both, pair) : zero;
        sum = _mm512_cvtepi32_ps(dot4(s0, w, 0, 8, q));
    } else { /* sums below 2^24: exact */
        __m512i s0 = kind != QS_RUNS_MIN ? _mm512_dpwssd_epi32(zero, back->run[0], pair) : zero;
        __m512i s1 = kind != QS_RUNS_MIN ? _mm512_dpwssd_epi32(zero, back->run[1], pair) : zero;
        __m512 f0 = _mm512_cvtepi32_ps(dot4(s0, w, 0, 4, q)), f1 = _mm512_cvtepi32_ps(dot4(s1, w, 4, 8, q));
        if (kind == QS_HALVES) {
            acc = _mm512_fmadd_ps(_mm512_mul_ps((__m512)s->s0, dr), f0, acc);
            return _mm512_fmadd_ps(_mm512_mul_ps((__m512)s->s1, dr), f1, acc);
        }
        sum = _mm512_fmadd_ps(f1, (__m512)s->s1, _mm512_mul_ps(f0, (__m512)s->s0));
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps((__m512)s->dw, dr), sum, acc);
    if (kind == QS_SCALE_MIN)
        acc = _mm512_fmadd_ps((__m512)s->mw, _mm512_set1_ps(dx), acc);
    if (kind == QS_RUNS_MIN) {
        __m512 m = _mm512_mul_ps((__m512)s->m0, _mm512_set1_ps((float)s16[0]));
        m = _mm512_fmadd_ps((__m512)s->m1, _mm512_set1_ps((float)s16[1]), m);
        acc = _mm512_fnmadd_ps(_mm512_mul_ps((__m512)s->mw, dr), m, acc);
    }
    return acc;
}

/* R rows by n opened runs: the accumulators stay in registers. */
MM_INLINE void runs_r(enum qtype_scales kind, uint32_t R, const struct mm_xblk *x, uint32_t n, int off,
                      const struct mm_rows *rows, uint32_t row, float *y, size_t ldy, bool first)
{
    const int8_t *q = rows->q + row * rows->ldq;
    size_t ldq = rows->ldq, ldd = rows->ldd;
    const float *d = rows->d + row, *dx = rows->dx + row;
    const int16_t *s16 = rows->s16 + 2 * row;
    struct back back = back_of(off);
    __m512 acc[8];
    y += row * ldy;
    for (uint32_t r = 0; r < R; r++)
        acc[r] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * ldy);
    for (uint32_t i = 0; i < n; i++, x++, q += QK, d += ldd, dx += ldd, s16 += 2 * ldd) {
        mm_vu w[8];
        memcpy(w, x->w, sizeof w);
        struct mm_scales s = { (mm_vf)_mm512_load_ps(x->dw), (mm_vf)_mm512_load_ps(x->mw),
                               (mm_vf)_mm512_load_ps(x->s0), (mm_vf)_mm512_load_ps(x->s1),
                               (mm_vf)_mm512_load_ps(x->m0), (mm_vf)_mm512_load_ps(x->m1) };
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; r++)
            acc[r] = add_run(kind, w, &s, &back, q + r * ldq, d[r], dx[r], s16 + 2 * r, acc[r]);
    }
    for (uint32_t r = 0; r < R; r++)
        _mm512_storeu_ps(y + r * ldy, acc[r]);
}

/* One row: weights go from the panel through registers. */
MM_INLINE void one_row(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,
                       uint32_t row, float *y, void *scratch)
{
#if defined(__AVX512VBMI__) && defined(__GFNI__)
    if (mm_row_has(t)) {
        mm_row_book(t, n_in, panels, n_panels, a, row, y, scratch);
        return;
    }
#endif
    const uint32_t per = qtype_block(t) / QK, nb = n_in / qtype_block(t);
    const struct back back = back_of(mm_offset(t));
    for (; n_panels; n_panels--, panels += mm_panel_bytes(t, n_in), y += MM_ROWS) {
        struct mm_rows x = mm_rows(a, row, 0);
        __m512 acc = _mm512_setzero_ps();
        for (uint32_t ib = 0; ib < nb; ib++) {
            struct mm_where at = mm_where(t, nb, ib);
            const uint8_t *head = panels + at.head, *words = panels + at.words;
            mm_prefetch(words, 64 * (size_t)mm_words(t));
#pragma GCC unroll 8
            for (uint32_t b = 0; b < per; b++, x.q += QK, x.d += x.ldd, x.dx += x.ldd, x.s16 += 2 * x.ldd) {
                mm_vu w[8];
                struct mm_scales s;
                mm_open_quants(t, words, b, w);
                mm_open_scales(t, head, words, b, &s);
                acc = add_run(qtype_scales(t), w, &s, &back, x.q, *x.d, *x.dx, x.s16, acc);
            }
        }
        _mm512_storeu_ps(y, acc);
    }
}

#define RUNS(name, kind)                                                                                               \
    static void name(const struct mm_xblk *w, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y, \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        for (uint32_t r = 0; r < n_rows; r += 8)                                                                       \
            switch (n_rows - r) {                                                                                      \
            case 1: runs_r(kind, 1, w, n, off, x, r, y, ldy, first); break;                                            \
            case 2: runs_r(kind, 2, w, n, off, x, r, y, ldy, first); break;                                            \
            case 3: runs_r(kind, 3, w, n, off, x, r, y, ldy, first); break;                                            \
            case 4: runs_r(kind, 4, w, n, off, x, r, y, ldy, first); break;                                            \
            case 5: runs_r(kind, 5, w, n, off, x, r, y, ldy, first); break;                                            \
            case 6: runs_r(kind, 6, w, n, off, x, r, y, ldy, first); break;                                            \
            case 7: runs_r(kind, 7, w, n, off, x, r, y, ldy, first); break;                                            \
            default: runs_r(kind, 8, w, n, off, x, r, y, ldy, first); break;                                           \
            }                                                                                                          \
    }
RUNS(runs_scale, QS_SCALE)
RUNS(runs_scale_min, QS_SCALE_MIN)
RUNS(runs_runs, QS_RUNS)
RUNS(runs_runs_min, QS_RUNS_MIN)
RUNS(runs_halves, QS_HALVES)

static mm_runs_fn *const runs_of[] = { runs_scale, runs_scale_min, runs_runs, runs_runs_min, runs_halves };

#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        mm_walk(QT_##T, runs_of[qtype_scales(QT_##T)], 0, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);        \
    }                                                                                                                  \
    static void dot1_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,              \
                         uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,             \
                         void *scratch)                                                                                \
    {                                                                                                                  \
        for (uint32_t r = 0; r < n_rows; r++)                                                                          \
            one_row(QT_##T, n_in, panels, n_panels, a, row0 + r, y + r * ldy, scratch);                                \
    }
#include "kernels/qtypes.def"

/* ---- F32, F16, BF16 ---- */

MM_INLINE __m512 weights(enum qtype t, const uint8_t *panel, uint32_t k)
{
    if (t == QT_F32)
        return _mm512_loadu_ps(panel + 64 * (size_t)k);
    __m256i h = _mm256_loadu_si256((const __m256i *)(panel + 32 * (size_t)k));
    if (t == QT_F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* R rows by P panels, elements [k0, k1): a chain of sums per row and panel, enough of them to hide the latency. */
MM_INLINE void floats_rp(enum qtype t, uint32_t R, uint32_t P, uint32_t n_in, uint32_t k0, uint32_t k1,
                         const uint8_t *panels, const float *x, size_t ldx, float *y, size_t ldy)
{
    const size_t elem = MM_ROWS * (size_t)qtype_block_bytes(t), bytes = n_in * elem;
    __m512 acc[6][4];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < P; p++)
            acc[r][p] = k0 ? _mm512_loadu_ps(y + r * ldy + 16 * p) : _mm512_setzero_ps();
    for (uint32_t k = k0; k < k1; k++) {
        __m512 w[4];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; p++) {
            __builtin_prefetch(panels + p * bytes + (k + 32) * elem);
            w[p] = weights(t, panels + p * bytes, k);
        }
#pragma GCC unroll 6
        for (uint32_t r = 0; r < R; r++) {
            __m512 xr = _mm512_set1_ps(x[r * ldx + k]);
#pragma GCC unroll 4
            for (uint32_t p = 0; p < P; p++)
                acc[r][p] = _mm512_fmadd_ps(w[p], xr, acc[r][p]);
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < P; p++)
            _mm512_storeu_ps(y + r * ldy + 16 * p, acc[r][p]);
}

MM_INLINE void floats_p(enum qtype t, uint32_t P, uint32_t n_in, const uint8_t *panels, const float *x, size_t ldx,
                        uint32_t n_rows, float *y, size_t ldy)
{
    enum { RANGE = 512 }; /* of elements: 4 panels' worth stays in the second cache */
    for (uint32_t k0 = 0; k0 < n_in; k0 += RANGE) {
        uint32_t k1 = n_in - k0 < RANGE ? n_in : k0 + RANGE, r = 0;
        for (; n_rows - r >= 6; r += 6)
            floats_rp(t, 6, P, n_in, k0, k1, panels, x + r * ldx, ldx, y + r * ldy, ldy);
        for (; n_rows - r >= 2; r += 2)
            floats_rp(t, 2, P, n_in, k0, k1, panels, x + r * ldx, ldx, y + r * ldy, ldy);
        if (r < n_rows)
            floats_rp(t, 1, P, n_in, k0, k1, panels, x + r * ldx, ldx, y + r * ldy, ldy);
    }
}

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        size_t bytes = mm_panel_bytes(QT_##T, n_in);                                                                   \
        for (; n_panels >= 4; n_panels -= 4, panels += 4 * bytes, y += 64)                                             \
            floats_p(QT_##T, 4, n_in, panels, x, ldx, n_rows, y, ldy);                                                 \
        for (; n_panels; n_panels--, panels += bytes, y += 16)                                                         \
            floats_p(QT_##T, 1, n_in, panels, x, ldx, n_rows, y, ldy);                                                 \
    }
X(F32) X(F16) X(BF16)
#undef X

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_quant_row_512(x, n_in, a, row, false);
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...) case QT_##T: return n_rows == 1 ? dot1_##T : dot_##T;
#define QTYPE_FLOAT(T, ...) case QT_##T: return dot_##T;
#include "kernels/qtypes.def"
    default: return NULL;
    }
}

#endif
