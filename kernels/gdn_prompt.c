/* kernels/gdn_prompt.c
 * Gated DeltaNet for prompts: heads of 128, convolutions of 4 taps. Four kernels, in this order:
 *   k_gdn_rows     which rows belong to each slot, in order
 *   k_gdn_inputs   all that does not depend on the state, for all rows at once: convolution, norms, gates, k . q
 *   k_gdn_scan     the state, row by row; it stays in registers
 *   k_gdn_norm     the gated norm
 * The scan adds up the same numbers in the same order wherever a prompt is cut into steps. */
#include "kernels/gdn.h"
#include "kernels/gdn_shared.h"

KD_FN KD_GLOBAL uint32_t *slot_list(const kl_gdn_prompt *a, uint32_t slot)
{
    return KD_PTR(uint32_t, a->list) + (uint64_t)slot * (1 + a->cap);
}

/* ---- rows of each slot ---- */

enum { ROWS_WARPS = 8 };

/* grid x: slots */
KD_KERNEL(k_gdn_rows, kl_gdn_prompt)
{
    uint32_t slot = kd_group_x(), w = kd_warp(), lane = kd_lane(), count = 0;
    KD_SHARED uint32_t *found = KD_SHARED_AT(uint32_t, 0);
    KD_GLOBAL uint32_t *list = slot_list(&a, slot);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a.step, ROWS_STEP), r = kd_tid();
    uint32_t next = r < n_rows && kd_row(a.step, r)->slot == slot;
    for (; r - kd_tid() < n_rows; r += ROWS_WARPS * KD_WARP) {
        uint32_t own = next, mask = own << lane, ahead = r + ROWS_WARPS * KD_WARP;
        next = ahead < n_rows && kd_row(a.step, ahead)->slot == slot;
        KD_UNROLL
        for (uint32_t m = 16; m; m >>= 1)
            mask |= kd_shfl_xor_u32(mask, m);
        kd_barrier();
        if (lane == 0)
            found[w] = (uint32_t)kd_popcount(mask);
        kd_barrier();
        uint32_t at = count + (uint32_t)kd_popcount(mask & ((1u << lane) - 1));
        for (uint32_t i = 0; i < ROWS_WARPS; i++) {
            at += i < w ? found[i] : 0;
            count += found[i];
        }
        if (own) {
            list[1 + at] = r;
            KD_PTR(uint32_t, a.index)[r] = at;
        }
    }
    if (kd_tid() == 0)
        list[0] = count;
}

/* ---- what does not depend on the state ---- */

/* Where an input of the convolution lies, in 32 bits: a row of qkv, or an entry of a slot's ring, or nowhere. */
#define FROM_RING 0x80000000u
#define FROM_NOWHERE 0xffffffffu

KD_FN uint32_t input_place(const kl_gdn_prompt *a, uint32_t r, uint32_t back)
{
    KD_GLOBAL const ka_row *row = kd_row(a->step, r);
    uint32_t at = KD_PTR(const uint32_t, a->index)[r];
    if (back > row->pos)
        return FROM_NOWHERE;
    return back <= at ? slot_list(a, row->slot)[1 + at - back]
                      : FROM_RING | row->slot * GDN_TAPS | (row->pos - back) % GDN_TAPS;
}

KD_FN kd_f32x4 input_load(const kl_gdn_prompt *a, uint32_t place, uint32_t ch)
{
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM), entry = place & ~FROM_RING;
    if (place == FROM_NOWHERE)
        return (kd_f32x4){ 0 };
    KD_GLOBAL const float *p = KD_PTR(const float, a->qkv) + (uint64_t)place * n;
    if (place & FROM_RING)
        p = gdn_slot(a->conv, a->conv_slot_bytes, entry / GDN_TAPS) + (uint64_t)(entry % GDN_TAPS) * n;
    return *(KD_GLOBAL const kd_f32x4 *)(p + ch);
}

