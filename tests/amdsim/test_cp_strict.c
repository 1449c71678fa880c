/* --strict: each finding is seen to come for the program that forgot something, and not for the one that did not. */
#include "tests/amdsim/cp_kernels.h"
#include "tests/lib/run.h"

#define PRIVATE 0x700000000ull /* VRAM that only the GPU sees                   */
#define SHARED 0x710000000ull  /* memory of the host that level 2 may keep      */
enum { ACQUIRE_ALL = 0xC3F1, ACQUIRE_NO_LEVEL2 = 0x3F1 };

static struct asm_unit *unit;
static struct rig r;
static struct rig_queue q;
static uint32_t *shared, n_args, token;

static void start_with(bool notes)
{
    rig_open(&r, "gfx1201", unit->vm, &(struct cp_options){ .n_threads = 1, .strict = true, .strict_notes = notes });
    rig_map(&r, PRIVATE, 64 << 10, VM_WRITE | VM_CACHED | VM_VRAM);
    shared = rig_map(&r, SHARED, 64 << 10, VM_WRITE | VM_CACHED | VM_HOST);
    q = rig_queue(&r, CP_PM4, 16384);
    n_args = token = 0;
}
static void start(void) { start_with(false); }

static void acquire(uint32_t gcr) { PUSH(&q, 0xC0065800, 0, 0xFFFFFFFF, 0xFF, 0, 0, 0xA, gcr); }
static void flush(void) { PUSH(&q, 0xC0004600, 0x407); }

/* One dispatch with arguments of its own, without acquire and flush. */
static void launch(int k, gva first, gva second, uint32_t dword)
{
    gva args = kernarg_put(&r, 4096 + 64 * n_args++, first, second, dword);
    launch_push(&q, unit->chip, &(struct launch){ .entry = kernel_entry(unit, k), .kernarg = args, .groups = { 2 },
                                                  .no_acquire = true, .no_flush = true });
}

/* The end: level 2 is written back, nothing is invalidated. */
static void run(void)
{
    PUSH(&q, 0xC0064900, 0x200514, 0x20000000, lo(RIG_DATA), hi(RIG_DATA), ++token, 0, 0);
    rig_ring(&q);
}
static void run_in_peace(void)
{
    run();
    for (uint64_t end = rig_now_ms() + RIG_WAIT_MS;
         rig_now_ms() < end && __atomic_load_n(&r.data[0], __ATOMIC_ACQUIRE) != token; rig_nap(50))
        ck_assert_msg(!__atomic_load_n(&r.n_faults, __ATOMIC_ACQUIRE), "%s", r.fault.text);
    rig_expect_peace(&r);
    ck_assert_uint_eq(r.data[0], token);
}

START_TEST(a_right_program_is_left_in_peace)
{
    start();
    for (int round = 0; round < 3; round++) {
        shared[0] = 100 + (uint32_t)round;
        acquire(ACQUIRE_ALL);
        launch(K_FILL, PRIVATE, 0, (uint32_t)round);
        flush();
        acquire(ACQUIRE_NO_LEVEL2);
        launch(K_COPY, PRIVATE, PRIVATE + 4096, 1);
        launch(K_COPY_SCALAR, SHARED, SHARED + 4096, 1); /* touches nothing of the one beside it */
        flush();
        acquire(ACQUIRE_NO_LEVEL2);
        launch(K_COPY, PRIVATE + 4096, SHARED + 8192, 1);
        flush();
        run_in_peace();
        ck_assert_uint_eq(shared[1024], 101 + (uint32_t)round);
        ck_assert_uint_eq(shared[2048 + 63], 63 + 2 + (uint32_t)round);
    }
    rig_close(&r);
}
END_TEST

START_TEST(memory_that_nobody_wrote)
{
    start();
    acquire(ACQUIRE_ALL);
    launch(K_COPY, PRIVATE, RIG_DATA + 4096, 0);
    run();
    rig_expect_fault(&r, "0x700000000 was never written");
    rig_close(&r);
}
END_TEST

