/* kernels/walk_amd.S: the walk over a list of launches (kernels/walk.h) on AMD, RDNA3 and RDNA4 in wave32. Bodies are the
 * replay kernels' own machine code, with a jump back where a wave would end (tools/amd_walk.awk). They are called where they
 * lie and have the registers but for m0, and on gfx12 s104 and s105; which a compiler cannot be told of its own code, so this is
 * assembly. What a wave remembers during a call lies in shared memory behind the bodies', a slot for each wave, and m0 has its
 * address. Instructions, counters, scopes: AMD's RDNA3 and RDNA4 ISA guides; what release and acquire take: LLVM, AMDGPUUsage,
 * "Memory Model GFX11" and "GFX12".
 *
 *     slot     0 where the body returns to    8 struct walk_amd    16 struct walk_item, the one that it is at
 *              24 the group of it that is taken                    28 this work-group << 8, which wave of that
 *     between calls the same in s[96:97], s[98:99], s[98:99], s102, s103
 *     gfx12    for the body: s104 its group x; s105 y, z << 16
 *
 * Offsets are those of kernels/walk.h and walk_amd.h, which rt/amd/walk.c asserts. */
#define COUNTER 0   /* struct walk_amd: s_load_b256 of it gives s[4:5], left s[6:7], list s[8:9], bodies s[10:11] */
#define GAVE_UP 32
#define N_ITEMS 40  /* and n_groups behind it */
#define N_GROUPS 44
#define FIRST 48
#define TICKS 52
#define SLOTS 56
#define SLOT_SHIFT 5
#define ITEM_SHIFT 5 /* struct walk_item: s_load_b256 gives kernel s16, args s17, need s18, groups s19, grid s[20:22] */
#define ITEM_GROUPS 12
#define BODY_SHIFT 4 /* struct walk_amd_body: s_load_b128 gives entry s[24:25], asks s26 */

#define LOOK 1023 /* turns between looks at the clock, less 1 */

#ifdef __GFX12__
#define WAIT_SCALAR s_wait_kmcnt 0
#define WAIT_LOAD   s_wait_loadcnt 0
#define WAIT_STORE  s_wait_storecnt 0
#define WAIT_SHARED s_wait_dscnt 0
#define WAIT_ALU    s_wait_alu 0
#define DEVICE      scope:SCOPE_DEV
#define SYSTEM      scope:SCOPE_SYS
#define SEES        scope:SCOPE_DEV
#define RETURNS     th:TH_ATOMIC_RETURN scope:SCOPE_DEV
#define USER_SGPRS  2
#define GROUP_X     ttmp9
#else
#define WAIT_SCALAR s_waitcnt lgkmcnt(0)
#define WAIT_LOAD   s_waitcnt vmcnt(0)
#define WAIT_STORE  s_waitcnt_vscnt null, 0
#define WAIT_SHARED s_waitcnt lgkmcnt(0)
#define WAIT_ALU    s_waitcnt_depctr 0
#define DEVICE
#define SYSTEM
#define SEES        glc
#define RETURNS     glc
#define USER_SGPRS  15 /* the hardware initialises 16 registers at least, so the compiler has the group's number in the last */
#define GROUP_X     s15
#endif

/* Nothing is under way, so that no load comes back into a register that has another owner now. */
    .macro drain
    WAIT_LOAD
    WAIT_STORE
    WAIT_SHARED
    WAIT_SCALAR
    WAIT_ALU
    .endm
    .macro barrier
#ifdef __GFX12__
    s_barrier_signal -1
    s_barrier_wait -1
#else
    s_barrier
#endif
    .endm
    .macro acquire
#ifdef __GFX12__
    global_inv scope:SCOPE_DEV
    s_wait_loadcnt 0
#else
    buffer_gl1_inv
    buffer_gl0_inv
#endif
    s_dcache_inv /* bodies read by scalar loads too */
    WAIT_SCALAR
    .endm
    .macro release
#ifdef __GFX12__
    global_wb scope:SCOPE_DEV
#endif
    WAIT_STORE
    .endm

    .text
    .globl k_walk
    .p2align 8
    .type k_walk,@function
k_walk:
    s_mov_b64 s[98:99], s[0:1]
    v_lshrrev_b32_e32 v0, 5, v0
    v_readfirstlane_b32 s103, v0
    s_lshl_b32 s4, GROUP_X, 8
    s_or_b32 s103, s103, s4
    s_load_b64 s[100:101], s[98:99], 16
    s_load_b32 s5, s[98:99], SLOTS
    s_and_b32 s6, s103, 255
    s_lshl_b32 s6, s6, SLOT_SHIFT
    WAIT_SCALAR
    s_add_u32 m0, s5, s6

