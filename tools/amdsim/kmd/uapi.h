/* tools/amdsim/kmd/uapi.h
 * The kernel's interface, from its side: argument blocks of the ioctls of /dev/kfd (magic 'K', interface 1.x) and of
 * the DRM render node (magic 'd'). Layouts as in the kernel's public headers kfd_ioctl.h, amdgpu_drm.h and drm.h; all
 * little endian, naturally aligned. */
#ifndef AMDSIM_UAPI_H
#define AMDSIM_UAPI_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_IS(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)

/* ---- KFD ---- */

/* number, name, whether the kernel writes to the block */
#define KFD_IOCTLS(X)                                                                                                  \
    X(0x01, GET_VERSION) X(0x02, CREATE_QUEUE) X(0x03, DESTROY_QUEUE) X(0x04, SET_MEMORY_POLICY)                       \
    X(0x05, GET_CLOCK_COUNTERS) X(0x06, GET_PROCESS_APERTURES) X(0x07, UPDATE_QUEUE) X(0x08, CREATE_EVENT)             \
    X(0x09, DESTROY_EVENT) X(0x0a, SET_EVENT) X(0x0b, RESET_EVENT) X(0x0c, WAIT_EVENTS)                                \
    X(0x0d, DBG_REGISTER) X(0x0e, DBG_UNREGISTER) X(0x0f, DBG_ADDRESS_WATCH) X(0x10, DBG_WAVE_CONTROL)                 \
    X(0x11, SET_SCRATCH_BACKING_VA) X(0x12, GET_TILE_CONFIG) X(0x13, SET_TRAP_HANDLER)                                 \
    X(0x14, GET_PROCESS_APERTURES_NEW) X(0x15, ACQUIRE_VM) X(0x16, ALLOC_MEMORY_OF_GPU) X(0x17, FREE_MEMORY_OF_GPU)    \
    X(0x18, MAP_MEMORY_TO_GPU) X(0x19, UNMAP_MEMORY_FROM_GPU) X(0x1a, SET_CU_MASK) X(0x1b, GET_QUEUE_WAVE_STATE)       \
    X(0x1c, GET_DMABUF_INFO) X(0x1d, IMPORT_DMABUF) X(0x1e, ALLOC_QUEUE_GWS) X(0x1f, SMI_EVENTS) X(0x20, SVM)          \
    X(0x21, SET_XNACK_MODE) X(0x22, CRIU_OP) X(0x23, AVAILABLE_MEMORY) X(0x24, EXPORT_DMABUF)                          \
    X(0x25, RUNTIME_ENABLE) X(0x26, DBG_TRAP)

enum kfd_nr {
#define X(nr, name) KFD_##name = nr,
    KFD_IOCTLS(X)
#undef X
};

