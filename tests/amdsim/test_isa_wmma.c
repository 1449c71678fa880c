/* Float dot products and matrix instructions against words captured on real cards, and the fast matrix step against
 * the exact one. Captures: ROCm/rocm-systems, emulation/rocjitsu/tests/fixtures/float_dot (gfx1100: Radeon Pro W7900,
 * gfx1201: Radeon AI Pro R9700). */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/wmma.h"
#include "tools/amdsim/isa/wmma_float.h"

struct dot_case {
    uint32_t a, b, c, gfx1100, gfx1201;
};
static const struct dot_case dot_f16[] = {
    { 0x48004200, 0x44004800, 0xbf800000, 0x425c0001, 0x425c0000 }, /* -1 + 3*8 + 8*4: signs cost gfx11 a unit */
    { 0xc800c200, 0x44004800, 0x3f800000, 0xc25c0001, 0xc25c0000 },
    { 0x3c00bc00, 0x3c003c00, 0x3f800000, 0x3f7fffff, 0x3f800000 },
    { 0x3c003c00, 0x3c003c00, 0xc0000000, 0x34000000, 0x00000000 },
    { 0x3c004000, 0x3c003c00, 0xc0000000, 0x3f800002, 0x3f800000 },
    { 0x4800c800, 0x48004800, 0x3f800000, 0x3f7fffc0, 0x3f800000 },
    { 0x3c003c00, 0x3c000000, 0x00000000, 0x3f800000, 0x3f800000 },
    { 0x3c00bc00, 0x3c000000, 0x00000000, 0x3f7fffff, 0x3f800000 }, /* a product -0 */
    { 0x3c003c00, 0x3c000000, 0x80000000, 0x3f800001, 0x3f800000 }, /* c -0 */
    { 0x3c00bc00, 0x3c000000, 0x80000000, 0x3f800000, 0x3f800000 },
    { 0x3c003c00, 0x3c003c00, 0x7fc12345, 0x7fc12345, 0x7fc12345 },
    { 0x3c003c00, 0x3c003c00, 0xff812345, 0xffc12345, 0xffc12345 },
    { 0x3c007c01, 0x3c003c00, 0x00000000, 0xffc00a3d, 0xffc00a3d },
    { 0x3c007c00, 0x3c000000, 0x00000000, 0xffc00000, 0xffc00000 },
    { 0xfc007c00, 0x3c003c00, 0x7fc12345, 0xffc00000, 0xffc00000 },
    { 0x7c007e01, 0x00003c00, 0x7fc12345, 0xffc00a3d, 0xffc00a3d },
    { 0x80008000, 0x3c003c00, 0x00800000, 0x00800000, 0x00800000 },
    { 0x00000001, 0x3c003c00, 0x00000000, 0x33800000, 0x33800000 },
    { 0x00000001, 0x3c000001, 0x00000000, 0x27800000, 0x27800000 },
    { 0x00000001, 0x3c008001, 0x00000000, 0xa7880000, 0xa7800000 },
    { 0xeb9b023d, 0x803b6249, 0xf96d2663, 0xf96d2663, 0xf96d2663 },
    { 0x058ef3f3, 0x2b241c4a, 0xb8eed486, 0xc2886106, 0xc2886106 },
    { 0xcd6c4d6c, 0x78af78af, 0x00000000, 0xbd000000, 0x00000000 },
    { 0xb09d309d, 0x0fe50fe5, 0x00000000, 0xac000000, 0x00000000 },
    { 0x84950495, 0x3d283d28, 0x80000000, 0x2c800000, 0x00000000 },
    { 0xa4b824b8, 0xdc7cdc7c, 0x80000000, 0x34800000, 0x00000000 },
    { 0xbc003c00, 0x0001fbff, 0x7f800000, 0x7f800000, 0x7f800000 },
    { 0x8000fc00, 0x04013c00, 0x00800000, 0xff800000, 0xff800000 },
};
static const struct dot_case dot_bf16[] = {
    { 0x41004040, 0x40804100, 0xbf800000, 0x425c0001, 0x425c0000 },
    { 0x3f803f80, 0x3f803f80, 0xc0000000, 0x34000000, 0x00000000 },
    { 0x3f80bf80, 0x3f800000, 0x00000000, 0x3f7fffff, 0x3f800000 },
    { 0x3f807f81, 0x3f803f80, 0x00000000, 0xffc00a3d, 0xffc00a3d },
    { 0x00800000, 0x3f808000, 0x00000000, 0x00000000, 0x00800000 },
    { 0x00800000, 0x3f808000, 0x00000001, 0x00000000, 0x00800001 },
    { 0x00000001, 0x3f804980, 0x00000000, 0x00000000, 0x07000000 }, /* subnormals: flushed on gfx11 */
    { 0x00000700, 0x3f803f80, 0x00000000, 0x07000000, 0x07000000 },
    { 0x00800080, 0x3f003f00, 0x00000000, 0x00800000, 0x00800000 },
    { 0xff7f7f7f, 0x7f7f7f7f, 0x00000000, 0xff800000, 0x00000000 }, /* beyond f32, and back on gfx12 */
    { 0xf9e2d6b1, 0xe2adf60c, 0xeddb846f, 0x7f800000, 0x7f800000 },
    { 0x49b3fce2, 0x573a122b, 0x246a3c33, 0x61820e00, 0x61820e00 },
    { 0x714025c9, 0xfdfca829, 0x916be0f9, 0xff800000, 0xff800000 },
    { 0x058ef3f3, 0x2b241c4a, 0xb8eed486, 0xd0bfbe00, 0xd0bfbe00 },
    { 0xc395629b, 0xd9633359, 0xdc60025c, 0x5d504185, 0x5d504184 },
    { 0xf2ae73d7, 0x02b0b502, 0x7b678301, 0x7b678301, 0x7b678301 },
    { 0xce354e35, 0x7bfd7bfd, 0x00000000, 0xfe000000, 0x00000000 },
    { 0xafb72fb7, 0x0d170d17, 0x00000000, 0x00000000, 0x00000000 },
    { 0x35b3b5b3, 0xc398c398, 0x80000000, 0x2d800000, 0x00000000 },
    { 0x7f800081, 0x80000081, 0xff9a5ce2, 0xffc00000, 0xffc00000 },
};
/* gfx1201 only: results and accumulators about the smallest normal. */
static const uint32_t dot_tiny[][4] = {
    { 0x2061bc39, 0x96b40093, 0x0056dd77, 0x00553463 }, { 0x81ff0e0d, 0x12cc2d3b, 0x007a3a08, 0x007a6d87 },
    { 0x37d6ba90, 0x8901852c, 0x80800007, 0x81674c04 }, { 0x08e7393d, 0xb7d307aa, 0x80800005, 0x8006c205 },
    { 0x0364bc8c, 0x3c468385, 0x807ffffe, 0x0069a402 }, { 0x993b1798, 0x263ca825, 0x00800000, 0x8026a200 },
    { 0x31c03a01, 0x0dfd8564, 0x007ffffe, 0x00a56dfe }, { 0x8129061c, 0xbfaab964, 0x007ffffd, 0x017db7fe },
    { 0x31d937e8, 0x0ef388d8, 0x00800003, 0x00947603 }, { 0x8522326b, 0xbbd88d2f, 0x00800002, 0x01949b60 },
    { 0xafebac5f, 0x8fe594b6, 0x80800002, 0x0198d0e0 }, { 0x0d040199, 0xb3fb3e6b, 0x807ffff8, 0x817c9e7c },
    { 0x89298151, 0xb6953e7a, 0x00800007, 0x007c5007 }, { 0xb18c20ea, 0x0eb21ff4, 0x00800003, 0x013db002 },
    { 0x889d8fb2, 0xb704b02a, 0x00800007, 0x01239404 }, { 0xa5e88082, 0x9b613ea3, 0x00800002, 0x01e18f40 },
    { 0x98ea1190, 0x2720af4c, 0x80800004, 0x81b75001 }, { 0x2dd81116, 0x924aaedf, 0x807ffffa, 0x81568cfd },
};

