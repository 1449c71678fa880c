/* Values that nothing has written, in strict launches: they may be copied and computed with, and are found where they
 * decide something. Each program here ends either way; without strict nobody objects to any. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdsim/isa_asm.h"

#define BUF 0x200000ull

/* v9, s9 and VCC are never written; s[0:1] is BUF, v0 the lane, v1 its byte offset. */
#define STORE(v) "\n global_store_b32 v1, " v ", s[0:1]"
#define BOTH 0
struct snippet {
    int gen; /* 11, 12 or BOTH */
    const char *text, *says; /* NULL: nothing to object */
};
static const struct snippet snippets[] = {
    /* where it is found */
    { BOTH, "s_nop 0" STORE("v9"), "stored to memory (bit or lane 0) is a register that nothing has written" },
    { BOTH, "global_load_b32 v2, v9, s[0:1]", "the address" },
    { BOTH, "global_load_b32 v2, v1, s[8:9]", "the address" },
    { BOTH, "s_load_b32 s4, s[8:9], 0x0", "the address" },
    { BOTH, "ds_load_b32 v2, v9", "the address" },
    { BOTH, "ds_store_b32 v9, v0", "the address" },
    { BOTH, "global_atomic_add_u32 v1, v9, s[0:1]", "the operand of an atomic" },
    { BOTH, "ds_store_b32 v1, v0\n ds_add_u32 v1, v9", "the operand of an atomic" },
    { BOTH, "ds_add_u32 v1, v0", "where nothing was stored" },
    { BOTH, "v_cmpx_eq_u32 v0, v9", "EXEC" },
    { BOTH, "s_mov_b32 exec_lo, s9", "EXEC" },
    { BOTH, "v_cmp_eq_u32 vcc_lo, v0, v9\n s_and_saveexec_b32 s4, vcc_lo", "EXEC" },
    { BOTH, "s_cmp_eq_u32 s9, 0\n s_cbranch_scc1 0", "SCC, on which" },
    { BOTH, "v_cmp_eq_u32 vcc_lo, v0, v9\n s_cbranch_vccz 0", "VCC, on which" },
    { BOTH, "v_readlane_b32 s4, v0, s9", "the lane to read" },
    { BOTH, "s_setpc_b64 s[8:9]", "the address to jump to" },
    /* how it gets there */
    { BOTH, "v_mov_b32 v2, v9" STORE("v2"), "is made of something that nothing has written" },
    { BOTH, "v_dual_mov_b32 v2, v9 :: v_dual_mov_b32 v3, v0" STORE("v2"), "stored" },
    { BOTH, "v_dual_mov_b32 v2, v9 :: v_dual_mov_b32 v3, v0" STORE("v3"), NULL },
    { BOTH, "v_add_nc_u32 v2, v0, v9", NULL },
    { BOTH, "v_add_nc_u32 v2, v0, v9" STORE("v2"), "stored" },
    { BOTH, "v_mov_b32 v2, 0\n v_fmac_f32 v9, v2, v2" STORE("v9"), "stored" },
    { BOTH, "v_mov_b32 v2, s9" STORE("v2"), "stored" },
    { BOTH, "v_readfirstlane_b32 s4, v9\n v_mov_b32 v2, s4" STORE("v2"), "stored" },
    { BOTH, "v_mov_b32 v3, 0\n v_lshlrev_b64 v[4:5], 2, v[8:9]" STORE("v5"), "stored" },
    { BOTH, "ds_bpermute_b32 v2, v1, v9\n s_nop 0" STORE("v0"), NULL },
    { 12, "ds_bpermute_b32 v2, v1, v9\n s_wait_dscnt 0" STORE("v2"), "stored" },
    { 12, "ds_store_b32 v1, v9\n ds_load_b32 v2, v1\n s_wait_dscnt 0" STORE("v2"), "stored" },
    { 12, "ds_load_b32 v2, v1\n s_wait_dscnt 0\n v_add_nc_u32 v3, v2, v0", NULL },
    { 12, "ds_load_b32 v2, v1\n s_wait_dscnt 0\n v_add_nc_u32 v3, v2, v0" STORE("v3"), "stored" },
    { 12, "ds_store_b32 v1, v0\n ds_load_b64 v[2:3], v1\n s_wait_dscnt 0" STORE("v2"), NULL },
    { 11, "scratch_store_b32 off, v9, off\n scratch_load_b32 v2, off, off\n s_waitcnt vmcnt(0)" STORE("v2"),
      "stored" },
    { 11, "scratch_store_b32 off, v0, off\n scratch_load_b32 v2, off, off\n s_waitcnt vmcnt(0)" STORE("v2"), NULL },
    { 11, "scratch_load_b32 v2, off, off offset:4\n s_waitcnt vmcnt(0)" STORE("v2"), "stored" },
    { BOTH, "v_mov_b32_dpp v2, v9 row_ror:1 row_mask:0xf bank_mask:0xf" STORE("v2"), "stored" },
    { 12, "v_wmma_f32_16x16x16_f16 v[16:23], v[40:43], v[44:47], 0" STORE("v16"), "stored" },
    /* lane by lane */
    { BOTH, "s_mov_b32 exec_lo, 0xffff\n v_mov_b32 v9, 0\n s_mov_b32 exec_lo, -1" STORE("v9"), "lane 16" },
    { BOTH, "s_mov_b32 exec_lo, 0xffff\n v_mov_b32 v9, 0" STORE("v9"), NULL },
    { BOTH, "s_mov_b32 vcc_lo, 0xffff\n v_cndmask_b32 v2, v9, v0, vcc_lo\n s_mov_b32 exec_lo, vcc_lo" STORE("v2"),
      NULL },
    { BOTH, "s_mov_b32 vcc_lo, 0xffff\n v_cndmask_b32 v2, v9, v0, vcc_lo" STORE("v2"), "lane 16" },
    { BOTH, "s_mov_b32 exec_lo, 1\n v_mov_b32 v9, 0\n s_mov_b32 exec_lo, -1\n v_cmp_eq_u32 vcc_lo, v0, v9\n"
            "s_and_b32 vcc_lo, vcc_lo, 1\n s_and_saveexec_b32 s4, vcc_lo", NULL },
    { BOTH, "s_mov_b32 exec_lo, 0xffff\n v_mov_b32 v2, 3\n v_mov_b32 v8, 0\n v_mad_u64_u32 v[4:5], null, v2, v2, v[8:9]"
            STORE("v4"), NULL }, /* v2 of lanes that are off, and the upper half */
    { BOTH, "v_mov_b32 v2, 3\n v_mad_u64_u32 v[4:5], null, v2, v2, v[8:9]" STORE("v4"), "stored" },
    { BOTH, "v_permlane64_b32 v0, v9" STORE("v0"), NULL }, /* no operation in wave32 */
    /* bit by bit */
    { BOTH, "v_mov_b32 v8, 0\n v_lshlrev_b64 v[4:5], 5, v[8:9]" STORE("v4"), NULL },
    { BOTH, "v_mov_b32 v8, 0\n v_lshlrev_b64 v[4:5], 5, v[8:9]\n v_and_b32 v5, 31, v5" STORE("v5"), NULL },
    { BOTH, "v_mov_b32 v8, 0\n v_lshlrev_b64 v[4:5], 5, v[8:9]\n v_and_b32 v5, 63, v5" STORE("v5"), "stored" },
    { BOTH, "v_mov_b32 v2, 0\n v_and_b32 v2, v2, v9" STORE("v2"), NULL },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n v_bfe_u32 v2, v2, 0, 16" STORE("v2"), NULL },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n v_bfe_u32 v2, v2, 1, 16" STORE("v2"), "stored" },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n v_add_nc_u32 v2, v2, v0\n v_cvt_f32_ubyte0 v2, v2" STORE("v2"), NULL },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n v_mul_f32 v2, v2, v0\n v_cvt_f32_ubyte0 v2, v2" STORE("v2"), "stored" },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n global_store_b16 v1, v2, s[0:1]", NULL },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n global_store_d16_hi_b16 v1, v2, s[0:1]", "stored" },
    { BOTH, "v_lshlrev_b32 v2, 16, v9\n v_cvt_f32_f16 v2, v2" STORE("v2"), NULL },
    { BOTH, "v_lshrrev_b32 v2, 16, v9\n v_cvt_f32_f16 v2, v2" STORE("v2"), "stored" },
    { 12, "v_lshlrev_b32 v2, 16, v9\n ds_store_b32 v1, v2\n ds_load_u16 v3, v1\n s_wait_dscnt 0" STORE("v3"), NULL },
    { BOTH, "s_and_b32 s4, s9, 0\n s_mov_b32 exec_lo, s4", NULL },
};
enum { N_SNIPPETS = sizeof snippets / sizeof *snippets };

