#include "engine/sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/sample/sampler_steps.h"
#include "kernels/sample.h"
#include "kernels/scan.h"

enum { LIST_UP_TO = 4096 }; /* of a smaller vocabulary a list of all costs nothing */
enum { BREAKER_MAX_TAIL = 20, BREAKER_MAX_BYTES = 40 };

struct breaker {
    int32_t head;
    uint32_t n; /* 0: head alone */
    int32_t tail[BREAKER_MAX_TAIL];
};

struct sampler {
    struct sampler_params p;
    uint32_t n_vocab, seed;
    struct mt19937 dist_rng, xtc_rng;
    uint32_t n_drawn; /* with the counter */
    struct logit_bias *bias;
    /* History, a ring: the newest token is hist[(n_hist - 1) % cap]. */
    int32_t *hist;
    uint32_t cap, penalty_n, dry_n;
    uint64_t n_hist;
    /* DRY */
    struct breaker *breakers;
    uint32_t n_breakers, cap_breakers;
    bool *breaks;              /* [n_vocab] single-token breakers, NULL without DRY */
    int32_t *window;           /* [dry_n] newest first                              */
    uint32_t *z, *longest;     /* [dry_n], [n_vocab]                                */
    uint32_t *count;           /* [n_vocab] occurrences in the penalties' window, zero between calls */
    float *work;               /* [n_vocab] logits that the first steps change      */
    const uint64_t *mask;      /* one bit per token that may be chosen; NULL: all   */
    uint64_t *allowed, *both;  /* [words] tokens that are not suppressed, NULL: none is; and these and the mask */
    bool biased;               /* other biases                                      */
    struct cand_list list;
};

struct sampler_params sampler_defaults(void)
{
    return (struct sampler_params){
#define X(field, type, def, opt, key, help) .field = def,
        SAMPLER_PARAMS(X)
#undef X
    };
}

int sampler_rng_named(const char *name, enum sampler_rng *out, struct err *e)
{
    static const char *const names[] = {
#define X(id, text, what) text,
        SAMPLER_RNGS(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum sampler_rng)i;
            return 0;
        }
    return err_set(e, -EINVAL, "sampling: rng '%s' is unknown; there are %s and %s", name, names[0], names[1]);
}

/* The steps that kernels/sample.h does not have. */
static int check_counter(const struct sampler_params *p, struct err *e)
{
    const struct {
        const char *name;
        bool on;
    } steps[] = {
        { "typical-p", p->typical_p < 1.0f },       { "top-n-sigma", p->top_n_sigma > 0.0f },
        { "xtc-probability", p->xtc_probability > 0.0f }, { "dynatemp-range", p->dynatemp_range > 0.0f },
        { "min-keep", p->min_keep > 1 },
    };
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (steps[i].on)
            return err_set(e, -EINVAL, "sampling: %s does not go with the rng 'counter', only with 'mt19937'",
                           steps[i].name);
    if (p->top_k > KA_SAMPLE_MAX)
        return err_set(e, -EINVAL, "sampling: top-k is %d, with the rng 'counter' at most %d", p->top_k,
                       KA_SAMPLE_MAX);
    return 0;
}

int sampler_check(const struct sampler_params *p, struct err *e)
{
    struct {
        const char *name;
        double v, lo, hi;
    } range[] = {
        { "temp", (double)p->temp, -1e6, 1e6 },
        { "top-k", p->top_k, -1, INT32_MAX },
        { "top-p", (double)p->top_p, 0, 1e6 },
        { "min-p", (double)p->min_p, 0, 1 },
        { "typical-p", (double)p->typical_p, 0, 1e6 },
        { "top-n-sigma", (double)p->top_n_sigma, -1e6, 1e6 },
        { "xtc-probability", (double)p->xtc_probability, 0, 1 },
        { "xtc-threshold", (double)p->xtc_threshold, 0, 1e6 },
        { "dynatemp-range", (double)p->dynatemp_range, 0, 1e6 },
        { "dynatemp-exp", (double)p->dynatemp_exponent, 0, 1e6 },
        { "repeat-last-n", p->repeat_last_n, -1, INT32_MAX },
        { "repeat-penalty", (double)p->repeat_penalty, 1e-6, 1e6 },
        { "frequency-penalty", (double)p->frequency_penalty, -1e6, 1e6 },
        { "presence-penalty", (double)p->presence_penalty, -1e6, 1e6 },
        { "dry-multiplier", (double)p->dry_multiplier, 0, 1e6 },
        { "dry-base", (double)p->dry_base, 0, 1e6 },
        { "dry-allowed-length", p->dry_allowed_length, 0, INT32_MAX },
        { "dry-last-n", p->dry_last_n, -1, INT32_MAX },
        { "min-keep", p->min_keep, 0, INT32_MAX },
    };
    for (size_t i = 0; i < ARRAY_LEN(range); i++)
        if (!(range[i].v >= range[i].lo && range[i].v <= range[i].hi))
            return err_set(e, -EINVAL, "sampling: %s is %g, expected %g to %g", range[i].name, range[i].v, range[i].lo,
                           range[i].hi);
    return p->rng == SAMPLER_RNG_COUNTER ? check_counter(p, e) : 0;
}

