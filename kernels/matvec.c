/* kernels/matvec.c
 * Decode products: MATMUL, PROJ, GATE_UP, ROUTER, MOE_UP and MOE_DOWN for few rows, by dot products
 * of signed bytes. Compiled once per set of weight types with KD_SET=<set>; the kernels are k_matvec_<set>_r1 and so
 * on. Sets of several types without routers and experts have the products only.
 *
 * A launch: every work-group asks for its first weights, waits for its inputs, prepares x for itself
 * (kernels/xquant.h), and its warps stream tiles of output rows (kernels/mvcore.h). Nothing passes between
 * work-groups but for the router, whose last work-group chooses. */
#include "kernels/klaunch.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"

/* Tiles of 4 rows a lane; items of the K types are too large for that. */
static inline __attribute__((always_inline, unused)) bool mv_has_4(uint32_t type)
{
    return !QSET_ANY && wd_slots(type) >= 8;
}

enum { MV_T = 2 }; /* slots of a tile of MATMUL, PROJ and GATE_UP */

/* ---- the plain way ---- */

/* Any alignment, and pairs of two types: a tile of two rows, or of a pair, without anything in flight. All lanes of a
 * warp share a row. */
struct mv_plain {
    gpu_va w[2];
    uint32_t type[2], n_out, n_in;
    bool pairs;
};

/* Items from + n step of a row, B of them on their way at once; a lane's part of the sums. */
KD_FN void mv_plain_row(uint32_t type, uint32_t B, gpu_va base, uint32_t n_out, uint32_t n_in, uint32_t row,
                        const struct mv_x *l, uint32_t from, uint32_t step, float *acc)
{
    struct wd_mat m = wd_mat(type, base, n_out, n_in);
    bool ragged = wd_is_ragged(type, base, n_in);
    for (uint32_t i0 = from * KD_WARP + kd_lane(); i0 < m.items; i0 += B * step * KD_WARP) {
        uint32_t w[4][WD_WORDS];
        KD_UNROLL
        for (uint32_t b = 0; b < B; b++)
            if (i0 + b * step * KD_WARP < m.items)
                wd_load(type, ragged, w[b], &m, row * m.items + i0 + b * step * KD_WARP);
        KD_UNROLL
        for (uint32_t b = 0; b < B; b++) {
            uint32_t i = i0 + b * step * KD_WARP;
            if (i < m.items)
                mv_dot_rows(type, 1, 1, (const uint32_t(*)[WD_WORDS])(w + b), i, i, l, acc);
        }
    }
}

/* The same for a type that is a number: the set of all types has this once, as a function. */
#if QSET_ANY
static __attribute__((noinline))
#else
KD_FN
#endif
float mv_row_part(uint32_t t, gpu_va base, uint32_t n_out, uint32_t n_in, uint32_t row, const struct mv_x *l,
                  uint32_t from, uint32_t step)
{
    float acc = 0.0f;
#if QSET_ANY
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) case QT_##NAME: mv_plain_row(QT_##NAME, 1, base, n_out, n_in, row, l, from, step, &acc); break;
#include "kernels/qtypes.def"
    default: break;
    }
#else
    (void)t; /* sets of one type */
    QSET_FOR(t, mv_plain_row(type, mv_is_float(type) ? 4 : 1, base, n_out, n_in, row, l, from, step, &acc))
#endif
    return acc;
}

/* Row r of x alone. */
KD_FN void mv_plain_tile(const struct mv_plain *p, const struct mv_x *l, uint32_t out, uint32_t tile, uint32_t r)
{
    struct mv_x x = *l;
    x.q += r * l->q_row, x.meta += r * l->q_row, x.f += r * l->f_row;
    uint32_t row = p->pairs ? tile : 2 * tile, row2 = p->pairs ? row : row + 1;
    float v[2] = { 0.0f, 0.0f };
    for (uint32_t k = 0; k < 2; k++) {
        bool second = k && p->pairs;
        uint32_t n = kd_min_u32(k ? row2 : row, p->n_out - 1);
        gpu_va base = second ? p->w[1] : p->w[0];
        float acc = mv_row_part(second ? p->type[1] : p->type[0], base, p->n_out, p->n_in, n, &x, 0, 1);
        v[0] = v[1];
        v[1] = kd_warp_sum(acc);
    }
    struct mv_epilogue with;
    if (kd_lane() != 0)
        return;
    struct mv_out o = mv_out_get(out);
    mv_epilogue_load(&o, row, row2, r, &with);
    mv_store(&o, v[0], v[1], row, row2, r, &with);
}

