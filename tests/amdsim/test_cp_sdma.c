/* The copy engine's packets. */
#include "tests/amdsim/cp_rig.h"
#include "tests/lib/run.h"

static struct rig r;

static struct rig_queue start(void)
{
    rig_open(&r, "gfx1100", NULL, &(struct cp_options){ .n_threads = 1 });
    return rig_queue(&r, CP_SDMA, 4096);
}

/* A fence of `v` at data[0], and its wait. */
static void finish(struct rig_queue *q, uint32_t v)
{
    PUSH(q, 0x30005, lo(RIG_DATA), hi(RIG_DATA), v);
    rig_ring(q);
    ck_assert_msg(rig_becomes(&r.data[0], v), "no fence; %s", r.fault.text);
}

START_TEST(copy_write_fill)
{
    struct rig_queue q = start();
    for (uint32_t i = 0; i < 0x8000; i++)
        r.data[0x10000 + i] = i * 2654435761u;
    PUSH(&q, 0x1, 0x1FFFF - 3, 0, lo(RIG_DATA + 0x40001), hi(RIG_DATA), lo(RIG_DATA + 0x80005),
         hi(RIG_DATA)); /* odd places */
    PUSH(&q, 0x2, lo(RIG_DATA + 0x1000), hi(RIG_DATA), 2, 5, 6, 7);
    PUSH(&q, 0x8000000B, lo(RIG_DATA + 0x2000), hi(RIG_DATA), 0x12345678, 4095);
    PUSH(&q, 0x0000000B, lo(RIG_DATA + 0x4001), hi(RIG_DATA), 0x55555555, 2);
    finish(&q, 1);
    ck_assert_mem_eq((uint8_t *)r.data + 0x80005, (uint8_t *)r.data + 0x40001, 0x1FFFF - 2);
    ck_assert_uint_eq(((uint8_t *)r.data)[0x80005 + 0x1FFFF - 2], 0);
    ck_assert_uint_eq(r.data[0x400], 5);
    ck_assert_uint_eq(r.data[0x402], 7);
    ck_assert_uint_eq(r.data[0x800 + 1023], 0x12345678);
    ck_assert_uint_eq(r.data[0x800 + 1024], 0);
    ck_assert_uint_eq(r.data[0x1000], 0x55555500);
    ck_assert_uint_eq(r.data[0x1001], 0);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(a_signal_is_fence_mailbox_trap)
{
    struct rig_queue q = start();
    PUSH(&q, 0x30005, lo(RIG_DATA + 8), hi(RIG_DATA), 33);
    PUSH(&q, 0x6, 33);
    PUSH(&q, 0x20D, lo(RIG_DATA + 16), hi(RIG_DATA)); /* clock */
    PUSH(&q, 0x11, 0, 0, 0, 0);                       /* cache action */
    uint64_t t0 = cp_clock(), t;
    finish(&q, 1);
    ck_assert(rig_becomes(&r.n_interrupts, 1));
    ck_assert_uint_eq(r.ctxid[0], 33);
    ck_assert_uint_eq(r.data[2], 33);
    memcpy(&t, &r.data[4], 8);
    ck_assert(t >= t0 && t <= cp_clock());
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(poll_waits_beside_other_queues)
{
    struct rig_queue q = start(), pm4 = rig_queue(&r, CP_PM4, 4096);
    PUSH(&q, 0xD0000008, lo(RIG_DATA + 4), hi(RIG_DATA), 5, ~0u, 0x0FFF0004);
    PUSH(&q, 0x30005, lo(RIG_DATA), hi(RIG_DATA), 1);
    rig_ring(&q);
    rig_nap(3000);
    ck_assert_uint_eq(r.data[0], 0);
    PUSH(&pm4, WRITE_DWORD(RIG_DATA + 4, 6));
    rig_ring(&pm4);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(ring_wraps_with_and_without_padding)
{
    struct rig_queue q = start();
    for (uint32_t i = 1; i < 500; i++) { /* a NOP header of n dwords, zero fill, packets across the end */
        PUSH(&q, 2u << 16, 0xDEAD, 0xBEEF);
        PUSH(&q, 0, 0);
        finish(&q, i);
    }
    ck_assert(rig_becomes64(q.rptr, q.at * 4));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(indirect_buffers_and_atomics)
{
    struct rig_queue q = start();
    const uint32_t ib[8] = { 0xA | 15u << 25, lo(RIG_DATA + 64), hi(RIG_DATA), 5, 0, 0, 0, 0 };
    const uint32_t ib2[8] = { 0xA | (15u + 32) << 25, lo(RIG_DATA + 72), hi(RIG_DATA), 1, 1, 0, 0, 0 };
    memcpy(r.ib, ib, sizeof ib);
    memcpy(r.ib + 8, ib2, sizeof ib2);
    r.data[16] = 10;
    r.data[18] = ~0u;
    PUSH(&q, 0x4, lo(RIG_IB), hi(RIG_IB), 16, 0, 0);
    finish(&q, 1);
    ck_assert_uint_eq(r.data[16], 15);
    ck_assert_uint_eq(r.data[18], 0);
    ck_assert_uint_eq(r.data[19], 2);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

static const struct refusal { const char *why; uint32_t n, dw[8]; } refusals[] = {
    { "operation 0x77", 1, { 0x77 } },
    { "only linear copies", 7, { 0x0401, 3, 0, 0, 2, 0, 2 } },
    { "page fault, read of 0x900000000", 7, { 0x1, 3, 0, 0, 9, 0, 2 } },
    { "page fault, write of 0x900000000", 7, { 0x1, 3, 0, 0, 2, 0, 9 } },
    { "it begins at 32 bytes", 6, { 0x4, 4, 3, 8, 0, 0 } },
    { "it begins at 32 bytes", 6, { 0x4, 0, 3, 7, 0, 0 } },
    { "one byte four times", 5, { 0xB, 0, 2, 0x1234, 3 } },
    { "not a multiple of 4", 4, { 0x5, 2, 2, 1 } },
};

START_TEST(what_is_wrong_is_told_and_ends_the_queue)
{
    struct rig_queue q = start();
    rig_push(&q, refusals[_i].dw, refusals[_i].n);
    PUSH(&q, 0x30005, lo(RIG_DATA), hi(RIG_DATA), 1);
    rig_ring(&q);
    rig_expect_fault(&r, refusals[_i].why);
    rig_nap(500);
    ck_assert_uint_eq(r.data[0], 0);
    rig_close(&r);
}
END_TEST

int main(void)
{
    const TTest *const all[] = { copy_write_fill, a_signal_is_fence_mailbox_trap, poll_waits_beside_other_queues,
                                 ring_wraps_with_and_without_padding, indirect_buffers_and_atomics };
    Suite *suite = suite_create("cp_sdma");
    TCase *t = tcase_create("packets");
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(t, all[i]);
    tcase_add_loop_test(t, what_is_wrong_is_told_and_ends_the_queue, 0, (int)(sizeof refusals / sizeof refusals[0]));
    suite_add_tcase(suite, t);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed > 0;
}
