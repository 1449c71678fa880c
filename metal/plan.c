/* metal/plan.c: plans, and steps as command buffers. A step is encoded anew each time, some five messages a launch, while the
 * step before runs; or its launches were recorded once into an indirect command buffer, and it is one message
 * (ZINC_METAL_ENCODE). Either way no object is made for it but its command buffer and encoder. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ckd.h"
#include "metal/metal.h"
#include "rt/report.h"

enum { WAIT_SLICE_MS = 100, HANG_SECONDS = 60 };

/* ---- launches of a pass ---- */

struct launch {
    enum kernel_id k;
    const uint32_t *grid;
    uint32_t threads, shared, cmd; /* cmd: UINT32_MAX in the step's frame */
};

static struct launch launch_of(const struct metal_plan *p, uint32_t pass, uint32_t i)
{
    static const uint32_t one[3] = { 1, 1, 1 };
    const struct metal_pass *x = &p->pass[pass];
    if (i == 0 || i == x->n - 1) {
        enum kernel_id k = i ? K_step_end : K_step_begin;
        return (struct launch){ k, one, kernel_infos[k].threads, 0, UINT32_MAX };
    }
    const struct dispatch *d = &p->r.pass[pass].d->d[i - 1];
    return (struct launch){ d->kernel, d->grid, d->threads, d->shared, d->cmd };
}

/* Everything before it is complete: what a launch asks for, and the step's frame. */
static bool waits(const struct metal_plan *p, uint32_t pass, uint32_t i)
{
    return i <= 1 || i == p->pass[pass].n - 1 || p->r.pass[pass].d->d[i - 1].wait;
}

/* ---- encoding ---- */

/* What the encoder has been told, so that it is told once. */
struct encoder {
    id e, pipeline;
    uint32_t shared;
};

/* After all that is under way: buffers are untracked, so Metal itself keeps command buffers in no order. */
static struct encoder begin(struct metal_tier *m, id cmdbuf, const struct metal_mem *args)
{
    struct encoder x = { .e = cmdbuf_encoder(cmdbuf, METAL_CONCURRENT) };
    encoder_wait(x.e, m->fence);
    encoder_buffer(x.e, args->buffer, 0, 0);
    return x;
}

static void encode(struct metal_tier *m, struct encoder *x, const struct launch *l, uint32_t args_at)
{
    uint32_t shared = (uint32_t)align_up(MAX(l->shared, 1u), METAL_SHARED_ALIGN);
    if (x->pipeline != m->pipeline[l->k])
        encoder_pipeline(x->e, x->pipeline = m->pipeline[l->k]);
    if (x->shared != shared)
        encoder_shared(x->e, x->shared = shared, 0);
    encoder_offset(x->e, args_at, 0);
    encoder_dispatch(x->e, (struct objc_size){ l->grid[0], l->grid[1], l->grid[2] }, (struct objc_size){ l->threads, 1, 1 });
}

/* Ends the encoder and commits. The command buffer is ours until the step is known to be complete. */
static void submit(struct metal_tier *m, id cmdbuf, const struct encoder *x)
{
    encoder_update(x->e, m->fence);
    encoder_end(x->e);
    uint64_t point = ++m->point;
    uint32_t at = point % KL_RING;
    object_release(m->flight[at].cmdbuf);
    m->flight[at].cmdbuf = object_retain(cmdbuf);
    m->flight[at].point = point;
    cmdbuf_signal(cmdbuf, m->event, point);
    commit(cmdbuf);
}

/* ---- waiting ---- */

/* Why the command buffer of a step up to `point` failed; false: none has. */
static bool failed(struct metal_tier *m, uint64_t point, char *why, size_t n)
{
    for (uint32_t i = 0; i < KL_RING; i++) {
        id b = m->flight[i].cmdbuf;
        if (!b || m->flight[i].point > point || cmdbuf_status(b) != METAL_STATUS_ERROR)
            continue;
        metal_error(cmdbuf_error(b), why, n);
        return true;
    }
    return false;
}

static int fault(struct metal_tier *m, const char *doing, const char *why)
{
    if (!m->r.fault.msg[0])
        err_set(&m->r.fault, -EIO, "metal: %s failed: %s", doing, why);
    return -EIO;
}

