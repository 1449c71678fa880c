/* oracle/mm_avx2.h: products with AVX2, FMA and F16C, the body of mm_avx2.c and of mm_avxvnni.c. A panel's 16 rows are two
 * vectors of 8. VPDPBUSD, where there is (-mavxvnni), adds four products of u and x to a lane, and the offset comes back with the
 * sums of x. Elsewhere VPMADDUBSW multiplies unsigned by signed bytes and saturates sums of two at 16 bits, so:
 *   codes u of up to 7 bits: |u x| sums of 8, 4, 2 or 1 groups of four fit 16 bits and are widened once (STEP_n);
 *   8-bit codes: |q| times x with q's sign, widened at once: 128 * 127 * 2 fits (STEP_SIGNED). */
#ifndef ZINC_ORACLE_MM_AVX2_H
#define ZINC_ORACLE_MM_AVX2_H

#include "oracle/mm_block.h"

enum step { STEP_SIGNED = 0, STEP_1 = 1, STEP_2 = 2, STEP_4 = 4, STEP_8 = 8 };

MM_INLINE enum step step_of(enum qtype t)
{
#ifdef __AVXVNNI__
    (void)t;
    return STEP_8; /* any u is summed in 32 bits at once */
#else
    switch (qtype_bits(t)) {
    case 8: case 7: return mm_is_book(t) ? STEP_1 : STEP_SIGNED; /* 126 * 127 * 2 = 32004 */
    case 6: return STEP_2; /* 63 * 127 * 2 * 2 = 32004 */
    case 5: return STEP_4; /* 31 * 127 * 2 * 4 = 31496 */
    default: return STEP_8; /* 15 * 127 * 2 * 8 = 30480 */
    }
#endif
}

/* What the codes are opened as: u, or q itself. */
MM_INLINE int flip_of(enum qtype t)
{
    return step_of(t) == STEP_SIGNED ? mm_offset(t) : 0;
}

MM_INLINE __m256i word4(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Vectors that bring the offset back: its negative for both runs, and for one alone. */
struct back {
    __m256i both, run[2];
};

MM_INLINE struct back back_of(int off)
{
    return (struct back){ _mm256_set1_epi16((int16_t)-off),
                          { _mm256_set1_epi32(-off & 0xffff), _mm256_set1_epi32((int32_t)((uint32_t)-off << 16)) } };
}

/* A sum as it stands: the compiler would add in a tree, and keep all products for it in memory. */
MM_INLINE void added(__m256i *v)
{
    __asm__("" : "+x"(*v));
}

/* Onto sum: groups [g0, g1) of a half of a panel. */
MM_INLINE __m256i dot4(enum step step, __m256i sum, const mm_vu w[8], uint32_t g0, uint32_t g1, const int8_t *q)
{
#ifdef __AVXVNNI__
#pragma GCC unroll 8
    for (uint32_t g = g0; g < g1; g++)
        sum = _mm256_dpbusd_avx_epi32(sum, (__m256i)w[g], word4(q + 4 * g));
#else
    const __m256i ones = _mm256_set1_epi16(1);
    const uint32_t n = step == STEP_SIGNED ? 1 : (uint32_t)step < g1 - g0 ? (uint32_t)step : g1 - g0;
    /* trip counts that the compiler knows: it leaves loops with a second condition as they are, and w in memory for them */
#pragma GCC unroll 8
    for (uint32_t g = g0; g < g1; g += n) {
        __m256i part = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (uint32_t s = 0; s < n; s++) {
            __m256i u = (__m256i)w[g + s], x = word4(q + 4 * (g + s));
            if (step == STEP_SIGNED)
                part = _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(x, u));
            else
                part = s ? _mm256_add_epi16(part, _mm256_maddubs_epi16(u, x)) : _mm256_maddubs_epi16(u, x);
            added(&part);
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, ones));
        added(&sum);
    }
#endif
    return sum;
}

