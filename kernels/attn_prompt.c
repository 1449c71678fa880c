/* kernels/attn_prompt.c: attention of many rows on matrix units. Grid x: kv heads, y: tiles of rows.
 *
 * A warp holds 16 (row, query head) pairs of a kv head and walks the positions that any of the work-group's rows
 * sees, 64 at a time from multiples of 64 on: S = Q K^T and O += P V with q, P, K and V in f16 and f32 sums, softmax
 * online in f32. On RDNA3, which has too few registers for the sums of heads of 256, two warps hold the same 16 pairs:
 * both have their scores and probabilities, each the sums of one half of a head. In the 32 KiB of Apple's work-groups heads of
 * 256 and 512 have a warp for every 128 dimensions, with these of q and o in its registers: a score is the sum of their parts, in
 * the warps' order, which pass through shared memory, and all of them have the same probabilities. A position that a row does not see gets
 * p = 0 and leaves its m, l and o as they are, to the bit, so a row's result does not depend on the rows beside it. Rows
 * of a tile that belong to several slots are done slot by slot. */
#include <stdbool.h>

#include "kernels/attn_end.h"
#include "kernels/attn_prompt.h"
#include "kernels/attn_set.h"
#include "kernels/attn_tile.h"
#include "kernels/hw/mma.h"
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"

#if defined(__AMDGCN__)
#define AP_ROOM   AP_ROOM_64K
#define AP_STAGES 1
#elif defined(KD_SMALL_SHARED)
#define AP_ROOM   AP_ROOM_32K
#define AP_STAGES 1
#else
#define AP_ROOM   AP_ROOM_STAGES
#define AP_STAGES 2
#endif

#if defined(__AMDGCN__) && !defined(__GFX12__)
#define AP_SPLIT_FROM 256
#else
#define AP_SPLIT_FROM 1024
#endif

/* Warps that hold the same pairs, each with a part of o. */
KD_FN bool ap_owns(const uint32_t HD) { return HD > 256 || attn_prompt_owners(HD, AP_ROOM) > 1; }
KD_FN uint32_t ap_split(const uint32_t HD) { return ap_owns(HD) ? HD / AP_OWN : HD >= AP_SPLIT_FROM ? 2 : 1; }
KD_FN uint32_t ap_group(const uint32_t HD) { return kd_warp() / ap_split(HD); } /* of 16 pairs */
KD_FN uint32_t ap_groups(const uint32_t HD) { return kd_n_warps() / ap_split(HD); }
KD_FN uint32_t ap_dims(const uint32_t HD) { return HD / ap_split(HD); }        /* of o, and the first of them */
KD_FN uint32_t ap_dim0(const uint32_t HD) { return kd_warp() % ap_split(HD) * ap_dims(HD); }

KD_FN KD_SHARED uint16_t *ap_q(void) { return KD_SHARED_AT(uint16_t, 0); }
KD_FN uint32_t ap_part(const uint32_t HD) { return attn_prompt_part(HD, AP_ROOM); }
/* K and V of part of a tile take turns in one place. */
KD_FN bool ap_in_parts(const uint32_t HD) { return ap_part(HD) < AP_POS; }
/* stage: below AP_STAGES; v: 0 for K, 1 for V */
KD_FN KD_SHARED uint16_t *ap_kv(const uint32_t HD, uint32_t v, uint32_t stage)
{
    uint32_t at = ap_in_parts(HD) ? 0 : (AP_STAGES * v + stage) * AP_POS;
    return ap_q() + (16 * ap_groups(HD) + at) * (HD + AP_PAD);
}
KD_FN KD_SHARED uint16_t *ap_scratch(const uint32_t HD)
{
    uint32_t kv = ap_in_parts(HD) ? attn_prompt_part(HD, AP_ROOM) : 2 * AP_STAGES * AP_POS;
    return ap_q() + (16 * ap_groups(HD) + kv) * (HD + AP_PAD) + kd_warp() * AP_SCRATCH;
}

