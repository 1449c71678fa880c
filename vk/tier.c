/* vk/tier.c: the vulkan tier's front: open, arenas, reading and writing. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "rt/blob.h"
#include "vk/stats.h"

int vk_fail(const struct vk *v, VkResult r, struct err *e, const char *fmt, ...)
{
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY)
        return err_set(e, -EIO, "vulkan: %s: %s", what, vk_error(r));
    return err_set(e, -ENOMEM, "vulkan: no room for %s: %s has %llu MiB free of %llu: a smaller --ctx or model, or --tier=cpu",
                   what, v->info.name, (unsigned long long)(v->info.local_free >> 20),
                   (unsigned long long)(v->info.local_bytes >> 20));
}

/* ---- open, close ---- */

static void fill_info(const struct vk *v, struct tier_info *info)
{
    const struct vk_device_info *d = &v->info;
    const struct vk_caps *c = &d->caps;
    static const char *const matrices[] = { "none", "yes", "as loops" };
    snprintf(info->device, sizeof info->device, "%s", d->name);
    snprintf(info->note, sizeof info->note, "%.90s, Vulkan %u.%u, subgroups of %u, %u cores, int8 dot product %s, cooperative "
             "matrices %s%s", d->driver, VK_VERSION_MAJOR(d->api), VK_VERSION_MINOR(d->api), c->wave, c->cores,
             !c->dot4 ? "no" : c->fast_dot4 ? "yes" : "emulated", matrices[c->coopmat],
             c->software ? "; in software, slower than --tier=cpu" : "");
    info->mem_bytes = d->local_bytes;
    info->mem_free_bytes = d->local_free;
    info->by_capacity = true;
    info->kv_planes = true;
    info->compiles = true;
    info->chunk = c->software ? 64 : d->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 2048 : 512;
    info->software = c->software;
    info->amd = d->vendor == 0x1002; /* PCI's number of AMD */
}

static int open_instance(struct vk *v, const struct tier_opts *o, struct tier_info *info)
{
    int rc = vk_instance_get(v, info->note, sizeof info->note);
    if (!rc)
        rc = vk_pick(v, o, info->note, sizeof info->note);
    if (!rc && !kernel_blob_find("add", "spirv")) {
        snprintf(info->note, sizeof info->note, "this binary was built without glslc, so it has no Vulkan kernels");
        rc = -ENODEV;
    }
    if (!rc)
        fill_info(v, info);
    return rc;
}

static int vk_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct vk *v = calloc(1, sizeof *v);
    if (!v)
        return -ENOMEM;
    int rc = open_instance(v, o, info);
    free(v);
    return rc;
}

static void vk_destroy(struct tier *t)
{
    struct vk *v = vk_of(t);
    if (v->dev) {
        v->vk.DeviceWaitIdle(v->dev);
        for (int a = 0; a < ARENA_COUNT; a++)
            vk_arena_free(v, a);
        vk_mem_free(v, &v->seq);
        vk_mem_free(v, &v->done);
        vk_mem_free(v, &v->io);
        vk_mem_free(v, &v->stage);
        vk_mem_free(v, &v->books);
        vk_device_end(v);
        if (v->r.fault.msg[0] || v->rejected || !vk_device_keep(v))
            vk_device_destroy(v);
    }
    pthread_mutex_destroy(&v->queue_lock);
    free(v->stamp);
    replay_free(&v->r);
    free(v);
}

/* Launches one kernel by itself and waits. mem holds its arguments at 0. */
static VkResult launch_alone(struct vk *v, struct vk_mem *args, uint32_t variant, uint32_t groups, uint64_t *ns)
{
    const VkDescriptorPoolSize size[] = { { VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1 },
                                          { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1 } };
    const VkDescriptorPoolCreateInfo pi = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1,
                                            .poolSizeCount = 2, .pPoolSizes = size };
    const VkQueryPoolCreateInfo qi = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                       .queryCount = 2 };
    VkDescriptorPool pool = VK_NULL_HANDLE;
    VkQueryPool stamps = VK_NULL_HANDLE;
    VkDescriptorSet set;
    VkCommandBuffer cb;
    VkResult r = v->vk.CreateDescriptorPool(v->dev, &pi, NULL, &pool);
    const VkDescriptorSetAllocateInfo ai = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = pool,
                                             .descriptorSetCount = 1, .pSetLayouts = &v->set_layout };
    if (!r)
        r = v->vk.AllocateDescriptorSets(v->dev, &ai, &set);
    if (!r && ns && v->info.timestamp_bits)
        r = v->vk.CreateQueryPool(v->dev, &qi, NULL, &stamps);
    if (!r) {
        const VkDescriptorBufferInfo bi = { .buffer = args->buf, .range = 256 };
        const VkWriteDescriptorSet w = { .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = set, .descriptorCount = 1,
                                         .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, .pBufferInfo = &bi };
        v->vk.UpdateDescriptorSets(v->dev, 1, &w, 0, NULL);
        r = vk_once_begin(v, &cb);
    }
    if (!r) {
        if (stamps) {
            v->vk.CmdResetQueryPool(cb, stamps, 0, 2);
            v->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stamps, 0);
        }
        vk_record_launch(v, cb, set, variant, 0, (const uint32_t[3]){ groups, 1, 1 });
        if (stamps)
            v->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stamps, 1);
        r = vk_once_end(v, cb);
    }
    uint64_t t[2] = { 0 };
    if (!r && stamps && !(r = v->vk.GetQueryPoolResults(v->dev, stamps, 0, 2, sizeof t, t, 8, VK_QUERY_RESULT_64_BIT)))
        *ns = (uint64_t)((double)(t[1] - t[0]) * v->info.timestamp_ns);
    if (stamps)
        v->vk.DestroyQueryPool(v->dev, stamps, NULL);
    if (pool)
        v->vk.DestroyDescriptorPool(v->dev, pool, NULL);
    return r;
}

