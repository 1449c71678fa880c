/* Constrained decoding over whole vocabularies: the demo model's, and the vocabulary files of llama.cpp's test suite
 * where they are (shared/vocab). Masks are compared with the answer of grammar_state_accept for every token. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/priv.h"
#include "model/tok.h"
#include "tests/lib/skip.h"

static const char *const files[] = { "models/zinc-demo.gguf", "ggml-vocab-qwen35.gguf", "ggml-vocab-llama-spm.gguf",
                                     "ggml-vocab-gemma-4.gguf" };

static struct engine *open_file(const char *name, const struct vocab_index **v)
{
    const char *dir = getenv("ZINC_SHARED");
    char path[512];
    struct engine *eng = NULL;
    struct err e = { 0 };
    if (strchr(name, '/'))
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%s/vocab/%s", dir ? dir : "../shared", name);
    if (access(path, R_OK) != 0) {
        cases_skipped(1, "no %s (set ZINC_SHARED)", path);
        return NULL;
    }
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    ck_assert_msg(engine_vocab(eng, v, &e) == 0, "%s", e.msg);
    return eng;
}

static struct grammar *make(const struct vocab_index *v, const char *text)
{
    struct grammar *g = NULL;
    struct err e = { 0 };
    int rc = *text == '{' ? grammar_from_schema(v, text, strlen(text), &g, &e)
                          : grammar_from_gbnf(v, text, strlen(text), &g, &e);
    ck_assert_msg(rc == 0, "%s", e.msg);
    return g;
}

static bool has(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

#if defined(__SANITIZE_ADDRESS__)
enum { EVERY = 5, WALKS = 5 }; /* sanitizers see in some what they see in all */
#else
enum { EVERY = 1, WALKS = 20 };
#endif

/* Every token at one place: `probe` is led there again for each that is accepted. */
static void check_all(struct grammar_state *st, struct grammar_state *probe, const int32_t *history, uint32_t n,
                      uint32_t n_vocab)
{
    uint64_t *mask = malloc((n_vocab + 63) / 64 * 8);
    bool there = false;
    memcpy(mask, grammar_state_mask(st), (n_vocab + 63) / 64 * 8);
    for (int32_t id = 0; id < (int32_t)n_vocab; id += EVERY) {
        if (!there) {
            grammar_state_reset(probe);
            for (uint32_t i = 0; i < n; i++)
                ck_assert_int_eq(grammar_state_accept(probe, history[i]), 0);
        }
        int rc = grammar_state_accept(probe, id);
        there = rc != 0;
        ck_assert_msg(rc == (has(mask, id) ? 0 : -EINVAL), "token %d after %u tokens: mask %d, accept %d", id, n,
                      has(mask, id), rc);
    }
    free(mask);
}

static void follow(const struct engine *eng, const struct vocab_index *v, const char *grammar, const char *text)
{
    struct grammar *g = make(v, grammar);
    struct grammar_state *st, *probe;
    int32_t *ids;
    uint32_t n;
    ck_assert_int_eq(grammar_state_create(g, &st, NULL) | grammar_state_create(g, &probe, NULL), 0);
    ck_assert_int_eq(engine_encode(eng, text, strlen(text), 0, &ids, &n, NULL), 0);
    if (!has(grammar_state_mask(st), ids[0])) /* this vocabulary begins its texts with a space */
        n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i % 9 == 1)
            check_all(st, probe, ids, i, eng->info.n_vocab);
        ck_assert_msg(grammar_state_accept(st, ids[i]) == 0, "token %u (%d) of %s", i, ids[i], text);
    }
    ck_assert(n == 0 || grammar_state_can_end(st));
    check_all(st, probe, ids, n, eng->info.n_vocab);
    grammar_state_destroy(st);
    grammar_state_destroy(probe);
    grammar_unref(g);
    free(ids);
}

