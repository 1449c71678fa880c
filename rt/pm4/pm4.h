/* rt/pm4/pm4.h
 * PM4: the packets that a compute queue of an RDNA3 (gfx11) or RDNA4 (gfx12) GPU executes. This header is the
 * encoder; decode.h reads packets back. Pure functions: they write 32-bit words to the caller's memory, nothing else.
 *
 *     struct pm4_buf b;
 *     pm4_init(&b, PM4_GFX12, memory, capacity);        (NULL as memory: only counts the dwords)
 *     pm4_acquire_mem(&b, PM4_ACQUIRE_ALL);
 *     pm4_launch(&b, NULL, &launch, NULL);
 *     pm4_cs_partial_flush(&b);
 *     pm4_release_mem(&b, &(struct pm4_release){ .gcr = PM4_RELEASE_ALL, .data_sel = PM4_DATA_32, .va = fence,
 *                                                .data = 1 });
 *     if (b.rc)   ... b.why says what was wrong, b.n is where that packet would have begun
 *
 * Errors stick: the first one is kept in rc (-EINVAL: an argument that no packet can carry, -ENOSPC: memory is full)
 * with its words in why; the packet concerned is not written at all, and later calls do nothing. So a stream is
 * encoded without looking and judged once at its end.
 *
 * Units: addresses are GPU virtual addresses in bytes, below 2^48; register numbers are dword addresses as AMD's
 * headers give them (COMPUTE_PGM_LO is 0x2E0C); sizes named n, dwords or n_dw count 32-bit words. A packet is a
 * header and its body; every count of dwords here includes the header.
 *
 * Layouts: AMD's PAL headers and the amdgpu driver (both MIT); names are those of AMD's register files. The tables
 * that the decoder reads, regs.def and packets.def, also give the PM4_REG_, PM4_OP_ and field names below. */
#ifndef ZINC_RT_PM4_PM4_H
#define ZINC_RT_PM4_PM4_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum pm4_gen { PM4_GFX11, PM4_GFX12, PM4_N_GENS };

/* For the tables: the generations that have a field or a packet. */
enum { PM4_ON_11 = 1 << PM4_GFX11, PM4_ON_12 = 1 << PM4_GFX12, PM4_ON_ALL = PM4_ON_11 | PM4_ON_12 };

/* PM4_OP_WRITE_DATA, ... */
enum pm4_op {
#define PACKET(name, opcode, fixed, tail, gens) PM4_OP_##name = opcode,
#include "rt/pm4/packets.def"
};

/* PM4_REG_COMPUTE_PGM_LO, ...: dword addresses */
enum pm4_reg_address {
#define REG(name, address, gens) PM4_REG_##name = address,
#include "rt/pm4/regs.def"
};

/* PM4_COMPUTE_PGM_RSRC2_LDS_SIZE_SHIFT, ...; PM4_PLACE(COMPUTE_PGM_RSRC2, LDS_SIZE, v) is v in its place. */
enum pm4_field_places {
#define FIELD(reg, name, hi, lo, gens) PM4_##reg##_##name##_SHIFT = lo,
#include "rt/pm4/regs.def"
};
#define PM4_PLACE(reg, field, value) ((uint32_t)(value) << PM4_##reg##_##field##_SHIFT)

/* Windows of the register setters. */
enum {
    PM4_SH_FIRST = 0x2c00,
    PM4_SH_LAST = 0x2fff,
    PM4_UCONFIG_FIRST = 0xc000,
    PM4_UCONFIG_LAST = 0xffff,
};

