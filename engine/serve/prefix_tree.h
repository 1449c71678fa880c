/* engine/serve/prefix_tree.h
 * Beginnings of token sequences, and who holds what was computed for them. In this radix tree the path from the root to
 * a node spells a beginning, and a node is a run of it: positions [begin, begin + n). What a run is worth keeping for
 * lies in slots (a slot that holds a node holds all nodes above it) and in blobs of host memory: one for a run, one for
 * the state at a run's end. A node that neither holds nor leads to anything is removed. The tree knows nothing of
 * models and of what blobs contain.
 *
 * Runs have at most PREFIX_RUN tokens, which lie in the node, so that a sequence grows without allocation but for
 * one node every so often, and long ones are saved and evicted from their ends.
 *
 * Each owner has a tree of his own, so that nobody finds, nor learns by how long something takes, what another one's
 * beginnings are. The memory for blobs is common.
 *
 * Blobs together stay below a limit: those not used for the longest time go first, and what has been used since the
 * last prefix_tree_tick never. An owner who came within PREFIX_FRESH_NS keeps his share of the limit (all of it by the
 * number of such owners) against the others; what he holds beyond it, or who did not come for longer, gives way.
 * Not thread-safe. */
#ifndef ZINC_SERVE_PREFIX_TREE_H
#define ZINC_SERVE_PREFIX_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { PREFIX_SLOTS = 256, PREFIX_RUN = 256 };
#define PREFIX_FRESH_NS 600000000000u

/* Host memory of a node. */
struct prefix_blob {
    struct prefix_node *node;            /* whose run or state it is; of a run that was split: its last part     */
    struct prefix_owner *owner;
    struct prefix_blob *older, *newer;
    uint64_t bytes, tick;                /* of it all; the newest use                                            */
    uint32_t from, to;                   /* the positions that it covers, for its owner                          */
    _Alignas(64) uint8_t data[];
};

struct prefix_node {
    struct prefix_node *parent, *child, *next, *prev; /* tree and siblings                                       */
    struct prefix_node *chain;           /* in the table of children                                             */
    uint32_t begin, n;
    uint64_t slots[PREFIX_SLOTS / 64];   /* that hold this run                                                   */
    struct prefix_blob *run, *state;     /* the run, also as a part of a longer one; the state at its end        */
    int32_t tok[PREFIX_RUN];
};

struct prefix_owner {
    struct prefix_node root;             /* of no tokens; every slot holds it                                    */
    uint64_t id, bytes;                  /* bytes: of his blobs                                                  */
    uint64_t came_ns;                    /* when he was last asked for                                           */
    uint64_t left;                       /* scratch                                                              */
    struct prefix_owner *next;
};

/* The fields are there to be read. */
struct prefix_tree {
    struct prefix_owner any;             /* id 0; the others follow                                              */
    uint64_t now_ns;                     /* the time, to be set before prefix_tree_owner                         */
    struct prefix_node **table;          /* children by parent and first token                                   */
    uint32_t log2_table, n_nodes;
    struct prefix_blob *oldest, *newest;
    uint64_t bytes, max_bytes;           /* of all blobs, and at most                                            */
    uint64_t tick, tick_bytes;           /* the operation at hand, and the blobs that it used                    */
    uint64_t evictions;
};

int prefix_tree_init(struct prefix_tree *t, uint64_t max_bytes); /* -ENOMEM */
void prefix_tree_finish(struct prefix_tree *t);

/* The owner with this id, who comes just now: found, or made and there to stay. NULL: out of memory. */
struct prefix_owner *prefix_tree_owner(struct prefix_tree *t, uint64_t id);

/* ---- walking ---- */

static inline uint32_t prefix_node_end(const struct prefix_node *n)
{
    return n->begin + n->n;
}
bool prefix_node_in_slots(const struct prefix_node *n); /* any */
static inline bool prefix_node_in_slot(const struct prefix_node *n, uint32_t slot)
{
    return n->slots[slot / 64] >> slot % 64 & 1;
}
/* On the way down along tok[0..n): the node reached, and how many tokens of its run agree. From { &owner->root, 0 }. */
struct prefix_at {
    struct prefix_node *node;
    uint32_t n;
};
/* Into the next node. false: nothing goes on from here, or only a part of this run agrees. */
bool prefix_tree_next(const struct prefix_tree *t, struct prefix_at *at, const int32_t *tok, uint32_t n);

/* ---- slots ---- */

/* The slot, which holds `node`, goes on with n tokens. Returns the node where it ends now; out of memory that is
 * earlier than asked for. */
struct prefix_node *prefix_tree_hold(struct prefix_tree *t, struct prefix_node *node, uint32_t slot,
                                     const int32_t *tok, uint32_t n);
/* The slot, which ends at `end`, holds no more than `pos` positions from now on. Returns the node where it ends
 * now; out of memory that is earlier than asked for. */
struct prefix_node *prefix_tree_cut(struct prefix_tree *t, struct prefix_node *end, uint32_t slot, uint32_t pos);

/* ---- blobs ---- */

/* An operation begins: what was used before may be evicted. */
void prefix_tree_tick(struct prefix_tree *t);
/* Makes room for `bytes` of this owner and allocates them. NULL: not within the limit, or out of memory. To be filled,
 * then put to a node of his that has none yet, or freed. */
struct prefix_blob *prefix_tree_blob(struct prefix_tree *t, struct prefix_owner *owner, uint64_t bytes);
/* How much room there could be made for this owner now. */
uint64_t prefix_tree_room(struct prefix_tree *t, const struct prefix_owner *owner);
void prefix_tree_put_run(struct prefix_tree *t, struct prefix_node *n, struct prefix_blob *b);
void prefix_tree_put_state(struct prefix_tree *t, struct prefix_node *n, struct prefix_blob *b);
/* Used now: this blob; the runs from the root to a node, the earlier ones later, so that ends are evicted first. */
void prefix_tree_touch(struct prefix_tree *t, struct prefix_blob *b);
void prefix_tree_touch_path(struct prefix_tree *t, struct prefix_node *n);

#endif
