/* A client of the kernel interface itself, no library between: every rule that the driver holds against bad calls,
 * each broken once from a state where the call succeeds, and the calls that the libraries do not make.
 *
 *     client_raw rules CWSR CTL BO              the sizes of the card's context save area
 *     client_raw hang|fork|munmap|vital CWSR CTL BO
 *     client_raw moved CWSR CTL BO              with little VRAM, which a child fills
 *     client_raw open, version, errno CALL      prints what came */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/amdsim/kfd_abi.h"

enum { PAGE = 4096, RING = 8192 };
static int kfd = -1, drm = -1, n_bad;
static uint32_t gpu_id;
static uint32_t cwsr_bytes = 0x1000, ctl_bytes = 0x1000;
static uint64_t save_bytes = 0x1000;

static void expect(const char *what, long got, long expected)
{
    if (got != expected) {
        printf("FAIL %s: %ld (%s), expected %ld (%s)\n", what, got, strerror((int)got), expected,
               strerror((int)expected));
        n_bad++;
    }
}

static int call(unsigned long request, void *arg) /* 0 or an errno */
{
    return ioctl(kfd, request, arg) == 0 ? 0 : errno;
}

static void must(const char *what, int err)
{
    if (err) {
        printf("FAIL %s: %s\n", what, strerror(err));
        exit(1);
    }
}

static void read_gpu_id(void)
{
    FILE *f = fopen("/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id", "r");
    if (!f || fscanf(f, "%u", &gpu_id) != 1 || !gpu_id)
        must("gpu_id of node 1", ENOENT);
    fclose(f);
}

static void open_card(void)
{
    read_gpu_id();
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    if (kfd < 0 || drm < 0)
        must("open", errno);
}

static int acquire(void)
{
    struct kfd_ioctl_acquire_vm_args a = { .drm_fd = (uint32_t)drm, .gpu_id = gpu_id };
    return call(AMDKFD_IOC_ACQUIRE_VM, &a);
}

/* ---- memory ---- */

struct mem {
    uint64_t handle, va, bytes, offset;
    uint8_t *cpu;
};

enum { GTT = 0xd6000002, VRAM = 0xd0000001, VRAM_PUBLIC = 0xf0000001, USERPTR = 0xd6000004 };

static int alloc(struct mem *m, uint64_t bytes, uint32_t flags)
{
    void *va = mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = (uintptr_t)va, .size = bytes, .gpu_id = gpu_id,
                                                    .flags = flags };
    int err = call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);
    *m = (struct mem){ a.handle, a.va_addr, bytes, a.mmap_offset, NULL };
    if (err == 0 && (flags & 2 || flags & 1u << 29)) {
        m->cpu = mmap(va, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, drm, (off_t)a.mmap_offset);
        err = m->cpu == MAP_FAILED ? errno : 0;
    }
    return err;
}

static int map(const struct mem *m, bool on)
{
    uint32_t ids[1] = { gpu_id };
    struct kfd_ioctl_map_memory_to_gpu_args a = { .handle = m->handle, .device_ids_array_ptr = (uintptr_t)ids,
                                                  .n_devices = 1 };
    return call(on ? AMDKFD_IOC_MAP_MEMORY_TO_GPU : AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &a);
}

static int free_mem(const struct mem *m)
{
    struct kfd_ioctl_free_memory_of_gpu_args a = { .handle = m->handle };
    return call(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);
}

static struct mem mapped(uint64_t bytes, uint32_t flags)
{
    struct mem m;
    must("alloc", alloc(&m, bytes, flags));
    must("map", map(&m, true));
    return m;
}

static void memory_rules(void)
{
    struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = 0x10000000, .size = PAGE, .gpu_id = gpu_id,
                                                    .flags = VRAM };