/* A scalar load brings what nobody wrote; a finding is what is made of it. */
START_TEST(memory_that_nobody_wrote_by_scalar_loads)
{
    start();
    acquire(ACQUIRE_ALL);
    launch(K_FILL, PRIVATE, 0, 40); /* 64 dwords */
    flush();
    acquire(ACQUIRE_ALL);
    launch(K_COPY_WIDE, PRIVATE + 61 * 4, SHARED, 1); /* the last three of them, and one behind */
    flush();
    run_in_peace();
    ck_assert_uint_eq(shared[0], 63 + 40 + 1);
    launch(K_COPY_WIDE, PRIVATE + 62 * 4, SHARED, 1); /* takes the one behind */
    run();
    rig_expect_fault(&r, "made of something that nothing has written");
    rig_close(&r);
}
END_TEST

START_TEST(memory_that_a_copy_engine_wrote)
{
    start();
    struct rig_queue s = rig_queue(&r, CP_SDMA, 4096);
    PUSH(&s, 0x1, 255, 0, lo(RIG_DATA + 8192), hi(RIG_DATA), lo(PRIVATE), hi(PRIVATE));
    PUSH(&s, 0x30005, lo(RIG_DATA + 4), hi(RIG_DATA), 1);
    rig_ring(&s);
    ck_assert(rig_becomes(&r.data[1], 1));
    acquire(ACQUIRE_ALL);
    launch(K_COPY, PRIVATE, RIG_DATA + 4096, 0);
    run_in_peace();
    rig_close(&r);
}
END_TEST

/* The same kernel twice, the host writing in between; what the second time acquires decides. */
static void twice(int kernel, uint32_t gcr)
{
    start();
    shared[0] = 1;
    acquire(ACQUIRE_ALL);
    launch(kernel, SHARED, RIG_DATA + 4096, 0);
    run_in_peace();
    shared[0] = 2;
    acquire(gcr);
    launch(kernel, SHARED, RIG_DATA + 4096, 0);
    if (gcr == ACQUIRE_ALL) {
        run_in_peace();
        ck_assert_uint_eq(r.data[1024], 2);
    } else {
        run();
    }
}

START_TEST(stale_vector_cache)
{
    twice(K_COPY, ACQUIRE_ALL);
    rig_close(&r);
    vm_unmap(unit->vm, RIG_RINGS, 0x700000000ull);
    twice(K_COPY, 0xC0F1); /* everything but GLV and GL1 */
    rig_expect_fault(&r,
                     "stale vector cache: 0x710000000 kept since dispatch 1, changed by the host: GLV_INV missing");
    rig_close(&r);
}
END_TEST

/* Two groups of one dispatch that trade: after the wait the caches are emptied, or are not. */
static void trade(int k)
{
    start();
    acquire(ACQUIRE_ALL);
    launch(K_FILL, PRIVATE, 0, 1000);
    flush();
    acquire(ACQUIRE_ALL);
    launch(k, RIG_DATA + 8192, PRIVATE, 0);
    flush();
    acquire(ACQUIRE_ALL);
    launch(K_COPY, PRIVATE + 512, SHARED, 0);
    flush();
}

START_TEST(what_another_group_wrote_is_read_afresh)
{
    trade(K_TRADE);
    run_in_peace();
    for (uint32_t i = 0; i < 64; i++)
        ck_assert_uint_eq(shared[i], i ^ 32);
    rig_close(&r);
}
END_TEST

START_TEST(stale_cache_within_a_dispatch)
{
    trade(K_TRADE_BLIND);
    run();
    rig_expect_fault(&r, "of the same dispatch changed it: buffer_gl1_inv or global_inv missing");
    rig_close(&r);
}
END_TEST

START_TEST(stale_scalar_cache)
{
    twice(K_COPY_SCALAR, ACQUIRE_ALL);
    rig_close(&r);
    vm_unmap(unit->vm, RIG_RINGS, 0x700000000ull);
    twice(K_COPY_SCALAR, 0xC371); /* without GLK_INV */
    rig_expect_fault(&r, "stale scalar cache: 0x710000000");
    ck_assert(strstr(r.fault.text, "GLK_INV missing"));
    rig_close(&r);
}
END_TEST

