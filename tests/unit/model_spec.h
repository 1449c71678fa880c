/* tests/unit/model_spec.h: a small synthetic file of each family as lists of keys and tensors, to be changed, written and
 * read. */
#ifndef ZINC_TESTS_UNIT_MODEL_SPEC_H
#define ZINC_TESTS_UNIT_MODEL_SPEC_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "model/gguf_write.h"
#include "model/model.h"

static struct err e;

/* --- a file as lists of keys and tensors ------------------------------------------------------------------------- */

enum { MAX_KEYS = 64, MAX_TENSORS = 160, ARR_MAX = 8 };

struct skey {
    char name[80];
    enum gguf_type type; /* U32, F32, BOOL, STR, or ARR of u32 */
    double v;
    char s[40];
    uint32_t arr[ARR_MAX], n;
    bool floats; /* ARR: of f32, arr has their bits */
    bool optional;
};

struct stensor {
    char name[64];
    enum qtype type;
    uint64_t ne[3];
    bool optional;
};

struct spec {
    const char *arch;
    struct skey key[MAX_KEYS];
    struct stensor tensor[MAX_TENSORS];
    int n_keys, n_tensors;
};

static inline struct skey *add_key(struct spec *s, const char *name, enum gguf_type type)
{
    ck_assert(s->n_keys < MAX_KEYS);
    struct skey *k = &s->key[s->n_keys++];
    *k = (struct skey){ .type = type };
    if (strncmp(name, "general.", 8) == 0 || strncmp(name, "tokenizer.", 10) == 0)
        snprintf(k->name, sizeof k->name, "%s", name);
    else
        snprintf(k->name, sizeof k->name, "%s.%s", s->arch, name);
    return k;
}

static inline struct skey *u32(struct spec *s, const char *name, uint32_t v)
{
    struct skey *k = add_key(s, name, GGUF_U32);
    k->v = v;
    return k;
}

static inline struct skey *f32(struct spec *s, const char *name, double v)
{
    struct skey *k = add_key(s, name, GGUF_F32);
    k->v = v;
    return k;
}

static inline struct skey *str(struct spec *s, const char *name, const char *v)
{
    struct skey *k = add_key(s, name, GGUF_STR);
    snprintf(k->s, sizeof k->s, "%s", v);
    return k;
}

static inline struct skey *arr(struct spec *s, const char *name, const uint32_t *v, uint32_t n)
{
    struct skey *k = add_key(s, name, GGUF_ARR);
    memcpy(k->arr, v, n * sizeof *v);
    k->n = n;
    return k;
}

static inline struct skey *f32_arr(struct spec *s, const char *name, const float *v, uint32_t n)
{
    struct skey *k = add_key(s, name, GGUF_ARR);
    memcpy(k->arr, v, n * sizeof *v);
    k->n = n;
    k->floats = true;
    return k;
}

