/* Rules of the vector ALU, by hand: lanes and rows, halves, constants by type, modes, modifiers, masks, pairs.
 *
 * A line of a table: chips, the text, registers before, registers after. "v2=5" sets (expects in) every lane,
 * "v2=3:5" lane 3, "v2=4-7:5" lanes 4 to 7, "v2=lane" 0x100 plus the lane's number; s, vcc, exec, m0, mode name
 * scalars. Values are hex. Unset registers are 0, EXEC all ones; what is not expected is not looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/amdsim/isa_asm.h"
#include "tests/lib/run.h"

enum chips { G11 = 1, G12 = 2, ALL = 3 };
struct rule {
    enum chips chips;
    const char *text, *before, *after;
};

static const struct rule lanes[] = {
    { ALL, "v_mov_b32_dpp v0, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", "v2=lane",
     "v0=0:103 v0=1:102 v0=2:101 v0=3:100 v0=30:11d v0=31:11c" },
    { ALL, "v_mov_b32_dpp v0, v2 row_shl:1 row_mask:0xf bank_mask:0xf", "v2=lane v0=7",
     "v0=0:101 v0=14:10f v0=15:7 v0=16:111 v0=31:7" },
    { ALL, "v_mov_b32_dpp v0, v2 row_shl:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", "v2=lane v0=7",
     "v0=0:101 v0=15:0 v0=31:0" },
    { ALL, "v_mov_b32_dpp v0, v2 row_shr:3 row_mask:0xf bank_mask:0xf", "v2=lane v0=7",
     "v0=0-2:7 v0=3:100 v0=16-18:7 v0=19:110" },
    { ALL, "v_mov_b32_dpp v0, v2 row_ror:4 row_mask:0xf bank_mask:0xf", "v2=lane",
     "v0=0:10c v0=4:100 v0=16:11c v0=31:11b" },
    { ALL, "v_mov_b32_dpp v0, v2 row_mirror row_mask:0xf bank_mask:0xf", "v2=lane", "v0=0:10f v0=15:100 v0=16:11f" },
    { ALL, "v_mov_b32_dpp v0, v2 row_half_mirror row_mask:0xf bank_mask:0xf", "v2=lane",
     "v0=0:107 v0=8:10f v0=24:11f" },
    { ALL, "v_mov_b32_dpp v0, v2 row_share:5 row_mask:0xf bank_mask:0xf", "v2=lane", "v0=0-15:105 v0=16-31:115" },
    { ALL, "v_mov_b32_dpp v0, v2 row_xmask:6 row_mask:0xf bank_mask:0xf", "v2=lane", "v0=0:106 v0=6:100 v0=17:117" },
    { ALL, "v_mov_b32_dpp v0, v2 row_share:0 row_mask:0x1 bank_mask:0xf", "v2=lane v0=7", "v0=0-15:100 v0=16-31:7" },
    { ALL, "v_mov_b32_dpp v0, v2 row_share:0 row_mask:0xf bank_mask:0x2", "v2=lane v0=7",
     "v0=0-3:7 v0=4-7:100 v0=8-15:7 v0=20-23:110" },
    { ALL, "v_mov_b32_dpp v0, v2 row_xmask:1 row_mask:0xf bank_mask:0xf", "v2=lane v0=7 exec=fffffffe",
     "v0=0:7 v0=1:0 v0=2:103" },
    { ALL, "v_mov_b32_dpp v0, v2 row_xmask:1 row_mask:0xf bank_mask:0xf fi:1", "v2=lane v0=7 exec=fffffffe",
     "v0=0:7 v0=1:100 v0=2:103" },
    { ALL, "v_mov_b32_dpp v0, v2 dpp8:[7,6,5,4,3,2,1,0]", "v2=lane", "v0=0:107 v0=7:100 v0=8:10f v0=31:118" },
    { ALL, "v_mov_b32_dpp v0, v2 dpp8:[1,1,1,1,1,1,1,1]", "v2=lane exec=fffffffd", "v0=0:0 v0=8:109" },
    { ALL, "v_mov_b32_dpp v0, v2 dpp8:[1,1,1,1,1,1,1,1] fi:1", "v2=lane exec=fffffffd", "v0=0:101 v0=8:109" },
    { ALL, "v_add_nc_u32_dpp v0, v2, v4 row_xmask:1 row_mask:0xf bank_mask:0xf", "v2=lane v4=lane",
     "v0=0:201 v0=1:201 v0=31:23d" },
    { ALL, "v_sub_f32_dpp v0, -v2, |v4| row_share:1 row_mask:0xf bank_mask:0xf", "v2=3f800000 v4=c0000000",
     "v0=c0400000" },
    { ALL, "v_add_nc_u32_e64_dpp v0, v2, v4 row_share:1 row_mask:0xf bank_mask:0xf", "v2=lane v4=1",
     "v0=0-15:102 v0=16-31:112" },
    { ALL, "v_cmp_eq_u32_dpp vcc_lo, v2, v4 row_shr:1 row_mask:0xf bank_mask:0xf", "v2=0 v4=0 vcc=ffffffff",
     "vcc=fffefffe" },
    { ALL, "v_permlane16_b32 v0, v2, s4, s5", "v2=lane s4=76543210 s5=fedcba98",
     "v0=0:100 v0=5:105 v0=15:10f v0=16:110 v0=31:11f" },
    { ALL, "v_permlane16_b32 v0, v2, s4, s5", "v2=lane s4=01234567 s5=0",
     "v0=0:107 v0=7:100 v0=8-15:100 v0=16:117 v0=24-31:110" },
    { ALL, "v_permlanex16_b32 v0, v2, s4, s5", "v2=lane s4=76543210 s5=fedcba98",
     "v0=0:110 v0=15:11f v0=16:100 v0=31:10f" },
    { ALL, "v_permlanex16_b32 v0, v2, s4, s5", "v2=lane s4=0 s5=0", "v0=0-15:110 v0=16-31:100" },
    { ALL, "v_permlane16_b32 v0, v2, s4, s5", "v2=lane v0=7 s4=11111111 s5=11111111 exec=fffffffd",
     "v0=0:7 v0=2-15:7 v0=16:111" },
    { ALL, "v_permlane16_b32 v0, v2, s4, s5 op_sel:[1,0]", "v2=lane v0=7 s4=11111111 s5=11111111 exec=fffffffd",
     "v0=0:101 v0=1:7 v0=16:111" },
    { ALL, "v_permlane16_b32 v0, v2, s4, s5 op_sel:[0,1]", "v2=lane v0=7 s4=11111111 s5=11111111 exec=fffffffd",
     "v0=0:0 v0=1:7 v0=16:111" },
    { G12, "v_permlane16_var_b32 v0, v2, v4", "v2=lane v4=3 v4=20:f", "v0=0-15:103 v0=16:113 v0=20:11f" },
    { G12, "v_permlanex16_var_b32 v0, v2, v4", "v2=lane v4=3 v4=20:f", "v0=0-15:113 v0=16:103 v0=20:10f" },
    { ALL, "v_permlane64_b32 v0, v2", "v2=lane v0=7", "v0=0:7 v0=31:7" },
    { ALL, "v_readfirstlane_b32 s20, v2", "v2=lane exec=ffffff00", "s20=108" },
    { ALL, "v_readfirstlane_b32 s20, v2", "v2=lane exec=0", "s20=100" },
    { ALL, "v_readlane_b32 s20, v2, 37", "v2=lane exec=0", "s20=105" },
    { ALL, "v_readlane_b32 vcc_lo, v2, s4", "v2=lane s4=1f", "vcc=11f" },
    { ALL, "v_readlane_b32 s20, v2, m0", "v2=lane m0=21", "s20=101" },
    { ALL, "v_writelane_b32 v0, s4, 3", "v0=7 s4=55 exec=0", "v0=2:7 v0=3:55 v0=4:7" },
    { ALL, "v_writelane_b32 v0, -1, s5", "v0=7 s5=22", "v0=2:ffffffff v0=3:7" },
    { ALL, "v_swap_b32 v0, v2", "v0=7 v2=lane exec=fffffffe", "v0=0:7 v0=1:101 v2=0:100 v2=1:7" },
    { ALL, "v_movrels_b32 v0, v2", "v2=1 v5=lane m0=3", "v0=0:100 v0=31:11f" },
    { ALL, "v_movreld_b32 v0, v2", "v2=lane m0=3", "v3=5:105 v0=0" },
    { ALL, "v_movreld_b32 v0, 5", "m0=3", "v3=5" },
    { ALL, "v_movrelsd_b32 v0, v2", "v5=lane m0=3", "v3=5:105" },
    { ALL, "v_movrelsd_2_b32 v0, v2", "v5=lane m0=40003", "v4=5:105" },
    { ALL, "v_swaprel_b32 v0, v2", "v5=lane v4=9 m0=40003", "v4=5:105 v5=9" },
    { ALL, "v_nop", "v0=7", "v0=7" },
};

static const struct rule halves[] = {
    { ALL, ".long 0xd5320800, 0x00020902 // v_add_f16 v0.l, v2.h, v4.l", "v2=40003c00 v4=3c00 v0=aaaabbbb",
     "v0=aaaa4200" },
    { ALL, ".long 0xd5324000, 0x00020902 // v_add_f16 v0.h, v2.l, v4.l", "v2=40003c00 v4=3c00 v0=aaaabbbb",
     "v0=4000bbbb" },
    { ALL, "v_add_nc_u16 v0, v2, s4 op_sel:[0,1,1]", "v2=2 s4=30005 v0=aaaabbbb", "v0=5bbbb" },
    { ALL, "v_mad_u16 v0, v2, v4, v6 op_sel:[1,1,1,0]", "v2=3ffff v4=5ffff v6=1ffff v0=aaaabbbb", "v0=aaaa0010" },
    { ALL, ".long 0xd58b0800, 0x00000102 // v_cvt_f32_f16 v0, v2.h", "v2=3c000000", "v0=3f800000" },
    { ALL, ".long 0xd58a4000, 0x00000102 // v_cvt_f16_f32 v0.h, v2", "v2=3f800000 v0=aaaabbbb", "v0=3c00bbbb" },
    { ALL, "v_fma_mixhi_f16 v0, v2, v4, v6", "v2=40000000 v4=40400000 v6=3f800000 v0=aaaabbbb", "v0=4700bbbb" },
    { ALL, ".long 0xd4390814, 0x00020902 // v_cmp_lt_u16 s20, v2.h, v4.l", "v2=10009 v4=2", "s20=ffffffff" },
    { ALL, "v_mad_u32_u16 v0, v2, v4, v6 op_sel:[1,0,0,0]", "v2=20000 v4=3 v6=10000", "v0=10006" },
};

static const struct rule constants[] = {
    { ALL, "v_mov_b32 v0, 1.0", "", "v0=3f800000" },
    { ALL, "v_mov_b32 v0, 0.15915494", "", "v0=3e22f983" },
    { ALL, "v_mov_b32 v0, -16", "", "v0=fffffff0" },
    { ALL, "v_mov_b32 v0, 64", "", "v0=40" },
    { ALL, "v_mov_b32 v0, 0x12345678", "", "v0=12345678" },
    { ALL, "v_mov_b32 v0, src_scc", "", "v0=0" },
    { ALL, "v_mov_b32 v0, exec_lo", "exec=7fff", "v0=0:7fff" },
    { ALL, "v_add_f16 v0, 1.0, v2", "v2=0", "v0=3c00" },
    { ALL, "v_add_f16 v0, 0.15915494, v2", "v2=0", "v0=3118" },
    { ALL, "v_add_f16 v0, 0x4248, v2", "v2=0", "v0=4248" },
    { ALL, "v_add_f64 v[0:1], 0.15915494309189532, v[2:3]", "", "v0=6dc9c882 v1=3fc45f30" },
    { ALL, "v_add_f64 v[0:1], 0x40080000, v[2:3]", "", "v0=0 v1=40080000" },
    { ALL, "v_add_f64 v[0:1], 1.0, v[2:3]", "", "v0=0 v1=3ff00000" },
    { ALL, "v_lshlrev_b64 v[0:1], 4, -1", "", "v0=fffffff0 v1=ffffffff" },
    { ALL, "v_lshlrev_b64 v[0:1], 4, s[4:5]", "s4=f0000001 s5=2", "v0=10 v1=2f" },
    { ALL, "v_cmp_eq_u64 s20, 0xf0000000, v[2:3]", "v2=f0000000 v3=0", "s20=ffffffff" },
    { ALL, "v_cmp_eq_i64 s20, -5, v[2:3]", "v2=fffffffb v3=ffffffff", "s20=ffffffff" },
    { ALL, "v_pk_add_f16 v0, v2, 1.0", "v2=0", "v0=3c00" },            /* the high half of a constant is 0 */
    { ALL, "v_pk_add_f16 v0, v2, 1.0 op_sel_hi:[1,0]", "v2=0", "v0=3c003c00" },
    { ALL, "v_pk_add_u16 v0, v2, -1", "v2=10001", "v0=0" },            /* an integer is extended to both */
    { ALL, "v_pk_add_u16 v0, v2, 5", "v2=10001", "v0=10006" },
    { ALL, "v_add_nc_u32 v0, s4, v2", "s4=5 v2=lane", "v0=1:106" },
    { ALL, "v_fma_f32 v0, s4, s5, s4", "s4=40000000 s5=40400000", "v0=41000000" },
};

