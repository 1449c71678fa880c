/* vk/mem.c: buffers, arenas, and bytes to and from them. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "vk/vk.h"

enum { STAGE_BYTES = 4 << 20 };

/* ---- buffers ---- */

static int pick_type(const struct vk *v, uint32_t allowed, VkMemoryPropertyFlags want, VkMemoryPropertyFlags avoid)
{
    const VkPhysicalDeviceMemoryProperties *m = &v->info.mem;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = m->memoryTypes[i].propertyFlags;
        if ((allowed & 1u << i) && (f & want) == want && !(f & avoid))
            return (int)i;
    }
    return -1;
}

static int type_for(const struct vk *v, uint32_t allowed, enum vk_where w)
{
    enum {
        LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
        SEEN = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
        CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
        ODD = VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
              0x40 /* device coherent, AMD: slower */ | 0x80
    };
    /* Where there is one memory. Through a card's BAR the host writes slower than the card copies (doc/speed-log.md). */
    bool in_place = v->info.host_sees_local && v->info.type != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    const VkMemoryPropertyFlags tries[4][4] = {
        [VK_LOCAL] = { in_place ? LOCAL | SEEN : LOCAL, LOCAL, 0, 0 },
        [VK_VISIBLE] = { SEEN, SEEN, SEEN, SEEN },
        [VK_LOCAL_VISIBLE] = { LOCAL | SEEN, SEEN, SEEN, SEEN },
        [VK_READBACK] = { SEEN | CACHED, SEEN, SEEN, SEEN },
    };
    int t = -1;
    for (int i = 0; i < 4 && t < 0; i++) {
        /* host memory proper first: not the window into the device's own */
        bool host = w == VK_VISIBLE || w == VK_READBACK;
        t = host ? pick_type(v, allowed, tries[w][i], ODD | LOCAL) : -1;
        if (t < 0)
            t = pick_type(v, allowed, tries[w][i], ODD);
    }
    return t;
}

VkResult vk_mem_alloc(struct vk *v, struct vk_mem *m, uint64_t bytes, enum vk_where w)
{
    const struct vk_api *vk = &v->vk;
    *m = (struct vk_mem){ .bytes = MAX(align_up(bytes, 16), 256u) };
    const VkBufferCreateInfo ci = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = m->bytes,
                                    .usage = VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                             VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                             VK_BUFFER_USAGE_TRANSFER_DST_BIT };
    VkResult r = vk->CreateBuffer(v->dev, &ci, NULL, &m->buf);
    if (r) {
        m->buf = VK_NULL_HANDLE;
        return r;
    }
    VkMemoryRequirements need;
    vk->GetBufferMemoryRequirements(v->dev, m->buf, &need);
    int t = type_for(v, need.memoryTypeBits, w);
    const VkMemoryAllocateFlagsInfo flags = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
    const VkMemoryAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags,
                                      .allocationSize = need.size, .memoryTypeIndex = (uint32_t)t };
    r = t < 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : vk->AllocateMemory(v->dev, &ai, NULL, &m->mem);
    if (r)
        m->mem = VK_NULL_HANDLE;
    if (!r)
        r = vk->BindBufferMemory(v->dev, m->buf, m->mem, 0);
    if (!r && (v->info.mem.memoryTypes[t].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) &&
        (v->info.mem.memoryTypes[t].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
        r = vk->MapMemory(v->dev, m->mem, 0, VK_WHOLE_SIZE, 0, &m->p);
    if (r) {
        vk_mem_free(v, m);
        return r;
    }
    const VkBufferDeviceAddressInfo at = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = m->buf };
    m->va = vk->GetBufferDeviceAddress(v->dev, &at);
    return VK_SUCCESS;
}

void vk_mem_free(struct vk *v, struct vk_mem *m)
{
    if (m->buf)
        v->vk.DestroyBuffer(v->dev, m->buf, NULL);
    if (m->mem)
        v->vk.FreeMemory(v->dev, m->mem, NULL);
    *m = (struct vk_mem){ 0 };
}

/* ---- arenas ---- */