/* With owners: K or V, then the parts of the scores, element i of tile n of the warp, lane by lane. */
KD_FN KD_SHARED float *ap_parts(const uint32_t HD, uint32_t warp, uint32_t n, uint32_t i)
{
    const uint32_t N = attn_prompt_part(HD, AP_ROOM) / 16;
    return KD_SHARED_AT(float, 2 * attn_prompt_part(HD, AP_ROOM) * (HD + AP_PAD)) + ((warp * N + n) * 8 + i) * KD_WARP + kd_lane();
}

/* Masks scores of positions that their rows do not see; pos, lo: of the lane's rows. */
KD_FN void ap_mask(kd_acc s[AP_POS / 16], uint32_t p0, const uint32_t *pos, const uint32_t *lo)
{
    KD_UNROLL
    for (uint32_t n = 0; n < AP_POS / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t p = p0 + 16 * n + kd_acc_col(i), k = kd_acc_slot(i);
            s[n].v[i] = p <= pos[k] && p >= lo[k] ? s[n].v[i] : NEG_INF;
        }
    }
}

/* s: of as many positions as k has */
KD_FN void ap_scores(const uint32_t HD, KD_SHARED const uint16_t *k, kd_acc *s)
{
    const uint32_t N = attn_prompt_part(HD, AP_ROOM) / 16;
    KD_SHARED const uint16_t *q = ap_q() + ap_group(HD) * 16 * (HD + AP_PAD);
    KD_UNROLL
    for (uint32_t n = 0; n < N; n++)
        s[n] = (kd_acc){ { 0 } };
    KD_UNROLL
    for (uint32_t d = 0; d < HD; d += 16) {
        kd_frag a = kd_frag_a(q + d, HD + AP_PAD);
        KD_UNROLL
        for (uint32_t n = 0; n < N; n++)
            kd_tile_fma(&s[n], a, kd_frag_bt(k + 16 * n * (HD + AP_PAD) + d, HD + AP_PAD));
    }
}

/* q of the warp's pairs and dimensions, in f16; zeros for rows that are not the run's. */
KD_FN void ap_own_q(const kl_attn *a, const struct ap_run *r, const uint32_t HD, kd_frag *q)
{
    KD_UNROLL
    for (uint32_t n = 0; n < AP_OWN / 16; n++) {
        kd_acc x;
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t pair = ap_group(HD) * 16 + kd_acc_row(i), row = r->tile0 + pair / r->group;
            uint32_t head = r->kvh * r->group + pair % r->group, d = ap_dim0(HD) + 16 * n + kd_acc_col(i);
            bool own = row >= r->row0 && row < r->row1;
            x.v[i] = own ? KD_PTR(const float, a->q)[(uint64_t)row * a->ldq + (uint64_t)head * a->q_hs + d] : 0.0f;
        }
        q[n] = kd_frag_of(&x, KD_SHARED_AT(uint16_t, 0));
    }
}

/* As ap_scores, by the owners together. */
KD_FN void ap_own_scores(const uint32_t HD, const kd_frag *q, kd_acc *s)
{
    const uint32_t N = attn_prompt_part(HD, AP_ROOM) / 16, LD = HD + AP_PAD, W = ap_split(HD);
    KD_SHARED const uint16_t *k = KD_SHARED_AT(uint16_t, 0) + ap_dim0(HD);
    KD_UNROLL
    for (uint32_t n = 0; n < N; n++) {
        kd_acc part = { { 0 } };
        KD_UNROLL
        for (uint32_t d = 0; d < AP_OWN / 16; d++)
            kd_tile_fma(&part, q[d], kd_frag_bt(k + 16 * n * LD + 16 * d, LD));
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            *ap_parts(HD, kd_warp(), n, i) = part.v[i];
    }
    kd_barrier();
    KD_UNROLL
    for (uint32_t n = 0; n < N; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            float sum = *ap_parts(HD, ap_group(HD) * W, n, i);
            KD_UNROLL
            for (uint32_t w = 1; w < W; w++)
                sum += *ap_parts(HD, ap_group(HD) * W + w, n, i);
            s[n].v[i] = sum;
        }
    }
}

