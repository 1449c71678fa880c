/* metal/metal.h: private to metal/: the tier's objects.
 * A plan is, for each class of rows, its launches and one buffer with their arguments. A step is: its words into a slot of
 * the step ring, which all can see, then one command buffer that the launches are encoded into, and a shared event that it
 * raises to the step's point. All memory is shared with the host (unified), so results need no copies. */
#ifndef ZINC_METAL_METAL_H
#define ZINC_METAL_METAL_H

#include "metal/objc.h"
#include "rt/replay.h"

/* Of Metal's headers. */
enum {
    METAL_FAMILY_APPLE7 = 1007, METAL_FAMILY_METAL3 = 5001,
    METAL_LANGUAGE_3_2 = 3 << 16 | 2,
    METAL_MATH_SAFE = 0, METAL_MATH_PRECISE = 1,
    METAL_SHARED_UNTRACKED = 1 << 8, /* resource options: storage mode shared, hazards not tracked */
    METAL_CONCURRENT = 1,
    METAL_SCOPE_BUFFERS = 1,
    METAL_INDIRECT_DISPATCH = 1 << 5,
    METAL_FAIL_ON_MISS = 1 << 2, /* of a pipeline: it is in an archive or not made */
    METAL_STATUS_COMPLETED = 4, METAL_STATUS_ERROR = 5,
};
enum {
    METAL_WIDTH = 32,        /* lanes of a SIMD-group, which the kernels are written for                             */
    METAL_ARGS_ALIGN = 256,  /* of an argument struct in its buffer; Apple GPUs ask for 4, others for 32 or 256      */
    METAL_SHARED_MAX = 32 << 10, /* bytes of a work-group on every Apple GPU (Metal feature set tables)              */
    METAL_SHARED_ALIGN = 16,
    METAL_ARCHIVE_NAME = 64,
};

struct metal_mem {
    id buffer;
    uint64_t va, bytes;
    uint8_t *cpu;
};

/* A pass as it is encoded. Launch 0 fetches the step, 1.. are the dispatches, the last one ends the step. */
struct metal_pass {
    uint32_t n;
    uint32_t *args_at;      /* [n] offsets in args */
    struct metal_mem args;
    id indirect;            /* the launches recorded; nil: they are encoded for each step */
};

struct metal_plan {
    struct replay_plan r;
    struct metal_pass pass[REPLAY_PASSES];
    struct metal_mem work, consts, ring;
};

struct metal_tier {
    struct replay r;
    id device, queue, event, fence, residency;
    bool record;                       /* passes are recorded into indirect command buffers              */
    id library[KERNEL_COUNT];          /* of the module that has kernel i as its first; nil: not made */
    id pipeline[KERNEL_COUNT];
    struct metal_archives {
        uint64_t key;                  /* what they are for: GPU, macOS, kernels                             */
        char file[16][METAL_ARCHIVE_NAME]; /* names in the folder of those that were read                    */
        uint32_t n_read;
        id fresh;                      /* takes what none of them has; nil: nothing is kept                  */
        id all;                        /* an NSArray of those read and fresh                                 */
        uint32_t n_added;              /* to fresh, since it was written                                     */
        char written[METAL_ARCHIVE_NAME]; /* its file, once it has one                                       */
    } archives;
    int fresh;                         /* tier_opts                                                          */
    struct metal_mem arena[ARENA_COUNT], cells; /* cells: u32 steps begun, u32 steps done               */
    uint64_t point;
    struct { id cmdbuf; uint64_t point; } flight[KL_RING]; /* by point % KL_RING; ours until it is known to be complete */
};

static inline struct metal_tier *metal_of(const struct tier *t)
{
    return (struct metal_tier *)t;
}
static inline struct metal_tier *metal_of_replay(const struct replay *r)
{
    return (struct metal_tier *)r;
}

/* metal/device.c */
int metal_pick(const struct tier_opts *o, id *out, struct err *e);      /* ours */
int metal_check(id device, struct err *e);                              /* can it run the kernels? */
void metal_describe_device(id device, struct tier_info *info);
uint32_t metal_cores(const char *name);                                 /* GPU cores of a chip, by its name */
int metal_device_open(struct metal_tier *m, struct err *e);
/* Shared memory, zeroed, resident for the queue. -ENOMEM says what there is. */
int metal_alloc(struct metal_tier *m, uint64_t bytes, const char *name, struct metal_mem *out, struct err *e);
void metal_free(struct metal_tier *m, struct metal_mem *mem);           /* none is fine */
/* "NSError's domain and code: its words", of an NSError. */
void metal_error(id error, char *out, size_t n);

/* metal/tier.c: gives back whatever m holds, and waits for what is under way; m itself stays. */
void metal_close(struct metal_tier *m);

/* metal/kernels.c */
int metal_kernels_need(struct metal_tier *m, const bool need[KERNEL_COUNT], struct err *e);

/* metal/archive.c: pipelines as the GPU has them, kept on disk. */
void metal_archives_open(struct metal_tier *m);
id metal_archives_pipeline(struct metal_tier *m, id descriptor, id *error); /* as device_pipeline; compiled at most once */
void metal_archives_save(struct metal_tier *m);                             /* where something was added */
void metal_archives_close(struct metal_tier *m);

/* metal/plan.c */
int metal_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void metal_plan_destroy(struct tier_plan *p);
int metal_run(struct replay *r, struct replay_plan *p, uint32_t pass, uint32_t n, uint64_t *point);
int metal_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void metal_dump(const struct tier_plan *p, FILE *f);
/* One launch by itself, waited for; ns: its time on the GPU, or NULL. */
int metal_launch(struct metal_tier *m, enum kernel_id k, const struct metal_mem *args, const uint32_t grid[3], uint32_t threads,
                 uint32_t shared, uint64_t *ns, struct err *e);

#endif
