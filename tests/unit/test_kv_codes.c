/* What a value of the KV cache becomes: fp8's codes and roundings from the format's definition, 4-bit blocks against the
 * nearest level, and the rotation, which changes no score. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/kvcode.h"
#include "oracle/kv_block.h"

/* OCP 8-bit floating point, E4M3: 1.m * 2^(e - 7), e = 0: m / 8 * 2^-6. */
static double fp8_value(uint32_t c)
{
    uint32_t e = c >> 3 & 15, m = c & 7;
    double v = e ? ldexp(8 + m, (int)e - 10) : ldexp(m, -9);
    return c & 128 ? -v : v;
}

START_TEST(every_fp8_code_widens_exactly)
{
    for (uint32_t c = 0; c < 256; c++) {
        if ((c & 127) == 127)
            ck_assert(isnan(e4m3_to_f32(c)));
        else
            ck_assert_msg(f32_bits((float)fp8_value(c)) == f32_bits(e4m3_to_f32(c)), "%02x: %a", c,
                          (double)e4m3_to_f32(c));
    }
    ck_assert(e4m3_to_f32(0x7e) == 448.0f);
}
END_TEST

START_TEST(every_rounding_boundary_of_fp8_is_right)
{
    for (uint32_t c = 0; c < 0x7e; c++) {
        float mid = (float)((fp8_value(c) + fp8_value(c + 1)) / 2);
        ck_assert_uint_eq(e4m3_from_f32((float)fp8_value(c)), c);
        ck_assert_uint_eq(e4m3_from_f32(mid), c & 1 ? c + 1 : c);
        ck_assert_uint_eq(e4m3_from_f32(nextafterf(mid, 0)), c);
        ck_assert_uint_eq(e4m3_from_f32(-nextafterf(mid, INFINITY)), (c + 1) | 128);
    }
    ck_assert_uint_eq(e4m3_from_f32(448.0f), 0x7e);
    ck_assert_uint_eq(e4m3_from_f32(1e30f), 0x7e); /* saturates */
    ck_assert_uint_eq(e4m3_from_f32(-500.0f), 0xfe);
    ck_assert_uint_eq(e4m3_from_f32(INFINITY) & 127, 127);
    ck_assert_uint_eq(e4m3_from_f32(NAN) & 127, 127);
    ck_assert_uint_eq(e4m3_from_f32(1e-30f), 0);
}
END_TEST

static float draw(void) /* normal, nearly */
{
    float x = 0.0f;
    for (int i = 0; i < 12; i++)
        x += (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

static float read_back(enum ka_kv kv, uint16_t scale, uint8_t code)
{
    return f16_to_f32(scale) * kv4_level(kv == KA_KV_ROT4, code);
}

START_TEST(each_value_of_a_4_bit_block_gets_the_nearest_level)
{
    const enum ka_kv kvs[] = { KA_KV_Q4_0, KA_KV_ROT4 };
    for (int t = 0; t < 400; t++) {
        enum ka_kv kv = kvs[t % 2];
        float x[KA_KV_BLOCK], m = 0.0f;
        uint8_t q[KA_KV_BLOCK];
        for (int i = 0; i < KA_KV_BLOCK; i++) {
            x[i] = draw() * ldexpf(1.0f, t % 13 - 6);
            m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
        }
        uint16_t d = kv4_store(kv, x, q);
        for (int i = 0; i < KA_KV_BLOCK; i++) {
            float got = fabsf(read_back(kv, d, q[i]) - x[i]);
            ck_assert_uint_lt(q[i], 16);
            for (uint8_t c = 0; c < 16; c++) /* the scale's rounding may make another one nearer by a little */
                ck_assert_msg(got <= fabsf(read_back(kv, d, c) - x[i]) + fabsf(m) * 1e-3f, "%g: %u, not %u", (double)x[i],
                              q[i], c);
            if (x[i] == m)
                ck_assert_msg(got <= fabsf(m) * 1e-3f, "the largest, %g, comes back as %g", (double)m,
                              (double)read_back(kv, d, q[i]));
        }
    }
}
END_TEST

START_TEST(a_4_bit_block_with_a_fault_has_a_nan_and_one_of_nothing_a_0)
{
    float x[KA_KV_BLOCK] = { 0 };
    uint8_t q[KA_KV_BLOCK];
    for (int k = 0; k < 2; k++) {
        enum ka_kv kv = k ? KA_KV_ROT4 : KA_KV_Q4_0;
        x[7] = 0.0f;
        ck_assert_uint_eq(kv4_store(kv, x, q), 0);
        x[7] = 1e-31f;
        ck_assert_uint_eq(kv4_store(kv, x, q), 0);
        x[7] = -INFINITY;
        ck_assert(isnan(f16_to_f32(kv4_store(kv, x, q))));
        x[7] = NAN;
        ck_assert(isnan(f16_to_f32(kv4_store(kv, x, q))));
    }
}
END_TEST

START_TEST(of_two_largest_with_opposite_signs_the_positive_one_makes_the_scale)
{
    float x[KA_KV_BLOCK] = { [3] = -2.0f, [20] = 2.0f };
    uint8_t q[KA_KV_BLOCK], again[KA_KV_BLOCK];
    uint16_t d = kv4_store(KA_KV_Q4_0, x, q);
    ck_assert(f16_to_f32(d) == -0.25f);
    x[3] = 2.0f, x[20] = -2.0f; /* whatever their order */
    ck_assert_uint_eq(kv4_store(KA_KV_Q4_0, x, again), d);
    ck_assert_uint_eq(q[20], again[3]);
}
END_TEST

START_TEST(the_rotation_of_q_and_k_keeps_their_product_and_spreads_what_is_large)
{
    static const uint32_t dims[] = { 32, 64, 80, 96, 128, 256, 512 };
    for (int i = 0; i < 7; i++) {
        uint32_t hd = dims[i], run = kv_rot_run(hd);
        float q[512], k[512], top = 0.0f;
        double before = 0.0, after = 0.0, size = 0.0;
        for (uint32_t d = 0; d < hd; d++) {
            q[d] = draw(), k[d] = d == 5 ? 100.0f : draw();
            before += (double)q[d] * k[d];
            size += fabs((double)q[d] * k[d]);
        }
        kv_rotate(q, hd, true);
        kv_rotate(k, hd, false);
        for (uint32_t d = 0; d < hd; d++) {
            after += (double)q[d] * k[d];
            top = fabsf(k[d]) > top ? fabsf(k[d]) : top;
        }
        ck_assert_msg(fabs(after - before) < 1e-5 * size, "%u: %g, was %g", hd, after, before);
        /* 100 / sqrt(run), times sqrt(2) where that is no power of two, and the others */
        ck_assert_msg(top < 150.0f / sqrtf((float)run) + 8.0f, "%u: %g", hd, (double)top);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kv codes");
    TCase *t = tcase_create("kv codes");
    tcase_add_test(t, every_fp8_code_widens_exactly);
    tcase_add_test(t, every_rounding_boundary_of_fp8_is_right);
    tcase_add_test(t, each_value_of_a_4_bit_block_gets_the_nearest_level);
    tcase_add_test(t, a_4_bit_block_with_a_fault_has_a_nan_and_one_of_nothing_a_0);
    tcase_add_test(t, of_two_largest_with_opposite_signs_the_positive_one_makes_the_scale);
    tcase_add_test(t, the_rotation_of_q_and_k_keeps_their_product_and_spreads_what_is_large);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
