/* The quantisers of the types whose blocks of 256 have a small scale, some a minimum, for each run (model/quant_lanes.h): rows by SIDE
 * blocks, and how they are packed. */
#include <string.h>

#include "base/ckd.h"
#include "model/quant_lanes.h"
#include "model/quant_search.h"

/* One block as it was chosen. */
struct block_codes {
    const float *q;       /* [256] */
    const int *sc, *mn;
    uint16_t d, m;
};

/* ---- packing; the layouts are those of kernels/dequant.h ---- */

static void pack_iq4_xs(const struct block_codes *c, blk_iq4_xs *b)
{
    const float *q = c->q;
    const int *sc = c->sc;
    b->d = c->d;
    for (int j = 0; j < 8; j++) {
        uint32_t u = (uint32_t)(sc[j] + 32);
        b->scales_l[j / 2] |= (uint8_t)((u & 15) << (4 * (j & 1)));
        b->scales_h |= (uint16_t)(u >> 4 << (2 * j));
        for (int l = 0; l < 16; l++)
            b->qs[16 * j + l] = (uint8_t)(quant_iq4_index(q[32 * j + l]) | quant_iq4_index(q[32 * j + l + 16]) << 4);
    }
}

static void pack_q2_k(const struct block_codes *c, blk_q2_k *b)
{
    const float *q = c->q;
    const int *sc = c->sc, *mn = c->mn;
    b->d = c->d;
    b->dmin = c->m;
    for (int r = 0; r < 16; r++) {
        b->scales[r] = (uint8_t)(sc[r] | mn[r] << 4);
        uint8_t *out = b->qs + 32 * (r / 8) + 16 * (r & 1);
        for (int l = 0; l < 16; l++)
            out[l] |= (uint8_t)((int)q[16 * r + l] << (2 * (r / 2 % 4)));
    }
}

static void pack_q3_k(const struct block_codes *c, blk_q3_k *b)
{
    const float *q = c->q;
    const int *sc = c->sc;
    b->d = c->d;
    for (int r = 0; r < 16; r++) {
        int u = sc[r] + 32;
        uint8_t *out = b->qs + 32 * (r / 8) + 16 * (r & 1), *high = b->hmask + 16 * (r & 1);
        b->scales[r % 8] |= (uint8_t)((u & 15) << (4 * (r / 8)));
        b->scales[8 + r % 4] |= (uint8_t)(u >> 4 << (2 * (r / 4)));
        for (int l = 0; l < 16; l++) {
            int v = (int)q[16 * r + l] + 4;
            out[l] |= (uint8_t)((v & 3) << (2 * (r / 2 % 4)));
            high[l] |= (uint8_t)(v >> 2 << r / 2);
        }
    }
}

