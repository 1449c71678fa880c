/* The end of an answer: stop strings never leak, text is whole characters, limits and interruptions. The logits are
 * made by hand, so that the model says what the test wants. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/generate.h"
#include "model/chat.h"
#include "tests/unit/tiny_model.h"

static struct engine *eng;
static char text[4096]; /* what came out   */
static size_t n_text, n_pieces;
static uint32_t n_tokens;
static char path[] = "/tmp/zinc-gen-XXXXXX";

static int on_text(void *user, const char *s, size_t n)
{
    (void)user;
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_lt(n_text + n, sizeof text);
    ck_assert_msg((s[0] & 0xc0) != 0x80, "a piece starts inside a character: %02x", (unsigned char)s[0]);
    memcpy(text + n_text, s, n);
    n_text += n;
    text[n_text] = 0;
    n_pieces++;
    return 0;
}

static int on_token(void *user, int32_t id, const float *logits)
{
    (void)user, (void)id, (void)logits;
    n_tokens++;
    return 0;
}

static void setup(void)
{
    struct err e = { 0 };
    tiny_model(path, "tiny-qwen3");
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
}

static void teardown(void)
{
    engine_close(eng);
    unlink(path);
}

static struct gen_opts greedy(void)
{
    struct gen_opts o = { .sampling = sampler_defaults(), .on_text = on_text, .on_token = on_token };
    o.sampling.temp = 0;
    n_text = n_pieces = n_tokens = 0;
    text[0] = 0;
    return o;
}

/* Makes the model say `words`, byte by byte where `bytes`, else as the tokenizer cuts them; then whatever. */
static struct gen_result say(const struct gen_opts *o, const char *words, bool bytes)
{
    struct err e = { 0 };
    struct gen *g;
    int32_t all[512], id;
    uint32_t n = 0, n_vocab = engine_info(eng)->n_vocab;
    float *logits = calloc(n_vocab, sizeof *logits);
    for (size_t i = 0, step = bytes ? 1 : strlen(words); i < strlen(words); i += step) {
        int32_t *ids;
        uint32_t k;
        ck_assert_int_eq(engine_encode(eng, words + i, step, ENGINE_PARSE_SPECIAL, &ids, &k, &e), 0);
        ck_assert_uint_le(n + k, 512);
        memcpy(all + n, ids, k * sizeof *ids);
        n += k;
        free(ids);
    }
    ck_assert_msg(gen_create(eng, o, &g, &e) == 0, "%s", e.msg);
    int rc = 1;
    for (uint32_t i = 0; i < n && rc == 1; i++) {
        logits[all[i]] = 1;
        rc = gen_next(g, logits, &id, &e);
        logits[all[i]] = 0;
        ck_assert_msg(rc >= 0, "%s", e.msg);
        ck_assert_int_eq(id, all[i]);
    }
    if (rc == 1)
        ck_assert_int_eq(gen_end(g, GEN_CONTEXT, &e), 0);
    struct gen_result r = *gen_result(g);
    gen_destroy(g);
    free(logits);
    return r;
}

START_TEST(text_comes_out_as_it_was_said)
{
    struct gen_opts o = greedy();
    struct gen_result r = say(&o, "Hello, world. Two lines\nand more", false);
    ck_assert_str_eq(text, "Hello, world. Two lines\nand more");
    ck_assert_int_eq(r.reason, GEN_CONTEXT);
    ck_assert_uint_eq(r.n_tokens, n_tokens);
}
END_TEST

