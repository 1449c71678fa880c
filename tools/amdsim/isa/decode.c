/* Decoding. The formats: RDNA3 and RDNA4 ISA guides, chapter "Microcode Formats". Which operations exist is known
 * by those who implement them; here the fields are taken apart and the length is found, also of what nobody
 * implements. */
#include "tools/amdsim/isa/inst.h"

#include <errno.h>
#include <string.h>

enum { SRC_DPP8 = 233, SRC_DPP8_FI = 234, SRC_DPP16 = 250 };

static inline uint32_t bits(uint32_t x, int hi, int lo)
{
    return x >> lo & (uint32_t)((1ull << (hi - lo + 1)) - 1);
}
static inline int32_t sext(uint32_t x, int width)
{
    uint32_t m = 1u << (width - 1);
    return (int32_t)((x & (m | (m - 1))) ^ m) - (int32_t)m;
}

/* What is being decoded: at[n] is the next dword not yet taken; the length counts also what is not readable. */
struct reader {
    const uint32_t *dw;
    uint32_t n, taken;
};
static uint32_t take(struct reader *r)
{
    uint32_t i = r->taken++;
    return i < r->n ? r->dw[i] : 0;
}

static void take_dpp(struct reader *r, struct inst *in, bool with_modifiers)
{
    bool dpp16 = in->src[0] == SRC_DPP16;
    in->dpp_fi = in->src[0] == SRC_DPP8_FI;
    uint32_t x = take(r);
    in->dpp = dpp16 ? DPP_16 : DPP_8;
    in->src[0] = (uint16_t)(OPND_VGPR + bits(x, 7, 0));
    if (!dpp16) {
        in->dpp_ctrl = bits(x, 31, 8);
        return;
    }
    in->dpp_ctrl = bits(x, 16, 8);
    in->dpp_fi = bits(x, 18, 18);
    in->dpp_bound = bits(x, 19, 19);
    in->dpp_bank = (uint8_t)bits(x, 27, 24);
    in->dpp_row = (uint8_t)bits(x, 31, 28);
    if (with_modifiers) {
        in->neg = (uint8_t)(bits(x, 20, 20) | bits(x, 22, 22) << 1);
        in->abs = (uint8_t)(bits(x, 21, 21) | bits(x, 23, 23) << 1);
    }
}

/* The dword that a literal or a DPP source has behind the instruction. */
static void take_extra(struct reader *r, struct inst *in, bool fixed_literal, bool with_modifiers)
{
    uint16_t s0 = in->src[0];
    if (fixed_literal || s0 == OPND_LITERAL || in->src[1] == OPND_LITERAL || in->src[2] == OPND_LITERAL)
        in->literal = take(r);
    else if (s0 == SRC_DPP16 || s0 == SRC_DPP8 || s0 == SRC_DPP8_FI)
        take_dpp(r, in, with_modifiers);
}

static void decode_sop(struct reader *r, uint32_t d, struct inst *in)
{
    in->kind = K_SALU;
    in->sdst = (uint8_t)bits(d, 22, 16);
    bool literal = false;
    if (bits(d, 31, 23) == 0x17d) {
        in->format = F_SOP1;
        in->op = (uint16_t)bits(d, 15, 8);
        in->src[0] = (uint16_t)bits(d, 7, 0);
    } else if (bits(d, 31, 23) == 0x17e) {
        in->format = F_SOPC;
        in->op = (uint16_t)bits(d, 22, 16);
        in->src[0] = (uint16_t)bits(d, 7, 0);
        in->src[1] = (uint16_t)bits(d, 15, 8);
        in->sdst = 0;
    } else if (bits(d, 31, 23) == 0x17f) {
        in->format = F_SOPP;
        in->op = (uint16_t)bits(d, 22, 16);
        in->simm = sext(d, 16);
        in->sdst = 0;
        in->kind = in->op >= 0x20 && in->op <= 0x2a ? K_BRANCH : K_OTHER;
    } else if (bits(d, 31, 28) == 0xb) {
        in->format = F_SOPK;
        in->op = (uint16_t)bits(d, 27, 23);
        in->simm = sext(d, 16);
        literal = in->op == 0x13; /* s_setreg_imm32_b32 */
    } else {
        in->format = F_SOP2;
        in->op = (uint16_t)bits(d, 29, 23);
        in->src[0] = (uint16_t)bits(d, 7, 0);
        in->src[1] = (uint16_t)bits(d, 15, 8);
        literal = in->op == 0x45 || in->op == 0x46; /* s_fmaak_f32, s_fmamk_f32 */
    }
    if (literal || in->src[0] == OPND_LITERAL || in->src[1] == OPND_LITERAL)
        in->literal = take(r);
}

