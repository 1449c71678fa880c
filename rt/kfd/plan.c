/* rt/kfd/plan.c: plans and submissions. */
#include "rt/kfd/plan.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/log.h"
#include "rt/kfd/priv.h"
#include "rt/pm4/decode.h"

enum { DW_PER_LAUNCH = PM4_DW_LAUNCH_MAX + PM4_DW_EVENT_WRITE + PM4_DW_ACQUIRE_MEM + PM4_DW_WRITE_DATA + 1 +
                       PM4_DW_RELEASE_MEM };

/* ---- a pass as packets ---- */

static uint32_t step_end_of(const struct kfd_pass *x)
{
    return x->n_launches - 1;
}

const char *kfd_launch_name(const struct kfd_pass *x, uint32_t i, uint32_t *cmd)
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
static struct kfd_launch launch_of(const struct kfd_tier *c, const struct kfd_plan *p, const struct kfd_pass *x,
                                   uint32_t i)
{
    enum kernel_id k = i == 0 ? K_step_begin : i == step_end_of(x) ? K_step_end : x->d->d[i - 1].kernel;
    struct kfd_launch l = { .kernel = &c->kernel[k], .args_bytes = kernel_infos[k].args_bytes, .groups = { 1, 1, 1 },
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

/* One launch: wait for the one before, say which runs, run. Launches that are submitted alone know nothing about the
 * registers' values. */
static int encode_launch(struct kfd_tier *c, struct kfd_plan *p, struct kfd_pass *x, uint32_t i, uint64_t args_off,
                         uint8_t *args, struct pm4_buf *b, struct pm4_state *s, struct err *e)
{
    struct kfd_launch l = launch_of(c, p, x, i);
    struct pm4_launch regs;
    uint32_t word = x->number << KFD_LAUNCH_SHIFT | (i + 1);
    l.kernarg = x->args->va + args_off;
    int rc = kfd_launch_fill(&l, &c->scratch, args + args_off, &regs, e);
    if (rc)
        return rc;
    if (c->check || c->trace_on || i == step_end_of(x))
        pm4_state_forget(s);
    pm4_barrier(b);
    pm4_write_data(b, c->q->cells_mem->va + offsetof(struct kfd_cells, progress), &word, 1, 0);
    pm4_launch(b, s, &regs, NULL);
    if (x->stamps)
        pm4_timestamp(b, x->stamps->va + 8ull * i);
    return b->rc ? err_set(e, b->rc, "kfd: launch of %s: %s", l.kernel->name, b->why) : 0;
}

static uint64_t kernarg_room(const struct kfd_tier *c, const struct kfd_plan *p, const struct kfd_pass *x)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->n_launches; i++)
        sum += kfd_kernarg_bytes(launch_of(c, p, x, i).args_bytes);
    return sum;
}

static int encode(struct kfd_tier *c, struct kfd_plan *p, struct kfd_pass *x, uint8_t *args, struct err *e)
{
    struct pm4_buf b;
    struct pm4_state s;
    uint64_t off = 0;
    int rc = 0;
    pm4_init(&b, c->dev->gpu.chip->gen, x->dw, x->n_launches * DW_PER_LAUNCH);
    pm4_state_forget(&s);
    for (uint32_t i = 0; i < x->n_launches && !rc; i++) {
        x->at[i] = b.n;
        rc = encode_launch(c, p, x, i, off, args, &b, &s, e);
        off += kfd_kernarg_bytes(launch_of(c, p, x, i).args_bytes);
    }
    x->at[x->n_launches] = x->n_dw = b.n;
    return rc;
}

static int call_packet(const struct kfd_tier *c, const struct kfd_pass *x, uint32_t from, uint32_t to,
                       uint32_t dw[PM4_DW_INDIRECT_BUFFER])
{
    struct pm4_buf b;
    pm4_init(&b, c->dev->gpu.chip->gen, dw, PM4_DW_INDIRECT_BUFFER);
    pm4_indirect_buffer(&b, x->ib->va + 4ull * from, to - from, false);
    return b.rc;
}

