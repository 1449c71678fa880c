/* Float arithmetic on bits against this host's own, in every rounding mode; and what no host does, by hand. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/float.h"

static const int host_round[] = { [ROUND_EVEN] = FE_TONEAREST, [ROUND_UP] = FE_UPWARD, [ROUND_DOWN] = FE_DOWNWARD,
                                  [ROUND_ZERO] = FE_TOWARDZERO };

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* Bits of a float of format f: often near another one's exponent, or at the edges of the range. */
static uint64_t any(const struct float_fmt *f)
{
    uint64_t mask = float_sign(f) | (float_sign(f) - 1), r = rnd() >> (64 - f->bits), inf = float_inf(f);
    uint64_t sign = rnd() & float_sign(f), frac = r & ((1ull << f->man) - 1);
    if (rnd() & 1)
        frac &= ~((1ull << f->man / 2) - 1);
    switch (rnd() % 10) {
    case 0:
        return sign | (rnd() & 3);
    case 1:
        return sign | frac; /* subnormal */
    case 2:
        return sign | ((1ull << f->man) + (rnd() & 3) - 2); /* around the least normal */
    case 3:
        return sign | (inf - (rnd() & 3));
    case 4: case 5: case 6:
        return sign | (((uint64_t)f->bias - 6 + rnd() % 12) << f->man) | frac;
    }
    return r & mask;
}

static bool both_nan(const struct float_fmt *f, uint64_t a, uint64_t b)
{
    return float_is_nan(f, a) && float_is_nan(f, b);
}

