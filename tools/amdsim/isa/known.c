/* What is known in registers, LDS and scratch of a strict launch: memory instructions and the vector ALU. The rules
 * are in strict.h. */
#include "tools/amdsim/isa/known_bits.h"

#include <stdlib.h>
#include <string.h>

#include "tools/amdsim/isa/dpp.h"
#include "tools/amdsim/isa/mem.h"

bool known_fault(struct wave *w, const char *what, struct unknown u)
{
    uint32_t lane = (uint32_t)__builtin_ctz(u.bits | 1u << 31);
    w->fault.lane = lane;
    if (u.from && u.from != w->at)
        wave_fault(w, ISA_FAULT_STRICT, "%s (bit or lane %u) is made of something that nothing has written; the "
                   "instruction at 0x%llx (%+lld) read it first", what, lane, (unsigned long long)u.from,
                   (long long)(u.from - w->g->l->entry));
    else
        wave_fault(w, ISA_FAULT_STRICT, "%s (bit or lane %u) is a register that nothing has written", what, lane);
    return false;
}

/* ---- vector ALU ---- */

/* The register of a 16-bit operand in the short encodings has the half in bit 7. */
static uint32_t register_of(const struct inst *in, uint32_t reg, enum valu_type t)
{
    bool half = t == T_B16 || t == T_F16 || t == T_D16;
    return half && !in->e64 && in->format != F_VOPD ? reg & 127 : reg;
}

static struct unknown vgprs(const struct wave *w, uint32_t reg, uint32_t n)
{
    struct unknown u = { 0 };
    for (uint32_t i = 0; i < n; i++)
        u = unknown_or(u, w->strict->v[reg + i]);
    return u;
}

static struct unknown through_dpp(struct wave *w, const struct inst *in, struct unknown u, uint32_t *write)
{
    uint32_t src[WAVE_LANES], out[WAVE_LANES];
    for (int l = 0; l < WAVE_LANES; l++)
        src[l] = u.bits >> l & 1;
    *write &= dpp_read(w, in, src, out);
    u.bits = 0;
    for (int l = 0; l < WAVE_LANES; l++)
        u.bits |= out[l] << l;
    return u;
}

/* Of a 16-bit operand the other half of the register does not matter. */
static struct unknown half_of(const struct inst *in, int i, struct unknown u)
{
    bool high = in->e64 ? in->opsel >> i & 1 : in->src[i] >= OPND_VGPR && (in->src[i] - OPND_VGPR) >> 7;
    if (!(u.part & (high ? 0xffff0000 : 0xffff)))
        u.bits = 0;
    u.part = ~0u;
    return u;
}

/* Source i, by lane. Lane masks: by bit. */
static struct unknown_pair source(struct wave *w, const struct inst *in, const struct valu_op *op, int i,
                                  uint32_t *write)
{
    enum valu_type t = (enum valu_type)op->src[i];
    uint32_t code = in->src[i];
    struct unknown_pair out = { 0 };
    if (t == T_NONE || t == T_K16 || t == T_K32)
        return out;
    if (t == T_VCC || t == T_CIN) {
        out.lo = known_scalar(w, t == T_VCC ? OPND_VCC : in->src[2], false);
        out.lo.part = ~0u;
        return out;
    }
    if (t == T_D16 || t == T_D32 || t == T_PKD || t == T_D64)
        code = OPND_VGPR + in->vdst;
    if (code < OPND_VGPR) {
        out.lo = unknown_lanes(known_scalar(w, code, false));
        if (valu_wide(t) && code < OPND_NULL)
            out.hi = unknown_lanes(known_scalar(w, code + 1, false));
        return out;
    }
    uint32_t reg = register_of(in, code - OPND_VGPR, t);
    bool dpp = i == 0 && in->dpp != DPP_NONE;
    out.lo = dpp ? through_dpp(w, in, w->strict->v[reg], write) : w->strict->v[reg];
    if (valu_wide(t))
        out.hi = dpp ? through_dpp(w, in, w->strict->v[reg + 1], write) : w->strict->v[reg + 1];
    if (t == T_B16 || t == T_F16)
        out.lo = half_of(in, i, out.lo);
    return out;
}

/* The result, in the lanes of *write. */
static struct unknown_pair result(struct wave *w, const struct inst *in, const struct valu_op *op, uint32_t *write)
{
    struct unknown_pair s[3];
    for (int i = 0; i < 3; i++)
        s[i] = source(w, in, op, i, write);
    for (int i = 0; i < 3; i++) { /* what is in lanes that are off decides nothing */
        s[i].lo.bits &= *write;
        s[i].hi.bits &= *write;
    }
    return known_bits(w, in, op, s);
}

