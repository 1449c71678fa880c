/* tools/amdsim/isa/inst.h: private to tools/amdsim/isa/
 * A decoded instruction, the wave it acts on, and who implements which format. */
#ifndef AMDSIM_ISA_INST_H
#define AMDSIM_ISA_INST_H

#include "tools/amdsim/isa/isa.h"

enum { WAVE_LANES = 32 };

/* Formats after promotion: an instruction in VOP3 encoding that is a VOP1, VOP2 or VOPC keeps that format and its op
 * there, with e64 set. */
enum inst_format {
    F_SOP1, F_SOP2, F_SOPC, F_SOPK, F_SOPP, F_SMEM,
    F_VOP1, F_VOP2, F_VOPC, F_VOP3, F_VOP3SD, F_VOP3P, F_VOPD,
    F_DS, F_FLAT, F_GLOBAL, F_SCRATCH, F_BUFFER,
    F_COUNT
};

/* Operand codes as in the encoding: 0..105 SGPR, 106/107 VCC, 108..123 TTMP, 124 NULL, 125 M0, 126/127 EXEC,
 * 128..208 inline integers, 235..238 apertures, 240..248 inline floats, 251 VCCZ, 252 EXECZ, 253 SCC, 255 literal,
 * 256.. VGPR. */
enum { OPND_VCC = 106, OPND_TTMP = 108, OPND_NULL = 124, OPND_M0 = 125, OPND_EXEC = 126, OPND_LITERAL = 255 };
enum { OPND_VGPR = 256 };

struct wave;
struct inst;
typedef void inst_fn(struct wave *w, const struct inst *in);

enum { DPP_NONE, DPP_16, DPP_8 };
/* What isa_counts counts an instruction as. */
enum inst_kind { K_OTHER, K_VALU, K_SALU, K_VMEM, K_SMEM, K_LDS, K_BRANCH, K_COUNT };

/* A cache line. The fields of vector and of memory instructions share their place: they never meet in one. */
struct inst {
    inst_fn *run;
    const char *name;
    uint8_t dwords, format;   /* length with literal and DPP word          */
    uint16_t op;
    uint16_t src[3];          /* operand codes; for memory: see below      */
    uint8_t vdst;             /* VGPR                                      */
    uint8_t sdst;             /* SGPR code: SALU's destination, VOPC e64, VOP3SD, v_readlane */
    uint32_t literal;
    int32_t simm;             /* SOPK, SOPP: simm16, sign-extended         */
    union {
        struct { /* VALU */
            uint8_t neg, abs;         /* bit per source; VOP3P: neg_lo, neg_hi     */
            uint8_t opsel, opsel_hi;  /* bit per source, bit 3 the destination     */
            uint8_t omod;
            bool clamp, e64;
            uint8_t dpp;              /* DPP_*; src[0] is then the VGPR it names   */
            bool dpp_fi, dpp_bound;
            uint8_t dpp_row, dpp_bank;
            uint32_t dpp_ctrl;        /* DPP_16: 9 bits; DPP_8: eight selectors of 3 bits */
            /* VOPD's second half; the first one is op, vdst, src[0..1] */
            uint8_t op_y, vdst_y;
            uint16_t src_y[2];
        };
        struct {
            /* memory: data = VGPR to store, addr = address VGPR, saddr = SGPR code (OPND_NULL: none), vdst = VGPR
             * loaded; SMEM: srsrc = first SGPR of the base, sdst = first SGPR loaded */
            uint8_t addr, data, data1, saddr, soffset, srsrc;
            int32_t offset;           /* DS: offset0 | offset1 << 8                */
            uint8_t th, scope;        /* RDNA3: th = glc | slc << 1 | dlc << 2     */
            bool idxen, offen, gds, sve;
        };
    };
    uint8_t kind;             /* enum inst_kind                            */
    uint8_t vmax;             /* highest first VGPR of its operands        */
};
_Static_assert(sizeof(struct inst) == 64, "a decoded instruction is a cache line");

