/* From the program's ioctl and mmap to the driver's functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

enum { MAX_BLOCK = 1 << _IOC_SIZEBITS };

/* The program's memory is ours as well; the kernel does the copy so that a bad address is an error, not a crash. */
int user_read(void *dst, uint64_t from, uint64_t bytes)
{
    struct iovec local = { dst, bytes }, remote = { (void *)(uintptr_t)from, bytes };
    if (!bytes)
        return 0;
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* a sandbox without it */
        memcpy(dst, (void *)(uintptr_t)from, bytes);
        return 0;
    }
    return n == (ssize_t)bytes ? 0 : -EFAULT;
}

int user_write(uint64_t to, const void *src, uint64_t bytes)
{
    struct iovec local = { (void *)(uintptr_t)src, bytes }, remote = { (void *)(uintptr_t)to, bytes };
    if (!bytes)
        return 0;
    ssize_t n = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
        memcpy((void *)(uintptr_t)to, src, bytes);
        return 0;
    }
    return n == (ssize_t)bytes ? 0 : -EFAULT;
}

static int dispatch(struct file *f, unsigned type, unsigned nr, unsigned size, void *block)
{
    if (f->foreign)
        return kmd_why(-EBADF, "ioctl on a descriptor of the card that a parent process opened: fork loses the card");
    if (type == 'K' && f->kind == FILE_KFD)
        return kfd_ioctl(f, nr, size, block);
    if (type == 'd' && (f->kind == FILE_RENDER || f->kind == FILE_CARD))
        return drm_ioctl(f, nr, size, block);
    return kmd_why(-ENOTTY, "ioctl '%c' 0x%02x on a file of the card that has no such calls", (char)type, nr);
}

int kmd_ioctl(struct file *f, uint32_t request, void *arg)
{
    uint64_t block[MAX_BLOCK / 8] = { 0 }; /* larger than any: what the program did not pass reads as zero */
    unsigned size = _IOC_SIZE(request);
    if ((_IOC_DIR(request) & _IOC_WRITE) && user_read(block, (uintptr_t)arg, size) != 0)
        return kmd_why(-EFAULT, "ioctl 0x%08x: its argument at %p is not readable", request, arg);
    __atomic_add_fetch(&card.n_calls, 1, __ATOMIC_RELAXED);
    int rc = dispatch(f, _IOC_TYPE(request), _IOC_NR(request), size, block);
    if ((_IOC_DIR(request) & _IOC_READ) && user_write((uintptr_t)arg, block, size) != 0)
        return kmd_why(-EFAULT, "ioctl 0x%08x: its argument at %p is not writable", request, arg);
    return rc;
}

/* A buffer is mapped from the offset that ALLOC or GEM_MMAP gave, in whole or its beginning. Without access
 * (PROT_NONE) anything may be: libhsakmt does that for debuggers. VRAM of KFD may be, PUBLIC or not: EPERM is for
 * NO_CPU_ACCESS and user pointers (amdgpu_gem_object_mmap in amdgpu_gem.c), and amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu
 * sets CPU_ACCESS_REQUIRED for PUBLIC and nothing else (Linux 6.1 and 6.12). With a small BAR the driver moves such a
 * buffer when it is touched; here it is in reach at once. */
static int map_buffer(uint64_t off, uint64_t bytes, int prot)
{
    pthread_mutex_lock(&card.lock);
    struct bo *bo = bo_at_offset(off);
    int rc = 0;
    if (!bo)
        rc = kmd_why(-EINVAL, "mmap of the render node at offset 0x%llx: no buffer begins there",
                     (unsigned long long)off);
    else if (!bo->cpu_access && !bo->mappable && prot != PROT_NONE)
        rc = kmd_why(-EPERM, "mmap of the buffer at offset 0x%llx: it was made without CPU access",
                     (unsigned long long)off);
    else if (bytes > bo->bytes)
        rc = kmd_why(-EINVAL, "mmap of 0x%llx bytes of the buffer at offset 0x%llx: it has 0x%llx",
                     (unsigned long long)bytes, (unsigned long long)off, (unsigned long long)bo->bytes);
    pthread_mutex_unlock(&card.lock);
    return rc;
}

int kmd_mmap(struct file *f, uint64_t off, uint64_t bytes, int prot, uint64_t *file_off)
{
    *file_off = off;
    if (f->foreign)
        return kmd_why(-EBADF, "mmap on a descriptor of the card that a parent process opened");
    switch (f->kind) {
    case FILE_KFD:
        return kfd_mmap_offset(off, bytes, file_off);
    case FILE_RENDER:
    case FILE_CARD:
        return map_buffer(off, bytes, prot);
    case FILE_DMABUF:
        if (off > f->bo->bytes || bytes > f->bo->bytes - off || !f->bo->cpu_access)
            return kmd_why(-EINVAL, "mmap of a dma-buf of 0x%llx bytes", (unsigned long long)f->bo->bytes);
        *file_off = f->bo->off + off;
        return 0;
    default:
        return kmd_why(-ENODEV, "mmap of a syncobj");
    }
}
