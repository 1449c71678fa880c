/* Syncobjs: containers of fences that submissions wait for and signal, binary or as a timeline of points. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/amdsim/kmd/drm.h"

enum { CREATE_SIGNALED = 1, WAIT_ALL = 1, WAIT_FOR_SUBMIT = 2, WAIT_AVAILABLE = 4, MAX_WAIT = 256 };

static struct syncobj *obj_of(struct drm_file *d, uint32_t handle)
{
    struct syncobj *s = table_get(&d->syncobjs, handle);
    if (!s)
        kmd_why(-ENOENT, "syncobj handle %u is unknown", handle);
    return s;
}

void syncobj_unref(struct syncobj *s)
{
    if (--s->refs)
        return;
    fence_unref(s->fence);
    for (uint32_t i = 0; i < s->n_waiting; i++)
        fence_unref(s->waiting[i].fence);
    free(s->waiting);
    free(s);
}

static struct fence *done_fence(void)
{
    struct fence *f = fence_new(0);
    if (f)
        f->done = true;
    return f;
}

/* Points whose fences are done are reached, in order. */
static void advance(struct syncobj *s)
{
    uint32_t k = 0;
    pthread_mutex_lock(&card.event_lock);
    while (k < s->n_waiting && s->waiting[k].fence->done) {
        s->point = s->waiting[k].point;
        fence_unref(s->waiting[k++].fence);
    }
    pthread_mutex_unlock(&card.event_lock);
    if (k)
        memmove(s->waiting, s->waiting + k, (s->n_waiting - k) * sizeof s->waiting[0]);
    s->n_waiting -= k;
}

static int attach(struct syncobj *s, uint64_t point, struct fence *f)
{
    fence_ref(f);
    if (point == 0) {
        fence_unref(s->fence);
        s->fence = f;
        return 0;
    }
    void *p = realloc(s->waiting, (s->n_waiting + 1) * sizeof s->waiting[0]);
    if (!p) {
        fence_unref(f);
        return -ENOMEM;
    }
    s->waiting = p;
    s->waiting[s->n_waiting].fence = f;
    s->waiting[s->n_waiting++].point = point;
    advance(s);
    pthread_mutex_lock(&card.event_lock);
    card_wake(); /* someone may wait for a fence to be there at all */
    pthread_mutex_unlock(&card.event_lock);
    return 0;
}

int syncobj_attach(struct drm_file *d, uint32_t handle, uint64_t point, struct fence *f)
{
    struct syncobj *s = obj_of(d, handle);
    return s ? attach(s, point, f) : -ENOENT;
}

/* -EINVAL: nothing was submitted that would ever reach it. *f NULL: it is reached. */
static int fence_at(struct syncobj *s, uint64_t point, struct fence **f)
{
    *f = NULL;
    advance(s);
    if (point == 0) {
        *f = s->fence;
    } else if (point > s->point) {
        for (uint32_t i = 0; i < s->n_waiting && !*f; i++)
            if (s->waiting[i].point >= point)
                *f = s->waiting[i].fence;
    } else {
        return 0;
    }
    if (!*f)
        return -EINVAL;
    fence_ref(*f);
    return 0;
}

int syncobj_fence(struct drm_file *d, uint32_t handle, uint64_t point, struct fence **f)
{
    struct syncobj *s = obj_of(d, handle);
    int rc = s ? fence_at(s, point, f) : -ENOENT;
    return rc == -EINVAL ? kmd_why(rc, "syncobj %u: nothing was submitted for point %llu", handle,
                                   (unsigned long long)point) : rc;
}

/* ---- the calls ---- */

static int create(struct drm_file *d, struct drm_syncobj_args *a)
{
    struct syncobj *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->refs = 1;
    if ((a->flags & CREATE_SIGNALED) && !(s->fence = done_fence())) {
        free(s);
        return -ENOMEM;
    }
    int rc = table_add(&d->syncobjs, s, &a->handle);
    if (rc != 0)
        syncobj_unref(s);
    return rc;
}

