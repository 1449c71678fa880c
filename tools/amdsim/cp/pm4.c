/* Type-3 packets: fetch from the ring or an indirect buffer, check, execute. One table says which packets there are.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

/* dw[0] is the header, so dw[1] is the "DW1" of AMD's documents; n counts what follows the header. */
typedef enum step pm4_fn(struct cp_queue *q, const uint32_t *dw, uint32_t n);

/* X(opcode, NAME, least body, most body, function) */
#define PM4_PACKETS(X)                                                                                               \
    X(0x10, NOP, 0, 0x4000, pm4_nop)                                                                                 \
    X(0x15, DISPATCH_DIRECT, 4, 4, pm4_dispatch_direct)                                                              \
    X(0x16, DISPATCH_INDIRECT, 3, 3, pm4_dispatch_indirect)                                                          \
    X(0x1E, ATOMIC_MEM, 8, 8, pm4_atomic_mem)                                                                        \
    X(0x22, COND_EXEC, 4, 4, pm4_cond_exec)                                                                          \
    X(0x23, PRED_EXEC, 1, 1, pm4_pred_exec)                                                                          \
    X(0x37, WRITE_DATA, 4, 0x3FFF, pm4_write_data)                                                                   \
    X(0x3C, WAIT_REG_MEM, 6, 6, pm4_wait_reg_mem)                                                                    \
    X(0x3F, INDIRECT_BUFFER, 3, 3, pm4_indirect_buffer)                                                              \
    X(0x40, COPY_DATA, 5, 5, pm4_copy_data)                                                                          \
    X(0x46, EVENT_WRITE, 1, 1, pm4_event_write)                                                                      \
    X(0x49, RELEASE_MEM, 7, 7, pm4_release_mem)                                                                      \
    X(0x50, DMA_DATA, 6, 6, pm4_dma_data)                                                                            \
    X(0x58, ACQUIRE_MEM, 7, 7, pm4_acquire_mem)                                                                      \
    X(0x59, REWIND, 1, 1, pm4_rewind)                                                                                \
    X(0x5D, PRIME_UTCL2, 4, 4, pm4_nop)                                                                              \
    X(0x63, LOAD_SH_REG_INDEX, 4, 4, pm4_load_sh_reg_index)                                                          \
    X(0x76, SET_SH_REG, 2, 0x3FFF, pm4_set_sh_reg)                                                                   \
    X(0x79, SET_UCONFIG_REG, 2, 0x3FFF, pm4_set_uconfig_reg)                                                         \
    X(0x93, WAIT_REG_MEM64, 8, 8, pm4_wait_reg_mem)                                                                  \
    X(0x95, HDP_FLUSH, 1, 1, pm4_nop)                                                                                \
    X(0x9B, SET_SH_REG_INDEX, 2, 0x3FFF, pm4_set_sh_reg)                                                             \
    X(0xBA, SET_SH_REG_PAIRS, 2, 0x3FFE, pm4_set_sh_reg_pairs)                                                       \
    X(0xD0, PROTECTED_FENCE_SIGNAL, 1, 1, pm4_protected_fence_signal)

/* X(opcode, NAME, why not): known to AMD's documents, refused here. */
#define PM4_REFUSED(X)                                                                                               \
    X(0x11, SET_BASE, "compute queues give addresses in the packets themselves")                                     \
    X(0x98, INVALIDATE_TLBS, "only the driver may")                                                                  \
    X(0xA7, DISPATCH_DIRECT_INTERLEAVED, "not modelled; use DISPATCH_DIRECT")                                        \
    X(0xA8, DISPATCH_INDIRECT_INTERLEAVED, "not modelled; use DISPATCH_INDIRECT")                                    \
    X(0xBB, SET_SH_REG_PAIRS_PACKED, "not modelled; use SET_SH_REG")                                                 \
    X(0xBD, SET_SH_REG_PAIRS_PACKED_N, "not modelled; use SET_SH_REG")                                               \
    X(0xD1, FENCE_WAIT_MULTI, "not modelled; wait for the cell's value with WAIT_REG_MEM64")

/* ---- helpers ---- */

static gva address_of(const uint32_t *lo)
{
    return lo[0] | (gva)lo[1] << 32;
}

/* True, and the queue stopped, when dw[i] has bits that are not documented. */
static bool reserved(struct cp_queue *q, const uint32_t *dw, uint32_t i, uint32_t allowed)
{
    if (!(dw[i] & ~allowed))
        return false;
    cp_stop(q, "DW%u is 0x%08x: bits 0x%08x are reserved and must be 0", i, dw[i], dw[i] & ~allowed);
    return true;
}

