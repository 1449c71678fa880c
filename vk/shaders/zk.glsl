/* vk/shaders/zk.glsl
 * The dialect of the Vulkan kernels, the GLSL counterpart of kernels/kdev.h. A kernel is the twin of the C kernel of the
 * same name: the same argument struct (args.glsl is made from kernels/klaunch.h), the same result, its own way there.
 *
 *     #version 460
 *     #include "zk.glsl"
 *     ZK_ARGS(kl_add)                                      the argument struct, as `a`
 *     void main()
 *     {
 *         uint r = gl_WorkGroupID.x;
 *         if (r >= zk_step_rows(a.step, a.rows)) return;
 *         for (uint k = zk_tid(); k < a.n; k += ZK_THREADS) ...
 *     }
 *
 * Addresses are 64-bit numbers: zk_f32(a.x).v[i] is element i of an array of floats at a.x. An address of 0 is absent.
 *
 * Specialisation: 0 ZK_THREADS, size of the work-group; 1 ZK_WAVE, lanes of a subgroup (4 to 64, ZK_THREADS is a
 * multiple of it); 2 and up are the kernel's own. A subgroup operation is reached by all lanes of a subgroup, a
 * barrier by all of a work-group; work-groups are of one dimension.
 *
 * A row's bits must not depend on which variant of a kernel computed it: a float expression that matters is written as
 * fma() where it is fused, and its variables are `precise` where it is not. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : enable

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint ZK_THREADS = 128;
layout(constant_id = 1) const uint ZK_WAVE = 32;
const uint ZK_WAVES = ZK_THREADS / ZK_WAVE;

#include "args.glsl"

/* The arguments: one uniform buffer for all launches of a plan, at the launch's own offset. */
#define ZK_ARGS(type) layout(set = 0, binding = 0, scalar) uniform zk_arguments { type a; };

/* ---- memory ---- */

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer zk_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer zk_f32x2 { vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer zk_f32x4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer zk_u32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer zk_i32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer zk_u64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer zk_u16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer zk_u8 { uint8_t v[]; };
/* Written by nobody while the kernel runs: weights, constants. */
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly restrict buffer zk_ro { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly restrict buffer zk_ro2 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly restrict buffer zk_ro4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly restrict buffer zk_ro_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly restrict buffer zk_ro_f32x4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly restrict buffer zk_ro_u16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) readonly restrict buffer zk_ro_u8 { uint8_t v[]; };
/* Passed between work-groups of one launch, around zk_arrive. */
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer zk_shared_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer zk_shared_u32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer zk_shared_u64 { uint64_t v[]; };

/* ---- ids ---- */

uint zk_lane() { return gl_SubgroupInvocationID; }
uint zk_wave() { return gl_SubgroupID; }
uint zk_tid() { return gl_SubgroupID * ZK_WAVE + gl_SubgroupInvocationID; }

/* ---- numbers ---- */

uint zk_div_up(uint a, uint b) { return (a + b - 1) / b; }
float zk_f16(uint bits) { return unpackHalf2x16(bits).x; }        /* the low half  */
float zk_f16_high(uint bits) { return unpackHalf2x16(bits).y; }   /* the high half */
float zk_bf16(uint bits) { return uintBitsToFloat(bits << 16); }  /* the low half  */
/* Correctly rounded but for rare halves: drivers may be off by 2.5 units in the last place. */
float zk_div(float x, float y)
{
    precise float q = x / y;
    precise float r = fma(-q, y, x);
    precise float better = fma(r, 1.0 / y, q);
    return isinf(q) || isnan(better) ? q : better;
}
float zk_silu(float x) { return x / (1.0 + exp(-x)); }
float zk_sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }

