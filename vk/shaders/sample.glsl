/* vk/shaders/sample.glsl
 * What follows once the candidates of a draw are known, in the arithmetic of kernels/sample.h: weights, what top_p
 * and min_p leave, the draw. Candidates lie in shared memory by falling logit. */
#include "mathf.glsl"

shared uint s_id[KA_SAMPLE_MAX];
shared float s_plain[KA_SAMPLE_MAX];  /* weights of temperature 1 */
shared float s_weight[KA_SAMPLE_MAX]; /* of the row's             */

/* The first word of Philox4x32-10 with the key (seed, 0) and the counter (counter, 0, 0, 0): in [0, 1). */
float sample_uniform(uint seed, uint counter)
{
    uvec4 c = uvec4(counter, 0, 0, 0);
    uvec2 key = uvec2(seed, 0);
    for (int round = 0; round < 10; round++) {
        uint a_hi, a_lo, b_hi, b_lo;
        umulExtended(0xd2511f53u, c.x, a_hi, a_lo);
        umulExtended(0xcd9e8d57u, c.z, b_hi, b_lo);
        c = uvec4(b_hi ^ c.y ^ key.x, b_lo, a_hi ^ c.w ^ key.y, a_lo);
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return float(c.x >> 8) * (1.0 / 16777216.0);
}

/* Candidates that are looked for. */
uint sample_top_k(uint top_k) { return top_k != 0 && top_k < KA_SAMPLE_MAX ? top_k : KA_SAMPLE_MAX; }

/* Proportional to a candidate's probability; most: the largest logit, whose weight is 1 even if it is infinite. */
float sample_weight(float logit, float most, float temp)
{
    precise float d = logit - most;
    return logit == most ? 1.0 : k_exp(zk_div(d, temp));
}

/* How many of n >= 1 candidates top_p and min_p leave. */
uint sample_keep(uint n, float top_p, float min_p)
{
    if (top_p < 1.0) {
        precise float total = 0.0, sum = 0.0;
        for (uint i = 0; i < n; i++)
            total += s_plain[i];
        precise float enough = top_p * total;
        for (uint i = 0; i < n; i++) {
            sum += s_plain[i];
            if (sum >= enough)
                n = i + 1;
        }
    }
    while (n > 1 && s_plain[n - 1] < min_p)
        n--;
    return n;
}

/* Which of n >= 1 candidates u in [0, 1) means. */
uint sample_draw(uint n, float u)
{
    precise float total = 0.0, sum = 0.0;
    for (uint i = 0; i < n; i++)
        total += s_weight[i];
    precise float until = u * total;
    for (uint i = 0; i < n; i++) {
        sum += s_weight[i];
        if (sum > until)
            return i;
    }
    return n - 1;
}
