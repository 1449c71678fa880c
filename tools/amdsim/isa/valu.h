/* tools/amdsim/isa/valu.h: private to the vector ALU
 * Every instruction twice over, where it pays: what it means for one lane, exactly and with all modifiers (the
 * valu_*.def tables, run by valu_general), and for common ones a loop over 32 lanes on host floats (valu_fast.h,
 * compiled for several host instruction sets), which hands over to valu_general whenever a modifier, a mode or a NaN
 * makes the answer less than plain. */
#ifndef AMDSIM_ISA_VALU_H
#define AMDSIM_ISA_VALU_H

#include <string.h>

#include "tools/amdsim/isa/float.h"
#include "tools/amdsim/isa/inst.h"

/* What an operand is: its width, the constants that a code stands for, and the modifiers that act on it. */
enum valu_type {
    T_NONE,
    T_B16, T_F16, T_B32, T_F32, T_B64, T_I64, T_F64, /* I64: a literal is sign-extended                        */
    T_PKB, T_PKF, T_PKBF, T_PKD, /* two halves, picked by opsel and opsel_hi; PKBF: bf16; PKD: the destination's */
    T_MIX,               /* f32, or a half when its opsel_hi says so; read as f32                              */
    T_D16, T_D32, T_D64, /* the destination, as an accumulator                                                 */
    T_K16, T_K32,        /* the literal                                                                        */
    T_VCC, T_CIN,        /* the lane's bit of VCC; of VCC or, in VOP3 encoding, of the scalar that is source 2 */
    /* destinations only */
    T_CMP,               /* a lane mask: VCC, a scalar, EXEC                                                   */
    T_LO16, T_HI16,      /* f16 to that half whatever opsel says                                               */
    T_B32C, T_B64C, T_F32C, T_F64C, /* and a lane mask beside it                                               */
};

/* Two registers. */
static inline bool valu_wide(enum valu_type t)
{
    return t == T_B64 || t == T_I64 || t == T_F64 || t == T_D64 || t == T_B64C || t == T_F64C;
}

/* One lane at work. */
struct lane {
    uint64_t a, b, c, d;  /* sources; the destination register's old value */
    bool cout;            /* the lane's bit of the mask result             */
    bool clamp, gfx12, ieee;
    uint8_t neg, abs, opsel, opsel_hi;
    uint32_t lane;
    struct float_mode m32, m16; /* m16: half and double */
    const struct chip *chip;
};

struct valu_op {
    const char *name, *namex; /* "v_add_f32"; of the v_cmpx form */
    inst_fn *run;
    uint64_t (*lane)(struct lane *x);
    uint8_t dst, src[3];
};

enum valu_id {
    V_NONE,
#define OP(name, ...) V_##name,
#define CMP(name, ...) V_cmp_##name,
#define RUN(name, fn) V_##name,
#include "tools/amdsim/isa/valu_ops.def"
    V_COUNT
};
extern const struct valu_op valu_ops[V_COUNT];
/* Of an instruction that is neither VOPD nor of wmma.h; run and lane NULL: the chip has none such. */
const struct valu_op *valu_op_find(const struct chip *c, enum inst_format f, uint32_t op);

/* The instruction with all it may carry. */
void valu_general(struct wave *w, const struct inst *in, const struct valu_op *op);
/* A scalar or constant source: its bits as the type reads them. */
uint64_t valu_constant(const struct wave *w, const struct inst *in, uint32_t code, enum valu_type t);

/* Quick forms by valu_id, NULL where there is none, and VOPD; one set for each host instruction set. */
struct valu_fast {
    inst_fn *op[V_COUNT];
    inst_fn *dual;
};
extern const struct valu_fast valu_fast_plain, valu_fast_avx2, valu_fast_avx512;

/* VOPD's halves, by opcode; name NULL: the chip has none such. Operations: enum valu_id. */
struct valu_dual {
    const char *name;
    uint16_t id;
};
const struct valu_dual *valu_dual_find(const struct chip *c, uint32_t op);

/* Forms of their own (valu_lane.c). */
#define RUN(name, fn) inst_fn fn;
#define OP(...)
#define CMP(...)
#include "tools/amdsim/isa/valu_ops.def"

#endif
