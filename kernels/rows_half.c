/* kernels/rows_half.c: products of 1 to 64 rows in f16 on Hopper, sm_90a only. A work item is a tile of 128 weight rows, of
 * one part of k, by up to 64 positions; persistent work-groups take items in turn. A warp multiplies 16 weight rows: a lane
 * loads its share of the weights straight into registers (kernels/wlane.h), a unit ahead, and dequantises a chunk into
 * those that the matrix instruction takes. One of the lanes also keeps a ring of stages in shared memory filled with
 * the positions' tiles, AHEAD stages before their time; a stage has a pair of barriers. Each warp asks for the next item's
 * weights when it is done with the present one's, so that they come from the level-2 cache.
 *
 * The order of a sum (doc/arithmetic.md) depends on the shapes of the command alone: along k in ascending order, 16 at a
 * time, in each of its parts; then the parts in ascending order, added by the warp that is the last of them to arrive. */
#if defined(KD_SM90)
#include "kernels/gemm_out.h"
#include "kernels/hw/mma.h"
#include "kernels/hw/wgmma.h"
#include "kernels/qset.h"
#include "kernels/wlane.h"

enum {
    WARPS = KL_ROWS_HALF_WARPS,
    STAGES = KL_ROWS_STAGES,
    AHEAD = 3,                     /* stages that are on their way */
    DEPTH = KL_ROWS_K / WT_K       /* chunks of a stage            */
};

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
/* Most: positions of the widest tile of this kernel. */
KD_FN KD_SHARED uint8_t *stage(uint32_t most, uint32_t at) { return KD_SHARED_AT(uint8_t, at * most * DEPTH * 128); }
KD_FN wg_bar *bar_full(uint32_t most, uint32_t at) { return KD_SHARED_AT(uint64_t, STAGES * most * DEPTH * 128) + at; }
KD_FN wg_bar *bar_empty(uint32_t most, uint32_t at) { return bar_full(most, at) + STAGES; }

/* ---- items ---- */

struct work {
    uint32_t i, items, tiles; /* this item, of how many; tiles of weights */
    uint32_t rows;            /* positions; of a list: unused            */
    uint32_t part;
    struct gemm_item it;
};

/* The next item of this work-group from i on; i is `items` where there is none. Parts of a tile are neighbours, or with a
 * list the tiles of its positions. */
KD_FN void next_item(const kl_gemm *a, struct work *w, uint32_t i)
{
    for (; i < w->items; i += kd_groups_x()) {
        w->it.n = w->rows;
        gemm_find_tile(a, a->tiles ? i % w->tiles : i / a->parts, &w->it);
        w->part = a->tiles ? 0 : i % a->parts;
        if (!a->tiles || gemm_find_slot(a, i / w->tiles, &w->it))
            break;
    }
    w->i = kd_min_u32(i, w->items);
}

