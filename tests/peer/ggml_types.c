/* tests/peer/ggml_types.c
 * zinc's block formats against ggml's own code, which is loaded at run time:
 *
 *     ggml_types [PATH/libggml-base.so]          default: $ZINC_GGML_BASE
 *
 * Every type's dequantiser must agree bit for bit on random blocks, and no quantiser may have an error more than 1 %
 * above that of ggml's on gaussian rows, with and without the importance of columns. Exit 77: no library. ggml's side is reached through its public functions
 * ggml_get_type_traits and ggml_quantize_chunk. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/dequant.h"
#include "model/quant.h"

/* The public struct of ggml.h. */
struct peer_traits {
    const char *type_name;
    int64_t blck_size, blck_size_interleave;
    size_t type_size;
    bool is_quantized;
    void (*to_float)(const void *x, float *y, int64_t k);
    void (*from_float_ref)(const float *x, void *y, int64_t k);
};

typedef const struct peer_traits *traits_fn(int type);
typedef size_t quantize_fn(int type, const float *src, void *dst, int64_t start, int64_t nrows, int64_t n_per_row,
                           const float *imatrix);

static const enum qtype all_types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
};

enum { N = 256 * 64, ROUNDS = 64 };
#define MAX_RATIO 1.01

static uint64_t rng_state = 0x9e3779b97f4a7c15u;

static uint64_t rng(void)
{
    uint64_t x = rng_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return rng_state = x;
}

static float gauss(void)
{
    double u = ((double)(rng() >> 11) + 1) * 0x1p-53, v = (double)(rng() >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Random bytes are random blocks; NaN scales give NaNs on both sides, whose payload is not compared. */
static int compare(enum qtype t, const struct peer_traits *tr)
{
    static _Alignas(64) uint8_t raw[N * 4];
    static float ours[N], theirs[N];
    if ((uint64_t)tr->blck_size != qtype_block(t) || tr->type_size != qtype_block_bytes(t)) {
        printf("%-7s FAIL: block %lld elements of %zu bytes, zinc has %u of %u\n", qtype_name(t),
               (long long)tr->blck_size, tr->type_size, qtype_block(t), qtype_block_bytes(t));
        return 1;
    }
    if (t == QT_F32)
        return 0;
    uint64_t bad = 0, nans = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t bytes = qtype_row_bytes(t, N);
        for (uint64_t i = 0; i < bytes; i++)
            raw[i] = (uint8_t)(rng() >> 24);
        if (t == QT_F16 || t == QT_BF16) /* all 65536 of them, in turn */
            for (int i = 0; i < N; i++)
                ((uint16_t *)raw)[i] = (uint16_t)(round * N + i);
        dequant_row(t, raw, ours, N);
        tr->to_float(raw, theirs, N);
        for (int i = 0; i < N; i++) {
            bool nan = isnan(ours[i]) && isnan(theirs[i]);
            nans += nan;
            if (!nan && f32_bits(ours[i]) != f32_bits(theirs[i]) && bad++ == 0)
                printf("%-7s element %d: %a, ggml has %a\n", qtype_name(t), i, (double)ours[i], (double)theirs[i]);
        }
    }
    printf("%-7s %s: %llu of %llu differ (%llu NaN on both sides)\n", qtype_name(t), bad ? "FAIL" : "bit-equal",
           (unsigned long long)bad, (unsigned long long)N * ROUNDS, (unsigned long long)nans);
    return bad != 0;
}

enum { ROW = 4096, TURNS = 4 };

/* The sum of squared errors, each times its column's importance. */
static double errors(enum qtype t, const void *q, const float *x, const float *importance)
{
    static float y[N];
    double s = 0;
    dequant_row(t, q, y, N);
    for (int i = 0; i < N; i++)
        s += ((double)y[i] - x[i]) * ((double)y[i] - x[i]) * (importance ? (double)importance[i % ROW] : 1);
    return s;
}

/* What ggml refuses without an importance matrix. */
static bool wants_importance(enum qtype t)
{
    return t == QT_IQ2_XXS || t == QT_IQ2_XS || t == QT_IQ1_S;
}

static int compare_errors(quantize_fn *quantize, const float *importance)
{
    int failed = 0;
    static _Alignas(64) uint8_t a[N * 4], b[N * 4];
    static float x[N];
    printf("\n%-7s %12s %12s %8s   %s of unit gaussian rows\n", "type", "zinc", "ggml", "ratio",
           importance ? "RMSE, weighted by importance," : "RMSE");
    for (size_t k = 0; k < sizeof all_types / sizeof *all_types; k++) {
        enum qtype t = all_types[k];
        double ours = 0, theirs = 0;
        struct err e;
        if (t == QT_F32 || (wants_importance(t) && !importance))
            continue;
        for (int turn = 0; turn < TURNS; turn++) {
            for (int i = 0; i < N; i++)
                x[i] = gauss();
            for (int r = 0; r < N / ROW; r++)
                if (quant_row(t, x + r * ROW, importance, a + r * qtype_row_bytes(t, ROW), ROW, &e)) {
                    printf("FAIL %s\n", e.msg);
                    return 1;
                }
            quantize((int)t, x, b, 0, N / ROW, ROW, importance);
            ours += errors(t, a, x, importance);
            theirs += errors(t, b, x, importance);
        }
        ours = sqrt(ours / ((double)TURNS * N));
        theirs = sqrt(theirs / ((double)TURNS * N));
        bool bad = !(ours <= MAX_RATIO * theirs);
        failed += bad;
        printf("%-7s %12.4e %12.4e %8.4f%s\n", qtype_name(t), ours, theirs, ours / theirs, bad ? " FAIL" : "");
    }
    return failed;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : getenv("ZINC_GGML_BASE");
    if (!path) {
        printf("no libggml-base.so: name it, or set ZINC_GGML_BASE\n");
        return 77;
    }
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        printf("cannot load the peer: %s\n", dlerror());
        return 77;
    }
    traits_fn *get_traits = (traits_fn *)dlsym(lib, "ggml_get_type_traits");
    quantize_fn *quantize = (quantize_fn *)dlsym(lib, "ggml_quantize_chunk");
    if (!get_traits || !quantize) {
        printf("%s lacks ggml_get_type_traits or ggml_quantize_chunk\n", path);
        return 77;
    }
    int failed = 0;
    for (size_t k = 0; k < sizeof all_types / sizeof *all_types; k++)
        failed += compare(all_types[k], get_traits((int)all_types[k]));
    static float importance[ROW];
    for (int i = 0; i < ROW; i++)
        importance[i] = expf(gauss());
    failed += compare_errors(quantize, NULL);
    failed += compare_errors(quantize, importance);
    return failed ? 1 : 0;
}
