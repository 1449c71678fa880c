/* rt/dispatch.h
 * A stream as launches of the kernels in kernels/: what the tiers that run those kernels (lockstep, cuda, and the AMD
 * tiers) have in common. It chooses kernels, cuts the work, and lays out private memory; a tier only translates
 * addresses and launches.
 *
 *     struct dispatch_plan *p;
 *     dispatch_build(s, &target, s->h.row_cap, 0, &p, &e);
 *     ... allocate p->work_bytes, zeroed
 *     dispatch_relocate(p, base);                            base[arena]: where each arena lies for the device
 *     for (i < p->n) launch(p->d[i].kernel, grid, shared, p->args + p->d[i].args_off)
 *     dispatch_free(p);
 *
 * Launches of a plan are made in order, and one with `wait` comes after a barrier: all launches before it are complete
 * and what they wrote is seen. The others touch nothing that a launch since the last barrier writes, and write nothing
 * that one reads, so they may overlap. Private memory is the arena ARENA_WORK: temporaries that only live inside one
 * command, and counters, which are 0 between launches. */
#ifndef ZINC_RT_DISPATCH_H
#define ZINC_RT_DISPATCH_H

#include "base/err.h"
#include "base/progress.h"
#include "graph/stream.h"
#include "kernels/kernel_id.h"
#include "kernels/klaunch.h"

/* Arenas beyond the stream's: private memory, and host memory that mirrors IO (base 0: none). */
enum { ARENA_WORK = ARENA_COUNT, ARENA_HOST_IO, ARENA_ALL };

struct dispatcher;

/* What the kernels may count on, and how wide the machine is. A tier with kernels of its own (vulkan) brings their table
 * and lowers each command itself, with the builder's help (rt/dispatch_impl.h). */
struct dispatch_target {
    uint32_t n_cores;        /* multiprocessors or compute units: how many work-groups keep it busy        */
    uint32_t shared_max;     /* bytes of shared memory of one work-group                                   */
    uint32_t shared_core;    /* bytes of shared memory of one core                                         */
    bool wgmma;              /* sm_90a: kernels of modules named *_wgmma                                   */
    bool mma8;               /* matrix instructions on signed bytes: the class "rows" of kernels/klaunch.h  */
    bool books;              /* decode products have a codebook in shared memory (kernels/wbook.h)        */
    bool ahead;              /* launches may begin while the one before runs: kernels/matring.c             */
    bool apart;              /* for parts of steps: of more than one row each command has launches of its own */
    bool walks;              /* has persistent plans                                                       */
    bool amd;                /* kernels compiled for AMD: see enum ap_room                                  */
    uint32_t prompt_split;   /* prompts with heads of so many dims and more: two warps share their pairs; 0: none */
    const struct kernel_info *kernels; /* NULL: kernel_infos                                               */
    void (*lower)(struct dispatcher *d, enum cmd_op op, const void *args); /* NULL: the kernels in C       */
    void *user;
};

struct kernel_info {
    const char *name, *module; /* "k_embed", "basic" */
    uint16_t args_bytes, threads;
    const uint16_t *(*addresses)(void); /* byte offsets of the gpu_va among the arguments, then UINT16_MAX */
};
extern const struct kernel_info kernel_infos[KERNEL_COUNT];
bool kernel_for_all(uint32_t kernel); /* false: one target alone has it */

struct dispatch {
    uint16_t kernel;  /* enum kernel_id, or the target's own number */
    uint16_t variant; /* the target's own */
    uint16_t threads; /* of a work-group: the kernel's own, but for attention where shared memory is 32 KiB */
    bool concurrent;  /* the target's own: may run while the launch before it does */
    bool wait;        /* for everything launched before it; without, it may run while they do */
    bool eager;       /* lets the next launch start before its own inputs are complete         */
    bool beside;      /* a kl_matvec that can be late (KL_ASK_LATE)                             */
    uint16_t early;   /* offset of a word among the arguments: some inputs are complete when the launch starts; 0: none */
    uint32_t early_from; /* those that launches before this one write */
    bool after;       /* begins when the launch before it has ended (rt/dispatch_impl.h)       */
    uint32_t grid[3], shared;
    uint32_t args_off; /* into args */
    uint32_t cmd;      /* the stream's command it belongs to */
};

struct dispatch_plan {
    const struct kernel_info *kernels;
    struct dispatch *d;
    uint32_t n, cap;
    uint8_t *args;
    uint32_t args_bytes, args_cap;
    uint64_t temp_bytes, counters_bytes, work_bytes; /* work: counters, then temporaries */
};

/* Kernels that a plan of this process has used: what a run over many streams has covered. */
extern bool dispatch_used[KERNEL_COUNT];

/* For steps of at most max_rows rows (1: kernels for a single row). Plans that take turns in one private memory keep their
 * counters in the same place: counters_bytes is room for those of the other, 0: there is none. -ENOTSUP names the command
 * that has no kernel. */
int dispatch_build(const struct stream *s, const struct dispatch_target *t, uint32_t max_rows, uint32_t counters_bytes,
                   struct dispatch_plan **out, struct err *e);
/* Turns stream addresses into the device's, once. base[ARENA_HOST_IO] 0: fields that point there become 0. */
void dispatch_relocate(struct dispatch_plan *p, const uint64_t base[ARENA_ALL]);
/* The same where an arena is not one run of addresses: `at` gives the device's address of a stream's, or 0. */
void dispatch_relocate_by(struct dispatch_plan *p, uint64_t (*at)(void *user, gpu_va va), void *user);
void dispatch_free(struct dispatch_plan *p); /* NULL is fine */
/* Does the stream end in an ARGMAX over its logits? Then they reach the host by themselves (KL_SAMPLE's copy). */
bool dispatch_copies_logits(const struct stream *s);

/* ---- weights in planes (kernels/planes.h) ---- */

/* unit[i]: rows of a matrix of weight i, as the stream's commands use it: its planes span so many rows. 0: not packed.
 * -ENOTSUP: two commands use a tensor in different ways. */
int dispatch_weight_units(const struct stream *s, uint32_t *unit, struct err *e);
/* n_rows whole units of `unit` rows of n_in elements, from the file's layout to planes and back. */
void planes_pack(enum qtype t, const uint8_t *rows, uint8_t *out, uint64_t n_rows, uint64_t unit, uint64_t n_in);
void planes_unpack(enum qtype t, const uint8_t *planes, uint8_t *out, uint64_t n_rows, uint64_t unit, uint64_t n_in);

#endif
