/* kernels/hw/tile.h
 * Dialect names for matrix products: bytes to floats, pairs of bf16, and one matrix instruction of a warp. Inline
 * assembly and builtins live here; kernels that include it read alike on every target.
 *
 *   float kd_byte7_f32(codes, i)            128 + byte i of codes, which is below 128: one byte permutation
 *   float kd_byte8_f32(codes, i)            32768 + byte i of codes
 *   void kd_lut16(table, w, &lo, &hi)       table: 16 bytes in four words; bytes of the low, of the high nibbles of w
 *   uint32_t kd_bf16x2(lo, hi)              two floats rounded to bf16, lo in the lower half
 *   uint32_t kd_bf16x2_tame(lo, hi)         the same for results of arithmetic on what went through kd_tame
 *   float kd_tame(x)                        x, but a NaN may become another NaN
 *   float kd_rcp(x)                         1 / x, relative error below 1e-6
 *
 * A tile product of a warp, D[m, n] += sum over 16 k of A[m, k] B[n, k], m < 32, n < 64, on tiles in shared memory whose
 * rows are 128 bytes (64 bf16) with the 16-byte piece p of row r at p ^ (r % 8):
 *   KD_SHARED kd_u32x4 *kd_tile_piece(row, r, p)     piece p of row r, which starts at `row`
 *   void kd_mma_32x64(acc, a, b, k)         acc: [2][4] pieces of 16 x 16, 8 floats a lane; a, b: first rows, multiples
 *                                           of 8 rows from the start; k: 0..3
 *   uint32_t kd_mma_row(i), kd_mma_col(i)   the m and n of this lane's acc[.][.][i] in its piece
 *   void kd_tile_barrier()                  all of the workgroup; orders shared memory alone */
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
KD_FN uint32_t kd_bf16x2_tame(float lo, float hi) { return kd_bf16x2(lo, hi); }
KD_FN float kd_tame(float x) { return x; }
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

#if defined(__GFX12__)
#define KD_GFX12 1
#else
#define KD_GFX12 0
#endif

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
/* bf16_from_f32 in the upper half, without a branch: a branch for NaNs would cut a tile into thousands of blocks. The
 * rounding carries a NaN whose payload is all ones over to zero; kd_tame lets only the plain one through. */
KD_FN uint32_t kd_bf16_round(float f) { return f32_bits(f) + 0x7fff + (f32_bits(f) >> 16 & 1); }
KD_FN uint32_t kd_bf16_high(float f) { return f != f ? f32_bits(f) | 0x400000 : kd_bf16_round(f); }
KD_FN uint32_t kd_bf16x2(float lo, float hi)
{
    return __builtin_amdgcn_perm(kd_bf16_high(hi), kd_bf16_high(lo), 0x07060302u);
}
KD_FN uint32_t kd_bf16x2_tame(float lo, float hi)
{
    return __builtin_amdgcn_perm(kd_bf16_round(hi), kd_bf16_round(lo), 0x07060302u);
}
KD_FN float kd_tame(float x) { return x != x ? f32_from_bits(0x7fc00000u) : x; }
KD_FN float kd_rcp(float x) { return __builtin_amdgcn_rcpf(x); }

/* How a lane holds A and B: RDNA4 8 k of row lane % 16, the upper half of the wave the upper 8; RDNA3 all 16 of them.
 * The accumulators: row i + 8 (lane / 16), or 2 i + lane / 16. */
enum { KD_MMA_PIECES = KD_GFX12 ? 1 : 2 };
typedef short kd_bf16s __attribute__((ext_vector_type(8 * KD_MMA_PIECES)));
typedef float kd_f32x8 __attribute__((ext_vector_type(8)));

/* v; what follows from it is computed here, not once before the loop and then kept in registers. */
KD_FN uint32_t kd_here(uint32_t v)
{
    __asm__ volatile("" : "+v"(v));
    return v;
}
KD_FN KD_SHARED kd_u32x4 *kd_tile_piece(KD_SHARED uint8_t *row, uint32_t r, uint32_t p)
{
    return (KD_SHARED kd_u32x4 *)(kd_here((uint32_t)row + r % 8 * 16) ^ p * 16);
}
/* at: the lane's first piece. The others of a row are an exclusive or away, other rows a constant. */
KD_FN kd_bf16s kd_mma_load(uint32_t at, uint32_t rows)
{
    union { kd_u32x4 q[KD_MMA_PIECES]; kd_bf16s v; } u;
    KD_UNROLL
    for (uint32_t i = 0; i < KD_MMA_PIECES; i++)
        u.q[i] = *((KD_SHARED const kd_u32x4 *)(at ^ 16 * i) + rows * 8);
    return u.v;
}
KD_FN void kd_mma(float acc[8], kd_bf16s a, kd_bf16s b)
{
    kd_f32x8 c = { acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7] };
