/* rt/umq/userq_ioctl.h
 * The part of include/uapi/drm/amdgpu_drm.h (Linux 6.16) that user-mode queues need, with names of our own: libdrm's
 * headers before 2.4.125 do not have it, and later ones have its names. Sizes are checked by the compiler. All addresses
 * are the GPU's, unless said otherwise. */
#ifndef ZINC_RT_UMQ_USERQ_IOCTL_H
#define ZINC_RT_UMQ_USERQ_IOCTL_H

#include <drm.h>
#include <stdint.h>

/* union drm_amdgpu_userq: op, then a queue or the id of one. */
enum { USERQ_CREATE = 1, USERQ_FREE = 2, USERQ_IP_COMPUTE = 1 };
struct userq_queue {
    uint32_t op, queue_id;                  /* out, of CREATE: the id lies where op was              */
    uint32_t ip_type;
    uint32_t doorbell_handle, doorbell_at;  /* a buffer of the domain DOORBELL; in units of 8 bytes  */
    uint32_t flags;                         /* bits 1:0: priority, 0 normal                          */
    uint64_t ring, ring_bytes, rptr, wptr;
    uint64_t mqd, mqd_bytes;                /* the host's address of a struct userq_mqd              */
};
struct userq_mqd { uint64_t eop; };         /* drm_amdgpu_userq_mqd_compute_gfx11, gfx12's as well   */

struct userq_signal {
    uint32_t queue_id, pad;
    uint64_t syncobjs, n_syncobjs;          /* the host's address of handles                         */
    uint64_t read_bos, write_bos;
    uint32_t n_read_bos, n_write_bos;
};

/* union drm_amdgpu_gem_create, drm_amdgpu_gem_mmap */
enum { USERQ_DOMAIN_DOORBELL = 0x40 };
union userq_gem_create {
    struct { uint64_t bytes, align, domains, flags; } in;
    struct { uint32_t handle, pad; } out;
};
union userq_gem_mmap {
    struct { uint32_t handle, pad; } in;
    uint64_t offset;
};
/* struct drm_amdgpu_gem_va with its timeline, which it has since Linux 6.16. */
enum { USERQ_VA_REPLACE = 4, USERQ_PAGE_RWX = 0xe };
struct userq_gem_va {
    uint32_t handle, pad, op, flags;
    uint64_t va, offset, bytes;
    uint64_t point;                         /* of the syncobj: the page tables are as the call leaves them */
    uint32_t syncobj, n_inputs;
    uint64_t inputs;
};
_Static_assert(sizeof(struct userq_queue) == 72 && sizeof(struct userq_signal) == 48 &&
               sizeof(struct userq_gem_va) == 64 && sizeof(union userq_gem_create) == 32, "as the kernel has them");

#define USERQ_IOC_QUEUE      DRM_IOWR(DRM_COMMAND_BASE + 0x16, struct userq_queue)
#define USERQ_IOC_SIGNAL     DRM_IOWR(DRM_COMMAND_BASE + 0x17, struct userq_signal)
#define USERQ_IOC_GEM_CREATE DRM_IOWR(DRM_COMMAND_BASE + 0x00, union userq_gem_create)
#define USERQ_IOC_GEM_MMAP   DRM_IOWR(DRM_COMMAND_BASE + 0x01, union userq_gem_mmap)
#define USERQ_IOC_GEM_VA     DRM_IOW(DRM_COMMAND_BASE + 0x08, struct userq_gem_va)

/* Of AMDGPU_INFO_DEV_INFO: where drm_amdgpu_info_device has userq_ip_mask. Of AMDGPU_INFO_FW_VERSION: MES. */
enum { USERQ_DEV_INFO_BYTES = 448, USERQ_IP_MASK_AT = 436, USERQ_FW_ME = 4, USERQ_FW_PFP = 5, USERQ_FW_MEC = 8,
       USERQ_FW_MES = 0x1a };
/* ENOTSUPP of the kernel: user queues are there and off. */
enum { USERQ_ENOTSUPP = 524 };

#endif