START_TEST(stale_level_2)
{
    twice(K_COPY, ACQUIRE_NO_LEVEL2);
    rig_expect_fault(&r, "GL2_INV missing");
    rig_close(&r);
}
END_TEST

START_TEST(stale_cache_between_dispatches)
{
    start();
    acquire(ACQUIRE_ALL);
    launch(K_FILL, PRIVATE, 0, 1);
    flush();
    acquire(ACQUIRE_NO_LEVEL2);
    launch(K_COPY, PRIVATE, RIG_DATA + 4096, 0);
    flush();
    launch(K_FILL, PRIVATE, 0, 2);
    flush();
    launch(K_COPY, PRIVATE, RIG_DATA + 8192, 0);
    run();
    rig_expect_fault(&r, "changed by dispatch 3");
    ck_assert(strstr(r.fault.text, "GLV_INV missing"));
    rig_close(&r);
}
END_TEST

START_TEST(stale_code)
{
    start();
    gva va = 0x720000000ull, args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 5);
    uint8_t *code = rig_map(&r, va, VM_PAGE, VM_EXEC | VM_HOST);
    for (int round = 0; round < 2; round++) {
        memcpy(code, unit->text + unit->at[round ? K_COUNT_UP : K_FILL], 256);
        memset(code, round ? 0xbf : code[0], round ? 1 : 0);
        acquire(round ? 0xC3F0 : ACQUIRE_ALL);
        launch_push(&q, unit->chip,
                    &(struct launch){ .entry = va, .kernarg = args, .groups = { 1 }, .no_acquire = true });
        if (!round)
            run_in_peace();
    }
    run();
    rig_expect_fault(&r, "GLI_INV missing");
    rig_close(&r);
}
END_TEST

/* Two dispatches, and whether anything waits between them. */
static void pair(int k1, gva a1, gva b1, int k2, gva a2, gva b2, bool wait)
{
    start();
    acquire(ACQUIRE_ALL);
    launch(K_FILL, PRIVATE, 0, 1);
    flush();
    acquire(ACQUIRE_ALL);
    launch(k1, a1, b1, 1);
    if (wait)
        flush();
    acquire(ACQUIRE_ALL);
    launch(k2, a2, b2, 1);
    if (wait)
        run_in_peace();
    else
        run();
}

static const struct { const char *why; int k1, k2; gva a1, b1, a2, b2;
} pairs[] = {
    { "read of 0x700001000, written by dispatch 2", K_COPY, K_COPY, PRIVATE, PRIVATE + 4096, PRIVATE + 4096,
      RIG_DATA + 4096 },
    { "write of 0x700001000, written by dispatch 2", K_COPY, K_FILL, PRIVATE, PRIVATE + 4096, PRIVATE + 4096, 0 },
    { "write of 0x700000000, read by dispatch 2", K_COPY, K_FILL, PRIVATE, PRIVATE + 4096, PRIVATE, 0 },
};

START_TEST(a_missing_wait_between_dispatches)
{
    pair(pairs[_i].k1, pairs[_i].a1, pairs[_i].b1, pairs[_i].k2, pairs[_i].a2, pairs[_i].b2, true);
    rig_close(&r);
    vm_unmap(unit->vm, RIG_RINGS, 0x700000000ull);
    pair(pairs[_i].k1, pairs[_i].a1, pairs[_i].b1, pairs[_i].k2, pairs[_i].a2, pairs[_i].b2, false);
    rig_expect_fault(&r, pairs[_i].why);
    ck_assert(strstr(r.fault.text, "CS_PARTIAL_FLUSH missing"));
    rig_close(&r);
}
END_TEST

