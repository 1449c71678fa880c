/* vk/vk.h: private to vk/
 * The tier's objects. A tier holds an instance, a device with one queue, the arenas and the pipelines; a plan holds
 * launches and the command buffers recorded from them. Steps go through a ring in host memory that the first kernel of a
 * command buffer reads, so a buffer is recorded once; a timeline semaphore counts the steps that are complete. */
#ifndef ZINC_VK_VK_H
#define ZINC_VK_VK_H

#include <pthread.h>

#include "rt/replay.h"
#include "vk/driver.h"
#include "vk/lower.h"

/* A buffer with memory and an address of its own. */
struct vk_mem {
    VkBuffer buf;
    VkDeviceMemory mem;
    uint64_t va, bytes;
    void *p; /* mapped, coherent; NULL: the host cannot see it */
};

/* An arena: one buffer, or several where the device allows no buffer as large. A tensor lies in one of them. */
struct vk_segment {
    uint64_t off;
    struct vk_mem m;
};
struct vk_arena {
    struct vk_segment *seg; /* by rising off */
    uint32_t n;
    uint64_t bytes;
    uint64_t *cut; /* where it may be cut, rising; from the stream whose weights were loaded */
    uint32_t n_cuts;
};

/* What a device is and can do; filled by vk/device.c for every device that is looked at. */
struct vk_device_info {
    VkPhysicalDevice dev;
    char name[96], driver[96];
    uint32_t api, vendor, device, driver_version, type;
    uint8_t cache_uuid[VK_UUID_SIZE];
    VkPhysicalDeviceMemoryProperties mem;
    uint64_t local_bytes, local_free; /* of the largest device-local heap */
    bool host_sees_local;             /* all of it: one memory, or a large BAR */
    uint32_t queue_family, timestamp_bits;
    float timestamp_ns;
    uint64_t max_alloc, max_buffer;
    uint32_t ubo_align, ubo_max;
    uint32_t wave_min, wave_max, wave;
    bool wave_control, full_waves;    /* a pipeline may demand its subgroup size; whole subgroups */
    bool core13, has_dot_ext, has_control_ext, has_stats, has_budget, has_khr_coopmat;
    bool memory_model, memory_model_device, float16, int8, int16;
    struct vk_caps caps;
    const char *lacks;                /* what zinc needs and it has not; NULL: usable */
};

struct vk_pipeline {
    VkPipeline p;
    VkResult rc;
    const char *flavour;
};

struct vk {
    struct replay r;
    struct vk_api vk;
    VkInstance instance;
    struct vk_device_info info;
    VkDevice dev;
    VkQueue queue;
    pthread_mutex_t queue_lock;   /* loaders submit copies side by side */
    VkCommandPool pool;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    uint64_t cache_key;           /* what its file is for: device, driver, shaders */
    size_t cache_bytes;           /* as loaded or saved last */
    bool rejected;                /* a kernel, by the driver */
    int fresh;                    /* tier_opts */
    struct vk_lowering low;
    struct vk_pipeline *pipeline; /* of low.variant[i] */
    uint32_t n_pipelines;
    uint64_t compile_ns;
    struct vk_arena arena[ARENA_COUNT];
    struct vk_mem seq;            /* u32 on the device: steps begun    */
    struct vk_mem done;           /* u32 in host memory: steps ended   */
    struct vk_mem io;             /* mirror of IO: logits and next tokens of the last step */
    struct vk_mem stage;          /* for vk_upload and vk_download */
    struct vk_mem books;          /* the codebooks, where a weight's type looks its codes up in one */
    VkCommandBuffer copies;       /* begun, with copies that wait for vk_copies_end; or NULL */
    VkSemaphore timeline;
    uint64_t *stamp;              /* [r.cap_trace + 1], as the device gave them */
};

/* A pass as the driver has it. */
struct vk_pass {
    const struct dispatch_plan *d; /* the replay_pass's */
    uint32_t *args_at;   /* [d->n + 2]: where each launch's arguments lie; then step_begin's and step_end's */
    struct vk_mem args;
    VkDescriptorSet set;
    VkCommandBuffer cb;
};

struct vk_plan {
    struct replay_plan r;
    struct vk_pass pass[REPLAY_PASSES];
    struct vk_mem work, consts, ring;
    uint32_t begin_variant, end_variant;
    VkDescriptorPool sets;
    VkQueryPool stamps; /* when tracing */
};

static inline struct vk *vk_of(const struct tier *t)
{
    return (struct vk *)t;
}
static inline struct vk *vk_of_replay(const struct replay *r)
{
    return (struct vk *)r;
}