/* il -1: a global tensor. */
static inline struct stensor *add_tensor(struct spec *s, int il, const char *name, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    ck_assert(s->n_tensors < MAX_TENSORS);
    struct stensor *t = &s->tensor[s->n_tensors++];
    *t = (struct stensor){ .type = QT_F32, .ne = { ne0, ne1, ne2 } };
    if (il < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", il, name);
    return t;
}

static inline struct skey *find_key(struct spec *s, const char *suffix)
{
    for (int i = 0; i < s->n_keys; i++)
        if (strlen(s->key[i].name) >= strlen(suffix) &&
            strcmp(s->key[i].name + strlen(s->key[i].name) - strlen(suffix), suffix) == 0)
            return &s->key[i];
    ck_abort_msg("no key %s", suffix);
    return NULL;
}

static inline struct stensor *find_tensor(struct spec *s, const char *name)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensor[i].name, name) == 0)
            return &s->tensor[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

static inline void put_key(struct gguf_writer *w, const struct skey *k)
{
    switch (k->type) {
    case GGUF_U32: gguf_put_u32(w, k->name, (uint32_t)k->v); break;
    case GGUF_F32: gguf_put_f32(w, k->name, (float)k->v); break;
    case GGUF_BOOL: gguf_put_bool(w, k->name, k->v != 0); break;
    case GGUF_STR: gguf_put_str(w, k->name, k->s); break;
    case GGUF_ARR: gguf_put_arr(w, k->name, k->floats ? GGUF_F32 : GGUF_U32, k->arr, k->n); break;
    default: ck_abort();
    }
}

/* Every float is 1. */
static inline struct gguf_writer *write_spec(const struct spec *s, int skip_key, int skip_tensor)
{
    struct gguf_writer *w;
    ck_assert_int_eq(gguf_writer_create(NULL, &w, &e), 0);
    for (int i = 0; i < s->n_keys; i++)
        if (i != skip_key)
            put_key(w, &s->key[i]);
    uint64_t bytes = 0;
    for (int i = 0; i < s->n_tensors; i++)
        if (i != skip_tensor) {
            uint64_t n = gguf_put_tensor(w, s->tensor[i].name, s->tensor[i].type, 3, s->tensor[i].ne);
            ck_assert_uint_eq(n % 4, 0);
            bytes += n;
        }
    ck_assert_msg(gguf_writer_begin(w, &e) == 0, "%s", e.msg);
    static float ones[16384];
    for (size_t i = 0; i < ARRAY_LEN(ones); i++)
        ones[i] = 1;
    for (uint64_t n; bytes; bytes -= n) {
        n = MIN(bytes, sizeof ones);
        ck_assert_int_eq(gguf_writer_data(w, ones, n, &e), 0);
    }
    ck_assert_msg(gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    return w;
}

struct loaded {
    struct gguf_writer *w;
    struct gguf *g;
    struct model *m;
};

static inline int load(const struct spec *s, int skip_key, int skip_tensor, struct loaded *l)
{
    uint64_t n;
    *l = (struct loaded){ .w = write_spec(s, skip_key, skip_tensor) };
    const void *p = gguf_writer_bytes(l->w, &n);
    e = (struct err){ 0 };
    ck_assert_msg(gguf_open_memory("dir/test.gguf", p, n, &l->g, &e) == 0, "%s", e.msg);
    return model_read(l->g, &l->m, &e);
}

static inline void unload(struct loaded *l)
{
    model_free(l->m);
    gguf_close(l->g);
    gguf_writer_destroy(l->w);
}

static inline void expect_error(const struct spec *s, int code, const char *part1, const char *part2)
{
    struct loaded l;
    int rc = load(s, -1, -1, &l);
    ck_assert_msg(rc == code && !l.m, "%s: expected %d and '%s', got %d '%s'", s->arch, code, part1, rc, e.msg);
    ck_assert_msg(strncmp(e.msg, "dir/test.gguf: ", 15) == 0 && strstr(e.msg, part1) && strstr(e.msg, part2),
                  "'%s' lacks '%s' or '%s'", e.msg, part1, part2);
    unload(&l);
}

/* --- the families ------------------------------------------------------------------------------------------------ */

enum { EMBD = 32, FF = 48, VOCAB = 10, HEADS = 4, KV = 2, HD = 16, EXPERTS = 4, USED = 2, FF_EXP = 24 };

static inline void base_spec(struct spec *s, const char *arch, uint32_t n_blocks, bool tied)
{
    *s = (struct spec){ .arch = arch };
    str(s, "general.architecture", arch);
    str(s, "general.name", "A name")->optional = true;
    u32(s, "block_count", n_blocks);
    u32(s, "context_length", 512);
    u32(s, "embedding_length", EMBD);
    f32(s, "attention.layer_norm_rms_epsilon", 1e-6);
    u32(s, "attention.head_count", HEADS);
    u32(s, "attention.head_count_kv", KV);
    u32(s, "attention.key_length", HD);
    u32(s, "attention.value_length", HD)->optional = false;
    f32(s, "rope.freq_base", 1e6)->optional = true;
    add_tensor(s, -1, "token_embd.weight", EMBD, VOCAB, 1);
    add_tensor(s, -1, "output_norm.weight", EMBD, 1, 1);
    if (!tied)
        add_tensor(s, -1, "output.weight", EMBD, VOCAB, 1)->optional = true;
}

static inline void attention(struct spec *s, int il, uint32_t q_rows, uint32_t kv_rows, uint32_t o_rows)
{
    add_tensor(s, il, "attn_q.weight", EMBD, q_rows, 1);
    add_tensor(s, il, "attn_k.weight", EMBD, kv_rows, 1);
    add_tensor(s, il, "attn_v.weight", EMBD, kv_rows, 1);
    add_tensor(s, il, "attn_output.weight", o_rows, EMBD, 1);
}

static inline void qk_norms(struct spec *s, int il, uint32_t hd)
{
    add_tensor(s, il, "attn_q_norm.weight", hd, 1, 1);
    add_tensor(s, il, "attn_k_norm.weight", hd, 1, 1);
}

static inline void dense_ffn(struct spec *s, int il)
{
    add_tensor(s, il, "ffn_gate.weight", EMBD, FF, 1);
    add_tensor(s, il, "ffn_up.weight", EMBD, FF, 1);
    add_tensor(s, il, "ffn_down.weight", FF, EMBD, 1);
}

static inline void expert_ffn(struct spec *s, int il)
{
    add_tensor(s, il, "ffn_gate_inp.weight", EMBD, EXPERTS, 1);
    add_tensor(s, il, "ffn_gate_exps.weight", EMBD, FF_EXP, EXPERTS);
    add_tensor(s, il, "ffn_up_exps.weight", EMBD, FF_EXP, EXPERTS);
    add_tensor(s, il, "ffn_down_exps.weight", FF_EXP, EMBD, EXPERTS);
}

static inline void expert_keys(struct spec *s)
{
    u32(s, "expert_count", EXPERTS);
    u32(s, "expert_used_count", USED);
    u32(s, "expert_feed_forward_length", FF_EXP);
}

static inline void norm(struct spec *s, int il, const char *name)
{
    add_tensor(s, il, name, EMBD, 1, 1);
}

static inline void llama_like_spec(struct spec *s, const char *arch)
{
    base_spec(s, arch, 2, true);
    u32(s, "feed_forward_length", FF);
    u32(s, "rope.dimension_count", HD)->optional = true;
    add_tensor(s, -1, "rope_freqs.weight", HD / 2, 1, 1)->optional = true;
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        norm(s, il, "ffn_norm.weight");
        dense_ffn(s, il);
    }
}

static inline void llama_spec(struct spec *s)
{
    llama_like_spec(s, "llama");
}

static inline void mistral3_spec(struct spec *s)
{
    llama_like_spec(s, "mistral3");
    f32(s, "attention.temperature_scale", 0.1)->optional = true;
    u32(s, "rope.scaling.original_context_length", 128)->optional = true;
}

static inline void qwen2_spec(struct spec *s)
{
    base_spec(s, "qwen2", 2, false);
    u32(s, "feed_forward_length", FF);
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        add_tensor(s, il, "attn_q.bias", HEADS * HD, 1, 1)->optional = true;
        add_tensor(s, il, "attn_k.bias", KV * HD, 1, 1)->optional = true;
        add_tensor(s, il, "attn_v.bias", KV * HD, 1, 1)->optional = true;
        norm(s, il, "ffn_norm.weight");
        dense_ffn(s, il);
    }
}

