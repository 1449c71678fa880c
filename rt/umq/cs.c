/* rt/umq/cs.c: a context of the kernel's compute ring: submitting, waiting, and what became of it. */
#include "rt/umq/cs.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/pm4/decode.h"

enum { PREAMBLE_MAX_DW = 128 };
#define STOP_NS 10000000000u /* for what is under way, where no hang is told */

static struct cs_winsys *of(struct amd_winsys *w)
{
    return (struct cs_winsys *)w;
}

/* ---- what became of the context ---- */

/* A reset, in words: whose fault it was, and what the driver noted of a page fault. */
static void reset_text(struct cs_winsys *w, char *out, size_t n)
{
    uint64_t flags = 0;
    char fault[200];
    const struct drm_lib *l = w->dev->lib;
    bool told = w->ctx && l->amdgpu_cs_query_reset_state2(w->ctx, &flags) == 0 &&
                flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_GUILTY);
    drm_fault_text(w->dev, fault, sizeof fault);
    snprintf(out, n, "%s%s%s%s%s",
             !told ? "the submission was cancelled, and the driver tells of no reset"
             : flags & AMDGPU_CTX_QUERY2_FLAGS_GUILTY ? "the GPU was reset: a submission of ours hung or faulted"
                                                      : "the GPU was reset: another program's submission was to blame",
             flags & AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST ? "; its memory was lost" : "", fault[0] ? "; " : "", fault,
             told ? ": open the model again" : "");
}

static int lost(struct cs_winsys *w, struct err *e)
{
    char why[400];
    reset_text(w, why, sizeof why);
    w->watch.dead = true;
    return err_set(e, -EIO, "cs: %s: %s", w->dev->gpu.name, why);
}

/* ---- submissions ---- */

static int submit(struct amd_winsys *base, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    struct cs_winsys *w = of(base);
    struct cs_chunks *c = &w->chunks;
    uint64_t seq = 0;
    if (drm_is_child(w->dev)) /* which does not even have the cells */
        return drm_fail(w->dev, -EPERM, e, "submitting");
    int rc = w->ctx ? amd_watch_begin(&w->watch, e) : amd_watch_dead(&w->watch, e);
    if (rc)
        return rc;
    if (!n_dw || n_dw > AMD_IB_MAX_DW || n_dw % DRM_IB_ALIGN_DW || va % (4 * DRM_IB_ALIGN_DW))
        return err_set(e, -EINVAL, "cs: a submission of %u dwords at 0x%llx; expected 1 to %u, in multiples of %u", n_dw,
                       (unsigned long long)va, (unsigned)AMD_IB_MAX_DW, (unsigned)DRM_IB_ALIGN_DW);
    c->ib.va_start = w->last_va = va;
    c->ib.ib_bytes = 4 * n_dw;
    w->last_dw = n_dw;
    c->done.point = base->point + 1;
    amd_store_fence(); /* write-combined stores to the card's memory come before the HDP flush */
    rc = w->dev->lib->amdgpu_cs_submit_raw2(w->dev->dev, w->ctx, 0, ARRAY_LEN(c->head), c->head, &seq);
    w->n_calls++;
    if (rc == -ECANCELED || rc == -ENODEV)
        return lost(w, e);
    if (rc == -ENOMEM)
        return drm_fail(w->dev, rc, e, "submitting %u dwords: the buffers do not fit the card's memory beside other "
                        "programs'", n_dw);
    if (rc)
        return drm_fail(w->dev, rc, e, "submitting %u dwords at 0x%llx to compute ring %u", n_dw, (unsigned long long)va,
                        w->ring);
    if (seq != base->point + 1) {
        w->watch.dead = true;
        return err_set(e, -EIO, "cs: the kernel gave submission %llu the number %llu", (unsigned long long)base->point + 1,
                       (unsigned long long)seq);
    }
    *point = w->watch.point = seq; /* every submission begins with fresh caches */
    return 0;
}

/* The kernel's fence of the point signals by success or by a reset; the user fence was written before it. */
static int sleep_on_syncobj(struct amd_watch *watch, uint64_t point, uint64_t ns, struct err *e)
{
    struct cs_winsys *w = watch->user;
    uint32_t first;
    w->n_sleeps++;
    int rc = w->dev->lib->amdgpu_cs_syncobj_timeline_wait(w->dev->dev, &w->syncobj, &point, 1, (int64_t)(clock_ns() + ns), 0,
                                                          &first);
    if (!rc)
        return amd_watch_done(watch, point) ? 0 : lost(w, e);
    return rc == -ETIME ? 0 : drm_fail(w->dev, rc, e, "waiting for point %llu", (unsigned long long)point);
}

