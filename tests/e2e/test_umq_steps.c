/* What a step costs the host on the umq tier: no system call to submit it, few dwords in the ring, several in flight; that a
 * host which sleeps is woken, and a full ring waited for; and what faults and hangs tell. Needs an AMD card and a model in UMQ_TEST_MODEL; tests/e2e/test_umq.sh gives it the
 * hardware model, which skips execution. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/priv.h"
#include "tests/lib/run.h"

#ifdef ZINC_DRM
#include "kernels/klaunch.h"
#include "rt/amd/plan.h"
#include "rt/umq/userq.h"

enum { WARM = 16, STEPS = 200 };

static struct engine *eng;

static struct userq *open_engine(void)
{
    struct err e = { 0 };
    struct engine_opts o = { .path = getenv("UMQ_TEST_MODEL"), .tier = "umq", .n_ctx = 512, .chunk = 16 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return ((struct userq_winsys *)amd_of(eng->tier)->w)->q;
}

static void submit_at(uint32_t pos, uint64_t *point)
{
    static const uint32_t out_row[1] = { 0 };
    ka_row row = { .token = 5, .pos = pos };
    struct step st = { .n_rows = 1, .n_out = 1, .kv_len = pos + 1, .rows = &row, .out_row = out_row };
    ck_assert_int_eq(tier_submit(eng->tier, eng->decode.native, &st, point), 0);
}

static void until_done(uint64_t point)
{
    while (tier_wait(eng->tier, point, UINT64_MAX) == -ETIME) {
    }
}

START_TEST(a_step_makes_no_system_call)
{
    struct userq *q = open_engine();
    uint64_t point = 0, submitting = 0, dwords = 0;
    for (uint32_t i = 0; i < WARM; i++) {
        submit_at(i, &point);
        until_done(point);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t calls = q->n_calls, wptr = q->ring.wptr;
        submit_at(WARM + i, &point);
        submitting += q->n_calls - calls;
        dwords = q->ring.wptr - wptr;
        until_done(point);
    }
    ck_assert_uint_eq(submitting, 0);
    ck_assert_uint_eq(dwords % USERQ_SUBMIT_DW, 0); /* one submission or a few: pieces of a step */
    uint64_t calls = q->n_calls;
    ck_assert_int_eq(tier_wait(eng->tier, point, 0), 0); /* what is done costs none either */
    ck_assert_uint_eq(q->n_calls, calls);
    printf("%llu dwords a step in the ring\n", (unsigned long long)dwords);
    engine_close(eng);
}
END_TEST

START_TEST(several_are_in_flight)
{
    struct userq *q = open_engine();
    uint64_t point[KL_RING], calls = 0;
    for (uint32_t i = 0; i < KL_RING; i++) {
        if (i == 1)
            calls = q->n_calls;
        submit_at(i, &point[i]);
    }
    ck_assert_uint_eq(q->n_calls, calls);
    until_done(point[KL_RING - 1]);
    for (uint32_t i = 0; i < KL_RING; i++)
        ck_assert_int_eq(tier_wait(eng->tier, point[i], 0), 0);
    engine_close(eng);
}
END_TEST

/* Memory that comes later is waited for once, before the next submission. */
START_TEST(new_memory_is_waited_for)
{
    struct userq *q = open_engine();
    struct amd_winsys *w = amd_of(eng->tier)->w;
    struct amd_mem m;
    struct err e = { 0 };
    uint64_t point;
    submit_at(0, &point);
    until_done(point);
    ck_assert_int_eq(amd_mem_alloc(w, AMD_VRAM, 1 << 20, "later", &m, &e), 0);
    uint64_t maps = q->map_point;
    submit_at(1, &point);
    ck_assert_uint_eq(q->map_point, maps + 1);
    submit_at(2, &point);
    ck_assert_uint_eq(q->map_point, maps + 1);
    until_done(point);
    amd_mem_free(&m);
    engine_close(eng);
}
END_TEST

/* ---- the queue alone ---- */

static struct err e;
static struct userq_winsys *w;
static struct amd_mem ib, cell;

