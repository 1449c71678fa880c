/* rt/tier.h
 * A tier executes command streams on one kind of hardware. It is about a dozen functions, and the number does not grow
 * with the commands.
 *
 * A tier object holds one model: its weights, its KV, state, scratch and IO arenas, and any number of plans (streams
 * prepared into the tier's native form). Life: open, load (weights), alloc (arenas), prepare (streams), then per token
 * submit and wait. Not thread-safe: one thread drives a tier. Arenas are allocated once, for the largest of the streams.
 *
 * tier_submit checks the step against the stream before it reaches a tier: -EINVAL, with the reason in the log. */
#ifndef ZINC_RT_TIER_H
#define ZINC_RT_TIER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/progress.h"
#include "graph/stream.h"

enum plan_kind { PLAN_AUTO, PLAN_REPLAY, PLAN_PERSISTENT };

struct tier_opts {
    int device;              /* index among the tier's devices, -1: best                            */
    const char *device_name; /* or a part of its name; NULL: by index                               */
    const char *target;      /* lockstep: the kernels of this one, "sm90"; NULL: those for all      */
    int threads;             /* cpu: worker threads, 0: one per core                                */
    bool no_pin;             /* cpu: they may move between cores                                    */
    bool exact;              /* cpu: dequantise and accumulate in double                            */
    bool check;              /* verify hazards while running where the tier can (on in debug builds) */
    bool trace;              /* record time stamps per command                                      */
    int fresh;               /* 1: nothing that the process keeps from tiers before; 2: nor from disk */
};

struct tier_info {
    char device[96];         /* "2 cores, avx512", "AMD Radeon ...": for people                     */
    char note[256];          /* why it can or cannot run, one line                                  */
    uint64_t mem_bytes, mem_free_bytes; /* 0: unknown                                               */
    bool by_capacity;        /* streams for few rows and for many differ in arithmetic, not only in speed */
    uint32_t decode_rows;    /* rows that streams for decoding may have, 0: 8 (kernels/klaunch.h, "rows")    */
    uint32_t expert_slots;   /* models with experts: so many sessions pay for more than 8 rows, 0: never     */
    uint32_t chunk;          /* rows of a prompt's step that suit it, 0: any                        */
    bool software;           /* a device made of the host's processor: auto passes it over          */
    bool kv_planes;          /* a KV cache of q8_0 is codes, then scales (kernels/kv.h), not blocks */
    bool dry_run;            /* runs no command and holds no memory: what it returns is made up     */
    bool host_memory;        /* counts as the host's memory: mem_free_bytes is what the host has free */
    bool maps_weights;       /* weights are pages of the file, no memory of their own               */
    bool amd;                /* a way to an AMD card: auto measures which is the quickest (rt/auto.h) */
    uint32_t firmware;       /* the version of what runs queues there; 0: unknown                   */
    bool compiles;           /* opening it compiles kernels, which are kept for the next time       */
    bool persistent;         /* has persistent plans                                                */
    bool reopens;            /* after a fault it can be closed and opened again in the same process  */
};

/* What submissions cost, summed since tier_stats_reset. */
struct tier_stats {
    uint64_t steps, rows, commands;
    uint64_t busy_ns;        /* from submit to completion                                           */
    uint64_t host_ns;        /* spent by the host inside submit                                     */
    uint64_t words;          /* patched, packets of the submission included                         */
    uint64_t host_bytes;     /* written by the host to submit; 0: the tier does not count them      */
    uint64_t bytes;          /* weights, state and cache moved, by the stream's cost                */
    uint64_t flops;          /* operations, by the same; a multiply-add is two                      */
};

struct tier_trace {
    uint32_t cmd, reserved;
    uint64_t start_ns, end_ns;
    const char *kernel;      /* what ran, where a command is several kernels; NULL: the command     */
};

/* Where the weights' bytes are: weight i of the stream's table lies at data[i], its rows as in the file. The memory
 * outlives the tier. Streams of one model share one weight table. */
struct tier_weights {
    const struct stream *s;
    const uint8_t *const *data;
};

/* Rows of bytes in an arena, and how far apart they are there and in the host's memory. */
struct tier_rows {
    uint64_t off, pitch, host_pitch, width;
    uint32_t n;
};

struct tier;
struct tier_plan;
struct ladder;

