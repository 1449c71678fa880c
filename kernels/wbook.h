/* kernels/wbook.h
 * Weights of the types of codebooks and of digits, out of their planes: items for dot products (kernels/wdot.h), of 64 elements,
 * or as many as share bytes (TQ2_0 128, TQ1_0 256), and single ones (kernels/wblock.h). Each kernel has the codebooks that it uses
 * with its code, and where KD_PICKS says so those for decode in shared memory too. `type` is a constant wherever the functions of
 * items are called. */
#ifndef ZINC_KERNELS_WBOOK_H
#define ZINC_KERNELS_WBOOK_H

#include "kernels/kdev.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"

#define BOOK(name, shape, ...) KD_TABLE uint32_t wk_##name shape = { __VA_ARGS__ };
#include "kernels/codebooks.inc"

/* Seven signs and the one that makes their number even. */
KD_FN uint32_t wk_signs(uint32_t seven)
{
    uint32_t p = seven ^ seven >> 4;
    p ^= p >> 2;
    return seven | ((p ^ p >> 1) & 1) << 7;
}

KD_FN bool wk_is_seven(uint32_t type) { return type == QT_IQ2_XXS || type == QT_IQ2_XS || type == QT_IQ3_XXS; }

/* Four magnitudes, not zero, as signed bytes; signs in the low four bits. */
KD_FN uint32_t wk_signed(uint32_t v, uint32_t signs)
{
    uint32_t minus = (signs & 15) * 0x00204081u & 0x01010101u;
    return (v ^ minus * 255) + minus;
}

