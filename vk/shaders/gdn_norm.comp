#version 460
/* Gated DeltaNet, prompts: the gated norm. HEAD_LANES neighbours have HEADS heads. Grid x: rows, y: v-heads. */
#include "gdn_prompt.glsl"

const uint HEADS = 4;

void main()
{
    uint r = gl_WorkGroupID.x, lane = zk_lane() % HEAD_LANES;
    uint h0 = (gl_WorkGroupID.y * ZK_THREADS + zk_tid()) / HEAD_LANES * HEADS;
    if (r >= zk_step_rows(a.step, ROWS_STEP))
        return;
    zk_f32x4 w = zk_f32x4(a.norm), y = zk_f32x4(a.y), z = zk_f32x4(a.z);
    [[unroll]] for (uint i = 0; i < HEADS; i++) {
        uint h = min(h0 + i, a.n_v - 1), at = (r * a.n_v + h) * GDN_QUADS + lane;
        vec4 o[HEAD_QUADS], g[HEAD_QUADS];
        precise float sum = 0.0;
        [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++) {
            o[u] = y.v[at + u * HEAD_LANES];
            g[u] = gdn_silu4(z.v[at + u * HEAD_LANES]);
            sum = gdn_dot4(o[u], o[u], sum);
        }
        precise float mean = gdn_sum(sum, 1, HEAD_LANES) / float(GDN_DIM) + a.eps;
        float scale = inversesqrt(mean);
        if (h == h0 + i)
            [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++)
                y.v[at + u * HEAD_LANES] = o[u] * scale * w.v[lane + u * HEAD_LANES] * g[u];
    }
}
