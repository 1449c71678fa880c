/* rt/replay.h
 * What the tiers that replay launches have in common: cuda, kfd, vulkan and lockstep. Such a tier turns a stream into
 * launches (rt/dispatch.h) once for each class of rows; a step then is its words in a slot of a ring, and one submission.
 * Here are the classes and the choice among them, the ring and the points in flight, the check that a stream is of the
 * model that was loaded, the threads that load it, the self-check, the roof, and those functions of tier_impl that are the
 * same for all.
 *
 * A tier embeds struct replay first in its own struct and struct replay_plan first in its plans, sets `ops`, and keeps
 * what is its own: memory, recording, submitting, waiting, and the words of an error. Not thread-safe, as tiers are not;
 * only the functions of a replay_loader are called on several threads.
 *
 *     prepare:  replay_plan_begin, replay_plan_build, memory and p->ring, dispatch_relocate, record, replay_plan_end
 *     submit:   replay_submit: waits for the slot, patches it, calls ops->run
 *     destroy:  replay_plan_free */
#ifndef ZINC_RT_REPLAY_H
#define ZINC_RT_REPLAY_H

#include "kernels/kernel_id.h"
#include "kernels/klaunch.h"
#include "rt/dispatch.h"
#include "rt/pieces.h"
#include "rt/tier.h"

/* The last two: rows of a prompt's further passes. */
enum { REPLAY_PASSES = 5, REPLAY_CHECK_N = 64, REPLAY_PROMPT_MANY = 512, REPLAY_PROMPT_FEW = 64 };

struct replay;
struct replay_plan;

struct replay_ops {
    /* Launches [0, n) of a pass (all of it when n is pass.d->n), then the end of the step. The step's words lie in its slot
     * of the ring. *point: what tier_impl.wait takes. -EIO: r->fault says why. */
    int (*run)(struct replay *r, struct replay_plan *p, uint32_t pass, uint32_t n, uint64_t *point);
    /* y = a + a by kernel K_add, on the device: for the self-check. */
    int (*add)(struct replay *r, const float a[REPLAY_CHECK_N], float y[REPLAY_CHECK_N], struct err *e);
};

/* Embedded first in a tier. */
struct replay {
    struct tier tier;
    const struct replay_ops *ops;
    struct dispatch_target target;
    bool check, trace_on;          /* launches one by one, each waited for; time stamps          */
    const uint8_t *mirror;         /* host memory with the IO arena's results; NULL: not there yet */
    bool mirrored;                 /* every plan leaves its logits in the mirror                 */
    uint64_t issued;               /* steps                                                      */
    uint64_t slot_point[KL_RING];  /* of the step that has a slot of the ring                    */
    uint64_t weight_bytes, weights_hash, work_bytes;
    uint32_t n_weights, *unit;     /* dispatch_weight_units of the stream that was loaded        */
    struct tier_trace *trace;      /* of the last step                                           */
    uint32_t n_trace, cap_trace;
    struct err fault;              /* the first failure; msg "": none                            */
    const struct replay_plan *last; /* of the newest submission                                  */
};

/* Launches for steps of at most max_rows rows. */
struct replay_pass {
    struct dispatch_plan *d;
    uint32_t max_rows;
};

/* Embedded first in a plan. */
struct replay_plan {
    struct tier_plan base;
    struct replay_pass pass[REPLAY_PASSES]; /* by falling max_rows; of two for as many the first is for parts of steps */
    uint32_t n_passes;
    uint32_t stride;                        /* bytes of a slot of the step ring          */
    uint64_t work_bytes;                    /* private memory that serves every pass     */
    uint8_t *ring;                          /* [KL_RING] slots: the words that the host writes, then the tokens that the
                                               step chose; the tier sets it */
    bool counted;
};

static inline struct replay *replay_of(const struct tier *t)
{
    return (struct replay *)t;
}
void replay_free(struct replay *r); /* what is here; the tier's struct is the tier's */

