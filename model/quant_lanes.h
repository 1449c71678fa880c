/* model/quant_lanes.h: private to model/quant_search*.c, the fits of the types whose blocks of 256 have a small scale (and minimum) for
 * each run of 16 or 32 elements.
 *
 * A run's fit is a ladder of scales, and each rung sums over the run in an order that is part of what the file is: eight sums, each over
 * every eighth element, then added in pairs. One run's sums are chains that a processor waits for, and their ends are additions across a
 * register. So the runs of SIDE blocks lie side by side, each in a lane of its own: all of them take a rung together, whatever the width
 * of registers, and every lane does what a lone run would. */
#ifndef ZINC_MODEL_QUANT_LANES_H
#define ZINC_MODEL_QUANT_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/blocks.h"

enum { SIDE = 4, MAX_RUNS = 16, MAX_LANES = SIDE * MAX_RUNS };

struct lane_kind {
    int run;         /* elements: 16 or 32                                                           */
    int limit;       /* small scales: -limit .. limit - 1; with a minimum, both 0 .. limit           */
    int steps;       /* rungs to either side                                                         */
    bool table;      /* codes are values of iq4_values                                               */
    float lo, hi;    /* else the code range                                                          */
    float end, span; /* the code that the extreme element aims at; how far the ladder goes around it */
};

/* SIDE blocks as they were chosen. */
struct lane_codes {
    float q[SIDE][QK_K];
    int sc[SIDE][MAX_RUNS], mn[SIDE][MAX_RUNS];
    uint16_t d[SIDE], m[SIDE]; /* bits of the f16 factors */
};

/* x ~ d sc q; x ~ d sc q - m mn with both not negative. x [SIDE, 256], importance the same or NULL. The same codes from each: in registers of
 * four, eight and sixteen floats. */
#define LANES_DECLARE(suffix)                                                                                                \
    void quant_lanes_sym##suffix(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c);  \
    void quant_lanes_affine##suffix(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c);
LANES_DECLARE()
LANES_DECLARE(_avx2)
LANES_DECLARE(_avx512)

#endif
