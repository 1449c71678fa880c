/* tests/stream/fake_model.h
 * Models of every family made by hand, two to four layers of toy size: hyper-parameters and tensors without data, all
 * that graph_compile reads. */
#ifndef ZINC_TESTS_FAKE_MODEL_H
#define ZINC_TESTS_FAKE_MODEL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum { FAKE_TENSORS = 200, FAKE_LAYERS = 4 };

#ifndef FAKE_HEAD_DIM
#define FAKE_HEAD_DIM 32
#endif

struct fake_model {
    struct model m;
    struct model_layer layers[FAKE_LAYERS];
    struct gguf_tensor tensors[FAKE_TENSORS];
    char names[FAKE_TENSORS][48];
    uint32_t n_tensors;
    uint64_t file_off;
    float freqs[FAKE_HEAD_DIM], scales[64];
};

/* X(name of the dump, maker): what the tests run over */
#define FAKE_MODELS(X)                                                                                              \
    X(llama) X(llama_moe) X(qwen3) X(qwen3moe) X(qwen35) X(qwen35moe) X(qwen3next) X(gpt_oss) X(gemma3) \
    X(gemma3n) X(gemma4) X(gemma4_moe) X(gemma4_e)

__attribute__((format(printf, 6, 7))) static struct gguf_tensor *fake_tensor(struct fake_model *f, enum qtype type,
                                                                            uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                                                            const char *fmt, ...)
{
    if (f->n_tensors == FAKE_TENSORS)
        abort();
    uint32_t i = f->n_tensors++;
    struct gguf_tensor *t = &f->tensors[i];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->names[i], sizeof f->names[i], fmt, ap);
    va_end(ap);
    *t = (struct gguf_tensor){.name = {f->names[i], strlen(f->names[i])}, .type = type,
                              .n_dims = ne2 > 1 ? 3 : ne1 > 1 ? 2 : 1, .ne = {ne0, ne1, ne2, 1},
                              .bytes = qtype_row_bytes(type, ne0) * ne1 * ne2, .file_off = f->file_off};
    f->file_off += (t->bytes + 31) / 32 * 32;
    return t;
}

/* A norm, a bias: n f32. */
#define FAKE_VEC(n, ...) fake_tensor(f, QT_F32, n, 1, 1, __VA_ARGS__)

#ifndef FAKE_N_EXPERT
#define FAKE_N_EXPERT 8
#endif
enum { FAKE_EMBD = 64, FAKE_HEAD = FAKE_HEAD_DIM, FAKE_HEADS = 4, FAKE_KV = 2, FAKE_FF = 96, FAKE_VOCAB = 160, FAKE_EXPERTS = FAKE_N_EXPERT,
       FAKE_USED = 2, FAKE_FF_EXP = 32 };

static void fake_start(struct fake_model *f, enum model_family family, uint32_t n_layer)
{
    memset(f, 0, sizeof *f);
    f->m = (struct model){.family = family, .n_layer = n_layer, .n_ctx_train = 512, .n_embd = FAKE_EMBD,
                          .n_vocab = FAKE_VOCAB, .norm_eps = 1e-5f, .embed_scale = 1, .gating = GATING_SOFTMAX,
                          .expert_scale = 1, .act = ACT_SILU, .layers = f->layers};
    snprintf(f->m.name, sizeof f->m.name, "fake");
    f->m.token_embd = fake_tensor(f, QT_Q8_0, FAKE_EMBD, FAKE_VOCAB, 1, "token_embd.weight");
    f->m.output_norm = FAKE_VEC(FAKE_EMBD, "output_norm.weight");
    f->m.output = f->m.token_embd;
    for (uint32_t il = 0; il < n_layer; il++) {
        struct model_layer *l = &f->layers[il];
        l->kind = LAYER_ATTN;
        l->n_head = FAKE_HEADS;
        l->n_head_kv = FAKE_KV;
        l->head_dim = FAKE_HEAD;
        l->attn_scale = 0.176776695f;
        l->kv_from = il;
        l->rope = (struct rope_params){.base = 10000, .freq_scale = 1, .mscale = 1, .beta_fast = 32, .beta_slow = 1,
                                       .n_ctx_orig = 512, .n_rot = FAKE_HEAD, .kind = ROPE_NEOX};
        l->attn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.attn_norm.weight", il);
        l->ffn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.ffn_norm.weight", il);
    }
}

