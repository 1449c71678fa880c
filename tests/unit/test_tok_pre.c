/* Each pre-tokenizer cuts one text that touches all of its rules. The pieces are those of llama.cpp. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/tok_pre.h"

static const char text[] =
    "I'll PAY  McDonald's $1234.5\t\n \n  e\u0301t\u00e9 /usr//\n\n 'S ~~ 中文の。123 \u00a0x";

static const struct {
    const char *name, *pieces; /* with | between */
} cases[] = {
    /* clang-format off */
    {"default",
     "I|'|ll| PAY| | McDonald|'|s| |$|123|4|.|5|\t\n \n | e|\u0301|t\u00e9"
     "| |/|usr|//|\n\n |'|S| |~~| 中文の|。|123| |\u00a0|x"},
    {"llama-bpe",
     "I|'ll| PAY| | McDonald|'s| $|123|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|123| |\u00a0x"},
    {"qwen2",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    {"qwen35",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t\n \n| | e\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    {"gpt-4o",
     "I'll| PAY| | Mc|Donald's| $|123|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|123| |\u00a0x"},
    {"tekken",
     "I|'ll| PAY| | Mc|Donald|'s| $|1|2|3|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    {"gpt-2",
     "I|'ll| PAY| | McDonald|'s| $|1234|.|5|\t\n \n | e|\u0301|t\u00e9"
     "| /|usr|//|\n\n| '|S| ~~| 中文の|。|123| |\u00a0|x"},
    {"starcoder",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t\n \n | e|\u0301|t\u00e9"
     "| /|usr|//|\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0|x"},
    {"falcon",
     "I|'|ll| PAY| | McDonald|'|s| |$|123|4|.|5|\t\n \n | e|\u0301|t\u00e9"
     "| |/|usr|//|\n\n |'|S| |~~| 中文の|。|123| |\u00a0|x"},
    {"deepseek-llm",
     "I|'|ll| PAY| | McDonald|'|s| $|1234|.|5|\t|\n| |\n| | e|\u0301|t|\u00e9"
     "| /|usr|//|\n|\n| '|S| ~~| |中文の|。|123| |\u00a0x"},
    {"deepseek-coder",
     "I|'|ll| PAY| | McDonald|'|s| $|1|2|3|4|.|5|\t|\n| |\n| | e|\u0301|t\u00e9"
     "| /|usr|//|\n|\n| '|S| ~~| |中文の|。|1|2|3| |\u00a0x"},
    {"deepseek-v3",
     "I|'ll| PAY| | McDonald|'s| $|123|4|.|5|\t\n \n| | e\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| |中文の|。|123| |\u00a0x"},
    {"seed-coder",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//|\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    {"ufakzeka",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    {"minicpm5",
     "I|'ll| PAY| | McDonald|'s| $|123|4|.|5|\t\n \n| | e|\u0301t\u00e9"
     "| /|usr|//\n\n| '|S| ~~| 中文の|。|123| |\u00a0x"},
    {"laguna",
     "I|'ll| PAY| | McDonald|'s| $|1|2|3|4|.|5|\t|\n| |\n| | e|\u0301t\u00e9"
     "| /|usr|//|\n\n| '|S| ~~| 中文の|。|1|2|3| |\u00a0x"},
    /* clang-format on */
};

struct joined {
    const char *at;
    char s[1024];
    size_t n;
};

static int join(void *user, const tok_cp *c, size_t n)
{
    struct joined *j = user;
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += tok_cp_bytes(c[i]);
    if (j->n)
        j->s[j->n++] = '|';
    memcpy(j->s + j->n, j->at, bytes);
    j->n += bytes;
    j->at += bytes;
    return 0;
}

static struct joined split(const char *name, const char *s, size_t n)
{
    struct joined j = {.at = s};
    tok_cp c[512];
    const struct tok_pre *pre = tok_pre_find(name, strlen(name));

    ck_assert_msg(pre != NULL, "%s", name);
    ck_assert_int_eq(tok_pre_split(pre, c, tok_pre_decode(s, n, c), join, &j), 0);
    j.s[j.n] = 0;
    return j;
}

START_TEST(cuts_as_expected)
{
    struct joined j = split(cases[_i].name, text, sizeof text - 1);

    ck_assert_msg(strcmp(j.s, cases[_i].pieces) == 0, "%s:\n got  %s\n want %s", cases[_i].name, j.s,
                  cases[_i].pieces);
}
END_TEST

START_TEST(a_broken_byte_cuts_like_the_replacement_character)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct joined raw = split(cases[i].name,
                                  "ab \xff\xfe"
                                  "c1\xc3",
                                  8);
        struct joined fffd = split(cases[i].name, "ab \u00f7\u00f7c1\u00f7", 11);
        char want[64];
        size_t n = 0;
        for (size_t k = 0, r = 0; k < fffd.n; k++) {
            if ((fffd.s[k] & 0xc0) == 0x80)
                continue;
            want[n++] = (unsigned char)fffd.s[k] == 0xc3 ? "\xff\xfe\xc3"[r++] : fffd.s[k];
        }
        want[n] = 0;
        ck_assert_msg(strcmp(raw.s, want) == 0, "%s: %s, want %s", cases[i].name, raw.s, want);
    }
}
END_TEST

START_TEST(unknown_names_are_not_found)
{
    ck_assert_ptr_null(tok_pre_find("qwen", 4));
    ck_assert_ptr_null(tok_pre_find("", 0));
    ck_assert_ptr_nonnull(tok_pre_find("qwen2xyz", 5));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tok_pre");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, cuts_as_expected, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tc, a_broken_byte_cuts_like_the_replacement_character);
    tcase_add_test(tc, unknown_names_are_not_found);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
