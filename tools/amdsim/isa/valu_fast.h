/* tools/amdsim/isa/valu_fast.h: the common instructions as loops over 32 lanes. Included by valu_plain.c, valu_avx2.c
 * and valu_avx512.c, which name the set (VALU_FAST) and are compiled for their host.
 *
 * A quick form answers only where its plain expression is the whole truth: no modifier but neg and abs, the usual
 * float mode (nearest even, subnormals kept), no NaN in the result. Anything else goes to valu_general, whose bits
 * are the same; tests/amdsim/test_isa_valu_paths.c compares the two. */
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tools/amdsim/isa/dpp.h"
#include "tools/amdsim/isa/trans.h"
#include "tools/amdsim/isa/valu.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define FOR_LANES(l) for (int l = 0; l < WAVE_LANES; l++)
#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline))

/* neg, abs, opsel, opsel_hi, omod, clamp, e64, dpp lie in one 64-bit word: one test finds what a form cannot do. */
_Static_assert(offsetof(struct inst, dpp) - offsetof(struct inst, neg) == 7, "modifiers are eight bytes in a row");
enum { NEG = 0, ABS = 1, OPSEL = 2, OPSEL_HI = 3, OMOD = 4, CLAMP = 5, E64 = 6 };
#define MAY(field) (0xffull << 8 * (field))
#define INT_FORM (MAY(E64) | MAY(OPSEL_HI))
#define FLOAT_FORM (INT_FORM | MAY(NEG) | MAY(ABS))

INLINE bool only(const struct inst *in, uint64_t allowed)
{
    uint64_t m;
    memcpy(&m, &in->neg, sizeof m);
    return LIKELY(!(m & ~allowed));
}

INLINE bool usual_mode(const struct wave *w) { return LIKELY((w->mode & 0xff) == 0xf0); }

INLINE float as_f(uint32_t v)
{
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}

INLINE uint32_t as_u(float f)
{
    uint32_t v;
    memcpy(&v, &f, sizeof v);
    return v;
}

/* ---- operands: 32 lanes somewhere ---- */

INLINE const uint32_t *splat(uint32_t *buf, uint32_t v)
{
    FOR_LANES(l)
        buf[l] = v;
    return buf;
}

INLINE const uint32_t *source_as(const struct wave *w, const struct inst *in, uint32_t code, enum valu_type t,
                                 uint32_t *buf)
{
    if (LIKELY(code >= OPND_VGPR))
        return w->v[code - OPND_VGPR];
    return splat(buf, code < 106 ? w->s[code] : (uint32_t)valu_constant(w, in, code, t));
}

INLINE const uint32_t *source(const struct wave *w, const struct inst *in, uint32_t code, uint32_t *buf)
{
    return source_as(w, in, code, T_B32, buf);
}

INLINE const uint32_t *source_f(const struct wave *w, const struct inst *in, int i, uint32_t *buf)
{
    const uint32_t *p = source(w, in, in->src[i], buf);
    if (LIKELY(!((in->neg | in->abs) >> i & 1)))
        return p;
    uint32_t keep = in->abs >> i & 1 ? 0x7fffffff : ~0u, flip = (uint32_t)(in->neg >> i & 1) << 31;
    FOR_LANES(l)
        buf[l] = (p[l] & keep) ^ flip;
    return buf;
}

struct wide {
    const uint32_t *lo, *hi;
};

INLINE struct wide source64(const struct wave *w, const struct inst *in, int i, enum valu_type t, uint32_t *buf)
{
    uint32_t code = in->src[i];
    if (LIKELY(code >= OPND_VGPR))
        return (struct wide){ w->v[code - OPND_VGPR], w->v[code - OPND_VGPR + 1] };
    uint64_t v = valu_constant(w, in, code, t);
    splat(buf, (uint32_t)v);
    splat(buf + WAVE_LANES, (uint32_t)(v >> 32));
    return (struct wide){ buf, buf + WAVE_LANES };
}

#define WIDE(p, l) ((p).lo[l] | (uint64_t)(p).hi[l] << 32)

/* ---- results ---- */

INLINE void commit(struct wave *w, uint32_t vdst, const uint32_t *r)
{
    uint32_t exec = wave_exec(w), *d = w->v[vdst];
    if (LIKELY(exec == ~0u)) {
        FOR_LANES(l)
            d[l] = r[l];
    } else {
        FOR_LANES(l)
            d[l] = exec >> l & 1 ? r[l] : d[l];
    }
}

/* A bit per lane from words of all ones or zeros. */
INLINE uint32_t mask_of(const uint32_t *t)
{
    uint32_t m = 0;
#if defined(__AVX512DQ__)
    for (int i = 0; i < 2; i++)
        m |= (uint32_t)_mm512_movepi32_mask(_mm512_load_si512(t + 16 * i)) << 16 * i;
#elif defined(__AVX2__)
    for (int i = 0; i < 4; i++)
        m |= (uint32_t)_mm256_movemask_ps(_mm256_load_ps((const float *)t + 8 * i)) << 8 * i;
#elif defined(__SSE2__)
    for (int i = 0; i < 8; i++)
        m |= (uint32_t)_mm_movemask_ps(_mm_load_ps((const float *)t + 4 * i)) << 4 * i;
#else
    FOR_LANES(l)
        m |= (t[l] & 1) << l;
#endif
    return m;
}

INLINE bool any_nan(const uint32_t *r)
{
    uint32_t n = 0;
    FOR_LANES(l)
        n |= (r[l] & 0x7fffffff) > 0x7f800000;
    return n;
}

/* In lanes that count: what others hold may be anything. */
INLINE bool active_nan(const struct wave *w, const uint32_t *r)
{
    uint32_t t[WAVE_LANES] ALIGNED;
    if (LIKELY(!any_nan(r)))
        return false;
    FOR_LANES(l)
        t[l] = (r[l] & 0x7fffffff) > 0x7f800000 ? ~0u : 0;
    return mask_of(t) & wave_exec(w);
}

