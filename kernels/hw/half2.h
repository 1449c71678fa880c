/* kernels/hw/half2.h
 * Two f16 in a word, on Hopper: the lower half first. Source: the PTX ISA manual, "Half Precision Floating-Point
 * Instructions" and prmt.
 *
 *   h2_codes(codes, odd)    1024 + byte of codes: bytes 0 and 2, or 1 and 3
 *   h2_add, h2_mul, h2_fma  lane by lane, rounded once
 *   h2_lo(v), h2_hi(v)      one of the halves in both
 *   h2_from(lo, hi)         two floats, rounded */
#ifndef ZINC_KERNELS_HW_HALF2_H
#define ZINC_KERNELS_HW_HALF2_H

#include "kernels/kdev.h"

#define H2(bits) ((uint32_t)(bits) * 0x10001u) /* a half's bits in both */

KD_FN uint32_t h2_codes(uint32_t codes, bool odd)
{
    return __nvvm_prmt(codes, 0x64646464u, odd ? 0x4341u : 0x4240u);
}
KD_FN uint32_t h2_add(uint32_t a, uint32_t b)
{
    uint32_t d;
    __asm__("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
KD_FN uint32_t h2_mul(uint32_t a, uint32_t b)
{
    uint32_t d;
    __asm__("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
KD_FN uint32_t h2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    __asm__("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
KD_FN uint32_t h2_lo(uint32_t v) { return __nvvm_prmt(v, v, 0x1010u); }
KD_FN uint32_t h2_hi(uint32_t v) { return __nvvm_prmt(v, v, 0x3232u); }
KD_FN uint32_t h2_from(float lo, float hi)
{
    uint32_t d;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

#endif
