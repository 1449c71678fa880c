/* kernels/wlane.h
 * Weights from planes (kernels/planes.h) straight into the registers that a matrix instruction takes as A: no shared
 * memory lies between. Lane t of four that share a weight row holds, of each chunk of 64 along k, words 2 t, 2 t + 1,
 * 8 + 2 t and 9 + 2 t (a word: four elements that follow each other), which are 8 bytes side by side in most planes.
 * Word s of the four is its share of the instruction's step s along k: k is permuted within a chunk, and x's tile the
 * same way (wl_x). A weight is fma(code - bias, d, o) in f16, its factors rounded to f16 too. sm_90a only, but for wl_x.
 *
 *     struct wt_src src = wt_src(type, base, n_rows, n_in, row);
 *     struct wl_raw raw;
 *     wl_load(type, &raw, &src, u, n_in / WT_K);              a unit of wl_unit_chunks(type) chunks
 *     wl_open(type, &raw, u, c, b, a);                        a[2 s], a[2 s + 1] for steps s = 2 b, 2 b + 1 of chunk c:
 *                                                             elements 0 and 2 of the word, and 1 and 3
 *
 * `type` is a constant wherever these functions are called, and so are c and b. */
#ifndef ZINC_KERNELS_WLANE_H
#define ZINC_KERNELS_WLANE_H

#include "kernels/wtile.h"
#if defined(KD_SM90)
#include "kernels/hw/half2.h"
#endif

struct wl_raw {
    uint32_t q[8], h[4], s[5]; /* codes, their high bits, scales as wt_raw has them */
};

KD_FN bool wl_is_long(enum qtype t) { return t == QT_Q2_K || t == QT_Q3_K || t == QT_Q4_K || t == QT_Q5_K; }
KD_FN uint32_t wl_unit_chunks(enum qtype t) { return wl_is_long(t) ? 4 : 2; }
KD_FN uint32_t wl_units(enum qtype t, uint32_t n_in) { return kd_div_up(n_in, wl_unit_chunks(t) * WT_K); }

/* Element e of a chunk stands at wl_x(e) of x's tile. */
KD_FN uint32_t wl_x(uint32_t e)
{
    uint32_t w = e / 4, s = w / 8 * 2 + w % 2;
    return 16 * s + e % 2 * 8 + w % 8 / 2 * 2 + e % 4 / 2;
}
#if defined(KD_SM90)

KD_FN void wl_load8(uint32_t *d, KD_GLOBAL const uint8_t *p)
{
    kd_u32x2 v = kd_load_once8((KD_GLOBAL const kd_u32x2 *)p);
    d[0] = v[0], d[1] = v[1];
}

/* ---- loads: the codes of a unit chunk by chunk, each into the place of those that are used up; the rest at once ---- */

/* Codes of unit u that take the place of those that chunk c was the last to need. `chunks`: of the row; blocks behind the
 * row's end are read as the last one. */
KD_FN void wl_load_codes(enum qtype t, struct wl_raw *r, const struct wt_src *s, uint32_t u, uint32_t c, uint32_t chunks)
{
    uint32_t l = kd_lane() % 4, at = 2 * kd_min_u32(2 * u + c, chunks - 1); /* of blocks of 32 */
    switch (t) {
    case QT_Q2_K:
    case QT_Q3_K:
        if (c % 2)
            wl_load8(r->q + c / 2 * 2, s->p[0] + 64 * u + 32 * (c / 2) + 8 * l);
        return;
    case QT_Q4_K:
    case QT_Q5_K: wl_load8(r->q + 2 * c, s->p[0] + 128 * u + 32 * c + 8 * l); return;
    case QT_Q6_K:
        if (c % 2 == 0)
            return;
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            wl_load8(r->q + 2 * i, s->p[0] + 64 * u + 32 * i + 8 * l);
        return;
    default: break;
    }
    KD_UNROLL
    for (uint32_t b = 0; b < 2; b++)
        wl_load8(r->q + 4 * c + 2 * b,
                 t == QT_Q8_0 ? s->p[0] + 32 * (at + b) + 8 * l : s->p[0] + 16 * (at + b) + 8 * (l % 2));
}

