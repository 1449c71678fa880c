/* tests/stream/waits.h: are the barriers of a plan of launches enough, and needed? By the bytes that commands touch, pair
 * by pair, apart from rt/dispatch_waits.c. To be used before dispatch_relocate. */
#ifndef ZINC_TESTS_WAITS_H
#define ZINC_TESTS_WAITS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "graph/verify.h"
#include "rt/dispatch.h"

static bool in_work(const struct dispatch_plan *p, uint32_t i)
{
    bool found = false;
    for (const uint16_t *off = p->kernels[p->d[i].kernel].addresses(); *off != UINT16_MAX; off++) {
        gpu_va va;
        memcpy(&va, p->args + p->d[i].args_off + *off, sizeof va);
        found |= va && SADDR_ARENA(va) == ARENA_WORK;
    }
    return found;
}

/* The first command that launch i does: those before its own that have no launch are made by it (rt/dispatch.c). */
static uint32_t first_cmd(const struct dispatch_plan *p, uint32_t i)
{
    if (i == 0)
        return 0;
    return p->d[i - 1].cmd < p->d[i].cmd ? p->d[i - 1].cmd + 1 : p->d[i].cmd;
}

/* Must launch b see what launch a does, or leave alone what it reads? */
static bool conflict(const struct stream *s, const struct dispatch_plan *p, const struct extent *ext, uint32_t a, uint32_t b)
{
    if (p->d[a].cmd == p->d[b].cmd) { /* side by side with all from a on */
        for (uint32_t i = a + 1; i <= b; i++)
            if (!p->d[i].concurrent)
                return true;
        return false;
    }
    const struct cmd *x0 = &s->cmds[first_cmd(p, a)], *x = &s->cmds[p->d[a].cmd];
    const struct cmd *y0 = &s->cmds[first_cmd(p, b)], *y = &s->cmds[p->d[b].cmd];
    for (uint32_t u = x0->first_use; u < x->first_use + x->n_uses; u++)
        for (uint32_t w = y0->first_use; w < y->first_use + y->n_uses; w++)
            if (((ext[u].dir | ext[w].dir) & USE_WRITE) && ext[u].at < ext[w].end && ext[w].at < ext[u].end)
                return true;
    return in_work(p, a) && in_work(p, b);
}

/* Pairs of launches with a hazard and no barrier between them; `without`: as if that launch had none. */
static uint32_t hazards(const struct stream *s, const struct dispatch_plan *p, const struct extent *ext, uint32_t without)
{
    uint32_t n = 0;
    for (uint32_t b = 1; b < p->n; b++)
        for (uint32_t a = b; a-- > 0 && (!p->d[a + 1].wait || a + 1 == without);)
            n += conflict(s, p, ext, a, b);
    return n;
}

/* Every launch waits where it must, and only there. `what` names the plan in messages. */
static void check_waits(const char *what, const struct stream *s, const struct dispatch_plan *p)
{
    struct extent *ext = calloc(s->h.n_uses + 1, sizeof *ext);
    struct err e = { 0 };
    ck_assert_msg(verify_commands(s, ext, &e) == 0, "%s", e.msg);
    ck_assert_msg(hazards(s, p, ext, UINT32_MAX) == 0, "%s: a barrier is missing", what);
    for (uint32_t i = 1; i < p->n; i++)
        ck_assert_msg(!p->d[i].wait || hazards(s, p, ext, i),
                      "%s: nothing needs the barrier before launch %u, of command %u (%s)", what, i, p->d[i].cmd,
                      cmd_name(s->cmds[p->d[i].cmd].op));
    free(ext);
}

static bool is_late(const struct dispatch_plan *p, uint32_t i)
{
    const kl_matvec *k = (const void *)(p->args + p->d[i].args_off);
    return p->d[i].beside && k->ask & KL_ASK_LATE;
}

/* What is late runs beside all launches from the newest one that waits at its start on, and that one has waited before it let
 * others start. Returns how many are. */
__attribute__((unused)) static uint32_t check_late(const char *what, const struct stream *s, const struct dispatch_plan *p)
{
    struct extent *ext = calloc(s->h.n_uses + 1, sizeof *ext);
    struct err e = { 0 };
    uint32_t n = 0;
    ck_assert_msg(verify_commands(s, ext, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < p->n; i++) {
        if (!is_late(p, i))
            continue;
        uint32_t from = i;
        do {
            ck_assert_msg(from > 0, "%s: launch %u is late and nobody waits before it", what, i);
            from--;
            ck_assert_msg(!conflict(s, p, ext, from, i), "%s: launch %u is late, but not independent of %u", what, i, from);
        } while (is_late(p, from));
        const char *name = p->kernels[p->d[from].kernel].name;
        ck_assert_msg(!p->d[from].eager && !strstr(name, "_ring"), "%s: %s lets launch %u start too early", what, name, i);
        n++;
    }
    free(ext);
    return n;
}

/* What reads some of its inputs before it waits: launches that write them are before the newest one that lets others start after
 * its own wait. Returns how many do. */
__attribute__((unused)) static uint32_t check_early(const char *what, const struct stream *s, const struct dispatch_plan *p)
{
    uint32_t n = 0;
    int64_t waited = -1;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct dispatch *d = &p->d[i];
        uint32_t flag = 0;
        if (d->early)
            memcpy(&flag, p->args + d->args_off + d->early, sizeof flag);
        if (flag) {
            const void *a = stream_args(s, d->cmd);
            enum cmd_op own = s->cmds[d->cmd].op;
            ck_assert_msg(own == CMD_MOE_DOWN || own == CMD_ATTN || own == CMD_GDN, "%s: launch %u: what is it early for?", what, i);
            ck_assert_msg(waited >= 0, "%s: launch %u is early and nobody waits before it", what, i);
            for (uint32_t c = first_cmd(p, (uint32_t)waited); c < first_cmd(p, i); c++) {
                const void *b = stream_args(s, c);
                enum cmd_op op = s->cmds[c].op;
                bool writes = own == CMD_MOE_DOWN ? op == CMD_ROUTER && ((const ka_router *)b)->ids == ((const ka_moe_down *)a)->ids
                              : own == CMD_ATTN   ? op == CMD_ROPE_KV && ((const ka_rope_kv *)b)->kc == ((const ka_attn *)a)->kc
                                                  : op == CMD_GDN && ((const ka_gdn *)b)->state == ((const ka_gdn *)a)->state;
                const ka_matmul *shared = own == CMD_MOE_DOWN && first_cmd(p, i) < d->cmd ? stream_args(s, d->cmd - 1) : NULL;
                writes |= shared && ((op == CMD_GATE_UP && ((const ka_matmul *)b)->y[0] == shared->x) ||
                                     (op == CMD_ROUTER && ((const ka_router *)b)->share == shared->scale));
                ck_assert_msg(!writes, "%s: launch %u is early, and command %u may still write", what, i, c);
            }
            n++;
        }
        if (!d->eager && !is_late(p, i))
            waited = i;
    }
    return n;
}

#endif
