/* kernels/matvec.c
 * Decode products: MATMUL, PROJ, GATE_UP, ROUTER, MOE_UP and MOE_DOWN for few rows, by dot products
 * of signed bytes. Compiled once per set of weight types with KD_SET=<set>; the kernels are k_matvec_<set>_r1 and so
 * on. Sets of several types without routers and experts have the products only.
 *
 * A launch: every work-group asks for its first weights, waits for its inputs, prepares x for itself
 * (kernels/xquant.h), and its warps stream tiles of output rows (kernels/mvcore.h). Nothing passes between
 * work-groups but for the router, whose last work-group chooses where those who want the choice do not (kernels/choice.h). */
#include "kernels/klaunch.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"
#include "kernels/moe_down.h"

enum { MV_T = 2 }; /* slots of a tile of MATMUL, PROJ and GATE_UP */

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
    xq_prepare(&in, &l, quants, floats, 0, 0);
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

QSET_KERNEL(k_router_, , kl_router) { mv_router(&a, false, kd_group_x(), kd_groups_x(), kd_group_y()); }

/* ---- MOE_UP ---- */

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

/* The pair's expert; where none is chosen yet (logits), by shared memory from byte `at` on. */
KD_FN uint32_t mv_expert_of(const kl_moe_up *a, uint32_t pair, uint32_t at)
{
    if (!MV_CHOOSES || !a->logits)
        return mv_expert(a->ids, pair, a->n_expert);
    struct mv_choice c = mv_choice(a->n_expert, a->k, at);
    mv_choose(&c, mv_logits(a->logits, a->n_expert, pair / a->k));
    return c.id[pair % a->k];
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
    if (row && row >= kd_step_rows(a.step, ROWS_STEP))
        return;
    struct mv_x l = mv_x_own(QSET_ALONE, mv_x_layout(a.n_pad, quants, floats, 1));
    float x[MO_HELD][8];
    if (MV_CHOOSES && !QSET_ANY && a.shape)
        mo_x(&in, &l, MV_THREADS, x);
    kl_matvec k = mv_expert_args(&a, pair, mv_expert_of(&a, pair, l.end));
    if (QSET_ANY || !a.shape) {
        struct xq_kept kept;
        xq_norm_weights(&in, 1, &kept);
        xq_prepare(&in, &l, quants, floats, 1, &kept);
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
        if (!MV_CHOOSES)
            mo_x(&in, &l, MV_THREADS, x);
        mo_prepare_held(&in, &l, MV_THREADS, quants, floats, x, norm);
        if (u < a.tiles)
            mo_stream(type, 1, &s, &l, 1, u, warps, w);
    })
}

#if !QSET_ANY
QSET_KERNEL(k_moe_down_, , kl_moe_down)
{
    kd_ask_args(&a, sizeof a, KD_PTR(const void, a.x));
    mv_moe_down(&a, 0);
}
#endif
#endif
