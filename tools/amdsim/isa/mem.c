/* Addresses of FLAT, GLOBAL, SCRATCH and BUFFER instructions, and the way of one lane to memory. Forms of addressing:
 * RDNA3 and RDNA4 ISA guides, "Flat Memory Instructions", "Vector Memory Buffer Instructions". */
#include "tools/amdsim/isa/mem.h"

#include <stdio.h>
#include <string.h>

static inline uint64_t sgpr64(const struct wave *w, uint32_t code)
{
    return w->s[code] | (uint64_t)w->s[code + 1] << 32;
}

static void lanes_global(const struct wave *w, const struct inst *in, struct lanes *a)
{
    const uint32_t *lo = w->v[in->addr], *hi = w->v[in->addr + 1];
    uint64_t offset = (uint64_t)(int64_t)in->offset;
    if (in->saddr == OPND_NULL) {
        for (int l = 0; l < WAVE_LANES; l++)
            a->va[l] = (lo[l] | (uint64_t)hi[l] << 32) + offset;
    } else {
        uint64_t base = sgpr64(w, in->saddr) + offset;
        for (int l = 0; l < WAVE_LANES; l++)
            a->va[l] = base + lo[l];
    }
}

/* Also the addresses of *_addtid: a dword per lane behind a scalar base. */
static void lanes_addtid(const struct wave *w, const struct inst *in, struct lanes *a)
{
    uint64_t base = (in->saddr == OPND_NULL ? 0 : sgpr64(w, in->saddr)) + (uint64_t)(int64_t)in->offset;
    for (uint32_t l = 0; l < WAVE_LANES; l++)
        a->va[l] = base + l * 4;
}

static void lanes_scratch(const struct wave *w, const struct inst *in, struct lanes *a)
{
    uint32_t base = (in->saddr == OPND_NULL ? 0 : w->s[in->saddr]) + (uint32_t)in->offset;
    const uint32_t *v = w->v[in->addr];
    for (int l = 0; l < WAVE_LANES; l++)
        a->va[l] = base + (in->sve ? v[l] : 0);
}

/* The buffer descriptor's four dwords. */
struct buffer {
    gva base;
    uint64_t stride, records;
    uint32_t swizzle, index_stride, check;
    bool add_tid;
};
static struct buffer buffer_of(const struct wave *w, const struct inst *in)
{
    const uint32_t *r = &w->s[in->srsrc];
    return (struct buffer){
        .base = (r[0] | (uint64_t)r[1] << 32) & 0xffffffffffff,
        .stride = r[1] >> 16 & 0x3fff,
        .records = r[2],
        .swizzle = r[1] >> 30,
        .index_stride = 8u << (r[3] >> 21 & 3),
        .add_tid = r[3] >> 23 & 1,
        .check = r[3] >> 28 & 3,
    };
}

/* OOB_SELECT: 0 structured, index and offset; 1 structured, index; 2 nothing but an empty buffer; 3 raw bytes. */
static bool buffer_out_of_range(const struct buffer *b, uint64_t index, uint64_t off, uint64_t soffset,
                                uint32_t bytes)
{
    switch (b->check) {
    case 0: return index >= b->records || (b->stride && off + bytes > b->stride);
    case 1: return index >= b->records;
    case 2: return b->records == 0;
    }
    return off + index * b->stride + soffset + bytes > b->records;
}

static void lanes_buffer(const struct wave *w, const struct inst *in, uint32_t bytes, struct lanes *a)
{
    struct buffer b = buffer_of(w, in);
    uint64_t soffset = s_get(w, in, in->soffset);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        uint64_t index = (in->idxen ? w->v[in->addr][l] : 0) + (b.add_tid ? l : 0);
        uint64_t off = (uint64_t)(uint32_t)in->offset + (in->offen ? w->v[in->addr + (in->idxen ? 1 : 0)][l] : 0);
        uint64_t at = index * b.stride + off;
        if (b.swizzle) {
            uint64_t e = 2ull << b.swizzle, n = b.index_stride; /* bytes of an element, indices side by side */
            at = index / n * n * b.stride + off / e * e * n + index % n * e + off % e;
        }
        a->va[l] = b.base + soffset + at;
        if (buffer_out_of_range(&b, index, off, soffset, bytes))
            a->zero |= 1u << l;
    }
    a->zero &= a->active;
    a->active &= ~a->zero;
}

