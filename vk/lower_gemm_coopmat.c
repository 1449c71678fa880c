/* vk/lower_gemm_coopmat.c: products of prompts on cooperative matrices, as launches: inputs become f16 chunks (act_f16),
 * weights of block types, and F16 and BF16, are opened to f16 by gemm_coopmat, one launch for each type of a command, or by `open` before it. Experts: pairs are sorted
 * by expert first, and the weighted sum comes last. Which tile a launch takes never changes the bits of a sum. */
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/planes.h"
#include "vk/lower_gemm.h"

#define BIT(t) (1ull << QT_##t)
#define HALVES (BIT(F16) | BIT(BF16))

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Planes, or rows of halves, that are read up to 16 bytes at a time; inputs that are read by four floats. */
static bool can_tile(uint32_t type, gpu_va w, uint64_t stride, uint32_t n_in)
{
    bool half = HALVES >> type & 1;
    return (half || planes_of(type).n) && n_in % (half ? 32 : qtype_block(type)) == 0 && SADDR_OFF(w) % 16 == 0 && stride % 16 == 0;
}
static bool aligned(gpu_va x, uint32_t ldx, gpu_va norm)
{
    return SADDR_OFF(x) % 16 == 0 && ldx % 4 == 0 && SADDR_OFF(norm) % 16 == 0;
}

/* ---- tiles ---- */

/* What gemm_coopmat joins: threads / 2 weight rows with bn positions, wm x wn of them a subgroup. */
struct tile {
    uint32_t threads, bn, wm;
};

static uint32_t tile_shared(const struct vk_caps *c, uint32_t n, const struct tile *t)
{
    uint32_t chunks = 2 * (t->threads / 2 + t->bn) * 5, ends = t->threads / c->wave * n * (t->wm / 4 + 1);
    return 16 * MAX(chunks, ends) + 1536;
}

/* How a tile of these sizes is shared out among its subgroups: squarely, or, where positions are few, each with all of
 * them. */
static bool share_out(const struct vk_caps *c, uint32_t m, uint32_t n, bool few, struct tile *t)
{
    uint32_t bm = t->threads / 2, waves = t->threads / c->wave, best = 0;
    for (uint32_t wm = MAX(m, 16u); wm <= bm; wm *= 2) {
        uint32_t wn = bm % wm ? 0 : t->bn * (bm / wm) / waves;
        struct tile x = { t->threads, t->bn, wm };
        if (!wn || wn % n || waves % (bm / wm) || wm * wn / c->wave > 64 || tile_shared(c, n, &x) > c->shared_max)
            continue;
        if (!best || (!few && wm + wn < best)) {
            best = wm + wn;
            t->wm = wm;
        }
    }
    return best;
}

/* For bn positions, or more where the device's matrices want that; fewer weight rows where shared memory is short. */
static bool choose_tile(struct dispatcher *d, uint32_t bn, bool few, struct tile *t)
{
    const struct vk_caps *c = vk_caps(d);
    uint32_t m = c->cm_m, n = c->cm_n;
    for (t->threads = vk_shape(d, 256).v[0]; t->threads >= 32 && t->threads >= c->wave; t->threads /= 2)
        for (t->bn = MAX(bn, n); t->bn <= KL_TILE_ROWS; t->bn *= 2)
            if (share_out(c, m, n, few, t))
                return true;
    return false;
}

static uint32_t weight_tiles(const kl_gemm *g, uint32_t bm)
{
    uint32_t t = 0;
    for (uint32_t m = 0; m < (g->pair ? 1 : g->n_mats); m++)
        t += div_up(g->n_out[m], g->pair ? bm / 2 : bm);
    return t;
}

/* ---- launches ---- */

/* The input as chunks, `per` rows of x for each of the step: in g->x; returns where the rows' scales are. Nothing waits
 * for the sorting of a list. */
