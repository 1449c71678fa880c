#version 460
/* Reads memory and does nothing with it: the roof that decoding is measured against. Grid x: any. */
#include "zk.glsl"
ZK_ARGS(kl_roof)

const uint DEEP = 4;

void main()
{
    zk_ro4 p = zk_ro4(a.p);
    uint step = gl_NumWorkGroups.x * ZK_THREADS, at = gl_WorkGroupID.x * ZK_THREADS + zk_tid();
    uvec4 sum = uvec4(0);
    for (uint i = at; i + (DEEP - 1) * step < a.n16; i += DEEP * step) {
        uvec4 v[DEEP];
        [[unroll]] for (uint k = 0; k < DEEP; k++)
            v[k] = p.v[i + k * step];
        [[unroll]] for (uint k = 0; k < DEEP; k++)
            sum ^= v[k];
    }
    if ((sum.x & sum.y & sum.z & sum.w) == 0x5a5a5a5au) /* never, but the compiler cannot know */
        zk_u32(a.out_).v[0] = sum.x;
}
