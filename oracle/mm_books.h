/* oracle/mm_books.h
 * Opens what looks its codes up in kernels/codebooks.h, a run of 32 elements of a panel at a time. For oracle/mm*.c only.
 *
 * Two ways. Where a byte permutation takes its table from two registers (AVX-512 VBMI) the codebooks lie packed: a code of 2
 * or 3 bits an element, and 64 indices are looked up at once; windows of bits (VPMULTISHIFTQB) bring an element's code, and its
 * sign beside it, to the bottom of a byte, which one more permutation turns into a weight. Elsewhere entries are fetched one
 * by one. */
#ifndef ZINC_ORACLE_MM_BOOKS_H
#define ZINC_ORACLE_MM_BOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/codebooks.h"
#include "kernels/qtypes.h"
#include "oracle/mm_vec.h"

MM_INLINE bool mm_is_book(enum qtype t)
{
    return t == QT_IQ2_XXS || t == QT_IQ2_XS || t == QT_IQ2_S || t == QT_IQ3_XXS || t == QT_IQ3_S || t == QT_IQ1_S || t == QT_IQ1_M;
}

/* The codebook of IQ1 has 2,048 entries of eight ternary digits, too many to look up by permutations of 128 bytes. But their first and second halves
 * are 81 each, and 32 boxes of eight first halves by sixteen second ones hold all entries (oracle/mm_iq1_boxes.inc): box and place in it take 12
 * bits where an index takes 11, and then either half is looked up among 256 and 512. Panels have these for indices. A block's words:
 *   b         of run b a byte an entry: bits 0 to 3 of the box in bits 4 to 7, bit 4 of it in bit 3, and which first half
 *   8 + b / 2 16 bits a run, four an entry: which second half
 *   12        four bits a run: IQ1_S: its scale, and in bit 3 whether it is moved down; IQ1_M: whether each entry is
 *   13, 14    IQ1_M: scales and d, as in the file */
MM_INLINE bool mm_is_boxed(enum qtype t)
{
    return t == QT_IQ1_S || t == QT_IQ1_M;
}

/* Codes in place of values. Of entries of eight: elements 4 h and up in half h, two bits each. Of four: elements 2 h and
 * 2 h + 1 in half h, a nibble each; for one row (oracle/mm_books_row.h) elements h + 2 and h, three bits each. iq1: by place in
 * boxes; iq1_place: of an index, a byte and four bits; iq1_index: the index there, or 0. tq1: digits 0 to 3 of a byte, two bits each, and digit 4.
 *
 * For one row: what a byte is by six bits of an index, the code in some of them and the sign in another. eights: element m of an entry
 * of eight, as a signed byte, eights_u as u; fours: element e of four, as u. */
struct mm_packed {
    uint8_t iq2_xxs[2][256], iq2_xs[2][512], iq2_s[2][1024];
    uint8_t iq3_xxs[2][256], iq3_s[2][512], iq3_xxs_row[2][256], iq3_s_row[2][512];
    uint8_t tq1[2][256];
    uint8_t iq1_first[256], iq1_second[512];
    uint16_t iq1_place[2048], iq1_index[4096];
    uint32_t iq1[4096]; /* element e in bits 3 and 4 of byte e, e + 4 in bits 5 and 6 */
    int8_t eights[8][64], eights_u[8][64], fours_xxs[4][64], fours_s[4][64];
} __attribute__((aligned(64)));
extern struct mm_packed mm_packed;

/* Fills it, on the first call: mm_select does, for sets that read it. */
void mm_packed_init(void);

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

#if defined(__AVX512VBMI__) && defined(__GFNI__)

/* Bytes i of a table of n = 128, 256, 512 or 1024; above[k]: their bits 7 + k. */
MM_INLINE __m512i mm_look(const uint8_t *table, uint32_t n, __m512i i, const __mmask64 *above)
{
    __m512i done[4]; /* [l]: of the last 128 << l entries; what is joined at once stays in registers */
#pragma GCC unroll 8
    for (uint32_t k = 1; k <= n / 128; k++, table += 128) {
        __m512i v = _mm512_permutex2var_epi8(_mm512_load_si512(table), i, _mm512_load_si512(table + 64));
#pragma GCC unroll 3
        for (uint32_t l = 0; l < 3; l++)
            if (k % (2u << l) == 0)
                v = _mm512_mask_blend_epi8(above[l], done[l], v);
        done[__builtin_ctz(k)] = v;
    }
    return done[__builtin_ctz(n / 128)];
}

