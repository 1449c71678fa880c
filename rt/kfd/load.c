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
#include "kernels/planes.h"
#include "rt/kfd/plan.h"
#include "rt/kfd/priv.h"

enum { MAX_LOADERS = 8, PIECE = 8 << 20 };

/* Rows [r0, r0 + n) of one matrix of a tensor in planes, or bytes [r0, r0 + n) of any other. */
struct piece {
    uint32_t weight;
    uint64_t matrix, r0, n;
};

struct loading {
    struct kfd_tier *c;
    const struct tier_weights *w;
    const uint32_t *unit;
    struct piece *piece;
    uint32_t n_pieces, cap;
    atomic_uint next;
    atomic_ullong done;
    atomic_int rc; /* of the first failure; -ECANCELED */
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

static uint64_t piece_bytes(const struct loading *l, const struct piece *p)
{
    const struct stream_weight *w = &l->w->s->weights[p->weight];
    return l->unit[p->weight] ? p->n * qtype_row_bytes(w->type, w->ne[0]) : p->n;
}

/* One piece to the GPU's memory; buf: room for it. */
static void store_piece(const struct loading *l, const struct piece *p, uint8_t *buf)
{
    const struct stream_weight *w = &l->w->s->weights[p->weight];
    const uint8_t *data = l->w->data[p->weight];
    uint8_t *to = (uint8_t *)l->c->arena[ARENA_WEIGHTS]->cpu + w->off;
    uint64_t unit = l->unit[p->weight], row = qtype_row_bytes(w->type, w->ne[0]);
    if (!unit) {
        memcpy(to + p->r0, data + p->r0, p->n);
        return;
    }
    struct planes pl = planes_of(w->type);
    uint64_t blocks = w->ne[0] / qtype_block(w->type), at = 0, plane = 0;
    planes_pack(w->type, data + (p->matrix * unit + p->r0) * row, buf, p->n, p->n, w->ne[0]);
    for (uint32_t f = 0; f < pl.n; f++) {
        uint64_t len = pl.f[f].len * blocks;
        memcpy(to + p->matrix * unit * row + plane + p->r0 * len, buf + at, p->n * len);
        at += p->n * len;
        plane += unit * len;
    }
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
    while (!atomic_load(&l->rc) && (i = atomic_fetch_add(&l->next, 1)) < l->n_pieces) {
        uint64_t bytes = piece_bytes(l, &l->piece[i]);
        if (bytes > room) {
            free(buf);
            room = MAX(bytes, (uint64_t)PIECE);
            buf = malloc(room);
            if (!buf) {
                fail(l, -ENOMEM);
                break;
            }
        }
        store_piece(l, &l->piece[i], buf);
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
static int send_weight(struct loading *l, uint32_t i, struct err *e)
{
    const struct stream_weight *w = &l->w->s->weights[i];
    uint64_t bytes = align_up(w->bytes, 4);
    uint8_t *buf = calloc(1, bytes);
    if (!buf)
        return err_set(e, -ENOMEM, "kfd: weight '%s' of %llu MiB", stream_str(l->w->s, w->name),
                       (unsigned long long)(bytes >> 20));
    if (l->unit[i])
        planes_pack(w->type, l->w->data[i], buf, w->ne[1] * w->ne[2] * w->ne[3], l->unit[i], w->ne[0]);
    else
        memcpy(buf, l->w->data[i], w->bytes);
    int rc = kfd_upload(&l->c->copier, l->c->arena[ARENA_WEIGHTS], w->off, buf, bytes, e);
    free(buf);
    return rc;
}

static int send_weights(struct loading *l, uint64_t total, const struct progress *p, struct err *e)
{
    uint64_t done = 0;
    int rc = 0;
    for (uint32_t i = 0; i < l->w->s->h.n_weights && !rc; i++) {
        if (!progress_report(p, "weights", done, total))
            return -ECANCELED;
        rc = send_weight(l, i, e);
        done += l->w->s->weights[i].bytes;
    }
    return rc;
}

static int store_weights(struct loading *l, uint64_t total, const struct progress *p, struct err *e)
{
    for (uint32_t i = 0; i < l->w->s->h.n_weights; i++)
        if (!cut_weight(l, i))
            return err_set(e, -ENOMEM, "kfd: weight table");
    run_loaders(l, total, p);
    int rc = atomic_load(&l->rc);
    return rc == -ENOMEM ? err_set(e, rc, "kfd: no memory to regroup weights in") : rc;
}

int kfd_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    const struct stream_head *h = &w->s->h;
    uint64_t total = 0, t0 = clock_ns(), arena = MAX(h->arena_bytes[ARENA_WEIGHTS], 256u);
    uint32_t *unit = calloc(h->n_weights + 1, sizeof *unit);
    struct loading l = { .c = c, .w = w, .unit = unit };
    if (!unit)
        return err_set(e, -ENOMEM, "kfd: weight table");
    int rc = dispatch_weight_units(w->s, unit, e);
    for (uint32_t i = 0; i < h->n_weights; i++)
        total += w->s->weights[i].bytes;
    if (!rc)
        rc = kfd_mem_alloc(c->dev, KFD_VRAM, arena, "weights", &c->arena[ARENA_WEIGHTS], e);
    if (!rc)
        rc = c->arena[ARENA_WEIGHTS]->cpu ? store_weights(&l, total, p, e) : send_weights(&l, total, p, e);
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
    free(l.piece);
    free(unit);
    return rc;
}
