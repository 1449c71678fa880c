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
 * Multiplications are what there are fewest of (two a cycle, on the pipes of VPSIGNB too), so that sums stay in
 * 16 bits as long as they fit, which is longer for signed weights, without their offset (enum pairing). Where runs of 16 have scales,
 * these are the factors with which sums are widened (VPMADDWD), and the sum of both runs is converted once: integers below
 * 2^24, so that it is what the canonical sum in floats is. */
#ifndef ZINC_ORACLE_MM_AVX2_ROWS_H
#define ZINC_ORACLE_MM_AVX2_ROWS_H

#include "oracle/mm_block.h"

struct opened {
    float dw[16], mw[16];    /* as in struct mm_xblk                                                          */
    uint32_t s[2][16];       /* of each run of 16: its scale as f32, or as a factor in both halves of a word  */
    uint32_t m[16];          /* Q2_K: the minimum codes, one in each half                                     */
    uint32_t back[4][16];    /* SIGNED: what part i of the groups begins with                                 */
    uint32_t w[16][16];      /* [k / 4][row], 4 bytes each; WORDS: [k / 4][2][row], elements 0 and 2, 1 and 3 */
} __attribute__((aligned(64)));

/* What meets what. */
enum pairing {
    UNSIGNED, /* codes u, not offset, and q of x */
    SIGNED,   /* weights to 64, and x + 128, unsigned: 255 * 64 * 2 fits 16 bits. Sums of more wrap round and come back when
               * 128 times the weights' sum is taken off, for which only the result has to fit */
    WORDS,    /* 16 bits each: VPMADDWD */
};

/* How a type's weights are opened: as `mul` times what is multiplied; sums of n groups of four fit 16 bits. */
struct form {
    enum pairing pairing;
    int n, mul;
};

MM_INLINE struct form form_of(enum qtype t)
{
    switch (t) {
    case QT_Q8_0: case QT_IQ4_NL: case QT_IQ4_XS: return (struct form){ WORDS, 1, 1 };
    case QT_Q4_1: case QT_Q4_K: case QT_Q2_K: return (struct form){ UNSIGNED, 8, 1 };   /* 15 * 127 * 16 = 30480 */
    case QT_Q5_1: case QT_Q5_K: return (struct form){ UNSIGNED, 4, 1 };                 /* 31 * 127 * 8 = 31496 */
    case QT_Q6_K: return (struct form){ SIGNED, 4, 1 };                                 /* 32 * 127 * 8 = 32512 */
    case QT_IQ3_XXS: return (struct form){ SIGNED, 4, 2 };                              /* even numbers to 62 */
    case QT_IQ2_XXS: return (struct form){ SIGNED, 3, 1 };                              /* 43 * 127 * 6 = 32766 */
    case QT_IQ2_XS: case QT_IQ2_S: return (struct form){ SIGNED, 2, 1 };
    default: return (struct form){ SIGNED, 8, 1 };                                      /* 16 * 127 * 16 = 32512 */
    }
}

/* Opened to twice their size, which two rows do not bring in. */
MM_INLINE bool by_words(enum qtype t)
{
    return form_of(t).pairing == WORDS;
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

/* Half of each byte, which are even. */
MM_INLINE mm_vu halved(mm_vu w)
{
    return (w >> 1 & MM_B(0x7f)) | (w & MM_B(0x80));
}

/* -128 times the sums of pairs of elements in n groups. */
MM_INLINE __m256i back_of_groups(const mm_vu *w, uint32_t n)
{
    __m256i sum = (__m256i)w[0];
#pragma GCC unroll 8
    for (uint32_t g = 1; g < n; g++)
        sum = _mm256_add_epi8(sum, (__m256i)w[g]);
    return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_maddubs_epi16(_mm256_set1_epi8((int8_t)0x80), sum));
}

/* What parts of up to n of each `per` groups begin with. Sums of bytes hold n groups (16 * 8 = 32 * 4 = 128), but for three of
 * numbers to 43. */
MM_INLINE void open_back(uint32_t n, uint32_t per, const mm_vu w[8], uint32_t h, struct opened *o)
{
    const uint32_t parts = (per + n - 1) / n;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t in = i % parts * n, g = i / parts * per + in;
        if (g >= 8)
            break;
        if (n == 3 && in + 2 < per)
            OPEN_STORE(o->back[i], _mm256_add_epi16(back_of_groups(w + g, 2), back_of_groups(w + g + 2, 1)));
        else
            OPEN_STORE(o->back[i], back_of_groups(w + g, n < per - in ? n : per - in));
    }
}

