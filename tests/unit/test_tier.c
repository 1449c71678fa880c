/* The tier front and the cpu tier as a caller sees them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/proof/opstream.h"
#include "rt/auto.h"
#include "tests/lib/run.h"

enum { ROWS = 4, N = 32, VOCAB = 64 };

struct ctx {
    struct ops *o;
    struct tier *t;
    struct tier_plan *p;
    uint32_t x, y, w;
    ka_row rows[ROWS];
    uint32_t out[ROWS];
    struct step st;
    struct err e;
};

/* embed -> x; norm of x -> y; product of y with the embedding -> logits; argmax */
static void make_stream(struct ctx *c, uint32_t norm_wait)
{
    struct ops *o = c->o = ops_new(ROWS, 0, 16, 2, KA_KV_F16);
    uint32_t logits = ops_logits(o, VOCAB);
    c->x = ops_rows(o, "hidden", OPS_TEMP, N);
    c->y = ops_rows(o, "normed", OPS_TEMP, N);
    c->w = ops_weight(o, "embd", QT_Q8_0, N, VOCAB, 1);
    ka_embed em = { .step = ops_step(o), .y = ops_at(o, c->x), .w = ops_at(o, c->w), .type = QT_Q8_0, .n = N,
                    .n_vocab = VOCAB, .scale = 1.0f };
    ka_norm no = { .step = ops_step(o), .y = ops_at(o, c->y), .x = ops_at(o, c->x), .n = N, .group = N, .eps = 1e-6f };
    ka_matmul mm = { .step = ops_step(o), .x = ops_at(o, c->y), .y = { ops_at(o, logits) }, .w = { ops_at(o, c->w) },
                     .n_out = { VOCAB }, .type = { QT_Q8_0 }, .ld = { VOCAB }, .n_mats = 1, .n_in = N, .ldx = N,
                     .rows = ROWS_STEP, .eps = 1e-6f };
    ka_argmax am = { .step = ops_step(o), .next = ops_next(o), .logits = ops_at(o, logits), .n = VOCAB };
    ops_cmd(o, CMD_EMBED, &em, sizeof em);
    ops_cmd(o, CMD_NORM, &no, sizeof no);
    ops_set_wait(o, norm_wait);
    ops_cmd(o, CMD_MATMUL, &mm, sizeof mm);
    ops_cmd(o, CMD_ARGMAX, &am, sizeof am);
}

static void open_tier(struct ctx *c, const struct tier_opts *opts)
{
    struct tier_weights tw = { ops_stream(c->o), ops_weights(c->o) };
    ck_assert_msg(tier_open("cpu", opts, &c->t, &c->e) == 0, "%s", c->e.msg);
    ck_assert_msg(tier_load(c->t, &tw, NULL, &c->e) == 0, "%s", c->e.msg);
    ck_assert_msg(tier_alloc(c->t, ops_stream(c->o)->h.arena_bytes, &c->e) == 0, "%s", c->e.msg);
    ck_assert_msg(tier_prepare(c->t, ops_stream(c->o), PLAN_AUTO, &c->p, &c->e) == 0, "%s", c->e.msg);
    for (uint32_t r = 0; r < ROWS; r++) {
        c->rows[r] = (ka_row){ .token = (int32_t)(7 * r + 3), .pos = r };
        c->out[r] = r;
    }
    c->st = (struct step){ ROWS, ROWS, ROWS, c->rows, c->out, NULL };
}

static void start(struct ctx *c, const struct tier_opts *opts)
{
    memset(c, 0, sizeof *c);
    make_stream(c, 0);
    ck_assert_msg(ops_finish(c->o, &c->e) == 0, "%s", c->e.msg);
    open_tier(c, opts);
}

static void finish(struct ctx *c)
{
    tier_plan_destroy(c->p);
    tier_close(c->t);
    ops_free(c->o);
}

static int submit(struct ctx *c)
{
    uint64_t point;
    int rc = tier_submit(c->t, c->p, &c->st, &point);
    return rc ? rc : tier_wait(c->t, point, 1000000000);
}

static const struct tier_opts two_threads = { .device = -1, .threads = 2 };

START_TEST(unknown_tier_lists_the_known_ones)
{
    struct tier *t;
    struct err e = { 0 };
    ck_assert_int_eq(tier_open("abacus", NULL, &t, &e), -ENODEV);
    ck_assert_msg(strstr(e.msg, "abacus") && strstr(e.msg, "cpu") && strstr(e.msg, "null"), "%s", e.msg);
}
END_TEST

START_TEST(auto_is_never_null)
{
    struct tier *t;
    struct err e = { 0 };
    ck_assert_msg(tier_open("auto", NULL, &t, &e) == 0, "%s", e.msg);
    ck_assert_str_ne(t->impl->name, "null");
    tier_close(t);
}
END_TEST

