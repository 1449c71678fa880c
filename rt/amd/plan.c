/* rt/amd/plan.c: plans and submissions. */
#include "rt/amd/walk.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/pm4/decode.h"

enum { DW_PER_LAUNCH = PM4_DW_LAUNCH_MAX + PM4_DW_BARRIER_BY_FENCE + PM4_DW_WRITE_DATA + 1 +
                       PM4_DW_RELEASE_MEM };

/* ---- a pass as packets ---- */

static uint32_t step_end_of(const struct amd_pass *x)
{
    return x->n_launches - 1;
}

const char *amd_launch_name(const struct amd_pass *x, uint32_t i, uint32_t *cmd)
{
    *cmd = UINT32_MAX;
    if (i == 0)
        return kernel_infos[K_step_begin].name;
    if (i >= step_end_of(x))
        return kernel_infos[K_step_end].name;
    *cmd = x->d->d[i - 1].cmd;
    return kernel_infos[x->d->d[i - 1].kernel].name;
}

/* Launch i of a pass: kernel, sizes, arguments. */
static struct amd_launch launch_of(const struct amd_tier *c, const struct amd_plan *p, const struct amd_pass *x,
                                   uint32_t i)
{
    enum kernel_id k = i == 0 ? K_step_begin : i == step_end_of(x) ? K_step_end : x->d->d[i - 1].kernel;
    struct amd_launch l = { .kernel = &c->kernel[k], .args_bytes = kernel_infos[k].args_bytes, .groups = { 1, 1, 1 },
                            .threads = kernel_infos[k].threads };
    if (k == K_step_begin) {
        l.args = &p->begin;
    } else if (k == K_step_end) {
        l.args = &p->end;
    } else {
        const struct dispatch *d = &x->d->d[i - 1];
        memcpy(l.groups, d->grid, sizeof l.groups);
        l.lds_bytes = d->shared;
        l.args = x->d->args + d->args_off;
    }
    return l;
}

/* What launch i takes, at a guess: a compute unit does a twentieth of what its matrix units could (RDNA3: 512 multiply-adds a
 * clock), and has a share of memory as narrow as that of a small APU. A command's work is its first launch's. */
static double ms_of(const struct amd_tier *c, const struct amd_plan *p, const struct amd_pass *x, uint32_t i, uint32_t rows)
{
    const double flops_cu_ms = 100e6, bytes_cu_ms = 5e6;
    const struct stream *s = p->r.base.s;
    uint64_t bytes, flops;
    if (i == 0 || i >= step_end_of(x) || (i > 1 && x->d->d[i - 1].cmd == x->d->d[i - 2].cmd))
        return 0;
    stream_cmd_cost(s, x->d->d[i - 1].cmd, rows, s->h.n_ctx, &bytes, &flops);
    return ((double)flops / flops_cu_ms + (double)bytes / bytes_cu_ms) / c->w->card.n_cu;
}

/* Where submissions begin. */
static void divide(const struct amd_tier *c, const struct amd_plan *p, struct amd_pass *x, uint32_t rows)
{
    uint32_t n = 0;
    double ms = 0;
    x->n_parts = 1;
    x->begins[0] = true;
    if (rows <= 1 || !c->w->part_launches)
        return;
    for (uint32_t i = 0; i < x->n_launches; i++, n++) {
        double more = ms_of(c, p, x, i, rows);
        if (n == c->w->part_launches || (n && ms + more > c->w->part_ms)) {
            x->begins[i] = true;
            x->n_parts++;
            ms = n = 0;
        }
        ms += more;
    }
}

/* The step's frame does; so does every launch that is submitted alone or first, or between time stamps. */
bool amd_launch_waits(const struct amd_tier *c, const struct amd_pass *x, uint32_t i)
{
    return i <= 1 || i == step_end_of(x) || x->begins[i] || x->d->d[i - 1].wait || c->r.check || c->r.trace_on;
}

/* Dwords that the packets take at most, each launch with its padding. */
static uint32_t room_dw(const struct amd_tier *c, const struct amd_pass *x)
{
    return x->n_launches * (DW_PER_LAUNCH + c->w->ib_align_dw - 1);
}

