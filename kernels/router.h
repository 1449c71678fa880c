/* kernels/router.h
 * ROUTER as work-groups of a launch: its own (kernels/matvec.c), or one that it shares (kernels/shexp.c). Included behind
 * kernels/qset.h. */
#ifndef ZINC_KERNELS_ROUTER_H
#define ZINC_KERNELS_ROUTER_H

#include "kernels/choice.h"
#include "kernels/klaunch.h"
#include "kernels/mvplain.h"

/* Of row r; the work-groups of a launch hand them to the last one. */
KD_FN KD_COHERENT float *mv_logits(gpu_va logits, uint32_t n_expert, uint32_t r)
{
    return (KD_COHERENT float *)KD_PTR(float, logits) + (uint64_t)r * n_expert;
}

KD_FN uint32_t mv_expert(gpu_va ids, uint64_t pair, uint32_t n_expert)
{
    return kd_min_u32(KD_PTR(const uint32_t, ids)[pair], n_expert - 1);
}

/* Row `row` of the router, or the shared expert's gate behind them; this warp's part of the sum. */
KD_FN float mv_router_part(const kl_router *a, bool f32, uint32_t row, uint32_t part, const struct mv_x *l)
{
    float acc[1] = { 0.0f };
    if (row < a->n_expert && f32)
        mv_plain_row(QT_F32, 4, a->w, a->n_expert, a->n_in, row, l, part, MV_ROUTER_SPLIT, acc);
    else if (row < a->n_expert)
        acc[0] = mv_row_part(a->type, a->w, a->n_expert, a->n_in, row, l, part, MV_ROUTER_SPLIT);
    else if (a->shared_w && row == a->n_expert)
        mv_plain_row(QT_F32, 4, a->shared_w, 1, a->n_in, 0, l, part, MV_ROUTER_SPLIT, acc);
    return kd_warp_sum(acc[0]);
}

/* An F32 row, a warp's part of it, whose first weights are asked for before what makes x is there, or under the row before. */
struct mv_router_row {
    struct wd_mat m;
    uint32_t row, from, w[MV_PLAIN_HELD][WD_WORDS];
    bool held;
};
enum { MV_ROUTER_STEP = MV_ROUTER_SPLIT * KD_WARP };

KD_FN void mv_router_ask(const kl_router *a, uint32_t row, uint32_t part, struct mv_router_row *f)
{
    bool share = row >= a->n_expert;
    gpu_va base = share ? a->shared_w : a->w;
    f->m = wd_mat(QT_F32, base, share ? 1 : a->n_expert, a->n_in);
    f->row = share ? 0 : row;
    f->from = part * KD_WARP + kd_lane();
    f->held = row < a->n_expert + (a->shared_w != 0) && !wd_is_ragged(QT_F32, base, a->n_in);
    if (f->held)
        mv_plain_fetch(QT_F32, MV_PLAIN_HELD, &f->m, false, f->row, f->from, MV_ROUTER_STEP, f->w);
}

KD_FN float mv_router_asked(struct mv_router_row *f, const struct mv_x *l)
{
    float acc[1] = { 0.0f };
    mv_plain_sum(QT_F32, MV_PLAIN_HELD, &f->m, false, f->row, l, f->from, MV_ROUTER_STEP, true, f->w, acc);
    return kd_warp_sum(acc[0]);
}

KD_FN void mv_router_store(const kl_router *a, uint32_t row, uint32_t r, float v)
{
    if (row < a->n_expert)
        mv_logits(a->logits, a->n_expert, r)[row] = a->b ? v + KD_PTR(const float, a->b)[row] : v;
    else if (a->shared_w && row == a->n_expert)
        KD_PTR(float, a->share)[r] = k_sigmoid(v);
}