START_TEST(characters_are_never_cut)
{
    struct gen_opts o = greedy();
    say(&o, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82!", true); /* one byte a token; on_text checks each piece */
    ck_assert_str_eq(text, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82!");
    o = greedy();
    say(&o, "ab\xe2\x82", true); /* an unfinished one at the end */
    ck_assert_str_eq(text, "ab\xef\xbf\xbd");
}
END_TEST

START_TEST(a_stop_string_across_tokens_does_not_leak)
{
    struct gen_opts o = greedy();
    const char *stop[] = { "nothing", "<END>" };
    o.stop = stop;
    o.n_stop = 2;
    struct gen_result r = say(&o, "some text<END>hidden", true);
    ck_assert_str_eq(text, "some text");
    ck_assert_int_eq(r.reason, GEN_STOP_STRING);
    ck_assert_uint_eq(r.stop_index, 1);
    ck_assert_uint_eq(r.n_tokens, 14);
    o = (greedy)();
    o.stop = stop;
    o.n_stop = 2;
    say(&o, "some text<END>hidden", false);
    ck_assert_str_eq(text, "some text");
}
END_TEST

START_TEST(what_only_looks_like_a_stop_string_comes_out)
{
    struct gen_opts o = greedy();
    const char *stop[] = { "<END>" };
    o.stop = stop;
    o.n_stop = 1;
    struct gen_result r = say(&o, "a<EN b<E<ENd <END", true);
    ck_assert_str_eq(text, "a<EN b<E<ENd <END"); /* the last one when the answer ends */
    ck_assert_int_eq(r.reason, GEN_CONTEXT);
}
END_TEST

START_TEST(the_first_of_two_stop_strings_counts)
{
    struct gen_opts o = greedy();
    const char *stop[] = { "def", "cd" };
    o.stop = stop;
    o.n_stop = 2;
    struct gen_result r = say(&o, "abcdefg", false);
    ck_assert_str_eq(text, "ab");
    ck_assert_uint_eq(r.stop_index, 1);
}
END_TEST

/* Strings that overlap themselves and each other, against a plain search. */
START_TEST(stop_strings_are_those_of_a_plain_search)
{
    unsigned seed = 1;
    uint32_t n_hit = 0;
    for (int round = 0; round < 300; round++) {
        char words[25] = "", stops[3][6] = { "" };
        const char *stop[3] = { stops[0], stops[1], stops[2] }, *first = NULL;
        uint32_t which = 0;
        struct gen_opts o = greedy();
        for (size_t i = 0; i < sizeof words - 1; i++)
            words[i] = "ab"[rand_r(&seed) % 2];
        for (uint32_t k = 0; k < 3; k++) {
            for (int i = 0, n = 3 + rand_r(&seed) % 3; i < n; i++)
                stops[k][i] = "ab"[rand_r(&seed) % 2];
            const char *hit = strstr(words, stops[k]);
            /* What ends first is seen first, as tokens are bytes here; of those, what began first. */
            if (hit && (!first || hit + strlen(stops[k]) < first + strlen(stops[which]) ||
                        (hit + strlen(stops[k]) == first + strlen(stops[which]) && hit < first))) {
                first = hit;
                which = k;
            }
        }
        o.stop = stop;
        o.n_stop = 3;
        struct gen_result r = say(&o, words, true);
        size_t want = first ? (size_t)(first - words) : strlen(words);
        ck_assert_msg(strlen(text) == want && !strncmp(text, words, want), "%s: %s, %s, %s: %s", words, stops[0], stops[1],
                      stops[2], text);
        ck_assert(r.reason == (first ? GEN_STOP_STRING : GEN_CONTEXT));
        ck_assert(!first || r.stop_index == which);
        n_hit += first != NULL;
    }
    ck_assert_uint_gt(n_hit, 50);
}
END_TEST

START_TEST(the_limit_ends_the_answer)
{
    struct gen_opts o = greedy();
    o.n_max = 3;
    struct gen_result r = say(&o, "abcdef", true);
    ck_assert_str_eq(text, "abc");
    ck_assert_int_eq(r.reason, GEN_LENGTH);
    ck_assert_uint_eq(r.n_tokens, 3);
}
END_TEST

START_TEST(an_end_token_ends_the_answer_unless_ignored)
{
    struct gen_opts o = greedy();
    struct gen_result r = say(&o, "ab<|im_end|>cd", false);
    ck_assert_str_eq(text, "ab");
    ck_assert_int_eq(r.reason, GEN_EOG);
    o = greedy();
    o.ignore_eos = true;
    struct err e = { 0 };
    struct gen *g;
    int32_t *ids, id;
    uint32_t n;
    ck_assert_int_eq(engine_encode(eng, "<|im_end|>", 10, ENGINE_PARSE_SPECIAL, &ids, &n, &e), 0);
    ck_assert_uint_eq(n, 1);
    float *logits = calloc(engine_info(eng)->n_vocab, sizeof *logits);
    logits[ids[0]] = 5;
    logits[7] = 4;
    ck_assert_int_eq(gen_create(eng, &o, &g, &e), 0);
    ck_assert_int_eq(gen_next(g, logits, &id, &e), 1);
    ck_assert_int_eq(id, 7); /* it is never chosen */
    gen_destroy(g);
    free(ids);
    free(logits);
}
END_TEST

START_TEST(broken_logits_are_an_error)
{
    struct gen_opts o = greedy();
    struct err e = { 0 };
    struct gen *g;
    int32_t id;
    uint32_t n = engine_info(eng)->n_vocab;
    float *logits = calloc(n, sizeof *logits);
    for (uint32_t i = 0; i < n; i++)
        logits[i] = 0.0f / 0.0f;
    ck_assert_int_eq(gen_create(eng, &o, &g, &e), 0);
    ck_assert_int_eq(gen_next(g, logits, &id, &e), -EDOM);
    ck_assert_int_eq(gen_result(g)->reason, GEN_FAILED);
    gen_destroy(g);
    free(logits);
}
END_TEST

/* A model that only ever says "a", with reasoning between <think> and </think>. */
static struct gen_result ponder(const struct gen_opts *o, const char *first, uint32_t n)
{
    struct err e = { 0 };
    struct gen *g;
    int32_t *ids, *a, id;
    uint32_t n_ids, n_a, n_vocab = engine_info(eng)->n_vocab;
    float *logits = calloc(n_vocab, sizeof *logits);
    ck_assert_int_eq(engine_encode(eng, first, strlen(first), ENGINE_PARSE_SPECIAL, &ids, &n_ids, &e), 0);
    ck_assert_int_eq(engine_encode(eng, "a", 1, 0, &a, &n_a, &e), 0);
    ck_assert_msg(gen_create(eng, o, &g, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < n; i++) {
        int32_t t = i < n_ids ? ids[i] : a[0];
        logits[t] = 1;
        ck_assert_msg(gen_next(g, logits, &id, &e) >= 0, "%s", e.msg);
        logits[t] = 0;
    }
    ck_assert_int_eq(gen_end(g, GEN_LENGTH, &e), 0);
    struct gen_result r = *gen_result(g);
    gen_destroy(g);
    free(logits);
    free(ids);
    free(a);
    return r;
}

static struct gen_opts thinking(int32_t budget, bool opened)
{
    static const struct chat_template closed_format = { .format = CHAT_QWEN3 },
                                      opened_format = { .format = CHAT_QWEN3_THINKING };
    struct gen_opts o = greedy();
    o.chat = opened ? &opened_format : &closed_format;
    o.think = -1;
    o.think_budget = budget;
    return o;
}

START_TEST(a_budget_ends_the_reasoning)
{
    struct gen_opts o = thinking(5, true);
    struct gen_result r = ponder(&o, "", 40);
    ck_assert_msg(strncmp(text, "aaaaa\n</think>\n\naaa", 19) == 0, "%s", text);
    ck_assert_uint_eq(r.n_tokens, 40);
    ck_assert_uint_ge(r.n_thought, 6);
    ck_assert_uint_lt(r.n_thought, 25);
    o = thinking(0, true);
    ponder(&o, "", 30);
    ck_assert_msg(strncmp(text, "\n</think>\n\naaa", 14) == 0, "%s", text);
}
END_TEST

START_TEST(a_budget_is_for_reasoning_alone)
{
    struct gen_opts o = thinking(3, false);
    struct gen_result r = ponder(&o, "", 40); /* an answer without reasoning */
    ck_assert_ptr_null(strstr(text, "think"));
    ck_assert_uint_eq(r.n_thought, 0);
    o = thinking(20, false);
    r = ponder(&o, "\n<think>ab</think>", 60);
    ck_assert_msg(strncmp(text, "\n<think>ab</think>aaa", 20) == 0, "%s", text);
    ck_assert_ptr_null(strstr(text + 18, "think"));
    ck_assert_uint_gt(r.n_thought, 0);
    o = thinking(-1, true);
    r = ponder(&o, "", 60);
    ck_assert_ptr_null(strstr(text, "think"));
    ck_assert_uint_eq(r.n_thought, 60);
}
END_TEST

/* Reasoning that begins again counts on, and is ended again. */
START_TEST(a_budget_is_for_all_its_reasoning)
{
    static const char stop[] = "\n</think>\n\n";
    struct gen_opts o = thinking(40, true);
    struct gen_result r = ponder(&o, "ab</think>\n<think>", 90);
    ck_assert_msg(strncmp(text, "ab</think>\n<think>aa", 20) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text + 20, "aa\n</think>\n\naa"));
    ck_assert_uint_gt(r.n_thought, 40);
    ck_assert_uint_lt(r.n_thought, 60);
    o = thinking(5, true);
    ponder(&o, "b\nb\nb\nb\nb\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n<think>", 90);
    const char *first = strstr(text, stop), *again = first ? strstr(first + 1, "<think>") : NULL;
    ck_assert_msg(again && strncmp(again + 7, stop, sizeof stop - 1) == 0, "%s", text);
}
END_TEST

START_TEST(what_is_said_before_reasoning_is_none)
{
    static const struct chat_template harmony = { .format = CHAT_GPT_OSS };
    static const char begin[] = "<|start|>assistant<|channel|>analysis<|message|>",
                      end[] = "<|end|><|start|>assistant<|channel|>final<|message|>a";
    static const char *const aside[] = { "Hm.", "Let me look at that and see what there is in it." };
    struct gen_opts o;
    size_t n[2];
    char first[256];
    for (int i = 0; i < 2; i++) {
        o = thinking(150, false);
        o.chat = &harmony;
        snprintf(first, sizeof first, "<|channel|>commentary<|message|>%s<|end|>%s", aside[i], begin);
        ponder(&o, first, 300);
        const char *from = strstr(text, begin), *to = strstr(text, end);
        ck_assert_msg(from && to > from, "%s", text);
        n[i] = (size_t)(to - from);
    }
    ck_assert_uint_eq(n[0], n[1]);
}
END_TEST

/* Only even ids, by a mask. */
START_TEST(a_mask_limits_the_choice)
{
    struct err e = { 0 };
    struct sampler *s;
    uint32_t n = engine_info(eng)->n_vocab;
    float *logits = calloc(n, sizeof *logits);
    uint64_t *mask = calloc(n / 64 + 1, sizeof *mask);
    for (uint32_t i = 0; i < n; i++)
        logits[i] = (float)(i % 101);
    for (uint32_t i = 0; i < n; i += 2)
        mask[i / 64] |= 1ull << i % 64;
    for (int temp = 0; temp < 2; temp++)
        for (int rng = 0; rng < 2; rng++) {
            struct sampler_params p = sampler_defaults();
            p.temp = (float)temp * 4;
            p.rng = rng ? SAMPLER_RNG_COUNTER : SAMPLER_RNG_MT19937;
            p.seed = 3;
            ck_assert_int_eq(sampler_create(&p, n, 64, NULL, &s, &e), 0);
            for (int i = 0; i < 50; i++) {
                sampler_set_mask(s, mask);
                ck_assert_int_eq(sampler_choose(s, logits) % 2, 0);
            }
            sampler_set_mask(s, NULL);
            bool odd = false;
            for (int i = 0; i < 200 && !odd; i++)
                odd = sampler_choose(s, logits) % 2;
            ck_assert(temp == 0 || odd);
            sampler_destroy(s);
        }
    free(mask);
    free(logits);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("generate");
    TCase *t = tcase_create("generate");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, text_comes_out_as_it_was_said);
    tcase_add_test(t, characters_are_never_cut);
    tcase_add_test(t, a_stop_string_across_tokens_does_not_leak);
    tcase_add_test(t, what_only_looks_like_a_stop_string_comes_out);
    tcase_add_test(t, stop_strings_are_those_of_a_plain_search);
    tcase_add_test(t, the_first_of_two_stop_strings_counts);
    tcase_add_test(t, the_limit_ends_the_answer);
    tcase_add_test(t, an_end_token_ends_the_answer_unless_ignored);
    tcase_add_test(t, broken_logits_are_an_error);
    tcase_add_test(t, a_budget_ends_the_reasoning);
    tcase_add_test(t, a_budget_is_for_reasoning_alone);
    tcase_add_test(t, a_budget_is_for_all_its_reasoning);
    tcase_add_test(t, what_is_said_before_reasoning_is_none);
    tcase_add_test(t, a_mask_limits_the_choice);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
