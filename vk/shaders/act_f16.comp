#version 460
/* The inputs of products on cooperative matrices: rows of x, normed where norm is given, times a power of two that puts
 * their largest element between 2^12 and 2^14, as f16 [n_in / 32][xrows][32]: chunks of 32 along k, within four elements
 * in the order 0 2 1 3 (gemm_wtile.glsl). meta[row] undoes the power. Grid x: rows. */
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "zk.glsl"
ZK_ARGS(vk_act)

void main()
{
    uint r = gl_WorkGroupID.x, quads = a.n_in / 4;
    if (r >= zk_step_rows(a.step, a.rows) * a.div)
        return;
    uint64_t x = a.x + uint64_t(r) * a.ldx * 4;
    bool normed = a.norm != 0;
    float sum = 0.0, most = 0.0, by = 1.0;
    for (uint i = zk_tid(); i < quads; i += ZK_THREADS) {
        vec4 v = zk_ro_f32x4(x).v[i];
        sum = fma(v.x, v.x, fma(v.y, v.y, fma(v.z, v.z, fma(v.w, v.w, sum))));
        if (normed)
            v *= zk_ro_f32x4(a.norm).v[i];
        v = abs(v);
        most = max(most, max(max(v.x, v.y), max(v.z, v.w)));
    }
    most = zk_group_max(most);
    if (normed)
        by = 1.0 / sqrt(zk_group_sum(sum) / float(a.n_in) + a.eps);
    uint e = clamp(floatBitsToUint(most * by) >> 23, 15, 253); /* 254 + 13 - e is a float's exponent, too */
    float up = uintBitsToFloat((267 - e) << 23);
    if (zk_tid() == 0)
        zk_f32(a.meta).v[r] = uintBitsToFloat((e - 13) << 23);
    for (uint i = zk_tid(); i < quads; i += ZK_THREADS) {
        vec4 v = zk_ro_f32x4(x).v[i];
        if (normed)
            v = v * by * zk_ro_f32x4(a.norm).v[i];
        v *= up;
        uint64_t at = a.q + ((uint64_t(i / 8) * a.xrows + r) * 8 + i % 8) * 8;
        zk_u64(at).v[0] = packUint2x32(uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw))));
    }
}
