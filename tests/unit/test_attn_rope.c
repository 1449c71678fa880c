/* ATTN that does the ROPE_KV before it (kl_attn_rope): rows one by one, and in steps of two to eight, have the bits that a launch for
 * each command gives them. All types of cache, across the borders of what work-groups share. */
#include "base/ckd.h"
#include "engine/proof/op_check.h"
#include "kernels/attn_shared.h"
#include "kernels/klaunch.h"
#include "rt/dispatch.h"
#include "rt/lockstep/run.h"
#include "tests/lib/run.h"

/* Up to position 262: lockstep's four cores make splits of 128 positions of heads of 64 and 128, and chunks of 64. */
static const struct {
    uint32_t heads, kv, dim, flags, window;
} shapes[] = {
    { 2, 1, 64, OF_NORM | OF_SINKS, 0 },
    { 4, 1, 64, OF_ADJACENT | OF_TEMP, 150 },
    { 14, 1, 64, OF_NORM | OF_V_NORM | OF_PARTIAL, 0 }, /* a warp for each head, none left */
    { 4, 2, 128, OF_NORM | OF_TEMP, 0 },
    { 12, 4, 128, OF_PARTIAL | OF_ADJACENT, 0 },
    { 3, 3, 128, OF_NORM | OF_V_IS_K | OF_V_NORM, 0 },
    { 8, 2, 128, OF_NORM | OF_SLOTS, 0 },
    { 4, 2, 256, OF_NORM | OF_PARTIAL | OF_GATE | OF_TEMP, 0 },
    { 8, 1, 256, OF_ADJACENT | OF_V_NORM, 100 }, /* more heads than warps */
    { 5, 1, 256, OF_NORM | OF_GATE, 0 },         /* and not as many as parts */
    { 4, 1, 512, OF_NORM | OF_TEMP, 0 },
};
static const uint32_t caches[] = { 0, OF_Q8_KV, OF_FP8_KV, OF_Q4_KV, OF_ROT4_KV };

/* The same with another command that reads q, which ROPE_KV has to leave turned then: a launch of its own. */
static struct ops *make_apart(const struct op_case *c)
{
    struct ops *o = make_attn(c);
    const struct stream *s = ops_stream(o);
    const ka_attn *a = stream_args(s, s->h.n_cmds - 1);
    ka_add add = { .step = a->step, .y = ops_at(o, ops_rows(o, "q again", OPS_TEMP, a->ldq)), .a = a->q, .b = a->q, .n = a->ldq };
    ops_cmd(o, CMD_ADD, &add, sizeof add);
    return o;
}

static void run(const struct op_case *c, struct ops *o, uint32_t step, struct ops_result *y)
{
    struct ops_how how = { .tier = "lockstep", .threads = 1, .first = step, .step = step };
    struct err e = { 0 };
    ck_assert_msg(ops_run(o, &how, y, &e) == 0, "%s: %s", c->name, e.msg);
}

static void check_case(const struct op_case *c)
{
    static const uint32_t steps[] = { 1, 2, 8 };
    struct ops_result two, y;
    struct err e = { 0 };
    char why[160];
    struct ops *o = make_apart(c);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    run(c, o, 8, &two);
    ops_free(o);
    o = c->make(c);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    bool rows = c->dim <= 128 && !(c->flags & (OF_Q8_KV | OF_FP8_KV | OF_Q4_KV | OF_ROT4_KV)); /* there is a kernel for several */
    for (uint32_t i = 0; i < (rows ? ARRAY_LEN(steps) : 1); i++) {
        run(c, o, steps[i], &y);
        ck_assert_msg(op_is_same(&two, &y, why, sizeof why), "%s, steps of %u: %s", c->name, steps[i], why);
        ops_result_free(&y);
    }
    ops_result_free(&two);
    ops_free(o);
}

