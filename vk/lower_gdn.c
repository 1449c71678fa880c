/* vk/lower_gdn.c: gated DeltaNet as launches, for steps of few rows and for prompts. */
#include <string.h>

#include "base/ckd.h"
#include "kernels/gdn_shared.h"
#include "vk/lower.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* vk_shape with a power of two: heads are cut evenly. */
static struct vk_shape shape(struct dispatcher *d, uint32_t threads)
{
    struct vk_shape s = vk_shape(d, threads);
    while (s.v[0] & (s.v[0] - 1))
        s = vk_shape(d, threads /= 2);
    return s;
}

/* Heads of GDN_DIM, convolutions of GDN_TAPS. 16 lanes share a value row where there are as many; in software the state
 * goes through memory a little at a time. */
static void quick_step(struct dispatcher *d, const kl_gdn *k)
{
    struct vk_shape s = shape(d, 256);
    uint32_t lanes = MIN(vk_caps(d)->wave, 16u), held = vk_caps(d)->software ? 2 : 8;
    vk_spec(&s, lanes);
    vk_spec(&s, MIN(MIN(held, lanes / 2), GDN_DIM * lanes / s.v[0]));
    vk_spec(&s, k->n_slots == 1);
    vk_spec(&s, dispatch_rows(d, ROWS_STEP) == 1);
    vk_add(d, VK_gdn_step_h128, &s, k->n_v, k->n_slots, 1, k);
}

static void any_step(struct dispatcher *d, const kl_gdn *k)
{
    struct vk_shape conv = vk_shape(d, 128), step = vk_shape(d, 256);
    if (k->head_dim > GDN_ANY_DIM) {
        d->rc = err_set(d->e, -ENOTSUP, "vulkan: command %u: DeltaNet heads of %u, kernels have up to %u", d->cmd,
                        k->head_dim, (unsigned)GDN_ANY_DIM);
        return;
    }
    vk_add(d, VK_gdn_conv, &conv, div_up((2 * k->n_k + k->n_v) * k->head_dim, conv.v[0]), 1, 1, k);
    vk_add(d, VK_gdn_step, &step, k->n_v, k->n_slots, 1, k);
}

/* Bytes of shared memory of gdn_scan: two tiles of q, k, v, gates and o, and what every kernel may have. */
static uint32_t scan_shared(uint32_t tile, uint32_t values, uint32_t threads)
{
    return 2 * tile * 4 * (2 * GDN_DIM + 2 * values + 4) + threads + 16;
}

static void quick_prompt(struct dispatcher *d, const ka_gdn *a)
{
    enum { INPUT_ROWS = 4, NORM_HEADS = 4 }; /* that neighbours take: ROWS of gdn_inputs, HEADS of gdn_norm */
    uint32_t wave = vk_caps(d)->wave, lanes = MIN(wave, 16u), tile = 8;
    uint32_t head_lanes = MIN(wave, 32u); /* that share a head */
    kl_gdn_prompt k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.cap = dispatch_rows(d, ROWS_STEP);
    k.gates = dispatch_temp(d, 8ull * k.cap * a->n_v);
    k.kq = dispatch_temp(d, 4ull * k.cap * a->n_k);
    struct vk_shape rows = shape(d, 256), heads = shape(d, 256), scan = shape(d, 128);
    uint32_t teams = heads.v[0] / head_lanes, values = 2 * scan.v[0] / lanes;
    vk_spec(&rows, 0);
    vk_spec(&heads, a->n_slots == 1);
    vk_spec(&scan, a->n_slots == 1);
    vk_spec(&scan, lanes);
    while (tile > 4 && scan_shared(tile, values, scan.v[0]) > vk_caps(d)->shared_max)
        tile /= 2;
    vk_spec(&scan, tile);
    if (a->n_slots > 1) {
        k.list = dispatch_temp(d, 4ull * a->n_slots * (1 + k.cap));
        k.index = dispatch_temp(d, 4ull * k.cap);
        vk_add(d, VK_gdn_rows, &rows, a->n_slots, 1, 1, &k);
    }
    vk_add(d, VK_gdn_inputs, &heads, div_up(k.cap, teams * INPUT_ROWS), a->n_k + a->n_v, 1, &k);
    vk_add(d, VK_gdn_scan, &scan, a->n_v * (GDN_DIM / values), a->n_slots, 1, &k);
    vk_add(d, VK_gdn_norm, &heads, k.cap, div_up(a->n_v, teams * NORM_HEADS), 1, &k);
}

void vk_lower_gdn(struct dispatcher *d, const ka_gdn *a)
{
    bool quick = a->head_dim == GDN_DIM && a->conv_kernel == GDN_TAPS;
    kl_gdn k = { 0 };
    memcpy(&k, a, sizeof *a);
    if (quick && d->prompt) {
        quick_prompt(d, a);
    } else if (quick) {
        if (dispatch_rows(d, ROWS_STEP) > 1)
            k.counters = dispatch_counters(d, a->n_slots * a->n_k);
        quick_step(d, &k);
    } else {
        any_step(d, &k);
    }
}
