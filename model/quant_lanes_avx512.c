/* The fits of model/quant_lanes.h in AVX-512 (the Makefile's ISA_avx512). */
#ifdef __AVX512F__
#define LANES_NAME(name) name##_avx512
#include "model/quant_lanes_fit.h"
#endif