static bool misaligned(struct cp_queue *q, gva va, uint32_t to)
{
    if (va % to == 0)
        return false;
    cp_stop(q, "address 0x%llx is not a multiple of %u", (unsigned long long)va, to);
    return true;
}

/* ---- registers ---- */

static enum step sh_set(struct cp_queue *q, uint32_t off, uint32_t value)
{
    const char *name = off < CP_SH_COUNT ? reg_sh_name(q->c->chip, off) : NULL;
    if (!name)
        return cp_stop(q, "register 0x%x (offset 0x%x from 0x2C00) is none that a compute queue of %s has",
                       CP_SH_BASE + off, off, q->c->chip->name);
    if (!reg_sh_user(off))
        return cp_stop(q, "%s (0x%x) is not for packets to set", name, CP_SH_BASE + off);
    q->sh[off] = value;
    q->sh_set[off / 64] |= 1ull << off % 64;
    return STEP_NEXT;
}

static enum step uconfig_set(struct cp_queue *q, uint32_t off, uint32_t value)
{
    if (off >= CP_UCONFIG_COUNT)
        return cp_stop(q, "register offset 0x%x is beyond the window 0xC000..0xFFFF", off);
    if (!q->uconfig && !(q->uconfig = calloc(CP_UCONFIG_COUNT, 4)))
        return cp_stop(q, "the model is out of memory");
    q->uconfig[off] = value;
    return STEP_NEXT;
}

static enum step reg_write(struct cp_queue *q, uint32_t reg, uint32_t value)
{
    if (reg >= CP_SH_BASE && reg < CP_SH_BASE + CP_SH_COUNT)
        return sh_set(q, reg - CP_SH_BASE, value);
    if (reg >= CP_UCONFIG_BASE && reg < CP_UCONFIG_BASE + CP_UCONFIG_COUNT)
        return uconfig_set(q, reg - CP_UCONFIG_BASE, value);
    return cp_stop(q, "register 0x%x cannot be written from a compute queue", reg);
}

/* The host data path's flush: a request register and the one that says when it is done. */
enum { REG_HDP_REQ = 0xE26, REG_HDP_DONE = 0xE27 };

static enum step reg_read(struct cp_queue *q, uint32_t reg, uint32_t *value)
{
    if (reg >= CP_SH_BASE && reg < CP_SH_BASE + CP_SH_COUNT && reg_sh_name(q->c->chip, reg - CP_SH_BASE))
        *value = q->sh[reg - CP_SH_BASE];
    else if (reg >= CP_UCONFIG_BASE && reg < CP_UCONFIG_BASE + CP_UCONFIG_COUNT)
        *value = q->uconfig ? q->uconfig[reg - CP_UCONFIG_BASE] : 0;
    else if (reg == REG_HDP_DONE)
        *value = q->hdp_done;
    else
        return cp_stop(q, "register 0x%x cannot be read from a compute queue", reg);
    return STEP_NEXT;
}

static enum step pm4_set_sh_reg(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    bool indexed = (dw[0] >> 8 & 0xFF) == 0x9B;
    if (reserved(q, dw, 1, indexed ? 0xF000FFFFu : 0xFFFFu))
        return STEP_DEAD;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (sh_set(q, (dw[1] & 0xFFFF) + i, dw[2 + i]) != STEP_NEXT)
            return STEP_DEAD;
    cp_trace(q, "%s.. %u value%s, first 0x%08x", reg_sh_name(q->c->chip, dw[1] & 0xFFFF), n - 1, n > 2 ? "s" : "",
             dw[2]);
    return STEP_NEXT;
}

static enum step pm4_set_sh_reg_pairs(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    if (!q->c->chip->gfx12)
        return cp_stop(q, "%s does not have this packet, gfx12 does; use SET_SH_REG", q->c->chip->name);
    if (n % 2)
        return cp_stop(q, "%u dwords are no pairs of offset and value", n);
    for (uint32_t i = 1; i < n; i += 2)
        if (reserved(q, dw, i, 0xFFFF) || sh_set(q, dw[i], dw[i + 1]) != STEP_NEXT)
            return STEP_DEAD;
    cp_trace(q, "%u pairs", n / 2);
    return STEP_NEXT;
}

static enum step pm4_set_uconfig_reg(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    if (reserved(q, dw, 1, 0xFFFF))
        return STEP_DEAD;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (uconfig_set(q, dw[1] + i, dw[2 + i]) != STEP_NEXT)
            return STEP_DEAD;
    cp_trace(q, "0x%x.. %u values, first 0x%08x", CP_UCONFIG_BASE + dw[1], n - 1, dw[2]);
    return STEP_NEXT;
}

