/* kernels/ladder.c: two kernels whose results anybody can predict, for bringing up a device: is a work-group where it
 * should be, and do shared memory, the barrier and the shuffles of its lanes work? */
#include "kernels/kdev.h"
#include "kernels/klaunch.h"

/* out[g * size + t] = t + 1,000 x + 100,000 y + 10,000,000 z for work-group (x, y, z), the g-th of the grid. */
KD_KERNEL(k_ladder_ids, kl_ladder)
{
    kd_wait_inputs();
    KD_GLOBAL uint32_t *out = KD_PTR(uint32_t, a.out);
    uint32_t x = kd_group_x(), y = kd_group_y(), z = kd_group_z(), t = kd_tid(), size = kd_group_size();
    uint32_t g = (z * kd_groups_y() + y) * kd_groups_x() + x;
    if (g * size + t < a.n)
        out[g * size + t] = t + 1000 * x + 100000 * y + 10000000 * z;
}

/* Each work-item puts a number into shared memory; after the barrier it adds its mirror image's number, the sum over its
 * warp, and one number from the lane across. */
KD_KERNEL(k_ladder_shared, kl_ladder)
{
    kd_wait_inputs();
    KD_GLOBAL uint32_t *out = KD_PTR(uint32_t, a.out);
    KD_SHARED uint32_t *s = KD_SHARED_AT(uint32_t, 0);
    uint32_t t = kd_tid(), size = kd_group_size(), mine = LADDER_VALUE(kd_group_x(), t), sum = mine;
    s[t] = mine;
    kd_barrier();
    for (uint32_t m = 16; m; m >>= 1)
        sum += kd_shfl_xor_u32(sum, m);
    uint32_t across = kd_shfl_u32(mine, 31 - kd_lane());
    if (kd_group_x() * size + t < a.n)
        out[kd_group_x() * size + t] = s[size - 1 - t] ^ (sum << 3) ^ across;
}
