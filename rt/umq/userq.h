/* rt/umq/userq.h
 * A user-mode queue of the DRM driver: a ring that the card reads by itself, as one of /dev/kfd, with packets of the DRM
 * driver's kind and without its context save area, events and profile.
 *
 *     struct userq *q;
 *     if (userq_offered(dev, &e) ...)                                whether the driver has any, and if not, why
 *     userq_create(dev, 64 << 10, &q, &e);
 *     userq_submit(q, ib_va, ib_dw, &point, &e);                     no system call
 *     while ((rc = amd_watch_wait(&q->ring.watch, point, timeout_ns, &e)) == -ETIME) ...
 *     userq_destroy(q);
 *
 * A submission is the preamble (pm4_compute_preamble: gfx1100 has six shader engines, the driver's queue descriptor enables four)
 * and the caller's indirect buffer, both with the queue's VMID, and RELEASE_MEM of the point into our own cell. The host
 * polls the cell. Only where it is going to sleep does it add the driver's fence, PROTECTED_FENCE_SIGNAL, and ask
 * USERQ_SIGNAL for a syncobj of it. When buffers are to be evicted, the driver takes the queue off the hardware and waits
 * for that until its kernels are done: there is no save area, so no kernel may take seconds.
 *
 * Facts: Linux drivers/gpu/drm/amd/amdgpu/{amdgpu_userq,mes_userqueue,amdgpu_userq_fence}.c; Mesa
 * src/gallium/winsys/amdgpu/drm/{amdgpu_userq.c,amdgpu_cs.cpp} (amdgpu_cs_add_userq_packets,
 * amdgpu_cs_submit_ib_userq); igt lib/amdgpu/amd_ip_blocks.c (user_queue_submit).
 * Errors: 0 or a negative errno and one line. Not thread-safe. */
#ifndef ZINC_RT_UMQ_USERQ_H
#define ZINC_RT_UMQ_USERQ_H

#include "rt/amd/ring.h"
#include "rt/umq/drm.h"

struct userq {
    struct drm_dev *dev;
    struct drm_mem *ring_mem, *rptr_mem, *wptr_mem, *eop, *cells_mem, *preamble, *tables;
    struct amd_ring ring;
    uint32_t id, bell_handle, preamble_dw;
    uint32_t done_syncobj, map_syncobj;  /* of the driver's fence; of page tables          */
    uint64_t map_point;
    bool wrote_vram;                     /* the host did: the next submission begins with fresh caches */
    uint64_t signal_point;               /* the newest that done_syncobj stands for        */
    uint64_t n_calls;                    /* system calls of submissions and waits          */
};
enum { USERQ_SUBMIT_DW = 2 * PM4_DW_INDIRECT_BUFFER + PM4_DW_RELEASE_MEM };

/* 0: the driver offers compute queues. -ENODEV: it does not, as loaded or for this chip; -ENOTSUP: too old a kernel or
 * firmware. The line says what would change it. */
int userq_offered(struct drm_dev *d, struct err *e);

/* ring_bytes is a power of two from a page on. q->ring is waited for, stopped and given back as rings are (rt/amd/ring.h). */
int userq_create(struct drm_dev *d, uint32_t ring_bytes, struct userq **out, struct err *e);
void userq_destroy(struct userq *q); /* NULL is fine */
/* Copies the submission to the ring and rings the bell. Makes no system call, unless the ring is full, memory was
 * allocated since the last one, or the queue rests. */
int userq_submit(struct userq *q, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e);
/* Sleeps until everything so far is done, by the driver's fence alone: for ladder rungs. -ETIME: it did not come. */
int userq_sleep_once(struct userq *q, uint64_t timeout_ns, struct err *e);

static inline bool userq_is_done(const struct userq *q, uint64_t point)
{
    return amd_watch_done(&q->ring.watch, point);
}

/* ---- userq_winsys.c ---- */

struct userq_winsys {
    struct amd_winsys base;
    struct drm_dev *dev;
    struct userq *q; /* NULL: no submissions yet */
};
/* Opens the card: from here on there is memory. -ENODEV, -ENOTSUP: userq_offered's. */
int userq_winsys_open(const struct drm_gpu *g, struct userq_winsys **out, struct err *e);
/* And a queue: from here on base takes submissions. */
int userq_winsys_queue(struct userq_winsys *w, uint32_t ring_bytes, struct err *e);

#endif
