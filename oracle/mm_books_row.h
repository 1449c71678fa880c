/* oracle/mm_books_row.h: one row by types of codebooks and of ternary digits where bytes are permuted (AVX-512 VBMI), part of
 * oracle/mm_avx512.h.
 *
 * A word of weights has the same element of four entries, not four elements of an entry, and x lies in that order (struct
 * mm_xrun). So the bytes that 64 lookups give, with several codes each, need not be taken apart: a permutation of bytes looks at
 * six bits of an index, and its table is made for where in them the code is and where, beside it, its sign.
 *
 * Sums of a run are integers, so their order is free. Two factors a run of 32 (QS_RUNS): the sign of x goes to the weights, |x| is
 * VPMADDUBSW's unsigned operand, and VPDPWSSD multiplies sums of 16 bits, the first half of the run in the lower ones, by both factors. */
#ifndef ZINC_ORACLE_MM_BOOKS_ROW_H
#define ZINC_ORACLE_MM_BOOKS_ROW_H

#include "oracle/mm_block.h"

/* A run of x. Types with entries of four: word 4 i + e has elements 16 i + e, + 4, + 8, + 12; of eight: word m elements m, m + 8, m + 16,
 * m + 24. TQ1_0: as it was. */
struct mm_xrun {
    uint32_t q[8];      /* two factors and signs: |x|                                               */
    float d;
    int32_t back;       /* what the offset of u adds, negative; IQ1_S: less the sum                 */
    uint32_t minus[2];  /* two factors and signs: which x are negative, as mm_row_signs has signs   */
    uint32_t halves;    /* IQ1_M: sums of both halves, 16 bits each                                 */
    uint32_t eights[2]; /* IQ1_M: twice those of elements 0 .. 7 and 16 .. 23; 8 .. 15 and 24 .. 31 */
    uint32_t unused;
};

_Static_assert(sizeof(struct mm_xrun) == 2 * QK, "mm_scratch_bytes");

/* Types that have kernels here. */
MM_INLINE bool mm_row_has(enum qtype t)
{
    return t == QT_IQ2_XXS || t == QT_IQ3_XXS || t == QT_IQ3_S || t == QT_IQ2_XS || t == QT_IQ2_S || t == QT_TQ1_0 || mm_is_boxed(t);
}

MM_INLINE bool mm_row_fours(enum qtype t)
{
    return t == QT_IQ3_XXS || t == QT_IQ3_S;
}

/* Bit i of each byte: whether the number of bits of it in from[i] is odd. */
MM_INLINE uint64_t mm_bit_map(const uint8_t from[8])
{
    uint64_t m = 0;
    for (int i = 0; i < 8; i++)
        m |= (uint64_t)from[i] << 8 * (7 - i);
    return m;
}

/* Signs of eight as the tables of mm_packed.eights want them: of elements 1, 5, 0, 4, 3 and 7 in bits 0 to 5 of `part` 0, of 2 and 6 in bits 0
 * and 1 of part 1. They are bits `first` and up of each byte; the last may be what makes their number even. */
MM_INLINE uint64_t mm_row_signs(int part, uint32_t first, bool even)
{
    uint8_t s[8];
    for (uint32_t e = 0; e < 8; e++)
        s[e] = (uint8_t)(e == 7 && even ? 0x7fu << first : 1u << (e + first));
    const uint8_t p0[8] = { s[1], s[5], s[0], s[4], s[3], s[7] }, p1[8] = { s[2], s[6] };
    return mm_bit_map(part ? p1 : p0);
}

MM_INLINE __m512i mm_map_bits(__m512i v, uint64_t map)
{
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64((long long)map), 0);
}

