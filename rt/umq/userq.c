/* rt/umq/userq.c: a user-mode queue: what the driver wants for it, the ring, the doorbell, and waiting. */
#include "rt/umq/userq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/umq/userq_ioctl.h"

enum { EOP_BYTES = 4096, BELL_AT = 4, MAPS_MS = 10000, SETTLE_MS = 20 };

static const struct amd_watch_ops watch_ops;

static int call(const struct drm_dev *d, unsigned long request, void *arg)
{
    if (drm_is_child(d))
        return -EPERM;
    return d->lib->drmIoctl(d->lib->amdgpu_device_get_fd(d->dev), request, arg) ? -errno : 0;
}

/* ---- whether there are any ---- */

/* ME, PFP, MEC, MES: gfx_v11_0_sw_init and gfx_v12_0_sw_init of Linux 7.0. 6.16 asked gfx11 for a little less. */
static const struct { uint32_t query, least_gfx11, least_gfx12; const char *name; } firmwares[] = {
    { USERQ_FW_ME, 2420, 2780, "ME" }, { USERQ_FW_PFP, 2580, 2840, "PFP" }, { USERQ_FW_MEC, 2650, 3050, "MEC" },
    { USERQ_FW_MES, 120, 123, "MES" },
};

static int why_not(struct drm_dev *d, struct err *e)
{
    enum { FIRST_MINOR = 64 }; /* 3.64, Linux 6.16: KMS_DRIVER_MINOR in amdgpu_drv.c */
    const struct drm_gpu *g = &d->gpu;
    char parameter[32];
    drm_parameter("user_queue", parameter, sizeof parameter);
    if (g->driver_minor < FIRST_MINOR)
        return err_set(e, -ENOTSUP, "%s: this kernel's amdgpu driver is 3.%u, user-mode queues came with 3.%d (Linux 6.16)",
                       d->tier, g->driver_minor, FIRST_MINOR);
    /* gfx_v11_0_sw_init: GC 11.0.1 and 11.0.4 (both gfx1103) and 11.5 share the case that is compiled out */
    if (g->version / 100 == 1105 || g->version == 110003)
        return err_set(e, -ENODEV, "%s: the amdgpu driver has no user-mode queues for %s (up to Linux 7.0); --tier=kfd or cs",
                       d->tier, g->chip->name);
    if (!parameter[0] || parameter[0] == '-' || parameter[0] == '0')
        return err_set(e, -ENODEV, "%s: user-mode queues are off (amdgpu.user_queue is %s): start the kernel with "
                       "amdgpu.user_queue=1", d->tier, parameter[0] ? parameter : "not known");
    for (uint32_t i = 0; i < ARRAY_LEN(firmwares); i++) {
        uint32_t least = g->chip->gen == PM4_GFX12 ? firmwares[i].least_gfx12 : firmwares[i].least_gfx11;
        uint32_t version = 0, feature;
        d->lib->amdgpu_query_firmware_version(d->dev, firmwares[i].query, 0, 0, &version, &feature);
        if (version < least)
            return err_set(e, -ENOTSUP, "%s: the %s firmware of %s is version %u, the driver wants %u for user-mode queues: "
                           "a newer linux-firmware", d->tier, firmwares[i].name, g->chip->name, version, least);
    }
    return err_set(e, -ENODEV, "%s: the driver offers no user-mode compute queues on %s (amdgpu.user_queue=%s); dmesg may "
                   "say why", d->tier, g->name, parameter);
}

int userq_offered(struct drm_dev *d, struct err *e)
{
    uint8_t info[USERQ_DEV_INFO_BYTES] = { 0 };
    uint32_t mask = 0;
    int rc = d->lib->amdgpu_query_info(d->dev, AMDGPU_INFO_DEV_INFO, sizeof info, info);
    if (rc)
        return drm_fail(d, rc, e, "what %s offers", d->gpu.name);
    memcpy(&mask, info + USERQ_IP_MASK_AT, sizeof mask);
    return mask & 1u << USERQ_IP_COMPUTE ? 0 : why_not(d, e);
}

