/* kernels/roof.c: reads memory and does nothing with it: the roof that decoding is measured against. */
#include "kernels/kdev.h"
#include "kernels/klaunch.h"

KD_KERNEL(k_roof, kl_roof)
{
    enum { DEEP = 4 };
    KD_GLOBAL const kd_u32x4 *p = KD_PTR(const kd_u32x4, a.p);
    uint32_t step = kd_groups_x() * kd_group_size(), at = kd_group_x() * kd_group_size() + kd_tid();
    kd_u32x4 sum = { 0 };
    for (uint32_t i = at; i + (DEEP - 1) * step < a.n16; i += DEEP * step) {
        kd_u32x4 v[DEEP];
        KD_UNROLL
        for (uint32_t k = 0; k < DEEP; k++)
            v[k] = kd_load_once(p + (i + k * step));
        KD_UNROLL
        for (uint32_t k = 0; k < DEEP; k++)
            sum ^= v[k];
    }
    if ((sum[0] & sum[1] & sum[2] & sum[3]) == 0x5a5a5a5au) /* never, but the compiler cannot know */
        *KD_PTR(uint32_t, a.out) = sum[0];
}
