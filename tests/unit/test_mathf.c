/* The elementary functions of the canonical arithmetic: their error bounds, their edges, and that vectors give the
 * same bits as the scalar form; the sums of --exact, which are the same bits with every instruction set. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/mathf.h"
#include "oracle/ops.h"
#include "oracle/v16.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* Every 977th float: all exponents, both signs. */
#define FOR_FLOATS(x)                                                                                                  \
    for (uint64_t u_ = 0; u_ < 1ull << 32; u_ += 977)                                                                  \
        for (float x = k_bits_float((unsigned)u_), once_ = 1; once_ > 0; once_ = 0)

START_TEST(exp_is_within_its_bound)
{
    double worst = 0.0;
    FOR_FLOATS(x) {
        if (!(x >= -87.3f && x <= 88.7f))
            continue;
        double want = exp((double)x), rel = fabs((double)k_exp(x) - want) / want;
        worst = fmax(worst, rel);
    }
    ck_assert_msg(worst < 2e-7, "relative error %.3g", worst);
}
END_TEST

START_TEST(exp_keeps_its_edges)
{
    ck_assert(k_exp(0.0f) == 1.0f && k_exp(-0.0f) == 1.0f);
    ck_assert(k_exp(-87.4f) == 0.0f && k_exp(-INFINITY) == 0.0f && !signbit(k_exp(-INFINITY)));
    ck_assert(isinf(k_exp(88.8f)) && isinf(k_exp(INFINITY)));
    ck_assert(isfinite(k_exp(88.7f)) && k_exp(-87.3f) > 0.0f);
    ck_assert(isnan(k_exp(NAN)));
}
END_TEST

/* What CUDA kernels do in place of a division (k_divide), from any reciprocal that is two units in the last place off: the quotient
 * rounded to nearest, in every place of a divisor's mantissa but a few. */
START_TEST(quotients_by_newtons_step_are_those_of_a_division)
{
    uint32_t wrong[3] = { 0 }, tried = 0; /* of 127 / b, of sums by how many there are, of 1 / b */
    for (uint32_t m = 0; m < 1u << 23; m += 13)
        for (int off = -2; off <= 2; off++) {
            float b = k_bits_float(0x3f800000u | m), y = k_bits_float(bits(1.0f / b) + (uint32_t)off);
            float n = (float)(1 + m % 32768), s = k_bits_float(0x40000000u | (m * 2654435761u >> 9));
            wrong[0] += k_divide_from(127.0f, b, y) != 127.0f / b || k_divide_from(0.0f, b, y) != 0.0f;
            wrong[1] += k_divide_from(s, n, 1.0f / n) != s / n;
            wrong[2] += k_divide_from(1.0f, b, y) != 1.0f / b;
            tried++;
        }
    ck_assert_msg(!wrong[0] && !wrong[1] && wrong[2] <= 5, "%u, %u and %u of %u", wrong[0], wrong[1], wrong[2], tried);
}
END_TEST

START_TEST(tanh_gelu_softplus_sigmoid_are_close)
{
    double worst[4] = { 0 };
    for (float x = -30.0f; x <= 30.0f; x += 1.0f / 512) {
        double d = x;
        worst[0] = fmax(worst[0], fabs(k_tanh(x) - tanh(d)));
        double gelu = 0.5 * d * (1 + tanh(sqrt(2 / M_PI) * d * (1 + 0.044715 * d * d)));
        worst[1] = fmax(worst[1], fabs(k_gelu_tanh(x) - gelu) / fmax(1.0, fabs(d)));
        worst[2] = fmax(worst[2], fabs(k_softplus(x) - log1p(exp(d))) / fmax(1.0, log1p(exp(d))));
        worst[3] = fmax(worst[3], fabs(k_sigmoid(x) - 1 / (1 + exp(-d))));
    }
    const double limit[4] = { 3e-7, 3e-7, 4e-7, 2e-7 };
    for (int i = 0; i < 4; i++)
        ck_assert_msg(worst[i] < limit[i], "function %d: error %.3g, at most %.3g", i, worst[i], limit[i]);
    ck_assert(k_tanh(100.0f) == 1.0f && k_tanh(-100.0f) == -1.0f && k_tanh(0.0f) == 0.0f);
    ck_assert(k_softplus(25.0f) == 25.0f && k_silu(-100.0f) <= 0.0f && k_silu(-100.0f) > -1e-30f);
    ck_assert(k_swiglu_oai(100.0f, 50.0f) == k_swiglu_oai(7.0f, 7.0f));
}
END_TEST