/* DW1: index 1:0 (0: address), address 31:2; DW2; DW3: offset, bit 31: a list of offsets and values; DW4: count. */
static enum step pm4_load_sh_reg_index(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    if (dw[1] & 3 || reserved(q, dw, 3, 0xFFFF) || reserved(q, dw, 4, 0x3FFF))
        return q->dead ? STEP_DEAD : cp_stop(q, "index %u: only a direct address (0) is modelled", dw[1] & 3);
    for (uint32_t i = 0; i < dw[4]; i++) {
        uint32_t v;
        if (!cp_mem_read(q, address_of(dw + 1) + 4 * i, &v, 4, "values") || sh_set(q, dw[3] + i, v) != STEP_NEXT)
            return STEP_DEAD;
    }
    cp_trace(q, "0x%x.. %u values from 0x%llx", CP_SH_BASE + dw[3], dw[4], (unsigned long long)address_of(dw + 1));
    return STEP_NEXT;
}

/* ---- data ---- */

static enum step pm4_nop(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    cp_trace(q, "%u", n);
    return STEP_NEXT;
}

static enum step pm4_write_data(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t dst_sel = dw[1] >> 8 & 15, step = dw[1] >> 16 & 1 ? 0 : 1;
    gva va = address_of(dw + 2);
    if (reserved(q, dw, 1, 0xF00 | 1u << 16 | 1u << 20 | 3u << 25))
        return STEP_DEAD;
    if (dst_sel == 0) {
        for (uint32_t i = 0; i + 3 < n; i++)
            if (reg_write(q, dw[2] + i * step, dw[4 + i]) != STEP_NEXT)
                return STEP_DEAD;
    } else if (dst_sel == 2 || dst_sel == 5) {
        if (misaligned(q, va, 4))
            return STEP_DEAD;
        if (n == 5 && step && va % 8 == 0) {
            uint64_t both = address_of(dw + 4);
            if (!cp_mem_write(q, va, &both, 8, "data"))
                return STEP_DEAD;
        } else {
            for (uint32_t i = 0; i + 3 < n; i++)
                if (!cp_mem_write(q, va + (gva)4 * i * step, &dw[4 + i], 4, "data"))
                    return STEP_DEAD;
        }
    } else {
        return cp_stop(q, "dst_sel %u is not modelled; memory is 5, a register 0", dst_sel);
    }
    cp_trace(q, "0x%llx = 0x%08x%s", (unsigned long long)va, dw[4], n > 4 ? ".." : "");
    return STEP_NEXT;
}

static enum step pm4_copy_data(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    enum { SRC_REG, SRC_MEM_OLD, SRC_MEM, SRC_PERFCOUNTER = 4, SRC_IMM, SRC_ATOMIC, SRC_CLOCK = 9, SRC_SYSTEM_CLOCK };
    uint32_t src = dw[1] & 15, dst = dw[1] >> 8 & 15, bytes = dw[1] >> 16 & 1 ? 8 : 4, w[2] = { 0, 0 };
    if (reserved(q, dw, 1, 0xF0F | 3u << 13 | 1u << 16 | 1u << 20 | 3u << 25 | 1u << 29))
        return STEP_DEAD;
    uint64_t v = 0;
    switch (src) {
    case SRC_REG:
        if (reg_read(q, dw[2], &w[0]) != STEP_NEXT || (bytes == 8 && reg_read(q, dw[2] + 1, &w[1]) != STEP_NEXT))
            return STEP_DEAD;
        v = address_of(w);
        break;
    case SRC_MEM_OLD:
    case SRC_MEM:
        if (misaligned(q, address_of(dw + 2), bytes) ||
            !cp_mem_read(q, address_of(dw + 2), bytes == 8 ? (void *)&v : w, bytes, "source"))
            return STEP_DEAD;
        if (bytes == 4)
            v = w[0];
        break;
    case SRC_IMM: v = address_of(dw + 2); break;
    case SRC_ATOMIC: v = q->atomic_return; break;
    case SRC_CLOCK:
    case SRC_SYSTEM_CLOCK: v = cp_clock(); break;
    case SRC_PERFCOUNTER:
        return cp_stop(q, "src_sel 4, the performance counter register 0x%x: counters are not modelled", dw[2]);
    default: return cp_stop(q, "src_sel %u is not modelled", src);
    }
    w[0] = (uint32_t)v, w[1] = (uint32_t)(v >> 32);
    if (dst == 0 || dst == 6) {
        if (reg_write(q, dw[4], w[0]) != STEP_NEXT || (bytes == 8 && reg_write(q, dw[4] + 1, w[1]) != STEP_NEXT))
            return STEP_DEAD;
    } else if (dst == 2 || dst == 5) {
        if (misaligned(q, address_of(dw + 4), bytes) ||
            !cp_mem_write(q, address_of(dw + 4), bytes == 8 ? (void *)&v : w, bytes, "destination"))
            return STEP_DEAD;
    } else {
        return cp_stop(q, "dst_sel %u is not modelled", dst);
    }
    cp_trace(q, "0x%llx = 0x%llx (%u bytes)", (unsigned long long)address_of(dw + 4), (unsigned long long)v, bytes);
    return STEP_NEXT;
}

