/* v_wmma_* and v_swmmac_*: registers to matrices, the sums, matrices to registers. */
#include "tools/amdsim/isa/wmma.h"

#include <string.h>

#include "tools/amdsim/isa/wmma_float.h"

/* What the matrices hold; I8 and I4 sum to i32. */
enum elem { E_F16, E_BF16, E_FP8, E_BF8, E_I8, E_I4 };
enum { N = WMMA_DIM, K_MAX = 64 };
static const uint8_t elem_bits[] = { 16, 16, 8, 8, 8, 4 };
static const enum wmma_type elem_type[] = { WMMA_F16, WMMA_BF16, WMMA_FP8, WMMA_BF8, WMMA_F32, WMMA_F32 };

static wmma_rows_fn *rows11, *rows12;

__attribute__((constructor)) static void pick(void)
{
    rows11 = wmma_rows11_plain, rows12 = wmma_rows12_plain;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        rows11 = wmma_rows11_avx2, rows12 = wmma_rows12_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        rows11 = wmma_rows11_avx512, rows12 = wmma_rows12_avx512;
#endif
}

/* Where element k of row (or column) i of A or B sits. gfx11: lane i holds all k, and lane i + 16 the same again.
 * gfx12: lanes i and i + 16 share them; k here counts in the order in which the adder takes them, four of one lane,
 * then four of the other. For integers any order will do. */
struct place {
    uint8_t lane_high, elem; /* lane i + 16 * lane_high */
};
static struct place place_of(bool gfx12, uint32_t k, uint32_t n_k)
{
    if (!gfx12)
        return (struct place){ 0, (uint8_t)k };
    if (n_k == 16)
        return (struct place){ k >> 2 & 1, (uint8_t)((k & 3) | (k >> 3) << 2) };
    return (struct place){ (uint8_t)(k / (n_k / 2)), (uint8_t)(k % (n_k / 2)) };
}

/* One matrix as raw elements m[k][i]; neg flips the sign of even (bit 0) and odd (bit 1) elements of 16 bits. */
static void gather(const struct wave *w, uint32_t code, enum elem t, uint32_t n_k, uint32_t neg, uint16_t m[K_MAX][N])
{
    uint32_t(*v)[WAVE_LANES] = w->v + (code - OPND_VGPR), bits = elem_bits[t], mask = (1u << bits) - 1;
    for (uint32_t k = 0; k < n_k; k++) {
        struct place p = place_of(w->chip->gfx12, k, n_k);
        uint32_t at = p.elem * bits, flip = bits == 16 && neg >> (p.elem & 1) & 1 ? 0x8000 : 0;
        const uint32_t *lanes = v[at / 32] + 16 * p.lane_high;
        for (uint32_t i = 0; i < N; i++)
            m[k][i] = (uint16_t)((lanes[i] >> at % 32 & mask) ^ flip);
    }
}

/* The accumulator's register and lane of row i (of f32 and i32); columns are the 16 lanes from there. */
static inline uint32_t *acc_row(const struct wave *w, uint32_t reg, uint32_t i)
{
    return w->chip->gfx12 ? w->v[reg + i % 8] + 16 * (i / 8) : w->v[reg + i / 2] + 16 * (i % 2);
}
/* The same of 16-bit results: gfx12 puts two rows in a register; gfx11 one, in the half of opsel. */
static inline uint32_t *acc_row16(const struct wave *w, const struct inst *in, uint32_t reg, uint32_t i,
                                  uint32_t *shift)
{
    *shift = w->chip->gfx12 ? i % 2 * 16 : (in->opsel >> 2 & 1) * 16;
    return w->chip->gfx12 ? w->v[reg + i % 8 / 2] + 16 * (i / 8) : acc_row(w, reg, i);
}

static uint16_t constant16(uint32_t code, uint32_t bits, bool bf16)
{
    static const uint16_t f16[] = { 0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118 };
    return code >= 240 && code <= 248 ? bf16 ? (uint16_t)(bits >> 16) : f16[code - 240] : (uint16_t)bits;
}

/* C or, for 16-bit results, its bits; neg and neg_hi of the third operand are negation and absolute value. */
static void gather_acc(const struct wave *w, const struct inst *in, uint32_t code, enum wmma_type out, bool integer,
                       uint32_t c[N][N])
{
    uint32_t sign = out == WMMA_F32 ? 0x80000000u : 0x8000u;
    uint32_t clear = !integer && in->abs >> 2 & 1 ? sign : 0, flip = !integer && in->neg >> 2 & 1 ? sign : 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t shift = 0;
        if (code < OPND_VGPR) {
            uint32_t v = s_get(w, in, code);
            if (out != WMMA_F32)
                v = constant16(code, v, out == WMMA_BF16);
            for (uint32_t j = 0; j < N; j++)
                c[i][j] = v;
        } else {
            const uint32_t *row = out == WMMA_F32 ? acc_row(w, code - OPND_VGPR, i)
                                                  : acc_row16(w, in, code - OPND_VGPR, i, &shift);
            for (uint32_t j = 0; j < N; j++)
                c[i][j] = out == WMMA_F32 ? row[j] : row[j] >> shift & 0xffff;
        }
        for (uint32_t j = 0; j < N; j++)
            c[i][j] = (c[i][j] & ~clear) ^ flip;
    }
}

