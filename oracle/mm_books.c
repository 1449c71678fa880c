/* oracle/mm_books.c: the codebooks as the set vbmi reads them. */
#include "oracle/mm_books.h"

#include <pthread.h>

#include "kernels/dequant.h"

struct mm_packed mm_packed;

/* Element e of an entry of words. */
static uint32_t value(const uint32_t *entry, uint32_t e)
{
    return entry[e / 4] >> 8 * (e % 4) & 255;
}

/* One byte for half h of an entry of eight, whose values are `from` and up. */
static uint8_t half_of_eight(const uint32_t entry[2], uint32_t h)
{
    uint32_t out = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t v = value(entry, 4 * h + k);
        out |= (v == 8 ? 0u : v == 25 ? 1u : 2u) << 2 * k;
    }
    return (uint8_t)out;
}

/* Magnitudes are `step` apart, but for the largest. */
static uint8_t half_of_four(uint32_t entry, uint32_t h, uint32_t step)
{
    uint32_t a = value(&entry, 2 * h) / step, b = value(&entry, 2 * h + 1) / step;
    return (uint8_t)(a | b << 4);
}

/* Ternary digits `first` to 3, or to 4, of a byte. */
static uint8_t trits(uint32_t q, uint32_t first)
{
    uint32_t out = 0;
    for (uint32_t n = first; n < (first ? 5 : 4); n++)
        out |= (uint32_t)dequant_trit((uint8_t)q, (int)n) << 2 * (n - first);
    return (uint8_t)out;
}

static uint8_t pair_of_four(uint32_t entry, uint32_t h, uint32_t step)
{
    return (uint8_t)(value(&entry, h + 2) / step | value(&entry, h) / step << 3);
}

/* base + or - the magnitude of the code that begins at bit `code` of an index, of as many bits as n magnitudes need; minus where bit `sign`
 * is set. */
static void signed_values(int8_t out[64], const uint8_t *magnitudes, uint32_t n, uint32_t code, uint32_t sign, int base)
{
    for (uint32_t i = 0; i < 64; i++) {
        int m = magnitudes[i >> code & (n - 1)];
        out[i] = (int8_t)(i >> sign & 1 ? base - m : base + m);
    }
}

/* Where codes and signs are: mm_row_eights, mm_row_iq3. */
static void fill_values(struct mm_packed *p)
{
    static const uint8_t eights[4] = { 8, 25, 43, 0 }, xxs[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    static const uint8_t s[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    static const uint8_t code[4] = { 0, 2, 4, 0 }, sign[8] = { 2, 0, 0, 4, 3, 1, 1, 5 };
    for (uint32_t e = 0; e < 8; e++) {
        signed_values(p->eights[e], eights, 4, code[e % 4], sign[e], 0);
        signed_values(p->eights_u[e], eights, 4, code[e % 4], sign[e], 64);
    }
    for (uint32_t e = 0; e < 4; e++) {
        signed_values(p->fours_xxs[e], xxs, 8, e < 2 ? 3 : 0, e + 1, 64);
        signed_values(p->fours_s[e], s, 8, e < 2 ? 3 : 0, e + 1, 64);
    }
}

/* Half h of an entry of IQ1 as a number of four ternary digits, the first worth 1. */
static uint32_t half_of_digits(const uint32_t entry[2], uint32_t h)
{
    uint32_t out = 0;
    for (uint32_t e = 4; e-- > 0;)
        out = 3 * out + value(entry, 4 * h + e) / 8;
    return out;
}

/* Four such digits as codes of two bits. */
static uint8_t codes_of_half(uint32_t half)
{
    uint32_t out = 0;
    for (uint32_t e = 0; e < 4; e++, half /= 3)
        out |= half % 3 << 2 * e;
    return (uint8_t)out;
}

static void fill_iq1(struct mm_packed *p)
{
    static const struct {
        uint8_t first[8], second[16];
    } boxes[32] = {
#include "oracle/mm_iq1_boxes.inc"
    };
    static uint16_t index[81][81]; /* 1 + the index of an entry that has no place yet */
    for (uint32_t i = 0; i < 2048; i++)
        index[half_of_digits(codebook_iq1[i], 0)][half_of_digits(codebook_iq1[i], 1)] = (uint16_t)(i + 1);
    for (uint32_t place = 0; place < 4096; place++) {
        uint32_t box = place >> 8 | (place >> 7 & 1) << 4, a = boxes[box].first[place >> 4 & 7], b = boxes[box].second[place & 15];
        p->iq1_first[place >> 4] = codes_of_half(a);
        p->iq1_second[box << 4 | (place & 15)] = codes_of_half(b);
        uint32_t i = index[a][b];
        index[a][b] = 0;
        if (!i)
            continue;
        p->iq1_place[i - 1] = (uint16_t)place;
        p->iq1_index[place] = (uint16_t)(i - 1);
        p->iq1[place] = codebook_iq1[i - 1][0] | codebook_iq1[i - 1][1] << 2;
    }
}

static void fill(void)
{
    struct mm_packed *p = &mm_packed;
    fill_values(p);
    fill_iq1(p);
    for (uint32_t i = 0; i < 2048; i++)
        for (uint32_t h = 0; h < 2; h++) {
            if (i < 256)
                p->iq2_xxs[h][i] = half_of_eight(codebook_iq2_xxs[i], h);
            if (i < 512)
                p->iq2_xs[h][i] = half_of_eight(codebook_iq2_xs[i], h);
            if (i < 1024)
                p->iq2_s[h][i] = half_of_eight(codebook_iq2_s[i], h);
            if (i < 256)
                p->iq3_xxs[h][i] = half_of_four(codebook_iq3_xxs[i], h, 8); /* 4, 12, 20 .. 52, 62 */
            if (i < 512)
                p->iq3_s[h][i] = half_of_four(codebook_iq3_s[i], h, 2); /* 1, 3, 5 .. 15 */
            if (i < 256)
                p->tq1[h][i] = trits(i, 4 * h);
            if (i < 256)
                p->iq3_xxs_row[h][i] = pair_of_four(codebook_iq3_xxs[i], h, 8);
            if (i < 512)
                p->iq3_s_row[h][i] = pair_of_four(codebook_iq3_s[i], h, 2);
        }
}

void mm_packed_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
}
