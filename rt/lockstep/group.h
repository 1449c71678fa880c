/* rt/lockstep/group.h
 * Work-groups of the lock-step runner, for what runs several at a time: each has fibres and shared memory of its own, and runs
 * until it is through, waits for its inputs (of a walk) or for others of its cluster, or nobody in it can go on. One thread at a
 * time, under the lock. */
#ifndef ZINC_RT_LOCKSTEP_GROUP_H
#define ZINC_RT_LOCKSTEP_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cluster; /* rt/lockstep/cluster.h */
struct group;

void groups_lock(void);
void groups_unlock(void);

int group_create(struct group **out, struct err *e); /* -ENOMEM */
void group_destroy(struct group *g);                 /* NULL is fine */

struct group_work {
    void (*entry)(const void *);
    const void *args;
    uint32_t grid[3], id[3], threads, shared; /* as a launch has them; id: which group of the grid it is */
    bool must_wait;                           /* kd_wait_inputs stops it */
    struct cluster *cluster;                  /* NULL: none; rank: its number there */
    uint32_t rank;
};
void group_begin(struct group *g, const struct group_work *w);

enum group_state { GROUP_THROUGH, GROUP_WAITS, GROUP_APART, GROUP_STUCK };
enum group_state group_run(struct group *g); /* on, from where it stands; APART: as far as it gets without the others of its cluster */
void group_forget(struct group *g);          /* its items stand in the midst of a kernel that nobody will finish */
/* What it waits for is there. It does not wait again in this work. */
void group_open(struct group *g);
bool group_has_waited(const struct group *g);
/* -EFAULT where something was written behind its shared memory, else 0. */
int group_check(const struct group *g, struct err *e);
/* -EDEADLK, with who waits where; -EPROTO, with the rule that was broken. */
int group_stuck(const struct group *g, struct err *e);

#endif