MM_INLINE void mm_row_prepare(enum qtype t, const struct mm_rows *rows, uint32_t n_runs, struct mm_xrun *x)
{
    uint8_t from[32];
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t word = i / 4, k = i % 4;
        from[i] = (uint8_t)(t == QT_TQ1_0 ? i : mm_row_fours(t) ? 16 * (word / 4) + 4 * k + word % 4 : 8 * k + word);
    }
    const __m256i order = _mm256_loadu_si256((const __m256i *)from);
    for (uint32_t i = 0; i < n_runs; i++, x++) {
        __m256i q = _mm256_loadu_si256((const __m256i *)(rows->q + (size_t)i * QK));
        if (t == QT_IQ1_M) {
            __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(2), q), eights = _mm256_hadd_epi32(fours, fours);
            uint32_t sum[4] = { (uint32_t)_mm256_extract_epi32(eights, 0), (uint32_t)_mm256_extract_epi32(eights, 1),
                                (uint32_t)_mm256_extract_epi32(eights, 4), (uint32_t)_mm256_extract_epi32(eights, 5) };
            for (int k = 0; k < 2; k++)
                x->eights[k] = (sum[k] & 0xffff) | sum[2 + k] << 16;
            memcpy(&x->halves, rows->s16 + 2 * i * rows->ldd, sizeof x->halves);
        } else if (qtype_scales(t) == QS_RUNS) {
            __m128i minus = _mm_cvtsi32_si128(_mm256_movemask_epi8(q));
            for (int p = 0; p < 2; p++)
                x->minus[p] = (uint32_t)_mm_cvtsi128_si32(
                    _mm_gf2p8affine_epi64_epi8(minus, _mm_set1_epi64x((long long)mm_row_signs(p, 0, false)), 0));
            q = _mm256_abs_epi8(q);
        }
        _mm256_storeu_si256((__m256i *)x->q, _mm256_permutexvar_epi8(order, q));
        x->d = rows->d[i * rows->ldd];
        x->back = (t == QT_IQ1_S ? -1 : -mm_offset(t)) * (rows->s16[2 * i * rows->ldd] + rows->s16[2 * i * rows->ldd + 1]);
    }
}

MM_INLINE __m512i mm_broadcast(uint32_t w)
{
    return _mm512_set1_epi32((int32_t)w);
}

/* A byte of `table` for each, by six bits: some of `code`, where `mask` is, the others of `sign`. */
MM_INLINE __m512i mm_row_value(__m512i code, __m512i sign, int8_t mask, const int8_t table[64])
{
    __m512i i = _mm512_ternarylogic_epi64(code, sign, _mm512_set1_epi8(mask), 0xe4);
    return _mm512_permutexvar_epi8(i, _mm512_load_si512(table));
}

/* The sum of a run as it grows by word, which a register then need not keep. One factor: of u and x, less the offset, in two sums, as a chain of
 * eight would be waited for. Two factors: of q and x, each half times its scale, which `scales` has in 16 bits, the first in the lower half of
 * a lane; three products of 43, 127 and two elements fit 16 bits. */
struct mm_row_sum {
    __m512i sum[2], some, scales;
};

MM_INLINE struct mm_row_sum mm_row_sum(enum qtype t, const struct mm_xrun *x)
{
    struct mm_row_sum s;
    s.sum[0] = qtype_scales(t) == QS_RUNS ? _mm512_setzero_si512() : _mm512_set1_epi32(x->back);
    s.sum[1] = _mm512_setzero_si512();
    return s;
}

MM_INLINE void mm_row_add(enum qtype t, struct mm_row_sum *s, int m, __m512i w, const struct mm_xrun *x)
{
    __m512i q = mm_broadcast(x->q[m]);
    if (qtype_scales(t) != QS_RUNS) {
        s->sum[m % 2] = _mm512_dpbusd_epi32(s->sum[m % 2], w, q);
        return;
    }
    w = _mm512_maddubs_epi16(q, w);
    s->some = m % 3 ? _mm512_add_epi16(s->some, w) : w;
    if (m % 3 == 2 || m == 7)
        s->sum[0] = _mm512_dpwssd_epi32(s->sum[0], s->some, s->scales);
}

/* Scales 2 s + 1 of both halves of a run. */
MM_INLINE __m512i mm_row_scales(enum qtype t, const uint8_t *words, uint32_t b)
{
    const bool iq1 = t == QT_IQ1_M;
    int at = iq1 ? 16 * (int)(b / 2 % 2) + 6 * (int)(b % 2) - 1 : (int)(b % 4) * 8 - 1;
    __m512i s = (__m512i)mm_word(words, (iq1 ? 13 : t == QT_IQ2_XS ? 16 : 18) + b / 4);
    s = _mm512_multishift_epi64_epi8(mm_window_of(at, 0, at + (iq1 ? 3 : 4), 0), s);
    return _mm512_ternarylogic_epi64(s, mm_broadcast(iq1 ? 0x000e000e : 0x001e001e), mm_broadcast(0x00010001), 0xea);
}

