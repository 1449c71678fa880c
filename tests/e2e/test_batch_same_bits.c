/* A row of a step has the bits that it has alone, with any number of rows beside it. Without arguments: tiny models on
 * the lockstep tier, one on the cpu tier. With
 * arguments: TIER MODEL.gguf ..., for a card. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/engine.h"
#include "tests/unit/tiny_model.h"

enum { MOST = 8, TOKENS = 2 };

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static int32_t token(uint32_t session, uint32_t at, uint32_t n_vocab)
{
    return (int32_t)((session * 131 + at * 37 + 11) % n_vocab);
}

/* Sessions [first, first + n), some a token or two ahead of others, then TOKENS steps of one token of all of them. Returns
 * their logits, f32 [TOKENS, n, n_vocab]. */
static float *logits_of(struct engine *eng, uint32_t first, uint32_t n)
{
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    float *all = calloc((size_t)TOKENS * n * n_vocab, sizeof *all);
    struct session *s[MOST];
    const float *l[MOST];
    int32_t tok[MOST];
    ck_assert_ptr_nonnull(all);
    for (uint32_t i = 0; i < n; i++) {
        OK(session_create(eng, &s[i], &e));
        for (uint32_t k = 0; k < (first + i) % 3; k++) {
            tok[0] = token(first + i, k, n_vocab);
            OK(session_eval_batch(&s[i], tok, 1, l, &e));
        }
    }
    for (uint32_t k = 0; k < TOKENS; k++) {
        for (uint32_t i = 0; i < n; i++)
            tok[i] = token(first + i, 40 + k, n_vocab);
        OK(session_eval_batch(s, tok, n, l, &e));
        for (uint32_t i = 0; i < n; i++)
            memcpy(all + ((size_t)k * n + i) * n_vocab, l[i], n_vocab * sizeof *all);
    }
    for (uint32_t i = 0; i < n; i++)
        session_destroy(s[i]);
    return all;
}

/* How many rows of a step of `rows` differ from what they are alone. */
static uint32_t compare(struct engine *eng, float *const *alone, uint32_t rows)
{
    uint32_t n_vocab = engine_info(eng)->n_vocab, differ = 0;
    float *all = logits_of(eng, 0, rows);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < TOKENS; k++)
            differ += memcmp(alone[i] + (size_t)k * n_vocab, all + ((size_t)k * rows + i) * n_vocab, n_vocab * sizeof *all) != 0;
    free(all);
    return differ;
}

static void check_model(const char *tier, const char *path, const char *what)
{
    static const uint32_t rows[] = { 3, 8 };
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = 64, .n_slots = MOST, .threads = 1 };
    struct engine *eng;
    float *alone[MOST];
    OK(engine_open(&o, &eng, &e));
    for (uint32_t i = 0; i < MOST; i++)
        alone[i] = logits_of(eng, i, 1);
    for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t differ = compare(eng, alone, rows[i]);
        ck_assert_msg(!differ, "%s, %s, %u rows: %u of %u differ from what they are alone", what, tier, rows[i], differ,
                      rows[i] * TOKENS);
    }
    for (uint32_t i = 0; i < MOST; i++)
        free(alone[i]);
    engine_close(eng);
}

