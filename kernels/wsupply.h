/* kernels/wsupply.h
 * The work items of a persistent work-group, and a warp's supply of weights for them: kernels on Hopper in which a warp opens
 * the weights that it multiplies (rows_half.c, gemm_half.c). Codes come through a ring of the warp's own in shared memory, from
 * the work-group's first byte on (kernels/wlane.h), some units ahead and across items; scales through registers.
 *
 *     struct work w = ...;                                   tiles, items, rows, n_tiles, width
 *     next_item(a, &w, kd_group_x());
 *     struct supply s = { .w = w, .on = true };
 *     supply_begin(type, lines, tiles, a, &s);               as many units on their way as there are slots; lines: by wl_copy_lines
 *     supply_wait(type);                                     the oldest one is there
 *     supply_open(type, tiles, n, at, c, w);                 chunk c of slot `at`, of n of the tiles
 *     supply_next(type, lines, tiles, a, &s);                the oldest slot is free: the next unit on its way
 *
 * tiles: of an item at most, a constant as `type` and `lines` are. A warp has 16 weight rows of each. */
#ifndef ZINC_KERNELS_WSUPPLY_H
#define ZINC_KERNELS_WSUPPLY_H

#include "kernels/gemm_item.h"
#include "kernels/hw/wgmma.h"
#include "kernels/wlane.h"

/* ---- items ---- */

struct work {
    uint32_t i, items, tiles;      /* this item, of how many; runs of tiles of weights */
    uint32_t rows, n_tiles, width; /* positions, cut into so many tiles of so many at most; of a list: unused */
    uint32_t part;
    struct gemm_item it;
};

/* The next item of this work-group from i on; i is `items` where there is none. Tiles of positions and parts of a tile of
 * weights are neighbours, or with a list the tiles of its positions. */
KD_FN void next_item(const kl_gemm *a, struct work *w, uint32_t i)
{
    for (; i < w->items; i += kd_groups_x()) {
        uint32_t per = a->parts * w->n_tiles, rest = a->tiles ? 0 : i % per;
        gemm_find_tiles(a, a->by, a->tiles ? i % w->tiles : i / per, &w->it);
        w->part = rest / w->n_tiles;
        w->it.n0 = rest % w->n_tiles * w->width;
        w->it.n = kd_min_u32(w->rows - w->it.n0, w->width);
        if (!a->tiles || gemm_find_slot(a, i / w->tiles, &w->it))
            break;
    }
    w->i = kd_min_u32(i, w->items);
}

/* Has an item a k-th tile? */
KD_FN bool has_tile(const kl_gemm *a, uint32_t k) { return k == 0 || a->by > 1; }

/* The first unit of a part, and the chunks of a unit. */
KD_FN uint32_t part_first(const kl_gemm *a, uint32_t part)
{
    uint32_t units = kd_div_up(a->n_in, WL_UNIT);
    return kd_min_u32(part * kd_div_up(units, a->parts), units);
}
KD_FN uint32_t unit_chunks(const kl_gemm *a, uint32_t u)
{
    return kd_min_u32(WL_CHUNKS, a->n_in / WT_K - u * WL_CHUNKS);
}

/* ---- the ring: units are copied `at` a slot each; the scales of the newest one are still in registers ---- */

struct supply {
    struct work w;
    uint32_t u, end, at;
    bool on, held;        /* there is more of this type; head is of a unit that was copied */
    struct wt_src src[2]; /* of row lane / 2 of the item's tiles */
    struct wl_head head[2];
};

KD_FN uint32_t slot_bytes(enum qtype t) { return wl_stage_bytes(t) + wl_scale_bytes(t); }
KD_FN uint32_t slots_of(enum qtype t) { return kd_min_u32(4, KL_ROWS_RING / slot_bytes(t)); }
KD_FN KD_SHARED uint8_t *slot(enum qtype t, uint32_t tiles, uint32_t at, uint32_t tile)
{
    return KD_SHARED_AT(uint8_t, kd_warp() * tiles * KL_ROWS_RING + (at * tiles + tile) * slot_bytes(t));
}
KD_FN KD_SHARED uint32_t *slot_scales(enum qtype t, uint32_t tiles, uint32_t at, uint32_t tile)
{
    return (KD_SHARED uint32_t *)(slot(t, tiles, at, tile) + wl_stage_bytes(t));
}
KD_FN uint32_t next_slot(enum qtype t, uint32_t at) { return at + 1 == slots_of(t) ? 0 : at + 1; }

