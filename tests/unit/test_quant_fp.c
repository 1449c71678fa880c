/* Half and bfloat16 conversions: exact widening, ties to even on narrowing, at every boundary there is. */
#include <check.h>
#include <math.h>

#include "kernels/fp.h"

/* The value of a finite half from the definition of the format; 0x7c00 stands for 2^16, the first value too large. */
static double half_value(uint32_t h)
{
    uint32_t e = h >> 10 & 31, m = h & 0x3ff;
    double v = e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void expect_narrow(float f, uint16_t want)
{
    ck_assert_msg(f16_from_f32(f) == want, "%a: got %04x, want %04x", (double)f, f16_from_f32(f), want);
    ck_assert_msg(f16_from_f32_soft(f) == want, "soft %a: got %04x, want %04x", (double)f,
                  f16_from_f32_soft(f), want);
    uint16_t neg = want | 0x8000;
    ck_assert_msg(f16_from_f32(-f) == neg, "%a: got %04x, want %04x", (double)-f, f16_from_f32(-f), neg);
    ck_assert_msg(f16_from_f32_soft(-f) == neg, "soft %a: got %04x", (double)-f, f16_from_f32_soft(-f));
}

START_TEST(every_half_widens_exactly)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint32_t got = f32_bits(f16_to_f32((uint16_t)h)), soft = f32_bits(f16_to_f32_soft((uint16_t)h));
        ck_assert_msg(got == soft, "%04x: %08x, soft %08x", h, got, soft);
        if ((h & 0x7c00) == 0x7c00) {
            uint32_t m = h & 0x3ff, want = (h & 0x8000) << 16 | 0x7f800000 | (m ? 0x400000 | m << 13 : 0);
            ck_assert_msg(got == want, "%04x: %08x, want %08x", h, got, want);
        } else {
            ck_assert_msg(f32_bits((float)half_value(h)) == got, "%04x: %08x", h, got);
        }
    }
}
END_TEST

START_TEST(every_rounding_boundary_of_half_is_right)
{
    for (uint16_t h = 0; h < 0x7c00; h++) {
        float v = (float)half_value(h), mid = (float)((half_value(h) + half_value(h + 1u)) / 2);
        expect_narrow(v, h);
        expect_narrow(mid, h & 1 ? h + 1 : h);
        expect_narrow(nextafterf(mid, 0), h);
        expect_narrow(nextafterf(mid, INFINITY), h + 1);
    }
    expect_narrow(0x1p-149f, 0);
    expect_narrow(INFINITY, 0x7c00);
    expect_narrow(0x1.fffffep127f, 0x7c00);
}
END_TEST

START_TEST(nans_stay_quiet_nans_with_their_payload)
{
    ck_assert_uint_eq(f16_from_f32(f32_from_bits(0x7fc02000)), 0x7e01);
    ck_assert_uint_eq(f16_from_f32_soft(f32_from_bits(0x7fc02000)), 0x7e01);
    ck_assert_uint_eq(f16_from_f32_soft(f32_from_bits(0xff800001)), 0xfe00);
    ck_assert_uint_eq(bf16_from_f32(f32_from_bits(0x7f800001)), 0x7fc0);
    ck_assert_uint_eq(bf16_from_f32(f32_from_bits(0xffffffff)), 0xffff);
}
END_TEST

START_TEST(bfloat16_rounds_ties_to_even)
{
    static const struct { uint32_t f; uint16_t want; } cases[] = {
        { 0x3f808000, 0x3f80 }, { 0x3f808001, 0x3f81 }, { 0x3f818000, 0x3f82 }, { 0x3f817fff, 0x3f81 },
        { 0x7f7fffff, 0x7f80 }, { 0x7f7f7fff, 0x7f7f }, { 0x00000001, 0x0000 }, { 0x00008000, 0x0000 },
        { 0x00008001, 0x0001 }, { 0x80018000, 0x8002 }, { 0xff800000, 0xff80 },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(bf16_from_f32(f32_from_bits(cases[i].f)), cases[i].want);
    for (uint32_t h = 0; h < 0x7f81; h++)
        ck_assert_uint_eq(bf16_from_f32(bf16_to_f32((uint16_t)h)), h);
}
END_TEST

START_TEST(e8m0_is_a_power_of_two_down_to_the_subnormals)
{
    for (int e = 0; e < 256; e++)
        ck_assert(e8m0_half_to_f32((uint8_t)e) == (float)ldexp(1, e - 128));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fp");
    TCase *t = tcase_create("fp");
    tcase_add_test(t, every_half_widens_exactly);
    tcase_add_test(t, every_rounding_boundary_of_half_is_right);
    tcase_add_test(t, nans_stay_quiet_nans_with_their_payload);
    tcase_add_test(t, bfloat16_rounds_ties_to_even);
    tcase_add_test(t, e8m0_is_a_power_of_two_down_to_the_subnormals);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
