/* Tokenizers over vocabularies small enough to know every answer: merging, special tokens, decoding, streaming. */
#include <check.h>

#include "base/ckd.h"
#include "tests/unit/tok_make.h"

static struct err e;

static struct made *opened(struct made *m)
{
    made_begin(m);
    ck_assert_msg(made_open(m, &e) == 0, "%s", e.msg);
    return m;
}

static struct made *opened_with_bos(struct made *m, const char *bos, const char *eos)
{
    made_begin(m);
    for (uint32_t i = 0; i < m->n; i++) {
        if (strcmp(m->text[i], bos) == 0)
            gguf_put_u32(m->w, "tokenizer.ggml.bos_token_id", i);
        if (eos && strcmp(m->text[i], eos) == 0)
            gguf_put_u32(m->w, "tokenizer.ggml.eos_token_id", i);
    }
    ck_assert_msg(made_open(m, &e) == 0, "%s", e.msg);
    return m;
}

/* The texts of the tokens with | between them. */
static const char *pieces(const struct made *m, const char *s, size_t n, unsigned flags)
{
    static char out[4096];
    struct tok_ids ids = {0};
    size_t k = 0;

    ck_assert_int_eq(tok_encode(m->t, s, n, flags, &ids, &e), 0);
    for (size_t i = 0; i < ids.n; i++) {
        struct gguf_str text = tok_text(m->t, ids.id[i]);
        k += (size_t)snprintf(out + k, sizeof out - k, "%s%.*s", i ? "|" : "", (int)text.len, text.s);
    }
    out[k] = 0;
    tok_ids_finish(&ids);
    return out;
}

#define EXPECT(m, text, flags, want)                                                                         \
    do {                                                                                                     \
        const char *got_ = pieces(m, text, sizeof(text) - 1, flags);                                         \
        ck_assert_msg(strcmp(got_, want) == 0, "'%s': got %s, want %s", text, got_, want);                   \
    } while (0)

START_TEST(merges_by_rank_then_from_the_left)
{
    struct made *m = opened(made_bpe("qwen2"));

    EXPECT(m, "hello", 0, "hello");
    EXPECT(m, "hello world", 0, "hello|\u0120world");
    EXPECT(m, "aaaaa", 0, "aaaa|a");
    EXPECT(m, "aaa", 0, "aa|a");
    EXPECT(m, "xyz", 0, "xy|z"); /* merges decide, not the vocabulary */
    EXPECT(m, "zyx", 0, "z|y|x");
    EXPECT(m, "123", 0, "1|2|3"); /* qwen2 keeps digits apart */
    EXPECT(m, "\u00e9", 0, "\u00c3\u00a9");
    EXPECT(m, "\n\n", 0, "\u010a\u010a");
    EXPECT(m, "", 0, "");
    made_free(m);
}
END_TEST

START_TEST(llama3_takes_whole_words)
{
    struct made *m = opened_with_bos(made_bpe("llama-bpe"), "<|bos|>", NULL);

    EXPECT(m, "xyz", 0, "xyz");
    EXPECT(m, "xyzz", 0, "xy|z|z");
    EXPECT(m, "123", 0, "123");
    EXPECT(m, "a", TOK_ADD_SPECIAL, "<|bos|>|a");
    EXPECT(m, "", TOK_ADD_SPECIAL, "<|bos|>");
    made_free(m);
}
END_TEST

START_TEST(long_words_merge_like_short_ones)
{
    struct made *m = opened(made_bpe("qwen2"));
    char s[1001], want[4096] = "";

    memset(s, 'a', 1000);
    for (int n = 1; n <= 400; n++) {
        size_t k = 0;
        for (int i = 0; i < n / 4; i++)
            k += (size_t)sprintf(want + k, "%saaaa", k ? "|" : "");
        if (n % 4 >= 2)
            k += (size_t)sprintf(want + k, "%saa", k ? "|" : "");
        if (n % 2)
            k += (size_t)sprintf(want + k, "%sa", k ? "|" : "");
        ck_assert_str_eq(pieces(m, s, (size_t)n, 0), want);
    }
    made_free(m);
}
END_TEST

START_TEST(bytes_without_a_token_vanish_before_merging)
{
    struct made *m = made_bpe("qwen2");

    for (unsigned i = 0; i < 2; i++) { /* the two bytes of U+0100, a letter */
        unsigned b = i ? 0x80 : 0xc4;
        m->len[b] = (uint32_t)sprintf(m->text[b], "none%u", b);
    }
    opened(m);
    EXPECT(m, "he\u0100llo a\u0100a", 0, "hello|\u0120|aa");
    EXPECT(m, "\u0100", 0, "");
    EXPECT(m, "a", 0, "a");
    made_free(m);
}
END_TEST

