/* oracle/mm_dotprod.c: the products on an ARM with SDOT: Apple silicon, and most cores since 2018. */
#include "oracle/mm_block.h"

#ifdef __aarch64__
#define MM_DOTPROD
#include "oracle/mm_neon.h"

static const struct mm_kernels kernels = { "dotprod", quant, dot };
const struct mm_kernels *const mm_dotprod = &kernels;

#else
const struct mm_kernels *const mm_dotprod = NULL;
#endif
