/* Dispatches through PM4: from registers to work-groups, on gfx12 and gfx11. Each test runs for both chips. */
#include <errno.h>

#include "tests/amdsim/cp_kernels.h"
#include "tests/lib/run.h"

static const char *const chip_names[] = { "gfx1201", "gfx1100" };
enum { N_CHIPS = 2 };
static struct asm_unit *units[N_CHIPS];

static struct rig r;
static const struct chip *chip;
static struct asm_unit *unit;

static struct rig_queue start_with(int i, struct cp_options o)
{
    unit = units[i];
    chip = unit->chip;
    rig_open(&r, chip_names[i], unit->vm, &o);
    return rig_queue(&r, CP_PM4, 16384);
}
static struct rig_queue start(int i) { return start_with(i, (struct cp_options){ .n_threads = 2 }); }

static gva entry(int k) { return kernel_entry(unit, k); }

START_TEST(the_worked_stream_runs_a_kernel)
{
    struct rig_queue q = start(_i);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1000);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 40 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    for (uint32_t i = 0; i < 40 * 32; i++)
        ck_assert_uint_eq(r.data[1024 + i], 1000 + i);
    ck_assert_uint_eq(r.data[1024 + 40 * 32], 0);
    struct isa_counts k;
    uint64_t dispatches, packets, busy;
    cp_counts(r.c, &k, &dispatches, &packets, &busy, NULL, NULL);
    ck_assert_uint_eq(dispatches, 1);
    ck_assert_uint_eq(packets, 13);
    ck_assert_uint_eq(k.waves, 40);
    ck_assert(k.insts >= 40 * 9 && busy > 0);
    rig_close(&r);
}
END_TEST

START_TEST(dispatches_of_a_queue_run_in_order)
{
    struct rig_queue q = start(_i);
    for (uint32_t i = 0; i < 20; i++) { /* each adds 1 to what the one before left */
        gva args =
            kernarg_put(&r, 64 + 8 * i, RIG_DATA + 4096 + 8192 * (i & 1), RIG_DATA + 4096 + 8192 * (~i & 1), 1);
        launch_push(&q, chip,
                    &(struct launch){ .entry = entry(K_COPY), .kernarg = args, .groups = { 50 }, .no_flush = true });
    }
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    for (uint32_t i = 0; i < 50 * 32; i++)
        ck_assert_uint_eq(r.data[1024 + i], 20);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(partial_groups_and_threads_as_dimensions)
{
    struct rig_queue q = start(_i);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1);
    launch_push(
        &q, chip,
        &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 100, 1, 1 }, .initiator = 0x8025 });
    args = kernarg_put(&r, 80, RIG_DATA + 8192, 0, 1);
    launch_push(&q, chip,
                &(struct launch){ .entry = entry(K_FILL),
                                  .kernarg = args,
                                  .groups = { 3 },
                                  .initiator = 0x8007,
                                  .threads = { 32 | 7 << 16, 1 | 1 << 16, 1 | 1 << 16 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    ck_assert_uint_eq(r.data[1024 + 99], 100);
    ck_assert_uint_eq(r.data[1024 + 100], 0);
    ck_assert_uint_eq(r.data[2048 + 64 + 6], 71);
    ck_assert_uint_eq(r.data[2048 + 64 + 7], 0);
    rig_close(&r);
}
END_TEST

START_TEST(a_start_begins_the_grid_and_the_dimension_ends_it)
{
    struct rig_queue q = start(_i);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 5 }, .start = { 2 },
                                            .initiator = 0x8001 });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    for (uint32_t i = 0; i < 6 * 32; i++)
        ck_assert_uint_eq(r.data[1024 + i], i >= 64 && i < 160 ? i + 1 : 0);
    rig_close(&r);
}
END_TEST

START_TEST(indirect_dispatches_read_their_grid)
{
    struct rig_queue q = start(_i);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1);
    r.data[8] = 3, r.data[9] = 1, r.data[10] = 1;
    r.data[12] = 0, r.data[13] = 1, r.data[14] = 1; /* an empty grid is no error */
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .indirect = RIG_DATA + 32 });
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_ENDLESS), .kernarg = args, .indirect = RIG_DATA + 48 });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    ck_assert_uint_eq(r.data[1024 + 95], 96);
    ck_assert_uint_eq(r.data[1024 + 96], 0);
    rig_close(&r);
}
END_TEST

/* Work-groups that all sleep until all have come, each with a compute unit's LDS for itself. */
static struct rig_queue meet(int i, uint32_t groups)
{
    struct rig_queue q = start_with(i, (struct cp_options){ .n_threads = 2, .deadlock_ms = 50 });
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, RIG_DATA + 8192, 32 * groups);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_MEET), .kernarg = args, .groups = { groups }, .lds_bytes = 64 << 10 });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    return q;
}

