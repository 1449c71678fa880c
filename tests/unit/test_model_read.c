/* Reading a model of each family: a small synthetic file of the family gives the expected fields; without any of its
 * required keys or tensors, or with a tensor of another shape or type, the line names the key or tensor. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "model/gguf_write.h"
#include "model/model.h"
#include "model/rope.h"

static struct err e;

/* --- a file as lists of keys and tensors ------------------------------------------------------------------------- */

enum { MAX_KEYS = 64, MAX_TENSORS = 160, ARR_MAX = 8 };

struct skey {
    char name[80];
    enum gguf_type type; /* U32, F32, BOOL, STR, or ARR of u32 */
    double v;
    char s[40];
    uint32_t arr[ARR_MAX], n;
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

static struct skey *add_key(struct spec *s, const char *name, enum gguf_type type)
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

static struct skey *u32(struct spec *s, const char *name, uint32_t v)
{
    struct skey *k = add_key(s, name, GGUF_U32);
    k->v = v;
    return k;
}

static struct skey *f32(struct spec *s, const char *name, double v)
{
    struct skey *k = add_key(s, name, GGUF_F32);
    k->v = v;
    return k;
}

static struct skey *str(struct spec *s, const char *name, const char *v)
{
    struct skey *k = add_key(s, name, GGUF_STR);
    snprintf(k->s, sizeof k->s, "%s", v);
    return k;
}

static struct skey *arr(struct spec *s, const char *name, const uint32_t *v, uint32_t n)
{
    struct skey *k = add_key(s, name, GGUF_ARR);
    memcpy(k->arr, v, n * sizeof *v);
    k->n = n;
    return k;
}

/* il -1: a global tensor. */
static struct stensor *add_tensor(struct spec *s, int il, const char *name, uint64_t ne0, uint64_t ne1, uint64_t ne2)
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

static struct skey *find_key(struct spec *s, const char *suffix)
{
    for (int i = 0; i < s->n_keys; i++)
        if (strlen(s->key[i].name) >= strlen(suffix) &&
            strcmp(s->key[i].name + strlen(s->key[i].name) - strlen(suffix), suffix) == 0)
            return &s->key[i];
    ck_abort_msg("no key %s", suffix);
    return NULL;
}

static struct stensor *find_tensor(struct spec *s, const char *name)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensor[i].name, name) == 0)
            return &s->tensor[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

static void put_key(struct gguf_writer *w, const struct skey *k)
{
    switch (k->type) {
    case GGUF_U32: gguf_put_u32(w, k->name, (uint32_t)k->v); break;
    case GGUF_F32: gguf_put_f32(w, k->name, (float)k->v); break;
    case GGUF_BOOL: gguf_put_bool(w, k->name, k->v != 0); break;
    case GGUF_STR: gguf_put_str(w, k->name, k->s); break;
    case GGUF_ARR: gguf_put_arr(w, k->name, GGUF_U32, k->arr, k->n); break;
    default: ck_abort();
    }
}

/* Every float is 1. */
static struct gguf_writer *write_spec(const struct spec *s, int skip_key, int skip_tensor)
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

static int load(const struct spec *s, int skip_key, int skip_tensor, struct loaded *l)
{
    uint64_t n;
    *l = (struct loaded){ .w = write_spec(s, skip_key, skip_tensor) };
    const void *p = gguf_writer_bytes(l->w, &n);
    e = (struct err){ 0 };
    ck_assert_msg(gguf_open_memory("dir/test.gguf", p, n, &l->g, &e) == 0, "%s", e.msg);
    return model_read(l->g, &l->m, &e);
}

static void unload(struct loaded *l)
{
    model_free(l->m);
    gguf_close(l->g);
    gguf_writer_destroy(l->w);
}

static void expect_error(const struct spec *s, int code, const char *part1, const char *part2)
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

static void base_spec(struct spec *s, const char *arch, uint32_t n_blocks, bool tied)
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

static void attention(struct spec *s, int il, uint32_t q_rows, uint32_t kv_rows, uint32_t o_rows)
{
    add_tensor(s, il, "attn_q.weight", EMBD, q_rows, 1);
    add_tensor(s, il, "attn_k.weight", EMBD, kv_rows, 1);
    add_tensor(s, il, "attn_v.weight", EMBD, kv_rows, 1);
    add_tensor(s, il, "attn_output.weight", o_rows, EMBD, 1);
}

static void qk_norms(struct spec *s, int il, uint32_t hd)
{
    add_tensor(s, il, "attn_q_norm.weight", hd, 1, 1);
    add_tensor(s, il, "attn_k_norm.weight", hd, 1, 1);
}

static void dense_ffn(struct spec *s, int il)
{
    add_tensor(s, il, "ffn_gate.weight", EMBD, FF, 1);
    add_tensor(s, il, "ffn_up.weight", EMBD, FF, 1);
    add_tensor(s, il, "ffn_down.weight", FF, EMBD, 1);
}

static void expert_ffn(struct spec *s, int il)
{
    add_tensor(s, il, "ffn_gate_inp.weight", EMBD, EXPERTS, 1);
    add_tensor(s, il, "ffn_gate_exps.weight", EMBD, FF_EXP, EXPERTS);
    add_tensor(s, il, "ffn_up_exps.weight", EMBD, FF_EXP, EXPERTS);
    add_tensor(s, il, "ffn_down_exps.weight", FF_EXP, EMBD, EXPERTS);
}

static void expert_keys(struct spec *s)
{
    u32(s, "expert_count", EXPERTS);
    u32(s, "expert_used_count", USED);
    u32(s, "expert_feed_forward_length", FF_EXP);
}

static void norm(struct spec *s, int il, const char *name)
{
    add_tensor(s, il, name, EMBD, 1, 1);
}

static void llama_spec(struct spec *s)
{
    base_spec(s, "llama", 2, true);
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

static void qwen2_spec(struct spec *s)
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

static void qwen3_spec(struct spec *s)
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

static void qwen3moe_spec(struct spec *s)
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

static void gdn(struct spec *s, int il)
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
static void hybrid_spec(struct spec *s, const char *arch)
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

static void qwen3next_spec(struct spec *s) { hybrid_spec(s, "qwen3next"); }
static void qwen35_spec(struct spec *s) { hybrid_spec(s, "qwen35"); }
static void qwen35moe_spec(struct spec *s) { hybrid_spec(s, "qwen35moe"); }

static void sandwich_norms(struct spec *s, int il)
{
    norm(s, il, "attn_norm.weight");
    norm(s, il, "post_attention_norm.weight");
    norm(s, il, "ffn_norm.weight");
    norm(s, il, "post_ffw_norm.weight");
}

static void gemma3_spec(struct spec *s)
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
static void gemma4_spec(struct spec *s)
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

static void gpt_oss_spec(struct spec *s)
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
    [FAMILY_GPT_OSS] = gpt_oss_spec,
};

static struct spec spec; /* large */

/* --- every family ------------------------------------------------------------------------------------------------ */

START_TEST(reads_whole)
{
    struct loaded l;
    family_spec[_i](&spec);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert_uint_eq(l.m->family, _i);
    ck_assert_str_eq(model_family_name(l.m->family), spec.arch);
    ck_assert_str_eq(l.m->name, "A name");
    ck_assert(l.m->n_embd == EMBD && l.m->n_vocab == VOCAB && l.m->n_ctx_train == 512);
    uint64_t elems = 0;
    for (int i = 0; i < spec.n_tensors; i++)
        elems += spec.tensor[i].ne[0] * spec.tensor[i].ne[1] * spec.tensor[i].ne[2];
    ck_assert_uint_eq(l.m->n_params, elems); /* every tensor has a role */
    unload(&l);
}
END_TEST

/* A key without which the model cannot be read, or is another model, is named, or a tensor that then does not fit. */
START_TEST(each_missing_key_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_keys; i++) {
        struct loaded l;
        int rc = load(&spec, i, -1, &l);
        const char *key = spec.key[i].name;
        if (spec.key[i].optional)
            ck_assert_msg(rc == 0, "without %s: %s", key, e.msg);
        else if (rc == 0) /* absent means a default that may fit */
            ck_assert_msg(strstr(key, "value_length") || strstr(key, "expert_shared") || strstr(key, "key_length_swa"),
                          "%s: reads without %s", spec.arch, key);
        else
            ck_assert_msg(strstr(e.msg, key) || strstr(e.msg, "tensor '") || strstr(e.msg, "value_length") ||
                              strstr(e.msg, "dimension_sections") || strstr(e.msg, "expert_"),
                          "without %s: %s", key, e.msg);
        unload(&l);
    }
}
END_TEST

