/* kernels/matvec_shared.h
 * How the decode products (kernels/matvec.c) share a row of weights among lanes, how the
 * input lies in shared memory, and what follows for a launch: bytes of shared memory, units of work. Hosts and
 * kernels include it.
 *
 *     shared = matvec_shared_bytes(a->type, a->n_mats, a->n_in, rows);   grid x <= matvec_units(a->n_out, n, gate_up)
 *
 * A lane takes "items" of a row: 16 to 32 bytes of its widest plane. `lanes` neighbouring lanes share a row, item i
 * in lane i % lanes at step i / lanes, so a warp works on 32 / lanes rows side by side. Behind the last item come
 * dummies, whose x is zero. This depends on type and n_in alone: a row's sum has the same order in every launch. */
#ifndef ZINC_KERNELS_MATVEC_SHARED_H
#define ZINC_KERNELS_MATVEC_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/qtypes.h"

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define MVS_FN static inline __attribute__((always_inline))
#else
#define MVS_FN static inline
#endif

enum {
    MV_THREADS = 256,
    MV_WARPS = MV_THREADS / 32,
    MV_WIDE = 512,             /* threads of a single row's launch with one work-group a core */
    MV_HEAD_BYTES = 1024,      /* of shared memory before x: partial sums, what follows products */
    MV_PASS_ROWS = 4,          /* rows of x that a work-group takes at once      */
    MV_ROUTER_SPLIT = 4,       /* warps that share a row of the router           */
    MV_TOPK_MAX = 64           /* experts that a row chooses, at most            */
};

MVS_FN bool mv_is_float(uint32_t type)
{
    return false
#define QTYPE_FLOAT(NAME, ...) || type == QT_##NAME
#include "kernels/qtypes.def"
    ;
}

/* Elements of an item: 16 bytes of floats, a quarter of a block of 256, or what shares bytes if that is more, half a block of 32
 * where that is 16 bytes, else a block or run of 32. */
MVS_FN uint32_t mv_item_elems(uint32_t type)
{
    switch (type) {
    case QT_F32: return 4;
    case QT_F16: case QT_BF16: return 8;
    case QT_Q8_0: return 16;
    case QT_Q2_K: case QT_Q3_K: case QT_Q4_K: case QT_Q5_K: case QT_Q6_K: case QT_NVFP4: case QT_IQ2_XXS: case QT_IQ2_XS:
    case QT_IQ2_S: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ1_M: return 64;
    case QT_TQ2_0: return 128;
    case QT_TQ1_0: return 256;
    default: return 32;
    }
}

struct mv_geom {
    uint32_t items, lanes, steps; /* per row; lanes: a power of two, 4..32 */
};

/* The widest cut that leaves at most a ninth of the lanes' work idle. */
MVS_FN struct mv_geom mv_geom_of(uint32_t elems, uint32_t n_in)
{
    uint32_t items = (n_in + elems - 1) / elems, lanes = 32;
    while (lanes > 4 && ((items + lanes - 1) & ~(lanes - 1)) * 8 > items * 9)
        lanes /= 2;
    return (struct mv_geom){ items, lanes, (items + lanes - 1) / lanes };
}
MVS_FN struct mv_geom mv_geom(uint32_t type, uint32_t n_in) { return mv_geom_of(mv_item_elems(type), n_in); }

/* K types whose runs are whole blocks of x, 32 long, so that a block's integers become a float once (kernels/wdot.h). */
MVS_FN bool wd_by_blocks(uint32_t type) { return type == QT_Q4_K || type == QT_Q5_K; }

/* Elements of x as the lanes see it, dummies included: a multiple of 256. */
MVS_FN uint32_t mv_padded(uint32_t type, uint32_t n_in)
{
    struct mv_geom g = mv_geom(type, n_in);
    return (g.lanes * g.steps * mv_item_elems(type) + 255) & ~255u;
}

/* Where x lies. Quantised: 16 elements ("a half") are 16 bytes; half j is number (j >> 3) * 2 + (j & 1) of plane (j
 * >> 1) & 3, planes q_stride bytes apart, so that lanes that read their items' bytes side by side meet no bank
 * twice, whatever the type. Then, per block of 32, the scale and the sums of its halves (8 bytes). Floats: quads,
 * quad i is number i >> 1 of plane i & 1. */
struct mv_x {
    uint32_t n_pad;
    uint32_t q, q_stride, meta, q_row; /* byte offsets in shared memory; q_row: distance of rows */
    uint32_t f, f_stride, f_row;
    uint32_t end;
    uint32_t last; /* the last row there is: it stands for those behind it */
    bool book;     /* the type's codebook lies in front of x (kernels/wbook.h) */
    uint32_t nibbles; /* 0, or codes lie as the nibbles do that meet them, in runs of so many: 0, 16, 1, 17 .. of 32, or 0, 8, 1, 9
                       * .. of 16 */
};

/* Words of a codebook in shared memory: its entries, then seven signs by their number. */
MVS_FN uint32_t mv_book_entries(uint32_t type)
{
    switch (type) {
    case QT_IQ2_XXS: case QT_IQ3_XXS: return 256;
    case QT_IQ2_XS: case QT_IQ3_S: return 512;
    case QT_IQ2_S: return 1024;
    case QT_IQ1_S: case QT_IQ1_M: return 2048;
    default: return 0;
    }
}
MVS_FN uint32_t mv_book_signs(uint32_t type) { return type == QT_IQ2_XXS || type == QT_IQ2_XS ? 128 : 0; }
MVS_FN uint32_t mv_book_bytes(uint32_t type) { return 4 * (mv_book_entries(type) + mv_book_signs(type)); }

