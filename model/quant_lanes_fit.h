/* model/quant_lanes_fit.h: the body of model/quant_lanes.h, compiled for each width of registers. Whoever includes it defines
 * LANES_NAME(name). Element i of run r of block b lies at [i][r * SIDE + b]: the runs of a vector are lanes, and the blocks of one
 * element neighbours. */
#include <math.h>
#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

#include "base/ckd.h"
#include "kernels/dequant.h"
#include "model/quant_lanes.h"
#include "model/quant_search.h"

#if defined __AVX512F__
enum { W = 16 };
#elif defined __AVX2__
enum { W = 8 };
#else
enum { W = 4 };
#endif
enum { DW = W == 4 ? 2 : 4, SLOTS = 8 }; /* doubles side by side; sums of a run */

typedef float vec __attribute__((vector_size(4 * W)));
typedef int32_t mask __attribute__((vector_size(4 * W)));
typedef double dvec __attribute__((vector_size(8 * DW)));
typedef float hvec __attribute__((vector_size(4 * DW)));

#define TINY 1e-12f

struct lanes {
    int run, n; /* elements of a run, lanes */
    float x[SIDE * QK_K], w[SIDE * QK_K], q[SIDE * QK_K], q2[SIDE * QK_K];
    float imp[SIDE * QK_K];
    float sc[MAX_LANES], mn[MAX_LANES]; /* small scales and minimums */
    float d[SIDE], m[SIDE], err[SIDE];
    bool alive[SIDE];                   /* is still being improved */
};

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec all(float v)
{
    return v - (vec){ 0 };
}

