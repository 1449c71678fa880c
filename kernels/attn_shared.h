/* kernels/attn_shared.h
 * How the kernels of kernels/attn.c and kernels/rope.c cut their work: what the host and they have to agree on. */
#ifndef ZINC_KERNELS_ATTN_SHARED_H
#define ZINC_KERNELS_ATTN_SHARED_H

#include <stdint.h>

enum {
    ATTN_NH_LOG2 = 2,
    ATTN_NH = 1 << ATTN_NH_LOG2, /* query heads of one kv head that a warp takes */
    ATTN_SUB = 8,           /* positions that it takes at once                 */
    ATTN_ANY_SUB = 32,      /* the same in attn_any                            */
    ATTN_ANY_DIM = 512,     /* its largest head, a multiple of 16              */
    ATTN_MAX_SPLITS = 320,
    ATTN_WARPS_SMALL = 16,  /* attn_h64 and attn_h128: among which a split's positions are shared; a   */
                            /* work-group with fewer warps takes them in turns (kernels/walk.h)         */
    ROPE_WARPS = 8,
    AR_ROWS = 8,            /* of a step, at most, where ATTN does the ROPE_KV before it (kernels/attn_rope.h) */
};

/* Sets of ATTN_NH heads among the `group` query heads of a kv head. */
static inline uint32_t attn_sets(uint32_t group)
{
    return (group + ATTN_NH - 1) / ATTN_NH;
}

/* Positions of a split, for a row that sees n; it has ceil(n / that) splits, `splits` at most. A second turn of its warps costs less
 * than a merge, a third one does not (doc/speed-log.md), and of more than ATTN_NH heads there are two turns in chunk_min positions. 4,
 * 8 or 16 splits are what the work-groups of several rows share evenly. */
static inline uint32_t attn_chunk(uint32_t n, uint32_t splits, uint32_t chunk_min, uint32_t group)
{
    uint32_t most = group > ATTN_NH ? chunk_min : 2 * chunk_min, use = splits < 4 ? splits : 4;
    if (n <= 2 * chunk_min)
        return n;
    while (use < splits && n > use * most)
        use = 2 * use < splits ? 2 * use : splits;
    uint32_t c = ((n + use - 1) / use + 31) / 32 * 32;
    return c > chunk_min ? c : chunk_min;
}

/* Work-groups that share the heads of a split, log2, where a kv head of a row has `shares` work-groups: instructions are what
 * a short row costs, and no sum is of two heads. A group of two saves less than more merges cost (doc/speed-log.md). */
static inline uint32_t attn_parts(uint32_t group, uint32_t splits, uint32_t shares)
{
    uint32_t log2 = group > 2 ? ATTN_NH_LOG2 : group == 2 && splits <= 4 ? 1 : 0;
    while (log2 && splits << log2 > shares)
        log2--;
    return log2;
}

/* Shared memory of the attn_* kernels, bytes: a word; probabilities per warp; then m and l, and o, of the warps, or
 * m and l of all splits. warps: of a work-group. */
enum { ATTN_PROB = ATTN_ANY_SUB * ATTN_NH };
static inline uint32_t attn_shared_bytes(uint32_t head_dim, uint32_t group, uint32_t warps, uint32_t splits)
{
    uint32_t sets = attn_sets(group) < warps ? attn_sets(group) : warps;
    uint32_t combine = warps * ATTN_NH * (head_dim + 2), merge = sets * ATTN_NH * splits * 2;
    return 4 * (4 + warps * ATTN_PROB + (combine > merge ? combine : merge));
}

/* ---- kernels/attn_group.c ---- */

enum {
    AG_HEADS = 8,       /* query heads of a kv head at most                                             */
    AG_POS = 64,        /* positions of a tile, from multiples of it on                                 */
    AG_JOIN = 16,       /* chunks that are merged at a time                                             */
    AG_MAX_CHUNKS = AG_JOIN * AG_JOIN,
    AG_ONCE = 4 * AG_POS, /* positions of a chunk up to which one merge is preferred to two            */
    AG_MAX_ROWS = 64,   /* rows that are cut in chunks                                                  */
    AG_PART_PAD = 4,    /* floats behind o of a chunk: m, l, two that are not used                      */
    AG_S_LD = AG_POS + 16, AG_Q_PAD = 32, /* between rows in shared memory, so that banks differ         */
};

