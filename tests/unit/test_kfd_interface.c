/* rt/kfd against a kernel that the test plays: request numbers, the order of calls, what is asked for a queue,
 * retries, and the line that each refusal gives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rt/kfd/ioctl.h"
#include "rt/kfd/kfd.h"
#include "tests/lib/run.h"

/* ---- the kernel ---- */

enum { KFD_FD = 1000, DRM_FD = 1001, SMI_FD = 1002, LOG_MAX = 200 };

static struct {
    unsigned long log[LOG_MAX];
    uint32_t n_log;
    struct kfd_create_queue queue[8]; /* as asked */
    uint32_t n_queues, alloc_flags, n_events, eintr_left;
    unsigned long fail;               /* this request fails ...      */
    int with, times;                  /* ... so, so many times       */
    uint32_t minor, vgpr_bytes;       /* of the save area it expects; 0: any */
    uint64_t next_handle;
    const char *properties;
    const char *cwsr_enable;          /* of the module; NULL: no such file */
    bool small_bar;
    const char *smi;                  /* what there is to read of evictions; NULL: the kernel tells nothing */
    uint64_t smi_wanted;
} k;

static const char r9700[] = "simd_count 128\nsimd_per_cu 2\narray_count 8\nsimd_arrays_per_engine 2\n"
                            "max_waves_per_simd 16\nmax_slots_scratch_cu 32\nlds_size_in_kb 64\n"
                            "gfx_target_version 120001\ndrm_render_minor 128\nfw_version 96\n";
static const char strix[] = "simd_count 80\nsimd_per_cu 2\narray_count 4\nsimd_arrays_per_engine 2\n"
                            "max_waves_per_simd 16\nmax_slots_scratch_cu 32\nlds_size_in_kb 64\n"
                            "gfx_target_version 110501\ndrm_render_minor 128\n";

static int fake_open(struct kfd_sys *s, const char *path)
{
    return strcmp(path, "/dev/kfd") == 0 ? KFD_FD : strcmp(path, "/dev/dri/renderD128") == 0 ? DRM_FD : -ENOENT;
}

static int fake_close(struct kfd_sys *s, int fd)
{
    return 0;
}

static int check_save_area(const struct kfd_create_queue *q)
{
    struct kfd_gpu g = { .n_cu = 40, .n_xcc = 1 };
    struct kfd_save_area a = kfd_save_area_of(&g, k.vgpr_bytes);
    return q->save_bytes == a.save_bytes && q->ctl_stack_bytes == a.ctl_stack_bytes ? 0 : -EINVAL;
}

static int answer(unsigned long request, void *arg)
{
    if (request == KFD_IOC_GET_VERSION)
        *(struct kfd_version *)arg = (struct kfd_version){ 1, k.minor };
    uint32_t visible = KFD_ALLOC_VRAM | KFD_ALLOC_PUBLIC;
    if (request == KFD_IOC_ALLOC_MEMORY_OF_GPU && k.small_bar &&
        (((struct kfd_alloc *)arg)->flags & visible) == visible)
        return -EINVAL;
    if (request == KFD_IOC_ALLOC_MEMORY_OF_GPU) {
        k.alloc_flags = ((struct kfd_alloc *)arg)->flags;
        ((struct kfd_alloc *)arg)->handle = ++k.next_handle;
    }
    if (request == KFD_IOC_CREATE_EVENT)
        ((struct kfd_create_event *)arg)->event_id = k.n_events++;
    if (request == KFD_IOC_GET_PROCESS_APERTURES_NEW) {
        struct kfd_apertures *a = arg;
        struct kfd_aperture *out = (struct kfd_aperture *)(uintptr_t)a->array;
        out[0] = (struct kfd_aperture){ .gpuvm_base = 0x10000, .gpuvm_limit = (1ull << 47) - 1, .gpu_id = 77 };
        a->n_nodes = 1;
    }
    if (request == KFD_IOC_SMI_EVENTS && !k.smi)
        return -EPERM;
    if (request == KFD_IOC_SMI_EVENTS)
        ((struct kfd_smi_events *)arg)->fd = SMI_FD;
    if (request == KFD_IOC_WAIT_EVENTS)
        ((struct kfd_wait_events *)arg)->result = KFD_WAIT_TIMEOUT;
    if (request == KFD_IOC_AVAILABLE_MEMORY)
        ((struct kfd_available *)arg)->bytes = 5ull << 20;
    if (request == KFD_IOC_CREATE_QUEUE) {
        struct kfd_create_queue *q = arg;
        if (k.n_queues < 8)
            k.queue[k.n_queues++] = *q;
        q->queue_id = 3;
        q->doorbell_offset = (3ull << 62) | 0x40;
        return k.vgpr_bytes ? check_save_area(q) : 0;
    }
    return 0;
}

