/* tests/lib/cross/check.h: as much of libcheck as the tests of the cpu tier's products use, for processors whose libcheck is not
 * here (tests/unit/test_arm.sh). A check that fails ends the program with a line. */
#ifndef ZINC_TESTS_CROSS_CHECK_H
#define ZINC_TESTS_CROSS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    struct {
        void (*fn)(int);
        const char *name;
        int from, to;
    } test[16];
    int n;
} TCase;
typedef TCase Suite;
typedef TCase SRunner;
enum { CK_ENV };

#define START_TEST(name)                                                                                               \
    static void name##_of(int _i);                                                                                     \
    static const struct { void (*fn)(int); const char *label; } name[1] = { { name##_of, #name } };                     \
    static void name##_of(int _i __attribute__((unused)))
#define END_TEST
#define tcase_create(name)                     ((TCase *)calloc(1, sizeof(TCase)))
#define tcase_set_timeout(c, s)                ((void)(c))
#define tcase_add_loop_test(c, t, first, end)  ((c)->test[(c)->n].fn = (t)->fn, (c)->test[(c)->n].name = (t)->label, \
                                                (c)->test[(c)->n].from = (first), (c)->test[(c)->n++].to = (int)(end))
#define tcase_add_test(c, t)                   tcase_add_loop_test(c, t, 0, 1)
#define suite_create(name)                     ((Suite *)calloc(1, sizeof(Suite)))
#define suite_add_tcase(s, c)                  (*(s) = *(c), free(c))
#define srunner_create(s)                      ((SRunner *)(s))
#define srunner_ntests_failed(r)               0
#define srunner_free(r)                        free(r)
#define srunner_run_all(r, how)                                                                                        \
    for (int t_ = 0; t_ < (r)->n; t_++) {                                                                              \
        for (int i_ = (r)->test[t_].from; i_ < (r)->test[t_].to; i_++)                                                 \
            (r)->test[t_].fn(i_);                                                                                      \
        printf("%s: %d\n", (r)->test[t_].name, (r)->test[t_].to - (r)->test[t_].from);                                 \
    }

#define ck_abort_msg(...) (printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), printf("\n"), exit(1))
#define ck_assert_msg(ok, ...)     ((ok) ? (void)0 : ck_abort_msg(__VA_ARGS__))
#define ck_assert(ok)              ck_assert_msg(ok, "%s", #ok)
#define ck_assert_int_eq(a, b)     ck_assert((a) == (b))
#define ck_assert_uint_eq(a, b)    ck_assert((a) == (b))
#define ck_assert_ptr_eq(a, b)     ck_assert((a) == (b))
#define ck_assert_ptr_null(a)      ck_assert(!(a))
#define ck_assert_ptr_nonnull(a)   ck_assert(a)
#define ck_assert_str_eq(a, b)     ck_assert(strcmp(a, b) == 0)

#endif