/* A launch's packets: wait for the ones before where it must, say which runs, run. */
static int put_launch(struct amd_tier *c, struct amd_pass *x, uint32_t i, bool wait, const char *kernel, const struct pm4_launch *regs,
                      struct pm4_buf *b, struct pm4_state *s, struct err *e)
{
    uint32_t word = x->number << AMD_LAUNCH_SHIFT | (i + 1);
    if (wait && c->fence.va)
        pm4_barrier_by_fence(b, c->fence.va, i + 1);
    else if (wait)
        pm4_barrier(b);
    pm4_write_data(b, c->w->cells_va + offsetof(struct amd_cells, progress), &word, 1, 0);
    pm4_launch(b, s, regs, NULL);
    if (x->stamps.va)
        pm4_timestamp(b, x->stamps.va + 8ull * i);
    amd_ib_pad(c->w, b);
    return b->rc ? err_set(e, b->rc, "%s: launch of %s: %s", c->w->name, kernel, b->why) : 0;
}

/* Launches that are submitted alone know nothing about the registers' values. */
static int encode_launch(struct amd_tier *c, struct amd_plan *p, struct amd_pass *x, uint32_t i, uint64_t args_off,
                         uint8_t *args, struct pm4_buf *b, struct pm4_state *s, struct err *e)
{
    struct amd_launch l = launch_of(c, p, x, i);
    l.kernarg = x->args.va + args_off;
    int rc = amd_launch_fill(&l, &c->scratch, args + args_off, &x->regs[i], e);
    if (rc) {
        err_context(e, "%s", c->w->name);
        return rc;
    }
    if (c->r.check || c->r.trace_on || i == step_end_of(x) || x->begins[i] || env_get()->amd_send_all > 0)
        pm4_state_forget(s);
    bool wait = amd_launch_waits(c, x, i);
    x->n_barriers += wait;
    return put_launch(c, x, i, wait, l.kernel->name, &x->regs[i], b, s, e);
}

/* A whole step of a persistent plan: walks, and the launches that have no place in one. What follows a walk waits for it: it may not
 * overlap with more than the last of what the walk does. */
static int encode_walks(struct amd_tier *c, struct amd_pass *x, uint32_t *dw, struct err *e)
{
    struct pm4_buf b;
    struct pm4_state s;
    bool walked = false;
    int rc = 0;
    pm4_init(&b, c->w->card.chip->gen, dw, room_dw(c, x));
    pm4_state_forget(&s);
    for (uint32_t i = 0; i < x->n_launches && !rc;) {
        const struct amd_walk *w = amd_walk_at(x, i);
        if (env_get()->amd_send_all > 0)
            pm4_state_forget(&s);
        if (w)
            rc = put_launch(c, x, i, true, w->k.name, &w->regs, &b, &s, e);
        else
            rc = put_launch(c, x, i, walked || amd_launch_waits(c, x, i), "a kernel", &x->regs[i], &b, &s, e);
        walked = w != NULL;
        i += w ? w->n : 1;
    }
    x->n_walk_dw = b.n;
    return rc;
}

static uint64_t kernarg_room(const struct amd_tier *c, const struct amd_plan *p, const struct amd_pass *x)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->n_launches; i++)
        sum += amd_kernarg_bytes(launch_of(c, p, x, i).args_bytes);
    return sum;
}

static int encode(struct amd_tier *c, struct amd_plan *p, struct amd_pass *x, uint8_t *args, struct err *e)
{
    struct pm4_buf b;
    struct pm4_state s;
    uint64_t off = 0;
    int rc = 0;
    pm4_init(&b, c->w->card.chip->gen, x->dw, room_dw(c, x));
    pm4_state_forget(&s);
    for (uint32_t i = 0; i < x->n_launches && !rc; i++) {
        x->at[i] = b.n;
        rc = encode_launch(c, p, x, i, off, args, &b, &s, e);
        off += amd_kernarg_bytes(launch_of(c, p, x, i).args_bytes);
    }
    x->at[x->n_launches] = x->n_dw = b.n;
    return rc;
}

static int make_walks(struct amd_tier *c, const struct amd_plan *p, struct amd_pass *x, uint32_t rows, struct err *e)
{
    int rc = amd_walks_make(c, p, x, rows, e);
    if (rc || !x->n_walks)
        return rc;
    x->walk_dw = calloc(room_dw(c, x), sizeof *x->walk_dw);
    if (!x->walk_dw)
        return err_set(e, -ENOMEM, "%s: packets of the persistent plan", c->w->name);
    if ((rc = encode_walks(c, x, x->walk_dw, e)) ||
        (rc = amd_mem_alloc(c->w, AMD_VRAM, 4ull * x->n_walk_dw, "indirect buffer of walks", &x->walk_ib, e)))
        return rc;
    return amd_upload(&c->copier, &x->walk_ib, 0, x->walk_dw, 4ull * x->n_walk_dw, e);
}

