/* Responses that are kept for previous_response_id: the items of their whole conversation as JSON text. They are bounded in
 * number and in bytes, the oldest go first, and all of them before a request that has no memory is refused. */
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
    size_t n;
    char text[];             /* [n] a JSON array           */
};

static uint64_t weight(const struct api_stored *s)
{
    return sizeof *s + s->n;
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

void api_store_put(struct api *a, uint64_t owner, const char *id, const struct out *text)
{
    uint64_t limit = budget_stats(a->o.budget).limit / STORE_SHARE, most = MAX_STORE_BYTES;
    size_t size = sizeof(struct api_stored) + text->n;
    most = limit ? MIN(most, limit) : most;
    if (text->failed || size > most || budget_take(a->o.budget, size))
        return; /* who asks for it is told that it is not there */
    struct api_stored *s = malloc(size);
    if (!s) {
        budget_give(a->o.budget, size);
        return;
    }
    *s = (struct api_stored){ .owner = owner, .n = text->n };
    snprintf(s->id, sizeof s->id, "%s", id);
    memcpy(s->text, text->s, text->n);
    budget_spare(a->o.budget, (int64_t)size);
    pthread_mutex_lock(&a->lock);
    s->next = a->stored;
    a->stored = s;
    keep(a, MAX_STORED, most);
    pthread_mutex_unlock(&a->lock);
}

json_t *api_stored_items(void *user, const char *id)
{
    struct api_exchange *x = user;
    struct api *a = x->api;
    char *text = NULL;
    size_t n = 0;
    pthread_mutex_lock(&a->lock);
    for (const struct api_stored *s = a->stored; s && !text; s = s->next)
        if (s->owner == x->owner && strcmp(s->id, id) == 0 && (text = malloc(s->n)))
            memcpy(text, s->text, n = s->n);
    pthread_mutex_unlock(&a->lock);
    uint64_t bytes = text ? budget_of_json(text, n) + API_PROMPT_BYTES * (uint64_t)n : 0;
    json_t *items = NULL;
    if (text && !budget_take(a->o.budget, bytes)) {
        x->held += bytes;
        items = json_read(text, n, JSON_ALLOW_NUL, NULL, NULL);
    }
    free(text);
    return items;
}

void api_store_finish(struct api *a)
{
    keep(a, 0, 0);
}
