#include "server/budget.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct budget {
    uint64_t limit;
    atomic_uint_least64_t used, peak, refused, spare;
    pthread_mutex_t lock; /* of what follows */
    void (*relieve)(void *user, uint64_t n);
    void *user;
};

struct budget *budget_create(uint64_t limit)
{
    struct budget *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->limit = limit;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

void budget_destroy(struct budget *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void note_peak(struct budget *b, uint64_t used)
{
    uint64_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (peak < used && !atomic_compare_exchange_weak(&b->peak, &peak, used))
        ;
}

/* Never more than the limit, not even for a moment: others would be refused for what is given back at once. */
static int try_take(struct budget *b, uint64_t n)
{
    uint64_t used = atomic_load(&b->used);
    do {
        if (n > b->limit - used)
            return -EBUSY;
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + n));
    note_peak(b, used + n);
    return 0;
}

int budget_take(struct budget *b, uint64_t n)
{
    if (!b || !n)
        return 0;
    if (n > b->limit) {
        atomic_fetch_add(&b->refused, 1);
        return -E2BIG;
    }
    int rc = try_take(b, n);
    if (rc) {
        pthread_mutex_lock(&b->lock);
        if (b->relieve)
            b->relieve(b->user, n);
        pthread_mutex_unlock(&b->lock);
        rc = try_take(b, n);
    }
    if (rc)
        atomic_fetch_add(&b->refused, 1);
    return rc;
}

void budget_give(struct budget *b, uint64_t n)
{
    if (b)
        atomic_fetch_sub(&b->used, n);
}

void budget_spare(struct budget *b, int64_t n)
{
    if (b)
        atomic_fetch_add(&b->spare, (uint64_t)n);
}

void budget_on_pressure(struct budget *b, void (*relieve)(void *user, uint64_t n), void *user)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->relieve = relieve;
    b->user = user;
    pthread_mutex_unlock(&b->lock);
}

struct budget_stats budget_stats(const struct budget *b)
{
    if (!b)
        return (struct budget_stats){ 0 };
    return (struct budget_stats){ .used = atomic_load(&b->used), .limit = b->limit, .peak = atomic_load(&b->peak),
                                  .spare = atomic_load(&b->spare), .refused = atomic_load(&b->refused) };
}

/* Measured with Jansson 2.14 and glibc's malloc, rounded up. A member has an entry in its object's table (its colon
 * pays), an element a pointer in its array; both have a value of their own. */
enum { OBJECT_BYTES = 288, ARRAY_BYTES = 160, MEMBER_BYTES = 128, VALUE_BYTES = 56, STRING_BYTES = 64 };

uint64_t budget_of_json(const char *s, size_t n)
{
    uint64_t sum = 2 * (uint64_t)n + VALUE_BYTES;
    for (size_t i = 0; i < n; i++)
        switch (s[i]) {
        case '{': sum += OBJECT_BYTES; break;
        case '[': sum += ARRAY_BYTES; break;
        case ':': sum += MEMBER_BYTES; break;
        case ',': sum += VALUE_BYTES; break;
        case '"':
            sum += STRING_BYTES;
            for (i++; i < n && s[i] != '"'; i++)
                i += s[i] == '\\';
            break;
        default: break;
        }
    return sum;
}