static void stands(struct amd_watch *w, char *out, size_t n)
{
    char limit[64];
    drm_parameter("lockup_timeout", limit, sizeof limit);
    snprintf(out, n, ", and the driver has not reset it (amdgpu.lockup_timeout=%s)", limit[0] ? limit : "unknown");
    (void)w;
}

static const struct amd_watch_ops watch_ops = { .sleep = sleep_on_syncobj, .stands = stands };

/* Nothing can be called back from the ring: what is under way ends by itself, or by the kernel's timeout. */
static void stop(struct amd_winsys *base)
{
    struct cs_winsys *w = of(base);
    struct err e;
    if (!w->ctx)
        return;
    if (!drm_is_child(w->dev)) {
        char fault[200];
        uint64_t ns = w->watch.hang_ns ? w->watch.hang_ns : STOP_NS;
        if (!w->watch.dead && base->point && !amd_watch_wait(&w->watch, base->point, ns, &e) &&
            drm_last_fault(w->dev).va != w->fault_before) { /* such a read gives 0, and the program goes on */
            drm_fault_text(w->dev, fault, sizeof fault);
            log_warn(UMQ, "%s, without consequences that were seen", fault);
        }
        w->dev->lib->amdgpu_cs_ctx_free(w->ctx);
    }
    w->ctx = NULL;
    w->watch.dead = true;
}

static void destroy(struct amd_winsys *base)
{
    struct cs_winsys *w = of(base);
    stop(base);
    if (w->has_syncobj && !drm_is_child(w->dev))
        w->dev->lib->amdgpu_cs_destroy_syncobj(w->dev->dev, w->syncobj);
    drm_mem_free(w->preamble);
    drm_mem_free(w->cells);
    drm_close(w->dev);
    free(w);
}

/* ---- for reports ---- */

static void describe(struct amd_winsys *base, FILE *f)
{
    struct cs_winsys *w = of(base);
    uint64_t flags = 0;
    int rc = w->ctx ? w->dev->lib->amdgpu_cs_query_reset_state2(w->ctx, &flags) : -ENOENT;
    fprintf(f, "context on compute ring %u: fence %llu of %llu, progress word 0x%x, %llu submissions, %llu waits; ", w->ring,
            base->cells ? (unsigned long long)base->cells->fence : 0, (unsigned long long)base->point,
            base->cells ? base->cells->progress : 0, (unsigned long long)w->n_calls, (unsigned long long)w->n_sleeps);
    if (rc)
        fprintf(f, "its state: %s\n", strerror(-rc));
    else
        fprintf(f, "its state: 0x%llx (reset %d, memory lost %d, guilty %d)\n", (unsigned long long)flags,
                !!(flags & AMDGPU_CTX_QUERY2_FLAGS_RESET), !!(flags & AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST),
                !!(flags & AMDGPU_CTX_QUERY2_FLAGS_GUILTY));
    amd_describe_machine(w->dev->gpu.render_minor, f);
    drm_describe(w->dev, f);
}

static void describe_queue(struct amd_winsys *base, FILE *f)
{
    const struct cs_winsys *w = of(base);
    const struct pm4_view v = { .gen = base->card.chip->gen, .check = drm_ops_mem_check, .user = base };
    if (!w->preamble)
        return;
    fprintf(f, "\nthe newest submission: %u dwords at 0x%llx, behind the preamble:\n", w->last_dw,
            (unsigned long long)w->last_va);
    pm4_print(f, &v, w->preamble->cpu, w->preamble_dw);
}

/* ---- opening ---- */

static const struct amd_winsys_ops ops = {
    .mem_alloc = drm_ops_mem_alloc, .mem_free = drm_ops_mem_free, .mem_available = drm_ops_mem_available,
    .mem_check = drm_ops_mem_check, .submit = submit, .wait = amd_ops_wait, .stop = stop, .destroy = destroy,
    .describe = describe, .describe_queue = describe_queue,
};

