/* oracle/mm_amx.c: AMX for several rows at once. A tile of 16 rows of x by 32, a tile of 32 by 16 weight rows: the
 * product is the exact sums of one run, 16 x 16, which AVX-512 scales onto accumulators in registers. Fewer rows take
 * the kernels of mm_vbmi.c.
 *
 * Types with one scale per run use INT8 tiles. Runs of 16 have their integer scales multiplied into the weights,
 * which then need up to 13 bits: bfloat16 tiles, split for Q6_K, IQ2_XS and IQ2_S into a multiple of 64 and a rest, both onto the
 * same sums. That is exact too: every factor has at most 8 significant bits and |64 h| + |l| <= 4128, times 127
 * times 32, is below 2^24, so no step of TDPBF16PS rounds.
 *
 * What costs, as measured on Emerald Rapids: near a tile instruction 512-bit floating point issues on one port
 * only, so the scaling (convert, multiply, multiply-add per vector) is the bound, not the tiles. Storing a tile
 * costs 16 cycles however few its rows are, hence full tiles. The store of run i follows the product of run i + 1,
 * and its scaling comes after that, so that nothing waits. */
#include "oracle/mm_block.h"

#if defined(__AMX_BF16__)

enum { ROWS = 16, LAG = 2 /* runs between tile product and scaling */, RING = 4 };
enum form { INT8, BF16, BF16_SPLIT };

/* Tile registers: 0, 1: sums; 4, 5: x; 6, 7: weights. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const struct tile_config config[] = {
    { .palette = 1, .row_bytes = { 64, 64, 0, 0, 32, 32, 64, 64 }, .rows = { ROWS, ROWS, 0, 0, ROWS, ROWS, 8, 8 } },
    { .palette = 1, .row_bytes = { 64, 64, 0, 0, 64, 64, 64, 64 }, .rows = { ROWS, ROWS, 0, 0, ROWS, ROWS, 16, 16 } },
};

MM_INLINE enum form form_of(enum qtype t)
{
    bool wide = t == QT_Q6_K || t == QT_IQ2_XS || t == QT_IQ2_S; /* weight times scale has more than 8 bits */
    return wide ? BF16_SPLIT : qtype_scales(t) == QS_RUNS ? BF16 : INT8;
}

/* An opened run: scales, and tiles of weights. INT8: a struct mm_xblk, of which this is the head, [k / 4][row][4];
 * else [part][k / 2][row][2] times 2^24. */
struct run {
    float dw[16], mw[16];
    uint32_t w[][16];
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct run, w) == offsetof(struct mm_xblk, w), "an opened block begins as a run");

MM_INLINE struct run *run_at(const void *runs, enum form f, size_t i)
{
    const size_t bytes = f == INT8 ? sizeof(struct mm_xblk)
                                   : sizeof(struct run) + (f == BF16 ? 16 : 32) * sizeof(uint32_t[16]);
    return (struct run *)((uintptr_t)runs + i * bytes);
}

struct sums {
    int32_t v[RING][ROWS][16]; /* or floats */
};

/* ---- opening ---- */

/* Byte j of each word, as a float of 2^24 times its signed value. */
MM_INLINE __m512 byte_2e24(__m512i w, int j)
{
    const int8_t z = -1, p = (int8_t)j;
    const __m128i one = _mm_setr_epi8(z, z, z, p, z, z, z, p + 4, z, z, z, p + 8, z, z, z, p + 12);
    const __m512i pick = _mm512_broadcast_i32x4(one);
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(w, pick));
}

/* The upper halves of two vectors of floats, lane by lane: lo, hi. */
MM_INLINE __m512i pair(__m512 lo, __m512 hi)
{
    __m512i l = _mm512_srli_epi32(_mm512_castps_si512(lo), 16);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, l, _mm512_castps_si512(hi));
}

/* Weights times the scale of their run of 16, in one tile or two. */
MM_INLINE void tiles_of_runs(bool split, const struct mm_xblk *x, uint32_t (*out)[16])
{
    for (int g = 0; g < 8; g++) {
        __m512 s = _mm512_load_ps(g < 4 ? x->s0 : x->s1);
        __m512 hi[4], lo[4];
        for (int j = 0; j < 4; j++) {
            __m512 p = _mm512_mul_ps(byte_2e24(_mm512_load_si512(x->w[g]), j), s);
            lo[j] = hi[j] = p;
            if (split) { /* to a multiple of 64 * 2^24; the rest is exact */
                const __m512 round = _mm512_set1_ps(0x1.8p53f);
                hi[j] = _mm512_sub_ps(_mm512_add_ps(p, round), round);
                lo[j] = _mm512_sub_ps(p, hi[j]);
            }
        }
        for (int h = 0; h < 2; h++) {
            _mm512_store_si512(out[2 * g + h], pair(hi[2 * h], hi[2 * h + 1]));
            if (split)
                _mm512_store_si512(out[16 + 2 * g + h], pair(lo[2 * h], lo[2 * h + 1]));
        }
    }
}

