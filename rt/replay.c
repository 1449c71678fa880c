#include "rt/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

static const char *name_of(const struct replay *r)
{
    return r->tier.impl->name;
}

void replay_free(struct replay *r)
{
    free(r->unit);
    free(r->trace);
}

/* ---- plans ---- */

/* The weights were packed for the stream that was loaded; this one has to use them in the same way. */
static int check_weights(const struct replay *r, const struct stream *s, struct err *e)
{
    if (s->h.n_weights != r->n_weights || s->h.weights_hash != r->weights_hash)
        return err_set(e, -EINVAL, "%s: the stream is of another model than the weights: %u weights, hash %016llx; "
                       "loaded %u, %016llx", name_of(r), s->h.n_weights, (unsigned long long)s->h.weights_hash,
                       r->n_weights, (unsigned long long)r->weights_hash);
    uint32_t *unit = calloc(s->h.n_weights + 1, sizeof *unit);
    int rc = unit ? dispatch_weight_units(s, unit, e) : err_set(e, -ENOMEM, "%s: weight table", name_of(r));
    for (uint32_t i = 0; i < s->h.n_weights && !rc; i++)
        if (unit[i] && unit[i] != r->unit[i])
            rc = err_set(e, -EINVAL, "%s: weight '%s' was loaded as matrices of %u rows, the stream has them of %u",
                         name_of(r), stream_str(s, s->weights[i].name), r->unit[i], unit[i]);
    free(unit);
    return rc;
}

int replay_plan_begin(struct replay_plan *p, struct replay *r, const struct stream *s, enum plan_kind k, struct err *e)
{
    p->base = (struct tier_plan){ .tier = &r->tier, .s = s, .kind = k == PLAN_AUTO ? PLAN_REPLAY : k };
    return check_weights(r, s, e);
}

int replay_plan_build(struct replay_plan *p, bool need[KERNEL_COUNT], struct err *e)
{
    const struct stream *s = p->base.s;
    struct dispatch_target own = replay_of(p->base.tier)->target, *t = &own;
    own.ahead = own.ahead && p->base.kind == PLAN_REPLAY;
    uint32_t cap = s->h.row_cap, rows[REPLAY_PASSES] = { cap }, n = 1;
    bool apart = t->ahead && cap > 1 && cap <= KL_DECODE_ROWS;
    if (apart)
        rows[n++] = cap;
    if (cap <= KL_DECODE_ROWS) {
        for (uint32_t few = t->mma8 ? KL_DECODE_ROWS / 2 : 1; few; few /= 2)
            if (few < cap)
                rows[n++] = few;
    } else if (t->mma8 && cap > KL_ROWS_FEW && cap <= KL_ROWS_MAX) {
        rows[n++] = KL_ROWS_FEW;
    } else if (!t->lower) { /* or a short prompt starts work-groups for rows that are not there */
        for (uint32_t few = REPLAY_PROMPT_MANY; few >= REPLAY_PROMPT_FEW; few /= REPLAY_PROMPT_MANY / REPLAY_PROMPT_FEW)
            if (cap >= 4 * few)
                rows[n++] = few;
    }
    uint32_t counters = 0; /* all passes have them in the same place, as many as the one with the most */
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct replay_pass *x = &p->pass[i % n];
        if (i >= n && x->d->counters_bytes >= counters)
            continue;
        dispatch_free(x->d);
        x->d = NULL;
        own.apart = apart && i % n == 0;
        int rc = dispatch_build(s, t, rows[i % n], counters, &x->d, e);
        if (rc)
            return rc;
        x->max_rows = rows[i % n];
        p->n_passes = MAX(p->n_passes, i % n + 1);
        counters = MAX(counters, (uint32_t)x->d->counters_bytes);
    }
    for (uint32_t i = 0; i < n; i++) {
        p->work_bytes = MAX(p->work_bytes, p->pass[i].d->work_bytes);
        if (need)
            replay_pass_need(p, i, need);
    }
    p->stride = (uint32_t)align_up(s->h.next_off + 4ull * s->h.out_cap, 64);
    return 0;
}

