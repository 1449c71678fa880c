/* kernels/klaunch.h
 * What each kernel takes: the arguments of its command (kernels/kargs.h) and what only a launch knows, such as scratch
 * memory and how the work is cut. Field lists in the style of kargs.h, so that addresses are found and translated by
 * one piece of code (rt/dispatch.c). An address of 0 means absent.
 *
 * Three classes of kernels, chosen by a stream's row capacity, never by a step's rows, so that a row's result does not
 * depend on what shares its step:
 *   decode   up to KL_DECODE_ROWS rows; products by int8 dot products as kargs.h says
 *   rows     up to KL_ROWS_MAX, where a target has matrix instructions for signed bytes: the same products on them; on
 *            sm_90a products of block types in f16, but of experts that get few rows each
 *   prompt   more; products on matrix units, with bf16 weights and activations and f32 sums
 * F16 and BF16 weights are multiplied as prompts are in the class "rows" too, F32 weights in f32 in all three. */
#ifndef ZINC_KERNELS_KLAUNCH_H
#define ZINC_KERNELS_KLAUNCH_H

#include "kernels/kargs.h"

enum { KL_DECODE_ROWS = 8, KL_ROWS_FEW = 16, KL_ROWS_MAX = 64 };

/* next_off: of the step block's next[], in bytes (step_next_off). */
#define KL_EMBED(F) KA_EMBED(F) F(uint32_t, next_off, 1, N) F(uint32_t, pad, 1, N)

/* MATMUL, PROJ and GATE_UP by dot products. Work-groups loop over units of output rows; grid y: passes of rows.
 * rows_pass: rows of x that a work-group takes at once, 1 to MV_PASS_ROWS; grid y covers the rows. gate_up: the command is GATE_UP.
 * A single row's kernels, and those of two: tiles of matrices 0..m end at tile_end[m]; shape[m]: log2 of the lanes that share a row,
 * steps of a row << 8; n_pad: elements of x as the lanes see it (kernels/matvec_shared.h); ask: KL_ASK_ALL: all of the weights
 * are asked for before the launch waits; KL_ASK_LATE: its inputs are complete when it starts, so that it waits for the launches
 * before it only when it is done (dispatch_find_late).
 * kernels/matmul8.c: rows_pass 8 or 4; shape[0]: chunks of a warp's ring, [1]: log2 of the warps that share
 * a tile, [2]: steps of a row, [3]: tiles of a unit; tile_end[m]: units before matrix m, modulo grid x; n_pad: rows that x has
 * room for.
 * pre, of a single row's kernels: x is what the command before makes, a NORM (KL_PRE_NORM: of pre_x, with pre_w, pre_other the
 * residual, pre_scale and pre_eps) or an ACT_MUL (KL_PRE_ACT + act: of pre_x and pre_other). Every work-group makes it for
 * itself, in the bits of k_norm and k_act_mul, and the first one writes it to x. */
enum { KL_PRE_NONE, KL_PRE_NORM, KL_PRE_ACT };
enum { KL_ASK_ALL = 1, KL_ASK_LATE = 2 };
#define KL_MATVEC(F)                                                                                                   \
    KA_MATMUL(F) F(uint32_t, rows_pass, 1, N) F(uint32_t, gate_up, 1, N) F(uint32_t, tile_end, 4, N) F(uint32_t, shape, 4, N)       \
    F(uint32_t, n_pad, 1, N) F(uint32_t, ask, 1, N) F(gpu_va, pre_x, 1, R) F(gpu_va, pre_w, 1, T)                      \
    F(gpu_va, pre_other, 1, R) F(gpu_va, pre_scale, 1, T) F(uint32_t, pre, 1, N) F(float, pre_eps, 1, E)

/* ROUTER: grid x work-groups share the experts' rows, grid y: rows; the last one to arrive chooses. counters: u32 [rows]
 * that are 0, or no address: there are the logits then, and those who want the choice make it (kernels/choice.h): MOE_UP, and
 * MOE_DOWN, which also writes ids and weights. */
#define KL_ROUTER(F) KA_ROUTER(F) F(gpu_va, counters, 1, M)

/* ROUTER of the class "rows" (kernels/router_rows.c), cut as kernels/router_rows_shared.h has it: grid x: groups of experts, y: of
 * rows. counters: u32 [y]; cap: rows of a step at most. What is read by fours is aligned to 16 bytes, and n_in a multiple of 4. */