struct kfd_version { uint32_t major, minor; };
struct kfd_queue_args {
    uint64_t ring, wptr, rptr, doorbell_offset;
    uint32_t ring_bytes, gpu_id, type, percentage, priority, queue_id;
    uint64_t eop, eop_bytes, ctx_save;
    uint32_t ctx_save_bytes, ctl_stack_bytes, sdma_engine_id, pad;
};
SIZE_IS(struct kfd_queue_args, 96);
struct kfd_queue_id_args { uint32_t queue_id, pad; };
struct kfd_update_queue_args { uint64_t ring; uint32_t queue_id, ring_bytes, percentage, priority; };
struct kfd_cu_mask_args { uint32_t queue_id, n_bits; uint64_t mask_ptr; };
struct kfd_memory_policy_args { uint64_t alt_base, alt_bytes; uint32_t gpu_id, policy, alt_policy, pad; };
struct kfd_clock_args { uint64_t gpu, cpu, system, system_freq; uint32_t gpu_id, pad; };
struct kfd_aperture {
    uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
    uint32_t gpu_id, pad;
};
SIZE_IS(struct kfd_aperture, 56);
struct kfd_apertures_old_args { struct kfd_aperture a[7]; uint32_t n_nodes, pad; };
SIZE_IS(struct kfd_apertures_old_args, 400);
struct kfd_apertures_args { uint64_t ptr; uint32_t n_nodes, pad; };
struct kfd_event_args {
    uint64_t page_handle;
    uint32_t trigger_data, type, auto_reset, node_id, event_id, slot;
};
SIZE_IS(struct kfd_event_args, 32);
struct kfd_event_id_args { uint32_t event_id, pad; };
struct kfd_memory_exception {
    uint32_t not_present, read_only, no_execute, imprecise;
    uint64_t va;
    uint32_t gpu_id, error_type;
};
struct kfd_hw_exception { uint32_t reset_type, reset_cause, memory_lost, gpu_id; };
struct kfd_event_data {
    union {
        struct kfd_memory_exception memory;
        struct kfd_hw_exception hw;
        uint64_t last_age;
    };
    uint64_t ext;
    uint32_t event_id, pad;
};
SIZE_IS(struct kfd_event_data, 48);
struct kfd_wait_args { uint64_t events; uint32_t n, all, timeout_ms, result; };
struct kfd_scratch_args { uint64_t va; uint32_t gpu_id, pad; };
struct kfd_tile_args {
    uint64_t tile_ptr, macro_ptr;
    uint32_t n_tile, n_macro, gpu_id, gb_addr_config, n_banks, n_ranks;
};
SIZE_IS(struct kfd_tile_args, 40);
struct kfd_trap_args { uint64_t tba, tma; uint32_t gpu_id, pad; };
struct kfd_acquire_args { uint32_t drm_fd, gpu_id; };
struct kfd_alloc_args { uint64_t va, bytes, handle, mmap_offset; uint32_t gpu_id, flags; };
SIZE_IS(struct kfd_alloc_args, 40);
struct kfd_free_args { uint64_t handle; };
struct kfd_map_args { uint64_t handle, ids; uint32_t n_ids, n_done; };
SIZE_IS(struct kfd_map_args, 24);
struct kfd_dmabuf_info_args { uint64_t bytes, metadata_ptr; uint32_t metadata_bytes, gpu_id, flags, fd; };
SIZE_IS(struct kfd_dmabuf_info_args, 32);
struct kfd_import_args { uint64_t va, handle; uint32_t gpu_id, fd; };
struct kfd_export_args { uint64_t handle; uint32_t flags, fd; };
struct kfd_available_args { uint64_t bytes; uint32_t gpu_id, pad; };
struct kfd_runtime_args { uint64_t r_debug; uint32_t mode, caps; };
struct kfd_smi_args { uint32_t gpu_id, fd; };
struct kfd_svm_attr { uint32_t type, value; };
struct kfd_svm_args { uint64_t start, bytes; uint32_t op, n_attrs; struct kfd_svm_attr attrs[]; };

/* Flags of ALLOC_MEMORY_OF_GPU. */
enum {
    KFD_MEM_VRAM = 1 << 0, KFD_MEM_GTT = 1 << 1, KFD_MEM_USERPTR = 1 << 2, KFD_MEM_DOORBELL = 1 << 3,
    KFD_MEM_MMIO = 1 << 4, KFD_MEM_DOMAINS = 0x1f, KFD_MEM_EXT_COHERENT = 1 << 24, KFD_MEM_UNCACHED = 1 << 25,
    KFD_MEM_COHERENT = 1 << 26, KFD_MEM_PUBLIC = 1 << 29, KFD_MEM_EXECUTABLE = 1 << 30,
};
#define KFD_MEM_WRITABLE (1u << 31)

/* ---- DRM ---- */

#define DRM_IOCTLS(X)                                                                                                  \
    X(0x00, VERSION) X(0x01, GET_UNIQUE) X(0x02, GET_MAGIC) X(0x05, GET_CLIENT) X(0x07, SET_VERSION)                   \
    X(0x09, GEM_CLOSE) X(0x0c, GET_CAP) X(0x0d, SET_CLIENT_CAP) X(0x2d, PRIME_HANDLE_TO_FD)                            \
    X(0x2e, PRIME_FD_TO_HANDLE) X(0x40, GEM_CREATE) X(0x41, GEM_MMAP) X(0x42, CTX) X(0x43, BO_LIST) X(0x44, CS)        \
    X(0x45, INFO) X(0x46, GEM_METADATA) X(0x47, GEM_WAIT_IDLE) X(0x48, GEM_VA) X(0x49, WAIT_CS) X(0x50, GEM_OP)        \
    X(0x51, GEM_USERPTR) X(0x52, WAIT_FENCES) X(0x53, VM) X(0x54, FENCE_TO_HANDLE) X(0x55, SCHED) X(0x56, USERQ)       \
    X(0x57, USERQ_SIGNAL) X(0x58, USERQ_WAIT) X(0xbf, SYNCOBJ_CREATE) X(0xc0, SYNCOBJ_DESTROY)                         \
    X(0xc1, SYNCOBJ_HANDLE_TO_FD) X(0xc2, SYNCOBJ_FD_TO_HANDLE) X(0xc3, SYNCOBJ_WAIT) X(0xc4, SYNCOBJ_RESET)           \
    X(0xc5, SYNCOBJ_SIGNAL) X(0xca, SYNCOBJ_TIMELINE_WAIT) X(0xcb, SYNCOBJ_QUERY) X(0xcc, SYNCOBJ_TRANSFER)            \
    X(0xcd, SYNCOBJ_TIMELINE_SIGNAL)

