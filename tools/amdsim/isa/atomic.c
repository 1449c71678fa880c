/* Atomic instructions on memory. Work-groups run on several threads, and the host looks on: they are atomic here
 * too. */
#include "tools/amdsim/isa/atomic.h"
#include "tools/amdsim/isa/float.h"
#include "tools/amdsim/isa/mem.h"

#include <stddef.h>

static const struct float_mode exact = { .round = ROUND_EVEN };

static uint32_t add_bf16(uint32_t a, uint32_t b)
{
    uint64_t sum = float_add(&F32, a << 16, b << 16, exact);
    if (float_is_nan(&F32, sum))
        return (uint32_t)(sum >> 16) | 0x40;
    return (uint32_t)((sum + 0x7fff + (sum >> 16 & 1)) >> 16) & 0xffff;
}

static int64_t extend(uint64_t x, uint32_t bytes)
{
    return bytes == 4 ? (int32_t)x : (int64_t)x;
}

static uint64_t float_result(enum atomic_kind k, uint32_t bytes, uint64_t old, uint64_t data, uint64_t data1)
{
    const struct float_fmt *f = bytes == 4 ? &F32 : &F64;
    switch (k) {
    case A_CMPSWAP_F: return float_compare(f, old, data1, exact) == 0 ? data : old;
    case A_ADD_F: return float_add(f, old, data, exact);
    case A_MIN_F: return float_min(f, old, data, NAN_NUMBER, exact);
    case A_MAX_F: return float_max(f, old, data, NAN_NUMBER, exact);
    case A_PK_ADD_F16:
        return float_add(&F16, old & 0xffff, data & 0xffff, exact)
            | float_add(&F16, old >> 16 & 0xffff, data >> 16 & 0xffff, exact) << 16;
    default: /* A_PK_ADD_BF16 */
        return add_bf16(old & 0xffff, data & 0xffff) | add_bf16(old >> 16 & 0xffff, data >> 16 & 0xffff) << 16;
    }
}

uint64_t atomic_result(enum atomic_kind k, uint32_t bytes, uint64_t old, uint64_t data, uint64_t data1)
{
    switch (k) {
    case A_SWAP: return data;
    case A_CMPSWAP: return old == data1 ? data : old;
    case A_ADD: return old + data;
    case A_SUB: return old - data;
    case A_RSUB: return data - old;
    case A_SUB_CLAMP: return old < data ? 0 : old - data;
    case A_COND_SUB: return old >= data ? old - data : old;
    case A_MIN_I: return extend(old, bytes) < extend(data, bytes) ? old : data;
    case A_MIN_U: return old < data ? old : data;
    case A_MAX_I: return extend(old, bytes) > extend(data, bytes) ? old : data;
    case A_MAX_U: return old > data ? old : data;
    case A_AND: return old & data;
    case A_OR: return old | data;
    case A_XOR: return old ^ data;
    case A_INC: return old >= data ? 0 : old + 1;
    case A_DEC: return old == 0 || old > data ? data : old - 1;
    case A_MASK_OR: return (old & ~data) | data1;
    case A_WRAP: return old >= data ? old - data : old + data1;
    default: return float_result(k, bytes, old, data, data1);
    }
}

