/* kernels/hw/host.h: the dialect on the host. The lock-step runner (rt/lockstep/run.c) keeps one fibre per work-item;
 * barriers and shuffles hand over to the next one. Kernels are functions `void name(const void *args)`. */
#ifndef ZINC_KERNELS_HW_HOST_H
#define ZINC_KERNELS_HW_HOST_H

#include <string.h>

#define KD_GLOBAL
#define KD_SHARED
#define KD_PICKS 1 /* as on NVIDIA's */

/* The work-item that runs now; the runner owns it. */
struct kd_item {
    uint32_t tid, size;
    uint32_t group[3], groups[3];
    uint8_t *shared; /* of the workgroup; aligned to 1024 */
};
extern _Thread_local struct kd_item kd_item;

/* Rendezvous, in the runner. `what` tells kinds of rendezvous apart: lanes that meet in different ones are an error. */
void kd_host_barrier(void);
void kd_host_warp_sync(void);
void kd_host_wait_inputs(void); /* of a walk (rt/lockstep/walk.h); else it returns at once */
uint32_t kd_host_shfl(uint32_t v, uint32_t from_lane);
const uint32_t *kd_host_share(uint32_t v); /* what all 32 lanes brought, until the lane's next rendezvous */
enum { KD_SHARE_WORDS = 16 };
const uint32_t *kd_host_share_words(const uint32_t *v, uint32_t n); /* the same of n words: word i of lane l is [i * 32 + l] */

#define KD_SHARED_AT(type, off) ((type *)(void *)(kd_item.shared + (off)))

#define KD_KERNEL(name, args)                                                                                          \
    static void name##_body(const args a);                                                                             \
    void name(const void *p);                                                                                          \
    void name(const void *p)                                                                                           \
    {                                                                                                                  \
        args own;                                                                                                      \
        memcpy(&own, p, sizeof own);                                                                                   \
        name##_body(own);                                                                                              \
    }                                                                                                                  \
    static void name##_body(const args a)

KD_FN uint32_t kd_tid(void) { return kd_item.tid; }
KD_FN uint32_t kd_group_size(void) { return kd_item.size; }
KD_FN uint32_t kd_group_x(void) { return kd_item.group[0]; }
KD_FN uint32_t kd_group_y(void) { return kd_item.group[1]; }
KD_FN uint32_t kd_group_z(void) { return kd_item.group[2]; }
KD_FN uint32_t kd_groups_x(void) { return kd_item.groups[0]; }
KD_FN uint32_t kd_groups_y(void) { return kd_item.groups[1]; }

KD_FN void kd_barrier(void) { kd_host_barrier(); }
KD_FN void kd_warp_sync(void) { kd_host_warp_sync(); }
KD_FN uint32_t kd_shfl_u32(uint32_t v, uint32_t lane) { return kd_host_shfl(v, lane); }
KD_FN uint32_t kd_shfl_xor_u32(uint32_t v, uint32_t mask) { return kd_host_shfl(v, (kd_item.tid % KD_WARP) ^ mask); }
KD_FN float kd_shfl_f32(float v, uint32_t lane) { return f32_from_bits(kd_host_shfl(f32_bits(v), lane)); }
KD_FN float kd_shfl_xor_f32(float v, uint32_t mask) { return f32_from_bits(kd_shfl_xor_u32(f32_bits(v), mask)); }

KD_FN int32_t kd_dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 4; i++)
        c += (int32_t)(int8_t)(a >> 8 * i) * (int32_t)(int8_t)(b >> 8 * i);
    return c;
}

KD_FN int32_t kd_dot4u(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 4; i++)
        c += (int32_t)(uint8_t)(a >> 8 * i) * (int32_t)(int8_t)(b >> 8 * i);
    return c;
}
KD_FN int32_t kd_half(uint32_t v, uint32_t upper) { return upper ? (int32_t)v >> 16 : (int16_t)v; }

KD_FN kd_u32x4 kd_load_once(const kd_u32x4 *p) { return *p; }
KD_FN kd_u32x2 kd_load_once8(const kd_u32x2 *p) { return *p; }
KD_FN uint32_t kd_load_once4(const uint32_t *p) { return *p; }
KD_FN void kd_prefetch(const void *p) { (void)p; }

KD_FN uint32_t kd_keep(uint32_t v) { return v; }
KD_FN uint64_t kd_keep_va(uint64_t v) { return v; }
KD_FN uint32_t kd_uniform(uint32_t v) { return v; }

KD_FN uint32_t kd_arrive(uint32_t *counter, uint32_t n)
{
    uint32_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(counter, &old, old + 1 >= n ? 0 : old + 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
    }
    return old;
}

KD_FN void kd_store_host(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

KD_FN void kd_wait_inputs(void) { kd_host_wait_inputs(); }
KD_FN void kd_see_inputs(void) { kd_host_wait_inputs(); }
KD_FN void kd_let_next_start(void) {}

KD_FN float kd_root(float x) { return __builtin_sqrtf(x); }

KD_FN float kd_exp2(float x) { return __builtin_exp2f(x); }

#endif
