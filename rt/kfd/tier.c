/* rt/kfd/tier.c: the kfd tier's front: which GPU, open, kernels, arenas, reading and writing. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/blob.h"
#include "rt/kfd/plan.h"
#include "rt/kfd/priv.h"

/* ---- which GPU ---- */

static const char *without_prefix(const struct err *e)
{
    return strncmp(e->msg, "kfd: ", 5) == 0 ? e->msg + 5 : e->msg;
}

static bool matches(const struct kfd_gpu *g, uint32_t i, const struct tier_opts *o)
{
    if (o->device_name)
        return strcasestr(g->name, o->device_name) != NULL;
    return o->device < 0 || (uint32_t)o->device == i;
}

/* Those that zinc has kernels for, then the larger. */
static uint64_t rank(const struct kfd_gpu *g)
{
    return (uint64_t)(g->chip != NULL) << 40 | g->n_cu;
}

/* The GPU of the options, or the best; else a note. */
static int pick_gpu(struct kfd_sys *s, const struct tier_opts *o, struct kfd_gpu *out, char *note, size_t n_note)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    struct err e = { 0 };
    char seen[100] = "";
    const struct kfd_gpu *best = NULL;
    int n = kfd_topology(s, gpu, KFD_MAX_GPUS, &e);
    if (n < 0) {
        snprintf(note, n_note, "%.*s", (int)n_note - 1, without_prefix(&e));
        return n;
    }
    for (int i = 0; i < n; i++) {
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%d: %s", len ? ", " : "", i, gpu[i].name);
        if (matches(&gpu[i], (uint32_t)i, o) && (!best || rank(&gpu[i]) > rank(best)))
            best = &gpu[i];
    }
    if (!best) {
        if (o->device_name)
            snprintf(note, n_note, "no GPU's name contains '%.32s'; there are %.80s", o->device_name, seen);
        else
            snprintf(note, n_note, "no GPU %d; there are %s", o->device, seen);
        return -ENODEV;
    }
    *out = *best;
    return 0;
}

static int probe(const struct tier_opts *o, struct tier_info *info, struct kfd_gpu *g, struct err *e)
{
    struct kfd_sys *s = kfd_sys_current();
    int rc = pick_gpu(s, o, g, info->note, sizeof info->note);
    if (rc)
        return err_set(e, rc, "kfd: %s", info->note);
    snprintf(info->device, sizeof info->device, "%s", g->name);
    if (!g->chip)
        rc = err_set(e, -ENODEV, "kfd: %s is not one of the chips that zinc has kernels for: gfx1100, gfx1151, "
                     "gfx1200, gfx1201", g->name);
    else if (!kernel_blob_find("basic", g->chip->name))
        rc = err_set(e, -ENODEV, "kfd: this binary was built without clang-19 and lld-19, so it has no kernels for "
                     "%s",
                     g->chip->name);
    else
        rc = kfd_access(s, g, e);
    if (rc)
        return rc;
    snprintf(info->note, sizeof info->note, "amdgpu driver, PM4 queue, kernels for %s", g->chip->name);
    info->mem_bytes = g->vram_bytes;
    info->by_capacity = true;
    info->kv_planes = true;
    info->chunk = 2048;
    return 0;
}

static int kfd_probe(const struct tier_opts *o, struct tier_info *info)
{
    struct kfd_gpu g;
    struct err e = { 0 };
    int rc = probe(o, info, &g, &e);
    if (rc)
        snprintf(info->note, sizeof info->note, "%.*s", (int)sizeof info->note - 1, without_prefix(&e));
    return rc;
}

/* ---- kernels ---- */

static const struct kfd_module *find_module(const struct kfd_tier *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_modules; i++)
        if (strcmp(c->modules[i].name, name) == 0)
            return &c->modules[i];
    return NULL;
}

static int add_module(struct kfd_tier *c, const char *name, struct err *e)
{
    const char *target = c->dev->gpu.chip->name;
    const struct kernel_blob *b = kernel_blob_find(name, target);
    if (!b)
        return err_set(e, -ENOTSUP, "kfd: this binary has no module %s for %s (built without clang-19?)", name,
                       target);
    struct kfd_module *m = realloc(c->modules, (c->n_modules + 1) * sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "kfd: module table");
    c->modules = m;
    int rc = kfd_module_load(c->q, name, b->data, (uint64_t)(b->end - b->data), &m[c->n_modules], e);
    c->n_modules += rc == 0;
    return rc;
}

