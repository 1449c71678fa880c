/* rt/amd/ring.h
 * What all ways of submitting to an AMD card do alike, over a few functions of the winsys.
 *
 * A watch is the host's side of the fence cell: is a point done, waiting for it, and telling a card that stands still.
 *
 *     amd_watch_init(&q->watch, "umq", gpu_name, &ops, q);          then q->watch.cells
 *     if ((rc = amd_watch_begin(&q->watch, e))) ...                  before a submission; -EIO: it is dead
 *     amd_watch_wait(&q->watch, point, timeout_ns, e);
 *
 * A ring is memory that the card reads dwords from by itself, with a watch for what it has done:
 *
 *     amd_ring_init(&q->ring, dw, ring_bytes, rptr, wptr_cell);
 *     amd_ring_open(&q->ring, &ring_ops, w, e);                      the driver's queue on it, and q->ring.bell
 *     amd_ring_submit(&q->ring, span, n_spans, &point, e);          waits for room; then packets, write pointer, bell
 *     amd_ring_rest(&q->ring);                                      the queue is given back until the next submission
 *
 * Room is counted by points that are complete. The read pointer of a PM4 queue has 32 bits and wraps with the ring
 * (gfx_v11_0.c and gfx_v12_0.c, get_rptr_compute; RptrWhenConsumed in kfdtest's PM4Queue.cpp): it tells a full ring from
 * an empty one to nobody, and is for reports and ladders.
 * Not thread-safe. Allocates nothing. */
#ifndef ZINC_RT_AMD_RING_H
#define ZINC_RT_AMD_RING_H

#include "rt/amd/winsys.h"

/* ---- watching a fence ---- */

struct amd_watch;
struct amd_watch_ops {
    /* Sleeps by the driver's means until the point is done, or for ns; 0: only looks whether the driver has bad news.
     * -EIO: it has, e says what; the watch is dead then, unless the point is done. Another error: the call's. */
    int (*sleep)(struct amd_watch *w, uint64_t point, uint64_t ns, struct err *e);
    /* What more there is to say of a card that stands still, behind "point 3 of 4": ", the driver ...". */
    void (*stands)(struct amd_watch *w, char *out, size_t n);
    /* Is there a reason that nothing moves, as the driver tells it: is the queue off the card, or was it since the last call?
     * NULL: it never tells. */
    bool (*alive)(struct amd_watch *w);
    uint64_t (*clock)(struct amd_watch *w); /* NULL: clock_ns */
};
struct amd_watch {
    const struct amd_watch_ops *ops;
    void *user;                       /* of ops                                                       */
    const char *tier, *gpu;           /* for errors                                                   */
    volatile struct amd_cells *cells;
    uint64_t point;                   /* of the newest submission                                     */
    uint64_t hang_ns;                 /* no progress for so long is a hang, 0: never                  */
    uint64_t poll_ns;                 /* how long a wait looks before it sleeps                       */
    uint32_t sleep_ms;                /* a host that nothing wakes looks by itself after so long      */
    bool dead;                        /* a fault, a reset or a hang: nothing completes any more       */
    uint64_t progress_ns, seen_fence; /* when fence or progress word last moved, as seen              */
    uint32_t seen_progress;
};
/* hang_ns as ZINC_KFD_TIMEOUT says, poll_ns as ZINC_AMD_POLL. The strings live as long as the watch. */
void amd_watch_init(struct amd_watch *w, const char *tier, const char *gpu, const struct amd_watch_ops *ops, void *user);
static inline bool amd_watch_done(const struct amd_watch *w, uint64_t point)
{
    return __atomic_load_n(&w->cells->fence, __ATOMIC_ACQUIRE) >= point;
}
/* Before a submission: time without progress counts from the first one that the card has to do. */
int amd_watch_begin(struct amd_watch *w, struct err *e);
/* Polls for poll_ns (20 ms: longer than a token takes), then sleeps. 0: done. -ETIME: not yet. -EIO: a fault, a reset, a hang. */
int amd_watch_wait(struct amd_watch *w, uint64_t point, uint64_t timeout_ns, struct err *e);
int amd_watch_dead(const struct amd_watch *w, struct err *e); /* -EIO, and the line */