static int make_pass(struct amd_tier *c, struct amd_plan *p, struct amd_pass *x, uint32_t rows, struct err *e)
{
    x->n_launches = x->d->n + 2;
    x->number = ++c->n_passes & ((1u << (32 - AMD_LAUNCH_SHIFT)) - 1);
    uint64_t args_bytes = kernarg_room(c, p, x);
    uint8_t *args = calloc(1, args_bytes);
    x->at = calloc(x->n_launches + 1, sizeof *x->at);
    x->begins = calloc(x->n_launches, sizeof *x->begins);
    x->regs = calloc(x->n_launches, sizeof *x->regs);
    x->dw = calloc(room_dw(c, x), sizeof *x->dw);
    int rc = args && x->at && x->begins && x->regs && x->dw && x->n_launches < 1u << AMD_LAUNCH_SHIFT
                 ? 0 : err_set(e, -ENOMEM, "%s: %u launches", c->w->name, x->n_launches);
    if (!rc)
        divide(c, p, x, rows);
    if (!rc)
        rc = amd_mem_alloc(c->w, AMD_VRAM, args_bytes, "kernel arguments", &x->args, e);
    if (!rc && c->r.trace_on)
        rc = amd_mem_alloc(c->w, AMD_HOST, 8ull * x->n_launches, "time stamps", &x->stamps, e);
    if (!rc)
        rc = encode(c, p, x, args, e);
    if (!rc && x->n_dw > AMD_IB_MAX_DW)
        rc = err_set(e, -ENOTSUP, "%s: a stream of %u dwords of packets", c->w->name, x->n_dw);
    if (!rc)
        rc = amd_mem_alloc(c->w, AMD_VRAM, 4ull * x->n_dw, "indirect buffer", &x->ib, e);
    if (!rc)
        rc = amd_upload(&c->copier, &x->args, 0, args, args_bytes, e);
    if (!rc)
        rc = amd_upload(&c->copier, &x->ib, 0, x->dw, 4ull * x->n_dw, e);
    if (!rc)
        rc = make_walks(c, p, x, rows, e);
    free(x->regs);
    x->regs = NULL;
    free(args);
    return rc;
}

/* ---- plans ---- */

static int wait_for(struct amd_tier *c, uint64_t point, struct err *e)
{
    int rc;
    while ((rc = amd_wait(c->w, point, 1000000000u, e)) == -ETIME) {
    }
    return rc;
}

void amd_plan_destroy(struct tier_plan *base)
{
    struct amd_plan *p = (struct amd_plan *)base;
    if (!p)
        return;
    struct amd_tier *c = amd_of(base->tier);
    struct err e = { 0 };
    if (wait_for(c, c->w->point, &e))
        c->w->ops->stop(c->w);
    for (struct amd_plan **at = &c->plans; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        struct amd_pass *x = &p->pass[i];
        amd_mem_free(&x->ib);
        amd_mem_free(&x->args);
        amd_mem_free(&x->stamps);
        amd_walks_free(x);
        free(x->at);
        free(x->begins);
        free(x->regs);
        free(x->walk_dw);
        free(x->dw);
    }
    amd_mem_free(&p->work);
    amd_mem_free(&p->consts);
    amd_mem_free(&p->ring);
    replay_plan_free(&p->r);
    free(p);
}

static int alloc_zeroed(struct amd_tier *c, uint64_t bytes, const char *name, struct amd_mem *out, struct err *e)
{
    int rc = amd_mem_alloc(c->w, AMD_VRAM, MAX(bytes, 256u), name, out, e);
    return rc ? rc : amd_zero(&c->copier, out, 0, out->bytes, e);
}

