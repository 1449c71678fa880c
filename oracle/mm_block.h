/* oracle/mm_block.h
 * The packed panel, and how a block of it opens into what the product kernels eat. For oracle/mm*.c only: each of them
 * includes this with the flags of its instruction set, so the vector types below become its registers.
 *
 * Panel of a block type. A file block is a "head" (a scale of 1 or 2 bytes that is not part of a 32-bit word, or
 * nothing) and nd 32-bit words. The panel holds word i of 16 rows side by side, u32 [nd][16]: for the quants that
 * is [k / 4][row][4], what VPDPBUSD and an AMX tile take. Heads of G consecutive blocks (G = 2, 4; so that they
 * fill 64 bytes) stand together before the words of these blocks: [G][16] heads, [G][nd][16] words; the last group
 * may be short. Words are as in the file, except: Q8_0 quants have their sign bit flipped (q + 128), and in Q5_0
 * and Q5_1 the word of fifth bits is permuted, element 4 g + j from bit 4 g + j to bit 8 j + g. F32, F16, BF16:
 * [k][16].
 *
 * An opened block of 32 (struct mm_xblk): quants as bytes, u = q + mm_offset(t), and the scales as f32. */
#ifndef ZINC_ORACLE_MM_BLOCK_H
#define ZINC_ORACLE_MM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/blocks.h"
#include "kernels/codebooks.h"
#include "kernels/fp.h"
#include "kernels/qtypes.h"
#include "oracle/mm.h"

#define TABLE(type, name, n, ...) static const type name[n] __attribute__((unused)) = { __VA_ARGS__ };
#include "kernels/q_tables.inc"

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

struct mm_xblk {
    float dw[16], mw[16];    /* canonical dw and mw per row; Q2_K: mw is f32(dmin)                    */
    uint32_t w[8][16];       /* [k / 4][row], 4 bytes each                                            */
    float s0[16], s1[16];    /* types with runs of 16: the runs' scales; small integers, but of QS_HALVES */
    float m0[16], m1[16];    /* Q2_K: the runs' minimum codes                                         */
} __attribute__((aligned(64)));

/* u = q + offset is never negative. */
MM_INLINE int mm_offset(enum qtype t)
{
    switch (t) {
    case QT_TQ1_0: case QT_TQ2_0: return 1;
    case QT_Q4_0: return 8;
    case QT_IQ1_S: case QT_IQ1_M: return 9;
    case QT_Q5_0: return 16;
    case QT_IQ2_XXS: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ3_XXS: case QT_IQ3_S: return 64;
    case QT_Q8_0: case QT_IQ4_NL: case QT_IQ4_XS: return 128;
    case QT_MXFP4: case QT_NVFP4: return 12;
    case QT_Q3_K: return 4;
    case QT_Q6_K: return 32;
    default: return 0;
    }
}

/* Bytes of the head, and where it stands in the file's block. */
MM_INLINE uint32_t mm_head_bytes(enum qtype t)
{
    return qtype_block_bytes(t) % 4;
}

MM_INLINE uint32_t mm_head_off(enum qtype t)
{
    return t == QT_Q6_K    ? offsetof(blk_q6_k, d)
           : t == QT_Q3_K  ? offsetof(blk_q3_k, d)
           : t == QT_TQ1_0 ? offsetof(blk_tq1_0, d)
           : t == QT_TQ2_0 ? offsetof(blk_tq2_0, d)
                           : 0;
}

MM_INLINE uint32_t mm_words(enum qtype t)
{
    return qtype_block_bytes(t) / 4;
}

/* Block ib of nb: its heads and its words. */
struct mm_where {
    size_t head, words;
};

MM_INLINE struct mm_where mm_where(enum qtype t, uint32_t nb, uint32_t ib)
{
    uint32_t hb = mm_head_bytes(t), n = hb ? 4 / hb : 1, first = ib / n * n;
    uint32_t in_group = nb - first < n ? nb - first : n;
    size_t at = (size_t)first * 16 * qtype_block_bytes(t);
    return (struct mm_where){ at + (size_t)(ib - first) * 16 * hb,
                              at + (size_t)16 * hb * in_group + (size_t)(ib - first) * mm_words(t) * 64 };
}

