#version 460
/* y[r, n] = (resid + rms(x[r, n]) * w) * out_scale, rms by groups. Grid x: rows, y: groups of a row. */
#include "zk.glsl"
layout(constant_id = 2) const uint HELD = 16; /* elements of a row that a work-item keeps in registers */
ZK_ARGS(kl_norm)

void store(uint64_t at, uint k, float x, float scale, float by)
{
    precise float v = x * scale;
    if (a.w != 0)
        v *= zk_ro_f32(a.w).v[k];
    if (a.resid != 0)
        v = zk_f32(a.resid + at).v[k] + v;
    if (a.out_scale != 0)
        v *= by;
    zk_f32(a.y + at).v[k] = v;
}

void main()
{
    uint r = gl_WorkGroupID.x, n = a.group, tid = zk_tid();
    if (r >= zk_step_rows(a.step, a.rows))
        return;
    uint64_t at = (uint64_t(r) * a.n + gl_WorkGroupID.y * n) * 4;
    zk_f32 x = zk_f32(a.x + at);
    float held[HELD], sum = 0.0;
    [[unroll]] for (uint j = 0; j < HELD; j++)
        held[j] = tid + j * ZK_THREADS < n ? x.v[tid + j * ZK_THREADS] : 0.0;
    [[unroll]] for (uint j = 0; j < HELD; j++)
        sum = fma(held[j], held[j], sum);
    for (uint k = tid + HELD * ZK_THREADS; k < n; k += ZK_THREADS)
        sum = fma(x.v[k], x.v[k], sum);
    precise float mean = zk_div(zk_group_sum(sum), float(n)) + a.eps;
    float scale = zk_div(1.0, sqrt(mean)), by = a.out_scale != 0 ? zk_ro_f32(a.out_scale).v[0] : 1.0;
    [[unroll]] for (uint j = 0; j < HELD; j++)
        if (tid + j * ZK_THREADS < n)
            store(at, tid + j * ZK_THREADS, held[j], scale, by);
    for (uint k = tid + HELD * ZK_THREADS; k < n; k += ZK_THREADS)
        store(at, k, x.v[k], scale, by);
}