#define TRY(what, change, err)                                                                                         \
    do {                                                                                                               \
        struct kfd_ioctl_alloc_memory_of_gpu_args t = a;                                                               \
        change;                                                                                                        \
        expect("ALLOC " what, call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &t), err);                                          \
    } while (0)
    TRY("of nothing", t.size = 0, EINVAL);
    TRY("on another card", t.gpu_id++, EINVAL);
    TRY("in no domain", t.flags &= ~31u, EINVAL);
    TRY("in two domains", t.flags |= 3, EINVAL);
    TRY("at an odd address", t.va_addr += 8, EINVAL);
    TRY("beyond the address space", t.va_addr = 1ull << 47, EINVAL);
    TRY("of doorbells of one page", t.flags = 0x94000008, EINVAL);
    TRY("of the HDP page twice", (t.flags = 0x94000010, t.size = 8192), EINVAL);
    TRY("of more VRAM than there is", t.size = 1ull << 40, ENOMEM);
    TRY("of a user pointer to nothing", (t.flags = USERPTR, t.mmap_offset = 0), EINVAL);
    TRY("of a user pointer to a hole", (t.flags = USERPTR, t.mmap_offset = 0x10000), EFAULT);
#undef TRY
    struct mem m, other;
    must("alloc", alloc(&m, 2 * PAGE, VRAM));
    expect("UNMAP before MAP", map(&m, false), EINVAL);
    must("map", map(&m, true));
    expect("MAP again", map(&m, true), 0);
    expect("FREE while mapped", free_mem(&m), EBUSY);
    must("alloc", alloc(&other, PAGE, VRAM));
    struct kfd_ioctl_alloc_memory_of_gpu_args over = { .va_addr = m.va + PAGE, .size = PAGE, .gpu_id = gpu_id,
                                                       .flags = VRAM };
    must("alloc over another", call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &over));
    expect("MAP over another", map(&(struct mem){ .handle = over.handle }, true), EINVAL);
    expect("UNMAP", map(&m, false), 0);
    expect("MAP where another was", map(&(struct mem){ .handle = over.handle }, true), 0);
    expect("FREE", free_mem(&m), 0);
    expect("FREE twice", free_mem(&m), EINVAL);
    expect("MAP of what was freed", map(&m, true), ENOMEM);
    expect("mmap of VRAM that is not public",
           mmap(NULL, PAGE, PROT_READ, MAP_SHARED, drm, (off_t)other.offset) == MAP_FAILED ? errno : 0, 0);
    struct mem pub;
    must("alloc of public VRAM", alloc(&pub, PAGE, VRAM_PUBLIC));
    expect("mmap of more than the buffer",
           mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, drm, (off_t)pub.offset) == MAP_FAILED ? errno : 0, EINVAL);
    expect("mmap at no buffer", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, drm, 0) == MAP_FAILED ? errno : 0, EINVAL);
    expect("an argument that is not there", call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, (void *)8), EFAULT);
    struct kfd_ioctl_get_available_memory_args avail = { .gpu_id = gpu_id };
    must("AVAILABLE_MEMORY", call(AMDKFD_IOC_AVAILABLE_MEMORY, &avail));
    uint64_t before = avail.available;
    struct mem big;
    must("alloc", alloc(&big, 1 << 20, VRAM));
    must("AVAILABLE_MEMORY", call(AMDKFD_IOC_AVAILABLE_MEMORY, &avail));
    expect("VRAM that an allocation takes", (long)(before - avail.available), 1 << 20);
}

/* ---- queues ---- */

struct parts {
    struct mem ring, ptr, eop, save;
};

static struct kfd_ioctl_create_queue_args queue_args(struct parts *p)
{
    *p = (struct parts){ mapped(RING, GTT), mapped(PAGE, GTT), mapped(PAGE, VRAM), mapped(save_bytes, VRAM) };
    return (struct kfd_ioctl_create_queue_args){
        .ring_base_address = p->ring.va, .ring_size = RING, .write_pointer_address = p->ptr.va,
        .read_pointer_address = p->ptr.va + 64, .gpu_id = gpu_id, .queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE,
        .queue_percentage = 100, .queue_priority = 7, .eop_buffer_address = p->eop.va, .eop_buffer_size = PAGE,
        .ctx_save_restore_address = p->save.va, .ctx_save_restore_size = cwsr_bytes, .ctl_stack_size = ctl_bytes,
    };
}