/* The event is not raised by a command buffer that failed, but perhaps by one behind it: the status decides. */
static int wait_point(struct metal_tier *m, uint64_t point, uint64_t timeout_ns)
{
    char why[300];
    uint64_t t0 = clock_ns();
    while (event_value(m->event) < point) {
        uint64_t gone = clock_ns() - t0;
        if (failed(m, point, why, sizeof why))
            return fault(m, "a step", why);
        if (gone >= timeout_ns)
            return -ETIME;
        uint64_t ms = MIN((timeout_ns - gone) / 1000000 + 1, (uint64_t)WAIT_SLICE_MS);
        event_wait(m->event, point, ms);
    }
    return failed(m, point, why, sizeof why) ? fault(m, "a step", why) : 0;
}

int metal_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    struct metal_tier *m = metal_of(t);
    void *pool = objc.pool_push();
    int rc = m->r.fault.msg[0] ? -EIO : wait_point(m, point, timeout_ns);
    objc.pool_pop(pool);
    return rc;
}

/* ---- a step ---- */

/* The same launches, recorded. */
static int record(struct metal_tier *m, struct metal_plan *p, uint32_t pass, struct err *e)
{
    struct metal_pass *x = &p->pass[pass];
    id d = objc_new("MTLIndirectCommandBufferDescriptor");
    indirect_set_types(d, METAL_INDIRECT_DISPATCH);
    indirect_set_inherit_pipeline(d, false);
    indirect_set_inherit_buffers(d, false);
    indirect_set_buffers(d, 1);
    x->indirect = device_indirect(m->device, d, x->n, METAL_SHARED_UNTRACKED);
    object_release(d);
    if (!x->indirect)
        return err_set(e, -ENOTSUP, "metal: this GPU records no indirect command buffer of %u launches (ZINC_METAL_ENCODE=each)", x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        struct launch l = launch_of(p, pass, i);
        id c = indirect_at(x->indirect, i);
        encoder_pipeline(c, m->pipeline[l.k]);
        command_buffer(c, x->args.buffer, x->args_at[i], 0);
        encoder_shared(c, align_up(MAX(l.shared, 1u), METAL_SHARED_ALIGN), 0);
        if (waits(p, pass, i))
            command_barrier(c);
        command_dispatch(c, (struct objc_size){ l.grid[0], l.grid[1], l.grid[2] }, (struct objc_size){ l.threads, 1, 1 });
    }
    return 0;
}

/* Launches [0, n] of a recorded pass, then its last one. */
static void execute(const struct metal_pass *x, id encoder, uint32_t n)
{
    if (n + 2 >= x->n) {
        encoder_execute(encoder, x->indirect, (struct objc_range){ 0, x->n });
        return;
    }
    encoder_execute(encoder, x->indirect, (struct objc_range){ 0, n + 1 });
    encoder_barrier(encoder, METAL_SCOPE_BUFFERS);
    encoder_execute(encoder, x->indirect, (struct objc_range){ x->n - 1, 1 });
}

static int run_together(struct metal_tier *m, struct metal_plan *p, uint32_t pass, uint32_t n)
{
    const struct metal_pass *x = &p->pass[pass];
    id cmdbuf = queue_buffer(m->queue);
    struct encoder e = begin(m, cmdbuf, &x->args);
    if (!e.e)
        return fault(m, "encoding a step", "macOS gave no command encoder");
    if (x->indirect)
        execute(x, e.e, n);
    for (uint32_t i = 0; i < x->n && !x->indirect; i++) {
        if (i > n && i < x->n - 1)
            continue;
        struct launch l = launch_of(p, pass, i);
        if (i && waits(p, pass, i))
            encoder_barrier(e.e, METAL_SCOPE_BUFFERS);
        encode(m, &e, &l, x->args_at[i]);
    }
    submit(m, cmdbuf, &e);
    return 0;
}

