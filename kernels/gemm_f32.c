/* kernels/gemm_f32.c: products of prompts with F32, F16 and BF16 weights, in f32. A tile is 32 output columns x 32
 * rows; a work-group's 256 work-items are four teams, each of which takes a quarter of k and holds 4 x 4 sums a
 * work-item; the quarters are added at the end in a fixed order. Of a pair the tile holds 16 columns, gate and up two by
 * two.
 * Grid x: tiles of columns over all matrices, y: tiles of rows. */
#include "kernels/gemm_item.h"
#include "kernels/hw/tile.h"
#include "kernels/qtypes.h"

enum {
    F_TILE = 32,
#if defined(KD_SMALL_SHARED)
    F_K = 16,
#else
    F_K = 32,               /* a step along k, of each team       */
#endif
    F_TEAMS = 4,
    F_LD = F_TILE + 4,      /* both tiles lie with k outermost    */
    F_TEAM = 2 * F_K * F_LD /* floats of a team                   */
};

KD_FN float f32_weight(uint32_t type, gpu_va w, uint64_t at)
{
    if (type == QT_F32)
        return KD_PTR(const float, w)[at];
    uint16_t h = KD_PTR(const uint16_t, w)[at];
    return type == QT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* Row r of a tile of weights: its matrix and its row there. */
KD_FN uint32_t f32_mat(const kl_gemm *a, const struct gemm_item *it, uint32_t r)
{
    return a->pair ? r / 2 % 2 : it->mat;
}
KD_FN uint32_t f32_col(const kl_gemm *a, const struct gemm_item *it, uint32_t r)
{
    return a->pair ? it->tile * (F_TILE / 2) + r / 4 * 2 + r % 2 : it->tile * F_TILE + r;
}

/* Tile t of all matrices. */
KD_FN void f32_find(const kl_gemm *a, uint32_t t, struct gemm_item *it)
{
    for (it->mat = 0; !a->pair && it->mat + 1 < a->n_mats; it->mat++) {
        uint32_t n = kd_div_up(a->n_out[it->mat], F_TILE);
        if (t < n)
            break;
        t -= n;
    }
    it->tile = t;
}

/* k0 .. k0 + F_K of both tiles into the team's memory, zeros past the ends. */
KD_FN void f32_fill(const kl_gemm *a, const struct gemm_item *it, uint32_t k0, uint32_t k1, KD_SHARED float *w,
                    KD_SHARED float *x)
{
    uint32_t tid = kd_tid() % 64, k = k0 + tid % F_K;
    KD_GLOBAL const float *rows = KD_PTR(const float, a->x) + (uint64_t)it->n0 * a->ldx + k;
    for (uint32_t r = tid / F_K; r < F_TILE; r += 64 / F_K) {
        uint32_t mat = f32_mat(a, it, r), col = f32_col(a, it, r);
        bool in = k < k1;
        w[tid % F_K * F_LD + r] = in && col < a->n_out[mat]
                                      ? f32_weight(a->type[mat], a->w[mat], (uint64_t)col * a->n_in + k) : 0.0f;
        x[tid % F_K * F_LD + r] = in && r < it->n ? rows[(uint64_t)r * a->ldx] : 0.0f;
    }
}

KD_FN void f32_multiply(KD_SHARED const float *w, KD_SHARED const float *x, float acc[4][4])
{
    uint32_t tid = kd_tid() % 64, m = tid % 8 * 4, n = tid / 8 * 4;
    KD_UNROLL
    for (uint32_t k = 0; k < F_K; k++) {
        kd_f32x4 wv = *(KD_SHARED const kd_f32x4 *)(w + k * F_LD + m);
        kd_f32x4 xv = *(KD_SHARED const kd_f32x4 *)(x + k * F_LD + n);
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            KD_UNROLL
            for (uint32_t j = 0; j < 4; j++)
                acc[i][j] = k_fma(wv[i], xv[j], acc[i][j]);
    }
}

/* The teams' sums through shared memory: c[team][row n][column m]. */
KD_FN void f32_gather(const float acc[4][4])
{
    KD_SHARED float *c = KD_SHARED_AT(float, kd_tid() / 64 * F_TEAM * 4);
    uint32_t tid = kd_tid() % 64, m = tid % 8 * 4, n = tid / 8 * 4;
    kd_barrier();
    KD_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        *(KD_SHARED kd_f32x4 *)(c + (n + j) * F_LD + m) = (kd_f32x4){ acc[0][j], acc[1][j], acc[2][j], acc[3][j] };
    kd_barrier();
}
KD_FN float f32_sum(uint32_t n, uint32_t m)
{
    float v = 0.0f;
    KD_UNROLL
    for (uint32_t t = 0; t < F_TEAMS; t++)
        v += KD_SHARED_AT(const float, t * F_TEAM * 4)[n * F_LD + m];
    return v;
}

KD_FN void f32_out(const kl_gemm *a, const struct gemm_item *it)
{
    for (uint32_t i = kd_tid(); i < F_TILE * F_TILE; i += kd_group_size()) {
        uint32_t n = i / F_TILE, r = i % F_TILE, col = f32_col(a, it, r);
        if (n >= it->n || col >= a->n_out[it->mat] || (a->pair && f32_mat(a, it, r)))
            continue;
        float v = f32_sum(n, r) + gemm_bias(a, it, it->mat, col);
        if (a->pair)
            v = kd_act(a->act, v, f32_sum(n, r + 2) + gemm_bias(a, it, 1, col));
        gemm_finish(a, it, it->n0 + n, col, v);
    }
}

KD_KERNEL(k_gemm_f32, kl_gemm)
{
    kd_wait_inputs();
    kd_let_next_start();
    struct gemm_item it = { 0 };
    uint32_t rows = kd_step_rows(a.step, a.rows);
    it.n0 = kd_group_y() * F_TILE;
    if (it.n0 >= rows)
        return;
    it.n = kd_min_u32(rows - it.n0, F_TILE);
    f32_find(&a, kd_group_x(), &it);
    float acc[4][4] = { 0 };
    uint32_t team = kd_tid() / 64, part = kd_div_up(kd_div_up(a.n_in, F_K), F_TEAMS) * F_K;
    uint32_t k0 = kd_min_u32(team * part, a.n_in), k1 = kd_min_u32(k0 + part, a.n_in);
    KD_SHARED float *w = KD_SHARED_AT(float, team * F_TEAM * 4), *x = w + F_K * F_LD;
    for (uint32_t k = 0; k < part; k += F_K) {
        kd_barrier();
        f32_fill(&a, &it, k0 + k, k1, w, x);
        kd_barrier();
        f32_multiply(w, x, acc);
    }
    f32_gather(acc);
    f32_out(&a, &it);
}