static int destroy(struct drm_file *d, const struct drm_syncobj_args *a)
{
    struct syncobj *s = table_remove(&d->syncobjs, a->handle);
    if (!s)
        return kmd_why(-EINVAL, "SYNCOBJ_DESTROY: handle %u is unknown", a->handle);
    syncobj_unref(s);
    return 0;
}

static int to_fd(struct drm_file *d, struct drm_syncobj_fd_args *a)
{
    struct syncobj *s = obj_of(d, a->handle);
    if (!s)
        return -ENOENT;
    if (a->flags)
        return kmd_why(-EINVAL, "SYNCOBJ_HANDLE_TO_FD: sync files are not modelled");
    struct file *f = file_new(FILE_SYNCOBJ);
    int fd = f ? file_reopen(card.kfd_fd, O_RDWR | O_CLOEXEC) : -ENOMEM;
    if (fd < 0) {
        free(f);
        return fd;
    }
    f->syncobj = s;
    s->refs++;
    int rc = file_install(fd, f);
    if (rc < 0)
        syscall(SYS_close, fd);
    a->fd = fd;
    return rc;
}

static int from_fd(struct drm_file *d, struct drm_syncobj_fd_args *a)
{
    struct file *f = file_of(a->fd);
    if (!f || f->kind != FILE_SYNCOBJ || f->foreign || a->flags)
        return kmd_why(-EINVAL, "SYNCOBJ_FD_TO_HANDLE: descriptor %d, flags %u", a->fd, a->flags);
    int rc = table_add(&d->syncobjs, f->syncobj, &a->handle);
    if (rc == 0)
        f->syncobj->refs++;
    return rc;
}

struct wait {
    uint32_t n, flags, first;
    uint64_t deadline;
    uint32_t handle[MAX_WAIT];
    uint64_t point[MAX_WAIT];
};

/* card.lock held. 1: over, 0: not yet, or -errno. */
static int look(struct drm_file *d, struct wait *w)
{
    uint32_t n_done = 0;
    for (uint32_t i = w->n; i-- > 0;) {
        struct syncobj *s = obj_of(d, w->handle[i]);
        struct fence *f;
        if (!s)
            return -ENOENT;
        int rc = fence_at(s, w->point[i], &f);
        if (rc == -EINVAL && !(w->flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE)))
            return kmd_why(rc, "SYNCOBJ_WAIT: nothing was submitted for syncobj %u", w->handle[i]);
        bool done = rc == 0 && (!f || (w->flags & WAIT_AVAILABLE));
        if (rc == 0 && f && !done) {
            pthread_mutex_lock(&card.event_lock);
            done = f->done;
            pthread_mutex_unlock(&card.event_lock);
        }
        if (rc == 0)
            fence_unref(f);
        if (done) {
            if (d->map_syncobj == w->handle[i] && w->point[i] >= d->map_point)
                __atomic_store_n(&d->maps_unseen, false, __ATOMIC_RELAXED);
            n_done++;
            w->first = i;
        }
    }
    return w->flags & WAIT_ALL ? n_done == w->n : n_done > 0;
}

static int wait_for(struct drm_file *d, struct wait *w)
{
    for (;;) {
        uint32_t gen = __atomic_load_n(&card.event_gen, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&card.lock);
        int rc = look(d, w);
        pthread_mutex_unlock(&card.lock);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        if (card_now_ns() >= w->deadline)
            return -ETIME;
        rc = drm_sleep(gen, w->deadline);
        if (rc == -EINTR)
            return rc;
    }
}

static int wait_call(struct drm_file *d, uint64_t handles, uint64_t points, int64_t timeout, uint32_t n,
                     uint32_t flags, uint32_t *first)
{
    if (!n || n > MAX_WAIT)
        return kmd_why(-EINVAL, "SYNCOBJ_WAIT: %u syncobjs", n);
    struct wait *w = calloc(1, sizeof *w);
    int rc = w ? user_read(w->handle, handles, n * 4ull) : -ENOMEM;
    if (rc == 0 && points)
        rc = user_read(w->point, points, n * 8ull);
    if (rc == 0) {
        w->n = n;
        w->flags = flags;
        w->deadline = timeout < 0 ? 0 : timeout == INT64_MAX ? ~0ull : (uint64_t)timeout;
        rc = wait_for(d, w);
        *first = w->first;
    }
    free(w);
    return rc;
}

