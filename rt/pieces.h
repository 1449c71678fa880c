/* rt/pieces.h
 * Weights in pieces of a few MiB, so that several threads load them: each takes the next piece, regroups its rows into
 * planes (kernels/planes.h) and puts them where they belong. */
#ifndef ZINC_RT_PIECES_H
#define ZINC_RT_PIECES_H

#include "rt/tier.h"

enum { PIECE_BYTES = 8 << 20 };

/* Rows [r0, r0 + n) of one matrix of a tensor in planes, or bytes [r0, r0 + n) of any other; nothing but `weight` where
 * pieces are whole. */
struct piece {
    uint32_t weight;
    uint64_t matrix, r0, n;
};
struct pieces {
    const struct tier_weights *w;
    const uint32_t *unit; /* dispatch_weight_units */
    bool whole;           /* set before pieces_cut: each piece is a weight; piece_pack does not take such */
    struct piece *piece;
    uint32_t n, cap;
};

/* All weights of w. w and unit outlive the pieces. -ENOMEM. */
int pieces_cut(struct pieces *p, const struct tier_weights *w, const uint32_t *unit);
void pieces_free(struct pieces *p);
uint64_t piece_bytes(const struct pieces *p, const struct piece *x);
/* Fills buf (piece_bytes) and calls put for each run of bytes: where it goes, as an offset in the arena of weights, and
 * what goes there. Stops at the first nonzero that put returns, and returns it. */
typedef int (*piece_put)(void *user, uint64_t off, const void *from, uint64_t n);
int piece_pack(const struct pieces *p, const struct piece *x, uint8_t *buf, piece_put put, void *user);

#endif
