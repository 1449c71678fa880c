/* What a strict launch checks in registers: no instruction touches a register that a load is still to fill (here),
 * and nothing that matters is made of a register that nothing has written (known.c). Of the operands of scalar and of
 * matrix instructions the first register is looked at here, of others all. Counters: RDNA3 and RDNA4
 * ISA guides, "Data Dependency Resolution". */
#include "tools/amdsim/isa/strict.h"

#include <stdlib.h>
#include <string.h>

#include "tools/amdsim/isa/valu.h"

static const char *const waits[2][N_COUNTERS] = { { "s_waitcnt vmcnt", "s_waitcnt lgkmcnt", "s_waitcnt lgkmcnt" },
                                                  { "s_wait_loadcnt", "s_wait_dscnt", "s_wait_kmcnt" } };

/* Known at the start: work-item ids, user data, the work-group's numbers, EXEC. */
struct strict *strict_create(const struct isa_launch *l)
{
    struct strict *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    for (uint32_t i = 1; i < sizeof s->v / sizeof *s->v; i++)
        s->v[i].bits = s->v[i].part = ~0u;
    uint32_t user = l->rsrc2 >> 1 & 31, groups = (uint32_t)__builtin_popcount(l->rsrc2 >> 7 & 15);
    for (uint32_t i = (user > 16 ? 16 : user) + (l->chip->gfx12 ? 0 : groups); i < OPND_TTMP; i++)
        s->s[i].bits = ~0u;
    s->s[OPND_M0].bits = ~0u;
    s->scc.bits = ~0u;
    return s;
}

void strict_destroy(struct strict *s)
{
    if (s)
        free(s->scratch);
    free(s);
}

static bool missing_wait(struct wave *w, const char *file, uint32_t r, enum counter c)
{
    wave_fault(w, ISA_FAULT_STRICT, "%s%u is still to be filled by a load: a wait is missing (%s)", file, r,
               waits[w->chip->gfx12][c]);
    return false;
}

static bool vgpr_ready(struct wave *w, uint32_t r, uint32_t n)
{
    struct strict *s = w->strict;
    for (; n; n--, r++)
        for (int c = C_LOAD; c <= C_LDS; c++)
            if (s->v_load[r][c] > s->done[c])
                return missing_wait(w, "v", r, (enum counter)c);
    return true;
}

/* May a load of counter c fill them? Loads of one kind arrive in order, so the later one wins. */
static bool vgpr_loadable(struct wave *w, uint32_t r, uint32_t n, enum counter c)
{
    enum counter other = c == C_LOAD ? C_LDS : C_LOAD;
    for (; n; n--, r++)
        if (w->strict->v_load[r][other] > w->strict->done[other])
            return missing_wait(w, "v", r, other);
    return true;
}

static bool sgpr_ready(struct wave *w, uint32_t code, uint32_t n)
{
    struct strict *s = w->strict;
    for (; n; n--, code++)
        if (s->s_load[code] > s->done[C_SCALAR])
            return missing_wait(w, "s", code, C_SCALAR);
    return true;
}

static bool source_ready(struct wave *w, uint32_t code, uint32_t n)
{
    if (code >= OPND_VGPR)
        return vgpr_ready(w, code - OPND_VGPR, n);
    return code >= 128 || code == OPND_NULL || sgpr_ready(w, code, n);
}

/* ---- waits ---- */

static void wait_until(struct strict *s, enum counter c, uint64_t under_way)
{
    if (s->issued[c] - s->done[c] > under_way)
        s->done[c] = s->issued[c] - under_way;
}
/* Scalar loads arrive in any order: only waiting for all of them says something. */
static void wait_scalar(struct strict *s, uint32_t under_way)
{
    if (under_way == 0)
        s->done[C_SCALAR] = s->issued[C_SCALAR];
}
/* RDNA3's one counter of both. While a scalar load is under way the order is unknown. */
static void wait_lgkm(struct strict *s, uint32_t under_way)
{
    if (s->issued[C_SCALAR] == s->done[C_SCALAR] || under_way == 0)
        wait_until(s, C_LDS, under_way);
    wait_scalar(s, under_way);
}

enum {
    SOPP_WAITCNT = 0x09,
    SOPP_WAIT_IDLE = 0x0a,
    SOPP_LOADCNT = 0x40,
    SOPP_DSCNT = 0x46,
    SOPP_KMCNT,
    SOPP_LOADCNT_DSCNT,
    SOPP_STORECNT_DSCNT,
    SOPK_VMCNT = 0x19,
    SOPK_LGKMCNT = 0x1b
};

