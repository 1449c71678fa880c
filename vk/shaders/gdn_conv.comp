#version 460
/* The convolution of a gated DeltaNet of any shape: a work-item owns a channel and takes the rows in order, so nobody
 * else touches its part of the rings. Grid x: channels. */
#include "zk.glsl"
#include "gdn.glsl"
ZK_ARGS(kl_gdn)

void main()
{
    uint n = gdn_channels(a.n_k, a.n_v, a.head_dim), ch = gl_WorkGroupID.x * ZK_THREADS + zk_tid();
    uint taps = a.conv_kernel, n_rows = zk_step_rows(a.step, ROWS_STEP);
    if (ch >= n)
        return;
    zk_ro_f32 w = zk_ro_f32(a.conv_w + uint64_t(ch) * taps * 4);
    for (uint r = 0; r < n_rows; r++) {
        uint pos = zk_row(a.step, r).pos;
        uint at = r * n + ch;
        zk_f32 ring = zk_f32(gdn_slot(a.conv, a.conv_slot_bytes, zk_row(a.step, r).slot) + uint64_t(ch) * 4);
        ring.v[pos % taps * n] = zk_f32(a.qkv).v[at];
        precise float s = 0.0;
        for (uint j = 0; j < taps; j++)
            if (pos + 1 + j >= taps) /* nothing before position 0 */
                s = fma(w.v[j], ring.v[(pos + 1 + j - taps) % taps * n], s);
        zk_f32(a.c).v[at] = zk_silu(s);
    }
}
