/* kernels/xquant.h
 * The input of a decode product, normed, quantised and laid out in shared memory (struct mv_x) by
 * every work-group for itself: blocks of 32 with their scale and the sums of their halves, floats, or both. Four
 * neighbouring lanes own a block, eight elements each ("a chunk").
 *
 *     struct xq_in in = { .x = a.x, .norm = a.norm, .ldx = a.ldx, .n_in = a.n_in, .rows = 1, .eps = a.eps };
 *     struct xq_kept kept;
 *     xq_norm_weights(&in, keep, &kept);              before kd_wait_inputs: constants
 *     kd_wait_inputs();
 *     xq_prepare(&in, &layout, quants, floats, keep, &kept);   all of the work-group; ends with a barrier
 *
 * keep, a constant: chunks of a work-item that stay in registers from the norm to the codes, where there is but one row; 0 where
 * there may be more.
 *
 * A row's values do not depend on how many rows are prepared together. */
#ifndef ZINC_KERNELS_XQUANT_H
#define ZINC_KERNELS_XQUANT_H

#include "kernels/blocks.h"
#include "kernels/kdev.h"
#include "kernels/matvec_shared.h"
#include "kernels/wdot.h"

enum { XQ_KEEP = 2 }; /* at most */

struct xq_in {
    gpu_va x, norm;     /* norm: 0 for none */
    uint64_t ldx;
    uint32_t n_in, rows, row0;
    float eps;
};

struct xq_kept {
    float norm[XQ_KEEP][8], x[XQ_KEEP][8];
};

/* Elements [i, i + 8) of n, zeros behind the end. */
KD_FN void xq_load8(float *v, gpu_va p, uint32_t i, uint32_t n)
{
    KD_GLOBAL const float *f = KD_PTR(const float, p);
    if (((uint32_t)p & 15) == 0 && i + 8 <= n) {
        kd_f32x4 a = *(KD_GLOBAL const kd_f32x4 *)(f + i), b = *(KD_GLOBAL const kd_f32x4 *)(f + i + 4);
        KD_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            v[k] = a[k], v[k + 4] = b[k];
        return;
    }
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        v[k] = i + k < n ? f[i + k] : 0.0f;
}

/* The same of a row that begins at a multiple of 16 bytes and has n elements, a multiple of 8: short code. */
KD_FN void xq_load_even8(float *v, gpu_va p, uint32_t i, uint32_t n)
{
    KD_GLOBAL const kd_f32x4 *f = KD_PTR(const kd_f32x4, p) + i / 4;
    kd_f32x4 a = { 0.0f, 0.0f, 0.0f, 0.0f }, b = { 0.0f, 0.0f, 0.0f, 0.0f };
    if (i < n)
        a = f[0], b = f[1];
    KD_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        v[k] = a[k], v[k + 4] = b[k];
}

KD_FN void xq_store8(gpu_va p, uint32_t i, uint32_t n, const float *v)
{
    KD_GLOBAL float *f = KD_PTR(float, p);
    if (((uint32_t)p & 15) == 0 && i + 8 <= n) {
        *(KD_GLOBAL kd_f32x4 *)(f + i) = (kd_f32x4){ v[0], v[1], v[2], v[3] };
        *(KD_GLOBAL kd_f32x4 *)(f + i + 4) = (kd_f32x4){ v[4], v[5], v[6], v[7] };
        return;
    }
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        if (i + k < n)
            f[i + k] = v[k];
}

KD_FN float xq_sum_squares(const float *v, float sum)
{
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        sum = k_fma(v[k], v[k], sum);
    return sum;
}

/* (other + v * scale * w) * by: what NORM makes of eight elements, where each is there. */
KD_FN void xq_normed(float *v, float scale, bool has_w, const float *w, bool has_other, const float *other, bool has_by,
                     float by)
{
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++) {
        float y = v[k] * scale;
        y = has_w ? y * w[k] : y;
        y = has_other ? other[k] + y : y;
        v[k] = has_by ? y * by : y;
    }
}

