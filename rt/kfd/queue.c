/* rt/kfd/queue.c: a PM4 compute queue: what the driver wants for it, the ring, the doorbell, and waiting. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/kfd/priv.h"

enum {
    PRIORITY = 7,             /* of 0..15: normal                                                        */
    EOP_BYTES = 4096,
    VGPR_BYTES_BEFORE = 0x40000, /* of a CU, by kernels without the fix for gfx1151                       */
    DEBUG_WAVE_BYTES = 32,
};
#define DOORBELL_MASK ((uint64_t)KFD_DOORBELL_BYTES - 1)

static const struct amd_watch_ops watch_ops;

/* ---- creation ---- */

/* kfd_queue_ctx_save_restore_size of amdkfd, for chips of gfx10.1 and later. */
struct kfd_save_area kfd_save_area_of(const struct kfd_gpu *g, uint32_t vgpr_bytes)
{
    enum { SGPR = 0x4000, LDS = 0x10000, HWREG = 0x1000, WAVES_CU = 32, HEADER = 40, WAVE_STACK = 12, TAIL = 8 };
    uint32_t cu = g->n_cu / MAX(g->n_xcc, 1u), waves = cu * WAVES_CU;
    uint64_t data = align_up((uint64_t)cu * (vgpr_bytes + SGPR + LDS + HWREG), KFD_PAGE);
    struct kfd_save_area a = { .ctl_stack_bytes = (uint32_t)align_up(HEADER + (uint64_t)waves * WAVE_STACK + TAIL,
                                                                     KFD_PAGE) };
    a.save_bytes = (uint32_t)(a.ctl_stack_bytes + data);
    a.debug_bytes = align_up((uint64_t)waves * DEBUG_WAVE_BYTES, 64);
    a.mem_bytes = align_up((a.save_bytes + a.debug_bytes) * MAX(g->n_xcc, 1u), KFD_PAGE);
    return a;
}

static int create_with(struct kfd_queue *q, struct kfd_save_area a, struct kfd_create_queue *c, struct err *e)
{
    int rc = kfd_mem_alloc(q->dev, KFD_PRIVATE, a.mem_bytes, "context save area", &q->save, e);
    if (rc)
        return rc;
    c->save = q->save->va;
    c->save_bytes = a.save_bytes;
    c->ctl_stack_bytes = a.ctl_stack_bytes;
    rc = kfd_call(q->dev, KFD_IOC_CREATE_QUEUE, c);
    if (rc) {
        kfd_mem_free(q->save);
        q->save = NULL;
    }
    q->save_bytes = c->save_bytes;
    q->ctl_stack_bytes = c->ctl_stack_bytes;
    return rc;
}

/* Why there is no queue, in words. why: of what went wrong before the kernel was asked. */
static int refused(struct kfd_queue *q, int rc, const struct err *why, struct err *e)
{
    const struct kfd_gpu *g = &q->dev->gpu;
    struct kfd_save_area a = kfd_save_area_of(g, g->chip->save_vgpr_bytes);
    if (why->code)
        return err_set(e, rc, "%s", why->msg);
    if (rc == -ENOMEM || rc == -EAGAIN || rc == -EBUSY)
        return err_set(e, -EAGAIN, "kfd: the driver has no compute queue left on %s (%s): other programs hold them; "
                       "close one, or --tier=cpu", g->name, strerror(-rc));
    if (rc == -EINVAL)
        return err_set(e, rc, "kfd: CREATE_QUEUE on %s: the driver refuses the queue's buffers (save area %u + %u "
                       "bytes): a kernel whose sizes zinc does not know; %s wants Linux %s or newer", g->name,
                       a.save_bytes, (unsigned)a.debug_bytes, g->chip->name, g->chip->first_linux);
    return kfd_fail(rc, e, "CREATE_QUEUE on %s", g->name);
}

/* With amdgpu.cwsr_enable=0 waves are not preempted (the parameter's text in amdgpu_drv.c): the size does not matter. */
static bool saves_waves(struct kfd_sys *s)
{
    char text[32];
    int n = kfd_sys_read(s, "/sys/module/amdgpu/parameters/cwsr_enable", text, sizeof text);
    return n <= 0 || strtol(text, NULL, 10) != 0;
}

/* Kernels before b42f3bf9536c (mainline 6.18.4) take gfx1151 for a chip with two thirds of its registers (rocm-systems pull
 * request 1988 has the factor) and accept only an area of that size. Waves that are preempted write over its end then. */
