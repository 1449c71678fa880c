/* kernels/kargs.h
 * The host/device contract: what each command of the stream computes, on what, and in which arithmetic. Host C and
 * every kernel include this file; each struct is one field list, so that its members, its printer, its relocation and
 * its twins in other languages fall out of the same lines. Freestanding.
 *
 * Shapes: f32 row-major, slowest dimension first; `ld` is the distance between rows in elements. Addresses are 64-bit:
 * in a stream they are (arena + 1) << 56 | byte offset, 0 is none (SADDR_*); a tier turns them into its own.
 * Counts are 32-bit.
 *
 * Rows are data: a command processes step.n_rows rows (ROWS_STEP) or step.n_out rows (ROWS_OUT), read from the step
 * block when it runs; the stream's capacity only bounds them. Row r belongs to sequence slot rows[r].slot and stands at
 * position rows[r].pos. Rows of one slot are in ascending position. A slot is reset by starting again at position 0.
 *
 * Canonical arithmetic (the cpu tier computes exactly this; every GPU tier the same with its own order of summation).
 *   Products with block types: x is quantised in blocks of 32: amax = max |x|, d = amax / 127,
 *     q = round-half-even(x * (127 / amax)); a block with amax < 1e-30 is all zero with d = 0.
 *     Per row: acc = 0; for each block of 32 in ascending order
 *         acc = fma(dw * d, (float)isum, acc)                          isum exact in int32
 *         acc = fma(mw, d * (float)xsum, acc)                          types with a minimum only; xsum = sum of q
 *     dw, mw by type: Q4_0 Q5_0 Q8_0 IQ4_NL: f32(d); MXFP4: 2^(e-128), isum over the doubled table;
 *     NVFP4: the same table, a block of 32 is two runs of 16 in turn, dw = UE4M3 / 2 of each;
 *     Q4_1 Q5_1: f32(d), mw = f32(m); Q4_K Q5_K: f32(d) * sc, mw = -(f32(dmin) * m); IQ4_XS: f32(d) * (ls - 32);
 *     Q6_K Q3_K: dw = f32(d), isum = sc0 * isum0 + sc1 * isum1 over the two runs of 16 (sc already minus 32 for Q3_K);
 *     TQ1_0 TQ2_0: f32(d); IQ2_XXS IQ1_S: f32(d) * (2 s + 1) / 8; IQ3_XXS: the same / 4; IQ3_S: the same / 1;
 *     IQ2_XS IQ2_S IQ1_M: dw = f32(d) / 8, as Q6_K with sc = 2 s + 1; q of IQ1: eight times the weight;
 *     Q2_K: as Q6_K with 4-bit scales, and acc = fma(-(f32(dmin) * d), (float)(m0 * xsum0 + m1 * xsum1), acc).
 *   Products with F32, F16, BF16: x stays f32; acc = fma(w[k], x[k], acc), k ascending.
 *   Then the matrix's own number, bias, scale, residual: y = resid + scale * (wscale * acc + bias), written as
 *     (acc * wscale + bias) * scale + resid, each operation rounded; what is absent is skipped. An out_scale multiplies the
 *     finished element.
 *   RMS norm: 16 partial sums of squares, lane k % 16, fma, k ascending; lanes added as a tree (8, 4, 2, 1 apart);
 *     y = x * (1 / sqrt(sum / n + eps)) * w, left to right.
 *   Gated DeltaNet and L2 norms: sums over head_dim as in the RMS norm (16 lanes, tree); the convolution by fma. The sums of MATCH
 *     and of a sparse ACT_MUL likewise, the latter's mean first and then the squares of what lies between it and each element.
 *   exp, and what is made of it (silu, sigmoid, softplus, softmax), is kernels/mathf.h.
 *   Attention: s = fma over the head dimension in ascending order, times scale; positions in tiles of 256 aligned to
 *     position 0; in a tile m = max s, p = exp(s - m), l = sum of p (16 lanes by position % 16, then the tree),
 *     o = fma over positions in ascending order; tiles are merged in ascending order:
 *     m' = max(m, mt); l = l * exp(m - m') + lt * exp(mt - m'), o likewise; a sink enters m and l as a last tile.
 *   KV cache: f32 as it is; f16 rounded to nearest even; q8_0: each head's K (after norm and rotation) and V in blocks
 *     of 32: amax, d and q as in the products above, q from the unrounded d, and d then stored as f16. The value read
 *     back is f32(f16(d)) * q, exact in f32; attention takes it as it takes any other. fp8, q4_0 and rot4:
 *     kernels/kvcode.h; with rot4 ROPE_KV leaves q rotated as k is, which changes no score. */
