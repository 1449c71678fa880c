/* The quantisers that search. Two fits do the work:
 *
 *   x ~ s q        symmetric: Q3_K, Q6_K (integer codes), IQ4_NL, IQ4_XS (codes are table values)
 *   x ~ s q - m    q and m not negative: Q2_K, Q4_K, Q5_K
 *
 * Each tries a ladder of scales around the one that maps the extreme element to the end of the code range, gives
 * every element its nearest code, solves the weighted least squares for s (and m) in closed form, and keeps the best.
 * The fitted scales of a block's runs are then rounded to their small integers; with those and the codes fixed, the
 * block's f16 factors are solved for again over all 256 elements, and the codes rounded anew. */
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

static float clampf(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
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

static const struct code_set set_q3 = { false, -4, 3, -4, 1.2f, 8 }, set_q6 = { false, -32, 31, -32, 1.5f, 5 },
                             set_iq4 = { true, 0, 0, -127, 16, 9 };

/* The index of the table value nearest to v. */
static int iq4_index(float v)
{
    int i = 0;
    for (int k = 0; k < 15; k++)
        i += 2 * v >= (float)(iq4_values[k] + iq4_values[k + 1]);
    return i;
}

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

/* The fitted scale of each run to integers -limit..limit-1 times the returned f16 factor (as float). The factor makes
 * the largest scale -limit, the end with one code more. */
static float round_scales(const float *s, int n, int limit, int *sc)
{
    float extreme = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(s[i]) > fabsf(extreme))
            extreme = s[i];
    float d = f16_to_f32(f16_from_f32(extreme / (float)-limit));
    for (int i = 0; i < n; i++)
        sc[i] = d != 0 ? (int)quant_round(clampf(s[i] / d, (float)-limit, (float)(limit - 1))) : 0;
    return d;
}

/* Codes of a run for scale s, and the weighted error. */
static float assign_run(const struct code_set *set, const float *x, const float *w, int run, float s, float *q)
{
    half err[2] = { { 0 } };
    if (s != 0)
        assign(set, x, run, 1 / s, q);
    else
        memset(q, 0, sizeof *q * (size_t)run);
    for (int i = 0; i < run; i += LANES)
        for (int h = 0; h < 2; h++) {
            half t = s * half_load(q + i + 4 * h) - half_load(x + i + 4 * h);
            err[h] += half_load(w + i + 4 * h) * t * t;
        }
    return halves_sum(err[0], err[1]);
}

/* Codes of all runs for factor d. */
static float assign_runs(const struct code_set *set, const float *x, const float *w, int run, const int *sc, float d,
                         float *q)
{
    float err = 0;
    for (int r = 0; r < QK_K; r += run)
        err += assign_run(set, x + r, w + r, run, d * (float)sc[r / run], q + r);
    return err;
}

/* Each run's small integer to the best of its neighbours, the factor as it is. */
static void improve_runs(const struct code_set *set, const float *x, const float *w, int run, int limit, int *sc, float d)
{
    float q[QK];
    for (int r = 0; r < QK_K / run; r++) {
        int s0 = sc[r];
        float best = INFINITY;
        for (int s = MAX(s0 - 1, -limit); s <= s0 + 1 && s < limit; s++) {
            float err = assign_run(set, x + r * run, w + r * run, run, d * (float)s, q);
            if (err < best) {
                best = err;
                sc[r] = s;
            }
        }
    }
}

