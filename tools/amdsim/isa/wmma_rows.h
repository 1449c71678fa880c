/* The fast matrix step, compiled once for each instruction set; ROWS(name) gives the function its suffix. All sums
 * fit 30 bits: a product aligned to its grid has at most 26 bits, c 27. Loops over 16 columns become vectors. */
#include <string.h>

#include "tools/amdsim/isa/wmma_float.h"

/* Halves taken apart, [k][i]: value = sig * 2^(e - fraction bits). sig has its sign on gfx12; gfx11 wants magnitude
 * and sign (0 or -1) apart. A zero has an e so low that it aligns nothing. */
enum { E_ZERO = -400 };
struct side {
    int32_t sig[WMMA_DIM][WMMA_DIM], e[WMMA_DIM][WMMA_DIM], neg[WMMA_DIM][WMMA_DIM];
} __attribute__((aligned(64)));

static inline int32_t max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t sar(int32_t v, int32_t by) { return v >> (by < 31 ? by : 31); } /* by >= 0 */

/* Rows or columns i that hold an infinity or a NaN become bits of the answer. sig comes with `up` zeros below. */
static inline uint32_t take_apart(const uint16_t m[WMMA_DIM][WMMA_DIM], int32_t frac, int32_t top, bool gfx12,
                                  int32_t up, struct side *s)
{
    int32_t odd[WMMA_DIM] = { 0 }, bias = top >> 1, flush = frac == 7 && !gfx12 ? 0 : -1;
    for (int k = 0; k < WMMA_DIM; k++)
        for (int i = 0; i < WMMA_DIM; i++) {
            int32_t x = m[k][i], field = x >> frac & top, f = x & ((1 << frac) - 1), neg = -(x >> 15);
            int32_t sig = (field ? f | 1 << frac : f & flush) << up;
            odd[i] |= field == top;
            s->sig[k][i] = gfx12 ? (sig ^ neg) - neg : sig;
            s->e[k][i] = sig ? max_i32(field, 1) - bias : E_ZERO;
            s->neg[k][i] = neg;
        }
    uint32_t bits = 0;
    for (int i = 0; i < WMMA_DIM; i++)
        bits |= (uint32_t)odd[i] << i;
    return bits;
}

/* Both sides; the product of two sigs has its leading bit at 2^24 or 2^25. Odd columns of b stand above odd rows of
 * a. */
static inline uint32_t take_both(bool bf16, bool gfx12, const uint16_t ma[WMMA_DIM][WMMA_DIM],
                                 const uint16_t mb[WMMA_DIM][WMMA_DIM], struct side *a, struct side *b)
{
    int32_t frac = bf16 ? 7 : 10, top = bf16 ? 255 : 31, up = bf16 ? 10 : 4;
    uint32_t rows = take_apart(ma, frac, top, gfx12, up, a);
    return rows | take_apart(mb, frac, top, gfx12, 0, b) << WMMA_DIM;
}

/* sum * 2^grid; the exponent that the answer would have goes to *e. */
static inline uint32_t scaled(int32_t sum, int32_t grid, int32_t *e)
{
    float f = (float)sum;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    *e = (int32_t)(bits >> 23 & 255) + grid;
    return bits + ((uint32_t)grid << 23);
}

static inline uint32_t any_set(const int32_t low[WMMA_DIM])
{
    int32_t any = 0;
    for (int j = 0; j < WMMA_DIM; j++)
        any |= low[j];
    return any != 0;
}

/* An infinity or a NaN to which finite products are added. */
static inline uint32_t kept(uint32_t x) { return x | (x & 0x7fffff ? 0x400000 : 0); }
static inline uint32_t infinity(int32_t sign) { return (uint32_t)(sign & INT32_MIN) | 0x7f800000; }

/* sum * 2^grid below the normal numbers, to nearest even; grid >= -152. */
static inline uint32_t subnormal(int32_t sum, int32_t grid)
{
    uint32_t neg = (uint32_t)sum & 0x80000000u, m = neg ? -(uint32_t)sum : (uint32_t)sum;
    int32_t by = -149 - grid;
    uint32_t down = by > 0 ? by & 31 : 0, up = by < 0 ? -by & 31 : 0, even = m >> down & 1;
    m = (m + (down ? (1u << down >> 1) - 1 + even : 0)) >> down << up;
    return m ? neg | m : 0;
}