static const struct rule modes[] = {
    /* mode: 3:0 rounding, 5:4 f32 denormals, 7:6 f16 and f64, 8 DX10, 9 IEEE, 23 f16 overflow */
    { ALL, "v_add_f32 v0, v2, v4", "mode=f1 v2=3f800000 v4=1", "v0=3f800001" },
    { ALL, "v_add_f32 v0, v2, v4", "mode=f2 v2=3f800000 v4=80000001", "v0=3f7fffff" },
    { ALL, "v_add_f32 v0, v2, v4", "mode=f3 v2=bf800000 v4=1", "v0=bf7fffff" },
    { ALL, "v_add_f32 v0, v2, v4", "mode=f2 v2=3f800000 v4=bf800000", "v0=80000000" },
    { ALL, "v_add_f16 v0, v2, v4", "mode=f4 v2=3c00 v4=1", "v0=3c01" },
    { ALL, "v_add_f16 v0, v2, v4", "mode=f1 v2=3c00 v4=1", "v0=3c00" },
    { ALL, "v_add_f64 v[0:1], v[2:3], v[4:5]", "mode=f4 v3=3ff00000 v4=1", "v0=1 v1=3ff00000" },
    { ALL, "v_cvt_f16_f32 v0, v2", "mode=f4 v2=3f800001", "v0=3c01" },
    { ALL, "v_cvt_f16_f32 v0, v2", "mode=8000f0 v2=47800000", "v0=7bff" },
    { ALL, "v_cvt_f16_f32 v0, v2", "mode=8000f0 v2=7f800000", "v0=7c00" },
    { ALL, "v_cvt_f32_u32 v0, v2", "mode=f1 v2=1000001", "v0=4b800001" },
    { ALL, "v_mul_f32 v0, v2, v4", "mode=d0 v2=1 v4=4f800000", "v0=5000000 mode=d0" },
    { ALL, "v_mul_f32 v0, v2, v4", "mode=e0 v2=1 v4=4f800000", "v0=0" },
    { ALL, "v_mul_f32 v0, v2, v4", "mode=d0 v2=800000 v4=bf000000", "v0=80000000" },
    { ALL, "v_mul_f32 v0, v2, v4", "mode=f0 v2=800000 v4=bf000000", "v0=80400000" },
    { ALL, "v_mul_f16 v0, v2, v4", "mode=f0 v2=400 v4=3800", "v0=200" },
    { ALL, "v_mul_f16 v0, v2, v4", "mode=70 v2=400 v4=3800", "v0=0" },
    { ALL, "v_cmp_eq_f32 s20, v2, v4", "mode=e0 v2=1 v4=80000002", "s20=ffffffff" },
    { ALL, "v_cmp_eq_f32 s20, v2, v4", "mode=f0 v2=1 v4=80000002", "s20=0" },
    { ALL, "v_rcp_f32 v0, v2", "v2=40000000", "v0=3f000000" },
    { ALL, "v_exp_f32 v0, v2", "v2=40400000", "v0=41000000" },
    { ALL, "v_rcp_f32 v0, -v2", "v2=40000000", "v0=bf000000" },
    { ALL, "v_sqrt_f16 v0, v2", "v2=4400", "v0=4000" },
    /* clamp: to [0, 1]; a NaN to 0, on gfx11 only with DX10_CLAMP */
    { ALL, "v_add_f32_e64 v0, v2, v4 clamp", "v2=3f800000 v4=3f800000", "v0=3f800000" },
    { ALL, "v_add_f32_e64 v0, v2, v4 clamp", "v2=bf800000 v4=3f000000", "v0=0" },
    { G11, "v_add_f32_e64 v0, v2, v4 clamp", "mode=2f0 v2=7fc00000 v4=3f000000", "v0=7fc00000" },
    { ALL, "v_add_f32_e64 v0, v2, v4 clamp", "mode=3f0 v2=7fc00000 v4=3f000000", "v0=0" },
    { ALL, "v_pk_mul_f16 v0, v2, v4 clamp", "v2=4000bc00 v4=3c003c00", "v0=3c000000" },
    { ALL, "v_fma_mixlo_f16 v0, v2, v4, v6 clamp", "v2=40000000 v4=3f800000 v6=0", "v0=3c00" },
    /* omod: gfx12 always; gfx11 without IEEE and f32 subnormal results */
    { G12, "v_mul_f32_e64 v0, v2, v4 mul:2", "v2=40400000 v4=3f800000", "v0=40c00000" },
    { G12, "v_mul_f32_e64 v0, v2, v4 mul:4", "v2=40400000 v4=3f800000", "v0=41400000" },
    { G12, "v_mul_f32_e64 v0, v2, v4 div:2", "v2=40400000 v4=3f800000", "v0=3fc00000" },
    { G12, "v_mul_f32_e64 v0, v2, v4 mul:2", "v2=80000000 v4=3f800000", "v0=0" },
    { G11, "v_mul_f32_e64 v0, v2, v4 mul:2", "mode=3f0 v2=40400000 v4=3f800000", "v0=40400000" },
    { G11, "v_mul_f32_e64 v0, v2, v4 mul:2", "mode=1d0 v2=40400000 v4=3f800000", "v0=40c00000" },
    /* least and greatest: what NaNs do */
    { G11, "v_min_f32 v0, v2, v4", "mode=3f0 v2=7f800001 v4=3f800000", "v0=7fc00001" },
    { G11, "v_min_f32 v0, v2, v4", "mode=1f0 v2=7f800001 v4=3f800000", "v0=3f800000" },
    { G11, "v_max_f32 v0, v2, v4", "v2=7fc00001 v4=3f800000", "v0=3f800000" },
    { G12, "v_max_num_f32 v0, v2, v4", "v2=7f800001 v4=3f800000", "v0=3f800000" },
    { G12, "v_max_num_f32 v0, v2, v4", "v2=7f800001 v4=ffc00002", "v0=7fc00001" },
    { G12, "v_maximum_f32 v0, v2, v4", "v2=3f800000 v4=ffc00002", "v0=ffc00002" },
    { G12, "v_minimum_f16 v0, v2, v4", "v2=7d00 v4=0", "v0=7f00" },
    { G11, "v_med3_f32 v0, v2, v4, v6", "v2=40400000 v4=3f800000 v6=40000000", "v0=40000000" },
    { G12, "v_med3_num_f32 v0, v2, v4, v6", "v2=40400000 v4=7fc00000 v6=40000000", "v0=40000000" },
    { G12, "v_minimum3_f32 v0, v2, v4, v6", "v2=40400000 v4=7fc00000 v6=40000000", "v0=7fc00000" },
    { G12, "v_min3_num_f32 v0, v2, v4, v6", "v2=40400000 v4=7fc00000 v6=40000000", "v0=40000000" },
    { G12, "v_maximumminimum_f32 v0, v2, v4, v6", "v2=40400000 v4=40800000 v6=40000000", "v0=40000000" },
    { G12, "v_minmax_num_f32 v0, v2, v4, v6", "v2=40400000 v4=40800000 v6=40000000", "v0=40400000" },
    { G11, "v_maxmin_f32 v0, v2, v4, v6", "v2=40400000 v4=40800000 v6=40000000", "v0=40000000" },
    { G11, "v_max3_f16 v0, v2, v4, v6", "v2=4200 v4=4400 v6=4000", "v0=4400" },
    { G12, "v_pk_minimum_f16 v0, v2, v4", "v2=7e003c00 v4=3c004000", "v0=7e003c00" },
    { G12, "v_pk_min_num_f16 v0, v2, v4", "v2=7e003c00 v4=3c004000", "v0=3c003c00" },
    { G11, "v_pk_max_f16 v0, v2, v4", "v2=7e003c00 v4=3c004000", "v0=3c004000" },
};

