/* What each family's file holds. Tensor names and rules: ggml-org/llama.cpp, src/models and conversion. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/model_read.h"

static float default_attn_scale(struct reading *r, uint32_t head_dim)
{
    float s = key_f32(r, "attention.scale", 0);
    return s != 0 ? s : 1 / sqrtf((float)MAX(head_dim, 1));
}

static void read_qkv_biases(struct reading *r, uint32_t il, enum need need)
{
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    uint64_t q_rows = (uint64_t)l->n_head * l->head_dim, kv_rows = (uint64_t)l->n_head_kv * l->head_dim;
    if (l->wqkv) {
        l->bqkv = read_vec(r, b, "attn_qkv.bias", need, q_rows + 2 * kv_rows);
    } else {
        l->bq = read_vec(r, b, "attn_q.bias", need, q_rows);
        l->bk = read_vec(r, b, "attn_k.bias", need, kv_rows);
        l->bv = read_vec(r, b, "attn_v.bias", need, kv_rows);
    }
}

/* --- llama, mistral3 -------------------------------------------------------------------------------------------------- */

static void read_rope_tables(struct reading *r, struct model_layer *l)
{
    uint32_t n_rot = l->rope.n_rot;
    if (has_longrope(r)) {
        l->rope_freqs = read_rope_freqs(r, "rope_factors_short.weight", REQUIRED, n_rot);
        l->rope_long = read_rope_freqs(r, "rope_factors_long.weight", REQUIRED, n_rot);
    } else {
        r->m->rope_freqs = l->rope_freqs = read_rope_freqs(r, "rope_freqs.weight", OPTIONAL, n_rot);
    }
}

static void read_llama_layer(struct reading *r, uint32_t il)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    read_heads(r, il);
    l->rope = read_rope(r, l->head_dim, ROPE_NORM);
    if (!r->rc && l->rope.n_rot != l->head_dim)
        read_fail(r, -EINVAL,
                  "key '%s.rope.dimension_count': expected the head size %u, found %u (convert the model "
                  "again)",
                  r->arch, l->head_dim, l->rope.n_rot);
    read_rope_tables(r, l);
    l->attn_scale = default_attn_scale(r, l->head_dim);
    l->attn_norm = read_vec(r, b, "attn_norm.weight", REQUIRED, m->n_embd);
    read_projections(r, il);
    read_qkv_biases(r, il, OPTIONAL);
    l->bo = read_vec(r, b, "attn_output.bias", OPTIONAL, m->n_embd);
    l->ffn_norm = read_vec(r, b, "ffn_norm.weight", REQUIRED, m->n_embd);
    if (m->n_expert)
        read_expert_ffn(r, il);
    else
        read_dense_ffn(r, il);
}

/* mistral3 (Mistral Small 3, Ministral 3, Devstral Small 2) is llama under another name, but that rotated queries are multiplied by
 *     1 + scale * ln(1 + floor(pos / original context))
 * where the file has a scale. (ggml-org/llama.cpp, src/models/mistral3.cpp and src/llama-graph.cpp, llm_graph_input_attn_temp;
 * huggingface/transformers, modeling_ministral3.py, get_llama_4_attn_scale.) */
static void read_temperature(struct reading *r)
{
    float scale = r->m->family == FAMILY_MISTRAL3 ? key_f32(r, "attention.temperature_scale", 0) : 0;
    if (!(scale >= 0 && isfinite(scale)))
        read_fail(r, -EINVAL, "key '%s.attention.temperature_scale': expected at least 0, found %g (the file is damaged)", r->arch,
                  (double)scale);
    r->m->attn_temp = scale;
    r->m->attn_temp_every = r->m->layers[0].rope.n_ctx_orig;
}

void read_llama(struct reading *r)
{
    read_expert_counts(r, OPTIONAL);
    for (uint32_t il = 0; il < r->m->n_layer && !r->rc; il++)
        read_llama_layer(r, il);
    read_temperature(r);
}

