/* vk/shaders/gdn.glsl: what the gated DeltaNet kernels have in common, the GLSL counterpart of kernels/gdn.h. All sums
 * are precise: a row has the same bits in a step of one row and of many. */
#include "mathf.glsl"

const float GDN_INV_SQRT_DIM = 0.088388348;
const uint GDN_QUADS = GDN_DIM / 4; /* of a head, four elements each */

uint gdn_channels(uint n_k, uint n_v, uint dim) { return (2 * n_k + n_v) * dim; }
/* The k-head of v-head h, and whether h is the lowest v-head of that k-head. */
uint gdn_k_head(uint heads, uint n_k, uint n_v, uint h) { return heads == KA_GDN_MODULO ? h % n_k : h / (n_v / n_k); }
bool gdn_is_first(uint heads, uint n_k, uint n_v, uint h)
{
    return heads == KA_GDN_MODULO ? h < n_k : h % (n_v / n_k) == 0;
}
/* Where v-head h's values lie behind alpha and beta of a row. */
uint gdn_ab_at(uint group, uint h) { return group != 0 ? h / group * 2 * group + h % group : h; }
uint64_t gdn_slot(uint64_t base, uint64_t slot_bytes, uint slot) { return base + slot * slot_bytes; }

float gdn_decay(float a, float alpha, float dt)
{
    precise float x = alpha + dt, g = a * k_softplus(x);
    return k_exp(g);
}

vec4 gdn_fma4(vec4 a, float b, vec4 c)
{
    precise vec4 y = fma(a, vec4(b), c);
    return y;
}
/* s + a . b, ascending */
float gdn_dot4(vec4 a, vec4 b, float s)
{
    precise float y = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, s))));
    return y;
}
/* Wide and often, so by GLSL's exp and division. */
vec4 gdn_silu4(vec4 x) { return vec4(zk_silu(x.x), zk_silu(x.y), zk_silu(x.z), zk_silu(x.w)); }

/* Four channels convolved: w, the taps of each; x0, the row's own inputs, to x3, those three positions back. */
vec4 gdn_conv(vec4 w[4], vec4 x3, vec4 x2, vec4 x1, vec4 x0)
{
    precise vec4 s = vec4(w[0].x, w[1].x, w[2].x, w[3].x) * x3;
    s = fma(vec4(w[0].y, w[1].y, w[2].y, w[3].y), x2, s);
    s = fma(vec4(w[0].z, w[1].z, w[2].z, w[3].z), x1, s);
    s = fma(vec4(w[0].w, w[1].w, w[2].w, w[3].w), x0, s);
    return gdn_silu4(s);
}

/* The sum over `lanes` neighbours, 1, 2, 4.. apart, starting with those `first` apart. Constants: what does not apply
 * is folded away, where a loop that doubles its step keeps some compilers from unrolling it and all around it. */
float gdn_sum(float v, uint first, uint lanes)
{
    precise float t = v;
    if (first <= 1 && lanes > 1)
        t += subgroupShuffleXor(t, 1);
    if (first <= 2 && lanes > 2)
        t += subgroupShuffleXor(t, 2);
    if (first <= 4 && lanes > 4)
        t += subgroupShuffleXor(t, 4);
    if (first <= 8 && lanes > 8)
        t += subgroupShuffleXor(t, 8);
    if (first <= 16 && lanes > 16)
        t += subgroupShuffleXor(t, 16);
    return t;
}
/* Two values of lanes m apart, each added up in one of the two: `even` where the lane's bit m is 0, else `odd`. */
float gdn_halve(float even, float odd, uint m)
{
    bool b = (zk_lane() & m) != 0;
    precise float y = (b ? odd : even) + subgroupShuffleXor(b ? even : odd, m);
    return y;
}