KD_FN struct work first_item(const kl_gemm *a)
{
    struct work w = { .tiles = gemm_tiles(a) };
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

/* Chunks of a part; parts are whole multiples of 256 elements long but for the last. */
KD_FN uint32_t part_first(const kl_gemm *a, uint32_t part)
{
    uint32_t blocks = kd_div_up(a->n_in, KL_ROWS_K);
    return kd_min_u32(part * kd_div_up(blocks, a->parts) * DEPTH, a->n_in / WT_K);
}

/* ---- positions ---- */

/* The lane that feeds the ring: how far it is. */
struct feeder {
    struct work w;
    struct ring r;
    uint32_t c, end;
};

KD_FN KD_SHARED struct feeder *the_feeder(uint32_t most)
{
    return KD_SHARED_AT(struct feeder, STAGES * (most * DEPTH * 128 + 16));
}

/* One stage: chunks of the item's positions. Without a list they are one run of bytes, all that x has. */
KD_FN void feed(uint32_t most, const kl_gemm *a)
{
    KD_SHARED struct feeder *f = the_feeder(most);
    if (f->w.i >= f->w.items)
        return;
    uint32_t at = f->r.at, c = f->c, n = kd_min_u32(DEPTH, f->end - c), bytes = width_of(most, f->w.it.n) * 128;
    gpu_va x = a->x + ((uint64_t)c * a->xrows + f->w.it.n0) * 128;
    bar_wait(bar_empty(most, at), f->r.phase ^ 1);
    if (a->xrows == most) {
        bar_arrive_bytes(bar_full(most, at), n * most * 128);
        bulk_copy(stage(most, at), KD_PTR(const uint8_t, x), n * most * 128, bar_full(most, at));
    } else {
        bar_arrive_bytes(bar_full(most, at), n * bytes);
        for (uint32_t i = 0; i < n; i++)
            bulk_copy(stage(most, at) + i * most * 128, KD_PTR(const uint8_t, x + (uint64_t)i * a->xrows * 128), bytes,
                      bar_full(most, at));
    }
    struct ring r = f->r;
    ring_next(&r);
    f->r = r;
    f->c = c + n;
    if (c + n == f->end) {
        struct work w = f->w;
        next_item(a, &w, w.i + kd_groups_x());
        f->w = w;
        f->c = part_first(a, w.part), f->end = part_first(a, w.part + 1);
    }
}

KD_FN void first_feeds(uint32_t most, const kl_gemm *a, const struct work *w)
{
    *the_feeder(most) = (struct feeder){ .w = *w, .c = part_first(a, w->part), .end = part_first(a, w->part + 1) };
    async_fence(); /* the positions were written by ordinary stores */
    for (uint32_t i = 0; i < AHEAD; i++)
        feed(most, a);
}

/* ---- weights ---- */

/* What this warp will read of the item's weights, into the level-2 cache. */
KD_FN void prefetch_item(const kl_gemm *a, const struct work *w)
{
    uint32_t c0 = part_first(a, w->part), c1 = part_first(a, w->part + 1), r = kd_warp() * 16 + kd_lane() % 16;
    uint32_t mat = gemm_row_mat(a, &w->it, r), n = a->n_out[mat], row = gemm_row_col(a, &w->it, r);
    QSET_FOR(a->type[mat], {
        struct planes pl = planes_of((enum qtype)type);
        struct wt_src s = wt_src((enum qtype)type, a->w[mat] + w->it.expert * a->stride[mat], n, a->n_in,
                                 kd_min_u32(row, n - 1));
        uint32_t block = qtype_block((enum qtype)type), b0 = c0 * WT_K / block, b1 = c1 * WT_K / block;
        KD_UNROLL
        for (uint32_t f = 0; f < PLANES_MAX; f++) {
            uint64_t at = (uint64_t)(uintptr_t)s.p[f] + b0 * pl.f[f].len, bytes = (b1 - b0) * pl.f[f].len;
            if (pl.f[f].len >= 8 && f % 2 == kd_lane() / 16 && row < n && bytes && (at | bytes) % 16 == 0)
                bulk_prefetch(KD_PTR(const void, at), (uint32_t)bytes);
        }
    })
}

/* Two weight rows of this lane. */
struct lane_src {
    struct wt_src row[2];
};
KD_FN struct lane_src lane_src(enum qtype type, const kl_gemm *a, const struct work *w)
{
    struct lane_src s;
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t r = kd_warp() * 16 + kd_lane() / 4 + 8 * h, mat = gemm_row_mat(a, &w->it, r), n = a->n_out[mat];
        s.row[h] = wt_src(type, a->w[mat] + w->it.expert * a->stride[mat], n, a->n_in,
                          kd_min_u32(gemm_row_col(a, &w->it, r), n - 1));
    }
    return s;
}

/* ---- products ---- */

/* A chunk: 16 weight rows by `width` positions. x: its tile. */
KD_FN void multiply(uint32_t width, float *d, const uint32_t *w, KD_SHARED const uint8_t *x)
{
    uint32_t l = kd_lane(), row = l % 8 * 128;
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t at = row + ((4 * h + l / 8) ^ l % 8) * 16;
        kd_frag step[2];
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            step[i / 4].r[i % 4] = w[8 * h + i];
        KD_UNROLL
        for (uint32_t n = 0; n < width / 8; n++) {
            uint32_t b[4];
            kd_ldmatrix(b, x + n * 1024 + at);
            kd_mma_half(d + 4 * n, step[0], b[0], b[1]);
            kd_mma_half(d + 4 * n, step[1], b[2], b[3]);
        }
    }
}

/* The part's sums of this warp to memory, and all of them back if it was the last. */
KD_FN bool join(uint32_t width, const kl_gemm *a, uint32_t part, uint32_t tile, float *d)
{
    uint32_t n = width / 2, threads = WARPS * KD_WARP;
    KD_GLOBAL float *p = KD_PTR(float, a->part) + (uint64_t)tile * a->parts * n * threads + kd_tid();
    GEMM_ALL_OF
    for (uint32_t i = 0; i < n; i++)
        p[(part * n + i) * threads] = d[i];
    kd_warp_sync();
    uint32_t old = 0;
    if (kd_lane() == 0)
        old = kd_arrive(KD_PTR(uint32_t, a->counters) + tile * WARPS + kd_warp(), a->parts);
    if (kd_shfl_u32(old, 0) != a->parts - 1)
        return false;
    GEMM_ALL_OF
    for (uint32_t i = 0; i < n; i++)
        d[i] = p[i * threads];
    for (uint32_t k = 1; k < a->parts; k++)
        GEMM_ALL_OF
        for (uint32_t i = 0; i < n; i++)
            d[i] += p[(k * n + i) * threads];
    return true;
}

