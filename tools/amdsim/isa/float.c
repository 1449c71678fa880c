/* tools/amdsim/isa/float.c: exact significands in 128 bits, rounded once. */
#include "tools/amdsim/isa/float.h"

typedef unsigned __int128 u128;

const struct float_fmt F16 = { 16, 10, 15 }, F32 = { 32, 23, 127 }, F64 = { 64, 52, 1023 };

struct float_mode float_mode_f32(uint32_t mode)
{
    return (struct float_mode){ mode & 3, !(mode & 0x10), !(mode & 0x20), mode >> 23 & 1 };
}

struct float_mode float_mode_f16_f64(uint32_t mode)
{
    return (struct float_mode){ mode >> 2 & 3, !(mode & 0x40), !(mode & 0x80), mode >> 23 & 1 };
}

static int top_bit(u128 x) /* x != 0 */
{
    uint64_t hi = (uint64_t)(x >> 64);
    return hi ? 127 - __builtin_clzll(hi) : 63 - __builtin_clzll((uint64_t)x);
}

/* x >> n with what falls out kept as a sticky lowest bit. */
static u128 shift_jam(u128 x, int n)
{
    if (n <= 0)
        return x;
    if (n >= 128)
        return x != 0;
    return x >> n | ((x & (((u128)1 << n) - 1)) != 0);
}

static bool rounds_away(bool neg, uint32_t round, bool odd, u128 rest, u128 half)
{
    switch (round) {
    case ROUND_EVEN:
        return rest > half || (rest == half && odd);
    case ROUND_UP:
        return rest && !neg;
    case ROUND_DOWN:
        return rest && neg;
    }
    return false;
}

static uint64_t overflow(const struct float_fmt *f, bool neg, struct float_mode m)
{
    bool inf = m.round == ROUND_EVEN || m.round == (neg ? ROUND_DOWN : ROUND_UP);
    if (f->bits == 16 && m.f16_ovfl)
        inf = false;
    return (neg ? float_sign(f) : 0) | (float_inf(f) - !inf);
}

/* A sticky lowest bit of sig must lie at least two bits below the result's last one. */
uint64_t float_make(const struct float_fmt *f, bool neg, u128 sig, int exp, struct float_mode m)
{
    uint64_t sign = neg ? float_sign(f) : 0;
    if (!sig)
        return sign;
    int top = top_bit(sig), e = top + exp;
    if (e > f->bias)
        return overflow(f, neg, m);
    int lowest = 1 - f->bias, shift = (e > lowest ? e : lowest) - f->man - exp;
    u128 kept;
    if (shift <= 0) {
        kept = sig << -shift;
    } else if (shift > 127) {
        kept = rounds_away(neg, m.round, false, 1, 2);
    } else {
        kept = sig >> shift;
        kept += rounds_away(neg, m.round, kept & 1, sig & (((u128)1 << shift) - 1), (u128)1 << (shift - 1));
    }
    /* The exponent field grows by itself when rounding carries out of the significand. */
    uint64_t biased = e > lowest ? (uint64_t)(e + f->bias - 1) : 0;
    uint64_t r = (biased << f->man) + (uint64_t)kept;
    if (r >= float_inf(f))
        return overflow(f, neg, m);
    if (m.ftz && r < 1ull << f->man)
        r = 0;
    return sign | r;
}

uint64_t float_daz(const struct float_fmt *f, uint64_t x, struct float_mode m)
{
    return m.daz && !(x & float_inf(f)) ? x & float_sign(f) : x;
}

/* |x| = sig * 2^exp for a finite x. */
struct parts {
    uint64_t sig;
    int exp;
    bool neg;
};

static struct parts split(const struct float_fmt *f, uint64_t x)
{
    uint64_t frac = x & ((1ull << f->man) - 1), e = (x & float_inf(f)) >> f->man;
    struct parts p = { e ? frac | 1ull << f->man : frac, (int)(e ? e : 1) - f->bias - f->man,
                       (x & float_sign(f)) != 0 };
    return p;
}