/* Sets of one type and of two, minima, starts, tables; n_in of 288 and 544 leaves lanes without an item. */
static const char *const models[] = {
    "tiny-qwen3 --layers 1 --type Q4_K_M",        "tiny-qwen35moe --type Q4_K_M",
    "tiny-gemma4-e --type Q4_K_M", /* layers that read another's cache, on output rows; windows */
    "tiny-qwen3-ragged --layers 1 --type MXFP4",  "tiny-qwen3 --layers 1 --type Q5_K_M",
    "tiny-qwen3 --layers 1 --type Q8_0",          "tiny-qwen3 --layers 1 --type Q2_K",
    "tiny-qwen3 --layers 1 --type Q3_K",          "tiny-qwen3-ragged --layers 1 --type Q8_0",
    "tiny-qwen3-ragged --layers 1 --type Q4_0",   "tiny-qwen3-ragged --layers 1 --type Q5_1",
    "tiny-qwen3 --layers 1 --type IQ4_XS",        "tiny-qwen3 --layers 1 --type NVFP4",
    "tiny-gemma3n --layers 5 --type Q4_K_M", /* four streams, a sparse gate */
};
#if defined(__SANITIZE_ADDRESS__)
enum { N_MODELS = 4, N_PROMPTS = 2 }; /* slow; the bits are the release build's, and the types' kernels unit/test_lockstep's */
#else
enum { N_MODELS = ARRAY_LEN(models), N_PROMPTS = 4 };
#endif

START_TEST(a_row_does_not_depend_on_what_is_beside_it)
{
    char path[] = "/tmp/zinc_batch_XXXXXX";
    tiny_model(path, models[_i]);
    check_model("lockstep", path, models[_i]);
    unlink(path);
}
END_TEST

START_TEST(nor_on_the_cpu_tier)
{
    char path[] = "/tmp/zinc_batch_XXXXXX";
    tiny_model(path, models[0]);
    check_model("cpu", path, models[0]);
    unlink(path);
}
END_TEST

/* A prompt's logits are those of its rows together, if its first rows come in a step of few, for which there are launches of
 * their own. */
static void check_prompt(const char *tier, const char *path, const char *what)
{
    enum { CHUNK = 256, PROMPT = 90, FEW = 40 };
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = 2 * CHUNK, .n_slots = 2, .chunk = CHUNK, .threads = 1 };
    struct engine *eng;
    struct session *s;
    int32_t tok[PROMPT];
    const float *l;
    OK(engine_open(&o, &eng, &e));
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    float *whole = calloc(n_vocab, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    for (uint32_t i = 0; i < PROMPT; i++)
        tok[i] = token(1, i, n_vocab);
    for (uint32_t first = 0; first <= FEW; first += FEW) {
        OK(session_create(eng, &s, &e));
        if (first)
            OK(session_eval(s, tok, first, NULL, &e));
        OK(session_eval(s, tok + first, PROMPT - first, &l, &e));
        if (!first)
            memcpy(whole, l, n_vocab * sizeof *whole);
        ck_assert_msg(memcmp(whole, l, n_vocab * sizeof *whole) == 0, "%s, %s: a prompt of %d tokens, and its first %u first",
                      what, tier, PROMPT, first);
        session_destroy(s);
    }
    free(whole);
    engine_close(eng);
}

START_TEST(nor_does_a_prompt)
{
    static const char *const prompts[] = { "tiny-qwen3 --layers 1 --type Q4_K_M", "tiny-qwen35moe --layers 4 --type Q4_K_M",
                                           "tiny-gemma3 --layers 2 --type Q8_0", "tiny-gpt-oss --layers 2" };
    char path[] = "/tmp/zinc_batch_XXXXXX";
    tiny_model(path, prompts[_i]);
    check_prompt("lockstep", path, prompts[_i]);
    unlink(path);
}
END_TEST

static char **named;
START_TEST(on_the_named_tier)
{
    check_model(named[1], named[_i], named[_i]);
    check_prompt(named[1], named[_i], named[_i]);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("batch_same_bits");
    TCase *c = tcase_create("bits");
    named = argv;
    tcase_set_timeout(c, 0);
    if (argc > 2) {
        tcase_add_loop_test(c, on_the_named_tier, 2, argc);
    } else {
        tiny_model_or_skip();
        tcase_add_loop_test(c, a_row_does_not_depend_on_what_is_beside_it, 0, N_MODELS);
        tcase_add_test(c, nor_on_the_cpu_tier);
        tcase_add_loop_test(c, nor_does_a_prompt, 0, N_PROMPTS);
    }
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
