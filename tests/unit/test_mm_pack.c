/* Packing into panels keeps every bit: what is packed comes back, for every type, row count and length. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/mm.h"

static const enum qtype types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
};

static uint64_t seed = 1;

static uint8_t random_byte(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(seed >> 56);
}

static void round_trip(enum qtype t, uint32_t n_in, uint32_t n_rows)
{
    size_t row = qtype_row_bytes(t, n_in), ld = row + 3, panel = mm_panel_bytes(t, n_in);
    bool longer = t == QT_IQ1_S || t == QT_IQ1_M; /* by a word a block */
    ck_assert_uint_eq(panel, 16 * (row + (longer ? n_in / 256 * 4 : 0)));
    uint8_t *file = malloc(ld * 16), *back = malloc(ld * 16), *packed = aligned_alloc(64, (panel + 63) / 64 * 64);
    for (size_t i = 0; i < ld * 16; i++)
        file[i] = back[i] = random_byte();
    for (uint32_t r = 0; r < n_rows; r++)
        memset(back + r * ld, 0xaa, row);
    memset(packed, 0x55, panel);
    mm_pack(t, n_in, file, ld, n_rows, packed);
    mm_unpack(t, n_in, packed, n_rows, back, ld);
    ck_assert_msg(!memcmp(file, back, ld * 16), "%s n_in %u rows %u", qtype_name(t), n_in, n_rows);
    free(file);
    free(back);
    free(packed);
}

START_TEST(packed_rows_come_back_bit_for_bit)
{
    enum qtype t = types[_i];
    static const uint32_t rows[] = { 1, 2, 15, 16 };
    for (uint32_t blocks = 1; blocks <= 9; blocks++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            round_trip(t, blocks * qtype_block(t), rows[i]);
}
END_TEST

START_TEST(missing_rows_are_zero)
{
    enum qtype t = types[_i];
    uint32_t n_in = 3 * qtype_block(t);
    size_t row = qtype_row_bytes(t, n_in), panel = mm_panel_bytes(t, n_in);
    uint8_t *file = malloc(row * 16), *back = malloc(row * 16), *packed = aligned_alloc(64, (panel + 63) / 64 * 64);
    memset(file, 0xff, row * 16);
    memset(packed, 0xff, panel);
    mm_pack(t, n_in, file, row, 5, packed);
    mm_unpack(t, n_in, packed, 16, back, row);
    for (size_t i = 5 * row; i < 16 * row; i++)
        ck_assert_msg(back[i] == 0 || t == QT_Q8_0, "%s byte %zu", qtype_name(t), i);
    free(file);
    free(back);
    free(packed);
}
END_TEST

int main(void)
{
    int n = sizeof types / sizeof *types;
    Suite *s = suite_create("mm_pack");
    TCase *c = tcase_create("pack");
    tcase_add_loop_test(c, packed_rows_come_back_bit_for_bit, 0, n);
    tcase_add_loop_test(c, missing_rows_are_zero, 0, n);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
