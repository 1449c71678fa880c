/* engine/draft.h
 * Guesses of the tokens that come next. Text repeats itself, and an answer its prompt: where the newest tokens stood before, those
 * that followed them there are likely to follow again. A step that evaluates them behind the newest token tells which are right, and
 * costs little more than one of a single row. What is chosen is the same to the bit, since a row's bits do not depend on its company
 * (doc/arithmetic.md); a wrong guess costs time alone.
 *
 * Sources: A. Saxena, "Prompt lookup decoding" (2023); Leviathan, Kalman, Matias, "Fast inference from transformers via speculative
 * decoding" (arXiv 2211.17192), equation 1, for the tokens that a guess is worth. */
#ifndef ZINC_ENGINE_DRAFT_H
#define ZINC_ENGINE_DRAFT_H

#include <stdint.h>

#include "engine/engine.h"

enum { DRAFT_ROWS = 64 }; /* rows of a step whose time is known apart */

/* What steps of few rows take, as they have been measured. All zero at first: a row more is then taken to cost a twentieth. One
 * thread at a time. */
struct draft_cost {
    double ns[DRAFT_ROWS + 1]; /* of a step of so many rows; 0: not known */
};
void draft_cost_learn(struct draft_cost *c, uint32_t rows, double ns);
double draft_cost_ns(const struct draft_cost *c, uint32_t rows); /* relative where nothing is known; rows beyond DRAFT_ROWS: as those */

struct draft;

/* For a text of at most n_most tokens, which needs 12 to 16 bytes each. -ENOMEM. */
int draft_create(uint32_t n_most, struct draft **out);
void draft_destroy(struct draft *d); /* NULL is fine */

/* The text goes on. What does not fit any more is left out. */
void draft_add(struct draft *d, const int32_t *tok, uint32_t n);

/* The step that a guess would be part of. */
struct draft_step {
    uint32_t others; /* rows beside the newest token's that bring a token each                    */
    uint32_t again;  /* and such as bring none: of a recurrent state that had to go back          */
    uint32_t most;   /* tokens that there is room for                                             */
};
/* The tokens after the text: guess [DRAFT_MOST]. 0: nothing like it stood before, or a guess would cost more than it brings. Nothing is
 * allocated. */
uint32_t draft_guess(struct draft *d, const struct draft_cost *c, const struct draft_step *step, int32_t *guess);
/* So many of the newest guess's n tokens were right, one after the other. */
void draft_tell(struct draft *d, uint32_t n, uint32_t right);

#endif