/* High bits and scales of unit u. */
KD_FN void wl_load_head(enum qtype t, struct wl_raw *r, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    uint32_t l = kd_lane() % 4;
    switch (t) {
    case QT_Q2_K:
        wt_load_n(r->s, s->p[1] + 16 * u, 1);
        r->s[4] = wt_word(s->p[2] + 4 * u);
        return;
    case QT_Q3_K:
        wl_load8(r->h, s->p[1] + 32 * u + 8 * l);
        KD_UNROLL
        for (uint32_t i = 0; i < 3; i++)
            r->s[i] = wt_word(s->p[2] + 12 * u + 4 * i);
        r->s[3] = wt_half(s->p[3] + 2 * u);
        return;
    case QT_Q4_K: wt_load_n(r->s, s->p[1] + 16 * u, 1); return;
    case QT_Q5_K:
        wl_load8(r->h, s->p[1] + 32 * u + 8 * l);
        wt_load_n(r->s, s->p[2] + 16 * u, 1);
        return;
    case QT_Q6_K:
        wl_load8(r->h, s->p[1] + 32 * u + 8 * l);
        wl_load8(r->s, s->p[2] + 8 * u);
        r->s[2] = wt_half(s->p[3] + u / 2 * 2);
        return;
    case QT_IQ4_XS: wl_load8(r->s, s->p[1] + u / 2 * 8); return; /* a unit is half a block */
    default: break;
    }
    KD_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        uint32_t at = 2 * kd_min_u32(2 * u + c, chunks - 1);
        if (t == QT_Q5_0 || t == QT_Q5_1)
            r->h[2 * c] = wt_word(s->p[1] + 4 * at), r->h[2 * c + 1] = wt_word(s->p[1] + 4 * at + 4);
        if (t == QT_Q4_1 || t == QT_Q5_1) {
            KD_GLOBAL const uint8_t *p = s->p[t == QT_Q4_1 ? 1 : 2] + 4 * at;
            r->s[2 * c] = wt_word(p), r->s[2 * c + 1] = wt_word(p + 4);
        } else if (t == QT_MXFP4) {
            r->s[c] = wt_half(s->p[1] + at);
        } else {
            r->s[c] = wt_word(s->p[t == QT_Q5_0 ? 2 : 1] + 2 * at);
        }
    }
}

/* All of unit u. */
KD_FN void wl_load(enum qtype t, struct wl_raw *r, const struct wt_src *s, uint32_t u, uint32_t chunks)
{
    wl_load_head(t, r, s, u, chunks);
    KD_UNROLL
    for (uint32_t c = 0; c < wl_unit_chunks(t); c++)
        wl_load_codes(t, r, s, u, c, chunks);
}
KD_FN void wl_take_head(struct wl_raw *r, const struct wl_raw *from)
{
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        r->h[i] = from->h[i];
    KD_UNROLL
    for (uint32_t i = 0; i < 5; i++)
        r->s[i] = from->s[i];
}

/* The codes of word s of chunk c, as wt_codes has them. */
KD_FN uint32_t wl_codes(enum qtype t, const struct wl_raw *r, uint32_t c, uint32_t s)
{
    uint32_t l = kd_lane() % 4, k = s % 2, b = s / 2, small = 4 * c + s;
    switch (t) {
    case QT_Q4_0:
    case QT_Q4_1: return r->q[small] >> l / 2 * 4 & 0x0f0f0f0fu;
    case QT_Q5_0:
    case QT_Q5_1:
        return (r->q[small] >> l / 2 * 4 & 0x0f0f0f0fu) | wt_fifth(r->h[2 * c + b] >> (8 * l + 4 * k));
    case QT_IQ4_NL:
    case QT_IQ4_XS:
    case QT_MXFP4: return wt_lut(t, r->q[small] >> l / 2 * 4, false);
    case QT_Q8_0: return r->q[small] ^ 0x80808080u;
    case QT_Q2_K: return r->q[c / 2 * 2 + k] >> 2 * ((2 * c + b) % 4) & 0x03030303u;
    case QT_Q3_K:
        return (r->q[c / 2 * 2 + k] >> 2 * ((2 * c + b) % 4) & 0x03030303u) |
               (r->h[k] >> (2 * c + b) & 0x01010101u) << 2;
    case QT_Q4_K: return wt_nibbles(r->q[2 * c + k], b);
    case QT_Q5_K: return wt_nibbles(r->q[2 * c + k], b) | (r->h[k] >> (2 * c + b) & 0x01010101u) << 4;
    case QT_Q6_K: return wt_nibbles(r->q[s], c) | (r->h[k] >> 2 * (2 * c + b) & 0x03030303u) << 4;
    default: return 0;
    }
}

KD_FN uint32_t wl_byte(uint32_t w, uint32_t i) { return w >> 8 * i & 0xff; }

