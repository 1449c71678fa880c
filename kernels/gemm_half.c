/* kernels/gemm_half.c: products of prompts with weights of block types on Hopper's tensor cores, in f16, sm_90a only. A work
 * item is a tile of 128 weight rows by up to 256 positions; persistent work-groups take items in turn. Two warpgroups multiply,
 * a warp 16 weight rows: weights come through a ring of the warp's own (kernels/wsupply.h) and are opened into the registers
 * that the instruction takes as A, while the product of the chunk of 64 k before them runs. One more warp keeps a ring of
 * stages filled, a chunk of the item's positions each; a stage has a pair of barriers.
 *
 * Weights and positions are those of rows_half.c. A sum goes along k in ascending order, 16 at a time, whatever the width of
 * the tile: its bits depend on nothing else, so the width is chosen here, from the step's rows. */
#if defined(KD_SM90)
#include "kernels/gemm_out.h"
#include "kernels/qset.h"
#include "kernels/wsupply.h"

enum {
    WARPS = KL_ROWS_HALF_WARPS,
    MAX_STAGES = KL_GEMM_HALF_STAGES
};

/* ---- shared memory: the warps' rings, the stages, the factors of positions that come with an item's last stage, barriers ----
 * most: positions of the kernel's tiles at most, a constant. */
KD_FN uint32_t stages_at(void) { return WARPS * KL_ROWS_RING; }
KD_FN uint32_t factors_at(uint32_t most) { return stages_at() + KL_GEMM_HALF_X(most); }
KD_FN KD_SHARED float *factors(uint32_t most, uint32_t at) { return KD_SHARED_AT(float, factors_at(most) + at * most * 4); }
KD_FN wg_bar *bar_full(uint32_t most, uint32_t at)
{
    return KD_SHARED_AT(uint64_t, factors_at(most) + MAX_STAGES * most * 4) + at;
}
KD_FN wg_bar *bar_empty(uint32_t most, uint32_t at) { return bar_full(most, at) + MAX_STAGES; }

struct ring {
    uint32_t at, phase;
    uint32_t stages, bytes; /* of a stage */
};

KD_FN void ring_next(struct ring *r)
{
    if (++r->at == r->stages) {
        r->at = 0;
        r->phase ^= 1;
    }
}
KD_FN KD_SHARED uint8_t *stage(const struct ring *r) { return KD_SHARED_AT(uint8_t, stages_at() + r->at * r->bytes); }

/* ---- items ---- */

/* Positions that are multiplied for n of them. */
KD_FN uint32_t width_of(uint32_t n) { return n <= 128 ? (n + 31) / 32 * 32 : n <= 192 ? 192 : 256; }

/* Cycles of a chunk by width, about: the products where they are wide, opening the weights where they are narrow. */
KD_FN uint32_t chunk_cycles(uint32_t width)
{
    return width == 256 ? 1100 : width == 192 ? 850 : width == 128 ? 640 : width == 96 ? 560 : width == 64 ? 500 : 460;
}

/* The width that ends soonest. */
KD_FN uint32_t best_width(uint32_t most, uint32_t tiles, uint32_t rows, uint32_t chunks)
{
    uint32_t best = 0, least = ~0u;
    KD_UNROLL
    for (uint32_t i = most > KL_GEMM_HALF_FEW ? 0 : 5; i < 6; i++) {
        uint32_t width = i == 0 ? 256 : i == 1 ? 192 : i == 2 ? 128 : i == 3 ? 96 : i == 4 ? 64 : 32;
        uint32_t rounds = kd_div_up(tiles * kd_div_up(rows, width), kd_groups_x());
        uint32_t cycles = rounds * (chunks * chunk_cycles(width) + 1500 + 16 * width);
        if (cycles < least) {
            least = cycles;
            best = width;
        }
    }
    return best;
}

KD_FN struct work all_items(uint32_t most, const kl_gemm *a)
{
    struct work w = { .tiles = gemm_tiles(a), .n_tiles = 1, .width = kd_min_u32(most, KL_TILE_ROWS) };
    if (!a->tiles) {
        w.rows = kd_step_rows(a->step, a->rows);
        w.width = best_width(most, w.tiles, w.rows, a->n_in / WT_K);
        w.n_tiles = kd_div_up(w.rows, w.width);
    }
    w.items = w.tiles * (a->tiles ? a->n_slots : w.n_tiles);
    next_item(a, &w, kd_group_x());
    return w;
}

/* ---- positions ---- */

/* All stages of all items of this work-group, by one lane. */
KD_FN void feed(uint32_t most, const kl_gemm *a, struct work w, struct ring r)
{
    async_fence_global(); /* the positions were written by ordinary stores */
    for (; w.i < w.items; next_item(a, &w, w.i + kd_groups_x())) {
        uint32_t width = width_of(w.it.n), chunks = a->n_in / WT_K;
        for (uint32_t c = 0; c < chunks; c++) {
            bool last = c + 1 == chunks;
            bar_wait(bar_empty(most, r.at), r.phase ^ 1);
            bar_arrive_bytes(bar_full(most, r.at), width * (last ? 132 : 128));
            bulk_copy(stage(&r), KD_PTR(const uint8_t, a->x + ((uint64_t)c * a->xrows + w.it.n0) * 128), width * 128,
                      bar_full(most, r.at));
            if (last)
                bulk_copy(factors(most, r.at), KD_PTR(const float, a->x + 2ull * a->n_in * a->xrows) + w.it.n0, width * 4,
                          bar_full(most, r.at));
            ring_next(&r);
        }
    }
}

