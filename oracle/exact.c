/* oracle/exact.c: --exact, what every tier is judged by
 * Weights are dequantised, every sum, norm and function is in double; f32 (and the cache's type) only where a command
 * stores its result. Written to be read: one loop per formula of kernels/kargs.h. The cache is [n_kv, n_ctx,
 * head_dim] for both K and V. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/dequant.h"
#include "kernels/sample.h"
#include "oracle/cpu.h"
#include "oracle/kv_block.h"

static double dot(const struct cpu_run *r, const float *w, const double *x, uint32_t n)
{
    return r->c->ops->dot64(w, x, n);
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double softplus(double x)
{
    return x > 20.0 ? x : log1p(exp(x));
}

static double act_mul(double g, double u, enum ka_act act)
{
    switch (act) {
    case KA_SILU: return silu(g) * u;
    case KA_GELU_TANH: return 0.5 * g * (1.0 + tanh(sqrt(2.0 / M_PI) * g * (1.0 + 0.044715 * g * g))) * u;
    default: {
        double x = fmin(g, 7.0), y = fmin(fmax(u, -7.0), 7.0);
        return x * sigmoid(1.702 * x) * (y + 1.0);
    }
    }
}

/* y = [resid +] x / sqrt(mean x^2 + eps) [* w]; y in double. */
static void rms(double *y, const float *x, const float *w, uint32_t n, double eps)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    double s = 1.0 / sqrt(sum / n + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * s * (w ? (double)w[i] : 1.0);
}

/* ---- rows ---- */

static void exact_embed(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_embed *a = &cmd->a.EMBED;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, r->c->io->n_rows); pool_next(r->w, &l, &i);) {
        int32_t t = r->c->rows[i].token;
        uint64_t id = (uint32_t)(t >= 0 ? t : r->c->next[-1 - t]);
        float *y = CPU_F32(a->y) + (size_t)i * a->n;
        dequant_row(a->type, (const uint8_t *)cpu_ptr(a->w) + id * qtype_row_bytes(a->type, a->n), y, a->n);
        for (uint32_t k = 0; k < a->n; k++)
            y[k] = (float)((double)y[k] * a->scale);
    }
}

static void exact_norm(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_norm *a = &cmd->a.NORM;
    double *t = (double *)r->s->op;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);) {
        size_t row = (size_t)i * a->n;
        double by = a->out_scale ? *CPU_F32(a->out_scale) : 1.0;
        for (uint32_t k = 0; k < a->n; k += a->group)
            rms(t + k, CPU_F32(a->x) + row + k, CPU_F32(a->w), a->group, a->eps);
        for (uint32_t k = 0; k < a->n; k++)
            CPU_F32(a->y)[row + k] = (float)((a->resid ? CPU_F32(a->resid)[row + k] + t[k] : t[k]) * by);
    }
}

static void exact_add(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_add *a = &cmd->a.ADD;
    double by = a->out_scale ? *CPU_F32(a->out_scale) : 1.0;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);)
        for (size_t k = (size_t)i * a->n; k < (size_t)(i + 1) * a->n; k++)
            CPU_F32(a->y)[k] = (float)(((double)CPU_F32(a->a)[k] + CPU_F32(a->b)[k]) * by);
}

/* mean + cut * standard deviation */
static double cutoff(const float *x, uint32_t n, double cut)
{
    double mean = 0.0, squares = 0.0;
    for (uint32_t k = 0; k < n; k++)
        mean += x[k];
    mean /= n;
    for (uint32_t k = 0; k < n; k++)
        squares += (x[k] - mean) * (x[k] - mean);
    return mean + cut * sqrt(squares / n);
}

static void exact_act_mul(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_act_mul *a = &cmd->a.ACT_MUL;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);) {
        const float *x = CPU_F32(a->x) + (size_t)i * a->n, *up = CPU_F32(a->a) + (size_t)i * a->lda;
        double from = a->sparse ? cutoff(x, a->n, a->cut) : 0.0;
        for (size_t k = 0; k < a->n; k++)
            CPU_F32(a->y)[(size_t)i * a->n + k] = (float)act_mul(a->sparse ? fmax(x[k] - from, 0.0) : x[k], up[k], a->act);
    }
}

static double root_mean_square(const float *x, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < n; k++)
        sum += (double)x[k] * x[k];
    return sqrt(sum / n);
}

