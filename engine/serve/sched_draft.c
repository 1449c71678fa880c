/* Guesses behind a running request's newest token (engine/draft.h): rows of the same step, whose tokens hold as long as each is the
 * one that was chosen. */
#include <string.h>

#include "base/ckd.h"
#include "engine/serve/kvpool.h"
#include "engine/serve/sched_impl.h"

void sched_draft_begin(struct sched *s, struct sched_job *j)
{
    if (!j->n_draft || engine_draft_rows(s->eng) < 2 ||
        draft_create(s->eng->info.n_ctx + j->n_predicted, &j->draft)) /* without memory for it it takes longer */
        return;
    draft_add(j->draft, j->predicted, j->n_predicted);
    draft_add(j->draft, j->prompt, j->n_prompt);
}

uint32_t sched_guess(struct sched *s, struct sched_job *j, uint32_t others, uint32_t room, int32_t *guess)
{
    uint32_t pos = j->session->pos + 1, left = j->draft ? gen_left(j->gen) : 0, n_ctx = s->eng->info.n_ctx;
    if (left < 2 || pos >= n_ctx || j->by_hand)
        return 0;
    uint32_t most = MIN(MIN(engine_draft_rows(s->eng) - 1, j->n_draft), MIN(n_ctx - pos, left - 1));
    uint32_t n = draft_guess(j->draft, &s->eng->few, &(struct draft_step){ .others = others, .most = MIN(most, room) }, guess);
    struct grammar_limit l = { .steps = MIN((uint64_t)GRAMMAR_GUESS_STEPS, s->mask_left) };
    n = gen_allows(j->gen, guess, n, &l);
    s->mask_left -= MIN(l.used, s->mask_left);
    return n;
}

/* The token is the one that stands in the part's next row, and that row's token was made as it would have been; and its mask, if it
 * has a grammar, is there: else the row is evaluated once more when it is. */
static bool holds(const struct sched *s, const struct part *p, uint32_t i, uint32_t i_out)
{
    const struct sched_job *j = p->job;
    return i < p->n_guess && !j->mask && j->pending == p->tok[i + 1] && (!p->on_device || j->pending == s->chosen[i_out]);
}

uint32_t sched_choose_rows(struct sched *s, const struct part *p, uint32_t i_out, const float *logits)
{
    struct sched_job *j = p->job; /* it may be gone when it has ended */
    uint32_t i = 0;
    j->at_row = 0;
    bool on = sched_choose(s, p, i_out, logits, false);
    while (on && holds(s, p, i, i_out + i)) {
        struct session *se = j->session;
        se->tok[se->pos++] = j->pending;
        kvpool_extend(s->pool, se, true);
        gen_tell_guess(j->gen, 0, 1);
        j->at_row = ++i;
        on = sched_choose(s, p, i_out + i, logits, false);
    }
    if (on && p->n_guess)
        draft_tell(j->draft, p->n_guess, i);
    return i + 1;
}