static bool has_penalties(const struct sampler_params *p)
{
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f);
}

static bool has_dry(const struct sampler_params *p)
{
    return p->dry_multiplier != 0.0f && p->dry_base >= 1.0f && p->dry_last_n != 0;
}

int sampler_add_breaker(struct sampler *s, int32_t head, const int32_t *tail, uint32_t n)
{
    if (head < 0 || (uint32_t)head >= s->n_vocab || !s->breaks)
        return 0;
    if (n == 0) {
        s->breaks[head] = true;
        return 0;
    }
    if (s->n_breakers == s->cap_breakers) {
        uint32_t cap = s->cap_breakers ? 2 * s->cap_breakers : 16;
        struct breaker *b = realloc(s->breakers, cap * sizeof *b);
        if (!b)
            return -ENOMEM;
        s->breakers = b;
        s->cap_breakers = cap;
    }
    struct breaker *b = &s->breakers[s->n_breakers++];
    b->head = head;
    b->n = MIN(n, (uint32_t)BREAKER_MAX_TAIL);
    memcpy(b->tail, tail, b->n * sizeof *tail);
    return 0;
}

/* Every way in which a token can hold the breaker or end with its beginning. */
static int add_breaker_text(struct sampler *s, const struct sampler_vocab *v, const char *text)
{
    size_t n_text = MIN(strlen(text), (size_t)BREAKER_MAX_BYTES);
    if (!n_text)
        return 0;
    for (uint32_t id = 0; id < s->n_vocab; id++) {
        size_t n;
        const char *tok = v->text(v->user, (int32_t)id, &n);
        if (!tok || !n)
            continue;
        int rc = 0;
        if (memmem(tok, n, text, n_text)) {
            rc = sampler_add_breaker(s, (int32_t)id, NULL, 0);
        } else {
            for (size_t len = 1; len < n_text && len <= n && !rc; len++) {
                if (memcmp(tok + n - len, text, len) != 0)
                    continue;
                int32_t tail[BREAKER_MAX_TAIL];
                uint32_t n_tail = v->encode(v->user, text + len, n_text - len, tail, BREAKER_MAX_TAIL);
                rc = n_tail ? sampler_add_breaker(s, (int32_t)id, tail, n_tail) : 0;
            }
        }
        if (rc)
            return rc;
    }
    return 0;
}

static int init_dry(struct sampler *s, const struct sampler_vocab *v)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" };
    s->window = calloc(s->dry_n, sizeof *s->window);
    s->z = calloc(s->dry_n, sizeof *s->z);
    s->longest = calloc(s->n_vocab, sizeof *s->longest);
    s->breaks = calloc(s->n_vocab, sizeof *s->breaks);
    if (!s->window || !s->z || !s->longest || !s->breaks)
        return -ENOMEM;
    const char *const *texts = s->p.dry_breakers ? s->p.dry_breakers : usual;
    uint32_t n = s->p.dry_breakers ? s->p.n_dry_breakers : (uint32_t)ARRAY_LEN(usual);
    for (uint32_t i = 0; v && i < n; i++)
        if (add_breaker_text(s, v, texts[i]))
            return -ENOMEM;
    s->p.dry_breakers = NULL;
    return 0;
}

/* No sequence is longer than the context, so that a longer window, which clients may ask for, looks at no more. */
static uint32_t window(int32_t asked, uint32_t n_ctx)
{
    return asked < 0 ? n_ctx : MIN((uint32_t)asked, n_ctx);
}

static int init_allowed(struct sampler *s)
{
    uint32_t words = (s->n_vocab + 63) / 64;
    s->allowed = malloc(words * sizeof *s->allowed);
    s->both = malloc(words * sizeof *s->both);
    if (!s->allowed || !s->both)
        return -ENOMEM;
    memset(s->allowed, 0xff, words * sizeof *s->allowed);
    for (uint32_t i = 0; i < s->p.n_bias; i++)
        if (s->bias[i].bias == -INFINITY)
            s->allowed[s->bias[i].id / 64] &= ~(1ull << s->bias[i].id % 64);
    return 0;
}