enum { OP_LOAD_ADDTID = 0x28, OP_STORE_ADDTID = 0x29 };

void mem_lanes(struct wave *w, const struct inst *in, uint32_t bytes, struct lanes *a)
{
    a->active = wave_exec(w);
    a->zero = 0;
    if (!a->active)
        return;
    if (in->format == F_SCRATCH)
        lanes_scratch(w, in, a);
    else if (in->format == F_BUFFER)
        lanes_buffer(w, in, bytes, a);
    else if (in->op == OP_LOAD_ADDTID || in->op == OP_STORE_ADDTID)
        lanes_addtid(w, in, a);
    else
        lanes_global(w, in, a);
    if (a->active == ~0u || !a->active)
        return;
    gva some = a->va[__builtin_ctz(a->active)];
    for (int l = 0; l < WAVE_LANES; l++)
        a->va[l] = a->active >> l & 1 ? a->va[l] : some;
}

bool mem_ask(struct wave *w, bool store, enum isa_path path, gva va, uint32_t bytes, bool bypass, uint32_t lane)
{
    const struct isa_watch *watch = w->g->l->watch;
    bool (*ask)(void *, enum isa_path, uint32_t, gva, uint32_t, bool, char *) = store ? watch->store : watch->load;
    const uint32_t *id = w->g->id, *grid = w->g->l->groups;
    char why[160] = "";
    if (!ask || ask(watch->user, path, id[0] + grid[0] * (id[1] + grid[1] * id[2]), va, bytes, bypass, why))
        return true;
    w->fault.va = va;
    w->fault.write = store;
    w->fault.lane = lane;
    wave_fault(w, ISA_FAULT_STRICT, "lane %u, 0x%llx: %s", lane, (unsigned long long)va, why);
    return false;
}

void mem_invalidate(struct wave *w, enum isa_path path)
{
    const struct isa_watch *watch = w->g->l->watch;
    if (watch && watch->invalidate)
        watch->invalidate(watch->user, path);
}

static void page_fault(struct wave *w, const struct inst *in, uint32_t lane, gva va, bool write)
{
    char from[80] = "";
    bool there = vm_entry(w->g->l->vm, va) & VM_VALID;
    if (in->format == F_BUFFER)
        snprintf(from, sizeof from, "buffer s[%u:%u]", in->srsrc, in->srsrc + 3);
    else if (in->saddr != OPND_NULL && in->format != F_SCRATCH)
        snprintf(from, sizeof from, "s[%u:%u] 0x%llx + v%u 0x%x", in->saddr, in->saddr + 1,
                 (unsigned long long)sgpr64(w, in->saddr), in->addr, w->v[in->addr][lane]);
    else
        snprintf(from, sizeof from, "v%u%s", in->addr, in->format == F_SCRATCH ? ", scratch" : " and the next");
    w->fault.va = va;
    w->fault.write = write;
    w->fault.lane = lane;
    wave_fault(w, ISA_FAULT_PAGE, "lane %u %s 0x%llx (%s), where %s", lane, write ? "stores to" : "loads",
               (unsigned long long)va, from, there ? "it is not allowed to" : "nothing is mapped");
}

/* The address of a lane's private byte: dwords of the 32 lanes lie side by side. */
static bool swizzled(struct wave *w, uint32_t lane, gva off, uint32_t bytes, bool write, gva *va)
{
    off &= 0xffffffff;
    if (off + bytes <= w->scratch_bytes / WAVE_LANES) {
        *va = w->scratch + (off & ~3ull) * WAVE_LANES + lane * 4 + (off & 3);
        return true;
    }
    w->fault.write = write;
    w->fault.lane = lane;
    if (!w->scratch_bytes)
        wave_fault(w, ISA_FAULT_REGISTER, "the wave has no scratch: SCRATCH_EN of RSRC2 is 0, or TMPRING_SIZE has no "
                   "slot for it");
    else
        wave_fault(w, ISA_FAULT_REGISTER, "scratch offset 0x%llx of lane %u: the wave has 0x%llx bytes per lane",
                   (unsigned long long)off, lane, (unsigned long long)(w->scratch_bytes / WAVE_LANES));
    return false;
}

