/* metal/ladder.c: the metal tier's first rungs, from finding the runtime to steps in flight. */
#include "rt/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "metal/metal.h"

enum { PAGE = 4096, OUT_AT = METAL_ARGS_ALIGN };

struct rungs {
    struct metal_tier *m;
    struct metal_mem mem;
    int device;
    void *pool;
};

static int find_runtime(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = objc_open(e);
    if (rc)
        return rc;
    r->pool = objc.pool_push();
    snprintf(o->found, sizeof o->found, "libobjc and Metal are there, %d messages have their selectors", OBJC_MESSAGES);
    return 0;
}

static int find_device(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    const struct tier_opts opts = { .device = r->device };
    int rc = metal_pick(&opts, &r->m->device, e);
    if (rc || (rc = metal_check(r->m->device, e)))
        return rc;
    id d = r->m->device;
    snprintf(o->found, sizeof o->found, "%s, %u cores by its name; the GPU may use %llu MiB, a buffer %lu MiB", objc_text(device_name(d)),
             metal_cores(objc_text(device_name(d))), (unsigned long long)(device_working_set(d) >> 20), device_buffer_max(d) >> 20);
    for (long family = METAL_FAMILY_APPLE7; family < METAL_FAMILY_APPLE7 + 8; family++)
        fprintf(o->detail, "family Apple%ld: %s\n", family - METAL_FAMILY_APPLE7 + 7, device_family(d, family) ? "yes" : "no");
    return 0;
}

static int make_queue(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = metal_device_open(r->m, e);
    if (!rc)
        snprintf(o->found, sizeof o->found, "a queue with a residency set, and a shared event that stands at %llu",
                 (unsigned long long)event_value(r->m->event));
    return rc;
}

static int make_buffer(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = metal_alloc(r->m, PAGE, "ladder", &r->mem, e);
    if (rc)
        return rc;
    if (!r->mem.cpu || !r->mem.va)
        return err_set(e, -EIO, "a shared buffer is at %p for the host and %#llx for the GPU, expected two addresses", (void *)r->mem.cpu,
                       (unsigned long long)r->mem.va);
    for (uint32_t i = 0; i < PAGE; i++)
        if (r->mem.cpu[i])
            return err_set(e, -EIO, "byte %u of a new buffer is %u, expected 0", i, r->mem.cpu[i]);
    snprintf(o->found, sizeof o->found, "%llu zeroed bytes, at %#llx for the GPU", (unsigned long long)r->mem.bytes, (unsigned long long)r->mem.va);
    return 0;
}

/* Command buffers that do nothing but raise the event. */
static int raise_event(void *state, struct ladder_out *o, struct err *e)
{
    enum { N = 16 };
    struct rungs *r = state;
    uint64_t t0 = clock_ns();
    for (int i = 0; i < N; i++) {
        uint64_t point = ++r->m->point;
        id b = queue_buffer(r->m->queue);
        cmdbuf_signal(b, r->m->event, point);
        commit(b);
        if (!event_wait(r->m->event, point, 5000))
            return err_set(e, -ETIME, "the event is at %llu after 5 s, expected %llu; the command buffer's status is %lu",
                           (unsigned long long)event_value(r->m->event), (unsigned long long)point, cmdbuf_status(b));
    }
    snprintf(o->found, sizeof o->found, "%d command buffers, %.1f us each from commit to the event", N, (double)(clock_ns() - t0) * 1e-3 / N);
    return 0;
}

static int compile_texts(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    bool need[KERNEL_COUNT] = { [K_add] = true, [K_ladder_ids] = true, [K_ladder_shared] = true };
    uint64_t t0 = clock_ns();
    int rc = metal_kernels_need(r->m, need, e);
    if (!rc)
        snprintf(o->found, sizeof o->found, "two texts and three pipelines in %.1f ms", (double)(clock_ns() - t0) * 1e-6);
    return rc;
}

static int again(struct metal_tier *m, enum kernel_id k, struct err *e)
{
    bool need[KERNEL_COUNT] = { false };
    need[k] = true;
    object_release(m->pipeline[k]);
    m->pipeline[k] = NULL;
    return metal_kernels_need(m, need, e);
}

