/* kernels/gemm_wgmma.c: products of prompts with F16 and BF16 weights on Hopper's tensor cores, in bf16, sm_90a only
 * (block types: gemm_half.c). A persistent work-group of three warpgroups goes through work items (a tile of 128 weight
 * rows x up to 256 positions). The last warpgroup produces: it brings the weights of 64 k into shared memory as bf16, a row
 * each, and starts the copy of the positions' tile; the first two
 * consume, 64 weight rows each. A ring of stages in shared memory lies between them, with a pair of barriers each:
 * `full` when weights and positions are there, `empty` when both consumers have read them. The producer runs ahead
 * into the next item while the consumers write the last one out.
 *
 * A sum goes along k in ascending order, 16 at a time, whatever the width of the tile: its bits depend on nothing
 * else, so the width is chosen here, from the step's rows. */
#if defined(KD_SM90)
#include "kernels/gemm_out.h"
#include "kernels/hw/wgmma.h"
#include "kernels/qset.h"
#include "kernels/wtile.h"

enum {
    W_BYTES = KL_TILE_ROWS * 128,            /* weights of a stage                              */
    RING_BYTES = KL_GEMM_RING,               /* shared memory: the ring, then the barriers      */
    MAX_STAGES = 8,
    CONSUMERS = 8, PRODUCERS = 4             /* warps, as barriers count them                   */
};

/* How this launch is cut. */
struct plan {
    uint32_t rows;           /* positions; of a list: unused             */
    uint32_t width;          /* positions of a tile at most              */
    uint32_t tiles, n_tiles; /* of weights, of positions                 */
    uint32_t items;
    uint32_t stages, stage_bytes;
};

struct ring {
    uint32_t at, phase;
};

KD_FN void ring_next(struct ring *r, const struct plan *p)
{
    if (++r->at == p->stages) {
        r->at = 0;
        r->phase ^= 1;
    }
}
KD_FN uint32_t ring_before(const struct ring *r, const struct plan *p) { return (r->at ? r->at : p->stages) - 1; }
KD_FN wg_bar *bar_full(uint32_t at) { return KD_SHARED_AT(uint64_t, RING_BYTES) + at; }
KD_FN wg_bar *bar_empty(uint32_t at) { return KD_SHARED_AT(uint64_t, RING_BYTES) + MAX_STAGES + at; }

/* Cycles of a stage by width, about: the products where they are wide, the dequantisation where they are narrow. */
KD_FN uint32_t stage_cycles(uint32_t width)
{
    return width == 256 ? 1060 : width == 192 ? 830 : width == 128 ? 640 : width == 64 ? 420 : 380;
}

/* The width that ends soonest. */
KD_FN uint32_t best_width(uint32_t tiles, uint32_t rows, uint32_t stages)
{
    uint32_t best = 256, least = ~0u;
    KD_UNROLL
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t width = i == 0 ? 256 : i == 1 ? 192 : i == 2 ? 128 : i == 3 ? 64 : 32;
        uint32_t rounds = kd_div_up(tiles * kd_div_up(rows, width), kd_groups_x());
        uint32_t cycles = rounds * (stages * stage_cycles(width) + 1500 + 16 * width);
        if (cycles < least) {
            least = cycles;
            best = width;
        }
    }
    return best;
}

KD_FN struct plan make_plan(const kl_gemm *a)
{
    struct plan p = { .tiles = gemm_tiles(a) };
    if (a->tiles) {
        p.width = 128;
        p.n_tiles = a->n_slots;
    } else {
        p.rows = kd_step_rows(a->step, a->rows);
        p.width = best_width(p.tiles, p.rows, a->n_in / WT_K);
        p.n_tiles = kd_div_up(p.rows, p.width);
    }
    p.items = p.tiles * p.n_tiles;
    p.stage_bytes = W_BYTES + p.width * 128;
    p.stages = kd_min_u32(RING_BYTES / p.stage_bytes, MAX_STAGES);
    return p;
}

