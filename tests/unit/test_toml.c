/* Lists of models: what is read of TOML, and the line that says what is not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/toml.h"
#include "tests/lib/run.h"

static const char *value(const struct toml *t, const char *table, const char *key, uint32_t i)
{
    for (uint32_t k = 0; k < t->n; k++)
        if (strcmp(t->table[t->pair[k].table], table) == 0 && strcmp(t->pair[k].key, key) == 0)
            return i < t->pair[k].n_values ? t->pair[k].value[i] : NULL;
    return NULL;
}

START_TEST(values)
{
    static const char text[] = "# a list\nctx = 4_096\n\t\"quoted key\" = 'C:\\x' # literal\n[one]\r\nmodel=\"a\\u00e9\\t\\U0001F600\"\r\n"
                               "alias = [ \"x\" , # first\n\n \"y\",\n]\nempty = []\npin=true\n [ \"a.b c\" ] \ntemp = -0.5e1\nbare-_9 = false";
    struct toml t;
    struct err e = { 0 };
    ck_assert_int_eq(toml_parse(text, strlen(text), "list", &t, &e), 0);
    ck_assert_uint_eq(t.n, 8);
    ck_assert_uint_eq(t.n_tables, 3);
    ck_assert_str_eq(value(&t, "", "ctx", 0), "4096");
    ck_assert_str_eq(value(&t, "", "quoted key", 0), "C:\\x");
    ck_assert_str_eq(value(&t, "one", "model", 0), "a\xc3\xa9\t\xf0\x9f\x98\x80");
    ck_assert_str_eq(value(&t, "one", "alias", 0), "x");
    ck_assert_str_eq(value(&t, "one", "alias", 1), "y");
    ck_assert_ptr_null(value(&t, "one", "empty", 0));
    ck_assert_str_eq(value(&t, "one", "pin", 0), "true");
    ck_assert_str_eq(value(&t, "a.b c", "temp", 0), "-0.5e1");
    ck_assert_str_eq(value(&t, "a.b c", "bare-_9", 0), "false");
    ck_assert_uint_eq(t.pair[t.n - 1].line, 14);
    toml_clear(&t);
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "a", "list:1: = behind a key" },
        { "\n\na = ", "list:3: a string in quotes" },
        { "a = x", "a string in quotes, a number" },
        { "a = 2024-01-01", "a number" },
        { "a = 0x10", "a number" },
        { "a = \"x", "the end of a string" },
        { "a = \"x\ny\"", "the end of a string" },
        { "a = \"\\q\"", "an escape" },
        { "a = \"\\ud800\"", "an escape" },
        { "a = \"\\u0000\"", "an escape" },
        { "a = \"\"\"x\"\"\"", "on one line" },
        { "a = [1, \"x\"]", "of one kind" },
        { "a = [1", ", or ]" },
        { "a = [[1]]", "a string in quotes" },
        { "a = 1 b = 2", "the end of the line" },
        { "a.b = 1", "without dots" },
        { "[a.b]", "without dots" },
        { "[[a]]", "a table's name" },
        { "[]", "a table's name" },
        { "\"\" = 1", "not empty" },
        { "= 1", "a key" },
        { "a = 1\na = 2", "list:2: 'a' stands in line 1 too" },
        { "[x]\n[y]\n[x]", "list:3: [x] stands in line 1 too" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toml t;
        struct err e = { 0 };
        ck_assert_msg(toml_parse(cases[i].text, strlen(cases[i].text), "list", &t, &e) == -EINVAL, "%s", cases[i].text);
        ck_assert_msg(strstr(e.msg, cases[i].says), "%s: %s", cases[i].text, e.msg);
    }
}
END_TEST

START_TEST(limits)
{
    struct toml t;
    struct err e = { 0 };
    char *big = malloc(TOML_TEXT_MAX + 1);
    memset(big, ' ', TOML_TEXT_MAX + 1);
    ck_assert_int_eq(toml_parse(big, TOML_TEXT_MAX + 1, "list", &t, &e), -EFBIG);
    ck_assert_int_eq(toml_parse(big, TOML_TEXT_MAX, "list", &t, &e), 0);
    toml_clear(&t);
    ck_assert_int_eq(toml_parse("a = 1\0", 6, "list", &t, &e), -EINVAL);
    ck_assert_int_eq(toml_parse("", 0, "list", &t, &e), 0);
    ck_assert_uint_eq(t.n, 0);
    toml_clear(&t);
    free(big);
}
END_TEST

int main(void)
{
    return RUN_TESTS("toml", values, mistakes, limits);
}
