/* vk/shaders/attn_kv.glsl
 * Where a value of the KV cache lies, and its forms: kernels/kv.h in the GLSL dialect. K and V of a slot, each:
 *     f32, f16   [n_kv, n_ctx, head_dim]
 *     q8_0       codes int8 [n_kv, n_ctx, head_dim], then scales f16 [n_kv, n_ctx, head_dim / 32] */

struct kv_head {
    uint64_t codes, scales; /* of one head: position 0, dimension 0 */
};

kv_head kv_head_at(uint64_t slot, uint kv, uint n_kv, uint n_ctx, uint head_dim, uint h)
{
    uint64_t per_head = uint64_t(n_ctx) * head_dim;
    uint64_t scales = slot + n_kv * per_head + h * (per_head / KA_KV_BLOCK) * 2;
    return kv_head(slot + h * per_head * (kv == KA_KV_F32 ? 4 : kv == KA_KV_F16 ? 2 : 1), scales);
}

/* Eight values from dimension d on, a multiple of 8, as they are stored. q8_0: two words of codes, the scale's bits.
 * f32: the first four; kv_raw8_high has the others. */
uvec4 kv_raw8(uint kv, kv_head k, uint pos, uint head_dim, uint d)
{
    uint64_t at = uint64_t(pos) * head_dim + d;
    if (kv == KA_KV_F32)
        return zk_ro4(k.codes + at * 4).v[0];
    if (kv == KA_KV_F16)
        return zk_ro4(k.codes + at * 2).v[0];
    return uvec4(zk_ro2(k.codes + at).v[0], uint(zk_ro_u16(k.scales + at / KA_KV_BLOCK * 2).v[0]), 0);
}
uvec4 kv_raw8_high(uint kv, kv_head k, uint pos, uint head_dim, uint d)
{
    return kv == KA_KV_F32 ? zk_ro4(k.codes + (uint64_t(pos) * head_dim + d) * 4 + 16).v[0] : uvec4(0);
}

/* Each code plus 128 as the low bits of 2^23. */
vec4 kv_codes4(uint w)
{
    w ^= 0x80808080u;
    uvec4 u = uvec4(w & 255, w >> 8 & 255, w >> 16 & 255, w >> 24) | 0x4b000000u;
    return uintBitsToFloat(u) - 8388736.0;
}

/* The first and the second four of raw8's values; times kv_scale8 in q8_0. */
vec4 kv_low4(uint kv, uvec4 raw)
{
    if (kv == KA_KV_F32)
        return uintBitsToFloat(raw);
    if (kv == KA_KV_F16)
        return vec4(unpackHalf2x16(raw.x), unpackHalf2x16(raw.y));
    return kv_codes4(raw.x);
}
vec4 kv_high4(uint kv, uvec4 raw, uvec4 high)
{
    if (kv == KA_KV_F32)
        return uintBitsToFloat(high);
    if (kv == KA_KV_F16)
        return vec4(unpackHalf2x16(raw.z), unpackHalf2x16(raw.w));
    return kv_codes4(raw.y);
}
float kv_scale8(uint kv, uvec4 raw) { return kv == KA_KV_Q8_0 ? zk_f16(raw.z) : 1.0; }

/* To the nearest half, ties to even, whatever the driver's packHalf2x16 does. A NaN becomes a quiet one. */
uint kv_to_f16(float x)
{
    uint u = floatBitsToUint(x), sign = u >> 16 & 0x8000, b = u & 0x7fffffff;
    precise float tiny = uintBitsToFloat(b) + 0.5; /* rounds at 2^-24, the last place of small halves */
    if (b > 0x7f800000)
        return sign | 0x7e00;
    if (b >= 0x477ff000)
        return sign | 0x7c00;
    if (b < 0x38800000)
        return sign | floatBitsToUint(tiny) - 0x3f000000;
    return sign | b - 0x38000000 + 0xfff + (b >> 13 & 1) >> 13;
}
uint kv_to_f16x2(vec2 x) { return kv_to_f16(x.x) | kv_to_f16(x.y) << 16; }
