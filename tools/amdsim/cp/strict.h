/* tools/amdsim/cp/strict.h
 * The checks of --strict: what a program forgot and this sequential model would forgive, real hardware not always.
 *
 *   never written  a shader reads VRAM that only the GPU can write, and the GPU has not
 *   stale          a load through a cache finds a line kept since an earlier dispatch, and memory has changed since:
 *                  ACQUIRE_MEM lacks GLK_INV (scalar), GLV_INV (vector), GLI_INV (code) or GL2_INV (the host wrote
 *                  memory that level 2 keeps); or since before another work-group of the same dispatch changed it: the
 *                  instruction that empties the cache is missing
 *   hazard         a dispatch, or a packet, touches bytes of an earlier dispatch of its queue that nothing has waited
 *                  for: EVENT_WRITE CS_PARTIAL_FLUSH or an end-of-pipe event is missing
 *   dirty          the host is signalled while level 2 holds newer data for memory that it reads: GL2_WB missing
 *
 * A finding ends the queue with one line. All functions do nothing when the queue has no checks (cp->strict NULL). */
#ifndef AMDSIM_CP_STRICT_H
#define AMDSIM_CP_STRICT_H

#include "tools/amdsim/cp/state.h"

struct cp_strict *cp_strict_create(struct cp *c);
void cp_strict_destroy(struct cp_strict *s);
int cp_strict_queue_create(struct cp_queue *q); /* 0 or -ENOMEM */
void cp_strict_queue_destroy(struct cp_queue *q);

/* A dispatch is about to run: sets q->job.launch.watch. False: its code is not what the instruction cache holds. */
bool cp_strict_dispatch(struct cp_queue *q, char why[240]);
/* The queue has waited for all its waves. */
void cp_strict_waited(struct cp_queue *q);
/* Cache actions in the layout of ACQUIRE_MEM's gcr_cntl, on [base, base + bytes); bytes ~0: all memory. */
void cp_strict_caches(struct cp_queue *q, uint32_t gcr, gva base, uint64_t bytes);
/* The command processor or the copy engine touches memory. False: why[] says what is missing. */
bool cp_strict_access(struct cp_queue *q, gva va, uint64_t bytes, bool write, char why[240]);
/* A packet tells the host that results are there; `va` 0: by interrupt alone. False: why[]. */
bool cp_strict_signal(struct cp_queue *q, gva va, char why[240]);

#endif
