/* kernels/gemm.c: products of prompts on the matrix instructions of a warp (kernels/hw/tile.h), for every target. A
 * work-group joins one tile of 128 weight rows with runs of 64 positions; each of its 128 work-items dequantises one
 * weight row, each of its four warps multiplies 32 of them. A sum goes along k in ascending steps of 16 and never
 * depends on what else is in the tile.
 * Grid x: tiles of weights, y: tiles of 64 positions, or slots of the experts' list. */
#include "kernels/gemm_item.h"
#include "kernels/qset.h"
#include "kernels/wtile.h"

enum {
    G_N = 64,                                /* positions of a tile               */
    G_W = KL_TILE_ROWS * 128, G_X = G_N * 128, /* bytes of a chunk                  */
    G_BUF = G_W + G_X,
#if defined(KD_SMALL_SHARED)
    G_BUFS = 1, G_PAD = 0,
#else
    G_BUFS = 2, G_PAD = 1,
#endif
    G_LDC = G_N + G_PAD,                     /* the products, in the same memory  */
    G_XQ = G_X / 16 / KL_TILE_ROWS           /* pieces that a work-item copies    */
};

struct gemm_tile {
    float acc[2][4][8]; /* 32 weight rows, 64 positions */
};

KD_FN void gemm_load_x(const kl_gemm *a, uint32_t p0, uint32_t kc, kd_u32x4 x[G_XQ])
{
    KD_GLOBAL const kd_u32x4 *src = KD_PTR(const kd_u32x4, a->x + ((uint64_t)kc * a->xrows + p0) * 128);
    KD_UNROLL
    for (uint32_t i = 0; i < G_XQ; i++)
        x[i] = src[i * KL_TILE_ROWS + kd_tid()];
}

KD_FN void gemm_multiply(struct gemm_tile *t, uint32_t buf)
{
    KD_SHARED const uint8_t *w = KD_SHARED_AT(const uint8_t, buf * G_BUF + kd_warp() * 32 * 128);
    KD_SHARED const uint8_t *x = KD_SHARED_AT(const uint8_t, buf * G_BUF + G_W);
    KD_UNROLL
    for (uint32_t k = 0; k < WT_K / 16; k++)
        kd_mma_32x64(t->acc, w, x, k);
}

/* Chunk c of the unit in `raw` and the positions in x to a buffer. */
KD_FN void gemm_fill(enum qtype type, const struct wt_raw *raw, uint32_t c, const kd_u32x4 x[G_XQ], uint32_t buf)
{
    KD_SHARED uint8_t *w = KD_SHARED_AT(uint8_t, buf * G_BUF + kd_tid() * 128);
    KD_SHARED kd_u32x4 *sx = KD_SHARED_AT(kd_u32x4, buf * G_BUF + G_W);
    KD_UNROLL
    for (uint32_t p = 0; p < WT_PIECES; p++)
        *kd_tile_piece(w, kd_tid(), p) = wt_piece(type, raw, c, p);
    KD_UNROLL
    for (uint32_t i = 0; i < G_XQ; i++)
        sx[i * KL_TILE_ROWS + kd_tid()] = x[i];
}

