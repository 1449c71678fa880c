/* kernels/wtile.h
 * Weights from planes (kernels/planes.h) to bf16 tiles, for the matrix kernels. A work-item owns a row of the tile
 * and goes along k by units: it loads a unit's bytes into registers, early, and later turns them into pieces of 8 bf16.
 *
 *     struct wt_src s = wt_src(QT_Q4_K, base, n_rows, n_in, row);
 *     struct wt_raw r;
 *     wt_load(QT_Q4_K, &r, &s, 0, wt_chunks(QT_Q4_K, n_in, 0));
 *     kd_u32x4 p = wt_piece(QT_Q4_K, &r, 1, 3);              elements 64 + 24 .. 64 + 31 of the unit
 *
 * A weight is fma(code, d, o) in f32, rounded to bf16; o takes in the minimum, the type's offset of codes, and what
 * kd_byte*_f32 adds. F16 and BF16, which lie row by row, are rounded to bf16 or as they are. Types, units, chunks and pieces
 * are compile-time constants after inlining, so all of wt_raw that is used becomes registers. Within a chunk of 64 elements
 * word i (0..15) stands for elements 4 i .. 4 i + 3, and run
 * r (0..3) for 16 r .. 16 r + 15. */
#ifndef ZINC_KERNELS_WTILE_H
#define ZINC_KERNELS_WTILE_H

#include "kernels/hw/tile.h"
#include "kernels/planes.h"

enum { WT_K = 64, WT_PIECES = 8 }; /* of a chunk */

struct wt_src {
    KD_GLOBAL const uint8_t *p[PLANES_MAX]; /* this row's part of each plane */
};

/* Registers of a unit: q the widest plane, h high bits, s scales. */
struct wt_raw {
    uint32_t q[32], h[16], s[8];
};

KD_FN bool wt_half_type(enum qtype t) { return t == QT_F16 || t == QT_BF16; }
KD_FN uint32_t wt_unit_chunks(enum qtype t)
{
    return wt_half_type(t) ? 1 : t == QT_Q8_0 || t == QT_OPENED || t == QT_Q6_K ? 2 : 4;
}
KD_FN uint32_t wt_unit(enum qtype t) { return wt_unit_chunks(t) * WT_K; }
/* How many chunks unit u has: the last one of a type with small blocks may be cut. */
KD_FN uint32_t wt_chunks(enum qtype t, uint32_t n_in, uint32_t u)
{
    uint32_t most = wt_unit_chunks(t);
    return qtype_block(t) > WT_K ? most : kd_min_u32(most, n_in / WT_K - u * most);
}

KD_FN struct wt_src wt_src(enum qtype t, gpu_va base, uint32_t n_rows, uint32_t n_in, uint32_t row)
{
    struct planes pl = planes_of(t);
    uint32_t per_row = n_in / qtype_block(t);
    uint64_t blocks = (uint64_t)n_rows * per_row, first = (uint64_t)row * per_row;
    struct wt_src s = { 0 };
    if (wt_half_type(t)) {
        s.p[0] = KD_PTR(const uint8_t, base + 2 * first);
        return s;
    }
    KD_UNROLL
    for (uint32_t i = 0; i < PLANES_MAX; i++) {
        s.p[i] = KD_PTR(const uint8_t, base + first * pl.f[i].len);
        base += blocks * pl.f[i].len;
    }
    return s;
}

KD_FN void wt_words4(uint32_t *d, KD_GLOBAL const uint8_t *p)
{
    kd_u32x4 v = kd_load_once((KD_GLOBAL const kd_u32x4 *)p);
    d[0] = v[0];
    d[1] = v[1];
    d[2] = v[2];
    d[3] = v[3];
}
KD_FN uint32_t wt_word(KD_GLOBAL const uint8_t *p) { return kd_load_once4((KD_GLOBAL const uint32_t *)p); }
KD_FN uint32_t wt_half(KD_GLOBAL const uint8_t *p) { return *(KD_GLOBAL const uint16_t *)p; }