static int make_pass(struct kfd_tier *c, struct kfd_plan *p, struct kfd_pass *x, struct err *e)
{
    x->n_launches = x->d->n + 2;
    x->number = ++c->n_passes & ((1u << (32 - KFD_LAUNCH_SHIFT)) - 1);
    uint64_t args_bytes = kernarg_room(c, p, x);
    uint8_t *args = calloc(1, args_bytes);
    x->at = calloc(x->n_launches + 1, sizeof *x->at);
    x->dw = calloc((uint64_t)x->n_launches * DW_PER_LAUNCH, sizeof *x->dw);
    int rc = args && x->at && x->dw && x->n_launches < 1u << KFD_LAUNCH_SHIFT
                 ? 0 : err_set(e, -ENOMEM, "kfd: %u launches", x->n_launches);
    if (!rc)
        rc = kfd_mem_alloc(c->dev, KFD_VRAM, args_bytes, "kernel arguments", &x->args, e);
    if (!rc && c->trace_on)
        rc = kfd_mem_alloc(c->dev, KFD_HOST, 8ull * x->n_launches, "time stamps", &x->stamps, e);
    if (!rc)
        rc = encode(c, p, x, args, e);
    if (!rc)
        rc = kfd_mem_alloc(c->dev, KFD_VRAM, 4ull * x->n_dw, "indirect buffer", &x->ib, e);
    if (!rc && call_packet(c, x, 0, x->n_dw, x->call))
        rc = err_set(e, -ENOTSUP, "kfd: a stream of %u dwords of packets", x->n_dw);
    if (!rc)
        rc = kfd_upload(&c->copier, x->args, 0, args, args_bytes, e);
    if (!rc)
        rc = kfd_upload(&c->copier, x->ib, 0, x->dw, 4ull * x->n_dw, e);
    free(args);
    return rc;
}

/* ---- plans ---- */

void kfd_plan_destroy(struct tier_plan *base)
{
    struct kfd_plan *p = (struct kfd_plan *)base;
    if (!p)
        return;
    struct kfd_tier *c = kfd_of(base->tier);
    struct err e = { 0 };
    while (!c->q->dead && kfd_queue_wait(c->q, c->q->point, 1000000000u, &e) == -ETIME) {
    }
    if (c->q->dead)
        kfd_queue_stop(c->q);
    for (struct kfd_plan **at = &c->plans; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    for (uint32_t i = 0; i < p->n_passes; i++) {
        struct kfd_pass *x = &p->pass[i];
        kfd_mem_free(x->ib);
        kfd_mem_free(x->args);
        kfd_mem_free(x->stamps);
        free(x->at);
        free(x->dw);
        dispatch_free(x->d);
    }
    kfd_mem_free(p->work);
    kfd_mem_free(p->consts);
    kfd_mem_free(p->ring);
    free(p);
}

static int build_passes(struct kfd_tier *c, struct kfd_plan *p, const struct stream *s, struct err *e)
{
    uint32_t rows[2] = { s->h.row_cap, 1 };
    uint32_t n = s->h.row_cap > 1 && s->h.row_cap <= KL_DECODE_ROWS ? 2 : 1;
    bool need[KERNEL_COUNT] = { [K_step_begin] = true, [K_step_end] = true };
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct kfd_pass *x = &p->pass[i];
        x->max_rows = rows[i];
        if ((rc = dispatch_build(s, &c->t, rows[i], &x->d, e)))
            break;
        p->n_passes++;
        for (uint32_t k = 0; k < x->d->n; k++)
            need[x->d->d[k].kernel] = true;
    }
    return rc ? rc : kfd_kernels_need(c, need, e);
}

static int alloc_zeroed(struct kfd_tier *c, uint64_t bytes, const char *name, struct kfd_mem **out, struct err *e)
{
    int rc = kfd_mem_alloc(c->dev, KFD_VRAM, MAX(bytes, 256u), name, out, e);
    return rc ? rc : kfd_zero(&c->copier, *out, 0, (*out)->bytes, e);
}

static int alloc_plan(struct kfd_tier *c, struct kfd_plan *p, const struct stream *s, struct err *e)
{
    uint64_t work = 0;
    int rc;
    for (uint32_t i = 0; i < p->n_passes; i++)
        work = MAX(work, p->pass[i].d->work_bytes);
    p->stride = (uint32_t)align_up(s->h.next_off, 64);
    if ((rc = alloc_zeroed(c, work, "the kernels' own memory", &p->work, e)) ||
        (rc = alloc_zeroed(c, s->h.const_bytes, "constants", &p->consts, e)) ||
        (rc = kfd_mem_alloc(c->dev, KFD_HOST, (uint64_t)p->stride * KL_RING, "step ring", &p->ring, e)))
        return rc;
    c->work_bytes += work;
    if (!s->h.const_bytes)
        return 0;
    uint64_t n = align_up(s->h.const_bytes, 4);
    uint8_t *copy = calloc(1, n);
    if (!copy)
        return err_set(e, -ENOMEM, "kfd: constants");
    memcpy(copy, s->consts, s->h.const_bytes);
    rc = kfd_upload(&c->copier, p->consts, 0, copy, n, e);
    free(copy);
    return rc;
}

