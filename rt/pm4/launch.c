/* A dispatch with its registers, all of them or those that changed. */
#include <stddef.h>
#include <string.h>

#include "rt/pm4/tables.h"

enum { STATE_FIRST = 0x2e00, LDS_GRANULE = 512, SCRATCH_GRANULE = 256 };

void pm4_state_forget(struct pm4_state *s)
{
    memset(s->known, 0, sizeof s->known);
}

static bool is_known(const struct pm4_state *s, uint32_t reg, uint32_t value)
{
    uint32_t i = reg - STATE_FIRST;
    return s->known[i / 64] >> i % 64 & 1 && s->value[i] == value;
}

static void learn(struct pm4_state *s, uint32_t reg, uint32_t value)
{
    uint32_t i = reg - STATE_FIRST;
    s->value[i] = value;
    s->known[i / 64] |= 1ull << i % 64;
}

static void unlearn(struct pm4_state *s, uint32_t reg, uint32_t n)
{
    for (uint32_t i = reg - STATE_FIRST; n-- > 0; i++)
        s->known[i / 64] &= ~(1ull << i % 64);
}

/* Sends what the state does not know of n consecutive registers. A header and an offset cost two dwords, so up to two
 * known registers are sent again where that joins two packets. */
static void send(struct pm4_buf *b, struct pm4_state *s, uint32_t reg, uint32_t n, const uint32_t *v)
{
    if (!s) {
        pm4_set_sh_reg(b, reg, n, v);
        return;
    }
    for (uint32_t i = 0; i < n;) {
        if (is_known(s, reg + i, v[i])) {
            i++;
            continue;
        }
        uint32_t end = i + 1; /* after the last register to send */
        for (uint32_t k = end; k < n && k <= end + 2; k++)
            if (!is_known(s, reg + k, v[k]))
                end = k + 1;
        pm4_set_sh_reg(b, reg + i, end - i, v + i);
        for (; i < end; i++)
            learn(s, reg + i, v[i]);
    }
}

static uint32_t reserved(enum pm4_gen gen, uint32_t reg)
{
    return pm4_reg_reserved(pm4_reg_find(gen, reg), gen);
}

static const char *launch_problem(enum pm4_gen gen, const struct pm4_launch *l)
{
    uint64_t threads = 1;
    if (l->entry % 256 || l->entry >> 48)
        return "launch: the entry is not a multiple of 256 below 2^48";
    if (l->rsrc1 & reserved(gen, PM4_REG_COMPUTE_PGM_RSRC1) || l->rsrc2 & reserved(gen, PM4_REG_COMPUTE_PGM_RSRC2) ||
        l->rsrc3 & reserved(gen, PM4_REG_COMPUTE_PGM_RSRC3))
        return "launch: reserved bits of PGM_RSRC1..3 are set: a descriptor of another generation?";
    if (l->lds_bytes > PM4_LDS_MAX_BYTES)
        return "launch: a work-group has at most 65536 bytes of LDS";
    if (l->n_user > PM4_MAX_USER || l->n_user > pm4_bits(l->rsrc2, 5, 1))
        return "launch: more user words than the kernel has user SGPRs";
    if (l->patched & ~(uint32_t)PM4_PATCHED_USER)
        return "launch: unknown flags in patched";
    if (l->scratch % SCRATCH_GRANULE || l->scratch >> 48)
        return "launch: scratch is not a multiple of 256 below 2^48";
    if (l->tmpring & reserved(gen, PM4_REG_COMPUTE_TMPRING_SIZE))
        return "launch: reserved bits of TMPRING_SIZE are set";
    if (pm4_bits(l->rsrc2, 0, 0) && (!l->scratch || !l->tmpring))
        return "launch: the kernel uses scratch, but there is none";
    for (int i = 0; i < 3; i++) {
        if (l->threads[i] < 1 || (threads *= l->threads[i]) > PM4_MAX_THREADS)
            return "launch: a work-group has 1 to 1024 threads";
        if (!l->groups_va && l->groups[i] < 1)
            return "launch: no work-groups";
    }
    if (l->groups_va % 4 || l->groups_va >> 48)
        return "launch: the address of the group counts is not a multiple of 4 below 2^48";
    return NULL;
}