/* Larger scratch memory for the plans to come; those that exist keep theirs. */
static int grow_scratch(struct kfd_tier *c, uint32_t lane_bytes, struct err *e)
{
    if (lane_bytes <= c->scratch.lane_bytes)
        return 0;
    if (c->scratch.mem && c->n_old_scratch == KFD_MAX_SCRATCH)
        return err_set(e, -ENOMEM, "kfd: scratch memory has grown %d times", KFD_MAX_SCRATCH);
    if (c->scratch.mem)
        c->old_scratch[c->n_old_scratch++] = c->scratch.mem;
    c->scratch = (struct kfd_scratch){ 0 };
    int rc = kfd_scratch_alloc(c->dev, lane_bytes, &c->scratch, e);
    if (!rc)
        log_info(KFD, "%u bytes of scratch a lane: %.1f MiB", lane_bytes, (double)c->scratch.mem->bytes / 1048576.0);
    return rc;
}

int kfd_kernels_need(struct kfd_tier *c, const bool need[KERNEL_COUNT], struct err *e)
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
            rc = kfd_module_kernel(find_module(c, info->module), info->name, &c->kernel[k], e);
        if (rc)
            break;
        lane = MAX(lane, kfd_kernel_lane_bytes(&c->kernel[k]));
        log_debug(KFD, "%s: %u VGPRs, %u bytes of scratch", info->name, c->kernel[k].vgprs,
                  c->kernel[k].scratch_bytes);
    }
    return rc ? rc : grow_scratch(c, lane, e);
}

/* ---- open, close ---- */

static void kfd_destroy(struct tier *t)
{
    struct kfd_tier *c = kfd_of(t);
    while (c->plans)
        kfd_plan_destroy(&c->plans->base);
    kfd_queue_destroy(c->q);
    if (c->dev) {
        for (int a = 0; a < ARENA_COUNT; a++)
            kfd_mem_free(c->arena[a]);
        kfd_mem_free(c->seq);
        kfd_mem_free(c->io);
        kfd_mem_free(c->scratch.mem);
        for (uint32_t i = 0; i < c->n_old_scratch; i++)
            kfd_mem_free(c->old_scratch[i]);
        for (uint32_t i = 0; i < c->n_modules; i++)
            kfd_module_free(&c->modules[i]);
        kfd_copier_free(&c->copier);
        kfd_close(c->dev);
    }
    free(c->modules);
    free(c->trace);
    free(c);
}

/* Does the GPU execute what it is given? One addition, looked at. */
static int self_check(struct kfd_tier *c, struct err *e)
{
    enum { N = 64, A_AT = 1024, Y_AT = 2048, SECONDS = 30 };
    struct kfd_mem *m;
    int rc = kfd_mem_alloc(c->dev, KFD_HOST, KFD_PAGE, "self-check", &m, e);
    if (rc)
        return rc;
    volatile float *a = (float *)((uint8_t *)m->cpu + A_AT), *y = (float *)((uint8_t *)m->cpu + Y_AT);
    ((ka_step *)m->cpu)->n_rows = 1;
    for (int i = 0; i < N; i++)
        a[i] = (float)i;
    kl_add args = { .step = m->va, .y = m->va + Y_AT, .a = m->va + A_AT, .b = m->va + A_AT, .n = N };
    struct kfd_launch l = { .kernel = &c->kernel[K_add], .args = &args, .args_bytes = sizeof args, .groups = { 1, 1,
                                                                                                               1 },
                            .threads = kernel_infos[K_add].threads };
    rc = kfd_run_kernel(c->q, &l, SECONDS * 1000000000ull, NULL, e);
    for (int i = 0; i < N && !rc && !env_get()->kfd_unchecked; i++)
        if (y[i] != 2.0f * a[i])
            rc = err_set(e, -EIO, "kfd: self-check: %g + %g gave %g on %s", (double)a[i], (double)a[i], (double)y[i],
                         c->dev->gpu.name);
    if (rc == -ETIME)
        rc = -EIO;
    if (rc != -EIO) /* else the GPU may still write there */
        kfd_mem_free(m);
    return rc;
}