static const struct rule masks[] = {
    { ALL, "v_cmp_eq_u32 vcc_lo, v2, v4", "v2=lane v4=105 exec=f0 vcc=ffffffff", "vcc=20 exec=f0" },
    { ALL, "v_cmp_ne_u32_e64 s20, v2, v4", "v2=lane v4=105 exec=f0 s20=ffffffff", "s20=d0" },
    { ALL, "v_cmp_ne_u32_e64 null, v2, v4", "v2=lane v4=105", "exec=ffffffff" },
    { ALL, "v_cmpx_lt_u32 v2, v4", "v2=lane v4=105 exec=3f vcc=1234", "exec=1f vcc=1234" },
    { ALL, "v_cmpx_lt_u32_e64 v2, s4", "v2=lane s4=103 exec=e", "exec=6" },
    { ALL, "v_cmpx_ngt_f32 v2, v4", "v2=3f800000 v2=3:7fc00000 v2=4:40000000 v4=3f800000", "exec=ffffffef" },
    { G11, "v_cmp_t_u32 vcc_lo, v2, v4", "exec=ff", "vcc=ff" },
    { G11, "v_cmp_f_f32 vcc_lo, v2, v4", "vcc=ff", "vcc=0" },
    { ALL, "v_cmp_class_f32 vcc_lo, v2, 0x1f8",
     "v2=0:7f800000 v2=1:3f800000 v2=2:80000001 v2=3:7fc00000 v2=4:ff800000", "vcc=ffffffe6" },
    { ALL, "v_cmp_class_f16_e64 s20, v2, v4", "v2=fc00 v2=1:3c00 v4=4", "s20=fffffffd" },
    { ALL, "v_add_co_u32 v0, vcc_lo, v2, v4", "v2=ffffffff v4=1 v4=3:0 exec=f v0=7 vcc=ffffffff",
     "v0=0-2:0 v0=3:ffffffff v0=4:7 vcc=7" },
    { ALL, "v_add_co_u32 v0, null, v2, v4", "v2=ffffffff v4=1", "v0=0" },
    { ALL, "v_cndmask_b32 v0, v2, v4, vcc_lo", "v2=1 v4=2 vcc=ff00", "v0=0-7:1 v0=8-15:2 v0=16-31:1" },
    { ALL, "v_cndmask_b32_e64 v0, 0, 1, s4", "s4=5 exec=7 v0=9", "v0=0:1 v0=1:0 v0=2:1 v0=3:9" },
    { ALL, "v_cndmask_b32_e64 v0, 0, 1.0, vcc_hi", "s6b=2", "v0=0:0 v0=1:3f800000" },
    { ALL, "v_add_co_ci_u32_e64 v0, s20, v2, v4, s21", "v2=ffffffff v4=0 s21=5", "v0=0:0 v0=1:ffffffff s20=5" },
    { ALL, "v_subrev_co_ci_u32 v0, vcc_lo, v2, v4, vcc_lo", "v2=1 v4=1 vcc=2", "v0=0:0 v0=1:ffffffff vcc=2" },
    { ALL, "v_div_scale_f32 v0, s20, v2, v2, v4", "v2=3f800000 v4=3f800000", "v0=3f800000 s20=0" },
    { ALL, "v_div_scale_f32 v0, s20, v2, v2, v4", "v2=00800000 v4=7f000000", "v0=20800000 s20=ffffffff" },
    { ALL, "v_div_scale_f32 v0, s20, v4, v2, v4", "v2=00800000 v4=7f000000", "v0=7f000000 s20=ffffffff" },
    { ALL, "v_div_scale_f32 v0, s20, v2, v2, v4", "v2=0 v4=3f800000", "v0=ffc00000" },
    { ALL, "v_div_fmas_f32 v0, v2, v4, v6", "v2=3f800000 v4=3f800000 v6=3f800000 vcc=1",
     "v0=0:20000000 v0=1:40000000" },
    { ALL, "v_div_fmas_f32 v0, v2, v4, v6", "v2=3f800000 v4=40000000 v6=40000000 vcc=1",
     "v0=0:60800000 v0=1:40800000" },
    { ALL, "v_div_fixup_f32 v0, v2, v4, v6", "v2=3f800000 v4=0 v6=bf800000", "v0=ff800000" },
    { ALL, "v_div_fixup_f32 v0, v2, v4, v6", "v2=3f800000 v4=0 v6=0", "v0=ffc00000" },
    { ALL, "v_div_fixup_f32 v0, v2, v4, v6", "v2=3f800000 v4=c0000000 v6=3f800000", "v0=bf800000" },
    { ALL, "v_div_fixup_f16 v0, v2, v4, v6", "v2=3c00 v4=7c00 v6=c000", "v0=8000" },
};

