/* tools/amdsim/cp/state.h: private to tools/amdsim/cp/
 * What the command processor remembers of its queues, and how the files of this folder share the work:
 *
 *     cp.c        the fetching thread: doorbells, turns of the queues, callbacks
 *     pm4.c       type-3 packets; pm4_mem.c: those that move data; regs.c: registers that a compute queue has
 *     dispatch.c  registers -> work-groups, and the threads that run them; preempt.c: their way to the save area
 *     aql.c       architected packets        sdma.c  the copy engine's packets
 *     strict.c    memory that was never written, stale caches, missing waits
 *
 * A packet is executed by a function that returns an enum step; STEP_WAIT means: call again later.
 *
 * Locking: cp->lock guards the list of queues, their jobs and the counts. It is not held while a packet or a
 * work-group runs; those are counted in cp->running instead, so that cp_quiesce can wait until there are none. */
#ifndef AMDSIM_CP_STATE_H
#define AMDSIM_CP_STATE_H

#include <pthread.h>
#include <stdio.h>

#include "tools/amdsim/cp/cp.h"

enum step {
    STEP_NEXT,  /* a packet is done                                         */
    STEP_PART,  /* part of a long packet is done, others may have a turn    */
    STEP_IDLE,  /* everything that was announced has been executed          */
    STEP_WAIT,  /* the packet waits: for memory, or for waves of this queue */
    STEP_DEAD,  /* a fault was reported, the queue never runs again         */
};

enum {
    CP_MAX_QUEUES = 1024,
    CP_MAX_PACKET = 0x4002,   /* dwords of the longest type-3 packet          */
    CP_SH_BASE = 0x2C00, CP_SH_COUNT = 0x400,
    CP_UCONFIG_BASE = 0xC000, CP_UCONFIG_COUNT = 0x4000,
    CP_IB_LEVELS = 2,         /* an indirect buffer may call one more         */
};

/* Offsets of compute registers from CP_SH_BASE that this model acts upon; regs.c names all that exist. */
enum {
    R_DISPATCH_INITIATOR = 0x200, R_START_X = 0x204, R_NUM_THREAD_X = 0x207, R_PGM_LO = 0x20C, R_PGM_HI = 0x20D,
    R_DISPATCH_PKT_ADDR_LO = 0x20E, R_SCRATCH_BASE_LO = 0x210, R_SCRATCH_BASE_HI = 0x211, R_PGM_RSRC1 = 0x212,
    R_PGM_RSRC2 = 0x213, R_VMID = 0x214, R_STATIC_THREAD_MGMT_SE0 = 0x216, R_STATIC_THREAD_MGMT_SE1 = 0x217,
    R_TMPRING_SIZE = 0x218, R_STATIC_THREAD_MGMT_SE2 = 0x219, R_STATIC_THREAD_MGMT_SE3 = 0x21A, R_PGM_RSRC3 = 0x228,
    R_USER_DATA_0 = 0x240,
};

/* Decoded instructions of one address space, shared by its queues. When they become stale while a dispatch still runs
 * on them, that one keeps them and later ones get a new store. */
struct cp_decoded {
    struct isa_code *code;
    uint32_t jobs;            /* dispatches that run on it        */
    bool retired;             /* goes with the last of them       */
};
struct cp_code {
    struct vm *vm;
    struct cp_decoded *now;
    uint32_t generation, refs;
    bool stale;
};

/* A work-group between its slices. */
struct cp_slot {
    struct isa_group *g;
    uint32_t id[3];
    uint64_t insts;           /* granted so far */
    bool resumed, saved;      /* saved: its waves are in the context save area */
    uint64_t waits_at;        /* cp_job.moves, when a slice of it showed that it waits; 0: it did not */
};

/* The dispatch that a queue has in flight: at most one, since dispatches of a queue run in order here. */
struct cp_job {
    bool active, cancelled;
    struct isa_launch launch;
    struct cp_decoded *decoded;
    uint32_t waves_per_group, count[3];
    uint64_t next, total, finished;                 /* work-groups, in order of x, y, z                             */
    uint32_t n_slots, n_free, n_ready, ready_first; /* slots: work-groups that may be resident                      */
    uint32_t running;                               /* slots in the hands of a thread                               */
    uint32_t n_waiting;                             /* slots that wait since the last slice that did something      */
    uint64_t moves, moved_ns;                       /* such slices, the last one's end                              */
    uint64_t draw;                                  /* who is next                                                  */
    uint32_t cap;                                   /* of the arrays                                                */
    struct cp_slot *slot;
    uint32_t *free, *ready;                         /* a stack, and a ring in the order of suspension               */
    uint64_t number, start_ns, insts;
    struct isa_counts counts;
    char where[80];                                 /* of its packet                                                */
};

