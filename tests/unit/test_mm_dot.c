/* Every instruction set gives the canonical accumulator, bit for bit: each type, row count and length, random and
 * extreme codes, beside a scalar transcription of the text in kernels/kargs.h; and none reads past its operands. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"
#include "model/quant_book.h"
#include "oracle/mm.h"
#include "tests/lib/edge.h"

static const enum qtype types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
};
enum { N_TYPES = sizeof types / sizeof *types, MAX_ROWS = 64, PANELS = 3 };
static const char *const isas[] = { "plain", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vbmi", "amx" };

#ifndef N_LENGTHS /* tests/unit/test_arm.sh has less time */
#define N_LENGTHS 5
#endif

static uint64_t seed = 1;

static uint32_t random_u32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static float random_f32(void) /* in [-1, 1) */
{
    return (float)(int32_t)random_u32() * 0x1p-31f;
}

/* ---- the reference: one row of weights, one of x ---- */

/* Codes and scales of run `b` of a block: value = dw * q + mw, or per run of 16 as the text has it. */
struct run {
    int q[32];
    float dw, mw, dmin;
    int sc[2], m[2];
    float half[2]; /* NVFP4 */
};

static void q5_codes(const uint8_t qh[4], const uint8_t qs[16], int bias, int *q)
{
    uint32_t h;
    memcpy(&h, qh, 4);
    for (int i = 0; i < 32; i++)
        q[i] = (int)((i < 16 ? qs[i] & 15 : qs[i - 16] >> 4) | (h >> i & 1) << 4) - bias;
}

