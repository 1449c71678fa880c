/* kernels/gdn.c
 * Gated DeltaNet for a step of few rows: k_gdn_step_h128 does the whole command; k_gdn_conv and, after it, k_gdn_step
 * do it for every other shape and for any number of rows. A row's bits are the same whatever else is in the step.
 *
 * The convolution's ring of a slot has an entry for each of the last GDN_TAPS positions. An entry that a row
 * overwrites is the one input that this row no longer needs; earlier rows of the same step may still need it. */
#include "kernels/gdn.h"
#include "kernels/gdn_shared.h"

/* ---- any shape ---- */

/* A work-item owns a channel and takes the rows in order, so nobody else touches its part of the rings. */
KD_KERNEL(k_gdn_conv, kl_gdn)
{
    uint32_t n = gdn_channels(a.n_k, a.n_v, a.head_dim), ch = kd_group_x() * kd_group_size() + kd_tid();
    uint32_t taps = a.conv_kernel;
    kd_wait_inputs();
    kd_let_next_start();
    if (ch >= n)
        return;
    uint32_t n_rows = kd_step_rows(a.step, ROWS_STEP);
    KD_GLOBAL const float *w = KD_PTR(const float, a.conv_w) + (uint64_t)ch * taps;
    for (uint32_t r = 0; r < n_rows; r++) {
        uint32_t pos = kd_row(a.step, r)->pos;
        KD_GLOBAL float *ring = gdn_slot(a.conv, a.conv_slot_bytes, kd_row(a.step, r)->slot) + ch;
        uint64_t at = (uint64_t)r * n + ch;
        ring[(uint64_t)(pos % taps) * n] = KD_PTR(const float, a.qkv)[at];
        float s = 0.0f;
        for (uint32_t j = 0; j < taps; j++)
            if (pos + 1 + j >= taps) /* nothing before position 0 */
                s = k_fma(w[j], ring[(uint64_t)((pos + 1 + j - taps) % taps) * n], s);
        KD_PTR(float, a.c)[at] = k_silu(s);
    }
}

enum { ANY_DIM = GDN_ANY_DIM, ANY_THREADS = 256 };

/* One value row of the state, keys `lane` apart by 32: decayed, read by k, changed, read by q. Returns q's sum. */
KD_FN float any_value(KD_GLOBAL float *S, KD_SHARED const float *q, KD_SHARED const float *k, uint32_t dim, float v,
                      float decay, float beta, int empty)
{
    float s[ANY_DIM / KD_WARP], seen = 0.0f, out = 0.0f;
    KD_UNROLL
    for (uint32_t i = 0; i < ANY_DIM / KD_WARP; i++) {
        uint32_t d = i * KD_WARP + kd_lane();
        s[i] = d < dim && !empty ? S[d] * decay : 0.0f;
        seen = d < dim ? k_fma(s[i], k[d], seen) : seen;
    }
    float e = beta * (v - kd_warp_sum(seen));
    KD_UNROLL
    for (uint32_t i = 0; i < ANY_DIM / KD_WARP; i++) {
        uint32_t d = i * KD_WARP + kd_lane();
        if (d < dim) {
            s[i] = k_fma(k[d], e, s[i]);
            S[d] = s[i];
            out = k_fma(s[i], q[d], out);
        }
    }
    return kd_warp_sum(out);
}

