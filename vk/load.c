/* Weights: from the mapped file to the device. A few threads each take a piece of a tensor and regroup it into planes.
 * Where the host sees the device's memory the bytes are put there; elsewhere into a staging buffer whose copy runs while
 * the thread prepares the next piece. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/pieces.h"
#include "vk/vk.h"

enum { MAX_LOADERS = 8 };

struct loading {
    struct vk *v;
    struct pieces pieces;
    atomic_uint next;
    atomic_ullong done;
    atomic_int rc; /* VkResult of the first failure, or 1: cancelled */
};

/* One staging buffer with what is under way from it. */
struct stage {
    struct vk_mem m;
    VkCommandBuffer cb;
    VkFence fence;
    bool busy;
};

struct loader {
    struct vk *v;
    VkCommandPool pool;
    struct stage stage[2], *now;
    uint8_t *buf; /* where pieces are regrouped: the stage, or plain memory */
    uint64_t room;
};

static void fail(struct loading *l, int r)
{
    int none = 0;
    atomic_compare_exchange_strong(&l->rc, &none, r);
}

/* Runs of a piece; `from` lies in the staging buffer, or anywhere. */
static int put_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    struct loader *l = user;
    while (n) {
        uint64_t in, left;
        struct vk_mem *m = vk_arena_at(l->v, ARENA_WEIGHTS, off, &in, &left);
        uint64_t part = MIN(n, left);
        if (m->p) {
            memcpy((uint8_t *)m->p + in, from, part);
        } else {
            const VkBufferCopy c = { .srcOffset = (uint64_t)((const uint8_t *)from - (const uint8_t *)l->now->m.p),
                                     .dstOffset = in, .size = part };
            l->v->vk.CmdCopyBuffer(l->now->cb, l->now->m.buf, m->buf, 1, &c);
        }
        off += part;
        from = (const uint8_t *)from + part;
        n -= part;
    }
    return 0;
}

static VkResult settle(struct loader *l, struct stage *s)
{
    if (!s->busy)
        return VK_SUCCESS;
    s->busy = false;
    VkResult r = l->v->vk.WaitForFences(l->v->dev, 1, &s->fence, VK_TRUE, UINT64_MAX);
    return r ? r : l->v->vk.ResetFences(l->v->dev, 1, &s->fence);
}

static VkResult stage_ready(struct loader *l, struct stage *s, uint64_t bytes)
{
    const struct vk_api *vk = &l->v->vk;
    const VkFenceCreateInfo fi = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
    const VkCommandBufferAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = l->pool,
                                             .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
    const VkCommandBufferBeginInfo bi = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
    VkResult r = settle(l, s);
    if (!r && s->m.bytes < bytes) {
        vk_mem_free(l->v, &s->m);
        r = vk_mem_alloc(l->v, &s->m, MAX(bytes, (uint64_t)PIECE_BYTES), VK_VISIBLE);
    }
    if (!r && !s->fence)
        r = vk->CreateFence(l->v->dev, &fi, NULL, &s->fence);
    if (s->cb)
        vk->FreeCommandBuffers(l->v->dev, l->pool, 1, &s->cb);
    s->cb = NULL;
    if (!r)
        r = vk->AllocateCommandBuffers(l->v->dev, &ai, &s->cb);
    return r ? r : vk->BeginCommandBuffer(s->cb, &bi);
}

static VkResult stage_send(struct loader *l, struct stage *s)
{
    const VkSubmitInfo si = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &s->cb };
    vk_barrier(l->v, s->cb);
    VkResult r = l->v->vk.EndCommandBuffer(s->cb);
    if (r)
        return r;
    pthread_mutex_lock(&l->v->queue_lock);
    r = l->v->vk.QueueSubmit(l->v->queue, 1, &si, s->fence);
    pthread_mutex_unlock(&l->v->queue_lock);
    s->busy = !r;
    return r;
}

