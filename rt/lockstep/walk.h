/* rt/lockstep/walk.h
 * The walk of a persistent plan (kernels/walk.h) on the host: its work-groups exist side by side, each with its fibres, and take
 * turns in an order drawn from a seed, so that whatever the list leaves open happens some time. A body that reads before it waits
 * reads what is there then. */
#ifndef ZINC_RT_LOCKSTEP_WALK_H
#define ZINC_RT_LOCKSTEP_WALK_H

#include "base/err.h"
#include "rt/walk.h"

/* Entries of kernels by the numbers that the list's items have, addresses being the host's. */
typedef void (*const lockstep_entry)(const void *args);

extern const struct dispatch_target lockstep_target; /* the tier's; cores and all are made up        */
enum { LOCKSTEP_WALKERS = 5 };                       /* of its walks: some items have more groups, some fewer */

struct lockstep_walker; /* work-groups that walks share */

int lockstep_walker_create(uint32_t groups, struct lockstep_walker **out, struct err *e);
void lockstep_walker_destroy(struct lockstep_walker *w); /* NULL is fine */

/* list: of n items, verified for so many work-groups (walk_list_verify); shared: bytes of a work-group. -EDEADLK: nobody can go on;
 * -EINVAL: a body came to its end without having waited; -EFAULT as in run.h. The message names item, kernel and work-group. */
int lockstep_walk(struct lockstep_walker *w, const uint8_t *list, uint32_t n, uint32_t shared, lockstep_entry *entries, uint64_t seed,
                  struct err *e);

#endif
