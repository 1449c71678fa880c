/* rt/null.c: the tier that runs nothing. It accepts every stream, keeps the IO arena in memory, and makes logits up:
 * small fixed noise with one clear winner, (31 token + pos) mod n_vocab of the row. It measures what the host costs
 * and lets programs be tested anywhere. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rt/tier.h"

enum { WINNER = 8 }; /* the winner's logit; the noise stays in (-1, 0] */

struct null_won {
    float *at;
    uint32_t id;
};

struct null_tier {
    struct tier base;
    uint8_t *io;
    struct null_won *won; /* [n_won] logits that hold WINNER since the last step */
    uint32_t n_won, cap_won;
    uint64_t points;
};

static struct null_tier *null_of(struct tier *t)
{
    return (struct null_tier *)t;
}

static float noise(uint32_t id)
{
    return -(float)(id * 2654435761u >> 8) * 0x1p-24f;
}

static void null_destroy(struct tier *t)
{
    struct null_tier *n = null_of(t);
    free(n->io);
    free(n->won);
    free(n);
}

static int null_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    return progress_report(p, "weights", 1, 1) ? 0 : err_set(e, -ECANCELED, "null: load was cancelled");
}

static int null_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    struct null_tier *n = null_of(t);
    n->io = calloc(1, bytes[ARENA_IO] ? bytes[ARENA_IO] : 1);
    if (!n->io)
        return err_set(e, -ENOMEM, "null: io arena of %llu bytes", (unsigned long long)bytes[ARENA_IO]);
    return 0;
}

static int null_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out,
                        struct err *e)
{
    struct null_tier *n = null_of(t);
    struct tier_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "null: plan object");
    if (s->h.out_cap > n->cap_won) {
        struct null_won *won = realloc(n->won, s->h.out_cap * sizeof *won);
        if (!won) {
            free(p);
            return err_set(e, -ENOMEM, "null: %u outputs", s->h.out_cap);
        }
        n->won = won;
        n->cap_won = s->h.out_cap;
    }
    *p = (struct tier_plan){ .tier = t, .s = s, .kind = k == PLAN_AUTO ? PLAN_REPLAY : k };
    float *logits = (float *)(n->io + s->h.logits_off);
    for (uint64_t r = 0; r < s->h.out_cap; r++)
        for (uint32_t i = 0; i < s->h.n_vocab; i++)
            logits[r * s->h.n_vocab + i] = noise(i);
    n->n_won = 0;
    *out = p;
    return 0;
}

static void null_plan_destroy(struct tier_plan *p)
{
    free(p);
}

static int null_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    struct null_tier *n = null_of(t);
    const struct stream_head *h = &p->s->h;
    int32_t *next = (int32_t *)(n->io + h->next_off);
    t->stats.words += stream_patch(n->io, p->s, step);
    float *logits = (float *)(n->io + h->logits_off);
    for (uint32_t i = 0; i < n->n_won; i++)
        *n->won[i].at = noise(n->won[i].id);
    /* a row may name a token of the step before: read all of them first */
    for (uint32_t i = 0; i < step->n_out; i++) {
        const ka_row *r = &step->rows[step->out_row[i]];
        uint64_t token = (uint32_t)(r->token >= 0 ? r->token : next[-1 - r->token]);
        n->won[i].id = (uint32_t)((token * 31 + r->pos) % h->n_vocab);
        n->won[i].at = logits + (uint64_t)i * h->n_vocab + n->won[i].id;
    }
    for (uint32_t i = 0; i < step->n_out; i++) {
        *n->won[i].at = WINNER;
        next[i] = (int32_t)n->won[i].id;
    }
    n->n_won = step->n_out;
    *point = ++n->points;
    return 0;
}

static int null_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    return 0;
}

static int null_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    if (a == ARENA_IO)
        memcpy(dst, null_of(t)->io + off, n);
    else
        memset(dst, 0, n);
    return 0;
}

static int null_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    if (a == ARENA_IO)
        memcpy(null_of(t)->io + off, src, n);
    return 0;
}

static const void *null_map(struct tier *t, enum arena a, uint64_t off)
{
    return a == ARENA_IO ? null_of(t)->io + off : NULL;
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
    return 0;
}

static int null_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct null_tier *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(e, -ENOMEM, "null: tier object");
    n->base.impl = &null_impl;
    null_probe(o, &n->base.info);
    *out = &n->base;
    return 0;
}

const struct tier_driver tier_driver_null = { "null", null_probe, null_open };
