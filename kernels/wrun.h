/* kernels/wrun.h
 * Weights for matrix instructions on signed bytes (kernels/hw/mma8.h): what a lane holds of a unit of 128 elements of a
 * weight row, and how a run of it, 16 or 32 elements that share a scale, opens into the lane's words of A. `type` is a
 * constant wherever these functions are called.
 *
 *     uint32_t w[WR_WORDS];
 *     wr_load(type, w, &m, first block of the row, unit, blocks of the row);
 *     for (uint32_t r = 0; r < wr_runs(type); r++)
 *         wr_open(type, w, unit, r, q, &dw, &mw);               q[1]: runs of 32 only
 *
 * Lane t of a quad has the words that x's words wr_x(type, r, 0) and, in runs of 32, wr_x(type, r, 1) meet. */
#ifndef ZINC_KERNELS_WRUN_H
#define ZINC_KERNELS_WRUN_H

#include "kernels/wdot.h"
#include "kernels/wrun_shared.h"

enum { WR_WORDS = 16, WR_UNIT = 128 };

KD_FN uint32_t wr_runs(uint32_t type) { return wr_is_short(type) ? 8 : 4; }

/* The word of a block of 32 elements of x, of eight. */
KD_FN uint32_t wr_x(uint32_t type, uint32_t r, uint32_t k)
{
    uint32_t t = kd_lane() % 4;
    return wr_is_short(type) ? (r & 1) * 4 + t : wr_is_wide(type) ? 2 * t + k : 4 * k + t;
}

KD_FN uint32_t wr_get4(gpu_va p) { return *KD_PTR(const uint32_t, p); }

/* at: the row's first block in its matrix; blocks: of a row. A unit behind the row's end reads the last block. codes, scales: which of
 * the words of types whose scales are codes (wr_is_coded); the others load all. */
KD_FN void wr_load_part(uint32_t type, bool codes, bool scales, uint32_t *w, const struct wd_mat *m, uint32_t at, uint32_t u, uint32_t blocks)
{
    uint64_t t = kd_lane() % 4, k = at + (u >> 1), pair = u & 1; /* k: of the K types, two units long */
    switch (type) {
    case QT_Q4_K:
    case QT_Q5_K:
        if (codes) {
            wd_get8(false, w, m->p[0] + k * 128 + pair * 64 + t * 8);
            wd_get8(false, w + 2, m->p[0] + k * 128 + pair * 64 + 32 + t * 8);
        }
        if (scales)
            wd_get16(false, w + 4, m->p[type == QT_Q4_K ? 1 : 2] + k * 16);
        if (codes && type == QT_Q5_K)
            wd_get8(false, w + 8, m->p[1] + k * 32 + t * 8);
        return;
    case QT_Q6_K:
        if (codes) {
            for (uint32_t i = 0; i < 4; i++)
                w[i] = wr_get4(m->p[0] + k * 128 + pair * 64 + i * 16 + t * 4);
            for (uint32_t i = 0; i < 2; i++)
                w[4 + i] = wr_get4(m->p[1] + k * 64 + pair * 32 + i * 16 + t * 4);
        }
        if (scales) {
            wd_get8(false, w + 6, m->p[2] + k * 16 + pair * 8);
            w[8] = wd_get2(false, m->p[3] + k * 2);
        }
        return;
    case QT_Q2_K:
        for (uint32_t i = 0; i < 2 && codes; i++)
            w[i] = wr_get4(m->p[0] + k * 64 + pair * 32 + i * 16 + t * 4);
        if (scales) {
            wd_get8(false, w + 2, m->p[1] + k * 16 + pair * 8);
            w[4] = wr_get4(m->p[2] + k * 4);
        }
        return;
    case QT_Q3_K:
        for (uint32_t i = 0; i < 2 && codes; i++) {
            w[i] = wr_get4(m->p[0] + k * 64 + pair * 32 + i * 16 + t * 4);
            w[2 + i] = wr_get4(m->p[1] + k * 32 + i * 16 + t * 4);
        }
        if (scales) {
            for (uint32_t i = 0; i < 3; i++)
                w[4 + i] = wr_get4(m->p[2] + k * 12 + i * 4);
            w[7] = wd_get2(false, m->p[3] + k * 2);
        }
        return;
    case QT_IQ4_XS:
        for (uint32_t i = 0; i < 4 && codes; i++)
            w[i] = wr_get4(m->p[0] + k * 128 + pair * 64 + i * 16 + t * 4);
        if (scales)
            wd_get8(false, w + 4, m->p[1] + k * 8);
        return;
    default: break;
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t b = at + kd_min_u32(4 * u + i, blocks - 1);
        if (type == QT_OPENED) {
            w[2 * i] = wr_get4(m->p[0] + b * 32 + t * 4);
            w[2 * i + 1] = wr_get4(m->p[0] + b * 32 + 16 + t * 4);
            wd_get8(false, w + 8 + 2 * i, m->p[1] + b * 8);
            continue;
        }
        if (type == QT_Q8_0) {
            wd_get8(false, w + 2 * i, m->p[0] + b * 32 + t * 8);
            w[8 + i] = wd_get2(false, m->p[1] + b * 2);
            continue;
        }
        w[i] = wr_get4(m->p[0] + b * 16 + t * 4);
        if (type == QT_Q4_1)
            w[4 + i] = wr_get4(m->p[1] + b * 4);
        else if (type == QT_MXFP4)
            w[4 + i] = *KD_PTR(const uint8_t, m->p[1] + b);
        else if (type == QT_Q5_0 || type == QT_Q5_1)
            w[8 + i] = wr_get4(m->p[1] + b * 4);
        else
            w[4 + i] = wd_get2(false, m->p[1] + b * 2);
        if (type == QT_Q5_0)
            w[4 + i] = wd_get2(false, m->p[2] + b * 2);
        if (type == QT_Q5_1)
            w[4 + i] = wr_get4(m->p[2] + b * 4);
    }
}

