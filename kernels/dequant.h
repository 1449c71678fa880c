/* kernels/dequant.h
 * One block of each quantised type to floats, in exactly the order of roundings that the format's reference uses:
 * every product and sum below is one f32 rounding, and the results are bit-equal to ggml's (tests/peer/ggml_types.c).
 * Build with -ffp-contract=off: a fused multiply-add would change bits. For hosts.
 *
 *     dequant_row(QT_Q4_K, tensor->data, row, 4096);
 *
 * Notation: d and m are the block's f16 scale and minimum; "lo" and "hi" are the nibbles of a byte. */
#ifndef ZINC_KERNELS_DEQUANT_H
#define ZINC_KERNELS_DEQUANT_H

#include <stdint.h>

#include "kernels/blocks.h"
#include "kernels/fp.h"
#include "kernels/qtypes.h"

#ifndef TABLE
#define TABLE(type, name, n, ...) static const type name[n] = { __VA_ARGS__ };
#endif
#include "kernels/q_tables.inc"

/* ---- 32 elements: byte j holds element j (lo) and j + 16 (hi) ---- */

static inline void dequant_q4_0(const blk_q4_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b->qs[j] & 15) - 8) * d;
        y[j + 16] = (float)((b->qs[j] >> 4) - 8) * d;
    }
}

static inline void dequant_q4_1(const blk_q4_1 *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b->qs[j] & 15) * d + m;
        y[j + 16] = (float)(b->qs[j] >> 4) * d + m;
    }
}

/* Q5_0 and Q5_1: the fifth bit of element i is bit i of qh, read as a little-endian word. */
static inline uint32_t dequant_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void dequant_q5_0(const blk_q5_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    uint32_t h = dequant_u32(b->qh);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((int)((b->qs[j] & 15) | (h >> j & 1) << 4) - 16) * d;
        y[j + 16] = (float)((int)((b->qs[j] >> 4) | (h >> (j + 16) & 1) << 4) - 16) * d;
    }
}

static inline void dequant_q5_1(const blk_q5_1 *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
    uint32_t h = dequant_u32(b->qh);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b->qs[j] & 15) | (h >> j & 1) << 4) * d + m;
        y[j + 16] = (float)((b->qs[j] >> 4) | (h >> (j + 16) & 1) << 4) * d + m;
    }
}

static inline void dequant_q8_0(const blk_q8_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++)
        y[j] = (float)b->qs[j] * d;
}

static inline void dequant_iq4_nl(const blk_iq4_nl *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)iq4_values[b->qs[j] & 15];
        y[j + 16] = d * (float)iq4_values[b->qs[j] >> 4];
    }
}

static inline void dequant_mxfp4(const blk_mxfp4 *b, float *y)
{
    float d = e8m0_half_to_f32(b->e);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)e2m1_x2[b->qs[j] & 15] * d;
        y[j + 16] = (float)e2m1_x2[b->qs[j] >> 4] * d;
    }
}

/* Runs of 16, 8 bytes each: byte j holds element j (lo) and j + 8 (hi). */
static inline void dequant_nvfp4(const blk_nvfp4 *b, float *y)
{
    for (int r = 0; r < 4; r++) {
        float d = ue4m3_half_to_f32(b->d[r]);
        for (int j = 0; j < 8; j++) {
            y[16 * r + j] = (float)e2m1_x2[b->qs[8 * r + j] & 15] * d;
            y[16 * r + j + 8] = (float)e2m1_x2[b->qs[8 * r + j] >> 4] * d;
        }
    }
}

/* ---- 256 elements ---- */

/* Runs of 16. Bytes 0..31 of a half hold its elements 0..31 in bits 0-1, 32..63 in bits 2-3, and so on. */
static inline void dequant_q2_k(const blk_q2_k *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->dmin);
    for (int r = 0; r < 16; r++) {
        const uint8_t *q = b->qs + 32 * (r / 8) + 16 * (r & 1);
        int shift = 2 * (r / 2 % 4);
        float dl = d * (float)(b->scales[r] & 15), ml = m * (float)(b->scales[r] >> 4);
        for (int l = 0; l < 16; l++)
            y[16 * r + l] = dl * (float)(q[l] >> shift & 3) - ml;
    }
}

/* The 6-bit scale of run r of a Q3_K block, 0..63; the value in use is 32 less. */
static inline int q3_k_scale(const uint8_t s[12], int r)
{
    int lo = r < 8 ? s[r] & 15 : s[r - 8] >> 4;
    return lo | (s[8 + r % 4] >> (2 * (r / 4)) & 3) << 4;
}

