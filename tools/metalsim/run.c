/* tools/metalsim/run.c: a dispatch of a kernel that was built from its Metal text, on the fibres of rt/lockstep. */
#include <stdio.h>
#include <string.h>

#include "kernels/kdev.h"
#include "rt/lockstep/run.h"
#include "tools/metalsim/kernels.h"

void msim_enter(const void *entry, const void *args, uint8_t *shared, uint32_t tid, uint32_t size, const uint32_t *group,
                const uint32_t *groups);
uint32_t metalsim_lane(void);

static const void *entry_now; /* one dispatch at a time: lockstep_launch has a lock */

uint32_t metalsim_lane(void)
{
    return kd_item.tid % KD_WARP;
}

static void enter(const void *args)
{
    msim_enter(entry_now, args, kd_item.shared, kd_item.tid, kd_item.size, kd_item.group, kd_item.groups);
}

int msim_run(const struct msim_kernel *k, const void *args, const uint32_t groups[3], uint32_t threads, uint32_t shared_bytes,
             char *why, size_t n_why)
{
    struct err e = { 0 };
    entry_now = k->entry;
    int rc = lockstep_launch(enter, args, groups, threads, shared_bytes, &e);
    if (rc)
        snprintf(why, n_why, "%s: %s", k->name, e.msg);
    return rc;
}

void msim_kernels_reset(void)
{
    lockstep_abandon();
}
