/* Importance matrices: sums of the first layer's inputs by hand, rows of experts add up, threads and chunks change nothing; files
 * come back as they were written, and hostile ones are refused. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/proof/imatrix.h"
#include "model/gguf.h"
#include "model/gguf_write.h"
#include "tests/unit/tiny_model.h"

enum { WINDOW = 32, N_TEXT = 80, WINDOWS = N_TEXT / WINDOW };

static char dense[] = "/tmp/zinc-ima-XXXXXX", moe[] = "/tmp/zinc-imb-XXXXXX", out[64];
static struct err e;

static void setup(void)
{
    tiny_model(dense, "tiny-qwen3");
    tiny_model(moe, "tiny-qwen35moe");
    snprintf(out, sizeof out, "%s.im", dense);
}

static void teardown(void)
{
    unlink(dense);
    unlink(moe);
    unlink(out);
}

static struct imatrix *collect(const char *path, int threads, uint32_t chunk)
{
    struct engine_opts o = { .path = path, .tier = "cpu", .n_ctx = WINDOW, .chunk = chunk, .score_rows = WINDOW, .threads = threads };
    struct perplexity_text t = { .ids = calloc(N_TEXT, sizeof(int32_t)), .n = N_TEXT, .bos = -1 };
    struct imatrix_opts io = { .n_window = WINDOW, .dataset = "by hand" };
    struct engine *eng;
    struct session *s;
    struct imatrix *im;
    for (uint32_t i = 0; i < N_TEXT; i++)
        t.ids[i] = (int32_t)(i * 97 % 256);
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    ck_assert_msg(imatrix_collect(s, &t, &io, &im, &e) == 0, "%s", e.msg);
    perplexity_text_free(&t);
    session_destroy(s);
    engine_close(eng);
    return im;
}

static const float *floats(const struct gguf *g, const char *name)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    ck_assert_msg(t && t->type == QT_F32, "%s", name);
    return (const float *)t->data;
}

/* What the first layer's attention is multiplied by: the embedding, normed. */
START_TEST(the_first_layers_sums_by_hand)
{
    struct imatrix *im = collect(dense, 2, 16);
    struct gguf *g;
    ck_assert_int_eq(gguf_open(dense, &g, &e), 0);
    const struct gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
    const float *norm = floats(g, "blk.0.attn_norm.weight");
    const struct imatrix_entry *q = imatrix_find(im, "blk.0.attn_q.weight"), *v = imatrix_find(im, "blk.0.attn_v.weight");
    uint32_t n = (uint32_t)t->ne[0];
    double *sum = calloc(n, sizeof *sum);
    ck_assert_ptr_nonnull(q);
    ck_assert_uint_eq(q->n_in, n);
    ck_assert_double_eq(q->count[0], WINDOWS * WINDOW);
    ck_assert_uint_eq(t->type, QT_F32);
    for (uint32_t i = 0; i < WINDOWS * WINDOW; i++) {
        const float *x = (const float *)t->data + (size_t)(i * 97 % 256) * n;
        double ss = 0;
        for (uint32_t k = 0; k < n; k++)
            ss += (double)x[k] * (double)x[k];
        for (uint32_t k = 0; k < n; k++)
            sum[k] += pow((double)x[k] / sqrt(ss / n + 1e-6) * (double)norm[k], 2);
    }
    for (uint32_t k = 0; k < n; k++) {
        ck_assert_double_eq_tol(q->sum2[k], sum[k], 1e-4 * (sum[k] + 1e-3));
        ck_assert(q->sum2[k] == v->sum2[k]);
    }
    ck_assert_ptr_nonnull(imatrix_find(im, "blk.0.ffn_down.weight"));
    free(sum);
    gguf_close(g);
    imatrix_destroy(im);
}
END_TEST

START_TEST(threads_and_steps_change_nothing)
{
    struct imatrix *a = collect(moe, 1, 8), *b = collect(moe, 3, 32);
    ck_assert_uint_eq(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        ck_assert_str_eq(a->e[i].name, b->e[i].name);
        ck_assert(memcmp(a->e[i].count, b->e[i].count, a->e[i].n_mats * sizeof(double)) == 0);
        for (uint64_t k = 0; k < (uint64_t)a->e[i].n_in * a->e[i].n_mats; k++)
            ck_assert_double_eq_tol(a->e[i].sum2[k], b->e[i].sum2[k], 1e-3 * fabs(a->e[i].sum2[k]) + 1e-6);
    }
    imatrix_destroy(a);
    a = collect(moe, 2, 32);
    for (uint32_t i = 0; i < a->n; i++)
        ck_assert(memcmp(a->e[i].sum2, b->e[i].sum2, sizeof(double) * a->e[i].n_in * a->e[i].n_mats) == 0);
    imatrix_destroy(a);
    imatrix_destroy(b);
}
END_TEST