INLINE uint32_t scalar_mask(const struct wave *w, const struct inst *in, uint32_t code)
{
    return code == OPND_VCC ? w->s[OPND_VCC] : s_get(w, in, code);
}

#define GENERAL(name) valu_general(w, in, &valu_ops[V_##name])

/* What carries more than its quick form takes. Where that is DPP, of a 32-bit source and so that every active lane
 * writes: the source is read from the other lanes into the wave's spare row, and the quick form reads that. */
static __attribute__((noinline)) void long_way(struct wave *w, const struct inst *in, uint32_t id, inst_fn *quick)
{
    const struct valu_op *op = &valu_ops[id];
    uint32_t spare = w->n_vgpr + WAVE_SLACK - 1;
    if (in->dpp == DPP_NONE || (op->src[0] != T_B32 && op->src[0] != T_F32) ||
        (wave_exec(w) & ~dpp_read(w, in, w->v[in->src[0] - OPND_VGPR], w->v[spare]))) {
        valu_general(w, in, op);
        return;
    }
    struct inst plain = *in;
    plain.dpp = DPP_NONE;
    plain.src[0] = (uint16_t)(OPND_VGPR + spare);
    quick(w, &plain);
}
#define LONG_WAY(name) long_way(w, in, V_##name, fast_##name)

/* ---- integers ---- */

#define INT(name, N, ...)                                                                                            \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[N][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;                                                  \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source(w, in, in->src[0], buf[0]);                                                      \
        const uint32_t *pb = N > 1 ? source(w, in, in->src[1], buf[N > 1]) : pa;                                     \
        const uint32_t *pc = N > 2 ? source(w, in, in->src[2], buf[N > 2 ? 2 : 0]) : pa;                             \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l], b = pb[l], c = pc[l];                                                          \
            (void)a, (void)b, (void)c;                                                                               \
            r[l] = (uint32_t)(__VA_ARGS__);                                                                          \
        }                                                                                                            \
        commit(w, in->vdst, r);                                                                                      \
    }

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define I(x) ((int32_t)(x))
#define SEXT24(x) (I((x) << 8) >> 8)
#define INTS(X)                                                                                                      \
    X(mov_b32, 1, a)                                                                                                 \
    X(not_b32, 1, ~a)                                                                                                \
    X(and_b32, 2, a & b)                                                                                             \
    X(or_b32, 2, a | b)                                                                                              \
    X(xor_b32, 2, a ^ b)                                                                                             \
    X(xnor_b32, 2, ~(a ^ b))                                                                                         \
    X(lshlrev_b32, 2, b << (a & 31))                                                                                 \
    X(lshrrev_b32, 2, b >> (a & 31))                                                                                 \
    X(ashrrev_i32, 2, I(b) >> (a & 31))                                                                              \
    X(add_nc_u32, 2, a + b)                                                                                          \
    X(subrev_nc_u32, 2, b - a)                                                                                       \
    X(min_u32, 2, MIN(a, b))                                                                                         \
    X(max_u32, 2, MAX(a, b))                                                                                         \
    X(min_i32, 2, MIN(I(a), I(b)))                                                                                   \
    X(max_i32, 2, MAX(I(a), I(b)))                                                                                   \
    X(mul_lo_u32, 2, a * b)                                                                                          \
    X(mul_hi_u32, 2, ((uint64_t)a * b) >> 32)                                                                        \
    X(mul_hi_i32, 2, ((int64_t)I(a) * I(b)) >> 32)                                                                   \
    X(mul_u32_u24, 2, (a & 0xffffff) * (b & 0xffffff))                                                               \
    X(mul_i32_i24, 2, (uint32_t)SEXT24(a) * (uint32_t)SEXT24(b))                                                     \
    X(bfm_b32, 2, ((1u << (a & 31)) - 1) << (b & 31))                                                                \
    X(mad_u32_u24, 3, (a & 0xffffff) * (b & 0xffffff) + c)                                                           \
    X(mad_i32_i24, 3, (uint32_t)SEXT24(a) * (uint32_t)SEXT24(b) + c)                                                 \
    X(add3_u32, 3, a + b + c)                                                                                        \
    X(lshl_add_u32, 3, (a << (b & 31)) + c)                                                                          \
    X(add_lshl_u32, 3, (a + b) << (c & 31))                                                                          \
    X(lshl_or_b32, 3, a << (b & 31) | c)                                                                             \
    X(and_or_b32, 3, (a & b) | c)                                                                                    \
    X(or3_b32, 3, a | b | c)                                                                                         \
    X(xor3_b32, 3, a ^ b ^ c)                                                                                        \
    X(xad_u32, 3, (a ^ b) + c)                                                                                       \
    X(bfe_u32, 3, a >> (b & 31) & ((1u << (c & 31)) - 1))                                                            \
    X(bfe_i32, 3, bfe_signed(a >> (b & 31), I(a) >> (b & 31), b & 31, c & 31))                                       \
    X(bfi_b32, 3, (a & b) | (~a & c))                                                                                \
    X(alignbit_b32, 3, ((uint64_t)a << 32 | b) >> (c & 31))                                                          \
    X(min3_u32, 3, MIN(MIN(a, b), c))                                                                                \
    X(max3_u32, 3, MAX(MAX(a, b), c))                                                                                \
    X(min3_i32, 3, MIN(MIN(I(a), I(b)), I(c)))                                                                       \
    X(max3_i32, 3, MAX(MAX(I(a), I(b)), I(c)))                                                                       \
    X(med3_u32, 3, MAX(MIN(a, b), MIN(MAX(a, b), c)))                                                                \
    X(med3_i32, 3, MAX(MIN(I(a), I(b)), MIN(MAX(I(a), I(b)), I(c))))                                                 \
    X(maxmin_u32, 3, MIN(MAX(a, b), c))                                                                              \
    X(minmax_u32, 3, MAX(MIN(a, b), c))                                                                              \
    X(maxmin_i32, 3, MIN(MAX(I(a), I(b)), I(c)))                                                                     \
    X(minmax_i32, 3, MAX(MIN(I(a), I(b)), I(c)))