static inline void atomic(struct wave *w, const struct inst *in, enum atomic_kind k, uint32_t bytes)
{
    struct lanes a;
    uint32_t words = bytes / 4;
    uint64_t before[WAVE_LANES] = { 0 };
    mem_lanes(w, in, bytes, &a);
    w->g->stored = true;
    for (uint32_t left = a.active; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        uint32_t(*v)[WAVE_LANES] = &w->v[in->data];
        uint64_t data = v[0][l], data1 = v[words][l];
        if (bytes == 8) {
            data |= (uint64_t)v[1][l] << 32;
            data1 |= (uint64_t)v[3][l] << 32;
        }
        void *p = mem_word(w, in, l, a.va[l], bytes);
        if (!p && w->fault.kind != ISA_FAULT_NONE)
            return;
        if (!p)
            continue;
        if (bytes == 4) {
            uint32_t old = __atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST);
            while (!__atomic_compare_exchange_n((uint32_t *)p, &old, (uint32_t)atomic_result(k, 4, old, data, data1),
                                                false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                ;
            before[l] = old;
        } else {
            uint64_t old = __atomic_load_n((uint64_t *)p, __ATOMIC_SEQ_CST);
            while (!__atomic_compare_exchange_n((uint64_t *)p, &old, atomic_result(k, 8, old, data, data1), false,
                                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                ;
            before[l] = old;
        }
    }
    if (!(in->th & 1)) /* glc, or TH_ATOMIC_RETURN: the value before */
        return;
    for (uint32_t left = a.active | a.zero; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        w->v[in->vdst][l] = (uint32_t)before[l];
        if (bytes == 8)
            w->v[in->vdst + 1][l] = (uint32_t)(before[l] >> 32);
    }
}

#define ATOMICS(X)                                                                                                     \
    X(0x33, MEM_ALL, swap_b32, A_SWAP, 4)                                                                              \
    X(0x34, MEM_ALL, cmpswap_b32, A_CMPSWAP, 4)                                                                        \
    X(0x35, MEM_ALL, add_u32, A_ADD, 4)                                                                                \
    X(0x36, MEM_ALL, sub_u32, A_SUB, 4)                                                                                \
    X(0x37, MEM_GFX11, csub_u32, A_SUB_CLAMP, 4)                                                                       \
    X(0x37, MEM_GFX12, sub_clamp_u32, A_SUB_CLAMP, 4)                                                                  \
    X(0x38, MEM_ALL, min_i32, A_MIN_I, 4)                                                                              \
    X(0x39, MEM_ALL, min_u32, A_MIN_U, 4)                                                                              \
    X(0x3a, MEM_ALL, max_i32, A_MAX_I, 4)                                                                              \
    X(0x3b, MEM_ALL, max_u32, A_MAX_U, 4)                                                                              \
    X(0x3c, MEM_ALL, and_b32, A_AND, 4)                                                                                \
    X(0x3d, MEM_ALL, or_b32, A_OR, 4)                                                                                  \
    X(0x3e, MEM_ALL, xor_b32, A_XOR, 4)                                                                                \
    X(0x3f, MEM_ALL, inc_u32, A_INC, 4)                                                                                \
    X(0x40, MEM_ALL, dec_u32, A_DEC, 4)                                                                                \
    X(0x41, MEM_ALL, swap_b64, A_SWAP, 8)                                                                              \
    X(0x42, MEM_ALL, cmpswap_b64, A_CMPSWAP, 8)                                                                        \
    X(0x43, MEM_ALL, add_u64, A_ADD, 8)                                                                                \
    X(0x44, MEM_ALL, sub_u64, A_SUB, 8)                                                                                \
    X(0x45, MEM_ALL, min_i64, A_MIN_I, 8)                                                                              \
    X(0x46, MEM_ALL, min_u64, A_MIN_U, 8)                                                                              \
    X(0x47, MEM_ALL, max_i64, A_MAX_I, 8)                                                                              \
    X(0x48, MEM_ALL, max_u64, A_MAX_U, 8)                                                                              \
    X(0x49, MEM_ALL, and_b64, A_AND, 8)                                                                                \
    X(0x4a, MEM_ALL, or_b64, A_OR, 8)                                                                                  \
    X(0x4b, MEM_ALL, xor_b64, A_XOR, 8)                                                                                \
    X(0x4c, MEM_ALL, inc_u64, A_INC, 8)                                                                                \
    X(0x4d, MEM_ALL, dec_u64, A_DEC, 8)                                                                                \
    X(0x50, MEM_GFX11, cmpswap_f32, A_CMPSWAP_F, 4)                                                                    \
    X(0x50, MEM_GFX12, cond_sub_u32, A_COND_SUB, 4)                                                                    \
    X(0x51, MEM_GFX11, min_f32, A_MIN_F, 4)                                                                            \
    X(0x52, MEM_GFX11, max_f32, A_MAX_F, 4)                                                                            \
    X(0x51, MEM_GFX12, min_num_f32, A_MIN_F, 4)                                                                        \
    X(0x52, MEM_GFX12, max_num_f32, A_MAX_F, 4)                                                                        \
    X(0x56, MEM_ALL, add_f32, A_ADD_F, 4)                                                                              \
    X(0x59, MEM_GFX12, pk_add_f16, A_PK_ADD_F16, 4)                                                                    \
    X(0x5a, MEM_GFX12, pk_add_bf16, A_PK_ADD_BF16, 4)

#define FUNCTION(op, chips, name, kind, bytes)                                                                         \
    static void do_##name(struct wave *w, const struct inst *in) { atomic(w, in, kind, bytes); }
#define ENTRY(op, chips, name, kind, bytes)                                                                            \
    { op, chips, { "flat_atomic_" #name, "global_atomic_" #name, NULL, "buffer_atomic_" #name }, do_##name },
ATOMICS(FUNCTION)
const struct mem_op atomic_ops[] = { ATOMICS(ENTRY) { .run = NULL } };
