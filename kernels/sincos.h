/* kernels/sincos.h
 * Sine and cosine in f32 by fma, for rotary angles: absolute error below 1.2e-7 up to |x| = 1e6, 1e-6 up to 6e6.
 * x = n pi/2 + r with |r| <= pi/4, then the minimax polynomials of Cephes (sinf.c). The first step of the reduction
 * is exact: x and n times the leading part of pi/2 are multiples of 2^-23, and so is their difference, which is below
 * 1. Freestanding. */
#ifndef ZINC_KERNELS_SINCOS_H
#define ZINC_KERNELS_SINCOS_H

#include "kernels/mathf.h"

static inline void k_sincos(float x, float *sine, float *cosine)
{
    float n = k_fma(x, 0.63661977f, 12582912.0f) - 12582912.0f; /* to nearest by the 1.5 * 2^23 trick */
    float r = k_fma(n, -0x1.921fb6p+0f, x);
    r = k_fma(n, 0x1.777a5cp-25f, r);
    r = k_fma(n, 0x1.ee59dap-50f, r);
    float q = r * r;
    float s = k_fma(q, -1.9515295891e-4f, 8.3321608736e-3f);
    s = k_fma(s, q, -1.6666654611e-1f);
    s = k_fma(s * q, r, r);
    float c = k_fma(q, 2.443315711809948e-5f, -1.388731625493765e-3f);
    c = k_fma(c, q, 4.166664568298827e-2f);
    c = k_fma(c, q, -0.5f);
    c = k_fma(c, q, 1.0f);
    int quarter = (int)n & 3;
    float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = quarter == 1 || quarter == 2 ? -b : b;
}

#endif