/* `width` bits of v, sign-extended; one that reaches beyond bit 31 ends with the word's sign, which `shifted` has. */
INLINE uint32_t bfe_signed(uint32_t v, int32_t shifted, uint32_t at, uint32_t width)
{
    uint32_t up = (32 - width) & 31, field = (uint32_t)(I(v << up) >> up);
    return width == 0 ? 0 : at + width >= 32 ? (uint32_t)shifted : field;
}

INTS(INT)

/* With clamp nothing falls below zero. */
static void fast_sub_nc_u32(struct wave *w, const struct inst *in)
{
    uint32_t buf[2][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED, floor = in->clamp ? ~0u : 0;
    if (!only(in, INT_FORM | MAY(CLAMP))) {
        LONG_WAY(sub_nc_u32);
        return;
    }
    const uint32_t *a = source(w, in, in->src[0], buf[0]), *b = source(w, in, in->src[1], buf[1]);
    FOR_LANES(l)
        r[l] = (a[l] - b[l]) & ~(a[l] < b[l] ? floor : 0);
    commit(w, in->vdst, r);
}

/* ---- floats ---- */

#define FLOAT(name, N, ...)                                                                                          \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;                                                  \
        if (!only(in, FLOAT_FORM) || !usual_mode(w)) {                                                               \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source_f(w, in, 0, buf[0]);                                                             \
        const uint32_t *pb = N != 1 ? source_f(w, in, 1, buf[1]) : pa;                                               \
        const uint32_t *pc = N == 3 ? source_f(w, in, 2, buf[2])                                                     \
            : N == DST ? w->v[in->vdst] : N == LIT ? splat(buf[2], in->literal) : pa;                                \
        FOR_LANES(l) {                                                                                               \
            const float a = as_f(pa[l]), b = as_f(pb[l]), c = as_f(pc[l]);                                           \
            (void)a, (void)b, (void)c;                                                                               \
            r[l] = as_u(__VA_ARGS__);                                                                                \
        }                                                                                                            \
        if (__builtin_expect(active_nan(w, r), 0))                                                                   \
            GENERAL(name);                                                                                           \
        else                                                                                                         \
            commit(w, in->vdst, r);                                                                                  \
    }
enum { DST = 4, LIT = 5 }; /* where a third source is: the destination, the literal */

#define FLOATS(X)                                                                                                    \
    X(add_f32, 2, a + b)                                                                                             \
    X(sub_f32, 2, a - b)                                                                                             \
    X(subrev_f32, 2, b - a)                                                                                          \
    X(mul_f32, 2, a * b)                                                                                             \
    X(fma_f32, 3, __builtin_fmaf(a, b, c))                                                                           \
    X(fmac_f32, DST, __builtin_fmaf(a, b, c))                                                                        \
    X(fmaak_f32, LIT, __builtin_fmaf(a, b, c))                                                                       \
    X(fmamk_f32, LIT, __builtin_fmaf(a, c, b))                                                                       \
    X(trunc_f32, 1, __builtin_truncf(a))                                                                             \
    X(floor_f32, 1, __builtin_floorf(a))                                                                             \
    X(ceil_f32, 1, __builtin_ceilf(a))                                                                               \
    X(rndne_f32, 1, __builtin_rintf(a))

FLOATS(FLOAT)

/* Least and greatest: exact, but for NaNs, whichever of the two chips' rules holds. Equal numbers differ at most in
 * the sign of zero: -0 is the lesser. */
INLINE uint32_t lesser(uint32_t a, uint32_t b)
{
    return as_f(a) == as_f(b) ? a | b : as_f(a) < as_f(b) ? a : b;
}
INLINE uint32_t greater(uint32_t a, uint32_t b)
{
    return as_f(a) == as_f(b) ? a & b : as_f(a) > as_f(b) ? a : b;
}

#define PICK(name, N, value)                                                                                         \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;                                                  \
        if (!only(in, FLOAT_FORM) || !usual_mode(w)) {                                                               \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source_f(w, in, 0, buf[0]), *pb = source_f(w, in, 1, buf[1]);                           \
        const uint32_t *pc = N == 3 ? source_f(w, in, 2, buf[2]) : pb;                                               \
        if (__builtin_expect(active_nan(w, pa) || active_nan(w, pb) || (N == 3 && active_nan(w, pc)), 0)) {          \
            GENERAL(name);                                                                                           \
            return;                                                                                                  \
        }                                                                                                            \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l], b = pb[l], c = pc[l];                                                          \
            (void)c;                                                                                                 \
            r[l] = value;                                                                                            \
        }                                                                                                            \
        commit(w, in->vdst, r);                                                                                      \
    }
#define PICKS(X)                                                                                                     \
    X(min_f32, 2, lesser(a, b))                                                                                      \
    X(max_f32, 2, greater(a, b))                                                                                     \
    X(min_num_f32, 2, lesser(a, b))                                                                                  \
    X(max_num_f32, 2, greater(a, b))                                                                                 \
    X(minimum_f32, 2, lesser(a, b))                                                                                  \
    X(maximum_f32, 2, greater(a, b))                                                                                 \
    X(min3_f32, 3, lesser(lesser(a, b), c))                                                                          \
    X(max3_f32, 3, greater(greater(a, b), c))                                                                        \
    X(min3_num_f32, 3, lesser(lesser(a, b), c))                                                                      \
    X(max3_num_f32, 3, greater(greater(a, b), c))                                                                    \
    X(med3_f32, 3, greater(lesser(a, b), lesser(greater(a, b), c)))                                                  \
    X(med3_num_f32, 3, greater(lesser(a, b), lesser(greater(a, b), c)))                                              \
    X(maxmin_f32, 3, lesser(greater(a, b), c))                                                                       \
    X(minmax_f32, 3, greater(lesser(a, b), c))                                                                       \
    X(maxmin_num_f32, 3, lesser(greater(a, b), c))                                                                   \
    X(minmax_num_f32, 3, greater(lesser(a, b), c))
