/* Vector loads and stores: FLAT, GLOBAL, SCRATCH, BUFFER. Opcodes: the same numbers in all four; RDNA3 and RDNA4 ISA
 * guides. */
#include "tools/amdsim/isa/mem.h"

#include <stddef.h>
#include <string.h>

/* How memory becomes registers: bytes, sign, and for d16 the half of the register that is written. */
enum half { WHOLE, LOW, HIGH };
enum { MAX_DWORDS = 4 };

/* Host memory of all lanes when their accesses lie in one page that is mapped so; NULL: go lane by lane. va[l] &
 * 0xfff is then the offset in it. */
static inline uint8_t *one_page(const struct wave *w, const struct inst *in, const struct lanes *a, uint32_t bytes,
                                uint32_t need)
{
    if (in->format == F_SCRATCH || w->g->l->watch)
        return NULL;
    gva differ = 0, first = a->va[0];
    for (int l = 0; l < WAVE_LANES; l++)
        differ |= (a->va[l] ^ first) | ((a->va[l] + bytes - 1) ^ first);
    if (differ >> VM_PAGE_SHIFT)
        return NULL;
    return vm_at(w->g->l->vm, first & ~(gva)(VM_PAGE - 1), need);
}

/* A private access at the same offset of all lanes is whole rows of 32 dwords. */
static inline uint8_t *scratch_row(const struct wave *w, const struct lanes *a, uint32_t bytes, uint32_t need)
{
    if (a->active != ~0u || w->g->l->watch || bytes < 4 || (a->va[0] & 3))
        return NULL;
    gva differ = 0, off = a->va[0];
    for (int l = 0; l < WAVE_LANES; l++)
        differ |= a->va[l] ^ off;
    gva va = w->scratch + off * WAVE_LANES, end = va + (uint64_t)bytes * WAVE_LANES;
    if (differ || (off >> 32) || off + bytes > w->scratch_bytes / WAVE_LANES || (va ^ (end - 1)) >> VM_PAGE_SHIFT)
        return NULL;
    return vm_at(w->g->l->vm, va, need);
}

static inline uint32_t extend(uint32_t x, uint32_t bytes, bool sign)
{
    return !sign ? x : bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
}

static inline void put_rows(struct wave *w, const struct inst *in, uint32_t to, uint32_t n,
                            uint32_t rows[][WAVE_LANES], enum half half)
{
    if (to == ~0u && half == WHOLE) {
        memcpy(w->v[in->vdst], rows, n * sizeof rows[0]);
        return;
    }
    for (uint32_t d = 0; d < n; d++) {
        uint32_t *v = w->v[in->vdst + d];
        for (int l = 0; l < WAVE_LANES; l++) {
            uint32_t x = rows[d][l], old = v[l];
            x = half == LOW ? (old & 0xffff0000) | (x & 0xffff) : half == HIGH ? (old & 0xffff) | x << 16 : x;
            v[l] = to >> l & 1 ? x : old;
        }
    }
}

static inline __attribute__((always_inline)) void load(struct wave *w, const struct inst *in, uint32_t bytes,
                                                       bool sign, enum half half)
{
    struct lanes a;
    uint32_t n = (bytes + 3) / 4, rows[MAX_DWORDS][WAVE_LANES];
    mem_lanes(w, in, bytes, &a);
    if (!(a.active | a.zero))
        return;
    const uint8_t *page = a.active ? one_page(w, in, &a, bytes, VM_VALID) : NULL, *row;
    if (page) {
        for (int l = 0; l < WAVE_LANES; l++) {
            uint32_t x[MAX_DWORDS] = { 0 };
            memcpy(x, page + (a.va[l] & (VM_PAGE - 1)), bytes);
            for (uint32_t d = 0; d < n; d++)
                rows[d][l] = extend(x[d], bytes, sign);
        }
    } else if (in->format == F_SCRATCH && (row = scratch_row(w, &a, bytes, VM_VALID))) {
        memcpy(rows, row, sizeof rows[0] * n);
    } else {
        memset(rows, 0, sizeof rows[0] * n);
        for (uint32_t left = a.active; left; left &= left - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(left), x[MAX_DWORDS] = { 0 };
            if (!mem_read(w, in, l, a.va[l], x, bytes))
                return;
            for (uint32_t d = 0; d < n; d++)
                rows[d][l] = extend(x[d], bytes, sign);
        }
    }
    for (uint32_t left = a.zero; left; left &= left - 1)
        for (uint32_t d = 0; d < n; d++)
            rows[d][__builtin_ctz(left)] = 0;
    put_rows(w, in, a.active | a.zero, n, rows, half);
}