#ifndef ZINC_KERNELS_KARGS_H
#define ZINC_KERNELS_KARGS_H

#include <stdint.h>

typedef uint64_t gpu_va;

enum arena { ARENA_WEIGHTS, ARENA_CONST, ARENA_KV, ARENA_STATE, ARENA_SCRATCH, ARENA_IO, ARENA_COUNT };

#define SADDR(arena, off) (((gpu_va)(arena) + 1) << 56 | (gpu_va)(off))
#define SADDR_ARENA(a)    ((uint32_t)((a) >> 56) - 1)
#define SADDR_OFF(a)      ((a) & 0x00ffffffffffffffull)

enum ka_rows { ROWS_STEP, ROWS_OUT };
enum ka_act { KA_SILU, KA_GELU_TANH, KA_SWIGLU_OAI }; /* act(gate, up): silu(g) u; gelu(g) u; gpt-oss's clamped form */
enum ka_gating { KA_SOFTMAX_TOPK, KA_TOPK_SOFTMAX };
enum ka_rope { KA_ROPE_NORM, KA_ROPE_NEOX };
enum ka_kv { KA_KV_F32, KA_KV_F16, KA_KV_Q8_0, KA_KV_FP8, KA_KV_Q4_0, KA_KV_ROT4, KA_KV_COUNT };
#define KA_KV_NAMES { "f32", "f16", "q8_0", "fp8", "q4_0", "rot4" }
#define KA_KV_BLOCK 32 /* values that share an f16 scale in q8_0, q4_0 and rot4: head_dim is a multiple of it */
#define KA_KV_IS_4BIT(kv) ((kv) == KA_KV_Q4_0 || (kv) == KA_KV_ROT4)
#define KA_KV_IS_BLOCKS(kv) ((kv) == KA_KV_Q8_0 || KA_KV_IS_4BIT(kv))
/* Bytes of n cached values: of their codes, and with the scales. */
#define KA_KV_CODES(kv, n) ((kv) == KA_KV_F32 ? (n) * 4 : (kv) == KA_KV_F16 ? (n) * 2 : KA_KV_IS_4BIT(kv) ? (n) / 2 : (n))
#define KA_KV_SCALES(kv, n) (KA_KV_IS_BLOCKS(kv) ? (n) / KA_KV_BLOCK * 2 : 0)
#define KA_KV_BYTES(kv, n) (KA_KV_CODES(kv, n) + KA_KV_SCALES(kv, n))
enum ka_gdn_heads { KA_GDN_MODULO /* v-head h uses k-head h % n_k */, KA_GDN_GROUPED /* h / (n_v / n_k) */ };

/* The step block, at the start of the IO arena: the words that change from one submission to the next. */
typedef struct {
    int32_t token; /* >= 0: the id; -1-i: the token that ARGMAX wrote to next[i] in the previous step of
                    * the same stream; where that was -1, any: the step's results are worth nothing */
    uint32_t pos, slot, reserved;
} ka_row;
typedef struct {
    uint32_t n_rows, n_out;
    uint32_t kv_len; /* 1 + the largest position of the step */
    uint32_t reserved[13];
    /* then ka_row rows[row capacity]; uint32_t out_row[out capacity]; padding to 16 bytes;
     * ka_sample sample[out capacity]; int32_t next[out capacity] */
} ka_step;
/* How the token after an output row is chosen from its logits; -1: none of them is above -inf. temp <= 0: the first of the
 * largest logits. Else, with the arithmetic of kernels/sample.h:
 *   candidates  the top_k largest logits, falling, ties by the lower id; top_k 0 or above KA_SAMPLE_MAX means
 *               KA_SAMPLE_MAX. NaN and -inf are none; without any candidate the choice is 0
 *   top_p       of their softmax, the shortest prefix whose probabilities reach top_p; top_p >= 1: all
 *   min_p       of these, the ones whose probability is at least min_p times the first one's, or the first alone
 *   the draw    probabilities p of logit / temp over what is left; u in [0, 1) is the first word of Philox4x32-10
 *               with the key (seed, 0) and the counter (counter, 0, 0, 0), shifted right by 8, times 2^-24: the
 *               first candidate with p_0 + ... + p_i > u (p_0 + p_1 + ...), or the last */
