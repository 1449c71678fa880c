#include "engine/sample/sampler_steps.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/scan.h"

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, SMALL_SORT = 48 };

/* Maps floats to unsigned so that a larger float has a smaller key. */
static uint32_t falling_key(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u & 0x80000000u ? u : ~(u | 0x80000000u);
}

/* Ascending and stable; the result is in a[]. */
static void sort_recs(struct sort_rec *a, struct sort_rec *b, uint32_t n)
{
    if (n <= SMALL_SORT) {
        for (uint32_t i = 1; i < n; i++) {
            struct sort_rec r = a[i];
            uint32_t j = i;
            for (; j > 0 && a[j - 1].key > r.key; j--)
                a[j] = a[j - 1];
            a[j] = r;
        }
        return;
    }
    struct sort_rec *from = a, *to = b;
    for (uint32_t shift = 0; shift < 32; shift += RADIX_BITS) {
        uint32_t at[RADIX] = { 0 }, sum = 0;
        for (uint32_t i = 0; i < n; i++)
            at[from[i].key >> shift & (RADIX - 1)]++;
        for (uint32_t i = 0; i < RADIX; i++) {
            uint32_t count = at[i];
            at[i] = sum;
            sum += count;
        }
        for (uint32_t i = 0; i < n; i++)
            to[at[from[i].key >> shift & (RADIX - 1)]++] = from[i];
        struct sort_rec *t = from;
        from = to;
        to = t;
    }
    memcpy(a, from, n * sizeof *a); /* three passes: the result is in b */
}

/* Orders the list by the keys in tmp[]. */
static void sort_list(struct cand_list *l)
{
    CHECK(l->n <= l->cap);
    for (uint32_t i = 0; i < l->n; i++) {
        l->tmp[i].id = (uint32_t)l->c[i].id;
        l->tmp[i].logit = l->c[i].logit;
        l->tmp[i].p = l->c[i].p;
    }
    sort_recs(l->tmp, l->tmp + l->cap, l->n);
    for (uint32_t i = 0; i < l->n; i++)
        l->c[i] = (struct sampler_cand){ (int32_t)l->tmp[i].id, l->tmp[i].logit, l->tmp[i].p };
}

void cand_sort(struct cand_list *l)
{
    if (l->sorted)
        return;
    for (uint32_t i = 0; i < l->n; i++)
        l->tmp[i].key = falling_key(l->c[i].logit);
    sort_list(l);
    l->sorted = true;
}

/* a is a worse candidate than b. */
static bool worse(struct sampler_cand a, struct sampler_cand b)
{
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

static void sift_down(struct sampler_cand *heap, uint32_t n, uint32_t i)
{
    struct sampler_cand v = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && worse(heap[child + 1], heap[child]))
            child++;
        if (!worse(heap[child], v))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = v;
}

static void take_all(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n_vocab, float floor)
{
    l->n = 0;
    for (uint32_t i = 0; i < n_vocab; i += 64)
        for (uint64_t hit = scan_above(logits, n_vocab, i, mask, -INFINITY); hit; hit &= hit - 1) {
            uint32_t id = i + (uint32_t)__builtin_ctzll(hit);
            if (logits[id] >= floor)
                l->c[l->n++] = (struct sampler_cand){ (int32_t)id, logits[id], 0 };
        }
    l->sorted = false;
}

/* A heap of k with the worst at its root: nearly every logit fails one comparison with the root. */
static void take_heap(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n_vocab, uint32_t k,
                      float floor)
{
    uint32_t n = 0;
    float root = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i += 64)
        for (uint64_t hit = scan_above(logits, n_vocab, i, mask, root); hit; hit &= hit - 1) {
            uint32_t id = i + (uint32_t)__builtin_ctzll(hit);
            struct sampler_cand c = { (int32_t)id, logits[id], 0 };
            if (!(c.logit > root && c.logit >= floor))
                continue;
            if (n < k) {
                l->c[n++] = c;
                for (uint32_t j = n == k ? n / 2 : 0; j-- > 0;)
                    sift_down(l->c, n, j);
            } else {
                l->c[0] = c;
                sift_down(l->c, n, 0);
            }
            root = n < k ? root : l->c[0].logit;
        }
    for (uint32_t j = n < k ? n / 2 : 0; j-- > 0;)
        sift_down(l->c, n, j);
    for (uint32_t end = n; end > 1; end--) { /* heap sort: the worst go to the end */
        struct sampler_cand t = l->c[0];
        l->c[0] = l->c[end - 1];
        l->c[end - 1] = t;
        sift_down(l->c, end - 1, 0);
    }
    l->n = n;
    l->sorted = true;
}

void cand_take(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n_vocab, uint32_t k, float floor)
{
    if (k && k <= n_vocab / 8) {
        take_heap(l, logits, mask, n_vocab, k, floor);
        return;
    }
    take_all(l, logits, mask, n_vocab, floor);
    if (k && k < n_vocab) {
        cand_sort(l);
        l->n = MIN(l->n, k);
    }
}

