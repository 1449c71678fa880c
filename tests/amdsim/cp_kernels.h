/* tests/amdsim/cp_kernels.h: small kernels in assembly for gfx11 and gfx12, and a launch in raw PM4 words.
 * Every kernel finds its arguments through s[0:1]: two addresses, then a dword. */
#ifndef AMDSIM_TESTS_CP_KERNELS_H
#define AMDSIM_TESTS_CP_KERNELS_H

#include "tests/amdsim/cp_rig.h"
#include "tests/amdsim/isa_asm.h"

enum { K_FILL, K_COPY, K_COPY_SCALAR, K_FLAGS, K_SPIN, K_ENDLESS, K_COUNT_UP, K_SCRATCH, K_COPY_WIDE, K_MEET, K_TRADE, K_TRADE_BLIND, N_KERNELS };

/* s[4:5] and s[6:7]: addresses, s8: the dword; v1: 4 * (group * 32 + lane) for groups of 32 */
#define K_HEAD(ID, WAIT_S)                                                                                           \
    "s_mov_b32 s10, " ID "\n s_load_b128 s[4:7], s[0:1], 0x0\n s_load_b32 s8, s[0:1], 0x10\n " WAIT_S "\n"           \
    "v_and_b32_e32 v0, 0x3ff, v0\n s_lshl_b32 s9, s10, 5\n v_add_nc_u32_e32 v2, s9, v0\n"                            \
    "v_lshlrev_b32_e32 v1, 2, v2\n"

/* Of two groups: each looks at what the other has in second[i], puts i there for its own, waits until the other has, too
 * (first[0] becomes 64), looks again, and stores what it saw at second[i] + 512 bytes. */
#define K_TRADES(ID, WAIT_S, WAIT_V, WAIT_ST, DEVICE, FORGET)                                                        \
    K_HEAD(ID, WAIT_S) "v_xor_b32_e32 v5, 0x80, v1\n global_load_b32 v3, v5, s[6:7]\n " WAIT_V "\n"                  \
                       "global_store_b32 v1, v2, s[6:7]\n " WAIT_ST "\n v_mov_b32_e32 v4, 0\n"                       \
                       "v_mov_b32_e32 v3, 1\n global_atomic_add_u32 v4, v3, s[4:5]\n"                               \
                       "trade_%=:\n s_sleep 1\n global_load_b32 v3, v4, s[4:5] " DEVICE "\n " WAIT_V "\n"          \
                       "v_cmp_ne_u32_e32 vcc_lo, 64, v3\n s_cbranch_vccnz trade_%=\n " FORGET "\n"                 \
                       "global_load_b32 v3, v5, s[6:7]\n " WAIT_V "\n global_store_b32 v1, v3, s[6:7] offset:512\n"

