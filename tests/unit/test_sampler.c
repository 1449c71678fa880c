/* Each step of the sampling chain against values computed by hand, and the chain as a whole. */
#include <check.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/sample/mt19937.h"
#include "engine/sample/sampler.h"

enum { N_CTX = 256 };

/* Every step off: what is drawn from is the softmax of the logits. */
static struct sampler_params neutral(void)
{
    struct sampler_params p = sampler_defaults();
    p.temp = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.seed = 1;
    return p;
}

static struct sampler *make(struct sampler_params p, uint32_t n_vocab)
{
    struct sampler *s = NULL;
    struct err e = { 0 };
    ck_assert_msg(sampler_create(&p, n_vocab, N_CTX, NULL, &s, &e) == 0, "%s", e.msg);
    return s;
}

/* Draws once and compares the candidates' ids, in order. */
static void expect_ids(struct sampler_params p, const float *logits, uint32_t n_vocab, const int32_t *want, uint32_t n)
{
    struct sampler *s = make(p, n_vocab);
    const struct sampler_cand *c;
    sampler_choose(s, logits);
    uint32_t got = sampler_candidates(s, &c);
    ck_assert_uint_eq(got, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(c[i].id == want[i], "candidate %u: id %d, want %d", i, c[i].id, want[i]);
    sampler_destroy(s);
}
#define EXPECT_IDS(p, logits, ...)                                                                                     \
    expect_ids(p, logits, ARRAY_LEN(logits), (int32_t[]){ __VA_ARGS__ }, ARRAY_LEN(((int32_t[]){ __VA_ARGS__ })))

static void logs(const double *p, float *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        l[i] = (float)log(p[i]);
}

START_TEST(greedy_takes_the_first_of_equal_maxima)
{
    struct sampler_params p = neutral();
    p.temp = 0;
    EXPECT_IDS(p, ((float[]){ 1, 3, 3, 2 }), 1);
    EXPECT_IDS(p, ((float[]){ -INFINITY, NAN, -5, -4 }), 3);
}
END_TEST

START_TEST(logits_without_a_number_give_no_token)
{
    struct sampler_params p = neutral();
    struct sampler *s = make(p, 2);
    ck_assert_int_eq(sampler_choose(s, (float[]){ NAN, -INFINITY }), -1);
    sampler_destroy(s);
    p.temp = 0;
    s = make(p, 2);
    ck_assert_int_eq(sampler_choose(s, (float[]){ NAN, NAN }), -1);
    sampler_destroy(s);
}
END_TEST

START_TEST(top_k_keeps_the_k_largest_in_order)
{
    struct sampler_params p = neutral();
    float l[64];
    for (int i = 0; i < 64; i++)
        l[i] = (float)((i * 37) % 64); /* a permutation: the largest is 63 at i = 19 */
    p.top_k = 3;
    EXPECT_IDS(p, l, 19, 38, 57);      /* 703 % 64 = 63, 1406 % 64 = 62, 2109 % 64 = 61 */
    p.top_k = 1;
    EXPECT_IDS(p, l, 19);
    p.top_k = 2;                       /* few of few: the path that sorts all */
    EXPECT_IDS(p, ((float[]){ 5, 7, 7, 6 }), 1, 2);
}
END_TEST

START_TEST(top_p_includes_the_token_that_reaches_p)
{
    float l[4];
    logs((double[]){ 0.15, 0.5, 0.1, 0.25 }, l, 4);
    struct sampler_params p = neutral();
    p.top_p = 0.7f;
    EXPECT_IDS(p, l, 1, 3);
    p.top_p = 0.8f;
    EXPECT_IDS(p, l, 1, 3, 0);
    p.top_p = 0.0f;
    EXPECT_IDS(p, l, 1);
    p.min_keep = 2;
    EXPECT_IDS(p, l, 1, 3);
}
END_TEST

START_TEST(min_p_is_relative_to_the_best)
{
    float l[4];
    logs((double[]){ 0.15, 0.5, 0.1, 0.25 }, l, 4);
    struct sampler_params p = neutral();
    p.min_p = 0.35f; /* 0.175 */
    EXPECT_IDS(p, l, 1, 3);
    p.min_p = 0.25f; /* 0.125; not sorted: the order of ids stays */
    EXPECT_IDS(p, l, 0, 1, 3);
    p.min_p = 1.0f;
    EXPECT_IDS(p, l, 1);
    p.min_keep = 2;
    EXPECT_IDS(p, l, 1, 3);
}
END_TEST

START_TEST(typical_keeps_what_is_near_the_entropy)
{
    float l[4];
    logs((double[]){ 0.5, 0.25, 0.15, 0.1 }, l, 4);
    struct sampler_params p = neutral();
    /* H = 1.208; |-ln p - H| = 0.515, 0.178, 0.689, 1.095 */
    p.typical_p = 0.3f;
    EXPECT_IDS(p, l, 1, 0);
    p.typical_p = 0.2f;
    EXPECT_IDS(p, l, 1);
    p.typical_p = 0.8f;
    EXPECT_IDS(p, l, 1, 0, 2);
}
END_TEST

START_TEST(top_n_sigma_cuts_below_the_best)
{
    float l[] = { 0, 0, 0, 0, 10 }; /* mean 2, standard deviation 4 */
    struct sampler_params p = neutral();
    p.top_n_sigma = 1;
    EXPECT_IDS(p, l, 4);
    p.top_n_sigma = 2.5f;
    EXPECT_IDS(p, l, 0, 1, 2, 3, 4);
}
END_TEST

START_TEST(xtc_drops_all_but_the_last_top_choice)
{
    float l[4];
    logs((double[]){ 0.2, 0.4, 0.1, 0.3 }, l, 4);
    struct sampler_params p = neutral();
    p.xtc_probability = 1;
    p.xtc_threshold = 0.15f;
    EXPECT_IDS(p, l, 0, 2);
    p.xtc_threshold = 0.25f;
    EXPECT_IDS(p, l, 3, 0, 2);
    p.xtc_threshold = 0.35f; /* one top choice: it stays; XTC has sorted */
    EXPECT_IDS(p, l, 1, 3, 0, 2);
    p.xtc_threshold = 0.51f; /* can never be two: off */
    EXPECT_IDS(p, l, 0, 1, 2, 3);
    p.xtc_threshold = 0.15f;
    p.min_keep = 3;
    EXPECT_IDS(p, l, 1, 3, 0, 2);
    p.min_keep = 0;
    p.xtc_probability = 0;
    EXPECT_IDS(p, l, 0, 1, 2, 3);
}
END_TEST

START_TEST(xtc_acts_with_its_probability)
{
    float l[4];
    logs((double[]){ 0.4, 0.3, 0.2, 0.1 }, l, 4);
    struct sampler_params p = neutral();
    p.xtc_probability = 0.25f;
    struct sampler *s = make(p, 4);
    const struct sampler_cand *c;
    uint32_t acted = 0;
    for (int i = 0; i < 4000; i++) {
        sampler_choose(s, l);
        acted += sampler_candidates(s, &c) < 4;
    }
    ck_assert_msg(acted > 900 && acted < 1100, "acted %u times of 4000, expected about 1000", acted);
    sampler_destroy(s);
}
END_TEST

START_TEST(temperature_divides)
{
    struct sampler_params p = neutral();
    p.temp = 2;
    struct sampler *s = make(p, 2);
    const struct sampler_cand *c;
    sampler_choose(s, (float[]){ 2, 0 });
    ck_assert_uint_eq(sampler_candidates(s, &c), 2);
    ck_assert_float_eq_tol(c[0].p, 0.7310586f, 1e-6f);
    ck_assert_float_eq_tol(c[1].p, 0.2689414f, 1e-6f);
    sampler_destroy(s);
}
END_TEST

START_TEST(dynamic_temperature_follows_the_entropy)
{
    struct sampler_params p = neutral();
    p.dynatemp_range = 0.5f;
    struct sampler *s = make(p, 2);
    const struct sampler_cand *c;
    sampler_choose(s, (float[]){ 3, 3 }); /* as flat as can be: T = 1.5 */
    sampler_candidates(s, &c);
    ck_assert_float_eq_tol(c[0].logit, 2.0f, 1e-6f);
    sampler_choose(s, (float[]){ 200, 0 }); /* no entropy: T = 0.5 */
    sampler_candidates(s, &c);
    ck_assert_float_eq_tol(c[0].logit, 400.0f, 1e-3f);
    sampler_destroy(s);
}
END_TEST

/* The logits that the draw saw, by id. */
static void expect_logits(struct sampler_params p, const int32_t *hist, uint32_t n_hist, const float *l, uint32_t n,
                          const float *want)
{
    struct sampler *s = make(p, n);
    const struct sampler_cand *c;
    for (uint32_t i = 0; i < n_hist; i++)
        sampler_accept(s, hist[i]);
    sampler_choose(s, l);
    ck_assert_uint_eq(sampler_candidates(s, &c), n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_float_eq_tol(c[i].logit, want[c[i].id], 1e-5f);
    sampler_destroy(s);
}

START_TEST(penalties_follow_their_formula_and_window)
{
    struct sampler_params p = neutral();
    float l[] = { 2, -2, 1 };
    int32_t hist[] = { 0, 0, 1 };
    p.repeat_penalty = 2;
    expect_logits(p, hist, 3, l, 3, (float[]){ 1, -4, 1 });
    p.frequency_penalty = 0.5f;
    p.presence_penalty = 0.25f;
    expect_logits(p, hist, 3, l, 3, (float[]){ 1 - 1.25f, -4 - 0.75f, 1 });
    p.repeat_last_n = 1;
    expect_logits(p, hist, 3, l, 3, (float[]){ 2, -4 - 0.75f, 1 });
    p.repeat_last_n = 2;
    expect_logits(p, hist, 3, l, 3, (float[]){ 1 - 0.75f, -4 - 0.75f, 1 });
    p.repeat_last_n = 0;
    expect_logits(p, hist, 3, l, 3, l);
    p.repeat_last_n = -1;
    expect_logits(p, hist, 3, l, 3, (float[]){ 1 - 1.25f, -4 - 0.75f, 1 });
}
END_TEST

/* Clients may ask for any number: what is held does not grow with it. */
START_TEST(windows_end_with_the_context)
{
    struct sampler_params p = neutral();
    float l[] = { 2, -2, 1 };
    int32_t hist[] = { 0, 0, 1 };
    p.repeat_penalty = 2;
    p.dry_multiplier = 1;
    p.repeat_last_n = p.dry_last_n = INT32_MAX;
    size_t before = mallinfo2().hblkhd; /* 0 under sanitizers, where as much memory as that fails */
    struct sampler *s = make(p, 3);
    ck_assert_uint_lt(mallinfo2().hblkhd, before + (1 << 20));
    sampler_destroy(s);
    p.dry_multiplier = 0;
    expect_logits(p, hist, 3, l, 3, (float[]){ 1, -4, 1 });
}
END_TEST

START_TEST(bias_adds_and_suppresses)
{
    struct sampler_params p = neutral();
    struct logit_bias b[] = { { 0, 1.5f }, { 2, -INFINITY } };
    p.bias = b;
    p.n_bias = 2;
    float l[] = { 1, 1, 9 };
    EXPECT_IDS(p, l, 0, 1);
    p.temp = 0;
    EXPECT_IDS(p, l, 0);
    b[0].id = 3;
    struct sampler *s;
    struct err e = { 0 };
    ck_assert_int_eq(sampler_create(&p, 3, N_CTX, NULL, &s, &e), -EINVAL);
    ck_assert_str_eq(e.msg, "sampling: logit bias for token 3, the vocabulary has 3");
}
END_TEST

START_TEST(a_parameter_out_of_range_is_named)
{
    struct sampler *s;
    struct err e = { 0 };
    struct sampler_params p = neutral();
    p.min_p = 2;
    ck_assert_int_eq(sampler_create(&p, 3, N_CTX, NULL, &s, &e), -EINVAL);
    ck_assert_str_eq(e.msg, "sampling: min-p is 2, expected 0 to 1");
    p = neutral();
    p.temp = NAN;
    ck_assert_int_eq(sampler_create(&p, 3, N_CTX, NULL, &s, &e), -EINVAL);
}
END_TEST

START_TEST(the_generator_is_mt19937)
{
    struct mt19937 m;
    mt_seed(&m, 5489);
    uint32_t v = 0;
    for (int i = 0; i < 10000; i++)
        v = mt_next(&m);
    ck_assert_uint_eq(v, 4123659995u); /* ISO C++ [rand.predef] */
    mt_seed(&m, 5489);
    uint32_t a = mt_next(&m), b = mt_next(&m);
    mt_seed(&m, 5489);
    ck_assert_double_eq(mt_double(&m), ((double)a + (double)b * 4294967296.0) / 18446744073709551616.0);
}
END_TEST

START_TEST(a_seed_repeats_its_tokens)
{
    float l[50];
    for (int i = 0; i < 50; i++)
        l[i] = sinf((float)i);
    struct sampler_params p = sampler_defaults();
    p.seed = 42;
    struct sampler *a = make(p, 50), *b = make(p, 50);
    p.seed = 43;
    struct sampler *c = make(p, 50);
    int32_t first[64];
    uint32_t differ = 0;
    for (int i = 0; i < 64; i++) {
        first[i] = sampler_choose(a, l);
        ck_assert_int_eq(first[i], sampler_choose(b, l));
        differ += first[i] != sampler_choose(c, l);
    }
    ck_assert_uint_gt(differ, 0);
    sampler_reset(a);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(first[i], sampler_choose(a, l));
    sampler_destroy(a);
    sampler_destroy(b);
    sampler_destroy(c);
}
END_TEST

START_TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 20000 };
    double p3[] = { 0.5, 0.3, 0.2 }, chi = 0;
    uint32_t seen[3] = { 0 };
    float l[3];
    logs(p3, l, 3);
    struct sampler *s = make(neutral(), 3);
    for (int i = 0; i < DRAWS; i++)
        seen[sampler_choose(s, l)]++;
    for (int i = 0; i < 3; i++)
        chi += pow(seen[i] - DRAWS * p3[i], 2) / (DRAWS * p3[i]);
    ck_assert_msg(chi < 13.8, "chi-square %.2f with 2 degrees of freedom: %u %u %u", chi, seen[0], seen[1], seen[2]);
    sampler_destroy(s);
}
END_TEST

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

