/* vk/shaders/mathf.glsl
 * The elementary functions of the canonical arithmetic, as kernels/mathf.h has them: by fma and single roundings,
 * where GLSL's own exp and division may be off by several units in the last place. Include it after zk.glsl.
 *
 * On a device whose fma is not fused (lavapipe) the last bit differs; and such a compiler may reorder the sums in it,
 * for `precise` does not reach fma: what must be exact is written as products and sums. */

/* exp(x), relative error below 2e-7; 0 below -87.3 (no subnormal results), +inf above 88.7; NaN stays NaN.
 * Cody-Waite: x = n ln 2 + r with |r| <= 0.35, the Taylor series of degree 7 in Horner form, then 2^n. */
float k_exp(float x)
{
    float c = x >= -87.3 ? x : -87.3; /* NaN too */
    c = c > 88.7 ? 88.7 : c;
    precise float n = fma(c, 1.44269504, 12582912.0) - 12582912.0; /* round to nearest even by the 1.5 * 2^23 trick */
    precise float big = n * 0.693359375, r = c - big; /* both exact, fused or not */
    r = fma(n, 2.12194440e-4, r);
    precise float p = 1.0 / 5040.0;
    p = fma(p, r, 1.0 / 720.0);
    p = fma(p, r, 1.0 / 120.0);
    p = fma(p, r, 1.0 / 24.0);
    p = fma(p, r, 1.0 / 6.0);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    int e = int(n), h = e >> 1; /* -126..128: two steps, so that 2^128 does not overflow before the product */
    precise float y = p * uintBitsToFloat(uint(h + 127) << 23);
    y *= uintBitsToFloat(uint(e - h + 127) << 23);
    y = x < -87.3 ? 0.0 : y;
    y = x > 88.7 ? uintBitsToFloat(0x7f800000u) : y;
    return isnan(x) ? x : y;
}

float k_sigmoid(float x)
{
    precise float d = 1.0 + k_exp(-x);
    return zk_div(1.0, d);
}

float k_silu(float x)
{
    precise float d = 1.0 + k_exp(-x);
    return zk_div(x, d);
}

/* By exp of twice the magnitude; exact sign, saturates. */
float k_tanh(float x)
{
    precise float d = k_exp(2.0 * abs(x)) + 1.0, t = 1.0 - zk_div(2.0, d);
    return x < 0.0 ? -t : t;
}

/* 0.5 x (1 + tanh(sqrt(2/pi) x (1 + 0.044715 x^2))) */
float k_gelu_tanh(float x)
{
    precise float t = 0.044715 * x, s = 0.79788456 * x;
    s *= fma(t, x, 1.0);
    t = 1.0 + k_tanh(s);
    precise float y = 0.5 * x * t;
    return y;
}

/* gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7): g sigmoid(1.702 g) (u + 1) */
float k_swiglu_oai(float gate, float up)
{
    float g = gate > 7.0 ? 7.0 : gate, u = up > 7.0 ? 7.0 : up < -7.0 ? -7.0 : up;
    precise float d = 1.0 + k_exp(-1.702 * g), u1 = u + 1.0, y = zk_div(g, d) * u1;
    return y;
}

/* act(gate, up), enum ka_act. */
float k_act(uint act, float gate, float up)
{
    if (act == KA_SWIGLU_OAI)
        return k_swiglu_oai(gate, up);
    precise float y = (act == KA_SILU ? k_silu(gate) : k_gelu_tanh(gate)) * up;
    return y;
}

/* log(1 + exp(x)), x itself above 20. With t = exp(-|x|) in (0, 1]: max(x, 0) + log1p(t); log1p by atanh:
 * log(1 + t) = 2 s (1 + s^2/3 + s^4/5 + ...), s = t / (2 + t) <= 1/3. */
float k_softplus(float x)
{
    precise float t = k_exp(-abs(x)), d = 2.0 + t, s = zk_div(t, d), q = s * s;
    precise float p = 1.0 / 15.0;
    p = fma(p, q, 1.0 / 13.0);
    p = fma(p, q, 1.0 / 11.0);
    p = fma(p, q, 1.0 / 9.0);
    p = fma(p, q, 1.0 / 7.0);
    p = fma(p, q, 1.0 / 5.0);
    p = fma(p, q, 1.0 / 3.0);
    p = fma(p, q, 1.0);
    precise float y = fma(2.0 * s, p, x > 0.0 ? x : 0.0);
    return x > 20.0 ? x : y;
}