PICKS(PICK)

/* Conversions from words: rounding follows the mode, the input has no sign to flip. */
#define FROM_INT(name, value)                                                                                        \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;                                                     \
        if (!only(in, INT_FORM) || !usual_mode(w)) {                                                                 \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source(w, in, in->src[0], buf);                                                         \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l];                                                                                \
            r[l] = as_u((float)(value));                                                                             \
        }                                                                                                            \
        commit(w, in->vdst, r);                                                                                      \
    }
#define FROM_INTS(X)                                                                                                 \
    X(cvt_f32_i32, I(a))                                                                                             \
    X(cvt_f32_u32, a)                                                                                                \
    X(cvt_f32_ubyte0, I(a & 255))                                                                                    \
    X(cvt_f32_ubyte1, I(a >> 8 & 255))                                                                               \
    X(cvt_f32_ubyte2, I(a >> 16 & 255))                                                                              \
    X(cvt_f32_ubyte3, I(a >> 24))
FROM_INTS(FROM_INT)

/* To words: saturating, NaN gives 0. The conversion itself sees only what it can hold. */
#define TO_INT(name, T, lo, hi, least, most)                                                                         \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;                                                     \
        if (!only(in, FLOAT_FORM)) {                                                                                 \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source_f(w, in, 0, buf);                                                                \
        FOR_LANES(l) {                                                                                               \
            const float a = as_f(pa[l]);                                                                             \
            bool fits = a > (lo) && a < (hi);                                                                        \
            uint32_t v = (uint32_t)(T)(fits ? a : 0.0f);                                                             \
            r[l] = fits ? v : a >= (hi) ? (most) : a <= (lo) ? (least) : 0;                                          \
        }                                                                                                            \
        commit(w, in->vdst, r);                                                                                      \
    }
#define TO_INTS(X)                                                                                                   \
    X(cvt_i32_f32, int32_t, -2147483648.0f, 2147483648.0f, 0x80000000, 0x7fffffff)                                   \
    X(cvt_u32_f32, uint32_t, 0.0f, 4294967296.0f, 0, 0xffffffff)
TO_INTS(TO_INT)

/* ---- functions of the transcendental unit: complete in trans.c, one lane at a time ---- */

#define TRANS(name)                                                                                                  \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[WAVE_LANES] ALIGNED;                                                                            \
        if (!only(in, FLOAT_FORM)) {                                                                                 \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *p = source_f(w, in, 0, buf);                                                                 \
        uint32_t *d = w->v[in->vdst];                                                                                \
        for (uint32_t left = wave_exec(w); left; left &= left - 1) {                                                 \
            int l = __builtin_ctz(left);                                                                             \
            d[l] = trans_##name(p[l]);                                                                               \
        }                                                                                                            \
    }
#define TRANSES(X) X(rcp_f32) X(rcp_iflag_f32) X(rsq_f32) X(sqrt_f32) X(exp_f32) X(log_f32) X(sin_f32) X(cos_f32)
TRANSES(TRANS)

/* ---- division: where nothing needs scaling or repair ---- */

INLINE uint32_t exponent_of(uint32_t v) { return v >> 23 & 255; }

/* Answers source 0 and a clear mask. */
static void fast_div_scale_f32(struct wave *w, const struct inst *in)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;
    if (!only(in, INT_FORM)) {
        LONG_WAY(div_scale_f32);
        return;
    }
    const uint32_t *a = source(w, in, in->src[0], buf[0]), *d = source(w, in, in->src[1], buf[1]);
    const uint32_t *n = source(w, in, in->src[2], buf[2]);
    FOR_LANES(l) {
        uint32_t ed = exponent_of(d[l]), en = exponent_of(n[l]);
        bool plain = ed - 1 < 252 && en - 25 < 230 && ed - en + 95 < 191 && exponent_of(a[l]) - 1 < 254;
        t[l] = plain ? 0 : ~0u;
    }
    if (mask_of(t) & wave_exec(w)) {
        GENERAL(div_scale_f32);
        return;
    }
    commit(w, in->vdst, a);
    s_set(w, in->sdst, 0);
}

static void fast_div_fmas_f32(struct wave *w, const struct inst *in)
{
    if ((w->s[OPND_VCC] & wave_exec(w)) || !usual_mode(w))
        GENERAL(div_fmas_f32);
    else
        fast_fma_f32(w, in);
}

static void fast_div_fixup_f32(struct wave *w, const struct inst *in)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;
    if (!only(in, FLOAT_FORM)) {
        LONG_WAY(div_fixup_f32);
        return;
    }
    const uint32_t *q = source_f(w, in, 0, buf[0]), *d = source_f(w, in, 1, buf[1]), *n = source_f(w, in, 2, buf[2]);
    FOR_LANES(l) {
        uint32_t ed = exponent_of(d[l]), en = exponent_of(n[l]);
        bool plain = ed - 1 < 254 && en - 1 < 254 && en + 150 >= ed && exponent_of(q[l]) != 255;
        r[l] = (q[l] & 0x7fffffff) | ((d[l] ^ n[l]) & 0x80000000);
        t[l] = plain ? 0 : ~0u;
    }
    if (mask_of(t) & wave_exec(w))
        GENERAL(div_fixup_f32);
    else
        commit(w, in->vdst, r);
}

/* ---- half precision: only where the host converts ---- */

#if defined(__F16C__)
#define HALVES(X) X(cvt_f32_f16) X(cvt_f16_f32) X(fma_mix_f32) X(fma_mixlo_f16) X(fma_mixhi_f16)

INLINE void widen(uint32_t *r, const uint32_t *p, int shift)
{
    for (int l = 0; l < WAVE_LANES; l += 8) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(p + l));
        v = _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi32(0xffff));
        v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
        _mm256_store_ps((float *)r + l, _mm256_cvtph_ps(_mm256_castsi256_si128(v)));
    }
}