static inline void qwen3_spec(struct spec *s)
{
    base_spec(s, "qwen3", 2, false);
    u32(s, "feed_forward_length", FF);
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        qk_norms(s, il, HD);
        norm(s, il, "ffn_norm.weight");
        dense_ffn(s, il);
    }
}

static inline void qwen3moe_spec(struct spec *s)
{
    base_spec(s, "qwen3moe", 2, false);
    expert_keys(s);
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        qk_norms(s, il, HD);
        norm(s, il, "ffn_norm.weight");
        expert_ffn(s, il);
    }
}

enum { CONV = 4, STATE = 8, N_K = 2, N_V = 4, KEY_DIM = N_K * STATE, VALUE_DIM = N_V * STATE };

static inline void gdn(struct spec *s, int il)
{
    add_tensor(s, il, "attn_qkv.weight", EMBD, 2 * KEY_DIM + VALUE_DIM, 1);
    add_tensor(s, il, "attn_gate.weight", EMBD, VALUE_DIM, 1);
    if (strcmp(s->arch, "qwen3next") == 0) {
        add_tensor(s, il, "ssm_ba.weight", EMBD, 2 * N_V, 1);
    } else {
        add_tensor(s, il, "ssm_alpha.weight", EMBD, N_V, 1);
        add_tensor(s, il, "ssm_beta.weight", EMBD, N_V, 1);
    }
    add_tensor(s, il, "ssm_conv1d.weight", CONV, 2 * KEY_DIM + VALUE_DIM, 1);
    add_tensor(s, il, "ssm_dt.bias", N_V, 1, 1);
    add_tensor(s, il, "ssm_a", N_V, 1, 1);
    add_tensor(s, il, "ssm_norm.weight", STATE, 1, 1);
    add_tensor(s, il, "ssm_out.weight", VALUE_DIM, EMBD, 1);
}

