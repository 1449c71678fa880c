/* The next token: the generator's published vectors, kernels/sample.h against doubles, and the same tokens from the
 * host's sampler, the cpu tier and the kernel, over thousands of random logits and parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/sample/sampler.h"
#include "kernels/klaunch.h"
#include "kernels/sample.h"
#include "kernels/sample_shape.h"
#include "rt/lockstep/run.h"
#include "engine/proof/opstream.h"
#include "tests/lib/run.h"

void k_sample(const void *args);

#if defined(__SANITIZE_ADDRESS__)
enum { FEWER = 4 }; /* sanitizers see in some rounds what they see in all */
#else
enum { FEWER = 1 };
#endif

static uint32_t state = 1;

static uint32_t rnd(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % n;
}

/* Logits of many shapes: bell curves of several widths, few values, one far ahead, holes of NaN and -inf. */
static void fill(float *l, uint32_t n)
{
    uint32_t kind = rnd(6);
    float width = 0.25f * (float)(1 + rnd(20));
    for (uint32_t i = 0; i < n; i++) {
        float bell = 0;
        for (int j = 0; j < 4; j++)
            bell += (float)rnd(1 << 20) * 0x1p-20f - 0.5f;
        l[i] = kind == 0 ? (float)rnd(4) - 1.0f : kind == 1 ? (rnd(2) ? 0.0f : -0.0f) : width * bell;
        if (kind == 2 && rnd(3) == 0)
            l[i] = rnd(2) ? NAN : -INFINITY;
    }
    if (kind == 3)
        l[rnd(n)] = 50.0f;
    if (kind == 4 && rnd(2))
        l[rnd(n)] = l[rnd(n)] = INFINITY;
}

static ka_sample params(void)
{
    ka_sample a = { .temp = 0.1f * (float)(1 + rnd(20)), .top_k = rnd(KA_SAMPLE_MAX + 1), .top_p = 1.0f,
                    .seed = rnd(1u << 31), .counter = rnd(1000) };
    if (rnd(2))
        a.top_p = (float)rnd(1001) * 1e-3f;
    if (rnd(2))
        a.min_p = (float)rnd(1001) * 1e-3f;
    return a;
}

static int32_t choose(const ka_sample *a, const float *l, uint32_t n)
{
    uint32_t id[KA_SAMPLE_MAX], left;
    float top[KA_SAMPLE_MAX];
    uint32_t m = sample_take(l, n, sample_top_k(a->top_k), id, top);
    return m ? (int32_t)id[sample_pick(a, top, m, &left)] : -1;
}

