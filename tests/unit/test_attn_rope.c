/* ATTN that does the ROPE_KV before it (kl_attn_rope): rows one by one have the bits that they have in steps of three, which
 * have a launch for each command. All types of cache, across the borders of what work-groups share. */
#include "base/ckd.h"
#include "engine/proof/op_check.h"
#include "kernels/attn_shared.h"
#include "kernels/klaunch.h"
#include "rt/dispatch.h"
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

static void check_case(const struct op_case *c)
{
    struct ops_how one = { .tier = "lockstep", .threads = 1, .first = 1, .step = 1 };
    struct ops_how three = { .tier = "lockstep", .threads = 1, .first = 3, .step = 3 };
    struct ops_result a = { 0 }, b = { 0 };
    struct err e = { 0 };
    char why[160];
    struct ops *o = c->make(c);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    ck_assert_msg(ops_run(o, &one, &a, &e) == 0, "%s: %s", c->name, e.msg);
    ck_assert_msg(ops_run(o, &three, &b, &e) == 0, "%s: %s", c->name, e.msg);
    ck_assert_msg(op_is_same(&a, &b, why, sizeof why), "%s: %s", c->name, why);
    ops_result_free(&a);
    ops_result_free(&b);
    ops_free(o);
}

START_TEST(rows_alone_have_the_bits_of_two_launches)
{
    static const enum kernel_id all[] = { K_attn_rope_h64, K_attn_rope_h128, K_attn_rope_group_h256, K_attn_rope_group_h512 };
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

static uint32_t launches(const struct ops *o, const struct dispatch_target *t, uint32_t kernel)
{
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    uint32_t n = 0;
    ck_assert_msg(dispatch_build(ops_stream(o), t, 1, 0, &p, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < p->n; i++)
        n += kernel == KERNEL_COUNT || p->d[i].kernel == kernel;
    dispatch_free(p);
    return n;
}

/* A launch less for a single row, where launches begin early; not of an f32 cache, of heads without such a kernel, or on other
 * targets. */
START_TEST(a_launch_less_where_there_is_a_kernel)
{
    static const struct {
        uint32_t heads, dim, flags;
        bool one;
    } cases[] = {
        { 4, 128, 0, true }, { 14, 64, 0, true },  { 8, 256, OF_GATE, true },   { 15, 64, 0, false },
        { 9, 256, 0, false }, { 4, 96, 0, false }, { 4, 128, OF_F32_KV, false },
    };
    struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true };
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct op_case c = { .name = "attn", .make = make_attn, .rows = 8, .heads = cases[i].heads, .kv = 1,
                             .dim = cases[i].dim, .flags = cases[i].flags };
        struct err e = { 0 };
        struct ops *o = c.make(&c);
        ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
        t.ahead = true;
        ck_assert_uint_eq(launches(o, &t, KERNEL_COUNT), cases[i].one ? 1 : 2);
        ck_assert_uint_eq(launches(o, &t, K_rope_kv), !cases[i].one);
        t.ahead = false;
        ck_assert_uint_eq(launches(o, &t, KERNEL_COUNT), 2);
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
    return RUN_TESTS("attn_rope", rows_alone_have_the_bits_of_two_launches, heads_are_shared_otherwise_from_row_to_row,
                     a_launch_less_where_there_is_a_kernel, chunks_have_places, parts_have_each_head_once);
}
