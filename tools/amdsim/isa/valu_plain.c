/* tools/amdsim/isa/valu_plain.c: the quick forms for any host. */
#define VALU_FAST valu_fast_plain
#include "tools/amdsim/isa/valu_fast.h"