static void exact_match(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_match *a = &cmd->a.MATCH;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);)
        for (size_t at = (size_t)i * a->n; at < ((size_t)i + 1) * a->n; at += a->group) {
            const float *x = CPU_F32(a->x) + at, *resid = a->resid ? CPU_F32(a->resid) + at : NULL;
            double by = root_mean_square(CPU_F32(a->like) + (size_t)i * a->group, a->group) /
                        fmax(root_mean_square(x, a->group), sqrt(1e-5));
            for (size_t k = 0; k < a->group; k++)
                CPU_F32(a->y)[at + k] = (float)(((resid ? resid[k] : 0.0) + x[k] * by) * a->scale);
        }
}

static void exact_altup(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_altup *a = &cmd->a.ALTUP;
    uint32_t row, n_c = a->form == KA_ALTUP_PREDICT ? KA_STREAMS * KA_STREAMS : KA_STREAMS;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &row);) {
        size_t at = (size_t)row * a->n, rest = at * (KA_STREAMS - 1);
        double c[KA_STREAMS * KA_STREAMS] = { 0 };
        for (uint32_t i = 0; i < n_c * KA_STREAMS; i++)
            c[i / KA_STREAMS] += (double)CPU_F32(a->w)[i] * CPU_F32(a->m)[(size_t)row * KA_STREAMS + i % KA_STREAMS] * a->m_scale;
        for (size_t k = 0; k < a->n; k++) {
            double s[KA_STREAMS], y[KA_STREAMS];
            for (size_t i = 0; i < KA_STREAMS; i++)
                s[i] = i == 0 ? CPU_F32(a->x0)[at + k] : a->form == KA_ALTUP_FIRST ? 0.0 : CPU_F32(a->x)[rest + (i - 1) * a->n + k];
            for (size_t i = 0; i < KA_STREAMS; i++) {
                y[i] = s[i];
                if (a->form != KA_ALTUP_PREDICT)
                    y[i] += (1.0 + c[i]) * (CPU_F32(a->a)[at + k] - s[0]);
                else
                    for (size_t j = 0; j < KA_STREAMS; j++)
                        y[i] += c[i * KA_STREAMS + j] * s[j];
            }
            CPU_F32(a->y0)[at + k] = (float)(a->form == KA_ALTUP_FIRST ? y[0] * CPU_F32(a->scale)[k] : y[0]);
            for (size_t i = 1; i < KA_STREAMS && a->form != KA_ALTUP_FIRST; i++)
                CPU_F32(a->y)[rest + (i - 1) * a->n + k] =
                    (float)(a->form == KA_ALTUP_CORRECT ? y[i] + CPU_F32(a->add)[at + k] : y[i]);
        }
    }
}

static void exact_gather(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_gather *a = &cmd->a.GATHER;
    const uint32_t *row = cpu_ptr(a->out_row);
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, r->c->io->n_out); pool_next(r->w, &l, &i);)
        memcpy(CPU_F32(a->y) + (size_t)i * a->n, CPU_F32(a->x) + (size_t)row[i] * a->n, a->n * sizeof(float));
}

/* Is x[k] behind x[j] in the order of candidates? */
static bool is_behind(const float *x, uint32_t k, uint32_t j)
{
    return x[k] < x[j] || (x[k] == x[j] && k > j);
}

/* The first candidate, or the one behind `after`; -1: there is none. A NaN never wins. */
static int32_t exact_largest(const float *x, uint32_t n, int32_t after)
{
    int32_t best = -1;
    for (uint32_t k = 0; k < n; k++)
        if (x[k] > -INFINITY && (best < 0 || x[k] > x[best]) && (after < 0 || is_behind(x, k, (uint32_t)after)))
            best = (int32_t)k;
    return best;
}

/* The draw is kernels/sample.h's, in f32: its tokens are to be the same everywhere. */
static int32_t exact_draw(const ka_sample *s, const float *x, uint32_t n)
{
    uint32_t id[KA_SAMPLE_MAX], m = 0, k = sample_top_k(s->top_k), left;
    float top[KA_SAMPLE_MAX];
    for (int32_t at = -1; m < k && (at = exact_largest(x, n, at)) >= 0; m++) {
        id[m] = (uint32_t)at;
        top[m] = x[at];
    }
    return m ? (int32_t)id[sample_pick(s, top, m, &left)] : -1;
}

