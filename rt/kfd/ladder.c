/* rt/kfd/ladder.c: the rungs of the kfd tier, from a file that opens to a work-group that uses its shared memory. */
#include "rt/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/klaunch.h"
#include "rt/blob.h"
#include "rt/kfd/priv.h"

enum { BELL_MS = 2000, RUN_MS = 60000 };

struct rungs {
    struct kfd_sys *sys;
    int device;
    struct kfd_gpu gpu;
    struct kfd_dev *dev;
    struct kfd_queue *q;
    struct kfd_mem *host, *vram;
    uint64_t bell_dw; /* dwords in the ring that no bell was rung for */
    struct kfd_module module;
};

#define MS(n) ((uint64_t)(n) * 1000000u)

/* ---- files and memory ---- */

static int open_files(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_version v = { 0 };
    int fd = kfd_sys_open(r->sys, "/dev/kfd");
    if (fd == -EACCES || fd == -EPERM)
        return err_set(e, fd, "/dev/kfd: no permission: sudo usermod -aG render $USER, then log in again");
    if (fd < 0)
        return err_set(e, fd, "/dev/kfd: %s: expected a file of the amdgpu driver", strerror(-fd));
    int rc = kfd_sys_ioctl(r->sys, fd, KFD_IOC_GET_VERSION, &v);
    kfd_sys_close(r->sys, fd);
    if (rc)
        return err_set(e, rc, "/dev/kfd opens, but GET_VERSION gives %s", strerror(-rc));
    snprintf(o->found, sizeof o->found, "/dev/kfd speaks version %u.%u of its interface", v.major, v.minor);
    return v.major == 1 ? 0 : err_set(e, -ENOTSUP, "%s, zinc knows 1.x", o->found);
}

static void copy_properties(const struct rungs *r, FILE *f)
{
    char path[128], text[8192];
    snprintf(path, sizeof path, "/sys/devices/virtual/kfd/kfd/topology/nodes/%u/properties", r->gpu.node);
    if (kfd_sys_read(r->sys, path, text, sizeof text) > 0)
        fprintf(f, "%s:\n%s\n", path, text);
    if (kfd_sys_read(r->sys, "/sys/module/amdgpu/version", text, sizeof text) > 0)
        fprintf(f, "amdgpu module version %s\n", text);
}

static int read_topology(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    int n = kfd_topology(r->sys, gpu, KFD_MAX_GPUS, e);
    if (n < 0)
        return n;
    int at = r->device;
    for (int i = 0; i < n && r->device < 0; i++)
        if (gpu[i].chip && (at < 0 || gpu[i].n_cu > gpu[at].n_cu))
            at = i;
    if (at >= n)
        return err_set(e, -ENODEV, "no GPU %d: there %s %d, the first is %s", at, n == 1 ? "is" : "are", n, gpu[0].name);
    if (at < 0 || !gpu[at].chip)
        return err_set(e, -ENODEV, "%d GPU%s, none that zinc has kernels for (gfx1100, gfx1151, gfx1200, gfx1201); the first "
                       "is %s", n, n == 1 ? "" : "s", gpu[0].name);
    r->gpu = gpu[at];
    copy_properties(r, o->detail);
    snprintf(o->found, sizeof o->found, "%s, node %u, renderD%u, %u shader engines, %.1f GiB of memory, %.1f of it visible to "
             "the host, MEC firmware %u", r->gpu.name, r->gpu.node, r->gpu.render_minor, r->gpu.n_se,
             (double)r->gpu.vram_bytes / 0x1p30, (double)r->gpu.vram_visible_bytes / 0x1p30, r->gpu.mec_firmware);
    return kfd_access(r->sys, &r->gpu, e);
}

