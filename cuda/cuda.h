/* cuda/cuda.h: private to cuda/
 * The tier's objects. A tier holds a context, one stream, the arenas and the modules; a plan holds launches and the
 * graphs made of them. Steps go through a ring in host memory that the first kernel of a graph reads; the last kernel
 * counts the step in a word that the host polls. */
#ifndef ZINC_CUDA_CUDA_H
#define ZINC_CUDA_CUDA_H

#include "cuda/driver.h"
#include "rt/blob.h"
#include "rt/dispatch.h"
#include "rt/tier.h"

/* Memory of the host that the device sees. */
struct cuda_host {
    void *p;
    cu_ptr va;
    uint64_t bytes;
};

struct cuda_module {
    const char *name;
    const struct kernel_blob *blob;
    cu_module m;
    cu_result rc;
    char log[512];
};

struct cuda {
    struct tier base;
    const struct cuda_api *cu;
    cu_device dev;
    cu_ctx ctx;
    bool retained;
    char name[64];
    const char *target;      /* of the modules: sm_90a, sm_80 */
    struct dispatch_target t;
    cu_stream q;
    bool check, trace_on;    /* launches one by one, each waited for; time stamps */
    cu_ptr arena[ARENA_COUNT];
    cu_ptr seq;              /* u32 on the device: steps begun */
    struct cuda_host io;     /* mirror of IO: logits and next tokens of the last step */
    struct cuda_host done;   /* u32: steps complete */
    bool mirrored;           /* every plan leaves its logits in the mirror */
    uint64_t issued;
    bool copying;            /* copies are in the stream behind the newest step */
    struct cuda_module *modules;
    uint32_t n_modules;
    cu_func func[KERNEL_COUNT];
    uint64_t weight_bytes, weights_hash, work_bytes;
    uint32_t n_weights;
    struct tier_trace *trace;
    uint32_t n_trace, cap_trace;
    struct err fault;
    const struct cuda_plan *last; /* of the newest submission */
};

/* Launches for steps of at most max_rows rows. */
struct cuda_pass {
    struct dispatch_plan *d;
    uint32_t max_rows;
    cu_exec exec;
    cu_event *events; /* [d->n + 1], when tracing */
};

struct cuda_plan {
    struct tier_plan base;
    struct cuda_pass pass[2]; /* by falling max_rows */
    uint32_t n_passes;
    cu_ptr work, consts;
    struct cuda_host ring;    /* [KL_RING] step blocks */
    uint32_t stride;
    kl_step_begin begin;
    kl_step_end end;
};

static inline struct cuda *cuda_of(const struct tier *t)
{
    return (struct cuda *)t;
}

/* e gets "cuda: <what>: <error>"; -ENOMEM for a full device, else -EIO. */
__attribute__((format(printf, 4, 5))) int cuda_fail(const struct cuda *c, cu_result r, struct err *e, const char *fmt,
                                                    ...);

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
int cuda_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point);
int cuda_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds);
int cuda_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void cuda_plan_dump(const struct tier_plan *p, FILE *f);

/* cuda/report.c: the story of a failure in a folder of its own; its path goes into c->fault. */
void cuda_report(struct cuda *c, cu_result r, const struct cuda_plan *p, uint32_t cmd, const char *when);

#endif
