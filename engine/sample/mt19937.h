/* engine/sample/mt19937.h
 * The 32-bit Mersenne Twister (Matsumoto and Nishimura, 1998) with the parameters and seeding of C++'s std::mt19937,
 * and the uniform draws that libstdc++ makes of it, so that a seed means here what it means to other engines. */
#ifndef ZINC_SAMPLE_MT19937_H
#define ZINC_SAMPLE_MT19937_H

#include <math.h>
#include <stdint.h>

enum { MT_N = 624, MT_M = 397 };

struct mt19937 {
    uint32_t x[MT_N];
    uint32_t i;
};

static inline void mt_seed(struct mt19937 *m, uint32_t seed)
{
    m->x[0] = seed;
    for (uint32_t i = 1; i < MT_N; i++)
        m->x[i] = 1812433253u * (m->x[i - 1] ^ m->x[i - 1] >> 30) + i;
    m->i = MT_N;
}

static inline uint32_t mt_next(struct mt19937 *m)
{
    if (m->i == MT_N) {
        for (uint32_t i = 0; i < MT_N; i++) {
            uint32_t y = (m->x[i] & 0x80000000u) | (m->x[(i + 1) % MT_N] & 0x7fffffffu);
            m->x[i] = m->x[(i + MT_M) % MT_N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        m->i = 0;
    }
    uint32_t y = m->x[m->i++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* Uniform in [0, 1): two outputs for a double, one for a float. */
static inline double mt_double(struct mt19937 *m)
{
    double lo = mt_next(m), hi = mt_next(m);
    double u = (lo + hi * 4294967296.0) / 18446744073709551616.0;
    return u < 1.0 ? u : nextafter(1.0, 0.0);
}

static inline float mt_float(struct mt19937 *m)
{
    float u = (float)mt_next(m) / 4294967296.0f;
    return u < 1.0f ? u : nextafterf(1.0f, 0.0f);
}

#endif
