/* The persistent plan, as far as it needs no GPU: the list of a walk, which many work-groups follow at once in any order
 * without a deadlock and without reading too early; and the walk's kernel, put together as text. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/walk_ptx.h"
#include "rt/blob.h"
#include "rt/walk.h"
#include "tests/lib/run.h"
#include "tests/lib/skip.h"

struct rng {
    uint64_t s;
};

static uint32_t rng_below(struct rng *r, uint32_t n)
{
    r->s = r->s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->s >> 33) % n;
}

enum { MAX_ITEMS = 40, MAX_GROUPS = 9 };

static bool has_any(void *user, uint32_t kernel) { return true; }
static bool has_add(void *user, uint32_t kernel) { return kernel == K_add; }
static uint32_t same_number(void *user, uint32_t kernel) { return kernel; }

static void random_plan(struct rng *r, struct dispatch_plan *p, struct dispatch *d, uint8_t *args, uint32_t n)
{
    *p = (struct dispatch_plan){ .kernels = kernel_infos, .d = d, .n = n, .args = args };
    for (uint32_t i = 0; i < n; i++)
        d[i] = (struct dispatch){ .kernel = rng_below(r, 2) ? K_add : K_norm, .wait = rng_below(r, 3) > 0,
                                  .grid = { 1 + rng_below(r, 7), 1 + rng_below(r, 3), 1 } };
}

/* What the device does, one work-group at a time, chosen at random: each stands before an item, and goes on when the counter
 * allows it. complete[i]: work-groups that are through with item i. */
static void follow(struct rng *r, const struct dispatch_plan *p, const uint8_t *list, uint32_t groups)
{
    uint32_t at[MAX_GROUPS] = { 0 }, complete[MAX_ITEMS] = { 0 }, taking[MAX_ITEMS], counter = 0, left = groups;
    struct walk_item it[MAX_ITEMS];
    memcpy(it, list, p->n * sizeof *it);
    for (uint32_t i = 0; i < p->n; i++)
        taking[i] = it[i].groups < groups ? it[i].groups : groups;
    for (uint32_t idle = 0; left; idle++) {
        uint32_t g = rng_below(r, groups), i = at[g];
        ck_assert_msg(idle < 100000, "no work-group can go on");
        while (i < p->n && g >= it[i].groups)
            at[g] = ++i;
        if (i == p->n) {
            left -= at[g] == p->n;
            at[g] = p->n + 1;
            continue;
        }
        if (i > p->n || counter < it[i].need)
            continue;
        uint32_t barrier = i;
        while (barrier && !p->d[barrier].wait)
            barrier--;
        for (uint32_t k = 0; k < barrier; k++)
            ck_assert_msg(complete[k] == taking[k], "item %u begins before item %u is complete", i, k);
        complete[i]++;
        counter++;
        at[g]++;
        idle = 0;
    }
}

START_TEST(work_groups_in_any_order_are_never_too_early_and_never_stand_still)
{
    static uint8_t args[256], list[WALK_CONST];
    struct rng r = { 41 };
    struct dispatch d[MAX_ITEMS];
    struct dispatch_plan p;
    for (int turn = 0; turn < 300; turn++) {
        struct err e = { 0 };
        random_plan(&r, &p, d, args, 1 + rng_below(&r, MAX_ITEMS));
        struct walk_list w = { .form = &walk_form_const, .d = &p, .n = p.n, .groups = 1 + rng_below(&r, MAX_GROUPS) };
        ck_assert_uint_eq(walk_length(&walk_form_const, &p, 0, has_any, NULL), p.n);
        walk_list_write(&w, same_number, NULL, list);
        ck_assert_msg(walk_list_verify(&w, list, &e) == 0, "%s", e.msg);
        follow(&r, &p, list, w.groups);
    }
}
END_TEST

START_TEST(a_list_holds_the_arguments_and_what_is_broken_is_found)
{
    static uint8_t list[WALK_CONST];
    uint8_t args[2 * sizeof(kl_add)];
    struct dispatch d[2] = { { .kernel = K_add, .grid = { 3, 1, 1 } },
                             { .kernel = K_add, .grid = { 2, 2, 1 }, .wait = true, .args_off = sizeof(kl_add) } };
    struct dispatch_plan p = { .kernels = kernel_infos, .d = d, .n = 2, .args = args };
    struct walk_list w = { .form = &walk_form_const, .d = &p, .n = 2, .groups = 4 };
    struct walk_item it[2];
    struct err e = { 0 };
    for (size_t i = 0; i < sizeof args; i++)
        args[i] = (uint8_t)i;
    walk_list_write(&w, same_number, NULL, list);
    memcpy(it, list, sizeof it);
    ck_assert_uint_eq(it[0].need, 0);
    ck_assert_uint_eq(it[1].need, 3);
    ck_assert_uint_eq(it[1].groups, 4);
    ck_assert_mem_eq(list + it[1].args, args + sizeof(kl_add), sizeof(kl_add));
    uint32_t needs[] = { 1, 2, 4, 1000 };
    for (int i = 0; i < 4; i++) {
        it[1].need = needs[i];
        memcpy(list, it, sizeof it);
        ck_assert_int_eq(walk_list_verify(&w, list, &e), -EINVAL);
    }
    it[1].need = 3;
    it[1].groups = 5;
    memcpy(list, it, sizeof it);
    ck_assert_int_eq(walk_list_verify(&w, list, &e), -EINVAL);
    it[1].groups = 4;
    it[1].args = 16;
    memcpy(list, it, sizeof it);
    ck_assert_int_eq(walk_list_verify(&w, list, &e), -EINVAL);
}
END_TEST