/* ---- vectors ---- */

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

/* Words of a table. */
MM_INLINE mm_vu mm_gather(const uint32_t *table, mm_vu at)
{
#if defined(__AVX512BW__)
    return (mm_vu)_mm512_i32gather_epi32((__m512i)at, table, 4);
#elif defined(__AVX2__)
    return (mm_vu)_mm256_i32gather_epi32((const int *)table, (__m256i)at, 4);
#else
    mm_vu v = { table[at[0]], table[at[1]], table[at[2]], table[at[3]] };
    return v;
#endif
}

#if defined(__AVX2__)
/* Four entries of two words. */
MM_INLINE __m256i mm_entries4(const uint32_t (*table)[2], const uint32_t *at)
{
    __m128i a = _mm_loadl_epi64((const __m128i *)table[at[0]]), b = _mm_loadl_epi64((const __m128i *)table[at[2]]);
    a = _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(a), (const __m64 *)table[at[1]]));
    b = _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(b), (const __m64 *)table[at[3]]));
    return _mm256_set_m128i(b, a);
}
#endif

/* Entries of two words: first words in w[0], second ones in w[1]. One by one: that is quicker than gather instructions. */
MM_INLINE void mm_gather2(const uint32_t (*table)[2], mm_vu at, mm_vu w[2])
{
#if defined(__AVX512BW__) || defined(__AVX2__)
    uint32_t i[MM_LANES] __attribute__((aligned(64)));
    memcpy(i, &at, sizeof i);
#endif
#if defined(__AVX512BW__)
    __m512i a = _mm512_inserti64x4(_mm512_castsi256_si512(mm_entries4(table, i)), mm_entries4(table, i + 4), 1);
    __m512i b = _mm512_inserti64x4(_mm512_castsi256_si512(mm_entries4(table, i + 8)), mm_entries4(table, i + 12), 1);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    w[0] = (mm_vu)_mm512_permutex2var_epi32(a, even, b);
    w[1] = (mm_vu)_mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
#elif defined(__AVX2__)
    __m256 a = _mm256_castsi256_ps(mm_entries4(table, i)), b = _mm256_castsi256_ps(mm_entries4(table, i + 4));
    __m256i lo = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), hi = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    w[0] = (mm_vu)_mm256_permute4x64_epi64(lo, 0xd8);
    w[1] = (mm_vu)_mm256_permute4x64_epi64(hi, 0xd8);
#else
    for (uint32_t k = 0; k < 2; k++)
        w[k] = (mm_vu){ table[at[0]][k], table[at[1]][k], table[at[2]][k], table[at[3]][k] };
#endif
}

/* ---- opening ---- */

static const uint8_t mm_iq4_codes[16] __attribute__((unused)) = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166,
                                                                  181, 197, 217, 241 }; /* iq4_values + 128 */
static const uint8_t mm_fp4_codes[16] __attribute__((unused)) = { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9,
                                                                  8, 6, 4, 0 };         /* e2m1_x2 + 12    */

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

/* The eighth of four times seven signs makes the number of those set even: signs 8 j and up of `word`, in the low bits. */
MM_INLINE mm_vu mm_signs(mm_vu word, uint32_t j)
{
    mm_vu s = word >> 7 * j & 127, p = s ^ s >> 4;
    p ^= p >> 2;
    return s | ((p ^ p >> 1) & 1) << 7;
}

