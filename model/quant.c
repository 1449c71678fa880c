#include "model/quant.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "kernels/blocks.h"
#include "kernels/dequant.h"
#include "kernels/fp.h"
#include "model/quant_search.h"

#define F16_MAX 65504.0f

/* ---- the plain rules: extreme value over the code range, round to nearest ---- */

/* The element of largest magnitude, with its sign. */
static float signed_extreme(const float *x, int n)
{
    float m = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(m))
            m = x[i];
    return m;
}

static int clamp_code(float v, int hi)
{
    int q = (int)v;
    return q < 0 ? 0 : q > hi ? hi : q;
}

/* The extreme element takes the end of the range that has one code more, so d may be negative. */
void quant_q4_0(const float *x, const float *importance, blk_q4_0 *b)
{
    float d = importance ? quant_fit(x, importance, -8) : signed_extreme(x, QK) / -8, id = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(clamp_code(x[j] * id + 8.5f, 15) | clamp_code(x[j + 16] * id + 8.5f, 15) << 4);
}

void quant_q5_0(const float *x, const float *importance, blk_q5_0 *b)
{
    float d = importance ? quant_fit(x, importance, -16) : signed_extreme(x, QK) / -16, id = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    memset(b->qh, 0, sizeof b->qh);
    for (int j = 0; j < 16; j++) {
        int lo = clamp_code(x[j] * id + 16.5f, 31), hi = clamp_code(x[j + 16] * id + 16.5f, 31);
        b->qs[j] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        b->qh[j / 8] |= (uint8_t)(lo >> 4 << j % 8);
        b->qh[2 + j / 8] |= (uint8_t)(hi >> 4 << j % 8);
    }
}

/* x from mn to mn + hi d. */
static void span(const float *x, int hi, float *d, float *mn)
{
    float mx = *mn = x[0];
    for (int i = 1; i < QK; i++) {
        *mn = x[i] < *mn ? x[i] : *mn;
        mx = x[i] > mx ? x[i] : mx;
    }
    *d = (mx - *mn) / (float)hi;
}

void quant_q4_1(const float *x, const float *importance, blk_q4_1 *b)
{
    float mn, d;
    if (importance)
        quant_fit_min(x, importance, 15, &d, &mn);
    else
        span(x, 15, &d, &mn);
    float id = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    b->m = f16_from_f32(mn);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(clamp_code((x[j] - mn) * id + 0.5f, 15) |
                             clamp_code((x[j + 16] - mn) * id + 0.5f, 15) << 4);
}

void quant_q5_1(const float *x, const float *importance, blk_q5_1 *b)
{
    float mn, d;
    if (importance)
        quant_fit_min(x, importance, 31, &d, &mn);
    else
        span(x, 31, &d, &mn);
    float id = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    b->m = f16_from_f32(mn);
    memset(b->qh, 0, sizeof b->qh);
    for (int j = 0; j < 16; j++) {
        int lo = clamp_code((x[j] - mn) * id + 0.5f, 31), hi = clamp_code((x[j + 16] - mn) * id + 0.5f, 31);
        b->qs[j] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        b->qh[j / 8] |= (uint8_t)(lo >> 4 << j % 8);
        b->qh[2 + j / 8] |= (uint8_t)(hi >> 4 << j % 8);
    }
}

/* The codes come from the scale before its rounding to f16. Nothing is left to choose that importance could weigh. */
void quant_q8_0(const float *x, const float *importance, blk_q8_0 *b)
{
    (void)importance;
    float d = fabsf(signed_extreme(x, QK)) / 127, id = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    for (int j = 0; j < QK; j++)
        b->qs[j] = (int8_t)roundf(x[j] * id);
}

/* ---- MXFP4 ---- */

/* The index into e2m1_x2 nearest to v, which is in units of the block's scale. */
static int e2m1_index(float v)
{
    float a = fabsf(v);
    int i = (a > 0.5f) + (a > 1.5f) + (a > 2.5f) + (a > 3.5f) + (a > 5) + (a > 7) + (a > 10);
    return v < 0 && i ? i + 8 : i;
}

static void mxfp4_codes(const float *x, uint8_t e, blk_mxfp4 *b)
{
    float d = e8m0_half_to_f32(e);
    b->e = e;
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(e2m1_index(x[j] / d) | e2m1_index(x[j + 16] / d) << 4);
}

