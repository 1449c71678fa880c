/* A client of the render node's user-mode queues by raw ioctls: what amdgpu_drm.h defines, written apart from the model's
 * own description. The order of calls and packets is that of igt's lib/amdgpu/amd_ip_blocks.c (user_queue_create,
 * user_queue_submit).
 *
 *     client_userq rules      every rule broken once, from a state in which the call succeeds
 *     client_userq run        packets, fences, syncobjs, a ring that wraps, two queues
 *     client_userq hang       (--inject hang) a queue that never fetches
 *     client_userq fault      a page fault, and a buffer that does not inherit the VMID
 *     client_userq unmap      a buffer that a queue needs is unmapped
 *     client_userq early      rings before the page tables of new memory were waited for: prints ran or stopped
 *     client_userq what       prints mask, slots, rings and what creating a queue says */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, RING = 4096, BELL = 4 };
enum { GTT = 2, VRAM = 4, DOORBELL = 0x40, NOTSUPP = 524 };

union gem_create { struct { uint64_t bytes, align, domains, flags; } in; struct { uint32_t handle, pad; } out; };
union gem_mmap { struct { uint32_t handle, pad; } in; uint64_t out; };
struct gem_va {
    uint32_t handle, pad, op, flags;
    uint64_t va, off, bytes, point;
    uint32_t syncobj, n_in;
    uint64_t in;
};
union userq {
    struct {
        uint32_t op, queue_id, ip_type, doorbell_handle, doorbell_offset, flags;
        uint64_t queue_va, queue_size, rptr_va, wptr_va, mqd, mqd_size;
    } in;
    uint32_t queue_id;
};
struct userq_signal {
    uint32_t queue_id, pad;
    uint64_t syncobjs, n_syncobjs, read_bos, write_bos;
    uint32_t n_read, n_write;
};
struct userq_wait {
    uint32_t queue_id, pad;
    uint64_t syncobjs, timelines, points, read_bos, write_bos;
    uint16_t n_points, n_fences, n_syncobjs, pad0;
    uint32_t n_read, n_write;
    uint64_t out;
};
struct syncobj { uint32_t handle, flags; };
struct syncobj_wait { uint64_t handles; int64_t timeout; uint32_t n, flags, first, pad; };
struct timeline_wait { uint64_t handles, points; int64_t timeout; uint32_t n, flags, first, pad; };
struct info { uint64_t out; uint32_t bytes, query, type, rest[3]; };

#define DRM(nr, type) _IOWR('d', nr, type)
#define GEM_CREATE DRM(0x40, union gem_create)
#define GEM_MMAP DRM(0x41, union gem_mmap)
#define INFO _IOW('d', 0x45, struct info)
#define GEM_VA _IOW('d', 0x48, struct gem_va)
#define USERQ DRM(0x56, union userq)
#define USERQ_SIGNAL DRM(0x57, struct userq_signal)
#define USERQ_WAIT DRM(0x58, struct userq_wait)
#define SYNCOBJ_CREATE DRM(0xbf, struct syncobj)
#define SYNCOBJ_WAIT DRM(0xc3, struct syncobj_wait)
#define TIMELINE_WAIT DRM(0xca, struct timeline_wait)

static int fd, n_bad;
static uint32_t map_syncobj;
static uint64_t map_point, next_va = 0x10000000;

static int call(unsigned long request, void *arg)
{
    return ioctl(fd, request, arg) == 0 ? 0 : errno;
}

static void expect(const char *what, uint64_t got, uint64_t expected)
{
    if (got != expected) {
        printf("FAIL %s: %llu, expected %llu\n", what, (unsigned long long)got, (unsigned long long)expected);
        n_bad++;
    }
}

static void must(const char *what, int err)
{
    if (err) {
        printf("FAIL %s: %s\n", what, strerror(err));
        exit(1);
    }
}

static uint32_t syncobj(void)
{
    struct syncobj s = { 0 };
    must("SYNCOBJ_CREATE", call(SYNCOBJ_CREATE, &s));
    return s.handle;
}