#define KL_ROUTER_ROWS(F) KL_ROUTER(F) F(uint32_t, cap, 1, N) F(uint32_t, pad2, 1, N)

/* MOE_UP: grid y: (row, choice) pairs; shape, tiles, n_pad as for a single row above, shape 0: rows are not aligned or of
 * two types. MOE_DOWN: grid y: rows; early: ids and weights of the choice (and what the shared expert's product reads) are complete
 * when the launch starts, so that it asks for experts before it waits for x (dispatch_find_late). logits: those of ROUTER, where
 * they are to be chosen from, else no address; the rest as in KA_ROUTER. */
#define KL_MOE_UP(F)                                                                                                   \
    KA_MOE_UP(F) F(gpu_va, logits, 1, R) F(uint32_t, shape, 1, N) F(uint32_t, tiles, 1, N) F(uint32_t, n_pad, 1, N)    \
    F(uint32_t, pad, 1, N)
#define KL_MOE_DOWN(F)                                                                                                 \
    KA_MOE_DOWN(F) F(gpu_va, logits, 1, R) F(gpu_va, expert_scale, 1, T) F(uint32_t, early, 1, N)                      \
    F(uint32_t, gating, 1, N) F(float, scale, 1, E) F(uint32_t, pad2, 1, N)

/* The shared expert's products of few rows by launches that are there anyway (kernels/shexp.c), grid y: rows, nothing between those
 * of s_x, s_y and s_resid. ROUTER, its weights F32, and the GATE_UP behind it: work-groups [0, groups) of grid x are the router's,
 * the others have tiles of s_gate and s_up, of one type, cut as KL_MATVEC's. MOE_DOWN, and the MATMUL before it, whose y is its
 * resid: s_y = s_w s_x * s_scale + s_resid. */
#define KL_ROUTER_SHARED(F)                                                                                            \
    KL_ROUTER(F) F(gpu_va, s_x, 1, R) F(gpu_va, s_y, 1, W) F(gpu_va, s_norm, 1, T) F(gpu_va, s_gate, 1, T)             \
    F(gpu_va, s_up, 1, T) F(uint32_t, groups, 1, N) F(uint32_t, s_n_in, 1, N) F(uint32_t, s_n_out, 1, N)               \
    F(uint32_t, s_act, 1, N) F(uint32_t, s_shape, 1, N) F(uint32_t, s_tiles, 1, N) F(uint32_t, s_n_pad, 1, N)          \
    F(float, s_eps, 1, E)
#define KL_MOE_DOWN_SHARED(F)                                                                                          \
    KL_MOE_DOWN(F) F(gpu_va, s_x, 1, R) F(gpu_va, s_y, 1, W) F(gpu_va, s_resid, 1, R) F(gpu_va, s_scale, 1, R)         \
    F(gpu_va, s_w, 1, T) F(uint32_t, s_type, 1, N) F(uint32_t, s_n_in, 1, N)

/* MOE_UP and MOE_DOWN of the class "rows" where an expert gets few of them (kernels/experts.c). Pair p of row and choice, of the
 * step's rows times k, takes row p / div of x, as codes of 32; y [pairs, n_out] = act(gate, up) with pair, else one matrix's
 * product by its number. Grid x: as many work-groups as there is room for. tiles: of 16 weight rows, of pairs 8 of each; n_pad:
 * n_in as a multiple of 256; cap: rows of a step at most. */
#define KL_EXPERTS(F)                                                                                                  \
    F(gpu_va, step, 1, R) F(gpu_va, x, 1, R) F(gpu_va, ids, 1, R) F(gpu_va, y, 1, W) F(gpu_va, norm, 1, T)             \
    F(gpu_va, w, 4, T) F(gpu_va, wscale, 4, T) F(gpu_va, b, 4, T) F(uint64_t, stride, 4, N) F(uint32_t, n_expert, 1, N) \
    F(uint32_t, k, 1, N) F(uint32_t, n_in, 1, N) F(uint32_t, n_out, 1, N) F(uint32_t, act, 1, N)                       \
    F(uint32_t, pair, 1, N) F(uint32_t, div, 1, N) F(uint32_t, cap, 1, N) F(uint32_t, tiles, 1, N)                     \
    F(uint32_t, n_pad, 1, N) F(float, eps, 1, E) F(uint32_t, pad, 1, N)