START_TEST(each_missing_tensor_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct loaded l;
        int rc = load(&spec, -1, i, &l);
        const struct stensor *t = &spec.tensor[i];
        if (t->optional)
            ck_assert_msg(rc == 0 || strstr(e.msg, "does not apply"), "without %s: %s", t->name, e.msg);
        else
            ck_assert_msg(rc == -EINVAL && strstr(e.msg, t->name) && strstr(e.msg, "missing"), "without %s: %d %s",
                          t->name, rc, e.msg);
        unload(&l);
    }
}
END_TEST

START_TEST(each_wrong_shape_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++)
        for (int d = 0; d < 3; d++) {
            struct stensor *t = &spec.tensor[i];
            if (d == 1 && strcmp(t->name, "token_embd.weight") == 0)
                continue; /* without a vocabulary it decides */
            t->ne[d]++;
            char want[80];
            snprintf(want, sizeof want, "tensor '%s'", t->name);
            expect_error(&spec, -EINVAL, want, "expected the shape");
            t->ne[d]--;
        }
}
END_TEST

START_TEST(vectors_are_f32)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct stensor *t = &spec.tensor[i];
        if (t->ne[1] > 1 || t->ne[0] % 2)
            continue;
        t->type = QT_F16;
        char want[80];
        snprintf(want, sizeof want, "tensor '%s'", t->name);
        expect_error(&spec, -ENOTSUP, want, "expected F32, found F16");
        t->type = QT_F32;
    }
}
END_TEST

