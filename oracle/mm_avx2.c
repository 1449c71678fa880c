/* oracle/mm_avx2.c: the products on a CPU with AVX2, FMA and F16C. */
#include "oracle/mm_block.h"

#ifdef __AVX2__
#include "oracle/mm_avx2.h"

static const struct mm_kernels kernels = { "avx2", quant, dot };
const struct mm_kernels *const mm_avx2 = &kernels;

#else
const struct mm_kernels *const mm_avx2 = NULL;
#endif
