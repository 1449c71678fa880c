/* kernels/moe_down.h
 * MOE_DOWN as the work-groups of a launch: its own (kernels/matvec.c), or one that also does the shared expert's down product
 * before it (kernels/shexp.c). One matrix, so always of one type. Included behind kernels/qset.h. */
#ifndef ZINC_KERNELS_MOE_DOWN_H
#define ZINC_KERNELS_MOE_DOWN_H

#include "kernels/router.h"

#if !QSET_ANY

/* Tiles of 4 rows a lane; items of the K types are too large for that. */
KD_FN bool mv_has_4(uint32_t type) { return wd_slots(type) >= 8; }

/* ---- the shared expert's product ---- */

/* MATMUL whose result is the resid of the MOE_DOWN behind it, for a row of it: y[r] = w x * scale[r] + resid[r]; scale and resid 0:
 * none. */
struct mv_shexp {
    gpu_va x, y, resid, scale, w;
    uint32_t type, n_in;
};

/* Types that w has beside the experts' own: f for type, a constant. */
#define MV_SHEXP_FOR(t, ...)                                                                                           \
    if ((t) == QSET_A)                                                                                                 \
        QSET_WITH(QSET_A, __VA_ARGS__)                                                                                 \
    else if ((t) == QT_Q8_0)                                                                                           \
        QSET_WITH(QT_Q8_0, __VA_ARGS__)                                                                                \
    else                                                                                                               \
        QSET_WITH(QT_Q6_K, __VA_ARGS__)

/* Its x in shared memory, from byte `at` on; ends with a barrier. */
KD_FN struct mv_x mv_shexp_x(const struct mv_shexp *b, uint32_t at)
{
    struct mv_x l = { 0 };
    struct xq_in in = { .x = b->x, .n_in = b->n_in, .rows = 1 };
    MV_SHEXP_FOR(b->type, l = mv_x_own(type, mv_x_layout(mv_padded(type, b->n_in), true, false, 1));)
    at -= MV_HEAD_BYTES;
    l.q += at, l.meta += at, l.f += at, l.end += at;
    for (uint32_t c = kd_tid(); c < l.n_pad / 8; c += MV_THREADS) {
        float v[8];
        xq_load_even8(v, b->x, c * 8, b->n_in);
        xq_chunk(&in, &l, true, false, 0, c, v, 0, 0.0f);
    }
    kd_barrier();
    return l;
}

/* Rows of w in groups of `rows`, each `stride` behind the one before, the first at `first`. */
struct mv_shexp_rows {
    uint32_t first, stride, rows, n; /* n: all of them */
};
KD_FN void mv_shexp_load(uint32_t type, const struct mv_job *j, const struct mv_shexp_rows *o, uint32_t n_out, uint32_t i, uint32_t step,
                         uint32_t *w)
{
    uint32_t row = kd_min_u32(o->first + i / o->rows * o->stride + i % o->rows, n_out - 1);
    wd_load(type, false, w, &j->m, row * j->g.items + kd_min_u32(step * j->g.lanes + j->il, j->g.items - 1));
}
/* Its products with these rows, to to[0 .. n). What comes next is asked for before it is wanted. */
KD_FN void mv_shexp_products(const struct mv_shexp *b, const struct mv_x *l, uint32_t n_out, const struct mv_shexp_rows *o,
                             KD_SHARED float *to)
{
    MV_SHEXP_FOR(b->type, {
        struct mv_job j = mv_job(type, b->w, 0, n_out, b->n_in, false);
        uint32_t next[WD_WORDS], i = kd_warp() * j.abreast, step = 0, unused, left;
        float acc[1] = { 0.0f };
        if (i < o->n)
            mv_shexp_load(type, &j, o, n_out, i + j.side, 0, next);
        while (i < o->n) {
            uint32_t w[1][WD_WORDS], now = i, ix = step * j.g.lanes + j.il;
            bool last = ++step == j.g.steps;
            KD_UNROLL
            for (uint32_t k = 0; k < WD_WORDS; k++)
                w[0][k] = next[k];
            if (last)
                i += MV_WARPS * j.abreast, step = 0;
            if (i < o->n)
                mv_shexp_load(type, &j, o, n_out, i + j.side, step, next);
            mv_dot_rows(type, 1, 1, (const uint32_t(*)[WD_WORDS])w, kd_min_u32(ix, j.g.items - 1), ix, l, acc);
            if (!last)
                continue;
            mv_reduce(1, 1, acc, j.g.lanes, &unused, &left);
            if (j.il == 0 && now + j.side < o->n)
                to[now + j.side] = acc[0];
            acc[0] = 0.0f;
        }
    })
}

