/* Scalar integer instructions: SOP1, SOP2, SOPC, SOPK. Opcodes and meanings: RDNA3 and RDNA4 ISA guides, chapter
 * "Scalar ALU Operations". SCC is written only where a line says so. */
#include "tools/amdsim/isa/salu.h"

#include <stddef.h>

static inline uint32_t sdst(const struct wave *w, const struct inst *in)
{
    return w->s[in->sdst];
}
static inline uint64_t sdst64(const struct wave *w, const struct inst *in)
{
    return w->s[in->sdst] | (uint64_t)w->s[in->sdst + 1] << 32;
}
static inline void put(struct wave *w, const struct inst *in, uint32_t d)
{
    s_set(w, in->sdst, d);
}
static inline void put64(struct wave *w, const struct inst *in, uint64_t d)
{
    s_set64(w, in->sdst, d);
}
/* The result, and whether it is other than zero. */
static inline void put_nz(struct wave *w, const struct inst *in, uint32_t d)
{
    s_set(w, in->sdst, d);
    w->scc = d != 0;
}
static inline void put64_nz(struct wave *w, const struct inst *in, uint64_t d)
{
    s_set64(w, in->sdst, d);
    w->scc = d != 0;
}
static inline void put_scc(struct wave *w, const struct inst *in, uint64_t d, bool scc)
{
    s_set(w, in->sdst, (uint32_t)d);
    w->scc = scc;
}
/* A signed 64-bit operand extends its literal by the sign. */
static inline int64_t signed64(const struct wave *w, const struct inst *in, uint32_t code)
{
    return code == OPND_LITERAL ? (int32_t)in->literal : (int64_t)s_get64(w, in, code);
}

static inline uint32_t clz32(uint32_t x) { return x ? (uint32_t)__builtin_clz(x) : ~0u; }
static inline uint32_t clz64(uint64_t x) { return x ? (uint32_t)__builtin_clzll(x) : ~0u; }
static inline uint32_t ctz32(uint32_t x) { return x ? (uint32_t)__builtin_ctz(x) : ~0u; }
static inline uint32_t ctz64(uint64_t x) { return x ? (uint32_t)__builtin_ctzll(x) : ~0u; }
static inline uint32_t popcount(uint64_t x) { return (uint32_t)__builtin_popcountll(x); }

static uint32_t reverse32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
static uint64_t reverse64(uint64_t x)
{
    return (uint64_t)reverse32((uint32_t)x) << 32 | reverse32((uint32_t)(x >> 32));
}
/* A bit per group of four: any of them set. */
static uint64_t quads(uint64_t x)
{
    uint64_t d = 0;
    for (int i = 0; i < 16; i++)
        d |= (uint64_t)((x >> (4 * i) & 15) != 0) << i;
    return d;
}
/* All four bits of a group set when any is: the lanes that whole quads need. */
static uint64_t whole_quads(uint64_t x)
{
    uint64_t d = 0;
    for (int i = 0; i < 16; i++)
        d |= (x >> (4 * i) & 15 ? 15ull : 0) << (4 * i);
    return d;
}
static uint64_t twice_each_bit(uint32_t x)
{
    uint64_t d = 0;
    for (int i = 0; i < 32; i++)
        d |= (x >> i & 1 ? 3ull : 0) << (2 * i);
    return d;
}

/* Bits [off, off + width) of x; none when width is 0. */
static uint64_t field_u(uint64_t x, uint32_t off, uint32_t width)
{
    return width == 0 ? 0 : width >= 64 ? x >> off : x >> off & ((1ull << width) - 1);
}
static uint64_t field_i(uint64_t x, uint32_t off, uint32_t width, uint32_t bits)
{
    if (off + width > bits)
        width = bits - off;
    uint64_t v = field_u(x, off, width);
    return width && width < 64 && v >> (width - 1) & 1 ? v | ~0ull << width : v;
}

