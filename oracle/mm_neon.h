/* oracle/mm_neon.h: products with NEON, the body of mm_neon.c, and of mm_dotprod.c, which defines MM_DOTPROD. A panel's 16
 * rows are four vectors of 4. SDOT adds four products of signed bytes to a lane; without it SMLAL adds two to 16 bits
 * (2 * 128 * 127 fits), which SADALP widens. The float sums are those of mm_plain.c, in its order. */
#ifndef ZINC_ORACLE_MM_NEON_H
#define ZINC_ORACLE_MM_NEON_H

#include "oracle/mm_block.h"

typedef const uint32_t (*words)[16]; /* of a block: [k / 4][row], signed bytes */

MM_INLINE int8x16_t rows4(words w, uint32_t g, uint32_t p)
{
    return vreinterpretq_s8_u32(vld1q_u32(w[g] + 4 * p));
}

#ifdef MM_DOTPROD
/* Sums over 16 elements of rows 4 p and up. */
MM_INLINE int32x4_t dot16(words w, uint32_t p, int8x16_t x)
{
    int32x4_t s = vdotq_laneq_s32(vdupq_n_s32(0), rows4(w, 0, p), x, 0);
    s = vdotq_laneq_s32(s, rows4(w, 1, p), x, 1);
    s = vdotq_laneq_s32(s, rows4(w, 2, p), x, 2);
    return vdotq_laneq_s32(s, rows4(w, 3, p), x, 3);
}
#else
/* Groups g and g + 1 of four: xa and xb hold theirs of x in every lane. */
MM_INLINE void add_pair(words w, uint32_t g, uint32_t p, int32x4_t xa, int32x4_t xb, int32x4_t *lo, int32x4_t *hi)
{
    int8x16_t a = rows4(w, g, p), b = rows4(w, g + 1, p), ya = vreinterpretq_s8_s32(xa), yb = vreinterpretq_s8_s32(xb);
    int16x8_t l = vmull_s8(vget_low_s8(a), vget_low_s8(ya)), h = vmull_high_s8(a, ya);
    *lo = vpadalq_s16(*lo, vmlal_s8(l, vget_low_s8(b), vget_low_s8(yb)));
    *hi = vpadalq_s16(*hi, vmlal_high_s8(h, b, yb));
}
MM_INLINE int32x4_t dot16(words w, uint32_t p, int8x16_t x8)
{
    int32x4_t lo = vdupq_n_s32(0), hi = lo, x = vreinterpretq_s32_s8(x8);
    add_pair(w, 0, p, vdupq_laneq_s32(x, 0), vdupq_laneq_s32(x, 1), &lo, &hi);
    add_pair(w, 2, p, vdupq_laneq_s32(x, 2), vdupq_laneq_s32(x, 3), &lo, &hi);
    return vpaddq_s32(lo, hi);
}
#endif

MM_INLINE float32x4_t part(const float v[16], uint32_t p)
{
    return vld1q_f32(v + 4 * p);
}