/* ---- MATMUL, PROJ, GATE_UP ---- */


KD_FN bool mv_is_plain(const struct mv_plain *p)
{
    return QSET_ANY || wd_is_ragged(p->type[0], p->w[0], p->n_in) ||
           (p->pairs && wd_is_ragged(p->type[1], p->w[1], p->n_in)) ||
           (p->pairs && p->type[0] != p->type[1]);
}

/* Matrix m of the command, or the pair. */
struct mv_segment {
    struct mv_plain p;
    bool plain;
};

KD_FN struct mv_segment mv_segment(const kl_matvec *a, uint32_t m)
{
    bool pairs = a->gate_up;
    struct mv_segment s = { .p = { .w = { a->w[m], pairs ? a->w[1] : 0 },
                                   .type = { a->type[m], pairs ? a->type[1] : 0 },
                                   .n_out = a->n_out[m], .n_in = a->n_in, .pairs = pairs } };
    s.plain = mv_is_plain(&s.p);
    return s;
}

KD_FN void mv_outs(const kl_matvec *a, uint32_t rows, uint32_t row0)
{
    bool pairs = a->gate_up, matmul = !pairs && a->n_mats == 1;
    for (uint32_t m = 0; m < (pairs ? 1 : a->n_mats); m++) {
        struct mv_out o = { .y = a->y[m], .wscale = { a->wscale[m], pairs ? a->wscale[1] : 0 },
                            .b = { a->b[m], pairs ? a->b[1] : 0 }, .scale = matmul ? a->scale : 0,
                            .resid = matmul ? a->resid : 0, .ld = a->ld[m], .ldr = a->ldr, .n_out = a->n_out[m],
                            .rows = rows, .row0 = row0, .act = a->act, .softcap = matmul ? a->softcap : 0.0f,
                            .pairs = pairs };
        mv_out_put(m, &o);
    }
}

KD_FN uint32_t mv_segment_tiles(const struct mv_plain *p, bool plain, uint32_t T)
{
    uint32_t rows = p->pairs ? T / 2 : T;
    if (plain)
        return p->pairs ? p->n_out : kd_div_up(p->n_out, 2);
    return kd_div_up(p->n_out, rows * (KD_WARP / mv_geom(p->type[0], p->n_in).lanes));
}

/* First index from `from` on that is `id` modulo `n`. */
KD_FN uint32_t mv_first(uint32_t from, uint32_t id, uint32_t n)
{
    return from <= id ? id : id + kd_div_up(from - id, n) * n;
}

KD_FN void mv_segment_run(uint32_t R, const struct mv_segment *s, uint32_t m, const struct mv_x *l, uint32_t tile,
                          uint32_t warps, uint32_t (*w)[WD_WORDS], bool loaded)
{
    QSET_FOR(s->p.type[0], {
        struct mv_job j = mv_job(type, s->p.w[0], s->p.w[1], s->p.n_out, s->p.n_in, s->p.pairs);
        mv_stream(type, MV_T, R, &j, l, m, tile, warps, w, loaded);
    })
}

