/* A mistral3 file gives the logits of the llama file with its weights and its YaRN, to the bit, as far as its queries' scale is 1;
 * a longer context is refused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/look.h"
#include "model/gguf_write.h"
#include "tests/unit/same_logits.h"
#include "tests/unit/tiny_model.h"

enum { PROMPT = 40, ORIGINAL = 512 };

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static char path[] = "/tmp/zinc_mistral3_XXXXXX", llama[] = "/tmp/zinc_mistral3_llama_XXXXXX";

static void setup(void)
{
    tiny_model(path, "tiny-mistral3 --type Q8_0");
    close(mkstemp(llama));
}

static void teardown(void)
{
    unlink(path);
    unlink(llama);
}

/* The file at `path` under llama's name. */
static void write_llama(void)
{
    static const char old[] = "mistral3.";
    struct gguf *g;
    struct gguf_writer *w;
    char name[128];
    OK(gguf_open(path, &g, &e));
    OK(gguf_writer_create(llama, &w, &e));
    gguf_put_str(w, "general.architecture", "llama");
    for (uint64_t i = 0; i < g->n_kv; i++) {
        struct gguf_kv kv = g->kv[i];
        if (kv.key.len > strlen(old) && memcmp(kv.key.s, old, strlen(old)) == 0) {
            int n = snprintf(name, sizeof name, "llama.%.*s", (int)(kv.key.len - strlen(old)), kv.key.s + strlen(old));
            kv.key = (struct gguf_str){ name, (uint64_t)n };
        }
        if (kv.key.len != strlen("general.architecture") || memcmp(kv.key.s, "general.architecture", kv.key.len) != 0)
            gguf_put_kv(w, &kv);
    }
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        snprintf(name, sizeof name, "%.*s", (int)g->tensors[i].name.len, g->tensors[i].name.s);
        gguf_put_tensor(w, name, g->tensors[i].type, g->tensors[i].n_dims, g->tensors[i].ne);
    }
    OK(gguf_writer_begin(w, &e));
    for (uint64_t i = 0; i < g->n_tensors; i++)
        OK(gguf_writer_data(w, g->tensors[i].data, g->tensors[i].bytes, &e));
    OK(gguf_writer_finish(w, &e));
    gguf_writer_destroy(w);
    gguf_close(g);
}

START_TEST(the_logits_are_llamas)
{
    write_llama();
    same_logits(path, llama, ORIGINAL, PROMPT);
}
END_TEST

START_TEST(the_context_ends_where_the_scale_begins)
{
    struct engine_opts o = { .path = path, .tier = "null", .ctx_wanted = 4096 };
    struct engine *eng;
    OK(engine_open(&o, &eng, &e));
    const struct engine_info *in = engine_info(eng);
    ck_assert_uint_eq(in->n_ctx, ORIGINAL);
    ck_assert_uint_eq(in->n_ctx_train, ORIGINAL);
    ck_assert_msg(strstr(in->rope, "was trained for 4096") && strstr(in->rope, "first 512"), "%s", in->rope);
    engine_close(eng);
    o.n_ctx = ORIGINAL + 1;
    ck_assert_int_eq(engine_open(&o, &eng, &e), -ENOTSUP);
    ck_assert_msg(strstr(e.msg, "attention.temperature_scale") && strstr(e.msg, "(--ctx 512)") && !strchr(e.msg, '\n'), "%s", e.msg);
}
END_TEST

START_TEST(what_is_run_of_it_is_told)
{
    char *text = NULL;
    size_t n = 0;
    for (int json = 0; json < 2; json++) {
        FILE *f = open_memstream(&text, &n);
        OK(engine_inspect(path, false, json, f, &e));
        fclose(f);
        ck_assert_msg(strstr(text, json ? "\"context_run\": 512" : "4096, of which zinc runs 512"), "%s", text);
        free(text);
    }
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("mistral3");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_test(t, the_logits_are_llamas);
    tcase_add_test(t, the_context_ends_where_the_scale_begins);
    tcase_add_test(t, what_is_run_of_it_is_told);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
