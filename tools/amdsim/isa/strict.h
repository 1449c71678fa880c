/* tools/amdsim/isa/strict.h: private to the checks of strict launches
 * Two questions, asked before each instruction:
 *
 *   strict.c   is a register touched that a load is still to fill?
 *   known*.c   is a value used that nothing has ever written?
 *
 * Compilers copy, spill and even compute with registers that hold nothing, as long as the result does not matter, so
 * reading one is no mistake. What is unknown therefore travels: through moves and arithmetic (a result is unknown in
 * lanes and bits where an operand was, see known_bits.h), through LDS and scratch, into lane masks bit by bit. It
 * is a finding where it decides something:
 *
 *   an address; a value stored to memory that others see, or given to an atomic; a bit of EXEC; a branch; a lane
 *   number of v_readlane.
 *
 * A register of halves counts as one value: writing one half makes it known. Data in memory that others see is the
 * watch's (isa.h): what a load brings from there is known. */
#ifndef AMDSIM_ISA_STRICT_H
#define AMDSIM_ISA_STRICT_H

#include "tools/amdsim/isa/group.h"

/* Loads that are counted together. RDNA3 counts LDS and scalar loads with one counter; both wait for it then. */
enum counter { C_LOAD, C_LDS, C_SCALAR, N_COUNTERS };

/* What of a register is not known. SGPR: bits. VGPR: bits has the lanes, part the bits of these that may be unknown
 * in one of them. from: where the first read of something never written was; 0: this itself was never written. */
struct unknown {
    uint32_t bits, part;
    gva from;
};

struct strict {
    uint64_t issued[N_COUNTERS], done[N_COUNTERS]; /* loads so far; up to which one they have arrived */
    uint64_t v_load[256 + WAVE_SLACK][2];          /* FLAT loads count as C_LOAD and as C_LDS         */
    uint64_t s_load[144];
    struct unknown v[256 + WAVE_SLACK], s[144], scc;
    struct unknown *scratch; /* a dword of every lane; n_scratch of them; NULL while scratch is not used */
    uint32_t n_scratch;
};

static inline struct unknown unknown_or(struct unknown a, struct unknown b)
{
    uint32_t part = (a.bits ? a.part : 0) | (b.bits ? b.part : 0);
    return (struct unknown){ a.bits | b.bits, part, a.bits ? a.from : b.from };
}
/* An SGPR for all lanes; a scalar of which every bit is unknown when one is. */
static inline struct unknown unknown_lanes(struct unknown u)
{
    return (struct unknown){ u.bits ? ~0u : 0, u.bits, u.from };
}
static inline struct unknown unknown_all(struct unknown u)
{
    return (struct unknown){ u.bits ? ~0u : 0, ~0u, u.from };
}
/* `mask` of d becomes what u says. */
static inline void unknown_put(const struct wave *w, struct unknown *d, uint32_t mask, struct unknown u)
{
    d->part = d->bits & ~mask ? d->part : 0;
    if (u.bits & mask) {
        d->from = u.from ? u.from : w->at;
        d->part |= u.part;
    }
    d->bits = (d->bits & ~mask) | (u.bits & mask);
}

/* A scalar operand, or the pair that begins there. VGPRs and constants: known. */
struct unknown known_scalar(const struct wave *w, uint32_t code, bool pair);
/* A scalar register gets a new value; EXEC must not be unknown: false, the wave has a fault. */
bool known_set(struct wave *w, uint32_t code, struct unknown u);
/* The finding: `what` is made of something that nothing has written. Returns false. */
bool known_fault(struct wave *w, const char *what, struct unknown u);

/* What an instruction does to what is known; false: the wave has a fault. */
bool known_valu(struct wave *w, const struct inst *in);
bool known_salu(struct wave *w, const struct inst *in);
/* n: dwords of a lane. */
bool known_vmem(struct wave *w, const struct inst *in, uint32_t n);
bool known_lds(struct wave *w, const struct inst *in, uint32_t n);
bool known_smem(struct wave *w, const struct inst *in, uint32_t n);

#endif