static void decode_smem(const struct chip *c, struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r);
    in->format = F_SMEM;
    in->kind = K_SMEM;
    in->sdst = (uint8_t)bits(d, 12, 6);
    in->srsrc = (uint8_t)(bits(d, 5, 0) * 2);
    in->soffset = (uint8_t)bits(d1, 31, 25);
    if (c->gfx12) {
        in->op = (uint16_t)bits(d, 18, 13);
        in->scope = (uint8_t)bits(d, 22, 21);
        in->th = (uint8_t)bits(d, 24, 23);
        in->offset = sext(d1, 24);
    } else {
        in->op = (uint16_t)bits(d, 25, 18);
        in->th = (uint8_t)(bits(d, 14, 14) | bits(d, 13, 13) << 2);
        in->offset = sext(d1, 21);
    }
}

/* VOP1, VOP2 and VOPC in 32 bits. What their VOP3 forms spell out is filled in: VCC as carry and mask. */
static void decode_vop_short(struct reader *r, uint32_t d, struct inst *in)
{
    in->src[0] = (uint16_t)bits(d, 8, 0);
    in->src[1] = (uint16_t)(OPND_VGPR + bits(d, 16, 9));
    in->vdst = (uint8_t)bits(d, 24, 17);
    in->opsel_hi = 0;
    bool fixed = false;
    if (bits(d, 31, 25) == 0x3f) {
        in->format = F_VOP1;
        in->op = (uint16_t)bits(d, 16, 9);
        in->src[1] = 0;
        in->sdst = in->vdst & 127;
    } else if (bits(d, 31, 25) == 0x3e) {
        in->format = F_VOPC;
        in->op = (uint16_t)bits(d, 24, 17);
        in->vdst = 0;
        in->sdst = in->op & 0x80 ? OPND_EXEC : OPND_VCC;
    } else {
        in->format = F_VOP2;
        in->op = (uint16_t)bits(d, 30, 25);
        in->sdst = OPND_VCC;
        fixed = in->op == 0x2c || in->op == 0x2d || in->op == 0x37 || in->op == 0x38; /* v_fmamk, v_fmaak */
    }
    take_extra(r, in, fixed, true);
    if (in->format == F_VOP2 && (in->op == 1 || (in->op >= 0x20 && in->op <= 0x22)))
        in->src[2] = OPND_VCC;
}

static void decode_vop3(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r), op = bits(d, 25, 16);
    in->e64 = true;
    in->vdst = (uint8_t)bits(d, 7, 0);
    in->sdst = in->vdst & 127;
    in->clamp = bits(d, 15, 15);
    in->src[0] = (uint16_t)bits(d1, 8, 0);
    in->src[1] = (uint16_t)bits(d1, 17, 9);
    in->src[2] = (uint16_t)bits(d1, 26, 18);
    in->omod = (uint8_t)bits(d1, 28, 27);
    in->neg = (uint8_t)bits(d1, 31, 29);
    bool carries = (op >= 0x120 && op <= 0x122) || (op >= 0x2fc && op <= 0x302);
    if (carries) {
        in->sdst = (uint8_t)bits(d, 14, 8);
    } else {
        in->opsel = (uint8_t)bits(d, 14, 11);
        in->abs = (uint8_t)bits(d, 10, 8);
    }
    if (op < 0x100) {
        in->format = F_VOPC;
        in->vdst = 0;
        if (op & 0x80)
            in->sdst = OPND_EXEC;
    } else if (op < 0x140) {
        in->format = F_VOP2;
        op -= 0x100;
    } else if (op >= 0x180 && op < 0x200) {
        in->format = F_VOP1;
        op -= 0x180;
    } else {
        in->format = carries ? F_VOP3SD : F_VOP3;
    }
    in->op = (uint16_t)op;
    take_extra(r, in, false, false);
}

static void decode_vop3p(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r);
    in->format = F_VOP3P;
    in->e64 = true;
    in->op = (uint16_t)bits(d, 22, 16);
    in->vdst = (uint8_t)bits(d, 7, 0);
    in->abs = (uint8_t)bits(d, 10, 8);
    in->opsel = (uint8_t)bits(d, 13, 11);
    in->opsel_hi = (uint8_t)(bits(d1, 28, 27) | bits(d, 14, 14) << 2);
    in->clamp = bits(d, 15, 15);
    in->src[0] = (uint16_t)bits(d1, 8, 0);
    in->src[1] = (uint16_t)bits(d1, 17, 9);
    in->src[2] = (uint16_t)bits(d1, 26, 18);
    in->neg = (uint8_t)bits(d1, 31, 29);
    take_extra(r, in, false, false);
}