KD_FN void xq_norm_weights(const struct xq_in *in, uint32_t keep, struct xq_kept *kept)
{
    KD_UNROLL
    for (uint32_t c = 0; c < keep; c++)
        if (in->norm)
            xq_load8(kept->norm[c], in->norm, (kd_tid() + c * MV_THREADS) * 8, in->n_in);
}

KD_FN gpu_va xq_row(const struct xq_in *in, uint32_t r)
{
    return in->x + (in->row0 + r) * in->ldx * 4;
}

/* Sums of squares of all rows by one barrier: every warp leaves its part in red[row * MV_WARPS + warp]. */
KD_FN void xq_squares(const struct xq_in *in, uint32_t keep, struct xq_kept *kept, KD_SHARED float *red)
{
    for (uint32_t r = 0; r < (keep ? 1 : in->rows); r++) {
        float ss = 0.0f;
        KD_UNROLL
        for (uint32_t c = 0; c < keep; c++)
            xq_load8(kept->x[c], xq_row(in, r), (kd_tid() + c * MV_THREADS) * 8, in->n_in);
        KD_UNROLL
        for (uint32_t c = 0; c < keep; c++)
            ss = xq_sum_squares(kept->x[c], ss);
        for (uint32_t i = (kd_tid() + keep * MV_THREADS) * 8; i < in->n_in; i += MV_THREADS * 8) {
            float v[8];
            xq_load8(v, xq_row(in, r), i, in->n_in);
            ss = xq_sum_squares(v, ss);
        }
        ss = kd_warp_sum(ss);
        if (kd_lane() == 0)
            red[r * MV_WARPS + kd_warp()] = ss;
    }
    kd_barrier();
}

KD_FN float xq_rms(const struct xq_in *in, uint32_t r, KD_SHARED const float *red)
{
    float ss = red[r * MV_WARPS];
    KD_UNROLL
    for (uint32_t w = 1; w < MV_WARPS; w++)
        ss += red[r * MV_WARPS + w];
    return k_divide(1.0f, kd_root(k_divide(ss, (float)in->n_in) + in->eps));
}

/* Two words of a lane in the order of nibbles: those of a run's lower and upper half in turn. Lanes `apart` apart have what belongs
 * together: the lower one gets both first words, the upper one both second ones. */
KD_FN kd_u32x2 xq_nibbles(uint32_t w0, uint32_t w1, uint32_t apart)
{
    bool upper = kd_lane() & apart;
    uint32_t other = kd_shfl_xor_u32(upper ? w0 : w1, apart), lo = upper ? other : w0, hi = upper ? w1 : other;
    return (kd_u32x2){ kd_pick4(lo, hi, 0x5140), kd_pick4(lo, hi, 0x7362) };
}

/* Chunk c of row r as codes: two words, to their place; the scale and the halves' sums by the block's first lane. */
KD_FN void xq_store(const struct mv_x *l, uint32_t r, uint32_t c, uint32_t w0, uint32_t w1, float d)
{
    uint32_t of = l->nibbles == 32 ? (c & ~3u) | (c & 1) << 1 | (c >> 1 & 1) : c, half = of >> 1, at = l->q + r * l->q_row;
    KD_SHARED kd_u32x2 *q = KD_SHARED_AT(kd_u32x2, at + (half >> 1 & 3) * l->q_stride + (half >> 3) * 32 +
                                                       (half & 1) * 16 + (of & 1) * 8);
    *q = l->nibbles ? xq_nibbles(w0, w1, l->nibbles == 32 ? 2 : 1) : (kd_u32x2){ w0, w1 };
    int32_t sum = kd_dot4(w0, 0x01010101u, kd_dot4(w1, 0x01010101u, 0));
    sum += (int32_t)kd_shfl_xor_u32((uint32_t)sum, 1);
    int32_t other = (int32_t)kd_shfl_xor_u32((uint32_t)sum, 2);
    if ((c & 3) == 0)
        *KD_SHARED_AT(kd_u32x2, at + (l->meta - l->q) + (c >> 2) * 8) =
            (kd_u32x2){ f32_bits(d), ((uint32_t)sum & 0xffff) | (uint32_t)other << 16 };
}

