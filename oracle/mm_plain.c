/* oracle/mm_plain.c: the kernels in C alone. Vectors of the compiler's kind, which any machine has in some form. */
#include <math.h>

#include "oracle/mm_block.h"

typedef int16_t mm_vh __attribute__((vector_size(4 * MM_LANES)));

enum { ROWS = 8 /* that share an opened block */ };

/* 16 accumulators, a row of the panel each. */
struct acc {
    float v[16];
};

MM_INLINE void fma_part(mm_vf a, mm_vf b, float *acc)
{
    for (int i = 0; i < MM_LANES; i++)
        acc[i] = fmaf(a[i], b[i], acc[i]);
}

MM_INLINE mm_vf part(const float v[16], uint32_t p)
{
    mm_vf f;
    memcpy(&f, v + p * MM_LANES, sizeof f);
    return f;
}

MM_INLINE mm_vf splat(float f)
{
    return f - (mm_vf){ 0 };
}

/* Sums over groups [g0, g0 + 4): products of two bytes fit 16 bits, and so do two of them, as x is at least -127. */
MM_INLINE mm_vi isum4(const uint32_t (*w)[16], uint32_t p, const int8_t *q)
{
    mm_vi sum = { 0 };
    for (int g = 0; g < 4; g++) {
        const int8_t *x = q + 4 * g;
        mm_vh v;
        memcpy(&v, w[g] + p * MM_LANES, sizeof v);
        mm_vh even = v << 8 >> 8, odd = v >> 8;
        mm_vh xe = (mm_vh)((mm_vu){ 0 } + ((uint32_t)(uint16_t)x[0] | (uint32_t)(uint16_t)x[2] << 16));
        mm_vh xo = (mm_vh)((mm_vu){ 0 } + ((uint32_t)(uint16_t)x[1] | (uint32_t)(uint16_t)x[3] << 16));
        mm_vi pair = (mm_vi)(even * xe + odd * xo);
        sum += (pair << 16 >> 16) + (pair >> 16);
    }
    return sum;
}

/* One run of 32 and one row. */
MM_INLINE void dot_run(enum qtype_scales kind, const struct mm_xblk *b, const struct mm_rows *x, uint32_t row, uint32_t k,
                       struct acc *acc)
{
    const int8_t *q = x->q + row * x->ldq + 32 * (size_t)k;
    size_t at = k * x->ldd + row;
    for (uint32_t p = 0; p < MM_PARTS; p++) {
        mm_vi lo = isum4(b->w, p, q), hi = isum4(b->w + 4, p, q + 16);
        mm_vf sum = __builtin_convertvector(lo + hi, mm_vf);
        float *y = acc->v + p * MM_LANES;
        if (kind == QS_RUNS || kind == QS_RUNS_MIN) /* integers below 2^24: exact */
            sum = __builtin_convertvector(lo, mm_vf) * part(b->s0, p) +
                  __builtin_convertvector(hi, mm_vf) * part(b->s1, p);
        if (kind == QS_HALVES) {
            fma_part(part(b->s0, p) * x->d[at], __builtin_convertvector(lo, mm_vf), y);
            fma_part(part(b->s1, p) * x->d[at], __builtin_convertvector(hi, mm_vf), y);
            continue;
        }
        fma_part(part(b->dw, p) * x->d[at], sum, y);
        if (kind == QS_SCALE_MIN)
            fma_part(part(b->mw, p), splat(x->dx[at]), y);
        if (kind == QS_RUNS_MIN)
            fma_part(-(part(b->mw, p) * x->d[at]),
                     part(b->m0, p) * (float)x->s16[2 * at] + part(b->m1, p) * (float)x->s16[2 * at + 1], y);
    }
}

MM_INLINE void dot_blocks(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels,
                          const struct mm_act *a, uint32_t row0, uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    struct mm_xblk *xb = scratch;
    uint32_t n_runs = n_in / QK, step = qtype_block(t) / QK;
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in))
        for (uint32_t r0 = 0; r0 < n_rows; r0 += ROWS) {
            uint32_t n = n_rows - r0 < ROWS ? n_rows - r0 : ROWS;
            struct acc acc[ROWS] = { 0 };
            for (uint32_t k = 0; k < n_runs; k += step) {
                struct mm_rows x = mm_rows(a, row0 + r0, k);
                mm_open(t, panels, n_runs, k, step, mm_offset(t), xb);
                for (uint32_t i = 0; i < step; i++)
                    for (uint32_t r = 0; r < n; r++)
                        dot_run(qtype_scales(t), &xb[i], &x, r, i, &acc[r]);
            }
            for (uint32_t r = 0; r < n; r++)
                memcpy(y + (r0 + r) * ldy + 16 * (size_t)p, acc[r].v, sizeof acc[r].v);
        }
}

MM_INLINE mm_vf weights(enum qtype t, const uint8_t *panel, uint32_t k, uint32_t p)
{
    if (t == QT_F32)
        return (mm_vf)mm_word(panel + p * sizeof(mm_vu), k);
    mm_vu h = mm_load_u16(panel + 32 * (size_t)k + 2 * MM_LANES * p);
    return t == QT_F16 ? mm_f32_of_halves(h) : (mm_vf)(h << 16);
}

MM_INLINE void dot_floats(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const float *x,
                          size_t ldx, uint32_t n_rows, float *y, size_t ldy)
{
    for (uint32_t p = 0; p < n_panels; p++, panels += mm_panel_bytes(t, n_in))
        for (uint32_t r0 = 0; r0 < n_rows; r0 += ROWS) {
            uint32_t n = n_rows - r0 < ROWS ? n_rows - r0 : ROWS;
            struct acc acc[ROWS] = { 0 };
            for (uint32_t k = 0; k < n_in; k++)
                for (uint32_t i = 0; i < MM_PARTS; i++) {
                    mm_vf w = weights(t, panels, k, i);
                    for (uint32_t r = 0; r < n; r++)
                        fma_part(w, splat(x[(r0 + r) * ldx + k]), acc[r].v + i * MM_LANES);
                }
            for (uint32_t r = 0; r < n; r++)
                memcpy(y + (r0 + r) * ldy + 16 * (size_t)p, acc[r].v, sizeof acc[r].v);
        }
}

#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        dot_blocks(QT_##T, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);                                  \
    }
#include "kernels/qtypes.def"

#define QTYPE_FLOAT(T, ...)                                                                                            \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        dot_floats(QT_##T, n_in, panels, n_panels, x, ldx, n_rows, y, ldy);                                            \
    }
#include "kernels/qtypes.def"

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_quant_row(x, n_in, a, row);
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(T, ...) case QT_##T: return dot_##T;
#include "kernels/qtypes.def"
    default: return NULL;
    }
}

const struct mm_kernels mm_plain = { "plain", quant, dot };
