/* PM4 packets that need no shader: effects, order, refusals. */
#include "tests/amdsim/cp_rig.h"
#include "tests/lib/run.h"

static struct rig r;

static struct rig_queue start(void)
{
    rig_open(&r, "gfx1201", NULL, &(struct cp_options){ .n_threads = 1 });
    return rig_queue(&r, CP_PM4, 4096);
}

/* The read pointer has 32 bits. */
static const uint32_t *rptr32(const struct rig_queue *q)
{
    return (const uint32_t *)(const void *)q->rptr;
}

START_TEST(write_data_reaches_memory)
{
    struct rig_queue q = start();
    PUSH(&q, 0xFFFF1000);                                                                /* NOP of one dword */
    PUSH(&q, 0xC0021000, 1, 2, 3);                                                       /* NOP with a body  */
    PUSH(&q, 0xC0063700, 0x00100500, lo(RIG_DATA + 16), hi(RIG_DATA), 11, 22, 33, 44);   /* four dwords      */
    PUSH(&q, 0xC0043700, 0x00110500, lo(RIG_DATA + 64), hi(RIG_DATA), 7, 8);             /* one address      */
    PUSH(&q, WRITE_DWORD(RIG_DATA, 42));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 42));
    ck_assert_uint_eq(r.data[4], 11);
    ck_assert_uint_eq(r.data[7], 44);
    ck_assert_uint_eq(r.data[16], 8);
    ck_assert_uint_eq(r.data[17], 0);
    ck_assert(rig_becomes(rptr32(&q), q.at));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(ring_wraps_and_packets_straddle_its_end)
{
    struct rig_queue q = start();
    uint32_t *above = (uint32_t *)(void *)q.rptr + 1;
    *above = 0x5eed;
    for (uint32_t i = 1; i <= 1000; i++) { /* 5 dwords at a time in a ring of 1024: the end falls inside packets */
        PUSH(&q, WRITE_DWORD(RIG_DATA + 4 * (i % 64), i));
        rig_ring(&q);
        ck_assert(rig_becomes(&r.data[i % 64], i));
    }
    ck_assert(rig_becomes(rptr32(&q), 5000 % 1024)); /* it wraps with the ring */
    ck_assert_uint_eq(*above, 0x5eed);               /* and nothing is written above its 32 bits */
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

/* The first packet waits, so that nothing is fetched behind it; what is announced is a whole ring. */
START_TEST(a_ring_that_is_full_to_its_last_dword_is_told)
{
    for (uint32_t spare = 0; spare < 2; spare++) {
        struct rig_queue q = start();
        uint32_t n = (uint32_t)q.ring_bytes / 4;
        PUSH(&q, 0xC0053C00, 0x00000013, lo(RIG_DATA), hi(RIG_DATA), 1, 0xFFFFFFFF, 4); /* WAIT_REG_MEM, memory, equal */
        while (q.at < n - spare - 5)
            PUSH(&q, 0xFFFF1000); /* NOP of one dword */
        PUSH(&q, WRITE_DWORD(RIG_DATA + 4, 9));
        rig_ring(&q);
        r.data[0] = 1;
        ck_assert(rig_becomes(&r.data[1], 9));
        ck_assert_uint_eq(r.n_notes, spare ? 0 : 1);
        if (!spare)
            ck_assert_ptr_nonnull(strstr(r.note[0], "full to its last dword"));
        rig_close(&r);
    }
}
END_TEST

START_TEST(copy_data_between_memory_registers_and_clock)
{
    struct rig_queue q = start();
    r.data[8] = 0x12345678;
    r.data[9] = 0x9ABCDEF0;
    PUSH(&q, 0xC0044000, 0x00110202, lo(RIG_DATA + 32), hi(RIG_DATA), lo(RIG_DATA + 40), hi(RIG_DATA)); /* 64 bit   */
    PUSH(&q, 0xC0017600, 0x00000215, 0x77);                                                             /* LIMITS   */
    PUSH(&q, 0xC0044000, 0x00000200, 0x2E15, 0, lo(RIG_DATA + 48), hi(RIG_DATA));                       /* from it  */
    PUSH(&q, 0xC0044000, 0x00010205, 5, 6, lo(RIG_DATA + 56), hi(RIG_DATA)); /* immediate */
    PUSH(&q, 0xC0044000, 0x00010209, 0, 0, lo(RIG_DATA + 64), hi(RIG_DATA));                            /* clock    */
    PUSH(&q, 0xC0044000, 0x00000005, 0x99, 0, 0x2E15, 0); /* to register */
    PUSH(&q, 0xC0044000, 0x00000200, 0x2E15, 0, lo(RIG_DATA + 72), hi(RIG_DATA));
    PUSH(&q, 0xC0017900, 0x00000123, 0xABC);                                                            /* UCONFIG  */
    PUSH(&q, 0xC0044000, 0x00000200, 0xC123, 0, lo(RIG_DATA + 76), hi(RIG_DATA));
    uint64_t t0 = cp_clock();
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    uint64_t t;
    memcpy(&t, &r.data[16], 8);
    ck_assert_uint_eq(r.data[10], 0x12345678);
    ck_assert_uint_eq(r.data[11], 0x9ABCDEF0);
    ck_assert_uint_eq(r.data[12], 0x77);
    ck_assert_uint_eq(r.data[14], 5);
    ck_assert_uint_eq(r.data[15], 6);
    ck_assert(t >= t0 && t <= cp_clock());
    ck_assert_uint_eq(r.data[18], 0x99);
    ck_assert_uint_eq(r.data[19], 0xABC);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(release_mem_writes_and_interrupts)
{
    struct rig_queue q = start();
    PUSH(&q, RELEASE_DWORD(RIG_DATA + 4, 5));
    PUSH(&q, 0xC0064900, 0x514, 0x40000000, lo(RIG_DATA + 8), hi(RIG_DATA), 6, 7, 0);     /* 64 bit */
    PUSH(&q, 0xC0064900, 0x514, 0x60000000, lo(RIG_DATA + 16), hi(RIG_DATA), 0, 0, 0);    /* clock  */
    PUSH(&q, 0xC0064900, 0x514, 0x22000000, lo(RIG_DATA + 24), hi(RIG_DATA), 9, 0, 1234); /* and an interrupt */
    uint64_t t0 = cp_clock();
    rig_ring(&q);
    ck_assert(rig_becomes(&r.n_interrupts, 1));
    ck_assert_uint_eq(r.ctxid[0], 1234);
    ck_assert_uint_eq(r.data[1], 5);
    ck_assert_uint_eq(r.data[2], 6);
    ck_assert_uint_eq(r.data[3], 7);
    ck_assert_uint_eq(r.data[6], 9);
    uint64_t t;
    memcpy(&t, &r.data[4], 8);
    ck_assert(t >= t0 && t <= cp_clock());
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(a_missing_end_of_pipe_buffer_faults_at_address_0)
{
    start();
    struct rig_queue q = rig_queue_eop(&r, CP_PM4, 4096, 0);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1), RELEASE_DWORD(RIG_DATA + 4, 5));
    rig_ring(&q);
    rig_expect_fault(&r, "end-of-pipe");
    ck_assert_uint_eq(r.data[0], 1);
    ck_assert_uint_eq(r.data[1], 0);
    ck_assert(r.fault.page && r.fault.va == 0 && r.fault.not_present && r.fault.queue == q.id);
    rig_close(&r);
}
END_TEST

START_TEST(a_wait_suspends_its_queue_alone)
{
    struct rig_queue a = start(), b = rig_queue(&r, CP_PM4, 4096);
    PUSH(&a, 0xC0053C00, 0x15, lo(RIG_DATA), hi(RIG_DATA), 3, 0xFF, 4); /* memory >= 3 under mask 0xFF */
    PUSH(&a, WRITE_DWORD(RIG_DATA + 4, 1));
    rig_ring(&a);
    ck_assert(rig_becomes(rptr32(&a), 7) || *a.rptr == a.at); /* fetched though it waits */
    __atomic_store_n(&r.data[0], 0x102, __ATOMIC_RELEASE);
    PUSH(&b, WRITE_DWORD(RIG_DATA + 8, 5));
    rig_ring(&b);
    ck_assert(rig_becomes(&r.data[2], 5));
    rig_nap(2000);
    ck_assert_uint_eq(__atomic_load_n(&r.data[1], __ATOMIC_ACQUIRE), 0);
    PUSH(&b, WRITE_DWORD(RIG_DATA, 3));
    rig_ring(&b);
    ck_assert(rig_becomes(&r.data[1], 1));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(every_comparison_of_a_wait)
{
    /* function, value, reference, 1 when met at once */
    static const uint32_t cases[][4] = { { 0, 9, 1, 1 }, { 1, 1, 2, 1 }, { 1, 2, 2, 0 },          { 2, 2, 2, 1 },
                                         { 2, 3, 2, 0 }, { 3, 2, 2, 1 }, { 3, 1, 2, 0 },          { 4, 1, 2, 1 },
                                         { 4, 2, 2, 0 }, { 5, 2, 2, 1 }, { 5, 0xFFFFFFFF, 2, 1 }, { 5, 1, 2, 0 },
                                         { 6, 3, 2, 1 }, { 6, 2, 2, 0 } };
    start();
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig_queue q = rig_queue(&r, CP_PM4, 4096);
        uint64_t ref = cases[i][2] | 7ull << 32;
        r.data[64] = cases[i][1];
        r.data[65] = 7;
        r.data[0] = r.data[1] = 0;
        PUSH(&q, WRITE_DWORD(RIG_DATA + 4, 1));
        if (i % 2)
            PUSH(&q, 0xC0053C00, 0x10 | cases[i][0], lo(RIG_DATA + 256), hi(RIG_DATA), cases[i][2], ~0u, 4);
        else /* the 64-bit form */
            PUSH(&q, 0xC0079300, 0x10 | cases[i][0], lo(RIG_DATA + 256), hi(RIG_DATA), lo(ref), hi(ref), ~0u, ~0u, 4);
        PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
        rig_ring(&q);
        ck_assert(rig_becomes(&r.data[1], 1));
        if (cases[i][3]) {
            ck_assert_msg(rig_becomes(&r.data[0], 1), "function %u", cases[i][0]);
        } else {
            rig_nap(1000);
            ck_assert_msg(r.data[0] == 0, "function %u", cases[i][0]);
        }
        ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 1000), 0); /* a queue that waits can be removed */
        if (r.n_queues == 15)
            break;
    }
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(host_data_path_flush_is_write_then_wait_on_its_registers)
{
    struct rig_queue q = start();
    PUSH(&q, 0xC0053C00, 0x45, 0xE26, 0xE27, ~0u, ~0u, 0x20);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    PUSH(&q, 0xC0053C00, 0x45, 0xE28, 0xE27, ~0u, ~0u, 0x20);
    rig_ring(&q);
    rig_expect_fault(&r, "0xe28");
    rig_close(&r);
}
END_TEST

