/* kernels/rows.c: products of 9 to 64 rows, and of the experts that they chose, on the matrix instructions for signed
 * bytes (kernels/hw/mma8.h). A work-group takes a tile of 32 weight rows, or 16 rows of gate and the same of up; each of its
 * eight warps takes every eighth unit of 128 elements along k, for all rows of x. x comes as codes (k_act_q8).
 *
 * The order of a sum (doc/arithmetic.md) depends on the type and on n_in, never on the rows beside it or on how they are
 * cut: partial sum p adds units p, p + 8, ... run by run; the eight are added 1, 2, 4 apart.
 *
 * Grid x: tiles of weights; y: 1, or slots of the experts' list. */
#include "kernels/gemm_item.h"
#include "kernels/hw/mma8.h"
#include "kernels/qset.h"
#include "kernels/wrun.h"

enum {
    RW_START = 0x4b400000,   /* a sum starts at the bits of 1.5 * 2^23, and is that float plus the sum when it ends */
    RW_LD = KL_ROWS_M + 1,   /* of the partial sums in shared memory */
    RW_THREADS = KL_ROWS_WARPS * KD_WARP
};
#define RW_MAGIC 12582912.0f
_Static_assert(KL_ROWS_WARPS == 8, "rw_total adds eight partial sums");

/* ---- x ---- */

struct rw_x {
    gpu_va q, d, sums;     /* of this lane's row of B; of its pair of columns of C */
    uint64_t q_step, step; /* bytes from a block to the next                       */
};

KD_FN struct rw_x rw_x(const kl_gemm *a, uint32_t p0)
{
    struct rows_x at = rows_x(a->n_in, a->xrows);
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    return (struct rw_x){ a->x + (uint64_t)(p0 + g) * 32, a->x + at.d + (uint64_t)(p0 + 2 * t) * 8,
                          a->x + at.sums + (uint64_t)(p0 + 2 * t) * 8, 32ull * a->xrows, 8ull * a->xrows };
}

/* ---- a tile ---- */

struct rw_tile {
    struct wd_mat m[2];     /* of tile rows 0..15, and 16..31                     */
    uint32_t at[4];         /* first blocks of this lane's: g, g + 8, g + 16, ... */
    uint32_t units, blocks; /* of a row                                           */
};

KD_FN uint32_t rw_cols(const kl_gemm *a) { return a->pair ? KL_ROWS_M / 2 : KL_ROWS_M; }

KD_FN void rw_find_tile(const kl_gemm *a, uint32_t t, struct gemm_item *it)
{
    uint32_t m = 0;
    for (; !a->pair && m + 1 < a->n_mats; m++) {
        uint32_t n = kd_div_up(a->n_out[m], KL_ROWS_M);
        if (t < n)
            break;
        t -= n;
    }
    it->mat = m;
    it->tile = t;
}

KD_FN struct wd_mat rw_mat(uint32_t type, const kl_gemm *a, const struct gemm_item *it, uint32_t mat)
{
    return wd_mat(type, a->w[mat] + it->expert * a->stride[mat], a->n_out[mat], a->n_in);
}

KD_FN struct rw_tile rw_tile(uint32_t type, const kl_gemm *a, const struct gemm_item *it)
{
    struct rw_tile s = { .blocks = a->n_in / qtype_block((enum qtype)type), .units = kd_div_up(a->n_in, WR_UNIT) };
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t mat = a->pair ? h : it->mat, first = it->tile * rw_cols(a) + (a->pair ? 0 : 16 * h);
        s.m[h] = rw_mat(type, a, it, mat);
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            s.at[2 * h + i] = kd_min_u32(first + 8 * i + kd_lane() / 4, a->n_out[mat] - 1) * s.blocks;
    }
    return s;
}

KD_FN void rw_load(uint32_t type, uint32_t (*w)[WR_WORDS], const struct rw_tile *s, uint32_t u)
{
    u = kd_min_u32(u, s->units - 1);
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        wr_load(type, w[i], &s->m[i / 2], s->at[i], u, s->blocks);
}

