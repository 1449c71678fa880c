/* The lock-step runner on toy kernels: rendezvous meet, mistakes are named, and the next launch is none the worse.
 * Then the real kernels: none depends on the order in which work-items and work-groups run. */
#include <stdlib.h>
#include <string.h>

#include "kernels/kdev.h"
#include "rt/lockstep/run.h"
#include "engine/proof/op_cases.h"
#include "tests/lib/run.h"

enum { THREADS = 256, MAX_ITEMS = 1 << 14 };

typedef struct {
    gpu_va out, counter;
    uint32_t n, mode;
} toy_args;

static uint32_t out[MAX_ITEMS], counter;

static int launch(void (*entry)(const void *), toy_args a, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t threads,
                  uint32_t shared, struct err *e)
{
    memset(out, 0, sizeof out);
    counter = 0;
    a.out = (gpu_va)(uintptr_t)out;
    a.counter = (gpu_va)(uintptr_t)&counter;
    return lockstep_launch(entry, &a, (uint32_t[3]){ gx, gy, gz }, threads, shared, e);
}

static void runs(void (*entry)(const void *), toy_args a, uint32_t groups, uint32_t threads, uint32_t shared)
{
    struct err e = { 0 };
    ck_assert_msg(launch(entry, a, groups, 1, 1, threads, shared, &e) == 0, "%s", e.msg);
}

KD_KERNEL(toy_ids, toy_args)
{
    KD_GLOBAL uint32_t *y = KD_PTR(uint32_t, a.out);
    uint32_t g = kd_group_x() + kd_groups_x() * (kd_group_y() + kd_groups_y() * kd_group_z());
    y[g * kd_group_size() + kd_tid()] += 1 + kd_warp() * 64 + kd_lane();
}

START_TEST(every_item_of_every_group_runs_once)
{
    struct err e = { 0 };
    for (int reverse = 0; reverse < 2; reverse++) {
        lockstep_reverse(reverse);
        ck_assert_msg(launch(toy_ids, (toy_args){ 0 }, 3, 4, 5, 64, 0, &e) == 0, "%s", e.msg);
        for (uint32_t i = 0; i < 3 * 4 * 5 * 64; i++)
            ck_assert_uint_eq(out[i], 1 + i % 64 / 32 * 64 + i % 32);
        ck_assert_uint_eq(out[3 * 4 * 5 * 64], 0);
    }
}
END_TEST

/* Turns the order of items round n times by shared memory; every item keeps much in registers. */
KD_KERNEL(toy_turn, toy_args)
{
    KD_SHARED uint32_t *s = KD_SHARED_AT(uint32_t, 0);
    uint32_t v = kd_tid(), size = kd_group_size();
    double keep[6];
    for (int i = 0; i < 6; i++)
        keep[i] = v * 1.25 + i;
    for (uint32_t i = 0; i < a.n; i++) {
        s[kd_tid()] = v;
        kd_barrier();
        v = s[size - 1 - kd_tid()];
        kd_barrier();
        for (int k = 0; k < 6; k++)
            keep[k] += v;
    }
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += keep[i];
    KD_PTR(uint32_t, a.out)[kd_group_x() * size + kd_tid()] = v + (uint32_t)(sum * 2) * 4096;
}

START_TEST(barriers_meet_across_warps)
{
    for (int reverse = 0; reverse < 2; reverse++)
        for (uint32_t threads = 32; threads <= 1024; threads *= 2) {
            lockstep_reverse(reverse);
            runs(toy_turn, (toy_args){ .n = 3 }, 2, threads, threads * 4);
            for (uint32_t i = 0; i < 2 * threads; i++) {
                uint32_t t = i % threads, other = threads - 1 - t; /* 6 t 1.25 + 15, and other, t, other six times */
                uint32_t twice = 15 * t + 30 + 12 * (other + t + other);
                ck_assert_uint_eq(out[i], other + twice * 4096);
            }
        }
}
END_TEST

