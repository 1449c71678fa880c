/* oracle/mm_amx.c */
#include "oracle/mm_block.h"

const struct mm_kernels *const mm_amx = NULL;