/* Item i; false: nothing to do. Neighbours share their weights, or with a list their positions. */
KD_FN bool find_item(const kl_gemm *a, const struct plan *p, uint32_t i, struct gemm_item *it)
{
    gemm_find_tile(a, a->tiles ? i % p->tiles : i / p->n_tiles, it);
    if (a->tiles)
        return gemm_find_slot(a, i / p->tiles, it);
    it->expert = 0;
    it->n0 = i % p->n_tiles * p->width;
    it->n = kd_min_u32(p->rows - it->n0, p->width);
    return true;
}

/* The next item of this work-group from i on; items for none. */
KD_FN uint32_t next_item(const kl_gemm *a, const struct plan *p, uint32_t i, struct gemm_item *it)
{
    while (i < p->items && !find_item(a, p, i, it))
        i += kd_groups_x();
    return kd_min_u32(i, p->items);
}

/* Positions that are multiplied: a width that wg_multiply has. */
KD_FN uint32_t item_width(const kl_gemm *a, const struct plan *p, const struct gemm_item *it)
{
    return a->tiles ? (it->n + 31) / 32 * 32 : p->width;
}

/* ---- the producer ---- */

struct producer {
    uint32_t tid;
    uint32_t item;          /* its index; items: the end */
    struct gemm_item it;
    struct ring r;
};

KD_FN struct wt_src producer_src(enum qtype type, const kl_gemm *a, const struct producer *p)
{
    uint32_t mat = gemm_row_mat(a, &p->it, p->tid), n = a->n_out[mat];
    uint32_t row = kd_min_u32(gemm_row_col(a, &p->it, p->tid), n - 1);
    return wt_src(type, a->w[mat] + p->it.expert * a->stride[mat], n, a->n_in, row);
}

KD_FN void produce_stage(enum qtype type, const kl_gemm *a, const struct plan *plan, const struct gemm_item *it,
                         struct producer *p, const struct wt_raw *raw, uint32_t c, uint32_t kc)
{
    uint32_t base = p->r.at * plan->stage_bytes;
    bar_wait(bar_empty(p->r.at), p->r.phase ^ 1);
    if (p->tid == 0) {
        uint32_t bytes = item_width(a, plan, it) * 128;
        bar_arrive_bytes(bar_full(p->r.at), bytes);
        bulk_copy(KD_SHARED_AT(uint8_t, base + W_BYTES),
                  KD_PTR(const uint8_t, a->x + ((uint64_t)kc * a->xrows + it->n0) * 128), bytes, bar_full(p->r.at));
    }
    KD_SHARED kd_u32x4 *w = KD_SHARED_AT(kd_u32x4, base + p->tid * 128);
    KD_UNROLL
    for (uint32_t i = 0; i < WT_PIECES; i++)
        w[i ^ p->tid % 8] = wt_piece(type, raw, c, i);
    async_fence_shared();
    kd_warp_sync();
    if (kd_lane() == 0)
        bar_arrive(bar_full(p->r.at));
    ring_next(&p->r, plan);
}

/* Items of one type, from p->item on; the unit after the present one is on its way, across items too. */
KD_FN void produce(enum qtype type, const kl_gemm *a, const struct plan *plan, struct producer *p)
{
    uint32_t units = kd_div_up(a->n_in, wt_unit(type));
    struct wt_src src = producer_src(type, a, p);
    struct wt_raw raw, next;
    wt_load(type, &next, &src, 0, wt_chunks(type, a->n_in, 0));
    bool more = true;
    while (more) {
        struct gemm_item it = p->it;
        for (uint32_t u = 0; u < units; u++) {
            uint32_t chunks = wt_chunks(type, a->n_in, u), after = u + 1;
            raw = next;
            if (after == units) {
                p->item = next_item(a, plan, p->item + kd_groups_x(), &p->it);
                more = p->item < plan->items && a->type[p->it.mat] == type;
                after = 0;
                if (more)
                    src = producer_src(type, a, p);
            }
            if (more)
                wt_load(type, &next, &src, after, wt_chunks(type, a->n_in, after));
            KD_UNROLL
            for (uint32_t c = 0; c < wt_unit_chunks(type); c++) {
                if (c >= chunks)
                    continue;
                produce_stage(type, a, plan, &it, p, &raw, c, u * wt_unit_chunks(type) + c);
            }
        }
    }
}

