#version 460
/* Prompts: MOE_DOWN's weighted sum over a row's results. Grid x: rows. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_moe_mix)

void main()
{
    uint row = gl_WorkGroupID.x;
    if (row >= zk_step_rows(a.step, ROWS_STEP))
        return;
    uint64_t at = uint64_t(row) * a.n_out * 4, o = a.o + at * a.k;
    uint pair = row * a.k;
    for (uint i = zk_tid(); i < a.n_out; i += ZK_THREADS) {
        precise float sum = 0.0;
        for (uint j = 0; j < a.k; j++) {
            precise float v = zk_ro_f32(o + uint64_t(j) * a.n_out * 4).v[i];
            float w = zk_ro_f32(a.weights).v[pair + j];
            if (a.b != 0)
                v += zk_ro_f32(a.b + uint64_t(moe_expert(a.ids, pair + j, a.n_expert)) * a.n_out * 4).v[i];
            sum = j == 0 ? w * v : fma(w, v, sum);
        }
        if (a.resid != 0)
            sum += zk_f32(a.resid + at).v[i];
        zk_f32(a.y + at).v[i] = sum;
    }
}
