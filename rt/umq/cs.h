/* rt/umq/cs.h
 * Submissions by the kernel's own compute ring, as a winsys: one ioctl each, DRM_IOCTL_AMDGPU_CS.
 *
 *     cs_winsys_open(&gpu, &w, &e);             device, memory; base.ops->destroy gives all of it back
 *     cs_winsys_context(w, &e);                 a context and its fences: from here on base takes submissions
 *
 * The kernel frames each submission by itself (amdgpu_ib_schedule; gfx_v11_0.c and gfx_v12_0.c): cache invalidation
 * (AMDGPU_IB_FLAG_EMIT_MEM_SYNC), address space, HDP flush, our two IBs, the user fence with a write-back of the L2,
 * its own fence with an interrupt. The first IB is the preamble, since other processes use the ring as well
 * (pm4_compute_preamble), the second is the caller's. The user fence is a context's sequence number, which counts from 1
 * for each ring (amdgpu_ctx.c): the winsys's points. A host that is going to sleep does so on a timeline syncobj.
 *
 * The kernel gives a submission so long (amdgpu.lockup_timeout), then it resets the ring or the card and blames the
 * context: all that is under way is lost, what comes later gets ECANCELED, and AMDGPU_CTX_OP_QUERY_STATE2 says whose
 * fault it was. Prompts are therefore submitted in parts (amd_winsys.part_launches). */
#ifndef ZINC_RT_UMQ_CS_H
#define ZINC_RT_UMQ_CS_H

#include "rt/amd/ring.h"
#include "rt/umq/drm.h"

/* As one ioctl takes it. */
struct cs_chunks {
    struct drm_amdgpu_cs_chunk head[4]; /* in the order of what follows */
    struct drm_amdgpu_cs_chunk_ib preamble, ib;
    struct drm_amdgpu_cs_chunk_fence fence;
    struct drm_amdgpu_cs_chunk_syncobj done;
};

struct cs_winsys {
    struct amd_winsys base;
    struct drm_dev *dev;
    amdgpu_context_handle ctx;       /* NULL: no submissions yet, or no longer        */
    uint32_t ring, syncobj;
    bool has_syncobj;
    struct amd_watch watch;
    struct drm_mem *cells, *preamble;
    uint32_t preamble_dw;
    struct cs_chunks chunks;
    uint64_t last_va;                /* of the newest submission                      */
    uint32_t last_dw;
    uint64_t n_calls, n_sleeps;      /* ioctls: submissions; waits for the syncobj    */
    uint64_t fault_before;           /* the address space's last fault when it was opened */
};

int cs_winsys_open(const struct drm_gpu *g, struct cs_winsys **out, struct err *e);
/* -ENOTSUP: the kernel offers no compute ring (amdgpu.user_queue=2). */
int cs_winsys_context(struct cs_winsys *w, struct err *e);

#endif