/* The convolved channels ch .. ch + 3 of a row; lanes first .. first + 3 hold its places. */
KD_FN kd_f32x4 row_conv(const kl_gdn_prompt *a, uint32_t place, uint32_t first, uint32_t ch, const kd_f32x4 taps[4])
{
    kd_f32x4 x[GDN_TAPS], c;
    KD_UNROLL
    for (uint32_t b = 0; b < GDN_TAPS; b++)
        x[b] = input_load(a, kd_shfl_u32(place, first + b), ch);
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        c[i] = gdn_conv(taps[i], x[3][i], x[2][i], x[1][i], x[0][i]);
    return c;
}

enum { WARP_ROWS = GDN_INPUT_ROWS / 8 };

/* The q-head and the k-head hk of up to WARP_ROWS rows. */
KD_FN void inputs_qk(const kl_gdn_prompt *a, uint32_t hk, uint32_t r0, uint32_t n_rows, uint32_t place,
                     const kd_f32x4 q_taps[4], const kd_f32x4 k_taps[4])
{
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM), chq = hk * GDN_DIM + 4 * kd_lane();
    uint32_t chk = chq + a->n_k * GDN_DIM;
    for (uint32_t i = 0; i < WARP_ROWS && r0 + i < n_rows; i++) {
        kd_f32x4 q = row_conv(a, place, i * GDN_TAPS, chq, q_taps);
        kd_f32x4 k = row_conv(a, place, i * GDN_TAPS, chk, k_taps);
        q *= gdn_inv_norm(q, a->eps) * GDN_INV_SQRT_DIM;
        k *= gdn_inv_norm(k, a->eps);
        float kq = kd_warp_sum(gdn_dot4(k, q, 0.0f));
        KD_GLOBAL float *c = KD_PTR(float, a->c) + (uint64_t)(r0 + i) * n;
        *(KD_GLOBAL kd_f32x4 *)(c + chq) = q;
        *(KD_GLOBAL kd_f32x4 *)(c + chk) = k;
        if (kd_lane() == 0)
            KD_PTR(float, a->kq)[(uint64_t)(r0 + i) * a->n_k + hk] = kq;
    }
}

/* The v-head h and its gates: lane i computes these for row i % WARP_ROWS. v is multiplied by beta, so is a decay. */
KD_FN void inputs_v(const kl_gdn_prompt *a, uint32_t h, uint32_t r0, uint32_t n_rows, uint32_t place,
                    const kd_f32x4 taps[4])
{
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM), ch = (2 * a->n_k + h) * GDN_DIM + 4 * kd_lane();
    uint32_t r = kd_min_u32(r0 + kd_lane() % WARP_ROWS, n_rows - 1);
    uint64_t ab = (uint64_t)r * a->ab_ld + gdn_ab_at(a->ab_group, h);
    float beta = k_sigmoid(KD_PTR(const float, a->beta)[ab]);
    float decay = gdn_decay(KD_PTR(const float, a->a)[h], KD_PTR(const float, a->alpha)[ab],
                            KD_PTR(const float, a->dt)[h]);
    if (kd_lane() < WARP_ROWS && r0 + kd_lane() < n_rows)
        KD_PTR(kd_f32x2, a->gates)[(uint64_t)r * a->n_v + h] = (kd_f32x2){ decay, beta * decay };
    for (uint32_t i = 0; i < WARP_ROWS && r0 + i < n_rows; i++) {
        kd_f32x4 v = row_conv(a, place, i * GDN_TAPS, ch, taps) * kd_shfl_f32(beta, i);
        *(KD_GLOBAL kd_f32x4 *)(KD_PTR(float, a->c) + (uint64_t)(r0 + i) * n + ch) = v;
    }
}

KD_FN void load_taps(kd_f32x4 w[4], gpu_va conv_w, uint32_t ch)
{
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        w[i] = KD_PTR(const kd_f32x4, conv_w)[ch + i];
}

