/* The router of the class "rows" (kernels/router_rows.c): its choice is k_router_topk's to the bit, whatever the logits are, its
 * logits and gates have the order that doc/arithmetic.md says, and which streams have it is a matter of their row capacity. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/proof/op_cases.h"
#include "kernels/fp.h"
#include "kernels/klaunch.h"
#include "kernels/mathf.h"
#include "kernels/router_rows_shared.h"
#include "rt/dispatch.h"
#include "rt/lockstep/run.h"
#include "tests/lib/run.h"

void k_router_rows(const void *args);
void k_router_topk(const void *args);

enum { CAP = 19 };

struct shape {
    uint32_t n_in, n_expert, k, rows, gating;
    bool norm;
};

static gpu_va va(const void *p) { return (gpu_va)(uintptr_t)p; }

static float *floats(uint32_t n)
{
    float *p = malloc(n * sizeof *p);
    ck_assert_ptr_nonnull(p);
    for (uint32_t i = 0; i < n; i++)
        p[i] = (float)(rand() % 2001 - 1000) / 512.0f;
    return p;
}

static void run(void (*entry)(const void *), const void *args, uint32_t gx, uint32_t gy, uint32_t threads, uint32_t shared)
{
    struct err e = { 0 };
    ck_assert_msg(lockstep_launch(entry, args, (uint32_t[3]){ gx, gy, 1 }, threads, shared, &e) == 0, "%s", e.msg);
}

/* The order of sums: work-item t has the quads t, t + 256, .. of w x norm, lanes are added 16, 8, 4, 2, 1 apart, warps in order. */
static float sum_of(const float *w, const float *x, const float *norm, uint32_t n_in)
{
    float part[RR_THREADS] = { 0 }, sum = 0.0f;
    for (uint32_t i = 0; i < n_in; i++) {
        float *p = &part[i / 4 % RR_THREADS];
        *p = fmaf(w ? w[i] : x[i], norm ? x[i] * norm[i] : x[i], *p);
    }
    for (uint32_t warp = 0; warp < RR_WARPS; warp++) {
        for (uint32_t m = 16; m; m /= 2)
            for (uint32_t l = 0; l < m; l++)
                part[warp * 32 + l] += part[warp * 32 + l + m];
        sum = warp ? sum + part[warp * 32] : part[0];
    }
    return sum;
}

static float gate_of(const float *w, const float *x, const float *norm, uint32_t n_in, float scale)
{
    float part[32] = { 0 };
    for (uint32_t i = 0; i < n_in; i++)
        part[i / 4 % 32] = fmaf(w[i], norm ? x[i] * norm[i] : x[i], part[i / 4 % 32]);
    for (uint32_t m = 16; m; m /= 2)
        for (uint32_t l = 0; l < m; l++)
            part[l] += part[l + m];
    return k_sigmoid(part[0] * scale);
}

static void same(const float *got, const float *want, uint32_t n, const struct shape *c, const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(memcmp(&got[i], &want[i], 4) == 0 || (got[i] != got[i] && want[i] != want[i]), "%s %u is %a, not %a: %u experts, %u rows",
                      what, i, (double)got[i], (double)want[i], c->n_expert, c->rows);
}

/* w: of the experts, or NULL for any. */
static void check(const struct shape *c, const float *w)
{
    ka_step step = { .n_rows = c->rows };
    uint32_t counters[(CAP + RR_ROWS - 1) / RR_ROWS] = { 0 }, *ids = calloc(2 * CAP * c->k, 4);
    float *x = floats(CAP * c->n_in), *own = floats(c->n_expert * c->n_in), *norm = floats(c->n_in), *shared = floats(c->n_in);
    float *scale = floats(c->n_expert), *logits = calloc(CAP * c->n_expert, 4), *weights = calloc(2 * CAP * c->k, 4), share[CAP] = { 0 };
    ck_assert(ids && logits && weights);
    if (w) {
        memcpy(own, w, 4 * c->n_expert * c->n_in);
        for (uint32_t i = 0; i < CAP; i++)
            x[i * c->n_in] = 1.0f;
    }
    kl_router_rows r = { .step = va(&step), .ids = va(ids), .weights = va(weights), .share = va(share), .logits = va(logits), .x = va(x),
                         .norm = c->norm ? va(norm) : 0, .w = va(own), .shared_w = va(shared), .expert_scale = va(scale), .type = QT_F32,
                         .n_in = c->n_in, .n_expert = c->n_expert, .k = c->k, .gating = c->gating, .scale = 1.5f, .eps = 1e-6f,
                         .counters = va(counters), .cap = CAP };
    run(k_router_rows, &r, (c->n_expert + RR_EXPERTS - 1) / RR_EXPERTS, (CAP + RR_ROWS - 1) / RR_ROWS, RR_THREADS, RR_SHARED_BYTES);
    for (uint32_t i = 0; i < sizeof counters / sizeof *counters; i++)
        ck_assert_uint_eq(counters[i], 0);
    for (uint32_t i = 0; i < c->rows; i++) {
        const float *row = x + i * c->n_in;
        float by = c->norm ? 1.0f / sqrtf(sum_of(NULL, row, NULL, c->n_in) / (float)c->n_in + r.eps) : 1.0f;
        float gate = gate_of(shared, row, c->norm ? norm : NULL, c->n_in, by);
        same(&share[i], &gate, 1, c, "gate");
        for (uint32_t e = 0; e < c->n_expert; e++) {
            float want = sum_of(own + e * c->n_in, row, c->norm ? norm : NULL, c->n_in) * by;
            same(&logits[i * c->n_expert + e], &want, 1, c, "logit");
        }
    }
    for (uint32_t i = c->rows * c->n_expert; i < CAP * c->n_expert; i++)
        ck_assert(f32_bits(logits[i]) == 0);
    kl_topk t = { 0 };
    memcpy(&t, &r, sizeof(ka_router));
    t.ids = va(ids + CAP * c->k), t.weights = va(weights + CAP * c->k);
    run(k_router_topk, &t, (c->rows + 3) / 4, 1, 128, 16 * c->n_expert);
    ck_assert_int_eq(memcmp(ids, ids + CAP * c->k, 4 * CAP * c->k), 0);
    same(weights, weights + CAP * c->k, CAP * c->k, c, "weight");
    free(x), free(own), free(norm), free(shared), free(scale), free(logits), free(weights), free(ids);
}

