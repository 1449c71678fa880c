/* engine/outputs.h: what a command of a stream writes, for those who look at intermediate results. */
#ifndef ZINC_ENGINE_OUTPUTS_H
#define ZINC_ENGINE_OUTPUTS_H

#include "graph/stream.h"

enum { MAX_OUTPUTS = 8 };

struct output {
    uint32_t cmd;
    const char *name;  /* the buffer's                                        */
    enum arena arena;
    uint64_t off;      /* bytes into the arena                                */
    uint32_t rows, cols, ld; /* 32-bit elements; ld: from row to row          */
    bool ints;         /* int32, else f32                                     */
};

/* The outputs of command `cmd` for a step of n_rows rows and n_out outputs; caches and recurrent state are left out.
 * Returns how many. */
uint32_t cmd_outputs(const struct stream *s, uint32_t cmd, uint32_t n_rows, uint32_t n_out,
                     struct output out[MAX_OUTPUTS]);

#endif
