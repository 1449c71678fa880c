/* Plans and submissions. A plan's launches are recorded once into a command buffer for each class of rows; a token then
 * costs a write to the ring and one vkQueueSubmit. Submissions follow each other on one queue, several at a time: the
 * first kernel of each reads its own slot of the ring, and the timeline semaphore counts the ones that are complete. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "vk/vk.h"

enum { ARGS_RANGE = 512 }; /* what a launch sees of the uniform buffer; every argument struct is smaller */

/* ---- plans ---- */

void vk_plan_destroy(struct tier_plan *base)
{
    struct vk_plan *p = (struct vk_plan *)base;
    if (!p)
        return;
    struct vk *v = vk_of(base->tier);
    v->vk.DeviceWaitIdle(v->dev);
    for (uint32_t i = 0; i < REPLAY_PASSES; i++) {
        struct vk_pass *x = &p->pass[i];
        if (x->cb)
            v->vk.FreeCommandBuffers(v->dev, v->pool, 1, &x->cb);
        vk_mem_free(v, &x->args);
        free(x->args_at);
    }
    if (p->sets)
        v->vk.DestroyDescriptorPool(v->dev, p->sets, NULL);
    if (p->stamps)
        v->vk.DestroyQueryPool(v->dev, p->stamps, NULL);
    vk_mem_free(v, &p->work);
    vk_mem_free(v, &p->consts);
    vk_mem_free(v, &p->ring);
    replay_plan_free(&p->r);
    free(p);
}

static int build_passes(struct vk *v, struct vk_plan *p, const struct stream *s, struct err *e)
{
    struct vk_lowering *l = &v->low;
    const struct vk_variant frame[2] = { { VK_step_begin, { 2, { MAX(32u, l->caps.wave), l->caps.wave } } },
                                         { VK_step_end, { 2, { MAX(32u, l->caps.wave), l->caps.wave } } } };
    int rc = replay_plan_build(&p->r, NULL, e);
    for (uint32_t i = 0; i < p->r.n_passes && !rc; i++) {
        struct vk_pass *x = &p->pass[i];
        x->d = p->r.pass[i].d;
        x->args_at = calloc(x->d->n + 2, sizeof *x->args_at);
        if (!x->args_at)
            return err_set(e, -ENOMEM, "vulkan: plan of %u launches", x->d->n);
    }
    if (rc)
        return rc;
    p->begin_variant = vk_variant_of(l, &frame[0]);
    p->end_variant = vk_variant_of(l, &frame[1]);
    if (p->begin_variant == UINT32_MAX || p->end_variant == UINT32_MAX)
        return err_set(e, -ENOMEM, "vulkan: table of kernels");
    return vk_pipelines_build(v, e);
}

static int alloc_cleared(struct vk *v, struct vk_mem *m, uint64_t bytes, enum vk_where w, const char *what, struct err *e)
{
    VkResult r = vk_mem_alloc(v, m, bytes, w);
    if (!r)
        r = vk_clear(v, m);
    return r ? vk_fail(v, r, e, "%.1f MiB for %s", (double)bytes / 1048576.0, what) : 0;
}

static int alloc_plan(struct vk *v, struct vk_plan *p, const struct stream *s, struct err *e)
{
    int rc;
    if ((rc = alloc_cleared(v, &p->work, p->r.work_bytes, VK_LOCAL, "the kernels' own memory", e)) ||
        (rc = alloc_cleared(v, &p->consts, s->h.const_bytes, VK_LOCAL, "constants", e)) ||
        (rc = alloc_cleared(v, &p->ring, (uint64_t)p->r.stride * KL_RING, VK_READBACK, "the ring of steps", e)))
        return rc;
    p->r.ring = p->ring.p;
    VkResult r = s->h.const_bytes ? vk_upload(v, &p->consts, 0, s->consts, s->h.const_bytes) : VK_SUCCESS;
    return r ? vk_fail(v, r, e, "constants") : 0;
}

struct places {
    const struct vk *v;
    const struct vk_plan *p;
};

static uint64_t place_of(void *user, gpu_va va)
{
    const struct places *at = user;
    uint64_t off = SADDR_OFF(va);
    switch (SADDR_ARENA(va)) {
    case ARENA_CONST: return at->p->consts.va + off;
    case ARENA_WORK: return at->p->work.va + off;
    case ARENA_HOST_IO: return at->v->io.va + off;
    default: return vk_arena_va(at->v, (enum arena)SADDR_ARENA(va), off);
    }
}

