/* rt/kfd/ioctl.h
 * The kernel interface of /dev/kfd, as far as zinc uses it: request numbers, structs, flags. The kernel's own header
 * is include/uapi/linux/kfd_ioctl.h; sizes and offsets below are those of its interface version 1.14 and are checked
 * by the compiler. All integers are little-endian, all addresses of the process. */
#ifndef ZINC_RT_KFD_IOCTL_H
#define ZINC_RT_KFD_IOCTL_H

#include <stddef.h>
#include <stdint.h>

/* X(name, number, direction: 1 write, 2 read, 3 both, struct) */
#define KFD_IOCTL_LIST(X)                                                                                              \
    X(GET_VERSION, 0x01, 2, kfd_version)                                                                               \
    X(CREATE_QUEUE, 0x02, 3, kfd_create_queue)                                                                         \
    X(DESTROY_QUEUE, 0x03, 3, kfd_destroy_queue)                                                                       \
    X(CREATE_EVENT, 0x08, 3, kfd_create_event)                                                                         \
    X(DESTROY_EVENT, 0x09, 1, kfd_destroy_event)                                                                       \
    X(WAIT_EVENTS, 0x0c, 3, kfd_wait_events)                                                                           \
    X(GET_PROCESS_APERTURES_NEW, 0x14, 3, kfd_apertures)                                                               \
    X(ACQUIRE_VM, 0x15, 1, kfd_acquire_vm)                                                                             \
    X(ALLOC_MEMORY_OF_GPU, 0x16, 3, kfd_alloc)                                                                         \
    X(FREE_MEMORY_OF_GPU, 0x17, 1, kfd_free)                                                                           \
    X(MAP_MEMORY_TO_GPU, 0x18, 3, kfd_map)                                                                             \
    X(UNMAP_MEMORY_FROM_GPU, 0x19, 3, kfd_map)                                                                         \
    X(SMI_EVENTS, 0x1f, 3, kfd_smi_events)                                                                             \
    X(AVAILABLE_MEMORY, 0x23, 3, kfd_available)                                                                        \
    X(RUNTIME_ENABLE, 0x25, 3, kfd_runtime)

struct kfd_version { uint32_t major, minor; };

struct kfd_acquire_vm { uint32_t drm_fd, gpu_id; };

struct kfd_alloc {
    uint64_t va, bytes, handle; /* handle: out                                                      */
    uint64_t mmap_offset;       /* in: the host's address of a USERPTR; out: offset for mmap         */
    uint32_t gpu_id, flags;
};

struct kfd_free { uint64_t handle; };

struct kfd_map { uint64_t handle, gpu_ids; uint32_t n_gpus, n_success; }; /* gpu_ids: address of u32 [n_gpus] */

struct kfd_create_queue {
    uint64_t ring, wptr, rptr, doorbell_offset; /* the last: out                                    */
    uint32_t ring_bytes, gpu_id, type, percentage, priority, queue_id; /* queue_id: out             */
    uint64_t eop, eop_bytes, save;
    uint32_t save_bytes, ctl_stack_bytes, sdma_engine, pad;
};

struct kfd_destroy_queue { uint32_t queue_id, pad; };

struct kfd_aperture {
    uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
    uint32_t gpu_id, pad;
};
struct kfd_apertures { uint64_t array; uint32_t n_nodes, pad; }; /* n_nodes: room in, entries out    */

struct kfd_create_event {
    uint64_t page_handle;       /* of the event page, with the first event                           */
    uint32_t trigger_data, type, auto_reset, node, event_id, slot; /* trigger_data, id, slot: out    */
};
struct kfd_destroy_event { uint32_t event_id, pad; };

struct kfd_event_data {
    union {
        struct { uint32_t not_present, read_only, no_execute, imprecise; uint64_t va; uint32_t gpu_id, type; } memory;
        struct { uint32_t reset_type, reset_cause, memory_lost, gpu_id; } hw;
        uint64_t last_age;
        uint64_t room[4];
    };
    uint64_t ext;
    uint32_t event_id, pad;
};
struct kfd_wait_events { uint64_t events; uint32_t n_events, wait_for_all, timeout_ms, result; };

