/* tools/amdsim/isa/valu_ops.c: the lane functions of the valu_*.def tables and what they need. */
#include "tools/amdsim/isa/trans.h"
#include "tools/amdsim/isa/valu.h"
#include "tools/amdsim/isa/wmma.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static int16_t i16(uint64_t v) { return (int16_t)v; }
static int32_t i32(uint64_t v) { return (int32_t)v; }
static uint32_t u32(uint64_t v) { return (uint32_t)v; }
static int64_t i24(uint64_t v) { return (int32_t)((uint32_t)v << 8) >> 8; }
static uint64_t u24(uint64_t v) { return v & 0xffffff; }
static uint64_t lo16(int64_t v) { return (uint16_t)v; }
static uint64_t low_bits(uint64_t n) { return (1ull << n) - 1; } /* n < 64 */
static int64_t clip(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
static uint64_t magnitude(int64_t v) { return (uint64_t)(v < 0 ? -v : v); }
static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

static int64_t U(const struct lane *x, int bits, int64_t v)
{
    return x->clamp ? clip(v, 0, (1ll << bits) - 1) : v;
}

static int64_t S(const struct lane *x, int bits, int64_t v)
{
    return x->clamp ? clip(v, -(1ll << (bits - 1)), (1ll << (bits - 1)) - 1) : v;
}

static int64_t carry(struct lane *x, int64_t v)
{
    x->cout = v >> 32 & 1;
    return U(x, 32, v);
}

static uint32_t reverse32(uint32_t v)
{
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}

static int leading_signs(uint32_t v)
{
    uint32_t other = v >> 31 ? ~v : v;
    return other ? __builtin_clz(other) : -1;
}

static int32_t bfe_i32(uint32_t v, uint32_t at, uint32_t width)
{
    if (!width)
        return 0;
    v >>= at;
    return at + width >= 32 ? (int32_t)(v << at) >> at : (int32_t)(v << (32 - width)) >> (32 - width);
}

static uint32_t perm(uint64_t bytes, uint32_t select)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = select >> 8 * i & 255, byte;
        if (s < 8)
            byte = bytes >> 8 * s & 255;
        else if (s < 12) /* the sign of byte 1, 3, 5 or 7 */
            byte = bytes >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
        else
            byte = s == 12 ? 0 : 255;
        r |= byte << 8 * i;
    }
    return r;
}

static uint64_t mad_u64(struct lane *x)
{
    unsigned __int128 r = (unsigned __int128)x->a * x->b + x->c;
    x->cout = r >> 64 & 1;
    return (uint64_t)r;
}

static uint64_t mad_i64(struct lane *x)
{
    __int128 r = (__int128)((int64_t)i32(x->a) * i32(x->b)) + (int64_t)x->c;
    x->cout = (unsigned __int128)r >> 64 & 1;
    return (uint64_t)r;
}

static uint32_t lerp_u8(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 8)
        r |= (((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1) << i;
    return r;
}

static uint64_t sad_u8(uint32_t a, uint32_t b, bool masked)
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i += 8)
        if (!masked || (b >> i & 255))
            r += apart(a >> i & 255, b >> i & 255);
    return r;
}

static uint64_t qsad(const struct lane *x, bool masked)
{
    uint64_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= ((sad_u8((uint32_t)(x->a >> 8 * i), (uint32_t)x->b, masked) + (x->c >> 16 * i)) & 0xffff) << 16 * i;
    return r;
}

static int64_t dot_int(const struct lane *x, int bits, bool a_signed, bool b_signed)
{
    int64_t r = 0;
    for (int i = 0; i < 32; i += bits) {
        int64_t a = (int64_t)(x->a >> i & low_bits((uint64_t)bits)),
                b = (int64_t)(x->b >> i & low_bits((uint64_t)bits));
        a -= a_signed && a >> (bits - 1) ? 1ll << bits : 0;
        b -= b_signed && b >> (bits - 1) ? 1ll << bits : 0;
        r += a * b;
    }
    return r;
}

/* ---- floats ---- */

