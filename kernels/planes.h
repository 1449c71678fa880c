/* kernels/planes.h
 * Weights on a GPU: the same bytes as in the file, regrouped so that every load is aligned and wide. A matrix of a block
 * type is stored as planes: first one field of all its blocks, row by row, then the next field, and so on. Nothing is
 * added, dropped or converted, so a matrix has the same size and place as in the file and the regrouping can be undone.
 *
 *     Q4_K [n_out, n_in]:  qs, 128 bytes x blocks | d, dmin and scales, 16 bytes x blocks        blocks in row order
 *
 * Fields come by falling alignment, the wide one first: its rows start at multiples of 16 bytes. A matrix is what one
 * command multiplies by: a whole tensor, or one expert of it, or the gate or up half of a fused expert tensor.
 * F32, F16 and BF16 stay as they are. Which fields: kernels/qtypes.def. Freestanding: hosts and kernels include it. */
#ifndef ZINC_KERNELS_PLANES_H
#define ZINC_KERNELS_PLANES_H

#include <stdint.h>

#include "kernels/qtypes.h"

enum { PLANES_MAX = 4 };

struct planes {
    uint8_t n; /* 0: a type without planes */
    struct {
        uint8_t off, len;
    } f[PLANES_MAX];
};

static inline struct planes planes_of(enum qtype t)
{
    switch (t) {
#define QTYPE_PLANES(NAME, o0, l0, o1, l1, o2, l2, o3, l3)                                                             \
    case QT_##NAME:                                                                                                    \
        return (struct planes){ 1 + (l1 > 0) + (l2 > 0) + (l3 > 0), { { o0, l0 }, { o1, l1 }, { o2, l2 }, { o3, l3 } } };
#include "kernels/qtypes.def"
    case QT_OPENED: return (struct planes){ 2, { { 0, 32 }, { 32, 8 } } };
    default: return (struct planes){ 0 };
    }
}

#endif
