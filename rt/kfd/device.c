/* rt/kfd/device.c: opening a GPU. The driver ties a process (its memory map) to one render file for good, so the
 * files of a device stay open until the process ends; closing gives back queues and memory, and the next open finds
 * the device again. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/kfd/priv.h"

enum { MAX_NODES = 64 };

#define X(name, nr, dir, type) { KFD_REQUEST(dir, nr, struct type), #name },
static const struct { unsigned long request; const char *name; } requests[] = { KFD_IOCTL_LIST(X) };
#undef X

static struct {
    struct kfd_dev *dev;
    uint32_t users;
} opened[KFD_MAX_GPUS];
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint32_t family; /* raised in every child */

static void born(void)
{
    family++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, born);
}

bool kfd_is_child(const struct kfd_dev *d)
{
    return d->family != family;
}

const char *kfd_request_name(unsigned long request)
{
    static char other[32];
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (requests[i].request == request)
            return requests[i].name;
    snprintf(other, sizeof other, "request 0x%lx", request);
    return other;
}

int kfd_call(struct kfd_dev *d, unsigned long request, void *arg)
{
    if (kfd_is_child(d))
        return -EPERM;
    int rc = kfd_sys_ioctl(d->sys, d->kfd_fd, request, arg);
    if (rc)
        log_debug(KFD, "%s: %s", kfd_request_name(request), strerror(-rc));
    return rc;
}

int kfd_fail(int rc, struct err *e, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (rc == -EPERM)
        return err_set(e, rc, "kfd: %s: the GPU belongs to the process that opened it, not to a child of fork", what);
    return err_set(e, rc, "kfd: %s: %s", what, strerror(-rc));
}

static int check_version(struct kfd_dev *d, struct err *e)
{
    struct kfd_version v = { 0 };
    int rc = kfd_call(d, KFD_IOC_GET_VERSION, &v);
    if (rc)
        return kfd_fail(rc, e, "GET_VERSION on /dev/kfd");
    if (v.major != KFD_NEED_MAJOR || v.minor < KFD_NEED_MINOR)
        return err_set(e, -ENOTSUP, "kfd: this kernel's interface is %u.%u, zinc needs %u.%u; for %s that is Linux %s or newer",
                       v.major, v.minor, KFD_NEED_MAJOR, KFD_NEED_MINOR, d->gpu.chip->name, d->gpu.chip->first_linux);
    d->version_minor = v.minor;
    return 0;
}

static int acquire_vm(struct kfd_dev *d, struct err *e)
{
    struct kfd_acquire_vm a = { .drm_fd = (uint32_t)d->drm_fd, .gpu_id = d->gpu.gpu_id };
    int rc = kfd_call(d, KFD_IOC_ACQUIRE_VM, &a);
    if (rc == -EBUSY)
        return err_set(e, rc, "kfd: %s is already in use through another file of this process (another library that "
                       "drives it?): one of them per process", d->gpu.name);
    return rc ? kfd_fail(rc, e, "ACQUIRE_VM on %s", d->gpu.name) : 0;
}

/* The addresses that the GPU may use; what the driver does not say is what every chip here has. */
static void read_apertures(struct kfd_dev *d)
{
    struct kfd_aperture a[MAX_NODES] = { 0 };
    struct kfd_apertures q = { .array = (uintptr_t)a, .n_nodes = MAX_NODES };
    d->va_first = 0x100000;
    d->va_last = (1ull << 47) - 1;
    if (kfd_call(d, KFD_IOC_GET_PROCESS_APERTURES_NEW, &q))
        return;
    for (uint32_t i = 0; i < q.n_nodes && i < MAX_NODES; i++)
        if (a[i].gpu_id == d->gpu.gpu_id && a[i].gpuvm_limit > a[i].gpuvm_base) {
            d->va_first = a[i].gpuvm_base;
            d->va_last = a[i].gpuvm_limit;
        }
}

/* Can the host see VRAM? The driver refuses the first page that it should when the PCIe window is small. */
static int probe_bar(struct kfd_dev *d, struct err *e)
{
    struct kfd_mem *m;
    struct err first = { 0 };
    d->large_bar = true;
    int rc = kfd_mem_alloc(d, KFD_VRAM, KFD_PAGE, "probe", &m, &first);
    if (rc == -EINVAL) {
        d->large_bar = false;
        log_info(KFD, "the host does not see the memory of %s (resizable BAR is off): copies go through the GPU",
                 d->gpu.name);
        return 0;
    }
    if (rc)
        return err_set(e, rc, "%s", first.msg);
    kfd_mem_free(m);
    return 0;
}

