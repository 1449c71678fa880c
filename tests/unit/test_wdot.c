/* How kernels open weights for dot products where it is done in two ways: nibbles by two choices of bytes that add up against a
 * lookup, entries of codebooks in shared memory against those in the code. Every nibble, every entry and every sign: the op table's
 * bounds would not see a code that is one too large. The kernels' text is compiled for the host, as the lockstep tier does it. */
#include <check.h>
#include <string.h>

#include "kernels/wdot.h"

static int byte_of(uint32_t w, uint32_t k)
{
    return (int8_t)(w >> 8 * k);
}

START_TEST(nibbles_add_up_to_their_values)
{
    static const uint32_t types[] = { QT_IQ4_NL, QT_IQ4_XS, QT_MXFP4, QT_NVFP4 };
    uint32_t type = types[_i], n = type == QT_NVFP4 ? 2 : 4, w[WD_WORDS] = { 0 }, t[4], q[WD_OPEN_WORDS];
    if (type == QT_IQ4_NL || type == QT_IQ4_XS)
        wd_iq4_values(t);
    else
        wd_e2m1_x2(t);
    for (uint32_t pair = 0; pair < 256; pair++) { /* each byte at each place of each word */
        for (uint32_t k = 0; k < n; k++)
            w[k] = pair * 0x01010101u ^ k * 0x35000000u ^ k * 0x007200u;
        wd_open_nibbles(type, w, 0, 0, q);
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t i = 0; i < 8; i++) { /* nibble i of word k meets byte i of x's words 2 k and 2 k + 1 */
                uint32_t code = w[k] >> 4 * i & 15, at = 2 * k + i / 4;
                ck_assert_int_eq(byte_of(q[at], i % 4) + byte_of(q[2 * n + at], i % 4), byte_of(t[code / 4], code % 4));
            }
    }
}
END_TEST

START_TEST(a_book_in_shared_memory_has_the_same_entries)
{
    static const uint32_t types[] = { QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S, QT_IQ1_S, QT_IQ1_M };
    static uint8_t shared[MV_HEAD_BYTES + 4 * (2048 + 256)] __attribute__((aligned(1024)));
    uint32_t type = types[_i], n = mv_book_entries(type), signs = wk_is_seven(type) ? 128 : 256;
    ck_assert_uint_le(MV_HEAD_BYTES + mv_book_bytes(type), sizeof shared);
    memset(shared, 0xee, sizeof shared);
    kd_item = (struct kd_item){ .size = 1, .shared = shared };
    wk_book(type);
    for (uint32_t i = MV_HEAD_BYTES + mv_book_bytes(type); i < sizeof shared; i++)
        ck_assert_uint_eq(shared[i], 0xee); /* no more than hosts make room for */
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < signs; s += i ? 37 : 1) {
            struct wk_ref r = { { i, n - 1 - i }, s, s & 1 };
            uint32_t one[2], other[2];
            wk_entry(type, &r, one);
            wk_book_entry(type, &r, 0, other);
            ck_assert_msg(one[0] == other[0] && one[1] == other[1], "entry %u, signs %u: %08x %08x, in shared memory %08x %08x", i, s,
                          one[0], one[1], other[0], other[1]);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weights for dot products");
    TCase *t = tcase_create("opening");
    tcase_add_loop_test(t, nibbles_add_up_to_their_values, 0, 4);
    tcase_add_loop_test(t, a_book_in_shared_memory_has_the_same_entries, 0, 7);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
