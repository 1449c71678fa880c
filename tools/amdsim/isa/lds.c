/* Local memory and the exchanges between lanes that go through its hardware (DS). Opcodes and meanings: RDNA3 and
 * RDNA4 ISA guides, "Data Share". A work-group runs on one thread: its atomics need nothing special. */
#include "tools/amdsim/isa/atomic.h"
#include "tools/amdsim/isa/mem.h"

#include <stddef.h>
#include <string.h>

enum half { WHOLE, LOW, HIGH };

bool lds_in_range(struct wave *w, uint32_t lane, uint64_t at, uint32_t bytes)
{
    if (at + bytes <= w->g->lds_bytes)
        return true;
    if (w->g->l->strict) {
        w->fault.lane = lane;
        wave_fault(w, ISA_FAULT_STRICT, "lane %u: LDS address 0x%llx, the work-group has %u bytes (RSRC2.LDS_SIZE)",
                   lane, (unsigned long long)at, w->g->lds_bytes);
    }
    return false;
}

/* Addresses of all lanes. Returns the lanes that are active and in range; those out of range have their address
 * set to 0. Strict launches fault on them, and when an atomic changes bytes that were never written. */
static inline uint32_t addresses(struct wave *w, const struct inst *in, uint32_t off, uint32_t bytes, bool changes,
                                 uint32_t at[WAVE_LANES])
{
    const uint32_t *v = w->v[in->addr], exec = wave_exec(w), size = w->g->lds_bytes;
    uint32_t ok = 0;
    if (in->gds) {
        wave_fault(w, ISA_FAULT_ILLEGAL, "global data share is not there");
        return 0;
    }
    for (int l = 0; l < WAVE_LANES; l++)
        at[l] = v[l] + off;
    for (int l = 0; l < WAVE_LANES; l++)
        ok |= (uint32_t)(size >= bytes && at[l] <= size - bytes) << l;
    ok &= exec;
    if (ok != ~0u)
        for (int l = 0; l < WAVE_LANES; l++)
            at[l] = ok >> l & 1 ? at[l] : 0;
    if (__builtin_expect(w->g->lds_written == NULL, 1))
        return ok;
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        if (exec >> l & 1 && !(ok >> l & 1)) {
            lds_in_range(w, l, (uint64_t)v[l] + off, bytes);
        } else if (ok >> l & 1 && changes && memchr(w->g->lds_written + at[l], 0, bytes)) {
            w->fault.lane = l;
            wave_fault(w, ISA_FAULT_STRICT, "lane %u changes LDS at 0x%x, where nothing was stored", l, at[l]);
        }
    }
    return w->fault.kind == ISA_FAULT_NONE ? ok : 0;
}

static inline uint32_t extend(uint32_t x, uint32_t bytes, bool sign)
{
    return !sign ? x : bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
}

static inline void put_row(struct wave *w, uint32_t reg, const uint32_t x[WAVE_LANES], enum half half)
{
    uint32_t *v = w->v[reg], exec = wave_exec(w);
    if (exec == ~0u && half == WHOLE) {
        memcpy(v, x, sizeof w->v[0]);
        return;
    }
    for (int l = 0; l < WAVE_LANES; l++) {
        uint32_t d = half == LOW    ? (v[l] & 0xffff0000) | (x[l] & 0xffff)
                     : half == HIGH ? (v[l] & 0xffff) | x[l] << 16
                                    : x[l];
        v[l] = exec >> l & 1 ? d : v[l];
    }
}

/* Strict launches: what of the registers from reg on is as never written as the bytes that they are loaded from. */
static inline void lanes_loaded(struct wave *w, const uint32_t at[WAVE_LANES], uint32_t ok, uint32_t bytes,
                                uint32_t reg)
{
    if (__builtin_expect(w->strict != NULL, 0))
        for (uint32_t left = ok; left; left &= left - 1)
            strict_lds_load(w, (uint32_t)__builtin_ctz(left), at[__builtin_ctz(left)], bytes, reg);
}

