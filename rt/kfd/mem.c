/* rt/kfd/mem.c: memory. Addresses are reserved on the host first and used by both sides. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "rt/kfd/priv.h"

/* Large blocks start at such a multiple: page tables need fewer entries. */
#define BIG_ALIGN ((uint64_t)2 << 20)

/* The flags that every client of the driver passes for these uses. */
static uint32_t flags_of(enum kfd_mem_kind kind)
{
    uint32_t all = KFD_ALLOC_WRITABLE | KFD_ALLOC_EXECUTABLE | KFD_ALLOC_NO_SUBSTITUTE;
    switch (kind) {
    case KFD_VRAM: return all | KFD_ALLOC_VRAM | KFD_ALLOC_PUBLIC;
    case KFD_PRIVATE: return all | KFD_ALLOC_VRAM;
    case KFD_HOST:
    case KFD_STAGE: return all | KFD_ALLOC_GTT | KFD_ALLOC_COHERENT | KFD_ALLOC_UNCACHED | KFD_ALLOC_PUBLIC;
    case KFD_USER: return all | KFD_ALLOC_USERPTR | KFD_ALLOC_PUBLIC;
    }
    return 0;
}

static int reserve(struct kfd_dev *d, uint64_t bytes, uint64_t align, void **out, struct err *e)
{
    void *p;
    int rc = kfd_sys_map(d->sys, NULL, bytes + align, -1, 0, &p);
    if (rc)
        return kfd_fail(rc, e, "reserving %llu MiB of addresses", (unsigned long long)(bytes >> 20));
    uint64_t at = (uintptr_t)p, from = align_up(at, align), end = at + bytes + align;
    if (from > at)
        kfd_sys_unmap(d->sys, p, from - at);
    if (end > from + bytes)
        kfd_sys_unmap(d->sys, (void *)(uintptr_t)(from + bytes), end - from - bytes);
    *out = (void *)(uintptr_t)from;
    if (from >= d->va_first && from + bytes - 1 <= d->va_last)
        return 0;
    kfd_sys_unmap(d->sys, *out, bytes);
    return err_set(e, -ENOMEM, "kfd: the host's addresses %llx.. are outside the GPU's %llx..%llx",
                   (unsigned long long)from, (unsigned long long)d->va_first, (unsigned long long)d->va_last);
}

static int alloc_failed(struct kfd_dev *d, int rc, uint64_t bytes, uint32_t flags, const char *name, struct err *e)
{
    bool vram = flags & KFD_ALLOC_VRAM;
    char size[32];
    uint64_t free_bytes = 0;
    if (bytes < 1 << 20)
        snprintf(size, sizeof size, "%llu KiB", (unsigned long long)bytes >> 10);
    else
        snprintf(size, sizeof size, "%.4g MiB", (double)bytes / 1048576.0);
    if (rc == -EINVAL && (flags & KFD_ALLOC_PUBLIC) && vram)
        return err_set(e, rc, "kfd: %s: the host cannot see the memory of %s: enable resizable BAR and Above 4G "
                       "decoding in the firmware", name, d->gpu.name);
    if (rc != -ENOMEM)
        return kfd_fail(rc, e, "%s for %s", size, name);
    if (!vram)
        return err_set(e, rc, "kfd: no room for %s of host memory for %s (the driver lends the GPU a share of "
                       "it): a smaller --ctx or model, or --tier=cpu", size, name);
    kfd_mem_available(d, &free_bytes, NULL);
    return err_set(e, rc, "kfd: no room for %s for %s: %s has %llu MiB free of %llu: a smaller --ctx or "
                   "model, or --tier=cpu", size, name, d->gpu.name, (unsigned long long)(free_bytes >> 20),
                   (unsigned long long)(d->gpu.vram_bytes >> 20));
}

static void remember_freed(struct kfd_dev *d, const struct kfd_mem *m)
{
    uint32_t i = d->n_freed++ % KFD_FREED_KEPT;
    memcpy(d->freed[i].name, m->name, sizeof m->name);
    d->freed[i].va = m->va;
    d->freed[i].bytes = m->bytes;
}