/* Compiled into an archive, which is written, read, and has the pipeline. Where there is no folder, that is said. */
static int archive_pipelines(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct metal_tier *m = r->m;
    m->fresh = 2;
    metal_archives_open(m);
    int rc = again(m, K_add, e);
    bool made = m->archives.n_added;
    if (!rc)
        metal_archives_save(m);
    bool written = m->archives.written[0];
    metal_archives_close(m);
    m->fresh = 0;
    metal_archives_open(m);
    uint32_t n_read = m->archives.n_read;
    if (!rc && written)
        rc = again(m, K_add, e);
    bool missed = m->archives.n_added;
    metal_archives_close(m);
    if (rc)
        return rc;
    if (!written) {
        snprintf(o->found, sizeof o->found, "none is %s, every start compiles (ZINC_LOG=metal=info)", made ? "written" : "made");
        return 0;
    }
    if (!n_read || missed)
        return err_set(e, -EIO, "the archive that was just written is %s", n_read ? "read, and does not have the pipeline" : "not read");
    snprintf(o->found, sizeof o->found, "a pipeline is written, read and found; %u archives are there", n_read);
    return 0;
}

static int launch(struct rungs *r, enum kernel_id k, const uint32_t grid[3], uint32_t shared, uint32_t n, uint64_t *ns, struct err *e)
{
    const kl_ladder args = { .out = r->mem.va + OUT_AT, .n = n };
    memset(r->mem.cpu, 0xee, r->mem.bytes);
    memcpy(r->mem.cpu, &args, sizeof args);
    return metal_launch(r->m, k, &r->mem, grid, kernel_infos[k].threads, shared, ns, e);
}

static int dispatch_ids(void *state, struct ladder_out *o, struct err *e)
{
    enum { X = 3, Y = 2, Z = 2, SIZE = LADDER_IDS_THREADS, N = X * Y * Z * SIZE };
    struct rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = (const uint32_t *)(r->mem.cpu + OUT_AT);
    _Static_assert(N * 4 + OUT_AT <= PAGE, "one page of results");
    int rc = launch(r, K_ladder_ids, (const uint32_t[]){ X, Y, Z }, 0, N, &ns, e);
    for (uint32_t i = 0; i < N && !rc; i++) {
        uint32_t g = i / SIZE, want = i % SIZE + 1000 * (g % X) + 100000 * (g / X % Y) + 10000000 * (g / X / Y);
        if (got[i] != want)
            rc = err_set(e, -EIO, "word %u is %u, expected %u: work-item %u of work-group %u, %u, %u", i, got[i], want, i % SIZE, g % X,
                         g / X % Y, g / X / Y);
    }
    if (!rc)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d in three dimensions, each where it should be, %.1f us", X * Y * Z, SIZE,
                 (double)ns * 1e-3);
    return rc;
}

static int dispatch_shared(void *state, struct ladder_out *o, struct err *e)
{
    enum { GROUPS = 3, SIZE = LADDER_SHARED_THREADS };
    struct rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = (const uint32_t *)(r->mem.cpu + OUT_AT);
    _Static_assert(GROUPS * SIZE * 4 + OUT_AT <= PAGE, "one page of results");
    int rc = launch(r, K_ladder_shared, (const uint32_t[]){ GROUPS, 1, 1 }, SIZE * 4, GROUPS * SIZE, &ns, e);
    for (uint32_t i = 0; i < GROUPS * SIZE && !rc; i++) {
        uint32_t x = i / SIZE, t = i % SIZE, sum = 0;
        for (uint32_t lane = 0; lane < 32; lane++)
            sum += LADDER_VALUE(x, t / 32 * 32 + lane);
        uint32_t want = LADDER_VALUE(x, SIZE - 1 - t) ^ (sum << 3) ^ LADDER_VALUE(x, t / 32 * 32 + 31 - t % 32);
        if (got[i] != want)
            rc = err_set(e, -EIO, "work-group %u, work-item %u: %#x, expected %#x", x, t, got[i], want);
    }
    if (!rc)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d exchange words through threadgroup memory and between lanes, %.1f us", GROUPS,
                 SIZE, (double)ns * 1e-3);
    return rc;
}

