/* kernels/attn_rope.h: ATTN of few rows that does the ROPE_KV before it as well (kl_attn_rope), for kernels/attn.c, and of one row
 * for attn_group.c. A warp makes a head at a time in shared memory: head t of `group` is a q head of the work-group's kv head, then
 * come k and v, of all the step's rows of its slot whose positions are among its own: work-groups that have a position in common each
 * make both, and store the same bytes. Include after kernels/kdev.h. */
#ifndef ZINC_KERNELS_ATTN_ROPE_H
#define ZINC_KERNELS_ATTN_ROPE_H

#include "kernels/attn_shared.h"

/* What a lane holds of a head: dimensions lane, lane + 32 and so on of its weights and of itself, and angles per position. */
enum { AR_HELD = ATTN_ANY_DIM / KD_WARP };
struct ar_lane {
    float w[AR_HELD], angle[AR_HELD / 2], x[AR_HELD], gate[AR_HELD];
};

/* For targets where launches begin before their predecessor ends, and the host, which proves them. */
#if !defined(KD_WALK) && (defined(KD_SM90) || !(defined(KD_MSL) || defined(__NVPTX__) || defined(__AMDGCN__)))
#define ATTN_ROPE

#include <stdbool.h>
#include <stddef.h>

#include "kernels/klaunch.h"
#include "kernels/rope_head.h"

_Static_assert(offsetof(kl_attn_rope, k) == sizeof(kl_attn), "it begins with kl_attn");
_Static_assert(offsetof(ka_row, pos) == 4 && offsetof(ka_row, slot) == 8, "words of a row's block");
_Static_assert((AR_ROWS & (AR_ROWS - 1)) == 0 && AR_ROWS <= KD_WARP, "a lane for each row");

KD_FN KD_SHARED float *ar_head(const kl_attn_rope *a, const uint32_t HD, uint32_t t)
{
    return KD_SHARED_AT(float, a->heads_at) + t * HD;
}

/* The q heads' gates, as they multiply what the heads see: behind all heads. */
KD_FN KD_SHARED float *ar_gate(const kl_attn_rope *a, const uint32_t HD, uint32_t t)
{
    return ar_head(a, HD, a->n_head / a->n_kv + 2 + t);
}

/* What no launch writes: before kd_wait_inputs. */
KD_FN void ar_ask(const kl_attn_rope *a, const uint32_t HD, uint32_t t, uint32_t group, struct ar_lane *l)
{
    gpu_va norm = t < group ? a->q_norm : t == group ? a->k_norm : 0;
    KD_GLOBAL const float *w = KD_PTR(const float, norm), *f = KD_PTR(const float, a->inv_freq);
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        l->w[i] = norm ? w[kd_lane() + i * KD_WARP] : 1.0f;
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP / 2; i++)
        l->angle[i] = kd_lane() + i * KD_WARP < a->n_rot / 2 ? f[kd_lane() + i * KD_WARP] : 0.0f;
}

/* What the launch before wrote for row `row`; for a head that there is not, another one. The norm wants no position, which may still
 * be on its way: so ar_read, ar_norm, and ar_make when it is there. */
KD_FN void ar_read(const kl_attn_rope *a, const uint32_t HD, uint32_t t, uint32_t group, uint32_t kvh, uint32_t row, struct ar_lane *l)
{
    gpu_va at = t == group && a->k       ? a->k + 4 * ((uint64_t)row * a->ldk + (uint64_t)kvh * HD)
                : t == group + 1 && a->k ? a->v + 4 * ((uint64_t)row * a->ldv + (uint64_t)kvh * HD)
                                         : a->q + 4 * ((uint64_t)row * a->ldq + (uint64_t)(kvh * group + (t < group ? t : 0)) * a->q_hs);
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        l->x[i] = f32_from_bits(kd_load_fresh4(KD_PTR(const uint32_t, at) + kd_lane() + i * KD_WARP));
}

/* The gate of q head t, of models that have one: asked for with the head, so that nobody waits for it at the end. */
KD_FN void ar_read_gate(const kl_attn_rope *a, const uint32_t HD, uint32_t t, uint32_t group, uint32_t kvh, struct ar_lane *l)
{
    if (!a->gate || t >= group)
        return;
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        l->gate[i] = f32_from_bits(kd_load_fresh4(KD_PTR(const uint32_t, a->gate + 4 * (uint64_t)(kvh * group + t) * a->q_hs) +
                                                  kd_lane() + i * KD_WARP));
}
KD_FN void ar_make_gate(const kl_attn_rope *a, const uint32_t HD, uint32_t t, uint32_t group, const struct ar_lane *l)
{
    if (!a->gate || t >= group)
        return;
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        ar_gate(a, HD, t)[kd_lane() + i * KD_WARP] = k_sigmoid(l->gate[i]);
}

/* The first row's block, and how many rows there are. */
KD_FN ka_row ar_row(const kl_attn_rope *a, uint32_t *n_rows)
{
    kd_u32x4 row = kd_load_fresh((KD_GLOBAL const kd_u32x4 *)kd_row(a->step, 0));
    *n_rows = kd_load_fresh4(&KD_PTR(const ka_step, a->step)->n_rows);
    return (ka_row){ .pos = row[1], .slot = row[2] };
}