/* ---- page tables ---- */

/* User queues are ordered behind nothing, so new page tables have to be waited for. The driver writes them in order and
 * gives a fence with each change; a change that changes nothing stands for those before it (amdgpu_gem_va_update_vm). */
static int wait_for_maps(struct userq *q, struct err *e)
{
    struct drm_dev *d = q->dev;
    struct userq_gem_va v = { .op = USERQ_VA_REPLACE, .flags = USERQ_PAGE_RWX, .va = q->tables->va, .bytes = AMD_PAGE,
                              .point = q->map_point + 1, .syncobj = q->map_syncobj };
    int rc = drm_mem_handle(q->tables, &v.handle, e);
    if (rc)
        return rc;
    if ((rc = call(d, USERQ_IOC_GEM_VA, &v)))
        return drm_fail(d, rc, e, "GEM_VA with a point of a timeline");
    q->map_point++;
    struct drm_syncobj_timeline_wait w = { .handles = (uintptr_t)&q->map_syncobj, .points = (uintptr_t)&q->map_point,
                                           .timeout_nsec = (int64_t)(clock_ns() + MAPS_MS * 1000000ull),
                                           .count_handles = 1 };
    if ((rc = call(d, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &w)))
        return drm_fail(d, rc, e, "waiting for the page tables of %s", d->gpu.name);
    q->n_calls += 2;
    d->maps_changed = false;
    return 0;
}

/* ---- creation ---- */

static int map_bell(struct userq *q, struct err *e)
{
    struct drm_dev *d = q->dev;
    union userq_gem_create c = { { AMD_PAGE, AMD_PAGE, USERQ_DOMAIN_DOORBELL, 0 } };
    int rc = call(d, USERQ_IOC_GEM_CREATE, &c);
    if (rc)
        return drm_fail(d, rc, e, "a page of doorbells");
    q->bell_handle = c.out.handle;
    union userq_gem_mmap m = { { .handle = q->bell_handle } };
    if ((rc = call(d, USERQ_IOC_GEM_MMAP, &m)))
        return drm_fail(d, rc, e, "mapping the doorbells");
    void *p = mmap(NULL, AMD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, d->lib->amdgpu_device_get_fd(d->dev),
                   (off_t)m.offset);
    if (p == MAP_FAILED)
        return drm_fail(d, -errno, e, "mapping the doorbells");
    madvise(p, AMD_PAGE, MADV_DONTFORK);
    q->ring.bell = (volatile uint64_t *)p + BELL_AT;
    return 0;
}

static int alloc_buffers(struct userq *q, uint32_t ring_bytes, struct err *e)
{
    struct drm_dev *d = q->dev;
    int rc;
    if ((rc = drm_mem_alloc(d, AMD_HOST, ring_bytes, "ring", &q->ring_mem, e)) ||
        (rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "read pointer", &q->rptr_mem, e)) ||
        (rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "write pointer", &q->wptr_mem, e)) || /* the firmware wants it alone */
        (rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "fence cells", &q->cells_mem, e)) ||
        (rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "preamble", &q->preamble, e)) ||
        (rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "page tables' mark", &q->tables, e)) ||
        (rc = drm_mem_alloc(d, AMD_PRIVATE, EOP_BYTES, "end-of-pipe buffer", &q->eop, e)))
        return rc;
    amd_ring_init(&q->ring, q->ring_mem->cpu, ring_bytes, q->rptr_mem->cpu, q->wptr_mem->cpu);
    q->ring.watch.cells = q->cells_mem->cpu;
    struct pm4_buf b;
    pm4_init(&b, d->gpu.chip->gen, q->preamble->cpu, AMD_PAGE / 4);
    pm4_compute_preamble(&b, d->gpu.n_se);
    pm4_nop(&b, -b.n % 8);
    q->preamble_dw = b.n;
    return b.rc ? err_set(e, b.rc, "%s: the preamble: %s", d->tier, b.why) : 0;
}