START_TEST(indirect_buffers_nest_once_and_chain)
{
    struct rig_queue q = start();
    uint32_t *ib = r.ib, n = 0;
    const uint32_t
        first[] = { WRITE_DWORD(RIG_DATA + 4, 1),  0xC0023F00, lo(RIG_IB + 1024), hi(RIG_IB), 5 | 1 << 23,
                    WRITE_DWORD(RIG_DATA + 12, 3), 0xC0023F00, lo(RIG_IB + 2048), hi(RIG_IB), 10 | 1 << 20 | 1 << 23,
                    WRITE_DWORD(RIG_DATA + 28, 99) /* never: the chain has left */ };
    const uint32_t nested[] = { WRITE_DWORD(RIG_DATA + 8, 2) };
    const uint32_t chained[] = { WRITE_DWORD(RIG_DATA + 16, 4), WRITE_DWORD(RIG_DATA + 20, 5) };
    memcpy(ib, first, sizeof first);
    memcpy(ib + 256, nested, sizeof nested);
    memcpy(ib + 512, chained, sizeof chained);
    n = sizeof first / 4;
    PUSH(&q, 0xC0023F00, lo(RIG_IB), hi(RIG_IB), n | 1 << 23);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 6));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 6));
    for (uint32_t i = 1; i <= 5; i++)
        ck_assert_uint_eq(r.data[i], i);
    ck_assert_uint_eq(r.data[7], 0);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(cond_exec_skips)
{
    struct rig_queue q = start();
    for (uint32_t condition = 0; condition < 2; condition++) {
        r.data[32] = condition;
        PUSH(&q, 0xC0032200, lo(RIG_DATA + 128), hi(RIG_DATA), 0, 10);
        PUSH(&q, WRITE_DWORD(RIG_DATA + 4, 10 + condition), WRITE_DWORD(RIG_DATA + 8, 20 + condition));
        PUSH(&q, WRITE_DWORD(RIG_DATA, 1 + condition));
        rig_ring(&q);
        ck_assert(rig_becomes(&r.data[0], 1 + condition));
        ck_assert_uint_eq(r.data[1], condition ? 11 : 0);
        ck_assert_uint_eq(r.data[2], condition ? 21 : 0);
    }
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(atomics_by_their_numbers)
{
    /* op, before, source, compare, after; 64-bit ones on a pair whose upper half is 1 */
    static const struct { uint32_t op; uint64_t before, src, cmp, after;
    } cases[] = {
        { 7, 5, 9, 0, 9 },
        { 8, 5, 9, 5, 9 },
        { 8, 5, 9, 6, 5 },
        { 15, 5, 9, 0, 14 },
        { 16, 5, 9, 0, 0xFFFFFFFC },
        { 17, 0xFFFFFFFF, 1, 0, 0xFFFFFFFF },
        { 18, 0xFFFFFFFF, 1, 0, 1 },
        { 19, 0xFFFFFFFF, 1, 0, 1 },
        { 20, 0xFFFFFFFF, 1, 0, 0xFFFFFFFF },
        { 21, 12, 10, 0, 8 },
        { 22, 12, 10, 0, 14 },
        { 23, 12, 10, 0, 6 },
        { 24, 5, 5, 0, 0 },
        { 24, 4, 5, 0, 5 },
        { 25, 0, 7, 0, 7 },
        { 25, 9, 7, 0, 7 },
        { 25, 5, 7, 0, 4 },
        { 15 + 64, 1, 1, 0, 2 },
        { 15 + 32, 0x1FFFFFFFFull, 1, 0, 0x200000000ull },
        { 15, 0x1FFFFFFFFull, 1, 0, 0x100000000ull },
        { 8 + 32, 0x100000005ull, 9, 0x100000005ull, 9 },
        { 17 + 32, 1ull << 63, 1, 0, 1ull << 63 },
    };
    struct rig_queue q = start();
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(&r.data[64], &cases[i].before, 8);
        PUSH(&q, 0xC0071E00, cases[i].op, lo(RIG_DATA + 256), hi(RIG_DATA), lo(cases[i].src), hi(cases[i].src),
             lo(cases[i].cmp), hi(cases[i].cmp), 0);
        PUSH(&q, 0xC0044000, 0x00010206, 0, 0, lo(RIG_DATA + 264), hi(RIG_DATA)); /* what it returned */
        PUSH(&q, WRITE_DWORD(RIG_DATA, i + 1));
        rig_ring(&q);
        ck_assert(rig_becomes(&r.data[0], i + 1));
        uint64_t after, before;
        memcpy(&after, &r.data[64], 8);
        memcpy(&before, &r.data[66], 8);
        ck_assert_msg(after == cases[i].after, "op %u: 0x%llx", cases[i].op, (unsigned long long)after);
        ck_assert_uint_eq(before, cases[i].op & 32 ? cases[i].before : lo(cases[i].before));
    }
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(atomic_loop_waits_for_its_value)
{
    struct rig_queue q = start();
    r.data[1] = 1;
    PUSH(&q, 0xC0071E00, 8 | 1 << 8, lo(RIG_DATA + 4), hi(RIG_DATA), 7, 0, 0, 0, 10); /* a lock: 0 -> 7 */
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    rig_nap(2000);
    ck_assert_uint_eq(r.data[0], 0);
    __atomic_store_n(&r.data[1], 0, __ATOMIC_RELEASE);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert_uint_eq(r.data[1], 7);
    rig_close(&r);
}
END_TEST

START_TEST(dma_data_copies_and_fills_across_pages)
{
    struct rig_queue q = start();
    for (uint32_t i = 0; i < 4096; i++)
        r.data[1024 + i] = i * 2654435761u;
    PUSH(&q, 0xC0055000, 0x60300000, lo(RIG_DATA + 4096), hi(RIG_DATA), lo(RIG_DATA + 0x10004), hi(RIG_DATA), 16384);
    PUSH(&q, 0xC0055000, 0x40300000, 0xA5A51234, 0, lo(RIG_DATA + 0x20000), hi(RIG_DATA), 8192);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert_mem_eq(&r.data[0x10004 / 4], &r.data[1024], 16384);
    ck_assert_uint_eq(r.data[0x20000 / 4], 0xA5A51234);
    ck_assert_uint_eq(r.data[0x20000 / 4 + 2047], 0xA5A51234);
    ck_assert_uint_eq(r.data[0x20000 / 4 + 2048], 0);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(rarer_packets)
{
    struct rig_queue q = start();
    const uint32_t body[] = { 0xC0002300, 0x01000005, WRITE_DWORD(RIG_DATA + 4, 1),  /* PRED_EXEC: for complex 0  */
                              0xC0002300, 0x02000005, WRITE_DWORD(RIG_DATA + 8, 1),  /* for another               */
                              0xC0005900, 0, WRITE_DWORD(RIG_DATA, 1) };             /* REWIND: until it is valid */
    r.data[64] = 0x11, r.data[65] = 0x22;
    memcpy(r.ib, body, sizeof body);
    PUSH(&q, 0xC000BA00 | 3 << 16, 0x215, 0x33, 0x20A, 0x44);                        /* SET_SH_REG_PAIRS          */
    PUSH(&q, 0xC0044000, 0x00000200, 0x2E15, 0, lo(RIG_DATA + 16), hi(RIG_DATA));
    PUSH(&q, 0xC0044000, 0x00000200, 0x2E0A, 0, lo(RIG_DATA + 20), hi(RIG_DATA));
    PUSH(&q, 0xC0036300, lo(RIG_DATA + 256), hi(RIG_DATA), 0x240, 2);                /* LOAD_SH_REG_INDEX         */
    PUSH(&q, 0xC0044000, 0x00010200, 0x2E40, 0, lo(RIG_DATA + 24), hi(RIG_DATA));
    PUSH(&q, 0xC0019B00, 0x30000216, 0x7);                                           /* SET_SH_REG_INDEX          */
    PUSH(&q, 0xC0044000, 0x00000200, 0x2E16, 0, lo(RIG_DATA + 32), hi(RIG_DATA));
    PUSH(&q, 0xC0009500, 0);                                                         /* HDP_FLUSH                 */
    PUSH(&q, 0xC0004600, 0x19);                                                      /* EVENT_WRITE for profiling */
    PUSH(&q, 0xC0023F00, lo(RIG_IB), hi(RIG_IB), sizeof body / 4 | 1 << 23);
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[1], 1));
    rig_nap(1000);
    ck_assert_uint_eq(__atomic_load_n(&r.data[0], __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&r.ib[15], 1u << 31, __ATOMIC_RELEASE);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert_uint_eq(r.data[2], 0);
    ck_assert_uint_eq(r.data[4], 0x33);
    ck_assert_uint_eq(r.data[5], 0x44);
    ck_assert_uint_eq(r.data[6], 0x11);
    ck_assert_uint_eq(r.data[7], 0x22);
    ck_assert_uint_eq(r.data[8], 7);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

/* One packet that ends the queue, and the words that say why; the packet behind it never runs. */
static const struct refusal { const char *why; uint32_t n, dw[12]; } refusals[] = {
    { "opcode 0xee", 2, { 0xC000EE00, 0 } },
    { "type 0", 1, { 0x00001000 } },
    { "type 2", 1, { 0x80000000 } },
    { "SET_BASE", 4, { 0xC0021100, 1, 0, 0 } },
    { "only the driver", 2, { 0xC0009800, 0 } },
    { "bits 7:3", 2, { 0xC0001008, 0 } },
    { "6 dwords follow", 7, { 0xC0054900, 0x514, 0x20000000, 0, 0, 0, 0 } },
    { "reserved", 5, { 0xC0033700, 0x00108500, 0, 2, 1 } },
    { "dst_sel 7", 5, { 0xC0033700, 0x00100700, 0, 2, 1 } },
    { "not a multiple of 4", 5, { 0xC0033700, 0x00100500, 2, 2, 1 } },
    { "none that a compute queue", 3, { 0xC0017600, 0x00000010, 1 } },
    { "none that a compute queue", 3, { 0xC0017600, 0x00000223 + 6, 1 } },
    { "COMPUTE_VMID", 3, { 0xC0017600, 0x00000214, 1 } },
    { "register 0x1234", 6, { 0xC0044000, 0x00000200, 0x1234, 0, 0, 2 } },
    { "counters are not modelled", 6, { 0xC0044000, 0x00000204, 0xd9bc, 0, 0, 2 } },
    { "event type 0x1", 2, { 0xC0004600, 0x101 } },
    { "0x407", 2, { 0xC0004600, 0x7 } },
    { "data_sel 7", 8, { 0xC0064900, 0x514, 0xE0000000, 0, 2, 0, 0, 0 } },
    { "valid bit", 4, { 0xC0023F00, 0, 3, 8 } },
    { "0 dwords", 4, { 0xC0023F00, 0, 3, 1 << 23 } },
    { "VMID 3", 4, { 0xC0023F00, 0, 3, 8 | 1 << 23 | 3 << 24 } },
    { "cannot chain", 4, { 0xC0023F00, 0, 3, 8 | 1 << 20 | 1 << 23 } },
    { "function 7", 7, { 0xC0053C00, 0x17, 0, 2, 0, 0, 0 } },
    { "operation 31", 9, { 0xC0071E00, 31, 0, 2, 0, 0, 0, 0, 0 } },
    { "NUM_THREAD_X", 5, { 0xC0031500, 1, 1, 1, 0x8005 } },
    { "COMPUTE_SHADER_EN", 5, { 0xC0031500, 1, 1, 1, 0x8004 } },
    { "CS_W32_EN", 5, { 0xC0031500, 1, 1, 1, 0x5 } },
    { "page fault, write of 0x900000000", 5, { 0xC0033700, 0x00100500, 0, 9, 1 } },
    { "page fault, read of 0x900000000", 4, { 0xC0023F00, 0, 9, 8 | 1 << 23 } },
};

START_TEST(what_is_wrong_is_told_and_ends_the_queue)
{
    const struct refusal *f = &refusals[_i];
    struct rig_queue q = start();
    rig_push(&q, f->dw, f->n);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    rig_expect_fault(&r, f->why);
    rig_nap(500);
    ck_assert_uint_eq(r.data[0], 0);
    ck_assert_uint_eq(r.n_faults, 1);
    ck_assert_int_eq(r.fault.page, strstr(f->why, "page fault") != NULL);
    ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 1000), 0);
    struct rig_queue other = rig_queue(&r, CP_PM4, 4096); /* the others live on */
    PUSH(&other, WRITE_DWORD(RIG_DATA, 2));
    rig_ring(&other);
    ck_assert(rig_becomes(&r.data[0], 2));
    rig_close(&r);
}
END_TEST

