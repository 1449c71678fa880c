/* oracle/mm_avx512.c: the products on a CPU with AVX-512 with VNNI: Intel since Cascade Lake. */
#include "oracle/mm_block.h"

#ifdef __AVX512VNNI__
#include "oracle/mm_avx512.h"

static const struct mm_kernels kernels = { "avx512", quant, dot };
const struct mm_kernels *const mm_avx512 = &kernels;

#else
const struct mm_kernels *const mm_avx512 = NULL;
#endif
