/* Architected packets: dispatches with completion signals, barriers, PM4 in a slot. */
#include "tests/amdsim/cp_kernels.h"
#include "tests/lib/run.h"

static const char *const chip_names[] = { "gfx1201", "gfx1100" };
enum {
    N_CHIPS = 2,
    SIGNAL = 0x8000,
    SIGNAL_2 = 0x8040,
    KD = 0x9000,
    MAILBOX = 0x8100
}; /* bytes in the data buffer */
static struct asm_unit *units[N_CHIPS];

static struct rig r;
static struct asm_unit *unit;

static struct rig_queue start(int i)
{
    unit = units[i];
    rig_open(&r, chip_names[i], unit->vm, &(struct cp_options){ .n_threads = 2 });
    return rig_queue(&r, CP_AQL, 4096);
}

/* A kernel descriptor for code at `entry`, in the data buffer. */
static gva descriptor(uint32_t off, gva entry)
{
    uint32_t *kd = r.data + off / 4, gfx12 = unit->chip->gfx12;
    int64_t rel = (int64_t)(entry - (RIG_DATA + off));
    memcpy(kd + 4, &rel, 8);
    kd[12] = gfx12 ? 0x600F0041 : 0x60AF0081;
    kd[13] = gfx12 ? 0x84 : 0x9E;
    kd[14] = 0x0408;
    return RIG_DATA + off;
}

static void signal_set(uint32_t off, int64_t value, gva mailbox, uint32_t event)
{
    memcpy(r.data + off / 4 + 4, &mailbox, 8);
    r.data[off / 4 + 6] = event;
    __atomic_store_n((int64_t *)(void *)(r.data + off / 4 + 2), value, __ATOMIC_RELEASE);
}
static int64_t signal_value(uint32_t off)
{
    return __atomic_load_n((int64_t *)(void *)(r.data + off / 4 + 2), __ATOMIC_ACQUIRE);
}

static void slot(struct rig_queue *q, uint32_t header, const uint32_t body[15])
{
    rig_push(q, &header, 1);
    rig_push(q, body, 15);
}

static void dispatch(struct rig_queue *q, gva kd, gva args, uint32_t grid, uint32_t group, gva signal)
{
    const uint32_t body[15] = { group | 1 << 16, 1,        grid,     1, 1, 0,          0,         lo(kd),
                                hi(kd),          lo(args), hi(args), 0, 0, lo(signal), hi(signal) };
    slot(q, 2 | 1 << 8 | 2 << 9 | 2 << 11 | 1 << 16, body);
}

START_TEST(a_dispatch_counts_its_signal_down)
{
    struct rig_queue q = start(_i);
    gva kd = descriptor(KD, kernel_entry(unit, K_FILL)), args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 9);
    signal_set(SIGNAL, 1, RIG_DATA + MAILBOX, 321);
    dispatch(&q, kd, args, 100, 32, RIG_DATA + SIGNAL); /* work-items: three groups and a part */
    rig_ring(&q);
    ck_assert(rig_becomes(&r.n_interrupts, 1));
    rig_expect_peace(&r);
    ck_assert_int_eq(signal_value(SIGNAL), 0);
    ck_assert_uint_eq(r.ctxid[0], 321);
    ck_assert_uint_eq(r.data[MAILBOX / 4], 321);
    ck_assert_uint_eq(r.data[1024 + 99], 108);
    ck_assert_uint_eq(r.data[1024 + 100], 0);
    ck_assert(rig_becomes64(q.rptr, 1));
    ck_assert_uint_eq(q.ring[0], 1); /* the slot is invalid again */
    rig_close(&r);
}
END_TEST

