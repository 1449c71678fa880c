/* kernels/rows_half.c: products of 1 to 64 rows in f16 on Hopper, sm_90a only. A work item is one or two tiles of 128 weight
 * rows, of one part of k, by up to 64 positions; persistent work-groups take items in turn. A warp multiplies 16 weight rows
 * of each tile. Its weights come through a ring of its own in shared memory (kernels/wlane.h), some units ahead and across
 * items, and are opened into the registers that the matrix instruction takes. One more warp keeps a ring of stages filled
 * with the positions' tiles; a stage has a pair of barriers.
 *
 * The order of a sum (doc/arithmetic.md) depends on the shapes of the command alone: along k in ascending order, 16 at a
 * time, in each of its parts; then the parts in ascending order, added by the warp that is the last of them to arrive. */
#if defined(KD_SM90)
#include "kernels/gemm_out.h"
#include "kernels/hw/mma.h"
#include "kernels/hw/wgmma.h"
#include "kernels/qset.h"
#include "kernels/wsupply.h"

enum {
    WARPS = KL_ROWS_HALF_WARPS,
    STAGES = KL_ROWS_STAGES
};

/* Tiles of an item at most, of a kernel for so many positions at most; chunks of a stage. */
KD_FN uint32_t tiles_of(uint32_t most) { return KL_ROWS_HALF_TILES(most); }
KD_FN uint32_t depth_of(uint32_t most) { return KL_ROWS_STAGE_K(most) / WT_K; }
/* Warps with few positions have no time for each other's addresses. */
KD_FN bool by_lines(uint32_t most) { return most > KL_ROWS_FEW; }

struct ring {
    uint32_t at, phase;
};
KD_FN void ring_next(struct ring *r)
{
    if (++r->at == STAGES) {
        r->at = 0;
        r->phase ^= 1;
    }
}

/* ---- shared memory: the warps' rings, the stages, their barriers ---- */

KD_FN uint32_t stages_at(uint32_t most) { return WARPS * tiles_of(most) * KL_ROWS_RING; }
KD_FN KD_SHARED uint8_t *stage(uint32_t most, uint32_t at)
{
    return KD_SHARED_AT(uint8_t, stages_at(most) + at * most * depth_of(most) * 128);
}
KD_FN wg_bar *bar_full(uint32_t most, uint32_t at)
{
    return KD_SHARED_AT(uint64_t, stages_at(most) + STAGES * most * depth_of(most) * 128) + at;
}
KD_FN wg_bar *bar_empty(uint32_t most, uint32_t at) { return bar_full(most, at) + STAGES; }

/* ---- items ---- */

KD_FN struct work first_item(const kl_gemm *a)
{
    struct work w = { .tiles = gemm_tiles_by(a, a->by), .n_tiles = 1, .width = KL_ROWS_MAX };
    w.items = w.tiles * (a->tiles ? a->n_slots : a->parts);
    next_item(a, &w, kd_group_x());
    return w;
}

/* The step's rows, which are known when the inputs are there. */
KD_FN void find_rows(const kl_gemm *a, struct work *w)
{
    if (!a->tiles)
        w->rows = w->it.n = kd_step_rows(a->step, a->rows);
}

/* Positions that are multiplied: the kernel's most, or half of them where that is enough. */
KD_FN uint32_t width_of(uint32_t most, uint32_t n) { return n <= most / 2 ? most / 2 : most; }

/* ---- positions ---- */

/* A stage: n chunks of the item's positions from c on. Without a list they are one run of bytes, all that x has. */
KD_FN void feed_stage(uint32_t most, const kl_gemm *a, const struct gemm_item *it, uint32_t c, uint32_t n, uint32_t at)
{
    uint32_t bytes = width_of(most, it->n) * 128;
    gpu_va x = a->x + ((uint64_t)c * a->xrows + it->n0) * 128;
    if (a->xrows == most) {
        bar_arrive_bytes(bar_full(most, at), n * most * 128);
        bulk_copy(stage(most, at), KD_PTR(const uint8_t, x), n * most * 128, bar_full(most, at));
        return;
    }
    bar_arrive_bytes(bar_full(most, at), n * bytes);
    KD_NO_UNROLL
    for (uint32_t i = 0; i < n; i++)
        bulk_copy(stage(most, at) + i * most * 128, KD_PTR(const uint8_t, x + (uint64_t)i * a->xrows * 128), bytes,
                  bar_full(most, at));
}

/* All stages of all items of this work-group, by one lane. */
KD_FN void feed(uint32_t most, const kl_gemm *a, struct work w)
{
    struct ring r = { 0 };
    async_fence_global(); /* the positions were written by ordinary stores */
    for (; w.i < w.items; next_item(a, &w, w.i + kd_groups_x())) {
        uint32_t end = kd_min_u32(part_first(a, w.part + 1) * WL_CHUNKS, a->n_in / WT_K);
        for (uint32_t c = part_first(a, w.part) * WL_CHUNKS; c < end; c += depth_of(most)) {
            bar_wait(bar_empty(most, r.at), r.phase ^ 1);
            feed_stage(most, a, &w.it, c, kd_min_u32(depth_of(most), end - c), r.at);
            ring_next(&r);
        }
    }
}