#define K_TEXTS(ID, WAIT_S, WAIT_V, WAIT_ST, DEVICE, FORGET)                                                                 \
    {                                                                                                                \
        /* FILL: first[i] = i + dword */                                                                             \
        K_HEAD(ID, WAIT_S) "v_add_nc_u32_e32 v3, s8, v2\n global_store_b32 v1, v3, s[4:5]\n",                        \
        /* COPY: second[i] = first[i] + dword, by vector loads */                                                    \
        K_HEAD(ID, WAIT_S) "global_load_b32 v3, v1, s[4:5]\n " WAIT_V "\n v_add_nc_u32_e32 v3, s8, v3\n"             \
                           "global_store_b32 v1, v3, s[6:7]\n",                                                      \
        /* COPY_SCALAR: second[i] = first[0] + dword, by a scalar load */                                            \
        K_HEAD(ID, WAIT_S) "s_load_b32 s11, s[4:5], 0x0\n " WAIT_S "\n s_add_i32 s11, s11, s8\n"                     \
                           "v_mov_b32_e32 v3, s11\n global_store_b32 v1, v3, s[6:7]\n",                              \
        /* FLAGS: group g sets first[g] and waits until first[g ^ 1] is set */                                       \
        K_HEAD(ID, WAIT_S) "s_lshl_b32 s12, s10, 2\n v_mov_b32_e32 v4, s12\n v_mov_b32_e32 v3, 1\n"                  \
                           "global_store_b32 v4, v3, s[4:5] " DEVICE "\n " WAIT_ST "\n v_xor_b32_e32 v4, 4, v4\n"    \
                           "flags_%=:\n global_load_b32 v3, v4, s[4:5] " DEVICE "\n " WAIT_V "\n"                    \
                           "v_cmp_eq_u32_e32 vcc_lo, 0, v3\n s_cbranch_vccnz flags_%=\n",                            \
        /* SPIN: waits until first[0] is the dword, then second[i] = i */                                            \
        K_HEAD(ID, WAIT_S) "v_mov_b32_e32 v4, 0\n"                                                                   \
                           "spin_%=:\n global_load_b32 v3, v4, s[4:5] " DEVICE "\n " WAIT_V "\n"                     \
                           "v_cmp_ne_u32_e32 vcc_lo, s8, v3\n s_cbranch_vccnz spin_%=\n"                             \
                           "global_store_b32 v1, v2, s[6:7]\n",                                                      \
        /* ENDLESS */                                                                                                \
        "endless_%=:\n s_branch endless_%=\n",                                                                       \
        /* COUNT_UP: first[0] += 1 by every lane */                                                                  \
        K_HEAD(ID, WAIT_S) "v_mov_b32_e32 v4, 0\n v_mov_b32_e32 v3, 1\n global_atomic_add_u32 v4, v3, s[4:5]\n",     \
        /* SCRATCH: first[i] = i by way of private memory, after a while in which others run */                      \
        K_HEAD(ID, WAIT_S) "scratch_store_b32 off, v2, off offset:4\n s_movk_i32 s13, 0x7000\n"                      \
                           "while_%=:\n s_sub_i32 s13, s13, 1\n s_cmp_lg_u32 s13, 0\n s_cbranch_scc1 while_%=\n" \
                           "scratch_load_b32 v3, off, off offset:4\n " WAIT_V "\n"                                 \
                           "global_store_b32 v1, v3, s[4:5]\n",                                                     \
        /* COPY_WIDE: second[i] = first[2] + dword, by a scalar load of four */                                      \
        K_HEAD(ID, WAIT_S) "s_load_b128 s[12:15], s[4:5], 0x0\n " WAIT_S "\n s_add_i32 s11, s14, s8\n"              \
                           "v_mov_b32_e32 v3, s11\n global_store_b32 v1, v3, s[6:7]\n",                             \
        /* MEET: first[0] += 1 by every lane, then asleep until it is the dword; second[i] = i */                    \
        K_HEAD(ID, WAIT_S) "v_mov_b32_e32 v4, 0\n v_mov_b32_e32 v3, 1\n global_atomic_add_u32 v4, v3, s[4:5]\n"     \
                           "meet_%=:\n s_sleep 1\n global_load_b32 v3, v4, s[4:5] " DEVICE "\n " WAIT_V "\n"       \
                           "v_cmp_ne_u32_e32 vcc_lo, s8, v3\n s_cbranch_vccnz meet_%=\n"                            \
                           "global_store_b32 v1, v2, s[6:7]\n",                                                     \
        K_TRADES(ID, WAIT_S, WAIT_V, WAIT_ST, DEVICE, FORGET), K_TRADES(ID, WAIT_S, WAIT_V, WAIT_ST, DEVICE, ""),    \
    }

static const char *const kernels_gfx11[N_KERNELS] =
    K_TEXTS("s15", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0", "glc",
            "buffer_gl1_inv\n buffer_gl0_inv");