static int init(struct sampler *s, uint32_t n_ctx, const struct sampler_vocab *v)
{
    struct sampler_params *p = &s->p;
    s->penalty_n = has_penalties(p) ? window(p->repeat_last_n, n_ctx) : 0;
    s->dry_n = has_dry(p) ? window(p->dry_last_n, n_ctx) : 0;
    s->cap = MAX(MAX(s->penalty_n, s->dry_n), 1);
    s->hist = calloc(s->cap, sizeof *s->hist);
    s->bias = calloc(MAX(p->n_bias, 1), sizeof *s->bias);
    s->work = malloc(s->n_vocab * sizeof *s->work); /* these are written before they are read: pages that are not needed cost nothing */
    s->list = (struct cand_list){ .c = malloc(s->n_vocab * sizeof *s->list.c),
                                  .tmp = malloc(2 * (size_t)s->n_vocab * sizeof *s->list.tmp),
                                  .cap = s->n_vocab,
                                  .min_keep = (uint32_t)p->min_keep };
    if (s->penalty_n)
        s->count = calloc(s->n_vocab, sizeof *s->count);
    if (!s->hist || !s->bias || !s->work || !s->list.c || !s->list.tmp || (s->penalty_n && !s->count))
        return -ENOMEM;
    if (p->n_bias)
        memcpy(s->bias, p->bias, p->n_bias * sizeof *s->bias);
    p->bias = NULL;
    bool suppressed = false;
    for (uint32_t i = 0; i < p->n_bias; i++) {
        s->biased |= s->bias[i].bias != -INFINITY;
        suppressed |= s->bias[i].bias == -INFINITY;
    }
    if (suppressed && init_allowed(s))
        return -ENOMEM;
    return s->dry_n ? init_dry(s, v) : 0;
}

int sampler_create(const struct sampler_params *p, uint32_t n_vocab, uint32_t n_ctx, const struct sampler_vocab *v,
                   struct sampler **out, struct err *e)
{
    int rc = sampler_check(p, e);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].id < 0 || (uint32_t)p->bias[i].id >= n_vocab)
            return err_set(e, -EINVAL, "sampling: logit bias for token %d, the vocabulary has %u", p->bias[i].id,
                           n_vocab);
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, -ENOMEM, "sampling: out of memory");
    s->p = *p;
    s->n_vocab = n_vocab;
    if (init(s, n_ctx, v)) {
        sampler_destroy(s);
        return err_set(e, -ENOMEM, "sampling: out of memory for a vocabulary of %u", n_vocab);
    }
    sampler_reset(s);
    *out = s;
    return 0;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    free(s->hist);
    free(s->bias);
    free(s->work);
    free(s->count);
    free(s->list.c);
    free(s->list.tmp);
    free(s->allowed);
    free(s->both);
    free(s->breakers);
    free(s->breaks);
    free(s->window);
    free(s->z);
    free(s->longest);
    free(s);
}

uint32_t sampler_draw_seed(void)
{
    uint32_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint32_t)clock_ns();
    return seed == SAMPLER_SEED_RANDOM ? 0 : seed;
}

void sampler_reset(struct sampler *s)
{
    s->seed = s->p.seed == SAMPLER_SEED_RANDOM ? sampler_draw_seed() : s->p.seed;
    mt_seed(&s->dist_rng, s->seed);
    mt_seed(&s->xtc_rng, s->seed);
    s->n_hist = 0;
    s->n_drawn = 0;
    s->list.n = 0;
}

uint32_t sampler_seed(const struct sampler *s)
{
    return s->seed;
}

void sampler_accept(struct sampler *s, int32_t id)
{
    s->hist[s->n_hist++ % s->cap] = id;
}

/* The i-th newest token. */
static int32_t hist_at(const struct sampler *s, uint32_t i)
{
    return s->hist[(s->n_hist - 1 - i) % s->cap];
}

static uint32_t hist_len(const struct sampler *s, uint32_t window)
{
    return s->n_hist < window ? (uint32_t)s->n_hist : window;
}