static inline void get_rows(struct wave *w, const uint32_t at[WAVE_LANES], uint32_t ok, uint32_t bytes, bool sign,
                            uint32_t rows[][WAVE_LANES])
{
    const uint8_t *lds = w->g->lds;
    uint32_t n = (bytes + 3) / 4;
    for (int l = 0; l < WAVE_LANES; l++) {
        uint32_t x[4] = { 0 };
        memcpy(x, lds + at[l], bytes);
        for (uint32_t d = 0; d < n; d++)
            rows[d][l] = extend(x[d], bytes, sign);
    }
    if (ok != ~0u)
        for (uint32_t d = 0; d < n; d++)
            for (int l = 0; l < WAVE_LANES; l++)
                rows[d][l] = ok >> l & 1 ? rows[d][l] : 0;
}

static inline void put_lds(struct wave *w, const uint32_t at[WAVE_LANES], uint32_t ok, uint32_t reg, uint32_t bytes,
                           enum half half)
{
    uint8_t *lds = w->g->lds;
    uint32_t n = (bytes + 3) / 4;
    for (int l = 0; l < WAVE_LANES; l++) {
        uint32_t x[4];
        for (uint32_t d = 0; d < n; d++)
            x[d] = half == HIGH ? w->v[reg + d][l] >> 16 : w->v[reg + d][l];
        if (!(ok >> l & 1))
            continue;
        memcpy(lds + at[l], x, bytes);
        if (__builtin_expect(w->strict != NULL, 0))
            strict_lds_store(w, (uint32_t)l, at[l], bytes, reg, half == HIGH);
    }
}

static inline __attribute__((always_inline)) void load(struct wave *w, const struct inst *in, uint32_t bytes,
                                                       bool sign, enum half half)
{
    uint32_t at[WAVE_LANES], rows[4][WAVE_LANES];
    uint32_t ok = addresses(w, in, (uint32_t)in->offset, bytes, false, at);
    if (w->fault.kind != ISA_FAULT_NONE)
        return;
    get_rows(w, at, ok, bytes, sign, rows);
    lanes_loaded(w, at, ok, bytes, in->vdst);
    for (uint32_t d = 0; d < (bytes + 3) / 4; d++)
        put_row(w, in->vdst + d, rows[d], half);
}

static inline __attribute__((always_inline)) void store(struct wave *w, const struct inst *in, uint32_t bytes,
                                                        enum half half)
{
    uint32_t at[WAVE_LANES];
    put_lds(w, at, addresses(w, in, (uint32_t)in->offset, bytes, false, at), in->data, bytes, half);
}

/* Two accesses of `bytes` with offsets in units of that, or of 64 of that. */
static inline uint32_t offset_of(const struct inst *in, int which, uint32_t unit)
{
    return ((uint32_t)in->offset >> (8 * which) & 255) * unit;
}
static inline void load_2(struct wave *w, const struct inst *in, uint32_t bytes, uint32_t unit)
{
    uint32_t at[WAVE_LANES], rows[4][WAVE_LANES], n = bytes / 4;
    for (int i = 0; i < 2; i++) {
        uint32_t ok = addresses(w, in, offset_of(in, i, unit), bytes, false, at);
        if (w->fault.kind != ISA_FAULT_NONE)
            return;
        get_rows(w, at, ok, bytes, false, &rows[(uint32_t)i * n]);
        lanes_loaded(w, at, ok, bytes, in->vdst + (uint32_t)i * n);
    }
    for (uint32_t d = 0; d < 2 * n; d++)
        put_row(w, in->vdst + d, rows[d], WHOLE);
}
static inline void store_2(struct wave *w, const struct inst *in, uint32_t bytes, uint32_t unit)
{
    uint32_t at[WAVE_LANES];
    for (int i = 0; i < 2; i++)
        put_lds(w, at, addresses(w, in, offset_of(in, i, unit), bytes, false, at), i ? in->data1 : in->data, bytes,
                WHOLE);
}

static uint64_t value(const struct wave *w, uint32_t reg, uint32_t lane, uint32_t bytes)
{
    return w->v[reg][lane] | (bytes == 8 ? (uint64_t)w->v[reg + 1][lane] << 32 : 0);
}

