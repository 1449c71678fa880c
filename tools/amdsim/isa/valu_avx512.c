/* tools/amdsim/isa/valu_avx512.c: the quick forms for hosts with AVX-512. */
#define VALU_FAST valu_fast_avx512
#include "tools/amdsim/isa/valu_fast.h"