static gpu_va add_act(struct dispatcher *d, kl_gemm *g, vk_act act, uint32_t per)
{
    uint32_t rows = dispatch_rows(d, act.rows) * per;
    struct vk_shape s = vk_shape(d, 256);
    g->xrows = act.xrows = rows;
    g->x = act.q = dispatch_temp(d, 2ull * act.n_in * rows);
    act.meta = dispatch_temp(d, 4ull * rows);
    act.div = per;
    (g->tiles ? vk_add_concurrent : vk_add)(d, VK_act_f16, &s, rows, 1, 1, &act);
    return act.meta;
}

/* One type. positions: of the step or, with a list of slots, of an expert on average. */
static void add_gemm(struct dispatcher *d, const kl_gemm *g, gpu_va meta, uint32_t positions, bool concurrent)
{
    const struct vk_caps *c = vk_caps(d);
    uint32_t bn = positions > 32 ? 64 : positions > 16 ? 32 : 16;
    bool few = g->tiles && positions < 48;
    struct tile t = { 0 };
    if (g->tiles ? !few : div_up(positions, 128) * weight_tiles(g, 128) >= 2 * c->cores)
        bn = 128;
    CHECK(choose_tile(d, few ? 64 : bn, few, &t));
    struct vk_shape s = { .n = 2, .v = { t.threads, c->wave } };
    vk_spec(&s, c->cm_m);
    vk_spec(&s, c->cm_n);
    vk_spec(&s, c->cm_k);
    vk_spec(&s, g->type[0]);
    vk_spec(&s, t.bn);
    vk_spec(&s, t.wm);
    vk_spec(&s, g->tiles != 0);
    vk_spec(&s, g->pair != 0);
    vk_spec(&s, g->act);
    vk_spec(&s, g->softcap > 0.0f);
    vk_gemm args = { 0 };
    memcpy(&args, g, sizeof *g);
    args.meta = meta;
    uint32_t tiles = weight_tiles(g, t.threads / 2);
    enum vk_kernel k = vk_caps(d)->coopmat == VK_COOPMAT_LOOPS ? VK_gemm_coopmat_loops : VK_gemm_coopmat;
    if (g->tiles)
        vk_add(d, k, &s, tiles, g->n_slots, KL_TILE_ROWS / t.bn, &args);
    else
        (concurrent ? vk_add_concurrent : vk_add)(d, k, &s, div_up(positions, t.bn), tiles, 1, &args);
}

struct part {
    gpu_va meta;
    uint32_t positions;
};

static void add_part(struct dispatcher *d, kl_gemm *g, void *user)
{
    const struct part *p = user;
    add_gemm(d, g, p->meta, p->positions, false);
}

/* ---- MATMUL, PROJ, GATE_UP ---- */

/* The types whose matrices multiply in f32: F32, and halves of which one does not fit a tile. */
static uint64_t f32_types(const ka_matmul *a)
{
    uint64_t types = BIT(F32);
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (HALVES >> a->type[m] & 1 && !can_tile(a->type[m], a->w[m], 0, a->n_in))
            types |= 1ull << a->type[m];
    return types;
}

bool vk_gemm_coopmat_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    uint32_t rows = dispatch_rows(d, a->rows);
    uint64_t f32 = f32_types(a), left = dispatch_gemm_types(a) & ~f32;
    bool pair = op == CMD_GATE_UP;
    struct tile t;
    if (vk_caps(d)->coopmat == VK_COOPMAT_NONE || !choose_tile(d, 16, false, &t) || !aligned(a->x, a->ldx, a->norm) ||
        (a->rows == ROWS_OUT && d->s->h.out_cap <= KL_DECODE_ROWS))
        return false;
    for (uint32_t m = 0; m < a->n_mats; m++) {
        bool is_float = f32 >> a->type[m] & 1;
        if (!is_float && !can_tile(a->type[m], a->w[m], 0, a->n_in))
            return false;
        if (pair && (is_float || a->type[m] != a->type[0]))
            return false;
    }
    if (!left)
        return false;
    vk_gemm_floats(d, op, a, f32);
    kl_gemm g = dispatch_gemm(op, a);
    gpu_va meta = add_act(d, &g, (vk_act){ .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->ldx,
                                           .rows = a->rows, .eps = a->eps }, 1);
    for (bool concurrent = false; left; left &= left - 1, concurrent = true) {
        dispatch_gemm_pick(&g, a, left & -left);
        if (qtype_is_opened((enum qtype)g.type[0]))
            dispatch_gemm_opened(d, &g, vk_gemm_open, add_part, &(struct part){ meta, rows });
        else
            add_gemm(d, &g, meta, rows, concurrent);
    }
    return true;
}