/* Lane after lane. The values before go to vdst when rtn. */
static inline void atomic(struct wave *w, const struct inst *in, enum atomic_kind k, uint32_t bytes, bool rtn)
{
    uint32_t at[WAVE_LANES], before[2][WAVE_LANES] = { { 0 } };
    uint32_t ok = addresses(w, in, (uint32_t)in->offset, bytes, true, at);
    for (uint32_t left = ok; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        uint64_t old = 0;
        memcpy(&old, w->g->lds + at[l], bytes);
        uint64_t new = atomic_result(k, bytes, old, value(w, in->data, l, bytes), value(w, in->data1, l, bytes));
        memcpy(w->g->lds + at[l], &new, bytes);
        before[0][l] = (uint32_t)old;
        before[1][l] = (uint32_t)(old >> 32);
    }
    if (rtn && w->fault.kind == ISA_FAULT_NONE)
        for (uint32_t d = 0; d < bytes / 4; d++)
            put_row(w, in->vdst + d, before[d], WHOLE);
}

/* Swaps at two addresses. */
static inline void exchange_2(struct wave *w, const struct inst *in, uint32_t bytes, uint32_t unit)
{
    uint32_t at[WAVE_LANES], rows[4][WAVE_LANES], n = bytes / 4;
    for (int i = 0; i < 2; i++) {
        uint32_t ok = addresses(w, in, offset_of(in, i, unit), bytes, true, at);
        if (w->fault.kind != ISA_FAULT_NONE)
            return;
        get_rows(w, at, ok, bytes, false, &rows[(uint32_t)i * n]);
        put_lds(w, at, ok, i ? in->data1 : in->data, bytes, WHOLE);
    }
    for (uint32_t d = 0; d < 2 * n; d++)
        put_row(w, in->vdst + d, rows[d], WHOLE);
}

/* Each half of the 64 bits is stored where the data's bit 31 (63) says so, without that bit. */
static void do_condxchg(struct wave *w, const struct inst *in)
{
    uint32_t at[WAVE_LANES], rows[2][WAVE_LANES] = { { 0 } };
    uint32_t ok = addresses(w, in, (uint32_t)in->offset, 8, true, at);
    if (w->fault.kind != ISA_FAULT_NONE)
        return;
    for (uint32_t left = ok; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left), x[2];
        memcpy(x, w->g->lds + at[l], 8);
        for (uint32_t d = 0; d < 2; d++) {
            uint32_t data = w->v[in->data + d][l];
            rows[d][l] = x[d];
            x[d] = data >> 31 ? data & 0x7fffffff : x[d];
        }
        memcpy(w->g->lds + at[l], x, 8);
    }
    put_row(w, in->vdst, rows[0], WHOLE);
    put_row(w, in->vdst + 1, rows[1], WHOLE);
}

/* ds_append, ds_consume: one counter in LDS for the wave, moved by its active lanes; M0 has the address. */
static void count_lanes(struct wave *w, const struct inst *in, bool up)
{
    uint32_t at = (w->s[OPND_M0] & 0xffff) + (uint32_t)in->offset, n = (uint32_t)__builtin_popcount(wave_exec(w));
    uint32_t old = 0, row[WAVE_LANES];
    if (lds_in_range(w, 0, at, 4)) {
        memcpy(&old, w->g->lds + at, 4);
        uint32_t new = up ? old + n : old - n;
        memcpy(w->g->lds + at, &new, 4);
    }
    for (int l = 0; l < WAVE_LANES; l++)
        row[l] = old;
    put_row(w, in->vdst, row, WHOLE);
}

