/* kernels/mathf.h
 * The elementary functions of the canonical arithmetic, in f32 by fma only, so that every tier, compiler and
 * instruction set computes the same bits. Freestanding, static inline; written as straight-line code that vectorises
 * lane by lane. */
#ifndef ZINC_KERNELS_MATHF_H
#define ZINC_KERNELS_MATHF_H

#if !defined(KD_MSL) /* kernels/hw/msl.metal has these */
static inline float k_bits_float(unsigned u)
{
    union { unsigned u; float f; } v = { .u = u };
    return v.f;
}

static inline float k_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#endif

/* a / b from y, which is 1 / b but for a few units in the last place: Newton's step for y, then what the quotient still lacks. */
static inline float k_divide_from(float a, float b, float y)
{
    y = k_fma(k_fma(-b, y, 1.0f), y, y);
    float q = a * y;
    return k_fma(k_fma(-b, q, a), y, q);
}

/* a / b where b and the quotient are of ordinary size, 2^-100 to 2^100, or a is 0: without looking for others, which a GPU's
 * division branches for. Rounded to nearest, but for a few of the 2^23 values of b where a is a power of two. */
#if defined(__NVPTX__)
static inline float k_divide(float a, float b)
{
    float y;
    __asm__ volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b)); /* volatile: not done where it is not asked for */
    return k_divide_from(a, b, y);
}
/* x / (1 + e) for any e from 0 to +inf. */
static inline float k_over(float x, float e)
{
    float b = 1.0f + e, by = b > 0x1p100f ? 0x1p-64f : 1.0f, q = k_divide(x * by, b * by);
    return b > 0x1.fffffep127f ? x * 0.0f : q;
}
#else
static inline float k_divide(float a, float b) { return a / b; }
static inline float k_over(float x, float e) { return x / (1.0f + e); }
#endif

/* exp(x), relative error below 2e-7; 0 below -87.3 (no subnormal results), +inf above 88.7; NaN stays NaN.
 * Cody-Waite: x = n ln 2 + r with |r| <= 0.35, the Taylor series of degree 7 in Horner form, then 2^n. */
static inline float k_exp(float x)
{
    float c = x >= -87.3f ? x : -87.3f; /* NaN too: the conversion to int below stays defined */
    c = c > 88.7f ? 88.7f : c;
    float n = k_fma(c, 1.44269504f, 12582912.0f) - 12582912.0f; /* round to nearest even by the 1.5 * 2^23 trick */
    float r = k_fma(n, -0.693359375f, c);
    r = k_fma(n, 2.12194440e-4f, r);
    float p = 1.0f / 5040.0f;
    p = k_fma(p, r, 1.0f / 720.0f);
    p = k_fma(p, r, 1.0f / 120.0f);
    p = k_fma(p, r, 1.0f / 24.0f);
    p = k_fma(p, r, 1.0f / 6.0f);
    p = k_fma(p, r, 0.5f);
    p = k_fma(p, r, 1.0f);
    p = k_fma(p, r, 1.0f);
    int e = (int)n; /* -126..128: two steps, so that 2^128 does not overflow before the product */
    int h = e >> 1;
    float y = p * k_bits_float((unsigned)(h + 127) << 23) * k_bits_float((unsigned)(e - h + 127) << 23);
    y = x < -87.3f ? 0.0f : y;
    y = x > 88.7f ? k_bits_float(0x7f800000u) : y;
    return x != x ? x : y;
}

static inline float k_sigmoid(float x)
{
    return k_over(1.0f, k_exp(-x));
}

static inline float k_silu(float x)
{
    return k_over(x, k_exp(-x));
}

/* tanh by exp of twice the magnitude; exact sign, saturates. The absolute error stays below 2e-7; the relative one does
 * not near 0, where its users (gelu, soft caps) do not need it. */
static inline float k_tanh(float x)
{
    float a = x < 0.0f ? -x : x;
    float t = 1.0f - k_over(2.0f, k_exp(2.0f * a));
    return x < 0.0f ? -t : t;
}

/* 0.5 x (1 + tanh(sqrt(2/pi) x (1 + 0.044715 x^2))) */
static inline float k_gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + k_tanh(0.79788456f * x * k_fma(0.044715f * x, x, 1.0f)));
}

/* gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7): g sigmoid(1.702 g) (u + 1) */
static inline float k_swiglu_oai(float gate, float up)
{
    float g = gate > 7.0f ? 7.0f : gate;
    float u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return k_over(g, k_exp(-1.702f * g)) * (u + 1.0f);
}

/* log(1 + exp(x)), x itself above 20. With t = exp(-|x|) in (0, 1]: max(x, 0) + log1p(t); log1p by atanh:
 * log(1 + t) = 2 s (1 + s^2/3 + s^4/5 + ...), s = t / (2 + t) <= 1/3. */
static inline float k_softplus(float x)
{
    float a = x < 0.0f ? -x : x;
    float t = k_exp(-a);
    float s = t / (2.0f + t), q = s * s;
    float p = 1.0f / 15.0f;
    p = k_fma(p, q, 1.0f / 13.0f);
    p = k_fma(p, q, 1.0f / 11.0f);
    p = k_fma(p, q, 1.0f / 9.0f);
    p = k_fma(p, q, 1.0f / 7.0f);
    p = k_fma(p, q, 1.0f / 5.0f);
    p = k_fma(p, q, 1.0f / 3.0f);
    p = k_fma(p, q, 1.0f);
    float y = k_fma(2.0f * s, p, x > 0.0f ? x : 0.0f);
    return x > 20.0f ? x : y;
}

#endif
