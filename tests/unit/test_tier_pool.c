/* The cpu tier's threads: every piece of work is done once, barriers order it, idle threads sleep. And the guard that
 * finds allocations. */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc_guard.h"
#include "oracle/pool.h"
#include "tests/lib/run.h"

enum { LOOPS = 3 * POOL_LOOPS + 5, ITEMS = 57 };

struct work {
    atomic_uint done[LOOPS][ITEMS];
    atomic_uint early; /* items of a phase that ran before the phase ahead of the barrier was complete */
    unsigned phase[ITEMS];
};

static void many_loops(struct pool_worker *w, void *arg)
{
    struct work *k = arg;
    uint32_t i;
    for (uint32_t l = 0; l < LOOPS; l++)
        for (struct pool_loop loop = pool_loop(w, l % 3 ? ITEMS : 1); pool_next(w, &loop, &i);)
            k->done[l][i]++;
}

static void phases(struct pool_worker *w, void *arg)
{
    struct work *k = arg;
    uint32_t i;
    for (unsigned p = 1; p <= 200; p++) {
        for (struct pool_loop l = pool_loop(w, ITEMS); pool_next(w, &l, &i);)
            k->phase[i] = p;
        pool_barrier(w);
        for (struct pool_loop l = pool_loop(w, ITEMS); pool_next(w, &l, &i);)
            if (k->phase[(i * 31 + 7) % ITEMS] != p)
                k->early++;
        pool_barrier(w);
    }
}

static void on_pools(pool_fn *fn, void (*check)(const struct work *k, uint32_t runs))
{
    static const uint32_t sizes[] = { 1, 2, 3, 7 };
    for (uint32_t s = 0; s < 4; s++) {
        struct work *k = calloc(1, sizeof *k);
        struct pool *p;
        struct err e = { 0 };
        ck_assert_msg(pool_create(sizes[s], s % 2, &p, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(pool_size(p), sizes[s]);
        for (int run = 0; run < 5; run++)
            pool_run(p, fn, k);
        check(k, 5);
        pool_destroy(p);
        free(k);
    }
}

static void each_once(const struct work *k, uint32_t runs)
{
    for (uint32_t l = 0; l < LOOPS; l++)
        for (uint32_t i = 0; i < ITEMS; i++)
            ck_assert_uint_eq(k->done[l][i], l % 3 || i == 0 ? runs : 0);
}

static void none_early(const struct work *k, uint32_t runs)
{
    ck_assert_uint_eq(k->early, 0);
}

START_TEST(every_item_is_done_once)
{
    on_pools(many_loops, each_once);
}
END_TEST

START_TEST(a_barrier_separates_what_it_should)
{
    on_pools(phases, none_early);
}
END_TEST

#if !defined(__SANITIZE_THREAD__) /* which has a thread of its own that wakes up all the time */
/* What Linux tells about a thread of this process: how often it went to sleep and came back, and its state in *state. */
static long switches(const char *tid, char *state)
{
    char path[300], line[128];
    long n = 0, one;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "State: %c", state);
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &one) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %ld", &one) == 1)
            n += one;
    }
    fclose(f);
    return n;
}

/* The threads beside the caller's: how many there are, how many of them sleep, and how often all were switched. */
static void look_at_threads(int *n, int *asleep, long *n_switches)
{
    DIR *d = opendir("/proc/self/task");
    char self[16];
    *n = *asleep = 0;
    *n_switches = 0;
    snprintf(self, sizeof self, "%d", (int)getpid());
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));) {
        char state = 0;
        if (e->d_name[0] == '.' || strcmp(e->d_name, self) == 0)
            continue;
        *n_switches += switches(e->d_name, &state);
        *n += 1;
        *asleep += state == 'S';
    }
    closedir(d);
}

START_TEST(idle_threads_sleep)
{
    struct pool *p;
    struct work *k = calloc(1, sizeof *k);
    ck_assert_int_eq(pool_create(4, false, &p, NULL), 0);
    pool_run(p, many_loops, k);
    /* They come to rest, and nothing wakes them while there is nothing to do. */
    int n = 0, asleep = 0;
    long before = 0, after = -1;
    for (int tries = 0; tries < 3000 && (after != before || asleep < n); tries++) { /* on its way to sleep one may take long */
        look_at_threads(&n, &asleep, &before);
        usleep(100000);
        look_at_threads(&n, &asleep, &after);
    }
    ck_assert_msg(n >= 3 && asleep == n, "%d of %d threads sleep", asleep, n);
    ck_assert_msg(after == before, "woken %ld times in 100 ms of rest", after - before);
    pool_run(p, many_loops, k); /* and wake again */
    pool_destroy(p);
    free(k);
}
END_TEST
#endif

START_TEST(the_guard_counts_allocations)
{
    alloc_guard_begin("test");
    void *volatile mem = malloc(100);
    free(mem);
    uint32_t n = alloc_guard_count();
    alloc_guard_forgive();
    alloc_guard_end();
#if defined(ZINC_DEBUG_CHECKS) && defined(__GLIBC__)
    ck_assert_uint_eq(n, 2);
#else
    ck_assert_uint_eq(n, 0);
#endif
    alloc_guard_begin("nothing");
    alloc_guard_end();
}
END_TEST

#if defined(ZINC_DEBUG_CHECKS) && defined(__GLIBC__)
START_TEST(the_guard_aborts)
{
    signal(SIGABRT, SIG_DFL);
    alloc_guard_begin("test");
    void *volatile mem = malloc(100);
    alloc_guard_end();
    free(mem);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("tier pool");
    TCase *t = tcase_create("tier pool");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_item_is_done_once);
    tcase_add_test(t, a_barrier_separates_what_it_should);
#if !defined(__SANITIZE_THREAD__)
    tcase_add_test(t, idle_threads_sleep);
#endif
    tcase_add_test(t, the_guard_counts_allocations);
#if defined(ZINC_DEBUG_CHECKS) && defined(__GLIBC__)
    tcase_add_test_raise_signal(t, the_guard_aborts, SIGABRT);
#endif
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
