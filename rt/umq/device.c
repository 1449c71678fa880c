/* rt/umq/device.c: which cards have a render node, what they are, and opening one. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/log.h"
#include "rt/amd/tier.h"
#include "rt/umq/drm.h"

/* Render nodes are minors 128..191 (drm_drv.c of the kernel: DRM_MINOR_RENDER * 64). */
enum { FIRST_MINOR = 128, LAST_MINOR = 191, VENDOR_AMD = 0x1002 };
/* amdgpu_drm.h of Linux 6.7; libdrm's headers of that time do not have it. */
enum { INFO_GPUVM_FAULT = 0x23 };

/* drm_amdgpu_info_hw_ip as the kernel fills its first 32 bytes; older headers call the last word padding. */
struct hw_ip {
    uint32_t major, minor;
    uint64_t capabilities;
    uint32_t ib_start_align, ib_size_align, rings, discovery_version;
};

static volatile uint32_t family; /* raised in every child */

static void born(void)
{
    family++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, born);
}

bool drm_is_child(const struct drm_dev *d)
{
    return d->family != family;
}

int drm_fail(const struct drm_dev *d, int rc, struct err *e, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (rc == -EPERM)
        return err_set(e, rc, "%s: %s: the GPU belongs to the process that opened it, not to a child of fork", d->tier,
                       what);
    return err_set(e, rc, "%s: %s: %s", d->tier, what, strerror(-rc));
}

/* ---- small files ---- */

static void read_line(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, n - 1);
    out[got > 0 ? got : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    if (fd >= 0)
        close(fd);
}

void drm_parameter(const char *name, char *out, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/module/amdgpu/parameters/%s", name);
    read_line(path, out, n);
}

/* May the node be an AMD card's? Where sysfs does not say (a container without it), yes. */
static bool may_be_amd(uint32_t minor)
{
    char path[96], text[16];
    snprintf(path, sizeof path, "/sys/dev/char/226:%u/device/vendor", minor);
    read_line(path, text, sizeof text);
    return !text[0] || strtoul(text, NULL, 0) == VENDOR_AMD;
}

/* ---- what a card is ---- */

static int query_hw_ip(const struct drm_lib *l, amdgpu_device_handle dev, uint32_t type, struct hw_ip *out)
{
    *out = (struct hw_ip){ 0 };
    struct drm_amdgpu_info r = { .return_pointer = (uintptr_t)out, .return_size = sizeof *out,
                                 .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = { .type = type } };
    return l->drmIoctl(l->amdgpu_device_get_fd(dev), DRM_IOCTL_AMDGPU_INFO, &r) ? -errno : 0;
}

/* gfx_target_version of a graphics core, IP_VERSION (amdgpu.h): its own numbers but for some of gfx11 (kgd2kfd_probe in
 * amdkfd/kfd_device.c; rt/amd/chips.def). */
static uint32_t target_of(uint32_t v)
{
    uint32_t major = v >> 16 & 0xff, minor = v >> 8 & 0xff, revision = v & 0xff;
    if (major == 11 && minor == 0)
        revision = revision == 3 ? 1 : revision == 1 || revision == 4 ? 3 : revision;
    return major * 10000 + minor * 100 + revision;
}

static void name_gpu(struct drm_gpu *g)
{
    char gfx[24];
    snprintf(gfx, sizeof gfx, "gfx%u%x%x", g->version / 10000, g->version / 100 % 100, g->version % 100);
    if (g->chip)
        snprintf(g->name, sizeof g->name, "%s (%s, %u CUs)", g->chip->product, gfx, g->n_cu);
    else
        snprintf(g->name, sizeof g->name, "%s", gfx);
}