START_TEST(matrices_have_any_type)
{
    struct loaded l;
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct stensor *t = &spec.tensor[i];
        bool f32_only = t->ne[1] == 1 || strstr(t->name, "conv1d") || strstr(t->name, ".bias");
        if (!f32_only && t->ne[0] % 32 == 0 && t->ne[1] % 2 == 0)
            t->type = QT_Q8_0;
        else if (!f32_only && t->ne[0] % 2 == 0)
            t->type = QT_BF16;
    }
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    unload(&l);
}
END_TEST

/* Each number out of range, not finite, of another type, or an array of the wrong length. */
START_TEST(bad_values_are_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_keys; i++) {
        struct skey *k = &spec.key[i], was = *k;
        if (k->type == GGUF_STR)
            continue;
        char want[100];
        snprintf(want, sizeof want, "key '%s'", k->name);
        if (k->type == GGUF_U32) {
            k->v = 4294967295.0;
            expect_error(&spec, -EINVAL, want, "4294967295");
            *k = was;
        }
        if (k->type == GGUF_F32) {
            k->v = NAN;
            expect_error(&spec, -EINVAL, want, "finite");
            k->v = -1;
            expect_error(&spec, -EINVAL, want, "-1");
            *k = was;
        }
        if (k->type == GGUF_ARR) {
            k->n--;
            expect_error(&spec, -EINVAL, want, "expected");
            *k = was;
        }
        k->type = GGUF_STR;
        expect_error(&spec, -EINVAL, want, "expected");
        *k = was;
    }
}
END_TEST

START_TEST(what_zinc_would_not_apply_is_refused)
{
    family_spec[_i](&spec);
    add_tensor(&spec, 0, "ffn_norm.bias", EMBD, 1, 1); /* not beside a used tensor in the hybrids and gpt-oss: ignored */
    add_tensor(&spec, -1, "token_embd.scale", 1, 1, 1);
    expect_error(&spec, -ENOTSUP, spec.arch, "does not apply");
}
END_TEST

START_TEST(scales_beside_matrices_are_taken)
{
    struct loaded l;
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_q.scale", 1, 1, 1);
    add_tensor(&spec, 1, "ffn_down.scale", 1, 1, 1);
    add_tensor(&spec, 1, "ffn_down.input_scale", 1, 1, 1); /* for activations of four bits: not applied */
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert_uint_eq(l.m->n_scales, 0); /* all of them are 1 here */
    unload(&l);
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_q.scale", 2, 1, 1);
    expect_error(&spec, -ENOTSUP, "blk.0.attn_q.scale", "does not apply");
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_norm.scale", 1, 1, 1);
    expect_error(&spec, -ENOTSUP, "blk.0.attn_norm.scale", "does not apply");
}
END_TEST