static inline __attribute__((always_inline)) void store(struct wave *w, const struct inst *in, uint32_t bytes,
                                                        enum half half)
{
    struct lanes a;
    uint32_t n = (bytes + 3) / 4;
    uint32_t(*v)[WAVE_LANES] = &w->v[in->data];
    mem_lanes(w, in, bytes, &a);
    if (!a.active)
        return;
    w->g->stored = true;
    uint8_t *page = one_page(w, in, &a, bytes, VM_WRITE), *row;
    if (!page && in->format == F_SCRATCH && (row = scratch_row(w, &a, bytes, VM_WRITE))) {
        memcpy(row, v, sizeof v[0] * n);
        return;
    }
    for (uint32_t left = a.active; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left), x[MAX_DWORDS];
        for (uint32_t d = 0; d < n; d++)
            x[d] = half == HIGH ? v[d][l] >> 16 : v[d][l];
        if (page)
            memcpy(page + (a.va[l] & (VM_PAGE - 1)), x, bytes);
        else if (!mem_write(w, in, l, a.va[l], x, bytes))
            return;
    }
}

#define LOADS(X)                                                                                                       \
    X(0x10, load_u8, 1, false, WHOLE)                                                                                  \
    X(0x11, load_i8, 1, true, WHOLE)                                                                                   \
    X(0x12, load_u16, 2, false, WHOLE)                                                                                 \
    X(0x13, load_i16, 2, true, WHOLE)                                                                                  \
    X(0x14, load_b32, 4, false, WHOLE)                                                                                 \
    X(0x15, load_b64, 8, false, WHOLE)                                                                                 \
    X(0x16, load_b96, 12, false, WHOLE)                                                                                \
    X(0x17, load_b128, 16, false, WHOLE)                                                                               \
    X(0x1e, load_d16_u8, 1, false, LOW)                                                                                \
    X(0x1f, load_d16_i8, 1, true, LOW)                                                                                 \
    X(0x20, load_d16_b16, 2, false, LOW)                                                                               \
    X(0x21, load_d16_hi_u8, 1, false, HIGH)                                                                            \
    X(0x22, load_d16_hi_i8, 1, true, HIGH)                                                                             \
    X(0x23, load_d16_hi_b16, 2, false, HIGH)
#define STORES(X)                                                                                                      \
    X(0x18, store_b8, 1, WHOLE)                                                                                        \
    X(0x19, store_b16, 2, WHOLE)                                                                                       \
    X(0x1a, store_b32, 4, WHOLE)                                                                                       \
    X(0x1b, store_b64, 8, WHOLE)                                                                                       \
    X(0x1c, store_b96, 12, WHOLE)                                                                                      \
    X(0x1d, store_b128, 16, WHOLE)                                                                                     \
    X(0x24, store_d16_hi_b8, 1, HIGH)                                                                                  \
    X(0x25, store_d16_hi_b16, 2, HIGH)

#define LOAD_FUNCTION(op, name, bytes, sign, half)                                                                     \
    static void do_##name(struct wave *w, const struct inst *in) { load(w, in, bytes, sign, half); }
#define STORE_FUNCTION(op, name, bytes, half)                                                                          \
    static void do_##name(struct wave *w, const struct inst *in) { store(w, in, bytes, half); }
LOADS(LOAD_FUNCTION)
STORES(STORE_FUNCTION)

/* Cache operations: memory here is coherent for all. */
static void do_cache_op(struct wave *w, const struct inst *in)
{
}

/* Level 0, and by its scope on gfx12 what lies between that and level 2, which gfx11 has buffer_gl1_inv for. */
static void do_invalidate(struct wave *w, const struct inst *in)
{
    enum { SCOPE_DEV = 2 };
    if (!w->chip->gfx12 || in->scope >= SCOPE_DEV)
        mem_invalidate(w, ISA_VECTOR);
}

#define ENTRY(op, name, ...)                                                                                           \
    { op, MEM_ALL, { "flat_" #name, "global_" #name, "scratch_" #name, "buffer_" #name }, do_##name },
static const struct mem_op plain_ops[] = {
    LOADS(ENTRY)
    STORES(ENTRY)
    { 0x28, MEM_ALL, { NULL, "global_load_addtid_b32", NULL, NULL }, do_load_b32 },
    { 0x29, MEM_ALL, { NULL, "global_store_addtid_b32", NULL, NULL }, do_store_b32 },
    { 0x2b, MEM_GFX11, { NULL, NULL, NULL, "buffer_gl0_inv" }, do_cache_op },
    { 0x2c, MEM_GFX11, { NULL, NULL, NULL, "buffer_gl1_inv" }, do_invalidate },
    { 0x2b, MEM_GFX12, { NULL, "global_inv", NULL, NULL }, do_invalidate },
    { 0x2c, MEM_GFX12, { NULL, "global_wb", NULL, NULL }, do_cache_op },
    { 0x4f, MEM_GFX12, { NULL, "global_wbinv", NULL, NULL }, do_cache_op },
    { .run = NULL },
};

inst_fn *mem_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name)
{
    static const struct mem_op *const tables[] = { plain_ops, atomic_ops };
    if (f == F_DS)
        return lds_find(c, op, name);
    uint32_t column = f == F_FLAT ? 0 : f == F_GLOBAL ? 1 : f == F_SCRATCH ? 2 : 3;
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mem_op *o = tables[i]; o->run; o++) {
            bool here = o->chips == MEM_ALL || (o->chips == MEM_GFX12) == c->gfx12;
            if (o->op == op && here && o->name[column]) {
                *name = o->name[column];
                return o->run;
            }
        }
    return NULL;
}