START_TEST(philox_gives_its_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } v[] = {
        { { 0 }, { 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { -1u, -1u, -1u, -1u }, { -1u, -1u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        uint32_t got[4];
        philox4x32(v[i].counter, v[i].key, got);
        ck_assert_mem_eq(got, v[i].want, sizeof got);
    }
    ck_assert_float_eq(sample_uniform(0, 0), (float)(0x6627e8d5 >> 8) * 0x1p-24f);
}
END_TEST

START_TEST(candidates_are_the_largest_and_of_equals_the_first)
{
    static const float l[] = { 1, NAN, 3, -INFINITY, 3, 2, 0.0f, -0.0f };
    static const uint32_t want[] = { 2, 4, 5, 0, 6, 7 };
    uint32_t id[KA_SAMPLE_MAX];
    float top[KA_SAMPLE_MAX];
    for (uint32_t k = 1; k < 9; k++) {
        uint32_t n = sample_take(l, 8, k, id, top);
        ck_assert_uint_eq(n, MIN(k, 6u));
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_eq(id[i], want[i]);
            ck_assert_float_eq(top[i], l[want[i]]);
        }
    }
}
END_TEST

/* In doubles: is `at` what u means among the first `left` candidates, to a rounding's distance? */
static void check_draw(const double *p, uint32_t left, double u, uint32_t at)
{
    double total = 0, before = 0;
    for (uint32_t i = 0; i < left; i++)
        total += p[i];
    for (uint32_t i = 0; i < at; i++)
        before += p[i];
    ck_assert_msg(at < left && before <= (u + 1e-5) * total && before + p[at] >= (u - 1e-5) * total,
                  "candidate %u of %u: %g..%g of %g, u %g", at, left, before, before + p[at], total, u);
}

START_TEST(choices_agree_with_doubles)
{
    for (int round = 0; round < 20000 / FEWER; round++) {
        uint32_t n = 1 + rnd(KA_SAMPLE_MAX), left;
        float l[KA_SAMPLE_MAX];
        double plain[KA_SAMPLE_MAX], p[KA_SAMPLE_MAX], total = 0, sum = 0;
        ka_sample a = params();
        l[0] = 4.0f;
        for (uint32_t i = 1; i < n; i++)
            l[i] = l[i - 1] - (float)rnd(1000) * 1e-3f * 4.0f / (float)n;
        for (uint32_t i = 0; i < n; i++) {
            plain[i] = exp((double)l[i] - (double)l[0]);
            p[i] = exp(((double)l[i] - (double)l[0]) / (double)a.temp);
            total += plain[i];
        }
        uint32_t at = sample_pick(&a, l, n, &left);
        for (uint32_t i = 0; i < left; i++) { /* what stays was wanted, and what goes was not */
            ck_assert(a.top_p >= 1 || sum < (double)a.top_p * total + 1e-5 * total || i == 0);
            ck_assert(i == 0 || plain[i] >= (double)a.min_p - 1e-5);
            sum += plain[i];
        }
        ck_assert(left == n || sum >= (double)a.top_p * total - 1e-5 * total || plain[left] < (double)a.min_p + 1e-5);
        check_draw(p, left, (double)sample_uniform(a.seed, a.counter), at);
    }
}
END_TEST

START_TEST(an_infinite_logit_is_certain)
{
    ka_sample a = { .temp = 1.0f, .top_p = 0.9f, .min_p = 0.1f };
    for (a.counter = 0; a.counter < 100; a.counter++)
        ck_assert_int_eq(choose(&a, (float[]){ 1, 2, INFINITY, 3 }, 4), 2);
    ck_assert_int_eq(choose(&a, (float[]){ NAN, -INFINITY, NAN }, 3), -1);
}
END_TEST

START_TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 30000 };
    const double p[] = { 0.5, 0.3, 0.2 };
    double chi = 0;
    uint32_t seen[3] = { 0 };
    float l[3];
    for (int i = 0; i < 3; i++)
        l[i] = (float)log(p[i]);
    ka_sample a = { .temp = 1.0f, .top_p = 1.0f, .seed = 42 };
    for (a.counter = 0; a.counter < DRAWS; a.counter++)
        seen[choose(&a, l, 3)]++;
    for (int i = 0; i < 3; i++)
        chi += pow(seen[i] - DRAWS * p[i], 2) / (DRAWS * p[i]);
    ck_assert_msg(chi < 13.8, "chi-square %.2f with 2 degrees of freedom: %u %u %u", chi, seen[0], seen[1], seen[2]);
}
END_TEST

static struct sampler *make(const ka_sample *a, uint32_t n_vocab)
{
    struct sampler_params p = sampler_defaults();
    struct sampler *s;
    struct err e = { 0 };
    p.rng = SAMPLER_RNG_COUNTER;
    p.temp = a->temp;
    p.top_k = (int32_t)a->top_k;
    p.top_p = a->top_p;
    p.min_p = a->min_p;
    p.seed = a->seed;
    ck_assert_msg(sampler_create(&p, n_vocab, 64, NULL, &s, &e) == 0, "%s", e.msg);
    return s;
}

