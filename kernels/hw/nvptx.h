/* kernels/hw/nvptx.h: the dialect on NVIDIA GPUs (sm_80 and newer). Inline PTX lives here and in its siblings only.
 * Source of the instructions' meaning: the PTX ISA manual. */
#ifndef ZINC_KERNELS_HW_NVPTX_H
#define ZINC_KERNELS_HW_NVPTX_H

#define KD_GLOBAL __attribute__((address_space(1)))
#define KD_SHARED __attribute__((address_space(3)))

extern KD_SHARED uint8_t kd_dynamic_shared[] __attribute__((aligned(1024)));

/* Compiled with KD_WALK, a kernel is a function that a walk calls (kernels/walk.h): its arguments lie in constant memory,
 * and which group it is stands in front of its shared memory. */
#ifdef KD_WALK
#include "kernels/walk.h"
#define WALK_GROUP              ((KD_SHARED struct walk_group *)kd_dynamic_shared)
#define KD_SHARED_AT(type, off) ((KD_SHARED type *)(kd_dynamic_shared + WALK_HEAD + (off)))
#define KD_KERNEL(name, args)                                                                                          \
    KD_FN void name##_body(const args a);                                                                              \
    void name##_walk(__attribute__((address_space(4))) const args *a)                                                  \
    {                                                                                                                  \
        const args own = *a; /* no copy is made: constant memory cannot change */                                      \
        name##_body(own);                                                                                              \
    }                                                                                                                  \
    KD_FN void name##_body(const args a)
#else
#define KD_SHARED_AT(type, off) ((KD_SHARED type *)(kd_dynamic_shared + (off)))
#define KD_KERNEL(name, args)   __attribute__((nvptx_kernel)) void name(const args a)
#endif

KD_FN uint32_t kd_tid(void) { return (uint32_t)__nvvm_read_ptx_sreg_tid_x(); }
#ifdef KD_WALK
KD_FN uint32_t kd_group_size(void) { return WALK_THREADS; }
KD_FN uint32_t kd_group_x(void) { return WALK_GROUP->id[0]; }
KD_FN uint32_t kd_group_y(void) { return WALK_GROUP->id[1]; }
KD_FN uint32_t kd_group_z(void) { return WALK_GROUP->id[2]; }
KD_FN uint32_t kd_groups_x(void) { return WALK_GROUP->grid[0]; }
KD_FN uint32_t kd_groups_y(void) { return WALK_GROUP->grid[1]; }
#else
KD_FN uint32_t kd_group_size(void) { return (uint32_t)__nvvm_read_ptx_sreg_ntid_x(); }
KD_FN uint32_t kd_group_x(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(); }
KD_FN uint32_t kd_group_y(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_y(); }
KD_FN uint32_t kd_group_z(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_z(); }
KD_FN uint32_t kd_groups_x(void) { return (uint32_t)__nvvm_read_ptx_sreg_nctaid_x(); }
KD_FN uint32_t kd_groups_y(void) { return (uint32_t)__nvvm_read_ptx_sreg_nctaid_y(); }
#endif

KD_FN void kd_barrier(void) { __nvvm_bar_sync(0); }
KD_FN void kd_warp_sync(void) { __nvvm_bar_warp_sync(0xffffffffu); }

KD_FN uint32_t kd_shfl_xor_u32(uint32_t v, uint32_t mask)
{
    return (uint32_t)__nvvm_shfl_sync_bfly_i32(0xffffffffu, (int)v, (int)mask, 31);
}
KD_FN uint32_t kd_shfl_u32(uint32_t v, uint32_t lane)
{
    return (uint32_t)__nvvm_shfl_sync_idx_i32(0xffffffffu, (int)v, (int)lane, 31);
}
KD_FN float kd_shfl_xor_f32(float v, uint32_t mask)
{
    return __nvvm_shfl_sync_bfly_f32(0xffffffffu, v, (int)mask, 31);
}
KD_FN float kd_shfl_f32(float v, uint32_t lane) { return __nvvm_shfl_sync_idx_f32(0xffffffffu, v, (int)lane, 31); }

