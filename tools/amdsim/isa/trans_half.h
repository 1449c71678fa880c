/* tools/amdsim/isa/trans_half.h: private to trans.c and wmma*.c. f16 in integers: no rounding mode of the host
 * matters.
 *
 *     uint32_t f = half_to_f32(h);          exact; a signalling NaN stays one
 *     uint16_t h = half_of_f32(f);          to nearest even; subnormals are kept */
#ifndef AMDSIM_ISA_TRANS_HALF_H
#define AMDSIM_ISA_TRANS_HALF_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t half_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
    if (e == 31)
        return sign | 0x7f800000 | m << 13;
    if (e)
        return sign | (e + 112) << 23 | m << 13;
    if (m == 0)
        return sign;
    uint32_t up = (uint32_t)__builtin_clz(m) - 21;
    return sign | (113 - up) << 23 | ((m << up) & 1023) << 13;
}

/* mag * 2^exp rounded to nearest even; too large: infinity, or the largest finite value when `saturate`. */
static inline uint16_t half_round(bool negative, uint64_t mag, int32_t exp, bool saturate)
{
    uint16_t sign = (uint16_t)(negative << 15);
    if (mag == 0)
        return sign;
    int32_t e = 63 - __builtin_clzll(mag) + exp, unit = (e < -14 ? -14 : e) - 10, shift = unit - exp;
    if (e > 15)
        return sign | (saturate ? 0x7bff : 0x7c00);
    if (shift > 63)
        return sign;
    uint64_t m = shift <= 0 ? mag << -shift : mag >> shift;
    if (shift > 0) {
        uint64_t rest = mag & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        m += rest > half || (rest == half && (m & 1));
    }
    /* m has its leading bit at 2^10 unless subnormal, and a carry moves into the exponent */
    uint32_t bits = ((uint32_t)(unit + 24) << 10) + (uint32_t)m;
    return sign | (uint16_t)(bits >= 0x7c00 && saturate ? 0x7bff : bits);
}

static inline uint16_t half_of_f32(uint32_t f)
{
    uint32_t mag = f & 0x7fffffff, e = mag >> 23;
    if (mag >= 0x7f800000)
        return (uint16_t)((f >> 16 & 0x8000) | 0x7c00 | (mag > 0x7f800000 ? 0x200 | (mag >> 13 & 1023) : 0));
    return half_round(f >> 31, (mag & 0x7fffff) | (e ? 0x800000 : 0), (int32_t)(e ? e : 1) - 150, false);
}

#endif
