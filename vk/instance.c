/* vk/instance.c: the process's Vulkan instance, and the validation layer in it. */
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "vk/vk.h"

static uint32_t n_invalid;

static VkBool32 VKAPI_PTR on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT type,
                                     const VkDebugUtilsMessengerCallbackDataEXT *m, void *user)
{
    (void)type, (void)user;
    if (severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT)
        __atomic_fetch_add(&n_invalid, 1, __ATOMIC_RELAXED);
    log_err(VK, "validation: %s", m->pMessage);
    return VK_FALSE;
}

static bool has_layer(const struct vk_api *vk, const char *name)
{
    VkLayerProperties layer[64];
    uint32_t n = 64;
    vk->EnumerateInstanceLayerProperties(&n, layer);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(layer[i].layerName, name) == 0)
            return true;
    return false;
}

/* One instance for the process, kept until its end: drivers of NVIDIA do not load a second time. */
static struct {
    struct vk_api vk;
    VkInstance instance;
    bool validated;
    int rc;
    char note[256];
} shared;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint32_t vk_invalid_count(void)
{
    return __atomic_load_n(&n_invalid, __ATOMIC_RELAXED);
}

static int create_instance(bool validate, char *note, size_t n)
{
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    static const char *const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    struct vk_api *vk = &shared.vk;
    uint32_t version = 0;
    if (!vk_api_open(vk, note, n))
        return -ENODEV;
    vk->EnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2) {
        snprintf(note, n, "the Vulkan loader here is version %u.%u, zinc needs 1.2: update it", VK_VERSION_MAJOR(version),
                 VK_VERSION_MINOR(version));
        return -ENODEV;
    }
    if (validate && !has_layer(vk, layer)) {
        snprintf(note, n, "validation was asked for, and %s is not installed (Debian: apt-get install "
                 "vulkan-validationlayers)", layer);
        return -ENOENT;
    }
    const VkValidationFeatureEnableEXT sync = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    const VkValidationFeaturesEXT features = { .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                               .enabledValidationFeatureCount = 1, .pEnabledValidationFeatures = &sync };
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT, .pNext = &features,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, .pfnUserCallback = on_message };
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "zinc",
                                    .apiVersion = MIN(version, VK_API_VERSION_1_3) };
    const VkInstanceCreateInfo ci = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pNext = validate ? &messenger : NULL,
                                      .pApplicationInfo = &app, .enabledLayerCount = validate, .ppEnabledLayerNames = &layer,
                                      .enabledExtensionCount = validate, .ppEnabledExtensionNames = &extension };
    VkResult r = vk->CreateInstance(&ci, NULL, &shared.instance);
    if (r) {
        snprintf(note, n, r == VK_ERROR_INCOMPATIBLE_DRIVER ? "no Vulkan driver here (%s; Debian: apt-get install "
                 "mesa-vulkan-drivers)" : "no Vulkan instance: %s", vk_error(r));
        return -ENODEV;
    }
    const char *missing = vk_api_instance(vk, shared.instance);
    if (missing) {
        snprintf(note, n, "the Vulkan loader has no %s: update it", missing);
        return -ENODEV;
    }
    VkDebugUtilsMessengerEXT m;
    messenger.pNext = NULL;
    if (validate && vk->CreateDebugUtilsMessengerEXT)
        vk->CreateDebugUtilsMessengerEXT(shared.instance, &messenger, NULL, &m);
    return 0;
}

static void create_shared(void)
{
    shared.validated = env_get()->vulkan_validate;
    shared.rc = create_instance(shared.validated, shared.note, sizeof shared.note);
}

int vk_instance_get(struct vk *v, char *note, size_t n)
{
    pthread_once(&once, create_shared);
    v->vk = shared.vk;
    v->instance = shared.instance;
    if (shared.rc)
        snprintf(note, n, "%s", shared.note);
    return shared.rc;
}