static int alloc_plan(struct amd_tier *c, struct amd_plan *p, const struct stream *s, struct err *e)
{
    int rc;
    if ((rc = alloc_zeroed(c, p->r.work_bytes, "the kernels' own memory", &p->work, e)) ||
        (rc = alloc_zeroed(c, s->h.const_bytes, "constants", &p->consts, e)) ||
        (rc = amd_mem_alloc(c->w, AMD_HOST, (uint64_t)p->r.stride * KL_RING, "step ring", &p->ring, e)))
        return rc;
    p->r.ring = p->ring.cpu;
    if (!s->h.const_bytes)
        return 0;
    uint64_t n = align_up(s->h.const_bytes, 4);
    uint8_t *copy = calloc(1, n);
    if (!copy)
        return err_set(e, -ENOMEM, "%s: constants", c->w->name);
    memcpy(copy, s->consts, s->h.const_bytes);
    rc = amd_upload(&c->copier, &p->consts, 0, copy, n, e);
    free(copy);
    return rc;
}

static void relocate(struct amd_tier *c, struct amd_plan *p)
{
    uint64_t base[ARENA_ALL] = { 0 };
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = c->arena[a].va;
    base[ARENA_CONST] = p->consts.va;
    base[ARENA_WORK] = p->work.va;
    base[ARENA_HOST_IO] = c->io.va;
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        dispatch_relocate(p->r.pass[i].d, base);
        p->pass[i].d = p->r.pass[i].d;
    }
    const struct replay_places at = { .io = c->arena[ARENA_IO].va, .seq = c->seq.va,
                                      .done = c->w->cells_va + offsetof(struct amd_cells, done),
                                      .ring = p->ring.va };
    replay_frame(&p->r, &at, &p->begin, &p->end);
}

int amd_plan_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct amd_tier *c = amd_of(t);
    bool need[KERNEL_COUNT] = { 0 };
    struct amd_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "%s: plan object", c->w->name);
    p->next = c->plans;
    c->plans = p;
    int rc = replay_plan_begin(&p->r, &c->r, s, k, e);
    if (!rc && !(rc = replay_plan_build(&p->r, need, e)) && !(rc = amd_kernels_need(c, need, e)) &&
        !(rc = alloc_plan(c, p, s, e))) {
        relocate(c, p);
        for (uint32_t i = 0; i < p->r.n_passes && !rc; i++)
            if (!(rc = make_pass(c, p, &p->pass[i], p->r.pass[i].max_rows, e)) && c->r.trace_on)
                rc = replay_trace_room(&c->r, p->pass[i].n_launches, e);
    }
    if (rc) {
        amd_plan_destroy(&p->r.base);
        return rc;
    }
    replay_plan_end(&p->r);
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        amd_log(c->w, LOG_INFO, "plan for %u rows: %u launches, %u barriers, %u dwords of packets",
                p->r.pass[i].max_rows, p->pass[i].n_launches, p->pass[i].n_barriers, p->pass[i].n_dw);
        for (const struct amd_walk *w = p->pass[i].walks; w < p->pass[i].walks + p->pass[i].n_walks; w++)
            amd_log(c->w, LOG_INFO, "walk of %u launches from launch %u on: %u work-groups, %u VGPRs, %u bytes of LDS", w->n, w->first + 1,
                    w->groups, w->k.vgprs, w->lds_bytes);
    }
    *out = &p->r.base;
    return 0;
}

void amd_plan_dump(const struct tier_plan *base, FILE *f)
{
    const struct amd_plan *p = (const struct amd_plan *)base;
    const struct amd_tier *c = amd_of(base->tier);
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        const struct amd_pass *x = &p->pass[i];
        uint32_t rows = p->r.pass[i].max_rows;
        fprintf(f, "indirect buffer for %u row%s at 0x%llx: %u launches, %u barriers, %u dwords\n", rows,
                rows == 1 ? "" : "s", (unsigned long long)x->ib.va, x->n_launches, x->n_barriers, x->n_dw);
        for (uint32_t k = 0; k < x->n_launches && x->ib.va; k++) {
            uint32_t cmd;
            const char *name = amd_launch_name(x, k, &cmd);
            fprintf(f, "%5u  command %4d  %s\n", k, (int)cmd, name);
            struct pm4_view v = { .gen = c->w->card.chip->gen, .check = c->w->ops->mem_check, .user = c->w };
            pm4_print(f, &v, x->dw + x->at[k], x->at[k + 1] - x->at[k]);
        }
        if (x->n_walks) {
            struct pm4_view v = { .gen = c->w->card.chip->gen, .check = c->w->ops->mem_check, .user = c->w };
            fprintf(f, "the same as %u walk%s at 0x%llx: %u dwords\n", x->n_walks, x->n_walks == 1 ? "" : "s",
                    (unsigned long long)x->walk_ib.va, x->n_walk_dw);
            pm4_print(f, &v, x->walk_dw, x->n_walk_dw);
        }
    }
}