static void apply_penalties(struct sampler *s)
{
    uint32_t n = hist_len(s, s->penalty_n);
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = hist_at(s, i);
        if (id >= 0 && (uint32_t)id < s->n_vocab)
            s->count[id]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = hist_at(s, i);
        if (id < 0 || (uint32_t)id >= s->n_vocab || !s->count[id])
            continue;
        float *l = &s->work[id];
        *l = *l <= 0 ? *l * s->p.repeat_penalty : *l / s->p.repeat_penalty;
        *l -= (float)s->count[id] * s->p.frequency_penalty + s->p.presence_penalty;
        s->count[id] = 0;
    }
}

/* Tokens between the newest and the nearest breaker; n when there is none. window[] is newest first. */
static uint32_t breaker_distance(const struct sampler *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = s->window[i];
        if (id < 0 || (uint32_t)id >= s->n_vocab)
            continue;
        bool found = s->breaks[id];
        uint32_t longest = 0;
        for (uint32_t b = 0; b < s->n_breakers; b++) {
            const struct breaker *br = &s->breakers[b];
            if (br->head != id || br->n > i || br->n <= longest)
                continue;
            uint32_t j = 0;
            while (j < br->n && br->tail[j] == s->window[i - 1 - j])
                j++;
            if (j == br->n) {
                longest = br->n;
                found = true;
            }
        }
        if (found)
            return i - longest;
    }
    return n;
}

static void apply_dry(struct sampler *s)
{
    uint32_t n = hist_len(s, s->dry_n);
    if (n <= (uint32_t)s->p.dry_allowed_length)
        return;
    for (uint32_t i = 0; i < n; i++)
        s->window[i] = hist_at(s, i);
    struct dry_args a = { s->p.dry_multiplier, s->p.dry_base, s->p.dry_allowed_length, s->breaks };
    dry_apply(s->work, s->n_vocab, &a, s->window, n, breaker_distance(s, n), s->z, s->longest);
}

static ka_sample device_args(const struct sampler *s)
{
    const struct sampler_params *p = &s->p;
    return (ka_sample){ .temp = p->temp > 0 ? p->temp : 0, .top_k = p->top_k > 0 ? (uint32_t)p->top_k : 0,
                        .top_p = p->top_p, .min_p = p->min_p, .seed = s->seed, .counter = s->n_drawn };
}

static int32_t first_max(const float *l, const uint64_t *mask, uint32_t n)
{
    float max = -INFINITY;
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i += 64)
        for (uint64_t hit = scan_above(l, n, i, mask, max); hit; hit &= hit - 1) {
            uint32_t id = i + (uint32_t)__builtin_ctzll(hit);
            if (l[id] > max) {
                max = l[id];
                best = (int32_t)id;
            }
        }
    return best;
}

/* By ka_sample; the candidates are those that it drew among. */
static int32_t draw_by_counter(struct sampler *s, const float *l, const uint64_t *mask, const ka_sample *a)
{
    struct cand_list *c = &s->list;
    uint32_t id[KA_SAMPLE_MAX], left = 0, chosen = 0;
    float top[KA_SAMPLE_MAX], total = 0.0f;
    uint32_t n = sample_take_masked(l, s->n_vocab, mask, sample_top_k(a->top_k), id, top);
    if (n)
        chosen = sample_pick(a, top, n, &left);
    c->n = left;
    for (uint32_t i = 0; i < left; i++) {
        c->c[i] = (struct sampler_cand){ (int32_t)id[i], top[i], sample_weight(top[i], top[0], a->temp) };
        total += c->c[i].p;
    }
    for (uint32_t i = 0; i < left; i++)
        c->c[i].p /= total;
    return n ? (int32_t)id[chosen] : -1;
}

/* What the mask and the suppressed tokens leave. */
static const uint64_t *may_be_chosen(struct sampler *s)
{
    if (!s->allowed || !s->mask)
        return s->allowed ? s->allowed : s->mask;
    for (uint32_t i = 0; i < (s->n_vocab + 63) / 64; i++)
        s->both[i] = s->allowed[i] & s->mask[i];
    return s->both;
}

/* A device does not know of suppressed tokens. Where it draws one, the draw is repeated among the others: their shares of each other
 * are the same, and so are those of the two draws together. */
static int32_t choose_by_counter(struct sampler *s, const float *l)
{
    enum { REPEATED = 0x5bd1e995 }; /* another generator */
    ka_sample a = device_args(s);
    int32_t id = draw_by_counter(s, l, s->mask, &a);
    s->n_drawn++;
    if (!sampler_refuses(s, id))
        return id;
    a.seed ^= REPEATED;
    return draw_by_counter(s, l, may_be_chosen(s), &a);
}

/* Does anything change the logits before the choice? */
static bool changes_logits(const struct sampler *s)
{
    return s->biased || ((s->penalty_n || s->dry_n) && s->n_hist);
}

