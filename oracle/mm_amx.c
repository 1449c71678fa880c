/* oracle/mm_amx.c: AMX-INT8 for several rows at once. A tile of 8 rows of x by 32, a tile of 32 by 16 weight rows: the
 * product is the exact sums of one run, 8 x 16, which AVX-512 scales onto accumulators in registers. Two panels share
 * the tile of x and the scales of x. Fewer rows take the AVX-512 kernels. */
#include "oracle/mm_block.h"

#ifdef __AMX_INT8__

enum { ROWS = 8, PAIR = 2, LAG = 2 /* runs between tile product and scaling */, RING = 4 };

/* Tile registers: 0, 1: sums; 4: x; 6, 7: weights. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const struct tile_config config = {
    .palette = 1,
    .row_bytes = { 64, 64, 64, 64, 32, 32, 64, 64 },
    .rows = { ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, 8, 8 },
};

struct sums {
    int32_t v[RING][PAIR][ROWS][16];
};

MM_INLINE void tiles(uint32_t P, const struct mm_xblk *w, const int8_t *q, size_t ldq, int32_t (*out)[ROWS][16])
{
    _tile_loadd(4, q, (long)ldq);
    _tile_loadd(6, w->w, 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, out[0], 64);
    if (P == 2) {
        _tile_loadd(7, w[MM_RANGE].w, 64);
        _tile_zero(1);
        _tile_dpbssd(1, 4, 7);
        _tile_stored(1, out[1], 64);
    }
}

MM_INLINE void scale(enum mm_kind kind, uint32_t P, const struct mm_xblk *w, int32_t (*sums)[ROWS][16], const float *d,
                     const float *dx, __m512 acc[PAIR][ROWS])
{
    __m512 dw[PAIR];
    for (uint32_t p = 0; p < P; p++)
        dw[p] = (__m512)w[p * MM_RANGE].dw;
#pragma GCC unroll 8
    for (uint32_t r = 0; r < ROWS; r++) {
        __m512 dr = _mm512_set1_ps(d[r]), dxr = _mm512_set1_ps(dx[r]);
#pragma GCC unroll 2
        for (uint32_t p = 0; p < P; p++) {
            __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[p][r]));
            acc[p][r] = _mm512_fmadd_ps(_mm512_mul_ps(dw[p], dr), sum, acc[p][r]);
            if (kind == MM_SCALE_MIN)
                acc[p][r] = _mm512_fmadd_ps((__m512)w[p * MM_RANGE].mw, dxr, acc[p][r]);
        }
    }
}

/* 8 rows from `row` on (the first `valid` of them count) by P panels. */
MM_INLINE void group(enum mm_kind kind, uint32_t P, const struct mm_xblk *w, uint32_t n, const struct mm_rows *x,
                     uint32_t row, uint32_t valid, float *y, size_t ldy, bool first)
{
    struct sums ring __attribute__((aligned(64)));
    const int8_t *q = x->q + row * x->ldq;
    const float *d = x->d + row, *dx = x->dx + row;
    size_t ldq = x->ldq, ldd = x->ldd;
    __m512 acc[PAIR][ROWS];
    y += row * ldy;
#pragma GCC unroll 8
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t p = 0; p < P; p++)
            acc[p][r] = first || r >= valid ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * ldy + 16 * p);
    for (uint32_t i = 0; i < LAG && i < n; i++)
        tiles(P, w + i, q + QK * i, ldq, ring.v[i % RING]);
    for (uint32_t i = 0; i < n; i++) {
        if (i + LAG < n)
            tiles(P, w + i + LAG, q + QK * (i + LAG), ldq, ring.v[(i + LAG) % RING]);
        scale(kind, P, w + i, ring.v[i % RING], d + i * ldd, dx + i * ldd, acc);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t p = 0; p < P; p++)
            if (r < valid)
                _mm512_storeu_ps(y + r * ldy + 16 * p, acc[p][r]);
}

#define GROUPS(name, kind, P)                                                                                          \
    static void name(const struct mm_xblk *w, uint32_t n, const struct mm_rows *x, uint32_t n_rows, float *y,          \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        for (uint32_t r = 0; r < n_rows; r += ROWS)                                                                    \
            group(kind, P, w, n, x, r, n_rows - r < ROWS ? n_rows - r : ROWS, y, ldy, first);                          \
    }
GROUPS(scale_1, MM_SCALE, 1)
GROUPS(scale_2, MM_SCALE, 2)
GROUPS(scale_min_1, MM_SCALE_MIN, 1)
GROUPS(scale_min_2, MM_SCALE_MIN, 2)

typedef void groups_fn(const struct mm_xblk *w, uint32_t n, const struct mm_rows *x, uint32_t n_rows, float *y,
                       size_t ldy, bool first);
static groups_fn *const groups[2][2] = { { scale_1, scale_2 }, { scale_min_1, scale_min_2 } };

MM_INLINE void walk_pairs(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels,
                          const struct mm_act *a, uint32_t row0, uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    struct mm_xblk *w = scratch;
    uint32_t n_runs = n_in / QK;
    size_t bytes = mm_panel_bytes(t, n_in);
    _tile_loadconfig(&config);
    for (uint32_t p = 0; p < n_panels; p += PAIR, panels += PAIR * bytes, y += PAIR * MM_ROWS) {
        uint32_t np = n_panels - p < PAIR ? 1 : PAIR;
        for (uint32_t k = 0; k < n_runs; k += MM_RANGE) {
            uint32_t n = n_runs - k < MM_RANGE ? n_runs - k : MM_RANGE;
            struct mm_rows x = mm_rows(a, row0, k);
            for (uint32_t i = 0; i < np; i++)
                mm_open(t, panels + i * bytes, n_runs, k, n, mm_offset(t), w + i * MM_RANGE);
            groups[mm_kind(t)][np - 1](w, n, &x, n_rows, y, ldy, k == 0);
        }
    }
    _tile_release();
}

#define AMX_TYPES(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        walk_pairs(QT_##T, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);                                  \
    }
AMX_TYPES(X)
#undef X

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_avx512->quant(x, n_in, a, row);
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    if (n_rows >= ROWS)
        switch (t) {
#define X(T) case QT_##T: return dot_##T;
            AMX_TYPES(X)
#undef X
        default: break;
        }
    return mm_avx512->dot(t, n_rows);
}

static const struct mm_kernels kernels = { "amx", quant, dot };
const struct mm_kernels *const mm_amx = &kernels;

#else
const struct mm_kernels *const mm_amx = NULL;
#endif
