/* kernels/attn_wgmma.c: attention of many rows on Hopper's tensor cores, sm_90a only.
 *
 * A persistent work-group of three warpgroups takes 128 (row, query head) pairs of a kv head at a time. The first two have 64 of
 * them each and walk the positions that any of its rows sees, 64 at a time from multiples of 64 on: S = Q K^T, softmax online in
 * f32, O += P V with P in registers, and q too but for heads of 256. A tile's products with V run under the softmax of the next
 * one. Warps of the last warpgroup bring K and V, tile by tile in turn, into a ring of slots in shared memory, with a pair of
 * barriers each: `full` when a tile is there, `empty` when both warpgroups are through with it.
 *
 * The sums are those of kernels/attn_prompt.c, in its order: a position that a row does not see gets p = 0 and leaves the row's m, l
 * and o as they are, to the bit. */
#if defined(KD_SM90)
#include "kernels/attn_end.h"
#include "kernels/attn_set.h"
#include "kernels/attn_tile.h"
#include "kernels/hw/half2.h"
#include "kernels/hw/wgmma.h"

enum {
    HD = ATTN_SET,
    CONSUMERS = AWG_PAIRS / 16,   /* warps */
    BLOCKS = HD / 64,             /* of 64 dimensions: rows of 128 bytes */
    BLOCK_BYTES = AP_POS * 128,   /* of K, V, or q of a warpgroup */
    SLOT_BYTES = BLOCKS * BLOCK_BYTES,
    SLOTS = AWG_SLOTS(HD),
    FEEDERS = 4,                  /* warps, each with a tile under way */
    Q_SHARED = AWG_Q_SHARED(HD),
    Q = SLOTS * SLOT_BYTES,       /* in shared memory */
    BARS = Q + (Q_SHARED ? 2 * SLOT_BYTES : 0),
};
_Static_assert(BARS + AWG_BARS == AWG_SHARED_BYTES(HD), "what a launch asks for");

KD_FN wg_bar *bar_full(uint32_t at) { return KD_SHARED_AT(uint64_t, BARS) + at; }
KD_FN wg_bar *bar_empty(uint32_t at) { return KD_SHARED_AT(uint64_t, BARS) + SLOTS + at; }
KD_FN wg_bar *bar_q(uint32_t group) { return KD_SHARED_AT(uint64_t, BARS) + 2 * SLOTS + group; }
KD_FN KD_SHARED uint8_t *slot_at(uint32_t at) { return KD_SHARED_AT(uint8_t, at * SLOT_BYTES); }
KD_FN uint32_t tiles_of(const struct ap_run *r) { return kd_div_up(r->end - r->lo / AP_POS * AP_POS, AP_POS); }

/* Where dimension 8 c of row r lies in a slot, or in a warpgroup's q. */
KD_FN uint32_t piece_at(uint32_t r, uint32_t c) { return c / 8 * BLOCK_BYTES + r * 128 + (c % 8 ^ r % 8) * 16; }

/* ---- K and V ---- */

/* A tile of K or V from p0 on, WHOLE or with zeros from `end` on. */
KD_FN void fetch(const bool F16, const bool WHOLE, struct kv_head h, uint32_t p0, uint32_t end, KD_SHARED uint8_t *to)
{
    enum { LANES = HD / 8, ROWS = KD_WARP / LANES }; /* of a row; at a time */
    uint32_t c = kd_lane() % LANES, first = kd_lane() / LANES;
    KD_NO_UNROLL
    for (uint32_t r0 = 0; r0 < AP_POS; r0 += 8 * ROWS) {
        KD_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t row = r0 | ROWS * k | first, at = WHOLE ? p0 + row : kd_min_u32(p0 + row, end - 1);
            bool on = WHOLE || p0 + row < end;
            KD_SHARED uint8_t *s = to + piece_at(row, c);
            if (F16) {
                kd_copy16(s, KD_PTR(const uint8_t, h.codes + ((uint64_t)at * HD + 8 * c) * 2), on);
                continue;
            }
            float x[8];
            kv_load8((enum ka_kv)h.kv, h, at, HD, 8 * c, x);
            *(KD_SHARED kd_u32x4 *)s = on ? (kd_u32x4){ h2_from(x[0], x[1]), h2_from(x[2], x[3]), h2_from(x[4], x[5]), h2_from(x[6], x[7]) }
                                          : (kd_u32x4){ 0, 0, 0, 0 };
        }
    }
}

