/* Compiled grammars are kept: clients send the same schema again and again, and masks that were computed stay warm. What
 * they weigh is taken from the budget of all requests, where they are the first to go when memory is short. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

enum { MAX_IDLE = 64 /* kept without being used */, IDLE_SHARE = 4 /* of the budget, at most for them: a fourth */ };

struct api_grammar {
    struct api_grammar *next; /* used longer ago */
    struct grammar *g;
    uint32_t users;
    uint64_t paid;            /* taken from the budget */
    size_t n;
    char text[];              /* GBNF */
};

/* It grows while masks are made. */
static uint64_t weight(const struct api_grammar *k)
{
    return sizeof *k + k->n + grammar_bytes(k->g);
}

/* ---- the list; all of it under the API's lock ---- */

static void drop(struct api *a, struct api_grammar **at)
{
    struct api_grammar *k = *at;
    *at = k->next;
    budget_give(a->o.budget, k->paid);
    budget_spare(a->o.budget, -(int64_t)k->paid);
    grammar_unref(k->g);
    free(k);
}

/* Frees unused ones, the longest unused first, until `bytes` are free. */
static uint64_t drop_idle(struct api *a, uint64_t bytes)
{
    uint64_t freed = 0;
    while (freed < bytes) {
        struct api_grammar **last = NULL;
        for (struct api_grammar **at = &a->grammars; *at; at = &(*at)->next)
            if (!(*at)->users)
                last = at;
        if (!last)
            break;
        freed += (*last)->paid;
        drop(a, last);
    }
    return freed;
}

static void keep_few(struct api *a)
{
    uint64_t limit = budget_stats(a->o.budget).limit / IDLE_SHARE, bytes = 0;
    uint32_t n = 0;
    for (struct api_grammar **at = &a->grammars, *k; (k = *at);) {
        n += !k->users;
        bytes += k->users ? 0 : k->paid;
        if (!k->users && (n > MAX_IDLE || (limit && bytes > limit)))
            drop(a, at);
        else
            at = &k->next;
    }
}

static struct api_grammar *find(struct api *a, const char *text, size_t n)
{
    for (struct api_grammar **at = &a->grammars, *k; (k = *at); at = &k->next)
        if (k->n == n && memcmp(k->text, text, n) == 0) {
            *at = k->next;
            k->next = a->grammars;
            a->grammars = k;
            return k;
        }
    return NULL;
}

uint64_t api_grammars_drop(struct api *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    uint64_t freed = drop_idle(a, bytes);
    pthread_mutex_unlock(&a->lock);
    return freed;
}

/* ---- for exchanges ---- */

/* Compiles and enters it. The budget is asked without the lock: it may ask back for memory. */
static int compile(struct api *a, const struct vocab_index *v, const char *text, size_t n, struct grammar **g,
                   struct err *e)
{
    struct api_grammar *k = malloc(sizeof *k + n);
    if (!k)
        return err_set(e, -ENOMEM, "out of memory for the grammar");
    *k = (struct api_grammar){ .n = n, .users = 1 };
    memcpy(k->text, text, n);
    int rc = grammar_from_gbnf(v, text, n, &k->g, e);
    if (!rc && (rc = budget_take(a->o.budget, k->paid = weight(k)))) {
        rc = err_set(e, rc, "the grammar takes %llu KiB, for which there is no memory now (--max-memory)",
                     (unsigned long long)(k->paid >> 10));
        grammar_unref(k->g);
    }
    if (rc) {
        free(k);
        return rc;
    }
    grammar_ref(*g = k->g);
    budget_spare(a->o.budget, (int64_t)k->paid);
    pthread_mutex_lock(&a->lock); /* another request may have entered the same meanwhile: then there are two for a while */
    k->next = a->grammars;
    a->grammars = k;
    keep_few(a);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

int api_grammar(struct api *a, const char *text, size_t n, struct grammar **g, struct err *e)
{
    const struct vocab_index *v;
    int rc = engine_vocab(a->o.eng, &v, e);
    if (rc)
        return rc;
    pthread_mutex_lock(&a->lock);
    struct api_grammar *k = find(a, text, n);
    if (k) {
        k->users++;
        grammar_ref(*g = k->g);
    }
    pthread_mutex_unlock(&a->lock);
    return k ? 0 : compile(a, v, text, n, g, e);
}

/* What it has grown by is paid now, as far as there is room; where there is none it is not kept. */
void api_grammar_done(struct api *a, struct grammar *g)
{
    if (!g)
        return;
    uint64_t now = 0, paid = 0;
    pthread_mutex_lock(&a->lock);
    struct api_grammar *k = a->grammars;
    while (k && k->g != g)
        k = k->next;
    if (k) {
        now = weight(k);
        paid = k->paid;
    }
    pthread_mutex_unlock(&a->lock); /* still in use, by us: it stays */
    bool more = now > paid && budget_take(a->o.budget, now - paid) == 0;
    pthread_mutex_lock(&a->lock);
    if (k) {
        struct api_grammar **at = &a->grammars;
        while (*at != k)
            at = &(*at)->next;
        uint64_t had = k->paid + (more ? now - paid : 0); /* others may have paid for the same meanwhile */
        budget_spare(a->o.budget, -(int64_t)k->paid);
        k->paid = MIN(MAX(now, 1u), had);
        budget_spare(a->o.budget, (int64_t)k->paid);
        budget_give(a->o.budget, had - k->paid);
        if (--k->users == 0 && now > paid && !more)
            drop(a, at);
        keep_few(a);
    }
    pthread_mutex_unlock(&a->lock);
    grammar_unref(g);
}

void api_grammars_finish(struct api *a)
{
    while (a->grammars)
        drop(a, &a->grammars);
}