static VkResult load_piece(struct loader *l, const struct pieces *all, const struct piece *p, struct stage *s)
{
    uint64_t bytes = piece_bytes(all, p);
    if (l->v->arena[ARENA_WEIGHTS].seg[0].m.p) {
        if (l->room < bytes) {
            free(l->buf);
            l->room = MAX(bytes, (uint64_t)PIECE_BYTES);
            l->buf = malloc(l->room);
        }
        return l->buf ? piece_pack(all, p, l->buf, put_bytes, l) : VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    VkResult r = stage_ready(l, s, bytes);
    if (r)
        return r;
    l->now = s;
    piece_pack(all, p, s->m.p, put_bytes, l);
    return stage_send(l, s);
}

static void *load_pieces(void *arg)
{
    struct loading *all = arg;
    struct vk *v = all->v;
    struct loader l = { .v = v };
    const VkCommandPoolCreateInfo pi = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                         .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT, .queueFamilyIndex = v->info.queue_family };
    VkResult r = v->vk.CreateCommandPool(v->dev, &pi, NULL, &l.pool);
    uint32_t i;
    for (int b = 0; !r && !atomic_load(&all->rc) && (i = atomic_fetch_add(&all->next, 1)) < all->pieces.n; b ^= 1) {
        r = load_piece(&l, &all->pieces, &all->pieces.piece[i], &l.stage[b]);
        atomic_fetch_add(&all->done, piece_bytes(&all->pieces, &all->pieces.piece[i]));
    }
    for (int b = 0; b < 2; b++) {
        VkResult s = settle(&l, &l.stage[b]);
        r = r ? r : s;
        if (l.stage[b].fence)
            v->vk.DestroyFence(v->dev, l.stage[b].fence, NULL);
        vk_mem_free(v, &l.stage[b].m);
    }
    if (r)
        fail(all, r);
    if (l.pool)
        v->vk.DestroyCommandPool(v->dev, l.pool, NULL);
    free(l.buf);
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
            fail(l, 1);
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    int r = atomic_load(&l->rc);
    if (r == 1 || (!r && !progress_report(p, "weights", total, total)))
        return err_set(e, -ECANCELED, "vulkan: load was cancelled");
    return r ? vk_fail(l->v, r, e, "copying %llu MiB of weights", (unsigned long long)(total >> 20)) : 0;
}

int vk_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct vk *v = vk_of(t);
    const struct stream_head *h = &w->s->h;
    uint64_t total = 0, t0 = clock_ns();
    uint32_t *unit = calloc(h->n_weights + 1, sizeof *unit);
    struct loading l = { .v = v };
    if (!unit)
        return err_set(e, -ENOMEM, "vulkan: weight table");
    int rc = dispatch_weight_units(w->s, unit, e);
    if (!rc && (rc = pieces_cut(&l.pieces, w, unit)))
        err_set(e, rc, "vulkan: weight table");
    for (uint32_t i = 0; i < h->n_weights; i++)
        total += w->s->weights[i].bytes;
    if (!rc && !(rc = vk_arena_cuts(v, w->s, e)))
        rc = vk_arena_alloc(v, ARENA_WEIGHTS, h->arena_bytes[ARENA_WEIGHTS], VK_LOCAL, e);
    if (!rc)
        rc = run_loaders(&l, total, p, e);
    double s = (double)(clock_ns() - t0) * 1e-9;
    if (!rc)
        log_info(VK, "%.2f GB of weights in %.2f s, %.1f GB/s, %s, %u buffer%s", (double)total * 1e-9, s,
                 (double)total * 1e-9 / s, v->arena[ARENA_WEIGHTS].seg[0].m.p ? "written in place" : "staged",
                 v->arena[ARENA_WEIGHTS].n, v->arena[ARENA_WEIGHTS].n == 1 ? "" : "s");
    v->weight_bytes = v->arena[ARENA_WEIGHTS].bytes;
    v->weights_hash = h->weights_hash;
    v->n_weights = h->n_weights;
    pieces_free(&l.pieces);
    free(unit);
    return rc;
}