/* The arguments of all launches, each at an offset that a dynamic uniform buffer may have, and the set that shows them. */
static int make_args(struct vk *v, struct vk_plan *p, struct vk_pass *x, struct err *e)
{
    const struct dispatch_plan *d = x->d;
    const struct replay_places at = { .io = vk_arena_va(v, ARENA_IO, 0), .seq = v->seq.va,
                                      .done = v->done.va, .ring = p->ring.va };
    kl_step_begin begin;
    kl_step_end end;
    replay_frame(&p->r, &at, &begin, &end);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < d->n + 2; i++) {
        uint32_t n = i < d->n ? d->kernels[d->d[i].kernel].args_bytes : (uint32_t)MAX(sizeof begin, sizeof end);
        CHECK(n <= ARGS_RANGE);
        x->args_at[i] = (uint32_t)bytes;
        bytes = align_up(bytes + n, v->info.ubo_align);
    }
    bytes += ARGS_RANGE;
    uint8_t *image = calloc(1, bytes);
    if (!image || bytes > UINT32_MAX) {
        free(image);
        return err_set(e, -ENOMEM, "vulkan: arguments of %u launches", d->n);
    }
    for (uint32_t i = 0; i < d->n; i++)
        memcpy(image + x->args_at[i], d->args + d->d[i].args_off, d->kernels[d->d[i].kernel].args_bytes);
    memcpy(image + x->args_at[d->n], &begin, sizeof begin);
    memcpy(image + x->args_at[d->n + 1], &end, sizeof end);
    VkResult r = vk_mem_alloc(v, &x->args, bytes, VK_LOCAL);
    if (!r)
        r = vk_upload(v, &x->args, 0, image, bytes);
    free(image);
    const VkDescriptorSetAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = p->sets,
                                             .descriptorSetCount = 1, .pSetLayouts = &v->set_layout };
    if (!r)
        r = v->vk.AllocateDescriptorSets(v->dev, &ai, &x->set);
    if (r)
        return vk_fail(v, r, e, "arguments of %u launches", d->n);
    const VkDescriptorBufferInfo bi = { .buffer = x->args.buf, .range = ARGS_RANGE };
    const VkDescriptorBufferInfo books = { .buffer = v->books.buf, .range = VK_WHOLE_SIZE };
    const VkWriteDescriptorSet w[] = {
        { .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = x->set, .descriptorCount = 1,
          .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, .pBufferInfo = &bi },
        { .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = x->set, .dstBinding = 1, .descriptorCount = 1,
          .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &books },
    };
    v->vk.UpdateDescriptorSets(v->dev, v->books.buf ? 2 : 1, w, 0, NULL);
    return 0;
}

static int make_stamps(struct vk *v, struct vk_plan *p, uint32_t n, struct err *e)
{
    const VkQueryPoolCreateInfo ci = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                       .queryCount = n + 1 };
    if (!v->info.timestamp_bits) {
        log_warn(VK, "%s has no time stamps on this queue: no profile", v->info.name);
        return 0;
    }
    VkResult r = v->vk.CreateQueryPool(v->dev, &ci, NULL, &p->stamps);
    if (r)
        return vk_fail(v, r, e, "%u time stamps", n + 1);
    if (n <= v->r.cap_trace)
        return 0;
    uint64_t *stamp = realloc(v->stamp, (n + 1) * sizeof *stamp);
    v->stamp = stamp ? stamp : v->stamp;
    return stamp ? replay_trace_room(&v->r, n, e) : err_set(e, -ENOMEM, "vulkan: trace of %u launches", n);
}

static int record_passes(struct vk *v, struct vk_plan *p, struct err *e)
{
    const VkDescriptorPoolSize size[] = { { VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, p->r.n_passes },
                                          { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, p->r.n_passes } };
    const VkDescriptorPoolCreateInfo pi = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = p->r.n_passes,
                                            .poolSizeCount = 2, .pPoolSizes = size };
    const VkCommandBufferAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = v->pool,
                                             .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
    uint32_t most = 0;
    VkResult r = v->vk.CreateDescriptorPool(v->dev, &pi, NULL, &p->sets);
    if (r)
        return vk_fail(v, r, e, "descriptor pool");
    for (uint32_t i = 0; i < p->r.n_passes; i++)
        most = MAX(most, p->pass[i].d->n);
    int rc = v->r.trace_on ? make_stamps(v, p, most, e) : 0;
    for (uint32_t i = 0; i < p->r.n_passes && !rc; i++) {
        struct vk_pass *x = &p->pass[i];
        dispatch_relocate_by(p->r.pass[i].d, place_of, &(struct places){ v, p });
        rc = make_args(v, p, x, e);
        if (rc || v->r.trace_on || v->r.check)
            continue; /* recorded for each step */
        r = v->vk.AllocateCommandBuffers(v->dev, &ai, &x->cb);
        if (!r)
            r = vk_record(v, p, x, x->cb, x->d->n, false);
        if (r)
            rc = vk_fail(v, r, e, "recording %u launches", x->d->n);
    }
    return rc;
}

