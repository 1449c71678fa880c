/* tools/amdsim/isa/dpp.h
 * Data parallel primitives: the first source read from other lanes of the wave.
 *
 *     uint32_t shuffled[32], write = dpp_read(w, in, w->v[r], shuffled);
 *
 * A row is 16 lanes. A lane whose row or bank is masked, or whose source lies outside (unless bound_ctrl asks for 0
 * there), does not write its destination. A source lane that EXEC turned off reads as 0 unless `fetch inactive`. */
#ifndef AMDSIM_ISA_DPP_H
#define AMDSIM_ISA_DPP_H

#include "tools/amdsim/isa/inst.h"

/* The source as in->dpp has the lanes see it; answers the lanes that may write. Unknown controls stop the wave. */
uint32_t dpp_read(struct wave *w, const struct inst *in, const uint32_t *src, uint32_t *out);

#endif