/* Tiles come in turn, K and V, by a feeder each; i: the run's first one of all that this work-group has. */
KD_FN void feed(const bool F16, const struct ap_run *r, uint32_t i)
{
    uint32_t end = i + 2 * tiles_of(r), first = r->lo / AP_POS * AP_POS, me = kd_warp() - CONSUMERS;
    for (uint32_t t = i + (me + FEEDERS - i % FEEDERS) % FEEDERS; t < end; t += FEEDERS) {
        uint32_t p0 = first + (t - i) / 2 * AP_POS;
        struct kv_head h = (t - i) % 2 ? r->v : r->k;
        bar_wait(bar_empty(t % SLOTS), (t / SLOTS & 1) ^ 1);
        if (F16 && p0 + AP_POS <= r->end)
            fetch(F16, true, h, p0, r->end, slot_at(t % SLOTS));
        else
            fetch(F16, false, h, p0, r->end, slot_at(t % SLOTS));
        kd_copy_commit();
        kd_copy_wait_0();
        async_fence_shared();
        kd_warp_sync();
        if (kd_lane() == 0)
            bar_arrive(bar_full(t % SLOTS));
    }
}

/* ---- rows ---- */

/* A lane has two pairs of its warp's 16: lane / 4 and 8 more. */
struct rows {
    uint32_t row[2], head[2], pos[2], lo[2];
    bool own[2];
    float m[2], l[2];
};

KD_FN void rows_of(const kl_attn *a, const struct ap_run *r, struct rows *x)
{
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t pair = kd_warp() * 16 + kd_lane() / 4 + 8 * h, row = r->tile0 + pair / r->group;
        x->own[h] = row >= r->row0 && row < r->row1;
        x->row[h] = kd_min_u32(kd_max_u32(row, r->row0), r->row1 - 1);
        x->head[h] = r->kvh * r->group + pair % r->group;
        x->pos[h] = kd_row(a->step, x->row[h])->pos;
        x->lo[h] = ap_first(a, x->pos[h]);
        x->m[h] = NEG_INF;
        x->l[h] = 0.0f;
    }
}

/* Two neighbouring dimensions of the lane's pair h. */
KD_FN uint32_t load_q(const kl_attn *a, const struct rows *x, uint32_t h, uint32_t d)
{
    kd_f32x2 v = { 0.0f, 0.0f };
    if (x->own[h])
        v = *KD_PTR(const kd_f32x2, a->q + ((uint64_t)x->row[h] * a->ldq + (uint64_t)x->head[h] * a->q_hs + d) * 4);
    return h2_from(v[0], v[1]);
}

/* q as the instructions take it: words 4 s .. 4 s + 3 are step s of 16 dimensions. */
KD_FN void q_to_registers(const kl_attn *a, const struct rows *x, uint32_t *q)
{
    KD_UNROLL
    for (uint32_t i = 0; i < HD / 4; i++)
        q[i] = load_q(a, x, i % 2, i / 4 * 16 + i / 2 % 2 * 8 + kd_lane() % 4 * 2);
}

KD_FN KD_SHARED uint8_t *own_q(void) { return KD_SHARED_AT(uint8_t, Q + kd_warp() / 4 * SLOT_BYTES); }

/* All warps of the warpgroup are here. */
KD_FN void meet(uint32_t *phase)
{
    kd_warp_sync();
    if (kd_lane() == 0)
        bar_arrive(bar_q(kd_warp() / 4));
    bar_wait(bar_q(kd_warp() / 4), *phase);
    *phase ^= 1;
}

KD_FN void q_to_shared(const kl_attn *a, const struct rows *x, uint32_t *phase)
{
    meet(phase); /* nobody reads the last run's */
    KD_UNROLL
    for (uint32_t c = 0; c < HD / 8; c++)
        KD_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t r = kd_warp() % 4 * 16 + kd_lane() / 4 + 8 * h;
            *(KD_SHARED uint32_t *)(own_q() + piece_at(r, c) + kd_lane() % 4 * 4) = load_q(a, x, h, 8 * c + kd_lane() % 4 * 2);
        }
    async_fence_shared();
    meet(phase);
}

/* s[4 j + 2 h + c] is of position 8 j + lane % 4 * 2 + c of the tile. */
KD_FN void mask(const struct rows *x, uint32_t p0, float *s)
{
    KD_UNROLL
    for (uint32_t i = 0; i < AP_POS / 2; i++) {
        uint32_t p = p0 + i / 4 * 8 + kd_lane() % 4 * 2 + i % 2, h = i / 2 % 2;
        s[i] = p <= x->pos[h] && p >= x->lo[h] ? s[i] : NEG_INF;
    }
}

