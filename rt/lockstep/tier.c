/* rt/lockstep/tier.c: the tier that runs the GPU kernels on the host, in lock step (rt/lockstep/run.h). It proves the
 * kernels and rt/dispatch.c without a GPU: launches, weights in planes and private memory are those of the GPU tiers. As
 * lockstep:sm90 it takes the kernels and launches that the cuda tier has on Hopper (rt/lockstep/hopper.h).
 * Temporaries start as NaN, and counters that are not 0 after a launch are a fault. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/lockstep/run.h"
#include "rt/lockstep/walk.h"
#include "rt/replay.h"

#define KERNEL_SM90(name, module, args, threads)
#define KERNEL(name, module, args, threads) void k_##name(const void *args_);
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90

/* NULL: a kernel that the host does not have. */
static lockstep_entry entries[KERNEL_COUNT] = {
#define KERNEL_SM90(name, module, args, threads)
#define KERNEL(name, module, args, threads) [K_##name] = k_##name,
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90
};

/* Kernels that sm_90a alone has, or has otherwise, compiled as for that (mk/kernels.mk): matmul8, whose work-groups are in
 * clusters of two there. */
#define KERNEL(name, module, args, threads)
#define KERNEL_SM90(name, module, args, threads) void k_##name(const void *args_);
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90
#define QTYPE_BLOCK(NAME, name, set, ...) void k_matmul8_##set##_sm90(const void *args_);
#define QTYPE_PAIR(set, ...)              void k_matmul8_##set##_sm90(const void *args_);
#include "kernels/qtypes.def"
static const struct {
    uint32_t kernel;
    void (*entry)(const void *args);
    uint32_t cluster;
} sm90[] = {
#define KERNEL(name, module, args, threads)
#define KERNEL_MMA8(name, module, args, threads)
#define KERNEL_SM90(name, module, args, threads) { K_##name, k_##name, 1 },
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90
#define QTYPE_BLOCK(NAME, name, set, ...) { K_matmul8_##set, k_matmul8_##set##_sm90, 2 },
#define QTYPE_PAIR(set, ...)              { K_matmul8_##set, k_matmul8_##set##_sm90, 2 },
#include "kernels/qtypes.def"
};

/* A small machine, so that tests see work-groups that loop; shared memory as on the GPUs of the cuda tier. */
const struct dispatch_target lockstep_target = { .n_cores = 4, .shared_max = 232448, .shared_core = 233472,
                                                   .mma8 = true, .books = true, .ahead = true };

struct lockstep {
    struct replay r;
    uint8_t *arena[ARENA_COUNT]; /* CONST is the plans' */
    struct lockstep_walker *walker; /* NULL: no plan walks */
    void (*entry[KERNEL_COUNT])(const void *args);
    uint32_t cluster[KERNEL_COUNT]; /* work-groups of a cluster */
};

/* Launches [first, first + n) of the pass for single rows, as a list. */
struct lockstep_list {
    uint32_t first, n, shared;
    uint8_t *bytes; /* [WALK_CONST] */
};

struct lockstep_plan {
    struct replay_plan r;
    uint8_t *consts;
    uint8_t *work; /* the passes take turns in it, as on a GPU */
    struct lockstep_list *list; /* [n_lists] of a persistent plan */
    uint32_t n_lists;
};

static struct lockstep *lockstep_of(const struct tier *t)
{
    return (struct lockstep *)t;
}
static struct lockstep *lockstep_of_replay(const struct replay *r)
{
    return (struct lockstep *)r;
}

/* Zeroed. Just so many bytes, so that AddressSanitizer sees what goes beyond. */
static uint8_t *memory(uint64_t bytes)
{
    void *p;
    if (posix_memalign(&p, STREAM_ALIGN, bytes ? bytes : 1))
        return NULL;
    return memset(p, 0, bytes);
}

static void lockstep_destroy(struct tier *t)
{
    struct lockstep *l = lockstep_of(t);
    for (int a = 0; a < ARENA_COUNT; a++)
        free(l->arena[a]);
    lockstep_walker_destroy(l->walker);
    replay_free(&l->r);
    free(l);
}

/* ---- weights and arenas ---- */

static int alloc_weights(struct replay *r, const struct stream *s, struct err *e)
{
    struct lockstep *l = lockstep_of_replay(r);
    r->weight_bytes = s->h.arena_bytes[ARENA_WEIGHTS];
    l->arena[ARENA_WEIGHTS] = memory(r->weight_bytes);
    return l->arena[ARENA_WEIGHTS] ? 0 : err_set(e, -ENOMEM, "lockstep: %llu MiB of weights",
                                                 (unsigned long long)r->weight_bytes >> 20);
}

