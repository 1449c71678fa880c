#version 460
/* ROPE_KV. A subgroup takes a head: q heads are normed and rotated in place, k heads also stored, v heads stored.
 * Grid x: rows, y: shares of a row's heads. */
#include "zk.glsl"
#include "attn_kv.glsl"
ZK_ARGS(kl_rope_kv)
layout(constant_id = 2) const uint HD = 128;

shared float sh_x[ZK_WAVES * HD];
uint base() { return zk_wave() * HD; }

void wave_sync()
{
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

/* x into shared memory, times the RMS norm's factor and w where those are given. Every lane sees all of it after. */
void load(uint64_t x, uint64_t w, bool norm)
{
    float sum = 0.0;
    [[unroll]] for (uint d0 = 0; d0 < HD; d0 += ZK_WAVE) {
        uint d = d0 + zk_lane();
        if (d < HD) {
            float v = zk_f32(x).v[d];
            sum = fma(v, v, sum);
            sh_x[base() + d] = v;
        }
    }
    if (norm) {
        float by = 1.0 / sqrt(zk_wave_sum(sum) / float(HD) + a.eps);
        for (uint d = zk_lane(); d < HD; d += ZK_WAVE)
            sh_x[base() + d] = w != 0 ? sh_x[base() + d] * by * zk_ro_f32(w).v[d] : sh_x[base() + d] * by;
    }
    wave_sync();
}

/* k_sincos of kernels/sincos.h: sine, cosine. */
vec2 sincos(float x)
{
    precise float n = fma(x, 0.63661977, 12582912.0);
    n = n - 12582912.0; /* to the nearest */
    precise float r = fma(n, -1.57079637, x); /* pi/2 in three parts: 0x1.921fb6p+0 */
    r = fma(n, 4.37113883e-8, r);             /* 0x1.777a5cp-25 */
    r = fma(n, 1.71512451e-15, r);            /* 0x1.ee59dap-50 */
    precise float q = r * r;
    precise float s = fma(q, -1.9515295891e-4, 8.3321608736e-3);
    s = fma(s, q, -1.6666654611e-1);
    precise float qs = s * q;
    s = fma(qs, r, r);
    precise float c = fma(q, 2.443315711809948e-5, -1.388731625493765e-3);
    c = fma(c, q, 4.166664568298827e-2);
    c = fma(c, q, -0.5);
    c = fma(c, q, 1.0);
    int quarter = int(n) & 3;
    vec2 y = (quarter & 1) != 0 ? vec2(c, s) : vec2(s, c);
    return vec2((quarter & 2) != 0 ? -y.x : y.x, quarter == 1 || quarter == 2 ? -y.y : y.y);
}

void rotate(float pos)
{
    uint half_rot = a.n_rot / 2;
    for (uint i = zk_lane(); i < half_rot; i += ZK_WAVE) {
        vec2 t = sincos(pos * zk_ro_f32(a.inv_freq).v[i]) * a.mscale;
        uint i0 = base() + (a.rope == KA_ROPE_NORM ? 2 * i : i);
        uint i1 = base() + (a.rope == KA_ROPE_NORM ? 2 * i + 1 : i + half_rot);
        float x0 = sh_x[i0], x1 = sh_x[i1];
        sh_x[i0] = x0 * t.y - x1 * t.x;
        sh_x[i1] = x0 * t.x + x1 * t.y;
    }
    wave_sync();
}

/* kv_rotate of kernels/kv.h: a head of q or k. */
void spread(bool of_q)
{
    const uint run = HD & (~HD + 1);
    uint e = findMSB(run);
    float by = uintBitsToFloat(127 - (of_q ? e - e / 2 : e / 2) << 23);
    for (uint d = zk_lane(); d < HD; d += ZK_WAVE) {
        uint h = (d + 1) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        sh_x[base() + d] *= h >> 31 != 0 ? -1.0 : 1.0;
    }
    wave_sync();
    for (uint n = 1; n < run; n *= 2) {
        for (uint i = zk_lane(); i < HD / 2; i += ZK_WAVE) {
            uint d = base() + 2 * i - i % n;
            precise float lo = sh_x[d], hi = sh_x[d + n], sum = lo + hi, rest = lo - hi;
            sh_x[d] = sum;
            sh_x[d + n] = rest;
        }
        wave_sync();
    }
    for (uint d = zk_lane(); d < HD; d += ZK_WAVE)
        sh_x[base() + d] *= by;
    wave_sync();
}

/* e4m3_from_f32 of kernels/fp.h. */
uint to_fp8(float x)
{
    uint u = floatBitsToUint(x), sign = u >> 24 & 128, b = u & 0x7fffffff;
    precise float tiny = uintBitsToFloat(b) + 16384.0;
    if (b >= 0x7f800000)
        return sign | 127;
    if (b >= 0x43e00000)
        return sign | 126;
    if (b < 0x3c800000)
        return sign | floatBitsToUint(tiny) - 0x46800000;
    return sign | (b + 0x7ffff + (b >> 20 & 1) >> 20) - 0x3c0;
}

/* x times top / m to its code, as kv4_code of kernels/kvcode.h. */
uint to_4bit(float y)
{
    uint n = 0;
    [[unroll]] for (uint i = 0; i < 15; i++)
        n += y > (kv4_level(a.kv_type, i) + kv4_level(a.kv_type, i + 1)) * 0.5 ? 1 : 0;
    return n;
}

/* Lanes that share a block of q8_0, and how many of its values each has. */
const uint QL = ZK_WAVE < KA_KV_BLOCK ? ZK_WAVE : KA_KV_BLOCK, QV = KA_KV_BLOCK / QL;

/* As kargs.h says; a block with an infinity or a NaN gets a NaN for its scale. */
void store_q8(kv_head k, uint64_t at)
{
    [[unroll]] for (uint d0 = 0; d0 < HD; d0 += ZK_WAVE / QL * KA_KV_BLOCK) {
        uint block = d0 / KA_KV_BLOCK + zk_lane() / QL;
        bool is = block < HD / KA_KV_BLOCK;
        float x[QV];
        uint top = 0; /* ordered as the magnitudes, NaN above all */
        [[unroll]] for (uint i = 0; i < QV; i++) {
            x[i] = sh_x[base() + (is ? block * KA_KV_BLOCK : 0) + zk_lane() % QL + i * QL];
            top = max(top, floatBitsToUint(x[i]) & 0x7fffffff);
        }
        for (uint m = QL / 2; m > 0; m /= 2)
            top = max(top, subgroupShuffleXor(top, m));
        float amax = uintBitsToFloat(top);
        bool odd = top >= 0x7f800000, none = odd || amax < 1e-30;
        float by = zk_div(127.0, none ? 1.0 : amax);
        [[unroll]] for (uint i = 0; i < QV; i++) {
            precise float r = x[i] * by;
            r = r + 12582912.0; /* to the nearest, by the low bits */
            if (is)
                zk_u8(k.codes + at).v[block * KA_KV_BLOCK + zk_lane() % QL + i * QL] =
                    uint8_t(none ? 0 : floatBitsToUint(r) - 0x4b400000);
        }
        uint d = odd ? 0x7e00 : none ? 0 : kv_to_f16(zk_div(amax, 127.0));
        if (is && zk_lane() % QL == 0)
            zk_u16(k.scales + at / KA_KV_BLOCK * 2).v[block] = uint16_t(d);
    }
}

/* A lane has a byte, which is two dimensions of a block; each block has 16 lanes. Its largest key is that of m. */
uint key_of(float x) { return floatBitsToUint(x) << 1 | (floatBitsToUint(x) >> 31 ^ 1); }
void store_4bit(kv_head k, uint64_t at)
{
    const uint L = ZK_WAVE < 16 ? ZK_WAVE : 16, N = 16 / L; /* lanes of a block, bytes of a lane */
    float top = a.kv_type == KA_KV_ROT4 ? 127.0 : -8.0;
    [[unroll]] for (uint d0 = 0; d0 < HD; d0 += ZK_WAVE / L * KA_KV_BLOCK) {
        uint block = d0 / KA_KV_BLOCK + zk_lane() / L, key = 0;
        bool is = block < HD / KA_KV_BLOCK;
        float lo[N], hi[N];
        [[unroll]] for (uint i = 0; i < N; i++) {
            uint byte = zk_lane() % L + i * L, d = base() + (is ? block * KA_KV_BLOCK : 0) + byte / 4 * 8 + byte % 4;
            lo[i] = sh_x[d];
            hi[i] = sh_x[d + 4];
            key = max(key, max(key_of(lo[i]), key_of(hi[i])));
        }
        for (uint m = L / 2; m > 0; m /= 2)
            key = max(key, subgroupShuffleXor(key, m));
        float most = uintBitsToFloat(key >> 1 | ((key & 1) != 0 ? 0 : 0x80000000u));
        bool odd = key >> 1 >= 0x7f800000, none = odd || abs(most) < 1e-30;
        float by = zk_div(top, none ? 1.0 : most);
        [[unroll]] for (uint i = 0; i < N; i++) {
            precise float y = lo[i] * by, z = hi[i] * by;
            if (is)
                zk_u8(k.codes + at / 2).v[block * 16 + zk_lane() % L + i * L] =
                    uint8_t(none ? 0 : to_4bit(y) | to_4bit(z) << 4);
        }
        uint scale = odd ? 0x7e00 : none ? 0 : kv_to_f16(zk_div(most, top));
        if (is && zk_lane() % L == 0)
            zk_u16(k.scales + at / KA_KV_BLOCK * 2).v[block] = uint16_t(scale);
    }
}

void store(uint64_t slot, uint h, uint pos)
{
    kv_head k = kv_head_at(slot, a.kv_type, a.n_kv, a.n_ctx, HD, h);
    uint64_t at = uint64_t(pos) * HD;
    if (a.kv_type == KA_KV_F32) {
        for (uint d = zk_lane(); d < HD; d += ZK_WAVE)
            zk_f32(k.codes + at * 4).v[d] = sh_x[base() + d];
    } else if (a.kv_type == KA_KV_F16) {
        for (uint d = 2 * zk_lane(); d < HD; d += 2 * ZK_WAVE)
            zk_u32(k.codes + at * 2).v[d / 2] = kv_to_f16x2(vec2(sh_x[base() + d], sh_x[base() + d + 1]));
    } else if (a.kv_type == KA_KV_FP8) {
        for (uint d = zk_lane(); d < HD; d += ZK_WAVE)
            zk_u8(k.codes + at).v[d] = uint8_t(to_fp8(sh_x[base() + d]));
    } else if (kv_4bit(a.kv_type)) {
        store_4bit(k, at);
    } else {
        store_q8(k, at);
    }
}

void main()
{
    uint r = gl_WorkGroupID.x, heads = a.n_head + (a.k != 0 ? 2 * a.n_kv : 0);
    if (r >= zk_step_rows(a.step, ROWS_STEP))
        return;
    ka_row row = zk_row(a.step, r);
    uint64_t slot = row.slot * a.slot_bytes;
    for (uint i = gl_WorkGroupID.y * ZK_WAVES + zk_wave(); i < heads; i += gl_NumWorkGroups.y * ZK_WAVES) {
        if (i < a.n_head) {
            uint64_t q = a.q + 4 * (uint64_t(r) * a.ldq + uint64_t(i) * a.q_hs);
            load(q, a.q_norm, a.q_norm != 0);
            rotate(float(row.pos));
            if (a.kv_type == KA_KV_ROT4)
                spread(true);
            precise float by = a.q_scale != 0 ? zk_ro_f32(a.q_scale).v[row.pos / a.q_every] : 1.0;
            for (uint d = zk_lane(); d < HD; d += ZK_WAVE)
                zk_f32(q).v[d] = sh_x[base() + d] * by;
        } else if (i < a.n_head + a.n_kv) {
            uint h = i - a.n_head;
            load(a.k + 4 * (uint64_t(r) * a.ldk + h * HD), a.k_norm, a.k_norm != 0);
            rotate(float(row.pos));
            if (a.kv_type == KA_KV_ROT4)
                spread(false);
            store(a.kc + slot, h, row.pos);
        } else {
            uint h = i - a.n_head - a.n_kv;
            load(a.v + 4 * (uint64_t(r) * a.ldv + h * HD), 0, a.v_norm != 0);
            store(a.vc + slot, h, row.pos);
        }
        wave_sync(); /* this head is out of shared memory */
    }
}
