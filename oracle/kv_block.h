/* oracle/kv_block.h
 * Blocks of the cache that are stored (kernels/kargs.h, "KV cache"; kernels/kvcode.h), and the rotation of rot4; q8_0 is
 * apart from the products' activations because its scale is rounded to f16. Bit-equal in every instruction set: the
 * maximum is taken over the bits of |x|, rounding is to nearest even by the sum with 1.5 * 2^23, whose low bits are the
 * integer. */
#ifndef ZINC_ORACLE_KV_BLOCK_H
#define ZINC_ORACLE_KV_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/fp.h"
#include "kernels/kargs.h"
#include "kernels/kvcode.h"

/* q = the codes of x; returns the scale as f16: NaN when x holds an infinity or a NaN, 0 when all of x is below
 * 1e-30. */
static inline uint16_t kv_q8_store(const float x[KA_KV_BLOCK], int8_t q[KA_KV_BLOCK])
{
    int32_t top = 0;
    for (int i = 0; i < KA_KV_BLOCK; i++) {
        int32_t abs = (int32_t)(f32_bits(x[i]) & 0x7fffffff);
        top = abs > top ? abs : top;
    }
    float amax = f32_from_bits((uint32_t)top);
    if (top >= 0x7f800000 || amax < 1e-30f) {
        for (int i = 0; i < KA_KV_BLOCK; i++)
            q[i] = 0;
        return top >= 0x7f800000 ? 0x7e00 : 0;
    }
    float inv = 127.0f / amax;
    for (int i = 0; i < KA_KV_BLOCK; i++)
        q[i] = (int8_t)((int32_t)f32_bits(x[i] * inv + 12582912.0f) - 0x4b400000);
    return f16_from_f32(amax / 127.0f);
}

/* The same in 4 bits: codes 0 to 15. */
static inline uint16_t kv4_store(enum ka_kv kv, const float x[KA_KV_BLOCK], uint8_t q[KA_KV_BLOCK])
{
    uint32_t rot = kv == KA_KV_ROT4, key = 0;
    float cuts[15];
    for (int i = 0; i < KA_KV_BLOCK; i++)
        key = kv4_key(x[i]) > key ? kv4_key(x[i]) : key;
    float by = kv4_is_none(key) ? 0.0f : kv4_top(rot) / kv4_of_key(key);
    for (uint32_t k = 0; k < 15; k++)
        cuts[k] = (kv4_level(rot, k) + kv4_level(rot, k + 1)) * 0.5f;
    for (int i = 0; i < KA_KV_BLOCK; i++)
        q[i] = 0;
    for (int k = 0; k < 15 && !kv4_is_none(key); k++)
        for (int i = 0; i < KA_KV_BLOCK; i++)
            q[i] += x[i] * by > cuts[k];
    return kv4_scale(rot, key);
}

/* hd values of q or k. */
static inline void kv_rotate(float *x, uint32_t hd, bool of_q)
{
    uint32_t run = kv_rot_run(hd);
    float by = kv_rot_scale(hd, of_q);
    for (uint32_t d = 0; d < hd; d++)
        x[d] *= kv_sign(d);
    for (uint32_t n = 1; n < run; n *= 2)
        for (uint32_t b = 0; b < hd; b += 2 * n)
            for (uint32_t d = b; d < b + n; d++) {
                float lo = x[d], hi = x[d + n];
                x[d] = lo + hi;
                x[d + n] = lo - hi;
            }
    for (uint32_t d = 0; d < hd; d++)
        x[d] *= by;
}

#endif