/* Dwords of each packet with its header; PM4_DW_SET_REG and PM4_DW_WRITE_DATA are followed by n values. */
enum {
    PM4_DW_SET_REG = 2,
    PM4_DW_WRITE_DATA = 4,
    PM4_DW_COPY_DATA = 6,
    PM4_DW_DISPATCH_DIRECT = 5,
    PM4_DW_DISPATCH_INDIRECT = 4,
    PM4_DW_ACQUIRE_MEM = 8,
    PM4_DW_RELEASE_MEM = 8,
    PM4_DW_WAIT_REG_MEM = 7,
    PM4_DW_EVENT_WRITE = 2,
    PM4_DW_INDIRECT_BUFFER = 4,
    PM4_DW_ATOMIC_MEM = 9,
    PM4_DW_PROTECTED_FENCE = 2,
    PM4_DW_HDP_FLUSH_PACKET = 2,
    PM4_DW_PRED_EXEC = 2,
    PM4_DW_COND_EXEC = 5,
    PM4_DW_LAUNCH_MAX = 59, /* the longest pm4_launch */
    PM4_DW_BARRIER_BY_FENCE = 28,
    PM4_DW_PREAMBLE = 34,   /* pm4_compute_preamble, at most */
};

/* Places of words that a prepared stream may change later, counted from the packet's header; 64-bit values take two,
 * the low one first. */
enum {
    PM4_AT_SET_REG_VALUE = 2,
    PM4_AT_WRITE_DATA_VA = 2,
    PM4_AT_WRITE_DATA_VALUE = 4,
    PM4_AT_DISPATCH_GROUPS = 1, /* x, y, z */
    PM4_AT_DISPATCH_INDIRECT_VA = 1,
    PM4_AT_RELEASE_VA = 3,
    PM4_AT_RELEASE_DATA = 5,
    PM4_AT_WAIT_VA = 2,
    PM4_AT_WAIT_REF = 4,
    PM4_AT_IB_VA = 1,
    PM4_AT_IB_DWORDS = 3, /* bits 19:0 */
    PM4_AT_COND_EXEC_COUNT = 4,
};

struct pm4_buf {
    uint32_t *dw;    /* NULL: dwords are counted, not stored                       */
    uint32_t n, cap; /* dwords written, room                                       */
    int rc;          /* 0, -EINVAL or -ENOSPC                                      */
    const char *why; /* static words for rc, NULL while it is 0                    */
    enum pm4_gen gen;
};

void pm4_init(struct pm4_buf *b, enum pm4_gen gen, uint32_t *memory, uint32_t cap);

/* ---- filling ---- */

/* n_dw dwords that do nothing, as few packets as it takes (a single dword is NOP's one-dword form). 0: none. */
void pm4_nop(struct pm4_buf *b, uint32_t n_dw);
/* A NOP that carries n words of the caller's (1..16382): a mark to find again in a dump. n + 1 dwords. */
void pm4_mark(struct pm4_buf *b, const uint32_t *words, uint32_t n);

/* ---- registers ---- */

/* n consecutive registers from `reg` on (a dword address inside the packet's window). n >= 1. */
void pm4_set_sh_reg(struct pm4_buf *b, uint32_t reg, uint32_t n, const uint32_t *values);
void pm4_set_uconfig_reg(struct pm4_buf *b, uint32_t reg, uint32_t n, const uint32_t *values);

/* ---- memory ---- */

enum pm4_write_flags {
    PM4_WRITE_CONFIRM = 1, /* the queue goes on when memory has answered              */
    PM4_WRITE_SAME = 2,    /* all words go to the one address                         */
    PM4_WRITE_L2 = 4,      /* by way of the L2 instead of memory                      */
};
/* n words (1..16380) to va, a multiple of 4. */
void pm4_write_data(struct pm4_buf *b, uint64_t va, const uint32_t *data, uint32_t n, uint32_t flags);
/* The same to registers; PM4_WRITE_L2 is not allowed. */
void pm4_write_reg(struct pm4_buf *b, uint32_t reg, const uint32_t *data, uint32_t n, uint32_t flags);

enum pm4_place { /* COPY_DATA's ends */
    PM4_COPY_REG = 0,
    PM4_COPY_MEM = 2,      /* memory through the L2                                   */
    PM4_COPY_IMM = 5,      /* source only: `src` itself                               */
    PM4_COPY_ATOMIC = 6,   /* source only: what the last ATOMIC_MEM returned          */
    PM4_COPY_GPU_CLOCK = 9, /* source only: 100 MHz; 64 bits                          */
    PM4_COPY_SYS_CLOCK = 10,
};
struct pm4_copy {
    enum pm4_place from, to;
    uint64_t src, dst; /* an address, a register number or, for PM4_COPY_IMM, the value */
    bool wide;         /* 64 bits, addresses multiples of 8; else 32 and 4              */
    bool confirm;
};
void pm4_copy_data(struct pm4_buf *b, const struct pm4_copy *c);