void cand_softmax(struct cand_list *l)
{
    float max = l->c[0].logit, sum = 0;
    for (uint32_t i = 1; i < l->n && !l->sorted; i++)
        max = MAX(max, l->c[i].logit);
    for (uint32_t i = 0; i < l->n; i++) {
        l->c[i].p = expf(l->c[i].logit - max);
        sum += l->c[i].p;
    }
    for (uint32_t i = 0; i < l->n; i++)
        l->c[i].p /= sum;
}

float cand_sigma_floor(const float *logits, const uint64_t *mask, uint32_t n_vocab, float n)
{
    double sum = 0, sq = 0;
    float max = -INFINITY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (isfinite(logits[i]) && (!mask || mask[i / 64] >> i % 64 & 1)) {
            sum += (double)logits[i];
            max = MAX(max, logits[i]);
            count++;
        }
    if (!count)
        return -INFINITY;
    double mean = sum / count;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (isfinite(logits[i]) && (!mask || mask[i / 64] >> i % 64 & 1))
            sq += ((double)logits[i] - mean) * ((double)logits[i] - mean);
    return max - n * (float)sqrt(sq / count);
}

void cand_typical(struct cand_list *l, float p)
{
    if (p >= 1.0f)
        return;
    cand_sort(l);
    cand_softmax(l);
    float entropy = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->c[i].p > 0)
            entropy += -l->c[i].p * logf(l->c[i].p);
    for (uint32_t i = 0; i < l->n; i++) {
        float surprise = l->c[i].p > 0 ? fabsf(-logf(l->c[i].p) - entropy) : INFINITY;
        memcpy(&l->tmp[i].key, &surprise, 4); /* not negative: bits order as values do */
    }
    sort_list(l);
    l->sorted = false;
    float sum = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        sum += l->c[i].p;
        if (sum > p && i + 1 >= l->min_keep) {
            l->n = i + 1;
            break;
        }
    }
}

void cand_top_p(struct cand_list *l, float p)
{
    if (p >= 1.0f)
        return;
    cand_sort(l);
    cand_softmax(l);
    float sum = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        sum += l->c[i].p;
        if (sum >= p && i + 1 >= l->min_keep) {
            l->n = i + 1;
            break;
        }
    }
}

void cand_min_p(struct cand_list *l, float p)
{
    if (p <= 0.0f || l->n == 0)
        return;
    float max = l->c[0].logit;
    for (uint32_t i = 1; i < l->n && !l->sorted; i++)
        max = MAX(max, l->c[i].logit);
    float least = max + logf(p);
    uint32_t passing = 0;
    for (uint32_t i = 0; i < l->n; i++)
        passing += l->c[i].logit >= least;
    if (passing < l->min_keep)
        cand_sort(l);
    if (l->sorted) {
        l->n = MIN(l->n, MAX(passing, MAX(l->min_keep, 1)));
        return;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->c[i].logit >= least)
            l->c[n++] = l->c[i];
    l->n = MAX(n, 1);
}

void cand_xtc(struct cand_list *l, float probability, float threshold, struct mt19937 *rng)
{
    if (probability <= 0.0f || threshold > 0.5f || l->n < 2)
        return;
    if (mt_float(rng) > probability)
        return;
    cand_sort(l);
    cand_softmax(l);
    uint32_t last = 0;
    while (last + 1 < l->n && l->c[last + 1].p >= threshold)
        last++;
    if (last == 0 || l->n - last < l->min_keep)
        return;
    memmove(l->c, l->c + last, (l->n - last) * sizeof *l->c);
    l->n -= last;
}

void cand_temperature(struct cand_list *l, float temp, float range, float exponent)
{
    if (range > 0 && l->n > 1) {
        cand_sort(l);
        cand_softmax(l);
        float entropy = 0, lo = MAX(0.0f, temp - range), hi = temp + range;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->c[i].p > 0)
                entropy -= l->c[i].p * logf(l->c[i].p);
        temp = lo + (hi - lo) * powf(entropy / logf((float)l->n), exponent);
    }
    if (temp <= 0) { /* the dynamic range reached zero: only the best is left */
        cand_sort(l);
        l->n = 1;
        return;
    }
    for (uint32_t i = 0; i < l->n; i++)
        l->c[i].logit /= temp;
}

int32_t cand_draw(struct cand_list *l, struct mt19937 *rng)
{
    float max = l->c[0].logit;
    for (uint32_t i = 1; i < l->n && !l->sorted; i++)
        max = MAX(max, l->c[i].logit);
    double total = 0, run = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        l->c[i].p = expf(l->c[i].logit - max);
        total += (double)l->c[i].p;
    }
    double want = mt_double(rng) * total;
    int32_t id = -1;
    for (uint32_t i = 0; i < l->n; i++) {
        run += (double)l->c[i].p;
        if (id < 0 && run >= want)
            id = l->c[i].id;
        l->c[i].p = (float)((double)l->c[i].p / total);
    }
    return id >= 0 ? id : l->c[l->n - 1].id;
}