KD_FN void wr_load(uint32_t type, uint32_t *w, const struct wd_mat *m, uint32_t at, uint32_t u, uint32_t blocks)
{
    wr_load_part(type, true, true, w, m, at, u, blocks);
}

/* The factors of run r of unit u, as wd_open has them. */
KD_FN void wr_factors(uint32_t type, const uint32_t *w, uint32_t u, uint32_t r, float *dw, float *mw)
{
    uint32_t item[WD_WORDS] = { 0 }, n = 2 * (u & 1), s = r; /* as wd_scale reads it */
    if (type == QT_OPENED) {
        *dw = f32_from_bits(w[8 + r]), *mw = 0.0f;
        return;
    }
    switch (type) {
    case QT_Q4_K:
    case QT_Q5_K:
        for (uint32_t i = 0; i < 4; i++)
            item[8 + i] = w[4 + i];
        break;
    case QT_Q6_K: item[12] = w[6], item[13] = w[7], item[14] = w[8]; break;
    case QT_Q2_K: item[4] = w[2], item[5] = w[3], item[6] = w[4]; break;
    case QT_Q3_K:
        for (uint32_t i = 0; i < 4; i++)
            item[8 + i] = w[4 + i];
        break;
    case QT_IQ4_XS: item[4] = w[4], item[5] = w[5], n = 4 * (u & 1) + r; break;
    case QT_Q8_0: item[4] = w[8 + r]; break;
    default: item[4] = item[5] = w[4 + r];
    }
    if (wr_is_short(type))
        n += r & 1, s = r >> 1;
    if (wd_by_blocks(type))
        n += r >> 1, s = r & 1;
    struct wd_scale c = wd_scale(type, item, n);
    *dw = c.d, *mw = c.m;
    if (wd_is_k(type)) {
        uint32_t sc = c.sc >> 8 * s & 255;
        int32_t code = type == QT_Q6_K ? (int8_t)sc : type == QT_Q3_K ? (int32_t)sc - 32 : (int32_t)sc;
        *dw = c.d * (float)code;
        *mw = c.m * (float)(c.mn >> 8 * s & 255);
    }
}

/* What each unit of the sum of the run's x adds to the integer sum. */
KD_FN int32_t wr_bias(uint32_t type) { return type == QT_Q4_K ? 0 : wd_bias(type, 0); }

KD_FN void wr_open(uint32_t type, const uint32_t *w, uint32_t u, uint32_t r, uint32_t q[2])
{
    uint32_t s = r >> 1, h = r & 1, n4 = (u & 1) * 4, t4 = kd_lane() % 4 * 4;
    q[1] = 0;
    switch (type) {
    case QT_Q4_K:
    case QT_Q5_K:
        for (uint32_t k = 0; k < 2; k++) {
            q[k] = w[s * 2 + k] >> h * 4 & 0x0f0f0f0fu;
            if (type == QT_Q5_K)
                q[k] |= w[8 + k] >> n4 << (4 - r) & 0x10101010u;
        }
        return;
    case QT_Q6_K: {
        uint32_t v = w[(s & 1) * 2 + h] >> (s >> 1) * 4 & 0x0f0f0f0fu, high = w[4 + h];
        q[0] = v | ((s < 2 ? high << (4 - 2 * s) : high >> (2 * s - 4)) & 0x30303030u);
        return;
    }
    case QT_Q2_K: q[0] = w[h] >> 2 * s & 0x03030303u; return;
    case QT_Q3_K: {
        uint32_t high = w[2 + h] >> n4;
        q[0] = (w[h] >> 2 * s & 0x03030303u) | ((s < 2 ? high << (2 - s) : high >> (s - 2)) & 0x04040404u);
        return;
    }
    case QT_Q8_0: q[0] = w[2 * r], q[1] = w[2 * r + 1]; return;
    case QT_OPENED: q[0] = w[r]; return;
    case QT_IQ4_NL:
    case QT_IQ4_XS:
    case QT_MXFP4: {
        uint32_t table[4];
        if (type == QT_MXFP4)
            wd_e2m1_x2(table);
        else
            wd_iq4_values(table);
        wd_lookup(w[r], table, &q[0], &q[1]);
        return;
    }
    default: break;
    }
    q[0] = w[r] & 0x0f0f0f0fu;
    q[1] = w[r] >> 4 & 0x0f0f0f0fu;
    if (type == QT_Q5_0 || type == QT_Q5_1) {
        q[0] |= (w[8 + r] >> t4 & 15) * 0x02040810u & 0x10101010u;
        q[1] |= (w[8 + r] >> (16 + t4) & 15) * 0x02040810u & 0x10101010u;
    }
}

#endif