/* Magnitudes below 64 of elements 4 half and up of eight, whose signs are bits of the low byte: as u of offset 64. */
MM_INLINE mm_vu mm_signed(mm_vu v, mm_vu signs, uint32_t half)
{
#if defined(__AVX512BW__) || defined(__AVX2__)
    const __m128i each = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const int32_t bits = half ? (int32_t)0x80402010 : 0x08040201;
#endif
#if defined(__AVX512BW__)
    __m512i s = _mm512_shuffle_epi8((__m512i)signs, _mm512_broadcast_i32x4(each)), base = _mm512_set1_epi8(64);
    __mmask64 minus = _mm512_test_epi8_mask(s, _mm512_set1_epi32(bits));
    __m512i u = _mm512_add_epi8(base, (__m512i)v);
    return (mm_vu)_mm512_mask_sub_epi8(u, minus, base, (__m512i)v);
#elif defined(__AVX2__)
    __m256i b = _mm256_set1_epi32(bits);
    __m256i s = _mm256_and_si256(_mm256_shuffle_epi8((__m256i)signs, _mm256_broadcastsi128_si256(each)), b);
    __m256i minus = _mm256_cmpeq_epi8(s, b), x = _mm256_sub_epi8(_mm256_xor_si256((__m256i)v, minus), minus);
    return (mm_vu)_mm256_add_epi8(x, _mm256_set1_epi8(64));
#else
    mm_vu minus = (signs >> 4 * half & 15) * 0x00204081u & MM_B(1), all = (minus << 7) - minus;
    return (v ^ all) + MM_B(64) - all; /* 127 - v + 64 - 127 */
#endif
}

/* Digit n of four bytes of them (kernels/dequant_books.h). */
MM_INLINE mm_vu mm_trits(mm_vu w, uint32_t n)
{
    static const uint32_t power[5] = { 1, 3, 9, 27, 81 };
    mm_vu even = ((w & 0x00ff00ff) * power[n] & 0x00ff00ff) * 3 >> 8 & 0x00ff00ff;
    mm_vu odd = ((w >> 8 & 0x00ff00ff) * power[n] & 0x00ff00ff) * 3 & 0xff00ff00;
    return even | odd;
}

/* Elements 8 j and up of run b of the types of codebooks. */
MM_INLINE void mm_open_entry(enum qtype t, const uint8_t *words, uint32_t b, uint32_t j, mm_vu w[2])
{
    mm_vu low = mm_word(words, b) >> 8 * j & 255, at, high, signs;
    switch (t) {
    case QT_IQ2_XXS:
        mm_gather2(codebook_iq2_xxs, mm_word(words, 2 * b) >> 8 * j & 255, w);
        signs = mm_signs(mm_word(words, 2 * b + 1), j);
        break;
    case QT_IQ2_XS:
        at = mm_word(words, 2 * b + j / 2) >> 16 * (j % 2);
        mm_gather2(codebook_iq2_xs, at & 511, w);
        signs = mm_signs(at >> 9, 0);
        break;
    case QT_IQ2_S:
        high = mm_word(words, 16 + b / 4) >> (8 * (b % 4) + 2 * j) & 3;
        mm_gather2(codebook_iq2_s, low | high << 8, w);
        signs = mm_word(words, 8 + b) >> 8 * j;
        break;
    case QT_IQ3_XXS:
    case QT_IQ3_S:
        at = mm_word(words, 2 * b + j / 2) >> 16 * (j % 2);
        for (uint32_t k = 0; k < 2; k++)
            if (t == QT_IQ3_XXS) {
                w[k] = mm_gather(codebook_iq3_xxs, at >> 8 * k & 255);
            } else {
                high = mm_word(words, 16 + b / 4) >> (8 * (b % 4) + 2 * j + k) & 1;
                w[k] = mm_gather(codebook_iq3_s, (at >> 8 * k & 255) | high << 8);
            }
        signs = t == QT_IQ3_XXS ? mm_signs(mm_word(words, 16 + b), j) : mm_word(words, 18 + b) >> 8 * j;
        break;
    default: /* IQ1: moved up or down, no signs */
        high = mm_word(words, 8 + b / 2) >> 16 * (b % 2);
        at = t == QT_IQ1_S ? high >> 3 * j & 7 : high >> 4 * j & 7;
        mm_gather2(codebook_iq1, low | at << 8, w);
        high = ~high >> (t == QT_IQ1_S ? 15 : 4 * j + 3) & 1;
        w[0] += high * MM_B(2);
        w[1] += high * MM_B(2);
        return;
    }
    w[0] = mm_signed(w[0], signs, 0);
    w[1] = mm_signed(w[1], signs, 1);
}