MVS_FN struct mv_x mv_x_layout(uint32_t n_pad, bool quants, bool floats, uint32_t rows)
{
    struct mv_x x = { .n_pad = n_pad, .q = MV_HEAD_BYTES, .last = ~0u };
    x.q_stride = n_pad / 4 + 32;
    x.meta = x.q + 4 * x.q_stride;
    x.q_row = 4 * x.q_stride + n_pad / 4;
    x.f = x.q + (quants ? rows * x.q_row : 0);
    x.f_stride = 2 * n_pad + 64;
    x.f_row = 2 * x.f_stride;
    x.end = x.f + (floats ? rows * x.f_row : 0);
    return x;
}

MVS_FN struct mv_x mv_x_of(const uint32_t *types, uint32_t n_mats, uint32_t n_in, uint32_t rows)
{
    bool quants = false, floats = false;
    uint32_t n_pad = 0;
    for (uint32_t m = 0; m < n_mats; m++) {
        uint32_t n = mv_padded(types[m], n_in);
        n_pad = n > n_pad ? n : n_pad;
        quants |= !mv_is_float(types[m]);
        floats |= mv_is_float(types[m]);
    }
    rows = rows <= 2 ? rows : 4; /* the kernels take rows by 1, 2 or 4 */
    return mv_x_layout(n_pad, quants, floats, rows);
}

/* Bytes of shared memory of a matvec launch whose passes take `rows` rows (1 to MV_PASS_ROWS), and of MOE_UP with rows = 1. */
MVS_FN uint32_t matvec_shared_bytes(const uint32_t *types, uint32_t n_mats, uint32_t n_in, uint32_t rows)
{
    return mv_x_of(types, n_mats, n_in, rows).end;
}

/* Slots of a tile in the kernels for a single row (kernels/mvone.h). */
MVS_FN uint32_t mv_one_slots(uint32_t type)
{
    return mv_item_elems(type) < 64 || (mv_item_elems(type) == 64 && qtype_is_opened((enum qtype)type)) ? 4 : 2;
}

/* Work-groups that find something to do. */
MVS_FN uint32_t matvec_units(const uint32_t *n_out, uint32_t n_mats, bool gate_up)
{
    uint32_t units = 0;
    for (uint32_t m = 0; m < (gate_up ? 1 : n_mats); m++)
        units += (n_out[m] + MV_WARPS - 1) / MV_WARPS;
    return units;
}

/* ---- ROUTER ---- */

/* x is wanted as floats too: the shared expert's gate is F32. Behind x: what choosing needs. */
MVS_FN struct mv_x mv_router_x(uint32_t type, uint32_t n_in)
{
    uint32_t types[2] = { type, QT_F32 };
    return mv_x_of(types, 2, n_in, 1);
}
/* What choosing needs: candidates and logits, then the chosen ones' weights and ids (kernels/choice.h). */
MVS_FN uint32_t mv_choice_bytes(uint32_t n_expert) { return ((n_expert + 31) & ~31u) * 12 + MV_TOPK_MAX * 8; }
MVS_FN uint32_t router_shared_bytes(uint32_t type, uint32_t n_in, uint32_t n_expert)
{
    return mv_router_x(type, n_in).end + mv_choice_bytes(n_expert);
}
MVS_FN uint32_t router_units(uint32_t n_expert)
{
    uint32_t at_once = MV_WARPS / MV_ROUTER_SPLIT;
    return (n_expert + 1 + at_once - 1) / at_once;
}

/* ---- MOE ---- */

MVS_FN uint32_t moe_up_units(uint32_t n_ff) { return (n_ff + MV_WARPS - 1) / MV_WARPS; }

/* A work-group takes a unit of output rows; its warps take (choice, tile of rows) pairs. Tiles of a unit: as many as
 * give every warp a pair. rows: t rows a lane, 2 or 4. */
MVS_FN uint32_t mv_down_tiles(uint32_t k) { return k >= MV_WARPS ? 1 : (MV_WARPS + k - 1) / k; }
MVS_FN uint32_t mv_down_rows(uint32_t type, uint32_t n_in, uint32_t k, uint32_t t)
{
    return t * (32 / mv_geom(type, n_in).lanes) * mv_down_tiles(k);
}
MVS_FN struct mv_x mv_down_x(uint32_t type, uint32_t n_in, uint32_t k)
{
    return mv_x_layout(mv_padded(type, n_in), !mv_is_float(type), mv_is_float(type), k);
}
/* x of all choices, then their results twice, then ids and weights. */
MVS_FN uint32_t moe_down_shared_bytes(uint32_t type, uint32_t n_in, uint32_t k)
{
    return mv_down_x(type, n_in, k).end + 2 * k * mv_down_rows(type, n_in, k, 4) * 4 + k * 8;
}
/* Beside it, in a launch that also does the shared expert's product: its results, of all units if need be, and its x. */
MVS_FN uint32_t moe_down_beside_bytes(uint32_t type, uint32_t n_in, uint32_t n_out, uint32_t k, uint32_t s_type, uint32_t s_n_in)
{
    uint32_t x = mv_x_layout(mv_padded(s_type, s_n_in), true, false, 1).end - MV_HEAD_BYTES;
    return 4 * (n_out + mv_down_rows(type, n_in, k, 4)) + 16 + x;
}
MVS_FN uint32_t moe_down_units(uint32_t n_out) { return (n_out + MV_WARPS - 1) / MV_WARPS; }

#endif
