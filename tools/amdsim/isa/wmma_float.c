/* The adders in integers, for any values: what the cards do with infinities, NaNs and subnormals included. Figures:
 * ROCm/rocm-systems, emulation/rocjitsu, isa/arch/amdgpu/shared/{gfx11_dot2,gfx12_dot,dot_packed16}.h and the
 * captures of its tests/fixtures/float_dot (gfx1100, gfx1201). */
#include "tools/amdsim/isa/wmma_float.h"

#include "tools/amdsim/isa/trans_half.h"
#include "tools/amdsim/isa/wmma.h"

enum { E_EMPTY = -1024, F32_EXP_MIN = -126, F32_INF = 0x7f800000 };
static const uint32_t nan_factor = 0xffc00a3du, nan_invalid = 0xffc00000u;

static const struct float_type {
    uint8_t frac, exp;
    bool inf; /* the highest exponent holds infinity and NaNs; E4M3 has one NaN there and numbers besides */
} types[] = {
    [WMMA_F32] = { 23, 8, true }, [WMMA_F16] = { 10, 5, true }, [WMMA_BF16] = { 7, 8, true },
    [WMMA_FP8] = { 3, 4, false }, [WMMA_BF8] = { 2, 5, true },
};

struct wmma_factor wmma_factor_of(const struct wmma_step *s, enum wmma_type t, uint32_t bits)
{
    const struct float_type *ft = &types[t];
    bool flush = !s->gfx12 && t == WMMA_BF16; /* subnormals */
    uint32_t frac = bits & ((1u << ft->frac) - 1), top = (1u << ft->exp) - 1, field = bits >> ft->frac & top;
    int32_t bias = (1 << (ft->exp - 1)) - 1;
    struct wmma_factor f = { .neg = bits >> (ft->frac + ft->exp) & 1, .e = (int32_t)(field ? field : 1) - bias };
    f.sig = field ? frac | 1u << ft->frac : flush ? 0 : frac;
    f.nan = field == top && (ft->inf ? frac != 0 : frac == (1u << ft->frac) - 1);
    f.inf = field == top && ft->inf && frac == 0;
    return f;
}

/* v * 2^-by; to the right it floors. */
static int64_t floor_shift(int64_t v, int32_t by)
{
    return by <= 0 ? (int64_t)((uint64_t)v << -by) : v >> (by < 63 ? by : 63);
}
static int64_t cut(uint64_t mag, int32_t by)
{
    return mag == 0 || by >= 64 ? 0 : (int64_t)(by <= 0 ? mag << -by : mag >> by);
}

/* mag * 2^grid to f32, nearest even. gfx11 has no subnormal results: what lies below, rounded to 24 bits, is zero. */
static uint32_t f32_round(bool neg, uint64_t mag, int32_t grid, bool subnormals)
{
    if (mag == 0)
        return 0;
    int32_t top = 63 - __builtin_clzll(mag), e = top + grid, shift = top - 23;
    if (e < F32_EXP_MIN && subnormals)
        shift = -149 - grid;
    uint64_t m = shift <= 0 ? mag << -shift : shift < 64 ? mag >> shift : 0;
    if (shift > 0 && shift < 64) {
        uint64_t rest = mag & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        m += rest > half || (rest == half && (m & 1));
    }
    if (e < F32_EXP_MIN && subnormals)
        return m ? (uint32_t)neg << 31 | (uint32_t)m : 0;
    e += m >> 24 ? 1 : 0;
    if (e < F32_EXP_MIN)
        return 0;
    uint32_t frac = m >> 24 ? 0 : (uint32_t)m & 0x7fffff;
    return (uint32_t)neg << 31 | (e > 127 ? F32_INF : (uint32_t)(e + 127) << 23 | frac);
}

/* An infinity or NaN of f32 in the type of the result. */
static uint32_t narrowed(enum wmma_type out, uint32_t bits)
{
    if (out == WMMA_F32)
        return bits;
    if (bits == nan_factor)
        return out == WMMA_BF16 ? 0xfffd : 0xfe3d;
    return out == WMMA_BF16 ? bits >> 16 : (bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 1023);
}