static int map_memory(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    uint64_t free_bytes = 0;
    int rc;
    if ((rc = kfd_open(&r->gpu, &r->dev, e)) || (rc = kfd_mem_available(r->dev, &free_bytes, e)) ||
        (rc = kfd_mem_alloc(r->dev, KFD_HOST, KFD_PAGE, "ladder, host", &r->host, e)) ||
        (rc = kfd_mem_alloc(r->dev, KFD_VRAM, 1 << 20, "ladder, card", &r->vram, e)))
        return rc;
    uint64_t *p = r->host->cpu;
    for (uint64_t i = 0; i < KFD_PAGE / 8; i++)
        p[i] = 0x9e3779b97f4a7c15u * (i + 1);
    for (uint64_t i = 0; i < KFD_PAGE / 8; i++)
        if (p[i] != 0x9e3779b97f4a7c15u * (i + 1))
            return err_set(e, -EIO, "host memory for the card: word %llu came back as %#llx", (unsigned long long)i,
                           (unsigned long long)p[i]);
    snprintf(o->found, sizeof o->found, "host page at %#llx, 1 MiB of the card's at %#llx (%s); %.1f GiB free",
             (unsigned long long)r->host->va, (unsigned long long)r->vram->va,
             r->dev->large_bar ? "the host sees all of its memory" : "no large BAR: copies go through the card",
             (double)free_bytes / 0x1p30);
    return 0;
}

/* ---- the queue ---- */

static int create_queue(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = kfd_queue_create(r->dev, 64 << 10, &r->q, e);
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "queue %u: ring of %u dwords at %#llx, save area of %.1f MiB", r->q->id,
                 r->q->mask + 1, (unsigned long long)r->q->ring->va, (double)r->q->save->bytes / 0x1p20);
    return rc;
}

/* A packet lies where the card will look, and without a bell nobody has looked yet. */
static int packet_visible(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_queue *q = r->q;
    uint32_t dw[4];
    struct pm4_buf b;
    pm4_init(&b, r->gpu.chip->gen, dw, ARRAY_LEN(dw));
    pm4_nop(&b, ARRAY_LEN(dw));
    uint64_t before = __atomic_load_n(q->rptr, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < b.n; i++)
        q->ring_dw[(q->wptr + i) & q->mask] = dw[i];
    kfd_store_fence();
    for (uint32_t i = 0; i < b.n; i++)
        if (((volatile uint32_t *)q->ring_dw)[(q->wptr + i) & q->mask] != dw[i])
            return err_set(e, -EIO, "dword %u of the ring is not what was written", i);
    kfd_sys_sleep(r->sys, MS(5));
    uint64_t after = __atomic_load_n(q->rptr, __ATOMIC_ACQUIRE);
    if (b.rc || before != q->wptr || after != before)
        return err_set(e, -EIO, "the read pointer stands at %llu, then %llu; expected %llu until the bell is rung",
                       (unsigned long long)before, (unsigned long long)after, (unsigned long long)q->wptr);
    r->bell_dw = b.n;
    snprintf(o->found, sizeof o->found, "%u dwords in the ring, the read pointer waits at %llu", b.n,
             (unsigned long long)before);
    return 0;
}

static int ring_bell(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_queue *q = r->q;
    q->wptr += r->bell_dw;
    r->bell_dw = 0;
    kfd_store_fence();
    __atomic_store_n(q->wptr_cell, q->wptr, __ATOMIC_RELEASE);
    kfd_store_fence();
    uint64_t t0 = r->sys->clock(r->sys), at;
    *q->doorbell = q->wptr;
    while ((at = __atomic_load_n(q->rptr, __ATOMIC_ACQUIRE)) != q->wptr)
        if (r->sys->clock(r->sys) - t0 > MS(BELL_MS))
            return err_set(e, -ETIME, "the read pointer is at %llu %d ms after the bell, expected %llu",
                           (unsigned long long)at, BELL_MS, (unsigned long long)q->wptr);
    snprintf(o->found, sizeof o->found, "fetched %.1f us after the bell, the read pointer is at %llu",
             (double)(r->sys->clock(r->sys) - t0) * 1e-3, (unsigned long long)at);
    return 0;
}