void kfd_mem_free(struct kfd_mem *m)
{
    if (!m)
        return;
    struct kfd_dev *d = m->dev;
    for (struct kfd_mem **at = &d->mem; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            remember_freed(d, m);
            break;
        }
    if (!kfd_is_child(d)) { /* a child has neither the mapping nor the right */
        uint32_t id = d->gpu.gpu_id;
        struct kfd_map un = { .handle = m->handle, .gpu_ids = (uintptr_t)&id, .n_gpus = 1 };
        if (m->on_gpu)
            kfd_call(d, KFD_IOC_UNMAP_MEMORY_FROM_GPU, &un);
        if (m->handle)
            kfd_call(d, KFD_IOC_FREE_MEMORY_OF_GPU, &(struct kfd_free){ .handle = m->handle });
        if (m->kind != KFD_USER)
            kfd_sys_unmap(d->sys, (void *)(uintptr_t)m->va, m->bytes);
    }
    free(m);
}

/* Allocates, maps for the GPU and, where the flags say so, for the host; m->va is set. */
static int alloc_and_map(struct kfd_mem *m, uint32_t flags, uint64_t user, struct err *e)
{
    struct kfd_dev *d = m->dev;
    uint32_t id = d->gpu.gpu_id;
    struct kfd_alloc a = { .va = m->va, .bytes = m->bytes, .mmap_offset = user, .gpu_id = id, .flags = flags };
    int rc = kfd_call(d, KFD_IOC_ALLOC_MEMORY_OF_GPU, &a);
    if (rc)
        return alloc_failed(d, rc, m->bytes, flags, m->name, e);
    m->handle = a.handle;
    if ((flags & KFD_ALLOC_PUBLIC) && !(flags & KFD_ALLOC_USERPTR)) {
        void *p;
        if ((rc = kfd_sys_map(d->sys, (void *)(uintptr_t)m->va, m->bytes, d->drm_fd, a.mmap_offset, &p)))
            return kfd_fail(rc, e, "mapping %s for the host", m->name);
        m->at_host = true;
        kfd_sys_dontfork(d->sys, p, m->bytes);
        m->cpu = p;
    }
    struct kfd_map map = { .handle = a.handle, .gpu_ids = (uintptr_t)&id, .n_gpus = 1 };
    if ((rc = kfd_call(d, KFD_IOC_MAP_MEMORY_TO_GPU, &map)))
        return rc == -ENOMEM ? alloc_failed(d, rc, m->bytes, flags, m->name, e)
                             : kfd_fail(rc, e, "mapping %s for %s", m->name, d->gpu.name);
    m->on_gpu = true;
    return 0;
}

static struct kfd_mem *new_mem(struct kfd_dev *d, enum kfd_mem_kind kind, uint64_t bytes, const char *name)
{
    struct kfd_mem *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->dev = d;
    m->kind = kind;
    m->bytes = bytes;
    snprintf(m->name, sizeof m->name, "%s", name);
    m->next = d->mem;
    d->mem = m;
    return m;
}

int kfd_mem_make(struct kfd_dev *d, enum kfd_mem_kind kind, uint64_t bytes, uint32_t flags, const char *name,
                 struct kfd_mem **out, struct err *e)
{
    void *at = NULL;
    *out = NULL;
    if (kfd_is_child(d))
        return kfd_fail(-EPERM, e, "memory for %s", name);
    if (!ckd_align_u64(MAX(bytes, 1u), KFD_PAGE, &bytes) || bytes > d->va_last)
        return err_set(e, -ENOMEM, "kfd: %llu bytes for %s", (unsigned long long)bytes, name);
    int rc = reserve(d, bytes, bytes >= BIG_ALIGN ? BIG_ALIGN : KFD_PAGE, &at, e);
    if (rc)
        return rc;
    struct kfd_mem *m = new_mem(d, kind, bytes, name);
    if (!m) {
        kfd_sys_unmap(d->sys, at, bytes);
        return err_set(e, -ENOMEM, "kfd: memory object");
    }
    m->va = (uintptr_t)at;
    if ((rc = alloc_and_map(m, flags, 0, e))) {
        kfd_mem_free(m);
        return rc;
    }
    if (kind == KFD_HOST && m->cpu)
        memset(m->cpu, 0, bytes);
    *out = m;
    return 0;
}

