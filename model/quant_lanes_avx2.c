/* The fits of model/quant_lanes.h in AVX2 (the Makefile's ISA_avx2). */
#ifdef __AVX2__
#define LANES_NAME(name) name##_avx2
#include "model/quant_lanes_fit.h"
#endif
