#include "vk/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/env.h"

static void *library;
static char why[220];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    const char *name = env_get()->vulkan_lib;
    library = dlopen(name ? name : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library && name)
        snprintf(why, sizeof why, "ZINC_VULKAN_LIB names %.60s, which cannot be opened: %.60s", name, dlerror());
    else if (!library)
        snprintf(why, sizeof why, "no Vulkan loader here (libvulkan.so.1 is not found; Debian: apt-get install "
                 "libvulkan1 mesa-vulkan-drivers)");
}

bool vk_api_open(struct vk_api *a, char *note, size_t n)
{
    pthread_once(&once, open_library);
    *a = (struct vk_api){ .lib = library };
    if (!library) {
        snprintf(note, n, "%s", why);
        return false;
    }
    a->GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
    if (a->GetInstanceProcAddr) {
#define X(name) a->name = (PFN_vk##name)a->GetInstanceProcAddr(NULL, "vk" #name);
        VK_GLOBAL_FUNCTIONS(X)
#undef X
    }
    if (!a->CreateInstance || !a->EnumerateInstanceVersion) {
        snprintf(note, n, "the Vulkan loader here is older than Vulkan 1.1: update it");
        return false;
    }
    return true;
}

const char *vk_api_instance(struct vk_api *a, VkInstance i)
{
    const char *missing = NULL;
#define X(name)                                                                                                        \
    if (!(a->name = (PFN_vk##name)a->GetInstanceProcAddr(i, "vk" #name)))                                              \
        missing = "vk" #name;
    VK_INSTANCE_FUNCTIONS(X)
#undef X
#define X(name) a->name = (PFN_vk##name)a->GetInstanceProcAddr(i, "vk" #name);
    VK_OPTIONAL_FUNCTIONS(X)
#undef X
    a->coopmat_khr = (vk_coopmat_khr_fn)a->GetInstanceProcAddr(i, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return missing;
}

const char *vk_api_device(struct vk_api *a, VkDevice d)
{
    const char *missing = NULL;
#define X(name)                                                                                                        \
    if (!(a->name = (PFN_vk##name)a->GetDeviceProcAddr(d, "vk" #name)))                                                \
        missing = "vk" #name;
    VK_DEVICE_FUNCTIONS(X)
#undef X
#define X(name) a->name = (PFN_vk##name)a->GetDeviceProcAddr(d, "vk" #name);
    VK_DEVICE_OPTIONAL(X)
#undef X
    return missing;
}

const char *vk_error(VkResult r)
{
    static _Thread_local char text[32];
    switch ((int)r) {
#define R(name)                                                                                                        \
    case name: return #name;
        R(VK_SUCCESS) R(VK_NOT_READY) R(VK_TIMEOUT) R(VK_INCOMPLETE)
        R(VK_ERROR_OUT_OF_HOST_MEMORY) R(VK_ERROR_OUT_OF_DEVICE_MEMORY) R(VK_ERROR_INITIALIZATION_FAILED)
        R(VK_ERROR_DEVICE_LOST) R(VK_ERROR_MEMORY_MAP_FAILED) R(VK_ERROR_LAYER_NOT_PRESENT)
        R(VK_ERROR_EXTENSION_NOT_PRESENT) R(VK_ERROR_FEATURE_NOT_PRESENT) R(VK_ERROR_INCOMPATIBLE_DRIVER)
        R(VK_ERROR_TOO_MANY_OBJECTS) R(VK_ERROR_FRAGMENTED_POOL) R(VK_ERROR_UNKNOWN) R(VK_ERROR_OUT_OF_POOL_MEMORY)
        R(VK_ERROR_FRAGMENTATION) R(VK_ERROR_INVALID_SHADER_NV) R(VK_PIPELINE_COMPILE_REQUIRED)
#undef R
    default: snprintf(text, sizeof text, "VkResult %d", (int)r); return text;
    }
}
