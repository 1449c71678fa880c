/* engine/proof/ladder.h
 * Proves a tier step by step, from the device's first breath to tokens, and stops at the first step that does not hold.
 * A tier's own rungs (rt/ladder.h) come first; then, for every tier: one kernel, every kernel, one layer, one token and
 * many tokens, each against the cpu tier, and steps in flight against those one by one.
 *
 *     struct ladder_opts o = { .tier = "kfd", .model = "tiny.gguf", .line = print };
 *     struct ladder_result r;
 *     ladder_climb(&o, &r, &e);                  0 also when a rung failed: see r.failed */
#ifndef ZINC_PROOF_LADDER_H
#define ZINC_PROOF_LADDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/flag.h"

enum ladder_status { LADDER_OK, LADDER_FAILED, LADDER_SKIPPED };

struct ladder_line {
    uint32_t number;          /* from 1                                                          */
    const char *name, *proves;
    enum ladder_status status;
    double ms;
    const char *found;        /* what came: when it failed, the whole error; when skipped, why   */
    const char *look;         /* when it failed: where to look on a real machine                 */
};

struct ladder_opts {
    const char *tier;
    int device;               /* -1: the best                                                     */
    const char *model;        /* a GGUF file; NULL: the rungs that need one are skipped           */
    const char *filter;       /* of the op table's cases; NULL: all                               */
    uint32_t first, last;     /* rungs to climb; 0: from the first, to the last                   */
    uint64_t skip;            /* bit N - 1: rung N is passed over, though those above it may need it */
    uint32_t n_tokens;        /* of the last rung; 0: 64                                          */
    FILE *detail;             /* what a report should have beside the lines; NULL: thrown away    */
    const struct flag *cancel;
    void (*line)(void *user, const struct ladder_line *l);
    void (*progress)(void *user, const char *what, uint32_t done, uint32_t total); /* may be NULL */
    void *user;
};

struct ladder_result {
    uint32_t n, ok, skipped;  /* rungs: all, those that hold, those left out                      */
    uint32_t failed;          /* the rung that failed, 0: none                                    */
};

/* -EINVAL: no such tier; -ECANCELED. */
int ladder_climb(const struct ladder_opts *o, struct ladder_result *r, struct err *e);
/* The rungs of a tier without climbing them. */
int ladder_list(const char *tier, void (*line)(void *user, const struct ladder_line *l), void *user, struct err *e);

#endif
