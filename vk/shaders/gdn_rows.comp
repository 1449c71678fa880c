#version 460
/* Gated DeltaNet, prompts: which rows belong to each slot, in order. Grid x: slots. */
#include "gdn_prompt.glsl"

shared uint found[ZK_THREADS / 4];

void main()
{
    uint slot = gl_WorkGroupID.x, n_rows = zk_step_rows(a.step, ROWS_STEP), count = 0;
    for (uint r0 = 0; r0 < n_rows; r0 += ZK_THREADS) {
        uint r = r0 + zk_tid();
        bool own = r < n_rows && zk_row(a.step, r).slot == slot;
        uvec4 mask = subgroupBallot(own);
        barrier();
        if (zk_lane() == 0)
            found[zk_wave()] = subgroupBallotBitCount(mask);
        barrier();
        uint at = count + subgroupBallotExclusiveBitCount(mask);
        for (uint i = 0; i < ZK_WAVES; i++) {
            at += i < zk_wave() ? found[i] : 0;
            count += found[i];
        }
        if (own) {
            slot_list(slot).v[1 + at] = r;
            zk_u32(a.index).v[r] = at;
        }
    }
    if (zk_tid() == 0)
        slot_list(slot).v[0] = count;
}