struct cp_ib_at { gva va; uint32_t dwords, pos; };

struct cp_batch { /* one cp_submit */
    struct cp_batch *next;
    uint64_t point;
    void (*done)(void *user, uint64_t point);
    void *user;
    uint32_t n_ibs, next_ib;
    struct cp_ib ib[];
};

struct cp_strict_queue;

struct cp_queue {
    struct cp *c;
    uint32_t id;
    struct cp_queue_desc d;
    struct cp_code *code;
    bool busy, dead, dying;     /* busy: the fetching thread is inside; dying: destroy waits                        */
    bool kernel;                /* of cp_submit: no ring, batches instead                                           */
    struct cp_batch *batch, **batch_tail;

    uint64_t pos, limit;        /* PM4: dwords, SDMA: bytes, AQL: packets; monotonic                                */
    bool short_noted;
    struct cp_ib_at ib[CP_IB_LEVELS];
    uint32_t depth;             /* 0: the ring                                                                      */

    uint32_t *pkt, pkt_dwords;  /* the packet in execution                                                          */
    gva pkt_va;
    bool have_pkt, waited;      /* waited: it has returned STEP_WAIT                                                */
    uint64_t pkt_progress;      /* of a copy that takes several turns                                               */
    uint32_t skip;              /* dwords that COND_EXEC or PRED_EXEC found not to be for us                        */
    const char *pkt_name;
    gva place_ib;               /* for reports: the indirect buffer and byte in it, or 0 and the ring's position    */
    uint64_t place_at;

    uint32_t sh[CP_SH_COUNT], *uconfig;
    uint64_t sh_set[CP_SH_COUNT / 64]; /* bit per register that the queue has written                               */
    uint32_t hdp_done;
    uint64_t atomic_return;
    gva aql_signal;             /* of a packet whose end is still to be told: its completion signal                 */
    bool aql_pending, aql_ib;   /* the packet at pos runs: as a dispatch, as PM4                                    */
    uint64_t aql_start;

    struct cp_job job;
    struct cp_strict_queue *strict;
};

/* What is to be told to the host; told by the fetching thread, with no lock held. */
enum cp_event_kind { EV_INTERRUPT, EV_FAULT, EV_NOTE, EV_DONE };
struct cp_event {
    struct cp_event *next;
    enum cp_event_kind kind;
    uint32_t queue, ctxid;
    struct cp_fault fault;
    void (*done)(void *user, uint64_t point);
    void *user;
    uint64_t point;
    char line[700];
};

struct cp_strict;

struct cp {
    const struct chip *chip;
    struct cp_options o;
    struct cp_host host;
    FILE *trace;
    struct cp_strict *strict;

    pthread_mutex_t lock;
    pthread_cond_t wake;        /* work for the threads that run work-groups            */
    pthread_cond_t changed;     /* something the fetching thread or a caller waits for  */
    pthread_t fetcher, *worker;
    uint32_t n_workers;
    bool stop, away;            /* away: evicted                                        */
    bool leaving;               /* about to be: slices are short, so that some end in mid-kernel */
    uint32_t running, pausing;  /* packets and work-groups in execution; who wants none */
    struct cp_queue *queue[CP_MAX_QUEUES];
    uint32_t n_queues, next_id, turn;
    struct cp_code *code[CP_MAX_QUEUES];
    uint32_t n_codes;

    pthread_mutex_t event_lock;
    struct cp_event *event, **event_tail, *event_spare;

    struct isa_counts counts;
    uint64_t dispatches, packets, busy_ns, preemptions, evictions, evict_at, back_ns, slices, back_slices;
};

/* True while a dispatch of the queue runs, and for ever once one has faulted: who waits for waves never gets on then.
 */
static inline bool cp_waves_run(const struct cp_queue *q)
{
    return __atomic_load_n(&q->job.active, __ATOMIC_ACQUIRE) || __atomic_load_n(&q->dead, __ATOMIC_RELAXED);
}