/* Lanes of the vector form as this file's instruction set builds it. */
START_TEST(lanes_give_the_scalar_bits)
{
    float x[16];
    for (uint64_t u = 0; u < 1ull << 32; u += 16 * 4099) {
        for (uint32_t l = 0; l < 16; l++)
            x[l] = k_bits_float((unsigned)(u + l * 4099));
        float y[16];
        v16_store(y, v16_exp(v16_load(x)));
        for (int l = 0; l < 16; l++)
            ck_assert_msg(bits(y[l]) == bits(k_exp(x[l])) || (isnan(y[l]) && isnan(x[l])), "exp(%a): %a, %a", x[l],
                          y[l], k_exp(x[l]));
    }
}
END_TEST

START_TEST(the_tree_adds_8_4_2_1_apart)
{
    float x[16], want[16];
    for (int l = 0; l < 16; l++)
        want[l] = x[l] = (float)(l * l + 1) * 1.1f + (l & 1 ? 1e7f : 0.0f);
    for (int s = 8; s > 0; s >>= 1)
        for (int l = 0; l < s; l++)
            want[l] += want[l + s];
    ck_assert(bits(v16_sum(v16_load(x))) == bits(want[0]));
}
END_TEST

START_TEST(angles_are_right_to_the_last_bits)
{
    double worst = 0.0;
    for (uint32_t pos = 0; pos < 1000000; pos += pos < 5000 ? 1 : 977)
        for (int i = 0; i < 64; i += 7) {
            float theta = (float)pos * powf(1e6f, -(float)i / 64.0f), s, c;
            rope_sincos(theta, &s, &c);
            worst = fmax(worst, fmax(fabs(s - sin((double)theta)), fabs(c - cos((double)theta))));
        }
    ck_assert_msg(worst < 6.1e-8, "error %.3g", worst); /* half a unit of the last place below 1 is 3e-8 */
}
END_TEST

START_TEST(exact_sums_are_the_same_with_every_set)
{
    static const char *const sets[] = { "plain", "avx2", NULL };
    enum { MOST = 75 };
    float w[MOST];
    double x[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        w[i] = sinf((float)i) * 0x1p20f;
        x[i] = cos(3.0 * i) * (i % 3 ? 1e-3 : 1e3);
    }
    for (uint32_t n = 0; n <= MOST; n++) {
        double sum[8] = { 0 };
        for (uint32_t i = 0; i < n; i++)
            sum[i < n / 8 * 8 ? i % 8 : 0] += (double)w[i] * x[i];
        double want = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        for (int s = 0; s < 3; s++) {
            const struct cpu_ops *ops = ops_select(sets[s]);
            double got = ops->dot64(w, x, n);
            ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "%s, %u: %a, expected %a", ops->isa, n, got, want);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mathf");
    TCase *t = tcase_create("mathf");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, exp_is_within_its_bound);
    tcase_add_test(t, exp_keeps_its_edges);
    tcase_add_test(t, quotients_by_newtons_step_are_those_of_a_division);
    tcase_add_test(t, tanh_gelu_softplus_sigmoid_are_close);
    tcase_add_test(t, lanes_give_the_scalar_bits);
    tcase_add_test(t, the_tree_adds_8_4_2_1_apart);
    tcase_add_test(t, angles_are_right_to_the_last_bits);
    tcase_add_test(t, exact_sums_are_the_same_with_every_set);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
