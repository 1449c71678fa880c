/* A client of libdrm_amdgpu, which knows nothing of the model: initialises the device, asks what it is, allocates
 * and maps buffers, submits indirect buffers and waits for their fences, shares, waits through syncobjs. Prints what
 * it proved, exits 1 at the first difference. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <xf86drm.h>

static void fail(const char *what, long long got, long long expected)
{
    printf("FAIL %s: %lld, expected %lld\n", what, got, expected);
    exit(1);
}

#define SAME(what, got, expected)                                                                                      \
    do {                                                                                                               \
        if ((uint64_t)(got) != (uint64_t)(expected))                                                                   \
            fail(what, (long long)(got), (long long)(expected));                                                       \
    } while (0)
#define OK(call) SAME(#call, call, 0)

static amdgpu_device_handle dev;

/* ---- what the card is ---- */

static void queries(uint32_t family, uint32_t n_cu)
{
    struct amdgpu_gpu_info gpu;
    OK(amdgpu_query_gpu_info(dev, &gpu));
    SAME("family", gpu.family_id, family);
    SAME("CUs", gpu.cu_active_number, n_cu);
    SAME("counter kHz", gpu.gpu_counter_freq, 100000);
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            bits += (uint32_t)__builtin_popcount(gpu.cu_bitmap[i][k]);
    SAME("bits of the CU map", bits, n_cu);

    struct drm_amdgpu_info_hw_ip ip;
    uint32_t n = 0;
    OK(amdgpu_query_hw_ip_info(dev, AMDGPU_HW_IP_COMPUTE, 0, &ip));
    SAME("compute version", ip.hw_ip_version_major, family == 152 ? 12 : 11);
    if (!ip.available_rings)
        fail("compute rings", 0, 1);
    OK(amdgpu_query_hw_ip_count(dev, AMDGPU_HW_IP_COMPUTE, &n));
    SAME("compute blocks", n, 1);

    struct amdgpu_heap_info vram, gtt;
    OK(amdgpu_query_heap_info(dev, AMDGPU_GEM_DOMAIN_VRAM, 0, &vram));
    OK(amdgpu_query_heap_info(dev, AMDGPU_GEM_DOMAIN_GTT, 0, &gtt));
    if (vram.heap_size < 1u << 30 || gtt.heap_size < 1u << 28)
        fail("heap sizes", (long long)vram.heap_size, 1 << 30);
    uint32_t fw = 0, feature = 0;
    OK(amdgpu_query_firmware_version(dev, AMDGPU_INFO_FW_GFX_MEC, 0, 0, &fw, &feature));
    struct drm_amdgpu_info_device info;
    OK(amdgpu_query_info(dev, AMDGPU_INFO_DEV_INFO, sizeof info, &info));
    SAME("CUs of DEV_INFO", info.cu_active_number, n_cu);
    SAME("wave size", info.wave_front_size, 32);
    if (info.virtual_address_max <= info.virtual_address_offset || info.high_va_max <= info.high_va_offset)
        fail("address ranges", 0, 1);
    int clock;
    SAME("a sensor", amdgpu_query_sensor_info(dev, AMDGPU_INFO_SENSOR_GFX_SCLK, sizeof clock, &clock), -EINVAL);
    printf("queries: family %u, %u CUs, %llu MiB\n", family, n_cu, (unsigned long long)(vram.heap_size >> 20));
}

/* ---- buffers ---- */

struct buffer {
    amdgpu_bo_handle bo;
    amdgpu_va_handle va_handle;
    uint64_t va, bytes;
    uint32_t *cpu;
};

static struct buffer buffer(uint64_t bytes, uint32_t domain, uint64_t range)
{
    struct amdgpu_bo_alloc_request req = { .alloc_size = bytes, .phys_alignment = 4096, .preferred_heap = domain };
    struct buffer b = { .bytes = bytes };
    OK(amdgpu_bo_alloc(dev, &req, &b.bo));
    OK(amdgpu_va_range_alloc(dev, amdgpu_gpu_va_range_general, bytes, 4096, 0, &b.va, &b.va_handle, range));
    OK(amdgpu_bo_va_op(b.bo, 0, bytes, b.va, 0, AMDGPU_VA_OP_MAP));
    OK(amdgpu_bo_cpu_map(b.bo, (void **)&b.cpu));
    memset(b.cpu, 0, bytes);
    return b;
}

