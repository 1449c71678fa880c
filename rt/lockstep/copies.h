/* rt/lockstep/copies.h
 * The copies into shared memory that kernels/hw/mma.h begins, of one work-group on the host. A group of them, which an item
 * commits, is made at once or when the item waits for it, as drawn: what is read without having waited is sometimes not there, and
 * what is still read while a copy is begun is sometimes written over. Reported: a destination outside the work-group's shared
 * memory, and addresses that are not aligned to the size.
 * Source: the PTX ISA manual, "cp.async". */
#ifndef ZINC_RT_LOCKSTEP_COPIES_H
#define ZINC_RT_LOCKSTEP_COPIES_H

#include <stdint.h>

struct copies;

struct copies *copies_create(void); /* NULL: no memory */
void copies_destroy(struct copies *c);
void copies_begin(struct copies *c, uint8_t *shared, uint32_t bytes, uint32_t threads, uint64_t seed);

#endif
