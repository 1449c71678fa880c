#include "vk/lower.h"

bool vk_gemm_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a) { (void)d, (void)a; return false; }
bool vk_gemm_router(struct dispatcher *d, const ka_router *a) { (void)d, (void)a; return false; }
bool vk_gemm_moe_up(struct dispatcher *d, const ka_moe_up *a) { (void)d, (void)a; return false; }
bool vk_gemm_moe_down(struct dispatcher *d, const ka_moe_down *a) { (void)d, (void)a; return false; }