static int new_syncobj(struct drm_dev *d, uint32_t *handle, struct err *e)
{
    int rc = d->lib->amdgpu_cs_create_syncobj(d->dev, handle);
    return rc ? drm_fail(d, rc, e, "a syncobj") : 0;
}

static int create_hw_queue(struct userq *q, struct err *e)
{
    struct drm_dev *d = q->dev;
    struct userq_mqd mqd = { .eop = q->eop->va };
    struct userq_queue a = { .op = USERQ_CREATE, .ip_type = USERQ_IP_COMPUTE, .doorbell_handle = q->bell_handle,
                             .doorbell_at = BELL_AT, .ring = q->ring_mem->va, .ring_bytes = q->ring_mem->bytes,
                             .rptr = q->rptr_mem->va, .wptr = q->wptr_mem->va, .mqd = (uintptr_t)&mqd,
                             .mqd_bytes = sizeof mqd };
    int rc = call(d, USERQ_IOC_QUEUE, &a);
    if (rc == -USERQ_ENOTSUPP)
        return why_not(d, e);
    if (rc == -EINVAL)
        return err_set(e, rc, "%s: the driver refuses a user-mode queue on %s: its buffers or their sizes (dmesg has a line)",
                       d->tier, d->gpu.name);
    if (rc == -ENOMEM || rc == -EBUSY || rc == -EAGAIN)
        return err_set(e, -EAGAIN, "%s: the driver has no user-mode queue left on %s (%s): other programs hold them; close "
                       "one, or --tier=cpu", d->tier, d->gpu.name, strerror(-rc));
    if (rc)
        return drm_fail(d, rc, e, "creating a user-mode queue on %s", d->gpu.name);
    q->id = a.op; /* out.queue_id lies first */
    return 0;
}

static int make_queue(void *user, struct err *e)
{
    struct userq *q = user;
    q->n_calls++;
    int rc = create_hw_queue(q, e);
    if (!rc)
        q->signal_point = q->ring.watch.point;
    return rc;
}

/* A queue that is mapped takes one of the firmware's few slots of the hardware, or makes it change between queues. */
static int drop_queue(void *user)
{
    const struct userq *q = user;
    return drm_is_child(q->dev) ? 0 : call(q->dev, USERQ_IOC_QUEUE,
                                           &(struct userq_queue){ .op = USERQ_FREE, .queue_id = q->id });
}

static uint32_t id_of(const void *user)
{
    return ((const struct userq *)user)->id;
}

static const struct amd_ring_ops ring_ops = { .make = make_queue, .drop = drop_queue, .id = id_of };

int userq_create(struct drm_dev *d, uint32_t ring_bytes, struct userq **out, struct err *e)
{
    *out = NULL;
    if (ring_bytes < AMD_PAGE || ring_bytes & (ring_bytes - 1))
        return err_set(e, -EINVAL, "%s: a ring of %u bytes; a power of two from %d on is needed", d->tier, ring_bytes,
                       (int)AMD_PAGE);
    struct userq *q = calloc(1, sizeof *q);
    if (!q)
        return err_set(e, -ENOMEM, "%s: queue object", d->tier);
    q->dev = d;
    amd_watch_init(&q->ring.watch, d->tier, d->gpu.name, &watch_ops, q);
    int rc;
    if ((rc = alloc_buffers(q, ring_bytes, e)) || (rc = new_syncobj(d, &q->done_syncobj, e)) ||
        (rc = new_syncobj(d, &q->map_syncobj, e)) || (rc = map_bell(q, e)) || (rc = wait_for_maps(q, e)) ||
        (rc = amd_ring_open(&q->ring, &ring_ops, LOGM_UMQ, e))) {
        userq_destroy(q);
        return rc;
    }
    log_debug(UMQ, "user-mode queue %u: ring of %u KiB", q->id, ring_bytes >> 10);
    *out = q;
    return 0;
}

