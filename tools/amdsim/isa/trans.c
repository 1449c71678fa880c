/* rcp, rsq, sqrt, exp and log: a table's segment, a polynomial in fixed point, one rounding. */
#include "tools/amdsim/isa/trans.h"

#include <stdbool.h>

#include "tools/amdsim/isa/trans_half.h"

/* A segment holds c0 + c1 x + (c2 + c3 x) x x over its width, x in 0..1; the signs are each function's. */
struct seg {
    uint32_t c0, c1;
    uint16_t c2, c3;
};
struct seg_wide {
    uint32_t c0, c1, c2, c3;
};
struct seg_log {
    int32_t c0;
    uint32_t c1, c2, c3, bias;
};
struct seg_trig {
    int32_t c0, c1, c2, c3;
};
#include "tools/amdsim/isa/trans_rom.inc"

__extension__ typedef unsigned __int128 u128;

enum { F32_INF = 0x7f800000, F32_QUIET = 0x00400000, F32_FRAC = 0x007fffff, F32_ONE = 0x3f800000 };
static const uint32_t f32_sign = 0x80000000u, f32_invalid = 0xffc00000u, f32_inf_neg = 0xff800000u;

static inline uint32_t top_bit(uint64_t v) { return 63 - (uint32_t)__builtin_clzll(v); } /* v != 0 */

static inline uint64_t rne(uint64_t v, uint32_t shift)
{
    uint64_t q = v >> shift, rest = v & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}
static inline uint64_t rne128(u128 v, uint32_t shift)
{
    uint64_t q = (uint64_t)(v >> shift);
    u128 rest = v & (((u128)1 << shift) - 1), half = (u128)1 << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}

/* (c2 - c3 x) x x of the three functions that share a multiplier: f is x with 24 bits. The square and the product
 * keep 24 significant bits, x only 20 of its bits where c3 meets it. */
static inline uint64_t seg_curve(const struct seg *s, uint64_t f, uint32_t c2_shift, uint32_t c3_shift)
{
    uint64_t top = f >> 7, square = (top * top) >> 10;
    uint64_t slope = ((uint64_t)s->c2 << c2_shift) - rne(s->c3 * ((f >> 4) + 1), c3_shift);
    uint64_t p = slope * square;
    return p >> 47 ? rne(p, 24) << 1 : rne(p, 23);
}

/* 1 / (1 + m / 2^29) in 2^-35, m > 0. The f64 instruction adds half a unit of c0 (not in the first segment); rounded
 * to f32, the sum is taken without. */
static inline uint64_t rcp_fixed(uint32_t m, bool wide)
{
    const struct seg *s = &rom_rcp[m >> 24];
    uint64_t f = m & 0xffffff, p = s->c1 * f;
    uint64_t line = p >> 44 ? rne(p, 21) : (p + 0x17ffff) >> 21;
    return (uint64_t)s->c0 * 512 + (wide && m >> 24 ? 256 : 0) - line * 64 + seg_curve(s, f, 8, 12);
}

/* 1 / sqrt((1 + m / 2^29) * 2^odd) in 2^-36. */
static inline uint64_t rsq_fixed(uint32_t odd, uint32_t m, bool wide)
{
    const struct seg *s = &rom_rsq[odd * 32 + (m >> 24)];
    uint64_t f = m & 0xffffff, p = s->c1 * (m >> 24 == 31 ? f & ~0x30ull : f);
    uint64_t line = (p + (p >> 43 ? 0x17ffff : 0x1bffff)) >> 21;
    return (uint64_t)s->c0 * 1024 + (wide && m >> 24 ? 512 : 0) - line * 128 + seg_curve(s, f, 9, 11);
}

/* sqrt((1 + m / 2^28) * 2^odd) in 2^-35. */
static inline uint64_t sqrt_fixed(uint32_t odd, uint32_t m, bool wide)
{
    const struct seg *s = &rom_sqrt[odd * 16 + (m >> 24)];
    uint64_t f = m & 0xffffff, p = s->c1 * f;
    uint64_t line = p >> 45 ? rne(p, 22) : (p + 0x100000) >> 22;
    return (uint64_t)s->c0 * 1024 + (wide && m >> 24 != 15 ? 512 : 0) + line * 128 - seg_curve(s, f, 8, 11);
}