static uint64_t flip(const struct float_fmt *f, uint64_t v)
{
    return float_is_nan(f, v) ? v : v ^ float_sign(f);
}

static enum float_nan_rule min_rule(const struct lane *x)
{
    return x->gfx12 ? NAN_NUMBER : x->ieee ? NAN_IEEE : NAN_LEGACY;
}

static bool product_is_zero(const struct lane *x)
{
    return !float_abs(&F32, float_daz(&F32, x->a, x->m32)) || !float_abs(&F32, float_daz(&F32, x->b, x->m32));
}

static uint64_t mul_dx9(const struct lane *x)
{
    return product_is_zero(x) ? 0 : float_mul(&F32, x->a, x->b, x->m32);
}

static uint64_t fma_dx9(const struct lane *x)
{
    return product_is_zero(x) ? float_add(&F32, 0, x->c, x->m32) : float_fma(&F32, x->a, x->b, x->c, x->m32);
}

/* The lighting exponent's product: the least finite value where the base or the power is no good. */
static uint64_t mullit(const struct lane *x)
{
    uint64_t b = x->b, c = x->c, least = 0xff7fffff;
    if (b == least || b == 0xff800000 || float_is_nan(&F32, b) || float_is_nan(&F32, c) || c >> 31 || !c)
        return least;
    return mul_dx9(x);
}

static struct float_mode mix_mode(const struct lane *x)
{
    struct float_mode m = x->m16;
    m.daz = x->m32.daz;
    return m;
}

static uint64_t div_fixup_f16(const struct lane *x)
{
    return float_div_fixup(&F16, x->a, x->b, x->c, x->m16);
}

static int64_t floor_i32(uint64_t v)
{
    if (float_is_nan(&F32, v))
        return v >> 31 ? INT32_MIN : INT32_MAX;
    return float_to_int(&F32, v, ROUND_DOWN, INT32_MIN, INT32_MAX);
}

/* floor(v + 1/2) without rounding the sum: (floor(2 v) + 1) / 2. */
static int64_t nearest_i32(uint64_t v)
{
    if (float_is_nan(&F32, v))
        return floor_i32(v);
    struct float_mode exact = { 0 };
    uint64_t twice = float_ldexp(&F64, float_convert(&F32, &F64, v, false, exact), 1, exact);
    int64_t n = float_to_int(&F64, twice, ROUND_DOWN, -(1ll << 40), 1ll << 40);
    return clip((n + 1) >> 1, INT32_MIN, INT32_MAX);
}

static uint64_t norm16(const struct float_fmt *f, uint64_t v, bool is_signed)
{
    struct float_mode exact = { 0 };
    uint64_t scale = float_from_int(&F64, false, is_signed ? 32767 : 65535, exact);
    uint64_t r = float_mul(&F64, float_convert(f, &F64, v, false, exact), scale, exact);
    return lo16(float_to_int(&F64, r, ROUND_EVEN, is_signed ? -32767 : 0, is_signed ? 32767 : 65535));
}

static uint64_t rtz16(const struct lane *x, uint64_t v)
{
    struct float_mode m = x->m16;
    m.round = ROUND_ZERO;
    return float_convert(&F32, &F16, v, x->m32.daz, m);
}

/* opsel picks the word with its bit 0 and the byte of it with bit 1. */
static uint32_t byte_of(const struct lane *x) { return (x->opsel & 1) << 1 | (x->opsel >> 1 & 1); }

static uint64_t pk_f32(enum float8 t, uint32_t v)
{
    return float8_to_f32(t, v & 255) | (uint64_t)float8_to_f32(t, v >> 8 & 255) << 32;
}

static uint64_t to8(const struct lane *x, enum float8 t, uint64_t v)
{
    return float8_from_f32(t, (uint32_t)float_daz(&F32, v, x->m32), x->m16.f16_ovfl);
}

static uint64_t put_byte(const struct lane *x, uint32_t byte)
{
    int at = 8 * (x->opsel >> 2 & 3);
    return (x->d & ~(0xffull << at)) | (uint64_t)byte << at;
}