/* grid x: v-heads, y: slots. Shared: q, k and o of ANY_DIM, and a float for each warp. */
KD_KERNEL(k_gdn_step, kl_gdn)
{
    uint32_t dim = a.head_dim, n = gdn_channels(a.n_k, a.n_v, dim), t = kd_tid();
    uint32_t h = kd_group_x(), hk = gdn_k_head(a.heads, a.n_k, a.n_v, h), slot = kd_group_y();
    KD_SHARED float *q = KD_SHARED_AT(float, 0), *k = q + ANY_DIM, *o = k + ANY_DIM, *part = o + ANY_DIM;
    float av = KD_PTR(const float, a.a)[h], dt = KD_PTR(const float, a.dt)[h];
    float inv = 1.0f / kd_sqrt((float)dim);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a.step, ROWS_STEP);
    KD_GLOBAL float *S = gdn_slot(a.state, a.state_slot_bytes, slot) + (uint64_t)h * dim * dim;
    for (uint32_t r = 0; r < n_rows; r++) {
        if (kd_row(a.step, r)->slot != slot)
            continue;
        KD_GLOBAL const float *c = KD_PTR(const float, a.c) + (uint64_t)r * n;
        float cq = t < dim ? c[hk * dim + t] : 0.0f, ck = t < dim ? c[(a.n_k + hk) * dim + t] : 0.0f;
        float nq = kd_sqrt(kd_group_sum(cq * cq, part) + a.eps), nk = kd_sqrt(kd_group_sum(ck * ck, part) + a.eps);
        if (t < dim) {
            q[t] = cq / nq;
            k[t] = ck / nk;
        }
        uint64_t ab = (uint64_t)r * a.ab_ld + gdn_ab_at(a.ab_group, h);
        float decay = gdn_decay(av, KD_PTR(const float, a.alpha)[ab], dt);
        float beta = k_sigmoid(KD_PTR(const float, a.beta)[ab]);
        int empty = kd_row(a.step, r)->pos == 0;
        kd_barrier();
        for (uint32_t j = kd_warp(); j < dim; j += ANY_THREADS / KD_WARP) {
            float v = c[(2 * a.n_k + h) * dim + j];
            float s = any_value(S + (uint64_t)j * dim, q, k, dim, v, decay, beta, empty);
            if (kd_lane() == 0)
                o[j] = s * inv;
        }
        kd_barrier();
        float x = t < dim ? o[t] : 0.0f, sum = kd_group_sum(x * x, part);
        if (t < dim) {
            uint64_t at = ((uint64_t)r * a.n_v + h) * dim + t;
            float scale = 1.0f / kd_sqrt(sum / (float)dim + a.eps), gate = k_silu(KD_PTR(const float, a.z)[at]);
            KD_PTR(float, a.y)[at] = x * scale * KD_PTR(const float, a.norm)[t] * gate;
        }
    }
}

/* ---- heads of 128 ----
 * A work-group of 8 warps owns a v-head of a slot: 64 KB of state in its registers. While the state is on its way,
 * warps 0 to 5 convolve q, k and v, two channels a lane, and warp 6 computes the gates. Then each warp takes 16 value
 * rows: its lanes are 16 key lanes, eight keys each, times two value rows. Warps 6 and 7 finish with the norm. */

enum { H_GATES = 6, H_NORM = 6, V = 8, BATCH = 4 };

struct head_state {
    kd_f32x4 s[V][2]; /* [value row][keys 4 kl.., keys 64 + 4 kl..] */
};

struct head_shared {
    float q[GDN_DIM], k[GDN_DIM], v[GDN_DIM], o[GDN_DIM]; /* q, k: not normed */
    float squares[4];                                     /* of halves of q, of k */
    float decay, beta, pad[2];
};
_Static_assert(sizeof(struct head_shared) == GDN_STEP_H128_SHARED, "as the dispatch knows it");

/* What a warp of each kind needs of a row. */
struct row_input {
    kd_f32x2 x;        /* warps of q, k, v: two channels; of the norm: two elements of z */
    float alpha, beta; /* warp of the gates */
};

KD_FN uint32_t head_element(void) { return kd_warp() % 2 * 64 + 2 * kd_lane(); }

KD_FN struct row_input row_load(const kl_gdn *a, uint32_t r, uint32_t h, uint32_t ch)
{
    struct row_input in = { .alpha = 0.0f };
    uint32_t w = kd_warp();
    KD_GLOBAL const float *x = KD_PTR(const float, a->qkv) + (uint64_t)r * gdn_channels(a->n_k, a->n_v, GDN_DIM) + ch;
    if (w >= H_NORM)
        x = KD_PTR(const float, a->z) + ((uint64_t)r * a->n_v + h) * GDN_DIM + head_element();
    in.x = *(KD_GLOBAL const kd_f32x2 *)x;
    if (w == H_GATES) {
        uint64_t ab = (uint64_t)r * a->ab_ld + gdn_ab_at(a->ab_group, h);
        in.alpha = KD_PTR(const float, a->alpha)[ab];
        in.beta = KD_PTR(const float, a->beta)[ab];
    }
    return in;
}

/* The first row of the slot from `from` on, n_rows: none. By a whole warp. */
KD_FN uint32_t row_of_slot(gpu_va step, uint32_t from, uint32_t n_rows, uint32_t slot)
{
    for (; from < n_rows; from += KD_WARP) {
        uint32_t i = from + kd_lane(), at = i < n_rows && kd_row(step, i)->slot == slot ? i : n_rows;
        KD_UNROLL
        for (uint32_t m = 1; m < KD_WARP; m *= 2)
            at = kd_min_u32(at, kd_shfl_xor_u32(at, m));
        if (at < n_rows)
            return at;
    }
    return n_rows;
}