/* A dword per lane behind M0. */
static void do_load_addtid(struct wave *w, const struct inst *in)
{
    uint32_t base = (w->s[OPND_M0] & 0xffff) + (uint32_t)in->offset, row[WAVE_LANES] = { 0 };
    for (uint32_t l = 0; l < WAVE_LANES; l++)
        if (wave_exec(w) >> l & 1 && lds_in_range(w, l, base + l * 4, 4))
            memcpy(&row[l], w->g->lds + base + l * 4, 4);
    put_row(w, in->vdst, row, WHOLE);
    for (uint32_t l = 0; l < WAVE_LANES && w->strict; l++)
        if (wave_exec(w) >> l & 1 && base + l * 4 + 4 <= w->g->lds_bytes)
            strict_lds_load(w, l, base + l * 4, 4, in->vdst);
}
static void do_store_addtid(struct wave *w, const struct inst *in)
{
    uint32_t base = (w->s[OPND_M0] & 0xffff) + (uint32_t)in->offset;
    for (uint32_t l = 0; l < WAVE_LANES; l++)
        if (wave_exec(w) >> l & 1 && lds_in_range(w, l, base + l * 4, 4)) {
            memcpy(w->g->lds + base + l * 4, &w->v[in->data][l], 4);
            if (w->strict)
                strict_lds_store(w, l, base + l * 4, 4, in->data, false);
        }
}

/* ---- exchanges between lanes; no memory takes part ---- */

/* Lane l gets the value of lane from[l], a 0 where that is negative. */
static void exchange(struct wave *w, const struct inst *in, uint32_t data, const int8_t from[WAVE_LANES])
{
    uint32_t row[WAVE_LANES];
    for (int l = 0; l < WAVE_LANES; l++)
        row[l] = from[l] < 0 ? 0 : w->v[data][from[l]];
    if (__builtin_expect(w->strict != NULL, 0))
        strict_exchange(w, data, in->addr, from, in->vdst);
    put_row(w, in->vdst, row, WHOLE);
}

/* Each lane reads the data of lane addr / 4. An inactive one gives 0 unless fi. */
static inline void bpermute(struct wave *w, const struct inst *in, bool fi)
{
    uint32_t readable = fi ? ~0u : wave_exec(w);
    const uint32_t *addr = w->v[in->addr];
    int8_t from[WAVE_LANES];
    for (int l = 0; l < WAVE_LANES; l++) {
        uint32_t src = (addr[l] + (uint32_t)in->offset) >> 2 & 31;
        from[l] = (int8_t)(readable >> src & 1 ? (int)src : -1);
    }
    exchange(w, in, in->data, from);
}

/* Each active lane sends its data to lane addr / 4; of several the last one wins. */
static void do_permute(struct wave *w, const struct inst *in)
{
    int8_t from[WAVE_LANES];
    memset(from, -1, sizeof from);
    for (uint32_t left = wave_exec(w); left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        from[(w->v[in->addr][l] + (uint32_t)in->offset) >> 2 & 31] = (int8_t)l;
    }
    exchange(w, in, in->data, from);
}

static uint32_t reverse5(uint32_t x)
{
    return (x & 1) << 4 | (x & 2) << 2 | (x & 4) | (x >> 2 & 2) | (x >> 4 & 1);
}

/* The lane that lane l reads, by the pattern in the offset. */
static uint32_t swizzle_source(uint32_t pattern, uint32_t l)
{
    uint32_t and = pattern & 31, or = pattern >> 5 & 31, xor = pattern >> 10 & 31;
    if (pattern >= 0xe000) /* bit-reversed order, for FFTs */
        return reverse5(l) >> __builtin_popcount(and) | (l & and);
    if (pattern >= 0xc000) { /* rotation within the lanes that the mask leaves */
        uint32_t by = pattern >> 10 & 1 ? 0u - or : or;
        return (l & and) | ((l + by) & ~and & 31);
    }
    if (pattern & 0x8000) /* any permutation of each four lanes */
        return (l & ~3u) | (pattern >> (l & 3) * 2 & 3);
    return ((l & and) | or) ^ xor;
}

static void do_swizzle(struct wave *w, const struct inst *in)
{
    uint32_t exec = wave_exec(w);
    int8_t from[WAVE_LANES];
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        uint32_t src = swizzle_source((uint32_t)in->offset & 0xffff, l);
        from[l] = (int8_t)(exec >> src & 1 ? (int)src : -1);
    }
    exchange(w, in, in->addr, from);
}

