/* kernels/rope_head.h: what the kernels that do ROPE_KV have in common, so that a head has the same bits from all. Include
 * after kernels/kdev.h, kv.h and sincos.h. */
#ifndef ZINC_KERNELS_ROPE_HEAD_H
#define ZINC_KERNELS_ROPE_HEAD_H

#include "kernels/kdev.h"
#include "kernels/kv.h"
#include "kernels/sincos.h"

/* 1 / rms of a head of n. sum: lane l has added the squares of dimensions l, l + 32 and so on, ascending, by fma. */
KD_FN float rope_scale(float sum, uint32_t n, float eps)
{
    return k_divide(1.0f, kd_root(kd_warp_sum(sum) / (float)n + eps));
}

/* Pair i of n_rot / 2 of the head in shared memory. */
KD_FN void rope_pair(KD_SHARED float *s, uint32_t i, uint32_t half, uint32_t rope, float angle, float mscale)
{
    float sine, cosine;
    k_sincos(angle, &sine, &cosine);
    sine *= mscale;
    cosine *= mscale;
    uint32_t i0 = rope == KA_ROPE_NORM ? 2 * i : i, i1 = rope == KA_ROPE_NORM ? 2 * i + 1 : i + half;
    float x0 = s[i0], x1 = s[i1];
    s[i0] = x0 * cosine - x1 * sine;
    s[i1] = x0 * sine + x1 * cosine;
}

/* A warp stores the head in shared memory, in any type. */
KD_FN void rope_store(struct kv_head k, uint32_t pos, uint32_t head_dim, KD_SHARED const float *s)
{
    switch (k.kv) {
    case KA_KV_F16: kv_store(KA_KV_F16, k, pos, head_dim, s); break;
    case KA_KV_FP8: kv_store(KA_KV_FP8, k, pos, head_dim, s); break;
    case KA_KV_Q8_0: kv_store(KA_KV_Q8_0, k, pos, head_dim, s); break;
    case KA_KV_Q4_0: kv_store(KA_KV_Q4_0, k, pos, head_dim, s); break;
    case KA_KV_ROT4: kv_store(KA_KV_ROT4, k, pos, head_dim, s); break;
    default: kv_store(KA_KV_F32, k, pos, head_dim, s);
    }
}

#endif