/* The user words; where they begin, if all of them are there to be patched. */
static uint32_t send_user(struct pm4_buf *b, struct pm4_state *s, const struct pm4_launch *l)
{
    uint32_t before = b->n;
    bool patched = l->patched & PM4_PATCHED_USER;
    if (l->n_user == 0)
        return PM4_NOT_SENT;
    if (s && patched)
        unlearn(s, PM4_REG_COMPUTE_USER_DATA_0, l->n_user);
    send(b, s, PM4_REG_COMPUTE_USER_DATA_0, l->n_user, l->user);
    if (s && patched)
        unlearn(s, PM4_REG_COMPUTE_USER_DATA_0, l->n_user);
    return b->n - before == PM4_DW_SET_REG + l->n_user ? before + PM4_AT_SET_REG_VALUE : PM4_NOT_SENT;
}

static void send_registers(struct pm4_buf *b, struct pm4_state *s, const struct pm4_launch *l, uint32_t *user_at)
{
    uint32_t lds = (l->lds_bytes + LDS_GRANULE - 1) / LDS_GRANULE;
    uint32_t rsrc2 = l->rsrc2 & ~PM4_PLACE(COMPUTE_PGM_RSRC2, LDS_SIZE, 0x1ff);
    const uint32_t pgm[] = { (uint32_t)(l->entry >> 8), (uint32_t)(l->entry >> 40) };
    const uint32_t rsrc[] = { l->rsrc1, rsrc2 | PM4_PLACE(COMPUTE_PGM_RSRC2, LDS_SIZE, lds) };
    const uint32_t scratch[] = { (uint32_t)(l->scratch >> 8), (uint32_t)(l->scratch >> 40) };
    const uint32_t zeros[3] = { 0 };
    const uint32_t start[] = { 0, 0, 0, l->threads[0], l->threads[1], l->threads[2], 0, 0 };
    send(b, s, PM4_REG_COMPUTE_PGM_LO, 2, pgm);
    send(b, s, PM4_REG_COMPUTE_PGM_RSRC1, 2, rsrc);
    send(b, s, PM4_REG_COMPUTE_PGM_RSRC3, 1, &l->rsrc3);
    send(b, s, PM4_REG_COMPUTE_TMPRING_SIZE, 1, &l->tmpring);
    send(b, s, PM4_REG_COMPUTE_DISPATCH_SCRATCH_BASE_LO, 2, scratch);
    send(b, s, PM4_REG_COMPUTE_RESTART_X, 3, zeros);
    *user_at = send_user(b, s, l);
    send(b, s, PM4_REG_COMPUTE_RESOURCE_LIMITS, 1, zeros);
    send(b, s, PM4_REG_COMPUTE_START_X, 8, start); /* START, NUM_THREAD, and no statistics */
}

void pm4_launch(struct pm4_buf *b, struct pm4_state *s, const struct pm4_launch *l, struct pm4_launch_at *at)
{
    struct pm4_launch_at where = { PM4_NOT_SENT, PM4_NOT_SENT };
    uint32_t before = b->n;
    const char *why = b->rc ? NULL : launch_problem(b->gen, l);
    if (why) {
        b->rc = -EINVAL;
        b->why = why;
    }
    send_registers(b, s, l, &where.user);
    where.dispatch = b->n;
    if (l->groups_va)
        pm4_dispatch_indirect(b, l->groups_va, PM4_INITIATOR(l->wave32));
    else
        pm4_dispatch_direct(b, l->groups[0], l->groups[1], l->groups[2], PM4_INITIATOR(l->wave32));
    if (b->rc) { /* a launch is written whole or not at all */
        b->n = before;
        where = (struct pm4_launch_at){ PM4_NOT_SENT, PM4_NOT_SENT };
        if (s)
            pm4_state_forget(s);
    }
    if (at)
        *at = where;
}

uint32_t pm4_tmpring(enum pm4_gen gen, uint32_t waves, uint64_t wave_bytes)
{
    uint64_t units = wave_bytes / SCRATCH_GRANULE + (wave_bytes % SCRATCH_GRANULE != 0);
    if (waves < 1 || waves > 0xfff || units < 1 || units > (gen == PM4_GFX11 ? 0x7fffu : 0x3ffffu))
        return 0;
    return PM4_PLACE(COMPUTE_TMPRING_SIZE, WAVES, waves) | PM4_PLACE(COMPUTE_TMPRING_SIZE, WAVESIZE, units);
}
