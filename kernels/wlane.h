/* kernels/wlane.h
 * Weights from planes (kernels/planes.h) to the registers that a matrix instruction takes as A, for a warp that owns tiles of
 * 16 weight rows. Codes go to a stage of shared memory unasked, a unit of 256 elements of each row at a time; scales through
 * registers, decoded once for the whole warp. Lane t of four that share a weight row holds, of each chunk of 64 along k,
 * words 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t (a word: four elements that follow each other), which are 8 bytes side by side in
 * most planes. Word s of the four is its share of the instruction's step s along k: k is permuted within a chunk, and x's
 * tile the same way (wl_x). A weight is fma(code - bias, d, o) in f16, its factors rounded to f16 too. sm_90a only, but for
 * wl_x.
 *
 *     wl_copy(type, stage, &src, u, n_in / WT_K);            src: of row lane / 2 of the tile. Codes of unit u, under way
 *     wl_copy_lines(..)                                      the same, for those who wait for memory
 *     wl_load_head(type, &head, &src, u, n_in / WT_K);       what its scales are made of, for half of the unit
 *     wl_store_scales(type, scales, &head);                  the scales to shared memory
 *     wl_open(type, stage, scales, row, c, a);               row: lane / 4 or lane / 4 + 8. a[2 s], a[2 s + 1] for steps s of
 *                                                            chunk c: elements 0 and 2 of the word, and 1 and 3
 *
 * `type` is a constant wherever these functions are called. */
#ifndef ZINC_KERNELS_WLANE_H
#define ZINC_KERNELS_WLANE_H

#include "kernels/wtile.h"
#if defined(KD_SM90)
#include "kernels/hw/half2.h"
#include "kernels/hw/mma.h"
#endif

enum { WL_ROWS = 16, WL_UNIT = 256, WL_CHUNKS = WL_UNIT / WT_K };

/* Element e of a chunk stands at wl_x(e) of x's tile. */
KD_FN uint32_t wl_x(uint32_t e)
{
    uint32_t w = e / 4, s = w / 8 * 2 + w % 2;
    return 16 * s + e % 2 * 8 + w % 8 / 2 * 2 + e % 4 / 2;
}
#if defined(KD_SM90)

/* ---- the stage: for each plane of codes, rows of pieces of 16 bytes, in an order in which no banks collide ---- */

/* Bytes of a unit in plane f of codes, 0 or 1. */
KD_FN uint32_t wl_bytes(enum qtype t, uint32_t f)
{
    bool codes = f == 0 || t == QT_Q3_K || t == QT_Q5_K || t == QT_Q6_K;
    return codes ? planes_of(t).f[f].len * (WL_UNIT / qtype_block(t)) : 0;
}
KD_FN uint32_t wl_stage_bytes(enum qtype t) { return WL_ROWS * (wl_bytes(t, 0) + wl_bytes(t, 1)); }

/* What the number of a piece is xored with in row r, of n pieces. */
KD_FN uint32_t wl_swizzle(uint32_t n, uint32_t r) { return n >= 8 ? r % 4 * 2 : n == 4 ? r / 2 % 2 * 2 : 0; }

/* Codes of unit u; of the chunks behind the row's end, nothing. */
KD_FN void wl_copy(enum qtype t, KD_SHARED uint8_t *stage, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    uint32_t h = kd_lane() % 2, r = kd_lane() / 2;
    KD_UNROLL
    for (uint32_t f = 0; f < 2; f++) {
        uint32_t bytes = wl_bytes(t, f), n = bytes / 16;
        if (!n)
            continue;
        KD_SHARED uint8_t *to = stage + r * bytes;
        KD_UNROLL
        for (uint32_t i = 0; i < n; i += 2) {
            bool on = qtype_block(t) > WT_K || u * WL_CHUNKS + (i + h) / (n / WL_CHUNKS) < chunks;
            kd_copy16(to + ((i ^ wl_swizzle(n, r)) + h) * 16, s->p[f] + u * bytes + (i + h) * 16, on);
        }
        stage += WL_ROWS * bytes;
    }
}

/* The same by whole lines: each instruction takes a few rows' lines in place of 32 bytes of every row, which comes faster
 * (doc/speed-log.md), but lanes have to be told each other's addresses. */
