/* vk/shaders/attn_kv.glsl
 * Where a value of the KV cache lies, and its forms: kernels/kv.h in the GLSL dialect. K and V of a slot, each:
 *     f32, f16     [n_kv, n_ctx, head_dim]
 *     fp8          E4M3 [n_kv, n_ctx, head_dim]
 *     q8_0         codes int8 [n_kv, n_ctx, head_dim], then scales f16 [n_kv, n_ctx, head_dim / 32]
 *     q4_0, rot4   the same with 4 bits a code: of 8 dimensions byte i has dimension i below and i + 4 above */

bool kv_4bit(uint kv) { return kv == KA_KV_Q4_0 || kv == KA_KV_ROT4; }
bool kv_blocks(uint kv) { return kv == KA_KV_Q8_0 || kv_4bit(kv); } /* with scales */
uint64_t kv_codes(uint kv, uint64_t n)
{
    return kv == KA_KV_F32 ? n * 4 : kv == KA_KV_F16 ? n * 2 : kv_4bit(kv) ? n / 2 : n;
}

struct kv_head {
    uint64_t codes, scales; /* of one head: position 0, dimension 0 */
};

kv_head kv_head_at(uint64_t slot, uint kv, uint n_kv, uint n_ctx, uint head_dim, uint h)
{
    uint64_t per_head = uint64_t(n_ctx) * head_dim;
    uint64_t scales = slot + n_kv * kv_codes(kv, per_head) + h * (per_head / KA_KV_BLOCK) * 2;
    return kv_head(slot + h * kv_codes(kv, per_head), scales);
}

/* Eight values from dimension d on, a multiple of 8, as they are stored. Blocks: a word or two of codes, the scale's bits.
 * f32: the first four; kv_raw8_high has the others. */
uvec4 kv_raw8(uint kv, kv_head k, uint pos, uint head_dim, uint d)
{
    uint64_t at = uint64_t(pos) * head_dim + d;
    if (kv == KA_KV_F32)
        return zk_ro4(k.codes + at * 4).v[0];
    if (kv == KA_KV_F16)
        return zk_ro4(k.codes + at * 2).v[0];
    if (kv == KA_KV_FP8)
        return uvec4(zk_ro2(k.codes + at).v[0], 0, 0);
    if (kv_4bit(kv))
        return uvec4(zk_ro(k.codes + at / 2).v[0], 0, uint(zk_ro_u16(k.scales + at / KA_KV_BLOCK * 2).v[0]), 0);
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

/* kv4_levels of kernels/kvcode.h; the levels of the low nibbles of four bytes. */
uint kv4_levels(uint kv, uint i)
{
    uvec4 t = kv == KA_KV_ROT4 ? uvec4(0xc9baa791u, 0xfdf1e5d8u, 0x30231609u, 0x7f64503fu)
                               : uvec4(0xfbfaf9f8u, 0xfffefdfcu, 0x03020100u, 0x07060504u);
    return i < 2 ? i == 0 ? t.x : t.y : i == 2 ? t.z : t.w;
}
float kv4_level(uint kv, uint code)
{
    if (kv == KA_KV_Q4_0)
        return float(code) - 8.0;
    return float(bitfieldExtract(int(kv4_levels(kv, code >> 2)), int(code & 3) * 8, 8));
}
vec4 kv_levels4(uint kv, uint w)
{
    return vec4(kv4_level(kv, w & 15), kv4_level(kv, w >> 8 & 15), kv4_level(kv, w >> 16 & 15), kv4_level(kv, w >> 24 & 15));
}

/* e4m3_to_f32 of kernels/fp.h, of four bytes: the bits in their place, and 2^-6 for the one that small numbers lack. */
vec4 kv_fp8x4(uint w)
{
    uvec4 c = uvec4(w, w >> 8, w >> 16, w >> 24) & 127, sign = uvec4(w << 24, w << 16, w << 8, w) & 0x80000000u;
    precise vec4 small = uintBitsToFloat((c << 20) + 0x3c800000u);
    small = small - 0.015625;
    uvec4 b = mix((c << 20) + 0x3c000000u, floatBitsToUint(small), lessThan(c, uvec4(8)));
    return uintBitsToFloat(mix(b, uvec4(0x7fc00000u), equal(c, uvec4(127))) | sign);
}

/* The first and the second four of raw8's values; times kv_scale8 in blocks. */
vec4 kv_low4(uint kv, uvec4 raw)
{
    if (kv == KA_KV_F32)
        return uintBitsToFloat(raw);
    if (kv == KA_KV_F16)
        return vec4(unpackHalf2x16(raw.x), unpackHalf2x16(raw.y));
    if (kv == KA_KV_FP8)
        return kv_fp8x4(raw.x);
    if (kv_4bit(kv))
        return kv_levels4(kv, raw.x);
    return kv_codes4(raw.x);
}
vec4 kv_high4(uint kv, uvec4 raw, uvec4 high)
{
    if (kv == KA_KV_F32)
        return uintBitsToFloat(high);
    if (kv == KA_KV_F16)
        return vec4(unpackHalf2x16(raw.z), unpackHalf2x16(raw.w));
    if (kv == KA_KV_FP8)
        return kv_fp8x4(raw.y);
    if (kv_4bit(kv))
        return kv_levels4(kv, raw.x >> 4);
    return kv_codes4(raw.y);
}
float kv_scale8(uint kv, uvec4 raw) { return kv_blocks(kv) ? zk_f16(raw.z) : 1.0; }

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
