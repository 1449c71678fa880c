/* One function per packet: judge the arguments, lay out the body. Bits are placed as packets.def lists them. */
#include <stddef.h>
#include <string.h>

#include "rt/pm4/tables.h"

enum { MAX_BODY = 0x3fff, POLL_INTERVAL = 4, REG_LAST = 0x3ffff, COUNT_MAX = 0x3fff };

void pm4_init(struct pm4_buf *b, enum pm4_gen gen, uint32_t *memory, uint32_t cap)
{
    *b = (struct pm4_buf){ .dw = memory, .cap = cap, .gen = gen };
}

static void fail(struct pm4_buf *b, int rc, const char *why)
{
    if (b->rc)
        return;
    b->rc = rc;
    b->why = why;
}

static bool refuse(struct pm4_buf *b, bool bad, const char *why)
{
    if (bad)
        fail(b, -EINVAL, why);
    return bad;
}

/* A header, a body of n dwords and more words after it. */
static void put(struct pm4_buf *b, uint32_t op, const uint32_t *body, uint32_t n, const uint32_t *tail,
                uint32_t n_tail)
{
    if (b->rc)
        return;
    uint32_t total = 1 + n + n_tail;
    if (total > b->cap - b->n) {
        fail(b, -ENOSPC, "the buffer is full");
        return;
    }
    if (b->dw) {
        uint32_t *dw = b->dw + b->n;
        dw[0] = 3u << 30 | (total - 2) << 16 | op << 8;
        if (n)
            memcpy(dw + 1, body, n * 4ull);
        if (n_tail)
            memcpy(dw + 1 + n, tail, n_tail * 4ull);
    }
    b->n += total;
}
#define PUT_TAIL(b, op, tail, n_tail, ...)                                                                             \
    put(b, PM4_OP_##op, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4, tail,        \
        n_tail)
#define PUT(b, op, ...) PUT_TAIL(b, op, NULL, 0, __VA_ARGS__)
#define LO(v)           ((uint32_t)(v))
#define HI(v)           ((uint32_t)((v) >> 32))

static bool bad_va(struct pm4_buf *b, uint64_t va, uint32_t align, const char *why_align)
{
    return refuse(b, va >> 48 != 0, "an address has more than 48 bits") || refuse(b, va % align != 0, why_align);
}

void pm4_nop(struct pm4_buf *b, uint32_t n_dw)
{
    if (b->rc)
        return;
    if (n_dw > b->cap - b->n) {
        fail(b, -ENOSPC, "the buffer is full");
        return;
    }
    while (n_dw > 0) {
        uint32_t n = n_dw > MAX_BODY + 1 ? MAX_BODY + 1 : n_dw;
        if (b->dw) {
            b->dw[b->n] = 3u << 30 | (n == 1 ? 0x3fffu : n - 2) << 16 | PM4_OP_NOP << 8;
            memset(b->dw + b->n + 1, 0, (n - 1) * 4ull);
        }
        b->n += n;
        n_dw -= n;
    }
}

void pm4_mark(struct pm4_buf *b, const uint32_t *words, uint32_t n)
{
    if (!refuse(b, n < 1 || n > MAX_BODY - 1, "NOP: a mark has 1 to 16382 words"))
        put(b, PM4_OP_NOP, words, n, NULL, 0);
}

static void set_regs(struct pm4_buf *b, uint32_t op, uint32_t first, uint32_t last, uint32_t reg, uint32_t n,
                     const uint32_t *values, const char *why)
{
    if (refuse(b, n < 1 || n > MAX_BODY - 1, "SET_*_REG: a packet sets 1 to 16382 registers"))
        return;
    if (refuse(b, reg < first || reg > last || n > last - reg + 1, why))
        return;
    put(b, op, (const uint32_t[]){ reg - first }, 1, values, n);
}

void pm4_set_sh_reg(struct pm4_buf *b, uint32_t reg, uint32_t n, const uint32_t *values)
{
    set_regs(b, PM4_OP_SET_SH_REG, PM4_SH_FIRST, PM4_SH_LAST, reg, n, values,
             "SET_SH_REG: a register outside 0x2C00..0x2FFF");
}

void pm4_set_uconfig_reg(struct pm4_buf *b, uint32_t reg, uint32_t n, const uint32_t *values)
{
    set_regs(b, PM4_OP_SET_UCONFIG_REG, PM4_UCONFIG_FIRST, PM4_UCONFIG_LAST, reg, n, values,
             "SET_UCONFIG_REG: a register outside 0xC000..0xFFFF");
}