.Litem:
    s_load_b256 s[4:11], s[98:99], 0
    s_load_b64 s[12:13], s[98:99], N_ITEMS
    WAIT_SCALAR
    s_sub_u32 s14, s100, s8
    s_lshl_b32 s12, s12, ITEM_SHIFT
    s_cmp_ge_u32 s14, s12
    s_cbranch_scc1 .Lend
    s_load_b256 s[16:23], s[100:101], 0
    WAIT_SCALAR
    s_lshr_b32 s102, s103, 8
    s_cmp_ge_u32 s102, s19
    s_cbranch_scc1 .Lnext

    /* Its inputs: wave 0 looks until they are complete, and says through shared memory, where no body is now, what it saw. */
    v_mov_b32_e32 v1, 0
    s_and_b32 s24, s103, 255
    s_cbranch_scc1 .Lseen
    s_mov_b32 s26, 0 /* turns         */
    s_mov_b32 s27, 0 /* what was seen, and when: s31 */
    s_mov_b32 s31, 0
.Llook:
    global_load_b32 v0, v1, s[4:5] SEES
    WAIT_LOAD
    v_readfirstlane_b32 s25, v0
    s_cmp_ge_u32 s25, s18
    s_cbranch_scc1 .Ltell
    s_sleep 1
    s_add_u32 s26, s26, 1
    s_and_b32 s24, s26, LOOK
    s_cbranch_scc1 .Llook
    s_sendmsg_rtn_b64 s[28:29], sendmsg(MSG_RTN_GET_REALTIME)
    s_load_b32 s24, s[98:99], TICKS
    WAIT_SCALAR
    s_sub_u32 s30, s28, s31
    s_cmp_lg_u32 s25, s27
    s_cbranch_scc1 .Lmoved
    s_cmp_eq_u32 s26, LOOK + 1 /* the first look */
    s_cbranch_scc1 .Lmoved
    s_cmp_lt_u32 s30, s24
    s_cbranch_scc1 .Llook
    /* Nothing for so long: everybody leaves, and the host is told. */
    s_load_b64 s[28:29], s[98:99], GAVE_UP
    s_load_b32 s30, s[98:99], FIRST
    WAIT_SCALAR
    WAIT_ALU
    s_mov_b32 exec_lo, 1
    v_mov_b32_e32 v2, s25
    v_mov_b32_e32 v3, s30
    global_store_b64 v1, v[2:3], s[28:29] SYSTEM
    v_bfrev_b32_e32 v0, 1
    global_atomic_or_b32 v1, v0, s[4:5] DEVICE
    s_mov_b32 exec_lo, -1
    WAIT_STORE
    s_branch .Llook
.Lmoved:
    s_mov_b32 s27, s25
    s_mov_b32 s31, s28
    s_branch .Llook
.Ltell:
    WAIT_ALU
    ds_store_b32 v1, v0
    WAIT_SHARED
.Lseen:
    barrier
    ds_load_b32 v0, v1
    WAIT_SHARED
    v_readfirstlane_b32 s25, v0
    acquire
    barrier
    s_bitcmp1_b32 s25, 31
    s_cbranch_scc1 .Lgone

.Lgroup:
    s_load_b256 s[4:11], s[98:99], 0
    s_load_b256 s[16:23], s[100:101], 0
    WAIT_SCALAR
    s_lshl_b32 s24, s16, BODY_SHIFT
    s_add_u32 s24, s10, s24
    s_addc_u32 s25, s11, 0
    s_load_b128 s[24:27], s[24:25], 0
    /* x = group % grid x, y = group / grid x % grid y, z: grids are flat, so by subtraction */
    s_mov_b32 s4, s102
    s_mov_b32 s5, 0
    s_mov_b32 s6, 0
.Lx:
    s_cmp_lt_u32 s4, s20
    s_cbranch_scc1 .Ly
    s_sub_u32 s4, s4, s20
    s_add_u32 s5, s5, 1
    s_branch .Lx
.Ly:
    s_cmp_lt_u32 s5, s21
    s_cbranch_scc1 .Lcall
    s_sub_u32 s5, s5, s21
    s_add_u32 s6, s6, 1
    s_branch .Ly
.Lcall:
    s_add_u32 s0, s8, s17
    s_addc_u32 s1, s9, 0
    s_and_b32 s7, s103, 255
    s_lshl_b32 s7, s7, 5
    s_getpc_b64 s[96:97]