static void exact_argmax(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_argmax *a = &cmd->a.ARGMAX;
    const ka_sample *sample = cpu_ptr(a->sample);
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, r->c->io->n_out); pool_next(r->w, &l, &i);) {
        const float *x = CPU_F32(a->logits) + (size_t)i * a->n;
        bool drawn = sample && sample[i].temp > 0.0f;
        ((int32_t *)cpu_ptr(a->next))[i] = drawn ? exact_draw(&sample[i], x, a->n) : exact_largest(x, a->n, -1);
    }
}

/* ---- products ---- */

/* x'[rows, n] in double, for all workers. */
static const double *exact_input(struct cpu_run *r, gpu_va x, size_t ldx, gpu_va norm, uint32_t rows, uint32_t n,
                                 double eps)
{
    double *out = (double *)r->c->shared.op;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, rows); pool_next(r->w, &l, &i);) {
        const float *row = CPU_F32(x) + i * ldx;
        if (norm)
            rms(out + (size_t)i * n, row, CPU_F32(norm), n, eps);
        else
            for (uint32_t k = 0; k < n; k++)
                out[(size_t)i * n + k] = row[k];
    }
    pool_barrier(r->w);
    return out;
}

/* Row o of a matrix as floats. */
static const float *weight_row(float *buf, gpu_va w, enum qtype t, uint32_t n, size_t o)
{
    dequant_row(t, (const uint8_t *)cpu_ptr(w) + o * qtype_row_bytes(t, n), buf, n);
    return buf;
}

static double or_one(gpu_va v, size_t i)
{
    return v ? (double)CPU_F32(v)[i] : 1.0;
}

static double or_zero(gpu_va v, size_t i)
{
    return v ? (double)CPU_F32(v)[i] : 0.0;
}

static void exact_products(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_matmul *a = &cmd->a.MATMUL;
    uint32_t rows = cpu_rows(r->c, a->rows), n = a->n_in, total = 0, o;
    bool gate_up = cmd->op == CMD_GATE_UP, matmul = cmd->op == CMD_MATMUL;
    float *buf = (float *)r->s->op;
    const double *x = exact_input(r, a->x, a->ldx, a->norm, rows, n, a->eps);
    for (uint32_t m = 0; m < (gate_up ? 1 : a->n_mats); m++)
        total += a->n_out[m];
    for (struct pool_loop l = pool_loop(r->w, rows ? total : 0); pool_next(r->w, &l, &o);) {
        uint32_t m = 0;
        while (o >= a->n_out[m])
            o -= a->n_out[m++];
        const float *w = weight_row(buf, a->w[m], a->type[m], n, o);
        const float *u = gate_up ? weight_row(buf + n, a->w[1], a->type[1], n, o) : NULL;
        for (uint32_t i = 0; i < rows; i++) {
            const double *xi = x + (size_t)i * n;
            double y = dot(r, w, xi, n) * or_one(a->wscale[m], 0) + or_zero(a->b[m], o);
            if (gate_up)
                y = act_mul(y, dot(r, u, xi, n) * or_one(a->wscale[1], 0) + or_zero(a->b[1], o), a->act);
            if (matmul) {
                if (a->scale)
                    y *= CPU_F32(a->scale)[i];
                y += or_zero(a->resid, (size_t)i * a->ldr + o);
                if (a->softcap > 0.0f)
                    y = a->softcap * tanh(y / a->softcap);
            }
            CPU_F32(a->y[m])[(size_t)i * a->ld[m] + o] = (float)y;
        }
    }
}

/* ---- experts ---- */