/* The value row i of the lane, and its first key there. */
KD_FN uint32_t state_value(uint32_t i) { return kd_warp() * 2 * V + 2 * i + kd_lane() / 16; }
KD_FN uint32_t state_at(uint32_t i) { return state_value(i) * GDN_DIM + 4 * (kd_lane() % 16); }

KD_FN void state_load(struct head_state *p, KD_GLOBAL const float *S)
{
    KD_UNROLL
    for (uint32_t i = 0; i < V; i++) {
        p->s[i][0] = *(KD_GLOBAL const kd_f32x4 *)(S + state_at(i));
        p->s[i][1] = *(KD_GLOBAL const kd_f32x4 *)(S + state_at(i) + 64);
    }
}
KD_FN void state_store(const struct head_state *p, KD_GLOBAL float *S)
{
    KD_UNROLL
    for (uint32_t i = 0; i < V; i++) {
        *(KD_GLOBAL kd_f32x4 *)(S + state_at(i)) = p->s[i][0];
        *(KD_GLOBAL kd_f32x4 *)(S + state_at(i) + 64) = p->s[i][1];
    }
}

/* Two channels convolved; x[b]: inputs b positions back. Halves of q and k leave their sums of squares. */
KD_FN void head_conv(KD_SHARED struct head_shared *sh, const kd_f32x4 taps[2], const kd_f32x2 x[GDN_TAPS])
{
    uint32_t w = kd_warp();
    KD_SHARED float *to = w / 2 == 0 ? sh->q : w / 2 == 1 ? sh->k : sh->v;
    kd_f32x2 c;
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        c[i] = gdn_conv(taps[i], x[3][i], x[2][i], x[1][i], x[0][i]);
    *(KD_SHARED kd_f32x2 *)(to + head_element()) = c;
    if (w < 4) {
        float sum = kd_warp_sum(k_fma(c[1], c[1], c[0] * c[0]));
        if (kd_lane() == 0)
            sh->squares[w] = sum;
    }
}

/* Four values x[0..3] of each lane, added over 16 lanes 1, 2, 4 and 8 apart. At the first two distances a lane keeps
 * half of the values and gives the other half away; it ends with value 2 (bit 0) + (bit 1). */
KD_FN float sum_4x16(const float x[BATCH])
{
    int b0 = kd_lane() & 1, b1 = kd_lane() & 2;
    float y0 = (b0 ? x[2] : x[0]) + kd_shfl_xor_f32(b0 ? x[0] : x[2], 1);
    float y1 = (b0 ? x[3] : x[1]) + kd_shfl_xor_f32(b0 ? x[1] : x[3], 1);
    float z = (b1 ? y1 : y0) + kd_shfl_xor_f32(b1 ? y0 : y1, 2);
    z += kd_shfl_xor_f32(z, 4);
    return z + kd_shfl_xor_f32(z, 8);
}

/* One row: o of the warp's value rows, and the changed state. S k and S q are taken of the old state, q and k are
 * normed in the sums: o = decay (S q) + e (k . q). */
KD_FN void head_row(struct head_state *p, KD_SHARED struct head_shared *sh, float eps)
{
    uint32_t lane = kd_lane(), kl = lane % 16, mine = 2 * (lane & 1) + (lane / 2 & 1);
    KD_SHARED const kd_f32x4 *kp = (KD_SHARED const kd_f32x4 *)sh->k, *qp = (KD_SHARED const kd_f32x4 *)sh->q;
    kd_f32x4 k0 = kp[kl], k1 = kp[16 + kl], q0 = qp[kl], q1 = qp[16 + kl];
    float decay = sh->decay, kq = gdn_dot4(k1, q1, gdn_dot4(k0, q0, 0.0f));
    float q_inv = GDN_INV_SQRT_DIM / kd_sqrt(sh->squares[0] + sh->squares[1] + eps);
    float k_inv = 1.0f / kd_sqrt(sh->squares[2] + sh->squares[3] + eps);
    KD_UNROLL
    for (uint32_t m = 1; m < 16; m *= 2)
        kq += kd_shfl_xor_f32(kq, m);
    KD_UNROLL
    for (uint32_t b = 0; b < V; b += BATCH) {
        float sk[BATCH], sq[BATCH];
        KD_UNROLL
        for (uint32_t i = 0; i < BATCH; i++) {
            sk[i] = gdn_dot4(p->s[b + i][1], k1, gdn_dot4(p->s[b + i][0], k0, 0.0f));
            sq[i] = gdn_dot4(p->s[b + i][1], q1, gdn_dot4(p->s[b + i][0], q0, 0.0f));
        }
        float tk = sum_4x16(sk), tq = sum_4x16(sq);
        float e = sh->beta * k_fma(-decay * k_inv, tk, sh->v[state_value(b + mine)]) * k_inv;
        KD_UNROLL
        for (uint32_t i = 0; i < BATCH; i++) {
            float ei = kd_shfl_f32(e, (lane & 16) | (i & 1) << 1 | i >> 1);
            p->s[b + i][0] = gdn_fma4(k0, ei, p->s[b + i][0] * decay);
            p->s[b + i][1] = gdn_fma4(k1, ei, p->s[b + i][1] * decay);
        }
        if ((lane & 12) == 0)
            sh->o[state_value(b + mine)] = k_fma(e, kq, decay * tq) * q_inv;
    }
}

