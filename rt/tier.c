#include "rt/tier.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/auto.h"

const struct tier_driver *const tier_drivers[] = {
    &tier_driver_cuda,
    &tier_driver_metal,
#ifdef ZINC_DRM
    &tier_driver_umq,
#endif
#ifdef __linux__
    &tier_driver_kfd,
#endif
#ifdef ZINC_DRM
    &tier_driver_cs,
#endif
#ifdef ZINC_VULKAN
    &tier_driver_vulkan,
#endif
    &tier_driver_cpu,
    &tier_driver_lockstep,
    &tier_driver_null,
    NULL,
};

const struct tier_driver *tier_find(const char *name)
{
    for (const struct tier_driver *const *d = tier_drivers; *d; d++)
        if (strcmp((*d)->name, name) == 0)
            return *d;
    return NULL;
}

const char *tier_reference(void)
{
    return tier_driver_cpu.name;
}

int tier_check_device(const struct tier_driver *d, const struct tier_opts *o, struct err *e)
{
    bool one = d == &tier_driver_cpu || d == &tier_driver_lockstep || d == &tier_driver_null;
    if (one && o->device_name)
        return err_set(e, -ENODEV, "tier %s: it has one device without a name, so none whose name contains '%.32s'", d->name,
                       o->device_name);
    if (o->target && d != &tier_driver_lockstep)
        return err_set(e, -EINVAL, "tier %s: a target, '%.32s', is lockstep's alone: lockstep:sm90", d->name, o->target);
    if (one && o->device > 0)
        return err_set(e, -ENODEV, "tier %s: there is no device %d, it has one: 0", d->name, o->device);
    return 0;
}

int tier_open(const char *name, const struct tier_opts *o, struct tier **out, struct err *e)
{
    static const struct tier_opts defaults = { .device = -1 };
    if (!o)
        o = &defaults;
    if (!name)
        name = env_get()->tier;
    *out = NULL;
    if ((!name || strcmp(name, "auto") == 0) && o->target)
        return err_set(e, -EINVAL, "tier auto: a target, '%.32s', is lockstep's alone: lockstep:sm90", o->target);
    if (!name || strcmp(name, "auto") == 0)
        return auto_open(o, out, e);
    const struct tier_driver *named = tier_find(name);
    struct tier_info info = { 0 };
    if (named) {
        int rc = tier_check_device(named, o, e);
        if (rc)
            return rc;
        rc = named->probe(o, &info);
        return rc ? err_set(e, rc, "tier %s: %s", name, info.note) : named->open(o, out, e);
    }
    char known[128] = "";
    for (const struct tier_driver *const *d = tier_drivers; *d; d++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*d)->name);
    }
    return err_set(e, -ENODEV, "tier '%s': unknown; this binary has auto, %s", name, known);
}

void tier_close(struct tier *t)
{
    if (t)
        t->impl->destroy(t);
}

const char *tier_name(const struct tier *t)
{
    return t->impl->name;
}

int tier_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    CHECK(!t->loaded);
    int rc = t->impl->load(t, w, p, e);
    t->loaded = rc == 0;
    return rc;
}

int tier_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    CHECK(!t->allocated);
    int rc = t->impl->alloc(t, bytes, e);
    if (rc)
        return rc;
    for (int a = 0; a < ARENA_COUNT; a++)
        t->arena_bytes[a] = a == ARENA_WEIGHTS || a == ARENA_CONST ? 0 : bytes[a];
    t->allocated = true;
    return 0;
}