MM_INLINE void open_runs(enum qtype t, const uint8_t *panel, uint32_t n_runs, uint32_t k0, uint32_t n, void *out)
{
    const enum form f = form_of(t);
    struct mm_xblk x[QK_K / QK];
    if (f == INT8) {
        mm_open(t, panel, n_runs, k0, n, mm_offset(t), out);
        return;
    }
    for (uint32_t k = 0; k < n; k += QK_K / QK) { /* all of them have blocks of 256 */
        mm_open(t, panel, n_runs, k0 + k, QK_K / QK, mm_offset(t), x);
        for (uint32_t i = 0; i < QK_K / QK; i++) {
            struct run *run = run_at(out, f, k + i);
            tiles_of_runs(f == BF16_SPLIT, &x[i], run->w);
            memcpy(run->dw, x[i].dw, sizeof run->dw);
        }
    }
}

/* ---- products ---- */

#define PRODUCT(c, tx, tw, last)                                                                                       \
    do {                                                                                                               \
        _tile_loadd(tx, a, (long)lda);                                                                                 \
        _tile_loadd(tw, run->w, 64);                                                                                   \
        _tile_zero(c);                                                                                                 \
        if (f == INT8)                                                                                                 \
            _tile_dpbssd(c, tx, tw);                                                                                   \
        else                                                                                                           \
            _tile_dpbf16ps(c, tx, tw);                                                                                 \
        if (f == BF16_SPLIT) {                                                                                         \
            _tile_loadd(tw, run->w + 16, 64);                                                                          \
            _tile_dpbf16ps(c, tx, tw);                                                                                 \
        }                                                                                                              \
        _tile_stored(last, out, 64);                                                                                   \
    } while (0)

/* The product of run i with the rows at a; the sums of run i - 1 to memory. Odd and even runs take turns. */
MM_INLINE void product(enum form f, const struct run *run, const void *a, size_t lda, uint32_t i, struct sums *ring)
{
    int32_t(*out)[16] = ring->v[(i + RING - 1) % RING];
    if (i & 1)
        PRODUCT(1, 5, 7, 0);
    else
        PRODUCT(0, 4, 6, 1);
}

MM_INLINE void scale(enum form f, bool min, uint32_t R, const struct run *w, int32_t (*sums)[16], const float *d,
                     const float *dx, __m512 acc[ROWS])
{
    __m512 dw = _mm512_load_ps(w->dw);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++) {
        __m512i bits = _mm512_load_si512(sums[r]);
        __m512 sum = f == INT8 ? _mm512_cvtepi32_ps(bits) : _mm512_castsi512_ps(bits);
        acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(dw, _mm512_set1_ps(d[r])), sum, acc[r]);
        if (min)
            acc[r] = _mm512_fmadd_ps(_mm512_load_ps(w->mw), _mm512_set1_ps(dx[r]), acc[r]);
    }
}

/* 16 rows from `row` on (the first `valid` of them count, and that is at most R) by n runs of a panel. */
MM_INLINE void group(enum form f, bool min, uint32_t R, const void *runs, uint32_t n, const struct mm_rows *x,
                     uint32_t row, uint32_t valid, float *y, size_t ldy, bool first)
{
    struct sums ring __attribute__((aligned(64)));
    const size_t size = f == INT8 ? sizeof *x->q : sizeof *x->b, lda = x->ldq * size, ldd = x->ldd;
    const uint8_t *a = (f == INT8 ? (const uint8_t *)x->q : (const uint8_t *)x->b) + row * lda;
    const float *d = x->d + row, *dx = x->dx + row;
    __m512 acc[ROWS];
    y += row * ldy;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++)
        acc[r] = first || r >= valid ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * ldy);
    uint32_t i = 0;
    for (; i < LAG && i < n; i++)
        product(f, run_at(runs, f, i), a + QK * size * i, lda, i, &ring);
    for (; i < n; i++, d += ldd, dx += ldd) {
        product(f, run_at(runs, f, i), a + QK * size * i, lda, i, &ring);
        scale(f, min, R, run_at(runs, f, i - LAG), ring.v[(i - LAG) % RING], d, dx, acc);
    }
    if (n & 1)
        _tile_stored(0, ring.v[(n - 1) % RING], 64);
    else
        _tile_stored(1, ring.v[(n - 1) % RING], 64);
    for (i = n < LAG ? 0 : n - LAG; i < n; i++, d += ldd, dx += ldd)
        scale(f, min, R, run_at(runs, f, i), ring.v[i % RING], d, dx, acc);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; r++)
        if (r < valid)
            _mm512_storeu_ps(y + r * ldy, acc[r]);
}