static enum step pm4_atomic_mem(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t op = dw[1] & 0x7F, command = dw[1] >> 8 & 15;
    uint64_t cmp = address_of(dw + 6), before;
    if (reserved(q, dw, 1, 0x7F | 0xF00 | 3u << 25) || reserved(q, dw, 8, 0x1FFF))
        return STEP_DEAD;
    if (!cp_atomic_bytes(op) || command > 3)
        return cp_stop(q, "%s %u is not modelled", command > 3 ? "command" : "operation", command > 3 ? command : op);
    if (!cp_mem_atomic(q, op, address_of(dw + 2), address_of(dw + 4), cmp, &before))
        return STEP_DEAD;
    q->atomic_return = before;
    if (command == 1 && before != (cp_atomic_bytes(op) == 4 ? (uint32_t)cmp : cmp))
        return STEP_WAIT;
    cp_trace(q, "op %u at 0x%llx, was 0x%llx", op, (unsigned long long)address_of(dw + 2),
             (unsigned long long)before);
    return STEP_NEXT;
}

/* DW1: src_sel 30:29 (0 and 3 address, 2 data), dst_sel 21:20 (0 and 3 address); DW6: bytes 25:0, and how. */
static enum step pm4_dma_data(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t src_sel = dw[1] >> 29 & 3, dst_sel = dw[1] >> 20 & 3;
    gva src = address_of(dw + 2);
    if (reserved(q, dw, 1, 3u << 13 | 3u << 20 | 3u << 25 | 3u << 29 | 1u << 31) ||
        reserved(q, dw, 6, 0x3FFFFFFu | 1u << 30 | 1u << 31))
        return STEP_DEAD;
    if (src_sel == 1 || dst_sel == 1 || dst_sel == 2)
        return cp_stop(q, "src_sel %u, dst_sel %u: only memory and immediate data are modelled", src_sel, dst_sel);
    enum step s = cp_mem_move(q, address_of(dw + 4), src_sel == 2 ? NULL : &src, dw[2], dw[6] & 0x3FFFFFF);
    if (s == STEP_NEXT)
        cp_trace(q, "0x%llx <- 0x%llx, %u bytes", (unsigned long long)address_of(dw + 4), (unsigned long long)src,
                 dw[6] & 0x3FFFFFF);
    return s;
}

/* ---- flow ---- */

static enum step pm4_cond_exec(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t v;
    if (reserved(q, dw, 3, 3u << 25) || reserved(q, dw, 4, 0x3FFF) || misaligned(q, address_of(dw + 1), 4) ||
        !cp_mem_read(q, address_of(dw + 1), &v, 4, "condition"))
        return STEP_DEAD;
    q->skip = v ? 0 : dw[4];
    cp_trace(q, "condition 0x%x: %s %u dwords", v, v ? "execute" : "skip", dw[4]);
    return STEP_NEXT;
}

static enum step pm4_pred_exec(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    if (reserved(q, dw, 1, 0xFF003FFFu))
        return STEP_DEAD;
    if (!q->depth)
        return cp_stop(q, "it works in indirect buffers only");
    q->skip = dw[1] >> 24 & 1 ? 0 : dw[1] & 0x3FFF; /* these chips have one compute complex, number 0 */
    cp_trace(q, "%s %u dwords", q->skip ? "skip" : "execute", dw[1] & 0x3FFF);
    return STEP_NEXT;
}

/* Waits until somebody sets the valid bit of the packet in memory. */
static enum step pm4_rewind(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t v;
    if (!q->depth)
        return cp_stop(q, "it works in indirect buffers only");
    if (!cp_mem_read(q, q->pkt_va + 4, &v, 4, "the packet itself"))
        return STEP_DEAD;
    return v >> 31 ? STEP_NEXT : STEP_WAIT;
}

