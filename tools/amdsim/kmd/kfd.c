/* /dev/kfd: the table of its ioctls, and those that are about nothing larger. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

static bool runtime_enabled; /* under card.lock */

/* Interface minor versions by Linux release, roughly: between two lines of the table it may be off by a release. */
uint32_t kfd_minor(void)
{
    static const struct { uint32_t kernel, minor; } since[] = {
        { 6013, 17 }, { 6010, 16 }, { 6009, 15 }, { 6005, 14 }, { 6004, 12 }, { 6001, 11 }, { 5018, 8 },
    };
    if (kmd_injected(KMD_INJECT_OLD_KERNEL))
        return 5;
    for (size_t i = 0; i < sizeof since / sizeof since[0]; i++)
        if (kmd_options()->kernel >= since[i].kernel)
            return since[i].minor;
    return 5;
}

/* What the kernel computes for the context save area of a compute queue (kfd_queue_ctx_save_restore_size): per CU the
 * vector registers, 16 KiB of scalar registers, 64 KiB of LDS and 4 KiB of hardware registers; 12 bytes of control
 * stack and 32 of debug memory per wave. Before 6.18 it took gfx1151 for a chip with smaller register files. */
struct save_area kfd_save_area(void)
{
    const struct chip *c = kmd_options()->chip;
    uint32_t vgpr = c->save_vgpr_bytes, waves = c->n_cu * 32;
    if (c->gfx == 1151 && kmd_options()->kernel < 6018)
        vgpr = 0x40000;
    uint32_t groups = (c->n_cu * (vgpr + 0x4000 + 0x10000 + 0x1000) + 4095) & ~4095u;
    struct save_area s = {
        .ctl_stack_bytes = (40 + waves * 12 + 8 + 4095) & ~4095u, .debug_bytes = (waves * 32 + 63) & ~63u,
    };
    s.cwsr_bytes = s.ctl_stack_bytes + groups;
    s.bo_bytes = ((uint64_t)s.cwsr_bytes + s.debug_bytes + 4095) & ~4095ull;
    return s;
}

static int check_gpu(uint32_t gpu_id)
{
    return gpu_id == KMD_GPU_ID ? 0 : kmd_why(-EINVAL, "gpu_id %u: the card's is %u", gpu_id, (unsigned)KMD_GPU_ID);
}

static struct kfd_aperture aperture(void)
{
    return (struct kfd_aperture){
        .lds_base = 1ull << 48, .lds_limit = (1ull << 48) | 0xffffffff,
        .scratch_base = 2ull << 48, .scratch_limit = (2ull << 48) | 0xffffffff,
        .gpuvm_base = 16ull << 20, .gpuvm_limit = (1ull << 47) - 1, .gpu_id = KMD_GPU_ID,
    };
}

static int get_apertures(void *arg)
{
    struct kfd_apertures_args *a = arg;
    struct kfd_aperture one = aperture();
    if (a->n_nodes == 0) { /* asked for the number */
        a->n_nodes = 1;
        return 0;
    }
    a->n_nodes = 1;
    return user_write(a->ptr, &one, sizeof one);
}

