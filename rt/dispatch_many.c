/* rt/dispatch_many.c: products of many rows as launches. Of prompts, inputs become bf16 tiles (act_bf16) and weights of
 * block types are dequantised by the matrix kernels (gemm_*); of the class "rows", inputs become codes (act_q8), which
 * multiply with weights as they are (rows_*). On wgmma both take f16 tiles (act_lanes) and weights opened to f16 (gemm_half_*,
 * rows_half_*). F16 and BF16 take the prompts' kernels by bf16 (gemm_wgmma_*) in both; F32, and halves whose rows do
 * not fit those, multiply in f32 (gemm_f32). Types with kernels for few rows alone are opened first (open), a part of a matrix
 * at a time. Experts: pairs are sorted by expert first, and the weighted sum comes last
 * (few rows each: rt/dispatch_experts.c). */
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"
#include "rt/dispatch_impl.h"

enum {
    TILE_N = 64,         /* positions of gemm's tile            */
    GEMM_SHARED = 49152, /* its two buffers                     */
    F32_TILE = 32,       /* of gemm_f32                         */
    F32_SHARED = 36864,
    WGMMA_SHARED = KL_GEMM_RING + 128,
    ROWS_SHARED = 4 * KL_ROWS_WARPS * (KL_ROWS_M + 1), /* of rows_* for each row of x */
    SMALL_SHARED = 256
};

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* ---- sets of types ---- */