static void decode_vopd(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r);
    in->format = F_VOPD;
    in->op = (uint16_t)bits(d, 25, 22);
    in->op_y = (uint8_t)bits(d, 21, 17);
    in->src[0] = (uint16_t)bits(d, 8, 0);
    in->src[1] = (uint16_t)(OPND_VGPR + bits(d, 16, 9));
    in->src_y[0] = (uint16_t)bits(d1, 8, 0);
    in->src_y[1] = (uint16_t)(OPND_VGPR + bits(d1, 16, 9));
    in->vdst = (uint8_t)bits(d1, 31, 24);
    in->vdst_y = (uint8_t)(bits(d1, 23, 17) << 1 | (~in->vdst & 1u));
    bool x_k = in->op == 1 || in->op == 2, y_k = in->op_y == 1 || in->op_y == 2; /* fmaak, fmamk */
    if (x_k || y_k || in->src[0] == OPND_LITERAL || in->src_y[0] == OPND_LITERAL)
        in->literal = take(r);
}

static void decode_ds(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r);
    in->format = F_DS;
    in->kind = K_LDS;
    in->op = (uint16_t)bits(d, 25, 18);
    in->gds = bits(d, 17, 17);
    in->offset = (int32_t)bits(d, 15, 0);
    in->addr = (uint8_t)bits(d1, 7, 0);
    in->data = (uint8_t)bits(d1, 15, 8);
    in->data1 = (uint8_t)bits(d1, 23, 16);
    in->vdst = (uint8_t)bits(d1, 31, 24);
}

static void decode_flat11(struct reader *r, uint32_t d, struct inst *in)
{
    static const uint8_t seg[4] = { F_FLAT, F_SCRATCH, F_GLOBAL, F_FLAT };
    uint32_t d1 = take(r);
    in->format = seg[bits(d, 17, 16)];
    in->op = (uint16_t)bits(d, 24, 18);
    in->th = (uint8_t)(bits(d, 14, 14) | bits(d, 15, 15) << 1 | bits(d, 13, 13) << 2);
    in->offset = in->format == F_FLAT ? (int32_t)bits(d, 11, 0) : sext(d, 13);
    in->addr = (uint8_t)bits(d1, 7, 0);
    in->data = (uint8_t)bits(d1, 15, 8);
    in->saddr = (uint8_t)bits(d1, 22, 16);
    in->sve = bits(d1, 23, 23);
    in->vdst = (uint8_t)bits(d1, 31, 24);
}

static void decode_flat12(struct reader *r, uint32_t d, struct inst *in)
{
    static const uint8_t seg[4] = { F_FLAT, F_SCRATCH, F_GLOBAL, F_FLAT };
    uint32_t d1 = take(r), d2 = take(r);
    in->format = seg[bits(d, 25, 24)];
    in->op = (uint16_t)bits(d, 21, 14);
    in->saddr = (uint8_t)bits(d, 6, 0);
    in->vdst = (uint8_t)bits(d1, 7, 0);
    in->sve = bits(d1, 17, 17);
    in->scope = (uint8_t)bits(d1, 19, 18);
    in->th = (uint8_t)bits(d1, 22, 20);
    in->data = (uint8_t)bits(d1, 30, 23);
    in->addr = (uint8_t)bits(d2, 7, 0);
    in->offset = sext(d2 >> 8, 24);
}

static void decode_mubuf11(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r);
    in->format = F_BUFFER;
    in->op = (uint16_t)bits(d, 25, 18);
    in->th = (uint8_t)(bits(d, 14, 14) | bits(d, 12, 12) << 1 | bits(d, 13, 13) << 2);
    in->offset = (int32_t)bits(d, 11, 0);
    in->addr = (uint8_t)bits(d1, 7, 0);
    in->vdst = in->data = (uint8_t)bits(d1, 15, 8);
    in->srsrc = (uint8_t)(bits(d1, 20, 16) * 4);
    in->offen = bits(d1, 22, 22);
    in->idxen = bits(d1, 23, 23);
    in->soffset = (uint8_t)bits(d1, 31, 24);
}

static void decode_vbuffer12(struct reader *r, uint32_t d, struct inst *in)
{
    uint32_t d1 = take(r), d2 = take(r);
    in->format = F_BUFFER;
    in->op = (uint16_t)bits(d, 21, 14);
    in->soffset = (uint8_t)bits(d, 6, 0);
    in->vdst = in->data = (uint8_t)bits(d1, 7, 0);
    in->srsrc = (uint8_t)bits(d1, 16, 9);
    in->scope = (uint8_t)bits(d1, 19, 18);
    in->th = (uint8_t)bits(d1, 22, 20);
    in->offen = bits(d1, 30, 30);
    in->idxen = bits(d1, 31, 31);
    in->addr = (uint8_t)bits(d2, 7, 0);
    in->offset = (int32_t)bits(d2, 31, 8);
}