START_TEST(doorbell_before_the_write_pointer_is_noted)
{
    struct rig_queue q = start();
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    __atomic_store_n(q.doorbell, q.at, __ATOMIC_SEQ_CST);
    rig_expect_note(&r, "write pointer in memory is 0");
    rig_close(&r);
}
END_TEST

START_TEST(half_of_a_doorbell_is_noted)
{
    struct rig_queue q = start();
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    *q.wptr = q.at;
    __atomic_store_n((uint32_t *)q.doorbell, (uint32_t)q.at, __ATOMIC_SEQ_CST);
    rig_expect_note(&r, "half of the cell");
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_close(&r);
}
END_TEST

START_TEST(overrun_of_the_ring_is_noted)
{
    struct rig_queue q = start();
    for (uint32_t i = 0; i < 1030; i++)
        PUSH(&q, 0xFFFF1000);
    rig_ring(&q);
    rig_expect_note(&r, "overwritten");
    rig_close(&r);
}
END_TEST

START_TEST(strict_makes_doorbell_misuse_a_fault)
{
    rig_open(&r, "gfx1201", NULL, &(struct cp_options){ .n_threads = 1, .strict = true });
    struct rig_queue q = rig_queue(&r, CP_PM4, 4096);
    PUSH(&q, WRITE_DWORD(RIG_DATA, 1));
    __atomic_store_n(q.doorbell, q.at, __ATOMIC_SEQ_CST);
    rig_expect_fault(&r, "store the write pointer, fence");
    rig_close(&r);
}
END_TEST