/* A property of the device or of something made for it: a name and a value, in parts ("device", "kernel norm, ..."). */
typedef void (*tier_tell_fn)(void *user, const char *part, const char *name, const char *value);

/* A row that is multiplied by matrix `mat` of a weight, an index into the stream's table: x [n_in], normed where the product does
 * that, valid during the call. */
struct tier_product {
    uint32_t weight, mat, n_mats, n_in;
    const float *x;
};
typedef void (*tier_watch_fn)(void *user, const struct tier_product *p);

struct tier_impl {
    const char *name; /* as in --tier= */
    void (*destroy)(struct tier *t);
    int (*load)(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);
    int (*alloc)(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e); /* zeroed; not WEIGHTS, CONST */
    int (*prepare)(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
    void (*plan_destroy)(struct tier_plan *p); /* NULL is fine */
    int (*submit)(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point);
    int (*wait)(struct tier *t, uint64_t point, uint64_t timeout_ns); /* 0, -ETIME, or -EIO: see fault */
    int (*read)(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e);
    int (*write)(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e);
    /* Optional, each: */
    /* See tier_next. The step was waited for. */
    int (*next)(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next);
    int (*copy)(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e); /* n > 0 */
    /* n rows of `width` bytes, `pitch` apart in the arena and host_pitch in memory; all at least 1 */
    int (*read_rows)(struct tier *t, enum arena a, const struct tier_rows *r, void *dst, struct err *e);
    int (*write_rows)(struct tier *t, enum arena a, const struct tier_rows *r, const void *src, struct err *e);
    const void *(*map)(struct tier *t, enum arena a, uint64_t off); /* host-visible bytes, else NULL     */
    bool (*supports)(const struct tier *t, const struct stream *s, uint32_t cmd); /* NULL: every command */
    int (*fault)(struct tier *t, struct err *out);                 /* what is behind -EIO              */
    void (*dump)(const struct tier_plan *p, FILE *f);              /* native form, decoded               */
    uint32_t (*trace)(struct tier *t, const struct tier_trace **out); /* the last step's                 */
    int (*submit_prefix)(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds);
    uint64_t (*resident)(const struct tier *t);                    /* bytes held, weights included       */
    int (*roof)(struct tier *t, double *gbs, struct err *e);       /* GB/s that its memory can be read at */
    int (*roof_ops)(struct tier *t, double *gops, struct err *e);  /* 10^9 operations/s of its products, in caches */
    void (*describe)(struct tier *t, tier_tell_fn fn, void *user); /* for reports: all that it knows     */
    /* Nothing is under way: gives back what other programs want and the next submission can take again; memory stays. */
    void (*rest)(struct tier *t);
    int (*watch)(struct tier *t, tier_watch_fn fn, void *user, struct err *e); /* NULL as fn: no more    */
};

/* Embedded first in each tier's own struct. */
struct tier {
    const struct tier_impl *impl;
    struct tier_info info;
    struct tier_stats stats;
    uint64_t arena_bytes[ARENA_COUNT];
    bool loaded, allocated, faulted;
    const struct progress *progress; /* for what takes long in prepare, while somebody looks on; or NULL */
    uint64_t last_point, busy_since_ns; /* the newest submission, and when the tier last became busy; 0: idle */
};

/* Embedded first in each tier's own plan. */
struct tier_plan {
    struct tier *tier;
    const struct stream *s; /* must outlive the plan */
    enum plan_kind kind;
    uint32_t cost_rows; /* the front's: bytes moved for steps of so many rows, but for attention; 0: not known yet */
    uint64_t cost_bytes, cost_flops;
};

/* One entry per tier that this binary knows, in order of preference for --tier=auto. */
struct tier_driver {
    const char *name;
    /* 0 and info filled: it can run here. Else info->note says why not and what would help: -ENODEV: there is nothing
     * to run on; other errors: there is, but it cannot be used (auto tells the user). Cheap. */
    int (*probe)(const struct tier_opts *o, struct tier_info *info);
    int (*open)(const struct tier_opts *o, struct tier **out, struct err *e);
    const struct ladder *ladder; /* its own rungs (rt/ladder.h), NULL: none */
};
extern const struct tier_driver tier_driver_cuda;      /* cuda/tier.c   */
extern const struct tier_driver tier_driver_metal;     /* metal/tier.c  */
extern const struct tier_driver tier_driver_kfd;       /* rt/kfd/tier.c */
extern const struct tier_driver tier_driver_umq;       /* rt/umq/userq_tier.c, where it was built */
extern const struct tier_driver tier_driver_cs;        /* rt/umq/tier.c, with ZINC_DRM */
extern const struct tier_driver tier_driver_vulkan;    /* vk/tier.c, where it was built */
extern const struct tier_driver tier_driver_cpu;       /* oracle/tier.c */
extern const struct tier_driver tier_driver_lockstep;  /* rt/lockstep/  */
extern const struct tier_driver tier_driver_null;      /* rt/null.c     */
extern const struct tier_driver *const tier_drivers[]; /* NULL-terminated; cpu and null are always there */

const struct tier_driver *tier_find(const char *name); /* NULL: this binary has no such tier */
/* The name of the tier that is always there, runs every stream, and that the others are compared with. */
const char *tier_reference(void);

/* name NULL or "auto": the first that probes well and opens (never lockstep or null), the ways to an AMD card in the order that
 * was measured (rt/auto.h). -ENODEV: none; the message says why and what to do. */
int tier_open(const char *name, const struct tier_opts *o, struct tier **out, struct err *e);
void tier_close(struct tier *t); /* NULL is fine */
const char *tier_name(const struct tier *t); /* as in --tier= */

/* The front functions check state once for everybody, keep the statistics and handle the optional entries. */
int tier_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e);
int tier_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e);
int tier_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out, struct err *e);
void tier_plan_destroy(struct tier_plan *p);
int tier_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point);
int tier_wait(struct tier *t, uint64_t point, uint64_t timeout_ns);
/* The tokens that a step of the plan chose, next [n], n at most its n_out; it was waited for. Where tier_keeps_next, also while
 * one later step is under way, which may name them (ka_row.token). -EINVAL: no such step is known any more. */
