/* What products of many rows have in common, whoever's kernels compute them: from a command's matrices to a kl_gemm. */
#include "base/ckd.h"
#include "kernels/matvec_shared.h"
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
        g->wscale[i] = from->wscale[m];
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
                      .slot = d->rows ? KL_ROWS_FEW : d->t->wgmma && pairs <= KL_GEMM_HALF_FEW / 2 * n_expert ? KL_GEMM_HALF_FEW : KL_TILE_ROWS };
    s.n_pos = (pairs + 7 * n_expert + 7) / 8 * 8;
    s.n_slots = g->n_slots = pairs / s.slot + n_expert;
    s.order = g->map = dispatch_temp(d, 4ull * s.n_pos);
    s.tiles = g->tiles = dispatch_temp(d, 16ull * s.n_slots);
    return s;
}

/* ---- matrices that are opened first ---- */

/* Opened bytes at a time: of products, which are cut by rows of weights; of experts, which are not. */
enum { OPEN_PART = 128 << 20, OPEN_EXPERTS = 512 << 20 };

static uint64_t opened_bytes(uint64_t rows, uint32_t n_in)
{
    return qtype_row_bytes(QT_OPENED, n_in) * rows;
}

/* Rows [first, first + rows) of n matrices of g's m-th type and shape; returns where they are. */
static gpu_va open_rows(struct dispatcher *d, const kl_gemm *g, uint32_t m, uint32_t first, uint32_t rows, uint32_t n,
                        dispatch_open_fn *open)
{
    kl_open o = { .w = g->w[m], .stride = g->stride[m], .y_stride = opened_bytes(rows, g->n_in), .type = g->type[m],
                  .n_in = g->n_in, .n_out = g->n_out[m], .first = first, .rows = rows };
    o.y = dispatch_temp(d, o.y_stride * n);
    open(d, &o, g->n_in * rows, n);
    return o.y;
}

void dispatch_gemm_opened(struct dispatcher *d, const kl_gemm *g, dispatch_open_fn *open, dispatch_gemm_fn *multiply, void *user)
{
    uint64_t temp = d->temp_at;
    uint32_t mats = g->pair ? 2 : 1;
    uint64_t tile = opened_bytes((uint64_t)mats * KL_TILE_ROWS, g->n_in);
    uint32_t most = (uint32_t)MAX(OPEN_PART / tile, 1u) * KL_TILE_ROWS;
    for (uint32_t m = 0; m < g->n_mats; m += mats)
        for (uint32_t first = 0; first < g->n_out[m]; first += most) {
            kl_gemm part = *g;
            uint32_t rows = MIN(g->n_out[m] - first, most);
            part.n_mats = mats;
            part.y[0] = g->y[m] + 4ull * first;
            part.ld[0] = g->ld[m];
            part.resid = g->resid ? g->resid + 4ull * first : 0;
            for (uint32_t i = 0; i < mats; i++) {
                part.w[i] = open_rows(d, g, m + i, first, rows, 1, open);
                part.wscale[i] = g->wscale[m + i];
                part.b[i] = g->b[m + i] ? g->b[m + i] + 4ull * first : 0;
                part.type[i] = QT_OPENED;
                part.n_out[i] = rows;
            }
            multiply(d, &part, user);
            d->temp_at = temp;
        }
}

bool dispatch_open_pays(const struct dispatcher *d, uint32_t type, uint32_t k, uint32_t n_expert, uint64_t rows, uint32_t n_in)
{
    enum { ROWS_EACH = 8 };
    return !qtype_is_opened((enum qtype)type) || (d->prompt && (uint64_t)d->s->h.row_cap * k >= (uint64_t)ROWS_EACH * n_expert &&
                                                  opened_bytes(rows * n_expert, n_in) <= OPEN_EXPERTS);
}

void dispatch_open_experts(struct dispatcher *d, kl_gemm *g, uint32_t n_expert, dispatch_open_fn *open)
{
    for (uint32_t m = 0; m < g->n_mats; m++) {
        if (!qtype_is_opened((enum qtype)g->type[m]))
            continue;
        g->w[m] = open_rows(d, g, m, 0, g->n_out[m], n_expert, open);
        g->type[m] = QT_OPENED;
        g->stride[m] = opened_bytes(g->n_out[m], g->n_in);
    }
}
