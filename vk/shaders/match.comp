#version 460
/* y[r, n] = (resid + x[r, n] * rms(like[r]) / rms(x[r, n])) * scale, rms by groups. Grid x: rows, y: groups of a row. */
#include "zk.glsl"
const float KA_MATCH_LEAST = 0.0031622776; /* as kernels/kargs.h */
ZK_ARGS(kl_match)

void main()
{
    uint r = gl_WorkGroupID.x, n = a.group;
    if (r >= zk_step_rows(a.step, a.rows))
        return;
    uint64_t at = (uint64_t(r) * a.n + gl_WorkGroupID.y * n) * 4;
    zk_f32 x = zk_f32(a.x + at), like = zk_f32(a.like + uint64_t(r) * n * 4), y = zk_f32(a.y + at);
    float own = 0.0, other = 0.0;
    for (uint k = zk_tid(); k < n; k += ZK_THREADS) {
        own = fma(x.v[k], x.v[k], own);
        other = fma(like.v[k], like.v[k], other);
    }
    own = sqrt(zk_div(zk_group_sum(own), float(n)));
    other = sqrt(zk_div(zk_group_sum(other), float(n)));
    float by = zk_div(other, max(own, KA_MATCH_LEAST));
    for (uint k = zk_tid(); k < n; k += ZK_THREADS) {
        precise float v = x.v[k] * by;
        if (a.resid != 0)
            v = zk_f32(a.resid + at).v[k] + v;
        v *= a.scale;
        y.v[k] = v;
    }
}