static int create_with_small_area(struct kfd_queue *q, struct kfd_create_queue *c, struct err *e)
{
    const struct kfd_gpu *g = &q->dev->gpu;
    struct kfd_save_area full = kfd_save_area_of(g, g->chip->save_vgpr_bytes), a = kfd_save_area_of(g, VGPR_BYTES_BEFORE);
    struct err why = { 0 };
    int rc = create_with(q, a, c, &why);
    if (rc)
        return refused(q, rc, &why, e);
    if (!saves_waves(q->dev->sys))
        return 0;
    if (env_get()->kfd_small_save > 0) {
        log_warn(KFD, "%s: this kernel takes a context save area of %u bytes, the card needs %u: when another program uses the "
                 "card, memory of this process is overwritten (ZINC_KFD_SMALL_SAVE=1 asked for it)", g->name, a.save_bytes,
                 full.save_bytes);
        return 0;
    }
    kfd_call(q->dev, KFD_IOC_DESTROY_QUEUE, &(struct kfd_destroy_queue){ .queue_id = c->queue_id });
    kfd_mem_free(q->save);
    q->save = NULL;
    return err_set(e, -ENOTSUP, "kfd: this kernel takes a context save area of %u bytes for %s, which needs %u: memory would be "
                   "overwritten when another program uses the card; Linux 6.18.4 or newer, amdgpu.cwsr_enable=0, or "
                   "ZINC_KFD_SMALL_SAVE=1 at your own risk", a.save_bytes, g->name, full.save_bytes);
}

/* The kernel compares the save area with its own idea of its size and says EINVAL, no more. Newer kernels tell the
 * size in sysfs; for the others there are two formulas, of which the second is too small. */
static int create_hw_queue(struct kfd_queue *q, struct kfd_create_queue *c, struct err *e)
{
    const struct kfd_gpu *g = &q->dev->gpu;
    struct kfd_save_area formula = kfd_save_area_of(g, g->chip->save_vgpr_bytes), told = formula;
    struct err why = { 0 };
    int rc = -EINVAL;
    if (g->cwsr_bytes && g->ctl_stack_bytes) {
        told.save_bytes = g->cwsr_bytes;
        told.ctl_stack_bytes = g->ctl_stack_bytes;
        told.mem_bytes = align_up((g->cwsr_bytes + told.debug_bytes) * g->n_xcc, KFD_PAGE);
        rc = create_with(q, told, c, &why);
    }
    if (rc == -EINVAL)
        rc = create_with(q, formula, c, &why);
    if (rc == -EINVAL)
        return create_with_small_area(q, c, e);
    if (rc == 0)
        return 0;
    return refused(q, rc, &why, e);
}

static int map_doorbell(struct kfd_queue *q, uint64_t offset, struct err *e)
{
    struct kfd_dev *d = q->dev;
    if (!d->doorbells) {
        void *p;
        int rc = kfd_sys_map(d->sys, NULL, KFD_DOORBELL_BYTES, d->kfd_fd, offset & ~DOORBELL_MASK, &p);
        if (rc)
            return kfd_fail(rc, e, "mapping the doorbells");
        kfd_sys_dontfork(d->sys, p, KFD_DOORBELL_BYTES);
        d->doorbells = p;
    }
    q->ring.bell = (volatile uint64_t *)(d->doorbells + (offset & DOORBELL_MASK));
    return 0;
}

static int alloc_buffers(struct kfd_queue *q, uint32_t ring_bytes, struct err *e)
{
    struct kfd_dev *d = q->dev;
    int rc;
    if ((rc = kfd_mem_alloc(d, KFD_HOST, ring_bytes, "ring", &q->ring_mem, e)) ||
        (rc = kfd_mem_alloc(d, KFD_HOST, KFD_PAGE, "queue pointers", &q->pointers, e)) ||
        (rc = kfd_mem_alloc(d, KFD_HOST, KFD_PAGE, "fence cells", &q->cells_mem, e)) ||
        (rc = kfd_mem_alloc(d, KFD_PRIVATE, EOP_BYTES, "end-of-pipe buffer", &q->eop, e)))
        return rc;
    volatile uint64_t *pointers = q->pointers->cpu;
    amd_ring_init(&q->ring, q->ring_mem->cpu, ring_bytes, pointers, pointers + 1);
    q->ring.watch.cells = q->cells_mem->cpu;
    return 0;
}

