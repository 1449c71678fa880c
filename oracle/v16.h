/* oracle/v16.h
 * Sixteen f32 lanes in the instruction set that the including file is compiled for: one zmm, two ymm, or an array.
 * Every operation is one IEEE rounding per lane, so all three give the same bits. */
#ifndef ZINC_ORACLE_V16_H
#define ZINC_ORACLE_V16_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/fp.h"
#include "kernels/kvcode.h"
#include "kernels/mathf.h"

#if defined(__F16C__)
#include <immintrin.h>
/* 16 codes of 4 bits to their levels: a half of each of 16 bytes; the low halves of 8, then the high ones. */
static inline __m128i v16_levels(__m128i b, int shift, bool rot)
{
    __m128i t = _mm_setr_epi32((int)kv4_levels(rot, 0), (int)kv4_levels(rot, 1), (int)kv4_levels(rot, 2),
                               (int)kv4_levels(rot, 3));
    b = shift ? _mm_srli_epi16(b, 4) : b;
    return _mm_shuffle_epi8(t, _mm_and_si128(b, _mm_set1_epi8(15)));
}
static inline __m128i v16_levels8(const uint8_t *p, bool rot)
{
    __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return v16_levels(_mm_unpacklo_epi64(b, _mm_srli_epi16(b, 4)), 0, rot);
}
/* e4m3_to_f16_256th of 8 codes. */
static inline __m128i v16_e4m3(const uint8_t *p)
{
    __m128i c = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m128i h = _mm_slli_epi16(_mm_and_si128(c, _mm_set1_epi16(127)), 7);
    __m128i sign = _mm_slli_epi16(_mm_and_si128(c, _mm_set1_epi16(128)), 8);
    __m128i nan = _mm_and_si128(_mm_add_epi16(h, _mm_set1_epi16(0x80)), _mm_set1_epi16(0x4000));
    return _mm_or_si128(_mm_or_si128(h, sign), nan);
}
#endif

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 v16;
static inline v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
static inline v16 v16_load_h(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline v16 v16_load_b(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline v16 v16_load_n(const uint8_t *p, int shift, bool rot)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v16_levels(_mm_loadu_si128((const __m128i *)(const void *)p), shift, rot)));
}
static inline v16 v16_load_n8(const uint8_t *p, bool rot)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v16_levels8(p, rot)));
}
static inline v16 v16_load_e4m3(const uint8_t *p)
{
    __m256i h = _mm256_set_m128i(v16_e4m3(p + 8), v16_e4m3(p));
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(256.0f));
}
static inline void v16_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
static inline void v16_store_h(uint16_t *p, v16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline v16 v16_set(float x) { return _mm512_set1_ps(x); }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }

#elif defined(__AVX2__)
#include <immintrin.h>
typedef struct { __m256 lo, hi; } v16;
static inline v16 v16_load(const float *p) { return (v16){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) }; }
static inline v16 v16_load_h(const uint16_t *p)
{
    return (v16){ _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                  _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8))) };
}
static inline v16 v16_load_b(const int8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (v16){ _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
                  _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))) };
}
static inline v16 v16_of_b(__m128i b)
{
    return (v16){ _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
                  _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))) };
}
static inline v16 v16_load_n(const uint8_t *p, int shift, bool rot)
{
    return v16_of_b(v16_levels(_mm_loadu_si128((const __m128i *)(const void *)p), shift, rot));
}
static inline v16 v16_load_n8(const uint8_t *p, bool rot) { return v16_of_b(v16_levels8(p, rot)); }
static inline v16 v16_load_e4m3(const uint8_t *p)
{
    __m256 by = _mm256_set1_ps(256.0f);
    return (v16){ _mm256_mul_ps(_mm256_cvtph_ps(v16_e4m3(p)), by), _mm256_mul_ps(_mm256_cvtph_ps(v16_e4m3(p + 8)), by) };
}
static inline void v16_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
static inline void v16_store_h(uint16_t *p, v16 a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(void *)(p + 8),
                     _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline v16 v16_set(float x) { return (v16){ _mm256_set1_ps(x), _mm256_set1_ps(x) }; }
static inline v16 v16_fma(v16 a, v16 b, v16 c)
{
    return (v16){ _mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi) };
}
#define V16_OP(name, op)                                                                                               \
    static inline v16 v16_##name(v16 a, v16 b) { return (v16){ op(a.lo, b.lo), op(a.hi, b.hi) }; }
V16_OP(add, _mm256_add_ps)
V16_OP(sub, _mm256_sub_ps)
V16_OP(mul, _mm256_mul_ps)
V16_OP(div, _mm256_div_ps)
V16_OP(max, _mm256_max_ps)
#undef V16_OP

#else
typedef struct { float f[16]; } v16;
#define V16_EACH(expr)                                                                                                 \
    v16 y;                                                                                                             \
    for (int l = 0; l < 16; l++)                                                                                       \
        y.f[l] = (expr);                                                                                               \
    return y