static void fake_attn(struct fake_model *f, uint32_t il, bool biases, bool qk_norm, bool q_gate)
{
    struct model_layer *l = &f->layers[il];
    uint32_t q = FAKE_HEADS * FAKE_HEAD, kv = FAKE_KV * FAKE_HEAD;
    l->q_gate = q_gate;
    l->wq = fake_tensor(f, QT_Q4_0, FAKE_EMBD, q_gate ? 2 * q : q, 1, "blk.%u.attn_q.weight", il);
    l->wk = fake_tensor(f, QT_Q4_0, FAKE_EMBD, kv, 1, "blk.%u.attn_k.weight", il);
    l->wv = fake_tensor(f, QT_Q8_0, FAKE_EMBD, kv, 1, "blk.%u.attn_v.weight", il);
    l->wo = fake_tensor(f, QT_Q4_0, q, FAKE_EMBD, 1, "blk.%u.attn_output.weight", il);
    if (biases) {
        l->bq = FAKE_VEC(q, "blk.%u.attn_q.bias", il);
        l->bk = FAKE_VEC(kv, "blk.%u.attn_k.bias", il);
        l->bv = FAKE_VEC(kv, "blk.%u.attn_v.bias", il);
        l->bo = FAKE_VEC(FAKE_EMBD, "blk.%u.attn_output.bias", il);
    }
    if (qk_norm) {
        l->q_norm = FAKE_VEC(FAKE_HEAD, "blk.%u.attn_q_norm.weight", il);
        l->k_norm = FAKE_VEC(FAKE_HEAD, "blk.%u.attn_k_norm.weight", il);
    }
}

static void fake_ffn(struct fake_model *f, uint32_t il)
{
    struct model_layer *l = &f->layers[il];
    l->n_ff = FAKE_FF;
    l->ffn_gate = fake_tensor(f, QT_Q4_0, FAKE_EMBD, FAKE_FF, 1, "blk.%u.ffn_gate.weight", il);
    l->ffn_up = fake_tensor(f, QT_Q4_0, FAKE_EMBD, FAKE_FF, 1, "blk.%u.ffn_up.weight", il);
    l->ffn_down = fake_tensor(f, QT_Q5_0, FAKE_FF, FAKE_EMBD, 1, "blk.%u.ffn_down.weight", il);
}

static void fake_moe(struct fake_model *f, uint32_t il, bool fused, bool biases, bool shared)
{
    struct model_layer *l = &f->layers[il];
    f->m.n_expert = FAKE_EXPERTS;
    l->n_expert_used = FAKE_USED;
    l->n_ff_exp = FAKE_FF_EXP;
    l->router = fake_tensor(f, QT_F32, FAKE_EMBD, FAKE_EXPERTS, 1, "blk.%u.ffn_gate_inp.weight", il);
    if (fused) {
        l->exp_gate_up = fake_tensor(f, QT_Q8_0, FAKE_EMBD, 2 * FAKE_FF_EXP, FAKE_EXPERTS,
                                     "blk.%u.ffn_gate_up_exps.weight", il);
    } else {
        l->exp_gate = fake_tensor(f, QT_MXFP4, FAKE_EMBD, FAKE_FF_EXP, FAKE_EXPERTS, "blk.%u.ffn_gate_exps.weight",
                                  il);
        l->exp_up = fake_tensor(f, QT_MXFP4, FAKE_EMBD, FAKE_FF_EXP, FAKE_EXPERTS, "blk.%u.ffn_up_exps.weight", il);
    }
    l->exp_down = fake_tensor(f, QT_Q4_1, FAKE_FF_EXP, FAKE_EMBD, FAKE_EXPERTS, "blk.%u.ffn_down_exps.weight", il);
    if (biases) {
        l->router_b = FAKE_VEC(FAKE_EXPERTS, "blk.%u.ffn_gate_inp.bias", il);
        l->exp_gate_b = fake_tensor(f, QT_F32, FAKE_FF_EXP, FAKE_EXPERTS, 1, "blk.%u.ffn_gate_exps.bias", il);
        l->exp_up_b = fake_tensor(f, QT_F32, FAKE_FF_EXP, FAKE_EXPERTS, 1, "blk.%u.ffn_up_exps.bias", il);
        l->exp_down_b = fake_tensor(f, QT_F32, FAKE_EMBD, FAKE_EXPERTS, 1, "blk.%u.ffn_down_exps.bias", il);
    }
    if (shared) {
        f->m.n_ff_shexp = FAKE_FF_EXP;
        l->shexp_gate = fake_tensor(f, QT_Q8_0, FAKE_EMBD, FAKE_FF_EXP, 1, "blk.%u.ffn_gate_shexp.weight", il);
        l->shexp_up = fake_tensor(f, QT_Q8_0, FAKE_EMBD, FAKE_FF_EXP, 1, "blk.%u.ffn_up_shexp.weight", il);
        l->shexp_down = fake_tensor(f, QT_Q8_0, FAKE_FF_EXP, FAKE_EMBD, 1, "blk.%u.ffn_down_shexp.weight", il);
        l->shexp_router = FAKE_VEC(FAKE_EMBD, "blk.%u.ffn_gate_inp_shexp.weight", il);
    }
}

