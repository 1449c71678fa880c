/* NVFP4's quantiser: its error on gaussian rows, its own values as they were, what importance is for, and what is refused. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "kernels/dequant.h"
#include "model/quant.h"

enum { N = 16 * 1024 };
static float x[N], y[N], importance[N];
static uint8_t q[N / 64 * 36 + 1];
static struct err e;

static uint64_t rng_state = 88172645463325252u;

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

static void round_trip(const float *weights)
{
    q[sizeof q - 1] = 0xee;
    ck_assert_msg(quant_row(QT_NVFP4, x, weights, q, N, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(q[sizeof q - 1], 0xee);
    dequant_row(QT_NVFP4, q, y, N);
}

/* Of small weights the factors are few: their last place is 2^-9. */
START_TEST(error_on_gaussian_rows_is_small)
{
    static const struct { float sigma; double limit; } cases[] = { { 1, 0.093 }, { 30, 0.093 }, { 0.1f, 0.093 }, { 0.02f, 0.102 } };
    for (int c = 0; c < 4; c++) {
        for (int i = 0; i < N; i++)
            x[i] = cases[c].sigma * gauss();
        round_trip(NULL);
        ck_assert_msg(error(NULL) <= cases[c].limit, "sigma %g: relative error %g, at most %g", (double)cases[c].sigma, error(NULL),
                      cases[c].limit);
    }
}
END_TEST

START_TEST(its_own_values_stay_exactly)
{
    static const float grid[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    for (int i = 0; i < N; i++)
        x[i] = grid[i % 8] * ldexpf(1 + (float)(i / 16 % 8) / 8, i / 128 % 14 - 6) * (i % 3 ? 1 : -1);
    round_trip(NULL);
    for (int i = 0; i < N; i++)
        ck_assert_msg(y[i] == x[i], "element %d: %a became %a", i, (double)x[i], (double)y[i]);
}
END_TEST

START_TEST(errors_go_where_they_count_least)
{
    for (int i = 0; i < N; i++)
        x[i] = gauss(), importance[i] = expf(2 * gauss());
    round_trip(NULL);
    double without = error(importance);
    round_trip(importance);
    ck_assert_msg(error(importance) < 0.9 * without, "weighted error %g with importance, %g without", error(importance), without);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    memset(x, 0, sizeof x);
    round_trip(NULL);
    for (int i = 0; i < N; i++)
        ck_assert_msg(y[i] == 0, "zero %d became %g", i, (double)y[i]);
    x[7] = -2688;
    round_trip(NULL);
    ck_assert_float_eq(y[7], -2688);
    x[7] = 2700;
    ck_assert_int_eq(quant_row(QT_NVFP4, x, NULL, q, N, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "2688"));
    x[7] = NAN;
    ck_assert_int_eq(quant_row(QT_NVFP4, x, NULL, q, N, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "element 7 is NaN"));
    x[7] = 0;
    ck_assert_int_eq(quant_row(QT_NVFP4, x, NULL, q, 96, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "64"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nvfp4");
    TCase *t = tcase_create("nvfp4");
    tcase_add_test(t, error_on_gaussian_rows_is_small);
    tcase_add_test(t, its_own_values_stay_exactly);
    tcase_add_test(t, errors_go_where_they_count_least);
    tcase_add_test(t, what_does_not_fit_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
