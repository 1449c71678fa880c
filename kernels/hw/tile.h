/* kernels/hw/tile.h
 * Dialect names for matrix products: bytes to floats, pairs of bf16, and one matrix instruction of a warp. Inline
 * assembly and builtins live here; kernels that include it read alike on every target.
 *
 *   float kd_byte7_f32(codes, i)            128 + byte i of codes, which is below 128: one byte permutation
 *   float kd_byte8_f32(codes, i)            32768 + byte i of codes
 *   void kd_lut16(table, w, &lo, &hi)       table: 16 bytes in four words; bytes of the low, of the high nibbles of w
 *   uint32_t kd_bf16x2(lo, hi)              two floats rounded to bf16, lo in the lower half
 *   float kd_rcp(x)                         1 / x, relative error below 1e-6
 *
 * A 16 x 16 tile product, D[m, n] += sum over 16 k of A[m, k] B[n, k], on tiles in shared memory whose rows are 128
 * bytes (64 bf16) with the 16-byte piece p of row r at p ^ (r % 8):
 *   void kd_mma_16x16(acc, a, b, k)         acc: 8 floats a lane; a, b: first rows of 16, multiples of 8; k: 0..3
 *   uint32_t kd_mma_row(i), kd_mma_col(i)   the m and n of this lane's acc[i] */
#ifndef ZINC_KERNELS_HW_TILE_H
#define ZINC_KERNELS_HW_TILE_H

#include <stdbool.h>

#include "kernels/kdev.h"

#if defined(__NVPTX__)

