/* Program control: branches, calls, barriers, messages, hardware registers, hints (SOPP, and what SOP1 and SOPK
 * have of it). Numbers of hardware registers and messages: LLVM, SIDefines.h; RDNA3 and RDNA4 ISA guides. */
#include "tools/amdsim/isa/salu.h"

#include <stddef.h>

static void jump_if(struct wave *w, const struct inst *in, bool condition)
{
    if (condition)
        w->pc += (uint64_t)((int64_t)in->simm * 4);
}

static void jump_to(struct wave *w, gva to)
{
    w->pc = to & 0xffffffffffff;
}

static void swappc(struct wave *w, const struct inst *in)
{
    uint64_t to = s_get64(w, in, in->src[0]);
    s_set64(w, in->sdst, w->pc);
    jump_to(w, to);
}

/* Others get their turn; memory may have changed when this wave goes on. */
static void give_turn(struct wave *w)
{
    w->stop = true;
    w->sleeps = true;
}

/* -1: the work-group's barrier, -2: the trap handler's. Negative: the wave has a fault. */
static int barrier_of(struct wave *w, int32_t id)
{
    if (id == -1 || id == -2)
        return id == -1 ? BARRIER_GROUP : BARRIER_TRAP;
    wave_fault(w, ISA_FAULT_ILLEGAL, "barrier %d: %s has -1 and -2, no named ones", id, w->chip->name);
    return -1;
}

static int barrier_operand(struct wave *w, const struct inst *in)
{
    int32_t id = (int32_t)s_get(w, in, in->src[0]);
    return barrier_of(w, in->src[0] == OPND_M0 ? id & 31 : id);
}

static void barrier_arrive(struct wave *w, const struct inst *in, bool tells_first)
{
    int b = barrier_operand(w, in);
    if (b < 0)
        return;
    if (tells_first)
        w->scc = w->g->barrier[b].signalled == 0;
    barrier_signal(w, (uint32_t)b);
}

static void barrier_pass(struct wave *w, int32_t id)
{
    int b = barrier_of(w, id);
    if (b >= 0)
        barrier_wait(w, (uint32_t)b);
}

static void barrier_state(struct wave *w, const struct inst *in)
{
    int b = barrier_operand(w, in);
    if (b < 0)
        return;
    uint32_t signals = (uint32_t)__builtin_popcount(w->g->barrier[b].signalled);
    uint32_t members = w->g->n_waves - (uint32_t)__builtin_popcount(w->g->ended);
    s_set(w, in->sdst, signals << 16 | members << 4 | 1);
}

static void barrier_both(struct wave *w)
{
    barrier_signal(w, BARRIER_GROUP);
    if (w->fault.kind == ISA_FAULT_NONE)
        barrier_wait(w, BARRIER_GROUP);
}

enum { MSG_DEALLOC_VGPRS = 3 };
static void send(struct wave *w, const struct inst *in)
{
    uint32_t id = in->simm & 0xff;
    if (id != MSG_DEALLOC_VGPRS)
        wave_fault(w, ISA_FAULT_ILLEGAL, "message %u has no receiver here (known: 3, dealloc_vgprs)", id);
}

/* The answer of messages that return one. */
static uint64_t answer(struct wave *w, const struct inst *in)
{
    enum { RTN_DOORBELL = 0x80, RTN_DDID, RTN_TMA, RTN_REALTIME, RTN_SAVE_WAVE, RTN_TBA, RTN_TBA_TO_PC, RTN_SE_AID };
    uint32_t id = in->src[0]; /* the field is the number itself */
    switch (id) {
    case RTN_REALTIME:
        return w->g->l->clock ? w->g->l->clock() : 0;
    case RTN_DOORBELL: case RTN_DDID: case RTN_TMA: case RTN_TBA: case RTN_SE_AID:
        return 0;
    }
    wave_fault(w, ISA_FAULT_ILLEGAL, "message 0x%x with an answer is not known", id);
    return 0;
}

