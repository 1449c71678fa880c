/* The render node: the table of its ioctls, and those that are about nothing larger. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/amdsim/kmd/drm.h"

int table_add(struct table *t, void *item, uint32_t *handle)
{
    uint32_t i = 0;
    while (i < t->n && t->item[i])
        i++;
    if (i == t->n) {
        uint32_t n = t->n ? t->n * 2 : 16;
        void **p = realloc(t->item, n * sizeof *p);
        if (!p)
            return -ENOMEM;
        memset(p + t->n, 0, (n - t->n) * sizeof *p);
        t->item = p;
        t->n = n;
    }
    t->item[i] = item;
    *handle = i + 1;
    return 0;
}

void *table_get(const struct table *t, uint32_t handle)
{
    return handle && handle <= t->n ? t->item[handle - 1] : NULL;
}

void *table_remove(struct table *t, uint32_t handle)
{
    void *item = table_get(t, handle);
    if (item)
        t->item[handle - 1] = NULL;
    return item;
}

struct drm_file *drm_open(void)
{
    struct drm_file *d = calloc(1, sizeof *d);
    if (d && !(d->vm = gpuvm_create())) {
        free(d);
        d = NULL;
    }
    if (d)
        d->refs = 1;
    return d;
}

void drm_hold(struct drm_file *d)
{
    d->refs++;
}

struct gpuvm *drm_vm(struct drm_file *d)
{
    return d->vm;
}

void drm_release(struct drm_file *d)
{
    if (--d->refs)
        return;
    drm_userqs_release(d);
    for (uint32_t i = 1; i <= d->ctxs.n; i++)
        if (table_get(&d->ctxs, i))
            ctx_destroy(table_get(&d->ctxs, i)); /* waits for its submissions */
    for (uint32_t i = 1; i <= d->syncobjs.n; i++)
        if (table_get(&d->syncobjs, i))
            syncobj_unref(table_get(&d->syncobjs, i));
    for (uint32_t i = 1; i <= d->lists.n; i++)
        free(table_get(&d->lists, i));
    gpuvm_destroy(d->vm);
    for (uint32_t i = 1; i <= d->bos.n; i++)
        bo_unref(table_get(&d->bos, i));
    free(d->ctxs.item);
    free(d->syncobjs.item);
    free(d->lists.item);
    free(d->bos.item);
    free(d);
}

/* ---- small calls ---- */

/* A string out: at most *room bytes without the end, *room becomes its length. */
static int put_string(uint64_t to, uint64_t *room, const char *s)
{
    uint64_t n = strlen(s), fits = n < *room ? n : *room;
    *room = n;
    return to ? user_write(to, s, fits) : 0;
}

static int version(void *arg)
{
    struct drm_version_args *a = arg;
    uint32_t kernel = kmd_options()->kernel;
    a->major = 3;
    a->minor = kmd_injected(KMD_INJECT_OLD_KERNEL) ? 42 : kernel >= 6016 ? 64 : kernel >= 6012 ? 59 : 57;
    a->patch = 0;
    int rc = put_string(a->name, &a->name_bytes, "amdgpu");
    if (rc == 0)
        rc = put_string(a->date, &a->date_bytes, "0");
    return rc == 0 ? put_string(a->desc, &a->desc_bytes, "AMD GPU") : rc;
}

static int get_client(void *arg)
{
    struct drm_client_args *a = arg;
    if (a->idx != 0)
        return -EINVAL;
    a->auth = 1; /* what render nodes have long answered */
    a->pid = (uint64_t)getpid();
    a->uid = getuid();
    a->magic = a->iocs = 0;
    return 0;
}