/* For _mm512_multishift_epi64_epi8: byte k of each word becomes the eight bits from bit at + k * step of the word on. */
MM_INLINE __m512i mm_window(int at, int step)
{
    uint64_t c = 0;
    for (int k = 0; k < 8; k++)
        c |= (uint64_t)((at + k % 4 * step + 32 * (k / 4)) & 63) << 8 * k;
    return _mm512_set1_epi64((long long)c);
}

/* The same with a place for each byte. */
MM_INLINE __m512i mm_window_of(int b0, int b1, int b2, int b3)
{
    const int from[4] = { b0, b1, b2, b3 };
    uint64_t c = 0;
    for (int k = 0; k < 8; k++)
        c |= (uint64_t)((from[k % 4] + 32 * (k / 4)) & 63) << 8 * k;
    return _mm512_set1_epi64((long long)c);
}

/* 4 times a byte's lane, for permutations within lanes. */
MM_INLINE __m512i mm_lanes4(void)
{
    return _mm512_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0x10101010, 0x14141414, 0x18181818, 0x1c1c1c1c, 0x20202020, 0x24242424,
                             0x28282828, 0x2c2c2c2c, 0x30303030, 0x34343434, 0x38383838, 0x3c3c3c3c);
}

/* Bytes of bits, of which bit i comes from bit from[i], or from none (-1); bit 7 is made even with the others (8). */
MM_INLINE __m512i mm_rewire(__m512i v, int8_t b0, int8_t b1, int8_t b2, int8_t b3, int8_t b4, int8_t b5, int8_t b6, int8_t b7)
{
    const int8_t from[8] = { b0, b1, b2, b3, b4, b5, b6, b7 };
    uint64_t m = 0, all = 0;
    for (int i = 0; i < 8; i++)
        if (from[i] >= 0 && from[i] < 8) {
            m |= (uint64_t)1 << (8 * (7 - i) + from[i]);
            all |= (uint64_t)1 << from[i];
        }
    if (b7 == 8)
        m |= all;
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64((long long)m), 0);
}

/* Seven signs and the eighth, from bit `first` of each byte on. */
MM_INLINE __m512i mm_eight_signs(__m512i v, int8_t first)
{
    return first ? mm_rewire(v, 1, 2, 3, 4, 5, 6, 7, 8) : mm_rewire(v, 0, 1, 2, 3, 4, 5, 6, 8);
}

/* Which bytes have bit (at + k * step) of byte `byte` of their word set, k their place in the word. */
MM_INLINE __mmask64 mm_bits_set(mm_vu word, int byte, int at, int step)
{
    uint32_t bits = 0;
    for (int k = 0; k < 4; k++)
        bits |= 1u << (8 * k + at + k * step);
    __m512i all = _mm512_multishift_epi64_epi8(mm_window(8 * byte, 0), (__m512i)word);
    return _mm512_test_epi8_mask(all, _mm512_set1_epi32((int32_t)bits));
}

/* Codes of two bits of eight elements an entry, halves[0] and [1], and bytes of signs. Byte p of a word is entry j of the run:
 * in order, or (even_first) 0, 2, 1, 3. */
MM_INLINE void mm_open_eights(const __m512i halves[2], __m512i signs, bool even_first, mm_vu w[8])
{
    /* 64 + and 64 - 8, 25, 43; bit 2 of the index is the sign */
    const __m512i values = _mm512_set1_epi64(0x00152738006b5948), sign = _mm512_set1_epi8(4);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            int p = even_first ? (j & 1) * 2 | j >> 1 : j;
            __m512i c = _mm512_multishift_epi64_epi8(mm_window(8 * p, 2), halves[h]);
            __m512i s = _mm512_multishift_epi64_epi8(mm_window(8 * p + 4 * h - 2, 1), signs);
            c = _mm512_ternarylogic_epi64(c, s, sign, 0xd8); /* sign ? s : c */
            w[2 * j + h] = (mm_vu)_mm512_permutexvar_epi8(c, values);
        }
}