/* ATTN, split over positions: grid x: splits, y: kv heads, z: rows. Split i takes positions [i chunk, (i + 1) chunk) of
 * those that the row sees, chunk = max(chunk_min, what makes at most `splits` of them), so it depends on the row alone.
 * part: f32 [rows, n_head, splits, head_dim + 2]: m, l, o of each split. counters: u32 [rows, n_kv]; the last work-group
 * to arrive merges in ascending order. */
#define KL_ATTN(F)                                                                                                     \
    KA_ATTN(F) F(gpu_va, part, 1, M) F(gpu_va, counters, 1, M) F(uint32_t, splits, 1, N) F(uint32_t, chunk_min, 1, N)

/* ATTN of a row, or of up to AR_ROWS of an f16 cache, with the ROPE_KV before it: each work-group makes the q heads that it needs for
 * itself, and k and v of the step's rows whose positions are among its own (none without k), and stores them, in the bits of
 * k_rope_kv. q stays in memory as it is. cap: rows at most, ldk and ldv apart in k and v. heads_at: bytes of shared memory in front of
 * f32 [n_head / n_kv + 2, head_dim], and with a gate n_head / n_kv more. early: the step block and the positions before the rows' are
 * complete when the launch starts, so that they are read before it waits (dispatch_find_late). groups: work-groups for a row's kv
 * head (grid z); of several rows each takes every groups-th split. shares: so many of them at most share the heads of a split or chunk (attn_parts,
 * attn_group_parts), or 0; counters: with shares a u32 for each of ATTN_NH parts too. */
#define KL_ATTN_ROPE(F)                                                                                                \
    KL_ATTN(F) F(gpu_va, k, 1, R) F(gpu_va, v, 1, R) F(gpu_va, q_norm, 1, T) F(gpu_va, k_norm, 1, T)                   \
    F(gpu_va, inv_freq, 1, T) F(gpu_va, q_scale, 1, T) F(uint32_t, n_rot, 1, N) F(uint32_t, rope, 1, N)                \
    F(uint32_t, v_norm, 1, N) F(uint32_t, heads_at, 1, N) F(uint32_t, q_every, 1, N) F(float, mscale, 1, E)            \
    F(float, eps, 1, E) F(uint32_t, early, 1, N) F(uint32_t, shares, 1, N) F(uint32_t, cap, 1, N)                      \
    F(uint32_t, ldk, 1, N) F(uint32_t, ldv, 1, N) F(uint32_t, groups, 1, N) F(uint32_t, pad4, 1, N)

/* GDN, heads of GDN_DIM and convolutions of GDN_TAPS; others: k_gdn_conv, then k_gdn_step. counters: u32 [rows, n_k]
 * that are 0; no address where a step has one row. early: the step block and the state are complete when the launch starts, so
 * that they are read before it waits (dispatch_find_late). */
enum { GDN_DIM = 128, GDN_TAPS = 4 };
#define GDN_INV_SQRT_DIM 0.088388348f
#define KL_GDN(F) KA_GDN(F) F(gpu_va, counters, 1, M) F(uint32_t, early, 1, N) F(uint32_t, pad3, 1, N)
/* Prompts. list: rows of each slot in order, u32 [n_slots, 1 + cap]: how many, then which. index: where each row stands
 * there, u32 [cap]. gates: f32 [cap, n_v, 2]: decay, beta times decay. kq: f32 [cap, n_k]: k . q / sqrt(head_dim). c takes
 * q and k normed, q also divided by sqrt(head_dim), and v times beta. */
#define KL_GDN_PROMPT(F)                                                                                               \
    KA_GDN(F) F(gpu_va, list, 1, M) F(gpu_va, index, 1, M) F(gpu_va, gates, 1, M) F(gpu_va, kq, 1, M)                  \
    F(uint32_t, cap, 1, N) F(uint32_t, pad2, 1, N)

/* ARGMAX: grid x work-groups share a row's logits, grid y: output rows; where the row's ka_sample says so, a draw instead
 * (kernels/sample_shape.h has the grid and the sizes). counters: u32 [rows]. copy (optional): the logits f32 [rows, n]
 * are also written there (host memory). */
#define KL_SAMPLE(F)                                                                                                   \
    KA_ARGMAX(F) F(gpu_va, part, 1, M) F(gpu_va, counters, 1, M) F(gpu_va, copy, 1, W)