KD_FN void mv_products(const kl_matvec *a)
{
    uint32_t warps = kd_groups_x() * MV_WARPS, id = kd_warp() * kd_groups_x() + kd_group_x();
    uint32_t mats = a->gate_up ? 1 : a->n_mats;
    uint32_t w[WD_SLOTS][WD_WORDS], first = 0, has = mats;
    struct xq_in in = { .x = a->x, .norm = a->norm, .ldx = a->ldx, .n_in = a->n_in,
                        .eps = a->eps };
    struct xq_kept kept;
    for (uint32_t m = 0; m < mats; m++) {
        struct mv_segment s = mv_segment(a, m);
        uint32_t tiles = mv_segment_tiles(&s.p, s.plain, MV_T), tile = mv_first(first, id, warps) - first;
        first += tiles;
        if (tile >= tiles || s.plain)
            continue;
        QSET_FOR(s.p.type[0], {
            struct mv_job j = mv_job(type, s.p.w[0], s.p.w[1], s.p.n_out, s.p.n_in, s.p.pairs);
            bool fill = has == mats;
            if (fill)
                mv_fill(type, mv_slots(type, false), &j, MV_T, tile, w);
            has = fill ? m : has;
            for (uint32_t k = fill && j.g.steps * MV_T <= mv_slots(type, false); k <= mv_ahead(type, &j, MV_T); k++)
                mv_prefetch(type, &j, MV_T, tile + k * warps);
        })
    }
    xq_norm_weights(&in, &kept);
    mv_book(QSET_ALONE);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n = kd_step_rows(a->step, a->rows), row0 = kd_group_y() * a->rows_pass;
    if (row0 >= n)
        return;
    in.row0 = row0;
    in.rows = kd_min_u32(n - row0, a->rows_pass);
    struct mv_x l = mv_x_own(QSET_ALONE, mv_x_of(a->type, a->n_mats, a->n_in, a->rows_pass));
    l.nibbles = 0; /* rows share what is looked up */
    bool quants = false, floats = false;
    for (uint32_t m = 0; m < a->n_mats; m++)
        QSET_FOR(a->type[m], quants |= !mv_is_float(type); floats |= mv_is_float(type))
    mv_outs(a, in.rows, row0);
    xq_prepare(&in, &l, quants, floats, false, &kept);
    if (QSET_ANY || in.rows == 1)
        l.last = in.rows - 1;
    first = 0;
    for (uint32_t m = 0; m < mats; m++) {
        struct mv_segment s = mv_segment(a, m);
        uint32_t tiles = mv_segment_tiles(&s.p, s.plain, MV_T), tile = mv_first(first, id, warps) - first;
        first += tiles;
        if (tile >= tiles)
            continue;
        if (s.plain) {
            for (; tile < tiles; tile += warps)
                for (uint32_t r = 0; r < in.rows; r++)
                    mv_plain_tile(&s.p, &l, m, tile, r);
        } else if (in.rows <= 2) {
            mv_segment_run(2, &s, m, &l, tile, warps, w, has == m);
        } else {
            mv_segment_run(4, &s, m, &l, tile, warps, w, has == m);
        }
    }
}

QSET_KERNEL(k_matvec_, _r8, kl_matvec)
{
    mv_products(&a);
}

#if !QSET_PAIR

/* ---- ROUTER ---- */

/* Order of logits as integers: larger is larger, a NaN is least. */
KD_FN uint32_t mv_key(float f)
{
    uint32_t u = f32_bits(f);
    if (f != f)
        return 0;
    if (f == 0.0f)
        u = 0;
    return u >> 31 ? ~u : u | 0x80000000u;
}

/* Of row r; the work-groups of a launch hand them to the last one. */
KD_FN KD_COHERENT float *mv_logits(const kl_router *a, uint32_t r)
{
    return (KD_COHERENT float *)KD_PTR(float, a->logits) + (uint64_t)r * a->n_expert;
}

/* How many of n candidates are larger. */
KD_FN uint32_t mv_rank(KD_SHARED const uint64_t *all, uint32_t n, uint64_t own)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++)
        rank += all[i] > own;
    return rank;
}

/* The k largest logits of row r, by two rounds of counting: among 32 experts each, then among what is left of them. A
 * candidate is its key, then its id upside down: ties go to the lowest. `at`: free shared memory. */
