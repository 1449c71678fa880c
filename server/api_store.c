/* Responses that are kept, to go on from and to be asked for again: the items of their whole conversation and the response
 * as JSON text. They are bounded in
 * number and in bytes, the oldest go first, and all of them before a request that has no memory is refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_impl.h"

enum { MAX_STORED = 1024, STORE_SHARE = 4 /* of the budget, at most for them: a fourth */, ID_BYTES = 40,
       MAX_STORE_BYTES = 64 << 20 };

struct api_stored {
    struct api_stored *next; /* older                      */
    uint64_t owner;          /* who may go on from it      */
    char id[ID_BYTES];
    uint32_t n_input;        /* items that were given      */
    size_t n, n_whole;
    char text[];             /* [n] a JSON array, then [n_whole] the response */
};

static uint64_t weight(const struct api_stored *s)
{
    return sizeof *s + s->n + s->n_whole;
}

/* Under the lock: frees the oldest until so many are left, and so many bytes. Returns the bytes that were freed. */
static uint64_t keep(struct api *a, uint32_t most, uint64_t bytes)
{
    uint64_t freed = 0, sum = 0;
    uint32_t n = 0;
    bool full = false; /* then all that is older goes too */
    for (struct api_stored **at = &a->stored, *s; (s = *at);) {
        if ((full = full || n == most || sum + weight(s) > bytes)) {
            *at = s->next;
            freed += weight(s);
            budget_give(a->o.budget, weight(s));
            budget_spare(a->o.budget, -(int64_t)weight(s));
            free(s);
            continue;
        }
        n++;
        sum += weight(s);
        at = &s->next;
    }
    a->stored_bytes = sum;
    return freed;
}

uint64_t api_store_drop(struct api *a, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    uint64_t freed = keep(a, MAX_STORED, a->stored_bytes - MIN(bytes, a->stored_bytes));
    pthread_mutex_unlock(&a->lock);
    return freed;
}

void api_store_put(struct api *a, uint64_t owner, const char *id, const struct out *text, uint32_t n_input,
                   const struct out *whole)
{
    uint64_t limit = budget_stats(a->o.budget).limit / STORE_SHARE, most = MAX_STORE_BYTES;
    size_t size = sizeof(struct api_stored) + text->n + whole->n;
    most = limit ? MIN(most, limit) : most;
    if (text->failed || whole->failed || size > most || budget_take(a->o.budget, size))
        return; /* who asks for it is told that it is not there */
    struct api_stored *s = malloc(size);
    if (!s) {
        budget_give(a->o.budget, size);
        return;
    }
    *s = (struct api_stored){ .owner = owner, .n = text->n, .n_whole = whole->n, .n_input = n_input };
    snprintf(s->id, sizeof s->id, "%s", id);
    memcpy(s->text, text->s, text->n);
    memcpy(s->text + text->n, whole->s, whole->n);
    budget_spare(a->o.budget, (int64_t)size);
    pthread_mutex_lock(&a->lock);
    s->next = a->stored;
    a->stored = s;
    keep(a, MAX_STORED, most);
    pthread_mutex_unlock(&a->lock);
}

/* Where the pointer to it stands; NULL: it is not there. Under the lock. */
static struct api_stored **find(struct api *a, uint64_t owner, const char *id)
{
    for (struct api_stored **at = &a->stored; *at; at = &(*at)->next)
        if ((*at)->owner == owner && strcmp((*at)->id, id) == 0)
            return at;
    return NULL;
}

int api_store_get(struct api *a, uint64_t owner, const char *id, struct out *o)
{
    pthread_mutex_lock(&a->lock);
    struct api_stored **at = find(a, owner, id);
    if (at)
        out_raw(o, (*at)->text + (*at)->n, (*at)->n_whole);
    pthread_mutex_unlock(&a->lock);
    return at ? 0 : -ENOENT;
}

int api_store_remove(struct api *a, uint64_t owner, const char *id)
{
    pthread_mutex_lock(&a->lock);
    struct api_stored **at = find(a, owner, id), *s = at ? *at : NULL;
    if (s) {
        *at = s->next;
        a->stored_bytes -= weight(s);
        budget_give(a->o.budget, weight(s));
        budget_spare(a->o.budget, -(int64_t)weight(s));
        free(s);
    }
    pthread_mutex_unlock(&a->lock);
    return s ? 0 : -ENOENT;
}

json_t *api_previous_items(void *user, const char *id)
{
    struct api_exchange *x = user;
    json_t *items = NULL;
    uint32_t n_input;
    x->lacked_memory |= api_stored_items(x, id, &items, &n_input) == -ENOMEM;
    return items;
}

int api_stored_items(struct api_exchange *x, const char *id, json_t **items, uint32_t *n_input)
{
    struct api *a = x->api;
    char *text = NULL;
    size_t n = 0;
    pthread_mutex_lock(&a->lock);
    struct api_stored **at = find(a, x->owner, id);
    if (at && (text = malloc((*at)->n))) {
        memcpy(text, (*at)->text, n = (*at)->n);
        *n_input = (*at)->n_input;
    }
    pthread_mutex_unlock(&a->lock);
    uint64_t bytes = text ? budget_of_json(text, n) + API_PROMPT_BYTES * (uint64_t)n : 0;
    *items = NULL;
    if (text && !budget_take(a->o.budget, bytes)) {
        x->held += bytes;
        *items = json_read(text, n, JSON_ALLOW_NUL, NULL, NULL);
    }
    free(text);
    return !at ? -ENOENT : *items ? 0 : -ENOMEM;
}

void api_store_finish(struct api *a)
{
    keep(a, 0, 0);
}