static void add_u32(struct wave *w, const struct inst *in, uint32_t carry)
{
    uint64_t d = (uint64_t)S0 + S1 + carry;
    put_scc(w, in, d, d >> 32 != 0);
}
static void sub_u32(struct wave *w, const struct inst *in, uint32_t borrow)
{
    uint32_t a = S0;
    uint64_t b = (uint64_t)S1 + borrow;
    put_scc(w, in, a - b, b > a);
}
static void add_i32(struct wave *w, const struct inst *in, int32_t a, int32_t b)
{
    int32_t d;
    bool overflow = __builtin_add_overflow(a, b, &d);
    put_scc(w, in, (uint32_t)d, overflow);
}
static void sub_i32(struct wave *w, const struct inst *in)
{
    int32_t d;
    bool overflow = __builtin_sub_overflow((int32_t)S0, (int32_t)S1, &d);
    put_scc(w, in, (uint32_t)d, overflow);
}
static void shift_add(struct wave *w, const struct inst *in, int by)
{
    uint64_t d = ((uint64_t)S0 << by) + S1;
    put_scc(w, in, d, d >> 32 != 0);
}
/* SCC: the first operand was taken. */
static void choose(struct wave *w, const struct inst *in, bool first)
{
    uint32_t d = first ? S0 : S1;
    put_scc(w, in, d, first);
}
static void absdiff(struct wave *w, const struct inst *in)
{
    int64_t d = (int64_t)(int32_t)S0 - (int32_t)S1;
    put_nz(w, in, (uint32_t)(d < 0 ? -d : d));
}

static void saveexec(struct wave *w, const struct inst *in, uint32_t exec)
{
    put(w, in, w->s[OPND_EXEC]);
    w->s[OPND_EXEC] = exec;
    w->scc = exec != 0;
}
static inline uint64_t exec64(const struct wave *w)
{
    return w->s[OPND_EXEC] | (uint64_t)w->s[OPND_EXEC + 1] << 32;
}
static void saveexec64(struct wave *w, const struct inst *in, uint64_t exec)
{
    put64(w, in, exec64(w));
    s_set64(w, OPND_EXEC, exec);
    w->scc = exec != 0;
}
static void wrexec(struct wave *w, const struct inst *in, uint32_t exec)
{
    w->s[OPND_EXEC] = exec;
    put_nz(w, in, exec);
}
static void wrexec64(struct wave *w, const struct inst *in, uint64_t exec)
{
    s_set64(w, OPND_EXEC, exec);
    put64_nz(w, in, exec);
}

/* SGPR numbers that M0 shifts. */
static uint32_t relative(struct wave *w, uint32_t code, uint32_t by, uint32_t n)
{
    uint64_t r = (uint64_t)code + by;
    if (r + n - 1 > OPND_VCC + 1) {
        wave_fault(w, ISA_FAULT_REGISTER, "M0 leads to SGPR %llu, the wave has 106 and VCC", (unsigned long long)r);
        return 0;
    }
    return (uint32_t)r;
}

static void set_bit(struct wave *w, const struct inst *in, uint32_t value)
{
    uint32_t bit = S0 & 31;
    put(w, in, (sdst(w, in) & ~(1u << bit)) | value << bit);
}
static void set_bit64(struct wave *w, const struct inst *in, uint64_t value)
{
    uint32_t bit = S0 & 63;
    put64(w, in, (sdst64(w, in) & ~(1ull << bit)) | value << bit);
}

#define I0 ((int32_t)S0)
#define I1 ((int32_t)S1)
#define E w->s[OPND_EXEC]
#define EL exec64(w)
#define M0 w->s[OPND_M0]

