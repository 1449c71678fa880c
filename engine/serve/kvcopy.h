/* engine/serve/kvcopy.h
 * Moves what a slot of an engine holds: positions of its KV cache and its recurrent state, to another slot or to host
 * memory and back. Knows where both lie, from the decode stream, and in which order a tier keeps them.
 *
 * Positions are moved in whole groups of KVCOPY_GROUP: up to 15 positions before and behind [from, to) go along. Both
 * slots must agree on what is before; what is behind is overwritten by the next evaluation. */
#ifndef ZINC_SERVE_KVCOPY_H
#define ZINC_SERVE_KVCOPY_H

#include "engine/engine.h"

enum { KVCOPY_GROUP = 16 };

struct kvcopy;

int kvcopy_create(struct engine *eng, struct kvcopy **out, struct err *e);
void kvcopy_destroy(struct kvcopy *c); /* NULL is fine */

/* Host memory that positions [from, to) take; that the state of a slot takes, 0: the model has none. */
uint64_t kvcopy_run_bytes(const struct kvcopy *c, uint32_t from, uint32_t to);
uint64_t kvcopy_state_bytes(const struct kvcopy *c);

/* Each fails only as the tier fails; what was to be written is undefined then. */
int kvcopy_move(struct kvcopy *c, uint32_t to_slot, uint32_t from_slot, uint32_t from, uint32_t to, struct err *e);
int kvcopy_save(struct kvcopy *c, uint32_t slot, uint32_t from, uint32_t to, void *out, struct err *e);
/* [from, to) out of what was saved as [saved_from, saved_to), which covers it. */
int kvcopy_load(struct kvcopy *c, uint32_t slot, uint32_t from, uint32_t to, const void *saved, uint32_t saved_from,
                uint32_t saved_to, struct err *e);
int kvcopy_save_state(struct kvcopy *c, uint32_t slot, void *out, struct err *e);
int kvcopy_load_state(struct kvcopy *c, uint32_t slot, const void *saved, struct err *e);

#endif
