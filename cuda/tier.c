/* cuda/tier.c: the cuda tier's front: which device, open, arenas, reading and writing. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/log.h"
#include "cuda/cuda.h"

int cuda_fail(const struct cuda *c, cu_result r, struct err *e, const char *fmt, ...)
{
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (r != CU_OUT_OF_MEMORY)
        return err_set(e, -EIO, "cuda: %s: %s", what, cuda_error(c->cu, r));
    size_t free_bytes = 0, total = 0;
    c->cu->mem_info(&free_bytes, &total);
    return err_set(e, -ENOMEM, "cuda: no room for %s: %s has %zu MiB free of %zu: a smaller --ctx or model, or --tier=cpu",
                   what, c->name, free_bytes >> 20, total >> 20);
}

cu_result cuda_settle(struct cuda *c, cu_result made)
{
    return made ? made : c->cu->stream_sync(NULL);
}

int cuda_host_alloc(struct cuda *c, struct cuda_host *h, uint64_t bytes, struct err *e)
{
    h->bytes = MAX(bytes, 64u);
    cu_result r = c->cu->host_alloc(&h->p, h->bytes, CU_HOST_MAPPED | CU_HOST_PORTABLE);
    if (!r)
        r = c->cu->host_device(&h->va, h->p, 0);
    if (r)
        return cuda_fail(c, r, e, "%llu KiB of host memory", (unsigned long long)(h->bytes >> 10));
    memset(h->p, 0, h->bytes);
    return 0;
}

void cuda_host_free(struct cuda *c, struct cuda_host *h)
{
    if (h->p)
        c->cu->host_free(h->p);
    *h = (struct cuda_host){ 0 };
}

/* ---- which device ---- */

static int attr(const struct cuda_api *cu, cu_device d, int what)
{
    int v = 0;
    cu->device_attr(&v, what, d);
    return v;
}

/* Later architectures first, then the larger memory. */
static uint64_t rank(const struct cuda_api *cu, cu_device d)
{
    size_t bytes = 0;
    cu->device_mem(&bytes, d);
    return ((uint64_t)attr(cu, d, CU_ATTR_CC_MAJOR) << 56) + ((uint64_t)attr(cu, d, CU_ATTR_CC_MINOR) << 48) +
           (bytes >> 20);
}

static bool contains(const char *name, const char *part)
{
    return strcasestr(name, part) != NULL;
}

/* The device of the options, or the best; -1 and a note. */
static int pick_device(const struct cuda_api *cu, const struct tier_opts *o, cu_device *dev, char *note, size_t n_note)
{
    int n = 0;
    char name[64], seen[100] = "";
    bool found = false;
    if (cu->device_count(&n) || n == 0) {
        snprintf(note, n_note, "the NVIDIA driver sees no GPU");
        return -ENODEV;
    }
    for (int i = 0; i < n; i++) {
        cu_device d;
        if (cu->device_get(&d, i) || cu->device_name(name, sizeof name, d))
            continue;
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%d is %s", len ? ", " : "", i, name);
        if (o->device_name ? !contains(name, o->device_name) : o->device >= 0 && o->device != i)
            continue;
        if (!found || rank(cu, d) > rank(cu, *dev))
            *dev = d;
        found = true;
    }
    if (found)
        return 0;
    if (o->device_name)
        snprintf(note, n_note, "no device's name contains '%.32s'; here: %.80s", o->device_name, seen);
    else
        snprintf(note, n_note, "there is no device %d; here: %s", o->device, seen);
    return -ENODEV;
}

static const char *target_of(const struct cuda_api *cu, cu_device d)
{
    int major = attr(cu, d, CU_ATTR_CC_MAJOR), minor = attr(cu, d, CU_ATTR_CC_MINOR);
    return major == 9 && minor == 0 ? "sm_90a" : major >= 8 ? "sm_80" : NULL;
}

