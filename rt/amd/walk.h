/* rt/amd/walk.h: private to rt/amd/: the persistent plan (kernels/walk.h, doc/persistent.md). Runs of a pass's launches whose
 * kernels have a body become one launch each, of k_walk; a whole step then is an indirect buffer of its own, with the launches that
 * have no body between the walks. */
#ifndef ZINC_RT_AMD_WALK_H
#define ZINC_RT_AMD_WALK_H

#include "rt/amd/plan.h"
#include "rt/walk.h"

extern const struct walk_form amd_walk_form; /* memory of the card; each launch's block of arguments in full */

struct amd_walk {
    uint32_t first, n;   /* dispatches of the pass                                   */
    uint32_t groups;     /* that walk: all of them fit the card at once              */
    uint32_t lds_bytes;
    struct amd_kernel k; /* k_walk, with registers and scratch for the hungriest body */
    struct pm4_launch regs;
    struct amd_mem mem;  /* list, counters, bodies, the block of arguments           */
};

/* After the pass has its addresses and its kernels their scratch memory. No walks: kind is not persistent, or the pass is not for
 * single rows. -ENOTSUP: one line that says why the card or the model has none. */
int amd_walks_make(struct amd_tier *c, const struct amd_plan *p, struct amd_pass *x, uint32_t rows, struct err *e);
/* The walk that begins with launch i of the pass; NULL: none does. */
const struct amd_walk *amd_walk_at(const struct amd_pass *x, uint32_t i);
/* The launch that does not come to its end where the walk that begins with launch `first` stands still with its counter there. */
uint32_t amd_walk_stands_at(const struct amd_pass *x, uint32_t first, uint32_t counter);
void amd_walks_free(struct amd_pass *x);
void amd_bodies_free(struct amd_bodies *b);

/* Work-groups of WALK_THREADS that the card holds at once, at most WALK_PER_CORE a compute unit. 0: not even one. */
uint32_t amd_walk_capacity(const struct amd_card *card, uint32_t vgprs, uint32_t lds_bytes, uint32_t lane_bytes);

#endif