static uint64_t largest_buffer(const struct vk *v)
{
    uint64_t n = MIN(v->info.max_alloc, v->info.max_buffer), asked = (uint64_t)MAX(env_get()->vulkan_buffer, 0) << 20;
    return asked ? MIN(n, asked) : n;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int vk_arena_cuts(struct vk *v, const struct stream *s, struct err *e)
{
    for (int a = 0; a < ARENA_COUNT; a++) {
        struct vk_arena *x = &v->arena[a];
        uint32_t n = 0;
        free(x->cut);
        x->n_cuts = 0;
        x->cut = malloc((s->h.n_bufs + s->h.n_weights + 1) * sizeof *x->cut);
        if (!x->cut)
            return err_set(e, -ENOMEM, "vulkan: table of buffers");
        for (uint32_t i = 0; i < s->h.n_bufs; i++)
            if (s->bufs[i].arena == (uint32_t)a && a != ARENA_WEIGHTS && a != ARENA_SCRATCH && a != ARENA_IO)
                x->cut[n++] = s->bufs[i].off;
        for (uint32_t i = 0; i < s->h.n_weights && a == ARENA_WEIGHTS; i++)
            x->cut[n++] = s->weights[i].off;
        qsort(x->cut, n, sizeof *x->cut, by_value);
        x->n_cuts = n;
    }
    return 0;
}

/* The end of the segment that starts at `at`: the last cut that the limit allows, or the whole rest. */
static uint64_t segment_end(const struct vk_arena *x, uint64_t at, uint64_t bytes, uint64_t limit)
{
    uint64_t end = 0;
    if (bytes - at <= limit)
        return bytes;
    for (uint32_t i = 0; i < x->n_cuts && x->cut[i] <= at + limit; i++)
        end = x->cut[i];
    return end > at ? end : 0;
}

int vk_arena_alloc(struct vk *v, enum arena a, uint64_t bytes, enum vk_where w, struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "constants", "KV cache", "state", "scratch", "io" };
    struct vk_arena *x = &v->arena[a];
    uint64_t limit = largest_buffer(v);
    x->bytes = bytes = MAX(bytes, 256u);
    for (uint64_t at = 0; at < bytes;) {
        uint64_t end = segment_end(x, at, bytes, limit);
        struct vk_segment *seg = realloc(x->seg, (x->n + 1) * sizeof *seg);
        if (!seg)
            return err_set(e, -ENOMEM, "vulkan: table of segments");
        x->seg = seg;
        if (!end)
            return err_set(e, -ENOMEM, "vulkan: a part of the %s, at %llu MiB, is larger than the %llu MiB that %s allows a "
                           "buffer: a smaller --ctx or --chunk, or --tier=cpu", names[a], (unsigned long long)(at >> 20),
                           (unsigned long long)(limit >> 20), v->info.name);
        VkResult r = vk_mem_alloc(v, &seg[x->n].m, end - at, w);
        if (r)
            return vk_fail(v, r, e, "%llu MiB for %s", (unsigned long long)((end - at) >> 20), names[a]);
        seg[x->n++].off = at;
        at = end;
    }
    if (x->n > 1)
        log_info(VK, "%llu MiB of %s in %u buffers", (unsigned long long)(bytes >> 20), names[a], x->n);
    return 0;
}

void vk_arena_free(struct vk *v, enum arena a)
{
    struct vk_arena *x = &v->arena[a];
    for (uint32_t i = 0; i < x->n; i++)
        vk_mem_free(v, &x->seg[i].m);
    free(x->seg);
    free(x->cut);
    *x = (struct vk_arena){ 0 };
}

static struct vk_segment *segment_of(const struct vk *v, enum arena a, uint64_t off)
{
    const struct vk_arena *x = &v->arena[a];
    uint32_t lo = 0, hi = x->n;
    CHECK(hi);
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (x->seg[mid].off <= off)
            lo = mid;
        else
            hi = mid;
    }
    return &x->seg[lo];
}

uint64_t vk_arena_va(const struct vk *v, enum arena a, uint64_t off)
{
    const struct vk_segment *s = segment_of(v, a, off);
    return s->m.va + (off - s->off);
}

struct vk_mem *vk_arena_at(struct vk *v, enum arena a, uint64_t off, uint64_t *in, uint64_t *left)
{
    struct vk_segment *s = segment_of(v, a, off);
    const struct vk_arena *x = &v->arena[a];
    uint64_t end = s + 1 < x->seg + x->n ? s[1].off : x->bytes;
    *in = off - s->off;
    *left = end - off;
    return &s->m;
}

/* ---- bytes ---- */

VkResult vk_once_begin(struct vk *v, VkCommandBuffer *cb)
{
    const VkCommandBufferAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = v->pool,
                                             .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
    const VkCommandBufferBeginInfo bi = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
    VkResult r = v->vk.AllocateCommandBuffers(v->dev, &ai, cb);
    if (!r)
        r = v->vk.BeginCommandBuffer(*cb, &bi);
    if (!r)
        vk_barrier(v, *cb);
    return r;
}