static int probe(const struct tier_opts *o, struct tier_info *info, const struct cuda_api **out, cu_device *dev)
{
    const struct cuda_api *cu = cuda_api_get(info->note, sizeof info->note);
    if (!cu)
        return -ENODEV;
    int rc = pick_device(cu, o, dev, info->note, sizeof info->note);
    if (rc)
        return rc;
    size_t bytes = 0;
    char name[64] = "";
    cu->device_name(name, sizeof name, *dev);
    cu->device_mem(&bytes, *dev);
    const char *target = target_of(cu, *dev);
    snprintf(info->device, sizeof info->device, "%s", name);
    if (!target) {
        snprintf(info->note, sizeof info->note, "%s has compute capability %d.%d, zinc needs 8.0", name,
                 attr(cu, *dev, CU_ATTR_CC_MAJOR), attr(cu, *dev, CU_ATTR_CC_MINOR));
        return -ENODEV;
    }
    if (!kernel_blob_find("basic", target)) {
        snprintf(info->note, sizeof info->note, "this binary has no kernels for it: built without clang-19, or with NO_NV=1 or "
                 "NV_TARGETS (make builds them)");
        return -ENODEV;
    }
    snprintf(info->note, sizeof info->note, "driver for CUDA %d.%d, kernels for %s", cu->version / 1000,
             cu->version % 1000 / 10, target);
    info->mem_bytes = bytes;
    info->by_capacity = true;
    info->kv_planes = true;
    info->decode_rows = KL_ROWS_MAX;
    info->expert_slots = strcmp(target, "sm_90a") == 0 ? 32 : 0; /* measured there (doc/speed-log.md) */
    info->chunk = 2048;
    *out = cu;
    return 0;
}

static int cuda_probe(const struct tier_opts *o, struct tier_info *info)
{
    const struct cuda_api *cu;
    cu_device dev;
    return probe(o, info, &cu, &dev);
}

/* ---- open, close ---- */

static void cuda_destroy(struct tier *t)
{
    struct cuda *c = cuda_of(t);
    const struct cuda_api *cu = c->cu;
    if (c->retained) {
        cu->ctx_set(c->ctx);
        if (c->q) {
            cu->stream_sync(c->q);
            cu->stream_destroy(c->q);
        }
        for (int a = 0; a < ARENA_COUNT; a++)
            if (c->arena[a])
                cu->mem_free(c->arena[a]);
        if (c->seq)
            cu->mem_free(c->seq);
        cuda_host_free(c, &c->io);
        cuda_host_free(c, &c->done);
        cuda_modules_free(c);
        cu->ctx_release(c->dev);
    }
    replay_free(&c->r);
    free(c);
}

static int add(struct replay *rp, const float a[REPLAY_CHECK_N], float y[REPLAY_CHECK_N], struct err *e)
{
    enum { BYTES = REPLAY_CHECK_N * sizeof(float) };
    struct cuda *c = cuda_of_replay(rp);
    bool need[KERNEL_COUNT] = { [K_add] = true };
    ka_step step = { .n_rows = 1 };
    cu_ptr mem = 0;
    int rc = cuda_modules_need(c, need, e);
    if (rc)
        return rc;
    const struct cuda_api *cu = c->cu;
    cu_result r = cu->mem_alloc(&mem, 4096);
    if (!r && !(r = cu->to_device(mem, &step, sizeof step)) && !(r = cuda_settle(c, cu->to_device(mem + 1024, a, BYTES)))) {
        kl_add args = { .step = mem, .y = mem + 2048, .a = mem + 1024, .b = mem + 1024, .n = REPLAY_CHECK_N };
        struct cu_launch l = { .grid = { 1, 1, 1 }, .block = { kernel_infos[K_add].threads, 1, 1 }, .stream = c->q };
        void *params[] = { &args };
        if (!(r = cu->launch(&l, c->func[K_add], params, NULL)) && !(r = cu->stream_sync(c->q)))
            r = cu->to_host(y, mem + 2048, BYTES);
    }
    if (mem)
        cu->mem_free(mem);
    return r ? cuda_fail(c, r, e, "self-check") : 0;
}

