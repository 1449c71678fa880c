/* vk/shaders/wdot.glsl
 * Weights for dot products, the twin of kernels/wdot.h: how an item of each type is loaded from its planes
 * (kernels/planes.h) into registers, and how it opens into words of four signed bytes, or floats, that meet x.
 *
 *     wd_mat m = wd_row(T, wd_matrix(T, base, n_rows, n_in), row, n_in);
 *     wd_item w = wd_load(T, ragged, m, i, n_in);             item i of that row, i < wd_items(T, n_in)
 *     wd_scales c = wd_scale(T, w, i);
 *     for (uint s = 0; s < wd_runs(T); s++)                   runs that share a scale
 *         wd_words q = wd_open(T, w, i, s);                   4 words, or 8 (wd_long)
 *
 * T is a specialisation constant, or a literal, wherever these functions are called, so that each call folds to the
 * code of one type. `ragged` too: the matrix may start anywhere, rows of floats may end anywhere; the launch knows
 * (an address or a row of floats that is no multiple of 16 bytes).
 *
 * An item is 16 to 32 bytes of the widest plane. Of the K types it is a quarter of a block: with n = i / 2 % 2 and
 * h = i % 2 it holds elements 128 n + 32 s + 16 h + (0..15) for s < 4; run s is half of a block of x. Of the others it
 * is a block of 32 (elements 0..15 in .lo, 16..31 in .hi), or half of one (wd_half), all in .lo.
 *
 * The arithmetic, with magic = wd_magic(T, s) and integers exact:
 *     sum = floatBitsToInt(magic) + wd_bias(T, s) * xsum + dot4 of the words with x's
 *     v = (intBitsToFloat(sum) - magic) * xd                  the integer sum as a float, times x's scale
 *     acc += c.d * wd_code(T, c, s) * v     and with wd_has_min:  acc += c.m * wd_min_code(T, c, s) * xd * xsum
 *
 * Types with a table (wd_has_table) look values up in shared memory: the includer declares `const bool WD_TABLE`, true
 * where one of its types has one, and all of a work-group call wd_fill_table(T) some barrier before wd_open. */
#ifndef WDOT_GLSL
#define WDOT_GLSL

#include "types.glsl"

bool wd_is_float(uint T) { return QT_IS_FLOAT(T); }
bool wd_is_k(uint T) { return QT_IS_K(T); }
bool wd_has_min(uint T) { return QT_HAS_MIN(T); }
bool wd_has_table(uint T) { return QT_HAS_TABLE(T); }
/* Items are half a block of x. */
bool wd_half(uint T) { return QT_IS_HALF(T); }
bool wd_long(uint T) { return !wd_is_k(T) && !wd_half(T); }
uint wd_runs(uint T) { return wd_is_k(T) ? 4 : 1; }

/* Elements of an item, and of a block. */
uint wd_elems(uint T)
{
    return wd_is_k(T) ? 64 : T == QT_F32 ? 4 : wd_is_float(T) ? 8 : wd_half(T) ? 16 : 32;
}
uint wd_block(uint T) { return wd_is_float(T) ? 1 : QT_IS_256(T) ? 256 : T == QT_NVFP4 ? 64 : 32; }
uint wd_items(uint T, uint n_in) { return (n_in + wd_elems(T) - 1) / wd_elems(T); }
/* Items that a lane takes at once, of as many rows. */
uint wd_slots(uint T) { return wd_is_k(T) ? 2 : 4; }

/* ---- matrices ---- */

/* Bytes of a block in each plane. */
uvec4 wd_planes(uint T)
{
    switch (T) {
        ZK_PLANES
    default: return uvec4(0);
    }
}

/* Where the planes of a matrix, or of one of its rows, start. */
struct wd_mat {
    uint64_t p0, p1, p2, p3;
};

wd_mat wd_matrix(uint T, uint64_t base, uint n_rows, uint n_in)
{
    uvec4 len = wd_planes(T);
    uint64_t blocks = uint64_t(n_rows) * (n_in / wd_block(T));
    wd_mat m;
    m.p0 = base;
    m.p1 = m.p0 + blocks * len.x;
    m.p2 = m.p1 + blocks * len.y;
    m.p3 = m.p2 + blocks * len.z;
    return m;
}

/* m moved by that many rows. */
wd_mat wd_row(uint T, wd_mat m, uint row, uint n_in)
{
    uvec4 len = wd_planes(T) * (n_in / wd_block(T));
    m.p0 += uint64_t(row) * len.x;
    m.p1 += uint64_t(row) * len.y;
    m.p2 += uint64_t(row) * len.z;
    m.p3 += uint64_t(row) * len.w;
    return m;
}

