/* Weights: from the mapped file to the device. A few threads each take a piece of a tensor, regroup it into planes in
 * memory that the device can read by itself, and start its copy; while that runs they prepare the next piece. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "cuda/cuda.h"
#include "rt/pieces.h"

enum { MAX_LOADERS = 8 };

struct loading {
    struct cuda *c;
    struct pieces pieces;
    atomic_uint next;
    atomic_ullong done;
    atomic_int rc; /* cu_result of the first failure, or -1: cancelled */
};

/* Where a piece's bytes go. */
struct sending {
    struct cuda *c;
    cu_stream q;
};

static int send_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    struct sending *s = user;
    return s->c->cu->to_device_async(s->c->arena[ARENA_WEIGHTS] + off, from, n, s->q);
}

static void fail(struct loading *l, cu_result r)
{
    int none = 0;
    atomic_compare_exchange_strong(&l->rc, &none, r);
}

static void *load_pieces(void *arg)
{
    struct loading *l = arg;
    struct cuda *c = l->c;
    const struct cuda_api *cu = c->cu;
    uint8_t *buf[2] = { 0 };
    uint64_t room[2] = { 0 };
    cu_event ev[2] = { 0 };
    cu_stream q = NULL;
    cu_result r = cu->ctx_set(c->ctx);
    if (!r)
        r = cu->stream_create(&q, CU_STREAM_NON_BLOCKING);
    for (int b = 0; b < 2 && !r; b++)
        r = cu->event_create(&ev[b], CU_EVENT_NO_TIMING);
    uint32_t i;
    for (int b = 0; !r && !atomic_load(&l->rc) && (i = atomic_fetch_add(&l->next, 1)) < l->pieces.n; b ^= 1) {
        const struct piece *p = &l->pieces.piece[i];
        uint64_t bytes = piece_bytes(&l->pieces, p);
        r = cu->event_sync(ev[b]); /* at once when it was never recorded */
        if (!r && room[b] < bytes) {
            if (buf[b])
                cu->host_free(buf[b]);
            room[b] = MAX(bytes, (uint64_t)PIECE_BYTES);
            r = cu->host_alloc((void **)&buf[b], room[b], CU_HOST_PORTABLE);
        }
        if (!r)
            r = piece_pack(&l->pieces, p, buf[b], send_bytes, &(struct sending){ c, q });
        if (!r)
            r = cu->event_record(ev[b], q);
        atomic_fetch_add(&l->done, bytes);
    }
    if (q && !r)
        r = cu->stream_sync(q);
    if (r)
        fail(l, r);
    for (int b = 0; b < 2; b++) {
        if (buf[b])
            cu->host_free(buf[b]);
        if (ev[b])
            cu->event_destroy(ev[b]);
    }
    if (q)
        cu->stream_destroy(q);
    return NULL;
}

static int run_loaders(struct loading *l, uint64_t total, const struct progress *p, struct err *e)
{
    pthread_t thread[MAX_LOADERS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = MIN((uint32_t)MAX(cores, 1), (uint32_t)MAX_LOADERS), started = 0;
    for (; started < n; started++)
        if (pthread_create(&thread[started], NULL, load_pieces, l))
            break;
    if (!started)
        load_pieces(l);
    while (started && atomic_load(&l->done) < total && !atomic_load(&l->rc)) {
        if (!progress_report(p, "weights", atomic_load(&l->done), total))
            fail(l, -1);
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    int r = atomic_load(&l->rc);
    if (r == -1 || (!r && !progress_report(p, "weights", total, total)))
        return err_set(e, -ECANCELED, "cuda: load was cancelled");
    return r ? cuda_fail(l->c, r, e, "copying %llu MiB of weights", (unsigned long long)(total >> 20)) : 0;
}

int cuda_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct cuda *c = cuda_of(t);
    const struct stream_head *h = &w->s->h;
    uint64_t total = 0, t0 = clock_ns(), arena = MAX(h->arena_bytes[ARENA_WEIGHTS], 256u);
    uint32_t *unit = calloc(h->n_weights + 1, sizeof *unit);
    struct loading l = { .c = c };
    if (!unit)
        return err_set(e, -ENOMEM, "cuda: weight table");
    int rc = dispatch_weight_units(w->s, unit, e);
    if (!rc && (rc = pieces_cut(&l.pieces, w, unit)))
        err_set(e, rc, "cuda: weight table");
    for (uint32_t i = 0; i < h->n_weights; i++)
        total += w->s->weights[i].bytes;
    cu_result r;
    c->cu->ctx_set(c->ctx);
    if (!rc && (r = c->cu->mem_alloc(&c->arena[ARENA_WEIGHTS], arena)))
        rc = cuda_fail(c, r, e, "%llu MiB for weights", (unsigned long long)(arena >> 20));
    if (!rc)
        rc = run_loaders(&l, total, p, e);
    double s = (double)(clock_ns() - t0) * 1e-9;
    if (!rc)
        log_info(CUDA, "%.2f GB of weights in %.2f s, %.1f GB/s", (double)total * 1e-9, s, (double)total * 1e-9 / s);
    c->weight_bytes = arena;
    c->weights_hash = h->weights_hash;
    c->n_weights = h->n_weights;
    pieces_free(&l.pieces);
    free(unit);
    return rc;
}
