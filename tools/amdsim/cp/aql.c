/* Architected packets: 64-byte slots whose header is written last. Dispatches become the same registers that PM4
 * sets. */
#include <string.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

enum { AQL_VENDOR, AQL_INVALID, AQL_DISPATCH, AQL_BARRIER_AND, AQL_AGENT, AQL_BARRIER_OR };
enum { AQL_SLOT = 64, AMD_FORMAT_PM4 = 1, PM4_IB = 0x3F };

/* Where fields of amd_queue_t and amd_signal_t are. */
enum { QUEUE_WRITE_INDEX = 56, QUEUE_TMPRING = 140, QUEUE_SCRATCH = 160, QUEUE_PROPERTIES = 180, PROFILING = 1 << 3 };
enum { SIGNAL_VALUE = 8, SIGNAL_MAILBOX = 16, SIGNAL_EVENT = 24, SIGNAL_START = 32, SIGNAL_END = 40 };

/* Bits of kernel_code_properties, in the order of the user SGPRs they ask for. */
enum { WANTS_BUFFER = 1, WANTS_DISPATCH = 2, WANTS_QUEUE = 4, WANTS_KERNARG = 8, WANTS_ID = 16, WANTS_FLAT = 32,
       WANTS_PRIVATE_SIZE = 64, WAVE32 = 1 << 10 };

struct aql_dispatch {
    uint16_t header, setup, size[3], reserved0;
    uint32_t grid[3], private_bytes, lds_bytes;
    uint64_t kernel, kernarg, reserved1, completion_signal;
};
_Static_assert(sizeof(struct aql_dispatch) == AQL_SLOT, "the packet's layout");

struct descriptor {
    uint32_t lds_bytes, private_bytes, kernarg_bytes, reserved0;
    int64_t entry_off;
    uint8_t reserved1[20];
    uint32_t rsrc3, rsrc1, rsrc2;
    uint16_t properties, preload;
    uint32_t reserved2;
};
_Static_assert(sizeof(struct descriptor) == 64, "the descriptor's layout");

static gva queue_struct(const struct cp_queue *q)
{
    return q->d.queue_struct ? q->d.queue_struct : q->d.wptr - QUEUE_WRITE_INDEX;
}

static gva slot_va(const struct cp_queue *q)
{
    return q->d.ring + q->pos * AQL_SLOT % q->d.ring_bytes;
}

/* The slot may be written again. */
static enum step slot_done(struct cp_queue *q)
{
    uint16_t invalid = AQL_INVALID;
    if (!cp_mem_write(q, slot_va(q), &invalid, 2, "packet header"))
        return STEP_DEAD;
    q->pos++;
    q->aql_pending = q->aql_ib = q->waited = false;
    __atomic_add_fetch(&q->c->packets, 1, __ATOMIC_RELAXED);
    return cp_mem_write(q, q->d.rptr, &q->pos, 8, "read_dispatch_id") ? STEP_NEXT : STEP_DEAD;
}

/* Counts a completion signal down, with times when the queue is profiled, and raises its event. */
static bool signal_complete(struct cp_queue *q, gva signal)
{
    uint32_t properties, event;
    uint64_t mailbox, now = cp_clock(), before;
    if (!signal)
        return true;
    if (!cp_mem_read(q, queue_struct(q) + QUEUE_PROPERTIES, &properties, 4, "amd_queue_t") ||
        !cp_mem_read(q, signal + SIGNAL_MAILBOX, &mailbox, 8, "completion signal") ||
        !cp_mem_read(q, signal + SIGNAL_EVENT, &event, 4, "completion signal"))
        return false;
    if ((properties & PROFILING) && (!cp_mem_write(q, signal + SIGNAL_START, &q->aql_start, 8, "completion signal") ||
                                     !cp_mem_write(q, signal + SIGNAL_END, &now, 8, "completion signal")))
        return false;
    char why[240];
    if (q->strict && !cp_strict_signal(q, signal, why)) {
        cp_stop(q, "%s", why);
        return false;
    }
    if (!cp_mem_atomic(q, 32 + 16, signal + SIGNAL_VALUE, 1, 0, &before)) /* 64-bit sub */
        return false;
    if (mailbox) {
        uint64_t id = event;
        if (!cp_mem_write(q, mailbox, &id, 8, "event mailbox"))
            return false;
        cp_event_push(q->c, &(struct cp_event){ .kind = EV_INTERRUPT, .queue = q->id, .ctxid = event });
    }
    return true;
}