enum hwreg {
    HW_MODE = 1, HW_STATUS, HW_TRAPSTS, HW_STATE_PRIV, HW_GPR_ALLOC, HW_LDS_ALLOC, HW_IB_STS, HW_MEM_BASES = 15,
    HW_EXCP_FLAG_PRIV = 17, HW_EXCP_FLAG_USER, HW_TRAP_CTRL, HW_SCRATCH_LO, HW_SCRATCH_HI, HW_ID1 = 23, HW_ID2,
    HW_CYCLES = 29, HW_CYCLES_HI
};

/* False: the chip has no such register. */
static bool hwreg_read(const struct wave *w, uint32_t id, uint32_t *v)
{
    uint64_t insts = 0;
    *v = 0;
    switch (id) {
    case HW_MODE:
        *v = w->mode;
        return true;
    case HW_STATUS:
        *v = w->scc | (w->s[OPND_EXEC] == 0) << 9 | (w->s[OPND_VCC] == 0) << 10;
        return true;
    case HW_TRAPSTS: case HW_IB_STS: case HW_ID2:
    case HW_EXCP_FLAG_PRIV: case HW_EXCP_FLAG_USER: case HW_TRAP_CTRL:
        return true;
    case HW_STATE_PRIV:
        return w->chip->gfx12;
    case HW_GPR_ALLOC:
        *v = (w->n_vgpr / 8 - 1) << 12;
        return true;
    case HW_LDS_ALLOC:
        *v = w->g->lds_bytes / 512 << 12;
        return true;
    case HW_MEM_BASES: /* upper 16 bits of the apertures: scratch, LDS */
        *v = 2 | 1 << 16;
        return !w->chip->gfx12;
    case HW_SCRATCH_LO:
        *v = (uint32_t)w->scratch;
        return true;
    case HW_SCRATCH_HI:
        *v = (uint32_t)(w->scratch >> 32);
        return true;
    case HW_ID1:
        *v = w->index & 31;
        return true;
    case HW_CYCLES: case HW_CYCLES_HI: /* instructions instead of cycles: they only grow too */
        for (int k = 0; k < K_COUNT; k++)
            insts += w->tally[k];
        *v = id == HW_CYCLES_HI ? (uint32_t)(insts >> 32) : (uint32_t)insts & (w->chip->gfx12 ? ~0u : 0xfffff);
        return id == HW_CYCLES || w->chip->gfx12;
    }
    return false;
}

struct hwreg_field {
    uint32_t id, off, mask;
};
static struct hwreg_field hwreg_field(const struct inst *in)
{
    uint32_t x = (uint32_t)in->simm, width = (x >> 11 & 31) + 1;
    return (struct hwreg_field){ x & 63, x >> 6 & 31, width >= 32 ? ~0u : (1u << width) - 1 };
}

static void getreg(struct wave *w, const struct inst *in)
{
    struct hwreg_field f = hwreg_field(in);
    uint32_t v;
    if (hwreg_read(w, f.id, &v))
        s_set(w, in->sdst, v >> f.off & f.mask);
    else
        wave_fault(w, ISA_FAULT_ILLEGAL, "%s has no hardware register %u that a wave can read", w->chip->name, f.id);
}

/* Of those that a wave may write, MODE alone has an effect here. */
static void setreg(struct wave *w, const struct inst *in, uint32_t v)
{
    struct hwreg_field f = hwreg_field(in);
    uint32_t old;
    if (f.id == HW_MODE)
        w->mode = (w->mode & ~(f.mask << f.off)) | (v & f.mask) << f.off;
    else if (!hwreg_read(w, f.id, &old))
        wave_fault(w, ISA_FAULT_ILLEGAL, "%s has no hardware register %u", w->chip->name, f.id);
}

#define FAULT(kind, ...) wave_fault(w, kind, __VA_ARGS__)
#define NOTHING (void)w

