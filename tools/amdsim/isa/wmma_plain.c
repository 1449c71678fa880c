/* wmma_rows.h for any processor. */
#define ROWS(name) name##_plain
#include "tools/amdsim/isa/wmma_rows.h"
