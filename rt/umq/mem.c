/* rt/umq/mem.c: memory by libdrm_amdgpu: a buffer, addresses for it, a mapping for the host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/ckd.h"
#include "base/log.h"
#include "rt/umq/drm.h"

/* Large blocks start at such a multiple: page tables need fewer entries. */
#define BIG_ALIGN ((uint64_t)2 << 20)

/* amdgpu_drm.h of Linux 6.5; libdrm's headers before 2.4.118 lack them. */
enum { CREATE_COHERENT = 1 << 13, CREATE_UNCACHED = 1 << 14 };

struct placement {
    uint32_t heap;
    uint64_t create, page;
};

/* Host memory that both poll is uncached for the GPU in the buffer's flags and in the page's memory type; the rest is
 * cached and the frames that the kernel puts around submissions keep it coherent. */
static struct placement placement_of(enum amd_mem_kind kind, bool cached)
{
    const uint64_t page = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;
    struct placement p = { AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, page };
    switch (kind) {
    case AMD_VRAM: p.create |= AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED; break;
    case AMD_PRIVATE: p.create |= AMDGPU_GEM_CREATE_NO_CPU_ACCESS; break;
    case AMD_HOST:
    case AMD_STAGE:
        p.heap = AMDGPU_GEM_DOMAIN_GTT;
        p.create |= AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
        if (!cached) {
            p.create |= CREATE_COHERENT | CREATE_UNCACHED;
            p.page |= AMDGPU_VM_MTYPE_UC;
        }
        break;
    }
    return p;
}

static int heap_free(struct drm_dev *d, uint32_t heap, uint64_t *bytes)
{
    struct drm_amdgpu_memory_info m = { 0 };
    int rc = drm_is_child(d) ? -EPERM : d->lib->amdgpu_query_info(d->dev, AMDGPU_INFO_MEMORY, sizeof m, &m);
    const struct drm_amdgpu_heap_info *h = heap == AMDGPU_GEM_DOMAIN_VRAM ? &m.vram : &m.gtt;
    *bytes = h->usable_heap_size > h->heap_usage ? h->usable_heap_size - h->heap_usage : 0;
    return rc;
}

static int no_room(struct drm_dev *d, uint32_t heap, uint64_t bytes, const char *name, struct err *e)
{
    uint64_t left = 0;
    char size[32];
    bool vram = heap == AMDGPU_GEM_DOMAIN_VRAM;
    heap_free(d, heap, &left);
    if (bytes < 1 << 20)
        snprintf(size, sizeof size, "%llu KiB", (unsigned long long)bytes >> 10);
    else
        snprintf(size, sizeof size, "%.4g MiB", (double)bytes / 1048576.0);
    if (!vram)
        return err_set(e, -ENOMEM, "%s: no room for %s of host memory for %s: %llu MiB free of the %llu that the driver lends "
                       "the GPU (amdgpu.gttsize)", d->tier, size, name, (unsigned long long)(left >> 20),
                       (unsigned long long)(d->gpu.gtt_bytes >> 20));
    return err_set(e, -ENOMEM, "%s: no room for %s for %s on %s: %llu MiB free of %llu: a shorter --ctx, a smaller model, or "
                   "--tier=cpu", d->tier, size, name, d->gpu.name, (unsigned long long)(left >> 20),
                   (unsigned long long)(d->gpu.vram_bytes >> 20));
}

static void remember_freed(struct drm_dev *d, const struct drm_mem *m)
{
    uint32_t i = d->n_freed++ % DRM_FREED_KEPT;
    memcpy(d->freed[i].name, m->name, sizeof m->name);
    d->freed[i].va = m->va;
    d->freed[i].bytes = m->bytes;
}