/* Scores to probabilities; m, l and the factor by which o decays, of the lane's rows. by: the scale, in base 2. */
KD_FN void ap_softmax(kd_acc s[AP_POS / 16], float by, float *m, float *l, float *decay)
{
    float top[KD_ACC_SLOTS], sum[KD_ACC_SLOTS], off[KD_ACC_SLOTS];
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        top[k] = NEG_INF;
        sum[k] = 0.0f;
    }
    KD_UNROLL
    for (uint32_t n = 0; n < AP_POS / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            top[kd_acc_slot(i)] = kd_max(s[n].v[i], top[kd_acc_slot(i)]);
    }
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        float now = kd_max(kd_acc_max(top[k]) * by, m[k]);
        off[k] = now == NEG_INF ? 0.0f : now; /* nothing seen yet */
        decay[k] = kd_exp2(m[k] - off[k]);
        m[k] = now;
    }
    KD_UNROLL
    for (uint32_t n = 0; n < AP_POS / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            s[n].v[i] = kd_exp2(k_fma(s[n].v[i], by, -off[kd_acc_slot(i)]));
            sum[kd_acc_slot(i)] += s[n].v[i];
        }
    }
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        l[k] = k_fma(l[k], decay[k], sum[k]);
}

KD_FN void ap_decay(const uint32_t HD, const float *decay, kd_acc *o)
{
    KD_UNROLL
    for (uint32_t n = 0; n < ap_dims(HD) / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            o[n].v[i] *= decay[kd_acc_slot(i)];
    }
}

/* p: of as many positions as v has */
KD_FN void ap_values(const uint32_t HD, KD_SHARED const uint16_t *v, kd_acc *p, kd_acc *o)
{
    v += ap_dim0(HD);
    KD_UNROLL
    for (uint32_t k = 0; k < attn_prompt_part(HD, AP_ROOM) / 16; k++) {
        kd_frag a = kd_frag_of(&p[k], ap_scratch(HD));
        KD_UNROLL
        for (uint32_t n = 0; n < ap_dims(HD) / 16; n++)
            kd_tile_fma(&o[n], a, kd_frag_b(v + 16 * k * (HD + AP_PAD) + 16 * n, HD + AP_PAD));
    }
}

KD_FN void ap_write(const kl_attn *a, const struct ap_run *r, const uint32_t HD, float *m, float *l, kd_acc *o)
{
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        uint32_t pair = ap_group(HD) * 16 + kd_acc_slot_row(k), row = r->tile0 + pair / r->group;
        uint32_t head = r->kvh * r->group + pair % r->group;
        float sum = kd_acc_sum(l[k]), by = 1.0f;
        if (row < r->row0 || row >= r->row1)
            continue;
        if (a->sinks) {
            float sink = KD_PTR(const float, a->sinks)[head] * LOG2E, both = kd_max(m[k], sink);
            by = kd_exp2(m[k] - both);
            sum = sum * by + kd_exp2(sink - both);
        }
        by /= sum;
        KD_GLOBAL float *y = KD_PTR(float, a->y) + ((uint64_t)row * a->n_head + head) * HD;
        uint64_t at = (uint64_t)row * a->ldq + (uint64_t)head * a->q_hs;
        KD_GLOBAL const float *gate = KD_PTR(const float, a->gate) + at;
        KD_UNROLL
        for (uint32_t n = 0; n < ap_dims(HD) / 16; n++) {
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t d = ap_dim0(HD) + 16 * n + kd_acc_col(i);
                if (kd_acc_slot(i) == k)
                    y[d] = o[n].v[i] * by * (a->gate ? k_sigmoid(gate[d]) : 1.0f);
            }
        }
    }
}

/* What a row sees of a tile from p0 on. */
KD_FN bool ap_sees_all(uint32_t p0, uint32_t pos, uint32_t lo) { return p0 + AP_POS - 1 <= pos && p0 >= lo; }
KD_FN bool ap_sees(uint32_t p, uint32_t pos, uint32_t lo) { return p <= pos && p >= lo; }

/* ap_values of a tile from p0 on, of which not all rows see all, where matrix units may change a sum to which they add 0:
 * their sums are for rows that see the whole tile. The others add up what they see by themselves, in f32 and in order. So
 * what a row adds follows from its own position. p and v begin `at` positions into the tile. */