/* All of k: weights a unit ahead in registers, positions a chunk ahead; one barrier a chunk by two buffers. */
KD_FN void gemm_sum(enum qtype type, const kl_gemm *a, const struct gemm_item *it, uint32_t p0, struct gemm_tile *t)
{
    uint32_t mat = gemm_row_mat(a, it, kd_tid()), row = kd_min_u32(gemm_row_col(a, it, kd_tid()), a->n_out[mat] - 1);
    struct wt_src src = wt_src(type, a->w[mat] + it->expert * a->stride[mat], a->n_out[mat], a->n_in, row);
    uint32_t units = kd_div_up(a->n_in, wt_unit(type)), last = a->n_in / WT_K - 1;
    struct wt_raw raw, next;
    kd_u32x4 x[G_XQ];
    wt_load(type, &next, &src, 0, wt_chunks(type, a->n_in, 0));
    gemm_load_x(a, p0, 0, x);
    for (uint32_t u = 0; u < units; u++) {
        uint32_t chunks = wt_chunks(type, a->n_in, u);
        raw = next;
        if (u + 1 < units)
            wt_load(type, &next, &src, u + 1, wt_chunks(type, a->n_in, u + 1));
        KD_UNROLL
        for (uint32_t c = 0; c < wt_unit_chunks(type); c++) {
            if (c >= chunks)
                continue;
            uint32_t kc = u * wt_unit_chunks(type) + c;
            gemm_fill(type, &raw, c, x, kc % G_BUFS);
            gemm_load_x(a, p0, kd_min_u32(kc + 1, last), x);
            kd_tile_barrier();
            gemm_multiply(t, kc % G_BUFS);
            if (G_BUFS == 1)
                kd_tile_barrier();
        }
    }
    kd_barrier();
}

KD_FN void gemm_store_acc(const struct gemm_tile *t)
{
    KD_SHARED float *c = KD_SHARED_AT(float, 0);
    KD_UNROLL
    for (uint32_t m = 0; m < 2; m++)
        KD_UNROLL
        for (uint32_t n = 0; n < 4; n++)
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++)
                c[(kd_warp() * 32 + m * 16 + kd_mma_row(i)) * G_LDC + n * 16 + kd_mma_col(i)] = t->acc[m][n][i];
    kd_barrier();
}

KD_FN void gemm_out(const kl_gemm *a, const struct gemm_item *it, uint32_t p0, uint32_t n)
{
    KD_SHARED const float *c = KD_SHARED_AT(const float, 0);
    uint32_t r = a->pair ? kd_tid() % 64 / 8 * 16 + kd_tid() % 8 : kd_tid();
    uint32_t first = a->pair ? kd_tid() / 64 : 0, step = a->pair ? 2 : 1, col = gemm_row_col(a, it, r);
    if (col < a->n_out[it->mat]) {
        float b0 = gemm_bias(a, it, it->mat, col), b1 = a->pair ? gemm_bias(a, it, 1, col) : 0.0f;
        float own0 = gemm_number(a, it, it->mat), own1 = a->pair ? gemm_number(a, it, 1) : 1.0f;
        for (uint32_t i = first; i < n; i += step) {
            float v = c[r * G_LDC + i] * own0 + b0;
            if (a->pair)
                v = kd_act(a->act, v, c[(r + 8) * G_LDC + i] * own1 + b1);
            gemm_finish(a, it, p0 + i, col, v);
        }
    }
    kd_barrier();
}

KD_FN void gemm_item(const kl_gemm *a, const struct gemm_item *it)
{
    for (uint32_t i = 0; i < it->n; i += G_N) {
        struct gemm_tile g = { 0 };
        if (a->type[it->mat] == QSET_A)
            gemm_sum(QSET_A, a, it, it->n0 + i, &g);
        if (QSET_PAIR && a->type[it->mat] == QSET_B)
            gemm_sum(QSET_B, a, it, it->n0 + i, &g);
        gemm_store_acc(&g);
        gemm_out(a, it, it->n0 + i, kd_min_u32(it->n - i, G_N));
    }
}

QSET_KERNEL(k_gemm_, , kl_gemm)
{
    kd_wait_inputs();
    kd_let_next_start();
    struct gemm_item it = { 0 };
    gemm_find_tile(&a, kd_group_x(), &it);
    if (a.tiles) {
        if (!gemm_find_slot(&a, kd_group_y(), &it))
            return;
    } else {
        uint32_t n = kd_step_rows(a.step, a.rows);
        it.n0 = kd_group_y() * G_N;
        if (it.n0 >= n)
            return;
        it.n = kd_min_u32(n - it.n0, G_N);
    }
    gemm_item(&a, &it);
}
