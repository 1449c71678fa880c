/* The quantisers of the types whose codes look up several weights at once (kernels/codebooks.h), and of the ternary ones.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codebooks.h"
#include "model/quant_book.h"
#include "model/quant_search.h"
#define FIT quant_codebook_fit
#include "model/quant_codebook_fit.h"

/* ---- books ---- */

static void fill(struct book *b, const uint32_t *words, uint32_t n, uint32_t len)
{
    double ss = 0;
    b->n = n;
    b->len = len;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < len; i++) {
            float v = (float)(words[(k * len + i) / 4] >> 8 * (i % 4) & 255);
            b->g[i][k] = b->is_signed ? (v - 8) * 0.125f : v;
            ss += (double)(b->g[i][k] * b->g[i][k]);
            b->top = MAX(b->top, b->g[i][k]);
        }
    b->rms = (float)sqrt(ss / n / len);
}

void quant_codebook_open(struct book *b, enum qtype t)
{
    *b = (struct book){ .run = 32, .max_scale = 15, .unit = 0.125f };
    switch (t) {
    case QT_IQ2_XXS: b->even = true; fill(b, codebook_iq2_xxs[0], 256, 8); break;
    case QT_IQ2_XS: b->even = true; b->run = 16; fill(b, codebook_iq2_xs[0], 512, 8); break;
    case QT_IQ2_S: b->run = 16; fill(b, codebook_iq2_s[0], 1024, 8); break;
    case QT_IQ3_XXS: b->unit = 0.25f; b->even = true; b->options = PAIRS; fill(b, codebook_iq3_xxs, 256, 4); break;
    case QT_IQ3_S: b->unit = 1; fill(b, codebook_iq3_s, 512, 4); break;
    default:
        b->unit = 1;
        b->max_scale = 7;
        b->is_signed = true;
        b->options = t == QT_IQ1_S ? ALL : EACH;
        b->run = t == QT_IQ1_S ? 32 : 16;
        fill(b, codebook_iq1[0], 2048, 8);
    }
}

/* ---- packing; the layouts are those of kernels/dequant_books.h ---- */

static uint32_t seven(uint8_t signs)
{
    return signs & 127u;
}

static void pack_iq2_xxs(const struct codes *c, blk_iq2_xxs *b)
{
    for (int r = 0; r < 8; r++) {
        uint32_t signs = (uint32_t)c->scale[r] << 28;
        for (int j = 0; j < 4; j++) {
            b->qs[4 * r + j / 2] |= (uint16_t)(c->k[4 * r + j] << 8 * (j % 2));
            signs |= seven(c->signs[4 * r + j]) << 7 * j;
        }
        b->qs[4 * r + 2] = (uint16_t)signs;
        b->qs[4 * r + 3] = (uint16_t)(signs >> 16);
    }
}

static void pack_nibbles(const struct codes *c, int n, uint8_t *scales)
{
    for (int r = 0; r < n; r++)
        scales[r / 2] |= (uint8_t)(c->scale[r] << 4 * (r % 2));
}

static void pack_iq2_xs(const struct codes *c, blk_iq2_xs *b)
{
    for (int j = 0; j < 32; j++)
        b->qs[j] = (uint16_t)(c->k[j] | seven(c->signs[j]) << 9);
    pack_nibbles(c, 16, b->scales);
}

static void pack_iq2_s(const struct codes *c, blk_iq2_s *b)
{
    for (int j = 0; j < 32; j++) {
        b->qs[j] = (uint8_t)c->k[j];
        b->qh[j / 4] |= (uint8_t)(c->k[j] >> 8 << 2 * (j % 4));
        b->signs[j] = c->signs[j];
    }
    pack_nibbles(c, 16, b->scales);
}

static void pack_iq3_xxs(const struct codes *c, blk_iq3_xxs *b)
{
    for (int j = 0; j < 64; j++)
        b->qs[j] = (uint8_t)c->k[j];
    for (int r = 0; r < 8; r++) {
        uint32_t signs = (uint32_t)c->scale[r] << 28;
        for (int j = 0; j < 4; j++)
            signs |= seven(c->signs[4 * r + j]) << 7 * j;
        for (int i = 0; i < 4; i++)
            b->signs[4 * r + i] = (uint8_t)(signs >> 8 * i);
    }
}

static void pack_iq3_s(const struct codes *c, blk_iq3_s *b)
{
    for (int j = 0; j < 64; j++) {
        b->qs[j] = (uint8_t)c->k[j];
        b->qh[j / 8] |= (uint8_t)(c->k[j] >> 8 << j % 8);
    }
    memcpy(b->signs, c->signs, sizeof b->signs);
    pack_nibbles(c, 8, b->scales);
}

static void pack_iq1_s(const struct codes *c, blk_iq1_s *b)
{
    for (int j = 0; j < 32; j++) {
        b->qs[j] = (uint8_t)c->k[j];
        b->qh[j / 4] |= (uint16_t)(c->k[j] >> 8 << 3 * (j % 4));
    }
    for (int r = 0; r < 8; r++)
        b->qh[r] |= (uint16_t)(c->scale[r] << 12 | c->option[4 * r] << 15);
}

