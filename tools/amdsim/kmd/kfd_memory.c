/* Memory through /dev/kfd: the process's GPU address space, buffers, their mappings, SVM ranges, dma-bufs. The rules
 * are those of kfd_chardev.c and amdgpu_amdkfd_gpuvm.c of the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

struct mem {
    bool used, mapped, attached; /* attached: was mapped once, UNMAP is no error any more */
    gva va;
    uint32_t flags;
    struct bo *bo;
};

static struct {
    struct drm_file *drm;   /* whose address space ACQUIRE_VM took; held to the end of the process */
    struct gpuvm *vm;
    struct mem *mem;        /* a handle's low half is the index                                    */
    uint32_t n, cap;
} proc;

struct gpuvm *kfd_vm(void)
{
    return proc.vm;
}

void kfd_fork_child(void)
{
    memset(&proc, 0, sizeof proc);
    kfd_events_forget();
}

static int need_vm(uint32_t gpu_id, const char *call)
{
    if (gpu_id != KMD_GPU_ID)
        return kmd_why(-EINVAL, "%s: gpu_id %u, the card's is %u", call, gpu_id, (unsigned)KMD_GPU_ID);
    if (!proc.vm)
        return kmd_why(-ENODEV, "%s before ACQUIRE_VM", call);
    return 0;
}

int kfd_acquire_vm(void *arg)
{
    const struct kfd_acquire_args *a = arg;
    struct file *f = file_of((int)a->drm_fd);
    if (a->gpu_id != KMD_GPU_ID || !f || f->kind != FILE_RENDER || f->foreign)
        return kmd_why(-EINVAL, "ACQUIRE_VM: gpu_id %u, descriptor %d: expected %u and an open render node",
                       a->gpu_id, (int)a->drm_fd, (unsigned)KMD_GPU_ID);
    if (kmd_injected(KMD_INJECT_VM_BUSY))
        return kmd_why(-EBUSY, "ACQUIRE_VM: --inject vm-busy");
    if (proc.drm)
        return proc.drm == f->drm ? 0 : kmd_why(-EBUSY, "ACQUIRE_VM: this process has taken the address space of "
                                                        "another open of the render node");
    drm_hold(f->drm);
    proc.drm = f->drm;
    proc.vm = drm_vm(f->drm);
    proc.vm->compute = true;
    return 0;
}

/* ---- handles ---- */

static struct mem *mem_of(uint64_t handle)
{
    uint32_t i = (uint32_t)handle;
    return handle >> 32 == KMD_GPU_ID && i < proc.n && proc.mem[i].used ? &proc.mem[i] : NULL;
}

struct bo *kfd_bo_of(uint64_t handle)
{
    struct mem *m = mem_of(handle);
    return m ? m->bo : NULL;
}