/* All of the step's rows: lane i has row i % AR_ROWS, where there may be so many. */
struct ar_rows {
    uint32_t n, pos, slot;
};
KD_FN struct ar_rows ar_rows(const kl_attn_rope *a)
{
    kd_u32x4 row = kd_load_fresh((KD_GLOBAL const kd_u32x4 *)kd_row(a->step, kd_min_u32(kd_lane() % AR_ROWS, a->cap - 1)));
    return (struct ar_rows){ .n = kd_load_fresh4(&KD_PTR(const ka_step, a->step)->n_rows), .pos = row[1], .slot = row[2] };
}
KD_FN ka_row ar_row_of(const struct ar_rows *all, uint32_t row)
{
    return (ka_row){ .pos = kd_shfl_u32(all->pos, row), .slot = kd_shfl_u32(all->slot, row) };
}
/* Those of a slot with positions [from, from + n), [from + by, from + by + n) and so on up to `to`, a bit each. */
KD_FN uint32_t ar_among(const struct ar_rows *all, uint32_t slot, uint32_t from, uint32_t n, uint32_t by, uint32_t to)
{
    uint32_t i = kd_lane() % AR_ROWS;
    bool is = i < all->n && all->slot == slot && all->pos >= from && all->pos < to && (all->pos - from) % by < n;
    uint32_t bits = is ? 1u << i : 0;
    KD_UNROLL
    for (uint32_t b = 1; b < AR_ROWS; b <<= 1)
        bits |= kd_shfl_xor_u32(bits, b);
    return bits;
}

KD_FN void ar_norm(const kl_attn_rope *a, const uint32_t HD, uint32_t t, uint32_t group, struct ar_lane *l)
{
    float sum = 0.0f;
    if (!(t < group ? a->q_norm != 0 : t == group ? a->k_norm != 0 : a->v_norm != 0))
        return;
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        sum = k_fma(l->x[i], l->x[i], sum);
    float scale = rope_scale(sum, HD, a->eps);
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        l->x[i] = l->x[i] * scale * l->w[i];
}

/* Head t of kv head kvh at a position, as k_rope_kv makes it but for ar_scale. newest: the position is the work-group's, so k and v
 * are as well. kv: the cache's type, q4_0 for rot4 is enough. */
KD_FN void ar_make(const kl_attn_rope *a, enum ka_kv kv, const uint32_t HD, uint32_t t, uint32_t group, uint32_t kvh, uint32_t pos,
                   uint64_t slot, bool newest, const struct ar_lane *l)
{
    kv = !KA_KV_IS_4BIT(kv) ? kv : a->kv_type == KA_KV_ROT4 ? KA_KV_ROT4 : KA_KV_Q4_0;
    uint32_t half = a->n_rot / 2;
    KD_SHARED float *s = ar_head(a, HD, t);
    if (t >= group && (t >= group + 2 || !newest || !a->k))
        return;
    KD_UNROLL
    for (uint32_t i = 0; i < HD / KD_WARP; i++)
        s[kd_lane() + i * KD_WARP] = l->x[i];
    kd_warp_sync();
    if (t <= group) {
        KD_UNROLL
        for (uint32_t i = 0; i < HD / KD_WARP / 2; i++)
            if (kd_lane() + i * KD_WARP < half)
                rope_pair(s, kd_lane() + i * KD_WARP, half, a->rope, (float)pos * l->angle[i], a->mscale);
        kd_warp_sync();
        if (kv == KA_KV_ROT4)
            kv_rotate(s, HD, t < group);
    }
    if (t >= group)
        rope_store(kv_head((t == group ? a->kc : a->vc) + slot, kv, a->n_kv, a->n_ctx, HD, kvh), pos, HD, s);
}

/* The q heads times their scale, by the whole work-group when it has made them; a barrier has to follow. */
KD_FN void ar_scale(const kl_attn_rope *a, const uint32_t HD, uint32_t group, uint32_t pos)
{
    if (!a->q_scale)
        return;
    kd_barrier();
    float by = KD_PTR(const float, a->q_scale)[pos / a->q_every];
    for (uint32_t d = kd_tid(); d < group * HD; d += kd_group_size())
        ar_head(a, HD, 0)[d] *= by;
}

/* The lines of n positions from p0 on, `last` at most, on their way into the level-2 cache. */
KD_FN void ar_prefetch(const enum ka_kv KV, struct kv_head h, const uint32_t HD, uint32_t p0, const uint32_t n, uint32_t last)
{
    const uint32_t BYTES = KA_KV_CODES(KV, HD), LINES = BYTES < 128 ? 1 : BYTES / 128;
    KD_UNROLL
    for (uint32_t i0 = 0; i0 < n * LINES; i0 += KD_WARP) {
        uint32_t i = i0 + kd_lane(), p = p0 + i / LINES;
        if (i < n * LINES && p <= last)
            kd_prefetch(KD_PTR(const uint8_t, h.codes + (uint64_t)p * BYTES + i % LINES * 128));
    }
}

#endif
#endif
