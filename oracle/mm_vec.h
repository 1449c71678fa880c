/* oracle/mm_vec.h
 * Vectors of a panel's rows, a word of 32 bits each, and of the bytes in those words. For oracle/mm*.c only: the types become
 * the registers of the instruction set that a file is compiled for. */
#ifndef ZINC_ORACLE_MM_VEC_H
#define ZINC_ORACLE_MM_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "oracle/mm.h"

#define MM_INLINE static inline __attribute__((always_inline))

/* Vectors as wide as the target's registers: MM_LANES rows of a panel, MM_PARTS vectors for its 16. */
#if defined(__AVX512BW__)
enum { MM_LANES = 16 };
#elif defined(__AVX2__)
enum { MM_LANES = 8 };
#else
enum { MM_LANES = 4 };
#endif
enum { MM_PARTS = MM_ROWS / MM_LANES };
typedef uint32_t mm_vu __attribute__((vector_size(4 * MM_LANES)));
typedef int32_t mm_vi __attribute__((vector_size(4 * MM_LANES)));
typedef float mm_vf __attribute__((vector_size(4 * MM_LANES)));
typedef uint8_t mm_vb __attribute__((vector_size(4 * MM_LANES)));

/* Word i of a part's rows. */
MM_INLINE mm_vu mm_word(const uint8_t *words, uint32_t i)
{
    mm_vu v;
    memcpy(&v, words + 64 * (size_t)i, sizeof v);
    return v;
}

MM_INLINE mm_vf mm_f32_of(mm_vu integers)
{
    return __builtin_convertvector((mm_vi)integers, mm_vf);
}

/* Halves, each in the low bits of a word. */
MM_INLINE mm_vf mm_f32_of_halves(mm_vu h)
{
#if defined(__AVX512BW__)
    return (mm_vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)h));
#elif defined(__AVX2__)
    __m256i lo = (__m256i)(h & 0xffff), both = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, lo), 0x08);
    return (mm_vf)_mm256_cvtph_ps(_mm256_castsi256_si128(both));
#else
    /* exponent rebased by an exact product; 31 becomes 255 */
    mm_vf v = (mm_vf)((h & 0x7fff) << 13) * 0x1p112f;
    mm_vu top = (mm_vu)((mm_vi)((h & 0x7c00) == 0x7c00)) & 0x7f800000u;
    return (mm_vf)((mm_vu)v | top | (h & 0x8000) << 16);
#endif
}

MM_INLINE mm_vu mm_load_u16(const void *p)
{
#if defined(__AVX512BW__)
    return (mm_vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
#elif defined(__AVX2__)
    return (mm_vu)_mm256_cvtepu16_epi32(_mm_loadu_si128(p));
#else
    uint16_t h[MM_LANES];
    memcpy(h, p, sizeof h);
    mm_vu v = { h[0], h[1], h[2], h[3] };
    return v;
#endif
}

MM_INLINE mm_vu mm_load_u8(const uint8_t *p)
{
#if defined(__AVX512BW__)
    return (mm_vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
    return (mm_vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#else
    mm_vu v = { p[0], p[1], p[2], p[3] };
    return v;
#endif
}

/* Each byte of v, 0..15, through a table of bytes. */
MM_INLINE mm_vu mm_lookup(const uint8_t table[16], mm_vu v)
{
#if defined(__AVX512BW__)
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return (mm_vu)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), (__m512i)v);
#elif defined(__AVX2__)
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return (mm_vu)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), (__m256i)v);
#elif defined(__aarch64__)
    return (mm_vu)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)v);
#else
    uint8_t b[sizeof v];
    memcpy(b, &v, sizeof b);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = table[b[i]];
    memcpy(&v, b, sizeof b);
    return v;
#endif
}

#define MM_B(x) (0x01010101u * (uint32_t)(x)) /* a byte in all four */

/* Nibble `hi` of each byte. */
MM_INLINE mm_vu mm_nibble(mm_vu w, int hi)
{
    return (hi ? w >> 4 : w) & MM_B(15);
}

/* Bits `from` and up of each byte moved to bits `to` and up, and `mask` of them kept there. */
MM_INLINE mm_vu mm_bits(mm_vu w, uint32_t from, uint32_t to, uint32_t mask)
{
    return (from < to ? w << (to - from) : w >> (from - to)) & MM_B(mask);
}

/* Digit n of four bytes of them (kernels/dequant_books.h). */
MM_INLINE mm_vu mm_trits(mm_vu w, uint32_t n)
{
    static const uint16_t power[5] __attribute__((unused)) = { 1, 3, 9, 27, 81 };
#if defined(__AVX512BW__)
    /* bytes at the top of 16 bits, so that a product's upper half is the digit */
    __m512i p = _mm512_set1_epi16((int16_t)power[n]), three = _mm512_set1_epi16(3);
    __m512i even = _mm512_slli_epi16(_mm512_mullo_epi16((__m512i)w, p), 8);
    __m512i odd = _mm512_mullo_epi16((__m512i)(w & 0xff00ff00), p);
    return (mm_vu)_mm512_or_si512(_mm512_mulhi_epu16(even, three), _mm512_slli_epi16(_mm512_mulhi_epu16(odd, three), 8));
#elif defined(__AVX2__)
    /* fractions less a half, so that bytes compare; three of them are the fraction after the digit, a half less as well */
    __m256i q = _mm256_xor_si256((__m256i)w, _mm256_set1_epi8((int8_t)0x80));
    for (uint32_t i = 0; i < n; i++)
        q = _mm256_add_epi8(_mm256_add_epi8(q, q), q);
    __m256i one = _mm256_cmpgt_epi8(q, _mm256_set1_epi8(85 - 128)), two = _mm256_cmpgt_epi8(q, _mm256_set1_epi8(170 - 128));
    return (mm_vu)_mm256_abs_epi8(_mm256_add_epi8(one, two));
#else
    mm_vu even = ((w & 0x00ff00ff) * power[n] & 0x00ff00ff) * 3 >> 8 & 0x00ff00ff;
    mm_vu odd = ((w >> 8 & 0x00ff00ff) * power[n] & 0x00ff00ff) * 3 & 0xff00ff00;
    return even | odd;
#endif
}

#endif