INLINE void narrow(uint32_t *r, const uint32_t *p)
{
    for (int l = 0; l < WAVE_LANES; l += 8) {
        __m128i h =
            _mm256_cvtps_ph(_mm256_loadu_ps((const float *)p + l), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_store_si256((__m256i *)(r + l), _mm256_cvtepu16_epi32(h));
    }
}

/* Halves keep their low place in the short forms when registers are below v128. */
INLINE bool low_halves(const struct inst *in)
{
    return in->e64 || ((in->src[0] < OPND_VGPR || in->src[0] < OPND_VGPR + 128) && in->vdst < 128);
}

INLINE void put_half(struct wave *w, uint32_t vdst, int shift, uint32_t *r)
{
    const uint32_t *old = w->v[vdst], keep = ~(0xffffu << shift);
    FOR_LANES(l)
        r[l] = (old[l] & keep) | r[l] << shift;
    commit(w, vdst, r);
}

static void fast_cvt_f32_f16(struct wave *w, const struct inst *in)
{
    uint32_t r[WAVE_LANES] ALIGNED;
    if (!only(in, INT_FORM | MAY(OPSEL)) || !usual_mode(w) || in->src[0] < OPND_VGPR || !low_halves(in)) {
        LONG_WAY(cvt_f32_f16);
        return;
    }
    widen(r, w->v[in->src[0] - OPND_VGPR], in->opsel & 1 ? 16 : 0);
    commit(w, in->vdst, r);
}

static void fast_cvt_f16_f32(struct wave *w, const struct inst *in)
{
    uint32_t buf[WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;
    if (!only(in, FLOAT_FORM | MAY(OPSEL)) || !usual_mode(w) || w->mode >> 23 & 1 || !low_halves(in)) {
        LONG_WAY(cvt_f16_f32);
        return;
    }
    narrow(r, source_f(w, in, 0, buf));
    put_half(w, in->vdst, in->opsel & 8 ? 16 : 0, r);
}

INLINE const uint32_t *source_mix(const struct wave *w, const struct inst *in, int i, uint32_t *buf)
{
    if (!(in->opsel_hi >> i & 1))
        return source_f(w, in, i, buf);
    uint32_t keep = in->abs >> i & 1 ? 0x7fffffff : ~0u, flip = (uint32_t)(in->neg >> i & 1) << 31;
    widen(buf, source(w, in, in->src[i], buf), in->opsel >> i & 1 ? 16 : 0);
    if (in->neg | in->abs)
        FOR_LANES(l)
            buf[l] = (buf[l] & keep) ^ flip;
    return buf;
}

#define MIX_FORM (FLOAT_FORM | MAY(OPSEL))
static void fast_fma_mix_f32(struct wave *w, const struct inst *in)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;
    if (!only(in, MIX_FORM) || !usual_mode(w)) {
        LONG_WAY(fma_mix_f32);
        return;
    }
    const uint32_t *a = source_mix(w, in, 0, buf[0]), *b = source_mix(w, in, 1, buf[1]);
    const uint32_t *c = source_mix(w, in, 2, buf[2]);
    FOR_LANES(l)
        r[l] = as_u(__builtin_fmaf(as_f(a[l]), as_f(b[l]), as_f(c[l])));
    if (active_nan(w, r))
        GENERAL(fma_mix_f32);
    else
        commit(w, in->vdst, r);
}

/* One rounding to f16. Double holds the product of two f32 exactly; where it also holds the sum, that is cut to f32
 * with a sticky last bit, which is all that the rounding to f16 needs to know of the rest. */
INLINE bool mix_half(struct wave *w, const struct inst *in, int shift)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED, hard = 0;
    if (!only(in, MIX_FORM) || !usual_mode(w) || w->mode >> 23 & 1)
        return false;
    const uint32_t *a = source_mix(w, in, 0, buf[0]), *b = source_mix(w, in, 1, buf[1]);
    const uint32_t *c = source_mix(w, in, 2, buf[2]);
    FOR_LANES(l) {
        double p = (double)as_f(a[l]) * as_f(b[l]), s = p + as_f(c[l]), cut;
        hard |= !(s - p == as_f(c[l]) && s - as_f(c[l]) == p && s < 1e30 && s > -1e30);
        uint64_t bits, rest = 0x1fffffff;
        memcpy(&bits, &s, sizeof bits);
        rest &= bits;
        bits -= rest;
        memcpy(&cut, &bits, sizeof cut);
        r[l] = as_u((float)cut) | (rest != 0);
    }
    if (hard)
        return false;
    narrow(r, r);
    put_half(w, in->vdst, shift, r);
    return true;
}

static void fast_fma_mixlo_f16(struct wave *w, const struct inst *in)
{
    if (!mix_half(w, in, 0))
        GENERAL(fma_mixlo_f16);
}

static void fast_fma_mixhi_f16(struct wave *w, const struct inst *in)
{
    if (!mix_half(w, in, 16))
        GENERAL(fma_mixhi_f16);
}
#else
#define HALVES(X)
#endif

/* ---- masks ---- */

static void fast_cndmask_b32(struct wave *w, const struct inst *in)
{
    uint32_t buf[2][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;
    if (!only(in, FLOAT_FORM)) {
        LONG_WAY(cndmask_b32);
        return;
    }
    const uint32_t *a = source_f(w, in, 0, buf[0]), *b = source_f(w, in, 1, buf[1]);
    uint32_t mask = scalar_mask(w, in, in->src[2]);
    FOR_LANES(l)
        r[l] = mask >> l & 1 ? b[l] : a[l];
    commit(w, in->vdst, r);
}

/* Carries: value with a, b and the carry in; out where `over` holds. */
#define CARRY(name, has_in, value, over)                                                                             \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[2][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;                           \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source(w, in, in->src[0], buf[0]), *pb = source(w, in, in->src[1], buf[1]);             \
        uint32_t mask = has_in ? scalar_mask(w, in, in->src[2]) : 0;                                                 \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l], b = pb[l], ci = mask >> l & 1, v = value;                                      \
            (void)ci;                                                                                                \
            r[l] = v;                                                                                                \
            t[l] = (over) ? ~0u : 0;                                                                                 \
        }                                                                                                            \
        uint32_t out = mask_of(t) & wave_exec(w);                                                                    \
        commit(w, in->vdst, r);                                                                                      \
        s_set(w, in->sdst, out);                                                                                     \
    }