static void nibble_codes(const uint8_t qs[16], int *q)
{
    for (int i = 0; i < 32; i++)
        q[i] = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

static void k_codes(const uint8_t *qs, const uint8_t *qh, int b, int *q)
{
    for (int l = 0; l < 32; l++)
        q[l] = (qs[32 * (b / 2) + l] >> 4 * (b & 1) & 15) + (qh ? (qh[l] >> b & 1) * 16 : 0);
}

/* Where the f16 scale of a block of the types of codebooks stands; IQ1_M has it in four pieces. */
static size_t book_d(enum qtype t)
{
    return t == QT_TQ1_0 ? offsetof(blk_tq1_0, d) : t == QT_TQ2_0 ? offsetof(blk_tq2_0, d) : 0;
}

/* Scale s of run h (of 16) of run b: dw is d times (2 s + 1) times a power of two. */
static int book_scale(enum qtype t, const uint8_t *p, int b, int h)
{
    switch (t) {
    case QT_IQ2_XXS: return p[2 + 8 * b + 7] >> 4;
    case QT_IQ3_XXS: return p[2 + 64 + 4 * b + 3] >> 4;
    case QT_IQ2_XS: return p[2 + 64 + b] >> 4 * h & 15;
    case QT_IQ2_S: return p[2 + 64 + 8 + b] >> 4 * h & 15;
    case QT_IQ3_S: return p[2 + 64 + 8 + 32 + b / 2] >> 4 * (b % 2) & 15;
    case QT_IQ1_S: return p[2 + 32 + 2 * b + 1] >> 4 & 7;
    case QT_IQ1_M: return (p[48 + 2 * (b / 2)] | p[49 + 2 * (b / 2)] << 8) >> (6 * (b % 2) + 3 * h) & 7;
    default: return 0;
    }
}

/* The codes are what the block holds for d = 1, without its scales. */
static struct run book_run(enum qtype t, const uint8_t *p, int b)
{
    struct run r = { .sc = { 1, 1 } };
    uint8_t one[128];
    uint16_t d;
    float y[256], unit = t == QT_IQ3_XXS ? 0.25f : t == QT_IQ3_S || t == QT_TQ1_0 || t == QT_TQ2_0 ? 1.0f : 0.125f;
    bool runs = t == QT_IQ2_XS || t == QT_IQ2_S || t == QT_IQ1_M;
    memcpy(one, p, qtype_block_bytes(t));
    quant_book_set_d(t, one, 1);
    dequant_row(t, one, y, 256);
    memcpy(&d, p + book_d(t), 2);
    if (t == QT_IQ1_M)
        d = (uint16_t)iq1_m_d(((const blk_iq1_m *)p)->scales);
    for (int i = 0; i < 32; i++)
        r.q[i] = (int)(y[32 * b + i] / (unit * (float)(2 * book_scale(t, p, b, i / 16) + 1)));
    for (int h = 0; h < 2 && runs; h++)
        r.sc[h] = 2 * book_scale(t, p, b, h) + 1;
    r.dw = f16_to_f32(d) * (runs ? unit : unit * (float)(2 * book_scale(t, p, b, 0) + 1));
    return r;
}

static struct run run_of(enum qtype t, const uint8_t *p, int b)
{
    struct run r = { .sc = { 1, 1 } };
    uint8_t sc, mn;
    switch (t) {
    case QT_Q4_0:
        r.dw = f16_to_f32(((const blk_q4_0 *)p)->d);
        nibble_codes(((const blk_q4_0 *)p)->qs, r.q);
        for (int i = 0; i < 32; i++)
            r.q[i] -= 8;
        break;
    case QT_Q4_1:
        r.dw = f16_to_f32(((const blk_q4_1 *)p)->d);
        r.mw = f16_to_f32(((const blk_q4_1 *)p)->m);
        nibble_codes(((const blk_q4_1 *)p)->qs, r.q);
        break;
    case QT_Q5_0:
        r.dw = f16_to_f32(((const blk_q5_0 *)p)->d);
        q5_codes(((const blk_q5_0 *)p)->qh, ((const blk_q5_0 *)p)->qs, 16, r.q);
        break;
    case QT_Q5_1:
        r.dw = f16_to_f32(((const blk_q5_1 *)p)->d);
        r.mw = f16_to_f32(((const blk_q5_1 *)p)->m);
        q5_codes(((const blk_q5_1 *)p)->qh, ((const blk_q5_1 *)p)->qs, 0, r.q);
        break;
    case QT_Q8_0:
        r.dw = f16_to_f32(((const blk_q8_0 *)p)->d);
        for (int i = 0; i < 32; i++)
            r.q[i] = ((const blk_q8_0 *)p)->qs[i];
        break;
    case QT_IQ4_NL:
        r.dw = f16_to_f32(((const blk_iq4_nl *)p)->d);
        nibble_codes(((const blk_iq4_nl *)p)->qs, r.q);
        for (int i = 0; i < 32; i++)
            r.q[i] = iq4_values[r.q[i]];
        break;
    case QT_MXFP4:
        r.dw = ldexpf(1, ((const blk_mxfp4 *)p)->e - 128);
        nibble_codes(((const blk_mxfp4 *)p)->qs, r.q);
        for (int i = 0; i < 32; i++)
            r.q[i] = e2m1_x2[r.q[i]];
        break;
    case QT_NVFP4: { /* two runs, each with a factor of its own */
        const blk_nvfp4 *k = (const void *)p;
        for (int h = 0; h < 2; h++) {
            int s = 2 * b + h, c = k->d[s], man = c & 7, exp = c >> 3 & 15;
            r.half[h] = c == 127 ? 0 : exp ? ldexpf(8 + (float)man, exp - 11) : ldexpf((float)man, -10);
            for (int i = 0; i < 8; i++) {
                r.q[16 * h + i] = e2m1_x2[k->qs[8 * s + i] & 15];
                r.q[16 * h + 8 + i] = e2m1_x2[k->qs[8 * s + i] >> 4];
            }
        }
        break;
    }
    case QT_IQ4_XS: {
        const blk_iq4_xs *k = (const void *)p;
        r.dw = f16_to_f32(k->d) * (float)(iq4_xs_scale(k, b) - 32);
        nibble_codes(k->qs + 16 * b, r.q);
        for (int i = 0; i < 32; i++)
            r.q[i] = iq4_values[r.q[i]];
        break;
    }
    case QT_Q4_K: {
        const blk_q4_k *k = (const void *)p;
        q4_k_scale_min(k->scales, b, &sc, &mn);
        r.dw = f16_to_f32(k->d) * (float)sc;
        r.mw = -(f16_to_f32(k->dmin) * (float)mn);
        k_codes(k->qs, NULL, b, r.q);
        break;
    }
    case QT_Q5_K: {
        const blk_q5_k *k = (const void *)p;
        q4_k_scale_min(k->scales, b, &sc, &mn);
        r.dw = f16_to_f32(k->d) * (float)sc;
        r.mw = -(f16_to_f32(k->dmin) * (float)mn);
        k_codes(k->qs, k->qh, b, r.q);
        break;
    }
    case QT_Q6_K: {
        const blk_q6_k *k = (const void *)p;
        r.dw = f16_to_f32(k->d);
        for (int l = 0; l < 32; l++) {
            int half = b / 4, quarter = b % 4;
            int lo = k->ql[64 * half + 32 * (quarter & 1) + l] >> (4 * (quarter / 2)) & 15;
            r.q[l] = (lo | (k->qh[32 * half + l] >> (2 * quarter) & 3) << 4) - 32;
        }
        r.sc[0] = k->scales[2 * b];
        r.sc[1] = k->scales[2 * b + 1];
        break;
    }
    case QT_Q3_K: {
        const blk_q3_k *k = (const void *)p;
        r.dw = f16_to_f32(k->d);
        for (int l = 0; l < 32; l++)
            r.q[l] = (k->qs[32 * (b / 4) + l] >> (2 * (b % 4)) & 3) - (k->hmask[l] >> b & 1 ? 0 : 4);
        r.sc[0] = q3_k_scale(k->scales, 2 * b) - 32;
        r.sc[1] = q3_k_scale(k->scales, 2 * b + 1) - 32;
        break;
    }
    case QT_Q2_K: {
        const blk_q2_k *k = (const void *)p;
        r.dw = f16_to_f32(k->d);
        r.dmin = f16_to_f32(k->dmin);
        for (int l = 0; l < 32; l++)
            r.q[l] = k->qs[32 * (b / 4) + l] >> (2 * (b % 4)) & 3;
        for (int h = 0; h < 2; h++) {
            r.sc[h] = k->scales[2 * b + h] & 15;
            r.m[h] = k->scales[2 * b + h] >> 4;
        }
        break;
    }
    default: return book_run(t, p, b);
    }
    return r;
}

static bool has_min(enum qtype t)
{
    return t == QT_Q4_1 || t == QT_Q5_1 || t == QT_Q4_K || t == QT_Q5_K;
}

/* q, d of one block of x by the text; a block that is not finite has d = NaN. */
static float quant_block(const float *x, int *q)
{
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < 32; i++) {
        finite = finite && isfinite(x[i]);
        amax = fmaxf(amax, fabsf(x[i]));
        q[i] = 0;
    }
    if (!finite)
        return NAN;
    if (amax < 1e-30f)
        return 0;
    for (int i = 0; i < 32; i++)
        q[i] = (int)rintf(x[i] * (127 / amax));
    return amax / 127;
}

