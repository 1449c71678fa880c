/* kernels/kv.h
 * Where a value of the KV cache lies on a GPU, and its forms. K and V of a slot, each:
 *     f32, f16   [n_kv, n_ctx, head_dim]
 *     q8_0       codes int8 [n_kv, n_ctx, head_dim], then scales f16 [n_kv, n_ctx, head_dim / 32]
 * so that codes are read 8 or 16 bytes at a time, aligned. The same bytes in all as KA_KV_BYTES.
 *
 *     struct kv_head k = kv_head(a.kc + slot * a.slot_bytes, kv, a.n_kv, a.n_ctx, head_dim, h);
 *     kd_u32x4 raw = kv_raw8(kv, k, pos, head_dim, d);        8 values from dimension d on, a multiple of 8
 *     kv_widen8(kv, raw, x); scale = kv_scale8(kv, raw);      value i is x[i] * scale (1 unless q8_0) */
#ifndef ZINC_KERNELS_KV_H
#define ZINC_KERNELS_KV_H

#include <stdbool.h>

#include "kernels/kdev.h"

struct kv_head {
    gpu_va codes, scales; /* of one head: position 0, dimension 0 */
};

KD_FN struct kv_head kv_head(gpu_va slot, enum ka_kv kv, uint32_t n_kv, uint32_t n_ctx, uint32_t head_dim, uint32_t h)
{
    uint64_t per_head = (uint64_t)n_ctx * head_dim;
    struct kv_head k = { slot + h * per_head * (kv == KA_KV_F32 ? 4 : kv == KA_KV_F16 ? 2 : 1), 0 };
    if (kv == KA_KV_Q8_0)
        k.scales = slot + n_kv * per_head + h * (per_head / KA_KV_BLOCK) * 2;
    return k;
}

/* q8_0 comes as two words of codes and the scale's bits. Not for f32. */
KD_FN kd_u32x4 kv_raw8(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, uint32_t d)
{
    uint64_t at = (uint64_t)pos * head_dim + d;
    if (kv == KA_KV_F16)
        return kd_load_once(KD_PTR(const kd_u32x4, k.codes + at * 2));
    kd_u32x2 c = kd_load_once8(KD_PTR(const kd_u32x2, k.codes + at));
    return (kd_u32x4){ c[0], c[1], KD_PTR(const uint16_t, k.scales)[at / KA_KV_BLOCK], 0 };
}

KD_FN void kv_widen8(enum ka_kv kv, kd_u32x4 raw, float x[8])
{
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (kv == KA_KV_F16) {
            x[i] = f16_to_f32((uint16_t)(raw[i / 2] >> 16 * (i % 2)));
        } else { /* the code plus 128 as the low bits of 2^23 */
            uint32_t u = (raw[i / 4] ^ 0x80808080u) >> 8 * (i % 4) & 255;
            x[i] = f32_from_bits(0x4b000000u | u) - 8388736.0f;
        }
    }
}

KD_FN float kv_scale8(enum ka_kv kv, kd_u32x4 raw)
{
    return kv == KA_KV_Q8_0 ? f16_to_f32((uint16_t)raw[2]) : 1.0f;
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
    kd_u32x4 raw = kv_raw8(kv, k, pos, head_dim, d);
    kv_widen8(kv, raw, x);
    if (kv == KA_KV_Q8_0) {
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
    return (float)KD_PTR(const int8_t, k.codes)[at] * f16_to_f32(KD_PTR(const uint16_t, k.scales)[at / KA_KV_BLOCK]);
}

/* A warp stores a head's row, x f32 [head_dim] in shared memory. q8_0 as kargs.h says; a block with an infinity or a
 * NaN gets a NaN for its scale. */
KD_FN void kv_store(enum ka_kv kv, struct kv_head k, uint32_t pos, uint32_t head_dim, KD_SHARED const float *x)
{
    uint64_t at = (uint64_t)pos * head_dim;
    uint32_t lane = kd_lane();
    if (kv == KA_KV_F32) {
        for (uint32_t d = lane; d < head_dim; d += KD_WARP)
            KD_PTR(float, k.codes)[at + d] = x[d];
    } else if (kv == KA_KV_F16) {
        for (uint32_t d = lane; d < head_dim; d += KD_WARP)
            KD_PTR(uint16_t, k.codes)[at + d] = f16_from_f32(x[d]);
    } else {
        for (uint32_t d = 0; d < head_dim; d += KA_KV_BLOCK) {
            uint32_t top = f32_bits(x[d + lane]) & 0x7fffffff; /* ordered as the magnitudes, NaN above all */
            for (uint32_t m = 16; m; m >>= 1)
                top = kd_max_u32(top, kd_shfl_xor_u32(top, m));
            float amax = f32_from_bits(top);
            bool none = top >= 0x7f800000 || amax < 1e-30f;
            float r = x[d + lane] * (127.0f / amax) + 12582912.0f; /* to the nearest, by the low bits */
            KD_PTR(int8_t, k.codes)[at + d + lane] = none ? 0 : (int8_t)(f32_bits(r) - 0x4b400000);
            if (lane == 0)
                KD_PTR(uint16_t, k.scales)[(at + d) / KA_KV_BLOCK] =
                    top >= 0x7f800000 ? 0x7e00 : none ? 0 : f16_from_f32(amax / 127.0f);
        }
    }
}

#endif
