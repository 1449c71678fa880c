/* kernels/hw/redux.h
 * The largest and the least of a warp's words, the same in all lanes: one instruction on NVIDIA (the PTX ISA manual, redux.sync). */
#ifndef ZINC_KERNELS_HW_REDUX_H
#define ZINC_KERNELS_HW_REDUX_H

#include "kernels/kdev.h"

#if defined(__NVPTX__)

KD_FN uint32_t kd_warp_max_u32(uint32_t v) { return (uint32_t)__nvvm_redux_sync_umax((int)v, -1); }
KD_FN uint32_t kd_warp_min_u32(uint32_t v) { return (uint32_t)__nvvm_redux_sync_umin((int)v, -1); }

#else

KD_FN uint32_t kd_warp_max_u32(uint32_t v)
{
    for (uint32_t m = 16; m; m >>= 1)
        v = kd_max_u32(v, kd_shfl_xor_u32(v, m));
    return v;
}
KD_FN uint32_t kd_warp_min_u32(uint32_t v)
{
    for (uint32_t m = 16; m; m >>= 1)
        v = kd_min_u32(v, kd_shfl_xor_u32(v, m));
    return v;
}

#endif
#endif