/* A driver that rejects a kernel on matrix units is asked again without them. */
static bool without_matrices(struct vk *v)
{
    for (uint32_t i = 0; i < v->n_pipelines; i++)
        if (v->pipeline[i].rc && strstr(vk_kernels[v->low.variant[i].kernel].module, "coopmat") &&
            v->low.caps.coopmat != VK_COOPMAT_NONE) {
            log_warn(VK, "%s rejects kernels on cooperative matrices: prompts go without", v->info.name);
            v->low.caps.coopmat = VK_COOPMAT_NONE;
            return true;
        }
    return false;
}

static int try_prepare(struct vk *v, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct vk_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "vulkan: plan object");
    int rc = replay_plan_begin(&p->r, &v->r, s, k, e);
    if (rc || (rc = build_passes(v, p, s, e)) || (rc = alloc_plan(v, p, s, e)) || (rc = record_passes(v, p, e))) {
        vk_plan_destroy(&p->r.base);
        return rc;
    }
    replay_plan_end(&p->r);
    *out = &p->r.base;
    return 0;
}

int vk_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e)
{
    struct vk *v = vk_of(t);
    int rc = try_prepare(v, s, k, out, e);
    if (rc && without_matrices(v))
        rc = try_prepare(v, s, k, out, e);
    return rc;
}

void vk_plan_dump(const struct tier_plan *base, FILE *f)
{
    const struct vk_plan *p = (const struct vk_plan *)base;
    const struct vk *v = vk_of(base->tier);
    for (uint32_t i = 0; i < p->r.n_passes; i++) {
        const struct vk_pass *x = &p->pass[i];
        uint32_t rows = p->r.pass[i].max_rows, waits = 0;
        for (uint32_t k = 1; k < x->d->n; k++)
            waits += x->d->d[k].wait;
        fprintf(f, "command buffer for %u row%s: %u launches, %u barriers\n", rows, rows == 1 ? "" : "s", x->d->n,
                waits);
        for (uint32_t k = 0; k < x->d->n; k++) {
            char name[160];
            const struct dispatch *d = &x->d->d[k];
            vk_variant_name(&v->low.variant[d->variant], name, sizeof name);
            fprintf(f, "%5u %c command %4u  grid %u,%u,%u  %s\n", k, d->wait ? '|' : ' ', d->cmd, d->grid[0], d->grid[1],
                    d->grid[2], name);
        }
    }
}

/* ---- submissions ---- */

static VkResult submit(struct vk *v, VkCommandBuffer cb, uint64_t value)
{
    const VkTimelineSemaphoreSubmitInfo ti = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                               .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &value };
    const VkSubmitInfo si = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &ti, .commandBufferCount = 1,
                              .pCommandBuffers = &cb, .signalSemaphoreCount = 1, .pSignalSemaphores = &v->timeline };
    uint32_t before = alloc_guard_count(); /* what a driver allocates is its own business */
    pthread_mutex_lock(&v->queue_lock);
    VkResult r = v->vk.QueueSubmit(v->queue, 1, &si, VK_NULL_HANDLE);
    pthread_mutex_unlock(&v->queue_lock);
    alloc_guard_set(before);
    return r;
}

static VkResult wait_for(struct vk *v, uint64_t value, uint64_t timeout_ns)
{
    const VkSemaphoreWaitInfo wi = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
                                     .pSemaphores = &v->timeline, .pValues = &value };
    uint32_t before = alloc_guard_count();
    VkResult r = v->vk.WaitSemaphores(v->dev, &wi, timeout_ns);
    alloc_guard_set(before);
    return r;
}

static void read_stamps(struct vk *v, struct vk_plan *p, struct vk_pass *x, uint32_t n)
{
    const uint64_t *t = v->stamp;
    v->r.n_trace = 0;
    if (v->vk.GetQueryPoolResults(v->dev, p->stamps, 0, n + 1, (n + 1) * sizeof *t, v->stamp, sizeof *t, VK_QUERY_RESULT_64_BIT))
        return;
    for (uint32_t i = 0; i < n; i++)
        v->r.trace[i] = (struct tier_trace){ .cmd = x->d->d[i].cmd, .kernel = x->d->kernels[x->d->d[i].kernel].name,
                                           .start_ns = (uint64_t)((double)(t[i] - t[0]) * v->info.timestamp_ns),
                                           .end_ns = (uint64_t)((double)(t[i + 1] - t[0]) * v->info.timestamp_ns) };
    v->r.n_trace = n;
}

