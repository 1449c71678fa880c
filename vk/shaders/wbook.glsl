/* vk/shaders/wbook.glsl
 * The types of codebooks for dot products, the twin of kernels/wbook.h: part of wdot.glsl. The codebooks lie in one buffer. An
 * item's words: a has codes and what stands beside them, b.x the scale d; TQ1_0 and TQ2_0 have codes in a and b, d in c.x. */
layout(set = 0, binding = 1, scalar) readonly restrict buffer zk_books { uint v[]; } books;

wd_item wk_load(uint T, bool ragged, wd_mat m, uint i)
{
    wd_item w = wd_item(uvec4(0), uvec4(0), uvec4(0), uvec4(0));
    uint b = i >> 3, r = i & 7, half_b = i >> 4, at = i & 15; /* block and run; of items of 16: block, and item in it */
    switch (T) {
    case QT_IQ2_XXS:
        w.a.xy = wd_get8(ragged, m.p0, i * 8);
        w.b.x = wd_get2(ragged, m.p1, b * 2);
        break;
    case QT_IQ3_XXS:
        w.a.xy = wd_get8(ragged, m.p0, i * 8);
        w.a.z = wd_get4(ragged, m.p1, i * 4);
        w.b.x = wd_get2(ragged, m.p2, b * 2);
        break;
    case QT_IQ3_S:
        w.a.xy = wd_get8(ragged, m.p0, i * 8);
        w.a.z = wd_get4(ragged, m.p1, b * 44 + 8 + r * 4);
        w.a.w = wd_get1(m.p1, b * 44 + r) | wd_get1(m.p1, b * 44 + 40 + r / 2) << 8;
        w.b.x = wd_get2(ragged, m.p2, b * 2);
        break;
    case QT_IQ1_S:
        w.a.x = wd_get4(ragged, m.p0, i * 4);
        w.a.y = wd_get2(ragged, m.p1, i * 2);
        w.b.x = wd_get2(ragged, m.p2, b * 2);
        break;
    case QT_IQ2_XS:
        w.a.x = wd_get4(ragged, m.p0, i * 4);
        w.a.y = wd_get1(m.p1, i >> 1);
        w.b.x = wd_get2(ragged, m.p2, half_b * 2);
        break;
    case QT_IQ2_S:
        w.a.x = wd_get2(ragged, m.p0, half_b * 64 + at * 2) | wd_get2(ragged, m.p0, half_b * 64 + 32 + at * 2) << 16;
        w.a.y = wd_get1(m.p1, half_b * 16 + at / 2) | wd_get1(m.p1, half_b * 16 + at / 2 + 8) << 8;
        w.b.x = wd_get2(ragged, m.p2, half_b * 2);
        break;
    case QT_IQ1_M:
        w.a.x = wd_get2(ragged, m.p0, i * 2);
        w.a.y = wd_get1(m.p1, half_b * 24 + at);
        w.a.zw = wd_get8(ragged, m.p1, half_b * 24 + 16);
        break;
    case QT_TQ2_0:
        w.a = wd_get16(ragged, m.p0, b * 64 + r / 4 * 32);
        w.b = wd_get16(ragged, m.p0, b * 64 + r / 4 * 32 + 16);
        w.c.x = wd_get2(ragged, m.p1, b * 2);
        break;
    default: /* TQ1_0: 160 elements in 32 bytes, 80 in 16, 16 in 4 */
        if (r < 5) {
            w.a = wd_get16(ragged, m.p0, b * 48);
            w.b = wd_get16(ragged, m.p0, b * 48 + 16);
        } else {
            w.a = wd_get16(ragged, m.p0, b * 48 + 32);
            w.b.x = wd_get4(ragged, m.p1, b * 4);
        }
        w.c.x = wd_get2(ragged, m.p2, b * 2);
    }
    return w;
}

/* Seven signs and the one that makes their number even. */
uint wk_signs(uint seven) { return seven | (bitCount(seven) & 1) << 7; }

/* Four magnitudes, not zero, as signed bytes; signs in the low four bits. */
uint wk_signed(uint v, uint signs)
{
    uint minus = (signs & 15) * 0x00204081u & 0x01010101u;
    return (v ^ minus * 255) + minus;
}