/* User SGPRs as the descriptor's properties order them. */
static void user_data(struct cp_queue *q, const struct aql_dispatch *p, const struct descriptor *kd, gva packet)
{
    uint32_t *u = &q->sh[R_USER_DATA_0], n = 0;
    const uint64_t pairs[] = { packet, queue_struct(q), p->kernarg, q->pos, 0 };
    memset(u, 0, 16 * 4);
    if (kd->properties & WANTS_BUFFER) {
        u[n++] = q->sh[R_SCRATCH_BASE_LO] << 8;
        u[n++] = (q->sh[R_SCRATCH_BASE_LO] >> 24 | q->sh[R_SCRATCH_BASE_HI] << 8) | 1u << 31;
        u[n++] = 0xFFFFFFFF;
        u[n++] = 0x20C14000;
    }
    for (uint32_t i = 0; i < 5; i++) {
        if (!(kd->properties & WANTS_DISPATCH << i))
            continue;
        u[n++] = (uint32_t)pairs[i];
        u[n++] = (uint32_t)(pairs[i] >> 32);
    }
    if (kd->properties & WANTS_PRIVATE_SIZE)
        u[n++] = p->private_bytes;
}

static bool registers_set(struct cp_queue *q, const struct aql_dispatch *p, uint32_t dim[3], uint32_t *initiator)
{
    struct descriptor kd;
    uint64_t scratch;
    uint32_t tmpring, dims = p->setup & 3;
    if (!dims || p->kernel % 64)
        return cp_stop(q, "%u dimensions, kernel object 0x%llx (a multiple of 64)", dims,
                       (unsigned long long)p->kernel),
               false;
    if (!cp_mem_read(q, p->kernel, &kd, sizeof kd, "kernel descriptor") ||
        !cp_mem_read(q, queue_struct(q) + QUEUE_TMPRING, &tmpring, 4, "amd_queue_t") ||
        !cp_mem_read(q, queue_struct(q) + QUEUE_SCRATCH, &scratch, 8, "amd_queue_t"))
        return false;
    gva entry = p->kernel + (uint64_t)kd.entry_off;
    if (entry % 256)
        return cp_stop(q, "the kernel's entry 0x%llx is not a multiple of 256", (unsigned long long)entry), false;
    if (p->lds_bytes < kd.lds_bytes || p->private_bytes < kd.private_bytes)
        return cp_stop(q, "%u bytes of LDS and %u of scratch, the descriptor needs %u and %u", p->lds_bytes,
                       p->private_bytes, kd.lds_bytes, kd.private_bytes), false;
    reg_reset(q);
    q->sh[R_PGM_LO] = (uint32_t)(entry >> 8);
    q->sh[R_PGM_HI] = (uint32_t)(entry >> 40);
    q->sh[R_PGM_RSRC1] = kd.rsrc1;
    q->sh[R_PGM_RSRC2] = (kd.rsrc2 & ~(511u << 15)) | (p->lds_bytes + 511) / 512 << 15;
    q->sh[R_PGM_RSRC3] = kd.rsrc3;
    q->sh[R_TMPRING_SIZE] = tmpring;
    q->sh[R_SCRATCH_BASE_LO] = (uint32_t)(scratch >> 8);
    q->sh[R_SCRATCH_BASE_HI] = (uint32_t)(scratch >> 40);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t size = i < dims ? p->size[i] : 1, grid = i < dims ? p->grid[i] : 1;
        if (!size)
            return cp_stop(q, "workgroup_size_%c is 0", "xyz"[i]), false;
        q->sh[R_NUM_THREAD_X + i] = size;
        dim[i] = grid; /* in work-items: the last group of a dimension may be partial */
    }
    user_data(q, p, &kd, slot_va(q));
    *initiator = 1 | 1 << 2 | 1 << 5 | (kd.properties & WAVE32 ? 1u << 15 : 0);
    return true;
}

static enum step aql_dispatch(struct cp_queue *q, const struct aql_dispatch *p)
{
    uint32_t dim[3], initiator;
    q->pkt_name = "kernel dispatch";
    if (cp_waves_run(q))
        return STEP_WAIT;
    if (p->header >> 9 & 3) /* the packet's acquire fence: all but level 2's own data */
        cp_strict_caches(q, 0x43F1, 0, ~0ull);
    if (!registers_set(q, p, dim, &initiator))
        return STEP_DEAD;
    q->aql_start = cp_clock();
    q->code->stale |= (p->header >> 9 & 3) == 2;
    enum step s = dispatch_start(q, dim, initiator);
    q->aql_pending = s == STEP_NEXT;
    return s;
}

