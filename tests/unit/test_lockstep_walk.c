/* The walk of a persistent plan on the host: work-groups side by side in any order give what launches one after the other give;
 * a list that lets them begin too early, one that lets nobody go on, and a body that does not wait are seen. */
#include <stdlib.h>
#include <string.h>

#include "kernels/kdev.h"
#include "rt/lockstep/walk.h"
#include "tests/lib/run.h"

enum { GROUPS = 3, MANY = 7, CELLS = MANY * WALK_THREADS };

typedef struct {
    gpu_va from, to;
    uint32_t n, pad;
} toy_args;

static uint32_t cell[4][CELLS];

/* Each cell is 1 more than its mirror image in what the item before wrote. */
KD_KERNEL(toy_next, toy_args)
{
    kd_wait_inputs();
    uint32_t i = kd_group_x() * kd_group_size() + kd_tid();
    kd_barrier();
    KD_PTR(uint32_t, a.to)[i] = KD_PTR(const uint32_t, a.from)[a.n - 1 - i] + 1;
}

KD_KERNEL(toy_early, toy_args)
{
    uint32_t i = kd_group_x() * kd_group_size() + kd_tid(), v = KD_PTR(const uint32_t, a.from)[a.n - 1 - i];
    kd_wait_inputs();
    KD_PTR(uint32_t, a.to)[i] = v + 1;
}

KD_KERNEL(toy_never, toy_args)
{
    uint32_t i = kd_group_x() * kd_group_size() + kd_tid();
    KD_PTR(uint32_t, a.to)[i] = KD_PTR(const uint32_t, a.from)[a.n - 1 - i] + 1;
}

static lockstep_entry entries[] = { toy_next, toy_early, toy_never };

/* A chain of three items through four rows of cells; kernel: of the last one. Returns how many cells came out right. */
static int walk(uint32_t kernel, uint64_t seed, int32_t spoil, uint32_t *right, struct err *e)
{
    uint8_t *list = calloc(1, WALK_CONST);
    struct lockstep_walker *w;
    uint32_t sum = 0;
    ck_assert_msg(lockstep_walker_create(GROUPS, &w, e) == 0, "%s", e->msg);
    memset(cell, 0, sizeof cell);
    for (uint32_t i = 0; i < 3; i++) {
        toy_args a = { (gpu_va)(uintptr_t)cell[i], (gpu_va)(uintptr_t)cell[i + 1], CELLS, 0 };
        struct walk_item it = { .kernel = i == 2 ? kernel : 0, .args = 1024 + 64 * i, .need = (uint32_t)((int32_t)sum + (i == 2 ? spoil : 0)),
                                .groups = MANY, .grid = { MANY, 1, 1 } };
        sum += GROUPS;
        memcpy(list + i * sizeof it, &it, sizeof it);
        memcpy(list + it.args, &a, sizeof a);
    }
    int rc = lockstep_walk(w, list, 3, 0, entries, seed, e);
    *right = 0;
    for (uint32_t i = 0; i < CELLS; i++)
        *right += cell[3][i] == 3;
    lockstep_walker_destroy(w);
    free(list);
    return rc;
}

START_TEST(any_order_gives_what_launches_give)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct err e = { 0 };
        uint32_t right;
        ck_assert_msg(walk(0, seed, 0, &right, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(right, CELLS);
    }
}
END_TEST

START_TEST(who_begins_too_early_reads_what_is_there)
{
    uint32_t right, wrong = 0;
    struct err e = { 0 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        ck_assert_int_eq(walk(0, seed, -1, &right, &e), 0); /* the list lets them */
        wrong += right < CELLS;
        ck_assert_int_eq(walk(1, seed, 0, &right, &e), 0); /* the body does it */
        wrong += right < CELLS;
    }
    ck_assert_uint_ge(wrong, 10);
}
END_TEST

START_TEST(who_does_not_wait_and_who_waits_for_ever_is_named)
{
    uint32_t right;
    struct err e = { 0 };
    ck_assert_int_eq(walk(2, 1, 0, &right, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "item 2"));
    ck_assert_int_eq(walk(0, 1, 1, &right, &e), -EDEADLK);
    ck_assert_ptr_nonnull(strstr(e.msg, "the counter is at 6"));
    ck_assert_int_eq(walk(0, 1, 0, &right, &e), 0);
}
END_TEST

int main(void)
{
    return RUN_TESTS("lockstep_walk", any_order_gives_what_launches_give, who_begins_too_early_reads_what_is_there,
                     who_does_not_wait_and_who_waits_for_ever_is_named);
}