static inline vec pick(mask which, vec a, vec b)
{
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

/* min(hi, max(lo, v)), rounded to the nearest integer, ties to even. */
static inline vec code_of(vec v, vec lo, vec hi)
{
#if defined __AVX512F__
    v = (vec)_mm512_min_ps((__m512)hi, _mm512_max_ps((__m512)lo, (__m512)v));
#elif defined __AVX2__
    v = (vec)_mm256_min_ps((__m256)hi, _mm256_max_ps((__m256)lo, (__m256)v));
#elif defined __SSE__
    v = (vec)_mm_min_ps((__m128)hi, _mm_max_ps((__m128)lo, (__m128)v));
#else
    v = pick(v < lo, lo, v);
    v = pick(v > hi, hi, v);
#endif
    return (v + 12582912.0f) - 12582912.0f;
}

static inline vec nearest(const struct lane_kind *k, bool table, vec v)
{
    if (!table)
        return code_of(v, all(k->lo), all(k->hi));
    vec q = all(iq4_values[0]), v2 = 2 * v;
#pragma GCC unroll 15
    for (int i = 0; i < 15; i++)
        q += (vec)((mask)all((float)(iq4_values[i + 1] - iq4_values[i])) & (v2 >= (float)(iq4_values[i] + iq4_values[i + 1])));
    return q;
}

static inline vec slots_sum(const vec s[SLOTS])
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

static inline vec magnitude(vec v)
{
    return (vec)((mask)v & 0x7fffffff);
}

/* ---- in and out ---- */

static void spread(float *to, const float *from, int run, int n)
{
    for (int b = 0; b < SIDE; b++)
        for (int r = 0; r < QK_K / run; r++)
            for (int i = 0; i < run; i++)
                to[i * n + r * SIDE + b] = from[b * QK_K + r * run + i];
}

static void gather(const struct lanes *l, struct lane_codes *c)
{
    for (int b = 0; b < SIDE; b++) {
        for (int r = 0; r < QK_K / l->run; r++) {
            c->sc[b][r] = (int)l->sc[r * SIDE + b];
            c->mn[b][r] = (int)l->mn[r * SIDE + b];
            for (int i = 0; i < l->run; i++)
                c->q[b][r * l->run + i] = l->q[i * l->n + r * SIDE + b];
        }
        c->d[b] = f16_from_f32(l->d[b]);
        c->m[b] = f16_from_f32(l->m[b]);
    }
}

/* The doubles of elements `at` and on, of DW blocks. */
static inline dvec widen(const float *at)
{
    hvec h;
    memcpy(&h, at, sizeof h);
    return __builtin_convertvector(h, dvec);
}

/* What quant_weights gives each block. */
static void weigh(struct lanes *l, bool importance)
{
    dvec ss[SIDE / DW] = { { 0 } }, sum[SIDE / DW] = { { 0 } };
    float rms[SIDE];
    double total[SIDE];
    for (int r = 0; r < l->n; r += SIDE)
        for (int i = 0; i < l->run; i++)
            for (int v = 0; v < SIDE / DW; v++) {
                dvec x = widen(l->x + i * l->n + r + v * DW);
                ss[v] += x * x;
                if (importance)
                    sum[v] += widen(l->imp + i * l->n + r + v * DW);
            }
    for (int b = 0; b < SIDE; b++) {
        rms[b] = (float)sqrt(ss[b / DW][b % DW] / QK_K);
        total[b] = sum[b / DW][b % DW];
    }
    for (int i = 0; i < SIDE * QK_K; i += SIDE)
        for (int b = 0; b < SIDE; b++)
            l->w[i + b] = total[b] > 0 ? (float)((double)l->imp[i + b] * QK_K / total[b]) + 0.01f : rms[b] + fabsf(l->x[i + b]);
}

static void begin(struct lanes *l, const struct lane_kind *k, const float *x, const float *importance)
{
    l->run = k->run;
    l->n = QK_K / k->run * SIDE;
    spread(l->x, x, l->run, l->n);
    if (importance)
        spread(l->imp, importance, l->run, l->n);
    else
        memset(l->imp, 0, sizeof l->imp);
    weigh(l, importance);
    memset(l->mn, 0, sizeof l->mn);
    for (int b = 0; b < SIDE; b++) {
        l->m[b] = 0;
        l->alive[b] = true;
    }
}

/* The f16 nearest to a float. */
static float half_of(float v)
{
    return f16_to_f32(f16_from_f32(v));
}

/* Each block's number for all its lanes. */
static inline vec of_blocks(const float v[SIDE])
{
    vec r;
    for (int i = 0; i < W; i++)
        r[i] = v[i % SIDE];
    return r;
}

static inline mask alive_lanes(const struct lanes *l)
{
    mask r;
    for (int i = 0; i < W; i++)
        r[i] = l->alive[i % SIDE] ? -1 : 0;
    return r;
}

/* The runs' errors, one after the other, as the blocks'. */
static void sum_runs(const struct lanes *l, const float *of_lanes, float err[SIDE])
{
    for (int b = 0; b < SIDE; b++)
        err[b] = 0;
    for (int i = 0; i < l->n; i++)
        err[i % SIDE] += of_lanes[i];
}

/* ---- symmetric ---- */

static inline __attribute__((always_inline)) void sym_rung(const struct lane_kind *k, bool table, const float *x, const float *w, int run, int n, vec inv, vec *qx,
                                                            vec *qq)
{
    vec a[SLOTS], b[SLOTS];
    for (int j = 0; j < SLOTS; j++) {
        a[j] = b[j] = (vec){ 0 };
        for (int i = j; i < run; i += SLOTS) {
            vec xi = load(x + i * n), q = nearest(k, table, xi * inv), wq = load(w + i * n) * q;
            a[j] += wq * xi;
            b[j] += wq * q;
        }
    }
    *qx = slots_sum(a);
    *qq = slots_sum(b);
}

static inline __attribute__((always_inline)) vec sym_ladder(const struct lane_kind *k, bool table, const float *x, const float *w, int run, int n)
{
    vec extreme = { 0 }, top = { 0 }, best = { 0 }, gain = { 0 }, qx, qq;
    for (int i = 0; i < run; i++) {
        vec xi = load(x + i * n), size = magnitude(xi);
        mask more = size > top;
        extreme = pick(more, xi, extreme);
        top = pick(more, size, top);
    }
    mask right = top >= TINY;
    for (int s = -k->steps; s <= k->steps + 2; s++) {
        vec inv = s <= k->steps ? (k->end + k->span * (float)s / (float)k->steps) / extreme : 1 / best;
        sym_rung(k, table, x, w, run, n, inv, &qx, &qq);
        mask better = (qq > 0) & (qx * qx > gain * qq);
        gain = pick(better, qx * qx / qq, gain);
        best = pick(better, qx / qq, best);
        right &= best != 0; /* a run that the first rung gives nothing is 0 */
    }
    return pick(right, best, (vec){ 0 });
}

static inline __attribute__((always_inline)) vec sym_assign(const struct lane_kind *k, bool table, const float *x, const float *w, int run, int n, vec s, float *q)
{
    vec err[SLOTS], inv = 1 / s;
    mask some = s != 0;
    for (int j = 0; j < SLOTS; j++) {
        err[j] = (vec){ 0 };
        for (int i = j; i < run; i += SLOTS) {
            vec xi = load(x + i * n), code = (vec)((mask)nearest(k, table, xi * inv) & some), t = s * code - xi;
            if (q)
                store(q + i * n, code);
            err[j] += load(w + i * n) * t * t;
        }
    }
    return slots_sum(err);
}

/* A symmetric fit's shape is one of two, which the compiler is told. */
#define SYM(fn, x, w, ...) (k->table ? fn(k, true, x, w, 32, l->n, ##__VA_ARGS__) : fn(k, false, x, w, 16, l->n, ##__VA_ARGS__))
#define AFFINE(fn, x, w, ...) (l->run == 16 ? fn(x, w, 16, l->n, ##__VA_ARGS__) : fn(x, w, 32, l->n, ##__VA_ARGS__))

static void sym_assign_all(const struct lane_kind *k, struct lanes *l, const float d[SIDE], float *q, float err[SIDE])
{
    float e[MAX_LANES];
    for (int v = 0; v < l->n; v += W) {
        vec s = of_blocks(d) * load(l->sc + v);
        store(e + v, SYM(sym_assign, l->x + v, l->w + v, s, q + v));
    }
    sum_runs(l, e, err);
}

/* Each run's small integer to the best of its neighbours, the factors as they are. */
static void sym_improve(const struct lane_kind *k, struct lanes *l)
{
    for (int v = 0; v < l->n; v += W) {
        vec s0 = load(l->sc + v), best = all(INFINITY), to = s0, d = of_blocks(l->d);
        vec first = pick(s0 - 1 > all((float)-k->limit), s0 - 1, all((float)-k->limit));
        for (int i = 0; i < 3; i++) {
            vec s = first + (float)i;
            vec err = SYM(sym_assign, l->x + v, l->w + v, d * s, NULL);
            mask better = (s <= s0 + 1) & (s < (float)k->limit) & (err < best);
            best = pick(better, err, best);
            to = pick(better, s, to);
        }
        store(l->sc + v, pick(alive_lanes(l), to, s0));
    }
}

/* The least squares for each block's factor, scales and codes being fixed. */
static void sym_solve(const struct lanes *l, float d[SIDE])
{
    dvec num[SIDE / DW] = { { 0 } }, den[SIDE / DW] = { { 0 } };
    for (int r = 0; r < l->n; r += SIDE)
        for (int i = 0; i < l->run; i++)
            for (int h = 0; h < SIDE / DW; h++) {
                int at = i * l->n + r + h * DW;
                dvec v = widen(l->sc + r + h * DW) * widen(l->q + at), wv = widen(l->w + at) * v;
                num[h] += wv * widen(l->x + at);
                den[h] += wv * v;
            }
    for (int b = 0; b < SIDE; b++) {
        double p = num[b / DW][b % DW], q = den[b / DW][b % DW];
        d[b] = q > 0 ? half_of((float)(p / q)) : l->d[b];
    }
}

/* The fitted scales to small integers: the largest of a block becomes -limit, the end with one code more. */
static void sym_round(const struct lane_kind *k, struct lanes *l)
{
    float extreme[SIDE] = { 0 };
    for (int i = 0; i < l->n; i++)
        if (fabsf(l->sc[i]) > fabsf(extreme[i % SIDE]))
            extreme[i % SIDE] = l->sc[i];
    for (int b = 0; b < SIDE; b++)
        l->d[b] = half_of(extreme[b] / (float)-k->limit);
    for (int v = 0; v < l->n; v += W) {
        vec d = of_blocks(l->d);
        mask some = d != 0;
        vec q = code_of(load(l->sc + v) / d, all((float)-k->limit), all((float)(k->limit - 1)));
        store(l->sc + v, (vec)((mask)q & some));
    }
}

static void sym_begin(const struct lane_kind *k, struct lanes *l)
{
    for (int v = 0; v < l->n; v += W)
        store(l->sc + v, SYM(sym_ladder, l->x + v, l->w + v));
    sym_round(k, l);
}

/* The blocks that `d` and `m` serve better go on with them; whether any does. */
static bool take(struct lanes *l, const bool better[SIDE], const float d[SIDE], const float m[SIDE], const float err[SIDE])
{
    bool any = false;
    for (int b = 0; b < SIDE; b++) {
        l->alive[b] &= better[b];
        any |= l->alive[b];
        if (l->alive[b]) {
            l->d[b] = d[b];
            l->m[b] = m[b];
            l->err[b] = err[b];
        }
    }
    return any;
}

void LANES_NAME(quant_lanes_sym)(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c)
{
    struct lanes l;
    float d2[SIDE], err2[SIDE];
    begin(&l, k, x, importance);
    sym_begin(k, &l);
    sym_assign_all(k, &l, l.d, l.q, l.err);
    for (int turn = 0; turn < (importance ? 4 : 2); turn++) {
        bool better[SIDE];
        if (importance) {
            sym_improve(k, &l);
            sym_assign_all(k, &l, l.d, l.q, l.err);
        }
        sym_solve(&l, d2);
        sym_assign_all(k, &l, d2, l.q2, err2);
        for (int b = 0; b < SIDE; b++)
            better[b] = d2[b] != l.d[b] && err2[b] < l.err[b];
        if (!take(&l, better, d2, l.m, err2))
            break;
        sym_assign_all(k, &l, l.d, l.q, l.err);
    }
    gather(&l, c);
}

/* ---- scale and minimum ---- */

static inline __attribute__((always_inline)) void affine_rung(const float *x, const float *w, int run, int n, vec off, vec inv, vec hi, vec *q, vec *qq,
                                                               vec *qx)
{
    vec a[SLOTS], b[SLOTS], c[SLOTS];
    for (int j = 0; j < SLOTS; j++) {
        a[j] = b[j] = c[j] = (vec){ 0 };
        for (int i = j; i < run; i += SLOTS) {
            vec xi = load(x + i * n), code = code_of((xi + off) * inv, (vec){ 0 }, hi), wq = load(w + i * n) * code;
            a[j] += wq;
            b[j] += wq * code;
            c[j] += wq * xi;
        }
    }
    *q = slots_sum(a);
    *qq = slots_sum(b);
    *qx = slots_sum(c);
}

static inline __attribute__((always_inline)) void affine_ladder(const float *x, const float *w, int run, int n, const struct lane_kind *k, float *s_out,
                                                                 float *m_out)
{
    vec mn = { 0 }, mx = load(x), sw[SLOTS], swx[SLOTS], q, qq, qx;
    for (int j = 0; j < SLOTS; j++) {
        sw[j] = swx[j] = (vec){ 0 };
        for (int i = j; i < run; i += SLOTS) {
            vec xi = load(x + i * n), wi = load(w + i * n);
            mn = pick(xi < mn, xi, mn);
            mx = pick(xi > mx, xi, mx);
            sw[j] += wi;
            swx[j] += wi * xi;
        }
    }
    mask some = mx - mn > TINY;
    vec s = { 0 }, m = -mn, all_w = slots_sum(sw), all_x = slots_sum(swx), best = all(INFINITY), hi = all(k->hi);
    for (int i = -k->steps; i <= k->steps + 2; i++) {
        bool polish = i > k->steps;
        vec inv = polish ? 1 / s : (k->hi + k->span * (float)i / (float)k->steps) / (mx - mn);
        affine_rung(x, w, run, n, polish ? m : -mn, inv, hi, &q, &qq, &qx);
        vec det = all_w * qq - q * q, fs = (all_w * qx - q * all_x) / det, fm = (q * qx - qq * all_x) / det;
        mask below = fm < 0;
        fs = pick(below, qx / qq, fs);
        fm = pick(below, (vec){ 0 }, fm);
        /* the error less its constant term, the weighted sum of x^2 */
        vec err = fs * fs * qq + fm * fm * all_w - 2 * (fs * fm * q + fs * qx - fm * all_x);
        mask better = some & (det > 0) & (fs > 0) & (err < best);
        best = pick(better, err, best);
        s = pick(better, fs, s);
        m = pick(better, fm, m);
    }
    store(s_out, s);
    store(m_out, m);
}

static inline __attribute__((always_inline)) vec affine_assign(const float *x, const float *w, int run, int n, vec hi, vec s, vec off, float *q)
{
    vec err[SLOTS], inv = (vec)((mask)(1 / s) & (s != 0));
    for (int j = 0; j < SLOTS; j++) {
        err[j] = (vec){ 0 };
        for (int i = j; i < run; i += SLOTS) {
            vec xi = load(x + i * n), code = code_of((xi + off) * inv, (vec){ 0 }, hi), t = s * code - off - xi;
            if (q)
                store(q + i * n, code);
            err[j] += load(w + i * n) * t * t;
        }
    }
    return slots_sum(err);
}

static void affine_assign_all(const struct lane_kind *k, struct lanes *l, const float d[SIDE], const float m[SIDE], float *q, float err[SIDE])
{
    float e[MAX_LANES];
    vec hi = all(k->hi);
    for (int v = 0; v < l->n; v += W) {
        vec s = of_blocks(d) * load(l->sc + v), off = of_blocks(m) * load(l->mn + v);
        store(e + v, AFFINE(affine_assign, l->x + v, l->w + v, hi, s, off, q + v));
    }
    sum_runs(l, e, err);
}

/* Each run's small integers to the best of their neighbours, the factors as they are. */
static void affine_improve(const struct lane_kind *k, struct lanes *l)
{
    vec d = of_blocks(l->d), m = of_blocks(l->m), top = all((float)k->limit), hi = all(k->hi);
    for (int v = 0; v < l->n; v += W) {
        vec s0 = load(l->sc + v), m0 = load(l->mn + v), to_s = s0, to_m = m0, best = all(INFINITY);
        for (int i = 0; i < 9; i++) {
            vec s = s0 + (float)(i / 3 - 1), n = m0 + (float)(i % 3 - 1);
            vec err = AFFINE(affine_assign, l->x + v, l->w + v, hi, d * s, m * n, NULL);
            mask better = (s >= 0) & (s <= top) & (n >= 0) & (n <= top) & (err < best);
            best = pick(better, err, best);
            to_s = pick(better, s, to_s);
            to_m = pick(better, n, to_m);
        }
        store(l->sc + v, pick(alive_lanes(l), to_s, s0));
        store(l->mn + v, pick(alive_lanes(l), to_m, m0));
    }
}

/* Solves for both factors of each block, scales, minimums and codes being fixed; false: they cannot be. */
static void affine_solve(const struct lanes *l, float d[SIDE], float m[SIDE], bool right[SIDE])
{
    dvec aa[SIDE / DW] = { { 0 } }, ab[SIDE / DW] = { { 0 } }, bb[SIDE / DW] = { { 0 } }, ax[SIDE / DW] = { { 0 } }, bx[SIDE / DW] = { { 0 } };
    for (int r = 0; r < l->n; r += SIDE)
        for (int h = 0; h < SIDE / DW; h++) {
            dvec sc = widen(l->sc + r + h * DW), b = widen(l->mn + r + h * DW);
            for (int i = 0; i < l->run; i++) {
                int at = i * l->n + r + h * DW;
                dvec a = sc * widen(l->q + at), w = widen(l->w + at), x = widen(l->x + at), wa = w * a, wb = w * b;
                aa[h] += wa * a;
                ab[h] += wa * b;
                bb[h] += wb * b;
                ax[h] += wa * x;
                bx[h] += wb * x;
            }
        }
    for (int b = 0; b < SIDE; b++) {
        int h = b / DW, i = b % DW;
        double det = aa[h][i] * bb[h][i] - ab[h][i] * ab[h][i];
        right[b] = det > 1e-9 * aa[h][i] * bb[h][i];
        d[b] = right[b] ? half_of((float)((bb[h][i] * ax[h][i] - ab[h][i] * bx[h][i]) / det)) : 0;
        m[b] = right[b] ? half_of((float)((ab[h][i] * ax[h][i] - aa[h][i] * bx[h][i]) / det)) : 0;
        right[b] = right[b] && d[b] > 0 && m[b] >= 0;
    }
}

static void round_up_to(float *v, int n, float limit, float d[SIDE])
{
    float most[SIDE] = { 0 };
    for (int i = 0; i < n; i++)
        most[i % SIDE] = v[i] > most[i % SIDE] ? v[i] : most[i % SIDE];
    for (int b = 0; b < SIDE; b++)
        d[b] = half_of(most[b] / limit);
    for (int i = 0; i < n; i += W) {
        vec of = of_blocks(d);
        mask some = of != 0;
        store(v + i, (vec)((mask)code_of(load(v + i) / of, (vec){ 0 }, all(limit)) & some));
    }
}

static void affine_begin(const struct lane_kind *k, struct lanes *l)
{
    for (int v = 0; v < l->n; v += W)
        AFFINE(affine_ladder, l->x + v, l->w + v, k, l->sc + v, l->mn + v);
    round_up_to(l->sc, l->n, (float)k->limit, l->d);
    round_up_to(l->mn, l->n, (float)k->limit, l->m);
}

void LANES_NAME(quant_lanes_affine)(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c)
{
    struct lanes l;
    float d2[SIDE], m2[SIDE], err2[SIDE];
    begin(&l, k, x, importance);
    affine_begin(k, &l);
    affine_assign_all(k, &l, l.d, l.m, l.q, l.err);
    for (int turn = 0; turn < (importance ? 4 : 2); turn++) {
        bool better[SIDE];
        if (importance) {
            affine_improve(k, &l);
            affine_assign_all(k, &l, l.d, l.m, l.q, l.err);
        }
        affine_solve(&l, d2, m2, better);
        affine_assign_all(k, &l, d2, m2, l.q2, err2);
        for (int b = 0; b < SIDE; b++)
            better[b] = better[b] && err2[b] < l.err[b];
        if (!take(&l, better, d2, m2, err2))
            break;
        affine_assign_all(k, &l, l.d, l.m, l.q, l.err);
    }
    gather(&l, c);
}
