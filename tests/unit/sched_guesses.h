/* tests/unit/sched_guesses.h: requests whose guesses are right for a while, wrong once and right again. */
#ifndef ZINC_TESTS_UNIT_SCHED_GUESSES_H
#define ZINC_TESTS_UNIT_SCHED_GUESSES_H

#include "engine/draft.h"
#include "engine/serve/sched.h"

/* Guesses by an answer tok [n] that differs now and then from what comes: predicted [n], which the request keeps. */
static inline void guess_like(struct sched_request *r, const int32_t *tok, uint32_t n, int32_t *predicted)
{
    for (uint32_t i = 0; i < n; i++)
        predicted[i] = i % 9 == 8 ? tok[i] ^ 1 : tok[i];
    r->gen.n_draft = DRAFT_MOST;
    r->gen.predicted = predicted;
    r->gen.n_predicted = n;
}

#endif
