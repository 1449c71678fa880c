#version 460
/* y[r, n] = (a + b) * out_scale. Grid x: rows, y: shares of a row. */
#include "zk.glsl"
ZK_ARGS(kl_add)

void main()
{
    uint r = gl_WorkGroupID.x;
    if (r >= zk_step_rows(a.step, a.rows))
        return;
    float by = a.out_scale != 0 ? zk_ro_f32(a.out_scale).v[0] : 1.0;
    uint64_t at = uint64_t(r) * a.n * 4;
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS) {
        precise float v = zk_f32(a.a + at).v[k] + zk_f32(a.b + at).v[k];
        precise float scaled = v * by;
        zk_f32(a.y + at).v[k] = a.out_scale != 0 ? scaled : v;
    }
}
