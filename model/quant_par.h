/* model/quant_par.h: a loop on several threads, for programs that convert whole files. */
#ifndef ZINC_MODEL_QUANT_PAR_H
#define ZINC_MODEL_QUANT_PAR_H

#include <stdint.h>

#include "base/err.h"

/* Calls fn(user, i, e) for i = 0 .. n-1, in any order, on `n_threads` threads (the caller's is one of them; 0: one
 * per core). Returns the failure with the lowest i among those seen; after a failure no new call begins. */
int quant_parallel(uint32_t n_threads, uint64_t n, int (*fn)(void *user, uint64_t i, struct err *e), void *user,
                   struct err *e);

#endif