/* R rows by n runs. */
MM_INLINE void runs_r(enum qtype_scales kind, uint32_t R, const struct mm_xblk *w, uint32_t n, const struct mm_rows *x,
                      uint32_t row, float *y, size_t ldy, bool first)
{
    const int8_t *q = x->q + row * x->ldq;
    const float *d = x->d + row, *dx = x->dx + row;
    const int16_t *s16 = x->s16 + 2 * row;
    float32x4_t acc[4][MM_PARTS];
    y += row * ldy;
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < MM_PARTS; p++)
            acc[r][p] = first ? vdupq_n_f32(0) : vld1q_f32(y + r * ldy + 4 * p);
    for (uint32_t i = 0; i < n; i++, w++, q += QK, d += x->ldd, dx += x->ldd, s16 += 2 * x->ldd)
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++) {
            int8x16_t x0 = vld1q_s8(q + r * x->ldq), x1 = vld1q_s8(q + r * x->ldq + 16);
#pragma GCC unroll 4
            for (uint32_t p = 0; p < MM_PARTS; p++) {
                int32x4_t lo = dot16(w->w, p, x0), hi = dot16(w->w + 4, p, x1);
                float32x4_t sum;
                if (kind == QS_HALVES) {
                    acc[r][p] = vfmaq_f32(acc[r][p], vmulq_n_f32(part(w->s0, p), d[r]), vcvtq_f32_s32(lo));
                    acc[r][p] = vfmaq_f32(acc[r][p], vmulq_n_f32(part(w->s1, p), d[r]), vcvtq_f32_s32(hi));
                    continue;
                }
                if (kind == QS_RUNS || kind == QS_RUNS_MIN) /* integers below 2^24: exact */
                    sum = vfmaq_f32(vmulq_f32(vcvtq_f32_s32(lo), part(w->s0, p)), vcvtq_f32_s32(hi), part(w->s1, p));
                else
                    sum = vcvtq_f32_s32(vaddq_s32(lo, hi));
                acc[r][p] = vfmaq_f32(acc[r][p], vmulq_n_f32(part(w->dw, p), d[r]), sum);
                if (kind == QS_SCALE_MIN)
                    acc[r][p] = vfmaq_f32(acc[r][p], part(w->mw, p), vdupq_n_f32(dx[r]));
                if (kind == QS_RUNS_MIN) {
                    float32x4_t m = vmulq_n_f32(part(w->m0, p), (float)s16[2 * r]);
                    m = vfmaq_f32(m, part(w->m1, p), vdupq_n_f32((float)s16[2 * r + 1]));
                    acc[r][p] = vfmsq_f32(acc[r][p], vmulq_n_f32(part(w->mw, p), d[r]), m);
                }
            }
        }
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < MM_PARTS; p++)
            vst1q_f32(y + r * ldy + 4 * p, acc[r][p]);
}

#define RUNS(name, kind)                                                                                               \
    static void name(const struct mm_xblk *w, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y, \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        uint32_t r = 0;                                                                                                \
        for (; n_rows - r >= 4; r += 4)                                                                                \
            runs_r(kind, 4, w, n, x, r, y, ldy, first);                                                                \
        if (n_rows - r >= 2) {                                                                                         \
            runs_r(kind, 2, w, n, x, r, y, ldy, first);                                                                \
            r += 2;                                                                                                    \
        }                                                                                                              \
        if (n_rows > r)                                                                                                \
            runs_r(kind, 1, w, n, x, r, y, ldy, first);                                                                \
    }
RUNS(by_scale, QS_SCALE)
RUNS(by_scale_min, QS_SCALE_MIN)
RUNS(by_runs, QS_RUNS)
RUNS(by_runs_min, QS_RUNS_MIN)
RUNS(by_halves, QS_HALVES)

MM_INLINE mm_runs_fn *runs_of(enum qtype t)
{
    switch (qtype_scales(t)) {
    case QS_SCALE: return by_scale;
    case QS_SCALE_MIN: return by_scale_min;
    case QS_RUNS: return by_runs;
    case QS_RUNS_MIN: return by_runs_min;
    case QS_HALVES: return by_halves;
    }
    return NULL;
}

#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        mm_walk(QT_##T, runs_of(QT_##T), mm_offset(QT_##T), n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch); \
    }
#include "kernels/qtypes.def"

/* ---- floats ---- */

MM_INLINE float32x4_t weights(enum qtype t, const uint8_t *panel, uint32_t k, uint32_t p)
{
    if (t == QT_F32)
        return vld1q_f32((const float *)panel + 16 * (size_t)k + 4 * p);
    uint16x4_t h = vld1_u16((const uint16_t *)panel + 16 * (size_t)k + 4 * p);
    return t == QT_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(h)) : vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