static void fake_gdn(struct fake_model *f, uint32_t il, bool joined_ba)
{
    struct model_layer *l = &f->layers[il];
    struct model *m = &f->m;
    m->gdn_conv_kernel = 4;
    m->gdn_head_dim = 16;
    m->gdn_n_k = 2;
    m->gdn_n_v = 4;
    m->gdn_grouped_heads = joined_ba;
    uint32_t value = m->gdn_n_v * m->gdn_head_dim, conv = (2 * m->gdn_n_k + m->gdn_n_v) * m->gdn_head_dim;
    l->kind = LAYER_GDN;
    l->gdn_qkv = fake_tensor(f, QT_Q8_0, FAKE_EMBD, conv, 1, "blk.%u.attn_qkv.weight", il);
    l->gdn_gate = fake_tensor(f, QT_Q4_0, FAKE_EMBD, value, 1, "blk.%u.attn_gate.weight", il);
    if (joined_ba) {
        l->gdn_ba = fake_tensor(f, QT_Q8_0, FAKE_EMBD, 2 * m->gdn_n_v, 1, "blk.%u.ssm_ba.weight", il);
    } else {
        l->gdn_beta = fake_tensor(f, QT_F32, FAKE_EMBD, m->gdn_n_v, 1, "blk.%u.ssm_beta.weight", il);
        l->gdn_alpha = fake_tensor(f, QT_F32, FAKE_EMBD, m->gdn_n_v, 1, "blk.%u.ssm_alpha.weight", il);
    }
    l->gdn_conv = fake_tensor(f, QT_F32, m->gdn_conv_kernel, conv, 1, "blk.%u.ssm_conv1d.weight", il);
    l->gdn_dt = FAKE_VEC(m->gdn_n_v, "blk.%u.ssm_dt.bias", il);
    l->gdn_a = FAKE_VEC(m->gdn_n_v, "blk.%u.ssm_a", il);
    l->gdn_norm = FAKE_VEC(m->gdn_head_dim, "blk.%u.ssm_norm.weight", il);
    l->gdn_out = fake_tensor(f, QT_Q4_0, value, FAKE_EMBD, 1, "blk.%u.ssm_out.weight", il);
}

static void fake_llama(struct fake_model *f)
{
    fake_start(f, FAMILY_LLAMA, 2);
    struct gguf_tensor *freqs = FAKE_VEC(FAKE_HEAD / 2, "rope_freqs.weight");
    for (uint32_t i = 0; i < FAKE_HEAD / 2; i++)
        f->freqs[i] = 1.0f + (float)i;
    freqs->data = (const uint8_t *)f->freqs;
    for (uint32_t il = 0; il < 2; il++) {
        f->layers[il].rope.kind = ROPE_NORM;
        f->layers[il].rope_freqs = freqs;
        fake_attn(f, il, false, false, false);
        fake_ffn(f, il);
    }
    f->m.output = fake_tensor(f, QT_Q8_0, FAKE_EMBD, FAKE_VOCAB, 1, "output.weight");
}