static int destroy(uint32_t id)
{
    struct kfd_ioctl_destroy_queue_args a = { .queue_id = id };
    return call(AMDKFD_IOC_DESTROY_QUEUE, &a);
}

static void queue_rules(void)
{
    struct parts p;
    struct kfd_ioctl_create_queue_args a = queue_args(&p);
    struct mem two_pages = mapped(2 * PAGE, GTT), plain;
    must("alloc", alloc(&plain, PAGE, GTT));
#define TRY(what, change, err)                                                                                         \
    do {                                                                                                               \
        struct kfd_ioctl_create_queue_args t = a;                                                                      \
        change;                                                                                                        \
        int e = call(AMDKFD_IOC_CREATE_QUEUE, &t);                                                                     \
        expect("CREATE_QUEUE " what, e, err);                                                                          \
        if (e == 0)                                                                                                    \
            expect("DESTROY_QUEUE", destroy(t.queue_id), 0);                                                           \
    } while (0)
    TRY("as it should be", , 0);
    TRY("without an end-of-pipe buffer", t.eop_buffer_address = t.eop_buffer_size = 0, 0);
    TRY("that starts switched off", t.queue_percentage = 0, 0);
    TRY("percentage 101", t.queue_percentage = 101, EINVAL);
    TRY("priority 16", t.queue_priority = 16, EINVAL);
    TRY("type 5", t.queue_type = 5, EINVAL);
    TRY("on another card", t.gpu_id++, EINVAL);
    TRY("ring of 12 KiB", t.ring_size = 3 * PAGE, EINVAL);
    TRY("ring half its mapping", t.ring_size = RING / 2, EINVAL);
    TRY("ring from the middle of its mapping", (t.ring_base_address += PAGE, t.ring_size = PAGE), EINVAL);
    TRY("ring in the kernel's addresses", t.ring_base_address = 1ull << 63, EFAULT);
    TRY("ring that is not mapped", t.ring_base_address = plain.va, EINVAL);
    TRY("write pointer in a larger mapping", t.write_pointer_address = two_pages.va, EINVAL);
    TRY("write pointer in a larger mapping's second page", t.write_pointer_address = two_pages.va + PAGE, EINVAL);
    TRY("read pointer unmapped", t.read_pointer_address = plain.va, EINVAL);
    TRY("end-of-pipe buffer of 2 KiB", t.eop_buffer_size = 2048, EINVAL);
    TRY("end-of-pipe buffer in a larger mapping", t.eop_buffer_address = two_pages.va, EINVAL);
    TRY("control stack too small", t.ctl_stack_size -= PAGE, EINVAL);
    TRY("control stack too large", t.ctl_stack_size += PAGE, EINVAL);
    TRY("save area too small", t.ctx_save_restore_size -= PAGE, EINVAL);
    TRY("save area elsewhere", t.ctx_save_restore_address = two_pages.va, EINVAL);
    TRY("SDMA, which has neither",
        (t.queue_type = KFD_IOC_QUEUE_TYPE_SDMA, t.eop_buffer_address = 0, t.ctx_save_restore_address = 0,
         t.ctx_save_restore_size = t.ctl_stack_size = 0), 0);
#undef TRY
    expect("DESTROY_QUEUE of none", destroy(77), EINVAL);

    struct kfd_ioctl_create_queue_args one = a, two = a;
    must("first queue", call(AMDKFD_IOC_CREATE_QUEUE, &one));
    must("second queue", call(AMDKFD_IOC_CREATE_QUEUE, &two));
    expect("doorbells of two queues are apart", one.doorbell_offset != two.doorbell_offset, 1);
    off_t base = (off_t)(one.doorbell_offset & ~0x1fffull);
    void *bell = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, base);
    expect("mmap of the doorbells", bell == MAP_FAILED ? errno : 0, 0);
    expect("mmap of one page of doorbells",
           mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, base) == MAP_FAILED ? errno : 0, EINVAL);
    expect("mmap of /dev/kfd at a plain offset",
           mmap(NULL, 0x2000, PROT_READ, MAP_SHARED, kfd, 0x2000) == MAP_FAILED ? errno : 0, ENODEV);
    must("destroy", destroy(one.queue_id));
    must("destroy", destroy(two.queue_id));
}