static int load_weight(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    const struct stream_weight *w = &all->w->s->weights[p->weight];
    uint8_t *to = lockstep_of_replay(r)->arena[ARENA_WEIGHTS] + w->off;
    const uint8_t *from = all->w->data[p->weight];
    if (all->unit[p->weight])
        planes_pack(w->type, from, to, w->ne[1] * w->ne[2] * w->ne[3], all->unit[p->weight], w->ne[0]);
    else
        memcpy(to, from, w->bytes);
    return 0;
}

static int lockstep_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    static const struct replay_loader loader = { .max_threads = 1, .whole = true, .alloc = alloc_weights,
                                                 .piece = load_weight };
    return replay_load(replay_of(t), w, &loader, p, e);
}

static int lockstep_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    struct lockstep *l = lockstep_of(t);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        l->arena[a] = memory(bytes[a]);
        if (!l->arena[a])
            return err_set(e, -ENOMEM, "lockstep: arena %d of %llu MiB", a, (unsigned long long)bytes[a] >> 20);
    }
    return 0;
}

/* ---- plans ---- */

static void lockstep_plan_destroy(struct tier_plan *base)
{
    struct lockstep_plan *p = (struct lockstep_plan *)base;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_lists; i++)
        free(p->list[i].bytes);
    free(p->list);
    free(p->work);
    free(p->consts);
    free(p->r.ring);
    replay_plan_free(&p->r);
    free(p);
}

static int check_entries(const struct lockstep *l, const struct dispatch_plan *d, struct err *e)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (!l->entry[d->d[i].kernel])
            return err_set(e, -ENOTSUP, "lockstep: kernel %s is not for the host", kernel_infos[d->d[i].kernel].name);
    return 0;
}

static int prepare_pass(struct lockstep *l, struct lockstep_plan *p, uint32_t i, struct err *e)
{
    struct dispatch_plan *d = p->r.pass[i].d;
    int rc = check_entries(l, d, e);
    if (rc)
        return rc;
    uint64_t base[ARENA_ALL] = { 0 }; /* no host copy of IO: it is host memory */
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = (uintptr_t)(a == ARENA_CONST ? p->consts : l->arena[a]);
    base[ARENA_WORK] = (uintptr_t)p->work;
    dispatch_relocate(d, base);
    return 0;
}

/* ---- persistent plans ---- */

static bool has_body(void *user, uint32_t kernel)
{
    return walk_takes(kernel);
}

static uint32_t body_number(void *user, uint32_t kernel)
{
    return kernel;
}

static int add_list(struct lockstep_plan *p, const struct dispatch_plan *d, uint32_t first, uint32_t n, struct err *e)
{
    struct walk_list w = { .form = &walk_form_const, .d = d, .first = first, .n = n, .groups = LOCKSTEP_WALKERS };
    struct lockstep_list *more = realloc(p->list, (p->n_lists + 1) * sizeof *more), *l;
    if (!more)
        return err_set(e, -ENOMEM, "lockstep: lists of a persistent plan");
    p->list = more;
    l = &p->list[p->n_lists];
    *l = (struct lockstep_list){ .first = first, .n = n, .bytes = memory(WALK_CONST) };
    if (!l->bytes)
        return err_set(e, -ENOMEM, "lockstep: list of a persistent plan");
    p->n_lists++;
    for (uint32_t i = first; i < first + n; i++)
        l->shared = MAX(l->shared, d->d[i].shared);
    walk_list_write(&w, body_number, NULL, l->bytes);
    return walk_list_verify(&w, l->bytes, e);
}

/* After the pass has its addresses. */
static int make_lists(struct lockstep *l, struct lockstep_plan *p, struct err *e)
{
    const struct dispatch_plan *d = p->r.pass[p->r.n_passes - 1].d;
    int rc = 0;
    if (p->r.base.kind != PLAN_PERSISTENT || p->r.pass[p->r.n_passes - 1].max_rows != 1)
        return 0;
    if (!l->walker && (rc = lockstep_walker_create(LOCKSTEP_WALKERS, &l->walker, e)))
        return rc;
    for (uint32_t i = 0, n; !rc && (n = walk_next(&walk_form_const, d, &i, has_body, NULL)); i += n)
        rc = add_list(p, d, i, n, e);
    return rc;
}