static const struct rule pairs[] = {
    /* VOPD: both read, then both write */
    { ALL, "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0", "v0=1 v1=2", "v0=2 v1=1" },
    { ALL, "v_dual_add_f32 v0, v1, v3 :: v_dual_mul_f32 v1, v0, v2",
      "v0=40000000 v1=40400000 v2=40800000 v3=3f800000",
     "v0=40800000 v1=41000000" },
    { ALL, "v_dual_fmac_f32 v0, v1, v3 :: v_dual_cndmask_b32 v5, v6, v8",
     "v0=3f800000 v1=40000000 v3=40400000 v6=6 v8=8 vcc=1", "v0=40e00000 v5=0:8 v5=1:6" },
    { ALL, "v_dual_fmaak_f32 v0, v1, v3, 0x42280000 :: v_dual_mov_b32 v5, 0x42280000", "v1=40000000 v3=40400000",
     "v0=42400000 v5=42280000" },
    { ALL, "v_dual_fmamk_f32 v0, v1, 0x42280000, v3 :: v_dual_lshlrev_b32 v5, 3, v6",
     "v1=40000000 v3=40400000 v6=lane", "v0=42ae0000 v5=1:808" },
    { ALL, "v_dual_subrev_f32 v0, s4, v3 :: v_dual_add_nc_u32 v5, s4, v6", "s4=3f800000 v3=40400000 v6=1",
     "v0=40000000 v5=3f800001" },
    { ALL, "v_dual_mul_dx9_zero_f32 v0, v1, v3 :: v_dual_and_b32 v5, v6, v8", "v1=0 v3=7f800000 v6=ff v8=f0 v0=7",
     "v0=0 v5=f0" },
    { G11, "v_dual_max_f32 v0, v1, v3 :: v_dual_min_f32 v5, v6, v8", "v1=0 v3=80000000 v6=0 v8=80000000",
     "v0=0 v5=80000000" },
    { G12, "v_dual_max_num_f32 v0, v1, v3 :: v_dual_min_num_f32 v5, v6, v8", "v1=7fc00000 v3=1 v6=0 v8=80000000",
     "v0=1 v5=80000000" },
    { ALL, "v_dual_sub_f32 v0, v1, v3 :: v_dual_mov_b32 v5, -1", "v1=3f800000 v3=3f800000 exec=1 v0=9 v5=9",
     "v0=0:0 v0=1:9 v5=0:ffffffff v5=1:9" },
    { ALL, "v_dual_add_f32 v0, v1, v3 :: v_dual_mov_b32 v5, 0", "mode=f1 v1=3f800000 v3=1", "v0=3f800001" },
    { ALL, "v_dual_add_f32 v0, v1, v3 :: v_dual_mov_b32 v5, 0", "v1=7f800001 v3=1", "v0=7fc00001" },
    { ALL, ".long 0xcb100701, 0x00040080 // v_dual_dot2acc_f32_f16 v0, v1, v3 :: v_dual_mov_b32 v5, 0",
     "v0=3f800000 v1=40003c00 v3=40004200", "v0=41000000" },
};

