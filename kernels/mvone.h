/* kernels/mvone.h
 * The product of a single row: what a token costs. The sums and their order are those of kernels/mvcore.h, so a row's
 * bits are the same in a batch; the rest is arranged so that little is done beside the arithmetic: how the work is cut
 * comes with the launch, a warp walks over the rows of all matrices of one type as if they were one, and the weights of
 * its next step are asked for as the registers of the present ones fall free.
 *
 * A tile is mo_slots slots, a slot as many rows as stand side by side in a warp; with pairs (gate and up) slot t is row
 * t / 2 of matrix t % 2. The type is a constant wherever these functions are called. A launch is short and its code is
 * fetched anew, so there is one copy of everything: nothing is compiled twice for the sake of a branch. */
#ifndef ZINC_KERNELS_MVONE_H
#define ZINC_KERNELS_MVONE_H

#include "kernels/mvcore.h"

/* Element m of four of the arguments. They are kept apart from each other, else the compiler would choose an address and
 * copy all arguments to memory for it. */
KD_FN uint32_t mo_pick(const uint32_t *f, uint32_t m)
{
    uint32_t a = kd_keep(f[0]), b = kd_keep(f[1]), c = kd_keep(f[2]), d = kd_keep(f[3]);
    return m == 0 ? a : m == 1 ? b : m == 2 ? c : d;
}
KD_FN gpu_va mo_pick_va(const gpu_va *f, uint32_t m)
{
    gpu_va a = kd_keep_va(f[0]), b = kd_keep_va(f[1]), c = kd_keep_va(f[2]), d = kd_keep_va(f[3]);
    return m == 0 ? a : m == 1 ? b : m == 2 ? c : d;
}

/* Matrices [first, end) of a command, of one type and one n_in. */
struct mo_mats {
    const kl_matvec *a;
    uint32_t first, end;
    uint32_t lanes, steps, items, abreast, side, il;
};

KD_FN struct mo_mats mo_mats(uint32_t type, const kl_matvec *a, uint32_t first, uint32_t end)
{
    struct mo_mats s = { .a = a, .first = first, .end = end };
    uint32_t shape = mo_pick(a->shape, first), log2 = shape & 255;
    s.lanes = 1u << log2;
    s.steps = shape >> 8;
    s.items = kd_div_up(a->n_in, mv_item_elems(type));
    s.abreast = KD_WARP >> log2;
    s.side = kd_lane() >> log2;
    s.il = kd_lane() & (s.lanes - 1);
    return s;
}

/* Slots of a tile: items of the K types are large. */
KD_FN uint32_t mo_slots(uint32_t type) { return mv_one_slots(type); }

KD_FN uint32_t mo_row_bytes(uint32_t type, uint32_t f, uint32_t n_in)
{
    if (mv_is_float(type))
        return f ? 0 : qtype_block_bytes((enum qtype)type) * n_in;
    return planes_of((enum qtype)type).f[f].len * (n_in / qtype_block((enum qtype)type));
}

/* Where a tile is. */
struct mo_tile {
    uint32_t m, n_out, end; /* its matrix, rows of that, and behind the matrix's last tile            */
    uint32_t row;           /* this lane's row of slot 0                                              */
    gpu_va p[4][PLANES_MAX]; /* where this lane's rows begin, by slot and plane; of a slot without a row slot 0's, of a lane
                              * without one row 0's */
};

KD_FN uint32_t mo_planes(uint32_t type) { return mv_is_float(type) ? 1 : planes_of((enum qtype)type).n; }
/* Rows of y that a tile makes. */
KD_FN uint32_t mo_rows(uint32_t type, const struct mo_mats *s)
{
    return (s->a->gate_up ? mo_slots(type) / 2 : mo_slots(type)) * s->abreast;
}

