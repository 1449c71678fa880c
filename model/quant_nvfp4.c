/* model/quant_nvfp4.c: the quantiser of NVFP4: runs of 16 with a factor in UE4M3. The extreme element on the largest code is where
 * the search begins; the factors around it are tried, since codes lie far apart at that end. */
#include <math.h>
#include <string.h>

#include "kernels/fp.h"
#include "model/quant_search.h"

enum { RUN = 16, BLOCK = 64, BELOW = 3, ABOVE = 3, LARGEST = 126 /* 448 */ };

/* In units of half a code, which is what the halved factor is of: the nearest code's value of a magnitude, and its index. */
static float nearest(float a)
{
    return (float)((a > 0.5f) + (a > 1.5f) + (a > 2.5f) + (a > 3.5f) + 2 * (a > 5) + 2 * (a > 7) + 4 * (a > 10));
}

static unsigned nearest_index(float a)
{
    return (unsigned)((a > 0.5f) + (a > 1.5f) + (a > 2.5f) + (a > 3.5f) + (a > 5) + (a > 7) + (a > 10));
}

static float error_of(const float *x, const float *w, float d)
{
    float e[RUN], sum = 0, inv = 1 / d;
    for (int i = 0; i < RUN; i++) {
        float a = fabsf(x[i]), miss = a - nearest(a * inv) * d;
        e[i] = w[i] * miss * miss;
    }
    for (int i = 0; i < RUN; i++)
        sum += e[i];
    return sum;
}

/* The factor's code; 0: all of the run is nothing. */
static uint32_t factor_of(const float *x, const float *w)
{
    float amax = 0, least = INFINITY;
    for (int i = 0; i < RUN; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    int from = (int)e4m3_from_f32(amax / 6), best = 0;
    for (int c = from - BELOW; amax > 0 && c <= from + ABOVE; c++) {
        if (c < 1 || c > LARGEST)
            continue;
        float e = error_of(x, w, ue4m3_half_to_f32((uint32_t)c));
        if (e < least)
            least = e, best = c;
    }
    return (uint32_t)best;
}

void quant_nvfp4_row(const float *x, const float *importance, void *dst, uint64_t n)
{
    float w[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        w[i] = 1;
    blk_nvfp4 *b = dst;
    for (uint64_t k = 0; k < n; k += BLOCK, x += BLOCK, b++) {
        if (importance)
            quant_weights(x, importance + k, BLOCK, w);
        for (int r = 0; r < BLOCK / RUN; r++) {
            const float *v = x + RUN * r;
            uint8_t *q = b->qs + RUN / 2 * r;
            uint32_t c = factor_of(v, w + RUN * r);
            float inv = c ? 1 / ue4m3_half_to_f32(c) : 0;
            b->d[r] = (uint8_t)c;
            memset(q, 0, RUN / 2);
            for (int i = 0; i < RUN; i++) {
                unsigned at = nearest_index(fabsf(v[i]) * inv), sign = v[i] < 0 && at ? 8 : 0;
                q[i % 8] |= (uint8_t)((at | sign) << i / 8 * 4);
            }
        }
    }
}