static void note_wait(struct wave *w, const struct inst *in)
{
    struct strict *s = w->strict;
    uint32_t x = (uint32_t)in->simm;
    if (in->format == F_SOPK && in->op == SOPK_VMCNT)
        wait_until(s, C_LOAD, x & 63);
    else if (in->format == F_SOPK && in->op == SOPK_LGKMCNT)
        wait_lgkm(s, x & 63);
    if (in->format != F_SOPP)
        return;
    switch (in->op) {
    case SOPP_WAITCNT: /* RDNA4 has separate ones, and this as a no-op */
        if (w->chip->gfx12)
            break;
        wait_until(s, C_LOAD, x >> 10 & 63);
        wait_lgkm(s, x >> 4 & 63);
        break;
    case SOPP_WAIT_IDLE:
        memcpy(s->done, s->issued, sizeof s->done);
        break;
    case SOPP_LOADCNT: wait_until(s, C_LOAD, x & 63); break;
    case SOPP_DSCNT: case SOPP_STORECNT_DSCNT: wait_until(s, C_LDS, x & 63); break;
    case SOPP_KMCNT: wait_scalar(s, x & 31); break;
    case SOPP_LOADCNT_DSCNT:
        wait_until(s, C_LOAD, x >> 8 & 63);
        wait_until(s, C_LDS, x & 63);
        break;
    }
}

/* ---- instructions ---- */

/* Registers that a memory instruction moves, from the end of its name: "b96", "2addr_b64", "add_rtn_u64". */
static uint32_t name_dwords(const char *name)
{
    const char *last = strrchr(name, '_');
    uint32_t bits = last && last[1] ? (uint32_t)strtoul(last + 2, NULL, 10) : 0;
    if (last && !strncmp(last + 1, "bf16", 4))
        bits = 16;
    if (strstr(name, "atomic_pk_"))
        bits = 32;
    return (bits > 32 ? bits / 32 : 1) * (strstr(name, "2addr") ? 2 : 1);
}

/* Operands of one operation: src and vdst are the instruction's, or those of VOPD's second half. */
static bool operation_ready(struct wave *w, const struct inst *in, const struct valu_op *op, const uint16_t *src,
                            uint32_t vdst)
{
    for (uint32_t i = 0; i < 3; i++) {
        enum valu_type t = (enum valu_type)op->src[i];
        bool none = t == T_NONE || t == T_K16 || t == T_K32 || (t >= T_D16 && t <= T_D64) || t == T_PKD;
        if (t == T_VCC ? !sgpr_ready(w, OPND_VCC, 1)
            : t == T_CIN ? !source_ready(w, in->format == F_VOPD ? OPND_VCC : in->src[2], 1)
                         : !none && !source_ready(w, src[i], valu_wide(t) ? 2 : 1))
            return false;
    }
    if (op->dst == T_CMP || op->dst >= T_B32C) {
        if (in->sdst != OPND_NULL && !sgpr_ready(w, in->sdst, 1))
            return false;
    }
    return op->dst == T_CMP || vgpr_ready(w, vdst, valu_wide((enum valu_type)op->dst) ? 2 : 1);
}

/* Instructions that valu_ops.def has as a function of their own, and the matrix ones: the first register of each. */
static bool special_ready(struct wave *w, const struct inst *in, bool to_sgpr)
{
    uint32_t n_src = in->format == F_VOP1 ? 1 : in->format == F_VOP3P || in->op < 0x300 ? 3 : 2;
    if (in->format == F_VOP1 && in->op == 0)
        return true;
    for (uint32_t i = 0; i < n_src; i++)
        if (!source_ready(w, in->src[i], 1))
            return false;
    return to_sgpr ? sgpr_ready(w, in->sdst, 1) : vgpr_ready(w, in->vdst, 1);
}

static bool check_valu(struct wave *w, const struct inst *in)
{
    if (in->format == F_VOPD)
        return operation_ready(w, in, &valu_ops[valu_dual_find(w->chip, in->op)->id], in->src, in->vdst) &&
               operation_ready(w, in, &valu_ops[valu_dual_find(w->chip, in->op_y)->id], in->src_y, in->vdst_y);
    if (in->format == F_VOP3P && in->op >= 0x40)
        return special_ready(w, in, false);
    const struct valu_op *op = valu_op_find(w->chip, (enum inst_format)in->format, in->op);
    if (op->lane)
        return operation_ready(w, in, op, in->src, in->vdst);
    return special_ready(w, in, op->run == valu_readlane || op->run == valu_readfirstlane || op->run == valu_s_trans);
}

/* A load's registers are filled later, in the order of its counter. */
static void load_started(struct wave *w, const struct inst *in, uint32_t n, bool lds, bool flat)
{
    struct strict *s = w->strict;
    enum counter c = lds ? C_LDS : C_LOAD;
    s->issued[c]++;
    if (flat)
        s->issued[C_LDS]++;
    for (uint32_t r = in->vdst; r < in->vdst + n; r++) {
        s->v_load[r][c] = s->issued[c];
        if (flat)
            s->v_load[r][C_LDS] = s->issued[C_LDS];
    }
}