typedef struct {
    float temp;
    uint32_t top_k;
    float top_p, min_p;
    uint32_t seed, counter;
    uint32_t quiet; /* not 0: the host does not read these logits, a tier may keep them to itself */
    uint32_t reserved;
} ka_sample;
#define KA_SAMPLE_MAX 128
_Static_assert(sizeof(ka_row) == 16 && sizeof(ka_step) == 64 && sizeof(ka_sample) == 32, "device ABI");

/* Field lists: F(type, name, count, kind). Kinds: R, W, M are addresses that the command reads, writes, or both; T is a
 * weight or constant; N a number, E a float. An address of 0 means the part is absent where the comment says optional. */

/* y[r, n] = dequantised row rows[r].token of w [n, n_vocab], times scale */
#define KA_EMBED(F)                                                                                                    \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, w, 1, T) F(uint32_t, type, 1, N) F(uint32_t, n, 1, N)           \
    F(uint32_t, n_vocab, 1, N) F(float, scale, 1, E)

/* y[r, n] = (resid + rms(x[r, n]) * w) * out_scale, rms over each run of `group` elements for itself (n is a multiple of
 * it); w f32 [group], resid and out_scale f32 [1] are optional; y may be x or resid */
#define KA_NORM(F)                                                                                                     \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, w, 1, T) F(gpu_va, resid, 1, R)              \
    F(gpu_va, out_scale, 1, T) F(uint32_t, n, 1, N) F(uint32_t, group, 1, N) F(uint32_t, rows, 1, N)                   \
    F(float, eps, 1, E)

/* y[r, n] = (a + b) * out_scale; out_scale f32 [1] is optional; y may be a or b */
#define KA_ADD(F)                                                                                                      \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, a, 1, R) F(gpu_va, b, 1, R) F(gpu_va, out_scale, 1, T)          \
    F(uint32_t, n, 1, N) F(uint32_t, rows, 1, N)

/* y[r, n] = act(x'[r, n], a[r, n]): what GATE_UP ends with, where `a` is no product of x; rows of a are lda apart. y may be
 * x. x' is x, or where sparse is not 0 max(x - (mean + cut * deviation), 0): mean and standard deviation (over n) of the row's
 * elements, of which few are left */
#define KA_ACT_MUL(F)                                                                                                  \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, a, 1, R) F(uint32_t, n, 1, N)                \
    F(uint32_t, lda, 1, N) F(uint32_t, rows, 1, N) F(uint32_t, act, 1, N) F(uint32_t, sparse, 1, N) F(float, cut, 1, E)

/* y[r, n] = (resid + x[r, n] * rms(like[r]) / rms(x[r, n])) * scale: x made as large as another value. rms over each run of
 * `group` elements of x for itself (n is a multiple of it), at least KA_MATCH_LEAST; like f32 [rows, group]; resid f32
 * [rows, n], optional. y may be x or resid */
#define KA_MATCH_LEAST 0.0031622776f /* the root of 1e-5 */
#define KA_MATCH(F)                                                                                                    \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, like, 1, R) F(gpu_va, resid, 1, R)           \
    F(uint32_t, n, 1, N) F(uint32_t, group, 1, N) F(uint32_t, rows, 1, N) F(float, scale, 1, E)

/* Alternating updates (AltUp): a row is KA_STREAMS streams s_0 .. s_3 of n elements, s_0 in x0, the others in x [rows, 3, n], of
 * which a layer computes with the first alone. m f32 [rows, KA_STREAMS] says how they hang together, by c = w m * m_scale, w f32
 * [KA_STREAMS, 16 or KA_STREAMS]: c_i = (w[4 i] m[0] + ..) * m_scale, by fma in ascending order.
 *   KA_ALTUP_PREDICT  y_i = s_i + sum_j c_(4 i + j) s_j                         by fma from s_i, j ascending; a, scale, add 0
 *   KA_ALTUP_CORRECT  y_i = s_i + (1 + c_i) (a - s_0), i > 0: + add             by fma, then the sum
 *   KA_ALTUP_FIRST    y_0 of the above times scale, f32 [n]                     x, y and add are 0
 * a: what the layer made of s_0, add: what every other stream gets besides, both f32 [rows, n]. y_0 is y0, the others are y. No
 * output may be an input. */
