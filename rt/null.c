/* rt/null.c: the tier that runs nothing. It accepts every stream, keeps the IO arena in memory, and makes logits up:
 * small fixed noise with one clear winner, (31 token + pos) mod n_vocab of the row. It measures what the host costs
 * and lets programs be tested anywhere. Variables make it more like a device:
 *
 *     ZINC_NULL_GBS, ZINC_NULL_TFLOPS   a step takes the time that its bytes and its flops take one after the other
 *     ZINC_NULL_HISTORY=1               a step leaves marks in the KV cache and in the recurrent state, and the winner
 *                                       follows from all marks of its sequence: a cache that lost, mixed or moved
 *                                       something gives other tokens
 *     ZINC_NULL_SCRIPT=FILE             the winners are the file's answers, by far (null_script.h) */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/env.h"
#include "rt/null_script.h"
#include "rt/tier.h"

enum { WINNER = 8 }; /* the winner's logit; the noise stays in (-1, 0] */
enum { BY_HEART = 1000 }; /* that of a script's token: no temperature chooses another one */
enum { IN_FLIGHT = 16 }; /* submissions whose ends are known; of older ones the newest of these is waited for */
enum { SPIN_NS = 50000 }; /* what a sleep may take longer than it was told */

struct null_won {
    float *at;
    uint32_t id;
};

struct null_tier {
    struct tier base;
    uint8_t *io;
    /* [cap_out, n_vocab]. Apart from the IO arena, which each stream lays out in its own way: a step writes only what
     * changes in them, and another stream's step block must not lie there. */
    float *logits;
    const struct stream *last; /* of the newest step: where its logits seem to be */
    struct null_won *won; /* [n_won] logits that hold WINNER since the last step */
    uint32_t n_won, cap_out;
    uint64_t points;
    double ns_per_byte, ns_per_flop;
    uint64_t due_ns[IN_FLIGHT]; /* by point: when it is complete */
    bool history;
    struct null_script *script; /* NULL: none */
    uint8_t *kv, *state; /* with history: the arenas, mapped and touched where marks are */
};

/* Where a stream keeps marks: in the values of its first layer with a cache, in the state of its first recurrent one. */
struct null_plan {
    struct tier_plan base;
    bool has_kv, has_state;
    uint64_t kv_off, kv_slot, kv_row;
    uint64_t state_off, state_slot;
    uint32_t cost_rows; /* the cost below is of so many rows, without attention; 0: not known yet */
    double cost_ns;
    int32_t *kept; /* [IN_FLIGHT, out_cap] by point: the tokens that it chose */
};

static struct null_tier *null_of(struct tier *t)
{
    return (struct null_tier *)t;
}

static struct null_plan *plan_of(struct tier_plan *p)
{
    return (struct null_plan *)p;
}

static float noise(uint32_t id)
{
    return -(float)(id * 2654435761u >> 8) * 0x1p-24f;
}

static void null_destroy(struct tier *t)
{
    struct null_tier *n = null_of(t);
    if (n->kv)
        munmap(n->kv, t->arena_bytes[ARENA_KV]);
    if (n->state)
        munmap(n->state, t->arena_bytes[ARENA_STATE]);
    null_script_close(n->script);
    free(n->io);
    free(n->logits);
    free(n->won);
    free(n);
}

static int null_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    return progress_report(p, "weights", 1, 1) ? 0 : err_set(e, -ECANCELED, "null: load was cancelled");
}

/* Address space alone: memory comes with the first mark on a page. */
static int map_arena(uint64_t bytes, uint8_t **out, struct err *e)
{
    if (!bytes)
        return 0;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return err_set(e, -errno, "null: address space of %llu bytes for the cache: %s", (unsigned long long)bytes,
                       strerror(errno));
    *out = p;
    return 0;
}

static int null_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    struct null_tier *n = null_of(t);
    n->io = calloc(1, bytes[ARENA_IO] ? bytes[ARENA_IO] : 1);
    if (!n->io)
        return err_set(e, -ENOMEM, "null: io arena of %llu bytes", (unsigned long long)bytes[ARENA_IO]);
    if (!n->history)
        return 0;
    int rc = map_arena(bytes[ARENA_KV], &n->kv, e);
    return rc ? rc : map_arena(bytes[ARENA_STATE], &n->state, e);
}

static void find_marks(struct null_plan *p, const struct stream *s)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        if (s->cmds[i].op == CMD_ROPE_KV && !p->has_kv) {
            const ka_rope_kv *a = stream_args(s, i);
            p->has_kv = a->vc != 0; /* 0: this layer reads another one's cache */
            p->kv_off = SADDR_OFF(a->vc);
            p->kv_slot = a->slot_bytes;
            p->kv_row = KA_KV_BYTES(a->kv_type, (uint64_t)a->head_dim);
        } else if (s->cmds[i].op == CMD_GDN && !p->has_state) {
            const ka_gdn *a = stream_args(s, i);
            p->has_state = true;
            p->state_off = SADDR_OFF(a->state);
            p->state_slot = a->state_slot_bytes;
        }
    }
}