VkResult vk_once_end(struct vk *v, VkCommandBuffer cb)
{
    const VkSubmitInfo si = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &cb };
    const VkFenceCreateInfo fi = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
    VkFence fence = VK_NULL_HANDLE;
    vk_barrier(v, cb);
    VkResult r = v->vk.EndCommandBuffer(cb);
    if (!r)
        r = v->vk.CreateFence(v->dev, &fi, NULL, &fence);
    if (!r) {
        pthread_mutex_lock(&v->queue_lock);
        r = v->vk.QueueSubmit(v->queue, 1, &si, fence);
        pthread_mutex_unlock(&v->queue_lock);
    }
    if (!r)
        r = v->vk.WaitForFences(v->dev, 1, &fence, VK_TRUE, UINT64_MAX);
    if (fence)
        v->vk.DestroyFence(v->dev, fence, NULL);
    v->vk.FreeCommandBuffers(v->dev, v->pool, 1, &cb);
    return r;
}

static VkResult copy(struct vk *v, VkBuffer from, uint64_t from_off, VkBuffer to, uint64_t to_off, uint64_t n)
{
    VkCommandBuffer cb;
    const VkBufferCopy c = { .srcOffset = from_off, .dstOffset = to_off, .size = n };
    VkResult r = vk_once_begin(v, &cb);
    if (r)
        return r;
    v->vk.CmdCopyBuffer(cb, from, to, 1, &c);
    return vk_once_end(v, cb);
}

static VkResult need_stage(struct vk *v)
{
    return v->stage.p ? VK_SUCCESS : vk_mem_alloc(v, &v->stage, STAGE_BYTES, VK_READBACK);
}

VkResult vk_upload(struct vk *v, struct vk_mem *m, uint64_t off, const void *src, uint64_t n)
{
    if (m->p) {
        memcpy((uint8_t *)m->p + off, src, n);
        return VK_SUCCESS;
    }
    VkResult r = need_stage(v);
    for (uint64_t at = 0; at < n && !r; at += STAGE_BYTES) {
        uint64_t part = MIN(n - at, (uint64_t)STAGE_BYTES);
        memcpy(v->stage.p, (const uint8_t *)src + at, part);
        r = copy(v, v->stage.buf, 0, m->buf, off + at, part);
    }
    return r;
}

VkResult vk_download(struct vk *v, struct vk_mem *m, uint64_t off, void *dst, uint64_t n)
{
    if (m->p) {
        memcpy(dst, (const uint8_t *)m->p + off, n);
        return VK_SUCCESS;
    }
    VkResult r = need_stage(v);
    for (uint64_t at = 0; at < n && !r; at += STAGE_BYTES) {
        uint64_t part = MIN(n - at, (uint64_t)STAGE_BYTES);
        r = copy(v, m->buf, off + at, v->stage.buf, 0, part);
        if (!r)
            memcpy((uint8_t *)dst + at, v->stage.p, part);
    }
    return r;
}

VkResult vk_clear(struct vk *v, struct vk_mem *m)
{
    VkCommandBuffer cb;
    if (m->p && m->bytes <= STAGE_BYTES) {
        memset(m->p, 0, m->bytes);
        return VK_SUCCESS;
    }
    VkResult r = vk_once_begin(v, &cb);
    if (r)
        return r;
    v->vk.CmdFillBuffer(cb, m->buf, 0, VK_WHOLE_SIZE, 0);
    return vk_once_end(v, cb);
}

VkResult vk_copy_later(struct vk *v, enum arena a, uint64_t dst, uint64_t src, uint64_t n)
{
    VkResult r = v->copies ? VK_SUCCESS : vk_once_begin(v, &v->copies);
    if (r) {
        v->copies = NULL;
        return r;
    }
    while (n) {
        uint64_t to, from, to_left, from_left;
        const struct vk_mem *d = vk_arena_at(v, a, dst, &to, &to_left), *s = vk_arena_at(v, a, src, &from, &from_left);
        const VkBufferCopy c = { .srcOffset = from, .dstOffset = to, .size = MIN(n, MIN(to_left, from_left)) };
        v->vk.CmdCopyBuffer(v->copies, s->buf, d->buf, 1, &c);
        dst += c.size, src += c.size, n -= c.size;
    }
    vk_barrier(v, v->copies); /* the next copy may read what this one wrote */
    return VK_SUCCESS;
}

VkResult vk_copies_end(struct vk *v)
{
    VkCommandBuffer cb = v->copies;
    uint32_t before = alloc_guard_count(); /* the driver's, ahead of a step */
    v->copies = NULL;
    VkResult r = cb ? vk_once_end(v, cb) : VK_SUCCESS;
    alloc_guard_set(before);
    return r;
}