enum { KA_STREAMS = 4 };
enum ka_altup_form { KA_ALTUP_PREDICT, KA_ALTUP_CORRECT, KA_ALTUP_FIRST };
#define KA_ALTUP(F)                                                                                                    \
    F(gpu_va, step, 1, R) F(gpu_va, y0, 1, W) F(gpu_va, y, 1, W) F(gpu_va, x0, 1, R) F(gpu_va, x, 1, R)                \
    F(gpu_va, m, 1, R) F(gpu_va, w, 1, T) F(gpu_va, a, 1, R) F(gpu_va, scale, 1, T) F(gpu_va, add, 1, R)               \
    F(uint32_t, n, 1, N) F(uint32_t, form, 1, N) F(uint32_t, rows, 1, N) F(float, m_scale, 1, E)

/* Products that share one input. x' = rms(x) * norm where norm is given (MATMUL, PROJ, GATE_UP alike), else x. p_i is w_i x',
 * or where wscale_i (f32 [1]: the number beside a matrix) is given w_i x' * wscale_i.
 *   MATMUL   y0[r, n_out0] = ((p0 + b0) * scale[r]) + resid[r, n_out0]; then softcap * tanh(y / softcap) if > 0.
 *            resid may be y0. b, scale f32 [rows], resid are optional.
 *   PROJ     y_i = p_i + b_i for i < n_mats (2..4): Q, K and V, or the four inputs of a gated DeltaNet.
 *   GATE_UP  y0 = act(p0 + b0, p1 + b1); n_out1 = n_out0.
 * w_i [n_in, n_out_i] of type_i; y_i has ld_i = its row stride. */
#define KA_MATMUL(F)                                                                                                   \
    F(gpu_va, step, 1, R) F(gpu_va, x, 1, R) F(gpu_va, norm, 1, T) F(gpu_va, resid, 1, R) F(gpu_va, scale, 1, R)       \
    F(gpu_va, y, 4, W) F(gpu_va, w, 4, T) F(gpu_va, wscale, 4, T) F(gpu_va, b, 4, T) F(uint32_t, n_out, 4, N)          \
    F(uint32_t, type, 4, N) F(uint32_t, ld, 4, N) F(uint32_t, n_mats, 1, N) F(uint32_t, n_in, 1, N)                    \
    F(uint32_t, ldx, 1, N)                                                                                             \
    F(uint32_t, ldr, 1, N) F(uint32_t, rows, 1, N) F(uint32_t, act, 1, N) F(float, eps, 1, E) F(float, softcap, 1, E)

/* Per row: q and k heads normed (q_norm, k_norm optional, f32 [head_dim]) and rotated at rows[r].pos, q in place, k and
 * v stored into the caches of rows[r].slot. Head h of q starts at q + h * q_hs. v_norm: v heads get a weightless norm.
 * theta_i = pos * inv_freq[i] in f32, i < n_rot / 2; cos and sin times mscale; dimensions past n_rot pass through.
 * q_scale (optional, f32 [n_ctx / q_every, rounded up]): the finished q times q_scale[pos / q_every].
 * k and v may be one value: V from the K projection. Both 0: only q is rotated (layers that read another's cache).
 * ROPE_KV and ATTN with ROWS_OUT: step is what STEP_OUT wrote, and all of its rows are meant; ROPE_KV then has q only.
 * Cache of a slot: K and V [n_kv, n_ctx, head_dim] in kv_type, slot_bytes apart; the order inside a slot is the tier's. */