/* --- qwen2 ------------------------------------------------------------------------------------------------------ */

static void read_qwen2_layer(struct reading *r, uint32_t il)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    read_heads(r, il);
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    l->attn_scale = default_attn_scale(r, l->head_dim);
    l->attn_norm = read_vec(r, b, "attn_norm.weight", REQUIRED, m->n_embd);
    read_projections(r, il);
    read_qkv_biases(r, il, OPTIONAL);
    l->ffn_norm = read_vec(r, b, "ffn_norm.weight", REQUIRED, m->n_embd);
    read_dense_ffn(r, il);
}

void read_qwen2(struct reading *r)
{
    for (uint32_t il = 0; il < r->m->n_layer && !r->rc; il++)
        read_qwen2_layer(r, il);
}

/* --- qwen3, qwen3moe -------------------------------------------------------------------------------------------- */

static void read_qwen3_layer(struct reading *r, uint32_t il)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    read_heads(r, il);
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    l->attn_scale = default_attn_scale(r, l->head_dim);
    l->attn_norm = read_vec(r, (int)il, "attn_norm.weight", REQUIRED, m->n_embd);
    read_projections(r, il);
    read_qk_norms(r, il);
    l->ffn_norm = read_vec(r, (int)il, "ffn_norm.weight", REQUIRED, m->n_embd);
    if (m->n_expert)
        read_expert_ffn(r, il);
    else
        read_dense_ffn(r, il);
}

void read_qwen3(struct reading *r)
{
    if (r->m->family == FAMILY_QWEN3MOE)
        read_expert_counts(r, REQUIRED);
    for (uint32_t il = 0; il < r->m->n_layer && !r->rc; il++)
        read_qwen3_layer(r, il);
}

/* --- qwen3next, qwen35, qwen35moe ------------------------------------------------------------------------------- */

enum { MAX_GDN_HEADS = 1 << 12, MAX_GDN_HEAD_DIM = 1 << 10, MAX_CONV = 16 };

static void read_gdn_keys(struct reading *r)
{
    struct model *m = r->m;
    m->gdn_conv_kernel = key_u32(r, "ssm.conv_kernel", KEY_REQUIRED, 2, MAX_CONV);
    m->gdn_head_dim = key_u32(r, "ssm.state_size", KEY_REQUIRED, 1, MAX_GDN_HEAD_DIM);
    m->gdn_n_k = key_u32(r, "ssm.group_count", KEY_REQUIRED, 1, MAX_GDN_HEADS);
    m->gdn_n_v = key_u32(r, "ssm.time_step_rank", KEY_REQUIRED, 1, MAX_GDN_HEADS);
    m->gdn_grouped_heads = m->family == FAMILY_QWEN3NEXT;
    uint32_t inner = key_u32(r, "ssm.inner_size", KEY_REQUIRED, 1, MAX_GDN_HEADS * MAX_GDN_HEAD_DIM);
    if (!r->rc && inner != m->gdn_n_v * m->gdn_head_dim)
        read_fail(r, -EINVAL,
                  "key '%s.ssm.inner_size': expected time_step_rank %u * state_size %u = %u, found %u "
                  "(convert the model again)",
                  r->arch, m->gdn_n_v, m->gdn_head_dim, m->gdn_n_v * m->gdn_head_dim, inner);
    if (!r->rc && m->gdn_n_v % m->gdn_n_k)
        read_fail(r, -EINVAL,
                  "key '%s.ssm.time_step_rank': expected a multiple of group_count %u, found %u (convert "
                  "the model again)",
                  r->arch, m->gdn_n_k, m->gdn_n_v);
}

/* qwen35 picks time, height or width as the position of each pair. All three are the token position in text, so the
 * pairs turn as in NEOX, as long as none takes the fourth position (which is 0 in text). */