/* Tile u of the launch. */
KD_FN void mo_tile(uint32_t type, const struct mo_mats *s, uint32_t u, struct mo_tile *t)
{
    const kl_matvec *a = s->a;
    uint32_t m = s->first;
    while (m + 1 < s->end && u >= mo_pick(a->tile_end, m))
        m++;
    uint32_t before = m ? mo_pick(a->tile_end, m - 1) : 0;
    t->m = m;
    t->n_out = mo_pick(a->n_out, m);
    t->end = mo_pick(a->tile_end, m);
    t->row = (u - before) * mo_rows(type, s) + s->side;
    uint32_t row = t->row < t->n_out ? t->row : 0;
    gpu_va base = mo_pick_va(a->w, m);
    uint64_t second = a->gate_up ? a->w[1] - a->w[0] : 0;
    KD_UNROLL
    for (uint32_t f = 0; f < mo_planes(type); f++) {
        uint32_t bytes = mo_row_bytes(type, f, a->n_in);
        KD_UNROLL
        for (uint32_t k = 0; k < mo_slots(type); k++) {
            uint32_t rows = (a->gate_up ? k >> 1 : k) * s->abreast;
            rows = t->row + rows < t->n_out ? row + rows : row;
            t->p[k][f] = base + (uint64_t)rows * bytes + (k & 1 ? second : 0);
        }
        base += (uint64_t)t->n_out * bytes;
    }
}

/* From tile u - stride to tile u. */
KD_FN void mo_next(uint32_t type, const struct mo_mats *s, uint32_t u, uint32_t stride, struct mo_tile *t)
{
    uint32_t rows = mo_rows(type, s), by = stride * rows;
    if (u >= t->end || t->row + by + rows > t->n_out) {
        mo_tile(type, s, u, t);
        return;
    }
    t->row += by;
    KD_UNROLL
    for (uint32_t f = 0; f < mo_planes(type); f++)
        KD_UNROLL
        for (uint32_t k = 0; k < mo_slots(type); k++)
            t->p[k][f] += (uint64_t)by * mo_row_bytes(type, f, s->a->n_in);
}

KD_FN uint32_t mo_item(const struct mo_mats *s, uint32_t step)
{
    return kd_min_u32(step * s->lanes + s->il, s->items - 1);
}

/* Item i of all slots. */
KD_FN void mo_fetch(uint32_t type, const struct mo_mats *s, const struct mo_tile *t, uint32_t i, uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t k = 0; k < mo_slots(type); k++) {
        struct wd_mat m = { .items = s->items, .n_in = s->a->n_in };
        KD_UNROLL
        for (uint32_t f = 0; f < mo_planes(type); f++)
            m.p[f] = t->p[k][f];
        wd_load(type, false, w[k], &m, i);
    }
}

/* Asks for the rest of a tile's rows, behind the first step, in the level-2 cache. */
KD_FN void mo_ask(uint32_t type, const struct mo_mats *s, const struct mo_tile *t)
{
    enum { LINE = 128 };
    if (s->steps == 1)
        return;
    KD_UNROLL
    for (uint32_t k = 0; k < mo_slots(type); k++)
        KD_UNROLL
        for (uint32_t f = 0; f < mo_planes(type); f++) {
            uint32_t bytes = mo_row_bytes(type, f, s->a->n_in);
            for (uint32_t o = bytes / s->steps + s->il * LINE; o < bytes; o += s->lanes * LINE)
                kd_prefetch(KD_PTR(const void, t->p[k][f] + o));
        }
}

/* ---- the ends of rows ---- */

enum { MO_ROWS = 2 }; /* of x, at most */

/* What a row's sum is combined with, read while the sum is still being made; mo_joins: is there any such thing? */
struct mo_with {
    float own, b, b2, resid; /* own: the matrix's number */
};
KD_FN struct mo_with mo_without(void) { return (struct mo_with){ 1.0f, 0.0f, 0.0f, 0.0f }; }
KD_FN bool mo_joins(const kl_matvec *a) { return (a->resid | a->b[0] | a->b[1] | a->b[2] | a->b[3]) != 0; }
KD_FN bool mo_numbers(const kl_matvec *a) { return (a->wscale[0] | a->wscale[1] | a->wscale[2] | a->wscale[3]) != 0; }

