/* kernels/gemm_f32.c: products of many rows with F32 weights, and with F16 and BF16 where the prompts' kernels do not take
 * them, in f32. A tile is 32 output columns x 32 rows; a work-group's 256 work-items are four teams, each of which takes a
 * quarter of k, ascending, and holds 4 x 4 sums a work-item; the quarters are added at the end in a fixed order. A step
 * along k is asked for, in registers, while the one before is multiplied. Of a pair the tile holds 16 columns, gate and up
 * two by two.
 * Grid x: tiles of columns over all matrices, y: tiles of rows. */
#include "kernels/gemm_item.h"
#include "kernels/hw/tile.h"
#include "kernels/qtypes.h"

enum {
    F_TILE = 32,
#if defined(KD_SMALL_SHARED)
    F_K = 16,
#else
    F_K = 32,                        /* a step along k, of each team               */
#endif
    F_TEAMS = 4, F_ITEMS = 64,       /* work-items of a team                       */
    F_LD = F_K + 4,                  /* both tiles lie row by row                  */
    F_TEAM = 2 * F_TILE * F_LD,      /* floats of a team                           */
    F_LDC = F_TILE + 4,              /* its sums, in the same memory               */
    F_QUADS = F_K / 4,               /* of four elements in a row                  */
    F_HELD = F_TILE * F_QUADS / F_ITEMS /* of a tile, that a work-item asks for    */
};
_Static_assert((int)F_TILE * (int)F_LDC <= (int)F_TEAM, "sums in the tiles' memory");

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

/* Can four elements be read at once? */
KD_FN bool f32_quads(const kl_gemm *a, const struct gemm_item *it)
{
    uint32_t t0 = a->type[it->mat], t1 = a->pair ? a->type[1] : t0;
    uint64_t at = a->w[it->mat] | (a->pair ? a->w[1] : 0);
    return (t0 == QT_F32) == (t1 == QT_F32) && (a->n_in | a->ldx) % 4 == 0 && a->x % 16 == 0 && at % (t0 == QT_F32 ? 16 : 8) == 0;
}

/* The rows that this work-item reads quads of, at its place in a step; past the ends, the last one. */
struct f32_rows {
    uint32_t type[F_HELD];
    gpu_va w[F_HELD], x[F_HELD];
};
KD_FN uint32_t f32_row(uint32_t i) { return kd_tid() % F_ITEMS / F_QUADS + i * (F_ITEMS / F_QUADS); }
KD_FN uint32_t f32_at(void) { return kd_tid() % F_QUADS * 4; }

KD_FN void f32_find_rows(const kl_gemm *a, const struct gemm_item *it, struct f32_rows *rows)
{
    KD_UNROLL
    for (uint32_t i = 0; i < F_HELD; i++) {
        uint32_t r = f32_row(i), mat = f32_mat(a, it, r), col = kd_min_u32(f32_col(a, it, r), a->n_out[mat] - 1);
        rows->type[i] = a->type[mat];
        rows->w[i] = a->w[mat] + ((uint64_t)col * a->n_in + f32_at()) * (rows->type[i] == QT_F32 ? 4 : 2);
        rows->x[i] = a->x + ((uint64_t)(it->n0 + kd_min_u32(r, it->n - 1)) * a->ldx + f32_at()) * 4;
    }
}

/* A step's quads on their way: weights as they lie in memory. */
struct f32_held {
    kd_u32x4 w[F_HELD];
    kd_f32x4 x[F_HELD];
};
KD_FN void f32_ask(const struct f32_rows *rows, uint32_t k, uint32_t k1, struct f32_held *h)
{
    bool in = k + f32_at() < k1;
    KD_UNROLL
    for (uint32_t i = 0; i < F_HELD; i++) {
        h->x[i] = (kd_f32x4){ 0.0f, 0.0f, 0.0f, 0.0f };
        h->w[i] = (kd_u32x4){ 0, 0, 0, 0 };
    }
    if (!in)
        return;
    KD_UNROLL
    for (uint32_t i = 0; i < F_HELD; i++)
        h->x[i] = *KD_PTR(const kd_f32x4, rows->x[i] + 4ull * k);
    if (rows->type[0] == QT_F32) {
        KD_UNROLL
        for (uint32_t i = 0; i < F_HELD; i++)
            h->w[i] = *KD_PTR(const kd_u32x4, rows->w[i] + 4ull * k);
        return;
    }
    KD_UNROLL
    for (uint32_t i = 0; i < F_HELD; i++) {
        kd_u32x2 v = *KD_PTR(const kd_u32x2, rows->w[i] + 2ull * k);
        h->w[i][0] = v[0], h->w[i][1] = v[1];
    }
}

KD_FN kd_f32x4 f32_quad(uint32_t type, kd_u32x4 v)
{
    if (type == QT_F32)
        return (kd_f32x4){ f32_from_bits(v[0]), f32_from_bits(v[1]), f32_from_bits(v[2]), f32_from_bits(v[3]) };
    if (type == QT_BF16)
        return (kd_f32x4){ f32_from_bits(v[0] << 16), f32_from_bits(v[0] & 0xffff0000u), f32_from_bits(v[1] << 16),
                           f32_from_bits(v[1] & 0xffff0000u) };
    return (kd_f32x4){ f16_to_f32((uint16_t)v[0]), f16_to_f32((uint16_t)(v[0] >> 16)), f16_to_f32((uint16_t)v[1]),
                       f16_to_f32((uint16_t)(v[1] >> 16)) };
}

