/* AMDGPU_INFO: what the card is. */
#include <errno.h>
#include <string.h>

#include "tools/amdsim/kmd/drm.h"

enum {
    INFO_ACCEL_WORKING = 0, INFO_HW_IP_INFO = 2, INFO_HW_IP_COUNT = 3, INFO_TIMESTAMP = 5, INFO_FW_VERSION = 0x0e,
    INFO_BYTES_MOVED = 0x0f, INFO_VRAM_USAGE = 0x10, INFO_GTT_USAGE = 0x11, INFO_GDS = 0x13, INFO_VRAM_GTT = 0x14,
    INFO_READ_MMR = 0x15, INFO_DEV_INFO = 0x16, INFO_VISIBLE_USAGE = 0x17, INFO_EVICTIONS = 0x18, INFO_MEMORY = 0x19,
    INFO_SENSOR = 0x1d, INFO_CPU_FAULTS = 0x1e, INFO_VRAM_LOST = 0x1f, INFO_RAS = 0x20, INFO_MAX_IBS = 0x22,
    INFO_GPUVM_FAULT = 0x23,
};
enum { IP_GFX, IP_COMPUTE, IP_DMA, N_IPS = 10 };

static uint64_t visible_vram(void)
{
    uint64_t all = card.opt.vram_bytes, bar = 256u << 20;
    return card.opt.small_bar && all > bar ? bar : all;
}

uint32_t drm_n_rings(void)
{
    bool replaced = kmd_options()->user_queues == KMD_USERQ_ONLY && drm_userq_slots();
    return replaced || kmd_injected(KMD_INJECT_NO_KERNEL_QUEUES) ? 0 : DRM_N_RINGS;
}

/* Graphics rings are not modelled: there are none. */
static struct drm_hw_ip hw_ip(uint32_t type)
{
    const struct chip *c = card.opt.chip;
    struct drm_hw_ip ip = { .ib_start_align = 32, .ib_size_align = 32 };
    if (type == IP_COMPUTE) {
        ip.major = c->gc_major;
        ip.minor = c->gc_minor;
        ip.rings = (1u << drm_n_rings()) - 1;
        ip.userq_slots = drm_userq_slots();
        ip.discovery_version = c->gc_major << 16 | c->gc_minor << 8 | c->gc_rev;
        if (kmd_injected(KMD_INJECT_UNSUPPORTED))
            ip.discovery_version = 10 << 16 | 3 << 8;
    } else if (type == IP_DMA) {
        ip.major = c->sdma_major;
        ip.minor = c->sdma_minor;
        ip.ib_start_align = 256;
        ip.ib_size_align = 4;
        ip.rings = (1u << c->n_sdma) - 1;
        ip.discovery_version = c->sdma_major << 16 | c->sdma_minor << 8 | c->sdma_rev;
    }
    return ip;
}

static void dev_info(struct drm_dev_info *i)
{
    const struct chip *c = card.opt.chip;
    uint32_t arrays = c->n_se * c->arrays_per_se;
    *i = (struct drm_dev_info){
        .device_id = c->device_id, .chip_rev = 1, .external_rev = c->gfx12 ? 0x51 : 0x11, .pci_rev = 0xc0,
        .family = c->family, .n_se = c->n_se, .n_arrays_per_se = c->arrays_per_se, .counter_khz = 100000,
        .max_engine_khz = c->max_clock_mhz * 1000ull, .max_memory_khz = c->mem_clock_mhz * 1000ull,
        .n_cu = c->n_cu, .n_gfx_contexts = 8, .pcie_gen = 5, .ids_flags = c->apu ? 1 : 0,
        .va_offset = DRM_VA_START, .va_max = 1ull << 47, .va_align = 4096, .pte_fragment = 2 << 20, .gart_page = 4096,
        .vram_type = c->apu ? 10 : 9, .vram_width = c->vram_width, .wave_size = 32, .n_vgprs = c->vgprs_per_simd,
        .cu_per_array = c->n_cu / arrays, .n_tcc = c->vram_width / 16, .gs_vgt_depth = 32, .gs_prim_depth = 1792,
        .max_gs_waves = 32, .pcie_lanes = 16, .high_va_offset = 0xffff800000000000, .high_va_max = ~0ull << 12,
        .min_engine_khz = 500000, .min_memory_khz = 96000, .tcp_kib = 32, .n_sqc_per_wgp = 1, .sqc_data_kib = 16,
        .sqc_inst_kib = 32, .gl1c_kib = 256, .gl2c_kib = c->gfx12 ? 8192 : 6144, .userq_ip_mask = drm_userq_slots() ? 1u << IP_COMPUTE : 0,
    };
    for (uint32_t se = 0; se < c->n_se; se++) /* engines beyond the fourth use the other columns */
        for (uint32_t a = 0; a < c->arrays_per_se; a++)
            i->cu_bitmap[se % 4][a + se / 4 * 2] = (1u << c->n_cu / arrays) - 1;
}

static int ip_query(const struct drm_info_args *a, void *out, uint32_t *bytes)
{
    if (a->ip.type >= N_IPS)
        return kmd_why(-EINVAL, "INFO: hardware block %u", a->ip.type);
    struct drm_hw_ip ip = hw_ip(a->ip.type);
    if (a->query == INFO_HW_IP_COUNT) {
        uint32_t n = ip.rings ? (a->ip.type == IP_DMA ? card.opt.chip->n_sdma : 1) : 0;
        memcpy(out, &n, *bytes = 4);
        return 0;
    }
    if (a->ip.instance >= 1 && a->ip.type != IP_DMA)
        return kmd_why(-EINVAL, "INFO: instance %u of hardware block %u", a->ip.instance, a->ip.type);
    memcpy(out, &ip, *bytes = sizeof ip);
    return 0;
}