static float f32(uint64_t v)
{
    uint32_t u = (uint32_t)v;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint64_t b32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static double f64(uint64_t v)
{
    double d;
    memcpy(&d, &v, 8);
    return d;
}
static uint64_t b64(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

enum { ADD, MUL, FMA, N_OPS };

static uint64_t ours(int op, const struct float_fmt *f, const uint64_t *v, struct float_mode m)
{
    return op == ADD   ? float_add(f, v[0], v[1], m)
           : op == MUL ? float_mul(f, v[0], v[1], m)
                       : float_fma(f, v[0], v[1], v[2], m);
}

static uint64_t host32(int op, const uint64_t *v)
{
    volatile float a = f32(v[0]), b = f32(v[1]), c = f32(v[2]), r;
    if (op == ADD)
        r = a + b;
    else if (op == MUL)
        r = a * b;
    else
        r = fmaf(a, b, c);
    return b32(r);
}

static uint64_t host64(int op, const uint64_t *v)
{
    volatile double a = f64(v[0]), b = f64(v[1]), c = f64(v[2]), r;
    if (op == ADD)
        r = a + b;
    else if (op == MUL)
        r = a * b;
    else
        r = fma(a, b, c);
    return b64(r);
}

START_TEST(add_mul_fma_as_the_host_rounds_them)
{
    static const char *const names[] = { "add", "mul", "fma" };
    for (uint8_t round = 0; round < 4; round++)
        for (int op = 0; op < N_OPS; op++)
            for (int i = 0; i < 60000; i++) {
                const struct float_fmt *f = i & 1 ? &F64 : &F32;
                uint64_t v[3] = { any(f), any(f), any(f) };
                struct float_mode m = { .round = round };
                if (i % 16 == 0) /* nearly cancels */
                    v[2] = ours(MUL, f, v, m) ^ float_sign(f) ^ (rnd() & 1);
                fesetround(host_round[round]);
                uint64_t want = f == &F32 ? host32(op, v) : host64(op, v);
                fesetround(FE_TONEAREST);
                uint64_t got = ours(op, f, v, m);
                if (got != want && !both_nan(f, got, want))
                    ck_abort_msg("%s of %d bits, rounding %d: %llx, %llx, %llx gives %llx, the host %llx", names[op],
                                 f->bits, round, (unsigned long long)v[0], (unsigned long long)v[1],
                                 (unsigned long long)v[2], (unsigned long long)got, (unsigned long long)want);
            }
}
END_TEST

/* Halves: sums and products of f16 are exact in f64; that one is rounded here by counting f16 spacings. */
static uint64_t to_half(double d, int round)
{
    uint64_t sign = signbit(d) ? 0x8000 : 0;
    double a = fabs(d);
    int e;
    frexp(a, &e);
    double step = ldexp(1.0, (e < -13 ? -13 : e) - 11), n = a / step, lo = floor(n), rest = n - lo;
    bool up = round == ROUND_EVEN ? rest > 0.5 || (rest == 0.5 && fmod(lo, 2) == 1)
        : round == ROUND_UP       ? rest > 0 && !sign
        : round == ROUND_DOWN     ? rest > 0 && sign
                                  : false;
    a = (lo + up) * step;
    if (a >= 65536.0)
        return sign | (round == ROUND_EVEN || (round == ROUND_UP && !sign) || (round == ROUND_DOWN && sign) ? 0x7c00
                                                                                                            : 0x7bff);
    if (a < 0x1p-14)
        return sign | (uint64_t)(a * 0x1p24);
    frexp(a, &e);
    return sign | (uint64_t)(e + 14) << 10 | ((uint64_t)ldexp(a, 11 - e) & 0x3ff);
}

static double from_half(uint64_t h)
{
    double m = (double)(h & 0x3ff), s = h & 0x8000 ? -1 : 1;
    int e = h >> 10 & 31;
    return s * (e == 0 ? m * 0x1p-24 : ldexp(1024 + m, e - 25));
}

START_TEST(halves)
{
    for (uint8_t round = 0; round < 4; round++)
        for (int i = 0; i < 100000; i++) {
            uint64_t a = any(&F16), b = any(&F16);
            struct float_mode m = { .round = round };
            if ((a & 0x7c00) == 0x7c00 || (b & 0x7c00) == 0x7c00)
                continue;
            double x = from_half(a), y = from_half(b), s = x + y, p = x * y;
            if (s != 0 && float_add(&F16, a, b, m) != to_half(s, round))
                ck_abort_msg("%04x + %04x rounding %d: %04x, not %04x", (int)a, (int)b, round,
                             (int)float_add(&F16, a, b, m), (int)to_half(s, round));
            if (float_mul(&F16, a, b, m) != to_half(p, round))
                ck_abort_msg("%04x * %04x rounding %d: %04x, not %04x", (int)a, (int)b, round,
                             (int)float_mul(&F16, a, b, m), (int)to_half(p, round));
            uint32_t w = (uint32_t)rnd();
            if ((w & 0x7f800000) != 0x7f800000 && float_convert(&F32, &F16, w, false, m) != to_half(f32(w), round))
                ck_abort_msg("%08x to f16, rounding %d", w, round);
            if (float_convert(&F16, &F32, a, false, m) != b32((float)x))
                ck_abort_msg("%04x to f32", (int)a);
            /* fused: the exact sum of a product and an addend of like size fits f64 */
            uint64_t c = any(&F16);
            double z = from_half(c), t = p + z;
            if ((c & 0x7c00) != 0x7c00 && t != 0 && t - p == z && t - z == p &&
                float_fma(&F16, a, b, c, m) != to_half(t, round))
                ck_abort_msg("fma %04x %04x %04x rounding %d", (int)a, (int)b, (int)c, round);
        }
}
END_TEST

START_TEST(conversions_between_widths)
{
    for (uint8_t round = 0; round < 4; round++)
        for (int i = 0; i < 60000; i++) {
            uint64_t d = any(&F64), n = rnd() >> rnd() % 64;
            struct float_mode m = { .round = round };
            if (i & 1) /* into f32's range */
                d = (d & ~float_inf(&F64)) | ((uint64_t)(1023 - 150 + rnd() % 290) << 52);
            fesetround(host_round[round]);
            volatile double in = f64(d);
            volatile float narrow = (float)in, of_int = (float)(int64_t)n;
            volatile double wide = (double)(int64_t)n;
            fesetround(FE_TONEAREST);
            uint64_t got = float_convert(&F64, &F32, d, false, m), want = b32(narrow);
            if (got != want && !both_nan(&F32, got, want))
                ck_abort_msg("f64 %llx to f32: %llx, the host %llx", (unsigned long long)d, (unsigned long long)got,
                             (unsigned long long)want);
            bool neg = (int64_t)n < 0;
            uint64_t mag = neg ? 0 - n : n;
            if (float_from_int(&F32, neg, mag, m) != b32(of_int) || float_from_int(&F64, neg, mag, m) != b64(wide))
                ck_abort_msg("integer %lld, rounding %d", (long long)n, round);
        }
}
END_TEST

START_TEST(to_integers)
{
    struct float_mode m = { 0 };
    static double (*const host[])(double) = { [ROUND_EVEN] = rint, [ROUND_UP] = ceil, [ROUND_DOWN] = floor,
                                              [ROUND_ZERO] = trunc };
    for (int i = 0; i < 100000; i++)
        for (int how = 0; how < 4; how++) {
            uint64_t v = any(&F32), w = any(&F64);
            double r = host[how](f32(v)), big = host[how](f64(w));
            double want = isnan(r) ? 0 : r < -2147483648.0 ? -2147483648.0 : r > 2147483647.0 ? 2147483647.0 : r;
            if ((double)float_to_int(&F32, v, (enum float_round)how, INT32_MIN, INT32_MAX) != want)
                ck_abort_msg("%08llx to i32, rounding %d", (unsigned long long)v, how);
            want = isnan(big) ? 0 : big < 0 ? 0 : big > 4294967295.0 ? 4294967295.0 : big;
            if ((double)float_to_int(&F64, w, (enum float_round)how, 0, UINT32_MAX) != want)
                ck_abort_msg("%016llx to u32, rounding %d", (unsigned long long)w, how);
            uint64_t got = float_round_int(&F64, w, (enum float_round)how, m);
            if (got != b64(big) && !isnan(big))
                ck_abort_msg("%016llx to an integer in f64, rounding %d: %016llx", (unsigned long long)w, how,
                             (unsigned long long)got);
            got = float_round_int(&F32, v, (enum float_round)how, m);
            if (got != b32((float)r) && !isnan(r))
                ck_abort_msg("%08llx to an integer in f32, rounding %d: %08llx", (unsigned long long)v, how,
                             (unsigned long long)got);
        }
}
END_TEST

START_TEST(parts_and_scaling)
{
    struct float_mode m = { 0 };
    for (int i = 0; i < 100000; i++) {
        uint64_t v = any(&F64), u = any(&F32);
        int32_t n = (int32_t)(rnd() % 4400) - 2200, n32 = (int32_t)(rnd() % 600) - 300, e;
        double d = f64(v);
        if (isfinite(d) && float_ldexp(&F64, v, n, m) != b64(ldexp(d, n)))
            ck_abort_msg("ldexp %016llx by %d", (unsigned long long)v, n);
        if (isfinite(f32(u)) && float_ldexp(&F32, u, n32, m) != b32(ldexpf(f32(u), n32)))
            ck_abort_msg("ldexp %08llx by %d", (unsigned long long)u, n32);
        double mant = frexp(d, &e);
        if (isfinite(d) && (float_frexp_mant(&F64, v, m) != b64(mant) || float_frexp_exp(&F64, v, m) != e))
            ck_abort_msg("frexp %016llx", (unsigned long long)v);
        if (isfinite(f32(u))) {
            double fract = (double)f32(u) - floor((double)f32(u));
            float want = (float)fract;
            want = want >= 1 ? 0x1.fffffep-1f : want;
            if (f32(float_fract(&F32, u, m)) != want)
                ck_abort_msg("fract %08llx: %08llx", (unsigned long long)u,
                             (unsigned long long)float_fract(&F32, u, m));
        }
    }
    ck_assert_uint_eq(float_fract(&F32, 0xb3000000, m), 0x3f7fffff); /* just below an integer stays below 1 */
    ck_assert_int_eq(float_ldexp(&F32, 0x3f800000, INT32_MIN, m), 0);
    ck_assert_uint_eq(float_ldexp(&F32, 0xbf800000, INT32_MAX, m), 0xff800000);
}
END_TEST

/* The compiler's sequence for a / b must give the correctly rounded quotient, whatever the reciprocal's last bit. */
static uint64_t divide(const struct float_fmt *f, uint64_t n, uint64_t d, int wobble)
{
    struct float_mode m = { 0 };
    uint64_t one = float_one(f), sign = float_sign(f);
    bool ignored, post;
    uint64_t sd = float_div_scale(f, d, d, n, &ignored, m), sn = float_div_scale(f, n, d, n, &post, m);
    uint64_t r = f == &F32 ? b32(1 / f32(sd)) : b64(1 / f64(sd));
    if (float_abs(f, r) > 1 && float_abs(f, r) < float_inf(f) - 2)
        r += (uint64_t)wobble;
    uint64_t q;
    if (f == &F32) {
        uint64_t e = float_fma(f, sd ^ sign, r, one, m);
        r = float_fma(f, e, r, r, m);
        q = float_mul(f, sn, r, m);
        uint64_t t = float_fma(f, sd ^ sign, q, sn, m);
        q = float_fma(f, t, r, q, m);
        t = float_fma(f, sd ^ sign, q, sn, m);
        q = float_div_fmas(f, t, r, q, post, m);
    } else {
        for (int i = 0; i < 2; i++) {
            uint64_t e = float_fma(f, sd ^ sign, r, one, m);
            r = float_fma(f, r, e, r, m);
        }
        q = float_mul(f, sn, r, m);
        uint64_t t = float_fma(f, sd ^ sign, q, sn, m);
        q = float_div_fmas(f, t, r, q, post, m);
    }
    return float_div_fixup(f, q, d, n, m);
}

START_TEST(division_is_correctly_rounded)
{
    for (int i = 0; i < 150000; i++) {
        const struct float_fmt *f = i & 1 ? &F64 : &F32;
        uint64_t n = any(f), d = any(f), got = divide(f, n, d, (int)(rnd() % 3) - 1);
        uint64_t want = f == &F32 ? b32(f32(n) / f32(d)) : b64(f64(n) / f64(d));
        if (got != want && !both_nan(f, got, want))
            ck_abort_msg("%llx / %llx of %d bits: %llx, the host %llx", (unsigned long long)n, (unsigned long long)d,
                         f->bits, (unsigned long long)got, (unsigned long long)want);
    }
}
END_TEST

START_TEST(which_nan)
{
    struct float_mode m = { 0 };
    const uint64_t q1 = 0x7fc00001, q2 = 0xffc00002, s1 = 0x7f800003, one = 0x3f800000, inf = 0x7f800000,
                   bad = 0xffc00000;
    ck_assert_uint_eq(float_add(&F32, q1, q2, m), q1);
    ck_assert_uint_eq(float_add(&F32, one, q2, m), q2);
    ck_assert_uint_eq(float_add(&F32, s1, q2, m), s1 | 0x400000);
    ck_assert_uint_eq(float_add(&F32, inf, inf | 0x80000000, m), bad);
    ck_assert_uint_eq(float_mul(&F32, inf, 0, m), bad);
    ck_assert_uint_eq(float_fma(&F32, one, q2, q1, m), q2);
    ck_assert_uint_eq(float_fma(&F32, one, one, s1, m), s1 | 0x400000);
    ck_assert_uint_eq(float_fma(&F32, inf, 0, q1, m), bad); /* the product is judged first */
    ck_assert_uint_eq(float_fma(&F32, inf, one, inf | 0x80000000, m), bad);
    ck_assert_uint_eq(float_add(&F16, 0x7c00, 0xfc00, m), 0xfe00);
    ck_assert_uint_eq(float_convert(&F32, &F16, 0x7f800001, false, m), 0x7e00);
    ck_assert_uint_eq(float_convert(&F16, &F32, 0xfd55, false, m), 0xffeaa000);
}
END_TEST

START_TEST(least_and_greatest)
{
    struct float_mode m = { 0 };
    const uint64_t q1 = 0x7fc00001, q2 = 0xffc00002, s1 = 0x7f800003, one = 0x3f800000, two = 0x40000000,
                   neg0 = 0x80000000;
    ck_assert_uint_eq(float_min(&F32, 0, neg0, NAN_NUMBER, m), neg0);
    ck_assert_uint_eq(float_max(&F32, neg0, 0, NAN_NUMBER, m), 0);
    ck_assert_uint_eq(float_min(&F32, q1, one, NAN_NUMBER, m), one);
    ck_assert_uint_eq(float_min(&F32, s1, one, NAN_NUMBER, m), one);
    ck_assert_uint_eq(float_max(&F32, q2, q1, NAN_NUMBER, m), q2);
    ck_assert_uint_eq(float_max(&F32, s1, q1, NAN_NUMBER, m), s1 | 0x400000);
    ck_assert_uint_eq(float_max(&F32, one, q1, NAN_FIRST, m), q1);
    ck_assert_uint_eq(float_max(&F32, q2, s1, NAN_FIRST, m), q2);
    ck_assert_uint_eq(float_min(&F32, s1, one, NAN_IEEE, m), s1 | 0x400000);
    ck_assert_uint_eq(float_min(&F32, q1, one, NAN_IEEE, m), one);
    ck_assert_uint_eq(float_min(&F32, q1, s1, NAN_IEEE, m), s1 | 0x400000);
    ck_assert_uint_eq(float_min(&F32, s1, one, NAN_LEGACY, m), one);
    ck_assert_uint_eq(float_med3(&F32, two, one, 0x40400000, NAN_NUMBER, m), two);
    ck_assert_uint_eq(float_med3(&F32, neg0, 0, neg0, NAN_NUMBER, m), neg0);
    ck_assert_uint_eq(float_med3(&F32, two, q1, one, NAN_NUMBER, m), one);
    ck_assert_uint_eq(float_min(&F32, 1, two, NAN_NUMBER, (struct float_mode){ .daz = true }), 0);
}
END_TEST

START_TEST(flushing_and_modifiers)
{
    struct float_mode keep = { 0 }, in = { .daz = true }, out = { .ftz = true };
    ck_assert_uint_eq(float_add(&F32, 1, 1, keep), 2);
    ck_assert_uint_eq(float_add(&F32, 1, 1, in), 0);
    ck_assert_uint_eq(float_add(&F32, 0x80000001, 0x80000001, in), 0x80000000);
    ck_assert_uint_eq(float_add(&F32, 1, 0x007fffff, out), 0x00800000);
    ck_assert_uint_eq(float_add(&F32, 1, 0x007ffffe, out), 0);
    ck_assert_uint_eq(float_mul(&F32, 0x80800000, 0x3f000000, out), 0x80000000);
    ck_assert_uint_eq(float_convert(&F32, &F16, 0x33800000, false, keep), 1);
    ck_assert_uint_eq(float_convert(&F32, &F16, 0x33800000, false, out), 0);
    ck_assert_uint_eq(float_convert(&F32, &F16, 0x47800000, false, (struct float_mode){ .f16_ovfl = true }), 0x7bff);
    ck_assert_uint_eq(float_convert(&F32, &F16, 0x7f800000, false, (struct float_mode){ .f16_ovfl = true }), 0x7c00);
    ck_assert_uint_eq(float_omod(&F32, 0x3f800000, 1, keep), 0x40000000);
    ck_assert_uint_eq(float_omod(&F32, 0x3f800000, 2, keep), 0x40800000);
    ck_assert_uint_eq(float_omod(&F32, 0xbf800000, 3, keep), 0xbf000000);
    ck_assert_uint_eq(float_omod(&F32, 0x80000000, 1, keep), 0);
    ck_assert_uint_eq(float_omod(&F32, 0x80800000, 3, keep), 0x80000000);
    ck_assert_uint_eq(float_omod(&F32, 0x7f000000, 1, keep), 0x7f800000);
    ck_assert_uint_eq(float_omod(&F32, 0x7f000000, 1, (struct float_mode){ .round = ROUND_ZERO }), 0x7f7fffff);
    ck_assert_uint_eq(float_clamp(&F32, 0x40000000, true), 0x3f800000);
    ck_assert_uint_eq(float_clamp(&F32, 0x80000000, true), 0);
    ck_assert_uint_eq(float_clamp(&F32, 0x7fc00000, true), 0);
    ck_assert_uint_eq(float_clamp(&F32, 0x7fc00000, false), 0x7fc00000);
    ck_assert_uint_eq(float_clamp(&F64, 0x4000000000000000, true), 0x3ff0000000000000);
}
END_TEST

START_TEST(classes)
{
    static const struct { uint32_t v, mask;
    } t[] = {
        {0x7f800001, 1 << 0}, {0x7fc00000, 1 << 1}, {0xff800000, 1 << 2}, {0xbf800000, 1 << 3}, {0x80000001, 1 << 4},
        {0x80000000, 1 << 5}, {0, 1 << 6},          {0x007fffff, 1 << 7}, {0x00800000, 1 << 8}, {0x7f800000, 1 << 9},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        ck_assert_msg(float_class(&F32, t[i].v) == t[i].mask, "class of %08x is %03x", t[i].v,
                      float_class(&F32, t[i].v));
}
END_TEST

/* E4M3 by its definition: s eeee mmm, bias 7, all ones NaN. E5M2: bias 15, infinities. */
static double value8(enum float8 t, int byte)
{
    int man = t == FP8 ? 3 : 2, bias = t == FP8 ? 7 : 15, e = (byte & 0x7f) >> man, frac = byte & ((1 << man) - 1);
    double v = e ? ldexp(1 + ldexp(frac, -man), e - bias) : ldexp(frac, 1 - bias - man);
    return byte & 0x80 ? -v : v;
}

START_TEST(eight_bits)
{
    for (int t = FP8; t <= BF8; t++) {
        int last = t == FP8 ? 0x7e : 0x7b;
        for (int b = 0; b <= last; b++) {
            ck_assert_double_eq(f32(float8_to_f32((enum float8)t, (uint32_t)b)), value8((enum float8)t, b));
            ck_assert_uint_eq(float8_from_f32((enum float8)t, (uint32_t)b32((float)value8((enum float8)t, b)), false),
                              (uint32_t)b);
            if (b == last)
                continue;
            /* between neighbours: nearest, ties to the even byte */
            double lo = value8((enum float8)t, b), hi = value8((enum float8)t, b + 1), mid = (lo + hi) / 2;
            uint32_t even = (uint32_t)(b & 1 ? b + 1 : b);
            ck_assert_uint_eq(float8_from_f32((enum float8)t, (uint32_t)b32((float)mid), false), even);
            ck_assert_uint_eq(float8_from_f32((enum float8)t, (uint32_t)b32(nextafterf((float)mid, 1e9f)), false),
                              (uint32_t)b + 1);
            ck_assert_uint_eq(float8_from_f32((enum float8)t, (uint32_t)b32(nextafterf((float)mid, -1)), false),
                              (uint32_t)b);
            /* stochastic: a quarter of the way up, random bits decide at three quarters */
            if (b > 0) {
                uint32_t quarter = (uint32_t)b32((float)(lo + (hi - lo) / 4));
                ck_assert_uint_eq(float8_from_f32_sr((enum float8)t, quarter, 0xbfffffff, false), (uint32_t)b);
                ck_assert_uint_eq(float8_from_f32_sr((enum float8)t, quarter, 0xc0000000, false), (uint32_t)b + 1);
            }
        }
    }
    ck_assert_uint_eq(float8_from_f32(FP8, 0x43e00000, true), 0x7e);  /* 448, the largest */
    ck_assert_uint_eq(float8_from_f32(FP8, 0x44000000, true), 0x7e);  /* 512 saturates */
    ck_assert_uint_eq(float8_from_f32(FP8, 0x44000000, false), 0x7f); /* or is NaN: no infinity */
    ck_assert_uint_eq(float8_from_f32(BF8, 0xff800000, false), 0xfc);
    ck_assert_uint_eq(float8_from_f32(BF8, 0xff800000, true), 0xfb);
    ck_assert_uint_eq(float8_from_f32(FP8, 0x7fc00000, true), 0x7f);
    ck_assert(isnan(f32(float8_to_f32(FP8, 0xff))) && isnan(f32(float8_to_f32(BF8, 0x7d))));
    ck_assert_uint_eq(float8_to_f32(BF8, 0xfc), 0xff800000);
}
END_TEST

int main(void)
{
    return RUN_TESTS("valu_float", add_mul_fma_as_the_host_rounds_them, halves, conversions_between_widths,
                     to_integers, parts_and_scaling, division_is_correctly_rounded, which_nan, least_and_greatest,
                     flushing_and_modifiers, classes, eight_bits);
}
