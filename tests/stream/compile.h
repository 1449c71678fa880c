/* tests/stream/compile.h: streams of the hand-made models, and the main of a Check program. */
#ifndef ZINC_TESTS_COMPILE_H
#define ZINC_TESTS_COMPILE_H

#include <check.h>

#include "graph/graph.h"
#include "tests/stream/fake_model.h"

/* Decode and prefill of the same model. */
#define FAKE_OPTS(rows, outs)                                                                                       \
    ((struct graph_opts){.n_ctx = 50, .n_slots = 2, .row_cap = rows, .out_cap = outs, .kv_type = KA_KV_F16})
#define FAKE_DECODE  FAKE_OPTS(8, 8)
#define FAKE_PREFILL FAKE_OPTS(32, 4)

static inline struct stream *fake_compile(uint32_t model, struct graph_opts o)
{
    static struct fake_model fake;
    struct stream *s = NULL;
    struct err e = {0};
    fake_models[model].make(&fake);
    int rc = graph_compile(&fake.m, &o, &s, &e);
    ck_assert_msg(rc == 0, "%s: %s", fake_models[model].name, e.msg);
    return s;
}

static inline uint32_t fake_index(const char *name)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++)
        if (strcmp(fake_models[i].name, name) == 0)
            return i;
    abort();
}

/* The dump as a string, freed by the caller. */
static inline char *fake_dump(const struct stream *s)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    stream_dump(f, s);
    fclose(f);
    return text;
}

static inline int run_tests(const char *name, const TTest *const *tests, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *t = tcase_create(name);
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
#define RUN_TESTS(name, ...)                                                                                        \
    run_tests(name, (const TTest *const[]){__VA_ARGS__}, sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(void *))

#endif