static bool put_result(struct wave *w, const struct inst *in, const struct valu_op *op, struct unknown_pair u,
                       uint32_t write)
{
    enum valu_type dst = (enum valu_type)op->dst;
    struct unknown mask = unknown_or(u.lo, u.hi); /* a carry, or what is compared */
    mask.bits &= write;
    if (dst == T_CMP)
        return known_set(w, in->sdst, mask);
    uint32_t reg = register_of(in, in->vdst, dst);
    unknown_put(w, &w->strict->v[reg], write, u.lo);
    if (valu_wide(dst))
        unknown_put(w, &w->strict->v[reg + 1], write, u.hi);
    return dst < T_B32C || known_set(w, in->sdst, mask);
}

static bool known_dual(struct wave *w, const struct inst *in)
{
    const struct valu_op *x = &valu_ops[valu_dual_find(w->chip, in->op)->id];
    const struct valu_op *y = &valu_ops[valu_dual_find(w->chip, in->op_y)->id];
    uint32_t write = wave_exec(w);
    struct inst first = *in, second = *in;
    first.src[2] = second.src[2] = OPND_VCC;
    memcpy(second.src, in->src_y, sizeof in->src_y);
    second.vdst = in->vdst_y;
    struct unknown_pair ux = result(w, &first, x, &write), uy = result(w, &second, y, &write);
    return put_result(w, &first, x, ux, write) && put_result(w, &second, y, uy, write);
}

/* Rows of A and columns of B, one to a lane and to the lane 16 higher, make rows and columns of the sum: see wmma.c
 * for where those are. */
static void known_wmma(struct wave *w, const struct inst *in)
{
    bool gfx12 = w->chip->gfx12, sparse = !strncmp(in->name, "v_swmmac", 8);
    const char *out = strchr(in->name + 2, '_') + 1, *elem = strrchr(in->name, '_') + 1;
    bool out16 = !strncmp(out, "f16", 3) || !strncmp(out, "bf16", 4), packed = out16 && gfx12;
    uint32_t k = (uint32_t)strtoul(strstr(in->name, "_16x16x") + 7, NULL, 10);
    uint32_t bits = strstr(elem, "16") ? 16 : strstr(elem, "iu4") ? 4 : 8;
    uint32_t n = k * bits / 32 / (gfx12 ? 2 : 1), n_acc = packed ? 4 : 8;
    n = n ? n : 1;
    struct unknown a = vgprs(w, in->src[0] - OPND_VGPR, sparse && n > 1 ? n / 2 : n);
    struct unknown b = vgprs(w, in->src[1] - OPND_VGPR, n);
    if (sparse)
        a = unknown_or(a, vgprs(w, in->src[2] - OPND_VGPR, 1));
    uint32_t rows = (a.bits | a.bits >> 16) & 0xffff, cols = (b.bits | b.bits >> 16) & 0xffff;
    uint32_t acc = sparse ? in->vdst + OPND_VGPR : in->src[2];
    struct unknown sum[8];
    for (uint32_t r = 0; r < n_acc; r++) {
        struct unknown c =
            acc >= OPND_VGPR ? w->strict->v[acc - OPND_VGPR + r] : unknown_lanes(known_scalar(w, acc, false));
        struct unknown ab = { cols | cols << 16, ~0u, b.bits ? b.from : a.from };
        for (uint32_t high = 0; high < 2; high++) {
            uint32_t row = packed ? 8 * high + 2 * r : gfx12 ? 8 * high + r : 2 * r + high;
            ab.bits |= rows >> row & (packed ? 3 : 1) ? 0xffffu << 16 * high : 0;
        }
        sum[r] = unknown_or(c, ab);
    }
    for (uint32_t r = 0; r < n_acc; r++)
        unknown_put(w, &w->strict->v[in->vdst + r], ~0u, sum[r]);
}