static uint64_t done_point;
static void on_done(void *user, uint64_t point) { __atomic_store_n(&done_point, point, __ATOMIC_RELEASE); }

START_TEST(submissions_of_the_driver_run_in_order)
{
    start();
    const uint32_t a[] = { WRITE_DWORD(RIG_DATA, 1) }, b[] = { WRITE_DWORD(RIG_DATA, 2) };
    const uint32_t sdma[] = { 0x30005, lo(RIG_DATA + 8), hi(RIG_DATA), 77, 0, 0, 0, 0 };
    memcpy(r.ib, a, sizeof a);
    memcpy(r.ib + 64, b, sizeof b);
    memcpy(r.ib + 128, sdma, sizeof sdma);
    const struct cp_ib ib[] = { { RIG_IB, 5 }, { RIG_IB + 256, 5 } }, copy = { RIG_IB + 512, 8 },
                       bad = { 0x900000000ull, 8 };
    ck_assert_int_eq(cp_submit(r.c, r.vm, false, ib, 2, 17, on_done, NULL), 0);
    ck_assert(rig_becomes64(&done_point, 17));
    ck_assert_uint_eq(r.data[0], 2);
    ck_assert_int_eq(cp_submit(r.c, r.vm, true, &copy, 1, 18, on_done, NULL), 0);
    ck_assert(rig_becomes64(&done_point, 18));
    ck_assert_uint_eq(r.data[2], 77);
    rig_expect_peace(&r);
    ck_assert_int_eq(cp_submit(r.c, r.vm, false, &bad, 1, 19, on_done, NULL), 0);
    ck_assert(rig_becomes64(&done_point, 19));
    rig_expect_fault(&r, "0x900000000");
    ck_assert_int_eq(cp_submit(r.c, r.vm, false, ib, 1, 20, on_done, NULL), 0);
    ck_assert(rig_becomes64(&done_point, 20));
    rig_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cp_pm4");
    TCase *t = tcase_create("packets"), *f = tcase_create("refusals");
    static const TTest *const *tests;
    const TTest *const all[] = { write_data_reaches_memory,
                                 ring_wraps_and_packets_straddle_its_end,
                                 a_ring_that_is_full_to_its_last_dword_is_told,
                                 copy_data_between_memory_registers_and_clock,
                                 release_mem_writes_and_interrupts,
                                 a_missing_end_of_pipe_buffer_faults_at_address_0,
                                 a_wait_suspends_its_queue_alone,
                                 every_comparison_of_a_wait,
                                 host_data_path_flush_is_write_then_wait_on_its_registers,
                                 indirect_buffers_nest_once_and_chain,
                                 cond_exec_skips,
                                 atomics_by_their_numbers,
                                 atomic_loop_waits_for_its_value,
                                 dma_data_copies_and_fills_across_pages,
                                 rarer_packets,
                                 doorbell_before_the_write_pointer_is_noted,
                                 half_of_a_doorbell_is_noted,
                                 overrun_of_the_ring_is_noted,
                                 strict_makes_doorbell_misuse_a_fault,
                                 submissions_of_the_driver_run_in_order };
    tests = all;
    tcase_set_timeout(t, 60);
    tcase_set_timeout(f, 60);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(t, tests[i]);
    tcase_add_loop_test(f, what_is_wrong_is_told_and_ends_the_queue, 0, (int)(sizeof refusals / sizeof refusals[0]));
    suite_add_tcase(suite, t);
    suite_add_tcase(suite, f);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed > 0;
}