/* Two small blocks a chunk. */
KD_FN void wt_load_small(enum qtype t, struct wt_raw *r, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    KD_UNROLL
    for (uint32_t c = 0; c < wt_unit_chunks(t); c++) {
        if (c >= chunks)
            continue;
        uint32_t at = 2 * (u * wt_unit_chunks(t) + c), n = t == QT_Q8_0 || t == QT_OPENED ? 4 : 2;
        KD_UNROLL
        for (uint32_t i = 0; i < n; i++)
            wt_words4(r->q + 4 * (n * c + i), s->p[0] + 8 * n * at + 16 * i);
        if (t == QT_Q4_0 || t == QT_IQ4_NL || t == QT_Q8_0) {
            r->s[c] = wt_word(s->p[1] + 2 * at);
        } else if (t == QT_Q4_1) {
            r->s[2 * c] = wt_word(s->p[1] + 4 * at);
            r->s[2 * c + 1] = wt_word(s->p[1] + 4 * at + 4);
        } else if (t == QT_OPENED) {
            wt_words4(r->s + 4 * c, s->p[1] + 8 * at);
        } else if (t == QT_MXFP4) {
            r->s[c] = wt_half(s->p[1] + at);
        } else { /* Q5_0, Q5_1 */
            r->h[2 * c] = wt_word(s->p[1] + 4 * at);
            r->h[2 * c + 1] = wt_word(s->p[1] + 4 * at + 4);
            if (t == QT_Q5_0) {
                r->s[c] = wt_word(s->p[2] + 2 * at);
            } else {
                r->s[2 * c] = wt_word(s->p[2] + 4 * at);
                r->s[2 * c + 1] = wt_word(s->p[2] + 4 * at + 4);
            }
        }
    }
}

KD_FN void wt_load_n(uint32_t *d, KD_GLOBAL const uint8_t *p, uint32_t pieces)
{
    KD_UNROLL
    for (uint32_t i = 0; i < pieces; i++)
        wt_words4(d + 4 * i, p + 16 * i);
}

/* The unit u of the row into registers. */
KD_FN void wt_load(enum qtype t, struct wt_raw *r, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    switch (t) {
    case QT_F16:
    case QT_BF16:
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) { /* a sector is two of these: not as what is read once */
            kd_u32x4 v = ((KD_GLOBAL const kd_u32x4 *)(s->p[0] + 128 * u))[i];
            r->q[4 * i] = v[0], r->q[4 * i + 1] = v[1], r->q[4 * i + 2] = v[2], r->q[4 * i + 3] = v[3];
        }
        return;
    case QT_Q2_K:
        wt_load_n(r->q, s->p[0] + 64 * u, 4);
        wt_load_n(r->s, s->p[1] + 16 * u, 1);
        r->s[4] = wt_word(s->p[2] + 4 * u);
        return;
    case QT_Q3_K:
        wt_load_n(r->q, s->p[0] + 64 * u, 4);
        wt_load_n(r->h, s->p[1] + 32 * u, 2);
        KD_UNROLL
        for (uint32_t i = 0; i < 3; i++)
            r->s[i] = wt_word(s->p[2] + 12 * u + 4 * i);
        r->s[3] = wt_half(s->p[3] + 2 * u);
        return;
    case QT_Q4_K:
        wt_load_n(r->q, s->p[0] + 128 * u, 8);
        wt_load_n(r->s, s->p[1] + 16 * u, 1);
        return;
    case QT_Q5_K:
        wt_load_n(r->q, s->p[0] + 128 * u, 8);
        wt_load_n(r->h, s->p[1] + 32 * u, 2);
        wt_load_n(r->s, s->p[2] + 16 * u, 1);
        return;
    case QT_Q6_K: { /* a unit is half a block */
        kd_u32x2 sc = kd_load_once8((KD_GLOBAL const kd_u32x2 *)(s->p[2] + 8 * u));
        wt_load_n(r->q, s->p[0] + 64 * u, 4);
        wt_load_n(r->h, s->p[1] + 32 * u, 2);
        r->s[0] = sc[0];
        r->s[1] = sc[1];
        r->s[2] = wt_half(s->p[3] + u / 2 * 2);
        return;
    }
    case QT_IQ4_XS: {
        kd_u32x2 head = kd_load_once8((KD_GLOBAL const kd_u32x2 *)(s->p[1] + 8 * u));
        wt_load_n(r->q, s->p[0] + 128 * u, 8);
        r->s[0] = head[0];
        r->s[1] = head[1];
        return;
    }
    default: wt_load_small(t, r, s, u, chunks);
    }
}

/* ---- codes: four bytes, elements 4 i .. 4 i + 3 of chunk c ---- */

KD_FN uint32_t wt_nibbles(uint32_t w, bool high) { return (high ? w >> 4 : w) & 0x0f0f0f0fu; }

