/* Quantise and dequantise: the error of every type on gaussian rows, and rows that are not gaussian at all. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"
#include "model/quant.h"

enum { N = 64 * QK_K };

static const enum qtype all_types[] = {
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
};
enum { N_TYPES = sizeof all_types / sizeof *all_types };

static float x[N], y[N];
static _Alignas(64) uint8_t q[N * 4 + 1];
static struct err e;

static void round_trip(enum qtype t, int n)
{
    memset(q, 0xee, sizeof q);
    ck_assert_msg(quant_row(t, x, NULL, q, (uint64_t)n, &e) == 0, "%s: %s", qtype_name(t), e.msg);
    ck_assert_msg(q[qtype_row_bytes(t, (uint64_t)n)] == 0xee, "%s wrote too much", qtype_name(t));
    dequant_row(t, q, y, (uint64_t)n);
}

static void fill_gauss(float sigma)
{
    uint64_t s = 88172645463325252u;
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int k = 0; k < 12; k++) {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            sum += (float)(s >> 40) * 0x1p-24f;
        }
        x[i] = (sum - 6) * sigma;
    }
}

static double relative_rmse(void)
{
    double err = 0, xx = 0;
    for (int i = 0; i < N; i++) {
        err += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
        xx += (double)x[i] * x[i];
    }
    return sqrt(err / xx);
}

/* Limits: about 3 % above what the quantisers reach. */
START_TEST(error_on_gaussian_rows_is_small)
{
    static const struct { enum qtype t; double limit; } cases[] = {
        { QT_F32, 0 },       { QT_F16, 2.2e-4 },   { QT_BF16, 1.75e-3 },  { QT_Q4_0, 0.0885 },
        { QT_Q4_1, 0.0805 }, { QT_Q5_0, 0.0440 },  { QT_Q5_1, 0.0390 },   { QT_Q8_0, 5.6e-3 },
        { QT_Q2_K, 0.280 },  { QT_Q3_K, 0.149 },   { QT_Q4_K, 0.0735 },   { QT_Q5_K, 0.0365 },
        { QT_Q6_K, 0.0177 }, { QT_IQ4_NL, 0.077 }, { QT_IQ4_XS, 0.0777 }, { QT_MXFP4, 0.115 },
    };
    ck_assert_int_eq(sizeof cases / sizeof *cases, N_TYPES);
    for (int scale = 0; scale < 3; scale++) { /* weights are about 0.02 */
        fill_gauss(scale == 0 ? 1 : scale == 1 ? 0.02f : 30);
        for (int k = 0; k < N_TYPES; k++) {
            round_trip(cases[k].t, N);
            ck_assert_msg(relative_rmse() <= cases[k].limit, "%s: relative error %g, at most %g",
                          qtype_name(cases[k].t), relative_rmse(), cases[k].limit);
        }
    }
}
END_TEST

START_TEST(zeros_stay_zeros)
{
    memset(x, 0, sizeof x);
    for (int k = 0; k < N_TYPES; k++) {
        round_trip(all_types[k], QK_K);
        for (int i = 0; i < QK_K; i++)
            ck_assert_msg(y[i] == 0, "%s: element %d is %g", qtype_name(all_types[k]), i, (double)y[i]);
    }
}
END_TEST

/* Each type must keep a lone element, of either sign, to the precision of its scale. */
START_TEST(one_large_element_survives)
{
    static const float sizes[] = { 60000, -60000, 1, -1e-3f };
    for (int k = 0; k < N_TYPES; k++)
        for (int c = 0; c < 4; c++) {
            memset(x, 0, sizeof x);
            x[77] = sizes[c];
            round_trip(all_types[k], QK_K);
            float rel = fabsf(y[77] / x[77] - 1), limit = all_types[k] == QT_MXFP4 ? 0.34f : 0.05f;
            ck_assert_msg(rel <= limit, "%s: %g became %g", qtype_name(all_types[k]), (double)x[77], (double)y[77]);
            for (int i = 0; i < QK_K; i++)
                ck_assert_msg(i == 77 || fabsf(y[i]) <= 0.05f * fabsf(x[77]), "%s: zero %d became %g beside %g",
                              qtype_name(all_types[k]), i, (double)y[i], (double)x[77]);
        }
}
END_TEST

