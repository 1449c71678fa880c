/* rt/kfd/plan.h: private to rt/kfd/: the tier's objects.
 * A plan is one indirect buffer per row class, made once. A step is: its words into a slot of the step ring (host
 * memory, where the first kernel fetches them), then a packet that calls the buffer and one that raises the fence. */
#ifndef ZINC_RT_KFD_PLAN_H
#define ZINC_RT_KFD_PLAN_H

#include "kernels/klaunch.h"
#include "rt/dispatch.h"
#include "rt/kfd/kfd.h"
#include "rt/tier.h"

enum {
    KFD_MAX_SCRATCH = 8,
    KFD_RING_BYTES = 64 << 10,
    KFD_LAUNCH_SHIFT = 20, /* progress: the pass's number above, 1 + the launch that runs below */
};

struct kfd_tier {
    struct tier base;
    struct kfd_dev *dev;
    struct kfd_queue *q;
    struct kfd_copier copier;
    struct dispatch_target t;
    bool check, trace_on;          /* launches one by one, each waited for; time stamps        */
    struct kfd_module *modules;
    uint32_t n_modules;
    struct kfd_kernel kernel[KERNEL_COUNT]; /* name "": not loaded                              */
    struct kfd_scratch scratch;    /* for the hungriest kernel so far                          */
    struct kfd_mem *old_scratch[KFD_MAX_SCRATCH]; /* that older plans use                      */
    uint32_t n_old_scratch;
    struct kfd_mem *arena[ARENA_COUNT];
    struct kfd_mem *seq;           /* u32 on the GPU: steps begun                              */
    struct kfd_mem *io;            /* the host's mirror of IO: logits and next tokens          */
    bool mirrored;                 /* every plan leaves its logits in the mirror               */
    uint64_t issued, slot_point[KL_RING];
    uint64_t weight_bytes, weights_hash, work_bytes;
    uint32_t n_weights, n_passes;
    struct tier_trace *trace;
    uint32_t n_trace, cap_trace;
    struct err fault;
    struct kfd_plan *plans;
};

/* Launches for steps of at most max_rows rows, as packets. Launch 0 fetches the step, 1.. are the dispatches, the
 * last one ends the step; launch i lies at dwords at[i]..at[i + 1]. */
struct kfd_pass {
    struct dispatch_plan *d;
    uint32_t max_rows, number, n_launches, n_dw;
    uint32_t *at, *dw;             /* dw: what the GPU has in ib                                */
    struct kfd_mem *ib, *args, *stamps;
    uint32_t call[PM4_DW_INDIRECT_BUFFER];
};

struct kfd_plan {
    struct tier_plan base;
    struct kfd_plan *next;
    struct kfd_pass pass[2];       /* by falling max_rows                                       */
    uint32_t n_passes, stride;
    struct kfd_mem *work, *consts, *ring; /* ring: [KL_RING] step blocks                        */
    kl_step_begin begin;
    kl_step_end end;
};

static inline struct kfd_tier *kfd_of(const struct tier *t)
{
    return (struct kfd_tier *)t;
}

/* tier.c: kernels in `need` become usable, with scratch memory for all of them. */
int kfd_kernels_need(struct kfd_tier *c, const bool need[KERNEL_COUNT], struct err *e);

/* load.c */
int kfd_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);

/* plan.c */
int kfd_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void kfd_plan_destroy(struct tier_plan *p);
int kfd_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point);
int kfd_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds);
int kfd_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void kfd_plan_dump(const struct tier_plan *p, FILE *f);
/* What launch i of a pass is; cmd UINT32_MAX: the step's frame. */
const char *kfd_launch_name(const struct kfd_pass *x, uint32_t i, uint32_t *cmd);

/* report.c: the story of a failure in a folder of its own; its path goes into c->fault. */
void kfd_report(struct kfd_tier *c, const struct err *why, const char *when);

#endif
