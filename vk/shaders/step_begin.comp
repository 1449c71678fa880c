#version 460
/* The step block from the ring in host memory. One work-group. Host memory is read past the caches: the same block held
 * another step before. */
#include "zk.glsl"
ZK_ARGS(kl_step_begin)

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly volatile coherent buffer host_u32 { uint v[]; };
const uint DEEP = 8; /* reads in flight of a work-item */

void main()
{
    uint seq = zk_u32(a.seq).v[0], n = a.next_off / 4;
    host_u32 from = host_u32(a.ring + uint64_t(seq % KL_RING) * a.stride);
    zk_u32 to = zk_u32(a.step);
    for (uint i = zk_tid(); i < n; i += DEEP * ZK_THREADS) {
        uint w[DEEP];
        [[unroll]] for (uint j = 0; j < DEEP; j++)
            w[j] = from.v[min(i + j * ZK_THREADS, n - 1)];
        [[unroll]] for (uint j = 0; j < DEEP; j++)
            if (i + j * ZK_THREADS < n)
                to.v[i + j * ZK_THREADS] = w[j];
    }
}
