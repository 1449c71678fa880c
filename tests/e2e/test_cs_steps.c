/* The cs tier: what a step costs the host (one ioctl, no allocation), several in flight, a prompt in parts, a host that
 * sleeps, a page fault in words, a child of fork. Times are printed, not judged. Needs an AMD card and a model in
 * CS_TEST_MODEL; tests/e2e/test_cs.sh gives it the hardware model. Arguments choose what is run: cost, or trouble. */
#include <stdio.h>

#if defined(ZINC_DRM)
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/engine.h"
#include "engine/priv.h"
#include "kernels/klaunch.h"
#include "rt/amd/plan.h"
#include "rt/umq/cs.h"
#include "tests/lib/run.h"

enum { WARM = 16, BATCHES = 100, BATCH = KL_RING, MIN_CMDS = 300 };

static struct engine *eng;
static struct err e;

/* ---- calls of the library, counted; and allocations of this thread, outside of them ---- */

static _Thread_local volatile bool counting; /* volatile: to the compiler no malloc looks at it */
static _Thread_local uint64_t n_allocations;
static _Thread_local uint64_t n_ioctls, ioctl_ns;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int ioctl(int fd, unsigned long request, ...); /* the model's is the next one */
int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, void *);
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (!next)
        next = (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
    bool was = counting;
    counting = false; /* the kernel's side runs in this process */
    uint64_t t0 = cpu_ns();
    int rc = next(fd, request, arg);
    ioctl_ns += cpu_ns() - t0;
    n_ioctls++;
    counting = was;
    return rc;
}

#if !defined(ZINC_DEBUG_CHECKS) /* others have a malloc of their own */
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

static struct cs_winsys *winsys(void)
{
    return (struct cs_winsys *)((struct amd_tier *)eng->tier)->w;
}

