/* rt/kfd/load.c: weights, from the mapped file to the GPU, regrouped into planes. Where the host sees the GPU's
 * memory a few threads regroup pieces and store them there; else each tensor goes by way of the GPU. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/kfd/plan.h"
#include "rt/kfd/priv.h"
#include "rt/pieces.h"

enum { MAX_LOADERS = 8 };

struct loading {
    struct kfd_tier *c;
    struct pieces pieces;
    atomic_uint next;
    atomic_ullong done;
    atomic_int rc; /* of the first failure; -ECANCELED */
};

static int store_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    const struct kfd_tier *c = user;
    memcpy((uint8_t *)c->arena[ARENA_WEIGHTS]->cpu + off, from, n);
    return 0;
}

static void fail(struct loading *l, int rc)
{
    int none = 0;
    atomic_compare_exchange_strong(&l->rc, &none, rc);
}

static void *store_pieces(void *arg)
{
    struct loading *l = arg;
    uint8_t *buf = NULL;
    uint64_t room = 0;
    uint32_t i;
    while (!atomic_load(&l->rc) && (i = atomic_fetch_add(&l->next, 1)) < l->pieces.n) {
        const struct piece *p = &l->pieces.piece[i];
        uint64_t bytes = piece_bytes(&l->pieces, p);
        if (bytes > room) {
            free(buf);
            room = MAX(bytes, (uint64_t)PIECE_BYTES);
            buf = malloc(room);
            if (!buf) {
                fail(l, -ENOMEM);
                break;
            }
        }
        piece_pack(&l->pieces, p, buf, store_bytes, l->c);
        atomic_fetch_add(&l->done, bytes);
    }
    kfd_store_fence();
    free(buf);
    return NULL;
}

static void run_loaders(struct loading *l, uint64_t total, const struct progress *p)
{
    pthread_t thread[MAX_LOADERS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = MIN((uint32_t)MAX(cores, 1), (uint32_t)MAX_LOADERS), started = 0;
    for (; started < n; started++)
        if (pthread_create(&thread[started], NULL, store_pieces, l))
            break;
    if (!started)
        store_pieces(l);
    while (started && atomic_load(&l->done) < total && !atomic_load(&l->rc)) {
        if (!progress_report(p, "weights", atomic_load(&l->done), total))
            fail(l, -ECANCELED);
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    l->c->dev->host_wrote_vram = true;
}

/* A tensor whole, in planes, through the GPU. */
static int send_weight(struct kfd_tier *c, const struct tier_weights *tw, const uint32_t *unit, uint32_t i,
                       struct err *e)
{
    const struct stream_weight *w = &tw->s->weights[i];
    uint64_t bytes = align_up(w->bytes, 4);
    uint8_t *buf = calloc(1, bytes);
    if (!buf)
        return err_set(e, -ENOMEM, "kfd: weight '%s' of %llu MiB", stream_str(tw->s, w->name),
                       (unsigned long long)(bytes >> 20));
    if (unit[i])
        planes_pack(w->type, tw->data[i], buf, w->ne[1] * w->ne[2] * w->ne[3], unit[i], w->ne[0]);
    else
        memcpy(buf, tw->data[i], w->bytes);
    int rc = kfd_upload(&c->copier, c->arena[ARENA_WEIGHTS], w->off, buf, bytes, e);
    free(buf);
    return rc;
}

static int send_weights(struct kfd_tier *c, const struct tier_weights *w, const uint32_t *unit, uint64_t total,
                        const struct progress *p, struct err *e)
{
    uint64_t done = 0;
    int rc = 0;
    for (uint32_t i = 0; i < w->s->h.n_weights && !rc; i++) {
        if (!progress_report(p, "weights", done, total))
            return -ECANCELED;
        rc = send_weight(c, w, unit, i, e);
        done += w->s->weights[i].bytes;
    }
    return rc;
}

static int store_weights(struct kfd_tier *c, const struct tier_weights *w, const uint32_t *unit, uint64_t total,
                         const struct progress *p, struct err *e)
{
    struct loading l = { .c = c };
    if (pieces_cut(&l.pieces, w, unit))
        return err_set(e, -ENOMEM, "kfd: weight table");
    run_loaders(&l, total, p);
    pieces_free(&l.pieces);
    int rc = atomic_load(&l.rc);
    return rc == -ENOMEM ? err_set(e, rc, "kfd: no memory to regroup weights in") : rc;
}

int kfd_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    const struct stream_head *h = &w->s->h;
    uint64_t total = 0, t0 = clock_ns(), arena = MAX(h->arena_bytes[ARENA_WEIGHTS], 256u);
    uint32_t *unit = calloc(h->n_weights + 1, sizeof *unit);
    if (!unit)
        return err_set(e, -ENOMEM, "kfd: weight table");
    int rc = dispatch_weight_units(w->s, unit, e);
    for (uint32_t i = 0; i < h->n_weights; i++)
        total += w->s->weights[i].bytes;
    if (!rc)
        rc = kfd_mem_alloc(c->dev, KFD_VRAM, arena, "weights", &c->arena[ARENA_WEIGHTS], e);
    if (!rc)
        rc = c->arena[ARENA_WEIGHTS]->cpu ? store_weights(c, w, unit, total, p, e) : send_weights(c, w, unit, total, p, e);
    if (!rc && !progress_report(p, "weights", total, total))
        rc = -ECANCELED;
    if (rc == -ECANCELED)
        err_set(e, rc, "kfd: load was cancelled");
    double s = (double)(clock_ns() - t0) * 1e-9;
    if (!rc)
        log_info(KFD, "%.2f GB of weights in %.2f s, %.1f GB/s", (double)total * 1e-9, s, (double)total * 1e-9 / s);
    c->weight_bytes = arena;
    c->weights_hash = h->weights_hash;
    c->n_weights = h->n_weights;
    free(unit);
    return rc;
}