static void release(struct buffer *b)
{
    OK(amdgpu_bo_cpu_unmap(b->bo));
    OK(amdgpu_bo_va_op(b->bo, 0, b->bytes, b->va, 0, AMDGPU_VA_OP_UNMAP));
    OK(amdgpu_va_range_free(b->va_handle));
    OK(amdgpu_bo_free(b->bo));
}

/* Two packets, padded to 32 bytes: WRITE_DATA of a value, NOP. */
static uint32_t write_ib(uint32_t *ib, uint64_t va, uint32_t value)
{
    const uint32_t dw[8] = {
        0xc0033700, 5 << 8 | 1 << 20, (uint32_t)va, (uint32_t)(va >> 32), value, 0xc0011000, 0, 0,
    };
    memcpy(ib, dw, sizeof dw);
    return 8;
}

static uint64_t submit(amdgpu_context_handle ctx, uint64_t va, uint32_t n_dwords, struct buffer *fence, uint32_t ring,
                       struct amdgpu_cs_fence *dep)
{
    struct amdgpu_cs_ib_info ib = { .ib_mc_address = va, .size = n_dwords };
    struct amdgpu_cs_request req = {
        .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = ring, .number_of_ibs = 1, .ibs = &ib,
        .number_of_dependencies = dep ? 1 : 0, .dependencies = dep,
    };
    if (fence)
        req.fence_info = (struct amdgpu_cs_fence_info){ .handle = fence->bo, .offset = 4 };
    OK(amdgpu_cs_submit(ctx, 0, &req, 1));
    return req.seq_no;
}

static void submissions(void)
{
    amdgpu_context_handle ctx;
    OK(amdgpu_cs_ctx_create(dev, &ctx));
    struct buffer ib = buffer(4096, AMDGPU_GEM_DOMAIN_GTT, 0), out = buffer(1 << 16, AMDGPU_GEM_DOMAIN_VRAM, 0);
    struct buffer fence = buffer(4096, AMDGPU_GEM_DOMAIN_GTT, 0);
    struct buffer high = buffer(4096, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_VA_RANGE_HIGH);
    struct amdgpu_cs_fence last = { .context = ctx, .ip_type = AMDGPU_HW_IP_COMPUTE };
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t n = write_ib(ib.cpu + 16 * i, (i & 1 ? high.va : out.va) + 4 * i, i + 100);
        last.fence = submit(ctx, ib.va + 64ull * i, n, &fence, 0, i % 3 == 2 ? &last : NULL);
    }
    uint32_t expired = 0;
    OK(amdgpu_cs_query_fence_status(&last, 60000000000ull, 0, &expired));
    SAME("fence expired", expired, 1);
    for (uint32_t i = 0; i < 20; i++)
        SAME("WRITE_DATA of an indirect buffer", (i & 1 ? high.cpu : out.cpu)[i], i + 100);
    SAME("user fence", *(uint64_t *)(fence.cpu + 8), last.fence);
    uint32_t status = 1, first = 1;
    OK(amdgpu_cs_wait_fences(&last, 1, true, 1000000, &status, &first));
    SAME("WAIT_FENCES", status, 1);
    bool idle = false;
    OK(amdgpu_bo_wait_for_idle(out.bo, 1000000000, &idle));
    SAME("busy", idle, 0);
    uint32_t state = 9, hangs = 9;
    OK(amdgpu_cs_query_reset_state(ctx, &state, &hangs));
    SAME("reset state", state, 0);
    release(&high);
    release(&fence);
    release(&out);
    release(&ib);
    OK(amdgpu_cs_ctx_free(ctx));
    printf("submissions: 20 indirect buffers, fences, dependencies, both address ranges\n");
}

