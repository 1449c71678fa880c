/* oracle/mm_books.c: the codebooks as the set vbmi reads them. */
#include "oracle/mm_books.h"

#include <pthread.h>

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

static void fill(void)
{
    struct mm_packed *p = &mm_packed;
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
            for (uint32_t e = 4 * h; e < 4 * h + 4; e++)
                p->iq1[i] |= value(codebook_iq1[i], e) / 8 << 4 * e;
        }
}

void mm_packed_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
}
