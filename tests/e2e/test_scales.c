/* The number beside a matrix ("<name>.scale", NVFP4 files) multiplies its products, in decode steps and prompts: factors of
 * two that cancel each other change no bit, one alone changes the logits, the head's doubles them; what is no number is
 * refused. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/gguf.h"
#include "tests/unit/tiny_model.h"

enum { PROMPT = 12, STEPS = 2 };

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static char path[] = "/tmp/zinc_scales_XXXXXX";

/* Multiplies a scale in the file; by 0: it becomes 1, which is the same as none. */
static void change(const char *name, float by)
{
    struct gguf *g;
    OK(gguf_open(path, &g, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    ck_assert_msg(t && t->type == QT_F32 && t->bytes == 4, "%s: no scale", name);
    float v;
    memcpy(&v, t->data, 4);
    v = by != 0 ? v * by : 1;
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, &v, 4, (off_t)t->file_off), 4);
    close(fd);
    gguf_close(g);
}

/* Of a prompt's last token and of two steps behind it. */
static float *logits_of(const char *tier, uint32_t *n)
{
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = 64, .threads = 1 };
    struct engine *eng;
    struct session *s;
    int32_t tok[PROMPT];
    const float *l;
    OK(engine_open(&o, &eng, &e));
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    float *all = malloc((1 + STEPS) * n_vocab * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (int i = 0; i < PROMPT; i++)
        tok[i] = (i * 37 + 11) % (int32_t)n_vocab;
    OK(session_create(eng, &s, &e));
    OK(session_eval(s, tok, PROMPT, &l, &e));
    memcpy(all, l, n_vocab * sizeof *all);
    for (int i = 0; i < STEPS; i++) {
        OK(session_eval(s, &tok[i], 1, &l, &e));
        memcpy(all + (size_t)(i + 1) * n_vocab, l, n_vocab * sizeof *all);
    }
    session_destroy(s);
    engine_close(eng);
    *n = (1 + STEPS) * n_vocab;
    return all;
}

static void expect(const char *tier, const float *was, float times, bool equal, const char *what)
{
    uint32_t n, same = 0;
    float *now = logits_of(tier, &n);
    for (uint32_t i = 0; i < n; i++)
        same += now[i] == times * was[i];
    ck_assert_msg(equal ? same == n : same < n / 2, "%s, %s: %u of %u logits are as before times %g", tier, what, same, n,
                  (double)times);
    free(now);
}

static void check(const char *tier)
{
    uint32_t n;
    change("output.scale", 0);
    float *was = logits_of(tier, &n);
    change("blk.0.attn_q.scale", 2);
    expect(tier, was, 1, false, "q doubled");
    change("blk.0.attn_k.scale", 0.5f);
    expect(tier, was, 1, true, "q doubled, k halved");
    change("blk.1.ffn_up.scale", 4);
    expect(tier, was, 1, false, "up times four");
    change("blk.1.ffn_down.scale", 0.25f);
    expect(tier, was, 1, true, "up times four, down a quarter");
    change("blk.1.ffn_gate.scale", 2);
    expect(tier, was, 1, false, "gate doubled");
    change("blk.1.ffn_gate.scale", 0.5f);
    change("output.scale", 2);
    expect(tier, was, 2, true, "head doubled from none");
    change("output.scale", 0.5f);
    change("blk.0.attn_q.scale", 0.5f);
    change("blk.0.attn_k.scale", 2);
    change("blk.1.ffn_up.scale", 0.25f);
    change("blk.1.ffn_down.scale", 4);
    free(was);
}

START_TEST(products_are_multiplied)
{
    tiny_model(path, "tiny-llama --layers 2 --type NVFP4");
    check("cpu");
    check("cpu:exact");
    check("lockstep");
    unlink(path);
}
END_TEST

/* Its product also takes the row's gate. */
static void check_shared(const char *tier)
{
    uint32_t n;
    float *was = logits_of(tier, &n);
    change("blk.0.ffn_up_shexp.scale", 4);
    expect(tier, was, 1, false, "the shared expert's up times four");
    change("blk.0.ffn_down_shexp.scale", 0.25f);
    expect(tier, was, 1, true, "and its down a quarter");
    change("blk.0.ffn_up_shexp.scale", 0.25f);
    change("blk.0.ffn_down_shexp.scale", 4);
    free(was);
}

START_TEST(a_shared_experts_products_are_too)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-qwen35moe --layers 2 --type NVFP4");
    check_shared("cpu");
    check_shared("lockstep");
    unlink(path);
}
END_TEST

START_TEST(a_number_that_is_none_is_refused)
{
    struct engine_opts o = { .path = path, .tier = "cpu", .n_ctx = 64 };
    struct engine *eng;
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-llama --layers 2 --type NVFP4");
    change("blk.0.attn_v.scale", 1.0f / 0.0f);
    ck_assert_int_eq(engine_open(&o, &eng, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "blk.0.attn_v.scale") && strstr(e.msg, "damaged"), "%s", e.msg);
    unlink(path);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("scales");
    TCase *c = tcase_create("scales");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, products_are_multiplied);
    tcase_add_test(c, a_shared_experts_products_are_too);
    tcase_add_test(c, a_number_that_is_none_is_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
