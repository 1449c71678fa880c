/* rt/kfd/winsys.c: a device and its queue as a winsys. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/kfd/priv.h"

_Static_assert((int)KFD_VRAM == AMD_VRAM && (int)KFD_PRIVATE == AMD_PRIVATE && (int)KFD_HOST == AMD_HOST &&
               (int)KFD_STAGE == AMD_STAGE, "the same kinds");

static struct kfd_winsys *of(struct amd_winsys *w)
{
    return (struct kfd_winsys *)w;
}

/* ---- memory ---- */

static int mem_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name,
                     struct amd_mem *out, struct err *e)
{
    struct kfd_mem *m;
    int rc = kfd_mem_alloc(of(w)->dev, (enum kfd_mem_kind)kind, bytes, name, &m, e);
    if (rc)
        return rc;
    *out = (struct amd_mem){ .w = w, .kind = (enum amd_mem_kind)m->kind, .name = m->name, .va = m->va,
                             .bytes = m->bytes, .cpu = m->cpu, .bo = m };
    return 0;
}

static void mem_free(struct amd_mem *m)
{
    kfd_mem_free(m->bo);
}

static int mem_available(struct amd_winsys *w, uint64_t *bytes, struct err *e)
{
    return kfd_mem_available(of(w)->dev, bytes, e);
}

static const char *mem_check(void *w, uint64_t va, uint64_t bytes, bool write)
{
    return kfd_mem_check(of(w)->dev, va, bytes, write);
}

/* ---- submissions ---- */

static int submit(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    struct kfd_winsys *k = of(w);
    uint32_t dw[PM4_DW_INDIRECT_BUFFER];
    struct pm4_buf b;
    pm4_init(&b, w->card.chip->gen, dw, PM4_DW_INDIRECT_BUFFER);
    pm4_indirect_buffer(&b, va, n_dw, 0);
    if (b.rc)
        return err_set(e, b.rc, "kfd: a submission of %u dwords: %s", n_dw, b.why);
    k->dev->host_wrote_vram |= w->host_wrote_vram;
    return kfd_queue_submit(k->q, dw, PM4_DW_INDIRECT_BUFFER, point, e);
}

/* Processes that have /dev/kfd open, this one among them, perhaps by another number than in a container of its own. */
static uint32_t others(struct amd_winsys *w, const char **where)
{
    enum { MOST = 64 };
    uint32_t pid[MOST];
    *where = "/sys/class/kfd/kfd/proc";
    int n = kfd_sys_list(of(w)->dev->sys, *where, pid, MOST);
    return n > 1 ? (uint32_t)n - 1 : 0;
}

static void destroy(struct amd_winsys *w)
{
    kfd_queue_destroy(of(w)->q);
    kfd_close(of(w)->dev);
    free(w);
}

/* ---- for reports ---- */

static void describe(struct amd_winsys *w, FILE *f)
{
    static const char *const kinds[] = { "vram", "private vram", "host", "host", "user" };
    const struct kfd_winsys *k = of(w);
    const struct kfd_queue *q = k->q;
    const struct kfd_gpu *g = &k->dev->gpu;
    const struct kfd_fault *t = &k->dev->fault;
    char text[200];
    fprintf(f, "device: %s, node %u, gpu id %u, firmware %u, driver interface 1.%u, %s\n", g->name, g->node,
            g->gpu_id, g->mec_firmware, k->dev->version_minor, k->dev->large_bar ? "large BAR" : "small BAR");
    amd_describe_machine(g->render_minor, f);
    if (q) {
        fprintf(f, "queue %u: ", q->id);
        amd_ring_describe(&q->ring, f);
        fprintf(f, "\n");
    }
    char path[96], away[32] = "";
    snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/stats_%u/evicted_ms", (int)getpid(), g->gpu_id);
    kfd_sys_read(k->dev->sys, path, away, sizeof away);
    away[strcspn(away, "\n")] = 0;
    fprintf(f, "evictions that were seen: %llu%s; off the card for %s ms\n", (unsigned long long)k->dev->evictions.n,
            k->dev->evictions.fd < 0 ? " (this driver does not tell)" : k->dev->evictions.away ? ", and it is off now" : "",
            away[0] ? away : "?");
    kfd_fault_text(k->dev, text, sizeof text);
    fprintf(f, "driver's record: %s\n", text);
    if (t->memory)
        fprintf(f, "  memory: va 0x%llx, not present %d, read only %d, no execute %d\n", (unsigned long long)t->va,
                t->not_present, t->read_only, t->no_execute);
    if (t->hardware && t->told)
        fprintf(f, "  hardware: reset type %u, cause %u, memory lost %u\n", t->reset_type, t->reset_cause,
                t->memory_lost);
    fprintf(f, "\nbuffers\n");
    for (const struct kfd_mem *m = k->dev->mem; m; m = m->next)
        fprintf(f, "  0x%012llx %12llu  %-12s %s\n", (unsigned long long)m->va, (unsigned long long)m->bytes,
                kinds[m->kind], m->name);
}

/* ---- opening ---- */

static const struct amd_winsys_ops ops = {
    .mem_alloc = mem_alloc, .mem_free = mem_free, .mem_available = mem_available, .mem_check = mem_check,
    .submit = submit, .wait = amd_ops_wait, .rest = amd_ops_rest, .stop = amd_ops_stop, .others = others, .destroy = destroy,
    .describe = describe, .describe_queue = amd_ops_describe_queue,
};

int kfd_winsys_open(const struct kfd_gpu *g, struct kfd_winsys **out, struct err *e)
{
    enum { WORDS = PM4_DW_INDIRECT_BUFFER + KFD_FENCE_DW };
    struct kfd_winsys *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, -ENOMEM, "kfd: winsys object");
    int rc = kfd_open(g, &w->dev, e);
    if (rc) {
        free(w);
        return rc;
    }
    w->base = (struct amd_winsys){ .ops = &ops, .name = "kfd", .log = LOGM_KFD, .host_sees_vram = w->dev->large_bar,
                                   .ib_align_dw = 1, .saves_waves = true, .submit_words = WORDS,
                                   .submit_bytes = 4 * WORDS + 2 * sizeof(uint64_t) };
    w->base.card = (struct amd_card){ .chip = g->chip, .n_cu = g->n_cu, .n_se = g->n_se,
                                      .scratch_slots_cu = g->scratch_slots_cu, .render_minor = g->render_minor };
    memcpy(w->base.card.name, g->name, sizeof g->name);
    *out = w;
    return 0;
}

int kfd_winsys_queue(struct kfd_winsys *w, uint32_t ring_bytes, struct err *e)
{
    int rc = kfd_queue_create(w->dev, ring_bytes, &w->q, e);
    if (rc)
        return rc;
    w->base.ring = &w->q->ring;
    w->base.watch = &w->q->ring.watch;
    w->base.cells = w->q->ring.watch.cells;
    w->base.cells_va = w->q->cells_mem->va;
    return 0;
}
