/* Barriers of a work-group. */
#include "tools/amdsim/isa/group.h"

static uint32_t all_waves(const struct isa_group *g)
{
    return g->n_waves >= 32 ? ~0u : (1u << g->n_waves) - 1;
}

static void complete_if_all_in(struct isa_group *g, struct barrier *b)
{
    if (!b->signalled || (b->signalled | g->ended) != all_waves(g))
        return;
    for (uint32_t i = 0; i < g->n_waves; i++)
        if (b->waiting >> i & 1)
            g->w[i].status = WAVE_READY;
    b->done = all_waves(g) & ~b->waiting;
    b->waiting = 0;
    b->signalled = 0;
}

void barrier_signal(struct wave *w, uint32_t i)
{
    struct barrier *b = &w->g->barrier[i];
    if (b->signalled >> w->index & 1) {
        wave_fault(w, ISA_FAULT_BARRIER, "the wave signals a barrier twice before all others have signalled it once");
        return;
    }
    b->signalled |= 1u << w->index;
    complete_if_all_in(w->g, b);
}

void barrier_wait(struct wave *w, uint32_t i)
{
    struct barrier *b = &w->g->barrier[i];
    uint32_t me = 1u << w->index;
    if (b->done & me) {
        b->done &= ~me;
        return;
    }
    b->waiting |= me;
    w->status = WAVE_AT_BARRIER;
    w->stop = true;
}

void barrier_wave_ended(struct isa_group *g)
{
    for (uint32_t i = 0; i < N_BARRIERS; i++)
        complete_if_all_in(g, &g->barrier[i]);
}
