/* The copy engine's packets, versions 6.0 to 7.0: the part that runtimes use. */
#include <string.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

enum { SDMA_NOP, SDMA_COPY, SDMA_WRITE, SDMA_INDIRECT = 4, SDMA_FENCE, SDMA_TRAP, SDMA_POLL = 8, SDMA_ATOMIC = 10,
       SDMA_FILL, SDMA_TIMESTAMP = 13, SDMA_GCR = 17 };

enum { SDMA_MAX_WRITE = 0x3FF0 }; /* dwords of data in one WRITE: the packet fits the queue's buffer */

static gva address_of(const uint32_t *lo)
{
    return lo[0] | (gva)lo[1] << 32;
}

/* Dwords of a packet whose length the header, or its first four dwords, tell. 0: unknown. */
static uint32_t packet_dwords(const uint32_t *dw)
{
    switch (dw[0] & 0xFF) {
    case SDMA_NOP: return 1 + (dw[0] >> 16 & 0x3FFF);
    case SDMA_COPY: return 7;
    case SDMA_WRITE: return 4;                /* and its data */
    case SDMA_INDIRECT: return 6;
    case SDMA_FENCE: return 4;
    case SDMA_TRAP: return 2;
    case SDMA_POLL: return 6;
    case SDMA_ATOMIC: return 8;
    case SDMA_FILL: return 5;
    case SDMA_TIMESTAMP: return 3;
    case SDMA_GCR: return 5;
    default: return 0;
    }
}

/* Packets run in a user's ring and in indirect buffers alike: a stream of dwords with so many left. */
static uint64_t stream_left(struct cp_queue *q)
{
    return q->depth ? q->ib[0].dwords - q->ib[0].pos : q->limit > q->pos ? (q->limit - q->pos) / 4 : 0;
}

static bool stream_read(struct cp_queue *q, uint64_t from, uint32_t n)
{
    if (q->depth)
        return cp_mem_read(q, q->ib[0].va + (q->ib[0].pos + from) * 4, q->pkt + from, (uint64_t)n * 4,
                           "indirect buffer");
    uint64_t at = (q->pos + from * 4) % q->d.ring_bytes, head = (q->d.ring_bytes - at) / 4;
    head = head < n ? head : n;
    return cp_mem_read(q, q->d.ring + at, q->pkt + from, head * 4, "ring") &&
           (head == n || cp_mem_read(q, q->d.ring, q->pkt + from + head, (n - head) * 4, "ring"));
}

static enum step stream_advance(struct cp_queue *q, uint32_t n)
{
    if (q->depth) {
        q->ib[0].pos += n;
        return STEP_NEXT;
    }
    q->pos += (uint64_t)n * 4;
    return cp_mem_write(q, q->d.rptr, &q->pos, 8, "the read pointer") ? STEP_NEXT : STEP_DEAD;
}

static enum step fetch(struct cp_queue *q)
{
    if (q->have_pkt)
        return STEP_NEXT;
    q->waited = false;
    q->pkt_progress = 0;
    if (q->depth && q->ib[0].pos == q->ib[0].dwords)
        q->depth = 0;
    uint64_t left = q->kernel && !q->depth ? 0 : stream_left(q);
    if (!left)
        return STEP_IDLE;
    q->place_ib = q->depth ? q->ib[0].va : 0;
    q->place_at = q->depth ? (uint64_t)q->ib[0].pos * 4 : q->pos;
    q->pkt_name = NULL;
    if (!stream_read(q, 0, 1))
        return STEP_DEAD;
    uint32_t n = packet_dwords(q->pkt);
    if (!n)
        return cp_stop(q, "operation 0x%02x, sub-operation 0x%02x (header 0x%08x) is unknown", q->pkt[0] & 0xFF,
                       q->pkt[0] >> 8 & 0xFF, q->pkt[0]);
    if (n <= left && (q->pkt[0] & 0xFF) == SDMA_WRITE) {
        if (!stream_read(q, 0, 4))
            return STEP_DEAD;
        if ((q->pkt[3] & 0xFFFFF) >= SDMA_MAX_WRITE)
            return cp_stop(q, "WRITE of %u dwords, this model takes %u at most", (q->pkt[3] & 0xFFFFF) + 1,
                           SDMA_MAX_WRITE);
        n += (q->pkt[3] & 0xFFFFF) + 1;
    }
    if (n > left && q->depth)
        return cp_stop(q, "header 0x%08x announces %u dwords, the buffer has %llu left", q->pkt[0], n,
                       (unsigned long long)left);
    if (n > left) {
        if (!q->short_noted)
            cp_note(q->c, q->id, "queue %u (sdma): the packet at byte %llu has %u dwords, %llu of them are announced",
                    q->id, (unsigned long long)q->pos, n, (unsigned long long)left);
        q->short_noted = true;
        return STEP_IDLE;
    }
    q->short_noted = false;
    if (!stream_read(q, 0, n) || stream_advance(q, n) != STEP_NEXT)
        return STEP_DEAD;
    q->pkt_dwords = n;
    q->have_pkt = true;
    return STEP_NEXT;
}

