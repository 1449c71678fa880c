/* vk/stats.h: private to vk/ and tools/
 * What the driver's compiler tells of a pipeline: registers, spills, bytes of code, under the driver's own names
 * (VK_KHR_pipeline_executable_properties), and the few that matter under common ones. */
#ifndef ZINC_VK_STATS_H
#define ZINC_VK_STATS_H

#include "vk/vk.h"

/* Common names, in the order of a table. A driver has some of them. */
#define VK_STAT_LIST(X)                                                                                                \
    X(VGPRS, "vgprs")     /* registers of a lane; Intel: the most that live at once     */                             \
    X(SPILLS, "spills")   /* registers that went to memory                              */                             \
    X(SCRATCH, "scratch") /* bytes of memory of a lane, or as the driver counts it      */                             \
    X(SHARED, "shared")   /* bytes of a work-group                                      */                             \
    X(WAVES, "waves")     /* subgroups that a SIMD holds at once                        */                             \
    X(INSTRS, "instrs")                                                                                                \
    X(CODE, "code")       /* bytes                                                      */
enum vk_stat {
#define X(id, name) VK_STAT_##id,
    VK_STAT_LIST(X)
#undef X
    VK_STAT_COUNT
};
extern const char *const vk_stat_names[VK_STAT_COUNT];

/* The statistic of that driver's name, or VK_STAT_COUNT. */
enum vk_stat vk_stat_of(const char *driver_name);

/* Calls fn for each statistic of variant i's pipeline, names as the driver has them. -ENOTSUP: it tells none. */
int vk_stats_each(struct vk *v, uint32_t i, void (*fn)(void *user, const char *name, double value), void *user);

/* vk/describe.c: the device, its memory and matrix units, and every kernel compiled for it: a name and a value at a time,
 * in parts ("device", "kernel matvec, threads 256, ..."). */
void vk_describe(struct tier *t, tier_tell_fn fn, void *user);

#endif