static void relocate(struct kfd_tier *c, struct kfd_plan *p, const struct stream *s)
{
    uint64_t base[ARENA_ALL] = { 0 };
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = c->arena[a] ? c->arena[a]->va : 0;
    base[ARENA_CONST] = p->consts->va;
    base[ARENA_WORK] = p->work->va;
    base[ARENA_HOST_IO] = c->io->va;
    for (uint32_t i = 0; i < p->n_passes; i++)
        dispatch_relocate(p->pass[i].d, base);
    p->begin = (kl_step_begin){ .step = c->arena[ARENA_IO]->va, .ring = p->ring->va, .seq = c->seq->va,
                                .next_off = (uint32_t)s->h.next_off, .stride = p->stride };
    p->end = (kl_step_end){ .next = c->arena[ARENA_IO]->va + s->h.next_off, .host_next = c->io->va + s->h.next_off,
                            .seq = c->seq->va, .done = c->q->cells_mem->va + offsetof(struct kfd_cells, done),
                            .n = s->h.out_cap };
}

static int make_trace(struct kfd_tier *c, uint32_t n, struct err *e)
{
    if (!c->trace_on || n <= c->cap_trace)
        return 0;
    struct tier_trace *t = realloc(c->trace, n * sizeof *t);
    if (!t)
        return err_set(e, -ENOMEM, "kfd: trace of %u launches", n);
    c->trace = t;
    c->cap_trace = n;
    return 0;
}

int kfd_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    if (k == PLAN_PERSISTENT)
        return err_set(e, -ENOTSUP, "kfd: there is no persistent plan yet; --plan=replay");
    if (s->h.n_weights != c->n_weights || s->h.weights_hash != c->weights_hash)
        return err_set(e, -EINVAL, "kfd: the stream is of another model than the weights: %u weights, hash %016llx; "
                       "loaded %u, %016llx", s->h.n_weights, (unsigned long long)s->h.weights_hash, c->n_weights,
                       (unsigned long long)c->weights_hash);
    struct kfd_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "kfd: plan object");
    p->base = (struct tier_plan){ .tier = t, .s = s, .kind = PLAN_REPLAY };
    p->next = c->plans;
    c->plans = p;
    int rc;
    if (!(rc = build_passes(c, p, s, e)) && !(rc = alloc_plan(c, p, s, e))) {
        relocate(c, p, s);
        for (uint32_t i = 0; i < p->n_passes && !rc; i++)
            if (!(rc = make_pass(c, p, &p->pass[i], e)))
                rc = make_trace(c, p->pass[i].n_launches, e);
    }
    if (rc) {
        kfd_plan_destroy(&p->base);
        return rc;
    }
    c->mirrored = c->mirrored && dispatch_copies_logits(s);
    for (uint32_t i = 0; i < p->n_passes; i++)
        log_info(KFD, "plan for %u rows: %u launches, %u dwords of packets", p->pass[i].max_rows,
                 p->pass[i].n_launches,
                 p->pass[i].n_dw);
    *out = &p->base;
    return 0;
}

void kfd_plan_dump(const struct tier_plan *base, FILE *f)
{
    const struct kfd_plan *p = (const struct kfd_plan *)base;
    const struct kfd_tier *c = kfd_of(base->tier);
    for (uint32_t i = 0; i < p->n_passes; i++) {
        const struct kfd_pass *x = &p->pass[i];
        fprintf(f, "indirect buffer for %u row%s at 0x%llx: %u launches, %u dwords\n", x->max_rows,
                x->max_rows == 1 ? "" : "s", x->ib ? (unsigned long long)x->ib->va : 0, x->n_launches, x->n_dw);
        for (uint32_t k = 0; k < x->n_launches && x->ib; k++) {
            uint32_t cmd;
            const char *name = kfd_launch_name(x, k, &cmd);
            fprintf(f, "%5u  command %4d  %s\n", k, (int)cmd, name);
            struct pm4_view v = { .gen = c->dev->gpu.chip->gen, .judge = kfd_mem_judge, .user = c->dev };
            pm4_print(f, &v, x->dw + x->at[k], x->at[k + 1] - x->at[k]);
        }
    }
}

/* ---- submissions ---- */

static struct kfd_pass *pass_for(struct kfd_plan *p, const struct step *step)
{
    uint32_t i = p->n_passes;
    while (i-- > 0)
        if (step->n_rows <= p->pass[i].max_rows && step->n_out <= p->pass[i].max_rows)
            return &p->pass[i];
    return &p->pass[0];
}

