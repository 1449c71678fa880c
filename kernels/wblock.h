/* kernels/wblock.h
 * One weight of any type out of its planes (kernels/planes.h), for kernels that read few of them: the embedding. The
 * roundings are those of kernels/dequant.h, to the bit.
 *
 *     struct wblock w = wblock(a.type, a.w, n_rows * n_in / qtype_block(a.type));
 *     float x = wblock_at(&w, row * n_in + k); */
#ifndef ZINC_KERNELS_WBLOCK_H
#define ZINC_KERNELS_WBLOCK_H

#include "kernels/kdev.h"
#include "kernels/planes.h"
#include "kernels/wbook.h"

/* The tables of 16 signed bytes as functions: kernels have no static data. */
#define WB_PACK(a, b, c, d, e, f, g, h)                                                                                \
    ((uint64_t)(uint8_t)(a) | (uint64_t)(uint8_t)(b) << 8 | (uint64_t)(uint8_t)(c) << 16 |                             \
     (uint64_t)(uint8_t)(d) << 24 | (uint64_t)(uint8_t)(e) << 32 | (uint64_t)(uint8_t)(f) << 40 |                      \
     (uint64_t)(uint8_t)(g) << 48 | (uint64_t)(uint8_t)(h) << 56)
#define WB_TABLE(name, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                 \
    KD_FN float wb_##name(uint32_t x)                                                                                  \
    {                                                                                                                  \
        uint64_t t = x < 8 ? WB_PACK(a, b, c, d, e, f, g, h) : WB_PACK(i, j, k, l, m, n, o, p);                        \
        return (float)(int8_t)(t >> 8 * (x & 7));                                                                      \
    }
#define TABLE(type, name, n, ...) WB_TABLE(name, __VA_ARGS__)
#include "kernels/q_tables.inc"
#undef WB_TABLE
#undef WB_PACK

struct wblock {
    uint32_t type;
    gpu_va plane[PLANES_MAX];
};

/* n_blocks: of the whole matrix. */
KD_FN struct wblock wblock(uint32_t type, gpu_va base, uint64_t n_blocks)
{
    struct wblock w = { type, { base, base, base, base } };
    struct planes p = planes_of((enum qtype)type);
    KD_UNROLL
    for (uint32_t i = 1; i < PLANES_MAX; i++)
        w.plane[i] = w.plane[i - 1] + n_blocks * p.f[i - 1].len;
    return w;
}

KD_FN uint32_t wb_u8(gpu_va p, uint64_t i) { return KD_PTR(const uint8_t, p)[i]; }
KD_FN uint32_t wb_u16(gpu_va p, uint64_t i) { return KD_PTR(const uint16_t, p)[i]; }
KD_FN float wb_f16(gpu_va p, uint64_t i) { return f16_to_f32((uint16_t)wb_u16(p, i)); }
/* Element i of 32 in 16 bytes: low nibbles first. */
KD_FN uint32_t wb_nibble(gpu_va p, uint64_t block, uint32_t i)
{
    return wb_u8(p, block * 16 + i % 16) >> 4 * (i / 16) & 15;
}
KD_FN uint32_t wb_fifth(gpu_va p, uint64_t block, uint32_t i)
{
    return (wb_u8(p, block * 4 + i / 8) >> i % 8 & 1) << 4;
}

/* Scale and minimum of run j of a Q4_K or Q5_K block whose head (d, dmin, 12 bytes of scales) lies at h. */
KD_FN void wb_scale_min(gpu_va h, uint32_t j, float *scale, float *min)
{
    uint32_t sc, mn;
    if (j < 4) {
        sc = wb_u8(h, 4 + j) & 63;
        mn = wb_u8(h, 8 + j) & 63;
    } else {
        sc = (wb_u8(h, 8 + j) & 15) | wb_u8(h, j) >> 6 << 4;
        mn = wb_u8(h, 8 + j) >> 4 | wb_u8(h, 4 + j) >> 6 << 4;
    }
    *scale = wb_f16(h, 0) * (float)sc;
    *min = wb_f16(h, 1) * (float)mn;
}

/* Element i of 256 in a block with two bits at 32 (i / 128) + i % 32, as Q2_K and Q3_K have it. */
KD_FN uint32_t wb_two_bits(gpu_va qs, uint64_t block, uint32_t i)
{
    return wb_u8(qs, block * 64 + 32 * (i / 128) + i % 32) >> 2 * (i / 32 % 4) & 3;
}

KD_FN float wb_q3_k(const struct wblock *w, uint64_t b, uint32_t i)
{
    uint32_t r = i / 16;
    gpu_va s = w->plane[2] + b * 12;
    uint32_t lo = r < 8 ? wb_u8(s, r) & 15 : wb_u8(s, r - 8) >> 4;
    int32_t sc = (int32_t)(lo | (wb_u8(s, 8 + r % 4) >> 2 * (r / 4) & 3) << 4) - 32;
    int32_t high = wb_u8(w->plane[1], b * 32 + i % 32) >> i / 32 & 1 ? 0 : 4;
    return wb_f16(w->plane[3], b) * (float)sc * (float)((int32_t)wb_two_bits(w->plane[0], b, i) - high);
}