#if KD_GFX12
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
#else
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
#endif
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        acc[i] = c[i];
}
/* Nothing moves past the end of a step: the loads of later steps would fill the registers. */
KD_FN void kd_mma_32x64(float acc[2][4][8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    uint32_t row = kd_lane() % 16, half = KD_GFX12 ? kd_lane() / 16 : 0, at = row * 128 + (half ^ row % 8) * 16;
    uint32_t pa = kd_here((uint32_t)a + at) ^ 32 * k, pb = kd_here((uint32_t)b + at) ^ 32 * k;
    kd_bf16s fa[2], fb[4];
    KD_UNROLL
    for (uint32_t m = 0; m < 2; m++)
        fa[m] = kd_mma_load(pa, 16 * m);
    KD_UNROLL
    for (uint32_t n = 0; n < 4; n++)
        fb[n] = kd_mma_load(pb, 16 * n);
    KD_UNROLL
    for (uint32_t m = 0; m < 2; m++)
        KD_UNROLL
        for (uint32_t n = 0; n < 4; n++)
            kd_mma(acc[m][n], fa[m], fb[n]);
    __builtin_amdgcn_sched_barrier(0);
}
KD_FN uint32_t kd_mma_row(uint32_t i) { return KD_GFX12 ? i + kd_lane() / 16 * 8 : 2 * i + kd_lane() / 16; }
KD_FN uint32_t kd_mma_col(uint32_t i) { return kd_lane() % 16 + 0 * i; }

/* The barrier builtin would wait for all loads in flight, those of the next chunk into registers too; here only shared
 * memory counts. Assembly is not `convergent` in C; the builtins beside it keep the block in one piece. */
KD_FN void kd_tile_barrier(void)
{
    __builtin_amdgcn_wave_barrier();
#if KD_GFX12
    __asm__ volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#else
    __asm__ volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#endif
    __builtin_amdgcn_wave_barrier();
}

#else /* Apple GPUs, and the host */

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
KD_FN uint32_t kd_bf16x2_tame(float lo, float hi) { return kd_bf16x2(lo, hi); }
KD_FN float kd_tame(float x) { return x; }
KD_FN float kd_rcp(float x) { return 1.0f / x; }

#if defined(KD_MSL)
/* Four 8 x 8 matrices: acc[2 q], acc[2 q + 1] are the lane's columns of matrix q, which is 8 (q / 2) down and 8 (q % 2)
 * to the right. The rows of b are B's columns. */
KD_FN uint32_t kd_mma_row(uint32_t i) { return kd_m8_row() + i / 4 * 8; }
KD_FN uint32_t kd_mma_col(uint32_t i) { return kd_m8_col() + i / 2 % 2 * 8 + i % 2; }
KD_FN uint32_t kd_tile_half(KD_SHARED const uint8_t *t, uint32_t row, uint32_t k)
{
    return *(KD_SHARED const uint16_t *)(t + row * 128 + ((k / 8) ^ row % 8) * 16 + k % 8 * 2);
}
KD_FN void kd_mma_16x16(float acc[8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    uint32_t row = kd_m8_row(), col = kd_m8_col();
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t at = 16 * k + 8 * h, fa[2], fb[2];
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t r = row + 8 * i, c = col + 8 * i;
            fa[i] = *(KD_SHARED const uint32_t *)(a + r * 128 + ((at / 8) ^ r % 8) * 16 + col * 2);
            fb[i] = kd_tile_half(b, c, at + row) | kd_tile_half(b, c + 1, at + row) << 16;
        }
        KD_UNROLL
        for (uint32_t q = 0; q < 4; q++)
            kd_m8_bf16(acc + 2 * q, fa[q / 2], fb[q % 2]);
    }
}
#else
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
    uint32_t row = kd_mma_row(0), col = kd_mma_col(0);
    for (uint32_t j = 16 * k; j < 16 * k + 16; j++) { /* the eight sums are of two rows and four columns */
        float x = kd_mma_elem(a, row, j), below = kd_mma_elem(a, row + 8, j);
        for (uint32_t i = 0; i < 8; i += 4) {
            float y = kd_mma_elem(b, col + 2 * i, j), right = kd_mma_elem(b, col + 2 * i + 1, j);
            acc[i] = k_fma(x, y, acc[i]);
            acc[i + 1] = k_fma(x, right, acc[i + 1]);
            acc[i + 2] = k_fma(below, y, acc[i + 2]);
            acc[i + 3] = k_fma(below, right, acc[i + 3]);
        }
    }
}
#endif

#endif

#if !defined(__AMDGCN__)
KD_FN void kd_mma_32x64(float acc[2][4][8], KD_SHARED const uint8_t *a, KD_SHARED const uint8_t *b, uint32_t k)
{
    KD_UNROLL
    for (uint32_t m = 0; m < 2; m++)
        KD_UNROLL
        for (uint32_t n = 0; n < 4; n++)
            kd_mma_16x16(acc[m][n], a + m * 16 * 128, b + n * 16 * 128, k);
}
KD_FN void kd_tile_barrier(void) { kd_barrier(); }
KD_FN KD_SHARED kd_u32x4 *kd_tile_piece(KD_SHARED uint8_t *row, uint32_t r, uint32_t p)
{
    return (KD_SHARED kd_u32x4 *)row + (p ^ r % 8);
}
#endif

#endif
