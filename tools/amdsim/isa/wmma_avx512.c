/* wmma_rows.h for processors with AVX512. */
#define ROWS(name) name##_avx512
#include "tools/amdsim/isa/wmma_rows.h"
