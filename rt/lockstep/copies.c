#include "rt/lockstep/copies.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kdev.h"
#include "rt/lockstep/item.h"
#include "rt/lockstep/run.h"

void kd_host_copy(void *dst, const void *src, uint32_t n);
void kd_host_copy_commit(void);
void kd_host_copy_wait(uint32_t most);

/* group: how many were committed before its own. */
struct copy {
    uint8_t *to;
    const void *from; /* NULL: zeros */
    uint32_t n, group;
};

/* What an item has under way: q[first, n). */
struct queue {
    struct copy *q;
    uint32_t first, n, cap, committed;
};

struct copies {
    uint8_t *shared;
    uint32_t bytes;
    uint64_t seed;
    struct queue items[LOCKSTEP_MAX_THREADS];
};

struct copies *copies_create(void)
{
    return calloc(1, sizeof(struct copies));
}

void copies_destroy(struct copies *c)
{
    for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS && c; i++)
        free(c->items[i].q);
    free(c);
}

void copies_begin(struct copies *c, uint8_t *shared, uint32_t bytes, uint32_t threads, uint64_t seed)
{
    c->shared = shared;
    c->bytes = bytes;
    c->seed = seed;
    for (uint32_t i = 0; i < threads; i++)
        c->items[i].first = c->items[i].n = c->items[i].committed = 0;
}

static void make(struct queue *q, uint32_t groups)
{
    for (; q->first < q->n && q->q[q->first].group < groups; q->first++) {
        const struct copy *c = &q->q[q->first];
        if (c->from)
            memcpy(c->to, c->from, c->n);
        else
            memset(c->to, 0, c->n);
    }
    if (q->first == q->n)
        q->first = q->n = 0;
}

void kd_host_copy(void *dst, const void *src, uint32_t n)
{
    struct copies *c = item_copies();
    struct queue *q = &c->items[kd_item.tid];
    uint8_t *to = dst;
    if (to < c->shared || to + n > c->shared + c->bytes || (uintptr_t)to % n || (uintptr_t)src % n)
        item_fault("a copy of %u bytes from ...%x to %lld of %u bytes of shared memory: inside, and multiples of the size are expected",
                   n, (unsigned)((uintptr_t)src & 0xfff), (long long)(to - c->shared), c->bytes);
    if (q->n == q->cap) {
        uint32_t cap = q->cap ? 2 * q->cap : 64;
        struct copy *more = realloc(q->q, cap * sizeof *more);
        if (!more)
            item_fault("no memory for %u copies under way", cap);
        q->q = more;
        q->cap = cap;
    }
    q->q[q->n++] = (struct copy){ to, src, n, q->committed };
}

/* The warp's lanes all draw the same: they have made as many groups as each other. */
static bool at_once(const struct copies *c, uint32_t group)
{
    uint64_t x = (c->seed + kd_item.tid / KD_WARP + 64 * (uint64_t)group + 1) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 63;
}

void kd_host_copy_commit(void)
{
    struct copies *c = item_copies();
    struct queue *q = &c->items[kd_item.tid];
    q->committed++;
    if (at_once(c, q->committed))
        make(q, q->committed);
}

void kd_host_copy_wait(uint32_t most)
{
    struct queue *q = &item_copies()->items[kd_item.tid];
    if (q->committed > most)
        make(q, q->committed - most);
}
