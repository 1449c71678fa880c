/* engine/roof.h
 * What the memory of this machine gives when nothing but reading is done: the roof over decoding on the CPU. All
 * threads read a buffer that no cache holds, each as four streams of its own, huge pages where there are any. */
#ifndef ZINC_ENGINE_ROOF_H
#define ZINC_ENGINE_ROOF_H

#include <stdint.h>

#include "base/err.h"

struct roof;

/* n_threads 0: one per core. The buffer has 1 GiB or four times the last-level cache, but never more than a quarter of
 * the free memory. -ENOMEM, -EAGAIN: no memory, no threads. */
int roof_create(uint32_t n_threads, struct roof **out, struct err *e);
void roof_destroy(struct roof *r); /* NULL is fine */

double roof_measure(struct roof *r); /* reads the buffer once: GB/s (10^9 bytes) */
double roof_best(const struct roof *r); /* the best so far                       */
uint64_t roof_bytes(const struct roof *r);
uint32_t roof_threads(const struct roof *r);

#endif