static double mxfp4_error(const float *x, const float *importance, const blk_mxfp4 *b)
{
    float y[QK];
    double s = 0;
    dequant_mxfp4(b, y);
    for (int j = 0; j < QK; j++)
        s += ((double)x[j] - y[j]) * ((double)x[j] - y[j]) * (importance ? (double)importance[j] : 1);
    return s;
}

/* The OCP rule puts the extreme element between 4 and 8 units, where values above 6 are clipped; one exponent to
 * either side may have the smaller error. */
void quant_mxfp4(const float *x, const float *importance, blk_mxfp4 *b)
{
    float extreme = fabsf(signed_extreme(x, QK));
    int at;
    memset(b, 0, sizeof *b);
    if (extreme == 0)
        return;
    frexpf(extreme, &at);
    double best = INFINITY;
    for (int e = at - 1 - 2 + 127 - 1, end = e + 2; e <= end; e++) {
        blk_mxfp4 t;
        mxfp4_codes(x, (uint8_t)(e < 0 ? 0 : e), &t);
        double err = mxfp4_error(x, importance, &t);
        if (err < best) {
            best = err;
            *b = t;
        }
    }
}

/* ---- rows ---- */

static int check_values(enum qtype t, const float *x, uint64_t n, struct err *e)
{
    float limit = t == QT_F32 || t == QT_MXFP4 ? 3.4028235e38f : t == QT_BF16 ? 0x1.fep127f : t == QT_NVFP4 ? NVFP4_MAX : F16_MAX;
    for (uint64_t i = 0; i < n; i++) {
        if (fabsf(x[i]) <= limit)
            continue;
        if (!isfinite(x[i]))
            return err_set(e, -EINVAL, "quantise to %s: element %llu is %s; the weights are damaged", qtype_name(t),
                           (unsigned long long)i, isnan(x[i]) ? "NaN" : "infinite");
        return err_set(e, -EINVAL, "quantise to %s: element %llu is %g, the type holds magnitudes up to %g; "
                       "keep F32 or BF16", qtype_name(t), (unsigned long long)i, (double)x[i], (double)limit);
    }
    return 0;
}

int quant_row(enum qtype t, const float *src, const float *importance, void *dst, uint64_t n, struct err *e)
{
    uint32_t block = qtype_block(t);
    if (!block)
        return err_set(e, -ENOTSUP, "quantise: zinc does not know tensor type %d", (int)t);
    if (n % block)
        return err_set(e, -EINVAL, "quantise to %s: a row of %llu elements is no multiple of the block of %u",
                       qtype_name(t), (unsigned long long)n, block);
    int rc = check_values(t, src, n, e);
    if (rc)
        return rc;
    if (quant_k_row(t, src, importance, dst, n))
        return 0;
    switch (t) {
    case QT_F32: memcpy(dst, src, n * sizeof *src); break;
    case QT_F16:
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = f16_from_f32(src[i]);
        break;
    case QT_BF16:
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = bf16_from_f32(src[i]);
        break;
#define QTYPE_BLOCK(NAME, name, set, id, elems, ...)                                                                 \
    case QT_##NAME:                                                                                                  \
        for (uint64_t i = 0; i < n / elems; i++)                                                                     \
            quant_##name(src + i * elems, importance ? importance + i * elems : NULL, (blk_##name *)dst + i);        \
        break;
#define QTYPE_BOOK(NAME, ...)                                                                                          \
    case QT_##NAME:                                                                                                    \
        if (QT_##NAME == QT_NVFP4)                                                                                     \
            quant_nvfp4_row(src, importance, dst, n);                                                                  \
        else if (quant_codebook_row(t, src, importance, dst, n))                                                            \
            return err_set(e, -ENOMEM, "quantise to %s: out of memory", qtype_name(t));                                \
        break;
#include "kernels/qtypes.def"
    case QT_LIMIT: case QT_OPENED: break;
    }
    return 0;
}

int quant_type_parse(const char *name, enum qtype *out, struct err *e)
{
#define QTYPE_BOOKS
#define QTYPE(NAME, ...)                                                                                             \
    if (strcasecmp(name, #NAME) == 0) {                                                                              \
        *out = QT_##NAME;                                                                                            \
        return 0;                                                                                                    \
    }
#include "kernels/qtypes.def"
    return err_set(e, -EINVAL, "unknown tensor type '%s'; known:"
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) " " #NAME
#include "kernels/qtypes.def"
                   , name);
}
