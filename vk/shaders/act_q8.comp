#version 460
/* The inputs of prompts' int8 products: rows normed and quantised in blocks of 32, as vk/vkargs.h says. Four
 * neighbouring lanes own a block, eight elements each. Grid x: positions. */
#include "zk.glsl"
ZK_ARGS(vk_act)
#include "gemm_dot_row.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer q8_pairs { uvec2 v[]; };

uint pack4(vec4 v)
{
    precise vec4 r = v + 12582912.0; /* rounds to the nearest even; the code is the low byte */
    uvec4 b = floatBitsToUint(r) & 255;
    return b.x | b.y << 8 | b.z << 16 | b.w << 24;
}

/* The sum of four signed bytes. */
int sum4(uint w) { return zk_dot4(w, 0x01010101u, 0); }

void main()
{
    uint p = gl_WorkGroupID.x, row = row_of(p), blocks = a.n_in / 32;
    if (row == ~0u)
        return;
    uint64_t x = a.x + uint64_t(row) * a.ldx * 4;
    uint64_t codes = a.q + uint64_t(p) * a.n_in, meta = a.meta + uint64_t(p) * blocks * 8;
    float scale = row_scale(x);
    for (uint first = 0; first < 4 * blocks; first += ZK_THREADS) {
        uint chunk = first + zk_tid();
        bool in_row = chunk < 4 * blocks;
        vec4 u = vec4(0), v = vec4(0);
        if (in_row) {
            u = row_normed4(x, 8 * chunk, scale);
            v = row_normed4(x, 8 * chunk + 4, scale);
        }
        uvec4 bits = max(floatBitsToUint(u) & 0x7fffffff, floatBitsToUint(v) & 0x7fffffff);
        uint top = max(max(bits.x, bits.y), max(bits.z, bits.w));
        top = max(top, subgroupShuffleXor(top, 1));
        top = max(top, subgroupShuffleXor(top, 2));
        bool fault = top >= 0x7f800000u; /* not a number: nor is what comes of it */
        bool none = fault || uintBitsToFloat(top) < 1e-30;
        float amax = none ? 1.0 : uintBitsToFloat(top), by = zk_div(127.0, amax);
        precise vec4 ud = u * by, vd = v * by;
        uint w0 = none ? 0 : pack4(ud), w1 = none ? 0 : pack4(vd);
        int sum = sum4(w0) + sum4(w1);
        sum += subgroupShuffleXor(sum, 1);
        int other = subgroupShuffleXor(sum, 2);
        if (in_row)
            q8_pairs(codes).v[chunk] = uvec2(w0, w1);
        if (in_row && chunk % 4 == 0) {
            float d = fault ? uintBitsToFloat(0x7fc00000u) : none ? 0.0 : zk_div(amax, 127.0);
            q8_pairs(meta).v[chunk / 4] = uvec2(floatBitsToUint(d), uint(sum) & 0xffff | uint(other) << 16);
        }
    }
}