KD_FN float kd_byte7_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(__nvvm_prmt(codes, 0x43000000u, 0x7044u | i << 8));
}
KD_FN float kd_byte8_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(__nvvm_prmt(codes, 0x47000000u, 0x7404u | i << 4));
}
/* Four nibbles of w look up bytes: eight entries a permutation, then the third bit chooses between two of them. */
KD_FN uint32_t kd_lut16_half(const uint32_t t[4], uint32_t w)
{
    uint32_t s = w & 0x7777u;
    return __nvvm_prmt(__nvvm_prmt(t[0], t[1], s), __nvvm_prmt(t[2], t[3], s), 0x3210u | (w & 0x8888u) >> 1);
}
KD_FN void kd_lut16(const uint32_t t[4], uint32_t w, uint32_t *lo, uint32_t *hi)
{
    uint32_t a = kd_lut16_half(t, w), b = kd_lut16_half(t, w >> 16);
    *lo = __nvvm_prmt(a, b, 0x6420u);
    *hi = __nvvm_prmt(a, b, 0x7531u);
}
KD_FN uint32_t kd_bf16x2(float lo, float hi)
{
    uint32_t d;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
KD_FN float kd_rcp(float x)
{
    float y;
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Four 8 x 8 matrices; the address that lane l gives is a row of matrix l / 8. */
KD_FN void kd_ldmatrix(uint32_t r[4], KD_SHARED const uint8_t *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"((uint32_t)(uintptr_t)row)
                     : "memory");
}
KD_FN void kd_mma_16x8(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Matrices 0 and 1 are rows 0-7 and 8-15 of the first eight k, 2 and 3 of the other eight. */
KD_FN void kd_mma_16x16(float acc[8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    uint32_t l = kd_lane(), row = l % 16, piece = 2 * k + l / 16, off = row * 128 + (piece ^ row % 8) * 16;
    uint32_t ra[4], rb[4];
    kd_ldmatrix(ra, a + off);
    kd_ldmatrix(rb, b + off);
    kd_mma_16x8(acc, ra, rb[0], rb[2]);
    kd_mma_16x8(acc + 4, ra, rb[1], rb[3]);
}
KD_FN uint32_t kd_mma_row(uint32_t i) { return kd_lane() / 4 + (i & 2) * 4; }
KD_FN uint32_t kd_mma_col(uint32_t i) { return kd_lane() % 4 * 2 + (i & 1) + (i & 4) * 2; }

#elif defined(__AMDGCN__)

/* v_perm_b32: selectors 0-3 are bytes of the second word, 4-7 of the first, 12 is zero. */
KD_FN float kd_byte7_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(__builtin_amdgcn_perm(0x43000000u, codes, 0x07000c0cu | i << 16));
}
KD_FN float kd_byte8_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(__builtin_amdgcn_perm(0x47000000u, codes, 0x070c000cu | i << 8));
}
KD_FN uint32_t kd_lut16_bytes(const uint32_t t[4], uint32_t n)
{
    uint32_t s = n & 0x07070707u, high = (n >> 3 & 0x01010101u) * 0xffu;
    return (__builtin_amdgcn_perm(t[1], t[0], s) & ~high) | (__builtin_amdgcn_perm(t[3], t[2], s) & high);
}
KD_FN void kd_lut16(const uint32_t t[4], uint32_t w, uint32_t *lo, uint32_t *hi)
{
    *lo = kd_lut16_bytes(t, w & 0x0f0f0f0fu);
    *hi = kd_lut16_bytes(t, w >> 4 & 0x0f0f0f0fu);
}
KD_FN uint32_t kd_bf16x2(float lo, float hi)
{
    return (uint32_t)bf16_from_f32(lo) | (uint32_t)bf16_from_f32(hi) << 16;
}
KD_FN float kd_rcp(float x) { return __builtin_amdgcn_rcpf(x); }

typedef short kd_bf16x8 __attribute__((ext_vector_type(8)));
typedef short kd_bf16x16 __attribute__((ext_vector_type(16)));
typedef float kd_f32x8 __attribute__((ext_vector_type(8)));
typedef uint32_t kd_u32x8 __attribute__((ext_vector_type(8)));

KD_FN kd_u32x4 kd_mma_piece(KD_SHARED const uint8_t *t, uint32_t row, uint32_t piece)
{
    return *(KD_SHARED const kd_u32x4 *)(t + row * 128 + (piece ^ row % 8) * 16);
}

#if defined(__gfx1200__) || defined(__gfx1201__) || defined(__GFX12__)
/* A lane holds 8 k of its row, the upper half of the wave the upper 8; acc[i] is row i + 8 (lane / 16). */
KD_FN void kd_mma_16x16(float acc[8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    uint32_t row = kd_lane() % 16, piece = 2 * k + kd_lane() / 16;
    union { kd_u32x4 u; kd_bf16x8 v; } ua = { .u = kd_mma_piece(a, row, piece) },
                                       ub = { .u = kd_mma_piece(b, row, piece) };
    kd_f32x8 c = { acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7] };
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(ua.v, ub.v, c);
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        acc[i] = c[i];
}
KD_FN uint32_t kd_mma_row(uint32_t i) { return i + kd_lane() / 16 * 8; }
#else
/* A lane holds all 16 k of row lane % 16; acc[i] is row 2 i + lane / 16. */
KD_FN void kd_mma_16x16(float acc[8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    uint32_t row = kd_lane() % 16;
    kd_u32x4 a0 = kd_mma_piece(a, row, 2 * k), a1 = kd_mma_piece(a, row, 2 * k + 1);
    kd_u32x4 b0 = kd_mma_piece(b, row, 2 * k), b1 = kd_mma_piece(b, row, 2 * k + 1);
    union { kd_u32x8 u; kd_bf16x16 v; } ua = { .u = { a0[0], a0[1], a0[2], a0[3], a1[0], a1[1], a1[2], a1[3] } },
                                        ub = { .u = { b0[0], b0[1], b0[2], b0[3], b1[0], b1[1], b1[2], b1[3] } };
    kd_f32x8 c = { acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7] };
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(ua.v, ub.v, c);
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        acc[i] = c[i];
}
KD_FN uint32_t kd_mma_row(uint32_t i) { return 2 * i + kd_lane() / 16; }
#endif
KD_FN uint32_t kd_mma_col(uint32_t i) { return kd_lane() % 16 + 0 * i; }

#else

KD_FN float kd_byte7_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(0x43000000u | (codes >> 8 * i & 0xff) << 16);
}
KD_FN float kd_byte8_f32(uint32_t codes, uint32_t i)
{
    return f32_from_bits(0x47000000u | (codes >> 8 * i & 0xff) << 8);
}
KD_FN void kd_lut16(const uint32_t t[4], uint32_t w, uint32_t *lo, uint32_t *hi)
{
    *lo = *hi = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t l = w >> 8 * i & 15, h = w >> (8 * i + 4) & 15;
        *lo |= (t[l / 4] >> 8 * (l % 4) & 0xff) << 8 * i;
        *hi |= (t[h / 4] >> 8 * (h % 4) & 0xff) << 8 * i;
    }
}
KD_FN uint32_t kd_bf16x2(float lo, float hi)
{
    return (uint32_t)bf16_from_f32(lo) | (uint32_t)bf16_from_f32(hi) << 16;
}
KD_FN float kd_rcp(float x) { return 1.0f / x; }

KD_FN uint32_t kd_mma_row(uint32_t i) { return kd_lane() / 4 + (i & 2) * 4; }
KD_FN uint32_t kd_mma_col(uint32_t i) { return kd_lane() % 4 * 2 + (i & 1) + (i & 4) * 2; }
KD_FN float kd_mma_elem(const uint8_t *t, uint32_t row, uint32_t k)
{
    uint16_t h;
    memcpy(&h, t + row * 128 + ((k / 8) ^ row % 8) * 16 + k % 8 * 2, 2);
    return bf16_to_f32(h);
}
KD_FN void kd_mma_16x16(float acc[8], const uint8_t *a, const uint8_t *b, uint32_t k)
{
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t j = 16 * k; j < 16 * k + 16; j++)
            acc[i] = k_fma(kd_mma_elem(a, kd_mma_row(i), j), kd_mma_elem(b, kd_mma_col(i), j), acc[i]);
}

#endif

#endif