/* The whole symmetric block: integer scales sc[256 / run], codes q[256]; returns the bits of d. */
static uint16_t fit_sym_block(const struct code_set *set, const float *x, const float *importance, int run, int limit, int *sc, float *q)
{
    float w[QK_K], s[16], q2[QK_K];
    quant_weights(x, importance, QK_K, w);
    for (int r = 0; r < QK_K / run; r++)
        s[r] = fit_sym(set, x + r * run, w + r * run, run);
    float d = round_scales(s, QK_K / run, limit, sc);
    float err = assign_runs(set, x, w, run, sc, d, q);
    for (int turn = 0; turn < (importance ? 4 : 2); turn++) {
        double num = 0, den = 0;
        if (importance) {
            improve_runs(set, x, w, run, limit, sc, d);
            err = assign_runs(set, x, w, run, sc, d, q);
        }
        for (int i = 0; i < QK_K; i++) {
            double v = (double)sc[i / run] * q[i];
            num += w[i] * v * x[i];
            den += w[i] * v * v;
        }
        float d2 = den > 0 ? f16_to_f32(f16_from_f32((float)(num / den))) : d;
        float err2 = assign_runs(set, x, w, run, sc, d2, q2);
        if (d2 == d || !(err2 < err))
            break;
        d = d2;
        err = err2;
        memcpy(q, q2, sizeof q2);
    }
    return f16_from_f32(d);
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

/* Codes of one run, and the weighted error. */
static float assign_affine_run(const float *x, const float *w, int run, float hi, float s, float off, float *q)
{
    half err[2] = { { 0 } };
    float inv = s != 0 ? 1 / s : 0;
    for (int i = 0; i < run; i += LANES)
        for (int h = 0; h < 2; h++) {
            half xi = half_load(x + i + 4 * h), code = half_code((xi + off) * inv, half_all(0), half_all(hi));
            half t = s * code - off - xi;
            memcpy(q + i + 4 * h, &code, sizeof code);
            err[h] += half_load(w + i + 4 * h) * t * t;
        }
    return halves_sum(err[0], err[1]);
}

static float assign_affine(const float *x, const float *w, int run, float hi, const int *sc, const int *mn, float d,
                           float m, float *q)
{
    float err = 0;
    for (int r = 0; r < QK_K; r += run)
        err += assign_affine_run(x + r, w + r, run, hi, d * (float)sc[r / run], m * (float)mn[r / run], q + r);
    return err;
}

/* Each run's small integers to the best of their neighbours, the factors as they are. */
static void improve_affine(const float *x, const float *w, int run, float hi, int limit, int *sc, int *mn, float d, float m)
{
    float q[QK];
    for (int r = 0; r < QK_K / run; r++) {
        int s0 = sc[r], m0 = mn[r];
        float best = INFINITY;
        for (int s = s0 > 0 ? s0 - 1 : 0; s <= s0 + 1 && s <= limit; s++)
            for (int k = m0 > 0 ? m0 - 1 : 0; k <= m0 + 1 && k <= limit; k++) {
                float err = assign_affine_run(x + r * run, w + r * run, run, hi, d * (float)s, m * (float)k, q);
                if (err < best) {
                    best = err;
                    sc[r] = s;
                    mn[r] = k;
                }
            }
    }
}

/* Solves for both factors over the block, scales, minimums and codes being fixed. */
static bool solve_factors(const float *x, const float *w, int run, const int *sc, const int *mn, const float *q,
                          float *d, float *m)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int i = 0; i < QK_K; i++) {
        double a = (double)sc[i / run] * q[i], b = mn[i / run], wi = w[i];
        aa += wi * a * a;
        ab += wi * a * b;
        bb += wi * b * b;
        ax += wi * a * x[i];
        bx += wi * b * x[i];
    }
    double det = aa * bb - ab * ab;
    if (!(det > 1e-9 * aa * bb))
        return false;
    *d = f16_to_f32(f16_from_f32((float)((bb * ax - ab * bx) / det)));
    *m = f16_to_f32(f16_from_f32((float)((ab * ax - aa * bx) / det)));
    return *d > 0 && *m >= 0;
}

/* The whole block: integer scales and minimums (0..limit), codes q[256] (0..hi), the bits of both factors. */
static void fit_affine_block(const float *x, const float *importance, int run, float hi, int limit, float span, int steps, int *sc, int *mn,
                             float *q, uint16_t *d_bits, uint16_t *m_bits)
{
    float w[QK_K], q2[QK_K], smax = 0, mmax = 0;
    struct affine f[16];
    quant_weights(x, importance, QK_K, w);
    for (int r = 0; r < QK_K / run; r++) {
        f[r] = fit_affine(x + r * run, w + r * run, run, hi, span, steps);
        smax = f[r].s > smax ? f[r].s : smax;
        mmax = f[r].m > mmax ? f[r].m : mmax;
    }
    float d = f16_to_f32(f16_from_f32(smax / (float)limit)), m = f16_to_f32(f16_from_f32(mmax / (float)limit));
    for (int r = 0; r < QK_K / run; r++) {
        sc[r] = d != 0 ? (int)quant_round(clampf(f[r].s / d, 0, (float)limit)) : 0;
        mn[r] = m != 0 ? (int)quant_round(clampf(f[r].m / m, 0, (float)limit)) : 0;
    }
    float err = assign_affine(x, w, run, hi, sc, mn, d, m, q);
    for (int turn = 0; turn < (importance ? 4 : 2); turn++) {
        float d2, m2;
        if (importance) {
            improve_affine(x, w, run, hi, limit, sc, mn, d, m);
            err = assign_affine(x, w, run, hi, sc, mn, d, m, q);
        }
        if (!solve_factors(x, w, run, sc, mn, q, &d2, &m2))
            break;
        float err2 = assign_affine(x, w, run, hi, sc, mn, d2, m2, q2);
        if (!(err2 < err))
            break;
        d = d2;
        m = m2;
        err = err2;
        memcpy(q, q2, sizeof q2);
    }
    *d_bits = f16_from_f32(d);
    *m_bits = f16_from_f32(m);
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
        b->qs[j] = (uint8_t)(iq4_index(x[j] * inv) | iq4_index(x[j + 16] * inv) << 4);
}

