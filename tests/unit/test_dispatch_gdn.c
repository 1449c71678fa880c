/* DeltaNet's step on Hopper: rows that have more heads than there are cores take the kernel for two work-groups a core, and the class
 * "rows" always does; a single row has a core a head. */
#include "engine/proof/op_cases.h"
#include "rt/dispatch.h"
#include "tests/lib/run.h"

enum { HEADS = 32, CORES = 132 };

/* The kernel of a stream of so many rows at most in a step of so many. */
static uint32_t kernel_of(uint32_t cap, uint32_t rows, bool wgmma)
{
    const struct dispatch_target t = { .n_cores = CORES, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = wgmma, .mma8 = true };
    const struct op_case c = { .name = "gdn", .make = make_gdn, .rows = cap, .heads = HEADS / 2, .kv = HEADS, .dim = 128 };
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    struct ops *o = c.make(&c);
    uint32_t kernel = KERNEL_COUNT, found = 0;
    ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
    ck_assert_msg(dispatch_build(ops_stream(o), &t, rows, 0, &p, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->d[i].kernel == K_gdn_step_h128 || p->d[i].kernel == K_gdn_step_many)
            kernel = p->d[i].kernel, found++;
    ck_assert_uint_eq(found, 1);
    dispatch_free(p);
    ops_free(o);
    return kernel;
}

START_TEST(more_heads_than_cores_go_by_twos)
{
    for (uint32_t rows = 1; rows <= 8; rows++) {
        ck_assert_uint_eq(kernel_of(8, rows, true), rows * HEADS > CORES ? K_gdn_step_many : K_gdn_step_h128);
        ck_assert_uint_eq(kernel_of(8, rows, false), K_gdn_step_h128);
    }
    ck_assert_uint_eq(kernel_of(64, 1, true), K_gdn_step_many);
    ck_assert_uint_eq(kernel_of(64, 64, true), K_gdn_step_many);
}
END_TEST

int main(void)
{
    return RUN_TESTS("dispatch_gdn", more_heads_than_cores_go_by_twos);
}
