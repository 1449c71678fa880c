/* vk/lower_gemm_dot.c: products of prompts without matrix units, as launches. Block-typed weights meet inputs quantised
 * to int8 (act_q8, gemm_dot), float weights meet floats (act_f32, gemm_f32). Experts: pairs are sorted by expert first,
 * and the weighted sum comes last.
 *
 * How a sum is made depends on the type and shape of the matrix alone, never on the tile. */
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"
#include "vk/lower_gemm.h"

enum {
    DOT_STEP = 128,          /* along k, of gemm_dot: bytes of a row in shared memory, 16 more to part the banks */
    F32_LARGE = 1024,        /* columns from which gemm_f32's tiles are many enough for one team each            */
    F32_TEAMS_SHARED = 20480 /* bytes of shared memory of four teams                                            */
};
#define BIT(t) (1ull << QT_##t)
#define FLOATS (BIT(F32) | BIT(F16) | BIT(BF16))

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static bool is_aligned(uint64_t a, uint64_t b, uint64_t c)
{
    return (SADDR_OFF(a) | SADDR_OFF(b) | c) % 16 == 0;
}

/* ---- tiles ---- */

/* A tile of gemm_dot or gemm_f32 (vk/shaders/gemm_dot_item.glsl): bm weight rows, bn positions, tm x tn a work-item. */
struct tile {
    uint32_t bm, bn, tm, tn;
};

/* For `threads` work-items; bn as wide as they reach. */
static struct tile tile(uint32_t threads, uint32_t bm, uint32_t tm, uint32_t tn)
{
    bm = MIN(bm, threads * tm);
    return (struct tile){ bm, threads / (bm / tm) * tn, tm, tn };
}

static void spec_tile(struct vk_shape *s, const kl_gemm *g, const struct tile *t)
{
    vk_spec(s, g->type[0]);
    vk_spec(s, g->type[g->pair]);
    vk_spec(s, g->pair);
    vk_spec(s, g->pair ? g->act : 0);
    vk_spec(s, g->softcap > 0.0f);
    vk_spec(s, t->bm);
    vk_spec(s, t->bn);
    vk_spec(s, t->tm);
    vk_spec(s, t->tn);
}

static uint32_t column_tiles(const kl_gemm *g, uint32_t bm)
{
    uint32_t t = 0;
    for (uint32_t m = 0; m < (g->pair ? 1 : g->n_mats); m++)
        t += div_up(g->n_out[m], g->pair ? bm / 2 : bm);
    return t;
}

/* ---- floats ---- */

static void add_act(struct dispatcher *d, enum vk_kernel k, const vk_act *act, uint32_t positions, bool concurrent)
{
    struct vk_shape s = vk_shape(d, 256);
    vk_spec(&s, is_aligned(act->x, act->norm, 4ull * act->ldx));
    kl_act f = { .step = act->step, .x = act->x, .norm = act->norm, .map = act->map, .out = act->q, .n_in = act->n_in,
                 .ldx = act->ldx, .rows = act->rows, .div = act->div, .eps = act->eps };
    (concurrent ? vk_add_concurrent : vk_add)(d, k, &s, positions, 1, 1, k == VK_act_f32 ? (const void *)&f : act);
}

/* Matrices of one type, or a pair. Many columns: tiles are enough for all of the device, and large ones do more with
 * what they read; few: small tiles, and k shared out among teams. */
static void add_gemm_f32(struct dispatcher *d, const kl_gemm *g, uint32_t rows, bool concurrent)
{
    uint32_t columns = 0;
    bool aligned = g->n_in % 4 == 0 && is_aligned(g->x, 0, 4ull * g->ldx);
    for (uint32_t m = 0; m < g->n_mats; m++) {
        columns += g->n_out[m];
        aligned &= SADDR_OFF(g->w[m]) % 16 == 0;
    }
    bool software = vk_caps(d)->software, large = columns >= F32_LARGE || software;
    struct vk_shape s = vk_shape(d, large || vk_caps(d)->shared_max < F32_TEAMS_SHARED ? 128 : 256);
    uint32_t teams = large ? 1 : MAX(s.v[0] / 64, 1u), threads = s.v[0] / teams;
    struct tile t = large && !software ? tile(threads, 64, 8, 4) : tile(threads, 32, 4, 4);
    spec_tile(&s, g, &t);
    vk_spec(&s, teams);
    vk_spec(&s, aligned);
    (concurrent ? vk_add_concurrent : vk_add)(d, VK_gemm_f32, &s, div_up(rows, t.bn), column_tiles(g, t.bm), 1, g);
}

/* x of g as floats: act's x itself, or normed into a temporary; returns whether that was a launch. */
static bool float_input(struct dispatcher *d, kl_gemm *g, vk_act act, uint32_t rows)
{
    g->x = act.x;
    g->ldx = act.ldx;
    if (!act.norm)
        return false;
    g->x = act.q = dispatch_temp(d, 4ull * rows * act.n_in);
    g->ldx = act.n_in;
    add_act(d, VK_act_f32, &act, rows, false);
    return true;
}