static const char *const kernels_gfx12[N_KERNELS] =
    K_TEXTS("ttmp9", "s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0", "s_wait_storecnt 0x0", "scope:SCOPE_DEV",
            "global_inv scope:SCOPE_DEV\n s_wait_loadcnt 0x0");

/* "%=" becomes the kernel's number, so that labels are its own. */
static inline struct asm_unit *kernels_build(const char *chip)
{
    static char text[N_KERNELS][2048];
    const char *list[N_KERNELS];
    const struct chip *c = chip_find(chip);
    for (int k = 0; k < N_KERNELS; k++) {
        const char *from = (c->gfx12 ? kernels_gfx12 : kernels_gfx11)[k];
        char *to = text[k];
        for (; *from; from++) {
            if (from[0] == '%' && from[1] == '=')
                *to++ = (char)('a' + k), from++;
            else
                *to++ = *from;
        }
        *to = 0;
        list[k] = text[k];
    }
    return asm_build(chip, list, N_KERNELS);
}

struct launch {
    gva entry, kernarg;
    uint32_t groups[3], start[3], threads[3];  /* 0: 1; threads[0] 0: 32  */
    uint32_t lds_bytes, initiator, rsrc2_more, tmpring; /* initiator 0: 0x8005 */
    bool no_acquire, no_flush;
    gva indirect, scratch;
};

/* The worked stream of one launch, up to the flush. */
static inline void launch_push(struct rig_queue *q, const struct chip *c, const struct launch *l)
{
    uint32_t rsrc1 = c->gfx12 ? 0x600F0041 : 0x60BF0081 /* with PRIV */, rsrc2 = c->gfx12 ? 0x84 : 0x9E;
    rsrc2 |= (l->lds_bytes + 511) / 512 << 15 | l->rsrc2_more;
    uint32_t t[3], g[3];
    for (int i = 0; i < 3; i++) {
        t[i] = l->threads[i] ? l->threads[i] : i ? 1 : 32;
        g[i] = l->groups[i] || l->groups[0] == 0 ? l->groups[i] : 1;
    }
    if (!l->no_acquire)
        PUSH(q, 0xC0065800, 0, 0xFFFFFFFF, 0xFF, 0, 0, 0xA, 0xC3F1);
    PUSH(q, 0xC0027600, 0x20C, lo(l->entry >> 8), hi(l->entry >> 8));
    PUSH(q, 0xC0027600, 0x212, rsrc1, rsrc2);
    PUSH(q, 0xC0017600, 0x228, 0);
    PUSH(q, 0xC0017600, 0x218, l->tmpring);
    PUSH(q, 0xC0027600, 0x210, lo(l->scratch >> 8), hi(l->scratch >> 8));
    PUSH(q, 0xC0037600, 0x21B, 0, 0, 0);
    PUSH(q, 0xC0027600, 0x240, lo(l->kernarg), hi(l->kernarg));
    PUSH(q, 0xC0017600, 0x215, 0);
    PUSH(q, 0xC0087600, 0x204, l->start[0], l->start[1], l->start[2], t[0], t[1], t[2], 0, 0);
    if (l->indirect)
        PUSH(q, 0xC0021600, lo(l->indirect), hi(l->indirect), l->initiator ? l->initiator : 0x8005);
    else
        PUSH(q, 0xC0031500, g[0], g[1], g[2], l->initiator ? l->initiator : 0x8005);
    if (!l->no_flush)
        PUSH(q, 0xC0004600, 0x407);
}

/* Arguments at data[at]; their address. */
static inline gva kernarg_put(struct rig *r, uint32_t at, gva first, gva second, uint32_t dword)
{
    uint32_t *k = r->data + at;
    k[0] = lo(first), k[1] = hi(first), k[2] = lo(second), k[3] = hi(second), k[4] = dword;
    return RIG_DATA + 4 * at;
}

static inline gva kernel_entry(const struct asm_unit *u, int k) { return ASM_CODE_VA + u->at[k]; }

#endif
