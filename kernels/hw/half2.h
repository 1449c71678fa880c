/* kernels/hw/half2.h
 * Two f16 in a word, on Hopper, and on the host with the same bits: the lower half first. Source: the PTX ISA manual,
 * "Half Precision Floating-Point Instructions" and prmt.
 *
 *   h2_codes(codes, odd)    1024 + byte of codes: bytes 0 and 2, or 1 and 3
 *   h2_masked(v, mask)      1024 + the bits of each half of v that the mask leaves, of its lowest ten
 *   h2_high(bytes, odd)     the bytes that h2_codes takes as the upper ones of a half, above 0
 *   h2_add, h2_mul, h2_fma  lane by lane, rounded once
 *   h2_lo(v), h2_hi(v)      one of the halves in both
 *   h2_from(lo, hi)         two floats, rounded */
#ifndef ZINC_KERNELS_HW_HALF2_H
#define ZINC_KERNELS_HW_HALF2_H

#include "kernels/kdev.h"

#define H2(bits) ((uint32_t)(bits) * 0x10001u) /* a half's bits in both */

#if defined(__NVPTX__)

KD_FN uint32_t h2_codes(uint32_t codes, bool odd)
{
    return __nvvm_prmt(codes, 0x64646464u, odd ? 0x4341u : 0x4240u);
}
KD_FN uint32_t h2_masked(uint32_t v, uint32_t mask)
{
    uint32_t d; /* v & mask | c: ptxas takes two instructions for it where both are numbers */
    __asm__("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(v), "r"(mask), "r"(0x64006400u));
    return d;
}
KD_FN uint32_t h2_high(uint32_t bytes, bool odd) { return __nvvm_prmt(bytes, 0, odd ? 0x3414u : 0x2404u); }
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
KD_FN uint32_t h2_lo(uint32_t v) /* pairs of halves, which ptxas makes a part of the instruction that takes them */
{
    uint32_t d;
    __asm__("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tmov.b32 %0, {l, l};\n\t}" : "=r"(d) : "r"(v));
    return d;
}
KD_FN uint32_t h2_hi(uint32_t v)
{
    uint32_t d;
    __asm__("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tmov.b32 %0, {h, h};\n\t}" : "=r"(d) : "r"(v));
    return d;
}
KD_FN uint32_t h2_from(float lo, float hi)
{
    uint32_t d;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

#else

KD_FN uint32_t h2_codes(uint32_t codes, bool odd) { return (codes >> (odd ? 8 : 0) & 0x00ff00ffu) | 0x64006400u; }
KD_FN uint32_t h2_masked(uint32_t v, uint32_t mask) { return (v & mask) | 0x64006400u; }
KD_FN uint32_t h2_high(uint32_t bytes, bool odd) { return (odd ? bytes : bytes << 8) & 0xff00ff00u; }
KD_FN uint32_t h2_lo(uint32_t v) { return (v & 0xffff) * 0x10001u; }
KD_FN uint32_t h2_hi(uint32_t v) { return (v >> 16) * 0x10001u; }
KD_FN uint32_t h2_from(float lo, float hi) { return f16_from_f32(lo) | (uint32_t)f16_from_f32(hi) << 16; }

/* a b + c of f16, rounded once: the sum in double, and where that is not exact its last bit is set to 1, so that the two
 * roundings that follow, which keep far fewer bits, see on which side of a tie it lies. */
KD_FN float h2_sum(float a, float b, float c)
{
    double p = (double)a * (double)b, s = p + (double)c, z = s - p, rest = (p - (s - z)) + ((double)c - z);
    union { double d; uint64_t u; } v = { .d = s };
    if (rest != 0.0 && s - s == 0.0 && !(v.u & 1))
        v.u += (rest > 0.0) == (s > 0.0) ? 1 : (uint64_t)-1;
    float f = (float)v.d; /* towards zero, with the same mark */
    if (s - s == 0.0 && (double)f != v.d) {
        uint32_t u = f32_bits(f);
        u -= (f > 0.0f ? (double)f > v.d : (double)f < v.d) ? 1 : 0;
        f = f32_from_bits(u | 1);
    }
    return f;
}
KD_FN uint32_t h2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 32; i += 16) {
        float x = f16_to_f32((uint16_t)(a >> i)), y = f16_to_f32((uint16_t)(b >> i)), z = f16_to_f32((uint16_t)(c >> i));
        r |= (uint32_t)f16_from_f32(h2_sum(x, y, z)) << i;
    }
    return r;
}
KD_FN uint32_t h2_add(uint32_t a, uint32_t b)
{
    return h2_fma(a, H2(0x3c00), b);
}
KD_FN uint32_t h2_mul(uint32_t a, uint32_t b)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 32; i += 16)
        r |= (uint32_t)f16_from_f32(f16_to_f32((uint16_t)(a >> i)) * f16_to_f32((uint16_t)(b >> i))) << i;
    return r;
}

#endif
#endif