/* Four bytes of less than 128 less a number each. */
KD_FN uint32_t wk_less(uint32_t v, uint32_t n) { return ((v | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u; }

/* Digit n of four bytes of five digits to the base of three: 0, 1 or 2 each. */
KD_FN uint32_t wk_trits(uint32_t w, uint32_t n)
{
    uint32_t power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    uint32_t even = ((w & 0x00ff00ffu) * power & 0x00ff00ffu) * 3 >> 8 & 0x00ff00ffu;
    uint32_t odd = ((w >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu) * 3 & 0xff00ff00u;
    return even | odd;
}

/* The f16 bits of an IQ1_M block's d, in the top bits of its four words of scales. */
KD_FN uint32_t wk_iq1_m_d(uint32_t a, uint32_t c)
{
    return (a >> 12 & 15) | (a >> 24 & 0xf0) | (c >> 4 & 0xf00) | (c >> 16 & 0xf000);
}

/* ---- items ---- */

KD_FN float wk_odd(uint32_t d, uint32_t s, float part) { return f16_to_f32((uint16_t)d) * ((float)(2 * s + 1) * part); }

/* What run s of an item is multiplied by; w: as wd_load_book (kernels/wdot.h) leaves it. */
KD_FN float wk_scale(uint32_t type, const uint32_t *w, uint32_t gi, uint32_t s)
{
    switch (type) {
    case QT_IQ2_XXS: return wk_odd(w[4], w[2 * s + 1] >> 28, 0.125f);
    case QT_IQ3_XXS: return wk_odd(w[6], w[4 + s] >> 28, 0.25f);
    case QT_IQ3_S: return wk_odd(w[7], w[6] >> (16 + 4 * s) & 15, 1.0f);
    case QT_IQ1_S: return wk_odd(w[4], w[2] >> (12 + 16 * s) & 7, 0.125f);
    case QT_IQ2_XS: return wk_odd(w[5], w[4] >> 4 * s & 15, 0.125f);
    case QT_IQ2_S: return wk_odd(w[5], w[4] >> (16 + 4 * s) & 15, 0.125f);
    case QT_IQ1_M: return wk_odd(wk_iq1_m_d(w[4], w[5]), (gi & 2 ? w[5] : w[4]) >> (16 * (gi & 1) + 3 * s) & 7, 0.125f);
    case QT_TQ1_0: return f16_to_f32((uint16_t)w[13]);
    default: return f16_to_f32((uint16_t)w[8]); /* TQ2_0 */
    }
}

/* Elements 8 j and up of an item: which entries, which signs (seven, and one that makes their number even, or eight), and of IQ1
 * whether the weights are moved up. */
struct wk_ref {
    uint32_t at[2], signs;
    bool up;
};
KD_FN struct wk_ref wk_ref(uint32_t type, const uint32_t *w, uint32_t j)
{
    struct wk_ref r = { { 0, 0 }, 0, false };
    uint32_t run = j >> 2, h;
    switch (type) {
    case QT_IQ2_XXS:
        r.at[0] = w[2 * run] >> 8 * (j & 3) & 255;
        r.signs = w[2 * run + 1] >> 7 * (j & 3) & 127;
        break;
    case QT_IQ2_XS:
        h = w[j >> 1] >> 16 * (j & 1);
        r.at[0] = h & 511, r.signs = h >> 9 & 127;
        break;
    case QT_IQ2_S:
        r.at[0] = (w[run] >> 8 * (j & 3) & 255) | (w[4] >> 2 * j & 3) << 8;
        r.signs = w[2 + run] >> 8 * (j & 3) & 255;
        break;
    case QT_IQ3_XXS:
        h = w[j >> 1] >> 16 * (j & 1);
        r.at[0] = h & 255, r.at[1] = h >> 8 & 255;
        r.signs = w[4 + run] >> 7 * (j & 3) & 127;
        break;
    case QT_IQ3_S:
        h = w[j >> 1] >> 16 * (j & 1);
        r.at[0] = (h & 255) | (w[6] >> 2 * j & 1) << 8, r.at[1] = (h >> 8 & 255) | (w[6] >> (2 * j + 1) & 1) << 8;
        r.signs = w[4 + run] >> 8 * (j & 3) & 255;
        break;
    default: /* IQ1 */
        h = type == QT_IQ1_S ? w[2] >> (16 * run + 3 * (j & 3)) & 7 : w[2] >> 4 * j & 7;
        r.at[0] = (w[run] >> 8 * (j & 3) & 255) | h << 8;
        r.up = !((type == QT_IQ1_S ? w[2] >> (16 * run + 15) : w[2] >> (4 * j + 3)) & 1);
    }
    return r;
}

/* The eight elements. Those of IQ1 are eight times the weight, moved up or down by one. */
KD_FN void wk_entry(uint32_t type, const struct wk_ref *r, uint32_t q[2])
{
    uint32_t at = r->at[0], signs = wk_is_seven(type) ? wk_signs(r->signs) : r->signs;
    switch (type) {
    case QT_IQ2_XXS: q[0] = wk_iq2_xxs[at][0], q[1] = wk_iq2_xxs[at][1]; break;
    case QT_IQ2_XS: q[0] = wk_iq2_xs[at][0], q[1] = wk_iq2_xs[at][1]; break;
    case QT_IQ2_S: q[0] = wk_iq2_s[at][0], q[1] = wk_iq2_s[at][1]; break;
    case QT_IQ3_XXS: q[0] = wk_iq3_xxs[at], q[1] = wk_iq3_xxs[r->at[1]]; break;
    case QT_IQ3_S: q[0] = wk_iq3_s[at], q[1] = wk_iq3_s[r->at[1]]; break;
    default: q[0] = wk_less(wk_iq1[at][0], r->up ? 7 : 9), q[1] = wk_less(wk_iq1[at][1], r->up ? 7 : 9); return;
    }
    q[0] = wk_signed(q[0], signs), q[1] = wk_signed(q[1], signs >> 4);
}

/* Run s of an item of the types of digits: eight words of digits, 0 to 2. TQ1_0 has 160 elements in 32 bytes, 80 in 16, 16 in
 * 4. */
KD_FN void wk_digits(uint32_t type, const uint32_t *w, uint32_t s, uint32_t *q)
{
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++) {
        if (type == QT_TQ2_0)
            q[k] = w[k] >> 2 * s & 0x03030303u;
        else if (s < 5)
            q[k] = wk_trits(w[k], s);
        else
            q[k] = s == 7 && k >= 4 ? wk_trits(w[12], k - 4) : wk_trits(w[8 + (k & 3)], 2 * (s - 5) + (k >> 2));
    }
}

/* ---- codebooks in shared memory ---- */

/* Where a byte can be chosen by a nibble: each entry is eight nibbles, what they choose among fits into two words, and a sign
 * is a bit of the nibble (those of IQ3 are bytes: eight magnitudes leave no room for signs). To look an entry up takes a word
 * from shared memory, whose banks serve lanes that want different ones; the level-1 cache takes them line by line. Seven signs of
 * IQ2 are looked up behind the entries: their eighth has to be counted, which takes longer there. */

KD_FN uint32_t wk_nibbles(uint32_t v)
{
    v = (v | v >> 4) & 0x00ff00ffu;
    return (v | v >> 8) & 0xffff;
}

/* Bit i of a byte as bit 4 i + 2. */
KD_FN uint32_t wk_spread(uint32_t b) { return ((b * 0x1001 & 0x000f000fu) * 0x41 & 0x03030303u) * 36 & 0x44444444u; }

/* Word i of a type's codebook. The magnitudes of IQ2 are 8, 25 and 43; IQ1 has 0, 8 and 16. */
KD_FN uint32_t wk_book_word(uint32_t type, uint32_t i)
{
    uint32_t n = mv_book_entries(type), lo, hi;
    if (i >= n)
        return wk_spread(wk_signs(i - n));
    switch (type) {
    case QT_IQ3_XXS: return wk_iq3_xxs[i];
    case QT_IQ3_S: return wk_iq3_s[i];
    case QT_IQ2_XXS: lo = wk_iq2_xxs[i][0], hi = wk_iq2_xxs[i][1]; break;
    case QT_IQ2_XS: lo = wk_iq2_xs[i][0], hi = wk_iq2_xs[i][1]; break;
    case QT_IQ2_S: lo = wk_iq2_s[i][0], hi = wk_iq2_s[i][1]; break;
    default: return wk_nibbles(wk_iq1[i][0] >> 3 & 0x03030303u) | wk_nibbles(wk_iq1[i][1] >> 3 & 0x03030303u) << 16;
    }
    return wk_nibbles(lo >> 4 & 0x03030303u) | wk_nibbles(hi >> 4 & 0x03030303u) << 16;
}

/* By all of a work-group, MV_HEAD_BYTES into shared memory; a barrier follows. */
KD_FN void wk_book(uint32_t type)
{
    for (uint32_t i = kd_tid(); i < mv_book_entries(type) + mv_book_signs(type); i += kd_group_size())
        *KD_SHARED_AT(uint32_t, MV_HEAD_BYTES + 4 * i) = wk_book_word(type, i);
}

/* Word n from `first` on. */
KD_FN uint32_t wk_book_at(uint32_t first, uint32_t n) { return *KD_SHARED_AT(const uint32_t, MV_HEAD_BYTES + 4 * (first + n)); }

/* wk_entry of a type whose codebook lies there. zero: as for wd_open_nibbles (kernels/wdot.h). */
KD_FN void wk_book_entry(uint32_t type, const struct wk_ref *r, uint32_t zero, uint32_t q[2])
{
    const uint32_t minus = 0x00d5e7f8u; /* -8 -25 -43 */
    uint32_t e = wk_book_at(0, r->at[0]), s, plus = 0x002b1908u + zero;
    if (type == QT_IQ1_S || type == QT_IQ1_M) {
        s = r->up ? 0x000901f9u : 0x0007fff7u; /* -7 1 9, or -9 -1 7 */
        q[0] = kd_pick4(s, 0, e), q[1] = kd_pick4(s, 0, e >> 16);
        return;
    }
    if (type == QT_IQ3_XXS || type == QT_IQ3_S) {
        s = wk_is_seven(type) ? r->signs | ((uint32_t)kd_popcount(r->signs) << 7 & 128) : r->signs;
        q[0] = wk_signed(e, s), q[1] = wk_signed(wk_book_at(0, r->at[1]), s >> 4);
        return;
    }
    e ^= mv_book_signs(type) ? wk_book_at(mv_book_entries(type), r->signs) : wk_spread(r->signs);
    q[0] = kd_pick4(plus, minus, e), q[1] = kd_pick4(plus, minus, e >> 16);
}

/* The words of run s of an item of a codebook; words: of a run. shared: the book lies in shared memory. */
KD_FN void wk_open(uint32_t type, bool shared, uint32_t words, const uint32_t *w, uint32_t s, uint32_t zero, uint32_t *q)
{
    KD_UNROLL
    for (uint32_t k = 0; k < words; k += 2) {
        struct wk_ref r = wk_ref(type, w, (s * words + k) / 2);
        if (shared)
            wk_book_entry(type, &r, zero, q + k);
        else
            wk_entry(type, &r, q + k);
    }
}

/* ---- one weight ---- */

KD_FN uint32_t wk_u8(gpu_va p, uint64_t i) { return KD_PTR(const uint8_t, p)[i]; }
KD_FN uint32_t wk_u16(gpu_va p, uint64_t i) { return KD_PTR(const uint16_t, p)[i]; }
KD_FN uint32_t wk_u32(gpu_va p, uint64_t i) { return wk_u16(p, 2 * i) | wk_u16(p, 2 * i + 1) << 16; }

/* Element i of block b: p are the matrix's planes. What it needs is put where the first elements of an item have it, so that no
 * word is chosen by its number. */
KD_FN float wk_at(uint32_t type, const gpu_va *p, uint64_t b, uint32_t i)
{
    uint32_t in = i / 64, e = i / 8 & 7, s = e >> 2, even = e & 2, run = e >> 1, w[8] = { 0 }, q[2], signs, h;
    uint64_t gi = b * 4 + in;
    float scale;
    switch (type) {
    case QT_IQ2_XXS:
        signs = wk_u32(p[0], gi * 4 + 2 * s + 1);
        w[0] = wk_u32(p[0], gi * 4 + 2 * s) >> 8 * even, w[1] = signs >> 7 * even;
        scale = wk_odd(wk_u16(p[1], b), signs >> 28, 0.125f);
        break;
    case QT_IQ3_XXS:
        signs = wk_u32(p[1], gi * 2 + s);
        w[0] = wk_u32(p[0], gi * 4 + run), w[4] = signs >> 7 * even;
        scale = wk_odd(wk_u16(p[2], b), signs >> 28, 0.25f);
        break;
    case QT_IQ3_S:
        w[0] = wk_u32(p[0], gi * 4 + run), w[4] = wk_u32(p[1], b * 11 + 2 + in * 2 + s) >> 8 * even;
        w[6] = wk_u16(p[1], b * 22 + in) >> 4 * run;
        scale = wk_odd(wk_u16(p[2], b), wk_u8(p[1], b * 44 + 40 + in) >> 4 * s & 15, 1.0f);
        break;
    case QT_IQ1_S:
        h = wk_u16(p[1], gi * 2 + s);
        w[0] = wk_u32(p[0], gi * 2 + s) >> 8 * even, w[2] = (h >> 3 * even & 63) | (h & 0x8000);
        scale = wk_odd(wk_u16(p[2], b), h >> 12 & 7, 0.125f);
        break;
    case QT_IQ2_XS:
        w[0] = wk_u32(p[0], gi * 4 + run);
        scale = wk_odd(wk_u16(p[2], b), wk_u16(p[1], gi) >> 4 * run & 15, 0.125f);
        break;
    case QT_IQ2_S:
        w[0] = wk_u32(p[0], b * 16 + in * 2 + s) >> 8 * even, w[2] = wk_u32(p[0], b * 16 + 8 + in * 2 + s) >> 8 * even;
        w[4] = wk_u16(p[1], b * 8 + in) >> 4 * run;
        scale = wk_odd(wk_u16(p[2], b), wk_u16(p[1], b * 8 + 4 + in) >> 4 * run & 15, 0.125f);
        break;
    case QT_IQ1_M:
        w[0] = wk_u32(p[0], gi * 2 + s) >> 8 * even, w[2] = wk_u32(p[1], b * 6 + in) >> 8 * run;
        w[4] = wk_u32(p[1], b * 6 + 4), w[5] = wk_u32(p[1], b * 6 + 5);
        scale = wk_scale(type, w, in, run);
        break;
    case QT_TQ2_0: {
        uint32_t code = wk_u8(p[0], b * 64 + 32 * (i / 128) + i % 32) >> 2 * (i / 32 & 3) & 3;
        return (float)((int32_t)code - 1) * f16_to_f32((uint16_t)wk_u16(p[1], b));
    }
    default: { /* TQ1_0 */
        uint32_t k = i < 160 ? i : i < 240 ? i - 160 : i - 240, of = i < 160 ? 32 : i < 240 ? 16 : 4;
        uint32_t byte = i < 240 ? wk_u8(p[0], b * 48 + (i < 160 ? 0 : 32) + k % of) : wk_u8(p[1], b * 4 + k % 4);
        return (float)((int32_t)wk_trits(byte, k / of) - 1) * f16_to_f32((uint16_t)wk_u16(p[2], b));
    }
    }
    struct wk_ref r = wk_ref(type, w, e & 1);
    wk_entry(type, &r, q);
    return scale * (float)(int8_t)((i & 4 ? q[1] : q[0]) >> 8 * (i & 3));
}

#endif
