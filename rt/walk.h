/* rt/walk.h
 * The list of a persistent plan's walk (kernels/walk.h), made from a run of a plan's launches.
 *
 *     struct walk_list w = { .form = f, .d = plan, .first = 12, .n = walk_length(f, plan, 12, has, user), .groups = 264 };
 *     walk_list_write(&w, number, user, bytes);              bytes [f->bytes] or walk_list_bytes(&w)
 *     walk_list_verify(&w, bytes, &e);
 */
#ifndef ZINC_RT_WALK_H
#define ZINC_RT_WALK_H

#include "kernels/walk.h"
#include "rt/dispatch.h"

/* What a device's lists are made for. */
struct walk_form {
    uint32_t bytes;                       /* of a list with its arguments, at most                        */
    uint32_t (*room)(uint32_t args_bytes); /* that the arguments of a launch take: a multiple of 16        */
};
extern const struct walk_form walk_form_const; /* constant memory of WALK_CONST bytes, arguments alone */

struct walk_list {
    const struct walk_form *form;
    const struct dispatch_plan *d;
    uint32_t first, n; /* launches of d              */
    uint32_t groups;   /* work-groups that walk      */
};

/* May the kernel be a body? It is made for WALK_THREADS, or takes any number. */
bool walk_takes(uint32_t kernel);
/* How many launches from `first` on have a body (has) and fit one list. */
uint32_t walk_length(const struct walk_form *f, const struct dispatch_plan *d, uint32_t first, bool (*has)(void *user, uint32_t kernel),
                     void *user);
/* The next run of launches from *first on that becomes a walk, and how many they are; 0: there is none. A run of one is better launched. */
uint32_t walk_next(const struct walk_form *f, const struct dispatch_plan *d, uint32_t *first, bool (*has)(void *user, uint32_t kernel),
                   void *user);
uint32_t walk_list_bytes(const struct walk_list *w);
/* Items, then arguments. number: of a kernel among the walk's. Launches that need not wait for the one before wait for what
 * that one waited for. */
void walk_list_write(const struct walk_list *w, uint32_t (*number)(void *user, uint32_t kernel), void *user, uint8_t *to);
/* Which of its items is under way when the counter has come so far: the last one that need not wait any more. */
uint32_t walk_list_standing(const struct walk_list *w, uint32_t counter);
/* Can the list deadlock or miss a dependency? -EINVAL names the item: its groups are its grid, its arguments lie behind the
 * list, and it needs what a whole number of the items before it add, no fewer than the item before it needed. */
int walk_list_verify(const struct walk_list *w, const uint8_t *list, struct err *e);

#endif