static const char *const chip_names[] = { "gfx1100", "gfx1201" };

#define EXPECT(got, want, ...)                                                                                       \
    do {                                                                                                             \
        if ((got) != (want))                                                                                         \
            ck_abort_msg(__VA_ARGS__);                                                                               \
    } while (0)

START_TEST(dot2_is_what_cards_answer)
{
    for (int g = 0; g < 2; g++) {
        const struct chip *chip = chip_find(chip_names[g]);
        for (size_t i = 0; i < sizeof dot_f16 / sizeof *dot_f16; i++) {
            const struct dot_case *t = &dot_f16[i];
            uint32_t want = g ? t->gfx1201 : t->gfx1100, got = dot2_f32_f16(chip, t->a, t->b, t->c);
            EXPECT(got, want, "%s f16 %08x . %08x + %08x: %08x, not %08x", chip->name, t->a, t->b, t->c, want, got);
        }
        for (size_t i = 0; i < sizeof dot_bf16 / sizeof *dot_bf16; i++) {
            const struct dot_case *t = &dot_bf16[i];
            uint32_t want = g ? t->gfx1201 : t->gfx1100, got = dot2_f32_bf16(chip, t->a, t->b, t->c);
            EXPECT(got, want, "%s bf16 %08x . %08x + %08x: %08x, not %08x", chip->name, t->a, t->b, t->c, want, got);
        }
    }
    for (size_t i = 0; i < sizeof dot_tiny / sizeof *dot_tiny; i++) {
        const uint32_t *t = dot_tiny[i], got = dot2_f32_bf16(chip_find("gfx1201"), t[0], t[1], t[2]);
        EXPECT(got, t[3], "gfx1201 bf16 %08x . %08x + %08x: %08x, not %08x", t[0], t[1], t[2], t[3], got);
    }
}
END_TEST

/* ---- whole matrices ---- */

