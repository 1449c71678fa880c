/* kernels/act.c: the inputs of products of many rows, normed and converted: bf16 tiles and int8 codes for matrix units,
 * f32 rows for the plain kernel. A work-group takes one position. */
#include "kernels/hw/tile.h"
#include "kernels/klaunch.h"
#include "kernels/wlane.h"
#include "kernels/xquant.h"

/* The row that position p takes; ~0: none. */
KD_FN uint32_t act_row(const kl_act *a, uint32_t p)
{
    if (!a->map)
        return p < kd_step_rows(a->step, a->rows) ? p : ~0u;
    uint32_t from = KD_PTR(const uint32_t, a->map)[p];
    return from == ~0u ? from : from / a->div;
}

/* 1 / rms of the row, the same in all work-items. */
KD_FN float act_rms(const kl_act *a, KD_GLOBAL const float *x, KD_SHARED float *s)
{
    float sum = 0.0f;
    uint32_t quads = a->n_in / 4;
    for (uint32_t i = kd_tid(); i < quads && a->ldx % 4 == 0; i += kd_group_size()) {
        kd_f32x4 v = ((KD_GLOBAL const kd_f32x4 *)x)[i];
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sum = k_fma(v[j], v[j], sum);
    }
    for (uint32_t i = (a->ldx % 4 == 0 ? 4 * quads : 0) + kd_tid(); i < a->n_in; i += kd_group_size())
        sum = k_fma(x[i], x[i], sum);
    return 1.0f / kd_sqrt(kd_group_sum(sum, s) / (float)a->n_in + a->eps);
}

KD_KERNEL(k_act_f32, kl_act)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t p = kd_group_x(), row = act_row(&a, p);
    if (row == ~0u)
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)row * a.ldx, *w = KD_PTR(const float, a.norm);
    KD_GLOBAL float *y = KD_PTR(float, a.out) + (uint64_t)p * a.n_in;
    float r = a.norm ? act_rms(&a, x, KD_SHARED_AT(float, 0)) : 1.0f;
    for (uint32_t i = kd_tid(); i < a.n_in; i += kd_group_size())
        y[i] = a.norm ? x[i] * r * w[i] : x[i];
}

/* Eight elements of a row as bf16. */
KD_FN kd_u32x4 act_piece(KD_GLOBAL const float *x, KD_GLOBAL const float *w, float r, bool norm)
{
    float v[8];
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        kd_f32x4 q = ((KD_GLOBAL const kd_f32x4 *)x)[h];
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[4 * h + j] = q[j];
        if (!norm)
            continue;
        q = ((KD_GLOBAL const kd_f32x4 *)w)[h];
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[4 * h + j] = v[4 * h + j] * r * q[j];
    }
    return (kd_u32x4){ kd_bf16x2(v[0], v[1]), kd_bf16x2(v[2], v[3]), kd_bf16x2(v[4], v[5]), kd_bf16x2(v[6], v[7]) };
}

/* Rows of x are 16-byte aligned here (the dispatch sees to it), n_in is a multiple of 64. */
KD_KERNEL(k_act_bf16, kl_act)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t p = kd_group_x(), row = act_row(&a, p);
    if (row == ~0u)
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)row * a.ldx, *w = KD_PTR(const float, a.norm);
    KD_GLOBAL uint8_t *out = KD_PTR(uint8_t, a.out) + (uint64_t)p * 128;
    float r = a.norm ? act_rms(&a, x, KD_SHARED_AT(float, 0)) : 1.0f;
    for (uint32_t i = kd_tid(); i < a.n_in / 8; i += kd_group_size()) {
        kd_u32x4 v = act_piece(x + 8 * i, w + 8 * i, r, a.norm != 0);
        *(KD_GLOBAL kd_u32x4 *)(out + (uint64_t)(i / 8) * a.xrows * 128 + (i % 8 ^ p % 8) * 16) = v;
    }
}

#if !defined(__AMDGCN__) /* as kernels/rows.c */
enum { ACT_KEPT = 6, ACT_STEPS = 2 }; /* quads, and runs of four, of a row that a work-item keeps in registers */

/* Four elements of a row, normed but for the factor 1 / rms, and what they add to the row's squares and its largest
 * magnitude. */