/* The state is asked for into the level-2 cache before the inputs are there, also where it may not be read yet. The slot may be
 * read too early here: the hint then goes astray, and the row is read again later. */
KD_FN void prefetch_state(const kl_gdn *a, uint32_t h, uint32_t r)
{
    uint32_t slot = 0;
    if (a->n_slots > 1)
        slot = kd_load_once4((KD_GLOBAL const uint32_t *)&kd_row(a->step, r)->slot);
    if (slot >= a->n_slots)
        return;
    KD_GLOBAL const float *S = gdn_slot(a->state, a->state_slot_bytes, slot) + (uint64_t)h * GDN_DIM * GDN_DIM;
    for (uint32_t i = 32 * kd_tid(); i < GDN_DIM * GDN_DIM; i += 32 * kd_group_size())
        kd_prefetch(S + i);
}

/* Rings of q's and k's channels are read by all v-heads of a k-head. In a step of several rows the last of these to
 * have read them writes the new entries. */
KD_FN void ring_store_late(const kl_gdn *a, uint32_t r0, uint32_t n_rows, uint32_t slot, uint32_t hk)
{
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM), share = a->n_v / a->n_k, old = 0;
    if (kd_lane() == 0)
        old = kd_arrive(KD_PTR(uint32_t, a->counters) + r0 * a->n_k + hk, share);
    if (kd_shfl_u32(old, 0) != share - 1)
        return;
    uint32_t ch = hk * GDN_DIM + 4 * kd_lane();
    KD_GLOBAL float *ring = gdn_slot(a->conv, a->conv_slot_bytes, slot) + ch;
    for (uint32_t r = r0; r < n_rows; r = row_of_slot(a->step, r + 1, n_rows, slot)) {
        KD_GLOBAL const float *x = KD_PTR(const float, a->qkv) + (uint64_t)r * n + ch;
        KD_GLOBAL float *to = ring + (uint64_t)(kd_row(a->step, r)->pos % GDN_TAPS) * n;
        *(KD_GLOBAL kd_f32x4 *)to = *(KD_GLOBAL const kd_f32x4 *)x;
        *(KD_GLOBAL kd_f32x4 *)(to + a->n_k * GDN_DIM) = *(KD_GLOBAL const kd_f32x4 *)(x + a->n_k * GDN_DIM);
    }
}

/* x[1..3]: the inputs before position pos, out of the ring's entries, 0 before position 0. */
KD_FN void ring_turn(kd_f32x2 x[GDN_TAPS], const kd_f32x2 entry[GDN_TAPS], uint32_t pos)
{
    KD_UNROLL
    for (uint32_t b = 1; b < GDN_TAPS; b++) {
        x[b] = (kd_f32x2){ 0 };
        KD_UNROLL
        for (uint32_t i = 0; i < GDN_TAPS; i++)
            x[b] = pos >= b && (pos - b) % GDN_TAPS == i ? entry[i] : x[b];
    }
}

/* grid x: v-heads, y: rows; the first row of each slot does all rows of it. counters (steps of several rows): u32
 * [rows, n_k] that are 0. */
