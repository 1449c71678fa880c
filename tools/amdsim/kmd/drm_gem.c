/* Buffers of the render node: GEM handles, their addresses in the file's GPU address space, lists, sharing. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/amdsim/kmd/drm.h"

enum { DOMAIN_CPU = 1, DOMAIN_GTT = 2, DOMAIN_VRAM = 4, DOMAIN_DOORBELL = 0x40, GEM_NO_CPU_ACCESS = 2, GEM_COHERENT = 1 << 13,
       GEM_UNCACHED = 1 << 14, GEM_ALWAYS_VALID = 1 << 6 };
enum { VA_MAP = 1, VA_UNMAP, VA_CLEAR, VA_REPLACE };
enum { PAGE_WRITEABLE = 4, PAGE_EXECUTABLE = 8, PAGE_PRT = 16, MTYPE_SHIFT = 5, MTYPE_UC = 4 };

static struct bo *bo_of(struct drm_file *d, uint32_t handle, const char *call)
{
    struct bo *bo = table_get(&d->bos, handle);
    if (!bo)
        kmd_why(-ENOENT, "%s: buffer handle %u is unknown", call, handle);
    return bo;
}

/* Doorbells of user queues: a page of the card's register space, here memory whose cells the command processor watches.
 * Kernels before 6.16 keep the domain to themselves. */
static int doorbell_create(struct drm_file *d, union drm_gem_create_args *a)
{
    int err = -ENOMEM;
    uint32_t handle;
    if (kmd_options()->kernel < 6016 || !a->bytes || a->bytes > KMD_DOORBELL_BYTES)
        return kmd_why(-EINVAL, "GEM_CREATE: 0x%llx bytes of doorbells%s", (unsigned long long)a->bytes,
                       kmd_options()->kernel < 6016 ? ": not before Linux 6.16" : "");
    struct bo *bo = bo_create(KMD_GTT, a->bytes, true, &err);
    if (!bo)
        return err;
    bo->doorbell = true;
    bo->drm_domains = DOMAIN_DOORBELL;
    bo->drm_flags = (uint32_t)a->flags;
    memset(bo->host, 0xff, bo->bytes);
    int rc = table_add(&d->bos, bo, &handle);
    if (rc != 0) {
        bo_unref(bo);
        return rc;
    }
    memset(a, 0, sizeof *a);
    a->out.handle = handle;
    return 0;
}

int drm_gem_create(struct drm_file *d, void *arg)
{
    union drm_gem_create_args *a = arg;
    uint64_t domains = a->domains, flags = a->flags;
    if (domains == DOMAIN_DOORBELL)
        return doorbell_create(d, a);
    if (!a->bytes || !(domains & (DOMAIN_CPU | DOMAIN_GTT | DOMAIN_VRAM)) ||
        (domains & ~(uint64_t)(DOMAIN_CPU | DOMAIN_GTT | DOMAIN_VRAM)))
        return kmd_why(-EINVAL, "GEM_CREATE: %llu bytes in domains 0x%llx; CPU, GTT and VRAM are modelled",
                       (unsigned long long)a->bytes, (unsigned long long)domains);
    int err = -ENOMEM;
    struct bo *bo = NULL;
    bool cpu_access = !(flags & GEM_NO_CPU_ACCESS);
    if ((domains & DOMAIN_VRAM) && !kmd_injected(KMD_INJECT_VRAM_ENOMEM))
        bo = bo_create(KMD_VRAM, a->bytes, cpu_access, &err);
    if (!bo) /* who asks for VRAM alone gets host memory as well when it is full: amdgpu_gem_create_ioctl */
        bo = bo_create(KMD_GTT, a->bytes, cpu_access, &err);
    if (!bo)
        return err;
    bo->drm_flags = (uint32_t)flags;
    bo->drm_domains = (uint32_t)domains;
    uint32_t handle;
    int rc = table_add(&d->bos, bo, &handle);
    if (rc != 0) {
        bo_unref(bo);
        return rc;
    }
    memset(a, 0, sizeof *a);
    a->out.handle = handle;
    return 0;
}

int drm_gem_mmap(struct drm_file *d, void *arg)
{
    union drm_gem_mmap_args *a = arg;
    struct bo *bo = bo_of(d, a->handle, "GEM_MMAP");
    if (!bo)
        return -ENOENT;
    if (!bo->cpu_access)
        return kmd_why(-EPERM, "GEM_MMAP: the buffer is a user pointer or was made with NO_CPU_ACCESS");
    a->offset = bo->off;
    return 0;
}

static int unmap(struct drm_file *d, gva va, uint64_t bytes)
{
    drm_userq_range_goes(d, va, bytes);
    return gpuvm_unmap(d->vm, va, bytes);
}

