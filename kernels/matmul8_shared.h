/* kernels/matmul8_shared.h
 * How kernels/matmul8.c cuts its work and lays out shared memory, and what follows for a launch. Hosts and kernels include
 * it.
 *
 * A warp stands for M8_LANES neighbouring lanes of those that share a row of weights in the kernels for a single row
 * (struct mv_geom), for 16 rows of weights at a time; m8_parts warps make a tile. In a step of the row it takes one
 * chunk: the items of its lanes, which follow each other in memory. */
#ifndef ZINC_KERNELS_MATMUL8_SHARED_H
#define ZINC_KERNELS_MATMUL8_SHARED_H

#include "kernels/matvec_shared.h"
#include "kernels/planes.h"

enum {
    M8_WARPS = 16,
    M8_THREADS = 32 * M8_WARPS,
    M8_ROWS = 8,                      /* of x, in a pass            */
    M8_TILE = 16,                     /* rows of weights            */
    M8_LANES = 4,
    M8_SLOTS = 4,                     /* chunks on their way, at most */
    M8_PART_LD = M8_TILE + 1,
    M8_PART_BYTES = M8_ROWS * M8_PART_LD * 4, /* a warp's sums of a tile    */
    M8_HEAD_BYTES = 1024
};

MVS_FN bool m8_is_k(uint32_t type) { return mv_item_elems(type) == 64; }

MVS_FN uint32_t m8_parts(uint32_t type, uint32_t n_in) { return mv_geom(type, n_in).lanes / M8_LANES; }
MVS_FN uint32_t m8_chunk(uint32_t type) { return M8_LANES * mv_item_elems(type); } /* elements */

/* Pieces of 16 bytes that a row's chunk has in plane f of codes, 0 or 1. */
MVS_FN uint32_t m8_pieces(uint32_t type, uint32_t f)
{
    switch (type) {
    case QT_Q4_K: return f ? 0 : 8;
    case QT_Q5_K: return f ? 2 : 8;
    case QT_Q6_K: return f ? 4 : 8;
    case QT_Q3_K: return f ? 2 : 4;
    default: return f ? 0 : 4;
    }
}
MVS_FN uint32_t m8_slot_bytes(uint32_t type) { return M8_TILE * 16 * (m8_pieces(type, 0) + m8_pieces(type, 1)); }

/* x: codes, row by row, M8_X_PAD apart from a multiple of 128 bytes so that eight rows meet no bank twice; then for each two
 * rows and each run of 16, or block of 32 where runs are that long, the scale of each row and a number that goes with the type:
 * scale * sum of codes where it has minima, else what is subtracted from a run's sum. cols: rows of x, 8 or 4. Matrices of two types
 * share what runs of 16 have. */
enum { M8_X_PAD = 16 };
MVS_FN uint32_t m8_run_of(uint32_t type)
{
    return mv_item_elems(type) == 32 || wd_by_blocks(type) ? 32 : 16;
}
struct m8_x {
    uint32_t n_pad, cols, ld, meta, pair, end; /* byte offsets; pair: of two rows' scales from those of the two before */
};
MVS_FN struct m8_x m8_x(uint32_t type, uint32_t run, uint32_t n_in, uint32_t cols)
{
    struct m8_x x = { .n_pad = mv_padded(type, n_in), .cols = cols };
    x.ld = x.n_pad + M8_X_PAD;
    x.meta = M8_HEAD_BYTES + 2 * M8_WARPS * M8_PART_BYTES + cols * x.ld;
    x.pair = x.n_pad / run * 16 + M8_X_PAD;
    x.end = (x.meta + cols / 2 * x.pair + 127) & ~127u;
    return x;
}
MVS_FN uint32_t m8_shared_bytes(const uint32_t *types, uint32_t n_mats, uint32_t n_in, uint32_t cols, uint32_t slots)
{
    uint32_t most = 0, run = m8_run_of(types[0]);
    for (uint32_t m = 0; m < n_mats; m++) {
        most = m8_slot_bytes(types[m]) > most ? m8_slot_bytes(types[m]) : most;
        run = types[m] != types[0] ? 16 : run;
    }
    return m8_x(types[0], run, n_in, cols).end + M8_WARPS * slots * most;
}

#endif
