/* oracle/mm_avxvnni.c: the products on a CPU with AVX-VNNI beside AVX2: Intel since Alder Lake, AMD since Zen 5. */
#include "oracle/mm_block.h"

#ifdef __AVXVNNI__
#include "oracle/mm_avx2.h"

static const struct mm_kernels kernels = { "avxvnni", quant, dot };
const struct mm_kernels *const mm_avxvnni = &kernels;

#else
const struct mm_kernels *const mm_avxvnni = NULL;
#endif
