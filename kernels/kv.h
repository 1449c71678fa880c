/* kernels/kv.h
 * Where a value of the KV cache lies on a GPU, and its forms. K and V of a slot, each:
 *     f32, f16     [n_kv, n_ctx, head_dim]
 *     fp8          E4M3 [n_kv, n_ctx, head_dim]
 *     q8_0         codes int8 [n_kv, n_ctx, head_dim], then scales f16 [n_kv, n_ctx, head_dim / 32]
 *     q4_0, rot4   the same with 4 bits a code: of 8 dimensions byte i has dimension i below and i + 4 above
 * so that codes are read 4, 8 or 16 bytes at a time, aligned. The same bytes in all as KA_KV_BYTES.
 *
 *     struct kv_head k = kv_head(a.kc + slot * a.slot_bytes, kv, a.n_kv, a.n_ctx, head_dim, h);
 *     kd_u32x4 raw = kv_raw8(kv, k, pos, head_dim, d);        8 values from dimension d on, a multiple of 8, as stored
 *     raw = kv_open8(kv, k, raw);                             8 f16 (fp8: 256 times too small), or 8 signed bytes
 *     kv_widen8(kv, raw, x); scale = kv_scale8(kv, raw);      value i is x[i] * scale (1 for f16)
 *
 * Nothing before kv_open8 waits for what was asked for. Kernels that are made for a type take q4_0 for rot4: the levels,
 * which differ, are in kv_head. */
#ifndef ZINC_KERNELS_KV_H
#define ZINC_KERNELS_KV_H

#include <stdbool.h>

#include "kernels/hw/fresh.h"
#include "kernels/hw/tile.h"
#include "kernels/kdev.h"
#include "kernels/kvcode.h"

#define KV_IS_HALF(kv) ((kv) == KA_KV_F16 || (kv) == KA_KV_FP8) /* as it comes from kv_open8 */

struct kv_head {
    gpu_va codes, scales; /* of one head: position 0, dimension 0 */
    uint32_t kv;          /* enum ka_kv */
    uint32_t levels[4];   /* of 4-bit codes, int8 */
};

KD_FN struct kv_head kv_head(gpu_va slot, enum ka_kv kv, uint32_t n_kv, uint32_t n_ctx, uint32_t head_dim, uint32_t h)
{
    uint64_t per_head = (uint64_t)n_ctx * head_dim;
    struct kv_head k = { slot + h * KA_KV_CODES(kv, per_head), 0, kv, { 0 } };
    k.scales = slot + n_kv * KA_KV_CODES(kv, per_head) + h * (per_head / KA_KV_BLOCK) * 2;
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        k.levels[i] = kv4_levels(kv == KA_KV_ROT4, i);
    return k;
}

/* Two bytes of E4M3 as two halves, 256 times too small. */
KD_FN uint32_t kv_fp8_half2(uint32_t w)
{
    uint32_t c = (w & 0xff) | (w & 0xff00) << 8, h = (c & 0x007f007fu) << 7;
    return (c & 0x00800080u) << 8 | h | ((h + 0x00800080u) & 0x40004000u); /* NaN: all ones in the exponent */
}

/* Blocks: a word or two of codes, and as the third the scale's bits. Not for f32. FRESH: the work-group may have written
 * them before its last barrier. */
KD_FN kd_u32x4 kv_raw8_of(const bool FRESH, enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, uint32_t d)
{
    uint64_t at = (uint64_t)pos * head_dim + d;
    if (kv == KA_KV_F16) {
        KD_GLOBAL const kd_u32x4 *p = KD_PTR(const kd_u32x4, k.codes + at * 2);
        return FRESH ? kd_load_fresh(p) : kd_load_once(p);
    }
    if (KA_KV_IS_4BIT(kv)) {
        KD_GLOBAL const uint32_t *p = KD_PTR(const uint32_t, k.codes + at / 2);
        return (kd_u32x4){ FRESH ? kd_load_fresh4(p) : kd_load_once4(p), 0,
                           KD_PTR(const uint16_t, k.scales)[at / KA_KV_BLOCK], 0 };
    }
    KD_GLOBAL const kd_u32x2 *p = KD_PTR(const kd_u32x2, k.codes + at);
    kd_u32x2 c = FRESH ? kd_load_fresh8(p) : kd_load_once8(p);
    return (kd_u32x4){ c[0], c[1], kv == KA_KV_Q8_0 ? KD_PTR(const uint16_t, k.scales)[at / KA_KV_BLOCK] : 0u, 0 };
}
KD_FN kd_u32x4 kv_raw8(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, uint32_t d)
{
    return kv_raw8_of(false, kv, k, pos, head_dim, d);
}

