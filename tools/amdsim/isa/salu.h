/* tools/amdsim/isa/salu.h: private to the scalar unit's files
 * Tables of scalar instructions: a line has the opcode, the chips that have it, the mnemonic, and what it does. */
#ifndef AMDSIM_ISA_SALU_H
#define AMDSIM_ISA_SALU_H

#include "tools/amdsim/isa/group.h"

/* FLOAT: scalar float, which RDNA3.5 and gfx12 have; GFX115: the names that RDNA3.5 alone has of it. */
enum op_chips { OP_ALL, OP_GFX11, OP_GFX12, OP_FLOAT, OP_GFX115 };

struct salu_op {
    uint8_t format, chips;
    uint16_t op;
    const char *name;
    inst_fn *run;
};
static inline bool op_on_chip(const struct chip *c, uint32_t where)
{
    return where == OP_ALL || (where == OP_GFX12 && c->gfx12) || (where == OP_GFX11 && !c->gfx12)
        || (where == OP_FLOAT && c->salu_float) || (where == OP_GFX115 && c->salu_float && !c->gfx12);
}

extern const struct salu_op salu_float_ops[], program_ops[], smem_ops[]; /* end with run NULL */

/* For the lines of the tables. */
#define S0 s_get(w, in, in->src[0])
#define S1 s_get(w, in, in->src[1])
#define L0 s_get64(w, in, in->src[0])
#define L1 s_get64(w, in, in->src[1])
#define OP_FUNCTION(fmt, op, chips, name, ...)                                                                         \
    static void do_##name(struct wave *w, const struct inst *in) { __VA_ARGS__; }
#define OP_ENTRY(fmt, op, chips, name, ...) { fmt, chips, op, "s_" #name, do_##name },

#endif