static void event_rules(void)
{
    struct mem page = mapped(0x8000, GTT);
    struct kfd_ioctl_create_event_args e = { .event_page_offset = page.handle, .event_type = 0, .auto_reset = 1 };
    must("CREATE_EVENT with its page", call(AMDKFD_IOC_CREATE_EVENT, &e));
    expect("a slot before its signal", *(uint64_t *)(page.cpu + 8 * e.event_slot_index) == ~0ull, 1);
    struct kfd_ioctl_create_event_args again = { .event_page_offset = page.handle };
    expect("a second event page", call(AMDKFD_IOC_CREATE_EVENT, &again), EINVAL);
    must("unmap", map(&page, false));
    expect("FREE of the event page", free_mem(&page), EBUSY);
    struct kfd_event_data d = { .event_id = e.event_id };
    struct kfd_ioctl_wait_events_args w = { .events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = 20 };
    expect("WAIT_EVENTS", call(AMDKFD_IOC_WAIT_EVENTS, &w), 0);
    expect("its result, nothing having happened", w.wait_result, KFD_IOC_WAIT_RESULT_TIMEOUT);
    struct kfd_ioctl_set_event_args set = { .event_id = e.event_id };
    must("SET_EVENT", call(AMDKFD_IOC_SET_EVENT, &set));
    expect("WAIT_EVENTS", call(AMDKFD_IOC_WAIT_EVENTS, &w), 0);
    expect("its result after SET_EVENT", w.wait_result, KFD_IOC_WAIT_RESULT_COMPLETE);
    d = (struct kfd_event_data){ .event_id = e.event_id };
    expect("WAIT_EVENTS", call(AMDKFD_IOC_WAIT_EVENTS, &w), 0);
    expect("its result, the event having been taken", w.wait_result, KFD_IOC_WAIT_RESULT_TIMEOUT);
    d.event_id = 999;
    expect("WAIT_EVENTS of none", call(AMDKFD_IOC_WAIT_EVENTS, &w), EINVAL);
    w.events_ptr = 8;
    expect("WAIT_EVENTS of a list that is not there", call(AMDKFD_IOC_WAIT_EVENTS, &w), EFAULT);
}

static void vm_rules(void)
{
    struct kfd_ioctl_alloc_memory_of_gpu_args early = { .va_addr = 0x10000000, .size = PAGE, .gpu_id = gpu_id,
                                                        .flags = VRAM };
    expect("ALLOC before ACQUIRE_VM", call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &early), ENODEV);
    struct kfd_ioctl_acquire_vm_args bad = { .drm_fd = (uint32_t)kfd, .gpu_id = gpu_id };
    expect("ACQUIRE_VM of no render node", call(AMDKFD_IOC_ACQUIRE_VM, &bad), EINVAL);
    must("ACQUIRE_VM", acquire());
    expect("ACQUIRE_VM again", acquire(), 0);
    int other = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC), keep = drm;
    drm = other;
    expect("ACQUIRE_VM of another open", acquire(), EBUSY);
    drm = keep;
    close(other);
    struct kfd_ioctl_acquire_vm_args copy = { .drm_fd = (uint32_t)dup(drm), .gpu_id = gpu_id };
    expect("ACQUIRE_VM through a copy of the descriptor", call(AMDKFD_IOC_ACQUIRE_VM, &copy), 0);
    close((int)copy.drm_fd);
    struct stat st;
    expect("fstat", fstat(drm, &st), 0);
    expect("the render node's number", st.st_rdev == makedev(226, 128) && S_ISCHR(st.st_mode), 1);
    expect("ioctl of an unknown number", call(_IOWR('K', 0x7f, uint64_t), &(uint64_t){ 0 }), ENOTTY);
    int32_t xnack = 1;
    expect("SET_XNACK_MODE", call(_IOWR('K', 0x21, int32_t), &xnack), EPERM);
}

