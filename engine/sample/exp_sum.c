#include "engine/sample/exp_sum.h"

#include <math.h>
#include <stddef.h>

typedef float f32x8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t i32x8 __attribute__((vector_size(32), aligned(4)));

/* exp(x) for x <= 0, 0 below -87. Cody-Waite as in kernels/mathf.h, by products and sums: fused ones are a call where the compiler
 * may not take the processor for a newer one. */
static inline __attribute__((always_inline)) f32x8 exp_below(f32x8 x)
{
    i32x8 none = ~(x >= -87.0f); /* NaN too */
    f32x8 c = (f32x8)((i32x8)x & ~none);
    f32x8 n = c * 1.44269504f + 12582912.0f - 12582912.0f;
    f32x8 r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    f32x8 p = ((((((r * (1.0f / 5040) + 1.0f / 720) * r + 1.0f / 120) * r + 1.0f / 24) * r + 1.0f / 6) * r + 0.5f) * r + 1.0f) * r + 1.0f;
    i32x8 e = __builtin_convertvector(n, i32x8);
    f32x8 y = p * (f32x8)((e + 127) << 23);
    return (f32x8)((i32x8)y & ~none);
}

static inline __attribute__((always_inline)) float block_sum(const float *l, float max, float by)
{
    f32x8 acc = { 0 };
    for (int i = 0; i < EXP_BLOCK; i += 8)
        acc += exp_below((*(const f32x8 *)(l + i) - max) * by);
    return ((acc[0] + acc[4]) + (acc[1] + acc[5])) + ((acc[2] + acc[6]) + (acc[3] + acc[7]));
}

static inline __attribute__((always_inline)) double all_blocks(const float *l, const uint64_t *mask, uint32_t n, float max, float by,
                                                               float *sums)
{
    double total = 0;
    for (uint32_t i = 0; i < n; i += EXP_BLOCK) {
        uint64_t in = mask ? mask[i / EXP_BLOCK] : UINT64_MAX;
        float sum = 0, cut[EXP_BLOCK];
        if (in == UINT64_MAX && n - i >= EXP_BLOCK) {
            sum = block_sum(l + i, max, by);
        } else if (in) {
            for (uint32_t k = 0; k < EXP_BLOCK; k++)
                cut[k] = k < n - i && in >> k & 1 ? l[i + k] : -INFINITY;
            sum = block_sum(cut, max, by);
        }
        if (sums)
            sums[i / EXP_BLOCK] = sum;
        total += (double)sum;
    }
    return total;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static double all_blocks_avx2(const float *l, const uint64_t *mask, uint32_t n, float max, float by,
                                                              float *sums)
{
    return all_blocks(l, mask, n, max, by, sums);
}
#endif

double exp_sums(const float *l, const uint64_t *mask, uint32_t n, float max, float temp, float *sums)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return all_blocks_avx2(l, mask, n, max, 1.0f / temp, sums);
#endif
    return all_blocks(l, mask, n, max, 1.0f / temp, sums);
}