/* Runs the packets and waits. */
static int run(struct rungs *r, struct pm4_buf *b, double *us, struct err *e)
{
    uint64_t point, t0 = r->sys->clock(r->sys);
    if (b->rc)
        return err_set(e, b->rc, "packets: %s", b->why);
    int rc = kfd_queue_submit(r->q, b->dw, b->n, &point, e);
    if (!rc)
        rc = kfd_queue_wait(r->q, point, MS(RUN_MS), e);
    if (rc == -ETIME)
        err_set(e, rc, "the fence is at %llu after %d s, expected %llu", (unsigned long long)r->q->cells->fence,
                RUN_MS / 1000, (unsigned long long)point);
    if (us)
        *us = (double)(r->sys->clock(r->sys) - t0) * 1e-3;
    return rc;
}

static int fence_retires(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    uint32_t dw[8];
    struct pm4_buf b;
    double us = 0;
    pm4_init(&b, r->gpu.chip->gen, dw, ARRAY_LEN(dw));
    int rc = run(r, &b, &us, e);
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "the fence reads %llu, %.1f us after the bell",
                 (unsigned long long)r->q->cells->fence, us);
    return rc;
}

static int no_ops(void *state, struct ladder_out *o, struct err *e)
{
    enum { ROUNDS = 32 };
    struct rungs *r = state;
    uint32_t dw[64];
    struct pm4_buf b;
    double us = 0, best = 1e9;
    for (uint32_t i = 0; i < ROUNDS; i++) { /* lengths from the one-dword form upwards */
        pm4_init(&b, r->gpu.chip->gen, dw, ARRAY_LEN(dw));
        pm4_nop(&b, 1 + i);
        int rc = run(r, &b, &us, e);
        if (rc)
            return rc;
        best = MIN(best, us);
    }
    snprintf(o->found, sizeof o->found, "%d submissions, the quickest came back after %.1f us", ROUNDS, best);
    return 0;
}

static int expect_words(const volatile uint32_t *got, const uint32_t *want, uint32_t n, const char *where, struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != want[i])
            return err_set(e, -EIO, "%s: word %u is %#x, expected %#x", where, i, got[i], want[i]);
    return 0;
}

static int write_data(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    static const uint32_t words[] = { 0x2f6e697a, 0, 0xffffffff, 0x12345678, 0x80000001 };
    uint32_t dw[64];
    struct pm4_buf b;
    memset(r->host->cpu, 0x5a, KFD_PAGE);
    pm4_init(&b, r->gpu.chip->gen, dw, ARRAY_LEN(dw));
    pm4_write_data(&b, r->host->va + 64, words, ARRAY_LEN(words), PM4_WRITE_CONFIRM);
    pm4_write_data(&b, r->host->va + 256, words, ARRAY_LEN(words), PM4_WRITE_CONFIRM | PM4_WRITE_SAME);
    int rc = run(r, &b, NULL, e);
    const uint32_t *p = r->host->cpu, after = 0x5a5a5a5a;
    if (rc || (rc = expect_words(p + 16, words, ARRAY_LEN(words), "host memory", e)) ||
        (rc = expect_words(p + 64, &words[ARRAY_LEN(words) - 1], 1, "five words to one place", e)) ||
        (rc = expect_words(p + 65, &after, 1, "behind it", e)))
        return rc;
    snprintf(o->found, sizeof o->found, "%zu words where they belong, their neighbours untouched", ARRAY_LEN(words));
    return 0;
}

