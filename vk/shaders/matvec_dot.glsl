/* vk/shaders/matvec_dot.glsl
 * The dot product of a lane's items, the twin of kernels/mvcore.h's mv_dot_rows: S slots (items of as many rows of
 * weights, 1 to 4) times R rows of x (1 to 4). Weights are opened once for all rows, x is read once for all slots.
 *
 *     float acc[16];                                     [slot * R + row], zeros
 *     mv_dot(T, S, R, all, w, iw, ix, acc);              iw: the item that the weights are of, ix: where its x lies
 *
 * T, S and R are constants where it is called; R is 1, 2 or 4, and without `all`, which is the same in all lanes, only
 * the first two rows are made. A result has the same bits for every S and R. */
#ifndef MATVEC_DOT_GLSL
#define MATVEC_DOT_GLSL

#include "xquant.glsl"

void mv_dot_floats(uint T, uint S, uint R, bool all, wd_item w[4], uint ix, inout float acc[16])
{
    [[unroll]] for (uint r = 0; r < 4; r++)
        if (r < R && (r < 2 || all)) {
            wd_floats x = xq_get_floats(T, r, ix);
            [[unroll]] for (uint k = 0; k < 4; k++)
                if (k < S) {
                    wd_floats f = wd_open_floats(T, w[k]);
                    float sum = acc[k * R + r];
                    [[unroll]] for (uint e = 0; e < 4; e++)
                        sum = fma(f.lo[e], x.lo[e], sum);
                    if (T != QT_F32) {
                        [[unroll]] for (uint e = 0; e < 4; e++)
                            sum = fma(f.hi[e], x.hi[e], sum);
                    }
                    acc[k * R + r] = sum;
                }
        }
}

/* The integer sum of a run, as a float, times x's scale. */
float mv_dot_run(uint T, uint s, wd_words q, xq_run x)
{
    int sum = floatBitsToInt(wd_magic(T, s)) + wd_bias(T, s) * x.sum;
    [[unroll]] for (uint k = 0; k < 4; k++)
        sum = zk_dot4(q.lo[k], x.lo[k], sum);
    if (wd_long(T)) {
        [[unroll]] for (uint k = 0; k < 4; k++)
            sum = zk_dot4(q.hi[k], x.hi[k], sum);
    }
    precise float whole = intBitsToFloat(sum) - wd_magic(T, s);
    precise float v = whole * x.d;
    return v;
}

void mv_dot(uint T, uint S, uint R, bool all, wd_item w[4], uint iw, uint ix, inout float acc[16])
{
    if (wd_is_float(T)) {
        mv_dot_floats(T, S, R, all, w, ix, acc);
        return;
    }
    wd_scales c[4];
    float sum_d[16], sum_m[16];
    [[unroll]] for (uint k = 0; k < 4; k++)
        if (k < S)
            c[k] = wd_scale(T, w[k], iw);
    [[unroll]] for (uint i = 0; i < 16; i++)
        if (i < S * R)
            sum_d[i] = sum_m[i] = 0.0;
    [[unroll]] for (uint s = 0; s < 4; s++)
        if (s < wd_runs(T)) {
            wd_words q[4];
            [[unroll]] for (uint k = 0; k < 4; k++)
                if (k < S)
                    q[k] = wd_open(T, w[k], iw, s);
            [[unroll]] for (uint r = 0; r < 4; r++)
                if (r < R && (r < 2 || all)) {
                    xq_run x = xq_get(T, r, ix, s);
                    precise float by_sum = x.d * float(x.sum);
                    [[unroll]] for (uint k = 0; k < 4; k++)
                        if (k < S) {
                            uint i = k * R + r;
                            float v = mv_dot_run(T, s, q[k], x);
                            if (!wd_is_k(T)) {
                                acc[i] = fma(c[k].d, v, acc[i]);
                                if (wd_has_min(T))
                                    acc[i] = fma(c[k].m, by_sum, acc[i]);
                            } else {
                                sum_d[i] = fma(wd_code(T, c[k], s), v, sum_d[i]);
                                if (wd_has_min(T))
                                    sum_m[i] = fma(wd_min_code(T, c[k], s), by_sum, sum_m[i]);
                            }
                        }
                }
        }
    if (!wd_is_k(T))
        return;
    [[unroll]] for (uint k = 0; k < 4; k++)
        [[unroll]] for (uint r = 0; r < 4; r++)
            if (k < S && r < R) {
                uint i = k * R + r;
                acc[i] = fma(c[k].d, sum_d[i], acc[i]);
                if (wd_has_min(T))
                    acc[i] = fma(c[k].m, sum_m[i], acc[i]);
            }
}

#endif