/* m moved by bytes: to another matrix of the same type and shape. */
wd_mat wd_shift(wd_mat m, uint64_t bytes)
{
    m.p0 += bytes, m.p1 += bytes, m.p2 += bytes, m.p3 += bytes;
    return m;
}

/* ---- loads ---- */

uint wd_get1(uint64_t p, uint off) { return uint(zk_ro_u8(p + off).v[0]); }
/* n bytes from anywhere: they enter at the top and move down. Short code, as this is the rare way. */
uvec4 wd_bytes(uint64_t p, uint off, uint n)
{
    uvec4 v = uvec4(0);
    [[dont_unroll]] for (uint i = 0; i < n; i++)
        v = v >> 8 | uvec4(v.yzw, wd_get1(p, off + i)) << 24;
    return v;
}
uint wd_get2(bool ragged, uint64_t p, uint off)
{
    return ragged ? wd_bytes(p, off, 2).w >> 16 : uint(zk_ro_u16(p + off).v[0]);
}
uint wd_get4(bool ragged, uint64_t p, uint off)
{
    return ragged ? wd_bytes(p, off, 4).w : zk_ro(p + off).v[0];
}
uvec2 wd_get8(bool ragged, uint64_t p, uint off)
{
    return ragged ? wd_bytes(p, off, 8).zw : zk_ro2(p + off).v[0];
}
uvec4 wd_get16(bool ragged, uint64_t p, uint off)
{
    return ragged ? wd_bytes(p, off, 16) : zk_ro4(p + off).v[0];
}

/* 16 bytes of a row of floats of any alignment, from element k on, zeros behind its end. */
uvec4 wd_get_floats(uint T, uint64_t row, uint k, uint n_in)
{
    uint size = T == QT_F32 ? 4 : 2, end = n_in * size;
    uvec4 v = uvec4(0);
    [[dont_unroll]] for (uint i = 0; i < 16; i++)
        v = v >> 8 | uvec4(v.yzw, k * size + i < end ? wd_get1(row, k * size + i) : 0) << 24;
    return v;
}

/* An item's words; which ones are used, and for what, by type:
 *           a        b                c           d                          a       b.x  b.y
 *   Q2_K    qs       scales .xy       d dmin .x               Q8_0 Q4_0 ...  qs      d
 *   Q3_K    qs       hmask            scales, d .w            Q5_0 Q5_1      qs      qh   d
 *   Q4_K    qs       qs               head                    IQ4_XS         qs      head
 *   Q5_K    qs       qs               head        qh          MXFP4          qs      e
 *   Q6_K    ql       ql               qh          scales, d   floats         16 bytes */
struct wd_item {
    uvec4 a, b, c, d;
};

/* The words of a run. */
struct wd_words {
    uvec4 lo, hi;
};

#if ZK_BOOKS
#include "wbook.glsl"
#endif

