/* kernels/choice.h
 * The choice of experts from a row's logits (KA_ROUTER): the k largest, ties to the lowest id, and their weights. The last
 * work-group of ROUTER makes it for all, or each work-group that wants it for itself: the same bits.
 *
 *     struct mv_choice c = mv_choice(n, k, at);       shared memory from `at` on: mv_choice_bytes(n)
 *     mv_choose(&c, logits);                          c.id[0 .. k) from here on, all of the work-group sees them
 *     mv_weigh(&c, gating, scale, numbers);           c.weight[0 .. k), behind the next barrier */
#ifndef ZINC_KERNELS_CHOICE_H
#define ZINC_KERNELS_CHOICE_H

#include "kernels/kdev.h"
#include "kernels/matvec_shared.h"

/* Kernels for targets whose launches begin early: those who want a choice can make it for themselves (KL_MOE_UP's logits). */
#if defined(KD_SM90) || !(defined(__NVPTX__) || defined(__AMDGCN__) || defined(KD_MSL))
#define MV_CHOOSES 1
#else
#define MV_CHOOSES 0
#endif

struct mv_choice {
    uint32_t n, k;               /* experts, and those that are chosen, up to MV_TOPK_MAX */
    KD_SHARED uint64_t *cand;    /* [n, as a multiple of 32] candidates, then what is exponentiated */
    KD_SHARED float *logit;      /* as many                                               */
    KD_SHARED float *weight;     /* [MV_TOPK_MAX]                                         */
    KD_SHARED uint32_t *id;      /* [MV_TOPK_MAX]                                         */
};

KD_FN struct mv_choice mv_choice(uint32_t n, uint32_t k, uint32_t at)
{
    uint32_t all = kd_div_up(n, KD_WARP) * KD_WARP;
    return (struct mv_choice){ n, k, KD_SHARED_AT(uint64_t, at), KD_SHARED_AT(float, at + all * 8),
                               KD_SHARED_AT(float, at + all * 12), KD_SHARED_AT(uint32_t, at + all * 12 + MV_TOPK_MAX * 4) };
}

/* Order of logits as integers: larger is larger, a NaN is least. */
KD_FN uint32_t mv_key(float f)
{
    uint32_t u = f32_bits(f);
    if (f != f)
        return 0;
    if (f == 0.0f)
        u = 0;
    return u >> 31 ? ~u : u | 0x80000000u;
}

/* How many of n candidates are larger; the four lanes of a quad take every fourth. */
KD_FN uint32_t mv_rank(KD_SHARED const uint64_t *all, uint32_t n, uint64_t own)
{
    enum { AT_ONCE = 8 };
    uint32_t rank = 0;
    for (uint32_t i0 = kd_lane() % 4; i0 < n; i0 += 4 * AT_ONCE) {
        KD_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; k++)
            if (i0 + 4 * k < n)
                rank += all[i0 + 4 * k] > own;
    }
    rank += kd_shfl_xor_u32(rank, 1);
    return rank + kd_shfl_xor_u32(rank, 2);
}

/* By two rounds of counting: among 32 experts each, then among what is left of them. A candidate is its key, then its id upside
 * down. */
KD_FN void mv_choose(const struct mv_choice *c, KD_COHERENT const float *logits)
{
    uint32_t all = kd_div_up(c->n, KD_WARP) * KD_WARP, keep = kd_min_u32(c->k, KD_WARP), left = all / KD_WARP * keep;
    for (uint32_t i = kd_tid(); i < all; i += MV_THREADS) {
        float l = i < c->n ? logits[i] : 0.0f;
        uint32_t key = i < c->n ? mv_key(l) : 0, rank = 0;
        c->logit[i] = l;
        KD_UNROLL
        for (uint32_t j = 0; j < KD_WARP; j++) {
            uint32_t other = kd_shfl_u32(key, j);
            rank += other > key || (other == key && j < kd_lane());
        }
        if (rank < keep)
            c->cand[i / KD_WARP * keep + rank] = (uint64_t)key << 32 | ~i;
    }
    kd_barrier();
    for (uint32_t i0 = 0; i0 < left; i0 += MV_THREADS / 4) {
        uint32_t i = i0 + kd_tid() / 4;
        uint64_t own = c->cand[kd_min_u32(i, left - 1)];
        uint32_t rank = mv_rank(c->cand, left, own);
        if (i < left && rank < c->k && kd_lane() % 4 == 0)
            c->id[rank] = ~(uint32_t)own;
    }
    kd_barrier();
}

/* numbers: of the experts (KA_ROUTER's expert_scale), or 0. */
KD_FN void mv_weigh(const struct mv_choice *c, uint32_t gating, float scale, gpu_va numbers)
{
    enum { AT_ONCE = 8 };
    float top = c->logit[c->id[0]], sum = 0.0f;
    if (gating == KA_SOFTMAX_TOPK) {
        for (uint32_t i = kd_tid(); i < c->n; i += MV_THREADS)
            sum += k_exp(c->logit[i] - top);
        sum = kd_group_sum(sum, KD_SHARED_AT(float, 0));
    }
    KD_SHARED float *p = (KD_SHARED float *)c->cand; /* nobody wants the candidates any more */
    for (uint32_t j = kd_tid(); j < c->k; j += MV_THREADS) {
        float e = k_exp(c->logit[c->id[j]] - top);
        p[j] = gating == KA_SOFTMAX_TOPK ? e / sum : e;
    }
    kd_barrier();
    for (uint32_t j = kd_tid(); j < c->k; j += MV_THREADS) {
        float total = 0.0f;
        for (uint32_t i0 = 0; i0 < c->k; i0 += AT_ONCE) {
            KD_UNROLL
            for (uint32_t i = 0; i < AT_ONCE; i++)
                total += i0 + i < c->k ? p[i0 + i] : 0.0f;
        }
        if (gating == KA_SOFTMAX_TOPK)
            total = kd_max(total, 0x1p-14f);
        float w = p[j] / total * scale;
        c->weight[j] = numbers ? w * KD_PTR(const float, numbers)[c->id[j]] : w;
    }
}

#endif
