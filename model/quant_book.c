#include "model/quant_book.h"

#include <stddef.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/fp.h"

void quant_book_set_d(enum qtype t, void *block, float d)
{
    uint16_t h = f16_from_f32(d);
    if (t == QT_IQ1_M) { /* four bits in each word of scales, the lowest first */
        blk_iq1_m *b = block;
        for (int i = 0; i < 4; i++)
            b->scales[i] = (uint16_t)((b->scales[i] & 0x0fff) | (h >> 4 * i & 15) << 12);
        return;
    }
    size_t at = t == QT_TQ1_0 ? offsetof(blk_tq1_0, d) : t == QT_TQ2_0 ? offsetof(blk_tq2_0, d) : 0;
    memcpy((uint8_t *)block + at, &h, sizeof h);
}

/* The root mean square of random codes times random scales, for d = 1. */
static float random_rms(enum qtype t)
{
    switch (t) {
    case QT_IQ2_XXS: return 53.5f;
    case QT_IQ2_XS: return 55.9f;
    case QT_IQ2_S: return 56.5f;
    case QT_IQ3_XXS: return 142.0f;
    case QT_IQ3_S: return 138.9f;
    case QT_IQ1_S:
    case QT_IQ1_M: return 7.19f;
    case QT_TQ1_0: return 0.817f;
    default: return 0.866f; /* TQ2_0 */
    }
}

void quant_book_tame(enum qtype t, void *block, float rms)
{
    if (t == QT_TQ2_0) { /* no code of three */
        blk_tq2_0 *b = block;
        for (size_t i = 0; i < sizeof b->qs; i++)
            b->qs[i] &= (uint8_t)~(b->qs[i] >> 1 & 0x55);
    }
    quant_book_set_d(t, block, rms / random_rms(t));
}