static void do_nop(struct wave *w, const struct inst *in)
{
}

/* ---- tables ---- */

/* op, chips, name, what it does. The form that returns the value before has its own opcode, 0x20 higher or as
 * given. */
#define ATOMICS(X)                                                                                                     \
    X(0x00, 0x20, MEM_ALL, add, u32, A_ADD, 4)                                                                         \
    X(0x01, 0x21, MEM_ALL, sub, u32, A_SUB, 4)                                                                         \
    X(0x02, 0x22, MEM_ALL, rsub, u32, A_RSUB, 4)                                                                       \
    X(0x03, 0x23, MEM_ALL, inc, u32, A_INC, 4)                                                                         \
    X(0x04, 0x24, MEM_ALL, dec, u32, A_DEC, 4)                                                                         \
    X(0x05, 0x25, MEM_ALL, min, i32, A_MIN_I, 4)                                                                       \
    X(0x06, 0x26, MEM_ALL, max, i32, A_MAX_I, 4)                                                                       \
    X(0x07, 0x27, MEM_ALL, min, u32, A_MIN_U, 4)                                                                       \
    X(0x08, 0x28, MEM_ALL, max, u32, A_MAX_U, 4)                                                                       \
    X(0x09, 0x29, MEM_ALL, and, b32, A_AND, 4)                                                                         \
    X(0x0a, 0x2a, MEM_ALL, or, b32, A_OR, 4)                                                                           \
    X(0x0b, 0x2b, MEM_ALL, xor, b32, A_XOR, 4)                                                                         \
    X(0x0c, 0x2c, MEM_ALL, mskor, b32, A_MASK_OR, 4)                                                                   \
    X(0x10, 0x30, MEM_ALL, cmpstore, b32, A_CMPSWAP, 4)                                                                \
    X(0x11, 0x31, MEM_GFX11, cmpstore, f32, A_CMPSWAP_F, 4)                                                            \
    X(0x12, 0x32, MEM_GFX11, min, f32, A_MIN_F, 4)                                                                     \
    X(0x13, 0x33, MEM_GFX11, max, f32, A_MAX_F, 4)                                                                     \
    X(0x12, 0x32, MEM_GFX12, min_num, f32, A_MIN_F, 4)                                                                 \
    X(0x13, 0x33, MEM_GFX12, max_num, f32, A_MAX_F, 4)                                                                 \
    X(0x15, 0x79, MEM_ALL, add, f32, A_ADD_F, 4)                                                                       \
    X(0x40, 0x60, MEM_ALL, add, u64, A_ADD, 8)                                                                         \
    X(0x41, 0x61, MEM_ALL, sub, u64, A_SUB, 8)                                                                         \
    X(0x42, 0x62, MEM_ALL, rsub, u64, A_RSUB, 8)                                                                       \
    X(0x43, 0x63, MEM_ALL, inc, u64, A_INC, 8)                                                                         \
    X(0x44, 0x64, MEM_ALL, dec, u64, A_DEC, 8)                                                                         \
    X(0x45, 0x65, MEM_ALL, min, i64, A_MIN_I, 8)                                                                       \
    X(0x46, 0x66, MEM_ALL, max, i64, A_MAX_I, 8)                                                                       \
    X(0x47, 0x67, MEM_ALL, min, u64, A_MIN_U, 8)                                                                       \
    X(0x48, 0x68, MEM_ALL, max, u64, A_MAX_U, 8)                                                                       \
    X(0x49, 0x69, MEM_ALL, and, b64, A_AND, 8)                                                                         \
    X(0x4a, 0x6a, MEM_ALL, or, b64, A_OR, 8)                                                                           \
    X(0x4b, 0x6b, MEM_ALL, xor, b64, A_XOR, 8)                                                                         \
    X(0x4c, 0x6c, MEM_ALL, mskor, b64, A_MASK_OR, 8)                                                                   \
    X(0x50, 0x70, MEM_ALL, cmpstore, b64, A_CMPSWAP, 8)                                                                \
    X(0x51, 0x71, MEM_GFX11, cmpstore, f64, A_CMPSWAP_F, 8)                                                            \
    X(0x52, 0x72, MEM_GFX11, min, f64, A_MIN_F, 8)                                                                     \
    X(0x53, 0x73, MEM_GFX11, max, f64, A_MAX_F, 8)                                                                     \
    X(0x52, 0x72, MEM_GFX12, min_num, f64, A_MIN_F, 8)                                                                 \
    X(0x53, 0x73, MEM_GFX12, max_num, f64, A_MAX_F, 8)                                                                 \
    X(0x98, 0xa8, MEM_GFX12, cond_sub, u32, A_COND_SUB, 4)                                                             \
    X(0x99, 0xa9, MEM_GFX12, sub_clamp, u32, A_SUB_CLAMP, 4)                                                           \
    X(0x9a, 0xaa, MEM_GFX12, pk_add, f16, A_PK_ADD_F16, 4)                                                             \
    X(0x9b, 0xab, MEM_GFX12, pk_add, bf16, A_PK_ADD_BF16, 4)