static bool known_readlane(struct wave *w, const struct inst *in)
{
    uint32_t exec = wave_exec(w), lane = exec ? (uint32_t)__builtin_ctz(exec) : 0;
    bool first = in->format == F_VOP1;
    struct unknown which = first ? (struct unknown){ 0 } : known_scalar(w, in->src[1], false);
    if (which.bits & 31)
        return known_fault(w, "the lane to read", which);
    if (!first)
        lane = s_get(w, in, in->src[1]) & 31;
    struct unknown u = in->src[0] < OPND_VGPR ? known_scalar(w, in->src[0], false)
                                              : w->strict->v[in->src[0] - OPND_VGPR];
    if (in->src[0] >= OPND_VGPR)
        u.bits = u.bits >> lane & 1 ? u.part : 0;
    return known_set(w, in->sdst, u);
}

static bool known_writelane(struct wave *w, const struct inst *in)
{
    struct unknown which = known_scalar(w, in->src[1], false);
    if (which.bits & 31)
        return known_fault(w, "the lane to write", which);
    unknown_put(w, &w->strict->v[in->vdst], 1u << (s_get(w, in, in->src[1]) & 31),
                unknown_lanes(known_scalar(w, in->src[0], false)));
    return true;
}

/* Lane selectors of v_permlane*: a lane is unknown when one that it might read is. */
static void known_permlane(struct wave *w, const struct inst *in)
{
    uint32_t exec = wave_exec(w), reg = in->src[0] - OPND_VGPR;
    bool other_row = in->op == 0x25c || in->op == 0x310, by_vgpr = in->op >= 0x300;
    struct unknown u = w->strict->v[reg], select = { 0 }, out;
    uint64_t nibbles = 0;
    if (by_vgpr) {
        select = w->strict->v[in->src[1] - OPND_VGPR];
    } else {
        select = unknown_all(unknown_or(known_scalar(w, in->src[1], false), known_scalar(w, in->src[2], false)));
        nibbles = s_get(w, in, in->src[1]) | (uint64_t)s_get(w, in, in->src[2]) << 32;
    }
    out = (struct unknown){ select.bits, select.bits ? ~0u : u.part, u.bits ? u.from : select.from };
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        uint32_t pick = by_vgpr ? w->v[in->src[1] - OPND_VGPR][l] & 15 : nibbles >> 4 * (l & 15) & 15;
        uint32_t from = ((l & 16) ^ (other_row ? 16 : 0)) | pick;
        bool reads = (in->opsel & 1) || exec >> from & 1, keeps = !reads && !(in->opsel & 2);
        out.bits |= reads ? (u.bits >> from & 1) << l : 0;
        if (keeps)
            exec &= ~(1u << l);
    }
    unknown_put(w, &w->strict->v[in->vdst], exec, out);
}

static bool known_movrel(struct wave *w, const struct inst *in)
{
    enum { MOVRELD = 0x42, MOVRELS, MOVRELSD, MOVRELSD_2 = 0x48 };
    uint32_t m0 = w->s[OPND_M0], exec = wave_exec(w);
    bool two = in->op == MOVRELSD_2;
    uint32_t dst = in->vdst + (in->op == MOVRELS ? 0 : two ? m0 >> 16 & 0x3ff : m0);
    uint32_t src = in->src[0] - OPND_VGPR + (in->op == MOVRELD ? 0 : two ? m0 & 0x3ff : m0);
    if (w->strict->s[OPND_M0].bits)
        return known_fault(w, "M0, the register to move,", w->strict->s[OPND_M0]);
    bool vgpr = in->src[0] >= OPND_VGPR;
    if (dst < w->n_vgpr && (!vgpr || src < w->n_vgpr)) /* else it faults when it runs */
        unknown_put(w, &w->strict->v[dst], exec,
                    vgpr ? w->strict->v[src] : unknown_lanes(known_scalar(w, in->src[0], false)));
    return true;
}

static void known_swap(struct wave *w, const struct inst *in)
{
    struct unknown *a = &w->strict->v[in->vdst], *b = &w->strict->v[in->src[0] - OPND_VGPR], old = *a;
    unknown_put(w, a, wave_exec(w), *b);
    unknown_put(w, b, wave_exec(w), old);
}

/* Instructions that valu_ops.def has as a function of their own. */
static bool known_special(struct wave *w, const struct inst *in, const struct valu_op *op)
{
    struct strict *s = w->strict;
    if (op->run == valu_readlane || op->run == valu_readfirstlane)
        return known_readlane(w, in);
    if (op->run == valu_writelane)
        return known_writelane(w, in);
    if (op->run == valu_s_trans)
        return known_set(w, in->sdst, unknown_all(known_scalar(w, in->src[0], false)));
    if (op == &valu_ops[V_swaprel_b32])
        return true;
    if (op->run == valu_movrel)
        return known_movrel(w, in);
    if (op->run == valu_permlane16 || op->run == valu_permlane16_var)
        known_permlane(w, in);
    else if (op->run == valu_swap)
        known_swap(w, in);
    else if (op->run == valu_mqsad_u32_u8)
        for (uint32_t i = 0; i < 4; i++)
            unknown_put(w, &s->v[in->vdst + i], wave_exec(w), (struct unknown){ 0 });
    return true;
}