static int64_t in_ms(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec + ms * 1000000ll;
}

static int wait_syncobj(uint32_t handle, int ms)
{
    struct syncobj_wait w = { (uintptr_t)&handle, in_ms(ms), 1, 2, 0, 0 };
    return call(SYNCOBJ_WAIT, &w);
}

/* ---- buffers ---- */

struct mem { uint32_t handle; uint64_t va, bytes; void *cpu; };

static int va_op(uint32_t op, const struct mem *m)
{
    struct gem_va v = { .handle = m->handle, .op = op, .flags = 2 | 4 | 8 | 4 << 5, .va = m->va, .bytes = m->bytes,
                        .point = ++map_point, .syncobj = map_syncobj };
    return call(GEM_VA, &v);
}

static void wait_maps(void)
{
    struct timeline_wait w = { (uintptr_t)&map_syncobj, (uintptr_t)&map_point, in_ms(60000), 1, 0, 0, 0 };
    must("waiting for the page tables", call(TIMELINE_WAIT, &w));
}

static struct mem make(uint64_t bytes, uint32_t domain)
{
    union gem_create c = { { bytes, PAGE, domain, 0 } };
    must("GEM_CREATE", call(GEM_CREATE, &c));
    struct mem m = { c.out.handle, 0, bytes, NULL };
    union gem_mmap at = { { m.handle, 0 } };
    must("GEM_MMAP", call(GEM_MMAP, &at));
    m.cpu = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at.out);
    must("mmap", m.cpu == MAP_FAILED ? errno : 0);
    if (domain == DOORBELL)
        return m;
    memset(m.cpu, 0, bytes);
    m.va = next_va;
    next_va += bytes + PAGE;
    must("GEM_VA", va_op(1, &m));
    return m;
}

/* ---- a queue ---- */

struct queue {
    struct mem ring, rptr, wptr, eop, bell, cells;
    uint64_t mqd;
    union userq args;
    uint32_t id;
    uint64_t n; /* dwords written */
};

static void parts(struct queue *q)
{
    *q = (struct queue){ .ring = make(RING, GTT), .rptr = make(PAGE, GTT), .wptr = make(PAGE, GTT), .eop = make(PAGE, VRAM),
                         .bell = make(PAGE, DOORBELL), .cells = make(PAGE, GTT) };
    wait_maps();
    q->mqd = q->eop.va;
    q->args = (union userq){ { .op = 1, .ip_type = 1, .doorbell_handle = q->bell.handle, .doorbell_offset = BELL,
                               .queue_va = q->ring.va, .queue_size = RING, .rptr_va = q->rptr.va, .wptr_va = q->wptr.va,
                               .mqd = (uintptr_t)&q->mqd, .mqd_size = 8 } };
}

static int create(struct queue *q)
{
    union userq a = q->args;
    int err = call(USERQ, &a);
    q->id = a.queue_id;
    return err;
}

static int release(uint32_t id)
{
    union userq a = { { .op = 2, .queue_id = id } };
    return call(USERQ, &a);
}

static void put(struct queue *q, uint32_t dw)
{
    ((uint32_t *)q->ring.cpu)[q->n++ % (RING / 4)] = dw;
}

static void write_data(struct queue *q, uint64_t va, uint32_t value)
{
    const uint32_t dw[] = { 0xc0033700, 5 << 8 | 1 << 20, (uint32_t)va, (uint32_t)(va >> 32), value };
    for (int i = 0; i < 5; i++)
        put(q, dw[i]);
}

/* RELEASE_MEM of a 64-bit value, as Mesa's gfx11+ user queues write theirs; then the driver's fence. */
static void fences(struct queue *q, uint64_t va, uint64_t value, bool driver)
{
    const uint32_t dw[] = { 0xc0064900, 0x14 | 5 << 8 | 1u << 20 | 1u << 21, 2u << 29, (uint32_t)va, (uint32_t)(va >> 32),
                            (uint32_t)value, (uint32_t)(value >> 32), 0 };
    for (int i = 0; i < 8; i++)
        put(q, dw[i]);
    if (driver) {
        put(q, 0xc000d000);
        put(q, 0);
    }
}