int kfd_mem_alloc(struct kfd_dev *d, enum kfd_mem_kind kind, uint64_t bytes, const char *name, struct kfd_mem **out,
                  struct err *e)
{
    if (kind == KFD_VRAM && !d->large_bar)
        kind = KFD_PRIVATE;
    int rc = kfd_mem_make(d, kind, bytes, flags_of(kind), name, out, e);
    if (rc != -ENOMEM || !d->gpu.chip->apu || (kind != KFD_VRAM && kind != KFD_PRIVATE))
        return rc;
    /* The carve-out is full; the rest of the memory is as fast there, as long as it goes through the GPU's cache, which
     * UNCACHED passes by. Coherence is what it is for VRAM: fresh caches before, a write-back behind a submission. */
    struct err second = { 0 };
    if ((rc = kfd_mem_make(d, KFD_VRAM, bytes, KFD_ALLOC_WRITABLE | KFD_ALLOC_EXECUTABLE | KFD_ALLOC_NO_SUBSTITUTE |
                           KFD_ALLOC_GTT | KFD_ALLOC_PUBLIC, name, out, &second)))
        return rc;
    log_debug(KFD, "%s lies outside the carve-out", name);
    if (e)
        *e = (struct err){ 0 };
    return 0;
}

int kfd_mem_user(struct kfd_dev *d, void *p, uint64_t bytes, const char *name, struct kfd_mem **out, struct err *e)
{
    *out = NULL;
    if ((uintptr_t)p % KFD_PAGE || bytes % KFD_PAGE || !bytes)
        return err_set(e, -EINVAL, "kfd: %s: memory of the process is given to the GPU in whole pages", name);
    struct kfd_mem *m = new_mem(d, KFD_USER, bytes, name);
    if (!m)
        return err_set(e, -ENOMEM, "kfd: memory object");
    m->va = (uintptr_t)p;
    m->cpu = p;
    int rc = alloc_and_map(m, flags_of(KFD_USER), (uintptr_t)p, e);
    if (rc) {
        kfd_mem_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

int kfd_mem_available(struct kfd_dev *d, uint64_t *bytes, struct err *e)
{
    struct kfd_available a = { .gpu_id = d->gpu.gpu_id };
    int rc = kfd_call(d, KFD_IOC_AVAILABLE_MEMORY, &a);
    *bytes = a.bytes;
    return rc ? kfd_fail(rc, e, "AVAILABLE_MEMORY of %s", d->gpu.name) : 0;
}

const struct kfd_mem *kfd_mem_at(const struct kfd_dev *d, uint64_t va, uint64_t bytes)
{
    for (const struct kfd_mem *m = d->mem; m; m = m->next)
        if (m->on_gpu && va >= m->va && va - m->va < m->bytes && bytes <= m->bytes - (va - m->va))
            return m;
    return NULL;
}

const char *kfd_mem_check(void *user, uint64_t va, uint64_t bytes, bool write)
{
    static _Thread_local char text[64];
    const struct kfd_dev *d = user;
    const struct kfd_mem *m = kfd_mem_at(d, va, 1);
    if (m && kfd_mem_at(d, va, bytes))
        return NULL;
    if (m) {
        snprintf(text, sizeof text, "beyond the end of %s", m->name);
        return text;
    }
    for (uint32_t i = 0; i < MIN(d->n_freed, (uint32_t)KFD_FREED_KEPT); i++)
        if (va >= d->freed[i].va && va - d->freed[i].va < d->freed[i].bytes) {
            snprintf(text, sizeof text, "freed: %s", d->freed[i].name);
            return text;
        }
    return "unmapped";
}