KD_FN void wl_copy_lines(enum qtype t, KD_SHARED uint8_t *stage, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    KD_UNROLL
    for (uint32_t f = 0; f < 2; f++) {
        uint32_t bytes = wl_bytes(t, f), n = bytes / 16;
        if (!n)
            continue;
        uint64_t own = (uint64_t)s->p[f];
        KD_UNROLL
        for (uint32_t i = 0; i < WL_ROWS * n; i += KD_WARP) {
            uint32_t r = (i + kd_lane()) / n, piece = (i + kd_lane()) % n;
            uint64_t row = kd_shfl_u32((uint32_t)own, 2 * r) | (uint64_t)kd_shfl_u32((uint32_t)(own >> 32), 2 * r) << 32;
            bool on = qtype_block(t) > WT_K || u * WL_CHUNKS + piece / (n / WL_CHUNKS) < chunks;
            kd_copy16(stage + r * bytes + (piece ^ wl_swizzle(n, r)) * 16, KD_PTR(const uint8_t, row) + u * bytes + piece * 16, on);
        }
        stage += WL_ROWS * bytes;
    }
}

/* The 8 bytes of row r that start at `at` + 8 of them for each lane of the row's four (or of two of them, in turn). */
KD_FN kd_u32x2 wl_get8(KD_SHARED const uint8_t *plane, uint32_t bytes, uint32_t r, uint32_t at, uint32_t lane)
{
    uint32_t piece = (at / 16 ^ wl_swizzle(bytes / 16, r)) + lane / 2;
    return *(KD_SHARED const kd_u32x2 *)(plane + r * bytes + piece * 16 + lane % 2 * 8);
}

/* ---- scales: a word {d, o} in f16, or d twice where there is no o, for each run of 32, or of 16 ---- */

KD_FN bool wl_has_min(enum qtype t)
{
    return t == QT_Q4_1 || t == QT_Q5_1 || t == QT_Q2_K || t == QT_Q4_K || t == QT_Q5_K;
}
KD_FN bool wl_fifth(enum qtype t) { return t == QT_Q5_0 || t == QT_Q5_1; } /* with the codes' fifth bits beside them */
/* Words of a chunk, and of a row with what keeps rows off each other's banks. */
KD_FN uint32_t wl_chunk_words(enum qtype t)
{
    return t == QT_Q2_K || t == QT_Q3_K || t == QT_Q6_K || t == QT_OPENED || wl_fifth(t) ? 4 : 2;
}
KD_FN uint32_t wl_row_words(enum qtype t)
{
    return t == QT_OPENED ? 16 : wl_chunk_words(t) == 4 ? 20 : 8; /* 16: or two slots would be more than the ring */
}
KD_FN uint32_t wl_scale_bytes(enum qtype t) { return WL_ROWS * wl_row_words(t) * 4; }

struct wl_head {
    uint32_t w[8];
};

KD_FN void wl_load8(uint32_t *d, KD_GLOBAL const uint8_t *p)
{
    kd_u32x2 v = kd_load_once8((KD_GLOBAL const kd_u32x2 *)p);
    d[0] = v[0], d[1] = v[1];
}

/* For two chunks of unit u, the first two or the last two of its four; behind the row's end, the last one again. */
KD_FN void wl_load_head(enum qtype t, struct wl_head *r, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    uint32_t h = kd_lane() % 2, *w = r->w;
    switch (t) {
    case QT_Q2_K:
        wl_load8(w, s->p[1] + 16 * u + 8 * h);
        w[2] = wt_word(s->p[2] + 4 * u);
        return;
    case QT_Q3_K:
        KD_UNROLL
        for (uint32_t i = 0; i < 3; i++)
            w[i] = wt_word(s->p[2] + 12 * u + 4 * i);
        w[3] = wt_half(s->p[3] + 2 * u);
        return;
    case QT_Q4_K: wt_load_n(w, s->p[1] + 16 * u, 1); return;
    case QT_Q5_K: wt_load_n(w, s->p[2] + 16 * u, 1); return;
    case QT_Q6_K:
        wl_load8(w, s->p[2] + 16 * u + 8 * h);
        w[2] = wt_half(s->p[3] + 2 * u);
        return;
    case QT_IQ4_XS: wl_load8(w, s->p[1] + 8 * u); return;
    default: break;
    }
    KD_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        uint32_t at = 2 * kd_min_u32(WL_CHUNKS * u + 2 * h + c, chunks - 1);
        if (wl_fifth(t))
            w[4 + 2 * c] = wt_word(s->p[1] + 4 * at), w[5 + 2 * c] = wt_word(s->p[1] + 4 * at + 4);
        if (t == QT_Q4_1 || t == QT_Q5_1) {
            KD_GLOBAL const uint8_t *p = s->p[t == QT_Q4_1 ? 1 : 2] + 4 * at;
            w[2 * c] = wt_word(p), w[2 * c + 1] = wt_word(p + 4);
        } else if (t == QT_OPENED) {
            wt_words4(w + 4 * c, s->p[1] + 8 * at);
        } else if (t == QT_MXFP4) {
            w[c] = wt_half(s->p[1] + at);
        } else {
            w[c] = wt_word(s->p[t == QT_Q5_0 ? 2 : 1] + 2 * at);
        }
    }
}

