/* A layer of experts as the launches of few rows (rt/dispatch_moe.c): the shared expert's products by those of the router and of
 * MOE_DOWN, the choice made by those who want it. Rows have the bits that they have where each command has its launch, alone and in
 * steps of several; where a layer is not of that form it has its launches. */
#include "base/ckd.h"
#include "engine/proof/op_check.h"
#include "kernels/klaunch.h"
#include "rt/dispatch.h"
#include "tests/lib/run.h"
#include "tests/stream/waits.h"

enum form {
    ALONE = 1,       /* no shared expert                                                */
    NO_SHARE = 2,    /* its result is not weighted                                      */
    IN_PLACE = 4,    /* MATMUL writes over its resid, MOE_DOWN over its own             */
    OWN_NORM = 8,    /* it reads another input than the router                          */
    LATE = 16,       /* weights by softmax over the chosen ones                         */
    NUMBERS = 32,    /* of the router's experts                                         */
    GATE_BIAS = 64,  /* a router's bias, as of gpt-oss                                  */
    READ_TWICE = 128, /* another command reads the choice                               */
    DOWN_BIAS = 256, /* of the shared expert, whose down product has a launch of its own */
    DEPENDS = 512,   /* the shared expert's gate and up read what the router writes     */
};

struct layer {
    const char *name;
    enum qtype router, up, down, e_up, e_down; /* up, down: of the shared expert */
    uint32_t n_in, n_ff, n_shared, n_expert, k, form;
};

