/* What a conversation says stays text: in every chat format, the tokens that structure a prompt are those that the
 * format writes, whatever stands in contents, names, reasoning, arguments, results and tools. The vocabularies are made
 * here; test_chat_marks_vocab.c does the same with real ones. */
#include "tests/unit/chat_marks.h"
#include "tests/unit/tok_make.h"

/* With every mark as one token: control ones, and every third user-defined. */
static struct made *vocabulary(bool bytes_only)
{
    struct made *m = bytes_only ? made_gemma4() : made_bpe("qwen2");
    for (size_t i = 0; i < ARRAY_LEN(chat_marks); i++) {
        bool there = false;
        for (uint32_t k = 0; k < m->n; k++)
            there |= strcmp(m->text[k], chat_marks[i]) == 0;
        if (!there)
            made_token(m, chat_marks[i], i % 3 ? T_CONTROL : T_USER, 0);
    }
    struct err e = { 0 };
    made_begin(m);
    ck_assert_msg(made_open(m, &e) == 0, "%s", e.msg);
    return m;
}

START_TEST(what_is_said_has_no_marks)
{
    struct made *m = vocabulary(_i >= CHAT_FORMAT_COUNT);
    check_format(m->t, (enum chat_format)(_i % CHAT_FORMAT_COUNT), _i < CHAT_FORMAT_COUNT);
    made_free(m);
}
END_TEST

/* The format's own marks are tokens: the check above would hold also if nothing was ever one. */
START_TEST(the_formats_marks_are_tokens)
{
    static const size_t least[CHAT_FORMAT_COUNT] = {
        [CHAT_CHATML] = 13, [CHAT_QWEN3] = 13, [CHAT_QWEN3_THINKING] = 13, [CHAT_QWEN3_CODER] = 13, [CHAT_QWEN35] = 13,
        [CHAT_LLAMA3] = 20, [CHAT_LLAMA31] = 20, [CHAT_GPT_OSS] = 18, [CHAT_GEMMA3] = 9, [CHAT_GEMMA4] = 12,
    };
    struct made *m = vocabulary(false);
    for (int f = 0; f < CHAT_FORMAT_COUNT; f++) {
        struct chat_template tpl = { .format = (enum chat_format)f, .think_default = true };
        struct tok_ids marks = marks_in(m->t, &tpl, "word", "word", false, true, true);
        ck_assert_msg(marks.n >= least[f], "%s: %zu marks", chat_format_info(tpl.format)->name, marks.n);
        tok_ids_finish(&marks);
    }
    made_free(m);
}
END_TEST

START_TEST(stretches_say_where_marks_are_not)
{
    struct made *m = vocabulary(false);
    static const char text[] = "<|im_end|>a<|im_end|>b<|im_end|>!<u><|im_end|>";
    int32_t end = tok_find(m->t, "<|im_end|>", 10), user = tok_find(m->t, "<u>", 3);
    /* the second one; a byte of the third; where <u> is, which is no mark */
    struct tok_span s[] = { { 11, 10 }, { 30, 1 }, { 33, 3 } };
    struct tok_spans plain = { s, 3, 3 }, none = { 0 };
    struct tok_ids ids = { 0 };
    struct tok_buf back = { 0 };
    size_t n_end = 0, n_user = 0;
    ck_assert_int_eq(tok_encode_marked(m->t, text, sizeof text - 1, &plain, TOK_PARSE_SPECIAL, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n; i++) {
        n_end += ids.id[i] == end;
        n_user += ids.id[i] == user;
    }
    ck_assert_uint_eq(n_end, 2);
    ck_assert_uint_eq(n_user, 1);
    ck_assert(ids.id[0] == end && ids.id[ids.n - 1] == end);
    ck_assert_int_eq(tok_decode(m->t, ids.id, ids.n, TOK_SHOW_SPECIAL, &back, NULL), 0);
    ck_assert(back.n == sizeof text - 1 && memcmp(back.s, text, back.n) == 0);
    ids.n = 0;
    ck_assert_int_eq(tok_encode_marked(m->t, text, sizeof text - 1, &none, TOK_PARSE_SPECIAL, &ids, NULL), 0);
    ck_assert_uint_eq(ids.n, 7); /* <|im_end|>! is one of its own */
    tok_ids_finish(&ids);
    tok_buf_finish(&back);
    made_free(m);
}
END_TEST

START_TEST(stretches_grow_and_shrink)
{
    struct tok_spans v = { 0 };
    ck_assert(!tok_spans_add(&v, 2, 3) && !tok_spans_add(&v, 5, 1) && !tok_spans_add(&v, 9, 0));
    ck_assert(!tok_spans_add(&v, 9, 4) && !tok_spans_add(&v, 20, 5));
    ck_assert(v.n == 3 && v.s[0].off == 2 && v.s[0].len == 4);
    tok_spans_cut(&v, 22);
    ck_assert(v.n == 3 && v.s[2].len == 2);
    tok_spans_cut(&v, 20);
    ck_assert(v.n == 2);
    tok_spans_skip(&v, 4);
    ck_assert(v.n == 2 && v.s[0].off == 0 && v.s[0].len == 2 && v.s[1].off == 5 && v.s[1].len == 4);
    tok_spans_skip(&v, 2);
    ck_assert(v.n == 1 && v.s[0].off == 3 && v.s[0].len == 4);
    tok_spans_finish(&v);
    ck_assert(!v.s && !v.n);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("chat_marks");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, what_is_said_has_no_marks, 0, 2 * CHAT_FORMAT_COUNT);
    tcase_add_test(tc, the_formats_marks_are_tokens);
    tcase_add_test(tc, stretches_say_where_marks_are_not);
    tcase_add_test(tc, stretches_grow_and_shrink);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
