#version 460
/* The router's choice from its logits, where a product kernel made them. A subgroup takes a row; any grid will do. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_topk)

/* The next expert behind (key, id): falling by logit, then rising by number. */
void next_expert(uint64_t l, inout uint key, inout uint id)
{
    uint best = 0, at = ~0u;
    for (uint i = zk_lane(); i < a.n_expert; i += ZK_WAVE) {
        uint k = moe_key(zk_ro_f32(l).v[i]);
        if (k > best && (k < key || (k == key && i > id))) {
            best = k;
            at = i;
        }
    }
    key = subgroupMax(best);
    id = min(subgroupMin(best == key ? at : ~0u), a.n_expert - 1);
}

void choose(uint row)
{
    uint64_t l = a.logits + uint64_t(row) * a.n_expert * 4, at = uint64_t(row) * a.k * 4;
    uint key = ~0u, id = 0;
    float top = 0.0, all = 0.0;
    precise float chosen = 0.0;
    for (uint j = 0; j < a.k; j++) {
        next_expert(l, key, id);
        float x = zk_ro_f32(l).v[id];
        top = j == 0 ? x : top;
        chosen += k_exp(x - top);
        if (zk_lane() == j % ZK_WAVE) /* the lane that reads it below */
            zk_u32(a.ids + at).v[j] = id;
    }
    if (a.gating == KA_SOFTMAX_TOPK) {
        for (uint i = zk_lane(); i < a.n_expert; i += ZK_WAVE)
            all += k_exp(zk_ro_f32(l).v[i] - top);
        all = zk_wave_sum(all);
    }
    for (uint j = zk_lane(); j < a.k; j += ZK_WAVE) {
        id = zk_u32(a.ids + at).v[j];
        zk_f32(a.weights + at).v[j] =
            moe_weight(k_exp(zk_ro_f32(l).v[id] - top), chosen, all, a.gating, a.scale, a.expert_scale, id);
    }
    if (a.share_l != 0 && zk_lane() == 0)
        zk_f32(a.share).v[row] = k_sigmoid(zk_ro_f32(a.share_l).v[row]);
}

void main()
{
    uint rows = zk_step_rows(a.step, ROWS_STEP);
    for (uint row = gl_WorkGroupID.x * ZK_WAVES + zk_wave(); row < rows; row += gl_NumWorkGroups.x * ZK_WAVES)
        choose(row);
}