/* Row `row` of y, of x's row r. */
KD_FN void mo_with(const kl_matvec *a, const struct mo_tile *t, uint32_t row, uint32_t r, struct mo_with *w)
{
    gpu_va b = mo_pick_va(a->b, t->m);
    w->b = w->b2 = w->resid = 0.0f;
    if (row >= t->n_out)
        return;
    if (b)
        w->b = KD_PTR(const float, b)[row];
    if (a->gate_up && a->b[1])
        w->b2 = KD_PTR(const float, a->b[1])[row];
    if (a->resid)
        w->resid = KD_PTR(const float, a->resid)[(uint64_t)r * a->ldr + row];
}

KD_FN void mo_store(const kl_matvec *a, const struct mo_tile *t, uint32_t row, uint32_t r, float v, float up, const struct mo_with *w)
{
    if (row >= t->n_out)
        return;
    if (mo_pick_va(a->b, t->m))
        v += w->b;
    if (a->gate_up) {
        v = kd_act(a->act, v, a->b[1] ? up + w->b2 : up);
    } else {
        if (a->scale)
            v *= KD_PTR(const float, a->scale)[r];
        if (a->resid)
            v += w->resid;
        if (a->softcap > 0.0f)
            v = a->softcap * k_tanh(v / a->softcap);
    }
    KD_PTR(float, mo_pick_va(a->y, t->m))[(r ? (uint64_t)r * mo_pick(a->ld, t->m) : 0) + row] = v;
}

/* The sums of a tile's slots end in the first lanes of a row, one in each (mv_reduce); with pairs those of the gate rows are
 * the first half. Which of its rows of y such a lane has: */
KD_FN uint32_t mo_own(uint32_t type, const struct mo_mats *s)
{
    uint32_t il = s->il % mo_slots(type);
    if (s->a->gate_up)
        return il % (mo_slots(type) / 2);
    return mo_slots(type) == 4 ? il % 2 * 2 + il / 2 : il;
}
KD_FN bool mo_holds(uint32_t type, const struct mo_mats *s)
{
    return s->il < (s->a->gate_up ? mo_slots(type) / 2 : mo_slots(type));
}
KD_FN void mo_with_own(uint32_t type, const struct mo_mats *s, const struct mo_tile *t, uint32_t r, struct mo_with *w)
{
    if (mo_numbers(s->a)) {
        /* the sums of up are in the second half of the lanes that have one */
        gpu_va own = mo_pick_va(s->a->wscale, s->a->gate_up && s->il % mo_slots(type) >= mo_slots(type) / 2 ? 1 : t->m);
        w->own = own ? *KD_PTR(const float, own) : 1.0f;
    }
    if (mo_joins(s->a) && mo_holds(type, s))
        mo_with(s->a, t, t->row + mo_own(type, s) * s->abreast, r, w);
}

/* The end of a tile: lanes' sums, [slots][R] for R rows of x, are added and stored, those of the first `rows`, and begin anew. */
KD_FN void mo_finish(uint32_t type, uint32_t R, const struct mo_mats *s, const struct mo_tile *t, uint32_t rows, float *acc,
                     const struct mo_with *with)
{
    const uint32_t T = mo_slots(type);
    uint32_t first, left;
    mv_reduce(T, R, acc, s->lanes, &first, &left);
    KD_UNROLL
    for (uint32_t r = 0; r < R; r++) {
        acc[r] *= with[r].own;
        float up = s->a->gate_up ? kd_shfl_xor_f32(acc[r], T / 2) : 0.0f;
        if (mo_holds(type, s) && r < rows)
            mo_store(s->a, t, t->row + mo_own(type, s) * s->abreast, r, acc[r], up, &with[r]);
    }
    KD_UNROLL
    for (uint32_t k = 0; k < T * R; k++)
        acc[k] = 0.0f;
}