KD_FN void head_step(const kl_gdn *a)
{
    uint32_t h = kd_group_x(), r0 = kd_group_y(), w = kd_warp(), at = head_element();
    uint32_t n = gdn_channels(a->n_k, a->n_v, GDN_DIM), hk = gdn_k_head(a->heads, a->n_k, a->n_v, h);
    uint32_t ch = (w / 2 == 0 ? hk : w / 2 == 1 ? a->n_k + hk : 2 * a->n_k + h) * GDN_DIM + at;
    KD_SHARED struct head_shared *sh = KD_SHARED_AT(struct head_shared, 0);
    kd_f32x4 taps[2] = { KD_PTR(const kd_f32x4, a->conv_w)[ch], KD_PTR(const kd_f32x4, a->conv_w)[ch + 1] };
    kd_f32x2 norm = *(KD_GLOBAL const kd_f32x2 *)(KD_PTR(const float, a->norm) + at), x[GDN_TAPS];
    float av = KD_PTR(const float, a->a)[h], dt = KD_PTR(const float, a->dt)[h];
    kd_ask_args(a, sizeof *a, KD_PTR(const void, a->step));
    if (a->early) {
        kd_see_inputs();
    } else {
        prefetch_state(a, h, r0);
        kd_wait_inputs();
        kd_let_next_start();
    }
    /* With one slot nothing of the step block is waited for before the loads leave. */
    uint32_t n_rows = kd_step_rows(a->step, ROWS_STEP), slot = kd_row(a->step, r0)->slot, pos = kd_row(a->step, r0)->pos;
    bool none = r0 > 0;
    if (a->n_slots == 1)
        slot = 0;
    else
        none = r0 >= n_rows || row_of_slot(a->step, 0, n_rows, slot) != r0;
    if (none) {
        if (a->early)
            kd_wait_inputs();
        return;
    }
    struct row_input in = { .alpha = 0.0f };
    if (!a->early)
        in = row_load(a, r0, h, ch);
    KD_GLOBAL float *ring = gdn_slot(a->conv, a->conv_slot_bytes, slot) + ch;
    KD_GLOBAL float *S = gdn_slot(a->state, a->state_slot_bytes, slot) + (uint64_t)h * GDN_DIM * GDN_DIM;
    struct head_state p;
    kd_f32x2 entry[GDN_TAPS];
    KD_UNROLL
    for (uint32_t i = 0; i < GDN_TAPS; i++)
        entry[i] = *(KD_GLOBAL const kd_f32x2 *)(ring + (uint64_t)i * n);
    kd_warp_sync(); /* keeps the convolution's few loads before the many of the state; all leave before one is used */
    state_load(&p, S);
    if (a->early) {
        kd_wait_inputs();
        kd_let_next_start();
        in = row_load(a, r0, h, ch);
    }
    ring_turn(x, entry, pos);
    if (pos == 0)
        p = (struct head_state){ 0 };
    /* an entry written by a step's only row is one that no other work-group reads */
    int writes_ring = w / 2 == 2 || (w < 4 && !a->counters && gdn_is_first(a->heads, a->n_k, a->n_v, h));

    for (uint32_t r = r0, next; r < n_rows; r = next) {
        next = row_of_slot(a->step, r + 1, n_rows, slot);
        x[0] = in.x;
        if (w < H_GATES) {
            if (writes_ring)
                *(KD_GLOBAL kd_f32x2 *)(ring + (uint64_t)(kd_row(a->step, r)->pos % GDN_TAPS) * n) = x[0];
            head_conv(sh, taps, x);
        } else if (w == H_GATES) {
            float decay = gdn_decay(av, in.alpha, dt), beta = k_sigmoid(in.beta);
            if (kd_lane() == 0) {
                sh->decay = decay;
                sh->beta = beta;
            }
        }
        if (next < n_rows)
            in = row_load(a, next, h, ch);
        kd_barrier();
        head_row(&p, sh, a->eps);
        if (next >= n_rows)
            state_store(&p, S);
        kd_barrier();
        if (w >= H_NORM) {
            kd_f32x4 o = ((KD_SHARED const kd_f32x4 *)sh->o)[kd_lane()];
            float scale = 1.0f / kd_sqrt(kd_warp_sum(gdn_dot4(o, o, 0.0f)) / (float)GDN_DIM + a->eps);
            kd_f32x2 y = *(KD_SHARED const kd_f32x2 *)(sh->o + at) * scale * norm;
            y *= (kd_f32x2){ k_silu(x[0][0]), k_silu(x[0][1]) };
            *(KD_GLOBAL kd_f32x2 *)(KD_PTR(float, a->y) + ((uint64_t)r * a->n_v + h) * GDN_DIM + at) = y;
        }
        x[3] = x[2];
        x[2] = x[1];
        x[1] = x[0];
    }
    if (w == 0 && a->counters)
        ring_store_late(a, r0, n_rows, slot, hk);
}

KD_KERNEL(k_gdn_step_h128, kl_gdn) { head_step(&a); }

/* The same for many rows, by registers for two work-groups a core (tools/ptx_threads.awk), so that one of them loads while the other one
 * multiplies. A single row has no work for two, and would lose by what does not fit. */
#if !defined(__AMDGCN__) && !defined(KD_MSL)
KD_KERNEL(k_gdn_step_many, kl_gdn) { head_step(&a); }
#endif