/* The step block, fetched from host memory: `ring` holds KL_RING step blocks of step_bytes each; `seq` (device) counts
 * the steps; the block of step seq % KL_RING is copied to `step`, but not its next[] words from next_off on. */
enum { KL_RING = 8 };
#define KL_STEP_BEGIN(F)                                                                                               \
    F(gpu_va, step, 1, W) F(gpu_va, ring, 1, R) F(gpu_va, seq, 1, R) F(uint32_t, next_off, 1, N)                       \
    F(uint32_t, stride, 1, N)
/* After the last command: next[n] is copied to the step's slot of the ring (host_next: in slot 0), where it stays while
 * later steps run, seq is raised, and `done` (host memory) is set to it. */
#define KL_STEP_END(F)                                                                                                 \
    F(gpu_va, next, 1, R) F(gpu_va, host_next, 1, W) F(gpu_va, seq, 1, M) F(gpu_va, done, 1, W) F(uint32_t, n, 1, N)   \
    F(uint32_t, stride, 1, N)

/* The walk of a persistent plan (kernels/walk.h): counter and left are 0 between walks. */
#define KL_WALK(F) F(gpu_va, counter, 1, M) F(gpu_va, left, 1, M) F(uint32_t, n_items, 1, N) F(uint32_t, pad, 1, N)

/* Reads n16 pieces of 16 bytes at p. out: never written. */
#define KL_ROOF(F) F(gpu_va, p, 1, R) F(gpu_va, out, 1, W) F(uint32_t, n16, 1, N) F(uint32_t, pad, 1, N)

/* Bringing a device up: out holds n words. LADDER_VALUE: what work-item t of work-group x puts into shared memory. */
#define KL_LADDER(F) F(gpu_va, out, 1, W) F(uint32_t, n, 1, N) F(uint32_t, pad, 1, N)
#define LADDER_VALUE(x, t) ((t) * 2654435761u + (x))
enum { LADDER_IDS_THREADS = 64, LADDER_SHARED_THREADS = 256 };

/* ---- products of prompts ----
 * Activations for matrix units: bf16 tiles, or f16 as below, [n_in / 64][xrows][64]: for each chunk of 64 along k all rows, 128 bytes
 * each, the 16-byte piece p of row r at p ^ (r % 8), so that a tile of 8 n rows is one run of bytes. Rows are positions:
 * the step's rows, or for experts the (row, choice) pairs in the order of their experts.
 * Here: weight rows of a tile; rows behind xrows that tiles may read; shared memory of the stages of gemm_wgmma. */
enum { KL_TILE_ROWS = 128, KL_TILE_PAD = 256, KL_GEMM_RING = 192 << 10 };

/* out = x', normed where norm is given; act_bf16, act_lanes and act_half make tiles, act_f32 rows of n_in, act_q8 codes. Grid x:
 * positions, of act_half KL_ACT_WARPS of them together up to n_in = KL_ACT_SHORT. map (optional): position p takes row map[p] / div,
 * none where map[p] is ~0; without map p is the row. */
enum { KL_ACT_SHORT = 2048, KL_ACT_WARPS = 8 };
#define KL_ACT(F)                                                                                                      \
    F(gpu_va, step, 1, R) F(gpu_va, x, 1, R) F(gpu_va, norm, 1, T) F(gpu_va, map, 1, R) F(gpu_va, out, 1, W)           \
    F(uint32_t, n_in, 1, N) F(uint32_t, ldx, 1, N) F(uint32_t, rows, 1, N) F(uint32_t, xrows, 1, N)                    \
    F(uint32_t, div, 1, N) F(float, eps, 1, E)

/* Rows [first, first + rows) of each matrix of `type` [n_out, n_in] as a matrix of QT_OPENED of that many rows: matrix e starts
 * e * stride bytes after w, and goes e * y_stride bytes after y. Grid x: work-groups that share a matrix, y: matrices. */
#define KL_OPEN(F)                                                                                                     \
    F(gpu_va, w, 1, T) F(gpu_va, y, 1, W) F(uint64_t, stride, 1, N) F(uint64_t, y_stride, 1, N)                        \
    F(uint32_t, type, 1, N) F(uint32_t, n_in, 1, N) F(uint32_t, n_out, 1, N) F(uint32_t, first, 1, N)                  \
    F(uint32_t, rows, 1, N) F(uint32_t, pad, 1, N)

