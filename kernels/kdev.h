/* kernels/kdev.h
 * The device dialect: what a GPU kernel in this folder may use beside plain C. One source is compiled by clang to PTX
 * and to AMD code objects, and by the host's compiler for the lock-step runner (rt/lockstep), where the sanitizers see
 * it. A kernel is written for workgroups of one dimension and for subgroups ("warps") of 32 lanes.
 *
 *     KD_KERNEL(k_scale, kl_scale)                         the entry: `a` is its argument struct, by value
 *     {
 *         kd_wait_inputs();                                earlier dispatches are complete from here on
 *         KD_GLOBAL float *y = KD_PTR(float, a.y);
 *         for (uint32_t i = kd_group_x() * kd_group_size() + kd_tid(); i < a.n; i += kd_groups_x() * kd_group_size())
 *             y[i] *= a.by;
 *     }
 *
 * Rules, so that MSL can take the same text: every pointer has an address space (KD_GLOBAL, KD_SHARED, or none for what
 * is private), no recursion, no function pointers, no static data but constant tables. Functions are KD_FN. All lanes of
 * a workgroup reach every kd_barrier, and all 32 lanes of a warp every kd_shfl_*; both are rendezvous points on the host.
 *
 * Shared memory is one block per workgroup, sized by the dispatch and carved by the kernel: KD_SHARED_AT(type, offset),
 * the offset in bytes. It holds rubbish at the start.
 *
 * The canonical arithmetic (kernels/kargs.h) says which sums are fused; the build has -ffp-contract=off everywhere. */
#ifndef ZINC_KERNELS_KDEV_H
#define ZINC_KERNELS_KDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/fp.h"
#include "kernels/kargs.h"
#include "kernels/mathf.h"

#define KD_WARP 32
#if defined(KD_MSL) /* kernels/hw/msl.metal has them */
#elif defined(__NVPTX__) || defined(__AMDGCN__)
#define KD_FN     static inline __attribute__((always_inline))
#define KD_UNROLL _Pragma("GCC unroll 32")
#else /* the host's compiler would take minutes over code that only tests run */
#define KD_FN static inline __attribute__((unused))
#define KD_UNROLL
#endif

#if !defined(KD_MSL)
typedef uint32_t kd_u32x4 __attribute__((vector_size(16)));
typedef uint32_t kd_u32x2 __attribute__((vector_size(8)));
typedef float kd_f32x4 __attribute__((vector_size(16)));
typedef float kd_f32x2 __attribute__((vector_size(8)));
#endif

#if defined(KD_MSL)
#include "kernels/hw/msl.h"
#elif defined(__NVPTX__)
#include "kernels/hw/nvptx.h"
#elif defined(__AMDGCN__)
#include "kernels/hw/amdgcn.h"
#else
#include "kernels/hw/host.h"
#endif

#ifndef KD_ASK_ARGS
KD_FN void kd_ask_args(const void *args, uint32_t bytes, KD_GLOBAL const void *any) { (void)args, (void)bytes, (void)any; }
#endif
#ifndef KD_RELOAD
KD_FN void kd_reload16(uint32_t *w, KD_GLOBAL const kd_u32x4 *p, bool is)
{
    if (!is)
        return;
    kd_u32x4 v = kd_load_once(p);
    w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
}
KD_FN void kd_reload8(uint32_t *w, KD_GLOBAL const kd_u32x2 *p, bool is)
{
    if (!is)
        return;
    kd_u32x2 v = kd_load_once8(p);
    w[0] = v[0], w[1] = v[1];
}
#endif

/* 1: kd_pick4 is one instruction, and kernels are made for that. */
#ifndef KD_PICKS
#define KD_PICKS 0
#endif
#ifndef KD_PICK4
KD_FN uint32_t kd_pick4(uint32_t a, uint32_t b, uint32_t at)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; i++, at >>= 4) {
        uint32_t v = (at & 4 ? b : a) >> 8 * (at & 3) & 255;
        r |= (at & 8 ? (v >> 7) * 255 : v) << 8 * i;
    }
    return r;
}
#endif

#ifndef KD_BYTE_F32
KD_FN float kd_byte_f32(uint32_t v, uint32_t k) { return (float)(v >> 8 * k & 255); }
KD_FN float kd_signed_byte_f32(uint32_t v, uint32_t k) { return (float)(int8_t)(v >> 8 * k); }
#endif

/* Memory that work-groups of one launch hand to each other by kd_arrive, and a constant table of a file. */
#ifndef KD_COHERENT
#define KD_COHERENT KD_GLOBAL
#endif
#ifndef KD_TABLE
#define KD_TABLE static const __attribute__((unused))
#endif

