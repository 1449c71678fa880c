/* Work-groups: what a wave finds at its first instruction, and who runs when.
 * Registers: LLVM, AMDGPUUsage.rst "Initial Kernel Execution State"; COMPUTE_PGM_RSRC* and TMPRING_SIZE as the
 * compiler's kernel descriptor and PM4 packets fill them. */
#include "tools/amdsim/isa/group.h"

#include <stdlib.h>
#include <string.h>

enum { TTMP7 = OPND_TTMP + 7, TTMP8 = OPND_TTMP + 8, TTMP9 = OPND_TTMP + 9 };
enum { POISON = 0xa5, TURN_INSTS = 8192 };

static inline uint32_t field(uint32_t x, int hi, int lo) { return x >> lo & ((2u << (hi - lo)) - 1); }

struct sizes {
    uint32_t size[3], n_threads, n_waves, n_vgpr, lds_bytes;
    uint64_t waves_off, vgpr_off, lds_off, written_off, bytes;
};

static struct sizes sizes_of(const struct isa_launch *l, const uint32_t id[3])
{
    struct sizes z = { .n_threads = 1 };
    for (int d = 0; d < 3; d++) {
        z.size[d] = id[d] + 1 == l->groups[d] && l->partial[d] ? l->partial[d] : l->threads[d];
        z.n_threads *= z.size[d];
    }
    z.n_waves = (z.n_threads + WAVE_LANES - 1) / WAVE_LANES;
    z.n_vgpr = (field(l->rsrc1, 5, 0) + 1) * 8;
    if (z.n_vgpr > 256)
        z.n_vgpr = 256;
    z.lds_bytes = field(l->rsrc2, 23, 15) * 512;
    uint64_t waves = z.n_waves <= GROUP_WAVES_MAX ? z.n_waves : 0;
    z.waves_off = (sizeof(struct isa_group) + 63) & ~(uint64_t)63;
    z.vgpr_off = (z.waves_off + waves * sizeof(struct wave) + 63) & ~(uint64_t)63;
    z.lds_off = z.vgpr_off + waves * (z.n_vgpr + WAVE_SLACK) * sizeof(uint32_t[WAVE_LANES]);
    z.written_off = z.lds_off + z.lds_bytes + LDS_SLACK;
    z.bytes = z.written_off + (l->strict ? z.lds_bytes + LDS_SLACK : 0);
    return z;
}

/* v0: x, y and z of the work-item in ten bits each; EXEC: the lanes that have a work-item. */
static void set_lanes(struct wave *w, const struct sizes *z, uint32_t components)
{
    uint32_t first = w->index * WAVE_LANES, exec = 0;
    for (uint32_t l = 0; l < WAVE_LANES && first + l < z->n_threads; l++) {
        uint32_t i = first + l, x = i % z->size[0], y = i / z->size[0] % z->size[1], zz = i / z->size[0] / z->size[1];
        w->v[0][l] = x | (components > 0 ? y << 10 : 0) | (components > 1 ? zz << 20 : 0);
        exec |= 1u << l;
    }
    w->s[OPND_EXEC] = exec;
    w->s[OPND_EXEC + 1] = 0;
}

static void set_scalars(struct wave *w, const struct isa_launch *l, const uint32_t id[3])
{
    uint32_t n = field(l->rsrc2, 5, 1), tgid = field(l->rsrc2, 9, 7);
    n = n > 16 ? 16 : n;
    memcpy(w->s, l->user_data, n * 4);
    if (l->chip->gfx12) {
        if (tgid & 1)
            w->s[TTMP9] = id[0];
        w->s[TTMP7] = (tgid & 2 ? id[1] & 0xffff : 0) | (tgid & 4 ? id[2] << 16 : 0);
        w->s[TTMP8] = w->index << 25;
    } else {
        for (int d = 0; d < 3; d++)
            if (tgid >> d & 1)
                w->s[n++] = id[d];
        if (field(l->rsrc2, 10, 10)) /* TG_SIZE_EN: waves of the group, this one's number, whether it is the first */
            w->s[n++] = w->g->n_waves | w->index << 6 | (w->index == 0 ? 1u << 31 : 0);
    }
    w->s[OPND_NULL] = 0;
}

static void wave_init(struct wave *w, const struct isa_launch *l, const struct sizes *z, uint32_t scratch_slot)
{
    const uint32_t *id = w->g->id;
    memset(w->s, POISON, sizeof w->s);
    memset(w->v, POISON, (z->n_vgpr + WAVE_SLACK) * sizeof w->v[0]);
    w->n_vgpr = z->n_vgpr;
    w->chip = l->chip;
    w->pc = w->at = l->entry;
    w->page_va = ~(gva)0 << VM_PAGE_SHIFT;
    w->mode = field(l->rsrc1, 19, 12) | field(l->rsrc1, 26, 26) << 23;
    if (!l->chip->gfx12)
        w->mode |= field(l->rsrc1, 21, 21) << 8 | field(l->rsrc1, 23, 23) << 9;
    set_lanes(w, z, field(l->rsrc2, 12, 11));
    set_scalars(w, l, id);
    memcpy(w->fault.group, id, sizeof w->fault.group);
    if (l->rsrc2 & 1) { /* SCRATCH_EN */
        uint64_t bytes = (uint64_t)field(l->tmpring, l->chip->gfx12 ? 29 : 26, 12) * 256;
        uint32_t slot = scratch_slot + w->index;
        w->scratch = l->scratch_base + slot * bytes;
        w->scratch_bytes = slot < l->scratch_waves ? bytes : 0;
    }
    if (l->strict)
        w->strict = strict_create(l);
}

