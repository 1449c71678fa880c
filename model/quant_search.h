/* model/quant_search.h: private to the quantisers. A block's quantiser takes finite floats of magnitude up to 65504
 * and writes one block. */
#ifndef ZINC_MODEL_QUANT_SEARCH_H
#define ZINC_MODEL_QUANT_SEARCH_H

#include "kernels/blocks.h"

/* Rounds to the nearest integer, ties to even, for |v| < 2^22; unlike rintf it vectorises on every target. */
static inline float quant_round(float v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

void quant_iq4_nl(const float *x, blk_iq4_nl *b);
void quant_iq4_xs(const float *x, blk_iq4_xs *b);
void quant_q2_k(const float *x, blk_q2_k *b);
void quant_q3_k(const float *x, blk_q3_k *b);
void quant_q4_k(const float *x, blk_q4_k *b);
void quant_q5_k(const float *x, blk_q5_k *b);
void quant_q6_k(const float *x, blk_q6_k *b);

#endif