static _Alignas(64) uint32_t regs[64][WAVE_LANES];
enum { RA = 0, RB = 16, RC = 32 };

/* Element k of row or column i, `bits` wide: gfx11 keeps all k in a lane (and again 16 lanes on), gfx12 eight by
 * eight in lanes i and i + 16. */
static void put(const struct chip *c, uint32_t reg, uint32_t i, uint32_t k, uint32_t bits, uint32_t v)
{
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t e = c->gfx12 ? (k & 7) + (k >> 4) * 8 : k;
        if (c->gfx12 && h != (k >> 3 & 1))
            continue;
        uint32_t *w = &regs[reg + e * bits / 32][i + 16 * h], at = e * bits % 32, mask = (1u << bits) - 1;
        *w = (*w & ~(mask << at)) | (v & mask) << at;
    }
}
static uint32_t *acc(const struct chip *c, uint32_t row, uint32_t col)
{
    return c->gfx12 ? &regs[RC + row % 8][row / 8 * 16 + col] : &regs[RC + row / 2][row % 2 * 16 + col];
}
static void run(const struct chip *c, uint32_t op, const struct inst *modifiers)
{
    struct wave w = { .v = regs, .n_vgpr = 64, .chip = c, .mode = 0xf0 };
    struct inst in = *modifiers;
    const char *name;
    in.op = (uint16_t)op, in.vdst = RC;
    in.src[0] = OPND_VGPR + RA, in.src[1] = OPND_VGPR + RB, in.src[2] = OPND_VGPR + RC;
    inst_fn *f = wmma_find(c, op, &name);
    ck_assert_msg(f != NULL, "%s has no op %x", c->name, op);
    f(&w, &in);
    ck_assert_int_eq(w.fault.kind, ISA_FAULT_NONE);
}
static const struct inst plain;

static uint16_t half_of_int(int v, bool bf16)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (bf16 || v == 0)
        return (uint16_t)(u >> 16);
    return (uint16_t)((u >> 16 & 0x8000) | ((u >> 23 & 255) - 112) << 10 | (u >> 13 & 1023));
}
static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* Small integers, where gfx1100 is visibly not a sum of integers: its first three rows. */
static const uint32_t int_rows_gfx1100[3][16] = {
    { 0xbfffffc0, 0xc277fffe, 0xc1a00002, 0xc2c20000, 0xc217ffff, 0x42f60000, 0xc2f80000, 0x42580000, 0x42340000,
      0xc2a60000, 0x42aa0000, 0xc2bc0000, 0xc2ce0000, 0x41bffffd, 0xc2100000, 0x42940001 },
    { 0x41efffff, 0x42a20000, 0x42800001, 0x42c40000, 0xc3160000, 0xc23fffff, 0x42d20000, 0xc3380000, 0x42140001,
      0x419fffff, 0xc3160000, 0x433e0000, 0x403ffff8, 0xc2400000, 0xc0dffffc, 0xc2960000 },
    { 0x41900004, 0xc0dffffa, 0x4197fffe, 0xc1b7fffe, 0x428e0000, 0xc2920000, 0x40800008, 0x43590000, 0xc3620000,
      0xc1effffe, 0x414ffff9, 0xc3360000, 0x43050000, 0x40bffffc, 0xc28c0000, 0x42960000 },
};

START_TEST(integers_in_halves)
{
    for (int g = 0; g < 2; g++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct chip *c = chip_find(chip_names[g]);
            int sum[16][16];
            memset(regs, 0, sizeof regs);
            for (uint32_t i = 0; i < 16; i++)
                for (uint32_t k = 0; k < 16; k++) {
                    put(c, RA, i, k, 16, half_of_int((int)((i * 16 + k) * 7 % 17) - 8, bf16));
                    put(c, RB, i, k, 16, half_of_int((int)((k * 16 + i) * 11 % 17) - 8, bf16));
                    sum[i][k] = (int)((i * 16 + k) * 13 % 129) - 64;
                    *acc(c, i, k) = bits_of((float)sum[i][k]);
                }
            run(c, bf16 ? 0x41 : 0x40, &plain);
            for (uint32_t i = 0; i < (g ? 16 : 3); i++)
                for (uint32_t j = 0; j < 16; j++) {
                    for (uint32_t k = 0; k < 16; k++)
                        sum[i][j] += ((int)((i * 16 + k) * 7 % 17) - 8) * ((int)((k * 16 + j) * 11 % 17) - 8);
                    uint32_t want = g ? bits_of((float)sum[i][j]) : int_rows_gfx1100[i][j], got = *acc(c, i, j);
                    EXPECT(got, want, "%s bf16 %d row %u column %u: %08x, not %08x", c->name, bf16, i, j, want, got);
                }
        }
}
END_TEST