KD_FN void f32_put(const struct f32_rows *rows, const struct f32_held *h, KD_SHARED float *w, KD_SHARED float *x)
{
    KD_UNROLL
    for (uint32_t i = 0; i < F_HELD; i++) {
        uint32_t at = f32_row(i) * F_LD + f32_at();
        *(KD_SHARED kd_f32x4 *)(w + at) = f32_quad(rows->type[i], h->w[i]);
        *(KD_SHARED kd_f32x4 *)(x + at) = h->x[i];
    }
}

/* A step of rows that are not aligned, zeros past the ends. */
KD_FN void f32_fill(const kl_gemm *a, const struct gemm_item *it, uint32_t k0, uint32_t k1, KD_SHARED float *w,
                    KD_SHARED float *x)
{
    uint32_t tid = kd_tid() % F_ITEMS, k = k0 + tid % F_K;
    KD_GLOBAL const float *rows = KD_PTR(const float, a->x) + (uint64_t)it->n0 * a->ldx + k;
    for (uint32_t r = tid / F_K; r < F_TILE; r += F_ITEMS / F_K) {
        uint32_t mat = f32_mat(a, it, r), col = f32_col(a, it, r);
        bool in = k < k1;
        w[r * F_LD + tid % F_K] = in && col < a->n_out[mat]
                                      ? f32_weight(a->type[mat], a->w[mat], (uint64_t)col * a->n_in + k) : 0.0f;
        x[r * F_LD + tid % F_K] = in && r < it->n ? rows[(uint64_t)r * a->ldx] : 0.0f;
    }
}

/* Work-item t has columns t % 8 + 8 i and rows t / 8 + 8 j. */
KD_FN void f32_multiply(KD_SHARED const float *w, KD_SHARED const float *x, float acc[4][4])
{
    uint32_t tid = kd_tid() % F_ITEMS, m = tid % 8, n = tid / 8;
    KD_UNROLL
    for (uint32_t k = 0; k < F_K; k += 4) {
        kd_f32x4 wv[4], xv[4];
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            wv[i] = *(KD_SHARED const kd_f32x4 *)(w + (m + 8 * i) * F_LD + k);
            xv[i] = *(KD_SHARED const kd_f32x4 *)(x + (n + 8 * i) * F_LD + k);
        }
        KD_UNROLL
        for (uint32_t e = 0; e < 4; e++)
            KD_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                KD_UNROLL
                for (uint32_t j = 0; j < 4; j++)
                    acc[i][j] = k_fma(wv[i][e], xv[j][e], acc[i][j]);
    }
}

/* The teams' sums through shared memory: c[team][row n][column m]. */
KD_FN void f32_gather(const float acc[4][4])
{
    KD_SHARED float *c = KD_SHARED_AT(float, kd_tid() / F_ITEMS * F_TEAM * 4);
    uint32_t tid = kd_tid() % F_ITEMS, m = tid % 8, n = tid / 8;
    kd_barrier();
    KD_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            c[(n + 8 * j) * F_LDC + m + 8 * i] = acc[i][j];
    kd_barrier();
}
KD_FN float f32_sum(uint32_t n, uint32_t m)
{
    float v = 0.0f;
    KD_UNROLL
    for (uint32_t t = 0; t < F_TEAMS; t++)
        v += KD_SHARED_AT(const float, t * F_TEAM * 4)[n * F_LDC + m];
    return v;
}

KD_FN void f32_out(const kl_gemm *a, const struct gemm_item *it)
{
    float own = gemm_number(a, it, it->mat), own_up = a->pair ? gemm_number(a, it, 1) : 1.0f;
    for (uint32_t i = kd_tid(); i < F_TILE * F_TILE; i += kd_group_size()) {
        uint32_t n = i / F_TILE, r = i % F_TILE, col = f32_col(a, it, r);
        if (n >= it->n || col >= a->n_out[it->mat] || (a->pair && f32_mat(a, it, r)))
            continue;
        float v = f32_sum(n, r) * own + gemm_bias(a, it, it->mat, col);
        if (a->pair)
            v = kd_act(a->act, v, f32_sum(n, r + 2) * own_up + gemm_bias(a, it, 1, col));
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
    uint32_t team = kd_tid() / F_ITEMS, part = kd_div_up(kd_div_up(a.n_in, F_K), F_TEAMS) * F_K;
    uint32_t k0 = kd_min_u32(team * part, a.n_in), k1 = kd_min_u32(k0 + part, a.n_in);
    KD_SHARED float *w = KD_SHARED_AT(float, team * F_TEAM * 4), *x = w + F_TILE * F_LD;
    struct f32_rows from = { 0 };
    struct f32_held held;
    bool quads = f32_quads(&a, &it);
    if (quads) {
        f32_find_rows(&a, &it, &from);
        f32_ask(&from, k0, k1, &held);
    }
    for (uint32_t k = 0; k < part; k += F_K) {
        kd_barrier();
        if (quads)
            f32_put(&from, &held, w, x);
        else
            f32_fill(&a, &it, k0 + k, k1, w, x);
        kd_barrier();
        if (quads)
            f32_ask(&from, k0 + k + F_K, k1, &held);
        f32_multiply(w, x, acc);
    }
    f32_gather(acc);
    f32_out(&a, &it);
}