#define KA_ROPE_KV(F)                                                                                                  \
    F(gpu_va, step, 1, R) F(gpu_va, q, 1, M) F(gpu_va, k, 1, R) F(gpu_va, v, 1, R) F(gpu_va, kc, 1, W)                 \
    F(gpu_va, vc, 1, W) F(gpu_va, q_norm, 1, T) F(gpu_va, k_norm, 1, T) F(gpu_va, inv_freq, 1, T)                      \
    F(gpu_va, q_scale, 1, T)                                                                                           \
    F(uint64_t, slot_bytes, 1, N) F(uint32_t, ldq, 1, N) F(uint32_t, ldk, 1, N) F(uint32_t, ldv, 1, N)                 \
    F(uint32_t, q_hs, 1, N) F(uint32_t, n_head, 1, N) F(uint32_t, n_kv, 1, N) F(uint32_t, head_dim, 1, N)              \
    F(uint32_t, n_rot, 1, N) F(uint32_t, rope, 1, N) F(uint32_t, n_ctx, 1, N) F(uint32_t, n_slots, 1, N)               \
    F(uint32_t, kv_type, 1, N) F(uint32_t, v_norm, 1, N) F(uint32_t, rows, 1, N) F(uint32_t, q_every, 1, N)            \
    F(float, mscale, 1, E) F(float, eps, 1, E) F(uint32_t, pad, 1, N)

/* y[r, n_head, head_dim] = softmax(scale * q k^T [, sink]) v over the cached positions j of rows[r].slot with
 * pos - window < j <= pos (window 0: all j <= pos); query head h reads kv head h / (n_head / n_kv).
 * gate (optional): y *= sigmoid(gate), head h at gate + h * q_hs, rows ldq apart. sinks: f32 [n_head], optional. */
#define KA_ATTN(F)                                                                                                     \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, q, 1, R) F(gpu_va, gate, 1, R) F(gpu_va, kc, 1, R)              \
    F(gpu_va, vc, 1, R) F(gpu_va, sinks, 1, T) F(uint64_t, slot_bytes, 1, N) F(uint32_t, ldq, 1, N)                    \
    F(uint32_t, q_hs, 1, N) F(uint32_t, n_head, 1, N) F(uint32_t, n_kv, 1, N) F(uint32_t, head_dim, 1, N)              \
    F(uint32_t, n_ctx, 1, N) F(uint32_t, n_slots, 1, N) F(uint32_t, kv_type, 1, N) F(uint32_t, window, 1, N)           \
    F(uint32_t, rows, 1, N) F(float, scale, 1, E) F(uint32_t, pad, 1, N)

/* Gated DeltaNet, rows of a slot in order. Channels of qkv: n_k q-heads, n_k k-heads, n_v v-heads of head_dim.
 *   c = silu(sum_j conv_w[channel][j] * m[t - K + 1 + j])     j ascending, m = 0 before position 0
 *   q, k heads: x / sqrt(sum x^2 + eps); beta = sigmoid(beta), g = a * softplus(alpha + dt), per v-head
 *   S = exp(g) S; e = beta (v - S^T k); S += k e^T; o = S^T q / sqrt(head_dim); y = rms(o) * norm * silu(z)
 * conv: per slot a ring f32 [K, conv_dim], entry pos % K; state: per slot f32 [n_v, head_dim (value), head_dim (key)].
 * ab_ld: row stride of alpha and beta; ab_group: 0: one value per v-head in order; r: per k-head r betas then r alphas,
 *   so that alpha = beta + r and v-head h's values lie at h / r * 2r + h % r from each (with KA_GDN_GROUPED).
 * c: scratch for the convolved channels, f32 [rows, conv_dim]. */
#define KA_GDN(F)                                                                                                      \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, qkv, 1, R) F(gpu_va, z, 1, R) F(gpu_va, alpha, 1, R)            \
    F(gpu_va, beta, 1, R) F(gpu_va, c, 1, W) F(gpu_va, conv, 1, M) F(gpu_va, state, 1, M) F(gpu_va, conv_w, 1, T)      \
    F(gpu_va, dt, 1, T) F(gpu_va, a, 1, T) F(gpu_va, norm, 1, T) F(uint64_t, conv_slot_bytes, 1, N)                    \
    F(uint64_t, state_slot_bytes, 1, N) F(uint32_t, n_k, 1, N) F(uint32_t, n_v, 1, N) F(uint32_t, head_dim, 1, N)      \
    F(uint32_t, conv_kernel, 1, N) F(uint32_t, ab_ld, 1, N) F(uint32_t, ab_group, 1, N) F(uint32_t, heads, 1, N)       \
    F(uint32_t, n_slots, 1, N) F(float, eps, 1, E) F(uint32_t, pad, 1, N)

