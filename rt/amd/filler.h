/* rt/amd/filler.h
 * A second process that fills a card's memory again and again, for a ladder's rung: whoever runs beside it is evicted.
 *
 *     struct amd_filler f;
 *     amd_filler_start(render_minor, &f, &e);
 *     ... run something ...
 *     amd_filler_stop(&f, &report);
 *
 * It is a child that opens the render node for itself, makes buffers in VRAM until there is no more, frees them and begins again,
 * with the driver's calls alone (GEM_CREATE, GEM_CLOSE, INFO). Buffers of others, a desktop's too, move to host memory and back.
 * It ends when its parent does. */
#ifndef ZINC_RT_AMD_FILLER_H
#define ZINC_RT_AMD_FILLER_H

#include <stdint.h>

#include "base/err.h"

struct amd_filler {
    int pid, stop, said; /* of the child; what ends it, and where it says what it did */
};
struct amd_filler_report {
    int32_t rc;          /* 0, or what a call of the driver gave: a negative errno */
    uint32_t rounds;     /* times that the memory was full          */
    uint64_t bytes;      /* of the card's memory                    */
    uint64_t evictions;  /* that the driver counted meanwhile, of buffers of all programs */
};
int amd_filler_start(uint32_t render_minor, struct amd_filler *out, struct err *e);
void amd_filler_stop(struct amd_filler *f, struct amd_filler_report *out);

#endif
