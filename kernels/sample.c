/* kernels/sample.c: the next token, by the largest logit or drawn (kernels/sample.h). A work-group holds a slice of a
 * row's logits in registers and finds its k largest; the last work-group of the row finds the k largest of those.
 *
 * Logits become keys: hi orders as they do, 0 is none; lo falls with the index, so that of equal logits the lower
 * index is the larger key. The k largest of what the work-items hold are found by bisection: how many are at least
 * this? */
#include <stdbool.h>

#include "kernels/kdev.h"

#include "kernels/klaunch.h"
#include "kernels/sample.h"
#include "kernels/sample_shape.h"

enum {
    HELD = SAMPLE_HELD + 1, /* keys of a work-item: its share of the slice or of part, and one found before */
    WARPS = SAMPLE_THREADS / KD_WARP,
    BY_VALUE = 12,          /* steps of the bisection that halve the difference of logits, before others halve keys */
};
#define LO_END 0xffffffffu  /* lo is below */

struct shared {
    uint64_t found[KA_SAMPLE_MAX]; /* hi << 32 | lo, in any order              */
    uint32_t id[KA_SAMPLE_MAX];    /* from here on by falling key              */
    float plain[KA_SAMPLE_MAX];    /* weights of temperature 1                 */
    float weight[KA_SAMPLE_MAX];   /* of the row's                             */
    uint64_t best[WARPS];
    uint32_t sums[2][WARPS];       /* in turns, so that one barrier is enough  */
    uint32_t arrived;
};
_Static_assert(sizeof(struct shared) <= SAMPLE_SHARED, "shared memory");

struct keys {
    uint32_t hi[HELD], lo[HELD];
};

KD_FN uint32_t key_hi(float x)
{
    uint32_t u = f32_bits(x + 0.0f); /* one zero */
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return x > f32_from_bits(0xff800000u) ? u : 0;
}
KD_FN float key_logit(uint32_t hi) { return f32_from_bits(hi & 0x80000000u ? hi ^ 0x80000000u : ~hi); }
KD_FN uint32_t key_lo(uint32_t index) { return LO_END - 1 - index; }
KD_FN uint32_t key_index(uint64_t key) { return key ? LO_END - 1 - (uint32_t)key : ~0u; } /* ~0: no token */
KD_FN uint64_t key_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- the work-group together; the same result in every work-item ---- */

KD_FN uint32_t group_sum(uint32_t v, KD_SHARED struct shared *sh, uint32_t *turn)
{
    KD_SHARED uint32_t *s = sh->sums[*turn];
    *turn ^= 1;
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1)
        v += kd_shfl_xor_u32(v, m);
    if (kd_lane() == 0)
        s[kd_warp()] = v;
    kd_barrier();
    v = s[kd_lane() % WARPS];
    KD_UNROLL
    for (uint32_t m = WARPS / 2; m; m >>= 1)
        v += kd_shfl_xor_u32(v, m);
    return v;
}

KD_FN uint32_t group_max(uint32_t v, KD_SHARED struct shared *sh, uint32_t *turn)
{
    KD_SHARED uint32_t *s = sh->sums[*turn];
    *turn ^= 1;
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1)
        v = kd_max_u32(v, kd_shfl_xor_u32(v, m));
    if (kd_lane() == 0)
        s[kd_warp()] = v;
    kd_barrier();
    v = s[kd_lane() % WARPS];
    KD_UNROLL
    for (uint32_t m = WARPS / 2; m; m >>= 1)
        v = kd_max_u32(v, kd_shfl_xor_u32(v, m));
    return v;
}

KD_FN uint64_t group_best(uint64_t key, KD_SHARED struct shared *sh)
{
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1) {
        uint32_t hi = kd_shfl_xor_u32((uint32_t)(key >> 32), m), lo = kd_shfl_xor_u32((uint32_t)key, m);
        key = key_max(key, (uint64_t)hi << 32 | lo);
    }
    kd_barrier();
    if (kd_lane() == 0)
        sh->best[kd_warp()] = key;
    kd_barrier();
    for (uint32_t i = 0; i < WARPS; i++)
        key = key_max(key, sh->best[i]);
    return key;
}