static int fake_ioctl(struct kfd_sys *s, int fd, unsigned long request, void *arg)
{
    ck_assert_int_eq(fd, KFD_FD);
    if (k.eintr_left) {
        k.eintr_left--;
        return -EINTR;
    }
    if (k.n_log < LOG_MAX)
        k.log[k.n_log++] = request;
    if (request == k.fail && k.times) {
        k.times--;
        return k.with;
    }
    return answer(request, arg);
}

static int fake_map(struct kfd_sys *s, void *at, uint64_t bytes, int fd, uint64_t off, void **out)
{
    if (fd == KFD_FD)
        ck_assert_msg(bytes == 0x2000 && off == 3ull << 62, "doorbells: %llu bytes at %llx",
                      (unsigned long long)bytes,
                      (unsigned long long)off);
    void *p = mmap(at, bytes, fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
    *out = p;
    return p == MAP_FAILED ? -ENOMEM : 0;
}

static int fake_read(struct kfd_sys *s, const char *path, char *buf, uint32_t n)
{
    const char *text = strstr(path, "/nodes/0/") ? "0\n" : strstr(path, "gpu_id") ? "77\n"
                     : strstr(path, "mem_banks") ? "heap_type 1\nsize_in_bytes 1073741824\n"
                     : strstr(path, "properties") ? k.properties
                     : strcmp(path, "/sys/module/amdgpu/parameters/cwsr_enable") == 0 ? k.cwsr_enable : NULL;
    if (!text)
        return -ENOENT;
    snprintf(buf, n, "%s", text);
    return (int)strlen(buf);
}

static int fake_list(struct kfd_sys *s, const char *path, uint32_t *out, uint32_t cap)
{
    if (strstr(path, "mem_banks")) {
        out[0] = 0;
        return 1;
    }
    out[0] = 0;
    out[1] = 1;
    return 2;
}

static void fake_sleep(struct kfd_sys *s, uint64_t ns)
{
}

static int fake_fd_own(struct kfd_sys *s, int fd)
{
    ck_assert_int_eq(fd, SMI_FD);
    return 0;
}

/* As kernels before 6.13 do it: the size of a pointer at a time. */
static int fake_fd_read(struct kfd_sys *s, int fd, void *buf, uint32_t n)
{
    uint32_t len = (uint32_t)strlen(k.smi), some = len < 8 ? len : 8;
    ck_assert_int_eq(fd, SMI_FD);
    ck_assert_uint_ge(n, 8);
    memcpy(buf, k.smi, some);
    k.smi += some;
    return some ? (int)some : -EAGAIN;
}

static int fake_fd_write(struct kfd_sys *s, int fd, const void *buf, uint32_t n)
{
    ck_assert_uint_eq(n, 8);
    memcpy(&k.smi_wanted, buf, 8);
    return 8;
}

static struct kfd_sys sys;
static struct err e;
static struct kfd_gpu gpu[KFD_MAX_GPUS];

static void boot(const char *properties)
{
    memset(&k, 0, sizeof k);
    k.minor = 15;
    k.properties = properties;
    sys = *kfd_sys_real();
    memset(sys.calls, 0, sizeof sys.calls);
    sys.open = fake_open;
    sys.close = fake_close;
    sys.ioctl = fake_ioctl;
    sys.map = fake_map;
    sys.read = fake_read;
    sys.list = fake_list;
    sys.sleep = fake_sleep;
    sys.fd_own = fake_fd_own;
    sys.fd_read = fake_fd_read;
    sys.fd_write = fake_fd_write;
    kfd_sys_use(&sys);
    e = (struct err){ 0 };
    ck_assert_msg(kfd_topology(&sys, gpu, KFD_MAX_GPUS, &e) == 1, "%s", e.msg);
}

static struct kfd_dev *opened(void)
{
    struct kfd_dev *d;
    ck_assert_msg(kfd_open(&gpu[0], &d, &e) == 0, "%s", e.msg);
    return d;
}

static void closed(struct kfd_dev *d)
{
    kfd_close(d);
    kfd_forget(&sys);
    kfd_sys_use(NULL);
}

/* ---- tests ---- */

/* As the kernel's own header compiles (include/uapi/linux/kfd_ioctl.h). */
START_TEST(request_numbers)
{
    ck_assert_uint_eq(KFD_IOC_GET_VERSION, 0x80084b01);
    ck_assert_uint_eq(KFD_IOC_CREATE_QUEUE, 0xc0604b02);
    ck_assert_uint_eq(KFD_IOC_DESTROY_QUEUE, 0xc0084b03);
    ck_assert_uint_eq(KFD_IOC_CREATE_EVENT, 0xc0204b08);
    ck_assert_uint_eq(KFD_IOC_DESTROY_EVENT, 0x40084b09);
    ck_assert_uint_eq(KFD_IOC_WAIT_EVENTS, 0xc0184b0c);
    ck_assert_uint_eq(KFD_IOC_GET_PROCESS_APERTURES_NEW, 0xc0104b14);
    ck_assert_uint_eq(KFD_IOC_ACQUIRE_VM, 0x40084b15);
    ck_assert_uint_eq(KFD_IOC_ALLOC_MEMORY_OF_GPU, 0xc0284b16);
    ck_assert_uint_eq(KFD_IOC_FREE_MEMORY_OF_GPU, 0x40084b17);
    ck_assert_uint_eq(KFD_IOC_MAP_MEMORY_TO_GPU, 0xc0184b18);
    ck_assert_uint_eq(KFD_IOC_UNMAP_MEMORY_FROM_GPU, 0xc0184b19);
    ck_assert_uint_eq(KFD_IOC_SMI_EVENTS, 0xc0084b1f);
    ck_assert_uint_eq(KFD_IOC_AVAILABLE_MEMORY, 0xc0104b23);
    ck_assert_uint_eq(KFD_IOC_RUNTIME_ENABLE, 0xc0104b25);
    ck_assert_str_eq(kfd_request_name(0xc0604b02), "CREATE_QUEUE");
}
END_TEST

/* Sizes that kernels compute for cards that are sold (kfd_queue_ctx_save_restore_size). */
START_TEST(save_areas)
{
    static const struct { uint32_t cu, vgpr, ctl, cwsr; uint64_t mem; } known[] = {
        { 96, 0x60000, 0xa000, 0x2bea000, 0x2c02000 }, { 84, 0x60000, 0x8000, 0x266c000, 0x2681000 },
        { 64, 0x60000, 0x7000, 0x1d47000, 0x1d57000 }, { 56, 0x60000, 0x6000, 0x199e000, 0x19ac000 },
        { 32, 0x60000, 0x4000, 0xea4000, 0xeac000 },   { 40, 0x60000, 0x4000, 0x124c000, 0x1256000 },
        { 40, 0x40000, 0x4000, 0xd4c000, 0xd56000 },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct kfd_gpu g = { .n_cu = known[i].cu, .n_xcc = 1 };
        struct kfd_save_area a = kfd_save_area_of(&g, known[i].vgpr);
        ck_assert_uint_eq(a.ctl_stack_bytes, known[i].ctl);
        ck_assert_uint_eq(a.save_bytes, known[i].cwsr);
        ck_assert_uint_eq(a.mem_bytes, known[i].mem);
    }
}
END_TEST

START_TEST(topology_is_read)
{
    boot(r9700);
    ck_assert_str_eq(gpu[0].chip->name, "gfx1201");
    ck_assert_uint_eq(gpu[0].n_cu, 64);
    ck_assert_uint_eq(gpu[0].n_se, 4);
    ck_assert_uint_eq(gpu[0].vram_bytes, 1u << 30);
    boot("simd_count 72\nsimd_per_cu 2\narray_count 8\nsimd_arrays_per_engine 2\ngfx_target_version 100300\n"
         "drm_render_minor 128\n");
    ck_assert_ptr_null(gpu[0].chip);
    struct kfd_dev *d;
    ck_assert_int_eq(kfd_open(&gpu[0], &d, &e), -ENOTSUP);
    ck_assert_msg(strstr(e.msg, "gfx1030 is not one of"), "%s", e.msg);
    boot(r9700);
    k.properties = "gfx_target_version 120001\n"; /* a card that the container does not see */
    ck_assert_int_eq(kfd_topology(&sys, gpu, KFD_MAX_GPUS, &e), -ENODEV);
    kfd_sys_use(NULL);
}
END_TEST

static uint32_t first_of(unsigned long request)
{
    for (uint32_t i = 0; i < k.n_log; i++)
        if (k.log[i] == request)
            return i;
    ck_abort_msg("%s was never called", kfd_request_name(request));
    return 0;
}

static uint32_t last_of(unsigned long request)
{
    for (uint32_t i = k.n_log; i-- > 0;)
        if (k.log[i] == request)
            return i;
    ck_abort_msg("%s was never called", kfd_request_name(request));
    return 0;
}

START_TEST(order_of_calls)
{
    struct kfd_queue *q;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_uint_lt(first_of(KFD_IOC_GET_VERSION), first_of(KFD_IOC_ACQUIRE_VM));
    ck_assert_uint_lt(first_of(KFD_IOC_ACQUIRE_VM), first_of(KFD_IOC_ALLOC_MEMORY_OF_GPU));
    ck_assert_uint_lt(first_of(KFD_IOC_MAP_MEMORY_TO_GPU), first_of(KFD_IOC_CREATE_EVENT));
    ck_assert_uint_ne(d->wake_event, 0); /* packets that carry no id interrupt with 0 */
    ck_assert_uint_eq(k.n_events, 4);
    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    k.n_log = 0;
    kfd_close(d);
    ck_assert_uint_eq(first_of(KFD_IOC_DESTROY_QUEUE), 0);
    ck_assert_uint_lt(first_of(KFD_IOC_DESTROY_QUEUE), first_of(KFD_IOC_UNMAP_MEMORY_FROM_GPU));
    ck_assert_uint_lt(first_of(KFD_IOC_UNMAP_MEMORY_FROM_GPU), first_of(KFD_IOC_FREE_MEMORY_OF_GPU));
    k.n_log = 0;
    ck_assert_ptr_eq(opened(), d); /* the driver would not take a second render file */
    ck_assert_uint_eq(k.n_log, 0);
    closed(d);
    ck_assert_uint_lt(last_of(KFD_IOC_DESTROY_EVENT), LOG_MAX);
}
END_TEST

START_TEST(what_a_queue_asks_for)
{
    struct kfd_queue *q;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    const struct kfd_create_queue *c = &k.queue[0];
    ck_assert_uint_eq(k.n_queues, 1);
    ck_assert_uint_eq(c->type, 0);
    ck_assert_uint_eq(c->ring_bytes, 64 << 10);
    ck_assert_uint_eq(c->gpu_id, 77);
    ck_assert_uint_eq(c->percentage, 100);
    ck_assert_uint_eq(c->eop_bytes, 4096);
    ck_assert_uint_eq(c->rptr % 4096, 0); /* a page of their own, at its start */
    ck_assert_uint_eq(c->wptr / 4096, c->rptr / 4096);
    ck_assert_uint_eq(q->pointers->bytes, 4096);
    ck_assert_uint_eq(q->ring_mem->bytes, c->ring_bytes);
    ck_assert_uint_eq(q->save->bytes, 0x1d57000);
    ck_assert_ptr_eq((const void *)q->ring.bell, d->doorbells + 0x40);
    ck_assert_int_eq(kfd_queue_create(d, 12345, &q, &e), -EINVAL);
    closed(d);
}
END_TEST

START_TEST(save_area_of_older_kernels)
{
    struct kfd_queue *q;
    boot(strix);
    struct kfd_dev *d = opened();
    k.vgpr_bytes = 0x40000;
    ck_assert_int_eq(kfd_queue_create(d, 64 << 10, &q, &e), -ENOTSUP); /* too small for the card: only when asked for */
    ck_assert_msg(strstr(e.msg, "6.18.4") && strstr(e.msg, "cwsr_enable=0") && strstr(e.msg, "13942784") &&
                  strstr(e.msg, "19185664") && strstr(e.msg, "ZINC_KFD_SMALL_SAVE=1"), "%s", e.msg);
    ck_assert_uint_eq(k.log[k.n_log - 1] == KFD_IOC_FREE_MEMORY_OF_GPU, 1);
    uint32_t destroyed = 0;
    for (uint32_t i = 0; i < k.n_log; i++)
        destroyed += k.log[i] == KFD_IOC_DESTROY_QUEUE;
    ck_assert_uint_eq(destroyed, 1);
    k.cwsr_enable = "1\n";
    ck_assert_int_eq(kfd_queue_create(d, 64 << 10, &q, &e), -ENOTSUP);
    k.cwsr_enable = "0\n"; /* nothing is ever saved there */
    k.n_queues = 0;
    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(k.n_queues, 2);
    ck_assert_uint_eq(k.queue[0].save_bytes, 0x124c000);
    ck_assert_uint_eq(k.queue[1].save_bytes, 0xd4c000);
    ck_assert_uint_eq(q->save->bytes, 0xd56000);
    kfd_queue_destroy(q);
    k.vgpr_bytes = 0x12345; /* a kernel that nobody knows */
    ck_assert_int_eq(kfd_queue_create(d, 64 << 10, &q, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "refuses the queue's buffers") && strstr(e.msg, "6.12"), "%s", e.msg);
    closed(d);
}
END_TEST

START_TEST(what_sysfs_says_comes_first)
{
    char text[1024];
    struct kfd_queue *q;
    snprintf(text, sizeof text, "%scwsr_size %u\nctl_stack_size %u\n", r9700, 0x2000000, 0x9000);
    boot(text);
    struct kfd_dev *d = opened();
    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(k.queue[0].save_bytes, 0x2000000);
    ck_assert_uint_eq(k.queue[0].ctl_stack_bytes, 0x9000);
    closed(d);
}
END_TEST

START_TEST(interrupted_calls_are_repeated)
{
    boot(r9700);
    k.eintr_left = 5;
    struct kfd_dev *d = opened();
    ck_assert_uint_eq(k.eintr_left, 0);
    k.fail = KFD_IOC_AVAILABLE_MEMORY;
    k.with = -EAGAIN;
    k.times = 3;
    uint64_t bytes;
    ck_assert_int_eq(kfd_mem_available(d, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, 5u << 20);
    closed(d);
}
END_TEST

/* What fails at opening, and the words for it. Nothing stays behind: the next try works. */
START_TEST(refusals_at_opening)
{
    static const struct { unsigned long request; int with; const char *words; } cases[] = {
        { 0xc0204b08, -ENOSPC, "CREATE_EVENT: No space left" }, { 0x40084b15, -EBUSY, "already in use" },
        { 0x40084b15, -ENODEV, "ACQUIRE_VM" },                   { 0x80084b01, -EIO, "GET_VERSION" },
        { 0xc0184b18, -ENOMEM, "no room for" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kfd_dev *d;
        boot(r9700);
        k.fail = cases[i].request;
        k.with = cases[i].with;
        k.times = 1;
        ck_assert_int_eq(kfd_open(&gpu[0], &d, &e), cases[i].with);
        ck_assert_msg(strstr(e.msg, cases[i].words), "%s", e.msg);
        ck_assert_ptr_null(d);
        closed(opened());
    }
    struct kfd_dev *d;
    boot(r9700);
    k.minor = 5;
    ck_assert_int_eq(kfd_open(&gpu[0], &d, &e), -ENOTSUP);
    ck_assert_msg(strstr(e.msg, "1.5, zinc needs 1.14") && strstr(e.msg, "Linux 6.12"), "%s", e.msg);
    kfd_sys_use(NULL);
}
END_TEST

START_TEST(memory_and_its_refusals)
{
    struct kfd_mem *m, *n;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_int_eq(kfd_mem_alloc(d, KFD_HOST, 5000, "cells", &m, &e), 0);
    ck_assert_uint_eq(m->bytes, 8192);
    ck_assert_uint_eq(m->va, (uintptr_t)m->cpu);
    ck_assert_ptr_eq(kfd_mem_at(d, m->va + 8191, 1), m);
    ck_assert_ptr_null(kfd_mem_at(d, m->va + 8191, 2));
    ck_assert_ptr_null(kfd_mem_check(d, m->va, 8192, true));
    ck_assert_str_eq(kfd_mem_check(d, m->va + 8000, 1000, true), "beyond the end of cells");
    uint64_t va = m->va;
    kfd_mem_free(m);
    ck_assert_str_eq(kfd_mem_check(d, va, 4, false), "freed: cells");
    ck_assert_str_eq(kfd_mem_check(d, 0x1000, 4, false), "unmapped");
    k.fail = KFD_IOC_ALLOC_MEMORY_OF_GPU;
    k.with = -ENOMEM;
    k.times = 1;
    ck_assert_int_eq(kfd_mem_alloc(d, KFD_VRAM, 100 << 20, "weights", &n, &e), -ENOMEM);
    ck_assert_msg(strstr(e.msg, "no room for 100 MiB for weights") && strstr(e.msg, "5 MiB free of 1024"), "%s",
                  e.msg);
    ck_assert_int_eq(kfd_mem_user(d, (char *)d + 1, 4096, "odd", &n, &e), -EINVAL);
    closed(d);
}
END_TEST

START_TEST(memory_of_an_apu_goes_beyond_its_carve_out)
{
    struct kfd_mem *m;
    boot(strix);
    struct kfd_dev *d = opened();
    k.fail = KFD_IOC_ALLOC_MEMORY_OF_GPU;
    k.with = -ENOMEM;
    k.times = 1;
    ck_assert_msg(kfd_mem_alloc(d, KFD_VRAM, 1 << 20, "weights", &m, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(m->kind, KFD_VRAM); /* host memory that the GPU caches: flushed as its own is */
    ck_assert_ptr_nonnull(m->cpu);
    ck_assert_uint_eq(k.alloc_flags & (KFD_ALLOC_VRAM | KFD_ALLOC_UNCACHED | KFD_ALLOC_COHERENT), 0);
    ck_assert_uint_eq(k.alloc_flags & (KFD_ALLOC_GTT | KFD_ALLOC_PUBLIC | KFD_ALLOC_WRITABLE | KFD_ALLOC_EXECUTABLE |
                                       KFD_ALLOC_NO_SUBSTITUTE),
                      KFD_ALLOC_GTT | KFD_ALLOC_PUBLIC | KFD_ALLOC_WRITABLE | KFD_ALLOC_EXECUTABLE | KFD_ALLOC_NO_SUBSTITUTE);
    closed(d);
}
END_TEST

START_TEST(a_small_pcie_window)
{
    struct kfd_mem *m;
    boot(r9700);
    k.small_bar = true;
    struct kfd_dev *d = opened();
    ck_assert(!d->large_bar);
    ck_assert_int_eq(kfd_mem_alloc(d, KFD_VRAM, 4096, "far", &m, &e), 0);
    ck_assert_ptr_null(m->cpu);
    ck_assert_int_eq(kfd_mem_alloc(d, KFD_HOST, 4096, "near", &m, &e), 0);
    ck_assert_ptr_nonnull(m->cpu);
    closed(d);
}
END_TEST

/* The ring: where packets land, across its end, and what is written besides. Nobody fetches, so the test completes.
 * */
START_TEST(ring_and_doorbell)
{
    struct kfd_queue *q;
    uint32_t dw[600];
    uint64_t point, calls;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_msg(kfd_queue_create(d, 8 << 10, &q, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < 600; i++)
        dw[i] = 0x1000 + i;
    calls = kfd_sys_calls(&sys);
    for (uint64_t n = 1; n <= 20; n++) {
        uint64_t at = q->ring.wptr;
        ck_assert_msg(kfd_queue_submit(q, dw, 600, &point, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(point, n);
        ck_assert_uint_eq(q->ring.wptr, at + 600 + KFD_FENCE_DW);
        ck_assert_uint_eq(*q->ring.wptr_cell, q->ring.wptr);
        ck_assert_uint_eq(*q->ring.bell, q->ring.wptr);
        for (uint32_t i = 0; i < 600; i++)
            ck_assert_uint_eq(q->ring.dw[(at + i) % 2048], 0x1000 + i);
        ck_assert_uint_eq(q->ring.dw[(at + 600) % 2048] >> 8 & 0xff, PM4_OP_RELEASE_MEM);
        ck_assert_uint_eq(q->ring.dw[(at + 600 + PM4_AT_RELEASE_DATA) % 2048], n);
        ck_assert(!kfd_queue_is_done(q, point));
        q->ring.watch.cells->fence = n; /* the read pointer stays at 0: it counts nothing */
        ck_assert_int_eq(kfd_queue_wait(q, point, 1000, &e), 0);
    }
    ck_assert_uint_eq(kfd_sys_calls(&sys), calls); /* not one system call */
    ck_assert_int_eq(kfd_queue_submit(q, dw, KFD_SUBMIT_MAX + 1, &point, &e), -EINVAL);
    closed(d);
}
END_TEST

/* A full ring, or as many points as may be in flight: the watchdog ends it, and a fence makes room. */
/* The same request once more, by the kernel's rules for a new queue: both pointers 0, the save area of the first. */
START_TEST(a_queue_that_rests_is_made_again)
{
    struct kfd_queue *q;
    uint32_t dw[600] = { 0 };
    uint64_t point;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(kfd_queue_submit(q, dw, 600, &point, &e), 0);
    q->ring.watch.cells->fence = point;
    uint32_t calls = k.n_log;
    amd_ring_rest(&q->ring);
    amd_ring_rest(&q->ring);
    ck_assert_uint_eq(k.n_log, calls + 1);
    ck_assert_uint_eq(k.log[calls], KFD_IOC_DESTROY_QUEUE);
    *q->ring.rptr = 600 + KFD_FENCE_DW; /* as the card left it */
    ck_assert_int_eq(kfd_queue_submit(q, dw, 8, &point, &e), 0);
    ck_assert_uint_eq(k.n_log, calls + 2);
    ck_assert_uint_eq(k.log[calls + 1], KFD_IOC_CREATE_QUEUE);
    ck_assert_uint_eq(k.n_queues, 2);
    k.queue[1].queue_id = k.queue[0].queue_id;
    k.queue[1].doorbell_offset = k.queue[0].doorbell_offset;
    ck_assert_mem_eq(&k.queue[1], &k.queue[0], sizeof k.queue[0]);
    ck_assert_uint_eq(*q->ring.rptr, 0);
    ck_assert_uint_eq(*q->ring.wptr_cell, 8 + KFD_FENCE_DW);
    ck_assert_uint_eq(*q->ring.bell, 8 + KFD_FENCE_DW);
    ck_assert_uint_eq(point, 2); /* points go on */
    for (int i = 0; i < 40; i++) { /* and room is counted from the new beginning */
        q->ring.watch.cells->fence = point;
        ck_assert_int_eq(kfd_queue_submit(q, dw, 600, &point, &e), 0);
    }

    q->ring.watch.cells->fence = point; /* somebody else has the last queue */
    amd_ring_rest(&q->ring);
    k.fail = KFD_IOC_CREATE_QUEUE;
    k.with = -ENOMEM;
    k.times = 2;
    ck_assert_msg(kfd_queue_submit(q, dw, 8, &point, &e) == 0, "%s", e.msg); /* a little later there is one */
    ck_assert_int_eq(k.times, 0);
    q->ring.watch.cells->fence = point;
    amd_ring_rest(&q->ring);
    k.times = 1 << 20;
    q->ring.watch.hang_ns = 1;
    ck_assert_int_eq(kfd_queue_submit(q, dw, 8, &point, &e), -EAGAIN);
    ck_assert_msg(strstr(e.msg, "no compute queue left") != NULL, "%s", e.msg);
    kfd_queue_destroy(q);
    closed(d);
}
END_TEST

/* While others have the memory nothing moves, however long that takes; afterwards standing still is a hang again. */
START_TEST(a_queue_off_the_card_does_not_hang)
{
    enum { MS = 1000000 };
    struct kfd_queue *q;
    uint32_t dw[8] = { 0 };
    uint64_t point;
    boot(r9700);
    k.smi = "9 1000 -45 1 2\n";
    struct kfd_dev *d = opened();
    ck_assert_uint_eq(k.smi_wanted, 0x300);
    ck_assert_msg(kfd_queue_create(d, 8 << 10, &q, &e) == 0, "%s", e.msg);
    q->ring.watch.hang_ns = 5 * MS;
    ck_assert_int_eq(kfd_queue_submit(q, dw, 8, &point, &e), 0);
    ck_assert_msg(kfd_queue_wait(q, point, 60 * MS, &e) == -ETIME, "%s", e.msg);
    k.smi = "a 1100 -45 1 R\na 1200 -45 1 R\n";
    ck_assert_msg(kfd_queue_wait(q, point, 60 * MS, &e) == -ETIME, "%s", e.msg);
    ck_assert(d->evictions.away);
    k.smi = "a 1300 -45 1 0\n";
    ck_assert_int_eq(kfd_queue_wait(q, point, 1000 * MS, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress") != NULL, "%s", e.msg);
    ck_assert_uint_eq(d->evictions.n, 1);
    kfd_queue_destroy(q);
    closed(d);
}
END_TEST

START_TEST(lines_of_evictions)
{
    static const struct { const char *text; uint32_t n; bool away; uint64_t times; } cases[] = {
        { "", 0, false, 0 },
        { "9 1 -2 3 2\n", 11, true, 1 },
        { "9 1 -2 3 2\na 4 -2 3 0\n", 22, false, 1 },
        { "9 1 -2 3 2\na 4 -2 3 \0\n9 5 -2 3 2\n", 33, true, 2 }, /* a kernel that ends it so */
        { "a 4 -2 3 R\n", 11, true, 0 },                          /* the line before it was lost */
        { "9 1 -2 3 2\na 4 -2 3 R\na 5 -2 3 0\n", 33, false, 1 },
        { "9 1 -2 3 2", 10, false, 0 },                            /* not all of it */
        { "\n\n9\n1 2:3\nb 4\n", 15, false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t step = 1; step <= 40; step += 13) {
            struct kfd_evictions x = { .fd = -1 };
            for (uint32_t at = 0; at < cases[i].n; at += step)
                kfd_evictions_parse(&x, cases[i].text + at, cases[i].n - at < step ? cases[i].n - at : step);
            ck_assert_msg(x.away == cases[i].away && x.n == cases[i].times, "case %zu: away %d, %llu times", i, x.away,
                          (unsigned long long)x.n);
        }
    struct kfd_evictions x = { .fd = -1 };
    for (int i = 0; i < 1000; i++) /* a line without an end */
        kfd_evictions_parse(&x, "9 ", 2);
    kfd_evictions_parse(&x, "\n9 1 -2 3 2\n", 12);
    ck_assert(x.away);
}
END_TEST

START_TEST(a_full_ring_waits_for_fences)
{
    struct kfd_queue *q;
    uint32_t dw[600] = { 0 };
    uint64_t point;
    boot(r9700);
    struct kfd_dev *d = opened();
    ck_assert_msg(kfd_queue_create(d, 8 << 10, &q, &e) == 0, "%s", e.msg);
    q->ring.watch.hang_ns = 1000000;
    for (int i = 0; i < 3; i++)
        ck_assert_msg(kfd_queue_submit(q, dw, 600, &point, &e) == 0, "%s", e.msg);
    q->ring.watch.cells->fence = 1;
    ck_assert_msg(kfd_queue_submit(q, dw, 600, &point, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(kfd_queue_submit(q, dw, 600, &point, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress") != NULL, "%s", e.msg);
    ck_assert_int_eq(kfd_queue_submit(q, dw, 1, &point, &e), -EIO); /* dead */
    kfd_queue_destroy(q);

    /* one dword stays free: a ring that is full to the last one looks empty, since the read pointer wraps with it */
    enum { DW = (8 << 10) / 4, HALF = DW / 2 - KFD_FENCE_DW };
    for (int spare = 0; spare < 2; spare++) {
        uint32_t part[HALF] = { 0 };
        ck_assert_msg(kfd_queue_create(d, 4 * DW, &q, &e) == 0, "%s", e.msg);
        q->ring.watch.hang_ns = 1000000;
        ck_assert_msg(kfd_queue_submit(q, part, HALF, &point, &e) == 0, "%s", e.msg);
        ck_assert_int_eq(kfd_queue_submit(q, part, (uint32_t)(HALF - spare), &point, &e), spare ? 0 : -EIO);
        kfd_queue_destroy(q);
    }

    ck_assert_msg(kfd_queue_create(d, 64 << 10, &q, &e) == 0, "%s", e.msg);
    q->ring.watch.hang_ns = 1000000;
    for (int i = 1; i < AMD_POINTS; i++)
        ck_assert_msg(kfd_queue_submit(q, dw, 1, &point, &e) == 0, "%d: %s", i, e.msg);
    q->ring.watch.cells->fence = 2;
    for (int i = 0; i < 2; i++)
        ck_assert_msg(kfd_queue_submit(q, dw, 1, &point, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(kfd_queue_submit(q, dw, 1, &point, &e), -EIO);
    closed(d);
}
END_TEST

int main(void)
{
    return RUN_TESTS("kfd_interface", request_numbers, save_areas, topology_is_read, order_of_calls,
                     what_a_queue_asks_for, save_area_of_older_kernels, what_sysfs_says_comes_first,
                     interrupted_calls_are_repeated, refusals_at_opening, memory_and_its_refusals,
                     memory_of_an_apu_goes_beyond_its_carve_out, a_small_pcie_window, ring_and_doorbell,
                     a_queue_that_rests_is_made_again,
                     a_queue_off_the_card_does_not_hang, lines_of_evictions, a_full_ring_waits_for_fences);
}