KD_FN void mv_topk(const kl_router *a, uint32_t r, uint32_t at)
{
    uint32_t n = a->n_expert, all = kd_div_up(n, 32) * 32, keep = kd_min_u32(a->k, 32), left = all / 32 * keep;
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    KD_SHARED uint64_t *cand = KD_SHARED_AT(uint64_t, at);
    KD_SHARED float *logit = KD_SHARED_AT(float, at + all * 8), *p = logit + all;
    KD_SHARED uint32_t *chosen = KD_SHARED_AT(uint32_t, at + all * 12 + MV_TOPK_MAX * 4);
    float top = -kd_inf(), sum = 0.0f;
    for (uint32_t i = kd_tid(); i < all; i += MV_THREADS) {
        float l = i < n ? mv_logits(a, r)[i] : 0.0f;
        uint32_t key = i < n ? mv_key(l) : 0, rank = 0;
        logit[i] = l;
        if (i < n)
            top = kd_max(l, top);
        KD_UNROLL
        for (uint32_t j = 0; j < KD_WARP; j++) {
            uint32_t other = kd_shfl_u32(key, j);
            rank += other > key || (other == key && j < kd_lane());
        }
        if (rank < keep)
            cand[i / 32 * keep + rank] = (uint64_t)key << 32 | ~i;
    }
    top = kd_group_max(top, red);
    if (a->gating == KA_SOFTMAX_TOPK) {
        for (uint32_t i = kd_tid(); i < n; i += MV_THREADS)
            sum += k_exp(logit[i] - top);
        sum = kd_group_sum(sum, red);
    }
    for (uint32_t i = kd_tid(); i < left; i += MV_THREADS) {
        uint64_t own = cand[i];
        uint32_t rank = mv_rank(cand, left, own), id = ~(uint32_t)own;
        if (rank >= a->k)
            continue;
        float e = k_exp(logit[id] - top);
        p[rank] = a->gating == KA_SOFTMAX_TOPK ? e / sum : e;
        chosen[rank] = id;
    }
    kd_barrier();
    for (uint32_t j = kd_tid(); j < a->k; j += MV_THREADS) {
        float total = 0.0f;
        for (uint32_t i = 0; i < a->k; i++)
            total += p[i];
        if (a->gating == KA_SOFTMAX_TOPK)
            total = kd_max(total, 0x1p-14f);
        float w = p[j] / total * a->scale;
        if (a->expert_scale)
            w *= KD_PTR(const float, a->expert_scale)[chosen[j]];
        KD_PTR(uint32_t, a->ids)[(uint64_t)r * a->k + j] = chosen[j];
        KD_PTR(float, a->weights)[(uint64_t)r * a->k + j] = w;
    }
}

/* Row `row` of the router, or the shared expert's gate behind them; this warp's part of the sum. */
KD_FN float mv_router_part(const kl_router *a, uint32_t row, uint32_t part, const struct mv_x *l)
{
    float acc[1] = { 0.0f };
    if (row < a->n_expert)
        acc[0] = mv_row_part(a->type, a->w, a->n_expert, a->n_in, row, l, part, MV_ROUTER_SPLIT);
    else if (a->shared_w && row == a->n_expert)
        mv_plain_row(QT_F32, 4, a->shared_w, 1, a->n_in, 0, l, part, MV_ROUTER_SPLIT, acc);
    return kd_warp_sum(acc[0]);
}

KD_FN void mv_router_store(const kl_router *a, uint32_t row, uint32_t r, float v)
{
    if (row < a->n_expert)
        mv_logits(a, r)[row] = a->b ? v + KD_PTR(const float, a->b)[row] : v;
    else if (a->shared_w && row == a->n_expert)
        KD_PTR(float, a->share)[r] = k_sigmoid(v);
}

