/* Scalar memory: loads into SGPRs through the scalar cache, prefetches. */
#include "tools/amdsim/isa/mem.h"
#include "tools/amdsim/isa/salu.h"
#include "tools/amdsim/isa/strict.h"

#include <string.h>

/* Reads `bytes` from va; false: the wave has a fault. */
static bool read_scalar(struct wave *w, const struct inst *in, gva va, void *dst, uint32_t bytes)
{
    if (!mem_may_load(w, in, ISA_SCALAR, va, bytes, 0))
        return false;
    const void *p = (va & (VM_PAGE - 1)) + bytes <= VM_PAGE ? vm_at(w->g->l->vm, va, VM_VALID) : NULL;
    gva bad = va;
    if (p)
        memcpy(dst, p, bytes);
    else if (!vm_read(w->g->l->vm, va, dst, bytes, &bad)) {
        w->fault.va = bad;
        wave_fault(w, ISA_FAULT_PAGE, "loads 0x%llx, where nothing is mapped (base s%u = 0x%llx)",
                   (unsigned long long)bad, in->srsrc,
                   (unsigned long long)(w->s[in->srsrc] | (uint64_t)w->s[in->srsrc + 1] << 32));
        return false;
    }
    return true;
}

/* Strict launches: what came from dwords that nothing has written, n of them from va on, into the result's registers
 * from `first` on, is not known. */
static void keep_unknown(struct wave *w, const struct inst *in, gva va, uint32_t first, uint32_t n)
{
    const struct isa_watch *watch = w->g->l->watch;
    uint32_t mask = w->strict && watch && watch->unwritten ? watch->unwritten(watch->user, va & ~3ull, n) : 0;
    for (uint32_t i = 0; mask >> i; i++)
        if (mask >> i & 1)
            known_set(w, in->sdst + first + i, (struct unknown){ ~0u, ~0u, w->at });
}

/* The signed offset of the instruction and the SGPR's. */
static uint64_t offset_of(const struct wave *w, const struct inst *in)
{
    return (uint64_t)(int64_t)in->offset + (in->soffset == OPND_NULL ? 0 : s_get(w, in, in->soffset));
}

static bool fits(struct wave *w, const struct inst *in, uint32_t n)
{
    if (in->sdst + n - 1 < OPND_NULL)
        return true;
    wave_fault(w, ISA_FAULT_REGISTER, "loads %u dwords into SGPR code %u: there are not as many", n, in->sdst);
    return false;
}

static void load(struct wave *w, const struct inst *in, uint32_t n)
{
    gva base = w->s[in->srsrc] | (uint64_t)w->s[in->srsrc + 1] << 32;
    uint32_t d[16];
    gva va = (base + offset_of(w, in)) & ~3ull;
    if (fits(w, in, n) && read_scalar(w, in, va, d, n * 4)) {
        memcpy(&w->s[in->sdst], d, n * 4);
        keep_unknown(w, in, va, 0, n);
    }
}

static uint32_t load_small(struct wave *w, const struct inst *in, uint32_t bytes)
{
    gva base = w->s[in->srsrc] | (uint64_t)w->s[in->srsrc + 1] << 32;
    gva va = base + offset_of(w, in);
    uint32_t d = 0;
    if (read_scalar(w, in, va, &d, bytes))
        keep_unknown(w, in, va, 0, 1);
    return d;
}

/* Through a buffer descriptor: what lies beyond its range reads as 0. */
static void buffer_read(struct wave *w, const struct inst *in, uint32_t unit, uint32_t n, uint32_t *d)
{
    const uint32_t *r = &w->s[in->srsrc];
    gva base = (r[0] | (uint64_t)r[1] << 32) & 0xffffffffffff;
    uint64_t stride = r[1] >> 16 & 0x3fff, limit = r[2] * (stride ? stride : 1);
    uint64_t off = offset_of(w, in);
    if (unit == 4)
        off &= ~3ull;
    for (uint32_t i = 0; i < n; i++) {
        d[i] = 0;
        gva va = base + off + i * unit;
        if (off + (i + 1) * unit > limit)
            continue;
        if (!read_scalar(w, in, va, &d[i], unit))
            return;
        keep_unknown(w, in, va, i, 1);
    }
}

static void buffer_load(struct wave *w, const struct inst *in, uint32_t n)
{
    uint32_t d[16];
    if (!fits(w, in, n))
        return;
    buffer_read(w, in, 4, n, d);
    if (w->fault.kind == ISA_FAULT_NONE)
        memcpy(&w->s[in->sdst], d, n * 4);
}