static void exact_choose(const ka_router *a, uint32_t row, double *p)
{
    uint32_t *ids = (uint32_t *)cpu_ptr(a->ids) + (size_t)row * a->k;
    float *weights = CPU_F32(a->weights) + (size_t)row * a->k;
    uint32_t n = a->n_expert;
    double sum = 0.0, max = p[0];
    for (uint32_t e = 1; e < n; e++)
        max = fmax(max, p[e]);
    if (a->gating == KA_SOFTMAX_TOPK) {
        for (uint32_t e = 0; e < n; e++)
            sum += p[e] = exp(p[e] - max);
        for (uint32_t e = 0; e < n; e++)
            p[e] /= sum;
    }
    double chosen[64];
    for (uint32_t j = 0; j < a->k; j++) {
        uint32_t best = n;
        for (uint32_t e = 0; e < n; e++) {
            bool taken = false;
            for (uint32_t i = 0; i < j; i++)
                taken |= ids[i] == e;
            if (!taken && (best == n || p[e] > p[best]))
                best = e;
        }
        ids[j] = best;
        chosen[j] = a->gating == KA_SOFTMAX_TOPK ? p[best] : exp(p[best] - max);
    }
    sum = 0.0;
    for (uint32_t j = 0; j < a->k; j++)
        sum += chosen[j];
    if (a->gating == KA_SOFTMAX_TOPK)
        sum = fmax(sum, 0x1p-14);
    for (uint32_t j = 0; j < a->k; j++)
        weights[j] = (float)(chosen[j] / sum * a->scale * (a->expert_scale ? CPU_F32(a->expert_scale)[ids[j]] : 1.0));
}

static void exact_router(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_router *a = &cmd->a.ROUTER;
    uint32_t rows = r->c->io->n_rows, n = a->n_in, o;
    float *buf = (float *)r->s->op;
    const double *x = exact_input(r, a->x, n, a->norm, rows, n, a->eps);
    double *logits = (double *)r->c->shared.x; /* [rows, n_expert]: the choice is made on doubles */
    for (struct pool_loop l = pool_loop(r->w, a->n_expert + (a->shared_w != 0)); pool_next(r->w, &l, &o);) {
        bool share = o == a->n_expert;
        const float *w = share ? CPU_F32(a->shared_w) : weight_row(buf, a->w, a->type, n, o);
        for (uint32_t i = 0; i < rows; i++) {
            double y = dot(r, w, x + (size_t)i * n, n);
            if (share)
                CPU_F32(a->share)[i] = (float)sigmoid(y);
            else
                logits[(size_t)i * a->n_expert + o] = y + or_zero(a->b, o);
        }
    }
    pool_barrier(r->w);
    for (struct pool_loop l = pool_loop(r->w, rows); pool_next(r->w, &l, &o);) {
        for (uint32_t e = 0; e < a->n_expert; e++)
            CPU_F32(a->logits)[(size_t)o * a->n_expert + e] = (float)logits[(size_t)o * a->n_expert + e];
        exact_choose(a, o, logits + (size_t)o * a->n_expert);
    }
}

static void exact_moe_up(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_moe_up *a = &cmd->a.MOE_UP;
    uint32_t rows = r->c->io->n_rows, n = a->n_in, i;
    float *buf = (float *)r->s->op;
    const double *x = exact_input(r, a->x, n, a->norm, rows, n, a->eps);
    struct cpu_pairs ps;
    cpu_pairs_sort(r, &ps, cpu_pairs_ids(r, a->ids, rows * a->k, a->n_expert), rows * a->k, a->n_expert);
    for (struct pool_loop l = pool_loop(r->w, ps.n_active * a->n_ff); pool_next(r->w, &l, &i);) {
        uint32_t e = ps.active[i / a->n_ff], o = i % a->n_ff;
        const float *g = weight_row(buf, a->gate + e * a->gate_stride, a->type_gate, n, o);
        const float *u = weight_row(buf + n, a->up + e * a->up_stride, a->type_up, n, o);
        for (uint32_t p = ps.start[e]; p < ps.start[e + 1]; p++) {
            uint32_t pair = ps.order[p];
            const double *xi = x + (size_t)(pair / a->k) * n;
            double gv = dot(r, g, xi, n) * or_one(a->sg, e) + or_zero(a->bg, (size_t)e * a->n_ff + o);
            double uv = dot(r, u, xi, n) * or_one(a->su, e) + or_zero(a->bu, (size_t)e * a->n_ff + o);
            CPU_F32(a->y)[(size_t)pair * a->n_ff + o] = (float)act_mul(gv, uv, a->act);
        }
    }
}

