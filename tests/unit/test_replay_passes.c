/* The classes of rows of a plan (rt/replay.h): which of them steps of decoding take, and the kernels that these ask for. A
 * program with one slot, as `zinc run` is, loads no module that no launch of a single row uses. */
#define FAKE_HEAD_DIM 64
#include "rt/dispatch_impl.h"
#include "rt/replay.h"
#include "tests/stream/compile.h"

static const struct dispatch_target hopper = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true,
                                               .mma8 = true, .ahead = true };

static void build(struct replay *r, struct replay_plan *p, struct stream *s, bool all[KERNEL_COUNT])
{
    struct err e = { 0 };
    *r = (struct replay){ .target = hopper };
    *p = (struct replay_plan){ .base = { .tier = &r->tier, .s = s, .kind = PLAN_REPLAY } };
    memset(all, 0, KERNEL_COUNT);
    ck_assert_msg(replay_plan_build(p, all, &e) == 0, "%s", e.msg);
}

START_TEST(steps_of_decoding_take_the_passes_that_are_awaited)
{
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    struct replay r;
    struct replay_plan p;
    bool all[KERNEL_COUNT];
    ck_assert_uint_eq(s->h.row_cap, KL_DECODE_ROWS);
    for (s->h.n_slots = 1; s->h.n_slots <= KL_DECODE_ROWS; s->h.n_slots++) {
        bool taken[REPLAY_PASSES] = { 0 };
        build(&r, &p, s, all);
        ck_assert_uint_eq(p.n_passes, 5);
        for (uint32_t rows = 1; rows <= s->h.n_slots; rows++)
            taken[replay_pass_for(&p, &(struct step){ .n_rows = rows, .n_out = rows })] = true;
        for (uint32_t i = 0; i < p.n_passes; i++)
            ck_assert_msg(replay_pass_awaited(&p, i) == taken[i], "%u slots, pass for %u rows", s->h.n_slots, p.pass[i].max_rows);
        replay_plan_free(&p);
    }
    stream_free(s);
}
END_TEST

START_TEST(one_slot_asks_for_the_kernels_of_one_row)
{
    for (uint32_t m = 0; m < N_FAKE_MODELS; m++) {
        struct stream *s = fake_compile(m, FAKE_DECODE);
        struct replay r;
        struct replay_plan p;
        bool all[KERNEL_COUNT], need[KERNEL_COUNT] = { 0 }, launched[KERNEL_COUNT] = { [K_step_begin] = true, [K_step_end] = true };
        uint32_t fewer = 0;
        s->h.n_slots = 1;
        build(&r, &p, s, all);
        for (uint32_t i = 0; i < p.n_passes; i++)
            if (replay_pass_awaited(&p, i))
                replay_pass_need(&p, i, need);
        const struct dispatch_plan *one = p.pass[p.n_passes - 1].d;
        for (uint32_t i = 0; i < one->n; i++)
            launched[one->d[i].kernel] = true;
        for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
            ck_assert_msg(need[k] == launched[k], "%s: %s", fake_models[m].name, kernel_infos[k].name);
            ck_assert(all[k] || !need[k]);
            fewer += all[k] && !need[k];
        }
        ck_assert_msg(fewer > 0, "%s", fake_models[m].name);
        replay_plan_free(&p);
        stream_free(s);
    }
}
END_TEST

static uint32_t launches(const struct dispatch_plan *d, enum kernel_id k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        n += d->d[i].kernel == k;
    return n;
}

/* Whole steps of two to eight rows have ROPE_KV done by ATTN; a part of one ends behind any command, and has what that one makes. */
START_TEST(parts_of_steps_have_a_launch_for_each_command)
{
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    struct replay r;
    struct replay_plan p;
    bool all[KERNEL_COUNT];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        n += s->cmds[i].op == CMD_ROPE_KV;
    ck_assert_uint_gt(n, 0);
    build(&r, &p, s, all);
    for (uint32_t rows = 1; rows <= KL_DECODE_ROWS; rows++) {
        uint32_t pass = replay_pass_for(&p, &(struct step){ .n_rows = rows, .n_out = rows });
        ck_assert_uint_gt(pass, 0);
        ck_assert_uint_eq(launches(p.pass[pass].d, rows > 1 ? K_attn_rope_rows_h64 : K_attn_rope_h64), n);
    }
    ck_assert_uint_eq(p.pass[0].max_rows, KL_DECODE_ROWS);
    for (uint32_t i = 0; i < p.n_passes; i++)
        ck_assert(replay_pass_apart(&p, i) == (i == 0));
    ck_assert_uint_eq(launches(p.pass[0].d, K_rope_kv), n);
    ck_assert_uint_eq(launches(p.pass[0].d, K_attn_h64), n);
    replay_plan_free(&p);
    stream_free(s);
}
END_TEST

START_TEST(prompts_take_every_pass)
{
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_PREFILL);
    struct replay r;
    struct replay_plan p;
    bool all[KERNEL_COUNT];
    s->h.n_slots = 1;
    build(&r, &p, s, all);
    for (uint32_t i = 0; i < p.n_passes; i++)
        ck_assert(replay_pass_awaited(&p, i));
    replay_plan_free(&p);
    stream_free(s);
}
END_TEST

/* Commands that need the more counters the fewer rows there are. */
static void lower_few_with_many(struct dispatcher *d, enum cmd_op op, const void *args)
{
    dispatch_counters(d, 1000 / d->max_rows);
}

/* Temporaries of one pass lie behind the counters, which have to stay 0 for the others. */
START_TEST(passes_have_room_for_the_counters_of_all)
{
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    struct replay r = { .target = hopper };
    struct replay_plan p = { .base = { .tier = &r.tier, .s = s, .kind = PLAN_REPLAY } };
    struct err e = { 0 };
    r.target.lower = lower_few_with_many;
    ck_assert_msg(replay_plan_build(&p, NULL, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(p.n_passes, 1);
    for (uint32_t i = 0; i < p.n_passes; i++) {
        ck_assert_uint_eq(p.pass[i].d->counters_bytes, 4000);
        ck_assert_uint_ge(p.work_bytes, p.pass[i].d->work_bytes);
    }
    replay_plan_free(&p);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("replay_passes", steps_of_decoding_take_the_passes_that_are_awaited, one_slot_asks_for_the_kernels_of_one_row,
                     parts_of_steps_have_a_launch_for_each_command, prompts_take_every_pass,
                     passes_have_room_for_the_counters_of_all);
}
