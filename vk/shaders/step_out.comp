#version 460
/* A step block of the output rows: n_rows = n_out, kv_len as it is, rows[i] = rows[out_row[i]]. One work-group. */
#include "zk.glsl"
ZK_ARGS(kl_step_out)

const uint HEAD = 16, ROW = 4; /* words of ka_step and of ka_row */

void main()
{
    zk_u32 s = zk_u32(a.step), y = zk_u32(a.y);
    uint n = s.v[1];
    for (uint i = zk_tid(); i < HEAD; i += ZK_THREADS)
        y.v[i] = i < 2 ? n : i == 2 ? s.v[2] : 0;
    for (uint i = zk_tid(); i < n * ROW; i += ZK_THREADS)
        y.v[HEAD + i] = s.v[HEAD + zk_u32(a.out_row).v[i / ROW] * ROW + i % ROW];
}