START_TEST(a_run_ends_where_a_kernel_has_no_body_or_the_memory_is_full)
{
    static struct dispatch d[2000];
    struct dispatch_plan p = { .kernels = kernel_infos, .d = d, .n = 2000 };
    for (uint32_t i = 0; i < p.n; i++)
        d[i].kernel = i == 7 ? K_norm : K_add;
    ck_assert_uint_eq(walk_length(&walk_form_const, &p, 0, has_add, NULL), 7);
    ck_assert_uint_eq(walk_length(&walk_form_const, &p, 7, has_add, NULL), 0);
    uint32_t n = walk_length(&walk_form_const, &p, 8, has_add, NULL), each = sizeof(struct walk_item) + (sizeof(kl_add) + 15) / 16 * 16;
    ck_assert_uint_eq(n, WALK_CONST / each);
}
END_TEST

static const char walk_text[] = ".version 8.5\n.visible .entry k_walk(\n)\n{\n\t// WALK_CALL %r7\n\tret;\n}\n";
static const char table[] = ".global .align 4 .b8 grid[4] = {1, 2, 3, 4};\n";

static char *body_text(const char *line)
{
    char *t = malloc(600);
    snprintf(t, 600, "%s.visible .func k_a_walk(\n\t.param .b64 k_a_walk_param_0\n)\n{\n\t.reg .b32 \t%%r<3>;\n"
             "\tld.param.u64 \t%%rd1, [k_a_walk_param_0];\n\tmov.u32 \t%%r1, %%tid.x;\n$L__BB0_1:\n\t@%%p1 bra \t$L__BB0_1;\n"
             "%s\tret;\n}\n", table, line);
    return t;
}

START_TEST(bodies_take_the_place_of_the_call)
{
    struct err e = { 0 };
    char *text = body_text("");
    struct walk_body b[2] = { { "k_a_walk", text }, { "k_a_walk", text } };
    char *out = walk_ptx(walk_text, b, 2, &e);
    ck_assert_msg(out != NULL, "%s", e.msg);
    ck_assert_ptr_nonnull(strstr(out, "mov.u32 %walk_kernel, %r7;"));
    ck_assert_ptr_nonnull(strstr(out, "$W0__BB0_1:"));
    ck_assert_ptr_nonnull(strstr(out, "bra \t$W1__BB0_1;"));
    ck_assert_ptr_nonnull(strstr(out, "mov.b32 %r2, 0;"));
    ck_assert_ptr_nonnull(strstr(out, "%r1, %walk_item;"));
    ck_assert_ptr_null(strstr(out, "ld.param"));
    ck_assert_ptr_null(strstr(out, "$L__"));
    char *once = strstr(out, table);
    ck_assert_ptr_nonnull(once);
    ck_assert_ptr_null(strstr(once + 1, table));
    char *ret = strstr(out, "ret;"); /* the kernel's own */
    ck_assert_ptr_nonnull(ret);
    ck_assert_ptr_null(strstr(ret + 1, "ret;"));
    free(out);
    free(text);
}
END_TEST

START_TEST(a_form_that_is_not_known_is_refused)
{
    const char *lines[] = { "\tcall.uni f, (p);\n", "\tld.param.u32 %r1, [k_a_walk_param_1];\n",
                            "\tld.param.u64 %rd2, [k_a_walk_param_0+8];\n" };
    for (int i = 0; i < 3; i++) {
        struct err e = { 0 };
        char *text = body_text(lines[i]);
        struct walk_body b = { "k_a_walk", text };
        ck_assert_ptr_null(walk_ptx(walk_text, &b, 1, &e));
        ck_assert_ptr_nonnull(strstr(e.msg, "--plan=replay"));
        free(text);
    }
    struct err e = { 0 };
    struct walk_body none = { "k_b_walk", table };
    ck_assert_ptr_null(walk_ptx(walk_text, &none, 1, &e));
    ck_assert_ptr_null(walk_ptx(".version 8.5\n", &none, 0, &e));
}
END_TEST

/* Every kernel that this build has a body of, together: a new form in clang's output would show here. */
START_TEST(all_bodies_of_this_build_go_into_one_kernel)
{
    static struct walk_body b[KERNEL_COUNT];
    static char name[KERNEL_COUNT][64];
    const struct kernel_blob *walk = kernel_blob_find("walk", "walk_sm_90a");
    uint32_t n = 0;
    uint64_t bytes;
    if (!walk) {
        cases_skipped(1, "this build has no kernels for NVIDIA");
        return;
    }
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        const struct kernel_blob *of = kernel_blob_find(kernel_infos[k].module, "walk_sm_90a");
        if (!of || !walk_takes(k))
            continue;
        snprintf(name[n], sizeof name[n], "%s_walk", kernel_infos[k].name);
        b[n] = (struct walk_body){ name[n], kernel_blob_bytes(of, &bytes) };
        n++;
    }
    ck_assert_uint_gt(n, 100);
    for (uint32_t i = 0; i < n; i++) {
        struct err e = { 0 };
        char *out = walk_ptx(kernel_blob_bytes(walk, &bytes), &b[i], 1, &e);
        ck_assert_msg(out != NULL, "%s: %s", b[i].name, e.msg);
        free(out);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("walk", work_groups_in_any_order_are_never_too_early_and_never_stand_still,
                     a_list_holds_the_arguments_and_what_is_broken_is_found,
                     a_run_ends_where_a_kernel_has_no_body_or_the_memory_is_full, bodies_take_the_place_of_the_call,
                     a_form_that_is_not_known_is_refused, all_bodies_of_this_build_go_into_one_kernel);
}
