/* vk/shaders/coopmat.glsl
 * Matrices of a subgroup: c += a b with a f16 [CM_M, CM_K], b f16 [CM_K, CM_N], c f32 [CM_M, CM_N], the sizes that the
 * device has (vk_caps). Operands come from shared memory, 16 bytes (eight halves or four floats) an element. The kernel
 * declares both before it includes this file:
 *
 *     layout(constant_id = 2) const uint CM_M = 16;
 *     layout(constant_id = 3) const uint CM_N = 16;
 *     layout(constant_id = 4) const uint CM_K = 16;         each its own constant: they tell the operands' types apart
 *     shared uvec4 tile[...];
 *     #define CM_MEM tile
 *
 *     cm_a a; cm_b b; cm_c c;
 *     cm_clear(c)                   c = 0
 *     cm_load_a(a, at, stride)      row m of a is at + m stride, its K side by side          (units of 16 bytes)
 *     cm_load_b(b, at, stride)      column n of b is at + n stride, its K side by side: positions, keys
 *     cm_load_b_rows(b, at, stride) row k of b is at + k stride, its N side by side: values of attention
 *     cm_mad(c, a, b)               c += a b
 *     cm_store(c, at, stride)       column n of c to at + n stride, its M floats side by side
 *     cm_store_rows(c, at, stride)  row m of c to at + m stride, its N floats side by side
 *
 * All lanes of a subgroup call them, in uniform flow, with the same numbers. A load sees what other subgroups stored
 * before a barrier(), this subgroup before cm_sync(). Odd strides keep banks from colliding. A sum goes along k in
 * steps of CM_K.
 *
 * Written for GL_NV_cooperative_matrix, as the oldest glslc in use has no other; tools/gen/spirv_khr.c turns the SPIR-V
 * into that of SPV_KHR_cooperative_matrix, which every driver with matrices reads. A shader with COOPMAT_LOOPS defined
 * computes the same by loops, for devices without: a matrix is then the place it was loaded from, so its memory must
 * stay as it is until the last product with it. */

#define cm_sync() { memoryBarrierShared(); subgroupBarrier(); }

#ifndef COOPMAT_LOOPS
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require

#define cm_a fcoopmatNV<16, gl_ScopeSubgroup, CM_M, CM_K>
#define cm_b fcoopmatNV<16, gl_ScopeSubgroup, CM_K, CM_N>
#define cm_c fcoopmatNV<32, gl_ScopeSubgroup, CM_M, CM_N>
#define cm_clear(c) c = cm_c(0.0)
#define cm_load_a(a, at, stride) coopMatLoadNV(a, CM_MEM, at, stride, false)
#define cm_load_b(b, at, stride) coopMatLoadNV(b, CM_MEM, at, stride, true)
#define cm_load_b_rows(b, at, stride) coopMatLoadNV(b, CM_MEM, at, stride, false)
#define cm_mad(c, a, b) c = coopMatMulAddNV(a, b, c)
#define cm_store(c, at, stride) coopMatStoreNV(c, CM_MEM, at, stride, true)
#define cm_store_rows(c, at, stride) coopMatStoreNV(c, CM_MEM, at, stride, false)

#else

struct cm_place { uint at, row, col; }; /* of element (0, 0) and steps, in halves */
struct cm_c { float v[64]; }; /* element lane + i ZK_WAVE, by rows */
const uint CM_OWN = (CM_M * CM_N + ZK_WAVE - 1) / ZK_WAVE;
#define cm_a cm_place
#define cm_b cm_place
#define cm_load_a(a, p, stride) a = cm_place(8 * (p), 8 * (stride), 1)
#define cm_load_b(b, p, stride) b = cm_place(8 * (p), 1, 8 * (stride))
#define cm_load_b_rows(b, p, stride) b = cm_place(8 * (p), 8 * (stride), 1)

void cm_clear(inout cm_c c)
{
    for (uint i = 0; i < CM_OWN; i++)
        c.v[i] = 0.0;
}
float cm_half(uint i)
{
    vec2 v = unpackHalf2x16(CM_MEM[i / 8][i / 2 % 4]);
    return i % 2 == 0 ? v.x : v.y;
}
void cm_mad(inout cm_c c, cm_place a, cm_place b)
{
    for (uint i = 0; i < CM_OWN; i++) {
        uint e = min(zk_lane() + i * ZK_WAVE, CM_M * CM_N - 1), m = e / CM_N, n = e % CM_N;
        for (uint k = 0; k < CM_K; k++)
            c.v[i] = fma(cm_half(a.at + m * a.row + k * a.col), cm_half(b.at + k * b.row + n * b.col), c.v[i]);
    }
}
void cm_put(cm_c c, uint at, uint row, uint col)
{
    for (uint i = 0; i < CM_OWN; i++) {
        uint e = zk_lane() + i * ZK_WAVE, f = 4 * at + e / CM_N * row + e % CM_N * col;
        if (e < CM_M * CM_N)
            CM_MEM[f / 4][f % 4] = floatBitsToUint(c.v[i]);
    }
}
#define cm_store(c, p, stride) cm_put(c, p, 1, 4 * (stride))
#define cm_store_rows(c, p, stride) cm_put(c, p, 4 * (stride), 1)
#endif