static uint32_t rounded(const struct wmma_step *s, bool neg, uint64_t mag, int32_t grid)
{
    if (s->out == WMMA_F16) {
        uint16_t h = half_round(neg, mag, grid, s->fp16_ovfl);
        return h & 0x7fff ? h : 0; /* no negative zero */
    }
    uint32_t r = f32_round(neg, mag, grid, s->gfx12);
    return s->out == WMMA_BF16 ? r >> 16 : r;
}

struct product {
    int64_t sig;
    int32_t lsb, e; /* e: E_EMPTY for zero */
    bool neg;
};

/* The answer if a factor, a product or c is no number; c is f32. */
static bool not_finite(const struct wmma_step *s, uint32_t n, const struct wmma_factor *a, const struct wmma_factor *b,
                       uint32_t c, uint32_t *answer)
{
    bool pos = false, neg = false, invalid = false, nan = false;
    for (uint32_t i = 0; i < n; i++) {
        nan |= a[i].nan || b[i].nan;
        invalid |= (a[i].inf && !b[i].sig) || (b[i].inf && !a[i].sig);
        if (a[i].inf || b[i].inf)
            *(a[i].neg != b[i].neg ? &neg : &pos) = true;
    }
    bool bytes = s->a == WMMA_FP8 || s->a == WMMA_BF8;
    uint32_t wrong = bytes ? nan_factor : nan_invalid;
    if (nan)
        *answer = nan_factor;
    else if (invalid || (pos && neg))
        *answer = wrong;
    else if ((c & 0x7fffffff) > F32_INF)
        *answer = c | 0x00400000;
    else {
        pos |= c == F32_INF;
        neg |= c == 0xff800000u;
        *answer = pos && neg ? wrong : neg ? 0xff800000u : F32_INF;
        if (!pos && !neg)
            return false;
    }
    *answer = narrowed(s->out, *answer);
    return true;
}

static inline int32_t max_i32(int32_t a, int32_t b) { return a > b ? a : b; }

static uint32_t sum_gfx11(const struct wmma_step *s, uint32_t n, const struct product *p, uint32_t c)
{
    uint32_t field = c >> 23 & 255, m = field ? (c & 0x7fffff) | 0x800000 : 0;
    bool frame = c >> 31, any = m != 0;
    int32_t ec = field ? (int32_t)field - 127 : E_EMPTY, grid = (s->out == WMMA_F16 ? max_i32(ec, -14) : ec) - 26;
    for (uint32_t i = 0; i < n; i++) {
        grid = max_i32(grid, p[i].e - 24);
        any |= p[i].sig != 0;
    }
    if (!any)
        return 0;
    int64_t sum = cut(m, grid - (ec - 23));
    for (uint32_t i = 0; i < n; i++) {
        int64_t v = cut((uint64_t)p[i].sig, grid - p[i].lsb);
        sum += p[i].neg != frame ? ~v : v;
    }
    return rounded(s, (sum < 0) != frame, (uint64_t)(sum < 0 ? -sum : sum), grid);
}

static uint32_t sum_gfx12(const struct wmma_step *s, uint32_t n, const struct product *p, uint32_t c)
{
    uint32_t field = c >> 23 & 255, m = (c & 0x7fffff) | (field ? 0x800000 : 0);
    int32_t ec = (int32_t)(field ? field : 1) - 127, floor = s->out == WMMA_F16 ? -14 : F32_EXP_MIN, grid = E_EMPTY;
    /* bytes meet on one grid, halves in pairs */
    uint32_t group = s->a == WMMA_FP8 || s->a == WMMA_BF8 ? n : 2;
    for (uint32_t i = 0; i < n; i++)
        grid = max_i32(grid, p[i].e - 24);
    grid = max_i32(grid, max_i32(floor, ec) - 26);
    int32_t drop = grid - (ec - 23);
    int64_t mag = cut(m, drop), sum = c >> 31 ? floor_shift(-(int64_t)m, drop) : mag;
    if (mag == 0 && grid > floor)
        sum = 0;
    for (uint32_t i = 0; i < n; i += group) {
        int32_t g = E_EMPTY;
        int64_t part = 0;
        for (uint32_t j = i; j < i + group; j++)
            g = max_i32(g, p[j].e - 24);
        for (uint32_t j = i; j < i + group; j++)
            part += p[j].sig ? floor_shift(p[j].neg ? -p[j].sig : p[j].sig, g - p[j].lsb) : 0;
        sum += part ? floor_shift(part, grid - g) : 0;
    }
    return rounded(s, sum < 0, (uint64_t)(sum < 0 ? -sum : sum), grid);
}

