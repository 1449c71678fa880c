/* rt/dispatch_waits.c: where a launch has to wait for the ones before it. */
#include <string.h>

#include "rt/dispatch_impl.h"

static bool uses_work(const struct dispatch_plan *p, const struct dispatch *d)
{
    for (const uint16_t *off = p->kernels[d->kernel].addresses(); *off != UINT16_MAX; off++) {
        gpu_va va;
        memcpy(&va, p->args + d->args_off + *off, sizeof va);
        if (va && SADDR_ARENA(va) == ARENA_WORK)
            return true;
    }
    return false;
}

/* The command whose launches do what command c does: itself, or the next one where that makes its input. `before`:
 * the launch that asks. */
static uint32_t done_by(const struct dispatch_plan *p, uint32_t before, uint32_t c)
{
    uint32_t by = c;
    for (uint32_t i = before; i-- > 0 && p->d[i].cmd >= c;)
        by = p->d[i].cmd;
    return by;
}

/* Does launch i, the first of its command, wait for commands from `complete` on? For all that it does: those before its command
 * that have no launch are its own. */
static bool waits_for(const struct dispatch_plan *p, const struct stream *s, uint32_t i, uint32_t complete)
{
    uint32_t last = p->d[i].cmd;
    for (uint32_t c = i ? p->d[i - 1].cmd + 1 : last; c <= last; c++)
        if (s->cmds[c].wait != CMD_NO_WAIT && done_by(p, i, s->cmds[c].wait) >= complete)
            return true;
    return false;
}

void dispatch_find_waits(struct dispatch_plan *p, const struct stream *s)
{
    uint32_t complete = 0, work = UINT32_MAX; /* commands below are; who used ARENA_WORK since the last barrier */
    for (uint32_t i = 0; i < p->n; i++) {
        struct dispatch *d = &p->d[i];
        bool first = i == 0 || d[-1].cmd != d->cmd, mine = uses_work(p, d);
        d->wait = first ? waits_for(p, s, i, complete) : !d->concurrent;
        d->wait |= mine && work != UINT32_MAX && work != d->cmd;
        if (d->wait) {
            complete = d->cmd;
            work = UINT32_MAX;
        }
        if (mine)
            work = d->cmd;
    }
}

/* A launch starts when the one before lets it: after its own wait, so that everything before that one is complete. What does not
 * wait itself has its inputs from there, and waits at its end, so that whoever waits for it waits for all. Others read what is
 * complete by then before they wait for the rest. */
void dispatch_find_late(struct dispatch_plan *p)
{
    bool eager = true;   /* the newest launch that waits at its start, or there is none yet */
    int64_t waited = -1; /* the newest one that lets the next start after its own wait: those before it are complete */
    for (uint32_t i = 0; i < p->n; i++) {
        struct dispatch *d = &p->d[i];
        bool late = d->beside && !d->wait && !eager;
        if (late)
            ((kl_matvec *)(void *)(p->args + d->args_off))->ask |= KL_ASK_LATE;
        else
            eager = d->eager;
        if (d->early && d->early_from <= waited)
            *(uint32_t *)(void *)(p->args + d->args_off + d->early) = 1;
        if (!late && !d->eager)
            waited = i;
    }
}