/* One run of 32 and one row, whose q, d, dx and sums these are, by half of a panel. */
MM_INLINE __m256 add_run(enum qtype_scales kind, enum step step, const mm_vu w[8], const struct mm_scales *s, const struct back *back,
                         const int8_t *q, float d, float dx, const int16_t *s16, __m256 acc)
{
    __m256i pair = word4(s16), zero = _mm256_setzero_si256();
    __m256 dr = _mm256_set1_ps(d), sum;
    bool offset = step != STEP_SIGNED && kind != QS_SCALE_MIN && kind != QS_RUNS_MIN;
    if (kind == QS_SCALE || kind == QS_SCALE_MIN) {
        sum = _mm256_cvtepi32_ps(dot4(step, offset ? _mm256_madd_epi16(pair, back->both) : zero, w, 0, 8, q));
    } else { /* sums below 2^24: exact */
        __m256 f0 = _mm256_cvtepi32_ps(dot4(step, offset ? _mm256_madd_epi16(pair, back->run[0]) : zero, w, 0, 4, q));
        __m256 f1 = _mm256_cvtepi32_ps(dot4(step, offset ? _mm256_madd_epi16(pair, back->run[1]) : zero, w, 4, 8, q));
        if (kind == QS_HALVES) {
            acc = _mm256_fmadd_ps(_mm256_mul_ps((__m256)s->s0, dr), f0, acc);
            return _mm256_fmadd_ps(_mm256_mul_ps((__m256)s->s1, dr), f1, acc);
        }
        sum = _mm256_fmadd_ps(f1, (__m256)s->s1, _mm256_mul_ps(f0, (__m256)s->s0));
    }
    acc = _mm256_fmadd_ps(_mm256_mul_ps((__m256)s->dw, dr), sum, acc);
    if (kind == QS_SCALE_MIN)
        acc = _mm256_fmadd_ps((__m256)s->mw, _mm256_set1_ps(dx), acc);
    if (kind == QS_RUNS_MIN) {
        __m256 m = _mm256_mul_ps((__m256)s->m0, _mm256_set1_ps((float)s16[0]));
        m = _mm256_fmadd_ps((__m256)s->m1, _mm256_set1_ps((float)s16[1]), m);
        acc = _mm256_fnmadd_ps(_mm256_mul_ps((__m256)s->mw, dr), m, acc);
    }
    return acc;
}

/* R rows: weights go from the panel through registers. */
MM_INLINE void few_rows(enum qtype t, uint32_t R, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,
                        uint32_t row, float *y, size_t ldy)
{
    const uint32_t per = qtype_block(t) / QK, nb = n_in / qtype_block(t);
    const struct back back = back_of(mm_offset(t));
    const uint32_t turn = mm_is_book(t) && t != QT_IQ3_S ? 1 : per; /* all runs of a block would fill the cache of code */
    for (; n_panels; n_panels--, panels += mm_panel_bytes(t, n_in), y += MM_ROWS) {
        struct mm_rows x = mm_rows(a, row, 0);
        __m256 acc[2][2];
#pragma GCC unroll 2
        for (uint32_t r = 0; r < R; r++)
            acc[r][0] = acc[r][1] = _mm256_setzero_ps();
        for (uint32_t ib = 0; ib < nb; ib++) {
            struct mm_where at = mm_where(t, nb, ib);
            mm_prefetch(panels + at.words, 64 * (size_t)mm_words(t));
#pragma GCC unroll 1
            for (uint32_t b0 = 0; b0 < per; b0 += turn)
#pragma GCC unroll 8
                for (uint32_t b = b0; b < b0 + turn; b++, x.q += QK, x.d += x.ldd, x.dx += x.ldd, x.s16 += 2 * x.ldd)
#pragma GCC unroll 2
                for (uint32_t h = 0; h < 2; h++) {
                    const uint8_t *head = panels + at.head + mm_head_bytes(t) * MM_LANES * h;
                    const uint8_t *words = panels + at.words + sizeof(mm_vu) * h;
                    mm_vu w[8];
                    struct mm_scales s;
                    mm_open_quants(t, words, b, w);
                    if (flip_of(t))
#pragma GCC unroll 8
                        for (uint32_t g = 0; g < 8; g++)
                            w[g] = (mm_vu)((mm_vb)w[g] - (uint8_t)flip_of(t));
                    mm_open_scales(t, head, words, b, &s);
#pragma GCC unroll 2
                    for (uint32_t r = 0; r < R; r++)
                        acc[r][h] = add_run(qtype_scales(t), step_of(t), w, &s, &back, x.q + r * x.ldq, x.d[r], x.dx[r],
                                            x.s16 + 2 * r, acc[r][h]);
                }
        }
#pragma GCC unroll 2
        for (uint32_t r = 0; r < R; r++) {
            _mm256_storeu_ps(y + r * ldy, acc[r][0]);
            _mm256_storeu_ps(y + r * ldy + 8, acc[r][1]);
        }
    }
}

#ifdef __AVXVNNI__

