#include "engine/serve/step_cost.h"

#include "base/ckd.h"

#define DECAY 0.9        /* of the weight of a step with each further one: some ten count           */
#define STALL 4          /* times as long as expected is not the step's own doing                   */
#define SPREAD 0.2       /* of the mean number of rows: if they vary less, they tell no slope       */
#define LEAST_SHARE 0.01 /* of the mean per row is what a row costs at least: no slope is 0 or below */

/* The line through the sums. Where rows hardly vary the line keeps its shape and goes through their mean. */
static void fit(struct step_cost *c)
{
    double x = c->x / c->w, y = c->y / c->w;
    double var = c->xx / c->w - x * x, cov = c->xy / c->w - x * y;
    if (var > SPREAD * SPREAD * x * x) {
        c->row_ns = MIN(MAX(cov / var, LEAST_SHARE * y / x), y / x);
        c->fixed_ns = MAX(y - c->row_ns * x, 0.0); /* but for rounding */
    } else if (c->row_ns > 0) {
        double scale = y / (c->fixed_ns + c->row_ns * x);
        c->fixed_ns *= scale;
        c->row_ns *= scale;
    } else {
        c->row_ns = y / x;
    }
}

void step_cost_learn(struct step_cost *c, uint32_t rows, double ns)
{
    double expected = step_cost_ns(c, rows), x = rows;
    if (expected > 0 && ns > STALL * expected)
        ns = STALL * expected;
    if (expected > STALL * ns) /* what was seen before was a stall */
        *c = (struct step_cost){ 0 };
    c->w = DECAY * c->w + 1;
    c->x = DECAY * c->x + x;
    c->y = DECAY * c->y + ns;
    c->xx = DECAY * c->xx + x * x;
    c->xy = DECAY * c->xy + x * ns;
    fit(c);
}

double step_cost_ns(const struct step_cost *c, uint32_t rows)
{
    return c->fixed_ns + c->row_ns * rows;
}

uint32_t step_cost_chunk(const struct step_cost *c, double budget_ns, uint32_t others, uint32_t least, uint32_t most)
{
    if (c->row_ns <= 0)
        return most;
    double fits = MAX((budget_ns - c->fixed_ns) / c->row_ns - others, c->fixed_ns / c->row_ns);
    return fits >= most ? most : fits < least ? MIN(least, most) : (uint32_t)fits;
}
