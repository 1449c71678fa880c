/* Layouts of early conversions: a qwen3next file whose q, k, v and z are one matrix by key head is read, run and quantised as the
 * same model in today's layout is, to the bit. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/gguf_write.h"
#include "model/model.h"
#include "model/recut.h"
#include "tests/unit/same_logits.h"
#include "tests/unit/tiny_model.h"

enum { N_K = 2, N_V = 4, HEAD = 128, VALUES = N_V / N_K * HEAD, PROMPT = 9 };

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static char now[] = "/tmp/zinc_recut_XXXXXX", early[] = "/tmp/zinc_recut_early_XXXXXX";

static void put(struct gguf_writer *w, const uint8_t *rows, uint64_t first, uint64_t n, uint64_t row_bytes)
{
    OK(gguf_writer_data(w, rows + first * row_bytes, n * row_bytes, &e));
}

/* The rows of attn_qkv and attn_gate by key head. */
static void put_groups(struct gguf_writer *w, const struct gguf_tensor *qkv, const struct gguf_tensor *gate)
{
    uint64_t row = qtype_row_bytes(qkv->type, qkv->ne[0]);
    for (int k = 0; k < N_K; k++) {
        put(w, qkv->data, (uint64_t)k * HEAD, HEAD, row);
        put(w, qkv->data, (uint64_t)(N_K + k) * HEAD, HEAD, row);
        put(w, qkv->data, (uint64_t)(2 * N_K * HEAD + k * VALUES), VALUES, row);
        put(w, gate->data, (uint64_t)k * VALUES, VALUES, row);
    }
}

static bool ends_with(const struct gguf_tensor *t, const char *end)
{
    return t->name.len > strlen(end) && memcmp(t->name.s + t->name.len - strlen(end), end, strlen(end)) == 0;
}

/* Writes the file at `now` as early converters did; `extra` rows too many, `both`: beside today's tensors. */
static void write_early(uint64_t extra, bool both)
{
    struct gguf *g;
    struct gguf_writer *w;
    OK(gguf_open(now, &g, &e));
    OK(gguf_writer_create(early, &w, &e));
    for (uint64_t i = 0; i < g->n_kv; i++)
        gguf_put_kv(w, &g->kv[i]);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < g->n_tensors; i++) {
            const struct gguf_tensor *t = &g->tensors[i];
            bool full = strncmp(t->name.s, "blk.3.", 6) == 0; /* its gate is in attn_q */
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.s);
            if (!full && ends_with(t, "attn_qkv.weight")) {
                const struct gguf_tensor *gate = t + 1;
                ck_assert(ends_with(gate, "attn_gate.weight") && gate->type == t->type);
                uint64_t ne[2] = { t->ne[0], t->ne[1] + gate->ne[1] + extra };
                char in[64];
                snprintf(in, sizeof in, "%.*sssm_in.weight", (int)(strlen(name) - strlen("attn_qkv.weight")), name);
                if (!pass)
                    gguf_put_tensor(w, in, t->type, 2, ne);
                else
                    put_groups(w, t, gate);
                if (pass && extra)
                    put(w, t->data, 0, extra, qtype_row_bytes(t->type, t->ne[0]));
                if (!both) {
                    i++;
                    continue;
                }
            }
            if (!pass)
                gguf_put_tensor(w, name, t->type, t->n_dims, t->ne);
            else
                OK(gguf_writer_data(w, t->data, t->bytes, &e));
        }
        if (!pass)
            OK(gguf_writer_begin(w, &e));
    }
    OK(gguf_writer_finish(w, &e));
    gguf_writer_destroy(w);
    gguf_close(g);
}

static void same_tensors(const struct gguf *a, const struct gguf *b)
{
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    for (uint64_t i = 0; i < a->n_tensors; i++) {
        const struct gguf_tensor *x = &a->tensors[i];
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)x->name.len, x->name.s);
        const struct gguf_tensor *y = gguf_find_tensor(b, name);
        ck_assert_msg(y && y->type == x->type && y->bytes == x->bytes && memcmp(y->ne, x->ne, sizeof x->ne) == 0, "%s", name);
        ck_assert_msg(memcmp(x->data, y->data, x->bytes) == 0, "%s: other rows", name);
    }
}

START_TEST(the_rows_are_todays)
{
    struct gguf *a, *b;
    struct model *m;
    write_early(0, false);
    OK(gguf_open(now, &a, &e));
    OK(gguf_open(early, &b, &e));
    ck_assert(gguf_find_tensor(b, "blk.0.ssm_in.weight") && !gguf_find_tensor(b, "blk.0.attn_qkv.weight"));
    ck_assert_int_ne(model_read(b, &m, &e), 0);
    for (int again = 0; again < 2; again++) {
        OK(recut_legacy(b, &e));
        ck_assert_ptr_null(gguf_find_tensor(b, "blk.0.ssm_in.weight"));
        same_tensors(a, b);
    }
    OK(model_read(b, &m, &e));
    model_free(m);
    OK(recut_legacy(a, &e));
    gguf_close(a);
    gguf_close(b);
}
END_TEST

START_TEST(the_logits_are_todays)
{
    write_early(0, false);
    same_logits(now, early, 64, PROMPT);
}
END_TEST

START_TEST(quantising_makes_a_file_of_todays_layout)
{
    char cmd[1024], out[2][64];
    const char *build = getenv("ZINC_BUILD");
    struct gguf *g[2];
    write_early(0, false);
    for (int i = 0; i < 2; i++) {
        snprintf(out[i], sizeof out[i], "%s.out", i ? early : now);
        snprintf(cmd, sizeof cmd, "%s/quantize %s %s Q4_K_M 2>/dev/null", build ? build : "build", i ? early : now, out[i]);
        ck_assert_msg(system(cmd) == 0, "%s failed", cmd);
        OK(gguf_open(out[i], &g[i], &e));
    }
    ck_assert_ptr_nonnull(gguf_find_tensor(g[1], "blk.0.attn_gate.weight"));
    same_tensors(g[0], g[1]);
    for (int i = 0; i < 2; i++) {
        gguf_close(g[i]);
        unlink(out[i]);
    }
}
END_TEST

static void refused(int code, const char *part)
{
    struct gguf *g;
    OK(gguf_open(early, &g, &e));
    ck_assert_int_eq(recut_legacy(g, &e), code);
    ck_assert_msg(strstr(e.msg, part) && strstr(e.msg, "convert the model again"), "%s", e.msg);
    gguf_close(g);
}

START_TEST(what_does_not_fit_is_refused)
{
    write_early(1, false);
    refused(-EINVAL, "tensor 'blk.0.ssm_in.weight': expected 1536 rows, found 1537");
    write_early(0, true);
    refused(-EEXIST, "'blk.0.attn_qkv.weight' is there twice");
}
END_TEST

static void setup(void)
{
    tiny_model(now, "tiny-qwen3next --type Q8_0");
    close(mkstemp(early));
}

static void teardown(void)
{
    unlink(now);
    unlink(early);
}

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("recut");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_test(t, the_rows_are_todays);
    tcase_add_test(t, the_logits_are_todays);
    tcase_add_test(t, quantising_makes_a_file_of_todays_layout);
    tcase_add_test(t, what_does_not_fit_is_refused);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