START_TEST(rows_have_the_bits_of_two_launches)
{
    static const enum kernel_id all[] = { K_attn_rope_h64,       K_attn_rope_h128,      K_attn_rope_rows_h64,
                                          K_attn_rope_rows_h128, K_attn_rope_group_h256, K_attn_rope_group_h512 };
    for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) {
        for (uint32_t k = 0; k < ARRAY_LEN(caches); k++) {
            char name[96];
            struct op_case c = { .name = name, .make = make_attn, .rows = 12, .cap = 8, .heads = shapes[i].heads,
                                 .kv = shapes[i].kv, .dim = shapes[i].dim, .flags = shapes[i].flags | caches[k],
                                 .arg = shapes[i].window };
            snprintf(name, sizeof name, "%u/%u heads of %u, window %u, flags %#x", c.heads, c.kv, c.dim, c.arg, c.flags);
            check_case(&c); /* from position 0 on */
            if (c.flags & OF_SLOTS)
                continue;
            if (caches[k]) { /* other caches than f16 begin empty */
                c.rows = c.dim <= 128 ? 135 : 70;
                if (i % ARRAY_LEN(caches) != k)
                    continue;
                check_case(&c);
            } else {
                c.n_in = c.dim <= 128 ? 122 : 60;
                check_case(&c);
                c.n_in = c.dim <= 128 ? 250 : 122;
                check_case(&c);
                if (c.dim == 256 && c.heads == 5) { /* chunks as large as one merge wants them */
                    c.n_in = 1016;
                    check_case(&c);
                }
            }
        }
    }
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
        ck_assert_msg(dispatch_used[all[i]], "%s was not launched", kernel_infos[all[i]].name);
}
END_TEST

/* The step's last row is made first, so that nobody has made for it what it sees of the others. */
START_TEST(rows_make_what_they_see_of_others)
{
    static const uint32_t dims[] = { 64, 128 };
    for (uint32_t i = 0; i < ARRAY_LEN(dims); i++) {
        struct op_case c = { .name = "backwards", .make = make_attn, .rows = 8, .cap = 8, .heads = 4, .kv = 1, .dim = dims[i],
                             .flags = OF_NORM, .n_in = 44 }; /* in two warps' tiles, which they ask for before the warp that makes K */
        struct ops_result y[2];
        struct err e = { 0 };
        char why[160];
        for (uint32_t apart = 0; apart < 2; apart++) {
            struct ops *o = apart ? make_apart(&c) : make_attn(&c);
            ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
            lockstep_reverse(true);
            run(&c, o, 8, &y[apart]);
            lockstep_reverse(false);
            ops_free(o);
        }
        ck_assert_msg(op_is_same(&y[1], &y[0], why, sizeof why), "heads of %u: %s", dims[i], why);
        ops_result_free(&y[0]);
        ops_result_free(&y[1]);
    }
}
END_TEST

/* 33 kv heads have four work-groups each, so that a second chunk leaves two for its heads and a third one one: a work-group then has
 * other heads than those it asked for. */
START_TEST(heads_are_shared_otherwise_from_row_to_row)
{
    static const uint32_t windows[] = { 0, 100 }; /* three chunks from position 128 on; two */
    for (uint32_t i = 0; i < ARRAY_LEN(windows); i++) {
        struct op_case c = { .name = windows[i] ? "5 heads by 4, 2" : "5 heads by 4, 1", .make = make_attn, .rows = 3, .cap = 3,
                             .heads = 5 * 33, .kv = 33, .dim = 256, .flags = OF_NORM | OF_GATE, .arg = windows[i], .n_in = 126 };
        check_case(&c);
    }
}
END_TEST

static uint32_t launches(const struct ops *o, const struct dispatch_target *t, uint32_t rows, uint32_t kernel)
{
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    uint32_t n = 0;
    ck_assert_msg(dispatch_build(ops_stream(o), t, rows, 0, &p, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < p->n; i++)
        n += kernel == KERNEL_COUNT || p->d[i].kernel == kernel;
    dispatch_free(p);
    return n;
}

/* A launch less for a single row, of heads of 64 and 128 and f16 caches for up to eight, where launches begin early; not of an f32
 * cache, of heads without such a kernel, or on other targets. */
START_TEST(a_launch_less_where_there_is_a_kernel)
{
    static const struct {
        uint32_t heads, dim, flags;
        bool one;
    } cases[] = {
        { 4, 128, 0, true }, { 14, 64, 0, true },  { 8, 256, OF_GATE, true },   { 15, 64, 0, false },
        { 9, 256, 0, false }, { 4, 96, 0, false }, { 4, 128, OF_F32_KV, false }, { 4, 128, OF_Q8_KV, true },
    };
    struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true };
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct op_case c = { .name = "attn", .make = make_attn, .rows = 8, .heads = cases[i].heads, .kv = 1,
                             .dim = cases[i].dim, .flags = cases[i].flags };
        struct err e = { 0 };
        struct ops *o = c.make(&c);
        ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
        t.ahead = true;
        ck_assert_uint_eq(launches(o, &t, 1, KERNEL_COUNT), cases[i].one ? 1 : 2);
        ck_assert_uint_eq(launches(o, &t, 1, K_rope_kv), !cases[i].one);
        for (uint32_t rows = 2; rows <= 8; rows *= 2)
            ck_assert_uint_eq(launches(o, &t, rows, KERNEL_COUNT), cases[i].one && cases[i].dim <= 128 && !cases[i].flags ? 1 : 2);
        t.ahead = false;
        ck_assert_uint_eq(launches(o, &t, 1, KERNEL_COUNT), 2);
        ops_free(o);
    }
}
END_TEST

