/* kernels/gemm_item.h
 * What the matrix kernels have in common: which tile of weights and which tile of positions a work item joins, and
 * how a finished product leaves. A tile has KL_TILE_ROWS weight rows; of a pair (gate and up) it holds 8 rows of one
 * and 8 of the other in turn, so that both products of a column meet in one work-item of a matrix unit's fragment. */
#ifndef ZINC_KERNELS_GEMM_ITEM_H
#define ZINC_KERNELS_GEMM_ITEM_H

#include <stdbool.h>

#include "kernels/kdev.h"
#include "kernels/klaunch.h"

struct gemm_item {
    uint32_t mat, tile; /* tile: of that matrix (pair) */
    uint32_t expert;
    uint32_t n0, n;     /* positions */
};

/* Output columns of a tile. */
KD_FN uint32_t gemm_tile_cols(const kl_gemm *a) { return a->pair ? KL_TILE_ROWS / 2 : KL_TILE_ROWS; }

/* Runs of `by` tiles of a matrix, over all matrices; a matrix's last run may have fewer. */
KD_FN uint32_t gemm_tiles_by(const kl_gemm *a, uint32_t by)
{
    uint32_t cols = gemm_tile_cols(a) * by, t = kd_div_up(a->n_out[0], cols);
    for (uint32_t m = 1; m < a->n_mats && !a->pair; m++)
        t += kd_div_up(a->n_out[m], cols);
    return t;
}
KD_FN uint32_t gemm_tiles(const kl_gemm *a) { return gemm_tiles_by(a, 1); }

/* Run t of all of them into mat and tile, its first. */
KD_FN void gemm_find_tiles(const kl_gemm *a, uint32_t by, uint32_t t, struct gemm_item *it)
{
    uint32_t m = 0;
    for (; !a->pair && m + 1 < a->n_mats; m++) {
        uint32_t n = kd_div_up(a->n_out[m], KL_TILE_ROWS * by);
        if (t < n)
            break;
        t -= n;
    }
    it->mat = m;
    it->tile = t * by;
}
KD_FN void gemm_find_tile(const kl_gemm *a, uint32_t t, struct gemm_item *it) { gemm_find_tiles(a, 1, t, it); }

/* Slot s of the experts' list; false: an empty one. */
KD_FN bool gemm_find_slot(const kl_gemm *a, uint32_t s, struct gemm_item *it)
{
    kd_u32x4 v = KD_PTR(const kd_u32x4, a->tiles)[s];
    it->expert = v[0];
    it->n0 = v[1];
    it->n = v[2];
    return it->n > 0;
}

/* Row r of the item's tile: its matrix, and its row there, which may be past the end. */
KD_FN uint32_t gemm_row_mat(const kl_gemm *a, const struct gemm_item *it, uint32_t r)
{
    return a->pair ? r / 8 % 2 : it->mat;
}
KD_FN uint32_t gemm_row_col(const kl_gemm *a, const struct gemm_item *it, uint32_t r)
{
    return a->pair ? it->tile * (KL_TILE_ROWS / 2) + r / 16 * 8 + r % 8 : it->tile * KL_TILE_ROWS + r;
}

/* The number beside a matrix. */
KD_FN float gemm_number(const kl_gemm *a, const struct gemm_item *it, uint32_t mat)
{
    return a->wscale[mat] ? KD_PTR(const float, a->wscale[mat])[it->expert] : 1.0f;
}

KD_FN float gemm_bias(const kl_gemm *a, const struct gemm_item *it, uint32_t mat, uint32_t col)
{
    if (!a->b[mat] || col >= a->n_out[mat])
        return 0.0f;
    return KD_PTR(const float, a->b[mat])[(uint64_t)it->expert * a->n_out[mat] + col];
}

/* The row of y that position p goes to. */
KD_FN uint32_t gemm_row(const kl_gemm *a, uint32_t p) { return a->map ? KD_PTR(const uint32_t, a->map)[p] : p; }

/* The finish of a product after bias: scale, then residual, then the soft cap. */
KD_FN void gemm_finish(const kl_gemm *a, const struct gemm_item *it, uint32_t p, uint32_t col, float v)
{
    uint32_t row = gemm_row(a, p);
    if (a->scale)
        v *= KD_PTR(const float, a->scale)[row];
    if (a->resid)
        v += KD_PTR(const float, a->resid)[(uint64_t)row * a->ldr + col];
    if (a->softcap > 0.0f)
        v = a->softcap * k_tanh(v / a->softcap);
    KD_PTR(float, a->y[it->mat])[(uint64_t)row * a->ld[it->mat] + col] = v;
}

#endif
