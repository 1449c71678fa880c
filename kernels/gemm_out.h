/* kernels/gemm_out.h
 * How products leave a warpgroup's accumulators (kernels/hw/wgmma.h) on Hopper: number, bias, activation of a pair, scale,
 * residual, soft cap, and the stores.
 *
 *     gemm_write_out(a, &it, width, batch, d);     d: width / 2 accumulators of this thread, as wg_multiply_* leaves them
 *
 * width: of the tile, a constant; positions behind it->n and columns behind n_out are not written. batch: positions of a
 * thread, of width / 4, whose residuals are loaded together, up to GEMM_BATCH, a constant: two registers each. The warps of the
 * work-group are 16 rows of the tile each, from warp 0 on. */
#ifndef ZINC_KERNELS_GEMM_OUT_H
#define ZINC_KERNELS_GEMM_OUT_H

#include "kernels/gemm_item.h"
#include "kernels/hw/tile.h"

#if defined(__NVPTX__)
#define GEMM_ALL_OF _Pragma("GCC unroll 128") /* loops over accumulators, which are registers */
#else
#define GEMM_ALL_OF
#endif

/* act(gate, up) = g sigmoid(g (c0 + c1 g^2)) (u + c2) for all three, with the hardware's exponential; gpt-oss's also
 * clamps both. tanh x = 2 sigmoid(2 x) - 1 makes the Gaussian one of them. */
struct gemm_act_form {
    float c0, c1, c2, most;
};
KD_FN struct gemm_act_form gemm_act_form(uint32_t act)
{
    float inf = f32_from_bits(0x7f800000);
    return (struct gemm_act_form){ .c0 = act == KA_SILU ? 1.0f : act == KA_GELU_TANH ? 1.59576912f : 1.702f,
                                   .c1 = act == KA_GELU_TANH ? 0.0713548163f : 0.0f,
                                   .c2 = act == KA_SWIGLU_OAI ? 1.0f : 0.0f,
                                   .most = act == KA_SWIGLU_OAI ? 7.0f : inf };
}
KD_FN float gemm_fast_act(const struct gemm_act_form *f, float g, float u)
{
    g = g > f->most ? f->most : g;
    u = u > f->most ? f->most : u < -f->most ? -f->most : u;
    float z = g * k_fma(f->c1 * g, g, f->c0);
    return g * kd_rcp(1.0f + kd_exp2(-1.44269504f * z)) * (u + f->c2);
}

/* Where a thread's accumulators go: column col and, of a single matrix, col + 8, for positions n + 8 j and the next. */
struct gemm_place {
    uint32_t col, n, n_out, ld;
    KD_GLOBAL float *y;
};

KD_FN struct gemm_place gemm_place(const kl_gemm *a, const struct gemm_item *it)
{
    struct gemm_place s = { .n = kd_lane() % 4 * 2, .n_out = a->n_out[it->mat], .ld = a->ld[it->mat] };
    s.col = gemm_row_col(a, it, kd_warp() * 16 + kd_lane() / 4);
    s.y = KD_PTR(float, a->y[it->mat]) + s.col;
    return s;
}

enum { GEMM_BATCH = 16 };

/* Scale and residual of the batch from position i of this thread on, all loads at once. */
KD_FN void gemm_finish_batch(const kl_gemm *a, const struct gemm_item *it, const struct gemm_place *s, float *d,
                             uint32_t i, uint32_t batch)
{
    float r[2 * GEMM_BATCH];
    KD_UNROLL
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        KD_GLOBAL const float *p = KD_PTR(const float, a->resid) + (uint64_t)(it->n0 + n) * a->ldr + s->col;
        bool in = n < it->n && a->resid;
        r[2 * k] = in && s->col < s->n_out ? p[0] : 0.0f;
        r[2 * k + 1] = in && s->col + 8 < s->n_out ? p[8] : 0.0f;
        if (!a->scale)
            continue;
        float f = n < it->n ? KD_PTR(const float, a->scale)[it->n0 + n] : 0.0f;
        d[at] *= f;
        d[at + 2] *= f;
    }
    KD_UNROLL
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t at = (i + k) / 2 * 4 + k % 2;
        d[at] += r[2 * k];
        d[at + 2] += r[2 * k + 1];
    }
}