/* Work-group `group` of `groups` with row r. f32, a constant: the router's weights are F32 whatever the set's are. */
KD_FN void mv_router(const kl_router *a, bool f32, uint32_t group, uint32_t groups, uint32_t r)
{
    enum { AT_ONCE = MV_WARPS / MV_ROUTER_SPLIT };
    uint32_t total = a->n_expert + (a->shared_w != 0), part = kd_warp() % MV_ROUTER_SPLIT, own = f32 ? QT_F32 : QSET_ALONE;
    uint32_t turn = kd_warp() / MV_ROUTER_SPLIT, row_bytes = (uint32_t)qtype_row_bytes((enum qtype)a->type, a->n_in);
    struct xq_in in = { .x = a->x, .norm = a->norm, .ldx = a->n_in, .n_in = a->n_in, .rows = 1, .row0 = r, .eps = a->eps };
    struct xq_kept kept;
    struct mv_x l = mv_x_own(own, mv_router_x(f32 ? QT_F32 : a->type, a->n_in));
    if (f32 || mv_is_float(a->type))
        for (uint32_t row = group * AT_ONCE + turn; row < total; row += groups * AT_ONCE) {
            gpu_va w = row < a->n_expert ? a->w + (uint64_t)row * row_bytes : a->shared_w;
            for (uint32_t o = (part * KD_WARP + kd_lane()) * MV_LINE; o < row_bytes;
                 o += MV_ROUTER_SPLIT * KD_WARP * MV_LINE)
                kd_prefetch(KD_PTR(const void, w + o));
        }
    struct mv_router_row next = { .held = false };
    const bool asks = MV_CHOOSES && own == QT_F32 && (f32 || !QSET_ANY);
    if (asks)
        mv_router_ask(a, group * AT_ONCE + turn, part, &next);
    xq_norm_weights(&in, XQ_KEEP, &kept);
    mv_book(own);
    kd_wait_inputs();
    kd_let_next_start();
    if (r && r >= kd_step_rows(a->step, ROWS_STEP)) /* looking costs a turn to memory; a step has a row */
        return;
    bool quants = false;
    if (!f32) {
        QSET_FOR(a->type, quants = !mv_is_float(type))
    }
    xq_prepare(&in, &l, quants, true, XQ_KEEP, &kept);
    uint32_t parity = 0;
    for (uint32_t row0 = group * AT_ONCE; row0 < total; row0 += groups * AT_ONCE, parity ^= 1) {
        KD_SHARED float *parts = KD_SHARED_AT(float, 256) + parity * MV_WARPS;
        struct mv_router_row now = next;
        if (asks)
            mv_router_ask(a, row0 + groups * AT_ONCE + turn, part, &next);
        float v = asks && now.held ? mv_router_asked(&now, &l) : mv_router_part(a, f32, row0 + turn, part, &l);
        if (kd_lane() == 0)
            parts[kd_warp()] = v;
        kd_barrier();
        if (kd_tid() < AT_ONCE) {
            v = parts[kd_tid() * MV_ROUTER_SPLIT];
            for (uint32_t i = 1; i < MV_ROUTER_SPLIT; i++)
                v += parts[kd_tid() * MV_ROUTER_SPLIT + i];
            mv_router_store(a, row0 + kd_tid(), r, v);
        }
    }
    if (!a->counters)
        return;
    KD_SHARED uint32_t *last = KD_SHARED_AT(uint32_t, 384);
    kd_barrier();
    if (kd_tid() == 0)
        *last = kd_arrive(KD_PTR(uint32_t, a->counters) + r, groups) == groups - 1;
    kd_barrier();
    if (!*last)
        return;
    struct mv_choice c = mv_choice(a->n_expert, a->k, l.end);
    mv_choose(&c, mv_logits(a->logits, a->n_expert, r));
    mv_weigh(&c, a->gating, a->scale, a->expert_scale);
    kd_barrier();
    for (uint32_t j = kd_tid(); j < a->k; j += MV_THREADS) {
        KD_PTR(uint32_t, a->ids)[(uint64_t)r * a->k + j] = c.id[j];
        KD_PTR(float, a->weights)[(uint64_t)r * a->k + j] = c.weight[j];
    }
}

#endif