static int get_cap(void *arg)
{
    struct drm_cap_args *a = arg;
    switch (a->cap) {
    case 0x5: a->value = 3; return 0;  /* prime: import and export    */
    case 0x6: a->value = 1; return 0;  /* timestamps are monotonic    */
    case 0x13: a->value = 1; return 0; /* syncobj                     */
    case 0x14: a->value = 1; return 0; /* timeline syncobj            */
    case 0x1: case 0x2: case 0x3: case 0x4: case 0x7: case 0x8: case 0x9: case 0x10: case 0x11: case 0x12: case 0x15:
        a->value = 0; /* displays: none */
        return 0;
    default:
        return kmd_why(-EINVAL, "GET_CAP: capability 0x%llx is unknown", (unsigned long long)a->cap);
    }
}

static int unique(void *arg)
{
    struct drm_unique_args *a = arg;
    return put_string(a->ptr, &a->bytes, "");
}

static int vm_call(void *arg)
{
    union drm_vm_args *a = arg;
    if (a->op != 1 && a->op != 2) /* reserve and unreserve a VMID */
        return kmd_why(-EINVAL, "VM: operation %u", a->op);
    a->out = 0;
    return 0;
}

static int locked(struct drm_file *d, unsigned nr, unsigned size, void *arg)
{
    switch (nr) {
    case DRM_VERSION: return version(arg);
    case DRM_GET_UNIQUE: return unique(arg);
    case DRM_GET_CLIENT: return get_client(arg);
    case DRM_GET_CAP: return get_cap(arg);
    case DRM_GET_MAGIC:
    case DRM_SET_VERSION: return kmd_why(-EACCES, "DRM ioctl 0x%02x: not on a render node", nr);
    case DRM_SET_CLIENT_CAP: return kmd_why(-EOPNOTSUPP, "SET_CLIENT_CAP: this card has no displays");
    case DRM_GEM_CLOSE: return drm_gem_close(d, arg);
    case DRM_PRIME_HANDLE_TO_FD: return drm_prime_export(d, arg);
    case DRM_PRIME_FD_TO_HANDLE: return drm_prime_import(d, arg);
    case DRM_GEM_CREATE: return drm_gem_create(d, arg);
    case DRM_GEM_MMAP: return drm_gem_mmap(d, arg);
    case DRM_GEM_METADATA: return drm_gem_metadata(d, arg);
    case DRM_GEM_VA: return drm_gem_va(d, arg);
    case DRM_GEM_OP: return drm_gem_op(d, arg);
    case DRM_GEM_USERPTR: return drm_gem_userptr(d, arg);
    case DRM_CTX: return drm_ctx(d, arg);
    case DRM_BO_LIST: return drm_bo_list(d, arg);
    case DRM_INFO: return drm_info(d, arg);
    case DRM_VM: return vm_call(arg);
    case DRM_FENCE_TO_HANDLE: return drm_fence_to_handle(d, arg);
    case DRM_SCHED: return kmd_why(-EACCES, "SCHED: for the master of the card");
    case DRM_USERQ: return drm_userq(d, arg);
    case DRM_USERQ_SIGNAL: return drm_userq_signal(d, arg);
    default: return kmd_why(-EINVAL, "DRM ioctl 0x%02x with %u bytes: unknown", nr, size);
    }
}

int drm_ioctl(struct file *f, unsigned nr, unsigned size, void *arg)
{
    switch (nr) { /* those that sleep */
    case DRM_WAIT_CS: return drm_wait_cs(f->drm, arg);
    case DRM_WAIT_FENCES: return drm_wait_fences(f->drm, arg);
    case DRM_GEM_WAIT_IDLE: return drm_wait_idle(f->drm, arg);
    case DRM_CS: return drm_cs(f->drm, arg);
    case DRM_USERQ_WAIT: return drm_userq_wait(f->drm, arg);
    }
    if (nr >= DRM_SYNCOBJ_CREATE && nr <= DRM_SYNCOBJ_TIMELINE_SIGNAL)
        return drm_syncobj_ioctl(f->drm, nr, arg);
    pthread_mutex_lock(&card.lock);
    int rc = locked(f->drm, nr, size, arg);
    pthread_mutex_unlock(&card.lock);
    return rc;
}