static void open_queue(void)
{
    struct drm_gpu gpu[DRM_MAX_GPUS];
    e = (struct err){ 0 };
    ck_assert_int_gt(drm_gpus("umq", gpu, DRM_MAX_GPUS, &e), 0);
    ck_assert_msg(userq_winsys_open(&gpu[0], &w, &e) == 0, "%s", e.msg);
    ck_assert_msg(userq_winsys_queue(w, 64 << 10, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(amd_mem_alloc(&w->base, AMD_HOST, AMD_PAGE, "packets", &ib, &e), 0);
    ck_assert_int_eq(amd_mem_alloc(&w->base, AMD_HOST, AMD_PAGE, "gate", &cell, &e), 0);
}

static void close_queue(void)
{
    w->base.ops->destroy(&w->base); /* and the memory with it */
}

/* An IB that the GPU is done with once the gate is open. */
static uint64_t submit_gate(void)
{
    struct pm4_buf b;
    uint64_t point;
    pm4_init(&b, w->base.card.chip->gen, ib.cpu, AMD_PAGE / 4);
    pm4_wait_mem(&b, PM4_EQ, cell.va, 1, ~0u);
    amd_ib_pad(&w->base, &b);
    ck_assert_int_eq(b.rc, 0);
    ck_assert_msg(amd_submit(&w->base, ib.va, b.n, &point, &e) == 0, "%s", e.msg);
    return point;
}

static void *open_gate(void *after_us)
{
    usleep(*(const useconds_t *)after_us);
    __atomic_store_n((uint32_t *)cell.cpu, 1, __ATOMIC_RELEASE);
    return NULL;
}

START_TEST(a_host_that_sleeps_is_woken)
{
    useconds_t us = 200000;
    pthread_t other;
    open_queue();
    uint64_t point = submit_gate(), calls = w->q->n_calls;
    pthread_create(&other, NULL, open_gate, &us);
    int rc;
    while ((rc = amd_wait(&w->base, point, 30000000000u, &e)) == -ETIME) {
    }
    ck_assert_msg(rc == 0, "%s", e.msg);
    ck_assert_uint_eq(w->q->signal_point, point); /* it slept by the driver's fence */
    ck_assert_uint_ge(w->q->n_calls, calls + 2);
    pthread_join(other, NULL);
    close_queue();
}
END_TEST

/* The gate stops the first submission, and the ring is too small for the others. */
START_TEST(a_full_ring_is_waited_for)
{
    useconds_t us = 100000;
    pthread_t other;
    open_queue();
    uint64_t point = submit_gate();
    pthread_create(&other, NULL, open_gate, &us);
    for (uint32_t i = 0; i < 3 * (64 << 10) / 4 / USERQ_SUBMIT_DW; i++)
        ck_assert_msg(amd_submit(&w->base, ib.va, 8, &point, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(amd_wait(&w->base, point, 30000000000u, &e), 0);
    ck_assert_uint_gt(w->q->ring.wptr, 2 * (64 << 10) / 4);
    pthread_join(other, NULL);
    close_queue();
}
END_TEST

START_TEST(a_hang_is_told)
{
    open_queue();
    w->q->ring.watch.hang_ns = 300000000;
    uint64_t point = submit_gate();
    ck_assert_int_eq(amd_wait(&w->base, point, 60000000000u, &e), -EIO);
    ck_assert_ptr_nonnull(strstr(e.msg, "no progress"));
    ck_assert_int_eq(amd_submit(&w->base, ib.va, 8, &point, &e), -EIO);
    ck_assert_ptr_nonnull(strstr(e.msg, "dead after a fault"));
    close_queue();
}
END_TEST

START_TEST(a_page_fault_names_the_memory)
{
    const uint32_t word = 1;
    struct amd_mem victim;
    struct pm4_buf b;
    uint64_t point;
    open_queue();
    ck_assert_int_eq(amd_mem_alloc(&w->base, AMD_VRAM, AMD_PAGE, "victim", &victim, &e), 0);
    uint64_t va = victim.va;
    amd_mem_free(&victim);
    pm4_init(&b, w->base.card.chip->gen, ib.cpu, AMD_PAGE / 4);
    pm4_write_data(&b, va, &word, 1, PM4_WRITE_CONFIRM);
    amd_ib_pad(&w->base, &b);
    ck_assert_int_eq(amd_submit(&w->base, ib.va, b.n, &point, &e), 0);
    ck_assert_int_eq(amd_wait(&w->base, point, 60000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "page fault") && strstr(e.msg, "freed: victim"), "%s", e.msg);
    close_queue();
}
END_TEST

START_TEST(a_child_of_fork_is_refused)
{
    uint64_t point;
    open_queue();
    pid_t child = fork();
    if (child == 0)
        _exit(userq_submit(w->q, ib.va, 8, &point, &e) == -EPERM ? 0 : 1);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close_queue();
}
END_TEST

int main(void)
{
    if (!getenv("UMQ_TEST_MODEL"))
        return puts("run by test_umq.sh") < 0 ? 1 : 77;
    return RUN_TESTS("umq_steps", a_step_makes_no_system_call, several_are_in_flight, new_memory_is_waited_for,
                     a_host_that_sleeps_is_woken, a_full_ring_is_waited_for, a_hang_is_told, a_page_fault_names_the_memory,
                     a_child_of_fork_is_refused);
}
#else
int main(void)
{
    return puts("built without libdrm_amdgpu's headers") < 0 ? 1 : 77;
}
#endif