int drm_gem_close(struct drm_file *d, void *arg)
{
    const struct drm_gem_close_args *a = arg;
    struct bo *bo = table_remove(&d->bos, a->handle);
    if (!bo)
        return kmd_why(-EINVAL, "GEM_CLOSE: buffer handle %u is unknown", a->handle);
    bool elsewhere = false;
    for (uint32_t i = 1; i <= d->bos.n && !elsewhere; i++)
        elsewhere = table_get(&d->bos, i) == bo;
    for (uint32_t i = 0; i < d->vm->n && !elsewhere;) /* its addresses go with the last handle */
        if (d->vm->maps[i].bo == bo)
            unmap(d, d->vm->maps[i].va, d->vm->maps[i].bytes);
        else
            i++;
    bo_unref(bo);
    return 0;
}

static uint32_t page_flags(const struct bo *bo, uint32_t flags)
{
    uint32_t mtype = flags >> MTYPE_SHIFT & 15, f = 0;
    f |= flags & PAGE_WRITEABLE ? VM_WRITE : 0;
    f |= flags & PAGE_EXECUTABLE ? VM_EXEC : 0;
    f |= mtype != MTYPE_UC && !(bo->drm_flags & (GEM_COHERENT | GEM_UNCACHED)) ? VM_CACHED : 0;
    f |= bo->domain == KMD_VRAM ? VM_VRAM : 0;
    return f | (bo->domain != KMD_VRAM || bo->cpu_access ? VM_HOST : 0);
}

static int va_map(struct drm_file *d, const struct drm_gem_va_args *a)
{
    if (a->flags & PAGE_PRT)
        return kmd_why(-EINVAL, "GEM_VA: partially resident mappings are not modelled");
    struct bo *bo = bo_of(d, a->handle, "GEM_VA");
    if (!bo)
        return -ENOENT;
    if (bo->doorbell)
        return kmd_why(-EINVAL, "GEM_VA: doorbells for the GPU's own use are not modelled");
    if (a->off % KMD_PAGE || a->off > bo->bytes || a->bytes > bo->bytes - a->off)
        return kmd_why(-EINVAL, "GEM_VA: 0x%llx bytes at 0x%llx of a buffer of 0x%llx", (unsigned long long)a->bytes,
                       (unsigned long long)a->off, (unsigned long long)bo->bytes);
    struct mapping m = { .va = a->va, .bytes = a->bytes, .bo = bo, .bo_off = a->off,
                         .flags = page_flags(bo, a->flags) };
    return gpuvm_map(d->vm, &m);
}

int drm_gem_va(struct drm_file *d, void *arg)
{
    const struct drm_gem_va_args *a = arg;
    if (a->va < DRM_VA_START || (a->va | a->bytes) % KMD_PAGE || !a->bytes)
        return kmd_why(-EINVAL, "GEM_VA: 0x%llx bytes at 0x%llx, expected pages from 0x%x on",
                       (unsigned long long)a->bytes, (unsigned long long)a->va, (unsigned)DRM_VA_START);
    int rc = 0;
    const struct mapping *m;
    switch (a->op) {
    case VA_MAP:
        rc = va_map(d, a);
        break;
    case VA_UNMAP:
        m = gpuvm_find(d->vm, a->va);
        rc = m && m->va == a->va ? unmap(d, m->va, m->bytes)
                                 : kmd_why(-ENOENT, "GEM_VA: no mapping begins at 0x%llx", (unsigned long long)a->va);
        break;
    case VA_CLEAR:
        rc = unmap(d, a->va, a->bytes);
        break;
    case VA_REPLACE:
        rc = unmap(d, a->va, a->bytes);
        rc = rc == 0 ? va_map(d, a) : rc;
        break;
    default:
        rc = kmd_why(-EINVAL, "GEM_VA: operation %u", a->op);
    }
    if (rc == 0 && a->op != VA_UNMAP && a->op != VA_CLEAR) {
        __atomic_store_n(&d->maps_unseen, true, __ATOMIC_RELAXED);
        d->map_syncobj = a->syncobj;
        d->map_point = a->point;
    }
    if (rc == 0 && a->syncobj) { /* page tables are current when the call returns */
        struct fence *f = fence_new(0);
        if (!f)
            return -ENOMEM;
        f->done = true;
        rc = syncobj_attach(d, a->syncobj, a->point, f);
        fence_unref(f);
    }
    return rc;
}

int drm_gem_metadata(struct drm_file *d, void *arg)
{
    struct drm_metadata_args *a = arg;
    struct bo *bo = bo_of(d, a->handle, "GEM_METADATA");
    if (!bo)
        return -ENOENT;
    if (a->op == 1) { /* set */
        if (a->bytes > sizeof bo->metadata)
            return kmd_why(-EINVAL, "GEM_METADATA: %u bytes", a->bytes);
        bo->metadata_flags = a->flags;
        bo->tiling = a->tiling;
        bo->metadata_bytes = a->bytes;
        memcpy(bo->metadata, a->data, a->bytes);
        return 0;
    }
    if (a->op != 2)
        return kmd_why(-EINVAL, "GEM_METADATA: operation %u", a->op);
    a->flags = bo->metadata_flags;
    a->tiling = bo->tiling;
    a->bytes = bo->metadata_bytes;
    memcpy(a->data, bo->metadata, bo->metadata_bytes);
    return 0;
}

