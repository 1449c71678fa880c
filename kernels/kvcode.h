/* kernels/kvcode.h
 * The 4-bit forms of the KV cache, for hosts and kernels alike. A block is 32 values with one f16 scale d: m is the value
 * of the largest magnitude (of two with opposite signs the positive one), d = m / top with the level `top` that it gets,
 * and every x the level nearest to x * (top / m), the lower of two equally near. Read back as f32(f16(d)) * level.
 *     q4_0   levels -8, -7 .. 7, top -8
 *     rot4   the levels for blocks of 32 normal values over their largest, times 127 (Lloyd-Max: each the mean of what is
 *            nearest to it, weighted by m^2), top 127; k after a rotation, which spreads its few large channels over all
 *            of them and makes its values look normal. v has no such channels and is taken as it is
 * The rotation: with R the largest power of two that divides head_dim and e = log2 R, each run of R dimensions is
 * multiplied by kv_sign(d), then by the Hadamard matrix of R (strides 1, 2, 4 ..: a + b, a - b), then by a power of two:
 * k by 2^-(e/2 rounded down), q by 2^-(e/2 rounded up). So q k is what it was.
 *
 * Sources: a random rotation before scalar quantisation with levels for the normal distribution, TurboQuant, arXiv
 * 2504.19874, and PolarQuant, arXiv 2502.02617; the rotation by signs and a Hadamard matrix, QuIP#, arXiv 2402.04396;
 * levels, Lloyd (1982) and Max (1960). Why scales of blocks instead of the vector's norm: doc/kv-cache.md. */
#ifndef ZINC_KERNELS_KVCODE_H
#define ZINC_KERNELS_KVCODE_H

#include "kernels/fp.h"
#include "kernels/kargs.h"

/* Four levels of the sixteen, int8, the lowest first. */
static inline uint32_t kv4_levels(uint32_t rot, uint32_t i)
{
    if (rot)
        return i == 0 ? 0xc9baa791u : i == 1 ? 0xfdf1e5d8u : i == 2 ? 0x30231609u : 0x7f64503fu;
    return i == 0 ? 0xfbfaf9f8u : i == 1 ? 0xfffefdfcu : i == 2 ? 0x03020100u : 0x07060504u;
}

static inline float kv4_level(uint32_t rot, uint32_t code)
{
    uint32_t b = kv4_levels(rot, code / 4) >> 8 * (code % 4) & 255;
    return (float)b - (b & 128 ? 256.0f : 0.0f);
}

static inline float kv4_top(uint32_t rot) { return rot ? 127.0f : -8.0f; }

/* The largest key of a block is that of m. */
static inline uint32_t kv4_key(float x) { return f32_bits(x) << 1 | !(f32_bits(x) >> 31); }
static inline float kv4_of_key(uint32_t key) { return f32_from_bits(key >> 1 | (key & 1 ? 0 : 0x80000000u)); }

/* What blocks that hold an infinity or a NaN have for a scale is a NaN, and what is all below 1e-30 a 0. */
static inline uint32_t kv4_is_fault(uint32_t key) { return key >> 1 >= 0x7f800000u; }
static inline uint32_t kv4_is_none(uint32_t key) { return kv4_is_fault(key) || f32_from_bits(key >> 1) < 1e-30f; }

/* x times top / m to its code. */
static inline uint32_t kv4_code(uint32_t rot, float y)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 15; i++)
        n += y > (kv4_level(rot, i) + kv4_level(rot, i + 1)) * 0.5f;
    return n;
}

static inline uint16_t kv4_scale(uint32_t rot, uint32_t key)
{
    return kv4_is_fault(key) ? 0x7e00 : kv4_is_none(key) ? 0 : f16_from_f32(kv4_of_key(key) / kv4_top(rot));
}

/* -1 or 1, as the bits of a hash of d say. */
static inline float kv_sign(uint32_t d)
{
    uint32_t h = (d + 1) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h >> 31 ? -1.0f : 1.0f;
}

static inline uint32_t kv_rot_run(uint32_t head_dim) { return head_dim & (~head_dim + 1); }

/* The power of two of q, or of k. */
static inline float kv_rot_scale(uint32_t head_dim, uint32_t of_q)
{
    uint32_t e = 0;
    while (2u << e <= kv_rot_run(head_dim))
        e++;
    return f32_from_bits((127 - (of_q ? e - e / 2 : e / 2)) << 23);
}

#endif
