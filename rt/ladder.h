/* rt/ladder.h
 * Bringing a device up, rung by rung: each rung proves one thing that the next one stands on. A tier that drives its
 * device itself describes its own rungs here, from opening the device to a dispatch; what comes after (kernels against
 * the oracle, layers, tokens) is the same for every tier and lies in engine/proof/ladder.c. */
#ifndef ZINC_RT_LADDER_H
#define ZINC_RT_LADDER_H

#include <stdio.h>

#include "base/err.h"

/* What a rung has to say. */
struct ladder_out {
    char found[256]; /* one line: what came                                     */
    FILE *detail;    /* never NULL: whatever a report about this machine should have */
};

struct ladder_rung {
    const char *name;   /* "queue created"                                      */
    const char *proves; /* one line                                             */
    const char *look;   /* one line: where to look on a real machine when it fails */
    /* 0, or a negative errno and *e: what was expected, what came. `state` is what begin made. */
    int (*run)(void *state, struct ladder_out *o, struct err *e);
};

struct ladder {
    const struct ladder_rung *rung;
    unsigned n;
    int (*begin)(int device, void **state, struct err *e); /* device -1: the best */
    void (*end)(void *state);                              /* also after a rung that failed */
    void (*failed)(void *state, FILE *detail); /* one of these rungs failed: the device as it stands. NULL: nothing to say */
};
extern const struct ladder ladder_kfd; /* rt/kfd/ladder.c */
extern const struct ladder ladder_umq; /* rt/umq/userq_ladder.c, where it was built */
extern const struct ladder ladder_cs;  /* rt/umq/ladder.c */
extern const struct ladder ladder_metal; /* metal/ladder.c */

#endif
