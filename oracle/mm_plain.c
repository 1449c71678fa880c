/* oracle/mm_plain.c: the kernels in C alone. Vectors of the compiler's kind, which any machine has in some form. */
#include <math.h>

#include "oracle/mm_block.h"

typedef int16_t v32h __attribute__((vector_size(64)));

enum { ROWS = 8 /* that share an opened block */ };

MM_INLINE void fma16(v16f a, v16f b, v16f *acc)
{
    for (int i = 0; i < 16; i++)
        (*acc)[i] = fmaf(a[i], b[i], (*acc)[i]);
}

MM_INLINE v16f splat(float f)
{
    return f - (v16f){ 0 };
}

/* Sums over groups [g0, g0 + 4): products of two bytes fit 16 bits, and so do two of them, as x is at least -127. */
MM_INLINE v16i isum4(const v16u *w, const int8_t *q)
{
    v16i sum = { 0 };
    for (int g = 0; g < 4; g++) {
        const int8_t *x = q + 4 * g;
        v32h even = (v32h)w[g] << 8 >> 8, odd = (v32h)w[g] >> 8;
        v32h xe = (v32h)((v16u){ 0 } + ((uint32_t)(uint16_t)x[0] | (uint32_t)(uint16_t)x[2] << 16));
        v32h xo = (v32h)((v16u){ 0 } + ((uint32_t)(uint16_t)x[1] | (uint32_t)(uint16_t)x[3] << 16));
        v16i pair = (v16i)(even * xe + odd * xo);
        sum += (pair << 16 >> 16) + (pair >> 16);
    }
    return sum;
}

/* One run of 32 and one row. */
MM_INLINE void dot_run(enum mm_kind kind, const struct mm_xblk *b, const struct mm_rows *x, uint32_t row, uint32_t k,
                       v16f *acc)
{
    const int8_t *q = x->q + row * x->ldq + 32 * (size_t)k;
    size_t at = k * x->ldd + row;
    v16i lo = isum4(b->w, q), hi = isum4(b->w + 4, q + 16);
    v16f sum = __builtin_convertvector(lo + hi, v16f);
    if (kind == MM_RUNS || kind == MM_RUNS_MIN) /* integers below 2^24: exact */
        sum = __builtin_convertvector(lo, v16f) * b->s0 + __builtin_convertvector(hi, v16f) * b->s1;
    fma16(b->dw * x->d[at], sum, acc);
    if (kind == MM_SCALE_MIN)
        fma16(b->mw, splat(x->dx[at]), acc);
    if (kind == MM_RUNS_MIN)
        fma16(-(b->mw * x->d[at]), b->m0 * (float)x->s16[2 * at] + b->m1 * (float)x->s16[2 * at + 1], acc);
}

MM_INLINE void dot_blocks(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels,
                          const struct mm_act *a, uint32_t row0, uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    struct mm_xblk *xb = scratch;
    uint32_t n_runs = n_in / QK, step = qtype_block(t) == QK ? 1 : QK_K / QK;
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in))
        for (uint32_t r0 = 0; r0 < n_rows; r0 += ROWS) {
            uint32_t n = n_rows - r0 < ROWS ? n_rows - r0 : ROWS;
            v16f acc[ROWS] = { 0 };
            for (uint32_t k = 0; k < n_runs; k += step) {
                struct mm_rows x = mm_rows(a, row0 + r0, k);
                mm_open(t, panels, n_runs, k, step, mm_offset(t), xb);
                for (uint32_t i = 0; i < step; i++)
                    for (uint32_t r = 0; r < n; r++)
                        dot_run(mm_kind(t), &xb[i], &x, r, i, &acc[r]);
            }
            for (uint32_t r = 0; r < n; r++)
                memcpy(y + (r0 + r) * ldy + 16 * (size_t)p, &acc[r], 64);
        }
}

MM_INLINE v16f weights(enum qtype t, const uint8_t *panel, uint32_t k)
{
    if (t == QT_F32)
        return (v16f)mm_word(panel, k);
    v16u h = mm_load_u16(panel + 32 * (size_t)k);
    return t == QT_F16 ? mm_f32_of_halves(h) : (v16f)(h << 16);
}

MM_INLINE void dot_floats(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const float *x,
                          size_t ldx, uint32_t n_rows, float *y, size_t ldy)
{
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in))
        for (uint32_t r0 = 0; r0 < n_rows; r0 += ROWS) {
            uint32_t n = n_rows - r0 < ROWS ? n_rows - r0 : ROWS;
            v16f acc[ROWS] = { 0 };
            for (uint32_t k = 0; k < n_in; k++) {
                v16f w = weights(t, panels, k);
                for (uint32_t r = 0; r < n; r++)
                    fma16(w, splat(x[(r0 + r) * ldx + k]), &acc[r]);
            }
            for (uint32_t r = 0; r < n; r++)
                memcpy(y + (r0 + r) * ldy + 16 * (size_t)p, &acc[r], 64);
        }
}

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        dot_blocks(QT_##T, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);                                  \
    }
MM_BLOCK_TYPES(X)
#undef X

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        dot_floats(QT_##T, n_in, panels, n_panels, x, ldx, n_rows, y, ldy);                                            \
    }
X(F32) X(F16) X(BF16)
#undef X

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_quant_row(x, n_in, a, row);
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    switch (t) {
#define X(T) case QT_##T: return dot_##T;
    MM_BLOCK_TYPES(X) X(F32) X(F16) X(BF16)
#undef X
    default: return NULL;
    }
}

const struct mm_kernels mm_plain = { "plain", quant, dot };