static void pack_iq1_m(const struct codes *c, blk_iq1_m *b)
{
    for (int j = 0; j < 32; j++) {
        b->qs[j] = (uint8_t)c->k[j];
        b->qh[j / 2] |= (uint8_t)((c->k[j] >> 8 | c->option[j] << 3) << 4 * (j % 2));
    }
    for (int r = 0; r < 16; r++)
        b->scales[r / 4] |= (uint16_t)(c->scale[r] << 3 * (r % 4));
}

static void pack(enum qtype t, const struct codes *c, void *block)
{
    memset(block, 0, qtype_block_bytes(t));
    switch (t) {
    case QT_IQ2_XXS: pack_iq2_xxs(c, block); break;
    case QT_IQ2_XS: pack_iq2_xs(c, block); break;
    case QT_IQ2_S: pack_iq2_s(c, block); break;
    case QT_IQ3_XXS: pack_iq3_xxs(c, block); break;
    case QT_IQ3_S: pack_iq3_s(c, block); break;
    case QT_IQ1_S: pack_iq1_s(c, block); break;
    default: pack_iq1_m(c, block); break;
    }
    quant_book_set_d(t, block, c->d);
}

/* ---- ternary types ---- */

/* The scale d of codes -1, 0 and 1, and the codes plus 1. What was trained to be ternary is kept as it is. */
static float fit_trits(const float *x, const float *importance, uint8_t *q)
{
    float w[QK_K], ss = 0, best = 0, gain = 0;
    quant_weights(x, importance, QK_K, w);
    for (int i = 0; i < QK_K; i++)
        ss += x[i] * x[i];
    float s = 0.5f * sqrtf(ss / QK_K);
    for (int i = 0; i < STEPS + POLISH && ss > 0; i++, s *= 1.15f) {
        double a = 0, b = 0;
        if (i >= STEPS)
            s = best;
        for (int j = 0; j < QK_K; j++) {
            bool on = fabsf(x[j]) > 0.5f * s;
            a += on ? (double)(w[j] * fabsf(x[j])) : 0;
            b += on ? (double)w[j] : 0;
        }
        if (b > 0 && a * a > (double)gain * b) {
            gain = (float)(a * a / b);
            best = (float)(a / b);
        }
    }
    for (int j = 0; j < QK_K; j++)
        q[j] = (uint8_t)(fabsf(x[j]) > 0.5f * best ? x[j] < 0 ? 0 : 2 : 1);
    return best;
}

/* n digits to the base of three, the first the highest, as a fraction of 256 rounded up. */
static uint8_t trits(const uint8_t *q, int step, int n)
{
    uint32_t v = 0;
    for (int i = 0; i < 5; i++)
        v = 3 * v + (i < n ? q[i * step] : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

static void pack_tq1_0(const uint8_t *q, float d, blk_tq1_0 *b)
{
    b->d = f16_from_f32(d);
    for (int j = 0; j < 32; j++)
        b->qs[j] = trits(q + j, 32, 5);
    for (int j = 0; j < 16; j++)
        b->qs[32 + j] = trits(q + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++)
        b->qh[j] = trits(q + 240 + j, 4, 4);
}

static void pack_tq2_0(const uint8_t *q, float d, blk_tq2_0 *b)
{
    memset(b->qs, 0, sizeof b->qs);
    b->d = f16_from_f32(d);
    for (int i = 0; i < QK_K; i++)
        b->qs[32 * (i / 128) + i % 32] |= (uint8_t)(q[i] << 2 * (i / 32 % 4));
}

static void trits_row(enum qtype t, const float *x, const float *importance, void *dst, uint64_t n)
{
    uint8_t q[QK_K];
    for (uint64_t i = 0; i < n / QK_K; i++) {
        float d = fit_trits(x + i * QK_K, importance ? importance + i * QK_K : NULL, q);
        if (t == QT_TQ1_0)
            pack_tq1_0(q, d, (blk_tq1_0 *)dst + i);
        else
            pack_tq2_0(q, d, (blk_tq2_0 *)dst + i);
    }
}

int quant_codebook_row(enum qtype t, const float *x, const float *importance, void *dst, uint64_t n)
{
    void (*fit)(struct work *k, const float *x, const float *w, struct codes *c) = quant_codebook_fit;
    if (t == QT_TQ1_0 || t == QT_TQ2_0) {
        trits_row(t, x, importance, dst, n);
        return 0;
    }
#ifdef __x86_64__
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    fit = avx512 ? quant_codebook_fit_avx512 : avx2 ? quant_codebook_fit_avx2 : fit;
#endif
    struct work *k = aligned_alloc(64, sizeof *k);
    if (!k)
        return -ENOMEM;
    quant_codebook_open(&k->book, t);
    for (uint64_t i = 0; i < n / QK_K; i++) {
        struct codes c;
        float w[QK_K];
        quant_weights(x + i * QK_K, importance ? importance + i * QK_K : NULL, QK_K, w);
        fit(k, x + i * QK_K, w, &c);
        pack(t, &c, (uint8_t *)dst + i * qtype_block_bytes(t));
    }
    free(k);
    return 0;
}