KD_FN void ap_values_by_row(const uint32_t HD, KD_SHARED const uint16_t *v, kd_acc *p, uint32_t p0, uint32_t at,
                            const uint32_t *pos, const uint32_t *lo, kd_acc *o)
{
    const uint32_t N = attn_prompt_part(HD, AP_ROOM) / 16;
    kd_frag a[AP_POS / 16];
    v += ap_dim0(HD);
    KD_UNROLL
    for (uint32_t k = 0; k < N; k++)
        a[k] = kd_frag_of(&p[k], ap_scratch(HD));
    KD_UNROLL
    for (uint32_t n = 0; n < ap_dims(HD) / 16; n++) {
        kd_acc sum = o[n];
        KD_UNROLL
        for (uint32_t k = 0; k < N; k++)
            kd_tile_fma(&sum, a[k], kd_frag_b(v + 16 * k * (HD + AP_PAD) + 16 * n, HD + AP_PAD));
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            o[n].v[i] = ap_sees_all(p0, pos[kd_acc_slot(i)], lo[kd_acc_slot(i)]) ? sum.v[i] : o[n].v[i];
        kd_mma_in_turn();
    }
    KD_UNROLL
    for (uint32_t k = 0; k < N; k++) {
        KD_SHARED const uint16_t *rows = ap_scratch(HD);
        (void)kd_frag_of(&p[k], ap_scratch(HD));
        for (uint32_t j = 0; j < 16; j++) {
            KD_SHARED const uint16_t *x = v + (16 * k + j) * (HD + AP_PAD);
            float w[8];
            bool add[8];
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t own = pos[kd_acc_slot(i)], from = lo[kd_acc_slot(i)];
                w[i] = f16_to_f32(rows[kd_acc_row(i) * 16 + j]);
                add[i] = ap_sees(p0 + at + 16 * k + j, own, from) && !ap_sees_all(p0, own, from);
            }
            KD_UNROLL
            for (uint32_t n = 0; n < ap_dims(HD) / 16; n++) {
                float y = f16_to_f32(x[16 * n + kd_acc_col(0)]);
                KD_UNROLL
                for (uint32_t i = 0; i < 8; i++)
                    o[n].v[i] = add[i] ? k_fma(w[i], y, o[n].v[i]) : o[n].v[i];
                kd_mma_in_turn();
            }
        }
    }
}

/* One tile whose K and V come part by part: the sums are those of whole tiles, in their order. */
KD_FN void ap_tile_in_parts(const kl_attn *a, const struct ap_run *r, const uint32_t HD, const bool F16, uint32_t p0,
                            bool masked, const uint32_t *pos, const uint32_t *lo, float *m, float *l, kd_acc *o)
{
    const uint32_t PART = attn_prompt_part(HD, AP_ROOM);
    kd_acc s[AP_POS / 16];
    float decay[KD_ACC_SLOTS];
    KD_UNROLL
    for (uint32_t at = 0; at < AP_POS; at += PART) {
        kd_barrier(); /* everybody is done with what lies there */
        ap_load(F16, r->k, HD, ap_part(HD), p0 + at, r->end, ap_kv(HD, 0, 0));
        kd_barrier();
        ap_scores(HD, ap_kv(HD, 0, 0), s + at / 16);
    }
    if (masked)
        ap_mask(s, p0, pos, lo);
    ap_softmax(s, a->scale * LOG2E, m, l, decay);
    ap_decay(HD, decay, o);
    KD_UNROLL
    for (uint32_t at = 0; at < AP_POS; at += PART) {
        kd_barrier();
        ap_load(F16, r->v, HD, ap_part(HD), p0 + at, r->end, ap_kv(HD, 1, 0));
        kd_barrier();
        if (masked && !KD_MMA_ADD_ZERO_EXACT)
            ap_values_by_row(HD, ap_kv(HD, 1, 0), s + at / 16, p0, at, pos, lo, o);
        else
            ap_values(HD, ap_kv(HD, 1, 0), s + at / 16, o);
    }
}

