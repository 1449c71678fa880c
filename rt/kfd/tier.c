/* rt/kfd/tier.c: the kfd tier's driver: which GPU, and opening it. What runs on it is rt/amd's. */
#include <stdlib.h>
#include <string.h>

#include "rt/amd/tier.h"
#include "rt/kfd/kfd.h"
#include "rt/ladder.h"

enum { RING_BYTES = 64 << 10 };

static int pick_gpu(struct kfd_sys *s, const struct tier_opts *o, struct kfd_gpu *out, struct err *e)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    struct amd_choice c[KFD_MAX_GPUS];
    int n = kfd_topology(s, gpu, KFD_MAX_GPUS, e);
    for (int i = 0; i < n; i++)
        c[i] = (struct amd_choice){ gpu[i].name, gpu[i].chip, gpu[i].n_cu };
    int at = n < 0 ? n : amd_pick("kfd", c, n, o, e);
    if (at < 0)
        return at;
    *out = gpu[at];
    return 0;
}

static int probe(const struct tier_opts *o, struct tier_info *info, struct kfd_gpu *g, struct err *e)
{
    struct kfd_sys *s = kfd_sys_current();
    int rc = pick_gpu(s, o, g, e);
    if (rc)
        return rc;
    snprintf(info->device, sizeof info->device, "%s", g->name);
    if ((rc = amd_kernels_for(g->chip, g->name, "kfd", e)) || (rc = kfd_access(s, g, e)))
        return rc;
    amd_tier_info(info, g->name, g->vram_bytes, g->mec_firmware);
    snprintf(info->note, sizeof info->note, "amdgpu driver, PM4 queue, kernels for %s", g->chip->name);
    return 0;
}

static int kfd_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct kfd_gpu g;
    struct err e = { 0 };
    int rc = probe(o, info, &g, &e);
    if (rc)
        snprintf(info->note, sizeof info->note, "%.*s", (int)sizeof info->note - 1, amd_without_prefix(&e, "kfd"));
    return rc;
}

static int kfd_open_tier(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct tier_info info = { 0 };
    struct kfd_winsys *w;
    struct kfd_gpu g;
    int rc = probe(o, &info, &g, e);
    if (rc || (rc = kfd_winsys_open(&g, &w, e)))
        return rc;
    if ((rc = kfd_winsys_queue(w, RING_BYTES, e))) {
        w->base.ops->destroy(&w->base);
        return rc;
    }
    return amd_tier_open(&w->base, &info, o, out, e);
}

const struct tier_driver tier_driver_kfd = { "kfd", kfd_probe, kfd_open_tier, &ladder_kfd };