/* A command buffer for each launch: a failure has a name then, and a launch a time. */
static int run_one(struct metal_tier *m, struct metal_plan *p, uint32_t pass, uint32_t i)
{
    char doing[160], where[100], why[300];
    struct launch l = launch_of(p, pass, i);
    id cmdbuf = queue_buffer(m->queue);
    struct encoder e = begin(m, cmdbuf, &p->pass[pass].args);
    encode(m, &e, &l, p->pass[pass].args_at[i]);
    submit(m, cmdbuf, &e);
    cmdbuf_wait(cmdbuf);
    if (cmdbuf_status(cmdbuf) == METAL_STATUS_ERROR) {
        replay_where(p->r.base.s, l.cmd, where, sizeof where);
        metal_error(cmdbuf_error(cmdbuf), why, sizeof why);
        snprintf(doing, sizeof doing, "%s%s", kernel_infos[l.k].name, where);
        return fault(m, doing, why);
    }
    if (m->r.trace_on && l.cmd != UINT32_MAX)
        m->r.trace[m->r.n_trace++] = (struct tier_trace){ .cmd = l.cmd, .kernel = kernel_infos[l.k].name,
                                                          .start_ns = (uint64_t)(cmdbuf_start(cmdbuf) * 1e9),
                                                          .end_ns = (uint64_t)(cmdbuf_end(cmdbuf) * 1e9) };
    return 0;
}

static int run_singly(struct metal_tier *m, struct metal_plan *p, uint32_t pass, uint32_t n)
{
    int rc = 0;
    m->r.n_trace = 0;
    for (uint32_t i = 0; i < p->pass[pass].n && !rc; i++) {
        if (i > n && i < p->pass[pass].n - 1)
            continue;
        void *pool = objc.pool_push();
        rc = run_one(m, p, pass, i);
        objc.pool_pop(pool);
    }
    return rc;
}

int metal_run(struct replay *r, struct replay_plan *base, uint32_t pass, uint32_t n, uint64_t *point)
{
    struct metal_tier *m = metal_of_replay(r);
    struct metal_plan *p = (struct metal_plan *)base;
    void *pool = objc.pool_push();
    int rc = r->check || r->trace_on ? run_singly(m, p, pass, n) : run_together(m, p, pass, n);
    objc.pool_pop(pool);
    *point = m->point;
    return rc;
}

int metal_launch(struct metal_tier *m, enum kernel_id k, const struct metal_mem *args, const uint32_t grid[3], uint32_t threads,
                 uint32_t shared, uint64_t *ns, struct err *e)
{
    char why[300];
    struct launch l = { k, grid, threads, shared, UINT32_MAX };
    void *pool = objc.pool_push();
    id cmdbuf = queue_buffer(m->queue);
    struct encoder x = begin(m, cmdbuf, args);
    encode(m, &x, &l, 0);
    submit(m, cmdbuf, &x);
    cmdbuf_wait(cmdbuf);
    int rc = 0;
    if (cmdbuf_status(cmdbuf) == METAL_STATUS_ERROR) {
        metal_error(cmdbuf_error(cmdbuf), why, sizeof why);
        rc = err_set(e, -EIO, "metal: %s failed: %s", kernel_infos[k].name, why);
    }
    if (ns)
        *ns = (uint64_t)((cmdbuf_end(cmdbuf) - cmdbuf_start(cmdbuf)) * 1e9);
    objc.pool_pop(pool);
    return rc;
}

/* ---- plans ---- */

void metal_plan_destroy(struct tier_plan *base)
{
    struct metal_plan *p = (struct metal_plan *)base;
    if (!p)
        return;
    struct metal_tier *m = metal_of(base->tier);
    metal_wait(base->tier, m->point, HANG_SECONDS * 1000000000ull);
    void *pool = objc.pool_push();
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        object_release(p->pass[i].indirect);
        metal_free(m, &p->pass[i].args);
        free(p->pass[i].args_at);
    }
    metal_free(m, &p->work);
    metal_free(m, &p->consts);
    metal_free(m, &p->ring);
    objc.pool_pop(pool);
    replay_plan_free(&p->r);
    free(p);
}

