/* What products of many rows have in common, whoever's kernels compute them: from a command's matrices to a kl_gemm. */
#include "base/ckd.h"
#include "rt/dispatch_impl.h"

uint64_t dispatch_gemm_types(const ka_matmul *a)
{
    uint64_t types = 0;
    for (uint32_t m = 0; m < a->n_mats; m++)
        types |= 1ull << a->type[m];
    return types;
}

kl_gemm dispatch_gemm(enum cmd_op op, const ka_matmul *a)
{
    bool plain = op == CMD_MATMUL;
    return (kl_gemm){ .step = a->step, .resid = plain ? a->resid : 0, .scale = plain ? a->scale : 0, .n_in = a->n_in,
                      .ldr = a->ldr, .rows = a->rows, .act = a->act, .pair = op == CMD_GATE_UP,
                      .softcap = plain ? a->softcap : 0.0f };
}

uint32_t dispatch_gemm_pick(kl_gemm *g, const ka_matmul *from, uint64_t types)
{
    g->n_mats = 0;
    for (uint32_t m = 0; m < from->n_mats; m++) {
        if (!(types >> from->type[m] & 1))
            continue;
        uint32_t i = g->n_mats++;
        g->y[i] = from->y[m];
        g->w[i] = from->w[m];
        g->b[i] = from->b[m];
        g->n_out[i] = from->n_out[m];
        g->type[i] = from->type[m];
        g->ld[i] = from->ld[m];
    }
    return g->n_mats;
}

kl_moe_sort dispatch_gemm_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k)
{
    uint32_t pairs = dispatch_rows(d, ROWS_STEP) * k;
    kl_moe_sort s = { .step = g->step, .ids = ids, .n_expert = n_expert, .k = k,
                      .slot = d->rows ? KL_ROWS_FEW : KL_TILE_ROWS }; /* most experts have few rows */
    s.n_pos = (pairs + 7 * n_expert + 7) / 8 * 8;
    s.n_slots = g->n_slots = pairs / s.slot + n_expert;
    s.order = g->map = dispatch_temp(d, 4ull * s.n_pos);
    s.tiles = g->tiles = dispatch_temp(d, 16ull * s.n_slots);
    return s;
}
