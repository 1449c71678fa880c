/* A client of the render node's submissions, no library between: every rule of the kernel's amdgpu_cs.c, each broken
 * once from a state where the call succeeds, and what becomes of submissions that do not end.
 *
 *     client_cs rules           each rule once
 *     client_cs strict          the rules that the kernel leaves to the hardware (amdsim --strict)
 *     client_cs timeout         a submission that never ends (amdsim --inject hang --lockup-ms)
 *     client_cs preamble        a launch on a ring that others share, without the registers that it needs */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <amdgpu_drm.h>
#include <xf86drm.h>

enum { PAGE = 4096, IB_DW = 8, AT_FENCE = 2048 };
#define VA 0x200000000ull

static int fd, n_bad;
static uint32_t ctx, page, syncobj, *cpu; /* one page: IBs, at AT_FENCE the user fence */

static void expect(const char *what, int got, int expected)
{
    if (got != expected) {
        printf("FAIL %s: %d (%s), expected %d (%s)\n", what, got, strerror(got), expected, strerror(expected));
        n_bad++;
    }
}

static int call(unsigned long request, void *arg)
{
    return drmIoctl(fd, request, arg) ? errno : 0;
}

static void must(const char *what, int err)
{
    if (err) {
        printf("FAIL %s: %s\n", what, strerror(err));
        exit(1);
    }
}

static uint32_t buffer(uint64_t bytes, uint64_t va, uint64_t flags)
{
    union drm_amdgpu_gem_create c = { .in = { bytes, PAGE, AMDGPU_GEM_DOMAIN_GTT, flags } };
    must("GEM_CREATE", call(DRM_IOCTL_AMDGPU_GEM_CREATE, &c));
    struct drm_amdgpu_gem_va m = { .handle = c.out.handle, .operation = AMDGPU_VA_OP_MAP, .flags = 0xe, .va_address = va,
                                   .map_size = bytes };
    must("GEM_VA", call(DRM_IOCTL_AMDGPU_GEM_VA, &m));
    return c.out.handle;
}

static void open_card(void)
{
    fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    must("open", fd < 0 ? errno : 0);
    union drm_amdgpu_ctx c = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
    must("CTX", call(DRM_IOCTL_AMDGPU_CTX, &c));
    ctx = c.out.alloc.ctx_id;
    page = buffer(PAGE, VA, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
    union drm_amdgpu_gem_mmap m = { .in = { .handle = page } };
    must("GEM_MMAP", call(DRM_IOCTL_AMDGPU_GEM_MMAP, &m));
    cpu = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)m.out.addr_ptr);
    must("mmap", cpu == MAP_FAILED ? errno : 0);
    for (int i = 0; i < AT_FENCE / 4; i++)
        cpu[i] = 0xffff1000; /* NOP of one dword */
    must("SYNCOBJ_CREATE", drmSyncobjCreate(fd, 0, &syncobj) ? errno : 0);
}

/* ---- a submission that is right ---- */

struct cs {
    struct drm_amdgpu_cs_chunk_ib ib;
    struct drm_amdgpu_cs_chunk_fence fence;
    struct drm_amdgpu_cs_chunk_syncobj done;
    struct drm_amdgpu_cs_chunk head[5];
    uint32_t n, ctx, list;
    uint64_t seq;
};

static void right(struct cs *c)
{
    *c = (struct cs){ .ib = { .va_start = VA, .ib_bytes = 4 * IB_DW, .ip_type = AMDGPU_HW_IP_COMPUTE },
                      .fence = { page, AT_FENCE }, .done = { .handle = syncobj }, .n = 3, .ctx = ctx };
    static uint64_t point;
    c->done.point = ++point;
    c->head[0] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_IB, sizeof c->ib / 4, (uintptr_t)&c->ib };
    c->head[1] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_FENCE, sizeof c->fence / 4, (uintptr_t)&c->fence };
    c->head[2] = (struct drm_amdgpu_cs_chunk){ AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, sizeof c->done / 4,
                                               (uintptr_t)&c->done };
}

static int submit(struct cs *c)
{
    uint64_t at[5];
    for (int i = 0; i < 5; i++)
        at[i] = (uintptr_t)&c->head[i];
    union drm_amdgpu_cs a = { .in = { .ctx_id = c->ctx, .bo_list_handle = c->list, .num_chunks = c->n,
                                      .chunks = (uintptr_t)at } };
    int err = call(DRM_IOCTL_AMDGPU_CS, &a);
    c->seq = err ? 0 : a.out.handle;
    return err;
}

static uint64_t in_ms(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)(t.tv_sec * 1000000000ll + t.tv_nsec + ms * 1000000);
}

static int sleep_on(uint64_t point, int64_t ms)
{
    return -drmSyncobjTimelineWait(fd, &syncobj, &point, 1, (int64_t)in_ms(ms), 0, NULL);
}

static uint64_t user_fence(void)
{
    return __atomic_load_n((uint64_t *)(cpu + AT_FENCE / 4), __ATOMIC_ACQUIRE);
}

/* ---- rules ---- */

#define BROKEN(what, expected, ...)             \
    do {                                        \
        struct cs c;                            \
        right(&c);                              \
        __VA_ARGS__;                            \
        expect(what, submit(&c), expected);     \
    } while (0)

