/* Quantisers of the types of codebooks and of ternary ones: their error on gaussian rows, the same codes in registers of every
 * width, ternary weights as they were, and what importance is for. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/dequant.h"
#include "model/quant.h"
#include "model/quant_codebook.h"

enum { N = 48 * QK_K };

static float x[N], y[N], importance[N];
static _Alignas(64) uint8_t q[N * 4 + 1];
static struct err e;

static const enum qtype types[] = {
#define OF_BOOK(NAME)   QT_##NAME,
#define OF_TRITS(NAME)  QT_##NAME,
#define OF_LOOKUP(NAME)
#define QTYPE_BOOK(NAME, name, set, id, elems, bytes, recipe, stand_in, bits, scales, codes) OF_##codes(NAME)
#include "kernels/qtypes.def"
};

static uint64_t rng_state;

static float gauss(void)
{
    float sum = 0;
    for (int k = 0; k < 12; k++) {
        rng_state ^= rng_state << 13;
        rng_state ^= rng_state >> 7;
        rng_state ^= rng_state << 17;
        sum += (float)(rng_state >> 40) * 0x1p-24f;
    }
    return sum - 6;
}

static void fill(float sigma)
{
    rng_state = 88172645463325252u;
    for (int i = 0; i < N; i++)
        x[i] = sigma * gauss();
    for (int i = 0; i < N; i++)
        importance[i] = expf(gauss());
}

static void round_trip(enum qtype t, const float *weights, int n)
{
    memset(q, 0xee, sizeof q);
    ck_assert_msg(quant_row(t, x, weights, q, (uint64_t)n, &e) == 0, "%s: %s", qtype_name(t), e.msg);
    ck_assert_msg(q[qtype_row_bytes(t, (uint64_t)n)] == 0xee, "%s wrote too much", qtype_name(t));
    dequant_row(t, q, y, (uint64_t)n);
}

static double error(const float *weights)
{
    double err = 0, xx = 0;
    for (int i = 0; i < N; i++) {
        double w = weights ? (double)weights[i] : 1;
        err += w * ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
        xx += w * (double)x[i] * x[i];
    }
    return sqrt(err / xx);
}

/* Limits: about 3 % above what the quantisers reach. */
START_TEST(error_on_gaussian_rows_is_small)
{
    static const struct { enum qtype t; double limit; } cases[] = {
        { QT_IQ2_XXS, 0.335 }, { QT_IQ2_XS, 0.291 }, { QT_IQ2_S, 0.252 }, { QT_IQ3_XXS, 0.184 }, { QT_IQ3_S, 0.137 },
        { QT_IQ1_S, 0.500 },   { QT_IQ1_M, 0.436 },  { QT_TQ1_0, 0.457 }, { QT_TQ2_0, 0.457 },
    };
    ck_assert_int_eq(ARRAY_LEN(cases), ARRAY_LEN(types));
    for (int scale = 0; scale < 3; scale++) {
        fill(scale == 0 ? 1 : scale == 1 ? 0.02f : 30);
        for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
            round_trip(cases[k].t, NULL, N);
            ck_assert_msg(error(NULL) <= cases[k].limit, "%s: relative error %g, at most %g", qtype_name(cases[k].t), error(NULL),
                          cases[k].limit);
        }
    }
}
END_TEST

START_TEST(errors_go_where_they_count_least)
{
    static const enum qtype others[] = { QT_Q4_0, QT_Q4_1, QT_Q5_0, QT_Q5_1, QT_Q2_K, QT_Q3_K, QT_Q4_K, QT_Q5_K, QT_Q6_K, QT_IQ4_NL,
                                         QT_IQ4_XS, QT_MXFP4 };
    fill(0.02f);
    for (size_t k = 0; k < ARRAY_LEN(types) + ARRAY_LEN(others); k++) {
        enum qtype t = k < ARRAY_LEN(types) ? types[k] : others[k - ARRAY_LEN(types)];
        round_trip(t, NULL, N);
        double without = error(importance);
        round_trip(t, importance, N);
        ck_assert_msg(error(importance) < without, "%s: weighted error %g with importance, %g without", qtype_name(t), error(importance),
                      without);
    }
}
END_TEST

