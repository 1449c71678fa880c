/* rt/umq/ladder.c: the cs tier's first rungs, from a node that opens to a submission; rt/amd has the rest. */
#include "rt/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "rt/amd/ladder.h"
#include "rt/umq/cs.h"

struct rungs {
    struct amd_rungs amd; /* first: the rungs of rt/amd/ladder.h follow */
    int n;
    struct drm_gpu gpu[DRM_MAX_GPUS], *at;
    struct cs_winsys *w;
};

static int open_nodes(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int n = drm_gpus("cs", r->gpu, DRM_MAX_GPUS, e);
    if (n < 0)
        return n;
    r->n = n;
    snprintf(o->found, sizeof o->found, "%d render node%s of the amdgpu driver, version 3.%u", n, n == 1 ? "" : "s",
             r->gpu[0].driver_minor);
    return 0;
}

static int know_card(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct amd_choice c[DRM_MAX_GPUS];
    for (int i = 0; i < r->n; i++)
        c[i] = (struct amd_choice){ r->gpu[i].name, r->gpu[i].chip, r->gpu[i].n_cu };
    int at = amd_rung_pick(c, r->n, r->amd.device, e);
    if (at < 0)
        return at;
    const struct drm_gpu *g = r->at = &r->gpu[at];
    amd_describe_machine(g->render_minor, o->detail);
    snprintf(o->found, sizeof o->found, "%s, renderD%u, %u shader engines, %.1f GiB of memory, %.1f of it visible to the host, "
             "MEC firmware %u, compute rings 0x%x", g->name, g->render_minor, g->n_se, (double)g->vram_bytes / 0x1p30,
             (double)g->vram_visible_bytes / 0x1p30, g->mec_firmware, g->rings);
    return 0;
}

static int map_memory(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = cs_winsys_open(r->at, &r->w, e);
    return rc ? rc : amd_rung_memory(&r->amd, &r->w->base, o, e);
}

static int make_context(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = cs_winsys_context(r->w, e);
    drm_describe(r->w->dev, o->detail);
    if (rc)
        return rc;
    fprintf(o->detail, "chunks of a submission: %u bytes; syncobj %u; fence cell at 0x%llx\n", (unsigned)sizeof r->w->chunks,
            r->w->syncobj, (unsigned long long)r->w->cells->va);
    snprintf(o->found, sizeof o->found, "a context on compute ring %u, a timeline syncobj, a preamble of %u dwords at %#llx",
             r->w->ring, r->w->preamble_dw, (unsigned long long)r->w->preamble->va);
    return 0;
}

/* One submission whose fence is waited for by sleeping alone: the interrupt arrives and the syncobj signals. */
static int kernel_fence(void *state, struct ladder_out *o, struct err *e)
{
    enum { WAIT_S = 15 };
    struct rungs *r = state;
    struct cs_winsys *w = r->w;
    struct pm4_buf b;
    uint64_t point, t0 = clock_ns();
    uint32_t first;
    pm4_init(&b, r->at->chip->gen, r->amd.ib.cpu, AMD_PAGE / 4);
    pm4_nop(&b, 1);
    amd_ib_pad(&w->base, &b);
    int rc = b.rc ? err_set(e, b.rc, "packets: %s", b.why) : amd_submit(&w->base, r->amd.ib.va, b.n, &point, e);
    if (rc)
        return rc;
    rc = w->dev->lib->amdgpu_cs_syncobj_timeline_wait(w->dev->dev, &w->syncobj, &point, 1,
                                                      (int64_t)(clock_ns() + WAIT_S * 1000000000ull), 0, &first);
    if (rc)
        return err_set(e, rc, "the syncobj has not signalled point %llu after %d s: %s; the user fence reads %llu",
                       (unsigned long long)point, WAIT_S, strerror(-rc), (unsigned long long)w->base.cells->fence);
    snprintf(o->found, sizeof o->found, "the syncobj signalled point %llu after %.1f us, the user fence reads %llu",
             (unsigned long long)point, (double)(clock_ns() - t0) * 1e-3, (unsigned long long)w->base.cells->fence);
    return w->base.cells->fence == point ? 0 : err_set(e, -EIO, "%s, expected the same", o->found);
}

/* ---- the ladder ---- */

static int begin(int device, void **state, struct err *e)
{
    return amd_rungs_begin(sizeof(struct rungs), device, state, e);
}

static const struct ladder_rung rungs[] = {
    { "node opened", "the driver and libdrm_amdgpu answer", "ls -l /dev/dri; lsmod | grep amdgpu; the render group; a container "
      "needs /dev/dri", open_nodes },
    { "card known", "the card is one that zinc knows", "the kernel's and the firmware's age: dmesg | grep amdgpu; "
      "/sys/kernel/debug/dri/*/amdgpu_firmware_info", know_card },
    { "memory mapped", "host and card memory, for both", "free VRAM; Resizable BAR and Above 4G in the BIOS; "
      "amdgpu.gttsize", map_memory },
    { "context created", "the kernel has a compute ring for us", "amdgpu.user_queue=2 leaves none; dmesg for rings that were "
      "disabled after a reset", make_context },
    { "kernel's fence", "the ring runs our IB, writes the user fence, and its interrupt wakes us", "dmesg for ring timeouts and "
      "for page faults (the address says which buffer); amdgpu.lockup_timeout", kernel_fence },
    AMD_RUNGS
};

const struct ladder ladder_cs = { rungs, ARRAY_LEN(rungs), begin, amd_rungs_end, amd_rungs_failed };