KD_KERNEL(toy_shuffles, toy_args)
{
    uint32_t v = kd_tid() * 3;
    for (uint32_t i = 0; i < a.n + kd_warp(); i++) { /* warps go their own ways */
        v = kd_shfl_u32(v, (kd_lane() + 1) % KD_WARP);
        if (i % 3 == 0)
            kd_warp_sync();
        v = kd_shfl_xor_u32(v, 1);
    }
    KD_PTR(uint32_t, a.out)[kd_tid()] = v;
}

START_TEST(shuffles_exchange_within_a_warp)
{
    runs(toy_shuffles, (toy_args){ .n = 5 }, 1, THREADS, 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        uint32_t lane = t % 32;
        for (uint32_t i = 0; i < 5 + t / 32; i++)
            lane = ((lane ^ 1) + 1) % 32; /* where it came from, step by step */
        ck_assert_uint_eq(out[t], (t / 32 * 32 + lane) * 3);
    }
}
END_TEST

KD_KERNEL(toy_sums, toy_args)
{
    KD_SHARED float *s = KD_SHARED_AT(float, 0);
    float v = (float)(kd_tid() + 1) * 0.5f;
    float sum = kd_group_sum(v, s), max = kd_group_max(v, s), warp = kd_warp_sum(v);
    uint32_t ok = sum == 0.25f * THREADS * (THREADS + 1) && max == 0.5f * THREADS;
    uint32_t w = kd_warp(); /* 0.5 times the sum of 32 w + 1 .. 32 w + 32 */
    KD_PTR(uint32_t, a.out)[kd_tid()] = ok && warp == 0.5f * (float)(32 * 32 * w + 528);
}

START_TEST(sums_and_maxima_of_a_group)
{
    runs(toy_sums, (toy_args){ 0 }, 1, THREADS, 32);
    for (uint32_t t = 0; t < THREADS; t++)
        ck_assert_msg(out[t] == 1, "item %u", t);
}
END_TEST

KD_KERNEL(toy_early, toy_args)
{
    if (kd_tid() >= a.n)
        return;
    KD_SHARED uint32_t *s = KD_SHARED_AT(uint32_t, 0);
    s[kd_tid()] = kd_tid();
    kd_barrier();
    KD_PTR(uint32_t, a.out)[kd_tid()] = s[a.n - 1 - kd_tid()] + 1;
}

START_TEST(items_that_returned_are_not_awaited_at_a_barrier)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        lockstep_reverse(reverse);
        runs(toy_early, (toy_args){ .n = 100 }, 1, THREADS, 400);
        for (uint32_t t = 0; t < THREADS; t++)
            ck_assert_uint_eq(out[t], t < 100 ? 100 - t : 0);
    }
}
END_TEST

/* The last work-group to arrive adds up what all have written. */
KD_KERNEL(toy_arrive, toy_args)
{
    KD_SHARED uint32_t *last = KD_SHARED_AT(uint32_t, 0);
    KD_GLOBAL uint32_t *y = KD_PTR(uint32_t, a.out);
    if (kd_tid() == 0)
        y[1 + kd_group_x()] = kd_group_x() + 1;
    kd_barrier();
    if (kd_tid() == 0)
        *last = kd_arrive(KD_PTR(uint32_t, a.counter), kd_groups_x());
    kd_barrier();
    if (*last == kd_groups_x() - 1 && kd_tid() == 0)
        for (uint32_t i = 0; i < kd_groups_x(); i++)
            y[0] += y[1 + i];
}

START_TEST(the_last_group_to_arrive_sees_all)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        lockstep_reverse(reverse);
        runs(toy_arrive, (toy_args){ 0 }, 20, 64, 4);
        ck_assert_uint_eq(out[0], 210);
        ck_assert_uint_eq(counter, 0);
    }
}
END_TEST

/* Without the barrier (mode 1) items read what others may not have written yet. */
KD_KERNEL(toy_race, toy_args)
{
    KD_SHARED uint32_t *s = KD_SHARED_AT(uint32_t, 0);
    s[kd_tid()] = kd_tid();
    if (a.mode == 0)
        kd_barrier();
    if (a.mode == 2)
        kd_warp_sync();
    uint32_t from = a.mode == 2 ? kd_tid() ^ 1 : (kd_tid() + 128) % THREADS;
    KD_PTR(uint32_t, a.out)[kd_tid()] = s[from];
}