static int open_device(struct cuda *c, struct err *e)
{
    const struct cuda_api *cu = c->cu;
    /* twice, released once: the context stays for the next tier of this process, a new one takes a quarter of a second */
    cu_result r = cu->ctx_retain(&c->ctx, c->dev);
    if (!r && !(r = cu->ctx_retain(&c->ctx, c->dev)))
        c->retained = true;
    if (r)
        return cuda_fail(c, r, e, "context on %s", c->name);
    if ((r = cu->ctx_set(c->ctx)) || (r = cu->stream_create(&c->q, CU_STREAM_NON_BLOCKING)))
        return cuda_fail(c, r, e, "stream on %s", c->name);
    if ((r = cu->mem_alloc(&c->seq, 256)) || (r = cuda_settle(c, cu->set_bytes(c->seq, 0, 256))))
        return cuda_fail(c, r, e, "step counter");
    size_t free_bytes = 0, total = 0;
    cu->mem_info(&free_bytes, &total);
    c->r.tier.info.mem_bytes = total;
    c->r.tier.info.mem_free_bytes = free_bytes;
    c->target = target_of(cu, c->dev);
    c->r.target = (struct dispatch_target){ .n_cores = (uint32_t)attr(cu, c->dev, CU_ATTR_CORES),
                                            .shared_max = (uint32_t)attr(cu, c->dev, CU_ATTR_SHARED_PER_GROUP),
                                            .shared_core = (uint32_t)attr(cu, c->dev, CU_ATTR_SHARED_PER_CORE),
                                            .wgmma = strcmp(c->target, "sm_90a") == 0, .mma8 = true, .books = true,
                                            .ahead = strcmp(c->target, "sm_90a") == 0,
                                            .walks = strcmp(c->target, "sm_90a") == 0 };
    c->r.tier.info.persistent = c->r.target.walks;
    int rc = cuda_host_alloc(c, &c->done, sizeof(uint32_t), e);
    return rc ? rc : replay_self_check(&c->r, c->name, "", e);
}

static int cuda_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    struct cuda *c = cuda_of(t);
    c->cu->ctx_set(c->ctx);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        uint64_t n = MAX(bytes[a], 256u);
        cu_result r = c->cu->mem_alloc(&c->arena[a], n);
        if (!r)
            r = cuda_settle(c, c->cu->set_bytes(c->arena[a], 0, n));
        if (r)
            return cuda_fail(c, r, e, "the %s arena of %llu MiB", names[a], (unsigned long long)(n >> 20));
    }
    int rc = cuda_host_alloc(c, &c->io, bytes[ARENA_IO], e);
    c->r.mirrored = true;
    c->r.mirror = c->io.p;
    return rc;
}

/* ---- reading and writing ---- */

static int finish_steps(struct cuda *c, struct err *e)
{
    c->cu->ctx_set(c->ctx);
    int rc = replay_finish(&c->r, c->r.issued, e);
    cu_result r = !rc && c->copying ? c->cu->stream_sync(c->q) : CU_OK;
    c->copying = false;
    return rc ? rc : r ? cuda_fail(c, r, e, "copying") : 0;
}

static int cuda_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    struct cuda *c = cuda_of(t);
    int rc = finish_steps(c, e);
    cu_result r = rc || !n ? CU_OK : c->cu->to_host(dst, c->arena[a] + off, n);
    return rc ? rc : r ? cuda_fail(c, r, e, "reading %llu bytes", (unsigned long long)n) : 0;
}

static int cuda_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    struct cuda *c = cuda_of(t);
    int rc = finish_steps(c, e);
    cu_result r = rc || !n ? CU_OK : cuda_settle(c, c->cu->to_device(c->arena[a] + off, src, n));
    return rc ? rc : r ? cuda_fail(c, r, e, "writing %llu bytes", (unsigned long long)n) : 0;
}

static int move_rows(struct tier *t, enum arena a, const struct tier_rows *r, void *host, bool up, struct err *e)
{
    struct cuda *c = cuda_of(t);
    struct cu_side mem = { .kind = CU_MEMORY_HOST, .host = host, .pitch = r->host_pitch },
                   dev = { .kind = CU_MEMORY_DEVICE, .device = c->arena[a] + r->off, .pitch = r->pitch };
    struct cu_copy_2d m = { .src = up ? mem : dev, .dst = up ? dev : mem, .width = r->width, .rows = r->n };
    int rc = finish_steps(c, e);
    cu_result q = rc ? CU_OK : cuda_settle(c, c->cu->copy_2d(&m));
    return rc ? rc : q ? cuda_fail(c, q, e, "moving %u rows of %llu bytes", r->n, (unsigned long long)r->width) : 0;
}

static int cuda_read_rows(struct tier *t, enum arena a, const struct tier_rows *r, void *dst, struct err *e)
{
    return move_rows(t, a, r, dst, false, e);
}

static int cuda_write_rows(struct tier *t, enum arena a, const struct tier_rows *r, const void *src, struct err *e)
{
    return move_rows(t, a, r, (void *)(uintptr_t)src, true, e);
}

