/* oracle/mm_neon.c: the products on any ARM of 64 bits. */
#include "oracle/mm_block.h"

#ifdef __aarch64__
#include "oracle/mm_neon.h"

static const struct mm_kernels kernels = { "neon", quant, dot };
const struct mm_kernels *const mm_neon = &kernels;

#else
const struct mm_kernels *const mm_neon = NULL;
#endif
