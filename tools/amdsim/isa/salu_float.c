/* Scalar float instructions (RDNA3.5, gfx12): f32 and f16 in SGPRs, with the wave's rounding and denormal modes. */
#include "tools/amdsim/isa/float.h"
#include "tools/amdsim/isa/salu.h"

#include <stddef.h>

static uint64_t f32_src(const struct wave *w, const struct inst *in, int i)
{
    return s_get(w, in, in->src[i]);
}

/* An inline constant of a 16-bit operand is an f16. */
static uint64_t f16_src(const struct wave *w, const struct inst *in, int i)
{
    static const uint16_t inline_f16[9] = { 0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118 };
    uint16_t code = in->src[i];
    return code >= 240 && code <= 248 ? inline_f16[code - 240] : s_get(w, in, code) & 0xffff;
}

static inline void put(struct wave *w, const struct inst *in, uint64_t d)
{
    s_set(w, in->sdst, (uint32_t)d);
}

enum compare { C_LT = 1, C_EQ = 2, C_GT = 4, C_UN = 8 }; /* outcomes that make the relation true */
static bool holds(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m, uint32_t relation)
{
    static const uint8_t outcome[4] = { C_LT, C_EQ, C_GT, C_UN };
    return (outcome[float_compare(f, a, b, m) + 1] & relation) != 0;
}

/* RDNA3.5 has the vector unit's v_min and v_max rules, by MODE.IEEE; gfx12's *_num take the number. */
static enum float_nan_rule nan_rule(const struct wave *w)
{
    return w->chip->gfx12 ? NAN_NUMBER : w->mode >> 9 & 1 ? NAN_IEEE : NAN_LEGACY;
}

static uint64_t toward_zero(const struct wave *w, const struct inst *in, int i)
{
    struct float_mode m = float_mode_f16_f64(w->mode);
    m.round = ROUND_ZERO;
    return float_convert(&F32, &F16, f32_src(w, in, i), float_mode_f32(w->mode).daz, m);
}

#define MS float_mode_f32(w->mode)
#define MH float_mode_f16_f64(w->mode)
#define A f32_src(w, in, 0)
#define B f32_src(w, in, 1)
#define K in->literal
#define D w->s[in->sdst]
#define HA f16_src(w, in, 0)
#define HB f16_src(w, in, 1)
#define NEG32(x) ((x) ^ 0x80000000u)
#define NEG16(x) ((x) ^ 0x8000u)
#define CMP32(rel) w->scc = holds(&F32, A, B, MS, rel)
#define CMP16(rel) w->scc = holds(&F16, HA, HB, MH, rel)