/* ---- plans ---- */

/* -EINVAL: the stream is of another model, or has its weights as matrices of other sizes than those that were loaded. */
int replay_plan_begin(struct replay_plan *p, struct replay *r, const struct stream *s, enum plan_kind k, struct err *e);
/* Launches for every class of rows. The kernels that they need are those of `need`, the step's frame included; NULL: the
 * target has kernels of its own. */
int replay_plan_build(struct replay_plan *p, bool need[KERNEL_COUNT], struct err *e);
/* The kernels of one of its passes, the step's frame included, into `need`. */
void replay_pass_need(const struct replay_plan *p, uint32_t pass, bool need[KERNEL_COUNT]);
/* Is it for parts of steps alone? */
bool replay_pass_apart(const struct replay_plan *p, uint32_t pass);
/* Are there steps of decoding that take this pass, with a row for each of the stream's slots or fewer? Others may take it, a
 * step of which the results of single commands are looked at for one: a tier that compiles for long makes it then. */
bool replay_pass_awaited(const struct replay_plan *p, uint32_t pass);
/* The plan is usable: from now on it is counted. */
void replay_plan_end(struct replay_plan *p);
void replay_plan_free(struct replay_plan *p); /* what is here */
/* Which pass runs a step: the one for the fewest rows that holds it. */
uint32_t replay_pass_for(const struct replay_plan *p, const struct step *step);

/* Where the step's frame finds things, as the device sees them. */
struct replay_places {
    gpu_va io, seq, done, ring;
};
void replay_frame(const struct replay_plan *p, const struct replay_places *at, kl_step_begin *begin, kl_step_end *end);

/* "in command 12 (MATMUL, layer 3)", with a space before it, for messages; "" for UINT32_MAX. */
void replay_where(const struct stream *s, uint32_t cmd, char *out, size_t n);
/* Room for the time stamps of n launches in r->trace. */
int replay_trace_room(struct replay *r, uint32_t n, struct err *e);

/* ---- weights ---- */

/* How a tier takes weights in. Each thread has `thread_bytes` of its own, zeroed, in which begin keeps what it needs; end
 * is called also when begin or piece failed, settles what is under way and frees. All report by e. */
struct replay_loader {
    uint32_t max_threads;  /* 1: on the caller's thread */
    bool whole;            /* pieces are whole weights (struct pieces) */
    size_t thread_bytes;
    int (*alloc)(struct replay *r, const struct stream *s, struct err *e); /* the arena of weights */
    int (*begin)(struct replay *r, void *thread, struct err *e);
    int (*piece)(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e);
    int (*end)(struct replay *r, void *thread, struct err *e);
};
/* -ECANCELED: by the progress. */
int replay_load(struct replay *r, const struct tier_weights *w, const struct replay_loader *l, const struct progress *p,
                struct err *e);

/* ---- measuring ---- */

/* Does the device execute what it is given? One addition, looked at; -EIO. `remedy` ends the message, or is "". */
int replay_self_check(struct replay *r, const char *device, const char *remedy, struct err *e);
/* GB/s of the best of `reads` readings of `bytes`; `once` is one of them. -ENOTSUP: it takes no time that can be seen. */
int replay_roof(struct replay *r, uint64_t bytes, uint32_t reads,
                int (*once)(struct replay *r, void *user, uint64_t *ns, struct err *e), void *user, double *gbs,
                struct err *e);

/* ---- functions of tier_impl ---- */

int replay_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point);
int replay_next(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next);
int replay_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds);
/* Waits for a point, however long it takes; e gets the fault. */
int replay_finish(struct replay *r, uint64_t point, struct err *e);
const void *replay_map(struct tier *t, enum arena a, uint64_t off);
int replay_fault(struct tier *t, struct err *out);
uint32_t replay_trace(struct tier *t, const struct tier_trace **out);
uint64_t replay_resident(const struct tier *t);

#endif