static void pack_q4_k_scales(uint8_t s[12], const int *sc, const int *mn)
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(mn[j] | mn[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
}

static void pack_q4_k(const struct block_codes *c, blk_q4_k *b)
{
    const float *q = c->q;
    const int *sc = c->sc, *mn = c->mn;
    b->d = c->d;
    b->dmin = c->m;
    pack_q4_k_scales(b->scales, sc, mn);
    for (int j = 0; j < 8; j++)
        for (int l = 0; l < 32; l++)
            b->qs[32 * (j / 2) + l] |= (uint8_t)((int)q[32 * j + l] << (4 * (j & 1)));
}

static void pack_q5_k(const struct block_codes *c, blk_q5_k *b)
{
    const float *q = c->q;
    const int *sc = c->sc, *mn = c->mn;
    b->d = c->d;
    b->dmin = c->m;
    pack_q4_k_scales(b->scales, sc, mn);
    for (int j = 0; j < 8; j++)
        for (int l = 0; l < 32; l++) {
            int v = (int)q[32 * j + l];
            b->qs[32 * (j / 2) + l] |= (uint8_t)((v & 15) << (4 * (j & 1)));
            b->qh[l] |= (uint8_t)(v >> 4 << j);
        }
}

static void pack_q6_k(const struct block_codes *c, blk_q6_k *b)
{
    const float *q = c->q;
    const int *sc = c->sc;
    b->d = c->d;
    for (int r = 0; r < 16; r++)
        b->scales[r] = (int8_t)sc[r];
    for (int k = 0; k < 8; k++) {
        int part = k / 4, quarter = k % 4;
        for (int l = 0; l < 32; l++) {
            int v = (int)q[32 * k + l] + 32;
            b->ql[64 * part + 32 * (quarter & 1) + l] |= (uint8_t)((v & 15) << (4 * (quarter / 2)));
            b->qh[32 * part + l] |= (uint8_t)(v >> 4 << (2 * quarter));
        }
    }
}

/* ---- rows ---- */

/* The types: symmetric or with a minimum, and how the fit goes about them. */
#define K_TYPES(X)                                                                                                           \
    X(Q2_K, q2_k, affine, .run = 16, .limit = 15, .steps = 9, .hi = 3, .span = 1.2f)                                         \
    X(Q4_K, q4_k, affine, .run = 32, .limit = 63, .steps = 8, .hi = 15, .span = 1.5f)                                        \
    X(Q5_K, q5_k, affine, .run = 32, .limit = 63, .steps = 6, .hi = 31, .span = 1.5f)                                        \
    X(Q3_K, q3_k, sym, .run = 16, .limit = 32, .steps = 8, .lo = -4, .hi = 3, .end = -4, .span = 1.2f)                       \
    X(Q6_K, q6_k, sym, .run = 16, .limit = 128, .steps = 5, .lo = -32, .hi = 31, .end = -32, .span = 1.5f)                   \
    X(IQ4_XS, iq4_xs, sym, .run = 32, .limit = 32, .steps = 9, .table = true, .end = -127, .span = 16)

typedef void fit_fn(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c);

/* Of a fit's three builds the one for this processor. */
static fit_fn *for_this_processor(fit_fn *plain, fit_fn *avx2, fit_fn *avx512)
{
#ifdef __x86_64__
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    return has_avx512 ? avx512 : has_avx2 ? avx2 : plain;
#else
    return plain;
#endif
}

#ifdef __x86_64__
#define FIT(name) for_this_processor(name, name##_avx2, name##_avx512)
#else
#define FIT(name) for_this_processor(name, NULL, NULL)
#endif

static void pack(enum qtype t, const struct block_codes *c, void *dst)
{
    memset(dst, 0, qtype_block_bytes(t));
    switch (t) {
#define X(NAME, name, ...)                                                                                                   \
    case QT_##NAME: pack_##name(c, dst); break;
        K_TYPES(X)
#undef X
    default: break;
    }
}

bool quant_k_row(enum qtype t, const float *x, const float *importance, void *dst, uint64_t n)
{
    struct lane_codes c;
    struct lane_kind kind;
    fit_fn *fit;
    float last_x[SIDE * QK_K] = { 0 }, last_importance[SIDE * QK_K];
    switch (t) {
#define X(NAME, name, shape, ...)                                                                                            \
    case QT_##NAME:                                                                                                          \
        kind = (struct lane_kind){ __VA_ARGS__ };                                                                            \
        fit = FIT(quant_lanes_##shape);                                                                                      \
        break;
        K_TYPES(X)
#undef X
    default: return false;
    }
    for (uint64_t at = 0; at < n; at += SIDE * QK_K) {
        const float *src = x + at, *imp = importance ? importance + at : NULL;
        uint64_t here = MIN(n - at, (uint64_t)SIDE * QK_K);
        if (here < SIDE * QK_K) {
            memcpy(last_x, src, here * sizeof *src);
            src = last_x;
        }
        if (imp && here < SIDE * QK_K) {
            memset(last_importance, 0, sizeof last_importance);
            memcpy(last_importance, imp, here * sizeof *imp);
            imp = last_importance;
        }
        fit(&kind, src, imp, &c);
        for (uint64_t b = 0; b < here / QK_K; b++)
            pack(t, &(struct block_codes){ c.q[b], c.sc[b], c.mn[b], c.d[b], c.m[b] },
                 (uint8_t *)dst + (at / QK_K + b) * qtype_block_bytes(t));
    }
    return true;
}

#define X(NAME, name, ...)                                                                                                   \
    void quant_##name(const float *x, const float *importance, blk_##name *b)                                                \
    {                                                                                                                        \
        quant_k_row(QT_##NAME, x, importance, b, QK_K);                                                                      \
    }
K_TYPES(X)
#undef X