#define CARRIES(X)                                                                                                   \
    X(add_co_u32, 0, a + b, v < a)                                                                                   \
    X(sub_co_u32, 0, a - b, a < b)                                                                                   \
    X(subrev_co_u32, 0, b - a, b < a)                                                                                \
    X(add_co_ci_u32, 1, a + b + ci, ci ? v <= a : v < a)                                                             \
    X(sub_co_ci_u32, 1, a - b - ci, ci ? a <= b : a < b)                                                             \
    X(subrev_co_ci_u32, 1, b - a - ci, ci ? b <= a : b < a)
CARRIES(CARRY)

INLINE void compared(struct wave *w, const struct inst *in, const uint32_t *t)
{
    s_set(w, in->sdst, mask_of(t) & wave_exec(w));
}

/* VOPC; a value of a comparison is all ones or 0. */
#define COMPARE_INT(name, cond)                                                                                      \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[2][WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;                                                  \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source(w, in, in->src[0], buf[0]), *pb = source(w, in, in->src[1], buf[1]);             \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l], b = pb[l];                                                                     \
            t[l] = (cond) ? ~0u : 0;                                                                                 \
        }                                                                                                            \
        compared(w, in, t);                                                                                          \
    }
#define COMPARES_INT(X)                                                                                              \
    X(cmp_lt_u32, a < b)                                                                                             \
    X(cmp_eq_u32, a == b)                                                                                            \
    X(cmp_le_u32, a <= b)                                                                                            \
    X(cmp_gt_u32, a > b)                                                                                             \
    X(cmp_ne_u32, a != b)                                                                                            \
    X(cmp_ge_u32, a >= b)                                                                                            \
    X(cmp_lt_i32, I(a) < I(b))                                                                                       \
    X(cmp_eq_i32, a == b)                                                                                            \
    X(cmp_le_i32, I(a) <= I(b))                                                                                      \
    X(cmp_gt_i32, I(a) > I(b))                                                                                       \
    X(cmp_ne_i32, a != b)                                                                                            \
    X(cmp_ge_i32, I(a) >= I(b))
COMPARES_INT(COMPARE_INT)

#define COMPARE_WIDE(name, T, type, op)                                                                              \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[2][2 * WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;                                              \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        struct wide a = source64(w, in, 0, type, buf[0]), b = source64(w, in, 1, type, buf[1]);                      \
        FOR_LANES(l)                                                                                                 \
            t[l] = (T)WIDE(a, l) op (T)WIDE(b, l) ? ~0u : 0;                                                         \
        compared(w, in, t);                                                                                          \
    }
#define COMPARES_WIDE(X)                                                                                             \
    X(cmp_lt_u64, uint64_t, T_B64, <)                                                                                \
    X(cmp_eq_u64, uint64_t, T_B64, ==)                                                                               \
    X(cmp_le_u64, uint64_t, T_B64, <=)                                                                               \
    X(cmp_gt_u64, uint64_t, T_B64, >)                                                                                \
    X(cmp_ne_u64, uint64_t, T_B64, !=)                                                                               \
    X(cmp_ge_u64, uint64_t, T_B64, >=)                                                                               \
    X(cmp_lt_i64, int64_t, T_I64, <)                                                                                 \
    X(cmp_eq_i64, int64_t, T_I64, ==)                                                                                \
    X(cmp_le_i64, int64_t, T_I64, <=)                                                                                \
    X(cmp_gt_i64, int64_t, T_I64, >)                                                                                 \
    X(cmp_ne_i64, int64_t, T_I64, !=)                                                                                \
    X(cmp_ge_i64, int64_t, T_I64, >=)
COMPARES_WIDE(COMPARE_WIDE)

/* Exact for NaNs as well: the host's comparisons are false with one. */
#define COMPARE_FLOAT(name, cond)                                                                                    \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[2][WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;                                                  \
        if (!only(in, FLOAT_FORM) || !usual_mode(w)) {                                                               \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *pa = source_f(w, in, 0, buf[0]), *pb = source_f(w, in, 1, buf[1]);                           \
        FOR_LANES(l) {                                                                                               \
            const float a = as_f(pa[l]), b = as_f(pb[l]);                                                            \
            t[l] = (cond) ? ~0u : 0;                                                                                 \
        }                                                                                                            \
        compared(w, in, t);                                                                                          \
    }
#define COMPARES_FLOAT(X)                                                                                            \
    X(cmp_lt_f32, a < b)                                                                                             \
    X(cmp_eq_f32, a == b)                                                                                            \
    X(cmp_le_f32, a <= b)                                                                                            \
    X(cmp_gt_f32, a > b)                                                                                             \
    X(cmp_lg_f32, a < b || a > b)                                                                                    \
    X(cmp_ge_f32, a >= b)                                                                                            \
    X(cmp_o_f32, a == a && b == b)                                                                                   \
    X(cmp_u_f32, a != a || b != b)                                                                                   \
    X(cmp_nge_f32, !(a >= b))                                                                                        \
    X(cmp_nlg_f32, !(a < b || a > b))                                                                                \
    X(cmp_ngt_f32, !(a > b))                                                                                         \
    X(cmp_nle_f32, !(a <= b))                                                                                        \
    X(cmp_neq_f32, a != b)                                                                                           \
    X(cmp_nlt_f32, !(a < b))