/* As rt/dispatch_attn.c and ag_cut have it: a row's chunks have places, whatever its position. */
START_TEST(chunks_have_places)
{
    static const uint32_t windows[] = { 0, 100, 512, 1024, 4096 };
    uint32_t rows = 0, bad = 0;
    for (uint32_t dim = 64; dim <= 512; dim *= 2)
        for (uint32_t n_kv = 1; n_kv <= 32; n_kv *= 2)
            for (uint32_t w = 0; w < ARRAY_LEN(windows); w++)
                for (uint32_t n_ctx = 65; n_ctx < 50000; n_ctx = n_ctx * 3 + 1) {
                    uint32_t window = windows[w], seen = window ? MIN(window, n_ctx) : n_ctx;
                    uint32_t splits = attn_group_splits(dim, n_kv, seen, AG_POS);
                    for (uint32_t pos = 0; pos < n_ctx; pos += pos < 2100 ? 1 : 61) {
                        uint32_t lo = window && pos >= window ? pos - window + 1 : 0;
                        uint32_t size = attn_group_chunk(pos + 1 - lo, splits, AG_POS);
                        bad += size % AG_POS != 0 || pos / size - lo / size + 1 > splits;
                        rows++;
                    }
                }
    ck_assert_uint_gt(rows, 1000000);
    ck_assert_uint_eq(bad, 0);
}
END_TEST

/* As rt/dispatch.c has it: no more splits than there is room for, and none that is small. */
START_TEST(splits_have_places)
{
    static const uint32_t mins[] = { 32, 64, 128 };
    uint32_t bad = 0;
    for (uint32_t m = 0; m < ARRAY_LEN(mins); m++)
        for (uint32_t group = 1; group <= 8; group++)
            for (uint32_t splits = 1; splits <= ATTN_MAX_SPLITS; splits = splits < 20 ? splits + 1 : splits * 2)
                for (uint32_t n = 1; n < 300000; n += n < 5000 ? 1 : n / 8) {
                    uint32_t chunk = attn_chunk(n, splits, mins[m], group), used = (n + chunk - 1) / chunk;
                    bad += used > splits || (used > 1 && chunk < mins[m]);
                }
    ck_assert_uint_eq(bad, 0);
}
END_TEST

/* Work-groups that share a chunk's heads have each head once; there are as many work-groups as were asked for. */
START_TEST(parts_have_each_head_once)
{
    for (uint32_t group = 1; group <= AG_HEADS; group++)
        for (uint32_t shares = 1; shares <= 132; shares++)
            for (uint32_t chunks = 1; chunks <= shares; chunks++) {
                uint32_t parts = attn_group_parts(group, chunks, shares), next = 0, first, heads;
                ck_assert_uint_le(chunks << parts, shares);
                for (uint32_t i = 0; i < 1u << parts; i++, next += heads) {
                    attn_group_part(group, parts, (chunks - 1) << parts | i, &first, &heads);
                    ck_assert(heads == 0 || first == next);
                }
                ck_assert_uint_eq(next, group);
                ck_assert_uint_le(chunks << attn_parts(group, chunks, shares), shares);
            }
}
END_TEST

int main(void)
{
    return RUN_TESTS("attn_rope", rows_have_the_bits_of_two_launches, rows_make_what_they_see_of_others,
                     heads_are_shared_otherwise_from_row_to_row, a_launch_less_where_there_is_a_kernel, chunks_have_places,
                     splits_have_places, parts_have_each_head_once);
}
