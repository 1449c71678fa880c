/* kernels/planes.h
 * Weights on a GPU: the same bytes as in the file, regrouped so that every load is aligned and wide. A matrix of a block
 * type is stored as planes: first one field of all its blocks, row by row, then the next field, and so on. Nothing is
 * added, dropped or converted, so a matrix has the same size and place as in the file and the regrouping can be undone.
 *
 *     Q4_K [n_out, n_in]:  qs, 128 bytes x blocks | d, dmin and scales, 16 bytes x blocks        blocks in row order
 *
 * Fields come by falling alignment, the wide one first: its rows start at multiples of 16 bytes. A matrix is what one
 * command multiplies by: a whole tensor, or one expert of it, or the gate or up half of a fused expert tensor.
 * F32, F16 and BF16 stay as they are. Freestanding: hosts and kernels include it. */
#ifndef ZINC_KERNELS_PLANES_H
#define ZINC_KERNELS_PLANES_H

#include <stdint.h>

#include "kernels/qtypes.h"

enum { PLANES_MAX = 4 };

/* X(type, byte offset in the block and length of up to four fields, in plane order). Lengths add up to the block. */
#define PLANE_LIST(X)                                                                                                  \
    X(Q4_0, 2, 16, 0, 2, 0, 0, 0, 0)                                                                                   \
    X(Q4_1, 4, 16, 0, 4, 0, 0, 0, 0)     /* qs, d m           */                                                       \
    X(Q5_0, 6, 16, 2, 4, 0, 2, 0, 0)     /* qs, qh, d         */                                                       \
    X(Q5_1, 8, 16, 4, 4, 0, 4, 0, 0)     /* qs, qh, d m       */                                                       \
    X(Q8_0, 2, 32, 0, 2, 0, 0, 0, 0)     /* qs, d             */                                                       \
    X(Q2_K, 16, 64, 0, 16, 80, 4, 0, 0)  /* qs, scales, d dmin */                                                      \
    X(Q3_K, 32, 64, 0, 32, 96, 12, 108, 2) /* qs, hmask, scales, d */                                                  \
    X(Q4_K, 16, 128, 0, 16, 0, 0, 0, 0)  /* qs, head: d dmin scales */                                                 \
    X(Q5_K, 48, 128, 16, 32, 0, 16, 0, 0) /* qs, qh, head */                                                           \
    X(Q6_K, 0, 128, 128, 64, 192, 16, 208, 2) /* ql, qh, scales, d */                                                  \
    X(IQ4_NL, 2, 16, 0, 2, 0, 0, 0, 0)   /* qs, d             */                                                       \
    X(IQ4_XS, 8, 128, 0, 8, 0, 0, 0, 0)  /* qs, head          */                                                       \
    X(MXFP4, 1, 16, 0, 1, 0, 0, 0, 0)    /* qs, e             */

struct planes {
    uint8_t n; /* 0: a type without planes */
    struct {
        uint8_t off, len;
    } f[PLANES_MAX];
};

static inline struct planes planes_of(enum qtype t)
{
    switch (t) {
#define X(type, o0, l0, o1, l1, o2, l2, o3, l3)                                                                        \
    case QT_##type:                                                                                                    \
        return (struct planes){ 1 + (l1 > 0) + (l2 > 0) + (l3 > 0), { { o0, l0 }, { o1, l1 }, { o2, l2 }, { o3, l3 } } };
        PLANE_LIST(X)
#undef X
    default: return (struct planes){ 0 };
    }
}

#endif