/* Four bytes of less than 128 less a number each. */
uvec4 wk_less(uvec4 v, uint n) { return ((v | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u; }

/* Digit n of bytes of five digits to the base of three. */
uvec4 wk_trits(uvec4 w, uint n)
{
    uint power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    uvec4 even = ((w & 0x00ff00ffu) * power & 0x00ff00ffu) * 3 >> 8 & 0x00ff00ffu;
    uvec4 odd = ((w >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu) * 3 & 0xff00ff00u;
    return even | odd;
}

float wk_odd(uint d, uint s, float part)
{
    precise float odd = float(2 * s + 1) * part, v = zk_f16(d) * odd;
    return v;
}

/* What an item's weights are multiplied by. */
float wk_scale(uint T, wd_item w, uint i)
{
    switch (T) {
    case QT_IQ2_XXS: return wk_odd(w.b.x, w.a.y >> 28, 0.125);
    case QT_IQ3_XXS: return wk_odd(w.b.x, w.a.z >> 28, 0.25);
    case QT_IQ3_S: return wk_odd(w.b.x, w.a.w >> (8 + 4 * (i & 1)) & 15, 1.0);
    case QT_IQ1_S: return wk_odd(w.b.x, w.a.y >> 12 & 7, 0.125);
    case QT_IQ2_XS: return wk_odd(w.b.x, w.a.y >> 4 * (i & 1) & 15, 0.125);
    case QT_IQ2_S: return wk_odd(w.b.x, w.a.y >> (8 + 4 * (i & 1)) & 15, 0.125);
    case QT_IQ1_M: {
        uint run = i >> 1 & 7, a = w.a.z, c = w.a.w;
        uint s = (run >= 4 ? c : a) >> (16 * (run >> 1 & 1) + 6 * (run & 1) + 3 * (i & 1)) & 7;
        return wk_odd((a >> 12 & 15) | (a >> 24 & 0xf0) | (c >> 4 & 0xf00) | (c >> 16 & 0xf000), s, 0.125);
    }
    default: return zk_f16(w.c.x); /* TQ1_0, TQ2_0 */
    }
}

uvec2 wk_two(uint book, uint at) { return uvec2(books.v[book + 2 * at], books.v[book + 2 * at + 1]); }

/* Elements 8 j and up of an item. */
uvec2 wk_entry(uint T, wd_item w, uint i, uint j)
{
    uint at, signs = 0, h;
    uvec2 q;
    switch (T) {
    case QT_IQ2_XXS:
        q = wk_two(BOOK_iq2_xxs, w.a.x >> 8 * j & 255);
        signs = wk_signs(w.a.y >> 7 * j & 127);
        break;
    case QT_IQ2_XS:
        at = w.a.x >> 16 * j;
        q = wk_two(BOOK_iq2_xs, at & 511);
        signs = wk_signs(at >> 9 & 127);
        break;
    case QT_IQ2_S:
        q = wk_two(BOOK_iq2_s, (w.a.x >> 8 * j & 255) | (w.a.y >> (4 * (i & 1) + 2 * j) & 3) << 8);
        signs = w.a.x >> (16 + 8 * j);
        break;
    case QT_IQ3_XXS:
        at = (j < 2 ? w.a.x : w.a.y) >> 16 * (j & 1);
        q = uvec2(books.v[BOOK_iq3_xxs + (at & 255)], books.v[BOOK_iq3_xxs + (at >> 8 & 255)]);
        signs = wk_signs(w.a.z >> 7 * j & 127);
        break;
    case QT_IQ3_S:
        at = (j < 2 ? w.a.x : w.a.y) >> 16 * (j & 1), h = w.a.w >> 2 * j;
        q = uvec2(books.v[BOOK_iq3_s + ((at & 255) | (h & 1) << 8)], books.v[BOOK_iq3_s + ((at >> 8 & 255) | (h & 2) << 7)]);
        signs = w.a.z >> 8 * j;
        break;
    default: /* IQ1: eight times the weight, moved up or down by one */
        h = T == QT_IQ1_S ? w.a.y : w.a.y >> 4 * j;
        at = (w.a.x >> 8 * j & 255) | (T == QT_IQ1_S ? h >> 3 * j & 7 : h & 7) << 8;
        h = (h >> (T == QT_IQ1_S ? 15 : 3) & 1) != 0 ? 9 : 7;
        return wk_less(wk_two(BOOK_iq1, at).xyxy, h).xy;
    }
    return uvec2(wk_signed(q.x, signs), wk_signed(q.y, signs >> 4));
}

/* The words of an item. */
wd_words wk_open(uint T, wd_item w, uint i)
{
    uint r = i & 7;
    if (T == QT_TQ2_0)
        return wd_words(wk_less(w.a >> 2 * (r & 3) & 0x03030303u, 1), wk_less(w.b >> 2 * (r & 3) & 0x03030303u, 1));
    if (T == QT_TQ1_0) {
        uint n = r < 5 ? r : 2 * (r - 5);
        uvec4 lo = wk_trits(w.a, n), hi = r < 5 ? wk_trits(w.b, n) : wk_trits(w.a, n + 1);
        if (r == 7)
            hi = uvec4(wk_trits(w.b.xxxx, 0).x, wk_trits(w.b.xxxx, 1).x, wk_trits(w.b.xxxx, 2).x, wk_trits(w.b.xxxx, 3).x);
        return wd_words(wk_less(lo, 1), wk_less(hi, 1));
    }
    wd_words q = wd_words(uvec4(wk_entry(T, w, i, 0), wk_entry(T, w, i, 1)), uvec4(0));
    if (!wd_half(T))
        q.hi = uvec4(wk_entry(T, w, i, 2), wk_entry(T, w, i, 3));
    return q;
}
