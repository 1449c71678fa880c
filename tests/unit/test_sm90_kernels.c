/* Hopper's kernels on the host, in shapes that take their rings of stages round several times, with parts of k and runs of tiles:
 * right for each set of weight types, and a row's bits are the same in whatever company, tile or order. */
#include <string.h>

#include "base/ckd.h"
#include "engine/proof/op_cases.h"
#include "engine/proof/op_check.h"
#include "kernels/kernel_id.h"
#include "rt/dispatch.h"
#include "rt/lockstep/run.h"
#include "tests/lib/run.h"

#if defined(__SANITIZE_ADDRESS__)
#define QUICK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUICK 1
#endif
#endif
#ifndef QUICK
#define QUICK 0
#endif

static const struct ops_how whole = { .tier = "lockstep:sm90", .threads = 1 };

static struct ops *make(const struct op_case *c)
{
    struct err e = { 0 };
    struct ops *o = c->make(c);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    return o;
}

static struct ops_result run(struct ops *o, const struct op_case *c, struct ops_how how)
{
    struct ops_result r = { 0 };
    struct err e = { 0 };
    ck_assert_msg(ops_run(o, &how, &r, &e) == 0, "%s: %s", c->name, e.msg);
    return r;
}

static void check_same(struct ops *o, const struct op_case *c, struct ops_how how, const struct ops_result *want)
{
    char why[160];
    struct ops_result r = run(o, c, how);
    ck_assert_msg(op_is_same(&r, want, why, sizeof why), "%s, %u rows and then %u: %s", c->name, how.first, how.step, why);
    ops_result_free(&r);
}

/* Right, and in reverse, in other steps the same; under the address sanitizer, which is slow, right. */
static void check_case(const struct op_case *c)
{
    struct ops *o = make(c);
    struct ops_result exact = run(o, c, (struct ops_how){ .tier = "cpu", .threads = 2, .exact = true }), got = run(o, c, whole);
    char why[160];
    ck_assert_msg(op_is_close(c, &got, &exact, why, sizeof why), "%s: %s", c->name, why);
    struct ops_how steps = whole;
    steps.first = c->rows / 3;
    steps.step = c->rows > 64 ? 33 : 5;
    for (uint32_t i = 0; i < 2 && !QUICK; i++) {
        lockstep_reverse(i == 0);
        check_same(o, c, i ? steps : whole, &got);
    }
    ops_result_free(&exact);
    ops_result_free(&got);
    ops_free(o);
}

static const struct {
    enum qtype type;
    uint32_t flags;
} types[] = {
#define QTYPE_BLOCK(NAME, name, set, ...) { QT_##NAME, 0 },
#include "kernels/qtypes.def"
    { QT_F16, 0 }, { QT_BF16, 0 }, { QT_IQ3_S, 0 }, { QT_Q4_K, OF_WITH_Q6K }, { QT_Q5_K, OF_WITH_Q6K },
};

START_TEST(every_set_of_types_is_right_in_every_class_of_rows)
{
    static const uint32_t rows[] = { 5, 12, 40, 140 };
    for (uint32_t i = 0; i < ARRAY_LEN(types); i++)
        for (uint32_t k = 0; k < ARRAY_LEN(rows); k++) {
            char name[64];
            struct op_case c = { .name = name, .make = types[i].flags ? make_proj : make_matmul, .type = types[i].type, .rows = rows[k],
                                 .n_in = 256, .n_out = 136, .flags = types[i].flags, .max_nmse = 6e-4 };
            snprintf(name, sizeof name, "%s%s, %u rows", qtype_name(c.type), c.flags ? " and q6_k" : "", c.rows);
            if (QUICK && c.type != QT_Q8_0)
                continue;
            check_case(&c);
        }
    for (uint32_t i = 0; i < KERNEL_COUNT && !QUICK; i++)
        ck_assert_msg(dispatch_used[i] || (!strstr(kernel_infos[i].name, "_gemm_wgmma_") && !strstr(kernel_infos[i].name, "_rows_half_") &&
                                           !strstr(kernel_infos[i].name, "_matmul8_")),
                      "no case launches %s", kernel_infos[i].name);
}
END_TEST