/* Item i of the row that m stands at. Widest plane: items of the K types are two pieces of 16 bytes, 32 bytes apart. */
wd_item wd_load(uint T, bool ragged, wd_mat m, uint i, uint n_in)
{
    uint pair = i >> 1, h = i & 1, block = i >> 2, wide = pair * 64 + h * 16;
    wd_item w = wd_item(uvec4(0), uvec4(0), uvec4(0), uvec4(0));
    if (wd_is_float(T)) {
        w.a = ragged ? wd_get_floats(T, m.p0, i * wd_elems(T), n_in) : wd_get16(false, m.p0, i * 16);
        return w;
    }
#if ZK_BOOKS
    if (QT_IS_BOOK(T))
        return wk_load(T, ragged, m, i);
    if (T == QT_NVFP4) {
        w.a.xy = wd_get8(ragged, m.p0, i * 8);
        w.b.x = wd_get1(m.p1, i);
        return w;
    }
#endif
    if (T == QT_Q4_K || T == QT_Q5_K || T == QT_Q6_K) {
        w.a = wd_get16(ragged, m.p0, wide);
        w.b = wd_get16(ragged, m.p0, wide + 32);
    } else {
        w.a = wd_get16(ragged, m.p0, i * 16);
    }
    switch (T) {
#if ZK_Q2_K
    case QT_Q2_K:
        w.b.xy = wd_get8(ragged, m.p1, pair * 8);
        w.c.x = wd_get4(ragged, m.p2, block * 4);
        break;
#endif
#if ZK_Q3_K
    case QT_Q3_K:
        w.b = wd_get16(ragged, m.p1, block * 32 + h * 16);
        w.c.x = wd_get4(ragged, m.p2, block * 12);
        w.c.y = wd_get4(ragged, m.p2, block * 12 + 4);
        w.c.z = wd_get4(ragged, m.p2, block * 12 + 8);
        w.c.w = wd_get2(ragged, m.p3, block * 2);
        break;
#endif
#if ZK_Q4_K
    case QT_Q4_K:
        w.c = wd_get16(ragged, m.p1, block * 16);
        break;
#endif
#if ZK_Q5_K
    case QT_Q5_K:
        w.c = wd_get16(ragged, m.p2, block * 16);
        w.d = wd_get16(ragged, m.p1, block * 32 + h * 16);
        break;
#endif
#if ZK_Q6_K
    case QT_Q6_K:
        w.c = wd_get16(ragged, m.p1, i * 16);
        w.d.xy = wd_get8(ragged, m.p2, pair * 8);
        w.d.z = wd_get2(ragged, m.p3, block * 2);
        break;
#endif
#if ZK_Q8_0
    case QT_Q8_0:
        w.b.x = wd_get2(ragged, m.p1, pair * 2);
        break;
#endif
#if ZK_Q4_1
    case QT_Q4_1:
        w.b.x = wd_get4(ragged, m.p1, i * 4);
        break;
#endif
#if ZK_Q5_0
    case QT_Q5_0:
        w.b.x = wd_get4(ragged, m.p1, i * 4);
        w.b.y = wd_get2(ragged, m.p2, i * 2);
        break;
#endif
#if ZK_Q5_1
    case QT_Q5_1:
        w.b.x = wd_get4(ragged, m.p1, i * 4);
        w.b.y = wd_get4(ragged, m.p2, i * 4);
        break;
#endif
#if ZK_IQ4_XS
    case QT_IQ4_XS:
        w.b.xy = wd_get8(ragged, m.p1, (i >> 3) * 8);
        break;
#endif
#if ZK_BOOKS
    case QT_OPENED:
        w.b.x = wd_get4(ragged, m.p1, i * 4);
        break;
#endif
#if ZK_MXFP4
    case QT_MXFP4:
        w.b.x = wd_get1(m.p1, i);
        break;
#endif
    default: /* Q4_0, IQ4_NL */
        w.b.x = wd_get2(ragged, m.p1, i * 2);
    }
    return w;
}

/* ---- scales ---- */

/* What is decoded once per item. Codes of the K types: a byte each in sc.x and mn, or two in each word of sc, 16 bits
 * apart. */
struct wd_scales {
    uvec2 sc;
    uint mn;
    float d, m;
};

wd_scales wd_scale(uint T, wd_item w, uint i)
{
    wd_scales s = wd_scales(uvec2(0), 0, 0.0, 0.0);
    bool upper = (i & 2) != 0;
    uint h8 = (i & 1) * 8;
    switch (T) {
#if ZK_Q2_K
    case QT_Q2_K: /* bytes 2 s + h of eight: scale, minimum */
        s.sc = w.b.xy >> h8;
        s.d = zk_f16(w.c.x);
        s.m = -zk_f16_high(w.c.x);
        break;
#endif
#if ZK_Q3_K
    case QT_Q3_K: {
        uvec3 c = w.c.xyz >> (h8 + (upper ? 4 : 0));
        s.sc = (c.xy & 0x000f000fu) | uvec2(c.z << 4, c.z << 2) & 0x00300030u;
        s.d = zk_f16(w.c.w);
        break;
    }
#endif
#if ZK_Q4_K || ZK_Q5_K
    case QT_Q4_K: case QT_Q5_K:
        s.sc.x = upper ? (w.c.w & 0x0f0f0f0fu) | (w.c.y >> 2 & 0x30303030u) : w.c.y & 0x3f3f3f3fu;
        s.mn = upper ? (w.c.w >> 4 & 0x0f0f0f0fu) | (w.c.z >> 2 & 0x30303030u) : w.c.z & 0x3f3f3f3fu;
        s.d = zk_f16(w.c.x);
        s.m = -zk_f16_high(w.c.x);
        break;
#endif
#if ZK_Q6_K
    case QT_Q6_K:
        s.sc = w.d.xy >> h8;
        s.d = zk_f16(w.d.z);
        break;
#endif
#if ZK_IQ4_XS
    case QT_IQ4_XS: {
        uint j = i & 7, ls = (w.b.y >> 4 * j & 15) | (w.b.x >> (16 + 2 * j) & 3) << 4;
        s.d = zk_f16(w.b.x) * float(int(ls) - 32);
        break;
    }
#endif
#if ZK_BOOKS
    case QT_NVFP4: /* kernels/fp.h: ue4m3_half_to_f32 */
        s.d = w.b.x == 127 ? 0.0 : (w.b.x & 127) < 8 ? float(w.b.x & 7) * 0.0009765625 : uintBitsToFloat(((w.b.x & 127) << 20) + 0x3b800000u);
        break;
    case QT_OPENED:
        s.d = uintBitsToFloat(w.b.x);
        break;
    case QT_IQ2_XXS: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ1_M:
    case QT_TQ1_0: case QT_TQ2_0:
        s.d = wk_scale(T, w, i);
        break;
#endif
#if ZK_MXFP4
    case QT_MXFP4: /* 2^(e - 128): the table is doubled */
        s.d = uintBitsToFloat(w.b.x < 2 ? 0x200000u << w.b.x : (w.b.x - 1) << 23);
        break;
#endif
#if ZK_Q4_1
    case QT_Q4_1:
        s.d = zk_f16(w.b.x), s.m = zk_f16_high(w.b.x);
        break;
#endif
#if ZK_Q5_0
    case QT_Q5_0:
        s.d = zk_f16(w.b.y);
        break;
#endif
#if ZK_Q5_1
    case QT_Q5_1:
        s.d = zk_f16(w.b.y), s.m = zk_f16_high(w.b.y);
        break;
#endif
    default: /* Q8_0, Q4_0, IQ4_NL */
        s.d = zk_f16(w.b.x);
    }
    return s;
}

