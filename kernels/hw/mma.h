/* kernels/hw/mma.h
 * Products of 16 x 16 tiles of f16 with f32 sums by one warp, on matrix units where there are any; and copies into
 * shared memory that go on while the warp computes. Include after kernels/kdev.h.
 *
 *     kd_frag a = kd_frag_a(s, ld);               rows of A in shared memory, row-major, ld halves apart
 *     kd_frag b = kd_frag_bt(t, ld);              B's columns are the rows there (B transposed)
 *     kd_frag b = kd_frag_b(t, ld);               B's rows are the rows there
 *     kd_tile_fma(&c, a, b);                      c += a b, k in one fixed order
 *     c.v[i] is element (kd_acc_row(i), kd_acc_col(i)) of the tile; a lane has KD_ACC_SLOTS different rows, element i
 *     is in row number kd_acc_slot(i) of them, and kd_acc_max goes over the lanes that share a row
 *     kd_frag a = kd_frag_of(&c, scratch);        c rounded to f16, as A; scratch: 256 halves of the warp's own, where on
 *                                                 AMD the 16 x 16 lie afterwards, row by row
 *     KD_MMA_ADD_ZERO_EXACT                       0: adding products that are 0 may change a sum (RDNA3)
 *
 * All 32 lanes call these. ld is a multiple of 8, pointers are aligned to 16 bytes.
 *
 * Not on AMD, one instruction (g = lane / 4, t = lane % 4, words are pairs along k, the lower k in the lower half):
 *     kd_mma_half(c, a, b0, b1);                  c[0], c[1] are row g, columns 2 t and 2 t + 1, c[2], c[3] row g + 8; a.r
 *                                                 rows g, g + 8 at k = 2 t, then both at k = 8 + 2 t; b0, b1 column g at
 *                                                 the same two. k may be permuted, the same way in A and B
 *     kd_low_halves(x, y), kd_high_halves(x, y)   a pair of their lower or upper halves, x's in the lower one
 *     kd_half2_by_256(v)                          two f16 times 256
 *     kd_codes_half2(codes, i, scale)             bytes 2 i and 2 i + 1 as signed codes in f16, times the f16 scale, rounded
 *
 *     kd_copy16(dst, src, on);                    16 bytes to shared memory, zeros unless `on`; kd_copy8 and kd_copy4: 8 and 4
 *     kd_copy_commit();                           closes a group of copies
 *     kd_copy_wait_3(); .. kd_copy_wait_0();      the lane's groups are there, but for the newest 3, 2, 1 or 0; then
 *                                                 comes a barrier
 *
 * Sources of the layouts: the PTX ISA manual (mma.m16n8k16, ldmatrix), AMD's RDNA3 and RDNA4 ISA manuals (WMMA). */
#ifndef ZINC_KERNELS_HW_MMA_H
#define ZINC_KERNELS_HW_MMA_H

#include <stdbool.h>

#include "kernels/kdev.h"

typedef struct {
    float v[8];
} kd_acc;

KD_FN uint32_t kd_half2(float lo, float hi)
{
    return f16_from_f32(lo) | (uint32_t)f16_from_f32(hi) << 16;
}

#if defined(__AMDGCN__)

typedef _Float16 kd_f16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 kd_f16x8 __attribute__((ext_vector_type(8)));
typedef float kd_f32x8v __attribute__((ext_vector_type(8)));

/* RDNA3: a lane holds row lane % 16 of A, or column lane % 16 of B, whole. RDNA4: half of it, by lane / 16. */
#if defined(__GFX12__)
#define KD_MMA_ADD_ZERO_EXACT 1
enum { KD_FRAG_K = 8 };
typedef kd_f16x8 kd_frag;
KD_FN uint32_t kd_frag_k(void) { return kd_lane() / 16 * 8; }
KD_FN uint32_t kd_acc_row(uint32_t i) { return i + kd_lane() / 16 * 8; }
#else
#define KD_MMA_ADD_ZERO_EXACT 0
enum { KD_FRAG_K = 16 };
typedef kd_f16x16 kd_frag;
KD_FN uint32_t kd_frag_k(void) { return 0; }
KD_FN uint32_t kd_acc_row(uint32_t i) { return 2 * i + kd_lane() / 16; }
#endif
enum { KD_ACC_SLOTS = 8, KD_ACC_SPREAD = 16, KD_ACC_STEP = 1 };
KD_FN uint32_t kd_acc_col(uint32_t i) { return kd_lane() % 16 + 0 * i; }
KD_FN uint32_t kd_acc_slot(uint32_t i) { return i; }
KD_FN uint32_t kd_acc_slot_row(uint32_t slot) { return kd_acc_row(slot); }