/* Both terms exact; 0 has sig 0. */
static uint64_t sum(const struct float_fmt *f, u128 a, int ea, bool na, u128 b, int eb, bool nb, int scale,
                    struct float_mode m)
{
    if (!a && !b)
        return (na == nb ? na : m.round == ROUND_DOWN) ? float_sign(f) : 0;
    if (!a)
        return float_make(f, nb, b, eb + scale, m);
    if (!b)
        return float_make(f, na, a, ea + scale, m);
    enum { TOP = 125 };
    int ta = top_bit(a), tb = top_bit(b), xa = ea + ta, xb = eb + tb, x = xa > xb ? xa : xb;
    a = shift_jam(a << (TOP - ta), x - xa);
    b = shift_jam(b << (TOP - tb), x - xb);
    if (na == nb)
        return float_make(f, na, a + b, x - TOP + scale, m);
    if (a == b)
        return m.round == ROUND_DOWN ? float_sign(f) : 0;
    return a > b ? float_make(f, na, a - b, x - TOP + scale, m) : float_make(f, nb, b - a, x - TOP + scale, m);
}

uint64_t float_add(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m)
{
    uint64_t inf = float_inf(f);
    a = float_daz(f, a, m);
    b = float_daz(f, b, m);
    if (float_is_nan(f, a))
        return a | float_quiet(f);
    if (float_is_nan(f, b))
        return b | float_quiet(f);
    if (float_abs(f, a) == inf)
        return float_abs(f, b) == inf && a != b ? float_default_nan(f) : a;
    if (float_abs(f, b) == inf)
        return b;
    struct parts p = split(f, a), q = split(f, b);
    return sum(f, p.sig, p.exp, p.neg, q.sig, q.exp, q.neg, 0, m);
}

uint64_t float_mul(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m)
{
    uint64_t inf = float_inf(f), sign = (a ^ b) & float_sign(f);
    a = float_daz(f, a, m);
    b = float_daz(f, b, m);
    if (float_is_nan(f, a))
        return a | float_quiet(f);
    if (float_is_nan(f, b))
        return b | float_quiet(f);
    if (float_abs(f, a) == inf || float_abs(f, b) == inf)
        return float_abs(f, a) && float_abs(f, b) ? sign | inf : float_default_nan(f);
    struct parts p = split(f, a), q = split(f, b);
    return float_make(f, sign != 0, (u128)p.sig * q.sig, p.exp + q.exp, m);
}

/* Rounded to format t; NaNs and infinities are left in f's. */
static uint64_t fma_to(const struct float_fmt *f, const struct float_fmt *t, uint64_t a, uint64_t b, uint64_t c,
                       int scale, bool *special, struct float_mode m)
{
    *special = true;
    uint64_t inf = float_inf(f), sign = (a ^ b) & float_sign(f), aa = float_abs(f, a), ab = float_abs(f, b);
    if (aa > inf)
        return a | float_quiet(f);
    if (ab > inf)
        return b | float_quiet(f);
    if (aa == inf || ab == inf) {
        if (!aa || !ab || c == ((sign ^ float_sign(f)) | inf))
            return float_default_nan(f);
        return float_is_nan(f, c) ? c | float_quiet(f) : sign | inf;
    }
    if (float_is_nan(f, c))
        return c | float_quiet(f);
    if (float_abs(f, c) == inf)
        return c;
    *special = false;
    struct parts p = split(f, a), q = split(f, b), r = split(f, c);
    return sum(t, (u128)p.sig * q.sig, p.exp + q.exp, sign != 0, r.sig, r.exp, r.neg, scale, m);
}

uint64_t float_fma_scaled(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, int scale,
                          struct float_mode m)
{
    bool special;
    return fma_to(f, f, a, b, c, scale, &special, m);
}

uint64_t float_fma_narrow(const struct float_fmt *f, const struct float_fmt *t, uint64_t a, uint64_t b, uint64_t c,
                          struct float_mode m)
{
    bool special;
    uint64_t r = fma_to(f, t, float_daz(f, a, m), float_daz(f, b, m), float_daz(f, c, m), 0, &special, m);
    return special ? float_convert(f, t, r, false, m) : r;
}

uint64_t float_fma(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, struct float_mode m)
{
    return float_fma_scaled(f, float_daz(f, a, m), float_daz(f, b, m), float_daz(f, c, m), 0, m);
}

uint64_t float_ldexp(const struct float_fmt *f, uint64_t x, int32_t n, struct float_mode m)
{
    x = float_daz(f, x, m);
    if (float_is_nan(f, x))
        return x | float_quiet(f);
    if (float_abs(f, x) == float_inf(f))
        return x;
    struct parts p = split(f, x);
    n = n < -5000 ? -5000 : n > 5000 ? 5000 : n;
    return float_make(f, p.neg, p.sig, p.exp + n, m);
}

