/* A mistral3 file gives the logits of the llama file with its weights and its YaRN, to the bit, as far as its queries' scale is 1;
 * beyond, those of the file whose queries are multiplied by it. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/gguf_write.h"
#include "tests/unit/same_logits.h"
#include "tests/unit/tiny_model.h"

enum { ORIGINAL = 32, LAST = 2 * ORIGINAL + 5 }; /* of the preset; a position whose queries are scaled */

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static char path[] = "/tmp/zinc_mistral3_XXXXXX", llama[] = "/tmp/zinc_mistral3_llama_XXXXXX";

static void setup(void)
{
    tiny_model(path, "tiny-mistral3 --layers 1 --type F32");
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

/* Within the original context: without a table, and with one. */
START_TEST(the_logits_are_llamas)
{
    write_llama();
    same_logits(path, llama, ORIGINAL, ORIGINAL);
    same_logits(path, llama, 2 * ORIGINAL, ORIGINAL);
}
END_TEST

/* Multiplies the llama file's query matrix. */
static void scale_queries(float by)
{
    struct gguf *g;
    OK(gguf_open(llama, &g, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, "blk.0.attn_q.weight");
    ck_assert(t && t->type == QT_F32);
    float *w = malloc(t->bytes);
    memcpy(w, t->data, t->bytes);
    for (size_t i = 0; i < t->bytes / sizeof *w; i++)
        w[i] *= by;
    int fd = open(llama, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, w, t->bytes, (off_t)t->file_off), (ssize_t)t->bytes);
    close(fd);
    free(w);
    gguf_close(g);
}

/* After LAST + 1 tokens, the last of them a step of its own. */
static float *last_logits(const char *file, const char *tier, uint32_t *n)
{
    struct engine_opts o = { .path = file, .tier = tier, .threads = 1, .n_ctx = LAST + 1 };
    struct engine *eng;
    struct session *s;
    int32_t tok[LAST + 1];
    const float *l;
    OK(engine_open(&o, &eng, &e));
    *n = engine_info(eng)->n_vocab;
    for (uint32_t i = 0; i <= LAST; i++)
        tok[i] = (int32_t)((i * 37 + 11) % *n);
    OK(session_create(eng, &s, &e));
    OK(session_eval(s, tok, LAST, &l, &e));
    OK(session_eval(s, tok + LAST, 1, &l, &e));
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, l, *n * sizeof *copy);
    session_destroy(s);
    engine_close(eng);
    return copy;
}

/* Of a single layer the last logits depend on the last query alone. The formula is transformers': modeling_ministral3.py,
 * get_llama_4_attn_scale. */
START_TEST(beyond_it_queries_are_scaled)
{
    static const char *const tiers[] = { "cpu:exact", "cpu", "lockstep" };
    uint32_t n;
    write_llama();
    float *plain = last_logits(llama, "cpu:exact", &n);
    scale_queries(1 + 0.1f * logf(1 + LAST / ORIGINAL));
    float *want = last_logits(llama, "cpu:exact", &n);
    for (size_t k = 0; k < sizeof tiers / sizeof *tiers; k++) {
        float *got = last_logits(path, tiers[k], &n);
        double far = 0, off = 0, all = 0;
        for (uint32_t i = 0; i < n; i++) {
            off += (double)(got[i] - want[i]) * (got[i] - want[i]);
            far += (double)(plain[i] - want[i]) * (plain[i] - want[i]);
            all += (double)want[i] * want[i];
        }
        ck_assert_msg(off < 1e-7 * all && far > 1e3 * off, "%s: %g from what is wanted, unscaled %g", tiers[k], off / all, far / all);
        free(got);
    }
    free(plain);
    free(want);
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
    tcase_add_test(t, beyond_it_queries_are_scaled);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
