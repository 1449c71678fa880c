#include "engine/proof/divergence.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/ckd.h"

/* A token that the model rules out counts as one of e^-100. */
#define NO_CHANCE 100.0

/* log of the sum of e^x, and the largest of x [n]. */
static double log_sum(const float *x, uint32_t n, uint32_t *best)
{
    float max = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > max) {
            max = x[i];
            *best = i;
        }
    for (uint32_t i = 0; i < n; i++)
        sum += (double)expf(x[i] - max);
    return log(sum) + (double)max;
}

static double kl_of(const float *logp, const float *logits, uint32_t n, bool *same)
{
    uint32_t best_p = 0, best_q = 0;
    double zp = log_sum(logp, n, &best_p), zq = log_sum(logits, n, &best_q), sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double lp = (double)logp[i] - zp;
        if (lp > -40) /* the rest is worth less than the rounding */
            sum += exp(lp) * (lp - fmax((double)logits[i] - zq, -NO_CHANCE));
    }
    *same = best_p == best_q;
    return sum > 0 ? sum : 0;
}

double divergence_kl(const float *logp, const float *logits, uint32_t n)
{
    bool same;
    return kl_of(logp, logits, n, &same);
}

int divergence_add(struct divergence *d, const float *logp, const float *logits, uint32_t n, double ref_nll, double nll)
{
    if (d->n == d->cap) {
        uint64_t cap = MAX(2 * d->cap, 1024u);
        float *kl = realloc(d->kl, cap * sizeof *kl);
        if (!kl)
            return -ENOMEM;
        d->kl = kl;
        d->cap = cap;
    }
    bool same;
    double kl = kl_of(logp, logits, n, &same), diff = nll - ref_nll;
    d->kl[d->n++] = (float)kl;
    d->n_same += same;
    d->sum += kl;
    d->sum_sq += kl * kl;
    d->diff += diff;
    d->diff_sq += diff * diff;
    d->ref_nll += ref_nll;
    return 0;
}

static double mean_error(double sum, double sum_sq, double n)
{
    double mean = sum / n, var = n > 1 ? (sum_sq / n - mean * mean) / (n - 1) : 0;
    return var > 0 ? sqrt(var) : 0;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct divergence *d, double q)
{
    double at = q * (double)(d->n - 1);
    uint64_t i = (uint64_t)at, j = MIN(i + 1, d->n - 1);
    return (double)d->kl[i] + (at - (double)i) * ((double)d->kl[j] - (double)d->kl[i]);
}

void divergence_conclude(struct divergence *d, struct divergence_result *r)
{
    double n = (double)d->n;
    *r = (struct divergence_result){ .n = d->n };
    if (!d->n)
        return;
    qsort(d->kl, d->n, sizeof *d->kl, ascending);
    r->kl = d->sum / n;
    r->kl_error = mean_error(d->sum, d->sum_sq, n);
    r->kl_median = quantile(d, 0.5);
    r->kl_99 = quantile(d, 0.99);
    r->same = (double)d->n_same / n;
    r->same_error = d->n > 1 ? sqrt(r->same * (1 - r->same) / (n - 1)) : 0;
    r->ref_ppl = exp(d->ref_nll / n);
    r->ratio = exp(d->diff / n);
    r->ratio_error = r->ratio * mean_error(d->diff, d->diff_sq, n);
}

void divergence_finish(struct divergence *d)
{
    free(d->kl);
    *d = (struct divergence){ 0 };
}
