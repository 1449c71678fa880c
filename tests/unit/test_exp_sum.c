/* Sums of exponentials against those in double: their error, what they take for nothing, and blocks. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/sample/exp_sum.h"
#include "engine/sample/mt19937.h"

enum { MAX_N = 1000, MAX_BLOCKS = (MAX_N + EXP_BLOCK - 1) / EXP_BLOCK };

static const uint32_t lengths[] = { 1, 7, 8, 63, 64, 65, 128, 129, 191, MAX_N };

/* That of one block; exponents below -87 count as nothing. */
static double block(const float *l, const uint64_t *mask, uint32_t n, uint32_t b, float max, float temp)
{
    double sum = 0;
    for (uint32_t i = b * EXP_BLOCK; i < MIN(n, (b + 1) * EXP_BLOCK); i++) {
        double x = ((double)l[i] - (double)max) / (double)temp;
        if (x >= -87.0 && (!mask || mask[b] >> i % EXP_BLOCK & 1))
            sum += exp(x);
    }
    return sum;
}

static void near(float got, double want, double by)
{
    ck_assert_msg(fabs((double)got - want) <= by * want, "%.9g, expected %.9g", (double)got, want);
}

static void compare(const float *l, const uint64_t *mask, uint32_t n, float max, float temp)
{
    float sums[MAX_BLOCKS + 1];
    uint32_t n_blocks = (n + EXP_BLOCK - 1) / EXP_BLOCK;
    double total = 0;
    sums[n_blocks] = 17.0f;
    double got = exp_sums(l, mask, n, max, temp, sums);
    for (uint32_t b = 0; b < n_blocks; b++) {
        double want = block(l, mask, n, b, max, temp);
        near(sums[b], want, 1e-6);
        total += want;
    }
    ck_assert_msg(fabs(got - total) <= 1e-6 * total, "%.9g, expected %.9g", got, total);
    ck_assert_double_eq(exp_sums(l, mask, n, max, temp, NULL), got);
    ck_assert_float_eq(sums[n_blocks], 17.0f);
}

/* In memory of exactly n, where a sanitizer sees what is read behind it, and at no 32 bytes. */
static void compare_within(uint32_t n, struct mt19937 *m, float temp, bool masked)
{
    float *room = malloc((n + 1) * sizeof *room), *l = room + 1, max = -INFINITY;
    uint64_t mask[MAX_BLOCKS];
    for (uint32_t i = 0; i < n; i++) {
        l[i] = 20 * mt_float(m) - 10;
        max = l[i] > max ? l[i] : max;
    }
    for (uint32_t b = 0; b < MAX_BLOCKS; b++) /* some blocks whole, some empty */
        mask[b] = b % 3 == 2 ? UINT64_MAX * (b % 2) : (uint64_t)mt_next(m) << 32 | mt_next(m);
    compare(l, masked ? mask : NULL, n, max, temp);
    free(room);
}

START_TEST(test_error)
{
    struct mt19937 m;
    mt_seed(&m, 3);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (uint32_t masked = 0; masked < 2; masked++) {
            compare_within(lengths[i], &m, 1.0f, masked);
            compare_within(lengths[i], &m, 0.5f, masked);
            compare_within(lengths[i], &m, 2.0f, masked);
        }
}
END_TEST

/* One exponential at a time, to where it ends. */
START_TEST(test_each)
{
    for (float x = 0; x > -86.5f; x -= 0.00390625f) /* 1/256: the differences are exact */
        near((float)exp_sums(&x, NULL, 1, 0.0f, 1.0f, NULL), exp((double)x), 1e-6);
    for (float x = -87.5f; x > -2000.0f; x *= 1.5f)
        ck_assert_double_eq(exp_sums(&x, NULL, 1, 0.0f, 1.0f, NULL), 0.0);
}
END_TEST

START_TEST(test_no_numbers)
{
    float l[130], sums[3];
    for (uint32_t i = 0; i < 130; i++)
        l[i] = i % 2 ? NAN : -INFINITY;
    ck_assert_double_eq(exp_sums(l, NULL, 130, 0.0f, 1.0f, sums), 0.0);
    for (uint32_t b = 0; b < 3; b++)
        ck_assert_float_eq(sums[b], 0.0f);
    l[3] = l[128] = 2.0f; /* in a whole block and in a tail */
    ck_assert_double_eq(exp_sums(l, NULL, 130, 2.0f, 1.0f, sums), 2.0);
    ck_assert(sums[0] == 1.0f && sums[1] == 0.0f && sums[2] == 1.0f);
    const uint64_t none[3] = { 0 }, third[3] = { 0, 0, 1 };
    ck_assert_double_eq(exp_sums(l, none, 130, 2.0f, 1.0f, NULL), 0.0);
    ck_assert_double_eq(exp_sums(l, third, 130, 2.0f, 1.0f, NULL), 1.0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("exp_sum");
    TCase *tc = tcase_create("exp_sum");
    tcase_add_test(tc, test_error);
    tcase_add_test(tc, test_each);
    tcase_add_test(tc, test_no_numbers);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