static int rules(char **argv)
{
    cwsr_bytes = (uint32_t)strtoul(argv[0], NULL, 0);
    ctl_bytes = (uint32_t)strtoul(argv[1], NULL, 0);
    save_bytes = strtoull(argv[2], NULL, 0);
    open_card();
    vm_rules();
    memory_rules();
    queue_rules();
    event_rules();
    printf(n_bad ? "%d rules broken\n" : "rules of memory, queues and events: ok\n", n_bad);
    return n_bad > 0;
}

/* ---- behaviours ---- */

/* A WRITE_DATA of `value` to va, through a new queue. */
static struct kfd_ioctl_create_queue_args push(struct parts *p, uint64_t va, uint32_t value)
{
    struct kfd_ioctl_create_queue_args a = queue_args(p);
    must("CREATE_QUEUE", call(AMDKFD_IOC_CREATE_QUEUE, &a));
    uint64_t *bell = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
                          (off_t)(a.doorbell_offset & ~0x1fffull));
    if (bell == MAP_FAILED)
        must("doorbell", errno);
    const uint32_t dw[5] = { 0xc0033700, 5 << 8 | 1 << 20, (uint32_t)va, (uint32_t)(va >> 32), value };
    memcpy(p->ring.cpu, dw, sizeof dw);
    __atomic_store_n((uint64_t *)p->ptr.cpu, 5, __ATOMIC_SEQ_CST);
    __atomic_store_n(bell + (a.doorbell_offset & 0x1fff) / 8, 5, __ATOMIC_SEQ_CST);
    return a;
}

static bool comes(const volatile uint32_t *cell, uint32_t value, int ms)
{
    struct timespec nap = { 0, 1000000 };
    for (int i = 0; i < ms && *cell != value; i++)
        nanosleep(&nap, NULL);
    return *cell == value;
}

static uint32_t event_of_type(uint32_t type)
{
    struct kfd_ioctl_create_event_args e = { .event_type = type };
    must("CREATE_EVENT", call(AMDKFD_IOC_CREATE_EVENT, &e));
    return e.event_id;
}

static uint32_t wait_event(struct kfd_event_data *d, uint32_t id, uint32_t ms)
{
    *d = (struct kfd_event_data){ .event_id = id };
    struct kfd_ioctl_wait_events_args w = { .events_ptr = (uintptr_t)d, .num_events = 1, .timeout = ms };
    must("WAIT_EVENTS", call(AMDKFD_IOC_WAIT_EVENTS, &w));
    return w.wait_result;
}

/* A queue that never fetches: its removal fails, the GPU is reset and every process hears of it. */
static void hang(void)
{
    struct parts p;
    struct mem out = mapped(PAGE, GTT);
    uint32_t id = event_of_type(KFD_IOC_EVENT_HW_EXCEPTION);
    struct kfd_ioctl_create_queue_args a = push(&p, out.va, 5);
    expect("a write by a queue that hangs", comes((uint32_t *)out.cpu, 5, 100), 0);
    expect("DESTROY_QUEUE of a queue that hangs", destroy(a.queue_id), ETIME);
    struct kfd_event_data d;
    expect("the exception event", wait_event(&d, id, 1000), KFD_IOC_WAIT_RESULT_COMPLETE);
    expect("memory lost", d.hw_exception_data.memory_lost, 1);
}