static const struct rule others[] = {
    { G12, "v_s_rcp_f32 s20, s4", "s4=40000000 exec=0", "s20=3f000000" },
    { G12, "v_s_exp_f32 s20, -s4", "s4=3f800000", "s20=3f000000" },
    { G12, "v_s_sqrt_f32 s20, s4", "s4=40800000", "s20=40000000" },
    { G12, "v_s_log_f32 s20, s4", "s4=41000000", "s20=40400000" },
    { G12, "v_s_rsq_f32 s20, s4", "s4=40800000", "s20=3f000000" },
    { G12, "v_s_rcp_f16 s20, s4", "s4=4000", "s20=3800" },
    { G12, "v_cvt_f32_fp8 v0, v2", "v2=38", "v0=3f800000" },
    { G12, "v_cvt_f32_fp8_e64 v0, v2 byte_sel:1", "v2=3800", "v0=3f800000" },
    { G12, "v_cvt_f32_fp8_e64 v0, v2 byte_sel:2", "v2=380000", "v0=3f800000" },
    { G12, "v_cvt_f32_bf8_e64 v0, v2 byte_sel:3", "v2=3c000000", "v0=3f800000" },
    { G12, "v_cvt_pk_f32_fp8 v[0:1], v2", "v2=4038", "v0=3f800000 v1=40000000" },
    { G12, "v_cvt_pk_f32_bf8_e64 v[0:1], v2 op_sel:[1,0]", "v2=403c0000", "v0=3f800000 v1=40000000" },
    { G12, "v_cvt_pk_fp8_f32 v0, v2, v4", "v2=3f800000 v4=40000000 v0=aaaabbbb", "v0=aaaa4038" },
    { G12, "v_cvt_pk_bf8_f32 v0, v2, v4 op_sel:[0,0,1]", "v2=3f800000 v4=40000000 v0=aaaabbbb", "v0=403cbbbb" },
    { G12, "v_cvt_sr_fp8_f32 v0, v2, v4", "v2=3f800000 v4=ffffffff v0=aaaabbbb", "v0=aaaabb38" },
    { G12, "v_cvt_sr_bf8_f32 v0, v2, v4 byte_sel:2", "v2=3f800000 v4=0 v0=aaaabbbb", "v0=aa3cbbbb" },
    { G12, "v_dot4_f32_fp8_fp8 v0, v2, v4, v6", "v2=38383838 v4=40404040 v6=3f800000", "v0=41100000" },
    { ALL, "v_dot2_f32_f16 v0, v2, v4, v6", "v2=40003c00 v4=42004000 v6=3f800000", "v0=41100000" },
    { G12, "v_dot2_f32_f16 v0, v2, v4, v6 neg_lo:[1,0,0] neg_hi:[1,0,0]", "v2=40003c00 v4=42004000 v6=3f800000",
     "v0=c0e00000" },
    { ALL, "v_dot2_f32_bf16 v0, v2, v4, v6", "v2=40003f80 v4=40404000 v6=3f800000", "v0=41100000" },
    { ALL, "v_dot2_f16_f16 v0, v2, v4, v6", "v2=40003c00 v4=42004000 v6=3c00 v0=aaaabbbb", "v0=aaaa4880" },
    { ALL, "v_dot2_bf16_bf16 v0, v2, v4, v6", "v2=40003f80 v4=40404000 v6=3f80 v0=aaaabbbb", "v0=aaaa4110" },
    { ALL, "v_cubeid_f32 v0, v2, v4, v6", "v2=3f800000 v4=c0000000 v6=3f000000", "v0=40400000" },
    { ALL, "v_cubema_f32 v0, v2, v4, v6", "v2=3f800000 v4=c0000000 v6=3f000000", "v0=c0800000" },
    { ALL, "v_cubesc_f32 v0, v2, v4, v6", "v2=3f800000 v4=c0000000 v6=3f000000", "v0=3f800000" },
    { ALL, "v_cubetc_f32 v0, v2, v4, v6", "v2=3f800000 v4=c0000000 v6=3f000000", "v0=bf000000" },
    { ALL, "v_cubesc_f32 v0, v2, v4, v6", "v2=c0800000 v4=c0000000 v6=3f000000", "v0=3f000000" },
    { ALL, "v_mullit_f32 v0, v2, v4, v6", "v2=40000000 v4=40400000 v6=3f800000", "v0=40c00000" },
    { ALL, "v_mullit_f32 v0, v2, v4, v6", "v2=40000000 v4=40400000 v6=bf800000", "v0=ff7fffff" },
    { ALL, "v_trig_preop_f64 v[0:1], v[2:3], 0", "v3=3ff00000", "v1=3fe45f30 v0=6dc9c882" },
    { ALL, "v_trig_preop_f64 v[0:1], v[2:3], 1", "v3=3ff00000", "v1=3c94a7f0 v0=9d5f47d4" },
    { ALL, "v_rcp_f64 v[0:1], v[2:3]", "v3=40000000", "v0=0 v1=3fe00000" },
    { ALL, "v_mqsad_u32_u8 v[0:3], v[4:5], v6, v[8:11]",
     "v4=04030201 v5=08070605 v6=01010101 v8=10 v9=20 v10=30 v11=40", "v0=16 v1=2a v2=3e v3=52" },
    { G11, "v_fmac_dx9_zero_f32 v0, v2, v4", "v0=3f800000 v2=0 v4=7f800000", "v0=3f800000" },
    { G11, "v_dot2acc_f32_f16 v0, v2, v4", "v0=3f800000 v2=40003c00 v4=42004000", "v0=41100000" },
    { ALL, "v_fract_f16 v0, v2", "v2=3e00", "v0=3800" },
    { ALL, "v_sin_f32 v0, v2", "v2=3e800000", "v0=3f800000" },
    { ALL, "v_cos_f32 v0, v2", "v2=3f000000", "v0=bf800000" },
};