static void ring(struct queue *q)
{
    __atomic_store_n((uint64_t *)q->wptr.cpu, q->n, __ATOMIC_SEQ_CST);
    __atomic_store_n((uint64_t *)q->bell.cpu + q->args.in.doorbell_offset, q->n, __ATOMIC_SEQ_CST);
}

static int signal_syncobj(const struct queue *q, uint32_t handle)
{
    struct userq_signal s = { .queue_id = q->id, .syncobjs = (uintptr_t)&handle, .n_syncobjs = 1 };
    return call(USERQ_SIGNAL, &s);
}

static bool reaches(const struct queue *q, uint64_t value)
{
    const volatile uint64_t *cell = q->cells.cpu;
    for (int64_t end = in_ms(60000); *cell < value && in_ms(0) < end;)
        usleep(50);
    return *cell >= value;
}

/* ---- the rules ---- */

static void create_rules(struct queue *q)
{
    struct mem two = make(2 * PAGE, GTT), small = make(PAGE, GTT);
    wait_maps();
    uint64_t nowhere = 0x7000000000;
    (void)small;
#define TRY(what, change, err)                                                                                         \
    do {                                                                                                               \
        union userq t = q->args;                                                                                       \
        change;                                                                                                        \
        int e = call(USERQ, &t);                                                                                       \
        expect("USERQ create " what, (uint64_t)e, err);                                                                \
        if (e == 0)                                                                                                    \
            must("USERQ free", release(t.queue_id));                                                                   \
    } while (0)
    TRY("as it should be", , 0);
    TRY("operation 3", t.in.op = 3, EINVAL);
    TRY("for video", t.in.ip_type = 3, EINVAL);
    TRY("with unknown flags", t.in.flags = 8, EINVAL);
    TRY("with a low priority", t.in.flags = 1, 0);
    TRY("without a ring", t.in.queue_va = 0, EINVAL);
    TRY("ring of nothing", t.in.queue_size = 0, EINVAL);
    TRY("ring of three pages", t.in.queue_size = 3 * PAGE, EINVAL);
    TRY("ring of half a page", t.in.queue_size = PAGE / 2, EINVAL);
    TRY("ring beyond its mapping", t.in.queue_size = 2 * RING, EINVAL);
    TRY("ring that is not mapped", t.in.queue_va = nowhere, EINVAL);
    TRY("without a read pointer", t.in.rptr_va = 0, EINVAL);
    TRY("read pointer that is not mapped", t.in.rptr_va = nowhere, EINVAL);
    TRY("write pointer that is not mapped", t.in.wptr_va = nowhere, EINVAL);
    TRY("write pointer in a buffer of two pages", t.in.wptr_va = two.va, EINVAL);
    TRY("no doorbell", t.in.doorbell_handle = 999, EINVAL);
    TRY("doorbell that is memory", t.in.doorbell_handle = small.handle, EINVAL);
    TRY("the page's last doorbell", t.in.doorbell_offset = PAGE / 8 - 1, 0);
    TRY("doorbell behind the page", t.in.doorbell_offset = PAGE / 8, EINVAL);
    TRY("description of 16 bytes", t.in.mqd_size = 16, EINVAL);
    TRY("description that is not there", t.in.mqd = 8, ENOMEM);
    TRY("end-of-pipe buffer that is not mapped", t.in.mqd = (uintptr_t)&nowhere, EINVAL);
#undef TRY
    must("a queue", create(q));
    union userq again = q->args;
    expect("USERQ create on the same doorbell", (uint64_t)call(USERQ, &again), EBUSY);
    union userq dirty = { { .op = 2, .queue_id = q->id, .ip_type = 1 } };
    expect("USERQ free with more than an id", (uint64_t)call(USERQ, &dirty), EINVAL);
    expect("USERQ free", (uint64_t)release(q->id), 0);
    expect("USERQ free twice", (uint64_t)release(q->id), EINVAL);
    union gem_create both = { { PAGE, PAGE, DOORBELL | GTT, 0 } };
    expect("GEM_CREATE of doorbells in GTT", (uint64_t)call(GEM_CREATE, &both), EINVAL);
}