/* Each of many command buffers doubles what the one before it left, or adds one: an order that is not theirs shows. */
static int in_flight(void *state, struct ladder_out *o, struct err *e)
{
    enum { N = KL_RING, ARGS2_AT = 256, STEP_AT = 512, Y_AT = 1024, ONE_AT = 2048 };
    struct rungs *r = state;
    struct metal_tier *m = r->m;
    kl_add args = { .step = r->mem.va + STEP_AT, .y = r->mem.va + Y_AT, .a = r->mem.va + Y_AT, .b = r->mem.va + Y_AT, .n = 1 };
    memset(r->mem.cpu, 0, r->mem.bytes);
    memcpy(r->mem.cpu, &args, sizeof args);
    args.b = r->mem.va + ONE_AT;
    memcpy(r->mem.cpu + ARGS2_AT, &args, sizeof args);
    *(float *)(r->mem.cpu + ONE_AT) = 1.0f;
    ((ka_step *)(r->mem.cpu + STEP_AT))->n_rows = 1;
    *(float *)(r->mem.cpu + Y_AT) = 1.0f;
    float want = 1.0f;
    for (int i = 0; i < N; i++) {
        id b = queue_buffer(m->queue), enc = cmdbuf_encoder(b, METAL_CONCURRENT);
        want += i % 2 ? 1.0f : want;
        encoder_wait(enc, m->fence);
        encoder_pipeline(enc, m->pipeline[K_add]);
        encoder_buffer(enc, r->mem.buffer, i % 2 ? ARGS2_AT : 0, 0);
        encoder_shared(enc, METAL_SHARED_ALIGN, 0);
        encoder_dispatch(enc, (struct objc_size){ 1, 1, 1 }, (struct objc_size){ kernel_infos[K_add].threads, 1, 1 });
        encoder_update(enc, m->fence);
        encoder_end(enc);
        cmdbuf_signal(b, m->event, ++m->point);
        commit(b);
    }
    if (!event_wait(m->event, m->point, 10000))
        return err_set(e, -ETIME, "the event is at %llu after 10 s, expected %llu", (unsigned long long)event_value(m->event),
                       (unsigned long long)m->point);
    float got = *(volatile float *)(r->mem.cpu + Y_AT);
    if (got != want)
        return err_set(e, -EIO, "doubled and raised by 1 in turn, %d times, 1 became %g, expected %g", N, (double)got, (double)want);
    snprintf(o->found, sizeof o->found, "%d command buffers under way, done one after the other", N);
    return 0;
}

static const struct ladder_rung rungs[] = {
    { "runtime found", "libobjc and Metal can be opened", "macOS on Apple silicon; a sandbox may hide frameworks", find_runtime },
    { "device found", "a GPU of M1 or later, macOS 15", "system_profiler SPDisplaysDataType; a session over ssh without a login has none on old systems",
      find_device },
    { "queue made", "command queue, residency set, shared event", "Console.app, messages of the process", make_queue },
    { "buffer mapped", "one memory for host and GPU", "MTL_DEBUG_LAYER=1", make_buffer },
    { "event raised", "command buffers complete and tell it", "MTL_DEBUG_LAYER=1; the command buffer's error", raise_event },
    { "texts compiled", "the driver takes kernels from MSL", "the first line of the compiler's message; macOS's version", compile_texts },
    { "pipelines archived", "a second start compiles nothing", "ZINC_LOG=metal=info; ~/.cache/zinc/metal-*.archive", archive_pipelines },
    { "dispatch", "work-groups and their arguments by GPU address", "MTL_SHADER_VALIDATION=1", dispatch_ids },
    { "threadgroup memory", "barrier and shuffles of 32 lanes", "MTL_SHADER_VALIDATION=1", dispatch_shared },
    { "in flight", "several command buffers under way, in order", "MTL_DEBUG_LAYER=1", in_flight },
};

static int begin(int device, void **state, struct err *e)
{
    struct rungs *r = calloc(1, sizeof *r);
    struct metal_tier *m = calloc(1, sizeof *m);
    if (!r || !m) {
        free(r);
        free(m);
        return err_set(e, -ENOMEM, "metal: ladder");
    }
    r->m = m;
    r->device = device;
    *state = r;
    return 0;
}

static void end(void *state)
{
    struct rungs *r = state;
    struct metal_tier *m = r->m;
    if (r->pool) {
        metal_free(m, &r->mem);
        metal_close(m);
        objc.pool_pop(r->pool);
    }
    free(m);
    free(r);
}

const struct ladder ladder_metal = { rungs, sizeof rungs / sizeof *rungs, begin, end, NULL };
