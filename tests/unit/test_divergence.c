/* Divergence: known distributions; files of a reference's answers keep them within their step, and what is cut, damaged or of
 * another text is refused with the remedy. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/proof/perplexity.h"
#include "engine/proof/ref_logits.h"
#include "tests/unit/tiny_model.h"

enum { WINDOW = 16, ROWS = WINDOW - WINDOW / 2 - 1, WINDOWS = 2 };

static char model[] = "/tmp/zinc-div-XXXXXX", file[64];
static struct engine *eng;
static struct err e;

static void setup(void)
{
    tiny_model(model, "tiny-qwen3");
    snprintf(file, sizeof file, "%s.ref", model);
    ck_assert_int_eq(engine_open_vocab(model, &eng, &e), 0);
}

static void teardown(void)
{
    engine_close(eng);
    unlink(model);
    unlink(file);
}

START_TEST(known_distributions)
{
    const float p[] = { logf(0.5f), logf(0.25f), logf(0.25f) }, q[] = { 7 + logf(0.25f), 7 + logf(0.25f), 7 + logf(0.5f) };
    const float never[] = { 0, 0, -INFINITY };
    ck_assert_double_eq_tol(divergence_kl(p, q, 3), 0.5 * log(2) + 0.25 * log(0.5), 1e-6);
    ck_assert_double_eq_tol(divergence_kl(p, p, 3), 0, 1e-9);
    ck_assert(isfinite(divergence_kl(p, never, 3)) && divergence_kl(p, never, 3) > 20);

    struct divergence d = { 0 };
    struct divergence_result r;
    divergence_conclude(&d, &r);
    ck_assert(r.n == 0 && r.kl == 0);
    for (int i = 0; i < 5000; i++)
        ck_assert_int_eq(divergence_add(&d, p, i % 4 ? p : q, 3, 1.0, i % 4 ? 1.0 : 1.5), 0);
    divergence_conclude(&d, &r);
    double kl = 0.25 * log(2), sd = sqrt(0.25 * 0.75 / 4999);
    ck_assert_uint_eq(r.n, 5000);
    ck_assert_double_eq_tol(r.kl, kl / 4, 1e-6);
    ck_assert_double_eq_tol(r.kl_error, kl * sd, 1e-6);
    ck_assert_double_eq_tol(r.kl_median, 0, 1e-6);
    ck_assert_double_eq_tol(r.kl_99, kl, 1e-6);
    ck_assert_double_eq_tol(r.same, 0.75, 1e-9);
    ck_assert_double_eq_tol(r.same_error, sd, 1e-9);
    ck_assert_double_eq_tol(r.ref_ppl, exp(1), 1e-9);
    ck_assert_double_eq_tol(r.ratio, exp(0.125), 1e-9);
    ck_assert_double_eq_tol(r.ratio_error, exp(0.125) * 0.5 * sd, 1e-6);
    divergence_finish(&d);
}
END_TEST

static float logit(uint32_t row, uint32_t i)
{
    return 4 * sinf((float)(row * 977 + i * 131 % 4093)) - (i % 50 == 7 ? 60 : 0);
}

static void write_it(const char *path, uint32_t windows)
{
    struct ref_logits_head h;
    struct ref_writer *w;
    int32_t tok[WINDOW];
    ref_logits_describe(eng, WINDOW, windows, &h);
    float *l = calloc(h.n_vocab, sizeof *l);
    ck_assert_msg(ref_writer_create(path, &h, &w, &e) == 0, "%s", e.msg);
    for (uint32_t k = 0; k < windows; k++) {
        for (uint32_t i = 0; i < WINDOW; i++)
            tok[i] = (int32_t)(k * WINDOW + i);
        ck_assert_int_eq(ref_writer_window(w, tok, &e), 0);
        for (uint32_t row = 0; row < ROWS; row++) {
            for (uint32_t i = 0; i < h.n_vocab; i++)
                l[i] = logit(k * ROWS + row, i);
            ck_assert_int_eq(ref_writer_row(w, l, row * 0.25, &e), 0);
        }
    }
    ck_assert_msg(ref_writer_finish(w, &e) == 0, "%s", e.msg);
    ref_writer_destroy(w);
    free(l);
}

START_TEST(a_file_gives_back_what_was_saved)
{
    struct ref_logits_head h;
    struct ref_reader *r;
    write_it(file, WINDOWS);
    ref_logits_describe(eng, WINDOW, 1, &h);
    ck_assert_msg(ref_reader_open(file, &h, &r, &e) == 0, "%s", e.msg);
    float *got = calloc(h.n_vocab, sizeof *got);
    double worst = 0;
    for (uint32_t k = 0; k < WINDOWS; k++) {
        ck_assert_int_eq(ref_reader_window(r, k, &e), 0);
        for (uint32_t row = 0; row < ROWS; row++) {
            double z = 0, nll = ref_reader_row(r, row, got);
            ck_assert_double_eq(nll, row * 0.25);
            for (uint32_t i = 0; i < h.n_vocab; i++)
                z += exp((double)logit(k * ROWS + row, i));
            for (uint32_t i = 0; i < h.n_vocab; i++) {
                double want = (double)logit(k * ROWS + row, i) - log(z);
                if (want > got[0] - 20)
                    worst = fmax(worst, fabs(want - (double)got[i]));
            }
        }
    }
    ck_assert_msg(worst < 3e-4, "off by %g", worst);
    free(got);
    ref_reader_close(r);
}
END_TEST

static void refused(const struct ref_logits_head *h, const char *words)
{
    struct ref_reader *r;
    int rc = ref_reader_open(file, h, &r, &e);
    if (!rc)
        rc = ref_reader_window(r, 1, &e);
    ck_assert_msg(rc < 0 && strstr(e.msg, words) && strstr(e.msg, file), "not '%s': %d %s", words, rc, rc ? e.msg : "");
    ref_reader_close(rc ? r : NULL);
}

static void poke(long at)
{
    FILE *f = fopen(file, "r+");
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

START_TEST(other_files_are_refused_with_the_remedy)
{
    struct ref_logits_head h, other;
    struct ref_reader *r;
    struct stat st;
    int32_t tok[WINDOW] = { 0 };
    ref_logits_describe(eng, WINDOW, 2, &h);
    write_it(file, WINDOWS);
    ck_assert_int_eq(ref_reader_open(file, &h, &r, &e), 0);
    ck_assert_int_eq(ref_reader_check(r, 1, tok, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "another text: window 2"), "%s", e.msg);
    ref_reader_close(r);
    other = h;
    other.n_window = 32;
    refused(&other, "--ctx 16");
    other = h;
    other.n_windows = 5;
    refused(&other, "--chunks 2");
    other = h;
    other.vocab_hash ^= 1;
    refused(&other, "vocabulary");
    stat(file, &st);
    poke(st.st_size - 100);
    refused(&h, "window 2 is damaged");
    poke(st.st_size - 100);
    poke(40);
    refused(&h, "head of the file is damaged");
    poke(40);
    ck_assert_int_eq(truncate(file, st.st_size - 1), 0);
    refused(&h, "cut");
    ck_assert_int_eq(truncate(file, 20), 0);
    refused(&h, "no file of --save-logits");
}
END_TEST

START_TEST(an_unfinished_file_leaves_nothing)
{
    struct ref_logits_head h;
    struct ref_writer *w;
    ref_logits_describe(eng, WINDOW, 2, &h);
    unlink(file);
    ck_assert_int_eq(ref_writer_create(file, &h, &w, &e), 0);
    ck_assert_int_eq(ref_writer_finish(w, &e), -EINVAL);
    ref_writer_destroy(w);
    ck_assert_int_ne(access(file, F_OK), 0);
    ck_assert_int_eq(ref_writer_create("/dev/null", &h, &w, &e), -EINVAL);
    ref_writer_destroy(w);
    ck_assert_int_eq(ref_writer_create("/nonexistent/x", &h, &w, &e), -ENOENT);
    ref_writer_destroy(w);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("divergence");
    TCase *t = tcase_create("divergence");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_add_test(t, known_distributions);
    tcase_add_test(t, a_file_gives_back_what_was_saved);
    tcase_add_test(t, other_files_are_refused_with_the_remedy);
    tcase_add_test(t, an_unfinished_file_leaves_nothing);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