int tier_next(struct tier *t, struct tier_plan *p, uint64_t point, uint32_t n, int32_t *next, struct err *e);
bool tier_keeps_next(const struct tier *t);
int tier_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e);
int tier_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e);
/* The same for rows, in one go where the tier can. */
int tier_read_rows(struct tier *t, enum arena a, const struct tier_rows *r, void *dst, struct err *e);
int tier_write_rows(struct tier *t, enum arena a, const struct tier_rows *r, const void *src, struct err *e);
/* n bytes inside one arena, not overlapping: after all steps and copies before it, and seen by all that come later. It may
 * return before it is done; then a failure is reported by what comes next. */
int tier_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e);
const void *tier_map(struct tier *t, enum arena a, uint64_t off); /* NULL: use tier_read */
/* Runs commands [0, n_cmds) only and waits; for bisecting. -ENOTSUP where the tier cannot. */
int tier_submit_prefix(struct tier *t, struct tier_plan *p, const struct step *step, uint32_t n_cmds, struct err *e);
/* What is behind -EIO. -ENODATA: the tier knows no more, *e is as it was. */
int tier_fault(struct tier *t, struct err *e);
/* The last step's time stamps, one a launch, valid until the next step; 0: none were taken. */
uint32_t tier_trace(struct tier *t, const struct tier_trace **out);
/* What the device gives at most: GB/s that its memory can be read at, 10^9 operations/s of products in its caches.
 * -ENOTSUP, without a message: the tier does not measure it. */
int tier_roof(struct tier *t, double *gbs, struct err *e);
int tier_roof_ops(struct tier *t, double *gops, struct err *e);
void tier_describe(struct tier *t, tier_tell_fn fn, void *user); /* all that it knows, for reports */
void tier_rest(struct tier *t); /* nothing is going to be submitted for a while; costs the next submission some system calls */
/* From the next step on fn is called for every row of every product of weights that are prepared, in an order that does not depend
 * on threads, while the step runs and from one of its threads. fn NULL: no more. -ENOTSUP: the tier cannot show them (--tier cpu). */
int tier_watch(struct tier *t, tier_watch_fn fn, void *user, struct err *e);
void tier_dump(const struct tier_plan *p, FILE *f);              /* the native form, decoded       */
void tier_stats_reset(struct tier *t);

#endif
