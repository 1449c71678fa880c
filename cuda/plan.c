/* Plans and submissions. A plan's launches are captured once into a graph; a token then costs a write to the ring and
 * one launch of the graph. A kernel may begin before its predecessor ends (programmatic dependent launch), unless it has
 * nothing from that (dispatch.after): its prologue reads weights only, and it waits by itself before it reads anything else. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "cuda/cuda.h"

/* ---- launches ---- */

static cu_result launch(struct cuda *c, enum kernel_id k, const uint32_t grid[3], uint32_t threads, uint32_t shared,
                        const void *args, bool overlap)
{
    struct cu_launch_attr attr = { .id = CU_LAUNCH_PROGRAMMATIC, .value = { .programmatic = 1 } };
    struct cu_launch l = { .grid = { grid[0], grid[1], grid[2] }, .block = { threads, 1, 1 },
                           .shared_bytes = shared, .stream = c->q, .attrs = &attr, .n_attrs = overlap };
    void *params[] = { (void *)(uintptr_t)args };
    return c->cu->launch(&l, c->func[k], params, NULL);
}

static cu_result launch_dispatch(struct cuda *c, const struct dispatch_plan *p, uint32_t i, bool overlap)
{
    const struct dispatch *d = &p->d[i];
    return launch(c, d->kernel, d->grid, d->threads, d->shared, p->args + d->args_off, overlap && !d->after);
}

static cu_result launch_begin(struct cuda *c, const struct cuda_plan *p)
{
    return launch(c, K_step_begin, (const uint32_t[3]){ 1, 1, 1 }, kernel_infos[K_step_begin].threads, 0, &p->begin, false);
}

static cu_result launch_end(struct cuda *c, const struct cuda_plan *p, bool overlap)
{
    return launch(c, K_step_end, (const uint32_t[3]){ 1, 1, 1 }, kernel_infos[K_step_end].threads, 0, &p->end, overlap);
}

/* Kernels of sm_90 wait for their inputs by themselves; on older devices launches follow each other. */
static bool overlaps(const struct cuda *c)
{
    return c->r.target.wgmma;
}

static int capture(struct cuda *c, struct cuda_plan *p, uint32_t pass, struct err *e)
{
    const struct dispatch_plan *d = p->r.pass[pass].d;
    struct cuda_pass *x = &p->pass[pass];
    const struct cuda_api *cu = c->cu;
    cu_graph g = NULL;
    cu_result r = cu->capture_begin(c->q, CU_CAPTURE_THREAD_LOCAL);
    if (r)
        return cuda_fail(c, r, e, "graph capture");
    bool over = overlaps(c);
    r = launch_begin(c, p);
    uint32_t i = 0, walk = 0;
    while (i < d->n && !r) {
        bool walks = walk < x->n_walks && x->walks[walk].first == i;
        r = walks ? cuda_walk_launch(c, &x->walks[walk]) : launch_dispatch(c, d, i, over);
        i += walks ? x->walks[walk++].n : 1;
    }
    if (r) {
        cu->capture_end(c->q, &g);
        if (g)
            cu->graph_destroy(g);
        return i ? cuda_fail(c, r, e, "launch of %s", kernel_infos[d->d[i - 1].kernel].name)
                 : cuda_fail(c, r, e, "launch of k_step_begin");
    }
    r = launch_end(c, p, over);
    cu_result ended = cu->capture_end(c->q, &g);
    r = r ? r : ended;
    if (!r)
        r = cu->graph_instantiate(&x->exec, g, 0);
    if (!r)
        r = cu->graph_upload(x->exec, c->q);
    if (g)
        cu->graph_destroy(g);
    return r ? cuda_fail(c, r, e, "graph of %u launches", d->n + 2) : 0;
}

/* ---- plans ---- */

void cuda_plan_destroy(struct tier_plan *base)
{
    struct cuda_plan *p = (struct cuda_plan *)base;
    if (!p)
        return;
    struct cuda *c = cuda_of(base->tier);
    c->cu->ctx_set(c->ctx);
    c->cu->stream_sync(c->q);
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        struct cuda_pass *x = &p->pass[i];
        if (x->exec)
            c->cu->exec_destroy(x->exec);
        for (uint32_t k = 0; x->events && k <= p->r.pass[i].d->n; k++)
            if (x->events[k])
                c->cu->event_destroy(x->events[k]);
        free(x->events);
        cuda_walks_free(c, x);
    }
    if (p->work)
        c->cu->mem_free(p->work);
    if (p->consts)
        c->cu->mem_free(p->consts);
    cuda_host_free(c, &p->ring);
    replay_plan_free(&p->r);
    free(p);
}

