/* oracle/mm_amx.c: AMX-INT8 for several rows at once. A tile of 16 rows of x by 32, a tile of 32 by 16 weight rows: the
 * product is the exact sums of one run, 16 x 16, which AVX-512 scales onto accumulators in registers. Storing a tile
 * costs 16 cycles however few its rows are, hence full tiles; the store of run i follows the product of run i + 1, and
 * its scaling comes after that, so that nothing waits. Fewer rows take the AVX-512 kernels. */
#include "oracle/mm_block.h"

#ifdef __AMX_INT8__

enum { ROWS = 16, LAG = 2 /* runs between tile product and scaling */, RING = 4 };

/* Tile registers: 0, 1: sums; 4, 5: x; 6, 7: weights. */
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
    int32_t v[RING][ROWS][16];
};

/* The product of run i; the sums of run i - 1 to memory. Odd and even runs take turns with the registers. */
MM_INLINE void tiles(const struct mm_xblk *w, const int8_t *q, size_t ldq, uint32_t i, struct sums *ring)
{
    int32_t(*out)[16] = ring->v[(i + RING - 1) % RING];
    if (i & 1) {
        _tile_loadd(5, q + (size_t)QK * i, (long)ldq);
        _tile_loadd(7, w[i].w, 64);
        _tile_zero(1);
        _tile_dpbssd(1, 5, 7);
        _tile_stored(0, out, 64);
    } else {
        _tile_loadd(4, q + (size_t)QK * i, (long)ldq);
        _tile_loadd(6, w[i].w, 64);
        _tile_zero(0);
        _tile_dpbssd(0, 4, 6);
        _tile_stored(1, out, 64);
    }
}

MM_INLINE void scale(enum mm_kind kind, uint32_t R, const struct mm_xblk *w, int32_t (*sums)[16], const float *d,
                     const float *dx, __m512 acc[ROWS])
{
    __m512 dw = (__m512)w->dw;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++) {
        __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[r]));
        acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(dw, _mm512_set1_ps(d[r])), sum, acc[r]);
        if (kind == MM_SCALE_MIN)
            acc[r] = _mm512_fmadd_ps((__m512)w->mw, _mm512_set1_ps(dx[r]), acc[r]);
    }
}

/* 16 rows from `row` on (the first `valid` of them count, and that is at most R) by a panel. */
MM_INLINE void group(enum mm_kind kind, uint32_t R, const struct mm_xblk *w, uint32_t n, const struct mm_rows *x,
                     uint32_t row, uint32_t valid, float *y, size_t ldy, bool first)
{
    struct sums ring __attribute__((aligned(64)));
    const int8_t *q = x->q + row * x->ldq;
    const float *d = x->d + row, *dx = x->dx + row;
    size_t ldq = x->ldq, ldd = x->ldd;
    __m512 acc[ROWS];
    y += row * ldy;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++)
        acc[r] = first || r >= valid ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * ldy);
    uint32_t i = 0;
    for (; i < LAG && i < n; i++)
        tiles(w, q, ldq, i, &ring);
    for (; i < n; i++, d += ldd, dx += ldd) {
        tiles(w, q, ldq, i, &ring);
        scale(kind, R, w + i - LAG, ring.v[(i - LAG) % RING], d, dx, acc);
    }
    if (n & 1)
        _tile_stored(0, ring.v[(n - 1) % RING], 64);
    else
        _tile_stored(1, ring.v[(n - 1) % RING], 64);
    for (i = n < LAG ? 0 : n - LAG; i < n; i++, d += ldd, dx += ldd)
        scale(kind, R, w + i, ring.v[i % RING], d, dx, acc);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++)
        if (r < valid)
            _mm512_storeu_ps(y + r * ldy, acc[r]);
}

#define GROUPS(name, kind)                                                                                             \
    static void name(const struct mm_xblk *w, uint32_t n, int off, const struct mm_rows *x, uint32_t n_rows, float *y, \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        uint32_t r = 0;                                                                                                \
        for (; n_rows - r > ROWS / 2; r += ROWS) {                                                                     \
            uint32_t left = n_rows - r;                                                                                \
            group(kind, ROWS, w, n, x, r, left < ROWS ? left : ROWS, y, ldy, first);                                   \
            if (left <= ROWS)                                                                                          \
                return;                                                                                                \
        }                                                                                                              \
        if (r < n_rows)                                                                                                \
            group(kind, ROWS / 2, w, n, x, r, n_rows - r, y, ldy, first);                                              \
    }
GROUPS(groups_scale, MM_SCALE)
GROUPS(groups_scale_min, MM_SCALE_MIN)

static mm_runs_fn *const groups_of[] = { groups_scale, groups_scale_min };

#define AMX_TYPES(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)

#define X(T)                                                                                                           \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        _tile_loadconfig(&config);                                                                                     \
        mm_walk(QT_##T, groups_of[mm_kind(QT_##T)], mm_offset(QT_##T), n_in, panels, n_panels, a, row0, n_rows, y,     \
                ldy, scratch);                                                                                         \
        _tile_release();                                                                                               \
    }
AMX_TYPES(X)
#undef X

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_avx512->quant(x, n_in, a, row);
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    if (n_rows >= ROWS / 2)
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
