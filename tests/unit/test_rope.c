/* Rotary frequencies: plain, divided by factors, scaled, and with YaRN at the numbers of gpt-oss. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "model/rope.h"

static struct rope_params plain(float base, uint32_t n_rot)
{
    return (struct rope_params){ .base = base, .freq_scale = 1, .mscale = 1, .beta_fast = 32, .beta_slow = 1,
                                 .n_ctx_orig = 4096, .n_rot = n_rot, .kind = ROPE_NEOX };
}

static struct rope_params gpt_oss(void)
{
    struct rope_params p = plain(150000, 64);
    p.freq_scale = 1.0f / 32;
    p.ext_factor = 1;
    p.mscale = rope_yarn_mscale(32);
    return p;
}

#define ck_close(got, want, rel)                                                                                       \
    ck_assert_msg(fabs((double)(got) - (want)) <= (rel)*fabs(want), "%s: %.9g, expected %.9g", #got, (double)(got),    \
                  (double)(want))

START_TEST(plain_frequencies)
{
    struct rope_params p = plain(10000, 8);
    float f[4];
    rope_inv_freq(&p, NULL, f);
    ck_close(f[0], 1.0, 1e-7);
    ck_close(f[1], 0.1, 1e-7);
    ck_close(f[2], 0.01, 1e-7);
    ck_close(f[3], 0.001, 1e-7);
}
END_TEST

START_TEST(factors_divide)
{
    struct rope_params p = plain(10000, 8);
    float f[4], factors[4] = { 1, 2, 8, 1e30f };
    rope_inv_freq(&p, factors, f);
    ck_close(f[0], 1.0, 1e-7);
    ck_close(f[1], 0.05, 1e-7);
    ck_close(f[2], 0.00125, 1e-7);
    ck_assert(f[3] < 1e-32f);
}
END_TEST

START_TEST(linear_scaling_multiplies_every_pair)
{
    struct rope_params p = plain(10000, 8);
    p.freq_scale = 0.125f;
    float f[4];
    rope_inv_freq(&p, NULL, f);
    ck_close(f[0], 0.125, 1e-7);
    ck_close(f[3], 0.000125, 1e-7);
}
END_TEST

START_TEST(yarn_bounds_and_mscale_of_gpt_oss)
{
    struct rope_params p = gpt_oss();
    double low, high;
    rope_yarn_bounds(&p, &low, &high);
    ck_assert_double_eq(low, 8);
    ck_assert_double_eq(high, 18);
    ck_close(p.mscale, 1.34657, 1e-5);
    ck_assert_float_eq(rope_yarn_mscale(1), 1);
}
END_TEST

START_TEST(yarn_keeps_fast_pairs_and_stretches_slow_ones)
{
    struct rope_params p = gpt_oss();
    float f[32];
    rope_inv_freq(&p, NULL, f);
    for (int i = 0; i < 32; i++) {
        double ext = pow(150000, -2.0 * i / 64);
        double ramp = i <= 8 ? 1 : i >= 18 ? 0 : 1 - (i - 8) / 10.0;
        ck_close(f[i], ext * ramp + ext / 32 * (1 - ramp), 1e-6);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rope");
    TCase *t = tcase_create("all");
    suite_add_tcase(s, t);
    tcase_add_test(t, plain_frequencies);
    tcase_add_test(t, factors_divide);
    tcase_add_test(t, linear_scaling_multiplies_every_pair);
    tcase_add_test(t, yarn_bounds_and_mscale_of_gpt_oss);
    tcase_add_test(t, yarn_keeps_fast_pairs_and_stretches_slow_ones);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
