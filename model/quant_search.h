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

/* quant_q4_0(x, b) and so on: in model/quant.c by plain rules, in model/quant_search.c by a search. */
#define QTYPE_BLOCK(NAME, name, ...) void quant_##name(const float *x, blk_##name *b);
#include "kernels/qtypes.def"

#endif