uint32_t trans_rcp_f32(uint32_t x)
{
    uint32_t mag = x & ~f32_sign, sign = x & f32_sign, e = mag >> 23, m = mag & F32_FRAC;
    if (mag > F32_INF)
        return x | F32_QUIET;
    if (e == 0)
        return sign | F32_INF;
    if (e == 255)
        return sign;
    /* 1 / 1.m, above a half: with biased exponent 126, or 127 when it is (or rounds up to) 1 */
    uint32_t r = m ? 0x3e800000 + (uint32_t)rne(rcp_fixed(m << 6, false), 11) : F32_ONE;
    int32_t re = (int32_t)(r >> 23) + 127 - (int32_t)e;
    return re > 0 ? sign | (uint32_t)re << 23 | (r & F32_FRAC) : sign;
}

uint32_t trans_rcp_iflag_f32(uint32_t x)
{
    return trans_rcp_f32(x);
}

uint32_t trans_rsq_f32(uint32_t x)
{
    uint32_t mag = x & ~f32_sign, sign = x & f32_sign, e = mag >> 23, m = mag & F32_FRAC;
    if (mag > F32_INF)
        return x | F32_QUIET;
    if (e == 0)
        return sign | F32_INF;
    if (sign)
        return f32_invalid;
    if (e == 255)
        return 0;
    uint32_t odd = (e - 127) & 1;
    int32_t half = ((int32_t)(e - 127) - (int32_t)odd) / 2;
    uint32_t r = m | odd ? 0x3e800000 + (uint32_t)rne(rsq_fixed(odd, m << 6, false), 12) : F32_ONE;
    return r - ((uint32_t)half << 23);
}

uint32_t trans_sqrt_f32(uint32_t x)
{
    uint32_t mag = x & ~f32_sign, sign = x & f32_sign, e = mag >> 23, m = mag & F32_FRAC;
    if (mag > F32_INF)
        return x | F32_QUIET;
    if (e == 0)
        return sign;
    if (sign)
        return f32_invalid;
    if (e == 255)
        return mag;
    uint32_t odd = (e - 127) & 1;
    int32_t half = ((int32_t)(e - 127) - (int32_t)odd) / 2;
    return 0x3f000000 + (uint32_t)rne(sqrt_fixed(odd, m << 5, false), 12) + ((uint32_t)half << 23);
}

/* A positive value mag * 2^exp before its rounding to a format, or a final word (of f32) that needs none. */
struct unrounded {
    bool final, negative;
    uint32_t bits;
    int32_t exp;
    uint64_t mag;
};
static inline struct unrounded finished(uint32_t bits)
{
    return (struct unrounded){ .final = true, .bits = bits };
}

/* 2^(f / 2^29) in 2^-36: the line is rounded to 24 bits and cut at 2^-28, the curve is a product of 24 bits each. */
static uint64_t exp_fixed(uint32_t f)
{
    const struct seg_wide *s = &rom_exp[f >> 24];
    uint64_t x = f & 0xffffff, p = s->c1 * x, line = (p + (p >> 47 ? 1u << 23 : 1u << 22)) >> 24;
    uint64_t top = x >> 6, square = (top * top) >> 12, sum = ((uint64_t)s->c2 << 7) + s->c3 * top;
    uint64_t q = square * rne(sum, 7);
    return ((s->c0 + line) << 8) + (q >> 47 ? (q + (1u << 23)) >> 24 << 1 : (q + (1u << 22)) >> 23);
}

static struct unrounded exp_wide(uint32_t x)
{
    uint32_t mag = x & ~f32_sign, e = mag >> 23;
    bool negative = x >> 31;
    if (mag > F32_INF)
        return finished(x | F32_QUIET);
    if (e < 103) /* below 2^-24 */
        return finished(F32_ONE);
    if (e >= 134) /* 128 and more */
        return finished(negative ? 0 : F32_INF);
    /* 29 bits of fraction; a negative x goes down a whole and up by the ones' complement of its fraction */
    uint64_t m = (mag & F32_FRAC) | 0x800000, fixed = e >= 121 ? m << (e - 121) : m >> (121 - e);
    uint32_t f = (uint32_t)fixed & 0x1fffffff;
    int32_t n = (int32_t)(fixed >> 29);
    return (struct unrounded){ .exp = (negative ? -n - 1 : n) - 36, .mag = exp_fixed(negative ? f ^ 0x1fffffff : f) };
}

uint32_t trans_exp_f32(uint32_t x)
{
    struct unrounded r = exp_wide(x);
    if (r.final)
        return r.bits;
    uint64_t m = rne(r.mag, 13);
    int32_t e = r.exp + 36 + 127 + (m >> 24 ? 1 : 0);
    if (e <= 0)
        return 0;
    return e >= 255 ? F32_INF : (uint32_t)e << 23 | (m >> 24 ? 0 : (uint32_t)m & F32_FRAC);
}

