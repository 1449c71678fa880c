#include "model/quant_par.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { MAX_THREADS = 256 };

struct loop {
    uint64_t n;
    int (*fn)(void *user, uint64_t i, struct err *e);
    void *user;
    atomic_ullong next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of the two below */
    uint64_t failed_at;
    struct err err;
};

static void *work(void *arg)
{
    struct loop *l = arg;
    for (;;) {
        uint64_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n || atomic_load(&l->failed))
            return NULL;
        struct err e = { 0 };
        int rc = l->fn(l->user, i, &e);
        if (!rc)
            continue;
        pthread_mutex_lock(&l->lock);
        if (i < l->failed_at) {
            l->failed_at = i;
            l->err = e;
            l->err.code = rc;
        }
        pthread_mutex_unlock(&l->lock);
        atomic_store(&l->failed, true);
    }
}

int quant_parallel(uint32_t n_threads, uint64_t n, int (*fn)(void *user, uint64_t i, struct err *e), void *user,
                   struct err *e)
{
    struct loop l = { .n = n, .fn = fn, .user = user, .failed_at = UINT64_MAX };
    pthread_t t[MAX_THREADS];
    uint32_t started = 0;
    if (n_threads == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        n_threads = cores > 0 ? (uint32_t)cores : 1;
    }
    n_threads = n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    pthread_mutex_init(&l.lock, NULL);
    while (started + 1 < n_threads && started + 1 < n && pthread_create(&t[started], NULL, work, &l) == 0)
        started++; /* fewer threads than asked for still do all the work */
    work(&l);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(t[i], NULL);
    pthread_mutex_destroy(&l.lock);
    if (l.failed_at == UINT64_MAX)
        return 0;
    if (e)
        *e = l.err;
    return l.err.code;
}