/* 32 elements of x in codes, and the sums of each half. */
struct xrun {
    float d;
    int q[32], sum[2];
};

static struct xrun xrun_of(const float *x)
{
    struct xrun r = { 0 };
    r.d = quant_block(x, r.q);
    for (int i = 0; i < 32; i++)
        r.sum[i / 16] += r.q[i];
    return r;
}

/* runs: of w, xr: of x, [n_in / 32] for block types */
static float reference(enum qtype t, const uint8_t *w, const struct run *runs, const float *x, const struct xrun *xr,
                       uint32_t n_in)
{
    float acc = 0;
    if (!mm_type_is_block(t)) {
        for (uint32_t k = 0; k < n_in; k++) {
            float v = 0;
            dequant_row(t, w + (size_t)k * qtype_block_bytes(t), &v, 1);
            acc = fmaf(v, x[k], acc);
        }
        return acc;
    }
    for (uint32_t k = 0; k < n_in / 32; k++) {
        const struct run *r = &runs[k];
        int sum[2] = { 0, 0 };
        float d = xr[k].d;
        for (int i = 0; i < 32; i++)
            sum[i / 16] += r->q[i] * xr[k].q[i];
        for (int h = 0; h < 2 && t == QT_NVFP4; h++)
            acc = fmaf(r->half[h] * d, (float)sum[h], acc);
        if (t == QT_NVFP4)
            continue;
        acc = fmaf(r->dw * d, (float)(r->sc[0] * sum[0] + r->sc[1] * sum[1]), acc);
        if (has_min(t))
            acc = fmaf(r->mw, d * (float)(xr[k].sum[0] + xr[k].sum[1]), acc);
        if (t == QT_Q2_K)
            acc = fmaf(-(r->dmin * d), (float)(r->m[0] * xr[k].sum[0] + r->m[1] * xr[k].sum[1]), acc);
    }
    return acc;
}