START_TEST(sums_have_the_order_that_is_written)
{
    static const struct shape shapes[] = {
        { 4, 1, 1, 1, KA_SOFTMAX_TOPK, true },
        { 1412, 40, 6, 17, KA_SOFTMAX_TOPK, true },
        { 3076, 17, 3, 9, KA_TOPK_SOFTMAX, true },
        { 132, 300, 8, 3, KA_SOFTMAX_TOPK, false },
        { 64, 256, 32, CAP, KA_TOPK_SOFTMAX, true },
        { 64, 512, 11, 8, KA_SOFTMAX_TOPK, true },
    };
    for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++)
        check(&shapes[i], NULL);
}
END_TEST

/* Equal ones, zeros of both signs, infinities and what is no number. */
START_TEST(any_logits_are_chosen_from)
{
    static const float of[] = { 0.0f, -0.0f, 1.0f, -1.0f, 1.0f, 2.5f, -HUGE_VALF, NAN, -100.0f, 2.5f };
    for (uint32_t n = 5; n <= 320; n *= 4)
        for (uint32_t kind = 0; kind < 5; kind++) {
            float *w = calloc(n * 4, 4);
            ck_assert_ptr_nonnull(w);
            for (uint32_t e = 0; e < n; e++)
                w[4 * e] = kind == 0   ? of[(uint32_t)rand() % ARRAY_LEN(of)]
                           : kind == 1 ? NAN
                           : kind == 2 ? -HUGE_VALF
                           : kind == 3 ? (float)(rand() % 3)
                                       : (e == n / 2 ? HUGE_VALF : -NAN);
            check(&(struct shape){ 4, n, n < 32 ? n : 32, 2, kind % 2 ? KA_TOPK_SOFTMAX : KA_SOFTMAX_TOPK, false }, w);
            free(w);
        }
}
END_TEST

static bool has_it(const struct op_case *c, bool wgmma)
{
    const struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = wgmma, .mma8 = true,
                                       .ahead = true };
    struct ops *o = c->make(c);
    struct err e = { 0 };
    uint32_t has = 0, passes = 0;
    ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
    for (uint32_t rows = c->rows; rows; rows /= 4, passes++) {
        struct dispatch_plan *p = NULL;
        ck_assert_msg(dispatch_build(ops_stream(o), &t, rows, 0, &p, &e) == 0, "%s", e.msg);
        for (uint32_t i = 0; i < p->n; i++)
            has += p->d[i].kernel == K_router_rows;
        dispatch_free(p);
    }
    ck_assert(has == 0 || has == passes);
    ops_free(o);
    return has;
}

START_TEST(the_capacity_chooses)
{
    struct op_case c = { .name = "router", .make = make_router, .type = QT_F32, .rows = 64, .n_in = 64, .heads = 64, .arg = 32 };
    for (uint32_t rows = 8; rows <= 64; rows *= 2) {
        c.rows = rows;
        ck_assert(has_it(&c, true) == (rows > KL_DECODE_ROWS));
        ck_assert(!has_it(&c, false));
    }
    struct op_case other[] = { c, c, c, c, c };
    other[0].rows = 65;
    other[1].type = QT_BF16;
    other[2].n_in = 66;
    other[3].heads = RR_MAX_EXPERTS + 1;
    other[4].arg = RR_MAX_K + 1;
    for (uint32_t i = 0; i < ARRAY_LEN(other); i++)
        ck_assert_msg(!has_it(&other[i], true), "case %u", i);
}
END_TEST

int main(void)
{
    return RUN_TESTS("router_rows", sums_have_the_order_that_is_written, any_logits_are_chosen_from, the_capacity_chooses);
}