START_TEST(tensors_without_a_role_are_ignored)
{
    struct loaded l;
    family_spec[_i](&spec);
    add_tensor(&spec, -1, "v.patch_embd.weight", 4, 4, 1);
    add_tensor(&spec, 0, "attn_q.input_scale", 1, 1, 1);
    add_tensor(&spec, 99, "attn_norm.weight", 4, 1, 1);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    unload(&l);
}
END_TEST

/* --- by family --------------------------------------------------------------------------------------------------- */

static void load_ok(struct loaded *l)
{
    ck_assert_msg(load(&spec, -1, -1, l) == 0, "%s", e.msg);
}

START_TEST(llama_fields)
{
    struct loaded l;
    llama_spec(&spec);
    f32(&spec, "attention.scale", 0.5);
    add_tensor(&spec, 1, "attn_q.bias", HEADS * HD, 1, 1);
    add_tensor(&spec, 1, "attn_output.bias", EMBD, 1, 1);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->output == l.m->token_embd && l.m->act == ACT_SILU && l.m->embed_scale == 1);
    ck_assert(a->rope.kind == ROPE_NORM && a->rope.n_rot == HD && a->rope.base == 1e6f && a->rope_freqs);
    ck_assert(a->n_head == HEADS && a->n_head_kv == KV && a->head_dim == HD && a->n_ff == FF);
    ck_assert(a->attn_scale == 0.5f && !a->bq && b->bq && b->bo && b->kv_from == 1 && !a->q_norm);
    unload(&l);

    find_key(&spec, "rope.dimension_count")->v = HD - 2;
    expect_error(&spec, -EINVAL, "rope.dimension_count", "expected the head size 16");
}
END_TEST

START_TEST(llama_with_experts)
{
    struct loaded l;
    base_spec(&spec, "llama", 1, true);
    u32(&spec, "expert_count", EXPERTS);
    u32(&spec, "expert_used_count", USED);
    u32(&spec, "feed_forward_length", FF_EXP); /* the experts' own width */
    norm(&spec, 0, "attn_norm.weight");
    attention(&spec, 0, HEADS * HD, KV * HD, HEADS * HD);
    norm(&spec, 0, "ffn_norm.weight");
    expert_ffn(&spec, 0);
    load_ok(&l);
    ck_assert(l.m->n_expert == EXPERTS && l.m->layers[0].n_ff_exp == FF_EXP && l.m->layers[0].n_ff == 0);
    ck_assert(l.m->gating == GATING_SOFTMAX && l.m->expert_scale == 1);
    unload(&l);
}
END_TEST

START_TEST(fused_projections)
{
    struct loaded l;
    llama_spec(&spec);
    strcpy(find_tensor(&spec, "blk.0.attn_q.weight")->name, "blk.0.attn_qkv.weight");
    find_tensor(&spec, "blk.0.attn_qkv.weight")->ne[1] = (HEADS + 2 * KV) * HD;
    load_ok(&l);
    ck_assert(l.m->layers[0].wqkv && !l.m->layers[0].wq && l.m->layers[1].wq);
    unload(&l);
}
END_TEST

START_TEST(per_layer_arrays)
{
    struct loaded l;
    qwen3_spec(&spec);
    *find_key(&spec, "feed_forward_length") =
        (struct skey){ "qwen3.feed_forward_length", GGUF_ARR, .arr = { FF, 2 * FF }, .n = 2 };
    find_tensor(&spec, "blk.1.ffn_gate.weight")->ne[1] = 2 * FF;
    find_tensor(&spec, "blk.1.ffn_up.weight")->ne[1] = 2 * FF;
    find_tensor(&spec, "blk.1.ffn_down.weight")->ne[0] = 2 * FF;
    load_ok(&l);
    ck_assert(l.m->layers[0].n_ff == FF && l.m->layers[1].n_ff == 2 * FF);
    unload(&l);
}
END_TEST

START_TEST(qwen3_fields)
{
    struct loaded l;
    qwen3_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0];
    ck_assert(l.m->output != l.m->token_embd && a->q_norm && a->k_norm && a->rope.kind == ROPE_NEOX);
    ck_assert(a->rope.n_rot == HD && a->rope.freq_scale == 1 && a->rope.mscale == 1 && a->rope.ext_factor == 0);
    ck_assert_float_eq_tol(a->attn_scale, 0.25f, 1e-7f);
    unload(&l);
}
END_TEST

