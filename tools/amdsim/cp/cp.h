/* tools/amdsim/cp/cp.h
 * The command processor: fetches packets from queues, executes them, and hands work-groups to the shader cores. The
 * driver model (kmd/) creates queues and hears of interrupts and faults.
 *
 *     struct cp *c = cp_create(chip, &(struct cp_options){ .n_threads = 2 }, &host);
 *     cp_queue_create(c, &(struct cp_queue_desc){ .kind = CP_PM4, .vm = vm, .ring = .., .doorbell = cell }, &id);
 *     ...                                          the program writes packets, its write pointer, its doorbell
 *     cp_queue_destroy(c, id, 2000);
 *     cp_destroy(c);
 *
 * Threads: `n_threads` run work-groups; one of them fetches packets besides and serves all queues in turn, so a
 * packet that waits suspends its queue alone. Every callback comes from that thread, while it holds no lock and
 * nothing of the GPU's memory. A callback must not destroy a queue or the command processor. */
#ifndef AMDSIM_CP_H
#define AMDSIM_CP_H

#include "tools/amdsim/chip.h"
#include "tools/amdsim/isa/isa.h"
#include "tools/amdsim/vm.h"

enum cp_queue_kind { CP_PM4, CP_AQL, CP_SDMA };

struct cp_fault {
    bool page;              /* else a hang or an exception: the queue stops, reset_cause in the driver's event      */
    gva va;                 /* of a page fault                                                                      */
    bool write, exec, not_present;
    uint32_t queue;
    char text[600];         /* one line for people: packet or instruction, where, why                               */
};

struct cp_host {
    void *user;
    void (*interrupt)(void *user, uint32_t queue, uint32_t ctxid); /* end of pipe, SDMA trap                        */
    void (*fault)(void *user, const struct cp_fault *f);           /* the queue is dead afterwards                  */
    void (*note)(void *user, const char *line);                    /* a finding of --strict, or something odd       */
    /* Both may be NULL. Does somebody want the memory of what runs here? It leaves the card then. */
    bool (*must_leave)(void *user);
    bool (*evicted)(void *user, bool off); /* off: it has left; else: may it come back? */
};

struct cp_options {
    uint32_t n_threads;     /* 0: one per core                                                                      */
    bool strict;            /* the checks of strict.h are faults; else some of them are notes                       */
    bool strict_notes;      /* with strict: findings about memory are notes, once each, and the program goes on     */
    bool skip_execution;    /* dispatches complete without running: host time can be measured alone                 */
    uint64_t hang_insts;    /* instructions of one wave after which it counts as hung, 0: no limit                  */
    uint32_t deadlock_ms;   /* a dispatch whose work-groups all sleep for so long is a deadlock, 0: never            */
    uint64_t preempt_insts; /* instructions of a work-group after which it is preempted (preempt.c), 0: never       */
    uint64_t evict_dispatches; /* after each so many dispatches all queues are off the card for a while, 0: never  */
    uint64_t reset_dispatch; /* once, in the middle of a dispatch after so many, the card is reset, 0: never         */
    const char *trace;      /* file that gets a line per packet and dispatch, NULL: none                            */
};

struct cp;
/* NULL: no memory, no threads, or the trace file cannot be written. */
struct cp *cp_create(const struct chip *chip, const struct cp_options *o, const struct cp_host *h);
void cp_destroy(struct cp *c);

struct cp_queue_desc {
    enum cp_queue_kind kind;
    struct vm *vm;
    /* What the card writes at rptr: PM4: 32 bits, dwords modulo the ring's size (gfx_v11_0_ring_get_rptr_compute and
     * its gfx12 twin in the kernel, RptrWhenConsumed in kfdtest's PM4Queue.cpp); SDMA: 64 bits, bytes that only grow.
     * AQL: rptr and wptr are read_dispatch_id and write_dispatch_id, 64 bits. */
    gva ring, rptr, wptr;
    uint64_t ring_bytes;
    gva eop;                /* 0: none; then an end-of-pipe event faults at address 0, as hardware does             */
    gva save;               /* context save area, 0: none and no preemption; its bytes with the control stack       */
    uint64_t save_bytes, ctl_stack_bytes;
    uint64_t *doorbell;     /* host address of its cell, primed with ~0; NULL: none (wptr is polled)                */
    uint64_t *fence_cell;   /* PM4, user queues of the render node: PROTECTED_FENCE_SIGNAL writes there how many dwords
                             * of the ring were read; NULL: the queue knows no such packet                           */
    const bool *maps_unseen; /* with fence_cell: page tables changed and nobody waited for them                        */
    gva queue_struct;       /* AQL: the amd_queue_t; 0: derived from wptr                                           */
};
/* 0 and *id, or -ENOMEM. A queue runs as soon as its doorbell is rung: a 64-bit store to the cell. The cell is set
 * back to ~0 when it is read, so that the same value, and half a value, are seen too. */
int cp_queue_create(struct cp *c, const struct cp_queue_desc *d, uint32_t *id);
/* Removes it between packets. -ETIME: it did not come to rest within timeout_ms (a hang: the driver resets the GPU).
 */
int cp_queue_destroy(struct cp *c, uint32_t id, uint32_t timeout_ms);
/* A kernel-mode submission (DRM CS): runs n_ibs indirect buffers in order on a queue of the driver's, then calls
 * done(user, point); after a fault too, as the driver completes fences after a reset. */
struct cp_ib {
    gva va;
    uint32_t dwords;
};
int cp_submit(struct cp *c, struct vm *vm, bool sdma, const struct cp_ib *ib, uint32_t n_ibs, uint64_t point,
              void (*done)(void *user, uint64_t point), void *user);
/* Call after vm_unmap and before the memory goes away: waits until nothing that runs can still hold its pages. */
void cp_quiesce(struct cp *c);
void cp_reset(struct cp *c); /* every queue dies; used after a hang */
void cp_queue_reset(struct cp *c, uint32_t id); /* this one */
uint64_t cp_clock(void);     /* 100 MHz, CLOCK_MONOTONIC */
/* Sums since cp_create; busy_ns: time of all threads inside work-groups. Any pointer may be NULL. */
uint32_t cp_queues(struct cp *c); /* that programs have now, the driver's own not counted */
void cp_counts(struct cp *c, struct isa_counts *out, uint64_t *dispatches, uint64_t *packets, uint64_t *busy_ns,
               uint64_t *preemptions, uint64_t *evictions);

#endif