START_TEST(a_missing_barrier_changes_results_in_reverse)
{
    static uint32_t there[THREADS];
    for (uint32_t mode = 0; mode < 3; mode++) {
        lockstep_reverse(false);
        runs(toy_race, (toy_args){ .mode = mode }, 1, THREADS, THREADS * 4);
        memcpy(there, out, sizeof there);
        lockstep_reverse(true);
        runs(toy_race, (toy_args){ .mode = mode }, 1, THREADS, THREADS * 4);
        ck_assert_msg((memcmp(there, out, sizeof there) == 0) == (mode != 1), "mode %u", mode);
    }
}
END_TEST

KD_KERNEL(toy_shared, toy_args)
{
    KD_SHARED uint8_t *s = KD_SHARED_AT(uint8_t, 0);
    bool fresh = (uintptr_t)s % 1024 == 0;
    for (uint32_t i = 0; i < a.n; i++)
        fresh = fresh && s[i] == 0xff;
    kd_barrier();
    for (uint32_t i = kd_tid(); i < a.n; i += kd_group_size())
        s[i] = 7;
    if (a.mode)
        s[a.n - 1 + a.mode] = 7;
    KD_PTR(uint32_t, a.out)[kd_group_x() * kd_group_size() + kd_tid()] = fresh;
}

START_TEST(shared_memory_is_rubbish_for_each_group)
{
    runs(toy_shared, (toy_args){ .n = 1003 }, 3, 64, 1003);
    for (uint32_t i = 0; i < 3 * 64; i++)
        ck_assert_msg(out[i] == 1, "item %u", i);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

START_TEST(writing_behind_shared_memory_is_found)
{
#ifndef WITH_ASAN /* which aborts by itself */
    struct err e = { 0 };
    ck_assert_int_eq(launch(toy_shared, (toy_args){ .n = 1003, .mode = 5 }, 2, 1, 1, 64, 1003, &e), -EFAULT);
    ck_assert_msg(strstr(e.msg, "1007") && strstr(e.msg, "1003"), "%s", e.msg);
    runs(toy_shared, (toy_args){ .n = 1003 }, 2, 64, 1003);
#endif
}
END_TEST

/* Ways to go wrong. */
KD_KERNEL(toy_stuck, toy_args)
{
    uint32_t v = 1, t = kd_tid();
    switch (a.mode) {
    case 0: /* half of warp 1 shuffles, one waits at the barrier, others have gone */
        if (t < 32 || t == 48)
            kd_barrier();
        else if (t < 48)
            v = kd_shfl_xor_u32(v, 1);
        break;
    case 1: /* a lane misses a shuffle */
        if (t != 5)
            v = kd_warp_sum((float)v) > 1;
        break;
    case 2: /* sync and shuffle do not meet */
        if (t % 2)
            kd_warp_sync();
        else
            v = kd_shfl_u32(v, 0);
        break;
    case 3: /* one warp is in a loop of its own */
        for (uint32_t i = 0; i < 1 + (t == 70); i++)
            kd_barrier();
        if (t / 32 == 2)
            kd_warp_sync();
        break;
    }
    KD_PTR(uint32_t, a.out)[t] = v;
}

START_TEST(lanes_that_part_are_named)
{
    static const struct {
        uint32_t threads;
        const char *want;
    } story[] = {
        { 64, "work-group (0, 0, 0): nobody can go on: warp 0: all lanes wait at a barrier; warp 1: lanes 0-15 wait "
              "at a shuffle, lane 16 waits at a barrier, lanes 17-31 have returned" },
        { 32, "warp 0: lanes 0-4, 6-31 wait at a shuffle, lane 5 has returned" },
        { 96, "warps 0-2: lanes 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 wait at a shuffle" },
        { 128, "warps 0-1: all lanes have returned; warp 2: lanes 0-5, 7-31 wait at a warp sync, lane 6 waits at a "
               "barrier; warp 3: all lanes have returned" },
    };
    for (uint32_t i = 0; i < sizeof story / sizeof story[0]; i++)
        for (int reverse = 0; reverse < 2; reverse++) {
            struct err e = { 0 };
            lockstep_reverse(reverse);
            ck_assert_int_eq(launch(toy_stuck, (toy_args){ .mode = i }, 1, 1, 1, story[i].threads, 0, &e), -EDEADLK);
            ck_assert_msg(strstr(e.msg, story[i].want), "mode %u: %s", i, e.msg);
            runs(toy_turn, (toy_args){ .n = 3 }, 2, 128, 512); /* and goes on */
            ck_assert_uint_eq(out[0] % 4096, 127);
        }
}
END_TEST

KD_KERNEL(toy_stack, toy_args)
{
    volatile uint8_t own[40000];
    for (uint32_t i = 0; i < sizeof own; i += 16)
        own[i] = (uint8_t)(kd_tid() + i);
    kd_barrier();
    uint32_t ok = (uintptr_t)__builtin_frame_address(0) % 16 == 0;
    for (uint32_t i = 0; i < sizeof own; i += 16)
        ok &= own[i] == (uint8_t)(kd_tid() + i);
    KD_PTR(uint32_t, a.out)[kd_tid()] = ok;
}

START_TEST(items_have_stacks_of_their_own)
{
    runs(toy_stack, (toy_args){ 0 }, 1, THREADS, 0);
    for (uint32_t t = 0; t < THREADS; t++)
        ck_assert_msg(out[t] == 1, "item %u", t);
}
END_TEST

START_TEST(launches_that_cannot_be_are_refused)
{
    struct err e = { 0 };
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 1, 1, 48, 0, &e), -EINVAL);
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 1, 1, 0, 0, &e), -EINVAL);
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 1, 1, 1056, 0, &e), -EINVAL);
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 0, 1, 32, 0, &e), -EINVAL);
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 1, 1, 32, LOCKSTEP_MAX_SHARED + 1, &e), -EINVAL);
    ck_assert_int_eq(launch(toy_ids, (toy_args){ 0 }, 1, 1, 1, 32, LOCKSTEP_MAX_SHARED, &e), 0);
}
END_TEST

