/* kernels/hw/wgmma.h
 * Hopper's asynchronous machinery, sm_90a: barriers in shared memory, bulk copies that complete on them, and matrix
 * products of a warpgroup (four warps). Source: the PTX ISA manual.
 *
 *   bar_init(b, n)             n arrivals (and the bytes expected) complete a phase; phases alternate between 0 and 1
 *   bar_init_done()            by the thread that initialised, before the work-group's barrier
 *   bar_arrive(b)              this thread's writes and reads come before; not before a bulk copy that somebody then starts over
 *                              what was read: that takes async_fence_shared() first (a load may still be under way)
 *   bar_arrive_bytes(b, n)     an arrival that also announces n bytes of bulk copies
 *   bar_wait(b, phase)         until the phase of that parity is complete; a fresh barrier's phase 1 is
 *   bulk_copy(dst, src, n, b)  n bytes from global to shared memory, 16-byte aligned; counts at b
 *   async_fence_global(), async_fence_shared()   this thread's ordinary writes to that memory before the copies and products
 *                              that are started later. Without the memory's name it is a fence for the whole GPU (MEMBAR.ALL.GPU)
 *   wg_tile(p)                 descriptor of a tile in shared memory, 1024-byte aligned: rows of 128 bytes (64 bf16),
 *                              the 16-byte piece i of row r at i ^ (r % 8)
 *   wg_multiply_N(d, a, b, add) D[64, N] (+)= A[64, 64] B[N, 64]^T and a commit; d: N / 2 floats a thread, add = 0
 *                              starts from zero. d[4 j + 2 h + c] is row 16 warp + lane / 4 + 8 h, column
 *                              8 j + lane % 4 * 2 + c
 *   wg_multiply_regs_N(d, a, b, add) the same of f16 with A in registers: a[4 s .. 4 s + 3] is step s of 16 along k, as mma.h's
 *                              fragments are, of the warp's 16 rows. a stays as it is until the product is complete
 *   wg_part_half_64(d, a, b, add) as wg_multiply_64, of f16
 *   wg_tile_across(p, n)       descriptor of such a tile as B across: its rows are those of k, 64 columns wide, and every n bytes
 *                              begin the next 64 columns
 *   wg_part_across_N(d, a, b)  as wg_multiply_regs_N, B[64, N] across, added to d
 *   wg_begin(), wg_part_*(..), wg_end() several of these with one commit: wg_part_regs_64, wg_part_half_64, wg_part_across_N. Between
 *                              the first two and the last no other instruction writes what they use
 *   wg_any(b)                  is b true in a lane of the warp?
 *   wg_uniform(v)              v, which is the same in all lanes, in a register of the warp: descriptors from it cost no moves
 *   wg_registers_less(n), wg_registers_more(n)   registers of each thread from now on, a literal, for whole warpgroups
 *   bulk_prefetch(p, n)        n bytes into the level-2 cache, 16-byte aligned
 *   wg_wait_1(), wg_wait_1_64(d), wg_wait_0_N(d), wg_wait_0(d, N) until at most that many commits are under way; d is valid then
 *   KD_NO_UNROLL               before a loop
 * On the host kernels/hw/wgmma_host.h has them. */
#ifndef ZINC_KERNELS_HW_WGMMA_H
#define ZINC_KERNELS_HW_WGMMA_H

#include "kernels/hw/tile.h"

#if !defined(__NVPTX__)
#include "kernels/hw/wgmma_host.h"
#else

#define KD_NO_UNROLL _Pragma("nounroll")

typedef KD_SHARED uint64_t wg_bar;

KD_FN uint32_t wg_addr(KD_SHARED const void *p) { return (uint32_t)(uintptr_t)p; }