/* The same by owners of dimensions. */
KD_FN void ap_tile_by_owners(const kl_attn *a, const struct ap_run *r, const uint32_t HD, const bool F16, const kd_frag *q, uint32_t p0,
                             bool masked, const uint32_t *pos, const uint32_t *lo, float *m, float *l, kd_acc *o)
{
    const uint32_t PART = attn_prompt_part(HD, AP_ROOM), LD = HD + AP_PAD;
    KD_SHARED uint16_t *kv = KD_SHARED_AT(uint16_t, 0);
    kd_acc s[AP_POS / 16];
    float decay[KD_ACC_SLOTS];
    KD_UNROLL
    for (uint32_t at = 0; at < AP_POS; at += PART) {
        kd_barrier(); /* everybody is done with what lies there, parts of scores included */
        ap_load(F16, r->k, HD, PART, p0 + at, r->end, kv);
        kd_barrier();
        ap_own_scores(HD, q, s + at / 16);
    }
    if (masked)
        ap_mask(s, p0, pos, lo);
    ap_softmax(s, a->scale * LOG2E, m, l, decay);
    ap_decay(HD, decay, o);
    KD_UNROLL
    for (uint32_t at = 0; at < AP_POS; at += PART) {
        kd_barrier();
        ap_load(F16, r->v, HD, PART, p0 + at, r->end, kv);
        kd_barrier();
        KD_UNROLL
        for (uint32_t k = 0; k < PART / 16; k++) {
            kd_frag p = kd_frag_of(&s[at / 16 + k], kv);
            KD_UNROLL
            for (uint32_t n = 0; n < AP_OWN / 16; n++)
                kd_tile_fma(&o[n], p, kd_frag_b(kv + ap_dim0(HD) + 16 * k * LD + 16 * n, LD));
        }
    }
}

KD_FN void ap_run(const kl_attn *a, const struct ap_run *r, const uint32_t HD, const bool F16)
{
    kd_acc o[16];
    kd_frag own_q[AP_OWN / 16];
    float m[KD_ACC_SLOTS], l[KD_ACC_SLOTS];
    uint32_t pos[KD_ACC_SLOTS], lo[KD_ACC_SLOTS];
    if (AP_STAGES == 2 && !ap_owns(HD)) {
        ap_load(F16, r->k, HD, ap_part(HD), r->lo / AP_POS * AP_POS, r->end, ap_kv(HD, 0, 0));
        ap_load(F16, r->v, HD, ap_part(HD), r->lo / AP_POS * AP_POS, r->end, ap_kv(HD, 1, 0));
    }
    if (ap_owns(HD))
        ap_own_q(a, r, HD, own_q);
    else
        ap_load_q(a, r, HD, 16 * ap_groups(HD), ap_q());
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        uint32_t row = r->tile0 + (ap_group(HD) * 16 + kd_acc_slot_row(k)) / r->group;
        row = kd_min_u32(kd_max_u32(row, r->row0), r->row1 - 1);
        pos[k] = kd_row(a->step, row)->pos;
        lo[k] = ap_first(a, pos[k]);
        m[k] = NEG_INF;
        l[k] = 0.0f;
    }
    KD_UNROLL
    for (uint32_t n = 0; n < ap_dims(HD) / 16; n++)
        o[n] = (kd_acc){ { 0 } };
    /* seen by all rows of the run: no masks there */
    uint32_t all_from = ap_first(a, kd_row(a->step, r->row1 - 1)->pos), all_to = kd_row(a->step, r->row0)->pos;
    for (uint32_t p0 = r->lo / AP_POS * AP_POS, stage = 0; p0 < r->end; p0 += AP_POS, stage ^= AP_STAGES - 1) {
        bool more = AP_STAGES == 2 && p0 + AP_POS < r->end;
        bool masked = p0 < all_from || p0 + AP_POS - 1 > all_to;
        if (ap_owns(HD)) {
            ap_tile_by_owners(a, r, HD, F16, own_q, p0, masked, pos, lo, m, l, o);
            continue;
        }
        if (ap_in_parts(HD)) {
            ap_tile_in_parts(a, r, HD, F16, p0, masked, pos, lo, m, l, o);
            continue;
        }
        kd_acc s[AP_POS / 16];
        float decay[KD_ACC_SLOTS];
        if (AP_STAGES == 1) {
            kd_barrier(); /* everybody is done with the last tile */
            ap_load(F16, r->k, HD, ap_part(HD), p0, r->end, ap_kv(HD, 0, 0));
            ap_load(F16, r->v, HD, ap_part(HD), p0, r->end, ap_kv(HD, 1, 0));
        } else {
            kd_copy_wait_1();
        }
        kd_barrier(); /* this K is there, and everybody is done with the last tile */
        if (more)
            ap_load(F16, r->k, HD, ap_part(HD), p0 + AP_POS, r->end, ap_kv(HD, 0, stage ^ 1));
        ap_scores(HD, ap_kv(HD, 0, stage), s);
        if (masked)
            ap_mask(s, p0, pos, lo);
        ap_softmax(s, a->scale * LOG2E, m, l, decay);
        if (AP_STAGES == 2) {
            if (more)
                kd_copy_wait_1();
            else
                kd_copy_wait_0();
            kd_barrier(); /* this V is there */
        }
        if (more)
            ap_load(F16, r->v, HD, ap_part(HD), p0 + AP_POS, r->end, ap_kv(HD, 1, stage ^ 1));
        ap_decay(HD, decay, o);
        if (masked && !KD_MMA_ADD_ZERO_EXACT)
            ap_values_by_row(HD, ap_kv(HD, 1, stage), s, p0, 0, pos, lo, o);
        else
            ap_values(HD, ap_kv(HD, 1, stage), s, o);
    }
    ap_write(a, r, HD, m, l, o);
    kd_barrier(); /* shared memory is free for the next run */
}