START_TEST(yarn_mscale)
{
    struct loaded l;
    qwen3_spec(&spec);
    str(&spec, "rope.scaling.type", "yarn");
    f32(&spec, "rope.scaling.factor", 4);
    u32(&spec, "rope.scaling.original_context_length", 128);
    load_ok(&l);
    const struct rope_params *p = &l.m->layers[0].rope;
    ck_assert(p->ext_factor == 1 && p->freq_scale == 0.25f && p->n_ctx_orig == 128);
    ck_assert_float_eq_tol(p->mscale, (float)(1 + 0.1 * log(4)), 1e-6f);
    unload(&l);
    f32(&spec, "rope.scaling.attn_factor", 2);
    f32(&spec, "rope.scaling.yarn_log_multiplier", 1);
    load_ok(&l);
    ck_assert_float_eq_tol(l.m->layers[0].rope.mscale, 2, 1e-6f);
    unload(&l);
    strcpy(find_key(&spec, "rope.scaling.type")->s, "longrope");
    expect_error(&spec, -ENOTSUP, "rope.scaling.type", "'longrope'");
}
END_TEST

START_TEST(expert_width_by_default)
{
    struct loaded l;
    qwen3moe_spec(&spec);
    struct skey *k = find_key(&spec, "expert_feed_forward_length");
    strcpy(k->name, "qwen3moe.feed_forward_length");
    k->v = FF_EXP * USED;
    load_ok(&l);
    ck_assert(l.m->layers[1].n_ff_exp == FF_EXP && l.m->layers[1].n_expert_used == USED && !l.m->layers[1].n_ff);
    unload(&l);
    find_key(&spec, "expert_used_count")->v = EXPERTS + 1;
    expect_error(&spec, -EINVAL, "expert_used_count", "found 5");
    find_key(&spec, "expert_used_count")->v = USED;
    find_key(&spec, "expert_count")->v = 2000;
    expect_error(&spec, -EINVAL, "expert_count", "found 2000");
}
END_TEST

START_TEST(fused_experts)
{
    struct loaded l;
    qwen3moe_spec(&spec);
    strcpy(find_tensor(&spec, "blk.0.ffn_gate_exps.weight")->name, "blk.0.ffn_gate_up_exps.weight");
    find_tensor(&spec, "blk.0.ffn_gate_up_exps.weight")->ne[1] = 2 * FF_EXP;
    load_ok(&l);
    ck_assert(l.m->layers[0].exp_gate_up && !l.m->layers[0].exp_gate && l.m->layers[1].exp_gate);
    unload(&l);
}
END_TEST

START_TEST(head_counts_must_divide)
{
    qwen3_spec(&spec);
    find_key(&spec, "attention.head_count_kv")->v = 3;
    expect_error(&spec, -EINVAL, "block 0: 4 query heads", "multiple of the 3");
    find_key(&spec, "attention.head_count_kv")->v = 0;
    expect_error(&spec, -EINVAL, "attention.head_count_kv", "found 0");
}
END_TEST

START_TEST(hybrid_fields)
{
    struct loaded l;
    qwen35moe_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->n_layer == 2 && l.m->n_nextn == 1 && !l.m->gdn_grouped_heads && l.m->n_ff_shexp == 16);
    ck_assert(l.m->gdn_conv_kernel == CONV && l.m->gdn_head_dim == STATE && l.m->gdn_n_k == N_K && l.m->gdn_n_v == N_V);
    ck_assert(a->kind == LAYER_GDN && a->gdn_qkv && a->gdn_alpha && !a->gdn_ba && !a->wq && a->ffn_norm && a->gdn_dt);
    ck_assert(b->kind == LAYER_ATTN && b->q_gate && b->wq->ne[1] == 2 * HEADS * HD && b->rope.n_rot == 8);
    ck_assert(a->shexp_router && !a->post_attn_norm && a->gdn_a);
    unload(&l);
    qwen3next_spec(&spec);
    load_ok(&l);
    ck_assert(l.m->gdn_grouped_heads && l.m->layers[0].gdn_ba && !l.m->layers[0].gdn_alpha && !l.m->n_nextn);
    unload(&l);
}
END_TEST

