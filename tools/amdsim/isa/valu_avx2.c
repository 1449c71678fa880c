/* tools/amdsim/isa/valu_avx2.c: the quick forms for hosts with AVX2, FMA and F16C. */
#define VALU_FAST valu_fast_avx2
#include "tools/amdsim/isa/valu_fast.h"