static void check(struct asm_unit *u, size_t i, const char *text, const char *says)
{
    static char whole[2048];
    snprintf(whole, sizeof whole, "%s: %s", u->chip->name, text);
    struct isa_launch l = asm_launch(u, i);
    l.user_data[0] = (uint32_t)BUF;
    l.rsrc2 = (l.rsrc2 & ~(31u << 1)) | 2u << 1;
    for (int strict = 0; strict < 2; strict++) {
        l.strict = strict;
        struct isa_group *g = isa_group_create(&l, l.start, 0);
        enum isa_status rc = isa_group_run(g, 100000);
        const struct isa_fault *f = isa_group_fault(g);
        bool jumps = strstr(text, "setpc");
        if (strict && says) {
            ck_assert_msg(rc == ISA_FAULT && f->kind == ISA_FAULT_STRICT, "%s: not found", whole);
            ck_assert_msg(strstr(f->text, says), "%s: %s", whole, f->text);
        } else if (strict || !(says && (strstr(says, "address") || jumps))) {
            ck_assert_msg(rc == ISA_DONE, "%s: %s", whole, f->text);
        }
        isa_group_destroy(g);
    }
}

START_TEST(what_nothing_has_written_is_found_where_it_decides)
{
    int gen = _i ? 11 : 12;
    char texts[N_SNIPPETS][1024];
    const char *list[N_SNIPPETS];
    size_t n = 0, which[N_SNIPPETS];
    for (size_t i = 0; i < N_SNIPPETS; i++) {
        if (snippets[i].gen && snippets[i].gen != gen)
            continue;
        snprintf(texts[n], sizeof texts[n], "v_lshlrev_b32 v1, 2, v0\n %s", snippets[i].text);
        which[n] = i;
        list[n] = texts[n];
        n++;
    }
    struct asm_unit *u = asm_build(_i ? "gfx1100" : "gfx1201", list, n);
    asm_buffer(u, BUF, VM_PAGE);
    for (size_t i = 0; i < n; i++)
        check(u, i, snippets[which[i]].text, snippets[which[i]].says);
    asm_free(u);
}
END_TEST