struct kfd_smi_events { uint32_t gpu_id, fd; }; /* fd: out                                          */
/* What is written to that fd, 64 bits: bit event - 1. Lines are read from it: the event in hex, then its words. */
enum { KFD_SMI_QUEUE_EVICTION = 9, KFD_SMI_QUEUE_RESTORE = 10 };

struct kfd_available { uint64_t bytes; uint32_t gpu_id, pad; };
struct kfd_runtime { uint64_t r_debug; uint32_t mode_mask, capabilities; };

enum { KFD_QUEUE_COMPUTE = 0 };
enum { KFD_EVENT_SIGNAL = 0, KFD_EVENT_HW_EXCEPTION = 3, KFD_EVENT_MEMORY = 8 };
enum { KFD_WAIT_COMPLETE = 0, KFD_WAIT_TIMEOUT = 1, KFD_WAIT_FAIL = 2 };
enum { KFD_DOORBELL_BYTES = 0x2000, KFD_EVENT_SLOTS = 4096 };

/* struct kfd_alloc.flags: exactly one domain, then properties. */
#define KFD_ALLOC_VRAM          (1u << 0)
#define KFD_ALLOC_GTT           (1u << 1)
#define KFD_ALLOC_USERPTR       (1u << 2)
#define KFD_ALLOC_UNCACHED      (1u << 25)
#define KFD_ALLOC_COHERENT      (1u << 26)
#define KFD_ALLOC_NO_SUBSTITUTE (1u << 28)
#define KFD_ALLOC_PUBLIC        (1u << 29)
#define KFD_ALLOC_EXECUTABLE    (1u << 30)
#define KFD_ALLOC_WRITABLE      (1u << 31)

#define KFD_REQUEST(dir, nr, type) (((unsigned long)(dir) << 30) | (sizeof(type) << 16) | ('K' << 8) | (nr))
#define X(name, nr, dir, type)                                                                                         \
    static const unsigned long KFD_IOC_##name __attribute__((unused)) = KFD_REQUEST(dir, nr, struct type);
KFD_IOCTL_LIST(X)
#undef X

/* "CREATE_QUEUE"; "request 0x..." for others. */
const char *kfd_request_name(unsigned long request);

_Static_assert(sizeof(struct kfd_version) == 8 && sizeof(struct kfd_acquire_vm) == 8 &&
               sizeof(struct kfd_free) == 8 &&
               sizeof(struct kfd_destroy_queue) == 8 && sizeof(struct kfd_destroy_event) == 8, "kernel interface");
_Static_assert(sizeof(struct kfd_alloc) == 40 && offsetof(struct kfd_alloc, mmap_offset) == 24 &&
               offsetof(struct kfd_alloc, gpu_id) == 32 && offsetof(struct kfd_alloc, flags) == 36, "kernel "
                                                                                                    "interface");
_Static_assert(sizeof(struct kfd_map) == 24 && offsetof(struct kfd_map, n_success) == 20, "kernel interface");
_Static_assert(sizeof(struct kfd_create_queue) == 96 && offsetof(struct kfd_create_queue, doorbell_offset) == 24 &&
               offsetof(struct kfd_create_queue, ring_bytes) == 32 && offsetof(struct kfd_create_queue, type) == 40 &&
               offsetof(struct kfd_create_queue, queue_id) == 52 && offsetof(struct kfd_create_queue, eop) == 56 &&
               offsetof(struct kfd_create_queue, save) == 72 && offsetof(struct kfd_create_queue,
                                                                         ctl_stack_bytes) == 84,
               "kernel interface");
_Static_assert(sizeof(struct kfd_aperture) == 56 && sizeof(struct kfd_apertures) == 16, "kernel interface");
_Static_assert(sizeof(struct kfd_create_event) == 32 && offsetof(struct kfd_create_event, event_id) == 24,
               "kernel interface");
_Static_assert(sizeof(struct kfd_event_data) == 48 && offsetof(struct kfd_event_data, event_id) == 40 &&
               offsetof(struct kfd_event_data, memory.va) == 16 && offsetof(struct kfd_event_data,
                                                                            memory.gpu_id) == 24,
               "kernel interface");
_Static_assert(sizeof(struct kfd_wait_events) == 24 && sizeof(struct kfd_available) == 16 &&
               sizeof(struct kfd_smi_events) == 8 &&
               sizeof(struct kfd_runtime) == 16, "kernel interface");

#endif
