/* tools/amdsim/isa/known_bits.h: private to known*.c
 * Which bits of a vector result can be unknown.
 *
 *     struct unknown_pair u = known_bits(w, in, op, s);    s: the three sources
 *
 * Compilers shift 64 bits whose upper half holds nothing and mask away what came from there; sums of which only the
 * lower half matters are common. So moves, masks, shifts by constants and sums know which bits they take from where;
 * of everything else all bits are unknown where an operand is. */
#ifndef AMDSIM_ISA_KNOWN_BITS_H
#define AMDSIM_ISA_KNOWN_BITS_H

#include "tools/amdsim/isa/strict.h"
#include "tools/amdsim/isa/valu.h"

struct unknown_pair {
    struct unknown lo, hi; /* hi: of operands of 64 bits */
};
struct unknown_pair known_bits(const struct wave *w, const struct inst *in, const struct valu_op *op,
                               const struct unknown_pair s[3]);

#endif