START_TEST(constant_rows_and_shifted_rows_stay_close)
{
    for (int k = 0; k < N_TYPES; k++) {
        for (int i = 0; i < QK_K; i++)
            x[i] = -0.75f;
        round_trip(all_types[k], QK_K);
        for (int i = 0; i < QK_K; i++)
            ck_assert_msg(fabsf(y[i] + 0.75f) < 0.011f, "%s: -0.75 became %g", qtype_name(all_types[k]),
                          (double)y[i]);
        fill_gauss(0.1f);
        for (int i = 0; i < N; i++)
            x[i] += 5; /* the hard direction: Q2_K, Q4_K and Q5_K only store offsets below zero */
        round_trip(all_types[k], N);
        ck_assert_msg(relative_rmse() < (all_types[k] == QT_MXFP4 || all_types[k] == QT_Q2_K ? 0.2 : 0.08),
                      "%s: %g", qtype_name(all_types[k]), relative_rmse());
    }
}
END_TEST

/* Values below what f16 factors resolve may vanish, but must not become anything else. */
START_TEST(tiny_values_shrink_or_stay)
{
    static const float sizes[] = { 1e-5f, 1e-7f, 1e-9f, 1e-20f, 1e-38f, 1e-44f };
    for (int c = 0; c < 6; c++) {
        fill_gauss(sizes[c]);
        for (int k = 0; k < N_TYPES; k++) {
            round_trip(all_types[k], N);
            for (int i = 0; i < N; i++)
                ck_assert_msg(isfinite(y[i]) && fabsf(y[i]) <= 8 * sizes[c] + 0x1p-17f, "%s: %g became %g",
                              qtype_name(all_types[k]), (double)x[i], (double)y[i]);
        }
    }
}
END_TEST

START_TEST(mxfp4_keeps_its_own_values_exactly)
{
    static const float grid[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    for (int shift = -120; shift <= 120; shift += 24) {
        for (int i = 0; i < QK; i++)
            x[i] = ldexpf(grid[i % 8], shift) * (i % 3 ? 1 : -1);
        round_trip(QT_MXFP4, QK);
        for (int i = 0; i < QK; i++)
            ck_assert_msg(y[i] == x[i], "2^%d, element %d: %a became %a", shift, i, (double)x[i], (double)y[i]);
    }
}
END_TEST

START_TEST(damaged_rows_are_refused)
{
    for (int k = 0; k < N_TYPES; k++) {
        fill_gauss(1);
        x[300] = NAN;
        ck_assert_int_eq(quant_row(all_types[k], x, NULL, q, N, &e), -EINVAL);
        ck_assert_ptr_nonnull(strstr(e.msg, "element 300 is NaN"));
        x[300] = -INFINITY;
        ck_assert_int_eq(quant_row(all_types[k], x, NULL, q, N, &e), -EINVAL);
        ck_assert_ptr_nonnull(strstr(e.msg, "infinite"));
    }
    fill_gauss(1);
    x[7] = 70000;
    ck_assert_int_eq(quant_row(QT_Q4_K, x, NULL, q, N, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "65504"));
    ck_assert_int_eq(quant_row(QT_MXFP4, x, NULL, q, N, &e), 0);
    ck_assert_int_eq(quant_row(QT_BF16, x, NULL, q, N, &e), 0);
    ck_assert_int_eq(quant_row(QT_Q4_K, x, NULL, q, QK_K + QK, &e), -EINVAL);
    ck_assert_int_eq(quant_row((enum qtype)9, x, NULL, q, N, &e), -ENOTSUP);
}
END_TEST

START_TEST(names_parse_in_any_case)
{
    enum qtype t;
    ck_assert_int_eq(quant_type_parse("iq4_xs", &t, &e), 0);
    ck_assert_int_eq(t, QT_IQ4_XS);
    ck_assert_int_eq(quant_type_parse("Q7_K", &t, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "MXFP4"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("round_trip");
    TCase *t = tcase_create("round_trip");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, error_on_gaussian_rows_is_small);
    tcase_add_test(t, zeros_stay_zeros);
    tcase_add_test(t, one_large_element_survives);
    tcase_add_test(t, constant_rows_and_shifted_rows_stay_close);
    tcase_add_test(t, tiny_values_shrink_or_stay);
    tcase_add_test(t, mxfp4_keeps_its_own_values_exactly);
    tcase_add_test(t, damaged_rows_are_refused);
    tcase_add_test(t, names_parse_in_any_case);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
