/* kernels/sample.h
 * Drawing the next token as ka_sample (kernels/kargs.h) describes it, with the same bits on the host and on every
 * device: f32, one order of summation, exp of kernels/mathf.h, a counter-based generator. Freestanding.
 *
 *     uint32_t id[KA_SAMPLE_MAX], left;
 *     float l[KA_SAMPLE_MAX];
 *     uint32_t n = sample_take(logits, n_vocab, sample_top_k(a->top_k), id, l);
 *     token = n ? id[sample_pick(a, l, n, &left)] : 0;
 *
 * Kernels find the candidates in their own way, and share what comes after: sample_weight, sample_keep, sample_draw.
 * They include kernels/kdev.h before this file, and their arrays lie in shared memory. */
#ifndef ZINC_KERNELS_SAMPLE_H
#define ZINC_KERNELS_SAMPLE_H

#include "kernels/kargs.h"
#include "kernels/mathf.h"
#include "kernels/scan.h"

#ifdef KD_SHARED
#define SAMPLE_MEM KD_SHARED
#else
#define SAMPLE_MEM
#endif

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
static inline void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* In [0, 1), a multiple of 2^-24. */
static inline float sample_uniform(uint32_t seed, uint32_t counter)
{
    const uint32_t at[4] = { counter, 0, 0, 0 }, key[2] = { seed, 0 };
    uint32_t r[4];
    philox4x32(at, key, r);
    return (float)(r[0] >> 8) * 0x1p-24f;
}

/* Candidates that are looked for. */
static inline uint32_t sample_top_k(uint32_t top_k)
{
    return top_k && top_k < KA_SAMPLE_MAX ? top_k : KA_SAMPLE_MAX;
}

/* Proportional to a candidate's probability; max: the largest logit, whose weight is 1 even if it is infinite. */
static inline float sample_weight(float logit, float max, float temp)
{
    return logit == max ? 1.0f : k_exp((logit - max) / temp);
}

/* How many of n >= 1 falling weights (of temperature 1) top_p and min_p leave. */
static inline uint32_t sample_keep(const SAMPLE_MEM float *w, uint32_t n, float top_p, float min_p)
{
    if (top_p < 1.0f) {
        float total = 0.0f, sum = 0.0f;
        for (uint32_t i = 0; i < n; i++)
            total += w[i];
        for (uint32_t i = 0; i < n; i++) {
            sum += w[i];
            if (sum >= top_p * total) {
                n = i + 1;
                break;
            }
        }
    }
    while (n > 1 && w[n - 1] < min_p)
        n--;
    return n;
}

/* Which of n >= 1 candidates of these weights u in [0, 1) means. */
static inline uint32_t sample_draw(const SAMPLE_MEM float *w, uint32_t n, float u)
{
    float total = 0.0f, sum = 0.0f;
    for (uint32_t i = 0; i < n; i++)
        total += w[i];
    for (uint32_t i = 0; i < n; i++) {
        sum += w[i];
        if (sum > u * total)
            return i;
    }
    return n - 1;
}

#if !defined(__NVPTX__) && !defined(__AMDGCN__) && !defined(KD_MSL)

/* The host's way to the candidates: the k largest of n logits, falling, ties by the lower id; returns how many there
 * are. NaN and -inf are none, nor is what is not in the mask (one bit per logit; NULL: all). */
static inline uint32_t sample_take_masked(const float *logits, uint32_t n, const uint64_t *mask, uint32_t k, uint32_t *id,
                                          float *logit)
{
    uint32_t m = 0;
    float floor = k_bits_float(0xff800000u);
    for (uint32_t i = 0; i < n; i += 64)
        for (uint64_t hit = scan_above(logits, n, i, mask, floor); hit; hit &= hit - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctzll(hit);
            float x = logits[at];
            if (!(x > floor))
                continue;
            uint32_t j = m < k ? m++ : k - 1;
            for (; j > 0 && logit[j - 1] < x; j--) {
                logit[j] = logit[j - 1];
                id[j] = id[j - 1];
            }
            logit[j] = x;
            id[j] = at;
            if (m == k)
                floor = logit[k - 1];
        }
    return m;
}

static inline uint32_t sample_take(const float *logits, uint32_t n, uint32_t k, uint32_t *id, float *logit)
{
    return sample_take_masked(logits, n, 0, k, id, logit);
}

/* The choice among n >= 1 candidates, by temp > 0; *left: how many of them top_p and min_p left. */
static inline uint32_t sample_pick(const ka_sample *a, const float *logit, uint32_t n, uint32_t *left)
{
    float plain[KA_SAMPLE_MAX], w[KA_SAMPLE_MAX];
    for (uint32_t i = 0; i < n; i++) {
        plain[i] = sample_weight(logit[i], logit[0], 1.0f);
        w[i] = sample_weight(logit[i], logit[0], a->temp);
    }
    *left = sample_keep(plain, n, a->top_p, a->min_p);
    return sample_draw(w, *left, sample_uniform(a->seed, a->counter));
}

#endif

#endif