static void signal_rules(struct queue *q)
{
    uint32_t so = syncobj(), none = 999;
    must("a queue", create(q));
    struct userq_signal good = { .queue_id = q->id, .syncobjs = (uintptr_t)&so, .n_syncobjs = 1 }, s = good;
    expect("USERQ_SIGNAL", (uint64_t)call(USERQ_SIGNAL, &s), 0);
    expect("nothing written is nothing to wait for", (uint64_t)wait_syncobj(so, 0), 0);
    s = good, s.queue_id = 77;
    expect("USERQ_SIGNAL of no queue", (uint64_t)call(USERQ_SIGNAL, &s), ENOENT);
    s = good, s.syncobjs = (uintptr_t)&none;
    expect("USERQ_SIGNAL of no syncobj", (uint64_t)call(USERQ_SIGNAL, &s), ENOENT);
    s = good, s.syncobjs = 8;
    expect("USERQ_SIGNAL of a list that is not there", (uint64_t)call(USERQ_SIGNAL, &s), EFAULT);
    s = good, s.read_bos = (uintptr_t)&none, s.n_read = 1;
    expect("USERQ_SIGNAL of no buffer", (uint64_t)call(USERQ_SIGNAL, &s), ENOENT);
    struct userq_wait w = { .queue_id = q->id, .syncobjs = (uintptr_t)&so, .n_syncobjs = 1 };
    must("USERQ_WAIT, how many", call(USERQ_WAIT, &w));
    expect("fences", w.n_fences, 1);
    uint64_t out[2] = { 0 };
    w.out = (uintptr_t)out;
    w.queue_id = 77;
    expect("USERQ_WAIT for no queue", (uint64_t)call(USERQ_WAIT, &w), EINVAL);
    must("free", release(q->id));
}

static int rules(void)
{
    struct queue q;
    parts(&q);
    create_rules(&q);
    signal_rules(&q);
    return n_bad != 0;
}

/* ---- what runs ---- */

static void fence_values(struct queue *q)
{
    uint32_t so = syncobj();
    write_data(q, q->cells.va + 64, 0x600d);
    fences(q, q->cells.va, 1, true);
    ring(q);
    must("USERQ_SIGNAL", signal_syncobj(q, so));
    must("the syncobj", wait_syncobj(so, 60000));
    expect("our cell once the driver's fence is done", *(uint64_t *)q->cells.cpu, 1);
    expect("what the packet wrote", ((uint32_t *)q->cells.cpu)[16], 0x600d);
    uint64_t out[2] = { 0 };
    struct userq_wait w = { .queue_id = q->id, .syncobjs = (uintptr_t)&so, .n_syncobjs = 1, .n_fences = 1,
                            .out = (uintptr_t)out };
    must("USERQ_WAIT", call(USERQ_WAIT, &w));
    expect("fences of user queues", w.n_fences, 1);
    expect("the fence's value is the write pointer", out[1], q->n);
    expect("the fence has an address", out[0] != 0, 1);
    uint64_t before = q->n;
    fences(q, q->cells.va, 2, false); /* without the driver's packet its fence must not come */
    ring(q);
    must("USERQ_SIGNAL", signal_syncobj(q, so));
    expect("our cell alone", reaches(q, 2), 1);
    expect("a driver's fence without its packet", (uint64_t)wait_syncobj(so, 100), ETIME);
    put(q, 0xc000d000);
    put(q, 0);
    ring(q);
    expect("and with it", (uint64_t)wait_syncobj(so, 60000), 0);
    expect("dwords", q->n - before, 10);
}