/* ---- submissions ---- */

/* Launches [from, to) of the pass, in as many submissions as it takes. */
static int submit_part(struct amd_tier *c, const struct amd_pass *x, uint32_t from, uint32_t to, uint64_t *point,
                       struct err *e)
{
    int rc = 0;
    while (from < to && !rc) {
        uint32_t next = from + 1;
        while (next < to && !x->begins[next])
            next++;
        rc = amd_submit(c->w, x->ib.va + 4ull * x->at[from], x->at[next] - x->at[from], point, e);
        from = next;
    }
    return rc;
}

/* Launches up to n, one by one, each waited for, then the end of the step. */
static int run_singly(struct amd_tier *c, const struct amd_pass *x, uint32_t n, uint64_t *point, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        if (!(rc = submit_part(c, x, i, i + 1, point, e)))
            rc = wait_for(c, *point, e);
    if (!rc && !(rc = submit_part(c, x, step_end_of(x), x->n_launches, point, e)))
        rc = wait_for(c, *point, e);
    return rc;
}

static void take_stamps(struct amd_tier *c, const struct amd_pass *x, uint32_t n)
{
    const volatile uint64_t *at = x->stamps.cpu;
    uint64_t zero = at[0];
    c->r.n_trace = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t cmd;
        const char *name = amd_launch_name(x, i, &cmd);
        c->r.trace[c->r.n_trace++] = (struct tier_trace){ .cmd = cmd, .kernel = name,
                                                      .start_ns = (at[i - 1] - zero) * AMD_CLOCK_NS,
                                                      .end_ns = (at[i] - zero) * AMD_CLOCK_NS };
    }
}

/* The slow ways: a part of the stream, step by step, with time stamps. n: launches before the end of the step. */
static int submit_slowly(struct amd_tier *c, const struct amd_pass *x, uint32_t n, uint64_t *point, struct err *e)
{
    int rc;
    if (c->r.check && !c->r.trace_on)
        return run_singly(c, x, n, point, e);
    if ((rc = submit_part(c, x, 0, n, point, e)) ||
        (rc = submit_part(c, x, step_end_of(x), x->n_launches, point, e)))
        return rc;
    if (c->r.trace_on && !(rc = wait_for(c, *point, e)))
        take_stamps(c, x, n);
    return rc;
}

int amd_plan_run(struct replay *r, struct replay_plan *base, uint32_t pass, uint32_t n, uint64_t *point)
{
    struct amd_tier *c = amd_of_replay(r);
    const struct amd_pass *x = &((struct amd_plan *)base)->pass[pass];
    struct err e = { 0 };
    int rc;
    r->tier.stats.words += c->w->submit_words;
    r->tier.stats.host_bytes += c->w->submit_bytes;
    bool whole = n == x->d->n && !r->check && !r->trace_on;
    if (whole && x->n_walks)
        rc = amd_submit(c->w, x->walk_ib.va, x->n_walk_dw, point, &e);
    else if (whole)
        rc = submit_part(c, x, 0, x->n_launches, point, &e);
    else
        rc = submit_slowly(c, x, n + 1, point, &e);
    if (rc) {
        amd_report(c, &e, "running a step");
        return -EIO;
    }
    return 0;
}

int amd_plan_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    struct amd_tier *c = amd_of(t);
    struct err e = { 0 };
    int rc = amd_wait(c->w, point, timeout_ns, &e);
    if (rc && rc != -ETIME) {
        amd_report(c, &e, "waiting for a step");
        return -EIO;
    }
    if (c->w->cells->gave_up[1]) {
        const struct amd_plan *p = (const struct amd_plan *)c->r.last;
        uint32_t first = c->w->cells->gave_up[1];
        uint32_t at = p ? amd_walk_stands_at(&p->pass[p->r.n_passes - 1], first, c->w->cells->gave_up[0]) : first;
        err_set(&e, -EIO, "%s: the persistent plan's walk stood still and gave up: launch %u of the step did not end", c->w->name, at);
        amd_report(c, &e, "waiting for a step");
        return -EIO;
    }
    return rc;
}