/* A variant outside of any stream, built. UINT32_MAX: it could not be. */
static uint32_t lone_variant(struct vk *v, enum vk_kernel k, uint32_t threads, struct err *e)
{
    const struct vk_variant x = { k, { 2, { MAX(MIN(threads, v->low.caps.threads), v->low.caps.wave), v->low.caps.wave } } };
    uint32_t i = vk_variant_of(&v->low, &x);
    return i == UINT32_MAX || vk_pipelines_build(v, e) ? UINT32_MAX : i;
}

static int add(struct replay *rp, const float a[REPLAY_CHECK_N], float y[REPLAY_CHECK_N], struct err *e)
{
    enum { STEP_AT = 512, A_AT = 1024, Y_AT = 2048, BYTES = REPLAY_CHECK_N * sizeof(float) };
    struct vk *v = vk_of_replay(rp);
    const ka_step step = { .n_rows = 1 };
    struct vk_mem m = { 0 };
    uint32_t variant = lone_variant(v, VK_add, 64, e);
    if (variant == UINT32_MAX)
        return e && e->code ? e->code : -EIO;
    VkResult r = vk_mem_alloc(v, &m, 4096, VK_LOCAL);
    const kl_add args = { .step = m.va + STEP_AT, .y = m.va + Y_AT, .a = m.va + A_AT, .b = m.va + A_AT, .n = REPLAY_CHECK_N };
    if (!r && !(r = vk_upload(v, &m, 0, &args, sizeof args)) && !(r = vk_upload(v, &m, STEP_AT, &step, sizeof step)) &&
        !(r = vk_upload(v, &m, A_AT, a, BYTES)) && !(r = launch_alone(v, &m, variant, 1, NULL)))
        r = vk_download(v, &m, Y_AT, y, BYTES);
    vk_mem_free(v, &m);
    return r ? vk_fail(v, r, e, "self-check") : 0;
}

static int open_device(struct vk *v, struct err *e)
{
    int rc = 0;
    if (v->fresh || !vk_device_take(v)) {
        rc = vk_device_create(v, e);
        if (!rc)
            vk_cache_open(v);
        v->low.caps = v->info.caps;
    }
    if (rc || (rc = vk_device_begin(v, e)))
        return rc;
    v->r.target = (struct dispatch_target){ .n_cores = v->info.caps.cores, .shared_max = v->info.caps.shared_max,
                                            .shared_core = v->info.caps.shared_max, .kernels = vk_kernels,
                                            .lower = vk_lower, .user = &v->low };
    VkResult r = vk_mem_alloc(v, &v->seq, 256, VK_LOCAL);
    if (!r)
        r = vk_clear(v, &v->seq);
    if (!r)
        r = vk_mem_alloc(v, &v->done, 256, VK_READBACK);
    if (!r)
        r = vk_clear(v, &v->done);
    return r ? vk_fail(v, r, e, "step counters") : replay_self_check(&v->r, v->info.name, ": another driver, or --tier=cpu", e);
}

static int vk_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    struct vk *v = vk_of(t);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        int rc = vk_arena_alloc(v, a, bytes[a], VK_LOCAL, e);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < v->arena[a].n; i++) {
            VkResult r = vk_clear(v, &v->arena[a].seg[i].m);
            if (r)
                return vk_fail(v, r, e, "clearing memory");
        }
    }
    v->r.mirrored = true;
    VkResult r = vk_mem_alloc(v, &v->io, bytes[ARENA_IO], VK_READBACK);
    if (!r)
        v->r.mirror = memset(v->io.p, 0, v->io.bytes);
    return r ? vk_fail(v, r, e, "%llu KiB of host memory", (unsigned long long)(bytes[ARENA_IO] >> 10)) : 0;
}

/* ---- reading and writing ---- */

