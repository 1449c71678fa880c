/* Perplexity: likelihoods of logits made by hand; windows, halves and the begin-of-text token on the null tier, whose
 * logits are known (the winner, 31 token + position, has 8, the others a fixed noise); what is refused. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/proof/perplexity.h"
#include "tests/unit/tiny_model.h"

enum { N_VOCAB = 640, WINDOW = 16, N_TEXT = 56 };

static char path[] = "/tmp/zinc-ppl-XXXXXX", path_bos[] = "/tmp/zinc-ppb-XXXXXX";

static void setup(void)
{
    tiny_model(path, "tiny-qwen3");
    tiny_model(path_bos, "tiny-llama3");
}

static void teardown(void)
{
    unlink(path);
    unlink(path_bos);
}

static struct engine *open_null(const char *file)
{
    struct engine_opts o = { .path = file, .tier = "null", .n_ctx = WINDOW, .chunk = 16, .score_rows = 3 };
    struct engine *eng;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static struct session *new_session(struct engine *eng)
{
    struct session *s;
    ck_assert_int_eq(session_create(eng, &s, NULL), 0);
    return s;
}

/* Ids that the vocabulary has, in no order. The array is the text's. */
static struct perplexity_text some_text(int32_t bos)
{
    struct perplexity_text t = { .ids = calloc(N_TEXT, sizeof(int32_t)), .n = N_TEXT, .bos = bos };
    for (uint32_t i = 0; i < N_TEXT; i++)
        t.ids[i] = (int32_t)(i * 97 % 256);
    return t;
}

START_TEST(likelihoods_of_logits_made_by_hand)
{
    const float flat[] = { 0, 0, 0, 0 }, high[] = { 1000, 1000, 1000, 1000 };
    const float tenths[] = { 0, logf(2), logf(3), logf(4) }; /* of 10 */
    const float one[] = { -INFINITY, 5, -INFINITY, -INFINITY };
    const float wide[] = { 0, -300, 0, -400 };
    ck_assert_double_eq_tol(perplexity_nll(flat, 4, 2), log(4), 1e-12);
    ck_assert_double_eq_tol(perplexity_nll(high, 4, 0), log(4), 1e-12);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(perplexity_nll(tenths, 4, i), -log((i + 1) / 10.0), 1e-6);
    ck_assert_double_eq(perplexity_nll(one, 4, 1), 0);
    ck_assert_double_eq(perplexity_nll(one, 4, 0), INFINITY);
    ck_assert_double_eq_tol(perplexity_nll(wide, 4, 3), 400 + log(2), 1e-9);
}
END_TEST

START_TEST(logits_that_are_no_distribution_have_no_likelihood)
{
    const float nan_there[] = { 0, NAN, 0 }, none[] = { -INFINITY, -INFINITY, -INFINITY }, inf[] = { 0, INFINITY, 0 };
    for (int i = 0; i < 3; i++) {
        ck_assert(!isfinite(perplexity_nll(nan_there, 3, i)));
        ck_assert(!isfinite(perplexity_nll(none, 3, i)));
        ck_assert(!isfinite(perplexity_nll(inf, 3, i)));
    }
}
END_TEST

/* The definition again, one token at a time: tokens 9..15 of each window of 16. */
static double nll_by_hand(const struct perplexity_text *t, uint32_t n_windows, double *error)
{
    double v[64], sum = 0, var = 0;
    uint32_t n = 0;
    for (uint32_t w = 0; w < n_windows; w++)
        for (uint32_t pos = 8; pos < 15; pos++) {
            const int32_t *tok = t->ids + w * WINDOW;
            uint32_t winner = (31u * (uint32_t)tok[pos] + pos) % N_VOCAB, next = (uint32_t)tok[pos + 1];
            double z = 0;
            for (uint32_t i = 0; i < N_VOCAB; i++)
                z += exp(i == winner ? 8 : -(double)(i * 2654435761u >> 8) * 0x1p-24);
            v[n++] = log(z) - (next == winner ? 8 : -(double)(next * 2654435761u >> 8) * 0x1p-24);
        }
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    for (uint32_t i = 0; i < n; i++)
        var += (v[i] - sum / n) * (v[i] - sum / n) / n;
    *error = sqrt(var / (n - 1));
    return sum / n;
}