static enum step sdma_poll(struct cp_queue *q, const uint32_t *dw)
{
    uint32_t v, function = dw[0] >> 28 & 7;
    if (!(dw[0] >> 31))
        return (dw[0] >> 26 & 3) == 1 ? STEP_NEXT /* the host data path's flush: at once */
                                      : cp_stop(q, "header 0x%08x: polling a register is not modelled", dw[0]);
    if (function == 7)
        return cp_stop(q, "function 7 does not exist");
    if (address_of(dw + 1) % 4)
        return cp_stop(q, "address 0x%llx is not a multiple of 4", (unsigned long long)address_of(dw + 1));
    if (!cp_mem_poll(q, address_of(dw + 1), &v, 4))
        return STEP_DEAD;
    bool met = cp_compare(function, v & dw[4], dw[3]);
    if (met || !q->waited)
        cp_trace(q, "0x%llx: value 0x%x, function %u, reference 0x%x: %s", (unsigned long long)address_of(dw + 1), v,
                 function, dw[3], met ? "met" : "wait");
    if (met)
        return STEP_NEXT;
    if ((dw[5] >> 16 & 0xFFF) != 0xFFF && !q->waited)
        cp_note(q->c, q->id, "queue %u (sdma): POLL_REGMEM with retry count 0x%x gives up on hardware, here it waits "
                "(0xFFF: for ever)", q->id, dw[5] >> 16 & 0xFFF);
    return STEP_WAIT;
}

static enum step sdma_copy(struct cp_queue *q, const uint32_t *dw)
{
    gva src = address_of(dw + 3);
    uint64_t bytes = (uint64_t)(dw[1] & 0x3FFFFFFF) + 1;
    if (dw[0] >> 8 & 0xFF)
        return cp_stop(q, "sub-operation 0x%x: only linear copies are modelled", dw[0] >> 8 & 0xFF);
    if (!q->pkt_progress)
        cp_trace(q, "0x%llx <- 0x%llx, %llu bytes", (unsigned long long)address_of(dw + 5), (unsigned long long)src,
                 (unsigned long long)bytes);
    return cp_mem_move(q, address_of(dw + 5), &src, 0, bytes);
}

static enum step sdma_fill(struct cp_queue *q, const uint32_t *dw)
{
    uint32_t size = dw[0] >> 30, pattern = dw[3];
    gva dst = address_of(dw + 1);
    uint64_t bytes = (uint64_t)(dw[4] & 0x3FFFFFFF) + 1;
    if (size != 0 && size != 2)
        return cp_stop(q, "fill size %u: bytes (0) and dwords (2) are modelled", size);
    if (size == 0 && pattern != (pattern & 0xFF) * 0x01010101u)
        return cp_stop(q,
                       "pattern 0x%08x is not one byte four times, and the fill size says bytes; set bits 31:30 to 2",
                       pattern);
    if (size == 2 && (dst | bytes) % 4)
        return cp_stop(q, "a fill of dwords at 0x%llx, %llu bytes", (unsigned long long)dst,
                       (unsigned long long)bytes);
    return cp_mem_move(q, dst, NULL, pattern, bytes);
}

