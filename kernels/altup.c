/* kernels/altup.c: what Gemma 3n does beside products and norms: an activation of which few elements are left, a value made as large
 * as another, and its alternating updates. */
#include "kernels/kdev.h"
#include "kernels/klaunch.h"

/* Grid x: rows. */
KD_KERNEL(k_act_sparse, kl_act_mul)
{
    uint32_t r = kd_group_x();
    KD_SHARED float *sums = KD_SHARED_AT(float, 0);
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)r * a.n;
    KD_GLOBAL const float *up = KD_PTR(const float, a.a) + (uint64_t)r * a.lda;
    KD_GLOBAL float *y = KD_PTR(float, a.y) + (uint64_t)r * a.n;
    float sum = 0.0f, squares = 0.0f;
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size())
        sum += x[k];
    float mean = kd_group_sum(sum, sums) / (float)a.n;
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size()) {
        float d = x[k] - mean;
        squares = k_fma(d, d, squares);
    }
    float from = k_fma(a.cut, kd_sqrt(kd_group_sum(squares, sums) / (float)a.n), mean);
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size())
        y[k] = kd_act(a.act, kd_max(x[k] - from, 0.0f), up[k]);
}

/* Grid x: rows, y: groups of a row. */
KD_KERNEL(k_match, kl_match)
{
    uint32_t r = kd_group_x(), n = a.group;
    uint64_t at = (uint64_t)r * a.n + (uint64_t)kd_group_y() * n;
    KD_SHARED float *sums = KD_SHARED_AT(float, 0);
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + at;
    KD_GLOBAL const float *like = KD_PTR(const float, a.like) + (uint64_t)r * n;
    float own = 0.0f, other = 0.0f;
    for (uint32_t k = kd_tid(); k < n; k += kd_group_size()) {
        own = k_fma(x[k], x[k], own);
        other = k_fma(like[k], like[k], other);
    }
    own = kd_sqrt(kd_group_sum(own, sums) / (float)n);
    other = kd_sqrt(kd_group_sum(other, sums) / (float)n);
    float by = other / kd_max(own, KA_MATCH_LEAST);
    for (uint32_t k = kd_tid(); k < n; k += kd_group_size()) {
        float v = x[k] * by;
        v = a.resid ? KD_PTR(const float, a.resid)[at + k] + v : v;
        KD_PTR(float, a.y)[at + k] = v * a.scale;
    }
}

/* The other streams' elements k: x + (i - 1) n + k. */
KD_FN void altup_predict(const kl_altup *a, KD_SHARED const float *c, uint64_t r, uint32_t k)
{
    KD_GLOBAL const float *x = KD_PTR(const float, a->x) + r * (KA_STREAMS - 1) * a->n + k;
    KD_GLOBAL float *y = KD_PTR(float, a->y) + r * (KA_STREAMS - 1) * a->n + k;
    float s[KA_STREAMS];
    s[0] = KD_PTR(const float, a->x0)[r * a->n + k];
    KD_UNROLL
    for (uint32_t i = 1; i < KA_STREAMS; i++)
        s[i] = x[(uint64_t)(i - 1) * a->n];
    KD_UNROLL
    for (uint32_t i = 0; i < KA_STREAMS; i++) {
        float v = s[i];
        KD_UNROLL
        for (uint32_t j = 0; j < KA_STREAMS; j++)
            v = k_fma(c[i * KA_STREAMS + j], s[j], v);
        if (i == 0)
            KD_PTR(float, a->y0)[r * a->n + k] = v;
        else
            y[(uint64_t)(i - 1) * a->n] = v;
    }
}

KD_FN void altup_correct(const kl_altup *a, KD_SHARED const float *c, uint64_t r, uint32_t k)
{
    float first = KD_PTR(const float, a->x0)[r * a->n + k], d = KD_PTR(const float, a->a)[r * a->n + k] - first;
    first = k_fma(1.0f + c[0], d, first);
    if (a->form == KA_ALTUP_FIRST) {
        KD_PTR(float, a->y0)[r * a->n + k] = first * KD_PTR(const float, a->scale)[k];
        return;
    }
    KD_GLOBAL const float *x = KD_PTR(const float, a->x) + r * (KA_STREAMS - 1) * a->n + k;
    KD_GLOBAL float *y = KD_PTR(float, a->y) + r * (KA_STREAMS - 1) * a->n + k;
    float more = KD_PTR(const float, a->add)[r * a->n + k];
    KD_PTR(float, a->y0)[r * a->n + k] = first;
    KD_UNROLL
    for (uint32_t i = 1; i < KA_STREAMS; i++)
        y[(uint64_t)(i - 1) * a->n] = k_fma(1.0f + c[i], d, x[(uint64_t)(i - 1) * a->n]) + more;
}

/* Grid x: rows, y: shares of a row. */
KD_KERNEL(k_altup, kl_altup)
{
    uint32_t r = kd_group_x(), n_c = a.form == KA_ALTUP_PREDICT ? KA_STREAMS * KA_STREAMS : KA_STREAMS;
    KD_SHARED float *c = KD_SHARED_AT(float, 0);
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    if (kd_tid() < n_c) {
        KD_GLOBAL const float *w = KD_PTR(const float, a.w) + kd_tid() * KA_STREAMS;
        KD_GLOBAL const float *m = KD_PTR(const float, a.m) + (uint64_t)r * KA_STREAMS;
        float v = w[0] * m[0];
        KD_UNROLL
        for (uint32_t j = 1; j < KA_STREAMS; j++)
            v = k_fma(w[j], m[j], v);
        c[kd_tid()] = v * a.m_scale;
    }
    kd_barrier();
    for (uint32_t k = kd_tid() + kd_group_y() * kd_group_size(); k < a.n; k += kd_group_size() * kd_groups_y()) {
        if (a.form == KA_ALTUP_PREDICT)
            altup_predict(&a, c, r, k);
        else
            altup_correct(&a, c, r, k);
    }
}