START_TEST(bad_steps_are_refused_and_good_ones_still_run)
{
    struct ctx c;
    start(&c, &two_threads);
    ck_assert_int_eq(submit(&c), 0);
#define REFUSED(what)                                                                                                  \
    do {                                                                                                               \
        struct ctx save = c;                                                                                           \
        c.st.rows = c.rows;                                                                                            \
        what;                                                                                                          \
        ck_assert_msg(submit(&c) == -EINVAL, "accepted: %s", #what);                                                   \
        memcpy(c.rows, save.rows, sizeof c.rows);                                                                      \
        memcpy(c.out, save.out, sizeof c.out);                                                                         \
        c.st = save.st;                                                                                                \
    } while (0)
    REFUSED(c.rows[1].token = VOCAB);
    REFUSED(c.rows[1].token = -1 - ROWS);
    REFUSED(c.rows[1].slot = 2);
    REFUSED(c.rows[3].pos = 16; c.st.kv_len = 17);
    REFUSED(c.rows[2].pos = 1); /* not after the row before */
    REFUSED(c.st.kv_len = ROWS + 1);
    REFUSED(c.out[3] = ROWS);
    REFUSED(c.out[1] = 0); /* not ascending */
    REFUSED(c.st.n_rows = 0);
    REFUSED(c.st.n_rows = ROWS + 1);
    REFUSED(c.st.n_out = ROWS + 1);
    ck_assert_int_eq(submit(&c), 0);
    finish(&c);
}
END_TEST

START_TEST(a_stream_of_other_weights_or_larger_arenas_is_refused)
{
    struct ctx c;
    start(&c, &two_threads);
    struct stream other = *ops_stream(c.o);
    struct tier_plan *p;
    other.h.weights_hash ^= 1;
    ck_assert_int_eq(tier_prepare(c.t, &other, PLAN_AUTO, &p, &c.e), -EINVAL);
    other = *ops_stream(c.o);
    other.h.arena_bytes[ARENA_SCRATCH] += STREAM_ALIGN;
    ck_assert_int_eq(tier_prepare(c.t, &other, PLAN_AUTO, &p, &c.e), -EINVAL);
    ck_assert_msg(strstr(c.e.msg, "scratch"), "%s", c.e.msg);
    finish(&c);
}
END_TEST

START_TEST(a_missing_wait_is_found_and_named)
{
    struct ctx c;
    memset(&c, 0, sizeof c);
    make_stream(&c, CMD_NO_WAIT);
    ck_assert_int_eq(ops_finish(c.o, &c.e), -EINVAL); /* the verifier sees it too */
    open_tier(&c, &(struct tier_opts){ .device = -1, .threads = 2, .check = true });
    ck_assert_int_eq(submit(&c), -EIO);
    ck_assert_int_eq(c.t->impl->fault(c.t, &c.e), 0);
    ck_assert_msg(strstr(c.e.msg, "NORM") && strstr(c.e.msg, "EMBED") && strstr(c.e.msg, "hidden"), "%s", c.e.msg);
    ck_assert_int_eq(submit(&c), -EIO); /* a tier that faulted stays so */
    finish(&c);
}
END_TEST

START_TEST(rows_can_name_the_previous_steps_tokens)
{
    struct ctx c;
    int32_t next[ROWS], again[ROWS];
    start(&c, &two_threads);
    const struct stream_head *h = &ops_stream(c.o)->h;
    ck_assert_int_eq(submit(&c), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_IO, h->next_off, next, sizeof next, &c.e), 0);
    for (uint32_t r = 0; r < ROWS; r++)
        c.rows[r].token = -1 - (int32_t)(ROWS - 1 - r);
    ck_assert_int_eq(submit(&c), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_IO, h->next_off, again, sizeof again, &c.e), 0);
    int32_t want[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        c.rows[r].token = next[ROWS - 1 - r];
    ck_assert_int_eq(submit(&c), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_IO, h->next_off, want, sizeof want, &c.e), 0);
    ck_assert_mem_eq(again, want, sizeof want);
    finish(&c);
}
END_TEST

START_TEST(a_prefix_runs_only_its_commands)
{
    struct ctx c;
    float x[N], y[N];
    start(&c, &two_threads);
    const struct stream *s = ops_stream(c.o);
    uint64_t xo = s->bufs[c.x].off, yo = s->bufs[c.y].off;
    ck_assert_int_eq(tier_submit_prefix(c.t, c.p, &c.st, 1, &c.e), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_SCRATCH, xo, x, sizeof x, &c.e), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_SCRATCH, yo, y, sizeof y, &c.e), 0);
    ck_assert(x[0] != 0.0f && y[0] == 0.0f);
    ck_assert_int_eq(tier_submit_prefix(c.t, c.p, &c.st, 2, &c.e), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_SCRATCH, yo, y, sizeof y, &c.e), 0);
    ck_assert(y[0] != 0.0f);
    ck_assert_int_eq(tier_submit_prefix(c.t, c.p, &c.st, s->h.n_cmds + 1, &c.e), -EINVAL);
    finish(&c);
}
END_TEST