/* One row of A, one column of B and c, as many times as the matrix has elements. */
struct row_case {
    int bf16;
    uint16_t a[16], b[16];
    uint32_t c, gfx1201;
};
static const struct row_case rows[] = {
    { 0, { 0xbd53, 0x36b8, 0x2ae6, 0xb1d2, 0xc7a4, 0x52af, 0xd233, 0x4594, 0x2905, 0x47cd, 0xb74f, 0x56cc, 0x35d2,
           0x3da7, 0xac54, 0xab6a },
      { 0xc142, 0x4be3, 0xd466, 0x4f40, 0xaf92, 0xc2ba, 0x5479, 0x414f, 0x3144, 0xa72e, 0xc63b, 0x337d, 0x4661,
        0x26c6, 0x5512, 0xb324 },
      0x3f4725a9, 0xc56665fb },
    { 0, { 0xcde1, 0xc31a, 0xc66b, 0x3710, 0xa4a1, 0xc2a9, 0xd316, 0x4cd3, 0x35a2, 0x456e, 0xbce5, 0x2641, 0x2894,
           0x33a0, 0xb47a, 0x46be },
      { 0x3418, 0x4131, 0xae4d, 0xc800, 0x3dbf, 0xcb88, 0xd634, 0x2497, 0xb526, 0xc713, 0x3efa, 0x2f4d, 0xcd4e,
        0x4276, 0x388a, 0xbfcf },
      0x3d062256, 0x45af2530 },
    { 0, { 0xc6e1, 0xb1ea, 0xd31d, 0x2d4f, 0x4a45, 0xd1f1, 0x3362, 0xc244, 0x4a75, 0x443e, 0x5623, 0x4ec3, 0x57c7,
           0xb82e, 0xcf34, 0x3660 },
      { 0xd36c, 0xc886, 0x2f3d, 0x30a3, 0xd070, 0xb2cb, 0x4759, 0xcf27, 0x4ed4, 0x3c97, 0xae37, 0xb63f, 0x35f0,
        0x3a25, 0xb0d8, 0x405a },
      0xbf6ba3b9, 0x43dfc44b },
    { 0, { 0x9844, 0x3f7a, 0x606f, 0xc18c, 0xbe5b, 0x891f, 0xbbfb, 0x93b8, 0xc3c6, 0x32f2, 0xf44e, 0x15cf, 0x5eeb,
           0x2b55, 0x8bef, 0xa075 },
      { 0x8e88, 0xec18, 0xd3c2, 0xf6ae, 0x0cdb, 0x87c5, 0x4587, 0x5825, 0x6e7d, 0x8ab5, 0x8773, 0x4108, 0x91c2,
        0x3987, 0x62ab, 0xfbad },
      0x48e26837, 0x48e6175e },
    { 0, { 0x9e9c, 0x73d6, 0xc753, 0x4a0b, 0x91c0, 0x8d79, 0x6015, 0x9da4, 0xfc97, 0xb3dd, 0xe0e5, 0x4833, 0x9999,
           0xdadf, 0xbcc6, 0x0ecc },
      { 0x5297, 0x6ed8, 0x6bfc, 0x6533, 0xebf5, 0x2249, 0xa05f, 0xbc25, 0x3335, 0xb17c, 0x769e, 0xf4c9, 0x7f36,
        0x816a, 0xfcf7, 0xe52a },
      0x3bc81ef9, 0xffc00a3d },
    { 1, { 0xbfaa, 0x3ed7, 0x3d5c, 0xbe3a, 0xc0f4, 0x4255, 0xc246, 0x40b2, 0x3d20, 0x40f9, 0xbee9, 0x42d9, 0x3eba,
           0x3fb4, 0xbd8a, 0xbd6d },
      { 0xc028, 0x417c, 0xc28c, 0x41e8, 0xbdf2, 0xc057, 0x428f, 0x4029, 0x3e28, 0xbce5, 0xc0c7, 0x3e6f, 0x40cc,
        0x3cd8, 0x42a2, 0xbe64 },
      0x3f4725a9, 0xc565bd89 },
    { 1, { 0xc0dc, 0xbe3d, 0xc263, 0x3da9, 0x4148, 0xc23e, 0x3e6c, 0xc048, 0x414e, 0x4087, 0x42c4, 0x41d8, 0x42f8,
           0xbf05, 0xc1e6, 0x3ecc },
      { 0xc26d, 0xc110, 0x3de7, 0x3e14, 0xc20e, 0xbe59, 0x40eb, 0xc1e4, 0x41da, 0x3f92, 0xbdc6, 0xbec7, 0x3ebe,
        0x3f44, 0xbe1b, 0x400b },
      0xbf6ba3b9, 0x43dea4e6 },
    { 1, { 0x9844, 0x3f7a, 0x606f, 0xc18c, 0xbe5b, 0x891f, 0xbbfb, 0x93b8, 0xc3c6, 0x32f2, 0xf44e, 0x15cf, 0x5eeb,
           0x2b55, 0x8bef, 0xa075 },
      { 0x8e88, 0xec18, 0xd3c2, 0xf6ae, 0x0cdb, 0x87c5, 0x4587, 0x5825, 0x6e7d, 0x8ab5, 0x8773, 0x4108, 0x91c2,
        0x3987, 0x62ab, 0xfbad },
      0x48e26837, 0x78bd8ea7 },
    { 1, { 0xf563, 0x6076, 0x0946, 0xfdb6, 0xd5a6, 0xbb55, 0xbd92, 0xa844, 0x811a, 0xdb87, 0x7a77, 0x6af2, 0x4301,
           0x1e17, 0xe748, 0x8310 },
      { 0xf146, 0x4d72, 0x04ac, 0xa156, 0xc524, 0x6472, 0x9f97, 0x1d8b, 0x5428, 0x231f, 0x306a, 0x36ee, 0xdb3f,
        0x495f, 0x0e2b, 0xd120 },
      0x837fdea1, 0x7f800000 },
};

