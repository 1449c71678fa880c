/* vk/lower_gemm.c: products of prompts by what the device has. */
#include "base/ckd.h"
#include "vk/lower_gemm.h"

uint32_t vk_gemm_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k)
{
    uint32_t pairs = dispatch_rows(d, ROWS_STEP) * k;
    kl_moe_sort m = { .step = g->step, .ids = ids, .n_expert = n_expert, .k = k };
    m.n_pos = (pairs + 7 * n_expert + 7) / 8 * 8;
    m.n_slots = g->n_slots = pairs / KL_TILE_ROWS + n_expert;
    m.order = g->map = dispatch_temp(d, 4ull * m.n_pos);
    m.tiles = g->tiles = dispatch_temp(d, 16ull * m.n_slots);
    struct vk_shape s = vk_shape(d, 256);
    vk_spec(&s, KL_TILE_ROWS);
    vk_add(d, VK_moe_sort, &s, n_expert, 1, 1, &m);
    return m.n_pos;
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