/* y_i = w_i x', finished as MATMUL says; pair: as GATE_UP. x: tiles, or f32 rows ldx apart for
 * gemm_f32. Experts: tiles (optional) lists n_slots times {expert, first position, positions, 0}; expert e's
 * matrices start e * stride_i bytes after w_i, its number is wscale_i[e], its bias e * n_out_i after b_i; position p's results
 * go to row map[p]. */
#define KL_GEMM(F)                                                                                                     \
    F(gpu_va, step, 1, R) F(gpu_va, x, 1, R) F(gpu_va, resid, 1, R) F(gpu_va, scale, 1, R) F(gpu_va, tiles, 1, R)      \
    F(gpu_va, map, 1, R) F(gpu_va, part, 1, M) F(gpu_va, counters, 1, M) F(gpu_va, y, 4, W) F(gpu_va, w, 4, T)         \
    F(gpu_va, wscale, 4, T) F(gpu_va, b, 4, T) F(uint64_t, stride, 4, N) F(uint32_t, n_out, 4, N)                      \
    F(uint32_t, type, 4, N)                                                                                            \
    F(uint32_t, ld, 4, N) F(uint32_t, n_mats, 1, N) F(uint32_t, n_in, 1, N) F(uint32_t, ldr, 1, N)                     \
    F(uint32_t, rows, 1, N) F(uint32_t, act, 1, N) F(uint32_t, pair, 1, N) F(uint32_t, xrows, 1, N)                    \
    F(uint32_t, ldx, 1, N) F(uint32_t, n_slots, 1, N) F(uint32_t, parts, 1, N) F(uint32_t, by, 1, N)                   \
    F(float, softcap, 1, E)

/* ---- products of 9 to 64 rows ----
 * x as codes, blocks of 32 with amax / 127 as their scale: int8 [n_in / 32][xrows][32]; then f32 [n_in / 32][xrows][2], the
 * scale and the scale times the sum of the codes; then int32 [n_in / 32][xrows][2], the sums of the codes 0..15 and 16..31.
 * Products are kl_gemm's. Here: weight rows of a tile, of gate and up together; warps, which share the units of k. */
enum { KL_ROWS_M = 32, KL_ROWS_WARPS = 8 };
struct rows_x {
    uint64_t d, sums, end; /* bytes from the start */
};
static inline struct rows_x rows_x(uint32_t n_in, uint32_t xrows)
{
    uint64_t cells = (uint64_t)(n_in / 32) * xrows;
    return (struct rows_x){ cells * 32, cells * 40, cells * 48 };
}

/* The same on sm_90a: x as tiles of f16 whose chunks are permuted (kernels/wlane.h), and behind them f32 [xrows], factors of
 * the rows' products. An item has `by` tiles of a matrix, up to KL_ROWS_HALF_TILES(n), n the kernel's rows at most. k is cut
 * into `parts`, multiples of KL_ROWS_K; part: f32 [items, parts, tiles of an item at most, n / 2, 32 warps]; counters: u32
 * [items, warps] that are 0. Here: warps, beside one that fetches x; stages of x in shared memory, and k of one; bytes of a
 * warp's ring of weights, for each tile. */
enum { KL_ROWS_HALF_WARPS = 8, KL_ROWS_K = 256, KL_ROWS_STAGES = 4, KL_ROWS_RING = 10240 };
#define KL_ROWS_HALF_TILES(n)  ((n) > KL_ROWS_FEW ? 2u : 1u)
#define KL_ROWS_STAGE_K(n)     ((n) > KL_ROWS_FEW ? 128u : 256u)
#define KL_ROWS_HALF_SHARED(n)                                                                                         \
    (KL_ROWS_HALF_WARPS * KL_ROWS_HALF_TILES(n) * KL_ROWS_RING + KL_ROWS_STAGES * (2 * KL_ROWS_STAGE_K(n) * (n) + 16))

/* gemm_half takes prompts with the same x and the same rings of weights. Here: stages of x at most, and their bytes, in a kernel for n
 * positions at most, 256 or KL_GEMM_HALF_FEW. */