/* Run r of the tile's rows by 8 NT rows of x; block: of x. */
KD_FN void rw_run(uint32_t type, uint32_t NT, const uint32_t q[4][2], const float dw[4], const float mw[4],
                  const struct rw_x *x, uint32_t block, uint32_t r, float (*acc)[2][4])
{
    gpu_va xq = x->q + block * x->q_step, xd = x->d + block * x->step, xs = x->sums + block * x->step;
    KD_UNROLL
    for (uint32_t n = 0; n < NT; n++) {
        uint32_t b[2] = { 0, 0 }, h = r & 1;
        uint32_t start[2] = { RW_START, RW_START }, bias = (uint32_t)wr_bias(type);
        int32_t sum[2] = { 0, 0 };
        kd_f32x4 d = *KD_PTR(const kd_f32x4, xd + n * 64); /* scale, scale * sum, of two columns */
        if (wr_bias(type) || (wr_is_short(type) && wd_has_min(type))) {
            kd_u32x4 v = *KD_PTR(const kd_u32x4, xs + n * 64);
            sum[0] = (int32_t)(wr_is_short(type) ? v[h] : v[0] + v[1]);
            sum[1] = (int32_t)(wr_is_short(type) ? v[2 + h] : v[2] + v[3]);
            start[0] += bias * (uint32_t)sum[0], start[1] += bias * (uint32_t)sum[1]; /* behind the last row: rubbish */
        }
        if (wr_is_wide(type)) {
            kd_u32x2 v = *KD_PTR(const kd_u32x2, xq + n * 256 + wr_x(type, r, 0) * 4);
            b[0] = v[0], b[1] = v[1];
        } else {
            b[0] = wr_get4(xq + n * 256 + wr_x(type, r, 0) * 4);
            b[1] = wr_is_short(type) ? 0 : wr_get4(xq + n * 256 + wr_x(type, r, 1) * 4);
        }
        float scale[2] = { d[0], d[2] }, by_sum[2] = { d[1], d[3] };
        if (wr_is_short(type))
            by_sum[0] = d[0] * (float)sum[0], by_sum[1] = d[2] * (float)sum[1];
        KD_UNROLL
        for (uint32_t m = 0; m < 2; m++) {
            uint32_t c[4] = { start[0], start[1], start[0], start[1] };
            if (wr_is_short(type))
                kd_mma8_k16(c, c, q[2 * m][0], q[2 * m + 1][0], b[0]);
            else
                kd_mma8_k32(c, c, q[2 * m][0], q[2 * m + 1][0], q[2 * m][1], q[2 * m + 1][1], b[0], b[1]);
            KD_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                float v = (f32_from_bits(c[i]) - RW_MAGIC) * scale[i % 2];
                acc[n][m][i] = k_fma(v, dw[2 * m + i / 2], acc[n][m][i]);
                if (wd_has_min(type))
                    acc[n][m][i] = k_fma(mw[2 * m + i / 2], by_sum[i % 2], acc[n][m][i]);
            }
        }
    }
}

/* This warp's partial sums of a tile: the next unit's weights are on their way while the present one's are multiplied. */
KD_FN void rw_sum(uint32_t type, uint32_t NT, const struct rw_tile *s, const struct rw_x *x, float (*acc)[2][4])
{
    uint32_t w[4][WR_WORDS], next[4][WR_WORDS];
    rw_load(type, next, s, kd_warp());
    for (uint32_t u = kd_warp(); u < s->units; u += KL_ROWS_WARPS) {
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            KD_UNROLL
            for (uint32_t k = 0; k < WR_WORDS; k++)
                w[i][k] = next[i][k];
        rw_load(type, next, s, u + KL_ROWS_WARPS);
        KD_UNROLL
        for (uint32_t r = 0; r < wr_runs(type); r++) {
            uint32_t q[4][2], block = 4 * u + (wr_is_short(type) ? r / 2 : r);
            float dw[4], mw[4];
            if (!wd_is_k(type) && block * 32 >= s->blocks * qtype_block((enum qtype)type))
                continue;
            KD_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                wr_open(type, w[i], u, r, q[i]);
                wr_factors(type, w[i], u, r, &dw[i], &mw[i]);
            }
            rw_run(type, NT, (const uint32_t(*)[2])q, dw, mw, x, block, r, acc);
        }
    }
}

/* Partial sums of 8 NT rows of x to shared memory, and those of all warps added up. */
KD_FN void rw_leave(uint32_t NT, float (*acc)[2][4])
{
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    KD_SHARED float *s = KD_SHARED_AT(float, 4 * kd_warp() * 8 * NT * RW_LD);
    KD_UNROLL
    for (uint32_t n = 0; n < NT; n++)
        KD_UNROLL
        for (uint32_t m = 0; m < 2; m++)
            KD_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                s[(8 * n + 2 * t + i % 2) * RW_LD + 16 * m + g + i / 2 * 8] = acc[n][m][i];
    kd_barrier();
}
KD_FN float rw_total(uint32_t NT, uint32_t col, uint32_t row)
{
    KD_SHARED const float *s = KD_SHARED_AT(const float, 4 * (col * RW_LD + row));
    uint32_t p = 8 * NT * RW_LD;
    return ((s[0] + s[p]) + (s[2 * p] + s[3 * p])) + ((s[4 * p] + s[5 * p]) + (s[6 * p] + s[7 * p]));
}

