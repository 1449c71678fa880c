/* metal/tier.c: the metal tier: Apple GPUs through Metal's own interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "metal/metal.h"
#include "rt/ladder.h"
#include "rt/blob.h"

enum { MAX_LOADERS = 8, ROOF_READS = 3, LAUNCH_SHARED = 64 };

void metal_close(struct metal_tier *m)
{
    for (uint32_t i = 0; i < KL_RING; i++) {
        if (m->flight[i].cmdbuf)
            cmdbuf_wait(m->flight[i].cmdbuf);
        object_release(m->flight[i].cmdbuf);
    }
    for (int a = 0; a < ARENA_COUNT; a++)
        metal_free(m, &m->arena[a]);
    metal_free(m, &m->cells);
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        object_release(m->pipeline[k]);
        object_release(m->library[k]);
    }
    metal_archives_close(m);
    object_release(m->event);
    object_release(m->fence);
    object_release(m->queue);
    object_release(m->residency);
    object_release(m->device);
}

static void metal_destroy(struct tier *t)
{
    struct metal_tier *m = metal_of(t);
    void *pool = objc.pool_push();
    metal_close(m);
    objc.pool_pop(pool);
    replay_free(&m->r);
    free(m);
}

/* ---- weights ---- */

static int alloc_weights(struct replay *r, const struct stream *s, struct err *e)
{
    struct metal_tier *m = metal_of_replay(r);
    r->weight_bytes = MAX(s->h.arena_bytes[ARENA_WEIGHTS], 256u);
    return metal_alloc(m, r->weight_bytes, "weights", &m->arena[ARENA_WEIGHTS], e);
}

struct loader {
    uint8_t *buf;
    uint64_t room;
};

static int store_bytes(void *user, uint64_t off, const void *from, uint64_t n)
{
    const struct metal_tier *m = user;
    memcpy(m->arena[ARENA_WEIGHTS].cpu + off, from, n);
    return 0;
}

static int store_piece(struct replay *r, void *thread, const struct pieces *all, const struct piece *p, struct err *e)
{
    struct loader *l = thread;
    uint64_t bytes = piece_bytes(all, p);
    if (bytes > l->room) {
        free(l->buf);
        l->room = MAX(bytes, (uint64_t)PIECE_BYTES);
        if (!(l->buf = malloc(l->room)))
            return err_set(e, -ENOMEM, "metal: no memory to regroup %llu MiB of weights in", (unsigned long long)(l->room >> 20));
    }
    return piece_pack(all, p, l->buf, store_bytes, metal_of_replay(r));
}

static int end_piece(struct replay *r, void *thread, struct err *e)
{
    free(((struct loader *)thread)->buf);
    return 0;
}

static int metal_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    static const struct replay_loader loader = { .max_threads = MAX_LOADERS, .thread_bytes = sizeof(struct loader),
                                                 .alloc = alloc_weights, .piece = store_piece, .end = end_piece };
    struct metal_tier *m = metal_of(t);
    void *pool = objc.pool_push();
    int rc = replay_load(&m->r, w, &loader, p, e);
    if (!rc)
        residency_request(m->residency); /* before the first token asks for it */
    objc.pool_pop(pool);
    return rc;
}

/* ---- arenas ---- */

static int metal_arenas(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    struct metal_tier *m = metal_of(t);
    void *pool = objc.pool_push();
    int rc = 0;
    for (int a = ARENA_KV; a < ARENA_COUNT && !rc; a++) {
        char name[32];
        snprintf(name, sizeof name, "the %s arena", names[a]);
        rc = metal_alloc(m, bytes[a], name, &m->arena[a], e);
    }
    objc.pool_pop(pool);
    m->r.mirror = m->arena[ARENA_IO].cpu;
    m->r.mirrored = true;
    return rc;
}

static int metal_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    struct metal_tier *m = metal_of(t);
    int rc = replay_finish(&m->r, m->point, e);
    if (!rc)
        memcpy(dst, m->arena[a].cpu + off, n);
    return rc;
}

