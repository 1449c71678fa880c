#include "engine/serve/row_crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct row_crew {
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    pthread_t *thread;
    uint32_t n_threads; /* without the caller's */
    uint64_t round;     /* counts runs          */
    uint32_t n_busy;    /* threads that have not seen the run's end */
    bool quit;
    void (*fn)(void *user, uint32_t i);
    void *user;
    uint32_t n;
    atomic_uint next;
};

static void work(struct row_crew *c)
{
    for (uint32_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;)
        c->fn(c->user, i);
}

static void *thread_main(void *user)
{
    struct row_crew *c = user;
    uint64_t seen = 0;
    pthread_setname_np(pthread_self(), "zinc-rows");
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->round == seen && !c->quit)
            pthread_cond_wait(&c->go, &c->lock);
        if (c->quit)
            break;
        seen = c->round;
        pthread_mutex_unlock(&c->lock);
        work(c);
        pthread_mutex_lock(&c->lock);
        if (!--c->n_busy)
            pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int row_crew_create(uint32_t n, struct row_crew **out, struct err *e)
{
    struct row_crew *c = calloc(1, sizeof *c);
    if (!c || !(c->thread = calloc(n + 1, sizeof *c->thread))) {
        free(c);
        return err_set(e, -ENOMEM, "scheduler: out of memory");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->go, NULL);
    pthread_cond_init(&c->done, NULL);
    for (int rc; c->n_threads + 1 < n; c->n_threads++)
        if ((rc = pthread_create(&c->thread[c->n_threads], NULL, thread_main, c))) {
            row_crew_destroy(c);
            return err_set(e, -rc, "scheduler: cannot start a thread: %s", strerror(rc));
        }
    *out = c;
    return 0;
}

void row_crew_destroy(struct row_crew *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->go);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->n_threads; i++)
        pthread_join(c->thread[i], NULL);
    pthread_cond_destroy(&c->go);
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->lock);
    free(c->thread);
    free(c);
}

void row_crew_run(struct row_crew *c, uint32_t n, void (*fn)(void *user, uint32_t i), void *user)
{
    bool alone = n < 2 || !c->n_threads;
    c->fn = fn;
    c->user = user;
    c->n = n;
    atomic_store(&c->next, 0);
    if (!alone) {
        pthread_mutex_lock(&c->lock);
        c->round++;
        c->n_busy = c->n_threads;
        pthread_cond_broadcast(&c->go);
        pthread_mutex_unlock(&c->lock);
    }
    work(c);
    if (alone)
        return;
    pthread_mutex_lock(&c->lock);
    while (c->n_busy)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}