/* A value of 26 bits loses its last. */
static inline uint64_t keep25(uint64_t v) { return v >> 25 ? v & ~1ull : v; }

/* log2(1.m) in 2^-36. */
static int64_t log_fixed(uint32_t m)
{
    const struct seg_log *s = &rom_log[m >> 17 == 3 ? 32 : m >> 18];
    uint64_t d = m & 0x3ffff, slope = s->c2 - ((s->c3 * d + s->bias) >> 23);
    uint64_t line = ((uint64_t)(uint32_t)s->c0 + ((s->c1 * d) >> 16)) << 6;
    return (int64_t)(line - keep25((slope * ((d * d) >> 12)) >> 22));
}

/* log2 of 1 + n 2^-23, or of 1 - n 2^-24, for n < 2^18. Small n are scaled up by nibbles, so that the answer keeps
 * its relative error. */
static struct unrounded log_near_one(bool below, uint32_t n)
{
    uint32_t scale = 0;
    while (scale < 16 && n << scale < 1u << 14)
        scale += 4;
    uint64_t x = (uint64_t)n << scale, square = (x * x) >> (12 + scale);
    const struct seg_log *s = &rom_log_near[below ? 3 + (n >> 17) : n >> 16 ? 1 + (n >> 17) : 0];
    uint64_t cubic = (uint64_t)s->c3 * n + s->bias;
    uint64_t curve = below ? keep25(((s->c2 + (cubic >> 22)) * square) >> 23)
                           : keep25(((s->c2 - (cubic >> 23)) * square) >> 22);
    uint64_t line = (uint64_t)((int64_t)(((s->c1 * x) >> 15) << 3) + s->c0);
    return (struct unrounded){ .negative = below,
                               .mag = below ? line + curve : line - curve,
                               .exp = -(int32_t)(scale + (below ? 37 : 36)) };
}

static struct unrounded log_wide(uint32_t x, bool *up)
{
    uint32_t mag = x & ~f32_sign, m = mag & F32_FRAC;
    int32_t e = (int32_t)(mag >> 23) - 127;
    *up = true;
    if (mag > F32_INF)
        return finished(x | F32_QUIET);
    if (mag < 0x00800000)
        return finished(f32_inf_neg);
    if (x >> 31)
        return finished(f32_invalid);
    if (mag == F32_INF || mag == F32_ONE)
        return finished(mag == F32_INF ? mag : 0);
    if (e == 0 && m < 1u << 18)
        return log_near_one(false, m);
    if (e == -1 && m > 0x7c0000)
        return log_near_one(true, 0x800000 - m);
    int64_t sum = e * (1ll << 36) + log_fixed(m);
    *up = sum < 0;
    return (struct unrounded){ .negative = sum < 0, .mag = (uint64_t)(sum < 0 ? -sum : sum), .exp = -36 };
}

/* Towards minus infinity; close to one away from zero. */
uint32_t trans_log_f32(uint32_t x)
{
    bool up;
    struct unrounded r = log_wide(x, &up);
    if (r.final)
        return r.bits;
    uint32_t top = top_bit(r.mag);
    uint64_t m = top > 23 ? r.mag >> (top - 23) : r.mag << (23 - top);
    if (up && top > 23 && m << (top - 23) != r.mag)
        m++;
    uint32_t e = (uint32_t)((int32_t)top + r.exp + 127);
    return (r.negative ? f32_sign : 0) | ((e << 23) + (uint32_t)(m - 0x800000)); /* a carry goes into e */
}

/* ---- sin and cos ---- */

/* x times the multiplier for angles so small that sin is a line. */
static uint32_t sin_small(uint32_t x)
{
    uint32_t mag = x & ~f32_sign, e = mag >> 23;
    uint64_t p = (uint64_t)((mag & F32_FRAC) | (e ? 0x800000 : 0)) * 0xc90fd5; /* 2 pi, 2^-21 */
    int32_t top = (int32_t)top_bit(p), re = (int32_t)(e ? e : 1) + top - 44;
    if (re <= 0)
        return (x & f32_sign) | (uint32_t)rne(p, 21);
    uint32_t m = (uint32_t)rne(p, (uint32_t)top - 23);
    return (x & f32_sign) | (((uint32_t)re << 23) + (m - 0x800000));
}

/* f without its last `shift` bits, rounded, but not past a multiple of 2^(20 + shift); a reflected interval comes
 * from below. */
static uint64_t trig_cut(uint32_t f, uint32_t shift, bool reflected)
{
    uint32_t v = f - reflected, r = (v + (1u << (shift - 1))) >> shift, limit = (v >> (20 + shift)) << 20 | 0xfffff;
    return (uint64_t)(r < limit ? r : limit) << shift;
}