START_TEST(a_large_vocabulary_is_cut_as_a_full_sort_would)
{
    enum { N = 151936 };
    float *l = malloc(N * sizeof *l), *sorted = malloc(N * sizeof *l);
    struct mt19937 m;
    mt_seed(&m, 7);
    for (uint32_t i = 0; i < N; i++)
        sorted[i] = l[i] = 12 * mt_float(&m) * mt_float(&m) - 3;
    qsort(sorted, N, sizeof *sorted, falling);
    struct sampler_params p = sampler_defaults();
    p.seed = 1;
    p.top_p = 1;
    p.min_p = 0;
    p.temp = 1;
    const struct sampler_cand *c;
    static const int32_t ks[] = { 1, 40, 1000, N / 8 + 1, 0 };
    for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
        p.top_k = ks[i];
        p.top_p = ks[i] ? 1.0f : 0.9999f; /* all of them: top-p sorts */
        struct sampler *s = make(p, N);
        sampler_choose(s, l);
        uint32_t n = sampler_candidates(s, &c);
        ck_assert_msg(ks[i] ? n == (uint32_t)ks[i] : n > 1000 && n < N, "top-k %d: %u left", ks[i], n);
        for (uint32_t j = 0; j < n; j++) {
            ck_assert_float_eq(c[j].logit, sorted[j]);
            ck_assert_float_eq(l[c[j].id], sorted[j]);
        }
        sampler_destroy(s);
    }
    p = sampler_defaults();
    p.repeat_penalty = 1.1f;
    struct sampler *s = make(p, N);
    for (int i = 0; i < 50; i++) { /* what follows the first cut looks at what that left, not at the vocabulary */
        sampler_accept(s, sampler_choose(s, l));
        ck_assert_uint_le(sampler_candidates(s, &c), (uint32_t)p.top_k);
    }
    sampler_destroy(s);
    free(l);
    free(sorted);
}
END_TEST

