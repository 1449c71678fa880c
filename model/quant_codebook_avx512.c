/* The search for codes in AVX-512 (the Makefile's ISA_avx512). */
#ifdef __AVX512F__
#define FIT quant_codebook_fit_avx512
#include "model/quant_codebook_fit.h"
#endif