/* The read pointer is 32 bits and counts modulo the ring. */
static void wrap(struct queue *q)
{
    const volatile uint32_t *rptr = q->rptr.cpu;
    for (uint64_t i = 3; i < 3 * (RING / 4) / 15; i++) {
        write_data(q, q->cells.va + 128, (uint32_t)i);
        fences(q, q->cells.va, i, true);
        ring(q);
        if (!reaches(q, i))
            must("a fence after the ring wrapped", ETIME);
        for (int64_t end = in_ms(60000); *rptr != q->n % (RING / 4) && in_ms(0) < end;)
            usleep(50);
        expect("the read pointer, wrapped", *rptr, q->n % (RING / 4));
        expect("its upper half", rptr[1], 0);
    }
    expect("the ring went round", q->n > 2 * (RING / 4), 1);
}

static int run(void)
{
    struct queue q, other;
    parts(&q);
    parts(&other);
    must("create", create(&q));
    must("create another", create(&other));
    expect("two ids", q.id != other.id, 1);
    fence_values(&q);
    wrap(&q);
    fences(&other, other.cells.va, 9, true);
    ring(&other);
    expect("the other queue", reaches(&other, 9), 1);
    must("free", release(q.id));
    must("free", release(other.id));
    return n_bad != 0;
}

static int hang(void)
{
    struct queue q;
    uint32_t so = syncobj();
    parts(&q);
    must("create", create(&q));
    fences(&q, q.cells.va, 1, true);
    ring(&q);
    must("USERQ_SIGNAL", signal_syncobj(&q, so));
    expect("a fence of a queue that stands still", (uint64_t)wait_syncobj(so, 100), ETIME);
    must("free", release(q.id));
    expect("its fence once it is gone", (uint64_t)wait_syncobj(so, 60000), 0);
    expect("its cell", *(uint64_t *)q.cells.cpu, 0);
    return n_bad != 0;
}

static uint64_t fault_va(void)
{
    struct { uint64_t va; uint32_t status, hub; } f = { 0 };
    struct info i = { .out = (uintptr_t)&f, .bytes = sizeof f, .query = 0x23 };
    must("INFO GPUVM_FAULT", call(INFO, &i));
    return f.va;
}

static int fault(void)
{
    struct queue q;
    uint32_t so = syncobj();
    parts(&q);
    must("create", create(&q));
    write_data(&q, 0x6000001000, 1);
    fences(&q, q.cells.va, 1, true);
    ring(&q);
    must("USERQ_SIGNAL", signal_syncobj(&q, so));
    expect("the fence after a reset of the queue", (uint64_t)wait_syncobj(so, 60000), 0);
    expect("the cell, which nothing wrote", *(uint64_t *)q.cells.cpu, 0);
    expect("the last fault's page", fault_va(), 0x6000001000);
    must("free", release(q.id));
    struct queue r;
    parts(&r);
    must("create", create(&r));
    const uint32_t ib[] = { 0xc0023f00, (uint32_t)r.cells.va + 256, (uint32_t)(r.cells.va >> 32), 1 | 1u << 23 };
    ((uint32_t *)r.cells.cpu)[64] = 0xffff1000;
    for (int i = 0; i < 4; i++)
        put(&r, i == 3 ? ib[i] | 1u << 30 : ib[i]);
    fences(&r, r.cells.va, 1, true);
    ring(&r);
    expect("a buffer that inherits the VMID", reaches(&r, 1), 1);
    for (int i = 0; i < 4; i++)
        put(&r, ib[i]);
    fences(&r, r.cells.va, 2, true);
    ring(&r);
    must("USERQ_SIGNAL", signal_syncobj(&r, so));
    expect("the fence after a bad packet", (uint64_t)wait_syncobj(so, 60000), 0);
    expect("a buffer that does not", *(uint64_t *)r.cells.cpu, 1);
    must("free", release(r.id));
    return n_bad != 0;
}