enum drm_nr {
#define X(nr, name) DRM_##name = nr,
    DRM_IOCTLS(X)
#undef X
};

struct drm_version_args {
    int32_t major, minor, patch;
    uint64_t name_bytes, name, date_bytes, date, desc_bytes, desc;
};
SIZE_IS(struct drm_version_args, 64);
struct drm_unique_args { uint64_t bytes, ptr; };
struct drm_client_args { int32_t idx, auth; uint64_t pid, uid, magic, iocs; };
struct drm_cap_args { uint64_t cap, value; };
struct drm_gem_close_args { uint32_t handle, pad; };
struct drm_prime_args { uint32_t handle, flags; int32_t fd; };
union drm_gem_create_args {
    struct { uint64_t bytes, alignment, domains, flags; };
    struct { uint32_t handle, pad; } out;
};
SIZE_IS(union drm_gem_create_args, 32);
union drm_gem_mmap_args { uint32_t handle; uint64_t offset; };
union drm_ctx_args {
    struct { uint32_t op, flags, ctx_id; int32_t priority; };
    struct { uint64_t flags; uint32_t hangs, reset_status; } state;
    uint32_t out_ctx_id;
    struct { uint32_t flags, pad; } pstate;
};
SIZE_IS(union drm_ctx_args, 16);
union drm_bo_list_args {
    struct { uint32_t op, handle, n, info_bytes; uint64_t info_ptr; };
    uint32_t out_handle;
};
SIZE_IS(union drm_bo_list_args, 24);
union drm_cs_args {
    struct { uint32_t ctx_id, bo_list, n_chunks, flags; uint64_t chunks; };
    uint64_t seq;
};
SIZE_IS(union drm_cs_args, 24);
struct drm_chunk { uint32_t id, n_dwords; uint64_t data; };
struct drm_chunk_ib { uint32_t pad, flags; uint64_t va; uint32_t bytes, ip_type, ip_instance, ring; };
struct drm_chunk_dep { uint32_t ip_type, ip_instance, ring, ctx_id; uint64_t seq; };
struct drm_chunk_buffers { uint32_t op, list, n, info_bytes; uint64_t info_ptr; };
struct drm_chunk_fence { uint32_t handle, offset; };
struct drm_chunk_timeline { uint32_t handle, flags; uint64_t point; };
struct drm_info_args {
    uint64_t ptr;
    uint32_t bytes, query;
    union {
        struct { uint32_t type, instance; } ip;
        struct { uint32_t offset, count, instance, flags; } mmr;
        struct { uint32_t type, instance, index, pad; } fw;
        struct { uint32_t type; } sensor;
    };
};
SIZE_IS(struct drm_info_args, 32);
struct drm_metadata_args {
    uint32_t handle, op;
    uint64_t flags, tiling;
    uint32_t bytes, data[64];
};
SIZE_IS(struct drm_metadata_args, 0x120);
union drm_wait_idle_args {
    struct { uint32_t handle, flags; uint64_t timeout; };
    struct { uint32_t status, domain; } out;
};
struct drm_gem_va_args {
    uint32_t handle, pad, op, flags;
    uint64_t va, off, bytes;
    uint64_t point;
    uint32_t syncobj, n_inputs;
    uint64_t inputs;
};
SIZE_IS(struct drm_gem_va_args, 64);
union drm_wait_cs_args {
    struct { uint64_t seq, timeout; uint32_t ip_type, ip_instance, ring, ctx_id; };
    uint64_t status;
};
SIZE_IS(union drm_wait_cs_args, 32);
struct drm_gem_op_args { uint32_t handle, op; uint64_t value; };
struct drm_userptr_args { uint64_t addr, bytes; uint32_t flags, handle; };
struct drm_fence_ref { uint32_t ctx_id, ip_type, ip_instance, ring; uint64_t seq; };
union drm_wait_fences_args {
    struct { uint64_t fences; uint32_t n, all; uint64_t timeout; };
    struct { uint32_t status, first; } out;
};
SIZE_IS(union drm_wait_fences_args, 24);
union drm_vm_args { struct { uint32_t op, flags; }; uint64_t out; };
union drm_fence_handle_args { struct { struct drm_fence_ref fence; uint32_t what, pad; }; uint32_t handle; };
struct drm_syncobj_args { uint32_t handle, flags; };
struct drm_syncobj_fd_args { uint32_t handle, flags; int32_t fd; uint32_t pad; uint64_t point; };
struct drm_syncobj_wait_args {
    uint64_t handles;
    int64_t timeout;
    uint32_t n, flags, first, pad;
};
struct drm_syncobj_timeline_wait_args {
    uint64_t handles, points;
    int64_t timeout;
    uint32_t n, flags, first, pad;
};
struct drm_syncobj_array_args { uint64_t handles; uint32_t n, pad; };
struct drm_syncobj_points_args { uint64_t handles, points; uint32_t n, flags; };
struct drm_syncobj_transfer_args { uint32_t src, dst; uint64_t src_point, dst_point; uint32_t flags, pad; };

