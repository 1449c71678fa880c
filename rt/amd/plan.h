/* rt/amd/plan.h: private to rt/amd/: the tier's objects.
 * A plan is one indirect buffer per row class, made once. A step is: its words into a slot of the step ring (host
 * memory, where the first kernel fetches them), then the buffer submitted once more. */
#ifndef ZINC_RT_AMD_PLAN_H
#define ZINC_RT_AMD_PLAN_H

#include "kernels/kernel_id.h"
#include "kernels/klaunch.h"
#include "kernels/walk_amd.h"
#include "rt/amd/amd.h"
#include "rt/amd/tier.h"
#include "rt/replay.h"

enum {
    AMD_MAX_SCRATCH = 8,
    AMD_LAUNCH_SHIFT = 20, /* progress: the pass's number above, 1 + the newest launch below */
};

struct amd_walk;
struct amd_bodies;

struct amd_tier {
    struct replay r;
    struct tier_impl impl;         /* by the winsys's name                                     */
    struct amd_winsys *w;          /* owned                                                    */
    struct amd_copier copier;
    struct amd_module *modules;
    uint32_t n_modules;
    struct amd_kernel kernel[KERNEL_COUNT]; /* name "": not loaded                              */
    struct amd_bodies *bodies;     /* of persistent plans; NULL: there was none yet            */
    struct amd_scratch scratch;    /* for the hungriest kernel so far                          */
    struct amd_mem old_scratch[AMD_MAX_SCRATCH]; /* that older plans use                       */
    uint32_t n_old_scratch;
    struct amd_mem arena[ARENA_COUNT];
    struct amd_mem seq;            /* u32 on the GPU: steps begun                              */
    struct amd_mem fence;          /* u32 on the GPU that the host never sees: barriers write it and wait for it;
                                    * none: they are partial flushes                           */
    struct amd_mem io;             /* the host's mirror of IO: logits and next tokens          */
    uint32_t n_passes;             /* made so far                                              */
    struct amd_plan *plans;
};

/* A pass as packets. Launch 0 fetches the step, 1.. are the dispatches, the
 * last one ends the step; launch i lies at dwords at[i]..at[i + 1]. */
struct amd_pass {
    const struct dispatch_plan *d; /* the replay_pass's                                         */
    uint32_t number, n_launches, n_barriers, n_dw;
    uint32_t n_parts;              /* submissions of a whole step                               */
    bool *begins;                  /* [n_launches] a submission of its own begins there         */
    uint32_t *at, *dw;             /* dw: what the GPU has in ib                                */
    struct pm4_launch *regs;       /* [n_launches] while it is made                             */
    struct amd_mem ib, args, stamps;
    struct amd_walk *walks;        /* [n_walks] of a persistent plan, for whole steps, which then are walk_ib */
    uint32_t n_walks, n_walk_dw, *walk_dw;
    struct amd_mem walk_ib;
};

struct amd_plan {
    struct replay_plan r;
    struct amd_plan *next;
    struct amd_pass pass[REPLAY_PASSES];
    struct amd_mem work, consts, ring; /* ring: [KL_RING] step blocks                        */
    kl_step_begin begin;
    kl_step_end end;
};

static inline struct amd_tier *amd_of(const struct tier *t)
{
    return (struct amd_tier *)t;
}
static inline struct amd_tier *amd_of_replay(const struct replay *r)
{
    return (struct amd_tier *)r;
}

/* tier.c: kernels in `need` become usable, with scratch memory for all of them. */
int amd_kernels_need(struct amd_tier *c, const bool need[KERNEL_COUNT], struct err *e);

/* load.c */
int amd_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);

/* plan.c */
int amd_plan_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void amd_plan_destroy(struct tier_plan *p);
int amd_plan_run(struct replay *r, struct replay_plan *p, uint32_t pass, uint32_t n, uint64_t *point); /* replay_ops */
int amd_plan_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void amd_plan_dump(const struct tier_plan *p, FILE *f);
/* What launch i of a pass is; cmd UINT32_MAX: the step's frame. */
const char *amd_launch_name(const struct amd_pass *x, uint32_t i, uint32_t *cmd);
/* Does it begin when all launches before it are complete? Else it may overlap with those since the last that did. */
bool amd_launch_waits(const struct amd_tier *c, const struct amd_pass *x, uint32_t i);

/* report.c: a report of a failure, in a folder of its own; its path goes into c->r.fault. */
void amd_report(struct amd_tier *c, const struct err *why, const char *when);

#endif
