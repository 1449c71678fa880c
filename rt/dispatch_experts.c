/* rt/dispatch_experts.c: experts of the class "rows" that get a few rows each, on matrix instructions for signed bytes
 * (kernels/experts.c). Whether they do is a matter of the stream's row capacity, so that a row's bits do not depend on its company. */
#include "kernels/experts_shared.h"
#include "rt/dispatch_impl.h"

/* Pairs of an expert, when all rows are taken, up to which these kernels are quicker than those for any number; of types whose scales
 * are codes, with which those have more to do (doc/speed-log.md, "Many streams"). */
enum { FEW_EACH = 2, FEW_EACH_CODED = 4 };

static enum kernel_id kernel_of(uint32_t type)
{
    switch (type) {
#define QTYPE_BLOCK(NAME, name, set, ...) case QT_##NAME: return K_experts_##set;
#include "kernels/qtypes.def"
    default: return KERNEL_COUNT;
    }
}

/* Completes k, whose inputs and matrices are there, and launches it, with y in temporary memory where that is 0; false: it has none
 * for these types and shapes. */
static bool add(struct dispatcher *d, kl_experts *k, uint32_t type)
{
    enum { PER_CORE = 2 };
    uint32_t cap = d->s->h.row_cap, pairs = cap * k->k, rows = k->pair ? EX_TILE / 2 : EX_TILE;
    uint64_t few = wr_is_coded(type) ? FEW_EACH_CODED : FEW_EACH;
    enum kernel_id id = kernel_of(type);
    if (!d->rows || !d->t->wgmma || id == KERNEL_COUNT || pairs > few * k->n_expert || pairs > EX_MAX_PAIRS || k->n_expert > EX_MAX_EXPERTS)
        return false;
    if ((k->w[0] | k->w[1] | k->stride[0] | k->stride[1] | k->x | k->norm) % 16 || k->n_in % 8)
        return false;
    k->cap = cap;
    k->tiles = (k->n_out + rows - 1) / rows;
    k->n_pad = (k->n_in + 255) & ~255u;
    uint32_t shared = experts_shared_bytes(type, k->n_pad, k->n_expert, pairs);
    if (shared > d->t->shared_max / PER_CORE)
        return false;
    if (!k->y)
        k->y = dispatch_temp(d, 4ull * dispatch_rows(d, ROWS_STEP) * k->k * k->n_out);
    dispatch_begin_after(dispatch_add(d, id, PER_CORE * d->t->n_cores, 1, 1, shared, k));
    return true;
}

bool dispatch_experts_up(struct dispatcher *d, const ka_moe_up *a)
{
    kl_experts k = { .step = a->step, .x = a->x, .ids = a->ids, .y = a->y, .norm = a->norm, .w = { a->gate, a->up },
                     .wscale = { a->sg, a->su }, .b = { a->bg, a->bu }, .stride = { a->gate_stride, a->up_stride }, .n_expert = a->n_expert,
                     .k = a->k, .n_in = a->n_in, .n_out = a->n_ff, .act = a->act, .pair = 1, .div = a->k, .eps = a->eps };
    return a->type_gate == a->type_up && add(d, &k, a->type_gate);
}

gpu_va dispatch_experts_down(struct dispatcher *d, const ka_moe_down *a)
{
    kl_experts k = { .step = a->step, .x = a->x, .ids = a->ids, .w = { a->down }, .wscale = { a->sd }, .stride = { a->stride },
                     .n_expert = a->n_expert, .k = a->k, .n_in = a->n_in, .n_out = a->n_out, .div = 1 };
    return add(d, &k, a->type) ? k.y : 0;
}
