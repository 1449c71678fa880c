/* Vocabularies that are broken or missing: one line that says what is wrong, or a defined fallback; never a crash. */
#include <check.h>

#include "base/ckd.h"
#include "tests/unit/tok_make.h"

static struct err e;

/* A file with just these keys; each is written by the function. */
static int open_with(void (*put)(struct gguf_writer *w), struct made *m)
{
    *m = (struct made){0};
    e = (struct err){0};
    gguf_writer_create(NULL, &m->w, NULL);
    put(m->w);
    return made_open(m, &e);
}

static void close_made(struct made *m)
{
    tok_destroy(m->t);
    gguf_close(m->g);
    gguf_writer_destroy(m->w);
}

#define STRS(...)                                                                                            \
    (struct gguf_str[])                                                                                      \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define S(text)                                                                                              \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }

static void model(struct gguf_writer *w, const char *name)
{
    gguf_put_str(w, "tokenizer.ggml.model", name);
}

static void abc(struct gguf_writer *w)
{
    gguf_put_arr_str(w, "tokenizer.ggml.tokens", STRS(S("a"), S("b"), S("ab")), 3);
}

static void merges(struct gguf_writer *w)
{
    gguf_put_arr_str(w, "tokenizer.ggml.merges", STRS(S("a b")), 1);
}

static void nothing(struct gguf_writer *w)
{
    gguf_put_str(w, "general.architecture", "llama");
}
static void none(struct gguf_writer *w)
{
    model(w, "none");
}
static void no_tokens(struct gguf_writer *w)
{
    model(w, "gpt2");
}
static void zero_tokens(struct gguf_writer *w)
{
    model(w, "llama");
    gguf_put_arr_str(w, "tokenizer.ggml.tokens", NULL, 0);
}
static void bert(struct gguf_writer *w)
{
    model(w, "bert");
    abc(w);
}
static void model_is_a_number(struct gguf_writer *w)
{
    gguf_put_u32(w, "tokenizer.ggml.model", 3);
}
static void odd_pre(struct gguf_writer *w)
{
    model(w, "gpt2");
    gguf_put_str(w, "tokenizer.ggml.pre", "from-the-future");
    abc(w);
    merges(w);
}
static void no_merges(struct gguf_writer *w)
{
    model(w, "gpt2");
    gguf_put_str(w, "tokenizer.ggml.pre", "qwen2");
    abc(w);
}
static void merges_are_numbers(struct gguf_writer *w)
{
    no_merges(w);
    gguf_put_arr(w, "tokenizer.ggml.merges", GGUF_I32, (int32_t[]){1, 2}, 2);
}
static void tokens_are_numbers(struct gguf_writer *w)
{
    model(w, "gpt2");
    gguf_put_arr(w, "tokenizer.ggml.tokens", GGUF_I32, (int32_t[]){1, 2}, 2);
}
static void tokens_are_a_string(struct gguf_writer *w)
{
    model(w, "gpt2");
    gguf_put_str(w, "tokenizer.ggml.tokens", "abc");
}
static void few_scores(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
    gguf_put_arr(w, "tokenizer.ggml.scores", GGUF_F32, (float[]){1, 2}, 2);
}
static void few_types(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
    gguf_put_arr(w, "tokenizer.ggml.token_type", GGUF_I32, (int32_t[]){1}, 1);
}
static void types_are_strings(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
    gguf_put_arr_str(w, "tokenizer.ggml.token_type", STRS(S("a"), S("b"), S("c")), 3);
}
static void add_bos_is_a_string(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
    gguf_put_str(w, "tokenizer.ggml.add_bos_token", "yes");
}
static void suppressed_are_strings(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
    gguf_put_arr_str(w, "tokenizer.ggml.suppress_tokens", STRS(S("a")), 1);
}

static const struct {
    void (*put)(struct gguf_writer *w);
    int rc;
    const char *says;
} rejected[] = {
    {nothing, -ENOENT, "--prompt-tokens"},
    {none, -ENOENT, "--prompt-tokens"},
    {no_tokens, -ENOENT, "--prompt-tokens"},
    {zero_tokens, -ENOENT, "--prompt-tokens"},
    {bert, -ENOTSUP, "bert"},
    {model_is_a_number, -EINVAL, "tokenizer.ggml.model"},
    {odd_pre, -ENOTSUP, "from-the-future"},
    {no_merges, -EINVAL, "tokenizer.ggml.merges"},
    {merges_are_numbers, -EINVAL, "tokenizer.ggml.merges"},
    {tokens_are_numbers, -EINVAL, "tokenizer.ggml.tokens"},
    {tokens_are_a_string, -EINVAL, "tokenizer.ggml.tokens"},
    {few_scores, -EINVAL, "2 entries for 3 tokens"},
    {few_types, -EINVAL, "1 entries for 3 tokens"},
    {types_are_strings, -EINVAL, "token_type"},
    {add_bos_is_a_string, -EINVAL, "add_bos_token"},
    {suppressed_are_strings, -EINVAL, "suppress_tokens"},
};

START_TEST(says_what_is_wrong)
{
    struct made m;
    int rc = open_with(rejected[_i].put, &m);

    /* no_tokens has a merge-ranked model without merges as well; the missing vocabulary is said first */
    ck_assert_msg(rc == rejected[_i].rc, "case %d: got %d (%s), want %d", _i, rc, e.msg, rejected[_i].rc);
    ck_assert_msg(strstr(e.msg, rejected[_i].says) != NULL, "case %d: %s", _i, e.msg);
    ck_assert_ptr_null(strchr(e.msg, '\n'));
    ck_assert_ptr_nonnull(strstr(e.msg, "made.gguf"));
    close_made(&m);
}
END_TEST

