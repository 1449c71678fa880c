/* kernels/mvplain.h
 * The plain way of the decode products, which takes any alignment, and pairs of two types: a warp has a row, or a pair of them,
 * without anything in flight. Sums have the order of kernels/mvcore.h. Included behind kernels/qset.h. */
#ifndef ZINC_KERNELS_MVPLAIN_H
#define ZINC_KERNELS_MVPLAIN_H

#include "kernels/mvcore.h"

/* All lanes of a warp share a row; a tile is two rows, or a pair. */
struct mv_plain {
    gpu_va w[2];
    uint32_t type[2], n_out, n_in;
    bool pairs;
};

/* Items of a row that a lane has on its way at once. */
enum { MV_PLAIN_HELD = 4 };

/* B items of a row from i0 on, step apart. */
KD_FN void mv_plain_fetch(uint32_t type, uint32_t B, const struct wd_mat *m, bool ragged, uint32_t row, uint32_t i0, uint32_t step,
                          uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t b = 0; b < B; b++)
        if (i0 + b * step < m->items)
            wd_load(type, ragged, w[b], m, row * m->items + i0 + b * step);
}

/* Of types by blocks, whose lanes multiply together: one that has no item takes part with the row's last. */
KD_FN void mv_plain_sum_blocks(uint32_t type, const struct wd_mat *m, bool ragged, uint32_t row, const struct mv_x *l, uint32_t from,
                               uint32_t step, float *acc)
{
    for (uint32_t i = from; i - kd_lane() < m->items; i += step) {
        uint32_t w[1][WD_WORDS], has = kd_min_u32(i, m->items - 1);
        float v = *acc;
        wd_load(type, ragged, w[0], m, row * m->items + has);
        mv_dot_rows(type, 1, 1, (const uint32_t(*)[WD_WORDS])w, has, has, l, &v);
        *acc = i < m->items ? v : *acc;
    }
}

/* Items from, from + step .. of a row, B of them on their way at once; a lane's part of the sums. held: w already holds the first B. */
KD_FN void mv_plain_sum(uint32_t type, uint32_t B, const struct wd_mat *m, bool ragged, uint32_t row, const struct mv_x *l,
                        uint32_t from, uint32_t step, bool held, uint32_t (*w)[WD_WORDS], float *acc)
{
    if (wd_by_blocks(type)) {
        mv_plain_sum_blocks(type, m, ragged, row, l, from, step, acc);
        return;
    }
    for (uint32_t i0 = from; i0 < m->items; i0 += B * step) {
        if (!held || i0 != from)
            mv_plain_fetch(type, B, m, ragged, row, i0, step, w);
        KD_UNROLL
        for (uint32_t b = 0; b < B; b++)
            if (i0 + b * step < m->items)
                mv_dot_rows(type, 1, 1, (const uint32_t(*)[WD_WORDS])(w + b), i0 + b * step, i0 + b * step, l, acc);
    }
}

/* Items from + n step of a row, in warps. */
KD_FN void mv_plain_row(uint32_t type, uint32_t B, gpu_va base, uint32_t n_out, uint32_t n_in, uint32_t row,
                        const struct mv_x *l, uint32_t from, uint32_t step, float *acc)
{
    struct wd_mat m = wd_mat(type, base, n_out, n_in);
    uint32_t w[MV_PLAIN_HELD][WD_WORDS];
    mv_plain_sum(type, B, &m, wd_is_ragged(type, base, n_in), row, l, from * KD_WARP + kd_lane(), step * KD_WARP, false, w, acc);
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

#endif
