/* base/json.h without memory: each allocation of a read, a copy and a write fails, one at a time and all from there on.
 * What is read is right or is said to be missing memory; jansson alone would read past its buffers here. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/run.h"

enum { BIG = 6000 };

/* The i-th text: long tokens, deep and wide trees, a table that grows, escapes. */
static size_t text_of(int i, char *s)
{
    char *at = s;
    switch (i) {
    case 0: return (size_t)sprintf(s, "{\"a\":[1,2.5,true,null,\"x\\u00e9\\n\"],\"bb\":{\"c\":-7}}");
    case 1: at += sprintf(at, "[\"%0*d\",\"%0*d\"]", BIG, 1, BIG / 3, 2); break;
    case 2:
        memset(at, '[', 150);
        memset(at + 150, ']', 150);
        at += 300;
        break;
    case 3:
        for (int k = 0; k < 300; k++)
            at += sprintf(at, "%c\"key%d\":%d", k ? ',' : '{', k, k);
        *at++ = '}';
        break;
    case 4: /* the table and a token grow close to each other */
        for (int k = 0; k < 64; k++)
            at += sprintf(at, "%c\"%0*d\":\"%0*d\"", k ? ',' : '{', 1 + k, k, k * k / 2 + 1, k);
        *at++ = '}';
        break;
    case 5: return (size_t)sprintf(s, "%0*d.%0*de1", 1, 1, 5000, 7); /* a number */
    default: return 0;
    }
    return (size_t)(at - s);
}

START_TEST(reading_and_writing)
{
    static char text[1 << 18], got[1 << 18];
    for (int i = 0; i < 6; i++)
        for (int mode = FAIL_ONCE; mode <= FAIL_FROM_THERE_ON; mode++) {
            size_t n = text_of(i, text);
            json_t *want = json_loadb(text, n, JSON_DECODE_ANY, NULL);
            long live, k, failed = 1;
            ck_assert_ptr_nonnull(want);
            fail_arm(1, FAIL_ONCE); /* what the first use allocates for good */
            fail_disarm();
            for (k = 1; failed; k++) {
                bool no_memory = false;
                unsigned before = json_failures();
                live = fail_live();
                fail_arm(k, (enum fail_mode)mode);
                json_t *v = json_read(text, n, JSON_DECODE_ANY, NULL, &no_memory);
                json_t *copy = v ? json_copy(v) : NULL;
                char *s = v ? json_write(v, JSON_DECODE_ANY | JSON_ENCODE_ANY) : NULL;
                failed = fail_disarm();
                ck_assert_msg((v == NULL) == no_memory, "text %d, allocation %ld", i, k);
                ck_assert(!failed || !v || !s || json_failures() != before || !copy);
                ck_assert_msg(!v || json_equal(v, want), "text %d, allocation %ld: read wrong", i, k);
                if (s) {
                    snprintf(got, sizeof got, "%s", s);
                    json_t *back = json_loads(got, JSON_DECODE_ANY, NULL);
                    ck_assert_msg(json_equal(back, want), "text %d, allocation %ld: written wrong", i, k);
                    json_decref(back);
                }
                if (copy && json_failures() == before)
                    ck_assert(json_equal(copy, want));
                free(s);
                json_decref(copy);
                json_decref(v);
                ck_assert_msg(FAIL_WRAPPED || fail_live() == live, "text %d, allocation %ld: a leak", i, k);
            }
            ck_assert_int_gt(k, 3);
            json_decref(want);
        }
}
END_TEST

START_TEST(mistakes_are_told_apart)
{
    bool no_memory = true;
    json_error_t je;
    ck_assert_ptr_null(json_read("{\"a\":", 5, 0, &je, &no_memory));
    ck_assert(!no_memory && je.line == 1);
    json_t *v = json_read("\"a\\u0000b\"", 10, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, NULL);
    ck_assert_uint_eq(json_string_length(v), 3);
    json_decref(v);
    ck_assert_ptr_null(json_read("1 2", 3, JSON_DECODE_ANY, &je, &no_memory));
    ck_assert(!no_memory);
}
END_TEST

/* What json_print left in a file that allocates nothing any more. */
static long printed(int i, long k, int *rc)
{
    static char text[1 << 18];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    setvbuf(f, NULL, _IONBF, 0);
    json_t *v = json_loadb(text, text_of(i, text), JSON_DECODE_ANY, NULL);
    if (k)
        fail_arm(k, FAIL_ONCE);
    *rc = json_print(f, v, JSON_ENCODE_ANY);
    if (k && !fail_disarm())
        *rc = 1;
    long n = ftell(f);
    fclose(f);
    return n;
}

START_TEST(printing_is_all_or_nothing)
{
    for (int i = 0; i < 6; i++) {
        int rc = 0;
        long whole = printed(i, 0, &rc), n;
        ck_assert_int_eq(rc, 0);
        ck_assert_int_gt(whole, 2);
        for (long k = 1; n = printed(i, k, &rc), rc != 1; k++) {
            ck_assert_msg(n == (rc ? 0 : whole), "text %d, allocation %ld: %ld bytes of %ld, %d", i, k, n, whole, rc);
            ck_assert_int_eq(rc, -ENOMEM);
        }
    }
}
END_TEST

START_TEST(a_file_that_takes_no_more_is_an_error)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        return;
    ck_assert_int_eq(json_print(full, json_true(), JSON_ENCODE_ANY), -ENOSPC); /* the buffer had room for it */
    ck_assert_int_eq(json_print(full, json_pack("[i]", 1), 0), -ENOSPC);
    ck_assert_int_eq(json_print(full, NULL, 0), -ENOMEM);
    fclose(full);
}
END_TEST

int main(void)
{
    return RUN_TESTS("alloc_json", reading_and_writing, mistakes_are_told_apart,
                     printing_is_all_or_nothing, a_file_that_takes_no_more_is_an_error);
}
