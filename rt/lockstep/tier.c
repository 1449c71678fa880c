/* rt/lockstep/tier.c: the tier that runs the GPU kernels on the host, in lock step (rt/lockstep/run.h). It proves the
 * kernels and rt/dispatch.c without a GPU: launches, weights in planes and private memory are those of the GPU tiers.
 * Temporaries start as NaN, and counters that are not 0 after a launch are a fault. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/dispatch.h"
#include "rt/lockstep/run.h"
#include "rt/tier.h"

#define KERNEL_SM90(name, module, args, threads)
#define KERNEL(name, module, args, threads) void k_##name(const void *args_);
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90

/* NULL: a kernel that the host does not have. */
static void (*const entries[KERNEL_COUNT])(const void *) = {
#define KERNEL_SM90(name, module, args, threads)
#define KERNEL(name, module, args, threads) [K_##name] = k_##name,
#include "kernels/kernels.def"
#undef KERNEL
#undef KERNEL_SM90
};

/* A small machine, so that tests see work-groups that loop; shared memory as on the GPUs of the cuda tier. */
static const struct dispatch_target host_target = { .n_cores = 4, .shared_max = 232448, .shared_core = 233472 };

struct lockstep {
    struct tier base;
    uint8_t *arena[ARENA_COUNT]; /* CONST is the plans' */
    uint64_t weight_bytes, weights_hash;
    uint32_t n_weights, *unit;   /* rows of a matrix of each weight, 0: as in the file or not used */
    uint64_t points;
    struct err fault;
};

struct lockstep_plan {
    struct tier_plan base;
    uint8_t *consts;
    struct dispatch_plan *d[2]; /* for one row, and for the stream's capacity; the first may be missing */
    uint8_t *work[2];
};

static struct lockstep *lockstep_of(struct tier *t)
{
    return (struct lockstep *)t;
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
    free(l->unit);
    free(l);
}

/* ---- weights and arenas ---- */

static int lockstep_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct lockstep *l = lockstep_of(t);
    const struct stream_head *h = &w->s->h;
    l->weight_bytes = h->arena_bytes[ARENA_WEIGHTS];
    l->arena[ARENA_WEIGHTS] = memory(l->weight_bytes);
    l->unit = calloc(h->n_weights + 1, sizeof *l->unit);
    if (!l->arena[ARENA_WEIGHTS] || !l->unit)
        return err_set(e, -ENOMEM, "lockstep: %llu MiB of weights", (unsigned long long)l->weight_bytes >> 20);
    int rc = dispatch_weight_units(w->s, l->unit, e);
    if (rc)
        return rc;
    l->n_weights = h->n_weights;
    l->weights_hash = h->weights_hash;
    for (uint32_t i = 0; i < h->n_weights; i++) {
        const struct stream_weight *sw = &w->s->weights[i];
        uint8_t *to = l->arena[ARENA_WEIGHTS] + sw->off;
        if (!progress_report(p, "weights", sw->off, l->weight_bytes))
            return err_set(e, -ECANCELED, "lockstep: load was cancelled");
        if (l->unit[i])
            planes_pack(sw->type, w->data[i], to, sw->ne[1] * sw->ne[2] * sw->ne[3], l->unit[i], sw->ne[0]);
        else
            memcpy(to, w->data[i], sw->bytes);
    }
    return progress_report(p, "weights", 1, 1) ? 0 : err_set(e, -ECANCELED, "lockstep: load was cancelled");
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
    for (int i = 0; i < 2; i++) {
        dispatch_free(p->d[i]);
        free(p->work[i]);
    }
    free(p->consts);
    free(p);
}

/* The weights were packed for the stream that tier_load got; this one has to use them in the same way. */
static int check_weights(const struct lockstep *l, const struct stream *s, struct err *e)
{
    if (s->h.n_weights != l->n_weights || s->h.weights_hash != l->weights_hash)
        return err_set(e, -EINVAL, "lockstep: the stream is of another model than the weights: %u weights, hash "
                       "%016llx; loaded %u, %016llx", s->h.n_weights, (unsigned long long)s->h.weights_hash,
                       l->n_weights, (unsigned long long)l->weights_hash);
    uint32_t *unit = calloc(s->h.n_weights + 1, sizeof *unit);
    int rc = unit ? dispatch_weight_units(s, unit, e) : err_set(e, -ENOMEM, "lockstep: %u weights", s->h.n_weights);
    for (uint32_t i = 0; i < s->h.n_weights && !rc; i++)
        if (unit[i] && unit[i] != l->unit[i])
            rc = err_set(e, -EINVAL, "lockstep: weight '%s' was loaded as matrices of %u rows, the stream has them "
                         "of %u", stream_str(s, s->weights[i].name), l->unit[i], unit[i]);
    free(unit);
    return rc;
}

static int check_entries(const struct dispatch_plan *d, struct err *e)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (!entries[d->d[i].kernel])
            return err_set(e, -ENOTSUP, "lockstep: kernel %s is not for the host", kernel_infos[d->d[i].kernel].name);
    return 0;
}

static int prepare_launches(struct lockstep *l, struct lockstep_plan *p, int i, uint32_t max_rows, struct err *e)
{
    int rc = dispatch_build(p->base.s, &host_target, max_rows, &p->d[i], e);
    if (rc || (rc = check_entries(p->d[i], e)))
        return rc;
    struct dispatch_plan *d = p->d[i];
    p->work[i] = memory(d->work_bytes);
    if (!p->work[i])
        return err_set(e, -ENOMEM, "lockstep: %llu MiB of private memory", (unsigned long long)d->work_bytes >> 20);
    memset(p->work[i] + d->counters_bytes, 0xff, d->work_bytes - d->counters_bytes);
    uint64_t base[ARENA_ALL] = { 0 }; /* no host copy of IO: it is host memory */
    for (int a = 0; a < ARENA_COUNT; a++)
        base[a] = (uintptr_t)(a == ARENA_CONST ? p->consts : l->arena[a]);
    base[ARENA_WORK] = (uintptr_t)p->work[i];
    dispatch_relocate(d, base);
    return 0;
}

