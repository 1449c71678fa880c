#version 460
/* y[r, n] = act(x[r, n], a[r, n]). Grid x: rows, y: shares of a row. */
#include "zk.glsl"
#include "mathf.glsl"
ZK_ARGS(kl_act_mul)

void main()
{
    uint r = gl_WorkGroupID.x;
    if (r >= zk_step_rows(a.step, a.rows))
        return;
    zk_f32 x = zk_f32(a.x + uint64_t(r) * a.n * 4), up = zk_f32(a.a + uint64_t(r) * a.lda * 4);
    zk_f32 y = zk_f32(a.y + uint64_t(r) * a.n * 4);
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS)
        y.v[k] = k_act(a.act, x.v[k], up.v[k]);
}