/* R rows by n runs, a half of the panel after the other: accumulators and weights stay in registers. */
MM_INLINE void runs_r(enum qtype_scales kind, uint32_t R, const struct mm_xblk *opened, uint32_t n, int off,
                      const struct mm_rows *x, uint32_t row, float *y, size_t ldy, bool first)
{
    const struct back back = back_of(off);
    size_t ldq = x->ldq, ldd = x->ldd;
    y += row * ldy;
    for (uint32_t h = 0; h < 2; h++, y += 8) {
        const struct mm_xblk *o = opened;
        const int8_t *q = x->q + row * x->ldq;
        const float *d = x->d + row, *dx = x->dx + row;
        const int16_t *s16 = x->s16 + 2 * row;
        __m256 acc[4];
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++)
            acc[r] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(y + r * ldy);
        for (uint32_t i = 0; i < n; i++, o++, q += QK, d += ldd, dx += ldd, s16 += 2 * ldd) {
            mm_vu w[8];
#pragma GCC unroll 8
            for (uint32_t g = 0; g < 8; g++)
                memcpy(&w[g], o->w[g] + 8 * h, sizeof w[g]);
            struct mm_scales s = { (mm_vf)_mm256_load_ps(o->dw + 8 * h), (mm_vf)_mm256_load_ps(o->mw + 8 * h),
                                   (mm_vf)_mm256_load_ps(o->s0 + 8 * h), (mm_vf)_mm256_load_ps(o->s1 + 8 * h),
                                   (mm_vf)_mm256_load_ps(o->m0 + 8 * h), (mm_vf)_mm256_load_ps(o->m1 + 8 * h) };
#pragma GCC unroll 4
            for (uint32_t r = 0; r < R; r++)
                acc[r] = add_run(kind, STEP_8, w, &s, &back, q + r * ldq, d[r], dx[r], s16 + 2 * r, acc[r]);
        }
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++)
            _mm256_storeu_ps(y + r * ldy, acc[r]);
    }
}

#define RUNS(name, kind)                                                                                               \
    static void name(const struct mm_xblk *w, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y, \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        uint32_t r = 0;                                                                                                \
        for (; n_rows - r >= 4; r += 4)                                                                                \
            runs_r(kind, 4, w, n, off, x, r, y, ldy, first);                                                           \
        if (n_rows - r >= 2) {                                                                                         \
            runs_r(kind, 2, w, n, off, x, r, y, ldy, first);                                                           \
            r += 2;                                                                                                    \
        }                                                                                                              \
        if (n_rows > r)                                                                                                \
            runs_r(kind, 1, w, n, off, x, r, y, ldy, first);                                                           \
    }
RUNS(runs_scale, QS_SCALE)
RUNS(runs_scale_min, QS_SCALE_MIN)
RUNS(runs_runs, QS_RUNS)
RUNS(runs_runs_min, QS_RUNS_MIN)
RUNS(runs_halves, QS_HALVES)

static mm_runs_fn *const runs_of[] = { runs_scale, runs_scale_min, runs_runs, runs_runs_min, runs_halves };

MM_INLINE void many_rows(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a, uint32_t row0,
                         uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    mm_walk(t, runs_of[qtype_scales(t)], 0, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);
}

MM_INLINE bool by_words(enum qtype t)
{
    (void)t;
    return false;
}

#else
#include "oracle/mm_avx2_rows.h"
#endif

#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        many_rows(QT_##T, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);                                   \
    }                                                                                                                  \
    static void dot1_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,              \
                         uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,             \
                         void *scratch)                                                                                \
    {                                                                                                                  \
        for (uint32_t r = 0; r < n_rows; r++)                                                                          \
            few_rows(QT_##T, 1, n_in, panels, n_panels, a, row0 + r, y + r * ldy, ldy);                                \
    }                                                                                                                  \
    static void dot2_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,              \
                         uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,             \
                         void *scratch)                                                                                \
    {                                                                                                                  \
        few_rows(QT_##T, 2, n_in, panels, n_panels, a, row0, y, ldy);                                                  \
    }
#include "kernels/qtypes.def"

/* ---- F32, F16, BF16 ---- */

/* Half h of element k's 16 weights. */
MM_INLINE __m256 weights(enum qtype t, const uint8_t *panel, uint32_t k, uint32_t h)
{
    if (t == QT_F32)
        return _mm256_loadu_ps((const float *)(panel + 64 * (size_t)k) + 8 * h);
    __m128i v = _mm_loadu_si128((const __m128i *)(panel + 32 * (size_t)k) + h);
    if (t == QT_F16)
        return _mm256_cvtph_ps(v);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

/* R rows by H halves of panels, elements [k0, k1). */
MM_INLINE void floats_rh(enum qtype t, uint32_t R, uint32_t H, uint32_t n_in, uint32_t k0, uint32_t k1,
                         const uint8_t *panels, const float *x, size_t ldx, float *y, size_t ldy)
{
    const size_t bytes = (size_t)n_in * MM_ROWS * qtype_block_bytes(t);
    __m256 acc[2][4];
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t h = 0; h < H; h++)
            acc[r][h] = k0 ? _mm256_loadu_ps(y + r * ldy + 8 * h) : _mm256_setzero_ps();
    for (uint32_t k = k0; k < k1; k++) {
        __m256 w[4];
#pragma GCC unroll 4
        for (uint32_t h = 0; h < H; h++)
            w[h] = weights(t, panels + h / 2 * bytes, k, h % 2);
#pragma GCC unroll 2
        for (uint32_t r = 0; r < R; r++) {
            __m256 xr = _mm256_set1_ps(x[r * ldx + k]);
#pragma GCC unroll 4
            for (uint32_t h = 0; h < H; h++)
                acc[r][h] = _mm256_fmadd_ps(w[h], xr, acc[r][h]);
        }
    }
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t h = 0; h < H; h++)
            _mm256_storeu_ps(y + r * ldy + 8 * h, acc[r][h]);
}

