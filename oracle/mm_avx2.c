/* oracle/mm_avx2.c */
#include "oracle/mm_block.h"

const struct mm_kernels *const mm_avx2 = NULL;