/* A child has no card: what it inherited answers EBADF, the parent's goes on; a card of its own it may open. */
static void forked(void)
{
    struct parts p;
    struct mem out = mapped(PAGE, GTT);
    pid_t child = fork();
    if (child == 0) {
        struct kfd_ioctl_get_version_args v;
        int err = call(AMDKFD_IOC_GET_VERSION, &v);
        kfd = open("/dev/kfd", O_RDWR);
        int own = call(AMDKFD_IOC_GET_VERSION, &v);
        _exit(err == EBADF && kfd >= 0 && own == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect("the child's calls", status, 0);
    struct kfd_ioctl_create_queue_args a = push(&p, out.va, 7);
    expect("the parent's queue after a fork", comes((uint32_t *)out.cpu, 7, 60000), 1);
    must("destroy", destroy(a.queue_id));
}

/* A user pointer whose memory the process gives back: the GPU finds nothing there. */
static void unmapped(void)
{
    struct parts p;
    uint8_t *host = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct kfd_ioctl_alloc_memory_of_gpu_args u = { .va_addr = (uintptr_t)host, .size = PAGE, .gpu_id = gpu_id,
                                                    .flags = USERPTR, .mmap_offset = (uintptr_t)host };
    must("alloc of a user pointer", call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &u));
    must("map", map(&(struct mem){ .handle = u.handle }, true));
    struct kfd_ioctl_create_queue_args a = push(&p, u.va_addr + 16, 9);
    expect("a write through a user pointer", comes((uint32_t *)(host + 16), 9, 60000), 1);
    must("destroy", destroy(a.queue_id));
    uint32_t id = event_of_type(KFD_IOC_EVENT_MEMORY);
    munmap(host, PAGE);
    a = push(&p, u.va_addr + 16, 9);
    struct kfd_event_data d;
    expect("the memory event", wait_event(&d, id, 60000), KFD_IOC_WAIT_RESULT_COMPLETE);
    expect("its address", d.memory_exception_data.va == u.va_addr, 1);
    must("destroy", destroy(a.queue_id));
}

/* What a queue needs is taken away while it lives. */
static void vital(void)
{
    struct parts p;
    struct mem out = mapped(PAGE, GTT);
    struct kfd_ioctl_create_queue_args a = push(&p, out.va, 3);
    expect("the first write", comes((uint32_t *)out.cpu, 3, 60000), 1);
    expect("UNMAP of the end-of-pipe buffer", map(&p.eop, false), 0);
    must("destroy", destroy(a.queue_id));
}

/* ---- an eviction ---- */

static void fill_vram(void)
{
    union { struct { uint64_t bytes, align, domains, flags; } in; uint64_t out; } c;
    int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 16; i++) {
        c.in.bytes = 4 << 20, c.in.align = PAGE, c.in.domains = 4, c.in.flags = 2;
        if (fd < 0 || ioctl(fd, _IOWR('d', 0x40, c), &c))
            _exit(1);
    }
    _exit(0);
}

static uint64_t bytes_moved(void)
{
    struct { uint64_t out; uint32_t bytes, query; uint64_t pad[2]; } info = { .bytes = 8, .query = 0x0f };
    uint64_t n = 0;
    info.out = (uintptr_t)&n;
    must("AMDGPU_INFO", ioctl(drm, _IOW('d', 0x45, info), &info) ? errno : 0);
    return n;
}

/* Another process wants all of VRAM while a queue lives: the buffer lies elsewhere afterwards, and CPU and GPU find it there with
 * all that either wrote, before, meanwhile and after. */
