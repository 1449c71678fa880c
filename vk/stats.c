#include "vk/stats.h"

#include <errno.h>
#include <string.h>

const char *const vk_stat_names[VK_STAT_COUNT] = {
#define X(id, name) name,
    VK_STAT_LIST(X)
#undef X
};

enum vk_stat vk_stat_of(const char *driver_name)
{
    static const struct {
        const char *name;
        enum vk_stat stat;
    } known[] = {
        { "VGPRs", VK_STAT_VGPRS },                     /* RADV */
        { "Spilled VGPRs", VK_STAT_SPILLS },
        { "Spilled SGPRs", VK_STAT_SPILLS },
        { "Scratch size", VK_STAT_SCRATCH },
        { "LDS size", VK_STAT_SHARED },
        { "Subgroups per SIMD", VK_STAT_WAVES },
        { "Instructions", VK_STAT_INSTRS },
        { "Code size", VK_STAT_CODE },
        { "Register Count", VK_STAT_VGPRS },            /* NVIDIA; its local memory is the device's, not the kernel's */
        { "Stack Size", VK_STAT_SCRATCH },
        { "Shared Memory Size", VK_STAT_SHARED },
        { "Binary Size", VK_STAT_CODE },
        { "Max live registers", VK_STAT_VGPRS },        /* ANV */
        { "Spill count", VK_STAT_SPILLS },
        { "Scratch Memory Size", VK_STAT_SCRATCH },
        { "Workgroup Memory Size", VK_STAT_SHARED },
        { "Instruction Count", VK_STAT_INSTRS },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, driver_name) == 0)
            return known[i].stat;
    return VK_STAT_COUNT;
}

static double value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s->value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)s->value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return s->value.f64;
    default: return 0;
    }
}

int vk_stats_each(struct vk *v, uint32_t i, void (*fn)(void *user, const char *name, double value), void *user)
{
    enum { MOST = 64 };
    VkPipelineExecutablePropertiesKHR exe[4];
    VkPipelineExecutableStatisticKHR stat[MOST];
    const VkPipelineInfoKHR pi = { .sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = v->pipeline[i].p };
    uint32_t n_exe = 4, told = 0;
    if (!v->vk.GetPipelineExecutablePropertiesKHR || !v->vk.GetPipelineExecutableStatisticsKHR || !pi.pipeline)
        return -ENOTSUP;
    memset(exe, 0, sizeof exe);
    for (uint32_t x = 0; x < n_exe; x++)
        exe[x].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    if (v->vk.GetPipelineExecutablePropertiesKHR(v->dev, &pi, &n_exe, exe) < 0)
        return -ENOTSUP;
    for (uint32_t x = 0; x < n_exe; x++) {
        const VkPipelineExecutableInfoKHR ei = { .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                                 .pipeline = pi.pipeline, .executableIndex = x };
        uint32_t n = MOST;
        memset(stat, 0, sizeof stat);
        for (uint32_t k = 0; k < n; k++)
            stat[k].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
        if (v->vk.GetPipelineExecutableStatisticsKHR(v->dev, &ei, &n, stat) < 0)
            continue;
        for (uint32_t k = 0; k < n; k++, told++)
            fn(user, stat[k].name, value_of(&stat[k]));
    }
    return told ? 0 : -ENOTSUP;
}