#define SOP1_OPS(X)                                                                                                    \
    X(F_SOP1, 0x00, OP_ALL, mov_b32, put(w, in, S0))                                                                   \
    X(F_SOP1, 0x01, OP_ALL, mov_b64, put64(w, in, L0))                                                                 \
    X(F_SOP1, 0x02, OP_ALL, cmov_b32, if (w->scc) put(w, in, S0))                                                      \
    X(F_SOP1, 0x03, OP_ALL, cmov_b64, if (w->scc) put64(w, in, L0))                                                    \
    X(F_SOP1, 0x04, OP_ALL, brev_b32, put(w, in, reverse32(S0)))                                                       \
    X(F_SOP1, 0x05, OP_ALL, brev_b64, put64(w, in, reverse64(L0)))                                                     \
    X(F_SOP1, 0x08, OP_ALL, ctz_i32_b32, put(w, in, ctz32(S0)))                                                        \
    X(F_SOP1, 0x09, OP_ALL, ctz_i32_b64, put(w, in, ctz64(L0)))                                                        \
    X(F_SOP1, 0x0a, OP_ALL, clz_i32_u32, put(w, in, clz32(S0)))                                                        \
    X(F_SOP1, 0x0b, OP_ALL, clz_i32_u64, put(w, in, clz64(L0)))                                                        \
    X(F_SOP1, 0x0c, OP_ALL, cls_i32, put(w, in, clz32(S0 ^ (uint32_t)(I0 >> 31))))                                     \
    X(F_SOP1, 0x0d, OP_ALL, cls_i32_i64,                                                                               \
      int64_t a = signed64(w, in, in->src[0]); put(w, in, clz64((uint64_t)(a ^ a >> 63))))                             \
    X(F_SOP1, 0x0e, OP_ALL, sext_i32_i8, put(w, in, (uint32_t)(int8_t)S0))                                             \
    X(F_SOP1, 0x0f, OP_ALL, sext_i32_i16, put(w, in, (uint32_t)(int16_t)S0))                                           \
    X(F_SOP1, 0x10, OP_ALL, bitset0_b32, set_bit(w, in, 0))                                                            \
    X(F_SOP1, 0x11, OP_ALL, bitset0_b64, set_bit64(w, in, 0))                                                          \
    X(F_SOP1, 0x12, OP_ALL, bitset1_b32, set_bit(w, in, 1))                                                            \
    X(F_SOP1, 0x13, OP_ALL, bitset1_b64, set_bit64(w, in, 1))                                                          \
    X(F_SOP1, 0x14, OP_ALL, bitreplicate_b64_b32, put64(w, in, twice_each_bit(S0)))                                    \
    X(F_SOP1, 0x15, OP_ALL, abs_i32, uint32_t a = S0; put_nz(w, in, a >> 31 ? 0 - a : a))                              \
    X(F_SOP1, 0x16, OP_ALL, bcnt0_i32_b32, put_nz(w, in, 32 - popcount(S0)))                                           \
    X(F_SOP1, 0x17, OP_ALL, bcnt0_i32_b64, put_nz(w, in, 64 - popcount(L0)))                                           \
    X(F_SOP1, 0x18, OP_ALL, bcnt1_i32_b32, put_nz(w, in, popcount(S0)))                                                \
    X(F_SOP1, 0x19, OP_ALL, bcnt1_i32_b64, put_nz(w, in, popcount(L0)))                                                \
    X(F_SOP1, 0x1a, OP_ALL, quadmask_b32, put_nz(w, in, (uint32_t)quads(S0)))                                          \
    X(F_SOP1, 0x1b, OP_ALL, quadmask_b64, put64_nz(w, in, quads(L0)))                                                  \
    X(F_SOP1, 0x1c, OP_ALL, wqm_b32, put_nz(w, in, (uint32_t)whole_quads(S0)))                                         \
    X(F_SOP1, 0x1d, OP_ALL, wqm_b64, put64_nz(w, in, whole_quads(L0)))                                                 \
    X(F_SOP1, 0x1e, OP_ALL, not_b32, put_nz(w, in, ~S0))                                                               \
    X(F_SOP1, 0x1f, OP_ALL, not_b64, put64_nz(w, in, ~L0))                                                             \
    X(F_SOP1, 0x20, OP_ALL, and_saveexec_b32, saveexec(w, in, S0 & E))                                                 \
    X(F_SOP1, 0x21, OP_ALL, and_saveexec_b64, saveexec64(w, in, L0 & EL))                                              \
    X(F_SOP1, 0x22, OP_ALL, or_saveexec_b32, saveexec(w, in, S0 | E))                                                  \
    X(F_SOP1, 0x23, OP_ALL, or_saveexec_b64, saveexec64(w, in, L0 | EL))                                               \
    X(F_SOP1, 0x24, OP_ALL, xor_saveexec_b32, saveexec(w, in, S0 ^ E))                                                 \
    X(F_SOP1, 0x25, OP_ALL, xor_saveexec_b64, saveexec64(w, in, L0 ^ EL))                                              \
    X(F_SOP1, 0x26, OP_ALL, nand_saveexec_b32, saveexec(w, in, ~(S0 & E)))                                             \
    X(F_SOP1, 0x27, OP_ALL, nand_saveexec_b64, saveexec64(w, in, ~(L0 & EL)))                                          \
    X(F_SOP1, 0x28, OP_ALL, nor_saveexec_b32, saveexec(w, in, ~(S0 | E)))                                              \
    X(F_SOP1, 0x29, OP_ALL, nor_saveexec_b64, saveexec64(w, in, ~(L0 | EL)))                                           \
    X(F_SOP1, 0x2a, OP_ALL, xnor_saveexec_b32, saveexec(w, in, ~(S0 ^ E)))                                             \
    X(F_SOP1, 0x2b, OP_ALL, xnor_saveexec_b64, saveexec64(w, in, ~(L0 ^ EL)))                                          \
    X(F_SOP1, 0x2c, OP_ALL, and_not0_saveexec_b32, saveexec(w, in, ~S0 & E))                                           \
    X(F_SOP1, 0x2d, OP_ALL, and_not0_saveexec_b64, saveexec64(w, in, ~L0 & EL))                                        \
    X(F_SOP1, 0x2e, OP_ALL, or_not0_saveexec_b32, saveexec(w, in, ~S0 | E))                                            \
    X(F_SOP1, 0x2f, OP_ALL, or_not0_saveexec_b64, saveexec64(w, in, ~L0 | EL))                                         \
    X(F_SOP1, 0x30, OP_ALL, and_not1_saveexec_b32, saveexec(w, in, S0 & ~E))                                           \
    X(F_SOP1, 0x31, OP_ALL, and_not1_saveexec_b64, saveexec64(w, in, L0 & ~EL))                                        \
    X(F_SOP1, 0x32, OP_ALL, or_not1_saveexec_b32, saveexec(w, in, S0 | ~E))                                            \
    X(F_SOP1, 0x33, OP_ALL, or_not1_saveexec_b64, saveexec64(w, in, L0 | ~EL))                                         \
    X(F_SOP1, 0x34, OP_ALL, and_not0_wrexec_b32, wrexec(w, in, ~S0 & E))                                               \
    X(F_SOP1, 0x35, OP_ALL, and_not0_wrexec_b64, wrexec64(w, in, ~L0 & EL))                                            \
    X(F_SOP1, 0x36, OP_ALL, and_not1_wrexec_b32, wrexec(w, in, S0 & ~E))                                               \
    X(F_SOP1, 0x37, OP_ALL, and_not1_wrexec_b64, wrexec64(w, in, L0 & ~EL))                                            \
    X(F_SOP1, 0x40, OP_ALL, movrels_b32, put(w, in, w->s[relative(w, in->src[0], M0, 1)]))                             \
    X(F_SOP1, 0x41, OP_ALL, movrels_b64,                                                                               \
      uint32_t r = relative(w, in->src[0], M0, 2); put64(w, in, w->s[r] | (uint64_t)w->s[r + 1] << 32))                \
    X(F_SOP1, 0x42, OP_ALL, movreld_b32, s_set(w, relative(w, in->sdst, M0, 1), S0))                                   \
    X(F_SOP1, 0x43, OP_ALL, movreld_b64, s_set64(w, relative(w, in->sdst, M0, 2), L0))                                 \
    X(F_SOP1, 0x44, OP_ALL, movrelsd_2_b32,                                                                            \
      uint32_t from = relative(w, in->src[0], M0 & 0x3ff, 1), to = relative(w, in->sdst, M0 >> 16 & 0x3ff, 1);         \
      s_set(w, to, w->s[from]))

