/* rt/replay_load.c: weights, from the mapped file to the device. A few threads each take the next piece of a tensor,
 * regroup it into planes and hand it to the tier; while its bytes travel they prepare another. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/replay.h"

enum { MAX_LOADERS = 8 };

struct loading {
    struct replay *r;
    const struct replay_loader *by;
    const struct progress *progress; /* of a single thread, which reports by itself; else NULL */
    struct pieces pieces;
    uint64_t total;
    atomic_uint next;
    atomic_ullong done;
    atomic_bool ended; /* by a failure, or cancelled */
    pthread_mutex_t lock;
    int rc;            /* of the first failure, and its error */
    struct err e;
};

static void fail(struct loading *l, int rc, const struct err *why)
{
    pthread_mutex_lock(&l->lock);
    if (!l->rc) {
        l->rc = rc;
        l->e = *why;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->ended, true);
}

static void cancel(struct loading *l)
{
    struct err e = { 0 };
    fail(l, err_set(&e, -ECANCELED, "%s: load was cancelled", l->r->tier.impl->name), &e);
}

static void *load_pieces(void *arg)
{
    struct loading *l = arg;
    struct err e = { 0 }, at_end = { 0 };
    void *mine = calloc(1, MAX(l->by->thread_bytes, (size_t)1));
    if (!mine) {
        fail(l, err_set(&e, -ENOMEM, "%s: no memory to load weights with", l->r->tier.impl->name), &e);
        return NULL;
    }
    int rc = l->by->begin ? l->by->begin(l->r, mine, &e) : 0;
    uint32_t i;
    while (!rc && !atomic_load(&l->ended) && (i = atomic_fetch_add(&l->next, 1)) < l->pieces.n) {
        const struct piece *p = &l->pieces.piece[i];
        rc = l->by->piece(l->r, mine, &l->pieces, p, &e);
        uint64_t done = atomic_fetch_add(&l->done, piece_bytes(&l->pieces, p));
        if (l->progress && !progress_report(l->progress, "weights", done, l->total))
            cancel(l);
    }
    if (rc)
        fail(l, rc, &e);
    rc = l->by->end ? l->by->end(l->r, mine, &at_end) : 0;
    if (rc)
        fail(l, rc, &at_end);
    free(mine);
    return NULL;
}

static void run_loaders(struct loading *l, const struct progress *p)
{
    pthread_t thread[MAX_LOADERS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = MIN(l->by->max_threads, (uint32_t)MAX_LOADERS), n = MIN((uint32_t)MAX(cores, 1), most), started = 0;
    for (; n > 1 && started < n; started++)
        if (pthread_create(&thread[started], NULL, load_pieces, l))
            break;
    if (!started) {
        l->progress = p;
        load_pieces(l);
    }
    while (started && atomic_load(&l->done) < l->total && !atomic_load(&l->ended)) {
        if (!progress_report(p, "weights", atomic_load(&l->done), l->total))
            cancel(l);
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    if (!l->rc && !progress_report(p, "weights", l->total, l->total))
        cancel(l);
}

int replay_load(struct replay *r, const struct tier_weights *w, const struct replay_loader *by, const struct progress *p,
                struct err *e)
{
    const struct stream_head *h = &w->s->h;
    struct loading l = { .r = r, .by = by };
    uint64_t t0 = clock_ns();
    r->unit = calloc(h->n_weights + 1, sizeof *r->unit);
    if (!r->unit)
        return err_set(e, -ENOMEM, "%s: weight table", r->tier.impl->name);
    int rc = dispatch_weight_units(w->s, r->unit, e);
    if (rc)
        return rc;
    l.pieces.whole = by->whole;
    if (pieces_cut(&l.pieces, w, r->unit))
        return err_set(e, -ENOMEM, "%s: weight table", r->tier.impl->name);
    for (uint32_t i = 0; i < h->n_weights; i++)
        l.total += w->s->weights[i].bytes;
    rc = by->alloc(r, w->s, e);
    if (!rc) {
        pthread_mutex_init(&l.lock, NULL);
        run_loaders(&l, p);
        pthread_mutex_destroy(&l.lock);
        rc = l.rc;
        if (rc && e)
            *e = l.e;
    }
    double s = (double)(clock_ns() - t0) * 1e-9;
    if (!rc)
        log_info(RT, "%s: %.2f GB of weights in %.2f s, %.1f GB/s", r->tier.impl->name, (double)l.total * 1e-9, s,
                 (double)l.total * 1e-9 / s);
    r->weights_hash = h->weights_hash;
    r->n_weights = h->n_weights;
    pieces_free(&l.pieces);
    return rc;
}