static int memory_query(uint32_t query, uint64_t *out, uint32_t *bytes)
{
    uint64_t vram = card.opt.vram_bytes, visible = visible_vram();
    uint64_t used = kmd_injected(KMD_INJECT_VRAM_ENOMEM) ? vram : card.vram_used + shared_others(false);
    if (query == INFO_VRAM_GTT) {
        const uint64_t v[3] = { vram, visible, card.gtt_bytes };
        memcpy(out, v, *bytes = sizeof v);
        return 0;
    }
    struct drm_memory m = {
        .vram = { vram, vram, used, vram * 3 / 4 },
        .visible = { visible, visible, used < visible ? used : visible, visible * 3 / 4 },
        .gtt = { card.gtt_bytes, card.gtt_bytes, card.gtt_used, card.gtt_bytes * 3 / 4 },
    };
    memcpy(out, &m, *bytes = sizeof m);
    return 0;
}

static int read_registers(const struct drm_info_args *a, uint32_t *out, uint32_t *bytes)
{
    enum { GB_ADDR_CONFIG = 0x263e };
    if (a->mmr.count > 128)
        return kmd_why(-EINVAL, "INFO READ_MMR_REG: %u registers", a->mmr.count);
    for (uint32_t i = 0; i < a->mmr.count; i++) {
        if (a->mmr.offset + i != GB_ADDR_CONFIG)
            return kmd_why(-EFAULT, "INFO READ_MMR_REG: register 0x%x may not be read", a->mmr.offset + i);
        out[i] = KMD_GB_ADDR_CONFIG;
    }
    *bytes = a->mmr.count * 4;
    return 0;
}

static int answer(const struct drm_info_args *a, void *out, uint32_t *bytes)
{
    uint32_t u32 = 0, pair[2] = { 0 };
    uint64_t u64 = 0;
    *bytes = 8;
    switch (a->query) {
    case INFO_ACCEL_WORKING:
        u32 = 1;
        memcpy(out, &u32, *bytes = 4);
        return 0;
    case INFO_HW_IP_INFO:
    case INFO_HW_IP_COUNT: return ip_query(a, out, bytes);
    case INFO_TIMESTAMP: u64 = cp_clock(); break;
    case INFO_FW_VERSION: /* 4: ME, 5: PFP, 8: MEC, 0xb: SDMA, 0x1a: MES */
        pair[0] = a->fw.type == 4 ? card.opt.firmware[KMD_FW_ME] : a->fw.type == 5 ? card.opt.firmware[KMD_FW_PFP]
                : a->fw.type == 8 ? card.opt.firmware[KMD_FW_MEC] : a->fw.type == 0x1a ? card.opt.firmware[KMD_FW_MES]
                : a->fw.type == 0xb ? 14 : 1;
        pair[1] = 1;
        memcpy(out, pair, sizeof pair);
        return 0;
    case INFO_BYTES_MOVED: u64 = card.n_bytes_moved; break;
    case INFO_VRAM_USAGE: u64 = card.vram_used; break;
    case INFO_VISIBLE_USAGE: u64 = card.vram_used < visible_vram() ? card.vram_used : visible_vram(); break;
    case INFO_GTT_USAGE: u64 = card.gtt_used; break;
    case INFO_GDS:
        memset(out, 0, *bytes = 32);
        return 0;
    case INFO_VRAM_GTT:
    case INFO_MEMORY: return memory_query(a->query, out, bytes);
    case INFO_READ_MMR: return read_registers(a, out, bytes);
    case INFO_DEV_INFO:
        dev_info(out);
        *bytes = sizeof(struct drm_dev_info);
        return 0;
    case INFO_SENSOR: return kmd_why(-EINVAL, "INFO SENSOR %u: the model has no sensors", a->sensor.type);
    case INFO_EVICTIONS: u64 = shared_evictions(); break;
    case INFO_CPU_FAULTS:
    case INFO_RAS: break;
    case INFO_VRAM_LOST:
        memcpy(out, &u32, *bytes = 4);
        return 0;
    case INFO_MAX_IBS: {
        static const uint32_t n[N_IPS] = { 192, 125, 49, 49, 49, 49, 49, 49, 49, 49 };
        memcpy(out, n, *bytes = sizeof n);
        return 0;
    }
    case INFO_GPUVM_FAULT: {
        struct { uint64_t va; uint32_t status, vmhub; } v = { card.fault_va, card.fault_status, 0 };
        memcpy(out, &v, *bytes = sizeof v);
        return 0;
    }
    default: return kmd_why(-EINVAL, "INFO: query 0x%x is unknown", a->query);
    }
    memcpy(out, &u64, 8);
    return 0;
}

int drm_info(struct drm_file *d, void *arg)
{
    const struct drm_info_args *a = arg;
    uint64_t out[128] = { 0 };
    uint32_t bytes = 0;
    if (!a->bytes || !a->ptr)
        return kmd_why(-EINVAL, "INFO: no room for the answer");
    int rc = answer(a, out, &bytes);
    return rc == 0 ? user_write(a->ptr, out, bytes < a->bytes ? bytes : a->bytes) : rc;
}
