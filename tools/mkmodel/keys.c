/* The metadata: hyper-parameters and vocabulary. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/mkmodel/mkmodel.h"
#include "tools/mkmodel/vocab.h"

struct keys {
    struct gguf_writer *w;
    const char *arch;
    char buf[128];
};

static const char *key(struct keys *k, const char *name)
{
    snprintf(k->buf, sizeof k->buf, "%s.%s", k->arch, name);
    return k->buf;
}

static void u32(struct keys *k, const char *name, uint32_t v)
{
    gguf_put_u32(k->w, key(k, name), v);
}

static void f32(struct keys *k, const char *name, float v)
{
    gguf_put_f32(k->w, key(k, name), v);
}

static void put_experts(struct keys *k, const struct preset *p)
{
    u32(k, "expert_count", p->n_expert);
    u32(k, "expert_used_count", p->n_used);
    if (p->family != FAMILY_LLAMA && p->family != FAMILY_MISTRAL3)
        u32(k, "expert_feed_forward_length", p->n_ff_exp);
    if (p->n_ff_shexp)
        u32(k, "expert_shared_feed_forward_length", p->n_ff_shexp);
}

static void put_hybrid(struct keys *k, const struct preset *p)
{
    u32(k, "full_attention_interval", 4);
    u32(k, "ssm.conv_kernel", 4);
    u32(k, "ssm.inner_size", p->gdn_v * 128);
    u32(k, "ssm.state_size", 128);
    u32(k, "ssm.time_step_rank", p->gdn_v);
    u32(k, "ssm.group_count", p->gdn_k);
    if (p->family != FAMILY_QWEN3NEXT)
        gguf_put_arr(k->w, key(k, "rope.dimension_sections"), GGUF_I32, (int32_t[4]){ 11, 11, 10, 0 }, 4);
}

static void put_gemma3(struct keys *k, const struct preset *p)
{
    u32(k, "attention.sliding_window", p->window);
    if (p->rope_factor != 0) {
        gguf_put_str(k->w, key(k, "rope.scaling.type"), "linear");
        f32(k, "rope.scaling.factor", p->rope_factor);
    }
}

/* The feed-forward width of each layer. */
static void put_widths(struct keys *k, const struct mk_model *m)
{
    int32_t ff[MODEL_MAX_LAYERS];
    for (uint32_t il = 0; il < m->n_layer; il++)
        ff[il] = (int32_t)mk_n_ff(m, il);
    gguf_put_arr(k->w, key(k, "feed_forward_length"), GGUF_I32, ff, m->n_layer);
}

static void put_gemma4(struct keys *k, const struct mk_model *m)
{
    const struct preset *p = m->p;
    int32_t kv[MODEL_MAX_LAYERS];
    uint8_t sliding[MODEL_MAX_LAYERS];
    uint32_t shared = 0;
    for (uint32_t il = 0; il < m->n_layer; il++) {
        sliding[il] = (il + 1) % p->full_every != 0;
        kv[il] = (int32_t)(sliding[il] ? p->n_head_kv : p->full_kv);
        shared += mk_shares_kv(m, il);
    }
    gguf_put_arr(k->w, key(k, "attention.head_count_kv"), GGUF_I32, kv, m->n_layer);
    gguf_put_arr(k->w, key(k, "attention.sliding_window_pattern"), GGUF_BOOL, sliding, m->n_layer);
    u32(k, "attention.sliding_window", p->window);
    u32(k, "attention.key_length_swa", p->swa_head_dim);
    u32(k, "attention.value_length_swa", p->swa_head_dim);
    u32(k, "rope.dimension_count_swa", p->swa_head_dim);
    f32(k, "rope.freq_base_swa", 1e4f);
    u32(k, "attention.shared_kv_layers", shared);
    u32(k, "embedding_length_per_layer_input", p->n_ple);
    f32(k, "final_logit_softcapping", 30);
}

