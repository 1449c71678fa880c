/* kernels/qtypes.h: the tensor types that zinc reads, and their sizes. Freestanding: hosts and kernels include it. */
#ifndef ZINC_KERNELS_QTYPES_H
#define ZINC_KERNELS_QTYPES_H

#include <stdint.h>

/* Values are GGUF's tensor type numbers. */
enum qtype {
#define X(name, id, elems, bytes, kname) QT_##name = id,
#include "kernels/qtypes.def"
#undef X
    QT_LIMIT = 40
};

/* Elements per block; 0 for a type that zinc does not read. */
static inline uint32_t qtype_block(enum qtype t)
{
    switch (t) {
#define X(name, id, elems, bytes, kname) case QT_##name: return elems;
#include "kernels/qtypes.def"
#undef X
    default: return 0;
    }
}

/* Bytes per block; 0 for a type that zinc does not read. */
static inline uint32_t qtype_block_bytes(enum qtype t)
{
    switch (t) {
#define X(name, id, elems, bytes, kname) case QT_##name: return bytes;
#include "kernels/qtypes.def"
#undef X
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
#define X(name, id, elems, bytes, kname) case QT_##name: return #name;
#include "kernels/qtypes.def"
#undef X
    default: return "?";
    }
}

#endif