/* Of 1024 a unit in the last place is 1. */
enum { H2_1024 = 0x6400, H2_MINUS_1024 = 0xe400, H2_MINUS_64 = 0xd400, H2_16TH = 0x2c00, H2_2_15 = 0x7800 };

KD_FN uint32_t wl_byte(const uint32_t *w, uint32_t i) { return w[i / 4] >> 8 * (i % 4) & 0xff; }

/* A code of up to 8 bits in each half, minus the bias. */
KD_FN uint32_t wl_small(uint32_t lo, uint32_t hi, uint32_t bias)
{
    return h2_add((lo | hi << 16) | H2(H2_1024), H2(H2_MINUS_1024 + bias));
}

/* d times two scales, each twice. */
KD_FN void wl_two(uint32_t *v, uint32_t a, uint32_t b, uint32_t bias, uint32_t d)
{
    uint32_t p = h2_mul(wl_small(a, b, bias), h2_lo(d));
    v[0] = h2_lo(p), v[1] = h2_hi(p);
}

/* The words of run i, of the lane's four of 32 elements or eight of 16; of two where the type has no o. */
KD_FN void wl_run(enum qtype t, const uint32_t *w, uint32_t i, uint32_t *v)
{
    uint32_t h = kd_lane() % 2, x, y;
    switch (t) {
    case QT_Q4_0:
    case QT_Q5_0:
    case QT_Q8_0:
    case QT_IQ4_NL: v[0] = h2_lo(w[i / 2]), v[1] = h2_hi(w[i / 2]); return;
    case QT_Q4_1:
    case QT_Q5_1: v[0] = w[i]; return;
    case QT_OPENED:
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            v[k] = h2_from(f32_from_bits(w[i + k]), f32_from_bits(w[i + k]));
        return;
    case QT_MXFP4:
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            float f = e8m0_half_to_f32((uint8_t)(w[i / 2] >> 8 * k));
            v[k] = h2_from(f, f);
        }
        return;
    case QT_Q2_K:
        x = wl_byte(w, i);
        v[0] = h2_mul(wl_small(x & 15, x >> 4, 0), w[2]) ^ 0x80000000u;
        return;
    case QT_Q4_K:
    case QT_Q5_K:
        x = h ? (w[3] & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u) : w[1] & 0x3f3f3f3fu;
        y = h ? (w[3] >> 4 & 0x0f0f0f0fu) | (w[2] >> 2 & 0x30303030u) : w[2] & 0x3f3f3f3fu;
        v[0] = h2_mul(wl_small(wl_byte(&x, i), wl_byte(&y, i), 0), w[0]) ^ 0x80000000u;
        return;
    case QT_Q3_K: {
        uint32_t n[2];
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            n[k] = (wl_byte(w, i + k) >> 4 * h & 15) | (wl_byte(w + 2, (i + k) % 4) >> 2 * (2 * h + i / 4) & 3) << 4;
        wl_two(v, n[0], n[1], 32, w[3]);
        return;
    }
    case QT_Q6_K: wl_two(v, wl_byte(w, i) ^ 0x80, wl_byte(w, i + 1) ^ 0x80, 128, w[2]); return;
    case QT_IQ4_XS:
        x = w[1] >> 16 * h, y = w[0] >> (16 + 8 * h);
        wl_two(v, (x >> 4 * i & 15) | (y >> 2 * i & 3) << 4, (x >> 4 * (i + 1) & 15) | (y >> 2 * (i + 1) & 3) << 4, 32,
               w[0]);
        return;
    default: v[0] = v[1] = 0;
    }
}