KD_FN void ap_kernel(const kl_attn *a, const uint32_t HD)
{
    struct ap_run r = { .group = a->n_head / a->n_kv, .kvh = kd_group_x() };
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a->step, ROWS_STEP), step = attn_prompt_rows(ap_groups(HD), r.group);
    uint32_t tiles = kd_div_up(n_rows, step);
    if (kd_group_y() >= tiles)
        return;
    r.tile0 = (tiles - 1 - kd_group_y()) * step; /* the longest first */
    uint32_t end = kd_min_u32(r.tile0 + step, n_rows);
    for (r.row0 = r.tile0; r.row0 < end; r.row0 = r.row1) {
        ap_next_run(a, &r, HD, end);
        if (a->kv_type == KA_KV_F16)
            ap_run(a, &r, HD, true);
        else
            ap_run(a, &r, HD, false);
    }
}

/* The same with many warps, and with 4 for prompts that would leave cores without work. On AMD there is no room for many
 * groups of pairs of large heads, on Apple GPUs for none (rt/dispatch_attn.c); on RDNA3 the 8 warps of heads of 256 are 4 groups. */
#if ATTN_SET == 64
#if !defined(KD_SMALL_SHARED)
KD_KERNEL(k_attn_prompt_h64, kl_attn) { ap_kernel(&a, 64); }
#endif
KD_KERNEL(k_attn_prompt_small_h64, kl_attn) { ap_kernel(&a, 64); }
#elif ATTN_SET == 128
KD_KERNEL(k_attn_prompt_small_h128, kl_attn) { ap_kernel(&a, 128); }
#if !defined(__AMDGCN__) && !defined(KD_SMALL_SHARED)
KD_KERNEL(k_attn_prompt_h128, kl_attn) { ap_kernel(&a, 128); }
#endif
#else /* heads of 256, and of 512 by owners of dimensions */
#if !defined(KD_SMALL_SHARED) && (!defined(__AMDGCN__) || !defined(__GFX12__))
KD_KERNEL(k_attn_prompt_h256, kl_attn) { ap_kernel(&a, 256); }
#endif
#if !defined(__AMDGCN__) || defined(__GFX12__)
KD_KERNEL(k_attn_prompt_small_h256, kl_attn) { ap_kernel(&a, 256); }
#endif
#if !defined(__AMDGCN__) && !defined(__NVPTX__)
KD_KERNEL(k_attn_prompt_small_h512, kl_attn) { ap_kernel(&a, 512); }
#endif
#endif