START_TEST(so_many_groups_as_the_card_holds_meet)
{
    meet(_i, chip_find(chip_names[_i])->n_cu);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    ck_assert_uint_eq(r.data[2048 + 32 * (chip->n_cu - 1)], 32 * (chip->n_cu - 1));
    rig_close(&r);
}
END_TEST

START_TEST(one_group_more_is_a_deadlock)
{
    char words[100];
    meet(_i, chip_find(chip_names[_i])->n_cu + 1);
    snprintf(words, sizeof words, "deadlock: %u work-groups are on the card, and all of them wait; 1 more did not fit it", chip->n_cu);
    rig_expect_fault(&r, words);
    ck_assert_ptr_nonnull(strstr(r.fault.text, ", wave 0, pc 0x"));
    ck_assert_ptr_nonnull(strstr(r.fault.text, "s_sleep"));
    rig_close(&r);
}
END_TEST

START_TEST(groups_that_wait_for_each_other_get_on)
{
    struct rig_queue q = start_with(_i, (struct cp_options){ .n_threads = 1 });
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 0);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FLAGS), .kernarg = args, .groups = { 16 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(queues_run_at_the_same_time)
{
    struct rig_queue a = start_with(_i, (struct cp_options){ .n_threads = 1 }), b = rig_queue(&r, CP_PM4, 16384);
    gva wait = kernarg_put(&r, 64, RIG_DATA + 4, RIG_DATA + 4096, 77), set = kernarg_put(&r, 80, RIG_DATA + 4, 0, 77);
    launch_push(&a, chip, &(struct launch){ .entry = entry(K_SPIN), .kernarg = wait, .groups = { 2 } });
    PUSH(&a, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&a);
    rig_nap(5000);
    ck_assert_uint_eq(r.data[0], 0);
    launch_push(
        &b, chip,
        &(struct launch){ .entry = entry(K_FILL), .kernarg = set, .groups = { 1 } }); /* its acquire drops code */
    rig_ring(&b);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert_uint_eq(r.data[1024 + 63], 63);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(atomics_of_all_groups_add_up)
{
    struct rig_queue q = start(_i);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 0);
    launch_push(
        &q, chip,
        &(struct launch){ .entry = entry(K_COUNT_UP), .kernarg = args, .groups = { 20, 3, 2 }, .threads = { 64 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert_uint_eq(r.data[1024], 20 * 3 * 2 * 64);
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

START_TEST(waves_have_scratch_of_their_own)
{
    struct rig_queue q = start(_i);
    gva scratch = 0x500000000ull, args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 0);
    rig_map(&r, scratch, 64 << 10, VM_WRITE | VM_VRAM);
    launch_push(&q, chip,
                &(struct launch){ .entry = entry(K_SCRATCH),
                                  .kernarg = args,
                                  .groups = { 100 },
                                  .scratch = scratch,
                                  .rsrc2_more = 1,
                                  .tmpring = 2 | 1 << 12 }); /* 2 waves an engine, 256 bytes */
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    for (uint32_t i = 0; i < 3200; i++)
        ck_assert_uint_eq(r.data[1024 + i], i);
    rig_close(&r);
}
END_TEST

START_TEST(every_packet_and_dispatch_has_a_line_in_the_trace)
{
    char path[] = "/tmp/cp_trace.XXXXXX", text[4096];
    int fd = mkstemp(path);
    struct rig_queue q = start_with(_i, (struct cp_options){ .n_threads = 1, .trace = path });
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 0);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 3 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_close(&r);
    ssize_t n = read(fd, text, sizeof text - 1);
    ck_assert(n > 0);
    text[n] = 0;
    ck_assert(strstr(text, "ring at 0  ACQUIRE_MEM gcr 0xc3f1") && strstr(text, "COMPUTE_PGM_RSRC1_2"));
    ck_assert(strstr(text, "3x1x1 groups of 32x1x1") && strstr(text, "CS_PARTIAL_FLUSH") &&
              strstr(text, "RELEASE_MEM"));
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(a_wild_store_is_a_page_fault_that_names_its_kernel)
{
    struct rig_queue q = start(_i);
    char words[64];
    gva args = kernarg_put(&r, 64, 0x900000000ull, 0, 0);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 8 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    snprintf(words, sizeof words, "kernel 0x%llx", (unsigned long long)entry(K_FILL));
    rig_expect_fault(&r, words);
    ck_assert(strstr(r.fault.text, "dispatch 1") && strstr(r.fault.text, "global_store"));
    ck_assert(r.fault.page && r.fault.write && r.fault.not_present && r.fault.va >> 16 == 0x900000000ull >> 16);
    rig_nap(1000);
    ck_assert_uint_eq(r.data[0], 0);
    ck_assert_uint_eq(r.n_faults, 1);
    ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 1000), 0);
    rig_close(&r);
}
END_TEST

START_TEST(code_must_be_executable)
{
    struct rig_queue q = start(_i);
    launch_push(&q, chip, &(struct launch){ .entry = RIG_DATA + 4096, .kernarg = RIG_DATA, .groups = { 1 } });
    rig_ring(&q);
    rig_expect_fault(&r, "execut");
    ck_assert(r.fault.page && r.fault.exec);
    rig_close(&r);
}
END_TEST

START_TEST(too_many_instructions_are_a_hang)
{
    struct rig_queue q = start_with(_i, (struct cp_options){ .n_threads = 2, .hang_insts = 2000000 });
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_ENDLESS), .kernarg = RIG_DATA, .groups = { 3 } });
    rig_ring(&q);
    rig_expect_fault(&r, "hang");
    ck_assert(!r.fault.page);
    ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 5000), 0);
    rig_close(&r);
}
END_TEST