/* ---- the k largest ---- */

KD_FN bool is_from(const struct keys *x, uint32_t i, uint32_t hi, uint32_t lo)
{
    return x->hi[i] > hi || (x->hi[i] == hi && x->lo[i] >= lo);
}

KD_FN uint32_t count_hi(const struct keys *x, uint32_t hi)
{
    uint32_t n = 0;
    KD_UNROLL
    for (uint32_t i = 0; i < HELD; i++)
        n += x->hi[i] >= hi;
    return n;
}

KD_FN uint32_t count_from(const struct keys *x, uint32_t hi, uint32_t lo)
{
    uint32_t n = 0;
    KD_UNROLL
    for (uint32_t i = 0; i < HELD; i++)
        n += is_from(x, i, hi, lo);
    return n;
}

/* Between a and b, b - a > 1. */
KD_FN uint32_t key_between(uint32_t a, uint32_t b, uint32_t step)
{
    uint32_t mid = a + (b - a) / 2;
    float la = key_logit(a), lb = key_logit(b);
    uint32_t by_value = key_hi(la + 0.5f * (lb - la)); /* 0 where one of them is no number */
    return step < BY_VALUE && by_value > a && by_value < b ? by_value : mid;
}

/* The keys from (hi, lo) on into sh->found, in any order; returns how many. */
KD_FN uint32_t gather_from(const struct keys *x, uint32_t hi, uint32_t lo, KD_SHARED struct shared *sh,
                           uint32_t *turn)
{
    KD_SHARED uint32_t *s = sh->sums[*turn];
    uint32_t mine = count_from(x, hi, lo), upto = mine;
    *turn ^= 1;
    KD_UNROLL
    for (uint32_t d = 1; d < KD_WARP; d *= 2) {
        uint32_t v = kd_shfl_u32(upto, (kd_lane() - d) % KD_WARP);
        upto += kd_lane() >= d ? v : 0;
    }
    if (kd_lane() == KD_WARP - 1)
        s[kd_warp()] = upto;
    kd_barrier();
    uint32_t total = s[kd_lane() % WARPS], before = kd_lane() % WARPS < kd_warp() ? total : 0;
    KD_UNROLL
    for (uint32_t m = WARPS / 2; m; m >>= 1) {
        total += kd_shfl_xor_u32(total, m);
        before += kd_shfl_xor_u32(before, m);
    }
    uint32_t at = before + upto - mine;
    KD_UNROLL
    for (uint32_t i = 0; i < HELD; i++)
        if (is_from(x, i, hi, lo))
            sh->found[at++] = (uint64_t)x->hi[i] << 32 | x->lo[i];
    return total;
}

/* The k <= KA_SAMPLE_MAX largest of the work-group's keys into sh->found; returns how many there are. A barrier comes
 * before they are read, and none of them is read when it begins. */
KD_FN uint32_t find_largest(const struct keys *x, uint32_t k, KD_SHARED struct shared *sh, uint32_t *turn)
{
    uint32_t most = 0;
    KD_UNROLL
    for (uint32_t i = 0; i < HELD; i++)
        most = kd_max_u32(most, x->hi[i]);
    /* every work-item holds a key from `a` on: there are at least SAMPLE_THREADS of them, unless one holds none */
    uint32_t a = ~group_max(~most, sh, turn), b = group_max(most, sh, turn) + 1, n = SAMPLE_THREADS;
    if (a == 0) {
        a = 1;
        n = group_sum(count_hi(x, a), sh, turn);
    }
    /* from a on there are at least k, from b on fewer */
    for (uint32_t step = 0; n > k && b - a > 1; step++) {
        uint32_t mid = key_between(a, b, step), c = group_sum(count_hi(x, mid), sh, turn);
        if (c >= k) {
            a = mid;
            n = c;
        } else {
            b = mid;
        }
    }
    uint32_t lo = 0;
    for (uint32_t end = LO_END; n > k && end - lo > 1;) { /* equal logits: the lower indices */
        uint32_t mid = lo + (end - lo) / 2, c = group_sum(count_from(x, a, mid), sh, turn);
        if (c >= k) {
            lo = mid;
            n = c;
        } else {
            end = mid;
        }
    }
    return gather_from(x, a, lo, sh, turn);
}

