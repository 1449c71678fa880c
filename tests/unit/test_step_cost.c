/* What a step takes, learnt on machines whose costs are known: the fit finds them, and chunks do not shrink where the
 * fixed part is large or short prompts come between. */
#include <check.h>
#include <math.h>

#include "engine/serve/step_cost.h"
#include "tests/lib/run.h"

#define MS 1e6
#define BUDGET (50 * MS)
enum { LEAST = 16, MOST = 512, STEPS = 200 };

struct machine {
    double fixed_ns, row_ns;
};

static double takes(const struct machine *m, uint32_t rows)
{
    return m->fixed_ns + m->row_ns * rows;
}

/* Chunks by a decaying mean per row, for comparison. */
static uint32_t chunk_by_mean(double mean)
{
    double fits = BUDGET / mean;
    return fits >= MOST ? MOST : fits < LEAST ? LEAST : (uint32_t)fits;
}

/* The chunk after many steps; every `every`-th one is the end of a short prompt, 0: none is. */
static uint32_t settle_mean(const struct machine *m, uint32_t every)
{
    double mean = takes(m, MOST) / MOST;
    for (uint32_t i = 1; i < STEPS; i++) {
        uint32_t rows = every && i % every == 0 ? LEAST : chunk_by_mean(mean);
        mean = 0.8 * mean + 0.2 * takes(m, rows) / rows;
    }
    return chunk_by_mean(mean);
}

static uint32_t settle_fit(const struct machine *m, uint32_t every, struct step_cost *c)
{
    *c = (struct step_cost){ 0 };
    step_cost_learn(c, MOST, takes(m, MOST));
    for (uint32_t i = 1; i < STEPS; i++) {
        uint32_t rows = every && i % every == 0 ? LEAST : step_cost_chunk(c, BUDGET, 0, LEAST, MOST);
        step_cost_learn(c, rows, takes(m, rows));
    }
    return step_cost_chunk(c, BUDGET, 0, LEAST, MOST);
}

START_TEST(nothing_is_known_at_first)
{
    struct step_cost c = { 0 };
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET, 0, LEAST, MOST), MOST);
    ck_assert(step_cost_ns(&c, 100) == 0);
    step_cost_learn(&c, 100, 20 * MS); /* one step: all of it is the rows' */
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET, 0, LEAST, MOST), 250);
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET, 100, LEAST, MOST), 150);
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET, 1000, LEAST, MOST), LEAST);
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET, 0, LEAST, 8), 8);
    ck_assert_uint_eq(step_cost_chunk(&c, BUDGET / 1000, 0, LEAST, 8), 8);
}
END_TEST

START_TEST(the_fit_finds_both_parts)
{
    const struct machine m = { 7 * MS, 0.03 * MS };
    struct step_cost c = { 0 };
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t rows = 64 + i * 37 % 400;
        step_cost_learn(&c, rows, takes(&m, rows) * (i % 2 ? 1.01 : 0.99));
    }
    ck_assert_double_eq_tol(c.row_ns, m.row_ns, 0.05 * m.row_ns);
    ck_assert_double_eq_tol(c.fixed_ns, m.fixed_ns, 0.1 * m.fixed_ns);
}
END_TEST

/* Every step takes longer than the budget: the mean rises with each smaller chunk, down to the least. */
START_TEST(a_large_fixed_part_does_not_shrink_chunks)
{
    const struct machine m = { 60 * MS, 0.2 * MS };
    struct step_cost c;
    ck_assert_uint_eq(settle_mean(&m, 0), LEAST);
    uint32_t chunk = settle_fit(&m, 0, &c);
    ck_assert_msg(chunk >= 285 && chunk <= 315, "%u rows, 300 take as long as the fixed part", chunk);
}
END_TEST

/* Ends of prompts are short and dear by the row: the mean takes the others' cost from them. */
START_TEST(short_prompts_do_not_shrink_chunks)
{
    const struct machine m = { 20 * MS, 0.1 * MS };
    struct step_cost c;
    uint32_t by_mean = settle_mean(&m, 2), chunk = settle_fit(&m, 2, &c);
    ck_assert_msg(by_mean < 150, "the mean has %u rows", by_mean);
    ck_assert_msg(chunk >= 285 && chunk <= 315, "%u rows, 300 fit", chunk);
}
END_TEST

START_TEST(a_stall_is_forgotten_and_a_change_is_not)
{
    const struct machine m = { 10 * MS, 0.1 * MS }, slow = { 20 * MS, 0.2 * MS };
    struct step_cost c;
    settle_fit(&m, 3, &c);
    double before = step_cost_ns(&c, 256);
    step_cost_learn(&c, 256, 5000 * MS);
    ck_assert_msg(step_cost_ns(&c, 256) < 2 * before, "%g ns after a stall, %g before", step_cost_ns(&c, 256), before);
    for (uint32_t i = 0; i < 60; i++)
        step_cost_learn(&c, i % 2 ? 256 : 100, takes(&slow, i % 2 ? 256 : 100));
    ck_assert_double_eq_tol(step_cost_ns(&c, 256), takes(&slow, 256), 0.02 * takes(&slow, 256));
    for (uint32_t i = 0; i < 80; i++) /* rows that do not vary: the shape stays, the height follows */
        step_cost_learn(&c, 256, takes(i < 40 ? &slow : &m, 256));
    ck_assert_double_eq_tol(c.fixed_ns, m.fixed_ns, 0.1 * m.fixed_ns);
    ck_assert_double_eq_tol(c.row_ns, m.row_ns, 0.1 * m.row_ns);
    struct step_cost first = { 0 };
    step_cost_learn(&first, 512, 9000 * MS); /* the first step compiled kernels */
    step_cost_learn(&first, 512, takes(&m, 512));
    ck_assert_double_eq_tol(step_cost_ns(&first, 512), takes(&m, 512), 1);
}
END_TEST

/* Costs that fall with rows, or stay: a line that no step can have. */
START_TEST(impossible_costs_give_chunks_within_bounds)
{
    struct step_cost c = { 0 };
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t rows = 16 + i * 53 % 497;
        step_cost_learn(&c, rows, i % 3 ? 1e9 / rows : 1);
        uint32_t chunk = step_cost_chunk(&c, BUDGET, i, LEAST, MOST);
        ck_assert_uint_ge(chunk, LEAST);
        ck_assert_uint_le(chunk, MOST);
        ck_assert(isfinite(c.fixed_ns) && isfinite(c.row_ns) && c.fixed_ns >= 0 && c.row_ns > 0);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("step_cost", nothing_is_known_at_first, the_fit_finds_both_parts,
                     a_large_fixed_part_does_not_shrink_chunks, short_prompts_do_not_shrink_chunks,
                     a_stall_is_forgotten_and_a_change_is_not, impossible_costs_give_chunks_within_bounds);
}