static int read_facts(const char *tier, const struct drm_lib *l, amdgpu_device_handle dev, struct drm_gpu *g,
                      struct err *e)
{
    struct drm_amdgpu_info_device info = { 0 };
    struct drm_amdgpu_memory_info mem = { 0 };
    struct hw_ip ip;
    int rc;
    if ((rc = l->amdgpu_query_info(dev, AMDGPU_INFO_DEV_INFO, sizeof info, &info)) ||
        (rc = l->amdgpu_query_info(dev, AMDGPU_INFO_MEMORY, sizeof mem, &mem)) ||
        (rc = query_hw_ip(l, dev, AMDGPU_HW_IP_COMPUTE, &ip)))
        return err_set(e, rc, "%s: /dev/dri/renderD%u: what the card is: %s", tier, g->render_minor, strerror(-rc));
    g->version = target_of(ip.discovery_version);
    g->chip = amd_chip_of(g->version);
    g->n_cu = info.cu_active_number;
    g->n_se = MAX(info.num_shader_engines, 1u);
    g->device_id = info.device_id;
    g->family = info.family;
    g->rings = ip.rings;
    g->ib_align_bytes = MAX(ip.ib_start_align, ip.ib_size_align);
    g->vram_bytes = mem.vram.total_heap_size;
    g->vram_visible_bytes = mem.cpu_accessible_vram.total_heap_size;
    g->gtt_bytes = mem.gtt.total_heap_size;
    l->amdgpu_query_firmware_version(dev, AMDGPU_INFO_FW_GFX_MEC, 0, 0, &g->mec_firmware, &g->mec_feature);
    name_gpu(g);
    return 0;
}

/* ---- nodes ---- */

/* The node's device by the library. -ENODEV: another driver's. */
static int open_node(const char *tier, const struct drm_lib *l, uint32_t minor, amdgpu_device_handle *out,
                     uint32_t *driver_minor, struct err *e)
{
    char path[32];
    uint32_t major;
    snprintf(path, sizeof path, "/dev/dri/renderD%u", minor);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return err_set(e, -EACCES, "%s: no permission for %s: sudo usermod -aG render $USER, then log in again", tier, path);
    if (fd < 0)
        return err_set(e, -errno, "%s: opening %s: %s", tier, path, strerror(errno));
    drmVersionPtr v = l->drmGetVersion(fd);
    bool ours = v && strcmp(v->name, "amdgpu") == 0;
    int now = v ? v->version_minor : 0, of = v ? v->version_major : 0, rc = -ENODEV;
    if (v)
        l->drmFreeVersion(v);
    if (!ours)
        err_set(e, rc, "%s: %s is not the amdgpu driver's", tier, path);
    else if (of != 3 || now < DRM_NEED_MINOR)
        rc = err_set(e, -ENOTSUP, "%s: this kernel's amdgpu driver is %d.%d, zinc needs 3.%d (Linux 6.5)", tier, of, now,
                     DRM_NEED_MINOR);
    else if ((rc = l->amdgpu_device_initialize(fd, &major, driver_minor, out)))
        err_set(e, rc, "%s: libdrm_amdgpu does not open %s: %s", tier, path, strerror(-rc));
    close(fd); /* the library has its own */
    return rc;
}

int drm_gpus(const char *tier, struct drm_gpu *gpus, uint32_t cap, struct err *e)
{
    const struct drm_lib *l = drm_lib(tier, e);
    struct err first = { 0 };
    uint32_t n = 0, n_nodes = 0;
    if (!l)
        return -ENOSYS;
    for (uint32_t minor = FIRST_MINOR; minor <= LAST_MINOR && n < cap; minor++) {
        char path[32];
        amdgpu_device_handle dev;
        struct err why = { 0 };
        struct drm_gpu *g = &gpus[n];
        *g = (struct drm_gpu){ .render_minor = minor };
        snprintf(path, sizeof path, "/dev/dri/renderD%u", minor);
        if (access(path, F_OK) || !may_be_amd(minor))
            continue;
        n_nodes++;
        int rc = open_node(tier, l, minor, &dev, &g->driver_minor, &why);
        if (!rc) {
            rc = read_facts(tier, l, dev, g, &why);
            l->amdgpu_device_deinitialize(dev);
        }
        if (!rc)
            n++;
        else if (rc != -ENODEV && !first.code)
            first = why;
    }
    if (n)
        return (int)n;
    if (first.code)
        return err_set(e, first.code, "%s", first.msg);
    return err_set(e, -ENODEV, n_nodes ? "%s: none of the render nodes in /dev/dri is the amdgpu driver's"
                                       : "%s: no AMD render node in /dev/dri: the amdgpu driver is not loaded, or the "
                                         "container was not given /dev/dri", tier);
}

int drm_pick(const char *tier, const struct tier_opts *o, struct drm_gpu *out, struct err *e)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    struct amd_choice c[DRM_MAX_GPUS];
    int n = drm_gpus(tier, gpu, DRM_MAX_GPUS, e);
    for (int i = 0; i < n; i++)
        c[i] = (struct amd_choice){ gpu[i].name, gpu[i].chip, gpu[i].n_cu };
    int at = n < 0 ? n : amd_pick(tier, c, n, o, e);
    if (at < 0)
        return at;
    *out = gpu[at];
    return 0;
}

