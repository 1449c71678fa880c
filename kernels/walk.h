/* kernels/walk.h
 * The persistent plan: one resident launch that walks the list of what were launches of their own. Host and device agree
 * here on its list and its memory.
 *
 * Work-groups of the walk take the groups of an item in turn, call the kernel's body with them, and add 1 to a counter when
 * they are through with the item. A body waits (kd_wait_inputs) until the counter has reached the item's `need`: the sum of
 * what the items before it add. An item's groups add nothing before they have waited, so a full count means that everything
 * before is complete, and one counter does for all. What a body does before it waits (asking for weights) overlaps with the
 * items before, as it does between launches.
 *
 * List and arguments lie in constant memory, for which compilers and caches treat them as they do a kernel's parameters. */
#ifndef ZINC_KERNELS_WALK_H
#define ZINC_KERNELS_WALK_H

#include <stdint.h>

enum {
    WALK_THREADS = 256,     /* of every work-group: kernels of another size have no place in a walk     */
    WALK_PER_CORE = 2,      /* work-groups that find registers (decode products are made for so many)   */
    WALK_HEAD = 128,        /* bytes of shared memory in front of the kernel's: struct walk_group       */
    WALK_CONST = 60 << 10,  /* bytes of constant memory for the list and the arguments                  */
    WALK_SECONDS = 10,      /* without the counter moving: the walk gives up, which is an error         */
};

struct walk_item {
    uint32_t kernel; /* its number among the walk's kernels              */
    uint32_t args;   /* where its arguments begin in constant memory     */
    uint32_t need;   /* the counter's value when its inputs are complete */
    uint32_t groups; /* the product of the next                          */
    uint32_t grid[3];
    uint32_t pad;
};
_Static_assert(sizeof(struct walk_item) == 32, "device ABI");

/* What a body's kd_group_x and so on say; written before each call. */
struct walk_group {
    uint32_t id[3], grid[3];
    uint32_t zero, pad;  /* zero: the compiler does not know that */
    uint32_t wait, need; /* wait: this work-group has not waited for the item's inputs yet */
    uint64_t args;       /* of the body, in constant memory */
    uint64_t counter;
};

#endif