/* Codes of run s; 1 where there are none. */
float wd_code(uint T, wd_scales c, uint s)
{
    uint two = s < 2 ? c.sc.x : c.sc.y;
    int at = int(s & 1) * 16;
    switch (T) {
#if ZK_Q2_K
    case QT_Q2_K: return float(bitfieldExtract(two, at, 4));
#endif
#if ZK_Q3_K
    case QT_Q3_K: return float(int(bitfieldExtract(two, at, 6)) - 32);
#endif
#if ZK_Q6_K
    case QT_Q6_K: return float(bitfieldExtract(int(two), at, 8));
#endif
#if ZK_Q4_K || ZK_Q5_K
    case QT_Q4_K: case QT_Q5_K: return float(bitfieldExtract(c.sc.x, int(s) * 8, 8));
#endif
    default: return 1.0;
    }
}
float wd_min_code(uint T, wd_scales c, uint s)
{
    if (T == QT_Q2_K)
        return float(bitfieldExtract(s < 2 ? c.sc.x : c.sc.y, int(s & 1) * 16 + 4, 4));
    return wd_is_k(T) ? float(bitfieldExtract(c.mn, int(s) * 8, 8)) : 1.0;
}

/* What is added to the integer sum per unit of the run's sum of x: cheaper than to subtract from bytes. */
int wd_bias(uint T, uint s)
{
    switch (T) {
#if ZK_Q4_0
    case QT_Q4_0: return -8;
#endif
#if ZK_Q5_0
    case QT_Q5_0: return -16;
#endif
#if ZK_Q3_K
    case QT_Q3_K: return -4;
#endif
#if ZK_Q6_K
    case QT_Q6_K: return -32;
#endif
#if ZK_Q4_K
    case QT_Q4_K: return (s & 1) != 0 ? 128 : 0; /* high nibbles are taken as 16 (q - 8) */
#endif
    default: return 0;
    }
}

/* A float whose last place is worth 1, or 1/16 where the words are 16 times too large: the sum in its bits is exact. */
float wd_magic(uint T, uint s) { return T == QT_Q4_K && (s & 1) != 0 ? 786432.0 : 12582912.0; }

/* ---- opening ---- */

/* By a byte of two codes: the value of the low one, and in the upper half of the word that of the high one. MXFP4's
 * table follows that of the IQ4 types. */
shared uint wd_table[WD_TABLE ? 512 : 1];
uint wd_table_at(uint T) { return T == QT_MXFP4 || T == QT_NVFP4 ? 256 : 0; }

int wd_value(uint T, uint code)
{
    const int iq4[16] = { QT_iq4_values }, e2m1_x2[16] = { QT_e2m1_x2 };
    return wd_table_at(T) != 0 ? e2m1_x2[code] : iq4[code];
}

void wd_fill_table(uint T)
{
    if (WD_TABLE && wd_has_table(T))
        for (uint i = zk_tid(); i < 256; i += ZK_THREADS)
            wd_table[wd_table_at(T) + i] = uint(wd_value(T, i & 15) & 255) | uint(wd_value(T, i >> 4) & 255) << 16;
}

