/* kernels/wbook.h
 * Weights of the types of codebooks, out of their planes: items for dot products (kernels/wdot.h), of 32 elements, or of 16
 * where halves have scales of their own, and single ones (kernels/wblock.h). Each kernel has the codebooks that it uses with
 * its code. `type` is a constant wherever the functions of items are called. */
#ifndef ZINC_KERNELS_WBOOK_H
#define ZINC_KERNELS_WBOOK_H

#include "kernels/kdev.h"
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

/* Four magnitudes, not zero, as signed bytes; signs in the low four bits. */
KD_FN uint32_t wk_signed(uint32_t v, uint32_t signs)
{
    uint32_t minus = (signs & 15) * 0x00204081u & 0x01010101u;
    return (v ^ minus * 255) + minus;
}

/* Four bytes of less than 128 less a number each. */
KD_FN uint32_t wk_less(uint32_t v, uint32_t n) { return ((v | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u; }

/* Digit n of four bytes of five digits to the base of three. */
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

/* What an item's weights are multiplied by; w: as wk_load left it. */
KD_FN float wk_scale(uint32_t type, const uint32_t *w, uint32_t gi)
{
    switch (type) {
    case QT_IQ2_XXS: return wk_odd(w[4], w[1] >> 28, 0.125f);
    case QT_IQ3_XXS: return wk_odd(w[4], w[2] >> 28, 0.25f);
    case QT_IQ3_S: return wk_odd(w[4], w[3] >> (8 + 4 * (gi & 1)) & 15, 1.0f);
    case QT_IQ1_S: return wk_odd(w[4], w[1] >> 12 & 7, 0.125f);
    case QT_IQ2_XS: return wk_odd(w[4], w[1] >> 4 * (gi & 1) & 15, 0.125f);
    case QT_IQ2_S: return wk_odd(w[4], w[1] >> (8 + 4 * (gi & 1)) & 15, 0.125f);
    case QT_IQ1_M: {
        uint32_t run = gi >> 1 & 7, s = (run & 4 ? w[3] : w[2]) >> (16 * (run >> 1 & 1) + 6 * (run & 1) + 3 * (gi & 1)) & 7;
        return wk_odd(wk_iq1_m_d(w[2], w[3]), s, 0.125f);
    }
    default: return f16_to_f32((uint16_t)w[8]); /* TQ1_0, TQ2_0 */
    }
}

/* Elements 8 j and up of an item. */
KD_FN void wk_entry(uint32_t type, const uint32_t *w, uint32_t gi, uint32_t j, uint32_t q[2])
{
    uint32_t at, signs = 0, h;
    switch (type) {
    case QT_IQ2_XXS:
        at = w[0] >> 8 * j & 255;
        q[0] = wk_iq2_xxs[at][0], q[1] = wk_iq2_xxs[at][1];
        signs = wk_signs(w[1] >> 7 * j & 127);
        break;
    case QT_IQ2_XS:
        at = w[0] >> 16 * j;
        q[0] = wk_iq2_xs[at & 511][0], q[1] = wk_iq2_xs[at & 511][1];
        signs = wk_signs(at >> 9 & 127);
        break;
    case QT_IQ2_S:
        at = (w[0] >> 8 * j & 255) | (w[1] >> (4 * (gi & 1) + 2 * j) & 3) << 8;
        q[0] = wk_iq2_s[at][0], q[1] = wk_iq2_s[at][1];
        signs = w[0] >> (16 + 8 * j);
        break;
    case QT_IQ3_XXS:
        at = w[j >> 1] >> 16 * (j & 1);
        q[0] = wk_iq3_xxs[at & 255], q[1] = wk_iq3_xxs[at >> 8 & 255];
        signs = wk_signs(w[2] >> 7 * j & 127);
        break;
    case QT_IQ3_S:
        at = w[j >> 1] >> 16 * (j & 1), h = w[3] >> 2 * j;
        q[0] = wk_iq3_s[(at & 255) | (h & 1) << 8], q[1] = wk_iq3_s[(at >> 8 & 255) | (h >> 1 & 1) << 8];
        signs = w[2] >> 8 * j;
        break;
    default: /* IQ1: eight times the weight, moved up or down by one */
        h = type == QT_IQ1_S ? w[1] : w[1] >> 4 * j;
        at = (w[0] >> 8 * j & 255) | (type == QT_IQ1_S ? h >> 3 * j & 7 : h & 7) << 8;
        h = h >> (type == QT_IQ1_S ? 15 : 3) & 1 ? 9 : 7;
        q[0] = wk_less(wk_iq1[at][0], h), q[1] = wk_less(wk_iq1[at][1], h);
        return;
    }
    q[0] = wk_signed(q[0], signs), q[1] = wk_signed(q[1], signs >> 4);
}

/* The words of an item. */
KD_FN void wk_open(uint32_t type, const uint32_t *w, uint32_t gi, uint32_t *q)
{
    uint32_t run = gi & 7;
    if (type == QT_TQ2_0) {
        for (uint32_t k = 0; k < 8; k++)
            q[k] = wk_less(w[k] >> 2 * (run & 3) & 0x03030303u, 1);
    } else if (type == QT_TQ1_0) { /* 160 elements in 32 bytes, 80 in 16, 16 in 4 */
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t digit = run < 5 ? run : run == 7 && k >= 4 ? k - 4 : 2 * (run - 5) + (k >> 2);
            q[k] = wk_less(wk_trits(run < 5 ? w[k] : run == 7 && k >= 4 ? w[4] : w[k & 3], digit), 1);
        }
    } else {
        for (uint32_t j = 0; j < (type == QT_IQ2_XS || type == QT_IQ2_S || type == QT_IQ1_M ? 2u : 4u); j++)
            wk_entry(type, w, gi, j, q + 2 * j);
    }
}

/* ---- one weight ---- */

KD_FN uint32_t wk_u8(gpu_va p, uint64_t i) { return KD_PTR(const uint8_t, p)[i]; }
KD_FN uint32_t wk_u16(gpu_va p, uint64_t i) { return KD_PTR(const uint16_t, p)[i]; }
KD_FN uint32_t wk_u32(gpu_va p, uint64_t i) { return wk_u16(p, 2 * i) | wk_u16(p, 2 * i + 1) << 16; }

/* Element i of block b: p are the matrix's planes. */
KD_FN float wk_at(uint32_t type, const gpu_va *p, uint64_t b, uint32_t i)
{
    uint32_t r = i / 32, e = i / 8, w[12] = { 0 }, q[8], gi = r;
    switch (type) {
    case QT_IQ2_XXS:
        w[0] = wk_u32(p[0], b * 16 + 2 * r), w[1] = wk_u32(p[0], b * 16 + 2 * r + 1), w[4] = wk_u16(p[1], b);
        break;
    case QT_IQ3_XXS:
        w[0] = wk_u32(p[0], b * 16 + 2 * r), w[1] = wk_u32(p[0], b * 16 + 2 * r + 1);
        w[2] = wk_u32(p[1], b * 8 + r), w[4] = wk_u16(p[2], b);
        break;
    case QT_IQ3_S:
        w[0] = wk_u32(p[0], b * 16 + 2 * r), w[1] = wk_u32(p[0], b * 16 + 2 * r + 1);
        w[2] = wk_u32(p[1], b * 11 + 2 + r);
        w[3] = wk_u8(p[1], b * 44 + r) | wk_u8(p[1], b * 44 + 40 + r / 2) << 8;
        w[4] = wk_u16(p[2], b);
        break;
    case QT_IQ1_S: w[0] = wk_u32(p[0], b * 8 + r), w[1] = wk_u16(p[1], b * 8 + r), w[4] = wk_u16(p[2], b); break;
    case QT_IQ2_XS:
        gi = i / 16;
        w[0] = wk_u32(p[0], b * 16 + gi), w[1] = wk_u8(p[1], b * 8 + r), w[4] = wk_u16(p[2], b);
        break;
    case QT_IQ2_S:
        gi = i / 16;
        w[0] = wk_u16(p[0], b * 32 + gi) | wk_u16(p[0], b * 32 + 16 + gi) << 16;
        w[1] = wk_u8(p[1], b * 16 + r) | wk_u8(p[1], b * 16 + 8 + r) << 8, w[4] = wk_u16(p[2], b);
        break;
    case QT_IQ1_M:
        gi = i / 16;
        w[0] = wk_u16(p[0], b * 16 + gi), w[1] = wk_u8(p[1], b * 24 + gi);
        w[2] = wk_u32(p[1], b * 6 + 4), w[3] = wk_u32(p[1], b * 6 + 5);
        break;
    case QT_TQ2_0: {
        uint32_t code = wk_u8(p[0], b * 64 + 32 * (i / 128) + i % 32) >> 2 * (r & 3) & 3;
        return (float)((int32_t)code - 1) * f16_to_f32((uint16_t)wk_u16(p[1], b));
    }
    default: { /* TQ1_0 */
        uint32_t k = i < 160 ? i : i < 240 ? i - 160 : i - 240, of = i < 160 ? 32 : i < 240 ? 16 : 4;
        uint32_t byte = i < 240 ? wk_u8(p[0], b * 48 + (i < 160 ? 0 : 32) + k % of) : wk_u8(p[1], b * 4 + k % 4);
        return (float)((int32_t)wk_trits(byte, k / of) - 1) * f16_to_f32((uint16_t)wk_u16(p[2], b));
    }
    }
    wk_entry(type, w, gi, gi == r ? e & 3 : e & 1, q);
    return wk_scale(type, w, gi) * (float)(int8_t)(q[i / 4 & 1] >> 8 * (i & 3));
}

#endif