KD_FN void produce_all(const kl_gemm *a, const struct plan *plan)
{
    struct producer p = { .tid = kd_tid() % 128 };
    p.item = next_item(a, plan, kd_group_x(), &p.it);
    async_fence_global(); /* the positions were written by ordinary stores */
    while (p.item < plan->items) {
        if (a->type[p.it.mat] == QSET_A)
            produce(QSET_A, a, plan, &p);
        if (QSET_PAIR && p.item < plan->items && a->type[p.it.mat] == QSET_B)
            produce(QSET_B, a, plan, &p);
    }
}

/* ---- the consumers ---- */

KD_FN void multiply(float *d, uint32_t width, uint64_t wa, uint64_t xa, uint32_t add)
{
    switch (width) {
    case 32: wg_multiply_32(d, wa, xa, add); break;
    case 64: wg_multiply_64(d, wa, xa, add); break;
    case 96: wg_multiply_96(d, wa, xa, add); break;
    case 128: wg_multiply_128(d, wa, xa, add); break;
    case 192: wg_multiply_192(d, wa, xa, add); break;
    default: wg_multiply_256(d, wa, xa, add);
    }
}

/* One item's sums: while the products of a stage run, those of the stage before are waited for and its memory given
 * back. */
KD_FN void consume(const kl_gemm *a, const struct plan *plan, struct ring *r, uint32_t width, float d[128])
{
    uint32_t half = kd_warp() / 4 * 64 * 128;
    for (uint32_t k = 0; k < a->n_in; k += WT_K) {
        uint32_t base = r->at * plan->stage_bytes;
        bar_wait(bar_full(r->at), r->phase);
        multiply(d, width, wg_tile(KD_SHARED_AT(uint8_t, base + half)),
                 wg_tile(KD_SHARED_AT(uint8_t, base + W_BYTES)), k);
        wg_wait_1();
        if (k && kd_lane() == 0)
            bar_arrive(bar_empty(ring_before(r, plan)));
        ring_next(r, plan);
    }
    wg_wait_0(d, width);
    if (kd_lane() == 0)
        bar_arrive(bar_empty(ring_before(r, plan)));
}

KD_FN void consume_all(const kl_gemm *a, const struct plan *plan)
{
    struct gemm_item it = { 0 };
    struct ring r = { 0, 0 };
    uint32_t i = kd_group_x();
    while ((i = next_item(a, plan, i, &it)) < plan->items) {
        float d[128] = { 0 };
        switch (item_width(a, plan, &it)) {
        case 32: consume(a, plan, &r, 32, d); break;
        case 64: consume(a, plan, &r, 64, d); break;
        case 96: consume(a, plan, &r, 96, d); break;
        case 128: consume(a, plan, &r, 128, d); break;
        case 192: consume(a, plan, &r, 192, d); break;
        default: consume(a, plan, &r, 256, d);
        }
        gemm_write_out(a, &it, 256, 4, d);
        i += kd_groups_x();
    }
}

QSET_KERNEL(k_gemm_wgmma_, , kl_gemm)
{
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < MAX_STAGES; i++) {
            bar_init(bar_full(i), PRODUCERS + 1);
            bar_init(bar_empty(i), CONSUMERS);
        }
        bar_init_done();
    }
    kd_barrier();
    kd_wait_inputs();
    kd_let_next_start();
    struct plan plan = make_plan(&a);
    if (kd_warp() >= CONSUMERS)
        produce_all(&a, &plan);
    else
        consume_all(&a, &plan);
}

#else
typedef int gemm_wgmma_needs_sm_90a;
#endif
