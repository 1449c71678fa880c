/* kernels/walk_amd.h: what kernels/walk_amd.S, the walk on AMD, is given. List and arguments (kernels/walk.h) lie in memory
 * there, and bodies are called where they lie. */
#ifndef ZINC_KERNELS_WALK_AMD_H
#define ZINC_KERNELS_WALK_AMD_H

#include "kernels/walk.h"

enum { WALK_ASKS_X = 1, WALK_ASKS_Y = 2, WALK_ASKS_Z = 4 }; /* which of a work-group's numbers a body finds in registers */
#define WALK_GONE 0x80000000u /* in the counter: somebody has given up */

struct walk_amd {
    uint64_t counter, left; /* u32, 0 between walks                                                       */
    uint64_t list, bodies;  /* struct walk_item [n_items], arguments; struct walk_amd_body by their number */
    uint64_t gave_up;       /* u32 [2] in host memory: become the counter and `first` when somebody has given up */
    uint32_t n_items, groups, first;
    uint32_t ticks;         /* of 10 ns without the counter moving: the walk gives up                      */
    uint32_t slots, pad;    /* where the waves' slots begin in shared memory, behind that of all bodies    */
};
enum { WALK_SLOT = 32 };    /* bytes of a wave's slot */
struct walk_amd_body {
    uint64_t entry;
    uint32_t asks, pad;
};

#endif