KD_FN float wb_q6_k(const struct wblock *w, uint64_t b, uint32_t i)
{
    uint32_t half = i / 128, quarter = i / 32 % 4, l = i % 32;
    uint32_t lo = wb_u8(w->plane[0], b * 128 + 64 * half + 32 * (quarter & 1) + l) >> 4 * (quarter / 2) & 15;
    uint32_t hi = wb_u8(w->plane[1], b * 64 + 32 * half + l) >> 2 * quarter & 3;
    float d = wb_f16(w->plane[3], b) * (float)(int8_t)wb_u8(w->plane[2], b * 16 + i / 16);
    return d * (float)((int32_t)(lo | hi << 4) - 32);
}

/* Element `at` of the matrix, counted row by row. */
KD_FN float wblock_at(const struct wblock *w, uint64_t at)
{
    const gpu_va *p = w->plane;
    uint64_t s = at / 32, k = at / 256;
    uint32_t i = at % 32, j = at % 256;
    float scale, min;
    switch (w->type) {
    case QT_F32: return KD_PTR(const float, p[0])[at];
    case QT_F16: return wb_f16(p[0], at);
    case QT_BF16: return bf16_to_f32((uint16_t)wb_u16(p[0], at));
    case QT_Q4_0: return (float)((int32_t)wb_nibble(p[0], s, i) - 8) * wb_f16(p[1], s);
    case QT_Q4_1: return (float)wb_nibble(p[0], s, i) * wb_f16(p[1], 2 * s) + wb_f16(p[1], 2 * s + 1);
    case QT_Q5_0: return (float)((int32_t)(wb_nibble(p[0], s, i) | wb_fifth(p[1], s, i)) - 16) * wb_f16(p[2], s);
    case QT_Q5_1:
        return (float)(wb_nibble(p[0], s, i) | wb_fifth(p[1], s, i)) * wb_f16(p[2], 2 * s) + wb_f16(p[2], 2 * s + 1);
    case QT_Q8_0: return (float)(int8_t)wb_u8(p[0], at) * wb_f16(p[1], s);
    case QT_IQ4_NL: return wb_f16(p[1], s) * wb_iq4_values(wb_nibble(p[0], s, i));
    case QT_MXFP4: return wb_e2m1_x2(wb_nibble(p[0], s, i)) * e8m0_half_to_f32((uint8_t)wb_u8(p[1], s));
    case QT_NVFP4:
        return wb_e2m1_x2(wb_u8(p[0], at / 16 * 8 + at % 8) >> (at & 8) / 2 & 15) * ue4m3_half_to_f32(wb_u8(p[1], at / 16));
    case QT_Q2_K: {
        uint32_t sc = wb_u8(p[1], k * 16 + j / 16);
        float q = (float)wb_two_bits(p[0], k, j);
        return wb_f16(p[2], 2 * k) * (float)(sc & 15) * q - wb_f16(p[2], 2 * k + 1) * (float)(sc >> 4);
    }
    case QT_Q3_K: return wb_q3_k(w, k, j);
    case QT_Q4_K:
        wb_scale_min(p[1] + k * 16, j / 32, &scale, &min);
        return scale * (float)(wb_u8(p[0], k * 128 + 32 * (j / 64) + j % 32) >> 4 * (j / 32 & 1) & 15) - min;
    case QT_Q5_K: {
        wb_scale_min(p[2] + k * 16, j / 32, &scale, &min);
        uint32_t lo = wb_u8(p[0], k * 128 + 32 * (j / 64) + j % 32) >> 4 * (j / 32 & 1) & 15;
        return scale * (float)(lo + (wb_u8(p[1], k * 32 + j % 32) >> j / 32 & 1) * 16) - min;
    }
    case QT_Q6_K: return wb_q6_k(w, k, j);
    case QT_IQ4_XS: {
        uint32_t r = j / 32;
        gpu_va h = p[1] + k * 8;
        uint32_t sc = (wb_u8(h, 4 + r / 2) >> 4 * (r & 1) & 15) | (wb_u16(h, 1) >> 2 * r & 3) << 4;
        float d = wb_f16(h, 0) * (float)((int32_t)sc - 32);
        return d * wb_iq4_values(wb_u8(p[0], k * 128 + 16 * r + j % 16) >> 4 * (j / 16 & 1) & 15);
    }
    default: return qtype_is_book((enum qtype)w->type) ? wk_at(w->type, p, k, j) : 0.0f;
    }
}

#endif