static int new_handle(const struct mem *m, uint64_t *handle)
{
    uint32_t i = 0;
    while (i < proc.n && proc.mem[i].used)
        i++;
    if (i == proc.cap) {
        uint32_t cap = proc.cap ? proc.cap * 2 : 64;
        struct mem *p = realloc(proc.mem, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        proc.mem = p;
        proc.cap = cap;
    }
    if (i == proc.n)
        proc.n++;
    proc.mem[i] = *m;
    proc.mem[i].used = true;
    *handle = (uint64_t)KMD_GPU_ID << 32 | i;
    return 0;
}

/* ---- ALLOC ---- */

static int make_bo(const struct kfd_alloc_args *a, struct bo **out)
{
    int err = 0;
    bool is_public = a->flags & KFD_MEM_PUBLIC;
    switch (a->flags & KFD_MEM_DOMAINS) {
    case KFD_MEM_VRAM:
        if (is_public && kmd_options()->small_bar)
            return kmd_why(-EINVAL, "ALLOC: VRAM that is PUBLIC needs a large BAR; this card has a small one");
        if (kmd_injected(KMD_INJECT_VRAM_ENOMEM))
            return kmd_why(-ENOMEM, "ALLOC of VRAM: --inject vram-enomem");
        if (card.vram_used + shared_others(true) + a->bytes > card.opt.vram_bytes)
            return kmd_why(-ENOMEM, "ALLOC of VRAM: KFD's processes would have more than there is");
        *out = bo_create(KMD_VRAM, a->bytes, is_public, &err);
        if (*out) {
            (*out)->kfd = true;
            shared_add(0, (int64_t)(*out)->bytes);
        }
        if (*out)
            (*out)->mappable = true; /* PUBLIC asks for a place that the host sees; without it no flag forbids mapping */
        return err;
    case KFD_MEM_GTT:
        *out = bo_create(KMD_GTT, a->bytes, true, &err);
        return err;
    case KFD_MEM_USERPTR:
        if (!a->mmap_offset || a->mmap_offset % KMD_PAGE)
            return kmd_why(-EINVAL, "ALLOC of a USERPTR: mmap_offset is 0x%llx, expected the address of pages",
                           (unsigned long long)a->mmap_offset);
        if (host_populate((void *)(uintptr_t)a->mmap_offset, (a->bytes + KMD_PAGE - 1) & ~(uint64_t)(KMD_PAGE - 1),
                          a->flags & KFD_MEM_WRITABLE) != 0)
            return kmd_why(-EFAULT, "ALLOC of a USERPTR: 0x%llx bytes at 0x%llx are not the process's memory",
                           (unsigned long long)a->bytes, (unsigned long long)a->mmap_offset);
        *out = bo_create(KMD_USERPTR, a->bytes, false, &err);
        if (*out)
            (*out)->host = (uint8_t *)(uintptr_t)a->mmap_offset;
        return err;
    case KFD_MEM_DOORBELL:
        if (a->bytes != KMD_DOORBELL_BYTES)
            return kmd_why(-EINVAL, "ALLOC of DOORBELL: 0x%llx bytes, expected 0x2000", (unsigned long long)a->bytes);
        *out = bo_create(KMD_DOORBELL, a->bytes, false, &err);
        if (*out)
            (*out)->host = card.kfd_page + KMD_OFF_DOORBELLS;
        return err;
    case KFD_MEM_MMIO:
        if (a->bytes != KMD_PAGE)
            return kmd_why(-EINVAL, "ALLOC of MMIO_REMAP: 0x%llx bytes, expected 0x1000",
                           (unsigned long long)a->bytes);
        *out = bo_create(KMD_MMIO, a->bytes, false, &err);
        if (*out)
            (*out)->host = card.kfd_page + KMD_OFF_MMIO;
        return err;
    default:
        return kmd_why(-EINVAL, "ALLOC: flags 0x%08x, expected one of VRAM, GTT, USERPTR, DOORBELL, MMIO_REMAP",
                       a->flags);
    }
}

static uint64_t mmap_offset_of(const struct bo *bo)
{
    bool plain = kmd_options()->plain_offsets;
    switch (bo->domain) {
    case KMD_MMIO:
        return plain ? (uint64_t)KMD_OFF_MMIO : (uint64_t)KMD_GPU_ID << 46;
    case KMD_DOORBELL:
        return plain ? (uint64_t)KMD_OFF_DOORBELLS : 3ull << 62 | (uint64_t)KMD_GPU_ID << 46;
    case KMD_VRAM:
    case KMD_GTT:
        return bo->off;
    default:
        return 0;
    }
}

int kfd_alloc(void *arg)
{
    struct kfd_alloc_args *a = arg;
    if (a->bytes == 0)
        return kmd_why(-EINVAL, "ALLOC of 0 bytes");
    int rc = need_vm(a->gpu_id, "ALLOC");
    if (rc != 0)
        return rc;
    if (a->va % KMD_PAGE || a->va >> 47 || a->bytes > (1ull << 47) - a->va)
        return kmd_why(-EINVAL, "ALLOC: 0x%llx bytes at va 0x%llx, expected pages below 2^47",
                       (unsigned long long)a->bytes, (unsigned long long)a->va);
    struct mem m = { .va = a->va, .flags = a->flags };
    rc = make_bo(a, &m.bo);
    if (rc == 0 && (rc = new_handle(&m, &a->handle)) != 0)
        bo_unref(m.bo);
    if (rc == 0)
        a->mmap_offset = mmap_offset_of(m.bo);
    return rc;
}

int kfd_free(void *arg)
{
    const struct kfd_free_args *a = arg;
    struct mem *m = mem_of(a->handle);
    if (!m)
        return kmd_why(-EINVAL, "FREE: handle 0x%llx is unknown", (unsigned long long)a->handle);
    if (kfd_is_event_page(a->handle))
        return kmd_why(-EBUSY, "FREE: the event page is in use");
    if (m->mapped)
        return kmd_why(-EBUSY, "FREE: the buffer at 0x%llx is still mapped to the GPU: UNMAP comes first",
                       (unsigned long long)m->va);
    bo_unref(m->bo);
    m->used = false;
    return 0;
}

/* ---- MAP ---- */

static uint32_t page_flags(const struct mem *m)
{
    uint32_t f = 0;
    if (m->flags & KFD_MEM_WRITABLE)
        f |= VM_WRITE;
    if (m->flags & KFD_MEM_EXECUTABLE)
        f |= VM_EXEC;
    if (m->bo->domain <= KMD_USERPTR && !(m->flags & (KFD_MEM_UNCACHED | KFD_MEM_COHERENT | KFD_MEM_EXT_COHERENT)))
        f |= VM_CACHED;
    if (m->bo->domain == KMD_VRAM)
        f |= VM_VRAM;
    if (m->bo->domain != KMD_VRAM || m->bo->cpu_access)
        f |= VM_HOST;
    return f;
}

/* The list of GPUs in MAP and UNMAP: this process knows one. */
static int check_ids(const struct kfd_map_args *a, const char *call)
{
    if (!a->n_ids || a->n_done > a->n_ids)
        return kmd_why(-EINVAL, "%s: %u GPUs, %u done before", call, a->n_ids, a->n_done);
    for (uint32_t i = 0; i < a->n_ids; i++) {
        uint32_t id;
        if (user_read(&id, a->ids + 4ull * i, 4) != 0)
            return kmd_why(-EFAULT, "%s: the list of GPUs at 0x%llx is not readable", call,
                           (unsigned long long)a->ids);
        if (id != KMD_GPU_ID)
            return kmd_why(-EINVAL, "%s: gpu_id %u in the list, the card's is %u", call, id, (unsigned)KMD_GPU_ID);
    }
    return 0;
}

int kfd_map(void *arg)
{
    struct kfd_map_args *a = arg;
    int rc = check_ids(a, "MAP");
    struct mem *m = mem_of(a->handle);
    if (rc == 0 && !m)
        rc = kmd_why(-ENOMEM, "MAP: handle 0x%llx is unknown", (unsigned long long)a->handle);
    if (rc == 0 && !m->mapped) {
        struct mapping map = { .va = m->va, .bytes = m->bo->bytes, .bo = m->bo, .flags = page_flags(m) };
        rc = gpuvm_map(proc.vm, &map);
        m->mapped = m->attached = rc == 0;
    }
    if (rc == 0)
        a->n_done = a->n_ids;
    return rc;
}

int kfd_unmap(void *arg)
{
    struct kfd_map_args *a = arg;
    int rc = check_ids(a, "UNMAP");
    struct mem *m = mem_of(a->handle);
    if (rc == 0 && !m)
        rc = kmd_why(-ENOMEM, "UNMAP: handle 0x%llx is unknown", (unsigned long long)a->handle);
    if (rc == 0 && !m->attached)
        rc = kmd_why(-EINVAL, "UNMAP: the buffer at 0x%llx was never mapped", (unsigned long long)m->va);
    if (rc == 0 && m->mapped) {
        kfd_range_goes(m->va, m->bo->bytes);
        gpuvm_unmap(proc.vm, m->va, m->bo->bytes);
        m->mapped = false;
    }
    if (rc == 0)
        a->n_done = a->n_ids;
    return rc;
}

int kfd_available(void *arg)
{
    struct kfd_available_args *a = arg;
    int rc = need_vm(a->gpu_id, "AVAILABLE_MEMORY");
    if (rc == 0)
        a->bytes = card.opt.vram_bytes - card.vram_used - shared_others(true);
    return rc;
}

/* ---- the process's own memory ---- */

enum { SVM_ACCESS = 2, SVM_ACCESS_IN_PLACE = 3, SVM_NO_ACCESS = 4, SVM_SET_FLAGS = 5, SVM_CLR_FLAGS = 6 };
enum { SVM_FLAG_COHERENT = 2, SVM_FLAG_GPU_RO = 8, SVM_FLAG_GPU_EXEC = 16 };

static int svm_set(const struct kfd_svm_args *a)
{
    uint32_t svm_flags = 0;
    int access = 0; /* 1: asked for, -1: taken away */
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const struct kfd_svm_attr *t = &a->attrs[i];
        bool for_access = t->type >= SVM_ACCESS && t->type <= SVM_NO_ACCESS;
        if (t->type > 7 || (for_access && t->value != KMD_GPU_ID))
            return kmd_why(-EINVAL, "SVM: attribute %u with value 0x%x", t->type, t->value);
        if (for_access)
            access = t->type == SVM_NO_ACCESS ? -1 : 1;
        if (t->type == SVM_SET_FLAGS)
            svm_flags |= t->value;
        if (t->type == SVM_CLR_FLAGS)
            svm_flags &= ~t->value;
    }
    if (!access)
        return 0;
    if (access > 0 && host_populate((void *)(uintptr_t)a->start, a->bytes, !(svm_flags & SVM_FLAG_GPU_RO)) != 0)
        return kmd_why(-EFAULT, "SVM: 0x%llx bytes at 0x%llx are not the process's memory",
                       (unsigned long long)a->bytes, (unsigned long long)a->start);
    struct mapping *old = gpuvm_find(proc.vm, a->start);
    if (old && !old->bo)
        gpuvm_unmap(proc.vm, a->start, a->bytes);
    if (access < 0)
        return 0;
    struct mapping m = { .va = a->start, .bytes = a->bytes, .flags = VM_HOST };
    m.flags |= (svm_flags & SVM_FLAG_GPU_RO ? 0u : VM_WRITE) | (svm_flags & SVM_FLAG_GPU_EXEC ? VM_EXEC : 0u) |
               (svm_flags & SVM_FLAG_COHERENT ? 0u : VM_CACHED);
    return gpuvm_map(proc.vm, &m);
}

