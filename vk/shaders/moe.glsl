/* vk/shaders/moe.glsl
 * What the kernels of experts share: who an expert is, the order of logits, and the weights of the chosen. */
#include "mathf.glsl"

uint moe_expert(uint64_t ids, uint at, uint n_expert) { return min(zk_ro(ids).v[at], n_expert - 1); }

/* The order of logits as integers: larger is larger, equal zeros are equal, a NaN is below all numbers and above 0. */
uint moe_key(float l)
{
    uint u = floatBitsToUint(l == 0.0 ? 0.0 : l);
    return isnan(l) ? 1 : u >> 31 != 0 ? ~u : u | 0x80000000u;
}

/* The j-th chosen expert's weight: e, its exp(l - largest l), over the sum of the chosen ones' or what KA_SOFTMAX_TOPK
 * wants at least of the sum of all. */
float moe_weight(float e, float chosen, float all, uint gating, float scale, uint64_t expert_scale, uint id)
{
    precise float w = zk_div(e, gating == KA_SOFTMAX_TOPK ? max(chosen, 6.103515625e-5 * all) : chosen) * scale;
    return expert_scale != 0 ? w * zk_ro_f32(expert_scale).v[id] : w;
}

/* Is row r in the step? Every step has a first row, so who takes that need not wait for the count. */
bool moe_has_row(uint64_t step, uint r) { return r == 0 || r < zk_step_rows(step, ROWS_STEP); }