bool pm4_ib_open(struct cp_queue *q, gva va, uint32_t dwords)
{
    if (!dwords)
        cp_stop(q, "an indirect buffer of 0 dwords at 0x%llx hangs the fetcher", (unsigned long long)va);
    else if (va % 4)
        cp_stop(q, "indirect buffer 0x%llx is not a multiple of 4", (unsigned long long)va);
    else if (!vm_entry(q->d.vm, va))
        cp_stop_page(q, va, false, "indirect buffer");
    else if (q->depth == CP_IB_LEVELS)
        cp_stop(q, "an indirect buffer in an indirect buffer cannot open a third");
    else
        q->ib[q->depth++] = (struct cp_ib_at){ .va = va, .dwords = dwords };
    return !q->dead;
}

static enum step pm4_indirect_buffer(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    bool chain = dw[3] >> 20 & 1;
    if (reserved(q, dw, 3, 0xFFFFFu | 1u << 20 | 1u << 21 | 1u << 23 | 0xFu << 24 | 3u << 28 | 1u << 30))
        return STEP_DEAD;
    if (!(dw[3] >> 23 & 1))
        return cp_stop(q, "the valid bit (DW3 bit 23) is clear");
    if (dw[3] >> 24 & 15)
        return cp_stop(q, "VMID %u: a user's queue has 0 there", dw[3] >> 24 & 15);
    if (chain && !q->depth)
        return cp_stop(q, "the ring cannot chain to a buffer; clear bit 20");
    if (q->d.fence_cell && !q->depth && !(dw[3] >> 30 & 1))
        return cp_stop(q, "a user queue's buffer inherits the queue's VMID: set DW3 bit 30 (INHERIT_VMID_MQD_COMPUTE)");
    cp_trace(q, "%s 0x%llx, %u dwords", chain ? "chain to" : "call", (unsigned long long)address_of(dw + 1),
             dw[3] & 0xFFFFF);
    if (chain)
        q->depth--;
    return pm4_ib_open(q, address_of(dw + 1), dw[3] & 0xFFFFF) ? STEP_NEXT : STEP_DEAD;
}

static enum step pm4_wait_reg_mem(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    enum { WAIT, WRITE_THEN_WAIT, RESERVED, WAIT_PREEMPTABLE };
    bool wide = n == 8, memory = (dw[1] >> 4 & 3) == 1;
    uint32_t function = dw[1] & 7, operation = dw[1] >> 6 & 3, v32;
    uint64_t v, ref = wide ? address_of(dw + 4) : dw[4], mask = wide ? address_of(dw + 6) : dw[5];
    if (reserved(q, dw, 1, 0xF7 | 3u << 25) || reserved(q, dw, n, 0x8000FFFFu))
        return STEP_DEAD;
    if (function == 7 || (dw[1] >> 4 & 3) > 1 || operation == RESERVED)
        return cp_stop(q, "function %u, mem_space %u, operation %u: no such wait", function, dw[1] >> 4 & 3,
                       operation);
    if (operation == WRITE_THEN_WAIT) {
        if (memory || wide || dw[2] != REG_HDP_REQ || dw[3] != REG_HDP_DONE)
            return cp_stop(
                q, "write-then-wait knows the registers 0x%x and 0x%x (host data path flush), not 0x%x and 0x%x",
                REG_HDP_REQ, REG_HDP_DONE, dw[2], dw[3]);
        q->hdp_done = dw[4];
        v = q->hdp_done;
    } else if (memory) {
        gva va = address_of(dw + 2);
        if (misaligned(q, va, wide ? 8 : 4) || !cp_mem_poll(q, va, wide ? (void *)&v : &v32, wide ? 8 : 4))
            return STEP_DEAD;
        if (!wide)
            v = v32;
    } else {
        if (reg_read(q, dw[2], &v32) != STEP_NEXT)
            return STEP_DEAD;
        v = v32;
    }
    bool met = cp_compare(function, v & mask, ref);
    if (met || !q->waited)
        cp_trace(q, "0x%llx: value 0x%llx, mask 0x%llx, function %u, reference 0x%llx: %s",
                 (unsigned long long)address_of(dw + 2), (unsigned long long)v, (unsigned long long)mask, function,
                 (unsigned long long)ref, met ? "met" : "wait");
    return met ? STEP_NEXT : STEP_WAIT;
}

/* ---- events and caches ---- */