KD_FN kd_u32x4 kv_open8(enum ka_kv kv, struct kv_head k, kd_u32x4 raw)
{
    uint32_t lo = 0, hi = 0;
    if (kv == KA_KV_FP8)
        return (kd_u32x4){ kv_fp8_half2(raw[0]), kv_fp8_half2(raw[0] >> 16), kv_fp8_half2(raw[1]),
                           kv_fp8_half2(raw[1] >> 16) };
    if (!KA_KV_IS_4BIT(kv))
        return raw;
    kd_lut16(k.levels, raw[0], &lo, &hi);
    return (kd_u32x4){ lo, hi, raw[2], 0 };
}

KD_FN void kv_widen8(enum ka_kv kv, kd_u32x4 raw, float x[8])
{
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (KV_IS_HALF(kv)) {
            x[i] = f16_to_f32((uint16_t)(raw[i / 2] >> 16 * (i % 2)));
        } else { /* the code plus 128 as the low bits of 2^23 */
            uint32_t u = (raw[i / 4] ^ 0x80808080u) >> 8 * (i % 4) & 255;
            x[i] = f32_from_bits(0x4b000000u | u) - 8388736.0f;
        }
    }
}

KD_FN float kv_scale8(enum ka_kv kv, kd_u32x4 raw)
{
    return kv == KA_KV_F16 ? 1.0f : kv == KA_KV_FP8 ? 256.0f : f16_to_f32((uint16_t)raw[2]);
}

/* Any type, 8 values, scaled. */
KD_FN void kv_load8(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, uint32_t d, float x[8])
{
    if (kv == KA_KV_F32) {
        KD_GLOBAL const kd_f32x4 *p = KD_PTR(const kd_f32x4, k.codes + ((uint64_t)pos * head_dim + d) * 4);
        kd_f32x4 lo = p[0], hi = p[1];
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            x[i] = lo[i];
            x[i + 4] = hi[i];
        }
        return;
    }
    kd_u32x4 raw = kv_open8(kv, k, kv_raw8(kv, k, pos, head_dim, d));
    kv_widen8(kv, raw, x);
    if (kv != KA_KV_F16) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            x[i] *= kv_scale8(kv, raw);
    }
}

/* One value, scaled. */
KD_FN float kv_load1(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, uint32_t d)
{
    uint64_t at = (uint64_t)pos * head_dim + d;
    if (kv == KA_KV_F32)
        return KD_PTR(const float, k.codes)[at];
    if (kv == KA_KV_F16)
        return f16_to_f32(KD_PTR(const uint16_t, k.codes)[at]);
    if (kv == KA_KV_FP8)
        return e4m3_to_f32(KD_PTR(const uint8_t, k.codes)[at]);
    float scale = f16_to_f32(KD_PTR(const uint16_t, k.scales)[at / KA_KV_BLOCK]);
    if (KA_KV_IS_4BIT(kv)) {
        uint32_t b = KD_PTR(const uint8_t, k.codes)[at / 8 * 4 + at % 4];
        return kv4_level(kv == KA_KV_ROT4, at % 8 < 4 ? b & 15 : b >> 4) * scale;
    }
    return (float)KD_PTR(const int8_t, k.codes)[at] * scale;
}

