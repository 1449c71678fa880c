#version 460
/* y[r, n] = act(max(x[r, n] - from, 0), a[r, n]), from = mean + cut * deviation of the row. Grid x: rows. */
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
    precise float sum = 0.0, squares = 0.0;
    for (uint k = zk_tid(); k < a.n; k += ZK_THREADS)
        sum += x.v[k];
    float mean = zk_div(zk_group_sum(sum), float(a.n));
    for (uint k = zk_tid(); k < a.n; k += ZK_THREADS) {
        precise float d = x.v[k] - mean;
        squares = fma(d, d, squares);
    }
    float from = fma(a.cut, sqrt(zk_div(zk_group_sum(squares), float(a.n))), mean);
    for (uint k = zk_tid(); k < a.n; k += ZK_THREADS) {
        precise float above = x.v[k] - from;
        y.v[k] = k_act(a.act, max(above, 0.0), up.v[k]);
    }
}