/* With the address sanitizer in one order alone, every other case in reverse: it looks for what is touched, which order does not
 * change. */
START_TEST(kernels_give_the_same_bits_in_reverse)
{
#ifdef WITH_ASAN
    const bool compare = false;
#else
    const bool compare = true;
#endif
    const struct ops_how how = { .tier = "lockstep", .threads = 1 };
    uint32_t n_run = 0;
    for (const struct op_case *c = op_cases; c->name; c++) {
        struct ops *o = c->make(c);
        struct ops_result there = { 0 }, back = { 0 };
        struct err e = { 0 };
        ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
        lockstep_reverse(compare || n_run % 2);
        int rc = ops_run(o, &how, &back, &e);
        if (rc != -ENOTSUP) {
            ck_assert_msg(rc == 0, "%s: %s", c->name, e.msg);
            lockstep_reverse(false);
            if (compare) {
                ck_assert_msg(ops_run(o, &how, &there, &e) == 0, "%s: %s", c->name, e.msg);
                ck_assert_msg(there.n == back.n && memcmp(there.v, back.v, there.n * sizeof *there.v) == 0, "%s",
                              c->name);
            }
            n_run++;
        }
        ops_result_free(&there);
        ops_result_free(&back);
        ops_free(o);
    }
    ck_assert_uint_gt(n_run, 0);
}
END_TEST

int main(void)
{
    return RUN_TESTS("lockstep", every_item_of_every_group_runs_once, barriers_meet_across_warps,
                     shuffles_exchange_within_a_warp, sums_and_maxima_of_a_group,
                     items_that_returned_are_not_awaited_at_a_barrier, the_last_group_to_arrive_sees_all,
                     a_missing_barrier_changes_results_in_reverse, shared_memory_is_rubbish_for_each_group,
                     writing_behind_shared_memory_is_found, lanes_that_part_are_named, items_have_stacks_of_their_own,
                     launches_that_cannot_be_are_refused, kernels_give_the_same_bits_in_reverse);
}
