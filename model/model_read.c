#include "model/model_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/rope.h"

typedef unsigned long long ull;

void read_fail(struct reading *r, int code, const char *fmt, ...)
{
    if (r->rc)
        return;
    char msg[sizeof r->e->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    r->rc = err_set(r->e, code, "%s: %s", gguf_path(r->g), msg);
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

struct key {
    char s[96];
};

static struct key full_key(const struct reading *r, const char *key)
{
    struct key k;
    snprintf(k.s, sizeof k.s, "%s.%s", r->arch, key);
    return k;
}

bool key_present(struct reading *r, const char *key)
{
    return !r->rc && gguf_find(r->g, full_key(r, key).s);
}

uint32_t key_u32_at(struct reading *r, const char *key, uint32_t il, int64_t def, uint32_t lo, uint32_t hi)
{
    if (r->rc)
        return lo;
    struct key k = full_key(r, key);
    const struct gguf_kv *kv = gguf_find(r->g, k.s);
    uint64_t v;
    if (!kv && def == KEY_REQUIRED)
        read_fail(r, -EINVAL,
                  "key '%s' is missing: expected an integer from %u to %u (convert the model again)", k.s, lo,
                  hi);
    if (!kv)
        return def == KEY_REQUIRED ? lo : (uint32_t)def;
    bool is_array = kv->type == GGUF_ARR;
    if (is_array && kv->n != r->n_blocks)
        read_fail(r, -EINVAL,
                  "key '%s': expected one value or %u, one a block, found %llu (convert the model again)",
                  k.s, r->n_blocks, (ull)kv->n);
    else if (!gguf_kv_u64(kv, is_array ? il : 0, &v))
        read_fail(r, -EINVAL,
                  "key '%s': expected an integer from %u to %u, found %s of type %s (convert the model "
                  "again)",
                  k.s, lo, hi, is_array ? "an element" : "a value", gguf_type_name(kv->elem_type));
    else if (v < lo || v > hi)
        read_fail(r, -EINVAL,
                  "key '%s': expected %u to %u, found %llu (the file is damaged, or zinc is too old for "
                  "it)",
                  k.s, lo, hi, (ull)v);
    else
        return (uint32_t)v;
    return lo;
}

uint32_t key_u32(struct reading *r, const char *key, int64_t def, uint32_t lo, uint32_t hi)
{
    if (r->rc)
        return lo;
    struct key k = full_key(r, key);
    const struct gguf_kv *kv = gguf_find(r->g, k.s);
    if (kv && kv->type == GGUF_ARR) {
        read_fail(r, -EINVAL,
                  "key '%s': expected one integer, found an array of %llu (convert the model again)", k.s,
                  (ull)kv->n);
        return lo;
    }
    return key_u32_at(r, key, 0, def, lo, hi);
}

float key_f32(struct reading *r, const char *key, float def)
{
    if (r->rc)
        return def;
    struct key k = full_key(r, key);
    float v = def;
    int rc = gguf_get_f32(r->g, k.s, &v, r->e);
    if (rc)
        r->rc = rc;
    else if (!isfinite(v))
        read_fail(r, -EINVAL, "key '%s': expected a finite number, found %g (the file is damaged)", k.s,
                  (double)v);
    return r->rc ? def : v;
}

float key_f32_positive(struct reading *r, const char *key, float def)
{
    if (r->rc)
        return 1;
    if (def == 0 && !key_present(r, key))
        read_fail(r, -EINVAL, "key '%s' is missing: expected a number above 0 (convert the model again)",
                  full_key(r, key).s);
    float v = key_f32(r, key, def);
    if (!(v > 0))
        read_fail(r, -EINVAL, "key '%s': expected a number above 0, found %g (the file is damaged)",
                  full_key(r, key).s, (double)v);
    return r->rc ? 1 : v;
}

/* --- tensors ---------------------------------------------------------------------------------------------------- */

struct tensor_name {
    char s[96];
};

static struct tensor_name full_name(int il, const char *name)
{
    struct tensor_name n;
    if (il < 0)
        snprintf(n.s, sizeof n.s, "%s", name);
    else
        snprintf(n.s, sizeof n.s, "blk.%d.%s", il, name);
    return n;
}

struct shape_text {
    char s[96];
};

/* "[2048, 8192]": trailing ones are left out. */
static struct shape_text shape_text(const uint64_t ne[4])
{
    struct shape_text t;
    int n = 4, len = 0;
    while (n > 1 && ne[n - 1] == 1)
        n--;
    for (int i = 0; i < n; i++)
        len += snprintf(t.s + len, sizeof t.s - (size_t)len, "%s%llu", i ? ", " : "[", (ull)ne[i]);
    snprintf(t.s + len, sizeof t.s - (size_t)len, "]");
    return t;
}

static const struct gguf_tensor *read_tensor(struct reading *r, int il, const char *name, enum need need,
                                             bool f32, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    if (r->rc)
        return NULL;
    struct tensor_name n = full_name(il, name);
    const struct gguf_tensor *t = gguf_find_tensor(r->g, n.s);
    uint64_t want[4] = {ne0, ne1, ne2, 1};
    if (!t) {
        if (need == REQUIRED)
            read_fail(r, -EINVAL,
                      "tensor '%s' %s is missing (the file is incomplete: download or convert it again)", n.s,
                      shape_text(want).s);
        return NULL;
    }
    if (memcmp(t->ne, want, sizeof want) != 0)
        read_fail(r, -EINVAL,
                  "tensor '%s': expected the shape %s, found %s (metadata and tensors do not belong "
                  "together: convert the model again)",
                  n.s, shape_text(want).s, shape_text(t->ne).s);
    else if (f32 && t->type != QT_F32)
        read_fail(r, -ENOTSUP,
                  "tensor '%s': expected F32, found %s (convert the model again with a stock converter, "
                  "which keeps it F32)",
                  n.s, qtype_name(t->type));
    if (r->rc)
        return NULL;
    if (!r->used[t - r->g->tensors]) {
        r->used[t - r->g->tensors] = true;
        r->m->n_params += ne0 * ne1 * ne2;
    }
    return t;
}

const struct gguf_tensor *read_vec(struct reading *r, int il, const char *name, enum need need, uint64_t n)
{
    return read_tensor(r, il, name, need, true, n, 1, 1);
}

const struct gguf_tensor *read_mat(struct reading *r, int il, const char *name, enum need need, uint64_t n_in,
                                   uint64_t n_out)
{
    return read_tensor(r, il, name, need, false, n_in, n_out, 1);
}

const struct gguf_tensor *read_mats(struct reading *r, int il, const char *name, enum need need,
                                    uint64_t n_in, uint64_t n_out, uint64_t n)
{
    return read_tensor(r, il, name, need, false, n_in, n_out, n);
}

const struct gguf_tensor *read_f32_mat(struct reading *r, int il, const char *name, enum need need,
                                       uint64_t ne0, uint64_t ne1)
{
    return read_tensor(r, il, name, need, true, ne0, ne1, 1);
}

bool has_tensor(struct reading *r, int il, const char *name)
{
    return !r->rc && gguf_find_tensor(r->g, full_name(il, name).s);
}

/* --- rotary embedding ------------------------------------------------------------------------------------------- */

static bool str_is(struct gguf_str s, const char *want)
{
    return s.len == strlen(want) && memcmp(s.s, want, s.len) == 0;
}

enum scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN, SCALING_LONGROPE };

static enum scaling read_scaling_type(struct reading *r)
{
    struct gguf_str type = {"linear", 6};
    if (r->rc)
        return SCALING_NONE;
    r->rc = gguf_get_str(r->g, full_key(r, "rope.scaling.type").s, &type, r->e);
    if (str_is(type, "linear"))
        return SCALING_LINEAR;
    if (str_is(type, "yarn"))
        return SCALING_YARN;
    bool longrope = r->m->family == FAMILY_LLAMA || r->m->family == FAMILY_MISTRAL3;
    if (longrope && str_is(type, "longrope"))
        return SCALING_LONGROPE;
    if (!str_is(type, "none"))
        read_fail(r, -ENOTSUP,
                  "key '%s': zinc scales %s models by none, linear%s, found '%.*s' (take a conversion without "
                  "it)",
                  full_key(r, "rope.scaling.type").s, r->arch, longrope ? ", yarn or longrope" : " or yarn", (int)MIN(type.len, 40),
                  type.s);
    return SCALING_NONE;
}

bool has_longrope(struct reading *r)
{
    return read_scaling_type(r) == SCALING_LONGROPE;
}

/* The factor in front of cos and sin: attn_factor alone, or with YaRN's own (divided by the share of it that
 * yarn_log_multiplier says is already in the attention scale). */
static float effective_mscale(struct reading *r, float ext_factor, float factor)
{
    float attn = key_f32_positive(r, "rope.scaling.attn_factor", 1);
    if (ext_factor == 0)
        return attn * key_f32_positive(r, "rope.scaling.yarn_attn_factor", 1);
    float log_mul = key_f32(r, "rope.scaling.yarn_log_multiplier", 0);
    double whole = (double)rope_yarn_mscale((double)factor);
    double share = 1 + (double)log_mul * (whole - 1);
    if (!(share > 0)) {
        read_fail(r, -EINVAL, "key '%s': expected at least 0, found %g (the file is damaged)",
                  full_key(r, "rope.scaling.yarn_log_multiplier").s, (double)log_mul);
        return 1;
    }
    return (float)((double)attn * whole / share);
}

struct rope_params read_rope(struct reading *r, uint32_t head_dim, enum rope_kind kind)
{
    struct rope_params p = {.kind = kind};
    p.base = key_f32_positive(r, "rope.freq_base", 10000);
    p.n_rot = key_u32(r, "rope.dimension_count", head_dim, 2, head_dim);
    if (p.n_rot % 2)
        read_fail(r, -EINVAL, "key '%s': expected an even number, found %u (convert the model again)",
                  full_key(r, "rope.dimension_count").s, p.n_rot);
    enum scaling scaling = read_scaling_type(r);
    float factor = key_f32(r, "rope.scaling.factor", key_f32(r, "rope.scale_linear", 0));
    if (factor == 0 || scaling == SCALING_NONE)
        factor = 1;
    float ext = key_f32(r, "rope.scaling.yarn_ext_factor", -1);
    p.ext_factor = ext >= 0 ? ext : scaling == SCALING_YARN;
    p.freq_scale = 1 / factor;
    if (!(factor > 0) || !isfinite(p.freq_scale) || !(p.freq_scale > 0) || p.ext_factor > 1)
        read_fail(r, -EINVAL,
                  "key '%s': expected a factor above 0 (and yarn_ext_factor at most 1), found %g (%g) (the "
                  "file is damaged)",
                  full_key(r, "rope.scaling.factor").s, (double)factor, (double)p.ext_factor);
    p.n_ctx_orig = key_u32(r, "rope.scaling.original_context_length", r->m->n_ctx_train, 1, INT32_MAX);
    p.beta_fast = key_f32_positive(r, "rope.scaling.yarn_beta_fast", 32);
    p.beta_slow = key_f32_positive(r, "rope.scaling.yarn_beta_slow", 1);
    if (p.ext_factor != 0 && !(p.base > 1))
        read_fail(r, -EINVAL, "key '%s': expected above 1 for YaRN, found %g (the file is damaged)",
                  full_key(r, "rope.freq_base").s, (double)p.base);
    p.mscale = effective_mscale(r, p.ext_factor, factor);
    return p;
}

const struct gguf_tensor *read_rope_freqs(struct reading *r, const char *name, enum need need, uint32_t n_rot)
{
    const struct gguf_tensor *t = read_vec(r, -1, name, need, n_rot / 2);
    for (uint32_t i = 0; t && i < n_rot / 2; i++) {
        float f;
        memcpy(&f, (const char *)t->data + i * sizeof f, sizeof f); /* a file's data have any alignment */
        if (!isfinite(f) || !(f > 0)) {
            read_fail(r, -EINVAL,
                      "tensor '%s': expected finite numbers above 0, found %g at %u (the file "
                      "is damaged)",
                      name, (double)f, i);
            return NULL;
        }
    }
    return t;
}

/* --- attention -------------------------------------------------------------------------------------------------- */

enum { MAX_HEADS = 1 << 14, MAX_HEAD_DIM = 1 << 12 };

void read_head_counts(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    l->n_head = key_u32_at(r, "attention.head_count", il, KEY_REQUIRED, 1, MAX_HEADS);
    l->n_head_kv = key_u32_at(r, "attention.head_count_kv", il, l->n_head, 1, MAX_HEADS);
    if (!r->rc && l->n_head % l->n_head_kv)
        read_fail(r, -EINVAL,
                  "block %u: %u query heads, expected a multiple of the %u key heads (convert the model "
                  "again)",
                  il, l->n_head, l->n_head_kv);
}

uint32_t read_head_dim(struct reading *r, const char *k_key, const char *v_key, uint32_t def)
{
    if ((def < 1 || def > MAX_HEAD_DIM) && !r->rc && !key_present(r, k_key))
        read_fail(r, -EINVAL,
                  "key '%s' is missing: expected a head size from 1 to %d (convert the model again)",
                  full_key(r, k_key).s, MAX_HEAD_DIM);
    uint32_t k = key_u32(r, k_key, def, 1, MAX_HEAD_DIM);
    uint32_t v = key_u32(r, v_key, def, 1, MAX_HEAD_DIM);
    if (!r->rc && k != v)
        read_fail(r, -ENOTSUP, "keys '%s' %u and '%s' %u: zinc runs models where they are equal",
                  full_key(r, k_key).s, k, full_key(r, v_key).s, v);
    return k;
}

void read_heads(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    read_head_counts(r, il);
    l->head_dim =
        read_head_dim(r, "attention.key_length", "attention.value_length", r->m->n_embd / MAX(l->n_head, 1));
}

void read_windows(struct reading *r, uint32_t window, uint32_t period)
{
    const char *key = "attention.sliding_window_pattern";
    const struct gguf_kv *kv = r->rc ? NULL : gguf_find(r->g, full_key(r, key).s);
    bool flags = kv && kv->type == GGUF_ARR;
    if (!flags)
        period = key_u32(r, key, period, 0, MODEL_MAX_LAYERS);
    for (uint32_t il = 0; il < r->m->n_layer && !r->rc; il++) {
        bool slides = flags ? key_u32_at(r, key, il, 0, 0, 1) : period == 0 || il % period < period - 1;
        r->m->layers[il].window = slides ? window : 0;
    }
}

void read_projections(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    uint64_t n_embd = r->m->n_embd, rows = (uint64_t)l->n_head * l->head_dim;
    uint64_t q_rows = rows * (l->q_gate ? 2 : 1), kv_rows = (uint64_t)l->n_head_kv * l->head_dim;
    if (has_tensor(r, b, "attn_qkv.weight")) {
        l->wqkv = read_mat(r, b, "attn_qkv.weight", REQUIRED, n_embd, q_rows + 2 * kv_rows);
    } else {
        l->wq = read_mat(r, b, "attn_q.weight", REQUIRED, n_embd, q_rows);
        l->wk = read_mat(r, b, "attn_k.weight", REQUIRED, n_embd, kv_rows);
        l->wv = read_mat(r, b, "attn_v.weight", REQUIRED, n_embd, kv_rows);
    }
    l->wo = read_mat(r, b, "attn_output.weight", REQUIRED, rows, n_embd);
}

void read_qk_norms(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    l->q_norm = read_vec(r, (int)il, "attn_q_norm.weight", REQUIRED, l->head_dim);
    l->k_norm = read_vec(r, (int)il, "attn_k_norm.weight", REQUIRED, l->head_dim);
}

/* --- FFN -------------------------------------------------------------------------------------------------------- */

enum { MAX_FF = 1 << 24 };

/* Without a key of their own: llama's experts are as wide as its dense FFN, the Qwen families share that width out. */
static uint32_t default_expert_width(struct reading *r, uint32_t il)
{
    uint32_t n_ff = key_u32_at(r, "feed_forward_length", il, 0, 0, MAX_FF);
    switch (r->m->family) {
    case FAMILY_LLAMA:
    case FAMILY_MISTRAL3: return n_ff;
    case FAMILY_QWEN3MOE:
    case FAMILY_QWEN3NEXT:
    case FAMILY_QWEN35MOE: return n_ff / MAX(r->m->layers[il].n_expert_used, 1);
    default: return 0;
    }
}

void read_expert_counts(struct reading *r, enum need need)
{
    struct model *m = r->m;
    int64_t def = need == REQUIRED ? KEY_REQUIRED : 0;
    m->n_expert = key_u32(r, "expert_count", def, need == REQUIRED, MODEL_MAX_EXPERTS);
    m->expert_scale = key_f32(r, "expert_weights_scale", 0);
    if (m->expert_scale == 0)
        m->expert_scale = 1;
    for (uint32_t il = 0; il < m->n_layer && m->n_expert && !r->rc; il++) {
        struct model_layer *l = &m->layers[il];
        l->n_expert_used = key_u32_at(r, "expert_used_count", il, KEY_REQUIRED, 1, m->n_expert);
        uint32_t n_ff_exp = key_u32_at(r, "expert_feed_forward_length", il, 0, 0, MAX_FF);
        l->n_ff_exp = n_ff_exp ? n_ff_exp : default_expert_width(r, il);
        if (!l->n_ff_exp)
            read_fail(r, -EINVAL, "key '%s' is missing or 0: expected 1 to %d (convert the model again)",
                      full_key(r, "expert_feed_forward_length").s, MAX_FF);
    }
}

void read_dense_ffn(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    l->n_ff = key_u32_at(r, "feed_forward_length", il, KEY_REQUIRED, 1, MAX_FF);
    l->ffn_gate = read_mat(r, b, "ffn_gate.weight", REQUIRED, r->m->n_embd, l->n_ff);
    l->ffn_up = read_mat(r, b, "ffn_up.weight", REQUIRED, r->m->n_embd, l->n_ff);
    l->ffn_down = read_mat(r, b, "ffn_down.weight", REQUIRED, l->n_ff, r->m->n_embd);
}

/* A number for each expert beside its matrix; NULL: there are none, or all are 1 and those may be left out. */
static const struct gguf_tensor *read_expert_scale(struct reading *r, uint32_t il, const char *name, bool ones)
{
    const struct gguf_tensor *t = read_vec(r, (int)il, name, OPTIONAL, r->m->n_expert);
    bool plain = !ones;
    for (uint32_t i = 0; t && i < r->m->n_expert; i++) {
        float by;
        memcpy(&by, (const char *)t->data + i * sizeof by, sizeof by); /* a file's data have any alignment */
        plain = plain && by == 1;
        if (!isfinite(by)) {
            read_fail(r, -EINVAL, "tensor '%.*s' has %g at %u, expected a number to multiply with; the file is damaged",
                      (int)t->name.len, t->name.s, (double)by, i);
            return NULL;
        }
    }
    return plain ? NULL : t;
}

/* They multiply the products, and biases come behind them: ggml-org/llama.cpp, src/llama-graph.cpp (build_lora_mm_id and what follows
 * in build_moe_ffn); vllm-project/vllm, csrc/moe/marlin_moe_wna16/marlin_template.h (global_scale, then the bias, then the router's
 * weight). */
static void read_expert_scales(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    const char *gate = l->exp_gate_up ? "ffn_gate_up_exps.scale" : "ffn_gate_exps.scale";
    l->exp_gate_scale = read_expert_scale(r, il, gate, false);
    l->exp_up_scale = l->exp_gate_up ? l->exp_gate_scale : read_expert_scale(r, il, "ffn_up_exps.scale", false);
    l->exp_down_scale = read_expert_scale(r, il, "ffn_down_exps.scale", true);
}

void read_expert_ffn(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    l->router = read_mat(r, b, "ffn_gate_inp.weight", REQUIRED, m->n_embd, m->n_expert);
    if (has_tensor(r, b, "ffn_gate_up_exps.weight")) {
        l->exp_gate_up = read_mats(r, b, "ffn_gate_up_exps.weight", REQUIRED, m->n_embd,
                                   2 * (uint64_t)l->n_ff_exp, m->n_expert);
    } else {
        l->exp_gate = read_mats(r, b, "ffn_gate_exps.weight", REQUIRED, m->n_embd, l->n_ff_exp, m->n_expert);
        l->exp_up = read_mats(r, b, "ffn_up_exps.weight", REQUIRED, m->n_embd, l->n_ff_exp, m->n_expert);
    }
    l->exp_down = read_mats(r, b, "ffn_down_exps.weight", REQUIRED, l->n_ff_exp, m->n_embd, m->n_expert);
    read_expert_scales(r, il);
}