int tier_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    static const char *const arena_names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    CHECK(t->loaded && t->allocated);
    *out = NULL;
    if (k == PLAN_PERSISTENT && !t->info.persistent)
        return err_set(e, -ENOTSUP, "tier %s: there are no persistent plans on this device (cuda has them on compute capability "
                       "9.0, kfd, umq, cs and lockstep always); --plan=replay", t->impl->name);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++)
        if (s->h.arena_bytes[a] > t->arena_bytes[a])
            return err_set(e, -EINVAL, "tier %s: the stream's %s arena has %llu bytes, tier_alloc gave %llu",
                           t->impl->name, arena_names[a], (unsigned long long)s->h.arena_bytes[a],
                           (unsigned long long)t->arena_bytes[a]);
    if (t->impl->supports)
        for (uint32_t i = 0; i < s->h.n_cmds; i++)
            if (!t->impl->supports(t, s, i))
                return err_set(e, -ENOTSUP, "tier %s: command %u (%s, layer %d) is not supported; try --tier=cpu",
                               t->impl->name, i, cmd_name(s->cmds[i].op), (int)s->cmds[i].layer);
    return t->impl->prepare(t, s, k, out, e);
}

void tier_plan_destroy(struct tier_plan *p)
{
    if (p)
        p->tier->impl->plan_destroy(p);
}

/* What a step may say. Everything that a command reads from the step block is bounded here, for every tier. */
static int check_step(const struct stream *s, const struct step *st)
{
    const struct stream_head *h = &s->h;
    if (st->n_rows == 0 || st->n_rows > h->row_cap || st->n_out > h->out_cap || !st->rows ||
        (st->n_out && !st->out_row)) {
        log_err(RT, "step: %u rows, %u outputs; the stream takes 1..%u and 0..%u", st->n_rows, st->n_out, h->row_cap,
                h->out_cap);
        return -EINVAL;
    }
    uint32_t kv_len = 0;
    for (uint32_t r = 0; r < st->n_rows; r++) {
        const ka_row *w = &st->rows[r], *before = r ? w - 1 : NULL;
        bool token_ok = w->token >= 0 ? (uint32_t)w->token < h->n_vocab : (uint32_t)(-1 - w->token) < h->out_cap;
        if (!token_ok || w->pos >= h->n_ctx || w->slot >= h->n_slots) {
            log_err(RT, "step: row %u: token %d of %u, position %u of %u, slot %u of %u", r, w->token, h->n_vocab,
                    w->pos, h->n_ctx, w->slot, h->n_slots);
            return -EINVAL;
        }
        if (before && before->slot == w->slot && before->pos >= w->pos) {
            log_err(RT, "step: row %u: position %u of slot %u after position %u", r, w->pos, w->slot, before->pos);
            return -EINVAL;
        }
        if (w->pos + 1 > kv_len)
            kv_len = w->pos + 1;
    }
    if (st->kv_len != kv_len) {
        log_err(RT, "step: kv_len %u, the rows say %u", st->kv_len, kv_len);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < st->n_out; i++)
        if (st->out_row[i] >= st->n_rows || (i && st->out_row[i] <= st->out_row[i - 1])) {
            log_err(RT, "step: output %u is row %u of %u; ascending is expected", i, st->out_row[i], st->n_rows);
            return -EINVAL;
        }
    return 0;
}

/* Attention alone costs what the cache's length says; the rest is summed once per number of rows, because this runs
 * for every token. */
static void count_step(struct tier *t, struct tier_plan *p, const struct step *st)
{
    const struct stream *s = p->s;
    bool known = p->cost_rows == st->n_rows;
    uint64_t bytes, flops, rest = 0, rest_flops = 0;
    t->stats.steps++;
    t->stats.rows += st->n_rows;
    t->stats.commands += s->h.n_cmds;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        if (known && s->cmds[i].op != CMD_ATTN)
            continue;
        stream_cmd_cost(s, i, st->n_rows, st->kv_len, &bytes, &flops);
        bool attn = s->cmds[i].op == CMD_ATTN;
        *(attn ? &t->stats.bytes : &rest) += bytes;
        *(attn ? &t->stats.flops : &rest_flops) += flops;
    }
    if (!known) {
        p->cost_rows = st->n_rows;
        p->cost_bytes = rest;
        p->cost_flops = rest_flops;
    }
    t->stats.bytes += p->cost_bytes;
    t->stats.flops += p->cost_flops;
}