static struct ops *make(const struct layer *c, uint32_t rows)
{
    struct ops *o = ops_new(rows, 8, 16, 1, KA_KV_F16);
    bool alone = c->form & ALONE;
    gpu_va step = ops_step(o), x = ops_at(o, ops_rows(o, "x", OPS_IN, c->n_in)), h = ops_at(o, ops_rows(o, "h", OPS_INOUT, c->n_in));
    gpu_va other = c->form & OWN_NORM ? ops_at(o, ops_rows(o, "other", OPS_IN, c->n_in)) : x;
    gpu_va norm = ops_at(o, ops_vec(o, "norm", c->n_in, 0.5f, 2.0f));
    ka_router r = { .step = step, .ids = ops_at(o, ops_ids(o, "ids", OPS_OUT, c->k)),
                    .weights = ops_at(o, ops_rows(o, "weights", OPS_OUT, c->k)),
                    .logits = ops_at(o, ops_rows(o, "logits", OPS_TEMP, c->n_expert)), .x = x, .norm = norm,
                    .w = ops_at(o, ops_weight(o, "router", c->router, c->n_in, c->n_expert, 1)), .type = c->router, .n_in = c->n_in,
                    .n_expert = c->n_expert, .k = c->k, .gating = c->form & LATE ? KA_TOPK_SOFTMAX : KA_SOFTMAX_TOPK,
                    .scale = 1.5f, .eps = 1e-6f };
    if (c->form & NUMBERS)
        r.expert_scale = ops_at(o, ops_vec(o, "numbers", c->n_expert, 0.5f, 2.0f));
    if (c->form & GATE_BIAS)
        r.b = ops_at(o, ops_vec(o, "router_b", c->n_expert, -1.0f, 1.0f));
    if (!alone && !(c->form & NO_SHARE)) {
        r.share = ops_at(o, ops_rows(o, "share", OPS_OUT, 1));
        r.shared_w = ops_at(o, ops_vec(o, "share_w", c->n_in, -0.1f, 0.1f));
    }
    ops_cmd(o, CMD_ROUTER, &r, sizeof r);
    gpu_va ff = alone ? 0 : ops_at(o, ops_rows(o, "ff", OPS_OUT, c->n_shared)), resid = h;
    if (!alone) {
        ka_matmul g = { .step = step, .x = other, .norm = c->form & OWN_NORM ? 0 : norm, .y = { ff },
                        .w = { ops_at(o, ops_weight(o, "gate", c->up, c->n_in, c->n_shared, 1)),
                               ops_at(o, ops_weight(o, "up", c->up, c->n_in, c->n_shared, 1)) },
                        .n_out = { c->n_shared, c->n_shared }, .type = { c->up, c->up }, .ld = { c->n_shared }, .n_mats = 2,
                        .n_in = c->n_in, .ldx = c->n_in, .rows = ROWS_STEP, .eps = 1e-6f };
        ops_cmd(o, CMD_GATE_UP, &g, sizeof g);
        if (!(c->form & DEPENDS))
            ops_set_wait(o, CMD_NO_WAIT);
    }
    ka_moe_up up = { .step = step, .y = ops_at(o, ops_rows(o, "pairs", OPS_TEMP, c->k * c->n_ff)), .x = x, .ids = r.ids, .norm = norm,
                     .gate = ops_at(o, ops_weight(o, "e_gate", c->e_up, c->n_in, c->n_ff, c->n_expert)),
                     .up = ops_at(o, ops_weight(o, "e_up", c->e_up, c->n_in, c->n_ff, c->n_expert)),
                     .gate_stride = qtype_row_bytes(c->e_up, c->n_in) * c->n_ff, .type_gate = c->e_up, .type_up = c->e_up,
                     .n_in = c->n_in, .n_ff = c->n_ff, .n_expert = c->n_expert, .k = c->k, .eps = 1e-6f };
    up.up_stride = up.gate_stride;
    ops_cmd(o, CMD_MOE_UP, &up, sizeof up);
    ops_set_wait(o, 0);
    if (!alone) {
        gpu_va y = c->form & IN_PLACE ? h : ops_at(o, ops_rows(o, "sum", OPS_OUT, c->n_in));
        ka_matmul d = { .step = step, .x = ff, .resid = h, .scale = r.share, .y = { y },
                        .w = { ops_at(o, ops_weight(o, "down", c->down, c->n_shared, c->n_in, 1)) }, .n_out = { c->n_in },
                        .type = { c->down }, .ld = { c->n_in }, .n_mats = 1, .n_in = c->n_shared, .ldx = c->n_shared,
                        .ldr = c->n_in, .rows = ROWS_STEP };
        if (c->form & DOWN_BIAS)
            d.b[0] = ops_at(o, ops_vec(o, "down_b", c->n_in, -1.0f, 1.0f));
        ops_cmd(o, CMD_MATMUL, &d, sizeof d);
        ops_set_wait(o, 1);
        resid = y;
    }
    ka_moe_down down = { .step = step, .y = c->form & IN_PLACE ? resid : ops_at(o, ops_rows(o, "y", OPS_OUT, c->n_in)), .x = up.y,
                         .ids = r.ids, .weights = r.weights, .resid = resid,
                         .down = ops_at(o, ops_weight(o, "e_down", c->e_down, c->n_ff, c->n_in, c->n_expert)),
                         .stride = qtype_row_bytes(c->e_down, c->n_ff) * c->n_in, .type = c->e_down, .n_in = c->n_ff,
                         .n_out = c->n_in, .n_expert = c->n_expert, .k = c->k };
    ops_cmd(o, CMD_MOE_DOWN, &down, sizeof down);
    if (c->form & READ_TWICE) {
        down.y = ops_at(o, ops_rows(o, "again", OPS_OUT, c->n_in));
        ops_cmd(o, CMD_MOE_DOWN, &down, sizeof down);
        ops_set_wait(o, 3);
    }
    return o;
}

