/* kernels/matring_shared.h
 * How the rings of kernels/matring.c lie in shared memory. Hosts and kernels include it. For block types but the K types.
 *
 *     shared = mr_shared_bytes(a->type, a->n_mats, a->n_in, threads);
 *
 * Each lane copies its own items (kernels/wdot.h), by pieces of 16, 8 or 4 bytes, and reads back what it copied itself. A
 * stage is one step of a tile: for each piece of an item all slots, all lanes side by side. Scales of two bytes or one come
 * with the word that they lie in. */
#ifndef ZINC_KERNELS_MATRING_SHARED_H
#define ZINC_KERNELS_MATRING_SHARED_H

#include "kernels/matvec_shared.h"

enum {
    MR_THREADS = 512, /* a work-group a core, */
    MR_HALF = 256,    /* or of two launches one each */
    MR_STAGES = 4
};

/* Piece j of an item: of which plane, its bytes, and the word of wd_load that it begins with. part: less than its word. */
struct mr_piece {
    uint32_t plane, size, word;
    bool part;
};

MVS_FN uint32_t mr_pieces(uint32_t type) { return type == QT_Q5_0 || type == QT_Q5_1 ? 3 : 2; }

/* Wide ones come first. */
MVS_FN struct mr_piece mr_piece(uint32_t type, uint32_t j)
{
    if (j == 0)
        return (struct mr_piece){ 0, 16, 0, false };
    switch (type) {
    case QT_Q5_0:
    case QT_Q5_1: return (struct mr_piece){ j, 4, 3 + j, j == 2 && type == QT_Q5_0 };
    case QT_Q4_1: return (struct mr_piece){ 1, 4, 4, false };
    case QT_IQ4_XS: return (struct mr_piece){ 1, 8, 4, false };
    default: return (struct mr_piece){ 1, 4, 4, true }; /* Q8_0, Q4_0, IQ4_NL, MXFP4 */
    }
}

/* Where piece j of item i lies in its row's part of the plane. */
MVS_FN uint32_t mr_off(uint32_t type, uint32_t j, uint32_t i)
{
    if (j == 0)
        return i * 16;
    switch (type) {
    case QT_Q8_0: return (i >> 1) * 2;
    case QT_IQ4_XS: return (i >> 3) * 8;
    case QT_MXFP4: return i;
    case QT_Q5_0: return j == 1 ? i * 4 : i * 2;
    case QT_Q4_1:
    case QT_Q5_1: return i * 4;
    default: return i * 2; /* Q4_0, IQ4_NL */
    }
}

/* Where piece j begins in a stage; behind the last: the stage's bytes. */
MVS_FN uint32_t mr_piece_at(uint32_t type, uint32_t j)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < j; k++)
        at += mr_piece(type, k).size * mv_one_slots(type) * 32;
    return at;
}
MVS_FN uint32_t mr_stage_bytes(uint32_t type) { return mr_piece_at(type, mr_pieces(type)); }

/* x, then the warps' rings. */
static inline uint32_t mr_shared_bytes(const uint32_t *types, uint32_t n_mats, uint32_t n_in, uint32_t threads)
{
    return ((mv_x_of(types, n_mats, n_in, 1).end + 15) & ~15u) + threads / 32 * MR_STAGES * mr_stage_bytes(types[0]);
}

#endif
