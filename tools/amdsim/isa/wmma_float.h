/* tools/amdsim/isa/wmma_float.h: private to wmma*.c. The adders behind float dot products and matrices.
 *
 *     struct wmma_step s = { .gfx12 = true, .a = WMMA_F16, .b = WMMA_F16, .out = WMMA_F32 };
 *     d = wmma_sum(&s, 4, a, b, c);         one step: four products and c, any values
 *     redo = wmma_rows12_avx2(bf16, a, b, c, d); 16 x 16 x 16, fast where all is finite
 *
 * Both compute the same bits. */
#ifndef AMDSIM_ISA_WMMA_FLOAT_H
#define AMDSIM_ISA_WMMA_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

enum wmma_type { WMMA_F32, WMMA_F16, WMMA_BF16, WMMA_FP8, WMMA_BF8 };

struct wmma_step {
    bool gfx12, fp16_ovfl; /* fp16_ovfl: MODE's bit, a finite sum too large for f16 becomes the largest value */
    enum wmma_type a, b, out;
};

/* One step of n products (2 or 4) and c; c and the answer are of the type `out`. */
uint32_t wmma_sum(const struct wmma_step *s, uint32_t n, const uint16_t *a, const uint16_t *b, uint32_t c);

/* The same of factors taken apart before, which matrices use many times. t: s->a or s->b */
struct wmma_factor {
    uint32_t sig;
    int32_t e; /* of the leading bit of a normal number; value = sig * 2^(e - fraction bits) */
    bool neg, nan, inf;
};
struct wmma_factor wmma_factor_of(const struct wmma_step *s, enum wmma_type t, uint32_t bits);
uint32_t wmma_sum_of(const struct wmma_step *s, uint32_t n, const struct wmma_factor *a, const struct wmma_factor *b,
                     uint32_t c);

/* d = a b + c in f32 for 16 x 16 x 16 halves: a is [k][row], b is [k][column], k in the order of the hardware's
 * steps. Returns a bit for each row of a and, from bit 16 on, for each column of b that holds an infinity or a NaN:
 * what they lead to is to be computed by wmma_sum. Relies on the host rounding int to float to nearest. */
enum { WMMA_DIM = 16 };
typedef uint32_t wmma_rows_fn(bool bf16, const uint16_t a[WMMA_DIM][WMMA_DIM], const uint16_t b[WMMA_DIM][WMMA_DIM],
                              const uint32_t c[WMMA_DIM][WMMA_DIM], uint32_t d[WMMA_DIM][WMMA_DIM]);
wmma_rows_fn wmma_rows11_plain, wmma_rows12_plain, wmma_rows11_avx2, wmma_rows12_avx2, wmma_rows11_avx512,
    wmma_rows12_avx512;

#endif
