/* cuda/cuda.h: private to cuda/
 * The tier's objects. A tier holds a context, one stream, the arenas and the modules; a plan holds launches and the
 * graphs made of them. Steps go through a ring in host memory that the first kernel of a graph reads; the last kernel
 * counts the step in a word that the host polls. */
#ifndef ZINC_CUDA_CUDA_H
#define ZINC_CUDA_CUDA_H

#include "cuda/driver.h"
#include "rt/blob.h"
#include "rt/replay.h"

/* Memory of the host that the device sees. */
struct cuda_host {
    void *p;
    cu_ptr va;
    uint64_t bytes;
};

struct cuda_module {
    const char *name;
    const struct kernel_blob *blob, *code; /* PTX; machine code, or NULL */
    cu_module m;
    cu_result rc;
    char log[512];
};

struct cuda {
    struct replay r;
    const struct cuda_api *cu;
    cu_device dev;
    cu_ctx ctx;
    bool retained;
    char name[64];
    const char *target;      /* of the modules: sm_90a, sm_80 */
    cu_stream q;
    cu_ptr arena[ARENA_COUNT];
    cu_ptr seq;              /* u32 on the device: steps begun */
    struct cuda_host io;     /* mirror of IO: logits and next tokens of the last step */
    struct cuda_host done;   /* u32: steps complete */
    bool copying;            /* copies are in the stream behind the newest step */
    struct cuda_module *modules;
    uint32_t n_modules;
    cu_func func[KERNEL_COUNT];
};

/* Launches [first, first + n) of a pass as one that walks through them (cuda/walk.c). */
struct cuda_walk {
    uint32_t first, n;
    cu_module module;
    cu_func func;
    cu_ptr counters;
    uint32_t groups, shared;
    kl_walk args;
};

/* A pass as the driver has it: with the plan where steps of decoding take it, else before the first step that does. */
struct cuda_pass {
    bool made;
    cu_exec exec;
    struct cuda_walk *walks; /* of a persistent plan, in order */
    uint32_t n_walks;
    cu_event *events; /* [d->n + 1], when tracing */
};

struct cuda_plan {
    struct replay_plan r;
    struct cuda_pass pass[REPLAY_PASSES];
    cu_ptr work, consts;
    struct cuda_host ring;    /* [KL_RING] step blocks */
    kl_step_begin begin;
    kl_step_end end;
};

static inline struct cuda *cuda_of(const struct tier *t)
{
    return (struct cuda *)t;
}
static inline struct cuda *cuda_of_replay(const struct replay *r)
{
    return (struct cuda *)r;
}

/* e gets "cuda: <what>: <error>"; -ENOMEM for a full device, else -EIO. */
__attribute__((format(printf, 4, 5))) int cuda_fail(const struct cuda *c, cu_result r, struct err *e, const char *fmt,
                                                    ...);

/* `made` is what a call gave that filled device memory from the host's, or with one byte. Such calls return before the device
 * has done it ("API synchronization behavior" in NVIDIA's CUDA Driver API reference: pageable memory is staged, memset is
 * asynchronous) and belong to the default stream, for which c->q does not wait: here the host does. */
cu_result cuda_settle(struct cuda *c, cu_result made);

int cuda_host_alloc(struct cuda *c, struct cuda_host *h, uint64_t bytes, struct err *e);
void cuda_host_free(struct cuda *c, struct cuda_host *h);

/* cuda/module.c: functions of the kernels in `need`, loading modules as needed, several at once. */
int cuda_modules_need(struct cuda *c, const bool need[KERNEL_COUNT], struct err *e);
void cuda_modules_free(struct cuda *c);

/* cuda/load.c */
int cuda_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);

/* cuda/plan.c */
int cuda_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void cuda_plan_destroy(struct tier_plan *p);
int cuda_run(struct replay *r, struct replay_plan *p, uint32_t pass, uint32_t n, uint64_t *point); /* replay_ops */
int cuda_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void cuda_plan_dump(const struct tier_plan *p, FILE *f);

/* cuda/walk.c: finds the runs of launches that have a persistent form, and makes a walk of each. d is relocated. */
int cuda_walks_make(struct cuda *c, const struct dispatch_plan *d, struct cuda_pass *x, struct err *e);
cu_result cuda_walk_launch(struct cuda *c, const struct cuda_walk *w);
void cuda_walks_free(struct cuda *c, struct cuda_pass *x);

/* cuda/report.c: a report of a failure, in a folder of its own; its path goes into c->r.fault. */
void cuda_report(struct cuda *c, cu_result r, const struct replay_plan *p, uint32_t cmd, const char *when);

#endif
