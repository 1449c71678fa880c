#define OPS     cpu_ops_plain
#define OPS_ISA "plain"
#include "oracle/ops_impl.h"