/* All but the save area. */
static struct kfd_create_queue request_for(const struct kfd_queue *q)
{
    return (struct kfd_create_queue){ .ring = q->ring_mem->va, .wptr = q->pointers->va + 8, .rptr = q->pointers->va,
                                      .ring_bytes = (uint32_t)q->ring_mem->bytes, .gpu_id = q->dev->gpu.gpu_id,
                                      .type = KFD_QUEUE_COMPUTE, .percentage = 100, .priority = PRIORITY,
                                      .eop = q->eop->va, .eop_bytes = EOP_BYTES };
}

/* A process that has no queue on a card is no compute client of it: unregister_process in kfd_device_queue_manager.c calls
 * kfd_dec_compute_active, which with the last one takes back the compute power profile and, in kernels that hold it off on
 * gfx11, allows GFXOFF (amdgpu_amdkfd_set_compute_idle). */
static int drop_queue(void *user)
{
    struct kfd_queue *q = user;
    return kfd_is_child(q->dev) ? 0 : kfd_call(q->dev, KFD_IOC_DESTROY_QUEUE,
                                               &(struct kfd_destroy_queue){ .queue_id = q->id });
}

/* The first time with a save area of the size that the kernel takes, later on the memory that there is. */
static int make_queue(void *user, struct err *e)
{
    struct kfd_queue *q = user;
    struct kfd_create_queue c = request_for(q);
    struct err none = { 0 };
    int rc;
    if (q->save) {
        c.save = q->save->va;
        c.save_bytes = q->save_bytes;
        c.ctl_stack_bytes = q->ctl_stack_bytes;
        rc = kfd_call(q->dev, KFD_IOC_CREATE_QUEUE, &c);
        rc = rc ? refused(q, rc, &none, e) : 0;
    } else {
        rc = create_hw_queue(q, &c, e);
    }
    q->id = c.queue_id;
    q->wake_point = q->ring.watch.point;
    if (!rc && (rc = map_doorbell(q, c.doorbell_offset, e)))
        drop_queue(q);
    return rc;
}

static uint32_t id_of(const void *user)
{
    return ((const struct kfd_queue *)user)->id;
}

static const struct amd_ring_ops ring_ops = { .make = make_queue, .drop = drop_queue, .id = id_of };

int kfd_queue_create(struct kfd_dev *d, uint32_t ring_bytes, struct kfd_queue **out, struct err *e)
{
    *out = NULL;
    if (ring_bytes < KFD_PAGE || ring_bytes & (ring_bytes - 1) || ring_bytes / 4 < 2 * KFD_SUBMIT_MAX)
        return err_set(e, -EINVAL, "kfd: a ring of %u bytes; a power of two from %u on is needed", ring_bytes,
                       2 * KFD_SUBMIT_MAX * 4);
    struct kfd_queue *q = calloc(1, sizeof *q);
    if (!q)
        return err_set(e, -ENOMEM, "kfd: queue object");
    q->dev = d;
    amd_watch_init(&q->ring.watch, "kfd", d->gpu.name, &watch_ops, q);
    q->next = d->queues;
    d->queues = q;
    int rc = alloc_buffers(q, ring_bytes, e);
    if (rc == 0)
        rc = amd_ring_open(&q->ring, &ring_ops, LOGM_KFD, e);
    if (rc) {
        kfd_queue_destroy(q);
        return rc;
    }
    log_debug(KFD, "queue %u: ring of %u KiB, save area of %llu KiB", q->id, ring_bytes >> 10,
              (unsigned long long)(q->save->bytes >> 10));
    *out = q;
    return 0;
}

