/* oracle/mm_block.h
 * The packed panel, and how a block of it opens into what the product kernels eat. For oracle/mm*.c only: each of them
 * includes this with the flags of its instruction set, so the vector types below become its registers.
 *
 * Panel of a block type. A file block is a "head" (a scale of 1 or 2 bytes that is not part of a 32-bit word, or
 * nothing) and nd 32-bit words. The panel holds word i of 16 rows side by side, u32 [nd][16]: for the quants that
 * is [k / 4][row][4], what VPDPBUSD and an AMX tile take. Heads of G consecutive blocks (G = 2, 4; so that they
 * fill 64 bytes) stand together before the words of these blocks: [G][16] heads, [G][nd][16] words; the last group
 * may be short. Words are as in the file, except: Q8_0 quants have their sign bit flipped (q + 128), and in Q5_0
 * and Q5_1 the word of fifth bits is permuted, element 4 g + j from bit 4 g + j to bit 8 j + g. IQ1_S, IQ1_M: a word longer
 * (mm_books.h). F32, F16, BF16: [k][16].
 *
 * An opened block of 32 (struct mm_xblk): quants as bytes, u = q + mm_offset(t), and the scales as f32. */
#ifndef ZINC_ORACLE_MM_BLOCK_H
#define ZINC_ORACLE_MM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/fp.h"
#include "kernels/qtypes.h"
#include "oracle/mm.h"
#include "oracle/mm_books.h"
#include "oracle/mm_vec.h"

#define TABLE(type, name, n, ...) static const type name[n] __attribute__((unused)) = { __VA_ARGS__ };
#include "kernels/q_tables.inc"

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

/* Bytes of a row's block in a panel. */
MM_INLINE uint32_t mm_block_bytes(enum qtype t)
{
    return qtype_block_bytes(t) + (mm_is_boxed(t) ? 4 : 0);
}

MM_INLINE uint32_t mm_words(enum qtype t)
{
    return mm_block_bytes(t) / 4;
}

/* Block ib of nb: its heads and its words. */
struct mm_where {
    size_t head, words;
};

MM_INLINE struct mm_where mm_where(enum qtype t, uint32_t nb, uint32_t ib)
{
    uint32_t hb = mm_head_bytes(t), n = hb ? 4 / hb : 1, first = ib / n * n;
    uint32_t in_group = nb - first < n ? nb - first : n;
    size_t at = (size_t)first * 16 * mm_block_bytes(t);
    return (struct mm_where){ at + (size_t)(ib - first) * 16 * hb,
                              at + (size_t)16 * hb * in_group + (size_t)(ib - first) * mm_words(t) * 64 };
}

/* ---- opening ---- */

static const uint8_t mm_iq4_codes[16] __attribute__((unused)) = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166,
                                                                  181, 197, 217, 241 }; /* iq4_values + 128 */
static const uint8_t mm_fp4_codes[16] __attribute__((unused)) = { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9,
                                                                  8, 6, 4, 0 };         /* e2m1_x2 + 12    */

/* The quants of run b (of 32 elements) of a block, as u. */
MM_INLINE void mm_open_quants(enum qtype t, const uint8_t *words, uint32_t b, mm_vu w[8])
{
    if (mm_is_book(t)) {
        mm_open_book(t, words, b, w);
        return;
    }
#pragma GCC unroll 8
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
        default: break;
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
                (mm_odd(mm_word(words, 12) >> 4 * b & 7) * 0.125f);
        break;
    case QT_IQ2_XS: case QT_IQ2_S: {
        mm_vu s = mm_word(words, (t == QT_IQ2_XS ? 16 : 18) + b / 4) >> 8 * (b % 4);
        x->dw = mm_f32_of_halves(mm_load_u16(head)) * 0.125f;
        x->s0 = mm_odd(s & 15);
        x->s1 = mm_odd(s >> 4 & 15);
        break;
    }
    case QT_IQ1_M: {
        mm_vu a = mm_word(words, 13), c = mm_word(words, 14), s = mm_word(words, 13 + b / 4) >> (16 * (b / 2 % 2) + 6 * (b % 2));
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

/* Rows of x as a kernel sees them from run k0 on: row r, run i has element r * ldq + 32 * i of q, b and u, and element
 * i * ldd + r of d, dx and s16 (there a pair). */
struct mm_rows {
    const int8_t *q;
    const uint16_t *b;
    const uint8_t *u;
    const float *d, *dx;
    const int16_t *s16;
    size_t ldq, ldd;
};

MM_INLINE struct mm_rows mm_rows(const struct mm_act *a, uint32_t row, uint32_t k0)
{
    size_t at = (size_t)k0 * a->ldd + row;
    size_t first = (size_t)row * a->ldq + (size_t)k0 * QK;
    return (struct mm_rows){ a->q + first, a->b + first, a->u + first, a->d + at, a->dx + at, a->s16 + 2 * at, a->ldq, a->ldd };
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
extern const struct mm_kernels *const mm_avx2, *const mm_avxvnni, *const mm_avx512, *const mm_vbmi, *const mm_amx, *const mm_neon, *const mm_dotprod;

#endif
