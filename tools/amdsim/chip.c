#include "tools/amdsim/chip.h"

#include <stddef.h>
#include <string.h>

/* Largest product of each chip, as its driver describes it: shader engines x arrays x CUs, clocks in MHz, memory as
 * the topology's bank says. APUs have no memory of their own: 32 GiB is a usual carve-out of gfx1151, 4 GiB of gfx1103,
 * 512 MiB of gfx1150. Engines, arrays, CUs and registers of gfx1101, gfx1102, gfx1103 and gfx1150: PAL's gfx9Device.cpp
 * (Navi32, Navi33, Phoenix1, Strix1) and, for gfx1150, the record of a machine in Mesa's drm-shim/amdgpu_devices.c; GC
 * and family: amdgpu_discovery.c and kfd_device.c; user SGPRs: LLVM's FeatureUserSGPRInit16Bug; clocks and memory sizes are
 * plausible ones, those of gfx1150 that record's.
 * cwsr_needs_priv: kfdtest sets PRIV for GC 11.0.0 to 11.0.2 and 11.0.5 (KFDBaseComponentTest::NeedCwsrWA,
 * Dispatch::BuildIb), the kernel has a workaround for 11.0.0 to 11.0.3 (kfd_dbg_has_cwsr_workaround); tinygrad sets it on
 * all of gfx11 (ops_amd.py), so for gfx1151 the three do not agree and the model does not ask for it. */
