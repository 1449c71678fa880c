/* wmma_rows.h for processors with AVX2. */
#define ROWS(name) name##_avx2
#include "tools/amdsim/isa/wmma_rows.h"