static void exact_moe_down(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_moe_down *a = &cmd->a.MOE_DOWN;
    uint32_t rows = r->c->io->n_rows, n = a->n_in, o;
    double *t = (double *)r->s->op; /* [pairs] */
    float *buf = (float *)(t + (size_t)rows * a->k);
    const double *x = exact_input(r, a->x, n, 0, rows * a->k, n, 0.0);
    struct cpu_pairs ps;
    cpu_pairs_sort(r, &ps, cpu_pairs_ids(r, a->ids, rows * a->k, a->n_expert), rows * a->k, a->n_expert);
    for (struct pool_loop l = pool_loop(r->w, a->n_out); pool_next(r->w, &l, &o);) {
        for (uint32_t i = 0; i < ps.n_active; i++) {
            uint32_t e = ps.active[i];
            const float *w = weight_row(buf, a->down + e * a->stride, a->type, n, o);
            for (uint32_t p = ps.start[e]; p < ps.start[e + 1]; p++)
                t[ps.order[p]] = dot(r, w, x + (size_t)ps.order[p] * n, n) * or_one(a->sd, e) +
                                 or_zero(a->b, (size_t)e * a->n_out + o);
        }
        for (uint32_t i = 0; i < rows; i++) {
            double s = or_zero(a->resid, (size_t)i * a->n_out + o);
            for (uint32_t j = i * a->k; j < (i + 1) * a->k; j++)
                s += CPU_F32(a->weights)[j] * t[j];
            CPU_F32(a->y)[(size_t)i * a->n_out + o] = (float)s;
        }
    }
}

/* ---- attention ---- */

/* Of the cache as [.., n values]: blocks lie as blk_q8_0 and blk_q4_0, in order, the latter with the codes of dimensions
 * i and i + 16 in a byte. */
static void kv_store_block(gpu_va cache, size_t at, enum ka_kv type, const float *x)
{
    if (type == KA_KV_Q8_0) {
        blk_q8_0 *b = (blk_q8_0 *)cpu_ptr(cache) + at / KA_KV_BLOCK;
        b->d = kv_q8_store(x, b->qs);
        return;
    }
    blk_q4_0 *b = (blk_q4_0 *)cpu_ptr(cache) + at / KA_KV_BLOCK;
    uint8_t q[KA_KV_BLOCK];
    b->d = kv4_store(type, x, q);
    for (uint32_t i = 0; i < KA_KV_BLOCK / 2; i++)
        b->qs[i] = (uint8_t)(q[i] | q[i + KA_KV_BLOCK / 2] << 4);
}

/* The n values of a head from element `at` on. */
static void kv_store(gpu_va cache, size_t at, enum ka_kv type, const double *v, uint32_t n)
{
    for (uint32_t d = 0; KA_KV_IS_BLOCKS(type) && d < n; d += KA_KV_BLOCK) {
        float x[KA_KV_BLOCK];
        for (uint32_t i = 0; i < KA_KV_BLOCK; i++)
            x[i] = (float)v[d + i];
        kv_store_block(cache, at + d, type, x);
    }
    for (uint32_t d = 0; type == KA_KV_F16 && d < n; d++)
        ((uint16_t *)cpu_ptr(cache))[at + d] = f16_from_f32((float)v[d]);
    for (uint32_t d = 0; type == KA_KV_FP8 && d < n; d++)
        ((uint8_t *)cpu_ptr(cache))[at + d] = (uint8_t)e4m3_from_f32((float)v[d]);
    for (uint32_t d = 0; type == KA_KV_F32 && d < n; d++)
        CPU_F32(cache)[at + d] = (float)v[d];
}

static double kv_load(gpu_va cache, size_t at, enum ka_kv type)
{
    uint32_t i = at % KA_KV_BLOCK;
    if (type == KA_KV_Q8_0) {
        const blk_q8_0 *b = (const blk_q8_0 *)cpu_ptr(cache) + at / KA_KV_BLOCK;
        return (double)f16_to_f32(b->d) * b->qs[i];
    }
    if (KA_KV_IS_4BIT(type)) {
        const blk_q4_0 *b = (const blk_q4_0 *)cpu_ptr(cache) + at / KA_KV_BLOCK;
        return (double)f16_to_f32(b->d) * kv4_level(type == KA_KV_ROT4, b->qs[i % 16] >> i / 16 * 4 & 15);
    }
    if (type == KA_KV_FP8)
        return e4m3_to_f32(((const uint8_t *)cpu_ptr(cache))[at]);
    return type == KA_KV_F16 ? f16_to_f32(((const uint16_t *)cpu_ptr(cache))[at]) : CPU_F32(cache)[at];
}