START_TEST(hybrid_layer_flags)
{
    qwen35_spec(&spec);
    arr(&spec, "attention.recurrent_layers", (uint32_t[]){ 0, 1, 0 }, 3);
    /* block 0 is now full attention, and its attn_qkv another tensor */
    expect_error(&spec, -EINVAL, "tensor 'blk.0.attn_qkv.weight'", "expected the shape [32, 192]");
}
END_TEST

START_TEST(hybrid_refusals)
{
    qwen35_spec(&spec);
    memcpy(find_key(&spec, "dimension_sections")->arr, (uint32_t[]){ 1, 1, 1, 1 }, 16);
    expect_error(&spec, -ENOTSUP, "rope.dimension_sections", "fourth position");
    qwen35_spec(&spec);
    find_key(&spec, "ssm.inner_size")->v = VALUE_DIM + 8;
    expect_error(&spec, -EINVAL, "ssm.inner_size", "found 40");
    qwen35_spec(&spec);
    find_key(&spec, "ssm.group_count")->v = 3;
    expect_error(&spec, -EINVAL, "ssm.time_step_rank", "multiple of group_count 3");
    qwen3next_spec(&spec);
    add_tensor(&spec, 0, "ssm_in.weight", EMBD, 8, 1);
    expect_error(&spec, -ENOTSUP, "blk.0.ssm_in.weight", "convert");
}
END_TEST

START_TEST(gemma3_fields)
{
    struct loaded l;
    gemma3_spec(&spec);
    load_ok(&l);
    const struct model_layer *s = &l.m->layers[4], *f = &l.m->layers[5];
    ck_assert_float_eq_tol(l.m->embed_scale, sqrtf(EMBD), 1e-6f);
    ck_assert(l.m->act == ACT_GELU_TANH && l.m->logit_softcap == 0);
    ck_assert(s->window == 64 && f->window == 0 && s->post_attn_norm && s->post_ffn_norm);
    ck_assert(s->rope.base == 10000 && s->rope.freq_scale == 1 && f->rope.base == 1e6f && f->rope.freq_scale == 0.125f);
    ck_assert_float_eq_tol(s->attn_scale, 0.25f, 1e-7f);
    unload(&l);
}
END_TEST

START_TEST(gemma4_fields)
{
    struct loaded l;
    gemma4_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = l.m->layers;
    ck_assert(l.m->logit_softcap == 30 && l.m->n_embd_ple == 4 && l.m->ple_token_embd && l.m->ple_model_proj);
    ck_assert(a[0].window == 64 && a[1].window == 0 && a[0].head_dim == 8 && a[1].head_dim == HD);
    ck_assert(a[0].n_head_kv == 2 && a[1].n_head_kv == 1 && a[0].attn_scale == 1 && a[0].v_norm);
    ck_assert(a[0].wv && !a[0].v_from_k && !a[1].wv && a[1].v_from_k);
    ck_assert(a[0].kv_from == 0 && a[2].kv_from == 0 && a[3].kv_from == 1 && !a[2].wk && !a[2].v_from_k);
    ck_assert(!a[0].rope_freqs && a[1].rope_freqs && a[0].rope.n_rot == 8 && a[1].rope.n_rot == HD);
    ck_assert(a[0].rope.base == 10000 && a[1].rope.base == 1e6f);
    ck_assert(a[0].router && a[0].router_scale && a[0].exp_down_scale && !a[1].router && a[1].n_ff == FF);
    ck_assert(a[0].out_scale && a[0].ple_gate && a[0].pre_ffn_norm_2);
    unload(&l);
    find_key(&spec, "shared_kv_layers")->v = 3; /* block 1 is the first of its kind */
    expect_error(&spec, -EINVAL, "block 1 shares", "full");
}
END_TEST

START_TEST(gpt_oss_fields)
{
    struct loaded l;
    gpt_oss_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->act == ACT_SWIGLU_OAI && l.m->gating == GATING_TOPK_SOFTMAX && a->sinks && a->router_b && a->bo);
    ck_assert(a->window == 128 && b->window == 0 && a->exp_down_b && a->ffn_norm && !a->post_attn_norm);
    ck_assert(a->rope.ext_factor == 1 && b->rope.ext_factor == 1 && a->rope.n_ctx_orig == 4096);
    ck_assert_float_eq_tol(a->rope.mscale, 1.34657f, 1e-5f);
    unload(&l);
}
END_TEST

