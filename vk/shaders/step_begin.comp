#version 460
/* The step block from the ring in host memory. One work-group. Host memory is read past the caches: the same block
 * held another step before. */
#include "zk.glsl"
ZK_ARGS(kl_step_begin)

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly volatile coherent buffer host_block
{
    uvec4 v[];
};
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer step_block { uvec4 v[]; };
const uint DEEP = 8; /* reads in flight of a work-item: the bus is slow to answer */

void main()
{
    uint seq = zk_u32(a.seq).v[0], n = a.next_off / 16;
    host_block from = host_block(a.ring + uint64_t(seq % KL_RING) * a.stride);
    for (uint i = zk_tid(); i < n; i += DEEP * ZK_THREADS) {
        uvec4 w[DEEP];
        [[unroll]] for (uint j = 0; j < DEEP; j++)
            w[j] = from.v[min(i + j * ZK_THREADS, n - 1)];
        [[unroll]] for (uint j = 0; j < DEEP; j++)
            if (i + j * ZK_THREADS < n)
                step_block(a.step).v[i + j * ZK_THREADS] = w[j];
    }
}