KD_FN void bar_init(wg_bar *b, uint32_t n)
{
    __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(wg_addr(b)), "r"(n) : "memory");
}
KD_FN void bar_init_done(void) { __asm__ volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); }
KD_FN void bar_arrive(wg_bar *b)
{
    __asm__ volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(wg_addr(b)) : "memory");
}
KD_FN void bar_arrive_bytes(wg_bar *b, uint32_t n)
{
    __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(wg_addr(b)), "r"(n) : "memory");
}
KD_FN void bar_wait(wg_bar *b, uint32_t phase)
{
    __asm__ volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "bar_wait_%=:\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
                     "@!p bra bar_wait_%=;\n\t"
                     "}"
                     :
                     : "r"(wg_addr(b)), "r"(phase)
                     : "memory");
}
KD_FN void bulk_copy(KD_SHARED void *dst, KD_GLOBAL const void *src, uint32_t n, wg_bar *b)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :
                     : "r"(wg_addr(dst)), "l"(src), "r"(n), "r"(wg_addr(b))
                     : "memory");
}
KD_FN void bulk_prefetch(KD_GLOBAL const void *p, uint32_t n)
{
    __asm__ volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(p), "r"(n) : "memory");
}
#define wg_registers_less(n) __asm__ volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
#define wg_registers_more(n) __asm__ volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
KD_FN void async_fence_global(void) { __asm__ volatile("fence.proxy.async.global;" : : : "memory"); }
KD_FN void async_fence_shared(void) { __asm__ volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

KD_FN void wg_wait_1(void) { __asm__ volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory"); }

/* The accumulators of a wait: the compiler may not read them earlier. */
#define WG_F8(d, i)                                                                                                    \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define WG_F16(d, i)  WG_F8(d, i), WG_F8(d, i + 8)
#define WG_F32(d, i)  WG_F16(d, i), WG_F16(d, i + 16)
#define WG_F64(d, i)  WG_F32(d, i), WG_F32(d, i + 32)

#define WG_R0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WG_R16 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WG_R32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WG_R48 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WG_R64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WG_R80 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WG_R96 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define WG_R112 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* Four steps of 16 along k, 32 bytes apart in the swizzled rows; operand numbers follow the N / 2 accumulators. */
#define WG_STEP(n, type, list, a, b, p)                                                                                \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" list "}, " a ", " b ", " p ", 1, 1, 0, 0;\n\t"
#define WG_BEGIN "wgmma.fence.sync.aligned;\n\t"
#define WG_END   "wgmma.commit_group.sync.aligned;\n\t"
KD_FN void wg_begin(void) { __asm__ volatile(WG_BEGIN : : : "memory"); }
KD_FN void wg_end(void) { __asm__ volatile(WG_END : : : "memory"); }
KD_FN uint32_t wg_uniform(uint32_t v) { return kd_shfl_u32(v, 0); }
KD_FN bool wg_any(bool b) { return __nvvm_vote_any_sync(~0u, b); }

#define WG_MULTIPLY_OF(name, begin, end, n, type, list, da, db, add_op, ...)                                           \
    KD_FN void name(float *d, uint64_t a, uint64_t b, uint32_t add)                                                    \
    {                                                                                                                  \
        __asm__ volatile("{\n\t"                                                                                       \
                         ".reg .pred p, q;\n\t"                                                                        \
                         ".reg .b64 a1, a2, a3, b1, b2, b3;\n\t"                                                       \
                         "setp.ne.b32 p, " add_op ", 0;\n\t"                                                           \
                         "setp.eq.b32 q, " add_op ", " add_op ";\n\t"                                                  \
                         "add.s64 a1, " da ", 2;\n\tadd.s64 a2, " da ", 4;\n\tadd.s64 a3, " da ", 6;\n\t"                \
                         "add.s64 b1, " db ", 2;\n\tadd.s64 b2, " db ", 4;\n\tadd.s64 b3, " db ", 6;\n\t"                \
                         begin                                                                                         \
                         WG_STEP(n, type, list, da, db, "p")                                                           \
                         WG_STEP(n, type, list, "a1", "b1", "q")                                                       \
                         WG_STEP(n, type, list, "a2", "b2", "q")                                                       \
                         WG_STEP(n, type, list, "a3", "b3", "q")                                                       \
                         end "}"                                                                                       \
                         : __VA_ARGS__                                                                                 \
                         : "l"(a), "l"(b), "r"(add)                                                                    \
                         : "memory");                                                                                  \
    }
#define WG_MULTIPLY(n, ...) WG_MULTIPLY_OF(wg_multiply_##n, WG_BEGIN, WG_END, n, "bf16", __VA_ARGS__)
WG_MULTIPLY(32, WG_R0, "%16", "%17", "%18", WG_F16(d, 0))
WG_MULTIPLY(64, WG_R0 ", " WG_R16, "%32", "%33", "%34", WG_F32(d, 0))
WG_MULTIPLY(96, WG_R0 ", " WG_R16 ", " WG_R32, "%48", "%49", "%50", WG_F32(d, 0), WG_F16(d, 32))
WG_MULTIPLY(128, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48, "%64", "%65", "%66", WG_F64(d, 0))
WG_MULTIPLY(192, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48 ", " WG_R64 ", " WG_R80,
            "%96", "%97", "%98", WG_F64(d, 0), WG_F32(d, 64))
WG_MULTIPLY(256, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48 ", " WG_R64 ", " WG_R80 ", " WG_R96 ", " WG_R112,
            "%128", "%129", "%130", WG_F64(d, 0), WG_F64(d, 64))
WG_MULTIPLY_OF(wg_part_half_64, "", "", 64, "f16", WG_R0 ", " WG_R16, "%32", "%33", "%34", WG_F32(d, 0))

/* a step is `by` units of 16 bytes further in B, which lies across or not: 128 and 1, or 2 and 0 */
#define WG_STEP_REGS(n, across, list, s, b, p)                                                                         \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" list "}, {%[a" #s "0], %[a" #s "1], %[a" #s "2], %[a" #s   \
    "3]}, " b ", " p ", 1, 1, " #across ";\n\t"
#define WG_A(a, s)                                                                                                     \
    [a##s##0] "r"(a[4 * s]), [a##s##1] "r"(a[4 * s + 1]), [a##s##2] "r"(a[4 * s + 2]), [a##s##3] "r"(a[4 * s + 3])
#define WG_MULTIPLY_REGS_OF(begin, end, n, across, by, list, ...)                                                      \
    __asm__ volatile("{\n\t"                                                                                           \
                     ".reg .pred p, q;\n\t"                                                                            \
                     ".reg .b64 b1, b2, b3;\n\t"                                                                       \
                     ".reg .b32 lo, hi, at;\n\t"                                                                       \
                     "setp.ne.b32 p, %[add], 0;\n\t"                                                                   \
                     "setp.eq.b32 q, %[add], %[add];\n\t"                                                              \
                     "mov.b64 {lo, hi}, %[b];\n\t"                                                                     \
                     "add.u32 at, lo, " #by ";\n\tmov.b64 b1, {at, hi};\n\t"                                         \
                     "add.u32 at, lo, 2 * " #by ";\n\tmov.b64 b2, {at, hi};\n\t"                                     \
                     "add.u32 at, lo, 3 * " #by ";\n\tmov.b64 b3, {at, hi};\n\t"                                     \
                     begin                                                                                             \
                     WG_STEP_REGS(n, across, list, 0, "%[b]", "p")                                                     \
                     WG_STEP_REGS(n, across, list, 1, "b1", "q")                                                       \
                     WG_STEP_REGS(n, across, list, 2, "b2", "q")                                                       \
                     WG_STEP_REGS(n, across, list, 3, "b3", "q")                                                       \
                     end "}"                                                                                           \
                     : __VA_ARGS__                                                                                     \
                     : WG_A(a, 0), WG_A(a, 1), WG_A(a, 2), WG_A(a, 3), [b] "l"(b), [add] "r"(add)                      \
                     : "memory")
#define WG_MULTIPLY_REGS(n, list, ...)                                                                                 \
    KD_FN void wg_multiply_regs_##n(float *d, const uint32_t *a, uint64_t b, uint32_t add)                             \
    {                                                                                                                  \
        WG_MULTIPLY_REGS_OF(WG_BEGIN, WG_END, n, 0, 2, list, __VA_ARGS__);                                             \
    }
#define WG_PART_REGS(n, list, ...)                                                                                     \
    KD_FN void wg_part_regs_##n(float *d, const uint32_t *a, uint64_t b, uint32_t add)                                 \
    {                                                                                                                  \
        WG_MULTIPLY_REGS_OF("", "", n, 0, 2, list, __VA_ARGS__);                                                       \
    }
#define WG_PART_ACROSS(n, list, ...)                                                                                   \
    KD_FN void wg_part_across_##n(float *d, const uint32_t *a, uint64_t b)                                             \
    {                                                                                                                  \
        const uint32_t add = 1;                                                                                        \
        WG_MULTIPLY_REGS_OF("", "", n, 1, 128, list, __VA_ARGS__);                                                     \
    }
WG_MULTIPLY_REGS(32, WG_R0, WG_F16(d, 0))
WG_MULTIPLY_REGS(64, WG_R0 ", " WG_R16, WG_F32(d, 0))
WG_MULTIPLY_REGS(96, WG_R0 ", " WG_R16 ", " WG_R32, WG_F32(d, 0), WG_F16(d, 32))
WG_MULTIPLY_REGS(128, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48, WG_F64(d, 0))
WG_MULTIPLY_REGS(192, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48 ", " WG_R64 ", " WG_R80, WG_F64(d, 0), WG_F32(d, 64))
WG_MULTIPLY_REGS(256, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48 ", " WG_R64 ", " WG_R80 ", " WG_R96 ", " WG_R112,
                 WG_F64(d, 0), WG_F64(d, 64))
WG_PART_REGS(64, WG_R0 ", " WG_R16, WG_F32(d, 0))
WG_PART_ACROSS(64, WG_R0 ", " WG_R16, WG_F32(d, 0))
WG_PART_ACROSS(128, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48, WG_F64(d, 0))
WG_PART_ACROSS(256, WG_R0 ", " WG_R16 ", " WG_R32 ", " WG_R48 ", " WG_R64 ", " WG_R80 ", " WG_R96 ", " WG_R112,
               WG_F64(d, 0), WG_F64(d, 64))

/* Until all products are complete, or all but one; d passes through, so that nothing reads it earlier. */
#define WG_WAIT(most, n, ...)                                                                                          \
    KD_FN void wg_wait_##most##_##n(float *d)                                                                          \
    {                                                                                                                  \
        __asm__ volatile("wgmma.wait_group.sync.aligned " #most ";" : __VA_ARGS__ : : "memory");                       \
    }
#define WG_WAIT_0(...) WG_WAIT(0, __VA_ARGS__)
WG_WAIT(1, 64, WG_F32(d, 0))
WG_WAIT_0(32, WG_F16(d, 0))
WG_WAIT_0(64, WG_F32(d, 0))
WG_WAIT_0(96, WG_F32(d, 0), WG_F16(d, 32))
WG_WAIT_0(128, WG_F64(d, 0))
WG_WAIT_0(192, WG_F64(d, 0), WG_F32(d, 64))
WG_WAIT_0(256, WG_F64(d, 0), WG_F64(d, 64))

#endif

/* n: a constant. */
KD_FN void wg_wait_0(float *d, uint32_t n)
{
    switch (n) {
    case 32: wg_wait_0_32(d); break;
    case 64: wg_wait_0_64(d); break;
    case 96: wg_wait_0_96(d); break;
    case 128: wg_wait_0_128(d); break;
    case 192: wg_wait_0_192(d); break;
    default: wg_wait_0_256(d);
    }
}

/* Start address and the distance between groups of 8 rows in units of 16 bytes, swizzle over 128 bytes. */
KD_FN uint64_t wg_tile(KD_SHARED const void *p)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | (wg_addr(p) & 0x3ffff) >> 4;
}
/* The leading distance is that between blocks of 64 columns; the one between groups of 8 rows of k is as above. */
KD_FN uint64_t wg_tile_across(KD_SHARED const void *p, uint32_t n)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(n >> 4) << 16 | (wg_addr(p) & 0x3ffff) >> 4;
}

#endif
