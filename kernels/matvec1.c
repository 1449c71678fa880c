/* kernels/matvec1.c
 * Decode products of a single row, on Hopper of two as well: MATMUL, PROJ and GATE_UP. Compiled once per set of weight types with
 * KD_SET=<set>; the kernels are k_matvec_<set>_r1 and _r2. How the work is cut comes with the launch (KL_MATVEC): tiles of each matrix, lanes and
 * steps of a row; the dispatch takes only commands here whose rows are aligned and, as gate and up, of one type. */
#include "kernels/klaunch.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"

/* The matrices from `first` on that are of one type. */
KD_FN uint32_t mo_same(const kl_matvec *a, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < a->n_mats && mo_pick(a->type, end) == mo_pick(a->type, first))
        end++;
    return a->gate_up ? 1 : end;
}

/* R rows by work-groups of so many work-items, two by 2 MV_THREADS. made: the product does the command before it too. */
KD_FN void mo_rows_of(uint32_t R, const kl_matvec *a, uint32_t threads, bool made)
{
    uint32_t warps = kd_groups_x() * (threads / KD_WARP), u = kd_warp() * kd_groups_x() + kd_group_x();
    uint32_t w[4][WD_WORDS], mats = a->gate_up ? 1 : a->n_mats, first = 0, end = mo_same(a, 0);
    struct xq_in in = { .x = a->x, .norm = a->norm, .ldx = a->ldx, .n_in = a->n_in, .rows = 1, .eps = a->eps };
    /* the first tile may be of a later matrix: none of an earlier type is this warp's then */
    while (end < mats && u >= mo_pick(a->tile_end, end - 1)) {
        first = end;
        end = mo_same(a, first);
    }
    bool any = u < mo_pick(a->tile_end, end - 1);
    if (any) {
        QSET_FOR(mo_pick(a->type, first), {
            struct mo_mats s = mo_mats(type, a, first, end);
            struct mo_tile t;
            mo_tile(type, &s, u, &t);
            mo_fetch(type, &s, &t, mo_item(&s, 0), w);
            if (a->ask & KL_ASK_ALL)
                mo_ask(type, &s, &t);
        })
    }
    float norm[MO_HELD][8];
    mo_norm_weights(&in, R == 1 ? kd_tid() : kd_tid() % MV_THREADS, norm);
    mv_book(QSET_ALONE);
    kd_ask_args(a, sizeof *a, KD_PTR(const void, a->x));
    bool late = a->ask & KL_ASK_LATE;
    if (late)
        kd_see_inputs();
    else
        kd_wait_inputs();
    kd_let_next_start();
    uint32_t rows = R == 1 ? 1 : kd_step_rows(a->step, a->rows);
    if ((R == 1 && a->rows == ROWS_OUT && kd_step_rows(a->step, ROWS_OUT) == 0) || !rows) /* looking costs a turn to memory */
        return;
    bool quants = false, floats = false;
    for (uint32_t m = 0; m < a->n_mats; m++)
        QSET_FOR(mo_pick(a->type, m), quants |= !mv_is_float(type); floats |= mv_is_float(type))
    struct mv_x l = mv_x_own(QSET_ALONE, mv_x_layout(a->n_pad, quants, floats, R));
    l.last = R - 1;
    if (R == 2)
        mo_prepare_two(&in, &l, rows, quants, floats, norm);
    else if (made)
        mo_prepare_made(a, &l, quants, floats, norm);
    else
        mo_prepare(threads, &in, &l, quants, floats, norm);
    for (bool filled = true; any; filled = false) {
        QSET_FOR(mo_pick(a->type, first), {
            struct mo_mats s = mo_mats(type, a, first, end);
            if (!filled) {
                struct mo_tile t;
                mo_tile(type, &s, u, &t);
                mo_fetch(type, &s, &t, mo_item(&s, 0), w);
            }
            mo_stream(type, R, &s, &l, rows, u, warps, w);
        })
        while (u < mo_pick(a->tile_end, end - 1))
            u += warps;
        if (end >= mats)
            break;
        first = end;
        end = mo_same(a, first);
        any = u < mo_pick(a->tile_end, mats - 1);
    }
    if (late)
        kd_wait_inputs();
}

/* MV_THREADS work-items, or MV_WIDE where there is one work-group a core: it prepares x once, and by twice as many. */
#if defined(__AMDGCN__) || defined(KD_MSL)
#define MO_THREADS MV_THREADS
#else
#define MO_THREADS kd_group_size()
#endif
QSET_KERNEL(k_matvec_, _r1, kl_matvec) { mo_rows_of(1, &a, MO_THREADS, false); }
QSET_KERNEL(k_matvec_, _r1_made, kl_matvec) { mo_rows_of(1, &a, MV_THREADS, true); }
#if defined(KD_SM90) || !(defined(__NVPTX__) || defined(__AMDGCN__) || defined(KD_MSL))
QSET_KERNEL(k_matvec_, _r2, kl_matvec) { mo_rows_of(2, &a, MV_WIDE, false); }
#endif
