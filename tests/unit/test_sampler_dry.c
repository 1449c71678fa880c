/* DRY: what is penalised, by how much, and what a sequence breaker stops. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/sample/sampler.h"

enum { N_VOCAB = 8, N_CTX = 256 };

static struct sampler_params dry(float multiplier)
{
    struct sampler_params p = sampler_defaults();
    p.temp = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.seed = 1;
    p.dry_multiplier = multiplier;
    return p;
}

static struct sampler *make(struct sampler_params p, const struct sampler_vocab *v)
{
    struct sampler *s = NULL;
    struct err e = { 0 };
    ck_assert_msg(sampler_create(&p, N_VOCAB, N_CTX, v, &s, &e) == 0, "%s", e.msg);
    return s;
}

/* All logits are 0 before: checks that only `id` is penalised, by `want`; id -1: nobody. */
static void expect_penalty(struct sampler *s, const int32_t *hist, uint32_t n, int32_t id, float want)
{
    float l[N_VOCAB] = { 0 };
    const struct sampler_cand *c;
    sampler_reset(s);
    for (uint32_t i = 0; i < n; i++)
        sampler_accept(s, hist[i]);
    for (int again = 0; again < 2; again++) { /* scratch is clean after the first */
        sampler_choose(s, l);
        ck_assert_uint_eq(sampler_candidates(s, &c), N_VOCAB);
        for (uint32_t i = 0; i < N_VOCAB; i++)
            ck_assert_msg(fabsf(c[i].logit + (c[i].id == id ? want : 0)) <= 1e-5f * want, "token %d: %g", c[i].id,
                          (double)c[i].logit);
    }
}
#define HIST(...) (int32_t[]){ __VA_ARGS__ }, ARRAY_LEN(((int32_t[]){ __VA_ARGS__ }))

START_TEST(the_token_that_would_continue_is_penalised)
{
    struct sampler *s = make(dry(1), NULL);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), 4, 1.75f);    /* length 3, one above the allowed 2 */
    expect_penalty(s, HIST(5, 2, 3, 4, 1, 2, 3), 4, 1.0f);     /* length 2                          */
    expect_penalty(s, HIST(5, 6, 3, 4, 1, 2, 3), -1, 0);       /* length 1: free                    */
    expect_penalty(s, HIST(1, 2), -1, 0);
    sampler_destroy(s);
}
END_TEST

START_TEST(the_longest_repetition_of_a_token_counts)
{
    struct sampler *s = make(dry(2), NULL);
    /* 4 follows "2 3" and "1 2 3". */
    expect_penalty(s, HIST(2, 3, 4, 1, 2, 3, 4, 1, 2, 3), 4, 2 * powf(1.75f, 4)); /* "3 4 1 2 3" etc: length 6 */
    expect_penalty(s, HIST(7, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 3), 4, 2 * 1.75f);
    sampler_destroy(s);
}
END_TEST

START_TEST(the_window_and_the_allowed_length_limit)
{
    struct sampler_params p = dry(1);
    p.dry_allowed_length = 3;
    struct sampler *s = make(p, NULL);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), 4, 1.0f);
    sampler_destroy(s);
    p.dry_allowed_length = 4;
    s = make(p, NULL);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), -1, 0);
    sampler_destroy(s);
    p = dry(1);
    p.dry_last_n = 6; /* 2 3 4 1 2 3 */
    s = make(p, NULL);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), 4, 1.0f);
    sampler_destroy(s);
}
END_TEST

START_TEST(breakers_end_a_repetition)
{
    struct sampler *s = make(dry(1), NULL);
    ck_assert_int_eq(sampler_add_breaker(s, 1, NULL, 0), 0);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), 4, 1.0f); /* "2 3" since the breaker 1 */
    sampler_destroy(s);
    s = make(dry(1), NULL);
    sampler_add_breaker(s, 2, NULL, 0);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), -1, 0); /* "3" is too short */
    sampler_destroy(s);
    s = make(dry(1), NULL);
    sampler_add_breaker(s, 1, (int32_t[]){ 2 }, 1);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), -1, 0);    /* the breaker is "1 2": "3" is left */
    expect_penalty(s, HIST(1, 5, 3, 4, 1, 5, 3), 4, 1.75f); /* "1 5" is none                     */
    sampler_destroy(s);
    s = make(dry(1), NULL);
    sampler_add_breaker(s, 4, NULL, 0);
    expect_penalty(s, HIST(1, 2, 3, 4, 1, 2, 3), -1, 0); /* a breaker is not penalised itself */
    sampler_destroy(s);
}
END_TEST

START_TEST(the_exponent_is_capped)
{
    struct sampler_params p = dry(1);
    p.dry_base = 10;
    struct sampler *s = make(p, NULL);
    int32_t hist[64];
    for (int i = 0; i < 64; i++)
        hist[i] = 3;
    for (int i = 0; i < 64; i++)
        sampler_accept(s, hist[i]);
    const struct sampler_cand *c;
    sampler_choose(s, (float[N_VOCAB]){ 0 });
    sampler_candidates(s, &c);
    for (uint32_t i = 0; i < N_VOCAB; i++)
        if (c[i].id == 3)
            ck_assert_msg(isfinite(c[i].logit) && c[i].logit < -1e38f, "%g", (double)c[i].logit);
    sampler_destroy(s);
}
END_TEST

/* A vocabulary of eight tokens: the ids of a text are those of its characters. */
static const char *const texts[N_VOCAB] = { "a", "b:", "ab", "\n", "c", ":", "#", "a#" };

static const char *text_of(void *user, int32_t id, size_t *n)
{
    (void)user;
    *n = strlen(texts[id]);
    return texts[id];
}

static uint32_t encode(void *user, const char *s, size_t n, int32_t *ids, uint32_t cap)
{
    (void)user;
    uint32_t count = 0;
    for (size_t i = 0; i < n && count < cap; i++)
        for (int32_t id = 0; id < N_VOCAB; id++)
            if (texts[id][0] == s[i] && !texts[id][1])
                ids[count++] = id;
    return count;
}

START_TEST(breaker_texts_are_found_in_the_vocabulary)
{
    struct sampler_vocab v = { NULL, text_of, encode };
    struct sampler *s = make(dry(1), &v); /* the usual breakers: tokens 1, 3 and 5 hold one */
    expect_penalty(s, HIST(2, 4, 0, 6, 2, 4, 0), 6, 1.75f);
    expect_penalty(s, HIST(1, 4, 0, 6, 1, 4, 0), 6, 1.0f); /* "b:" holds a colon */
    sampler_destroy(s);
    struct sampler_params p = dry(1);
    const char *own[] = { "#c" };
    p.dry_breakers = own;
    p.n_dry_breakers = 1;
    s = make(p, &v); /* 6 "#" and 7 "a#" followed by 4 "c" */
    expect_penalty(s, HIST(1, 4, 0, 2, 1, 4, 0), 2, 1.75f);
    expect_penalty(s, HIST(7, 4, 0, 2, 7, 4, 0), -1, 0);
    expect_penalty(s, HIST(7, 1, 0, 2, 7, 1, 0), 2, 1.75f);
    sampler_destroy(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dry");
    TCase *t = tcase_create("dry");
    tcase_add_test(t, the_token_that_would_continue_is_penalised);
    tcase_add_test(t, the_longest_repetition_of_a_token_counts);
    tcase_add_test(t, the_window_and_the_allowed_length_limit);
    tcase_add_test(t, breakers_end_a_repetition);
    tcase_add_test(t, the_exponent_is_capped);
    tcase_add_test(t, breaker_texts_are_found_in_the_vocabulary);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
