/* engine/sample/exp_sum.h
 * What a softmax over a whole vocabulary needs: sums of exponentials, in blocks of 64 logits, by vectors. Relative error below
 * 1e-6; NaN counts as -infinity. On x86-64 with AVX2 where the processor has it. Any thread. */
#ifndef ZINC_SAMPLE_EXP_SUM_H
#define ZINC_SAMPLE_EXP_SUM_H

#include <stdint.h>

enum { EXP_BLOCK = 64 };

/* The sum of exp((l[i] - max) / temp) over the i in the mask (one bit per logit; NULL: all), no l[i] being above max, temp > 0.
 * sums [ceil(n / 64)], or NULL: that of each block. */
double exp_sums(const float *l, const uint64_t *mask, uint32_t n, float max, float temp, float *sums);

#endif
