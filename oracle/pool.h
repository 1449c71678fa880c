/* oracle/pool.h
 * Worker threads that run one function together (SPMD): every worker executes the same code on the same step, shares
 * out loops by an atomic counter, and meets the others at barriers. What a loop computes must not depend on who
 * computes it. The caller is worker 0. Idle workers spin for about 50 us, then sleep; one that has slept a few times in a row
 * spins for a moment only, since the core may be wanted by the worker that it waits for. */
#ifndef ZINC_ORACLE_POOL_H
#define ZINC_ORACLE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { POOL_MAX = 256, POOL_LOOPS = 64 /* loops that may be open between two barriers */ };

struct pool;

/* A worker's view of the pool; every worker of a run sees the same sequence of loops and barriers. */
struct pool_worker {
    struct pool *pool;
    uint32_t id, n;
    uint32_t n_loops;   /* begun since the last barrier                   */
    bool claimed;       /* for the code that runs: a barrier clears it    */
    uint32_t slept[2];  /* waits in a row that ended so: for a job, at barriers */
    uint32_t next_slot; /* of the shared loop counters                    */
    uint32_t base[POOL_LOOPS]; /* where each counter will stand at the next loop's begin */
};

typedef void pool_fn(struct pool_worker *w, void *arg);

/* Cores that this process may run on, one per physical core. At least 1. */
uint32_t pool_cores(void);

/* n threads in all, 0: pool_cores(). With `pin` the threads of the pool (not the caller) stay on one core each, when
 * the process has enough of them. */
int pool_create(uint32_t n, bool pin, struct pool **out, struct err *e);
void pool_destroy(struct pool *p); /* NULL is fine */
uint32_t pool_size(const struct pool *p);

/* Runs fn on every worker and returns when all have returned. */
void pool_run(struct pool *p, pool_fn *fn, void *arg);

/* All workers arrive before one leaves; what they wrote is visible to all. */
void pool_barrier(struct pool_worker *w);

/* for (struct pool_loop l = pool_loop(w, n); pool_next(w, &l, &i);) runs the body for every i < n, on some worker
 * each. Loops do not wait for each other and must be run to their end. */
struct pool_loop {
    uint32_t base, n, slot;
};
struct pool_loop pool_loop(struct pool_worker *w, uint32_t n);
bool pool_next(struct pool_worker *w, struct pool_loop *l, uint32_t *i);

#endif
