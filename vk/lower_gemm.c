/* vk/lower_gemm.c: products of prompts by what the device has. */
#include "base/ckd.h"
#include "vk/lower_gemm.h"

uint32_t vk_gemm_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k)
{
    kl_moe_sort m = dispatch_gemm_sort(d, g, ids, n_expert, k);
    struct vk_shape s = vk_shape(d, 256);
    vk_spec(&s, KL_TILE_ROWS);
    vk_add(d, VK_moe_sort, &s, n_expert, 1, 1, &m);
    return m.n_pos;
}

void vk_gemm_open(struct dispatcher *d, const kl_open *o, uint32_t weights, uint32_t n)
{
    struct vk_shape s = vk_shape(d, 256);
    uint32_t groups = (weights / vk_item_elems(o->type) + s.v[0] - 1) / s.v[0];
    vk_spec(&s, o->type);
    vk_spec(&s, (SADDR_OFF(o->w) | o->stride) % 16 != 0);
    vk_add(d, VK_open, &s, MIN(groups, MAX(16 * vk_caps(d)->cores / n, 1u)), n, 1, o);
}

bool vk_gemm_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    return vk_gemm_coopmat_products(d, op, a) || vk_gemm_dot_products(d, op, a);
}

bool vk_gemm_router(struct dispatcher *d, const ka_router *a)
{
    return vk_gemm_dot_router(d, a);
}

bool vk_gemm_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    return vk_gemm_coopmat_moe_up(d, a) || vk_gemm_dot_moe_up(d, a);
}

bool vk_gemm_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    return vk_gemm_coopmat_moe_down(d, a) || vk_gemm_dot_moe_down(d, a);
}
