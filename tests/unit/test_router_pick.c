/* What a router reads of a request. */
#include <stdio.h>
#include <string.h>

#include "server/router/pick.h"
#include "tests/lib/run.h"

START_TEST(bodies)
{
    static const struct {
        const char *body, *model;
        int stream;
    } cases[] = {
        { "{\"model\":\"a\"}", "a", -1 },
        { " { \"stream\" : true , \"model\" : \"a b\" } ", "a b", 1 },
        { "{\"messages\":[{\"model\":\"no\",\"stream\":true}],\"model\":\"yes\",\"stream\":false}", "yes", 0 },
        { "{\"x\":\"} \\\" , \\\"model\\\":\\\"no\\\"\",\"model\":\"q\\u00e9/\\/\"}", "q\xc3\xa9//", -1 },
        { "{\"model\":\"a\",\"model\":\"b\"}", "b", -1 },
        { "{\"model\":\"a\",\"model\":1}", "", -1 },
        { "{\"model\":[\"a\"]}", "", -1 },
        { "{\"model\":\"\"}", "", -1 },
        { "[{\"model\":\"a\"}]", "", -1 },
        { "\"model\"", "", -1 },
        { "", "", -1 },
        { "{", "", -1 },
        { "{\"", "", -1 },
        { "{\"model", "", -1 },
        { "{\"model\"", "", -1 },
        { "{\"model\":", "", -1 },
        { "{\"model\":\"a", "", -1 },
        { "{\"model\":\"a\"", "a", -1 }, /* what is wrong with it the model's process says */
        { "{\"a\":]]]]]},\"model\":\"a\"}", "", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pick p;
        char copy[256];
        size_t n = strlen(cases[i].body);
        memcpy(copy, cases[i].body, n); /* not terminated */
        memset(copy + n, '"', sizeof copy - n);
        pick_read(copy, n, &p);
        ck_assert_msg(strcmp(p.model, cases[i].model) == 0 && p.stream == cases[i].stream, "%s: '%s', %d", cases[i].body, p.model, p.stream);
    }
}
END_TEST

START_TEST(long_names)
{
    struct pick p;
    char body[PICK_NAME + 64];
    for (int n = PICK_NAME - 2; n < PICK_NAME + 2; n++) {
        int at = snprintf(body, sizeof body, "{\"model\":\"");
        memset(body + at, 'x', (size_t)n);
        snprintf(body + at + n, sizeof body - (size_t)(at + n), "\"}");
        pick_read(body, strlen(body), &p);
        ck_assert_uint_eq(strlen(p.model), n < PICK_NAME ? (unsigned)n : 0);
    }
}
END_TEST

START_TEST(queries)
{
    char model[PICK_NAME];
    ck_assert(pick_query("model=a", model) && strcmp(model, "a") == 0);
    ck_assert(pick_query("x=1&model=q%2F3+b%zz&y", model) && strcmp(model, "q/3 b%zz") == 0);
    ck_assert(!pick_query("x=model", model));
    ck_assert(!pick_query("model=", model));
    ck_assert(!pick_query("", model));
    ck_assert(!pick_query(NULL, model));
}
END_TEST

int main(void)
{
    return RUN_TESTS("router_pick", bodies, long_names, queries);
}
