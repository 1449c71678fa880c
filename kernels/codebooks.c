/* kernels/codebooks.c: the entries of kernels/codebooks.inc as words of bytes. */
#include "kernels/codebooks.h"

/* The value of index c. */
#define VALUE_IQ2(c)     (8 + 17 * (c) + (c) / 2)
#define VALUE_IQ1(c)     (8 * (c))
#define VALUE_IQ3_XXS(c) (4 + 8 * (c) + (c) / 7 * 2)
#define VALUE_IQ3_S(c)   (1 + 2 * (c))

#define BYTE(value, bits, v, i) ((uint32_t)value((v) >> (bits) * (i) & ((1 << (bits)) - 1)))
#define WORD(value, bits, v, i)                                                                                        \
    (BYTE(value, bits, v, i) | BYTE(value, bits, v, i + 1) << 8 | BYTE(value, bits, v, i + 2) << 16 |                  \
     BYTE(value, bits, v, i + 3) << 24)
#define EIGHT(value, v) { WORD(value, 2, v, 0), WORD(value, 2, v, 4) },

#define IQ2(v)     EIGHT(VALUE_IQ2, v)
#define IQ1(v)     EIGHT(VALUE_IQ1, v)
#define IQ3_XXS(v) WORD(VALUE_IQ3_XXS, 3, v, 0),
#define IQ3_S(v)   WORD(VALUE_IQ3_S, 3, v, 0),

/* As codebooks.h declares them: a row of words, or words. */
#define TYPE_iq2_xxs [][2]
#define TYPE_iq2_xs  [][2]
#define TYPE_iq2_s   [][2]
#define TYPE_iq1     [][2]
#define TYPE_iq3_xxs []
#define TYPE_iq3_s   []
#define BOOK(name, n, ...)                                                                                             \
    const uint32_t codebook_##name TYPE_##name = { __VA_ARGS__ };                                                      \
    _Static_assert(sizeof codebook_##name / sizeof *codebook_##name == n, "entries of " #name);
#include "kernels/codebooks.inc"