int tier_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    CHECK(p->tier == t);
    if (t->faulted)
        return -EIO;
    int rc = check_step(p->s, step);
    if (rc)
        return rc;
    uint64_t start = clock_ns();
    rc = t->impl->submit(t, p, step, point);
    t->stats.host_ns += clock_ns() - start;
    if (rc) {
        t->faulted |= rc == -EIO;
        return rc;
    }
    if (!t->busy_since_ns)
        t->busy_since_ns = start;
    t->last_point = *point;
    count_step(t, p, step);
    return 0;
}

int tier_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    if (t->faulted)
        return -EIO;
    int rc = t->impl->wait(t, point, timeout_ns);
    if (rc == 0 && point == t->last_point && t->busy_since_ns) {
        t->stats.busy_ns += clock_ns() - t->busy_since_ns;
        t->busy_since_ns = 0;
    }
    t->faulted |= rc == -EIO;
    return rc;
}

bool tier_keeps_next(const struct tier *t)
{
    return t->impl->next;
}

int tier_next(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next, struct err *e)
{
    const struct stream_head *h = &p->s->h;
    CHECK(p->tier == t && n <= h->out_cap);
    int rc = t->impl->next ? t->impl->next(t, p, point, n, next) : point == t->last_point ? 0 : -ESTALE;
    if (rc)
        return err_set(e, -EINVAL, "tier %s: the tokens of step %llu are gone; the newest is %llu", t->impl->name,
                       (unsigned long long)point, (unsigned long long)t->last_point);
    return t->impl->next ? 0 : t->impl->read(t, ARENA_IO, h->next_off, next, n * sizeof *next, e);
}

static int check_range(const struct tier *t, enum arena a, uint64_t off, uint64_t n, struct err *e)
{
    if ((unsigned)a < ARENA_COUNT && off <= t->arena_bytes[a] && n <= t->arena_bytes[a] - off)
        return 0;
    return err_set(e, -EINVAL, "tier %s: %llu bytes at %llu are outside arena %u of %llu bytes", t->impl->name,
                   (unsigned long long)n, (unsigned long long)off, (unsigned)a,
                   (unsigned long long)((unsigned)a < ARENA_COUNT ? t->arena_bytes[a] : 0));
}

int tier_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    int rc = check_range(t, a, off, n, e);
    return rc ? rc : t->impl->read(t, a, off, dst, n, e);
}

int tier_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    int rc = check_range(t, a, off, n, e);
    return rc ? rc : t->impl->write(t, a, off, src, n, e);
}

/* By way of the host, for tiers that cannot copy. */
static int copy_in_pieces(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    enum { PIECE = 1 << 20 };
    uint8_t *piece = malloc(MIN(n, (uint64_t)PIECE));
    int rc = piece ? 0 : err_set(e, -ENOMEM, "tier %s: memory to copy through", t->impl->name);
    for (uint64_t at = 0; at < n && !rc; at += PIECE) {
        uint64_t bytes = MIN(n - at, (uint64_t)PIECE);
        rc = t->impl->read(t, a, src + at, piece, bytes, e);
        if (!rc)
            rc = t->impl->write(t, a, dst + at, piece, bytes, e);
    }
    free(piece);
    return rc;
}

static int check_rows(const struct tier *t, enum arena a, const struct tier_rows *r, struct err *e)
{
    uint64_t last;
    if (!r->n || !r->width)
        return 0;
    if (r->pitch < r->width || !ckd_mul_u64(r->n - 1, r->pitch, &last))
        return err_set(e, -EINVAL, "tier %s: %u rows of %llu bytes, %llu apart", t->impl->name, r->n,
                       (unsigned long long)r->width, (unsigned long long)r->pitch);
    int rc = check_range(t, a, r->off, r->width, e);
    return rc ? rc : check_range(t, a, r->off + last, r->width, e);
}

int tier_read_rows(struct tier *t, enum arena a, const struct tier_rows *r, void *dst, struct err *e)
{
    int rc = check_rows(t, a, r, e);
    if (rc || !r->n || !r->width)
        return rc;
    if (t->impl->read_rows)
        return t->impl->read_rows(t, a, r, dst, e);
    for (uint32_t i = 0; i < r->n && !rc; i++)
        rc = t->impl->read(t, a, r->off + i * r->pitch, (uint8_t *)dst + i * r->host_pitch, r->width, e);
    return rc;
}