static enum step pm4_event_write(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    enum {
        CS_PARTIAL_FLUSH = 7,
        INDEX_FLUSH = 4,
        PERF_FIRST = 0x17,
        PERF_LAST = 0x1B,
        TRACE_FIRST = 0x33,
        TRACE_LAST = 0x38
    };
    uint32_t type = dw[1] & 0x3F, index = dw[1] >> 8 & 15;
    if (reserved(q, dw, 1, 0x80000F3Fu))
        return STEP_DEAD;
    if (type == CS_PARTIAL_FLUSH) {
        if (index != INDEX_FLUSH)
            return cp_stop(q, "CS_PARTIAL_FLUSH has event index 4 (dword 0x407), not %u", index);
        if (cp_waves_run(q))
            return STEP_WAIT;
        cp_strict_waited(q);
        cp_trace(q, "CS_PARTIAL_FLUSH");
        return STEP_NEXT;
    }
    if (index || !((type >= PERF_FIRST && type <= PERF_LAST) || (type >= TRACE_FIRST && type <= TRACE_LAST)))
        return cp_stop(q, "event type 0x%x, index %u is not modelled", type, index);
    cp_trace(q, "event 0x%x (profiling: no effect here)", type);
    return STEP_NEXT;
}

static enum step release_write(struct cp_queue *q, const uint32_t *dw, uint32_t data_sel)
{
    gva va = address_of(dw + 3);
    uint64_t v = data_sel >= 3 ? cp_clock() : address_of(dw + 5);
    uint32_t bytes = data_sel == 1 ? 4 : 8;
    if (!data_sel)
        return STEP_NEXT;
    if (misaligned(q, va, bytes))
        return STEP_DEAD;
    uint32_t low = (uint32_t)v;
    return cp_mem_write(q, va, bytes == 4 ? (void *)&low : &v, bytes, "end-of-pipe data") ? STEP_NEXT : STEP_DEAD;
}

/* gcr_cntl's bits as RELEASE_MEM has them, in ACQUIRE_MEM's order. */
static uint32_t release_gcr(uint32_t dw1)
{
    uint32_t wb_inv_glm = dw1 >> 12 & 3, glv = dw1 >> 14 & 1, gl1 = dw1 >> 15 & 1, gl2 = dw1 >> 19 & 7,
             glk_wb = dw1 >> 24 & 1;
    return wb_inv_glm << 4 | glk_wb << 6 | (dw1 >> 30 & 1) << 7 | glv << 8 | gl1 << 9 | gl2 << 13;
}

static enum step pm4_release_mem(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    enum { END_OF_PIPE = 5, SHADER_DONE = 6, TS_FLUSH = 0x04, TS_FLUSH_INV = 0x14, TS_BOTTOM = 0x28, CS_DONE = 0x2F };
    uint32_t type = dw[1] & 0x3F, index = dw[1] >> 8 & 15;
    uint32_t dst_sel = dw[2] >> 16 & 3, int_sel = dw[2] >> 24 & 7, data_sel = dw[2] >> 29;
    if (reserved(q, dw, 1, 0x3F | 1u << 7 | 0xF00 | 0x1FFFu << 12 | 3u << 25 | 1u << 28 | 1u << 30) ||
        reserved(q, dw, 2, 3u << 16 | 0xFu << 20 | 7u << 24 | 7u << 29) || reserved(q, dw, 7, 0xFFFFFFF))
        return STEP_DEAD;
    bool ts = type == TS_FLUSH || type == TS_FLUSH_INV || type == TS_BOTTOM;
    if (!(index == END_OF_PIPE && ts) && !(index == SHADER_DONE && type == CS_DONE))
        return cp_stop(q,
                       "event type 0x%x with index %u: end of pipe is 0x14 or 0x28 with 5, shader done 0x2F with 6",
                       type, index);
    if (dst_sel > 1 || dw[2] >> 20 & 15 || int_sel > 3 || data_sel > 4)
        return cp_stop(q, "dst_sel %u, action %u, int_sel %u, data_sel %u: not modelled for a user's queue", dst_sel,
                       dw[2] >> 20 & 15, int_sel, data_sel);
    if (cp_waves_run(q))
        return STEP_WAIT;
    cp_strict_waited(q);
    if (!q->d.eop) /* hardware writes the event to its end-of-pipe buffer first */
        return cp_stop_page(q, 0, true, "the queue was created without an end-of-pipe buffer");
    cp_strict_caches(q, release_gcr(dw[1]), 0, ~0ull);
    char why[240];
    bool tells = data_sel == 1 || data_sel == 2 || int_sel == 1 || int_sel == 2;
    if (q->strict && tells && !cp_strict_signal(q, data_sel ? address_of(dw + 3) : 0, why))
        return cp_stop(q, "%s", why);
    if (release_write(q, dw, data_sel) != STEP_NEXT)
        return STEP_DEAD;
    if (int_sel == 1 || int_sel == 2)
        cp_event_push(q->c, &(struct cp_event){ .kind = EV_INTERRUPT, .queue = q->id, .ctxid = dw[7] });
    cp_trace(q, "event 0x%x, gcr 0x%x, data_sel %u, int_sel %u: 0x%llx = 0x%x", type, dw[1] >> 12 & 0x1FFF, data_sel,
             int_sel, (unsigned long long)address_of(dw + 3), dw[5]);
    return STEP_NEXT;
}

