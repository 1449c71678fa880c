/* rcp, rsq, sqrt, exp, log, sin, cos: words captured on real cards, digests published over whole ranges, and libm as
 * a bound everywhere. */
#include <math.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/trans.h"

static float f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t u32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static double f64(uint64_t u)
{
    double d;
    memcpy(&d, &u, 8);
    return d;
}
static uint64_t u64(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

/* ck_assert costs a microsecond even when it holds. */
#define CHECK_THAT(cond, ...)                                                                                        \
    do {                                                                                                             \
        if (!(cond))                                                                                                 \
            ck_abort_msg(__VA_ARGS__);                                                                               \
    } while (0)

struct word {
    uint32_t in, out;
};
static void words(const char *name, uint32_t (*f)(uint32_t), const struct word *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(f(w[i].in) == w[i].out, "%s %08x: %08x, not %08x", name, w[i].in, w[i].out, f(w[i].in));
}
#define WORDS(name, ...)                                                                                             \
    words(#name, trans_##name##_f32, (const struct word[]){ __VA_ARGS__ },                                           \
          sizeof((const struct word[]){ __VA_ARGS__ }) / sizeof(struct word))

/* gfx1100 and gfx1201 agree on all of them. */
START_TEST(captured_words)
{
    WORDS(rcp, { 0x3F800000, 0x3F800000 }, { 0x3F800001, 0x3F7FFFFE }, { 0x3F81FFFF, 0x3F7C0FC3 },
          { 0x3F83FFFF, 0x3F783E12 }, { 0x3FC00000, 0x3F2AAAAA }, { 0x3FFFFFFF, 0x3F000001 },
          { 0x3F802922, 0x3F7FADD6 }, { 0x3F932EDD, 0x3F5EA262 }, { 0x3FB0333C, 0x3F39F868 },
          { 0x00800000, 0x7E800000 }, { 0x7F000000, 0x00000000 }, { 0x00000001, 0x7F800000 });
    WORDS(rsq, { 0x3F800001, 0x3F7FFFFF }, { 0x3F83FFFF, 0x3F7C1765 }, { 0x3F8040C4, 0x3F7FBF55 },
          { 0x3FC00000, 0x3F5105EC }, { 0x40000000, 0x3F3504F3 }, { 0x40000001, 0x3F3504F2 },
          { 0x40040000, 0x3F32416A }, { 0x40400000, 0x3F13CD3A }, { 0x00000000, 0x7F800000 },
          { 0x80000001, 0xFF800000 }, { 0xBF800000, 0xFFC00000 });
    WORDS(sqrt, { 0x3F7A2707, 0x3F7D0F30 }, { 0x3F800001, 0x3F800000 }, { 0x3F800005, 0x3F800002 },
          { 0x4005A8F7, 0x3FB8FA71 }, { 0x3FFFFFFF, 0x3FB504F3 }, { 0x407FFFFF, 0x3FFFFFFF },
          { 0x00800001, 0x20000000 }, { 0x7F7FFFFF, 0x5F7FFFFF }, { 0x80000001, 0x80000000 });
    WORDS(log, { 0x3F7BFFFF, 0xBCBA1FA3 }, { 0x3F7FFFFF, 0xB3B8AA3C }, { 0x3F800001, 0x3438AA3B },
          { 0x3F80FFFF, 0x3C37F1CE }, { 0x3F81FFFF, 0x3CB73C5A }, { 0x3F83FFFF, 0x3D35D66F },
          { 0x3FFFFFFF, 0x3F7FFFFF }, { 0x3F000000, 0xBF800000 });
    WORDS(exp, { 0x337FFFFF, 0x3F800000 }, { 0xB3800000, 0x3F7FFFFF }, { 0x42FFFFFF, 0x7F7FFFA7 },
          { 0xC2FC0000, 0x00800000 }, { 0xC2FC0001, 0x00000000 }, { 0x3F0567EC, 0x3FB7B03D },
          { 0xC114ED44, 0x3ACECC1E }, { 0x3E000090, 0x3F8B95D0 }, { 0x3F40006F, 0x3FD7453E });
}
END_TEST

START_TEST(special_values)
{
    WORDS(rcp, { 0x80000000, 0xFF800000 }, { 0x807FFFFF, 0xFF800000 }, { 0x7F800000, 0 }, { 0xFF800000, 0x80000000 },
          { 0xFF000000, 0x80000000 }, { 0x7E800000, 0x00800000 }, { 0x7E800001, 0 }, { 0xFF812345, 0xFFC12345 },
          { 0x7FC00001, 0x7FC00001 });
    WORDS(rsq, { 0x7F800000, 0 }, { 0xFF800000, 0xFFC00000 }, { 0x80000000, 0xFF800000 }, { 0x7F800001, 0x7FC00001 });
    WORDS(sqrt, { 0x7F800000, 0x7F800000 }, { 0xFF800000, 0xFFC00000 }, { 0x80800000, 0xFFC00000 }, { 0x007FFFFF, 0 },
          { 0xFFA00000, 0xFFE00000 });
    WORDS(log, { 0x3F800000, 0 }, { 0, 0xFF800000 }, { 0x80000001, 0xFF800000 }, { 0x80800000, 0xFFC00000 },
          { 0x7F800000, 0x7F800000 }, { 0xFF800000, 0xFFC00000 }, { 0x7F800001, 0x7FC00001 },
          { 0x41000000, 0x40400000 });
    WORDS(exp, { 0, 0x3F800000 }, { 0x80000001, 0x3F800000 }, { 0x43000000, 0x7F800000 }, { 0x7F800000, 0x7F800000 },
          { 0xFF800000, 0 }, { 0x7F800001, 0x7FC00001 }, { 0x41200000, 0x44800000 }, { 0xC1200000, 0x3A800000 });
    WORDS(sin, { 0, 0 }, { 0x80000000, 0x80000000 }, { 0x3E800000, 0x3F800000 }, { 0xBE800000, 0xBF800000 },
          { 0x3F000000, 0 }, { 0x4B000001, 0 }, { 0x7F800000, 0xFFC00000 }, { 0x7F800001, 0x7FC00001 });
    WORDS(cos, { 0, 0x3F800000 }, { 0x3E800000, 0 }, { 0x3F000000, 0xBF800000 }, { 0xBF800000, 0x3F800000 },
          { 0x7F7FFFFF, 0x3F800000 }, { 0xFF800000, 0xFFC00000 });
}
END_TEST

/* Over all words of a range, in order, as published with the captures. */
struct digest {
    const char *name;
    uint32_t (*f)(uint32_t);
    uint32_t first, n;
    float step; /* not 0: of i * step instead of first + i */
    uint64_t want;
};
START_TEST(digests_of_whole_ranges)
{
    static const struct digest d[] = {
        { "rcp", trans_rcp_f32, 0x3f800000, 1u << 23, 0, 0xD54EC24992572DF9 },
        { "rsq", trans_rsq_f32, 0x3f800000, 1u << 24, 0, 0x010BC79EB6E48CAF },
        { "sqrt", trans_sqrt_f32, 0x3f800000, 1u << 24, 0, 0x514D49D31F12176B },
        { "log", trans_log_f32, 0x3f000000, 1u << 24, 0, 0xC33A54EFBAE098BE },
        { "exp", trans_exp_f32, 0, 1u << 24, 0x1p-24f, 0x68959BB684F42E5F },
        { "exp of negative", trans_exp_f32, 0, 1u << 24, -0x1p-24f, 0x88B75684494DB8D3 },
    };
    for (size_t k = 0; k < sizeof d / sizeof *d; k++) {
        uint64_t h = 0xCBF29CE484222325;
        for (uint32_t i = 0; i < d[k].n; i++)
            h = (h ^ d[k].f(d[k].step != 0 ? u32((float)i * d[k].step) : d[k].first + i)) * 0x100000001B3;
        ck_assert_msg(h == d[k].want, "%s: digest %016llX, not %016llX", d[k].name, (unsigned long long)d[k].want,
                      (unsigned long long)h);
    }
}
END_TEST

/* Ulps between a result and the exact value. */
static double ulps(uint32_t got, double want)
{
    int e;
    frexp(want, &e);
    return fabs(f32(got) - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

START_TEST(within_an_ulp_of_libm)
{
    for (uint64_t i = 0x00800000; i < 0x7f800000; i += 4099) {
        uint32_t x = (uint32_t)i;
        double v = (double)f32(x);
        if (i < 0x7e800000)
            CHECK_THAT(ulps(trans_rcp_f32(x), 1 / v) <= 1, "rcp %08x", x);
        CHECK_THAT(ulps(trans_rsq_f32(x), 1 / sqrt(v)) <= 1, "rsq %08x", x);
        CHECK_THAT(ulps(trans_sqrt_f32(x), sqrt(v)) <= 1, "sqrt %08x", x);
        if (x != 0x3f800000)
            CHECK_THAT(ulps(trans_log_f32(x), log2(v)) <= 1, "log %08x", x);
        if (i < 0x42fc0000) {
            CHECK_THAT(ulps(trans_exp_f32(x), exp2(v)) <= 1, "exp %08x", x);
            CHECK_THAT(ulps(trans_exp_f32(x | 0x80000000), exp2(-v)) <= 1, "exp %08x", x | 0x80000000);
        }
        if (i < 0x46000000) {
            double turn = 2 * 3.14159265358979323846 * fmod(v, 1);
            CHECK_THAT(fabs((double)f32(trans_sin_f32(x)) - sin(turn)) < 0x1p-22, "sin %08x", x);
            CHECK_THAT(fabs((double)f32(trans_cos_f32(x)) - cos(turn)) < 0x1p-22, "cos %08x", x);
            CHECK_THAT(trans_cos_f32(x | 0x80000000) == trans_cos_f32(x), "cos %08x", x | 0x80000000);
        }
    }
}
END_TEST

/* ---- f16: all 65,536 ---- */

static double half_value(uint16_t h)
{
    double m = (h & 1023) + (h & 0x7c00 ? 1024 : 0), v = ldexp(m, (h & 0x7c00 ? h >> 10 & 31 : 1) - 25);
    return h & 0x8000 ? -v : v;
}
/* The nearest half of a value, ties to even, by comparing with neighbours; v finite. */
static uint16_t half_nearest(double v)
{
    double a = fabs(v), scaled;
    int e;
    if (a >= 65520)
        return (uint16_t)((v < 0) << 15 | 0x7c00);
    frexp(a, &e);
    e = e < -13 ? -13 : e;
    scaled = ldexp(a, 11 - e); /* in units of the last place */
    double down = floor(scaled), rest = scaled - down;
    uint32_t m = (uint32_t)down;
    m += rest > 0.5 || (rest == 0.5 && (m & 1));
    uint32_t bits = m == 0 || (e == -13 && m < 1024) ? m : ((uint32_t)(e + 13) << 10) + m;
    return (uint16_t)((uint32_t)signbit(v) << 15 | bits);
}
START_TEST(halves)
{
    for (uint32_t x = 0; x < 0x10000; x++) {
        uint16_t h = (uint16_t)x;
        double v = half_value(h);
        if ((h & 0x7fff) > 0x7c00) {
            ck_assert_uint_eq(trans_exp_f16(h), h | 0x200);
            ck_assert_uint_eq(trans_sin_f16(h), h | 0x200);
            continue;
        }
        if ((h & 0x7fff) == 0x7c00 || v == 0)
            continue;
        uint16_t e = half_nearest(exp2(v < -30 ? -30 : v > 30 ? 30 : v));
        CHECK_THAT(trans_exp_f16(h) == e, "exp %04x: %04x, not %04x", h, e, trans_exp_f16(h));
        /* rcp takes the f32 answer, which may fall on a tie that the exact one misses */
        int d = trans_rcp_f16(h) - half_nearest(1 / v);
        CHECK_THAT(d >= -1 && d <= 1, "rcp %04x: %04x", h, trans_rcp_f16(h));
        if (h & 0x8000) {
            ck_assert_uint_eq(trans_log_f16(h), 0xfe00);
            ck_assert_uint_eq(trans_sqrt_f16(h), 0xfe00);
            ck_assert_uint_eq(trans_rsq_f16(h), 0xfe00);
            continue;
        }
        CHECK_THAT(trans_log_f16(h) == half_nearest(log2(v)), "log %04x: %04x", h, trans_log_f16(h));
        CHECK_THAT(trans_sqrt_f16(h) == half_nearest(sqrt(v)), "sqrt %04x: %04x", h, trans_sqrt_f16(h));
        d = trans_rsq_f16(h) - half_nearest(1 / sqrt(v));
        CHECK_THAT(d >= -1 && d <= 1, "rsq %04x: %04x", h, trans_rsq_f16(h));
    }
    ck_assert_uint_eq(trans_rcp_f16(0x8000), 0xfc00);
    ck_assert_uint_eq(trans_rcp_f16(0x0001), 0x7c00); /* 2^24 */
    ck_assert_uint_eq(trans_rcp_f16(0x7800), 0x0200); /* 2^-15, a subnormal */
    ck_assert_uint_eq(trans_log_f16(0), 0xfc00);
    ck_assert_uint_eq(trans_exp_f16(0xcc00), 0x0100); /* 2^-16 */
    ck_assert_uint_eq(trans_cos_f16(0x3800), 0xbc00);
}
END_TEST

START_TEST(doubles)
{
    uint64_t x = 88172645463325252;
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t u = (x & 0x000fffffffffffff) | (uint64_t)(1023 + (int)(x >> 52 & 255) - 128) << 52;
        double v = f64(u);
        CHECK_THAT(fabs(f64(trans_rcp_f64(u)) * v - 1) < 0x1p-24, "rcp %a", v);
        CHECK_THAT(fabs(f64(trans_rsq_f64(u)) * sqrt(v) - 1) < 0x1p-24, "rsq %a", v);
        CHECK_THAT(fabs(f64(trans_sqrt_f64(u)) / sqrt(v) - 1) < 0x1p-24, "sqrt %a", v);
    }
    static const double exact[][2] = { { 1, 1 }, { 4, 0.25 }, { -8, -0.125 }, { 0x1p-1022, 0x1p1022 },
                                       { 0x1p1023, 0x1p-1023 }, { -0.0, -INFINITY }, { INFINITY, 0 } };
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        CHECK_THAT(trans_rcp_f64(u64(exact[i][0])) == u64(exact[i][1]), "rcp %a", exact[i][0]);
    ck_assert_uint_eq(trans_rcp_f64(1), u64(INFINITY)); /* the smallest subnormal */
    ck_assert_uint_eq(trans_rcp_f64(0x7ff0000000000001), 0x7ff8000000000001);
    ck_assert_uint_eq(trans_rsq_f64(u64(-1)), 0xfff8000000000000);
    ck_assert_uint_eq(trans_rsq_f64(u64(16)), u64(0.25));
    ck_assert_uint_eq(trans_sqrt_f64(u64(-0.0)), u64(-0.0));
    ck_assert_uint_eq(trans_sqrt_f64(u64(INFINITY)), u64(INFINITY));
    ck_assert_uint_eq(trans_sqrt_f64(u64(-INFINITY)), 0xfff8000000000000);
}
END_TEST

int main(void)
{
    return RUN_TESTS("amdsim: transcendentals", captured_words, special_values, digests_of_whole_ranges,
                     within_an_ulp_of_libm, halves, doubles);
}
