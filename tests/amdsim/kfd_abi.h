/* tests/amdsim/kfd_abi.h: the part of the kernel's public <linux/kfd_ioctl.h> that raw clients use, with its names:
 * that header needs others that distributions put elsewhere. Written apart from the model's own description. */
#ifndef TESTS_KFD_ABI_H
#define TESTS_KFD_ABI_H

#include <stdint.h>
#include <sys/ioctl.h>

struct kfd_ioctl_get_version_args { uint32_t major_version, minor_version; };
struct kfd_ioctl_create_queue_args {
    uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
    uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
    uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
    uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad;
};
struct kfd_ioctl_destroy_queue_args { uint32_t queue_id, pad; };
struct kfd_ioctl_create_event_args {
    uint64_t event_page_offset;
    uint32_t event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index;
};
struct kfd_ioctl_set_event_args { uint32_t event_id, pad; };
struct kfd_event_data {
    union {
        struct { uint32_t not_present, read_only, no_execute, imprecise; uint64_t va; uint32_t gpu_id, error_type; }
            memory_exception_data;
        struct { uint32_t reset_type, reset_cause, memory_lost, gpu_id; } hw_exception_data;
        uint64_t last_event_age;
        uint64_t all[4];
    };
    uint64_t kfd_event_data_ext;
    uint32_t event_id, pad;
};
struct kfd_ioctl_wait_events_args { uint64_t events_ptr; uint32_t num_events, wait_for_all, timeout, wait_result; };
struct kfd_ioctl_acquire_vm_args { uint32_t drm_fd, gpu_id; };
struct kfd_ioctl_alloc_memory_of_gpu_args { uint64_t va_addr, size, handle, mmap_offset; uint32_t gpu_id, flags; };
struct kfd_ioctl_free_memory_of_gpu_args { uint64_t handle; };
struct kfd_ioctl_map_memory_to_gpu_args { uint64_t handle, device_ids_array_ptr; uint32_t n_devices, n_success; };
struct kfd_ioctl_get_available_memory_args { uint64_t available; uint32_t gpu_id, pad; };

enum { KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA };
enum { KFD_IOC_EVENT_SIGNAL, KFD_IOC_EVENT_HW_EXCEPTION = 3, KFD_IOC_EVENT_MEMORY = 8 };
enum { KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_IOC_WAIT_RESULT_FAIL };

#define AMDKFD_IOC_GET_VERSION _IOR('K', 0x01, struct kfd_ioctl_get_version_args)
#define AMDKFD_IOC_CREATE_QUEUE _IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)
#define AMDKFD_IOC_DESTROY_QUEUE _IOWR('K', 0x03, struct kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_CREATE_EVENT _IOWR('K', 0x08, struct kfd_ioctl_create_event_args)
#define AMDKFD_IOC_SET_EVENT _IOW('K', 0x0a, struct kfd_ioctl_set_event_args)
#define AMDKFD_IOC_WAIT_EVENTS _IOWR('K', 0x0c, struct kfd_ioctl_wait_events_args)
#define AMDKFD_IOC_ACQUIRE_VM _IOW('K', 0x15, struct kfd_ioctl_acquire_vm_args)
#define AMDKFD_IOC_ALLOC_MEMORY_OF_GPU _IOWR('K', 0x16, struct kfd_ioctl_alloc_memory_of_gpu_args)
#define AMDKFD_IOC_FREE_MEMORY_OF_GPU _IOW('K', 0x17, struct kfd_ioctl_free_memory_of_gpu_args)
#define AMDKFD_IOC_MAP_MEMORY_TO_GPU _IOWR('K', 0x18, struct kfd_ioctl_map_memory_to_gpu_args)
#define AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU _IOWR('K', 0x19, struct kfd_ioctl_map_memory_to_gpu_args)
#define AMDKFD_IOC_AVAILABLE_MEMORY _IOWR('K', 0x23, struct kfd_ioctl_get_available_memory_args)

/* The request numbers as they were read off the kernel's header by compiling it. */
_Static_assert(AMDKFD_IOC_GET_VERSION == 0x80084b01 && AMDKFD_IOC_CREATE_QUEUE == 0xc0604b02 &&
               AMDKFD_IOC_DESTROY_QUEUE == 0xc0084b03 && AMDKFD_IOC_CREATE_EVENT == 0xc0204b08 &&
               AMDKFD_IOC_SET_EVENT == 0x40084b0a && AMDKFD_IOC_WAIT_EVENTS == 0xc0184b0c &&
               AMDKFD_IOC_ACQUIRE_VM == 0x40084b15 && AMDKFD_IOC_ALLOC_MEMORY_OF_GPU == 0xc0284b16 &&
               AMDKFD_IOC_FREE_MEMORY_OF_GPU == 0x40084b17 && AMDKFD_IOC_MAP_MEMORY_TO_GPU == 0xc0184b18 &&
               AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU == 0xc0184b19 && AMDKFD_IOC_AVAILABLE_MEMORY == 0xc0104b23,
               "numbers");

#endif
