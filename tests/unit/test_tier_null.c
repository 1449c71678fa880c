/* The null tier: every stream is accepted, logits follow its formula, bytes are counted. */
#include <string.h>

#include "engine/proof/opstream.h"
#include "tests/lib/run.h"

enum { ROWS = 3, VOCAB = 1000 };

static struct ops *make(void)
{
    struct ops *o = ops_new(ROWS, 64, 1, KA_KV_F16);
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

int main(void)
{
    return RUN_TESTS("tier null", one_winner_per_output_by_the_formula, its_memory_is_the_io_arena);
}