/* Arguments of the frame and of all launches, one buffer. */
static int fill_args(struct metal_tier *m, struct metal_plan *p, uint32_t pass, const kl_step_begin *first, const kl_step_end *last,
                     struct err *e)
{
    struct metal_pass *x = &p->pass[pass];
    const struct dispatch_plan *d = p->r.pass[pass].d;
    uint64_t at = 0;
    x->n = d->n + 2;
    x->args_at = calloc(x->n, sizeof *x->args_at);
    if (!x->args_at)
        return err_set(e, -ENOMEM, "metal: %u launches", x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        x->args_at[i] = (uint32_t)at;
        at += align_up(kernel_infos[launch_of(p, pass, i).k].args_bytes, METAL_ARGS_ALIGN);
    }
    int rc = metal_alloc(m, at, "kernel arguments", &x->args, e);
    for (uint32_t i = 0; i < x->n && !rc; i++) {
        const void *from = i == 0 ? (const void *)first : i == x->n - 1 ? (const void *)last : d->args + d->d[i - 1].args_off;
        memcpy(x->args.cpu + x->args_at[i], from, kernel_infos[launch_of(p, pass, i).k].args_bytes);
    }
    return rc;
}

static int alloc_plan(struct metal_tier *m, struct metal_plan *p, struct err *e)
{
    const struct stream *s = p->r.base.s;
    int rc;
    if ((rc = metal_alloc(m, p->r.work_bytes, "the kernels' own memory", &p->work, e)) ||
        (rc = metal_alloc(m, s->h.const_bytes, "constants", &p->consts, e)) ||
        (rc = metal_alloc(m, (uint64_t)p->r.stride * KL_RING, "step ring", &p->ring, e)))
        return rc;
    if (s->h.const_bytes)
        memcpy(p->consts.cpu, s->consts, s->h.const_bytes);
    p->r.ring = p->ring.cpu;
    return 0;
}

static int place(struct metal_tier *m, struct metal_plan *p, struct err *e)
{
    uint64_t base[ARENA_ALL] = { 0 }; /* no mirror of IO: the host sees it */
    kl_step_begin first;
    kl_step_end last;
    int rc = 0;
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = m->arena[a].va;
    base[ARENA_CONST] = p->consts.va;
    base[ARENA_WORK] = p->work.va;
    const struct replay_places at = { .io = base[ARENA_IO], .seq = m->cells.va,
                                      .done = m->cells.va + 4, .ring = p->ring.va };
    replay_frame(&p->r, &at, &first, &last);
    for (uint32_t i = 0; i < p->r.n_passes && !rc; i++) {
        dispatch_relocate(p->r.pass[i].d, base);
        rc = fill_args(m, p, i, &first, &last, e);
        if (!rc && m->record)
            rc = record(m, p, i, e);
        if (!rc && m->r.trace_on)
            rc = replay_trace_room(&m->r, p->pass[i].n, e);
    }
    return rc;
}

int metal_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct metal_tier *m = metal_of(t);
    bool need[KERNEL_COUNT] = { false };
    struct metal_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "metal: plan object");
    void *pool = objc.pool_push();
    int rc;
    if (!(rc = replay_plan_begin(&p->r, &m->r, s, k, e)) && !(rc = replay_plan_build(&p->r, need, e)) &&
        !(rc = metal_kernels_need(m, need, e)) && !(rc = alloc_plan(m, p, e)))
        rc = place(m, p, e);
    metal_archives_save(m);
    objc.pool_pop(pool);
    if (rc) {
        metal_plan_destroy(&p->r.base);
        return rc;
    }
    replay_plan_end(&p->r);
    *out = &p->r.base;
    return 0;
}

void metal_dump(const struct tier_plan *base, FILE *f)
{
    const struct metal_plan *p = (const struct metal_plan *)base;
    for (uint32_t pass = p->r.n_passes; pass-- > 0;) {
        fprintf(f, "metal plan for %u rows: %u launches, %llu bytes of arguments\n", p->r.pass[pass].max_rows, p->pass[pass].n,
                (unsigned long long)p->pass[pass].args.bytes);
        for (uint32_t i = 0; i < p->pass[pass].n; i++) {
            struct launch l = launch_of(p, pass, i);
            fprintf(f, "%5d %s %-24s %u x %u x %u of %u, shared %u, arguments at %u\n", (int)l.cmd, waits(p, pass, i) ? "barrier" : "       ",
                    kernel_infos[l.k].name, l.grid[0], l.grid[1], l.grid[2], l.threads, l.shared, p->pass[pass].args_at[i]);
        }
    }
}