/* The first two segments of sin keep more bits, the first one relative to the angle. */
static struct unrounded trig_sin_low(const struct seg_trig *s, bool first, uint32_t f, bool reflected, u128 curve)
{
    uint32_t width = f ? top_bit(f) + 1 : 0;
    uint32_t norm = first && width < 24 ? (24 - width) / 4 * 4 : 0;
    uint32_t up = first && width < 25 ? (25 - width) / 4 * 4 : 0;
    uint64_t x = first ? (uint64_t)f << up : trig_cut(f, 2, reflected);
    if (first && reflected && (x & 0xfffff) == 0)
        x--;
    uint32_t lp = first ? 32 + norm : 30, qp = 34 + norm;
    uint64_t line = ((uint64_t)(uint32_t)s->c1 * x) >> (50 + up - lp);
    uint64_t sum = ((uint64_t)(uint32_t)s->c0 << (qp - 26)) + (line << (qp - lp)) - rne128(curve, 84 - qp);
    return (struct unrounded){ .mag = sum, .exp = -(int32_t)qp };
}

static struct unrounded trig_other(const struct seg_trig *s, uint32_t f, bool reflected, u128 curve)
{
    int64_t p = s->c1 * (int64_t)trig_cut(f, 4, reflected);
    uint64_t mag = (uint64_t)(p < 0 ? -p : p);
    int64_t line = (int64_t)(mag >> 45 ? rne(mag, 22) << 1 : rne(mag, 21));
    u128 bias = (u128)1 << 50;
    int64_t drop = curve <= bias ? 0 : (int64_t)((curve - bias + ((u128)1 << 56) - 1) >> 56);
    return (struct unrounded){ .mag = (uint64_t)((int64_t)s->c0 * 8 + (p < 0 ? -line : line) - drop * 2),
                               .exp = -29 };
}

static uint32_t trig(uint32_t x, bool cosine)
{
    uint32_t mag = x & ~f32_sign;
    int32_t e = (int32_t)(mag >> 23) - 127;
    if (mag >= F32_INF)
        return mag == F32_INF ? f32_invalid : x | F32_QUIET;
    if (mag == 0)
        return cosine ? F32_ONE : x;
    if (!cosine && mag < 0x39c00000)
        return sin_small(x);
    if (e >= 23) /* whole turns */
        return cosine ? F32_ONE : 0;
    /* turns with 31 bits of fraction: two bits of quadrant, then the distance to its nearer end */
    uint64_t m = (mag & F32_FRAC) | (mag >> 23 ? 0x800000 : 0);
    uint32_t phase = e + 8 >= 0 ? (uint32_t)(m << (e + 8)) & 0x7fffffff : e > -40 ? (uint32_t)(m >> -(e + 8)) : 0;
    uint32_t quadrant = phase >> 29, q = phase & 0x1fffffff;
    bool reflected = q >> 28;
    uint32_t d = reflected ? 0x20000000 - q : q, table = cosine ^ (quadrant & 1) ^ reflected;
    uint32_t index = (d - reflected) >> 24, f = d - (index << 24);
    bool negative = (quadrant >> 1) ^ (cosine ? quadrant & 1 : x >> 31);

    uint32_t r = F32_ONE;
    if (!table && d == 0)
        return 0;
    if (!table || d >= 46592) {
        const struct seg_trig *s = &rom_trig[table][index];
        uint64_t root = (f - reflected) >> 7;
        u128 curve = (u128)(uint64_t)(-s->c2 * (1ll << 24) - (int64_t)s->c3 * f) * (root * root);
        struct unrounded u = !table && index < 2 ? trig_sin_low(s, index == 0, f, reflected, curve)
                                                 : trig_other(s, f, reflected, curve);
        if (u.mag == 0)
            return 0;
        uint32_t top = top_bit(u.mag);
        uint64_t sig = top >= 23 ? u.mag >> (top - 23) : u.mag << (23 - top);
        r = (uint32_t)((int32_t)top + u.exp + 127) << 23 | ((uint32_t)sig & F32_FRAC);
    }
    return r | (uint32_t)negative << 31;
}

uint32_t trans_sin_f32(uint32_t x)
{
    return trig(x, false);
}
uint32_t trans_cos_f32(uint32_t x)
{
    return trig(x, true);
}

/* ---- halves: the f32 answer rounded, but exp and log straight from the wide one (f32 could meet a tie) ---- */