#define Q(t) QT_##t
static const struct layer layers[] = {
    { "as of qwen35moe", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q4_K), Q(Q5_K), 512, 256, 256, 40, 8, 0 },
    { "all of one type", Q(F32), Q(Q4_K), Q(Q4_K), Q(Q4_K), Q(Q4_K), 256, 256, 256, 9, 2, IN_PLACE },
    { "down of q6_k", Q(F32), Q(Q5_K), Q(Q6_K), Q(Q5_K), Q(Q5_K), 256, 256, 256, 33, 10, NO_SHARE },
    { "experts of q6_k", Q(F32), Q(Q6_K), Q(Q8_0), Q(Q6_K), Q(Q6_K), 256, 256, 512, 32, 1, LATE },
    { "experts of q8_0", Q(F32), Q(Q8_0), Q(Q6_K), Q(Q8_0), Q(Q8_0), 768, 96, 256, 70, 3, NUMBERS | OWN_NORM },
    { "experts of mxfp4", Q(F32), Q(Q8_0), Q(Q8_0), Q(MXFP4), Q(MXFP4), 512, 160, 288, 128, 4, IN_PLACE },
    { "shared of mxfp4", Q(F32), Q(MXFP4), Q(MXFP4), Q(MXFP4), Q(MXFP4), 256, 320, 64, 21, 5, GATE_BIAS },
    { "wide shared expert", Q(F32), Q(Q4_K), Q(Q4_K), Q(Q4_K), Q(Q4_K), 256, 256, 1280, 17, 2, 0 },
    { "no shared expert", Q(F32), Q(Q4_K), Q(Q4_K), Q(Q4_K), Q(Q6_K), 256, 256, 256, 128, 8, ALONE },
    { "many experts", Q(F32), Q(Q4_K), Q(Q8_0), Q(Q4_K), Q(Q8_0), 256, 64, 64, 129, 8, 0 },
    { "no shared expert, router of q8_0", Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(MXFP4), Q(MXFP4), 288, 96, 64, 32, 4, ALONE | GATE_BIAS | LATE },
    { "no shared expert, f16", Q(BF16), Q(F16), Q(F16), Q(F16), Q(F16), 64, 96, 64, 11, 3, ALONE },
    { "64 of 120", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 64, 64, 64, 120, 64, 0 },
};
static const struct layer others[] = { /* with launches of their own */
    { "router of bf16", Q(BF16), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, 0 },
    { "gate and up of f16", Q(F32), Q(F16), Q(Q8_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, 0 },
    { "down of another type", Q(F32), Q(Q8_0), Q(Q5_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, 0 },
    { "down with a bias", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, DOWN_BIAS },
    { "gate and up behind the router", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, DEPENDS },
    { "a choice that is read twice", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 256, 64, 64, 9, 2, READ_TWICE },
};

static void check_bits(const struct layer *c)
{
    static const uint32_t rows = 4;
    static const struct { const char *tier; uint32_t first, step; } hows[] = {
        { "lockstep", 1, 1 }, { "lockstep:sm90", 4, 4 }, { "lockstep:sm90", 3, 1 }, { "lockstep:sm90", 1, 1 },
    };
    struct ops_result own = { 0 }, other = { 0 };
    struct err e = { 0 };
    char why[160];
    struct ops *o = make(c, rows);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    struct ops_how how = { .tier = "lockstep", .threads = 1, .first = 4, .step = 4 };
    ck_assert_msg(ops_run(o, &how, &own, &e) == 0, "%s: %s", c->name, e.msg);
    for (uint32_t t = 0; t < ARRAY_LEN(hows); t++) {
        how.tier = hows[t].tier, how.first = hows[t].first, how.step = hows[t].step;
        ck_assert_msg(ops_run(o, &how, &other, &e) == 0, "%s: %s", c->name, e.msg);
        ck_assert_msg(op_is_same(&own, &other, why, sizeof why), "%s, %s, %u rows: %s", c->name, how.tier, how.first, why);
        ops_result_free(&other);
    }
    ops_result_free(&own);
    ops_free(o);
}

START_TEST(rows_have_the_bits_of_a_launch_a_command)
{
    for (uint32_t i = 0; i < ARRAY_LEN(layers); i++)
        check_bits(&layers[i]);
    for (uint32_t i = 0; i < ARRAY_LEN(others); i++)
        check_bits(&others[i]);
    for (uint32_t k = 0; k < KERNEL_COUNT; k++)
        ck_assert_msg(dispatch_used[k] || (!strstr(kernel_infos[k].name, "router_shared_") && !strstr(kernel_infos[k].name, "down_shared_")),
                      "%s was not launched", kernel_infos[k].name);
}
END_TEST

struct plan {
    uint32_t launches, chosen, early; /* chosen: launches that make the choice themselves; early: that read before they wait */
    bool up, down;             /* the shared expert's products by others' launches */
};

static struct plan plan_of(const struct layer *c, const struct dispatch_target *t, uint32_t rows)
{
    struct ops *o = make(c, 4);
    struct dispatch_plan *p = NULL;
    struct plan is = { 0 };
    struct err e = { 0 };
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    ck_assert_msg(dispatch_build(ops_stream(o), t, rows, 0, &p, &e) == 0, "%s: %s", c->name, e.msg);
    check_waits(c->name, ops_stream(o), p);
    check_late(c->name, ops_stream(o), p);
    is.early = check_early(c->name, ops_stream(o), p);
    is.launches = p->n;
    for (uint32_t i = 0; i < p->n; i++) {
        const char *name = kernel_infos[p->d[i].kernel].name;
        const void *args = p->args + p->d[i].args_off;
        is.up |= strstr(name, "router_shared_") != NULL;
        is.down |= strstr(name, "down_shared_") != NULL;
        if (strstr(name, "k_moe_up_"))
            is.chosen += ((const kl_moe_up *)args)->logits != 0;
        if (strstr(name, "k_moe_down_"))
            is.chosen += ((const kl_moe_down *)args)->logits != 0;
        if (strstr(name, "k_router_"))
            ck_assert_msg((((const kl_router *)args)->counters == 0) ==
                              (t->ahead && !(c->form & READ_TWICE) && c->n_expert <= 128 && (rows == 1 || !is.up)),
                          "%s: %s", c->name, name);
    }
    dispatch_free(p);
    ops_free(o);
    return is;
}

/* On Hopper, and there not of more bytes than a row should read for itself; nothing of it where launches do not begin early. */
START_TEST(launches_are_shared_where_there_is_a_kernel)
{
    struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .mma8 = true };
    for (uint32_t i = 0; i < ARRAY_LEN(layers) + ARRAY_LEN(others); i++) {
        const struct layer *c = i < ARRAY_LEN(layers) ? &layers[i] : &others[i - ARRAY_LEN(layers)];
        bool alone = c->form & ALONE, listed = i < ARRAY_LEN(layers);
        uint32_t all = (alone ? 3 : 5) + (c->form & READ_TWICE ? 1 : 0);
        t.ahead = t.wgmma = true;
        for (uint32_t rows = 1; rows <= 4; rows *= 4) {
            struct plan p = plan_of(c, &t, rows);
            bool choose = !(c->form & READ_TWICE) && c->n_expert <= 128 && (rows == 1 || !p.up);
            ck_assert_msg(p.launches == all - p.up - p.down, "%s: %u launches", c->name, p.launches);
            ck_assert_msg(p.chosen == (choose ? 2 : 0), "%s: %u launches choose", c->name, p.chosen);
            ck_assert_msg(p.early == (c->form & READ_TWICE ? 2 : 1), "%s: %u launches are early", c->name, p.early);
            ck_assert_msg(!listed || (p.up == !alone && p.down == !alone), "%s: up %d, down %d", c->name, p.up, p.down);
            ck_assert_msg(listed || !(p.up && p.down) || c->form & READ_TWICE, "%s has launches of its own", c->name);
        }
        t.ahead = t.wgmma = false;
        for (uint32_t rows = 1; rows <= 4; rows *= 4) {
            struct plan p = plan_of(c, &t, rows);
            ck_assert_msg(!p.up && !p.down && !p.chosen && p.launches == all, "%s: %u launches", c->name, p.launches);
        }
    }
    /* Gate and up of 7 MB: with two rows, not with four. */
    const struct layer wide = { "of much", Q(F32), Q(Q8_0), Q(Q8_0), Q(Q8_0), Q(Q8_0), 2048, 64, 1600, 9, 2, 0 };
    t.ahead = t.wgmma = true;
    ck_assert(plan_of(&wide, &t, 2).up && plan_of(&wide, &t, 2).down);
    ck_assert(!plan_of(&wide, &t, 4).up && plan_of(&wide, &t, 4).down);
}
END_TEST

int main(void)
{
    return RUN_TESTS("shared_expert", rows_have_the_bits_of_a_launch_a_command, launches_are_shared_where_there_is_a_kernel);
}
