/* base/ckd.h: checked 64-bit arithmetic for sizes that come from files. Each returns true when the result fits. */
#ifndef ZINC_BASE_CKD_H
#define ZINC_BASE_CKD_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ckd_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool ckd_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds `a` up to a multiple of `align`, a power of two. */
static inline bool ckd_align_u64(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t t;
    if (!ckd_add_u64(a, align - 1, &t))
        return false;
    *out = t & ~(align - 1);
    return true;
}

static inline uint64_t align_up(uint64_t a, uint64_t align)
{
    return (a + align - 1) & ~(align - 1);
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

#endif