/* The bits of 2 / pi behind the point. */
static const uint64_t two_over_pi[] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b0000ull,
};

/* 53 bits of 2 / pi, as far behind the point as segment `n` and a large argument ask for. */
static uint64_t trig_preop(uint64_t v, uint32_t n, struct float_mode m)
{
    enum { BITS = 64 * (int)(sizeof two_over_pi / sizeof *two_over_pi) };
    int e = (int)(v >> 52 & 0x7ff), at = (int)(n & 31) * 53 + (e > 1077 ? e - 1077 : 0);
    uint64_t bits = 0;
    for (int i = at; i < at + 53; i++)
        bits = bits << 1 | (i < BITS ? two_over_pi[i / 64] >> (63 - i % 64) & 1 : 0);
    return float_make(&F64, false, bits, -53 - at + (e >= 1968 ? 128 : 0), m);
}

enum cube_part { CUBE_ID, CUBE_SC, CUBE_TC, CUBE_MA };

/* The face of a cube that direction (a, b, c) meets: the axis of the largest part, and the other two as
 * coordinates. */
static uint64_t cube(const struct lane *x, enum cube_part part)
{
    uint64_t ax = float_abs(&F32, x->a), ay = float_abs(&F32, x->b), az = float_abs(&F32, x->c), minus = 1u << 31;
    int axis = az >= ax && az >= ay ? 2 : ay >= ax ? 1 : 0;
    uint64_t major = axis == 2 ? x->c : axis == 1 ? x->b : x->a;
    bool neg = major >> 31 && float_abs(&F32, major);
    struct float_mode exact = { 0 };
    switch (part) {
    case CUBE_ID:
        return float_from_int(&F32, false, (uint64_t)(2 * axis + neg), exact);
    case CUBE_SC:
        return axis == 2 ? x->a ^ (neg ? minus : 0) : axis == 1 ? x->a : x->c ^ (neg ? 0 : minus);
    case CUBE_TC:
        return axis == 1 ? x->c ^ (neg ? minus : 0) : x->b ^ minus;
    case CUBE_MA:
        return float_ldexp(&F32, major, 1, x->m32);
    }
    return 0;
}

/* ---- comparisons ---- */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };
static int rel(int order) { return order < 0 ? LESS : order == 0 ? EQUAL : order == 1 ? GREATER : UNORDERED; }
#define REL(F, M) rel(float_compare(&F, a, b, M))

/* ---- the tables ---- */

#define OP(name, dst, s0, s1, s2, ...)                                                                               \
    static uint64_t lane_##name(struct lane *x)                                                                      \
    {                                                                                                                \
        const uint64_t a = x->a, b = x->b, c = x->c;                                                                 \
        (void)a, (void)b, (void)c;                                                                                   \
        return (uint64_t)(__VA_ARGS__);                                                                              \
    }                                                                                                                \
    static void run_##name(struct wave *w, const struct inst *in)                                                    \
    {                                                                                                                \
        valu_general(w, in, &valu_ops[V_##name]);                                                                    \
    }
#define CMP(name, dst, s0, s1, s2, ...) OP(cmp_##name, dst, s0, s1, s2, (__VA_ARGS__) != 0)
#define RUN(name, fn)
#include "tools/amdsim/isa/valu_ops.def"

const struct valu_op valu_ops[V_COUNT] = {
#define OP(n, d, s0, s1, s2, ...)                                                                                    \
    [V_##n] = { "v_" #n, NULL, run_##n, lane_##n, T_##d, { T_##s0, T_##s1, T_##s2 } },
#define CMP(n, d, s0, s1, s2, ...)                                                                                   \
    [V_cmp_##n] = { "v_cmp_" #n, "v_cmpx_" #n, run_cmp_##n, lane_cmp_##n, T_##d, { T_##s0, T_##s1, T_##s2 } },
#define RUN(n, fn) [V_##n] = { "v_" #n, NULL, fn, NULL, T_NONE, { T_NONE, T_NONE, T_NONE } },
#include "tools/amdsim/isa/valu_ops.def"
};