static int get_apertures_old(void *arg)
{
    struct kfd_apertures_old_args *a = arg;
    memset(a, 0, sizeof *a);
    a->a[0] = aperture();
    a->n_nodes = 1;
    return 0;
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int get_clocks(void *arg)
{
    struct kfd_clock_args *a = arg;
    a->gpu = a->gpu_id == KMD_GPU_ID ? cp_clock() : 0; /* node 0 and others: no GPU clock, and no error */
    a->cpu = clock_ns(CLOCK_MONOTONIC_RAW);
    a->system = clock_ns(CLOCK_BOOTTIME);
    a->system_freq = 1000000000;
    return 0;
}

static int set_memory_policy(void *arg)
{
    const struct kfd_memory_policy_args *a = arg;
    if (a->policy > 1 || a->alt_policy > 1)
        return kmd_why(-EINVAL, "SET_MEMORY_POLICY: policies %u and %u, expected 0 or 1", a->policy, a->alt_policy);
    return check_gpu(a->gpu_id);
}

static int get_tile_config(void *arg)
{
    struct kfd_tile_args *a = arg;
    int rc = check_gpu(a->gpu_id);
    if (rc == 0) {
        a->gb_addr_config = KMD_GB_ADDR_CONFIG;
        a->n_banks = a->n_ranks = 0; /* tiling modes went with gfx9 */
        a->n_tile = a->n_macro = 0;
    }
    return rc;
}

static int runtime_enable(void *arg)
{
    struct kfd_runtime_args *a = arg;
    bool on = a->mode & 1;
    if (kfd_minor() < 14)
        return kmd_why(-ENOTTY, "RUNTIME_ENABLE came with interface 1.14");
    if (on && runtime_enabled)
        return kmd_why(-EBUSY, "RUNTIME_ENABLE: it is enabled");
    runtime_enabled = on;
    a->caps = 0;
    return 0;
}

static int set_trap_handler(void *arg)
{
    const struct kfd_trap_args *a = arg;
    return check_gpu(a->gpu_id);
}

static int set_scratch_backing(void *arg)
{
    const struct kfd_scratch_args *a = arg;
    return check_gpu(a->gpu_id);
}

static int get_version(void *arg)
{
    struct kfd_version *a = arg;
    a->major = 1;
    a->minor = kfd_minor();
    return 0;
}

static int locked(unsigned nr, unsigned size, void *arg)
{
    switch (nr) {
    case KFD_GET_VERSION: return get_version(arg);
    case KFD_CREATE_QUEUE: return kfd_create_queue(arg);
    case KFD_DESTROY_QUEUE: return kfd_destroy_queue(arg);
    case KFD_UPDATE_QUEUE: return kfd_update_queue(arg);
    case KFD_SET_CU_MASK: return kfd_set_cu_mask(arg);
    case KFD_GET_QUEUE_WAVE_STATE: return kfd_wave_state(arg);
    case KFD_SET_MEMORY_POLICY: return set_memory_policy(arg);
    case KFD_GET_CLOCK_COUNTERS: return get_clocks(arg);
    case KFD_GET_PROCESS_APERTURES: return get_apertures_old(arg);
    case KFD_GET_PROCESS_APERTURES_NEW: return get_apertures(arg);
    case KFD_CREATE_EVENT: return kfd_create_event(arg);
    case KFD_DESTROY_EVENT: return kfd_destroy_event(arg);
    case KFD_SET_EVENT: return kfd_set_event(arg);
    case KFD_RESET_EVENT: return kfd_reset_event(arg);
    case KFD_SET_SCRATCH_BACKING_VA: return set_scratch_backing(arg);
    case KFD_GET_TILE_CONFIG: return get_tile_config(arg);
    case KFD_SET_TRAP_HANDLER: return set_trap_handler(arg);
    case KFD_ACQUIRE_VM: return kfd_acquire_vm(arg);
    case KFD_ALLOC_MEMORY_OF_GPU: return kfd_alloc(arg);
    case KFD_FREE_MEMORY_OF_GPU: return kfd_free(arg);
    case KFD_MAP_MEMORY_TO_GPU: return kfd_map(arg);
    case KFD_UNMAP_MEMORY_FROM_GPU: return kfd_unmap(arg);
    case KFD_GET_DMABUF_INFO: return kfd_dmabuf_info(arg);
    case KFD_IMPORT_DMABUF: return kfd_import_dmabuf(arg);
    case KFD_EXPORT_DMABUF: return kfd_export_dmabuf(arg);
    case KFD_SVM: return kfd_svm(arg, size);
    case KFD_AVAILABLE_MEMORY: return kfd_available(arg);
    case KFD_RUNTIME_ENABLE: return runtime_enable(arg);
    case KFD_SET_XNACK_MODE: /* these chips cannot retry a page fault */
        return *(const int32_t *)arg > 0 ? kmd_why(-EPERM, "SET_XNACK_MODE: not on this chip")
                                         : (*(int32_t *)arg = 0, 0);
    case KFD_DBG_REGISTER:
    case KFD_DBG_UNREGISTER:
    case KFD_DBG_ADDRESS_WATCH:
    case KFD_DBG_WAVE_CONTROL: /* withdrawn from the kernel */
        return kmd_why(-EPERM, "ioctl 'K' 0x%02x: the old debugger interface is gone", nr);
    case KFD_ALLOC_QUEUE_GWS: return kmd_why(-ENODEV, "ALLOC_QUEUE_GWS: not on this chip");
    case KFD_SMI_EVENTS: return kfd_smi_events(arg);
    case KFD_CRIU_OP: return kmd_why(-EPERM, "CRIU_OP: not modelled");
    case KFD_DBG_TRAP: return kmd_why(-EPERM, "DBG_TRAP: not modelled");
    default: return kmd_why(-ENOTTY, "ioctl 'K' 0x%02x with %u bytes: unknown", nr, size);
    }
}

int kfd_ioctl(struct file *f, unsigned nr, unsigned size, void *arg)
{
    if (nr == KFD_WAIT_EVENTS)
        return kfd_wait_events(arg);
    pthread_mutex_lock(&card.lock);
    if (card.reset_pending && card.cp) {
        cp_reset(card.cp);
        kfd_queues_lost();
        card.reset_pending = false;
    }
    int rc = locked(nr, size, arg);
    pthread_mutex_unlock(&card.lock);
    return rc;
}

static bool bells_given, bells_mapped; /* offsets that only this file understands; by a call of mmap that came here */

void kfd_bells_given(void)
{
    bells_given = true;
}

/* A program whose calls of mmap go past the preload hands such an offset to the real one, which knows EOVERFLOW alone. */
void kfd_tell_of_bells(void)
{
    if (bells_given && !bells_mapped)
        kmd_say("a queue was created and its doorbell never mapped by a call that is seen here: a program that calls mmap past libc "
                "(ctypes, syscall) gets EOVERFLOW for it: amdsim --plain-offsets, or AMDSIM_PLAIN_OFFSETS=1");
}

/* Offsets for mmap of /dev/kfd: what is asked for in bits 63:62, the gpu_id in 61:46. */
int kfd_mmap_offset(uint64_t off, uint64_t bytes, uint64_t *file_off)
{
    if (kmd_options()->plain_offsets) { /* already those of the file; the kernel's would need this function */
        *file_off = off;
        return off < KMD_KFD_FILE_BYTES && bytes <= KMD_KFD_FILE_BYTES - off ? 0 : -EINVAL;
    }
    static const struct { uint64_t at, bytes; const char *what; } type[4] = {
        { KMD_OFF_MMIO, KMD_PAGE, "the HDP page" }, { 0, 0, "reserved memory (not modelled)" },
        { KMD_OFF_EVENTS, 0x8000, "the event page" }, { KMD_OFF_DOORBELLS, KMD_DOORBELL_BYTES, "doorbells" },
    };
    unsigned t = (unsigned)(off >> 62), gpu = (off >> 46) & 0xffff;
    if (gpu != KMD_GPU_ID && t != 2)
        return kmd_why(-ENODEV, "mmap of /dev/kfd at 0x%llx: gpu_id %u in bits 61:46, the card's is %u",
                       (unsigned long long)off, gpu, (unsigned)KMD_GPU_ID);
    if (bytes != type[t].bytes || (off & ((1ull << 46) - 1)) != 0)
        return kmd_why(-EINVAL, "mmap of /dev/kfd, %s: 0x%llx bytes at 0x%llx, expected 0x%llx at the start",
                       type[t].what, (unsigned long long)bytes, (unsigned long long)(off & ((1ull << 46) - 1)),
                       (unsigned long long)type[t].bytes);
    *file_off = type[t].at;
    bells_mapped |= t == 3;
    return 0;
}
