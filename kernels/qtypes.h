/* kernels/qtypes.h: the tensor types that zinc reads, and what kernels/qtypes.def says of them. Freestanding: hosts and
 * kernels include it. Where the type is a constant, so is what these functions return. */
#ifndef ZINC_KERNELS_QTYPES_H
#define ZINC_KERNELS_QTYPES_H

#include <stdbool.h>
#include <stdint.h>

#define QTYPE_FN static inline __attribute__((always_inline))

/* Values are GGUF's tensor type numbers. */
enum qtype {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, id, ...) QT_##NAME = id,
#include "kernels/qtypes.def"
    QT_LIMIT = 40
};

/* Elements per block; 0 for a type that zinc does not read. */
static inline uint32_t qtype_block(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, id, elems, ...) case QT_##NAME: return elems;
#include "kernels/qtypes.def"
    default: return 0;
    }
}

/* Bytes per block; 0 for a type that zinc does not read. */
static inline uint32_t qtype_block_bytes(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, id, elems, bytes, ...) case QT_##NAME: return bytes;
#include "kernels/qtypes.def"
    default: return 0;
    }
}

/* Bytes of a row of `n` elements, a multiple of the block. */
static inline uint64_t qtype_row_bytes(enum qtype t, uint64_t n)
{
    uint32_t b = qtype_block(t);
    return b ? n / b * qtype_block_bytes(t) : 0;
}

static inline const char *qtype_name(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) case QT_##NAME: return #NAME;
#include "kernels/qtypes.def"
    default: return "?";
    }
}

/* ---- types of blocks ---- */

/* Do codes stand for several weights each? */
static inline bool qtype_is_book(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOK(NAME, ...) case QT_##NAME: return true;
#include "kernels/qtypes.def"
    default: return false;
    }
}

/* Bits of a code as it meets x. */
QTYPE_FN uint32_t qtype_bits(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, ...) case QT_##NAME: return bits;
#include "kernels/qtypes.def"
    default: return 0;
    }
}

/* In the canonical arithmetic: one scale per 32 elements; that and a minimum; one per run of 16; that and minima. */
enum qtype_scales { QS_SCALE, QS_SCALE_MIN, QS_RUNS, QS_RUNS_MIN };

QTYPE_FN enum qtype_scales qtype_scales(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes)                    \
    case QT_##NAME: return QS_##scales;
#include "kernels/qtypes.def"
    default: return QS_SCALE;
    }
}

QTYPE_FN bool qtype_has_min(enum qtype t)
{
    return qtype_scales(t) == QS_SCALE_MIN || qtype_scales(t) == QS_RUNS_MIN;
}

/* Are codes looked up in a table? */
QTYPE_FN bool qtype_has_table(enum qtype t)
{
    enum { LINEAR, LOOKUP, BOOK, TRITS };
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes)                    \
    case QT_##NAME: return codes == LOOKUP;
#include "kernels/qtypes.def"
    default: return false;
    }
}

#endif