KD_FN kd_frag kd_frag_a(KD_SHARED const uint16_t *s, uint32_t ld)
{
    KD_SHARED const kd_u32x4 *p = (KD_SHARED const kd_u32x4 *)(s + kd_lane() % 16 * ld + kd_frag_k());
    union { kd_u32x4 q[KD_FRAG_K / 8]; kd_frag f; } u;
    KD_UNROLL
    for (uint32_t i = 0; i < KD_FRAG_K / 8; i++)
        u.q[i] = p[i];
    return u.f;
}
KD_FN kd_frag kd_frag_bt(KD_SHARED const uint16_t *s, uint32_t ld) { return kd_frag_a(s, ld); }
KD_FN kd_frag kd_frag_b(KD_SHARED const uint16_t *s, uint32_t ld)
{
    union { uint16_t h[KD_FRAG_K]; kd_frag f; } u;
    KD_UNROLL
    for (uint32_t i = 0; i < KD_FRAG_K; i++)
        u.h[i] = s[(kd_frag_k() + i) * ld + kd_lane() % 16];
    return u.f;
}
KD_FN kd_frag kd_frag_of(const kd_acc *c, KD_SHARED uint16_t *scratch)
{
    kd_warp_sync();
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        scratch[kd_acc_row(i) * 16 + kd_acc_col(i)] = f16_from_f32(c->v[i]);
    kd_warp_sync();
    return kd_frag_a(scratch, 16);
}

/* What stands before is done before what stands behind: fewer values wait in registers. */
KD_FN void kd_mma_in_turn(void) { __builtin_amdgcn_sched_barrier(0); }

KD_FN void kd_tile_fma(kd_acc *c, kd_frag a, kd_frag b)
{
    kd_f32x8v v = { c->v[0], c->v[1], c->v[2], c->v[3], c->v[4], c->v[5], c->v[6], c->v[7] };
#if defined(__GFX12__)
    v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, v);
#else
    v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, v);
#endif
    KD_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        c->v[i] = v[i];
}

#elif defined(KD_MSL)

/* Four 8 x 8 matrices, left to right and then down; a word of each and a pair of sums a lane. */
#define KD_MMA_ADD_ZERO_EXACT 1
KD_FN void kd_mma_in_turn(void) {}

typedef struct {
    uint32_t r[4];
} kd_frag;

enum { KD_ACC_SLOTS = 2, KD_ACC_SPREAD = 16, KD_ACC_STEP = 3 }; /* lanes 0, 1, 8 and 9 share a row */
KD_FN uint32_t kd_acc_slot(uint32_t i) { return i / 4; }
KD_FN uint32_t kd_acc_slot_row(uint32_t slot) { return kd_m8_row() + 8 * slot; }
KD_FN uint32_t kd_acc_row(uint32_t i) { return kd_acc_slot_row(kd_acc_slot(i)); }
KD_FN uint32_t kd_acc_col(uint32_t i) { return kd_m8_col() + i / 2 % 2 * 8 + i % 2; }

KD_FN kd_frag kd_frag_of(const kd_acc *c, KD_SHARED uint16_t *scratch)
{
    kd_frag f;
    KD_UNROLL
    for (uint32_t q = 0; q < 4; q++)
        f.r[q] = kd_half2(c->v[2 * q], c->v[2 * q + 1]);
    return f;
}
KD_FN kd_frag kd_frag_a(KD_SHARED const uint16_t *s, uint32_t ld)
{
    kd_frag f;
    s += kd_m8_row() * ld + kd_m8_col();
    KD_UNROLL
    for (uint32_t q = 0; q < 4; q++)
        f.r[q] = *(KD_SHARED const uint32_t *)(s + q / 2 * 8 * ld + q % 2 * 8);
    return f;
}
KD_FN kd_frag kd_frag_b(KD_SHARED const uint16_t *s, uint32_t ld) { return kd_frag_a(s, ld); }
KD_FN kd_frag kd_frag_bt(KD_SHARED const uint16_t *s, uint32_t ld)
{
    kd_frag f;
    s += kd_m8_col() * ld + kd_m8_row();
    KD_UNROLL
    for (uint32_t q = 0; q < 4; q++) {
        KD_SHARED const uint16_t *p = s + q % 2 * 8 * ld + q / 2 * 8;
        f.r[q] = p[0] | (uint32_t)p[ld] << 16;
    }
    return f;
}
KD_FN void kd_tile_fma(kd_acc *c, kd_frag a, kd_frag b)
{
    KD_UNROLL
    for (uint32_t q = 0; q < 4; q++) {
        kd_m8_f16(c->v + 2 * q, a.r[q / 2 * 2], b.r[q % 2]);
        kd_m8_f16(c->v + 2 * q, a.r[q / 2 * 2 + 1], b.r[2 + q % 2]);
    }
}