/* ---- running a line ---- */

static uint32_t *scalar(struct asm_wave *w, const char *name)
{
    static const struct {
        const char *name;
        int code;
    } special[] = {{"vcc", OPND_VCC}, {"exec", OPND_EXEC}, {"m0", OPND_M0}};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(name, special[i].name) == 0)
            return &w->s[special[i].code];
    if (strcmp(name, "mode") == 0)
        return &w->mode;
    ck_assert_msg(name[0] == 's', "register '%s'", name);
    return strcmp(name, "s6b") == 0 ? &w->s[OPND_VCC + 1] : &w->s[atoi(name + 1)];
}

/* Sets what the text says, or compares with it. */
static bool apply(struct asm_wave *w, const char *spec, bool compare, const char *what)
{
    char name[16], value[32];
    int used;
    bool good = true;
    for (; sscanf(spec, " %15[a-z0-9]=%31s%n", name, value, &used) == 2; spec += used) {
        unsigned from = 0, to = WAVE_LANES - 1, n = 0;
        char *colon = strchr(value, ':');
        if (colon) {
            n = (unsigned)sscanf(value, "%u-%u:", &from, &to);
            to = n == 2 ? to : from;
        }
        const char *number = colon ? colon + 1 : value;
        uint32_t v = (uint32_t)strtoul(number, NULL, 16);
        if (name[0] != 'v' || name[1] == 'c') {
            uint32_t *s = scalar(w, name);
            if (compare && *s != v) {
                fprintf(stderr, "%s: %s is %x, must be %x\n", what, name, *s, v);
                good = false;
            }
            *s = compare ? *s : v;
            continue;
        }
        for (unsigned l = from; l <= to; l++) {
            uint32_t *at = &w->v[atoi(name + 1)][l], want = strcmp(number, "lane") == 0 ? 0x100 + l : v;
            if (compare && *at != want && good) {
                fprintf(stderr, "%s: %s lane %u is %x, must be %x\n", what, name, l, *at, want);
                good = false;
            }
            *at = compare ? *at : want;
        }
    }
    ck_assert_msg(spec[strspn(spec, " ")] == 0, "%s: '%s' is not understood", what, spec);
    return good;
}