bool known_valu(struct wave *w, const struct inst *in)
{
    if (in->format == F_VOPD)
        return known_dual(w, in);
    if (in->format == F_VOP3P && in->op >= 0x40) {
        known_wmma(w, in);
        return true;
    }
    const struct valu_op *op = valu_op_find(w->chip, (enum inst_format)in->format, in->op);
    if (!op->lane)
        return known_special(w, in, op);
    uint32_t write = wave_exec(w);
    struct unknown_pair u = result(w, in, op, &write);
    return put_result(w, in, op, u, write);
}

/* ---- memory ---- */

/* The shadow of scratch at a lane's byte offset; NULL: there is none. */
static struct unknown *scratch_dword(struct wave *w, uint64_t off)
{
    struct strict *s = w->strict;
    if (!s->scratch && w->scratch_bytes) {
        s->n_scratch = (uint32_t)(w->scratch_bytes / WAVE_LANES / 4);
        s->scratch = malloc(s->n_scratch * sizeof *s->scratch);
        for (uint32_t i = 0; s->scratch && i < s->n_scratch; i++)
            s->scratch[i] = (struct unknown){ ~0u, ~0u, 0 };
    }
    return s->scratch && off / 4 < s->n_scratch ? &s->scratch[off / 4] : NULL;
}

/* Registers to or from scratch, for the lanes of `lanes`. */
static void known_scratch(struct wave *w, uint32_t lane, uint64_t off, uint32_t reg, uint32_t n, bool store)
{
    for (uint32_t d = 0; d < n; d++) {
        struct unknown *m = scratch_dword(w, off + 4 * d), *v = &w->strict->v[reg + d];
        if (m && store)
            unknown_put(w, m, 1u << lane, *v);
        else if (m)
            unknown_put(w, v, 1u << lane, *m);
    }
}

/* Data of lanes whose access a buffer's range forbids is not stored. */
static bool known_stored(struct wave *w, const struct inst *in, uint32_t n, bool atomic)
{
    struct unknown u = vgprs(w, in->data, n);
    struct lanes a;
    const char *name = in->name;
    uint32_t taken = strstr(name, "d16_hi_b16") ? 0xffff0000 : strstr(name, "d16_hi_b8") ? 0xff0000
        : strstr(name, "store_b16") ? 0xffff : strstr(name, "store_b8") ? 0xff : ~0u;
    if (!(u.bits & wave_exec(w)) || !(u.part & taken))
        return true;
    mem_lanes(w, in, n * 4, &a);
    u.bits &= a.active;
    for (uint32_t l = 0; l < WAVE_LANES && in->format == F_FLAT; l++)
        if (a.va[l] >> 48 == APERTURE_SCRATCH)
            u.bits &= ~(1u << l);
    return !u.bits || known_fault(w, atomic ? "the operand of an atomic" : "a value stored to memory", u);
}

bool known_vmem(struct wave *w, const struct inst *in, uint32_t n)
{
    bool atomic = strstr(in->name, "atomic"), store = strstr(in->name, "_store"), flat = in->format == F_FLAT;
    bool load = strstr(in->name, "_load") || (atomic && (in->th & 1)), addtid = strstr(in->name, "addtid");
    uint32_t exec = wave_exec(w), n_addr = 1;
    struct unknown base = { 0 };
    if ((!atomic && !store && !load) || !exec)
        return true;
    if (in->format == F_SCRATCH)
        n_addr = in->sve;
    else if (in->format == F_BUFFER)
        n_addr = (uint32_t)in->idxen + in->offen;
    else
        n_addr = addtid ? 0 : in->saddr == OPND_NULL || flat ? 2 : 1;
    struct unknown addr = vgprs(w, in->addr, n_addr);
    addr.bits &= exec;
    if (in->format == F_BUFFER)
        base = unknown_or(unknown_or(known_scalar(w, in->srsrc, true), known_scalar(w, in->srsrc + 2u, true)),
                          known_scalar(w, in->soffset, false));
    else if (!flat)
        base = known_scalar(w, in->saddr, in->format != F_SCRATCH);
    if (addr.bits || base.bits)
        return known_fault(w, "the address", addr.bits ? addr : base);
    if (in->format != F_SCRATCH && (store || atomic) &&
        !known_stored(w, in, n * (strstr(in->name, "cmpswap") ? 2 : 1), atomic))
        return false;
    for (uint32_t d = 0; load && d < n; d++)
        unknown_put(w, &w->strict->v[in->vdst + d], exec, (struct unknown){ 0 });
    if (in->format == F_SCRATCH || flat) {
        struct lanes a;
        mem_lanes(w, in, n * 4, &a);
        for (uint32_t left = a.active; left; left &= left - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(left);
            if (!flat || a.va[l] >> 48 == APERTURE_SCRATCH)
                known_scratch(w, l, a.va[l] & 0xffffffff, store ? in->data : in->vdst, n, store);
        }
    }
    return true;
}