/* The quants of run b (of 32 elements) of a block, as u. */
MM_INLINE void mm_open_quants(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    for (uint32_t g = 0; g < 8; g++) {
        uint32_t g4 = g % 4, hi = g / 4;
        switch (t) {
        case QT_Q8_0: w[g] = mm_word(words, g); break;
        case QT_Q4_0: w[g] = mm_nibble(mm_word(words, g4), hi); break;
        case QT_Q4_1: w[g] = mm_nibble(mm_word(words, 1 + g4), hi); break;
        case QT_IQ4_NL: w[g] = mm_lookup(mm_iq4_codes, mm_nibble(mm_word(words, g4), hi)); break;
        case QT_MXFP4: w[g] = mm_lookup(mm_fp4_codes, mm_nibble(mm_word(words, g4), hi)); break;
        case QT_NVFP4: /* 16 elements in two words */
            w[g] = mm_lookup(mm_fp4_codes, mm_nibble(mm_word(words, 1 + 4 * b + 2 * hi + (g & 1)), g4 / 2));
            break;
        case QT_Q5_0: case QT_Q5_1: {
            uint32_t first = t == QT_Q5_1;
            w[g] = mm_nibble(mm_word(words, first + 1 + g4), hi) | mm_bits(mm_word(words, first), g, 4, 16);
            break;
        }
        case QT_IQ4_XS: w[g] = mm_lookup(mm_iq4_codes, mm_nibble(mm_word(words, 2 + 4 * b + g4), hi)); break;
        case QT_Q4_K: w[g] = mm_nibble(mm_word(words, 4 + b / 2 * 8 + g), b & 1); break;
        case QT_Q5_K:
            w[g] = mm_nibble(mm_word(words, 12 + b / 2 * 8 + g), b & 1) | mm_bits(mm_word(words, 4 + g), b, 4, 16);
            break;
        case QT_Q6_K: {
            uint32_t half = b / 4, quarter = b % 4;
            w[g] = mm_nibble(mm_word(words, 16 * half + 8 * (quarter & 1) + g), quarter / 2) |
                   mm_bits(mm_word(words, 32 + 8 * half + g), 2 * quarter, 4, 0x30);
            break;
        }
        case QT_Q2_K: w[g] = mm_word(words, 4 + 8 * (b / 4) + g) >> 2 * (b % 4) & MM_B(3); break;
        case QT_Q3_K:
            w[g] = mm_bits(mm_word(words, 8 + 8 * (b / 4) + g), 2 * (b % 4), 0, 3) |
                   mm_bits(mm_word(words, g), b, 2, 4);
            break;
        case QT_TQ2_0: w[g] = mm_word(words, 8 * (b / 4) + g) >> 2 * (b % 4) & MM_B(3); break;
        case QT_TQ1_0: /* 160 elements in 32 bytes, 80 in 16, 16 in 4 */
            w[g] = b < 5             ? mm_trits(mm_word(words, g), b)
                   : b < 7 || g < 4 ? mm_trits(mm_word(words, 8 + g4), 2 * (b - 5) + hi)
                                     : mm_trits(mm_word(words, 12), g4);
            break;
        default: /* a codebook */
            if (g % 2 == 0)
                mm_open_entry(t, words, b, g / 2, w + g);
            break;
        }
    }
}

/* Byte i of each word. */
MM_INLINE mm_vu mm_byte(mm_vu w, uint32_t i)
{
    return w >> 8 * i & 255;
}

/* The 6-bit scale (or, with `min`, the minimum) of run b of a Q4_K or Q5_K block; s: its 12 scale bytes. */
MM_INLINE mm_vu mm_k_scale(const mm_vu s[3], uint32_t b, int min)
{
    mm_vu own = s[min];
    if (b < 4)
        return mm_byte(own & MM_B(63), b);
    return mm_byte(mm_nibble(s[2], min) | (own >> 2 & MM_B(0x30)), b - 4);
}