/* gfx12: four products a step, pairs first; what falls below a grid is floored. */
uint32_t ROWS(wmma_rows12)(bool bf16, const uint16_t ma[WMMA_DIM][WMMA_DIM], const uint16_t mb[WMMA_DIM][WMMA_DIM],
                           const uint32_t c[WMMA_DIM][WMMA_DIM], uint32_t d[WMMA_DIM][WMMA_DIM])
{
    struct side a, b;
    uint32_t redo = take_both(bf16, true, ma, mb, &a, &b);
    for (int i = 0; i < WMMA_DIM; i++) {
        uint32_t acc[WMMA_DIM] __attribute__((aligned(64)));
        memcpy(acc, c[i], sizeof acc);
        for (int k = 0; k < WMMA_DIM; k += 4) {
            int32_t as[4], ae[4];
            for (int q = 0; q < 4; q++)
                as[q] = a.sig[k + q][i], ae[q] = a.e[k + q][i];
            int32_t low[WMMA_DIM], sums[WMMA_DIM], grids[WMMA_DIM];
            for (int j = 0; j < WMMA_DIM; j++) {
                int32_t e0 = ae[0] + b.e[k][j], e1 = ae[1] + b.e[k + 1][j];
                int32_t e2 = ae[2] + b.e[k + 2][j], e3 = ae[3] + b.e[k + 3][j];
                int32_t ea = max_i32(e0, e1), eb = max_i32(e2, e3);
                int32_t pa = sar(as[0] * b.sig[k][j], ea - e0) +
                             sar(as[1] * b.sig[k + 1][j], ea - e1);
                int32_t pb = sar(as[2] * b.sig[k + 2][j], eb - e2) +
                             sar(as[3] * b.sig[k + 3][j], eb - e3);
                uint32_t x = acc[j];
                int32_t field = (int32_t)(x >> 23 & 255), ec = max_i32(field, 1) - 127;
                int32_t mag = (int32_t)((x & 0x7fffff) | (field ? 0x800000 : 0)) * 8;
                int32_t grid = max_i32(max_i32(ea, eb) - 24, ec - 26), drop = grid - (ec - 26),
                    sign = (int32_t)x >> 31;
                /* a negative c of which nothing is left counts only on the finest grids */
                int32_t keep = sar(mag, drop) != 0 || grid <= -126 ? -1 : 0;
                int32_t sum = (sar((mag ^ sign) - sign, drop) & keep) + sar(pa, grid - (ea - 24)) +
                              sar(pb, grid - (eb - 24));
                int32_t e;
                uint32_t r = scaled(sum, grid, &e), fits = e > 254 ? infinity(sum) : r;
                acc[j] = field == 255 ? kept(x) : sum ? fits : 0;
                low[j] = (field != 255) & (sum != 0) & (e < 1);
                sums[j] = sum;
                grids[j] = grid;
            }
            if (any_set(low))
                for (int j = 0; j < WMMA_DIM; j++)
                    acc[j] = low[j] ? subnormal(sums[j], grids[j]) : acc[j];
        }
        memcpy(d[i], acc, sizeof acc);
    }
    return redo;
}

/* gfx11: two products a step; magnitudes are cut, and what has not c's sign enters as its ones' complement. */
uint32_t ROWS(wmma_rows11)(bool bf16, const uint16_t ma[WMMA_DIM][WMMA_DIM], const uint16_t mb[WMMA_DIM][WMMA_DIM],
                           const uint32_t c[WMMA_DIM][WMMA_DIM], uint32_t d[WMMA_DIM][WMMA_DIM])
{
    struct side a, b;
    uint32_t redo = take_both(bf16, false, ma, mb, &a, &b);
    for (int i = 0; i < WMMA_DIM; i++) {
        uint32_t acc[WMMA_DIM] __attribute__((aligned(64)));
        memcpy(acc, c[i], sizeof acc);
        for (int k = 0; k < WMMA_DIM; k += 2) {
            int32_t as[2], ae[2], an[2];
            for (int q = 0; q < 2; q++)
                as[q] = a.sig[k + q][i], ae[q] = a.e[k + q][i], an[q] = a.neg[k + q][i];
            for (int j = 0; j < WMMA_DIM; j++) {
                int32_t e0 = ae[0] + b.e[k][j], e1 = ae[1] + b.e[k + 1][j];
                uint32_t x = acc[j];
                int32_t field = (int32_t)(x >> 23 & 255), ec = field ? field - 127 : -1024, sign = (int32_t)x >> 31;
                int32_t mag = field ? (int32_t)((x & 0x7fffff) | 0x800000) * 8 : 0;
                int32_t grid = max_i32(max_i32(e0, e1) - 24, ec - 26);
                int32_t p0 = sar(as[0] * b.sig[k][j], grid - (e0 - 24));
                int32_t p1 = sar(as[1] * b.sig[k + 1][j], grid - (e1 - 24));
                int32_t sum = sar(mag, grid - (ec - 26)) + (p0 ^ an[0] ^ b.neg[k][j] ^ sign) +
                              (p1 ^ an[1] ^ b.neg[k + 1][j] ^ sign);
                int32_t e;
                uint32_t r = scaled(sum, grid, &e) ^ (uint32_t)(sign & INT32_MIN);
                /* grids below -290 are of zeros only; subnormal results are flushed */
                uint32_t fits = e > 254 ? infinity(sum ^ sign) : r;
                fits = ((sum == 0) | (e < 1) | (grid < -290)) ? 0 : fits;
                acc[j] = field == 255 ? kept(x) : fits;
            }
        }
        memcpy(d[i], acc, sizeof acc);
    }
    return redo;
}
