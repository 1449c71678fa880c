/* model/quant_search.h: private to the quantisers. A block's quantiser takes finite floats of magnitude up to 65504
 * and writes one block. */
#ifndef ZINC_MODEL_QUANT_SEARCH_H
#define ZINC_MODEL_QUANT_SEARCH_H

#include <stdbool.h>

#include "kernels/blocks.h"
#include "kernels/dequant.h"
#include "kernels/qtypes.h"

/* Rounds to the nearest integer, ties to even, for |v| < 2^22; unlike rintf it vectorises on every target. */
static inline float quant_round(float v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

/* The index of the value of iq4_values nearest to v. */
static inline int quant_iq4_index(float v)
{
    int i = 0;
    for (int k = 0; k < 15; k++)
        i += 2 * v >= (float)(iq4_values[k] + iq4_values[k + 1]);
    return i;
}

/* The weights of the squared errors of n elements. With importance: that of their columns in parts of its mean, and a hundredth
 * more, so that no column is given up for a few that are very large. Without: rms(x) + |x|; large elements matter more, small
 * ones still count. */
void quant_weights(const float *x, const float *importance, int n, float *w);

/* Importance-weighted least squares for 32 elements: x ~ d q with q from end to -end - 1, returns d; x ~ d q + mn with q from
 * 0 to hi. */
float quant_fit(const float *x, const float *importance, float end);
void quant_fit_min(const float *x, const float *importance, float hi, float *d, float *mn);

/* Rows of the types whose blocks of 256 have small scales (model/quant_k.c): n elements, a multiple of 256. False: another type. */
bool quant_k_row(enum qtype t, const float *x, const float *importance, void *dst, uint64_t n);

/* quant_q4_0(x, importance, b) and so on; importance: of the block's columns, or NULL. In model/quant.c by plain rules, in
 * model/quant_search.c and model/quant_k.c by a search. */
#define QTYPE_BLOCK(NAME, name, ...) void quant_##name(const float *x, const float *importance, blk_##name *b);
#include "kernels/qtypes.def"

/* n elements, a multiple of 64 (model/quant_nvfp4.c), of magnitude up to NVFP4_MAX. */
#define NVFP4_MAX 2688.0f
void quant_nvfp4_row(const float *x, const float *importance, void *dst, uint64_t n);
/* Types of codebooks, n elements, a multiple of 256 (model/quant_codebook.c). -ENOMEM is all that can fail. */
int quant_codebook_row(enum qtype t, const float *x, const float *importance, void *dst, uint64_t n);

#endif