void drm_mem_free(struct drm_mem *m)
{
    if (!m)
        return;
    struct drm_dev *d = m->dev;
    for (struct drm_mem **at = &d->mem; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            if (m->on_gpu)
                remember_freed(d, m);
            break;
        }
    if (!drm_is_child(d)) { /* else they are the parent's */
        if (m->on_gpu)
            d->lib->amdgpu_bo_va_op_raw(d->dev, m->bo, 0, m->bytes, m->va, 0, AMDGPU_VA_OP_UNMAP);
        if (m->cpu)
            d->lib->amdgpu_bo_cpu_unmap(m->bo);
        if (m->range)
            d->lib->amdgpu_va_range_free(m->range);
        if (m->bo)
            d->lib->amdgpu_bo_free(m->bo);
    }
    free(m);
}

static int fill_in(struct drm_mem *m, struct placement p, struct err *e)
{
    struct drm_dev *d = m->dev;
    const struct drm_lib *l = d->lib;
    struct amdgpu_bo_alloc_request r = { .alloc_size = m->bytes, .phys_alignment = AMD_PAGE, .preferred_heap = p.heap,
                                         .flags = p.create };
    uint64_t align = m->bytes >= BIG_ALIGN ? BIG_ALIGN : AMD_PAGE, left;
    /* A full VRAM is no error to the driver: it goes on to host memory (amdgpu_gem_create_ioctl), or moves others' there. */
    if (heap_free(d, p.heap, &left) == 0 && left < m->bytes)
        return no_room(d, p.heap, m->bytes, m->name, e);
    int rc = l->amdgpu_bo_alloc(d->dev, &r, &m->bo);
    if (rc == -ENOMEM)
        return no_room(d, p.heap, m->bytes, m->name, e);
    if (rc)
        return drm_fail(d, rc, e, "GEM_CREATE of %llu bytes for %s", (unsigned long long)m->bytes, m->name);
    if ((rc = l->amdgpu_va_range_alloc(d->dev, amdgpu_gpu_va_range_general, m->bytes, align, 0, &m->va, &m->range, 0)))
        return drm_fail(d, rc, e, "addresses for %s", m->name);
    if ((rc = l->amdgpu_bo_va_op_raw(d->dev, m->bo, 0, m->bytes, m->va, p.page, AMDGPU_VA_OP_MAP)))
        return drm_fail(d, rc, e, "mapping %s for %s", m->name, d->gpu.name);
    m->on_gpu = true;
    if (!(p.create & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED))
        return 0;
    if ((rc = l->amdgpu_bo_cpu_map(m->bo, &m->cpu))) {
        m->cpu = NULL;
        return drm_fail(d, rc, e, "mapping %s for the host", m->name);
    }
    madvise(m->cpu, m->bytes, MADV_DONTFORK); /* a child must not keep the card's memory */
    return 0;
}

static int make(struct drm_dev *d, enum amd_mem_kind kind, bool cached, uint64_t bytes, const char *name,
                struct drm_mem **out, struct err *e)
{
    *out = NULL;
    if (drm_is_child(d))
        return drm_fail(d, -EPERM, e, "memory for %s", name);
    if (!ckd_align_u64(MAX(bytes, 1u), AMD_PAGE, &bytes) || bytes >> 47)
        return err_set(e, -ENOMEM, "%s: %llu bytes for %s", d->tier, (unsigned long long)bytes, name);
    struct drm_mem *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "%s: memory object", d->tier);
    *m = (struct drm_mem){ .dev = d, .next = d->mem, .kind = kind, .bytes = bytes };
    snprintf(m->name, sizeof m->name, "%s", name);
    d->mem = m;
    d->maps_changed = true;
    int rc = fill_in(m, placement_of(kind, cached), e);
    if (rc) {
        drm_mem_free(m);
        return rc;
    }
    if (kind == AMD_HOST)
        memset(m->cpu, 0, bytes);
    *out = m;
    return 0;
}

int drm_mem_alloc(struct drm_dev *d, enum amd_mem_kind kind, uint64_t bytes, const char *name, struct drm_mem **out,
                  struct err *e)
{
    if (kind == AMD_VRAM && !d->large_bar)
        kind = AMD_PRIVATE;
    int rc = make(d, kind, false, bytes, name, out, e);
    if (rc != -ENOMEM || !d->gpu.chip->apu || (kind != AMD_VRAM && kind != AMD_PRIVATE))
        return rc;
    /* the carve-out is full; the rest of the memory is as fast there, if it is cached */
    struct err second = { 0 };
    if ((rc = make(d, AMD_HOST, true, bytes, name, out, &second)))
        return rc;
    log_debug(UMQ, "%s lies outside the carve-out", name);
    if (e)
        *e = (struct err){ 0 };
    return 0;
}

