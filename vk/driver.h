/* vk/driver.h: private to vk/
 * The part of Vulkan that zinc calls. The loader (libvulkan.so.1) is opened at run time, so that a binary built anywhere
 * starts anywhere; types and numbers come from the Khronos headers at build time. Cooperative matrices of KHR are newer
 * than the headers of Debian 12: their declarations are here, by the registry (VK_KHR_cooperative_matrix, revision 2). */
#ifndef ZINC_VK_DRIVER_H
#define ZINC_VK_DRIVER_H

#define VK_NO_PROTOTYPES
#include <stdbool.h>
#include <stddef.h>
#include <vulkan/vulkan.h>

#define VK_GLOBAL_FUNCTIONS(X)                                                                                         \
    X(EnumerateInstanceVersion)                                                                                        \
    X(EnumerateInstanceLayerProperties)                                                                                \
    X(EnumerateInstanceExtensionProperties)                                                                            \
    X(CreateInstance)
#define VK_INSTANCE_FUNCTIONS(X)                                                                                       \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(EnumerateDeviceExtensionProperties)                                                                              \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties2)                                                                              \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(CreateDevice)                                                                                                    \
    X(GetDeviceProcAddr)
/* Only where the instance or device has them. */
#define VK_OPTIONAL_FUNCTIONS(X)                                                                                       \
    X(CreateDebugUtilsMessengerEXT)
#define VK_DEVICE_FUNCTIONS(X)                                                                                         \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue)                                                                                                  \
    X(DeviceWaitIdle)                                                                                                  \
    X(QueueSubmit)                                                                                                     \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(GetBufferDeviceAddress)                                                                                          \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(GetSemaphoreCounterValue)                                                                                        \
    X(WaitSemaphores)                                                                                                  \
    X(CreateFence)                                                                                                     \
    X(DestroyFence)                                                                                                    \
    X(WaitForFences)                                                                                                   \
    X(ResetFences)                                                                                                     \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers)                                                                                          \
    X(FreeCommandBuffers)                                                                                              \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdBindDescriptorSets)                                                                                           \
    X(CmdDispatch)                                                                                                     \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdFillBuffer)                                                                                                   \
    X(CmdWriteTimestamp)                                                                                               \
    X(CmdResetQueryPool)                                                                                               \
    X(CreateQueryPool)                                                                                                 \
    X(DestroyQueryPool)                                                                                                \
    X(GetQueryPoolResults)                                                                                             \
    X(CreateDescriptorSetLayout)                                                                                       \
    X(DestroyDescriptorSetLayout)                                                                                      \
    X(CreateDescriptorPool)                                                                                            \
    X(DestroyDescriptorPool)                                                                                           \
    X(AllocateDescriptorSets)                                                                                          \
    X(UpdateDescriptorSets)                                                                                            \
    X(CreatePipelineLayout)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(CreateShaderModule)                                                                                              \
    X(DestroyShaderModule)                                                                                             \
    X(CreateComputePipelines)                                                                                          \
    X(DestroyPipeline)                                                                                                 \
    X(CreatePipelineCache)                                                                                             \
    X(DestroyPipelineCache)                                                                                            \
    X(GetPipelineCacheData)
/* Of VK_KHR_pipeline_executable_properties; NULL where the device lacks it. */
#define VK_DEVICE_OPTIONAL(X)                                                                                          \
    X(GetPipelineExecutablePropertiesKHR)                                                                              \
    X(GetPipelineExecutableStatisticsKHR)

#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR               ((VkStructureType)1000506001)
typedef struct {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef struct {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    int AType, BType, CType, ResultType; /* 0: f16, 1: f32 */
    VkBool32 saturatingAccumulation;
    int scope;                           /* 3: subgroup    */
} VkCooperativeMatrixPropertiesKHR;
#endif
typedef VkResult(VKAPI_PTR *vk_coopmat_khr_fn)(VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *);

struct vk_api {
    void *lib;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    VK_GLOBAL_FUNCTIONS(X)
    VK_INSTANCE_FUNCTIONS(X)
    VK_OPTIONAL_FUNCTIONS(X)
    VK_DEVICE_FUNCTIONS(X)
    VK_DEVICE_OPTIONAL(X)
#undef X
    vk_coopmat_khr_fn coopmat_khr;
};

/* Opens the loader and fills the global functions; false and the reason in note. The library stays open for the process:
 * drivers do not like to be unloaded. ZINC_VULKAN_LIB names another library. */
bool vk_api_open(struct vk_api *a, char *note, size_t n);
/* The instance's functions, then the device's; the first name that is missing, or NULL. */
const char *vk_api_instance(struct vk_api *a, VkInstance i);
const char *vk_api_device(struct vk_api *a, VkDevice d);
/* "VK_ERROR_DEVICE_LOST"; a number in text of its own thread for the unknown. */
const char *vk_error(VkResult r);

#endif