/* Half h of a panel's run b of a block. */
MM_INLINE void open_run(enum qtype t, const uint8_t *head, const uint8_t *words, uint32_t b, uint32_t h, struct opened *o)
{
    const enum qtype_scales kind = qtype_scales(t);
    const struct form f = form_of(t);
    mm_vu w[8];
    struct mm_scales s;
    mm_open_quants(t, words, b, w);
    if (f.pairing != UNSIGNED)
#pragma GCC unroll 8
        for (uint32_t g = 0; g < 8; g++)
            w[g] = (mm_vu)((mm_vb)w[g] - (uint8_t)mm_offset(t));
    if (f.mul == 2)
#pragma GCC unroll 8
        for (uint32_t g = 0; g < 8; g++)
            w[g] = halved(w[g]);
    if (f.pairing == SIGNED)
        open_back(f.n, kind == QS_SCALE ? 8 : 4, w, h, o);
#pragma GCC unroll 8
    for (uint32_t g = 0; g < 8; g++)
        if (f.pairing == WORDS) {
            OPEN_STORE(o->w[2 * g], _mm256_srai_epi16(_mm256_slli_epi16((__m256i)w[g], 8), 8));
            OPEN_STORE(o->w[2 * g + 1], _mm256_srai_epi16((__m256i)w[g], 8));
        } else {
            OPEN_STORE(o->w[g], w[g]);
        }
    mm_open_scales(t, head, words, b, &s);
    if (kind != QS_HALVES)
        OPEN_STORE(o->dw, s.dw);
    if (kind == QS_SCALE_MIN || kind == QS_RUNS_MIN)
        OPEN_STORE(o->mw, s.mw);
    if (kind == QS_RUNS_MIN)
        OPEN_STORE(o->m, halves_of(s.m0, s.m1));
    if (kind == QS_RUNS || kind == QS_RUNS_MIN) {
        OPEN_STORE(o->s[0], halves_of(s.s0, s.s0));
        OPEN_STORE(o->s[1], halves_of(s.s1, s.s1));
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

/* A tile: rows of x that pass together, and what they are added to. x is what its pairing takes, ldx bytes between rows. */
struct tile {
    const uint8_t *x;
    const float *d, *dx;
    const int16_t *s16;
    size_t ldx, ldd, ldy;
    float *y;
};

/* sum[r][h] (+)= products of words of groups [g0, g1). */
MM_INLINE void products_of_words(uint32_t R, const struct opened *o, uint32_t g0, uint32_t g1, const struct tile *x, __m256i sum[4][2])
{
#pragma GCC unroll 16
    for (uint32_t i = 2 * g0; i < 2 * g1; i++) {
        __m256i w[2] = { half_of(o->w[i], 0), half_of(o->w[i], 1) };
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++) {
            __m256i q = word4(x->x + r * x->ldx + 4 * (i / 2 + i % 2 * 8));
#pragma GCC unroll 2
            for (uint32_t h = 0; h < 2; h++) {
                __m256i p = _mm256_madd_epi16(w[h], q);
                sum[r][h] = i > 2 * g0 ? _mm256_add_epi32(sum[r][h], p) : p;
                added(&sum[r][h]);
            }
        }
    }
}

/* sum[r][h] (+)= products of groups [g0, g1) times scale[h]. */
MM_INLINE void products(struct form f, uint32_t R, const struct opened *o, uint32_t g0, uint32_t g1, const struct tile *x,
                        const __m256i scale[2], bool onto, __m256i sum[4][2])
{
    const uint32_t n = (uint32_t)f.n < g1 - g0 ? (uint32_t)f.n : g1 - g0, first = g0 ? g0 / n : 0;
    if (f.pairing == WORDS) {
        products_of_words(R, o, g0, g1, x, sum);
        return;
    }
#pragma GCC unroll 3
    for (uint32_t c = 0; c < 3; c++) {
        const uint32_t c0 = g0 + c * n, c1 = c0 + n < g1 ? c0 + n : g1;
        __m256i part[4][2];
        if (c0 >= g1)
            break;
#pragma GCC unroll 8
        for (uint32_t g = c0; g < c1; g++) {
            __m256i w[2] = { half_of(o->w[g], 0), half_of(o->w[g], 1) };
#pragma GCC unroll 4
            for (uint32_t r = 0; r < R; r++) {
                __m256i q = word4(x->x + r * x->ldx + 4 * g);
#pragma GCC unroll 2
                for (uint32_t h = 0; h < 2; h++) {
                    __m256i p = f.pairing == SIGNED ? _mm256_maddubs_epi16(q, w[h]) : _mm256_maddubs_epi16(w[h], q);
                    part[r][h] = g > c0                ? _mm256_add_epi16(part[r][h], p)
                                 : f.pairing == SIGNED ? _mm256_add_epi16(p, half_of(o->back[first + c], h))
                                                       : p;
                    added(&part[r][h]);
                }
            }
        }
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++)
#pragma GCC unroll 2
            for (uint32_t h = 0; h < 2; h++) {
                __m256i p = _mm256_madd_epi16(part[r][h], scale[h]);
                sum[r][h] = onto || c ? _mm256_add_epi32(sum[r][h], p) : p;
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
                __m256 m = _mm256_cvtepi32_ps(_mm256_madd_epi16(word4(x->s16 + 2 * r), half_of(o->m, h)));
                acc = _mm256_fnmadd_ps(_mm256_mul_ps(floats_of(o->mw, h), d), m, acc);
            }
            _mm256_storeu_ps(to, acc);
        }
    }
}

