/* engine_opts.batch_variant: steps of few rows have the bits that they have with few sessions, those of more rows the bits of a
 * stream for many, and a server goes from one to the other and back while requests come and go. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tests/lib/run.h"
#include "tests/lib/skip.h"
#include "tests/unit/sched_ask.h"

enum { FEW = 8, MANY = 11, STEPS = 2 };

static struct err e;

static struct engine *open_pooling(const char *path, const char *tier, uint32_t slots, bool variant, const char *pooling)
{
    struct engine_opts o = { .pooling = pooling, .path = path, .tier = tier, .n_ctx = 64, .chunk = CHUNK, .n_slots = slots,
                             .batch_variant = variant, .threads = 1 };
    struct engine *eng;
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static struct engine *open_slots(const char *path, const char *tier, uint32_t slots, bool variant)
{
    return open_pooling(path, tier, slots, variant, NULL);
}

/* The last step's logits, f32 [n, n_vocab], of n new sessions that make STEPS steps together. */
static float *steps_of(struct engine *eng, uint32_t n)
{
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    float *all = calloc((size_t)n * n_vocab, sizeof *all);
    struct session *s[MANY];
    const float *l[MANY];
    int32_t tok[MANY];
    ck_assert_ptr_nonnull(all);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(session_create(eng, &s[i], &e), 0);
    for (uint32_t k = 0; k < STEPS; k++) {
        for (uint32_t i = 0; i < n; i++)
            tok[i] = (int32_t)((i * 131 + k * 37 + 11) % n_vocab);
        ck_assert_msg(session_eval_batch(s, tok, n, l, &e) == 0, "%s", e.msg);
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(all + (size_t)i * n_vocab, l[i], n_vocab * sizeof *all);
        session_destroy(s[i]);
    }
    return all;
}

static bool same(struct engine *a, struct engine *b, uint32_t n)
{
    float *x = steps_of(a, n), *y = steps_of(b, n);
    bool equal = memcmp(x, y, (size_t)n * engine_info(a)->n_vocab * sizeof *x) == 0;
    free(x);
    free(y);
    return equal;
}

static void each_step(const char *tier, const char *preset)
{
    char path[] = "/tmp/zinc-variant-XXXXXX";
    tiny_model(path, preset);
    struct engine *few = open_slots(path, tier, FEW, false), *many = open_slots(path, tier, MANY, false);
    struct engine *variant = open_slots(path, tier, MANY, true);
    ck_assert_uint_eq(engine_info(few)->few_rows, 0);
    ck_assert_uint_eq(engine_info(many)->few_rows, 0);
    ck_assert_uint_eq(engine_info(variant)->few_rows, FEW);
    ck_assert_msg(!same(few, many, 1), "%s: one kind of kernels for both, so that nothing is seen here", tier);
    ck_assert(same(variant, few, 1));
    ck_assert(same(variant, many, MANY));
    ck_assert(same(variant, few, FEW));
    engine_close(few);
    engine_close(many);
    engine_close(variant);
    unlink(path);
}

START_TEST(a_step_takes_the_kernels_for_its_rows)
{
    each_step("lockstep:sm90", "tiny-qwen3 --layers 1 --type Q4_K_M");
}
END_TEST

START_TEST(where_there_is_one_kind_nothing_changes)
{
    char path[] = "/tmp/zinc-variant-XXXXXX";
    tiny_model(path, "tiny-qwen35moe --type Q8_0");
    struct engine *cpu = open_slots(path, "cpu", MANY, true), *experts = open_slots(path, "lockstep:sm90", MANY, true);
    ck_assert_uint_eq(engine_info(cpu)->few_rows, 0);
    ck_assert_uint_eq(engine_info(experts)->few_rows, 0); /* which take steps of 8 rows below 32 sessions */
    engine_close(cpu);
    engine_close(experts);
    unlink(path);
    strcpy(path, "/tmp/zinc-variant-XXXXXX");
    tiny_model(path, "tiny-qwen3 --layers 1 --type Q8_0");
    struct engine *vectors = open_pooling(path, "lockstep:sm90", MANY, true, "last");
    ck_assert_uint_eq(engine_info(vectors)->few_rows, 0);
    engine_close(vectors);
    unlink(path);
}
END_TEST

/* In f32 both kinds choose the same tokens. Requests end one after the other, and more come when few are left. */
START_TEST(requests_go_from_one_kind_to_the_other)
{
    enum { N = MANY + 6 };
    static struct ask ask[N];
    static struct alone alone[N];
    char path[] = "/tmp/zinc-variant-XXXXXX";
    if (!WITH_LOCKSTEP) {
        cases_skipped(1, "with the thread sanitizer: the other builds'");
        return;
    }
    tiny_model(path, "tiny-qwen3 --layers 1 --type F32");
    struct engine *one = open_slots(path, "lockstep:sm90", 1, false), *eng = open_slots(path, "lockstep:sm90", MANY, true);
    struct sched *s = start(eng, N, 0);
    for (int i = 0; i < N; i++) {
        ask_init(&ask[i], words + i % 4, 1 + (uint32_t)i % 4, 3 + 2 * (uint32_t)(i % MANY));
        generate_alone(one, &ask[i].r, &alone[i]);
    }
    for (int i = 0; i < MANY; i++)
        submit(s, &ask[i]);
    for (int i = 0; i < N; i++) {
        await_end(&ask[i]);
        if (i == MANY - 4) /* three run */
            for (int k = MANY; k < N; k++)
                submit(s, &ask[k]);
        ck_assert_int_eq(ask[i].last.end, SCHED_OK);
        ck_assert_msg(ask[i].n_tok == alone[i].n && memcmp(ask[i].tok, alone[i].tok, alone[i].n * sizeof alone[i].tok[0]) == 0,
                      "request %d: other tokens than alone", i);
    }
    ck_assert_uint_gt(sched_stats(s).ahead, 0);
    sched_destroy(s);
    ck_assert_ptr_eq(eng->last.plan, &eng->decode_few); /* few were left at the end */
    engine_close(eng);
    engine_close(one);
    unlink(path);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("batch_variant", a_step_takes_the_kernels_for_its_rows, where_there_is_one_kind_nothing_changes,
                     requests_go_from_one_kind_to_the_other);
}