/* c + the sum of four products of signed bytes. */
#ifdef ZK_DOT4
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int zk_sdot(int x, int y, spirv_literal int packed4x8);
int zk_dot4(uint x, uint y, int c) { return c + zk_sdot(int(x), int(y), 0); }
#else
int zk_dot4(uint x, uint y, int c)
{
    int p = int(x), q = int(y);
    c += bitfieldExtract(p, 0, 8) * bitfieldExtract(q, 0, 8);
    c += bitfieldExtract(p, 8, 8) * bitfieldExtract(q, 8, 8);
    c += bitfieldExtract(p, 16, 8) * bitfieldExtract(q, 16, 8);
    return c + bitfieldExtract(p, 24, 8) * bitfieldExtract(q, 24, 8);
}
#endif

/* ---- sums over lanes ---- */

/* Over `lanes` neighbouring lanes, a power of two up to ZK_WAVE, always in the same order; the same in all of them. Written
 * out, since not every driver unrolls a loop over shuffles, and one that does makes single instructions of them. */
#define ZK_OVER(v, lanes, op)                                                                                          \
    if (lanes >= 64) { precise float t = op(v, subgroupShuffleXor(v, 32)); v = t; }                                    \
    if (lanes >= 32) { precise float t = op(v, subgroupShuffleXor(v, 16)); v = t; }                                    \
    if (lanes >= 16) { precise float t = op(v, subgroupShuffleXor(v, 8)); v = t; }                                     \
    if (lanes >= 8) { precise float t = op(v, subgroupShuffleXor(v, 4)); v = t; }                                      \
    if (lanes >= 4) { precise float t = op(v, subgroupShuffleXor(v, 2)); v = t; }                                      \
    if (lanes >= 2) { precise float t = op(v, subgroupShuffleXor(v, 1)); v = t; }
#define ZK_PLUS(x, y) (x) + (y)
float zk_lanes_sum(float v, uint lanes)
{
    ZK_OVER(v, lanes, ZK_PLUS)
    return v;
}
float zk_lanes_max(float v, uint lanes)
{
    ZK_OVER(v, lanes, max)
    return v;
}
float zk_wave_sum(float v) { return zk_lanes_sum(v, ZK_WAVE); }
float zk_wave_max(float v) { return zk_lanes_max(v, ZK_WAVE); }

/* Over the work-group. zk_red is free again after the next barrier. */
shared float zk_red[ZK_THREADS / 4]; /* a subgroup has 4 lanes at least */
float zk_group_sum(float v)
{
    v = zk_wave_sum(v);
    barrier();
    if (zk_lane() == 0)
        zk_red[zk_wave()] = v;
    barrier();
    precise float t = zk_red[0];
    for (uint i = 1; i < ZK_WAVES; i++)
        t += zk_red[i];
    return t;
}
float zk_group_max(float v)
{
    v = zk_wave_max(v);
    barrier();
    if (zk_lane() == 0)
        zk_red[zk_wave()] = v;
    barrier();
    float t = zk_red[0];
    for (uint i = 1; i < ZK_WAVES; i++)
        t = max(t, zk_red[i]);
    return t;
}

/* ---- between work-groups ---- */

/* All of the work-group call it; the same in all: is this the last of n work-groups to arrive at counter i? What each
 * wrote before (through zk_shared_*) is visible to the last. The counter is 0 again afterwards. */
shared uvec4 zk_arrived; /* 16 bytes: what a kernel shares behind it stays aligned */
bool zk_last_of(uint64_t counters, uint i, uint n)
{
    memoryBarrierBuffer();
    barrier();
    if (zk_tid() == 0) {
        zk_arrived.x = atomicAdd(zk_shared_u32(counters).v[i], 1);
        if (zk_arrived.x == n - 1)
            atomicExchange(zk_shared_u32(counters).v[i], 0);
    }
    memoryBarrierBuffer();
    barrier();
    return zk_arrived.x == n - 1;
}

/* ---- the step block ---- */

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer zk_step { ka_step s; ka_row row[]; };
uint zk_step_rows(uint64_t step, uint rows) { return rows == ROWS_OUT ? zk_step(step).s.n_out : zk_step(step).s.n_rows; }
ka_row zk_row(uint64_t step, uint r) { return zk_step(step).row[r]; }
