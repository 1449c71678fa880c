/* The AMD tiers' ways to a card, one program for all: test_amd_steps TIER cost MODEL, TIER trouble, TIER backlog.
 *
 * cost: what a step costs the host in system calls, allocations, dwords and bytes; several in flight; memory that comes
 * later; a queue that is given back. Times are printed, not judged. On the hardware model with execution skipped, and a
 * stream as long as that of a model of 40 layers.
 * trouble: below the tier, submissions alone. A host that sleeps is woken, a full ring waited for; hangs, page faults and a
 * child of fork are told.
 * backlog: more is under way than the driver's time limit holds.
 * tests/e2e/test_kfd_steps.sh, test_cs.sh and test_umq.sh run it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
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
#include "rt/amd/ring.h"
#include "rt/kfd/kfd.h"
#include "tests/lib/run.h"
#ifdef ZINC_DRM
#include "rt/umq/cs.h"
#include "rt/umq/userq.h"
#endif

enum { WARM = 16, BATCHES = 100, BATCH = KL_RING, MIN_CMDS = 300, RING_BYTES = 64 << 10 };

static struct err e;
static const char *model;

/* ---- the ways ---- */

static int open_kfd(struct amd_winsys **out, struct amd_watch **watch)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    struct kfd_winsys *w;
    int rc = kfd_topology(kfd_sys_current(), gpu, KFD_MAX_GPUS, &e) < 0 ? -ENODEV : kfd_winsys_open(&gpu[0], &w, &e);
    if (rc || (rc = kfd_winsys_queue(w, RING_BYTES, &e)))
        return rc;
    *out = &w->base;
    *watch = &w->q->ring.watch;
    return 0;
}

#ifdef ZINC_DRM
static int open_umq(struct amd_winsys **out, struct amd_watch **watch)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    struct userq_winsys *w;
    int rc = drm_gpus("umq", gpu, DRM_MAX_GPUS, &e) < 0 ? -ENODEV : userq_winsys_open(&gpu[0], &w, &e);
    if (rc || (rc = userq_winsys_queue(w, RING_BYTES, &e)))
        return rc;
    *out = &w->base;
    *watch = &w->q->ring.watch;
    return 0;
}

static int open_cs(struct amd_winsys **out, struct amd_watch **watch)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    struct cs_winsys *w;
    int rc = drm_gpus("cs", gpu, DRM_MAX_GPUS, &e) < 0 ? -ENODEV : cs_winsys_open(&gpu[0], &w, &e);
    if (rc || (rc = cs_winsys_context(w, &e)))
        return rc;
    *out = &w->base;
    *watch = &w->watch;
    return 0;
}
#endif

static const struct way {
    const char *name;
    int (*open)(struct amd_winsys **out, struct amd_watch **watch);
    uint32_t calls, words, bytes; /* of a step of one row */
    bool ring;                    /* of our own           */
} ways[] = {
    { "kfd", open_kfd, 0, 21, 100, true },
#ifdef ZINC_DRM
    { "umq", open_umq, 0, 25, 116, true },
    { "cs", open_cs, 1, 47, 188, false },
#endif
};
static const struct way *way;

/* ---- calls of the kernel, counted; and allocations of this thread, outside of them ---- */

static _Thread_local volatile bool counting; /* volatile: to the compiler no malloc looks at it */
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

/* Queues that the model of the card has of this process. */
static uint32_t queues(void)
{
    uint32_t (*ask)(void) = (uint32_t (*)(void))dlsym(RTLD_DEFAULT, "amdsim_queues");
    ck_assert_msg(ask != NULL, "not on the hardware model");
    return ask();
}

/* ---- steps ---- */

static struct engine *eng;