START_TEST(a_packet_that_does_not_wait_for_the_dispatch_before_it)
{
    for (int wait = 1; wait >= 0; wait--) {
        start();
        acquire(ACQUIRE_ALL);
        launch(K_FILL, RIG_DATA + 4096, 0, 1);
        if (wait)
            flush();
        PUSH(&q, 0xC0044000, 0x00000202, lo(RIG_DATA + 4096), hi(RIG_DATA), lo(RIG_DATA + 8), hi(RIG_DATA));
        if (wait) {
            run_in_peace();
            ck_assert_uint_eq(r.data[2], 1);
            rig_close(&r);
            vm_unmap(unit->vm, RIG_RINGS, 0x700000000ull);
        } else {
            run();
        }
    }
    rig_expect_fault(&r, "not waited for: CS_PARTIAL_FLUSH missing"); /* told by whichever came second */
    rig_close(&r);
}
END_TEST

START_TEST(the_host_is_told_before_level_2_has_written_back)
{
    for (int write_back = 1; write_back >= 0; write_back--) {
        start();
        acquire(ACQUIRE_ALL);
        launch(K_FILL, SHARED, 0, 1);
        if (write_back) {
            run_in_peace();
            rig_close(&r);
            vm_unmap(unit->vm, RIG_RINGS, 0x700000000ull);
        } else {
            PUSH(&q, 0xC0064900, 0x514, 0x60000000, lo(RIG_DATA + 16), hi(RIG_DATA), 0, 0,
                 0); /* a time tells nothing */
            PUSH(&q, 0xC0064900, 0x514, 0x20000000, lo(RIG_DATA), hi(RIG_DATA), 1, 0, 0);
            rig_ring(&q);
            rig_expect_fault(&r, "GL2_WB is missing");
            ck_assert(strstr(r.fault.text, "0x710000000, written by dispatch 1"));
            ck_assert_uint_eq(r.data[0], 0);
            ck_assert_uint_ne(r.data[4], 0);
        }
    }
    rig_close(&r);
}
END_TEST

START_TEST(registers_that_were_never_set)
{
    start();
    PUSH(&q, 0xC0027600, 0x20C, lo(kernel_entry(unit, K_FILL) >> 8), hi(kernel_entry(unit, K_FILL) >> 8));
    PUSH(&q, 0xC0031500, 1, 1, 1, 0x8005);
    rig_ring(&q);
    rig_expect_fault(&r, "was never set on this queue");
    rig_close(&r);
}
END_TEST

START_TEST(notes_let_the_program_go_on)
{
    start_with(true);
    acquire(ACQUIRE_ALL);
    launch(K_COPY, PRIVATE, RIG_DATA + 4096, 0);
    flush();
    launch(K_COPY, PRIVATE, RIG_DATA + 8192, 0);
    run();
    ck_assert(rig_becomes(&r.data[0], token));
    rig_expect_note(&r, "was never written");
    ck_assert_uint_eq(r.n_notes, 1); /* once for a kernel */
    ck_assert_uint_eq(r.n_faults, 0);
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    unit = kernels_build("gfx1201");
    const TTest *const all[] = { a_right_program_is_left_in_peace,
                                 memory_that_nobody_wrote, memory_that_nobody_wrote_by_scalar_loads,
                                 memory_that_a_copy_engine_wrote,
                                 stale_vector_cache,
                                 stale_scalar_cache,
                                 stale_level_2,
                                 stale_cache_between_dispatches,
                                 what_another_group_wrote_is_read_afresh, stale_cache_within_a_dispatch,
                                 stale_code,
                                 a_packet_that_does_not_wait_for_the_dispatch_before_it,
                                 the_host_is_told_before_level_2_has_written_back,
                                 registers_that_were_never_set,
                                 notes_let_the_program_go_on };
    Suite *suite = suite_create("cp_strict");
    TCase *t = tcase_create("findings");
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(t, all[i]);
    tcase_add_loop_test(t, a_missing_wait_between_dispatches, 0, (int)(sizeof pairs / sizeof pairs[0]));
    suite_add_tcase(suite, t);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed > 0;
}
