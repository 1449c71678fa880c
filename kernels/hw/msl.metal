// kernels/hw/msl.metal: the dialect on Apple GPUs, second half (kernels/hw/msl.h is the first). tools/gen/msl_text.c puts the part
// up to "members" before a module's types and tables, and the rest into its struct kd_item.
// Source: Apple, Metal Shading Language Specification, version 4.
//
// Needs language version 3.2 for coherent(device), by which work-groups of one launch hand results to each other; safe
// arithmetic, since the canonical sums say what is fused; and Apple's map of an 8 x 8 matrix to lanes, which the specification
// leaves open and which MLX and tinygrad rely on as well: lane l has row (l / 16) * 4 + (l / 2) % 4 and two columns from
// (l / 8) % 2 * 4 + l % 2 * 2 on.
#include <metal_stdlib>
#pragma clang diagnostic ignored "-Wc++11-narrowing"
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-const-variable"
#pragma clang diagnostic ignored "-Wmissing-braces"
#if defined(__METAL_VERSION__)
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#define KD_FN __attribute__((always_inline))
#define KD_UNROLL _Pragma("clang loop unroll(full)")
#else // the stand-in of tools/metalsim
#define KD_FN
#define KD_UNROLL
#endif
using namespace metal;

typedef uint4 kd_u32x4;
typedef uint2 kd_u32x2;
typedef float4 kd_f32x4;
typedef float2 kd_f32x2;

// ---- members ----

threadgroup uchar *kd_shared;
uint kd_item_tid, kd_item_size;
uint3 kd_item_group, kd_item_groups;

KD_FN uint kd_tid() { return kd_item_tid; }
KD_FN uint kd_group_size() { return kd_item_size; }
KD_FN uint kd_group_x() { return kd_item_group.x; }
KD_FN uint kd_group_y() { return kd_item_group.y; }
KD_FN uint kd_group_z() { return kd_item_group.z; }
KD_FN uint kd_groups_x() { return kd_item_groups.x; }
KD_FN uint kd_groups_y() { return kd_item_groups.y; }

KD_FN void kd_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); }
KD_FN void kd_warp_sync() { simdgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); }
KD_FN uint kd_shfl_u32(uint v, uint lane) { return simd_shuffle(v, ushort(lane)); }
KD_FN uint kd_shfl_xor_u32(uint v, uint mask) { return simd_shuffle_xor(v, ushort(mask)); }
KD_FN float kd_shfl_f32(float v, uint lane) { return simd_shuffle(v, ushort(lane)); }
KD_FN float kd_shfl_xor_f32(float v, uint mask) { return simd_shuffle_xor(v, ushort(mask)); }

KD_FN int kd_dot4(uint a, uint b, int c)
{
    char4 x = as_type<char4>(a), y = as_type<char4>(b);
    return c + int(x[0]) * int(y[0]) + int(x[1]) * int(y[1]) + int(x[2]) * int(y[2]) + int(x[3]) * int(y[3]);
}

KD_FN int kd_dot4u(uint a, uint b, int c)
{
    char4 y = as_type<char4>(b);
    return c + int(a & 255u) * int(y[0]) + int(a >> 8 & 255u) * int(y[1]) + int(a >> 16 & 255u) * int(y[2]) + int(a >> 24) * int(y[3]);
}
KD_FN int kd_half(uint v, uint upper) { return upper ? int(v) >> 16 : int(short(v)); }

KD_FN kd_u32x4 kd_load_once(const device kd_u32x4 *p) { return *p; }
KD_FN kd_u32x2 kd_load_once8(const device kd_u32x2 *p) { return *p; }
KD_FN uint kd_load_once4(const device uint *p) { return *p; }
KD_FN void kd_prefetch(const device void *) {}
KD_FN uint kd_keep(uint v) { return v; }
KD_FN ulong kd_keep_va(ulong v) { return v; }
KD_FN uint kd_uniform(uint v) { return v; }
KD_FN void kd_wait_inputs() {}
KD_FN void kd_see_inputs() {}
KD_FN void kd_let_next_start() {}

KD_FN uint kd_arrive(device uint *counter, uint n)
{
    device atomic_uint *at = (device atomic_uint *)counter;
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    uint old = atomic_fetch_add_explicit(at, 1u, memory_order_relaxed);
    if (old == n - 1)
        atomic_store_explicit(at, 0u, memory_order_relaxed);
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    return old;
}
// The host looks when the command buffer is complete.
KD_FN void kd_store_host(device uint *p, uint v) { *p = v; }

KD_FN float kd_exp2(float x) { return fast::exp2(x); }
KD_FN float kd_sqrt(float x) { return precise::sqrt(x); }
KD_FN float kd_root(float x) { return precise::sqrt(x); }
KD_FN float k_fma(float a, float b, float c) { return fma(a, b, c); }
KD_FN float k_bits_float(uint u) { return as_type<float>(u); }
KD_FN uint f32_bits(float f) { return as_type<uint>(f); }
KD_FN float f32_from_bits(uint u) { return as_type<float>(u); }
KD_FN float f16_to_f32(ushort h) { return float(as_type<half>(h)); }
KD_FN ushort f16_from_f32(float f) { return as_type<ushort>(half(f)); }
KD_FN int kd_popcount(uint v) { return int(popcount(v)); }
KD_FN float kd_inf() { return as_type<float>(0x7f800000u); }

// D += A B of 8 x 8 by a warp: two elements a lane, those of A and B as halves of a word, the lower column below.
KD_FN uint kd_m8_row() { return kd_tid() % 32 / 16 * 4 + kd_tid() / 2 % 4; }
KD_FN uint kd_m8_col() { return kd_tid() / 8 % 2 * 4 + kd_tid() % 2 * 2; }
KD_FN void kd_m8_f16(thread float *d, uint a, uint b)
{
    simdgroup_half8x8 x, y;
    simdgroup_float8x8 z;
    reinterpret_cast<thread half2 &>(x.thread_elements()) = as_type<half2>(a);
    reinterpret_cast<thread half2 &>(y.thread_elements()) = as_type<half2>(b);
    reinterpret_cast<thread float2 &>(z.thread_elements()) = float2(d[0], d[1]);
    simdgroup_multiply_accumulate(z, x, y, z);
    float2 sum = reinterpret_cast<thread float2 &>(z.thread_elements());
    d[0] = sum[0];
    d[1] = sum[1];
}
KD_FN void kd_m8_bf16(thread float *d, uint a, uint b)
{
    simdgroup_bfloat8x8 x, y;
    simdgroup_float8x8 z;
    reinterpret_cast<thread bfloat2 &>(x.thread_elements()) = as_type<bfloat2>(a);
    reinterpret_cast<thread bfloat2 &>(y.thread_elements()) = as_type<bfloat2>(b);
    reinterpret_cast<thread float2 &>(z.thread_elements()) = float2(d[0], d[1]);
    simdgroup_multiply_accumulate(z, x, y, z);
    float2 sum = reinterpret_cast<thread float2 &>(z.thread_elements());
    d[0] = sum[0];
    d[1] = sum[1];
}