/* As released files have them: the number of sharing layers is a float, the quantile of 0 is -inf. */
static void put_gemma3n(struct keys *k, const struct mk_model *m)
{
    const struct preset *p = m->p;
    float sparse[MODEL_MAX_LAYERS];
    uint8_t sliding[MODEL_MAX_LAYERS];
    uint32_t shared = 0;
    for (uint32_t il = 0; il < m->n_layer; il++) {
        sliding[il] = (il + 1) % p->full_every != 0;
        sparse[il] = il < p->sparse ? 1.6448535f : -INFINITY; /* of 0.95 */
        shared += mk_shares_kv(m, il);
    }
    gguf_put_arr(k->w, key(k, "attention.sliding_window_pattern"), GGUF_BOOL, sliding, m->n_layer);
    gguf_put_arr(k->w, key(k, "activation_sparsity_scale"), GGUF_F32, sparse, m->n_layer);
    u32(k, "attention.sliding_window", p->window);
    f32(k, "attention.shared_kv_layers", (float)shared);
    u32(k, "embedding_length_per_layer_input", p->n_ple);
    u32(k, "altup.active_idx", 0);
    u32(k, "altup.num_inputs", MK_STREAMS);
}

static void put_gpt_oss(struct keys *k, const struct preset *p)
{
    u32(k, "attention.sliding_window", p->window);
    gguf_put_str(k->w, key(k, "rope.scaling.type"), "yarn");
    f32(k, "rope.scaling.factor", 32);
    u32(k, "rope.scaling.original_context_length", 4096);
}

static void put_longrope(struct keys *k, const struct preset *p)
{
    double orig = p->rope_orig;
    gguf_put_str(k->w, key(k, "rope.scaling.type"), "longrope");
    u32(k, "rope.scaling.original_context_length", p->rope_orig);
    f32(k, "rope.scaling.attn_factor", (float)sqrt(1 + log(p->n_ctx / orig) / log(orig)));
}

/* As Ministral 3 has them. */
static void put_mistral3(struct keys *k, const struct preset *p)
{
    gguf_put_str(k->w, key(k, "rope.scaling.type"), "yarn");
    f32(k, "rope.scaling.factor", (float)p->n_ctx / (float)p->rope_orig);
    f32(k, "rope.scaling.yarn_beta_fast", 32);
    f32(k, "rope.scaling.yarn_beta_slow", 1);
    f32(k, "rope.scaling.yarn_log_multiplier", 1);
    u32(k, "rope.scaling.original_context_length", p->rope_orig);
    f32(k, "attention.temperature_scale", 0.1f);
}

int mk_write_keys(const struct mk_model *m, struct gguf_writer *w, struct err *e)
{
    const struct preset *p = m->p;
    enum model_family f = p->family;
    struct keys k = { .w = w, .arch = m->arch };
    bool hybrid = p->gdn_v != 0, eps5 = f == FAMILY_LLAMA || f == FAMILY_MISTRAL3 || f == FAMILY_GPT_OSS;
    if (m->n_layer > MODEL_MAX_LAYERS)
        return err_set(e, -EINVAL, "%u layers, at most %d are possible", m->n_layer, MODEL_MAX_LAYERS);
    gguf_put_str(w, "general.architecture", m->arch);
    gguf_put_str(w, "general.type", "model");
    gguf_put_str(w, "general.name", p->name);
    gguf_put_str(w, "general.description", "synthetic: random weights");
    gguf_put_u32(w, "general.file_type", m->file_type);
    gguf_put_u32(w, "general.quantization_version", 2);
    u32(&k, "block_count", m->n_layer);
    u32(&k, "context_length", p->n_ctx);
    u32(&k, "embedding_length", p->n_embd);
    if (p->wide_shared)
        put_widths(&k, m);
    else if (p->n_ff)
        u32(&k, "feed_forward_length", p->n_ff);
    u32(&k, "attention.head_count", p->n_head);
    if (f != FAMILY_GEMMA4)
        u32(&k, "attention.head_count_kv", p->n_head_kv);
    u32(&k, "attention.key_length", p->head_dim);
    u32(&k, "attention.value_length", p->head_dim);
    f32(&k, "attention.layer_norm_rms_epsilon", eps5 ? 1e-5f : 1e-6f);
    f32(&k, "rope.freq_base", p->rope_base);
    u32(&k, "rope.dimension_count", hybrid ? 64 : p->head_dim);
    u32(&k, "vocab_size", p->n_vocab);
    if (p->pooling != POOLING_NONE)
        u32(&k, "pooling_type", p->pooling);
    if (p->pooling == POOLING_RANK) {
        static const struct gguf_str labels[] = { { "yes", 3 }, { "no", 2 } };
        gguf_put_arr_str(w, key(&k, "classifier.output_labels"), labels, 2);
    }
    if (p->n_expert)
        put_experts(&k, p);
    if (hybrid)
        put_hybrid(&k, p);
    if (f == FAMILY_GEMMA3)
        put_gemma3(&k, p);
    if (f == FAMILY_GEMMA3N)
        put_gemma3n(&k, m);
    if (f == FAMILY_GEMMA4)
        put_gemma4(&k, m);
    if (f == FAMILY_GPT_OSS)
        put_gpt_oss(&k, p);
    if (f == FAMILY_MISTRAL3)
        put_mistral3(&k, p);
    else if (p->rope_orig)
        put_longrope(&k, p);
    return 0;
}