/* grid x: rows by GDN_INPUT_ROWS, y: n_k pairs of a q-head and a k-head, then n_v v-heads */
KD_KERNEL(k_gdn_inputs, kl_gdn_prompt)
{
    uint32_t y = kd_group_y(), lane = kd_lane(), r0 = kd_group_x() * GDN_INPUT_ROWS + kd_warp() * WARP_ROWS;
    uint32_t head = y < a.n_k ? y : a.n_k + y;
    kd_f32x4 taps[4], k_taps[4];
    load_taps(taps, a.conv_w, head * GDN_DIM + 4 * lane);
    load_taps(k_taps, a.conv_w, (y < a.n_k ? a.n_k + y : head) * GDN_DIM + 4 * lane);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a.step, ROWS_STEP), r = r0 + lane / GDN_TAPS % WARP_ROWS;
    if (r0 >= n_rows)
        return;
    uint32_t place = r < n_rows ? input_place(&a, r, lane % GDN_TAPS) : FROM_NOWHERE;
    if (y < a.n_k)
        inputs_qk(&a, y, r0, n_rows, place, taps, k_taps);
    else
        inputs_v(&a, y - a.n_k, r0, n_rows, place, taps);
}

/* ---- the scan ----
 * A work-group has four warps and 16 value rows of a v-head; its warps do not meet but for handing over tiles of TILE
 * rows of q, k, v and gates through shared memory. A warp has four value rows: 16 key lanes of eight keys each, times
 * two pairs of value rows. Of its pair a key lane with an odd number takes the second value row as s[0], an even one
 * the first: so a pair's sums are exchanged by s[1] alone, and need no choice. */

enum { TILE = 8, HALF = TILE / 2, SCAN_THREADS = 128 };

struct scan_tile {
    float q[TILE][GDN_DIM], k[TILE][GDN_DIM], v[TILE][GDN_SCAN_VALUES];
    float gates[TILE][4]; /* decay, beta decay, k . q */
};
struct scan_shared {
    struct scan_tile t[2];
    float o[2][TILE][GDN_SCAN_VALUES];
};
_Static_assert(sizeof(struct scan_shared) == GDN_SCAN_SHARED, "as the dispatch knows it");

/* A work-item's part of a tile on its way: two rows of q and k, one value of v, and gates (work-items below TILE). */
struct scan_next {
    uint32_t qk_row[2], v_row, gate_row;
    kd_f32x4 q[2], k[2];
    float v, kq;
    kd_f32x2 gates;
};

struct scan_state {
    kd_f32x4 s[2][2]; /* [value row][keys 4 kl.., keys 64 + 4 kl..] */
};

/* Rows past the last stand for the last. */
KD_FN uint32_t row_at(KD_GLOBAL const uint32_t *list, uint32_t i, uint32_t n)
{
    return list[1 + kd_min_u32(i, n - 1)];
}

KD_FN void next_rows(struct scan_next *x, KD_GLOBAL const uint32_t *list, uint32_t i, uint32_t n)
{
    x->qk_row[0] = row_at(list, i + kd_warp(), n);
    x->qk_row[1] = row_at(list, i + HALF + kd_warp(), n);
    x->v_row = row_at(list, i + kd_tid() / GDN_SCAN_VALUES, n);
    x->gate_row = row_at(list, i + kd_tid() % TILE, n);
}

KD_FN void next_load(struct scan_next *x, const kl_gdn_prompt *a, uint32_t h, uint32_t hk, uint32_t j0)
{
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM);
    KD_GLOBAL const float *c = KD_PTR(const float, a->c);
    KD_UNROLL
    for (uint32_t p = 0; p < 2; p++) {
        KD_GLOBAL const float *row = c + (uint64_t)x->qk_row[p] * n + hk * GDN_DIM + 4 * kd_lane();
        x->q[p] = *(KD_GLOBAL const kd_f32x4 *)row;
        x->k[p] = *(KD_GLOBAL const kd_f32x4 *)(row + a->n_k * GDN_DIM);
    }
    x->v = c[(uint64_t)x->v_row * n + (2 * a->n_k + h) * GDN_DIM + j0 + kd_tid() % GDN_SCAN_VALUES];
    if (kd_tid() < TILE) {
        x->gates = KD_PTR(const kd_f32x2, a->gates)[(uint64_t)x->gate_row * a->n_v + h];
        x->kq = KD_PTR(const float, a->kq)[(uint64_t)x->gate_row * a->n_k + hk];
    }
}

