/* The vector ALU, instruction by instruction, through the assembler, the decoder and a running wave: what C on the
 * host says for corner cases and random words, in active lanes; inactive lanes must keep what they had. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/amdsim/isa_asm.h"
#include "tests/lib/run.h"

/* One lane's operands, and what comes of them. */
struct io {
    uint64_t a, b, c, d;
    bool cin, cin2, out;
    uint32_t lane;
};

enum kind { W16, W32, W64, F16, F32, F64, PK16, MASK, W32C, W64C };
enum chips { G11 = 1, G12 = 2, ALL = 3 };

static float f32_of(uint64_t v)
{
    uint32_t u = (uint32_t)v;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static double f64_of(uint64_t v)
{
    double d;
    memcpy(&d, &v, 8);
    return d;
}
static uint64_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static uint64_t f64_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

#define A ((uint32_t)x->a)
#define B ((uint32_t)x->b)
#define C ((uint32_t)x->c)
#define SA ((int32_t)x->a)
#define SB ((int32_t)x->b)
#define SC ((int32_t)x->c)
#define HA (A & 0xffff)
#define HB (B & 0xffff)
#define HC (C & 0xffff)
#define FA f32_of(x->a)
#define FB f32_of(x->b)
#define FC f32_of(x->c)
#define FD f32_of(x->d)
#define DA f64_of(x->a)
#define DB f64_of(x->b)
#define DC f64_of(x->c)
#define PAIR(lo, hi) (((uint64_t)(lo) & 0xffff) | ((uint64_t)(hi) & 0xffff) << 16)
#define CARRY(v) (x->out = (v) > UINT32_MAX, (v))
#define BORROW(p, q) (x->out = (uint64_t)(p) < (uint64_t)(q), (uint64_t)(p) - (uint64_t)(q))
#define WIDE_CARRY(v) (x->out = (v) >> 64 & 1, (uint64_t)(v))

static int64_t bounded(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
static int64_t s24(uint32_t v) { return (int64_t)(v & 0xffffff) - (v & 0x800000 ? 0x1000000 : 0); }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static uint32_t bit_reverse(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

/* How many steps from bit `at` in direction `by` to the first one. */
static uint32_t first_one(uint32_t v, int at, int by)
{
    for (uint32_t n = 0; n < 32; n++, at += by)
        if (v >> at & 1)
            return n;
    return ~0u;
}

static uint32_t count_ones(uint64_t v)
{
    uint32_t n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

static int64_t field_signed(uint32_t v, uint32_t at, uint32_t width)
{
    int64_t word = (int32_t)v, field = floor_div(word, 1ll << at);
    if (!width)
        return 0;
    field &= (1ll << width) - 1;
    return field >> (width - 1) & 1 ? field - (1ll << width) : field;
}

static int64_t nth_of(int n, int64_t a, int64_t b, int64_t c)
{
    int64_t v[3] = { a, b, c };
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (v[j] < v[i]) {
                int64_t t = v[i];
                v[i] = v[j];
                v[j] = t;
            }
    return v[n];
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t sel)
{
    uint8_t from[8], out[4];
    memcpy(from, &b, 4);
    memcpy(from + 4, &a, 4);
    for (int i = 0; i < 4; i++) {
        uint8_t s = (uint8_t)(sel >> 8 * i);
        out[i] = s < 8 ? from[s] : s == 12 ? 0 : s > 12 ? 0xff : from[2 * (s - 8) + 1] >= 0x80 ? 0xff : 0;
    }
    uint32_t r;
    memcpy(&r, out, 4);
    return r;
}

enum byte_op { BYTE_LERP, BYTE_SAD, BYTE_MSAD };
static uint64_t each_byte(const struct io *x, enum byte_op op)
{
    uint64_t r = 0;
    for (int i = 3; i >= 0; i--) {
        int a = A >> 8 * i & 255, b = B >> 8 * i & 255;
        if (op == BYTE_LERP)
            r = r * 256 + (uint64_t)((a + b + (int)(C >> 8 * i & 1)) / 2);
        else if (op == BYTE_SAD || b)
            r += (uint64_t)abs(a - b);
    }
    return r;
}

static uint64_t quad_sad(const struct io *x, bool masked)
{
    uint16_t r[4], c[4];
    uint8_t a[8], b[4];
    memcpy(a, &x->a, 8);
    memcpy(b, &x->b, 4);
    memcpy(c, &x->c, 8);
    for (int i = 0; i < 4; i++) {
        int sum = c[i];
        for (int k = 0; k < 4; k++)
            sum += masked && !b[k] ? 0 : abs(a[i + k] - b[k]);
        r[i] = (uint16_t)sum;
    }
    uint64_t v;
    memcpy(&v, r, 8);
    return v;
}

static int64_t dot(const struct io *x, int bits, int a_signed, int b_signed)
{
    int64_t sum = 0;
    for (int i = 0; i < 32 / bits; i++) {
        int64_t n = 1 << bits, a = A / (1ll << bits * i) % n, b = B / (1ll << bits * i) % n;
        sum += (a_signed && a >= n / 2 ? a - n : a) * (b_signed && b >= n / 2 ? b - n : b);
    }
    return sum;
}

/* a before b, -0 before 0 */
static bool below(double a, double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }
static bool signaling(uint32_t v) { return (v & 0x7fffffff) > 0x7f800000 && !(v & 0x400000); }

static uint64_t picked11(const struct io *x, bool max)
{
    if (signaling(A) || signaling(B))
        return 0x7fc00000;
    if (isnan(FA) || isnan(FB))
        return isnan(FA) ? B : A;
    return below(FA, FB) == max ? B : A;
}

static double mantissa(double v)
{
    int e;
    return frexp(v, &e);
}
static int exponent(double v)
{
    int e = 0;
    if (isfinite(v))
        frexp(v, &e);
    return e;
}
static int64_t to_int(double v, double lo, double hi) { return isnan(v) ? 0 : (int64_t)fmin(fmax(trunc(v), lo), hi); }
static int64_t norm(double v, double lo, double hi)
{
    return isnan(v) ? 0 : (int64_t)rint(fmin(fmax(v * hi, lo), hi));
}

static double hf(uint64_t bits)
{
    uint32_t h = (uint32_t)bits & 0xffff, e = h >> 10 & 31, m = h & 0x3ff;
    double v = e == 31 ? (m ? NAN : INFINITY) : e == 0 ? m * 0x1p-24 : ldexp(1024.0 + m, (int)e - 25);
    return h & 0x8000 ? -v : v;
}

/* The f16 nearest to d, or the one below its magnitude. */
static uint64_t round_half(double d, bool cut)
{
    uint64_t sign = signbit(d) ? 0x8000 : 0;
    double a = fabs(d);
    int e;
    if (isnan(d))
        return 0x7e00;
    if (isinf(d))
        return sign | 0x7c00;
    frexp(a, &e);
    double step = ldexp(1.0, (e < -13 ? -13 : e) - 11);
    a = (cut ? floor(a / step) : rint(a / step)) * step;
    if (a >= 65536)
        return sign | (cut ? 0x7bff : 0x7c00);
    if (a < 0x1p-14)
        return sign | (uint64_t)(a * 0x1p24);
    frexp(a, &e);
    return sign | (uint64_t)(e + 14) << 10 | ((uint64_t)ldexp(a, 11 - e) & 0x3ff);
}
static uint64_t half(double d) { return round_half(d, false); }
static uint64_t half_toward_zero(double d) { return round_half(d, true); }

static uint32_t class_bit(int kind, bool neg, bool quiet)
{
    if (kind == FP_NAN)
        return quiet ? 2 : 1;
    int k = kind == FP_INFINITE ? 0 : kind == FP_NORMAL ? 1 : kind == FP_SUBNORMAL ? 2 : 3;
    return neg ? 1u << (2 + k) : 1u << (9 - k);
}

/* ---- the table: a function per line of the .def ---- */

#define NAME2(line) case_##line
#define NAME(line) NAME2(line)
#define CASE(chips, kind, text, ...)                                                                                 \
    static uint64_t NAME(__LINE__)(struct io *x)                                                                     \
    {                                                                                                                \
        const bool cin = x->cin;                                                                                     \
        (void)cin;                                                                                                   \
        return (uint64_t)(__VA_ARGS__);                                                                              \
    }
#include "tests/amdsim/isa_valu_cases.def"
#undef CASE

static const struct instruction {
    enum chips chips;
    enum kind kind;
    const char *text;
    uint64_t (*value)(struct io *x);
} table[] = {
#define CASE(chips, kind, text, ...) { chips, kind, text, NAME(__LINE__) },
#include "tests/amdsim/isa_valu_cases.def"
#undef CASE
};
enum { N = sizeof table / sizeof table[0] };

/* ---- inputs ---- */

static uint64_t seed;
static uint32_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static uint32_t word(enum kind k)
{
    static const uint32_t corner[] = {
        0,          1,          2,          15,         16,         31,         32,         33,
        63,         64,         0x7f,       0x80,       0xff,       0x7fff,     0x8000,     0xffff,
        0x10000,    0x7fffff,   0x800000,   0xffffff,   0x1000000,  0x7fffffff, 0x80000000, 0x80000001,
        0xffffffff, 0x3f800000, 0xbf800000, 0x3f000000, 0x3effffff, 0x3fc00000, 0xc0200000, 0x7f800000,
        0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x00800000, 0x007fffff, 0x7f7fffff, 0x4effffff,
        0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000, 0x3c003c00, 0x7c00fc00, 0x7e00fbff, 0x00010400,
        0x03ff8000, 0x03020100, 0x0c0d0b0a, 0x47000000, 0xc7000001, 0x477fe000, 0x477ff000, 0x33800000,
    };
    switch (rnd() % 6) {
    case 0:
        return rnd();
    case 1: case 2:
        return corner[rnd() % (sizeof corner / sizeof *corner)];
    case 3:
        return k == F16 || k == PK16 ? (rnd() & 0x8fff8fff) + 0x30003000 : 0x3e000000 + (rnd() & 0x81ffffff);
    case 4:
        return k == F16 || k == PK16 ? rnd() : 0x45000000 + (rnd() & 0x87ffffff);
    }
    return rnd() >> rnd() % 32;
}

static bool nan_of(enum kind k, uint64_t v)
{
    return k == F32 ? isnan(f32_of(v)) : k == F64 ? isnan(f64_of(v)) : isnan(hf(v));
}

static bool agree(enum kind k, uint64_t got, uint64_t want, uint64_t old)
{
    switch (k) {
    case W16:
        return (uint32_t)got == ((old & 0xffff0000) | (want & 0xffff));
    case F16:
        return (uint32_t)got == ((old & 0xffff0000) | (want & 0xffff)) ||
            (((got ^ old) >> 16 & 0xffff) == 0 && nan_of(F16, got) && nan_of(F16, want));
    case PK16:
        return agree(F16, got & 0xffff, want & 0xffff, 0) && agree(F16, got >> 16 & 0xffff, want >> 16 & 0xffff, 0);
    case F32:
        return (uint32_t)got == (uint32_t)want || (nan_of(F32, got) && nan_of(F32, want));
    case F64:
        return got == want || (nan_of(F64, got) && nan_of(F64, want));
    case W64: case W64C:
        return got == want;
    default:
        return (uint32_t)got == (uint32_t)want;
    }
}

static uint64_t pair(const struct asm_wave *w, int r, int l) { return w->v[r][l] | (uint64_t)w->v[r + 1][l] << 32; }

/* One wave with random registers; false and a line on stderr when a lane is not what it must be. */
static bool one_round(const struct asm_unit *u, size_t snippet, const struct instruction *in, uint32_t exec)
{
    static struct asm_wave before;
    struct asm_wave *w = asm_wave_new(u);
    for (int r = 0; r < 8; r++)
        for (int l = 0; l < WAVE_LANES; l++)
            w->v[r][l] = word(in->kind);
    w->s[OPND_EXEC] = exec;
    w->s[OPND_VCC] = rnd();
    w->s[20] = rnd();
    w->s[21] = rnd();
    before = *w;
    asm_run(u, snippet, w);
    bool wide = in->kind == W64 || in->kind == F64 || in->kind == W64C, good = true;
    bool has_mask = in->kind == MASK || in->kind == W32C || in->kind == W64C;
    uint32_t mask = 0;
    for (uint32_t l = 0; l < WAVE_LANES && good; l++) {
        struct io x = {.a = pair(&before, 2, (int)l),
                       .b = pair(&before, 4, (int)l),
                       .c = pair(&before, 6, (int)l),
                       .d = pair(&before, 0, (int)l),
                       .cin = before.s[OPND_VCC] >> l & 1,
                       .cin2 = before.s[21] >> l & 1,
                       .lane = l};
        uint64_t want = in->value(&x), got = wide ? pair(w, 0, (int)l) : w->v[0][l];
        bool on = exec >> l & 1;
        mask |= (uint32_t)(on && (in->kind == MASK ? want != 0 : x.out)) << l;
        if (on)
            good = in->kind == MASK || agree(in->kind, got, want, x.d);
        else
            good = pair(w, 0, (int)l) == x.d;
        if (!good)
            fprintf(stderr, "%s: %s: %s lane, a %llx b %llx c %llx d %llx gives %llx, must be %llx\n", u->chip->name,
                    in->text, on ? "active" : "inactive", (unsigned long long)x.a, (unsigned long long)x.b,
                    (unsigned long long)x.c, (unsigned long long)x.d, (unsigned long long)got,
                    (unsigned long long)(on ? want : x.d));
    }
    if (good && has_mask && w->s[20] != mask) {
        fprintf(stderr, "%s: %s: mask %08x, must be %08x\n", u->chip->name, in->text, w->s[20], mask);
        good = false;
    }
    free(w);
    return good;
}

static void every_instruction(const char *chip)
{
    static const char *text[N];
    static const struct instruction *which[N];
    size_t n = 0, bad = 0;
    seed = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < N; i++)
        if (table[i].chips & (chip_find(chip)->gfx12 ? G12 : G11)) {
            which[n] = &table[i];
            text[n++] = table[i].text;
        }
    struct asm_unit *u = asm_build(chip, text, n);
    for (size_t i = 0; i < n; i++)
        for (int round = 0; round < 24; round++)
            if (!one_round(u, i, which[i], round & 1 ? rnd() : ~0u)) {
                bad++;
                break;
            }
    asm_free(u);
    ck_assert_msg(bad == 0, "%s: %zu of %zu instructions fail", chip, bad, n);
}

START_TEST(gfx1100)
{
    every_instruction("gfx1100");
}
END_TEST
START_TEST(gfx1151)
{
    every_instruction("gfx1151");
}
END_TEST
START_TEST(gfx1200)
{
    every_instruction("gfx1200");
}
END_TEST
START_TEST(gfx1201)
{
    every_instruction("gfx1201");
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    return RUN_TESTS("valu", gfx1100, gfx1151, gfx1200, gfx1201);
}