/* R rows by a panel, elements [k0, k1). */
MM_INLINE void floats_r(enum qtype t, uint32_t R, uint32_t k0, uint32_t k1, const uint8_t *panel, const float *x, size_t ldx,
                        float *y, size_t ldy)
{
    float32x4_t acc[4][MM_PARTS];
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < MM_PARTS; p++)
            acc[r][p] = k0 ? vld1q_f32(y + r * ldy + 4 * p) : vdupq_n_f32(0);
    for (uint32_t k = k0; k < k1; k++) {
        float32x4_t w[MM_PARTS];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < MM_PARTS; p++)
            w[p] = weights(t, panel, k, p);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; r++)
#pragma GCC unroll 4
            for (uint32_t p = 0; p < MM_PARTS; p++)
                acc[r][p] = vfmaq_n_f32(acc[r][p], w[p], x[r * ldx + k]);
    }
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t p = 0; p < MM_PARTS; p++)
            vst1q_f32(y + r * ldy + 4 * p, acc[r][p]);
}

MM_INLINE void floats(enum qtype t, uint32_t n_in, const uint8_t *panel, const float *x, size_t ldx, uint32_t n_rows, float *y,
                      size_t ldy)
{
    enum { RANGE = 512 }; /* of elements: a panel's worth stays in the first cache */
    for (uint32_t k0 = 0; k0 < n_in; k0 += RANGE) {
        uint32_t k1 = n_in - k0 < RANGE ? n_in : k0 + RANGE, r = 0;
        for (; n_rows - r >= 4; r += 4)
            floats_r(t, 4, k0, k1, panel, x + r * ldx, ldx, y + r * ldy, ldy);
        for (; r < n_rows; r++)
            floats_r(t, 1, k0, k1, panel, x + r * ldx, ldx, y + r * ldy, ldy);
    }
}

#define QTYPE_FLOAT(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        for (uint32_t p = 0; p < n_panels; p++)                                                                        \
            floats(QT_##T, n_in, panels + p * mm_panel_bytes(QT_##T, n_in), x, ldx, n_rows, y + 16 * p, ldy);          \
    }
#include "kernels/qtypes.def"

/* ---- quantiser: mm_quant_row ---- */

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    const float32x4_t magic = vdupq_n_f32(12582912.0f);
    int8_t *q = a->q + (size_t)row * a->ldq;
    size_t at = row;
    for (uint32_t b = 0; b < n_in / QK; b++, x += QK, q += QK, at += a->ldd) {
        float32x4_t v[8];
        int32x4_t m = vdupq_n_s32(0);
        int16x8_t c[4];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            v[i] = vld1q_f32(x + 4 * i);
            m = vmaxq_s32(m, vandq_s32(vreinterpretq_s32_f32(v[i]), vdupq_n_s32(0x7fffffff)));
        }
        int32_t top = vmaxvq_s32(m);
        float amax = f32_from_bits((uint32_t)top), inv = 127.0f / amax, d = amax / 127.0f;
        bool zero = top >= 0x7f800000 || amax < 1e-30f;
        if (__builtin_expect(zero, 0)) {
            inv = 0;
            d = top >= 0x7f800000 ? f32_from_bits(0x7fc00000) : 0;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int32x4_t k[2];
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                float32x4_t r = vmulq_n_f32(zero ? vdupq_n_f32(0) : v[2 * i + j], inv);
                k[j] = vsubq_s32(vreinterpretq_s32_f32(vaddq_f32(r, magic)), vreinterpretq_s32_f32(magic));
            }
            c[i] = vcombine_s16(vmovn_s32(k[0]), vmovn_s32(k[1]));
        }
        vst1q_s8(q, vcombine_s8(vmovn_s16(c[0]), vmovn_s16(c[1])));
        vst1q_s8(q + 16, vcombine_s8(vmovn_s16(c[2]), vmovn_s16(c[3])));
        int32_t s0 = vaddvq_s16(vaddq_s16(c[0], c[1])), s1 = vaddvq_s16(vaddq_s16(c[2], c[3]));
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
#define QTYPE(T, ...) case QT_##T: return dot_##T;
#include "kernels/qtypes.def"
    default: return NULL;
    }
}

#endif