enum { KL_GEMM_HALF_STAGES = 8, KL_GEMM_HALF_FEW = 32 };
#define KL_GEMM_HALF_X(n)      ((n) > KL_GEMM_HALF_FEW ? 128u << 10 : 24u << 10)
#define KL_GEMM_HALF_SHARED(n) (KL_ROWS_HALF_WARPS * KL_ROWS_RING + KL_GEMM_HALF_X(n) + (4 * (n) + 16) * KL_GEMM_HALF_STAGES)

/* Pairs by expert: order[p] = row * k + choice, ~0 in gaps; positions of an expert start at a multiple of 8. tiles as
 * in KL_GEMM, of up to `slot` positions, unused ones with 0 positions. Grid x: experts. */
#define KL_MOE_SORT(F)                                                                                                 \
    F(gpu_va, step, 1, R) F(gpu_va, ids, 1, R) F(gpu_va, order, 1, W) F(gpu_va, tiles, 1, W)                           \
    F(uint32_t, n_expert, 1, N) F(uint32_t, k, 1, N) F(uint32_t, n_pos, 1, N) F(uint32_t, n_slots, 1, N)               \
    F(uint32_t, slot, 1, N) F(uint32_t, pad, 1, N)

/* MOE_DOWN's weighted sum over o f32 [rows, k, n_out]; grid x: rows, y: work-groups that share a row's columns. ROUTER's
 * choice from its logits; share_l f32 [rows]: the shared expert's gate before the sigmoid; grid x: groups of 4 rows. */
#define KL_MOE_MIX(F) KA_MOE_DOWN(F) F(gpu_va, o, 1, R)
#define KL_TOPK(F)    KA_ROUTER(F) F(gpu_va, share_l, 1, R)

/* X(args struct, field list) */
#define KL_LIST(X)                                                                                                     \
    X(kl_embed, KL_EMBED)                                                                                              \
    X(kl_norm, KA_NORM)                                                                                                \
    X(kl_add, KA_ADD)                                                                                                  \
    X(kl_act_mul, KA_ACT_MUL)                                                                                          \
    X(kl_match, KA_MATCH)                                                                                              \
    X(kl_altup, KA_ALTUP)                                                                                              \
    X(kl_step_out, KA_STEP_OUT)                                                                                        \
    X(kl_gather, KA_GATHER)                                                                                            \
    X(kl_rope_kv, KA_ROPE_KV)                                                                                          \
    X(kl_matvec, KL_MATVEC)                                                                                            \
    X(kl_router, KL_ROUTER)                                                                                            \
    X(kl_router_shared, KL_ROUTER_SHARED)                                                                              \
    X(kl_router_rows, KL_ROUTER_ROWS)                                                                                  \
    X(kl_moe_up, KL_MOE_UP)                                                                                            \
    X(kl_moe_down, KL_MOE_DOWN)                                                                                        \
    X(kl_moe_down_shared, KL_MOE_DOWN_SHARED)                                                                          \
    X(kl_experts, KL_EXPERTS)                                                                                          \
    X(kl_attn, KL_ATTN)                                                                                                \
    X(kl_attn_rope, KL_ATTN_ROPE)                                                                                      \
    X(kl_gdn, KL_GDN)                                                                                                  \
    X(kl_gdn_prompt, KL_GDN_PROMPT)                                                                                    \
    X(kl_sample, KL_SAMPLE)                                                                                            \
    X(kl_step_begin, KL_STEP_BEGIN)                                                                                    \
    X(kl_step_end, KL_STEP_END)                                                                                        \
    X(kl_walk, KL_WALK)                                                                                                \
    X(kl_ladder, KL_LADDER)                                                                                            \
    X(kl_roof, KL_ROOF)                                                                                                \
    X(kl_act, KL_ACT)                                                                                                  \
    X(kl_open, KL_OPEN)                                                                                                \
    X(kl_gemm, KL_GEMM)                                                                                                \
    X(kl_moe_sort, KL_MOE_SORT)                                                                                        \
    X(kl_moe_mix, KL_MOE_MIX)                                                                                          \
    X(kl_topk, KL_TOPK)

#define X(sname, list) KA_STRUCT(sname, list)
KL_LIST(X)
#undef X
#define X(sname, list)                                                                                                 \
    _Static_assert(sizeof(sname) == 0 list(KA_BYTES) && sizeof(sname) % 8 == 0, "device ABI: " #sname);
KL_LIST(X)
#undef X

#endif