START_TEST(each_expert_has_its_own_rows)
{
    struct imatrix *im = collect(moe, 2, 32);
    const struct imatrix_entry *up = NULL, *down = NULL, *router = NULL;
    for (uint32_t i = 0; i < im->n; i++) {
        up = up || !strstr(im->e[i].name, "ffn_up_exps") ? up : &im->e[i];
        down = down || !strstr(im->e[i].name, "ffn_down_exps") ? down : &im->e[i];
        router = router || !strstr(im->e[i].name, "ffn_gate_inp.") ? router : &im->e[i];
    }
    ck_assert(up && down && router && up->n_mats > 1 && up->n_mats == down->n_mats);
    double rows = 0, few = 0, sum = 0, one = 0;
    for (uint32_t m = 0; m < up->n_mats; m++) {
        rows += up->count[m];
        few += up->count[m] < 10;
        ck_assert(up->count[m] == down->count[m]);
        sum += up->sum2[(size_t)m * up->n_in];
    }
    one = router->sum2[0];
    double k = rows / (WINDOWS * WINDOW);
    ck_assert_msg(k >= 1 && k == floor(k), "%g experts a row", k);
    ck_assert_double_eq_tol(sum, k * one, 1e-9 * sum); /* the router sees each row once, the experts k times */
    uint32_t n_few, n_none;
    imatrix_unseen(up, 10, &n_few, &n_none);
    ck_assert_uint_eq(n_few, (uint32_t)few);
    imatrix_destroy(im);
}
END_TEST

START_TEST(a_file_comes_back)
{
    struct imatrix *a = collect(moe, 2, 32), *b;
    ck_assert_msg(imatrix_write(a, out, &e) == 0, "%s", e.msg);
    ck_assert_msg(imatrix_read(out, &b, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(b->dataset, "by hand");
    ck_assert_uint_eq(b->chunk_size, WINDOW);
    ck_assert_uint_eq(b->chunk_count, WINDOWS);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct imatrix_entry *x = &b->e[i], *y = imatrix_find(a, x->name);
        ck_assert(y && x->n_in == y->n_in && x->n_mats == y->n_mats);
        for (uint64_t k = 0; k < (uint64_t)x->n_in * x->n_mats; k++)
            ck_assert(x->sum2[k] == (double)(float)y->sum2[k]);
    }
    imatrix_destroy(a);
    imatrix_destroy(b);
}
END_TEST

START_TEST(weights_are_mean_squares)
{
    struct imatrix *im;
    float w[2];
    ck_assert_int_eq(imatrix_create(&im, &e), 0);
    struct imatrix_entry *en = imatrix_add(im, "x", 2, 3);
    memcpy(en->sum2, (double[]){ 8, 2, 0, 0, 4, 6 }, 6 * sizeof(double));
    memcpy(en->count, (double[]){ 4, 0, 2 }, 3 * sizeof(double));
    ck_assert(imatrix_weights(en, 0, w) && w[0] == 2 && w[1] == 0.5f);
    ck_assert(imatrix_weights(en, 1, w) && w[0] == 2 && w[1] == (float)(8.0 / 6)); /* no row: those of all */
    memset(en->sum2, 0, 6 * sizeof(double));
    ck_assert(!imatrix_weights(en, 0, w) && w[0] == 1 && w[1] == 1);
    imatrix_destroy(im);
}
END_TEST

/* what: 0 right, then one thing wrong each */
static int made(int what)
{
    struct gguf_writer *w;
    struct imatrix *im = NULL;
    float sums[4] = { 1, 2, 3, what == 1 ? -1 : 4 }, counts[2] = { 1, what == 2 ? NAN : 1 };
    ck_assert_int_eq(gguf_writer_create(out, &w, &e), 0);
    gguf_put_str(w, "general.type", what == 3 ? "model" : "imatrix");
    gguf_put_u32(w, "imatrix.chunk_count", 1);
    gguf_put_u32(w, "imatrix.chunk_size", 512);
    gguf_put_tensor(w, what == 4 ? ".in_sum2" : "a.in_sum2", QT_F32, 2, (uint64_t[]){ 2, 2 });
    if (what != 5)
        gguf_put_tensor(w, "a.counts", QT_F32, 2, (uint64_t[]){ 1, what == 6 ? 1 : 2 });
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    ck_assert_int_eq(gguf_writer_data(w, sums, sizeof sums, &e), 0);
    if (what != 5)
        ck_assert_int_eq(gguf_writer_data(w, counts, what == 6 ? 4 : 8, &e), 0);
    ck_assert_msg(gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    gguf_writer_destroy(w);
    int rc = imatrix_read(out, &im, &e);
    imatrix_destroy(im);
    return rc;
}

START_TEST(broken_files_are_refused)
{
    static const char *const words[] = { "", "a.in_sum2[3] is -1", "a.counts[1] is nan", "'imatrix' is expected", "name of 0 bytes",
                                         "found 0", "found 1" };
    ck_assert_int_eq(made(0), 0);
    for (int i = 1; i < (int)ARRAY_LEN(words); i++) {
        ck_assert_int_eq(made(i), -EINVAL);
        ck_assert_msg(strstr(e.msg, words[i]), "%d: %s", i, e.msg);
    }
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("imatrix");
    TCase *t = tcase_create("imatrix");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_first_layers_sums_by_hand);
    tcase_add_test(t, threads_and_steps_change_nothing);
    tcase_add_test(t, each_expert_has_its_own_rows);
    tcase_add_test(t, a_file_comes_back);
    tcase_add_test(t, weights_are_mean_squares);
    tcase_add_test(t, broken_files_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