int drm_mem_available(struct drm_dev *d, uint64_t *bytes, struct err *e)
{
    int rc = heap_free(d, AMDGPU_GEM_DOMAIN_VRAM, bytes);
    return rc ? drm_fail(d, rc, e, "free memory of %s", d->gpu.name) : 0;
}

int drm_mem_handle(const struct drm_mem *m, uint32_t *handle, struct err *e)
{
    int rc = m->dev->lib->amdgpu_bo_export(m->bo, amdgpu_bo_handle_type_kms, handle);
    return rc ? drm_fail(m->dev, rc, e, "the handle of %s", m->name) : 0;
}

const struct drm_mem *drm_mem_at(const struct drm_dev *d, uint64_t va, uint64_t bytes)
{
    for (const struct drm_mem *m = d->mem; m; m = m->next)
        if (m->on_gpu && va >= m->va && va - m->va < m->bytes && bytes <= m->bytes - (va - m->va))
            return m;
    return NULL;
}

const char *drm_mem_check(const struct drm_dev *d, uint64_t va, uint64_t bytes, bool write)
{
    static _Thread_local char text[64];
    const struct drm_mem *m = drm_mem_at(d, va, 1);
    if (m && drm_mem_at(d, va, bytes))
        return NULL;
    if (m) {
        snprintf(text, sizeof text, "beyond the end of %s", m->name);
        return text;
    }
    for (uint32_t i = 0; i < MIN(d->n_freed, (uint32_t)DRM_FREED_KEPT); i++)
        if (va >= d->freed[i].va && va - d->freed[i].va < d->freed[i].bytes) {
            snprintf(text, sizeof text, "freed: %s", d->freed[i].name);
            return text;
        }
    return "unmapped";
}

/* ---- a winsys's ops ---- */

int drm_ops_mem_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name, struct amd_mem *out,
                      struct err *e)
{
    struct drm_mem *m;
    int rc = drm_mem_alloc(w->dev, kind, bytes, name, &m, e);
    if (!rc)
        *out = (struct amd_mem){ .w = w, .kind = m->kind, .name = m->name, .va = m->va, .bytes = m->bytes, .cpu = m->cpu,
                                 .bo = m };
    return rc;
}

void drm_ops_mem_free(struct amd_mem *m)
{
    drm_mem_free(m->bo);
}

int drm_ops_mem_available(struct amd_winsys *w, uint64_t *bytes, struct err *e)
{
    return drm_mem_available(w->dev, bytes, e);
}

const char *drm_ops_mem_check(void *w, uint64_t va, uint64_t bytes, bool write)
{
    return drm_mem_check(((struct amd_winsys *)w)->dev, va, bytes, write);
}

struct amd_winsys drm_winsys(struct drm_dev *d, const struct amd_winsys_ops *ops)
{
    enum { SCRATCH_SLOTS_CU = 32 }; /* cu_info.max_scratch_slots_per_cu in gfx_v11_0.c and gfx_v12_0.c */
    const struct drm_gpu *g = &d->gpu;
    struct amd_winsys w = { .ops = ops, .name = d->tier, .log = LOGM_UMQ, .host_sees_vram = d->large_bar, .dev = d,
                            .ib_align_dw = DRM_IB_ALIGN_DW, .part_launches = DRM_PART_LAUNCHES, .part_ms = DRM_PART_MS };
    w.card = (struct amd_card){ .chip = g->chip, .n_cu = g->n_cu, .n_se = g->n_se, .scratch_slots_cu = SCRATCH_SLOTS_CU,
                                .render_minor = g->render_minor };
    memcpy(w.card.name, g->name, sizeof g->name);
    return w;
}
