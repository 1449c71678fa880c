/* What a step costs the host on the umq tier: no system call to submit it, few dwords in the ring, several in flight; and
 * that a host which sleeps is woken. Needs an AMD card and a model in UMQ_TEST_MODEL; tests/e2e/test_umq.sh gives it the
 * hardware model, which skips execution. */
#include <stdlib.h>

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
        uint64_t calls = q->n_calls, wptr = q->wptr;
        submit_at(WARM + i, &point);
        submitting += q->n_calls - calls;
        dwords = q->wptr - wptr;
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

int main(void)
{
    if (!getenv("UMQ_TEST_MODEL"))
        return puts("run by test_umq.sh") < 0 ? 1 : 77;
    return RUN_TESTS("umq_steps", a_step_makes_no_system_call, several_are_in_flight, new_memory_is_waited_for);
}
#else
int main(void)
{
    return puts("built without libdrm_amdgpu's headers") < 0 ? 1 : 77;
}
#endif
