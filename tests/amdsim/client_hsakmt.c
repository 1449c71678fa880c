/* A client of libhsakmt, which knows nothing of the model: opens the driver, reads the topology, allocates memory,
 * has a PM4 queue write memory, time stamps and an event. Prints what it proved, exits 1 at the first difference. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hsakmt.h>

static void fail(const char *what, long got, long expected)
{
    printf("FAIL %s: %ld, expected %ld\n", what, got, expected);
    exit(1);
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        HSAKMT_STATUS status_ = (call);                                                                                \
        if (status_ != HSAKMT_STATUS_SUCCESS)                                                                          \
            fail(#call, status_, 0);                                                                                   \
    } while (0)
#define SAME(what, got, expected)                                                                                      \
    do {                                                                                                               \
        if ((uint64_t)(got) != (uint64_t)(expected))                                                                   \
            fail(what, (long)(got), (long)(expected));                                                                 \
    } while (0)

/* ---- the card ---- */

static HSAuint32 gpu_node(HsaNodeProperties *props)
{
    HsaSystemProperties sys;
    OK(hsaKmtAcquireSystemProperties(&sys));
    for (HSAuint32 n = 0; n < sys.NumNodes; n++) {
        OK(hsaKmtGetNodeProperties(n, props));
        if (props->NumFComputeCores)
            return n;
    }
    fail("nodes with a GPU", 0, 1);
    return 0;
}

static void topology(HSAuint32 node, const HsaNodeProperties *p, unsigned gfx, unsigned n_simd)
{
    SAME("gfx version", p->EngineId.ui32.Major * 100 + p->EngineId.ui32.Minor * 10 + p->EngineId.ui32.Stepping, gfx);
    SAME("SIMDs", p->NumFComputeCores, n_simd);
    SAME("LDS KiB", p->LDSSizeInKB, 64);
    SAME("vendor", p->VendorId, 0x1002);
    SAME("render minor", p->DrmRenderMinor, 128);
    HsaMemoryProperties banks[8];
    OK(hsaKmtGetNodeMemoryProperties(node, p->NumMemoryBanks, banks));
    uint64_t local = 0;
    for (HSAuint32 i = 0; i < p->NumMemoryBanks; i++)
        if (banks[i].HeapType == HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC)
            local = banks[i].SizeInBytes;
    if (local < 1u << 30)
        fail("visible VRAM", (long)local, 1 << 30);
    HsaCacheProperties caches[8];
    if (p->NumCaches)
        OK(hsaKmtGetNodeCacheProperties(node, 0, p->NumCaches, caches));
    HsaIoLinkProperties links[4];
    if (p->NumIOLinks)
        OK(hsaKmtGetNodeIoLinkProperties(node, p->NumIOLinks, links));
    HsaClockCounters c;
    OK(hsaKmtGetClockCounters(node, &c));
    printf("topology: gfx%u, %u SIMDs, %llu MiB, %s\n", gfx, n_simd, (unsigned long long)(local >> 20),
           (const char *)p->AMDName);
}

static void *alloc(HSAuint32 node, uint64_t bytes, bool system)
{
    HsaMemFlags flags = { .Value = 0 };
    flags.ui32.HostAccess = 1;
    flags.ui32.ExecuteAccess = 1;
    flags.ui32.NonPaged = 1;
    flags.ui32.CoarseGrain = !system;
    void *p = NULL;
    HSAuint64 va = 0;
    OK(hsaKmtAllocMemory(system ? 0 : node, bytes, flags, &p));
    OK(hsaKmtMapMemoryToGPU(p, bytes, &va));
    if (va && va != (uintptr_t)p)
        fail("GPU address", (long)va, (long)(uintptr_t)p);
    return p;
}

static HsaEvent *event(HSA_EVENTTYPE type, HSAuint32 node, bool manual)
{
    HsaEventDescriptor d = { .EventType = type, .NodeId = node };
    HsaEvent *e = NULL;
    OK(hsaKmtCreateEvent(&d, manual, false, &e));
    return e;
}

/* ---- the queue ---- */

struct ring {
    uint32_t *dw, n_dwords;
    uint64_t wptr;
    HsaQueueResource q;
};

static void put(struct ring *r, const uint32_t *dw, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        r->dw[r->wptr++ % r->n_dwords] = dw[i];
}

