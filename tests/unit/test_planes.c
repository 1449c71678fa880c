/* Weights in planes: nothing lost, every field where kernels/planes.h says. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/planes.h"
#include "rt/dispatch.h"
#include "tests/lib/run.h"

static const enum qtype types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Bytes that differ from their neighbours, near and far. */
static void fill(uint8_t *p, uint64_t n)
{
    uint32_t x = 12345;
    for (uint64_t i = 0; i < n; i++)
        p[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
}

START_TEST(fields_cover_each_block_once)
{
    for (int i = 0; i < N_TYPES; i++) {
        struct planes p = planes_of(types[i]);
        bool is_float = qtype_block(types[i]) == 1;
        uint8_t seen[256] = { 0 };
        uint32_t total = 0;
        ck_assert_msg((p.n == 0) == is_float, "%s", qtype_name(types[i]));
        for (uint32_t k = 0; k < p.n; k++) {
            ck_assert_msg(p.f[k].len > 0, "%s", qtype_name(types[i]));
            ck_assert_msg(k > 0 || p.f[k].len % 16 == 0, "%s: rows of the first plane", qtype_name(types[i]));
            for (uint32_t j = 0; j < p.f[k].len; j++)
                ck_assert_msg(seen[p.f[k].off + j]++ == 0, "%s: byte %u twice", qtype_name(types[i]), p.f[k].off + j);
            total += p.f[k].len;
        }
        ck_assert_msg(is_float || total == qtype_block_bytes(types[i]), "%s: %u bytes of %u", qtype_name(types[i]),
                      total, qtype_block_bytes(types[i]));
    }
}
END_TEST

static void round_trip(enum qtype t, uint64_t n_rows, uint64_t unit, uint64_t blocks)
{
    uint64_t n_in = blocks * qtype_block(t), bytes = qtype_row_bytes(t, n_in) * n_rows;
    uint8_t *in = malloc(bytes), *packed = malloc(bytes), *back = malloc(bytes);
    fill(in, bytes);
    memset(packed, 0x11, bytes);
    memset(back, 0x22, bytes);
    planes_pack(t, in, packed, n_rows, unit, n_in);
    planes_unpack(t, packed, back, n_rows, unit, n_in);
    ck_assert_msg(memcmp(in, back, bytes) == 0, "%s: %d rows in units of %d, %d blocks each", qtype_name(t),
                  (int)n_rows, (int)unit, (int)blocks);
    bool moved = memcmp(in, packed, bytes) != 0, moves = planes_of(t).n > 1 && unit * blocks > 1;
    /* a single block changes too, where its first plane is not its first field */
    moves |= planes_of(t).n > 0 && planes_of(t).f[0].off > 0;
    ck_assert_msg(moved == moves, "%s: %s", qtype_name(t), moved ? "was regrouped" : "was not regrouped");
    free(in);
    free(packed);
    free(back);
}

START_TEST(packing_can_be_undone)
{
    for (int i = 0; i < N_TYPES; i++) {
        round_trip(types[i], 1, 1, 1);
        round_trip(types[i], 7, 7, 3);
        round_trip(types[i], 15, 5, 1);
        round_trip(types[i], 39, 13, 11);
        round_trip(types[i], 12, 1, 5);
    }
}
END_TEST

/* Field `off`, `len` of block b of unit u lies at its plane's place. */
static void field_lies(const char *what, const uint8_t *in, const uint8_t *packed, uint64_t blk, uint64_t per_unit,
                       uint64_t u, uint64_t b, uint64_t off, uint64_t len, uint64_t before)
{
    const uint8_t *want = in + (u * per_unit + b) * blk + off;
    const uint8_t *got = packed + u * per_unit * blk + per_unit * before + b * len;
    ck_assert_msg(memcmp(want, got, len) == 0, "%s of block %d of unit %d", what, (int)b, (int)u);
}

START_TEST(fields_lie_where_kernels_look)
{
    enum { ROWS = 6, UNIT = 3, BLOCKS = 5, PER_UNIT = UNIT * BLOCKS, MAX = ROWS * BLOCKS * 210 };
    static uint8_t in[MAX], packed[MAX];
    fill(in, sizeof in);
#define PACK(type) planes_pack(QT_##type, in, packed, ROWS, UNIT, BLOCKS * qtype_block(QT_##type))
#define LIES(blk, field, before)                                                                                       \
    for (uint64_t u = 0; u < ROWS / UNIT; u++)                                                                         \
        for (uint64_t b = 0; b < PER_UNIT; b++)                                                                        \
            field_lies(#blk "." #field, in, packed, sizeof(blk), PER_UNIT, u, b, offsetof(blk, field),                 \
                       sizeof(((blk *)0)->field), before)
    PACK(Q4_0);
    LIES(blk_q4_0, qs, 0);
    LIES(blk_q4_0, d, 16);
    PACK(Q5_0);
    LIES(blk_q5_0, qs, 0);
    LIES(blk_q5_0, qh, 16);
    LIES(blk_q5_0, d, 20);
    PACK(Q8_0);
    LIES(blk_q8_0, qs, 0);
    LIES(blk_q8_0, d, 32);
    PACK(MXFP4);
    LIES(blk_mxfp4, qs, 0);
    LIES(blk_mxfp4, e, 16);
    PACK(NVFP4);
    LIES(blk_nvfp4, qs, 0);
    LIES(blk_nvfp4, d, 32);
    PACK(IQ4_NL);
    LIES(blk_iq4_nl, qs, 0);
    LIES(blk_iq4_nl, d, 16);
    PACK(Q2_K);
    LIES(blk_q2_k, qs, 0);
    LIES(blk_q2_k, scales, 64);
    PACK(Q3_K);
    LIES(blk_q3_k, qs, 0);
    LIES(blk_q3_k, hmask, 64);
    LIES(blk_q3_k, scales, 96);
    LIES(blk_q3_k, d, 108);
    PACK(Q4_K);
    LIES(blk_q4_k, qs, 0);
    PACK(Q5_K);
    LIES(blk_q5_k, qs, 0);
    LIES(blk_q5_k, qh, 128);
    PACK(Q6_K);
    LIES(blk_q6_k, ql, 0);
    LIES(blk_q6_k, qh, 128);
    LIES(blk_q6_k, scales, 192);
    LIES(blk_q6_k, d, 208);
    PACK(IQ4_XS);
    LIES(blk_iq4_xs, qs, 0);
}
END_TEST

START_TEST(heads_of_several_fields_stay_together)
{
    enum { BLOCKS = 3 };
    static uint8_t in[BLOCKS * 176], packed[sizeof in];
    fill(in, sizeof in);
    planes_pack(QT_Q4_K, in, packed, 1, 1, BLOCKS * QK_K);
    for (int b = 0; b < BLOCKS; b++) /* d, dmin, scales */
        ck_assert(memcmp(packed + BLOCKS * 128 + b * 16, in + b * 144, 16) == 0);
    planes_pack(QT_Q5_K, in, packed, 1, 1, BLOCKS * QK_K);
    for (int b = 0; b < BLOCKS; b++)
        ck_assert(memcmp(packed + BLOCKS * 160 + b * 16, in + b * 176, 16) == 0);
    planes_pack(QT_IQ4_XS, in, packed, 1, 1, BLOCKS * QK_K);
    for (int b = 0; b < BLOCKS; b++)
        ck_assert(memcmp(packed + BLOCKS * 128 + b * 8, in + b * 136, 8) == 0);
    planes_pack(QT_Q4_1, in, packed, 1, 1, BLOCKS * QK);
    for (int b = 0; b < BLOCKS; b++) /* d, m */
        ck_assert(memcmp(packed + BLOCKS * 16 + b * 4, in + b * 20, 4) == 0);
    planes_pack(QT_Q5_1, in, packed, 1, 1, BLOCKS * QK);
    for (int b = 0; b < BLOCKS; b++) {
        ck_assert(memcmp(packed + BLOCKS * 16 + b * 4, in + b * 24 + 4, 4) == 0);
        ck_assert(memcmp(packed + BLOCKS * 20 + b * 4, in + b * 24, 4) == 0);
    }
    planes_pack(QT_Q2_K, in, packed, 1, 1, BLOCKS * QK_K);
    for (int b = 0; b < BLOCKS; b++) /* d, dmin */
        ck_assert(memcmp(packed + BLOCKS * 80 + b * 4, in + b * 84 + 80, 4) == 0);
}
END_TEST

int main(void)
{
    return RUN_TESTS("planes", fields_cover_each_block_once, packing_can_be_undone, fields_lie_where_kernels_look,
                     heads_of_several_fields_stay_together);
}