/* What codes have to be lowered by, added to the 1024 of h2_codes. */
KD_FN uint32_t wl_bias(enum qtype t)
{
    return t == QT_Q4_0                        ? 8
           : t == QT_Q5_0                      ? 16
           : t == QT_Q8_0                      ? 128
           : t == QT_IQ4_NL || t == QT_IQ4_XS  ? 127
           : t == QT_MXFP4                     ? 12
           : t == QT_Q3_K                      ? 4
           : t == QT_Q6_K                      ? 32
                                               : 0;
}
KD_FN bool wl_has_min(enum qtype t)
{
    return t == QT_Q4_1 || t == QT_Q5_1 || t == QT_Q2_K || t == QT_Q4_K || t == QT_Q5_K;
}

enum { H2_1024 = 0x6400, H2_MINUS_1024 = 0xe400 }; /* a unit in the last place is 1 */

/* A code of up to 8 bits in each half, minus the biases. */
KD_FN uint32_t wl_small(uint32_t lo, uint32_t hi, uint32_t bias)
{
    return h2_add((lo | hi << 16) | H2(H2_1024), H2(H2_MINUS_1024 + bias));
}

/* The factors of half b of chunk c in both halves. */
KD_FN void wl_scale(enum qtype t, const uint32_t *w, uint32_t c, uint32_t b, uint32_t *d, uint32_t *o)
{
    uint32_t run = 2 * b + kd_lane() % 4 / 2, v, sc, mn;
    *o = 0;
    switch (t) {
    case QT_Q4_0:
    case QT_Q5_0:
    case QT_Q8_0:
    case QT_IQ4_NL: *d = b ? h2_hi(w[c]) : h2_lo(w[c]); return;
    case QT_Q4_1:
    case QT_Q5_1: *d = h2_lo(w[2 * c + b]), *o = h2_hi(w[2 * c + b]); return;
    case QT_MXFP4: {
        float f = e8m0_half_to_f32((uint8_t)(w[c] >> 8 * b));
        *d = h2_from(f, f);
        return;
    }
    case QT_Q2_K:
        v = wl_byte(w[c], run);
        v = h2_mul(wl_small(v & 15, v >> 4, 0), w[4]);
        break;
    case QT_Q4_K:
    case QT_Q5_K:
        if (c < 2) {
            sc = w[1] & 0x3f3f3f3fu, mn = w[2] & 0x3f3f3f3fu;
        } else {
            sc = (w[3] & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u);
            mn = (w[3] >> 4 & 0x0f0f0f0fu) | (w[2] >> 2 & 0x30303030u);
        }
        v = __nvvm_prmt(sc, mn, c % 2 ? 0x7362u : 0x5140u);
        v = h2_add(__nvvm_prmt(v, 0x64646464u, b ? 0x4342u : 0x4140u), H2(H2_MINUS_1024));
        v = h2_mul(v, w[0]);
        break;
    case QT_Q3_K:
        v = (wl_byte(w[c % 2], run) >> c / 2 * 4 & 15) | (wl_byte(w[2], run) >> 2 * c & 3) << 4;
        *d = h2_lo(h2_mul(wl_small(v, 0, 32), w[3]));
        return;
    case QT_Q6_K: *d = h2_lo(h2_mul(wl_small(wl_byte(w[c], run) ^ 0x80, 0, 128), w[2])); return;
    case QT_IQ4_XS: /* c counts from the block's start */
        v = (w[1] >> 4 * (2 * c + b) & 15) | (w[0] >> (16 + 2 * (2 * c + b)) & 3) << 4;
        *d = h2_lo(h2_mul(wl_small(v, 0, 32), w[0]));
        return;
    default: *d = 0; return;
    }
    *d = h2_lo(v);
    *o = h2_hi(v) ^ 0x80008000u;
}

/* Steps 2 b and 2 b + 1 of chunk c. */
KD_FN void wl_open(enum qtype t, const struct wl_raw *r, uint32_t u, uint32_t c, uint32_t b, uint32_t *a)
{
    uint32_t d, o;
    wl_scale(t, r->s, t == QT_IQ4_XS ? u % 2 * 2 + c : c, b, &d, &o);
    KD_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t codes = wl_codes(t, r, c, 2 * b + k);
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t v = h2_add(h2_codes(codes, i), H2(H2_MINUS_1024 + wl_bias(t)));
            a[4 * b + 2 * k + i] = wl_has_min(t) ? h2_fma(v, d, o) : h2_mul(v, d);
        }
    }
}
#endif

#endif