/* Tiles u, u + stride, ... below the matrices' end, for R rows of x of which the step has `rows`. w holds the first step of the
 * first. */
KD_FN void mo_stream(uint32_t type, uint32_t R, const struct mo_mats *s, const struct mv_x *l, uint32_t rows, uint32_t u,
                     uint32_t stride, uint32_t (*w)[WD_WORDS])
{
    uint32_t end = mo_pick(s->a->tile_end, s->end - 1), step = 0;
    float acc[4 * MO_ROWS] = { 0.0f, 0.0f, 0.0f, 0.0f };
    struct mo_tile t, next;
    struct mo_with with[MO_ROWS] = { mo_without(), mo_without() };
    mo_tile(type, s, u, &t);
    next = t;
    for (;;) {
        bool last = step + 1 == s->steps, more = !last || u + stride < end;
        if (step == 0)
            KD_UNROLL
            for (uint32_t r = 0; r < R; r++)
                mo_with_own(type, s, &t, kd_min_u32(r, rows - 1), &with[r]);
        uint32_t i = mo_item(s, step), ix = step * s->lanes + s->il, then = mo_item(s, last ? 0 : step + 1);
        if (last && more)
            mo_next(type, s, u + stride, stride, &next);
        if (wd_is_k(type)) {
            struct mv_refill fill = { (const gpu_va(*)[PLANES_MAX])next.p, then, more };
            mv_dot_k(type, mo_slots(type), R, w, i, ix, l, acc, &fill);
        } else {
            mv_dot_rows(type, mo_slots(type), R, (const uint32_t(*)[WD_WORDS])w, i, ix, l, acc);
            if (more)
                mo_fetch(type, s, &next, then, w);
        }
        step++;
        if (!last)
            continue;
        mo_finish(type, R, s, &t, rows, acc, with);
        if (!more)
            return;
        u += stride;
        step = 0;
        t = next;
    }
}

/* ---- the input ---- */

/* Chunks of x that a work-item has on their way together, and what it reads of the norm's weights before the inputs are there. A
 * walk's bodies share one kernel's registers, which are few. */
#ifdef KD_WALK
enum { MO_HELD = 1 };
#else
enum { MO_HELD = 3 };
#endif
KD_FN void mo_norm_weights(const struct xq_in *in, uint32_t chunk, float (*w)[8])
{
    KD_UNROLL
    for (uint32_t h = 0; h < MO_HELD; h++)
        if (in->norm && h * MV_THREADS * 8 < in->n_in)
            xq_load_even8(w[h], in->norm, (chunk + h * MV_THREADS) * 8, in->n_in);
}

/* Chunks c, c + by .. of row r, which begins at x: the first are held in v, with the norm's weights. */
KD_FN void mo_chunks(const struct xq_in *in, const struct mv_x *l, bool quants, bool floats, uint32_t r, gpu_va x, uint32_t c,
                     uint32_t by, float (*v)[8], float (*norm)[8], float scale)
{
    uint32_t n = l->n_pad / 8;
    KD_UNROLL
    for (uint32_t h = 0; h < MO_HELD; h++)
        if (c + h * by < n)
            xq_chunk(in, l, quants, floats, r, c + h * by, v[h], norm[h], scale);
    WD_ROLLED
    for (c += MO_HELD * by; c < n; c += by) {
        xq_load_even8(v[0], x, c * 8, in->n_in);
        if (in->norm)
            xq_load_even8(norm[0], in->norm, c * 8, in->n_in);
        xq_chunk(in, l, quants, floats, r, c, v[0], norm[0], scale);
    }
}

/* The row's first chunks of those that `by` work-items take, on their way. */
KD_FN void mo_x(const struct xq_in *in, const struct mv_x *l, uint32_t by, float (*v)[8])
{
    KD_UNROLL
    for (uint32_t h = 0; h < MO_HELD; h++)
        if (kd_warp() < by / KD_WARP && h * by < l->n_pad / 8)
            xq_load_even8(v[h], in->x, (kd_tid() + h * by) * 8, in->n_in);
}