struct drm_userq_args {
    uint32_t op, queue_id, ip_type, doorbell_handle, doorbell_offset, flags;
    uint64_t ring, ring_bytes, rptr, wptr, mqd, mqd_bytes;
};
union drm_userq_call { struct drm_userq_args in; uint32_t out_queue_id; };
SIZE_IS(union drm_userq_call, 72);
struct drm_userq_signal_args {
    uint32_t queue_id, pad;
    uint64_t syncobjs;
    uint16_t n_syncobjs, pad0; /* with pad1 one word of 64 bits at first */
    uint32_t pad1;
    uint64_t read_bos, write_bos;
    uint32_t n_read_bos, n_write_bos;
};
SIZE_IS(struct drm_userq_signal_args, 48);
struct drm_userq_wait_args {
    uint32_t queue_id, pad;
    uint64_t syncobjs, timelines, points, read_bos, write_bos;
    uint16_t n_points, n_fences, n_syncobjs, pad0;
    uint32_t n_read_bos, n_write_bos;
    uint64_t out;
};
SIZE_IS(struct drm_userq_wait_args, 72);

struct drm_hw_ip {
    uint32_t major, minor;
    uint64_t caps;
    uint32_t ib_start_align, ib_size_align, rings, discovery_version, userq_slots, pad;
};
SIZE_IS(struct drm_hw_ip, 40);
struct drm_heap { uint64_t total, usable, usage, max_alloc; };
struct drm_memory { struct drm_heap vram, visible, gtt; };
struct drm_dev_info {
    uint32_t device_id, chip_rev, external_rev, pci_rev, family, n_se, n_arrays_per_se, counter_khz;
    uint64_t max_engine_khz, max_memory_khz;
    uint32_t n_cu, cu_ao_mask, cu_bitmap[4][4], rb_mask, n_rb, n_gfx_contexts, pcie_gen;
    uint64_t ids_flags, va_offset, va_max;
    uint32_t va_align, pte_fragment, gart_page, ce_ram, vram_type, vram_width, vce_harvest, double_offchip_lds;
    uint64_t prim_buf, pos_buf, cntl_sb_buf, param_buf;
    uint32_t prim_bytes, pos_bytes, cntl_sb_bytes, param_bytes;
    uint32_t wave_size, n_vgprs, cu_per_array, n_tcc, gs_vgt_depth, gs_prim_depth, max_gs_waves, pcie_lanes;
    uint32_t cu_ao_bitmap[4][4];
    uint64_t high_va_offset, high_va_max;
    uint32_t tile_steering, pad0;
    uint64_t tcc_disabled, min_engine_khz, min_memory_khz;
    uint32_t tcp_kib, n_sqc_per_wgp, sqc_data_kib, sqc_inst_kib, gl1c_kib, gl2c_kib;
    uint64_t mall_bytes;
    uint32_t rb_mask_hi, shadow_bytes, shadow_align, csa_bytes, csa_align, userq_ip_mask, pad1;
};
SIZE_IS(struct drm_dev_info, 448);
_Static_assert(offsetof(struct drm_dev_info, va_offset) == 144, "va_offset");
_Static_assert(offsetof(struct drm_dev_info, high_va_offset) == 336, "high_va_offset");
_Static_assert(offsetof(struct drm_dev_info, userq_ip_mask) == 436, "userq_ip_mask");

#endif
