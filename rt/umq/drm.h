/* rt/umq/drm.h
 * An AMD card through its DRM render node and libdrm_amdgpu, which is opened at run time: which cards there are, what
 * they can do, and memory. What submits stands on it: cs.h.
 *
 *     struct drm_gpu gpu[DRM_MAX_GPUS];
 *     int n = drm_gpus("cs", gpu, DRM_MAX_GPUS, &e);                 what cards there are
 *     drm_open("cs", &gpu[0], &dev, &e);                             a device of the library, an address space
 *     drm_mem_alloc(dev, AMD_HOST, 4096, "cell", &m, &e);            memory: m->cpu, m->va
 *     drm_close(dev);                                                what memory is left goes too
 *
 * Addresses of the GPU are the library's, not the host's. Every buffer is VM_ALWAYS_VALID: it is resident whenever the
 * address space runs, so that submissions list none; it cannot be shared with other processes.
 * Errors: 0 or a negative errno and one line in `e`, which begins with the name of the tier that asks.
 * A device belongs to the process that opened it; in a child of fork, calls give -EPERM. Not thread-safe.
 *
 * The interface: include/uapi/drm/amdgpu_drm.h of Linux and libdrm's amdgpu/amdgpu.h. */
#ifndef ZINC_RT_UMQ_DRM_H
#define ZINC_RT_UMQ_DRM_H

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <xf86drm.h>

#include "base/err.h"
#include "rt/amd/winsys.h"
#include "rt/tier.h"

/* ---- lib.c: the libraries ---- */

#define DRM_LIB_LIST(X)                                                                                                \
    X(drmGetVersion) X(drmFreeVersion) X(drmIoctl) X(amdgpu_device_initialize) X(amdgpu_device_deinitialize)           \
    X(amdgpu_device_get_fd) X(amdgpu_query_info) X(amdgpu_query_firmware_version)           \
    X(amdgpu_bo_alloc) X(amdgpu_bo_free) X(amdgpu_bo_export) X(amdgpu_bo_cpu_map) X(amdgpu_bo_cpu_unmap)               \
    X(amdgpu_bo_va_op_raw) X(amdgpu_va_range_alloc) X(amdgpu_va_range_free) X(amdgpu_cs_ctx_create)                    \
    X(amdgpu_cs_ctx_free) X(amdgpu_cs_submit_raw2) X(amdgpu_cs_query_reset_state2) X(amdgpu_cs_create_syncobj)         \
    X(amdgpu_cs_destroy_syncobj) X(amdgpu_cs_syncobj_timeline_wait)

struct drm_lib {
#define X(name) __typeof__(&name) name;
    DRM_LIB_LIST(X)
#undef X
};
/* Opened at the first call and kept. NULL: `e` says what to install. */
const struct drm_lib *drm_lib(const char *tier, struct err *e);

/* ---- device.c: cards ---- */

/* What this driver has had since Linux 6.5: KMS_DRIVER_MINOR in amdgpu_drv.c. */
enum { DRM_MAX_GPUS = 16, DRM_NEED_MINOR = 54 };

/* A submission, or the fence of a user queue, has amdgpu.lockup_timeout to end; the shortest default is 2 s (Linux 7.0). */
enum { DRM_PART_LAUNCHES = 64, DRM_PART_MS = 400 };
/* Of an IB: what gfx11 and gfx12 say of compute IBs, 32 bytes (ib_size_align in amdgpu_info_ioctl's HW_IP_INFO). */
enum { DRM_IB_ALIGN_DW = 8 };

/* One card as the driver tells it. */
struct drm_gpu {
    uint32_t render_minor;       /* /dev/dri/renderD<minor>                                          */
    const struct amd_chip *chip; /* NULL: not supported                                              */
    char name[64];               /* for people                                                       */
    uint32_t version;            /* as gfx_target_version: of the compute block's discovery version  */
    uint32_t driver_minor;       /* of the driver's version 3.x                                      */
    uint32_t n_cu, n_se, device_id, family, mec_firmware, mec_feature;
    uint32_t rings;              /* compute rings of the kernel, a mask; 0: none (amdgpu.user_queue=2) */
    uint32_t ib_align_bytes;     /* of an IB's address and length, at least                          */
    uint64_t vram_bytes, vram_visible_bytes, gtt_bytes; /* all; what the host can reach; host memory that the card may use */
};
/* Fills gpus[] and returns how many AMD cards there are, unsupported ones included, or a negative errno: -ENODEV none,
 * -EACCES not this user's, -ENOTSUP an old driver, -ENOSYS no library. */
