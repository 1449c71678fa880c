/* No memory while a program uses libzinc: each allocation fails, one at a time, from opening a model to the end of a
 * chat's answer. Whatever fails is told in one line by its function, or what came is right, and everything is given
 * back.
 *
 * All allocations are tried, of builds that are slow a sample; ALLOC_FULL=1 takes all there too, ALLOC_AT=k the k-th
 * alone. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/run.h"
#include "tests/unit/libzinc.h"

/* Everything once; 0: text [256] is the answer. */
static int use(char *text, zinc_error *e)
{
    static float logits[3072];
    zinc_model_opts mo = {
        .size = sizeof mo, .path = DEMO, .tier = "cpu", .context = 256, .sessions = 2, .threads = 1
    };
    zinc_gen_opts o = { .size = sizeof o,
                        .sampling = "temp=0",
                        .max_tokens = 6,
                        .flags = ZINC_GEN_ANSWER,
                        .logit_bias = &(zinc_logit_bias){ 5, -1 },
                        .n_logit_bias = 1,
                        .stop = (const char *const[]){ "75" },
                        .n_stop = 1 };
    zinc_message q[2] = { { .size = sizeof q[0], .role = "user", .text = "What is 27 + 48?" },
                          { .size = sizeof q[0],
                            .role = "assistant",
                            .text = "75",
                            .tool_calls =
                                "[{\"id\":\"c1\",\"function\":{\"name\":\"add\",\"arguments\":{\"a\":3}}}]" } };
    zinc_piece p = { .size = sizeof p };
    zinc_model *m = NULL;
    zinc_session *s = NULL, *s2 = NULL;
    zinc_sampler *sm = NULL;
    zinc_chat *c = NULL;
    zinc_gen *g = NULL, *g2 = NULL;
    int32_t ids[128], id;
    size_t n;
    text[0] = 0;
    int rc = zinc_model_open(&mo, &m, e);
    rc = rc ? rc : zinc_session_open(m, &s, e);
    rc = rc ? rc : zinc_session_open(m, &s2, e);
    rc = rc ? rc : zinc_prompt(m, q, 2, NULL, ids, 128, &n, e);
    rc = rc ? rc : zinc_prompt(m, q, 1, NULL, ids, 128, &n, e);
    rc = rc ? rc : zinc_session_eval(s, ids, n, logits, 3072, e);
    rc = rc ? rc : zinc_sampler_open(m, &o, &sm, e);
    rc = rc ? rc : zinc_sampler_choose(sm, logits, 3072, &id, e);
    rc = rc ? rc : zinc_generate(s, ids, n, &o, &g, e);
    rc = rc ? rc
            : zinc_chat_open(s2, &(zinc_chat_opts){ .size = sizeof(zinc_chat_opts), .system = "Be brief." }, &c, e);
    rc = rc ? rc : zinc_chat_say(c, "What is 27 + 48?", &o, &g2, e);
    while (rc >= 0 && (rc = zinc_gen_next(g, &p, e)) == 1)
        strcat(text, p.text);
    while (rc >= 0 && (rc = zinc_gen_next(g2, &p, e)) == 1)
        strcat(text, p.text);
    zinc_model_close(m);
    zinc_session_close(s2);
    zinc_chat_close(c);
    zinc_gen_close(g);
    zinc_gen_close(g2);
    zinc_session_close(s);
    zinc_sampler_close(sm);
    return rc;
}

START_TEST(each_allocation_fails)
{
    char want[256], got[256];
    zinc_error e = { 0 };
    enum { SAMPLES = FAIL_WRAPPED ? 60 : 1 << 20 };
    const char *at = getenv("ALLOC_AT");
    ck_assert_msg(use(want, &e) == 0 && strlen(want) > 8, "%s", e.text);
    fail_arm(LONG_MAX, FAIL_ONCE);
    ck_assert_int_eq(use(got, &e), 0);
    long n = fail_count(), step = getenv("ALLOC_FULL") || at ? 1 : n / SAMPLES + 1, failures = 0;
    fail_disarm();
    long live = fail_live();
    ck_assert_int_gt(n, 100);
    for (long k = at ? atol(at) : 1; k <= (at ? atol(at) : n); k += step) {
        e = (zinc_error){ 0 };
        fail_arm(k, FAIL_ONCE);
        int rc = use(got, &e);
        long failed = fail_disarm();
        bool fine = rc == 0 ? strcmp(got, want) == 0
                            : rc == -ENOMEM && e.code == rc && strlen(e.text) > 8 && !strchr(e.text, '\n');
        if (!fine || (!FAIL_WRAPPED && fail_live() > live)) {
            fail_tell();
            ck_abort_msg("allocation %ld of %ld: %d, '%s', '%s', %ld blocks leak", k, n, rc, e.text, got,
                         fail_live() - live);
        }
        failures += rc != 0 && failed;
    }
    printf("%ld allocations, every %ld-th failed, %ld errors\n", n, step, failures);
    ck_assert(at || failures > 20);
}
END_TEST

int main(void)
{
    return RUN_TESTS("alloc_libzinc", each_allocation_fails);
}