void userq_destroy(struct userq *q)
{
    if (!q)
        return;
    struct drm_dev *d = q->dev;
    amd_ring_stop(&q->ring);
    if (!drm_is_child(d)) {
        if (q->ring.bell)
            munmap((void *)(q->ring.bell - BELL_AT), AMD_PAGE);
        if (q->bell_handle)
            call(d, DRM_IOCTL_GEM_CLOSE, &(struct drm_gem_close){ .handle = q->bell_handle });
        if (q->done_syncobj)
            d->lib->amdgpu_cs_destroy_syncobj(d->dev, q->done_syncobj);
        if (q->map_syncobj)
            d->lib->amdgpu_cs_destroy_syncobj(d->dev, q->map_syncobj);
    }
    struct drm_mem *const mem[] = { q->eop, q->tables, q->preamble, q->cells_mem, q->wptr_mem, q->rptr_mem, q->ring_mem };
    for (uint32_t i = 0; i < ARRAY_LEN(mem); i++)
        drm_mem_free(mem[i]);
    free(q);
}

/* ---- submission ---- */

static void encode(const struct userq *q, struct pm4_buf *b, uint64_t va, uint32_t n_dw)
{
    if (q->wrote_vram) {
        if (!q->dev->gpu.chip->apu)
            pm4_hdp_flush_packet(b);
        pm4_acquire_mem(b, PM4_ACQUIRE_ALL);
    }
    pm4_indirect_buffer(b, q->preamble->va, q->preamble_dw, PM4_IB_INHERIT_VMID);
    pm4_indirect_buffer(b, va, n_dw, PM4_IB_INHERIT_VMID);
    pm4_release_mem(b, &(struct pm4_release){ .gcr = PM4_REL_GL2_WB | PM4_REL_SEQ_FORWARD | PM4_REL_GLM_WB | PM4_REL_GLM_INV,
                                              .policy = 3, .data_sel = PM4_DATA_64,
                                              .va = q->cells_mem->va + offsetof(struct amd_cells, fence),
                                              .data = q->ring.watch.point + 1 });
}

int userq_submit(struct userq *q, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    uint32_t dw[USERQ_SUBMIT_DW + PM4_DW_HDP_FLUSH_PACKET + PM4_DW_ACQUIRE_MEM];
    struct drm_dev *d = q->dev;
    struct pm4_buf b;
    int rc;
    if (drm_is_child(d))
        return drm_fail(d, -EPERM, e, "submitting");
    pm4_init(&b, d->gpu.chip->gen, dw, ARRAY_LEN(dw));
    encode(q, &b, va, n_dw);
    if (b.rc)
        return err_set(e, b.rc, "%s: a submission of %u dwords: %s", d->tier, n_dw, b.why);
    if ((d->maps_changed && !q->ring.watch.dead && (rc = wait_for_maps(q, e))) ||
        (rc = amd_ring_submit(&q->ring, &(struct amd_span){ dw, b.n }, 1, point, e)))
        return rc;
    q->wrote_vram = false;
    return 0;
}

/* ---- waiting ---- */

/* The driver's fence behind everything so far, and a syncobj of it. False: the ring has no room, or the driver will not. */
static bool ask_for_wake(struct userq *q)
{
    uint32_t dw[PM4_DW_PROTECTED_FENCE];
    struct pm4_buf b;
    struct userq_signal s = { .queue_id = q->id, .syncobjs = (uintptr_t)&q->done_syncobj, .n_syncobjs = 1 };
    pm4_init(&b, q->dev->gpu.chip->gen, dw, ARRAY_LEN(dw));
    pm4_protected_fence_signal(&b);
    if (b.rc || !amd_ring_add(&q->ring, dw, b.n))
        return false;
    q->n_calls++;
    int rc = call(q->dev, USERQ_IOC_SIGNAL, &s);
    if (rc)
        log_debug(UMQ, "USERQ_SIGNAL: %s", strerror(-rc));
    q->signal_point = rc ? q->signal_point : q->ring.watch.point;
    return rc == 0;
}