/* ---- the row ---- */

/* This work-group's slice of row i; with `copied`, and where a copy is kept, into that as well. */
KD_FN void load_slice(const kl_sample *a, uint32_t i, bool copied, struct keys *x)
{
    uint32_t first = kd_group_x() * SAMPLE_SLICE;
    uint64_t at = ((uint64_t)i * a->n + first) * 4;
    gpu_va logits = a->logits + at, copy = a->copy && copied ? a->copy + at : 0;
    x->hi[HELD - 1] = x->lo[HELD - 1] = 0;
    if ((logits | copy | a->n * 4ull) % 16 == 0) {
        uint32_t t = kd_tid(), n = (a->n - first) / 4;
        kd_f32x4 v[SAMPLE_HELD / 4];
        KD_UNROLL
        for (uint32_t j = 0; j < SAMPLE_HELD / 4; j++)
            v[j] = t + j * SAMPLE_THREADS < n ? KD_PTR(const kd_f32x4, logits)[t + j * SAMPLE_THREADS]
                                              : (kd_f32x4){ 0.0f };
        KD_UNROLL
        for (uint32_t j = 0; j < SAMPLE_HELD / 4; j++) {
            bool inside = t + j * SAMPLE_THREADS < n;
            if (copy && inside)
                KD_PTR(kd_f32x4, copy)[t + j * SAMPLE_THREADS] = v[j];
            KD_UNROLL
            for (uint32_t q = 0; q < 4; q++) {
                x->hi[4 * j + q] = inside ? key_hi(v[j][q]) : 0;
                x->lo[4 * j + q] = key_lo(first + 4 * (t + j * SAMPLE_THREADS) + q);
            }
        }
        return;
    }
    uint32_t t = kd_tid(), n = a->n - first;
    float v[SAMPLE_HELD];
    KD_UNROLL
    for (uint32_t j = 0; j < SAMPLE_HELD; j++)
        v[j] = t + j * SAMPLE_THREADS < n ? KD_PTR(const float, logits)[t + j * SAMPLE_THREADS] : 0.0f;
    KD_UNROLL
    for (uint32_t j = 0; j < SAMPLE_HELD; j++) {
        bool inside = t + j * SAMPLE_THREADS < n;
        if (copy && inside)
            KD_PTR(float, copy)[t + j * SAMPLE_THREADS] = v[j];
        x->hi[j] = inside ? key_hi(v[j]) : 0;
        x->lo[j] = key_lo(first + t + j * SAMPLE_THREADS);
    }
}

/* Is this the row's last work-group? What the others wrote to part is there. */
KD_FN bool arrive_last(const kl_sample *a, uint32_t i, KD_SHARED struct shared *sh)
{
    kd_barrier();
    if (kd_tid() == 0)
        sh->arrived = kd_arrive(KD_PTR(uint32_t, a->counters) + i, kd_groups_x());
    kd_barrier();
    return sh->arrived == kd_groups_x() - 1;
}

/* The largest of the slices' largest. False: another work-group goes on. */
KD_FN bool choose_largest(const kl_sample *a, uint32_t i, const struct keys *x, KD_COHERENT uint64_t *part,
                          KD_SHARED struct shared *sh, uint32_t *id)
{
    uint64_t key = 0;
    KD_UNROLL
    for (uint32_t j = 0; j < HELD; j++)
        key = key_max(key, x->hi[j] ? (uint64_t)x->hi[j] << 32 | x->lo[j] : 0);
    key = group_best(key, sh);
    if (kd_groups_x() > 1) {
        if (kd_tid() == 0)
            part[kd_group_x()] = key;
        if (!arrive_last(a, i, sh))
            return false;
        key = 0;
        for (uint32_t g = kd_tid(); g < kd_groups_x(); g += SAMPLE_THREADS)
            key = key_max(key, part[g]);
        key = group_best(key, sh);
    }
    *id = key_index(key);
    return true;
}

