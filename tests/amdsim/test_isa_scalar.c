/* Scalar instructions one by one: each line runs one on given registers and expects numbers worked out by hand
 * from the ISA guides. s[0:1] and s[2:3] are the sources, s[4:5] the destination, which starts as
 * 0x11111111_22222222. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdsim/isa_asm.h"

#define OLD 0x1111111122222222ull
enum { BOTH, G11, G12 };
enum { KEPT = 2 }; /* SCC as it was */

struct row {
    int chips;
    const char *text;
    uint64_t a, b;
    int scc_in;
    uint64_t d;
    int scc;
};

#define LOW(x) (0x1111111100000000ull | (x)) /* a 32-bit result: s5 stays */
static const struct row rows[] = {
    /* moves */
    {BOTH, "s_mov_b32 s4, s0", 0x12345678, 0, 0, LOW(0x12345678), KEPT},
    {BOTH, "s_mov_b32 s4, -16", 0, 0, 1, LOW(0xfffffff0), KEPT},
    {BOTH, "s_mov_b32 s4, 64", 0, 0, 1, LOW(64), KEPT},
    {BOTH, "s_mov_b32 s4, 0xdeadbeef", 0, 0, 0, LOW(0xdeadbeef), KEPT},
    {BOTH, "s_mov_b32 s4, 0.5", 0, 0, 0, LOW(0x3f000000), KEPT},
    {BOTH, "s_mov_b32 s4, -4.0", 0, 0, 0, LOW(0xc0800000), KEPT},
    {BOTH, "s_mov_b32 s4, 0.15915494", 0, 0, 0, LOW(0x3e22f983), KEPT},
    {BOTH, "s_mov_b32 null, s0\n s_mov_b32 s4, null", 77, 0, 0, LOW(0), KEPT},
    {BOTH, "s_mov_b32 vcc_lo, s0\n s_mov_b32 vcc_hi, s2\n s_mov_b64 s[4:5], vcc", 5, 9, 0, 9ull << 32 | 5, KEPT},
    {BOTH, "s_mov_b32 m0, s0\n s_mov_b32 s4, m0", 5, 9, 0, LOW(5), KEPT},
    {BOTH, "s_mov_b32 exec_hi, s0\n s_mov_b32 s4, exec_hi", 5, 9, 0, LOW(5), KEPT},
    {BOTH, "s_mov_b64 s[4:5], s[0:1]", 0x123456789abcdef0, 0, 0, 0x123456789abcdef0, KEPT},
    {BOTH, "s_mov_b64 s[4:5], -1", 0, 0, 0, ~0ull, KEPT},
    {BOTH, "s_mov_b64 s[4:5], 0x87654321", 0, 0, 0, 0x87654321, KEPT},
    {BOTH, "s_mov_b64 s[4:5], 2.0", 0, 0, 0, 0x4000000000000000, KEPT},
    {BOTH, "s_mov_b64 s[4:5], src_shared_base", 0, 0, 0, 1ull << 48, KEPT},
    {BOTH, "s_mov_b64 s[4:5], src_private_base", 0, 0, 0, 2ull << 48, KEPT},
    {BOTH, "s_mov_b64 s[4:5], src_private_limit", 0, 0, 0, 2ull << 48 | 0xffffffff, KEPT},
    {BOTH, "s_cmov_b32 s4, s0", 7, 0, 0, OLD, 0},
    {BOTH, "s_cmov_b32 s4, s0", 7, 0, 1, LOW(7), 1},
    {BOTH, "s_cmov_b64 s[4:5], s[0:1]", 7, 0, 1, 7, 1},
    {BOTH, "s_movk_i32 s4, 0x8000", 0, 0, 1, LOW(0xffff8000), KEPT},
    {BOTH, "s_cmovk_i32 s4, 5", 0, 0, 0, OLD, 0},
    {BOTH, "s_cmovk_i32 s4, 5", 0, 0, 1, LOW(5), 1},
    /* bits */
    {BOTH, "s_brev_b32 s4, s0", 0x80000001, 0, 0, LOW(0x80000001), KEPT},
    {BOTH, "s_brev_b32 s4, s0", 0x00012300, 0, 0, LOW(0x00c48000), KEPT},
    {BOTH, "s_brev_b64 s[4:5], s[0:1]", 0x1, 0, 0, 1ull << 63, KEPT},
    {BOTH, "s_brev_b64 s[4:5], s[0:1]", 0x00000000f0000002, 0, 0, 0x4000000f00000000, KEPT},
    {BOTH, "s_ctz_i32_b32 s4, s0", 0x00010000, 0, 0, LOW(16), KEPT},
    {BOTH, "s_ctz_i32_b32 s4, s0", 0, 0, 0, LOW(0xffffffff), KEPT},
    {BOTH, "s_ctz_i32_b64 s4, s[0:1]", 1ull << 40, 0, 0, LOW(40), KEPT},
    {BOTH, "s_clz_i32_u32 s4, s0", 0x00010000, 0, 0, LOW(15), KEPT},
    {BOTH, "s_clz_i32_u32 s4, s0", 0, 0, 0, LOW(0xffffffff), KEPT},
    {BOTH, "s_clz_i32_u64 s4, s[0:1]", 1, 0, 0, LOW(63), KEPT},
    {BOTH, "s_cls_i32 s4, s0", 0xffff0000, 0, 0, LOW(16), KEPT},
    {BOTH, "s_cls_i32 s4, s0", 1, 0, 0, LOW(31), KEPT},
    {BOTH, "s_cls_i32 s4, s0", 0xffffffff, 0, 0, LOW(0xffffffff), KEPT},
    {BOTH, "s_cls_i32_i64 s4, s[0:1]", 0xfffffffffffffff0, 0, 0, LOW(60), KEPT},
    {BOTH, "s_sext_i32_i8 s4, s0", 0x1280, 0, 0, LOW(0xffffff80), KEPT},
    {BOTH, "s_sext_i32_i16 s4, s0", 0x128000, 0, 0, LOW(0xffff8000), KEPT},
    {BOTH, "s_bitset0_b32 s4, s0", 33, 0, 0, LOW(0x22222220), KEPT},
    {BOTH, "s_bitset1_b32 s4, s0", 31, 0, 0, LOW(0xa2222222), KEPT},
    {BOTH, "s_bitset0_b64 s[4:5], s0", 32, 0, 0, 0x1111111022222222, KEPT},
    {BOTH, "s_bitset1_b64 s[4:5], s0", 63, 0, 0, 0x9111111122222222, KEPT},
    {BOTH, "s_bitreplicate_b64_b32 s[4:5], s0", 0x80000005, 0, 0, 0xc000000000000033, KEPT},
    {BOTH, "s_quadmask_b32 s4, s0", 0x80000010, 0, 0, LOW(0x82), 1},
    {BOTH, "s_wqm_b32 s4, s0", 0x80000010, 0, 0, LOW(0xf00000f0), 1},
    {BOTH, "s_wqm_b64 s[4:5], s[0:1]", 0x1000000000000000, 0, 0, 0xf000000000000000, 1},
    {BOTH, "s_bcnt0_i32_b32 s4, s0", 0xffffffff, 0, 1, LOW(0), 0},
    {BOTH, "s_bcnt1_i32_b32 s4, s0", 0xf0f0, 0, 0, LOW(8), 1},
    {BOTH, "s_bcnt0_i32_b64 s4, s[0:1]", 0xf, 0, 0, LOW(60), 1},
    {BOTH, "s_bcnt1_i32_b64 s4, s[0:1]", 0xf000000000000001, 0, 0, LOW(5), 1},
    {BOTH, "s_not_b32 s4, s0", 0xffffffff, 0, 1, LOW(0), 0},
    {BOTH, "s_not_b64 s[4:5], s[0:1]", 0xffffffff, 0, 0, 0xffffffff00000000, 1},
    {BOTH, "s_and_b32 s4, s0, s2", 0xff00, 0x0ff0, 0, LOW(0x0f00), 1},
    {BOTH, "s_and_b32 s4, s0, s2", 0xf0, 0x0f, 1, LOW(0), 0},
    {BOTH, "s_and_b64 s[4:5], s[0:1], s[2:3]", 0xff00000000, 0x0f00000000, 0, 0x0f00000000, 1},
    {BOTH, "s_or_b32 s4, s0, s2", 0xf0, 0x0f, 0, LOW(0xff), 1},
    {BOTH, "s_or_b64 s[4:5], s[0:1], s[2:3]", 0, 0, 1, 0, 0},
    {BOTH, "s_xor_b32 s4, s0, s2", 0xff, 0x0f, 0, LOW(0xf0), 1},
    {BOTH, "s_xor_b64 s[4:5], s[0:1], s[2:3]", 5, 5, 1, 0, 0},
    {BOTH, "s_nand_b32 s4, s0, s2", 0xffffffff, 0xffffffff, 1, LOW(0), 0},
    {BOTH, "s_nand_b64 s[4:5], s[0:1], s[2:3]", 3, 1, 0, ~1ull, 1},
    {BOTH, "s_nor_b32 s4, s0, s2", 0xffff0000, 0xffff, 1, LOW(0), 0},
    {BOTH, "s_nor_b64 s[4:5], s[0:1], s[2:3]", 1, 2, 0, ~3ull, 1},
    {BOTH, "s_xnor_b32 s4, s0, s2", 0xff, 0x0f, 0, LOW(0xffffff0f), 1},
    {BOTH, "s_xnor_b64 s[4:5], s[0:1], s[2:3]", ~0ull, 0, 1, 0, 0},
    {BOTH, "s_and_not1_b32 s4, s0, s2", 0xff, 0x0f, 0, LOW(0xf0), 1},
    {BOTH, "s_and_not1_b64 s[4:5], s[0:1], s[2:3]", 0xff, 0xff, 1, 0, 0},
    {BOTH, "s_or_not1_b32 s4, s0, s2", 1, 0xffffffff, 0, LOW(1), 1},
    {BOTH, "s_or_not1_b64 s[4:5], s[0:1], s[2:3]", 0, ~0ull, 1, 0, 0},
    {BOTH, "s_bfe_u32 s4, s0, s2", 0x12345678, 8 | 12 << 16, 0, LOW(0x456), 1},
    {BOTH, "s_bfe_u32 s4, s0, s2", 0x12345678, 8, 1, LOW(0), 0},
    {BOTH, "s_bfe_u32 s4, s0, s2", 0x82345678, 24 | 31 << 16, 0, LOW(0x82), 1},
    {BOTH, "s_bfe_i32 s4, s0, s2", 0x12345878, 8 | 4 << 16, 0, LOW(0xfffffff8), 1},
    {BOTH, "s_bfe_i32 s4, s0, s2", 0x82345678, 24 | 31 << 16, 0, LOW(0xffffff82), 1},
    {BOTH, "s_bfe_u64 s[4:5], s[0:1], s2", 0x123456789abcdef0, 60 | 4 << 16, 0, 1, 1},
    {BOTH, "s_bfe_i64 s[4:5], s[0:1], s2", 0x923456789abcdef0, 60 | 4 << 16, 0, 0xfffffffffffffff9, 1},
    {BOTH, "s_bfm_b32 s4, s0, s2", 4, 8, 0, LOW(0xf00), KEPT},
    {BOTH, "s_bfm_b32 s4, s0, s2", 32, 8, 0, LOW(0), KEPT},
    {BOTH, "s_bfm_b64 s[4:5], s0, s2", 4, 40, 0, 0xf0000000000, KEPT},
    {BOTH, "s_pack_ll_b32_b16 s4, s0, s2", 0x11112222, 0x33334444, 0, LOW(0x44442222), KEPT},
    {BOTH, "s_pack_lh_b32_b16 s4, s0, s2", 0x11112222, 0x33334444, 0, LOW(0x33332222), KEPT},
    {BOTH, "s_pack_hh_b32_b16 s4, s0, s2", 0x11112222, 0x33334444, 0, LOW(0x33331111), KEPT},
    {BOTH, "s_pack_hl_b32_b16 s4, s0, s2", 0x11112222, 0x33334444, 0, LOW(0x44441111), KEPT},
    /* shifts: the amount counts modulo the width */
    {BOTH, "s_lshl_b32 s4, s0, s2", 1, 33, 0, LOW(2), 1},
    {BOTH, "s_lshl_b32 s4, s0, s2", 0x80000000, 1, 1, LOW(0), 0},
    {BOTH, "s_lshr_b32 s4, s0, s2", 0x80000000, 31, 0, LOW(1), 1},
    {BOTH, "s_ashr_i32 s4, s0, s2", 0x80000000, 31, 0, LOW(0xffffffff), 1},
    {BOTH, "s_lshl_b64 s[4:5], s[0:1], s2", 1, 65, 0, 2, 1},
    {BOTH, "s_lshr_b64 s[4:5], s[0:1], s2", 1ull << 63, 63, 0, 1, 1},
    {BOTH, "s_ashr_i64 s[4:5], s[0:1], s2", 1ull << 63, 63, 0, ~0ull, 1},
    {BOTH, "s_lshl1_add_u32 s4, s0, s2", 0x80000000, 5, 0, LOW(5), 1},
    {BOTH, "s_lshl2_add_u32 s4, s0, s2", 3, 5, 1, LOW(17), 0},
    {BOTH, "s_lshl3_add_u32 s4, s0, s2", 3, 5, 1, LOW(29), 0},
    {BOTH, "s_lshl4_add_u32 s4, s0, s2", 0x0fffffff, 0x10, 0, LOW(0), 1},
    /* sums: carry, borrow, overflow */
    {G11, "s_add_u32 s4, s0, s2", 0xffffffff, 2, 0, LOW(1), 1},
    {G12, "s_add_co_u32 s4, s0, s2", 0xffffffff, 2, 0, LOW(1), 1},
    {G12, "s_add_co_u32 s4, s0, s2", 1, 2, 1, LOW(3), 0},
    {G11, "s_sub_u32 s4, s0, s2", 1, 2, 0, LOW(0xffffffff), 1},
    {G12, "s_sub_co_u32 s4, s0, s2", 2, 2, 1, LOW(0), 0},
    {G11, "s_addc_u32 s4, s0, s2", 0xffffffff, 0, 1, LOW(0), 1},
    {G12, "s_add_co_ci_u32 s4, s0, s2", 0xffffffff, 0xffffffff, 1, LOW(0xffffffff), 1},
    {G11, "s_subb_u32 s4, s0, s2", 5, 5, 1, LOW(0xffffffff), 1},
    {G12, "s_sub_co_ci_u32 s4, s0, s2", 0, 0xffffffff, 1, LOW(0), 1},
    {G11, "s_add_i32 s4, s0, s2", 0x7fffffff, 1, 0, LOW(0x80000000), 1},
    {G12, "s_add_co_i32 s4, s0, s2", 0xffffffff, 1, 1, LOW(0), 0},
    {G11, "s_sub_i32 s4, s0, s2", 0x80000000, 1, 0, LOW(0x7fffffff), 1},
    {G12, "s_sub_co_i32 s4, s0, s2", 5, 7, 1, LOW(0xfffffffe), 0},
    {G11, "s_addk_i32 s4, 0x7fff", 0, 0, 1, LOW(0x2222a221), 0},
    {G12, "s_addk_co_i32 s4, -1", 0, 0, 1, LOW(0x22222221), 0},
    {G12, "s_add_nc_u64 s[4:5], s[0:1], s[2:3]", 0xffffffff, 1, 1, 1ull << 32, KEPT},
    {G12, "s_sub_nc_u64 s[4:5], s[0:1], s[2:3]", 0, 1, 0, ~0ull, KEPT},
    {G12, "s_mul_u64 s[4:5], s[0:1], s[2:3]", 0x100000001, 0x100000003, 0, 0x400000003, KEPT},
    {BOTH, "s_mulk_i32 s4, -2", 0, 0, 1, LOW(0xbbbbbbbc), KEPT},
    {BOTH, "s_mul_i32 s4, s0, s2", 0xffffffff, 3, 0, LOW(0xfffffffd), KEPT},
    {BOTH, "s_mul_hi_u32 s4, s0, s2", 0xffffffff, 0xffffffff, 0, LOW(0xfffffffe), KEPT},
    {BOTH, "s_mul_hi_i32 s4, s0, s2", 0xffffffff, 2, 0, LOW(0xffffffff), KEPT},
    {BOTH, "s_absdiff_i32 s4, s0, s2", 2, 0xfffffffd, 0, LOW(5), 1},
    {BOTH, "s_absdiff_i32 s4, s0, s2", 9, 9, 1, LOW(0), 0},
    {BOTH, "s_abs_i32 s4, s0", 0x80000000, 0, 0, LOW(0x80000000), 1},
    {BOTH, "s_abs_i32 s4, s0", 0xfffffff6, 0, 0, LOW(10), 1},
    {BOTH, "s_min_i32 s4, s0, s2", 0xffffffff, 1, 0, LOW(0xffffffff), 1},
    {BOTH, "s_min_u32 s4, s0, s2", 0xffffffff, 1, 1, LOW(1), 0},
    {BOTH, "s_max_i32 s4, s0, s2", 0xffffffff, 1, 1, LOW(1), 0},
    {BOTH, "s_max_u32 s4, s0, s2", 0xffffffff, 1, 0, LOW(0xffffffff), 1},
    {BOTH, "s_min_i32 s4, s0, s2", 4, 4, 1, LOW(4), 0},
    {BOTH, "s_cselect_b32 s4, s0, s2", 1, 2, 1, LOW(1), KEPT},
    {BOTH, "s_cselect_b32 s4, s0, s2", 1, 2, 0, LOW(2), KEPT},
    {BOTH, "s_cselect_b64 s[4:5], s[0:1], s[2:3]", 1ull << 40, 2, 1, 1ull << 40, KEPT},
    /* comparisons */
    {BOTH, "s_cmp_eq_i32 s0, s2", 5, 5, 0, OLD, 1},
    {BOTH, "s_cmp_lg_i32 s0, s2", 5, 5, 1, OLD, 0},
    {BOTH, "s_cmp_gt_i32 s0, s2", 0xffffffff, 1, 1, OLD, 0},
    {BOTH, "s_cmp_ge_i32 s0, s2", 1, 1, 0, OLD, 1},
    {BOTH, "s_cmp_lt_i32 s0, s2", 0xffffffff, 1, 0, OLD, 1},
    {BOTH, "s_cmp_le_i32 s0, s2", 2, 1, 1, OLD, 0},
    {BOTH, "s_cmp_eq_u32 s0, s2", 5, 6, 1, OLD, 0},
    {BOTH, "s_cmp_lg_u32 s0, s2", 5, 6, 0, OLD, 1},
    {BOTH, "s_cmp_gt_u32 s0, s2", 0xffffffff, 1, 0, OLD, 1},
    {BOTH, "s_cmp_ge_u32 s0, s2", 0, 1, 1, OLD, 0},
    {BOTH, "s_cmp_lt_u32 s0, s2", 0xffffffff, 1, 1, OLD, 0},
    {BOTH, "s_cmp_le_u32 s0, 0x10000", 0x10000, 0, 0, OLD, 1},
    {BOTH, "s_bitcmp0_b32 s0, s2", 4, 34, 1, OLD, 0},
    {BOTH, "s_bitcmp1_b32 s0, s2", 4, 34, 0, OLD, 1},
    {BOTH, "s_bitcmp0_b64 s[0:1], s2", 1ull << 50, 50, 1, OLD, 0},
    {BOTH, "s_bitcmp1_b64 s[0:1], s2", 1ull << 50, 50, 0, OLD, 1},
    {BOTH, "s_cmp_eq_u64 s[0:1], s[2:3]", 1ull << 40, 1ull << 40, 0, OLD, 1},
    {BOTH, "s_cmp_lg_u64 s[0:1], s[2:3]", 1ull << 40, 0, 0, OLD, 1},
    {G11, "s_cmpk_eq_i32 s0, -1", 0xffffffff, 0, 0, OLD, 1},
    {G11, "s_cmpk_lg_i32 s0, -1", 0xffffffff, 0, 1, OLD, 0},
    {G11, "s_cmpk_gt_i32 s0, -2", 0xffffffff, 0, 0, OLD, 1},
    {G11, "s_cmpk_ge_i32 s0, 3", 2, 0, 1, OLD, 0},
    {G11, "s_cmpk_lt_i32 s0, 3", 0xffffffff, 0, 0, OLD, 1},
    {G11, "s_cmpk_le_i32 s0, 3", 4, 0, 1, OLD, 0},
    {G11, "s_cmpk_eq_u32 s0, 0xffff", 0xffff, 0, 0, OLD, 1},
    {G11, "s_cmpk_lg_u32 s0, 0xffff", 0xffffffff, 0, 0, OLD, 1},
    {G11, "s_cmpk_gt_u32 s0, 0xffff", 0x10000, 0, 0, OLD, 1},
    {G11, "s_cmpk_ge_u32 s0, 0xffff", 0xfffe, 0, 1, OLD, 0},
    {G11, "s_cmpk_lt_u32 s0, 0xffff", 0xfffe, 0, 0, OLD, 1},
    {G11, "s_cmpk_le_u32 s0, 0xffff", 0x10000, 0, 1, OLD, 0},
    /* EXEC, which is all ones before; then shown in s4 or s5 */
    {BOTH, "s_and_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 0, 0xf0ffffffff, 1},
    {BOTH, "s_and_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0, 0, 1, 0xffffffff, 0},
    {BOTH, "s_mov_b32 exec_lo, 0xff\n s_or_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf00, 0, 0, 0xfff000000ff,
     1},
    {BOTH, "s_xor_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 0, 0xffffff0fffffffff, 1},
    {BOTH, "s_nand_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 0, 0xffffff0fffffffff, 1},
    {BOTH, "s_nor_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xffffffff, 0},
    {BOTH, "s_xnor_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xf0ffffffff, 1},
    {BOTH, "s_and_not0_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xffffff0fffffffff, 1},
    {BOTH, "s_or_not0_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xffffffffffffffff, 1},
    {BOTH, "s_and_not1_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xffffffff, 0},
    {BOTH, "s_or_not1_saveexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0xf0ffffffff, 1},
    {BOTH, "s_and_not0_wrexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 0, 0xffffff0fffffff0f, 1},
    {BOTH, "s_and_not1_wrexec_b32 s4, s0\n s_mov_b32 s5, exec_lo", 0xf0, 0, 1, 0, 0},
    {BOTH, "s_mov_b32 exec_hi, 3\n s_and_saveexec_b64 s[4:5], s[0:1]\n s_mov_b64 s[0:1], exec", 0, 0, 1, 0x3ffffffff,
     0},
    {BOTH, "s_mov_b32 s4, src_scc", 0, 0, 1, LOW(1), KEPT},
    /* M0-relative: s0 and s2 hold the values, M0 leads from s0 to s2 */
    {BOTH, "s_mov_b32 m0, 2\n s_movrels_b32 s4, s0", 3, 9, 0, LOW(9), KEPT},
    {BOTH, "s_mov_b32 m0, 2\n s_movrels_b64 s[4:5], s[0:1]", 3, 9ull << 32, 0, 9ull << 32, KEPT},
    {BOTH, "s_mov_b32 m0, 3\n s_movreld_b32 s2, s0", 3, 9, 0, 0x0000000322222222, KEPT},
    {BOTH, "s_mov_b32 m0, 2\n s_movreld_b64 s[2:3], s[0:1]", 3, 9, 0, 3, KEPT},
    {BOTH, "s_mov_b32 m0, 0x20002\n s_movrelsd_2_b32 s2, s0", 3, 9, 0, LOW(9), KEPT},
    /* program control */
    {BOTH, "s_branch 1\n s_mov_b32 s4, 7\n s_nop 0", 0, 0, 0, OLD, KEPT},
    {BOTH, "s_cbranch_scc0 1\n s_mov_b32 s4, 7", 0, 0, 1, LOW(7), KEPT},
    {BOTH, "s_cbranch_scc1 1\n s_mov_b32 s4, 7", 0, 0, 1, OLD, KEPT},
    {BOTH, "s_mov_b32 vcc_lo, 0\n s_cbranch_vccz 1\n s_mov_b32 s4, 7", 0, 0, 0, OLD, KEPT},
    {BOTH, "s_mov_b32 vcc_lo, 0\n s_cbranch_vccnz 1\n s_mov_b32 s4, 7", 0, 0, 0, LOW(7), KEPT},
    {BOTH, "s_cbranch_execz 1\n s_mov_b32 s4, 7", 0, 0, 0, LOW(7), KEPT},
    {BOTH, "s_cbranch_execnz 1\n s_mov_b32 s4, 7", 0, 0, 0, OLD, KEPT},
    {BOTH, "s_mov_b32 s4, 3\n 1: s_add_i32 s4, s4, -1\n s_cmp_lg_u32 s4, 0\n s_cbranch_scc1 1b", 0, 0, 1, LOW(0), 0},
    {BOTH, "s_call_b64 s[0:1], 1\n s_mov_b32 s4, 1\n s_getpc_b64 s[2:3]\n s_sub_u32 s4, s2, s0", 0, 0, 1, LOW(8), 0},
    {BOTH,
     "s_getpc_b64 s[0:1]\n s_add_u32 s0, s0, 16\n s_swappc_b64 s[2:3], s[0:1]\n s_mov_b32 s4, 1\n s_nop 0\n"
     "s_sub_u32 s4, s0, s2",
     0, 0, 1, LOW(8), 0},
    {BOTH, "s_getpc_b64 s[0:1]\n s_add_u32 s0, s0, 12\n s_setpc_b64 s[0:1]\n s_mov_b32 s4, 1\n s_nop 0", 0, 0, 0, OLD,
     0},
    {BOTH, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5\n s_getreg_b32 s4, hwreg(HW_REG_MODE, 0, 8)", 0, 0, 0,
     LOW(0xf5), KEPT},
    {BOTH, "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s0\n s_getreg_b32 s4, hwreg(HW_REG_MODE, 4, 4)", 0xfd, 0, 0,
     LOW(0xd), KEPT},
    {BOTH, "s_round_mode 3\n s_denorm_mode 5\n s_getreg_b32 s4, hwreg(HW_REG_MODE, 0, 8)", 0, 0, 0, LOW(0x53), KEPT},
    {BOTH, "s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_RTN_GET_REALTIME)\n s_cmp_lg_u64 s[4:5], 0\n s_mov_b64 s[4:5], 0",
     0, 0, 0, 0, 1},
    {BOTH,
     "s_delay_alu instid0(VALU_DEP_1)\n s_clause 1\n s_nop 3\n s_setprio 1\n s_sleep 1\n s_sendmsg "
     "sendmsg(MSG_DEALLOC_VGPRS)",
     0, 0, 1, OLD, KEPT},
    {G11, "s_waitcnt vmcnt(0) lgkmcnt(0)\n s_waitcnt_vscnt null, 0\n s_waitcnt_depctr 0", 0, 0, 1, OLD, KEPT},
    {G12,
     "s_wait_loadcnt 0\n s_wait_storecnt 0\n s_wait_dscnt 0\n s_wait_kmcnt 0\n s_wait_alu 0\n s_wait_loadcnt_dscnt 0",
     0, 0, 1, OLD, KEPT},
};

/* Float: gfx1151 and gfx12. x86 and this arithmetic agree on these. */
static const struct row float_rows[] = {
    { BOTH, "s_add_f32 s4, s0, s2", 0x3f800000, 0x40000000, 0, LOW(0x40400000), KEPT },
    { BOTH, "s_sub_f32 s4, s0, s2", 0x3f800000, 0x40000000, 0, LOW(0xbf800000), KEPT },
    { BOTH, "s_mul_f32 s4, s0, s2", 0x40400000, 0x40400000, 0, LOW(0x41100000), KEPT },
    { BOTH, "s_fmac_f32 s4, s0, s2", 0x3f800000, 0, 0, LOW(0x22222222), KEPT },
    { BOTH, "s_fmaak_f32 s4, s0, s2, 0x3f800000", 0x40400000, 0x40400000, 0, LOW(0x41200000), KEPT },
    { BOTH, "s_fmamk_f32 s4, s0, 0x40400000, s2", 0x40400000, 0x3f800000, 0, LOW(0x41200000), KEPT },
    { BOTH, "s_add_f32 s4, s0, 1.0", 0x33800000, 0, 0, LOW(0x3f800000), KEPT },
    { BOTH, "s_add_f32 s4, s0, 1.0", 0x33800001, 0, 0, LOW(0x3f800001), KEPT },
    { BOTH, "s_round_mode 1\n s_add_f32 s4, s0, 1.0", 0x2f800000, 0, 0, LOW(0x3f800001), KEPT },
    { BOTH, "s_denorm_mode 0\n s_mul_f32 s4, s0, 1.0", 0x00400000, 0, 0, LOW(0), KEPT },
    { BOTH, "s_mul_f32 s4, s0, 1.0", 0x00400000, 0, 0, LOW(0x00400000), KEPT },
    { BOTH, "s_ceil_f32 s4, s0", 0x3f000000, 0, 0, LOW(0x3f800000), KEPT },
    { BOTH, "s_floor_f32 s4, s0", 0xbf000000, 0, 0, LOW(0xbf800000), KEPT },
    { BOTH, "s_trunc_f32 s4, s0", 0xbfc00000, 0, 0, LOW(0xbf800000), KEPT },
    { BOTH, "s_rndne_f32 s4, s0", 0x40200000, 0, 0, LOW(0x40000000), KEPT },
    { BOTH, "s_cvt_f32_i32 s4, s0", 0xffffffff, 0, 0, LOW(0xbf800000), KEPT },
    { BOTH, "s_cvt_f32_i32 s4, s0", 0x80000000, 0, 0, LOW(0xcf000000), KEPT },
    { BOTH, "s_cvt_f32_u32 s4, s0", 0xffffffff, 0, 0, LOW(0x4f800000), KEPT },
    { BOTH, "s_cvt_i32_f32 s4, s0", 0xc0200000, 0, 0, LOW(0xfffffffe), KEPT },
    { BOTH, "s_cvt_i32_f32 s4, s0", 0x7f800000, 0, 0, LOW(0x7fffffff), KEPT },
    { BOTH, "s_cvt_i32_f32 s4, s0", 0x7fc00000, 0, 0, LOW(0), KEPT },
    { BOTH, "s_cvt_u32_f32 s4, s0", 0xbf800000, 0, 0, LOW(0), KEPT },
    { BOTH, "s_cvt_u32_f32 s4, s0", 0x4f800000, 0, 0, LOW(0xffffffff), KEPT },
    { BOTH, "s_cvt_f16_f32 s4, s0", 0x3f800000, 0, 0, LOW(0x3c00), KEPT },
    { BOTH, "s_cvt_f32_f16 s4, s0", 0x12343c00, 0, 0, LOW(0x3f800000), KEPT },
    { BOTH, "s_cvt_f32_f16 s4, 1.0", 0, 0, 0, LOW(0x3f800000), KEPT },
    { BOTH, "s_cvt_hi_f32_f16 s4, s0", 0x3c000000, 0, 0, LOW(0x3f800000), KEPT },
    { BOTH, "s_cvt_pk_rtz_f16_f32 s4, s0, s2", 0x3f800fff, 0x477fffff, 0, LOW(0x7bff3c00), KEPT },
    { BOTH, "s_add_f16 s4, s0, s2", 0x3c00, 0x4000, 0, LOW(0x4200), KEPT },
    { BOTH, "s_sub_f16 s4, s0, 1.0", 0x3c00, 0, 0, LOW(0), KEPT },
    { BOTH, "s_mul_f16 s4, s0, s2", 0x4200, 0x4200, 0, LOW(0x4880), KEPT },
    { BOTH, "s_ceil_f16 s4, s0", 0x3800, 0, 0, LOW(0x3c00), KEPT },
    { BOTH, "s_floor_f16 s4, s0", 0xb800, 0, 0, LOW(0xbc00), KEPT },
    { BOTH, "s_rndne_f16 s4, s0", 0x4100, 0, 0, LOW(0x4000), KEPT },
    { BOTH, "s_cmp_lt_f32 s0, s2", 0x3f800000, 0x40000000, 0, OLD, 1 },
    { BOTH, "s_cmp_eq_f32 s0, s2", 0, 0x80000000, 0, OLD, 1 },
    { BOTH, "s_cmp_le_f32 s0, s2", 0x7fc00000, 0, 1, OLD, 0 },
    { BOTH, "s_cmp_gt_f32 s0, s2", 0x40000000, 0x3f800000, 0, OLD, 1 },
    { BOTH, "s_cmp_lg_f32 s0, s2", 0x7fc00000, 0, 1, OLD, 0 },
    { BOTH, "s_cmp_ge_f32 s0, s2", 0xbf800000, 0xbf800000, 0, OLD, 1 },
    { BOTH, "s_cmp_o_f32 s0, s2", 0x7fc00000, 0, 1, OLD, 0 },
    { BOTH, "s_cmp_u_f32 s0, s2", 0, 0x7fc00000, 0, OLD, 1 },
    { BOTH, "s_cmp_nge_f32 s0, s2", 0x7fc00000, 0, 0, OLD, 1 },
    { BOTH, "s_cmp_nlg_f32 s0, s2", 0x3f800000, 0x3f800000, 0, OLD, 1 },
    { BOTH, "s_cmp_ngt_f32 s0, s2", 0x40000000, 0x3f800000, 1, OLD, 0 },
    { BOTH, "s_cmp_nle_f32 s0, s2", 0x7fc00000, 0, 0, OLD, 1 },
    { BOTH, "s_cmp_neq_f32 s0, s2", 0x7fc00000, 0x7fc00000, 0, OLD, 1 },
    { BOTH, "s_cmp_nlt_f32 s0, s2", 0x3f800000, 0x40000000, 1, OLD, 0 },
    { BOTH, "s_cmp_gt_f16 s0, s2", 0x4000, 0x3c00, 0, OLD, 1 },
    { BOTH, "s_cmp_lt_f16 s0, 1.0", 0x3800, 0, 0, OLD, 1 },
    { G11, "s_min_f32 s4, s0, s2", 0x3f800000, 0x7fc00000, 0, LOW(0x3f800000), KEPT },
    { G12, "s_min_num_f32 s4, s0, s2", 0x7fc00000, 0x3f800000, 0, LOW(0x3f800000), KEPT },
    { G12, "s_max_num_f32 s4, s0, s2", 0x80000000, 0, 0, LOW(0), KEPT },
    { G12, "s_minimum_f32 s4, s0, s2", 0x3f800000, 0x7fc00001, 0, LOW(0x7fc00001), KEPT },
    { G12, "s_maximum_f32 s4, s0, s2", 0x3f800000, 0x40000000, 0, LOW(0x40000000), KEPT },
    { G12, "s_max_num_f16 s4, s0, s2", 0x3c00, 0x4000, 0, LOW(0x4000), KEPT },
};

static bool has(const struct row *r, const struct chip *c)
{
    return r->chips == BOTH || (r->chips == G12) == c->gfx12;
}

static void check_rows(const char *chip, const struct row *r, size_t n)
{
    const struct chip *c = chip_find(chip);
    const char **text = calloc(n, sizeof *text);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        text[k] = r[i].text, k += has(&r[i], c);
    struct asm_unit *u = asm_build(chip, text, k);
    k = 0;
    for (size_t i = 0; i < n; i++) {
        if (!has(&r[i], c))
            continue;
        struct asm_wave *w = asm_wave_new(u);
        uint64_t in[3] = { r[i].a, r[i].b, OLD }, d;
        memcpy(w->s, in, sizeof in);
        w->scc = (uint32_t)r[i].scc_in;
        enum isa_status rc = asm_try(u, k++, w);
        memcpy(&d, &w->s[4], 8);
        uint32_t scc = (uint32_t)(r[i].scc == KEPT ? r[i].scc_in : r[i].scc);
        ck_assert_msg(rc == ISA_DONE, "%s: %s: %s", chip, r[i].text, w->fault.text);
        ck_assert_msg(d == r[i].d && w->scc == scc,
                      "%s: %s\n of %llx, %llx: s[4:5] = %llx, scc %u; expected %llx, scc %u", chip, r[i].text,
                      (unsigned long long)r[i].a, (unsigned long long)r[i].b, (unsigned long long)d, w->scc,
                      (unsigned long long)r[i].d, scc);
        free(w);
    }
    asm_free(u);
    free(text);
}

START_TEST(integers_and_control_flow)
{
    check_rows(_i ? "gfx1100" : "gfx1201", rows, sizeof rows / sizeof *rows);
}
END_TEST

START_TEST(floats)
{
    check_rows(_i ? "gfx1151" : "gfx1201", float_rows, sizeof float_rows / sizeof *float_rows);
}
END_TEST

/* Scalar loads: each writes s4 and on; memory holds its own byte offsets' pattern. */
static const struct load {
    int chips;
    const char *text;
    int n;
    uint32_t expect[16];
} loads[] = {
#define D(i) (0x03020100u + 0x04040404u * (i))
    {BOTH, "s_load_b32 s4, s[0:1], 0x8", 1, {D(2)}},
    {BOTH, "s_load_b32 s4, s[0:1], s2", 1, {D(3)}},
    {BOTH, "s_load_b32 s4, s[0:1], s2 offset:0x8", 1, {D(5)}},
    {BOTH, "s_add_u32 s0, s0, 16\n s_load_b32 s4, s[0:1], -8", 1, {D(2)}},
    {BOTH, "s_load_b32 s4, s[0:1], 0x7", 1, {D(1)}},
    {BOTH, "s_load_b64 s[4:5], s[0:1], 0x0", 2, {D(0), D(1)}},
    {BOTH, "s_load_b128 s[4:7], s[0:1], 0x10", 4, {D(4), D(5), D(6), D(7)}},
    {BOTH, "s_load_b256 s[4:11], s[0:1], 0x0", 8, {D(0), D(1), D(2), D(3), D(4), D(5), D(6), D(7)}},
    {BOTH,
     "s_load_b512 s[4:19], s[0:1], 0x40",
     16,
     {D(16), D(17), D(18), D(19), D(20), D(21), D(22), D(23), D(24), D(25), D(26), D(27), D(28), D(29), D(30),
      D(31)}},
    {BOTH, "s_load_b128 s[4:7], s[0:1], 0xff8", 4, {D(62), D(63), 0xaaaaaaaa, 0xaaaaaaaa}}, /* over a page's end */
    {G12, "s_load_b96 s[4:6], s[0:1], 0x4", 3, {D(1), D(2), D(3)}},
    {G12, "s_load_u8 s4, s[0:1], 0x85", 1, {0x85}},
    {G12, "s_load_i8 s4, s[0:1], 0x85", 1, {0xffffff85}},
    {G12, "s_load_u16 s4, s[0:1], 0x81", 1, {0x8281}},
    {G12, "s_load_i16 s4, s[0:1], 0x81", 1, {0xffff8281}},
    {BOTH, "s_mov_b32 s2, 8\n s_mov_b32 s3, 0\n s_buffer_load_b128 s[4:7], s[0:3], 0x0", 4, {D(0), D(1), 0, 0}},
    {BOTH, "s_mov_b32 s2, 64\n s_mov_b32 s3, 0\n s_buffer_load_b64 s[4:5], s[0:3], 0x4", 2, {D(1), D(2)}},
    {BOTH,
     "s_or_b32 s1, s1, 0x80000\n s_mov_b32 s2, 1\n s_mov_b32 s3, 0\n s_buffer_load_b128 s[4:7], s[0:3], 0x0",
     4,
     {D(0), D(1), 0, 0}},
};

START_TEST(loads_and_descriptors)
{
    enum { N = sizeof loads / sizeof *loads };
    const char *chip = _i ? "gfx1100" : "gfx1201", *text[N];
    size_t k = 0;
    for (size_t i = 0; i < N; i++)
        text[k] = loads[i].text, k += loads[i].chips == BOTH || (loads[i].chips == G12) == !_i;
    struct asm_unit *u = asm_build(chip, text, k);
    uint8_t *m = asm_buffer(u, 0x200000, 2 * VM_PAGE);
    for (int i = 0; i < VM_PAGE; i++)
        m[i] = (uint8_t)i;
    memset(m + VM_PAGE, 0xaa, VM_PAGE);
    k = 0;
    for (size_t i = 0; i < N; i++) {
        if (!(loads[i].chips == BOTH || (loads[i].chips == G12) == !_i))
            continue;
        struct asm_wave *w = asm_wave_new(u);
        w->s[0] = 0x200000;
        w->s[2] = 12;
        asm_run(u, k++, w);
        for (int d = 0; d < loads[i].n; d++)
            ck_assert_msg(w->s[4 + d] == loads[i].expect[d], "%s: %s: s%d = %x, expected %x", chip, loads[i].text,
                          4 + d, w->s[4 + d], loads[i].expect[d]);
        free(w);
    }
    asm_free(u);
}
END_TEST

/* What has to end in a report. */
static const struct {
    const char *text;
    enum isa_fault_kind kind;
    const char *says;
} faults[] = {
    { "s_load_b32 s4, s[0:1], 0x0", ISA_FAULT_PAGE, "s_load_b32" },
    { "s_trap 2", ISA_FAULT_TRAP, "trap 2" },
    { "s_code_end", ISA_FAULT_ILLEGAL, "past the end" },
    { "s_setpc_b64 s[0:1]", ISA_FAULT_PAGE, "not mapped" },
    { "s_mov_b32 m0, 200\n s_movrels_b32 s4, s0", ISA_FAULT_REGISTER, "M0" },
    { ".long 0xbeff0000 | 0xff00", ISA_FAULT_ILLEGAL, "does not have this" },
    { ".long 0xcd000000\n .long 0", ISA_FAULT_ILLEGAL, "VINTERP: an instruction of graphics, which is not modelled" },
    { ".long 0xce000000", ISA_FAULT_ILLEGAL, "LDSDIR: an instruction of graphics, which is not modelled" },
    { "s_sendmsg sendmsg(MSG_INTERRUPT)", ISA_FAULT_ILLEGAL, "message 1" },
    { "s_getreg_b32 s4, 62", ISA_FAULT_ILLEGAL, "register 62" },
};

START_TEST(faults_say_what_and_where)
{
    enum { N = sizeof faults / sizeof *faults };
    const char *text[N];
    for (int i = 0; i < N; i++)
        text[i] = faults[i].text;
    struct asm_unit *u = asm_build("gfx1201", text, N);
    for (size_t i = 0; i < N; i++) {
        struct asm_wave *w = asm_wave_new(u);
        w->s[0] = 0x666000;
        ck_assert_msg(asm_try(u, i, w) == ISA_FAULT, "%s", text[i]);
        ck_assert_msg(w->fault.kind == faults[i].kind && strstr(w->fault.text, faults[i].says), "%s: kind %d, %s",
                      text[i], w->fault.kind, w->fault.text);
        free(w);
    }
    asm_free(u);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    Suite *s = suite_create("isa scalar");
    TCase *t = tcase_create("isa scalar");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, integers_and_control_flow, 0, 2);
    tcase_add_loop_test(t, floats, 0, 2);
    tcase_add_loop_test(t, loads_and_descriptors, 0, 2);
    tcase_add_test(t, faults_say_what_and_where);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
