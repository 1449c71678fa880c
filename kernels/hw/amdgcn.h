/* kernels/hw/amdgcn.h: the dialect on AMD GPUs, RDNA3 and RDNA4 in wave32. Builtins of clang's AMDGPU target. */
#ifndef ZINC_KERNELS_HW_AMDGCN_H
#define ZINC_KERNELS_HW_AMDGCN_H

#define KD_GLOBAL __attribute__((address_space(1)))
#define KD_SHARED __attribute__((address_space(3)))

/* By address, as the block begins at 0: with an array of unknown size, a function that is not inlined is to be told by its caller
 * which kernel it runs in, and clang 19's callers do not tell. */
KD_FN KD_SHARED uint8_t *kd_shared_at(uint32_t off) { return (KD_SHARED uint8_t *)off; }
#define KD_SHARED_AT(type, off) ((KD_SHARED type *)kd_shared_at(off))

#define KD_KERNEL(name, args) __attribute__((amdgpu_kernel)) void name(const args a)

/* The implicit arguments behind the kernel's own (code object version 5): block counts, then group sizes. */
#define KD_IMPLICIT ((__attribute__((address_space(4))) const uint8_t *)__builtin_amdgcn_implicitarg_ptr())
KD_FN uint32_t kd_tid(void) { return __builtin_amdgcn_workitem_id_x(); }
KD_FN uint32_t kd_group_size(void) { return *(__attribute__((address_space(4))) const uint16_t *)(KD_IMPLICIT + 12); }
KD_FN uint32_t kd_group_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
KD_FN uint32_t kd_group_y(void) { return __builtin_amdgcn_workgroup_id_y(); }
KD_FN uint32_t kd_group_z(void) { return __builtin_amdgcn_workgroup_id_z(); }
KD_FN uint32_t kd_groups_x(void) { return *(__attribute__((address_space(4))) const uint32_t *)KD_IMPLICIT; }
KD_FN uint32_t kd_groups_y(void) { return *(__attribute__((address_space(4))) const uint32_t *)(KD_IMPLICIT + 4); }

KD_FN void kd_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
KD_FN void kd_warp_sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/* Through shared memory's crossbar for any lane; a lane known to the compiler is one register read. */
KD_FN uint32_t kd_shfl_u32(uint32_t v, uint32_t lane)
{
    if (__builtin_constant_p(lane))
        return (uint32_t)__builtin_amdgcn_readlane((int)v, (int)lane);
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane << 2), (int)v);
}
/* Masks known to the compiler take no trip to shared memory: DPP reaches lanes of the same sixteen (row_xmask is control
 * 0x160 + mask), permlanex16 the other sixteen. */
#define KD_ROW_XOR(m) __builtin_amdgcn_mov_dpp((int)v, 0x160 + (m), 15, 15, 1)
KD_FN uint32_t kd_shfl_xor_u32(uint32_t v, uint32_t mask)
{
    if (__builtin_constant_p(mask)) {
        switch (mask) {
        case 1: return (uint32_t)KD_ROW_XOR(1);
        case 2: return (uint32_t)KD_ROW_XOR(2);
        case 4: return (uint32_t)KD_ROW_XOR(4);
        case 8: return (uint32_t)KD_ROW_XOR(8);
        case 16: return __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, 0, 0);
        default: break;
        }
    }
    return kd_shfl_u32(v, (kd_tid() % KD_WARP) ^ mask);
}
KD_FN float kd_shfl_f32(float v, uint32_t lane) { return f32_from_bits(kd_shfl_u32(f32_bits(v), lane)); }
KD_FN float kd_shfl_xor_f32(float v, uint32_t mask) { return f32_from_bits(kd_shfl_xor_u32(f32_bits(v), mask)); }

KD_FN int32_t kd_dot4(uint32_t a, uint32_t b, int32_t c)
{
    return __builtin_amdgcn_sudot4(1, (int)a, 1, (int)b, c, 0);
}

KD_FN int32_t kd_dot4u(uint32_t a, uint32_t b, int32_t c)
{
    return __builtin_amdgcn_sudot4(0, (int)a, 1, (int)b, c, 0);
}
KD_FN int32_t kd_half(uint32_t v, uint32_t upper) { return upper ? (int32_t)v >> 16 : (int16_t)v; }

KD_FN kd_u32x4 kd_load_once(KD_GLOBAL const kd_u32x4 *p) { return __builtin_nontemporal_load(p); }
KD_FN kd_u32x2 kd_load_once8(KD_GLOBAL const kd_u32x2 *p) { return __builtin_nontemporal_load(p); }
KD_FN uint32_t kd_load_once4(KD_GLOBAL const uint32_t *p) { return __builtin_nontemporal_load(p); }
KD_FN void kd_prefetch(KD_GLOBAL const void *p) { (void)p; }

KD_FN uint32_t kd_keep(uint32_t v) { return v; }
KD_FN uint64_t kd_keep_va(uint64_t v) { return v; }
/* In a scalar register: what depends on it alone is scalar work, and its branches cost no lane masks. */
KD_FN uint32_t kd_uniform(uint32_t v) { return __builtin_amdgcn_readfirstlane(v); }

KD_FN uint32_t kd_arrive(KD_GLOBAL uint32_t *counter, uint32_t n)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    uint32_t old = __builtin_amdgcn_atomic_inc32(counter, n - 1, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return old;
}

/* What was written before is there for the host when it sees v. */
KD_FN void kd_store_host(KD_GLOBAL uint32_t *p, uint32_t v)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

KD_FN void kd_wait_inputs(void) {}
KD_FN void kd_see_inputs(void) {}
KD_FN void kd_let_next_start(void) {}

KD_FN float kd_root(float x) { return __builtin_sqrtf(x); }

KD_FN float kd_exp2(float x) { return __builtin_amdgcn_exp2f(x); }

#endif