static struct amd_winsys *open_engine(void)
{
    struct engine_opts o = { .path = model, .tier = way->name, .n_ctx = 2048, .chunk = 16 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return amd_of(eng->tier)->w;
}

static int submit_at(uint32_t pos, uint64_t *point)
{
    const uint32_t out_row[1] = { 0 };
    ka_row row = { .token = 5, .pos = pos };
    struct step st = { .n_rows = 1, .n_out = 1, .kv_len = pos + 1, .rows = &row, .out_row = out_row };
    return tier_submit(eng->tier, eng->decode.native, &st, point);
}

/* Looks at the fence alone: how long the model of the GPU takes is not what is measured. */
static void until_done(uint64_t point)
{
    while (tier_wait(eng->tier, point, UINT64_MAX) == -ETIME) {
    }
}

static void warm_up(void)
{
    uint64_t point;
    for (uint32_t i = 0; i < WARM; i++) {
        ck_assert_int_eq(submit_at(i, &point), 0);
        until_done(point);
    }
}

START_TEST(a_step_makes_so_many_system_calls)
{
    uint64_t point = 0, submitting = 0;
    open_engine();
    warm_up();
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t before = n_ioctls;
        ck_assert_int_eq(submit_at(WARM + i, &point), 0);
        submitting += n_ioctls - before;
        until_done(point);
    }
    ck_assert_uint_eq(submitting, way->calls * BATCH);
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
    warm_up();
    tier_stats_reset(eng->tier);
    for (uint32_t b = 0; b < BATCHES; b++) {
        uint64_t t0 = cpu_ns(), inside = ioctl_ns, before = n_ioctls;
        for (uint32_t i = 0; i < BATCH; i++) /* as many as may be in flight */
            ck_assert_int_eq(submit_at(b * BATCH + i, &point), 0);
        uint64_t ns = cpu_ns() - t0;
        ck_assert_uint_eq(n_ioctls - before, way->calls * BATCH);
        best_all = MIN(best_all, ns / BATCH);
        best = MIN(best, (ns - (ioctl_ns - inside)) / BATCH);
        until_done(point);
    }
    const struct tier_stats *s = &eng->tier->stats;
    const struct amd_plan *p = (const struct amd_plan *)eng->decode.native;
    const struct amd_pass *x = &p->pass[p->r.n_passes - 1];
    printf("%s, %u commands: %u launches, %u barriers, %u dwords that the GPU fetches; %.1f dwords and %.1f bytes written a step, "
           "%u ioctls; %llu ns of CPU outside of them, %llu with the model's side\n", way->name, eng->info.n_cmds, x->n_launches,
           x->n_barriers, x->n_dw,
           (double)s->words / (double)s->steps, (double)s->host_bytes / (double)s->steps, way->calls,
           (unsigned long long)best, (unsigned long long)best_all);
    ck_assert_uint_eq(s->steps, BATCHES * BATCH);
    ck_assert_uint_eq(s->words, s->steps * way->words);
    ck_assert_uint_eq(s->host_bytes, s->steps * way->bytes);
    engine_close(eng);
}
END_TEST