QSET_KERNEL(k_router_, , kl_router)
{
    enum { AT_ONCE = MV_WARPS / MV_ROUTER_SPLIT };
    uint32_t r = kd_group_y(), total = a.n_expert + (a.shared_w != 0), part = kd_warp() % MV_ROUTER_SPLIT;
    uint32_t turn = kd_warp() / MV_ROUTER_SPLIT, row_bytes = (uint32_t)qtype_row_bytes((enum qtype)a.type, a.n_in);
    struct xq_in in = { .x = a.x, .norm = a.norm, .ldx = a.n_in, .n_in = a.n_in, .rows = 1, .row0 = r, .eps = a.eps };
    struct xq_kept kept;
    struct mv_x l = mv_x_own(QSET_ALONE, mv_router_x(a.type, a.n_in));
    if (mv_is_float(a.type))
        for (uint32_t row = kd_group_x() * AT_ONCE + turn; row < total; row += kd_groups_x() * AT_ONCE) {
            gpu_va w = row < a.n_expert ? a.w + (uint64_t)row * row_bytes : a.shared_w;
            for (uint32_t o = (part * KD_WARP + kd_lane()) * MV_LINE; o < row_bytes;
                 o += MV_ROUTER_SPLIT * KD_WARP * MV_LINE)
                kd_prefetch(KD_PTR(const void, w + o));
        }
    xq_norm_weights(&in, &kept);
    mv_book(QSET_ALONE);
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, ROWS_STEP))
        return;
    bool quants = false;
    QSET_FOR(a.type, quants = !mv_is_float(type))
    xq_prepare(&in, &l, quants, true, true, &kept);
    uint32_t parity = 0;
    for (uint32_t row0 = kd_group_x() * AT_ONCE; row0 < total; row0 += kd_groups_x() * AT_ONCE, parity ^= 1) {
        KD_SHARED float *parts = KD_SHARED_AT(float, 256) + parity * MV_WARPS;
        float v = mv_router_part(&a, row0 + turn, part, &l);
        if (kd_lane() == 0)
            parts[kd_warp()] = v;
        kd_barrier();
        if (kd_tid() < AT_ONCE) {
            v = parts[kd_tid() * MV_ROUTER_SPLIT];
            for (uint32_t i = 1; i < MV_ROUTER_SPLIT; i++)
                v += parts[kd_tid() * MV_ROUTER_SPLIT + i];
            mv_router_store(&a, row0 + kd_tid(), r, v);
        }
    }
    KD_SHARED uint32_t *last = KD_SHARED_AT(uint32_t, 384);
    kd_barrier();
    if (kd_tid() == 0)
        *last = kd_arrive(KD_PTR(uint32_t, a.counters) + r, kd_groups_x()) == kd_groups_x() - 1;
    kd_barrier();
    if (*last)
        mv_topk(&a, r, l.end);
}

/* ---- MOE_UP ---- */

KD_FN uint32_t mv_expert(gpu_va ids, uint64_t pair, uint32_t n_expert)
{
    return kd_min_u32(KD_PTR(const uint32_t, ids)[pair], n_expert - 1);
}

/* A pair's product is GATE_UP for a single row, with the expert's matrices. */
KD_FN kl_matvec mv_expert_args(const kl_moe_up *a, uint32_t pair, uint32_t e)
{
    return (kl_matvec){ .y = { a->y + (uint64_t)pair * a->n_ff * 4 },
                        .w = { a->gate + e * a->gate_stride, a->up + e * a->up_stride },
                        .wscale = { a->sg ? a->sg + e * 4 : 0, a->su ? a->su + e * 4 : 0 },
                        .b = { a->bg ? a->bg + (uint64_t)e * a->n_ff * 4 : 0,
                               a->bu ? a->bu + (uint64_t)e * a->n_ff * 4 : 0 },
                        .n_out = { a->n_ff, a->n_ff }, .type = { a->type_gate, a->type_up }, .n_mats = 2,
                        .n_in = a->n_in, .act = a->act, .gate_up = 1, .tile_end = { a->tiles }, .shape = { a->shape } };
}

KD_FN void mv_expert_plain(const kl_moe_up *a, const kl_matvec *k, const struct mv_x *l, uint32_t pair)
{
    struct mv_plain p = { .w = { k->w[0], k->w[1] }, .type = { a->type_gate, a->type_up }, .n_out = a->n_ff,
                          .n_in = a->n_in, .pairs = true };
    struct mv_out o = { .y = a->y, .wscale = { k->wscale[0], k->wscale[1] }, .b = { k->b[0], k->b[1] }, .ld = a->n_ff, .n_out = a->n_ff, .rows = 1, .row0 = pair,
                        .act = a->act, .pairs = true };
    mv_out_put(0, &o);
    kd_barrier();
    for (uint32_t n = kd_group_x() * MV_WARPS + kd_warp(); n < a->n_ff; n += kd_groups_x() * MV_WARPS)
        mv_plain_tile(&p, l, 0, n, 0);
}

