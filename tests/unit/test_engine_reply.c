/* Reasoning and answer are told apart, however the text is cut into pieces, and no mark comes through. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/reply.h"

static char part[2][512];

static int on_part(void *user, enum reply_part p, const char *text, size_t n)
{
    (void)user;
    ck_assert_uint_gt(n, 0);
    size_t have = strlen(part[p]);
    ck_assert_uint_lt(have + n, sizeof part[p]);
    memcpy(part[p] + have, text, n);
    part[p][have + n] = 0;
    return 0;
}

/* In one piece, byte by byte, and in pieces of 2..9. */
static void expect(struct reply_marks m, const char *text, const char *reasoning, const char *answer)
{
    for (size_t step = 1; step < 11; step++) {
        struct reply r;
        size_t len = strlen(text), k = step == 10 ? len + 1 : step;
        part[0][0] = part[1][0] = 0;
        ck_assert_int_eq(reply_init(&r, &m, on_part, NULL), 0);
        for (size_t i = 0; i < len; i += k)
            ck_assert_int_eq(reply_put(&r, text + i, MIN(k, len - i)), 0);
        ck_assert_int_eq(reply_end(&r), 0);
        reply_finish(&r);
        ck_assert_msg(!strcmp(part[0], reasoning) && !strcmp(part[1], answer), "pieces of %zu: '%s' + '%s', want '%s' + '%s'",
                      k, part[0], part[1], reasoning, answer);
    }
}

static const struct reply_marks qwen = { "<think>", "</think>", NULL, false };
static const struct reply_marks opened = { "<think>", "</think>", NULL, true };
static const struct reply_marks harmony = { "<|channel|>analysis<|message|>", "<|end|>",
                                            "<|start|>assistant<|channel|>final<|message|>", false };
static const struct reply_marks none = { NULL, NULL, NULL, false };

START_TEST(without_marks_all_is_answer)
{
    expect(none, "Hello <think> you", "", "Hello <think> you");
    expect(qwen, "Hello you", "", "Hello you");
    expect(qwen, "<thin ice", "", "<thin ice");
    expect(qwen, "a < b and <think> later", "", "a < b and <think> later");
    expect(qwen, "", "", "");
}
END_TEST

START_TEST(reasoning_comes_first)
{
    expect(qwen, "<think>\nlet me see\n</think>\n\nYes.", "let me see\n", "Yes.");
    expect(qwen, "\n<think>a</thin</think>b</think>", "a</thin", "b</think>");
    expect(qwen, "<think>\n\n</think>\n\nNo.", "", "No.");
    expect(opened, "still thinking</think>done", "still thinking", "done");
}
END_TEST

START_TEST(an_unfinished_part_comes_out_at_the_end)
{
    expect(qwen, "<think>abc", "abc", "");
    expect(qwen, "<think>abc</thi", "abc</thi", "");
    expect(qwen, "<thin", "", "<thin");
    expect(harmony, "<|channel|>analysis<|message|>x<|end|><|start|>assist", "x", "<|start|>assist");
}
END_TEST

START_TEST(channels_are_read_too)
{
    expect(harmony, "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "think",
           "Yes.");
    expect(harmony, "<|channel|>final<|message|>At once.", "", "At once.");
    expect(harmony,
           "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>analysis<|message|>two<|end|>"
           "<|start|>assistant<|channel|>final<|message|>x", "onetwo", "x");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reply");
    TCase *t = tcase_create("reply");
    tcase_add_test(t, without_marks_all_is_answer);
    tcase_add_test(t, reasoning_comes_first);
    tcase_add_test(t, an_unfinished_part_comes_out_at_the_end);
    tcase_add_test(t, channels_are_read_too);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