START_TEST(qwen_composes_letters_and_marks)
{
    struct made *m = opened(made_bpe("qwen2"));

    EXPECT(m, "e\u0301", 0, "\u00c3\u00a9");
    EXPECT(m, "he\u0301<u>\u0301", 0, "h|\u00c3\u00a9|<u>|\u00cc|\u0123"); /* special tokens first */
    made_free(m);
    m = opened(made_bpe("qwen35"));
    EXPECT(m, "e\u0301", 0, "\u00c3\u00a9");
    made_free(m);
    m = opened_with_bos(made_bpe("llama-bpe"), "<|bos|>", NULL);
    EXPECT(m, "e\u0301", 0, "e|\u00cc|\u0123");
    made_free(m);
}
END_TEST

START_TEST(the_longest_special_wins)
{
    struct made *m = opened(made_bpe("qwen2"));

    EXPECT(m, "a<|im_end|>b", TOK_PARSE_SPECIAL, "a|<|im_end|>|b");
    EXPECT(m, "<|im_end|>!<|im_end|>", TOK_PARSE_SPECIAL, "<|im_end|>!|<|im_end|>");
    EXPECT(m, "<|im_end|>", 0, "<|||i|m|_|e|n|d|||>");
    EXPECT(m, "<u>a<u>>", 0, "<u>|a|<u>>"); /* user-defined: always */
    EXPECT(m, "<u<u>>>", 0, "<|u|<u>>|>");
    made_free(m);
}
END_TEST

START_TEST(spm_merges_by_score)
{
    struct made *m = opened(made_spm());

    EXPECT(m, "abc", 0, "\u2581|abc");
    EXPECT(m, "", 0, "");
    EXPECT(m, "", TOK_ADD_SPECIAL, "<s>");
    EXPECT(m, "b  a", 0, "\u2581|b|\u2581|\u2581a");
    EXPECT(m, "aaa", TOK_ADD_SPECIAL, "<s>|\u2581|aa|a");
    EXPECT(m, "d\xff\u00e9", 0, "\u2581|<0x64>|<0xFF>|\u00e9");
    EXPECT(m, "</s>", TOK_PARSE_SPECIAL, "</s>");
    made_free(m);
}
END_TEST

START_TEST(gemma4_merges_by_rank_over_raw_text)
{
    struct made *m = opened_with_bos(made_gemma4(), "<bos>", "<eos>");

    EXPECT(m, "abc", 0, "a|bc");
    EXPECT(m, " abc", 0, "\u2581abc");
    EXPECT(m, "a  b", 0, "a|\u2581\u2581|b");
    EXPECT(m, "\n\n", 0, "\n\n");
    EXPECT(m, "\n\n\n", 0, "\n\n|\n");
    EXPECT(m, "a\u4e2d\xff", TOK_ADD_SPECIAL, "<bos>|a|<0xE4>|<0xB8>|<0xAD>|<0xFF>");
    made_free(m);
}
END_TEST

static bool eog_is(const struct tok *t, const char *text)
{
    int32_t id = tok_find(t, text, strlen(text));

    return id >= 0 && tok_is_eog(t, id);
}

START_TEST(generation_ends_by_text)
{
    struct made *m = opened(made_bpe("qwen2"));
    size_t n;

    ck_assert(eog_is(m->t, "<|im_end|>"));
    ck_assert(!eog_is(m->t, "<|bos|>"));
    ck_assert_int_eq(tok_eot(m->t), tok_find(m->t, "<|im_end|>", 10));
    tok_eog_ids(m->t, &n);
    ck_assert_uint_eq(n, 1);
    made_free(m);

    m = opened_with_bos(made_gemma4(), "<bos>", "<eos>");
    ck_assert(eog_is(m->t, "<eos>"));
    ck_assert(eog_is(m->t, "<turn|>"));
    ck_assert(eog_is(m->t, "<|tool_response>"));
    ck_assert_msg(!eog_is(m->t, "</s>"), "an HTML tag in Gemma 4");
    ck_assert_uint_eq(tok_attrs(m->t, tok_find(m->t, "</s>", 4)), TOK_NORMAL);
    made_free(m);

    m = made_bpe("qwen2");
    made_token(m, "</s>", T_NORMAL, 0);
    opened_with_bos(m, "<|bos|>", "<|im_end|>");
    ck_assert_msg(!eog_is(m->t, "</s>"), "an HTML tag where texts end with another token");
    EXPECT(m, "</s><|im_end|>", TOK_PARSE_SPECIAL, "<|/|s|>|<|im_end|>");
    made_free(m);

    m = made_bpe("qwen2");
    made_token(m, "</s>", T_NORMAL, 0);
    opened_with_bos(m, "<|bos|>", "</s>");
    ck_assert(eog_is(m->t, "</s>"));
    EXPECT(m, "a</s>", TOK_PARSE_SPECIAL, "a|</s>");
    made_free(m);

    m = made_bpe("gpt-4o");
    for (size_t i = 0; i < 7; i++)
        made_token(m,
                   (const char *[]){"<|return|>", "<|call|>", "<|end|>", "<|start|>", "<|message|>",
                                    "<|channel|>", "<|constrain|>"}[i],
                   T_CONTROL, 0);
    opened(m);
    ck_assert(eog_is(m->t, "<|return|>"));
    ck_assert(eog_is(m->t, "<|call|>"));
    ck_assert_msg(!eog_is(m->t, "<|end|>"), "ends a message only");
    EXPECT(m, "<|start|>a<|end|>", 0, "<|start|>|a|<|end|>");
    made_free(m);
}
END_TEST