QSET_KERNEL(k_moe_up_, , kl_moe_up)
{
    uint32_t pair = kd_group_y(), row = pair / a.k, warps = kd_groups_x() * MV_WARPS;
    uint32_t u = kd_warp() * kd_groups_x() + kd_group_x();
    struct xq_in in = { .x = a.x + (uint64_t)row * a.n_in * 4, .norm = a.norm, .n_in = a.n_in, .rows = 1, .eps = a.eps };
    bool quants = false, floats = false;
    float norm[MO_HELD][8];
    for (uint32_t m = 0; m < 2; m++)
        QSET_FOR(m ? a.type_up : a.type_gate, quants |= !mv_is_float(type); floats |= mv_is_float(type))
    if (!QSET_ANY && a.shape)
        mo_norm_weights(&in, kd_tid(), norm);
    mv_book(QSET_ALONE);
    kd_wait_inputs();
    kd_let_next_start();
    if (row >= kd_step_rows(a.step, ROWS_STEP))
        return;
    kl_matvec k = mv_expert_args(&a, pair, mv_expert(a.ids, pair, a.n_expert));
    struct mv_x l = mv_x_own(QSET_ALONE, mv_x_layout(a.n_pad, quants, floats, 1));
    if (QSET_ANY || !a.shape) {
        struct xq_kept kept;
        xq_norm_weights(&in, &kept);
        xq_prepare(&in, &l, quants, floats, true, &kept);
        mv_expert_plain(&a, &k, &l, pair);
        return;
    }
    QSET_FOR(a.type_gate, {
        uint32_t w[4][WD_WORDS];
        struct mo_mats s = mo_mats(type, &k, 0, 1);
        if (u < a.tiles) {
            struct mo_tile t;
            mo_tile(type, &s, u, &t);
            mo_fetch(type, &s, &t, mo_item(&s, 0), w);
        }
        mo_prepare(MV_THREADS, &in, &l, quants, floats, norm);
        if (u < a.tiles)
            mo_stream(type, 1, &s, &l, 1, u, warps, w);
    })
}

/* ---- MOE_DOWN: one matrix, so always of one type ---- */

#if !QSET_ANY

/* A work-group's unit of output rows: tasks (choice, tile) go round its warps, their results to shared memory, and
 * the work-group adds them up. */
struct mv_down {
    uint32_t tiles, tasks, rows; /* of a unit */
    gpu_va w;
    uint64_t stride;
    KD_SHARED const uint32_t *ids;
    struct mv_job j; /* of expert 0 */
};

KD_FN void mv_down_fetch(uint32_t type, uint32_t T, const struct mv_down *d, uint32_t unit, uint32_t task,
                         uint32_t step, uint32_t t, uint32_t *w)
{
    struct mv_job j = d->j;
    uint64_t off = d->ids[task / d->tiles] * d->stride;
    KD_UNROLL
    for (uint32_t f = 0; f < PLANES_MAX; f++)
        j.m.p[f] += off;
    mv_fetch(type, &j, T, unit * d->tiles + task % d->tiles, step, t, w);
}

/* Slots for the first steps of a task. */
KD_FN void mv_down_fill(uint32_t type, uint32_t T, const struct mv_down *d, uint32_t unit, uint32_t task,
                        uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t k = 0; k < WD_SLOTS; k++)
        if (k < wd_slots(type) && k / T < d->j.g.steps)
            mv_down_fetch(type, T, d, unit, task, k / T, k % T, w[k]);
}