#define SOP2_OPS(X)                                                                                                    \
    X(F_SOP2, 0x00, OP_GFX11, add_u32, add_u32(w, in, 0))                                                              \
    X(F_SOP2, 0x01, OP_GFX11, sub_u32, sub_u32(w, in, 0))                                                              \
    X(F_SOP2, 0x02, OP_GFX11, add_i32, add_i32(w, in, I0, I1))                                                         \
    X(F_SOP2, 0x03, OP_GFX11, sub_i32, sub_i32(w, in))                                                                 \
    X(F_SOP2, 0x04, OP_GFX11, addc_u32, add_u32(w, in, w->scc))                                                        \
    X(F_SOP2, 0x05, OP_GFX11, subb_u32, sub_u32(w, in, w->scc))                                                        \
    X(F_SOP2, 0x00, OP_GFX12, add_co_u32, add_u32(w, in, 0))                                                           \
    X(F_SOP2, 0x01, OP_GFX12, sub_co_u32, sub_u32(w, in, 0))                                                           \
    X(F_SOP2, 0x02, OP_GFX12, add_co_i32, add_i32(w, in, I0, I1))                                                      \
    X(F_SOP2, 0x03, OP_GFX12, sub_co_i32, sub_i32(w, in))                                                              \
    X(F_SOP2, 0x04, OP_GFX12, add_co_ci_u32, add_u32(w, in, w->scc))                                                   \
    X(F_SOP2, 0x05, OP_GFX12, sub_co_ci_u32, sub_u32(w, in, w->scc))                                                   \
    X(F_SOP2, 0x06, OP_ALL, absdiff_i32, absdiff(w, in))                                                               \
    X(F_SOP2, 0x08, OP_ALL, lshl_b32, put_nz(w, in, S0 << (S1 & 31)))                                                  \
    X(F_SOP2, 0x09, OP_ALL, lshl_b64, put64_nz(w, in, L0 << (S1 & 63)))                                                \
    X(F_SOP2, 0x0a, OP_ALL, lshr_b32, put_nz(w, in, S0 >> (S1 & 31)))                                                  \
    X(F_SOP2, 0x0b, OP_ALL, lshr_b64, put64_nz(w, in, L0 >> (S1 & 63)))                                                \
    X(F_SOP2, 0x0c, OP_ALL, ashr_i32, put_nz(w, in, (uint32_t)(I0 >> (S1 & 31))))                                      \
    X(F_SOP2, 0x0d, OP_ALL, ashr_i64, put64_nz(w, in, (uint64_t)(signed64(w, in, in->src[0]) >> (S1 & 63))))           \
    X(F_SOP2, 0x0e, OP_ALL, lshl1_add_u32, shift_add(w, in, 1))                                                        \
    X(F_SOP2, 0x0f, OP_ALL, lshl2_add_u32, shift_add(w, in, 2))                                                        \
    X(F_SOP2, 0x10, OP_ALL, lshl3_add_u32, shift_add(w, in, 3))                                                        \
    X(F_SOP2, 0x11, OP_ALL, lshl4_add_u32, shift_add(w, in, 4))                                                        \
    X(F_SOP2, 0x12, OP_ALL, min_i32, choose(w, in, I0 < I1))                                                           \
    X(F_SOP2, 0x13, OP_ALL, min_u32, choose(w, in, S0 < S1))                                                           \
    X(F_SOP2, 0x14, OP_ALL, max_i32, choose(w, in, I0 > I1))                                                           \
    X(F_SOP2, 0x15, OP_ALL, max_u32, choose(w, in, S0 > S1))                                                           \
    X(F_SOP2, 0x16, OP_ALL, and_b32, put_nz(w, in, S0 & S1))                                                           \
    X(F_SOP2, 0x17, OP_ALL, and_b64, put64_nz(w, in, L0 & L1))                                                         \
    X(F_SOP2, 0x18, OP_ALL, or_b32, put_nz(w, in, S0 | S1))                                                            \
    X(F_SOP2, 0x19, OP_ALL, or_b64, put64_nz(w, in, L0 | L1))                                                          \
    X(F_SOP2, 0x1a, OP_ALL, xor_b32, put_nz(w, in, S0 ^ S1))                                                           \
    X(F_SOP2, 0x1b, OP_ALL, xor_b64, put64_nz(w, in, L0 ^ L1))                                                         \
    X(F_SOP2, 0x1c, OP_ALL, nand_b32, put_nz(w, in, ~(S0 & S1)))                                                       \
    X(F_SOP2, 0x1d, OP_ALL, nand_b64, put64_nz(w, in, ~(L0 & L1)))                                                     \
    X(F_SOP2, 0x1e, OP_ALL, nor_b32, put_nz(w, in, ~(S0 | S1)))                                                        \
    X(F_SOP2, 0x1f, OP_ALL, nor_b64, put64_nz(w, in, ~(L0 | L1)))                                                      \
    X(F_SOP2, 0x20, OP_ALL, xnor_b32, put_nz(w, in, ~(S0 ^ S1)))                                                       \
    X(F_SOP2, 0x21, OP_ALL, xnor_b64, put64_nz(w, in, ~(L0 ^ L1)))                                                     \
    X(F_SOP2, 0x22, OP_ALL, and_not1_b32, put_nz(w, in, S0 & ~S1))                                                     \
    X(F_SOP2, 0x23, OP_ALL, and_not1_b64, put64_nz(w, in, L0 & ~L1))                                                   \
    X(F_SOP2, 0x24, OP_ALL, or_not1_b32, put_nz(w, in, S0 | ~S1))                                                      \
    X(F_SOP2, 0x25, OP_ALL, or_not1_b64, put64_nz(w, in, L0 | ~L1))                                                    \
    X(F_SOP2, 0x26, OP_ALL, bfe_u32, put_nz(w, in, (uint32_t)field_u(S0, S1 & 31, S1 >> 16 & 127)))                    \
    X(F_SOP2, 0x27, OP_ALL, bfe_i32, put_nz(w, in, (uint32_t)field_i(S0, S1 & 31, S1 >> 16 & 127, 32)))                \
    X(F_SOP2, 0x28, OP_ALL, bfe_u64, put64_nz(w, in, field_u(L0, S1 & 63, S1 >> 16 & 127)))                            \
    X(F_SOP2, 0x29, OP_ALL, bfe_i64,                                                                                   \
      put64_nz(w, in, field_i((uint64_t)signed64(w, in, in->src[0]), S1 & 63, S1 >> 16 & 127, 64)))                    \
    X(F_SOP2, 0x2a, OP_ALL, bfm_b32, put(w, in, ((1u << (S0 & 31)) - 1) << (S1 & 31)))                                 \
    X(F_SOP2, 0x2b, OP_ALL, bfm_b64, put64(w, in, ((1ull << (S0 & 63)) - 1) << (S1 & 63)))                             \
    X(F_SOP2, 0x2c, OP_ALL, mul_i32, put(w, in, S0 * S1))                                                              \
    X(F_SOP2, 0x2d, OP_ALL, mul_hi_u32, put(w, in, (uint32_t)((uint64_t)S0 * S1 >> 32)))                               \
    X(F_SOP2, 0x2e, OP_ALL, mul_hi_i32, put(w, in, (uint32_t)((int64_t)I0 * I1 >> 32)))                                \
    X(F_SOP2, 0x30, OP_ALL, cselect_b32, put(w, in, w->scc ? S0 : S1))                                                 \
    X(F_SOP2, 0x31, OP_ALL, cselect_b64, put64(w, in, w->scc ? L0 : L1))                                               \
    X(F_SOP2, 0x32, OP_ALL, pack_ll_b32_b16, put(w, in, (S0 & 0xffff) | S1 << 16))                                     \
    X(F_SOP2, 0x33, OP_ALL, pack_lh_b32_b16, put(w, in, (S0 & 0xffff) | (S1 & 0xffff0000)))                            \
    X(F_SOP2, 0x34, OP_ALL, pack_hh_b32_b16, put(w, in, S0 >> 16 | (S1 & 0xffff0000)))                                 \
    X(F_SOP2, 0x35, OP_ALL, pack_hl_b32_b16, put(w, in, S0 >> 16 | S1 << 16))                                          \
    X(F_SOP2, 0x53, OP_GFX12, add_nc_u64, put64(w, in, L0 + L1))                                                       \
    X(F_SOP2, 0x54, OP_GFX12, sub_nc_u64, put64(w, in, L0 - L1))                                                       \
    X(F_SOP2, 0x55, OP_GFX12, mul_u64, put64(w, in, L0 * L1))