static int lockstep_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out,
                            struct err *e)
{
    struct lockstep *l = lockstep_of(t);
    int rc = check_weights(l, s, e);
    if (rc)
        return rc;
    struct lockstep_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "lockstep: plan object");
    p->base = (struct tier_plan){ .tier = t, .s = s, .kind = PLAN_REPLAY };
    p->consts = memory(s->h.const_bytes);
    if (!p->consts)
        rc = err_set(e, -ENOMEM, "lockstep: %u bytes of constants", s->h.const_bytes);
    else
        memcpy(p->consts, s->consts, s->h.const_bytes);
    if (!rc && s->h.row_cap > 1 && s->h.row_cap <= KL_DECODE_ROWS)
        rc = prepare_launches(l, p, 0, 1, e);
    if (!rc)
        rc = prepare_launches(l, p, 1, s->h.row_cap, e);
    if (rc) {
        lockstep_plan_destroy(&p->base);
        return rc;
    }
    *out = &p->base;
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

static int run_one(struct lockstep *l, const struct lockstep_plan *p, int which, const struct dispatch *d)
{
    const struct dispatch_plan *plan = p->d[which];
    const struct kernel_info *k = &kernel_infos[d->kernel];
    const struct cmd *cmd = &p->base.s->cmds[d->cmd];
    int rc = lockstep_launch(entries[d->kernel], plan->args + d->args_off, d->grid, k->threads, d->shared, &l->fault);
    if (rc == 0)
        rc = check_counters(p->work[which], plan->counters_bytes, &l->fault);
    if (rc == 0)
        return 0;
    err_context(&l->fault, "lockstep: command %u (%s, layer %d), kernel %s", d->cmd, cmd_name(cmd->op),
                (int)cmd->layer, k->name);
    return -EIO;
}

static int lockstep_submit_prefix(struct tier *t, struct tier_plan *base, const struct step *step, uint32_t n_cmds)
{
    struct lockstep *l = lockstep_of(t);
    const struct lockstep_plan *p = (const struct lockstep_plan *)base;
    int which = p->d[0] && step->n_rows == 1 && step->n_out <= 1 ? 0 : 1, rc = 0;
    const struct dispatch_plan *d = p->d[which];
    t->stats.words += stream_patch(l->arena[ARENA_IO], base->s, step);
    for (uint32_t i = 0; i < d->n && rc == 0; i++)
        if (d->d[i].cmd < n_cmds)
            rc = run_one(l, p, which, &d->d[i]);
    return rc;
}

static int lockstep_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    int rc = lockstep_submit_prefix(t, p, step, p->s->h.n_cmds);
    if (rc == 0)
        *point = ++lockstep_of(t)->points;
    return rc;
}

static int lockstep_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    return 0; /* submit ran it */
}

static int lockstep_fault(struct tier *t, struct err *out)
{
    const struct lockstep *l = lockstep_of(t);
    if (!l->fault.code)
        return -ENOENT;
    if (out)
        *out = l->fault;
    return 0;
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
    const struct lockstep_plan *p = (const struct lockstep_plan *)base;
    for (int i = 0; i < 2; i++) {
        const struct dispatch_plan *d = p->d[i];
        if (!d)
            continue;
        fprintf(f, "lockstep plan for %u rows: %u launches, %llu bytes of private memory\n",
                i ? base->s->h.row_cap : 1, d->n, (unsigned long long)d->work_bytes);
        for (uint32_t j = 0; j < d->n; j++) {
            const struct dispatch *x = &d->d[j];
            fprintf(f, "%5u %-8s %-24s %u x %u x %u of %u, shared %u\n", x->cmd, cmd_name(base->s->cmds[x->cmd].op),
                    kernel_infos[x->kernel].name, x->grid[0], x->grid[1], x->grid[2], kernel_infos[x->kernel].threads,
                    x->shared);
        }
    }
}

static uint64_t lockstep_resident(const struct tier *t)
{
    uint64_t n = ((const struct lockstep *)t)->weight_bytes;
    for (int a = 0; a < ARENA_COUNT; a++)
        n += t->arena_bytes[a];
    return n;
}

static const struct tier_impl lockstep_impl = {
    .name = "lockstep",
    .destroy = lockstep_destroy,
    .load = lockstep_load,
    .alloc = lockstep_alloc,
    .prepare = lockstep_prepare,
    .plan_destroy = lockstep_plan_destroy,
    .submit = lockstep_submit,
    .wait = lockstep_wait,
    .read = lockstep_read,
    .write = lockstep_write,
    .copy = lockstep_copy,
    .map = lockstep_map,
    .fault = lockstep_fault,
    .dump = lockstep_dump,
    .submit_prefix = lockstep_submit_prefix,
    .resident = lockstep_resident,
};

static int lockstep_probe(const struct tier_opts *o, struct tier_info *info)
{
    snprintf(info->device, sizeof info->device, "the kernels on the host, in lock step");
    snprintf(info->note, sizeof info->note, "for tests: very slow");
    info->by_capacity = true;
    info->kv_planes = true;
    return 0;
}

static int lockstep_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct lockstep *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, -ENOMEM, "lockstep: tier object");
    l->base.impl = &lockstep_impl;
    lockstep_probe(o, &l->base.info);
    *out = &l->base;
    return 0;
}

const struct tier_driver tier_driver_lockstep = { "lockstep", lockstep_probe, lockstep_open };