/* The row's k largest into sh->found, from the lists of k keys that the slices left in part. */
KD_FN uint32_t merge(KD_COHERENT const uint64_t *part, uint32_t k, KD_SHARED struct shared *sh, uint32_t *turn)
{
    uint32_t found = 0, total = kd_groups_x() * k;
    for (uint32_t first = 0; first < total; first += SAMPLE_SLICE) {
        struct keys x;
        KD_UNROLL
        for (uint32_t j = 0; j < SAMPLE_HELD; j++) {
            uint32_t at = first + kd_tid() + j * SAMPLE_THREADS;
            uint64_t key = at < total ? part[at] : 0;
            x.hi[j] = (uint32_t)(key >> 32);
            x.lo[j] = (uint32_t)key;
        }
        uint64_t key = kd_tid() < found ? sh->found[kd_tid()] : 0;
        x.hi[HELD - 1] = (uint32_t)(key >> 32);
        x.lo[HELD - 1] = (uint32_t)key;
        found = find_largest(&x, k, sh, turn);
        kd_barrier();
    }
    return found;
}

/* Orders the n keys of sh->found and draws; the id is there in work-item 0. */
KD_FN uint32_t draw_one(KD_GLOBAL const ka_sample *s, uint32_t n, KD_SHARED struct shared *sh)
{
    uint32_t t = kd_tid();
    if (t < n) {
        uint64_t key = sh->found[t], top = 0;
        uint32_t rank = 0;
        for (uint32_t j = 0; j < n; j++) {
            uint64_t other = sh->found[j];
            top = key_max(top, other);
            rank += other > key;
        }
        float logit = key_logit((uint32_t)(key >> 32)), max = key_logit((uint32_t)(top >> 32));
        sh->id[rank] = key_index(key);
        sh->plain[rank] = sample_weight(logit, max, 1.0f);
        sh->weight[rank] = sample_weight(logit, max, s->temp);
    }
    kd_barrier();
    if (t || !n)
        return ~0u;
    n = sample_keep(sh->plain, n, s->top_p, s->min_p);
    return sh->id[sample_draw(sh->weight, n, sample_uniform(s->seed, s->counter))];
}

/* False: another work-group goes on. */
KD_FN bool choose_drawn(const kl_sample *a, uint32_t i, KD_GLOBAL const ka_sample *s, const struct keys *x,
                        KD_COHERENT uint64_t *part, KD_SHARED struct shared *sh, uint32_t *id)
{
    uint32_t turn = 0, k = sample_top_k(s->top_k), found = find_largest(x, k, sh, &turn);
    kd_barrier();
    if (kd_groups_x() > 1) {
        if (kd_tid() < k)
            part[kd_group_x() * k + kd_tid()] = kd_tid() < found ? sh->found[kd_tid()] : 0;
        if (!arrive_last(a, i, sh))
            return false;
        found = merge(part, k, sh, &turn);
    }
    *id = draw_one(s, found, sh);
    return true;
}

KD_KERNEL(k_sample, kl_sample)
{
    KD_SHARED struct shared *sh = KD_SHARED_AT(struct shared, 0);
    uint32_t i = kd_group_y(), id;
    struct keys x;
    kd_wait_inputs();
    kd_let_next_start();
    if (i >= kd_step_rows(a.step, ROWS_OUT))
        return;
    KD_GLOBAL const ka_sample *s = KD_PTR(const ka_sample, a.sample) + i;
    KD_COHERENT uint64_t *part = (KD_COHERENT uint64_t *)KD_PTR(uint64_t, a.part) + (uint64_t)i * kd_groups_x() * KA_SAMPLE_MAX;
    load_slice(&a, i, !a.sample || !s->quiet, &x);
    bool drawn = a.sample && s->temp > 0.0f;
    bool mine = drawn ? choose_drawn(&a, i, s, &x, part, sh, &id) : choose_largest(&a, i, &x, part, sh, &id);
    if (mine && kd_tid() == 0)
        KD_PTR(int32_t, a.next)[i] = (int32_t)id;
}