void sampler_set_mask(struct sampler *s, const uint64_t *mask)
{
    s->mask = mask;
}

bool sampler_device(const struct sampler *s, ka_sample *a)
{
    bool greedy = s->p.temp <= 0 && s->p.dynatemp_range <= 0;
    *a = device_args(s);
    return (greedy || s->p.rng == SAMPLER_RNG_COUNTER) && !s->mask && !s->biased && !s->penalty_n && !s->dry_n;
}

bool sampler_may_refuse(const struct sampler *s)
{
    return s->allowed != NULL;
}

bool sampler_refuses(const struct sampler *s, int32_t id)
{
    return s->allowed && id >= 0 && (uint32_t)id < s->n_vocab && !(s->allowed[id / 64] >> id % 64 & 1);
}

void sampler_chose(struct sampler *s, int32_t id)
{
    s->n_drawn += s->p.temp > 0;
    s->list.n = 1;
    s->list.c[0] = (struct sampler_cand){ .id = id, .p = 1 };
}

/* Does the chain up to its first cut need no list of all? Then c has what is left behind top-p or, without it, min-p. */
static bool take_few(struct sampler *s, const float *l, const uint64_t *mask, float max)
{
    const struct sampler_params *p = &s->p;
    struct cand_list *c = &s->list;
    if (p->top_k > 0 || p->typical_p < 1.0f || p->top_n_sigma > 0)
        return false;
    return p->top_p < 1.0f ? cand_take_top_p(c, l, mask, s->n_vocab, max, p->top_p)
                           : cand_take_min_p(c, l, mask, s->n_vocab, max, p->min_p);
}

/* Temperature alone. */
static bool is_plain(const struct sampler_params *p)
{
    return p->top_k <= 0 && p->typical_p >= 1.0f && p->top_n_sigma <= 0 && p->top_p >= 1.0f && p->min_p <= 0 &&
           p->xtc_probability <= 0 && p->dynatemp_range <= 0 && p->temp > 0;
}

int32_t sampler_choose(struct sampler *s, const float *logits)
{
    const struct sampler_params *p = &s->p;
    const float *l = logits;
    if (changes_logits(s)) {
        memcpy(s->work, logits, s->n_vocab * sizeof *logits);
        l = s->work;
        for (uint32_t i = 0; i < p->n_bias; i++)
            if (s->bias[i].bias != -INFINITY)
                s->work[s->bias[i].id] += s->bias[i].bias;
        if (s->penalty_n)
            apply_penalties(s);
        if (s->dry_n)
            apply_dry(s);
    }
    struct cand_list *c = &s->list;
    if (p->temp > 0 && p->rng == SAMPLER_RNG_COUNTER)
        return choose_by_counter(s, l);
    const uint64_t *mask = may_be_chosen(s);
    if (p->temp <= 0 && p->dynatemp_range <= 0) {
        int32_t id = first_max(l, mask, s->n_vocab);
        c->n = id >= 0;
        c->c[0] = (struct sampler_cand){ id, id >= 0 ? l[id] : 0, 1 };
        return id;
    }
    int32_t best = p->top_k > 0 || s->n_vocab <= LIST_UP_TO ? -1 : first_max(l, mask, s->n_vocab);
    bool all = best >= 0 && isfinite(l[best]);
    if (all && is_plain(p)) {
        int32_t id = cand_draw_any(l, mask, s->n_vocab, l[best], p->temp, (float *)(void *)c->tmp, &s->dist_rng);
        c->c[0] = (struct sampler_cand){ id, l[id] / p->temp, 1 };
        c->n = 1;
        return id;
    }
    if (!all || !take_few(s, l, mask, l[best])) {
        float floor = p->top_n_sigma > 0 ? cand_sigma_floor(l, mask, s->n_vocab, p->top_n_sigma) : -INFINITY;
        cand_take(c, l, mask, s->n_vocab, p->top_k > 0 ? (uint32_t)p->top_k : 0, floor);
        if (c->n == 0)
            return -1;
        cand_typical(c, p->typical_p);
        cand_top_p(c, p->top_p);
    }
    cand_min_p(c, p->min_p);
    cand_xtc(c, p->xtc_probability, p->xtc_threshold, &s->xtc_rng);
    cand_temperature(c, p->temp, p->dynatemp_range, p->dynatemp_exponent);
    return cand_draw(c, &s->dist_rng);
}

uint32_t sampler_candidates(const struct sampler *s, const struct sampler_cand **out)
{
    *out = s->list.c;
    return s->list.n;
}