typedef void group_fn(const void *runs, uint32_t n, const struct mm_rows *x, uint32_t row, uint32_t valid, float *y,
                      size_t ldy, bool first);

#define GROUP(name, form, min)                                                                                         \
    static void name(const void *runs, uint32_t n, const struct mm_rows *x, uint32_t row, uint32_t valid, float *y,    \
                     size_t ldy, bool first)                                                                           \
    {                                                                                                                  \
        if (valid > ROWS / 2)                                                                                          \
            group(form, min, ROWS, runs, n, x, row, valid, y, ldy, first);                                             \
        else                                                                                                           \
            group(form, min, ROWS / 2, runs, n, x, row, valid, y, ldy, first);                                         \
    }
GROUP(group_int8, INT8, false)
GROUP(group_int8_min, INT8, true)
GROUP(group_bf16, BF16, false)
GROUP(group_split, BF16_SPLIT, false)

/* Opened at a time: these and the tiles of x of a group, used for each of the panels, fit the first cache. */
enum { PANELS = 2, RANGE_INT8 = 16, RANGE_BF16 = 8 };

MM_INLINE void walk(enum qtype t, uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,
                    uint32_t row0, uint32_t n_rows, float *y, size_t ldy, void *scratch)
{
    const enum form f = form_of(t);
    const uint32_t range = f == INT8 ? RANGE_INT8 : RANGE_BF16;
    group_fn *const fn = qtype_scales(t) == QS_SCALE_MIN ? group_int8_min : f == INT8 ? group_int8
                         : f == BF16 ? group_bf16 : group_split;
    uint32_t n_runs = n_in / QK;
    size_t bytes = mm_panel_bytes(t, n_in);
    _tile_loadconfig(&config[f != INT8]);
    for (uint32_t p = 0; p < n_panels; p += PANELS, panels += PANELS * bytes, y += PANELS * MM_ROWS)
        for (uint32_t k = 0; k < n_runs; k += range) {
            uint32_t np = n_panels - p < PANELS ? n_panels - p : PANELS, n = n_runs - k < range ? n_runs - k : range;
            struct mm_rows x = mm_rows(a, row0, k);
            for (uint32_t i = 0; i < np; i++)
                open_runs(t, panels + i * bytes, n_runs, k, n, run_at(scratch, f, i * range));
            for (uint32_t r = 0; r < n_rows; r += ROWS) {
                uint32_t valid = n_rows - r < ROWS ? n_rows - r : ROWS;
                for (uint32_t i = 0; i < np; i++)
                    fn(run_at(scratch, f, i * range), n, &x, r, valid, y + 16 * i, ldy, k == 0);
            }
        }
    _tile_release();
}

#define DOT(T)                                                                                                         \
    static void dot_##T(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a,               \
                        uint32_t row0, const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy,              \
                        void *scratch)                                                                                 \
    {                                                                                                                  \
        walk(QT_##T, n_in, panels, n_panels, a, row0, n_rows, y, ldy, scratch);                                        \
    }
/* By scales: what has minima of runs, or factors of halves, has no form. */
#define DOT_SCALE(T)     DOT(T)
#define DOT_SCALE_MIN(T) DOT(T)
#define DOT_RUNS(T)      DOT(T)
#define DOT_RUNS_MIN(T)
#define DOT_HALVES(T)
#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes) DOT_##scales(T)
#include "kernels/qtypes.def"
#undef DOT
#define DOT(T) case QT_##T: return dot_##T;

static void quant(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row)
{
    mm_quant_row_512(x, n_in, a, row, true);
}

/* Fewer rows do not pay for opening the weights as tiles (doc/speed-log.md). */
static uint32_t min_rows(enum form f)
{
    return f == INT8 ? 12 : f == BF16 ? 32 : 64;
}

static mm_dot_fn *dot(enum qtype t, uint32_t n_rows)
{
    if (n_rows >= min_rows(form_of(t)))
        switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes) DOT_##scales(T)
#include "kernels/qtypes.def"
        default: break;
        }
    return mm_vbmi->dot(t, n_rows);
}

static const struct mm_kernels kernels = { "amx", quant, dot };
const struct mm_kernels *const mm_amx = &kernels;

#else
const struct mm_kernels *const mm_amx = NULL;
#endif
