/* vk/device.c: devices and what they can do, the logical device. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "vk/vk.h"

/* ---- what a device can do ---- */

static bool without(const char *feature)
{
    const char *list = env_get()->vulkan_without;
    size_t n = strlen(feature);
    for (const char *p = list; p && (p = strstr(p, feature)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ','))
            return true;
    return false;
}

struct extensions {
    VkExtensionProperties *p;
    uint32_t n;
};

static bool has(const struct extensions *x, const char *name)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (strcmp(x->p[i].extensionName, name) == 0)
            return true;
    return false;
}

/* Structs of a pNext chain, most recent first. */
static void chain(void *head, void *s)
{
    ((VkBaseOutStructure *)s)->pNext = ((VkBaseOutStructure *)head)->pNext;
    ((VkBaseOutStructure *)head)->pNext = s;
}

/* What a device is asked about, and what is switched on in it. */
struct features {
    VkPhysicalDeviceFeatures2 f;
    VkPhysicalDeviceVulkan11Features f11;
    VkPhysicalDeviceVulkan12Features f12;
    VkPhysicalDeviceSubgroupSizeControlFeatures size;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR khr;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR exec;
};

/* One chain, of those that the device knows. */
static void features_init(struct features *x, bool size, bool dot, bool khr, bool exec)
{
    *x = (struct features){
        .f.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .khr.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .exec.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
    };
    chain(&x->f, &x->f11);
    chain(&x->f, &x->f12);
    if (size)
        chain(&x->f, &x->size);
    if (dot)
        chain(&x->f, &x->dot);
    if (khr)
        chain(&x->f, &x->khr);
    if (exec)
        chain(&x->f, &x->exec);
}

static void read_features(const struct vk *v, struct vk_device_info *d)
{
    struct features x;
    features_init(&x, d->has_control_ext, d->has_dot_ext, d->has_khr_coopmat, d->has_stats);
    v->vk.GetPhysicalDeviceFeatures2(d->dev, &x.f);
    const struct {
        VkBool32 there;
        const char *name;
    } needed[] = {
        { x.f12.bufferDeviceAddress, "bufferDeviceAddress" }, { x.f12.timelineSemaphore, "timelineSemaphore" },
        { x.f12.scalarBlockLayout, "scalarBlockLayout" },     { x.f12.storageBuffer8BitAccess, "storageBuffer8BitAccess" },
        { x.f11.storageBuffer16BitAccess, "storageBuffer16BitAccess" }, { x.f.features.shaderInt64, "shaderInt64" },
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].there)
            d->lacks = needed[i].name;
    d->wave_control = x.size.subgroupSizeControl;
    d->full_waves = x.size.computeFullSubgroups;
    d->caps.dot4 = x.dot.shaderIntegerDotProduct && !without("dot4");
    d->has_khr_coopmat = x.khr.cooperativeMatrix && x.f12.vulkanMemoryModel && x.f12.shaderFloat16 && !without("coopmat");
    d->has_stats = x.exec.pipelineExecutableInfo;
    d->memory_model = x.f12.vulkanMemoryModel;
    d->memory_model_device = x.f12.vulkanMemoryModelDeviceScope;
    d->float16 = x.f12.shaderFloat16;
    d->int8 = x.f12.shaderInt8;
    d->int16 = x.f.features.shaderInt16;
}

/* The subgroup's lanes in every pipeline: 32 where there is a choice. */
static uint32_t choose_wave(const struct vk_device_info *d, uint32_t usual)
{
    if (d->wave_control && d->wave_min <= 32 && d->wave_max >= 32)
        return 32;
    return MIN(MAX(usual, 4u), 64u);
}