/* The driver's fence of a user queue: how far the ring was read, this packet included, and an interrupt. It is the last
 * packet that the write pointer announces, so the value is that pointer (amdgpu_userq_fence_read_wptr). */
static enum step pm4_protected_fence_signal(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    if (!q->d.fence_cell)
        return cp_stop(q, "only on user-mode queues of the DRM node");
    if (q->depth)
        return cp_stop(q, "it belongs into the ring, behind the indirect buffer");
    if (reserved(q, dw, 1, 0))
        return STEP_DEAD;
    if (cp_waves_run(q))
        return STEP_WAIT;
    __atomic_store_n(q->d.fence_cell, q->pos, __ATOMIC_RELEASE);
    cp_event_push(q->c, &(struct cp_event){ .kind = EV_INTERRUPT, .queue = q->id });
    cp_trace(q, "read up to dword %llu", (unsigned long long)q->pos);
    return STEP_NEXT;
}

static enum step pm4_acquire_mem(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t gcr = dw[7];
    uint64_t units = dw[2] | (uint64_t)dw[3] << 32;
    if (reserved(q, dw, 1, 0) || reserved(q, dw, 5, 0xFFFFFF) || reserved(q, dw, 6, 0xFFFF) ||
        reserved(q, dw, 7, 0x7FFFF))
        return STEP_DEAD;
    bool all = units >= 0xFFFFFFFFFFull;
    cp_strict_caches(q, gcr, all ? 0 : address_of(dw + 4) << 8, all ? ~0ull : units << 8);
    if (gcr & 3)
        __atomic_store_n(&q->code->stale, true, __ATOMIC_RELEASE);
    cp_trace(q, "gcr 0x%x%s", gcr, all ? "" : ", a range");
    return STEP_NEXT;
}

/* ---- dispatch ---- */

static enum step pm4_dispatch_direct(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    return dispatch_start(q, dw + 1, dw[4]);
}

static enum step pm4_dispatch_indirect(struct cp_queue *q, const uint32_t *dw, uint32_t n)
{
    uint32_t dim[3];
    gva va = address_of(dw + 1);
    if (cp_waves_run(q))
        return STEP_WAIT;
    if (misaligned(q, va, 4) || !cp_mem_read(q, va, dim, 12, "work-group counts"))
        return STEP_DEAD;
    return dispatch_start(q, dim, dw[3]);
}

/* ---- fetch and execute ---- */

static const struct pm4_packet {
    const char *name, *refused;
    uint16_t min, max;
    pm4_fn *fn;
} packets[256] = {
#define X(op, name, min, max, fn) [op] = { #name, NULL, min, max, fn },
    PM4_PACKETS(X)
#undef X
#define X(op, name, why) [op] = { #name, why, 0, 0, NULL },
    PM4_REFUSED(X)
#undef X
};

enum { NOP_ONE_DWORD = 0xFFFF1000u };

/* Dwords of the packet that begins with this header. */
static uint32_t packet_dwords(uint32_t header)
{
    return header == NOP_ONE_DWORD ? 1 : (header >> 16 & 0x3FFF) + 2;
}

static bool header_bad(struct cp_queue *q, uint32_t header)
{
    q->pkt_name = NULL;
    if (header >> 30 != 3)
        cp_stop(q, "0x%08x is no header of a type-3 packet (type %u)", header, header >> 30);
    else if (header & 0xF8)
        cp_stop(q, "header 0x%08x: bits 7:3 are reserved", header);
    return q->dead;
}

static void ring_read(struct cp_queue *q, uint64_t at, uint32_t *dst, uint32_t n)
{
    uint64_t size = q->d.ring_bytes / 4, index = at % size, head = size - index < n ? size - index : n;
    if (cp_mem_read(q, q->d.ring + index * 4, dst, head * 4, "ring") && head < n)
        cp_mem_read(q, q->d.ring, dst + head, (n - head) * 4, "ring");
}