KD_FN void next_store(const struct scan_next *x, KD_SHARED struct scan_tile *t)
{
    KD_UNROLL
    for (uint32_t p = 0; p < 2; p++) {
        ((KD_SHARED kd_f32x4 *)t->q[p * HALF + kd_warp()])[kd_lane()] = x->q[p];
        ((KD_SHARED kd_f32x4 *)t->k[p * HALF + kd_warp()])[kd_lane()] = x->k[p];
    }
    t->v[kd_tid() / GDN_SCAN_VALUES][kd_tid() % GDN_SCAN_VALUES] = x->v;
    if (kd_tid() < TILE)
        *(KD_SHARED kd_f32x4 *)t->gates[kd_tid()] = (kd_f32x4){ x->gates[0], x->gates[1], x->kq, 0.0f };
}

/* The lane's value row s among those of the work-group. */
KD_FN uint32_t scan_value(uint32_t s)
{
    return kd_warp() * 4 + kd_lane() / 16 * 2 + (s ^ (kd_lane() & 1));
}

/* A row as a lane needs it, loaded one row ahead. */
struct scan_row {
    kd_f32x4 k0, k1, q0, q1;
    kd_f32x2 gates;
    float v; /* of value row s[0] */
};

KD_FN struct scan_row row_load(KD_SHARED const struct scan_tile *t, uint32_t i)
{
    uint32_t kl = kd_lane() % 16;
    KD_SHARED const kd_f32x4 *k = (KD_SHARED const kd_f32x4 *)t->k[i], *q = (KD_SHARED const kd_f32x4 *)t->q[i];
    return (struct scan_row){ .k0 = k[kl], .k1 = k[16 + kl], .gates = *(KD_SHARED const kd_f32x2 *)t->gates[i],
                              .v = t->v[i][scan_value(0)], .q0 = q[kl], .q1 = q[16 + kl] };
}

/* What a row adds to the state, and for o: e of value row s[0], and the lane's part of S q, S being the old state. */
KD_FN float scan_row(struct scan_state *p, const struct scan_row *x, float sq[2])
{
    float decay = x->gates[0], seen = gdn_dot4(p->s[0][1], x->k1, gdn_dot4(p->s[0][0], x->k0, 0.0f)), e[2];
    float give = gdn_dot4(p->s[1][1], x->k1, gdn_dot4(p->s[1][0], x->k0, 0.0f));
    seen += kd_shfl_xor_f32(give, 1);
    KD_UNROLL
    for (uint32_t m = 2; m < 16; m *= 2)
        seen += kd_shfl_xor_f32(seen, m);
    e[0] = k_fma(-x->gates[1], seen, x->v);
    e[1] = kd_shfl_xor_f32(e[0], 1);
    KD_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        sq[s] = gdn_dot4(p->s[s][1], x->q1, gdn_dot4(p->s[s][0], x->q0, 0.0f));
        p->s[s][0] = gdn_fma4(x->k0, e[s], p->s[s][0] * decay);
        p->s[s][1] = gdn_fma4(x->k1, e[s], p->s[s][1] * decay);
    }
    return e[0];
}

/* o = decay (S q) + e (k . q) of HALF rows from i on: parts are added over the key lanes, 1, 2, 4 and 8 apart; a lane
 * ends with row (bit 1, bit 2) of value row s[0]. */