/* ---- weights and inputs ---- */

/* Replaces a block's f16 scales by ones of a usual size, keeping its codes. */
static void tame_scales(enum qtype t, uint8_t *p)
{
    uint16_t d = f16_from_f32(random_f32() * 0.1f), m = f16_from_f32(random_f32() * 0.1f);
    switch (t) {
    case QT_Q4_0: case QT_Q5_0: case QT_Q8_0: case QT_IQ4_NL: case QT_IQ4_XS: memcpy(p, &d, 2); break;
    case QT_Q4_1: case QT_Q5_1: case QT_Q4_K: case QT_Q5_K: memcpy(p, &d, 2); memcpy(p + 2, &m, 2); break;
    case QT_Q2_K: memcpy(p + 80, &d, 2); memcpy(p + 82, &m, 2); break;
    case QT_Q3_K: memcpy(p + 108, &d, 2); break;
    case QT_Q6_K: memcpy(p + 208, &d, 2); break;
    case QT_MXFP4: p[0] = (uint8_t)(110 + random_u32() % 20); break;
    case QT_NVFP4: break; /* any factor is of a usual size */
    case QT_F16: case QT_BF16: d = t == QT_F16 ? d : bf16_from_f32(random_f32()); memcpy(p, &d, 2); break;
    case QT_F32: { float f = random_f32(); memcpy(p, &f, 4); } break;
    default: quant_book_set_d(t, p, f16_to_f32(d)); break;
    }
}

enum fill { RANDOM, RAW, ONES, ZEROS, SIGN, N_FILLS };

static void fill_rows(enum qtype t, uint8_t *w, size_t bytes, enum fill how)
{
    static const uint8_t byte[N_FILLS] = { 0, 0, 0xff, 0, 0x80 };
    for (size_t i = 0; i < bytes; i++)
        w[i] = how <= RAW ? (uint8_t)random_u32() : byte[how];
    if (how != RAW) /* RAW: scales of any bits, NaN and infinity among them */
        for (size_t i = 0; i < bytes; i += qtype_block_bytes(t))
            tame_scales(t, w + i);
}

/* Row 0 in order; others alternate between usual values, extremes of one sign, and blocks with something special. */
static void fill_x(float *x, uint32_t n_in, uint32_t row)
{
    for (uint32_t i = 0; i < n_in; i++) {
        switch (row % 5) {
        case 1: x[i] = 1; break;
        case 2: x[i] = i % 2 ? -1.0f : 1.0f; break;
        case 3: x[i] = -1; break;
        default: x[i] = random_f32() * 3; break;
        }
    }
    if (row % 5 == 4 && n_in >= 64) {
        static const float special[] = { 0, 1e-31f, 1e-30f, 1e-42f, 3e38f };
        for (uint32_t i = 0; i < 32; i++)
            x[i + 32] = special[row / 5 % 5] * (row / 5 % 5 ? random_f32() : 1);
    }
}

