/* kernels/hw/fresh.h: loads as kd_load_once, kd_load_once8 and kd_load_once4 of what the work-group itself may have written
 * before its last barrier: not by way of a cache for what nobody writes. */
#ifndef ZINC_KERNELS_HW_FRESH_H
#define ZINC_KERNELS_HW_FRESH_H

#include "kernels/kdev.h"

#if defined(__NVPTX__)
#define KD_LD_FRESH "ld.global.L1::no_allocate.L2::128B"
KD_FN kd_u32x4 kd_load_fresh(KD_GLOBAL const kd_u32x4 *p)
{
    uint32_t x, y, z, w;
    __asm__ volatile(KD_LD_FRESH ".v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "l"(p));
    return (kd_u32x4){ x, y, z, w };
}
KD_FN kd_u32x2 kd_load_fresh8(KD_GLOBAL const kd_u32x2 *p)
{
    uint32_t x, y;
    __asm__ volatile(KD_LD_FRESH ".v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p));
    return (kd_u32x2){ x, y };
}
KD_FN uint32_t kd_load_fresh4(KD_GLOBAL const uint32_t *p)
{
    uint32_t x;
    __asm__ volatile(KD_LD_FRESH ".u32 %0, [%1];" : "=r"(x) : "l"(p));
    return x;
}
#else
KD_FN kd_u32x4 kd_load_fresh(KD_GLOBAL const kd_u32x4 *p) { return kd_load_once(p); }
KD_FN kd_u32x2 kd_load_fresh8(KD_GLOBAL const kd_u32x2 *p) { return kd_load_once8(p); }
KD_FN uint32_t kd_load_fresh4(KD_GLOBAL const uint32_t *p) { return kd_load_once4(p); }
#endif

#endif