/* What is added to y[at] of MOE_DOWN, in row r: the product v there, finished and stored. */
KD_FN float mv_shexp_end(const struct mv_shexp *b, uint32_t r, uint64_t at, float v, float resid)
{
    if (b->scale)
        v *= KD_PTR(const float, b->scale)[r];
    if (b->resid)
        v += resid;
    KD_PTR(float, b->y)[at] = v;
    return v;
}

/* ---- the experts' ---- */

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

/* What a unit's row is combined with: each work-item has one, as a unit has at most MV_THREADS. Read behind the products, one after
 * the other, each would be a turn to memory. */
enum { MV_DOWN_HELD = 4 };
struct mv_down_ends {
    float b[MV_DOWN_HELD], resid; /* biases of the first choices; what is added */
};
KD_FN float mv_down_bias(const kl_moe_down *a, const struct mv_down *d, uint32_t j, uint32_t n)
{
    return a->b ? KD_PTR(const float, a->b)[(uint64_t)d->ids[j] * a->n_out + n] : 0.0f;
}
KD_FN void mv_down_ask_biases(const kl_moe_down *a, const struct mv_down *d, uint32_t unit, struct mv_down_ends *e)
{
    uint32_t n = unit * d->rows + kd_tid();
    bool is = kd_tid() < d->rows && n < a->n_out;
    KD_UNROLL
    for (uint32_t j = 0; j < MV_DOWN_HELD; j++)
        e->b[j] = is && j < a->k ? mv_down_bias(a, d, j, n) : 0.0f;
}
KD_FN void mv_down_ask_resid(const kl_moe_down *a, const struct mv_shexp *b, const struct mv_down *d, uint32_t unit, uint32_t r,
                             struct mv_down_ends *e)
{
    uint32_t n = unit * d->rows + kd_tid();
    gpu_va resid = b ? b->resid : a->resid;
    e->resid = resid && kd_tid() < d->rows && n < a->n_out ? KD_PTR(const float, resid)[(uint64_t)r * a->n_out + n] : 0.0f;
}

/* s with choice j. */
KD_FN float mv_down_add(const kl_moe_down *a, const struct mv_down *d, uint32_t j, float v, float bias, float s,
                        KD_SHARED const float *weights)
{
    if (a->sd)
        v *= KD_PTR(const float, a->sd)[d->ids[j]];
    if (a->b)
        v += bias;
    return j ? k_fma(weights[j], v, s) : weights[0] * v;
}

KD_FN void mv_down_sum(const kl_moe_down *a, const struct mv_shexp *b, const struct mv_down *d, uint32_t unit, uint32_t r,
                       KD_SHARED const float *res, KD_SHARED const float *beside, KD_SHARED const float *weights,
                       const struct mv_down_ends *e)
{
    uint32_t i = kd_tid(), n = unit * d->rows + i, held = b ? 0 : MV_DOWN_HELD; /* models with both have no biases */
    if (i >= d->rows || n >= a->n_out)
        return;
    uint64_t at = (uint64_t)r * a->n_out + n;
    float s = 0.0f;
    KD_UNROLL
    for (uint32_t j = 0; j < held; j++)
        if (j < a->k)
            s = mv_down_add(a, d, j, res[j * d->rows + i], e->b[j], s, weights);
    for (uint32_t j = held; j < a->k; j++)
        s = mv_down_add(a, d, j, res[j * d->rows + i], mv_down_bias(a, d, j, n), s, weights);
    if (b)
        s += mv_shexp_end(b, r, at, beside[i], e->resid);
    else if (a->resid)
        s += e->resid;
    KD_PTR(float, a->y)[at] = s;
}

