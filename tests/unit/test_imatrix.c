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

/* ---- the older form ---- */

struct dat {
    uint8_t p[4096];
    size_t n;
};

static void put(struct dat *d, const void *p, size_t n)
{
    memcpy(d->p + d->n, p, n);
    d->n += n;
}

static void put_i32(struct dat *d, int32_t v)
{
    put(d, &v, sizeof v);
}

static void put_entry(struct dat *d, const char *name, int32_t calls, const float *v, int32_t n)
{
    put_i32(d, (int32_t)strlen(name));
    put(d, name, strlen(name));
    put_i32(d, calls);
    put_i32(d, n);
    put(d, v, (size_t)n * sizeof *v);
}

static const float some[6] = { 2, 4, 6, 8, 0, 1 };

/* Two entries, the second of two experts with three columns; with `tail` what newer files have behind. */
static void put_dat(struct dat *d, bool tail)
{
    d->n = 0;
    put_i32(d, 2);
    put_entry(d, "blk.0.ffn_up.weight", 2, some, 4);
    put_entry(d, "blk.0.ffn_up_exps.weight", 4, some, 6);
    if (tail) {
        put_i32(d, 7);
        put_i32(d, 8);
        put(d, "text.raw", 8);
    }
}

START_TEST(the_older_form_is_read)
{
    struct dat d;
    struct imatrix *im;
    float w[4];
    for (int tail = 0; tail < 2; tail++) {
        put_dat(&d, tail);
        FILE *f = fopen(out, "wb");
        ck_assert(f && fwrite(d.p, 1, d.n, f) == d.n && fclose(f) == 0);
        ck_assert_msg(imatrix_read(out, &im, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(im->n, 2);
        ck_assert_uint_eq(im->chunk_count, tail ? 7 : 0);
        ck_assert_msg(tail ? im->dataset && strcmp(im->dataset, "text.raw") == 0 : !im->dataset, "%s", im->dataset);
        ck_assert_ptr_null(im->model);
        ck_assert(imatrix_weights(imatrix_find(im, "blk.0.ffn_up.weight"), 0, w));
        ck_assert(w[0] == 1 && w[1] == 2 && w[2] == 3 && w[3] == 4);
        ck_assert_int_eq(imatrix_fit(im, "blk.0.ffn_up.weight", 4, 1, &e), 0);
        ck_assert_int_eq(imatrix_fit(im, "blk.0.ffn_up.weight", 2, 1, &e), -EINVAL);
        ck_assert_int_eq(imatrix_fit(im, "blk.0.ffn_up_exps.weight", 3, 3, &e), -EINVAL);
        ck_assert_int_eq(imatrix_fit(im, "blk.0.ffn_up_exps.weight", 3, 2, &e), 0);
        ck_assert_int_eq(imatrix_fit(im, "blk.0.ffn_up_exps.weight", 3, 2, &e), 0);
        ck_assert_int_eq(imatrix_fit(im, "blk.1.ffn_up.weight", 3, 2, &e), 0);
        ck_assert(imatrix_weights(imatrix_find(im, "blk.0.ffn_up_exps.weight"), 1, w));
        ck_assert(w[0] == 2 && w[1] == 0 && w[2] == 0.25f);
        imatrix_destroy(im);
    }
}
END_TEST

/* What is refused: nothing is kept, and one line says why. */
static void refused(const struct dat *d, size_t n, const char *what)
{
    struct imatrix *im = (struct imatrix *)&e;
    void *exact = malloc(n ? n : 1); /* so that a byte too many is seen */
    memcpy(exact, d->p, n);
    e = (struct err){ 0 };
    ck_assert_msg(imatrix_read_dat("x.dat", exact, n, &im, &e) == -EINVAL, "%s is taken", what);
    ck_assert_msg(!im && strncmp(e.msg, "x.dat: ", 7) == 0 && !strchr(e.msg, '\n'), "%s: %s", what, e.msg);
    free(exact);
}

START_TEST(damage_to_the_older_form_is_told)
{
    struct dat d;
    char what[64];
    put_dat(&d, false);
    size_t whole = d.n;
    put_dat(&d, true);
    for (size_t n = 0; n < d.n; n++)
        if (n != whole) { /* which is a file of before there was a tail */
            snprintf(what, sizeof what, "the first %zu bytes", n);
            refused(&d, n, what);
        }
    d.p[d.n] = 0;
    refused(&d, d.n + 1, "a byte too many");
    static const struct {
        size_t at;
        int32_t v;
        const char *what;
    } bad[] = {
        { 0, 0, "no entries" }, { 0, -1, "-1 entries" }, { 0, 3, "an entry that is not there" }, { 0, 1, "an entry fewer" }, { 0, INT32_MAX, "2^31 - 1 entries" },
        { 4, 0, "an empty name" }, { 4, -5, "a name of -5 bytes" }, { 4, INT32_MAX, "an endless name" }, { 8, 0x0a0a0a0a, "newlines in a name" },
        { 27, -1, "-1 calls" }, { 31, 0, "no values" }, { 31, -2, "-2 values" }, { 31, INT32_MAX, "2^31 - 1 values" }, { 35, 0x7fc00000, "NaN" },
        { 35, 0x7f800000, "infinity" }, { 35, (int32_t)0xbf800000, "-1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_dat(&d, true);
        memcpy(d.p + bad[i].at, &bad[i].v, 4);
        refused(&d, d.n, bad[i].what);
    }
    put_dat(&d, true);
    memcpy(d.p + d.n - 12, &(int32_t){ -1 }, 4);
    refused(&d, d.n, "a text's name of -1 bytes");
    d.n = 0;
    put_i32(&d, 2);
    put_entry(&d, "same", 1, some, 2);
    put_entry(&d, "same", 1, some, 2);
    refused(&d, d.n, "a name twice");
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
    tcase_add_test(t, the_older_form_is_read);
    tcase_add_test(t, damage_to_the_older_form_is_told);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