/* ---- a device ---- */

int drm_open(const char *tier, const struct drm_gpu *g, struct drm_dev **out, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    *out = NULL;
    if (!g->chip)
        return err_set(e, -ENOTSUP, "%s: %s is not one of the chips that zinc has kernels for: %s", tier,
                       g->name, amd_chip_names());
    struct drm_dev *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, -ENOMEM, "%s: device object", tier);
    *d = (struct drm_dev){ .tier = tier, .gpu = *g, .family = family,
                           .large_bar = g->vram_visible_bytes >= g->vram_bytes };
    int rc = (d->lib = drm_lib(tier, e)) ? open_node(tier, d->lib, g->render_minor, &d->dev, &d->gpu.driver_minor, e)
                                         : -ENOSYS;
    if (rc) {
        free(d);
        return rc;
    }
    log_info(UMQ, "%s: driver 3.%u, %s", g->name, d->gpu.driver_minor,
             d->large_bar ? "all memory visible" : "small PCIe window: copies go through the GPU");
    *out = d;
    return 0;
}

void drm_close(struct drm_dev *d)
{
    if (!d)
        return;
    while (d->mem)
        drm_mem_free(d->mem);
    if (!drm_is_child(d))
        d->lib->amdgpu_device_deinitialize(d->dev);
    free(d);
}

/* ---- what went wrong ---- */

struct drm_fault drm_last_fault(const struct drm_dev *d)
{
    struct drm_fault f = { 0 };
    if (drm_is_child(d) || d->lib->amdgpu_query_info(d->dev, INFO_GPUVM_FAULT, sizeof f, &f))
        return (struct drm_fault){ 0 };
    return f;
}

void drm_fault_text(const struct drm_dev *d, char *out, size_t n)
{
    struct drm_fault f = drm_last_fault(d);
    *out = 0;
    if (!f.va && !f.status)
        return;
    const struct drm_mem *m = drm_mem_at(d, f.va, 1);
    const char *why = drm_mem_check(d, f.va, 1, false);
    snprintf(out, n, "GPU page fault at 0x%llx (%s%s), status 0x%x", (unsigned long long)f.va, m ? "in " : "",
             m ? m->name : why ? why : "", f.status);
}

/* Where this process's buffers lie, by the driver's own count (amdgpu_show_fdinfo). */
static void describe_places(const struct drm_dev *d, FILE *f)
{
    static const char *const about[] = { "drm-memory-vram", "drm-resident-vram", "amd-requested-vram", "amd-evicted-vram" };
    char path[64], line[200];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", d->lib->amdgpu_device_get_fd(d->dev));
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        for (uint32_t i = 0; i < ARRAY_LEN(about); i++)
            if (strncmp(line, about[i], strlen(about[i])) == 0)
                fputs(line, f);
    if (in)
        fclose(in);
}

void drm_describe(const struct drm_dev *d, FILE *f)
{
    static const char *const kinds[] = { [AMD_VRAM] = "vram", [AMD_PRIVATE] = "private vram", [AMD_HOST] = "host",
                                         [AMD_STAGE] = "host" };
    const struct drm_gpu *g = &d->gpu;
    struct utsname u;
    char text[200];
    fprintf(f, "device: %s, device id 0x%04x, /dev/dri/renderD%u, MEC firmware %u (feature %u), %u CUs in %u shader engines, "
            "%s\n", g->name, g->device_id, g->render_minor, g->mec_firmware, g->mec_feature, g->n_cu, g->n_se,
            d->large_bar ? "large BAR" : "small BAR");
    fprintf(f, "driver: amdgpu 3.%u, kernel %s, compute rings 0x%x, IBs aligned to %u bytes\n", g->driver_minor,
            uname(&u) ? "unknown" : u.release, g->rings, g->ib_align_bytes);
    drm_fault_text(d, text, sizeof text);
    fprintf(f, "driver's record of faults: %s\n", text[0] ? text : "none");
    describe_places(d, f);
    fprintf(f, "\nbuffers\n");
    for (const struct drm_mem *m = d->mem; m; m = m->next)
        fprintf(f, "  0x%012llx %12llu  %-12s %s\n", (unsigned long long)m->va, (unsigned long long)m->bytes,
                kinds[m->kind], m->name);
}