/* The row's experts and their weights, to shared memory from byte `at` on; where they are not chosen yet (logits), the ids alone,
 * and mv_down_weigh does the rest. */
struct mv_down_choice {
    KD_SHARED uint32_t *ids;
    KD_SHARED float *weights;
    struct mv_choice own;
};

KD_FN struct mv_down_choice mv_down_choose(const kl_moe_down *a, uint32_t r, uint32_t at)
{
    struct mv_down_choice c = { .ids = KD_SHARED_AT(uint32_t, at), .weights = KD_SHARED_AT(float, at + a->k * 4) };
    if (MV_CHOOSES && a->logits) {
        c.own = mv_choice(a->n_expert, a->k, at);
        c.ids = c.own.id;
        c.weights = c.own.weight;
        mv_choose(&c.own, mv_logits(a->logits, a->n_expert, r));
        return c;
    }
    for (uint32_t j = kd_tid(); j < a->k; j += MV_THREADS) {
        c.ids[j] = mv_expert(a->ids, (uint64_t)r * a->k + j, a->n_expert);
        c.weights[j] = KD_PTR(const float, a->weights)[(uint64_t)r * a->k + j];
    }
    kd_barrier();
    return c;
}

/* One work-group leaves them where ROUTER would have. */
KD_FN void mv_down_chosen(const kl_moe_down *a, const struct mv_down_choice *c, uint32_t r)
{
    if (!(MV_CHOOSES && a->logits) || kd_group_x())
        return;
    for (uint32_t j = kd_tid(); j < a->k; j += MV_THREADS) {
        KD_PTR(uint32_t, a->ids)[(uint64_t)r * a->k + j] = c->ids[j];
        KD_PTR(float, a->weights)[(uint64_t)r * a->k + j] = c->weights[j];
    }
}

/* xq_prepare for the choices' rows, with more than one chunk of a work-item on its way at once. */
#ifdef KD_WALK
enum { MV_DOWN_CHUNKS = 1 }; /* a walk's bodies share one kernel's registers */
#else
enum { MV_DOWN_CHUNKS = 2 };
#endif
KD_FN void mv_down_prepare(const struct xq_in *in, const struct mv_x *l, bool quants, bool floats)
{
    uint32_t chunks = l->n_pad / 8, r = 0, c = kd_tid();
    while (r < in->rows) {
        float v[MV_DOWN_CHUNKS][8];
        uint32_t row[MV_DOWN_CHUNKS], at[MV_DOWN_CHUNKS];
        KD_UNROLL
        for (uint32_t h = 0; h < MV_DOWN_CHUNKS; h++) {
            for (; c >= chunks; c -= chunks) /* rows follow each other without a gap, warp by warp */
                r++;
            row[h] = r, at[h] = c;
            if (r < in->rows)
                xq_load8(v[h], xq_row(in, r), c * 8, in->n_in);
            c += MV_THREADS;
        }
        KD_UNROLL
        for (uint32_t h = 0; h < MV_DOWN_CHUNKS; h++)
            if (row[h] < in->rows)
                xq_chunk(in, l, quants, floats, row[h], at[h], v[h], 0, 0.0f);
        for (; c >= chunks; c -= chunks)
            r++;
    }
    kd_barrier();
}

