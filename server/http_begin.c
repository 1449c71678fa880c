/* Large requests begin on threads of their own: parsing and tokenising a long prompt takes longer than the streams
 * that the HTTP threads carry should wait. */
#include <stdlib.h>

#include "server/http_priv.h"

enum { THREADS = 2 };

struct begin_pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct request *first, **last; /* linked by next_to_begin */
    bool stop;
    uint32_t n_threads;
    pthread_t thread[THREADS];
};

static void *run(void *user)
{
    struct begin_pool *p = user;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->first && !p->stop)
            pthread_cond_wait(&p->more, &p->lock);
        struct request *r = p->first;
        if (!r)
            break;
        if (!(p->first = r->next_to_begin))
            p->last = &p->first;
        pthread_mutex_unlock(&p->lock);
        request_begin(r);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int begin_pool_create(struct begin_pool **out, struct err *e)
{
    struct begin_pool *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "server: out of memory");
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    p->last = &p->first;
    while (p->n_threads < THREADS && !pthread_create(&p->thread[p->n_threads], NULL, run, p))
        p->n_threads++;
    *out = p;
    if (p->n_threads)
        return 0;
    return err_set(e, -EAGAIN, "server: no thread can be started");
}

void begin_pool_destroy(struct begin_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void begin_pool_put(struct begin_pool *p, struct request *r)
{
    pthread_mutex_lock(&p->lock);
    r->next_to_begin = NULL;
    *p->last = r;
    p->last = &r->next_to_begin;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}