enum pm4_atomic { /* operations with a result; the others of the numbering are these plus the two below */
    PM4_ATOMIC_SWAP = 7,
    PM4_ATOMIC_CMPSWAP = 8,
    PM4_ATOMIC_ADD = 15,
    PM4_ATOMIC_SUB = 16,
    PM4_ATOMIC_SMIN = 17,
    PM4_ATOMIC_UMIN = 18,
    PM4_ATOMIC_SMAX = 19,
    PM4_ATOMIC_UMAX = 20,
    PM4_ATOMIC_AND = 21,
    PM4_ATOMIC_OR = 22,
    PM4_ATOMIC_XOR = 23,
    PM4_ATOMIC_INC = 24,
    PM4_ATOMIC_DEC = 25,
    PM4_ATOMIC_64 = 32,        /* on 64 bits                              */
    PM4_ATOMIC_NO_RETURN = 64, /* the old value is not wanted             */
};
/* `loop`: repeats until the compare holds (CMPSWAP only), every interval (0..8191) clocks. */
void pm4_atomic_mem(struct pm4_buf *b, uint32_t op, uint64_t va, uint64_t src, uint64_t cmp, bool loop,
                    uint32_t interval);

/* ---- work ---- */

/* PM4_INITIATOR(true): wave32 work-groups, counted from the origin. */
#define PM4_INITIATOR(wave32) ((wave32) ? 0x8005u : 0x0005u)
void pm4_dispatch_direct(struct pm4_buf *b, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t initiator);
/* The three group counts are read from va (a multiple of 4) when the packet is executed. */
void pm4_dispatch_indirect(struct pm4_buf *b, uint64_t va, uint32_t initiator);

/* ---- order and visibility ---- */

/* gcr_cntl of ACQUIRE_MEM. gfx12 has no GL1 and no metadata cache: it ignores their bits. */
enum pm4_gcr {
    PM4_GCR_GLI_INV = 1u << 0, /* instructions    */
    PM4_GCR_GLM_WB = 1u << 4,  /* metadata        */
    PM4_GCR_GLM_INV = 1u << 5,
    PM4_GCR_GLK_WB = 1u << 6,  /* scalar data     */
    PM4_GCR_GLK_INV = 1u << 7,
    PM4_GCR_GLV_INV = 1u << 8, /* vector L0       */
    PM4_GCR_GL1_INV = 1u << 9,
    PM4_GCR_GL2_INV = 1u << 14,
    PM4_GCR_GL2_WB = 1u << 15,
    PM4_GCR_SEQ_FORWARD = 1u << 16,
    PM4_ACQUIRE_ALL = 0xc3f1,    /* after writes of the host or of SDMA           */
    PM4_ACQUIRE_LAUNCH = 0x03f0, /* between dispatches: neither code nor L2       */
};
/* Over all of memory. */
void pm4_acquire_mem(struct pm4_buf *b, uint32_t gcr);