MM_INLINE void floats_h(enum qtype t, uint32_t H, uint32_t n_in, const uint8_t *panels, const float *x, size_t ldx,
                        uint32_t n_rows, float *y, size_t ldy)
{
    enum { RANGE = 256 }; /* of elements: two panels' worth stays in the first cache */
    for (uint32_t k0 = 0; k0 < n_in; k0 += RANGE) {
        uint32_t k1 = n_in - k0 < RANGE ? n_in : k0 + RANGE, r = 0;
        for (; n_rows - r >= 2; r += 2)
            floats_rh(t, 2, H, n_in, k0, k1, panels, x + r * ldx, ldx, y + r * ldy, ldy);
        if (r < n_rows)
            floats_rh(t, 1, H, n_in, k0, k1, panels, x + r * ldx, ldx, y + r * ldy, ldy);
    }
}

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        size_t bytes = mm_panel_bytes(QT_##T, n_in);                                                                   \
        for (; n_panels >= 2; n_panels -= 2, panels += 2 * bytes, y += 32)                                             \
            floats_h(QT_##T, 4, n_in, panels, x, ldx, n_rows, y, ldy);                                                 \
        if (n_panels)                                                                                                  \
            floats_h(QT_##T, 2, n_in, panels, x, ldx, n_rows, y, ldy);                                                 \
    }
X(F32) X(F16) X(BF16)
#undef X

/* ---- quantiser: mm_quant_row ---- */

MM_INLINE int32_t top_of(__m256i m)
{
    __m128i v = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
}

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    const __m256i sign_off = _mm256_set1_epi32(0x7fffffff), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int8_t *q = a->q + (size_t)row * a->ldq;
    size_t at = row;
    for (uint32_t b = 0; b < n_in / QK; b++, x += QK, q += QK, at += a->ldd) {
        __m256 v[4];
        __m256i m = _mm256_setzero_si256(), c[4];
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(v[i]), sign_off));
        }
        int32_t top = top_of(m);
        float amax = f32_from_bits((uint32_t)top), inv = 127.0f / amax, d = amax / 127.0f;
        bool zero = top >= 0x7f800000 || amax < 1e-30f;
        if (__builtin_expect(zero, 0)) {
            inv = 0;
            d = top >= 0x7f800000 ? f32_from_bits(0x7fc00000) : 0;
        }
        for (int i = 0; i < 4; i++) {
            __m256 r = _mm256_mul_ps(zero ? _mm256_setzero_ps() : v[i], _mm256_set1_ps(inv));
            c[i] = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(r, magic)), _mm256_castps_si256(magic));
        }
        /* packs work in halves of 128 bits; `order` puts the fours back in place */
        __m256i lo = _mm256_packs_epi32(c[0], c[1]), hi = _mm256_packs_epi32(c[2], c[3]);
        __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(lo, hi), order);
        _mm256_storeu_si256((__m256i *)q, bytes);
#ifndef __AVXVNNI__
        __m256i *words = (__m256i *)(a->b + (q - a->q));
        _mm256_storeu_si256((__m256i *)(a->u + (q - a->q)), _mm256_xor_si256(bytes, _mm256_set1_epi8((int8_t)0x80)));
        _mm256_storeu_si256(words, _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
        _mm256_storeu_si256(words + 1, _mm256_srai_epi16(bytes, 8));
#endif
        __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
        s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
        s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
        int32_t s0 = _mm256_extract_epi32(s, 0), s1 = _mm256_extract_epi32(s, 4);
        a->s16[2 * at] = (int16_t)s0;
        a->s16[2 * at + 1] = (int16_t)s1;
        a->d[at] = d;
        a->dx[at] = d * (float)(s0 + s1);
    }
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...) case QT_##T: return n_rows == 1 ? dot1_##T : n_rows == 2 && by_words(QT_##T) ? dot2_##T : dot_##T;
#define QTYPE_FLOAT(T, ...) case QT_##T: return dot_##T;
#include "kernels/qtypes.def"
    default: return NULL;
    }
}

#endif
