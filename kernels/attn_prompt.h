/* kernels/attn_prompt.h
 * How the prompt attention kernels cut their work: what the host and they have to agree on. A work-group takes the
 * query heads of a kv head for as many rows as fill its warps, 16 (row, head) pairs each. */
#ifndef ZINC_KERNELS_ATTN_PROMPT_H
#define ZINC_KERNELS_ATTN_PROMPT_H

#include <stdint.h>

enum {
    AP_POS = 64,   /* positions of a tile, from multiples of it on */
    AP_PAD = 8,    /* halves between rows in shared memory, so that 16-byte columns lie in different banks */
    AP_SCRATCH = 256, /* halves per warp */
};

/* Rows of the step that a work-group of so many groups of pairs takes (a warp each, or two on RDNA3 for heads of 256); group: heads
 * of a kv head. 0: too many. */
static inline uint32_t attn_prompt_rows(uint32_t groups, uint32_t group)
{
    return 16 * groups / group;
}

/* How much shared memory there is: room for two stages, the next tile being fetched while this one is worked on; for one in
 * the 64 KiB of AMD's; or the 32 KiB of Apple's. */
enum ap_room { AP_ROOM_32K, AP_ROOM_64K, AP_ROOM_STAGES };

/* Large heads where there is little room: so many warps hold the same 16 pairs, each with AP_OWN dimensions of the head, and tell
 * each other their part of the scores. 1: a warp has whole heads. */
enum { AP_OWN = 128 };
static inline uint32_t attn_prompt_owners(uint32_t head_dim, enum ap_room room)
{
    return head_dim > AP_OWN && room == AP_ROOM_32K ? head_dim / AP_OWN : 1;
}

/* Positions of K or V that lie in shared memory at a time: a tile's, or part of it for large heads, whose K and V take
 * turns. */
static inline uint32_t attn_prompt_part(uint32_t head_dim, enum ap_room room)
{
    if (head_dim >= 512)
        return AP_POS / 4;
    return head_dim >= (room == AP_ROOM_32K ? 128u : 256u) && room != AP_ROOM_STAGES ? AP_POS / 2 : AP_POS;
}

/* Shared memory, bytes: Q of so many groups of 16 pairs, then K and V of each stage, then scratch of each warp. Or, with owners, K
 * or V, then each warp's part of the scores. */
static inline uint32_t attn_prompt_shared_bytes(uint32_t groups, uint32_t warps, uint32_t head_dim, enum ap_room room)
{
    if (attn_prompt_owners(head_dim, room) > 1)
        return attn_prompt_part(head_dim, room) * (2 * (head_dim + AP_PAD) + 4 * 16 * warps);
    uint32_t part = attn_prompt_part(head_dim, room), kv = part < AP_POS ? part : (room == AP_ROOM_STAGES ? 4 : 2) * AP_POS;
    return 2 * ((16 * groups + kv) * (head_dim + AP_PAD) + warps * AP_SCRATCH);
}

/* ---- kernels/attn_prompt_wide.c: heads of 512 ---- */

enum {
    APW_DIM = 512,
    APW_WARPS = 8, /* two for 16 pairs */
    APW_PAIRS = 16 * APW_WARPS / 2,
    APW_P_LD = AP_POS + AP_PAD,
};

/* Shared memory, bytes from the start: q of the pairs, a tile of K and one of V, the probabilities, and a number for
 * each row of each warp. */
struct apw_shared {
    uint32_t k, v, p, rows, end;
};
static inline struct apw_shared apw_shared(void)
{
    struct apw_shared x = { .k = 2 * APW_PAIRS * (APW_DIM + AP_PAD) };
    x.v = x.k + 2 * AP_POS * (APW_DIM + AP_PAD);
    x.p = x.v + 2 * AP_POS * (APW_DIM + AP_PAD);
    x.rows = x.p + 2 * APW_PAIRS * APW_P_LD;
    x.end = x.rows + 4 * 16 * APW_WARPS;
    return x;
}

/* ---- kernels/attn_wgmma.c: heads of 64, 128 and 256 on Hopper ---- */

enum { AWG_PAIRS = 128, AWG_BARS = 256 };
/* Slots of the ring, each a tile of K or V; whether q lies in shared memory; and all of that in bytes. */
#define AWG_SLOTS(head_dim)        ((head_dim) > 128 ? 4u : 8u)
#define AWG_Q_SHARED(head_dim)     ((head_dim) > 128)
#define AWG_SHARED_BYTES(head_dim) (2 * (head_dim) * (AWG_SLOTS(head_dim) * AP_POS + (AWG_Q_SHARED(head_dim) ? AWG_PAIRS : 0)) + AWG_BARS)

#endif