/* x / 127, as a division rounds it where nothing is subnormal. */
KD_FN float xq_127th(float x)
{
    const float by = 1.0f / 127.0f;
    float q = x * by;
    return k_fma(k_fma(-127.0f, q, x), by, q);
}

/* Eight elements as codes, two words; the scale is that of the block, which four neighbouring lanes share. */
KD_FN float xq_codes(const float *v, uint32_t w[2])
{
    uint32_t top = 0;
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        top = kd_max_u32(top, f32_bits(v[k]) & 0x7fffffff);
    top = kd_max_u32(top, kd_shfl_xor_u32(top, 1));
    top = kd_max_u32(top, kd_shfl_xor_u32(top, 2));
    float amax = f32_from_bits(top), inv = k_divide(0x1.fcp-2f, amax * 0x1p-8f), d = xq_127th(amax); /* inv: 127 / amax */
    bool fault = top >= 0x7f800000u, none = fault || amax < 1e-30f;
    if (none)
        d = fault ? f32_from_bits(0x7fc00000u) : 0.0f;
    uint32_t b[8];
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        b[k] = f32_bits(v[k] * inv + 12582912.0f); /* the code is the low byte */
    uint32_t w0 = wd_pack(b[0], b[1], b[2], b[3]), w1 = wd_pack(b[4], b[5], b[6], b[7]);
    w[0] = none ? 0 : w0, w[1] = none ? 0 : w1;
    return d;
}

KD_FN void xq_quant(const struct mv_x *l, uint32_t r, uint32_t c, const float *v)
{
    uint32_t w[2];
    float d = xq_codes(v, w);
    xq_store(l, r, c, w[0], w[1], d);
}

KD_FN void xq_floats(const struct mv_x *l, uint32_t r, uint32_t c, const float *v)
{
    uint32_t at = l->f + r * l->f_row + c * 16;
    *KD_SHARED_AT(kd_f32x4, at) = (kd_f32x4){ v[0], v[1], v[2], v[3] };
    *KD_SHARED_AT(kd_f32x4, at + l->f_stride) = (kd_f32x4){ v[4], v[5], v[6], v[7] };
}

KD_FN void xq_chunk(const struct xq_in *in, const struct mv_x *l, bool quants, bool floats, uint32_t r, uint32_t c,
                    float *v, const float *norm, float scale)
{
    if (in->norm) {
        KD_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            v[k] = v[k] * scale * norm[k];
    }
    if (quants)
        xq_quant(l, r, c, v);
    if (floats)
        xq_floats(l, r, c, v);
}

/* A layout's n_pad is a multiple of 256, so whole warps take part in each step. */
KD_FN void xq_prepare(const struct xq_in *in, const struct mv_x *l, bool quants, bool floats, uint32_t keep,
                      struct xq_kept *kept)
{
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    uint32_t chunks = l->n_pad / 8, at = kd_tid();
    if (in->norm)
        xq_squares(in, keep, kept, red);
    if (keep && in->norm) {
        float scale = xq_rms(in, 0, red);
        KD_UNROLL
        for (uint32_t c = 0; c < keep; c++)
            if (kd_tid() + c * MV_THREADS < chunks)
                xq_chunk(in, l, quants, floats, 0, kd_tid() + c * MV_THREADS, kept->x[c], kept->norm[c], scale);
        at += keep * MV_THREADS;
    }
    for (uint32_t r = 0; r < (keep ? 1 : in->rows);) {
        if (at >= chunks) { /* rows follow each other without a gap, warp by warp */
            at -= chunks;
            r++;
            continue;
        }
        float v[8], norm[8], scale = in->norm ? xq_rms(in, r, red) : 0.0f;
        xq_load8(v, xq_row(in, r), at * 8, in->n_in);
        if (in->norm)
            xq_load8(norm, in->norm, at * 8, in->n_in);
        xq_chunk(in, l, quants, floats, r, at, v, norm, scale);
        at += MV_THREADS;
    }
    kd_barrier();
}

#endif