KD_FN void scan_out(float sq[HALF][2], const float e[HALF], KD_SHARED const struct scan_tile *t, uint32_t i,
                    KD_SHARED float (*out)[GDN_SCAN_VALUES])
{
    uint32_t lane = kd_lane();
    int b1 = lane & 2, b2 = lane & 4;
    float r[HALF];
    KD_UNROLL
    for (uint32_t u = 0; u < HALF; u++)
        r[u] = sq[u][0] + kd_shfl_xor_f32(sq[u][1], 1);
    float x = (b1 ? r[2] : r[0]) + kd_shfl_xor_f32(b1 ? r[0] : r[2], 2);
    float y = (b1 ? r[3] : r[1]) + kd_shfl_xor_f32(b1 ? r[1] : r[3], 2);
    float z = (b2 ? y : x) + kd_shfl_xor_f32(b2 ? x : y, 4);
    z += kd_shfl_xor_f32(z, 8);
    float e0 = e[0], e1 = e[1], e2 = e[2], e3 = e[3], ex = b1 ? e2 : e0, ey = b1 ? e3 : e1; /* values, not places */
    i += (lane & 2) + (lane >> 2 & 1);
    if ((lane & 8) == 0)
        out[i][scan_value(0)] = k_fma(b2 ? ey : ex, t->gates[i][2], t->gates[i][0] * z);
}

/* The first n rows of a tile; of those behind them `out` gets rubbish. */
KD_FN void scan_rows(struct scan_state *p, KD_SHARED const struct scan_tile *t,
                     KD_SHARED float (*out)[GDN_SCAN_VALUES], uint32_t n)
{
    struct scan_row next = row_load(t, 0);
#pragma GCC unroll 1
    for (uint32_t i = 0; i < n; i += HALF) {
        float sq[HALF][2] = { 0 }, e[HALF] = { 0 };
        KD_UNROLL
        for (uint32_t u = 0; u < HALF; u++) {
            struct scan_row x = next;
            next = row_load(t, (i + u + 1) % TILE);
            if (n == TILE || i + u < n)
                e[u] = scan_row(p, &x, sq[u]);
        }
        scan_out(sq, e, t, i, out);
    }
}

/* The last inputs of a slot, into its ring: v's channels by the v-head's first work-group, and q's and k's by the
 * first v-head of their k-head. Nobody reads rings in this kernel. */
KD_FN void store_ring(const kl_gdn_prompt *a, KD_GLOBAL const uint32_t *list, uint32_t n, uint32_t slot, uint32_t h,
                      uint32_t hk)
{
    uint32_t channels = gdn_channels(a->n_k, a->n_v, GDN_DIM), ch = kd_tid();
    KD_GLOBAL float *ring = gdn_slot(a->conv, a->conv_slot_bytes, slot);
    int first = gdn_is_first(a->heads, a->n_k, a->n_v, h);
    for (uint32_t back = 0; back < GDN_TAPS && back < n; back++) {
        uint32_t r = list[n - back];
        uint64_t to = (uint64_t)(kd_row(a->step, r)->pos % GDN_TAPS) * channels + ch;
        KD_GLOBAL const float *x = KD_PTR(const float, a->qkv) + (uint64_t)r * channels + ch;
        ring[to + (2 * a->n_k + h) * GDN_DIM] = x[(2 * a->n_k + h) * GDN_DIM];
        if (first) {
            ring[to + hk * GDN_DIM] = x[hk * GDN_DIM];
            ring[to + (a->n_k + hk) * GDN_DIM] = x[(a->n_k + hk) * GDN_DIM];
        }
    }
}