/* The low two bits as in Q2_K; bit (run pair) of hmask[l] clear subtracts 4. */
static inline void dequant_q3_k(const blk_q3_k *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int r = 0; r < 16; r++) {
        const uint8_t *q = b->qs + 32 * (r / 8) + 16 * (r & 1), *h = b->hmask + 16 * (r & 1);
        int shift = 2 * (r / 2 % 4), bit = r / 2;
        float dl = d * (float)(q3_k_scale(b->scales, r) - 32);
        for (int l = 0; l < 16; l++)
            y[16 * r + l] = dl * (float)((q[l] >> shift & 3) - (h[l] >> bit & 1 ? 0 : 4));
    }
}

/* The 6-bit scale and minimum of run j (0..7) of a Q4_K or Q5_K block. */
static inline void q4_k_scale_min(const uint8_t s[12], int j, uint8_t *sc, uint8_t *mn)
{
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        *mn = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

/* Runs of 32: bytes 32g..32g+31 hold run 2g (lo) and run 2g+1 (hi). */
static inline void dequant_q4_k(const blk_q4_k *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = b->qs + 32 * (j / 2);
        int shift = 4 * (j & 1);
        uint8_t sc, mn;
        q4_k_scale_min(b->scales, j, &sc, &mn);
        float dl = d * (float)sc, ml = m * (float)mn;
        for (int l = 0; l < 32; l++)
            y[32 * j + l] = dl * (float)(q[l] >> shift & 15) - ml;
    }
}

/* As Q4_K; bit j of qh[l] adds 16 to element l of run j. */
static inline void dequant_q5_k(const blk_q5_k *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = b->qs + 32 * (j / 2);
        int shift = 4 * (j & 1);
        uint8_t sc, mn;
        q4_k_scale_min(b->scales, j, &sc, &mn);
        float dl = d * (float)sc, ml = m * (float)mn;
        for (int l = 0; l < 32; l++)
            y[32 * j + l] = dl * (float)((q[l] >> shift & 15) + (b->qh[l] >> j & 1) * 16) - ml;
    }
}

/* Two halves of 128; quarter k of a half takes nibble k/2 of ql[32 (k&1) + l] and bits 2k of qh[l]; runs of 16. */
static inline void dequant_q6_k(const blk_q6_k *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 8; k++) {
        int half = k / 4, quarter = k % 4;
        const uint8_t *ql = b->ql + 64 * half + 32 * (quarter & 1), *qh = b->qh + 32 * half;
        float d0 = d * (float)b->scales[2 * k], d1 = d * (float)b->scales[2 * k + 1];
        for (int l = 0; l < 32; l++) {
            int q = (ql[l] >> (4 * (quarter / 2)) & 15) | (qh[l] >> (2 * quarter) & 3) << 4;
            y[32 * k + l] = (l < 16 ? d0 : d1) * (float)(q - 32);
        }
    }
}

/* The 6-bit scale of run j (0..7) of an IQ4_XS block, 0..63; the value in use is 32 less. */
static inline int iq4_xs_scale(const blk_iq4_xs *b, int j)
{
    return (b->scales_l[j / 2] >> (4 * (j & 1)) & 15) | (b->scales_h >> (2 * j) & 3) << 4;
}

/* Runs of 32, 16 bytes each: byte l holds element l (lo) and l + 16 (hi) of the run. */
static inline void dequant_iq4_xs(const blk_iq4_xs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = b->qs + 16 * j;
        float dl = d * (float)(iq4_xs_scale(b, j) - 32);
        for (int l = 0; l < 16; l++) {
            y[32 * j + l] = dl * (float)iq4_values[q[l] & 15];
            y[32 * j + l + 16] = dl * (float)iq4_values[q[l] >> 4];
        }
    }
}

#include "kernels/dequant_books.h"

/* `n` elements, a multiple of qtype_block(t), from `src` (aligned to 4 for F32, to 2 otherwise) to `dst`.
 * A type that zinc does not read writes nothing. */
static inline void dequant_row(enum qtype t, const void *src, float *dst, uint64_t n)
{
    switch (t) {
    case QT_F32:
        for (uint64_t i = 0; i < n; i++)
            dst[i] = ((const float *)src)[i];
        break;
    case QT_F16:
        for (uint64_t i = 0; i < n; i++)
            dst[i] = f16_to_f32(((const uint16_t *)src)[i]);
        break;
    case QT_BF16:
        for (uint64_t i = 0; i < n; i++)
            dst[i] = bf16_to_f32(((const uint16_t *)src)[i]);
        break;
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, ...)                                                                   \
    case QT_##NAME:                                                                                                    \
        for (uint64_t i = 0; i < n / elems; i++)                                                                       \
            dequant_##name((const blk_##name *)src + i, dst + i * elems);                                              \
        break;
#include "kernels/qtypes.def"
    default: break;
    }
}

#endif