START_TEST(an_endless_kernel_cannot_be_removed_without_reset)
{
    struct rig_queue q = start(_i), other = rig_queue(&r, CP_PM4, 4096);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_ENDLESS), .kernarg = RIG_DATA, .groups = { 3 } });
    rig_ring(&q);
    PUSH(&other, WRITE_DWORD(RIG_DATA + 4, 1)); /* others go on beside it */
    rig_ring(&other);
    ck_assert(rig_becomes(&r.data[1], 1));
    cp_quiesce(r.c);                            /* returns, though it never ends */
    ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 50), -ETIME);
    cp_reset(r.c);
    ck_assert_int_eq(cp_queue_destroy(r.c, q.id, 50), 0);
    ck_assert_int_eq(cp_queue_destroy(r.c, other.id, 50), 0);
    rig_close(&r);
}
END_TEST

START_TEST(new_code_at_an_old_address_needs_an_invalidate)
{
    struct rig_queue q = start(_i);
    gva va = 0x600000000ull, args = kernarg_put(&r, 64, RIG_DATA + 4096, RIG_DATA + 8192, 5);
    uint8_t *code = rig_map(&r, va, VM_PAGE, VM_EXEC | VM_HOST);
    for (uint32_t round = 0; round < 3; round++) {
        memcpy(code, unit->text + unit->at[round ? K_COPY : K_FILL], 256);
        launch_push(&q, chip,
                    &(struct launch){ .entry = va, .kernarg = args, .groups = { 1 }, .no_acquire = round == 1 });
        PUSH(&q, RELEASE_DWORD(RIG_DATA, round + 1));
        rig_ring(&q);
        ck_assert(rig_becomes(&r.data[0], round + 1));
        ck_assert_uint_eq(r.data[1024], 5);
        ck_assert_uint_eq(r.data[2048], round == 2 ? 10 : 0);
    }
    rig_expect_peace(&r);
    vm_unmap(unit->vm, va, VM_PAGE);
    rig_close(&r);
}
END_TEST

START_TEST(skipped_dispatches_complete_without_running)
{
    struct rig_queue q = start_with(_i, (struct cp_options){ .n_threads = 1, .skip_execution = true });
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_ENDLESS), .kernarg = RIG_DATA, .groups = { 3 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    rig_close(&r);
}
END_TEST

static const struct bad { const char *why; struct launch l; } bad[] = {
    { "LDS_SIZE", { .groups = { 1 }, .lds_bytes = 66000 } },
    { "TMPRING_SIZE", { .groups = { 1 }, .rsrc2_more = 1 } },
    { "TMPRING_SIZE", { .groups = { 1 }, .rsrc2_more = 1, .tmpring = 1 } },
    { "threads in a work-group", { .groups = { 1 }, .threads = { 512, 3, 1 } } },
    { "reserved", { .groups = { 1 }, .initiator = 0x80008005 } },
    { "ordered append", { .groups = { 1 }, .initiator = 0x800D } },
    { "START_X", { .groups = { 1 }, .start = { 4 }, .initiator = 0x8001 } },
};

START_TEST(launches_that_hardware_would_punish)
{
    struct rig_queue q = start(_i % N_CHIPS);
    struct launch l = bad[_i / N_CHIPS].l;
    l.entry = entry(K_FILL);
    l.kernarg = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1);
    launch_push(&q, chip, &l);
    rig_ring(&q);
    rig_expect_fault(&r, bad[_i / N_CHIPS].why);
    ck_assert(!r.fault.page);
    rig_close(&r);
}
END_TEST

#define SAVE 0x500000000ull