START_TEST(rings_go_round)
{
    static const struct op_case deep[] = {
        { .name = "a long row of one tile, 12", .make = make_matmul, .type = QT_Q8_0, .rows = 12, .n_in = 3072, .n_out = 120 },
        { .name = "a long row of one tile, 40", .make = make_matmul, .type = QT_Q4_K, .rows = 40, .n_in = 3072, .n_out = 120 },
        { .name = "parts of several tiles", .make = make_matmul, .type = QT_Q8_0, .rows = 40, .n_in = 1280, .n_out = 392 },
        { .name = "gate and up", .make = make_gate_up, .type = QT_Q8_0, .rows = 40, .n_in = 768, .n_out = 200, .flags = OF_NORM },
        { .name = "a prompt", .make = make_matmul, .type = QT_Q8_0, .rows = 140, .n_in = 1280, .n_out = 392 },
        { .name = "a prompt of halves", .make = make_matmul, .type = QT_F16, .rows = 97, .n_in = 1024, .n_out = 264 },
        { .name = "a long prompt", .make = make_matmul, .type = QT_Q4_K, .rows = 300, .n_in = 512, .n_out = 136 },
    };
    for (uint32_t i = 0; i < ARRAY_LEN(deep); i++) {
        struct op_case c = deep[i];
        c.max_nmse = 6e-4;
        if (QUICK && c.n_in > 1280)
            continue;
        check_case(&c);
    }
}
END_TEST

/* Windows, sinks, gates, rows of several slots in a tile, heads that do not divide it, caches of every kind. */
START_TEST(attention_of_prompts_is_right)
{
    static const struct op_case attn[] = {
        { .name = "a tile and a half, 64", .rows = 200, .heads = 2, .kv = 2, .dim = 64 },
        { .name = "heads of 64 by 7, sinks, window across tiles", .rows = 150, .heads = 7, .kv = 1, .dim = 64, .arg = 70, .flags = OF_SINKS },
        { .name = "heads of 128 at 500", .rows = 70, .n_in = 500, .heads = 4, .kv = 2, .dim = 128, .flags = OF_NORM },
        { .name = "heads of 128 by 5, two slots", .rows = 90, .heads = 5, .kv = 1, .dim = 128, .flags = OF_SLOTS | OF_SINKS },
        { .name = "heads of 256 with a gate", .rows = 130, .heads = 4, .kv = 2, .dim = 256, .flags = OF_GATE | OF_NORM },
        { .name = "heads of 256, two slots, window", .rows = 75, .n_in = 100, .heads = 2, .kv = 1, .dim = 256, .arg = 90, .flags = OF_SLOTS },
        { .name = "heads of 64, q8_0", .rows = 140, .heads = 2, .kv = 1, .dim = 64, .flags = OF_Q8_KV },
        { .name = "heads of 128, rot4, two slots", .rows = 100, .heads = 4, .kv = 1, .dim = 128, .flags = OF_ROT4_KV | OF_SLOTS },
        { .name = "heads of 256, fp8", .rows = 70, .heads = 2, .kv = 1, .dim = 256, .flags = OF_FP8_KV },
    };
    for (uint32_t i = 0; i < ARRAY_LEN(attn); i++) {
        struct op_case c = attn[i];
        c.make = make_attn;
        c.max_nmse = c.flags & (OF_Q8_KV | OF_ROT4_KV | OF_FP8_KV) ? 1e-6 : 1e-7;
        check_case(&c);
    }
    ck_assert(dispatch_used[K_attn_wgmma_h64] && dispatch_used[K_attn_wgmma_h128] && dispatch_used[K_attn_wgmma_h256]);
}
END_TEST

int main(void)
{
    return RUN_TESTS("sm90_kernels", attention_of_prompts_is_right, every_set_of_types_is_right_in_every_class_of_rows, rings_go_round);
}