/* --- the file as a whole ----------------------------------------------------------------------------------------- */

START_TEST(unknown_architectures)
{
    qwen3_spec(&spec);
    strcpy(spec.key[0].s, "mamba");
    expect_error(&spec, -ENOTSUP, "architecture 'mamba'", "llama, qwen2, qwen3, ");
    spec.key[0].s[0] = 0;
    expect_error(&spec, -ENOTSUP, "architecture ''", "gpt-oss");
}
END_TEST

START_TEST(the_vocabulary_decides)
{
    struct loaded l;
    qwen3_spec(&spec);
    arr(&spec, "tokenizer.ggml.tokens", (uint32_t[8]){ 0 }, 8);
    expect_error(&spec, -EINVAL, "tensor 'token_embd.weight': expected the shape [32, 8], found [32, 10]", "");
    qwen3_spec(&spec);
    spec.n_tensors = 0;
    expect_error(&spec, -EINVAL, "vocabulary and no tensors", "");
    qwen3_spec(&spec);
    spec.key[1].s[0] = 0;
    load_ok(&l);
    ck_assert_str_eq(l.m->name, "test.gguf");
    unload(&l);
}
END_TEST

START_TEST(block_counts)
{
    qwen35_spec(&spec);
    find_key(&spec, "nextn_predict_layers")->v = 3;
    expect_error(&spec, -EINVAL, "nextn_predict_layers", "found 3");
    find_key(&spec, "block_count")->v = 513;
    expect_error(&spec, -EINVAL, "block_count", "found 513");
    find_key(&spec, "block_count")->v = 0;
    expect_error(&spec, -EINVAL, "block_count", "found 0");
    llama_spec(&spec);
    struct skey *k = u32(&spec, "attention.causal", 0);
    k->type = GGUF_BOOL;
    expect_error(&spec, -ENOTSUP, "attention.causal", "causal");
}
END_TEST

START_TEST(rope_frequencies_must_be_usable)
{
    struct loaded l;
    llama_spec(&spec);
    uint64_t n;
    l.w = write_spec(&spec, -1, -1);
    const void *p = gguf_writer_bytes(l.w, &n);
    uint8_t *copy = malloc(n);
    memcpy(copy, p, n);
    ck_assert_int_eq(gguf_open_memory("m.gguf", copy, n, &l.g, &e), 0);
    const struct gguf_tensor *t = gguf_find_tensor(l.g, "rope_freqs.weight");
    memset(copy + t->file_off + 4, 0, 4);
    ck_assert_int_eq(model_read(l.g, &l.m, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "rope_freqs.weight") && strstr(e.msg, "found 0 at 1"), "%s", e.msg);
    unload(&l);
    free(copy);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_read");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    tcase_add_loop_test(t, reads_whole, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_missing_key_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_missing_tensor_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_wrong_shape_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, vectors_are_f32, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, matrices_have_any_type, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, bad_values_are_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, what_zinc_would_not_apply_is_refused, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, tensors_without_a_role_are_ignored, 0, FAMILY_COUNT);
    tcase_add_test(t, scales_beside_matrices_are_taken);
    tcase_add_test(t, llama_fields);
    tcase_add_test(t, llama_with_experts);
    tcase_add_test(t, fused_projections);
    tcase_add_test(t, per_layer_arrays);
    tcase_add_test(t, qwen3_fields);
    tcase_add_test(t, yarn_mscale);
    tcase_add_test(t, expert_width_by_default);
    tcase_add_test(t, fused_experts);
    tcase_add_test(t, head_counts_must_divide);
    tcase_add_test(t, hybrid_fields);
    tcase_add_test(t, hybrid_layer_flags);
    tcase_add_test(t, hybrid_refusals);
    tcase_add_test(t, gemma3_fields);
    tcase_add_test(t, gemma4_fields);
    tcase_add_test(t, gpt_oss_fields);
    tcase_add_test(t, unknown_architectures);
    tcase_add_test(t, the_vocabulary_decides);
    tcase_add_test(t, block_counts);
    tcase_add_test(t, rope_frequencies_must_be_usable);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