static int lockstep_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out,
                            struct err *e)
{
    struct lockstep *l = lockstep_of(t);
    struct lockstep_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "lockstep: plan object");
    int rc = replay_plan_begin(&p->r, &l->r, s, k, e);
    if (!rc)
        rc = replay_plan_build(&p->r, NULL, e);
    if (!rc) {
        p->consts = memory(s->h.const_bytes);
        p->r.ring = memory((uint64_t)p->r.stride * KL_RING);
        p->work = memory(p->r.work_bytes);
        if (!p->consts || !p->r.ring || !p->work)
            rc = err_set(e, -ENOMEM, "lockstep: %u bytes of constants, the step ring, %llu MiB of private memory",
                         s->h.const_bytes, (unsigned long long)p->r.work_bytes >> 20);
    }
    if (!rc) {
        uint64_t counters = p->r.pass[0].d->counters_bytes;
        if (s->h.const_bytes)
            memcpy(p->consts, s->consts, s->h.const_bytes);
        memset(p->work + counters, 0xff, p->r.work_bytes - counters);
    }
    for (uint32_t i = 0; i < p->r.n_passes && !rc; i++)
        rc = prepare_pass(l, p, i, e);
    rc = rc ? rc : make_lists(l, p, e);
    if (rc) {
        lockstep_plan_destroy(&p->r.base);
        return rc;
    }
    replay_plan_end(&p->r);
    *out = &p->r.base;
    return 0;
}

/* ---- submissions ---- */

static int check_counters(const uint8_t *work, uint64_t bytes, struct err *e)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (work[i])
            return err_set(e, -EIO, "its counter %llu is not 0 behind it", (unsigned long long)i / 4);
    return 0;
}

static int run_one(struct lockstep *l, const struct lockstep_plan *p, uint32_t pass, const struct dispatch *d)
{
    const struct dispatch_plan *plan = p->r.pass[pass].d;
    const struct kernel_info *k = &kernel_infos[d->kernel];
    const struct cmd *cmd = &p->r.base.s->cmds[d->cmd];
    int rc = lockstep_launch_clusters(l->entry[d->kernel], plan->args + d->args_off, d->grid, d->threads, d->shared,
                                      l->cluster[d->kernel], &l->r.fault);
    if (rc == 0)
        rc = check_counters(p->work, plan->counters_bytes, &l->r.fault);
    if (rc == 0)
        return 0;
    err_context(&l->r.fault, "lockstep: command %u (%s, layer %d), kernel %s", d->cmd, cmd_name(cmd->op),
                (int)cmd->layer, k->name);
    return -EIO;
}

/* What k_step_begin does on a device: the step's words, but not the next tokens of the step before. */
static void begin_step(struct lockstep *l, const struct replay_plan *p)
{
    const uint8_t *slot = p->ring + (l->r.issued % KL_RING) * (uint64_t)p->stride;
    memcpy(l->arena[ARENA_IO], slot, p->base.s->h.next_off);
}

/* What k_step_end does. */
static void end_step(struct lockstep *l, const struct replay_plan *p)
{
    const struct stream_head *h = &p->base.s->h;
    memcpy(p->ring + (l->r.issued % KL_RING) * (uint64_t)p->stride + h->next_off, l->arena[ARENA_IO] + h->next_off, 4ull * h->out_cap);
}

static int run_list(struct lockstep *l, const struct lockstep_plan *p, const struct lockstep_list *list, const struct dispatch_plan *d)
{
    int rc = lockstep_walk(l->walker, list->bytes, list->n, list->shared, l->entry, l->r.issued, &l->r.fault);
    if (rc == 0)
        rc = check_counters(p->work, d->counters_bytes, &l->r.fault);
    if (rc)
        err_context(&l->r.fault, "lockstep: launches %u to %u", list->first, list->first + list->n - 1);
    return rc ? -EIO : 0;
}

/* A whole step of a row in a persistent plan: lists, and between them what has no place in one. */
static int walk_step(struct lockstep *l, const struct lockstep_plan *p, uint32_t pass)
{
    const struct dispatch_plan *d = p->r.pass[pass].d;
    int rc = 0;
    for (uint32_t i = 0, k = 0; i < d->n && rc == 0;) {
        if (k < p->n_lists && p->list[k].first == i) {
            rc = run_list(l, p, &p->list[k], d);
            i += p->list[k++].n;
        } else {
            rc = run_one(l, p, pass, &d->d[i++]);
        }
    }
    return rc;
}

static int run(struct replay *r, struct replay_plan *base, uint32_t pass, uint32_t n, uint64_t *point)
{
    struct lockstep *l = lockstep_of_replay(r);
    int rc = 0;
    struct lockstep_plan *p = (struct lockstep_plan *)base;
    const struct replay_pass *x = &base->pass[pass];
    bool walks = p->n_lists && x->max_rows == 1 && n == x->d->n;
    begin_step(l, base);
    if (walks)
        rc = walk_step(l, p, pass);
    for (uint32_t i = 0; i < n && rc == 0 && !walks; i++)
        rc = run_one(l, p, pass, &x->d->d[i]);
    end_step(l, base);
    *point = r->issued + 1;
    return rc;
}

static int lockstep_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    return 0; /* submit ran it */
}