/* Block 0 recurrent, block 1 full, block 2 (not for qwen3next) for multi-token prediction. */
static inline void hybrid_spec(struct spec *s, const char *arch)
{
    bool next = strcmp(arch, "qwen3next") == 0, moe = strcmp(arch, "qwen35") != 0;
    base_spec(s, arch, next ? 2 : 3, false);
    if (!next)
        u32(s, "nextn_predict_layers", 1);
    u32(s, "full_attention_interval", 2);
    u32(s, "rope.dimension_count", 8)->optional = true;
    if (!next)
        arr(s, "rope.dimension_sections", (uint32_t[]){ 2, 1, 1, 0 }, 4);
    u32(s, "ssm.conv_kernel", CONV);
    u32(s, "ssm.state_size", STATE);
    u32(s, "ssm.group_count", N_K);
    u32(s, "ssm.time_step_rank", N_V);
    u32(s, "ssm.inner_size", VALUE_DIM);
    if (moe) {
        expert_keys(s);
        u32(s, "expert_shared_feed_forward_length", 16);
    } else {
        u32(s, "feed_forward_length", FF);
    }
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        if (il == 0) {
            gdn(s, il);
        } else {
            attention(s, il, 2 * HEADS * HD, KV * HD, HEADS * HD);
            qk_norms(s, il, HD);
        }
        norm(s, il, "post_attention_norm.weight");
        if (!moe) {
            dense_ffn(s, il);
            continue;
        }
        expert_ffn(s, il);
        add_tensor(s, il, "ffn_gate_shexp.weight", EMBD, 16, 1);
        add_tensor(s, il, "ffn_up_shexp.weight", EMBD, 16, 1);
        add_tensor(s, il, "ffn_down_shexp.weight", 16, EMBD, 1);
        add_tensor(s, il, "ffn_gate_inp_shexp.weight", EMBD, 1, 1);
    }
}

static inline void qwen3next_spec(struct spec *s) { hybrid_spec(s, "qwen3next"); }
static inline void qwen35_spec(struct spec *s) { hybrid_spec(s, "qwen35"); }
static inline void qwen35moe_spec(struct spec *s) { hybrid_spec(s, "qwen35moe"); }

static inline void sandwich_norms(struct spec *s, int il)
{
    norm(s, il, "attn_norm.weight");
    norm(s, il, "post_attention_norm.weight");
    norm(s, il, "ffn_norm.weight");
    norm(s, il, "post_ffw_norm.weight");
}

static inline void gemma3_spec(struct spec *s)
{
    base_spec(s, "gemma3", 6, true);
    u32(s, "feed_forward_length", FF);
    u32(s, "attention.sliding_window", 64)->optional = true;
    str(s, "rope.scaling.type", "linear")->optional = true;
    f32(s, "rope.scaling.factor", 8)->optional = true;
    for (int il = 0; il < 6; il++) {
        sandwich_norms(s, il);
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        qk_norms(s, il, HD);
        dense_ffn(s, il);
    }
}