static void expect_ids(const struct tok *t, const char *s, unsigned flags, const int32_t *want, size_t n)
{
    struct tok_ids ids = {0};

    ck_assert_int_eq(tok_encode(t, s, strlen(s), flags, &ids, &e), 0);
    ck_assert_uint_eq(ids.n, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(ids.id[i], want[i]);
    tok_ids_finish(&ids);
}

static void odd_vocab(struct gguf_writer *w)
{
    model(w, "gpt2");
    gguf_put_str(w, "tokenizer.ggml.pre", "qwen2");
    gguf_put_arr_str(w, "tokenizer.ggml.tokens",
                     STRS(S("a"), S("b"), S(""), S("ab"), S("a"), S("\xff\xfe"), S("<0x4"), S("<0xZZ>")), 8);
    gguf_put_arr(w, "tokenizer.ggml.token_type", GGUF_I32, (int32_t[]){1, 1, 1, 1, 1, 1, 6, 6}, 8);
    gguf_put_arr_str(
        w, "tokenizer.ggml.merges",
        STRS(S("ab"), S(" "), S(""), S(" b"), S("a "), S("a b"), S("a b"), S("a  b"), S("ab zz"), S("q r")),
        10);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 8);
    gguf_put_i32(w, "tokenizer.ggml.eos_token_id", -4);
    gguf_put_str(w, "tokenizer.ggml.unknown_token_id", "x");
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
}

START_TEST(odd_vocabularies_work_as_documented)
{
    struct made m;
    struct tok_buf out = {0};

    ck_assert_msg(open_with(odd_vocab, &m) == 0, "%s", e.msg);
    ck_assert_int_eq(tok_bos(m.t), -1);
    ck_assert_int_eq(tok_eos(m.t), -1);
    ck_assert_int_eq(tok_unk(m.t), -1);
    ck_assert(!tok_add_bos(m.t));
    ck_assert_int_eq(tok_find(m.t, "a", 1), 4); /* the last of two */
    ck_assert_int_eq(tok_find(m.t, "[EMPTY_2]", 9), 2);
    ck_assert_int_eq(tok_find(m.t, "", 0), -1);
    expect_ids(m.t, "ab", TOK_ADD_SPECIAL, (int32_t[]){3}, 1);
    expect_ids(m.t, "ba", 0, (int32_t[]){1, 4}, 2);
    expect_ids(m.t, "qr", 0, NULL, 0); /* no token for any of it */
    for (int32_t i = -1; i < 9; i++)
        ck_assert_int_eq(tok_piece(m.t, i, TOK_SHOW_SPECIAL, &out, &e), 0);
    tok_buf_finish(&out);
    close_made(&m);
}
END_TEST

static void bare_spm(struct gguf_writer *w)
{
    model(w, "llama");
    abc(w);
}

START_TEST(a_vocabulary_without_scores_types_or_bytes_still_encodes)
{
    struct made m;

    ck_assert_int_eq(open_with(bare_spm, &m), 0);
    /* defaults: unk 0, bos 1, eos 2; what has no token becomes unk, byte by byte: the added space has three */
    expect_ids(m.t, "ab", TOK_ADD_SPECIAL, (int32_t[]){1, 0, 0, 0, 2}, 5);
    close_made(&m);
}
END_TEST

static void many_specials(struct gguf_writer *w)
{
    static char text[200][204];
    static struct gguf_str s[200];
    static int32_t type[200];

    model(w, "gpt2");
    gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2");
    for (int i = 0; i < 200; i++) {
        memset(text[i], 'a', (size_t)i + 1);
        s[i] = (struct gguf_str){text[i], (uint64_t)i + 1};
        type[i] = i % 2 ? 4 : 3;
    }
    gguf_put_arr_str(w, "tokenizer.ggml.tokens", s, 200);
    gguf_put_arr(w, "tokenizer.ggml.token_type", GGUF_I32, type, 200);
    gguf_put_arr_str(w, "tokenizer.ggml.merges", NULL, 0);
}

/* More lengths of special texts than one round of placing holds. */
START_TEST(nested_specials_are_placed_longest_first)
{
    struct made m;
    char s[1024];

    ck_assert_msg(open_with(many_specials, &m) == 0, "%s", e.msg);
    memset(s, 'a', sizeof s);
    s[503] = 0;
    expect_ids(m.t, s, TOK_PARSE_SPECIAL, (int32_t[]){199, 199, 102}, 3);
    s[503] = 'a';
    s[407] = 0;
    expect_ids(m.t, s, 0, (int32_t[]){199, 199, 5, 0}, 4); /* user-defined ones only, then the byte's token */
    close_made(&m);
}
END_TEST

START_TEST(a_long_hostile_text_takes_no_long_time)
{
    struct made *m = made_bpe("deepseek-llm");
    size_t n = 1 << 20;
    char *s = malloc(n);
    struct tok_ids ids = {0};

    made_begin(m);
    ck_assert_int_eq(made_open(m, &e), 0);
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < n; i++)
            s[i] = "a \n<"[k];
        s[n - 1] = 'x';
        ids.n = 0;
        ck_assert_int_eq(tok_encode(m->t, s, n, TOK_PARSE_SPECIAL, &ids, &e), 0);
        ck_assert_uint_gt(ids.n, 0);
    }
    tok_ids_finish(&ids);
    free(s);
    made_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tok_rejects_bad_files");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, says_what_is_wrong, 0, (int)ARRAY_LEN(rejected));
    tcase_add_test(tc, odd_vocabularies_work_as_documented);
    tcase_add_test(tc, a_vocabulary_without_scores_types_or_bytes_still_encodes);
    tcase_add_test(tc, nested_specials_are_placed_longest_first);
    tcase_add_test(tc, a_long_hostile_text_takes_no_long_time);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
