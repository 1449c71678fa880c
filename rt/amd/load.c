/* rt/amd/load.c: weights on their way to the GPU (rt/replay.h). Where the host sees the GPU's memory, threads regroup
 * pieces and store them there; else each tensor goes whole by way of the GPU. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/amd/plan.h"

enum { MAX_LOADERS = 8 };

struct loader {
    uint8_t *buf;
    uint64_t room;
};

static int alloc_weights(struct replay *r, const struct stream *s, struct err *e)
{
    struct amd_tier *c = amd_of_replay(r);
    r->weight_bytes = MAX(s->h.arena_bytes[ARENA_WEIGHTS], 256u);
    return amd_mem_alloc(c->w, AMD_VRAM, r->weight_bytes, "weights", &c->arena[ARENA_WEIGHTS], e);
}

static int make_room(const struct replay *r, struct loader *l, uint64_t bytes, struct err *e)
{
    if (bytes <= l->room)
        return 0;
    free(l->buf);
    l->room = MAX(bytes, (uint64_t)PIECE_BYTES);
    l->buf = malloc(l->room);
    return l->buf ? 0 : err_set(e, -ENOMEM, "%s: no memory to regroup %llu MiB of weights in",
                                r->tier.impl->name, (unsigned long long)(l->room >> 20));
}

static int store_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    const struct amd_tier *c = user;
    memcpy((uint8_t *)c->arena[ARENA_WEIGHTS].cpu + off, from, n);
    return 0;
}

static int store_piece(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    struct loader *l = thread;
    int rc = make_room(r, l, piece_bytes(all, p), e);
    return rc ? rc : piece_pack(all, p, l->buf, store_bytes, amd_of_replay(r));
}

/* A tensor whole, in planes, through the GPU. */
static int send_weight(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    struct amd_tier *c = amd_of_replay(r);
    struct loader *l = thread;
    const struct stream_weight *w = &all->w->s->weights[p->weight];
    const uint8_t *data = all->w->data[p->weight];
    uint64_t bytes = align_up(w->bytes, 4);
    int rc = make_room(r, l, bytes, e);
    if (rc)
        return rc;
    memset(l->buf + w->bytes, 0, bytes - w->bytes);
    if (all->unit[p->weight])
        planes_pack(w->type, data, l->buf, w->ne[1] * w->ne[2] * w->ne[3], all->unit[p->weight], w->ne[0]);
    else
        memcpy(l->buf, data, w->bytes);
    return amd_upload(&c->copier, &c->arena[ARENA_WEIGHTS], w->off, l->buf, bytes, e);
}

static int end(struct replay *r, void *thread, struct err *e)
{
    amd_store_fence();
    free(((struct loader *)thread)->buf);
    return 0;
}

int amd_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    static const struct replay_loader store = { .max_threads = MAX_LOADERS, .thread_bytes = sizeof(struct loader),
                                                .alloc = alloc_weights, .piece = store_piece, .end = end },
                                      send = { .max_threads = 1, .whole = true, .thread_bytes = sizeof(struct loader),
                                               .alloc = alloc_weights, .piece = send_weight, .end = end };
    struct amd_tier *c = amd_of(t);
    int rc = replay_load(&c->r, w, c->w->host_sees_vram ? &store : &send, p, e);
    c->w->host_wrote_vram = true;
    return rc;
}