static void moved(void)
{
    enum { WORDS = 16384, LOG = WORDS / 2, GPU_BEFORE = 5000, GPU_AFTER = 6000 };
    struct parts p, later;
    struct mem out = mapped(4 * WORDS, VRAM_PUBLIC);
    volatile uint32_t *w = (uint32_t *)out.cpu;
    for (uint32_t i = 0; i < LOG; i++)
        w[i] = i * 2654435761u;
    struct kfd_ioctl_create_queue_args a = push(&p, out.va + 4 * GPU_BEFORE, 7);
    expect("a write by the GPU before", comes((uint32_t *)out.cpu + GPU_BEFORE, 7, 60000), 1);
    pid_t child = fork();
    if (child == 0)
        fill_vram();
    uint32_t n = 0;
    uint64_t end = (uint64_t)time(NULL) + 20;
    for (int more = 20; more && (uint64_t)time(NULL) < end; more -= bytes_moved() > 0)
        for (int k = 0; k < 1000000; k++, n++)
            w[LOG + n % LOG] = n;
    int status = -1;
    waitpid(child, &status, 0);
    expect("the child's buffers", status, 0);
    expect("bytes moved", bytes_moved() >= out.bytes, 1);
    uint32_t bad = w[GPU_BEFORE] != 7;
    for (uint32_t i = 0; i < LOG; i++)
        bad += i != GPU_BEFORE && w[i] != i * 2654435761u;
    expect("words that got lost", bad, 0);
    bad = 0;
    for (uint32_t i = n < LOG ? 0 : n - LOG; i < n; i++)
        bad += w[LOG + i % LOG] != i;
    expect("words written meanwhile that got lost", bad, 0);
    must("destroy", destroy(a.queue_id));
    a = push(&later, out.va + 4 * GPU_AFTER, 8);
    expect("a write by the GPU after", comes((uint32_t *)out.cpu + GPU_AFTER, 8, 60000), 1);
    must("destroy", destroy(a.queue_id));
}

static int one_call(const char *what)
{
    struct mem m;
    struct parts p;
    if (strcmp(what, "acquire") == 0)
        return acquire();
    must("ACQUIRE_VM", acquire());
    if (strcmp(what, "vram") == 0)
        return alloc(&m, PAGE, VRAM);
    if (strcmp(what, "public-vram") == 0)
        return alloc(&m, PAGE, VRAM_PUBLIC);
    if (strcmp(what, "queue") == 0 || strcmp(what, "sdma") == 0) {
        struct kfd_ioctl_create_queue_args a = queue_args(&p);
        if (what[0] == 's')
            a.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
        return call(AMDKFD_IOC_CREATE_QUEUE, &a);
    }
    if (strcmp(what, "event") == 0) {
        struct kfd_ioctl_create_event_args e = { .event_type = 8 };
        return call(AMDKFD_IOC_CREATE_EVENT, &e);
    }
    if (strcmp(what, "wait") == 0) {
        struct kfd_event_data d = { .event_id = event_of_type(8) };
        struct kfd_ioctl_wait_events_args w = { .events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = 50 };
        return call(AMDKFD_IOC_WAIT_EVENTS, &w);
    }
    printf("unknown call %s\n", what);
    return -1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "open") == 0) { /* prints the errno's name */
        int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        puts(fd < 0 ? strerrorname_np(errno) : access("/dev/kfd", R_OK | W_OK) ? "access" : "ok");
        return 0;
    }
    if (strcmp(what, "rules") == 0 && argc == 5)
        return rules(argv + 2);
    open_card();
    if (strcmp(what, "version") == 0) {
        struct kfd_ioctl_get_version_args v;
        must("GET_VERSION", call(AMDKFD_IOC_GET_VERSION, &v));
        printf("%u.%u\n", v.major_version, v.minor_version);
        return 0;
    }
    if (strcmp(what, "errno") == 0 && argc == 3) {
        int err = one_call(argv[2]);
        puts(err ? strerrorname_np(err) : "ok");
        return 0;
    }
    must("ACQUIRE_VM", acquire());
    if (argc >= 5) {
        cwsr_bytes = (uint32_t)strtoul(argv[2], NULL, 0);
        ctl_bytes = (uint32_t)strtoul(argv[3], NULL, 0);
        save_bytes = strtoull(argv[4], NULL, 0);
    }
    static const struct { const char *name; void (*run)(void); } behaviours[] = {
        { "hang", hang }, { "fork", forked }, { "munmap", unmapped }, { "vital", vital },
        { "moved", moved },
    };
    for (size_t i = 0; i < sizeof behaviours / sizeof behaviours[0]; i++)
        if (strcmp(what, behaviours[i].name) == 0) {
            behaviours[i].run();
            if (!n_bad)
                printf("%s: ok\n", what);
            return n_bad > 0;
        }
    fprintf(stderr, "usage: client_raw rules|hang|fork|munmap|vital|moved CWSR CTL BO, open, version, errno CALL\n");
    return 2;
}
