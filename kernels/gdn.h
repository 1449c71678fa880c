/* kernels/gdn.h
 * Gated DeltaNet: what its kernels for one step's few rows (gdn.c) and for prompts (gdn_prompt.c) have in common. The
 * quick ones are for heads of 128 and convolutions of 4 taps, GDN_DIM and GDN_TAPS. */
#ifndef ZINC_KERNELS_GDN_H
#define ZINC_KERNELS_GDN_H

#include "kernels/kdev.h"
#include "kernels/klaunch.h"

KD_FN uint32_t gdn_channels(uint32_t n_k, uint32_t n_v, uint32_t head_dim) { return (2 * n_k + n_v) * head_dim; }

/* The k-head of v-head h, and whether h is the lowest v-head of that k-head. */
KD_FN uint32_t gdn_k_head(uint32_t heads, uint32_t n_k, uint32_t n_v, uint32_t h)
{
    return heads == KA_GDN_MODULO ? h % n_k : h / (n_v / n_k);
}
KD_FN int gdn_is_first(uint32_t heads, uint32_t n_k, uint32_t n_v, uint32_t h)
{
    return heads == KA_GDN_MODULO ? h < n_k : h % (n_v / n_k) == 0;
}
/* Where v-head h's values lie behind alpha and beta of a row. */
KD_FN uint32_t gdn_ab_at(uint32_t group, uint32_t h) { return group ? h / group * 2 * group + h % group : h; }

KD_FN float gdn_decay(float a, float alpha, float dt) { return k_exp(a * k_softplus(alpha + dt)); }

KD_FN KD_GLOBAL float *gdn_slot(gpu_va base, uint64_t slot_bytes, uint32_t slot)
{
    return KD_PTR(float, base + slot * slot_bytes);
}

KD_FN kd_f32x4 gdn_fma4(kd_f32x4 a, float b, kd_f32x4 c)
{
    return (kd_f32x4){ k_fma(a[0], b, c[0]), k_fma(a[1], b, c[1]), k_fma(a[2], b, c[2]), k_fma(a[3], b, c[3]) };
}
/* s + a . b, ascending */
KD_FN float gdn_dot4(kd_f32x4 a, kd_f32x4 b, float s)
{
    return k_fma(a[3], b[3], k_fma(a[2], b[2], k_fma(a[1], b[1], k_fma(a[0], b[0], s))));
}

/* A channel of the convolution: its taps, and its inputs, x0 that of the row itself. */
KD_FN float gdn_conv(kd_f32x4 w, float x3, float x2, float x1, float x0)
{
    return k_silu(k_fma(w[3], x0, k_fma(w[2], x1, k_fma(w[1], x2, w[0] * x3))));
}

/* 1 / |x| of a head whose elements lie four a lane. */
KD_FN float gdn_inv_norm(kd_f32x4 x, float eps) { return 1.0f / kd_sqrt(kd_warp_sum(gdn_dot4(x, x, 0.0f)) + eps); }

#endif