static void kick(struct ring *r)
{
    __atomic_store_n(r->q.Queue_write_ptr_aql, r->wptr, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(r->q.Queue_DoorBell_aql, r->wptr, __ATOMIC_RELEASE);
}

static void write_data(struct ring *r, const volatile void *at, uint32_t value)
{
    uint64_t va = (uintptr_t)at;
    const uint32_t dw[] = { 0xc0033700, 5 << 8 | 1 << 20, (uint32_t)va, (uint32_t)(va >> 32), value };
    put(r, dw, 5);
}

/* End of pipe: flush, write; interrupt: of the event with that id. data_sel 1: 32 bits, 2: 64 bits, 3: the clock. */
static void release_mem(struct ring *r, uint64_t va, uint32_t data_sel, uint64_t data, bool interrupt)
{
    const uint32_t dw[] = {
        0xc0064900, 0x0070f514, data_sel << 29 | (interrupt ? 2u << 24 : 0), (uint32_t)va, (uint32_t)(va >> 32),
        (uint32_t)data, (uint32_t)(data >> 32), interrupt ? (uint32_t)data : 0,
    };
    put(r, dw, 8);
}

static void wait_cell(const volatile uint32_t *cell, uint32_t value, const char *what)
{
    struct timespec nap = { 0, 100000 };
    for (int i = 0; i < 600000 && __atomic_load_n(cell, __ATOMIC_ACQUIRE) != value; i++)
        nanosleep(&nap, NULL);
    SAME(what, *cell, value);
}

static void packets(HSAuint32 node)
{
    enum { RING_BYTES = 4096 };
    struct ring r = { .dw = alloc(node, RING_BYTES, true), .n_dwords = RING_BYTES / 4 };
    volatile uint32_t *vram = alloc(node, 1 << 20, false), *host = alloc(node, 4096, true);
    memset((void *)host, 0, 4096);
    vram[7] = 1;
    SAME("VRAM through the host", vram[7], 1);
    HsaEvent *done = event(HSA_EVENTTYPE_SIGNAL, node, false);
    OK(hsaKmtCreateQueue(node, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, r.dw, RING_BYTES, NULL, &r.q));

    for (uint32_t i = 0; i < 40; i++) { /* far enough to pass the ring's end */
        for (uint32_t k = 0; k < 5; k++)
            write_data(&r, &vram[64 + k], i * 100 + k);
        release_mem(&r, (uintptr_t)&host[0], 1, i + 1, false);
        kick(&r);
        wait_cell(&host[0], i + 1, "fence");
        for (uint32_t k = 0; k < 5; k++)
            SAME("WRITE_DATA into VRAM", vram[64 + k], i * 100 + k);
    }
    SAME("read pointer, which wraps", *(const volatile uint32_t *)r.q.Queue_read_ptr_aql, r.wptr % r.n_dwords);

    release_mem(&r, (uintptr_t)&host[2], 3, 0, false);
    release_mem(&r, done->EventData.HWData2, 2, done->EventData.HWData3, true);
    kick(&r);
    OK(hsaKmtWaitOnEvent(done, 60000));
    uint64_t first = *(const volatile uint64_t *)&host[2];
    release_mem(&r, (uintptr_t)&host[2], 3, 0, false);
    release_mem(&r, (uintptr_t)&host[0], 1, 99, false);
    kick(&r);
    wait_cell(&host[0], 99, "fence after the event");
    if (*(const volatile uint64_t *)&host[2] <= first)
        fail("GPU clock advanced by", (long)(*(const volatile uint64_t *)&host[2] - first), 1);
    SAME("an event that was taken", hsaKmtWaitOnEvent(done, 10), HSAKMT_STATUS_WAIT_TIMEOUT);

    OK(hsaKmtDestroyQueue(r.q.QueueId));
    OK(hsaKmtDestroyEvent(done));
    printf("queue: 240 packets, fences, clock, event\n");
}

/* A write where nothing is mapped must come back as a memory event with the address. */
static void fault(HSAuint32 node)
{
    struct ring r = { .dw = alloc(node, 4096, true), .n_dwords = 1024 };
    HsaEvent *memory = event(HSA_EVENTTYPE_MEMORY, node, true);
    OK(hsaKmtCreateQueue(node, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, r.dw, 4096, NULL, &r.q));
    write_data(&r, (void *)0x123456789000, 1);
    kick(&r);
    OK(hsaKmtWaitOnEvent(memory, 60000));
    SAME("fault address", memory->EventData.EventData.MemoryAccessFault.VirtualAddress, 0x123456789000);
    OK(hsaKmtDestroyQueue(r.q.QueueId));
    OK(hsaKmtDestroyEvent(memory));
    printf("fault: reported with its address\n");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: client_hsakmt GFX SIMDS, for example 1201 128\n");
        return 2;
    }
    HsaNodeProperties props;
    HsaVersionInfo version;
    OK(hsaKmtOpenKFD());
    OK(hsaKmtGetVersion(&version));
    SAME("interface", version.KernelInterfaceMajorVersion, 1);
    HSAuint32 node = gpu_node(&props);
    topology(node, &props, (unsigned)atoi(argv[1]), (unsigned)atoi(argv[2]));
    packets(node);
    fault(node);
    OK(hsaKmtReleaseSystemProperties());
    OK(hsaKmtCloseKFD());
    printf("ok\n");
    return 0;
}
