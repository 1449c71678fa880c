/* The scheduler and guesses (engine/draft.h): those that never hold are given up, and what is told of guessed tokens is
 * what is told of others. That guesses change no answer is shown in test_sched.c, beside others, and in
 * test_sched_grammar.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/draft.h"
#include "engine/priv.h"
#include "tests/lib/run.h"
#include "tests/unit/sched_ask.h"
#include "tests/unit/sched_guesses.h"

/* Whatever the machine is busy with: what steps take, by rows. The scheduler's thread calls it between two steps. */
static struct engine *costs_of;
static double cost_ns, cost_of_a_row;

static void wake_and_set_costs(void *user)
{
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        costs_of->few.ns[i] = cost_ns * (1 + cost_of_a_row * (i - 1));
    wake(user);
}

static void set_costs(struct ask *a, struct engine *eng, double ns, double of_a_row)
{
    costs_of = eng;
    cost_ns = ns;
    cost_of_a_row = of_a_row;
    a->r.wake = wake_and_set_costs;
    a->r.tell_start = true;
}

/* A text to guess from in which four tokens are the answer's and the next one is not, over and over. */
START_TEST(guesses_that_never_hold_are_given_up)
{
    enum { N = 200 };
    setenv("ZINC_NULL_GBS", "10", 1); /* some ms for a step, in which the taker takes */
    struct rig r = rig("null", 1, 1, 0);
    struct engine *one = open_engine(r.path, "null", 1);
    static struct alone x;
    static int32_t predicted[MAX_TOK];
    static struct ask a;
    ask_init(&a, words, 5, N);
    uint64_t t0 = clock_ns();
    generate_alone(one, &a.r, &x);
    ck_assert_uint_eq(x.n, N);
    set_costs(&a, r.eng, (double)(clock_ns() - t0) / N, 0.2);
    guess_like(&a.r, x.tok, x.n, predicted);
    for (uint32_t i = 0; i < x.n; i++)
        predicted[i] = i % 5 == 4 ? x.tok[i] ^ 1 : x.tok[i];
    submit(r.s, &a);
    await_end(&a);
    ck_assert_uint_eq(a.n_tok, N);
    ck_assert_mem_eq(a.tok, x.tok, sizeof *x.tok * N);
    ck_assert_uint_gt(a.last.result.n_guessed, 0);
    ck_assert_uint_lt(a.last.result.n_guessed, 30); /* of some eighty that were worth it if nothing were learned */
    ck_assert_uint_eq(a.last.result.n_right, 0);
    engine_close(one);
    rig_end(&r);
    unsetenv("ZINC_NULL_GBS");
}
END_TEST

/* What is told of tokens that were guessed: chosen by the device, by its draws, by the host's draws, and in spite of a
 * penalty. */
static void guess_and_tell(const char *tier, uint32_t n, int first, int end)
{
    struct rig r = rig(tier, 1, 1, 0);
    struct engine *one = open_engine(r.path, tier, 1);
    static int32_t predicted[MAX_TOK];
    static struct alone x;
    static struct ask a;
    for (int k = first; k < end; k++) {
        ask_init(&a, words, 5, n);
        a.r.n_logprobs = 2 * k;
        a.r.gen.sampling.temp = k % 3 ? 0.3f : 0.0f;
        a.r.gen.sampling.seed = 4;
        a.r.gen.sampling.rng = k == 1 ? SAMPLER_RNG_COUNTER : SAMPLER_RNG_MT19937;
        a.r.gen.sampling.repeat_penalty = k == 3 ? 1.01f : 1.0f;
        uint64_t t0 = clock_ns();
        generate_alone(one, &a.r, &x);
        set_costs(&a, r.eng, (double)(clock_ns() - t0) / n, 0.02);
        guess_like(&a.r, x.tok, x.n, predicted);
        submit(r.s, &a);
        await_end(&a);
        ck_assert_uint_eq(a.n_tok, x.n);
        ck_assert_mem_eq(a.tok, x.tok, x.n * sizeof *x.tok);
        ck_assert_msg(a.told == x.told, "%s, kind %d: other probabilities than without guesses", tier, k);
        ck_assert_uint_gt(a.last.result.n_right, 0);
        ck_assert_uint_lt(a.last.result.n_right, a.last.result.n_guessed);
    }
    engine_close(one);
    rig_end(&r);
}

START_TEST(probabilities_of_guessed_tokens_are_those_of_others)
{
    guess_and_tell("cpu", 60, 0, 4);
    if (WITH_LOCKSTEP)
        guess_and_tell("lockstep", 12, 1, 2);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    setenv("ZINC_NULL_HISTORY", "1", 1);
    return RUN_TESTS("sched_guess", guesses_that_never_hold_are_given_up,
                     probabilities_of_guessed_tokens_are_those_of_others);
}