START_TEST(arenas_can_be_read_written_and_mapped)
{
    struct ctx c;
    float v[3] = { 1, 2, 3 }, got[3];
    start(&c, &two_threads);
    const struct stream *s = ops_stream(c.o);
    uint64_t off = s->bufs[c.y].off, end = s->h.arena_bytes[ARENA_SCRATCH];
    ck_assert_int_eq(tier_write(c.t, ARENA_SCRATCH, off, v, sizeof v, &c.e), 0);
    ck_assert_int_eq(tier_read(c.t, ARENA_SCRATCH, off, got, sizeof got, &c.e), 0);
    ck_assert_mem_eq(got, v, sizeof v);
    ck_assert_mem_eq(tier_map(c.t, ARENA_SCRATCH, off), v, sizeof v);
    ck_assert_int_eq(tier_read(c.t, ARENA_SCRATCH, end - 4, got, 8, &c.e), -EINVAL);
    ck_assert_int_eq(tier_write(c.t, ARENA_SCRATCH, UINT64_MAX - 4, v, 8, &c.e), -EINVAL);
    ck_assert_ptr_null(tier_map(c.t, ARENA_SCRATCH, end + 1));
    ck_assert_int_eq(tier_read(c.t, ARENA_WEIGHTS, 0, got, 4, &c.e), -EINVAL);
    finish(&c);
}
END_TEST

START_TEST(statistics_and_trace_count_what_ran)
{
    struct ctx c;
    const struct tier_trace *tr;
    start(&c, &(struct tier_opts){ .device = -1, .threads = 2, .trace = true });
    ck_assert_int_eq(submit(&c), 0);
    ck_assert_int_eq(submit(&c), 0);
    ck_assert_uint_eq(c.t->stats.steps, 2);
    ck_assert_uint_eq(c.t->stats.rows, 2 * ROWS);
    ck_assert_uint_eq(c.t->stats.commands, 8);
    ck_assert(c.t->stats.busy_ns > 0 && c.t->stats.host_ns > 0 && c.t->stats.words > 0);
    ck_assert(c.t->stats.busy_ns >= c.t->stats.host_ns);
    ck_assert_uint_eq(c.t->impl->trace(c.t, &tr), 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(tr[i].cmd, i);
        ck_assert(tr[i].end_ns >= tr[i].start_ns && (i == 0 || tr[i].start_ns >= tr[i - 1].end_ns));
    }
    tier_stats_reset(c.t);
    ck_assert_uint_eq(c.t->stats.steps, 0);
    ck_assert(c.t->impl->resident(c.t) > ops_stream(c.o)->h.arena_bytes[ARENA_IO]);
    finish(&c);
}
END_TEST

START_TEST(the_dump_names_every_command)
{
    struct ctx c;
    char *text = NULL;
    size_t n = 0;
    start(&c, &two_threads);
    FILE *f = open_memstream(&text, &n);
    c.t->impl->dump(c.p, f);
    fclose(f);
    ck_assert_msg(strstr(text, "EMBED") && strstr(text, "MATMUL") && strstr(text, "Q8_0[64 x 32]"), "%s", text);
    free(text);
    finish(&c);
}
END_TEST

/* What --tier=auto tries ways to a card with is a stream as any other: verified, and run by whoever runs streams. */
START_TEST(the_trial_of_auto_is_a_stream)
{
    struct err e = { 0 };
    double us = 0.0;
    ck_assert_msg(stream_verify(auto_trial_stream(), &e) == 0, "%s", e.msg);
    ck_assert_msg(auto_trial(&tier_driver_cpu, &(struct tier_opts){ .device = -1, .threads = 1 }, &us, &e) == 0, "%s", e.msg);
    ck_assert(us > 0.0);
}
END_TEST

int main(void)
{
    return RUN_TESTS("tier", the_trial_of_auto_is_a_stream, unknown_tier_lists_the_known_ones, auto_is_never_null,
                     bad_steps_are_refused_and_good_ones_still_run,
                     a_stream_of_other_weights_or_larger_arenas_is_refused, a_missing_wait_is_found_and_named,
                     rows_can_name_the_previous_steps_tokens, a_prefix_runs_only_its_commands,
                     arenas_can_be_read_written_and_mapped, statistics_and_trace_count_what_ran,
                     the_dump_names_every_command);
}