#define SOPC_OPS(X)                                                                                                    \
    X(F_SOPC, 0x00, OP_ALL, cmp_eq_i32, w->scc = I0 == I1)                                                             \
    X(F_SOPC, 0x01, OP_ALL, cmp_lg_i32, w->scc = I0 != I1)                                                             \
    X(F_SOPC, 0x02, OP_ALL, cmp_gt_i32, w->scc = I0 > I1)                                                              \
    X(F_SOPC, 0x03, OP_ALL, cmp_ge_i32, w->scc = I0 >= I1)                                                             \
    X(F_SOPC, 0x04, OP_ALL, cmp_lt_i32, w->scc = I0 < I1)                                                              \
    X(F_SOPC, 0x05, OP_ALL, cmp_le_i32, w->scc = I0 <= I1)                                                             \
    X(F_SOPC, 0x06, OP_ALL, cmp_eq_u32, w->scc = S0 == S1)                                                             \
    X(F_SOPC, 0x07, OP_ALL, cmp_lg_u32, w->scc = S0 != S1)                                                             \
    X(F_SOPC, 0x08, OP_ALL, cmp_gt_u32, w->scc = S0 > S1)                                                              \
    X(F_SOPC, 0x09, OP_ALL, cmp_ge_u32, w->scc = S0 >= S1)                                                             \
    X(F_SOPC, 0x0a, OP_ALL, cmp_lt_u32, w->scc = S0 < S1)                                                              \
    X(F_SOPC, 0x0b, OP_ALL, cmp_le_u32, w->scc = S0 <= S1)                                                             \
    X(F_SOPC, 0x0c, OP_ALL, bitcmp0_b32, w->scc = (S0 >> (S1 & 31) & 1) == 0)                                          \
    X(F_SOPC, 0x0d, OP_ALL, bitcmp1_b32, w->scc = S0 >> (S1 & 31) & 1)                                                 \
    X(F_SOPC, 0x0e, OP_ALL, bitcmp0_b64, w->scc = (L0 >> (S1 & 63) & 1) == 0)                                          \
    X(F_SOPC, 0x0f, OP_ALL, bitcmp1_b64, w->scc = L0 >> (S1 & 63) & 1)                                                 \
    X(F_SOPC, 0x10, OP_ALL, cmp_eq_u64, w->scc = L0 == L1)                                                             \
    X(F_SOPC, 0x11, OP_ALL, cmp_lg_u64, w->scc = L0 != L1)

