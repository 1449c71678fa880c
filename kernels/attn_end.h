/* kernels/attn_end.h: the end of a row of attention, for all its kernels. Include after kernels/kdev.h. */
#ifndef ZINC_KERNELS_ATTN_END_H
#define ZINC_KERNELS_ATTN_END_H

#include "kernels/kdev.h"
#include "kernels/klaunch.h"

#define LOG2E 1.44269504f
#define NEG_INF f32_from_bits(0xff800000u)

/* One value of a head's finished row, once m (in base 2), l and o of all positions are known; its gate is still to come. */
KD_FN float attn_value(const kl_attn *a, uint32_t head, float m, float l, float o)
{
    if (a->sinks) {
        float sink = KD_PTR(const float, a->sinks)[head] * LOG2E, both = kd_max(m, sink), by = kd_exp2(m - both);
        l = l * by + kd_exp2(sink - both);
        o *= by;
    }
    return o / l;
}

KD_FN void attn_write(const kl_attn *a, uint32_t row, uint32_t hd, uint32_t head, uint32_t d, float m, float l,
                      float o)
{
    float y = attn_value(a, head, m, l, o);
    if (a->gate)
        y *= k_sigmoid(KD_PTR(const float, a->gate)[(uint64_t)row * a->ldq + (uint64_t)head * a->q_hs + d]);
    KD_PTR(float, a->y)[((uint64_t)row * a->n_head + head) * hd + d] = y;
}

#endif