static void kv_rotate_exact(double *x, uint32_t hd, bool of_q)
{
    uint32_t run = kv_rot_run(hd);
    for (uint32_t d = 0; d < hd; d++)
        x[d] *= kv_sign(d);
    for (uint32_t n = 1; n < run; n *= 2)
        for (uint32_t d = 0; d < hd; d++)
            if (!(d & n)) {
                double lo = x[d], hi = x[d + n];
                x[d] = lo + hi;
                x[d + n] = lo - hi;
            }
    for (uint32_t d = 0; d < hd; d++)
        x[d] *= kv_rot_scale(hd, of_q);
}

static void rotate(double *x, const ka_rope_kv *a, uint32_t pos)
{
    uint32_t half = a->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        double theta = (float)pos * CPU_F32(a->inv_freq)[i]; /* f32, as everywhere */
        double c = cos(theta) * a->mscale, s = sin(theta) * a->mscale;
        double *x0 = a->rope == KA_ROPE_NORM ? x + 2 * i : x + i, *x1 = a->rope == KA_ROPE_NORM ? x0 + 1 : x0 + half;
        double y0 = *x0 * c - *x1 * s, y1 = *x0 * s + *x1 * c;
        *x0 = y0;
        *x1 = y1;
    }
}

static void head_norm(double *t, const float *x, gpu_va w, bool norm, uint32_t n, double eps)
{
    if (norm)
        rms(t, x, CPU_F32(w), n, eps);
    else
        for (uint32_t i = 0; i < n; i++)
            t[i] = x[i];
}

static void exact_rope_kv(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_rope_kv *a = &cmd->a.ROPE_KV;
    uint32_t hd = a->head_dim, i;
    double *t = (double *)r->s->op;
    const ka_step *io = cpu_step(r->c, a->step, a->rows);
    for (struct pool_loop l = pool_loop(r->w, io->n_rows); pool_next(r->w, &l, &i);) {
        const ka_row *row = &cpu_step_rows(io)[i];
        double by = a->q_scale ? or_one(a->q_scale, row->pos / a->q_every) : 1.0;
        for (uint32_t h = 0; h < a->n_head; h++) {
            float *q = CPU_F32(a->q) + (size_t)i * a->ldq + (size_t)h * a->q_hs;
            head_norm(t, q, a->q_norm, a->q_norm != 0, hd, a->eps);
            rotate(t, a, row->pos);
            if (a->kv_type == KA_KV_ROT4)
                kv_rotate_exact(t, hd, true);
            for (uint32_t d = 0; d < hd; d++)
                q[d] = (float)(t[d] * by);
        }
        for (uint32_t h = 0; a->k && h < a->n_kv; h++) {
            size_t at = ((size_t)h * a->n_ctx + row->pos) * hd;
            head_norm(t, CPU_F32(a->k) + (size_t)i * a->ldk + (size_t)h * hd, a->k_norm, a->k_norm != 0, hd, a->eps);
            rotate(t, a, row->pos);
            if (a->kv_type == KA_KV_ROT4)
                kv_rotate_exact(t, hd, false);
            kv_store(a->kc + row->slot * a->slot_bytes, at, a->kv_type, t, hd);
            head_norm(t, CPU_F32(a->v) + (size_t)i * a->ldv + (size_t)h * hd, 0, a->v_norm, hd, a->eps);
            kv_store(a->vc + row->slot * a->slot_bytes, at, a->kv_type, t, hd);
        }
    }
}