static void scatter_acc(struct wave *w, const struct inst *in, enum wmma_type out, const uint32_t d[N][N])
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t shift = 0, *row = out == WMMA_F32 ? acc_row(w, in->vdst, i) : acc_row16(w, in, in->vdst, i, &shift);
        for (uint32_t j = 0; j < N; j++)
            row[j] = out == WMMA_F32 ? d[i][j] : (row[j] & ~(0xffffu << shift)) | d[i][j] << shift;
    }
}

/* ---- float ---- */

enum { ALL = 0xffff };

/* The factors of the rows or columns i of the mask: f[i][k]. */
static void take_factors(const struct wmma_step *s, enum wmma_type t, uint32_t n_k, uint32_t mask, uint16_t m[K_MAX][N],
                         struct wmma_factor f[N][K_MAX])
{
    for (; mask; mask &= mask - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(mask);
        for (uint32_t k = 0; k < n_k; k++)
            f[i][k] = wmma_factor_of(s, t, m[k][i]);
    }
}

/* A row a, in the columns of the mask, by the adder for any values. */
static void row_any(const struct wmma_step *s, uint32_t n_k, uint32_t columns, const struct wmma_factor a[K_MAX],
                    struct wmma_factor b[N][K_MAX], const uint32_t *c, uint32_t *d)
{
    uint32_t n = s->gfx12 ? 4 : 2;
    for (; columns; columns &= columns - 1) {
        uint32_t j = (uint32_t)__builtin_ctz(columns), sum = c[j];
        for (uint32_t k = 0; k < n_k; k += n)
            sum = wmma_sum_of(s, n, a + k, b[j] + k, sum);
        d[j] = sum;
    }
}

/* Whole rows and, of the others, columns. */
static void rows_any(const struct wmma_step *s, uint32_t rows, uint32_t columns, uint16_t a[K_MAX][N], uint16_t b[K_MAX][N],
                     uint32_t c[N][N], uint32_t d[N][N])
{
    struct wmma_factor fa[N][K_MAX], fb[N][K_MAX];
    take_factors(s, s->a, N, columns ? ALL : rows, a, fa);
    take_factors(s, s->b, N, rows ? ALL : columns, b, fb);
    for (uint32_t i = 0; i < N; i++)
        row_any(s, N, rows >> i & 1 ? ALL : columns, fa[i], fb, c[i], d[i]);
}

static void multiply_float(const struct wave *w, const struct inst *in, enum elem ta, enum elem tb,
                           enum wmma_type out)
{
    bool gfx12 = w->chip->gfx12;
    struct wmma_step s = { .gfx12 = gfx12, .fp16_ovfl = w->mode >> 23 & 1, .a = elem_type[ta], .b = elem_type[tb],
                           .out = out };
    uint16_t a[K_MAX][N], b[K_MAX][N];
    uint32_t c[N][N], d[N][N], redo = (uint32_t)ALL << N;
    gather(w, in->src[0], ta, N, (in->neg & 1) | (in->abs & 1) << 1, a);
    gather(w, in->src[1], tb, N, (in->neg >> 1 & 1) | (in->abs & 2), b);
    gather_acc(w, in, in->src[2], out, false, c);
    if (out == WMMA_F32 && elem_bits[ta] == 16)
        redo = (gfx12 ? rows12 : rows11)(ta == E_BF16, a, b, c, d);
    if (redo)
        rows_any(&s, redo & ALL, redo >> N, a, b, c, d);
    scatter_acc((struct wave *)w, in, out, d);
}

/* ---- integers: exact, wrapping, or with clamp saturated once at the end ---- */