#define PROGRAM_OPS(X)                                                                                                 \
    X(F_SOPP, 0x00, OP_ALL, nop, NOTHING)                                                                              \
    X(F_SOPP, 0x01, OP_ALL, setkill, if (in->simm & 1) wave_end(w))                                                    \
    X(F_SOPP, 0x02, OP_ALL, sethalt,                                                                                   \
      if (in->simm & 1) FAULT(ISA_FAULT_TRAP, "the wave halts, and nobody resumes it"))                                \
    X(F_SOPP, 0x03, OP_ALL, sleep, give_turn(w))                                                                       \
    X(F_SOPP, 0x04, OP_GFX11, set_inst_prefetch_distance, NOTHING)                                                     \
    X(F_SOPP, 0x05, OP_ALL, clause, NOTHING)                                                                           \
    X(F_SOPP, 0x07, OP_ALL, delay_alu, NOTHING)                                                                        \
    X(F_SOPP, 0x08, OP_GFX11, waitcnt_depctr, NOTHING)                                                                 \
    X(F_SOPP, 0x08, OP_GFX12, wait_alu, NOTHING)                                                                       \
    X(F_SOPP, 0x09, OP_ALL, waitcnt, NOTHING)                                                                          \
    X(F_SOPP, 0x0a, OP_ALL, wait_idle, NOTHING)                                                                        \
    X(F_SOPP, 0x0b, OP_ALL, wait_event, NOTHING)                                                                       \
    X(F_SOPP, 0x10, OP_ALL, trap, FAULT(ISA_FAULT_TRAP, "trap %d", in->simm & 255))                                    \
    X(F_SOPP, 0x11, OP_ALL, round_mode, w->mode = (w->mode & ~15u) | (in->simm & 15u))                                 \
    X(F_SOPP, 0x12, OP_ALL, denorm_mode, w->mode = (w->mode & ~0xf0u) | (in->simm & 15u) << 4)                         \
    X(F_SOPP, 0x13, OP_FLOAT, singleuse_vdst, NOTHING)                                                                 \
    X(F_SOPP, 0x14, OP_GFX12, barrier_wait,                                                                            \
      barrier_pass(w, in->simm))                                                                                       \
    X(F_SOPP, 0x15, OP_GFX12, barrier_leave, w->scc = 0)                                                               \
    X(F_SOPP, 0x1f, OP_ALL, code_end, FAULT(ISA_FAULT_ILLEGAL, "execution runs past the end of the code"))             \
    X(F_SOPP, 0x20, OP_ALL, branch, jump_if(w, in, true))                                                              \
    X(F_SOPP, 0x21, OP_ALL, cbranch_scc0, jump_if(w, in, !w->scc))                                                     \
    X(F_SOPP, 0x22, OP_ALL, cbranch_scc1, jump_if(w, in, w->scc))                                                      \
    X(F_SOPP, 0x23, OP_ALL, cbranch_vccz, jump_if(w, in, w->s[OPND_VCC] == 0))                                         \
    X(F_SOPP, 0x24, OP_ALL, cbranch_vccnz, jump_if(w, in, w->s[OPND_VCC] != 0))                                        \
    X(F_SOPP, 0x25, OP_ALL, cbranch_execz, jump_if(w, in, w->s[OPND_EXEC] == 0))                                       \
    X(F_SOPP, 0x26, OP_ALL, cbranch_execnz, jump_if(w, in, w->s[OPND_EXEC] != 0))                                      \
    X(F_SOPP, 0x27, OP_GFX11, cbranch_cdbgsys, NOTHING)                                                                \
    X(F_SOPP, 0x28, OP_GFX11, cbranch_cdbguser, NOTHING)                                                               \
    X(F_SOPP, 0x29, OP_GFX11, cbranch_cdbgsys_or_user, NOTHING)                                                        \
    X(F_SOPP, 0x2a, OP_GFX11, cbranch_cdbgsys_and_user, NOTHING)                                                       \
    X(F_SOPP, 0x30, OP_ALL, endpgm, wave_end(w))                                                                       \
    X(F_SOPP, 0x31, OP_ALL, endpgm_saved, wave_end(w))                                                                 \
    X(F_SOPP, 0x34, OP_ALL, wakeup, NOTHING)                                                                           \
    X(F_SOPP, 0x35, OP_ALL, setprio, NOTHING)                                                                          \
    X(F_SOPP, 0x36, OP_ALL, sendmsg, send(w, in))                                                                      \
    X(F_SOPP, 0x38, OP_ALL, incperflevel, NOTHING)                                                                     \
    X(F_SOPP, 0x39, OP_ALL, decperflevel, NOTHING)                                                                     \
    X(F_SOPP, 0x3a, OP_ALL, ttracedata, NOTHING)                                                                       \
    X(F_SOPP, 0x3b, OP_ALL, ttracedata_imm, NOTHING)                                                                   \
    X(F_SOPP, 0x3c, OP_ALL, icache_inv, NOTHING)                                                                       \
    X(F_SOPP, 0x3d, OP_GFX11, barrier, barrier_both(w))                                                                \
    X(F_SOPP, 0x40, OP_GFX12, wait_loadcnt, NOTHING)                                                                   \
    X(F_SOPP, 0x41, OP_GFX12, wait_storecnt, NOTHING)                                                                  \
    X(F_SOPP, 0x42, OP_GFX12, wait_samplecnt, NOTHING)                                                                 \
    X(F_SOPP, 0x43, OP_GFX12, wait_bvhcnt, NOTHING)                                                                    \
    X(F_SOPP, 0x44, OP_GFX12, wait_expcnt, NOTHING)                                                                    \
    X(F_SOPP, 0x46, OP_GFX12, wait_dscnt, NOTHING)                                                                     \
    X(F_SOPP, 0x47, OP_GFX12, wait_kmcnt, NOTHING)                                                                     \
    X(F_SOPP, 0x48, OP_GFX12, wait_loadcnt_dscnt, NOTHING)                                                             \
    X(F_SOPP, 0x49, OP_GFX12, wait_storecnt_dscnt, NOTHING)                                                            \
    X(F_SOP1, 0x47, OP_ALL, getpc_b64, s_set64(w, in->sdst, w->pc))                                                    \
    X(F_SOP1, 0x48, OP_ALL, setpc_b64, jump_to(w, s_get64(w, in, in->src[0])))                                         \
    X(F_SOP1, 0x49, OP_ALL, swappc_b64, swappc(w, in))                                                                 \
    X(F_SOP1, 0x4c, OP_ALL, sendmsg_rtn_b32, s_set(w, in->sdst, (uint32_t)answer(w, in)))                              \
    X(F_SOP1, 0x4d, OP_ALL, sendmsg_rtn_b64, s_set64(w, in->sdst, answer(w, in)))                                      \
    X(F_SOP1, 0x4e, OP_GFX12, barrier_signal,                                                                          \
      barrier_arrive(w, in, false))                                                                                    \
    X(F_SOP1, 0x4f, OP_GFX12, barrier_signal_isfirst,                                                                  \
      barrier_arrive(w, in, true))                                                                                     \
    X(F_SOP1, 0x50, OP_GFX12, get_barrier_state, barrier_state(w, in))                                                 \
    X(F_SOP1, 0x58, OP_GFX12, sleep_var, give_turn(w))                                                                 \
    X(F_SOPK, 0x11, OP_ALL, getreg_b32, getreg(w, in))                                                                 \
    X(F_SOPK, 0x12, OP_ALL, setreg_b32, setreg(w, in, w->s[in->sdst]))                                                 \
    X(F_SOPK, 0x13, OP_ALL, setreg_imm32_b32, setreg(w, in, in->literal))                                              \
    X(F_SOPK, 0x14, OP_ALL, call_b64, s_set64(w, in->sdst, w->pc); jump_if(w, in, true))                               \
    X(F_SOPK, 0x18, OP_GFX11, waitcnt_vscnt, NOTHING)                                                                  \
    X(F_SOPK, 0x19, OP_GFX11, waitcnt_vmcnt, NOTHING)                                                                  \
    X(F_SOPK, 0x1a, OP_GFX11, waitcnt_expcnt, NOTHING)                                                                 \
    X(F_SOPK, 0x1b, OP_GFX11, waitcnt_lgkmcnt, NOTHING)

PROGRAM_OPS(OP_FUNCTION)
const struct salu_op program_ops[] = { PROGRAM_OPS(OP_ENTRY) { .run = NULL } };