static int open_gpu(struct kfd_tier *c, const struct kfd_gpu *g, struct err *e)
{
    bool need[KERNEL_COUNT] = { [K_gather] = true, [K_add] = true };
    uint64_t free_bytes = 0;
    int rc = kfd_open(g, &c->dev, e);
    if (rc)
        return rc;
    c->dev->hang_ns = (uint64_t)MAX(env_get()->kfd_timeout, 0) * 1000000000u;
    if ((rc = kfd_queue_create(c->dev, KFD_RING_BYTES, &c->q, e)) || (rc = kfd_copier_init(&c->copier, c->q, e)) ||
        (rc = kfd_kernels_need(c, need, e)))
        return rc;
    c->copier.gather = c->kernel[K_gather];
    c->copier.has_gather = true;
    if (kfd_mem_available(c->dev, &free_bytes, NULL) == 0)
        c->base.info.mem_free_bytes = free_bytes;
    c->t = (struct dispatch_target){ .n_cores = g->n_cu, .shared_max = PM4_LDS_MAX_BYTES,
                                     .shared_core = PM4_LDS_MAX_BYTES,
                                     .amd = true, .zero_moves = g->chip->gen == PM4_GFX11 };
    if ((rc = self_check(c, e)) || (rc = kfd_mem_alloc(c->dev, KFD_VRAM, 256, "step counter", &c->seq, e)))
        return rc;
    return kfd_zero(&c->copier, c->seq, 0, c->seq->bytes, e);
}

static int kfd_alloc_arenas(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    struct kfd_tier *c = kfd_of(t);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        char name[32];
        snprintf(name, sizeof name, "the %s arena", names[a]);
        int rc = kfd_mem_alloc(c->dev, KFD_VRAM, MAX(bytes[a], 256u), name, &c->arena[a], e);
        if (!rc)
            rc = kfd_zero(&c->copier, c->arena[a], 0, c->arena[a]->bytes, e);
        if (rc)
            return rc;
    }
    c->mirrored = true;
    return kfd_mem_alloc(c->dev, KFD_HOST, MAX(bytes[ARENA_IO], 256u), "mirror of io", &c->io, e);
}

/* ---- reading and writing ---- */

static int finish_steps(struct kfd_tier *c, struct err *e)
{
    int rc;
    while ((rc = kfd_wait(&c->base, c->q->point, 1000000000u)) == -ETIME) {
    }
    return rc ? err_set(e, rc, "%s", c->fault.msg) : 0;
}

/* The GPU copies whole words: bytes around them come along. */
static int read_words(struct kfd_tier *c, const struct kfd_mem *m, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    uint64_t from = off & ~3ull, bytes = align_up(off + n, 4) - from;
    uint8_t *words = malloc(bytes);
    if (!words)
        return err_set(e, -ENOMEM, "kfd: %llu bytes", (unsigned long long)bytes);
    int rc = kfd_download(&c->copier, m, from, words, bytes, e);
    if (!rc)
        memcpy(dst, words + (off - from), n);
    free(words);
    return rc;
}

static int write_words(struct kfd_tier *c, struct kfd_mem *m, uint64_t off, const void *src, uint64_t n,
                       struct err *e)
{
    uint64_t from = off & ~3ull, bytes = align_up(off + n, 4) - from;
    uint8_t *words = malloc(bytes);
    if (!words)
        return err_set(e, -ENOMEM, "kfd: %llu bytes", (unsigned long long)bytes);
    int rc = kfd_download(&c->copier, m, from, words, bytes, e);
    if (!rc) {
        memcpy(words + (off - from), src, n);
        rc = kfd_upload(&c->copier, m, from, words, bytes, e);
    }
    free(words);
    return rc;
}

static int kfd_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    int rc = finish_steps(c, e);
    if (rc || !n)
        return rc;
    if (off % 4 || n % 4)
        return read_words(c, c->arena[a], off, dst, n, e);
    return kfd_download(&c->copier, c->arena[a], off, dst, n, e);
}

static int kfd_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    int rc = finish_steps(c, e);
    if (rc || !n)
        return rc;
    if (!c->arena[a]->cpu && (off % 4 || n % 4))
        return write_words(c, c->arena[a], off, src, n, e);
    return kfd_upload(&c->copier, c->arena[a], off, src, n, e);
}

static int kfd_copy_arena(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    struct kfd_tier *c = kfd_of(t);
    int rc = finish_steps(c, e);
    return rc ? rc : kfd_copy(&c->copier, c->arena[a], dst, src, n, e);
}