/* ---- products ---- */

/* A chunk: 16 weight rows of each tile by `width` positions. x: its tile. */
KD_FN void multiply(uint32_t width, uint32_t tiles, float (*d)[32], uint32_t (*w)[16], KD_SHARED const uint8_t *x)
{
    uint32_t l = kd_lane(), row = l % 8 * 128;
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t at = row + ((4 * h + l / 8) ^ l % 8) * 16;
        kd_frag step[2][2];
        KD_UNROLL
        for (uint32_t k = 0; k < tiles; k++)
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++)
                step[k][i / 4].r[i % 4] = w[k][8 * h + i];
        KD_UNROLL
        for (uint32_t n = 0; n < width / 8; n++) {
            uint32_t b[4];
            kd_ldmatrix(b, x + n * 1024 + at);
            KD_UNROLL
            for (uint32_t k = 0; k < tiles; k++) {
                kd_mma_half(d[k] + 4 * n, step[k][0], b[0], b[1]);
                kd_mma_half(d[k] + 4 * n, step[k][1], b[2], b[3]);
            }
        }
    }
}

/* ---- results: d[k][i] of positions that there are, the first half of them or all ---- */

#define ROWS_ALL_OF(most, i) GEMM_ALL_OF for (uint32_t i = 0; i < tiles_of(most) * (most) / 2; i++)
KD_FN float *result(uint32_t most, float (*d)[32], uint32_t i) { return &d[i / (most / 2)][i % (most / 2)]; }
KD_FN bool is_there(const kl_gemm *a, uint32_t most, bool wide, uint32_t i)
{
    return (wide || i % (most / 2) < most / 4) && has_tile(a, i / (most / 2));
}

/* The part's sums of this warp to memory, and all of them back if it was the last. */
KD_FN bool join(uint32_t most, bool wide, const kl_gemm *a, uint32_t part, uint32_t item, float (*d)[32])
{
    uint32_t threads = WARPS * KD_WARP, far = tiles_of(most) * (most / 2) * threads;
    KD_GLOBAL float *p = KD_PTR(float, a->part) + (uint64_t)item * a->parts * far + kd_tid();
    ROWS_ALL_OF(most, i)
        if (is_there(a, most, wide, i))
            p[part * far + i * threads] = *result(most, d, i);
    kd_warp_sync();
    uint32_t old = 0;
    if (kd_lane() == 0)
        old = kd_arrive(KD_PTR(uint32_t, a->counters) + item * WARPS + kd_warp(), a->parts);
    if (kd_shfl_u32(old, 0) != a->parts - 1)
        return false;
    ROWS_ALL_OF(most, i)
        if (is_there(a, most, wide, i))
            *result(most, d, i) = p[i * threads];
    KD_NO_UNROLL
    for (uint32_t k = 1; k < a->parts; k++)
        ROWS_ALL_OF(most, i)
            if (is_there(a, most, wide, i))
                *result(most, d, i) += p[k * far + i * threads];
    return true;
}

struct lane {
    struct work w;
    struct ring r;
    struct supply s;
    uint32_t at; /* the slot of the next unit */
    bool begun;  /* positions are under way */
};

KD_FN void write_out(uint32_t most, const kl_gemm *a, const struct gemm_item *it, float (*d)[32])
{
    KD_UNROLL
    for (uint32_t k = 0; k < tiles_of(most); k++) {
        if (!has_tile(a, k))
            break;
        struct gemm_item tile = *it;
        tile.tile += k;
        GEMM_ALL_OF
        for (uint32_t i = 0; i < most / 4; i++) {
            uint32_t n = i / 2 * 8 + kd_lane() % 4 * 2 + i % 2;
            float f = n < it->n ? KD_PTR(const float, a->x + 2ull * a->n_in * a->xrows)[it->n0 + n] : 0.0f;
            d[k][i / 2 * 4 + i % 2] *= f;
            d[k][i / 2 * 4 + i % 2 + 2] *= f;
        }
        gemm_write_out(a, &tile, most, 4, d[k]);
    }
}

/* Positions of a stage are there, where chunk c begins one; where it ends one, it is free again. */
KD_FN void begin_chunk(uint32_t most, struct lane *l, uint32_t c)
{
    if (c % depth_of(most) == 0)
        bar_wait(bar_full(most, l->r.at), l->r.phase);
}
KD_FN void end_chunk(uint32_t most, struct lane *l, uint32_t c, bool last)
{
    if (c % depth_of(most) != depth_of(most) - 1 && !last)
        return;
    async_fence_shared(); /* what was read is in registers, before a copy may come over it */
    kd_warp_sync();
    if (kd_lane() == 0)
        bar_arrive(bar_empty(most, l->r.at));
    ring_next(&l->r);
}

