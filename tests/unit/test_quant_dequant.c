/* Dequantisation: vectors computed by hand from the format's description, and checksums of random blocks (the values
 * that were bit-equal to ggml's when they were recorded; tests/peer/ggml_types.c repeats that comparison). */
#include <check.h>
#include <math.h>
#include <string.h>

#include "kernels/dequant.h"

#define EXPECT(got, want) ck_assert_msg((got) == (want), "%s: got %a, want %a", #got, (double)(got), (double)(want))

enum { ONE = 0x3c00, HALF = 0x3800, TWO = 0x4000, MINUS_ONE = 0xbc00 }; /* as f16 */

static float y[QK_K];

START_TEST(small_blocks_by_hand)
{
    blk_q4_0 a = { .d = HALF, .qs = { [0] = 0xf0, [15] = 0x08 } };
    dequant_q4_0(&a, y);
    EXPECT(y[0], -4.0f);
    EXPECT(y[16], 3.5f);
    EXPECT(y[15], 0.0f);
    EXPECT(y[31], -4.0f);

    blk_q4_1 b = { .d = TWO, .m = MINUS_ONE, .qs = { [3] = 0x5f } };
    dequant_q4_1(&b, y);
    EXPECT(y[3], 29.0f);
    EXPECT(y[19], 9.0f);
    EXPECT(y[0], -1.0f);

    blk_q5_0 c = { .d = ONE, .qh = { 0x02, 0, 0, 0x80 }, .qs = { [1] = 0x01, [15] = 0xf0 } };
    dequant_q5_0(&c, y);
    EXPECT(y[1], 1.0f);   /* 16 + 1 - 16 */
    EXPECT(y[31], 15.0f); /* 16 + 15 - 16 */
    EXPECT(y[0], -16.0f);

    blk_q5_1 d = { .d = HALF, .m = ONE, .qh = { 0x01, 0, 0x01, 0 }, .qs = { [0] = 0x21 } };
    dequant_q5_1(&d, y);
    EXPECT(y[0], 9.5f);
    EXPECT(y[16], 10.0f);
    EXPECT(y[1], 1.0f);

    blk_q8_0 f = { .d = 0x0001, .qs = { -128, 127 } }; /* the smallest half, 2^-24 */
    dequant_q8_0(&f, y);
    EXPECT(y[0], -0x1p-17f);
    EXPECT(y[1], 127 * 0x1p-24f);

    blk_iq4_nl g = { .d = MINUS_ONE, .qs = { [2] = 0xf0 } };
    dequant_iq4_nl(&g, y);
    EXPECT(y[2], 127.0f);
    EXPECT(y[18], -113.0f);
}
END_TEST

START_TEST(mxfp4_scales_reach_the_subnormals)
{
    static const struct { uint8_t e; float unit; } cases[] = {
        { 0, 0x1p-128f }, { 1, 0x1p-127f }, { 2, 0x1p-126f }, { 127, 0.5f }, { 128, 1 }, { 254, 0x1p126f },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        blk_mxfp4 b = { .e = cases[i].e, .qs = { 0x71, 0xf9, 0x83 } };
        dequant_mxfp4(&b, y);
        EXPECT(y[0], cases[i].unit);
        EXPECT(y[16], 12 * cases[i].unit);
        EXPECT(y[1], -cases[i].unit);
        EXPECT(y[17], -12 * cases[i].unit);
        EXPECT(y[2], 3 * cases[i].unit);
        EXPECT(y[18], 0.0f);
    }
}
END_TEST

START_TEST(nvfp4_has_a_factor_for_each_16)
{
    /* UE4M3: 0, the least (2^-9), the least normal (2^-6), 1, 448, NaN, and half of each since the table is doubled */
    static const struct { uint8_t c; float unit; } cases[] = {
        { 0, 0 }, { 1, 0x1p-10f }, { 7, 7 * 0x1p-10f }, { 8, 0x1p-7f }, { 56, 0.5f }, { 57, 0.5625f }, { 126, 224 }, { 127, 0 },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int r = 0; r < 4; r++) {
            blk_nvfp4 b = { 0 };
            b.d[r] = cases[i].c;
            memset(b.qs, 0x55, sizeof b.qs);
            b.qs[8 * r] = 0xf1;     /* elements 0 and 8 of the run */
            b.qs[8 * r + 7] = 0x37; /* 7 and 15 */
            dequant_nvfp4(&b, y);
            EXPECT(y[16 * r], cases[i].unit);
            EXPECT(y[16 * r + 8], -12 * cases[i].unit);
            EXPECT(y[16 * r + 7], 12 * cases[i].unit);
            EXPECT(y[16 * r + 15], 3 * cases[i].unit);
            EXPECT(y[16 * ((r + 1) % 4) + 3], 0);
        }
}
END_TEST

START_TEST(q2_k_and_q3_k_by_hand)
{
    blk_q2_k a = { .d = ONE, .dmin = HALF };
    a.scales[0] = 0x23;          /* scale 3, minimum 2 * 0.5          */
    a.scales[13] = 0x1f;         /* run 13: half 1, shift 4, second 16 */
    a.qs[5] = 0x02;
    a.qs[32 + 16 + 7] = 3 << 4;
    dequant_q2_k(&a, y);
    EXPECT(y[5], 5.0f);
    EXPECT(y[0], -1.0f);
    EXPECT(y[13 * 16 + 7], 44.5f);

    blk_q3_k b = { .d = ONE };
    memset(b.scales, 0, sizeof b.scales); /* every scale -32 */
    b.scales[1] = 0x05;                   /* run 1: low bits 5 ...         */
    b.scales[9] = 0x02;                   /* ... high bits 2: 37 - 32 = 5  */
    b.qs[16 + 3] = 1;                     /* run 1, element 3              */
    b.hmask[16 + 4] = 1;
    dequant_q3_k(&b, y);
    EXPECT(y[16 + 3], -15.0f); /* 5 * (1 - 4) */
    EXPECT(y[16 + 4], 0.0f);
    EXPECT(y[0], 128.0f); /* -32 * (0 - 4) */
}
END_TEST

