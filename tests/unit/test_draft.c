/* Guesses: what stood before after the same tokens, as long as a guess pays, and what a step of so many rows takes. */
#include <check.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/draft.h"
#include "tests/lib/run.h"

static int32_t guess[DRAFT_MOST];

static struct draft *text_of(uint32_t cap, const int32_t *tok, uint32_t n)
{
    struct draft *d;
    ck_assert_int_eq(draft_create(cap, &d), 0);
    draft_add(d, tok, n);
    return d;
}

/* A step of up to 8 rows takes as long as one. */
static struct draft_cost cheap(void)
{
    struct draft_cost c = { 0 };
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        c.ns[i] = 100;
    return c;
}

static uint32_t guess_of(struct draft *d, const struct draft_cost *c, uint32_t others, uint32_t most)
{
    return draft_guess(d, c, &(struct draft_step){ .others = others, .most = most }, guess);
}

#define GUESS(d, c, ...)                                                                                               \
    do {                                                                                                               \
        const int32_t want[] = { __VA_ARGS__ };                                                                        \
        ck_assert_uint_eq(guess_of(d, c, 0, DRAFT_MOST), ARRAY_LEN(want));                                   \
        for (uint32_t i_ = 0; i_ < ARRAY_LEN(want); i_++)                                                              \
            ck_assert_int_eq(guess[i_], want[i_]);                                                                     \
    } while (0)

START_TEST(what_followed_follows_again)
{
    const struct draft_cost c = cheap();
    static const int32_t once[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, again[] = { 1, 2, 3 };
    struct draft *d = text_of(100, once, 11);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 0);
    draft_add(d, again, 2);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 0); /* two tokens are no sign */
    draft_add(d, again + 2, 1);
    GUESS(d, &c, 4, 5, 6, 7, 8, 9, 10);
    ck_assert_uint_eq(guess_of(d, &c, 0, 2), 2);
    ck_assert_uint_eq(guess_of(d, &c, 0, 0), 0);
    draft_destroy(d);
    draft_destroy(NULL);
}
END_TEST

START_TEST(the_place_most_like_the_end_counts)
{
    const struct draft_cost c = cheap();
    static const int32_t t[] = { 9, 8, 1, 2, 3, 40, 41, 42, 43, 44, 45, 46, 7, 1, 2, 3, 50, 51, 52, 53, 54, 55, 56, 9, 8, 1, 2, 3 };
    struct draft *d = text_of(100, t, ARRAY_LEN(t));
    GUESS(d, &c, 40, 41, 42, 43, 44, 45, 46); /* five tokens are equal there, three at the newer place */
    draft_destroy(d);
    d = text_of(100, t + 2, ARRAY_LEN(t) - 2 - 5);
    draft_add(d, (const int32_t[]){ 6, 1, 2, 3 }, 4);
    GUESS(d, &c, 50, 51, 52, 53, 54, 55, 56); /* of equals the newer one */
    draft_destroy(d);
}
END_TEST

START_TEST(what_repeats_itself_goes_on)
{
    const struct draft_cost c = cheap();
    static const int32_t t[] = { 5, 6, 7, 5, 6, 7 };
    struct draft *d = text_of(100, t, 6);
    GUESS(d, &c, 5, 6, 7, 5, 6, 7, 5);
    draft_destroy(d);
}
END_TEST

START_TEST(a_full_text_has_no_guess)
{
    const struct draft_cost c = cheap();
    static const int32_t t[] = { 5, 6, 7, 5, 6, 7 };
    struct draft *d = text_of(6, t, 6);
    draft_add(d, t, 6);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 0);
    draft_destroy(d);
    d = text_of(0, t, 6);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 0);
    draft_destroy(d);
}
END_TEST

START_TEST(a_guess_has_to_pay)
{
    static const int32_t t[] = { 5, 6, 7, 5, 6, 7 };
    struct draft_cost c = { 0 };
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        c.ns[i] = 100 * i; /* nothing is gained by rows that are together */
    struct draft *d = text_of(100, t, 6);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 0);
    c = cheap();
    for (uint32_t i = 4; i <= DRAFT_ROWS; i++)
        c.ns[i] = 1000;
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), 2);
    ck_assert_uint_eq(guess_of(d, &c, 2, DRAFT_MOST), 0); /* three rows are there already */
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        c.ns[i] = 100 + 45 * i;
    uint32_t plain = guess_of(d, &c, 0, DRAFT_MOST), again = draft_guess(d, &c, &(struct draft_step){ 0, 6, DRAFT_MOST }, guess);
    ck_assert_uint_gt(again, plain); /* what is evaluated again is paid for in any case */
    draft_destroy(d);
}
END_TEST

START_TEST(wrong_guesses_become_shorter_and_are_tried_again_some_day)
{
    static const int32_t t[] = { 5, 6, 7, 5, 6, 7 };
    struct draft_cost c = { 0 };
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        c.ns[i] = 100 + 20 * i;
    struct draft *d = text_of(100, t, 6);
    uint32_t first = guess_of(d, &c, 0, DRAFT_MOST), n = first, tries = 0, rests = 0;
    ck_assert_uint_gt(first, 0);
    for (; n && tries < 100; tries++) {
        draft_tell(d, n, 0);
        uint32_t next = guess_of(d, &c, 0, DRAFT_MOST);
        ck_assert_uint_le(next, n);
        n = next;
    }
    ck_assert_uint_eq(n, 0);
    while (!n && rests++ < 1000)
        n = guess_of(d, &c, 0, DRAFT_MOST);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_gt(rests, 10);
    for (uint32_t i = 0; i < 100; i++)
        draft_tell(d, n, n);
    ck_assert_uint_eq(guess_of(d, &c, 0, DRAFT_MOST), DRAFT_MOST);
    draft_destroy(d);
}
END_TEST

START_TEST(what_steps_take)
{
    struct draft_cost c = { 0 };
    ck_assert_double_eq(draft_cost_ns(&c, 1), 1.05); /* nothing known: relative */
    ck_assert_double_eq_tol(draft_cost_ns(&c, 3) - draft_cost_ns(&c, 2), 0.05, 1e-9);
    draft_cost_learn(&c, 1, 1000);
    ck_assert_double_eq(draft_cost_ns(&c, 1), 1000);
    ck_assert_double_eq(draft_cost_ns(&c, 5), 1200);
    draft_cost_learn(&c, 1, 2000);
    ck_assert_double_eq(draft_cost_ns(&c, 1), 1200);
    draft_cost_learn(&c, 1, 1e9); /* somebody stood still */
    ck_assert_double_le(draft_cost_ns(&c, 1), 2000);
    draft_cost_learn(&c, 500, 9000);
    ck_assert_double_eq(draft_cost_ns(&c, 64), 9000);
    ck_assert_double_eq(draft_cost_ns(&c, 70), 9000);
}
END_TEST

int main(void)
{
    return RUN_TESTS("draft", what_followed_follows_again, the_place_most_like_the_end_counts, what_repeats_itself_goes_on,
                     a_full_text_has_no_guess, a_guess_has_to_pay, wrong_guesses_become_shorter_and_are_tried_again_some_day,
                     what_steps_take);
}