static void same(float got, float want, const char *what, enum qtype t, uint32_t n_in, uint32_t n, uint32_t r,
                 uint32_t lane)
{
    if (f32_bits(got) == f32_bits(want) || (isnan(got) && isnan(want)))
        return;
    ck_abort_msg("%s %s n_in %u rows %u: row %u lane %u: got %a, want %a", what, qtype_name(t), n_in, n, r, lane,
                  (double)got, (double)want);
}

/* What products read and write ends at the edge of what may be touched. */
struct bench {
    struct mm_act act;
    void *act_mem, *scratch;
    uint8_t *file, *panels;
    float *x, *y, *want;
    size_t row, ldx, ldy;
    size_t file_bytes, panel_bytes, act_bytes, scratch_bytes, x_bytes, y_bytes;
};

static struct bench bench_create(enum qtype t, uint32_t n_in, enum fill how)
{
    struct bench b = { .row = qtype_row_bytes(t, n_in), .ldx = n_in + 5, .ldy = PANELS * 16 + 3 };
    size_t panel = mm_panel_bytes(t, n_in);
    b.file = edge_alloc(b.file_bytes = b.row * 16 * PANELS, 1);
    b.panels = edge_alloc(b.panel_bytes = panel * PANELS, 16);
    b.act_mem = edge_alloc(b.act_bytes = mm_act_bytes(MAX_ROWS + 1, n_in), 64);
    b.scratch = edge_alloc(b.scratch_bytes = mm_scratch_bytes(n_in), 64);
    b.x = edge_alloc(b.x_bytes = (b.ldx * (MAX_ROWS - 1) + n_in) * sizeof(float), sizeof(float));
    b.y = edge_alloc(b.y_bytes = b.ldy * MAX_ROWS * sizeof(float), sizeof(float));
    b.want = malloc(b.y_bytes);
    mm_act_init(&b.act, MAX_ROWS + 1, n_in, b.act_mem);
    fill_rows(t, b.file, b.row * 16 * PANELS, how);
    for (uint32_t p = 0; p < PANELS; p++)
        mm_pack(t, n_in, b.file + p * 16 * b.row, b.row, 16, b.panels + p * panel);
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        fill_x(b.x + r * b.ldx, n_in, r);
    struct run *runs = calloc(n_in / 32 + 1, sizeof *runs);
    uint32_t per = qtype_block(t) / 32, n_xr = mm_type_is_block(t) ? n_in / 32 : 0;
    struct xrun *xr = calloc((size_t)MAX_ROWS * n_xr + 1, sizeof *xr);
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        for (uint32_t k = 0; k < n_xr; k++)
            xr[r * n_xr + k] = xrun_of(b.x + r * b.ldx + 32 * (size_t)k);
    for (uint32_t i = 0; i < PANELS * 16; i++) {
        const uint8_t *w = b.file + i * b.row;
        for (uint32_t k = 0; mm_type_is_block(t) && k < n_in / 32; k++)
            runs[k] = run_of(t, w + (size_t)(k / per) * qtype_block_bytes(t), (int)(k % per));
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            b.want[r * b.ldy + i] = reference(t, w, runs, b.x + r * b.ldx, xr + r * n_xr, n_in);
    }
    free(runs);
    free(xr);
    return b;
}

static void bench_destroy(struct bench *b)
{
    edge_free(b->file, b->file_bytes);
    edge_free(b->panels, b->panel_bytes);
    edge_free(b->act_mem, b->act_bytes);
    edge_free(b->scratch, b->scratch_bytes);
    edge_free(b->x, b->x_bytes);
    edge_free(b->y, b->y_bytes);
    free(b->want);
}