/* d times an odd scale, over eight or two. */
MM_INLINE mm_vf mm_odd(mm_vu scale)
{
    return mm_f32_of(2 * scale + 1);
}

/* What struct mm_xblk holds of scales, for one part. */
struct mm_scales {
    mm_vf dw, mw, s0, s1, m0, m1;
};

/* The scales of run b of a block. */
MM_INLINE void mm_open_scales(enum qtype t, const uint8_t *head, const uint8_t *words, uint32_t b,
                              struct mm_scales *x)
{
    switch (t) {
    case QT_Q4_0: case QT_Q5_0: case QT_Q8_0: case QT_IQ4_NL: x->dw = mm_f32_of_halves(mm_load_u16(head)); break;
    case QT_MXFP4: { /* e8m0_half_to_f32 */
        mm_vu e = mm_load_u8(head), small = (mm_vu)(e < 2);
        x->dw = (mm_vf)((small & (e + 1) << 21) | (~small & (e - 1) << 23));
        break;
    }
    case QT_NVFP4: { /* ue4m3_half_to_f32 */
        mm_vu d = mm_word(words, 0) >> 16 * b;
        for (uint32_t k = 0; k < 2; k++) {
            mm_vu c = d >> 8 * k & 255, there = (mm_vu)(c != 127);
            mm_vf v = mm_f32_of_halves((c & 127) << 7) * 128.0f;
            *(k ? &x->s1 : &x->s0) = (mm_vf)((mm_vu)v & there);
        }
        break;
    }
    case QT_Q4_1: case QT_Q5_1: {
        mm_vu dm = mm_word(words, 0);
        x->dw = mm_f32_of_halves(dm & 0xffff);
        x->mw = mm_f32_of_halves(dm >> 16);
        break;
    }
    case QT_Q4_K: case QT_Q5_K: {
        mm_vu dm = mm_word(words, 0), s[3] = { mm_word(words, 1), mm_word(words, 2), mm_word(words, 3) };
        x->dw = mm_f32_of_halves(dm & 0xffff) * mm_f32_of(mm_k_scale(s, b, 0));
        x->mw = -(mm_f32_of_halves(dm >> 16) * mm_f32_of(mm_k_scale(s, b, 1)));
        break;
    }
    case QT_IQ4_XS: {
        mm_vu d = mm_word(words, 0);
        mm_vu ls = (mm_word(words, 1) >> 4 * b & 15) | (d >> (16 + 2 * b) & 3) << 4;
        x->dw = mm_f32_of_halves(d & 0xffff) * mm_f32_of(ls - 32);
        break;
    }
    case QT_Q6_K: {
        mm_vi s = (mm_vi)mm_word(words, 48 + b / 2);
        x->dw = mm_f32_of_halves(mm_load_u16(head));
        x->s0 = mm_f32_of((mm_vu)(s << (24 - 16 * (b & 1)) >> 24));
        x->s1 = mm_f32_of((mm_vu)(s << (16 - 16 * (b & 1)) >> 24));
        break;
    }
    case QT_Q3_K: {
        uint32_t r = 2 * b, at = r % 4;
        mm_vu s = mm_nibble(mm_word(words, 24 + r % 8 / 4), r / 8) |
                 (mm_word(words, 26) >> 2 * (r / 4) & MM_B(3)) << 4;
        x->dw = mm_f32_of_halves(mm_load_u16(head));
        x->s0 = mm_f32_of(mm_byte(s, at) - 32);
        x->s1 = mm_f32_of(mm_byte(s, at + 1) - 32);
        break;
    }
    case QT_Q2_K: {
        uint32_t r = 2 * b;
        mm_vu dm = mm_word(words, 20), s = mm_word(words, r / 4);
        x->dw = mm_f32_of_halves(dm & 0xffff);
        x->mw = mm_f32_of_halves(dm >> 16);
        x->s0 = mm_f32_of(s >> 8 * (r % 4) & 15);
        x->s1 = mm_f32_of(s >> (8 * (r % 4) + 8) & 15);
        x->m0 = mm_f32_of(s >> (8 * (r % 4) + 4) & 15);
        x->m1 = mm_f32_of(s >> (8 * (r % 4) + 12) & 15);
        break;
    }
    case QT_TQ1_0: case QT_TQ2_0: x->dw = mm_f32_of_halves(mm_load_u16(head)); break;
    case QT_IQ2_XXS:
        x->dw = mm_f32_of_halves(mm_load_u16(head)) * (mm_odd(mm_word(words, 2 * b + 1) >> 28) * 0.125f);
        break;
    case QT_IQ3_XXS:
        x->dw = mm_f32_of_halves(mm_load_u16(head)) * (mm_odd(mm_word(words, 16 + b) >> 28) * 0.25f);
        break;
    case QT_IQ3_S: x->dw = mm_f32_of_halves(mm_load_u16(head)) * mm_odd(mm_word(words, 26) >> 4 * b & 15); break;
    case QT_IQ1_S:
        x->dw = mm_f32_of_halves(mm_load_u16(head)) *
                (mm_odd(mm_word(words, 8 + b / 2) >> (16 * (b % 2) + 12) & 7) * 0.125f);
        break;
    case QT_IQ2_XS: case QT_IQ2_S: {
        mm_vu s = mm_word(words, (t == QT_IQ2_XS ? 16 : 18) + b / 4) >> 8 * (b % 4);
        x->dw = mm_f32_of_halves(mm_load_u16(head)) * 0.125f;
        x->s0 = mm_odd(s & 15);
        x->s1 = mm_odd(s >> 4 & 15);
        break;
    }
    case QT_IQ1_M: {
        mm_vu a = mm_word(words, 12), c = mm_word(words, 13), s = mm_word(words, 12 + b / 4) >> (16 * (b / 2 % 2) + 6 * (b % 2));
        mm_vu d = (a >> 12 & 15) | (a >> 24 & 0xf0) | (c >> 4 & 0xf00) | (c >> 16 & 0xf000); /* iq1_m_d */
        x->dw = mm_f32_of_halves(d) * 0.125f;
        x->s0 = mm_odd(s & 7);
        x->s1 = mm_odd(s >> 3 & 7);
        break;
    }
    default: break;
    }
}