/* b: the shared expert's product before it, or NULL. */
KD_FN void mv_down_run(uint32_t type, uint32_t T, const kl_moe_down *a, const struct mv_shexp *b, const struct xq_in *in,
                       const struct mv_x *l, uint32_t r)
{
    uint32_t w[WD_SLOTS][WD_WORDS], task = kd_warp(), unit = kd_group_x(), parity = 0, at = l->end;
    struct mv_down d = { .w = a->down, .stride = a->stride, .tiles = mv_down_tiles(a->k),
                         .rows = mv_down_rows(type, a->n_in, a->k, T),
                         .j = mv_job(type, a->down, 0, a->n_out, a->n_in, false) };
    d.tasks = d.tiles * a->k;
    uint32_t units = kd_div_up(a->n_out, d.rows), res_floats = a->k * d.rows;
    KD_SHARED float *res = KD_SHARED_AT(float, at), *beside = res + 2 * res_floats;
    uint32_t own = unit < units ? kd_div_up(units - unit, kd_groups_x()) : 0; /* units of this work-group */
    at += 8 * res_floats + (b ? (own * d.rows * 4 + 15) & ~15u : 0);
    struct mv_down_choice c = mv_down_choose(a, r, at);
    d.ids = c.ids;
    if (unit < units && task < d.tasks)
        mv_down_fill(type, T, &d, unit, task, w);
    struct mv_down_ends ends, next;
    if (!b)
        mv_down_ask_biases(a, &d, unit, &ends);
    if (b) {
        struct mv_x lb = mv_shexp_x(b, at + mv_choice_bytes(a->n_expert));
        struct mv_shexp_rows o = { unit * d.rows, kd_groups_x() * d.rows, d.rows, own * d.rows };
        mv_shexp_products(b, &lb, a->n_out, &o, beside);
    }
    if (MV_CHOOSES && a->logits)
        mv_weigh(&c.own, a->gating, a->scale, a->expert_scale);
    if (a->early) {
        kd_wait_inputs();
        kd_let_next_start();
    }
    mv_down_chosen(a, &c, r);
    mv_down_ask_resid(a, b, &d, unit, r, &ends);
    mv_down_prepare(in, l, !mv_is_float(type), mv_is_float(type));
    for (; unit < units; unit += kd_groups_x(), parity ^= 1, beside += d.rows) {
        KD_SHARED float *to = res + parity * res_floats;
        if (!b)
            mv_down_ask_biases(a, &d, unit + kd_groups_x(), &next);
        mv_down_ask_resid(a, b, &d, unit + kd_groups_x(), r, &next);
        for (task = kd_warp(); task < d.tasks; task += MV_WARPS) {
            bool inside = task + MV_WARPS < d.tasks;
            uint32_t unit2 = inside ? unit : unit + kd_groups_x(), task2 = inside ? task + MV_WARPS : kd_warp();
            mv_down_task(type, T, &d, l, unit, task, unit2, task2, unit2 < units, w, to);
        }
        kd_barrier();
        mv_down_sum(a, b, &d, unit, r, to, beside, c.weights, &ends);
        ends = next;
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

KD_FN void mv_moe_down(const kl_moe_down *a, const struct mv_shexp *b)
{
    uint32_t r = kd_group_y();
    struct xq_in in = { .x = a->x, .ldx = a->n_in, .n_in = a->n_in, .rows = a->k, .row0 = r * a->k };
    mv_book(QSET_ALONE);
    if (a->early) {
        kd_see_inputs();
    } else {
        kd_wait_inputs();
        kd_let_next_start();
    }
    if (r && r >= kd_step_rows(a->step, ROWS_STEP)) {
        if (a->early)
            kd_wait_inputs();
        return;
    }
    struct mv_x l = mv_x_own(QSET_ALONE, mv_down_x(a->type, a->n_in, a->k));
    QSET_FOR(a->type, {
        if (!b && wd_is_ragged(type, a->down | a->stride, a->n_in)) {
            if (a->early)
                kd_wait_inputs();
            mv_down_prepare(&in, &l, !mv_is_float(type), mv_is_float(type));
            mv_down_plain(a, &l, r);
        } else if (!mv_has_4(type) || mv_down_units(a, type, 4) * 2 > mv_down_units(a, type, 2)) {
            mv_down_run(type, 2, a, b, &in, &l, r);
        } else {
            mv_down_run(type, 4, a, b, &in, &l, r);
        }
    })
}

#endif
#endif