.Lpc:
    s_add_u32 s96, s96, .Lback - .Lpc
    s_addc_u32 s97, s97, 0
    WAIT_SCALAR
    WAIT_ALU
    s_mov_b32 exec_lo, 1
    v_mov_b32_e32 v1, m0
    v_mov_b32_e32 v4, s96
    v_mov_b32_e32 v5, s97
    v_mov_b32_e32 v6, s98
    v_mov_b32_e32 v7, s99
    v_mov_b32_e32 v8, s100
    v_mov_b32_e32 v9, s101
    v_mov_b32_e32 v10, s102
    v_mov_b32_e32 v11, s103
    ds_store_b128 v1, v[4:7]
    ds_store_b128 v1, v[8:11] offset:16
    s_mov_b32 exec_lo, -1
    v_mbcnt_lo_u32_b32 v0, -1, 0
    v_add_nc_u32_e32 v0, s7, v0
    s_mov_b64 s[2:3], s[24:25]
#ifdef __GFX12__
    s_mov_b32 s104, s4
    s_lshl_b32 s6, s6, 16
    s_or_b32 s105, s5, s6
#else
    /* in the last registers of sixteen, so many as it asks for */
    s_mov_b32 s13, s4
    s_mov_b32 s14, s4
    s_mov_b32 s15, s4
    s_bitcmp1_b32 s26, 1
    s_cselect_b32 s15, s5, s15
    s_bitcmp1_b32 s26, 2
    s_cselect_b32 s14, s15, s14
    s_cselect_b32 s15, s6, s15
#endif
    drain
    s_setpc_b64 s[2:3]
.Lback: /* EXEC is full */
    drain
    v_mov_b32_e32 v0, m0
    ds_load_b64 v[6:7], v0 offset:8
    ds_load_b128 v[8:11], v0 offset:16
    WAIT_SHARED
    v_readfirstlane_b32 s98, v6
    v_readfirstlane_b32 s99, v7
    v_readfirstlane_b32 s100, v8
    v_readfirstlane_b32 s101, v9
    v_readfirstlane_b32 s102, v10
    v_readfirstlane_b32 s103, v11
    WAIT_ALU
    release
    barrier
    s_load_b32 s4, s[100:101], ITEM_GROUPS
    s_load_b32 s5, s[98:99], N_GROUPS
    WAIT_SCALAR
    s_add_u32 s102, s102, s5
    s_cmp_lt_u32 s102, s4
    s_cbranch_scc1 .Lgroup

    /* Through with the item. */
    s_and_b32 s24, s103, 255
    s_cbranch_scc1 .Lnext
    s_load_b64 s[4:5], s[98:99], COUNTER
    WAIT_SCALAR
    s_mov_b32 exec_lo, 1
    v_mov_b32_e32 v0, 1
    v_mov_b32_e32 v1, 0
    global_atomic_add_u32 v1, v0, s[4:5] DEVICE
    s_mov_b32 exec_lo, -1
.Lnext:
    s_add_u32 s100, s100, 1 << ITEM_SHIFT
    s_addc_u32 s101, s101, 0
    s_branch .Litem

    /* The last one to come sets the counter back, at which nobody looks any more. */
.Lend:
    s_and_b32 s24, s103, 255
    s_cbranch_scc1 .Lgone
    s_sub_u32 s13, s13, 1
    WAIT_STORE
    WAIT_ALU
    s_mov_b32 exec_lo, 1
    v_mov_b32_e32 v0, s13
    v_mov_b32_e32 v1, 0
    global_atomic_inc_u32 v0, v1, v0, s[6:7] RETURNS
    WAIT_LOAD
    v_readfirstlane_b32 s24, v0
    s_cmp_lg_u32 s24, s13
    s_cbranch_scc1 .Lgone
    global_store_b32 v1, v1, s[4:5] DEVICE
.Lgone:
    s_endpgm
.Lk_walk_end:
    .size k_walk, .Lk_walk_end-k_walk
    .p2alignl 7, 3214868480 /* s_code_end, where the fetcher reads ahead */
    .fill 96, 4, 3214868480

    .section .rodata,"a",@progbits
    .p2align 6
    .amdhsa_kernel k_walk
        .amdhsa_kernarg_size 64
        .amdhsa_user_sgpr_count USER_SGPRS
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_wavefront_size32 1
        .amdhsa_next_free_vgpr 12
        .amdhsa_next_free_sgpr 106
        .amdhsa_workgroup_processor_mode 1
        .amdhsa_memory_ordered 1
        .amdhsa_forward_progress 1 /* waves that look are not to starve those that work (FWD_PROGRESS in LLVM's AMDGPUUsage) */
        .amdhsa_float_denorm_mode_32 3
        .amdhsa_float_denorm_mode_16_64 3
    .end_amdhsa_kernel
