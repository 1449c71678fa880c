/* model/quant.h
 * Floats to blocks: the quantisers of every type that zinc reads (kernels/qtypes.def). Deterministic, no shared state: threads
 * quantise different rows at the same time.
 *
 *     quant_row(QT_Q4_K, row, NULL, dst, 4096, &e);     dst: qtype_row_bytes(QT_Q4_K, 4096) bytes
 *
 * Without importance Q4_0 .. Q8_0 follow the format's plain rules (extreme value over the code range, round to
 * nearest); with it they search like the others, but Q8_0. IQ4_NL, IQ4_XS and the K types search scale and minimum of
 * each run by weighted least squares, with weights that grow with |x|. MXFP4 tries the exponents around the one that
 * the OCP rule gives, NVFP4 (magnitudes up to 2688) likewise. The types of codebooks take the nearest of all entries.
 * The reverse direction is kernels/dequant.h. */
#ifndef ZINC_MODEL_QUANT_H
#define ZINC_MODEL_QUANT_H

#include <stdint.h>

#include "base/err.h"
#include "kernels/qtypes.h"

/* `n` floats, a multiple of qtype_block(t), to blocks at `dst` (aligned to 4 for F32, to 2 otherwise). `importance` [n], not
 * negative: how much an error in each column weighs (model/imatrix.h); NULL: all alike.
 * -EINVAL: a value is NaN or infinite, or too large for the type (which, its index, the remedy), or n is no multiple
 * of the block; -ENOTSUP: no type that zinc knows; -ENOMEM. */
int quant_row(enum qtype t, const float *src, const float *importance, void *dst, uint64_t n, struct err *e);

/* "Q4_K", "q4_k", "MXFP4" ... to the type; -EINVAL with the list of names. */
int quant_type_parse(const char *name, enum qtype *out, struct err *e);

#endif