/* Chunk c, whose weights are w. */
KD_FN void take_chunk(uint32_t most, uint32_t tiles, uint32_t width, uint32_t c, bool last, struct lane *l, uint32_t (*w)[16],
                      float (*d)[32])
{
    begin_chunk(most, l, c);
    multiply(width, tiles, d, w, stage(most, l->r.at) + c % depth_of(most) * most * 128);
    end_chunk(most, l, c, last);
}

/* The unit in the ring's slot l->at: `chunks` chunks. Of a whole one the next chunk's weights are opened under a chunk's products,
 * where there are so few of these that a warp would wait for them. */
KD_FN void take_unit(enum qtype type, uint32_t most, uint32_t tiles, uint32_t width, uint32_t chunks, struct lane *l,
                     float (*d)[32])
{
    uint32_t w[2][2][16]; /* of this chunk and the next one, by turns */
    if (most == KL_ROWS_FEW && chunks == WL_CHUNKS) {
        supply_open(type, tiles_of(most), tiles, l->at, 0, w[0]);
        KD_UNROLL
        for (uint32_t c = 0; c < WL_CHUNKS; c++) {
            if (c + 1 < WL_CHUNKS)
                supply_open(type, tiles_of(most), tiles, l->at, c + 1, w[(c + 1) % 2]);
            take_chunk(most, tiles, width, c, c + 1 == WL_CHUNKS, l, w[c % 2], d);
        }
        return;
    }
    KD_NO_UNROLL
    for (uint32_t c = 0; c < chunks; c++) {
        supply_open(type, tiles_of(most), tiles, l->at, c, w[0]);
        take_chunk(most, tiles, width, c, c + 1 == chunks, l, w[0], d);
    }
}

/* The item l->w, whose first units are in the ring. */
KD_FN void take_item(enum qtype type, uint32_t most, const kl_gemm *a, struct lane *l)
{
    uint32_t end = part_first(a, l->w.part + 1);
    bool wide = width_of(most, l->w.it.n) == most;
    float d[2][32] = { { 0 } };
    for (uint32_t u = part_first(a, l->w.part); u < end; u++) {
        supply_wait(type);
        bool one = tiles_of(most) == 1 || !has_tile(a, 1);
        if (one && wide)
            take_unit(type, most, 1, most, unit_chunks(a, u), l, d);
        else if (one)
            take_unit(type, most, 1, most / 2, unit_chunks(a, u), l, d);
        else if (wide)
            take_unit(type, most, 2, most, unit_chunks(a, u), l, d);
        else
            take_unit(type, most, 2, most / 2, unit_chunks(a, u), l, d);
        l->at = next_slot(type, l->at);
        supply_next(type, by_lines(most), tiles_of(most), a, &l->s);
    }
    if (a->parts == 1 || join(most, wide, a, l->w.part, l->w.i / a->parts, d))
        write_out(most, a, &l->w.it, d);
}

KD_FN void multiply_type(enum qtype type, uint32_t most, const kl_gemm *a, struct lane *l)
{
    l->at = 0;
    l->s = (struct supply){ .w = l->w, .on = true };
    supply_begin(type, by_lines(most), tiles_of(most), a, &l->s);
    if (!l->begun) { /* weights need not wait for what is before this launch */
        l->begun = true;
        kd_wait_inputs();
        find_rows(a, &l->w);
    }
    do {
        take_item(type, most, a, l);
        next_item(a, &l->w, l->w.i + kd_groups_x());
    } while (l->w.i < l->w.items && a->type[l->w.it.mat] == type);
}

KD_FN void rows_main(uint32_t most, const kl_gemm *a)
{
    kd_let_next_start();
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            bar_init(bar_full(most, i), 1);
            bar_init(bar_empty(most, i), WARPS);
        }
        bar_init_done();
    }
    kd_barrier();
    if (a->tiles || QSET_A == QT_OPENED) /* the launch before opens them */
        kd_wait_inputs();
    struct lane l = { .w = first_item(a), .begun = a->tiles != 0 };
    if (kd_warp() >= WARPS) {
        if (most > KL_ROWS_FEW)
            wg_registers_less(24);
        if (!l.begun)
            kd_wait_inputs();
        find_rows(a, &l.w);
        if (kd_tid() == WARPS * KD_WARP)
            feed(most, a, l.w);
        return;
    }
    if (most > KL_ROWS_FEW)
        wg_registers_more(240);
    while (l.w.i < l.w.items) {
        if (a->type[l.w.it.mat] == QSET_A)
            multiply_type(QSET_A, most, a, &l);
        if (QSET_PAIR && l.w.i < l.w.items && a->type[l.w.it.mat] == QSET_B)
            multiply_type(QSET_B, most, a, &l);
    }
}

QSET_KERNEL(k_rows_half_, _n16, kl_gemm)
{
    rows_main(16, &a);
}
QSET_KERNEL(k_rows_half_, _n64, kl_gemm)
{
    rows_main(64, &a);
}

#else
typedef int rows_half_needs_sm_90a;
#endif
