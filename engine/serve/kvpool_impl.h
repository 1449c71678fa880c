/* engine/serve/kvpool_impl.h: the objects behind kvpool.h. kvpool.c has slots and what host memory keeps, kvpool_disk.c
 * what goes to the disk and comes from there. */
#ifndef ZINC_SERVE_KVPOOL_IMPL_H
#define ZINC_SERVE_KVPOOL_IMPL_H

#include <pthread.h>

#include "engine/priv.h"
#include "engine/serve/kvcopy.h"
#include "engine/serve/kvpool.h"
#include "engine/serve/prefix_disk.h"
#include "engine/serve/prefix_tree.h"

enum {
    MAX_WANTED = 3,     /* snapshots at boundaries: the end of the first message, and the beginnings of the last two */
};

struct kv_slot {
    struct session *s;
    struct prefix_owner *owner; /* of what it holds                                                        */
    struct prefix_node *end; /* the tree knows the sequence up to here                                     */
    uint32_t seen;           /* the session's position when kvpool_extend was called last                  */
    uint32_t limit;          /* what comes from here on must not be used again; UINT32_MAX: no such thing  */
    uint32_t wanted[MAX_WANTED], n_wanted;
    bool busy;
    uint64_t used;           /* the pool's clock when it was acquired or released                          */
    uint32_t spilled;        /* so many positions are on disk, or were passed over; whole blocks           */
    struct prefix_hash chain; /* of owner and tokens up to there                                           */
    struct kv_fetch *fetch;  /* what comes from the disk for it; NULL: nothing                             */
};

struct kvpool {
    struct engine *eng;
    struct kvcopy *copy;
    struct prefix_tree tree;
    bool recurrent, share;
    bool prompts_only;       /* what was generated is not used again                                           */
    uint32_t snapshot_every, min_reuse, n_slots, n_busy;
    uint64_t clock, state_bytes;
    double token_ns, byte_ns; /* evaluating a token; moving a byte between a slot and the host: 0: not known   */
    struct kv_slot *slot;
    struct prefix_disk *disk; /* NULL: none                                                                */
    uint64_t (*owner_name)(void *user, uint64_t owner);
    void *owner_user;
    double disk_byte_ns;     /* reading a byte from disk and putting it in place; 0: not known                 */
    struct kvpool_stats stats, published;
    pthread_mutex_t lock;    /* of `published`                                                             */
};

/* How far the tree knows what a slot holds. */
static inline uint32_t kvpool_known(const struct kv_slot *s)
{
    return prefix_node_end(s->end);
}

/* The tree learns what kvpool_extend was told of, or that the session was cut. */
void kvpool_catch_up(struct kvpool *p, struct kv_slot *slot);

/* ---- kvpool_disk.c; each does nothing where there is no disk ---- */

int kvpool_disk_open(struct kvpool *p, const struct kvpool_opts *o, struct err *e);
/* Writes what slots hold and the disk does not, within seconds, and ends. */
void kvpool_disk_close(struct kvpool *p);
/* The slot holds something else from now on. */
void kvpool_disk_forget(const struct kvpool *p, struct kv_slot *slot);
/* A slot was taken for tok[0..n), of which it holds some: begins to fetch what the disk has beyond. */
void kvpool_disk_begin(struct kvpool *p, struct kv_slot *slot, const int32_t *tok, uint32_t n);
void kvpool_disk_stop(struct kvpool *p, struct kv_slot *slot);
/* The state at the end of what is known of a slot was taken: kvcopy_state_bytes of it. */
void kvpool_disk_state(struct kvpool *p, struct kv_slot *slot, const void *state);

#endif
