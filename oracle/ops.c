#include "oracle/ops.h"

#include <math.h>
#include <string.h>

#include "oracle/isa.h"

const struct cpu_ops *ops_select(const char *at_most)
{
#ifdef __x86_64__
    const struct isa *isa = isa_get();
    int limit = 3;
    if (at_most)
        limit = !strcmp(at_most, "plain") || !strcmp(at_most, "neon") || !strcmp(at_most, "dotprod") ? 0 : !strcmp(at_most, "avx2") ? 1 : 3;
    if (isa->avx512 && limit >= 2)
        return &cpu_ops_avx512;
    if (isa->avx2 && limit >= 1)
        return &cpu_ops_avx2;
#endif
    return &cpu_ops_plain;
}

/* theta is taken to [-pi/4, pi/4] by the nearest multiple of pi/2, which is subtracted in three parts of 33 bits
 * (exact products up to 2^20 multiples), then both Taylor series; plain double arithmetic only, so every machine
 * agrees. */
void rope_sincos(float theta, float *s, float *c)
{
    const double p1 = 0x1.921fb544p+0, p2 = 0x1.0b4611a6p-34, p3 = 0x1.3198a2e037073p-69;
    double k = rint((double)theta * 0x1.45f306dc9c883p-1);
    double r = (((double)theta - k * p1) - k * p2) - k * p3, z = r * r;
    double sn = 1.0 - z / 210.0 * (1.0 - z / 272.0); /* from the last terms inwards */
    sn = 1.0 - z / 156.0 * sn;
    sn = 1.0 - z / 110.0 * sn;
    sn = 1.0 - z / 72.0 * sn;
    sn = 1.0 - z / 42.0 * sn;
    sn = 1.0 - z / 20.0 * sn;
    sn = r * (1.0 - z / 6.0 * sn);
    double cn = 1.0 - z / 182.0 * (1.0 - z / 240.0);
    cn = 1.0 - z / 132.0 * cn;
    cn = 1.0 - z / 90.0 * cn;
    cn = 1.0 - z / 56.0 * cn;
    cn = 1.0 - z / 30.0 * cn;
    cn = 1.0 - z / 12.0 * cn;
    cn = 1.0 - z / 2.0 * cn;
    int quarter = (int)((int64_t)k & 3);
    double sin_ = quarter & 1 ? cn : sn, cos_ = quarter & 1 ? sn : cn;
    *s = (float)(quarter & 2 ? -sin_ : sin_);
    *c = (float)((quarter + 1) & 2 ? -cos_ : cos_);
}