START_TEST(a_prompt_goes_in_parts)
{
    static int32_t tokens[16];
    static const float *logits;
    struct session *s;
    struct amd_winsys *w = open_engine();
    const struct amd_plan *p = (const struct amd_plan *)eng->prefill.native, *d = (const struct amd_plan *)eng->decode.native;
    const struct amd_pass *many = NULL;
    for (uint32_t i = 0; i < p->r.n_passes; i++)
        if (p->r.pass[i].max_rows >= 16)
            many = &p->pass[i];
    ck_assert_ptr_nonnull(many);
    for (uint32_t i = 0; i < d->r.n_passes; i++)
        if (d->r.pass[i].max_rows <= 1 || !w->part_launches)
            ck_assert_uint_eq(d->pass[i].n_parts, 1);
    if (w->part_launches)
        ck_assert_uint_ge(many->n_parts, (many->n_launches + w->part_launches - 1) / w->part_launches);
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    uint64_t before = w->point;
    ck_assert_msg(session_eval(s, tokens, 16, &logits, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(w->point - before, many->n_parts);
    ck_assert(!w->part_launches || many->n_parts > 1);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

/* Memory that comes later is there for the next submission, and those after it make no call more for that. */
START_TEST(new_memory_is_waited_for)
{
    struct amd_mem m;
    uint64_t point;
    struct amd_winsys *w = open_engine();
    warm_up();
    ck_assert_int_eq(amd_mem_alloc(w, AMD_VRAM, 1 << 20, "later", &m, &e), 0);
    uint64_t before = n_ioctls;
    ck_assert_int_eq(submit_at(WARM, &point), 0);
    ck_assert_uint_eq(n_ioctls - before, way->calls + (strcmp(way->name, "umq") == 0 ? 2 : 0)); /* GEM_VA, and its point */
    before = n_ioctls;
    ck_assert_int_eq(submit_at(WARM + 1, &point), 0);
    ck_assert_uint_eq(n_ioctls - before, way->calls);
    until_done(point);
    amd_mem_free(&m);
    engine_close(eng);
}
END_TEST

START_TEST(an_idle_queue_is_given_back)
{
    uint64_t point;
    open_engine();
    warm_up();
    ck_assert_uint_eq(queues(), 1);
    for (uint32_t round = 0; round < 3; round++) {
        uint64_t before = n_ioctls;
        tier_rest(eng->tier);
        ck_assert_uint_eq(queues(), 0);
        tier_rest(eng->tier); /* twice is fine */
        ck_assert_uint_eq(n_ioctls - before, 1);
        before = n_ioctls;
        ck_assert_int_eq(submit_at(WARM + 8 * round, &point), 0);
        ck_assert_uint_eq(queues(), 1);
        ck_assert_uint_eq(n_ioctls - before, 1);
        until_done(point);
        for (uint32_t i = 1; i < 8; i++) { /* and from there on as ever */
            ck_assert_int_eq(submit_at(WARM + 8 * round + i, &point), 0);
            until_done(point);
        }
        ck_assert_uint_eq(n_ioctls - before, 1);
    }
    tier_rest(eng->tier);
    engine_close(eng); /* while it rests */
    ck_assert_uint_eq(queues(), 0);
}
END_TEST

/* A step that is under way is not for a queue that goes. */
START_TEST(a_busy_queue_stays)
{
    uint64_t point = 0;
    struct amd_winsys *w = open_engine();
    warm_up();
    w->point++; /* as if one more were under way */
    tier_rest(eng->tier);
    ck_assert_uint_eq(queues(), 1);
    w->point--;
    ck_assert_int_eq(submit_at(WARM, &point), 0);
    until_done(point);
    engine_close(eng);
}
END_TEST

/* ---- below the tier ---- */

static struct amd_winsys *w;
static struct amd_watch *watch;
static struct amd_mem ib, cell;

static void open_winsys(void)
{
    e = (struct err){ 0 };
    ck_assert_msg(way->open(&w, &watch) == 0, "%s", e.msg);
    ck_assert_msg(amd_mem_alloc(w, AMD_HOST, AMD_PAGE, "packets", &ib, &e) == 0 &&
                  amd_mem_alloc(w, AMD_HOST, AMD_PAGE, "gate", &cell, &e) == 0, "%s", e.msg);
}

static void close_winsys(void)
{
    w->ops->destroy(w); /* and the memory with it */
}

static void begin(struct pm4_buf *b)
{
    pm4_init(b, w->card.chip->gen, ib.cpu, AMD_PAGE / 4);
}

static int send(struct pm4_buf *b, uint64_t *point)
{
    amd_ib_pad(w, b);
    ck_assert_int_eq(b->rc, 0);
    return amd_submit(w, ib.va, b->n, point, &e);
}

/* An IB that the GPU is done with once the gate is open. */
static uint32_t gate_dw;
static uint64_t submit_gate(void)
{
    struct pm4_buf b;
    uint64_t point;
    begin(&b);
    pm4_wait_mem(&b, PM4_EQ, cell.va, 1, ~0u);
    ck_assert_msg(send(&b, &point) == 0, "%s", e.msg);
    gate_dw = b.n;
    return point;
}

static void open_gate(void)
{
    __atomic_store_n((uint32_t *)cell.cpu, 1, __ATOMIC_RELEASE);
}

static void *open_later(void *after_us)
{
    usleep(*(const useconds_t *)after_us);
    open_gate();
    return NULL;
}

START_TEST(a_host_that_sleeps_is_woken)
{
    useconds_t us = 150000;
    pthread_t other;
    open_winsys();
    uint64_t point = submit_gate();
    ck_assert_int_eq(amd_wait(w, point, 0, &e), -ETIME);
    ck_assert_int_eq(amd_wait(w, point, 1000000, &e), -ETIME);
    ck_assert_int_eq(pthread_create(&other, NULL, open_later, &us), 0);
    uint64_t before = n_ioctls;
    ck_assert_msg(amd_wait(w, point, 60000000000u, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(n_ioctls, before); /* 20 ms of polling, then a call that sleeps */
    ck_assert_uint_eq(w->cells->fence, point);
    pthread_join(other, NULL);
    close_winsys();
}
END_TEST

/* The gate stops the first submission, and the ring is too small for the others. */
START_TEST(a_full_ring_is_waited_for)
{
    useconds_t us = 100000;
    pthread_t other;
    open_winsys();
    uint64_t point = submit_gate();
    pthread_create(&other, NULL, open_later, &us);
    for (uint32_t i = 0; i < 3 * RING_BYTES / 4 / (PM4_DW_INDIRECT_BUFFER + PM4_DW_RELEASE_MEM); i++)
        ck_assert_msg(amd_submit(w, ib.va, gate_dw, &point, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(amd_wait(w, point, 30000000000u, &e), 0);
    ck_assert_uint_gt(((struct amd_ring *)watch)->wptr, 2 * RING_BYTES / 4);
    pthread_join(other, NULL);
    close_winsys();
}
END_TEST

/* Much is under way, each piece of it short: with a time limit for the driver's fences, which a host that sleeps asks for, the
 * limit is for a piece and not for all. The model has one of 3 s, from Linux 7.0 on; test_umq.sh sets it. Where nothing moved for
 * a second the fence is asked for (rt/umq/userq.c): a piece stays below that by what a busy machine may take to begin the next. */
START_TEST(a_backlog_is_no_hang)
{
    enum { PIECES = 6, PIECE_MS = 700 };
    struct pm4_buf b;
    uint64_t point = 0;
    open_winsys();
    for (uint32_t i = 0; i < PIECES; i++) {
        pm4_init(&b, w->card.chip->gen, (uint32_t *)ib.cpu + 64 * i, 64);
        pm4_wait_mem(&b, PM4_EQ, cell.va + 4 * i, 1, ~0u);
        amd_ib_pad(w, &b);
        ck_assert_int_eq(b.rc, 0);
        ck_assert_msg(amd_submit(w, ib.va + 256 * i, b.n, &point, &e) == 0, "%s", e.msg);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        ck_assert_msg(amd_wait(w, point, PIECE_MS * 1000000ull, &e) == -ETIME, "piece %u: %s", i, e.msg);
        __atomic_store_n((uint32_t *)cell.cpu + i, 1, __ATOMIC_RELEASE);
    }
    ck_assert_msg(amd_wait(w, point, 20000000000u, &e) == 0, "%s", e.msg);
    close_winsys();
}
END_TEST

START_TEST(no_progress_is_a_hang)
{
    struct pm4_buf b;
    open_winsys();
    watch->hang_ns = 300000000u;
    uint64_t point = submit_gate();
    ck_assert_int_eq(amd_wait(w, point, 60000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress for 0 s: point 0 of 1") && strstr(e.msg, way->ring ? "the queue fetches"
                                                                                                : "lockup_timeout"),
                  "%s", e.msg);
    begin(&b);
    pm4_nop(&b, 1);
    ck_assert_int_eq(send(&b, &point), -EIO);
    ck_assert_ptr_nonnull(strstr(e.msg, "dead after a fault"));
    open_gate(); /* so that it can be taken down at once */
    close_winsys();
}
END_TEST

START_TEST(a_page_fault_in_words)
{
    const uint32_t word = 1;
    struct amd_mem gone;
    struct pm4_buf b;
    uint64_t point;
    open_winsys();
    ck_assert_int_eq(amd_mem_alloc(w, AMD_VRAM, AMD_PAGE, "short-lived", &gone, &e), 0);
    uint64_t va = gone.va;
    amd_mem_free(&gone);
    begin(&b);
    pm4_write_data(&b, va, &word, 1, PM4_WRITE_CONFIRM);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(w, point, 60000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "page fault") && strstr(e.msg, "freed: short-lived"), "%s", e.msg);
    printf("%s\n", e.msg);
    ck_assert_int_eq(amd_submit(w, ib.va, b.n, &point, &e), -EIO);
    close_winsys();
    if (way->ring)
        return;
    open_winsys(); /* the card goes on, with a new context */
    begin(&b);
    pm4_nop(&b, 1);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_msg(amd_wait(w, point, 20000000000u, &e) == 0, "%s", e.msg);
    close_winsys();
}
END_TEST

START_TEST(what_no_ring_can_take)
{
    uint64_t point;
    open_winsys();
    if (!way->ring) {
        ck_assert_int_eq(amd_submit(w, ib.va, 7, &point, &e), -EINVAL);
        ck_assert_int_eq(amd_submit(w, ib.va + 4, 8, &point, &e), -EINVAL);
    }
    ck_assert_int_eq(amd_submit(w, ib.va, 1 << 20, &point, &e), -EINVAL);
    close_winsys();
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
        _exit(amd_submit(w, ib.va, 8, &point, &e) == -EPERM && strstr(e.msg, "child of fork") ? 0 : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(send(&b, &point), 0);
    ck_assert_int_eq(amd_wait(w, point, 20000000000u, &e), 0);
    close_winsys();
}
END_TEST

/* ---- which ---- */

static int cost(void)
{
#if defined(ZINC_DEBUG_CHECKS)
#define FREE_OF_ALLOCATIONS
#else
#define FREE_OF_ALLOCATIONS a_step_allocates_nothing,
#endif
    if (!way->ring)
        return RUN_TESTS("cost", a_step_makes_so_many_system_calls, FREE_OF_ALLOCATIONS steps_in_flight, a_prompt_goes_in_parts,
                         new_memory_is_waited_for);
    return RUN_TESTS("cost", a_step_makes_so_many_system_calls, FREE_OF_ALLOCATIONS steps_in_flight, a_prompt_goes_in_parts,
                     new_memory_is_waited_for, an_idle_queue_is_given_back, a_busy_queue_stays);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < ARRAY_LEN(ways) && argc > 2; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            way = &ways[i];
    model = argc > 3 ? argv[3] : NULL;
    if (!way || (model != NULL) != (strcmp(argv[2], "cost") == 0)) {
        puts("TIER cost MODEL, TIER trouble, or TIER backlog; test_kfd_steps.sh, test_cs.sh and test_umq.sh run it on the hardware model");
        return 77;
    }
    if (model) {
        setenv("ZINC_AMD_POLL", "1000", 1); /* a host that sleeps makes calls, of which the busy machine would be the cause */
        return cost();
    }
    if (strcmp(argv[2], "backlog") == 0)
        return RUN_TESTS("backlog", a_backlog_is_no_hang);
    if (!way->ring)
        return RUN_TESTS("trouble", a_host_that_sleeps_is_woken, no_progress_is_a_hang, a_page_fault_in_words,
                         what_no_ring_can_take, a_child_of_fork_is_refused);
    return RUN_TESTS("trouble", a_host_that_sleeps_is_woken, a_full_ring_is_waited_for, no_progress_is_a_hang,
                     a_page_fault_in_words, what_no_ring_can_take, a_child_of_fork_is_refused);
}
