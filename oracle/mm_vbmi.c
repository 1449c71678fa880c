/* oracle/mm_vbmi.c: the products on a CPU with AVX-512 with VBMI and GFNI too, which open codebooks (oracle/mm_books.h): Intel since Ice Lake,
 * AMD since Zen 4. */
#include "oracle/mm_block.h"

#ifdef __AVX512VBMI__
#include "oracle/mm_avx512.h"

static const struct mm_kernels kernels = { "vbmi", quant, dot };
const struct mm_kernels *const mm_vbmi = &kernels;

#else
const struct mm_kernels *const mm_vbmi = NULL;
#endif
