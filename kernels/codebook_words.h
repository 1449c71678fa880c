/* kernels/codebook_words.h: what makes words of bytes of the entries of kernels/codebooks.inc: to be included before it, and once. */
#ifndef ZINC_KERNELS_CODEBOOK_WORDS_H
#define ZINC_KERNELS_CODEBOOK_WORDS_H

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

/* An array's shape, as codebooks.h declares it: rows of two words, or words. */
#define SHAPE_iq2_xxs [][2]
#define SHAPE_iq2_xs  [][2]
#define SHAPE_iq2_s   [][2]
#define SHAPE_iq1     [][2]
#define SHAPE_iq3_xxs []
#define SHAPE_iq3_s   []

#endif