/* RESET, SIGNAL, TIMELINE_SIGNAL and QUERY go over a list. */
static int each(struct drm_file *d, unsigned nr, const struct drm_syncobj_points_args *a)
{
    bool points = nr == DRM_SYNCOBJ_TIMELINE_SIGNAL || nr == DRM_SYNCOBJ_QUERY;
    if (!a->n)
        return -EINVAL;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t handle;
        uint64_t point = 0;
        if (user_read(&handle, a->handles + 4ull * i, 4) != 0)
            return -EFAULT;
        struct syncobj *s = obj_of(d, handle);
        if (!s)
            return -ENOENT;
        if (nr == DRM_SYNCOBJ_QUERY) {
            advance(s);
            point = a->flags & 1 && s->n_waiting ? s->waiting[s->n_waiting - 1].point : s->point;
            if (user_write(a->points + 8ull * i, &point, 8) != 0)
                return -EFAULT;
            continue;
        }
        if (points && user_read(&point, a->points + 8ull * i, 8) != 0)
            return -EFAULT;
        if (nr == DRM_SYNCOBJ_RESET) {
            fence_unref(s->fence);
            s->fence = NULL;
            continue;
        }
        struct fence *f = done_fence();
        int rc = f ? attach(s, point, f) : -ENOMEM;
        fence_unref(f);
        if (rc != 0)
            return rc;
    }
    pthread_mutex_lock(&card.event_lock);
    card_wake();
    pthread_mutex_unlock(&card.event_lock);
    return 0;
}

static int transfer(struct drm_file *d, const struct drm_syncobj_transfer_args *a)
{
    struct fence *f = NULL;
    int rc = syncobj_fence(d, a->src, a->src_point, &f);
    if (rc != 0)
        return rc;
    if (!f && !(f = done_fence()))
        return -ENOMEM;
    rc = syncobj_attach(d, a->dst, a->dst_point, f);
    fence_unref(f);
    return rc;
}

int drm_syncobj_ioctl(struct drm_file *d, unsigned nr, void *arg)
{
    if (nr == DRM_SYNCOBJ_WAIT) {
        struct drm_syncobj_wait_args *a = arg;
        return wait_call(d, a->handles, 0, a->timeout, a->n, a->flags, &a->first);
    }
    if (nr == DRM_SYNCOBJ_TIMELINE_WAIT) {
        struct drm_syncobj_timeline_wait_args *a = arg;
        return wait_call(d, a->handles, a->points, a->timeout, a->n, a->flags, &a->first);
    }
    pthread_mutex_lock(&card.lock);
    int rc;
    switch (nr) {
    case DRM_SYNCOBJ_CREATE: rc = create(d, arg); break;
    case DRM_SYNCOBJ_DESTROY: rc = destroy(d, arg); break;
    case DRM_SYNCOBJ_HANDLE_TO_FD: rc = to_fd(d, arg); break;
    case DRM_SYNCOBJ_FD_TO_HANDLE: rc = from_fd(d, arg); break;
    case DRM_SYNCOBJ_RESET:
    case DRM_SYNCOBJ_SIGNAL: {
        const struct drm_syncobj_array_args *list = arg;
        struct drm_syncobj_points_args a = { .handles = list->handles, .n = list->n };
        rc = each(d, nr, &a);
        break;
    }
    case DRM_SYNCOBJ_TIMELINE_SIGNAL:
    case DRM_SYNCOBJ_QUERY: rc = each(d, nr, arg); break;
    case DRM_SYNCOBJ_TRANSFER: rc = transfer(d, arg); break;
    default: rc = kmd_why(-EINVAL, "DRM ioctl 0x%02x: unknown", nr);
    }
    pthread_mutex_unlock(&card.lock);
    return rc;
}