START_TEST(rows_captured_on_gfx1201)
{
    const struct chip *c = chip_find("gfx1201");
    for (size_t t = 0; t < sizeof rows / sizeof *rows; t++) {
        memset(regs, 0, sizeof regs);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t k = 0; k < 16; k++) {
                put(c, RA, i, k, 16, rows[t].a[k]);
                put(c, RB, i, k, 16, rows[t].b[k]);
                *acc(c, i, k) = rows[t].c;
            }
        run(c, 0x40 + (uint32_t)rows[t].bf16, &plain);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t j = 0; j < 16; j++)
                EXPECT(*acc(c, i, j), rows[t].gfx1201, "case %zu at %u, %u: %08x, not %08x", t, i, j, rows[t].gfx1201,
                       *acc(c, i, j));
    }
}
END_TEST

/* f16 results of gfx1100, narrowed after every step: a row of A against three columns of B. */
static const uint16_t packed_a[16] = { 0x380b, 0xcc95, 0xca7c, 0xbea9, 0x2c0b, 0x3367, 0xb997, 0xaa37,
                                       0x2f82, 0x5015, 0xcaf3, 0x4edc, 0xaff1, 0x2e10, 0x2600, 0xc520 };
static const uint16_t packed_b[16][3] = {
    { 0x49f0, 0xa8f6, 0x5787 }, { 0x28e1, 0x2776, 0xaca9 }, { 0x2ca3, 0xc7f6, 0xb60b }, { 0x2d50, 0xa6d4, 0xb8e6 },
    { 0xc7f0, 0xc981, 0xc7ca }, { 0x34ca, 0x27ae, 0xd38a }, { 0x2b3f, 0x4b3f, 0x29da }, { 0xb7b6, 0xd580, 0xc4af },
    { 0xd278, 0xc628, 0xbb62 }, { 0x2717, 0xd1ed, 0xb8ee }, { 0x3471, 0x363e, 0xade9 }, { 0xbc5d, 0x2766, 0x4c99 },
    { 0x3eab, 0x257f, 0x4526 }, { 0x4a40, 0x3b3e, 0x4e40 }, { 0x5702, 0xb4e7, 0x3a50 }, { 0xd53e, 0xc5af, 0x33af },
};
static const uint16_t packed_c[3] = { 0x39a9, 0x2334, 0xbb50 }, packed_d[3] = { 0x5e3c, 0xe595, 0x6036 };

START_TEST(f16_results_of_gfx1100)
{
    const struct chip *c = chip_find("gfx1100");
    for (uint32_t high = 0; high < 2; high++) {
        struct inst in = { .opsel = (uint8_t)(high << 2) };
        memset(regs, 0, sizeof regs);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t k = 0; k < 16; k++) {
                put(c, RA, i, k, 16, packed_a[k]);
                put(c, RB, i, k, 16, packed_b[k][i % 3]);
                *acc(c, k, i) = high ? (uint32_t)packed_c[i % 3] << 16 | 0x5678 : 0x12340000 | packed_c[i % 3];
            }
        run(c, 0x42, &in);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t j = 0; j < 16; j++) {
                uint32_t d = packed_d[j % 3], want = high ? d << 16 | 0x5678 : 0x12340000 | d;
                EXPECT(*acc(c, i, j), want, "half %u at %u, %u: %08x, not %08x", high, i, j, want, *acc(c, i, j));
            }
    }
}
END_TEST

static uint32_t rnd(void)
{
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (uint32_t)(x >> 16);
}
/* Halves and accumulators of several tempers: anything, ordinary, tiny, few bits and zeros, halves whose products lie
 * about the least f32, zeros of both signs. */