/* The same logits among twice as many, of which the others cannot be chosen: no list is made of those. */
START_TEST(a_large_vocabulary_gives_the_tokens_of_a_small_one)
{
    enum { SMALL = 4096, LARGE = 2 * SMALL + 37 };
    static const struct { float temp, top_p, min_p, xtc; int32_t min_keep; bool bias; } ways[] = {
        { 1, 1, 0, 0, 0, false },      { 0.6f, 1, 0, 0, 0, true },      { 0.8f, 0.9f, 0, 0, 0, false },
        { 0.8f, 0.5f, 0.1f, 0, 0, true }, { 1.3f, 1, 0.02f, 0, 0, false }, { 1, 0.95f, 0, 0.5f, 0, false },
        { 1, 0.2f, 0, 0, 7, false },   { 1, 1, 0.9f, 0, 9, false },
    };
    float *small = malloc(SMALL * sizeof *small), *large = malloc(LARGE * sizeof *large);
    static const struct logit_bias bias[] = { { 3, -INFINITY }, { 700, -INFINITY } };
    struct mt19937 m;
    mt_seed(&m, 11);
    for (int shape = 0; shape < 3; shape++)
        for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
            struct sampler_params p = sampler_defaults();
            p.top_k = 0;
            p.temp = ways[w].temp;
            p.top_p = ways[w].top_p;
            p.min_p = ways[w].min_p;
            p.xtc_probability = ways[w].xtc;
            p.min_keep = ways[w].min_keep;
            p.bias = ways[w].bias ? bias : NULL;
            p.n_bias = ways[w].bias ? 2 : 0;
            p.seed = 5;
            struct sampler *a = make(p, SMALL), *b = make(p, LARGE);
            for (int i = 0; i < 40; i++) {
                for (uint32_t k = 0; k < SMALL; k++) {
                    float u = mt_float(&m) + 1e-6f;
                    small[k] = shape == 0 ? 20 * u * u * u : shape == 1 ? u : -9 * logf(u); /* few stand out, all alike, a tail */
                }
                small[700] = small[17] = 19;
                for (uint32_t k = 0; k < LARGE; k++)
                    large[k] = k < SMALL ? small[k] : k % 5 ? -INFINITY : NAN;
                int32_t x = sampler_choose(a, small), y = sampler_choose(b, large);
                ck_assert_msg(x == y, "shape %d, way %zu, choice %d: %d, of many %d", shape, w, i, x, y);
                ck_assert(!ways[w].bias || (x != 3 && x != 700));
            }
            sampler_destroy(a);
            sampler_destroy(b);
        }
    for (uint32_t k = 0; k < LARGE; k++)
        large[k] = NAN;
    struct sampler_params p = sampler_defaults();
    p.top_k = 0;
    struct sampler *b = make(p, LARGE);
    ck_assert_int_eq(sampler_choose(b, large), -1);
    large[8000] = INFINITY;
    ck_assert_int_eq(sampler_choose(b, large), 8000);
    sampler_destroy(b);
    free(small);
    free(large);
}
END_TEST