/* Bits 0..3 of h to bit 4 of the four bytes. */
KD_FN uint32_t wt_fifth(uint32_t h) { return ((h & 15) * 0x00204081u & 0x01010101u) << 4; }

KD_FN uint32_t wt_lut(enum qtype t, uint32_t w, bool high)
{
    /* iq4_values + 127 and e2m1_x2 + 12 of kernels/q_tables.inc */
    const uint32_t iq4[4] = { 0x3e2c1700u, 0x75695c4eu, 0xa5988c80u, 0xf0d8c4b4u };
    const uint32_t fp4[4] = { 0x0f0e0d0cu, 0x18141210u, 0x090a0b0cu, 0x00040608u };
    uint32_t lo, hi;
    kd_lut16(t == QT_MXFP4 ? fp4 : iq4, w, &lo, &hi);
    return high ? hi : lo;
}

KD_FN uint32_t wt_codes(enum qtype t, const struct wt_raw *r, uint32_t c, uint32_t i)
{
    uint32_t small = 8 * c + i / 8 * 4 + i % 4; /* words of blocks and runs of 32 in 16 bytes */
    bool high = i % 8 >= 4;
    switch (t) {
    case QT_Q4_0:
    case QT_Q4_1: return wt_nibbles(r->q[small], high);
    case QT_Q5_0:
    case QT_Q5_1: return wt_nibbles(r->q[small], high) | wt_fifth(r->h[2 * c + i / 8] >> 4 * (i % 8));
    case QT_IQ4_NL:
    case QT_IQ4_XS:
    case QT_MXFP4: return wt_lut(t, r->q[small], high);
    case QT_Q8_0:
    case QT_OPENED: return r->q[16 * c + i] ^ 0x80808080u;
    case QT_Q2_K: return r->q[c / 2 * 8 + i % 8] >> 2 * ((2 * c + i / 8) % 4) & 0x03030303u;
    case QT_Q3_K:
        return (r->q[c / 2 * 8 + i % 8] >> 2 * ((2 * c + i / 8) % 4) & 0x03030303u) |
               (r->h[i % 8] >> (2 * c + i / 8) & 0x01010101u) << 2;
    case QT_Q4_K: return wt_nibbles(r->q[8 * c + i % 8], i >= 8);
    case QT_Q5_K:
        return wt_nibbles(r->q[8 * c + i % 8], i >= 8) | (r->h[i % 8] >> (2 * c + i / 8) & 0x01010101u) << 4;
    case QT_Q6_K: /* i / 8 is the quarter's low bit, c its high bit */
        return wt_nibbles(r->q[i], c) | (r->h[i % 8] >> 2 * (2 * c + i / 8) & 0x03030303u) << 4;
    default: return 0;
    }
}

/* ---- scales ---- */

KD_FN uint32_t wt_byte(const uint32_t *w, uint32_t i) { return w[i / 4] >> 8 * (i % 4) & 0xff; }
/* A small number as a float, without a conversion instruction. */
KD_FN float wt_small_f32(uint32_t v) { return kd_byte7_f32(v, 0) - 128.0f; }

/* Run of 32 j of a Q4_K or Q5_K head: d, dmin and 12 bytes (dequant.h: q4_k_scale_min). */
KD_FN void wt_scale_k4(const uint32_t s[4], uint32_t j, float *d, float *m)
{
    uint32_t sc, mn;
    if (j < 4) {
        sc = wt_byte(s + 1, j) & 63;
        mn = wt_byte(s + 2, j) & 63;
    } else {
        sc = (wt_byte(s + 3, j - 4) & 15) | wt_byte(s + 1, j - 4) >> 6 << 4;
        mn = wt_byte(s + 3, j - 4) >> 4 | wt_byte(s + 2, j - 4) >> 6 << 4;
    }
    *d = f16_to_f32((uint16_t)s[0]) * wt_small_f32(sc);
    *m = f16_to_f32((uint16_t)(s[0] >> 16)) * wt_small_f32(mn);
}

