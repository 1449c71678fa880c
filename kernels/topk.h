/* kernels/topk.h
 * What those share whose warps choose a row's experts from its logits (KA_ROUTER): k_router_topk and k_router_rows. */
#ifndef ZINC_KERNELS_TOPK_H
#define ZINC_KERNELS_TOPK_H

#include "kernels/kdev.h"

/* Larger numbers have larger keys; a NaN is below all of them, and 0 is left for what is taken. */
KD_FN uint32_t topk_key(float x)
{
    uint32_t u = f32_bits(x + 0.0f); /* -0 is 0 */
    return x != x ? 1 : u >> 31 ? ~u : u | 0x80000000u;
}

/* What the weights are divided by: the sum of the chosen ones' exponentials, which of all has been no less than 2^-14 of their sum. */
KD_FN float topk_divisor(float chosen, float total)
{
    float least = 0x1p-14f * total;
    return chosen < least ? least : chosen;
}

#endif