#define FLOAT_OPS(X)                                                                                                   \
    X(F_SOP1, 0x60, OP_FLOAT, ceil_f32, put(w, in, float_round_int(&F32, A, ROUND_UP, MS)))                            \
    X(F_SOP1, 0x61, OP_FLOAT, floor_f32, put(w, in, float_round_int(&F32, A, ROUND_DOWN, MS)))                         \
    X(F_SOP1, 0x62, OP_FLOAT, trunc_f32, put(w, in, float_round_int(&F32, A, ROUND_ZERO, MS)))                         \
    X(F_SOP1, 0x63, OP_FLOAT, rndne_f32, put(w, in, float_round_int(&F32, A, ROUND_EVEN, MS)))                         \
    X(F_SOP1, 0x64, OP_FLOAT, cvt_f32_i32,                                                                             \
      int64_t a = (int32_t)s_get(w, in, in->src[0]);                                                                   \
      put(w, in, float_from_int(&F32, a < 0, (uint64_t)(a < 0 ? -a : a), MS)))                                         \
    X(F_SOP1, 0x65, OP_FLOAT, cvt_f32_u32, put(w, in, float_from_int(&F32, false, s_get(w, in, in->src[0]), MS)))      \
    X(F_SOP1, 0x66, OP_FLOAT, cvt_i32_f32,                                                                             \
      put(w, in, (uint64_t)float_to_int(&F32, A, ROUND_ZERO, INT32_MIN, INT32_MAX)))                                   \
    X(F_SOP1, 0x67, OP_FLOAT, cvt_u32_f32, put(w, in, (uint64_t)float_to_int(&F32, A, ROUND_ZERO, 0, UINT32_MAX)))     \
    X(F_SOP1, 0x68, OP_FLOAT, cvt_f16_f32, put(w, in, float_convert(&F32, &F16, A, MS.daz, MH)))                       \
    X(F_SOP1, 0x69, OP_FLOAT, cvt_f32_f16, put(w, in, float_convert(&F16, &F32, HA, MH.daz, MS)))                      \
    X(F_SOP1, 0x6a, OP_FLOAT, cvt_hi_f32_f16,                                                                          \
      put(w, in, float_convert(&F16, &F32, s_get(w, in, in->src[0]) >> 16, MH.daz, MS)))                               \
    X(F_SOP1, 0x6b, OP_FLOAT, ceil_f16, put(w, in, float_round_int(&F16, HA, ROUND_UP, MH)))                           \
    X(F_SOP1, 0x6c, OP_FLOAT, floor_f16, put(w, in, float_round_int(&F16, HA, ROUND_DOWN, MH)))                        \
    X(F_SOP1, 0x6d, OP_FLOAT, trunc_f16, put(w, in, float_round_int(&F16, HA, ROUND_ZERO, MH)))                        \
    X(F_SOP1, 0x6e, OP_FLOAT, rndne_f16, put(w, in, float_round_int(&F16, HA, ROUND_EVEN, MH)))                        \
    X(F_SOP2, 0x40, OP_FLOAT, add_f32, put(w, in, float_add(&F32, A, B, MS)))                                          \
    X(F_SOP2, 0x41, OP_FLOAT, sub_f32, put(w, in, float_add(&F32, A, NEG32(B), MS)))                                   \
    X(F_SOP2, 0x42, OP_GFX115, min_f32,                                                                                \
      put(w, in, float_min(&F32, A, B, nan_rule(w), MS)))                                                              \
    X(F_SOP2, 0x43, OP_GFX115, max_f32,                                                                                \
      put(w, in, float_max(&F32, A, B, nan_rule(w), MS)))                                                              \
    X(F_SOP2, 0x42, OP_GFX12, min_num_f32, put(w, in, float_min(&F32, A, B, nan_rule(w), MS)))                         \
    X(F_SOP2, 0x43, OP_GFX12, max_num_f32, put(w, in, float_max(&F32, A, B, nan_rule(w), MS)))                         \
    X(F_SOP2, 0x44, OP_FLOAT, mul_f32, put(w, in, float_mul(&F32, A, B, MS)))                                          \
    X(F_SOP2, 0x45, OP_FLOAT, fmaak_f32, put(w, in, float_fma(&F32, A, B, K, MS)))                                     \
    X(F_SOP2, 0x46, OP_FLOAT, fmamk_f32, put(w, in, float_fma(&F32, A, K, B, MS)))                                     \
    X(F_SOP2, 0x47, OP_FLOAT, fmac_f32, put(w, in, float_fma(&F32, A, B, D, MS)))                                      \
    X(F_SOP2, 0x48, OP_FLOAT, cvt_pk_rtz_f16_f32,                                                                      \
      put(w, in, toward_zero(w, in, 0) | toward_zero(w, in, 1) << 16))                                                 \
    X(F_SOP2, 0x49, OP_FLOAT, add_f16, put(w, in, float_add(&F16, HA, HB, MH)))                                        \
    X(F_SOP2, 0x4a, OP_FLOAT, sub_f16, put(w, in, float_add(&F16, HA, NEG16(HB), MH)))                                 \
    X(F_SOP2, 0x4b, OP_GFX115, min_f16,                                                                                \
      put(w, in, float_min(&F16, HA, HB, nan_rule(w), MH)))                                                            \
    X(F_SOP2, 0x4c, OP_GFX115, max_f16,                                                                                \
      put(w, in, float_max(&F16, HA, HB, nan_rule(w), MH)))                                                            \
    X(F_SOP2, 0x4b, OP_GFX12, min_num_f16, put(w, in, float_min(&F16, HA, HB, nan_rule(w), MH)))                       \
    X(F_SOP2, 0x4c, OP_GFX12, max_num_f16, put(w, in, float_max(&F16, HA, HB, nan_rule(w), MH)))                       \
    X(F_SOP2, 0x4d, OP_FLOAT, mul_f16, put(w, in, float_mul(&F16, HA, HB, MH)))                                        \
    X(F_SOP2, 0x4e, OP_FLOAT, fmac_f16, put(w, in, float_fma(&F16, HA, HB, D & 0xffff, MH)))                           \
    X(F_SOP2, 0x4f, OP_GFX12, minimum_f32, put(w, in, float_min(&F32, A, B, NAN_FIRST, MS)))                           \
    X(F_SOP2, 0x50, OP_GFX12, maximum_f32, put(w, in, float_max(&F32, A, B, NAN_FIRST, MS)))                           \
    X(F_SOP2, 0x51, OP_GFX12, minimum_f16, put(w, in, float_min(&F16, HA, HB, NAN_FIRST, MH)))                         \
    X(F_SOP2, 0x52, OP_GFX12, maximum_f16, put(w, in, float_max(&F16, HA, HB, NAN_FIRST, MH)))                         \
    X(F_SOPC, 0x41, OP_FLOAT, cmp_lt_f32, CMP32(C_LT))                                                                 \
    X(F_SOPC, 0x42, OP_FLOAT, cmp_eq_f32, CMP32(C_EQ))                                                                 \
    X(F_SOPC, 0x43, OP_FLOAT, cmp_le_f32, CMP32(C_LT | C_EQ))                                                          \
    X(F_SOPC, 0x44, OP_FLOAT, cmp_gt_f32, CMP32(C_GT))                                                                 \
    X(F_SOPC, 0x45, OP_FLOAT, cmp_lg_f32, CMP32(C_LT | C_GT))                                                          \
    X(F_SOPC, 0x46, OP_FLOAT, cmp_ge_f32, CMP32(C_GT | C_EQ))                                                          \
    X(F_SOPC, 0x47, OP_FLOAT, cmp_o_f32, CMP32(C_LT | C_EQ | C_GT))                                                    \
    X(F_SOPC, 0x48, OP_FLOAT, cmp_u_f32, CMP32(C_UN))                                                                  \
    X(F_SOPC, 0x49, OP_FLOAT, cmp_nge_f32, CMP32(C_LT | C_UN))                                                         \
    X(F_SOPC, 0x4a, OP_FLOAT, cmp_nlg_f32, CMP32(C_EQ | C_UN))                                                         \
    X(F_SOPC, 0x4b, OP_FLOAT, cmp_ngt_f32, CMP32(C_LT | C_EQ | C_UN))                                                  \
    X(F_SOPC, 0x4c, OP_FLOAT, cmp_nle_f32, CMP32(C_GT | C_UN))                                                         \
    X(F_SOPC, 0x4d, OP_FLOAT, cmp_neq_f32, CMP32(C_LT | C_GT | C_UN))                                                  \
    X(F_SOPC, 0x4e, OP_FLOAT, cmp_nlt_f32, CMP32(C_GT | C_EQ | C_UN))                                                  \
    X(F_SOPC, 0x51, OP_FLOAT, cmp_lt_f16, CMP16(C_LT))                                                                 \
    X(F_SOPC, 0x52, OP_FLOAT, cmp_eq_f16, CMP16(C_EQ))                                                                 \
    X(F_SOPC, 0x53, OP_FLOAT, cmp_le_f16, CMP16(C_LT | C_EQ))                                                          \
    X(F_SOPC, 0x54, OP_FLOAT, cmp_gt_f16, CMP16(C_GT))                                                                 \
    X(F_SOPC, 0x55, OP_FLOAT, cmp_lg_f16, CMP16(C_LT | C_GT))                                                          \
    X(F_SOPC, 0x56, OP_FLOAT, cmp_ge_f16, CMP16(C_GT | C_EQ))                                                          \
    X(F_SOPC, 0x57, OP_FLOAT, cmp_o_f16, CMP16(C_LT | C_EQ | C_GT))                                                    \
    X(F_SOPC, 0x58, OP_FLOAT, cmp_u_f16, CMP16(C_UN))                                                                  \
    X(F_SOPC, 0x59, OP_FLOAT, cmp_nge_f16, CMP16(C_LT | C_UN))                                                         \
    X(F_SOPC, 0x5a, OP_FLOAT, cmp_nlg_f16, CMP16(C_EQ | C_UN))                                                         \
    X(F_SOPC, 0x5b, OP_FLOAT, cmp_ngt_f16, CMP16(C_LT | C_EQ | C_UN))                                                  \
    X(F_SOPC, 0x5c, OP_FLOAT, cmp_nle_f16, CMP16(C_GT | C_UN))                                                         \
    X(F_SOPC, 0x5d, OP_FLOAT, cmp_neq_f16, CMP16(C_LT | C_GT | C_UN))                                                  \
    X(F_SOPC, 0x5e, OP_FLOAT, cmp_nlt_f16, CMP16(C_GT | C_EQ | C_UN))

FLOAT_OPS(OP_FUNCTION)
const struct salu_op salu_float_ops[] = { FLOAT_OPS(OP_ENTRY) { .run = NULL } };
