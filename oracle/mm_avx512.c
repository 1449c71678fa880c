/* oracle/mm_avx512.c */
#include "oracle/mm_block.h"

const struct mm_kernels *const mm_avx512 = NULL;
