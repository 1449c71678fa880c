/* No memory while a model is loaded: each allocation fails, one at a time, from the opening of the file to a server's
 * scheduler and API. Whatever fails, it is told in one line or what was loaded answers rightly, and memory, files and
 * threads are given back.
 *
 * Of thousands of allocations a sample is taken; ALLOC_FULL=1 takes all of them (minutes), ALLOC_AT=k the k-th alone. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/serve/sched.h"
#include "server/api.h"
#include "tests/lib/failing_alloc.h"
#include "tests/unit/tiny_model.h"

static const struct load {
    const char *preset, *tier;
    uint64_t cache_bytes;
} loads[] = {
    { "tiny-qwen3", "null", 0 },          { "tiny-qwen3", "cpu", 1 << 20 }, { "tiny-gemma3", "null", 0 },
    { "tiny-gemma4-moe", "null", 0 },     { "tiny-gpt-oss", "cpu", 0 },     { "tiny-qwen35moe", "null", 1 << 20 },
    { "tiny-llama3", "lockstep", 0 },
};

/* What loading gives: a few numbers that do not depend on anything but the file. */
struct seen {
    uint32_t logits, n_prompt, n_text;
    int32_t ids[16];
};

static int entries_of(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int ask_engine(struct engine *eng, struct seen *out, struct err *e)
{
    static const struct engine_message hello = { .role = "user", .text = "Hello caf\xc3\xa9 42" };
    struct engine_chat_opts co = { .think = -1, .date = "2026-01-01" };
    struct engine_prompt p = { 0 };
    struct session *s = NULL;
    const float *logits = NULL;
    char *text = NULL;
    size_t n_text = 0;
    int rc = engine_chat_prompt(eng, &hello, 1, &co, &p, e);
    if (!rc)
        rc = engine_decode(eng, p.ids, p.n, ENGINE_SHOW_SPECIAL, &text, &n_text, e);
    if (!rc)
        rc = session_create(eng, &s, e);
    if (!rc)
        rc = session_eval(s, p.ids, MIN(p.n, 5u), &logits, e);
    if (!rc) {
        memset(out, 0, sizeof *out);
        out->logits = engine_fingerprint(eng, logits);
        out->n_prompt = p.n;
        out->n_text = (uint32_t)n_text;
        memcpy(out->ids, p.ids, MIN(p.n, 16u) * sizeof *p.ids);
    }
    session_destroy(s);
    free(text);
    engine_prompt_free(&p);
    return rc;
}

static int load_and_ask(const struct load *l, const char *path, struct seen *out, struct err *e)
{
    struct engine_opts eo = { .path = path, .tier = l->tier, .n_ctx = 64, .n_slots = 2, .chunk = 16, .threads = 2 };
    struct sched_opts so = { .kv.host_bytes = l->cache_bytes };
    struct engine *eng = NULL;
    struct sched *sched = NULL;
    struct api *api = NULL;
    int rc = engine_open(&eo, &eng, e);
    if (!rc)
        rc = ask_engine(eng, out, e);
    if (!rc)
        rc = sched_create(eng, &so, &sched, e);
    struct api_opts ao = { .eng = eng, .sched = sched, .sampling = sampler_defaults(), .think = -1, .think_budget = -1 };
    if (!rc)
        rc = api_create(&ao, &api, e);
    api_destroy(api);
    sched_destroy(sched);
    engine_close(eng);
    return rc;
}

static long env_long(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s ? atol(s) : otherwise;
}

struct had {
    long live;
    int files, threads;
};

/* Threads that were joined may still be listed for a moment. */
static struct had have(int threads)
{
    struct had h = { fail_live(), entries_of("/proc/self/fd"), entries_of("/proc/self/task") };
    for (int i = 0; i < (threads ? 30000 : 100) && h.threads > threads; i++) {
        usleep(1000);
        h.threads = entries_of("/proc/self/task");
    }
    return h;
}

/* NULL: all is well. */
static const char *try_one(const struct load *l, const char *path, const struct seen *want, struct had had, long k,
                           enum fail_mode mode, long *failed)
{
    static char why[700];
    struct seen got;
    struct err e = { 0 };
    fail_arm(k, mode);
    int rc = load_and_ask(l, path, &got, &e);
    *failed = fail_disarm();
    struct had now = have(had.threads);
    if (rc == 0 && memcmp(&got, want, sizeof got) != 0)
        return "what was loaded answers otherwise";
    if (rc && rc != -ENOMEM) {
        snprintf(why, sizeof why, "the error is not the one of missing memory: %d: %s", rc, e.msg);
        return why;
    }
    if (rc && strlen(e.msg) < 8)
        return "an error without a line";
    if (!FAIL_WRAPPED && now.live > had.live) {
        snprintf(why, sizeof why, "%ld blocks leak", now.live - had.live);
        return why;
    }
    if (now.files > had.files || now.threads > had.threads) {
        snprintf(why, sizeof why, "%d files and %d threads are left", now.files - had.files, now.threads - had.threads);
        return why;
    }
    return NULL;
}

static long n_tried, n_errors;

START_TEST(each_allocation_fails)
{
    const struct load *l = &loads[_i];
    char path[] = "/tmp/zinc-alloc-XXXXXX";
    struct seen want;
    struct err e = { 0 };
    long wrong = 0, only = env_long("ALLOC_AT", 0), n = 0, failed;
    long samples = env_long("ALLOC_FULL", 0) ? 1L << 40 : strcmp(l->tier, "null") == 0 && !FAIL_WRAPPED ? 400 : 16;
    n_tried = n_errors = 0;
    tiny_model(path, l->preset);
    for (int round = 0; round < 3; round++) {
        fail_arm(1L << 60, FAIL_ONCE);
        int rc = load_and_ask(l, path, &want, &e);
        fail_disarm();
        n = fail_count();
        ck_assert_msg(rc == 0, "%s on %s: %s", l->preset, l->tier, e.msg);
    }
    struct had had = have(0);
    for (int mode = FAIL_ONCE; mode <= FAIL_FROM_THERE_ON; mode++) {
        long few = mode == FAIL_ONCE ? samples : samples / 2, step = n > few ? n / few : 1;
        for (long k = only ? only : 1; k <= (only ? only : n + 2); k += only ? 1 : step) {
            const char *why = try_one(l, path, &want, had, k, (enum fail_mode)mode, &failed);
            n_tried++;
            n_errors += failed > 0;
            if (!why)
                continue;
            fprintf(stderr, "%s on %s, allocation %ld of %ld%s: %s\n", l->preset, l->tier, k, n,
                    mode == FAIL_ONCE ? "" : " and all after it", why);
            fail_tell();
            wrong++;
            had = have(had.threads);
        }
    }
    unlink(path);
    printf("%s on %s: %ld allocations, %ld failures tried\n", l->preset, l->tier, n, n_tried);
    ck_assert_int_gt(n_errors, 0);
    ck_assert_msg(wrong == 0, "%ld wrong", wrong);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("alloc_load");
    TCase *t = tcase_create("alloc_load");
    tcase_set_timeout(t, 3600);
    tcase_add_loop_test(t, each_allocation_fails, 0, (int)ARRAY_LEN(loads));
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK); /* threads and counts are of this process */
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
