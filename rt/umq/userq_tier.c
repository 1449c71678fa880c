/* rt/umq/userq_tier.c: the umq tier's driver: which card, whether it has user-mode queues, and opening it. */
#include <stdlib.h>
#include <string.h>

#include "rt/amd/tier.h"
#include "rt/ladder.h"
#include "rt/umq/userq.h"

enum { RING_BYTES = 64 << 10 };

static int probe(const struct tier_opts *o, struct tier_info *info, struct userq_winsys **w, struct err *e)
{
    struct drm_gpu g;
    int rc = drm_pick("umq", o, &g, e);
    if (rc)
        return rc;
    snprintf(info->device, sizeof info->device, "%s", g.name);
    if ((rc = amd_kernels_for(g.chip, g.name, "umq", e)) || (rc = userq_winsys_open(&g, w, e)))
        return rc;
    amd_tier_info(info, g.name, g.vram_bytes, g.mec_firmware);
    info->reopens = true;
    snprintf(info->note, sizeof info->note, "amdgpu driver 3.%u, user-mode queue, kernels for %s", g.driver_minor,
             g.chip->name);
    return 0;
}

static int umq_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct userq_winsys *w;
    struct err e = { 0 };
    int rc = probe(o, info, &w, &e);
    if (rc)
        snprintf(info->note, sizeof info->note, "%.*s", (int)sizeof info->note - 1,
                 amd_without_prefix(&e, "umq"));
    else
        w->base.ops->destroy(&w->base);
    return rc;
}

static int umq_open_tier(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct tier_info info = { 0 };
    struct userq_winsys *w;
    int rc = probe(o, &info, &w, e);
    if (rc)
        return rc;
    if ((rc = userq_winsys_queue(w, RING_BYTES, e))) {
        w->base.ops->destroy(&w->base);
        return rc;
    }
    return amd_tier_open(&w->base, &info, o, out, e);
}

const struct tier_driver tier_driver_umq = { "umq", umq_probe, umq_open_tier, &ladder_umq };