#else /* nvptx, and the host in the same layout */

#define KD_MMA_ADD_ZERO_EXACT 1
KD_FN void kd_mma_in_turn(void) {}

typedef struct {
    uint32_t r[4];
} kd_frag;

enum { KD_ACC_SLOTS = 2, KD_ACC_SPREAD = 4, KD_ACC_STEP = 1 };
KD_FN uint32_t kd_acc_slot(uint32_t i) { return i / 2 % 2; }
KD_FN uint32_t kd_acc_slot_row(uint32_t slot) { return kd_lane() / 4 + 8 * slot; }
KD_FN uint32_t kd_acc_row(uint32_t i) { return kd_acc_slot_row(kd_acc_slot(i)); }
KD_FN uint32_t kd_acc_col(uint32_t i) { return i / 4 * 8 + kd_lane() % 4 * 2 + i % 2; }

KD_FN kd_frag kd_frag_of(const kd_acc *c, KD_SHARED uint16_t *scratch)
{
    (void)scratch;
    const float *v = c->v;
    return (kd_frag){ { kd_half2(v[0], v[1]), kd_half2(v[2], v[3]), kd_half2(v[4], v[5]), kd_half2(v[6], v[7]) } };
}

#if defined(__NVPTX__)

KD_FN kd_frag kd_frag_load(KD_SHARED const uint16_t *s)
{
    kd_frag f;
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                     : "r"((uint32_t)(uintptr_t)s)
                     : "memory");
    return f;
}
/* Lane i points at row i % 8 of the 8 x 8 matrix i / 8. */
KD_FN kd_frag kd_frag_a(KD_SHARED const uint16_t *s, uint32_t ld)
{
    return kd_frag_load(s + kd_lane() % 16 * ld + kd_lane() / 16 * 8);
}
KD_FN kd_frag kd_frag_bt(KD_SHARED const uint16_t *s, uint32_t ld)
{
    return kd_frag_load(s + (kd_lane() % 8 + kd_lane() / 16 * 8) * ld + kd_lane() / 8 % 2 * 8);
}
KD_FN kd_frag kd_frag_b(KD_SHARED const uint16_t *s, uint32_t ld)
{
    kd_frag f;
    KD_SHARED const uint16_t *p = s + kd_lane() % 16 * ld + kd_lane() / 16 * 8;
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                     : "r"((uint32_t)(uintptr_t)p)
                     : "memory");
    return f;
}

