/* rt/planes.c: weights from the file's blocks to planes (kernels/planes.h) and back, one function per type, so that
 * every copy has a constant size. */
#include <string.h>

#include "base/check.h"
#include "kernels/planes.h"
#include "rt/dispatch.h"

#define QTYPE_PLANES(type, o0, l0, o1, l1, o2, l2, o3, l3)                                                             \
    _Static_assert(l0 + l1 + l2 + l3 > 0, "planes of " #type);                                                         \
    static void pack_##type(const uint8_t *in, uint8_t *out, uint64_t n)                                               \
    {                                                                                                                  \
        uint8_t *p1 = out + n * l0, *p2 = p1 + n * l1, *p3 = p2 + n * l2;                                              \
        for (uint64_t i = 0; i < n; i++, in += l0 + l1 + l2 + l3) {                                                    \
            memcpy(out + i * l0, in + o0, l0);                                                                         \
            memcpy(p1 + i * l1, in + o1, l1);                                                                          \
            memcpy(p2 + i * l2, in + o2, l2);                                                                          \
            memcpy(p3 + i * l3, in + o3, l3);                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void unpack_##type(const uint8_t *in, uint8_t *out, uint64_t n)                                             \
    {                                                                                                                  \
        const uint8_t *p1 = in + n * l0, *p2 = p1 + n * l1, *p3 = p2 + n * l2;                                         \
        for (uint64_t i = 0; i < n; i++, out += l0 + l1 + l2 + l3) {                                                   \
            memcpy(out + o0, in + i * l0, l0);                                                                         \
            memcpy(out + o1, p1 + i * l1, l1);                                                                         \
            memcpy(out + o2, p2 + i * l2, l2);                                                                         \
            memcpy(out + o3, p3 + i * l3, l3);                                                                         \
        }                                                                                                              \
    }
#include "kernels/qtypes.def"

typedef void convert(const uint8_t *in, uint8_t *out, uint64_t n_blocks);

/* NULL: a type without planes. */
static convert *converter(enum qtype t, bool unpack)
{
    switch (t) {
#define QTYPE_PLANES(type, ...)                                                                                        \
    case QT_##type: return unpack ? unpack_##type : pack_##type;
#include "kernels/qtypes.def"
    default: return NULL;
    }
}

static void convert_units(enum qtype t, bool unpack, const uint8_t *in, uint8_t *out, uint64_t n_rows, uint64_t unit,
                          uint64_t n_in)
{
    convert *fn = converter(t, unpack);
    uint64_t bytes = qtype_row_bytes(t, n_in) * unit;
    if (!fn) {
        memcpy(out, in, qtype_row_bytes(t, n_in) * n_rows);
        return;
    }
    CHECK(unit && n_rows % unit == 0 && n_in % qtype_block(t) == 0);
    for (uint64_t r = 0; r < n_rows; r += unit, in += bytes, out += bytes)
        fn(in, out, n_in / qtype_block(t) * unit);
}

void planes_pack(enum qtype t, const uint8_t *rows, uint8_t *out, uint64_t n_rows, uint64_t unit, uint64_t n_in)
{
    convert_units(t, false, rows, out, n_rows, unit, n_in);
}

void planes_unpack(enum qtype t, const uint8_t *planes, uint8_t *out, uint64_t n_rows, uint64_t unit, uint64_t n_in)
{
    convert_units(t, true, planes, out, n_rows, unit, n_in);
}
