/* kernels/dequant_books.h: kernels/dequant.h's part for types whose codes stand for several weights. A weight is a scale times
 * a small integer, exact in f32 but where d is an infinity or a NaN, so there is no order of roundings to keep.
 *
 * Source: the GGUF/ggml format (ggml-org/ggml: src/ggml-quants.c). */
#ifndef ZINC_KERNELS_DEQUANT_BOOKS_H
#define ZINC_KERNELS_DEQUANT_BOOKS_H

#include "kernels/blocks.h"
#include "kernels/codebooks.h"
#include "kernels/fp.h"

/* n elements of an entry, those with their bit set in `signs` negative. */
static inline void dequant_entry(float d, const uint32_t *words, int n, uint32_t signs, float *y)
{
    for (int i = 0; i < n; i++) {
        float v = d * (float)(words[i / 4] >> 8 * (i % 4) & 255);
        y[i] = signs >> i & 1 ? -v : v;
    }
}

/* d times an odd scale, over eight or two: the formats have it as d (1/2 + s) / 4 and d (1/2 + s) / 2. */
static inline float dequant_odd(float d, uint32_t s, float part)
{
    return d * (0.5f + (float)s) * part;
}

static inline void dequant_iq2_xxs(const blk_iq2_xxs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int r = 0; r < 8; r++) {
        const uint16_t *q = b->qs + 4 * r;
        uint32_t signs = (uint32_t)q[3] << 16 | q[2];
        float dl = dequant_odd(d, signs >> 28, 0.25f);
        for (int j = 0; j < 4; j++, y += 8)
            dequant_entry(dl, codebook_iq2_xxs[q[j / 2] >> 8 * (j % 2) & 255], 8,
                          codebook_signs(signs >> 7 * j & 127), y);
    }
}

static inline void dequant_iq2_xs(const blk_iq2_xs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++, y += 8) {
        float dl = dequant_odd(d, b->scales[j / 4] >> 4 * (j / 2 % 2) & 15, 0.25f);
        dequant_entry(dl, codebook_iq2_xs[b->qs[j] & 511], 8, codebook_signs(b->qs[j] >> 9), y);
    }
}

static inline void dequant_iq2_s(const blk_iq2_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++, y += 8) {
        float dl = dequant_odd(d, b->scales[j / 4] >> 4 * (j / 2 % 2) & 15, 0.25f);
        uint32_t high = b->qh[j / 4] >> 2 * (j % 4) & 3;
        dequant_entry(dl, codebook_iq2_s[b->qs[j] | high << 8], 8, b->signs[j], y);
    }
}

static inline void dequant_iq3_xxs(const blk_iq3_xxs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 64; j++, y += 4) {
        uint32_t signs = dequant_u32(b->signs + 4 * (j / 8)), eight = codebook_signs(signs >> 7 * (j % 8 / 2) & 127);
        dequant_entry(dequant_odd(d, signs >> 28, 0.5f), &codebook_iq3_xxs[b->qs[j]], 4, eight >> 4 * (j % 2), y);
    }
}

static inline void dequant_iq3_s(const blk_iq3_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 64; j++, y += 4) {
        float dl = d * (float)(1 + 2 * (b->scales[j / 16] >> 4 * (j / 8 % 2) & 15));
        uint32_t high = b->qh[j / 8] >> j % 8 & 1;
        dequant_entry(dl, &codebook_iq3_s[b->qs[j] | high << 8], 4, b->signs[j / 2] >> 4 * (j % 2), y);
    }
}

/* Weights of -1, 0 and 1, moved up or down by an eighth. */
static inline void dequant_shifted(float d, uint32_t entry, bool down, float *y)
{
    for (int i = 0; i < 8; i++) {
        int eighths = (int)(codebook_iq1[entry][i / 4] >> 8 * (i % 4) & 255) - 8 + (down ? -1 : 1);
        y[i] = d * (0.125f * (float)eighths);
    }
}

static inline void dequant_iq1_s(const blk_iq1_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++, y += 8) {
        uint32_t h = b->qh[j / 4];
        dequant_shifted(d * (float)(2 * (h >> 12 & 7) + 1), b->qs[j] | (h >> 3 * (j % 4) & 7) << 8, h >> 15, y);
    }
}

/* An IQ1_M block's d: the top four bits of its four words of scales, lowest first. */
static inline uint32_t iq1_m_d(const uint16_t s[4])
{
    return s[0] >> 12 | (s[1] >> 8 & 0x00f0) | (s[2] >> 4 & 0x0f00) | (s[3] & 0xf000);
}

static inline void dequant_iq1_m(const blk_iq1_m *b, float *y)
{
    float d = f16_to_f32((uint16_t)iq1_m_d(b->scales));
    for (int j = 0; j < 32; j++, y += 8) {
        uint32_t h = b->qh[j / 2] >> 4 * (j % 2), s = b->scales[j / 8] >> 3 * (j / 2 % 4) & 7;
        dequant_shifted(d * (float)(2 * s + 1), b->qs[j] | (h & 7) << 8, h >> 3 & 1, y);
    }
}

/* Digit n of a byte of digits to the base of three: of the fraction q / 256, the first first. */
static inline int dequant_trit(uint8_t q, int n)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    return (int)((uint32_t)(uint8_t)(q * power[n]) * 3 >> 8);
}

static inline void dequant_tq1_0(const blk_tq1_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int i = 0; i < 160; i++)
        y[i] = (float)(dequant_trit(b->qs[i % 32], i / 32) - 1) * d;
    for (int i = 0; i < 80; i++)
        y[160 + i] = (float)(dequant_trit(b->qs[32 + i % 16], i / 16) - 1) * d;
    for (int i = 0; i < 16; i++)
        y[240 + i] = (float)(dequant_trit(b->qh[i % 4], i / 4) - 1) * d;
}

static inline void dequant_tq2_0(const blk_tq2_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int i = 0; i < 256; i++)
        y[i] = (float)((b->qs[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3) - 1) * d;
}

#endif