static void put_strings(struct gguf_writer *w, const char *name, char **s, uint32_t n)
{
    struct gguf_str *a = calloc(n, sizeof *a);
    CHECK(a != NULL);
    for (uint32_t i = 0; i < n; i++)
        a[i] = (struct gguf_str){ s[i], strlen(s[i]) };
    gguf_put_arr_str(w, name, a, n);
    free(a);
}

static void put_id(struct gguf_writer *w, const char *name, int32_t id)
{
    if (id >= 0)
        gguf_put_u32(w, name, (uint32_t)id);
}

int mk_write_vocab(const struct mk_model *m, bool vocab, struct gguf_writer *w, struct err *e)
{
    if (!vocab) { /* the size is already there, as vocab_size */
        gguf_put_str(w, "tokenizer.ggml.model", "none");
        return 0;
    }
    struct vocab v;
    int rc = vocab_init(&v, m->p->family, m->p->n_vocab, e);
    if (!rc) {
        gguf_put_str(w, "tokenizer.ggml.model", v.model);
        if (v.pre)
            gguf_put_str(w, "tokenizer.ggml.pre", v.pre);
        put_strings(w, "tokenizer.ggml.tokens", v.text, v.n);
        if (v.has_scores)
            gguf_put_arr(w, "tokenizer.ggml.scores", GGUF_F32, v.score, v.n);
        gguf_put_arr(w, "tokenizer.ggml.token_type", GGUF_I32, v.type, v.n);
        if (v.n_merges)
            put_strings(w, "tokenizer.ggml.merges", v.merge, v.n_merges);
        put_id(w, "tokenizer.ggml.bos_token_id", v.bos);
        put_id(w, "tokenizer.ggml.eos_token_id", v.eos);
        put_id(w, "tokenizer.ggml.eot_token_id", v.eot);
        put_id(w, "tokenizer.ggml.unknown_token_id", v.unk);
        put_id(w, "tokenizer.ggml.padding_token_id", v.pad);
        gguf_put_bool(w, "tokenizer.ggml.add_bos_token", v.add_bos);
        if (v.has_scores)
            gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
        if (m->p->pooling == POOLING_LAST) /* as Qwen3-Embedding: the vector is that of the end token */
            gguf_put_bool(w, "tokenizer.ggml.add_eos_token", true);
        if (m->p->pooling == POOLING_RANK) {
            static const struct gguf_str names[] = { { "rerank", 6 } };
            gguf_put_arr_str(w, "tokenizer.chat_templates", names, 1);
            gguf_put_str(w, "tokenizer.chat_template.rerank", rerank_template);
        }
        gguf_put_str(w, "tokenizer.chat_template", chat_template(m->p->family));
    }
    vocab_finish(&v);
    return rc;
}