/* ---- products ---- */

KD_FN void multiply(float *d, uint32_t width, const uint32_t *w, uint64_t x, uint32_t add)
{
    switch (width) {
    case 32: wg_multiply_regs_32(d, w, x, add); break;
    case 64: wg_multiply_regs_64(d, w, x, add); break;
    case 96: wg_multiply_regs_96(d, w, x, add); break;
    case 128: wg_multiply_regs_128(d, w, x, add); break;
    case 192: wg_multiply_regs_192(d, w, x, add); break;
    default: wg_multiply_regs_256(d, w, x, add);
    }
}

/* The sums times the positions' factors (act_half). */
KD_FN void scale_back(uint32_t width, KD_SHARED const float *f, float *d)
{
    GEMM_ALL_OF
    for (uint32_t j = 0; j < width / 8; j++) {
        kd_f32x2 v = *(KD_SHARED const kd_f32x2 *)(f + 8 * j + kd_lane() % 4 * 2);
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            d[4 * j + i] *= v[i % 2];
    }
    async_fence_shared(); /* before the stage is given back */
    kd_warp_sync();
}

/* One item's sums. While the products of a chunk run, the weights of the next one are opened, into other registers: those that
 * an instruction reads may not be written as long as it runs, and the compiler sees to it by waiting where it is in doubt. So
 * they are moved when all is complete, by an operation that it cannot take for a mere copy. */
KD_FN void consume(enum qtype type, uint32_t most, uint32_t width, const kl_gemm *a, struct supply *s, uint32_t *at,
                   struct ring *r, float *d)
{
    uint32_t chunks = a->n_in / WT_K, zero = kd_group_y(), next[1][16], w[16];
    supply_wait(type);
    supply_open(type, 1, 1, *at, 0, next);
    KD_NO_UNROLL
    for (uint32_t c = 0; c < chunks; c++) {
        bar_wait(bar_full(most, r->at), r->phase);
        KD_UNROLL
        for (uint32_t i = 0; i < 16; i++)
            w[i] = next[0][i] ^ zero;
        multiply(d, width, w, wg_tile(stage(r)), c);
        uint32_t after = c + 1;
        if (after % WL_CHUNKS == 0 || after == chunks) {
            *at = next_slot(type, *at);
            supply_next(type, false, 1, a, s);
            if (after < chunks)
                supply_wait(type);
        }
        if (after < chunks)
            supply_open(type, 1, 1, *at, after % WL_CHUNKS, next);
        wg_wait_0(d, width);
        if (after == chunks)
            scale_back(width, factors(most, r->at), d);
        if (kd_lane() == 0)
            bar_arrive(bar_empty(most, r->at));
        ring_next(r);
    }
}

/* Items of one type, from w->i on. */
KD_FN void consume_type(enum qtype type, uint32_t most, const kl_gemm *a, struct work *w, struct ring *r)
{
    struct supply s = { .w = *w, .on = true };
    uint32_t at = 0;
    supply_begin(type, false, 1, a, &s);
    do {
        uint32_t width = width_of(w->it.n);
        float d[128] = { 0 };
        if (most == KL_GEMM_HALF_FEW || width <= 32)
            consume(type, most, 32, a, &s, &at, r, d);
        else if (width <= 64)
            consume(type, most, 64, a, &s, &at, r, d);
        else if (width <= 96)
            consume(type, most, 96, a, &s, &at, r, d);
        else if (width <= 128)
            consume(type, most, 128, a, &s, &at, r, d);
        else if (width <= 192)
            consume(type, most, 192, a, &s, &at, r, d);
        else
            consume(type, most, 256, a, &s, &at, r, d);
        gemm_write_out(a, &w->it, most, most == KL_GEMM_HALF_FEW ? 4 : GEMM_BATCH, d);
        next_item(a, w, w->i + kd_groups_x());
    } while (w->i < w->items && a->type[w->it.mat] == type);
}

KD_FN void gemm_main(uint32_t most, const kl_gemm *a)
{
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < MAX_STAGES; i++) {
            bar_init(bar_full(most, i), 1);
            bar_init(bar_empty(most, i), WARPS);
        }
        bar_init_done();
    }
    kd_barrier();
    kd_wait_inputs();
    kd_let_next_start();
    struct work w = all_items(most, a);
    struct ring r = { .bytes = w.width * 128 };
    r.stages = kd_min_u32(KL_GEMM_HALF_X(most) / r.bytes, MAX_STAGES);
    if (kd_warp() >= WARPS) {
        if (most > KL_GEMM_HALF_FEW)
            wg_registers_less(40);
        if (kd_tid() == WARPS * KD_WARP)
            feed(most, a, w, r);
        return;
    }
    if (most > KL_GEMM_HALF_FEW)
        wg_registers_more(232);
    while (w.i < w.items) {
        if (a->type[w.it.mat] == QSET_A)
            consume_type(QSET_A, most, a, &w, &r);
        if (QSET_PAIR && w.i < w.items && a->type[w.it.mat] == QSET_B)
            consume_type(QSET_B, most, a, &w, &r);
    }
}

QSET_KERNEL(k_gemm_half_, _n32, kl_gemm)
{
    gemm_main(KL_GEMM_HALF_FEW, &a);
}
QSET_KERNEL(k_gemm_half_, _n256, kl_gemm)
{
    gemm_main(256, &a);
}

#else
typedef int gemm_half_needs_sm_90a;
#endif