START_TEST(the_second_half_of_each_window_is_counted)
{
    static const uint32_t most[] = { 0, 1, 2, 3, 9 }, want[] = { 3, 1, 2, 3, 3 }; /* 56 tokens: 8 are left over */
    struct engine *eng = open_null(path);
    struct session *s = new_session(eng);
    struct perplexity_text t = some_text(-1);
    t.ids[WINDOW + 11] = (31 * t.ids[WINDOW + 10] + 10) % N_VOCAB; /* the winner once, in the second window */
    for (size_t i = 0; i < ARRAY_LEN(most); i++) {
        struct perplexity_opts o = { .n_window = WINDOW, .max_windows = most[i] };
        struct perplexity_result r;
        double error, nll = nll_by_hand(&t, want[i], &error);
        ck_assert_int_eq(perplexity(s, &t, &o, &r, NULL), 0);
        ck_assert_uint_eq(r.n_windows, want[i]);
        ck_assert_uint_eq(r.n_counted, want[i] * 7);
        ck_assert_double_eq_tol(r.nll, nll, 1e-6);
        ck_assert_double_eq_tol(r.nll_error, error, 1e-6);
        ck_assert_double_eq_tol(r.ppl, exp(nll), 1e-3);
        ck_assert_double_eq_tol(r.ppl_error, exp(nll) * error, 1e-3);
        ck_assert_double_eq_tol(r.bits_per_byte, nll * r.n_counted / log(2) / (double)r.n_bytes, 1e-5);
    }
    perplexity_text_free(&t);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

START_TEST(odd_windows_are_cut_in_the_middle_too)
{
    struct engine *eng = open_null(path);
    struct session *s = new_session(eng);
    struct perplexity_text t = some_text(-1);
    for (uint32_t n = PERPLEXITY_MIN_WINDOW; n <= WINDOW; n++) {
        struct perplexity_opts o = { .n_window = n };
        struct perplexity_result r;
        ck_assert_int_eq(perplexity(s, &t, &o, &r, NULL), 0);
        ck_assert_uint_eq(r.n_windows, N_TEXT / n);
        ck_assert_uint_eq(r.n_counted, N_TEXT / n * (n - n / 2 - 1));
    }
    perplexity_text_free(&t);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

START_TEST(each_window_begins_with_the_token_that_the_model_wants)
{
    static const char text[] = "The stream is data: fixed commands, an arena of arguments and a table of patches.";
    struct engine *eng;
    struct perplexity_text t, plain;
    int32_t tok[WINDOW];
    ck_assert_int_eq(engine_open_vocab(path_bos, &eng, NULL), 0);
    ck_assert_int_eq(perplexity_encode(eng, text, strlen(text), false, &t, NULL), 0);
    ck_assert_int_eq(t.bos, 632);
    ck_assert_int_eq(t.ids[0], 632);
    ck_assert_uint_ge(t.n, 2 * WINDOW);
    for (uint32_t w = 0; w < 2; w++) {
        perplexity_window(&t, w, WINDOW, tok);
        ck_assert_int_eq(tok[0], 632);
        ck_assert_int_eq(memcmp(tok + 1, t.ids + w * WINDOW + 1, (WINDOW - 1) * sizeof *tok), 0);
    }
    ck_assert_int_ne(t.ids[WINDOW], 632); /* which is left as it is */
    engine_close(eng);

    ck_assert_int_eq(engine_open_vocab(path, &eng, NULL), 0);
    ck_assert_int_eq(perplexity_encode(eng, text, strlen(text), false, &plain, NULL), 0);
    ck_assert_int_eq(plain.bos, -1);
    perplexity_window(&plain, 1, WINDOW, tok);
    ck_assert_int_eq(memcmp(tok, plain.ids + WINDOW, sizeof tok), 0);
    perplexity_text_free(&t);
    perplexity_text_free(&plain);
    engine_close(eng);
}
END_TEST

START_TEST(control_tokens_in_the_text_are_text)
{
    static const char text[] = "<|im_start|>";
    struct engine *eng;
    struct perplexity_text t;
    ck_assert_int_eq(engine_open_vocab(path, &eng, NULL), 0);
    ck_assert_int_eq(perplexity_encode(eng, text, strlen(text), false, &t, NULL), 0);
    ck_assert_uint_gt(t.n, 1);
    perplexity_text_free(&t);
    engine_close(eng);
}
END_TEST

START_TEST(what_cannot_be_measured_is_refused_with_figures)
{
    struct engine *eng = open_null(path);
    struct perplexity_text t = some_text(-1), none = { .bos = -1 };
    struct err e = { 0 };
    uint32_t n;
    ck_assert_int_eq(perplexity_windows(eng, &t, 57, 0, &n, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "has 56 tokens") && strstr(e.msg, "needs 57"), "%s", e.msg);
    ck_assert_int_eq(perplexity_windows(eng, &none, 8, 0, &n, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "has 0 tokens"), "%s", e.msg);
    ck_assert_int_eq(perplexity_windows(eng, &t, 7, 0, &n, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "at least 8"), "%s", e.msg);
    ck_assert_int_eq(perplexity_windows(eng, &t, 4097, 0, &n, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "4097") && strstr(e.msg, "--ctx 4096 or less"), "%s", e.msg);
    ck_assert_int_eq(perplexity_windows(eng, &t, 56, 0, &n, &e), 0);
    ck_assert_uint_eq(n, 1);

    struct perplexity_text p;
    ck_assert_int_eq(perplexity_encode(eng, "one\ntwo\n\xc3(", 10, false, &p, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "byte 0xc3 at 8, line 3"), "%s", e.msg);
    ck_assert_int_eq(perplexity_encode(eng, "caf\xc3", 4, false, &p, &e), -EINVAL); /* cut in the middle of a character */
    ck_assert_int_eq(perplexity_encode(eng, "caf\xc3\xa9", 5, false, &p, &e), 0);
    perplexity_text_free(&p);
    perplexity_text_free(&t);
    engine_close(eng);
}
END_TEST

static bool stop_after_two(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    ck_assert_str_eq(what, "perplexity");
    ck_assert_uint_eq(total, 3 * WINDOW);
    return done < 2 * WINDOW;
}

START_TEST(what_was_evaluated_before_an_interruption_counts)
{
    struct engine *eng = open_null(path);
    struct session *s = new_session(eng);
    struct perplexity_text t = some_text(-1);
    struct progress two = { .fn = stop_after_two };
    struct perplexity_opts o = { .n_window = WINDOW, .progress = &two };
    struct perplexity_result r;
    struct err e = { 0 };
    double error, nll = nll_by_hand(&t, 2, &error);
    ck_assert_int_eq(perplexity(s, &t, &o, &r, &e), -ECANCELED);
    ck_assert_msg(strstr(e.msg, "2 of 3 windows"), "%s", e.msg);
    ck_assert_uint_eq(r.n_windows, 2);
    ck_assert_double_eq_tol(r.nll, nll, 1e-6);
    struct flag cancel = { 1 };
    o = (struct perplexity_opts){ .n_window = WINDOW, .cancel = &cancel };
    ck_assert_int_eq(perplexity(s, &t, &o, &r, &e), -ECANCELED);
    ck_assert_uint_eq(r.n_windows, 0);
    perplexity_text_free(&t);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("perplexity");
    TCase *t = tcase_create("perplexity");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, likelihoods_of_logits_made_by_hand);
    tcase_add_test(t, logits_that_are_no_distribution_have_no_likelihood);
    tcase_add_test(t, the_second_half_of_each_window_is_counted);
    tcase_add_test(t, odd_windows_are_cut_in_the_middle_too);
    tcase_add_test(t, each_window_begins_with_the_token_that_the_model_wants);
    tcase_add_test(t, control_tokens_in_the_text_are_text);
    tcase_add_test(t, what_cannot_be_measured_is_refused_with_figures);
    tcase_add_test(t, what_was_evaluated_before_an_interruption_counts);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
