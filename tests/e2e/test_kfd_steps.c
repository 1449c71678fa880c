/* What a step costs the host on the kfd tier: no system call, no allocation, at most 64 dwords; several in flight. Its time
 * is printed, not judged. Needs an AMD card and a model in KFD_TEST_MODEL; tests/e2e/test_kfd_steps.sh gives it the hardware model,
 * which skips execution, and a stream as long as that of a model of 40 layers. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "engine/priv.h"
#include "kernels/klaunch.h"
#include "rt/kfd/kfd.h"
#include "tests/lib/run.h"

enum { WARM = 16, BATCHES = 150, BATCH = KL_RING, MAX_WORDS = 64, MIN_CMDS = 300 };

static struct engine *eng;

/* ---- allocations of this thread while it counts them: in release builds, others have a malloc of their own ---- */

#if !defined(ZINC_DEBUG_CHECKS)
static _Thread_local volatile bool counting; /* volatile: to the compiler no malloc looks at it */
static _Thread_local uint64_t n_allocations;
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n)
{
    n_allocations += counting;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    n_allocations += counting;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    n_allocations += counting;
    return __libc_realloc(p, n);
}
#endif

/* ---- steps ---- */

static void open_engine(void)
{
    struct err e = { 0 };
    struct engine_opts o = { .path = getenv("KFD_TEST_MODEL"), .tier = "kfd", .n_ctx = 2048, .chunk = 16 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct step step_at(ka_row *row, uint32_t pos)
{
    static const uint32_t out_row[1] = { 0 };
    *row = (ka_row){ .token = 5, .pos = pos };
    return (struct step){ .n_rows = 1, .n_out = 1, .kv_len = pos + 1, .rows = row, .out_row = out_row };
}

static void submit_at(uint32_t pos, uint64_t *point)
{
    ka_row row;
    struct step st = step_at(&row, pos);
    ck_assert_int_eq(tier_submit(eng->tier, eng->decode.native, &st, point), 0);
}

/* Looks at the fence alone: how long the model of the GPU takes is not what is measured. */
static void until_done(uint64_t point)
{
    while (tier_wait(eng->tier, point, UINT64_MAX) == -ETIME) {
    }
}

START_TEST(a_step_makes_no_system_call)
{
    uint64_t point = 0, submitting = 0;
    open_engine();
    for (uint32_t i = 0; i < WARM; i++) {
        submit_at(i, &point);
        until_done(point);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t before = kfd_sys_calls(kfd_sys_current());
        submit_at(WARM + i, &point);
        submitting += kfd_sys_calls(kfd_sys_current()) - before;
        until_done(point);
    }
    ck_assert_uint_eq(submitting, 0);
    /* waiting for what is done makes none either */
    uint64_t before = kfd_sys_calls(kfd_sys_current());
    ck_assert_int_eq(tier_wait(eng->tier, point, 0), 0);
    ck_assert_uint_eq(kfd_sys_calls(kfd_sys_current()) - before, 0);
    engine_close(eng);
}
END_TEST

#if !defined(ZINC_DEBUG_CHECKS)
START_TEST(a_step_allocates_nothing)
{
    uint64_t point = 0;
    open_engine();
    for (uint32_t i = 0; i < WARM + BATCH; i++) {
        ka_row row;
        struct step st = step_at(&row, i);
        counting = i >= WARM; /* Check's macros allocate, so none of them inside */
        int rc = tier_submit(eng->tier, eng->decode.native, &st, &point);
        if (rc == 0)
            until_done(point);
        counting = false;
        ck_assert_int_eq(rc, 0);
    }
    ck_assert_uint_eq(n_allocations, 0);
    counting = true; /* and the count sees one */
    void *volatile p = malloc(1);
    counting = false;
    free(p);
    ck_assert_uint_eq(n_allocations, 1);
    engine_close(eng);
}
END_TEST
#endif

START_TEST(a_step_writes_few_words)
{
    uint64_t point = 0, best = UINT64_MAX;
    open_engine();
    ck_assert_msg(eng->info.n_cmds >= MIN_CMDS, "the stream has %u commands", eng->info.n_cmds);
    tier_stats_reset(eng->tier);
    for (uint32_t b = 0; b < BATCHES; b++) {
        uint64_t t0 = cpu_ns(), ns;
        for (uint32_t i = 0; i < BATCH; i++) /* as many as may be in flight */
            submit_at(b * BATCH + i, &point);
        ns = (cpu_ns() - t0) / BATCH;
        best = ns < best ? ns : best;
        until_done(point);
    }
    const struct tier_stats *s = &eng->tier->stats;
    ck_assert_uint_eq(s->steps, BATCHES * BATCH);
    printf("%u commands: %.1f dwords and %.1f bytes written a step, %llu ns of CPU (%.0f ns by the clock on "
           "average)\n",
           eng->info.n_cmds, (double)s->words / (double)s->steps, (double)s->host_bytes / (double)s->steps,
           (unsigned long long)best, (double)s->host_ns / (double)s->steps);
    ck_assert_uint_gt(s->words, 0);
    ck_assert_uint_le(s->words, s->steps * MAX_WORDS);
    engine_close(eng);
}
END_TEST

int main(void)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    struct err e = { 0 };
    if (!getenv("KFD_TEST_MODEL") || kfd_topology(kfd_sys_current(), gpu, KFD_MAX_GPUS, &e) < 0) {
        puts(e.msg[0] ? e.msg : "no model in KFD_TEST_MODEL; test_kfd_steps.sh runs this on the hardware model");
        return 77;
    }
#if defined(ZINC_DEBUG_CHECKS)
    return RUN_TESTS("kfd_steps", a_step_makes_no_system_call, a_step_writes_few_words);
#else
    return RUN_TESTS("kfd_steps", a_step_makes_no_system_call, a_step_allocates_nothing, a_step_writes_few_words);
#endif
}