COMPARES_FLOAT(COMPARE_FLOAT)

/* Classes, a bit each: signalling and quiet NaN, then from -infinity up to +infinity. */
static void fast_cmp_class_f32(struct wave *w, const struct inst *in)
{
    uint32_t buf[2][WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;
    if (!only(in, FLOAT_FORM)) {
        LONG_WAY(cmp_class_f32);
        return;
    }
    const uint32_t *a = source_f(w, in, 0, buf[0]), *wanted = source(w, in, in->src[1], buf[1]);
    FOR_LANES(l) {
        uint32_t v = a[l] & 0x7fffffff, minus = a[l] >> 31;
        uint32_t kind = v == 0 ? 6 : v < 0x00800000 ? 7 : v < 0x7f800000 ? 8 : 9;
        kind = v > 0x7f800000 ? v >> 22 & 1 : minus ? 11 - kind : kind;
        t[l] = wanted[l] >> kind & 1 ? ~0u : 0;
    }
    compared(w, in, t);
}

/* ---- 64 bits ---- */

#define SHIFT64(name, T, op)                                                                                         \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[3][WAVE_LANES] ALIGNED, lo[WAVE_LANES] ALIGNED, hi[WAVE_LANES] ALIGNED;                         \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *a = source(w, in, in->src[0], buf[0]);                                                       \
        struct wide b = source64(w, in, 1, T_B64, buf[1]);                                                           \
        FOR_LANES(l) {                                                                                               \
            uint64_t v = (uint64_t)((T)WIDE(b, l) op (a[l] & 63));                                                   \
            lo[l] = (uint32_t)v;                                                                                     \
            hi[l] = (uint32_t)(v >> 32);                                                                             \
        }                                                                                                            \
        commit(w, in->vdst, lo);                                                                                     \
        commit(w, in->vdst + 1u, hi);                                                                                \
    }
#define SHIFTS64(X)                                                                                                  \
    X(lshlrev_b64, uint64_t, <<)                                                                                     \
    X(lshrrev_b64, uint64_t, >>)
SHIFTS64(SHIFT64)

#define MAD64(name)                                                                                                  \
    static void fast_##name(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        uint32_t buf[4][WAVE_LANES] ALIGNED, lo[WAVE_LANES] ALIGNED, hi[WAVE_LANES] ALIGNED, t[WAVE_LANES] ALIGNED;  \
        if (!only(in, INT_FORM)) {                                                                                   \
            LONG_WAY(name);                                                                                          \
            return;                                                                                                  \
        }                                                                                                            \
        const uint32_t *a = source(w, in, in->src[0], buf[0]), *b = source(w, in, in->src[1], buf[1]);               \
        struct wide c = source64(w, in, 2, T_B64, buf[2]);                                                           \
        FOR_LANES(l) {                                                                                               \
            uint64_t p = (uint64_t)a[l] * b[l], v = p + WIDE(c, l);                                                  \
            lo[l] = (uint32_t)v;                                                                                     \
            hi[l] = (uint32_t)(v >> 32);                                                                             \
            t[l] = v < p ? ~0u : 0;                                                                                  \
        }                                                                                                            \
        uint32_t out = mask_of(t) & wave_exec(w);                                                                    \
        commit(w, in->vdst, lo);                                                                                     \
        commit(w, in->vdst + 1u, hi);                                                                                \
        s_set(w, in->sdst, out);                                                                                     \
    }
#define MADS64(X) X(mad_u64_u32) X(mad_co_u64_u32)
MADS64(MAD64)

/* ---- bytes ---- */

/* Byte `at` (a selector) of a:b; from 8 on the signs of its odd bytes, from 12 on 0 and then all ones. */
INLINE uint32_t pick_byte(uint32_t a, uint32_t b, uint32_t at)
{
    uint32_t byte = (at & 4 ? a : b) >> 8 * (at & 3) & 255;
    uint32_t sign = (uint32_t)(I((at & 2 ? a : b) << (at & 1 ? 0 : 16)) >> 31) & 255;
    return at < 8 ? byte : at < 12 ? sign : at == 12 ? 0 : 255;
}

/* One selector for all lanes picks four bytes, each from one source. */
static void fast_perm_b32(struct wave *w, const struct inst *in)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED, select = ~0u;
    if (!only(in, INT_FORM)) {
        LONG_WAY(perm_b32);
        return;
    }
    if (in->src[2] < OPND_VGPR)
        select = (uint32_t)valu_constant(w, in, in->src[2], T_B32);
    const uint32_t *a = source(w, in, in->src[0], buf[0]), *b = source(w, in, in->src[1], buf[1]);
    if (select & 0xf8f8f8f8) {
        const uint32_t *c = source(w, in, in->src[2], buf[2]);
        FOR_LANES(l)
            r[l] = pick_byte(a[l], b[l], c[l] & 255) | pick_byte(a[l], b[l], c[l] >> 8 & 255) << 8 |
                pick_byte(a[l], b[l], c[l] >> 16 & 255) << 16 | pick_byte(a[l], b[l], c[l] >> 24) << 24;
        commit(w, in->vdst, r);
        return;
    }
    const uint32_t *p0 = select & 4 ? a : b, *p1 = select >> 8 & 4 ? a : b;
    const uint32_t *p2 = select >> 16 & 4 ? a : b, *p3 = select >> 24 & 4 ? a : b;
    uint32_t s0 = 8 * (select & 3), s1 = 8 * (select >> 8 & 3), s2 = 8 * (select >> 16 & 3),
             s3 = 8 * (select >> 24 & 3);
    FOR_LANES(l)
        r[l] = (p0[l] >> s0 & 255) | (p1[l] >> s1 & 255) << 8 | (p2[l] >> s2 & 255) << 16 | (p3[l] >> s3) << 24;
    commit(w, in->vdst, r);
}

