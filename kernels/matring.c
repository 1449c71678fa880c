/* kernels/matring.c
 * Decode products of a single row (MATMUL, PROJ, GATE_UP) where a launch can begin while the one before it runs: the sums of
 * kernels/mvone.h with the weights on their way through a ring of each warp in shared memory (matring_shared.h). Copies take no
 * registers, so a work-group that finds room when one of the launch before has ended asks for all that its ring holds before
 * it waits for its input, and the device goes on reading. Nobody waits for anybody's copies but its own.
 *
 * Compiled once per weight type with KD_SET=<set>; the kernel is k_matvec_<set>_ring. Not for the K types, whose items are
 * large: to read them back from shared memory costs more than their ring brings (doc/speed-log.md). */
#include "kernels/hw/mma.h"
#include "kernels/klaunch.h"
#include "kernels/matring_shared.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"

#define TYPE ((uint32_t)QSET_A)

/* Item i of all slots of a tile on its way to the stage at byte `to` of shared memory. */
KD_FN void mr_copy(const struct mo_tile *t, uint32_t i, uint32_t to)
{
    KD_UNROLL
    for (uint32_t k = 0; k < mo_slots(TYPE); k++)
        KD_UNROLL
        for (uint32_t j = 0; j < mr_pieces(TYPE); j++) {
            struct mr_piece p = mr_piece(TYPE, j);
            gpu_va from = t->p[k][p.plane] + mr_off(TYPE, j, i);
            uint32_t at = to + mr_piece_at(TYPE, j) + (k * KD_WARP + kd_lane()) * p.size;
            if (p.size == 16)
                kd_copy16(KD_SHARED_AT(uint8_t, at), KD_PTR(const uint8_t, from), true);
            else if (p.size == 8)
                kd_copy8(KD_SHARED_AT(uint8_t, at), KD_PTR(const uint8_t, from));
            else
                kd_copy4(KD_SHARED_AT(uint8_t, at), KD_PTR(const uint8_t, p.part ? from & ~(gpu_va)3 : from));
        }
}

/* A stage as wd_load's words. */
KD_FN void mr_load(const struct mo_tile *t, uint32_t i, uint32_t at, uint32_t (*w)[WD_WORDS])
{
    KD_UNROLL
    for (uint32_t k = 0; k < mo_slots(TYPE); k++)
        KD_UNROLL
        for (uint32_t j = 0; j < mr_pieces(TYPE); j++) {
            struct mr_piece p = mr_piece(TYPE, j);
            uint32_t from = at + mr_piece_at(TYPE, j) + (k * KD_WARP + kd_lane()) * p.size;
            if (p.size == 16) {
                mv_get4(w[k] + p.word, from);
            } else if (p.size == 8) {
                kd_u32x2 v = *KD_SHARED_AT(const kd_u32x2, from);
                w[k][p.word] = v[0], w[k][p.word + 1] = v[1];
            } else {
                uint32_t v = *KD_SHARED_AT(const uint32_t, from);
                uint32_t low = (uint32_t)t->p[k][p.plane] + mr_off(TYPE, j, i);
                w[k][p.word] = p.part ? v >> (low & 3) * 8 & (TYPE == QT_MXFP4 ? 0xffu : 0xffffu) : v;
            }
        }
}

/* ---- where a warp is ---- */

struct mr_cursor {
    struct mo_tile t;
    uint32_t u, step, end; /* its tile of the launch and step; behind the last tile */
};

KD_FN void mr_next(struct mr_cursor *c, const struct mo_mats *s, uint32_t stride)
{
    if (++c->step < s->steps)
        return;
    c->step = 0;
    c->u += stride;
    if (c->u < c->end)
        mo_next(TYPE, s, c->u, stride, &c->t);
}

KD_FN void mr_feed(struct mr_cursor *c, const struct mo_mats *s, uint32_t stride, uint32_t to)
{
    if (c->u < c->end) {
        mr_copy(&c->t, mo_item(s, c->step), to);
        mr_next(c, s, stride);
    }
    kd_copy_commit(); /* also of nothing: the groups are counted */
}

/* All tiles of this warp, whose ring begins at byte `ring` and is full. */
KD_FN void mr_stream(const struct mo_mats *s, struct mr_cursor *at, struct mr_cursor *feed, uint32_t ring, uint32_t stride,
                     const struct mv_x *l)
{
    const uint32_t stage = mr_stage_bytes(TYPE);
    float acc[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    struct mo_with with = mo_without();
    for (uint32_t slot = ring; at->u < at->end; slot = slot < ring + (MR_STAGES - 1) * stage ? slot + stage : ring) {
        uint32_t w[4][WD_WORDS], item = mo_item(s, at->step);
        kd_copy_wait_3(); /* all stages but the last three */
        mr_load(&at->t, item, slot, w);
        if (at->step == 0)
            mo_with_own(TYPE, s, &at->t, 0, &with);
        mv_dot_rows(TYPE, mo_slots(TYPE), 1, (const uint32_t(*)[WD_WORDS])w, item, at->step * s->lanes + s->il, l, acc);
        mr_feed(feed, s, stride, slot);
        if (at->step + 1 == s->steps)
            mo_finish(TYPE, 1, s, &at->t, 1, acc, &with);
        mr_next(at, s, stride);
    }
}
_Static_assert(MR_STAGES == 4, "mr_stream waits for all copies but three stages'");

QSET_KERNEL(k_matvec_, _ring, kl_matvec)
{
    kd_let_next_start();
    uint32_t stride = kd_groups_x() * kd_n_warps(), mats = a.gate_up ? 1 : a.n_mats;
    struct mv_x l = mv_x_own(TYPE, mv_x_layout(a.n_pad, true, false, 1));
    uint32_t ring = ((l.end + 15) & ~15u) + kd_warp() * MR_STAGES * mr_stage_bytes(TYPE);
    struct mo_mats s = mo_mats(TYPE, &a, 0, mats);
    struct mr_cursor at = { .u = kd_warp() * kd_groups_x() + kd_group_x(), .end = mo_pick(a.tile_end, mats - 1) }, feed;
    if (at.u < at.end)
        mo_tile(TYPE, &s, at.u, &at.t);
    feed = at;
    for (uint32_t i = 0; i < MR_STAGES; i++)
        mr_feed(&feed, &s, stride, ring + i * mr_stage_bytes(TYPE));
    struct xq_in in = { .x = a.x, .norm = a.norm, .n_in = a.n_in, .rows = 1, .eps = a.eps };
    float norm[MO_HELD][8];
    mo_norm_weights(&in, kd_tid(), norm);
    kd_ask_args(&a, sizeof a, KD_PTR(const void, a.x));
    kd_wait_inputs();
    if (a.rows == ROWS_OUT && kd_step_rows(a.step, ROWS_OUT) == 0) /* a step has a row; looking costs a turn to memory */
        return;
    mo_prepare(kd_group_size(), &in, &l, true, false, norm);
    mr_stream(&s, &at, &feed, ring, stride, &l);
}
