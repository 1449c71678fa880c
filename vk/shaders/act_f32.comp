#version 460
/* The inputs of prompts' float products: rows of n_in, normed. Grid x: positions. */
#include "zk.glsl"
ZK_ARGS(kl_act)
#include "gemm_dot_row.glsl"

void main()
{
    uint p = gl_WorkGroupID.x, row = row_of(p);
    if (row == ~0u)
        return;
    uint64_t x = a.x + uint64_t(row) * a.ldx * 4, y = a.out_ + uint64_t(p) * a.n_in * 4;
    float scale = row_scale(x);
    for (uint k = 4 * zk_tid(); k < a.n_in; k += 4 * ZK_THREADS) {
        vec4 v = row_normed4(x, k, scale);
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (k + i < a.n_in)
                zk_f32(y).v[k + i] = v[i];
    }
}