START_TEST(suppressed_tokens_are_listed)
{
    struct made *m = made_bpe("qwen2");
    size_t n;

    made_begin(m);
    gguf_put_arr(m->w, "tokenizer.ggml.suppress_tokens", GGUF_I32, (int32_t[]){7, -1, 99999, 8}, 4);
    ck_assert_int_eq(made_open(m, &e), 0);
    const int32_t *ids = tok_suppressed(m->t, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert(ids[0] == 7 && ids[1] == 8);
    made_free(m);
}
END_TEST

/* ---- and back ------------------------------------------------------------------------------------------ */

START_TEST(special_tokens_print_on_request)
{
    struct made *m = opened(made_bpe("qwen2"));
    struct tok_buf out = {0};
    int32_t end = tok_find(m->t, "<|im_end|>", 10), user = tok_find(m->t, "<u>", 3);

    ck_assert_int_eq(tok_piece(m->t, end, 0, &out, &e), 0);
    ck_assert_uint_eq(out.n, 0);
    tok_piece(m->t, end, TOK_SHOW_SPECIAL, &out, &e);
    tok_piece(m->t, user, 0, &out, &e);
    tok_piece(m->t, -1, TOK_SHOW_SPECIAL, &out, &e);
    tok_piece(m->t, INT32_MAX, TOK_SHOW_SPECIAL, &out, &e);
    ck_assert(out.n == 13 && memcmp(out.s, "<|im_end|><u>", 13) == 0);
    ck_assert(tok_is_control(m->t, end) && !tok_is_control(m->t, user) && !tok_is_control(m->t, -5));
    ck_assert(!tok_is_eog(m->t, -1));
    tok_buf_finish(&out);
    made_free(m);
}
END_TEST

static uint64_t rng = 0x9e3779b97f4a7c15u;

static uint32_t rnd(uint32_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % below;
}

static size_t random_text(char *s, size_t max)
{
    static const char *const bits[] = {
        "hello", " world", "aa",  "<u>", "<|im_end|>",       "\xff",         "\xe2\x96", "\xc3\xa9",
        "\n\n",  "  ",     "123", "ab",  "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80", "'s"};
    size_t n = 0, want = rnd((uint32_t)max - 16);

    while (n < want) {
        if (rnd(3)) {
            const char *b = bits[rnd(ARRAY_LEN(bits))];
            memcpy(s + n, b, strlen(b));
            n += strlen(b);
        } else {
            s[n++] = (char)rnd(256);
        }
    }
    return n;
}

START_TEST(random_bytes_come_back)
{
    struct made *m = _i == 0   ? opened(made_bpe("deepseek-r1-qwen"))
                     : _i == 1 ? opened_with_bos(made_bpe("llama-bpe"), "<|bos|>", NULL)
                     : _i == 2 ? opened(made_bpe("deepseek-v3"))
                     : _i == 3 ? opened(made_bpe("gpt-4o"))
                     : _i == 4 ? opened_with_bos(made_spm(), "<s>", "</s>")
                               : opened_with_bos(made_gemma4(), "<bos>", "<eos>");
    struct tok_ids ids = {0};
    struct tok_buf back = {0};
    char s[160];

    for (int k = 0; k < 10000; k++) {
        size_t n = random_text(s, sizeof s);
        unsigned add = rnd(2) ? TOK_ADD_SPECIAL : 0;
        if (_i >= 4 && memmem(s, n, "\xe2\x96\x81", 3))
            continue;
        ids.n = back.n = 0;
        ck_assert_int_eq(tok_encode(m->t, s, n, add, &ids, &e), 0);
        ck_assert_int_eq(tok_decode(m->t, ids.id, ids.n, 0, &back, &e), 0);
        ck_assert_msg(back.n == n && (n == 0 || memcmp(back.s, s, n) == 0), "string %d of %zu bytes", k, n);
    }
    tok_ids_finish(&ids);
    tok_buf_finish(&back);
    made_free(m);
}
END_TEST

/* ---- streaming ----------------------------------------------------------------------------------------- */

static bool is_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint8_t c = (uint8_t)s[i];
        size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (len == 0 || i + len > n)
            return false;
        for (size_t k = 1; k < len; k++)
            if (((uint8_t)s[i + k] & 0xc0) != 0x80)
                return false;
        i += len;
    }
    return true;
}