uint64_t float_convert(const struct float_fmt *from, const struct float_fmt *to, uint64_t x, bool daz,
                       struct float_mode m)
{
    uint64_t sign = x & float_sign(from) ? float_sign(to) : 0;
    x = float_daz(from, x, (struct float_mode){ .daz = daz });
    if (float_is_nan(from, x)) {
        uint64_t payload = x & ((1ull << from->man) - 1);
        payload = from->man > to->man ? payload >> (from->man - to->man) : payload << (to->man - from->man);
        return sign | float_inf(to) | payload | float_quiet(to);
    }
    if (float_abs(from, x) == float_inf(from))
        return sign | float_inf(to);
    struct parts p = split(from, x);
    return float_make(to, p.neg, p.sig, p.exp, m);
}

uint64_t float_from_int(const struct float_fmt *f, bool neg, uint64_t magnitude, struct float_mode m)
{
    return float_make(f, neg && magnitude, magnitude, 0, m);
}

/* |x| in units of one, rounded; saturates far above any integer in use. */
static uint64_t to_units(const struct float_fmt *f, uint64_t x, enum float_round how)
{
    struct parts p = split(f, x);
    if (p.exp >= 0)
        return p.exp > 10 ? p.sig ? UINT64_MAX >> 1 : 0 : p.sig << p.exp;
    if (p.exp < -63)
        return p.sig && rounds_away(p.neg, how, false, 1, 2);
    uint64_t kept = p.sig >> -p.exp, rest = p.sig & ((1ull << -p.exp) - 1);
    return kept + rounds_away(p.neg, how, kept & 1, rest, 1ull << (-p.exp - 1));
}

int64_t float_to_int(const struct float_fmt *f, uint64_t x, enum float_round how, int64_t lo, int64_t hi)
{
    bool neg = x & float_sign(f);
    if (float_is_nan(f, x))
        return 0;
    if (float_abs(f, x) == float_inf(f))
        return neg ? lo : hi;
    /* Significands of f64 with exponents up to 10 fit 63 bits; f16 and f32 reach 2^128 and saturate before. */
    struct parts p = split(f, x);
    if (p.sig && top_bit(p.sig) + p.exp >= 62)
        return neg ? lo : hi;
    int64_t v;
    if (p.exp > 0)
        v = (int64_t)(p.sig << p.exp);
    else
        v = (int64_t)to_units(f, x, how);
    v = neg ? -v : v;
    return v < lo ? lo : v > hi ? hi : v;
}

uint64_t float_round_int(const struct float_fmt *f, uint64_t x, enum float_round how, struct float_mode m)
{
    x = float_daz(f, x, m);
    if (float_is_nan(f, x))
        return x | float_quiet(f);
    struct parts p = split(f, x);
    if (float_abs(f, x) == float_inf(f) || p.exp >= 0)
        return x;
    return float_make(f, p.neg, to_units(f, x, how), 0, m);
}

uint64_t float_fract(const struct float_fmt *f, uint64_t x, struct float_mode m)
{
    x = float_daz(f, x, m);
    if (float_is_nan(f, x))
        return x | float_quiet(f);
    if (float_abs(f, x) == float_inf(f))
        return float_default_nan(f);
    uint64_t below = float_round_int(f, x, ROUND_DOWN, m);
    uint64_t r = float_add(f, x, below ^ float_sign(f), m);
    if (!float_abs(f, r))
        return 0;
    return r >= float_one(f) ? float_one(f) - 1 : r;
}

int32_t float_frexp_exp(const struct float_fmt *f, uint64_t x, struct float_mode m)
{
    x = float_daz(f, x, m);
    if (!float_abs(f, x) || float_abs(f, x) >= float_inf(f))
        return 0;
    struct parts p = split(f, x);
    return top_bit(p.sig) + p.exp + 1;
}

uint64_t float_frexp_mant(const struct float_fmt *f, uint64_t x, struct float_mode m)
{
    x = float_daz(f, x, m);
    if (float_is_nan(f, x))
        return x | float_quiet(f);
    if (!float_abs(f, x) || float_abs(f, x) == float_inf(f))
        return x;
    struct parts p = split(f, x);
    return float_make(f, p.neg, p.sig, -1 - top_bit(p.sig), m);
}

/* A key whose unsigned order is the order of numbers, -0 below +0. */
static uint64_t order_key(const struct float_fmt *f, uint64_t x)
{
    return x & float_sign(f) ? ~x & (float_sign(f) | (float_sign(f) - 1)) : x | float_sign(f);
}