static inline v16 v16_load(const float *p) { V16_EACH(p[l]); }
#if defined(__aarch64__) /* what the compiler does not find by itself */
#include <arm_neon.h>
static inline v16 v16_load_h(const uint16_t *p)
{
    v16 y;
    for (int l = 0; l < 16; l += 4)
        vst1q_f32(y.f + l, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + l))));
    return y;
}
static inline void v16_store_h(uint16_t *p, v16 a)
{
    for (int l = 0; l < 16; l += 4)
        vst1_u16(p + l, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(a.f + l))));
}
#else
static inline v16 v16_load_h(const uint16_t *p) { V16_EACH(f16_to_f32(p[l])); }
static inline void v16_store_h(uint16_t *p, v16 a)
{
    for (int l = 0; l < 16; l++)
        p[l] = f16_from_f32(a.f[l]);
}
#endif
static inline v16 v16_load_b(const int8_t *p) { V16_EACH((float)p[l]); }
static inline v16 v16_load_n(const uint8_t *p, int shift, bool rot) { V16_EACH(kv4_level(rot, p[l] >> shift & 15)); }
static inline v16 v16_load_n8(const uint8_t *p, bool rot) { V16_EACH(kv4_level(rot, p[l % 8] >> l / 8 * 4 & 15)); }
static inline v16 v16_load_e4m3(const uint8_t *p) { V16_EACH(e4m3_to_f32(p[l])); }
static inline void v16_store(float *p, v16 a) { memcpy(p, a.f, sizeof a.f); }
static inline v16 v16_set(float x) { V16_EACH(x); }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { V16_EACH(__builtin_fmaf(a.f[l], b.f[l], c.f[l])); }
static inline v16 v16_add(v16 a, v16 b) { V16_EACH(a.f[l] + b.f[l]); }
static inline v16 v16_sub(v16 a, v16 b) { V16_EACH(a.f[l] - b.f[l]); }
static inline v16 v16_mul(v16 a, v16 b) { V16_EACH(a.f[l] * b.f[l]); }
static inline v16 v16_div(v16 a, v16 b) { V16_EACH(a.f[l] / b.f[l]); }
static inline v16 v16_max(v16 a, v16 b) { V16_EACH(a.f[l] > b.f[l] ? a.f[l] : b.f[l]); }
#undef V16_EACH
#endif

/* The canonical tree: lanes 8, 4, 2, then 1 apart. */
static inline float v16_sum(v16 a)
{
#if defined(__AVX512F__) || defined(__AVX2__)
#if defined(__AVX512F__)
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a),
                             _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)));
#else
    __m256 h = _mm256_add_ps(a.lo, a.hi);
#endif
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
#else
    for (int s = 8; s > 0; s >>= 1)
        for (int l = 0; l < s; l++)
            a.f[l] += a.f[l + s];
    return a.f[0];
#endif
}

/* The sums of four: y[i] = v16_sum(a[i]). */
static inline void v16_sum4(const v16 a[4], float y[4])
{
#if defined(__AVX512F__) || defined(__AVX2__)
    __m128 q[4];
    for (int i = 0; i < 4; i++) {
#if defined(__AVX512F__)
        __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a[i]),
                                 _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a[i]), 1)));
#else
        __m256 h = _mm256_add_ps(a[i].lo, a[i].hi);
#endif
        q[i] = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    }
    __m128 s = _mm_add_ps(_mm_movelh_ps(q[0], q[1]), _mm_movehl_ps(q[1], q[0])); /* a02 a13 b02 b13 */
    __m128 t = _mm_add_ps(_mm_movelh_ps(q[2], q[3]), _mm_movehl_ps(q[3], q[2]));
    _mm_storeu_ps(y, _mm_add_ps(_mm_shuffle_ps(s, t, 0x88), _mm_shuffle_ps(s, t, 0xdd)));
#else
    for (int i = 0; i < 4; i++)
        y[i] = v16_sum(a[i]);
#endif
}

/* Applies a scalar function of kernels/mathf.h to the lanes; the loop vectorises. */
#define V16_MAP(name, fn)                                                                                              \
    static inline v16 name(v16 a)                                                                                      \
    {                                                                                                                  \
        float t[16];                                                                                                   \
        v16_store(t, a);                                                                                               \
        for (int l = 0; l < 16; l++)                                                                                   \
            t[l] = fn(t[l]);                                                                                           \
        return v16_load(t);                                                                                            \
    }
V16_MAP(v16_exp, k_exp)
V16_MAP(v16_sigmoid, k_sigmoid)
V16_MAP(v16_silu, k_silu)
V16_MAP(v16_gelu_tanh, k_gelu_tanh)
V16_MAP(v16_tanh, k_tanh)
#undef V16_MAP

#endif