/* Addresses, and the operands of atomics; what loads bring and stores take with them: strict_lds_*. */
bool known_lds(struct wave *w, const struct inst *in, uint32_t n)
{
    bool plain = strstr(in->name, "_load") || strstr(in->name, "ds_store"), atomic = false;
    bool exchange = strstr(in->name, "permute") || strstr(in->name, "swizzle"), addtid = strstr(in->name, "addtid");
    bool counts = strstr(in->name, "append") || strstr(in->name, "consume");
    uint32_t exec = wave_exec(w);
    if (strstr(in->name, "nop") || exchange || !exec)
        return true;
    if ((counts || addtid) && w->strict->s[OPND_M0].bits)
        return known_fault(w, "M0, the address,", w->strict->s[OPND_M0]);
    struct unknown addr = w->strict->v[in->addr];
    addr.bits &= exec;
    if (!counts && !addtid && addr.bits)
        return known_fault(w, "the address", addr);
    atomic = !plain && !counts;
    if (atomic) {
        uint32_t each = strstr(in->name, "2addr") ? n / 2 : n;
        struct unknown u = vgprs(w, in->data, each);
        if (strstr(in->name, "2addr") || strstr(in->name, "cmpstore") || strstr(in->name, "mskor"))
            u = unknown_or(u, vgprs(w, in->data1, each));
        u.bits &= exec;
        if (u.bits)
            return known_fault(w, "the operand of an atomic", u);
    }
    bool writes = strstr(in->name, "_load") || strstr(in->name, "rtn") || counts;
    for (uint32_t d = 0; writes && d < n; d++)
        unknown_put(w, &w->strict->v[in->vdst + d], exec, (struct unknown){ 0 });
    return true;
}

void strict_lds_load(struct wave *w, uint32_t lane, uint32_t at, uint32_t bytes, uint32_t reg)
{
    const uint8_t *written = w->g->lds_written + at;
    for (uint32_t d = 0; d * 4 < bytes; d++) {
        struct unknown u = { 1u << lane, 0, 0 };
        for (uint32_t i = d * 4; i < bytes && i < d * 4 + 4; i++)
            u.part |= written[i] ? 0 : bytes < 4 ? ~0u : 0xffu << 8 * (i & 3);
        if (u.part)
            unknown_put(w, &w->strict->v[reg + d], 1u << lane, u);
    }
}

void strict_lds_store(struct wave *w, uint32_t lane, uint32_t at, uint32_t bytes, uint32_t reg, bool high)
{
    for (uint32_t i = 0; i < bytes; i++) {
        const struct unknown *u = &w->strict->v[reg + i / 4];
        uint32_t byte = (i & 3) + (high ? 2 : 0);
        w->g->lds_written[at + i] = !(u->bits >> lane & 1 && u->part >> 8 * byte & 0xff);
    }
}

void strict_exchange(struct wave *w, uint32_t data, uint32_t addr, const int8_t from[WAVE_LANES], uint32_t dst)
{
    struct unknown u = w->strict->v[data], out = w->strict->v[addr];
    out.part = ~0u;
    if (data == addr)
        out = (struct unknown){ 0 };
    for (int l = 0; l < WAVE_LANES; l++)
        if (from[l] >= 0)
            out = unknown_or((struct unknown){ (u.bits >> from[l] & 1) << l, u.part, u.from }, out);
    unknown_put(w, &w->strict->v[dst], wave_exec(w), out);
}
