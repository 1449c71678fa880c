#ifdef __AVX512F__
#define OPS     cpu_ops_avx512
#define OPS_ISA "avx512"
#include "oracle/ops_impl.h"
#endif
