/* kernels/fp.h
 * Half and bfloat16 against float, exact: subnormals, infinities and the sign of zero included; narrowing rounds to
 * nearest, ties to even. A NaN stays a NaN, becomes quiet and keeps the upper bits of its payload, as x86 and Arm
 * hardware do. Freestanding: hosts and kernels include it. Where the target converts halves itself the compiler's
 * _Float16 is used, with the same bits (tests/unit/test_quant_fp.c runs the integer forms over every input class). */
#ifndef ZINC_KERNELS_FP_H
#define ZINC_KERNELS_FP_H

#if !defined(KD_MSL) /* kernels/hw/msl.metal has these */
#include <stdint.h>

static inline uint32_t f32_bits(float f)
{
    union { float f; uint32_t u; } v = { .f = f };
    return v.u;
}

static inline float f32_from_bits(uint32_t u)
{
    union { uint32_t u; float f; } v = { .u = u };
    return v.f;
}

/* The integer forms: the definition, for targets without half instructions. */
static inline float f16_to_f32_soft(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31)
        return f32_from_bits(sign | 0x7f800000 | (m ? 0x400000 | m << 13 : 0));
    if (e != 0)
        return f32_from_bits(sign | (e + 112) << 23 | m << 13);
    /* m * 2^-24: the integer converts exactly, and the product stays far above the subnormals of f32 */
    return f32_from_bits(sign | f32_bits((float)m * 0x1p-24f));
}

static inline uint16_t f16_from_f32_soft(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x33000001) /* up to 2^-25, the tie included: zero */
        return (uint16_t)sign;
    uint32_t e = a >> 23, m = (a & 0x7fffff) | 0x800000;
    uint32_t drop = e < 113 ? 126 - e : 13; /* bits below the result's last place */
    uint32_t r = m >> drop, rest = m & ((1u << drop) - 1), half = 1u << (drop - 1);
    r += rest > half || (rest == half && (r & 1));
    /* the hidden bit of a normal number adds one to the exponent, hence e - 113; a carry moves up by itself */
    return (uint16_t)(sign | (r + (e < 113 ? 0 : (e - 113) << 10)));
}

#if defined(__F16C__) || defined(__aarch64__) || defined(__AMDGCN__) || defined(__NVPTX__)
static inline float f16_to_f32(uint16_t h)
{
    union { uint16_t u; _Float16 f; } v = { .u = h };
    return (float)v.f;
}

static inline uint16_t f16_from_f32(float f)
{
    union { _Float16 f; uint16_t u; } v = { .f = (_Float16)f };
    return v.u;
}
#else
static inline float f16_to_f32(uint16_t h)
{
    return f16_to_f32_soft(h);
}

static inline uint16_t f16_from_f32(float f)
{
    return f16_from_f32_soft(f);
}
#endif

#endif

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* E4M3: bias 7, 448 the largest, no infinity, NaN all ones. What is finite saturates, an infinity becomes NaN, so that it
 * shows. The bits below the sign are those of an f16 2^8 times smaller. Sources: OCP 8-bit Floating Point Specification,
 * 1.0; FP8 Formats for Deep Learning, arXiv 2209.05433; CUDA Math API, __nv_fp8_e4m3. */
static inline uint16_t e4m3_to_f16_256th(uint32_t c)
{
    uint32_t h = (c & 127) << 7;
    return (uint16_t)((c & 128) << 8 | h | ((h + 0x80) & 0x4000)); /* NaN: all ones in the exponent */
}

static inline float e4m3_to_f32(uint32_t c)
{
    return f16_to_f32(e4m3_to_f16_256th(c)) * 256.0f;
}

static inline uint32_t e4m3_from_f32(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 24 & 128, a = u & 0x7fffffff;
    if (a >= 0x7f800000)
        return sign | 127;
    if (a >= 0x43e00000) /* 448 */
        return sign | 126;
    if (a < 0x3c800000) /* below 2^-6, where the last place is 2^-9: that of 2^14 */
        return sign | (f32_bits(f32_from_bits(a) + 16384.0f) - 0x46800000);
    return sign | (((a + 0x7ffff + (a >> 20 & 1)) >> 20) - 0x3c0);
}

/* NVFP4's scale: E4M3 without a sign, halved as the table is doubled. 127, E4M3's NaN, is 0. Sources: ggml-org/ggml,
 * src/ggml-impl.h; the gguf package of PyPI, quants.py. */
static inline float ue4m3_half_to_f32(uint32_t c)
{
    return c == 127 ? 0.0f : f16_to_f32((uint16_t)((c & 127) << 7)) * 128.0f;
}

/* 2^(e - 128): MXFP4's scale with the half of its doubled table folded in. e = 0 and 1 are subnormal; 255, which the
 * E8M0 code calls NaN, reads as 2^127. */
static inline float e8m0_half_to_f32(uint8_t e)
{
    return f32_from_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

#endif