static int unmap(void)
{
    struct queue q;
    parts(&q);
    must("create", create(&q));
    must("unmap of the read pointer", va_op(2, &q.rptr));
    fences(&q, q.cells.va, 1, true);
    ring(&q);
    usleep(100000);
    expect("a queue that lost a buffer", *(uint64_t *)q.cells.cpu, 0);
    must("free", release(q.id));
    return n_bad != 0;
}

/* Did the queue run within so many milliseconds? */
static const char *ran(const struct queue *q, int ms)
{
    const uint64_t *cell = q->cells.cpu;
    for (int64_t end = in_ms(ms); !__atomic_load_n(cell, __ATOMIC_ACQUIRE) && in_ms(0) < end;)
        usleep(50);
    return __atomic_load_n(cell, __ATOMIC_ACQUIRE) ? "ran" : "stopped";
}

/* Memory that comes while the queue is idle, and packets that the bell announces too early. */
static int early(int ms)
{
    struct queue q;
    parts(&q);
    must("create", create(&q));
    struct mem late = make(PAGE, GTT);
    write_data(&q, late.va, 1);
    fences(&q, q.cells.va, 1, true);
    ring(&q);
    printf("%s\n", ran(&q, ms));
    return 0;
}

/* A packet that waits for the host, and the driver's fence behind it, which is waited for for so long. */
static int slow(int fence_ms, int ms)
{
    struct queue q;
    uint32_t so = syncobj();
    parts(&q);
    must("create", create(&q));
    const uint64_t gate = q.cells.va + 512;
    const uint32_t dw[] = { 0xc0053c00, 3 | 1 << 4, (uint32_t)gate, (uint32_t)(gate >> 32), 1, 0xffffffff, 4 };
    for (int i = 0; i < 7; i++)
        put(&q, dw[i]);
    fences(&q, q.cells.va, 1, true);
    ring(&q);
    must("USERQ_SIGNAL", signal_syncobj(&q, so));
    const char *fence = wait_syncobj(so, fence_ms) == 0 ? "signalled" : "pending";
    *((uint32_t *)q.cells.cpu + 128) = 1;
    printf("%s, %s\n", fence, ran(&q, ms));
    return 0;
}

static int what(void)
{
    uint8_t dev[448] = { 0 };
    uint32_t ip[10] = { 0 }, mask;
    struct info i = { .out = (uintptr_t)dev, .bytes = sizeof dev, .query = 0x16 };
    must("INFO DEV_INFO", call(INFO, &i));
    memcpy(&mask, dev + 436, 4);
    i = (struct info){ .out = (uintptr_t)ip, .bytes = sizeof ip, .query = 2, .type = 1 };
    must("INFO HW_IP_INFO", call(INFO, &i));
    union userq a = { { .op = 1 } };
    int err = call(USERQ, &a);
    printf("mask %u slots %u rings %u: %s\n", mask, ip[8], ip[6], err == NOTSUPP ? "ENOTSUPP" : strerrorname_np(err));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int ms[2] = { argc > 2 ? atoi(argv[2]) : 100, argc > 3 ? atoi(argv[3]) : 100 };
    fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    must("opening the render node", fd < 0 ? errno : 0);
    map_syncobj = syncobj();
    int rc = strcmp(mode, "rules") == 0 ? rules() : strcmp(mode, "run") == 0 ? run() : strcmp(mode, "hang") == 0 ? hang()
           : strcmp(mode, "fault") == 0 ? fault() : strcmp(mode, "unmap") == 0 ? unmap()
           : strcmp(mode, "early") == 0 ? early(ms[0]) : strcmp(mode, "slow") == 0 ? slow(ms[0], ms[1])
           : strcmp(mode, "what") == 0 ? what() : 2;
    if (rc == 0 && strcmp(mode, "what") != 0 && strcmp(mode, "early") != 0 && strcmp(mode, "slow") != 0)
        printf("ok\n");
    return rc;
}