/* Blocks: sliding, full, sliding, full; the last two read the keys of the first two. Head sizes 8 and 16. */
static inline void gemma4_spec(struct spec *s)
{
    base_spec(s, "gemma4", 4, true);
    u32(s, "feed_forward_length", FF);
    *find_key(s, "attention.head_count_kv") = (struct skey){ 0 };
    s->n_keys--; /* the scalar came last but three: move the others down */
    for (int i = 7; i < s->n_keys; i++)
        s->key[i] = s->key[i + 1];
    arr(s, "attention.head_count_kv", (uint32_t[]){ 2, 1, 2, 1 }, 4);
    u32(s, "attention.key_length_swa", 8);
    u32(s, "attention.value_length_swa", 8);
    u32(s, "attention.sliding_window", 64);
    arr(s, "attention.sliding_window_pattern", (uint32_t[]){ 1, 0, 1, 0 }, 4);
    u32(s, "attention.shared_kv_layers", 2)->optional = false;
    u32(s, "embedding_length_per_layer_input", 4);
    u32(s, "rope.dimension_count_swa", 8)->optional = true;
    f32(s, "rope.freq_base_swa", 10000)->optional = true;
    expert_keys(s);
    add_tensor(s, -1, "rope_freqs.weight", HD / 2, 1, 1);
    add_tensor(s, -1, "per_layer_token_embd.weight", 16, VOCAB, 1);
    add_tensor(s, -1, "per_layer_model_proj.weight", EMBD, 16, 1);
    add_tensor(s, -1, "per_layer_proj_norm.weight", 4, 1, 1);
    for (int il = 0; il < 4; il++) {
        uint32_t hd = il % 2 ? HD : 8, kv = il % 2 ? 1 : 2;
        sandwich_norms(s, il);
        add_tensor(s, il, "attn_q.weight", EMBD, HEADS * hd, 1);
        add_tensor(s, il, "attn_output.weight", HEADS * hd, EMBD, 1);
        add_tensor(s, il, "attn_q_norm.weight", hd, 1, 1);
        if (il < 2) {
            add_tensor(s, il, "attn_k.weight", EMBD, kv * hd, 1);
            add_tensor(s, il, "attn_k_norm.weight", hd, 1, 1);
        }
        if (il == 0)
            add_tensor(s, il, "attn_v.weight", EMBD, kv * hd, 1)->optional = true;
        dense_ffn(s, il);
        add_tensor(s, il, "inp_gate.weight", EMBD, 4, 1);
        add_tensor(s, il, "proj.weight", 4, EMBD, 1);
        norm(s, il, "post_norm.weight");
        add_tensor(s, il, "layer_output_scale.weight", 1, 1, 1)->optional = true;
        if (il % 2)
            continue;
        expert_ffn(s, il);
        find_tensor(s, il ? "blk.2.ffn_gate_inp.weight" : "blk.0.ffn_gate_inp.weight")->optional = true; /* makes it dense */
        norm(s, il, "ffn_gate_inp.scale");
        add_tensor(s, il, "ffn_down_exps.scale", EXPERTS, 1, 1)->optional = true;
        norm(s, il, "post_ffw_norm_1.weight");
        norm(s, il, "pre_ffw_norm_2.weight");
        norm(s, il, "post_ffw_norm_2.weight");
    }
}

