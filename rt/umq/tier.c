/* rt/umq/tier.c: the cs tier's driver: which card, and opening it. What runs on it is rt/amd's. */
#include <stdlib.h>
#include <string.h>

#include "rt/amd/tier.h"
#include "rt/ladder.h"
#include "rt/umq/cs.h"

static int probe(const struct tier_opts *o, struct tier_info *info, struct drm_gpu *g, struct err *e)
{
    int rc = drm_pick("cs", o, g, e);
    if (rc)
        return rc;
    snprintf(info->device, sizeof info->device, "%s", g->name);
    if ((rc = amd_kernels_for(g->chip, g->name, "cs", e)))
        return rc;
    amd_tier_info(info, g->name, g->vram_bytes, g->mec_firmware);
    info->reopens = true;
    snprintf(info->note, sizeof info->note, "amdgpu driver's compute ring by libdrm, kernels for %s", g->chip->name);
    return 0;
}

static int cs_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct drm_gpu g;
    struct err e = { 0 };
    int rc = probe(o, info, &g, &e);
    if (rc)
        snprintf(info->note, sizeof info->note, "%.*s", (int)sizeof info->note - 1, amd_without_prefix(&e, "cs"));
    return rc;
}

static int cs_open_tier(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct tier_info info = { 0 };
    struct cs_winsys *w;
    struct drm_gpu g;
    int rc = probe(o, &info, &g, e);
    if (rc || (rc = cs_winsys_open(&g, &w, e)))
        return rc;
    if ((rc = cs_winsys_context(w, e))) {
        w->base.ops->destroy(&w->base);
        return rc;
    }
    return amd_tier_open(&w->base, &info, o, out, e);
}

const struct tier_driver tier_driver_cs = { "cs", cs_probe, cs_open_tier, &ladder_cs };