/* Formats whose first six bits are 11xxxx. False: not one of a compute wave; r then has the length. */
static bool decode_long(const struct chip *c, struct reader *r, uint32_t d, struct inst *in)
{
    in->kind = K_VALU;
    switch (bits(d, 31, 26)) {
    case 0x31: /* VBUFFER */
        in->kind = K_VMEM;
        return c->gfx12 ? (decode_vbuffer12(r, d, in), true) : false;
    case 0x32:
        return decode_vopd(r, d, in), true;
    case 0x33: /* VOP3P; LDSDIR (one dword) and VINTERP are graphics */
        if (bits(d, 31, 24) == 0xcc)
            return decode_vop3p(r, d, in), true;
        r->taken += bits(d, 31, 24) == 0xcd;
        return false;
    case 0x35:
        return decode_vop3(r, d, in), true;
    case 0x36:
        return decode_ds(r, d, in), true;
    case 0x37:
        in->kind = K_VMEM;
        return c->gfx12 ? false : (decode_flat11(r, d, in), true);
    case 0x3b:
        in->kind = K_VMEM;
        return c->gfx12 ? (decode_flat12(r, d, in), true) : false;
    case 0x38:
        in->kind = K_VMEM;
        return c->gfx12 ? false : (decode_mubuf11(r, d, in), true);
    case 0x3d:
        return decode_smem(c, r, d, in), true;
    case 0x34: /* images: VIMAGE, VSAMPLE of gfx12 */
    case 0x39:
        r->taken += 2;
        return false;
    case 0x3c: /* MIMG: one dword more for each four addresses beyond the first in the form with NSA */
        r->taken += 1 + (bits(d, 0, 0) ? 1 : 0);
        return false;
    case 0x3a: /* MTBUF */
    case 0x3e: /* exports */
        r->taken += 1;
        return false;
    }
    return false;
}

/* What a compute wave has no use for, though the chip has it. */
const char *inst_graphics(const struct chip *c, uint32_t d)
{
    switch (bits(d, 31, 26)) {
    case 0x33: return bits(d, 31, 24) == 0xcd ? "VINTERP" : bits(d, 31, 24) == 0xce ? "LDSDIR" : NULL;
    case 0x34:
    case 0x39: return c->gfx12 ? "an image instruction" : NULL;
    case 0x3c: return c->gfx12 ? NULL : "an image instruction";
    case 0x3e: return "an export";
    }
    return NULL;
}

static void raise_vmax(struct inst *in, uint32_t code)
{
    if (code >= OPND_VGPR && code - OPND_VGPR > in->vmax)
        in->vmax = (uint8_t)(code - OPND_VGPR);
}

/* The VGPRs that operand fields name. Where one is an SGPR or means nothing it is left out. */
static void find_vmax(struct inst *in)
{
    bool memory = in->format >= F_DS;
    bool to_sgpr = (in->format == F_VOP1 && in->op == 2) /* v_readfirstlane_b32 */
        || (in->format == F_VOP3 && (in->op == 0x360 || (in->op >= 0x280 && in->op <= 0x289)));
    if (in->format <= F_SMEM)
        return;
    if (!to_sgpr)
        raise_vmax(in, OPND_VGPR + in->vdst);
    if (memory) {
        raise_vmax(in, OPND_VGPR + in->addr);
        raise_vmax(in, OPND_VGPR + in->data);
        raise_vmax(in, OPND_VGPR + in->data1);
        return;
    }
    for (int i = 0; i < 3; i++)
        raise_vmax(in, in->src[i]);
    if (in->format == F_VOPD) {
        raise_vmax(in, in->src_y[0]);
        raise_vmax(in, in->src_y[1]);
        raise_vmax(in, OPND_VGPR + in->vdst_y);
    }
}

int inst_decode(const struct chip *c, const uint32_t *dw, uint32_t n_dw, struct inst *in)
{
    memset(in, 0, sizeof *in);
    struct reader r = { dw, n_dw, 0 };
    uint32_t d = take(&r);
    bool known = true;
    in->format = F_COUNT;
    if (bits(d, 31, 31) == 0) {
        in->kind = K_VALU;
        decode_vop_short(&r, d, in);
    } else if (bits(d, 31, 30) == 2) {
        decode_sop(&r, d, in);
    } else {
        known = decode_long(c, &r, d, in);
    }
    in->dwords = (uint8_t)r.taken;
    if (!known || r.taken > n_dw)
        return -EINVAL;
    find_vmax(in);
    if (in->format <= F_SMEM)
        in->run = salu_find(c, in->format, in->op, &in->name);
    else if (in->format >= F_DS)
        in->run = mem_find(c, in->format, in->op, &in->name);
    else
        in->run =
            valu_find(c, in->format, in->format == F_VOPD ? in->op | (uint32_t)in->op_y << 8 : in->op, &in->name);
    return in->run ? 0 : -EINVAL;
}