/* Ranges of the process's memory at their own addresses. Without retry faults a range is usable by the GPU only when
 * access was asked for, and then mapped at once. */
int kfd_svm(void *arg, unsigned size)
{
    struct kfd_svm_args *a = arg;
    if (!proc.vm)
        return kmd_why(-ENODEV, "SVM before ACQUIRE_VM");
    if (size < sizeof *a || a->n_attrs > (size - sizeof *a) / sizeof a->attrs[0])
        return kmd_why(-EINVAL, "SVM: %u attributes do not fit the %u bytes of the request", a->n_attrs, size);
    if ((a->start | a->bytes) % KMD_PAGE || !a->bytes || a->start >> 47 || a->op > 1)
        return kmd_why(-EINVAL, "SVM: operation %u on 0x%llx bytes at 0x%llx", a->op, (unsigned long long)a->bytes,
                       (unsigned long long)a->start);
    if (a->op == 0)
        return svm_set(a);
    const struct mapping *m = gpuvm_find(proc.vm, a->start);
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        if (a->attrs[i].type <= 1)
            a->attrs[i].value = 0xffffffffu; /* no preferred place */
        else if (a->attrs[i].type == SVM_ACCESS)
            a->attrs[i].type = m && !m->bo ? SVM_ACCESS_IN_PLACE : SVM_NO_ACCESS;
    }
    return 0;
}