KD_FN int32_t kd_dot4(uint32_t a, uint32_t b, int32_t c)
{
    int32_t d;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

#define KD_PICKS 1
#define KD_PICK4
KD_FN uint32_t kd_pick4(uint32_t a, uint32_t b, uint32_t at) { return __nvvm_prmt(a, b, at); }

/* As ptxas makes one conversion of it, I2F, which picks the byte itself. */
#define KD_BYTE_F32 1
KD_FN float kd_byte_f32(uint32_t v, uint32_t k)
{
    float f;
    __asm__("{\n\t.reg .b32 t;\n\tbfe.u32 t, %1, %2, 8;\n\tcvt.rn.f32.u32 %0, t;\n\t}" : "=f"(f) : "r"(v), "n"(8 * k));
    return f;
}
KD_FN float kd_signed_byte_f32(uint32_t v, uint32_t k)
{
    float f;
    __asm__("{\n\t.reg .b32 t;\n\tbfe.s32 t, %1, %2, 8;\n\tcvt.rn.f32.s32 %0, t;\n\t}" : "=f"(f) : "r"(v), "n"(8 * k));
    return f;
}
KD_FN int32_t kd_dot4u(uint32_t a, uint32_t b, int32_t c)
{
    int32_t d;
    __asm__("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
KD_FN int32_t kd_half(uint32_t v, uint32_t upper) { return (int32_t)__nvvm_prmt(v, 0, upper ? 0xbb32 : 0x9910); }

/* Volatile, so that loads keep their place: kernels issue them early on purpose. The cache's new rows are written in the same
 * launch when a walk runs them, so nothing is of the read-only kind there. */
#ifdef KD_WALK
#define KD_LD "ld.global.L1::no_allocate.L2::128B"
#else
#define KD_LD "ld.global.nc.L1::no_allocate.L2::128B"
#endif
KD_FN kd_u32x4 kd_load_once(KD_GLOBAL const kd_u32x4 *p)
{
    uint32_t x, y, z, w;
    __asm__ volatile(KD_LD ".v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "l"(p));
    return (kd_u32x4){ x, y, z, w };
}
KD_FN kd_u32x2 kd_load_once8(KD_GLOBAL const kd_u32x2 *p)
{
    uint32_t x, y;
    __asm__ volatile(KD_LD ".v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p));
    return (kd_u32x2){ x, y };
}
KD_FN uint32_t kd_load_once4(KD_GLOBAL const uint32_t *p)
{
    uint32_t x;
    __asm__ volatile(KD_LD ".u32 %0, [%1];" : "=r"(x) : "l"(p));
    return x;
}
#define KD_RELOAD
KD_FN void kd_reload16(uint32_t *w, KD_GLOBAL const kd_u32x4 *p, uint32_t is)
{
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t@p " KD_LD ".v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                     : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
                     : "l"(p), "r"(is));
}
KD_FN void kd_reload8(uint32_t *w, KD_GLOBAL const kd_u32x2 *p, uint32_t is)
{
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\t@p " KD_LD ".v2.u32 {%0, %1}, [%2];\n\t}"
                     : "+r"(w[0]), "+r"(w[1])
                     : "l"(p), "r"(is));
}
KD_FN void kd_prefetch(KD_GLOBAL const void *p) { __asm__ volatile("prefetch.global.L2 [%0];" : : "l"(p)); }

#ifndef KD_WALK
#define KD_ASK_ARGS
/* For the compilers the loads are for something: a trap where all are 0, which an address is not. */
KD_FN void kd_ask_args(const void *args, uint32_t bytes, KD_GLOBAL const void *any)
{
    enum { LINE = 64 };
    uint32_t all = (uint32_t)(uintptr_t)any | (uint32_t)((uintptr_t)any >> 32);
    KD_UNROLL
    for (uint32_t i = LINE / 4 - 1; i < bytes / 4; i += LINE / 4)
        all |= ((const uint32_t *)args)[i];
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %0, 0;\n\t@p trap;\n\t}" : : "r"(all));
}
#endif

/* The value as it is, but the compiler does not know where it came from. */
KD_FN uint32_t kd_keep(uint32_t v)
{
    __asm__("" : "+r"(v));
    return v;
}
KD_FN uint64_t kd_keep_va(uint64_t v)
{
    __asm__("" : "+l"(v));
    return v;
}
KD_FN uint32_t kd_uniform(uint32_t v) { return v; }

KD_FN uint32_t kd_arrive(KD_GLOBAL uint32_t *counter, uint32_t n)
{
    uint32_t old;
    __asm__ volatile("fence.acq_rel.gpu;\n\tatom.global.inc.u32 %0, [%1], %2;\n\tfence.acq_rel.gpu;"
                     : "=r"(old)
                     : "l"(counter), "r"(n - 1)
                     : "memory");
    return old;
}

/* What was written before is there for the host when it sees v. */
KD_FN void kd_store_host(KD_GLOBAL uint32_t *p, uint32_t v)
{
    __asm__ volatile("fence.acq_rel.sys;\n\tst.release.sys.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

#ifdef KD_WALK
/* One more work-group is through with its item. */
KD_FN void kd_release(KD_GLOBAL uint32_t *counter)
{
    __asm__ volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(counter) : "memory");
}
KD_FN void kd_wait_inputs(void)
{
    enum { LOOK = 1 << 16 };
    KD_SHARED const struct walk_group *g = WALK_GROUP;
    if (!g->wait)
        return;
    if (kd_tid() == 0) {
        uint32_t seen, turns = 0;
        uint64_t until = 0;
        for (;;) {
            __asm__ volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(g->counter) : "memory");
            if (seen >= g->need)
                break;
            if (++turns % LOOK)
                continue;
            uint64_t now;
            __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
            until = until ? until : now + WALK_SECONDS * 1000000000ull;
            if (now > until)
                __builtin_trap();
        }
    }
    kd_barrier();
}
/* A walk's item begins while those before it run, whatever these have waited for. */
KD_FN void kd_see_inputs(void) { kd_wait_inputs(); }
KD_FN void kd_let_next_start(void) {}
#elif __CUDA_ARCH__ >= 900 || defined(KD_SM90)
KD_FN void kd_wait_inputs(void) { __asm__ volatile("griddepcontrol.wait;" ::: "memory"); }
KD_FN void kd_see_inputs(void) { __asm__ volatile("fence.acq_rel.gpu;" ::: "memory"); }
KD_FN void kd_let_next_start(void) { __asm__ volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
KD_FN void kd_wait_inputs(void) {}
KD_FN void kd_see_inputs(void) {}
KD_FN void kd_let_next_start(void) {}
#endif

KD_FN float kd_root(float x)
{
    float y;
    __asm__("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    float s = x * y;
    return __builtin_fmaf(__builtin_fmaf(-s, s, x), 0.5f * y, s);
}

KD_FN float kd_exp2(float x)
{
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
