/* kernels/scan.h
 * The host's walk over logits: which of the next 64 are above a floor, and in a mask? Nearly all blocks of a vocabulary
 * hold nothing that counts; that is found out with vectors, without looking at single values.
 *
 *     for (uint32_t i = 0; i < n; i += 64)
 *         for (uint64_t hit = scan_above(logits, n, i, mask, floor); hit; hit &= hit - 1)
 *             ... i + ctz(hit), which may raise the floor */
#ifndef ZINC_KERNELS_SCAN_H
#define ZINC_KERNELS_SCAN_H

#include <stdint.h>

typedef float scan_f32x4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t scan_i32x4 __attribute__((vector_size(16), aligned(4)));

/* Is any of 64 floats larger than floor? A NaN is not. */
static inline int scan_any_above(const float *l, float floor)
{
    const scan_f32x4 *v = (const scan_f32x4 *)l;
    scan_f32x4 f = { floor, floor, floor, floor };
    scan_i32x4 any = { 0 };
    for (int i = 0; i < 16; i++)
        any |= v[i] > f;
    return (any[0] | any[1] | any[2] | any[3]) != 0;
}

/* Bit k: logits[i + k] > floor, and in the mask (NULL: all). i is a multiple of 64. */
static inline uint64_t scan_above(const float *logits, uint32_t n, uint32_t i, const uint64_t *mask, float floor)
{
    uint64_t in = mask ? mask[i / 64] : UINT64_MAX, hit = 0;
    uint32_t rest = n - i < 64 ? n - i : 64;
    if (!in || (rest == 64 && !scan_any_above(logits + i, floor)))
        return 0;
    for (uint32_t k = 0; k < rest; k++)
        hit |= (uint64_t)(logits[i + k] > floor) << k;
    return hit & in;
}

#endif
