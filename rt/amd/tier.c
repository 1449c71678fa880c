/* rt/amd/tier.c: a tier on a winsys: open, kernels, arenas, reading and writing. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "rt/amd/walk.h"
#include "rt/blob.h"

/* ---- before it is opened ---- */

int amd_kernels_for(const struct amd_chip *chip, const char *gpu, const char *tier, struct err *e)
{
    if (!chip)
        return err_set(e, -ENODEV, "%s: %s is not one of the chips that zinc has kernels for: %s", tier, gpu,
                       amd_chip_names());
    if (!kernel_blob_find("basic", chip->target))
        return err_set(e, -ENODEV, "%s: this binary has no kernels for %s: built without clang-19 and lld-19, or with "
                       "NO_AMD=1; make builds them", tier, chip->name);
    return 0;
}

void amd_tier_info(struct tier_info *info, const char *device, uint64_t vram_bytes, uint32_t firmware)
{
    info->amd = true;
    info->firmware = firmware;
    snprintf(info->device, sizeof info->device, "%s", device);
    info->mem_bytes = vram_bytes;
    info->by_capacity = true;
    info->kv_planes = true;
    info->chunk = 2048;
    info->persistent = true;
}

/* ---- kernels ---- */

static const struct amd_module *find_module(const struct amd_tier *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_modules; i++)
        if (strcmp(c->modules[i].name, name) == 0)
            return &c->modules[i];
    return NULL;
}

static int add_module(struct amd_tier *c, const char *name, struct err *e)
{
    const char *target = c->w->card.chip->target;
    const struct kernel_blob *b = kernel_blob_find(name, target);
    if (!b)
        return err_set(e, -ENOTSUP, "%s: this binary has no module %s for %s (built without clang-19, or with NO_AMD=1?)",
                       c->w->name, name, target);
    struct amd_module *m = realloc(c->modules, (c->n_modules + 1) * sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "%s: module table", c->w->name);
    c->modules = m;
    uint64_t n;
    const void *code = kernel_blob_bytes(b, &n);
    int rc = code ? amd_module_load(&c->copier, name, code, n, &m[c->n_modules], e)
                  : err_set(e, -ENOMEM, "%s: %s: its code", c->w->name, name);
    c->n_modules += rc == 0;
    return rc;
}

/* Larger scratch memory for the plans to come; those that exist keep theirs. */
static int grow_scratch(struct amd_tier *c, uint32_t lane_bytes, struct err *e)
{
    if (lane_bytes <= c->scratch.lane_bytes)
        return 0;
    if (c->scratch.mem.va && c->n_old_scratch == AMD_MAX_SCRATCH)
        return err_set(e, -ENOMEM, "%s: scratch memory has grown %d times", c->w->name, AMD_MAX_SCRATCH);
    if (c->scratch.mem.va)
        c->old_scratch[c->n_old_scratch++] = c->scratch.mem;
    c->scratch = (struct amd_scratch){ 0 };
    int rc = amd_scratch_alloc(c->w, lane_bytes, &c->scratch, e);
    if (!rc)
        amd_log(c->w, LOG_INFO, "%u bytes of scratch a lane: %.1f MiB", lane_bytes,
                (double)c->scratch.mem.bytes / 1048576.0);
    return rc;
}

int amd_kernels_need(struct amd_tier *c, const bool need[KERNEL_COUNT], struct err *e)
{
    uint32_t lane = 0;
    int rc = 0;
    for (uint32_t k = 0; k < KERNEL_COUNT && !rc; k++) {
        const struct kernel_info *info = &kernel_infos[k];
        if (!need[k] || c->kernel[k].name[0])
            continue;
        if (!find_module(c, info->module))
            rc = add_module(c, info->module, e);
        if (!rc)
            rc = amd_module_kernel(find_module(c, info->module), info->name, &c->kernel[k], e);
        if (rc)
            break;
        lane = MAX(lane, amd_kernel_lane_bytes(&c->kernel[k]));
        amd_log(c->w, LOG_DEBUG, "%s: %u VGPRs, %u bytes of scratch", info->name, c->kernel[k].vgprs,
                c->kernel[k].scratch_bytes);
    }
    return rc ? rc : grow_scratch(c, lane, e);
}

/* ---- open, close ---- */

static void destroy(struct tier *t)
{
    struct amd_tier *c = amd_of(t);
    while (c->plans)
        amd_plan_destroy(&c->plans->r.base);
    c->w->ops->stop(c->w);
    for (int a = 0; a < ARENA_COUNT; a++)
        amd_mem_free(&c->arena[a]);
    amd_mem_free(&c->seq);
    amd_mem_free(&c->fence);
    amd_mem_free(&c->io);
    amd_mem_free(&c->scratch.mem);
    for (uint32_t i = 0; i < c->n_old_scratch; i++)
        amd_mem_free(&c->old_scratch[i]);
    for (uint32_t i = 0; i < c->n_modules; i++)
        amd_module_free(&c->modules[i]);
    amd_bodies_free(c->bodies);
    amd_copier_free(&c->copier);
    c->w->ops->destroy(c->w);
    free(c->modules);
    replay_free(&c->r);
    free(c);
}