struct lane {
    struct work w;
    struct ring r;
    struct lane_src src;
    struct wl_raw raw[2];
};

/* Chunk c of the unit in l->raw as the instruction takes it. */
KD_FN void open(enum qtype type, const struct lane *l, uint32_t u, uint32_t c, uint32_t w[16])
{
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t o[8];
        KD_UNROLL
        for (uint32_t b = 0; b < 2; b++)
            wl_open(type, &l->raw[h], u, c, b, o);
        KD_UNROLL
        for (uint32_t s = 0; s < 4; s++)
            w[4 * s + h] = o[2 * s], w[4 * s + 2 + h] = o[2 * s + 1];
    }
}

/* The item whose first unit is in l->raw; its successor's is there at the end. Returns whether that is of the type. */
KD_FN bool take_item(enum qtype type, uint32_t most, uint32_t width, const kl_gemm *a, struct lane *l)
{
    struct work now = l->w;
    uint32_t per = wl_unit_chunks(type), chunks = a->n_in / WT_K;
    uint32_t c = part_first(a, now.part), end = part_first(a, now.part + 1);
    float d[32] = { 0 };
    bool more = true;
    while (c < end) {
        struct wl_raw head[2];
        uint32_t u = c / per, after = u + 1, w[16];
        if (c + per >= end) {
            next_item(a, &l->w, now.i + kd_groups_x());
            more = l->w.i < l->w.items && a->type[l->w.it.mat] == type;
            if (more) {
                l->src = lane_src(type, a, &l->w);
                after = part_first(a, l->w.part) / per;
            } else {
                after = u;
            }
        }
        KD_UNROLL
        for (uint32_t h = 0; h < 2; h++)
            wl_load_head(type, &head[h], &l->src.row[h], after, chunks);
        KD_UNROLL
        for (uint32_t i = 0; i < per; i++) {
            if (c < end) {
                open(type, l, u, i, w);
                if (i == 0 && c % DEPTH == 0) {
                    if (kd_tid() == 0)
                        feed(most, a);
                    kd_warp_sync();
                    bar_wait(bar_full(most, l->r.at), l->r.phase);
                }
                multiply(width, d, w, stage(most, l->r.at) + c % DEPTH * most * 128);
                c++;
            }
            KD_UNROLL
            for (uint32_t h = 0; h < 2; h++)
                wl_load_codes(type, &l->raw[h], &l->src.row[h], after, i, chunks);
        }
        KD_UNROLL
        for (uint32_t h = 0; h < 2; h++)
            wl_take_head(&l->raw[h], &head[h]);
        if (c % DEPTH == 0 || c >= end) {
            kd_warp_sync();
            if (kd_lane() == 0)
                bar_arrive(bar_empty(most, l->r.at));
            ring_next(&l->r);
        }
    }
    if (l->w.i < l->w.items)
        prefetch_item(a, &l->w);
    if (a->parts > 1 && !join(width, a, now.part, now.i / a->parts, d))
        return more;
    GEMM_ALL_OF
    for (uint32_t i = 0; i < width / 4; i++) {
        uint32_t n = i / 2 * 8 + kd_lane() % 4 * 2 + i % 2;
        float f = n < now.it.n ? KD_PTR(const float, a->x + 2ull * a->n_in * a->xrows)[now.it.n0 + n] : 0.0f;
        d[i / 2 * 4 + i % 2] *= f;
        d[i / 2 * 4 + i % 2 + 2] *= f;
    }
    gemm_write_out(a, &now.it, width < 16 ? 16 : width, d);
    return more;
}

KD_FN void multiply_type(enum qtype type, uint32_t most, const kl_gemm *a, struct lane *l)
{
    l->src = lane_src(type, a, &l->w);
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++)
        wl_load(type, &l->raw[h], &l->src.row[h], part_first(a, l->w.part) / wl_unit_chunks(type), a->n_in / WT_K);
    if (!a->tiles && !l->w.rows) { /* the first item */
        prefetch_item(a, &l->w);
        kd_wait_inputs();
        find_rows(a, &l->w);
        if (kd_tid() == 0)
            first_feeds(most, a, &l->w);
    }
    bool more = true;
    while (more)
        more = width_of(most, l->w.it.n) == most ? take_item(type, most, most, a, l)
                                                 : take_item(type, most, most / 2, a, l);
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
    if (a->tiles)
        kd_wait_inputs();
    struct lane l = { .w = first_item(a) };
    if (a->tiles && kd_tid() == 0)
        first_feeds(most, a, &l.w);
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