static bool copy_global(struct wave *w, const struct inst *in, uint32_t lane, gva va, void *p, uint32_t bytes,
                        bool write)
{
    const struct vm *vm = w->g->l->vm;
    gva bad = va;
    bool ok = write ? mem_may_store(w, in, va, bytes, lane) : mem_may_load(w, in, ISA_VECTOR, va, bytes, lane);
    if (!ok)
        return false;
    void *at = (va & (VM_PAGE - 1)) + bytes <= VM_PAGE ? vm_at(vm, va, write ? VM_WRITE : 0) : NULL;
    if (at) {
        memcpy(write ? at : p, write ? p : at, bytes);
        return true;
    }
    if (write ? vm_write(vm, va, p, bytes, &bad) : vm_read(vm, va, p, bytes, &bad))
        return true;
    page_fault(w, in, lane, bad, write);
    return false;
}

static bool copy_scratch(struct wave *w, const struct inst *in, uint32_t lane, gva off, uint8_t *p, uint32_t bytes,
                         bool write)
{
    while (bytes) {
        uint32_t n = 4 - (off & 3);
        gva va;
        n = n < bytes ? n : bytes;
        if (!swizzled(w, lane, off, n, write, &va) || !copy_global(w, in, lane, va, p, n, write))
            return false;
        off += n;
        p += n;
        bytes -= n;
    }
    return true;
}

static bool copy_lds(struct wave *w, uint32_t lane, gva at, void *p, uint32_t bytes, bool write)
{
    at &= 0xffffffff;
    if (!lds_in_range(w, lane, at, bytes)) {
        if (!write)
            memset(p, 0, bytes);
        return w->fault.kind == ISA_FAULT_NONE;
    }
    memcpy(write ? w->g->lds + at : p, write ? p : w->g->lds + at, bytes);
    if (write && w->g->lds_written)
        memset(w->g->lds_written + at, 1, bytes);
    return true;
}

static bool copy(struct wave *w, const struct inst *in, uint32_t lane, gva va, void *p, uint32_t bytes, bool write)
{
    if (in->format == F_SCRATCH || (in->format == F_FLAT && va >> 48 == APERTURE_SCRATCH))
        return copy_scratch(w, in, lane, va, p, bytes, write);
    if (in->format == F_FLAT && va >> 48 == APERTURE_LDS)
        return copy_lds(w, lane, va, p, bytes, write);
    return copy_global(w, in, lane, va, p, bytes, write);
}

bool mem_read(struct wave *w, const struct inst *in, uint32_t lane, gva va, void *dst, uint32_t bytes)
{
    return copy(w, in, lane, va, dst, bytes, false);
}

bool mem_write(struct wave *w, const struct inst *in, uint32_t lane, gva va, const void *src, uint32_t bytes)
{
    return copy(w, in, lane, va, (void *)(uintptr_t)src, bytes, true);
}

void *mem_word(struct wave *w, const struct inst *in, uint32_t lane, gva va, uint32_t bytes)
{
    bool flat = in->format == F_FLAT;
    if (va & (bytes - 1)) {
        w->fault.va = va;
        w->fault.lane = lane;
        wave_fault(w, ISA_FAULT_PAGE, "atomic at 0x%llx of lane %u, which is not a multiple of %u",
                   (unsigned long long)va, lane, bytes);
        return NULL;
    }
    if (flat && va >> 48 == APERTURE_LDS) {
        va &= 0xffffffff;
        if (!lds_in_range(w, lane, va, bytes))
            return NULL;
        if (w->g->lds_written)
            memset(w->g->lds_written + va, 1, bytes);
        return w->g->lds + va;
    }
    if (flat && va >> 48 == APERTURE_SCRATCH && !swizzled(w, lane, va, bytes, true, &va))
        return NULL;
    if (!mem_may_store(w, in, va, bytes, lane))
        return NULL;
    void *p = vm_at(w->g->l->vm, va, VM_WRITE);
    if (!p)
        page_fault(w, in, lane, va, true);
    return p;
}
