#include "engine/draft.h"

#include <errno.h>
#include <stdlib.h>

#include "base/ckd.h"

enum {
    GRAM = 3,          /* tokens that have to be equal                                  */
    LOOK = 16,         /* places that are compared, the newest first                    */
    LONGEST = 32,      /* equal tokens that are counted                                 */
    N_CLASSES = 5,     /* of places, by how many tokens are equal                       */
    WEIGHT = 4,        /* of what is believed of a class before anything is known of it */
};
#define KEEP      0.95 /* of what is known, with each further guess                     */
#define FORGET    0.99 /* with each guess that was not worth its cost: so that it is tried again some day */
#define ROW       0.05 /* of a step's time, for a row more, until it is known           */
#define WORTH     1.03 /* times the speed without: what a step that waits for the host loses */
#define NEW_SHARE 0.2  /* of a newer measurement of a step's time                       */
#define STALL     4    /* times as long as known is not the step's own doing            */

static const uint8_t class_from[N_CLASSES] = { 3, 4, 6, 10, 20 };
static const float believed[N_CLASSES] = { 0.4f, 0.55f, 0.7f, 0.8f, 0.9f };

struct draft {
    int32_t *tok;          /* [cap] the text                                            */
    uint32_t *before;      /* [cap] the place before it whose GRAM has the same hash, plus 1; 0: none */
    uint32_t *newest;      /* [mask + 1] by hash: the newest place, plus 1              */
    uint32_t n, cap, mask;
    uint32_t class;        /* of the newest guess                                       */
    double tried[N_CLASSES], right[N_CLASSES]; /* tokens                                */
};

/* ---- what a step takes ---- */

void draft_cost_learn(struct draft_cost *c, uint32_t rows, double ns)
{
    double *at = &c->ns[MIN(rows, (uint32_t)DRAFT_ROWS)];
    *at = *at > 0 ? (1 - NEW_SHARE) * *at + NEW_SHARE * MIN(ns, STALL * *at) : ns;
}

double draft_cost_ns(const struct draft_cost *c, uint32_t rows)
{
    uint32_t r = MIN(rows, (uint32_t)DRAFT_ROWS), known = r;
    while (known && !(c->ns[known] > 0))
        known--;
    double base = known ? c->ns[known] : 1;
    return base * (1 + ROW * (r - known));
}

/* ---- the text ---- */

int draft_create(uint32_t n_most, struct draft **out)
{
    struct draft *d = calloc(1, sizeof *d);
    uint32_t slots = 256;
    while (slots < n_most && slots < UINT32_C(1) << 30)
        slots *= 2;
    if (!d)
        return -ENOMEM;
    d->cap = n_most;
    d->mask = slots - 1;
    d->tok = calloc(MAX(n_most, 1u), sizeof *d->tok);
    d->before = calloc(MAX(n_most, 1u), sizeof *d->before);
    d->newest = calloc(slots, sizeof *d->newest);
    if (!d->tok || !d->before || !d->newest) {
        draft_destroy(d);
        return -ENOMEM;
    }
    *out = d;
    return 0;
}

void draft_destroy(struct draft *d)
{
    if (!d)
        return;
    free(d->tok);
    free(d->before);
    free(d->newest);
    free(d);
}

/* Of the GRAM tokens that end at `at`. */
static uint32_t slot_of(const struct draft *d, uint32_t at)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < GRAM; i++)
        h = (h ^ (uint32_t)d->tok[at - i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & d->mask;
}

void draft_add(struct draft *d, const int32_t *tok, uint32_t n)
{
    for (uint32_t i = 0; i < n && d->n < d->cap; i++) {
        uint32_t at = d->n++;
        d->tok[at] = tok[i];
        if (at + 1 < GRAM)
            continue;
        uint32_t *slot = &d->newest[slot_of(d, at)];
        d->before[at] = *slot;
        *slot = at + 1;
    }
}

/* ---- the guess ---- */

/* How many tokens up to `at` are those up to the end. */
static uint32_t equal_tokens(const struct draft *d, uint32_t at)
{
    uint32_t n = 0, most = MIN(at + 1, (uint32_t)LONGEST);
    while (n < most && d->tok[at - n] == d->tok[d->n - 1 - n])
        n++;
    return n;
}

/* The place that the end of the text is most like; of equals the newest. 0: none, else its index plus 1. */
static uint32_t find_place(const struct draft *d, uint32_t *n_equal)
{
    uint32_t best = 0, most = GRAM - 1;
    if (d->n < GRAM)
        return 0;
    uint32_t p = d->before[d->n - 1];
    for (uint32_t i = 0; i < LOOK && p; i++, p = d->before[p - 1]) {
        uint32_t n = equal_tokens(d, p - 1);
        if (n > most) {
            best = p;
            most = n;
        }
    }
    *n_equal = most;
    return best;
}

static double likely(const struct draft *d, uint32_t class)
{
    return (d->right[class] + WEIGHT * believed[class]) / (d->tried[class] + WEIGHT);
}

/* The length with the most tokens in a time: k guessed ones, of which each is right with probability p if those before it are, bring
 * 1 + p + .. + p^k. */
static uint32_t best_length(const struct draft_cost *c, double p, const struct draft_step *s)
{
    uint32_t rows = s->others + s->again + 1, length = 0;
    double tokens = 1, term = 1, best = WORTH * (s->others + 1) / draft_cost_ns(c, rows);
    for (uint32_t k = 1; k <= MIN(s->most, (uint32_t)DRAFT_MOST); k++) {
        term *= p;
        tokens += term;
        double speed = (s->others + tokens) / draft_cost_ns(c, rows + k);
        if (speed > best) {
            best = speed;
            length = k;
        }
    }
    return length;
}

uint32_t draft_guess(struct draft *d, const struct draft_cost *c, const struct draft_step *step, int32_t *guess)
{
    uint32_t n_equal, place = find_place(d, &n_equal), class = N_CLASSES - 1;
    if (!place || d->n == d->cap) /* full: the end is not the newest token */
        return 0;
    while (class_from[class] > n_equal)
        class--;
    uint32_t k = best_length(c, likely(d, class), step);
    d->class = class;
    if (!k) {
        d->tried[class] *= FORGET;
        d->right[class] *= FORGET;
    }
    for (uint32_t i = 0; i < k; i++) /* beyond the end it goes on as it began: what repeats itself at once */
        guess[i] = place + i < d->n ? d->tok[place + i] : guess[place + i - d->n];
    return k;
}

void draft_tell(struct draft *d, uint32_t n, uint32_t right)
{
    d->tried[d->class] = KEEP * d->tried[d->class] + MIN(right + 1, n);
    d->right[d->class] = KEEP * d->right[d->class] + right;
}