KD_FN void wl_store_scales(enum qtype t, KD_SHARED uint32_t *scales, const struct wl_head *head)
{
    uint32_t per = wl_chunk_words(t), runs = per == 4 && !wl_fifth(t) ? 8 : 4, v[8];
    KD_UNROLL
    for (uint32_t i = 0; i < runs; i += wl_has_min(t) ? 1 : 2)
        wl_run(t, head->w, i, v + i);
    KD_SHARED kd_u32x4 *to = (KD_SHARED kd_u32x4 *)(scales + kd_lane() / 2 * wl_row_words(t) + kd_lane() % 2 * 2 * per);
    if (wl_fifth(t)) {
        to[0] = (kd_u32x4){ v[0], v[1], head->w[4], head->w[5] };
        to[1] = (kd_u32x4){ v[2], v[3], head->w[6], head->w[7] };
    } else if (runs == 8) { /* a lane of four needs the runs of its half of both blocks of 32 */
        to[0] = (kd_u32x4){ v[0], v[2], v[1], v[3] };
        to[1] = (kd_u32x4){ v[4], v[6], v[5], v[7] };
    } else {
        to[0] = (kd_u32x4){ v[0], v[1], v[2], v[3] };
    }
}

/* ---- a chunk of a row ---- */

/* Codes, high bits and scales of a lane's 16 elements. */
struct wl_raw {
    uint32_t q[4], h[2], s[2];
};

KD_FN void wl_get(enum qtype t, struct wl_raw *r, KD_SHARED const uint8_t *stage, KD_SHARED const uint32_t *scales,
                  uint32_t row, uint32_t c)
{
    uint32_t l = kd_lane() % 4, n0 = wl_bytes(t, 0), n1 = wl_bytes(t, 1);
    KD_SHARED const uint8_t *high = stage + WL_ROWS * n0;
    KD_SHARED const uint32_t *s = scales + row * wl_row_words(t) + c * wl_chunk_words(t);
    KD_UNROLL
    for (uint32_t b = 0; b < 2; b++) {
        kd_u32x2 v = { 0, 0 };
        switch (t) {
        case QT_Q2_K:
        case QT_Q3_K:
        case QT_Q4_K:
        case QT_Q5_K: /* both blocks of 32 in the same bytes */
            if (b == 0)
                v = wl_get8(stage, n0, row, t == QT_Q4_K || t == QT_Q5_K ? 32 * c : c / 2 * 32, l);
            break;
        case QT_Q6_K: v = wl_get8(stage, n0, row, c / 2 * 64 + 32 * b, l); break;
        case QT_OPENED:
        case QT_Q8_0: v = wl_get8(stage, n0, row, 64 * c + 32 * b, l); break;
        default: v = wl_get8(stage, n0, row, 32 * c, 2 * b + l % 2); break;
        }
        r->q[2 * b] = v[0], r->q[2 * b + 1] = v[1];
    }
    if (n1) {
        kd_u32x2 v = wl_get8(high, n1, row, t == QT_Q6_K ? c / 2 * 32 : 0, l);
        r->h[0] = v[0], r->h[1] = v[1];
    }
    if (wl_fifth(t)) {
        kd_u32x4 v = *(KD_SHARED const kd_u32x4 *)s;
        r->s[0] = v[0], r->s[1] = v[1], r->h[0] = v[2], r->h[1] = v[3];
        return;
    }
    kd_u32x2 v = ((KD_SHARED const kd_u32x2 *)s)[wl_chunk_words(t) == 4 ? l / 2 : 0];
    r->s[0] = v[0], r->s[1] = v[1];
}

/* As wt_lut, of the lower nibbles of four bytes: brought together, they are one look at the table. */
KD_FN uint32_t wl_iq4(uint32_t q)
{
#if defined(__NVPTX__)
    const uint32_t iq4[4] = { 0x3e2c1700u, 0x75695c4eu, 0xa5988c80u, 0xf0d8c4b4u };
    uint32_t n = q & 0x0f0f0f0fu;
    return kd_lut16_half(iq4, __nvvm_prmt(n | n >> 4, 0, 0x4420u)); /* bytes 0 and 2: a nibble each and the next byte's */
#else
    return wt_lut(QT_IQ4_XS, q, false);
#endif
}