/* Row 3 of A and column 5 of B are unknown: of the sum, so are that row and that column and nothing else. */
START_TEST(rows_and_columns_of_a_matrix_sum)
{
    static const char *const text[] = {
        "s_mov_b32 exec_lo, 0xfff7fff7\n%s s_mov_b32 exec_lo, 0xffdfffdf\n%s s_mov_b32 exec_lo, -1\n"
        "v_wmma_f32_16x16x16_f16 v[16:23], v[40:47], v[48:55], 0\n",
        "s_mov_b32 exec_lo, 0xfff7fff7\n%s s_mov_b32 exec_lo, 0xffdfffdf\n%s s_mov_b32 exec_lo, -1\n"
        "v_wmma_f32_16x16x16_f16 v[16:23], v[40:43], v[48:51], 0\n",
    };
    char a[512] = "", b[512] = "", program[2][2048];
    for (int r = 0; r < 8; r++) {
        snprintf(a + strlen(a), sizeof a - strlen(a), "v_mov_b32 v%d, 0\n", 40 + r);
        snprintf(b + strlen(b), sizeof b - strlen(b), "v_mov_b32 v%d, 0\n", 48 + r);
    }
    bool gfx12 = _i == 0;
    int reg = gfx12 ? 3 : 1; /* row 3: register 3's lower lanes, or register 1's upper ones */
    uint32_t row = gfx12 ? 0x0000ffff : 0xffff0000, column = 1u << 5 | 1u << 21;
    snprintf(program[0], sizeof program[0], text[gfx12], a, b);
    memcpy(program[1], program[0], sizeof program[1]);
    size_t used = strlen(program[0]);
    /* Everything but the row and the column may be stored; one lane of the row may not. */
    for (int r = 0; r < 8; r++) {
        uint32_t known = ~(column | (r == reg ? row : 0));
        int n = snprintf(program[0] + used, sizeof program[0] - used,
                         "s_mov_b32 exec_lo, 0x%x\n global_store_b32 v0, v%d, s[0:1]\n", known, 16 + r);
        used += (size_t)n;
    }
    snprintf(program[1] + strlen(program[1]), 200, "s_mov_b32 exec_lo, 0x%x\n global_store_b32 v0, v%d, s[0:1]\n",
             gfx12 ? 1u : 1u << 16, 16 + reg);
    const char *list[] = { program[0], program[1] };
    struct asm_unit *u = asm_build(gfx12 ? "gfx1201" : "gfx1100", list, 2);
    asm_buffer(u, BUF, VM_PAGE);
    check(u, 0, program[0], NULL);
    check(u, 1, program[1], "stored to memory");
    asm_free(u);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    Suite *s = suite_create("isa known");
    TCase *t = tcase_create("isa known");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, what_nothing_has_written_is_found_where_it_decides, 0, 2);
    tcase_add_loop_test(t, rows_and_columns_of_a_matrix_sum, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
