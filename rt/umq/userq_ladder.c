/* rt/umq/userq_ladder.c: the umq tier's first rungs, from a render node that opens to a doorbell that advances; rt/amd has
 * the rest. */
#include "rt/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "rt/amd/ladder.h"
#include "rt/umq/userq.h"

enum { WAIT_MS = 5000, RING_BYTES = 64 << 10 };
#define MS(n) ((uint64_t)(n) * 1000000u)

struct rungs {
    struct amd_rungs amd; /* first: the rungs of rt/amd/ladder.h follow */
    struct drm_gpu gpu;
    struct userq_winsys *w;
};

/* ---- the node and its memory ---- */

static int find_card(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct drm_gpu gpu[DRM_MAX_GPUS];
    struct amd_choice c[DRM_MAX_GPUS];
    int n = drm_gpus("umq", gpu, DRM_MAX_GPUS, e);
    for (int i = 0; i < n; i++)
        c[i] = (struct amd_choice){ gpu[i].name, gpu[i].chip, gpu[i].n_cu };
    int at = n < 0 ? n : amd_rung_pick(c, n, r->amd.device, e);
    if (at < 0)
        return at;
    r->gpu = gpu[at];
    amd_describe_machine(r->gpu.render_minor, o->detail);
    snprintf(o->found, sizeof o->found, "%s, renderD%u, amdgpu 3.%u, %u shader engines, %.1f GiB of memory, %.1f of it visible "
             "to the host, MEC firmware %u", r->gpu.name, r->gpu.render_minor, r->gpu.driver_minor, r->gpu.n_se,
             (double)r->gpu.vram_bytes / 0x1p30, (double)r->gpu.vram_visible_bytes / 0x1p30, r->gpu.mec_firmware);
    return 0;
}

static int queues_offered(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    char parameter[32];
    int rc = userq_winsys_open(&r->gpu, &r->w, e);
    if (rc)
        return rc;
    r->amd.w = &r->w->base;
    drm_parameter("user_queue", parameter, sizeof parameter);
    snprintf(o->found, sizeof o->found, "compute queues, amdgpu.user_queue=%s", parameter[0] ? parameter : "(not readable)");
    return 0;
}

static int map_memory(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    return amd_rung_memory(&r->amd, &r->w->base, o, e);
}

/* ---- the queue ---- */

static int create_queue(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = userq_winsys_queue(r->w, RING_BYTES, e);
    if (rc)
        return rc;
    struct userq *q = r->w->q;
    r->amd.ring = &q->ring;
    drm_describe(r->w->dev, o->detail);
    fprintf(o->detail, "raw pointers: read 0x%llx, write 0x%llx, at 0x%llx and 0x%llx; doorbell at %p; preamble of %u dwords\n",
            (unsigned long long)*q->ring.rptr, (unsigned long long)*q->ring.wptr_cell, (unsigned long long)q->rptr_mem->va,
            (unsigned long long)q->wptr_mem->va, (const void *)(uintptr_t)q->ring.bell, q->preamble_dw);
    snprintf(o->found, sizeof o->found, "queue %u: ring of %u dwords at %#llx, the page tables' point %llu is reached", q->id,
             q->ring.mask + 1, (unsigned long long)q->ring_mem->va, (unsigned long long)q->map_point);
    return 0;
}

/* The way of a host that sleeps: the driver's fence in the ring, its syncobj. */
static int driver_fence(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    uint64_t t0 = clock_ns();
    int rc = userq_sleep_once(r->w->q, MS(WAIT_MS), e);
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "PROTECTED_FENCE_SIGNAL woke the host %.1f us after the bell",
                 (double)(clock_ns() - t0) * 1e-3);
    return rc;
}

/* ---- the ladder ---- */

static int begin(int device, void **state, struct err *e)
{
    return amd_rungs_begin(sizeof(struct rungs), device, state, e);
}

static const struct ladder_rung rungs[] = {
    { "card found", "libdrm_amdgpu opens a render node whose chip zinc knows",
      "ls -l /dev/dri; lsmod | grep amdgpu; the render group; a container needs --device=/dev/dri", find_card },
    { "queues offered", "the driver runs compute queues that the program writes itself",
      "cat /sys/module/amdgpu/parameters/user_queue; uname -r (6.16); dmesg for firmware versions", queues_offered },
    { "memory mapped", "host and card memory, each at its address on the card",
      "free VRAM; Resizable BAR and Above 4G in the BIOS", map_memory },
    { "queue created", "the driver takes our ring, pointers, EOP buffer and doorbell, the page tables being there",
      "dmesg for lines of amdgpu_userq and MES; all queues taken by others", create_queue },
    AMD_RING_RUNGS,
    { "driver's fence", "the driver hears of the queue's progress and wakes who sleeps",
      "USERQ_SIGNAL reads the write pointer from our page; end-of-pipe interrupts of MES queues (6.16 and later)",
      driver_fence },
    AMD_RUNGS
};

const struct ladder ladder_umq = { rungs, ARRAY_LEN(rungs), begin, amd_rungs_end, amd_rungs_failed };