/* Signedness of a and b: neg's bits 0 and 1. */
static void fast_dot4_i32_iu8(struct wave *w, const struct inst *in)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED, r[WAVE_LANES] ALIGNED;
    if (!only(in, INT_FORM | MAY(NEG))) {
        LONG_WAY(dot4_i32_iu8);
        return;
    }
    const uint32_t *a = source(w, in, in->src[0], buf[0]), *b = source(w, in, in->src[1], buf[1]);
    const uint32_t *c = source(w, in, in->src[2], buf[2]);
    uint32_t fa = in->neg & 1 ? 0x80 : 0, fb = in->neg & 2 ? 0x80 : 0; /* (x ^ 80) - 80 extends the sign */
    FOR_LANES(l) {
        uint32_t s = c[l];
        for (int i = 0; i < 32; i += 8)
            s += ((((a[l] >> i) & 255) ^ fa) - fa) * ((((b[l] >> i) & 255) ^ fb) - fb);
        r[l] = s;
    }
    commit(w, in->vdst, r);
}

/* ---- VOPD: two at once; both read before either writes ---- */

typedef void half_fn(uint32_t *r, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t mask);
#define HALF(name, ...)                                                                                              \
    static void half_##name(uint32_t *r, const uint32_t *pa, const uint32_t *pb, const uint32_t *pc, uint32_t mask)  \
    {                                                                                                                \
        FOR_LANES(l) {                                                                                               \
            const uint32_t a = pa[l], b = pb[l], c = pc[l];                                                          \
            (void)a, (void)b, (void)c;                                                                               \
            r[l] = __VA_ARGS__;                                                                                      \
        }                                                                                                            \
    }
#define F(x) as_f(x)
#define HALFS(X)                                                                                                     \
    X(fmac_f32, as_u(__builtin_fmaf(F(a), F(b), F(c))))                                                              \
    X(fmaak_f32, as_u(__builtin_fmaf(F(a), F(b), F(c))))                                                             \
    X(fmamk_f32, as_u(__builtin_fmaf(F(a), F(c), F(b))))                                                             \
    X(mul_f32, as_u(F(a) * F(b)))                                                                                    \
    X(add_f32, as_u(F(a) + F(b)))                                                                                    \
    X(sub_f32, as_u(F(a) - F(b)))                                                                                    \
    X(subrev_f32, as_u(F(b) - F(a)))                                                                                 \
    X(mov_b32, a)                                                                                                    \
    X(cndmask_b32, mask >> l & 1 ? b : a)                                                                            \
    X(max_f32, greater(a, b))                                                                                        \
    X(min_f32, lesser(a, b))                                                                                         \
    X(max_num_f32, greater(a, b))                                                                                    \
    X(min_num_f32, lesser(a, b))                                                                                     \
    X(add_nc_u32, a + b)                                                                                             \
    X(lshlrev_b32, b << (a & 31))                                                                                    \
    X(and_b32, a & b)
HALFS(HALF)

static half_fn *const halves[V_COUNT] = {
#define ENTRY(name, ...) [V_##name] = half_##name,
    HALFS(ENTRY)
#undef ENTRY
};

INLINE bool is_float_half(uint32_t op) { return op < 8 || op == 0xa || op == 0xb; }

/* One half's 32 results. vdst is its accumulator, for those that have one. */
static void dual_half(struct wave *w, const struct inst *in, uint32_t op, const uint16_t *src, uint32_t vdst,
                      uint32_t *r)
{
    uint32_t buf[3][WAVE_LANES] ALIGNED;
    uint32_t id = valu_dual_find(w->chip, op)->id;
    const uint32_t *a = source_as(w, in, src[0], valu_ops[id].src[0], buf[0]);
    const uint32_t *b = op == 8 ? a : source(w, in, src[1], buf[1]);
    const uint32_t *c = op == 1 || op == 2 ? splat(buf[2], in->literal) : w->v[vdst];
    bool special = !halves[id];
    if (is_float_half(op) && !special) {
        special = !usual_mode(w);
        if (op >= 0xa)
            special = special || active_nan(w, a) || active_nan(w, b);
    }
    if (LIKELY(!special)) {
        halves[id](r, a, b, c, w->s[OPND_VCC]);
        if (LIKELY(!is_float_half(op) || !active_nan(w, r)))
            return;
    }
    struct lane x = { .gfx12 = w->chip->gfx12, .ieee = w->chip->gfx12 || (w->mode >> 9 & 1), .chip = w->chip,
                      .m32 = float_mode_f32(w->mode), .m16 = float_mode_f16_f64(w->mode) };
    FOR_LANES(l) {
        x.a = a[l];
        x.b = b[l];
        x.c = c[l];
        r[l] = (uint32_t)valu_ops[id].lane(&x);
    }
}

static void fast_dual(struct wave *w, const struct inst *in)
{
    uint32_t x[WAVE_LANES] ALIGNED, y[WAVE_LANES] ALIGNED;
    dual_half(w, in, in->op, in->src, in->vdst, x);
    dual_half(w, in, in->op_y, in->src_y, in->vdst_y, y);
    commit(w, in->vdst, x);
    commit(w, in->vdst_y, y);
}

const struct valu_fast VALU_FAST = {
    .op =
        {
#define ENTRY(name, ...) [V_##name] = fast_##name,
            INTS(ENTRY) FLOATS(ENTRY) PICKS(ENTRY) FROM_INTS(ENTRY) TO_INTS(ENTRY) TRANSES(ENTRY) HALVES(ENTRY)
                CARRIES(ENTRY) COMPARES_INT(ENTRY) COMPARES_WIDE(ENTRY) COMPARES_FLOAT(ENTRY) SHIFTS64(ENTRY)
                    MADS64(ENTRY) ENTRY(sub_nc_u32) ENTRY(cmp_class_f32) ENTRY(cndmask_b32) ENTRY(perm_b32)
                        ENTRY(dot4_i32_iu8) ENTRY(div_scale_f32) ENTRY(div_fmas_f32) ENTRY(div_fixup_f32)},
    .dual = fast_dual,
};