int float_compare(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m)
{
    a = float_daz(f, a, m);
    b = float_daz(f, b, m);
    if (float_is_nan(f, a) || float_is_nan(f, b))
        return 2;
    if (a == b || !float_abs(f, a | b))
        return 0;
    return order_key(f, a) < order_key(f, b) ? -1 : 1;
}

uint32_t float_class(const struct float_fmt *f, uint64_t x)
{
    uint64_t v = float_abs(f, x), inf = float_inf(f);
    if (v > inf)
        return v & float_quiet(f) ? 1 << 1 : 1 << 0;
    int kind = v == inf ? 0 : v >> f->man ? 1 : v ? 2 : 3;
    return x & float_sign(f) ? 4u << kind : 512u >> kind;
}

static uint64_t pick(const struct float_fmt *f, uint64_t a, uint64_t b, bool max, enum float_nan_rule r,
                     struct float_mode m)
{
    a = float_daz(f, a, m);
    b = float_daz(f, b, m);
    bool na = float_is_nan(f, a), nb = float_is_nan(f, b);
    if (na || nb) {
        if (r == NAN_IEEE && float_is_snan(f, a))
            return a | float_quiet(f);
        if (r == NAN_IEEE && float_is_snan(f, b))
            return b | float_quiet(f);
        if (r == NAN_FIRST)
            return (na ? a : b) | float_quiet(f);
        if (na && nb)
            return r == NAN_LEGACY ? a : a | float_quiet(f);
        return na ? b : a;
    }
    uint64_t ka = order_key(f, a), kb = order_key(f, b);
    return (max ? kb > ka : kb < ka) ? b : a;
}

uint64_t float_min(const struct float_fmt *f, uint64_t a, uint64_t b, enum float_nan_rule r, struct float_mode m)
{
    return pick(f, a, b, false, r, m);
}

uint64_t float_max(const struct float_fmt *f, uint64_t a, uint64_t b, enum float_nan_rule r, struct float_mode m)
{
    return pick(f, a, b, true, r, m);
}

uint64_t float_med3(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, enum float_nan_rule r,
                    struct float_mode m)
{
    if (float_is_nan(f, a) || float_is_nan(f, b) || float_is_nan(f, c))
        return float_min(f, float_min(f, a, b, r, m), c, r, m);
    uint64_t lo = float_min(f, a, b, r, m), hi = float_max(f, a, b, r, m);
    return float_max(f, lo, float_min(f, hi, c, r, m), r, m);
}

/* ---- division: thresholds and scales as measured on gfx1100 and gfx1201 (the manual's differ) ---- */

static int exp_field(const struct float_fmt *f, uint64_t x)
{
    return (int)((x & float_inf(f)) >> f->man);
}

uint64_t float_div_scale(const struct float_fmt *f, uint64_t a, uint64_t d, uint64_t n, bool *post,
                         struct float_mode m)
{
    int limit = f->bits == 32 ? 96 : 768, scale = f->bits == 32 ? 64 : 128, small = f->bits == 32 ? 24 : 53;
    a = float_daz(f, a, m);
    d = float_daz(f, d, m);
    n = float_daz(f, n, m);
    int ed = exp_field(f, d), en = exp_field(f, n), apart = en - ed, by = 0;
    bool is_d = a == d;
    *post = false;
    if (apart >= limit) {
        *post = true;
        by = is_d ? scale : 0;
    } else if (ed == 0) {
        by = scale;
    } else if (ed >= 2 * f->bias - 1) {
        *post = apart <= -limit;
        by = *post && !is_d ? 0 : -scale;
    } else if (apart <= -limit) {
        *post = true;
        by = is_d ? 0 : scale;
    } else if (en <= small) {
        by = scale;
    }
    if (!float_abs(f, d) || !float_abs(f, n))
        return float_default_nan(f);
    return float_ldexp(f, a, by, (struct float_mode){ m.round, false, m.ftz, m.f16_ovfl });
}

uint64_t float_div_fmas(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, bool post, struct float_mode m)
{
    int scale = f->bits == 32 ? 64 : 128;
    return float_fma_scaled(f, a, b, c, !post ? 0 : exp_field(f, c) > f->bias ? scale : -scale, m);
}