static uint16_t some_half(bool bf16, uint32_t temper)
{
    uint32_t r = rnd(), sign = r & 0x8000, few = rnd() % 8 == 0 ? sign : (r & 0x8300) | (13 + (r >> 11 & 3)) << 10;
    switch (temper) {
    case 0: return (uint16_t)r;
    case 1:
        return (uint16_t)(bf16 ? (r & 0x807f) | (120 + (r >> 8 & 15)) << 7
                               : (r & 0x83ff) | (8 + (r >> 11 & 15)) << 10);
    case 2: return (uint16_t)(bf16 ? (r & 0x807f) | (r >> 8 & 127) << 7 : (r & 0x83ff) | (r >> 11 & 3) << 10);
    case 3: return (uint16_t)(bf16 && few != sign ? (r & 0x8060) | (125 + (r >> 8 & 7)) << 7 : few);
    case 4: return (uint16_t)(bf16 ? (r & 0x807f) | (48 + (r >> 8 & 15)) << 7 : r & 0x807f);
    default: return (uint16_t)sign;
    }
}
static uint32_t some_float(uint32_t temper)
{
    uint32_t r = rnd();
    switch (temper) {
    case 0: return r;
    case 1: return (r & 0x807fffff) | (110 + (r >> 8 & 31)) << 23;
    case 2: return r & 0x81ffffff;
    case 3: return (r & 0x80700000) | (120 + (r >> 8 & 15)) << 23;
    default: return r & 0x80000000;
    }
}

static void check_rows(wmma_rows_fn *fn, bool gfx12, bool bf16, const char *what)
{
    uint16_t a[16][16], b[16][16];
    uint32_t c[16][16], d[16][16], ta = rnd() % 6, tb = rnd() % 6, tc = rnd() % 5, n = gfx12 ? 4 : 2;
    struct wmma_step s = { .gfx12 = gfx12, .a = bf16 ? WMMA_BF16 : WMMA_F16, .b = bf16 ? WMMA_BF16 : WMMA_F16 };
    for (int i = 0; i < 256; i++) {
        a[i / 16][i % 16] = some_half(bf16, ta), b[i / 16][i % 16] = some_half(bf16, tb);
        c[i / 16][i % 16] = some_float(tc);
    }
    uint32_t redo = fn(bf16, a, b, c, d);
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 16; j++) {
            if (redo >> i & 1 || redo >> (16 + j) & 1)
                continue;
            uint32_t sum = c[i][j];
            for (uint32_t k = 0; k < 16; k += n) {
                uint16_t x[4] = { 0 }, y[4] = { 0 };
                for (uint32_t q = 0; q < n; q++)
                    x[q] = a[k + q][i], y[q] = b[k + q][j];
                sum = wmma_sum(&s, n, x, y, sum);
            }
            EXPECT(d[i][j], sum, "%s bf16 %d: c %08x: %08x, not %08x", what, bf16, c[i][j], sum, d[i][j]);
        }
    ck_assert_msg(redo == 0 || ta == 0 || tb == 0, "%s: ordinary numbers need the slow path", what);
}

START_TEST(fast_rows_equal_exact_sums)
{
    for (int t = 0; t < 600; t++) {
        check_rows(wmma_rows11_plain, false, t & 1, "rows11_plain");
        check_rows(wmma_rows12_plain, true, t & 1, "rows12_plain");
        if (__builtin_cpu_supports("avx2")) {
            check_rows(wmma_rows11_avx2, false, t & 1, "rows11_avx2");
            check_rows(wmma_rows12_avx2, true, t & 1, "rows12_avx2");
        }
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            check_rows(wmma_rows11_avx512, false, t & 1, "rows11_avx512");
            check_rows(wmma_rows12_avx512, true, t & 1, "rows12_avx512");
        }
    }
}
END_TEST

START_TEST(neg_and_abs)
{
    for (int g = 0; g < 2; g++) {
        const struct chip *c = chip_find(chip_names[g]);
        for (uint32_t m = 0; m < 64; m++) {
            uint32_t neg = m & 7, neg_hi = m >> 3, want[16][16];
            struct inst in = { .neg = (uint8_t)neg, .abs = (uint8_t)neg_hi };
            for (int folded = 1; folded >= 0; folded--) {
                for (uint32_t r = 0; r < 8; r++)
                    for (uint32_t l = 0; l < 32; l++) {
                        uint32_t x = (l % 16 * 8 + r) * 0x1f123bb5u, y = (l % 16 * 8 + r) * 0x9e3779b9u;
                        uint32_t z = (l + r * 32) * 0x6c078965u;
                        if (folded) {
                            x ^= (neg & 1) << 15 | (neg_hi & 1) << 31, y ^= (neg & 2) << 14 | (neg_hi & 2) << 30;
                            z = (neg_hi & 4 ? z & 0x7fffffff : z) ^ (neg & 4 ? 0x80000000 : 0);
                        }
                        regs[RA + r][l] = x, regs[RB + r][l] = y, regs[RC + r][l] = z;
                    }
                run(c, 0x40, folded ? &plain : &in);
                for (uint32_t i = 0; i < 256; i++) {
                    if (folded)
                        want[i / 16][i % 16] = *acc(c, i / 16, i % 16);
                    EXPECT(*acc(c, i / 16, i % 16), want[i / 16][i % 16], "%s neg %u neg_hi %u at %u", c->name, neg,
                           neg_hi, i);
                }
            }
        }
    }
}
END_TEST