KD_FN kd_f32x4 act_quad(KD_GLOBAL const float *x, KD_GLOBAL const float *w, uint32_t i, float *sum, float *most)
{
    kd_f32x4 v = ((KD_GLOBAL const kd_f32x4 *)x)[i];
    KD_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        *sum = k_fma(v[k], v[k], *sum);
    v = w ? v * ((KD_GLOBAL const kd_f32x4 *)w)[i] : v;
    KD_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        *most = v[k] > *most ? v[k] : -v[k] > *most ? -v[k] : *most;
    return v;
}

/* Quad i, times r and then `up`, into position p's place. */
KD_FN void act_lanes_store(const kl_act *a, uint32_t p, uint32_t i, kd_f32x4 v, float r, float up)
{
    uint32_t at = wl_x(i % 16 * 4) * 2; /* elements 0 and 2; 1 and 3 lie 16 bytes behind */
    KD_GLOBAL uint8_t *chunk = KD_PTR(uint8_t, a->out) + ((uint64_t)(i / 16) * a->xrows + p) * 128;
    KD_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t piece = (at / 16 + k) ^ p % 8;
        *(KD_GLOBAL uint32_t *)(chunk + piece * 16 + at % 16) =
            f16_from_f32(v[k] * r * up) | (uint32_t)f16_from_f32(v[k + 2] * r * up) << 16;
    }
}

/* A row is multiplied by `up`, the power of two that brings its largest magnitude to 512 .. 1024, so that nothing overflows;
 * its products by `down`, the reciprocal. */
struct act_power {
    float up, down;
};
KD_FN struct act_power act_power(float most)
{
    uint32_t e = f32_bits(most) >> 23;
    e = kd_min_u32(e < 36 ? 36 : e, 250); /* a row of zeros, or with an infinity */
    return (struct act_power){ f32_from_bits((263 - e) << 23), f32_from_bits((e - 9) << 23) };
}

/* Tiles of f16 in the order of kernels/wlane.h, behind them the factors of the rows' products. */
KD_KERNEL(k_act_lanes, kl_act)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t p = kd_group_x(), row = act_row(&a, p), quads = a.n_in / 4, i = kd_tid();
    if (row == ~0u)
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)row * a.ldx, *w = KD_PTR(const float, a.norm);
    float most = 0.0f, sum = 0.0f, unused = 0.0f;
    kd_f32x4 v[ACT_KEPT];
    KD_UNROLL
    for (uint32_t k = 0; k < ACT_KEPT; k++)
        if (i + k * kd_group_size() < quads)
            v[k] = act_quad(x, w, i + k * kd_group_size(), &sum, &most);
    for (uint32_t j = i + ACT_KEPT * kd_group_size(); j < quads; j += kd_group_size())
        act_quad(x, w, j, &sum, &most);
    float r = a.norm ? 1.0f / kd_sqrt(kd_group_sum(sum, KD_SHARED_AT(float, 0)) / (float)a.n_in + a.eps) : 1.0f;
    struct act_power f = act_power(kd_group_max(most, KD_SHARED_AT(float, 0)) * r);
    KD_UNROLL
    for (uint32_t k = 0; k < ACT_KEPT; k++)
        if (i + k * kd_group_size() < quads)
            act_lanes_store(&a, p, i + k * kd_group_size(), v[k], r, f.up);
    for (uint32_t j = i + ACT_KEPT * kd_group_size(); j < quads; j += kd_group_size())
        act_lanes_store(&a, p, j, act_quad(x, w, j, &unused, &unused), r, f.up);
    if (i == 0)
        KD_PTR(float, a.out + 2ull * a.n_in * a.xrows)[p] = f.down;
}

/* Of a chunk those elements that wl_x sends to pieces 2 s and 2 s + 1: words 2 j + s % 2 of one of its halves. i: 4 times the
 * chunk, and s. */
struct act_step {
    kd_f32x4 v[4];
};
KD_FN struct act_step act_step(KD_GLOBAL const float *x, KD_GLOBAL const float *w, uint32_t i, float *sum, float *most)
{
    struct act_step o;
    KD_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        o.v[j] = act_quad(x, w, i / 2 * 8 + i % 2 + 2 * j, sum, most);
    return o;
}
KD_FN void act_step_store(const kl_act *a, uint32_t p, uint32_t i, const struct act_step *v, float r, float up)
{
    KD_GLOBAL kd_u32x4 *to = KD_PTR(kd_u32x4, a->out + ((uint64_t)(i / 4) * a->xrows + p) * 128);
    KD_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        kd_u32x4 q;
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            q[j] = f16_from_f32(v->v[j][k] * r * up) | (uint32_t)f16_from_f32(v->v[j][k + 2] * r * up) << 16;
        to[(i % 4 * 2 + k) ^ p % 8] = q;
    }
}