KD_FN uint32_t kv_warp_max(uint32_t v)
{
    for (uint32_t m = 16; m; m >>= 1)
        v = kd_max_u32(v, kd_shfl_xor_u32(v, m));
    return v;
}

/* Of a warp's lanes, which have a value each of the block that begins with value `at`. */
KD_FN void kv_store_q8(struct kv_head k, uint64_t at, float x)
{
    uint32_t top = kv_warp_max(f32_bits(x) & 0x7fffffff); /* ordered as the magnitudes, NaN above all */
    float amax = f32_from_bits(top);
    bool none = top >= 0x7f800000 || amax < 1e-30f;
    float r = x * (127.0f / amax) + 12582912.0f; /* to the nearest, by the low bits */
    KD_PTR(int8_t, k.codes)[at + kd_lane()] = none ? 0 : (int8_t)(f32_bits(r) - 0x4b400000);
    if (kd_lane() == 0)
        KD_PTR(uint16_t, k.scales)[at / KA_KV_BLOCK] =
            top >= 0x7f800000 ? 0x7e00 : none ? 0 : f16_from_f32(amax / 127.0f);
}

KD_FN void kv_store_4bit(const uint32_t rot, struct kv_head k, uint64_t at, float x)
{
    uint32_t key = kv_warp_max(kv4_key(x)), lane = kd_lane();
    uint32_t code = kv4_is_none(key) ? 0 : kv4_code(rot, x * (kv4_top(rot) / kv4_of_key(key)));
    uint32_t upper = kd_shfl_xor_u32(code, 4);
    if (!(lane & 4))
        KD_PTR(uint8_t, k.codes)[at / 2 + lane / 8 * 4 + lane % 4] = (uint8_t)(code | upper << 4);
    if (lane == 0)
        KD_PTR(uint16_t, k.scales)[at / KA_KV_BLOCK] = kv4_scale(rot, key);
}

/* A warp stores a head's row, x f32 [head_dim] in shared memory, as kargs.h and kvcode.h say; a block with an infinity
 * or a NaN gets a NaN for its scale. */
KD_FN void kv_store(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, KD_SHARED const float *x)
{
    uint64_t at = (uint64_t)pos * head_dim;
    uint32_t lane = kd_lane();
    if (KA_KV_IS_BLOCKS(kv)) {
        for (uint32_t d = 0; d < head_dim; d += KA_KV_BLOCK) {
            if (kv == KA_KV_Q8_0)
                kv_store_q8(k, at + d, x[d + lane]);
            else
                kv_store_4bit(kv == KA_KV_ROT4, k, at + d, x[d + lane]);
        }
        return;
    }
    for (uint32_t d = lane; d < head_dim; d += KD_WARP) {
        if (kv == KA_KV_F32)
            KD_PTR(float, k.codes)[at + d] = x[d];
        else if (kv == KA_KV_F16)
            KD_PTR(uint16_t, k.codes)[at + d] = f16_from_f32(x[d]);
        else
            KD_PTR(uint8_t, k.codes)[at + d] = (uint8_t)e4m3_from_f32(x[d]);
    }
}

/* A warp rotates a head of q or k in shared memory. */
KD_FN void kv_rotate(KD_SHARED float *x, uint32_t head_dim, uint32_t of_q)
{
    uint32_t run = kv_rot_run(head_dim);
    float by = kv_rot_scale(head_dim, of_q);
    for (uint32_t d = kd_lane(); d < head_dim; d += KD_WARP)
        x[d] *= kv_sign(d);
    for (uint32_t n = 1; n < run; n *= 2) {
        kd_warp_sync();
        for (uint32_t i = kd_lane(); i < head_dim / 2; i += KD_WARP) {
            uint32_t d = 2 * i - i % n;
            float lo = x[d], hi = x[d + n];
            x[d] = lo + hi;
            x[d + n] = lo - hi;
        }
    }
    kd_warp_sync();
    for (uint32_t d = kd_lane(); d < head_dim; d += KD_WARP)
        x[d] *= by;
    kd_warp_sync();
}

#endif