/* Rows [r0, r0 + n) of the bench through kernels k, on n_panels panels; nothing outside y's part may change. */
static void compare(const struct mm_kernels *k, enum qtype t, uint32_t n_in, struct bench *b, uint32_t r0, uint32_t n,
                    uint32_t n_panels)
{
    for (size_t i = 0; i < b->ldy * MAX_ROWS; i++)
        b->y[i] = 12345;
    k->dot(t, n)(n_in, b->panels, n_panels, &b->act, r0 + 1, b->x + r0 * b->ldx, b->ldx, n, b->y, b->ldy, b->scratch);
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        for (uint32_t i = 0; i < b->ldy; i++) {
            bool inside = r < n && i < n_panels * 16;
            same(b->y[r * b->ldy + i], inside ? b->want[(r + r0) * b->ldy + i] : 12345, k->isa, t, n_in, n, r, i);
        }
}

static bool selected(const char *isa, const struct mm_kernels **k)
{
    *k = mm_select(isa);
    return !strcmp((*k)->isa, isa);
}

START_TEST(every_set_type_row_count_and_length_is_canonical)
{
    enum qtype t = types[_i];
    static const uint32_t rows[] = { 1, 2, 3, 5, 8, 16, 17, 64, 4, 6, 7, 9, 31 };
    uint32_t unit = qtype_block(t);
    uint32_t blocks[] = { 1, 2, 3, 4, 5 };
    if (unit < 256) {
        blocks[3] = unit == 32 ? 15 : 255;
        blocks[4] = unit == 32 ? 33 : 1025;
    }
    for (size_t s = 0; s < N_LENGTHS; s++) {
        uint32_t n_in = blocks[s] * unit;
        struct bench b = bench_create(t, n_in, (enum fill)(s % N_FILLS));
        const struct mm_kernels *k;
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
            if (!selected(isas[i], &k))
                continue;
            if (mm_type_is_block(t))
                for (uint32_t r = 0; r < MAX_ROWS; r++)
                    k->quant(b.x + r * b.ldx, n_in, &b.act, r + 1);
            for (size_t j = 0; j < (s < 3 ? sizeof rows / sizeof *rows : 8); j++)
                for (uint32_t p = s < 3 ? 1 : PANELS; p <= PANELS; p++)
                    compare(k, t, n_in, &b, rows[j] < MAX_ROWS, rows[j], p);
        }
        bench_destroy(&b);
    }
}
END_TEST

START_TEST(extreme_codes_do_not_saturate)
{
    enum qtype t = types[_i];
    for (int how = 0; how < N_FILLS; how++) {
        uint32_t n_in = 2 * qtype_block(t);
        struct bench b = bench_create(t, n_in, (enum fill)how);
        const struct mm_kernels *k;
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
            if (!selected(isas[i], &k))
                continue;
            if (mm_type_is_block(t))
                for (uint32_t r = 0; r < MAX_ROWS; r++)
                    k->quant(b.x + r * b.ldx, n_in, &b.act, r + 1);
            compare(k, t, n_in, &b, 0, 5, 2);
            compare(k, t, n_in, &b, 0, 64, 2);
        }
        bench_destroy(&b);
    }
}
END_TEST

START_TEST(selection_is_bounded_and_knows_its_names)
{
    ck_assert_str_eq(mm_select("plain")->isa, "plain");
    ck_assert_ptr_null(mm_select("sse9"));
    ck_assert_ptr_nonnull(mm_select(NULL));
    ck_assert_ptr_eq(mm_select(NULL), mm_select("amx"));
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const struct mm_kernels *k;
        if (!selected(isas[i], &k))
            printf("%s: not on this machine, not tested\n", isas[i]);
        for (int t = 0; t < N_TYPES; t++)
            for (uint32_t n = 1; n < 70; n++)
                ck_assert_ptr_nonnull(k->dot(types[t], n));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mm_dot");
    TCase *c = tcase_create("dot");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, every_set_type_row_count_and_length_is_canonical, 0, N_TYPES);
    tcase_add_loop_test(c, extreme_codes_do_not_saturate, 0, N_TYPES);
    tcase_add_test(c, selection_is_bounded_and_knows_its_names);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