/* ---- looking inside ---- */

static int check_kept(struct lockstep *l, enum arena a, struct err *e)
{
    return l->arena[a] ? 0 : err_set(e, -EINVAL, "lockstep: arena %d is not kept by the tier", (int)a);
}

static int lockstep_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    int rc = check_kept(lockstep_of(t), a, e);
    if (rc == 0)
        memcpy(dst, lockstep_of(t)->arena[a] + off, n);
    return rc;
}

static int lockstep_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    int rc = check_kept(lockstep_of(t), a, e);
    if (rc == 0)
        memcpy(lockstep_of(t)->arena[a] + off, src, n);
    return rc;
}

static int lockstep_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    uint8_t *p = lockstep_of(t)->arena[a];
    memcpy(p + dst, p + src, n);
    return 0;
}

static const void *lockstep_map(struct tier *t, enum arena a, uint64_t off)
{
    return lockstep_of(t)->arena[a] ? lockstep_of(t)->arena[a] + off : NULL;
}

static void lockstep_dump(const struct tier_plan *base, FILE *f)
{
    const struct replay_plan *p = (const struct replay_plan *)base;
    for (uint32_t i = p->n_passes; i-- > 0;) {
        const struct dispatch_plan *d = p->pass[i].d;
        fprintf(f, "lockstep plan for %u rows%s: %u launches, %llu bytes of private memory\n", p->pass[i].max_rows,
                replay_pass_apart(p, i) ? ", parts of steps" : "", d->n,
                (unsigned long long)d->work_bytes);
        for (uint32_t j = 0; j < d->n; j++) {
            const struct dispatch *x = &d->d[j];
            fprintf(f, "%5u %-8s %-24s %u x %u x %u of %u, shared %u\n", x->cmd, cmd_name(base->s->cmds[x->cmd].op),
                    kernel_infos[x->kernel].name, x->grid[0], x->grid[1], x->grid[2], x->threads,
                    x->shared);
        }
    }
}

static const struct replay_ops ops = { .run = run };

static const struct tier_impl lockstep_impl = {
    .name = "lockstep",
    .destroy = lockstep_destroy,
    .load = lockstep_load,
    .alloc = lockstep_alloc,
    .prepare = lockstep_prepare,
    .plan_destroy = lockstep_plan_destroy,
    .submit = replay_submit,
    .next = replay_next,
    .wait = lockstep_wait,
    .read = lockstep_read,
    .write = lockstep_write,
    .copy = lockstep_copy,
    .map = lockstep_map,
    .fault = replay_fault,
    .dump = lockstep_dump,
    .submit_prefix = replay_submit_prefix,
    .resident = replay_resident,
};

static int lockstep_probe(const struct tier_opts *o, struct tier_info *info)
{
    snprintf(info->device, sizeof info->device, "the kernels on the host, in lock step%s", o->target ? ", as for sm_90a" : "");
    snprintf(info->note, sizeof info->note, "for tests: very slow");
#ifdef __x86_64__ /* what mk/kernels.mk lets the compiler use */
    if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
        snprintf(info->note, sizeof info->note, "it needs a processor with FMA and F16C");
        return -ENOTSUP;
    }
#endif
    if (o->target && strcmp(o->target, "sm90") != 0) {
        snprintf(info->note, sizeof info->note, "it has no target '%s', but sm90", o->target);
        return -EINVAL;
    }
    info->by_capacity = true;
    info->decode_rows = KL_ROWS_MAX;
    info->expert_slots = o->target ? 32 : 0; /* as cuda/tier.c */
    info->kv_planes = true;
    info->persistent = true;
    return 0;
}

static int lockstep_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct tier_info info = { 0 };
    if (lockstep_probe(o, &info))
        return err_set(e, -ENOTSUP, "lockstep: %s: take another tier", info.note);
    struct lockstep *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, -ENOMEM, "lockstep: tier object");
    l->r.tier.impl = &lockstep_impl;
    l->r.ops = &ops;
    l->r.target = lockstep_target;
    if (o->target) { /* a core fewer, so that rings of stages go round */
        l->r.target.wgmma = true;
        l->r.target.n_cores = 1;
    }
    for (uint32_t i = 0; i < KERNEL_COUNT; i++) {
        l->entry[i] = entries[i];
        l->cluster[i] = 1;
    }
    for (uint32_t i = 0; i < ARRAY_LEN(sm90) && o->target; i++) {
        l->entry[sm90[i].kernel] = sm90[i].entry;
        l->cluster[sm90[i].kernel] = sm90[i].cluster;
    }
    l->r.tier.info = info;
    *out = &l->r.tier;
    return 0;
}

const struct tier_driver tier_driver_lockstep = { "lockstep", lockstep_probe, lockstep_open, NULL };
