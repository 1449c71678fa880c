#include "rt/lockstep/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kdev.h"
#include "rt/lockstep/item.h"
#include "rt/lockstep/run.h"

void kd_host_cluster_arrive(void);
void kd_host_cluster_wait(void);
uint32_t kd_host_cluster_rank(void);
void kd_host_cluster_store8(void *p, kd_u32x2 v);

enum { MAX_STORES = 1 << 16 }; /* of a phase */

struct store {
    uint32_t from, at;
    kd_u32x2 v;
};

struct cluster {
    uint32_t n, bytes;
    uint32_t left, arrived; /* items that have not returned; of them, those that have arrived */
    uint64_t phase, arrivals, seed;
    bool at_once; /* stores of this phase */
    bool ended[CLUSTER_MAX];
    uint8_t *shared[CLUSTER_MAX];
    uint64_t waits_for[CLUSTER_MAX][LOCKSTEP_MAX_THREADS]; /* an item's phase plus 1, 0: it has not arrived */
    struct store stores[MAX_STORES];
    uint32_t n_stores;
};

struct cluster *cluster_create(void)
{
    return calloc(1, sizeof(struct cluster));
}

void cluster_destroy(struct cluster *c)
{
    free(c);
}

void cluster_begin(struct cluster *c, uint32_t n, uint32_t threads, uint32_t bytes, uint8_t *const *shared, uint64_t seed)
{
    c->n = n;
    c->bytes = bytes;
    c->left = n * threads;
    c->arrived = c->n_stores = 0;
    c->phase = c->arrivals = 0;
    c->seed = seed;
    memset(c->ended, 0, sizeof c->ended);
    memcpy(c->shared, shared, n * sizeof *shared);
    memset(c->waits_for, 0, n * sizeof *c->waits_for);
}

static void put(struct cluster *c, const struct store *s)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (i != s->from)
            memcpy(c->shared[i] + s->at, &s->v, sizeof s->v);
}

static void settle(struct cluster *c)
{
    if (!c->left || c->arrived < c->left)
        return;
    for (uint32_t i = 0; i < c->n_stores; i++)
        put(c, &c->stores[i]);
    c->n_stores = c->arrived = 0;
    c->phase++;
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    c->at_once = c->seed >> 63;
}

void cluster_item_returned(struct cluster *c)
{
    c->left--;
    settle(c);
}

bool cluster_group_ended(struct cluster *c, uint32_t rank)
{
    c->ended[rank] = true;
    for (uint32_t i = 0; i < c->n_stores; i++)
        if (c->stores[i].from != rank)
            return false;
    return true;
}

static struct cluster *own(uint32_t *rank)
{
    struct cluster *c = item_cluster(rank);
    if (!c)
        item_fault("it was launched without a cluster");
    return c;
}

uint32_t kd_host_cluster_rank(void)
{
    uint32_t rank;
    own(&rank);
    return rank;
}

void kd_host_cluster_arrive(void)
{
    uint32_t rank;
    struct cluster *c = own(&rank);
    if (c->waits_for[rank][kd_item.tid])
        item_fault("it arrives at the cluster's barrier again without having waited there");
    c->waits_for[rank][kd_item.tid] = c->phase + 1;
    c->arrived++;
    c->arrivals++;
    settle(c);
}

uint64_t cluster_arrivals(const struct cluster *c)
{
    return c ? c->arrivals : 0;
}

struct waiter {
    const struct cluster *c;
    uint64_t phase;
};

static bool is_over(const void *arg)
{
    const struct waiter *w = arg;
    return w->c->phase != w->phase;
}

void kd_host_cluster_wait(void)
{
    uint32_t rank;
    struct cluster *c = own(&rank);
    struct waiter w = { c, c->waits_for[rank][kd_item.tid] - 1 };
    if (!c->waits_for[rank][kd_item.tid])
        item_fault("it waits at the cluster's barrier without having arrived");
    if (!is_over(&w))
        item_wait(WAIT_CLUSTER, is_over, &w);
    c->waits_for[rank][kd_item.tid] = 0;
}

void kd_host_cluster_store8(void *p, kd_u32x2 v)
{
    uint32_t rank;
    struct cluster *c = own(&rank);
    struct store s = { .from = rank, .at = (uint32_t)((uint8_t *)p - kd_item.shared), .v = v };
    if (!c->phase)
        item_fault("a store into the cluster before all of its work-groups have arrived, so perhaps before they began");
    if (s.at % 8 || s.at + 8 > c->bytes)
        item_fault("a store of 8 bytes to shared memory at %u of the cluster, which has %u bytes each", s.at, c->bytes);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ended[i])
            item_fault("a store to shared memory at %u of work-group %u of the cluster, which has ended", s.at, i);
    if (c->at_once || c->n_stores == MAX_STORES)
        put(c, &s);
    else
        c->stores[c->n_stores++] = s;
}
