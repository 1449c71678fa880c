/* rt/dispatch_gdn.c: gated DeltaNet as launches, for steps of few rows and for prompts. */
#include <string.h>

#include "kernels/gdn_shared.h"
#include "rt/dispatch_impl.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static bool gdn_quick(const ka_gdn *a)
{
    return a->head_dim == GDN_DIM && a->conv_kernel == GDN_TAPS;
}

void dispatch_gdn(struct dispatcher *d, const ka_gdn *a)
{
    enum { CONV_THREADS = 128 };
    kl_gdn k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, ROWS_STEP), channels = (2 * a->n_k + a->n_v) * a->head_dim;
    if (gdn_quick(a)) {
        if (rows > 1)
            k.counters = dispatch_counters(d, rows * a->n_k);
        bool many = d->rows || (rows > 1 && a->n_v * rows > d->t->n_cores); /* two to a core, by the same bits */
        enum kernel_id id = many && d->t->wgmma ? K_gdn_step_many : K_gdn_step_h128;
        struct dispatch *l = dispatch_add(d, id, a->n_v, rows, 1, GDN_STEP_H128_SHARED, &k);
        if (l)
            l->early = offsetof(kl_gdn, early);
        return;
    }
    if (a->head_dim > GDN_ANY_DIM) {
        d->rc = err_set(d->e, -ENOTSUP, "dispatch: command %u: DeltaNet heads of %u, kernels have up to %u", d->cmd,
                        a->head_dim, (unsigned)GDN_ANY_DIM);
        return;
    }
    dispatch_add(d, K_gdn_conv, div_up(channels, CONV_THREADS), 1, 1, 0, &k);
    dispatch_add(d, K_gdn_step, a->n_v, a->n_slots, 1, GDN_STEP_SHARED, &k);
}

bool dispatch_prompt_gdn(struct dispatcher *d, const ka_gdn *a)
{
    enum { NORM_HEADS = 32 };
    kl_gdn_prompt k = { 0 };
    if (!gdn_quick(a))
        return false;
    memcpy(&k, a, sizeof *a);
    k.cap = dispatch_rows(d, ROWS_STEP);
    k.list = dispatch_temp(d, 4ull * a->n_slots * (1 + k.cap));
    k.index = dispatch_temp(d, 4ull * k.cap);
    k.gates = dispatch_temp(d, 8ull * k.cap * a->n_v);
    k.kq = dispatch_temp(d, 4ull * k.cap * a->n_k);
    dispatch_add(d, K_gdn_rows, a->n_slots, 1, 1, GDN_ROWS_SHARED, &k);
    dispatch_add(d, K_gdn_inputs, div_up(k.cap, GDN_INPUT_ROWS), a->n_k + a->n_v, 1, 0, &k);
    dispatch_add(d, K_gdn_scan, a->n_v * (GDN_DIM / GDN_SCAN_VALUES), a->n_slots, 1, GDN_SCAN_SHARED, &k);
    dispatch_add(d, K_gdn_norm, k.cap, div_up(a->n_v, NORM_HEADS), 1, 0, &k);
    return true;
}