/* A step of the cpu tier per set of parameters; its rows are successive tokens. */
START_TEST(the_cpu_tier_draws_the_samplers_tokens)
{
    enum { ROWS = 64 };
    static const uint32_t vocab[] = { 1, 30, 500, 5000 };
    for (int round = 0; round < 80 / FEWER; round++) {
        uint32_t n = vocab[round % 4];
        struct ops *o = ops_new(ROWS, 0, ROWS, 1, KA_KV_F16);
        uint32_t l = ops_logits(o, n);
        ka_sample *s = ops_samples(o), first = params();
        struct ops_result got;
        struct err e = { 0 };
        ops_next_is_result(o);
        ka_argmax a = { .step = ops_step(o), .next = ops_next(o), .logits = ops_at(o, l), .sample = ops_sample(o),
                        .n = n };
        ops_cmd(o, CMD_ARGMAX, &a, sizeof a);
        for (uint32_t r = 0; r < ROWS; r++) {
            fill(ops_data(o, l) + r * n, n);
            s[r] = first;
            s[r].counter = r;
            ops_row(o, r)->token = 0;
        }
        ck_assert_msg(ops_finish(o, &e) == 0, "%s", e.msg);
        const struct ops_how how = { .tier = "cpu", .exact = round % 3 == 0, .threads = 2 };
        ck_assert_msg(ops_run(o, &how, &got, &e) == 0, "%s", e.msg);
        struct sampler *host = make(&first, n);
        for (uint32_t r = 0; r < ROWS; r++) {
            int32_t id, want = sampler_choose(host, ops_data(o, l) + r * n);
            memcpy(&id, &got.v[r], 4);
            ck_assert_msg(id == want, "vocabulary %u, token %u: %d, the sampler's %d", n, r, id, want);
        }
        sampler_destroy(host);
        ops_result_free(&got);
        ops_free(o);
    }
}
END_TEST

/* One launch of the kernel for ROWS rows of n logits. */
enum { ROWS = 5 };
struct launch {
    ka_step step;
    ka_sample sample[ROWS];
    int32_t next[ROWS];
    uint32_t counters[ROWS];
    float *logits, *copy;
    uint64_t *part;
};

static void run_kernel(struct launch *x, uint32_t n, bool aligned)
{
    struct err e = { 0 };
    kl_sample a = { .step = (uintptr_t)&x->step, .next = (uintptr_t)x->next, .logits = (uintptr_t)x->logits,
                    .sample = (uintptr_t)x->sample, .n = n, .part = (uintptr_t)x->part,
                    .counters = (uintptr_t)x->counters, .copy = (uintptr_t)x->copy };
    if (!aligned) {
        a.logits += 4;
        a.copy = 0;
    }
    memset(x->part, 0xff, sample_part_bytes(n, ROWS));
    ck_assert_msg(lockstep_launch(k_sample, &a, (uint32_t[3]){ sample_groups(n), ROWS, 1 }, SAMPLE_THREADS,
                                  SAMPLE_SHARED, &e) == 0, "%s", e.msg);
    for (uint32_t r = 0; r < ROWS; r++)
        ck_assert_uint_eq(x->counters[r], 0);
}

static int32_t want_of(const ka_sample *a, const float *l, uint32_t n)
{
    if (a->temp > 0)
        return choose(a, l, n);
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i++)
        if (l[i] > (best < 0 ? -INFINITY : l[best]))
            best = (int32_t)i;
    return best;
}

static void compare_kernel(uint32_t n, uint32_t rounds)
{
    struct launch *x = calloc(1, sizeof *x);
    ck_assert_int_eq(posix_memalign((void **)&x->logits, 16, (ROWS * (size_t)n + 4) * 4), 0);
    ck_assert_int_eq(posix_memalign((void **)&x->copy, 16, (ROWS * (size_t)n + 4) * 4), 0);
    x->part = malloc(sample_part_bytes(n, ROWS));
    for (uint32_t round = 0; round < rounds; round++) {
        bool aligned = round % 4 != 3;
        float *l = x->logits + (aligned ? 0 : 1);
        lockstep_reverse(round % 2);
        x->step = (ka_step){ .n_rows = ROWS, .n_out = ROWS - round % 2 };
        for (uint32_t r = 0; r < ROWS; r++) {
            fill(l + (size_t)r * n, n);
            x->sample[r] = params();
            if (rnd(4) == 0)
                x->sample[r].temp = 0.0f;
            x->sample[r].quiet = round % 8 == 4;
            x->next[r] = -7;
        }
        memset(x->copy, 0, ROWS * (size_t)n * 4);
        run_kernel(x, n, aligned);
        for (uint32_t r = 0; r < x->step.n_out; r++) {
            int32_t want = want_of(&x->sample[r], l + (size_t)r * n, n);
            ck_assert_msg(x->next[r] == want, "%u logits, round %u, row %u, k %u: %d instead of %d", n, round, r,
                          x->sample[r].top_k, x->next[r], want);
        }
        for (uint32_t r = x->step.n_out; r < ROWS; r++)
            ck_assert_int_eq(x->next[r], -7);
        for (size_t k = 0; k < x->step.n_out * (size_t)n && aligned; k++)
            ck_assert_mem_eq(&x->copy[k], round % 8 == 4 ? &(float){ 0 } : &l[k], 4);
    }
    lockstep_reverse(false);
    free(x->logits);
    free(x->copy);
    free(x->part);
    free(x);
}