MM_INLINE __m512i mm_row_iq2(enum qtype t, const uint8_t *words, uint32_t b, const struct mm_xrun *x)
{
    /* where in a pair of words the indices of entries 0 to 3 are; their signs are a byte further */
    const __m512i low = _mm512_add_epi8(mm_lanes4(), mm_broadcast(0x42400200)), one = _mm512_set1_epi8(1);
    const uint32_t n = t == QT_IQ2_XXS ? 256 : t == QT_IQ2_XS ? 512 : 1024, first = t == QT_IQ2_XS;
    const uint8_t *table = t == QT_IQ2_XXS ? *mm_packed.iq2_xxs : t == QT_IQ2_XS ? *mm_packed.iq2_xs : *mm_packed.iq2_s;
    const int8_t(*values)[64] = t == QT_IQ2_XXS ? mm_packed.eights_u : mm_packed.eights;
    __m512i at, s, signs[2];
    struct mm_row_sum sum = mm_row_sum(t, x);
    __mmask64 above[3];
    if (t == QT_IQ2_XXS) {
        at = (__m512i)mm_word(words, 2 * b);
        s = _mm512_multishift_epi64_epi8(mm_window(0, 7), (__m512i)mm_word(words, 2 * b + 1));
    } else if (t == QT_IQ2_XS) {
        __m512i even = (__m512i)mm_word(words, 2 * b), odd = (__m512i)mm_word(words, 2 * b + 1);
        at = _mm512_permutex2var_epi8(even, low, odd);
        s = _mm512_permutex2var_epi8(even, _mm512_or_si512(low, one), odd);
        above[1] = _mm512_test_epi8_mask(s, one);
    } else {
        mm_vu high = mm_word(words, 16 + b / 4);
        at = (__m512i)mm_word(words, b);
        s = (__m512i)mm_word(words, 8 + b);
        above[1] = mm_bits_set(high, (int)b % 4, 0, 2);
        above[2] = mm_bits_set(high, (int)b % 4, 1, 2);
    }
    above[0] = _mm512_movepi8_mask(at);
#pragma GCC unroll 2
    for (int p = 0; p < 2; p++) {
        signs[p] = mm_map_bits(s, mm_row_signs(p, first, t != QT_IQ2_S));
        if (t != QT_IQ2_XXS)
            signs[p] = _mm512_xor_si512(signs[p], mm_broadcast(x->minus[p]));
    }
    if (qtype_scales(t) == QS_RUNS)
        sum.scales = mm_row_scales(t, words, b);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) { /* elements 4 h and up of entries, codes of two bits */
        __m512i c = mm_look(table + (uint32_t)h * n, n, at, above);
        mm_row_add(t, &sum, 4 * h, mm_row_value(c, signs[0], 3, values[4 * h]), x);
        mm_row_add(t, &sum, 4 * h + 1, mm_row_value(c, signs[0], 3 << 2, values[4 * h + 1]), x);
        mm_row_add(t, &sum, 4 * h + 2, mm_row_value(c, signs[1], 3 << 4, values[4 * h + 2]), x);
        mm_row_add(t, &sum, 4 * h + 3, mm_row_value(_mm512_srli_epi32(c, 6), signs[0], 3, values[4 * h + 3]), x);
    }
    return t == QT_IQ2_XXS ? _mm512_add_epi32(sum.sum[0], sum.sum[1]) : sum.sum[0];
}

MM_INLINE __m512i mm_row_iq3(enum qtype t, const uint8_t *words, uint32_t b, const struct mm_xrun *x)
{
    static const uint8_t seven[8] = { 1, 2, 4, 8, 16, 32, 64, 127 };
    const uint32_t n = t == QT_IQ3_XXS ? 256 : 512;
    const uint8_t *table = t == QT_IQ3_XXS ? *mm_packed.iq3_xxs_row : *mm_packed.iq3_s_row;
    const int8_t(*values)[64] = t == QT_IQ3_XXS ? mm_packed.fours_xxs : mm_packed.fours_s;
    struct mm_row_sum sum = mm_row_sum(t, x);
    __m512i s;
    if (t == QT_IQ3_S)
        s = (__m512i)mm_word(words, 18 + b);
    else
        s = mm_map_bits(_mm512_multishift_epi64_epi8(mm_window(0, 7), (__m512i)mm_word(words, 16 + b)), mm_bit_map(seven));
#pragma GCC unroll 2
    for (int a = 0; a < 2; a++) { /* sixteen elements, whose indices are a word */
        __m512i at = (__m512i)mm_word(words, 2 * b + (uint32_t)a), pairs[2];
        __m512i signs = _mm512_multishift_epi64_epi8(mm_window(16 * a - 1, 4), s); /* from bit 1 on */
        __mmask64 above[2] = { _mm512_movepi8_mask(at) };
        if (t == QT_IQ3_S)
            above[1] = mm_bits_set(mm_word(words, 16 + b / 4), (int)(b % 4), 4 * a, 1);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            pairs[h] = mm_look(table + (uint32_t)h * n, n, at, above);
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++)
            mm_row_add(t, &sum, 4 * a + e, mm_row_value(pairs[e % 2], signs, e < 2 ? 7 << 3 : 7, values[e]), x);
    }
    return _mm512_add_epi32(sum.sum[0], sum.sum[1]);
}