/* Router and top-k: l = w x' + b; KA_SOFTMAX_TOPK: p = softmax(l), the k largest (ties: lowest id), divided by
 * max(their sum, 2^-14); KA_TOPK_SOFTMAX: the k largest l, softmax over them; all times scale. ids, weights [rows, k] in
 * descending order of l; expert_scale (optional, f32 [n_expert]): then weights[r, j] *= expert_scale[ids[r, j]].
 * shared (optional): share[r] = sigmoid(shared_w . x'). logits: scratch f32 [rows, n_expert]. */
#define KA_ROUTER(F)                                                                                                   \
    F(gpu_va, step, 1, R) F(gpu_va, ids, 1, W) F(gpu_va, weights, 1, W) F(gpu_va, share, 1, W) F(gpu_va, logits, 1, W) \
    F(gpu_va, x, 1, R) F(gpu_va, norm, 1, T) F(gpu_va, w, 1, T) F(gpu_va, b, 1, T) F(gpu_va, shared_w, 1, T)           \
    F(gpu_va, expert_scale, 1, T) F(uint32_t, type, 1, N) F(uint32_t, n_in, 1, N) F(uint32_t, n_expert, 1, N)          \
    F(uint32_t, k, 1, N) F(uint32_t, gating, 1, N) F(float, scale, 1, E) F(float, eps, 1, E) F(uint32_t, pad, 1, N)

/* y[r, j, n_ff] = act(gate_e x' * sg_e + bg_e, up_e x' * su_e + bu_e), e = ids[r, j]. Expert e's gate rows start
 * e * gate_stride bytes after gate, its up rows e * up_stride after up (one fused tensor serves both). Optional: numbers sg
 * and su f32 [n_expert], biases f32 [n_expert, n_ff]. */
#define KA_MOE_UP(F)                                                                                                   \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, ids, 1, R) F(gpu_va, norm, 1, T)             \
    F(gpu_va, gate, 1, T) F(gpu_va, up, 1, T) F(gpu_va, sg, 1, T) F(gpu_va, su, 1, T) F(gpu_va, bg, 1, T)              \
    F(gpu_va, bu, 1, T) F(uint64_t, gate_stride, 1, N) F(uint64_t, up_stride, 1, N) F(uint32_t, type_gate, 1, N)       \
    F(uint32_t, type_up, 1, N) F(uint32_t, n_in, 1, N)                                                                 \
    F(uint32_t, n_ff, 1, N) F(uint32_t, n_expert, 1, N) F(uint32_t, k, 1, N) F(uint32_t, act, 1, N) F(float, eps, 1, E)

/* y[r, n_out] = resid + sum_j weights[r, j] * (down_e x[r, j] * sd_e + b_e): s = w_0 o_0, then s = fma(w_j, o_j, s), j
 * ascending; resid (optional) is added last and may be y. Optional: numbers sd f32 [n_expert], biases b f32 [n_expert, n_out].
 * Without biases such numbers may as well be ROUTER's expert_scale. */
#define KA_MOE_DOWN(F)                                                                                                 \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, ids, 1, R) F(gpu_va, weights, 1, R)          \
    F(gpu_va, resid, 1, R) F(gpu_va, down, 1, T) F(gpu_va, sd, 1, T) F(gpu_va, b, 1, T) F(uint64_t, stride, 1, N)      \
    F(uint32_t, type, 1, N) F(uint32_t, n_in, 1, N) F(uint32_t, n_out, 1, N) F(uint32_t, n_expert, 1, N)               \
    F(uint32_t, k, 1, N) F(uint32_t, pad, 1, N)

/* y[i, n] = x[out_row[i], n] for i < n_out */
#define KA_GATHER(F)                                                                                                   \
    F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, x, 1, R) F(gpu_va, out_row, 1, R) F(uint32_t, n, 1, N)          \
    F(uint32_t, pad, 1, N)

/* A step block without what stands behind its rows: n_rows = n_out, kv_len as it is, rows[i] = rows[out_row[i]] */
#define KA_STEP_OUT(F) F(gpu_va, step, 1, R) F(gpu_va, y, 1, W) F(gpu_va, out_row, 1, R)

