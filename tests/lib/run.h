/* tests/lib/run.h: the main of a Check program: int main(void) { return RUN_TESTS("name", a, b, c); } */
#ifndef ZINC_TESTS_RUN_H
#define ZINC_TESTS_RUN_H

#include <check.h>

static inline int run_tests(const char *name, const TTest *const *tests, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *t = tcase_create(name);
    tcase_set_timeout(t, 120);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
#define RUN_TESTS(name, ...)                                                                                           \
    run_tests(name, (const TTest *const[]){ __VA_ARGS__ },                                                           \
              sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(void *))

#endif
