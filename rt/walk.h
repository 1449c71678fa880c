/* rt/walk.h
 * The list of a persistent plan's walk (kernels/walk.h), made from a run of a plan's launches.
 *
 *     struct walk_list w = { .d = plan, .first = 12, .n = walk_length(plan, 12, has, user), .groups = 264 };
 *     walk_list_write(&w, number, user, bytes);              bytes [WALK_CONST]
 *     walk_list_verify(bytes, w.n, w.groups, &e);
 */
#ifndef ZINC_RT_WALK_H
#define ZINC_RT_WALK_H

#include "kernels/walk.h"
#include "rt/dispatch.h"

struct walk_list {
    const struct dispatch_plan *d;
    uint32_t first, n; /* launches of d              */
    uint32_t groups;   /* work-groups that walk      */
};

/* May the kernel be a body? It is made for WALK_THREADS, or takes any number. */
bool walk_takes(uint32_t kernel);
/* How many launches from `first` on have a body (has) and fit one list. */
uint32_t walk_length(const struct dispatch_plan *d, uint32_t first, bool (*has)(void *user, uint32_t kernel), void *user);
/* Items, then arguments. number: of a kernel among the walk's. Launches that need not wait for the one before wait for what
 * that one waited for. */
void walk_list_write(const struct walk_list *w, uint32_t (*number)(void *user, uint32_t kernel), void *user, uint8_t *to);
/* Can the list deadlock or miss a dependency? -EINVAL names the item: its groups are its grid, its arguments lie behind the
 * list, and it needs what a whole number of the items before it add, no fewer than the item before it needed. */
int walk_list_verify(const uint8_t *list, uint32_t n, uint32_t groups, struct err *e);

#endif