void replay_pass_need(const struct replay_plan *p, uint32_t pass, bool need[KERNEL_COUNT])
{
    const struct dispatch_plan *d = p->pass[pass].d;
    for (uint32_t i = 0; i < d->n; i++)
        need[d->d[i].kernel] = true;
    need[K_step_begin] = need[K_step_end] = true;
}

bool replay_pass_apart(const struct replay_plan *p, uint32_t pass)
{
    return pass + 1 < p->n_passes && p->pass[pass + 1].max_rows == p->pass[pass].max_rows;
}

bool replay_pass_awaited(const struct replay_plan *p, uint32_t pass)
{
    const struct stream_head *h = &p->base.s->h;
    if (replay_pass_apart(p, pass))
        return false;
    return h->row_cap > KL_DECODE_ROWS || pass + 1 == p->n_passes || p->pass[pass + 1].max_rows < h->n_slots;
}

void replay_plan_end(struct replay_plan *p)
{
    struct replay *r = replay_of(p->base.tier);
    r->work_bytes += p->work_bytes;
    r->mirrored = r->mirrored && dispatch_copies_logits(p->base.s);
    p->counted = true;
}

void replay_plan_free(struct replay_plan *p)
{
    struct replay *r = replay_of(p->base.tier);
    for (uint32_t i = 0; i < p->n_passes; i++)
        dispatch_free(p->pass[i].d);
    if (p->counted)
        r->work_bytes -= p->work_bytes;
    if (r->last == p)
        r->last = NULL;
}

uint32_t replay_pass_for(const struct replay_plan *p, const struct step *step)
{
    uint32_t i = p->n_passes;
    while (i-- > 0)
        if (step->n_rows <= p->pass[i].max_rows && step->n_out <= p->pass[i].max_rows)
            return i;
    return 0;
}

void replay_frame(const struct replay_plan *p, const struct replay_places *at, kl_step_begin *begin, kl_step_end *end)
{
    const struct stream_head *h = &p->base.s->h;
    *begin = (kl_step_begin){ .step = at->io, .ring = at->ring, .seq = at->seq, .next_off = (uint32_t)h->next_off,
                              .stride = p->stride };
    *end = (kl_step_end){ .next = at->io + h->next_off, .host_next = at->ring + h->next_off, .seq = at->seq,
                          .done = at->done, .n = h->out_cap, .stride = p->stride };
}

void replay_where(const struct stream *s, uint32_t cmd, char *out, size_t n)
{
    out[0] = 0;
    if (cmd == UINT32_MAX)
        return;
    const struct cmd *k = &s->cmds[cmd];
    if (k->layer == CMD_NO_LAYER)
        snprintf(out, n, " in command %u (%s)", cmd, cmd_name(k->op));
    else
        snprintf(out, n, " in command %u (%s, layer %u)", cmd, cmd_name(k->op), (unsigned)k->layer);
}

int replay_trace_room(struct replay *r, uint32_t n, struct err *e)
{
    if (n <= r->cap_trace)
        return 0;
    struct tier_trace *t = realloc(r->trace, n * sizeof *t);
    if (!t)
        return err_set(e, -ENOMEM, "%s: trace of %u launches", name_of(r), n);
    r->trace = t;
    r->cap_trace = n;
    return 0;
}

/* ---- steps ---- */

static int wait_for(struct replay *r, uint64_t point)
{
    int rc;
    while ((rc = r->tier.impl->wait(&r->tier, point, 1000000000u)) == -ETIME) {
    }
    return rc;
}