/* The rows of y that the batch goes to, all loads at once; of positions that are not there, the first one's. */
KD_FN void gemm_rows(const kl_gemm *a, const struct gemm_item *it, const struct gemm_place *s, uint32_t i, uint32_t batch,
                     uint32_t *row)
{
    KD_UNROLL
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2;
        row[k] = gemm_row(a, it->n0 + (n < it->n ? n : 0));
    }
}

KD_FN void gemm_store(const kl_gemm *a, const struct gemm_item *it, const struct gemm_place *s, const float *d,
                      uint32_t i, uint32_t batch)
{
    uint32_t row[GEMM_BATCH];
    gemm_rows(a, it, s, i, batch, row);
    KD_UNROLL
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        if (n >= it->n)
            continue;
        KD_GLOBAL float *y = s->y + (uint64_t)row[k] * s->ld;
        if (s->col < s->n_out)
            y[0] = d[at];
        if (s->col + 8 < s->n_out)
            y[8] = d[at + 2];
    }
}

/* The soft cap is rare: over what this thread has just stored. */
KD_FN void gemm_cap(const kl_gemm *a, const struct gemm_item *it, const struct gemm_place *s)
{
    for (uint32_t i = 0; i < it->n; i += 8)
        for (uint32_t c = 0; c < 4; c++) {
            uint32_t n = i + s->n + c % 2, col = c / 2 * 8;
            if (n >= it->n || s->col + col >= s->n_out)
                continue;
            KD_GLOBAL float *y = s->y + (uint64_t)gemm_row(a, it->n0 + n) * s->ld + col;
            *y = a->softcap * k_tanh(*y / a->softcap);
        }
}

KD_FN void gemm_store_pair(const struct gemm_act_form *f, const kl_gemm *a, const struct gemm_item *it,
                           const struct gemm_place *s, const float *d, uint32_t i, uint32_t batch)
{
    uint32_t row[GEMM_BATCH];
    gemm_rows(a, it, s, i, batch, row);
    KD_UNROLL
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        if (n < it->n && s->col < s->n_out)
            s->y[(uint64_t)row[k] * s->ld] = gemm_fast_act(f, d[at], d[at + 2]);
    }
}

/* The accumulators, batch by batch as far as there are positions: y may be the residual, so a batch of loads stands
 * before a batch of stores. */
KD_FN void gemm_write_out(const kl_gemm *a, const struct gemm_item *it, uint32_t width, uint32_t batch, float *d)
{
    struct gemm_place s = gemm_place(a, it);
    struct gemm_act_form f = gemm_act_form(a->act);
    float b0 = gemm_bias(a, it, it->mat, s.col);
    float b1 = a->pair ? gemm_bias(a, it, 1, s.col) : gemm_bias(a, it, it->mat, s.col + 8);
    if (a->wscale[it->mat] || (a->pair && a->wscale[1])) {
        float own0 = gemm_number(a, it, it->mat), own1 = a->pair ? gemm_number(a, it, 1) : own0;
        GEMM_ALL_OF
        for (uint32_t i = 0; i < width / 2; i++)
            d[i] *= i & 2 ? own1 : own0;
    }
    GEMM_ALL_OF
    for (uint32_t i = 0; i < width / 4; i += batch) {
        if (i / 2 * 8 >= it->n)
            break;
        KD_UNROLL
        for (uint32_t k = 0; k < 2 * batch; k++)
            d[2 * i + k] += k & 2 ? b1 : b0;
        if (a->pair) {
            gemm_store_pair(&f, a, it, &s, d, i, batch);
            continue;
        }
        if (a->scale || a->resid)
            gemm_finish_batch(a, it, &s, d, i, batch);
        gemm_store(a, it, &s, d, i, batch);
    }
    if (a->softcap > 0.0f)
        gemm_cap(a, it, &s);
}

#endif