static int grow_outputs(struct null_tier *n, const struct stream_head *h)
{
    uint64_t n_logits = (uint64_t)h->out_cap * h->n_vocab;
    struct null_won *won = realloc(n->won, h->out_cap * sizeof *won);
    n->won = won ? won : n->won;
    float *logits = won ? realloc(n->logits, n_logits * sizeof *logits) : NULL;
    if (!logits)
        return -ENOMEM;
    for (uint64_t i = 0; i < n_logits; i++)
        logits[i] = noise((uint32_t)(i % h->n_vocab));
    n->logits = logits;
    n->cap_out = h->out_cap;
    n->n_won = 0;
    return 0;
}

static int null_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out,
                        struct err *e)
{
    struct null_tier *n = null_of(t);
    if (n->script && null_script_max_id(n->script) >= s->h.n_vocab)
        return err_set(e, -EINVAL, "null: the script has token %u, the model's vocabulary %u tokens: zinc tokenize makes ids of it",
                       null_script_max_id(n->script), s->h.n_vocab);
    struct null_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "null: plan object");
    p->kept = calloc((size_t)IN_FLIGHT * s->h.out_cap + 1, sizeof *p->kept);
    if (!p->kept || (s->h.out_cap > n->cap_out && grow_outputs(n, &s->h))) {
        free(p->kept);
        free(p);
        return err_set(e, -ENOMEM, "null: %u outputs", s->h.out_cap);
    }
    p->base = (struct tier_plan){ .tier = t, .s = s, .kind = k == PLAN_AUTO ? PLAN_REPLAY : k };
    if (n->history)
        find_marks(p, s);
    *out = &p->base;
    return 0;
}

static void null_plan_destroy(struct tier_plan *p)
{
    struct null_tier *n = null_of(p->tier);
    if (n->last == p->s)
        n->last = NULL;
    free(plan_of(p)->kept);
    free(p);
}

/* ---- history ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

static uint8_t *kv_mark(const struct null_tier *n, const struct null_plan *p, uint32_t slot, uint32_t pos)
{
    return n->kv + p->kv_off + slot * p->kv_slot + pos * p->kv_row;
}

static void leave_mark(struct null_tier *n, const struct null_plan *p, const ka_row *r, uint32_t token)
{
    uint64_t mark = mix((uint64_t)token << 32 | r->pos), state = 0;
    if (p->has_kv)
        memcpy(kv_mark(n, p, r->slot, r->pos), &mark, sizeof mark);
    if (p->has_state) {
        uint8_t *at = n->state + p->state_off + r->slot * p->state_slot;
        if (r->pos) /* a sequence begins with an empty state */
            memcpy(&state, at, sizeof state);
        state = mix(state + mark);
        memcpy(at, &state, sizeof state);
    }
}

/* As attention does: every position is looked at, in any order. */
static uint64_t read_marks(const struct null_tier *n, const struct null_plan *p, const ka_row *r)
{
    uint64_t sum = 0, mark;
    for (uint32_t pos = 0; p->has_kv && pos <= r->pos; pos++) {
        memcpy(&mark, kv_mark(n, p, r->slot, pos), sizeof mark);
        sum += mark;
    }
    if (p->has_state) {
        memcpy(&mark, n->state + p->state_off + r->slot * p->state_slot, sizeof mark);
        sum += mark;
    }
    return mix(sum);
}

/* ---- pace ---- */

static double cost_ns(const struct null_tier *n, const struct stream *s, const struct step *st, bool attention)
{
    uint64_t bytes, flops;
    double ns = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        if ((s->cmds[i].op == CMD_ATTN) != attention)
            continue;
        stream_cmd_cost(s, i, st->n_rows, st->kv_len, &bytes, &flops);
        ns += (double)bytes * n->ns_per_byte + (double)flops * n->ns_per_flop;
    }
    return ns;
}

/* Submissions run one after the other. */
static void pace(struct null_tier *n, struct null_plan *p, const struct step *st, uint64_t point)
{
    if (n->ns_per_byte + n->ns_per_flop == 0)
        return;
    if (p->cost_rows != st->n_rows) {
        p->cost_rows = st->n_rows;
        p->cost_ns = cost_ns(n, p->base.s, st, false);
    }
    uint64_t start = clock_ns(), before = n->due_ns[(point - 1) % IN_FLIGHT];
    double ns = p->cost_ns + cost_ns(n, p->base.s, st, true);
    n->due_ns[point % IN_FLIGHT] = (before > start ? before : start) + (uint64_t)ns;
}

static uint32_t token_of(const ka_row *r, const int32_t *next)
{
    return (uint32_t)(r->token >= 0 ? r->token : next[-1 - r->token]);
}

static int32_t *kept_by(struct tier_plan *p, uint64_t point)
{
    return plan_of(p)->kept + (size_t)(point % IN_FLIGHT) * p->s->h.out_cap;
}