static int metal_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    struct metal_tier *m = metal_of(t);
    int rc = replay_finish(&m->r, m->point, e);
    if (!rc)
        memcpy(m->arena[a].cpu + off, src, n);
    return rc;
}

static int metal_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    struct metal_tier *m = metal_of(t);
    int rc = replay_finish(&m->r, m->point, e);
    if (!rc)
        memcpy(m->arena[a].cpu + dst, m->arena[a].cpu + src, n);
    return rc;
}

/* IO is what the kernels write: what was submitted last decides whether its logits are there, as for a mirror. */
static const void *metal_map(struct tier *t, enum arena a, uint64_t off)
{
    return a == ARENA_IO ? metal_of(t)->arena[a].cpu + off : NULL;
}

/* ---- measuring ---- */

static int add(struct replay *r, const float a[REPLAY_CHECK_N], float y[REPLAY_CHECK_N], struct err *e)
{
    enum { STEP_AT = 512, A_AT = 1024, Y_AT = 2048, BYTES = 4096 };
    struct metal_tier *m = metal_of_replay(r);
    struct metal_mem mem;
    int rc = metal_alloc(m, BYTES, "self-check", &mem, e);
    if (rc)
        return rc;
    ((ka_step *)(mem.cpu + STEP_AT))->n_rows = 1;
    memcpy(mem.cpu + A_AT, a, sizeof(float) * REPLAY_CHECK_N);
    const kl_add args = { .step = mem.va + STEP_AT, .y = mem.va + Y_AT, .a = mem.va + A_AT, .b = mem.va + A_AT, .n = REPLAY_CHECK_N };
    memcpy(mem.cpu, &args, sizeof args);
    rc = metal_launch(m, K_add, &mem, (const uint32_t[3]){ 1, 1, 1 }, kernel_infos[K_add].threads, 0, NULL, e);
    if (!rc)
        memcpy(y, mem.cpu + Y_AT, sizeof(float) * REPLAY_CHECK_N);
    metal_free(m, &mem);
    return rc;
}

static int read_once(struct replay *r, void *user, uint64_t *ns, struct err *e)
{
    return metal_launch(metal_of_replay(r), K_roof, user, (const uint32_t[3]){ 4 * r->target.n_cores, 1, 1 },
                        kernel_infos[K_roof].threads, LAUNCH_SHARED, ns, e);
}

static int metal_roof(struct tier *t, double *gbs, struct err *e)
{
    struct metal_tier *m = metal_of(t);
    const uint64_t least = (uint64_t)512 << 20, most = (uint64_t)2 << 30;
    bool need[KERNEL_COUNT] = { [K_roof] = true };
    struct metal_mem own = { 0 }, args = { 0 };
    void *pool = objc.pool_push();
    int rc = replay_finish(&m->r, m->point, e);
    if (!rc)
        rc = metal_kernels_need(m, need, e);
    if (!rc)
        rc = metal_alloc(m, METAL_ARGS_ALIGN, "arguments", &args, e);
    if (!rc && m->r.weight_bytes < least)
        rc = metal_alloc(m, least, "measuring the roof", &own, e);
    if (!rc) {
        uint64_t bytes = own.va ? least : MIN(m->r.weight_bytes, most);
        const kl_roof a = { .p = own.va ? own.va : m->arena[ARENA_WEIGHTS].va, .out = m->cells.va + 64, .n16 = (uint32_t)(bytes / 16) };
        memcpy(args.cpu, &a, sizeof a);
        rc = replay_roof(&m->r, bytes, ROOF_READS, read_once, &args, gbs, e);
    }
    metal_free(m, &own);
    metal_free(m, &args);
    objc.pool_pop(pool);
    return rc;
}