/* xq_prepare for one row, in little code, by work-items 0 .. by - 1, MV_THREADS where the row is normed, as the sum of squares is
 * always made by so many; rows as xq_load_even8 wants them. v: what mo_x read, norm: what mo_norm_weights read. */
KD_FN void mo_prepare_held(const struct xq_in *in, const struct mv_x *l, uint32_t by, bool quants, bool floats, float (*v)[8],
                           float (*norm)[8])
{
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    uint32_t n = l->n_pad / 8, c = kd_tid();
    bool mine = kd_warp() < by / KD_WARP;
    float scale = 0.0f;
    if (in->norm) {
        if (mine) {
            float ss = 0.0f, x[8];
            KD_UNROLL
            for (uint32_t h = 0; h < MO_HELD; h++)
                if (h * by < n)
                    ss = xq_sum_squares(v[h], ss);
            WD_ROLLED
            for (uint32_t i = c + MO_HELD * by; i * 8 < in->n_in; i += by) {
                xq_load_even8(x, in->x, i * 8, in->n_in);
                ss = xq_sum_squares(x, ss);
            }
            ss = kd_warp_sum(ss);
            if (kd_lane() == 0)
                red[kd_warp()] = ss;
        }
        kd_barrier();
        scale = xq_rms(in, 0, red);
    }
    if (mine)
        mo_chunks(in, l, quants, floats, 0, in->x, c, by, v, norm, scale);
    kd_barrier();
}

/* Both, by `threads` work-items, MV_THREADS or more. */
KD_FN void mo_prepare(uint32_t threads, const struct xq_in *in, const struct mv_x *l, bool quants, bool floats, float (*norm)[8])
{
    uint32_t by = in->norm ? MV_THREADS : threads;
    float v[MO_HELD][8];
    mo_x(in, l, by, v);
    mo_prepare_held(in, l, by, quants, floats, v, norm);
}

/* The same for two rows, which the halves of 2 MV_THREADS work-items take; rows: those that the step has. */
KD_FN void mo_prepare_two(const struct xq_in *in, const struct mv_x *l, uint32_t rows, bool quants, bool floats, float (*norm)[8])
{
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    uint32_t n = l->n_pad / 8, r = kd_tid() / MV_THREADS, c = kd_tid() % MV_THREADS;
    gpu_va x = in->x + (uint64_t)kd_min_u32(r, rows - 1) * in->ldx * 4;
    float scale = 0.0f, v[MO_HELD][8];
    KD_UNROLL
    for (uint32_t h = 0; h < MO_HELD; h++)
        if (h * MV_THREADS < n)
            xq_load_even8(v[h], x, (c + h * MV_THREADS) * 8, in->n_in);
    if (in->norm) {
        float ss = 0.0f, more[8];
        KD_UNROLL
        for (uint32_t h = 0; h < MO_HELD; h++)
            if (h * MV_THREADS < n)
                ss = xq_sum_squares(v[h], ss);
        WD_ROLLED
        for (uint32_t i = c + MO_HELD * MV_THREADS; i * 8 < in->n_in; i += MV_THREADS) {
            xq_load_even8(more, x, i * 8, in->n_in);
            ss = xq_sum_squares(more, ss);
        }
        ss = kd_warp_sum(ss);
        if (kd_lane() == 0)
            red[kd_warp()] = ss;
        kd_barrier();
        scale = xq_rms(in, r, red);
    }
    mo_chunks(in, l, quants, floats, r, x, c, MV_THREADS, v, norm, scale);
    kd_barrier();
}

/* The same where the product also does the command before it (KL_MATVEC's pre): what that makes goes through shared memory
 * behind x, each work-item's chunks for itself, and from the first work-group to x. Addresses are 16-byte aligned, n_in is a
 * multiple of 8. */
KD_FN void mo_load8(float *v, gpu_va p, uint32_t c)
{
    KD_GLOBAL const kd_f32x4 *f = KD_PTR(const kd_f32x4, p) + 2 * c;
    kd_f32x4 a = f[0], b = f[1];
    KD_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        v[k] = a[k], v[k + 4] = b[k];
}