static void write_words(struct pm4_buf *b, uint32_t dst_sel, uint64_t to, const uint32_t *data, uint32_t n,
                        uint32_t flags)
{
    if (refuse(b, n < 1 || n > MAX_BODY - 3, "WRITE_DATA: a packet writes 1 to 16380 words"))
        return;
    uint32_t same = flags & PM4_WRITE_SAME ? 1u << 16 : 0, confirm = flags & PM4_WRITE_CONFIRM ? 1u << 20 : 0;
    PUT_TAIL(b, WRITE_DATA, data, n, dst_sel << 8 | same | confirm, LO(to), HI(to));
}

void pm4_write_data(struct pm4_buf *b, uint64_t va, const uint32_t *data, uint32_t n, uint32_t flags)
{
    const uint32_t all = PM4_WRITE_CONFIRM | PM4_WRITE_SAME | PM4_WRITE_L2;
    if (refuse(b, flags & ~all, "WRITE_DATA: unknown flags") ||
        bad_va(b, va, 4, "WRITE_DATA: the address is not a multiple of 4"))
        return;
    write_words(b, flags & PM4_WRITE_L2 ? 2 : 5, va, data, n, flags);
}

void pm4_write_reg(struct pm4_buf *b, uint32_t reg, const uint32_t *data, uint32_t n, uint32_t flags)
{
    if (refuse(b, flags & ~(uint32_t)(PM4_WRITE_CONFIRM | PM4_WRITE_SAME), "WRITE_DATA: flags not for registers") ||
        refuse(b, reg > REG_LAST, "WRITE_DATA: a register number has 18 bits"))
        return;
    write_words(b, 0, reg, data, n, flags);
}

/* One end of a copy: what its place allows. */
static bool bad_end(struct pm4_buf *b, enum pm4_place p, uint64_t v, bool wide)
{
    switch (p) {
    case PM4_COPY_REG: return refuse(b, v > REG_LAST, "COPY_DATA: a register number has 18 bits");
    case PM4_COPY_MEM: return bad_va(b, v, wide ? 8 : 4, "COPY_DATA: an address is not a multiple of the size");
    case PM4_COPY_IMM: return refuse(b, !wide && v >> 32, "COPY_DATA: a 32-bit value has more bits");
    case PM4_COPY_ATOMIC: return refuse(b, v != 0, "COPY_DATA: this source takes no operand");
    case PM4_COPY_GPU_CLOCK:
    case PM4_COPY_SYS_CLOCK: return refuse(b, v != 0 || !wide, "COPY_DATA: a clock has 64 bits and takes no operand");
    }
    return refuse(b, true, "COPY_DATA: no such source or destination");
}

void pm4_copy_data(struct pm4_buf *b, const struct pm4_copy *c)
{
    if (refuse(b, c->to != PM4_COPY_REG && c->to != PM4_COPY_MEM, "COPY_DATA: it goes to a register or to memory") ||
        bad_end(b, c->from, c->src, c->wide) || bad_end(b, c->to, c->dst, c->wide))
        return;
    PUT(b, COPY_DATA, (uint32_t)c->from | (uint32_t)c->to << 8 | (uint32_t)c->wide << 16 | (uint32_t)c->confirm << 20,
        LO(c->src), HI(c->src), LO(c->dst), HI(c->dst));
}

void pm4_atomic_mem(struct pm4_buf *b, uint32_t op, uint64_t va, uint64_t src, uint64_t cmp, bool loop,
                    uint32_t interval)
{
    const uint32_t known = 1u << PM4_ATOMIC_SWAP | 1u << PM4_ATOMIC_CMPSWAP | 0x7ffu << PM4_ATOMIC_ADD;
    bool wide = op & PM4_ATOMIC_64;
    if (refuse(b, op > 127 || !(known >> (op & 31) & 1), "ATOMIC_MEM: no such operation") ||
        refuse(b, loop && (op & 31) != PM4_ATOMIC_CMPSWAP, "ATOMIC_MEM: only CMPSWAP can loop") ||
        refuse(b, interval > 8191, "ATOMIC_MEM: the loop interval has 13 bits") ||
        refuse(b, !wide && (src >> 32 || cmp >> 32), "ATOMIC_MEM: a 32-bit operand has more bits") ||
        bad_va(b, va, wide ? 8 : 4, "ATOMIC_MEM: the address is not a multiple of the size"))
        return;
    PUT(b, ATOMIC_MEM, op | (uint32_t)loop << 8, LO(va), HI(va), LO(src), HI(src), LO(cmp), HI(cmp), interval);
}