#define OTHERS(X)                                                                                                      \
    X(0x0d, MEM_ALL, store_b32, store(w, in, 4, WHOLE))                                                                \
    X(0x0e, MEM_ALL, store_2addr_b32, store_2(w, in, 4, 4))                                                            \
    X(0x0f, MEM_ALL, store_2addr_stride64_b32, store_2(w, in, 4, 256))                                                 \
    X(0x14, MEM_ALL, nop, do_nop(w, in))                                                                               \
    X(0x1e, MEM_ALL, store_b8, store(w, in, 1, WHOLE))                                                                 \
    X(0x1f, MEM_ALL, store_b16, store(w, in, 2, WHOLE))                                                                \
    X(0x2d, MEM_ALL, storexchg_rtn_b32, atomic(w, in, A_SWAP, 4, true))                                                \
    X(0x2e, MEM_ALL, storexchg_2addr_rtn_b32, exchange_2(w, in, 4, 4))                                                 \
    X(0x2f, MEM_ALL, storexchg_2addr_stride64_rtn_b32, exchange_2(w, in, 4, 256))                                      \
    X(0x34, MEM_GFX11, wrap_rtn_b32, atomic(w, in, A_WRAP, 4, true))                                                   \
    X(0x35, MEM_ALL, swizzle_b32, do_swizzle(w, in))                                                                   \
    X(0x36, MEM_ALL, load_b32, load(w, in, 4, false, WHOLE))                                                           \
    X(0x37, MEM_ALL, load_2addr_b32, load_2(w, in, 4, 4))                                                              \
    X(0x38, MEM_ALL, load_2addr_stride64_b32, load_2(w, in, 4, 256))                                                   \
    X(0x39, MEM_ALL, load_i8, load(w, in, 1, true, WHOLE))                                                             \
    X(0x3a, MEM_ALL, load_u8, load(w, in, 1, false, WHOLE))                                                            \
    X(0x3b, MEM_ALL, load_i16, load(w, in, 2, true, WHOLE))                                                            \
    X(0x3c, MEM_ALL, load_u16, load(w, in, 2, false, WHOLE))                                                           \
    X(0x3d, MEM_ALL, consume, count_lanes(w, in, false))                                                               \
    X(0x3e, MEM_ALL, append, count_lanes(w, in, true))                                                                 \
    X(0x4d, MEM_ALL, store_b64, store(w, in, 8, WHOLE))                                                                \
    X(0x4e, MEM_ALL, store_2addr_b64, store_2(w, in, 8, 8))                                                            \
    X(0x4f, MEM_ALL, store_2addr_stride64_b64, store_2(w, in, 8, 512))                                                 \
    X(0x6d, MEM_ALL, storexchg_rtn_b64, atomic(w, in, A_SWAP, 8, true))                                                \
    X(0x6e, MEM_ALL, storexchg_2addr_rtn_b64, exchange_2(w, in, 8, 8))                                                 \
    X(0x6f, MEM_ALL, storexchg_2addr_stride64_rtn_b64, exchange_2(w, in, 8, 512))                                      \
    X(0x76, MEM_ALL, load_b64, load(w, in, 8, false, WHOLE))                                                           \
    X(0x77, MEM_ALL, load_2addr_b64, load_2(w, in, 8, 8))                                                              \
    X(0x78, MEM_ALL, load_2addr_stride64_b64, load_2(w, in, 8, 512))                                                   \
    X(0x7e, MEM_ALL, condxchg32_rtn_b64, do_condxchg(w, in))                                                           \
    X(0xa0, MEM_ALL, store_b8_d16_hi, store(w, in, 1, HIGH))                                                           \
    X(0xa1, MEM_ALL, store_b16_d16_hi, store(w, in, 2, HIGH))                                                          \
    X(0xa2, MEM_ALL, load_u8_d16, load(w, in, 1, false, LOW))                                                          \
    X(0xa3, MEM_ALL, load_u8_d16_hi, load(w, in, 1, false, HIGH))                                                      \
    X(0xa4, MEM_ALL, load_i8_d16, load(w, in, 1, true, LOW))                                                           \
    X(0xa5, MEM_ALL, load_i8_d16_hi, load(w, in, 1, true, HIGH))                                                       \
    X(0xa6, MEM_ALL, load_u16_d16, load(w, in, 2, false, LOW))                                                         \
    X(0xa7, MEM_ALL, load_u16_d16_hi, load(w, in, 2, false, HIGH))                                                     \
    X(0xb0, MEM_ALL, store_addtid_b32, do_store_addtid(w, in))                                                         \
    X(0xb1, MEM_ALL, load_addtid_b32, do_load_addtid(w, in))                                                           \
    X(0xb2, MEM_ALL, permute_b32, do_permute(w, in))                                                                   \
    X(0xb3, MEM_ALL, bpermute_b32, bpermute(w, in, false))                                                             \
    X(0xcd, MEM_GFX12, bpermute_fi_b32, bpermute(w, in, true))                                                         \
    X(0xde, MEM_ALL, store_b96, store(w, in, 12, WHOLE))                                                               \
    X(0xdf, MEM_ALL, store_b128, store(w, in, 16, WHOLE))                                                              \
    X(0xfe, MEM_ALL, load_b96, load(w, in, 12, false, WHOLE))                                                          \
    X(0xff, MEM_ALL, load_b128, load(w, in, 16, false, WHOLE))

