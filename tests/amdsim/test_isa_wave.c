/* Work-groups: what a wave finds at its start, barriers, turns, limits of what it was given, the checks of strict
 * launches, and the watch on memory. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdsim/isa_asm.h"

#define BUF 0x200000ull
static const char *chip_of(int i) { return i ? "gfx1100" : "gfx1201"; }

static struct asm_unit *unit(const char *chip, const char *text)
{
    return asm_build(chip, &text, 1);
}

/* Runs work-group `id` and gives its wave i, whose group the caller destroys. */
static struct isa_group *run(const struct isa_launch *l, const uint32_t id[3], enum isa_status expect)
{
    struct isa_group *g = isa_group_create(l, id, 0);
    enum isa_status rc = isa_group_run(g, 1000000);
    ck_assert_msg(rc == expect, "status %d, expected %d: %s", rc, expect, isa_group_fault(g)->text);
    return g;
}

START_TEST(first_registers_are_as_the_hardware_sets_them)
{
    struct asm_unit *u = unit(chip_of(_i), "s_nop 0");
    struct isa_launch l = asm_launch(u, 0);
    uint32_t user = _i ? 13 : 2; /* gfx1100: padded so that three ids end at s15 */
    uint32_t id[3] = { 5, 6, 7 };
    memcpy(l.threads, (uint32_t[3]){ 9, 5, 2 }, sizeof l.threads);
    memcpy(l.groups, (uint32_t[3]){ 10, 10, 10 }, sizeof l.groups);
    l.rsrc2 = user << 1 | 7u << 7 | 2u << 11 | 1u << 15;
    for (uint32_t i = 0; i < 16; i++)
        l.user_data[i] = 1000 + i;
    struct isa_group *g = run(&l, id, ISA_DONE);
    ck_assert_uint_eq(g->n_waves, 3); /* 90 work-items */
    ck_assert_uint_eq(g->lds_bytes, 512);
    for (uint32_t i = 0; i < g->n_waves; i++) {
        struct wave *w = &g->w[i];
        for (uint32_t k = 0; k < user; k++)
            ck_assert_uint_eq(w->s[k], 1000 + k);
        if (_i) {
            ck_assert(w->s[13] == 5 && w->s[14] == 6 && w->s[15] == 7);
        } else {
            ck_assert_uint_eq(w->s[OPND_TTMP + 9], 5);
            ck_assert_uint_eq(w->s[OPND_TTMP + 7], 7 << 16 | 6);
            ck_assert_uint_eq(w->s[OPND_TTMP + 8] >> 25 & 31, i);
        }
        ck_assert_uint_eq(w->s[OPND_EXEC], i < 2 ? ~0u : (1u << 26) - 1);
        ck_assert_uint_eq(w->mode & 0x3ff, _i ? 0x3f0 : 0x0f0);
        for (uint32_t k = 0; k < (i < 2 ? 32u : 26u); k++) {
            uint32_t n = i * 32 + k;
            ck_assert_uint_eq(w->v[0][k], n % 9 | n / 9 % 5 << 10 | n / 45 << 20);
        }
    }
    isa_group_destroy(g);
    /* The last work-group of x has 4 work-items there. */
    l.partial[0] = 4;
    id[0] = 9;
    g = run(&l, id, ISA_DONE);
    ck_assert_uint_eq(g->n_threads, 4 * 5 * 2);
    ck_assert_uint_eq(g->w[1].s[OPND_EXEC], 0xff);
    ck_assert_uint_eq(g->w[0].v[0][5], 1 | 1 << 10);
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

/* Every wave stores its number, waits, and loads its neighbour's; 8 waves, twice in a row. */
START_TEST(waves_meet_at_barriers)
{
    static const char *const text[2] = {
        "s_bfe_u32 s4, ttmp8, 0x50019\n s_lshl_b32 s5, s4, 2\n v_mov_b32 v1, s5\n v_mov_b32 v2, s4\n"
        "ds_store_b32 v1, v2\n s_barrier_signal -1\n s_barrier_wait -1\n"
        "s_add_co_i32 s6, s5, 4\n s_and_b32 s6, s6, 31\n v_mov_b32 v3, s6\n ds_load_b32 v4, v3\n"
        "s_barrier_signal -1\n s_nop 5\n s_barrier_wait -1\n"
        "v_add_nc_u32 v2, 100, v2\n ds_store_b32 v1, v2\n s_barrier_signal -1\n s_barrier_wait -1\n ds_load_b32 v5, "
        "v3",
        "v_lshrrev_b32 v1, 5, v0\n v_readfirstlane_b32 s4, v1\n s_lshl_b32 s5, s4, 2\n v_mov_b32 v1, s5\n v_mov_b32 "
        "v2, s4\n"
        "ds_store_b32 v1, v2\n s_barrier\n"
        "s_add_i32 s6, s5, 4\n s_and_b32 s6, s6, 31\n v_mov_b32 v3, s6\n ds_load_b32 v4, v3\n s_barrier\n"
        "v_add_nc_u32 v2, 100, v2\n ds_store_b32 v1, v2\n s_barrier\n ds_load_b32 v5, v3",
    };
    struct asm_unit *u = unit(chip_of(_i), text[_i]);
    struct isa_launch l = asm_launch(u, 0);
    l.threads[0] = 256;
    struct isa_group *g = run(&l, l.start, ISA_DONE);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_uint_eq(g->w[i].v[4][3], (i + 1) % 8);
        ck_assert_uint_eq(g->w[i].v[5][3], 100 + (i + 1) % 8);
    }
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

/* Wave 0 ends at once; the others' barrier is complete without it. */
START_TEST(a_wave_that_ended_counts_as_arrived)
{
    static const char *const text[2] = {
        "s_bfe_u32 s4, ttmp8, 0x50019\n s_cmp_eq_u32 s4, 0\n s_cbranch_scc1 3\n s_barrier_signal -1\n s_barrier_wait "
        "-1\n"
        "v_mov_b32 v9, 7\n",
        "v_readfirstlane_b32 s4, v0\n s_cmp_eq_u32 s4, 0\n s_cbranch_scc1 2\n s_barrier\n v_mov_b32 v9, 7\n",
    };
    struct asm_unit *u = unit(chip_of(_i), text[_i]);
    struct isa_launch l = asm_launch(u, 0);
    l.threads[0] = 96;
    struct isa_group *g = run(&l, l.start, ISA_DONE);
    ck_assert(g->w[1].v[9][0] == 7 && g->w[2].v[9][0] == 7 && g->w[0].v[9][0] != 7);
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

START_TEST(split_barriers_of_gfx12)
{
    /* The first to signal is told so; members and signals are counted. */
    struct asm_unit *u =
        unit("gfx1201", "s_barrier_signal_isfirst -1\n s_cselect_b32 s4, 1, 0\n s_get_barrier_state s5, -1\n"
                        "s_barrier_wait -1\n s_get_barrier_state s6, -1");
    struct isa_launch l = asm_launch(u, 0);
    l.threads[0] = 64;
    struct isa_group *g = run(&l, l.start, ISA_DONE);
    ck_assert(g->w[0].s[4] == 1 && g->w[1].s[4] == 0);
    ck_assert_uint_eq(g->w[0].s[5], 1 << 16 | 2 << 4 | 1);
    ck_assert_uint_eq(g->w[1].s[6] >> 16, 0);
    isa_group_destroy(g);
    asm_free(u);
    /* Waiting for what nobody signals, and signalling twice. */
    u = unit("gfx1201", "s_barrier_wait -1");
    l = asm_launch(u, 0);
    l.threads[0] = 64;
    g = run(&l, l.start, ISA_FAULT);
    ck_assert_int_eq(isa_group_fault(g)->kind, ISA_FAULT_BARRIER);
    isa_group_destroy(g);
    asm_free(u);
    u = unit("gfx1201", "s_barrier_signal -1\n s_barrier_signal -1");
    l = asm_launch(u, 0);
    l.threads[0] = 64;
    g = run(&l, l.start, ISA_FAULT);
    ck_assert_int_eq(isa_group_fault(g)->kind, ISA_FAULT_BARRIER);
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

/* Wave 1 spins on LDS until wave 0, which waits for wave 1's word first, has stored: neither may run alone. */
START_TEST(waves_take_turns)
{
    struct asm_unit *u =
        unit(chip_of(_i),
             "v_readfirstlane_b32 s4, v0\n v_mov_b32 v1, 0\n s_cmp_eq_u32 s4, 0\n s_cbranch_scc0 second\n"
             "first: ds_load_b32 v2, v1\n v_readfirstlane_b32 s5, v2\n s_cmp_lg_u32 s5, 1\n s_cbranch_scc1 first\n"
             "v_mov_b32 v2, 2\n ds_store_b32 v1, v2\n s_branch done\n"
             "second: v_mov_b32 v2, 1\n ds_store_b32 v1, v2\n"
             "spin: s_sleep 1\n ds_load_b32 v2, v1\n v_readfirstlane_b32 s5, v2\n s_cmp_lg_u32 s5, 2\n "
             "s_cbranch_scc1 spin\n done:");
    struct isa_launch l = asm_launch(u, 0);
    l.threads[0] = 64;
    struct isa_group *g = run(&l, l.start, ISA_DONE);
    struct isa_counts c = { 0 };
    isa_group_counts(g, &c);
    ck_assert_uint_eq(c.waves, 2);
    ck_assert(c.insts == c.valu + c.salu + c.vmem + c.smem + c.lds + c.branches + g->w[0].tally[K_OTHER] +
                             g->w[1].tally[K_OTHER]);
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

START_TEST(a_budget_ends_an_endless_loop)
{
    struct asm_unit *u = unit(chip_of(_i), "1: s_branch 1b");
    struct isa_launch l = asm_launch(u, 0);
    struct isa_group *g = isa_group_create(&l, l.start, 0);
    ck_assert_int_eq(isa_group_run(g, 1000), ISA_MORE);
    ck_assert_int_eq(isa_group_run(g, 1000), ISA_MORE);
    ck_assert_uint_eq(g->w[0].tally[K_BRANCH], 2000);
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

static void expect_fault(struct isa_launch *l, enum isa_fault_kind kind, const char *says)
{
    struct isa_group *g = run(l, l->start, ISA_FAULT);
    ck_assert_msg(isa_group_fault(g)->kind == kind && strstr(isa_group_fault(g)->text, says), "kind %d: %s",
                  isa_group_fault(g)->kind, isa_group_fault(g)->text);
    isa_group_destroy(g);
}

START_TEST(a_wave_has_what_it_was_launched_with)
{
    static const char *const text[] = {"v_mov_b32 v16, 1", "v_mov_b32 v15, 1", "scratch_load_b32 v1, off, off",
                                       "s_nop 0"};
    struct asm_unit *u = asm_build(chip_of(_i), text, 4);
    struct isa_launch l = asm_launch(u, 0);
    l.rsrc1 = (l.rsrc1 & ~63u) | 1; /* 16 VGPRs */
    expect_fault(&l, ISA_FAULT_REGISTER, "v16");
    l.entry = ASM_CODE_VA + u->at[1];
    isa_group_destroy(run(&l, l.start, ISA_DONE));
    l = asm_launch(u, 2);
    l.rsrc2 &= ~1u;
    expect_fault(&l, ISA_FAULT_REGISTER, "no scratch");
    l = asm_launch(u, 2);
    l.tmpring = 0;
    expect_fault(&l, ISA_FAULT_REGISTER, "no scratch");
    l = asm_launch(u, 2);
    l.scratch_waves = 1;
    l.threads[0] = 64; /* two waves, one slot */
    expect_fault(&l, ISA_FAULT_REGISTER, "no scratch");
    l = asm_launch(u, 3);
    l.wave32 = false;
    expect_fault(&l, ISA_FAULT_ILLEGAL, "wave64");
    l = asm_launch(u, 3);
    l.threads[0] = 1056;
    expect_fault(&l, ISA_FAULT_ILLEGAL, "1024");
    l = asm_launch(u, 3);
    l.entry = 0x123456000;
    expect_fault(&l, ISA_FAULT_PAGE, "not mapped");
    vm_unmap(u->vm, ASM_CODE_VA, u->text_bytes);
    isa_code_invalidate(u->code);
    l = asm_launch(u, 3);
    expect_fault(&l, ISA_FAULT_PAGE, "not mapped");
    asm_free(u);
}
END_TEST

/* Code that changes is seen after the instruction cache is invalidated, and not before. */
START_TEST(decoded_code_is_kept_until_it_is_invalidated)
{
    struct asm_unit *u = unit(chip_of(_i), "s_mov_b32 s4, 1");
    struct asm_wave *w = asm_wave_new(u);
    asm_run(u, 0, w);
    ck_assert_uint_eq(w->s[4], 1);
    u->text[0] = 0x82; /* s_mov_b32 s4, 2 */
    asm_run(u, 0, w);
    ck_assert_uint_eq(w->s[4], 1);
    isa_code_invalidate(u->code);
    asm_run(u, 0, w);
    ck_assert_uint_eq(w->s[4], 2);
    free(w);
    asm_free(u);
}
END_TEST

/* ---- strict ---- */

static const struct {
    int gen;
    const char *text, *says; /* NULL: nothing to object */
} strict[] = {
    {12, "s_load_b32 s4, s[0:1], 0x0\n s_mov_b32 s5, s4", "wait_kmcnt"},
    {12, "s_load_b32 s4, s[0:1], 0x0\n s_wait_kmcnt 0\n s_mov_b32 s5, s4", NULL},
    {12, "s_load_b32 s4, s[0:1], 0x0\n s_load_b32 s6, s[0:1], 0x4\n s_wait_kmcnt 1\n s_mov_b32 s5, s4", "wait_kmcnt"},
    {12, "s_load_b64 s[4:5], s[0:1], 0x0\n v_mov_b32 v1, s5", "s5 is still"},
    {11, "s_load_b32 s4, s[0:1], 0x0\n s_mov_b32 s5, s4", "lgkmcnt"},
    {11, "s_load_b32 s4, s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n s_mov_b32 s5, s4", NULL},
    {12, "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n v_mov_b32 v3, v2", "wait_loadcnt"},
    {12, "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n s_wait_loadcnt 0\n v_mov_b32 v3, v2", NULL},
    {12,
     "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n global_load_b32 v3, v1, s[0:1]\n s_wait_loadcnt 1\n "
     "v_mov_b32 v4, v2",
     NULL},
    {12,
     "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n global_load_b32 v3, v1, s[0:1]\n s_wait_loadcnt 1\n "
     "v_mov_b32 v4, v3",
     "v3 is still"},
    {12, "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n v_mov_b32 v2, 0", "v2 is still"},
    {11, "v_mov_b32 v1, 0\n global_load_b128 v[4:7], v1, s[0:1]\n global_store_b32 v1, v7, s[0:1]", "v7 is still"},
    {11, "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n s_waitcnt vmcnt(0)\n v_mov_b32 v3, v2", NULL},
    {12, "v_mov_b32 v1, 0\n ds_store_b32 v1, v1\n ds_load_b32 v2, v1\n v_mov_b32 v3, v2", "wait_dscnt"},
    {12, "v_mov_b32 v1, 0\n ds_store_b32 v1, v1\n ds_load_b32 v2, v1\n s_wait_dscnt 0\n v_mov_b32 v3, v2", NULL},
    {12, "v_mov_b32 v1, 0\n ds_bpermute_b32 v2, v1, v1\n v_dual_mov_b32 v3, v2 :: v_dual_mov_b32 v4, v1",
     "v2 is still"},
    {12, "v_mov_b32 v1, 0x10000\n ds_store_b32 v1, v1", "the work-group has"},
    {12, "v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[0:1]\n global_load_b32 v2, v1, s[0:1]", NULL}, /* in order */
    {11, "v_mov_b32 v1, 0\n ds_store_b32 v1, v1\n ds_load_b32 v2, v1\n global_load_b32 v2, v1, s[0:1]",
     "v2 is still"},
    {12, "v_mov_b32 v1, 0\n global_load_b64 v[2:3], v1, s[0:1]\n v_lshlrev_b64 v[4:5], 2, v[2:3]", "v2 is still"},
    {12, "v_mov_b32 v1, 0\n global_load_b32 v3, v1, s[0:1]\n v_lshlrev_b64 v[4:5], 2, v[2:3]", "v3 is still"},
    {11, "s_load_b32 s0, s[0:1], 0x0\n v_lshlrev_b64 v[4:5], 2, v[2:3]", NULL}, /* it has no third operand */
    {12, "v_mov_b32 v3, 0\n v_lshlrev_b64 v[4:5], 2, v[0:1]\n v_mov_b32 v6, v5", NULL},
};
enum { N_STRICT = sizeof strict / sizeof *strict };

START_TEST(strict_finds_missing_waits)
{
    struct asm_unit *u[N_STRICT];
    for (int i = 0; i < N_STRICT; i++) {
        u[i] = unit(strict[i].gen == 12 ? "gfx1201" : "gfx1100", strict[i].text);
        asm_buffer(u[i], BUF, VM_PAGE);
        struct isa_launch l = asm_launch(u[i], 0);
        l.user_data[0] = (uint32_t)BUF;
        isa_group_destroy(run(&l, l.start, ISA_DONE)); /* nobody objects when it is not strict */
        l.strict = true;
        if (strict[i].says)
            expect_fault(&l, ISA_FAULT_STRICT, strict[i].says);
        else
            isa_group_destroy(run(&l, l.start, ISA_DONE));
        asm_free(u[i]);
    }
}
END_TEST

/* ---- the watch ---- */

struct seen {
    uint64_t loads, stores, scalar, bypass, code;
    gva refuse;
};
static bool on_load(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160])
{
    struct seen *s = user;
    s->code += path == ISA_CODE;
    s->scalar += path == ISA_SCALAR;
    s->loads += path == ISA_VECTOR ? bytes : 0;
    s->bypass += path == ISA_VECTOR && bypass;
    if (va == s->refuse)
        snprintf(why, 160, "stale");
    return va != s->refuse;
}
static bool on_store(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160])
{
    struct seen *s = user;
    s->stores += bytes;
    if (va == s->refuse)
        snprintf(why, 160, "not now");
    return va != s->refuse;
}

START_TEST(the_watch_sees_every_access_and_may_refuse)
{
    struct asm_unit *u =
        unit("gfx1201", "s_load_b32 s4, s[0:1], 0x0\n v_lshlrev_b32 v1, 2, v0\n global_load_b64 v[2:3], v1, s[0:1]\n"
                        "global_load_b32 v4, v1, s[0:1] scope:SCOPE_SYS\n global_store_b32 v1, v4, s[0:1]");
    asm_buffer(u, BUF, VM_PAGE);
    struct seen seen = { 0 };
    struct isa_watch watch = { .user = &seen, .load = on_load, .store = on_store };
    struct isa_launch l = asm_launch(u, 0);
    l.user_data[0] = (uint32_t)BUF;
    l.watch = &watch;
    isa_group_destroy(run(&l, l.start, ISA_DONE));
    ck_assert_uint_eq(seen.scalar, 1);
    ck_assert_uint_eq(seen.loads, 32 * 8 + 32 * 4);
    ck_assert_uint_eq(seen.bypass, 32);
    ck_assert_uint_eq(seen.stores, 32 * 4);
    ck_assert_uint_eq(seen.code, 6);
    seen.refuse = BUF + 20;
    struct isa_group *g = run(&l, l.start, ISA_FAULT);
    ck_assert_int_eq(isa_group_fault(g)->kind, ISA_FAULT_STRICT);
    ck_assert_uint_eq(isa_group_fault(g)->va, BUF + 20);
    ck_assert_uint_eq(isa_group_fault(g)->lane, 5);
    ck_assert_ptr_nonnull(strstr(isa_group_fault(g)->text, "stale"));
    isa_group_destroy(g);
    asm_free(u);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    Suite *s = suite_create("isa wave");
    TCase *t = tcase_create("isa wave");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, first_registers_are_as_the_hardware_sets_them, 0, 2);
    tcase_add_loop_test(t, waves_meet_at_barriers, 0, 2);
    tcase_add_loop_test(t, a_wave_that_ended_counts_as_arrived, 0, 2);
    tcase_add_test(t, split_barriers_of_gfx12);
    tcase_add_loop_test(t, waves_take_turns, 0, 2);
    tcase_add_loop_test(t, a_budget_ends_an_endless_loop, 0, 2);
    tcase_add_loop_test(t, a_wave_has_what_it_was_launched_with, 0, 2);
    tcase_add_loop_test(t, decoded_code_is_kept_until_it_is_invalidated, 0, 2);
    tcase_add_test(t, strict_finds_missing_waits);
    tcase_add_test(t, the_watch_sees_every_access_and_may_refuse);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