/* What a device draws stands unless it is suppressed; the shares of the others stay as they are to each other. */
START_TEST(a_suppressed_token_is_drawn_again)
{
    enum { N = 6, DRAWS = 40000 };
    static const float l[N] = { 1.0f, 0.5f, 2.0f, 0.0f, -INFINITY, 1.5f };
    static const struct logit_bias bias[] = { { 2, -INFINITY }, { 3, -INFINITY } };
    struct sampler_params p = sampler_defaults();
    p.rng = SAMPLER_RNG_COUNTER;
    p.top_p = p.temp = 1;
    p.min_p = 0;
    p.seed = 9;
    struct sampler *plain = make(p, N);
    p.bias = bias;
    p.n_bias = 2;
    struct sampler *s = make(p, N);
    uint32_t seen[N] = { 0 };
    double sum = exp(1.0) + exp(0.5) + exp(1.5);
    ka_sample how;
    ck_assert(sampler_device(s, &how));
    for (int i = 0; i < DRAWS; i++) {
        int32_t first = sampler_choose(plain, l), id = sampler_choose(s, l);
        ck_assert(id == first || sampler_refuses(s, first));
        seen[id]++;
    }
    ck_assert_uint_eq(seen[2] + seen[3] + seen[4], 0);
    for (int i = 0; i < N; i += i ? 4 : 1)
        ck_assert_float_eq_tol((float)seen[i] / DRAWS, (float)(exp((double)l[i]) / sum), 0.01f);
    sampler_destroy(plain);
    sampler_destroy(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler");
    TCase *t = tcase_create("sampler");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, greedy_takes_the_first_of_equal_maxima);
    tcase_add_test(t, a_large_vocabulary_gives_the_tokens_of_a_small_one);
    tcase_add_test(t, a_suppressed_token_is_drawn_again);
    tcase_add_test(t, logits_without_a_number_give_no_token);
    tcase_add_test(t, top_k_keeps_the_k_largest_in_order);
    tcase_add_test(t, top_p_includes_the_token_that_reaches_p);
    tcase_add_test(t, min_p_is_relative_to_the_best);
    tcase_add_test(t, typical_keeps_what_is_near_the_entropy);
    tcase_add_test(t, top_n_sigma_cuts_below_the_best);
    tcase_add_test(t, xtc_drops_all_but_the_last_top_choice);
    tcase_add_test(t, xtc_acts_with_its_probability);
    tcase_add_test(t, temperature_divides);
    tcase_add_test(t, dynamic_temperature_follows_the_entropy);
    tcase_add_test(t, penalties_follow_their_formula_and_window);
    tcase_add_test(t, bias_adds_and_suppresses);
    tcase_add_test(t, windows_end_with_the_context);
    tcase_add_test(t, a_parameter_out_of_range_is_named);
    tcase_add_test(t, the_generator_is_mt19937);
    tcase_add_test(t, a_seed_repeats_its_tokens);
    tcase_add_test(t, draws_follow_the_probabilities);
    tcase_add_test(t, a_large_vocabulary_is_cut_as_a_full_sort_would);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
