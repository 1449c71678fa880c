/* The activation quantiser: the same bits from every instruction set, and the text of kernels/kargs.h in every
 * corner: zeros, subnormals, the threshold, ties, the largest floats, infinities and NaNs. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fp.h"
#include "oracle/mm.h"
#include "tests/lib/edge.h"

enum { ROWS = 40, N_IN = 32 * 9 };
static const char *const isas[] = { "plain", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vbmi", "amx" };
static uint64_t seed = 7;

static uint32_t random_u32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static void fill(float *x, uint32_t row)
{
    for (uint32_t i = 0; i < N_IN; i++) {
        float f = (float)(int32_t)random_u32() * 0x1p-31f;
        switch (row % 10) {
        case 1: f = 0; break;
        case 2: f *= 1e-30f; break;
        case 3: f *= 1e-40f; break;
        case 4: f *= 3.4e38f; break;
        case 5: f = i % 32 ? ((float)(i % 32) - 15.5f) : 127; break; /* ties: the scale is 1 */
        case 6: f = f32_from_bits(random_u32()); break;              /* anything at all */
        case 7: f = i == 40 ? INFINITY : f; break;
        case 8: f = i == 70 ? -NAN : f; break;
        case 9: f = i % 32 == 3 ? 1e-30f : 0; break;
        }
        x[i] = f;
    }
}

static void expect_row(const float *x, const struct mm_act *a, uint32_t row, const char *isa)
{
    for (uint32_t b = 0; b < N_IN / 32; b++, x += 32) {
        const int8_t *q = a->q + (size_t)row * a->ldq + 32 * b;
        size_t at = (size_t)b * a->ldd + row;
        float d = a->d[at], dx = a->dx[at], amax = 0;
        const int16_t *s16 = a->s16 + 2 * at;
        bool finite = true;
        int sum[2] = { 0, 0 };
        for (int i = 0; i < 32; i++) {
            finite = finite && isfinite(x[i]);
            amax = fmaxf(amax, fabsf(x[i]));
        }
        bool zero = !finite || amax < 1e-30f;
        for (int i = 0; i < 32; i++) {
            int want = zero ? 0 : (int)rintf(x[i] * (127 / amax));
            ck_assert_msg(q[i] == want && want >= -127 && want <= 127, "%s row %u element %u: got %d, want %d", isa,
                          row, 32 * b + (uint32_t)i, q[i], want);
            sum[i / 16] += want;
        }
        ck_assert_int_eq(s16[0], sum[0]);
        ck_assert_int_eq(s16[1], sum[1]);
        if (!finite) {
            ck_assert(isnan(d) && isnan(dx));
        } else {
            float want = zero ? 0 : amax / 127;
            ck_assert_msg(f32_bits(d) == f32_bits(want), "%s row %u: d %a, want %a", isa, row, (double)d,
                          (double)want);
            ck_assert(f32_bits(dx) == f32_bits(zero ? 0 : want * (float)(sum[0] + sum[1])));
        }
    }
}

START_TEST(every_set_quantises_by_the_text)
{
    const struct mm_kernels *k = mm_select(isas[_i]);
    if (strcmp(k->isa, isas[_i]))
        return;
    struct mm_act a;
    size_t bytes = mm_act_bytes(ROWS, N_IN);
    void *mem = edge_alloc(bytes, 64);
    float *x = edge_alloc(N_IN * sizeof *x, sizeof *x);
    mm_act_init(&a, ROWS, N_IN, mem);
    for (uint32_t row = 0; row < ROWS; row++) {
        fill(x, row);
        k->quant(x, N_IN, &a, row);
        expect_row(x, &a, row, isas[_i]);
    }
    edge_free(x, N_IN * sizeof *x);
    edge_free(mem, bytes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mm_quant");
    TCase *c = tcase_create("quant");
    tcase_add_loop_test(c, every_set_quantises_by_the_text, 0, sizeof isas / sizeof *isas);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