static int null_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    struct null_tier *n = null_of(t);
    const struct stream_head *h = &p->s->h;
    int32_t *next = (int32_t *)(n->io + h->next_off);
    t->stats.words += stream_patch(n->io, p->s, step);
    n->last = p->s;
    for (uint32_t i = 0; i < n->n_won; i++)
        *n->won[i].at = noise(n->won[i].id);
    /* a row may name a token of the step before: read all of them first */
    uint32_t out = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const ka_row *r = &step->rows[i];
        uint64_t token = token_of(r, next), sum = token * 31 + r->pos;
        if (n->history)
            leave_mark(n, plan_of(p), r, (uint32_t)token);
        if (n->script && null_script_see(n->script, r->slot, r->pos, (uint32_t)token))
            return -ENOMEM;
        if (out == step->n_out || step->out_row[out] != i)
            continue;
        if (n->script)
            sum = null_script_next(n->script, r->slot, r->pos);
        else if (n->history)
            sum = read_marks(n, plan_of(p), r);
        n->won[out].id = (uint32_t)(sum % h->n_vocab);
        n->won[out].at = n->logits + (uint64_t)out * h->n_vocab + n->won[out].id;
        out++;
    }
    for (uint32_t i = 0; i < step->n_out; i++) {
        *n->won[i].at = n->script ? BY_HEART : WINNER;
        next[i] = (int32_t)n->won[i].id;
    }
    n->n_won = step->n_out;
    *point = ++n->points;
    memcpy(kept_by(p, *point), next, step->n_out * sizeof *next);
    pace(n, plan_of(p), step, *point);
    return 0;
}

static int null_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    struct null_tier *n = null_of(t);
    if (n->ns_per_byte + n->ns_per_flop == 0)
        return 0;
    uint64_t due = n->due_ns[point % IN_FLIGHT], now = clock_ns();
    uint64_t until = due > now && due - now > timeout_ns ? now + timeout_ns : due;
    if (until > now + SPIN_NS) {
        uint64_t wake = until - SPIN_NS;
        struct timespec at = { .tv_sec = (time_t)(wake / 1000000000), .tv_nsec = (long)(wake % 1000000000) };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
            ;
    }
    while (clock_ns() < until)
        ;
    return until < due ? -ETIME : 0;
}

static int null_next(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next)
{
    uint64_t newest = null_of(t)->points;
    if (point > newest || newest - point >= IN_FLIGHT)
        return -ESTALE;
    memcpy(next, kept_by(p, point), n * sizeof *next);
    return 0;
}

/* NULL: nothing is kept there. */
static uint8_t *bytes_at(const struct null_tier *n, enum arena a, uint64_t off)
{
    const struct stream_head *h = n->last ? &n->last->h : NULL;
    if (a == ARENA_IO && h && h->logits_off && off >= h->logits_off && off - h->logits_off < 4ull * h->out_cap * h->n_vocab)
        return (uint8_t *)n->logits + (off - h->logits_off);
    uint8_t *arena = a == ARENA_IO ? n->io : a == ARENA_KV ? n->kv : a == ARENA_STATE ? n->state : NULL;
    return arena ? arena + off : NULL;
}

static int null_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    const uint8_t *p = bytes_at(null_of(t), a, off);
    if (p)
        memcpy(dst, p, n);
    else
        memset(dst, 0, n);
    return 0;
}

static int null_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    uint8_t *p = bytes_at(null_of(t), a, off);
    if (p)
        memcpy(p, src, n);
    return 0;
}

static const void *null_map(struct tier *t, enum arena a, uint64_t off)
{
    return bytes_at(null_of(t), a, off);
}

static int null_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds)
{
    uint64_t point;
    return n_cmds == p->s->h.n_cmds ? null_submit(t, p, step, &point) : 0;
}

static uint64_t null_resident(const struct tier *t)
{
    return t->arena_bytes[ARENA_IO];
}

static const struct tier_impl null_impl = {
    .name = "null",
    .destroy = null_destroy,
    .load = null_load,
    .alloc = null_alloc,
    .prepare = null_prepare,
    .plan_destroy = null_plan_destroy,
    .submit = null_submit,
    .wait = null_wait,
    .next = null_next,
    .read = null_read,
    .write = null_write,
    .map = null_map,
    .submit_prefix = null_submit_prefix,
    .resident = null_resident,
};

static int null_probe(const struct tier_opts *o, struct tier_info *info)
{
    snprintf(info->device, sizeof info->device, "nothing");
    snprintf(info->note, sizeof info->note, "runs no command; its logits are made up");
    info->dry_run = true;
    info->persistent = true;
    return 0;
}

static int null_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct null_tier *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(e, -ENOMEM, "null: tier object");
    const struct env *env = env_get();
    n->base.impl = &null_impl;
    n->ns_per_byte = env->null_gbs ? 1.0 / env->null_gbs : 0;
    n->ns_per_flop = env->null_tflops ? 1e-3 / env->null_tflops : 0;
    n->history = env->null_history != 0;
    int rc = env->null_script ? null_script_open(env->null_script, &n->script, e) : 0;
    if (rc) {
        free(n);
        return rc;
    }
    null_probe(o, &n->base.info);
    *out = &n->base;
    return 0;
}

const struct tier_driver tier_driver_null = { "null", null_probe, null_open, NULL };
