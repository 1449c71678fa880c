/* vk/vkargs.h
 * What Vulkan kernels take that have no twin in C: field lists in the style of kernels/klaunch.h, where addresses are
 * found by the same code. */
#ifndef ZINC_VK_VKARGS_H
#define ZINC_VK_VKARGS_H

#include "kernels/klaunch.h"
#include "kernels/matvec_shared.h"

/* Elements of an item, as wd_elems of vk/shaders/wdot.glsl: of the types that are opened for prompts single runs. */
static inline uint32_t vk_item_elems(uint32_t type)
{
    bool half = type == QT_IQ2_XS || type == QT_IQ2_S || type == QT_IQ1_M || type == QT_NVFP4;
    return qtype_is_opened((enum qtype)type) ? half ? 16 : 32 : mv_item_elems(type);
}

/* ---- products of prompts (vk/shaders/act_*.comp, gemm_*.comp) ----
 * Activations of the int8 products: codes, [positions][n_in], and in meta per block of 32 the scale f32 and the sums of its two
 * halves, i16 each; map and div as in KL_ACT. Of the products on cooperative matrices: f16 [n_in / 32][xrows][32], each row
 * scaled by a power of two so that nothing overflows, each four elements in the order 0 2 1 3 (vk/shaders/gemm_wtile.glsl);
 * meta f32 [positions] undoes the scale; div: rows of x for each row of the step. */
#define VK_ACT(F)                                                                                                      \
    F(gpu_va, step, 1, R) F(gpu_va, x, 1, R) F(gpu_va, norm, 1, T) F(gpu_va, map, 1, R) F(gpu_va, q, 1, W)             \
    F(gpu_va, meta, 1, W) F(uint32_t, n_in, 1, N) F(uint32_t, ldx, 1, N) F(uint32_t, rows, 1, N)                       \
    F(uint32_t, xrows, 1, N) F(uint32_t, div, 1, N) F(float, eps, 1, E)

/* KL_GEMM, and the activations' second plane: scales and sums (int8), or row scales (f16), where ldx is the number of (row,
 * choice) pairs that share a row of x. */
#define VK_GEMM(F) KL_GEMM(F) F(gpu_va, meta, 1, R)

/* X(args struct, field list) */
#define VK_LIST(X)                                                                                                     \
    X(vk_act, VK_ACT)                                                                                                  \
    X(vk_gemm, VK_GEMM)

#define X(sname, list) KA_STRUCT(sname, list)
VK_LIST(X)
#undef X
#define X(sname, list)                                                                                                 \
    _Static_assert(sizeof(sname) == 0 list(KA_BYTES) && sizeof(sname) % 8 == 0, "device ABI: " #sname);
VK_LIST(X)
#undef X

#endif