static void exact_attn(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_attn *a = &cmd->a.ATTN;
    uint32_t hd = a->head_dim, n_ctx = a->n_ctx, i;
    double *p = (double *)r->s->op, *o = p + n_ctx;
    const ka_step *io = cpu_step(r->c, a->step, a->rows);
    const ka_row *rows = cpu_step_rows(io);
    for (struct pool_loop l = pool_loop(r->w, io->n_rows * a->n_head); pool_next(r->w, &l, &i);) {
        uint32_t row = i / a->n_head, h = i % a->n_head, pos = rows[row].pos;
        uint32_t first = a->window && pos >= a->window ? pos - a->window + 1 : 0;
        size_t head = (size_t)(h / (a->n_head / a->n_kv)) * n_ctx * hd;
        size_t qat = (size_t)row * a->ldq + (size_t)h * a->q_hs;
        gpu_va kc = a->kc + rows[row].slot * a->slot_bytes, vc = a->vc + rows[row].slot * a->slot_bytes;
        double m = a->sinks ? CPU_F32(a->sinks)[h] : -INFINITY;
        for (uint32_t j = first; j <= pos; j++) {
            double s = 0.0;
            for (uint32_t d = 0; d < hd; d++)
                s += CPU_F32(a->q)[qat + d] * kv_load(kc, head + (size_t)j * hd + d, a->kv_type);
            p[j] = s * a->scale;
            m = fmax(m, p[j]);
        }
        double sum = a->sinks ? exp(CPU_F32(a->sinks)[h] - m) : 0.0;
        memset(o, 0, hd * sizeof *o);
        for (uint32_t j = first; j <= pos; j++) {
            double w = exp(p[j] - m);
            sum += w;
            for (uint32_t d = 0; d < hd; d++)
                o[d] += w * kv_load(vc, head + (size_t)j * hd + d, a->kv_type);
        }
        for (uint32_t d = 0; d < hd; d++)
            CPU_F32(a->y)[(size_t)i * hd + d] =
                (float)(o[d] / sum * (a->gate ? sigmoid(CPU_F32(a->gate)[qat + d]) : 1.0));
    }
}

/* ---- gated DeltaNet ---- */

static float *slot_f32(gpu_va base, uint64_t slot_bytes, uint32_t slot)
{
    return CPU_F32(base + slot * slot_bytes);
}

static void exact_conv(const struct cpu *c, const ka_gdn *a, uint32_t ch)
{
    uint32_t n = (2 * a->n_k + a->n_v) * a->head_dim, K = a->conv_kernel;
    for (uint32_t r = 0; r < c->io->n_rows; r++) {
        float *ring = slot_f32(a->conv, a->conv_slot_bytes, c->rows[r].slot);
        uint32_t pos = c->rows[r].pos;
        ring[(size_t)(pos % K) * n + ch] = CPU_F32(a->qkv)[(size_t)r * n + ch];
        double s = 0.0;
        for (uint32_t back = 0; back < K && back <= pos; back++)
            s += (double)CPU_F32(a->conv_w)[(size_t)ch * K + (K - 1 - back)] *
                 ring[(size_t)((pos - back) % K) * n + ch];
        CPU_F32(a->c)[(size_t)r * n + ch] = (float)silu(s);
    }
}

static void exact_l2(double *y, const float *x, uint32_t n, double eps)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum + eps);
}

static void exact_delta(const struct cpu *c, const ka_gdn *a, uint32_t h, double *q)
{
    uint32_t hd = a->head_dim, n = (2 * a->n_k + a->n_v) * hd, g = a->ab_group;
    uint32_t hk = a->heads == KA_GDN_MODULO ? h % a->n_k : h / (a->n_v / a->n_k);
    size_t ab = g ? (size_t)(h / g) * 2 * g + h % g : h; /* grouped: alpha points behind the first betas */
    double *k = q + hd, *o = k + hd;
    for (uint32_t r = 0; r < c->io->n_rows; r++) {
        const float *row = CPU_F32(a->c) + (size_t)r * n, *v = row + (size_t)(2 * a->n_k + h) * hd;
        float *S = slot_f32(a->state, a->state_slot_bytes, c->rows[r].slot) + (size_t)h * hd * hd;
        exact_l2(q, row + (size_t)hk * hd, hd, a->eps);
        exact_l2(k, row + (size_t)(a->n_k + hk) * hd, hd, a->eps);
        double alpha = CPU_F32(a->alpha)[(size_t)r * a->ab_ld + ab] + CPU_F32(a->dt)[h];
        double decay = exp(CPU_F32(a->a)[h] * softplus(alpha));
        double beta = sigmoid(CPU_F32(a->beta)[(size_t)r * a->ab_ld + ab]), sum = 0.0;
        if (c->rows[r].pos == 0)
            memset(S, 0, (size_t)hd * hd * sizeof *S);
        for (uint32_t j = 0; j < hd; j++) {
            float *s = S + (size_t)j * hd;
            double seen = 0.0, out = 0.0;
            for (uint32_t i = 0; i < hd; i++)
                seen += decay * s[i] * k[i];
            double e = beta * (v[j] - seen);
            for (uint32_t i = 0; i < hd; i++) {
                double now = decay * s[i] + k[i] * e;
                s[i] = (float)now;
                out += now * q[i];
            }
            o[j] = out / sqrt(hd);
            sum += o[j] * o[j];
        }
        double scale = 1.0 / sqrt(sum / hd + a->eps);
        size_t at = ((size_t)r * a->n_v + h) * hd;
        for (uint32_t j = 0; j < hd; j++)
            CPU_F32(a->y)[at + j] = (float)(o[j] * scale * CPU_F32(a->norm)[j] * silu(CPU_F32(a->z)[at + j]));
    }
}