/* Weight = fma(f, d, o) with f = kd_byte7_f32, or kd_byte8_f32 for types whose codes need 8 bits. */
KD_FN void wt_scale(enum qtype t, const struct wt_raw *r, uint32_t c, uint32_t run, float *d, float *o)
{
    uint32_t b = run / 2; /* small block, or run of 32, in the chunk */
    float m;
    switch (t) {
    case QT_Q4_0:
    case QT_Q5_0:
    case QT_Q8_0:
    case QT_IQ4_NL: {
        *d = f16_to_f32((uint16_t)(r->s[c] >> 16 * b));
        *o = *d * (t == QT_Q4_0 ? -136.0f : t == QT_Q5_0 ? -144.0f : t == QT_Q8_0 ? -32896.0f : -32895.0f);
        return;
    }
    case QT_OPENED:
        *d = f32_from_bits(r->s[4 * c + run]);
        *o = *d * -32896.0f;
        return;
    case QT_Q4_1:
    case QT_Q5_1:
        *d = f16_to_f32((uint16_t)r->s[2 * c + b]);
        *o = k_fma(*d, -128.0f, f16_to_f32((uint16_t)(r->s[2 * c + b] >> 16)));
        return;
    case QT_MXFP4:
        *d = e8m0_half_to_f32((uint8_t)(r->s[c] >> 8 * b));
        *o = *d * -140.0f;
        return;
    case QT_Q2_K: {
        uint32_t v = wt_byte(r->s, 4 * c + run);
        *d = f16_to_f32((uint16_t)r->s[4]) * wt_small_f32(v & 15);
        m = f16_to_f32((uint16_t)(r->s[4] >> 16)) * wt_small_f32(v >> 4);
        *o = k_fma(*d, -128.0f, -m);
        return;
    }
    case QT_Q3_K: {
        uint32_t k = 4 * c + run, lo = k < 8 ? wt_byte(r->s, k) & 15 : wt_byte(r->s, k - 8) >> 4;
        uint32_t v = lo | (wt_byte(r->s, 8 + k % 4) >> 2 * (k / 4) & 3) << 4;
        *d = f16_to_f32((uint16_t)r->s[3]) * (wt_small_f32(v) - 32.0f);
        *o = *d * -132.0f;
        return;
    }
    case QT_Q4_K:
    case QT_Q5_K:
        wt_scale_k4(r->s, 2 * c + b, d, &m);
        *o = k_fma(*d, -128.0f, -m);
        return;
    case QT_Q6_K:
        *d = f16_to_f32((uint16_t)r->s[2]) * (kd_byte8_f32(r->s[c] ^ 0x80808080u, run) - 32896.0f);
        *o = *d * -160.0f;
        return;
    case QT_IQ4_XS: {
        uint32_t j = 2 * c + b, lo = r->s[1] >> 4 * j & 15, hi = r->s[0] >> (16 + 2 * j) & 3;
        *d = f16_to_f32((uint16_t)r->s[0]) * (wt_small_f32(lo | hi << 4) - 32.0f);
        *o = *d * -32895.0f;
        return;
    }
    default: *d = *o = 0.0f;
    }
}

KD_FN bool wt_wide(enum qtype t) { return qtype_bits(t) == 8; }

KD_FN uint32_t wt_pair(enum qtype t, uint32_t codes, uint32_t i, float d, float o)
{
    float f0 = wt_wide(t) ? kd_byte8_f32(codes, i) : kd_byte7_f32(codes, i);
    float f1 = wt_wide(t) ? kd_byte8_f32(codes, i + 1) : kd_byte7_f32(codes, i + 1);
    return kd_bf16x2_tame(k_fma(f0, d, o), k_fma(f1, d, o));
}

KD_FN kd_u32x4 wt_half_piece(enum qtype t, const uint32_t q[4])
{
    if (t == QT_BF16)
        return (kd_u32x4){ q[0], q[1], q[2], q[3] };
    kd_u32x4 v;
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        v[i] = kd_bf16x2_tame(kd_tame(f16_to_f32((uint16_t)q[i])), kd_tame(f16_to_f32((uint16_t)(q[i] >> 16))));
    return v;
}

/* Elements 8 p .. 8 p + 7 of chunk c as bf16. */
KD_FN kd_u32x4 wt_piece(enum qtype t, const struct wt_raw *r, uint32_t c, uint32_t p)
{
    if (wt_half_type(t))
        return wt_half_piece(t, r->q + 4 * p);
    float d, o;
    wt_scale(t, r, c, p / 2, &d, &o);
    d = kd_tame(d), o = kd_tame(o);
    uint32_t a = wt_codes(t, r, c, 2 * p), b = wt_codes(t, r, c, 2 * p + 1);
    return (kd_u32x4){ wt_pair(t, a, 0, d, o), wt_pair(t, a, 2, d, o),
                       wt_pair(t, b, 0, d, o), wt_pair(t, b, 2, d, o) };
}

#endif