START_TEST(integers)
{
    static const struct {
        uint32_t op, bits, k;
    } forms[] = { { 0x44, 8, 16 }, { 0x45, 4, 16 }, { 0x4a, 4, 32 } };
    for (int g = 0; g < 2; g++)
        for (uint32_t f = 0; f < (g ? 3 : 2); f++)
            for (uint32_t m = 0; m < 8; m++) {
                const struct chip *c = chip_find(chip_names[g]);
                struct inst in = { .neg = (uint8_t)(m & 3), .clamp = m >> 2 };
                int32_t a[16][32], b[16][32];
                uint32_t bits = forms[f].bits, n = forms[f].k, mask = (1u << bits) - 1, c0[16][16];
                memset(regs, 0, sizeof regs);
                for (uint32_t i = 0; i < 16; i++)
                    for (uint32_t k = 0; k < n; k++) {
                        uint32_t x = rnd() & mask, y = rnd() & mask;
                        a[i][k] = m & 1 && x >> (bits - 1) ? (int32_t)x - (1 << bits) : (int32_t)x;
                        b[i][k] = m & 2 && y >> (bits - 1) ? (int32_t)y - (1 << bits) : (int32_t)y;
                        put(c, RA, i, k, bits, x);
                        put(c, RB, i, k, bits, y);
                    }
                for (uint32_t i = 0; i < 256; i++)
                    c0[i / 16][i % 16] = *acc(c, i / 16, i % 16) = rnd() % 2 ? rnd() : 0x7fffff00 + rnd() % 512;
                run(c, forms[f].op, &in);
                for (uint32_t i = 0; i < 16; i++)
                    for (uint32_t j = 0; j < 16; j++) {
                        int64_t s = (int32_t)c0[i][j];
                        for (uint32_t k = 0; k < n; k++)
                            s += a[i][k] * b[j][k];
                        s = in.clamp && s > INT32_MAX ? INT32_MAX : in.clamp && s < INT32_MIN ? INT32_MIN : s;
                        EXPECT(*acc(c, i, j), (uint32_t)s, "%s op %x modifiers %u", c->name, forms[f].op, m);
                    }
            }
}
END_TEST

static uint32_t elem(int v, bool byte) { return byte ? (uint32_t)v & 255 : half_of_int(v, false); }

/* Sparse: small integers, so that no order or grid matters: A's stored pairs against the k that the index names. */
START_TEST(sparse_f16_and_bytes)
{
    const struct chip *c = chip_find("gfx1201");
    for (uint32_t key = 0; key < 2; key++)
        for (uint32_t bytes = 0; bytes < 2; bytes++) {
            int dense[16][32], b[16][32], sum[16][16];
            uint32_t bits = bytes ? 8 : 16;
            struct inst in = { .opsel = (uint8_t)key, .neg = bytes ? 3 : 0 };
            memset(regs, 0, sizeof regs);
            memset(dense, 0, sizeof dense);
            for (uint32_t l = 0; l < 32; l++) { /* l: row (or column) and half of the lanes, which owns 16 of the k */
                for (uint32_t e = 0; e < 16; e++) {
                    int y = (int)(rnd() % 15) - 7;
                    b[l % 16][l / 16 * 16 + e] = y;
                    regs[RB + e * bits / 32][l] |= elem(y, bytes) << e * bits % 32;
                }
                for (uint32_t e = 0; e < 8; e++) {
                    int x = (int)(rnd() % 15) - 7;
                    uint32_t at = e % 2 ? 2 + rnd() % 2 : rnd() % 2;
                    dense[l % 16][l / 16 * 16 + e / 2 * 4 + at] = x;
                    regs[RA + e * bits / 32][l] |= elem(x, bytes) << e * bits % 32;
                    regs[40][l] |= at << (2 * e + 16 * key) | (3 - at) << (2 * e + 16 - 16 * key);
                }
            }
            for (uint32_t i = 0; i < 256; i++) {
                sum[i / 16][i % 16] = (int)(rnd() % 100);
                *acc(c, i / 16, i % 16) = bytes ? (uint32_t)sum[i / 16][i % 16] : bits_of((float)sum[i / 16][i % 16]);
            }
            struct wave w = { .v = regs, .n_vgpr = 64, .chip = c, .mode = 0xf0 };
            const char *name;
            in.vdst = RC, in.src[0] = OPND_VGPR + RA, in.src[1] = OPND_VGPR + RB, in.src[2] = OPND_VGPR + 40;
            wmma_find(c, bytes ? 0x54 : 0x50, &name)(&w, &in);
            for (uint32_t i = 0; i < 16; i++)
                for (uint32_t j = 0; j < 16; j++) {
                    for (uint32_t k = 0; k < 32; k++)
                        sum[i][j] += dense[i][k] * b[j][k];
                    uint32_t want = bytes ? (uint32_t)sum[i][j] : bits_of((float)sum[i][j]);
                    EXPECT(*acc(c, i, j), want, "%s at %u, %u: %08x, not %08x", name, i, j, want, *acc(c, i, j));
                }
        }
}
END_TEST

