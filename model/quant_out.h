/* model/quant_out.h: what programs that write whole models ask before they begin. */
#ifndef ZINC_MODEL_QUANT_OUT_H
#define ZINC_MODEL_QUANT_OUT_H

#include <stdint.h>

#include "base/err.h"

/* May a file of `bytes` be created (or replaced) at `path`? -EINVAL: something other than a file lies there;
 * -ENOSPC: not enough room, how much is there and how much is needed; -ENOENT and the like: the folder. */
int quant_check_output(const char *path, uint64_t bytes, struct err *e);

#endif
