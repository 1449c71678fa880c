/* model/rope.h
 * Rotary position embedding, the part that does not depend on the position: the angular frequency of each pair.
 *
 *     theta(pos, i) = pos * inv_freq[i]                             i = pair index, 0 .. n_rot/2 - 1
 *     x0' = (x0 cos theta - x1 sin theta) * mscale
 *     x1' = (x0 sin theta + x1 cos theta) * mscale                  mscale: rope_params.mscale
 *
 * with (x0, x1) = elements (2i, 2i+1) of the head for ROPE_NORM, (i, i + n_rot/2) for ROPE_NEOX; elements from n_rot on
 * pass through. Folded into inv_freq, D = n_rot, s = freq_scale (Peng et al., YaRN, arXiv 2309.00071, with the bounds
 * of the ramp rounded outwards as llama.cpp does):
 *
 *     ext[i]      = base^(-2i/D) / freq_factors[i]
 *     corr(b)     = D ln(n_ctx_orig / (2 pi b)) / (2 ln base)
 *     low, high   = max(0, floor(corr(beta_fast))), min(D - 1, ceil(corr(beta_slow)))
 *     ramp[i]     = 1 - clamp((i - low) / max(0.001, high - low), 0, 1)       1 for the fast pairs
 *     mix[i]      = ramp[i] * ext_factor
 *     inv_freq[i] = ext[i] * (s (1 - mix[i]) + mix[i])
 *
 * Linear scaling is ext_factor 0; no scaling is s = 1. Computed in double, stored as float.
 *
 * longrope (Ding et al., LongRoPE, arXiv 2402.13753) is two tables of freq_factors, one for contexts within n_ctx_orig and one for
 * longer ones, and a number in mscale that holds for both: sqrt(1 + ln(n_ctx_train / n_ctx_orig) / ln(n_ctx_orig)), which a
 * converter writes as rope.scaling.attn_factor. The context is the one that a sequence was given, not the tokens that it has:
 * cached keys are rotated. So ggml-org/llama.cpp, src/llama-model.cpp, get_rope_factors (which table) and conversion/phi.py (the
 * number); the number also huggingface/transformers, modeling_rope_utils.py, _compute_longrope_parameters. */
#ifndef ZINC_MODEL_ROPE_H
#define ZINC_MODEL_ROPE_H

#include "model/model.h"

/* The layer's freq_factors in a context of n_ctx positions, [n_rot / 2]; NULL: ones. n_ctx may be rounded up to a multiple of 16. */
const struct gguf_tensor *rope_divisors(const struct model_layer *l, uint32_t n_ctx);

/* `freq_factors` [n_rot / 2], or NULL for ones; `inv_freq` [n_rot / 2]. */
void rope_inv_freq(const struct rope_params *p, const float *freq_factors, float *inv_freq);

/* First and last pair of the YaRN ramp. */
void rope_yarn_bounds(const struct rope_params *p, double *low, double *high);

/* The factor of cos and sin that goes with YaRN by `factor` (>= 1): 1 + 0.1 ln(factor). */
float rope_yarn_mscale(double factor);

/* The model's layers with full attention are to reach `factor` times as far as they were trained for, as if the file had said so in
 * its rope.scaling keys; layers with a window stay, and n_ctx_train is multiplied. -ENOTSUP: the file scales by itself. */
int rope_scale_model(struct model *m, bool yarn, float factor, struct err *e);

#endif
