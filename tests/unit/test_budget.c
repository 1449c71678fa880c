/* The budget of bytes: never more than the limit, whoever takes at once; and what JSON weighs is not less than it does. */
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/out.h"
#include "tests/lib/run.h"

START_TEST(taking_and_giving)
{
    struct budget *b = budget_create(100);
    ck_assert_int_eq(budget_take(b, 60), 0);
    ck_assert_int_eq(budget_take(b, 41), -EBUSY);
    ck_assert_int_eq(budget_take(b, 101), -E2BIG);
    ck_assert_int_eq(budget_take(b, UINT64_MAX), -E2BIG);
    ck_assert_int_eq(budget_take(b, 40), 0);
    budget_give(b, 100);
    struct budget_stats s = budget_stats(b);
    ck_assert_uint_eq(s.used, 0);
    ck_assert_uint_eq(s.peak, 100);
    ck_assert_uint_eq(s.refused, 3);
    ck_assert_int_eq(budget_take(NULL, UINT64_MAX), 0);
    budget_destroy(b);
}
END_TEST

static struct budget *shared;
static uint64_t kept;

static void relieve(void *user, uint64_t n)
{
    uint64_t some = MIN(kept, n);
    ck_assert_ptr_eq(user, &kept);
    kept -= some;
    budget_give(shared, some);
}

START_TEST(what_can_be_made_again_goes_first)
{
    shared = budget_create(100);
    kept = 80;
    ck_assert_int_eq(budget_take(shared, kept), 0);
    budget_on_pressure(shared, relieve, &kept);
    ck_assert_int_eq(budget_take(shared, 50), 0);
    ck_assert_uint_eq(kept, 30);
    ck_assert_int_eq(budget_take(shared, 60), -EBUSY); /* although nothing is kept any more */
    ck_assert_uint_eq(kept, 0);
    budget_on_pressure(shared, NULL, NULL);
    budget_give(shared, 50);
    ck_assert_uint_eq(budget_stats(shared).used, 0);
    budget_destroy(shared);
}
END_TEST

static void *storm(void *user)
{
    uint32_t seed = (uint32_t)(uintptr_t)user;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint64_t n = seed >> 8 & 1023;
        if (budget_take(shared, n))
            continue;
        ck_assert_uint_le(budget_stats(shared).used, 2000);
        budget_give(shared, n);
    }
    return NULL;
}

START_TEST(never_more_than_the_limit)
{
    pthread_t t[4];
    shared = budget_create(2000);
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, storm, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    ck_assert_uint_eq(budget_stats(shared).used, 0);
    ck_assert_uint_le(budget_stats(shared).peak, 2000);
    budget_destroy(shared);
}
END_TEST

START_TEST(a_text_pays_for_what_it_holds)
{
    struct budget *b = budget_create(10000);
    struct out o = { .budget = b };
    char some[1000] = "";
    for (int i = 0; i < 8; i++) {
        out_raw(&o, some, sizeof some);
        ck_assert_uint_eq(budget_stats(b).used, o.cap);
    }
    ck_assert(!o.failed);
    for (int i = 0; i < 8; i++)
        out_raw(&o, some, sizeof some);
    ck_assert(o.failed);
    ck_assert_uint_eq(budget_stats(b).used, o.cap);
    out_finish(&o);
    ck_assert_uint_eq(budget_stats(b).used, 0);
    out_text(&o, "again");
    ck_assert_uint_eq(budget_stats(b).used, o.cap);
    out_finish(&o);
    budget_destroy(b);
}
END_TEST

static size_t live;

static void *count_malloc(size_t n)
{
    void *p = malloc(n);
    live += p ? malloc_usable_size(p) + sizeof(size_t) : 0;
    return p;
}

static void count_free(void *p)
{
    live -= p ? malloc_usable_size(p) + sizeof(size_t) : 0;
    free(p);
}

START_TEST(json_weighs_what_it_holds)
{
    static const struct {
        const char *open, *item, *close;
    } shapes[] = {
        { "[", "{}", "]" }, { "[", "[]", "]" }, { "[", "1", "]" }, { "[", "1.5", "]" }, { "[", "\"\"", "]" },
        { "[", "\"\\u00e9\\n\"", "]" }, { "[", "true", "]" }, { "[", "[1]", "]" }, { "[", "{\"a\":1}", "]" },
        { "[", "{\"a\":{}}", "]" }, { "[", "[[[[]]]]", "]" }, { "{", "\"%d\":1", "}" }, { "{", "\"%d\":{}", "}" },
        { "[", "{\"role\":\"user\",\"content\":\"some text, with commas: and \\\"quotes\\\" and [braces]\"}", "]" },
        { "{", "\"%d\":\"\"", "}" }, { "[", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}", "]" },
    };
    json_set_alloc_funcs(count_malloc, count_free);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        for (int n = 1; n <= 20000; n = n * 3 + 1) {
            struct out o = { 0 };
            char item[200];
            out_text(&o, shapes[i].open);
            for (int k = 0; k < n; k++) {
                char *at = strstr(shapes[i].item, "%d");
                int len = at ? snprintf(item, sizeof item, "%.*s%d%s", (int)(at - shapes[i].item), shapes[i].item, k, at + 2)
                             : snprintf(item, sizeof item, "%s", shapes[i].item);
                out_text(&o, k ? "," : "");
                out_raw(&o, item, (size_t)len);
            }
            out_text(&o, shapes[i].close);
            json_error_t e;
            json_t *v = json_loadb(o.s, o.n, 0, &e);
            ck_assert_msg(v != NULL, "%s", e.text);
            ck_assert_msg(budget_of_json(o.s, o.n) >= live, "%d x %s: %zu held, weighed as %llu", n, shapes[i].item, live,
                          (unsigned long long)budget_of_json(o.s, o.n));
            json_decref(v);
            ck_assert_uint_eq(live, 0);
            out_finish(&o);
        }
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("budget", taking_and_giving, what_can_be_made_again_goes_first, never_more_than_the_limit,
                     a_text_pays_for_what_it_holds, json_weighs_what_it_holds);
}
