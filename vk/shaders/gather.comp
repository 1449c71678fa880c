#version 460
/* y[i, n] = x[out_row[i], n]. Grid x: output rows, y: shares of a row. */
#include "zk.glsl"
ZK_ARGS(kl_gather)

void main()
{
    uint i = gl_WorkGroupID.x;
    if (i >= zk_step_rows(a.step, ROWS_OUT))
        return;
    zk_f32 x = zk_f32(a.x + uint64_t(zk_u32(a.out_row).v[i]) * a.n * 4);
    zk_f32 y = zk_f32(a.y + uint64_t(i) * a.n * 4);
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS)
        y.v[k] = x.v[k];
}