/* Bytes of float: exact sums of few bits; which of the pair is E5M2 matters. */
START_TEST(fp8_and_bf8)
{
    const struct chip *c = chip_find("gfx1201");
    for (uint32_t op = 0x46; op <= 0x49; op++) {
        uint32_t bf_a = op >= 0x48, bf_b = op & 1;
        memset(regs, 0, sizeof regs);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t k = 0; k < 16; k++) { /* 2^(k % 3) times 1.5 or -1.5 */
                put(c, RA, i, k, 8, bf_a ? (15 + k % 3) << 2 | 2 : (7 + k % 3) << 3 | 4);
                put(c, RB, i, k, 8, (bf_b ? (15u + i % 2) << 2 | 2 : (7u + i % 2) << 3 | 4) | (k & 1) << 7);
                *acc(c, i, k) = bits_of(0.25f);
            }
        run(c, op, &plain);
        for (uint32_t i = 0; i < 256; i++) {
            float want = 0.25f;
            for (uint32_t k = 0; k < 16; k++)
                want += 1.5f * (float)(1 << k % 3) * 1.5f * (float)(1 << i % 2) * (k & 1 ? -1 : 1);
            EXPECT(*acc(c, i / 16, i % 16), bits_of(want), "op %x at %u", op, i);
        }
    }
    /* E4M3 has no infinity: 7F is its NaN, 7E is 448 */
    ck_assert_uint_eq(dot4_f32_fp8(c, 0x7e, 0x38, 0, 0, 0), bits_of(448.0f));
    ck_assert_uint_eq(dot4_f32_fp8(c, 0x7f, 0x38, 0, 0, 0), 0xffc00a3d);
    ck_assert_uint_eq(dot4_f32_fp8(c, 0x7c, 0x38, 0, 1, 0), 0x7f800000);
}
END_TEST

/* Words of llvm-mc: modifiers arrive where the matrix code looks for them. */
START_TEST(decoded_as_assembled)
{
    static const struct {
        const char *chip, *name;
        uint32_t dw[2];
        uint8_t neg, neg_hi, opsel, clamp;
        uint16_t src2;
    } t[] = {
        { "gfx1100", "v_wmma_f16_16x16x16_f16", { 0xcc426020, 0x1c822100 }, 0, 0, 4, 0, OPND_VGPR + 32 },
        { "gfx1100", "v_wmma_f32_16x16x16_f16", { 0xcc404220, 0x3bca2100 }, 1, 2, 0, 0, 242 },
        { "gfx1100", "v_wmma_i32_16x16x16_iu8", { 0xcc44c020, 0x3c822100 }, 1, 0, 0, 1, OPND_VGPR + 32 },
        { "gfx1201", "v_wmma_f32_16x16x16_f16", { 0xcc404220, 0x3bca2100 }, 1, 2, 0, 0, 242 },
        { "gfx1201", "v_wmma_i32_16x16x16_iu8", { 0xcc44c020, 0x5c822100 }, 2, 0, 0, 1, OPND_VGPR + 32 },
        { "gfx1201", "v_swmmac_f32_16x16x32_f16", { 0xcc504820, 0x1ca22100 }, 0, 0, 1, 0, OPND_VGPR + 40 },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const struct chip *c = chip_find(t[i].chip);
        struct inst in;
        const char *name;
        ck_assert_int_eq(inst_decode(c, t[i].dw, 2, &in), 0);
        ck_assert_msg(in.run == wmma_find(c, in.op, &name), "%s: runs something else", t[i].name);
        ck_assert_str_eq(name, t[i].name);
        ck_assert_uint_eq(in.dwords, 2);
        ck_assert_msg(in.neg == t[i].neg && in.abs == t[i].neg_hi && (in.opsel & 7) == t[i].opsel &&
                          in.clamp == t[i].clamp, "%s: neg %u neg_hi %u opsel %u clamp %u", t[i].name, in.neg, in.abs,
                      in.opsel, in.clamp);
        ck_assert_uint_eq(in.vdst, 32);
        ck_assert(in.src[0] == OPND_VGPR && in.src[1] == OPND_VGPR + 16 && in.src[2] == t[i].src2);
    }
}
END_TEST

START_TEST(chips_have_what_they_have)
{
    const char *name = NULL;
    ck_assert_ptr_null(wmma_find(chip_find("gfx1151"), 0x46, &name));
    ck_assert_ptr_null(wmma_find(chip_find("gfx1200"), 0x4b, &name));
    ck_assert_ptr_nonnull(wmma_find(chip_find("gfx1200"), 0x5a, &name));
    ck_assert_str_eq(name, "v_swmmac_f32_16x16x32_bf8_bf8");
}
END_TEST

int main(void)
{
    return RUN_TESTS("amdsim: matrices", dot2_is_what_cards_answer, integers_in_halves, rows_captured_on_gfx1201,
                     f16_results_of_gfx1100, fast_rows_equal_exact_sums, neg_and_abs, integers, sparse_f16_and_bytes,
                     fp8_and_bf8, decoded_as_assembled, chips_have_what_they_have);
}