static enum step sdma_execute(struct cp_queue *q, const uint32_t *dw)
{
    uint32_t sub = dw[0] >> 8 & 0xFF;
    uint64_t v;
    switch (dw[0] & 0xFF) {
    case SDMA_COPY: q->pkt_name = "COPY"; return sdma_copy(q, dw);
    case SDMA_FILL: q->pkt_name = "CONST_FILL"; return sdma_fill(q, dw);
    case SDMA_POLL: q->pkt_name = "POLL_REGMEM"; return sdma_poll(q, dw);
    case SDMA_WRITE:
        q->pkt_name = "WRITE";
        if (sub)
            return cp_stop(q, "sub-operation 0x%x: only linear writes are modelled", sub);
        return cp_mem_write(q, address_of(dw + 1), dw + 4, (uint64_t)(q->pkt_dwords - 4) * 4, "destination")
                   ? STEP_NEXT
                   : STEP_DEAD;
    case SDMA_INDIRECT:
        q->pkt_name = "INDIRECT";
        if (q->depth || (dw[1] & 31) || dw[3] % 8)
            return cp_stop(
                q, "buffer 0x%llx of %u dwords%s: it begins at 32 bytes, counts in 8 dwords, and calls no other",
                (unsigned long long)address_of(dw + 1), dw[3], q->depth ? " in a buffer" : "");
        return pm4_ib_open(q, address_of(dw + 1), dw[3] & 0xFFFFF) ? STEP_NEXT : STEP_DEAD;
    case SDMA_FENCE:
        q->pkt_name = "FENCE";
        if (dw[1] % 4)
            return cp_stop(q, "address 0x%llx is not a multiple of 4", (unsigned long long)address_of(dw + 1));
        cp_trace(q, "0x%llx = 0x%x", (unsigned long long)address_of(dw + 1), dw[3]);
        return cp_mem_write(q, address_of(dw + 1), &dw[3], 4, "fence") ? STEP_NEXT : STEP_DEAD;
    case SDMA_TRAP:
        q->pkt_name = "TRAP";
        cp_trace(q, "context 0x%x", dw[1]);
        cp_event_push(q->c, &(struct cp_event){ .kind = EV_INTERRUPT, .queue = q->id, .ctxid = dw[1] & 0xFFFFFFF });
        return STEP_NEXT;
    case SDMA_ATOMIC:
        q->pkt_name = "ATOMIC";
        if (!cp_atomic_bytes(dw[0] >> 25))
            return cp_stop(q, "operation %u is not modelled", dw[0] >> 25);
        if (!cp_mem_atomic(q, dw[0] >> 25, address_of(dw + 1), address_of(dw + 3), address_of(dw + 5), &v))
            return STEP_DEAD;
        return (dw[0] >> 16 & 1) && v != address_of(dw + 5) ? STEP_WAIT : STEP_NEXT;
    case SDMA_TIMESTAMP:
        q->pkt_name = "TIMESTAMP";
        if (sub != 2 && sub != 1)
            return cp_stop(q, "sub-operation %u is not modelled; the global clock is 2", sub);
        v = cp_clock();
        if (dw[1] % 8)
            return cp_stop(q, "address 0x%llx is not a multiple of 8", (unsigned long long)address_of(dw + 1));
        return cp_mem_write(q, address_of(dw + 1), &v, 8, "timestamp") ? STEP_NEXT : STEP_DEAD;
    default: return STEP_NEXT; /* NOP; GCR: what the copy engine writes is in memory at once */
    }
}

enum step sdma_step(struct cp_queue *q)
{
    bool had_buffer = q->depth;
    enum step s = fetch(q);
    if (s != STEP_NEXT)
        return q->kernel && had_buffer && s == STEP_IDLE ? STEP_NEXT : s;
    s = sdma_execute(q, q->pkt);
    if (s == STEP_WAIT)
        q->waited = true;
    if (s == STEP_NEXT) {
        q->have_pkt = false;
        __atomic_add_fetch(&q->c->packets, 1, __ATOMIC_RELAXED);
    }
    return s;
}
