/* Normalization form C: letters and marks join, marks are sorted, and nothing else changes. Whole texts are compared
 * with Hugging Face's tokenizers by tests/real/ids.py. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "model/tok_nfc.h"

static void expect(const char *s, size_t n, const char *want, size_t n_want)
{
    struct tok_buf out = {0};
    bool changes = n != n_want || (n && memcmp(s, want, n));

    ck_assert_int_eq(tok_nfc(s, n, &out), 0);
    ck_assert_msg(out.n == n_want && (n_want == 0 || memcmp(out.s, want, n_want) == 0),
                  "'%.*s': got '%.*s', want '%.*s'", (int)n, s, (int)out.n, out.s, (int)n_want, want);
    ck_assert_msg(!changes || tok_nfc_needed(s, n), "'%.*s' needs it", (int)n, s);
    tok_buf_finish(&out);
}

START_TEST(joins_and_sorts)
{
    static const struct {
        const char *s, *want;
    } cases[] = {
        {"", ""},
        {"plain text\n", "plain text\n"},
        {"caf\u00e9 \u4e2d \U0001f600", "caf\u00e9 \u4e2d \U0001f600"},
        {"e\u0301", "\u00e9"},
        {"cafe\u0301s", "caf\u00e9s"},
        {"\u00e9\u0301", "\u00e9\u0301"},
        {"o\u0302\u0301", "\u1ed1"},                     /* twice */
        {"o\u0323\u0302", "\u1ed9"},                     /* below, then above */
        {"o\u0302\u0323", "\u1ed9"},                     /* in the other order */
        {"a\u0301\u0327", "\u00e1\u0327"},               /* sorted, then the higher one joins: it is not blocked */
        {"a\u0301\u0300", "\u00e1\u0300"},               /* blocked by one of its own order */
        {"q\u0307\u0323", "q\u0323\u0307"},              /* only sorted */
        {"\u0301e", "\u0301e"},                          /* a mark without a letter */
        {"\u212b\u2126", "\u00c5\u03a9"},                /* characters that are others */
        {"\u0958", "\u0915\u093c"},                      /* one that stays apart */
        {"\u0344", "\u0308\u0301"},
        {"\U0002f800", "\u4e3d"},
        {"\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud55c\uae00"},
        {"\uac00\u11a8\u11a8", "\uac01\u11a8"},
        {"\u09c7\u09be", "\u09cb"},                      /* a vowel sign that is no mark of any order */
        {"\U000110a5\U000110ba", "\U000110ab"},
        {"a\u0301 e\u0301", "\u00e1 \u00e9"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect(cases[i].s, strlen(cases[i].s), cases[i].want, strlen(cases[i].want));
        expect(cases[i].want, strlen(cases[i].want), cases[i].want, strlen(cases[i].want));
    }
}
END_TEST

START_TEST(bytes_that_are_no_text_stay)
{
    static const struct {
        const char *s, *want;
    } cases[] = {
        {"\xff\xfe", "\xff\xfe"},
        {"e\xff\u0301", "e\xff\u0301"}, /* lies between */
        {"\xc3", "\xc3"},
        {"e\u0301\xcc", "\u00e9\xcc"},
        {"\xe2\x81" "e\u0301", "\xe2\x81\u00e9"},
        {"\xed\xa0\x80" "\u0301", "\xed\xa0\x80" "\u0301"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(cases[i].s, strlen(cases[i].s), cases[i].want, strlen(cases[i].want));
}
END_TEST

/* A page of nothing but marks: 400,000 of two orders in turn would take minutes if each were moved past others. */
START_TEST(many_marks_are_sorted_in_one_go)
{
    enum { N = 200000 };
    char *s = malloc(1 + 4 * N), *want = malloc(1 + 4 * N);
    size_t n = 1;

    s[0] = want[0] = 'x';
    for (size_t i = 0; i < N; i++, n += 4)
        memcpy(s + n, "\u0301\u0323", 4);
    for (size_t i = 0; i < N; i++) {
        memcpy(want + 1 + 2 * i, "\u0323", 2);
        memcpy(want + 1 + 2 * (N + i), "\u0301", 2);
    }
    struct tok_buf out = {0};
    ck_assert_int_eq(tok_nfc(s, n, &out), 0);
    ck_assert(out.n == n && memcmp(out.s, want, n) == 0);
    tok_buf_finish(&out);
    free(s);
    free(want);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tok_nfc");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, joins_and_sorts);
    tcase_add_test(tc, bytes_that_are_no_text_stay);
    tcase_add_test(tc, many_marks_are_sorted_in_one_go);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
