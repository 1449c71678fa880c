/* Requests that take long to begin do so on threads of their own: parsing and tokenising a long prompt or compiling a
 * grammar takes longer than the streams that the HTTP threads carry should wait. Clients take turns: whoever has fewest
 * requests at work is next, so that one client's heaviest do not hold up the others'. */
#include <stdlib.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/sys.h"

enum { THREADS = 4, PER_CLIENT = THREADS - 1 /* at work at the same time */ };

struct begin_pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct request_list waiting;
    bool stop;
    uint32_t n_threads, n_begun; /* created; of them, those that run already */
    pthread_t thread[THREADS];
    bool at_work[THREADS];
    uint64_t client[THREADS]; /* whose request it has */
};

static uint32_t works_for(const struct begin_pool *p, uint64_t client)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        n += p->at_work[i] && p->client[i] == client;
    return n;
}

/* NULL: none, or all are of clients that have their share. */
static struct request *next(struct begin_pool *p)
{
    struct request *r, *best = NULL;
    uint32_t fewest = PER_CLIENT;
    TAILQ_FOREACH(r, &p->waiting, of_pool)
    {
        uint32_t n = works_for(p, r->client);
        if (n < fewest) {
            best = r;
            fewest = n;
        }
        if (!fewest)
            break;
    }
    if (best)
        TAILQ_REMOVE(&p->waiting, best, of_pool);
    return best;
}

static void *run(void *user)
{
    struct begin_pool *p = user;
    pthread_mutex_lock(&p->lock);
    uint32_t me = p->n_begun++;
    for (;;) {
        struct request *r = next(p);
        if (!r && p->stop)
            break;
        if (!r) {
            pthread_cond_wait(&p->more, &p->lock);
            continue;
        }
        p->at_work[me] = true;
        p->client[me] = r->client;
        pthread_mutex_unlock(&p->lock);
        request_begin(r);
        request_begun(r);
        pthread_mutex_lock(&p->lock);
        p->at_work[me] = false;
        pthread_cond_broadcast(&p->more); /* its client's next one may begin */
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
    TAILQ_INIT(&p->waiting);
    int rc = 0;
    while (p->n_threads < THREADS && !(rc = sys->pthread_create(&p->thread[p->n_threads], NULL, run, p)))
        p->n_threads++;
    *out = p; /* to be destroyed, whole or not */
    return rc ? err_set(e, -rc, "server: a thread for requests cannot start: %s", strerror(rc)) : 0;
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
    TAILQ_INSERT_TAIL(&p->waiting, r, of_pool);
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}