static void nap(uint64_t ns)
{
    struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
    nanosleep(&t, NULL);
}

/* Is a submission all that is under way? From Linux 7.0 the driver resets a queue whose fence is pending for
 * amdgpu.lockup_timeout, 2 s there (amdgpu_userq_start_hang_detect_work), so one is asked for only when no more than a part of a
 * step is before it. With the next step in flight there are more; where nothing moved for a second, many times what a part takes
 * (rt/amd/plan.c), the fence is asked for all the same: a queue that was reset signals it at once. */
static bool little_left(const struct userq *q)
{
    enum { LONG_MS = 1000 };
    uint64_t left = q->ring.watch.point - __atomic_load_n(&q->ring.watch.cells->fence, __ATOMIC_ACQUIRE);
    return left <= 1 || (left <= 8 && clock_ns() - q->ring.watch.progress_ns > LONG_MS * 1000000ull);
}

/* Until the driver's fence, or for ns. True: the fence is done. */
static bool sleep_for(struct userq *q, uint64_t point, uint64_t ns)
{
    if (q->signal_point < point && (!little_left(q) || !ask_for_wake(q))) {
        nap(MIN(ns, (uint64_t)1000000));
        return false;
    }
    struct drm_syncobj_wait w = { .handles = (uintptr_t)&q->done_syncobj, .timeout_nsec = (int64_t)(clock_ns() + ns),
                                  .count_handles = 1 };
    q->n_calls++;
    return call(q->dev, DRM_IOCTL_SYNCOBJ_WAIT, &w) == 0;
}

int userq_sleep_once(struct userq *q, uint64_t timeout_ns, struct err *e)
{
    if (!ask_for_wake(q))
        return err_set(e, -EIO, "%s: USERQ_SIGNAL: the driver makes no fence of queue %u", q->dev->tier, q->id);
    return sleep_for(q, 0, timeout_ns)
               ? 0 : err_set(e, -ETIME, "%s: the driver's fence of queue %u did not come in %.0f ms", q->dev->tier, q->id,
                             (double)timeout_ns * 1e-6);
}

/* The driver's fence is done and our cell is not: it was signalled by force. Our cell was written first, so a moment is
 * more than enough. */
static bool was_forced(const struct userq *q, uint64_t point)
{
    for (uint64_t end = clock_ns() + SETTLE_MS * 1000000ull; clock_ns() < end;)
        if (userq_is_done(q, point))
            return false;
    return true;
}

static int broken(struct userq *q, const char *what, struct err *e)
{
    char fault[200], place[120];
    drm_fault_text(q->dev, fault, sizeof fault);
    amd_ring_place(&q->ring, place, sizeof place);
    return err_set(e, -EIO, "%s: %s on %s: point %llu of %llu%s", q->dev->tier, fault[0] ? fault : what, q->dev->gpu.name,
                   (unsigned long long)q->ring.watch.cells->fence, (unsigned long long)q->ring.watch.point, place);
}

/* While there is progress nobody asks for faults. */
static bool stood_still(const struct amd_watch *w)
{
    enum { STILL_MS = 20 };
    return clock_ns() - w->progress_ns > STILL_MS * 1000000ull;
}

/* Sleeps by the driver's fence. A fault is told by nobody: it is asked for, once the host has polled for a while in vain. */
static int sleep_on_fence(struct amd_watch *w, uint64_t point, uint64_t ns, struct err *e)
{
    struct userq *q = w->user;
    bool still = stood_still(w);
    if (ns && sleep_for(q, point, ns) && was_forced(q, point))
        return broken(q, "the driver reset the queue", e);
    if (still && !amd_watch_done(w, point) && drm_last_fault(q->dev).va)
        return broken(q, "a page fault", e);
    return 0;
}

static void stands(struct amd_watch *w, char *out, size_t n)
{
    amd_ring_place(&((struct userq *)w->user)->ring, out, n);
}

static const struct amd_watch_ops watch_ops = { .sleep = sleep_on_fence, .stands = stands };