START_TEST(q4_k_q5_k_and_q6_k_by_hand)
{
    blk_q4_k a = { .d = ONE, .dmin = ONE };
    a.scales[0] = 7 | 2 << 6;   /* scale 0: 7; the high bits of scale 4: 2    */
    a.scales[4] = 3 | 1 << 6;   /* minimum 0: 3; the high bits of minimum 4: 1 */
    a.scales[8] = 0x5c;         /* scale 4: 12 + 32 = 44; minimum 4: 5 + 16 = 21 */
    a.qs[0] = 0x0f;
    a.qs[64 + 9] = 0x02;
    dequant_q4_k(&a, y);
    EXPECT(y[0], 102.0f);
    EXPECT(y[1], -3.0f);
    EXPECT(y[128 + 9], 67.0f);
    EXPECT(y[32], 0.0f);

    blk_q5_k b = { .d = ONE, .dmin = ONE };
    b.scales[0] = 1;
    b.scales[1] = 1;
    b.scales[5] = 4;
    b.qs[2] = 0x93;
    b.qh[2] = 0x03;
    dequant_q5_k(&b, y);
    EXPECT(y[2], 19.0f);
    EXPECT(y[34], 21.0f); /* 9 + 16 - 4 */

    blk_q6_k c = { .d = TWO };
    c.scales[0] = -3;
    c.scales[15] = 5;
    c.ql[0] = 0x01;
    c.qh[0] = 0x03;             /* element 0: 1 + 48 - 32 = 17  */
    c.ql[64 + 32 + 31] = 0xf0;
    c.qh[32 + 31] = 0x40;       /* element 255: 15 + 16 - 32 = -1 */
    dequant_q6_k(&c, y);
    EXPECT(y[0], -102.0f);
    EXPECT(y[1], 192.0f);
    EXPECT(y[255], -10.0f);
}
END_TEST

START_TEST(iq4_xs_by_hand)
{
    blk_iq4_xs a = { .d = HALF };
    a.scales_l[3] = 0x40;      /* run 7: low bits 4 ...          */
    a.scales_h = 3 << 14;      /* ... high bits 3: 52 - 32 = 20  */
    a.qs[16 * 7 + 15] = 0x80;
    dequant_iq4_xs(&a, y);
    EXPECT(y[7 * 32 + 15], -1270.0f);
    EXPECT(y[7 * 32 + 31], 10.0f);
    EXPECT(y[0], 16 * 127.0f);
}
END_TEST

/* FNV-1a over the bits; all NaNs count as one. */
static uint64_t checksum(const float *x, int n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < n; i++) {
        uint32_t u = isnan(x[i]) ? 0x7fc00000 : f32_bits(x[i]);
        for (int k = 0; k < 32; k += 8)
            h = (h ^ (u >> k & 255)) * 0x100000001b3u;
    }
    return h;
}

START_TEST(random_blocks_give_the_recorded_bits)
{
    enum { N = 64 * QK_K };
    static const struct { enum qtype t; uint64_t want; } golden[] = {
        { QT_F16, 0x45361ef37fb7f5d3 },
        { QT_Q4_0, 0xf580bc90b102d27a },
        { QT_Q4_1, 0xd09d7dc1682ef279 },
        { QT_Q5_0, 0x471d91ea731ae889 },
        { QT_Q5_1, 0x7b805554d7ad9276 },
        { QT_Q8_0, 0x6dcee1e4432de367 },
        { QT_Q2_K, 0xcd17b801e2253004 },
        { QT_Q3_K, 0x132e9e1eb5bf80c7 },
        { QT_Q4_K, 0xe913c08051271521 },
        { QT_Q5_K, 0x698563cf0a8144f6 },
        { QT_Q6_K, 0xbd6c75ae8b14f44a },
        { QT_IQ4_NL, 0x49e1cd1685363c91 },
        { QT_IQ4_XS, 0xce0bea4b1bc9c3e6 },
        { QT_BF16, 0x77483b15f01220a7 },
        { QT_MXFP4, 0x86722bc2178e328e },
        { QT_NVFP4, 0x04b1190dfbf3fe7a },
    };
    static _Alignas(64) uint8_t raw[N * 4];
    static float out[N];
    uint64_t s = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < sizeof raw; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        raw[i] = (uint8_t)(s >> 24);
    }
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        dequant_row(golden[i].t, raw, out, N);
        uint64_t got = checksum(out, N);
        ck_assert_msg(got == golden[i].want, "X(%s, 0x%016llx)", qtype_name(golden[i].t), (unsigned long long)got);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dequant");
    TCase *t = tcase_create("dequant");
    tcase_add_test(t, small_blocks_by_hand);
    tcase_add_test(t, mxfp4_scales_reach_the_subnormals);
    tcase_add_test(t, nvfp4_has_a_factor_for_each_16);
    tcase_add_test(t, q2_k_and_q3_k_by_hand);
    tcase_add_test(t, q4_k_q5_k_and_q6_k_by_hand);
    tcase_add_test(t, iq4_xs_by_hand);
    tcase_add_test(t, random_blocks_give_the_recorded_bits);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
