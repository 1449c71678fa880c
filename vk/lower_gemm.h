/* vk/lower_gemm.h: private to vk/
 * Prompts' products by what the device has: cooperative matrices (lower_gemm_coopmat.c), or dot products of integers and,
 * for float weights, fma (lower_gemm_dot.c). vk/lower_gemm.c asks in that order; each says false where it has no kernel
 * for the command. */
#ifndef ZINC_VK_LOWER_GEMM_H
#define ZINC_VK_LOWER_GEMM_H

#include "vk/lower.h"

bool vk_gemm_coopmat_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
bool vk_gemm_coopmat_moe_up(struct dispatcher *d, const ka_moe_up *a);
bool vk_gemm_coopmat_moe_down(struct dispatcher *d, const ka_moe_down *a);

bool vk_gemm_dot_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
bool vk_gemm_dot_router(struct dispatcher *d, const ka_router *a); /* float weights: for every device */
bool vk_gemm_dot_moe_up(struct dispatcher *d, const ka_moe_up *a);
bool vk_gemm_dot_moe_down(struct dispatcher *d, const ka_moe_down *a);

/* The command's matrices of these types alone, of F32, F16 and BF16, in f32: act_f32 where there is a norm, then gemm_f32. */
void vk_gemm_floats(struct dispatcher *d, enum cmd_op op, const ka_matmul *a, uint64_t types);
/* A dispatch_open_fn: the matrices by vk/shaders/open.comp. */
void vk_gemm_open(struct dispatcher *d, const kl_open *o, uint32_t weights, uint32_t n);
/* moe_sort: the pairs by expert into g->tiles, g->n_slots and g->map, in slots of up to KL_TILE_ROWS positions; returns
 * the positions. */
uint32_t vk_gemm_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k);

#endif