#define FFFD "\xef\xbf\xbd"

static const struct {
    const char *in, *out;
} streams[] = {
    {"plain", "plain"},
    {"\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80!", "\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80!"},
    {"a\xe4\xb8", "a" FFFD},                   /* cut short by the end */
    {"a\xf0\x9f\x98z", "a" FFFD "z"},          /* cut short by a letter */
    {"\xff\x80\xc3", FFFD FFFD FFFD},          /* each belongs to nothing */
    {"\xe0\x80\x80", FFFD FFFD FFFD},          /* overlong */
    {"\xed\xa0\x80", FFFD FFFD FFFD},          /* a surrogate */
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* past the last code point */
    {"\xc3\xc3\xa9", FFFD "\xc3\xa9"},
};

START_TEST(streams_whole_characters_at_every_cut)
{
    const char *in = streams[_i].in, *want = streams[_i].out;
    size_t n = strlen(in);

    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct tok_stream st;
            struct tok_buf out = {0};
            tok_stream_init(&st, NULL, 0);
            size_t cut[4] = {0, a, b, n};
            for (int k = 0; k < 3; k++) {
                ck_assert_int_eq(tok_stream_bytes(&st, in + cut[k], cut[k + 1] - cut[k], &out, &e), 0);
                ck_assert_msg(is_utf8(out.s, out.n), "cut at %zu, %zu", a, b);
            }
            ck_assert_int_eq(tok_stream_finish(&st, &out, &e), 0);
            ck_assert_msg(out.n == strlen(want) && memcmp(out.s, want, out.n) == 0, "cut at %zu, %zu: %.*s",
                          a, b, (int)out.n, out.s);
            tok_buf_finish(&out);
        }
    }
}
END_TEST

START_TEST(tokens_stream_as_their_text)
{
    struct made *m = opened(made_bpe("qwen2"));
    static const char text[] = "hello world \xf0\x9f\x98\x80 \xc3\xa9<|im_end|>";
    struct tok_ids ids = {0};
    struct tok_buf out = {0};
    struct tok_stream st;

    tok_encode(m->t, text, sizeof text - 1, TOK_PARSE_SPECIAL, &ids, &e);
    tok_stream_init(&st, m->t, 0);
    for (size_t i = 0; i < ids.n; i++) {
        ck_assert_int_eq(tok_stream_put(&st, ids.id[i], &out, &e), 0);
        ck_assert(is_utf8(out.s, out.n));
    }
    ck_assert_int_eq(tok_stream_finish(&st, &out, &e), 0);
    ck_assert(out.n == sizeof text - 11 && memcmp(out.s, text, out.n) == 0);
    tok_ids_finish(&ids);
    tok_buf_finish(&out);
    made_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tok_small");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, merges_by_rank_then_from_the_left);
    tcase_add_test(tc, llama3_takes_whole_words);
    tcase_add_test(tc, long_words_merge_like_short_ones);
    tcase_add_test(tc, bytes_without_a_token_vanish_before_merging);
    tcase_add_test(tc, qwen_composes_letters_and_marks);
    tcase_add_test(tc, the_longest_special_wins);
    tcase_add_test(tc, spm_merges_by_score);
    tcase_add_test(tc, gemma4_merges_by_rank_over_raw_text);
    tcase_add_test(tc, generation_ends_by_text);
    tcase_add_test(tc, suppressed_tokens_are_listed);
    tcase_add_test(tc, special_tokens_print_on_request);
    tcase_add_loop_test(tc, random_bytes_come_back, 0, 6);
    tcase_add_loop_test(tc, streams_whole_characters_at_every_cut, 0, (int)ARRAY_LEN(streams));
    tcase_add_test(tc, tokens_stream_as_their_text);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