/* ---- a ring that the card reads ---- */

/* The driver's queue behind a ring; user: the watch's. */
struct amd_ring_ops {
    int (*make)(void *user, struct err *e); /* on the memory that is there; sets the bell. -EAGAIN: others hold all queues */
    int (*drop)(void *user);                /* 0 or a negative errno; in a child of fork there is nothing to do */
    uint32_t (*id)(const void *user);       /* for the log */
};

enum { AMD_POINTS = 256 }; /* at most so many in flight */
struct amd_ring {
    struct amd_watch watch;
    const struct amd_ring_ops *ops;
    enum log_module log;
    bool made, resting;                         /* the driver has a queue; it was given back      */
    uint32_t *dw, mask;                         /* dwords - 1                                    */
    volatile uint64_t *rptr, *wptr_cell, *bell; /* bell: set when it is mapped                   */
    uint64_t wptr;                              /* dwords written since the queue was made       */
    uint64_t end[AMD_POINTS];                   /* [point % AMD_POINTS]: wptr behind the point   */
};
void amd_ring_init(struct amd_ring *r, uint32_t *dw, uint32_t bytes, volatile uint64_t *rptr, volatile uint64_t *wptr_cell);
/* The first queue. */
int amd_ring_open(struct amd_ring *r, const struct amd_ring_ops *ops, enum log_module log, struct err *e);
/* Nothing is under way: the card forgets the queue, whose memory stays. The next submission has it made again; while others hold
 * all queues that is tried again, for as long as a hang takes. */
void amd_ring_rest(struct amd_ring *r);
/* The card lets go of it, and nothing can be submitted any more. Twice is fine. */
void amd_ring_stop(struct amd_ring *r);

struct amd_span {
    const uint32_t *dw;
    uint32_t n;
};
/* Has the queue made again if it rests, waits until the spans have room, copies them, and rings. They end with the packet that
 * raises the fence to r->watch.point + 1. */
int amd_ring_submit(struct amd_ring *r, const struct amd_span *span, uint32_t n_spans, uint64_t *point, struct err *e);
/* Packets that no point stands for. False: there is no room now. */
bool amd_ring_add(struct amd_ring *r, const uint32_t *dw, uint32_t n);

/* For ladders: dwords without a bell; the bell for all that was written. */
void amd_ring_put(struct amd_ring *r, const uint32_t *dw, uint32_t n);
void amd_ring_bell(struct amd_ring *r);

/* Where the card fetches next, in dwords of the ring; when all is fetched, amd_ring_written. */
static inline uint32_t amd_ring_fetched(const struct amd_ring *r)
{
    return (uint32_t)__atomic_load_n(r->rptr, __ATOMIC_ACQUIRE) & r->mask;
}
static inline uint32_t amd_ring_written(const struct amd_ring *r)
{
    return (uint32_t)r->wptr & r->mask;
}
/* ", the queue fetches at dword 7 of its ring, written up to 9" */
void amd_ring_place(const struct amd_ring *r, char *out, size_t n);

/* amd_winsys_ops of those that have a watch, and a ring. */
int amd_ops_wait(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e);
void amd_ops_rest(struct amd_winsys *w);
void amd_ops_stop(struct amd_winsys *w);
void amd_ops_describe_queue(struct amd_winsys *w, FILE *f);

/* For reports: the pointers and the fence in a line, which the caller has begun; the last packets. */
void amd_ring_describe(const struct amd_ring *r, FILE *f);
void amd_ring_dump(const struct amd_ring *r, struct amd_winsys *w, FILE *f);

#endif
