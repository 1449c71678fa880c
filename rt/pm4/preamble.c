/* What a compute ring has to be told before the first launch when it is shared with others. */
#include "rt/pm4/pm4.h"

enum { N_SE = 8, INTERLEAVE_GFX11 = 256 };

void pm4_compute_preamble(struct pm4_buf *b, uint32_t n_se)
{
    uint32_t cu[N_SE];
    const uint32_t zeros[4] = { 0 }, interleave = INTERLEAVE_GFX11;
    for (uint32_t i = 0; i < N_SE; i++)
        cu[i] = i < n_se ? 0xffffffff : 0;
    if (b->gen == PM4_GFX12) {
        pm4_set_sh_reg(b, PM4_REG_COMPUTE_PERFCOUNT_ENABLE, 1, zeros);
        pm4_set_sh_reg(b, PM4_REG_COMPUTE_DISPATCH_PKT_ADDR_LO, 2, zeros);
        pm4_set_sh_reg(b, PM4_REG_COMPUTE_STATIC_THREAD_MGMT_SE8, 1, zeros);
    } else {
        pm4_set_sh_reg(b, PM4_REG_COMPUTE_DISPATCH_INTERLEAVE, 1, &interleave);
    }
    pm4_set_sh_reg(b, PM4_REG_COMPUTE_STATIC_THREAD_MGMT_SE0, 2, cu);
    pm4_set_sh_reg(b, PM4_REG_COMPUTE_STATIC_THREAD_MGMT_SE2, 2, cu + 2);
    pm4_set_sh_reg(b, PM4_REG_COMPUTE_STATIC_THREAD_MGMT_SE4, 4, cu + 4);
    pm4_set_sh_reg(b, PM4_REG_COMPUTE_USER_ACCUM_0, 4, zeros);
    pm4_set_sh_reg(b, PM4_REG_COMPUTE_DISPATCH_TUNNEL, 1, zeros);
}