/* SOPK compares its destination field, which then is a source, with the constant. */
#define KD sdst(w, in)
#define KI ((int32_t)sdst(w, in))
#define KU (in->simm & 0xffffu)
#define SOPK_OPS(X)                                                                                                    \
    X(F_SOPK, 0x00, OP_ALL, movk_i32, put(w, in, (uint32_t)in->simm))                                                  \
    X(F_SOPK, 0x01, OP_ALL, version, (void)in)                                                                         \
    X(F_SOPK, 0x02, OP_ALL, cmovk_i32, if (w->scc) put(w, in, (uint32_t)in->simm))                                     \
    X(F_SOPK, 0x03, OP_GFX11, cmpk_eq_i32, w->scc = KI == in->simm)                                                    \
    X(F_SOPK, 0x04, OP_GFX11, cmpk_lg_i32, w->scc = KI != in->simm)                                                    \
    X(F_SOPK, 0x05, OP_GFX11, cmpk_gt_i32, w->scc = KI > in->simm)                                                     \
    X(F_SOPK, 0x06, OP_GFX11, cmpk_ge_i32, w->scc = KI >= in->simm)                                                    \
    X(F_SOPK, 0x07, OP_GFX11, cmpk_lt_i32, w->scc = KI < in->simm)                                                     \
    X(F_SOPK, 0x08, OP_GFX11, cmpk_le_i32, w->scc = KI <= in->simm)                                                    \
    X(F_SOPK, 0x09, OP_GFX11, cmpk_eq_u32, w->scc = KD == KU)                                                          \
    X(F_SOPK, 0x0a, OP_GFX11, cmpk_lg_u32, w->scc = KD != KU)                                                          \
    X(F_SOPK, 0x0b, OP_GFX11, cmpk_gt_u32, w->scc = KD > KU)                                                           \
    X(F_SOPK, 0x0c, OP_GFX11, cmpk_ge_u32, w->scc = KD >= KU)                                                          \
    X(F_SOPK, 0x0d, OP_GFX11, cmpk_lt_u32, w->scc = KD < KU)                                                           \
    X(F_SOPK, 0x0e, OP_GFX11, cmpk_le_u32, w->scc = KD <= KU)                                                          \
    X(F_SOPK, 0x0f, OP_GFX11, addk_i32, add_i32(w, in, KI, in->simm))                                                  \
    X(F_SOPK, 0x0f, OP_GFX12, addk_co_i32, add_i32(w, in, KI, in->simm))                                               \
    X(F_SOPK, 0x10, OP_ALL, mulk_i32, put(w, in, KD * (uint32_t)in->simm))

SOP1_OPS(OP_FUNCTION)
SOP2_OPS(OP_FUNCTION)
SOPC_OPS(OP_FUNCTION)
SOPK_OPS(OP_FUNCTION)

static const struct salu_op int_ops[] = {
    SOP1_OPS(OP_ENTRY) SOP2_OPS(OP_ENTRY) SOPC_OPS(OP_ENTRY) SOPK_OPS(OP_ENTRY) { .run = NULL }
};

inst_fn *salu_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name)
{
    const struct salu_op *const tables[] = { int_ops, salu_float_ops, program_ops, smem_ops };
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct salu_op *o = tables[i]; o->run; o++)
            if (o->format == f && o->op == op && op_on_chip(c, o->chips)) {
                *name = o->name;
                return o->run;
            }
    return NULL;
}