static int add(struct replay *r, const float a[REPLAY_CHECK_N], float y[REPLAY_CHECK_N], struct err *e)
{
    enum { A_AT = 1024, Y_AT = 2048, SECONDS = 30 };
    struct amd_tier *c = amd_of_replay(r);
    struct amd_mem m;
    int rc = amd_mem_alloc(c->w, AMD_HOST, AMD_PAGE, "self-check", &m, e);
    if (rc)
        return rc;
    volatile float *to = (float *)((uint8_t *)m.cpu + A_AT), *from = (float *)((uint8_t *)m.cpu + Y_AT);
    ((ka_step *)m.cpu)->n_rows = 1;
    for (int i = 0; i < REPLAY_CHECK_N; i++)
        to[i] = a[i];
    kl_add args = { .step = m.va, .y = m.va + Y_AT, .a = m.va + A_AT, .b = m.va + A_AT, .n = REPLAY_CHECK_N };
    struct amd_launch l = { .kernel = &c->kernel[K_add], .args = &args, .args_bytes = sizeof args,
                            .groups = { 1, 1, 1 }, .threads = kernel_infos[K_add].threads };
    rc = amd_run_kernel(c->w, &l, SECONDS * 1000000000ull, NULL, e);
    for (int i = 0; i < REPLAY_CHECK_N && !rc; i++)
        y[i] = env_get()->kfd_unchecked ? 2.0f * a[i] : from[i];
    if (rc == -ETIME)
        rc = -EIO;
    if (rc != -EIO) /* else the GPU may still write there */
        amd_mem_free(&m);
    return rc;
}

static int set_up(struct amd_tier *c, struct err *e)
{
    const struct amd_card *card = &c->w->card;
    bool need[KERNEL_COUNT] = { [K_gather] = true, [K_add] = true };
    uint64_t free_bytes = 0;
    int rc;
    if ((rc = amd_copier_init(&c->copier, c->w, e)) || (rc = amd_kernels_need(c, need, e)))
        return rc;
    c->copier.gather = c->kernel[K_gather];
    c->copier.has_gather = true;
    if (c->w->ops->mem_available(c->w, &free_bytes, NULL) == 0)
        c->r.tier.info.mem_free_bytes = free_bytes;
    c->r.target = (struct dispatch_target){ .n_cores = card->n_cu, .shared_max = PM4_LDS_MAX_BYTES,
                                            .shared_core = PM4_LDS_MAX_BYTES, .amd = true,
                                            .prompt_split = card->chip->gen == PM4_GFX11 ? 256 : 0 };
    if ((rc = replay_self_check(&c->r, card->name, "", e)) ||
        (rc = amd_mem_alloc(c->w, AMD_VRAM, 256, "step counter", &c->seq, e)) ||
        (env_get()->amd_barrier > 0 && (rc = amd_mem_alloc(c->w, AMD_PRIVATE, 256, "fence of barriers", &c->fence, e))))
        return rc;
    return amd_zero(&c->copier, &c->seq, 0, c->seq.bytes, e);
}

static int alloc_arenas(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    struct amd_tier *c = amd_of(t);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        char name[32];
        snprintf(name, sizeof name, "the %s arena", names[a]);
        int rc = amd_mem_alloc(c->w, AMD_VRAM, MAX(bytes[a], 256u), name, &c->arena[a], e);
        if (!rc)
            rc = amd_zero(&c->copier, &c->arena[a], 0, c->arena[a].bytes, e);
        if (rc)
            return rc;
    }
    int rc = amd_mem_alloc(c->w, AMD_HOST, MAX(bytes[ARENA_IO], 256u), "mirror of io", &c->io, e);
    if (!rc)
        c->r.mirror = c->io.cpu;
    c->r.mirrored = true;
    return rc;
}

/* ---- reading and writing ---- */

static int finish_steps(struct amd_tier *c, struct err *e)
{
    return replay_finish(&c->r, c->w->point, e);
}

/* The GPU copies whole words: bytes around them come along. */
static int read_words(struct amd_tier *c, const struct amd_mem *m, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    uint64_t from = off & ~3ull, bytes = align_up(off + n, 4) - from;
    uint8_t *words = malloc(bytes);
    if (!words)
        return err_set(e, -ENOMEM, "%s: %llu bytes", c->w->name, (unsigned long long)bytes);
    int rc = amd_download(&c->copier, m, from, words, bytes, e);
    if (!rc)
        memcpy(dst, words + (off - from), n);
    free(words);
    return rc;
}