MM_INLINE void mm_open_iq2(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    __m512i i, signs, halves[2];
    __mmask64 above[3];
    uint32_t n = t == QT_IQ2_XXS ? 256 : t == QT_IQ2_XS ? 512 : 1024;
    const uint8_t *table = t == QT_IQ2_XXS ? *mm_packed.iq2_xxs : t == QT_IQ2_XS ? *mm_packed.iq2_xs : *mm_packed.iq2_s;
    if (t == QT_IQ2_XXS) {
        i = (__m512i)mm_word(words, 2 * b);
        signs = _mm512_multishift_epi64_epi8(mm_window(0, 7), (__m512i)mm_word(words, 2 * b + 1));
        signs = mm_eight_signs(signs, 0);
    } else if (t == QT_IQ2_XS) { /* 9 bits of index, 7 of signs */
        mm_vu even = mm_word(words, 2 * b), odd = mm_word(words, 2 * b + 1), low = even * 0 + 0x00ff00ff;
        i = (__m512i)((even & low) | (odd << 8 & ~low));
        signs = (__m512i)((even >> 8 & low) | (odd & ~low));
        above[1] = _mm512_test_epi8_mask(signs, _mm512_set1_epi8(1));
        signs = mm_eight_signs(signs, 1);
    } else {
        mm_vu high = mm_word(words, 16 + b / 4);
        i = (__m512i)mm_word(words, b);
        signs = (__m512i)mm_word(words, 8 + b);
        above[1] = mm_bits_set(high, (int)b % 4, 0, 2);
        above[2] = mm_bits_set(high, (int)b % 4, 1, 2);
    }
    above[0] = _mm512_movepi8_mask(i);
    for (int h = 0; h < 2; h++)
        halves[h] = mm_look(table + (uint32_t)h * n, n, i, above);
    mm_open_eights(halves, signs, t == QT_IQ2_XS, w);
}

MM_INLINE void mm_open_iq3(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    static const int8_t xxs[16] = { 68, 76, 84, 92, 100, 108, 116, 126, 60, 52, 44, 36, 28, 20, 12, 2 };
    static const int8_t s[16] = { 65, 67, 69, 71, 73, 75, 77, 79, 63, 61, 59, 57, 55, 53, 51, 49 };
    const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(t == QT_IQ3_XXS ? xxs : s)));
    uint32_t n = t == QT_IQ3_XXS ? 256 : 512;
    const uint8_t *table = t == QT_IQ3_XXS ? *mm_packed.iq3_xxs : *mm_packed.iq3_s;
    __m512i signs;
    if (t == QT_IQ3_XXS)
        signs = mm_eight_signs(_mm512_multishift_epi64_epi8(mm_window(0, 7), (__m512i)mm_word(words, 16 + b)), 0);
    else
        signs = (__m512i)mm_word(words, 18 + b);
#pragma GCC unroll 2
    for (int a = 0; a < 2; a++) { /* sixteen elements, whose indices are a word */
        __m512i i = (__m512i)mm_word(words, 2 * b + (uint32_t)a), pairs[2];
        __mmask64 above[2] = { _mm512_movepi8_mask(i) };
        if (t == QT_IQ3_S)
            above[1] = mm_bits_set(mm_word(words, 16 + b / 4), (int)b % 4, 4 * a, 1);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m512i minus = _mm512_multishift_epi64_epi8(mm_window(16 * a + 2 * h, 4), signs);
            pairs[h] = mm_look(table + (uint32_t)h * n, n, i, above);
            pairs[h] = _mm512_or_si512(pairs[h], mm_rewire(minus, -1, -1, -1, 0, -1, -1, -1, 1));
        }
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++) {
            const __m512i nibbles = _mm512_set1_epi64((0x0400040004000400ll | 0x2020202000000000ll) + 0x0808080808080808ll * g);
            __m512i c = _mm512_multishift_epi64_epi8(nibbles, pairs[0]);
            c = _mm512_mask_multishift_epi64_epi8(c, 0xcccccccccccccccc, nibbles, pairs[1]);
            w[4 * a + g] = (mm_vu)_mm512_permutexvar_epi8(c, values);
        }
    }
}

