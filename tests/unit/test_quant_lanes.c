/* The quantisers of blocks with small scales: their bytes are recorded, and the same from registers of every width, for blocks alone
 * and side by side. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "model/quant.h"
#include "model/quant_lanes.h"

enum { BLOCKS = 23, N = BLOCKS * QK_K };

static const enum qtype types[] = { QT_Q2_K, QT_Q3_K, QT_Q4_K, QT_Q5_K, QT_Q6_K, QT_IQ4_XS };
enum { N_TYPES = sizeof types / sizeof *types };

static float x[N], importance[N];
static uint64_t state;

/* From 0 to 1; exact, so that every machine draws the same. */
static float uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) * 0x1p-24f;
}

/* Blocks as weights are, and such as they are not: zeroes, one value, one sign, runs that are empty, very large and very small ones. */
static void draw(void)
{
    state = 1;
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < QK_K; i++) {
            float v = ((uniform() + uniform()) + (uniform() + uniform())) - 2, *to = &x[b * QK_K + i];
            switch (b % 12) {
            case 3: *to = 0; break;
            case 4: *to = 0.25f; break;
            case 5: *to = v < 0 ? -v : v; break;
            case 6: *to = v < 0 ? v : -v; break;
            case 7: *to = i / 32 % 2 ? v : 0; break;
            case 8: *to = v * 30000; break;
            case 9: *to = v * 1e-9f; break;
            case 10: *to = i % 61 ? v * 0.001f : v * 50; break;
            case 11: *to = i % 2 ? -0.0f : 0.0f; break;
            default: *to = v * 0.02f; break;
            }
            importance[b * QK_K + i] = b % 5 == 4 ? 0 : uniform() < 0.05f ? 100 * uniform() : uniform();
        }
}

static uint64_t bytes_of(enum qtype t, const float *imp, uint8_t *out)
{
    struct err e = { 0 };
    ck_assert_msg(quant_row(t, x, imp, out, N, &e) == 0, "%s", e.msg);
    return XXH3_64bits(out, qtype_row_bytes(t, N));
}

START_TEST(the_bytes_are_those_that_are_recorded)
{
    static const uint64_t recorded[N_TYPES][2] = { /* without and with importance */
        { 0xf5122eacf09b98f1u, 0x0ed4a8ff181841adu },
        { 0x786a134cc5134b1cu, 0x81bbbcace296b4d4u },
        { 0x50a45bd3838acdfbu, 0x724471385422e0bfu },
        { 0x63de6aad86bb6e40u, 0xee011b1a1b2a257fu },
        { 0x2cf6d2fc1fc0ae63u, 0x833be8b479b1def3u },
        { 0x80a05c5097ca50eau, 0x9d6163c756d8bcb4u },
    };
    uint8_t out[8 * N];
    draw();
    for (int i = 0; i < N_TYPES; i++)
        for (int imp = 0; imp < 2; imp++) {
            uint64_t is = bytes_of(types[i], imp ? importance : NULL, out);
            ck_assert_msg(is == recorded[i][imp], "%s%s: 0x%016llx, 0x%016llx is recorded", qtype_name(types[i]), imp ? " with importance" : "",
                          (unsigned long long)is, (unsigned long long)recorded[i][imp]);
        }
}
END_TEST

START_TEST(a_block_alone_has_the_bytes_that_it_has_beside_others)
{
    uint8_t all[8 * N], one[8 * QK_K];
    struct err e = { 0 };
    draw();
    for (int i = 0; i < N_TYPES; i++)
        for (int imp = 0; imp < 2; imp++) {
            uint64_t n = qtype_row_bytes(types[i], QK_K);
            bytes_of(types[i], imp ? importance : NULL, all);
            for (int b = 0; b < BLOCKS; b++) {
                ck_assert_int_eq(quant_row(types[i], x + b * QK_K, imp ? importance + b * QK_K : NULL, one, QK_K, &e), 0);
                ck_assert_msg(memcmp(one, all + b * n, n) == 0, "%s: block %d", qtype_name(types[i]), b);
            }
        }
}
END_TEST

#ifdef __x86_64__
typedef void fit_fn(const struct lane_kind *k, const float *x, const float *importance, struct lane_codes *c);

static void check_same(const char *width, fit_fn *plain, fit_fn *wide, const struct lane_kind *k)
{
    static struct lane_codes a, b;
    for (int at = 0; at + SIDE <= BLOCKS; at += SIDE)
        for (int imp = 0; imp < 2; imp++) {
            memset(&a, 0, sizeof a);
            memset(&b, 0, sizeof b);
            plain(k, x + at * QK_K, imp ? importance + at * QK_K : NULL, &a);
            wide(k, x + at * QK_K, imp ? importance + at * QK_K : NULL, &b);
            ck_assert_msg(memcmp(a.sc, b.sc, sizeof a.sc) == 0 && memcmp(a.mn, b.mn, sizeof a.mn) == 0 && memcmp(a.d, b.d, sizeof a.d) == 0 &&
                          memcmp(a.m, b.m, sizeof a.m) == 0, "%s: other scales, blocks from %d, runs of %d", width, at, k->run);
            for (int i = 0; i < SIDE; i++)
                for (int j = 0; j < QK_K; j++)
                    ck_assert_msg(a.q[i][j] == b.q[i][j], "%s: code %d of block %d is %g, not %g", width, j, at + i, (double)b.q[i][j],
                                  (double)a.q[i][j]);
        }
}

START_TEST(every_width_of_registers_gives_the_same)
{
    static const struct lane_kind affine[] = { { .run = 16, .limit = 15, .steps = 9, .hi = 3, .span = 1.2f },
                                               { .run = 32, .limit = 63, .steps = 8, .hi = 15, .span = 1.5f } };
    static const struct lane_kind sym[] = { { .run = 16, .limit = 128, .steps = 5, .lo = -32, .hi = 31, .end = -32, .span = 1.5f },
                                            { .run = 32, .limit = 32, .steps = 9, .table = true, .end = -127, .span = 16 } };
    draw();
    for (int i = 0; i < 2; i++) {
        if (__builtin_cpu_supports("avx2")) {
            check_same("avx2", quant_lanes_affine, quant_lanes_affine_avx2, &affine[i]);
            check_same("avx2", quant_lanes_sym, quant_lanes_sym_avx2, &sym[i]);
        }
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            check_same("avx512", quant_lanes_affine, quant_lanes_affine_avx512, &affine[i]);
            check_same("avx512", quant_lanes_sym, quant_lanes_sym_avx512, &sym[i]);
        }
    }
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("quant_lanes");
    TCase *tc = tcase_create("quant_lanes");
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, the_bytes_are_those_that_are_recorded);
    tcase_add_test(tc, a_block_alone_has_the_bytes_that_it_has_beside_others);
#ifdef __x86_64__
    tcase_add_test(tc, every_width_of_registers_gives_the_same);
#endif
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