/* next[i] = the lowest index of the largest of logits[i, n] for i < n_out, or where sample (optional, the step
 * block's) is given what ka_sample says */
#define KA_ARGMAX(F)                                                                                                   \
    F(gpu_va, step, 1, R) F(gpu_va, next, 1, W) F(gpu_va, logits, 1, R) F(gpu_va, sample, 1, R)                        \
    F(uint32_t, n, 1, N) F(uint32_t, pad, 1, N)

/* X(command, args, field list, what it is in one line) */
#define CMD_LIST(X)                                                                                                    \
    X(EMBED, ka_embed, KA_EMBED, "token embedding lookup")                                                             \
    X(NORM, ka_norm, KA_NORM, "RMS norm, with residual and scale")                                                     \
    X(ADD, ka_add, KA_ADD, "sum of two, with scale")                                                                   \
    X(ACT_MUL, ka_act_mul, KA_ACT_MUL, "activation of one, times another")                                             \
    X(MATCH, ka_match, KA_MATCH, "one made as large as another")                                                       \
    X(ALTUP, ka_altup, KA_ALTUP, "alternating updates: streams predicted or corrected")                                \
    X(MATMUL, ka_matmul, KA_MATMUL, "norm, product, bias, scale, residual")                                            \
    X(PROJ, ka_matmul, KA_MATMUL, "norm and several products of one input")                                            \
    X(GATE_UP, ka_matmul, KA_MATMUL, "norm, gate and up products, activation")                                         \
    X(ROPE_KV, ka_rope_kv, KA_ROPE_KV, "q and k norm, rotation, KV store")                                             \
    X(ATTN, ka_attn, KA_ATTN, "attention over the KV cache")                                                           \
    X(GDN, ka_gdn, KA_GDN, "gated DeltaNet: convolution, state step, gated norm")                                      \
    X(ROUTER, ka_router, KA_ROUTER, "norm, router, top-k")                                                             \
    X(MOE_UP, ka_moe_up, KA_MOE_UP, "norm, experts' gate and up products, activation")                                 \
    X(MOE_DOWN, ka_moe_down, KA_MOE_DOWN, "experts' down products, weighted sum, residual")                            \
    X(GATHER, ka_gather, KA_GATHER, "rows that need logits")                                                           \
    X(STEP_OUT, ka_step_out, KA_STEP_OUT, "step block of the output rows")                                             \
    X(ARGMAX, ka_argmax, KA_ARGMAX, "the next token: greedy, or drawn")

#define KA_DIM_1
#define KA_DIM_4 [4]
#define KA_MEMBER(type, name, count, kind) type name KA_DIM_##count;
#define KA_STRUCT(sname, list)                                                                                         \
    typedef struct {                                                                                                   \
        list(KA_MEMBER)                                                                                                \
    } sname;
KA_STRUCT(ka_embed, KA_EMBED)
KA_STRUCT(ka_norm, KA_NORM)
KA_STRUCT(ka_add, KA_ADD)
KA_STRUCT(ka_act_mul, KA_ACT_MUL)
KA_STRUCT(ka_match, KA_MATCH)
KA_STRUCT(ka_altup, KA_ALTUP)
KA_STRUCT(ka_matmul, KA_MATMUL)
KA_STRUCT(ka_rope_kv, KA_ROPE_KV)
KA_STRUCT(ka_attn, KA_ATTN)
KA_STRUCT(ka_gdn, KA_GDN)
KA_STRUCT(ka_router, KA_ROUTER)
KA_STRUCT(ka_moe_up, KA_MOE_UP)
KA_STRUCT(ka_moe_down, KA_MOE_DOWN)
KA_STRUCT(ka_gather, KA_GATHER)
KA_STRUCT(ka_step_out, KA_STEP_OUT)
KA_STRUCT(ka_argmax, KA_ARGMAX)

/* The structs are the device ABI: fields by falling size, no padding hides between or behind them. */
#define KA_BYTES(type, name, count, kind) +sizeof(type) * count
#define X(cmd, args, list, what)                                                                                       \
    _Static_assert(sizeof(args) == 0 list(KA_BYTES) && sizeof(args) % 8 == 0, "device ABI: " #args);
CMD_LIST(X)
#undef X

#endif