/* ---- dma-bufs ---- */

int kfd_export_dmabuf(void *arg)
{
    struct kfd_export_args *a = arg;
    struct mem *m = mem_of(a->handle);
    if (!m || m->bo->domain > KMD_GTT || (a->flags & ~(uint32_t)(O_CLOEXEC | O_ACCMODE)))
        return kmd_why(-EINVAL, "EXPORT_DMABUF: handle 0x%llx, flags 0x%x: expected a buffer in VRAM or GTT",
                       (unsigned long long)a->handle, a->flags);
    struct file *f = file_new(FILE_DMABUF);
    int fd = f ? file_reopen(card.mem_fd, O_RDWR | O_CLOEXEC) : -ENOMEM;
    if (fd < 0) {
        free(f);
        return fd;
    }
    f->bo = m->bo;
    bo_ref(m->bo);
    int rc = file_install(fd, f);
    if (rc < 0)
        syscall(SYS_close, fd);
    else
        a->fd = (uint32_t)fd;
    return rc;
}

static struct bo *dmabuf_of(uint32_t fd)
{
    struct file *f = file_of((int)fd);
    return f && f->kind == FILE_DMABUF && !f->foreign ? f->bo : NULL;
}

int kfd_import_dmabuf(void *arg)
{
    struct kfd_import_args *a = arg;
    int rc = need_vm(a->gpu_id, "IMPORT_DMABUF");
    struct bo *bo = dmabuf_of(a->fd);
    if (rc == 0 && !bo)
        rc = kmd_why(-EINVAL, "IMPORT_DMABUF: descriptor %d is not a dma-buf of this card", (int)a->fd);
    struct mem m = { .va = a->va, .bo = bo, .flags = KFD_MEM_WRITABLE | KFD_MEM_EXECUTABLE };
    if (rc == 0 && (rc = new_handle(&m, &a->handle)) == 0)
        bo_ref(bo);
    return rc;
}

int kfd_dmabuf_info(void *arg)
{
    struct kfd_dmabuf_info_args *a = arg;
    struct bo *bo = dmabuf_of(a->fd);
    if (!bo)
        return kmd_why(-EINVAL, "GET_DMABUF_INFO: descriptor %d is not a dma-buf of this card", (int)a->fd);
    a->bytes = bo->bytes;
    a->gpu_id = KMD_GPU_ID;
    a->flags = (bo->domain == KMD_VRAM ? KFD_MEM_VRAM : KFD_MEM_GTT) | (bo->cpu_access ? KFD_MEM_PUBLIC : 0);
    if (a->metadata_bytes > bo->metadata_bytes)
        a->metadata_bytes = bo->metadata_bytes;
    return user_write(a->metadata_ptr, bo->metadata, a->metadata_bytes);
}