/* One task; its slots are filled again for (unit2, task2) if there is one. */
KD_FN void mv_down_task(uint32_t type, uint32_t T, const struct mv_down *d, const struct mv_x *l, uint32_t unit,
                        uint32_t task, uint32_t unit2, uint32_t task2, bool more, uint32_t (*w)[WD_WORDS],
                        KD_SHARED float *res)
{
    const uint32_t C = wd_slots(type) / T;
    uint32_t steps = d->j.g.steps, lanes = d->j.g.lanes, choice = task / d->tiles, first, left;
    struct mv_x own = *l;
    own.q += choice * l->q_row, own.meta += choice * l->q_row, own.f += choice * l->f_row;
    float acc[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    for (uint32_t s0 = 0; s0 < steps; s0 += C) {
        bool last = s0 + C >= steps;
        uint32_t from = last ? 0 : s0 + C;
        KD_UNROLL
        for (uint32_t c = 0; c < C; c++) {
            if (s0 + c < steps) {
                uint32_t ix = (s0 + c) * lanes + d->j.il;
                mv_dot_rows(type, T, 1, (const uint32_t(*)[WD_WORDS])(w + c * T),
                            kd_min_u32(ix, d->j.g.items - 1), ix, &own, acc);
            }
            if ((!last || more) && from + c < steps) {
                KD_UNROLL
                for (uint32_t t = 0; t < T; t++)
                    mv_down_fetch(type, T, d, last ? unit2 : unit, last ? task2 : task, from + c, t, w[c * T + t]);
            }
        }
    }
    mv_reduce(T / 2, 2, acc, lanes, &first, &left);
    if (d->j.il >= mv_holders(T / 2))
        return;
    uint32_t at = choice * d->rows + task % d->tiles * T * d->j.abreast + 2 * first * d->j.abreast + d->j.side;
    res[at] = acc[0];
    res[at + d->j.abreast] = acc[1];
}

KD_FN void mv_down_sum(const kl_moe_down *a, const struct mv_down *d, uint32_t unit, uint32_t r,
                       KD_SHARED const float *res, KD_SHARED const float *weights)
{
    for (uint32_t i = kd_tid(); i < d->rows; i += MV_THREADS) {
        uint32_t n = unit * d->rows + i;
        if (n >= a->n_out)
            continue;
        float s = 0.0f;
        for (uint32_t j = 0; j < a->k; j++) {
            float v = res[j * d->rows + i];
            if (a->sd)
                v *= KD_PTR(const float, a->sd)[d->ids[j]];
            if (a->b)
                v += KD_PTR(const float, a->b)[(uint64_t)d->ids[j] * a->n_out + n];
            s = j ? k_fma(weights[j], v, s) : weights[0] * v;
        }
        uint64_t at = (uint64_t)r * a->n_out + n;
        if (a->resid)
            s += KD_PTR(const float, a->resid)[at];
        KD_PTR(float, a->y)[at] = s;
    }
}

KD_FN void mv_down_run(uint32_t type, uint32_t T, const kl_moe_down *a, const struct xq_in *in, const struct mv_x *l,
                       uint32_t r)
{
    uint32_t w[WD_SLOTS][WD_WORDS], task = kd_warp(), unit = kd_group_x(), parity = 0;
    struct mv_down d = { .w = a->down, .stride = a->stride, .tiles = mv_down_tiles(a->k),
                         .rows = mv_down_rows(type, a->n_in, a->k, T),
                         .j = mv_job(type, a->down, 0, a->n_out, a->n_in, false) };
    d.tasks = d.tiles * a->k;
    uint32_t units = kd_div_up(a->n_out, d.rows), res_floats = a->k * d.rows;
    KD_SHARED uint32_t *ids = KD_SHARED_AT(uint32_t, l->end);
    KD_SHARED float *weights = KD_SHARED_AT(float, l->end + a->k * 4), *res = weights + a->k;
    for (uint32_t j = kd_tid(); j < a->k; j += MV_THREADS) {
        ids[j] = mv_expert(a->ids, (uint64_t)r * a->k + j, a->n_expert);
        weights[j] = KD_PTR(const float, a->weights)[(uint64_t)r * a->k + j];
    }
    kd_barrier();
    d.ids = ids;
    if (unit < units && task < d.tasks)
        mv_down_fill(type, T, &d, unit, task, w);
    if (a->early) {
        kd_wait_inputs();
        kd_let_next_start();
    }
    struct xq_kept kept;
    xq_prepare(in, l, !mv_is_float(type), mv_is_float(type), false, &kept);
    for (; unit < units; unit += kd_groups_x(), parity ^= 1) {
        KD_SHARED float *to = res + parity * res_floats;
        for (task = kd_warp(); task < d.tasks; task += MV_WARPS) {
            bool inside = task + MV_WARPS < d.tasks;
            uint32_t unit2 = inside ? unit : unit + kd_groups_x(), task2 = inside ? task + MV_WARPS : kd_warp();
            mv_down_task(type, T, &d, l, unit, task, unit2, task2, unit2 < units, w, to);
        }
        kd_barrier();
        mv_down_sum(a, &d, unit, r, to, weights);
    }
}

/* Misaligned experts: a warp takes a pair of rows through all choices. */
KD_FN void mv_down_plain(const kl_moe_down *a, const struct mv_x *l, uint32_t r)
{
    uint32_t first, left;
    for (uint32_t n = (kd_group_x() * MV_WARPS + kd_warp()) * 2; n < a->n_out; n += kd_groups_x() * MV_WARPS * 2) {
        float s[2] = { 0.0f, 0.0f };
        for (uint32_t j = 0; j < a->k; j++) {
            uint32_t e = mv_expert(a->ids, (uint64_t)r * a->k + j, a->n_expert);
            gpu_va base = a->down + e * a->stride;
            struct mv_x own = *l;
            own.q += j * l->q_row, own.meta += j * l->q_row, own.f += j * l->f_row;
            float v[2];
            for (uint32_t i = 0; i < 2; i++) {
                float acc[1] = { 0.0f };
                acc[0] = mv_row_part(a->type, base, a->n_out, a->n_in, kd_min_u32(n + i, a->n_out - 1), &own, 0, 1);
                v[0] = i ? v[0] : acc[0], v[1] = acc[0];
            }
            mv_reduce(1, 2, v, KD_WARP, &first, &left);
            float weight = KD_PTR(const float, a->weights)[(uint64_t)r * a->k + j];
            for (uint32_t i = 0; i < 2; i++) {
                if (a->sd)
                    v[i] *= KD_PTR(const float, a->sd)[e];
                if (a->b && n + i < a->n_out)
                    v[i] += KD_PTR(const float, a->b)[(uint64_t)e * a->n_out + n + i];
                s[i] = j ? k_fma(weight, v[i], s[i]) : weight * v[i];
            }
        }
        for (uint32_t i = 0; i < 2; i++) {
            uint64_t at = (uint64_t)r * a->n_out + n + i;
            if (kd_lane() == 0 && n + i < a->n_out)
                KD_PTR(float, a->y)[at] = a->resid ? s[i] + KD_PTR(const float, a->resid)[at] : s[i];
        }
    }
}

/* Units that the busiest work-group takes. */
KD_FN uint32_t mv_down_units(const kl_moe_down *a, uint32_t type, uint32_t T)
{
    return kd_div_up(kd_div_up(a->n_out, mv_down_rows(type, a->n_in, a->k, T)), kd_groups_x());
}

QSET_KERNEL(k_moe_down_, , kl_moe_down)
{
    uint32_t r = kd_group_y();
    struct xq_in in = { .x = a.x, .ldx = a.n_in, .n_in = a.n_in, .rows = a.k, .row0 = r * a.k };
    mv_book(QSET_ALONE);
    kd_ask_args(&a, sizeof a, KD_PTR(const void, a.x));
    if (a.early) {
        kd_see_inputs();
    } else {
        kd_wait_inputs();
        kd_let_next_start();
    }
    if (r >= kd_step_rows(a.step, ROWS_STEP)) {
        if (a.early)
            kd_wait_inputs();
        return;
    }
    struct mv_x l = mv_x_own(QSET_ALONE, mv_down_x(a.type, a.n_in, a.k));
    QSET_FOR(a.type, {
        if (wd_is_ragged(type, a.down | a.stride, a.n_in)) {
            struct xq_kept kept;
            if (a.early)
                kd_wait_inputs();
            xq_prepare(&in, &l, !mv_is_float(type), mv_is_float(type), false, &kept);
            mv_down_plain(&a, &l, r);
        } else if (!mv_has_4(type) || mv_down_units(&a, type, 4) * 2 > mv_down_units(&a, type, 2)) {
            mv_down_run(type, 2, &a, &in, &l, r);
        } else {
            mv_down_run(type, 4, &a, &in, &l, r);
        }
    })
}
#endif
#endif