void quant_iq4_xs(const float *x, const float *importance, blk_iq4_xs *b)
{
    int sc[8];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    b->d = fit_sym_block(&set_iq4, x, importance, 32, 32, sc, q);
    for (int j = 0; j < 8; j++) {
        uint32_t u = (uint32_t)(sc[j] + 32);
        b->scales_l[j / 2] |= (uint8_t)((u & 15) << (4 * (j & 1)));
        b->scales_h |= (uint16_t)(u >> 4 << (2 * j));
        for (int l = 0; l < 16; l++)
            b->qs[16 * j + l] = (uint8_t)(iq4_index(q[32 * j + l]) | iq4_index(q[32 * j + l + 16]) << 4);
    }
}

void quant_q2_k(const float *x, const float *importance, blk_q2_k *b)
{
    int sc[16], mn[16];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    fit_affine_block(x, importance, 16, 3, 15, 1.2f, 9, sc, mn, q, &b->d, &b->dmin);
    for (int r = 0; r < 16; r++) {
        b->scales[r] = (uint8_t)(sc[r] | mn[r] << 4);
        uint8_t *out = b->qs + 32 * (r / 8) + 16 * (r & 1);
        for (int l = 0; l < 16; l++)
            out[l] |= (uint8_t)((int)q[16 * r + l] << (2 * (r / 2 % 4)));
    }
}

void quant_q3_k(const float *x, const float *importance, blk_q3_k *b)
{
    int sc[16];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    b->d = fit_sym_block(&set_q3, x, importance, 16, 32, sc, q);
    for (int r = 0; r < 16; r++) {
        int u = sc[r] + 32;
        uint8_t *out = b->qs + 32 * (r / 8) + 16 * (r & 1), *high = b->hmask + 16 * (r & 1);
        b->scales[r % 8] |= (uint8_t)((u & 15) << (4 * (r / 8)));
        b->scales[8 + r % 4] |= (uint8_t)(u >> 4 << (2 * (r / 4)));
        for (int l = 0; l < 16; l++) {
            int v = (int)q[16 * r + l] + 4;
            out[l] |= (uint8_t)((v & 3) << (2 * (r / 2 % 4)));
            high[l] |= (uint8_t)(v >> 2 << r / 2);
        }
    }
}

static void pack_q4_k_scales(uint8_t s[12], const int *sc, const int *mn)
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(mn[j] | mn[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
}

void quant_q4_k(const float *x, const float *importance, blk_q4_k *b)
{
    int sc[8], mn[8];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    fit_affine_block(x, importance, 32, 15, 63, 1.5f, 8, sc, mn, q, &b->d, &b->dmin);
    pack_q4_k_scales(b->scales, sc, mn);
    for (int j = 0; j < 8; j++)
        for (int l = 0; l < 32; l++)
            b->qs[32 * (j / 2) + l] |= (uint8_t)((int)q[32 * j + l] << (4 * (j & 1)));
}

void quant_q5_k(const float *x, const float *importance, blk_q5_k *b)
{
    int sc[8], mn[8];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    fit_affine_block(x, importance, 32, 31, 63, 1.5f, 6, sc, mn, q, &b->d, &b->dmin);
    pack_q4_k_scales(b->scales, sc, mn);
    for (int j = 0; j < 8; j++)
        for (int l = 0; l < 32; l++) {
            int v = (int)q[32 * j + l];
            b->qs[32 * (j / 2) + l] |= (uint8_t)((v & 15) << (4 * (j & 1)));
            b->qh[l] |= (uint8_t)(v >> 4 << j);
        }
}

void quant_q6_k(const float *x, const float *importance, blk_q6_k *b)
{
    int sc[16];
    float q[QK_K];
    memset(b, 0, sizeof *b);
    b->d = fit_sym_block(&set_q6, x, importance, 16, 128, sc, q);
    for (int r = 0; r < 16; r++)
        b->scales[r] = (int8_t)sc[r];
    for (int k = 0; k < 8; k++) {
        int part = k / 4, quarter = k % 4;
        for (int l = 0; l < 32; l++) {
            int v = (int)q[32 * k + l] + 32;
            b->ql[64 * part + 32 * (quarter & 1) + l] |= (uint8_t)((v & 15) << (4 * (quarter / 2)));
            b->qh[32 * part + l] |= (uint8_t)(v >> 4 << (2 * quarter));
        }
    }
}
