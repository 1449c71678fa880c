/* Weights on their way to the device (rt/replay.h): a thread regroups a piece in memory that the device can read by itself
 * and starts its copy; while that runs it prepares the next in another such buffer. */
#include <string.h>

#include "base/ckd.h"
#include "cuda/cuda.h"

enum { MAX_LOADERS = 8 };

struct loader {
    struct cuda *c;
    cu_stream q;
    uint8_t *buf[2];
    uint64_t room[2];
    cu_event ev[2]; /* behind the last copy from the buffer */
    int now;        /* the buffer of the next piece */
};

static int send_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    struct loader *l = user;
    return l->c->cu->to_device_async(l->c->arena[ARENA_WEIGHTS] + off, from, n, l->q);
}

static int alloc_weights(struct replay *r, const struct stream *s, struct err *e)
{
    struct cuda *c = cuda_of_replay(r);
    r->weight_bytes = MAX(s->h.arena_bytes[ARENA_WEIGHTS], 256u);
    c->cu->ctx_set(c->ctx);
    cu_result q = c->cu->mem_alloc(&c->arena[ARENA_WEIGHTS], r->weight_bytes);
    return q ? cuda_fail(c, q, e, "%llu MiB for weights", (unsigned long long)(r->weight_bytes >> 20)) : 0;
}

static int fail(const struct cuda *c, cu_result q, struct err *e)
{
    return q ? cuda_fail(c, q, e, "copying %llu MiB of weights", (unsigned long long)(c->r.weight_bytes >> 20)) : 0;
}

static int begin(struct replay *r, void *thread, struct err *e)
{
    struct loader *l = thread;
    l->c = cuda_of_replay(r);
    const struct cuda_api *cu = l->c->cu;
    cu_result q = cu->ctx_set(l->c->ctx);
    if (!q)
        q = cu->stream_create(&l->q, CU_STREAM_NON_BLOCKING);
    for (int b = 0; b < 2 && !q; b++)
        q = cu->event_create(&l->ev[b], CU_EVENT_NO_TIMING);
    return fail(l->c, q, e);
}

static int send_piece(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    struct loader *l = thread;
    const struct cuda_api *cu = l->c->cu;
    uint64_t bytes = piece_bytes(all, p);
    int b = l->now;
    cu_result q = cu->event_sync(l->ev[b]); /* at once when it was never recorded */
    if (!q && l->room[b] < bytes) {
        if (l->buf[b])
            cu->host_free(l->buf[b]);
        l->buf[b] = NULL;
        l->room[b] = MAX(bytes, (uint64_t)PIECE_BYTES);
        q = cu->host_alloc((void **)&l->buf[b], l->room[b], CU_HOST_PORTABLE);
    }
    if (!q)
        q = piece_pack(all, p, l->buf[b], send_bytes, l);
    if (!q)
        q = cu->event_record(l->ev[b], l->q);
    l->now = !b;
    return fail(l->c, q, e);
}

static int end(struct replay *r, void *thread, struct err *e)
{
    struct loader *l = thread;
    const struct cuda_api *cu = l->c->cu;
    cu_result q = l->q ? cu->stream_sync(l->q) : CU_OK;
    for (int b = 0; b < 2; b++) {
        if (l->buf[b])
            cu->host_free(l->buf[b]);
        if (l->ev[b])
            cu->event_destroy(l->ev[b]);
    }
    if (l->q)
        cu->stream_destroy(l->q);
    return fail(l->c, q, e);
}

int cuda_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    static const struct replay_loader loader = { .max_threads = MAX_LOADERS, .thread_bytes = sizeof(struct loader),
                                                 .alloc = alloc_weights, .begin = begin, .piece = send_piece,
                                                 .end = end };
    return replay_load(replay_of(t), w, &loader, p, e);
}