/* Registers: vgpr r of lane l is w->v[r][l]. sgpr: codes 0..127 index s[]; NULL reads 0, writes to it are dropped
 * (s_set). A 64-bit scalar is the pair (code, code + 1). v has WAVE_SLACK rows more than n_vgpr, so that an
 * operand of several registers whose first is checked stays in memory of the wave; the last row is the vector ALU's. */
enum { WAVE_SLACK = 32 };
struct isa_group;
struct code_page;
struct wave {
    uint32_t (*v)[WAVE_LANES]; /* 64-byte aligned                                                     */
    uint32_t n_vgpr;
    uint32_t s[128 + 16];
    uint32_t scc;              /* 0 or 1                                                              */
    uint32_t mode;             /* FP_ROUND 3:0, FP_DENORM 7:4, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23     */
    gva pc;                    /* of the next instruction; while one runs, of its successor           */
    gva at;                    /* of the running one                                                  */
    const struct chip *chip;
    struct isa_group *g;
    uint64_t tally[K_COUNT];
    struct isa_fault fault;    /* kind != 0 stops the wave                                            */
    uint32_t index, status;    /* in the work-group; enum wave_status in group.h                      */
    bool stop;                 /* after this instruction others get their turn                        */
    bool sleeps;               /* it stopped by s_sleep                                               */
    gva scratch;               /* of this wave; scratch_bytes 0: it has none                          */
    uint64_t scratch_bytes;
    const uint8_t *page;       /* host page of the code it runs, and what is decoded of it            */
    struct code_page *decoded;
    gva page_va;
    struct strict *strict;     /* NULL unless the launch is strict                                    */
};

/* A 32-bit scalar source of any code but VGPR; integers and floats alike (inline floats as f32 bits). */
uint32_t s_get_const(const struct wave *w, const struct inst *in, uint32_t code);
uint64_t s_get64_const(const struct wave *w, const struct inst *in, uint32_t code);

static inline uint32_t wave_exec(const struct wave *w) { return w->s[OPND_EXEC]; }
static inline void s_set(struct wave *w, uint32_t code, uint32_t v)
{
    if (code != OPND_NULL)
        w->s[code] = v;
}
static inline void s_set64(struct wave *w, uint32_t code, uint64_t v)
{
    if (code != OPND_NULL) {
        w->s[code] = (uint32_t)v;
        w->s[code + 1] = (uint32_t)(v >> 32);
    }
}
static inline uint32_t s_get(const struct wave *w, const struct inst *in, uint32_t code)
{
    return code < 128 ? w->s[code] : s_get_const(w, in, code);
}
/* A literal is zero-extended, an inline integer sign-extended, an inline float becomes an f64. */
static inline uint64_t s_get64(const struct wave *w, const struct inst *in, uint32_t code)
{
    return code < 128 && code != OPND_NULL ? w->s[code] | (uint64_t)w->s[code + 1] << 32 : s_get64_const(w, in, code);
}
/* Stops the wave with a report. fmt describes; the instruction and pc are added. */
__attribute__((cold, format(printf, 3, 4))) void wave_fault(struct wave *w, enum isa_fault_kind k,
                                                            const char *fmt, ...);

/* Who implements what: NULL for an op that the chip does not have. name gets the mnemonic without suffix. SOP* and
 * SMEM; DS .. BUFFER; VOP*, where VOPD has op X | op Y << 8. */
inst_fn *salu_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name);
inst_fn *mem_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name);
inst_fn *valu_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name);

/* Decodes the instruction at dw (up to n_dw readable dwords). 0, or -EINVAL: unknown; in->dwords then is its best
 * guess. */
int inst_decode(const struct chip *c, const uint32_t *dw, uint32_t n_dw, struct inst *in);
/* What the first dword of an instruction of graphics is called; NULL: it is none. */
const char *inst_graphics(const struct chip *c, uint32_t d);

#endif
