/* engine/grammar/grammar_pool.h
 * Threads for masks that take long. Most masks are made where they are needed, within some thousand steps; one that is
 * not goes here, with the state it is for, and its owner does other things until it is there:
 *
 *     grammar_pool_submit(p, st, client, steps, &task, &e);      st is the pool's now
 *     ... opts.done(user) is called
 *     if (grammar_task_done(task, &rc, &used, &e))                st is the owner's again, the task is gone
 *     or grammar_task_drop(task);                                 ends it within a slice; the state goes with it
 *
 * Work is done in slices of some milliseconds, and clients take turns: whoever asks for something small waits for a slice,
 * not for what others have asked for. Only few threads compute at a time; the others stand still between two slices.
 * Tasks of one grammar come one after another, as they would wait for its lock.
 *
 * All functions but create and destroy may be called from any thread, a task by one of them. */
#ifndef ZINC_GRAMMAR_GRAMMAR_POOL_H
#define ZINC_GRAMMAR_GRAMMAR_POOL_H

#include "engine/grammar/grammar.h"

struct grammar_pool;
struct grammar_task;

struct grammar_pool_opts {
    uint32_t n_threads;       /* at most so many tasks have been begun; at least 1                          */
    uint32_t n_at_once;       /* of them compute; 0: one, or two where there are cores enough               */
    uint64_t slice;           /* steps; 0: 100,000                                                          */
    void (*done)(void *user); /* a task has ended that was not dropped; on the pool's threads               */
    void *user;
};

int grammar_pool_create(const struct grammar_pool_opts *o, struct grammar_pool **out, struct err *e);
void grammar_pool_destroy(struct grammar_pool *p); /* NULL is fine. Tasks must have been dropped or done */

/* grammar_state_prepare within `steps`, for a client (any number). -ENOMEM: the state stays the caller's. */
int grammar_pool_submit(struct grammar_pool *p, struct grammar_state *st, uint64_t client, uint64_t steps,
                        struct grammar_task **out, struct err *e);
/* False: not yet. True: *rc and *e are those of grammar_state_prepare, *used the steps it took. */
bool grammar_task_done(struct grammar_task *t, int *rc, uint64_t *used, struct err *e);
void grammar_task_drop(struct grammar_task *t); /* NULL is fine */

#endif
