/* kernels/attn_shared.h
 * How the kernels of kernels/attn.c and kernels/rope.c cut their work: what the host and they have to agree on. */
#ifndef ZINC_KERNELS_ATTN_SHARED_H
#define ZINC_KERNELS_ATTN_SHARED_H

#include <stdint.h>

enum {
    ATTN_NH = 4,            /* query heads of one kv head that a warp takes    */
    ATTN_SUB = 8,           /* positions that it takes at once                 */
    ATTN_ANY_SUB = 32,      /* the same in attn_any                            */
    ATTN_ANY_DIM = 512,     /* its largest head, a multiple of 16              */
    ATTN_MAX_SPLITS = 320,
    ROPE_WARPS = 4,
};

/* Sets of ATTN_NH heads among the `group` query heads of a kv head. */
static inline uint32_t attn_sets(uint32_t group)
{
    return (group + ATTN_NH - 1) / ATTN_NH;
}

/* Positions of a split, for a row that sees n; it has ceil(n / that) splits. */
static inline uint32_t attn_chunk(uint32_t n, uint32_t splits, uint32_t chunk_min)
{
    uint32_t c = ((n + splits - 1) / splits + 31) / 32 * 32;
    return c > chunk_min ? c : chunk_min;
}

/* Shared memory of the attn_* kernels, bytes: a word; probabilities per warp; then m and l, and o, of the warps, or
 * m and l of all splits. warps: of a work-group. */
enum { ATTN_PROB = ATTN_ANY_SUB * ATTN_NH };
static inline uint32_t attn_shared_bytes(uint32_t head_dim, uint32_t group, uint32_t warps)
{
    uint32_t sets = attn_sets(group) < warps ? attn_sets(group) : warps;
    uint32_t combine = warps * ATTN_NH * (head_dim + 2), merge = sets * ATTN_NH * ATTN_MAX_SPLITS * 2;
    return 4 * (4 + warps * ATTN_PROB + (combine > merge ? combine : merge));
}

/* ROPE_KV: work-groups along y (a warp per head), and shared memory. */
static inline uint32_t rope_kv_groups(uint32_t n_head, uint32_t n_kv)
{
    return (n_head + 2 * n_kv + ROPE_WARPS - 1) / ROPE_WARPS;
}
static inline uint32_t rope_kv_shared_bytes(uint32_t head_dim)
{
    return ROPE_WARPS * head_dim * 4;
}

#endif
