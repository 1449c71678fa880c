/* vk/pipeline.c: from the SPIR-V in the binary to pipelines, one for each variant. Drivers take their time over one, so
 * several are compiled side by side. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/blob.h"
#include "vk/vk.h"

enum { MAX_THREADS = 16 };

void vk_variant_name(const struct vk_variant *x, char *buf, size_t n)
{
    size_t len = (size_t)snprintf(buf, n, "%s, threads %u, wave %u", vk_kernels[x->kernel].module, x->shape.v[0], x->shape.v[1]);
    for (uint32_t i = 2; i < x->shape.n && len < n; i++)
        len += (size_t)snprintf(buf + len, n - len, "%s%u", i == 2 ? ", " : " ", x->shape.v[i]);
}

static const bool typed[VK_KERNEL_COUNT] = {
#define VK_KERNEL(name, args) [VK_##name] = false,
#define VK_TYPED(name, args)  [VK_##name] = true,
#include "vk/kernels.def"
#undef VK_KERNEL
#undef VK_TYPED
};

#define QTYPE_PAIR(set, A, B) _Static_assert(QT_##A < QT_##B, "pair " #set);
#include "kernels/qtypes.def"

/* The set of types that a typed kernel's module is compiled for. */
static const char *set_of(const struct vk_variant *x)
{
    uint32_t a = MIN(x->shape.v[2], x->shape.v[3]), b = MAX(x->shape.v[2], x->shape.v[3]);
#define QTYPE(NAME, name, set, ...)                                                                                    \
    if (a == QT_##NAME && b == QT_##NAME)                                                                              \
        return #set;
#define QTYPE_PAIR(set, A, B)                                                                                          \
    if (a == QT_##A && b == QT_##B)                                                                                    \
        return #set;
#include "kernels/qtypes.def"
    return qtype_is_opened((enum qtype)a) || qtype_is_opened((enum qtype)b) || b == QT_OPENED ? "book" : "any";
}

static const struct kernel_blob *module_of(const struct vk_variant *x, const char *flavour)
{
    char name[80];
    const char *base = vk_kernels[x->kernel].module;
    if (!typed[x->kernel])
        return kernel_blob_find(base, flavour);
    snprintf(name, sizeof name, "%s_%s", base, set_of(x));
    return kernel_blob_find(name, flavour);
}

static VkResult create(struct vk *v, const struct vk_variant *x, const char *flavour, VkPipeline *out)
{
    const struct kernel_blob *b = module_of(x, flavour);
    if (!b)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    uint64_t bytes;
    const uint32_t *code = kernel_blob_bytes(b, &bytes);
    if (!code)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkSpecializationMapEntry map[VK_SPECS];
    for (uint32_t i = 0; i < x->shape.n; i++)
        map[i] = (VkSpecializationMapEntry){ .constantID = i, .offset = 4 * i, .size = 4 };
    const VkSpecializationInfo spec = { .mapEntryCount = x->shape.n, .pMapEntries = map, .dataSize = 4 * x->shape.n,
                                        .pData = x->shape.v };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo wave = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = x->shape.v[1] };
    const VkShaderModuleCreateInfo mi = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                          .codeSize = bytes, .pCode = code };
    VkShaderModule m;
    VkResult r = v->vk.CreateShaderModule(v->dev, &mi, NULL, &m);
    if (r)
        return r;
    const VkComputePipelineCreateInfo ci = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = v->layout,
        .flags = v->info.has_stats ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0,
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .flags = v->info.full_waves ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                   .pNext = v->info.wave_control ? &wave : NULL, .module = m, .pName = "main", .pSpecializationInfo = &spec } };
    r = v->vk.CreateComputePipelines(v->dev, v->cache, 1, &ci, NULL, out);
    v->vk.DestroyShaderModule(v->dev, m, NULL);
    if (r)
        *out = VK_NULL_HANDLE;
    return r;
}

static void build_one(struct vk *v, uint32_t i)
{
    struct vk_pipeline *x = &v->pipeline[i];
    const struct vk_variant *var = &v->low.variant[i];
    uint64_t t0 = clock_ns();
    char name[160];
    vk_variant_name(var, name, sizeof name);
    x->flavour = v->info.caps.dot4 ? "spirv" : "spirv_plain";
    x->rc = create(v, var, x->flavour, &x->p);
    if (x->rc && x->rc != VK_ERROR_DEVICE_LOST && strcmp(x->flavour, "spirv") == 0) {
        log_warn(VK, "%s rejects kernel %s with integer dot products (%s): taken without", v->info.name, name, vk_error(x->rc));
        x->flavour = "spirv_plain";
        x->rc = create(v, var, x->flavour, &x->p);
    }
    log_debug(VK, "pipeline %s: %.1f ms", name, (double)(clock_ns() - t0) * 1e-6);
}

struct work {
    struct vk *v;
    atomic_uint next;
};

static void *build_some(void *arg)
{
    struct work *w = arg;
    for (uint32_t i; (i = atomic_fetch_add(&w->next, 1)) < w->v->low.n;)
        build_one(w->v, i);
    return NULL;
}

int vk_pipelines_build(struct vk *v, struct err *e)
{
    pthread_t thread[MAX_THREADS];
    uint32_t first = v->n_pipelines, n = v->low.n - first, started = 0;
    if (!n)
        return 0;
    struct vk_pipeline *p = realloc(v->pipeline, v->low.n * sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "vulkan: table of pipelines");
    memset(p + first, 0, n * sizeof *p);
    v->pipeline = p;
    v->n_pipelines = v->low.n;
    struct work w = { .v = v };
    atomic_init(&w.next, first);
    uint32_t cores = (uint32_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    uint64_t t0 = clock_ns();
    for (; started + 1 < MIN(MIN(n, cores), (uint32_t)MAX_THREADS); started++)
        if (pthread_create(&thread[started], NULL, build_some, &w))
            break;
    bool go_on = true;
    for (uint32_t i; go_on && (i = atomic_fetch_add(&w.next, 1)) < v->low.n;) {
        build_one(v, i);
        go_on = progress_report(v->r.tier.progress, "kernels", i - first + 1, n);
    }
    if (!go_on)
        atomic_store(&w.next, v->low.n);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    if (!go_on) {
        v->rejected = true; /* some were not built */
        return err_set(e, -ECANCELED, "vulkan: compiling kernels was cancelled");
    }
    v->compile_ns += clock_ns() - t0;
    log_info(VK, "%u pipelines in %.2f s", n, (double)(clock_ns() - t0) * 1e-9);
    for (uint32_t i = first; i < v->low.n; i++)
        if (p[i].rc) {
            char name[160];
            v->rejected = true;
            vk_variant_name(&v->low.variant[i], name, sizeof name);
            return err_set(e, -EIO, "vulkan: %s rejects kernel %s: %s; another driver, or --tier=cpu", v->info.name, name,
                           vk_error(p[i].rc));
        }
    vk_cache_save(v);
    return 0;
}

void vk_pipelines_destroy(struct vk *v)
{
    for (uint32_t i = 0; i < v->n_pipelines; i++)
        if (v->pipeline[i].p)
            v->vk.DestroyPipeline(v->dev, v->pipeline[i].p, NULL);
    free(v->pipeline);
    free(v->low.variant);
    v->pipeline = NULL;
    v->low.variant = NULL;
    v->n_pipelines = v->low.n = v->low.cap = 0;
}