/* Scores to probabilities. by: the scale, in base 2. */
KD_FN void softmax(float by, struct rows *x, float *s, float *decay)
{
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        float top[4], sum = 0.0f;
        KD_UNROLL
        for (uint32_t i = 0; i < AP_POS / 4; i++) {
            float v = s[i / 2 * 4 + 2 * h + i % 2];
            top[i % 4] = i < 4 ? v : __builtin_fmaxf(v, top[i % 4]);
        }
        float all = kd_acc_max(__builtin_fmaxf(__builtin_fmaxf(top[0], top[1]), __builtin_fmaxf(top[2], top[3])));
        float now = kd_max(all * by, x->m[h]), off = now == NEG_INF ? 0.0f : now; /* nothing seen yet */
        decay[h] = kd_exp2(x->m[h] - off);
        x->m[h] = now;
        KD_UNROLL
        for (uint32_t i = 0; i < AP_POS / 4; i++) {
            float *v = &s[i / 2 * 4 + 2 * h + i % 2];
            *v = kd_exp2(k_fma(*v, by, -off));
            sum += *v;
        }
        x->l[h] = k_fma(x->l[h], decay[h], sum);
    }
}

KD_FN void probabilities(const float *s, uint32_t *p)
{
    KD_UNROLL
    for (uint32_t i = 0; i < AP_POS / 4; i++)
        p[i] = h2_from(s[2 * i], s[2 * i + 1]);
}

/* Descriptors of the tile in slot i, as it is read for scores and for values. */
KD_FN uint64_t k_tile(uint32_t i) { return wg_tile(slot_at(0)) + wg_uniform(i % SLOTS * (SLOT_BYTES >> 4)); }
KD_FN uint64_t v_tile(uint32_t i)
{
    return wg_tile_across(slot_at(0), BLOCK_BYTES) + wg_uniform(i % SLOTS * (SLOT_BYTES >> 4));
}

/* q: unless it is in shared memory */
KD_FN void scores(const uint32_t *q, uint64_t k, float *s)
{
    KD_UNROLL
    for (uint32_t b = 0; b < BLOCKS; b++)
        if (Q_SHARED)
            wg_part_half_64(s, wg_tile(own_q() + b * BLOCK_BYTES), k + b * (BLOCK_BYTES >> 4), b);
        else
            wg_part_regs_64(s, q + 16 * b, k + b * (BLOCK_BYTES >> 4), b);
    wg_end();
}

KD_FN void values(const uint32_t *p, uint64_t v, float *o)
{
    if (HD == 64)
        wg_part_across_64(o, p, v);
    else if (HD == 128)
        wg_part_across_128(o, p, v);
    else
        wg_part_across_256(o, p, v);
    wg_end();
}

KD_FN void write_rows(const kl_attn *a, const struct rows *x, float *o)
{
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        float sum = kd_acc_sum(x->l[h]), by = 1.0f;
        if (!x->own[h])
            continue;
        if (a->sinks) {
            float sink = KD_PTR(const float, a->sinks)[x->head[h]] * LOG2E, both = kd_max(x->m[h], sink);
            by = kd_exp2(x->m[h] - both);
            sum = sum * by + kd_exp2(sink - both);
        }
        by /= sum;
        KD_GLOBAL float *y = KD_PTR(float, a->y) + ((uint64_t)x->row[h] * a->n_head + x->head[h]) * HD;
        KD_GLOBAL const float *gate = KD_PTR(const float, a->gate) + (uint64_t)x->row[h] * a->ldq + (uint64_t)x->head[h] * a->q_hs;
        KD_UNROLL
        for (uint32_t j = 0; j < HD / 8; j++) {
            uint32_t d = 8 * j + kd_lane() % 4 * 2;
            kd_f32x2 v = { o[4 * j + 2 * h] * by, o[4 * j + 2 * h + 1] * by };
            if (a->gate) {
                v[0] *= k_sigmoid(gate[d]);
                v[1] *= k_sigmoid(gate[d + 1]);
            }
            *(KD_GLOBAL kd_f32x2 *)(y + d) = v;
        }
    }
}

/* ---- a run ---- */

KD_FN void wait_full(uint32_t i) { bar_wait(bar_full(i % SLOTS), i / SLOTS & 1); }
KD_FN void give_back(uint32_t i)
{
    if (kd_lane() == 0)
        bar_arrive(bar_empty(i % SLOTS));
}