static void exact_gdn(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_gdn *a = &cmd->a.GDN;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, (2 * a->n_k + a->n_v) * a->head_dim); pool_next(r->w, &l, &i);)
        exact_conv(r->c, a, i);
    pool_barrier(r->w);
    for (struct pool_loop l = pool_loop(r->w, a->n_v); pool_next(r->w, &l, &i);)
        exact_delta(r->c, a, i, (double *)r->s->op);
}

void cpu_need_exact(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n)
{
    size_t rows = s->h.row_cap;
    switch (cmd->op) {
    case CMD_NORM: need_max(&n->op, cmd->a.NORM.n * sizeof(double)); break;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP:
        need_max(&n->op, 2 * (size_t)cmd->a.MATMUL.n_in * sizeof(float));
        need_max(&n->shared_part, MAX(rows, s->h.out_cap) * cmd->a.MATMUL.n_in * sizeof(double));
        break;
    case CMD_ROUTER:
        need_max(&n->op, cmd->a.ROUTER.n_in * sizeof(float));
        need_max(&n->shared_part, rows * cmd->a.ROUTER.n_in * sizeof(double));
        need_max(&n->shared_x, rows * cmd->a.ROUTER.n_expert * sizeof(double));
        break;
    case CMD_MOE_UP:
        need_max(&n->op, 2 * (size_t)cmd->a.MOE_UP.n_in * sizeof(float));
        need_max(&n->shared_part, rows * cmd->a.MOE_UP.n_in * sizeof(double));
        need_max(&n->pairs, cpu_pairs_bytes(rows * cmd->a.MOE_UP.k, cmd->a.MOE_UP.n_expert));
        break;
    case CMD_MOE_DOWN: {
        const ka_moe_down *a = &cmd->a.MOE_DOWN;
        need_max(&n->op, rows * a->k * sizeof(double) + a->n_in * sizeof(float));
        need_max(&n->shared_part, rows * a->k * a->n_in * sizeof(double));
        need_max(&n->pairs, cpu_pairs_bytes(rows * a->k, a->n_expert));
        break;
    }
    case CMD_ROPE_KV: need_max(&n->op, cmd->a.ROPE_KV.head_dim * sizeof(double)); break;
    case CMD_ATTN: need_max(&n->op, ((size_t)cmd->a.ATTN.n_ctx + cmd->a.ATTN.head_dim) * sizeof(double)); break;
    case CMD_GDN: need_max(&n->op, 3 * (size_t)cmd->a.GDN.head_dim * sizeof(double)); break;
    default: break;
    }
}

cpu_cmd_fn *const cpu_exact_cmds[CMD_COUNT] = {
    [CMD_EMBED] = exact_embed,     [CMD_NORM] = exact_norm,        [CMD_ADD] = exact_add,
    [CMD_ACT_MUL] = exact_act_mul, [CMD_MATCH] = exact_match,      [CMD_ALTUP] = exact_altup,
    [CMD_STEP_OUT] = cpu_run_step_out,
    [CMD_MATMUL] = exact_products, [CMD_PROJ] = exact_products,    [CMD_GATE_UP] = exact_products,
    [CMD_ROPE_KV] = exact_rope_kv, [CMD_ATTN] = exact_attn,        [CMD_GDN] = exact_gdn,
    [CMD_ROUTER] = exact_router,   [CMD_MOE_UP] = exact_moe_up,    [CMD_MOE_DOWN] = exact_moe_down,
    [CMD_GATHER] = exact_gather,   [CMD_ARGMAX] = exact_argmax,
};