/* Host to card to another place on the card to host, eight bytes a packet. */
static int copy(void *state, struct ladder_out *o, struct err *e)
{
    enum { WORDS = 16 };
    struct rungs *r = state;
    uint32_t dw[WORDS * (3 * PM4_DW_COPY_DATA) + 2 * PM4_DW_ACQUIRE_MEM], want[2 * WORDS];
    uint32_t *p = r->host->cpu;
    struct pm4_buf b;
    memset(p, 0, KFD_PAGE);
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        p[i] = want[i] = 0x01010101u * i ^ 0xa5c30000u;
    pm4_init(&b, r->gpu.chip->gen, dw, ARRAY_LEN(dw));
    for (uint32_t leg = 0; leg < 3; leg++) {
        uint64_t from = leg == 0 ? r->host->va : leg == 1 ? r->vram->va + 4096 : r->vram->va + 512 * 1024;
        uint64_t to = leg == 0 ? r->vram->va + 4096 : leg == 1 ? r->vram->va + 512 * 1024 : r->host->va + 2048;
        for (uint32_t i = 0; i < WORDS; i++)
            pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_MEM, .to = PM4_COPY_MEM, .src = from + 8 * i,
                                                  .dst = to + 8 * i, .wide = true, .confirm = true });
    }
    int rc = run(r, &b, NULL, e);
    if (rc || (rc = expect_words(p + 512, want, 2 * WORDS, "after a trip through the card's memory", e)))
        return rc;
    snprintf(o->found, sizeof o->found, "%u bytes from the host to the card, across it, and back", WORDS * 8);
    return 0;
}

/* ---- dispatches ---- */

static int load_module(struct rungs *r, struct err *e)
{
    const struct kernel_blob *blob = kernel_blob_find("ladder", r->gpu.chip->name);
    if (r->module.mem)
        return 0;
    if (!blob)
        return err_set(e, -ENOENT, "this binary was built without clang-19 and lld-19: it has no code for %s",
                       r->gpu.chip->name);
    return kfd_module_load(r->q, "ladder", blob->data, (uint64_t)(blob->end - blob->data), &r->module, e);
}

static int launch(struct rungs *r, enum kernel_id id, const uint32_t groups[3], uint32_t lds, uint32_t n, uint64_t *ns,
                  struct err *e)
{
    struct kfd_kernel k;
    kl_ladder args = { .out = r->host->va, .n = n };
    struct kfd_launch l = { .kernel = &k, .args = &args, .args_bytes = sizeof args,
                            .groups = { groups[0], groups[1], groups[2] }, .threads = 0, .lds_bytes = lds };
    int rc = load_module(r, e);
    if (!rc)
        rc = kfd_module_kernel(&r->module, id == K_ladder_ids ? "k_ladder_ids" : "k_ladder_shared", &k, e);
    l.threads = id == K_ladder_ids ? LADDER_IDS_THREADS : LADDER_SHARED_THREADS;
    memset(r->host->cpu, 0xee, KFD_PAGE);
    return rc ? rc : kfd_run_kernel(r->q, &l, MS(RUN_MS), ns, e);
}

static int trivial_dispatch(void *state, struct ladder_out *o, struct err *e)
{
    enum { X = 3, Y = 2, Z = 2, SIZE = LADDER_IDS_THREADS, N = X * Y * Z * SIZE };
    struct rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = r->host->cpu;
    _Static_assert(N * 4 <= KFD_PAGE, "one page of results");
    int rc = launch(r, K_ladder_ids, (const uint32_t[]){ X, Y, Z }, 0, N, &ns, e);
    for (uint32_t i = 0; i < N && !rc; i++) {
        uint32_t g = i / SIZE, want = i % SIZE + 1000 * (g % X) + 100000 * (g / X % Y) + 10000000 * (g / X / Y);
        if (got[i] != want)
            rc = err_set(e, -EIO, "word %u is %u, expected %u: work-item %u of work-group %u, %u, %u", i, got[i], want,
                         i % SIZE, g % X, g / X % Y, g / X / Y);
    }
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d in three dimensions, each where it should be, %.1f us",
                 X * Y * Z, SIZE, (double)ns * 1e-3);
    return rc;
}