enum { MM_RANGE = 16 /* runs of 32 opened at a time: they stay in the first cache beside the rows of x */ };

/* Panels stream: far ahead into the second cache, shortly ahead into the first. */
MM_INLINE void mm_prefetch(const uint8_t *p, size_t bytes)
{
    enum { FAR = 8192, NEAR = 1024 };
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(p + FAR + i, 0, 2);
        __builtin_prefetch(p + NEAR + i, 0, 3);
    }
}

#define MM_STORE(field) memcpy(x->field + at, &s.field, sizeof s.field)

/* One part of run b of a block. */
MM_INLINE void mm_open_run(enum qtype t, const uint8_t *head, const uint8_t *words, uint32_t b, uint32_t part,
                           int flip, struct mm_xblk *x)
{
    const enum qtype_scales kind = qtype_scales(t);
    uint32_t at = part * MM_LANES;
    mm_vu w[8];
    struct mm_scales s;
    mm_open_quants(t, words, b, w);
    for (int g = 0; g < 8; g++) {
        mm_vu v = flip ? (mm_vu)((mm_vb)w[g] - (uint8_t)flip) : w[g];
        memcpy(x->w[g] + at, &v, sizeof v);
    }
    mm_open_scales(t, head, words, b, &s);
    if (kind != QS_HALVES)
        MM_STORE(dw);
    if (kind == QS_SCALE_MIN || kind == QS_RUNS_MIN)
        MM_STORE(mw);
    if (kind == QS_RUNS || kind == QS_RUNS_MIN || kind == QS_HALVES) {
        MM_STORE(s0);
        MM_STORE(s1);
    }
    if (kind == QS_RUNS_MIN) {
        MM_STORE(m0);
        MM_STORE(m1);
    }
}