/* Halves of the entries of run b of IQ1, a code of two bits an element. */
MM_INLINE void mm_look_iq1(const uint8_t *words, uint32_t b, __m512i halves[2])
{
    __m512i first = (__m512i)mm_word(words, b);
    __m512i second = _mm512_multishift_epi64_epi8(mm_window(16 * (int)(b % 2), 4), (__m512i)mm_word(words, 8 + b / 2));
    __mmask64 above[2] = { _mm512_movepi8_mask(first), _mm512_test_epi8_mask(first, _mm512_set1_epi8(8)) };
    second = _mm512_ternarylogic_epi64(first, second, _mm512_set1_epi8((int8_t)0xf0), 0xe4); /* 0xf0 ? first : second */
    halves[0] = mm_look(mm_packed.iq1_first, 256, first, above);
    halves[1] = mm_look(mm_packed.iq1_second, 512, second, above);
}

MM_INLINE void mm_open_iq1(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    /* 0, 8, 16, moved up by 2 or not */
    const __m512i values = _mm512_set1_epi32(0x00100800), two = _mm512_set1_epi8(2);
    const __m512i where = (__m512i)mm_word(words, 12);
    __m512i halves[2];
    mm_look_iq1(words, b, halves);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; j++) {
        __mmask16 up = _mm512_testn_epi32_mask(where, _mm512_set1_epi32((int32_t)(1u << (4 * b + (t == QT_IQ1_S ? 3 : j)))));
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m512i c = _mm512_multishift_epi64_epi8(mm_window(8 * (int)j, 2), halves[h]);
            c = _mm512_permutexvar_epi8(c, values);
            w[2 * j + (uint32_t)h] = (mm_vu)_mm512_mask_add_epi32(c, up, c, two);
        }
    }
}

/* The quants of run b of a block of a type of codebooks, as u. */
MM_INLINE void mm_open_book(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    switch (t) {
    case QT_IQ2_XXS: case QT_IQ2_XS: case QT_IQ2_S: mm_open_iq2(t, words, b, w); break;
    case QT_IQ3_XXS: case QT_IQ3_S: mm_open_iq3(t, words, b, w); break;
    default: mm_open_iq1(t, words, b, w); break;
    }
}

#else

#if defined(__AVX2__)
MM_INLINE __m256i mm_entry(const uint32_t entry[2])
{
    long long v;
    memcpy(&v, entry, sizeof v);
    return _mm256_set1_epi64x(v);
}

enum { MM_PAIRS = MM_LANES / 2 };

/* Lanes 2 k and 2 k + 1. */
MM_INLINE long long mm_pair(mm_vu v, uint32_t k)
{
    __m128i q;
    memcpy(&q, (const char *)&v + 16 * (k / 2), sizeof q);
    return k % 2 ? _mm_extract_epi64(q, 1) : _mm_cvtsi128_si64(q);
}

/* Four entries of two words, by pairs of indices. A load spreads each over the register and blends pick: nothing of it is a shuffle, of which there
 * may be one a cycle. */
MM_INLINE __m256i mm_entries4(const uint32_t (*table)[2], uint64_t a, uint64_t b)
{
    __m256i lo = _mm256_blend_epi32(mm_entry(table[(uint32_t)a]), mm_entry(table[a >> 32]), 0x0c);
    __m256i hi = _mm256_blend_epi32(mm_entry(table[(uint32_t)b]), mm_entry(table[b >> 32]), 0xc0);
    return _mm256_blend_epi32(lo, hi, 0xf0);
}
#endif