/* Elements e of entries of eight, of which `half` has the codes: a digit times 4 to the e. */
MM_INLINE __m512i mm_row_digits(__m512i half, int e)
{
    return _mm512_and_si512(half, _mm512_set1_epi8((int8_t)(3 << 2 * e)));
}

/* The sum of run b of IQ1_S, 8 (digit - 1) + 1, or - 1 where it is moved down, times x: digits make 64 (digit - 1). */
MM_INLINE __m512i mm_row_sum_iq1_s(const __m512i halves[2], const uint8_t *words, uint32_t b, const struct mm_xrun *x)
{
    const __m512i back = _mm512_set1_epi32(x->back);
    __m512i sum = back;
#pragma GCC unroll 4
    for (int e = 0; e < 4; e++) {
        sum = e ? _mm512_slli_epi32(sum, 2) : sum;
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            sum = _mm512_dpbusd_epi32(sum, mm_row_digits(halves[h], e), mm_broadcast(x->q[4 * h + e]));
    }
    __mmask16 up = _mm512_testn_epi32_mask((__m512i)mm_word(words, 12), mm_broadcast(1u << (4 * b + 3)));
    sum = _mm512_srai_epi32(sum, 3);
    return _mm512_mask_sub_epi32(_mm512_add_epi32(sum, back), up, sum, back);
}

/* Of IQ1_M, where each entry is moved for itself, and both halves of the run have a scale. Sums of 16 bits hold: a product of the digits at
 * the top is at most 2 * 64 * 127 * 2. */
MM_INLINE __m512i mm_row_sum_iq1_m(const __m512i halves[2], const uint8_t *words, uint32_t b, const struct mm_xrun *x)
{
    const __m512i all = mm_broadcast(x->halves);
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int e = 3; e >= 0; e--) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m512i p = _mm512_maddubs_epi16(mm_row_digits(halves[h], e), mm_broadcast(x->q[4 * h + e]));
            p = e == 3 ? _mm512_srai_epi16(p, 2) : p;
            sum = e == 3 && h == 0 ? p : _mm512_add_epi16(sum, p);
        }
        sum = e == 1 || e == 2 ? _mm512_srai_epi16(sum, 2) : sum;
    }
    sum = _mm512_add_epi16(_mm512_slli_epi16(_mm512_sub_epi16(sum, all), 3), all);
    /* entries 0 and 2 of the run in bit 0 of both halves of a lane, 1 and 3 in bit 1 */
    __m512i down = _mm512_multishift_epi64_epi8(mm_window_of(4 * (int)b, 0, 4 * (int)b + 2, 0), (__m512i)mm_word(words, 12));
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++)
        sum = _mm512_mask_sub_epi16(sum, _mm512_test_epi16_mask(down, _mm512_set1_epi16((int16_t)(1 << k))), sum, mm_broadcast(x->eights[k]));
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), sum, mm_row_scales(QT_IQ1_M, words, b));
}

MM_INLINE __m512i mm_row_iq1(enum qtype t, const uint8_t *words, uint32_t b, const struct mm_xrun *x)
{
    __m512i halves[2];
    mm_look_iq1(words, b, halves);
    return t == QT_IQ1_S ? mm_row_sum_iq1_s(halves, words, b, x) : mm_row_sum_iq1_m(halves, words, b, x);
}

/* d times the power of two that is common to the scales of a block; odd scales. */
MM_INLINE __m512 mm_row_d(enum qtype t, const uint8_t *head, const uint8_t *words)
{
    if (t == QT_IQ1_M) {
        struct mm_scales s;
        mm_open_scales(t, head, words, 0, &s);
        return (__m512)s.dw;
    }
    __m512 d = (__m512)mm_f32_of_halves(mm_load_u16(head));
    float part = t == QT_IQ3_S || t == QT_TQ1_0 ? 1 : t == QT_IQ3_XXS ? 0.25f : 0.125f;
    return part < 1 ? _mm512_mul_ps(d, _mm512_set1_ps(part)) : d;
}

/* The scale of run b, 2 s + 1 of four bits s, or of three. */
MM_INLINE __m512 mm_row_scale(enum qtype t, const uint8_t *words, uint32_t b)
{
    const __m512 four = _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const __m512 three = _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
    mm_vu s = t == QT_IQ2_XXS   ? mm_word(words, 2 * b + 1) >> 28
              : t == QT_IQ3_XXS ? mm_word(words, 16 + b) >> 28
                                : mm_word(words, t == QT_IQ3_S ? 26 : 12) >> 4 * b;
    return _mm512_permutexvar_ps((__m512i)s, t == QT_IQ1_S ? three : four);
}

