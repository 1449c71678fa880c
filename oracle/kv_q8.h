/* oracle/kv_q8.h
 * A block of the q8_0 cache, stored (kernels/kargs.h, "KV cache"); kept apart from the products' activations because
 * its scale is rounded to f16. Bit-equal in every instruction set: the maximum is taken over the bits of |x|, rounding
 * is to nearest even by the sum with 1.5 * 2^23, whose low bits are the integer. */
#ifndef ZINC_ORACLE_KV_Q8_H
#define ZINC_ORACLE_KV_Q8_H

#include <stdint.h>

#include "kernels/fp.h"
#include "kernels/kargs.h"

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

#endif
