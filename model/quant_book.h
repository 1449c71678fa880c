/* model/quant_book.h
 * Blocks of the types of codebooks with random codes: what stands in for weights where a model's shape or a kernel is tried, and
 * searching entries for random numbers would take its time. */
#ifndef ZINC_MODEL_QUANT_BOOK_H
#define ZINC_MODEL_QUANT_BOOK_H

#include <stdint.h>

#include "kernels/qtypes.h"

/* The block's d, wherever the type has it. */
void quant_book_set_d(enum qtype t, void *block, float d);

/* A block of random bytes that lie there becomes one that such files may hold, whose weights have this root mean square. */
void quant_book_tame(enum qtype t, void *block, float rms);

#endif