/* Runs [k0, k0 + n) of a panel; n_runs is the panel's number of them, k0 starts a block. */
MM_INLINE void mm_open(enum qtype t, const uint8_t *panel, uint32_t n_runs, uint32_t k0, uint32_t n, int flip,
                       struct mm_xblk *x)
{
    uint32_t per = qtype_block(t) / QK, nb = n_runs / per;
    for (uint32_t ib = k0 / per; ib < (k0 + n) / per; ib++, x += per) {
        struct mm_where at = mm_where(t, nb, ib);
        const uint8_t *head = panel + at.head, *words = panel + at.words;
        mm_prefetch(words, 64 * (size_t)mm_words(t));
        for (uint32_t p = 0; p < MM_PARTS; p++)
#pragma GCC unroll 8
            for (uint32_t b = 0; b < per; b++)
                mm_open_run(t, head + mm_head_bytes(t) * MM_LANES * p, words + sizeof(mm_vu) * p, b, p, flip, &x[b]);
    }
}

/* ---- activations ---- */

/* Bit-equal everywhere: the maximum is taken over the bits of |x|, rounding is to nearest even by the sum with 1.5
 * 2^23, whose low bits are the integer. */
MM_INLINE void mm_quant_row(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    int8_t *q = a->q + (size_t)row * a->ldq;
    for (uint32_t b = 0; b < n_in / QK; b++, x += QK, q += QK) {
        size_t at = (size_t)b * a->ldd + row;
        int16_t *s16 = a->s16 + 2 * at;
        int32_t top = 0, code[QK], sum[2] = { 0, 0 };
        for (int i = 0; i < QK; i++) {
            int32_t abs = (int32_t)(f32_bits(x[i]) & 0x7fffffff);
            top = abs > top ? abs : top;
        }
        float amax = f32_from_bits((uint32_t)top);
        if (top >= 0x7f800000 || amax < 1e-30f) {
            memset(q, 0, QK);
            a->d[at] = a->dx[at] = top >= 0x7f800000 ? f32_from_bits(0x7fc00000) : 0;
            s16[0] = s16[1] = 0;
            continue;
        }
        float inv = 127.0f / amax;
        for (int i = 0; i < QK; i++)
            code[i] = (int32_t)f32_bits(x[i] * inv + 12582912.0f) - 0x4b400000;
        for (int i = 0; i < QK; i++)
            q[i] = (int8_t)code[i];
        for (int i = 0; i < 16; i++) {
            sum[0] += code[i];
            sum[1] += code[i + 16];
        }
        s16[0] = (int16_t)sum[0];
        s16[1] = (int16_t)sum[1];
        a->d[at] = amax / 127.0f;
        a->dx[at] = a->d[at] * (float)(sum[0] + sum[1]);
    }
}

/* Rows of x as a kernel sees them from run k0 on: row r, run i has element r * ldq + 32 * i of q and b, and element
 * i * ldd + r of d, dx and s16 (there a pair). */
struct mm_rows {
    const int8_t *q;
    const uint16_t *b;
    const float *d, *dx;
    const int16_t *s16;
    size_t ldq, ldd;
};

MM_INLINE struct mm_rows mm_rows(const struct mm_act *a, uint32_t row, uint32_t k0)
{
    size_t at = (size_t)k0 * a->ldd + row;
    size_t first = (size_t)row * a->ldq + (size_t)k0 * QK;
    return (struct mm_rows){ a->q + first, a->b + first, a->d + at, a->dx + at, a->s16 + 2 * at, a->ldq, a->ldd };
}

/* Rows [0, n_rows) of x by n opened runs, onto the accumulators in y (or, first, onto zero). off: mm_offset, for
 * kernels that take u; the others have it subtracted when a run is opened ("flip" below). */