static bool check_vmem(struct wave *w, const struct inst *in)
{
    bool atomic = strstr(in->name, "atomic"), store = strstr(in->name, "_store"), flat = in->format == F_FLAT;
    bool load = strstr(in->name, "_load") || (atomic && (in->th & 1)), addtid = strstr(in->name, "addtid");
    uint32_t n = name_dwords(in->name), n_addr = 1;
    if (!atomic && !store && !load)
        return true;
    if (in->format == F_SCRATCH)
        n_addr = in->sve;
    else if (in->format == F_BUFFER)
        n_addr = (uint32_t)in->idxen + in->offen;
    else
        n_addr = addtid ? 0 : in->saddr == OPND_NULL || flat ? 2 : 1;
    if (!vgpr_ready(w, in->addr, n_addr))
        return false;
    if (in->format == F_BUFFER ? !sgpr_ready(w, in->srsrc, 4)
                               : in->saddr != OPND_NULL && !flat && !sgpr_ready(w, in->saddr, 1))
        return false;
    if ((atomic || store) && !vgpr_ready(w, in->data, n * (strstr(in->name, "cmpswap") ? 2 : 1)))
        return false;
    if (load && !(flat ? vgpr_ready(w, in->vdst, n) : vgpr_loadable(w, in->vdst, n, C_LOAD)))
        return false;
    if (load)
        load_started(w, in, n, false, flat);
    return true;
}

static bool check_lds(struct wave *w, const struct inst *in)
{
    bool store = strstr(in->name, "_store"), load = !store || strstr(in->name, "rtn"),
         two = strstr(in->name, "2addr");
    bool exchange = strstr(in->name, "permute"), swizzle = strstr(in->name, "swizzle");
    bool plain_load = strstr(in->name, "_load") != NULL,
         counts = strstr(in->name, "append") || strstr(in->name, "consume");
    uint32_t n = name_dwords(in->name), one = two ? n / 2 : n;
    if (strstr(in->name, "nop"))
        return true;
    if (!store && !plain_load && !exchange && !swizzle && !counts)
        load = strstr(in->name, "rtn") != NULL;
    if (!counts && !strstr(in->name, "addtid") && !vgpr_ready(w, in->addr, 1))
        return false;
    if (!plain_load && !swizzle && !counts && !vgpr_ready(w, in->data, one))
        return false;
    if ((two && !plain_load) || strstr(in->name, "cmpstore") || strstr(in->name, "mskor"))
        if (!vgpr_ready(w, in->data1, one))
            return false;
    if (load && !vgpr_loadable(w, in->vdst, n, C_LDS))
        return false;
    if (load)
        load_started(w, in, n, true, false);
    else
        w->strict->issued[C_LDS]++;
    return true;
}

static bool check_smem(struct wave *w, const struct inst *in)
{
    struct strict *s = w->strict;
    if (!strstr(in->name, "load"))
        return true;
    uint32_t n = name_dwords(in->name);
    bool buffer = strstr(in->name, "buffer") != NULL;
    if (!sgpr_ready(w, in->srsrc, buffer ? 4 : 2) ||
        (in->soffset < 128 && in->soffset != OPND_NULL && !sgpr_ready(w, in->soffset, 1)) ||
        in->sdst + n > OPND_NULL || !sgpr_ready(w, in->sdst, n))
        return w->fault.kind == ISA_FAULT_NONE;
    s->issued[C_SCALAR]++;
    for (uint32_t i = in->sdst; i < in->sdst + n; i++)
        s->s_load[i] = s->issued[C_SCALAR];
    return known_smem(w, in, n);
}

static bool check_salu(struct wave *w, const struct inst *in)
{
    bool one = in->format == F_SOP1, none = in->format == F_SOPK, message = one && (in->op == 0x4c || in->op == 0x4d);
    if (!none && !message && !source_ready(w, in->src[0], 1))
        return false;
    if (!one && !none && !source_ready(w, in->src[1], 1))
        return false;
    return in->format == F_SOPC || in->sdst == OPND_NULL || sgpr_ready(w, in->sdst, 1);
}

bool strict_check(struct wave *w, const struct inst *in)
{
    if (in->format == F_SOPP || (in->format == F_SOPK && in->op >= SOPK_VMCNT - 1)) {
        note_wait(w, in);
        return known_salu(w, in);
    }
    switch (in->kind) {
    case K_VALU: return check_valu(w, in) && known_valu(w, in);
    case K_VMEM: return check_vmem(w, in) && known_vmem(w, in, name_dwords(in->name));
    case K_LDS: return check_lds(w, in) && known_lds(w, in, name_dwords(in->name));
    case K_SMEM: return check_smem(w, in);
    }
    return check_salu(w, in) && known_salu(w, in);
}