MM_INLINE __m512 mm_row_run(enum qtype t, __m512 d, const uint8_t *words, uint32_t b, const struct mm_xrun *x, __m512 acc)
{
    __m512i sum = mm_row_fours(t) ? mm_row_iq3(t, words, b, x) : mm_is_boxed(t) ? mm_row_iq1(t, words, b, x) : mm_row_iq2(t, words, b, x);
    if (qtype_scales(t) != QS_RUNS)
        d = _mm512_mul_ps(d, mm_row_scale(t, words, b));
    return _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x->d)), _mm512_cvtepi32_ps(sum), acc);
}

/* Where the ternary digits of word g of run b are: digit `n` of the bytes of a word of the block. */
struct mm_row_digit {
    uint32_t word, n;
};

MM_INLINE struct mm_row_digit mm_row_digit(uint32_t b, uint32_t g)
{
    return b < 5            ? (struct mm_row_digit){ g, b }
           : b < 7          ? (struct mm_row_digit){ 8 + g % 4, 2 * (b - 5) + g / 4 }
           : g < 4          ? (struct mm_row_digit){ 8 + g, 4 }
                            : (struct mm_row_digit){ 12, g - 4 };
}

/* A block of TQ1_0. Digits 0 to 3 of a byte are looked up together; they stay where they are in it, and their sums are shifted. */
MM_INLINE __m512 mm_row_tq1(__m512 d, const uint8_t *words, const struct mm_xrun *x, __m512 acc)
{
    __m512i four[13], fifth[13];
#pragma GCC unroll 8
    for (uint32_t b = 0; b < 8; b++, x++) {
        if (b == 0 || b == 5) /* the first 32 bytes, and the others */
#pragma GCC unroll 8
            for (uint32_t k = 0; k < 8; k++) {
                uint32_t i = b ? 8 + k : k;
                if (i >= mm_words(QT_TQ1_0))
                    continue;
                __m512i at = (__m512i)mm_word(words, i);
                __mmask64 above = _mm512_movepi8_mask(at);
                four[i] = mm_look(mm_packed.tq1[0], 256, at, &above);
                fifth[i] = mm_look(mm_packed.tq1[1], 256, at, &above);
            }
        __m512i sum = _mm512_set1_epi32(x->back);
#pragma GCC unroll 5
        for (uint32_t n = 0; n < 5; n++) {
            __m512i digits = n % 4 ? _mm512_setzero_si512() : sum;
#pragma GCC unroll 8
            for (uint32_t g = 0; g < 8; g++) {
                struct mm_row_digit at = mm_row_digit(b, g);
                if (at.n != n)
                    continue;
                __m512i w = n == 4 ? fifth[at.word] : _mm512_and_si512(four[at.word], _mm512_set1_epi8((int8_t)(3 << 2 * n)));
                digits = _mm512_dpbusd_epi32(digits, w, mm_broadcast(x->q[g]));
            }
            sum = n % 4 ? _mm512_add_epi32(sum, _mm512_srai_epi32(digits, 2 * n)) : digits;
        }
        acc = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x->d)), _mm512_cvtepi32_ps(sum), acc);
    }
    return acc;
}

MM_INLINE void mm_row_book(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,
                           uint32_t row, float *y, struct mm_xrun *x)
{
    const uint32_t per = qtype_block(t) / QK, nb = n_in / qtype_block(t);
    struct mm_rows rows = mm_rows(a, row, 0);
    mm_row_prepare(t, &rows, n_in / QK, x);
    for (; n_panels; n_panels--, panels += mm_panel_bytes(t, n_in), y += MM_ROWS) {
        __m512 acc = _mm512_setzero_ps();
        for (uint32_t ib = 0; ib < nb; ib++) {
            struct mm_where at = mm_where(t, nb, ib);
            const uint8_t *words = panels + at.words;
            const struct mm_xrun *xb = x + ib * per;
            mm_prefetch(words, 64 * (size_t)mm_words(t));
            __m512 d = mm_row_d(t, panels + at.head, words);
            if (t == QT_TQ1_0) {
                acc = mm_row_tq1(d, words, xb, acc);
                continue;
            }
#pragma GCC unroll 8
            for (uint32_t b = 0; b < per; b++)
                acc = mm_row_run(t, d, words, b, xb + b, acc);
        }
        _mm512_storeu_ps(y, acc);
    }
}

#endif