static void multiply_int(struct wave *w, const struct inst *in, enum elem t, uint32_t n_k)
{
    uint16_t a[K_MAX][N], b[K_MAX][N];
    uint32_t c[N][N], bits = elem_bits[t];
    int16_t bt[K_MAX][N];
    gather(w, in->src[0], t, n_k, 0, a);
    gather(w, in->src[1], t, n_k, 0, b);
    gather_acc(w, in, in->src[2], WMMA_F32, true, c);
    /* neg_lo: the operand is signed */
    uint32_t sa = in->neg & 1 ? 16 - bits : 0, sb = in->neg & 2 ? 16 - bits : 0;
    for (uint32_t j = 0; j < N; j++)
        for (uint32_t k = 0; k < n_k; k++)
            bt[k][j] = sb ? (int16_t)((int16_t)(b[k][j] << sb) >> sb) : (int16_t)b[k][j];
    for (uint32_t i = 0; i < N; i++) {
        int32_t sum[N] = { 0 };
        for (uint32_t k = 0; k < n_k; k++) {
            int32_t x = sa ? (int16_t)(a[k][i] << sa) >> sa : a[k][i];
            for (uint32_t j = 0; j < N; j++)
                sum[j] += x * bt[k][j];
        }
        for (uint32_t j = 0; j < N; j++) {
            int64_t exact = (int64_t)sum[j] + (int32_t)c[i][j];
            if (in->clamp)
                exact = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
            c[i][j] = (uint32_t)exact;
        }
    }
    scatter_acc(w, in, WMMA_F32, c);
}

/* ---- sparse: of each four k, A holds two and the index (two bits each) says which; D is also C ---- */

/* B's elements for row i in the order of A's stored ones: each half of the lanes pairs its own. */
static void pick_sparse(const struct wave *w, const struct inst *in, uint32_t n_stored, uint32_t i,
                        uint16_t b[K_MAX][N], uint16_t picked[K_MAX][N])
{
    const uint32_t *index = w->v[in->src[2] - OPND_VGPR];
    for (uint32_t k = 0; k < n_stored; k++) {
        struct place p = place_of(true, k, n_stored);
        uint32_t per_lane = n_stored / 2, at = 2 * p.elem + (per_lane <= 8 && in->opsel & 1 ? 16 : 0);
        uint32_t from = p.lane_high * n_stored + p.elem / 2 * 4 + (index[i + 16 * p.lane_high] >> at & 3);
        for (uint32_t j = 0; j < N; j++)
            picked[k][j] = b[from][j];
    }
}

static void multiply_sparse(struct wave *w, const struct inst *in, enum elem ta, enum elem tb, enum wmma_type out,
                            uint32_t n_k)
{
    bool integer = ta >= E_I8;
    uint32_t stored = n_k / 2, bits = elem_bits[ta];
    uint32_t sa = in->neg & 1 ? 16 - bits : 0, sb = in->neg & 2 ? 16 - bits : 0;
    struct wmma_step s = { .gfx12 = true, .fp16_ovfl = w->mode >> 23 & 1, .a = elem_type[ta], .b = elem_type[tb],
                           .out = out };
    uint16_t a[K_MAX][N], b[K_MAX][N], picked[K_MAX][N];
    uint32_t c[N][N], d[N][N];
    struct wmma_factor fa[N][K_MAX], fb[N][K_MAX];
    gather(w, in->src[0], ta, stored, integer ? 0 : (in->neg & 1) | (in->abs & 1) << 1, a);
    gather(w, in->src[1], tb, n_k, integer ? 0 : (in->neg >> 1 & 1) | (in->abs & 2), b);
    struct inst dst = *in; /* neither negation nor absolute value of D */
    dst.neg = dst.abs = 0;
    gather_acc(w, &dst, OPND_VGPR + in->vdst, out, integer, c);
    for (uint32_t i = 0; i < N; i++) {
        pick_sparse(w, in, stored, i, b, picked);
        if (!integer) {
            take_factors(&s, s.a, stored, 1u << i, a, fa);
            take_factors(&s, s.b, stored, ALL, picked, fb);
            row_any(&s, stored, ALL, fa[i], fb, c[i], d[i]);
            continue;
        }
        for (uint32_t j = 0; j < N; j++) {
            int64_t sum = (int32_t)c[i][j];
            for (uint32_t k = 0; k < stored; k++)
                sum += (int64_t)(sa ? (int16_t)(a[k][i] << sa) >> sa : a[k][i]) *
                       (sb ? (int16_t)(picked[k][j] << sb) >> sb : picked[k][j]);
            if (in->clamp)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            d[i][j] = (uint32_t)sum;
        }
    }
    scatter_acc(w, &dst, out, d);
}