struct isa_group *isa_group_create(const struct isa_launch *l, const uint32_t id[3], uint32_t scratch_slot)
{
    struct sizes z = sizes_of(l, id);
    struct isa_group *g = code_block_get(l->code, z.bytes);
    if (!g)
        return NULL;
    uint64_t block_bytes = g->block_bytes;
    uint8_t *base = (uint8_t *)g;
    memset(g, 0, sizeof *g);
    g->block_bytes = block_bytes;
    g->l = l;
    memcpy(g->id, id, sizeof g->id);
    g->n_threads = z.n_threads;
    g->lds_bytes = z.lds_bytes;
    g->lds = base + z.lds_off;
    memcpy(g->fault.group, id, sizeof g->id);
    const char *why = !l->wave32 ? "the launch asks for wave64; amdsim runs wave32 only"
        : z.n_waves > GROUP_WAVES_MAX || z.n_waves == 0 ? "a work-group has 1 to 1024 work-items"
        : z.lds_bytes > LDS_MAX ? "a work-group has at most 64 KiB of LDS" : NULL;
    if (why) {
        g->fault.kind = ISA_FAULT_ILLEGAL;
        g->fault.pc = l->entry;
        strncpy(g->fault.text, why, sizeof g->fault.text - 1);
        return g;
    }
    g->n_waves = z.n_waves;
    g->w = (struct wave *)(base + z.waves_off);
    memset(g->w, 0, z.n_waves * sizeof *g->w);
    memset(g->lds, POISON, z.lds_bytes + LDS_SLACK);
    if (l->strict) {
        g->lds_written = base + z.written_off;
        memset(g->lds_written, 0, z.lds_bytes + LDS_SLACK);
    }
    for (uint32_t i = 0; i < z.n_waves; i++) {
        struct wave *w = &g->w[i];
        w->v = (uint32_t(*)[WAVE_LANES])(base + z.vgpr_off) + (uint64_t)i * (z.n_vgpr + WAVE_SLACK);
        w->g = g;
        w->index = i;
        wave_init(w, l, &z, scratch_slot);
    }
    return g;
}

/* The next wave that can go on, in turn; NULL: none can. */
static struct wave *next_ready(struct isa_group *g)
{
    for (uint32_t k = 0; k < g->n_waves; k++) {
        struct wave *w = &g->w[(g->next + k) % g->n_waves];
        if (w->status == WAVE_READY) {
            g->next = (w->index + 1) % g->n_waves;
            return w;
        }
    }
    return NULL;
}

/* Those who wait, wait for waves that wait for something else. */
static enum isa_status deadlock(struct isa_group *g)
{
    uint32_t i = 0;
    while (g->w[i].status != WAVE_AT_BARRIER)
        i++;
    struct wave *w = &g->w[i];
    const struct barrier *b = g->barrier;
    wave_fault(
        w, ISA_FAULT_BARRIER,
        "the waves wait for ever: of %u, mask %x ended, %x signalled barrier -1 and %x wait for it, %x signalled "
        "barrier -2 and %x wait for it",
        g->n_waves, g->ended, b[0].signalled, b[0].waiting, b[1].signalled, b[1].waiting);
    g->fault = w->fault;
    return ISA_FAULT;
}

static uint32_t n_ready(const struct isa_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_waves; i++)
        n += g->w[i].status == WAVE_READY;
    return n;
}

void isa_group_deadlock(struct isa_group *g, const char *why)
{
    struct wave *w = next_ready(g);
    wave_fault(w ? w : g->w, ISA_FAULT_DEADLOCK, "%s", why);
    g->fault = (w ? w : g->w)->fault;
}

bool isa_group_waits(const struct isa_group *g)
{
    return g->waits;
}

enum isa_status isa_group_run(struct isa_group *g, uint64_t budget)
{
    uint32_t asleep = 0; /* turns in a row that ended in s_sleep */
    g->stored = g->waits = false;
    while (g->fault.kind == ISA_FAULT_NONE && budget > 0) {
        struct wave *w = next_ready(g);
        if (!w && (g->ended == (g->n_waves >= 32 ? ~0u : (1u << g->n_waves) - 1)))
            return ISA_DONE;
        if (!w)
            return deadlock(g);
        uint64_t n = wave_run(w, budget < TURN_INSTS ? budget : TURN_INSTS);
        budget -= n;
        if (n == 0 && w->fault.kind == ISA_FAULT_NONE)
            budget--;
        if (w->fault.kind != ISA_FAULT_NONE)
            g->fault = w->fault;
        asleep = w->sleeps ? asleep + 1 : 0;
        if (asleep && asleep >= 2 * n_ready(g)) { /* other groups may do what these look for */
            g->waits = !g->stored;
            break;
        }
    }
    if (g->fault.kind != ISA_FAULT_NONE)
        return ISA_FAULT;
    return g->ended == (g->n_waves >= 32 ? ~0u : (1u << g->n_waves) - 1) ? ISA_DONE : ISA_MORE;
}

const struct isa_fault *isa_group_fault(const struct isa_group *g)
{
    return &g->fault;
}

void isa_group_counts(const struct isa_group *g, struct isa_counts *to)
{
    for (uint32_t i = 0; i < g->n_waves; i++) {
        const uint64_t *t = g->w[i].tally;
        for (int k = 0; k < K_COUNT; k++)
            to->insts += t[k];
        to->valu += t[K_VALU];
        to->salu += t[K_SALU];
        to->vmem += t[K_VMEM];
        to->smem += t[K_SMEM];
        to->lds += t[K_LDS];
        to->branches += t[K_BRANCH];
    }
    to->waves += g->n_waves;
}

void isa_group_destroy(struct isa_group *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n_waves; i++)
        strict_destroy(g->w[i].strict);
    code_block_put(g->l->code, g);
}
