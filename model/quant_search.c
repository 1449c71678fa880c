/* The quantisers that search, for blocks of 32. Two fits do the work, here and in model/quant_lanes_fit.h, which has the blocks of 256:
 *
 *   x ~ s q        symmetric: Q3_K, Q6_K (integer codes), IQ4_NL, IQ4_XS (codes are table values)
 *   x ~ s q - m    q and m not negative: Q2_K, Q4_K, Q5_K
 *
 * Each tries a ladder of scales around the one that maps the extreme element to the end of the code range, gives
 * every element its nearest code, solves the weighted least squares for s (and m) in closed form, and keeps the best. */
#include "model/quant_search.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/dequant.h"

/* Lanes of the running sums: fixed, so that every build adds in the same order. */
enum { LANES = 8 };

/* Far below what f16 factors can hold, and far above where the sums would underflow. */
#define TINY 1e-12f

static float lanes_sum(const float s[LANES])
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

void quant_weights(const float *x, const float *importance, int n, float *w)
{
    double ss = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        ss += (double)x[i] * x[i];
        sum += importance ? (double)importance[i] : 0;
    }
    float rms = (float)sqrt(ss / n);
    for (int i = 0; i < n; i++) {
        w[i] = sum > 0 ? (float)((double)importance[i] * n / sum) + 0.01f : rms + fabsf(x[i]);
    }
}

/* Half of the lanes: a register on every target. */
typedef float half __attribute__((vector_size(16)));
typedef int32_t half_i __attribute__((vector_size(16)));

static inline half half_load(const float *p)
{
    half v;
    memcpy(&v, p, sizeof v);
    return v;
}

#ifndef __SSE__
static inline half half_pick(half_i which, half a, half b)
{
    return (half)((which & (half_i)a) | (~which & (half_i)b));
}
#endif

/* quant_round(clampf(v, lo, hi)) of each. */
static inline half half_code(half v, half lo, half hi)
{
#ifdef __SSE__
    v = __builtin_ia32_minps(hi, __builtin_ia32_maxps(lo, v));
#else
    v = half_pick(v < lo, lo, v);
    v = half_pick(v > hi, hi, v);
#endif
    return (v + 12582912.0f) - 12582912.0f;
}

/* The lanes of sums that are kept in halves. */
static float halves_sum(half a, half b)
{
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((b[0] + b[1]) + (b[2] + b[3]));
}

static inline half half_all(float v)
{
    return (half){ v, v, v, v };
}

/* ---- code sets of the symmetric fit ---- */

struct code_set {
    bool table;      /* iq4_values instead of integers                                  */
    float lo, hi;    /* integers: the code range                                        */
    float end;       /* the code that the extreme element aims at                       */
    float span;      /* how far, in code units, the ladder goes to either side of `end` */
    int steps;       /* rungs to either side                                            */
};

static const struct code_set set_iq4 = { true, 0, 0, -127, 16, 9 };

/* The nearest value itself, without a look-up, so that it vectorises. */
static float iq4_nearest(float v)
{
    float q = iq4_values[0];
    for (int k = 0; k < 15; k++)
        q += 2 * v >= (float)(iq4_values[k] + iq4_values[k + 1]) ? (float)(iq4_values[k + 1] - iq4_values[k]) : 0;
    return q;
}

static void assign(const struct code_set *set, const float *x, int n, float inv, float *q)
{
    if (set->table) {
        for (int i = 0; i < n; i++)
            q[i] = iq4_nearest(x[i] * inv);
    } else {
        half lo = half_all(set->lo), hi = half_all(set->hi);
        for (int i = 0; i < n; i += 4) {
            half code = half_code(half_load(x + i) * inv, lo, hi);
            memcpy(q + i, &code, sizeof code);
        }
    }
}

/* The sums of the one-parameter least squares: s = qx / qq leaves the error xx - qx^2 / qq. */
static void sums_sym(const float *x, const float *w, const float *q, int n, float *qx, float *qq)
{
    half a[2] = { { 0 } }, b[2] = { { 0 } };
    for (int i = 0; i < n; i += LANES)
        for (int h = 0; h < 2; h++) {
            half qi = half_load(q + i + 4 * h), wq = half_load(w + i + 4 * h) * qi;
            a[h] += wq * half_load(x + i + 4 * h);
            b[h] += wq * qi;
        }
    *qx = halves_sum(a[0], a[1]);
    *qq = halves_sum(b[0], b[1]);
}

