/* engine/serve/kvpool.h
 * Who owns which slot of the KV cache, and what of earlier prompts can be used again. Every sequence has a slot, a
 * contiguous region of the cache (and of the recurrent state). What was evaluated is remembered in a radix tree over
 * tokens (prefix_tree.h), which knows where the cache of a run of tokens lies: in slots, busy and idle ones,
 * until they are taken for something else, and in host memory, where runs are saved before a slot is overwritten. A new
 * prompt takes the longest prefix that can be put together in its slot: what lies there already, a copy from another
 * slot, copies from host memory (kvcopy.h). Its slot is the idle one whose content is missed least, weighed by
 * when it was last used. Of saved runs and snapshots the least recently used go first, ends before beginnings.
 *
 * Recurrent models cannot go back, so their prefixes end only where a snapshot of the state was taken, in host memory:
 * at boundaries of messages and at regular distances (kvpool_next_stop), and at the end of a slot before it is
 * overwritten; or at the very end of an idle slot, which goes on in place.
 *
 * Same tokens, same bits: a prefix is used only if evaluating it anew would give the same bits. On tiers whose streams
 * for prompts and for single tokens differ in arithmetic, what was generated (and what follows it) is therefore not
 * remembered, unless reuse_generated says otherwise. There a last prompt token that is left alone has to be evaluated
 * as a prompt as well: that is up to the caller.
 *
 * A prefix belongs to the owner whose prompt it came with, and only his prompts find it: how much of a prompt was
 * reused, and how quickly it was read, tells nothing of what others asked. Owners who want some keep their shares of the
 * host memory against each other (prefix_tree.h).
 *
 * Whole blocks of PREFIX_RUN positions, and snapshots with what belongs to them, also go to a folder on disk, where they
 * outlive the pool; a pool whose memory has less of a prompt than the folder fetches the rest (prefix_disk.h).
 *
 * One thread (the scheduler's) drives a pool, between steps: nothing may be in flight on the tier, but for kvpool_extend of
 * what was generated, kvpool_release and those that only look. kvpool_stats may be read from any. */
#ifndef ZINC_SERVE_KVPOOL_H
#define ZINC_SERVE_KVPOOL_H

#include "engine/engine.h"
#include "engine/serve/prefix_disk.h"

struct kvpool;

struct kvpool_opts {
    uint64_t host_bytes;     /* host memory for saved runs and snapshots at most; 0: none is used              */
    bool reuse_generated;    /* also where that may change low bits                                            */
    uint32_t snapshot_every; /* recurrent: a snapshot at each multiple of so many tokens; 0: 1024              */
    bool share;              /* all prompts are one owner's                                                   */
    const char *disk_dir;    /* a folder for prefixes that outlive the pool (prefix_disk.h); NULL: none       */
    uint64_t disk_bytes;     /* of the files in it together, at most                                          */
    /* A name of an owner that lasts as long as the files, for his key's text; NULL: his number. */
    uint64_t (*owner_name)(void *user, uint64_t owner);
    void *owner_user;
    void (*wake)(void *user); /* kvpool_fetch or kvpool_spill can go on; on another thread; may be NULL        */
    void *wake_user;
    uint32_t min_reuse;      /* shorter prefixes are not worth a copy, a snapshot or being saved; 0: 16        */
};

struct kvpool_stats {
    uint64_t lookups, hits;                 /* acquisitions, and those that found something                    */
    uint64_t tokens, tokens_reused;         /* of the prompts acquired                                        */
    uint64_t tokens_resident, tokens_copied, tokens_restored; /* reused: in place, slot to slot, from the host */
    uint64_t tokens_fetched;                /* reused: from disk                                              */
    uint64_t snapshots, saves, restores, evictions; /* of states; of runs of up to 256 tokens; of both        */
    uint64_t host_bytes, host_bytes_max;    /* held now, and the limit                                        */
    uint64_t nodes;
    uint32_t slots, slots_busy;
    struct prefix_disk_stats disk;
};

/* Takes over all n_slots of the engine, at most 256: no other sessions may be there while the pool lives. -EINVAL: more
 * slots; -EAGAIN: one is in use; -ENOMEM. */
int kvpool_create(struct engine *eng, const struct kvpool_opts *o, struct kvpool **out, struct err *e);
void kvpool_destroy(struct kvpool *p); /* NULL is fine */

/* A slot for a sequence of this owner that begins with tok[0..n): its session, at the position up to which the prefix is there
 * (at most n - 1, so that logits can be computed). boundary [n_boundary]: ascending positions where messages end,
 * good places for snapshots; the first and the last two are used. A copy that fails is evaluated instead. -EAGAIN: all
 * slots are busy; -EINVAL, -E2BIG: no token, or more than the context; -EIO: the device failed; -ENOMEM. An owner once
 * seen is remembered: there should be no more of them than keys. */
int kvpool_acquire(struct kvpool *p, uint64_t owner, const int32_t *tok, uint32_t n, const uint32_t *boundary,
                   uint32_t n_boundary, struct session **out, struct err *e);

/* More of the prompt may come from the disk: to be called between steps, and nothing of the prompt evaluated, until it
 * returns false; the session's position is then where its evaluation begins. true: later, when opts.wake is called, or at
 * once if *again. A call takes milliseconds. */
bool kvpool_fetch(struct kvpool *p, struct session *s, const int32_t *tok, bool *again);

/* Copies out what goes to the disk, between steps, for milliseconds. true: there is more to be done now. */
bool kvpool_spill(struct kvpool *p);

/* Would kvpool_spill copy something out? */
bool kvpool_may_spill(const struct kvpool *p);

/* How many tokens of the prompt could be reused now, without taking anything; may lag behind what running sequences
 * generated lately. */
uint32_t kvpool_match(const struct kvpool *p, uint64_t owner, const int32_t *tok, uint32_t n);

/* Where the evaluation of the prompt should pause next, because a snapshot is wanted there: a position in (pos, n], n
 * when there is none before. */
uint32_t kvpool_next_stop(const struct kvpool *p, const struct session *s, uint32_t n);

/* The session has been evaluated up to its position: what is new becomes known to others, and a snapshot is taken where
 * kvpool_next_stop said so. To be called after each step (cheap when nothing is to be done), and after session_truncate
 * before anything is evaluated. `generated`: these tokens were evaluated as single tokens, not as a prompt. A failed
 * snapshot is no error. */
void kvpool_extend(struct kvpool *p, struct session *s, bool generated);

/* The sequence ended; what it holds stays known until the slot is needed. `keep` false: it must not be used again (its
 * evaluation failed). */
void kvpool_release(struct kvpool *p, struct session *s, bool keep);

/* What evaluating a token of a prompt takes, in ns, as it was measured; 0: not known. A run is saved, and put back, only
 * where that is quicker than evaluating it again. */
void kvpool_set_token_ns(struct kvpool *p, double ns);

struct kvpool_stats kvpool_stats(const struct kvpool *p);

#endif