/* Each target's header defines, beside KD_KERNEL, KD_GLOBAL, KD_SHARED and KD_SHARED_AT:
 *
 *   uint32_t kd_tid(), kd_group_size(), kd_group_x(), kd_group_y(), kd_group_z(), kd_groups_x(), kd_groups_y()
 *   void kd_barrier()                              all of the workgroup; orders shared and global memory within it
 *   void kd_warp_sync()                            the same for a warp
 *   uint32_t kd_shfl_xor_u32(v, mask), kd_shfl_u32(v, lane); float kd_shfl_xor_f32, kd_shfl_f32
 *   int32_t kd_dot4(a, b, c)                       c + sum of four products of signed bytes
 *   int32_t kd_dot4u(a, b, c)                      the same, those of a without a sign
 *   float kd_byte_f32(v, k), kd_signed_byte_f32    byte k, a constant, of a word as a float
 *   uint32_t kd_pick4(a, b, at)                    four of the eight bytes of a and b, by the low four nibbles of `at`; a nibble
 *                                                  of 8 and more gives eight copies of the byte's sign
 *   int32_t kd_half(v, upper)                      half of a word, with its sign
 *   kd_u32x4 kd_load_once(KD_GLOBAL const kd_u32x4 *)     16 bytes that nobody reads again soon (weights, cache)
 *   kd_u32x2 kd_load_once8(..), uint32_t kd_load_once4(..) likewise; natural alignment each
 *   void kd_reload16(uint32_t w[4], KD_GLOBAL const kd_u32x4 *, is), kd_reload8(uint32_t w[2], ..)
 *                                                  the same into w where `is`, without a branch; else w stays
 *   void kd_prefetch(KD_GLOBAL const void *)       a hint: the line into the level-2 cache; no effect on what is right
 *   void kd_ask_args(args, bytes, KD_GLOBAL const void *any)
 *         a hint, before kd_wait_inputs: a launch's arguments come by way of a cache that has none of them yet; any: memory
 *         that there is
 *   uint32_t kd_arrive(KD_GLOBAL uint32_t *counter, uint32_t n)
 *         one lane of a workgroup calls it after kd_barrier: adds 1, modulo n, and returns the old value; what the
 *         workgroup wrote before is visible to whoever sees the count, and what others wrote before theirs to the
 *         caller (release and acquire at device scope). The counter is 0 again after n arrivals.
 *   void kd_store_host(KD_GLOBAL uint32_t *, v)    one lane, after kd_barrier: a word of host memory; the host that sees
 *                                                  it sees what the workgroup and earlier dispatches wrote there
 *   uint32_t kd_keep(v), uint64_t kd_keep_va(v)    v, opaque to the compiler
 *   uint32_t kd_uniform(v)                         v, which is the same in all lanes of the warp
 *   void kd_wait_inputs()                          before the first read of what earlier dispatches wrote, and before
 *                                                  the first write; every workgroup calls it
 *   void kd_see_inputs()                           in place of that where all inputs were complete before this launch could
 *                                                  start: they are seen; kd_wait_inputs still follows, at the end;
 *                                                  an item of a walk, which may begin at any time, waits here
 *   void kd_let_next_start()                       a hint: the next dispatch may begin its prologue
 *   float kd_exp2(float)                           fast 2^x, relative error below 1e-6, 0 for very negative x
 *   float kd_root(x)                               the square root where x is of ordinary size, 2^-100 to 2^100: without a way
 *                                                  around for others; rounded to nearest, but for a few of the 2^24 values */

#define KD_PTR(type, va) ((KD_GLOBAL type *)(uintptr_t)(va))

KD_FN uint32_t kd_lane(void) { return kd_tid() % KD_WARP; }
KD_FN uint32_t kd_warp(void) { return kd_uniform(kd_tid() / KD_WARP); }
KD_FN uint32_t kd_n_warps(void) { return kd_group_size() / KD_WARP; }

#if !defined(KD_MSL)
KD_FN float kd_sqrt(float x) { return __builtin_sqrtf(x); }
KD_FN int kd_popcount(uint32_t v) { return __builtin_popcount(v); }
KD_FN float kd_inf(void) { return __builtin_inff(); }
#endif
KD_FN float kd_max(float a, float b) { return a > b ? a : b; }
KD_FN uint32_t kd_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
KD_FN uint32_t kd_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
KD_FN uint32_t kd_div_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* act(gate, up) */
KD_FN float kd_act(uint32_t act, float g, float u)
{
    return act == KA_SILU ? k_silu(g) * u : act == KA_GELU_TANH ? k_gelu_tanh(g) * u : k_swiglu_oai(g, u);
}

/* Sum and maximum over the warp, the same in all lanes, always in the same order. */
KD_FN float kd_warp_sum(float v)
{
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1)
        v += kd_shfl_xor_f32(v, m);
    return v;
}
KD_FN float kd_warp_max(float v)
{
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1)
        v = kd_max(v, kd_shfl_xor_f32(v, m));
    return v;
}

/* The same over the workgroup; `s` is shared memory for one float per warp, free again after the next barrier. */
KD_FN float kd_group_sum(float v, KD_SHARED float *s)
{
    v = kd_warp_sum(v);
    kd_barrier();
    if (kd_lane() == 0)
        s[kd_warp()] = v;
    kd_barrier();
    float t = s[0];
    for (uint32_t i = 1; i < kd_n_warps(); i++)
        t += s[i];
    return t;
}
KD_FN float kd_group_max(float v, KD_SHARED float *s)
{
    v = kd_warp_max(v);
    kd_barrier();
    if (kd_lane() == 0)
        s[kd_warp()] = v;
    kd_barrier();
    float t = s[0];
    for (uint32_t i = 1; i < kd_n_warps(); i++)
        t = kd_max(t, s[i]);
    return t;
}

/* ---- the step block ---- */

KD_FN uint32_t kd_step_rows(gpu_va step, uint32_t rows)
{
    KD_GLOBAL const ka_step *s = KD_PTR(const ka_step, step);
    return rows == ROWS_OUT ? s->n_out : s->n_rows;
}
KD_FN KD_GLOBAL const ka_row *kd_row(gpu_va step, uint32_t r)
{
    return KD_PTR(const ka_row, step + sizeof(ka_step)) + r;
}

#endif