static void fake_llama_moe(struct fake_model *f)
{
    fake_start(f, FAMILY_LLAMA, 2);
    for (uint32_t il = 0; il < 2; il++) {
        struct model_layer *l = &f->layers[il];
        l->rope.kind = ROPE_NORM;
        fake_attn(f, il, true, false, false);
        fake_moe(f, il, false, false, false);
        if (il == 1) { /* one tensor for q, k and v */
            l->wq = l->wk = l->wv = l->bq = l->bk = l->bv = NULL;
            l->wqkv = fake_tensor(f, QT_Q4_0, FAKE_EMBD, (FAKE_HEADS + 2 * FAKE_KV) * FAKE_HEAD, 1,
                                  "blk.%u.attn_qkv.weight", il);
            l->bqkv = FAKE_VEC((FAKE_HEADS + 2 * FAKE_KV) * FAKE_HEAD, "blk.%u.attn_qkv.bias", il);
        }
    }
}

static void fake_qwen3(struct fake_model *f)
{
    fake_start(f, FAMILY_QWEN3, 2);
    for (uint32_t il = 0; il < 2; il++) {
        fake_attn(f, il, false, true, false);
        fake_ffn(f, il);
    }
}

static void fake_qwen3moe(struct fake_model *f)
{
    fake_start(f, FAMILY_QWEN3MOE, 2);
    for (uint32_t il = 0; il < 2; il++) {
        fake_attn(f, il, false, true, false);
        fake_moe(f, il, false, false, false);
    }
}

static void fake_hybrid(struct fake_model *f, enum model_family family, bool moe, bool joined_ba)
{
    fake_start(f, family, 4);
    for (uint32_t il = 0; il < 4; il++) {
        f->layers[il].rope.n_rot = FAKE_HEAD / 4;
        if (il % 2 == 0)
            fake_gdn(f, il, joined_ba);
        else
            fake_attn(f, il, false, true, true);
        if (moe)
            fake_moe(f, il, il == 1, false, true);
        else
            fake_ffn(f, il);
    }
}
static void fake_qwen35(struct fake_model *f)
{
    fake_hybrid(f, FAMILY_QWEN35, false, false);
}
static void fake_qwen35moe(struct fake_model *f)
{
    fake_hybrid(f, FAMILY_QWEN35MOE, true, false);
}
static void fake_qwen3next(struct fake_model *f)
{
    fake_hybrid(f, FAMILY_QWEN3NEXT, true, true);
}

static void fake_gpt_oss(struct fake_model *f)
{
    fake_start(f, FAMILY_GPT_OSS, 2);
    f->m.act = ACT_SWIGLU_OAI;
    f->m.gating = GATING_TOPK_SOFTMAX;
    for (uint32_t il = 0; il < 2; il++) {
        struct model_layer *l = &f->layers[il];
        l->rope.freq_scale = 1.0f / 32;
        l->rope.ext_factor = 1;
        l->rope.mscale = 1.34657359f;
        l->window = il % 2 == 0 ? 128 : 0;
        l->sinks = FAKE_VEC(FAKE_HEADS, "blk.%u.attn_sinks.weight", il);
        fake_attn(f, il, true, false, false);
        fake_moe(f, il, false, true, false);
    }
    f->m.output = fake_tensor(f, QT_Q8_0, FAKE_EMBD, FAKE_VOCAB, 1, "output.weight");
}

static void fake_gemma3(struct fake_model *f)
{
    fake_start(f, FAMILY_GEMMA3, 2);
    f->m.act = ACT_GELU_TANH;
    f->m.embed_scale = 8;
    f->m.logit_softcap = 30;
    for (uint32_t il = 0; il < 2; il++) {
        struct model_layer *l = &f->layers[il];
        l->window = il == 0 ? 64 : 0;
        l->rope.base = il == 0 ? 1e4f : 1e6f;
        l->rope.freq_scale = il == 0 ? 1 : 0.125f;
        l->post_attn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_attention_norm.weight", il);
        l->post_ffn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_ffw_norm.weight", il);
        fake_attn(f, il, false, true, false);
        fake_ffn(f, il);
    }
}