static int wait_for(struct kfd_tier *c, uint64_t point, struct err *e)
{
    int rc;
    while ((rc = kfd_queue_wait(c->q, point, 1000000000u, e)) == -ETIME) {
    }
    return rc;
}

/* Launches [from, to) of the pass. */
static int submit_part(struct kfd_tier *c, const struct kfd_pass *x, uint32_t from, uint32_t to, uint64_t *point,
                       struct err *e)
{
    uint32_t dw[PM4_DW_INDIRECT_BUFFER];
    if (from == to)
        return 0;
    call_packet(c, x, x->at[from], x->at[to], dw);
    return kfd_queue_submit(c->q, dw, PM4_DW_INDIRECT_BUFFER, point, e);
}

/* Launches up to n, one by one, each waited for, then the end of the step. */
static int run_singly(struct kfd_tier *c, const struct kfd_pass *x, uint32_t n, uint64_t *point, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        if (!(rc = submit_part(c, x, i, i + 1, point, e)))
            rc = wait_for(c, *point, e);
    if (!rc && !(rc = submit_part(c, x, step_end_of(x), x->n_launches, point, e)))
        rc = wait_for(c, *point, e);
    return rc;
}

static void take_stamps(struct kfd_tier *c, const struct kfd_pass *x, uint32_t n)
{
    const volatile uint64_t *at = x->stamps->cpu;
    uint64_t zero = at[0];
    c->n_trace = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t cmd;
        const char *name = kfd_launch_name(x, i, &cmd);
        c->trace[c->n_trace++] = (struct tier_trace){ .cmd = cmd, .kernel = name,
                                                      .start_ns = (at[i - 1] - zero) * KFD_CLOCK_NS,
                                                      .end_ns = (at[i] - zero) * KFD_CLOCK_NS };
    }
}

/* The slow ways: a part of the stream, step by step, with time stamps. n: launches before the end of the step. */
static int submit_slowly(struct kfd_tier *c, const struct kfd_pass *x, uint32_t n, uint64_t *point, struct err *e)
{
    int rc;
    if (c->check && !c->trace_on)
        return run_singly(c, x, n, point, e);
    if ((rc = submit_part(c, x, 0, n, point, e)) ||
        (rc = submit_part(c, x, step_end_of(x), x->n_launches, point, e)))
        return rc;
    if (c->trace_on && !(rc = wait_for(c, *point, e)))
        take_stamps(c, x, n);
    return rc;
}

static int submit_some(struct kfd_tier *c, struct kfd_plan *p, const struct step *step, uint32_t n_cmds,
                       uint64_t *point)
{
    struct kfd_pass *x = pass_for(p, step);
    uint32_t slot = c->issued % KL_RING, n = 1;
    struct err e = { 0 };
    int rc = 0;
    if (c->issued >= KL_RING) /* the slot's previous step must have been read */
        rc = wait_for(c, c->slot_point[slot], &e);
    if (!rc) {
        uint32_t words = stream_patch((uint8_t *)p->ring->cpu + slot * p->stride, p->base.s, step);
        c->base.stats.words += words + PM4_DW_INDIRECT_BUFFER + KFD_FENCE_DW;
        c->base.stats.host_bytes += 4ull * (words + PM4_DW_INDIRECT_BUFFER + KFD_FENCE_DW) + 2 * sizeof(uint64_t);
        if (n_cmds == p->base.s->h.n_cmds && !c->check && !c->trace_on) {
            rc = kfd_queue_submit(c->q, x->call, PM4_DW_INDIRECT_BUFFER, point, &e);
        } else {
            while (n < step_end_of(x) && x->d->d[n - 1].cmd < n_cmds)
                n++;
            rc = submit_slowly(c, x, n, point, &e);
        }
    }
    if (rc) {
        kfd_report(c, &e, "running a step");
        return -EIO;
    }
    c->slot_point[slot] = *point;
    c->issued++;
    return 0;
}

int kfd_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    return submit_some(kfd_of(t), (struct kfd_plan *)p, step, p->s->h.n_cmds, point);
}

int kfd_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds)
{
    uint64_t point;
    int rc = submit_some(kfd_of(t), (struct kfd_plan *)p, step, n_cmds, &point);
    while (!rc && (rc = kfd_wait(t, point, 1000000000u)) == -ETIME)
        rc = 0;
    return rc;
}

int kfd_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    struct kfd_tier *c = kfd_of(t);
    struct err e = { 0 };
    if (kfd_queue_is_done(c->q, point))
        return 0;
    int rc = kfd_queue_wait(c->q, point, timeout_ns, &e);
    if (rc && rc != -ETIME) {
        kfd_report(c, &e, "waiting for a step");
        return -EIO;
    }
    return rc;
}
