/* rt/umq/userq_winsys.c: a card and its user-mode queue as a winsys. */
#include <stdlib.h>
#include <string.h>

#include "rt/umq/userq.h"

enum { IB_ALIGN_DW = 8 }; /* the alignment: of libdrm's clients, ib_size_align in amdgpu_hw_ip_info */

static struct userq_winsys *of(struct amd_winsys *w)
{
    return (struct userq_winsys *)w;
}

/* ---- memory ---- */

static int mem_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name,
                     struct amd_mem *out, struct err *e)
{
    struct drm_mem *m;
    int rc = drm_mem_alloc(of(w)->dev, kind, bytes, name, &m, e);
    if (rc)
        return rc;
    if (of(w)->q)
        of(w)->q->maps_changed = true;
    *out = (struct amd_mem){ .w = w, .kind = m->kind, .name = m->name, .va = m->va, .bytes = m->bytes, .cpu = m->cpu,
                             .bo = m };
    return 0;
}

static void mem_free(struct amd_mem *m)
{
    drm_mem_free(m->bo);
}

static int mem_available(struct amd_winsys *w, uint64_t *bytes, struct err *e)
{
    return drm_mem_available(of(w)->dev, bytes, e);
}

static const char *mem_check(void *w, uint64_t va, uint64_t bytes, bool write)
{
    return drm_mem_check(of(w)->dev, va, bytes, write);
}

/* ---- submissions ---- */

static int submit(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    struct userq *q = of(w)->q;
    q->wrote_vram |= w->host_wrote_vram;
    int rc = userq_submit(q, va, n_dw, point, e);
    if (rc)
        return rc;
    w->host_wrote_vram = false;
    w->point = *point;
    return 0;
}

static int wait(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    return userq_wait(of(w)->q, point, timeout_ns, e);
}

static void rest(struct amd_winsys *w)
{
    if (of(w)->q)
        userq_rest(of(w)->q);
}

static void stop(struct amd_winsys *w)
{
    if (of(w)->q)
        userq_stop(of(w)->q);
}

static void destroy(struct amd_winsys *w)
{
    userq_destroy(of(w)->q);
    drm_close(of(w)->dev);
    free(w);
}

/* ---- for reports ---- */

static void describe(struct amd_winsys *w, FILE *f)
{
    const struct userq *q = of(w)->q;
    if (q) {
        fprintf(f, "user-mode queue %u: ", q->id);
        amd_ring_describe(&q->ring, f);
        fprintf(f, ", %llu system calls since it was made\n", (unsigned long long)q->n_calls);
    }
    drm_describe(of(w)->dev, f);
}

static void describe_queue(struct amd_winsys *w, FILE *f)
{
    amd_ring_dump(&of(w)->q->ring, w, f);
}

/* ---- opening ---- */

static const struct amd_winsys_ops ops = {
    .mem_alloc = mem_alloc, .mem_free = mem_free, .mem_available = mem_available, .mem_check = mem_check,
    .submit = submit, .wait = wait, .rest = rest, .stop = stop, .destroy = destroy,
    .describe = describe, .describe_queue = describe_queue,
};

int userq_winsys_open(const struct drm_gpu *g, struct userq_winsys **out, struct err *e)
{
    struct userq_winsys *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, -ENOMEM, "umq: winsys object");
    int rc = drm_open("umq", g, &w->dev, e);
    if (rc || (rc = userq_offered(w->dev, e))) {
        drm_close(w->dev);
        free(w);
        return rc;
    }
    w->base = (struct amd_winsys){ .ops = &ops, .name = "umq", .log = LOGM_UMQ, .host_sees_vram = w->dev->large_bar,
                                   .ib_align_dw = IB_ALIGN_DW, .submit_words = USERQ_SUBMIT_DW,
                                   .submit_bytes = 4 * USERQ_SUBMIT_DW + 2 * sizeof(uint64_t) };
    w->base.card = (struct amd_card){ .chip = g->chip, .n_cu = g->n_cu, .n_se = g->n_se, .scratch_slots_cu = 32 };
    memcpy(w->base.card.name, g->name, sizeof g->name);
    *out = w;
    return 0;
}

int userq_winsys_queue(struct userq_winsys *w, uint32_t ring_bytes, struct err *e)
{
    int rc = userq_create(w->dev, ring_bytes, &w->q, e);
    if (rc)
        return rc;
    w->base.cells = w->q->ring.watch.cells;
    w->base.cells_va = w->q->cells_mem->va;
    return 0;
}