static uint32_t buffer_small(struct wave *w, const struct inst *in, uint32_t bytes)
{
    uint32_t d;
    buffer_read(w, in, bytes, 1, &d);
    return d;
}

#define SET(x) s_set(w, in->sdst, (uint32_t)(x))
#define NOTHING (void)w

#define SMEM_OPS(X)                                                                                                    \
    X(F_SMEM, 0x00, OP_ALL, load_b32, load(w, in, 1))                                                                  \
    X(F_SMEM, 0x01, OP_ALL, load_b64, load(w, in, 2))                                                                  \
    X(F_SMEM, 0x02, OP_ALL, load_b128, load(w, in, 4))                                                                 \
    X(F_SMEM, 0x03, OP_ALL, load_b256, load(w, in, 8))                                                                 \
    X(F_SMEM, 0x04, OP_ALL, load_b512, load(w, in, 16))                                                                \
    X(F_SMEM, 0x05, OP_GFX12, load_b96, load(w, in, 3))                                                                \
    X(F_SMEM, 0x08, OP_GFX12, load_i8, SET((int8_t)load_small(w, in, 1)))                                              \
    X(F_SMEM, 0x09, OP_GFX12, load_u8, SET(load_small(w, in, 1)))                                                      \
    X(F_SMEM, 0x0a, OP_GFX12, load_i16, SET((int16_t)load_small(w, in, 2)))                                            \
    X(F_SMEM, 0x0b, OP_GFX12, load_u16, SET(load_small(w, in, 2)))                                                     \
    X(F_SMEM, 0x10, OP_GFX12, buffer_load_b32, buffer_load(w, in, 1))                                                  \
    X(F_SMEM, 0x11, OP_GFX12, buffer_load_b64, buffer_load(w, in, 2))                                                  \
    X(F_SMEM, 0x12, OP_GFX12, buffer_load_b128, buffer_load(w, in, 4))                                                 \
    X(F_SMEM, 0x13, OP_GFX12, buffer_load_b256, buffer_load(w, in, 8))                                                 \
    X(F_SMEM, 0x14, OP_GFX12, buffer_load_b512, buffer_load(w, in, 16))                                                \
    X(F_SMEM, 0x15, OP_GFX12, buffer_load_b96, buffer_load(w, in, 3))                                                  \
    X(F_SMEM, 0x18, OP_GFX12, buffer_load_i8, SET((int8_t)buffer_small(w, in, 1)))                                     \
    X(F_SMEM, 0x19, OP_GFX12, buffer_load_u8, SET(buffer_small(w, in, 1)))                                             \
    X(F_SMEM, 0x1a, OP_GFX12, buffer_load_i16, SET((int16_t)buffer_small(w, in, 2)))                                   \
    X(F_SMEM, 0x1b, OP_GFX12, buffer_load_u16, SET(buffer_small(w, in, 2)))                                            \
    X(F_SMEM, 0x20, OP_GFX11, gl1_inv, NOTHING)                                                                        \
    X(F_SMEM, 0x21, OP_ALL, dcache_inv, mem_invalidate(w, ISA_SCALAR))                                                                     \
    X(F_SMEM, 0x24, OP_GFX12, prefetch_inst, NOTHING)                                                                  \
    X(F_SMEM, 0x25, OP_GFX12, prefetch_inst_pc_rel, NOTHING)                                                           \
    X(F_SMEM, 0x26, OP_GFX12, prefetch_data, NOTHING)                                                                  \
    X(F_SMEM, 0x27, OP_GFX12, buffer_prefetch_data, NOTHING)                                                           \
    X(F_SMEM, 0x28, OP_GFX12, prefetch_data_pc_rel, NOTHING)

SMEM_OPS(OP_FUNCTION)
static void do_11_buffer_load(struct wave *w, const struct inst *in)
{
    buffer_load(w, in, 1u << (in->op - 8));
}
const struct salu_op smem_ops[] = {
    SMEM_OPS(OP_ENTRY)
    { F_SMEM, OP_GFX11, 0x08, "s_buffer_load_b32", do_11_buffer_load },
    { F_SMEM, OP_GFX11, 0x09, "s_buffer_load_b64", do_11_buffer_load },
    { F_SMEM, OP_GFX11, 0x0a, "s_buffer_load_b128", do_11_buffer_load },
    { F_SMEM, OP_GFX11, 0x0b, "s_buffer_load_b256", do_11_buffer_load },
    { F_SMEM, OP_GFX11, 0x0c, "s_buffer_load_b512", do_11_buffer_load },
    { .run = NULL },
};
