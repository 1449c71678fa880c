/* What there is to know about the device and the kernels made for it, for reports. */
#include <stdarg.h>
#include <string.h>

#include "vk/stats.h"

struct telling {
    tier_tell_fn fn;
    void *user;
    const char *part;
};

__attribute__((format(printf, 3, 4))) static void say(const struct telling *t, const char *name, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->fn(t->user, t->part, name, text);
}

static void say_device(const struct telling *t, const struct vk_device_info *d)
{
    static const char *const types[] = { "other", "integrated", "discrete", "virtual", "software" };
    const struct vk_caps *c = &d->caps;
    say(t, "name", "%s", d->name);
    say(t, "type", "%s", types[d->type < 5 ? d->type : 0]);
    say(t, "driver", "%s", d->driver);
    say(t, "driver version", "0x%08x", d->driver_version);
    say(t, "vulkan", "%u.%u.%u", VK_VERSION_MAJOR(d->api), VK_VERSION_MINOR(d->api), VK_VERSION_PATCH(d->api));
    say(t, "vendor:device", "%04x:%04x", d->vendor, d->device);
    say(t, "cores", "%u", c->cores);
    say(t, "subgroup sizes", "%u to %u, %u taken%s%s", d->wave_min, d->wave_max, d->wave, d->wave_control ? ", on demand" : "",
        d->full_waves ? ", whole" : "");
    say(t, "work-groups", "%u threads taken, %u bytes of shared memory, grid %u x %u x %u", c->threads, c->shared_max,
        c->max_grid[0], c->max_grid[1], c->max_grid[2]);
    say(t, "uniform buffers", "%u bytes, offsets by %u", d->ubo_max, d->ubo_align);
    say(t, "int8 dot product", "%s", !c->dot4 ? "no" : c->fast_dot4 ? "yes" : "emulated");
    say(t, "types", "%s%s%s", d->float16 ? "f16 " : "", d->int16 ? "i16 " : "", d->int8 ? "i8" : "");
    say(t, "memory model", "%s%s", d->memory_model ? "yes" : "no", d->memory_model_device ? ", device scope" : "");
    say(t, "time stamps", "%u bits, %g ns", d->timestamp_bits, (double)d->timestamp_ns);
    say(t, "extensions", "%s%s%s", d->has_khr_coopmat ? "cooperative-matrix " : "", d->has_budget ? "memory-budget " : "",
        d->has_stats ? "pipeline-statistics" : "");
}

static void say_memory(struct vk *v, struct telling *t)
{
    const struct vk_device_info *d = &v->info;
    char name[32];
    t->part = "memory";
    say(t, "largest allocation", "%llu MiB", (unsigned long long)(d->max_alloc >> 20));
    say(t, "largest buffer", "%llu MiB", (unsigned long long)(d->max_buffer >> 20));
    say(t, "device's own", "%llu MiB, %llu free, %s", (unsigned long long)(d->local_bytes >> 20),
        (unsigned long long)(d->local_free >> 20), d->host_sees_local ? "seen by the host" : "not seen by the host");
    for (uint32_t i = 0; i < d->mem.memoryHeapCount; i++) {
        snprintf(name, sizeof name, "heap %u", i);
        say(t, name, "%llu MiB%s", (unsigned long long)(d->mem.memoryHeaps[i].size >> 20),
            d->mem.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT ? ", local" : "");
    }
    for (uint32_t i = 0; i < d->mem.memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = d->mem.memoryTypes[i].propertyFlags;
        snprintf(name, sizeof name, "type %u", i);
        say(t, name, "heap %u%s%s%s%s, flags 0x%x", d->mem.memoryTypes[i].heapIndex,
            f & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? " local" : "", f & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT ? " visible" : "",
            f & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT ? " coherent" : "", f & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? " cached" : "",
            f);
    }
    for (int a = 0; a < ARENA_COUNT; a++) {
        static const char *const names[ARENA_COUNT] = { "weights", "constants", "kv", "state", "scratch", "io" };
        const struct vk_arena *x = &v->arena[a];
        if (x->n)
            say(t, names[a], "%llu KiB in %u buffer%s%s", (unsigned long long)(x->bytes >> 10), x->n, x->n == 1 ? "" : "s",
                x->seg[0].m.p ? ", mapped" : "");
    }
}

static const char *type_name(int t)
{
    static const char *const names[] = { "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    return t >= 0 && t < 11 ? names[t] : t == 1000141000 ? "bf16" : "other"; /* newer than the headers */
}

static void say_matrices(const struct vk *v, struct telling *t)
{
    enum { MOST = 64 };
    VkCooperativeMatrixPropertiesKHR p[MOST];
    uint32_t n = MOST;
    t->part = "matrices";
    say(t, "taken", "%s, %u x %u x %u", v->info.caps.coopmat == VK_COOPMAT_KHR ? "f16 x f16 + f32" :
        v->info.caps.coopmat == VK_COOPMAT_LOOPS ? "played by loops" : "none", v->info.caps.cm_m, v->info.caps.cm_n,
        v->info.caps.cm_k);
    if (!v->info.has_khr_coopmat || !v->vk.coopmat_khr)
        return;
    memset(p, 0, sizeof p);
    for (int i = 0; i < MOST; i++)
        p[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    if (v->vk.coopmat_khr(v->info.dev, &n, p) < 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "shape %u", i);
        say(t, name, "%u x %u x %u, %s x %s + %s -> %s%s, scope %d", p[i].MSize, p[i].NSize, p[i].KSize, type_name(p[i].AType),
            type_name(p[i].BType), type_name(p[i].CType), type_name(p[i].ResultType),
            p[i].saturatingAccumulation ? ", saturating" : "", p[i].scope);
    }
}

static void say_stat(void *user, const char *name, double value)
{
    say(user, name, "%.10g", value);
}

void vk_describe(struct tier *base, tier_tell_fn fn, void *user)
{
    struct vk *v = vk_of(base);
    struct telling t = { fn, user, "device" };
    say_device(&t, &v->info);
    say_memory(v, &t);
    say_matrices(v, &t);
    t.part = "kernels";
    say(&t, "compiled", "%u in %.2f s", v->n_pipelines, (double)v->compile_ns * 1e-9);
    for (uint32_t i = 0; i < v->n_pipelines; i++) {
        char name[168] = "kernel ";
        vk_variant_name(&v->low.variant[i], name + 7, sizeof name - 7);
        t.part = name;
        say(&t, "flavour", "%s", v->pipeline[i].flavour ? v->pipeline[i].flavour : "none");
        vk_stats_each(v, i, say_stat, &t);
    }
}