KD_FN uint32_t kd_low_halves(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(x), "r"(y));
    return r;
}
KD_FN uint32_t kd_high_halves(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(r) : "r"(x), "r"(y));
    return r;
}
/* A byte plus 128 as the low bits of 1024, then 1152 less: the code, exactly. */
KD_FN uint32_t kd_codes_half2(uint32_t codes, uint32_t i, uint16_t scale)
{
    uint32_t u = codes ^ 0x80808080u, r;
    __asm__("{\n\t.reg .b32 x, s;\n\tprmt.b32 x, %1, 0x64646464, %2;\n\tsub.rn.f16x2 x, x, %4;\n\tmov.b32 s, {%3, %3};\n\t"
            "mul.rn.f16x2 %0, x, s;\n\t}"
            : "=r"(r)
            : "r"(u), "r"(i ? 0x4342u : 0x4140u), "h"(scale), "r"(0x64806480u));
    return r;
}
KD_FN uint32_t kd_half2_by_256(uint32_t v)
{
    uint32_t r;
    __asm__("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(v), "r"(0x5c005c00u));
    return r;
}
KD_FN void kd_mma_half(float *d, kd_frag a, uint32_t b0, uint32_t b1)
{
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}
KD_FN void kd_tile_fma(kd_acc *c, kd_frag a, kd_frag b)
{
    kd_mma_half(c->v, a, b.r[0], b.r[1]);
    kd_mma_half(c->v + 4, a, b.r[2], b.r[3]);
}

#else /* the host: what ldmatrix and mma do, by ordinary loads and shuffles */

KD_FN uint32_t kd_pair(const uint16_t *s, uint32_t ld) { return s[0] | (uint32_t)s[ld] << 16; }

KD_FN kd_frag kd_frag_a(const uint16_t *s, uint32_t ld)
{
    s += kd_lane() / 4 * ld + kd_lane() % 4 * 2;
    return (kd_frag){ { kd_pair(s, 1), kd_pair(s + 8 * ld, 1), kd_pair(s + 8, 1), kd_pair(s + 8 * ld + 8, 1) } };
}
KD_FN kd_frag kd_frag_bt(const uint16_t *s, uint32_t ld)
{
    s += kd_lane() / 4 * ld + kd_lane() % 4 * 2;
    return (kd_frag){ { kd_pair(s, 1), kd_pair(s + 8, 1), kd_pair(s + 8 * ld, 1), kd_pair(s + 8 * ld + 8, 1) } };
}
KD_FN kd_frag kd_frag_b(const uint16_t *s, uint32_t ld)
{
    s += kd_lane() % 4 * 2 * ld + kd_lane() / 4;
    return (kd_frag){ { kd_pair(s, ld), kd_pair(s + 8 * ld, ld), kd_pair(s + 8, ld), kd_pair(s + 8 * ld + 8, ld) } };
}

KD_FN uint32_t kd_low_halves(uint32_t x, uint32_t y) { return (x & 0xffff) | y << 16; }
KD_FN uint32_t kd_high_halves(uint32_t x, uint32_t y) { return x >> 16 | (y & 0xffff0000); }
KD_FN uint32_t kd_codes_half2(uint32_t codes, uint32_t i, uint16_t scale)
{
    float d = f16_to_f32(scale);
    return kd_half2((float)(int8_t)(codes >> 16 * i) * d, (float)(int8_t)(codes >> (16 * i + 8)) * d);
}

KD_FN uint32_t kd_half2_by_256(uint32_t v)
{
    return kd_half2(f16_to_f32((uint16_t)v) * 256.0f, f16_to_f32((uint16_t)(v >> 16)) * 256.0f);
}

/* Lanes meet once and bring their words as floats: of A 8, of a B of 8 columns 4. Each then takes its two rows of A from
 * the lanes of its quad and its two columns of B from those that hold them. */
KD_FN void kd_bring(uint32_t *own, const uint32_t *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        own[2 * i] = f32_bits(f16_to_f32((uint16_t)words[i]));
        own[2 * i + 1] = f32_bits(f16_to_f32((uint16_t)(words[i] >> 16)));
    }
}
KD_FN void kd_mma_brought(float *d, const uint32_t *a, const uint32_t *b)
{
    uint32_t quad = kd_lane() & ~3u, column = kd_lane() % 4 * 8;
    for (uint32_t k = 0; k < 16; k++) {
        uint32_t of_a = (k / 8 * 4 + k % 2) * KD_WARP + quad + k % 8 / 2;
        uint32_t of_b = (k / 8 * 2 + k % 2) * KD_WARP + column + k % 8 / 2;
        float r0 = f32_from_bits(a[of_a]), r1 = f32_from_bits(a[of_a + 2 * KD_WARP]);
        float c0 = f32_from_bits(b[of_b]), c1 = f32_from_bits(b[of_b + 4]);
        d[0] = k_fma(r0, c0, d[0]);
        d[1] = k_fma(r0, c1, d[1]);
        d[2] = k_fma(r1, c0, d[2]);
        d[3] = k_fma(r1, c1, d[3]);
    }
}
KD_FN void kd_mma_half(float *d, kd_frag a, uint32_t b0, uint32_t b1)
{
    uint32_t own[12];
    kd_bring(own, a.r, 4);
    kd_bring(own + 8, (uint32_t[2]){ b0, b1 }, 2);
    const uint32_t *all = kd_host_share_words(own, 12);
    kd_mma_brought(d, all, all + 8 * KD_WARP);
}
KD_FN void kd_tile_fma(kd_acc *c, kd_frag a, kd_frag b)
{
    uint32_t own[16];
    kd_bring(own, a.r, 4);
    kd_bring(own + 8, b.r, 4);
    const uint32_t *all = kd_host_share_words(own, 16);
    kd_mma_brought(c->v, all, all + 8 * KD_WARP);
    kd_mma_brought(c->v + 4, all, all + 12 * KD_WARP);
}