static void metal_describe(struct tier *t, tier_tell_fn fn, void *user)
{
    struct metal_tier *m = metal_of(t);
    char value[160];
    void *pool = objc.pool_push();
    fn(user, "device", "name", objc_text(device_name(m->device)));
    snprintf(value, sizeof value, "%llu MiB", (unsigned long long)(device_working_set(m->device) >> 20));
    fn(user, "device", "memory that the GPU may use", value);
    snprintf(value, sizeof value, "%lu MiB", device_buffer_max(m->device) >> 20);
    fn(user, "device", "largest buffer", value);
    snprintf(value, sizeof value, "%u, by its name", m->r.target.n_cores);
    fn(user, "device", "GPU cores", value);
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        if (!m->pipeline[k])
            continue;
        char part[80];
        snprintf(part, sizeof part, "kernel %s", kernel_infos[k].name + 2);
        snprintf(value, sizeof value, "%lu of %u needed", pipeline_threads(m->pipeline[k]), kernel_infos[k].threads);
        fn(user, part, "threads of a work-group", value);
    }
    objc.pool_pop(pool);
}

static const struct replay_ops ops = { .run = metal_run, .add = add };
static const struct tier_impl metal_impl = {
    .name = "metal",
    .destroy = metal_destroy,
    .load = metal_load,
    .alloc = metal_arenas,
    .prepare = metal_prepare,
    .plan_destroy = metal_plan_destroy,
    .submit = replay_submit,
    .next = replay_next,
    .wait = metal_wait,
    .read = metal_read,
    .write = metal_write,
    .copy = metal_copy,
    .map = metal_map,
    .fault = replay_fault,
    .dump = metal_dump,
    .trace = replay_trace,
    .submit_prefix = replay_submit_prefix,
    .resident = replay_resident,
    .roof = metal_roof,
    .describe = metal_describe,
};

/* ---- opening ---- */

static int kernels_here(struct err *e)
{
    return kernel_blob_find("basic", "msl") ? 0 : err_set(e, -ENODEV, "this binary was built without the kernels' Metal texts");
}

static int metal_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct err e = { 0 };
    id device = NULL;
    int rc = objc_open(&e);
    if (!rc)
        rc = kernels_here(&e);
    if (!rc) {
        void *pool = objc.pool_push();
        if (!(rc = metal_pick(o, &device, &e)) && !(rc = metal_check(device, &e)))
            metal_describe_device(device, info);
        object_release(device);
        objc.pool_pop(pool);
    }
    if (rc)
        snprintf(info->note, sizeof info->note, "%.250s", strncmp(e.msg, "metal: ", 7) == 0 ? e.msg + 7 : e.msg);
    return rc;
}

static int set_up(struct metal_tier *m, const struct tier_opts *o, struct err *e)
{
    bool need[KERNEL_COUNT] = { [K_add] = true };
    int rc;
    if ((rc = metal_pick(o, &m->device, e)) || (rc = metal_check(m->device, e)) || (rc = metal_device_open(m, e)))
        return rc;
    metal_describe_device(m->device, &m->r.tier.info);
    m->fresh = o->fresh;
    metal_archives_open(m);
    m->record = strcmp(env_get()->metal_encode, "once") == 0;
    m->r.target = (struct dispatch_target){ .n_cores = metal_cores(m->r.tier.info.device), .shared_max = METAL_SHARED_MAX,
                                            .shared_core = METAL_SHARED_MAX };
    if ((rc = metal_alloc(m, METAL_ARGS_ALIGN, "step counters", &m->cells, e)) || (rc = metal_kernels_need(m, need, e)))
        return rc;
    return replay_self_check(&m->r, m->r.tier.info.device, "", e);
}

static int metal_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct err why = { 0 };
    int rc = objc_open(&why);
    if (!rc)
        rc = kernels_here(&why);
    if (rc)
        return err_set(e, rc, "metal: %s", why.msg);
    struct metal_tier *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "metal: tier object");
    m->r.tier.impl = &metal_impl;
    m->r.ops = &ops;
    m->r.check = o->check;
    m->r.trace_on = o->trace;
    void *pool = objc.pool_push();
    rc = set_up(m, o, e);
    objc.pool_pop(pool);
    if (rc) {
        metal_destroy(&m->r.tier);
        return rc;
    }
    *out = &m->r.tier;
    return 0;
}

const struct tier_driver tier_driver_metal = { "metal", metal_probe, metal_open, &ladder_metal };