START_TEST(the_kernel_chooses_the_hosts_tokens)
{
    compare_kernel(1, 4);
    compare_kernel(19, 40 / FEWER);
    compare_kernel(777, 40 / FEWER);
    compare_kernel(SAMPLE_SLICE, 20 / FEWER);
    compare_kernel(SAMPLE_SLICE + 1, 20 / FEWER);
    compare_kernel(5 * SAMPLE_SLICE + 4, 12 / FEWER);
    compare_kernel(151936, 4 / FEWER);
}
END_TEST

START_TEST(steps_that_the_counter_lacks_are_refused)
{
    struct sampler_params p = sampler_defaults();
    struct err e = { 0 };
    enum sampler_rng rng;
    ck_assert_int_eq(sampler_rng_named("counter", &p.rng, &e), 0);
    ck_assert_int_eq(p.rng, SAMPLER_RNG_COUNTER);
    ck_assert_int_eq(sampler_rng_named("dice", &rng, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "mt19937"));
    ck_assert_int_eq(sampler_check(&p, &e), 0);
    p.xtc_probability = 0.5f;
    ck_assert_int_eq(sampler_check(&p, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "xtc-probability"));
    p = sampler_defaults();
    p.rng = SAMPLER_RNG_COUNTER;
    p.top_k = KA_SAMPLE_MAX + 1;
    ck_assert_int_eq(sampler_check(&p, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "top-k"));
}
END_TEST

START_TEST(only_untouched_logits_are_left_to_a_device)
{
    struct sampler_params p = sampler_defaults(), q;
    struct sampler *s;
    struct err e = { 0 };
    ka_sample a;
    const struct {
        bool want;
        enum sampler_rng rng;
        float temp, repeat_penalty, dry;
        uint32_t n_bias;
    } cases[] = {
        { true, SAMPLER_RNG_COUNTER, 0.8f, 1.0f, 0.0f, 0 },  { false, SAMPLER_RNG_MT19937, 0.8f, 1.0f, 0.0f, 0 },
        { true, SAMPLER_RNG_MT19937, 0.0f, 1.0f, 0.0f, 0 },  { false, SAMPLER_RNG_COUNTER, 0.8f, 1.1f, 0.0f, 0 },
        { false, SAMPLER_RNG_COUNTER, 0.0f, 1.0f, 0.5f, 0 }, { false, SAMPLER_RNG_COUNTER, 0.8f, 1.0f, 0.0f, 1 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        q = p;
        q.rng = cases[i].rng;
        q.temp = cases[i].temp;
        q.repeat_penalty = cases[i].repeat_penalty;
        q.dry_multiplier = cases[i].dry;
        q.bias = &(struct logit_bias){ 3, 0.0f };
        q.n_bias = cases[i].n_bias;
        q.seed = 9;
        ck_assert_msg(sampler_create(&q, 100, 64, NULL, &s, &e) == 0, "%s", e.msg);
        ck_assert_msg(sampler_device(s, &a) == cases[i].want, "case %zu", i);
        sampler_chose(s, 5);
        sampler_device(s, &a);
        ck_assert_float_eq(a.temp, q.temp);
        ck_assert_uint_eq(a.counter, q.temp > 0);
        ck_assert_uint_eq(a.seed, 9);
        sampler_destroy(s);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("sample", philox_gives_its_published_vectors,
                     candidates_are_the_largest_and_of_equals_the_first, choices_agree_with_doubles,
                     an_infinite_logit_is_certain, draws_follow_the_probabilities,
                     the_cpu_tier_draws_the_samplers_tokens, the_kernel_chooses_the_hosts_tokens,
                     steps_that_the_counter_lacks_are_refused, only_untouched_logits_are_left_to_a_device);
}