KD_FN void supply_item(enum qtype t, uint32_t tiles, const kl_gemm *a, struct supply *s)
{
    KD_UNROLL
    for (uint32_t k = 0; k < tiles; k++) {
        if (!has_tile(a, k))
            break;
        uint32_t r = kd_warp() * 16 + kd_lane() / 2, mat = gemm_row_mat(a, &s->w.it, r), n = a->n_out[mat];
        uint32_t row = gemm_row_col(a, &s->w.it, r) + k * gemm_tile_cols(a);
        s->src[k] = wt_src(t, a->w[mat] + s->w.it.expert * a->stride[mat], n, a->n_in, kd_min_u32(row, n - 1));
    }
    s->u = part_first(a, s->w.part);
    s->end = part_first(a, s->w.part + 1);
}

/* The next unit of the ring on its way, into the slot of the one that was used up; the one before it gets its scales. */
KD_FN void supply_next(enum qtype t, bool lines, uint32_t tiles, const kl_gemm *a, struct supply *s)
{
    uint32_t chunks = a->n_in / WT_K, before = s->at ? s->at - 1 : slots_of(t) - 1;
    if (s->held)
        KD_UNROLL
        for (uint32_t k = 0; k < tiles; k++)
            if (has_tile(a, k))
                wl_store_scales(t, slot_scales(t, tiles, before, k), &s->head[k]);
    s->held = s->on;
    if (s->on) {
        KD_UNROLL
        for (uint32_t k = 0; k < tiles; k++) {
            if (!has_tile(a, k))
                break;
            if (lines)
                wl_copy_lines(t, slot(t, tiles, s->at, k), &s->src[k], s->u, chunks);
            else
                wl_copy(t, slot(t, tiles, s->at, k), &s->src[k], s->u, chunks);
            wl_load_head(t, &s->head[k], &s->src[k], s->u, chunks);
        }
        s->at = next_slot(t, s->at);
        if (++s->u == s->end) {
            next_item(a, &s->w, s->w.i + kd_groups_x());
            s->on = s->w.i < s->w.items && a->type[s->w.it.mat] == t;
            if (s->on)
                supply_item(t, tiles, a, s);
        }
    }
    kd_copy_commit();
}

KD_FN void supply_begin(enum qtype t, bool lines, uint32_t tiles, const kl_gemm *a, struct supply *s)
{
    supply_item(t, tiles, a, s);
    KD_NO_UNROLL
    for (uint32_t i = 0; i < slots_of(t); i++)
        supply_next(t, lines, tiles, a, s);
}

/* Until the oldest unit of those that are under way is there, for all lanes of the warp. */
KD_FN void supply_wait(enum qtype t)
{
    switch (slots_of(t)) {
    case 2: kd_copy_wait_1(); break;
    case 3: kd_copy_wait_2(); break;
    default: kd_copy_wait_3(); break;
    }
    kd_warp_sync();
}

/* Weights of chunk c, of n tiles, as the instructions take them: words 4 s .. 4 s + 3 are its step s of 16 along k. */
KD_FN void supply_open(enum qtype t, uint32_t tiles, uint32_t n, uint32_t at, uint32_t c, uint32_t (*w)[16])
{
    KD_UNROLL
    for (uint32_t k = 0; k < n; k++)
        KD_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t o[8];
            wl_open(t, slot(t, tiles, at, k), slot_scales(t, tiles, at, k), kd_lane() / 4 + 8 * h, c, o);
            KD_UNROLL
            for (uint32_t s = 0; s < 4; s++)
                w[k][4 * s + h] = o[2 * s], w[k][4 * s + 2 + h] = o[2 * s + 1];
        }
}

#endif
