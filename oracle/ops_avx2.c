#ifdef __AVX2__
#define OPS     cpu_ops_avx2
#define OPS_ISA "avx2"
#include "oracle/ops_impl.h"
#endif