/* Launches [0, n), recorded now and waited for: with time stamps, or each in a submission of its own. */
static VkResult run_now(struct vk *v, struct vk_plan *p, struct vk_pass *x, uint32_t n, uint32_t *at)
{
    static const uint32_t one[3] = { 1, 1, 1 };
    VkCommandBuffer cb;
    VkResult r = VK_SUCCESS;
    for (uint32_t i = 0; v->r.check && i < n + 1 && !r; i++) { /* step_begin, then all launches; the frame's end below */
        *at = i ? i - 1 : 0;
        if ((r = vk_once_begin(v, &cb)))
            return r;
        if (i == 0)
            vk_record_launch(v, cb, x->set, p->begin_variant, x->args_at[x->d->n], one);
        else
            vk_record_launch(v, cb, x->set, x->d->d[i - 1].variant, x->args_at[i - 1], x->d->d[i - 1].grid);
        r = vk_once_end(v, cb);
    }
    if (r)
        return r;
    if (v->r.check) {
        if ((r = vk_once_begin(v, &cb)))
            return r;
        vk_record_launch(v, cb, x->set, p->end_variant, x->args_at[x->d->n + 1], one);
        vk_barrier(v, cb);
        r = v->vk.EndCommandBuffer(cb);
    } else {
        const VkCommandBufferAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = v->pool,
                                                 .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
        r = v->vk.AllocateCommandBuffers(v->dev, &ai, &cb);
        if (!r)
            r = vk_record(v, p, x, cb, n, p->stamps != VK_NULL_HANDLE);
    }
    if (!r)
        r = submit(v, cb, v->r.issued + 1);
    if (!r)
        r = wait_for(v, v->r.issued + 1, UINT64_MAX);
    v->vk.FreeCommandBuffers(v->dev, v->pool, 1, &cb);
    if (!r && p->stamps)
        read_stamps(v, p, x, n);
    return r;
}

/* A message of the validation layer is a fault of ours: nothing goes on as if all were well. */
static int invalid(struct vk *v)
{
    uint32_t n = vk_invalid_count();
    if (n && !v->r.fault.msg[0])
        err_set(&v->r.fault, -EIO, "vulkan: the validation layer reports %u error%s; the log has them", n, n == 1 ? "" : "s");
    return n ? -EIO : 0;
}

int vk_run(struct replay *rp, struct replay_plan *base, uint32_t pass, uint32_t n, uint64_t *point)
{
    struct vk *v = vk_of_replay(rp);
    struct vk_plan *p = (struct vk_plan *)base;
    struct vk_pass *x = &p->pass[pass];
    uint32_t at = UINT32_MAX;
    int rc = invalid(v);
    if (rc)
        return rc;
    VkResult r = vk_copies_end(v);
    if (!r && n == x->d->n && x->cb) {
        r = submit(v, x->cb, rp->issued + 1);
    } else if (!r) {
        uint32_t before = alloc_guard_count(); /* recording is the driver's, too */
        r = run_now(v, p, x, n, &at);
        alloc_guard_set(before);
    }
    if (r) {
        vk_report(v, r, base, at < x->d->n ? x->d->d[at].cmd : UINT32_MAX, "running a step");
        return -EIO;
    }
    *point = rp->issued + 1;
    return 0;
}

/* Looks at the semaphore's counter while a step is short, then sleeps on it; a device in software wants the processor for
 * itself at once. */
int vk_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    enum { SPIN_NS = 20000000 };
    struct vk *v = vk_of(t);
    uint64_t now = 0, start = 0, t0 = clock_ns();
    VkResult r = VK_SUCCESS;
    if (point > v->r.issued)
        return -EINVAL;
    while (!v->low.caps.software && !r && (r = v->vk.GetSemaphoreCounterValue(v->dev, v->timeline, &now)) == VK_SUCCESS) {
        if (now >= point)
            return invalid(v);
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        start = clock_ns();
        if (start - t0 > MIN(timeout_ns, (uint64_t)SPIN_NS))
            break;
    }
    if (!r)
        r = wait_for(v, point, timeout_ns);
    if (r == VK_TIMEOUT)
        return -ETIME;
    if (r) {
        vk_report(v, r, v->r.last, UINT32_MAX, "waiting for a step");
        return -EIO;
    }
    return invalid(v);
}