uint32_t wmma_sum_of(const struct wmma_step *s, uint32_t n, const struct wmma_factor *a, const struct wmma_factor *b,
                     uint32_t c)
{
    struct product p[4];
    uint32_t answer;
    for (uint32_t i = 0; i < n; i++) {
        p[i].sig = (int64_t)a[i].sig * b[i].sig;
        p[i].e = p[i].sig ? a[i].e + b[i].e : E_EMPTY;
        p[i].lsb = a[i].e + b[i].e - types[s->a].frac - types[s->b].frac;
        p[i].neg = a[i].neg != b[i].neg;
    }
    c = s->out == WMMA_F16 ? half_to_f32((uint16_t)c) : s->out == WMMA_BF16 ? c << 16 : c;
    if (not_finite(s, n, a, b, c, &answer))
        return answer;
    return s->gfx12 ? sum_gfx12(s, n, p, c) : sum_gfx11(s, n, p, c);
}

uint32_t wmma_sum(const struct wmma_step *s, uint32_t n, const uint16_t *a, const uint16_t *b, uint32_t c)
{
    struct wmma_factor fa[4], fb[4];
    for (uint32_t i = 0; i < 4 && i < n; i++) {
        fa[i] = wmma_factor_of(s, s->a, a[i]);
        fb[i] = wmma_factor_of(s, s->b, b[i]);
    }
    return wmma_sum_of(s, n, fa, fb, c);
}

/* ---- the dot products of the vector ALU ---- */

static uint32_t dot2(const struct chip *chip, enum wmma_type in, enum wmma_type out, uint32_t a, uint32_t b,
                     uint32_t c)
{
    struct wmma_step s = { .gfx12 = chip->gfx12, .a = in, .b = in, .out = out };
    return wmma_sum(&s, 2, (uint16_t[]){ (uint16_t)a, (uint16_t)(a >> 16) },
                    (uint16_t[]){ (uint16_t)b, (uint16_t)(b >> 16) }, c);
}
uint32_t dot2_f32_f16(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c)
{
    return dot2(chip, WMMA_F16, WMMA_F32, a, b, c);
}
uint32_t dot2_f32_bf16(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c)
{
    return dot2(chip, WMMA_BF16, WMMA_F32, a, b, c);
}
uint16_t dot2_f16_f16(const struct chip *chip, uint32_t a, uint32_t b, uint16_t c)
{
    return (uint16_t)dot2(chip, WMMA_F16, WMMA_F16, a, b, c);
}
uint16_t dot2_bf16_bf16(const struct chip *chip, uint32_t a, uint32_t b, uint16_t c)
{
    return (uint16_t)dot2(chip, WMMA_BF16, WMMA_BF16, a, b, c);
}
uint32_t dot4_f32_fp8(const struct chip *chip, uint32_t a, uint32_t b, uint32_t c, int a_is_bf8, int b_is_bf8)
{
    struct wmma_step s = { .gfx12 = chip->gfx12,
                           .a = a_is_bf8 ? WMMA_BF8 : WMMA_FP8,
                           .b = b_is_bf8 ? WMMA_BF8 : WMMA_FP8 };
    uint16_t av[4], bv[4];
    for (int i = 0; i < 4; i++) {
        av[i] = a >> (8 * i) & 255;
        bv[i] = b >> (8 * i) & 255;
    }
    return wmma_sum(&s, 4, av, bv, c);
}
