/* rt/kfd/tier.c: the kfd tier's driver: which GPU, and opening it. What runs on it is rt/amd's. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rt/amd/tier.h"
#include "rt/kfd/kfd.h"
#include "rt/ladder.h"

enum { RING_BYTES = 64 << 10 };

static const char *without_prefix(const struct err *e)
{
    return strncmp(e->msg, "kfd: ", 5) == 0 ? e->msg + 5 : e->msg;
}

static bool matches(const struct kfd_gpu *g, uint32_t i, const struct tier_opts *o)
{
    if (o->device_name)
        return strcasestr(g->name, o->device_name) != NULL;
    return o->device < 0 || (uint32_t)o->device == i;
}

/* Those that zinc has kernels for, then the larger. */
static uint64_t rank(const struct kfd_gpu *g)
{
    return (uint64_t)(g->chip != NULL) << 40 | g->n_cu;
}

/* The GPU of the options, or the best; else a note. */
static int pick_gpu(struct kfd_sys *s, const struct tier_opts *o, struct kfd_gpu *out, char *note, size_t n_note)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    struct err e = { 0 };
    char seen[100] = "";
    const struct kfd_gpu *best = NULL;
    int n = kfd_topology(s, gpu, KFD_MAX_GPUS, &e);
    if (n < 0) {
        snprintf(note, n_note, "%.*s", (int)n_note - 1, without_prefix(&e));
        return n;
    }
    for (int i = 0; i < n; i++) {
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%d: %s", len ? ", " : "", i, gpu[i].name);
        if (matches(&gpu[i], (uint32_t)i, o) && (!best || rank(&gpu[i]) > rank(best)))
            best = &gpu[i];
    }
    if (!best) {
        if (o->device_name)
            snprintf(note, n_note, "no GPU's name contains '%.32s'; there are %.80s", o->device_name, seen);
        else
            snprintf(note, n_note, "no GPU %d; there are %s", o->device, seen);
        return -ENODEV;
    }
    *out = *best;
    return 0;
}

static int probe(const struct tier_opts *o, struct tier_info *info, struct kfd_gpu *g, struct err *e)
{
    struct kfd_sys *s = kfd_sys_current();
    int rc = pick_gpu(s, o, g, info->note, sizeof info->note);
    if (rc)
        return err_set(e, rc, "kfd: %s", info->note);
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
        snprintf(info->note, sizeof info->note, "%.*s", (int)sizeof info->note - 1, without_prefix(&e));
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