void kfd_queue_destroy(struct kfd_queue *q)
{
    if (!q)
        return;
    struct kfd_dev *d = q->dev;
    amd_ring_stop(&q->ring);
    for (struct kfd_queue **at = &d->queues; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
    if (!d->queues && d->doorbells && !kfd_is_child(d)) {
        kfd_sys_unmap(d->sys, d->doorbells, KFD_DOORBELL_BYTES);
        d->doorbells = NULL;
    }
    kfd_mem_free(q->save);
    kfd_mem_free(q->eop);
    kfd_mem_free(q->cells_mem);
    kfd_mem_free(q->pointers);
    kfd_mem_free(q->ring_mem);
    free(q);
}

/* ---- submission ---- */

static uint32_t flush_packets(const struct kfd_dev *d, uint32_t *dw, uint32_t cap)
{
    struct pm4_buf b;
    pm4_init(&b, d->gpu.chip->gen, dw, cap);
    if (!d->gpu.chip->apu)
        pm4_hdp_flush(&b);
    pm4_acquire_mem(&b, PM4_ACQUIRE_ALL);
    return b.rc ? 0 : b.n;
}

int kfd_queue_submit(struct kfd_queue *q, const uint32_t *dw, uint32_t n, uint64_t *point, struct err *e)
{
    enum { FLUSH_MAX = 32 };
    uint32_t flush[FLUSH_MAX], n_flush = 0, fence[KFD_FENCE_DW];
    struct kfd_dev *d = q->dev;
    if (kfd_is_child(d))
        return kfd_fail(-EPERM, e, "submitting");
    if (n > KFD_SUBMIT_MAX)
        return err_set(e, -EINVAL, "kfd: %u dwords at once, at most %u", n, KFD_SUBMIT_MAX);
    if (d->host_wrote_vram)
        n_flush = flush_packets(d, flush, FLUSH_MAX);
    /* what the host will read lies in memory that is not cached; only VRAM needs the write-back */
    struct pm4_buf b;
    pm4_init(&b, d->gpu.chip->gen, fence, KFD_FENCE_DW);
    pm4_release_mem(&b, &(struct pm4_release){ .gcr = PM4_REL_GL2_WB | PM4_REL_SEQ_FORWARD, .data_sel = PM4_DATA_64,
                                               .va = q->cells_mem->va + offsetof(struct amd_cells, fence),
                                               .data = q->ring.watch.point + 1 });
    if (b.rc)
        return err_set(e, b.rc, "kfd: the fence packet: %s", b.why);
    const struct amd_span span[] = { { flush, n_flush }, { dw, n }, { fence, KFD_FENCE_DW } };
    int rc = amd_ring_submit(&q->ring, span, ARRAY_LEN(span), point, e);
    if (!rc)
        d->host_wrote_vram = false;
    return rc;
}

/* ---- waiting ---- */

/* An interrupt when everything submitted so far is done, so that the host can sleep until then. */
static void ask_for_wake(struct kfd_queue *q)
{
    uint32_t dw[2 * PM4_DW_RELEASE_MEM];
    struct pm4_buf b;
    struct kfd_dev *d = q->dev;
    pm4_init(&b, d->gpu.chip->gen, dw, ARRAY_LEN(dw));
    pm4_signal_event(&b, d->event_page->va + 8ull * d->wake_event, d->wake_event);
    if (!b.rc && amd_ring_add(&q->ring, dw, b.n))
        q->wake_point = q->ring.watch.point;
}

/* A queue that could not be preempted: MES waits in vain, the kernel resets. Without context save waves are not preempted. */
#define WAY_OUT " (if another program used it then: try amdgpu.cwsr_enable=0)"

static int fault(struct kfd_queue *q, struct err *e)
{
    char why[200];
    kfd_fault_text(q->dev, why, sizeof why);
    for (struct kfd_queue *all = q->dev->queues; all; all = all->next)
        all->ring.watch.dead = true;
    return err_set(e, -EIO, "kfd: %s on %s%s", why, q->dev->gpu.name, q->dev->fault.hardware ? WAY_OUT : "");
}

static int sleep_on_events(struct amd_watch *w, uint64_t point, uint64_t ns, struct err *e)
{
    struct kfd_queue *q = w->user;
    if (ns && q->wake_point < point)
        ask_for_wake(q);
    return kfd_events_wait(q->dev, (uint32_t)(ns / 1000000u)) == -EIO && !amd_watch_done(w, point) ? fault(q, e) : 0;
}

static void stands(struct amd_watch *w, char *out, size_t n)
{
    const struct kfd_queue *q = w->user;
    amd_ring_place(&q->ring, out, n);
    size_t len = strlen(out);
    snprintf(out + len, n - len, WAY_OUT);
}

static uint64_t clock_of(struct amd_watch *w)
{
    struct kfd_sys *s = ((struct kfd_queue *)w->user)->dev->sys;
    return s->clock(s);
}

static bool alive(struct amd_watch *w)
{
    return kfd_evictions_look(((struct kfd_queue *)w->user)->dev);
}

static const struct amd_watch_ops watch_ops = { .sleep = sleep_on_events, .stands = stands, .alive = alive, .clock = clock_of };

int kfd_queue_wait(struct kfd_queue *q, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    return amd_watch_wait(&q->ring.watch, point, timeout_ns, e);
}