uint64_t float_div_fixup(const struct float_fmt *f, uint64_t q, uint64_t d, uint64_t n, struct float_mode m)
{
    uint64_t inf = float_inf(f);
    d = float_daz(f, d, m);
    n = float_daz(f, n, m);
    uint64_t ad = float_abs(f, d), an = float_abs(f, n), sign = (d ^ n) & float_sign(f);
    if (an > inf)
        return n | float_quiet(f);
    if (ad > inf)
        return d | float_quiet(f);
    if ((!ad && !an) || (ad == inf && an == inf))
        return float_default_nan(f);
    if (!ad || an == inf)
        return sign | inf;
    if (!an || ad == inf)
        return sign;
    if (exp_field(f, n) - exp_field(f, d) < -(f->bias + f->man))
        return float_make(f, sign != 0, 1, -2 * f->bias - 2 * f->man, m);
    if (float_abs(f, q) >= inf)
        return overflow(f, sign != 0, m);
    return sign | float_abs(f, q);
}

/* ---- output modifiers ---- */

uint64_t float_omod(const struct float_fmt *f, uint64_t x, uint32_t omod, struct float_mode m)
{
    int e = exp_field(f, x), add = omod == 3 ? -1 : (int)omod;
    if (!omod || float_abs(f, x) >= float_inf(f))
        return x;
    if (e == 0)
        return 0;
    if (e + add <= 0)
        return x & float_sign(f);
    if (e + add > 2 * f->bias)
        return overflow(f, (x & float_sign(f)) != 0, m);
    return omod == 3 ? x - (1ull << f->man) : x + ((uint64_t)add << f->man);
}

uint64_t float_clamp(const struct float_fmt *f, uint64_t x, bool nan_to_zero)
{
    if (float_is_nan(f, x))
        return nan_to_zero ? 0 : x;
    if (x & float_sign(f))
        return 0;
    return x > float_one(f) ? float_one(f) : x;
}

/* ---- eight bits ---- */

struct fmt8 {
    int man, bias;
    uint32_t max; /* the largest finite value's bits */
};
static const struct fmt8 fmt8[] = { [FP8] = { 3, 7, 0x7e }, [BF8] = { 2, 15, 0x7b } };

uint32_t float8_to_f32(enum float8 t, uint32_t byte)
{
    const struct fmt8 *f = &fmt8[t];
    uint32_t v = byte & 0x7f, sign = (byte & 0x80) << 24, frac = v & ((1u << f->man) - 1);
    int e = (int)(v >> f->man);
    if (t == FP8 ? v == 0x7f : v > 0x7c)
        return sign | 0x7f800000 | frac << (23 - f->man) | 0x400000;
    if (t == BF8 && v == 0x7c)
        return sign | 0x7f800000;
    if (e)
        frac |= 1u << f->man;
    struct float_mode keep = { 0 };
    return (uint32_t)float_make(&F32, sign != 0, frac, (e ? e : 1) - f->bias - f->man, keep);
}

static uint32_t to8(enum float8 t, uint32_t x, bool stochastic, uint32_t random, bool sat)
{
    const struct fmt8 *f = &fmt8[t];
    uint32_t sign = x >> 24 & 0x80, v = x & 0x7fffffff;
    uint32_t inf = t == BF8 ? 0x7c : 0x7f;
    if (v > 0x7f800000)
        return sign | 0x7f;
    if (v == 0x7f800000)
        return sign | (sat ? f->max : inf);
    struct parts p = split(&F32, x);
    if (!p.sig)
        return sign;
    /* Kept bits end at 2^last: the type's own spacing at this exponent, at least its subnormals' one. */
    int e = top_bit(p.sig) + p.exp, lowest = 1 - f->bias, last = (e > lowest ? e : lowest) - f->man;
    int shift = last - p.exp;
    uint64_t wide = (uint64_t)p.sig << 32, kept; /* 32 bits more, for the random ones */
    int cut = shift + 32;
    if (cut > 62) {
        kept = 0;
    } else if (stochastic) {
        uint64_t r = cut >= 32 ? (uint64_t)random << (cut - 32) : (uint64_t)random >> (32 - cut);
        kept = (wide + r) >> cut;
    } else {
        kept = wide >> cut;
        kept += rounds_away(false, ROUND_EVEN, kept & 1, wide & ((1ull << cut) - 1), 1ull << (cut - 1));
    }
    uint64_t biased = e > lowest ? (uint64_t)(e + f->bias - 1) : 0, r = (biased << f->man) + kept;
    if (r > f->max)
        return sign | (sat ? f->max : inf);
    return sign | (uint32_t)r;
}

uint32_t float8_from_f32(enum float8 t, uint32_t f32, bool sat)
{
    return to8(t, f32, false, 0, sat);
}

uint32_t float8_from_f32_sr(enum float8 t, uint32_t f32, uint32_t random, bool sat)
{
    return to8(t, f32, true, random, sat);
}