/* ---- experts ---- */

/* Pairs of rows and experts for each expert, on average. */
static uint32_t share(struct dispatcher *d, uint32_t k, uint32_t n_expert)
{
    return div_up(dispatch_rows(d, ROWS_STEP) * k, n_expert);
}

bool vk_gemm_coopmat_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    struct tile t;
    if (vk_caps(d)->coopmat == VK_COOPMAT_NONE || !choose_tile(d, 64, true, &t) || a->type_gate != a->type_up ||
        !can_tile(a->type_gate, a->gate, a->gate_stride, a->n_in) ||
        !can_tile(a->type_up, a->up, a->up_stride, a->n_in) || !aligned(a->x, a->n_in, a->norm) ||
        !dispatch_open_pays(d, a->type_up, a->k, a->n_expert, 2ull * a->n_ff, a->n_in))
        return false;
    kl_gemm g = { .step = a->step, .y = { a->y }, .w = { a->gate, a->up }, .wscale = { a->sg, a->su }, .b = { a->bg, a->bu },
                  .stride = { a->gate_stride, a->up_stride }, .n_out = { a->n_ff, a->n_ff },
                  .type = { a->type_gate, a->type_up }, .ld = { a->n_ff }, .n_mats = 2, .n_in = a->n_in,
                  .ldx = a->k, .act = a->act, .pair = 1 };
    vk_gemm_sort(d, &g, a->ids, a->n_expert, a->k);
    gpu_va meta = add_act(d, &g, (vk_act){ .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->n_in,
                                           .eps = a->eps }, 1);
    dispatch_open_experts(d, &g, a->n_expert, vk_gemm_open);
    add_gemm(d, &g, meta, share(d, a->k, a->n_expert), false);
    return true;
}

bool vk_gemm_coopmat_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    struct tile t;
    uint32_t rows = dispatch_rows(d, ROWS_STEP);
    if (vk_caps(d)->coopmat == VK_COOPMAT_NONE || !choose_tile(d, 64, true, &t) || !can_tile(a->type, a->down, a->stride, a->n_in) ||
        !aligned(a->x, a->n_in, 0) || !dispatch_open_pays(d, a->type, a->k, a->n_expert, a->n_out, a->n_in))
        return false;
    kl_moe_mix mix = { 0 };
    memcpy(&mix, a, sizeof *a);
    mix.o = dispatch_temp(d, 4ull * rows * a->k * a->n_out);
    kl_gemm g = { .step = a->step, .y = { mix.o }, .w = { a->down }, .wscale = { a->sd }, .stride = { a->stride },
                  .n_out = { a->n_out }, .type = { a->type }, .ld = { a->n_out }, .n_mats = 1, .n_in = a->n_in, .ldx = 1 };
    vk_gemm_sort(d, &g, a->ids, a->n_expert, a->k);
    gpu_va meta = add_act(d, &g, (vk_act){ .step = a->step, .x = a->x, .n_in = a->n_in, .ldx = a->n_in }, a->k);
    dispatch_open_experts(d, &g, a->n_expert, vk_gemm_open);
    add_gemm(d, &g, meta, share(d, a->k, a->n_expert), false);
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_moe_mix, &s, rows, 1, 1, &mix);
    return true;
}