static void open_engine(void)
{
    struct engine_opts o = { .path = getenv("CS_TEST_MODEL"), .tier = "cs", .n_ctx = 2048, .chunk = 16 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
}

static int submit_at(uint32_t pos, uint64_t *point)
{
    const uint32_t out_row[1] = { 0 };
    ka_row row = { .token = 5, .pos = pos };
    struct step st = { .n_rows = 1, .n_out = 1, .kv_len = pos + 1, .rows = &row, .out_row = out_row };
    return tier_submit(eng->tier, eng->decode.native, &st, point);
}

static void until_done(uint64_t point)
{
    while (tier_wait(eng->tier, point, UINT64_MAX) == -ETIME) {
    }
}

START_TEST(a_step_is_one_system_call)
{
    uint64_t point = 0, submitting = 0;
    open_engine();
    for (uint32_t i = 0; i < WARM; i++) {
        ck_assert_int_eq(submit_at(i, &point), 0);
        until_done(point);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t before = n_ioctls;
        ck_assert_int_eq(submit_at(WARM + i, &point), 0);
        submitting += n_ioctls - before;
        until_done(point);
    }
    ck_assert_uint_eq(submitting, BATCH);
    uint64_t before = n_ioctls; /* waiting for what is done makes none */
    ck_assert_int_eq(tier_wait(eng->tier, point, 0), 0);
    ck_assert_uint_eq(n_ioctls, before);
    engine_close(eng);
}
END_TEST

#if !defined(ZINC_DEBUG_CHECKS)
START_TEST(a_step_allocates_nothing)
{
    uint64_t point = 0;
    open_engine();
    for (uint32_t i = 0; i < WARM + BATCH; i++) {
        counting = i >= WARM; /* Check's macros allocate, so none of them inside */
        int rc = submit_at(i, &point);
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

START_TEST(steps_in_flight)
{
    uint64_t point = 0, best = UINT64_MAX, best_all = UINT64_MAX;
    open_engine();
    ck_assert_msg(eng->info.n_cmds >= MIN_CMDS, "the stream has %u commands", eng->info.n_cmds);
    tier_stats_reset(eng->tier);
    for (uint32_t b = 0; b < BATCHES; b++) {
        uint64_t t0 = cpu_ns(), inside = ioctl_ns, before = n_ioctls;
        for (uint32_t i = 0; i < BATCH; i++) /* as many as may be in flight */
            ck_assert_int_eq(submit_at(b * BATCH + i, &point), 0);
        uint64_t ns = cpu_ns() - t0;
        ck_assert_uint_eq(n_ioctls - before, BATCH);
        best_all = MIN(best_all, ns / BATCH);
        best = MIN(best, (ns - (ioctl_ns - inside)) / BATCH);
        until_done(point);
    }
    const struct tier_stats *s = &eng->tier->stats;
    const struct amd_plan *p = (const struct amd_plan *)eng->decode.native;
    const struct amd_pass *x = &p->pass[p->r.n_passes - 1];
    ck_assert_uint_eq(s->steps, BATCHES * BATCH);
    printf("%u commands: %u launches, %u dwords that the GPU fetches; %.1f dwords and %.1f bytes written a step, 1 ioctl; %llu "
           "ns of CPU outside of it, %llu with the model's side of it\n", eng->info.n_cmds, x->n_launches, x->n_dw,
           (double)s->words / (double)s->steps, (double)s->host_bytes / (double)s->steps, (unsigned long long)best,
           (unsigned long long)best_all);
    engine_close(eng);
}
END_TEST

START_TEST(a_prompt_goes_in_parts)
{
    static int32_t tokens[16];
    static const float *logits;
    struct session *s;
    open_engine();
    struct cs_winsys *w = winsys();
    const struct amd_plan *p = (const struct amd_plan *)eng->prefill.native, *d = (const struct amd_plan *)eng->decode.native;
    const struct amd_pass *many = NULL;
    for (uint32_t i = 0; i < p->r.n_passes; i++)
        if (p->r.pass[i].max_rows >= 16)
            many = &p->pass[i];
    ck_assert_ptr_nonnull(many);
    for (uint32_t i = 0; i < d->r.n_passes; i++)
        ck_assert_uint_eq(d->pass[i].part, d->r.pass[i].max_rows > 1 ? w->base.part_launches : 0);
    ck_assert_uint_eq(many->part, w->base.part_launches);
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    uint64_t before = w->n_calls;
    ck_assert_msg(session_eval(s, tokens, 16, &logits, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(w->n_calls - before, (many->n_launches + many->part - 1) / many->part);
    ck_assert_uint_gt(w->n_calls - before, 1);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

/* ---- below the tier ---- */

static struct cs_winsys *w;
static struct amd_mem ib, cell;

static void open_winsys(void)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    ck_assert_msg(drm_gpus("cs", gpu, DRM_MAX_GPUS, &e) > 0, "%s", e.msg);
    ck_assert_msg(cs_winsys_open(&gpu[0], &w, &e) == 0 && cs_winsys_context(w, &e) == 0, "%s", e.msg);
    ck_assert_msg(amd_mem_alloc(&w->base, AMD_HOST, AMD_PAGE, "packets", &ib, &e) == 0 &&
                  amd_mem_alloc(&w->base, AMD_HOST, AMD_PAGE, "cell", &cell, &e) == 0, "%s", e.msg);
}

static void begin(struct pm4_buf *b)
{
    pm4_init(b, w->base.card.chip->gen, ib.cpu, AMD_PAGE / 4);
}

static int send(struct pm4_buf *b, uint64_t *point)
{
    amd_ib_pad(&w->base, b);
    ck_assert_int_eq(b->rc, 0);
    return amd_submit(&w->base, ib.va, b->n, point, &e);
}

static void *raise_later(void *user)
{
    usleep(150000);
    *(volatile uint32_t *)cell.cpu = 1;
    return user;
}

START_TEST(a_host_sleeps_and_is_woken)
{
    struct pm4_buf b;
    uint64_t point;
    pthread_t later;
    open_winsys();
    begin(&b);
    pm4_wait_mem(&b, PM4_EQ, cell.va, 1, ~0u);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(&w->base, point, 0, &e), -ETIME);
    ck_assert_int_eq(amd_wait(&w->base, point, 1000000, &e), -ETIME);
    ck_assert_int_eq(pthread_create(&later, NULL, raise_later, NULL), 0);
    uint64_t before = w->n_sleeps;
    ck_assert_msg(amd_wait(&w->base, point, 60000000000u, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(w->n_sleeps, before); /* 20 ms of polling, then the syncobj */
    ck_assert_uint_eq(w->base.cells->fence, point);
    pthread_join(later, NULL);
    w->base.ops->destroy(&w->base);
}
END_TEST

START_TEST(no_progress_is_a_hang)
{
    struct pm4_buf b;
    uint64_t point;
    open_winsys();
    w->watch.hang_ns = 500000000u;
    begin(&b);
    pm4_wait_mem(&b, PM4_EQ, cell.va, 1, ~0u);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(&w->base, point, 20000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress") && strstr(e.msg, "lockup_timeout"), "%s", e.msg);
    ck_assert_int_eq(send(&b, &point), -EIO);
    *(volatile uint32_t *)cell.cpu = 1; /* so that it can be taken down at once */
    w->base.ops->destroy(&w->base);
}
END_TEST

START_TEST(a_page_fault_in_words)
{
    const uint32_t word = 1;
    struct pm4_buf b;
    uint64_t point;
    struct amd_mem gone;
    open_winsys();
    ck_assert_int_eq(amd_mem_alloc(&w->base, AMD_VRAM, AMD_PAGE, "short-lived", &gone, &e), 0);
    uint64_t va = gone.va;
    amd_mem_free(&gone);
    begin(&b);
    pm4_write_data(&b, va, &word, 1, PM4_WRITE_CONFIRM);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(&w->base, point, 20000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "page fault") && strstr(e.msg, "freed: short-lived") && strstr(e.msg, "of ours"), "%s",
                  e.msg);
    printf("%s\n", e.msg);
    ck_assert_int_eq(amd_submit(&w->base, ib.va, b.n, &point, &e), -EIO);
    w->base.ops->destroy(&w->base);
    open_winsys(); /* the card goes on, with a new context */
    begin(&b);
    pm4_nop(&b, 1);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_msg(amd_wait(&w->base, point, 20000000000u, &e) == 0, "%s", e.msg);
    w->base.ops->destroy(&w->base);
}
END_TEST

START_TEST(what_no_ring_can_take)
{
    uint64_t point;
    open_winsys();
    ck_assert_int_eq(amd_submit(&w->base, ib.va, 7, &point, &e), -EINVAL);
    ck_assert_int_eq(amd_submit(&w->base, ib.va + 4, 8, &point, &e), -EINVAL);
    ck_assert_int_eq(amd_submit(&w->base, ib.va, 1 << 20, &point, &e), -EINVAL);
    w->base.ops->destroy(&w->base);
}
END_TEST

START_TEST(a_child_of_fork_is_refused)
{
    struct pm4_buf b;
    uint64_t point;
    int status;
    open_winsys();
    begin(&b);
    pm4_nop(&b, 1);
    pid_t pid = fork();
    if (!pid)
        _exit(amd_submit(&w->base, ib.va, 8, &point, &e) == -EPERM && strstr(e.msg, "child of fork") ? 0 : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(&w->base, point, 20000000000u, &e), 0);
    w->base.ops->destroy(&w->base);
}
END_TEST

int main(int argc, char **argv)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    if (argc < 2 || !getenv("CS_TEST_MODEL") || drm_gpus("cs", gpu, DRM_MAX_GPUS, &e) < 0) {
        puts(e.msg[0] ? e.msg : "no model in CS_TEST_MODEL; test_cs.sh runs this on the hardware model");
        return 77;
    }
    if (strcmp(argv[1], "cost") == 0) {
#if defined(ZINC_DEBUG_CHECKS)
        return RUN_TESTS("cs_cost", a_step_is_one_system_call, steps_in_flight, a_prompt_goes_in_parts);
#else
        return RUN_TESTS("cs_cost", a_step_is_one_system_call, a_step_allocates_nothing, steps_in_flight,
                         a_prompt_goes_in_parts);
#endif
    }
    return RUN_TESTS("cs_trouble", a_host_sleeps_and_is_woken, no_progress_is_a_hang, a_page_fault_in_words,
                     what_no_ring_can_take, a_child_of_fork_is_refused);
}
#else
int main(void)
{
    puts("built without libdrm_amdgpu");
    return 77;
}
#endif
