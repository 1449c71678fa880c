/* The null tier: every stream is accepted, logits follow its formula, bytes are counted; and its ways to be like a
 * device: steps that take their time, tokens that follow from what the cache holds. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "engine/engine.h"
#include "engine/proof/opstream.h"
#include "tests/lib/run.h"
#include "tests/unit/tiny_model.h"

enum { ROWS = 3, VOCAB = 1000 };

static struct ops *make(void)
{
    struct ops *o = ops_new(ROWS, 0, 64, 1, KA_KV_F16);
    uint32_t logits = ops_logits(o, VOCAB), w = ops_weight(o, "w", QT_F16, 32, VOCAB, 1);
    uint32_t x = ops_rows(o, "x", OPS_IN, 32);
    ka_matmul mm = { .step = ops_step(o), .x = ops_at(o, x), .y = { ops_at(o, logits) }, .w = { ops_at(o, w) },
                     .n_out = { VOCAB }, .type = { QT_F16 }, .ld = { VOCAB }, .n_mats = 1, .n_in = 32, .ldx = 32,
                     .rows = ROWS_STEP };
    ops_cmd(o, CMD_MATMUL, &mm, sizeof mm);
    return o;
}

static uint32_t winner(const float *row, uint32_t *n_large)
{
    uint32_t best = 0;
    *n_large = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        best = row[i] > row[best] ? i : best;
        *n_large += row[i] > 0.0f;
    }
    return best;
}

START_TEST(one_winner_per_output_by_the_formula)
{
    struct ops *o = make();
    struct err e = { 0 };
    struct tier *t;
    struct tier_plan *p[2];
    ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
    const struct stream *s = ops_stream(o);
    struct tier_weights tw = { s, ops_weights(o) };
    ck_assert_int_eq(tier_open("null", NULL, &t, &e), 0);
    ck_assert_int_eq(tier_load(t, &tw, NULL, &e), 0);
    ck_assert_int_eq(tier_alloc(t, s->h.arena_bytes, &e), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(tier_prepare(t, s, PLAN_AUTO, &p[i], &e), 0);

    int32_t token = 5;
    for (uint32_t k = 0; k < 20; k++) {
        ka_row rows[ROWS] = { { .token = k ? -1 : token, .pos = 2 * k }, { .token = 7, .pos = 2 * k + 1 } };
        uint32_t out[ROWS] = { 0, 1 }, n_out = k % 3 ? 1 : 2;
        struct step st = { 2, n_out, 2 * k + 2, rows, out, NULL };
        uint64_t point;
        ck_assert_int_eq(tier_submit(t, p[k % 2], &st, &point), 0);
        ck_assert_int_eq(tier_wait(t, point, 0), 0);
        int32_t want = (int32_t)(((uint32_t)token * 31 + 2 * k) % VOCAB), next;
        const float *logits = tier_map(t, ARENA_IO, s->h.logits_off);
        uint32_t n_large;
        ck_assert_uint_eq(winner(logits, &n_large), (uint32_t)want);
        ck_assert_uint_eq(n_large, 1); /* nothing is left of earlier steps */
        if (n_out == 2)
            ck_assert_uint_eq(winner(logits + VOCAB, &n_large), (7 * 31 + 2 * k + 1) % VOCAB);
        ck_assert_int_eq(tier_read(t, ARENA_IO, s->h.next_off, &next, 4, &e), 0);
        ck_assert_int_eq(next, want);
        token = next;
    }
    uint64_t bytes, flops;
    stream_cmd_cost(s, 0, 2, 2, &bytes, &flops);
    ck_assert_uint_eq(t->stats.bytes, 20 * bytes);
    ck_assert_uint_eq(t->stats.steps, 20);
    tier_plan_destroy(p[0]);
    tier_plan_destroy(p[1]);
    tier_close(t);
    ops_free(o);
}
END_TEST

START_TEST(its_memory_is_the_io_arena)
{
    struct ops *o = make();
    struct err e = { 0 };
    struct tier *t;
    uint64_t huge[ARENA_COUNT] = { [ARENA_KV] = 1ull << 45, [ARENA_IO] = 4096 };
    char got[8] = "xxxxxxx";
    ck_assert_int_eq(ops_finish(o, &e), 0);
    struct tier_weights tw = { ops_stream(o), ops_weights(o) };
    ck_assert_int_eq(tier_open("null", NULL, &t, &e), 0);
    ck_assert_int_eq(tier_load(t, &tw, NULL, &e), 0);
    ck_assert_int_eq(tier_alloc(t, huge, &e), 0);
    ck_assert_uint_eq(t->impl->resident(t), 4096);
    ck_assert_int_eq(tier_read(t, ARENA_KV, 1ull << 44, got, 8, &e), 0);
    ck_assert_mem_eq(got, "\0\0\0\0\0\0\0", 8);
    ck_assert_ptr_null(tier_map(t, ARENA_KV, 0));
    tier_close(t);
    ops_free(o);
}
END_TEST