static bool bad_initiator(struct pm4_buf *b, uint32_t initiator)
{
    const struct pm4_reg_row *r = pm4_reg_find(b->gen, PM4_REG_COMPUTE_DISPATCH_INITIATOR);
    return refuse(b, initiator & pm4_reg_reserved(r, b->gen), "DISPATCH: reserved bits of the initiator are set");
}

void pm4_dispatch_direct(struct pm4_buf *b, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t initiator)
{
    if (!bad_initiator(b, initiator))
        PUT(b, DISPATCH_DIRECT, gx, gy, gz, initiator);
}

void pm4_dispatch_indirect(struct pm4_buf *b, uint64_t va, uint32_t initiator)
{
    if (!bad_initiator(b, initiator) && !bad_va(b, va, 4, "DISPATCH_INDIRECT: the address is not a multiple of 4"))
        PUT(b, DISPATCH_INDIRECT, LO(va), HI(va), initiator);
}

void pm4_acquire_mem(struct pm4_buf *b, uint32_t gcr)
{
    /* Size in units of 256 bytes and base: all of memory, with the width that Mesa's drivers send (25 bits above 32). */
    if (!refuse(b, gcr >> 19, "ACQUIRE_MEM: gcr_cntl has 19 bits"))
        PUT(b, ACQUIRE_MEM, 0, 0xffffffff, 0x01ffffff, 0, 0, 10, gcr);
}

void pm4_release_mem(struct pm4_buf *b, const struct pm4_release *r)
{
    bool wide = r->data_sel >= PM4_DATA_64;
    uint32_t event = r->event ? r->event : PM4_EVENT_CACHE_FLUSH_AND_INV_TS;
    if (refuse(b, event > 63, "RELEASE_MEM: an event has 6 bits") ||
        refuse(b, r->gcr >> 13, "RELEASE_MEM: gcr_cntl has 13 bits") ||
        refuse(b, r->policy > 3, "RELEASE_MEM: the cache policy has 2 bits") ||
        refuse(b, r->data_sel > PM4_DATA_SYS_CLOCK, "RELEASE_MEM: no such data_sel") ||
        refuse(b, r->int_sel > PM4_INT_CONFIRM, "RELEASE_MEM: no such int_sel") ||
        refuse(b, r->ctxid >> 28, "RELEASE_MEM: the interrupt's context id has 28 bits") ||
        refuse(b, r->data_sel == PM4_DATA_32 && r->data >> 32, "RELEASE_MEM: 32-bit data has more bits") ||
        bad_va(b, r->va, wide ? 8 : 4, "RELEASE_MEM: the address is not a multiple of the data's size"))
        return;
    uint32_t index = event == PM4_EVENT_CS_DONE ? 6 : 5;
    PUT(b, RELEASE_MEM, event | index << 8 | r->gcr << 12 | r->policy << 25,
        (uint32_t)r->int_sel << 24 | (uint32_t)r->data_sel << 29, LO(r->va), HI(r->va), LO(r->data), HI(r->data),
        r->ctxid);
}

void pm4_timestamp(struct pm4_buf *b, uint64_t va)
{
    pm4_release_mem(b, &(struct pm4_release){ .data_sel = PM4_DATA_GPU_CLOCK, .va = va });
}

void pm4_signal_event(struct pm4_buf *b, uint64_t slot_va, uint32_t id)
{
    pm4_release_mem(b, &(struct pm4_release){ .data_sel = PM4_DATA_32, .int_sel = PM4_INT_AFTER_WRITE, .va = slot_va,
                                              .data = id, .ctxid = id });
}

void pm4_event_write(struct pm4_buf *b, uint32_t type, uint32_t index)
{
    if (!refuse(b, type > 63 || index > 15, "EVENT_WRITE: the type has 6 bits, the index 4"))
        PUT(b, EVENT_WRITE, type | index << 8);
}

void pm4_cs_partial_flush(struct pm4_buf *b)
{
    pm4_event_write(b, PM4_EVENT_CS_PARTIAL_FLUSH, 4);
}

void pm4_barrier(struct pm4_buf *b)
{
    uint32_t n = b->n;
    pm4_cs_partial_flush(b);
    pm4_acquire_mem(b, PM4_ACQUIRE_LAUNCH);
    if (b->rc)
        b->n = n;
}