typedef void mm_runs_fn(const struct mm_xblk *w, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows,
                        float *y, size_t ldy, bool first);

/* The walk that every set shares: a range of a panel is opened once, then every row passes over it. */
MM_INLINE void mm_walk(enum qtype t, mm_runs_fn *runs, int flip, uint32_t n_in, const uint8_t *panels,
                       uint32_t n_panels, const struct mm_act *a, uint32_t row0, uint32_t n_rows, float *y,
                       size_t ldy, void *scratch)
{
    uint32_t n_runs = n_in / QK;
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in), y += MM_ROWS)
        for (uint32_t k = 0; k < n_runs; k += MM_RANGE) {
            uint32_t n = n_runs - k < MM_RANGE ? n_runs - k : MM_RANGE;
            struct mm_rows x = mm_rows(a, row0, k);
            mm_open(t, panels, n_runs, k, n, flip, scratch);
            runs(scratch, n, mm_offset(t), &x, n_rows, y, ldy, k == 0);
        }
}

#if defined(__AVX512VNNI__)
/* mm_quant_row for AVX-512; bf16: a->b too. */
MM_INLINE void mm_quant_row_512(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row, bool bf16)
{
    const __m512 magic = _mm512_set1_ps(12582912.0f);
    const __m512i sign_off = _mm512_set1_epi32(0x7fffffff);
    int8_t *q = a->q + (size_t)row * a->ldq;
    uint16_t *h = a->b + (size_t)row * a->ldq;
    size_t at = row;
    for (uint32_t b = 0; b < n_in / QK; b++, x += QK, q += QK, h += QK, at += a->ldd) {
        __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
        __m512i m = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(x0), sign_off),
                                     _mm512_and_si512(_mm512_castps_si512(x1), sign_off));
        __m256i m8 = _mm256_max_epi32(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
        __m128i m4 = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
        m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
        m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0xb1));
        int32_t top = _mm_cvtsi128_si32(m4);
        float amax = f32_from_bits((uint32_t)top), inv = 127.0f / amax, d = amax / 127.0f;
        if (__builtin_expect(top >= 0x7f800000 || amax < 1e-30f, 0)) {
            x0 = x1 = _mm512_setzero_ps();
            inv = 0;
            d = top >= 0x7f800000 ? f32_from_bits(0x7fc00000) : 0;
        }
        __m512 r0 = _mm512_add_ps(_mm512_mul_ps(x0, _mm512_set1_ps(inv)), magic);
        __m512 r1 = _mm512_add_ps(_mm512_mul_ps(x1, _mm512_set1_ps(inv)), magic);
        __m128i q0 = _mm512_cvtepi32_epi8(_mm512_castps_si512(r0));
        __m128i q1 = _mm512_cvtepi32_epi8(_mm512_castps_si512(r1));
        __m256i bytes = _mm256_set_m128i(q1, q0);
        _mm256_storeu_si256((__m256i *)q, bytes);
        __m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
        s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
        s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
        int32_t s0 = _mm256_extract_epi32(s, 0), s1 = _mm256_extract_epi32(s, 4);
        a->s16[2 * at] = (int16_t)s0;
        a->s16[2 * at + 1] = (int16_t)s1;
        a->d[at] = d;
        a->dx[at] = d * (float)(s0 + s1);
        if (bf16) {
            const __m512 down = _mm512_set1_ps(0x1p-24f);
            r0 = _mm512_mul_ps(_mm512_sub_ps(r0, magic), down);
            r1 = _mm512_mul_ps(_mm512_sub_ps(r1, magic), down);
            _mm256_storeu_si256((__m256i *)h, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(r0), 16)));
            _mm256_storeu_si256((__m256i *)(h + 16),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(r1), 16)));
        }
    }
}
#endif

/* The sets, NULL in a build for another machine. */
extern const struct mm_kernels mm_plain;
extern const struct mm_kernels *const mm_avx2, *const mm_avx512, *const mm_amx, *const mm_neon, *const mm_dotprod;

#endif
