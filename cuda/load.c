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
#include "kernels/planes.h"

enum { MAX_LOADERS = 8, PIECE = 8 << 20 };

/* Rows [r0, r0 + n) of one matrix of a tensor in planes, or bytes [off, off + n) of any other. */
struct piece {
    uint32_t weight;
    uint64_t matrix, r0, n;
};

struct loading {
    struct cuda *c;
    const struct tier_weights *w;
    const uint32_t *unit;
    struct piece *piece;
    uint32_t n_pieces, cap;
    atomic_uint next;
    atomic_ullong done;
    atomic_int rc; /* cu_result of the first failure, or -1: cancelled */
};

static bool add_piece(struct loading *l, struct piece p)
{
    if (l->n_pieces == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 1024;
        struct piece *q = realloc(l->piece, cap * sizeof *q);
        if (!q)
            return false;
        l->piece = q;
        l->cap = cap;
    }
    l->piece[l->n_pieces++] = p;
    return true;
}

static bool cut_weight(struct loading *l, uint32_t i)
{
    const struct stream_weight *w = &l->w->s->weights[i];
    uint64_t unit = l->unit[i], row = qtype_row_bytes(w->type, w->ne[0]);
    if (!unit) {
        for (uint64_t off = 0; off < w->bytes; off += PIECE)
            if (!add_piece(l, (struct piece){ i, 0, off, MIN(w->bytes - off, (uint64_t)PIECE) }))
                return false;
        return true;
    }
    uint64_t rows = MAX(PIECE / row, 1u);
    for (uint64_t m = 0; m < w->bytes / (row * unit); m++)
        for (uint64_t r = 0; r < unit; r += rows)
            if (!add_piece(l, (struct piece){ i, m, r, MIN(unit - r, rows) }))
                return false;
    return true;
}

/* Copies one piece through `buf`. */
static cu_result send_piece(struct loading *l, const struct piece *p, uint8_t *buf, cu_stream q)
{
    const struct cuda_api *cu = l->c->cu;
    const struct stream_weight *w = &l->w->s->weights[p->weight];
    const uint8_t *data = l->w->data[p->weight];
    cu_ptr to = l->c->arena[ARENA_WEIGHTS] + w->off;
    uint64_t unit = l->unit[p->weight], row = qtype_row_bytes(w->type, w->ne[0]);
    if (!unit) {
        memcpy(buf, data + p->r0, p->n);
        return cu->to_device_async(to + p->r0, buf, p->n, q);
    }
    struct planes pl = planes_of(w->type);
    uint64_t blocks = w->ne[0] / qtype_block(w->type), at = 0, plane = 0;
    planes_pack(w->type, data + (p->matrix * unit + p->r0) * row, buf, p->n, p->n, w->ne[0]);
    cu_result r = CU_OK;
    for (uint32_t f = 0; f < pl.n && !r; f++) {
        uint64_t len = pl.f[f].len * blocks;
        r = cu->to_device_async(to + p->matrix * unit * row + plane + p->r0 * len, buf + at, p->n * len, q);
        at += p->n * len;
        plane += unit * len;
    }
    return r;
}

static uint64_t piece_bytes(const struct loading *l, const struct piece *p)
{
    const struct stream_weight *w = &l->w->s->weights[p->weight];
    return l->unit[p->weight] ? p->n * qtype_row_bytes(w->type, w->ne[0]) : p->n;
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
    for (int b = 0; !r && !atomic_load(&l->rc) && (i = atomic_fetch_add(&l->next, 1)) < l->n_pieces; b ^= 1) {
        const struct piece *p = &l->piece[i];
        uint64_t bytes = piece_bytes(l, p);
        r = cu->event_sync(ev[b]); /* at once when it was never recorded */
        if (!r && room[b] < bytes) {
            if (buf[b])
                cu->host_free(buf[b]);
            room[b] = MAX(bytes, (uint64_t)PIECE);
            r = cu->host_alloc((void **)&buf[b], room[b], CU_HOST_PORTABLE);
        }
        if (!r)
            r = send_piece(l, p, buf[b], q);
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
    struct loading l = { .c = c, .w = w, .unit = unit };
    if (!unit)
        return err_set(e, -ENOMEM, "cuda: weight table");
    int rc = dispatch_weight_units(w->s, unit, e);
    for (uint32_t i = 0; i < h->n_weights && !rc; i++) {
        total += w->s->weights[i].bytes;
        if (!cut_weight(&l, i))
            rc = err_set(e, -ENOMEM, "cuda: weight table");
    }
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
    free(l.piece);
    free(unit);
    return rc;
}