START_TEST(barriers_wait_for_their_signals)
{
    struct rig_queue q = start(_i);
    const uint32_t both[15] = { 0, lo(RIG_DATA + SIGNAL), hi(RIG_DATA), lo(RIG_DATA + SIGNAL_2), hi(RIG_DATA) };
    gva kd = descriptor(KD, kernel_entry(unit, K_FILL)), args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 9);
    signal_set(SIGNAL, 1, 0, 0);
    signal_set(SIGNAL_2, 1, 0, 0);
    slot(&q, 3 | 1 << 8, both);
    dispatch(&q, kd, args, 32, 32, 0);
    rig_ring(&q);
    signal_set(SIGNAL, 0, 0, 0);
    rig_nap(3000);
    ck_assert_uint_eq(r.data[1024], 0);
    signal_set(SIGNAL_2, 0, 0, 0);
    ck_assert(rig_becomes(&r.data[1024], 9));
    signal_set(SIGNAL, 1, 0, 0);
    slot(&q, 5 | 1 << 8, both); /* or: the second is still 0 */
    args = kernarg_put(&r, 80, RIG_DATA + 8192, 0, 9);
    dispatch(&q, kd, args, 32, 32, 0);
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[2048], 9));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(pm4_travels_in_a_slot)
{
    struct rig_queue q = start(_i);
    const uint32_t ib[] = { WRITE_DWORD(RIG_DATA + 4, 5), RELEASE_DWORD(RIG_DATA, 6) };
    uint32_t body[15] = { 0xC0023F00, lo(RIG_IB), hi(RIG_IB), sizeof ib / 4 | 1 << 23, 10 };
    body[13] = lo(RIG_DATA + SIGNAL), body[14] = hi(RIG_DATA);
    memcpy(r.ib, ib, sizeof ib);
    signal_set(SIGNAL, 4, RIG_DATA + MAILBOX, 7);
    slot(&q, 0 | 1 << 8 | 1 << 16, body);
    rig_ring(&q);
    ck_assert(rig_becomes(&r.n_interrupts, 1));
    ck_assert_uint_eq(r.data[0], 6);
    ck_assert_uint_eq(r.data[1], 5);
    ck_assert_int_eq(signal_value(SIGNAL), 3);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(a_slot_is_read_when_its_header_is_valid)
{
    struct rig_queue q = start(_i);
    gva kd = descriptor(KD, kernel_entry(unit, K_FILL)), args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 9);
    dispatch(&q, kd, args, 32, 32, 0);
    uint32_t header;
    memcpy(&header, q.ring, 4);
    q.ring[0] = 1; /* rung before the header is there, as several producers may */
    rig_ring(&q);
    rig_nap(3000);
    ck_assert_uint_eq(r.data[1024], 0);
    __atomic_store_n((uint32_t *)(void *)q.ring, header, __ATOMIC_RELEASE);
    ck_assert(rig_becomes(&r.data[1024], 9));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(a_ring_of_slots_wraps)
{
    struct rig_queue q = start(_i);
    gva kd = descriptor(KD, kernel_entry(unit, K_COUNT_UP)), args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 0);
    for (uint32_t i = 1; i <= 200; i++) {
        dispatch(&q, kd, args, 1, 1, 0);
        rig_ring(&q);
        ck_assert(rig_becomes64(q.rptr, i));
    }
    ck_assert_uint_eq(r.data[1024], 200);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(wrong_packets_are_told)
{
    struct rig_queue q = start(_i);
    const uint32_t none[15] = { 0 };
    slot(&q, 9, none);
    rig_ring(&q);
    rig_expect_fault(&r, "packet type 9");
    struct rig_queue b = rig_queue(&r, CP_AQL, 4096);
    slot(&b, 0 | 1 << 16, none);
    r.n_faults = 0;
    rig_ring(&b);
    rig_expect_fault(&r, "INDIRECT_BUFFER");
    struct rig_queue d = rig_queue(&r, CP_AQL, 4096);
    gva kd = descriptor(KD, kernel_entry(unit, K_FILL));
    r.data[KD / 4] = 4096; /* the descriptor wants LDS that the packet does not ask for */
    r.n_faults = 0;
    dispatch(&d, kd, RIG_DATA, 32, 32, 0);
    rig_ring(&d);
    rig_expect_fault(&r, "bytes of LDS");
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    for (int i = 0; i < N_CHIPS; i++)
        units[i] = kernels_build(chip_names[i]);
    const TTest *const all[] = {
        a_dispatch_counts_its_signal_down,       barriers_wait_for_their_signals, pm4_travels_in_a_slot,
        a_slot_is_read_when_its_header_is_valid, a_ring_of_slots_wraps,           wrong_packets_are_told
    };
    Suite *suite = suite_create("cp_aql");
    TCase *t = tcase_create("slots");
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_loop_test(t, all[i], 0, N_CHIPS);
    suite_add_tcase(suite, t);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed > 0;
}