static int finish_steps(struct vk *v, struct err *e)
{
    int rc = replay_finish(&v->r, v->r.issued, e);
    VkResult r = rc ? VK_SUCCESS : vk_copies_end(v);
    return rc ? rc : r ? vk_fail(v, r, e, "copying memory") : 0;
}

static int move_bytes(struct vk *v, enum arena a, uint64_t off, void *bytes, uint64_t n, bool write, struct err *e)
{
    int rc = finish_steps(v, e);
    VkResult r = VK_SUCCESS;
    for (uint8_t *at = bytes; n && !rc && !r;) {
        uint64_t in, left;
        struct vk_mem *m = vk_arena_at(v, a, off, &in, &left);
        uint64_t part = MIN(n, left);
        r = write ? vk_upload(v, m, in, at, part) : vk_download(v, m, in, at, part);
        at += part, off += part, n -= part;
    }
    return rc ? rc : r ? vk_fail(v, r, e, write ? "writing memory" : "reading memory") : 0;
}

static int vk_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    return move_bytes(vk_of(t), a, off, dst, n, false, e);
}

static int vk_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    return move_bytes(vk_of(t), a, off, (void *)(uintptr_t)src, n, true, e);
}

static int vk_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    VkResult r = vk_copy_later(vk_of(t), a, dst, src, n);
    return r ? vk_fail(vk_of(t), r, e, "copying memory") : 0;
}

/* What reads the roof: the arguments' memory and the kernel. */
struct reading {
    struct vk_mem args;
    uint32_t variant;
};

static int read_once(struct replay *rp, void *user, uint64_t *ns, struct err *e)
{
    struct vk *v = vk_of_replay(rp);
    struct reading *x = user;
    VkResult r = launch_alone(v, &x->args, x->variant, 8 * v->info.caps.cores, ns);
    return r ? vk_fail(v, r, e, "measuring the roof") : 0;
}

/* Memory of its own, larger than any cache; in software less, it is the host's. */
static int vk_roof(struct tier *t, double *gbs, struct err *e)
{
    enum { READS = 4 };
    struct vk *v = vk_of(t);
    uint64_t bytes = (uint64_t)(v->info.caps.software ? 64 : 1024) << 20;
    struct vk_mem m = { 0 };
    struct reading x = { 0 };
    int rc = finish_steps(v, e);
    x.variant = rc ? UINT32_MAX : lone_variant(v, VK_roof, 256, e);
    if (x.variant == UINT32_MAX)
        return rc ? rc : -EIO;
    VkResult r = vk_mem_alloc(v, &m, bytes, VK_LOCAL);
    if (!r)
        r = vk_clear(v, &m);
    if (!r)
        r = vk_mem_alloc(v, &x.args, 512, VK_LOCAL);
    const kl_roof a = { .p = m.va, .out = v->seq.va + 64, .n16 = (uint32_t)(bytes / 16) };
    if (!r)
        r = vk_upload(v, &x.args, 0, &a, sizeof a);
    rc = r ? vk_fail(v, r, e, "measuring the roof") : replay_roof(&v->r, bytes, READS, read_once, &x, gbs, e);
    vk_mem_free(v, &m);
    vk_mem_free(v, &x.args);
    return rc;
}

static const struct replay_ops ops = { .run = vk_run, .add = add };
static const struct tier_impl vk_impl = {
    .name = "vulkan",
    .destroy = vk_destroy,
    .load = vk_load,
    .alloc = vk_alloc,
    .prepare = vk_prepare,
    .plan_destroy = vk_plan_destroy,
    .submit = replay_submit,
    .next = replay_next,
    .wait = vk_wait,
    .read = vk_read,
    .write = vk_write,
    .copy = vk_copy,
    .map = replay_map,
    .fault = replay_fault,
    .dump = vk_plan_dump,
    .trace = replay_trace,
    .submit_prefix = replay_submit_prefix,
    .resident = replay_resident,
    .roof = vk_roof,
    .describe = vk_describe,
};

static int vk_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct vk *v = calloc(1, sizeof *v);
    if (!v)
        return err_set(e, -ENOMEM, "vulkan: tier object");
    v->r.tier.impl = &vk_impl;
    v->r.ops = &ops;
    v->r.check = o->check;
    v->r.trace_on = o->trace;
    v->fresh = o->fresh;
    pthread_mutex_init(&v->queue_lock, NULL);
    int rc = open_instance(v, o, &v->r.tier.info);
    if (rc)
        err_set(e, rc, "vulkan: %s", v->r.tier.info.note);
    else
        rc = open_device(v, e);
    if (rc) {
        vk_destroy(&v->r.tier);
        return rc;
    }
    *out = &v->r.tier;
    return 0;
}

const struct tier_driver tier_driver_vulkan = { "vulkan", vk_probe, vk_open, NULL };
