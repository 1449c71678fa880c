/* rt/umq/userq_winsys.c: a card and its user-mode queue as a winsys. */
#include <stdlib.h>
#include <string.h>

#include "rt/umq/userq.h"

static struct userq_winsys *of(struct amd_winsys *w)
{
    return (struct userq_winsys *)w;
}

/* ---- submissions ---- */

static int submit(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    struct userq *q = of(w)->q;
    q->wrote_vram |= w->host_wrote_vram;
    return userq_submit(q, va, n_dw, point, e);
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
    amd_describe_machine(of(w)->dev->gpu.render_minor, f);
    drm_describe(of(w)->dev, f);
}

/* ---- opening ---- */

static const struct amd_winsys_ops ops = {
    .mem_alloc = drm_ops_mem_alloc, .mem_free = drm_ops_mem_free, .mem_available = drm_ops_mem_available,
    .mem_check = drm_ops_mem_check, .submit = submit, .wait = amd_ops_wait, .rest = amd_ops_rest, .stop = amd_ops_stop,
    .destroy = destroy, .describe = describe, .describe_queue = amd_ops_describe_queue,
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
    w->base = drm_winsys(w->dev, &ops);
    w->base.submit_words = USERQ_SUBMIT_DW;
    w->base.submit_bytes = 4 * USERQ_SUBMIT_DW + 2 * sizeof(uint64_t);
    *out = w;
    return 0;
}

int userq_winsys_queue(struct userq_winsys *w, uint32_t ring_bytes, struct err *e)
{
    int rc = userq_create(w->dev, ring_bytes, &w->q, e);
    if (rc)
        return rc;
    w->base.ring = &w->q->ring;
    w->base.watch = &w->q->ring.watch;
    w->base.cells = w->q->ring.watch.cells;
    w->base.cells_va = w->q->cells_mem->va;
    return 0;
}