/* A kernel of 40 work-groups that leave the card every few instructions; ctl: bytes of the control stack. */
static struct rig_queue preempted(int i, uint64_t ctl, bool strict)
{
    enum { AREA = 64 << 20 };
    unit = units[i];
    chip = unit->chip;
    rig_open(&r, chip_names[i], unit->vm, &(struct cp_options){ .n_threads = 2, .preempt_insts = 4, .strict = strict });
    r.save = SAVE + VM_PAGE; /* a page before it, for what goes wrong */
    r.save_bytes = AREA - VM_PAGE;
    r.ctl_bytes = ctl;
    rig_map(&r, SAVE, AREA, VM_WRITE | VM_VRAM);
    struct rig_queue q = rig_queue(&r, CP_PM4, 16384);
    gva args = kernarg_put(&r, 64, RIG_DATA + 4096, 0, 1000);
    launch_push(&q, chip, &(struct launch){ .entry = entry(K_FILL), .kernarg = args, .groups = { 40 } });
    PUSH(&q, RELEASE_DWORD(RIG_DATA, 1));
    rig_ring(&q);
    return q;
}

/* What kfd_queue_ctx_save_restore_size computes. */
static uint64_t control_stack(int i)
{
    return (40 + units[i]->chip->n_cu * 32 * 12 + 8 + VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
}

START_TEST(preempted_waves_have_an_entry_in_the_control_stack)
{
    preempted(_i, control_stack(_i), true);
    ck_assert(rig_becomes(&r.data[0], 1));
    rig_expect_peace(&r);
    for (uint32_t i = 0; i < 40 * 32; i++)
        ck_assert_uint_eq(r.data[1024 + i], 1000 + i);
    uint32_t words[3];
    gva lowest = r.save + r.ctl_bytes - units[_i]->chip->n_cu * 32 * 12, where;
    ck_assert(vm_read(r.vm, lowest, words, sizeof words, &where));
    ck_assert_uint_ne(words[0], 0);
    ck_assert_uint_ge(lowest, r.save + 40);
    vm_unmap(r.vm, SAVE, 64 << 20);
    rig_close(&r);
}
END_TEST

/* A page too small: without the checks of newer kernels nobody says so, and memory before the area is written over. */
START_TEST(a_control_stack_that_is_too_small_is_a_finding)
{
    preempted(_i, control_stack(_i) - VM_PAGE, true);
    rig_expect_fault(&r, "the control stack of ");
    vm_unmap(r.vm, SAVE, 64 << 20);
    rig_close(&r);
}
END_TEST

START_TEST(a_control_stack_that_is_too_small_writes_elsewhere)
{
    uint8_t before[VM_PAGE];
    gva where;
    uint32_t n = 0;
    preempted(_i, control_stack(_i) - 2 * VM_PAGE, false);
    ck_assert(rig_becomes(&r.data[0], 1));
    ck_assert(vm_read(r.vm, SAVE, before, sizeof before, &where));
    for (uint32_t i = 0; i < VM_PAGE; i++)
        n += before[i] != 0;
    ck_assert_uint_gt(n, 0);
    vm_unmap(r.vm, SAVE, 64 << 20);
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    for (int i = 0; i < N_CHIPS; i++)
        units[i] = kernels_build(chip_names[i]);
    const TTest *const all[] = { the_worked_stream_runs_a_kernel,
                                 dispatches_of_a_queue_run_in_order,
                                 partial_groups_and_threads_as_dimensions,
                                 a_start_begins_the_grid_and_the_dimension_ends_it,
                                 indirect_dispatches_read_their_grid,
                                 so_many_groups_as_the_card_holds_meet, one_group_more_is_a_deadlock,
                                 groups_that_wait_for_each_other_get_on,
                                 queues_run_at_the_same_time,
                                 atomics_of_all_groups_add_up,
                                 waves_have_scratch_of_their_own,
                                 every_packet_and_dispatch_has_a_line_in_the_trace,
                                 a_wild_store_is_a_page_fault_that_names_its_kernel,
                                 code_must_be_executable,
                                 too_many_instructions_are_a_hang,
                                 an_endless_kernel_cannot_be_removed_without_reset,
                                 new_code_at_an_old_address_needs_an_invalidate,
                                 skipped_dispatches_complete_without_running,
                                 preempted_waves_have_an_entry_in_the_control_stack,
                                 a_control_stack_that_is_too_small_is_a_finding,
                                 a_control_stack_that_is_too_small_writes_elsewhere };
    Suite *suite = suite_create("cp_dispatch");
    TCase *t = tcase_create("dispatch");
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_loop_test(t, all[i], 0, N_CHIPS);
    tcase_add_loop_test(t, launches_that_hardware_would_punish, 0, N_CHIPS * (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(suite, t);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed > 0;
}