#define ATOMIC_FUNCTION(op, rtn, chips, name, type, kind, bytes)                                                       \
    static void do_##name##_##type(struct wave *w, const struct inst *in) { atomic(w, in, kind, bytes, false); }       \
    static void do_##name##_rtn_##type(struct wave *w, const struct inst *in) { atomic(w, in, kind, bytes, true); }
#define ATOMIC_ENTRY(op, rtn, chips, name, type, kind, bytes)                                                          \
    { op, chips, "ds_" #name "_" #type, do_##name##_##type },                                                          \
    { rtn, chips, "ds_" #name "_rtn_" #type, do_##name##_rtn_##type },
#define FUNCTION(op, chips, name, ...) static void lds_##name(struct wave *w, const struct inst *in) { __VA_ARGS__; }
#define ENTRY(op, chips, name, ...) { op, chips, "ds_" #name, lds_##name },
ATOMICS(ATOMIC_FUNCTION)
OTHERS(FUNCTION)
static const struct lds_op {
    uint16_t op;
    uint8_t chips;
    const char *name;
    inst_fn *run;
} ops[] = { ATOMICS(ATOMIC_ENTRY) OTHERS(ENTRY) };

inst_fn *lds_find(const struct chip *c, uint32_t op, const char **name)
{
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].op == op && (ops[i].chips == MEM_ALL || (ops[i].chips == MEM_GFX12) == c->gfx12)) {
            *name = ops[i].name;
            return ops[i].run;
        }
    return NULL;
}