static int cuda_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    struct cuda *c = cuda_of(t);
    c->cu->ctx_set(c->ctx);
    cu_result r = c->cu->copy_async(c->arena[a] + dst, c->arena[a] + src, n, c->q);
    c->copying = true;
    return r ? cuda_fail(c, r, e, "copying %llu bytes", (unsigned long long)n) : 0;
}

/* Where the roof is read, and between which events. */
struct reading {
    kl_roof args;
    cu_event ev[2];
};

static int read_once(struct replay *rp, void *user, uint64_t *ns, struct err *e)
{
    struct cuda *c = cuda_of_replay(rp);
    const struct cuda_api *cu = c->cu;
    struct reading *x = user;
    struct cu_launch l = { .grid = { 4 * rp->target.n_cores, 1, 1 }, .block = { kernel_infos[K_roof].threads, 1, 1 },
                           .stream = c->q };
    void *params[] = { &x->args };
    float ms = 0.0f;
    cu_result r = cu->event_record(x->ev[0], c->q);
    if (!r && !(r = cu->launch(&l, c->func[K_roof], params, NULL)) && !(r = cu->event_record(x->ev[1], c->q)) &&
        !(r = cu->event_sync(x->ev[1])))
        r = cu->event_ms(&ms, x->ev[0], x->ev[1]);
    *ns = (uint64_t)((double)ms * 1e6);
    return r ? cuda_fail(c, r, e, "measuring the roof") : 0;
}

/* The weights are read when they are large enough, as decoding reads them; else memory of its own. */
static int cuda_roof(struct tier *t, double *gbs, struct err *e)
{
    enum { READS = 3 };
    struct cuda *c = cuda_of(t);
    const struct cuda_api *cu = c->cu;
    bool need[KERNEL_COUNT] = { [K_roof] = true };
    uint64_t bytes = (uint64_t)2 << 30;
    struct reading x = { .args = { .p = c->arena[ARENA_WEIGHTS], .out = c->seq + 64, .n16 = (uint32_t)(bytes / 16) } };
    cu_ptr own = 0;
    int rc = finish_steps(c, e);
    if (rc || (rc = cuda_modules_need(c, need, e)))
        return rc;
    cu_result r = c->r.weight_bytes < bytes ? cu->mem_alloc(&own, bytes) : CU_OK;
    for (int i = 0; i < 2 && !r; i++)
        r = cu->event_create(&x.ev[i], CU_EVENT_DEFAULT);
    if (own)
        x.args.p = own;
    rc = r ? cuda_fail(c, r, e, "measuring the roof") : replay_roof(&c->r, bytes, READS, read_once, &x, gbs, e);
    for (int i = 0; i < 2; i++)
        if (x.ev[i])
            cu->event_destroy(x.ev[i]);
    if (own)
        cu->mem_free(own);
    return rc;
}

static const struct replay_ops ops = { .run = cuda_run, .add = add };
static const struct tier_impl cuda_impl = {
    .name = "cuda",
    .destroy = cuda_destroy,
    .load = cuda_load,
    .alloc = cuda_alloc,
    .prepare = cuda_prepare,
    .plan_destroy = cuda_plan_destroy,
    .submit = replay_submit,
    .next = replay_next,
    .wait = cuda_wait,
    .read = cuda_read,
    .write = cuda_write,
    .copy = cuda_copy,
    .read_rows = cuda_read_rows,
    .write_rows = cuda_write_rows,
    .map = replay_map,
    .fault = replay_fault,
    .dump = cuda_plan_dump,
    .trace = replay_trace,
    .submit_prefix = replay_submit_prefix,
    .resident = replay_resident,
    .roof = cuda_roof,
};

static int cuda_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct cuda *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "cuda: tier object");
    c->r.tier.impl = &cuda_impl;
    c->r.ops = &ops;
    c->r.check = o->check;
    c->r.trace_on = o->trace;
    int rc = probe(o, &c->r.tier.info, &c->cu, &c->dev);
    if (rc)
        err_set(e, rc, "cuda: %s", c->r.tier.info.note);
    if (!rc) {
        snprintf(c->name, sizeof c->name, "%s", c->r.tier.info.device);
        rc = open_device(c, e);
    }
    if (rc) {
        cuda_destroy(&c->r.tier);
        return rc;
    }
    *out = &c->r.tier;
    return 0;
}

const struct tier_driver tier_driver_cuda = { "cuda", cuda_probe, cuda_open, NULL };