static int alloc_device(struct cuda *c, cu_ptr *p, uint64_t bytes, const char *what, struct err *e)
{
    bytes = MAX(bytes, 256u);
    cu_result r = c->cu->mem_alloc(p, bytes);
    if (!r)
        r = cuda_settle(c, c->cu->set_bytes(*p, 0, bytes));
    return r ? cuda_fail(c, r, e, "%.1f MiB for %s", (double)bytes / 1048576.0, what) : 0;
}

static int alloc_plan(struct cuda *c, struct cuda_plan *p, const struct stream *s, struct err *e)
{
    int rc;
    if ((rc = alloc_device(c, &p->work, p->r.work_bytes, "the kernels' own memory", e)) ||
        (rc = alloc_device(c, &p->consts, s->h.const_bytes, "constants", e)) ||
        (rc = cuda_host_alloc(c, &p->ring, (uint64_t)p->r.stride * KL_RING, e)))
        return rc;
    p->r.ring = p->ring.p;
    cu_result r = s->h.const_bytes ? cuda_settle(c, c->cu->to_device(p->consts, s->consts, s->h.const_bytes)) : CU_OK;
    return r ? cuda_fail(c, r, e, "constants") : 0;
}

static void relocate(struct cuda *c, struct cuda_plan *p)
{
    uint64_t base[ARENA_ALL];
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = c->arena[a];
    base[ARENA_CONST] = p->consts;
    base[ARENA_WORK] = p->work;
    base[ARENA_HOST_IO] = c->io.va;
    for (uint32_t i = 0; i < p->r.n_passes; i++)
        dispatch_relocate(p->r.pass[i].d, base);
    const struct replay_places at = { .io = c->arena[ARENA_IO], .seq = c->seq, .done = c->done.va,
                                      .ring = p->ring.va };
    replay_frame(&p->r, &at, &p->begin, &p->end);
}

static int make_events(struct cuda *c, struct cuda_plan *p, uint32_t pass, struct err *e)
{
    uint32_t n = p->r.pass[pass].d->n;
    struct cuda_pass *x = &p->pass[pass];
    x->events = calloc(n + 1, sizeof *x->events);
    if (!x->events)
        return err_set(e, -ENOMEM, "cuda: events");
    for (uint32_t k = 0; k <= n; k++) {
        cu_result r = c->cu->event_create(&x->events[k], CU_EVENT_DEFAULT);
        if (r)
            return cuda_fail(c, r, e, "event");
    }
    return replay_trace_room(&c->r, n, e);
}

/* Passes of a single row are walked by a persistent plan, others replayed. */
static int record(struct cuda *c, struct cuda_plan *p, uint32_t pass, struct err *e)
{
    bool walks = p->r.base.kind == PLAN_PERSISTENT && p->r.pass[pass].max_rows == 1;
    int rc = walks ? cuda_walks_make(c, p->r.pass[pass].d, &p->pass[pass], e) : 0;
    return rc ? rc : capture(c, p, pass, e);
}

static int make_pass(struct cuda *c, struct cuda_plan *p, uint32_t pass, struct err *e)
{
    bool need[KERNEL_COUNT] = { 0 };
    replay_pass_need(&p->r, pass, need);
    int rc = cuda_modules_need(c, need, e);
    if (!rc && c->r.trace_on)
        rc = make_events(c, p, pass, e);
    else if (!rc && !c->r.check)
        rc = record(c, p, pass, e);
    p->pass[pass].made = !rc;
    return rc;
}

/* Modules of all of them first: they are loaded side by side. */
static int make_awaited(struct cuda *c, struct cuda_plan *p, struct err *e)
{
    bool need[KERNEL_COUNT] = { 0 };
    for (uint32_t i = 0; i < p->r.n_passes; i++)
        if (replay_pass_awaited(&p->r, i))
            replay_pass_need(&p->r, i, need);
    int rc = cuda_modules_need(c, need, e);
    for (uint32_t i = 0; i < p->r.n_passes && !rc; i++)
        if (replay_pass_awaited(&p->r, i))
            rc = make_pass(c, p, i, e);
    return rc;
}

int cuda_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct cuda *c = cuda_of(t);
    struct cuda_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "cuda: plan object");
    c->cu->ctx_set(c->ctx);
    int rc = replay_plan_begin(&p->r, &c->r, s, k, e);
    if (!rc && !(rc = replay_plan_build(&p->r, NULL, e)) && !(rc = alloc_plan(c, p, s, e))) {
        relocate(c, p);
        rc = make_awaited(c, p, e);
    }
    if (rc) {
        cuda_plan_destroy(&p->r.base);
        return rc;
    }
    replay_plan_end(&p->r);
    *out = &p->r.base;
    return 0;
}