/* Entries of two words: first words in w[0], second ones in w[1]. One by one: that is quicker than gather instructions. */
MM_INLINE void mm_gather2(const uint32_t (*table)[2], mm_vu at, mm_vu w[2])
{
#if defined(__AVX512BW__) || defined(__AVX2__)
    uint64_t pairs[MM_PAIRS];
#pragma GCC unroll 8
    for (uint32_t k = 0; k < MM_PAIRS; k++)
        pairs[k] = (uint64_t)mm_pair(at, k);
#endif
#if defined(__AVX512BW__)
    __m512i a = _mm512_inserti64x4(_mm512_castsi256_si512(mm_entries4(table, pairs[0], pairs[1])), mm_entries4(table, pairs[2], pairs[3]), 1);
    __m512i b = _mm512_inserti64x4(_mm512_castsi256_si512(mm_entries4(table, pairs[4], pairs[5])), mm_entries4(table, pairs[6], pairs[7]), 1);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    w[0] = (mm_vu)_mm512_permutex2var_epi32(a, even, b);
    w[1] = (mm_vu)_mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
#elif defined(__AVX2__)
    __m256 a = _mm256_castsi256_ps(mm_entries4(table, pairs[0], pairs[2]));
    __m256 b = _mm256_castsi256_ps(mm_entries4(table, pairs[1], pairs[3]));
    w[0] = (mm_vu)_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    w[1] = (mm_vu)_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
#else
    for (uint32_t k = 0; k < 2; k++)
        w[k] = (mm_vu){ table[at[0]][k], table[at[1]][k], table[at[2]][k], table[at[3]][k] };
#endif
}

/* Entries whose indices are the `bits` bits, 8 or 9, from byte `at` of word i of each row on. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
MM_INLINE __m256i mm_entry_at(const uint32_t (*table)[2], uint32_t bits, const uint8_t *p)
{
    uint16_t v;
    if (bits == 8)
        return mm_entry(table[*p]);
    memcpy(&v, p, sizeof v);
    return mm_entry(table[v & ((1u << bits) - 1)]);
}

/* A load takes an index out, in fewer instructions than out of a vector. */
MM_INLINE void mm_gather2_at(const uint32_t (*table)[2], uint32_t bits, const uint8_t *words, uint32_t i, uint32_t at, mm_vu w[2])
{
    const uint8_t *p = words + 64 * (size_t)i + at;
    __m256i a0 = _mm256_blend_epi32(mm_entry_at(table, bits, p), mm_entry_at(table, bits, p + 4), 0x0c);
    __m256i a1 = _mm256_blend_epi32(mm_entry_at(table, bits, p + 16), mm_entry_at(table, bits, p + 20), 0xc0);
    __m256i b0 = _mm256_blend_epi32(mm_entry_at(table, bits, p + 8), mm_entry_at(table, bits, p + 12), 0x0c);
    __m256i b1 = _mm256_blend_epi32(mm_entry_at(table, bits, p + 24), mm_entry_at(table, bits, p + 28), 0xc0);
    __m256 a = _mm256_castsi256_ps(_mm256_blend_epi32(a0, a1, 0xf0)), b = _mm256_castsi256_ps(_mm256_blend_epi32(b0, b1, 0xf0));
    w[0] = (mm_vu)_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    w[1] = (mm_vu)_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
}
#else
MM_INLINE void mm_gather2_at(const uint32_t (*table)[2], uint32_t bits, const uint8_t *words, uint32_t i, uint32_t at, mm_vu w[2])
{
    mm_gather2(table, mm_word(words, i) >> 8 * at & ((1u << bits) - 1), w);
}
#endif

/* Words of a table that stays in the first cache, one by one in the same way. */
MM_INLINE mm_vu mm_fetch(const uint32_t *table, mm_vu at)
{
#if defined(__AVX512BW__) || defined(__AVX2__)
    __m256i half[MM_LANES / 8];
#pragma GCC unroll 2
    for (uint32_t h = 0; h < MM_LANES / 8; h++) {
        __m256i v[4];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++) {
            uint64_t pair = (uint64_t)mm_pair(at, 4 * h + k);
            __m256i even = _mm256_set1_epi32((int32_t)table[(uint32_t)pair]), odd = _mm256_set1_epi32((int32_t)table[pair >> 32]);
            v[k] = _mm256_blend_epi32(even, odd, 0xaa);
        }
        half[h] = _mm256_blend_epi32(_mm256_blend_epi32(v[0], v[1], 0x0c), _mm256_blend_epi32(v[2], v[3], 0xc0), 0xf0);
    }
