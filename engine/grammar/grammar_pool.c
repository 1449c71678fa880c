#include "engine/grammar/grammar_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ckd.h"

enum { SLICE_STEPS = 100000, STACK_BYTES = 256 << 10, NICE = 5 };

enum task_phase {
    TASK_WAITS,    /* for a thread, and for other tasks of its grammar         */
    TASK_ASSIGNED, /* it may compute; a thread is about to take it             */
    TASK_RUNS,
    TASK_PAUSED,   /* between two slices                                       */
    TASK_DONE,
};

struct grammar_task {
    struct grammar_pool *p;
    struct grammar_task *next; /* in the pool's list, until it is done  */
    struct grammar_state *st;
    uint64_t client, turn;     /* turn: when its client last got a slice */
    struct grammar_limit limit;
    enum task_phase phase;
    pthread_cond_t go;
    atomic_bool stop;
    bool dropped;
    int rc;
    struct err err;
};

struct grammar_pool {
    struct grammar_pool_opts o;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *thread;
    uint32_t n_threads, n_begun, n_computing; /* n_begun: tasks that are not waiting, each has a thread */
    struct grammar_task *first, **last;
    uint64_t clock;
    bool quit;
};

static void *thread_main(void *user);

/* ---- turns; all under the lock -------------------------------------------------------------------------- */

static bool grammar_is_busy(const struct grammar_pool *p, const struct grammar *g)
{
    for (const struct grammar_task *t = p->first; t; t = t->next)
        if (t->phase != TASK_WAITS && grammar_of_state(t->st) == g)
            return true;
    return false;
}

static bool add_thread(struct grammar_pool *p)
{
    pthread_attr_t attr;
    if (p->n_threads == p->o.n_threads || pthread_attr_init(&attr))
        return false;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    bool ok = pthread_create(&p->thread[p->n_threads], &attr, thread_main, p) == 0;
    pthread_attr_destroy(&attr);
    p->n_threads += ok;
    return ok;
}

/* Of those whose client has waited longest, the one that came first. */
static struct grammar_task *next_task(struct grammar_pool *p, bool may_begin)
{
    struct grammar_task *best = NULL;
    for (struct grammar_task *t = p->first; t; t = t->next) {
        bool can = t->phase == TASK_PAUSED ||
                   (t->phase == TASK_WAITS && may_begin && !grammar_is_busy(p, grammar_of_state(t->st)));
        if (can && (!best || t->turn < best->turn))
            best = t;
    }
    return best;
}

static void give_turns(struct grammar_pool *p)
{
    while (p->n_computing < p->o.n_at_once) {
        struct grammar_task *t = next_task(p, true);
        if (t && t->phase == TASK_WAITS && p->n_begun == p->n_threads && !add_thread(p))
            t = next_task(p, false);
        if (!t)
            return;
        p->clock++;
        for (struct grammar_task *k = p->first; k; k = k->next)
            k->turn = k->client == t->client ? p->clock : k->turn;
        p->n_computing++;
        if (t->phase == TASK_PAUSED) {
            t->phase = TASK_RUNS;
            pthread_cond_signal(&t->go);
        } else {
            p->n_begun++;
            t->phase = TASK_ASSIGNED;
            pthread_cond_signal(&p->work);
        }
    }
}

static void unlink_task(struct grammar_pool *p, struct grammar_task *t)
{
    struct grammar_task **at = &p->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (!*at)
        p->last = at;
}

/* ---- the threads ---------------------------------------------------------------------------------------- */