static float fit_sym(const struct code_set *set, const float *x, const float *w, int n)
{
    float extreme = 0, q[QK], best = 0, best_gain = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    if (fabsf(extreme) < TINY)
        return 0;
    for (int k = -set->steps; k <= set->steps + 2; k++) {
        float qx, qq;
        float inv = k <= set->steps ? (set->end + set->span * (float)k / (float)set->steps) / extreme : 1 / best;
        assign(set, x, n, inv, q);
        sums_sym(x, w, q, n, &qx, &qq);
        if (qq > 0 && qx * qx > best_gain * qq) {
            best_gain = qx * qx / qq;
            best = qx / qq;
        }
        if (best == 0)
            return 0;
    }
    return best;
}

/* ---- scale and minimum ---- */

struct affine {
    float s, m; /* x ~ s q - m, both >= 0 */
};

static struct affine fit_affine(const float *x, const float *w, int n, float hi, float span, int steps)
{
    float mn = 0, mx = x[0], sw[LANES] = { 0 }, swx[LANES] = { 0 };
    for (int i = 0; i < n; i++) {
        mn = x[i] < mn ? x[i] : mn;
        mx = x[i] > mx ? x[i] : mx;
        sw[i % LANES] += w[i];
        swx[i % LANES] += w[i] * x[i];
    }
    struct affine best = { 0, -mn };
    if (!(mx - mn > TINY))
        return best;
    float W = lanes_sum(sw), X = lanes_sum(swx), best_err = INFINITY;
    for (int k = -steps; k <= steps + 2; k++) {
        bool polish = k > steps;
        float inv = polish ? 1 / best.s : (hi + span * (float)k / (float)steps) / (mx - mn);
        float off = polish ? best.m : -mn;
        half aq[2] = { { 0 } }, aqq[2] = { { 0 } }, aqx[2] = { { 0 } };
        for (int i = 0; i < n; i += LANES)
            for (int h = 0; h < 2; h++) {
                half xi = half_load(x + i + 4 * h), q = half_code((xi + off) * inv, half_all(0), half_all(hi));
                half wq = half_load(w + i + 4 * h) * q;
                aq[h] += wq;
                aqq[h] += wq * q;
                aqx[h] += wq * xi;
            }
        float q = halves_sum(aq[0], aq[1]), qq = halves_sum(aqq[0], aqq[1]), qx = halves_sum(aqx[0], aqx[1]), det = W * qq - q * q;
        if (!(det > 0))
            continue;
        struct affine f = { (W * qx - q * X) / det, (q * qx - qq * X) / det };
        if (f.m < 0) {
            f.m = 0;
            f.s = qx / qq;
        }
        /* the error less its constant term, the weighted sum of x^2 */
        float err = f.s * f.s * qq + f.m * f.m * W - 2 * (f.s * f.m * q + f.s * qx - f.m * X);
        if (f.s > 0 && err < best_err) {
            best_err = err;
            best = f;
        }
    }
    return best;
}

/* ---- the plain types, where importance says what to search for ---- */

float quant_fit(const float *x, const float *importance, float end)
{
    const struct code_set set = { false, end, -end - 1, end, 1.5f, 8 };
    float w[QK];
    quant_weights(x, importance, QK, w);
    return fit_sym(&set, x, w, QK);
}

void quant_fit_min(const float *x, const float *importance, float hi, float *d, float *mn)
{
    float w[QK], up[QK], least = x[0];
    quant_weights(x, importance, QK, w);
    for (int i = 1; i < QK; i++)
        least = x[i] < least ? x[i] : least;
    for (int i = 0; i < QK; i++) /* so that the minimum is below zero, as the fit wants it */
        up[i] = x[i] - fmaxf(least, 0);
    struct affine f = fit_affine(up, w, QK, hi, 1.5f, 8);
    *d = f.s;
    *mn = fmaxf(least, 0) - f.m;
}

/* ---- packing; the layouts are those of kernels/dequant.h ---- */

void quant_iq4_nl(const float *x, const float *importance, blk_iq4_nl *b)
{
    float w[QK];
    quant_weights(x, importance, QK, w);
    float d = f16_to_f32(f16_from_f32(fit_sym(&set_iq4, x, w, QK))), inv = d != 0 ? 1 / d : 0;
    b->d = f16_from_f32(d);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(quant_iq4_index(x[j] * inv) | quant_iq4_index(x[j + 16] * inv) << 4);
}