static int write_words(struct amd_tier *c, struct amd_mem *m, uint64_t off, const void *src, uint64_t n,
                       struct err *e)
{
    uint64_t from = off & ~3ull, bytes = align_up(off + n, 4) - from;
    uint8_t *words = malloc(bytes);
    if (!words)
        return err_set(e, -ENOMEM, "%s: %llu bytes", c->w->name, (unsigned long long)bytes);
    int rc = amd_download(&c->copier, m, from, words, bytes, e);
    if (!rc) {
        memcpy(words + (off - from), src, n);
        rc = amd_upload(&c->copier, m, from, words, bytes, e);
    }
    free(words);
    return rc;
}

static int read_arena(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    struct amd_tier *c = amd_of(t);
    int rc = finish_steps(c, e);
    if (rc || !n)
        return rc;
    if (off % 4 || n % 4)
        return read_words(c, &c->arena[a], off, dst, n, e);
    return amd_download(&c->copier, &c->arena[a], off, dst, n, e);
}

static int write_arena(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    struct amd_tier *c = amd_of(t);
    int rc = finish_steps(c, e);
    if (rc || !n)
        return rc;
    if (!c->arena[a].cpu && (off % 4 || n % 4))
        return write_words(c, &c->arena[a], off, src, n, e);
    return amd_upload(&c->copier, &c->arena[a], off, src, n, e);
}

static int copy_arena(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    struct amd_tier *c = amd_of(t);
    int rc = finish_steps(c, e);
    return rc ? rc : amd_copy(&c->copier, &c->arena[a], dst, src, n, e);
}

static int read_once(struct replay *r, void *user, uint64_t *ns, struct err *e)
{
    struct amd_tier *c = amd_of_replay(r);
    struct amd_launch l = { .kernel = &c->kernel[K_roof], .args = user, .args_bytes = sizeof(kl_roof),
                            .groups = { 4 * r->target.n_cores, 1, 1 }, .threads = kernel_infos[K_roof].threads };
    return amd_run_kernel(c->w, &l, 600 * 1000000000ull, ns, e);
}

/* The weights are read when they are large enough to be more than caches hold, as decoding reads them; else memory of
 * its own. */
static int roof(struct tier *t, double *gbs, struct err *e)
{
    enum { READS = 3 };
    const uint64_t least = (uint64_t)512 << 20, most = (uint64_t)2 << 30;
    struct amd_tier *c = amd_of(t);
    bool need[KERNEL_COUNT] = { [K_roof] = true };
    struct amd_mem own = { 0 };
    int rc = finish_steps(c, e);
    if (rc || (rc = amd_kernels_need(c, need, e)))
        return rc;
    if (c->r.weight_bytes < least && (rc = amd_mem_alloc(c->w, AMD_PRIVATE, least, "measuring the roof", &own, e)))
        return rc;
    uint64_t bytes = own.va ? least : MIN(c->r.weight_bytes, most);
    kl_roof args = { .p = own.va ? own.va : c->arena[ARENA_WEIGHTS].va, .out = c->seq.va + 64,
                     .n16 = (uint32_t)(bytes / 16) };
    rc = replay_roof(&c->r, bytes, READS, read_once, &args, gbs, e);
    amd_mem_free(&own);
    return rc;
}

static void rest(struct tier *t)
{
    struct amd_tier *c = amd_of(t);
    if (c->w->ops->rest && amd_is_done(c->w, c->w->point))
        c->w->ops->rest(c->w);
}

static const struct replay_ops ops = { .run = amd_plan_run, .add = add };
static const struct tier_impl impl = {
    .destroy = destroy,
    .load = amd_load,
    .alloc = alloc_arenas,
    .prepare = amd_plan_prepare,
    .plan_destroy = amd_plan_destroy,
    .submit = replay_submit,
    .next = replay_next,
    .wait = amd_plan_wait,
    .read = read_arena,
    .write = write_arena,
    .copy = copy_arena,
    .map = replay_map,
    .fault = replay_fault,
    .dump = amd_plan_dump,
    .trace = replay_trace,
    .submit_prefix = replay_submit_prefix,
    .resident = replay_resident,
    .roof = roof,
    .rest = rest,
};

int amd_tier_open(struct amd_winsys *w, const struct tier_info *info, const struct tier_opts *o, struct tier **out,
                  struct err *e)
{
    struct err why = { 0 };
    struct amd_tier *c = calloc(1, sizeof *c);
    if (!c) {
        w->ops->destroy(w);
        return err_set(e, -ENOMEM, "%s: tier object", w->name);
    }
    c->w = w;
    c->impl = impl;
    c->impl.name = w->name;
    c->r.tier.impl = &c->impl;
    c->r.tier.info = *info;
    c->r.ops = &ops;
    c->r.check = o->check;
    c->r.trace_on = o->trace;
    int rc = set_up(c, &why);
    if (rc == -EIO) { /* it opened, and then did not do what it was told */
        amd_report(c, &why, "checking that it works");
        why = c->r.fault;
    }
    if (rc) {
        destroy(&c->r.tier);
        return err_set(e, rc, "%s", why.msg);
    }
    *out = &c->r.tier;
    return 0;
}