static const void *kfd_map_arena(struct tier *t, enum arena a, uint64_t off)
{
    struct kfd_tier *c = kfd_of(t);
    return a == ARENA_IO && c->mirrored ? (const uint8_t *)c->io->cpu + off : NULL;
}

static int kfd_fault(struct tier *t, struct err *out)
{
    struct kfd_tier *c = kfd_of(t);
    if (!c->fault.msg[0])
        return -ENOENT;
    *out = c->fault;
    return 0;
}

static uint32_t kfd_trace(struct tier *t, const struct tier_trace **out)
{
    struct kfd_tier *c = kfd_of(t);
    *out = c->trace;
    return c->n_trace;
}

static uint64_t kfd_resident(const struct tier *t)
{
    const struct kfd_tier *c = (const struct kfd_tier *)t;
    uint64_t sum = c->weight_bytes + c->work_bytes;
    for (int a = 0; a < ARENA_COUNT; a++)
        sum += t->arena_bytes[a];
    return sum;
}

/* The weights are read when they are large enough to be more than caches hold, as decoding reads them; else memory of
 * its own. */
static int kfd_roof(struct tier *t, double *gbs, struct err *e)
{
    enum { READS = 3 };
    const uint64_t least = (uint64_t)512 << 20, most = (uint64_t)2 << 30, long_ns = 1000000000;
    struct kfd_tier *c = kfd_of(t);
    bool need[KERNEL_COUNT] = { [K_roof] = true };
    struct kfd_mem *own = NULL;
    uint64_t best = UINT64_MAX, ns = 0;
    int rc = finish_steps(c, e);
    if (rc || (rc = kfd_kernels_need(c, need, e)))
        return rc;
    if (c->weight_bytes < least && (rc = kfd_mem_alloc(c->dev, KFD_PRIVATE, least, "measuring the roof", &own, e)))
        return rc;
    uint64_t bytes = own ? least : MIN(c->weight_bytes, most);
    kl_roof args = { .p = own ? own->va : c->arena[ARENA_WEIGHTS]->va, .out = c->seq->va + 64,
                     .n16 = (uint32_t)(bytes / 16) };
    struct kfd_launch l = { .kernel = &c->kernel[K_roof], .args = &args, .args_bytes = sizeof args,
                            .groups = { 4 * c->t.n_cores, 1, 1 }, .threads = kernel_infos[K_roof].threads };
    for (int i = 0; i < READS && !rc && ns < long_ns; i++) {
        rc = kfd_run_kernel(c->q, &l, 600 * 1000000000ull, &ns, e);
        best = MIN(best, ns);
    }
    kfd_mem_free(own);
    if (!rc)
        *gbs = (double)bytes / (double)MAX(best, 1u);
    return rc;
}

static const struct tier_impl kfd_impl = {
    .name = "kfd",
    .destroy = kfd_destroy,
    .load = kfd_load,
    .alloc = kfd_alloc_arenas,
    .prepare = kfd_prepare,
    .plan_destroy = kfd_plan_destroy,
    .submit = kfd_submit,
    .wait = kfd_wait,
    .read = kfd_read,
    .write = kfd_write,
    .copy = kfd_copy_arena,
    .map = kfd_map_arena,
    .fault = kfd_fault,
    .dump = kfd_plan_dump,
    .trace = kfd_trace,
    .submit_prefix = kfd_submit_prefix,
    .resident = kfd_resident,
    .roof = kfd_roof,
};

static int kfd_open_tier(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct kfd_gpu g;
    struct kfd_tier *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "kfd: tier object");
    c->base.impl = &kfd_impl;
    c->check = o->check;
    c->trace_on = o->trace;
    int rc = probe(o, &c->base.info, &g, e);
    if (!rc)
        rc = open_gpu(c, &g, e);
    if (rc == -EIO && c->q) { /* it opened, and then did not do what it was told */
        kfd_report(c, e ? e : &(struct err){ .msg = "kfd: the GPU failed" }, "checking that it works");
        if (e)
            *e = c->fault;
    }
    if (rc) {
        kfd_destroy(&c->base);
        return rc;
    }
    *out = &c->base;
    return 0;
}

const struct tier_driver tier_driver_kfd = { "kfd", kfd_probe, kfd_open_tier };