/* ---- the instructions: op, on gfx11 too, name, kind, A, B, result, K ---- */
#define WMMA_LIST(X)                                                                                                 \
    X(0x40, 1, wmma_f32_16x16x16_f16, DENSE, E_F16, E_F16, WMMA_F32, 16)                                             \
    X(0x41, 1, wmma_f32_16x16x16_bf16, DENSE, E_BF16, E_BF16, WMMA_F32, 16)                                          \
    X(0x42, 1, wmma_f16_16x16x16_f16, DENSE, E_F16, E_F16, WMMA_F16, 16)                                             \
    X(0x43, 1, wmma_bf16_16x16x16_bf16, DENSE, E_BF16, E_BF16, WMMA_BF16, 16)                                        \
    X(0x44, 1, wmma_i32_16x16x16_iu8, INT, E_I8, E_I8, WMMA_F32, 16)                                                 \
    X(0x45, 1, wmma_i32_16x16x16_iu4, INT, E_I4, E_I4, WMMA_F32, 16)                                                 \
    X(0x46, 0, wmma_f32_16x16x16_fp8_fp8, DENSE, E_FP8, E_FP8, WMMA_F32, 16)                                         \
    X(0x47, 0, wmma_f32_16x16x16_fp8_bf8, DENSE, E_FP8, E_BF8, WMMA_F32, 16)                                         \
    X(0x48, 0, wmma_f32_16x16x16_bf8_fp8, DENSE, E_BF8, E_FP8, WMMA_F32, 16)                                         \
    X(0x49, 0, wmma_f32_16x16x16_bf8_bf8, DENSE, E_BF8, E_BF8, WMMA_F32, 16)                                         \
    X(0x4a, 0, wmma_i32_16x16x32_iu4, INT, E_I4, E_I4, WMMA_F32, 32)                                                 \
    X(0x50, 0, swmmac_f32_16x16x32_f16, SPARSE, E_F16, E_F16, WMMA_F32, 32)                                          \
    X(0x51, 0, swmmac_f32_16x16x32_bf16, SPARSE, E_BF16, E_BF16, WMMA_F32, 32)                                       \
    X(0x52, 0, swmmac_f16_16x16x32_f16, SPARSE, E_F16, E_F16, WMMA_F16, 32)                                          \
    X(0x53, 0, swmmac_bf16_16x16x32_bf16, SPARSE, E_BF16, E_BF16, WMMA_BF16, 32)                                     \
    X(0x54, 0, swmmac_i32_16x16x32_iu8, SPARSE, E_I8, E_I8, WMMA_F32, 32)                                            \
    X(0x55, 0, swmmac_i32_16x16x32_iu4, SPARSE, E_I4, E_I4, WMMA_F32, 32)                                            \
    X(0x56, 0, swmmac_i32_16x16x64_iu4, SPARSE, E_I4, E_I4, WMMA_F32, 64)                                            \
    X(0x57, 0, swmmac_f32_16x16x32_fp8_fp8, SPARSE, E_FP8, E_FP8, WMMA_F32, 32)                                      \
    X(0x58, 0, swmmac_f32_16x16x32_fp8_bf8, SPARSE, E_FP8, E_BF8, WMMA_F32, 32)                                      \
    X(0x59, 0, swmmac_f32_16x16x32_bf8_fp8, SPARSE, E_BF8, E_FP8, WMMA_F32, 32)                                      \
    X(0x5a, 0, swmmac_f32_16x16x32_bf8_bf8, SPARSE, E_BF8, E_BF8, WMMA_F32, 32)

static bool operands_ok(struct wave *w, const struct inst *in, bool sparse)
{
    if (in->src[0] >= OPND_VGPR && in->src[1] >= OPND_VGPR && (!sparse || in->src[2] >= OPND_VGPR))
        return true;
    wave_fault(w, ISA_FAULT_ILLEGAL, "a matrix operand is not in VGPRs");
    return false;
}

#define RUN_DENSE(ta, tb, out, n_k) multiply_float(w, in, ta, tb, out)
#define RUN_INT(ta, tb, out, n_k) multiply_int(w, in, ta, n_k)
#define RUN_SPARSE(ta, tb, out, n_k) multiply_sparse(w, in, ta, tb, out, n_k)
enum { IS_DENSE, IS_INT, IS_SPARSE };
#define X(code, gfx11, fname, kind, ta, tb, out, n_k)                                                                \
    static void run_##fname(struct wave *w, const struct inst *in)                                                   \
    {                                                                                                                \
        if (operands_ok(w, in, IS_##kind == IS_SPARSE))                                                              \
            RUN_##kind(ta, tb, out, n_k);                                                                            \
    }
WMMA_LIST(X)
#undef X

inst_fn *wmma_find(const struct chip *c, uint32_t op, const char **name)
{
    switch (op) {
#define X(code, gfx11, fname, kind, ta, tb, out, n_k)                                                                \
    case code:                                                                                                       \
        if (!gfx11 && !c->gfx12)                                                                                     \
            return NULL;                                                                                             \
        *name = "v_" #fname;                                                                                         \
        return run_##fname;
        WMMA_LIST(X)
#undef X
    default:
        return NULL;
    }
}
