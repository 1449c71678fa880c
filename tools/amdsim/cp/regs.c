/* Registers that a compute queue has: offsets from 0x2C00 (dwords), as in AMD's public register lists. */
#include <string.h>

#include "tools/amdsim/cp/state.h"

enum { REG_USER = 1, REG_GFX12 = 2 };

/* X(first offset, count, name, flags) */
#define REGS(X)                                                                                                      \
    X(0x200, 1, DISPATCH_INITIATOR, 0)          X(0x201, 3, DIM, REG_USER)                                           \
    X(0x204, 3, START, REG_USER)                X(0x207, 3, NUM_THREAD, REG_USER)                                    \
    X(0x20A, 1, PIPELINESTAT_ENABLE, REG_USER)  X(0x20B, 1, PERFCOUNT_ENABLE, REG_USER)                              \
    X(0x20C, 2, PGM_LO_HI, REG_USER)            X(0x20E, 2, DISPATCH_PKT_ADDR, REG_USER)                             \
    X(0x210, 2, DISPATCH_SCRATCH_BASE, REG_USER) X(0x212, 2, PGM_RSRC1_2, REG_USER)                                  \
    X(0x214, 1, VMID, 0)                        X(0x215, 1, RESOURCE_LIMITS, REG_USER)                               \
    X(0x216, 2, STATIC_THREAD_MGMT_SE0_1, REG_USER) X(0x218, 1, TMPRING_SIZE, REG_USER)                              \
    X(0x219, 2, STATIC_THREAD_MGMT_SE2_3, REG_USER) X(0x21B, 3, RESTART, REG_USER)                                   \
    X(0x21E, 1, THREAD_TRACE_ENABLE, REG_USER)  X(0x21F, 1, MISC_RESERVED, REG_USER)                                 \
    X(0x220, 1, DISPATCH_ID, REG_USER)          X(0x222, 1, REQ_CTRL, REG_USER)                                      \
    X(0x223, 1, STATIC_THREAD_MGMT_SE8, REG_USER | REG_GFX12) X(0x224, 4, USER_ACCUM, REG_USER)                      \
    X(0x228, 1, PGM_RSRC3, REG_USER)            X(0x22B, 4, STATIC_THREAD_MGMT_SE4_7, REG_USER)                      \
    X(0x22F, 1, DISPATCH_INTERLEAVE, REG_USER)  X(0x235, 3, PRESCALED_DIM, REG_USER | REG_GFX12)                     \
    X(0x240, 16, USER_DATA, REG_USER)           X(0x27D, 1, DISPATCH_TUNNEL, REG_USER)

static const struct reg {
    uint16_t off, count;
    const char *name;
    uint32_t flags;
} regs[] = {
#define X(off, count, name, flags) { off, count, "COMPUTE_" #name, flags },
    REGS(X)
#undef X
};

static const struct reg *reg_find(uint32_t off)
{
    for (uint32_t i = 0; i < sizeof regs / sizeof regs[0]; i++)
        if (off - regs[i].off < regs[i].count)
            return &regs[i];
    return NULL;
}

const char *reg_sh_name(const struct chip *c, uint32_t off)
{
    const struct reg *r = reg_find(off);
    return r && (c->gfx12 || !(r->flags & REG_GFX12)) ? r->name : NULL;
}

bool reg_sh_user(uint32_t off)
{
    const struct reg *r = reg_find(off);
    return r && r->flags & REG_USER;
}

/* What the driver puts in the queue's descriptor: all compute units may be used, everything else is 0. */
void reg_reset(struct cp_queue *q)
{
    static const uint16_t masks[] = {
        R_STATIC_THREAD_MGMT_SE0, R_STATIC_THREAD_MGMT_SE1, R_STATIC_THREAD_MGMT_SE2, R_STATIC_THREAD_MGMT_SE3,
        0x22B, 0x22C, 0x22D, 0x22E, 0x223,
    };
    memset(q->sh, 0, sizeof q->sh);
    memset(q->sh_set, 0, sizeof q->sh_set);
    for (uint32_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        q->sh[masks[i]] = 0xFFFFFFFFu;
}

/* What a ring of the driver's holds when a submission begins that others share it with: anything. Here no compute units
 * at all and words that no launch can mean, so that what a submission does not set itself is seen. */
void reg_foreign(struct cp_queue *q)
{
    memset(q->sh_set, 0, sizeof q->sh_set);
    for (uint32_t i = 0; i < CP_SH_COUNT; i++)
        q->sh[i] = reg_sh_user(i) && reg_sh_name(q->c->chip, i) ? 0x5EED5EEDu : 0;
    q->sh[R_STATIC_THREAD_MGMT_SE0] = q->sh[R_STATIC_THREAD_MGMT_SE1] = 0;
    q->sh[R_STATIC_THREAD_MGMT_SE2] = q->sh[R_STATIC_THREAD_MGMT_SE3] = 0;
}