/* ---- int8 ---- */

static bool is_ragged(const kl_gemm *g)
{
    for (uint32_t m = 0; m < g->n_mats; m++)
        if (!is_aligned(g->w[m], 0, g->stride[m]))
            return true;
    return false;
}

/* positions: of a step or, with a list of tiles, of an expert on average: what a tile is to hold. A work-item has as
 * many sums as its registers hold beside what is on its way. */
static struct tile dot_tile(struct dispatcher *d, uint32_t threads, uint32_t positions)
{
    const struct vk_caps *c = vk_caps(d);
    if (c->software)
        return tile(threads, 32, 4, 4);
    if (positions <= threads / 8)
        return tile(threads, 64, 4, 2);
    if (!c->fast_dot4 || c->wave == 16)
        return tile(threads, 32, 4, 2);
    return positions <= threads / 4 || c->wave != 32 ? tile(threads, 64, 4, 4) : tile(threads, 64, 8, 4);
}

/* Bytes of shared memory: the codes of both, the weights' scales and minima of up to 8 runs, the inputs' scales and
 * sums. */
static uint32_t dot_shared(const struct tile *t)
{
    return (t->bm + t->bn) * (DOT_STEP + 16) + t->bm * 8 * 8 + t->bn * 4 * 12;
}

/* One type. */
static void add_gemm_dot(struct dispatcher *d, const kl_gemm *g, gpu_va meta, uint32_t positions, uint32_t average,
                         bool concurrent)
{
    vk_gemm args = { 0 };
    struct vk_shape s = vk_shape(d, 128);
    struct tile t = dot_tile(d, s.v[0], average);
    memcpy(&args, g, sizeof *g);
    args.meta = meta;
    while (dot_shared(&t) > vk_caps(d)->shared_max && t.tm > 2)
        t.tm /= 2, t.bm /= 2;
    CHECK(dot_shared(&t) <= vk_caps(d)->shared_max);
    spec_tile(&s, g, &t);
    vk_spec(&s, is_ragged(g));
    uint32_t x = g->tiles ? g->n_slots * div_up(MIN(2 * average, KL_TILE_ROWS), t.bn) : div_up(positions, t.bn);
    (concurrent ? vk_add_concurrent : vk_add)(d, VK_gemm_dot, &s, x, column_tiles(g, t.bm), 1, &args);
}

/* The positions' inputs as codes: in g->x, g->xrows; returns where their scales are. */
static gpu_va add_codes(struct dispatcher *d, kl_gemm *g, vk_act act, uint32_t positions, bool concurrent)
{
    g->xrows = act.xrows = positions;
    g->x = act.q = dispatch_temp(d, (uint64_t)positions * act.n_in);
    act.meta = dispatch_temp(d, (uint64_t)positions * act.n_in / 4);
    add_act(d, VK_act_q8, &act, positions, concurrent);
    return act.meta;
}

static bool has_planes(uint32_t type, uint32_t n_in)
{
    return planes_of(type).n && n_in % qtype_block(type) == 0;
}

struct part {
    gpu_va meta;
    uint32_t positions;
};

static void add_part(struct dispatcher *d, kl_gemm *g, void *user)
{
    const struct part *p = user;
    add_gemm_dot(d, g, p->meta, p->positions, p->positions, false);
}

/* ---- MATMUL, PROJ, GATE_UP ---- */

static vk_act input(const ka_matmul *a)
{
    return (vk_act){ .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->ldx, .rows = a->rows,
                     .eps = a->eps };
}

/* The matrices of the float types `left`, whose x is in g: a launch for each type, one for a pair. */
static void add_floats(struct dispatcher *d, kl_gemm *g, const ka_matmul *a, uint64_t left, bool concurrent)
{
    for (left &= dispatch_gemm_types(a); left; concurrent = true) {
        uint64_t types = g->pair ? left : left & -left;
        dispatch_gemm_pick(g, a, types);
        add_gemm_f32(d, g, dispatch_rows(d, a->rows), concurrent);
        left &= ~types;
    }
}

void vk_gemm_floats(struct dispatcher *d, enum cmd_op op, const ka_matmul *a, uint64_t types)
{
    kl_gemm g = dispatch_gemm(op, a);
    if (!(dispatch_gemm_types(a) & types))
        return;
    float_input(d, &g, input(a), dispatch_rows(d, a->rows));
    add_floats(d, &g, a, types, false);
}

static bool products_fit(const ka_matmul *a, bool pair)
{
    for (uint32_t m = 0; m < a->n_mats; m++) {
        bool f = mv_is_float(a->type[m]);
        if (!f && !has_planes(a->type[m], a->n_in))
            return false;
        if (pair && (f ? !mv_is_float(a->type[0]) : a->type[m] != a->type[0]))
            return false;
    }
    return true;
}