static void read_properties(const struct vk *v, struct vk_device_info *d, const struct extensions *x)
{
    VkPhysicalDeviceIDProperties id = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES };
    VkPhysicalDeviceDriverProperties driver = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES };
    VkPhysicalDeviceSubgroupProperties wave = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES };
    VkPhysicalDeviceMaintenance3Properties m3 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES };
    VkPhysicalDeviceSubgroupSizeControlProperties size = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES };
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES };
    VkPhysicalDeviceMaintenance4Properties m4 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES };
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV };
    VkPhysicalDeviceShaderCorePropertiesAMD amd = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
    chain(&p, &id);
    chain(&p, &driver);
    chain(&p, &wave);
    chain(&p, &m3);
    if (d->has_control_ext)
        chain(&p, &size);
    if (d->has_dot_ext)
        chain(&p, &dot);
    if (d->core13)
        chain(&p, &m4);
    if (has(x, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        chain(&p, &sm);
    if (has(x, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        chain(&p, &amd);
    v->vk.GetPhysicalDeviceProperties2(d->dev, &p);
    const VkPhysicalDeviceLimits *lim = &p.properties.limits;
    snprintf(d->name, sizeof d->name, "%.95s", p.properties.deviceName);
    snprintf(d->driver, sizeof d->driver, "%.40s %.50s", driver.driverName, driver.driverInfo);
    d->vendor = p.properties.vendorID;
    d->device = p.properties.deviceID;
    d->driver_version = p.properties.driverVersion;
    d->type = p.properties.deviceType;
    memcpy(d->cache_uuid, p.properties.pipelineCacheUUID, VK_UUID_SIZE);
    d->timestamp_ns = lim->timestampPeriod;
    d->max_alloc = m3.maxMemoryAllocationSize;
    d->max_buffer = d->core13 ? m4.maxBufferSize : m3.maxMemoryAllocationSize;
    d->ubo_align = MAX((uint32_t)lim->minUniformBufferOffsetAlignment, 16u);
    d->ubo_max = lim->maxUniformBufferRange;
    d->wave_min = size.minSubgroupSize ? size.minSubgroupSize : wave.subgroupSize;
    d->wave_max = size.maxSubgroupSize ? size.maxSubgroupSize : wave.subgroupSize;
    d->wave_control = d->wave_control && (size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    d->wave = choose_wave(d, wave.subgroupSize);
    VkSubgroupFeatureFlags ops = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT |
                                 VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if ((wave.supportedOperations & ops) != ops || !(wave.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
        d->lacks = "subgroup shuffle, ballot and arithmetic";
    if (d->wave < 4 || (d->wave & (d->wave - 1)))
        d->lacks = "subgroups of 4 to 64 lanes";
    bool software = d->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    long host = sysconf(_SC_NPROCESSORS_ONLN);
    struct vk_caps *c = &d->caps;
    c->wave = d->wave;
    c->software = software;
    c->threads = MIN(software ? MAX(4 * d->wave, 32u) : 256u, lim->maxComputeWorkGroupInvocations);
    c->threads = MIN(c->threads, lim->maxComputeWorkGroupSize[0]);
    c->shared_max = lim->maxComputeSharedMemorySize;
    memcpy(c->max_grid, lim->maxComputeWorkGroupCount, sizeof c->max_grid);
    c->fast_dot4 = c->dot4 && dot.integerDotProduct4x8BitPackedSignedAccelerated;
    c->cores = sm.shaderSMCount ? sm.shaderSMCount
               : amd.shaderEngineCount && amd.shaderArraysPerEngineCount && amd.computeUnitsPerShaderArray
                   ? amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray
               : software ? (uint32_t)MAX(host, 1)
               : d->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 48 : 12;
}

static void read_memory(const struct vk *v, struct vk_device_info *d)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT };
    VkPhysicalDeviceMemoryProperties2 m = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                            .pNext = d->has_budget ? &budget : NULL };
    v->vk.GetPhysicalDeviceMemoryProperties2(d->dev, &m);
    d->mem = m.memoryProperties;
    uint32_t heap = 0;
    for (uint32_t i = 0; i < d->mem.memoryHeapCount; i++)
        if ((d->mem.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && d->mem.memoryHeaps[i].size > d->local_bytes) {
            d->local_bytes = d->mem.memoryHeaps[i].size;
            heap = i;
        }
    d->local_free = d->has_budget && budget.heapBudget[heap] > budget.heapUsage[heap]
                        ? budget.heapBudget[heap] - budget.heapUsage[heap] : d->local_bytes;
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (uint32_t i = 0; i < d->mem.memoryTypeCount; i++)
        if ((d->mem.memoryTypes[i].propertyFlags & both) == both && d->mem.memoryTypes[i].heapIndex == heap && !without("bar"))
            d->host_sees_local = true;
}

static void read_queues(const struct vk *v, struct vk_device_info *d)
{
    VkQueueFamilyProperties q[32];
    uint32_t n = 32, best = UINT32_MAX;
    v->vk.GetPhysicalDeviceQueueFamilyProperties(d->dev, &n, q);
    for (uint32_t i = 0; i < n; i++) { /* one with graphics is the usual one: drivers time its compute best */
        if (!(q[i].queueFlags & VK_QUEUE_COMPUTE_BIT))
            continue;
        if (best == UINT32_MAX || (q[i].queueFlags & VK_QUEUE_GRAPHICS_BIT && !(q[best].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = i;
    }
    if (best == UINT32_MAX) {
        d->lacks = "a compute queue";
        return;
    }
    d->queue_family = best;
    d->timestamp_bits = q[best].timestampValidBits;
}

/* f16 x f16 -> f32 by subgroup, 16 x 16 x 16 before other shapes. */
static bool takes(struct vk_caps *c, uint32_t m, uint32_t n, uint32_t k)
{
    bool first = !c->cm_m, square = m == 16 && n == 16 && k == 16;
    if (first || square)
        c->cm_m = m, c->cm_n = n, c->cm_k = k;
    return true;
}

static void read_matrices(const struct vk *v, struct vk_device_info *d)
{
    struct vk_caps *c = &d->caps;
    uint32_t n = 64;
    if (d->has_khr_coopmat && v->vk.coopmat_khr) {
        VkCooperativeMatrixPropertiesKHR p[64] = { 0 };
        for (int i = 0; i < 64; i++)
            p[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
        v->vk.coopmat_khr(d->dev, &n, p);
        for (uint32_t i = 0; i < n; i++)
            if (p[i].AType == 0 && p[i].BType == 0 && p[i].CType == 1 && p[i].ResultType == 1 && p[i].scope == 3 &&
                takes(c, p[i].MSize, p[i].NSize, p[i].KSize))
                c->coopmat = VK_COOPMAT_KHR;
    }
    /* RDNA3's matrix units may change a sum when they add 0 to it, which is what a position does that a row does not see:
     * its neighbours would change a row's bits. RADV names the chip. */
    bool adds_zero_well = d->vendor != 0x1002 || strstr(d->name, "GFX12");
    c->coopmat_attn = adds_zero_well && !without("coopmat-attn");
    if (c->coopmat == VK_COOPMAT_NONE && env_get()->vulkan_loops) {
        c->coopmat = VK_COOPMAT_LOOPS;
        c->cm_m = c->cm_n = c->cm_k = 16;
    }
}

static int describe(const struct vk *v, VkPhysicalDevice dev, struct vk_device_info *d)
{
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
    struct extensions x = { 0 };
    *d = (struct vk_device_info){ .dev = dev };
    v->vk.GetPhysicalDeviceProperties2(dev, &p);
    d->api = p.properties.apiVersion;
    d->type = p.properties.deviceType;
    snprintf(d->name, sizeof d->name, "%.95s", p.properties.deviceName);
    if (d->api < VK_API_VERSION_1_2) {
        d->lacks = "Vulkan 1.2";
        return 0;
    }
    v->vk.EnumerateDeviceExtensionProperties(dev, NULL, &x.n, NULL);
    x.p = calloc(x.n + 1, sizeof *x.p);
    if (!x.p)
        return -ENOMEM;
    v->vk.EnumerateDeviceExtensionProperties(dev, NULL, &x.n, x.p);
    d->core13 = d->api >= VK_API_VERSION_1_3;
    d->has_dot_ext = d->core13 || has(&x, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    d->has_control_ext = d->core13 || has(&x, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    d->has_budget = has(&x, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    d->has_stats = has(&x, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    d->has_khr_coopmat = has(&x, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    read_features(v, d);
    read_properties(v, d, &x);
    read_memory(v, d);
    read_queues(v, d);
    read_matrices(v, d);
    free(x.p);
    return 0;
}

/* ---- which device ---- */

static int rank(uint32_t type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 1;
    default: return 0;
    }
}

static bool better(const struct vk_device_info *a, const struct vk_device_info *b)
{
    int ra = rank(a->type), rb = rank(b->type);
    return ra != rb ? ra > rb : a->local_bytes > b->local_bytes;
}

int vk_pick(struct vk *v, const struct tier_opts *o, char *note, size_t n_note)
{
    VkPhysicalDevice dev[16];
    uint32_t n = 16;
    char seen[120] = "", lacking[120] = "";
    bool found = false;
    VkResult r = v->vk.EnumeratePhysicalDevices(v->instance, &n, dev);
    if ((r && r != VK_INCOMPLETE) || n == 0) {
        snprintf(note, n_note, "no Vulkan device here%s%s (Debian: apt-get install mesa-vulkan-drivers)", r ? ": " : "",
                 r ? vk_error(r) : "");
        return -ENODEV;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct vk_device_info d;
        if (describe(v, dev[i], &d))
            return -ENOMEM;
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%u is %.60s", len ? ", " : "", i, d.name);
        if (o->device_name ? !strcasestr(d.name, o->device_name) : o->device >= 0 && o->device != (int)i)
            continue;
        if (d.lacks) {
            snprintf(lacking, sizeof lacking, "%.60s lacks %.50s", d.name, d.lacks);
            continue;
        }
        if (!found || better(&d, &v->info))
            v->info = d;
        found = true;
    }
    if (found)
        return 0;
    if (lacking[0])
        snprintf(note, n_note, "%s, which zinc needs: update the driver", lacking);
    else if (o->device_name)
        snprintf(note, n_note, "no device's name contains '%.32s'; here: %s", o->device_name, seen);
    else
        snprintf(note, n_note, "there is no device %d; here: %s", o->device, seen);
    return -ENODEV;
}

/* ---- the logical device ---- */

/* Switches on what the kernels use. Returns the number of extensions that this takes. */
static uint32_t enable(const struct vk_device_info *d, struct features *x, const char *ext[5])
{
    uint32_t n = 0;
    bool size = d->wave_control || d->full_waves, khr = d->caps.coopmat == VK_COOPMAT_KHR;
    features_init(x, size, d->caps.dot4, khr, d->has_stats);
    x->f.features.shaderInt64 = VK_TRUE;
    x->f.features.shaderInt16 = d->int16;
    x->f11.storageBuffer16BitAccess = VK_TRUE;
    x->f12.bufferDeviceAddress = x->f12.timelineSemaphore = VK_TRUE;
    x->f12.scalarBlockLayout = x->f12.storageBuffer8BitAccess = VK_TRUE;
    x->f12.vulkanMemoryModel = d->memory_model;
    x->f12.vulkanMemoryModelDeviceScope = d->memory_model_device;
    x->f12.shaderFloat16 = d->float16;
    x->f12.shaderInt8 = d->int8;
    x->size.subgroupSizeControl = d->wave_control;
    x->size.computeFullSubgroups = d->full_waves;
    x->dot.shaderIntegerDotProduct = x->khr.cooperativeMatrix = x->exec.pipelineExecutableInfo = VK_TRUE;
    if (size && !d->core13)
        ext[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (d->caps.dot4 && !d->core13)
        ext[n++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (khr)
        ext[n++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (d->has_stats)
        ext[n++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    if (d->has_budget)
        ext[n++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    return n;
}

int vk_device_create(struct vk *v, struct err *e)
{
    const struct vk_device_info *d = &v->info;
    const char *ext[5];
    struct features x;
    uint32_t n = enable(d, &x, ext);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo q = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1,
                                        .queueFamilyIndex = d->queue_family, .pQueuePriorities = &priority };
    const VkDeviceCreateInfo ci = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &x.f, .queueCreateInfoCount = 1,
                                    .pQueueCreateInfos = &q, .enabledExtensionCount = n, .ppEnabledExtensionNames = ext };
    VkResult r = v->vk.CreateDevice(d->dev, &ci, NULL, &v->dev);
    if (r) {
        v->dev = NULL;
        return vk_fail(v, r, e, "opening %s", d->name);
    }
    const char *missing = vk_api_device(&v->vk, v->dev);
    if (missing)
        return err_set(e, -ENODEV, "vulkan: the driver of %s has no %s: update it", d->name, missing);
    v->vk.GetDeviceQueue(v->dev, d->queue_family, 0, &v->queue);
    const VkDescriptorSetLayoutBinding binding[] = { /* arguments; codebooks */
        { .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, .descriptorCount = 1,
          .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT },
        { .binding = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1,
          .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT },
    };
    const VkDescriptorSetLayoutCreateInfo set = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                  .bindingCount = 2, .pBindings = binding };
    if ((r = v->vk.CreateDescriptorSetLayout(v->dev, &set, NULL, &v->set_layout)))
        return vk_fail(v, r, e, "opening %s", d->name);
    const VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
                                                .pSetLayouts = &v->set_layout };
    if ((r = v->vk.CreatePipelineLayout(v->dev, &layout, NULL, &v->layout)))
        return vk_fail(v, r, e, "opening %s", d->name);
    return 0;
}

/* ---- the device of the tier before ---- */

/* A device that a tier has left, with its pipelines: the next tier of this process on it starts at once. */
static struct {
    pthread_mutex_t lock;
    bool there;
    struct vk_device_info info;
    VkDevice dev;
    VkQueue queue;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    uint64_t cache_key;
    size_t cache_bytes;
    struct vk_lowering low;
    struct vk_pipeline *pipeline;
    uint32_t n_pipelines;
    struct vk_api vk;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

#define VK_KEPT(X) X(dev) X(queue) X(set_layout) X(layout) X(cache) X(cache_key) X(cache_bytes) X(low) X(pipeline) X(n_pipelines) X(vk)

bool vk_device_take(struct vk *v)
{
    pthread_mutex_lock(&kept.lock);
    bool same = kept.there && kept.info.dev == v->info.dev && memcmp(&kept.info.caps, &v->info.caps, sizeof kept.info.caps) == 0;
    if (same) {
#define X(field) v->field = kept.field;
        VK_KEPT(X)
#undef X
        kept.there = false;
    }
    pthread_mutex_unlock(&kept.lock);
    return same;
}

bool vk_device_keep(struct vk *v)
{
    pthread_mutex_lock(&kept.lock);
    bool keep = !kept.there;
    if (keep) {
        kept.info = v->info;
#define X(field) kept.field = v->field;
        VK_KEPT(X)
#undef X
        kept.there = true;
    }
    pthread_mutex_unlock(&kept.lock);
    return keep;
}

void vk_device_destroy(struct vk *v)
{
    const struct vk_api *vk = &v->vk;
    if (!v->dev)
        return;
    vk_pipelines_destroy(v);
    if (v->cache)
        vk->DestroyPipelineCache(v->dev, v->cache, NULL);
    if (v->layout)
        vk->DestroyPipelineLayout(v->dev, v->layout, NULL);
    if (v->set_layout)
        vk->DestroyDescriptorSetLayout(v->dev, v->set_layout, NULL);
    vk->DestroyDevice(v->dev, NULL);
    v->dev = NULL;
}

int vk_device_begin(struct vk *v, struct err *e)
{
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .queueFamilyIndex = v->info.queue_family };
    const VkSemaphoreTypeCreateInfo timeline = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                                 .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo sem = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline };
    VkResult r = v->vk.CreateCommandPool(v->dev, &pool, NULL, &v->pool);
    if (!r)
        r = v->vk.CreateSemaphore(v->dev, &sem, NULL, &v->timeline);
    return r ? vk_fail(v, r, e, "opening %s", v->info.name) : 0;
}

void vk_device_end(struct vk *v)
{
    if (v->timeline)
        v->vk.DestroySemaphore(v->dev, v->timeline, NULL);
    if (v->pool)
        v->vk.DestroyCommandPool(v->dev, v->pool, NULL);
}