wd_words wd_lookup(uint T, uvec4 w)
{
    wd_words q;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uvec4 i = wd_table_at(T) + (uvec4(w[k]) >> uvec4(0, 8, 16, 24) & 255);
        uint a = wd_table[i.x] | wd_table[i.y] << 8, b = wd_table[i.z] | wd_table[i.w] << 8;
        q.lo[k] = (a & 0xffffu) | b << 16;
        q.hi[k] = a >> 16 | (b & 0xffff0000u);
    }
    return q;
}

/* Run s: the words that meet x. */
wd_words wd_open(uint T, wd_item w, uint i, uint s)
{
    uint n4 = (i & 2) * 2; /* 4 n */
    wd_words q = wd_words(w.a, uvec4(0));
    switch (T) {
#if ZK_Q2_K
    case QT_Q2_K:
        q.lo = w.a >> 2 * s & 0x03030303u;
        break;
#endif
#if ZK_Q3_K
    case QT_Q3_K: {
        uvec4 h = w.b >> n4;
        q.lo = (w.a >> 2 * s & 0x03030303u) | ((s < 2 ? h << (2 - s) : h >> (s - 2)) & 0x04040404u);
        break;
    }
#endif
#if ZK_Q4_K
    case QT_Q4_K: {
        uvec4 v = s < 2 ? w.a : w.b;
        q.lo = (s & 1) != 0 ? (v ^ 0x80808080u) & 0xf0f0f0f0u : v & 0x0f0f0f0fu;
        break;
    }
#endif
#if ZK_Q5_K
    case QT_Q5_K:
        q.lo = ((s < 2 ? w.a : w.b) >> (s & 1) * 4 & 0x0f0f0f0fu) | (w.d >> n4 << (4 - s) & 0x10101010u);
        break;
#endif
#if ZK_Q6_K
    case QT_Q6_K:
        q.lo = (((s & 1) != 0 ? w.b : w.a) >> (s >> 1) * 4 & 0x0f0f0f0fu) |
               ((s < 2 ? w.c << (4 - 2 * s) : w.c >> (2 * s - 4)) & 0x30303030u);
        break;
#endif
#if ZK_Q5_0 || ZK_Q5_1
    case QT_Q5_0: case QT_Q5_1: {
        const uvec4 at = uvec4(0, 4, 8, 12);
        q.lo = (w.a & 0x0f0f0f0fu) | ((uvec4(w.b.x) >> at & 15) * 0x02040810u & 0x10101010u);
        q.hi = (w.a >> 4 & 0x0f0f0f0fu) | ((uvec4(w.b.x) >> (at + 16) & 15) * 0x02040810u & 0x10101010u);
        break;
    }
#endif
#if ZK_IQ4_NL || ZK_IQ4_XS || ZK_MXFP4
    case QT_IQ4_NL: case QT_IQ4_XS: case QT_MXFP4:
        q = wd_lookup(T, w.a);
        break;
#endif
#if ZK_BOOKS
    case QT_NVFP4: /* elements 0..7 are low nibbles, 8..15 high ones */
        q = wd_lookup(T, uvec4(w.a.xy, 0, 0));
        q.lo = uvec4(q.lo.xy, q.hi.xy);
        break;
    case QT_IQ2_XXS: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ1_M:
    case QT_TQ1_0: case QT_TQ2_0:
        q = wk_open(T, w, i);
        break;
#endif
#if ZK_Q4_0 || ZK_Q4_1
    case QT_Q4_0: case QT_Q4_1:
        q.lo = w.a & 0x0f0f0f0fu;
        q.hi = w.a >> 4 & 0x0f0f0f0fu;
        break;
#endif
    default: break; /* Q8_0 */
    }
    return q;
}

/* An item of floats as floats: four (F32, in lo) or eight. */
struct wd_floats {
    vec4 lo, hi;
};

wd_floats wd_open_floats(uint T, wd_item w)
{
    wd_floats f = wd_floats(uintBitsToFloat(w.a), vec4(0.0));
    if (T == QT_F16) {
        f.lo = vec4(unpackHalf2x16(w.a.x), unpackHalf2x16(w.a.y));
        f.hi = vec4(unpackHalf2x16(w.a.z), unpackHalf2x16(w.a.w));
    } else if (T == QT_BF16) {
        uvec4 even = w.a << 16, odd = w.a & 0xffff0000u;
        f.lo = uintBitsToFloat(uvec4(even.x, odd.x, even.y, odd.y));
        f.hi = uintBitsToFloat(uvec4(even.z, odd.z, even.w, odd.w));
    }
    return f;
}

#endif