int tier_write_rows(struct tier *t, enum arena a, const struct tier_rows *r, const void *src, struct err *e)
{
    int rc = check_rows(t, a, r, e);
    if (rc || !r->n || !r->width)
        return rc;
    if (t->impl->write_rows)
        return t->impl->write_rows(t, a, r, src, e);
    for (uint32_t i = 0; i < r->n && !rc; i++)
        rc = t->impl->write(t, a, r->off + i * r->pitch, (const uint8_t *)src + i * r->host_pitch, r->width, e);
    return rc;
}

int tier_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    int rc = check_range(t, a, dst, n, e);
    if (rc || (rc = check_range(t, a, src, n, e)) || !n)
        return rc;
    if (dst < src + n && src < dst + n)
        return err_set(e, -EINVAL, "tier %s: copy of %llu bytes from %llu to %llu of arena %u: they overlap",
                       t->impl->name, (unsigned long long)n, (unsigned long long)src, (unsigned long long)dst, (unsigned)a);
    return t->impl->copy ? t->impl->copy(t, a, dst, src, n, e) : copy_in_pieces(t, a, dst, src, n, e);
}

const void *tier_map(struct tier *t, enum arena a, uint64_t off)
{
    return t->impl->map && !check_range(t, a, off, 0, NULL) ? t->impl->map(t, a, off) : NULL;
}

int tier_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds, struct err *e)
{
    CHECK(p->tier == t);
    if (!t->impl->submit_prefix)
        return err_set(e, -ENOTSUP, "tier %s: cannot run a part of a stream", t->impl->name);
    if (t->faulted)
        return err_set(e, -EIO, "tier %s: has faulted before", t->impl->name);
    if (n_cmds > p->s->h.n_cmds)
        return err_set(e, -EINVAL, "tier %s: %u commands of %u", t->impl->name, n_cmds, p->s->h.n_cmds);
    int rc = check_step(p->s, step);
    if (rc)
        return err_set(e, rc, "tier %s: the step does not fit the stream, see the log", t->impl->name);
    rc = t->impl->submit_prefix(t, p, step, n_cmds);
    if (rc == 0)
        return 0;
    t->faulted |= rc == -EIO;
    if (tier_fault(t, e))
        err_set(e, rc, "tier %s: commands 0..%u failed (%d)", t->impl->name, n_cmds, rc);
    return rc;
}

int tier_fault(struct tier *t, struct err *e)
{
    return t->impl->fault ? t->impl->fault(t, e) : -ENODATA;
}

uint32_t tier_trace(struct tier *t, const struct tier_trace **out)
{
    *out = NULL;
    return t->impl->trace ? t->impl->trace(t, out) : 0;
}

int tier_roof(struct tier *t, double *gbs, struct err *e)
{
    return t->impl->roof ? t->impl->roof(t, gbs, e) : -ENOTSUP;
}

int tier_roof_ops(struct tier *t, double *gops, struct err *e)
{
    return t->impl->roof_ops ? t->impl->roof_ops(t, gops, e) : -ENOTSUP;
}

void tier_describe(struct tier *t, tier_tell_fn fn, void *user)
{
    if (t->impl->describe)
        t->impl->describe(t, fn, user);
}

void tier_rest(struct tier *t)
{
    if (t->impl->rest && !t->faulted)
        t->impl->rest(t);
}

int tier_watch(struct tier *t, tier_watch_fn fn, void *user, struct err *e)
{
    if (!t->impl->watch)
        return err_set(e, -ENOTSUP, "tier %s: cannot show the inputs of products; --tier cpu can", t->impl->name);
    return t->impl->watch(t, fn, user, e);
}

void tier_dump(const struct tier_plan *p, FILE *f)
{
    if (p->tier->impl->dump)
        p->tier->impl->dump(p, f);
}

void tier_stats_reset(struct tier *t)
{
    memset(&t->stats, 0, sizeof t->stats);
}
