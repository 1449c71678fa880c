/* engine/proof/opstream.h
 * Streams of a few commands made by hand, and runs of them on a tier with guard bytes around every buffer.
 *
 *     struct ops *o = ops_new(8, 8, 256, 1, KA_KV_F16);           rows, outputs, positions, slots
 *     uint32_t x = ops_rows(o, "x", OPS_IN, 64), y = ops_rows(o, "y", OPS_OUT, 64), w = ops_vec(o, "w", 64, 1, 2);
 *     ka_norm a = { .step = ops_step(o), .y = ops_at(o, y), ... };
 *     ops_cmd(o, CMD_NORM, &a, sizeof a);
 *     ops_finish(o, &e);                                          and stream_verify says that it is a stream
 *     ops_run(o, &how, &result, &e);                              once for every tier, thread count, split ...
 *
 * Buffers of rows hold the inputs or results of all `total` rows of a case; a run feeds them to the tier in steps. */
#ifndef ZINC_PROOF_OPSTREAM_H
#define ZINC_PROOF_OPSTREAM_H

#include "rt/tier.h"

enum ops_use { OPS_IN, OPS_OUT, OPS_INOUT, OPS_TEMP };

struct ops;

struct ops *ops_new(uint32_t total, uint32_t cap, uint32_t n_ctx, uint32_t n_slots, enum ka_kv kv);
void ops_free(struct ops *o); /* NULL is fine */

uint32_t ops_random(void); /* deterministic, restarted by ops_new */
float ops_normal(void);    /* roughly N(0, 1) */

/* For who looks at streams and their plans alone: rows of cases made from then on are zero, and weights are whatever their memory
 * holds. Making numbers takes far longer than planning. */
void ops_set_without_data(bool on);

gpu_va ops_step(const struct ops *o);
gpu_va ops_at(const struct ops *o, uint32_t buf);
gpu_va ops_off(const struct ops *o, uint32_t buf, uint64_t floats);

/* Rows of n 4-byte elements; inputs are random, ops_data gives them to be overwritten: [total, n]. */
uint32_t ops_rows(struct ops *o, const char *name, enum ops_use use, uint32_t n);
/* Results that are ids, not floats: they must agree exactly. */
uint32_t ops_ids(struct ops *o, const char *name, enum ops_use use, uint32_t n);
float *ops_data(struct ops *o, uint32_t buf);
/* Per output instead of per row. */
void ops_set_outputs(struct ops *o, uint32_t buf);
/* Rows begin at position n; what lies before is random numbers in an f16 cache of heads of head_dim. */
void ops_old_positions(struct ops *o, uint32_t n, uint32_t head_dim);
/* Buffers that stay between steps: the cache (filled with NaN), the state. */
uint32_t ops_cache(struct ops *o, const char *name, uint64_t bytes);
uint32_t ops_state(struct ops *o, const char *name, uint64_t bytes);
/* The buffer of logits and the next tokens. */
uint32_t ops_logits(struct ops *o, uint32_t n_vocab);
gpu_va ops_next(const struct ops *o);
void ops_next_is_result(struct ops *o);
/* How next tokens are chosen: the address for ARGMAX, and the rows' own, [total], at first all zero (greedy). */
gpu_va ops_sample(const struct ops *o);
ka_sample *ops_samples(struct ops *o);
/* n floats, uniform in [lo, hi], as an F32 weight. */
uint32_t ops_vec(struct ops *o, const char *name, uint32_t n, float lo, float hi);
/* A weight [n_in, n_out, n_mats] of normal numbers / sqrt(n_in), of some 32,768 that are drawn again and again. */
uint32_t ops_weight(struct ops *o, const char *name, enum qtype t, uint32_t n_in, uint32_t n_out, uint32_t n_mats);
uint32_t ops_const(struct ops *o, const char *name, const float *v, uint32_t n);

void ops_cmd(struct ops *o, enum cmd_op op, const void *args, uint32_t bytes);
/* Rows of the case: token and position; default: slot 0, positions ascending from 0, token random. */
ka_row *ops_row(struct ops *o, uint32_t r);
int ops_finish(struct ops *o, struct err *e);
const struct stream *ops_stream(const struct ops *o);
const uint8_t *const *ops_weights(const struct ops *o); /* as struct tier_weights has them */
/* The newest command's wait is its predecessor; another one, to make a hazard. */
void ops_set_wait(struct ops *o, uint32_t wait);
void ops_set_vocab(struct ops *o, uint32_t n);

/* How to run: steps of first, then `step` rows (0: all that is left). */
struct ops_how {
    const char *tier;
    bool exact;
    int threads;
    uint32_t first, step;
};

/* What all output rows became, in the order of the buffers. */
struct ops_result {
    uint32_t n;      /* 4-byte elements                  */
    float *v;
    bool *is_id;     /* [n] compared as integers         */
};
void ops_result_free(struct ops_result *r);

/* -ENOTSUP: the tier has no such command; -EIO, told in e: guard bytes were overwritten, or the tier failed. */
int ops_run(struct ops *o, const struct ops_how *how, struct ops_result *out, struct err *e);

/* Microseconds of processor time per step of one thread, best of `reps`, with the L2 cache flushed in between. */
int ops_time(struct ops *o, const struct ops_how *how, uint32_t reps, double *us, struct err *e);
/* Bytes that a step moves: weights, inputs, outputs, cache. */
uint64_t ops_bytes(const struct ops *o);

#endif