/* Inputs beside each other, then products beside each other. */
bool vk_gemm_dot_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    uint32_t rows = dispatch_rows(d, a->rows);
    uint64_t types = dispatch_gemm_types(a), left = types & ~FLOATS;
    if ((a->rows == ROWS_OUT && d->s->h.out_cap <= KL_DECODE_ROWS) || !products_fit(a, op == CMD_GATE_UP))
        return false;
    kl_gemm f = dispatch_gemm(op, a), g = f;
    bool normed = types & FLOATS && float_input(d, &f, input(a), rows), concurrent = false;
    gpu_va meta = left ? add_codes(d, &g, input(a), rows, normed) : 0;
    for (; left; concurrent = true, left &= left - 1) { /* a launch for each type */
        dispatch_gemm_pick(&g, a, left & -left);
        if (qtype_is_opened((enum qtype)g.type[0]))
            dispatch_gemm_opened(d, &g, vk_gemm_open, add_part, &(struct part){ meta, rows });
        else
            add_gemm_dot(d, &g, meta, rows, rows, concurrent);
    }
    add_floats(d, &f, a, FLOATS, concurrent);
    return true;
}

/* ---- router ---- */

bool vk_gemm_dot_router(struct dispatcher *d, const ka_router *a)
{
    uint32_t rows = dispatch_rows(d, ROWS_STEP);
    if (!mv_is_float(a->type))
        return false;
    kl_topk k = { 0 };
    memcpy(&k, a, sizeof *a);
    vk_act act = { .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->n_in, .eps = a->eps,
                   .rows = ROWS_STEP };
    kl_gemm g = { .step = a->step, .y = { a->logits }, .w = { a->w }, .b = { a->b }, .n_out = { a->n_expert },
                  .type = { a->type }, .ld = { a->n_expert }, .n_mats = 1, .n_in = a->n_in, .rows = ROWS_STEP };
    float_input(d, &g, act, rows);
    add_gemm_f32(d, &g, rows, false);
    if (a->shared_w) {
        g.y[0] = k.share_l = dispatch_temp(d, 4ull * rows);
        g.w[0] = a->shared_w;
        g.b[0] = 0;
        g.n_out[0] = g.ld[0] = 1;
        g.type[0] = QT_F32;
        add_gemm_f32(d, &g, rows, true);
    }
    struct vk_shape s = vk_shape(d, 128);
    vk_add(d, VK_router_topk, &s, div_up(rows, s.v[0] / s.v[1]), 1, 1, &k); /* a subgroup takes a row */
    return true;
}

/* ---- experts ---- */

bool vk_gemm_dot_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    if (a->type_gate != a->type_up || !has_planes(a->type_gate, a->n_in) ||
        !dispatch_open_pays(d, a->type_up, a->k, a->n_expert, 2ull * a->n_ff, a->n_in))
        return false;
    kl_gemm g = { .step = a->step, .y = { a->y }, .w = { a->gate, a->up }, .wscale = { a->sg, a->su }, .b = { a->bg, a->bu },
                  .stride = { a->gate_stride, a->up_stride }, .n_out = { a->n_ff, a->n_ff },
                  .type = { a->type_gate, a->type_up }, .ld = { a->n_ff }, .n_mats = 2, .n_in = a->n_in,
                  .act = a->act, .pair = 1 };
    uint32_t positions = vk_gemm_sort(d, &g, a->ids, a->n_expert, a->k);
    gpu_va meta = add_codes(d, &g, (vk_act){ .step = a->step, .x = a->x, .norm = a->norm, .map = g.map,
                            .n_in = a->n_in, .ldx = a->n_in, .div = a->k, .eps = a->eps }, positions, false);
    dispatch_open_experts(d, &g, a->n_expert, vk_gemm_open);
    add_gemm_dot(d, &g, meta, positions, div_up(dispatch_rows(d, ROWS_STEP) * a->k, a->n_expert), false);
    return true;
}

bool vk_gemm_dot_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    uint32_t rows = dispatch_rows(d, ROWS_STEP);
    if (!has_planes(a->type, a->n_in) || !dispatch_open_pays(d, a->type, a->k, a->n_expert, a->n_out, a->n_in))
        return false;
    kl_moe_mix mix = { 0 };
    memcpy(&mix, a, sizeof *a);
    mix.o = dispatch_temp(d, 4ull * rows * a->k * a->n_out);
    kl_gemm g = { .step = a->step, .y = { mix.o }, .w = { a->down }, .wscale = { a->sd }, .stride = { a->stride },
                  .n_out = { a->n_out }, .type = { a->type }, .ld = { a->n_out }, .n_mats = 1, .n_in = a->n_in };
    uint32_t positions = vk_gemm_sort(d, &g, a->ids, a->n_expert, a->k);
    gpu_va meta = add_codes(d, &g, (vk_act){ .step = a->step, .x = a->x, .map = g.map, .n_in = a->n_in,
                            .ldx = a->n_in, .div = 1 }, positions, false);
    dispatch_open_experts(d, &g, a->n_expert, vk_gemm_open);
    add_gemm_dot(d, &g, meta, positions, div_up(rows * a->k, a->n_expert), false);
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_moe_mix, &s, rows, 1, 1, &mix);
    return true;
}
