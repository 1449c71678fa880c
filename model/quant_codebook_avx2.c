/* The search for codes in AVX2 (the Makefile's ISA_avx2). */
#ifdef __AVX2__
#define FIT quant_codebook_fit_avx2
#include "model/quant_codebook_fit.h"
#endif
