/* What is copied from slot to slot, or saved and loaded, continues with the same bits as the original: on each tier
 * that runs here, for each type of cache, for families with all kinds of layers. */
#include <check.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "engine/serve/kvcopy.h"
#include "tests/lib/skip.h"
#include "tests/unit/tiny_model.h"

enum { N = 43, N_CTX = 64 }; /* 43, and the cuts below: neither ends a group of 16 nor begins one */

enum preset { QWEN3, QWEN35, GEMMA3, GEMMA3N, GEMMA4, GPT_OSS, N_PRESETS };
static const char *const presets[N_PRESETS] = { "tiny-qwen3", "tiny-qwen35", "tiny-gemma3", "tiny-gemma3n",
                                                "tiny-gemma4", "tiny-gpt-oss" };
static char paths[N_PRESETS][32];
static const struct {
    enum preset preset;
    const char *tier;
} cases[] = {
    { QWEN3, "cpu:f32" },         { QWEN3, "cpu:f16" },         { QWEN3, "cpu:q8_0" },   { QWEN3, "cpu:exact:f16" },
    { QWEN3, "cpu:exact:q8_0" },  { QWEN35, "cpu:f32" },        { QWEN35, "cpu:q8_0" },  { GEMMA3, "cpu:f16" },
    { GEMMA3, "cpu:q8_0" },       { GEMMA4, "cpu:f16" },        { GEMMA4, "cpu:q8_0" },  { GPT_OSS, "cpu:f32" },
    { GPT_OSS, "cpu:q8_0" },      { QWEN3, "lockstep:q8_0" },   { QWEN3, "cuda:f16" },   { QWEN3, "cuda:q8_0" },
    { QWEN35, "lockstep:f16" },   { QWEN35, "cuda:f16" },       { GEMMA3, "cuda:q8_0" },
    { QWEN3, "cpu:fp8" },         { QWEN3, "cpu:rot4" },        { GEMMA3, "cpu:q4_0" },  { QWEN3, "cpu:exact:rot4" },
    { QWEN3, "cpu:exact:fp8" },   { QWEN3, "lockstep:rot4" },   { QWEN3, "lockstep:fp8" }, { QWEN3, "cuda:rot4" },
    { QWEN3, "cpu:rot4:edge1" },  { QWEN3, "lockstep:q8_0:edge1" }, { GEMMA3N, "cpu:q8_0" },
};

static bool here(const char *tier)
{
    struct tier_opts o = { .device = -1 };
    struct tier_info info = { 0 };
    return strncmp(tier, "cuda", 4) != 0 || tier_driver_cuda.probe(&o, &info) == 0;
}

static struct engine *open_engine(const char *path, const char *spec)
{
    struct engine_opts o = { .path = path, .tier = spec, .n_ctx = N_CTX, .chunk = 32, .n_slots = 3, .threads = 1 };
    struct engine *eng;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static void tokens(int32_t *tok, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)((seed * 7919 + i * i * 31 + i) % 640);
}

/* The same few tokens more in both sessions: the same logits? */
static void same_from_here(struct session *a, struct session *b)
{
    int32_t more[5];
    uint32_t bytes = engine_info(a->eng)->n_vocab * (uint32_t)sizeof(float);
    const float *l;
    float *first = malloc(bytes);
    struct err e = { 0 };
    tokens(more, 5, 3);
    static const uint32_t parts[] = { 5, 1 }; /* as a prompt, then alone */
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        uint32_t n = parts[i];
        ck_assert_msg(session_eval(a, more, n, &l, &e) == 0, "%s", e.msg);
        memcpy(first, l, bytes);
        ck_assert_msg(session_eval(b, more, n, &l, &e) == 0, "%s", e.msg);
        ck_assert_msg(memcmp(first, l, bytes) == 0, "logits differ");
    }
    a->pos = b->pos = N; /* the state goes back by itself */
    free(first);
}

static void pretend(struct session *s, const int32_t *tok)
{
    memcpy(s->tok, tok, N * sizeof *tok);
    s->pos = N;
}

START_TEST(copies_continue_as_the_original)
{
    if (!here(cases[_i].tier)) {
        cases_skipped(1, "%s %s: no such device here", presets[cases[_i].preset], cases[_i].tier);
        return;
    }
    struct engine *eng = open_engine(paths[cases[_i].preset], cases[_i].tier);
    struct session *s[3];
    struct kvcopy *c;
    struct err e = { 0 };
    int32_t tok[N], other[N];
    ck_assert_msg(kvcopy_create(eng, &c, &e) == 0, "%s", e.msg);
    tokens(tok, N, 1);
    tokens(other, N, 2);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(session_create(eng, &s[i], &e), 0);
        ck_assert_msg(session_eval(s[i], i ? other : tok, N, NULL, &e) == 0, "%s", e.msg);
    }
    uint64_t n_run = kvcopy_run_bytes(c, 0, 33) + kvcopy_run_bytes(c, 33, N), n_state = kvcopy_state_bytes(c);
    ck_assert_uint_eq(n_state > 0, engine_info(eng)->recurrent);
    ck_assert(kvcopy_run_bytes(c, 0, 0) == 0 && kvcopy_run_bytes(c, 1, 2) == kvcopy_run_bytes(c, 0, 16) &&
              kvcopy_run_bytes(c, 15, 17) == 2 * kvcopy_run_bytes(c, 0, 16));
    uint8_t *saved = malloc(n_run + n_state + 1), *second = saved + kvcopy_run_bytes(c, 0, 33);
    ck_assert_int_eq(kvcopy_save(c, 0, 0, 33, saved, &e), 0);
    ck_assert_int_eq(kvcopy_save(c, 0, 33, N, second, &e), 0);
    ck_assert_int_eq(kvcopy_save_state(c, 0, saved + n_run, &e), 0);
    ck_assert_int_eq(kvcopy_move(c, 1, 0, 0, 20, &e), 0); /* in two parts, from two places */
    ck_assert_int_eq(kvcopy_load(c, 1, 20, 33, saved, 0, 33, &e), 0);
    ck_assert_int_eq(kvcopy_move(c, 1, 0, 33, N, &e), 0);
    ck_assert_int_eq(kvcopy_load_state(c, 1, saved + n_run, &e), 0);
    pretend(s[1], tok);
    same_from_here(s[0], s[1]);
    ck_assert_int_eq(kvcopy_load(c, 2, 0, 33, saved, 0, 33, &e), 0); /* all of it from the host */
    ck_assert_int_eq(kvcopy_load(c, 2, 33, 40, second, 33, N, &e), 0);
    ck_assert_int_eq(kvcopy_load(c, 2, 40, N, second, 33, N, &e), 0);
    ck_assert_int_eq(kvcopy_load_state(c, 2, saved + n_run, &e), 0);
    ck_assert_int_eq(kvcopy_load_state(c, 0, saved + n_run, &e), 0);
    pretend(s[2], tok);
    same_from_here(s[0], s[2]);
    for (int i = 0; i < 3; i++)
        session_destroy(s[i]);
    free(saved);
    kvcopy_destroy(c);
    engine_close(eng);
}
END_TEST

static void setup(void)
{
    for (size_t i = 0; i < N_PRESETS; i++) {
        snprintf(paths[i], sizeof paths[i], "/tmp/zinc-kvc-XXXXXX");
        tiny_model(paths[i], presets[i]);
    }
}

static void teardown(void)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        unlink(paths[i]);
}

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("kvcopy");
    TCase *c = tcase_create("kvcopy");
    tcase_set_timeout(c, 300);
    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, copies_continue_as_the_original, 0, ARRAY_LEN(cases));
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