enum pm4_event {
    PM4_EVENT_CS_PARTIAL_FLUSH = 0x07,
    PM4_EVENT_CACHE_FLUSH_AND_INV_TS = 0x14,
    PM4_EVENT_BOTTOM_OF_PIPE_TS = 0x28,
    PM4_EVENT_CS_DONE = 0x2f,
};
/* gcr_cntl of RELEASE_MEM: other places than in ACQUIRE_MEM. */
enum pm4_release_gcr {
    PM4_REL_GLM_WB = 1u << 0,
    PM4_REL_GLM_INV = 1u << 1,
    PM4_REL_GLV_INV = 1u << 2,
    PM4_REL_GL1_INV = 1u << 3,
    PM4_REL_GL2_INV = 1u << 8,
    PM4_REL_GL2_WB = 1u << 9,
    PM4_REL_SEQ_FORWARD = 1u << 10,
    PM4_REL_GLK_WB = 1u << 12,
    PM4_RELEASE_ALL = 0x70f, /* everything a host may want to see */
};
enum pm4_data_sel { PM4_DATA_NONE, PM4_DATA_32, PM4_DATA_64, PM4_DATA_GPU_CLOCK, PM4_DATA_SYS_CLOCK };
enum pm4_int_sel {
    PM4_INT_NONE = 0,
    PM4_INT_ONLY = 1,
    PM4_INT_AFTER_WRITE = 2, /* the interrupt follows the confirmed write         */
    PM4_INT_CONFIRM = 3,     /* confirmed write, no interrupt                     */
};
struct pm4_release {
    enum pm4_event event;    /* 0: PM4_EVENT_CACHE_FLUSH_AND_INV_TS               */
    uint32_t gcr;            /* enum pm4_release_gcr, 0: no cache action          */
    uint32_t policy;         /* cache policy / temporal hint, 0..3                */
    enum pm4_data_sel data_sel;
    enum pm4_int_sel int_sel;
    uint64_t va;             /* multiple of 4, of 8 for 64-bit data; 0 with PM4_DATA_NONE */
    uint64_t data;
    uint32_t ctxid;          /* of the interrupt, 28 bits                         */
};
/* When all earlier work is done: the cache action, then the data, then the interrupt. */
void pm4_release_mem(struct pm4_buf *b, const struct pm4_release *r);
/* The 64-bit GPU clock (100 MHz) to va when all earlier work is done. */
void pm4_timestamp(struct pm4_buf *b, uint64_t va);
/* KFD's event `id`: its number into its slot, then an interrupt with it. */
void pm4_signal_event(struct pm4_buf *b, uint64_t slot_va, uint32_t id);

void pm4_event_write(struct pm4_buf *b, uint32_t type, uint32_t index);
void pm4_cs_partial_flush(struct pm4_buf *b); /* waits until all earlier waves have ended */
/* What lies between a dispatch and one that reads its results: the flush and PM4_ACQUIRE_LAUNCH. 10 dwords. */
void pm4_barrier(struct pm4_buf *b);
/* The same by an end-of-pipe event: 0 into the word at va, RELEASE_MEM of `value` there, WAIT_REG_MEM for it, and
 * PM4_ACQUIRE_LAUNCH. value is not 0. 28 dwords. kfdtest does it so, because EVENT_WRITE with a partial flush made trouble when
 * the queue was preempted (Dispatch.cpp, BuildIb: in its tests with GWS). */
void pm4_barrier_by_fence(struct pm4_buf *b, uint64_t va, uint32_t value);

enum pm4_compare { PM4_ALWAYS, PM4_LT, PM4_LE, PM4_EQ, PM4_NE, PM4_GE, PM4_GT };
/* Waits until (value & mask) compares so with ref, unsigned. va is a multiple of 4. */
void pm4_wait_mem(struct pm4_buf *b, enum pm4_compare f, uint64_t va, uint32_t ref, uint32_t mask);
void pm4_wait_reg(struct pm4_buf *b, enum pm4_compare f, uint32_t reg, uint32_t ref, uint32_t mask);
/* Writes ref to `request`, then waits for `done`. */
void pm4_write_wait_reg(struct pm4_buf *b, enum pm4_compare f, uint32_t request, uint32_t done, uint32_t ref,
                        uint32_t mask);
/* Host writes through the PCIe window to VRAM have arrived (the host data path's flush registers). */
void pm4_hdp_flush(struct pm4_buf *b);
/* The same as one packet, which user-mode queues of the DRM driver use (Mesa's amdgpu_cs_add_userq_packets). */
void pm4_hdp_flush_packet(struct pm4_buf *b);

/* ---- flow ---- */

enum pm4_ib_flags {
    PM4_IB_CHAIN = 1,        /* jump there and do not come back                                                     */
    PM4_IB_INHERIT_VMID = 2, /* with the queue's VMID: user-mode queues of the DRM driver (Mesa's amdgpu_cs.cpp,
                              * amdgpu_cs_add_userq_packets; igt's user_queue_submit)                               */
};
/* Executes `dwords` (1..2^20-1) from va, a multiple of 4. */
void pm4_indirect_buffer(struct pm4_buf *b, uint64_t va, uint32_t dwords, uint32_t flags);
/* User-mode queues of the DRM driver: tells the kernel how far the ring was read when all earlier work is done, and
 * raises an interrupt. In the ring only, the last packet that a write pointer announces: that pointer is the value of the
 * kernel's fence (the same places, and amdgpu_userq_fence_read_wptr in Linux). */
