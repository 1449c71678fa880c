#version 460
/* next[] to the step's slot of the ring, seq raised, and then `done` in host memory set to it. One work-group. */
#include "zk.glsl"
ZK_ARGS(kl_step_end)

layout(buffer_reference, scalar, buffer_reference_align = 4) volatile coherent buffer host_u32 { uint v[]; };

void main()
{
    uint now = zk_u32(a.seq).v[0] + 1;
    uint64_t host_next = a.host_next + uint64_t((now - 1) % KL_RING) * a.stride;
    for (uint i = zk_tid(); i < a.n; i += ZK_THREADS)
        host_u32(host_next).v[i] = zk_u32(a.next).v[i];
    memoryBarrierBuffer();
    barrier();
    if (zk_tid() == 0) {
        zk_u32(a.seq).v[0] = now;
        host_u32(a.done).v[0] = now;
    }
}