/* grid x: v-heads, each GDN_DIM / GDN_SCAN_VALUES work-groups, y: slots. Leaves o in y. */
KD_KERNEL(k_gdn_scan, kl_gdn_prompt)
{
    enum { PARTS = GDN_DIM / GDN_SCAN_VALUES };
    uint32_t h = kd_group_x() / PARTS, j0 = kd_group_x() % PARTS * GDN_SCAN_VALUES, slot = kd_group_y();
    uint32_t hk = gdn_k_head(a.heads, a.n_k, a.n_v, h), kl = kd_lane() % 16;
    KD_SHARED struct scan_shared *sh = KD_SHARED_AT(struct scan_shared, 0);
    KD_GLOBAL const uint32_t *list = slot_list(&a, slot);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n = list[0];
    if (n == 0)
        return;
    KD_GLOBAL float *S = gdn_slot(a.state, a.state_slot_bytes, slot) + (h * GDN_DIM + j0) * GDN_DIM + 4 * kl;
    struct scan_state p = { 0 };
    struct scan_next x = { 0 };
    next_rows(&x, list, 0, n);
    next_load(&x, &a, h, hk, j0);
    if (kd_row(a.step, list[1])->pos != 0) {
        KD_UNROLL
        for (uint32_t s = 0; s < 2; s++) {
            p.s[s][0] = *(KD_GLOBAL const kd_f32x4 *)(S + scan_value(s) * GDN_DIM);
            p.s[s][1] = *(KD_GLOBAL const kd_f32x4 *)(S + scan_value(s) * GDN_DIM + 64);
        }
    }
    next_store(&x, &sh->t[0]);
    uint32_t o_row = x.v_row, mine = kd_tid() / GDN_SCAN_VALUES;
    next_rows(&x, list, TILE, n);
    kd_barrier();
    for (uint32_t i = 0, b = 0; i < n; i += TILE, b ^= 1) {
        uint32_t next_o_row = x.v_row;
        next_load(&x, &a, h, hk, j0); /* past the end: the last row once more, unused */
        next_rows(&x, list, i + 2 * TILE, n);
        if (i + TILE <= n)
            scan_rows(&p, &sh->t[b], sh->o[b], TILE);
        else
            scan_rows(&p, &sh->t[b], sh->o[b], n - i);
        next_store(&x, &sh->t[b ^ 1]);
        kd_barrier();
        if (i + mine < n)
            KD_PTR(float, a.y)[((uint64_t)o_row * a.n_v + h) * GDN_DIM + j0 + kd_tid() % GDN_SCAN_VALUES] =
                sh->o[b][mine][kd_tid() % GDN_SCAN_VALUES];
        o_row = next_o_row;
    }
    KD_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        *(KD_GLOBAL kd_f32x4 *)(S + scan_value(s) * GDN_DIM) = p.s[s][0];
        *(KD_GLOBAL kd_f32x4 *)(S + scan_value(s) * GDN_DIM + 64) = p.s[s][1];
    }
    if (j0 == 0)
        store_ring(&a, list, n, slot, h, hk);
}

/* ---- the gated norm ---- */

/* grid x: rows, y: v-heads by 32; a warp has four heads. */
KD_KERNEL(k_gdn_norm, kl_gdn_prompt)
{
    enum { HEADS = 4 };
    uint32_t r = kd_group_x(), h0 = (kd_group_y() * kd_n_warps() + kd_warp()) * HEADS, lane = kd_lane();
    kd_f32x4 w = KD_PTR(const kd_f32x4, a.norm)[lane], o[HEADS] = { 0 }, z[HEADS] = { 0 };
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, ROWS_STEP))
        return;
    uint64_t at = ((uint64_t)r * a.n_v + h0) * (GDN_DIM / 4) + lane;
    KD_UNROLL
    for (uint32_t i = 0; i < HEADS; i++) {
        if (h0 + i < a.n_v) {
            o[i] = KD_PTR(const kd_f32x4, a.y)[at + i * KD_WARP];
            z[i] = KD_PTR(const kd_f32x4, a.z)[at + i * KD_WARP];
        }
    }
    KD_UNROLL
    for (uint32_t i = 0; i < HEADS; i++) {
        float scale = 1.0f / kd_sqrt(kd_warp_sum(gdn_dot4(o[i], o[i], 0.0f)) / (float)GDN_DIM + a.eps);
        kd_f32x4 g = { k_silu(z[i][0]), k_silu(z[i][1]), k_silu(z[i][2]), k_silu(z[i][3]) };
        if (h0 + i < a.n_v)
            KD_PTR(kd_f32x4, a.y)[at + i * KD_WARP] = o[i] * scale * w * g;
    }
}