#endif
#endif

/* The largest, and the sum, over the lanes that hold the same row. */
KD_FN float kd_acc_max(float v)
{
    KD_UNROLL
    for (uint32_t m = 1; m < KD_ACC_SPREAD; m <<= KD_ACC_STEP)
        v = kd_max(kd_shfl_xor_f32(v, m), v);
    return v;
}
KD_FN float kd_acc_sum(float v)
{
    KD_UNROLL
    for (uint32_t m = 1; m < KD_ACC_SPREAD; m <<= KD_ACC_STEP)
        v += kd_shfl_xor_f32(v, m);
    return v;
}

#if defined(__NVPTX__)
KD_FN void kd_copy16(KD_SHARED void *dst, KD_GLOBAL const void *src, bool on)
{
    __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                     :
                     : "r"((uint32_t)(uintptr_t)dst), "l"(src), "r"(on ? 16 : 0)
                     : "memory");
}
KD_FN void kd_copy8(KD_SHARED void *dst, KD_GLOBAL const void *src)
{
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 8;" : : "r"((uint32_t)(uintptr_t)dst), "l"(src) : "memory");
}
KD_FN void kd_copy4(KD_SHARED void *dst, KD_GLOBAL const void *src)
{
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"((uint32_t)(uintptr_t)dst), "l"(src) : "memory");
}
KD_FN void kd_copy_commit(void) { __asm__ volatile("cp.async.commit_group;" : : : "memory"); }
KD_FN void kd_copy_wait_1(void) { __asm__ volatile("cp.async.wait_group 1;" : : : "memory"); }
KD_FN void kd_copy_wait_2(void) { __asm__ volatile("cp.async.wait_group 2;" : : : "memory"); }
KD_FN void kd_copy_wait_3(void) { __asm__ volatile("cp.async.wait_group 3;" : : : "memory"); }
KD_FN void kd_copy_wait_0(void) { __asm__ volatile("cp.async.wait_group 0;" : : : "memory"); }
#elif defined(KD_MSL) || defined(__AMDGCN__)
KD_FN void kd_copy16(KD_SHARED void *dst, KD_GLOBAL const void *src, bool on)
{
    *(KD_SHARED kd_u32x4 *)dst = on ? *(KD_GLOBAL const kd_u32x4 *)src : (kd_u32x4){ 0, 0, 0, 0 };
}
KD_FN void kd_copy8(KD_SHARED void *dst, KD_GLOBAL const void *src)
{
    *(KD_SHARED kd_u32x2 *)dst = *(KD_GLOBAL const kd_u32x2 *)src;
}
KD_FN void kd_copy4(KD_SHARED void *dst, KD_GLOBAL const void *src)
{
    *(KD_SHARED uint32_t *)dst = *(KD_GLOBAL const uint32_t *)src;
}
KD_FN void kd_copy_commit(void) {}
KD_FN void kd_copy_wait_3(void) {}
KD_FN void kd_copy_wait_2(void) {}
KD_FN void kd_copy_wait_1(void) {}
KD_FN void kd_copy_wait_0(void) {}
#else /* the host, where they are under way as well: rt/lockstep/copies.h */
void kd_host_copy(void *dst, const void *src, uint32_t n); /* src NULL: zeros */
void kd_host_copy_commit(void);
void kd_host_copy_wait(uint32_t most);
KD_FN void kd_copy16(void *dst, const void *src, bool on) { kd_host_copy(dst, on ? src : NULL, 16); }
KD_FN void kd_copy8(void *dst, const void *src) { kd_host_copy(dst, src, 8); }
KD_FN void kd_copy4(void *dst, const void *src) { kd_host_copy(dst, src, 4); }
KD_FN void kd_copy_commit(void) { kd_host_copy_commit(); }
KD_FN void kd_copy_wait_3(void) { kd_host_copy_wait(3); }
KD_FN void kd_copy_wait_2(void) { kd_host_copy_wait(2); }
KD_FN void kd_copy_wait_1(void) { kd_host_copy_wait(1); }
KD_FN void kd_copy_wait_0(void) { kd_host_copy_wait(0); }
#endif

#endif