static enum step aql_dispatch_end(struct cp_queue *q, const struct aql_dispatch *p)
{
    q->pkt_name = "kernel dispatch";
    if (cp_waves_run(q))
        return STEP_WAIT;
    cp_strict_waited(q);
    if (p->header >> 11 & 3)
        cp_strict_caches(q, 1u << 15, 0, ~0ull);
    return signal_complete(q, p->completion_signal) ? slot_done(q) : STEP_DEAD;
}

/* and: all of up to five signals are 0; or: one of them is. No signals: at once. */
static enum step aql_barrier(struct cp_queue *q, const struct aql_dispatch *p, bool any)
{
    uint64_t signal[5];
    uint32_t n = 0, zero = 0;
    q->pkt_name = any ? "barrier-or" : "barrier-and";
    memcpy(signal, (const uint8_t *)p + 8, sizeof signal);
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t value;
        if (!signal[i])
            continue;
        if (signal[i] % 8)
            return cp_stop(q, "dependency 0x%llx is not a multiple of 8", (unsigned long long)signal[i]);
        if (!cp_mem_poll(q, signal[i] + SIGNAL_VALUE, &value, 8))
            return STEP_DEAD;
        n++;
        zero += value == 0;
    }
    if (n && (any ? zero == 0 : zero < n))
        return STEP_WAIT;
    q->aql_start = cp_clock();
    cp_trace(q, "%u dependencies", n);
    return signal_complete(q, p->completion_signal) ? slot_done(q) : STEP_DEAD;
}

/* PM4 in a slot: format 1, then an INDIRECT_BUFFER packet and ten dwords that say so. */
static enum step aql_vendor(struct cp_queue *q, const uint32_t *dw, gva signal)
{
    q->pkt_name = "vendor packet";
    if (q->aql_ib)
        return signal_complete(q, signal) ? slot_done(q) : STEP_DEAD;
    if ((dw[0] >> 16 & 0xFF) != AMD_FORMAT_PM4 || (dw[1] >> 8 & 0xFF) != PM4_IB || dw[5] != 10)
        return cp_stop(q,
                       "format %u, dwords 0x%08x .. 0x%08x: PM4 is format 1 with an INDIRECT_BUFFER packet, then 10",
                       dw[0] >> 16 & 0xFF, dw[1], dw[5]);
    if (!(dw[4] >> 23 & 1))
        return cp_stop(q, "the valid bit of its INDIRECT_BUFFER (bit 23) is clear");
    q->aql_start = cp_clock();
    q->aql_ib = true;
    return pm4_ib_open(q, dw[2] | (gva)dw[3] << 32, dw[4] & 0xFFFFF) ? STEP_NEXT : STEP_DEAD;
}

enum step aql_step(struct cp_queue *q)
{
    if (q->depth || q->have_pkt) {
        enum step s = pm4_step(q);
        return s == STEP_IDLE ? STEP_NEXT : s;
    }
    if (q->pos >= q->limit)
        return STEP_IDLE;
    uint32_t dw[AQL_SLOT / 4];
    struct aql_dispatch p;
    q->place_ib = 0;
    q->place_at = q->pos;
    q->pkt_name = "slot";
    if (!cp_mem_read(q, slot_va(q), dw, 4, "ring"))
        return STEP_DEAD;
    uint32_t type = dw[0] & 0xFF;
    if (type == AQL_INVALID)
        return STEP_IDLE; /* reserved, not written yet */
    if (!cp_mem_read(q, slot_va(q), dw, sizeof dw, "ring"))
        return STEP_DEAD;
    memcpy(&p, dw, sizeof p);
    bool runs = cp_waves_run(q);
    if (runs && !q->aql_pending && !q->aql_ib)
        return STEP_WAIT;
    switch (type) {
    case AQL_DISPATCH: return q->aql_pending ? aql_dispatch_end(q, &p) : aql_dispatch(q, &p);
    case AQL_BARRIER_AND:
    case AQL_BARRIER_OR: return aql_barrier(q, &p, type == AQL_BARRIER_OR);
    case AQL_VENDOR: return runs && q->aql_ib ? STEP_WAIT : aql_vendor(q, dw, p.completion_signal);
    default: return cp_stop(q, "packet type %u (header 0x%04x) is not modelled", type, dw[0] & 0xFFFF);
    }
}