enum { WAIT_MEM = 1 << 4, WRITE_THEN_WAIT = 1 << 6 };

static bool bad_compare(struct pm4_buf *b, enum pm4_compare f)
{
    return refuse(b, (uint32_t)f > PM4_GT, "WAIT_REG_MEM: no such comparison");
}

void pm4_wait_mem(struct pm4_buf *b, enum pm4_compare f, uint64_t va, uint32_t ref, uint32_t mask)
{
    if (!bad_compare(b, f) && !bad_va(b, va, 4, "WAIT_REG_MEM: the address is not a multiple of 4"))
        PUT(b, WAIT_REG_MEM, (uint32_t)f | WAIT_MEM, LO(va), HI(va), ref, mask, POLL_INTERVAL);
}

void pm4_barrier_by_fence(struct pm4_buf *b, uint64_t va, uint32_t value)
{
    const uint32_t zero = 0;
    uint32_t n = b->n;
    if (refuse(b, !value, "a barrier by a fence: its value is not 0"))
        return;
    pm4_write_data(b, va, &zero, 1, PM4_WRITE_CONFIRM);
    pm4_release_mem(b, &(struct pm4_release){ .data_sel = PM4_DATA_32, .va = va, .data = value });
    pm4_wait_mem(b, PM4_EQ, va, value, ~0u);
    pm4_acquire_mem(b, PM4_ACQUIRE_LAUNCH);
    if (b->rc)
        b->n = n;
}

void pm4_wait_reg(struct pm4_buf *b, enum pm4_compare f, uint32_t reg, uint32_t ref, uint32_t mask)
{
    if (!bad_compare(b, f) && !refuse(b, reg > REG_LAST, "WAIT_REG_MEM: a register number has 18 bits"))
        PUT(b, WAIT_REG_MEM, (uint32_t)f, reg, 0, ref, mask, POLL_INTERVAL);
}

void pm4_write_wait_reg(struct pm4_buf *b, enum pm4_compare f, uint32_t request, uint32_t done, uint32_t ref,
                        uint32_t mask)
{
    if (!bad_compare(b, f) &&
        !refuse(b, request > REG_LAST || done > REG_LAST, "WAIT_REG_MEM: a register number has 18 bits"))
        PUT(b, WAIT_REG_MEM, (uint32_t)f | WRITE_THEN_WAIT, request, done, ref, mask, POLL_INTERVAL);
}

void pm4_hdp_flush(struct pm4_buf *b)
{
    pm4_write_wait_reg(b, PM4_GE, PM4_REG_GPU_HDP_FLUSH_REQ, PM4_REG_GPU_HDP_FLUSH_DONE, 0xffffffff, 0xffffffff);
}

void pm4_indirect_buffer(struct pm4_buf *b, uint64_t va, uint32_t dwords, uint32_t flags)
{
    const uint32_t valid = 1u << 23, chain = flags & PM4_IB_CHAIN ? 1u << 20 : 0,
                   inherit = flags & PM4_IB_INHERIT_VMID ? 1u << 30 : 0;
    if (refuse(b, dwords < 1 || dwords >> 20, "INDIRECT_BUFFER: it holds 1 to 1048575 dwords") ||
        bad_va(b, va, 4, "INDIRECT_BUFFER: the address is not a multiple of 4"))
        return;
    PUT(b, INDIRECT_BUFFER, LO(va), HI(va), dwords | chain | valid | inherit);
}

void pm4_protected_fence_signal(struct pm4_buf *b)
{
    PUT(b, PROTECTED_FENCE_SIGNAL, 0);
}

void pm4_hdp_flush_packet(struct pm4_buf *b)
{
    PUT(b, HDP_FLUSH, 0);
}

void pm4_cond_exec(struct pm4_buf *b, uint64_t va, uint32_t n_dw)
{
    if (!refuse(b, n_dw > COUNT_MAX, "COND_EXEC: the count has 14 bits") &&
        !bad_va(b, va, 4, "COND_EXEC: the address is not a multiple of 4"))
        PUT(b, COND_EXEC, LO(va), HI(va), 0, n_dw);
}

void pm4_pred_exec(struct pm4_buf *b, uint32_t mask, uint32_t n_dw)
{
    if (!refuse(b, mask >> 8 || n_dw > COUNT_MAX, "PRED_EXEC: the mask has 8 bits, the count 14"))
        PUT(b, PRED_EXEC, mask << 24 | n_dw);
}