static void rules(void)
{
    struct cs good;
    for (uint64_t i = 1; i <= 3; i++) {
        right(&good);
        expect("a submission", submit(&good), 0);
        expect("its number", (int)good.seq, (int)i);
        expect("sleeping for it", sleep_on(good.done.point, 60000), 0);
        expect("the user fence, 64 bits", (int)user_fence(), (int)i);
    }
    expect("the user fence's upper half", (int)cpu[AT_FENCE / 4 + 1], 0);
    expect("its neighbour", (int)cpu[AT_FENCE / 4 + 2], 0);
    BROKEN("no chunks", EINVAL, c.n = 0);
    BROKEN("no indirect buffer", EINVAL, c.head[0] = c.head[1]);
    BROKEN("an unknown chunk", EINVAL, c.head[1].chunk_id = 0x7f);
    BROKEN("a short chunk", EINVAL, c.head[0].length_dw = 7);
    BROKEN("chunk data that is not there", EFAULT, c.head[0].chunk_data = 16);
    BROKEN("an unknown context", EINVAL, c.ctx = 77);
    BROKEN("an unknown buffer list", ENOENT, c.list = 77);
    BROKEN("an unknown kind of engine", EINVAL, c.ib.ip_type = 8);
    BROKEN("a ring that is not there", EINVAL, c.ib.ring = 8);
    BROKEN("an instance that is not there", EINVAL, c.ib.ip_instance = 1);
    BROKEN("an IB of more than 20 bits of dwords", EINVAL, c.ib.ib_bytes = 4 << 20);
    BROKEN("an IB for the constant engine", EINVAL, c.ib.flags = AMDGPU_IB_FLAG_CE);
    BROKEN("a user fence in an unknown buffer", EINVAL, c.fence.handle = 77);
    BROKEN("a user fence beyond its page", EINVAL, c.fence.offset = PAGE - 4);
    uint32_t large = buffer(2 * PAGE, VA + 0x10000, 0);
    BROKEN("a user fence in a buffer of two pages", EINVAL, c.fence.handle = large);
    BROKEN("an unknown syncobj", ENOENT, c.done.handle = 77);
    BROKEN("two chunks of syncobjs to signal", EINVAL, c.head[3] = c.head[2]; c.n = 4);
    struct drm_amdgpu_bo_list_entry entry = { large, 0 };
    struct drm_amdgpu_bo_list_in list = { .bo_number = 1, .bo_info_size = sizeof entry, .bo_info_ptr = (uintptr_t)&entry };
    const struct drm_amdgpu_cs_chunk buffers = { AMDGPU_CHUNK_ID_BO_HANDLES, sizeof list / 4, (uintptr_t)&list };
    BROKEN("a chunk of buffers", 0, c.head[3] = buffers; c.n = 4);
    BROKEN("two of them", EINVAL, c.head[3] = c.head[4] = buffers; c.n = 5);
    entry.bo_handle = 77;
    BROKEN("an unknown buffer in it", ENOENT, c.head[3] = buffers; c.n = 4);
    struct drm_prime_handle p = { .handle = page, .fd = -1 };
    expect("sharing a buffer that is always valid", call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &p), EPERM);
    BROKEN("and again a right one", 0, (void)c);
}

static void strict(void)
{
    BROKEN("a right one", 0, (void)c);
    BROKEN("an IB whose length is no multiple of 32 bytes", EINVAL, c.ib.ib_bytes -= 4);
    BROKEN("an IB that begins elsewhere", EINVAL, c.ib.va_start += 4);
}

/* The context is guilty of it, takes no more, and says so; a new one does not hear of it. */
static void timeout(void)
{
    struct cs stuck;
    right(&stuck);
    expect("submitting", submit(&stuck), 0);
    expect("before the time limit", sleep_on(stuck.done.point, 20), ETIME);
    expect("after it", sleep_on(stuck.done.point, 60000), 0);
    expect("the user fence stays", (int)user_fence(), 0);
    BROKEN("the next submission", ECANCELED, (void)c);
    union drm_amdgpu_ctx q = { .in = { .op = AMDGPU_CTX_OP_QUERY_STATE2, .ctx_id = ctx } };
    expect("QUERY_STATE2", call(DRM_IOCTL_AMDGPU_CTX, &q), 0);
    expect("guilty", !!(q.out.state.flags & AMDGPU_CTX_QUERY2_FLAGS_GUILTY), 1);
    expect("reset", !!(q.out.state.flags & AMDGPU_CTX_QUERY2_FLAGS_RESET), 1);
    union drm_amdgpu_ctx n = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
    expect("a new context", call(DRM_IOCTL_AMDGPU_CTX, &n), 0);
    ctx = n.out.alloc.ctx_id;
    BROKEN("it takes submissions", 0, (void)c);
}

/* All that a launch sends, but not which compute units may run it: that is what another program left there. */
static void preamble(void)
{
    struct cs c;
    static const uint32_t dw[3 * IB_DW] = {
        0xc0027600, 0x212, 0, 0,                   /* SET_SH_REG: PGM_RSRC1 and 2 */
        0xc0087600, 0x204, 0, 0, 0, 1, 1, 1, 0, 0, /* START, NUM_THREAD           */
        0xc0031500, 1, 1, 1, 0x8005,               /* DISPATCH_DIRECT             */
        0xffff1000, 0xffff1000, 0xffff1000, 0xffff1000, 0xffff1000,
    };
    memcpy(cpu, dw, sizeof dw);
    right(&c);
    c.ib.ib_bytes = sizeof dw;
    expect("submitting", submit(&c), 0);
    expect("sleeping for it", sleep_on(c.done.point, 60000), 0);
    expect("it did not end well", user_fence() == c.seq, 0);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } tests[] = {
        { "rules", rules }, { "strict", strict }, { "timeout", timeout }, { "preamble", preamble } };
    for (size_t i = 0; argc > 1 && i < sizeof tests / sizeof tests[0]; i++)
        if (strcmp(argv[1], tests[i].name) == 0) {
            open_card();
            tests[i].run();
            printf(n_bad ? "%d broken\n" : "ok\n", n_bad);
            return n_bad != 0;
        }
    fprintf(stderr, "usage: client_cs rules|strict|timeout|preamble\n");
    return 2;
}