/* R rows by n opened runs. */
MM_INLINE void tile_r(enum qtype_scales kind, struct form f, uint32_t R, const struct opened *o, uint32_t n, const struct mm_rows *rows,
                      uint32_t row, float *y, size_t ldy, bool first)
{
    const __m256i mul[2] = { _mm256_set1_epi16((int16_t)f.mul), _mm256_set1_epi16((int16_t)f.mul) };
    const uint8_t *bytes = f.pairing == SIGNED ? rows->u : (const uint8_t *)rows->q;
    const size_t of_x = f.pairing == WORDS ? 2 : 1;
    struct tile x = { f.pairing == WORDS ? (const uint8_t *)(rows->b + row * rows->ldq) : bytes + row * rows->ldq,
                      rows->d + row, rows->dx + row, rows->s16 + 2 * row, of_x * rows->ldq, rows->ldd, ldy, y + row * ldy };
    if (first)
        for (uint32_t r = 0; r < R; r++)
            memset(x.y + r * ldy, 0, MM_ROWS * sizeof *y);
    for (; n; n--, o++, x.x += of_x * QK, x.d += x.ldd, x.dx += x.ldd, x.s16 += 2 * x.ldd) {
        __m256i sum[4][2];
        if (kind == QS_SCALE || kind == QS_SCALE_MIN) {
            products(f, R, o, 0, 8, &x, mul, false, sum);
            scaled(kind, R, o, o->dw, &x, sum);
        } else if (kind == QS_HALVES) {
#pragma GCC unroll 2
            for (uint32_t i = 0; i < 2; i++) {
                products(f, R, o, 4 * i, 4 * i + 4, &x, mul, false, sum);
                scaled(kind, R, o, (const float *)o->s[i], &x, sum);
            }
        } else {
            const __m256i s0[2] = { half_of(o->s[0], 0), half_of(o->s[0], 1) }, s1[2] = { half_of(o->s[1], 0), half_of(o->s[1], 1) };
            products(f, R, o, 0, 4, &x, s0, false, sum);
            products(f, R, o, 4, 8, &x, s1, true, sum);
            scaled(kind, R, o, o->dw, &x, sum);
        }
    }
}

typedef void rows_fn(const struct opened *o, uint32_t n, const struct mm_rows *x, uint32_t n_rows, float *y, size_t ldy, bool first);

#define ROWS(name, kind, ...)                                                                                          \
    static void name(const struct opened *o, uint32_t n, const struct mm_rows *x, uint32_t n_rows, float *y,           \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        const struct form f = { __VA_ARGS__ };                                                                         \
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
ROWS(scale_words, QS_SCALE, WORDS, 1, 1)
ROWS(scale_3, QS_SCALE, SIGNED, 3, 1)
ROWS(scale_4_twice, QS_SCALE, SIGNED, 4, 2)
ROWS(scale_8, QS_SCALE, SIGNED, 8, 1)
ROWS(min_4, QS_SCALE_MIN, UNSIGNED, 4, 1)
ROWS(min_8, QS_SCALE_MIN, UNSIGNED, 8, 1)
ROWS(runs_2, QS_RUNS, SIGNED, 2, 1)
ROWS(runs_4, QS_RUNS, SIGNED, 4, 1)
ROWS(runs_min_4, QS_RUNS_MIN, UNSIGNED, 4, 1)
ROWS(halves_4, QS_HALVES, SIGNED, 4, 1)
#undef ROWS

MM_INLINE rows_fn *rows_of(enum qtype t)
{
    const struct form f = form_of(t);
    switch (qtype_scales(t)) {
    case QS_SCALE: return f.pairing == WORDS ? scale_words : f.n == 3 ? scale_3 : f.n == 4 ? scale_4_twice : scale_8;
    case QS_SCALE_MIN: return f.n == 4 ? min_4 : min_8;
    case QS_RUNS: return f.n == 2 ? runs_2 : runs_4;
    case QS_HALVES: return halves_4;
    default: return runs_min_4;
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
            rows_of(t)(scratch, n, &x, n_rows, y, ldy, k == 0);
        }
}

#endif
