/* A Vulkan library that fails when told to: what ZINC_VULKAN_LIB names in tests. It hands every call to the loader and
 * breaks those that VKFAULT lists, comma-separated:
 *     instance=CODE        vkCreateInstance answers CODE (a VkResult)
 *     devices=none         no device
 *     old=1                devices of Vulkan 1.1
 *     device=CODE          vkCreateDevice
 *     misuse=1             the device is made with a queue of priority 2: drivers do not mind, the validation layer does
 *     alloc=N:CODE         the N-th allocation of memory, and all after it
 *     pipeline=N:CODE      the N-th pipeline, and all after it
 *     shader=N:CODE        the N-th shader module and all after it
 *     submit=N:CODE        the N-th submission and all after it
 *     wait=N:CODE          the N-th wait for a semaphore and all after it */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr real_instance_proc;
static PFN_vkGetDeviceProcAddr real_device_proc;
static PFN_vkCreateInstance real_create_instance;
static PFN_vkEnumeratePhysicalDevices real_enumerate;
static PFN_vkGetPhysicalDeviceProperties2 real_properties;
static PFN_vkCreateDevice real_create_device;
static PFN_vkAllocateMemory real_allocate;
static PFN_vkCreateComputePipelines real_pipelines;
static PFN_vkCreateShaderModule real_shader;
static PFN_vkQueueSubmit real_submit;
static PFN_vkWaitSemaphores real_wait;

/* The code after `key=` and, where calls are counted, whether this call is due. */
static int fault(const char *key, atomic_int *calls)
{
    const char *list = getenv("VKFAULT"), *p = list;
    size_t n = strlen(key);
    while (p && (p = strstr(p, key)) && !((p == list || p[-1] == ',') && p[n] == '='))
        p += n;
    if (!p)
        return 0;
    char *end;
    long first = strtol(p + n + 1, &end, 10);
    if (!calls || *end != ':')
        return (int)first;
    return atomic_fetch_add(calls, 1) + 1 >= first ? (int)strtol(end + 1, NULL, 10) : 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *ci, const VkAllocationCallbacks *a, VkInstance *out)
{
    int r = fault("instance", NULL);
    return r ? r : real_create_instance(ci, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance i, uint32_t *n, VkPhysicalDevice *out)
{
    const char *list = getenv("VKFAULT");
    if (list && strstr(list, "devices=none")) {
        *n = 0;
        return VK_SUCCESS;
    }
    return real_enumerate(i, n, out);
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice d, VkPhysicalDeviceProperties2 *p)
{
    real_properties(d, p);
    if (fault("old", NULL))
        p->properties.apiVersion = VK_API_VERSION_1_1;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice d, const VkDeviceCreateInfo *ci, const VkAllocationCallbacks *a,
                                                    VkDevice *out)
{
    static const float beyond = 2.0f;
    VkDeviceQueueCreateInfo queue = ci->pQueueCreateInfos[0];
    VkDeviceCreateInfo mine = *ci;
    int r = fault("device", NULL);
    if (fault("misuse", NULL)) {
        queue.pQueuePriorities = &beyond;
        mine.pQueueCreateInfos = &queue;
    }
    return r ? r : real_create_device(d, &mine, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice d, const VkMemoryAllocateInfo *ai, const VkAllocationCallbacks *a,
                                               VkDeviceMemory *out)
{
    static atomic_int calls;
    int r = fault("alloc", &calls);
    return r ? r : real_allocate(d, ai, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL pipelines(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *ci,
                                                const VkAllocationCallbacks *a, VkPipeline *out)
{
    static atomic_int calls;
    int r = fault("pipeline", &calls);
    return r ? r : real_pipelines(d, c, n, ci, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL shader(VkDevice d, const VkShaderModuleCreateInfo *ci, const VkAllocationCallbacks *a,
                                             VkShaderModule *out)
{
    static atomic_int calls;
    int r = fault("shader", &calls);
    return r ? r : real_shader(d, ci, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f)
{
    static atomic_int calls;
    int r = fault("submit", &calls);
    return r ? r : real_submit(q, n, s, f);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice d, const VkSemaphoreWaitInfo *w, uint64_t timeout)
{
    static atomic_int calls;
    int r = fault("wait", &calls);
    return r ? r : real_wait(d, w, timeout);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice d, const char *name);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance i, const char *name)
{
    if (!real_instance_proc) {
        void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
        if (lib)
            real_instance_proc = (PFN_vkGetInstanceProcAddr)dlsym(lib, "vkGetInstanceProcAddr");
        if (!real_instance_proc)
            return NULL;
    }
    PFN_vkVoidFunction f = real_instance_proc(i, name);
#define WRAP(symbol, real, mine)                                                                                       \
    if (f && strcmp(name, symbol) == 0) {                                                                              \
        real = (__typeof__(real))f;                                                                                    \
        return (PFN_vkVoidFunction)mine;                                                                               \
    }
    WRAP("vkCreateInstance", real_create_instance, create_instance)
    WRAP("vkEnumeratePhysicalDevices", real_enumerate, enumerate)
    WRAP("vkGetPhysicalDeviceProperties2", real_properties, properties)
    WRAP("vkCreateDevice", real_create_device, create_device)
    WRAP("vkGetDeviceProcAddr", real_device_proc, device_proc)
    return f;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice d, const char *name)
{
    PFN_vkVoidFunction f = real_device_proc(d, name);
    WRAP("vkAllocateMemory", real_allocate, allocate)
    WRAP("vkCreateComputePipelines", real_pipelines, pipelines)
    WRAP("vkCreateShaderModule", real_shader, shader)
    WRAP("vkQueueSubmit", real_submit, submit)
    WRAP("vkWaitSemaphores", real_wait, wait_semaphores)
    return f;
}