/* Between two slices: others first. */
static int pause_task(void *user)
{
    struct grammar_task *t = user;
    struct grammar_pool *p = t->p;
    if (atomic_load(&t->stop))
        return -ECANCELED;
    pthread_mutex_lock(&p->lock);
    t->phase = TASK_PAUSED;
    p->n_computing--;
    give_turns(p);
    while (t->phase == TASK_PAUSED)
        pthread_cond_wait(&t->go, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return atomic_load(&t->stop) ? -ECANCELED : 0;
}

static void task_free(struct grammar_task *t)
{
    pthread_cond_destroy(&t->go);
    free(t);
}

static void run_task(struct grammar_pool *p, struct grammar_task *t)
{
    int rc = atomic_load(&t->stop) ? -ECANCELED : grammar_state_prepare(t->st, &t->limit, true, &t->err);
    pthread_mutex_lock(&p->lock);
    unlink_task(p, t);
    p->n_computing--;
    p->n_begun--;
    t->rc = rc;
    t->phase = TASK_DONE;
    bool dropped = t->dropped;
    give_turns(p);
    pthread_mutex_unlock(&p->lock);
    if (dropped) {
        grammar_state_destroy(t->st);
        task_free(t);
    } else if (p->o.done)
        p->o.done(p->o.user);
}

static void *thread_main(void *user)
{
    struct grammar_pool *p = user;
    pthread_setname_np(pthread_self(), "zinc-grammar");
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* tokens of others come first */
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct grammar_task *t = p->first;
        while (t && t->phase != TASK_ASSIGNED)
            t = t->next;
        if (t) {
            t->phase = TASK_RUNS;
            pthread_mutex_unlock(&p->lock);
            run_task(p, t);
            pthread_mutex_lock(&p->lock);
        } else if (p->quit)
            break;
        else
            pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- callers -------------------------------------------------------------------------------------------- */

int grammar_pool_create(const struct grammar_pool_opts *o, struct grammar_pool **out, struct err *e)
{
    struct grammar_pool *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "grammar: out of memory");
    p->o = *o;
    p->o.n_threads = MAX(o->n_threads, 1u);
    p->o.n_at_once = o->n_at_once ? o->n_at_once : sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? 2 : 1;
    p->o.slice = o->slice ? o->slice : SLICE_STEPS;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->thread = calloc(p->o.n_threads, sizeof *p->thread);
    pthread_mutex_lock(&p->lock);
    bool ok = p->thread && add_thread(p); /* one at least, so that tasks come to their end */
    pthread_mutex_unlock(&p->lock);
    if (!ok) {
        grammar_pool_destroy(p);
        return err_set(e, -ENOMEM, "grammar: cannot start a thread for masks");
    }
    *out = p;
    return 0;
}

void grammar_pool_destroy(struct grammar_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    CHECK(!p->first);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->thread);
    free(p);
}

int grammar_pool_submit(struct grammar_pool *p, struct grammar_state *st, uint64_t client, uint64_t steps,
                        struct grammar_task **out, struct err *e)
{
    struct grammar_task *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, -ENOMEM, "grammar: out of memory");
    *t = (struct grammar_task){ .p = p, .st = st, .client = client, .phase = TASK_WAITS };
    t->limit = (struct grammar_limit){ .steps = steps, .slice = p->o.slice, .pause = pause_task, .user = t };
    atomic_init(&t->stop, false);
    pthread_cond_init(&t->go, NULL);
    pthread_mutex_lock(&p->lock);
    for (struct grammar_task *k = p->first; k; k = k->next)
        t->turn = k->client == client ? MAX(t->turn, k->turn) : t->turn;
    *p->last = t;
    p->last = &t->next;
    give_turns(p);
    pthread_mutex_unlock(&p->lock);
    *out = t;
    return 0;
}

bool grammar_task_done(struct grammar_task *t, int *rc, uint64_t *used, struct err *e)
{
    struct grammar_pool *p = t->p;
    pthread_mutex_lock(&p->lock);
    bool done = t->phase == TASK_DONE;
    pthread_mutex_unlock(&p->lock);
    if (!done)
        return false;
    *rc = t->rc;
    *used = t->limit.used;
    if (t->rc && e)
        *e = t->err;
    task_free(t);
    return true;
}

void grammar_task_drop(struct grammar_task *t)
{
    if (!t)
        return;
    struct grammar_pool *p = t->p;
    pthread_mutex_lock(&p->lock);
    bool gone = t->phase == TASK_DONE || t->phase == TASK_WAITS;
    if (t->phase == TASK_WAITS)
        unlink_task(p, t);
    t->dropped = true;
    t->turn = 0; /* so that its thread is free soon */
    atomic_store(&t->stop, true);
    give_turns(p);
    pthread_mutex_unlock(&p->lock);
    if (gone) {
        grammar_state_destroy(t->st);
        task_free(t);
    }
}