static int submit_some(struct replay *r, struct replay_plan *p, const struct step *step, uint32_t n_cmds,
                       uint64_t *point)
{
    bool whole = n_cmds == p->base.s->h.n_cmds; /* a part: by the first pass, where each command has its own launches */
    uint32_t pass = whole ? replay_pass_for(p, step) : 0, slot = r->issued % KL_RING, n = 0;
    const struct dispatch_plan *d = p->pass[pass].d;
    int rc = r->issued >= KL_RING ? wait_for(r, r->slot_point[slot]) : 0; /* its previous step must have been read */
    if (rc)
        return rc;
    uint32_t words = stream_patch(p->ring + (uint64_t)slot * p->stride, p->base.s, step);
    r->tier.stats.words += words;
    r->tier.stats.host_bytes += 4ull * words;
    r->last = p;
    if (whole)
        n = d->n;
    while (n < d->n && d->d[n].cmd < n_cmds)
        n++;
    rc = r->ops->run(r, p, pass, n, point);
    if (rc)
        return rc;
    r->slot_point[slot] = *point;
    r->issued++;
    return 0;
}

int replay_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    return submit_some(replay_of(t), (struct replay_plan *)p, step, p->s->h.n_cmds, point);
}

int replay_next(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next)
{
    const struct replay *r = replay_of(t);
    const struct replay_plan *x = (const struct replay_plan *)p;
    for (uint32_t i = 0; i < KL_RING; i++)
        if (r->slot_point[i] == point && r->issued) {
            memcpy(next, x->ring + (uint64_t)i * x->stride + p->s->h.next_off, n * sizeof *next);
            return 0;
        }
    return -ESTALE;
}

int replay_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds)
{
    uint64_t point;
    int rc = submit_some(replay_of(t), (struct replay_plan *)p, step, n_cmds, &point);
    return rc ? rc : wait_for(replay_of(t), point);
}

int replay_finish(struct replay *r, uint64_t point, struct err *e)
{
    int rc = wait_for(r, point);
    return rc ? err_set(e, rc, "%s", r->fault.msg) : 0;
}

/* ---- looking inside ---- */

const void *replay_map(struct tier *t, enum arena a, uint64_t off)
{
    const struct replay *r = replay_of(t);
    return a == ARENA_IO && r->mirrored ? r->mirror + off : NULL;
}

int replay_fault(struct tier *t, struct err *out)
{
    const struct replay *r = replay_of(t);
    if (!r->fault.msg[0])
        return -ENOENT;
    if (out)
        *out = r->fault;
    return 0;
}

uint32_t replay_trace(struct tier *t, const struct tier_trace **out)
{
    *out = replay_of(t)->trace;
    return replay_of(t)->n_trace;
}

uint64_t replay_resident(const struct tier *t)
{
    const struct replay *r = replay_of(t);
    uint64_t sum = r->weight_bytes + r->work_bytes;
    for (int a = 0; a < ARENA_COUNT; a++)
        sum += t->arena_bytes[a];
    return sum;
}

/* ---- measuring ---- */

int replay_self_check(struct replay *r, const char *device, const char *remedy, struct err *e)
{
    float a[REPLAY_CHECK_N], y[REPLAY_CHECK_N] = { 0 };
    for (int i = 0; i < REPLAY_CHECK_N; i++)
        a[i] = (float)i;
    int rc = r->ops->add(r, a, y, e);
    for (int i = 0; i < REPLAY_CHECK_N && !rc; i++)
        if (y[i] != 2.0f * a[i])
            rc = err_set(e, -EIO, "%s: self-check: %g + %g gave %g on %s%s", name_of(r), (double)a[i], (double)a[i],
                         (double)y[i], device, remedy);
    return rc;
}

int replay_roof(struct replay *r, uint64_t bytes, uint32_t reads,
                int (*once)(struct replay *r, void *user, uint64_t *ns, struct err *e), void *user, double *gbs,
                struct err *e)
{
    const uint64_t long_ns = 1000000000; /* a device in software: one reading is enough */
    uint64_t best = UINT64_MAX, ns = 0;
    for (uint32_t i = 0; i < reads && ns < long_ns; i++) {
        int rc = once(r, user, &ns, e);
        if (rc)
            return rc;
        best = MIN(best, ns);
    }
    if (!best)
        return err_set(e, -ENOTSUP, "%s: no time stamps on this queue, so no roof", name_of(r));
    *gbs = (double)bytes / (double)best;
    return 0;
}