void cuda_plan_dump(const struct tier_plan *base, FILE *f)
{
    const struct replay_plan *p = (const struct replay_plan *)base;
    for (uint32_t i = 0; i < p->n_passes; i++) {
        const struct dispatch_plan *d = p->pass[i].d;
        fprintf(f, "graph for %u row%s%s: %u launches\n", p->pass[i].max_rows, p->pass[i].max_rows == 1 ? "" : "s",
                replay_pass_apart(p, i) ? ", parts of steps" : "", d->n);
        for (uint32_t k = 0; k < d->n; k++)
            fprintf(f, "%5u  command %4u  %-28s grid %u,%u,%u x %u  shared %u\n", k, d->d[k].cmd,
                    kernel_infos[d->d[k].kernel].name, d->d[k].grid[0], d->d[k].grid[1], d->d[k].grid[2],
                    d->d[k].threads, d->d[k].shared);
    }
}

/* ---- submissions ---- */

static uint32_t done_count(const struct cuda *c)
{
    return __atomic_load_n((const uint32_t *)c->done.p, __ATOMIC_ACQUIRE);
}

static bool is_done(const struct cuda *c, uint64_t point)
{
    return (int32_t)(done_count(c) - (uint32_t)point) >= 0;
}

/* Launches [0, n) one by one, each followed by a mark in time or by waiting for it. */
static cu_result run_singly(struct cuda *c, struct cuda_plan *p, uint32_t pass, uint32_t n, uint32_t *at)
{
    const struct dispatch_plan *d = p->r.pass[pass].d;
    cu_event *events = c->r.trace_on ? p->pass[pass].events : NULL;
    cu_result r = launch_begin(c, p);
    if (!r && events)
        r = c->cu->event_record(events[0], c->q);
    for (uint32_t i = 0; i < n && !r; i++) {
        *at = i;
        r = launch_dispatch(c, d, i, false);
        if (!r)
            r = events ? c->cu->event_record(events[i + 1], c->q) : c->cu->stream_sync(c->q);
    }
    if (!r)
        r = launch_end(c, p, false);
    if (!r)
        r = c->cu->stream_sync(c->q);
    if (r || !events)
        return r;
    double ns = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        float ms = 0.0f;
        c->cu->event_ms(&ms, events[i], events[i + 1]);
        c->r.trace[i] = (struct tier_trace){ .cmd = d->d[i].cmd, .kernel = kernel_infos[d->d[i].kernel].name,
                                             .start_ns = (uint64_t)ns, .end_ns = (uint64_t)(ns + (double)ms * 1e6) };
        ns += (double)ms * 1e6;
    }
    c->r.n_trace = n;
    return r;
}

int cuda_run(struct replay *rp, struct replay_plan *base, uint32_t pass, uint32_t n, uint64_t *point)
{
    struct cuda *c = cuda_of_replay(rp);
    struct cuda_plan *p = (struct cuda_plan *)base;
    const struct dispatch_plan *d = base->pass[pass].d;
    uint32_t at = 0;
    struct err e = { 0 };
    c->cu->ctx_set(c->ctx);
    if (!p->pass[pass].made && make_pass(c, p, pass, &e)) {
        if (!rp->fault.msg[0])
            rp->fault = e;
        return -EIO;
    }
    cu_exec exec = p->pass[pass].exec;
    cu_result r = exec && n == d->n ? c->cu->graph_launch(exec, c->q) : run_singly(c, p, pass, n, &at);
    if (r) {
        cuda_report(c, r, base, d->n && !exec ? d->d[at].cmd : UINT32_MAX, "launching a step");
        return -EIO;
    }
    *point = rp->issued + 1;
    return 0;
}

/* Polls the word in host memory; now and then asks the driver whether the device still lives. */
int cuda_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    enum { SPINS = 2048 };
    struct cuda *c = cuda_of(t);
    uint64_t start = 0;
    for (uint32_t n = 0; !is_done(c, point); n++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (n % SPINS != SPINS - 1)
            continue;
        cu_result r = c->cu->stream_query(c->q);
        if (r && r != CU_NOT_READY) {
            cuda_report(c, r, c->r.last, UINT32_MAX, "waiting for a step");
            return -EIO;
        }
        uint64_t now = clock_ns();
        start = start ? start : now;
        if (now - start > timeout_ns)
            return -ETIME;
    }
    return 0;
}