KD_FN void rw_finish(const kl_gemm *a, const struct gemm_item *it, uint32_t NT, uint32_t p0, uint32_t n)
{
    uint32_t cols = rw_cols(a);
    float own = gemm_number(a, it, it->mat), own_up = a->pair ? gemm_number(a, it, 1) : 1.0f;
    for (uint32_t i = kd_tid(); i < cols * n; i += RW_THREADS) {
        uint32_t p = i / cols, r = i % cols, col = it->tile * cols + r;
        if (col >= a->n_out[it->mat])
            continue;
        float v = rw_total(NT, p, r) * own + gemm_bias(a, it, it->mat, col);
        if (a->pair)
            v = kd_act(a->act, v, rw_total(NT, p, r + 16) * own_up + gemm_bias(a, it, 1, col));
        gemm_finish(a, it, p0 + p, col, v);
    }
    kd_barrier();
}

KD_FN void rw_some(uint32_t type, uint32_t NT, const kl_gemm *a, const struct gemm_item *it, uint32_t p0, uint32_t n)
{
    struct rw_tile s = rw_tile(type, a, it);
    struct rw_x x = rw_x(a, p0);
    float acc[8][2][4];
    KD_UNROLL
    for (uint32_t i = 0; i < NT; i++)
        KD_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            acc[i][k / 4][k % 4] = 0.0f;
    rw_sum(type, NT, &s, &x, acc);
    rw_leave(NT, acc);
    rw_finish(a, it, NT, p0, n);
}

/* Positions of an item, 8 MOST at a time, by a tile of half of that where they fit. */
KD_FN void rw_item(uint32_t type, uint32_t MOST, const kl_gemm *a, const struct gemm_item *it)
{
    for (uint32_t i = 0; i < it->n; i += 8 * MOST) {
        uint32_t n = kd_min_u32(it->n - i, 8 * MOST), p0 = it->n0 + i;
        if (n <= 4 * MOST)
            rw_some(type, MOST / 2, a, it, p0, n);
        else
            rw_some(type, MOST, a, it, p0, n);
    }
}

/* The lines of a tile into the level-2 cache, before the inputs are there. */
KD_FN void rw_prefetch(uint32_t type, const kl_gemm *a, const struct gemm_item *it)
{
    struct planes p = planes_of((enum qtype)type);
    uint32_t blocks = a->n_in / qtype_block((enum qtype)type), cols = rw_cols(a), first = it->tile * cols;
    for (uint32_t h = 0; h < (a->pair ? 2u : 1u); h++) {
        uint32_t mat = a->pair ? h : it->mat, rows = kd_min_u32(cols, a->n_out[mat] - first);
        struct wd_mat m = rw_mat(type, a, it, mat);
        KD_UNROLL
        for (uint32_t f = 0; f < PLANES_MAX; f++) {
            uint64_t row = (uint64_t)blocks * p.f[f].len;
            for (uint32_t o = kd_tid() * 128; p.f[f].len && o < rows * row; o += RW_THREADS * 128)
                kd_prefetch(KD_PTR(const void, m.p[f] + first * row + o));
        }
    }
}

KD_FN void rw_main(uint32_t MOST, const kl_gemm *a)
{
    struct gemm_item it = { 0 };
    rw_find_tile(a, kd_group_x(), &it);
    if (!a->tiles) {
        QSET_FOR(a->type[it.mat], rw_prefetch(type, a, &it))
    }
    kd_wait_inputs();
    kd_let_next_start();
    if (a->tiles) {
        if (!gemm_find_slot(a, kd_group_y(), &it))
            return;
        QSET_FOR(a->type[it.mat], rw_prefetch(type, a, &it))
    } else {
        it.n = kd_step_rows(a->step, a->rows);
    }
    QSET_FOR(a->type[it.mat], rw_item(type, MOST, a, &it))
}

QSET_KERNEL(k_rows_, _n16, kl_gemm)
{
    rw_main(2, &a);
}
QSET_KERNEL(k_rows_, _n64, kl_gemm)
{
    rw_main(8, &a);
}