/* Layers 0 and 2 slide, 1 and 3 are full, with wider heads, fewer of k, and no wv; layers from n_own on read the caches
 * of layers 0 and 1. */
static void fake_gemma4_start(struct fake_model *f, uint32_t n_own)
{
    fake_start(f, FAMILY_GEMMA4, 4);
    f->m.act = ACT_GELU_TANH;
    f->m.embed_scale = 8;
    f->m.logit_softcap = 30;
    struct gguf_tensor *freqs = FAKE_VEC(FAKE_HEAD, "rope_freqs.weight");
    for (uint32_t i = 0; i < FAKE_HEAD; i++)
        f->freqs[i] = i < FAKE_HEAD / 4 ? 1 : 1e30f;
    freqs->data = (const uint8_t *)f->freqs;
    for (uint32_t il = 0; il < 4; il++) {
        struct model_layer *l = &f->layers[il];
        bool slides = il % 2 == 0;
        uint32_t q = FAKE_HEADS * (slides ? FAKE_HEAD : 2 * FAKE_HEAD);
        l->window = slides ? 64 : 0;
        l->head_dim = l->rope.n_rot = q / FAKE_HEADS;
        l->n_head_kv = slides ? FAKE_KV : 1;
        l->rope.base = slides ? 1e4f : 1e6f;
        l->rope_freqs = slides ? NULL : freqs;
        l->attn_scale = 1;
        l->v_norm = true;
        l->post_attn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_attention_norm.weight", il);
        l->post_ffn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_ffw_norm.weight", il);
        l->out_scale = FAKE_VEC(1, "blk.%u.layer_output_scale.weight", il);
        l->wq = fake_tensor(f, QT_Q4_0, FAKE_EMBD, q, 1, "blk.%u.attn_q.weight", il);
        l->wo = fake_tensor(f, QT_Q4_0, q, FAKE_EMBD, 1, "blk.%u.attn_output.weight", il);
        l->q_norm = FAKE_VEC(l->head_dim, "blk.%u.attn_q_norm.weight", il);
        fake_ffn(f, il);
        if (il >= n_own) {
            l->kv_from = il % 2;
            continue;
        }
        uint32_t kv = l->n_head_kv * l->head_dim;
        l->k_norm = FAKE_VEC(l->head_dim, "blk.%u.attn_k_norm.weight", il);
        l->wk = fake_tensor(f, QT_Q4_0, FAKE_EMBD, kv, 1, "blk.%u.attn_k.weight", il);
        l->wv = slides ? fake_tensor(f, QT_Q8_0, FAKE_EMBD, kv, 1, "blk.%u.attn_v.weight", il) : NULL;
        l->v_from_k = !slides;
    }
}
static void fake_gemma4(struct fake_model *f)
{
    fake_gemma4_start(f, 2);
}
/* Embeddings of the layers, as the small ones of gemma4 and gemma3n have them. */
static void fake_ple(struct fake_model *f)
{
    f->m.n_embd_ple = FAKE_HEAD;
    f->m.ple_token_embd = fake_tensor(f, QT_Q8_0, 4 * FAKE_HEAD, FAKE_VOCAB, 1, "per_layer_token_embd.weight");
    f->m.ple_model_proj = fake_tensor(f, QT_BF16, FAKE_EMBD, 4 * FAKE_HEAD, 1, "per_layer_model_proj.weight");
    struct gguf_tensor *norm = FAKE_VEC(FAKE_HEAD, "per_layer_proj_norm.weight");
    for (uint32_t i = 0; i < FAKE_HEAD; i++)
        f->scales[i] = 1.0f + (float)i;
    norm->data = (const uint8_t *)f->scales;
    f->m.ple_proj_norm = norm;
    for (uint32_t il = 0; il < 4; il++) {
        struct model_layer *l = &f->layers[il];
        l->ple_gate = fake_tensor(f, QT_Q4_0, FAKE_EMBD, FAKE_HEAD, 1, "blk.%u.inp_gate.weight", il);
        l->ple_proj = fake_tensor(f, QT_Q4_0, FAKE_HEAD, FAKE_EMBD, 1, "blk.%u.proj.weight", il);
        l->ple_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_norm.weight", il);
    }
}
static void fake_gemma4_e(struct fake_model *f)
{
    fake_gemma4_start(f, 2);
    fake_ple(f);
}
/* Layers 0 and 2 slide, 1 and 3 are full; the last two read the caches of the first two, whose gates are sparse. */
static void fake_gemma3n(struct fake_model *f)
{
    fake_start(f, FAMILY_GEMMA3N, 4);
    f->m.act = ACT_GELU_TANH;
    f->m.embed_scale = 8;
    f->m.logit_softcap = 30;
    f->m.altup_proj = fake_tensor(f, QT_F16, FAKE_EMBD, FAKE_EMBD, 3, "altup_proj.weight");
    f->m.altup_unembd_proj = fake_tensor(f, QT_F16, FAKE_EMBD, FAKE_EMBD, 3, "altup_unembd_proj.weight");
    fake_ple(f);
    for (uint32_t il = 0; il < 4; il++) {
        struct model_layer *l = &f->layers[il];
        l->window = il % 2 == 0 ? 64 : 0;
        l->rope.base = il % 2 == 0 ? 1e4f : 1e6f;
        l->attn_scale = 1;
        l->v_norm = true;
        l->sparse = il < 2;
        l->sparse_cut = l->sparse ? 1.5f : 0;
        l->post_attn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_attention_norm.weight", il);
        l->post_ffn_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.post_ffw_norm.weight", il);
        fake_attn(f, il, false, true, false);
        fake_ffn(f, il);
        if (il >= 2) {
            l->kv_from = il % 2;
            l->wk = l->wv = l->k_norm = NULL;
        }
        l->altup_router = fake_tensor(f, QT_F32, FAKE_EMBD, 4, 1, "blk.%u.altup_router.weight", il);
        l->altup_router_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.altup_router_norm.weight", il);
        l->altup_predict = fake_tensor(f, QT_F32, 4, 16, 1, "blk.%u.altup_predict_coef.weight", il);
        l->altup_correct = fake_tensor(f, QT_F32, 4, 4, 1, "blk.%u.altup_correct_coef.weight", il);
        l->altup_scale = FAKE_VEC(FAKE_EMBD, "blk.%u.altup_correct_scale.weight", il);
        l->laurel_l = fake_tensor(f, QT_F16, FAKE_EMBD, 16, 1, "blk.%u.laurel_l.weight", il);
        l->laurel_r = fake_tensor(f, QT_F16, 16, FAKE_EMBD, 1, "blk.%u.laurel_r.weight", il);
        l->laurel_norm = FAKE_VEC(FAKE_EMBD, "blk.%u.laurel_post_norm.weight", il);
    }
}
static void fake_gemma4_moe(struct fake_model *f)
{
    fake_gemma4_start(f, 4);
    for (uint32_t i = 0; i < FAKE_EMBD; i++)
        f->scales[i] = 1.0f + (float)i;
    for (uint32_t il = 0; il < 4; il++) {
        struct model_layer *l = &f->layers[il];
        fake_moe(f, il, true, false, false);
        struct gguf_tensor *scale = FAKE_VEC(FAKE_EMBD, "blk.%u.ffn_gate_inp.scale", il);
        scale->data = (const uint8_t *)f->scales;
        l->router_scale = scale;
        l->exp_down_scale = FAKE_VEC(FAKE_EXPERTS, "blk.%u.ffn_down_exps.scale", il);
        l->post_ffn_norm_1 = FAKE_VEC(FAKE_EMBD, "blk.%u.post_ffw_norm_1.weight", il);
        l->pre_ffn_norm_2 = FAKE_VEC(FAKE_EMBD, "blk.%u.pre_ffw_norm_2.weight", il);
        l->post_ffn_norm_2 = FAKE_VEC(FAKE_EMBD, "blk.%u.post_ffw_norm_2.weight", il);
    }
}

/* The maker of each model, by name. */
static const struct {
    const char *name;
    void (*make)(struct fake_model *f);
} fake_models[] = {
#define X(name) {#name, fake_##name},
    FAKE_MODELS(X)
#undef X
};
enum { N_FAKE_MODELS = sizeof fake_models / sizeof fake_models[0] };

#endif