static void close_files(struct kfd_dev *d)
{
    if (d->drm_fd >= 0)
        kfd_sys_close(d->sys, d->drm_fd);
    if (d->kfd_fd >= 0)
        kfd_sys_close(d->sys, d->kfd_fd);
    free(d);
}

static void give_back(struct kfd_dev *d)
{
    while (d->queues)
        kfd_queue_destroy(d->queues);
    for (struct kfd_mem *m = d->mem, *next; m; m = next) {
        next = m->next;
        if (m != d->event_page)
            kfd_mem_free(m);
    }
}

static int open_files(struct kfd_dev *d, struct err *e)
{
    char path[64];
    int rc = kfd_access(d->sys, &d->gpu, e);
    if (rc)
        return rc;
    if ((d->kfd_fd = kfd_sys_open(d->sys, "/dev/kfd")) < 0)
        return kfd_fail(d->kfd_fd, e, "opening /dev/kfd");
    snprintf(path, sizeof path, "/dev/dri/renderD%u", d->gpu.render_minor);
    if ((d->drm_fd = kfd_sys_open(d->sys, path)) < 0)
        return kfd_fail(d->drm_fd, e, "opening %s", path);
    return 0;
}

static int open_new(struct kfd_sys *s, const struct kfd_gpu *g, struct kfd_dev **out, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct kfd_dev *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, -ENOMEM, "kfd: device object");
    *d = (struct kfd_dev){ .sys = s, .gpu = *g, .kfd_fd = -1, .drm_fd = -1, .family = family, .evictions.fd = -1 };
    int rc;
    if ((rc = open_files(d, e)) || (rc = check_version(d, e)) || (rc = acquire_vm(d, e))) {
        close_files(d);
        return rc;
    }
    read_apertures(d);
    struct kfd_runtime on = { 0 };
    kfd_call(d, KFD_IOC_RUNTIME_ENABLE, &on); /* for debuggers; queues work without */
    if ((rc = kfd_events_create(d, e)) || (rc = probe_bar(d, e))) {
        give_back(d);
        kfd_events_destroy(d);
        close_files(d);
        return rc;
    }
    log_info(KFD, "%s: interface 1.%u, addresses %llx..%llx, %s", g->name, d->version_minor,
             (unsigned long long)d->va_first, (unsigned long long)d->va_last,
             d->large_bar ? "all memory visible" : "small PCIe window");
    *out = d;
    return 0;
}

int kfd_open(const struct kfd_gpu *g, struct kfd_dev **out, struct err *e)
{
    struct kfd_sys *s = kfd_sys_current();
    int rc = 0, free_slot = -1;
    *out = NULL;
    if (!g->chip)
        return err_set(e, -ENOTSUP, "kfd: %s is not one of the chips that zinc has kernels for: %s", g->name,
                       amd_chip_names());
    pthread_mutex_lock(&opened_lock);
    for (int i = 0; i < KFD_MAX_GPUS && !*out; i++) {
        struct kfd_dev *d = opened[i].dev;
        if (d && kfd_is_child(d)) { /* the parent's: here only the files can be closed */
            close_files(d);
            opened[i].dev = d = NULL;
        }
        if (!d)
            free_slot = i;
        else if (d->sys == s && d->gpu.gpu_id == g->gpu_id && (d->fault.memory || d->fault.hardware))
            rc = err_set(e, -EIO, "kfd: %s had a fault in this process before: start the program again", g->name);
        else if (d->sys == s && d->gpu.gpu_id == g->gpu_id) {
            opened[i].users++;
            *out = d;
        }
    }
    if (!*out && !rc && !(rc = open_new(s, g, out, e)) && free_slot >= 0) {
        opened[free_slot].dev = *out;
        opened[free_slot].users = 1;
    }
    pthread_mutex_unlock(&opened_lock);
    return rc;
}

void kfd_close(struct kfd_dev *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&opened_lock);
    for (int i = 0; i < KFD_MAX_GPUS; i++)
        if (opened[i].dev == d && opened[i].users && --opened[i].users == 0 && !kfd_is_child(d))
            give_back(d);
    pthread_mutex_unlock(&opened_lock);
}

void kfd_forget(struct kfd_sys *s)
{
    pthread_mutex_lock(&opened_lock);
    for (int i = 0; i < KFD_MAX_GPUS; i++) {
        struct kfd_dev *d = opened[i].dev;
        if (!d || opened[i].users || d->sys != s)
            continue;
        kfd_events_destroy(d);
        close_files(d);
        opened[i].dev = NULL;
    }
    pthread_mutex_unlock(&opened_lock);
}