/* cp.c */
/* Lock held. Waits until no packet and no work-group runs, and keeps it so until cp_pause_end. */
void cp_pause_begin(struct cp *c);
void cp_pause_end(struct cp *c);
uint64_t cp_now_ns(void);
void cp_event_push(struct cp *c, const struct cp_event *e);
void cp_note(struct cp *c, uint32_t queue, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void cp_fault_tell(struct cp_queue *q, struct cp_event *e); /* the queue is dead from here on */
const char *cp_queue_kind_name(const struct cp_queue *q);
/* Stops the queue with a report that begins with its name and the packet's place and name. Always STEP_DEAD. */
enum step cp_stop(struct cp_queue *q, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
enum step cp_stop_page(struct cp_queue *q, gva va, bool write, const char *what) __attribute__((cold));
void cp_where(const struct cp_queue *q, char *out, size_t size);
void cp_trace(struct cp_queue *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* pm4_mem.c: memory as packets see it. False: a fault was reported, the packet returns STEP_DEAD. Aligned 4 and 8
 * bytes are one access, ordered after everything before. */
bool cp_mem_read(struct cp_queue *q, gva va, void *dst, uint64_t bytes, const char *what);
bool cp_mem_write(struct cp_queue *q, gva va, const void *src, uint64_t bytes, const char *what);
/* An aligned dword or pair that somebody is expected to change, so no check calls it a hazard. */
bool cp_mem_poll(struct cp_queue *q, gva va, void *dst, uint64_t bytes);
/* An atomic operation by its TC number, which cp_atomic_bytes knows. */
bool cp_mem_atomic(struct cp_queue *q, uint32_t op, gva va, uint64_t src, uint64_t cmp, uint64_t *before);
int cp_atomic_bytes(uint32_t op); /* 4, 8, or 0: no such operation */
/* Copies or fills (src NULL: with the dword `fill`) up to a few MiB a turn; q->pkt_progress says how far it came. */
enum step cp_mem_move(struct cp_queue *q, gva dst, const gva *src, uint32_t fill, uint64_t bytes);

/* pm4.c */
enum step pm4_step(struct cp_queue *q);      /* one packet from the innermost stream that is open */
bool pm4_ib_open(struct cp_queue *q, gva va, uint32_t dwords);
enum step pm4_fetch(struct cp_queue *q);     /* STEP_NEXT: q->pkt holds a packet                  */

/* regs.c: names from one table. NULL: a compute queue has no such register. */
const char *reg_sh_name(const struct chip *c, uint32_t off);
bool reg_sh_user(uint32_t off);              /* may be set by packets of a user's queue           */
void reg_reset(struct cp_queue *q);
void reg_foreign(struct cp_queue *q);

/* sdma.c, aql.c */
enum step sdma_step(struct cp_queue *q);
enum step aql_step(struct cp_queue *q);

/* dispatch.c */
/* Starts work-groups dim[] with the queue's registers. STEP_WAIT: the dispatch before it still runs. */
enum step dispatch_start(struct cp_queue *q, const uint32_t dim[3], uint32_t initiator);
/* Runs a slice of some work-group. cp->lock is held, given up in between, and held again. False: there was none. */
bool dispatch_help(struct cp *c);
void *dispatch_thread(void *cp);
void dispatch_cancel(struct cp_queue *q);    /* lock held; the job is inactive once no thread holds a slice of it */
void dispatch_free(struct cp_queue *q);
struct cp_decoded *decoded_create(const struct chip *chip);
void decoded_destroy(struct cp_decoded *d);

/* preempt.c */
bool preempt_applies(const struct cp_queue *q); /* its work-groups leave the card every preempt_insts instructions */
/* A work-group, between two slices, to the save area and its control stack, and back. False: the group has a page fault, or
 * `why` says what the card does instead. The lock is not held. */
bool preempt_save(struct cp_queue *q, struct cp_slot *s, uint32_t index, char why[200]);
bool preempt_restore(struct cp_queue *q, struct cp_slot *s, uint32_t index, char why[200]);
/* Lock held, by the fetching thread: takes every user's queue off the card for a while when its time has come. */
void evict_if_due(struct cp *c);

/* sdma.c and pm4.c share comparisons: 0 always, 1 <, 2 <=, 3 ==, 4 !=, 5 >=, 6 > */
bool cp_compare(uint32_t function, uint64_t value, uint64_t ref);

#endif