int drm_gem_op(struct drm_file *d, void *arg)
{
    struct drm_gem_op_args *a = arg;
    struct bo *bo = bo_of(d, a->handle, "GEM_OP");
    if (!bo)
        return -ENOENT;
    if (a->op == 0) { /* how it was created */
        union drm_gem_create_args c = { { bo->bytes, KMD_PAGE, bo->drm_domains, bo->drm_flags } };
        return user_write(a->value, &c, sizeof c);
    }
    if (a->op != 1)
        return kmd_why(-EINVAL, "GEM_OP: operation %u", a->op);
    bo->drm_domains = (uint32_t)a->value & (DOMAIN_CPU | DOMAIN_GTT | DOMAIN_VRAM); /* a wish, it stays where it is */
    return 0;
}

int drm_gem_userptr(struct drm_file *d, void *arg)
{
    enum { READONLY = 1, ANONONLY = 2, VALIDATE = 4, REGISTER = 8 };
    struct drm_userptr_args *a = arg;
    if ((a->addr | a->bytes) % KMD_PAGE || !a->bytes || (a->flags & ~(uint32_t)15))
        return kmd_why(-EINVAL, "GEM_USERPTR: 0x%llx bytes at 0x%llx, flags 0x%x", (unsigned long long)a->bytes,
                       (unsigned long long)a->addr, a->flags);
    if (!(a->flags & READONLY) && !(a->flags & REGISTER))
        return kmd_why(-EACCES, "GEM_USERPTR: memory that the GPU writes must be REGISTERed");
    if (host_populate((void *)(uintptr_t)a->addr, a->bytes, !(a->flags & READONLY)) != 0)
        return kmd_why(-EFAULT, "GEM_USERPTR: 0x%llx bytes at 0x%llx are not the process's memory",
                       (unsigned long long)a->bytes, (unsigned long long)a->addr);
    int err = -ENOMEM;
    struct bo *bo = bo_create(KMD_USERPTR, a->bytes, false, &err);
    if (!bo)
        return err;
    bo->host = (uint8_t *)(uintptr_t)a->addr;
    bo->drm_domains = DOMAIN_GTT;
    int rc = table_add(&d->bos, bo, &a->handle);
    if (rc != 0)
        bo_unref(bo);
    return rc;
}

/* Lists say which buffers a submission needs resident; here all are, all the time. */
int drm_bo_list(struct drm_file *d, void *arg)
{
    union drm_bo_list_args *a = arg;
    uint32_t op = a->op, handle = a->handle;
    if (op == 1) {
        struct bo_list *l = table_remove(&d->lists, handle);
        free(l);
        return l ? 0 : kmd_why(-ENOENT, "BO_LIST: handle %u is unknown", handle);
    }
    if (op != 0 && op != 2)
        return kmd_why(-EINVAL, "BO_LIST: operation %u", op);
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t bo;
        if (user_read(&bo, a->info_ptr + (uint64_t)i * a->info_bytes, 4) != 0)
            return -EFAULT;
        if (!bo_of(d, bo, "BO_LIST"))
            return -ENOENT;
    }
    if (op == 2)
        return table_get(&d->lists, handle) ? 0 : -ENOENT;
    struct bo_list *l = calloc(1, sizeof *l);
    int rc = l ? table_add(&d->lists, l, &handle) : -ENOMEM;
    if (rc != 0) {
        free(l);
        return rc;
    }
    memset(a, 0, sizeof *a);
    a->out_handle = handle;
    return 0;
}

int drm_prime_export(struct drm_file *d, void *arg)
{
    struct drm_prime_args *a = arg;
    struct bo *bo = bo_of(d, a->handle, "PRIME_HANDLE_TO_FD");
    if (!bo)
        return -ENOENT;
    if (bo->domain > KMD_GTT)
        return kmd_why(-EPERM, "PRIME_HANDLE_TO_FD: a user pointer cannot be shared");
    if (bo->drm_flags & GEM_ALWAYS_VALID)
        return kmd_why(-EPERM, "PRIME_HANDLE_TO_FD: a buffer that is always valid belongs to its address space alone");
    struct file *f = file_new(FILE_DMABUF);
    int fd = f ? file_reopen(card.mem_fd, O_RDWR | (int)(a->flags & O_CLOEXEC)) : -ENOMEM;
    if (fd < 0) {
        free(f);
        return fd;
    }
    f->bo = bo;
    bo_ref(bo);
    int rc = file_install(fd, f);
    if (rc < 0)
        syscall(SYS_close, fd);
    a->fd = fd;
    return rc;
}

int drm_prime_import(struct drm_file *d, void *arg)
{
    struct drm_prime_args *a = arg;
    struct file *f = file_of(a->fd);
    if (!f || f->kind != FILE_DMABUF || f->foreign)
        return kmd_why(-EINVAL, "PRIME_FD_TO_HANDLE: descriptor %d is not a dma-buf of this card", a->fd);
    for (uint32_t i = 1; i <= d->bos.n; i++)
        if (table_get(&d->bos, i) == f->bo) {
            a->handle = i;
            return 0;
        }
    int rc = table_add(&d->bos, f->bo, &a->handle);
    if (rc == 0)
        bo_ref(f->bo);
    return rc;
}