const struct chip chips[] = {
    { .name = "gfx1201", .product = "AMD Radeon AI PRO R9700", .gfx_target_version = 120001, .gfx = 1201,
      .gfx12 = true, .salu_float = true,
      .n_cu = 64, .n_se = 4, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1536, .family = 152, .vendor_id = 0x1002, .device_id = 0x7551,
      .n_cp_queues = 4, .n_sdma = 2, .sdma_queues_per_engine = 6,
      .gc_major = 12, .gc_minor = 0, .gc_rev = 1, .sdma_major = 7, .sdma_minor = 0, .sdma_rev = 1,
      .nbio_major = 6, .nbio_minor = 3, .nbio_rev = 1,
      .max_clock_mhz = 2350, .mem_clock_mhz = 1258, .vram_width = 256, .elf_mach = 0x4e,
      .save_vgpr_bytes = 0x60000, .vram_bytes = 32061259776 },
    { .name = "gfx1200", .product = "AMD Radeon RX 9060 XT", .gfx_target_version = 120000, .gfx = 1200,
      .gfx12 = true, .salu_float = true,
      .n_cu = 32, .n_se = 2, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1536, .family = 152, .vendor_id = 0x1002, .device_id = 0x7590,
      .n_cp_queues = 4, .n_sdma = 2, .sdma_queues_per_engine = 6,
      .gc_major = 12, .gc_minor = 0, .gc_rev = 0, .sdma_major = 7, .sdma_minor = 0, .sdma_rev = 0,
      .nbio_major = 6, .nbio_minor = 3, .nbio_rev = 1,
      .max_clock_mhz = 3130, .mem_clock_mhz = 1258, .vram_width = 128, .elf_mach = 0x48,
      .save_vgpr_bytes = 0x60000, .vram_bytes = 17095983104 },
    { .name = "gfx1151", .product = "AMD Radeon 8060S (Strix Halo)", .gfx_target_version = 110501, .gfx = 1151,
      .salu_float = true, .apu = true,
      .n_cu = 40, .n_se = 2, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1536, .family = 150, .vendor_id = 0x1002, .device_id = 0x1586,
      .n_cp_queues = 8, .n_sdma = 1, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 5, .gc_rev = 1, .sdma_major = 6, .sdma_minor = 1, .sdma_rev = 1,
      .nbio_major = 7, .nbio_minor = 11, .nbio_rev = 1,
      .max_clock_mhz = 2900, .mem_clock_mhz = 1000, .vram_width = 256, .elf_mach = 0x4a,
      .save_vgpr_bytes = 0x60000, .vram_bytes = 34359738368 },
    { .name = "gfx1100", .product = "AMD Radeon PRO W7900", .gfx_target_version = 110000, .gfx = 1100,
      .user_sgpr_16 = true, .cwsr_needs_priv = true,
      .n_cu = 96, .n_se = 6, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1536, .family = 145, .vendor_id = 0x1002, .device_id = 0x7448,
      .n_cp_queues = 8, .n_sdma = 2, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 0, .gc_rev = 0, .sdma_major = 6, .sdma_minor = 0, .sdma_rev = 0,
      .nbio_major = 4, .nbio_minor = 3, .nbio_rev = 0,
      .max_clock_mhz = 1760, .mem_clock_mhz = 1124, .vram_width = 384, .elf_mach = 0x41,
      .save_vgpr_bytes = 0x60000, .vram_bytes = 48301604864 },
    { .name = "gfx1101", .product = "AMD Radeon RX 7800 XT", .gfx_target_version = 110001, .gfx = 1101,
      .n_cu = 60, .n_se = 3, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1536, .family = 145, .vendor_id = 0x1002, .device_id = 0x747e,
      .n_cp_queues = 8, .n_sdma = 2, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 0, .gc_rev = 3, .sdma_major = 6, .sdma_minor = 0, .sdma_rev = 3,
      .nbio_major = 4, .nbio_minor = 3, .nbio_rev = 0,
      .max_clock_mhz = 2430, .mem_clock_mhz = 1219, .vram_width = 256, .elf_mach = 0x46,
      .save_vgpr_bytes = 0x60000, .vram_bytes = 17163091968 },
    { .name = "gfx1102", .product = "AMD Radeon RX 7600", .gfx_target_version = 110002, .gfx = 1102,
      .user_sgpr_16 = true, .cwsr_needs_priv = true,
      .n_cu = 32, .n_se = 2, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1024, .family = 145, .vendor_id = 0x1002, .device_id = 0x7480,
      .n_cp_queues = 8, .n_sdma = 2, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 0, .gc_rev = 2, .sdma_major = 6, .sdma_minor = 0, .sdma_rev = 2,
      .nbio_major = 4, .nbio_minor = 3, .nbio_rev = 0,
      .max_clock_mhz = 2655, .mem_clock_mhz = 1125, .vram_width = 128, .elf_mach = 0x47,
      .save_vgpr_bytes = 0x40000, .vram_bytes = 8573157376 },
    { .name = "gfx1103", .product = "AMD Radeon 780M (Phoenix)", .gfx_target_version = 110003, .gfx = 1103,
      .apu = true, .cwsr_needs_priv = true,
      .n_cu = 12, .n_se = 1, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1024, .family = 148, .vendor_id = 0x1002, .device_id = 0x15bf,
      .n_cp_queues = 8, .n_sdma = 1, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 0, .gc_rev = 1, .sdma_major = 6, .sdma_minor = 0, .sdma_rev = 1,
      .nbio_major = 7, .nbio_minor = 7, .nbio_rev = 0,
      .max_clock_mhz = 2700, .mem_clock_mhz = 800, .vram_width = 128, .elf_mach = 0x44,
      .save_vgpr_bytes = 0x40000, .vram_bytes = 4294967296 },
    { .name = "gfx1150", .product = "AMD Radeon 890M (Strix Point)", .gfx_target_version = 110500, .gfx = 1150,
      .salu_float = true, .apu = true,
      .n_cu = 16, .n_se = 1, .arrays_per_se = 2, .simd_per_cu = 2, .waves_per_simd = 16, .lds_kib = 64,
      .vgprs_per_simd = 1024, .family = 150, .vendor_id = 0x1002, .device_id = 0x150e,
      .n_cp_queues = 8, .n_sdma = 1, .sdma_queues_per_engine = 6,
      .gc_major = 11, .gc_minor = 5, .gc_rev = 0, .sdma_major = 6, .sdma_minor = 1, .sdma_rev = 0,
      .nbio_major = 7, .nbio_minor = 11, .nbio_rev = 0,
      .max_clock_mhz = 2900, .mem_clock_mhz = 937, .vram_width = 128, .elf_mach = 0x43,
      .save_vgpr_bytes = 0x40000, .vram_bytes = 536870912 },
    { .name = NULL },
};

const struct chip *chip_find(const char *name)
{
    for (const struct chip *c = chips; c->name; c++)
        if (name && strcmp(c->name, name) == 0)
            return c;
    return NULL;
}