/* e gets "vulkan: <what>: <error>"; -ENOMEM where memory ran out, else -EIO. */
__attribute__((format(printf, 4, 5))) int vk_fail(const struct vk *v, VkResult r, struct err *e, const char *fmt, ...);

/* vk/instance.c */
int vk_instance_get(struct vk *v, char *note, size_t n); /* the process's; made on the first call */
uint32_t vk_invalid_count(void);                         /* errors that the validation layer has reported */

/* vk/device.c */
/* The device of the options, or the best: discrete, integrated, virtual, software; then the larger memory. */
int vk_pick(struct vk *v, const struct tier_opts *o, char *note, size_t n);
/* The logical device with its layouts, and its end with its pipelines. */
int vk_device_create(struct vk *v, struct err *e);
void vk_device_destroy(struct vk *v);
/* Instead: what a tier before has left, pipelines included; false: nothing that fits. And leaving it for the next. */
bool vk_device_take(struct vk *v);
bool vk_device_keep(struct vk *v);
/* What a tier needs of a device for itself: command pool and timeline. */
int vk_device_begin(struct vk *v, struct err *e);
void vk_device_end(struct vk *v);

/* vk/mem.c */
enum vk_where { VK_LOCAL /* fastest for the device */, VK_VISIBLE /* host memory that the device reads */,
                VK_LOCAL_VISIBLE /* the device's own where the host can see it, else host memory */,
                VK_READBACK /* host memory that the host reads fast */ };
VkResult vk_mem_alloc(struct vk *v, struct vk_mem *m, uint64_t bytes, enum vk_where w);
void vk_mem_free(struct vk *v, struct vk_mem *m);
int vk_arena_alloc(struct vk *v, enum arena a, uint64_t bytes, enum vk_where w, struct err *e); /* not cleared */
void vk_arena_free(struct vk *v, enum arena a);
int vk_arena_cuts(struct vk *v, const struct stream *s, struct err *e); /* where arenas may be cut */
uint64_t vk_arena_va(const struct vk *v, enum arena a, uint64_t off);
/* The segment of a byte, and how many bytes from there on it holds. */
struct vk_mem *vk_arena_at(struct vk *v, enum arena a, uint64_t off, uint64_t *in, uint64_t *left);
/* By the host where it sees the memory, else through a staging buffer; waits. */
VkResult vk_upload(struct vk *v, struct vk_mem *m, uint64_t off, const void *src, uint64_t n);
VkResult vk_download(struct vk *v, struct vk_mem *m, uint64_t off, void *dst, uint64_t n);
VkResult vk_clear(struct vk *v, struct vk_mem *m);
/* Copies inside an arena are gathered in one command buffer, which runs when the queue is wanted for something else. */
VkResult vk_copy_later(struct vk *v, enum arena a, uint64_t dst, uint64_t src, uint64_t n);
VkResult vk_copies_end(struct vk *v); /* waits */
/* One command buffer, recorded and complete: begin, record, then end_and_wait. */
VkResult vk_once_begin(struct vk *v, VkCommandBuffer *cb);
VkResult vk_once_end(struct vk *v, VkCommandBuffer cb);

/* vk/pipeline.c: pipelines of the variants [n_pipelines, low.n). */
int vk_pipelines_build(struct vk *v, struct err *e);
void vk_pipelines_destroy(struct vk *v);
/* "matvec, threads 256, wave 32, 12 14 1": for messages and tables. */
void vk_variant_name(const struct vk_variant *x, char *buf, size_t n);

/* vk/cache.c: the driver's compiled pipelines on disk, by device, driver and shaders. */
void vk_cache_open(struct vk *v);
void vk_cache_save(struct vk *v);

/* vk/load.c */
int vk_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);

/* vk/plan.c */
int vk_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void vk_plan_destroy(struct tier_plan *p);
int vk_run(struct replay *r, struct replay_plan *p, uint32_t pass, uint32_t n, uint64_t *point); /* replay_ops */
int vk_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
void vk_plan_dump(const struct tier_plan *p, FILE *f);

/* vk/record.c: a pass as commands. */
void vk_barrier(struct vk *v, VkCommandBuffer cb);
VkResult vk_record(struct vk *v, struct vk_plan *p, struct vk_pass *x, VkCommandBuffer cb, uint32_t n, bool stamps);
void vk_record_launch(struct vk *v, VkCommandBuffer cb, VkDescriptorSet set, uint32_t variant, uint32_t args_at,
                      const uint32_t grid[3]);

/* vk/report.c: a report of a failure, in a folder of its own; its path goes into v->r.fault. */
void vk_report(struct vk *v, VkResult r, const struct replay_plan *p, uint32_t cmd, const char *when);

#endif
