/* Choices among all tokens of a vocabulary (top-k 0) without a list of them. The tokens are those that the chain over a list gives,
 * but for what a sum over so many numbers may round. */
#include <math.h>

#include "base/ckd.h"
#include "engine/sample/exp_sum.h"
#include "engine/sample/sampler_steps.h"
#include "kernels/scan.h"

/* Those above `below`, in id order; false: there are more than `most`. */
static bool take_above(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n, float below, uint32_t most)
{
    l->n = 0;
    l->sorted = false;
    for (uint32_t i = 0; i < n; i += 64)
        for (uint64_t hit = scan_above(logits, n, i, mask, below); hit; hit &= hit - 1) {
            uint32_t id = i + (uint32_t)__builtin_ctzll(hit);
            if (l->n == most)
                return false;
            l->c[l->n++] = (struct sampler_cand){ (int32_t)id, logits[id], 0 };
        }
    return true;
}

/* Sorted, the first of them that reach `want` together are left. False: they do not. */
static bool cut(struct cand_list *l, double want)
{
    double sum = 0;
    cand_sort(l);
    for (uint32_t i = 0; i < l->n; i++)
        if ((sum += (double)l->c[i].p) >= want && i + 1 >= l->min_keep) {
            l->n = i + 1;
            return true;
        }
    return false;
}

bool cand_take_top_p(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n, float max, float p)
{
    double want = (double)p * exp_sums(logits, mask, n, max, 1.0f, NULL);
    /* The likeliest ones, more of them each time, until they are enough. */
    for (float range = 4.0f; range < 80.0f; range *= 1.4f) {
        double sum = 0;
        if (!take_above(l, logits, mask, n, max - range, n / 8))
            return false;
        for (uint32_t i = 0; i < l->n; i++)
            sum += (double)(l->c[i].p = expf(l->c[i].logit - max));
        if (sum >= want && cut(l, want))
            return true;
    }
    return false;
}

bool cand_take_min_p(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n, float max, float p)
{
    float least = max + logf(p);
    return p > 0 && take_above(l, logits, mask, n, nextafterf(least, -INFINITY), n) && l->n >= MAX(l->min_keep, 1u);
}

int32_t cand_draw_any(const float *logits, const uint64_t *mask, uint32_t n, float max, float temp, float *sums, struct mt19937 *rng)
{
    double total = exp_sums(logits, mask, n, max, temp, sums), want = mt_double(rng) * total, run = 0;
    uint32_t n_blocks = (n + EXP_BLOCK - 1) / EXP_BLOCK, b = 0;
    while (b + 1 < n_blocks && run + (double)sums[b] < want)
        run += (double)sums[b++];
    int32_t last = -1;
    for (; b < n_blocks; b++) /* the next one only where rounding leaves nothing in this one */
        for (uint32_t i = b * EXP_BLOCK; i < MIN(n, (b + 1) * EXP_BLOCK); i++) {
            if (!(logits[i] > -INFINITY) || (mask && !(mask[i / 64] >> i % 64 & 1)))
                continue;
            last = (int32_t)i;
            if ((run += exp((double)((logits[i] - max) / temp))) >= want)
                return last;
        }
    for (uint32_t i = n; i-- > 0 && last < 0;)
        if (logits[i] > -INFINITY && (!mask || mask[i / 64] >> i % 64 & 1))
            last = (int32_t)i;
    return last;
}

static float largest(const float *l, uint32_t n)
{
    float max = -INFINITY;
    for (uint32_t i = 0; i < n; i += 64)
        for (uint64_t hit = scan_above(l, n, i, NULL, max); hit; hit &= hit - 1)
            max = MAX(max, l[i + (uint32_t)__builtin_ctzll(hit)]);
    return max;
}

float sampler_log_sum(const float *logits, uint32_t n)
{
    float max = largest(logits, n);
    return max + (float)log(exp_sums(logits, NULL, n, max, 1.0f, NULL));
}

uint32_t sampler_largest(const float *logits, uint32_t n, uint32_t k, struct sampler_cand *top)
{
    uint32_t found = 0;
    float floor = -INFINITY;
    for (uint32_t i = 0; i < n && k; i += 64)
        for (uint64_t hit = scan_above(logits, n, i, NULL, floor); hit; hit &= hit - 1) {
            uint32_t id = i + (uint32_t)__builtin_ctzll(hit), at;
            if (!(logits[id] > floor))
                continue;
            at = found < k ? found++ : k - 1;
            for (; at > 0 && top[at - 1].logit < logits[id]; at--)
                top[at] = top[at - 1];
            top[at] = (struct sampler_cand){ (int32_t)id, logits[id], 0 };
            floor = found == k ? top[k - 1].logit : floor;
        }
    return found;
}
