/* tools/amdsim/kmd/drm.h: the render node's own state; everything under card.lock unless said otherwise. */
#ifndef AMDSIM_DRM_H
#define AMDSIM_DRM_H

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

/* Compute rings that the kernel offers; the lowest address for clients. */
enum { DRM_N_RINGS = 4, DRM_VA_START = 0x200000 };

/* Handles of one kind: small numbers from 1. */
struct table {
    void **item;
    uint32_t n;
};
int table_add(struct table *t, void *item, uint32_t *handle);
void *table_get(const struct table *t, uint32_t handle); /* NULL: unknown */
void *table_remove(struct table *t, uint32_t handle);

/* Submissions to one ring of a context; fences are under card.event_lock. */
struct entity {
    uint64_t last_seq;
    struct fence **pending; /* in order; finished ones leave at the next look */
    uint32_t n, cap;
};

struct ctx {
    struct entity ring[2][8];   /* compute, DMA */
    bool guilty;
    uint32_t pstate;
};

struct bo_list {
    uint32_t n;
};

/* A binary syncobj holds a fence; a timeline has points that are reached in order. */
struct syncobj {
    uint32_t refs;
    struct fence *fence;        /* binary: NULL: nothing submitted     */
    uint64_t point;             /* timeline: reached                   */
    struct { struct fence *fence; uint64_t point; } *waiting;
    uint32_t n_waiting;
};

struct drm_file {
    uint32_t refs;
    struct gpuvm *vm;
    struct table bos, ctxs, lists, syncobjs, userqs;
    /* Page tables: whether some changed that nobody is known to have waited for, and the timeline point that says so. */
    bool maps_unseen;
    uint32_t map_syncobj;
    uint64_t map_point;
    uint64_t *seq64;        /* cells of its user queues; NULL: it had none */
};

/* Compute rings that clients get; none when user queues replace them. */
uint32_t drm_n_rings(void);
int drm_info(struct drm_file *d, void *arg);

int drm_gem_create(struct drm_file *d, void *arg);
int drm_gem_mmap(struct drm_file *d, void *arg);
int drm_gem_close(struct drm_file *d, void *arg);
int drm_gem_va(struct drm_file *d, void *arg);
int drm_gem_metadata(struct drm_file *d, void *arg);
int drm_gem_op(struct drm_file *d, void *arg);
int drm_gem_userptr(struct drm_file *d, void *arg);
int drm_bo_list(struct drm_file *d, void *arg);
int drm_prime_export(struct drm_file *d, void *arg);
int drm_prime_import(struct drm_file *d, void *arg);

int drm_ctx(struct drm_file *d, void *arg);
int drm_cs(struct drm_file *d, void *arg);
/* These sleep: called without locks. */
int drm_wait_cs(struct drm_file *d, void *arg);
int drm_wait_fences(struct drm_file *d, void *arg);
int drm_wait_idle(struct drm_file *d, void *arg);
int drm_fence_to_handle(struct drm_file *d, void *arg);
void ctx_destroy(struct ctx *c);

/* Fences, under card.event_lock. */
struct fence *fence_new(uint64_t seq);
void fence_ref(struct fence *f);
void fence_unref(struct fence *f);
/* Sleeps until f is done (0), the absolute time has come (-ETIME) or a signal arrived; no locks held. */
int fence_wait(struct fence *f, uint64_t deadline_ns);
/* card_sleep; a submission, or from Linux 7.0 a user queue's fence, that takes longer than amdgpu.lockup_timeout meanwhile is
 * ended by a reset. No locks. */
int drm_sleep(uint32_t gen, uint64_t deadline_ns);

/* drm_userq.c */
bool drm_userq_offered(const char **why); /* false: *why not */
uint32_t drm_userq_slots(void);           /* compute queues that can run at once, 0: no user queues */
int drm_userq(struct drm_file *d, void *arg);
int drm_userq_signal(struct drm_file *d, void *arg);
int drm_userq_wait(struct drm_file *d, void *arg); /* sleeps: called without locks */
void drm_userqs_release(struct drm_file *d);
void drm_userq_range_goes(struct drm_file *d, gva va, uint64_t bytes); /* queues that live in it stop */
void drm_userq_fork_child(void);
/* When the first fence of a user queue will have been pending for too long, ~0: never; and what happens then. No locks. */
uint64_t drm_userq_limit_ns(void);
void drm_userq_time_out(void);

int drm_syncobj_ioctl(struct drm_file *d, unsigned nr, void *arg); /* all of them; card.lock taken inside */
/* The fence that a submission has to wait for; *none: there is nothing to wait for. */
int syncobj_fence(struct drm_file *d, uint32_t handle, uint64_t point, struct fence **f);
int syncobj_attach(struct drm_file *d, uint32_t handle, uint64_t point, struct fence *f);

#endif
