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

void dispatch_find_waits(struct dispatch_plan *p, const struct stream *s)
{
    uint32_t complete = 0, work = UINT32_MAX; /* commands below are; who used ARENA_WORK since the last barrier */
    for (uint32_t i = 0; i < p->n; i++) {
        struct dispatch *d = &p->d[i];
        uint32_t needs = s->cmds[d->cmd].wait;
        bool first = i == 0 || d[-1].cmd != d->cmd, mine = uses_work(p, d);
        d->wait = first ? needs != CMD_NO_WAIT && needs >= complete : !d->concurrent;
        d->wait |= mine && work != UINT32_MAX && work != d->cmd;
        if (d->wait) {
            complete = d->cmd;
            work = UINT32_MAX;
        }
        if (mine)
            work = d->cmd;
    }
}
