#version 460
/* y[r, n] = dequantised row rows[r].token of w [n, n_vocab], times scale. Grid x: rows, y: shares of a row. */
#include "zk.glsl"
#include "dequant.glsl"
layout(constant_id = 2) const uint TYPE = 0;
ZK_ARGS(kl_embed)

void main()
{
    uint r = gl_WorkGroupID.x;
    if (r >= zk_step_rows(a.step, ROWS_STEP))
        return;
    int token = zk_row(a.step, r).token;
    uint id = uint(token >= 0 ? token : zk_i32(a.step + a.next_off).v[-1 - token]);
    id = min(id, a.n_vocab - 1); /* a choice over more logits than there are tokens */
    uint64_t n = uint64_t(a.n_vocab) * a.n, at = uint64_t(id) * a.n;
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS) {
        precise float y = dq_at(TYPE, a.w, n, at + k) * a.scale;
        zk_f32(a.y + uint64_t(r) * a.n * 4).v[k] = y;
    }
}