/* The codes of word s of chunk c, as wt_codes has them. */
KD_FN uint32_t wl_codes(enum qtype t, const struct wl_raw *r, uint32_t c, uint32_t s)
{
    uint32_t l = kd_lane() % 4, k = s % 2, b = s / 2;
    switch (t) {
    case QT_Q4_0:
    case QT_Q4_1: return r->q[s] >> l / 2 * 4 & 0x0f0f0f0fu;
    case QT_Q5_0:
    case QT_Q5_1: return (r->q[s] >> l / 2 * 4 & 0x0f0f0f0fu) | wt_fifth(r->h[b] >> (8 * l + 4 * k));
    case QT_IQ4_NL:
    case QT_IQ4_XS: return wl_iq4(r->q[s] >> l / 2 * 4);
    case QT_OPENED:
    case QT_Q8_0: return r->q[s] ^ 0x80808080u;
    case QT_Q2_K: return r->q[k] >> (c % 2 * 4 + 2 * b) & 0x03030303u;
    case QT_Q3_K:
        return (r->q[k] >> (c % 2 * 4 + 2 * b) & 0x03030303u) | (r->h[k] >> (2 * c + b) & 0x01010101u) << 2;
    case QT_Q5_K: return wt_nibbles(r->q[k], b) | (r->h[k] >> (2 * c + b) & 0x01010101u) << 4;
    case QT_Q6_K: return (r->q[s] >> c % 2 * 4 & 0x0f0f0f0fu) | (r->h[k] >> (c % 2 * 4 + 2 * b) & 0x03030303u) << 4;
    default: return 0;
    }
}

/* What codes have to be lowered by, added to the 1024 of h2_codes. */
KD_FN uint32_t wl_bias(enum qtype t)
{
    return t == QT_Q4_0                        ? 8
           : t == QT_Q5_0                      ? 16
           : t == QT_Q8_0 || t == QT_OPENED    ? 128
           : t == QT_IQ4_NL || t == QT_IQ4_XS  ? 127
           : t == QT_Q3_K                      ? 4
           : t == QT_Q6_K                      ? 32
                                               : 0;
}

/* E2M1 in the lower half of each byte, times d: its sign, exponent and mantissa are the first bits of the f16 that is 2^-14 of it, and
 * d is half of the block's scale. Neither product rounds. */
KD_FN void wl_fp4(uint32_t q, uint32_t d, uint32_t *a)
{
    uint32_t bytes = (q << 1 & 0x0e0e0e0eu) | (q << 4 & 0x80808080u);
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        a[i] = h2_mul(h2_mul(h2_high(bytes, i), H2(H2_2_15)), d);
}

/* The lower or upper nibbles of bytes 0 and 2, or 1 and 3, as f16: 1024 + c less 1024, or (1024 + 16 c) / 16 less 64. */
KD_FN uint32_t wl_nibbles(uint32_t q, bool high, bool odd)
{
    uint32_t v = h2_masked(odd ? q >> 8 : q, high ? 0x00f000f0u : 0x000f000fu);
    return high ? h2_fma(v, H2(H2_16TH), H2(H2_MINUS_64)) : h2_add(v, H2(H2_MINUS_1024));
}

KD_FN void wl_open(enum qtype t, KD_SHARED const uint8_t *stage, KD_SHARED const uint32_t *scales, uint32_t row,
                   uint32_t c, uint32_t *a)
{
    struct wl_raw r;
    wl_get(t, &r, stage, scales, row, c);
    KD_UNROLL
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t codes = wl_codes(t, &r, c, s), d = r.s[s / 2], o = 0;
        if (wl_has_min(t))
            o = h2_hi(d), d = h2_lo(d);
        if (t == QT_MXFP4) {
            wl_fp4(r.q[s] >> kd_lane() % 4 / 2 * 4, d, a + 2 * s);
            continue;
        }
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t v = t == QT_Q4_K ? wl_nibbles(r.q[s % 2], s / 2, i) : h2_add(h2_codes(codes, i), H2(H2_MINUS_1024 + wl_bias(t)));
            a[2 * s + i] = wl_has_min(t) ? h2_fma(v, d, o) : h2_mul(v, d);
        }
    }
}
#endif

#endif