/* The same for many positions: a work-group takes one, or of short rows a warp. Their squares are added in another order. */
KD_KERNEL(k_act_half, kl_act)
{
    kd_wait_inputs();
    kd_let_next_start();
    bool wide = a.n_in > KL_ACT_SHORT;
    uint32_t n = wide ? kd_group_size() : KD_WARP, first = wide ? kd_tid() : kd_lane(), steps = a.n_in / 16;
    uint32_t p = wide ? kd_group_x() : kd_group_x() * (kd_group_size() / KD_WARP) + kd_warp(), row = act_row(&a, p);
    if (row == ~0u)
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)row * a.ldx, *w = KD_PTR(const float, a.norm);
    float most = 0.0f, sum = 0.0f, unused = 0.0f, r = 1.0f;
    struct act_step kept[ACT_STEPS];
    KD_UNROLL
    for (uint32_t k = 0; k < ACT_STEPS; k++)
        if (first + k * n < steps)
            kept[k] = act_step(x, w, first + k * n, &sum, &most);
    for (uint32_t i = first + ACT_STEPS * n; i < steps; i += n)
        act_step(x, w, i, &sum, &most);
    if (a.norm)
        r = 1.0f / kd_sqrt((wide ? kd_group_sum(sum, KD_SHARED_AT(float, 0)) : kd_warp_sum(sum)) / (float)a.n_in + a.eps);
    struct act_power f = act_power((wide ? kd_group_max(most, KD_SHARED_AT(float, 0)) : kd_warp_max(most)) * r);
    KD_UNROLL
    for (uint32_t k = 0; k < ACT_STEPS; k++)
        if (first + k * n < steps)
            act_step_store(&a, p, first + k * n, &kept[k], r, f.up);
    for (uint32_t i = first + ACT_STEPS * n; i < steps; i += n) {
        struct act_step again = act_step(x, w, i, &unused, &unused);
        act_step_store(&a, p, i, &again, r, f.up);
    }
    if (first == 0)
        KD_PTR(float, a.out + 2ull * a.n_in * a.xrows)[p] = f.down;
}

/* Four neighbouring lanes own a block of 32, eight elements each. */
KD_KERNEL(k_act_q8, kl_act)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t p = kd_group_x(), row = act_row(&a, p), chunks = a.n_in / 8;
    if (row == ~0u)
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)row * a.ldx;
    struct rows_x at = rows_x(a.n_in, a.xrows);
    float r = a.norm ? act_rms(&a, x, KD_SHARED_AT(float, 0)) : 1.0f;
    for (uint32_t c0 = kd_tid() / KD_WARP * KD_WARP; c0 < chunks; c0 += kd_group_size()) { /* by whole warps */
        uint32_t c = c0 + kd_lane(), w[2];
        float v[8], norm[8];
        xq_load8(v, a.x + (uint64_t)row * a.ldx * 4, 8 * c, a.n_in);
        if (a.norm) {
            xq_load8(norm, a.norm, 8 * c, a.n_in);
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                v[k] = v[k] * r * norm[k];
        }
        float d = xq_codes(v, w);
        int32_t sum = kd_dot4(w[0], 0x01010101u, kd_dot4(w[1], 0x01010101u, 0));
        sum += (int32_t)kd_shfl_xor_u32((uint32_t)sum, 1);
        int32_t other = (int32_t)kd_shfl_xor_u32((uint32_t)sum, 2);
        uint64_t cell = (uint64_t)(c / 4) * a.xrows + p;
        if (c >= chunks)
            continue;
        *KD_PTR(kd_u32x2, a.out + cell * 32 + c % 4 * 8) = (kd_u32x2){ w[0], w[1] };
        if (c % 4 == 0) {
            *KD_PTR(kd_f32x2, a.out + at.d + cell * 8) = (kd_f32x2){ d, d * (float)(sum + other) };
            *KD_PTR(kd_u32x2, a.out + at.sums + cell * 8) = (kd_u32x2){ (uint32_t)sum, (uint32_t)other };
        }
    }
}
#endif