/* An importance of any size, none at all, and columns without any. */
START_TEST(only_ratios_of_importance_matter)
{
    static _Alignas(64) uint8_t a[N * 4], b[N * 4];
    static float other[N];
    static const enum qtype some[] = { QT_Q4_0, QT_Q4_K, QT_Q6_K, QT_IQ4_XS, QT_IQ2_S, QT_TQ2_0 };
    fill(1);
    for (size_t k = 0; k < ARRAY_LEN(some); k++) {
        uint64_t bytes = qtype_row_bytes(some[k], N);
        for (int i = 0; i < N; i++)
            other[i] = importance[i] * 0x1p60f;
        ck_assert_int_eq(quant_row(some[k], x, importance, a, N, &e), 0);
        ck_assert_int_eq(quant_row(some[k], x, other, b, N, &e), 0);
        ck_assert_msg(memcmp(a, b, bytes) == 0, "%s: importance times 2^60 gives other codes", qtype_name(some[k]));
        memset(other, 0, sizeof other);
        round_trip(some[k], other, N);
        ck_assert_msg(error(NULL) < 0.5, "%s without any importance: error %g", qtype_name(some[k]), error(NULL));
    }
}
END_TEST

START_TEST(zeros_stay_zeros)
{
    memset(x, 0, sizeof x);
    for (size_t k = 0; k < ARRAY_LEN(types); k++) {
        round_trip(types[k], k % 2 ? importance : NULL, QK_K);
        for (int i = 0; i < QK_K; i++)
            ck_assert_msg(y[i] == 0, "%s: element %d is %g", qtype_name(types[k]), i, (double)y[i]);
    }
}
END_TEST

START_TEST(ternary_weights_are_kept)
{
    rng_state = 1;
    for (int i = 0; i < N; i++) {
        float g = gauss(), d = f16_to_f32((uint16_t)(0x2400 + i / QK_K));
        x[i] = g > 0.7f ? d : g < -0.6f ? -d : 0;
    }
    for (int k = 0; k < 2; k++) {
        round_trip(k ? QT_TQ2_0 : QT_TQ1_0, NULL, N);
        for (int i = 0; i < N; i++)
            ck_assert_msg(y[i] == x[i], "%s: element %d: %a became %a", k ? "TQ2_0" : "TQ1_0", i, (double)x[i], (double)y[i]);
    }
}
END_TEST

#ifdef __x86_64__
START_TEST(every_width_gives_the_same_codes)
{
    struct work *w = aligned_alloc(64, sizeof *w);
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
    if (!__builtin_cpu_supports("avx2")) {
        printf("skipped: this CPU has no AVX2\n");
        return;
    }
    fill(1);
    for (int i = 0; i < QK_K; i++) { /* entries that are equally good */
        x[QK_K + i] = i % 64 < 24 ? 0 : 1;
        importance[QK_K + i] = 1;
    }
    for (size_t k = 0; k < ARRAY_LEN(types); k++) {
        if (types[k] == QT_TQ1_0 || types[k] == QT_TQ2_0)
            continue;
        quant_codebook_open(&w->book, types[k]);
        for (int i = 0; i < 4 * QK_K; i += QK_K) {
            struct codes a, b, c;
            quant_codebook_fit(w, x + i, importance + i, &a);
            quant_codebook_fit_avx2(w, x + i, importance + i, &b);
            ck_assert_msg(memcmp(&a, &b, sizeof a) == 0, "%s: AVX2 gives other codes", qtype_name(types[k]));
            if (wide)
                quant_codebook_fit_avx512(w, x + i, importance + i, &c);
            ck_assert_msg(!wide || memcmp(&a, &c, sizeof a) == 0, "%s: AVX-512 gives other codes", qtype_name(types[k]));
        }
    }
    free(w);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("codebook");
    TCase *t = tcase_create("codebook");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, error_on_gaussian_rows_is_small);
    tcase_add_test(t, errors_go_where_they_count_least);
    tcase_add_test(t, only_ratios_of_importance_matter);
    tcase_add_test(t, zeros_stay_zeros);
    tcase_add_test(t, ternary_weights_are_kept);
#ifdef __x86_64__
    tcase_add_test(t, every_width_gives_the_same_codes);
#endif
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
