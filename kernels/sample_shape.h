/* kernels/sample_shape.h: how the kernel `sample` (kernels/sample.c) is launched. A work-group takes a slice of a
 * row's logits, and the last one of a row merges.
 *     grid        sample_groups(n), output rows, 1
 *     shared      SAMPLE_SHARED
 *     part        sample_part_bytes(n, rows), contents undefined
 *     counters    u32 [rows] that are 0 */
#ifndef ZINC_KERNELS_SAMPLE_SHAPE_H
#define ZINC_KERNELS_SAMPLE_SHAPE_H

#include "kernels/kargs.h"

enum {
    SAMPLE_THREADS = 512,
    SAMPLE_HELD = 8, /* logits that a work-item keeps in registers */
    SAMPLE_SLICE = SAMPLE_THREADS * SAMPLE_HELD,
    SAMPLE_SHARED = 4096,
};

static inline uint32_t sample_groups(uint32_t n)
{
    return (n + SAMPLE_SLICE - 1) / SAMPLE_SLICE;
}

/* u64 keys: KA_SAMPLE_MAX of each work-group */
static inline uint64_t sample_part_bytes(uint32_t n, uint32_t rows)
{
    return 8ull * KA_SAMPLE_MAX * sample_groups(n) * rows;
}

#endif