static void syncobjs(void)
{
    uint32_t binary, timeline, signaled = 0;
    OK(amdgpu_cs_create_syncobj(dev, &binary));
    OK(amdgpu_cs_create_syncobj2(dev, 0, &timeline));
    OK(amdgpu_cs_syncobj_signal(dev, &binary, 1));
    OK(amdgpu_cs_syncobj_wait(dev, &binary, 1, 0, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL, &signaled));
    OK(amdgpu_cs_syncobj_reset(dev, &binary, 1));
    if (amdgpu_cs_syncobj_wait(dev, &binary, 1, 0, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, &signaled) == 0)
        fail("waiting for a syncobj that was reset", 0, -62);
    uint64_t point = 5, reached = 0;
    OK(amdgpu_cs_syncobj_timeline_signal(dev, &timeline, &point, 1));
    OK(amdgpu_cs_syncobj_query(dev, &timeline, &reached, 1));
    SAME("timeline point", reached, 5);
    OK(amdgpu_cs_destroy_syncobj(dev, binary));
    OK(amdgpu_cs_destroy_syncobj(dev, timeline));
    printf("syncobjs: binary and timeline\n");
}

/* A buffer through a descriptor: the same memory. */
static void sharing(void)
{
    struct buffer b = buffer(8192, AMDGPU_GEM_DOMAIN_GTT, 0);
    uint32_t fd = 0;
    OK(amdgpu_bo_export(b.bo, amdgpu_bo_handle_type_dma_buf_fd, &fd));
    SAME("size of the dma-buf", lseek((int)fd, 0, SEEK_END), 8192);
    struct amdgpu_bo_import_result in;
    OK(amdgpu_bo_import(dev, amdgpu_bo_handle_type_dma_buf_fd, fd, &in));
    uint32_t *cpu;
    OK(amdgpu_bo_cpu_map(in.buf_handle, (void **)&cpu));
    b.cpu[9] = 77;
    SAME("shared memory", cpu[9], 77);
    OK(amdgpu_bo_cpu_unmap(in.buf_handle));
    OK(amdgpu_bo_free(in.buf_handle));
    close((int)fd);
    release(&b);
    printf("sharing: a dma-buf\n");
}

/* An indirect buffer that writes where nothing is mapped: the context is to blame from then on. */
static void fault(void)
{
    amdgpu_context_handle ctx;
    OK(amdgpu_cs_ctx_create(dev, &ctx));
    struct buffer ib = buffer(4096, AMDGPU_GEM_DOMAIN_GTT, 0);
    struct amdgpu_cs_fence f = { .context = ctx, .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = 1 };
    f.fence = submit(ctx, ib.va, write_ib(ib.cpu, 0x654321000, 1), NULL, 1, NULL);
    uint32_t expired = 0, state = 0, hangs = 0;
    SAME("waiting for it", amdgpu_cs_query_fence_status(&f, 60000000000ull, 0, &expired), -ECANCELED);
    OK(amdgpu_cs_query_reset_state(ctx, &state, &hangs));
    SAME("reset state", state, AMDGPU_CTX_GUILTY_RESET);
    release(&ib);
    OK(amdgpu_cs_ctx_free(ctx));
    printf("fault: blamed on its context\n");
}

int main(int argc, char **argv)
{
    uint32_t major, minor;
    if (argc < 3) {
        fprintf(stderr, "usage: client_drm FAMILY CUS, for example 152 64\n");
        return 2;
    }
    int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fail("open /dev/dri/renderD128", errno, 0);
    SAME("node type", drmGetNodeTypeFromFd(fd), DRM_NODE_RENDER);
    OK(amdgpu_device_initialize(fd, &major, &minor, &dev));
    SAME("DRM major", major, 3);
    queries((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]));
    submissions();
    syncobjs();
    sharing();
    fault();
    OK(amdgpu_device_deinitialize(dev));
    close(fd);
    printf("ok\n");
    return 0;
}
