/* kernels/experts_shared.h
 * Shared memory of kernels/experts.c: the head, the columns' codes and what goes with them, factors of the warps' weights, the lists
 * of pairs. Hosts and kernels include it. */
#ifndef ZINC_KERNELS_EXPERTS_SHARED_H
#define ZINC_KERNELS_EXPERTS_SHARED_H

#include "kernels/wrun_shared.h"

enum {
    EX_THREADS = MV_THREADS,
    EX_WARPS = MV_WARPS,
    EX_COLS = 8,           /* pairs of an entry */
    EX_TILE = 16,          /* weight rows of a warp, of pairs half of them of each matrix */
    EX_HEAD_BYTES = 1024,
    EX_MAX_PAIRS = 4096,   /* of a step */
    EX_MAX_EXPERTS = 1024
};

/* Of a warp: 16 rows by two units of 128 elements. */
MVS_FN uint32_t ex_factor_bytes(uint32_t type)
{
    return !wr_is_coded(type) ? 0 : EX_TILE * (wr_is_short(type) ? 16 : 8) * (type == QT_Q6_K || type == QT_Q3_K || type == QT_IQ4_XS ? 4 : 8);
}

/* Columns lie ld bytes apart, so that the lanes that read of all meet no bank twice; beside: 8 bytes of each run and column. */
struct ex_x {
    uint32_t q, ld, beside, factors, end; /* bytes from the start */
};
MVS_FN struct ex_x ex_x(uint32_t type, uint32_t n_pad)
{
    struct ex_x x = { .q = EX_HEAD_BYTES, .ld = n_pad + (wr_is_wide(type) ? 64 : 16) };
    x.beside = x.q + EX_COLS * x.ld;
    x.factors = x.beside + n_pad / (wr_is_short(type) ? 16 : 32) * EX_COLS * 8;
    x.end = x.factors + EX_WARPS * ex_factor_bytes(type);
    return x;
}

struct ex_lists {
    uint32_t first, pair, entry, sums, end; /* bytes from the start */
};
MVS_FN struct ex_lists ex_lists(uint32_t n_expert, uint32_t pairs)
{
    uint32_t entries = n_expert + pairs / EX_COLS;
    entries = entries < pairs ? entries : pairs;
    struct ex_lists s = { .first = 4 * pairs };
    s.pair = s.first + 4 * n_expert;
    s.entry = s.pair + 4 * pairs;
    s.sums = s.entry + 4 * entries;
    s.end = s.sums + 4 * (EX_WARPS + 1);
    return s;
}

MVS_FN uint32_t experts_shared_bytes(uint32_t type, uint32_t n_pad, uint32_t n_expert, uint32_t pairs)
{
    return ex_x(type, n_pad).end + ex_lists(n_expert, pairs).end;
}

#endif