/* 1 / rms over the work-group; `red` is for one float a warp and not used again. */
KD_FN float mo_scale(float ss, float eps, uint32_t n, KD_SHARED float *red)
{
    ss = kd_warp_sum(ss);
    if (kd_lane() == 0)
        red[kd_warp()] = ss;
    kd_barrier();
    ss = red[0];
    KD_UNROLL
    for (uint32_t w = 1; w < MV_WARPS; w++)
        ss += red[w];
    return 1.0f / kd_sqrt(ss / (float)n + eps);
}

/* Chunks tid, tid + MV_THREADS .. of what the command before makes, into shared memory at `at`; returns the sum of their
 * squares. */
KD_FN float mo_make(const kl_matvec *a, uint32_t at)
{
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    uint32_t chunks = a->n_in / 8;
    float scale = 0.0f, by = 1.0f, ss = 0.0f;
    if (a->pre == KL_PRE_NORM) {
        for (uint32_t c = kd_tid(); c < chunks; c += MV_THREADS) {
            float v[8];
            mo_load8(v, a->pre_x, c);
            ss = xq_sum_squares(v, ss);
        }
        by = a->pre_scale ? *KD_PTR(const float, a->pre_scale) : 1.0f;
        scale = mo_scale(ss, a->pre_eps, a->n_in, red + MV_WARPS);
        ss = 0.0f;
    }
    for (uint32_t c = kd_tid(); c < chunks; c += MV_THREADS) {
        float v[8], w[8], other[8];
        mo_load8(v, a->pre_x, c);
        mo_load8(w, a->pre_w ? a->pre_w : a->pre_x, c);
        mo_load8(other, a->pre_other ? a->pre_other : a->pre_x, c);
        if (a->pre == KL_PRE_NORM) {
            xq_normed(v, scale, a->pre_w != 0, w, a->pre_other != 0, other, a->pre_scale != 0, by);
        } else {
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                v[k] = kd_act(a->pre - KL_PRE_ACT, v[k], other[k]);
        }
        KD_SHARED kd_f32x4 *to = KD_SHARED_AT(kd_f32x4, at + c * 32);
        to[0] = (kd_f32x4){ v[0], v[1], v[2], v[3] };
        to[1] = (kd_f32x4){ v[4], v[5], v[6], v[7] };
        ss = xq_sum_squares(v, ss);
        if (kd_group_x() == 0) {
            KD_GLOBAL kd_f32x4 *x = KD_PTR(kd_f32x4, a->x) + 2 * c;
            x[0] = to[0];
            x[1] = to[1];
        }
    }
    return ss;
}

KD_FN void mo_prepare_made(const kl_matvec *a, const struct mv_x *l, bool quants, bool floats, float (*norm)[8])
{
    struct xq_in in = { .x = a->x, .norm = a->norm, .n_in = a->n_in, .rows = 1, .eps = a->eps };
    uint32_t at = (l->end + 15) & ~15u, chunks = a->n_in / 8;
    float ss = mo_make(a, at), scale = a->norm ? mo_scale(ss, a->eps, a->n_in, KD_SHARED_AT(float, 0)) : 0.0f;
    for (uint32_t c = kd_tid(); c < l->n_pad / 8; c += MV_THREADS) {
        float v[8] = { 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f };
        if (c < chunks) {
            kd_f32x4 lo = *KD_SHARED_AT(const kd_f32x4, at + c * 32), hi = *KD_SHARED_AT(const kd_f32x4, at + c * 32 + 16);
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                v[k] = lo[k], v[k + 4] = hi[k];
        }
        if (a->norm && c != kd_tid())
            xq_load8(norm[0], a->norm, c * 8, a->n_in);
        xq_chunk(&in, l, quants, floats, 0, c, v, norm[0], scale);
    }
    kd_barrier();
}

#endif