static void check_rope_sections(struct reading *r, uint32_t n_rot)
{
    char key[64];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", r->arch);
    const struct gguf_kv *kv = gguf_find(r->g, key);
    uint64_t s[4] = {0};
    bool good = kv && kv->type == GGUF_ARR && kv->n == 4;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 4 && good; i++) {
        good = gguf_kv_u64(kv, i, &s[i]) && s[i] <= n_rot;
        sum += s[i];
    }
    if (!good || !sum) {
        read_fail(r, -EINVAL,
                  "key '%s': expected an array of 4 integers up to %u, not all 0, found %s (convert the "
                  "model again)",
                  key, n_rot, kv ? "something else" : "nothing");
        return;
    }
    for (uint64_t i = 0; i < n_rot / 2; i++) {
        uint64_t sector = i % sum, axis = sector % 3; /* 0 time, 1 height, 2 width */
        if (sector >= 3 * s[axis]) {
            read_fail(r, -ENOTSUP,
                      "key '%s': pair %llu turns by the fourth position, which zinc does not run", key,
                      (unsigned long long)i);
            return;
        }
    }
}

/* Full attention where recurrent_layers says so, else on every interval-th layer. */
static enum layer_kind hybrid_kind(struct reading *r, uint32_t il)
{
    uint32_t interval = key_u32(r, "full_attention_interval", 4, 1, MODEL_MAX_LAYERS);
    if (r->rc)
        return LAYER_ATTN;
    uint32_t def = (il + 1) % interval != 0;
    return key_u32_at(r, "attention.recurrent_layers", il, def, 0, 1) ? LAYER_GDN : LAYER_ATTN;
}

static void read_gdn_layer(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    uint64_t key = (uint64_t)m->gdn_n_k * m->gdn_head_dim, value = (uint64_t)m->gdn_n_v * m->gdn_head_dim;
    uint64_t conv = 2 * key + value;
    l->gdn_qkv = read_mat(r, b, "attn_qkv.weight", REQUIRED, m->n_embd, conv);
    l->gdn_gate = read_mat(r, b, "attn_gate.weight", REQUIRED, m->n_embd, value);
    if (m->family == FAMILY_QWEN3NEXT) {
        l->gdn_ba = read_mat(r, b, "ssm_ba.weight", REQUIRED, m->n_embd, 2 * (uint64_t)m->gdn_n_v);
    } else {
        l->gdn_alpha = read_mat(r, b, "ssm_alpha.weight", REQUIRED, m->n_embd, m->gdn_n_v);
        l->gdn_beta = read_mat(r, b, "ssm_beta.weight", REQUIRED, m->n_embd, m->gdn_n_v);
    }
    l->gdn_conv = read_f32_mat(r, b, "ssm_conv1d.weight", REQUIRED, m->gdn_conv_kernel, conv);
    l->gdn_dt = read_vec(r, b, "ssm_dt.bias", REQUIRED, m->gdn_n_v);
    l->gdn_a = read_vec(r, b, "ssm_a", REQUIRED, m->gdn_n_v);
    l->gdn_norm = read_vec(r, b, "ssm_norm.weight", REQUIRED, m->gdn_head_dim);
    l->gdn_out = read_mat(r, b, "ssm_out.weight", REQUIRED, value, m->n_embd);
}

static void read_gated_attention(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    read_heads(r, il);
    l->q_gate = true;
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    if (r->m->family != FAMILY_QWEN3NEXT && !r->rc)
        check_rope_sections(r, l->rope.n_rot);
    l->attn_scale = default_attn_scale(r, l->head_dim);
    read_projections(r, il);
    read_qk_norms(r, il);
}

static void read_shared_expert(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    l->shexp_gate = read_mat(r, b, "ffn_gate_shexp.weight", REQUIRED, m->n_embd, m->n_ff_shexp);
    l->shexp_up = read_mat(r, b, "ffn_up_shexp.weight", REQUIRED, m->n_embd, m->n_ff_shexp);
    l->shexp_down = read_mat(r, b, "ffn_down_shexp.weight", REQUIRED, m->n_ff_shexp, m->n_embd);
    l->shexp_router = read_vec(r, b, "ffn_gate_inp_shexp.weight", REQUIRED, m->n_embd);
}

