/* tools/amdsim/isa/wmma.h
 * The matrix instructions (VOP3P 0x40 and up) and the dot products of two halves, with the sums as the cards form
 * them.
 *
 *     inst_fn *f = wmma_find(chip, op, &name);          NULL: this chip has no such instruction
 *     d = dot2_f32_f16(chip, a, b, c);                  a, b: two halves each, neg and opsel already applied
 *
 * A step of the hardware's adder takes the exact products and the running sum, aligns them to one grid, drops what is
 * below it (gfx11 cuts magnitudes, with a ones' complement for terms of the other sign; gfx12 floors) and rounds the
 * sum to nearest even. gfx11 takes two products a step, in order of k; gfx12 two for a dot product and four for a
 * matrix: four of a row's first 16 lanes, four of its last, and again. Captured on gfx1100 and gfx1201 for f16 and
 * bf16 (ROCm/rocm-systems, emulation/rocjitsu). Not confirmed by captures: the order of the steps for matrices of fp8
 * and bf8 (as for f16 here), the order and the register layout of the sparse forms (each half of the lanes pairs its
 * own k).
 *
 * EXEC is not looked at: the ISA leaves anything but all ones undefined. */
#ifndef AMDSIM_ISA_WMMA_H
#define AMDSIM_ISA_WMMA_H

#include "tools/amdsim/isa/inst.h"

inst_fn *wmma_find(const struct chip *c, uint32_t op, const char **name);

/* v_dot2_*, v_dot2acc_*, v_dual_dot2acc_*. */
uint32_t dot2_f32_f16(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c);
uint32_t dot2_f32_bf16(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c);
uint16_t dot2_f16_f16(const struct chip *chip, uint32_t a, uint32_t b, uint16_t c);
uint16_t dot2_bf16_bf16(const struct chip *chip, uint32_t a, uint32_t b, uint16_t c);

/* v_dot4_f32_{fp8,bf8}_{fp8,bf8} of gfx12: four products a step. */
uint32_t dot4_f32_fp8(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c, int a_is_bf8, int b_is_bf8);

#endif
