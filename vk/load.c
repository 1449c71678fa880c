/* Weights on their way to the device (rt/replay.h). Where the host sees the device's memory the bytes are put there;
 * elsewhere into a staging buffer whose copy runs while the thread prepares the next piece. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/codebooks.h"
#include "vk/vk.h"

enum { MAX_LOADERS = 8 };

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
    int next;     /* the stage of the next piece */
    uint8_t *buf; /* where pieces are regrouped: the stage, or plain memory */
    uint64_t room;
};

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

static VkResult put_piece(struct loader *l, const struct pieces *all, const struct piece *p)
{
    struct stage *s = &l->stage[l->next];
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
    l->next ^= 1;
    piece_pack(all, p, s->m.p, put_bytes, l);
    return stage_send(l, s);
}

/* All codebooks, one behind the other: BOOK_<name> in shaders (tools/gen/glsl_args.c). */
static int load_books(struct vk *v, const struct stream *s, struct err *e)
{
    uint32_t words[8448], n = 0;
    bool any = false;
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        any |= qtype_is_opened((enum qtype)s->weights[i].type);
    if (!any || v->books.buf)
        return 0;
#define BOOK(name, shape, ...)                                                                                         \
    CHECK(n + sizeof codebook_##name / sizeof *words <= ARRAY_LEN(words));                                             \
    memcpy(words + n, codebook_##name, sizeof codebook_##name);                                                        \
    n += sizeof codebook_##name / sizeof *words;
#include "kernels/codebooks.inc"
    VkResult r = vk_mem_alloc(v, &v->books, n * sizeof *words, VK_LOCAL);
    if (!r)
        r = vk_upload(v, &v->books, 0, words, n * sizeof *words);
    return r ? vk_fail(v, r, e, "copying codebooks") : 0;
}

static int alloc_weights(struct replay *r, const struct stream *s, struct err *e)
{
    struct vk *v = vk_of_replay(r);
    int rc = vk_arena_cuts(v, s, e);
    if (!rc)
        rc = vk_arena_alloc(v, ARENA_WEIGHTS, s->h.arena_bytes[ARENA_WEIGHTS], VK_LOCAL, e);
    if (!rc)
        rc = load_books(v, s, e);
    r->weight_bytes = v->arena[ARENA_WEIGHTS].bytes;
    return rc;
}

static int fail(const struct vk *v, VkResult q, struct err *e)
{
    return q ? vk_fail(v, q, e, "copying %llu MiB of weights", (unsigned long long)(v->r.weight_bytes >> 20)) : 0;
}

static int begin(struct replay *r, void *thread, struct err *e)
{
    struct loader *l = thread;
    struct vk *v = l->v = vk_of_replay(r);
    const VkCommandPoolCreateInfo pi = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                         .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT, .queueFamilyIndex = v->info.queue_family };
    return fail(v, v->vk.CreateCommandPool(v->dev, &pi, NULL, &l->pool), e);
}

static int load_piece(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    return fail(vk_of_replay(r), put_piece(thread, all, p), e);
}

static int end(struct replay *r, void *thread, struct err *e)
{
    struct loader *l = thread;
    struct vk *v = vk_of_replay(r);
    VkResult q = VK_SUCCESS;
    for (int b = 0; b < 2 && l->v; b++) {
        VkResult s = settle(l, &l->stage[b]);
        q = q ? q : s;
        if (l->stage[b].fence)
            v->vk.DestroyFence(v->dev, l->stage[b].fence, NULL);
        vk_mem_free(v, &l->stage[b].m);
    }
    if (l->pool)
        v->vk.DestroyCommandPool(v->dev, l->pool, NULL);
    free(l->buf);
    return fail(v, q, e);
}

int vk_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    static const struct replay_loader loader = { .max_threads = MAX_LOADERS, .thread_bytes = sizeof(struct loader),
                                                 .alloc = alloc_weights, .begin = begin, .piece = load_piece, .end = end };
    return replay_load(replay_of(t), w, &loader, p, e);
}