static void read_hybrid_layer(struct reading *r, uint32_t il)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    l->kind = hybrid_kind(r, il);
    l->attn_norm = read_vec(r, (int)il, "attn_norm.weight", REQUIRED, m->n_embd);
    if (l->kind == LAYER_GDN)
        read_gdn_layer(r, il);
    else
        read_gated_attention(r, il);
    l->ffn_norm = read_vec(r, (int)il, "post_attention_norm.weight", REQUIRED, m->n_embd);
    if (m->n_expert) {
        read_expert_ffn(r, il);
        read_shared_expert(r, il);
    } else {
        read_dense_ffn(r, il);
    }
}

void read_hybrid(struct reading *r)
{
    struct model *m = r->m;
    read_gdn_keys(r);
    if (m->family != FAMILY_QWEN35) {
        read_expert_counts(r, REQUIRED);
        uint32_t n_ff = key_u32_at(r, "feed_forward_length", 0, 0, 0, 1 << 24);
        m->n_ff_shexp = key_u32(r, "expert_shared_feed_forward_length", n_ff, 1, 1 << 24);
        if (!r->rc && !m->n_ff_shexp)
            read_fail(r, -EINVAL,
                      "key '%s.expert_shared_feed_forward_length' is missing: expected at least 1 (convert "
                      "the model again)",
                      r->arch);
    }
    for (uint32_t il = 0; il < m->n_layer && !r->rc; il++)
        read_hybrid_layer(r, il);
}

/* --- gpt-oss ---------------------------------------------------------------------------------------------------- */

static void read_gpt_oss_experts(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    read_expert_ffn(r, il);
    l->router_b = read_vec(r, b, "ffn_gate_inp.bias", REQUIRED, m->n_expert);
    if (l->exp_gate_up) {
        read_fail(r, -ENOTSUP,
                  "tensor 'blk.%d.ffn_gate_up_exps.weight': zinc reads gate and up of gpt-oss apart (convert "
                  "the model with a stock converter)",
                  b);
        return;
    }
    l->exp_gate_b = read_f32_mat(r, b, "ffn_gate_exps.bias", REQUIRED, l->n_ff_exp, m->n_expert);
    l->exp_up_b = read_f32_mat(r, b, "ffn_up_exps.bias", REQUIRED, l->n_ff_exp, m->n_expert);
    l->exp_down_b = read_f32_mat(r, b, "ffn_down_exps.bias", REQUIRED, m->n_embd, m->n_expert);
}

static void read_gpt_oss_layer(struct reading *r, uint32_t il)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    read_heads(r, il);
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    l->attn_scale = 1 / sqrtf((float)MAX(l->head_dim, 1));
    l->attn_norm = read_vec(r, b, "attn_norm.weight", REQUIRED, m->n_embd);
    read_projections(r, il);
    read_qkv_biases(r, il, REQUIRED);
    l->bo = read_vec(r, b, "attn_output.bias", REQUIRED, m->n_embd);
    l->sinks = read_vec(r, b, "attn_sinks.weight", REQUIRED, l->n_head);
    l->ffn_norm = read_vec(r, b, "post_attention_norm.weight", REQUIRED, m->n_embd);
    read_gpt_oss_experts(r, il);
}

void read_gpt_oss(struct reading *r)
{
    struct model *m = r->m;
    m->act = ACT_SWIGLU_OAI;
    m->gating = GATING_TOPK_SOFTMAX;
    read_expert_counts(r, REQUIRED);
    read_windows(r, key_u32(r, "attention.sliding_window", KEY_REQUIRED, 1, INT32_MAX), 2);
    for (uint32_t il = 0; il < m->n_layer && !r->rc; il++)
        read_gpt_oss_layer(r, il);
}