/* Blocks: sliding, full, sliding; the last reads the keys of the first. */
static inline void gemma3n_spec(struct spec *s)
{
    base_spec(s, "gemma3n", 3, true);
    u32(s, "feed_forward_length", FF);
    u32(s, "attention.sliding_window", 64);
    arr(s, "attention.sliding_window_pattern", (uint32_t[]){ 1, 0, 1 }, 3)->optional = true; /* every fifth is full, without */
    f32(s, "attention.shared_kv_layers", 1);
    u32(s, "embedding_length_per_layer_input", 4);
    u32(s, "altup.num_inputs", 4);
    u32(s, "altup.active_idx", 0)->optional = true;
    f32_arr(s, "activation_sparsity_scale", (float[]){ 1.5f, 0, -INFINITY }, 3);
    add_tensor(s, -1, "per_layer_token_embd.weight", 12, VOCAB, 1);
    add_tensor(s, -1, "per_layer_model_proj.weight", EMBD, 12, 1);
    add_tensor(s, -1, "per_layer_proj_norm.weight", 4, 1, 1);
    add_tensor(s, -1, "altup_proj.weight", EMBD, EMBD, 3);
    add_tensor(s, -1, "altup_unembd_proj.weight", EMBD, EMBD, 3);
    for (int il = 0; il < 3; il++) {
        sandwich_norms(s, il);
        add_tensor(s, il, "attn_q.weight", EMBD, HEADS * HD, 1);
        add_tensor(s, il, "attn_output.weight", HEADS * HD, EMBD, 1);
        add_tensor(s, il, "attn_q_norm.weight", HD, 1, 1);
        if (il < 2) {
            add_tensor(s, il, "attn_k.weight", EMBD, KV * HD, 1);
            add_tensor(s, il, "attn_v.weight", EMBD, KV * HD, 1);
            add_tensor(s, il, "attn_k_norm.weight", HD, 1, 1);
        }
        dense_ffn(s, il);
        add_tensor(s, il, "inp_gate.weight", EMBD, 4, 1);
        add_tensor(s, il, "proj.weight", 4, EMBD, 1);
        norm(s, il, "post_norm.weight");
        add_tensor(s, il, "altup_router.weight", EMBD, 4, 1);
        norm(s, il, "altup_router_norm.weight");
        add_tensor(s, il, "altup_predict_coef.weight", 4, 16, 1);
        add_tensor(s, il, "altup_correct_coef.weight", 4, 4, 1);
        norm(s, il, "altup_correct_scale.weight");
        add_tensor(s, il, "laurel_l.weight", EMBD, 5, 1);
        add_tensor(s, il, "laurel_r.weight", 5, EMBD, 1);
        norm(s, il, "laurel_post_norm.weight");
    }
}

static inline void gpt_oss_spec(struct spec *s)
{
    base_spec(s, "gpt-oss", 2, false);
    find_tensor(s, "output.weight")->optional = false;
    expert_keys(s);
    u32(s, "attention.sliding_window", 128);
    str(s, "rope.scaling.type", "yarn")->optional = true;
    f32(s, "rope.scaling.factor", 32)->optional = true;
    u32(s, "rope.scaling.original_context_length", 4096)->optional = true;
    for (int il = 0; il < 2; il++) {
        norm(s, il, "attn_norm.weight");
        attention(s, il, HEADS * HD, KV * HD, HEADS * HD);
        add_tensor(s, il, "attn_q.bias", HEADS * HD, 1, 1);
        add_tensor(s, il, "attn_k.bias", KV * HD, 1, 1);
        add_tensor(s, il, "attn_v.bias", KV * HD, 1, 1);
        add_tensor(s, il, "attn_output.bias", EMBD, 1, 1);
        add_tensor(s, il, "attn_sinks.weight", HEADS, 1, 1);
        norm(s, il, "post_attention_norm.weight");
        expert_ffn(s, il);
        add_tensor(s, il, "ffn_gate_inp.bias", EXPERTS, 1, 1);
        add_tensor(s, il, "ffn_gate_exps.bias", FF_EXP, EXPERTS, 1);
        add_tensor(s, il, "ffn_up_exps.bias", FF_EXP, EXPERTS, 1);
        add_tensor(s, il, "ffn_down_exps.bias", EMBD, EXPERTS, 1);
    }
}

static void (*const family_spec[FAMILY_COUNT])(struct spec *) = {
    [FAMILY_LLAMA] = llama_spec,         [FAMILY_QWEN2] = qwen2_spec,         [FAMILY_QWEN3] = qwen3_spec,
    [FAMILY_QWEN3MOE] = qwen3moe_spec,   [FAMILY_QWEN3NEXT] = qwen3next_spec, [FAMILY_QWEN35] = qwen35_spec,
    [FAMILY_QWEN35MOE] = qwen35moe_spec, [FAMILY_GEMMA3] = gemma3_spec,       [FAMILY_GEMMA4] = gemma4_spec,
    [FAMILY_GEMMA3N] = gemma3n_spec,     [FAMILY_GPT_OSS] = gpt_oss_spec,     [FAMILY_MISTRAL3] = mistral3_spec,
};

static struct spec spec; /* large */

static inline void load_ok(struct loaded *l)
{
    ck_assert_msg(load(&spec, -1, -1, l) == 0, "%s", e.msg);
}

#endif