/* i: the run's first tile of all that come through the ring. */
KD_FN void attend(const kl_attn *a, const struct ap_run *r, uint32_t i, uint32_t *phase)
{
    struct rows x;
    uint32_t q[HD / 4], p[AP_POS / 4], p0 = r->lo / AP_POS * AP_POS;
    float s[AP_POS / 2] = { 0 }, o[HD / 2] = { 0 }, decay[2];
    rows_of(a, r, &x);
    if (Q_SHARED)
        q_to_shared(a, &x, phase);
    else
        q_to_registers(a, &x, q);
    /* seen by all rows of the run: no masks there */
    uint32_t all_from = ap_first(a, kd_row(a->step, r->row1 - 1)->pos), all_to = kd_row(a->step, r->row0)->pos;
    float by = a->scale * LOG2E;
    wait_full(i);
    wg_begin();
    scores(q, k_tile(i), s);
    wg_wait_0(s, AP_POS);
    give_back(i);
    mask(&x, p0, s);
    softmax(by, &x, s, decay);
    probabilities(s, p);
    p0 += AP_POS;
    wait_full(p0 < r->end ? i + 2 : i + 1);
    KD_NO_UNROLL
    for (; p0 < r->end; i += 2) {
        uint64_t k = k_tile(i + 2), v = v_tile(i + 1);
        wait_full(i + 1);
        wg_begin();
        scores(q, k, s);
        values(p, v, o);
        wg_wait_1_64(s);
        give_back(i + 2);
        if (p0 < all_from || p0 + AP_POS - 1 > all_to)
            mask(&x, p0, s);
        softmax(by, &x, s, decay);
        p0 += AP_POS;
        wait_full(p0 < r->end ? i + 4 : i + 3); /* here, so that ptxas keeps the softmax before the next wait */
        wg_wait_0(o, HD);
        give_back(i + 1);
        if (wg_any(decay[0] != 1.0f || decay[1] != 1.0f))
            KD_UNROLL
            for (uint32_t j = 0; j < HD / 8; j++)
                KD_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    o[4 * j + c] *= decay[c / 2];
        probabilities(s, p);
    }
    wait_full(i + 1);
    wg_begin();
    values(p, v_tile(i + 1), o);
    wg_wait_0(o, HD);
    give_back(i + 1);
    write_rows(a, &x, o);
}

/* All items of this work-group, a tile of rows of a kv head each: the longest first, and there and back again, so that all work-groups
 * have about as much to do. */
KD_FN void all_items(const kl_attn *a, const bool FEEDS)
{
    uint32_t group = a->n_head / a->n_kv, n_rows = kd_step_rows(a->step, ROWS_STEP);
    uint32_t step = AWG_PAIRS / group, tiles = kd_div_up(n_rows, step), items = tiles * a->n_kv;
    uint32_t i = 0, phase = 0; /* i: tiles of K and V so far */
    KD_NO_UNROLL
    for (uint32_t first = 0, back = 0; first < items; first += kd_groups_x(), back ^= 1) {
        uint32_t item = first + (back ? kd_groups_x() - 1 - kd_group_x() : kd_group_x());
        if (item >= items)
            continue;
        struct ap_run r = { .group = group, .kvh = item % a->n_kv, .tile0 = (tiles - 1 - item / a->n_kv) * step };
        uint32_t end = kd_min_u32(r.tile0 + step, n_rows);
        KD_NO_UNROLL
        for (r.row0 = r.tile0; r.row0 < end; r.row0 = r.row1) {
            ap_next_run(a, &r, HD, end);
            if (!FEEDS)
                attend(a, &r, i, &phase);
            else if (a->kv_type == KA_KV_F16)
                feed(true, &r, i);
            else
                feed(false, &r, i);
            i += 2 * tiles_of(&r);
        }
    }
}

KD_FN void attn_main(const kl_attn *a)
{
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            bar_init(bar_full(i), 1);
            bar_init(bar_empty(i), CONSUMERS);
        }
        for (uint32_t i = 0; i < 2; i++)
            bar_init(bar_q(i), 4);
        bar_init_done();
    }
    kd_barrier();
    kd_wait_inputs();
    kd_let_next_start();
    if (kd_warp() >= CONSUMERS) {
        wg_registers_less(40);
        all_items(a, true);
    } else {
        wg_registers_more(232);
        all_items(a, false);
    }
}

#if ATTN_SET == 64
KD_KERNEL(k_attn_wgmma_h64, kl_attn) { attn_main(&a); }
#elif ATTN_SET == 128
KD_KERNEL(k_attn_wgmma_h128, kl_attn) { attn_main(&a); }
#else
KD_KERNEL(k_attn_wgmma_h256, kl_attn) { attn_main(&a); }
#endif
#else
typedef int attn_wgmma_needs_sm_90a;
#endif
