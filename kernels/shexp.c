/* kernels/shexp.c
 * The shared expert of few rows, by the launches of the router and of the other experts: two launches less a layer. Compiled
 * once per type of weights with KD_SET=<set>, of the shared expert's gate and up, and of the experts' down. */
#include "kernels/klaunch.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"
#include "kernels/moe_down.h"

/* Work-group `group` of `groups` with row r: as k_matvec_<set>_r1 with one pair of matrices. */
KD_FN void sx_gate_up(const kl_router_shared *a, uint32_t group, uint32_t groups, uint32_t r)
{
    enum { TYPE = QSET_A };
    kl_matvec k = { .y = { a->s_y + (uint64_t)r * a->s_n_out * 4 }, .w = { a->s_gate, a->s_up },
                    .n_out = { a->s_n_out, a->s_n_out }, .type = { TYPE, TYPE }, .n_mats = 2, .n_in = a->s_n_in,
                    .act = a->s_act, .gate_up = 1, .tile_end = { a->s_tiles }, .shape = { a->s_shape } };
    struct xq_in in = { .x = a->s_x + (uint64_t)r * a->s_n_in * 4, .norm = a->s_norm, .n_in = a->s_n_in, .rows = 1,
                        .eps = a->s_eps };
    uint32_t w[4][WD_WORDS], u = kd_warp() * groups + group;
    float norm[MO_HELD][8];
    struct mo_mats s = mo_mats(TYPE, &k, 0, 1);
    if (u < a->s_tiles) {
        struct mo_tile t;
        mo_tile(TYPE, &s, u, &t);
        mo_fetch(TYPE, &s, &t, mo_item(&s, 0), w);
        mo_ask(TYPE, &s, &t);
    }
    mo_norm_weights(&in, kd_tid(), norm);
    kd_wait_inputs();
    kd_let_next_start();
    if (r && r >= kd_step_rows(a->step, ROWS_STEP))
        return;
    struct mv_x l = mv_x_own(TYPE, mv_x_layout(a->s_n_pad, true, false, 1));
    mo_prepare(MV_THREADS, &in, &l, true, false, norm);
    if (u < a->s_tiles)
        mo_stream(TYPE, 1, &s, &l, 1, u, groups * MV_WARPS, w);
}

QSET_KERNEL(k_router_shared_, , kl_router_shared)
{
    kd_ask_args(&a, sizeof a, KD_PTR(const void, a.s_x));
    if (kd_group_x() < a.groups) {
        kl_router router;
        __builtin_memcpy(&router, &a, sizeof router);
        mv_router(&router, true, kd_group_x(), a.groups, kd_group_y());
    } else {
        sx_gate_up(&a, kd_group_x() - a.groups, kd_groups_x() - a.groups, kd_group_y());
    }
}

QSET_KERNEL(k_moe_down_shared_, , kl_moe_down_shared)
{
    kl_moe_down down;
    struct mv_shexp shared = { .x = a.s_x + (uint64_t)kd_group_y() * a.s_n_in * 4, .y = a.s_y, .resid = a.s_resid,
                               .scale = a.s_scale, .w = a.s_w, .type = a.s_type, .n_in = a.s_n_in };
    kd_ask_args(&a, sizeof a, KD_PTR(const void, a.x));
    __builtin_memcpy(&down, &a, sizeof down);
    mv_moe_down(&down, &shared);
}
