/* engine/serve/step_cost.h
 * What a step with prompts takes: a part that every step pays (weights are read, launches are made, the running requests
 * walk their caches) and a part for each row. Both are fitted to the steps that were seen by least squares whose weights
 * decay, the closed form for a line (https://en.wikipedia.org/wiki/Simple_linear_regression). A mean per row would not do:
 * small chunks make it larger, and a larger one makes chunks smaller. */
#ifndef ZINC_SERVE_STEP_COST_H
#define ZINC_SERVE_STEP_COST_H

#include <stdint.h>

/* Zero: nothing is known. */
struct step_cost {
    double fixed_ns, row_ns;     /* the fit; row_ns 0: none yet, later always above 0          */
    double w, x, y, xx, xy;      /* decaying sums over steps: 1, rows, ns, rows^2, rows * ns    */
};

/* A step of so many rows took so long; ns > 0. A step that took many times as long as expected counts as one that took
 * a few times as long, so that one stall does not matter and a lasting change does. */
void step_cost_learn(struct step_cost *c, uint32_t rows, double ns);
/* What a step of so many rows should take; 0: unknown. */
double step_cost_ns(const struct step_cost *c, uint32_t rows);
/* Rows of prompts that fit into a step of budget_ns beside `others` rows, least to most; `most` if nothing is known.
 * Where the fixed part leaves little of the budget, the rows may take as much time as it does: smaller chunks would keep
 * the others waiting nearly as long each time, and more often. */
uint32_t step_cost_chunk(const struct step_cost *c, double budget_ns, uint32_t others, uint32_t least, uint32_t most);

#endif