/* As if the variables had been set: a process reads them once. */
static struct env *settings(void)
{
    return (struct env *)env_get();
}

START_TEST(steps_take_the_time_of_their_bytes)
{
    enum { STEPS = 20, BYTES = 100000 };
    struct ops *o = make();
    struct err e = { 0 };
    struct tier *t;
    struct tier_plan *p;
    ck_assert_int_eq(ops_finish(o, &e), 0);
    const struct stream *s = ops_stream(o);
    s->cmds[0].bytes = BYTES;
    struct tier_weights tw = { s, ops_weights(o) };
    settings()->null_gbs = 1;
    ck_assert_int_eq(tier_open("null", NULL, &t, &e), 0);
    settings()->null_gbs = 0;
    ck_assert_int_eq(tier_load(t, &tw, NULL, &e), 0);
    ck_assert_int_eq(tier_alloc(t, s->h.arena_bytes, &e), 0);
    ck_assert_int_eq(tier_prepare(t, s, PLAN_AUTO, &p, &e), 0);
    ka_row row = { .token = 1 };
    uint32_t out = 0;
    struct step st = { 1, 1, 1, &row, &out, NULL };
    uint64_t point = 0, start = clock_ns();
    for (int i = 0; i < STEPS; i++)
        ck_assert_int_eq(tier_submit(t, p, &st, &point), 0);
    int rc = tier_wait(t, point, 0);
    ck_assert(rc == -ETIME || (rc == 0 && clock_ns() - start >= STEPS * BYTES));
    ck_assert_int_eq(tier_wait(t, point, 300000000000u), 0);
    ck_assert_uint_ge(clock_ns() - start, STEPS * BYTES); /* a nanosecond for each byte, one step after the other */
    ck_assert_int_eq(tier_wait(t, point, 0), 0);
    tier_plan_destroy(p);
    tier_close(t);
    ops_free(o);
}
END_TEST

/* The token after tok[0..n), evaluated in pieces of at most `piece`. */
static uint32_t token_after(struct engine *eng, const int32_t *tok, uint32_t n, uint32_t piece)
{
    struct session *s;
    struct err e = { 0 };
    const float *logits = NULL;
    uint32_t best = 0;
    ck_assert_msg(session_create(eng, &s, &e) == 0, "%s", e.msg);
    for (uint32_t at = 0; at < n; at += piece)
        ck_assert_msg(session_eval(s, tok + at, piece < n - at ? piece : n - at, &logits, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < engine_info(eng)->n_vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    session_destroy(s);
    return best;
}

START_TEST(with_history_tokens_follow_from_all_of_the_sequence)
{
    static const char *const presets[] = { "tiny-qwen3", "tiny-qwen35moe", "tiny-gemma3" };
    tiny_model_or_skip();
    for (size_t k = 0; k < sizeof presets / sizeof *presets; k++) {
        char path[] = "/tmp/zinc-null-XXXXXX";
        struct engine_opts o = { .path = path, .tier = "null", .n_ctx = 128, .chunk = 16, .n_slots = 2 };
        struct engine *eng;
        struct err e = { 0 };
        int32_t tok[40], other[40];
        tiny_model(path, presets[k]);
        settings()->null_history = 1;
        ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
        settings()->null_history = 0;
        for (int32_t i = 0; i < 40; i++)
            tok[i] = other[i] = 7 * i % 97;
        uint32_t first = token_after(eng, tok, 40, 40);
        ck_assert_uint_eq(token_after(eng, tok, 40, 1), first);
        ck_assert_uint_eq(token_after(eng, tok, 40, 11), first);
        for (int32_t i = 0; i < 40; i += 13) { /* one token long ago is another one */
            other[i]++;
            ck_assert_uint_ne(token_after(eng, other, 40, 40), first);
            other[i]--;
        }
        ck_assert_uint_eq(token_after(eng, other, 40, 40), first);
        engine_close(eng);
        unlink(path);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("tier null", one_winner_per_output_by_the_formula, its_memory_is_the_io_arena,
                     steps_take_the_time_of_their_bytes, with_history_tokens_follow_from_all_of_the_sequence);
}
