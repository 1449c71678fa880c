/* tools/amdsim/chip.h: the cards that amdsim can be. Values: see chip.c. */
#ifndef AMDSIM_CHIP_H
#define AMDSIM_CHIP_H

#include <stdbool.h>
#include <stdint.h>

struct chip {
    const char *name;             /* "gfx1201"                                       */
    const char *product;          /* "AMD Radeon AI PRO R9700"                       */
    uint32_t gfx_target_version;  /* 120001                                          */
    uint32_t gfx;                 /* 1100, 1201, ...: as in the name                 */
    bool gfx12;                   /* RDNA4 encodings and packets; else RDNA3 / 3.5   */
    bool salu_float;              /* s_add_f32 and friends: RDNA3.5 and gfx12        */
    bool user_sgpr_16;            /* gfx1100, gfx1102: compiler pads user SGPRs to 16 */
    bool apu;
    bool cwsr_needs_priv;         /* GC 11.0.x: a kernel is preempted only with RSRC1.PRIV */
    uint32_t n_cu, n_se, arrays_per_se, simd_per_cu, waves_per_simd, lds_kib, vgprs_per_simd;
    uint32_t family, vendor_id, device_id, n_cp_queues, n_sdma, sdma_queues_per_engine;
    uint32_t gc_major, gc_minor, gc_rev, sdma_major, sdma_minor, sdma_rev, nbio_major, nbio_minor, nbio_rev;
    uint32_t max_clock_mhz, mem_clock_mhz, vram_width, elf_mach;
    uint32_t save_vgpr_bytes;     /* of a CU in the context save area                */
    uint64_t vram_bytes;
};
extern const struct chip chips[];  /* ends with name NULL */
const struct chip *chip_find(const char *name); /* NULL: unknown */

#endif