/* Work-groups of a core that find registers (tools/ptx_threads.awk): of 4 warps for heads of 64 and 128, of 8 for larger
 * ones. Where the launch does ROPE_KV as well, one. */
static inline uint32_t attn_group_per_core(uint32_t head_dim)
{
    return head_dim == 64 ? 5 : head_dim == 128 ? 4 : head_dim == 256 ? 2 : 1;
}

/* Chunks of a long row, so that one row keeps some 132 cores busy, of large heads with a work-group each. Of the model alone: it says
 * how sums are cut. */
static inline uint32_t attn_group_chunks(uint32_t head_dim, uint32_t n_kv)
{
    uint32_t n = 132 * (head_dim < 256 ? attn_group_per_core(head_dim) : 1) / n_kv;
    return n < 2 ? 2 : n > AG_MAX_CHUNKS ? AG_MAX_CHUNKS : n;
}

/* Chunks that there has to be room for, of rows that see up to `seen` positions. */
static inline uint32_t attn_group_splits(uint32_t head_dim, uint32_t n_kv, uint32_t seen, uint32_t chunk_min)
{
    uint32_t most = attn_group_chunks(head_dim, n_kv), n = seen / chunk_min + 2;
    return n < most ? n : most;
}

/* Positions of a chunk, a multiple of AG_POS and of chunk_min, for a row that sees n; chunks begin at multiples of it. At
 * most `chunks` of them then, 2 or more. Two tiles are sooner done than merged, and up to four than merged in two steps. */
static inline uint32_t attn_group_chunk(uint32_t n, uint32_t chunks, uint32_t chunk_min)
{
    uint32_t c = (n + chunks - 2) / (chunks - 1);
    if (n <= 2 * AG_POS && c < 2 * AG_POS)
        c = 2 * AG_POS;
    uint32_t once = (n + AG_JOIN - 2) / (AG_JOIN - 1);
    if (once <= AG_ONCE && once > c)
        c = once;
    return (c + chunk_min - 1) / chunk_min * chunk_min;
}

/* Work-groups that share the heads of a single row's chunk, log2, where a kv head has `shares`: of more heads than a work-group makes
 * at once beside k and v, and combines at once. */
static inline uint32_t attn_group_parts(uint32_t group, uint32_t chunks, uint32_t shares)
{
    uint32_t log2 = group > 4 ? 2 : 0;
    while (log2 && chunks << log2 > shares)
        log2--;
    return log2;
}
/* The heads of work-group `share`. */
static inline void attn_group_part(uint32_t group, uint32_t parts, uint32_t share, uint32_t *first, uint32_t *heads)
{
    uint32_t each = AG_HEADS >> parts, at = parts ? (share & ((1u << parts) - 1)) * each : 0, left = at < group ? group - at : 0;
    *first = at;
    *heads = left < each ? left : each;
}

/* Shared memory of attn_group_*, as kernels/attn_group.c lays it out, bytes. */
struct ag_shared {
    uint32_t rows, q, s, ml, o, end;
};
static inline struct ag_shared ag_shared(uint32_t head_dim, uint32_t warps)
{
    uint32_t parts = warps / (head_dim / 64); /* of a tile's positions: each has an o */
    struct ag_shared x = { .rows = 16 };
    x.q = x.rows + 4 * (AG_MAX_ROWS + 16);
    x.s = x.q + 2 * 2 * AG_HEADS * (head_dim + AG_Q_PAD);
    x.ml = x.s + 4 * 2 * AG_HEADS * AG_S_LD;
    x.o = x.ml + 4 * 2 * AG_HEADS * AG_JOIN;
    x.end = x.o + 4 * parts * AG_HEADS * head_dim;
    return x;
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