#if defined(__AVX512BW__)
    return (mm_vu)_mm512_inserti64x4(_mm512_castsi256_si512(half[0]), half[1], 1);
#else
    return (mm_vu)half[0];
#endif
#else
    return (mm_vu){ table[at[0]], table[at[1]], table[at[2]], table[at[3]] };
#endif
}

/* Seven signs in the low bits of each byte, and the eighth that makes the number of those set even. */
MM_INLINE mm_vu mm_even(mm_vu s)
{
    mm_vu p = s ^ s >> 4;
    p ^= p >> 2;
    return s | ((p ^ p >> 1) & MM_B(1)) << 7;
}

/* Seven signs from bits 0, 7, 14 and 21 on: eight a byte. */
MM_INLINE mm_vu mm_signs(mm_vu s)
{
    return mm_even((s & 0x7f) | (s << 1 & 0x7f00) | (s << 2 & 0x7f0000) | (s << 3 & 0x7f000000));
}

/* Magnitudes below 64 of elements 4 half and up of eight, whose signs are bits of byte `byte`: as u of offset 64. */
MM_INLINE mm_vu mm_signed(mm_vu v, mm_vu signs, uint32_t byte, uint32_t half)
{
#if defined(__AVX512BW__) || defined(__AVX2__)
    const __m128i low = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m128i each = _mm_add_epi8(low, _mm_set1_epi8((int8_t)byte));
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
    mm_vu minus = (signs >> (8 * byte + 4 * half) & 15) * 0x00204081u & MM_B(1), all = (minus << 7) - minus;
    return (v ^ all) + MM_B(64) - all; /* 127 - v + 64 - 127 */
#endif
}

/* Elements 8 j and up of run b of the types of codebooks. */
MM_INLINE void mm_open_entry(enum qtype t, const uint8_t *words, uint32_t b, uint32_t j, mm_vu w[2])
{
    mm_vu low = mm_word(words, b) >> 8 * j & 255, at, high, signs;
    uint32_t byte = j;
    switch (t) {
    case QT_IQ2_XXS:
        mm_gather2_at(codebook_iq2_xxs, 8, words, 2 * b, j, w);
        signs = mm_signs(mm_word(words, 2 * b + 1));
        break;
    case QT_IQ2_XS: /* 9 bits of index, 7 of signs */
        at = mm_word(words, 2 * b + j / 2);
        mm_gather2_at(codebook_iq2_xs, 9, words, 2 * b + j / 2, j % 2 * 2, w);
        signs = mm_even(at >> 9 & 0x007f007f);
        byte = 2 * (j % 2);
        break;
    case QT_IQ2_S:
        high = mm_word(words, 16 + b / 4) >> (8 * (b % 4) + 2 * j) & 3;
        mm_gather2(codebook_iq2_s, low | high << 8, w);
        signs = mm_word(words, 8 + b);
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
        signs = t == QT_IQ3_XXS ? mm_signs(mm_word(words, 16 + b)) : mm_word(words, 18 + b);
        break;
    default: /* IQ1: moved up or down, no signs */
        at = mm_fetch(mm_packed.iq1, low << 4 | (mm_word(words, 8 + b / 2) >> (16 * (b % 2) + 4 * j) & 15));
        high = (mm_vu)((mm_vi)(mm_word(words, 12) << (31 - 4 * b - (t == QT_IQ1_S ? 3 : j))) >> 31); /* all bits, or none */
        high = ~high & MM_B(2);
        w[0] = (at & MM_B(24)) | high;
        w[1] = (at >> 2 & MM_B(24)) | high;
        return;
    }
    w[0] = mm_signed(w[0], signs, byte, 0);
    w[1] = mm_signed(w[1], signs, byte, 1);
}

/* The quants of run b of a block of a type of codebooks, as u. */
MM_INLINE void mm_open_book(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; j++)
        mm_open_entry(t, words, b, j, w + 2 * j);
}

#endif

#endif