int drm_gpus(const char *tier, struct drm_gpu *gpus, uint32_t cap, struct err *e);
/* The card that the options name, or the best: one that zinc has kernels for, then the larger. -ENODEV says which there
 * are. */
int drm_pick(const char *tier, const struct tier_opts *o, struct drm_gpu *out, struct err *e);

enum { DRM_FREED_KEPT = 32 };

struct drm_mem;
struct drm_dev {
    const struct drm_lib *lib;
    const char *tier;            /* whose words errors are */
    struct drm_gpu gpu;
    amdgpu_device_handle dev;
    uint32_t family;             /* of processes: raised in a child of fork */
    bool large_bar;              /* the host reaches all VRAM               */
    struct drm_mem *mem;         /* what lives, newest first                */
    struct { char name[40]; uint64_t va, bytes; } freed[DRM_FREED_KEPT];
    uint32_t n_freed;
    bool maps_changed;           /* memory came since its user last looked  */
};
/* -ENOTSUP: zinc has no kernels for the chip, or the driver is too old. */
int drm_open(const char *tier, const struct drm_gpu *g, struct drm_dev **out, struct err *e);
void drm_close(struct drm_dev *d); /* NULL is fine */
bool drm_is_child(const struct drm_dev *d); /* of fork */

/* The address space's last page fault, as AMDGPU_INFO_GPUVM_FAULT keeps it. */
struct drm_fault {
    uint64_t va;     /* 0: none was seen */
    uint32_t status, hub;
};
/* All 0 where the driver (before Linux 6.7) does not keep it. */
struct drm_fault drm_last_fault(const struct drm_dev *d);
/* "GPU page fault at 0x1.. (in weights), status 0x.."; "" when there was none. */
void drm_fault_text(const struct drm_dev *d, char *out, size_t n);
/* The device, the driver's version, its record of faults, where memory lies, and all buffers, in lines. */
void drm_describe(const struct drm_dev *d, FILE *f);
/* What amdgpu was loaded with: /sys/module/amdgpu/parameters/<name>; "" when it cannot be read. */
void drm_parameter(const char *name, char *out, size_t n);
/* e gets "<tier>: <what>: <errno's words>"; returns rc. */
__attribute__((format(printf, 4, 5))) int drm_fail(const struct drm_dev *d, int rc, struct err *e, const char *fmt, ...);

/* ---- mem.c: memory ---- */

struct drm_mem {
    struct drm_dev *dev;
    struct drm_mem *next;
    char name[40];
    enum amd_mem_kind kind;      /* as it came: an APU may have given host memory for the card's */
    uint64_t va, bytes;
    void *cpu;
    amdgpu_bo_handle bo;
    amdgpu_va_handle range;
    bool on_gpu;
};
/* Whole pages; AMD_HOST is zeroed. -ENOMEM says what is free. */
int drm_mem_alloc(struct drm_dev *d, enum amd_mem_kind kind, uint64_t bytes, const char *name, struct drm_mem **out,
                  struct err *e);
void drm_mem_free(struct drm_mem *m); /* NULL is fine; no submission may still use it */
int drm_mem_available(struct drm_dev *d, uint64_t *bytes, struct err *e); /* of VRAM */
/* The handle of the buffer for chunks and ioctls. */
int drm_mem_handle(const struct drm_mem *m, uint32_t *handle, struct err *e);
/* The memory that holds `bytes` bytes at va, or NULL. */
const struct drm_mem *drm_mem_at(const struct drm_dev *d, uint64_t va, uint64_t bytes);
/* NULL: fine; else "unmapped", "freed: ...". */
const char *drm_mem_check(const struct drm_dev *d, uint64_t va, uint64_t bytes, bool write);

/* amd_winsys_ops of winsyses whose `dev` is a struct drm_dev. */
int drm_ops_mem_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name, struct amd_mem *out,
                      struct err *e);
void drm_ops_mem_free(struct amd_mem *m);
int drm_ops_mem_available(struct amd_winsys *w, uint64_t *bytes, struct err *e);
const char *drm_ops_mem_check(void *w, uint64_t va, uint64_t bytes, bool write);
/* A winsys over an open device: all but its own ops. */
struct amd_winsys drm_winsys(struct drm_dev *d, const struct amd_winsys_ops *ops);

#endif
