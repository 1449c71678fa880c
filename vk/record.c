/* vk/record.c: a pass as commands of a command buffer. Every launch is a pipeline, an offset into the arguments and a
 * dispatch; barriers stand only where a launch needs what an earlier one since the last barrier wrote. */
#include "vk/vk.h"

void vk_barrier(struct vk *v, VkCommandBuffer cb)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    const VkMemoryBarrier b = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_UNIFORM_READ_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT };
    v->vk.CmdPipelineBarrier(cb, all, all, 0, 1, &b, 0, NULL, 0, NULL);
}

static void between(struct vk *v, VkCommandBuffer cb)
{
    const VkMemoryBarrier b = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT };
    v->vk.CmdPipelineBarrier(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &b, 0,
                             NULL, 0, NULL);
}

void vk_record_launch(struct vk *v, VkCommandBuffer cb, VkDescriptorSet set, uint32_t variant, uint32_t args_at,
                      const uint32_t grid[3])
{
    v->vk.CmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, v->pipeline[variant].p);
    v->vk.CmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, v->layout, 0, 1, &set, 1, &args_at);
    v->vk.CmdDispatch(cb, grid[0], grid[1], grid[2]);
}

VkResult vk_record(struct vk *v, struct vk_plan *p, struct vk_pass *x, VkCommandBuffer cb, uint32_t n, bool stamps)
{
    static const uint32_t one[3] = { 1, 1, 1 };
    const VkCommandBufferBeginInfo bi = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT };
    VkResult r = v->vk.BeginCommandBuffer(cb, &bi);
    if (r)
        return r;
    if (stamps)
        v->vk.CmdResetQueryPool(cb, p->stamps, 0, n + 1);
    vk_barrier(v, cb); /* after the step before, which may still run */
    vk_record_launch(v, cb, x->set, p->begin_variant, x->args_at[x->d->n], one);
    between(v, cb);
    if (stamps)
        v->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, p->stamps, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (i && (x->d->d[i].wait || stamps))
            between(v, cb);
        vk_record_launch(v, cb, x->set, x->d->d[i].variant, x->args_at[i], x->d->d[i].grid);
        if (stamps)
            v->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, p->stamps, i + 1);
    }
    between(v, cb);
    vk_record_launch(v, cb, x->set, p->end_variant, x->args_at[x->d->n + 1], one);
    vk_barrier(v, cb);
    return v->vk.EndCommandBuffer(cb);
}