static enum step fetch_ring(struct cp_queue *q)
{
    uint64_t avail = q->limit - q->pos, wptr = q->limit;
    if (q->limit <= q->pos)
        return STEP_IDLE;
    q->place_ib = 0;
    q->place_at = q->pos;
    uint32_t n = 1, skip = 0;
    if (q->skip) {
        skip = q->skip < avail ? q->skip : (uint32_t)avail;
        q->skip -= skip;
        n = skip;
    } else {
        ring_read(q, q->pos, q->pkt, 1);
        if (q->dead || header_bad(q, q->pkt[0]))
            return STEP_DEAD;
        n = packet_dwords(q->pkt[0]);
        if (n > avail) {
            if (q->short_noted)
                return STEP_IDLE;
            q->short_noted = true;
            if (q->c->o.strict)
                return cp_stop(
                    q, "header 0x%08x announces %u dwords, the doorbell %llu only: ring it after the whole packet",
                    q->pkt[0], n, (unsigned long long)avail);
            cp_note(q->c, q->id,
                    "queue %u: the packet at ring dword %llu has %u dwords, the doorbell (%llu) announces %llu "
                    "of them",
                    q->id, (unsigned long long)q->pos, n, (unsigned long long)wptr, (unsigned long long)avail);
            return STEP_IDLE;
        }
        ring_read(q, q->pos, q->pkt, n);
        q->short_noted = false;
        q->pkt_va = 0;
        q->have_pkt = !q->dead;
    }
    q->pos += n;
    q->pkt_dwords = n;
    uint32_t rptr = q->pos & (q->d.ring_bytes / 4 - 1);
    if (q->dead || !cp_mem_write(q, q->d.rptr, &rptr, 4, "the read pointer"))
        return STEP_DEAD;
    return skip ? fetch_ring(q) : STEP_NEXT;
}

enum step pm4_fetch(struct cp_queue *q)
{
    if (q->have_pkt)
        return STEP_NEXT;
    q->waited = false;
    q->pkt_progress = 0;
    while (q->depth) {
        struct cp_ib_at *b = &q->ib[q->depth - 1];
        uint32_t left = b->dwords - b->pos, n;
        n = q->skip < left ? q->skip : left;
        b->pos += n;
        left -= n;
        q->skip = 0; /* what a condition skips ends with its buffer */
        if (!left) {
            q->depth--;
            continue;
        }
        gva va = b->va + (gva)b->pos * 4;
        q->place_ib = b->va;
        q->place_at = (uint64_t)b->pos * 4;
        q->pkt_name = NULL;
        if (!cp_mem_read(q, va, q->pkt, 4, "indirect buffer") || header_bad(q, q->pkt[0]))
            return STEP_DEAD;
        n = packet_dwords(q->pkt[0]);
        if (n > left)
            return cp_stop(q, "header 0x%08x announces %u dwords, the buffer has %u left", q->pkt[0], n, left);
        if (n > 1 && !cp_mem_read(q, va + 4, q->pkt + 1, (n - 1) * 4, "indirect buffer"))
            return STEP_DEAD;
        b->pos += n;
        q->pkt_va = va;
        q->pkt_dwords = n;
        q->have_pkt = true;
        return STEP_NEXT;
    }
    return q->kernel || q->d.kind != CP_PM4 ? STEP_IDLE : fetch_ring(q);
}

enum step pm4_step(struct cp_queue *q)
{
    enum step s = pm4_fetch(q);
    if (s != STEP_NEXT)
        return q->kernel && s == STEP_IDLE ? STEP_NEXT : s;
    uint32_t op = q->pkt[0] >> 8 & 0xFF, n = q->pkt_dwords - 1;
    const struct pm4_packet *p = &packets[op];
    q->pkt_name = p->name;
    if (!p->name)
        return cp_stop(q, "opcode 0x%02x (header 0x%08x, %u dwords follow) is unknown", op, q->pkt[0], n);
    if (p->refused)
        return cp_stop(q, "%s", p->refused);
    if (n < p->min || n > p->max)
        return cp_stop(q, "%u dwords follow the header, %u%s expected (header 0x%08x)", n, p->min,
                       p->max > p->min ? " or more" : "", q->pkt[0]);
    s = p->fn(q, q->pkt, n);
    if (s == STEP_WAIT)
        q->waited = true;
    if (s == STEP_NEXT) {
        q->have_pkt = false;
        __atomic_add_fetch(&q->c->packets, 1, __ATOMIC_RELAXED);
    }
    return s;
}