static int shared_dispatch(void *state, struct ladder_out *o, struct err *e)
{
    enum { GROUPS = 4, SIZE = LADDER_SHARED_THREADS };
    struct rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = r->host->cpu;
    _Static_assert(GROUPS * SIZE * 4 <= KFD_PAGE, "one page of results");
    int rc = launch(r, K_ladder_shared, (const uint32_t[]){ GROUPS, 1, 1 }, SIZE * 4, GROUPS * SIZE, &ns, e);
    for (uint32_t i = 0; i < GROUPS * SIZE && !rc; i++) {
        uint32_t x = i / SIZE, t = i % SIZE, sum = 0;
        for (uint32_t lane = 0; lane < 32; lane++)
            sum += LADDER_VALUE(x, t / 32 * 32 + lane);
        uint32_t want = LADDER_VALUE(x, SIZE - 1 - t) ^ (sum << 3) ^ LADDER_VALUE(x, t / 32 * 32 + 31 - t % 32);
        if (got[i] != want)
            rc = err_set(e, -EIO, "work-group %u, work-item %u: %#x, expected %#x", x, t, got[i], want);
    }
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d exchange words through LDS and between lanes, %.1f us",
                 GROUPS, SIZE, (double)ns * 1e-3);
    return rc;
}

/* ---- the ladder ---- */

static int begin(int device, void **state, struct err *e)
{
    struct rungs *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, -ENOMEM, "ladder: out of memory");
    r->sys = kfd_sys_current();
    r->device = device;
    *state = r;
    return 0;
}

static void end(void *state)
{
    struct rungs *r = state;
    if (r->dev) {
        kfd_queue_destroy(r->q);
        kfd_module_free(&r->module);
        kfd_mem_free(r->vram);
        kfd_mem_free(r->host);
        kfd_close(r->dev);
    }
    free(r);
}

static const struct ladder_rung rungs[] = {
    { "device opened", "the driver answers", "ls -l /dev/kfd; lsmod | grep amdgpu; dmesg | grep -i kfd; the render group",
      open_files },
    { "topology read", "the card is one that zinc knows, and may be used",
      "cat /sys/class/kfd/kfd/topology/nodes/*/properties; ls -l /dev/dri; a container needs both devices", read_topology },
    { "memory mapped", "host and card memory at addresses that both use", "free VRAM; Resizable BAR and Above 4G in the BIOS; "
      "another process that holds the card (ls /sys/class/kfd/kfd/proc); amd_iommu=off must not be set", map_memory },
    { "queue created", "the kernel takes our ring, pointers, EOP buffer and save area", "the kernel's version: gfx1151 before "
      "6.18.4 sizes the save area differently; all queues taken by others; dmesg with amdgpu.dyndbg=+p", create_queue },
    { "packet visible", "what we write into the ring is there, and nothing moves without a bell", "the ring's memory type: "
      "it must be uncached host memory", packet_visible },
    { "doorbell advances", "the bell reaches the command processor, which fetches", "dmesg for MES errors; the doorbell "
      "mapping; a GPU that is asleep or being reset; firmware versions in /sys/kernel/debug/dri/*/amdgpu_firmware_info",
      ring_bell },
    { "fence retires", "a packet runs to its end and its write reaches the host", "dmesg for page faults: client CP, address 0 "
      "means a missing EOP buffer", fence_retires },
    { "no-op", "packets of every length are understood, again and again", "the firmware's age; the decoded packets in the "
      "report folder", no_ops },
    { "WRITE_DATA", "the command processor writes what and where it is told", "dmesg for page faults (the address says which "
      "buffer)", write_data },
    { "copy", "host and card memory in both directions", "page faults on the card's memory; IOMMU settings", copy },
    { "trivial dispatch", "our code runs on the shader cores: code object, registers, arguments, ids", "the report folder's "
      "registers; page faults of client SQC are code or arguments, of TCP data", trivial_dispatch },
    { "LDS and barrier", "work-items of a work-group share memory, wait for each other, and exchange registers",
      "LDS_SIZE in COMPUTE_PGM_RSRC2 (0: reads give 0)", shared_dispatch },
};

const struct ladder ladder_kfd = { "kfd", rungs, ARRAY_LEN(rungs), begin, end };