static uint16_t unrounded_half(struct unrounded r)
{
    return r.final ? half_of_f32(r.bits) : half_round(r.negative, r.mag, r.exp, false);
}
uint16_t trans_rcp_f16(uint16_t x)
{
    return half_of_f32(trans_rcp_f32(half_to_f32(x)));
}
uint16_t trans_rsq_f16(uint16_t x)
{
    return half_of_f32(trans_rsq_f32(half_to_f32(x)));
}
uint16_t trans_sqrt_f16(uint16_t x)
{
    return half_of_f32(trans_sqrt_f32(half_to_f32(x)));
}
uint16_t trans_sin_f16(uint16_t x)
{
    return half_of_f32(trans_sin_f32(half_to_f32(x)));
}
uint16_t trans_cos_f16(uint16_t x)
{
    return half_of_f32(trans_cos_f32(half_to_f32(x)));
}
uint16_t trans_exp_f16(uint16_t x)
{
    return unrounded_half(exp_wide(half_to_f32(x)));
}
uint16_t trans_log_f16(uint16_t x)
{
    bool up;
    return unrounded_half(log_wide(half_to_f32(x), &up));
}

/* ---- f64: the same tables, cut where they end ---- */

enum { F64_FRAC_BITS = 52 };
static const uint64_t f64_sign = 1ull << 63, f64_inf = 0x7ffull << 52, f64_quiet = 1ull << 51;
static const uint64_t f64_frac = (1ull << 52) - 1, f64_invalid = 0xfff8ull << 48;

/* (1 + frac / 2^52) * 2^e; below the normal range bits fall off. */
static uint64_t f64_make(int32_t e, uint64_t frac)
{
    if (e > 1023)
        return f64_inf;
    if (e >= -1022)
        return (uint64_t)(e + 1023) << F64_FRAC_BITS | frac;
    return ((1ull << F64_FRAC_BITS) | frac) >> (-1022 - e);
}

/* A finite positive number's exponent and fraction, subnormals normalised. */
static int32_t f64_split(uint64_t mag, uint64_t *frac)
{
    int32_t e = (int32_t)(mag >> F64_FRAC_BITS) - 1023;
    *frac = mag & f64_frac;
    if (e == -1023) {
        int32_t up = __builtin_clzll(*frac) - 11;
        *frac = (*frac << up) & f64_frac;
        e = -1022 - up;
    }
    return e;
}

uint64_t trans_rcp_f64(uint64_t x)
{
    uint64_t mag = x & ~f64_sign, sign = x & f64_sign, frac;
    if (mag > f64_inf)
        return x | f64_quiet;
    if (mag == 0 || mag == f64_inf)
        return mag ? sign : sign | f64_inf;
    int32_t e = f64_split(mag, &frac);
    uint32_t m = (uint32_t)(frac >> 23);
    if (frac == 0)
        return sign | f64_make(-e, 0);
    if (frac == f64_frac) /* next above the power of two */
        return sign | (-e - 1 >= -1022 ? f64_make(-e - 1, 1) : f64_make(-e - 1, 0) + 1);
    if (m == 0) /* next below it */
        return sign | (-e > 1023 ? f64_inf : f64_make(-e, 0) - 1);
    return sign | f64_make(-e - 1, (rcp_fixed(m, true) - (1ull << 34)) << 18);
}

uint64_t trans_rsq_f64(uint64_t x)
{
    uint64_t mag = x & ~f64_sign, sign = x & f64_sign, frac;
    if (mag > f64_inf)
        return x | f64_quiet;
    if (mag == 0)
        return sign | f64_inf;
    if (sign || mag == f64_inf)
        return sign ? f64_invalid : 0;
    int32_t e = f64_split(mag, &frac);
    uint32_t odd = (uint32_t)e & 1, m = (uint32_t)(frac >> 23);
    int32_t half = (e - (int32_t)odd) / 2;
    if (!odd && m == 0)
        return frac ? f64_make(-half, 0) - 1 : f64_make(-half, 0);
    return f64_make(-half - 1, (rsq_fixed(odd, m, true) - (1ull << 35)) << 17);
}

uint64_t trans_sqrt_f64(uint64_t x)
{
    uint64_t mag = x & ~f64_sign, frac;
    if (mag > f64_inf)
        return x | f64_quiet;
    if (mag == 0 || x == f64_inf)
        return x;
    if (x & f64_sign)
        return f64_invalid;
    int32_t e = f64_split(mag, &frac);
    uint32_t odd = (uint32_t)e & 1;
    return f64_make((e - (int32_t)odd) / 2, (sqrt_fixed(odd, (uint32_t)(frac >> 24), true) - (1ull << 35)) << 17);
}