static void check_table(const struct rule *t, size_t n)
{
    static const char *const chip_names[] = { "gfx1100", "gfx1151", "gfx1200", "gfx1201" };
    size_t bad = 0;
    for (size_t c = 0; c < 4; c++) {
        const char *text[128];
        const struct rule *of[128];
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (t[i].chips & (c < 2 ? G11 : G12)) {
                of[k] = &t[i];
                text[k++] = t[i].text;
            }
        struct asm_unit *u = asm_build(chip_names[c], text, k);
        for (size_t i = 0; i < k; i++) {
            char what[200];
            snprintf(what, sizeof what, "%s: %s (%s)", chip_names[c], of[i]->text, of[i]->before);
            struct asm_wave *w = asm_wave_new(u);
            apply(w, of[i]->before, false, what);
            asm_run(u, i, w);
            bad += !apply(w, of[i]->after, true, what);
            free(w);
        }
        asm_free(u);
    }
    ck_assert_msg(bad == 0, "%zu lines fail", bad);
}

#define TABLE(name)                                                                                                  \
    START_TEST(rules_of_##name)                                                                                      \
    {                                                                                                                \
        check_table(name, sizeof name / sizeof name[0]);                                                             \
    }                                                                                                                \
    END_TEST
TABLE(lanes)
TABLE(halves)
TABLE(constants)
TABLE(modes)
TABLE(masks)
TABLE(pairs)
TABLE(others)

int main(void)
{
    if (!asm_available())
        return 77;
    return RUN_TESTS("valu_rules", rules_of_lanes, rules_of_halves, rules_of_constants, rules_of_modes,
                     rules_of_masks, rules_of_pairs, rules_of_others);
}