START_TEST(masks_are_what_accept_says)
{
    const struct vocab_index *v, *again;
    struct engine *eng = open_file(files[_i], &v);
    if (!eng)
        return;
    ck_assert_int_eq(engine_vocab(eng, &again, NULL), 0);
    ck_assert_ptr_eq(v, again);
    follow(eng, v,
           "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"tags\":{\"type\":\"array\",\"items\":"
           "{\"type\":\"string\",\"maxLength\":40}}}}",
           "{\"name\": \"caf\xc3\xa9, \\\"quoted\\\" text\", \"tags\": [\"one two\", \"three\"]}");
    follow(eng, v, "root ::= %until \"</x>\" [0-9]+ .", "some <b>text</b></x>12 ");
    engine_close(eng);
}
END_TEST

/* Ends, control tokens and tokens that are never allowed, as the tokenizer has them. */
START_TEST(kinds_follow_the_tokenizer)
{
    const struct vocab_index *v;
    struct engine *eng = open_file(files[_i], &v);
    if (!eng)
        return;
    struct grammar *g = make(v, "root ::= .*");
    struct grammar_state *st;
    uint32_t n_end = 0;
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    const uint64_t *mask = grammar_state_mask(st);
    for (int32_t id = 0; id < (int32_t)eng->info.n_vocab; id++) {
        bool end = tok_is_eog(eng->tok, id);
        n_end += end;
        if (end || tok_is_control(eng->tok, id) || tok_attrs(eng->tok, id) & (TOK_UNUSED | TOK_UNKNOWN))
            ck_assert_msg(has(mask, id) == end, "token %d", id);
    }
    ck_assert_uint_gt(n_end, 0);
    grammar_state_destroy(st);
    grammar_unref(g);
    engine_close(eng);
}
END_TEST

/* Any walk under the mask of any JSON ends in JSON. */
START_TEST(walks_end_in_json)
{
    const struct vocab_index *v;
    struct engine *eng = open_file(files[_i], &v);
    struct tok_buf rules = { 0 };
    uint64_t seed = 1;
    if (!eng)
        return;
    ck_assert_int_eq(grammar_json_to_gbnf(true, "root", &rules, NULL) | tok_buf_add(&rules, "", 1), 0);
    struct grammar *g = make(v, rules.s);
    for (int k = 0; k < WALKS; k++) {
        struct grammar_state *st;
        struct tok_buf text = { 0 };
        ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
        for (uint32_t n = 0; !grammar_state_can_end(st) && n < 3000; n++) {
            const uint64_t *mask = grammar_state_mask(st);
            int32_t id, closes = -1;
            do { /* any allowed token, from a random place on */
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                id = (int32_t)((seed >> 33) % eng->info.n_vocab);
                for (uint32_t i = 0; i < eng->info.n_vocab && !has(mask, id); i++)
                    id = (id + 1) % (int32_t)eng->info.n_vocab;
            } while (!has(mask, id));
            for (const char *c = n > 10 ? "\"]}" : ""; *c && closes < 0; c++) {
                closes = tok_find(eng->tok, c, 1);
                closes = closes >= 0 && has(mask, closes) ? closes : -1;
            }
            id = closes >= 0 ? closes : id;
            ck_assert_int_eq(grammar_state_accept(st, id), 0);
            tok_piece(eng->tok, id, TOK_SHOW_SPECIAL, &text, NULL);
        }
        json_error_t je;
        json_t *j = json_loadb(text.s, text.n, 0, &je);
        ck_assert_msg(j != NULL, "%s: %.*s", je.text, (int)MIN(text.n, 1000), text.s);
        json_decref(j);
        tok_buf_finish(&text);
        grammar_state_destroy(st);
    }
    grammar_unref(g);
    tok_buf_finish(&rules);
    engine_close(eng);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grammar_vocab");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, masks_are_what_accept_says, 0, (int)ARRAY_LEN(files));
    tcase_add_loop_test(tc, kinds_follow_the_tokenizer, 0, (int)ARRAY_LEN(files));
    tcase_add_loop_test(tc, walks_end_in_json, 0, (int)ARRAY_LEN(files));
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
