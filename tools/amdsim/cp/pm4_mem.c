/* Memory as packets see it: checked against the GPU's page tables, with the accesses that hosts poll done whole. */
#include <string.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

enum { MOVE_BYTES_PER_TURN = 4 << 20 };

static bool strict_ok(struct cp_queue *q, gva va, uint64_t bytes, bool write)
{
    char why[240];
    if (!q->strict || cp_strict_access(q, va, bytes, write, why))
        return true;
    cp_stop(q, "%s", why);
    return false;
}

/* 4 or 8 aligned bytes of memory in one access; the other side may lie anywhere. */
static bool whole_load(void *dst, const void *p, uint64_t bytes)
{
    uint64_t v = bytes == 8 ? __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE)
                            : __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
    memcpy(dst, &v, bytes);
    return true;
}

static bool whole_store(void *p, const void *src, uint64_t bytes)
{
    uint64_t v = 0;
    memcpy(&v, src, bytes);
    if (bytes == 8)
        __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)p, (uint32_t)v, __ATOMIC_RELEASE);
    return true;
}

bool cp_mem_read(struct cp_queue *q, gva va, void *dst, uint64_t bytes, const char *what)
{
    gva bad = va;
    if (!strict_ok(q, va, bytes, false))
        return false;
    if ((bytes == 4 || bytes == 8) && va % bytes == 0) {
        const void *p = vm_at(q->d.vm, va, 0);
        if (p)
            return whole_load(dst, p, bytes);
    } else if (vm_read(q->d.vm, va, dst, bytes, &bad)) {
        return true;
    }
    cp_stop_page(q, bad, false, what);
    return false;
}

bool cp_mem_poll(struct cp_queue *q, gva va, void *dst, uint64_t bytes)
{
    const void *p = vm_at(q->d.vm, va, 0);
    if (!p) {
        cp_stop_page(q, va, false, "value");
        return false;
    }
    return whole_load(dst, p, bytes);
}

bool cp_mem_write(struct cp_queue *q, gva va, const void *src, uint64_t bytes, const char *what)
{
    gva bad = va;
    if (!strict_ok(q, va, bytes, true))
        return false;
    if ((bytes == 4 || bytes == 8) && va % bytes == 0) {
        void *p = vm_at(q->d.vm, va, VM_WRITE);
        if (p)
            return whole_store(p, src, bytes);
    } else if (vm_write(q->d.vm, va, src, bytes, &bad)) {
        return true;
    }
    cp_stop_page(q, bad, true, what);
    return false;
}

bool cp_compare(uint32_t function, uint64_t value, uint64_t ref)
{
    switch (function) {
    case 0: return true;
    case 1: return value < ref;
    case 2: return value <= ref;
    case 3: return value == ref;
    case 4: return value != ref;
    case 5: return value >= ref;
    case 6: return value > ref;
    default: return false;
    }
}

/* ---- atomics: TC numbers; + 32: 64 bit, + 64: nothing returned ---- */

enum {
    TC_SWAP = 7, TC_CMPSWAP = 8, TC_ADD = 15, TC_SUB, TC_SMIN, TC_UMIN, TC_SMAX, TC_UMAX, TC_AND, TC_OR, TC_XOR,
    TC_INC, TC_DEC
};

int cp_atomic_bytes(uint32_t op)
{
    uint32_t base = op & 31;
    bool known = base == TC_SWAP || base == TC_CMPSWAP || (base >= TC_ADD && base <= TC_DEC);
    return op > 127 || !known ? 0 : op & 32 ? 8 : 4;
}

static uint64_t tc_apply(uint32_t base, int bytes, uint64_t old, uint64_t src, uint64_t cmp)
{
    int64_t s_old = bytes == 8 ? (int64_t)old : (int32_t)old, s_src = bytes == 8 ? (int64_t)src : (int32_t)src;
    switch (base) {
    case TC_SWAP: return src;
    case TC_CMPSWAP: return old == cmp ? src : old;
    case TC_ADD: return old + src;
    case TC_SUB: return old - src;
    case TC_SMIN: return s_old < s_src ? old : src;
    case TC_UMIN: return old < src ? old : src;
    case TC_SMAX: return s_old > s_src ? old : src;
    case TC_UMAX: return old > src ? old : src;
    case TC_AND: return old & src;
    case TC_OR: return old | src;
    case TC_XOR: return old ^ src;
    case TC_INC: return old >= src ? 0 : old + 1;
    default: return old == 0 || old > src ? src : old - 1; /* TC_DEC */
    }
}

bool cp_mem_atomic(struct cp_queue *q, uint32_t op, gva va, uint64_t src, uint64_t cmp, uint64_t *before)
{
    int bytes = cp_atomic_bytes(op);
    if (va % (unsigned)bytes) {
        cp_stop(q, "address 0x%llx is not a multiple of %d", (unsigned long long)va, bytes);
        return false;
    }
    if (!strict_ok(q, va, (uint64_t)bytes, true))
        return false;
    void *p = vm_at(q->d.vm, va, VM_WRITE);
    if (!p) {
        cp_stop_page(q, va, true, "atomic operation");
        return false;
    }
    if (bytes == 8) {
        uint64_t old = __atomic_load_n((uint64_t *)p, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n((uint64_t *)p, &old, tc_apply(op & 31, 8, old, src, cmp), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
        *before = old;
    } else {
        uint32_t old = __atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n((uint32_t *)p, &old,
                                            (uint32_t)tc_apply(op & 31, 4, old, (uint32_t)src, (uint32_t)cmp), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
        *before = old;
    }
    return true;
}

/* ---- copies and fills ---- */

static uint64_t to_page_end(gva va)
{
    return VM_PAGE - (va & (VM_PAGE - 1));
}

enum step cp_mem_move(struct cp_queue *q, gva dst, const gva *src, uint32_t fill, uint64_t bytes)
{
    uint64_t end = q->pkt_progress + MOVE_BYTES_PER_TURN;
    if (end > bytes)
        end = bytes;
    if (!strict_ok(q, dst + q->pkt_progress, end - q->pkt_progress, true) ||
        (src && !strict_ok(q, *src + q->pkt_progress, end - q->pkt_progress, false)))
        return STEP_DEAD;
    while (q->pkt_progress < end) {
        gva to = dst + q->pkt_progress, from = src ? *src + q->pkt_progress : 0;
        uint64_t n = to_page_end(to), left = end - q->pkt_progress;
        if (src && to_page_end(from) < n)
            n = to_page_end(from);
        if (n > left)
            n = left;
        uint8_t *d = vm_at(q->d.vm, to, VM_WRITE);
        const uint8_t *s = src ? vm_at(q->d.vm, from, 0) : NULL;
        if (src && !s)
            return cp_stop_page(q, from, false, "source");
        if (!d)
            return cp_stop_page(q, to, true, "destination");
        if (s)
            memmove(d, s, n);
        else
            for (uint64_t i = 0; i < n; i++)
                d[i] = (uint8_t)(fill >> (q->pkt_progress + i) % 4 * 8);
        q->pkt_progress += n;
    }
    return q->pkt_progress == bytes ? STEP_NEXT : STEP_PART;
}