void pm4_protected_fence_signal(struct pm4_buf *b);
/* The next n_dw (0..16383) dwords are executed only where the word at va is not 0. */
void pm4_cond_exec(struct pm4_buf *b, uint64_t va, uint32_t n_dw);
/* The next n_dw dwords only on the dies of the mask (8 bits); for parts of several dies. */
void pm4_pred_exec(struct pm4_buf *b, uint32_t mask, uint32_t n_dw);

/* ---- launches ---- */

enum { PM4_MAX_USER = 16, PM4_LDS_MAX_BYTES = 65536, PM4_MAX_THREADS = 1024 };

/* What registers hold, so that a launch need not send it again. They keep their values from launch to launch, but
 * nothing is known at the start of a buffer, nor after registers were set in another way or an indirect buffer was
 * called: pm4_state_forget then. */
struct pm4_state {
    uint32_t value[0x100]; /* COMPUTE_*, registers 0x2E00..0x2EFF */
    uint64_t known[4];
};
void pm4_state_forget(struct pm4_state *s);

enum pm4_patched { PM4_PATCHED_USER = 1 }; /* words that change after encoding */

/* One dispatch with every register it needs. */
struct pm4_launch {
    uint64_t entry;                 /* first instruction, a multiple of 256                                         */
    uint32_t rsrc1, rsrc2, rsrc3;   /* of the kernel descriptor; LDS_SIZE is put in from lds_bytes                  */
    uint32_t lds_bytes;             /* static and dynamic, 0..65536                                                 */
    uint64_t scratch;               /* backing memory, a multiple of 256; 0: none                                   */
    uint32_t tmpring;               /* pm4_tmpring(); not 0 when rsrc2 has SCRATCH_EN                               */
    uint32_t n_user;                /* words for the user SGPRs, usually 2: the kernarg address                     */
    uint32_t user[PM4_MAX_USER];
    uint32_t groups[3], threads[3]; /* work-groups, and work-items of one; at least 1 each, 1024 threads in all     */
    uint64_t groups_va;             /* not 0: the counts are read there when the packet runs; groups[] is not used  */
    bool wave32;
    uint32_t patched;               /* enum pm4_patched: sent in any case, and not taken as known afterwards        */
};
/* Where words of a launch lie in the buffer, for patching; PM4_NOT_SENT: the buffer has none. */
#define PM4_NOT_SENT UINT32_MAX
struct pm4_launch_at {
    uint32_t user;     /* the first user word; all n_user follow when PM4_PATCHED_USER was asked for */
    uint32_t dispatch; /* header of the dispatch packet                                              */
};
/* With a state only what changed is sent; NULL sends everything. `at` may be NULL. */
void pm4_launch(struct pm4_buf *b, struct pm4_state *s, const struct pm4_launch *l, struct pm4_launch_at *at);

/* Registers that no launch sends, for a ring that other programs use as well, and for user-mode queues, whose descriptor
 * enables the first four shader engines only (gfx_v11_0_compute_mqd_init and gfx_v12_0_compute_mqd_init in Linux): all
 * compute units of the n_se shader engines, nothing that is counted, tunneled or traced, work-groups dealt out to the
 * shader engines as Mesa does it. Values: gfx10_init_compute_preamble_state and gfx12_init_compute_preamble_state in Mesa's
 * ac_cmdbuf.c; the interleave of gfx11 is radeonsi's, 256 threads. */
void pm4_compute_preamble(struct pm4_buf *b, uint32_t n_se);

/* COMPUTE_TMPRING_SIZE: at most `waves` waves of each shader engine hold scratch, `wave_bytes` each (rounded up to
 * 256). 0 when a field cannot hold that. */
uint32_t pm4_tmpring(enum pm4_gen gen, uint32_t waves, uint64_t wave_bytes);

#endif