int cs_winsys_open(const struct drm_gpu *g, struct cs_winsys **out, struct err *e)
{
    struct cs_winsys *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return err_set(e, -ENOMEM, "cs: winsys object");
    int rc = drm_open("cs", g, &w->dev, e);
    if (rc) {
        free(w);
        return rc;
    }
    amd_watch_init(&w->watch, "cs", w->dev->gpu.name, &watch_ops, w);
    w->fault_before = drm_last_fault(w->dev).va;
    w->base = drm_winsys(w->dev, &ops);
    w->base.watch = &w->watch;
    w->base.submit_words = sizeof w->chunks / 4;
    w->base.submit_bytes = sizeof w->chunks;
    *out = w;
    return 0;
}

static int make_preamble(struct cs_winsys *w, struct err *e)
{
    struct pm4_buf b;
    int rc = drm_mem_alloc(w->dev, AMD_HOST, AMD_PAGE, "preamble", &w->preamble, e);
    if (rc)
        return rc;
    pm4_init(&b, w->base.card.chip->gen, w->preamble->cpu, PREAMBLE_MAX_DW);
    pm4_compute_preamble(&b, w->base.card.n_se);
    amd_ib_pad(&w->base, &b);
    w->preamble_dw = b.n;
    return b.rc ? err_set(e, b.rc, "cs: the preamble: %s", b.why) : 0;
}

/* What stays the same from submission to submission. */
static int fill_chunks(struct cs_winsys *w, struct err *e)
{
    struct cs_chunks *c = &w->chunks;
    struct drm_amdgpu_cs_chunk_ib ib = { .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = w->ring };
    c->ib = c->preamble = ib;
    c->preamble.flags = AMDGPU_IB_FLAG_EMIT_MEM_SYNC; /* the kernel looks at the first IB's */
    c->preamble.va_start = w->preamble->va;
    c->preamble.ib_bytes = 4 * w->preamble_dw;
    c->fence.offset = offsetof(struct amd_cells, fence);
    c->done = (struct drm_amdgpu_cs_chunk_syncobj){ .handle = w->syncobj };
    c->head[0] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_IB, sizeof c->preamble / 4, (uintptr_t)&c->preamble };
    c->head[1] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_IB, sizeof c->ib / 4, (uintptr_t)&c->ib };
    c->head[2] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_FENCE, sizeof c->fence / 4, (uintptr_t)&c->fence };
    c->head[3] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, sizeof c->done / 4,
                                               (uintptr_t)&c->done };
    return drm_mem_handle(w->cells, &c->fence.handle, e);
}

int cs_winsys_context(struct cs_winsys *w, struct err *e)
{
    struct drm_dev *d = w->dev;
    int rc;
    if (!d->gpu.rings)
        return err_set(e, -ENOTSUP, "cs: the kernel offers no compute ring on %s: with amdgpu.user_queue=2 there are user "
                       "queues only; boot with amdgpu.user_queue=1, or --tier=kfd", d->gpu.name);
    w->ring = (uint32_t)__builtin_ctz(d->gpu.rings);
    if (d->gpu.ib_align_bytes > 4 * DRM_IB_ALIGN_DW)
        return err_set(e, -ENOTSUP, "cs: %s wants IBs in multiples of %u bytes, zinc makes them of %u", d->gpu.name,
                       d->gpu.ib_align_bytes, 4 * (unsigned)DRM_IB_ALIGN_DW);
    if ((rc = drm_mem_alloc(d, AMD_HOST, AMD_PAGE, "fence cells", &w->cells, e)) || (rc = make_preamble(w, e)))
        return rc;
    w->base.cells = w->watch.cells = w->cells->cpu;
    w->base.cells_va = w->cells->va;
    if ((rc = d->lib->amdgpu_cs_create_syncobj(d->dev, &w->syncobj)))
        return drm_fail(d, rc, e, "a timeline syncobj");
    w->has_syncobj = true;
    if ((rc = fill_chunks(w, e)))
        return rc;
    if ((rc = d->lib->amdgpu_cs_ctx_create(d->dev, &w->ctx)))
        return drm_fail(d, rc, e, "a context on %s", d->gpu.name);
    log_debug(UMQ, "compute ring %u of 0x%x, preamble of %u dwords", w->ring, d->gpu.rings, w->preamble_dw);
    return 0;
}