#define BIT(t) (1ull << QT_##t)
static const struct {
    uint64_t types;
    uint16_t prompt[2][2], rows[2][2]; /* many, few; portable, or of mma8, and on wgmma */
} sets[] = {
#define SET(types, set)                                                                                                \
    { types, { { K_gemm_##set, K_gemm_half_##set##_n256 }, { K_gemm_##set, K_gemm_half_##set##_n32 } },                \
      { { K_rows_##set##_n64, K_rows_half_##set##_n64 }, { K_rows_##set##_n16, K_rows_half_##set##_n16 } } },
#define QTYPE_BLOCK(NAME, name, set, ...) SET(BIT(NAME), set)
#define QTYPE_PAIR(set, A, B)             SET(BIT(A) | BIT(B), set)
#include "kernels/qtypes.def"
    SET(BIT(OPENED), opened)
#define HALF(NAME, set) { BIT(NAME), { HALF_IDS(set), HALF_IDS(set) }, { HALF_IDS(set), HALF_IDS(set) } },
#define HALF_IDS(set)   { K_gemm_##set, K_gemm_wgmma_##set }
    HALF(F16, f16) HALF(BF16, bf16)
};
enum { N_SETS = sizeof sets / sizeof *sets };

static const uint64_t floats = 0
#define QTYPE_FLOAT(NAME, ...) | BIT(NAME)
#include "kernels/qtypes.def"
    ;

static const uint64_t halves = BIT(F16) | BIT(BF16);

static const uint64_t opened_types = 0
#define QTYPE_BOOK(NAME, ...) | BIT(NAME)
#include "kernels/qtypes.def"
    ;

/* Do weights of these types take kernels for prompts? */
static bool as_prompt(const struct dispatcher *d, uint64_t types)
{
    return !d->rows || types & halves;
}

/* Do they meet f16 there? */
static bool as_half(const struct dispatcher *d, uint64_t types)
{
    return d->t->wgmma && as_prompt(d, types) && !(types & halves);
}

/* Does x become codes, and not tiles? */
static bool codes(const struct dispatcher *d, uint64_t types)
{
    return !as_prompt(d, types) && !d->t->wgmma;
}

/* A kernel for all of these types; KERNEL_COUNT: none. */
static enum kernel_id set_kernel(const struct dispatcher *d, uint64_t types, bool few)
{
    for (uint32_t i = 0; i < N_SETS; i++)
        if (!(types & ~sets[i].types))
            return (d->rows ? sets[i].rows : sets[i].prompt)[few][d->t->wgmma];
    return KERNEL_COUNT;
}

/* Planes, or rows of halves, that are read 16 bytes at a time, of a matrix that prompts' kernels cut along k by 64. */
static bool can_tile(const struct dispatcher *d, uint32_t type, gpu_va w, uint64_t stride, uint32_t n_in)
{
    return (planes_of(type).n || 1ull << type & halves) && n_in % (codes(d, 1ull << type) ? 32 : 64) == 0 &&
           SADDR_OFF(w) % 16 == 0 && stride % 16 == 0;
}
static bool aligned(gpu_va x, uint32_t ldx, gpu_va norm)
{
    return SADDR_OFF(x) % 16 == 0 && ldx % 4 == 0 && SADDR_OFF(norm) % 16 == 0;
}

/* ---- launches ---- */

/* The input as tiles of positions, or codes, as weights of these types want it: in a->x, a->xrows. */
static void add_tiles(struct dispatcher *d, kl_gemm *g, uint64_t types, kl_act act, uint32_t positions)
{
    if (as_half(d, types)) {
        g->xrows = act.xrows = div_up(positions, 8) * 8;
        g->x = act.out = dispatch_temp(d, (2ull * act.n_in + 4) * act.xrows + 128ull * KL_TILE_PAD);
        dispatch_add(d, K_act_half, act.n_in > KL_ACT_SHORT ? positions : div_up(positions, KL_ACT_WARPS), 1, 1, SMALL_SHARED, &act);
        return;
    }
    if (!as_prompt(d, types)) { /* tiles read whole groups of rows */
        bool coded = codes(d, types);
        uint32_t few = KL_ROWS_FEW, dense = positions <= few ? few : KL_ROWS_MAX;
        g->xrows = act.xrows = g->tiles ? div_up(positions, 8) * 8 + few : dense;
        g->x = act.out = dispatch_temp(d, coded ? rows_x(act.n_in, act.xrows).end : (2ull * act.n_in + 4) * act.xrows);
        dispatch_add(d, coded ? K_act_q8 : K_act_lanes, positions, 1, 1, SMALL_SHARED, &act);
        return;
    }
    g->xrows = act.xrows = div_up(positions, 8) * 8;
    g->x = act.out = dispatch_temp(d, 2ull * act.n_in * act.xrows + 128ull * KL_TILE_PAD);
    dispatch_add(d, K_act_bf16, positions, 1, 1, SMALL_SHARED, &act);
}

static uint32_t gemm_tiles(const kl_gemm *g, uint32_t cols)
{
    uint32_t t = 0;
    for (uint32_t m = 0; m < (g->pair ? 1 : g->n_mats); m++)
        t += div_up(g->n_out[m], g->pair ? cols / 2 : cols);
    return t;
}

enum { ROWS_CORES = 132 }; /* an H200's: what decides the order of sums must not depend on the device */

/* Into how many parts k is cut, so that tiles of 128 weight rows by parts keep the machine busy: of the shapes alone, as
 * the order of a sum is. In half blocks of 256: a part costs its length and 2 to begin, 4 more to leave its sums for others,
 * and 2 more to add them up (doc/speed-log.md, "Many streams"). */
static uint32_t rows_parts(uint32_t tiles, uint32_t n_in)
{
    uint32_t blocks = div_up(n_in, KL_ROWS_K), best = 1, least = ~0u;
    for (uint32_t parts = 1; parts <= blocks; parts++) {
        uint32_t len = div_up(blocks, parts), join = parts > 1 ? 4 : 0;
        uint32_t cost = div_up(tiles * parts, ROWS_CORES) * (2 * len + 2 + join) + join / 2;
        if (div_up(blocks, len) == parts && cost < least) /* no empty part */
            best = parts, least = cost;
    }
    return best;
}

static void add_rows_half(struct dispatcher *d, enum kernel_id k, kl_gemm *g, bool few)
{
    uint32_t n = few ? KL_ROWS_FEW : KL_ROWS_MAX, most = KL_ROWS_HALF_TILES(n), tiles = gemm_tiles(g, KL_TILE_ROWS);
    g->parts = g->tiles ? 1 : rows_parts(tiles, g->n_in);
    g->by = tiles * g->parts > ROWS_CORES ? most : 1; /* several tiles share x, where that leaves no core idle */
    tiles = gemm_tiles(g, KL_TILE_ROWS * g->by);
    uint32_t items = tiles * (g->tiles ? g->n_slots : g->parts);
    if (g->parts > 1) {
        g->part = dispatch_temp(d, 4ull * items * most * (n / 2) * KL_ROWS_HALF_WARPS * 32);
        g->counters = dispatch_counters(d, tiles * KL_ROWS_HALF_WARPS);
    }
    struct dispatch *l = dispatch_add(d, k, MIN(items, d->t->n_cores * (few ? 2 : 1)), 1, 1, KL_ROWS_HALF_SHARED(n), g);
    if (g->tiles)
        dispatch_begin_after(l);
}

static void add_gemm_half(struct dispatcher *d, enum kernel_id k, kl_gemm *g, bool few, uint32_t positions)
{
    uint32_t items = gemm_tiles(g, KL_TILE_ROWS) * (g->tiles ? g->n_slots : div_up(positions, 32));
    g->parts = g->by = 1;
    uint32_t shared = KL_GEMM_HALF_SHARED(few ? KL_GEMM_HALF_FEW : 256);
    struct dispatch *l = dispatch_add(d, k, MIN(items, d->t->n_cores * (few ? 2 : 1)), 1, 1, shared, g);
    if (g->tiles)
        dispatch_begin_after(l);
}

/* positions: of a step, or of a list of tiles, which have up to `slot` of them. */
static void add_gemm(struct dispatcher *d, kl_gemm *g, uint32_t positions, uint32_t slot)
{
    uint64_t types = 0;
    for (uint32_t m = 0; m < g->n_mats; m++)
        types |= 1ull << g->type[m];
    bool few = (g->tiles ? slot : positions) <= (d->rows ? KL_ROWS_FEW : KL_GEMM_HALF_FEW);
    enum kernel_id k = set_kernel(d, types, few);
    uint32_t tiles = gemm_tiles(g, as_prompt(d, types) ? KL_TILE_ROWS : KL_ROWS_M);
    CHECK(k != KERNEL_COUNT);
    if (as_half(d, types))
        add_gemm_half(d, k, g, few, positions);
    else if (!as_prompt(d, types) && d->t->wgmma)
        add_rows_half(d, k, g, few);
    else if (!as_prompt(d, types))
        dispatch_add(d, k, tiles, g->tiles ? g->n_slots : 1, 1, ROWS_SHARED * (few ? KL_ROWS_FEW : KL_ROWS_MAX), g);
    else if (d->t->wgmma)
        dispatch_add(d, k, MIN(d->t->n_cores, tiles * (g->tiles ? g->n_slots : div_up(positions, 32))), 1, 1,
                     WGMMA_SHARED, g);
    else
        dispatch_add(d, k, tiles, g->tiles ? g->n_slots : div_up(positions, TILE_N), 1, MIN(GEMM_SHARED, d->t->shared_max), g);
}

static void add_gemm_f32(struct dispatcher *d, const kl_gemm *g, uint32_t rows)
{
    dispatch_add(d, K_gemm_f32, gemm_tiles(g, F32_TILE), div_up(rows, F32_TILE), 1, MIN(F32_SHARED, d->t->shared_max), g);
}

/* Rows for gemm_f32: x itself, or normed into a temporary. */
static void f32_input(struct dispatcher *d, kl_gemm *g, kl_act act, uint32_t rows)
{
    g->x = act.x;
    g->ldx = act.ldx;
    if (!act.norm)
        return;
    g->x = act.out = dispatch_temp(d, 4ull * rows * act.n_in);
    g->ldx = act.n_in;
    dispatch_add(d, K_act_f32, rows, 1, 1, SMALL_SHARED, &act);
}

/* ---- matrices that are opened first ---- */

static void add_open(struct dispatcher *d, const kl_open *o, uint32_t weights, uint32_t n)
{
    uint32_t groups = div_up(weights / mv_item_elems(o->type), kernel_infos[K_open].threads);
    uint32_t book = d->t->books ? mv_book_bytes(o->type) : 0; /* which a work-group makes anew: no more than there is room for */
    dispatch_add(d, K_open, MIN(groups, MAX((book ? 8 : 16) * d->t->n_cores / n, 1u)), n, 1, book ? MV_HEAD_BYTES + book : 0, o);
}

static void add_gemm_part(struct dispatcher *d, kl_gemm *g, void *positions)
{
    add_gemm(d, g, *(uint32_t *)positions, 0);
}

/* ---- MATMUL, PROJ, GATE_UP ---- */

/* F16 and BF16 among the types, where all of their matrices fit the prompts' kernels; the others multiply in f32. */
static uint64_t half_types(const struct dispatcher *d, const ka_matmul *a, bool pair)
{
    uint64_t fit = dispatch_gemm_types(a) & halves;
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (!can_tile(d, a->type[m], a->w[m], 0, a->n_in) || !aligned(a->x, a->ldx, a->norm) ||
            (pair && a->type[m] != a->type[0]))
            fit &= ~(pair ? halves : 1ull << a->type[m]);
    return fit;
}

static bool products_fit(const struct dispatcher *d, const ka_matmul *a, bool pair)
{
    for (uint32_t m = 0; m < a->n_mats; m++) {
        bool f = mv_is_float(a->type[m]);
        if (!f && (!can_tile(d, a->type[m], a->w[m], 0, a->n_in) || !aligned(a->x, a->ldx, a->norm)))
            return false;
        if (pair && (f ? !mv_is_float(a->type[0]) : a->type[m] != a->type[0]))
            return false;
    }
    return true;
}

/* The products of these types, whose x is there: one launch if a kernel reads them all, else one for each. */
static void add_products(struct dispatcher *d, kl_gemm *g, const ka_matmul *a, uint64_t left, uint32_t rows)
{
    while (left) {
        uint64_t types = set_kernel(d, left, false) != KERNEL_COUNT ? left : left & -left;
        if (left & opened_types)
            types = left & opened_types & -(left & opened_types);
        dispatch_gemm_pick(g, a, types);
        if (types & opened_types)
            dispatch_gemm_opened(d, g, add_open, add_gemm_part, &rows);
        else
            add_gemm(d, g, rows, 0);
        left &= ~types;
    }
}

bool dispatch_many_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    uint32_t rows = dispatch_rows(d, a->rows);
    if ((a->rows == ROWS_OUT && d->s->h.out_cap <= KL_DECODE_ROWS) || !products_fit(d, a, op == CMD_GATE_UP))
        return false;
    kl_act act = { .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->ldx, .rows = a->rows,
                   .eps = a->eps };
    kl_gemm g = dispatch_gemm(op, a);
    uint64_t half = half_types(d, a, op == CMD_GATE_UP), blocks = dispatch_gemm_types(a) & ~floats;
    if (dispatch_gemm_pick(&g, a, floats & ~half)) {
        f32_input(d, &g, act, rows);
        add_gemm_f32(d, &g, rows);
    }
    if (half && (!blocks || !as_prompt(d, blocks) || d->t->wgmma)) {
        add_tiles(d, &g, half, act, rows);
        add_products(d, &g, a, half, rows);
        half = 0;
    }
    if (blocks)
        add_tiles(d, &g, blocks, act, rows);
    add_products(d, &g, a, half | blocks, rows);
    return true;
}

/* ---- router ---- */

bool dispatch_many_router(struct dispatcher *d, const ka_router *a)
{
    enum { ROWS = 4 }; /* of a work-group of router_topk */
    uint32_t rows = dispatch_rows(d, ROWS_STEP);
    if (!mv_is_float(a->type) || 4u * ROWS * a->n_expert > d->t->shared_max)
        return false;
    kl_topk k = { 0 };
    memcpy(&k, a, sizeof *a);
    kl_act act = { .step = a->step, .x = a->x, .norm = a->norm, .n_in = a->n_in, .ldx = a->n_in, .eps = a->eps,
                   .rows = ROWS_STEP };
    kl_gemm g = { .step = a->step, .y = { a->logits }, .w = { a->w }, .b = { a->b }, .n_out = { a->n_expert },
                  .type = { a->type }, .ld = { a->n_expert }, .n_mats = 1, .n_in = a->n_in, .rows = ROWS_STEP };
    if (a->shared_w) {
        g.n_mats = 2;
        g.y[1] = k.share_l = dispatch_temp(d, 4ull * rows);
        g.w[1] = a->shared_w;
        g.n_out[1] = g.ld[1] = 1;
        g.type[1] = QT_F32;
    }
    f32_input(d, &g, act, rows);
    add_gemm_f32(d, &g, rows);
    dispatch_add(d, K_router_topk, div_up(rows, ROWS), 1, 1, 4 * ROWS * a->n_expert, &k);
    return true;
}

/* ---- experts ---- */

/* The pairs by expert: the list into g->tiles, g->n_slots and g->map; returns the positions and what a tile has at most. It stays where
 * it is until the MOE_DOWN, which has the same pairs. */
static kl_moe_sort add_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k)
{
    enum { THREADS = 256 };
    uint64_t temp = d->temp_at;
    d->temp_at = 0;
    kl_moe_sort s = d->sorted = dispatch_gemm_sort(d, g, ids, n_expert, k);
    d->temp_base = MAX(d->temp_base, d->temp_at);
    d->temp_at = MAX(d->temp_base, temp);
    dispatch_begin_after(dispatch_add(d, K_moe_sort, n_expert, 1, 1, 8 * THREADS / 32, &s));
    return s;
}

static kl_moe_sort take_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k)
{
    kl_moe_sort s = d->sorted;
    if (s.ids != ids || s.n_expert != n_expert || s.k != k)
        s = add_sort(d, g, ids, n_expert, k);
    g->map = s.order;
    g->tiles = s.tiles;
    g->n_slots = s.n_slots;
    d->sorted = (kl_moe_sort){ 0 };
    return s;
}

bool dispatch_many_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    d->sorted = (kl_moe_sort){ 0 }; /* an earlier layer's, whose ids lay at the same place */
    if (dispatch_experts_up(d, a))
        return true;
    if (a->type_gate != a->type_up || !can_tile(d, a->type_gate, a->gate, a->gate_stride, a->n_in) ||
        !can_tile(d, a->type_up, a->up, a->up_stride, a->n_in) || !aligned(a->x, a->n_in, a->norm) ||
        !dispatch_open_pays(d, a->type_up, a->k, a->n_expert, 2ull * a->n_ff, a->n_in))
        return false;
    kl_gemm g = { .step = a->step, .y = { a->y }, .w = { a->gate, a->up }, .wscale = { a->sg, a->su }, .b = { a->bg, a->bu },
                  .stride = { a->gate_stride, a->up_stride }, .n_out = { a->n_ff, a->n_ff },
                  .type = { a->type_gate, a->type_up }, .ld = { a->n_ff }, .n_mats = 2, .n_in = a->n_in,
                  .act = a->act, .pair = 1 };
    kl_moe_sort sort = add_sort(d, &g, a->ids, a->n_expert, a->k);
    kl_act act = { .step = a->step, .x = a->x, .norm = a->norm, .map = g.map, .n_in = a->n_in, .ldx = a->n_in, .div = a->k,
                   .eps = a->eps };
    add_tiles(d, &g, 1ull << a->type_up, act, sort.n_pos);
    dispatch_open_experts(d, &g, a->n_expert, add_open);
    add_gemm(d, &g, sort.n_pos, sort.slot);
    return true;
}

/* The weighted sum of o f32 [rows, k, n_out]. */
static void add_mix(struct dispatcher *d, const ka_moe_down *a, gpu_va o)
{
    kl_moe_mix mix = { 0 };
    memcpy(&mix, a, sizeof *a);
    mix.o = o;
    uint32_t rows = dispatch_rows(d, ROWS_STEP), columns = div_up(a->n_out, kernel_infos[K_moe_mix].threads);
    uint32_t share = MAX(4 * d->t->n_cores / rows, 1u); /* of each row's columns */
    dispatch_begin_after(dispatch_add(d, K_moe_mix, rows, MIN(columns, share), 1, 0, &mix));
}

bool dispatch_many_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    gpu_va o = dispatch_experts_down(d, a);
    if (o) {
        add_mix(d, a, o);
        return true;
    }
    if (!can_tile(d, a->type, a->down, a->stride, a->n_in) || !aligned(a->x, a->n_in, 0) ||
        !dispatch_open_pays(d, a->type, a->k, a->n_expert, a->n_out, a->n_in))
        return false;
    kl_gemm g = { .step = a->step, .w = { a->down }, .wscale = { a->sd }, .stride = { a->stride }, .n_out = { a->n_out },
                  .type = { a->type }, .ld = { a->n_out }, .n_mats = 1, .n_in = a->n_in };
    kl_moe_sort sort = take_sort(d, &g, a->ids, a->n_expert, a->k);
    g.y[0] = dispatch_temp(d, 4ull * dispatch_rows(d, ROWS_STEP) * a->k * a->n_out);
    kl_act act = { .step = a->step, .x = a->x, .map = g.map, .n_in = a->n_in, .ldx = a->n_in, .div = 1 };
    add_tiles(d, &g, 1ull << a->type, act, sort.n_pos);
    dispatch_open_experts(d, &g, a->n_expert, add_open);
    add_gemm(d, &g, sort.n_pos, sort.slot);
    add_mix(d, a, g.y[0]);
    return true;
}
