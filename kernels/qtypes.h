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
    QT_LIMIT = 41,
    QT_OPENED = 62 /* no type of files: signed bytes in blocks of 32 with an f32 factor for each 16, in two planes */
};

/* A type of files that zinc reads; what lies in memory alone (QT_OPENED) is none. */
static inline bool qtype_in_files(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) case QT_##NAME: return true;
#include "kernels/qtypes.def"
    default: return false;
    }
}

/* Elements per block; 0 for a type that zinc does not read. */
static inline uint32_t qtype_block(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, id, elems, ...) case QT_##NAME: return elems;
#include "kernels/qtypes.def"
    case QT_OPENED: return 32;
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
    case QT_OPENED: return 40;
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

/* Kernels for many rows take its matrices opened. */
static inline bool qtype_is_opened(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOK(NAME, ...) case QT_##NAME: return true;
#include "kernels/qtypes.def"
    default: return false;
    }
}

/* Do codes stand for several weights each? */
static inline bool qtype_is_book(enum qtype t) { return qtype_is_opened(t) && t != QT_NVFP4; }

/* Bits of a code as it meets x. */
QTYPE_FN uint32_t qtype_bits(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, ...) case QT_##NAME: return bits;
#include "kernels/qtypes.def"
    case QT_OPENED: return 8;
    default: return 0;
    }
}

/* In the canonical arithmetic: one scale per 32 elements; that and a minimum; an integer per run of 16, times one; that and
 * minima; a scale per 16 elements. */
enum qtype_scales { QS_SCALE, QS_SCALE_MIN, QS_RUNS, QS_RUNS_MIN, QS_HALVES };

QTYPE_FN enum qtype_scales qtype_scales(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes)                    \
    case QT_##NAME: return QS_##scales;
#include "kernels/qtypes.def"
    case QT_OPENED: return QS_HALVES;
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
