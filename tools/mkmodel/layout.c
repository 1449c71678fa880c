/* Which tensors a model of each family has, and how their values are drawn.
 *
 * The scales keep a random model lively and well-behaved, as training would. Matrices have standard deviation
 * gain/sqrt(n_in): with gain 1 activations keep their size. The head makes logits with a standard deviation near 3, far
 * apart compared with rounding noise. What a layer adds to the residual stream stays below the embedding and the router
 * is decided: otherwise each layer multiplies the error of the one before it, and an expert that was chosen by a hair
 * turns the rounding of int8 into another answer. A tied head would favour the token that was just read; random signs in
 * output_norm break that. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "model/quant_mix.h"
#include "tools/mkmodel/mkmodel.h"

#define LOGIT_STD   3.0f
#define QUERY_GAIN  1.0f /* of q, hence the standard deviation of attention scores   */
#define BRANCH_GAIN 0.5f /* of what attention and feed-forward add to the stream     */
#define ROUTER_GAIN 8.0f /* standard deviation of the router's logits                */
enum { GDN_HEAD = 128, GDN_CONV = 4 };

static const char *const arch_names[] = {
#define X(name, arch) arch,
    MODEL_FAMILIES(X)
#undef X
};

static void add(struct mk_model *m, enum fill f, float a, float b, const uint64_t ne[3], const char *fmt, va_list ap)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 256;
        struct mk_tensor *t = realloc(m->t, cap * sizeof *t);
        CHECK(t != NULL);
        m->t = t;
        m->cap = cap;
    }
    struct mk_tensor *t = &m->t[m->n++];
    *t = (struct mk_tensor){ .type = QT_F32, .fill = f, .a = a, .b = b, .ne = { ne[0], ne[1], ne[2], 1 } };
    t->n_dims = ne[2] > 1 ? 3 : ne[1] > 1 ? 2 : 1;
    vsnprintf(t->name, sizeof t->name, fmt, ap);
}

/* A matrix [n_in, n_out] whose products keep the size of their input times `gain`. */
__attribute__((format(printf, 5, 6)))
static void matrix(struct mk_model *m, float gain, uint64_t n_in, uint64_t n_out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(m, FILL_GAUSS, 0, gain / sqrtf((float)n_in), (uint64_t[3]){ n_in, n_out, 1 }, fmt, ap);
    va_end(ap);
}

/* Several of them. */
__attribute__((format(printf, 6, 7)))
static void stack(struct mk_model *m, float gain, uint64_t n_in, uint64_t n_out, uint64_t n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(m, FILL_GAUSS, 0, gain / sqrtf((float)n_in), (uint64_t[3]){ n_in, n_out, n }, fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 5, 6)))
static void experts(struct mk_model *m, float gain, uint64_t n_in, uint64_t n_out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(m, FILL_GAUSS, 0, gain / sqrtf((float)n_in), (uint64_t[3]){ n_in, n_out, m->p->n_expert }, fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 7, 8)))
static void drawn(struct mk_model *m, enum fill f, float a, float b, uint64_t n0, uint64_t n1, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(m, f, a, b, (uint64_t[3]){ n0, n1, 1 }, fmt, ap);
    va_end(ap);
}

#define NORM(m, n, ...) drawn(m, FILL_GAUSS, 1, 0.1f, n, 1, __VA_ARGS__)
#define BIAS(m, n, n1, ...) drawn(m, FILL_GAUSS, 0, 0.1f, n, n1, __VA_ARGS__)

static bool is_hybrid(enum model_family f)
{
    return f == FAMILY_QWEN3NEXT || f == FAMILY_QWEN35 || f == FAMILY_QWEN35MOE;
}

static bool is_gemma3n(const struct mk_model *m)
{
    return m->p->family == FAMILY_GEMMA3N;
}

static bool gemma4_full(const struct preset *p, uint32_t il)
{
    return (il + 1) % p->full_every == 0;
}

/* Of fewer layers the same part. */
static uint32_t n_shared(const struct mk_model *m)
{
    return (uint32_t)((uint64_t)m->p->shared_kv * m->n_layer / m->p->n_layer);
}

bool mk_shares_kv(const struct mk_model *m, uint32_t il)
{
    return il >= m->n_layer - n_shared(m);
}

uint32_t mk_n_ff(const struct mk_model *m, uint32_t il)
{
    return m->p->wide_shared && mk_shares_kv(m, il) ? 2 * m->p->n_ff : m->p->n_ff;
}

static void add_attention(struct mk_model *m, uint32_t il)
{
    const struct preset *p = m->p;
    bool g4 = p->family == FAMILY_GEMMA4, oss = p->family == FAMILY_GPT_OSS, full = g4 && gemma4_full(p, il);
    bool llama = p->family == FAMILY_LLAMA || p->family == FAMILY_MISTRAL3;
    bool q_norm = !llama && p->family != FAMILY_QWEN2 && !oss, own = !mk_shares_kv(m, il);
    uint64_t d = p->n_embd, hd = g4 && !full ? p->swa_head_dim : p->head_dim, kv = full ? p->full_kv : p->n_head_kv;
    uint64_t q_rows = (is_hybrid(p->family) ? 2 : 1) * p->n_head * hd; /* hybrids: query and gate */
    matrix(m, q_norm ? 1 : QUERY_GAIN, d, q_rows, "blk.%u.attn_q.weight", il);
    if (own)
        matrix(m, 1, d, kv * hd, "blk.%u.attn_k.weight", il);
    if (own && (!full || p->n_ple))
        matrix(m, 1, d, kv * hd, "blk.%u.attn_v.weight", il);
    matrix(m, BRANCH_GAIN, p->n_head * hd, d, "blk.%u.attn_output.weight", il);
    if (oss || p->family == FAMILY_QWEN2) {
        BIAS(m, p->n_head * hd, 1, "blk.%u.attn_q.bias", il);
        BIAS(m, kv * hd, 1, "blk.%u.attn_k.bias", il);
        BIAS(m, kv * hd, 1, "blk.%u.attn_v.bias", il);
    }
    if (oss) {
        BIAS(m, d, 1, "blk.%u.attn_output.bias", il);
        drawn(m, FILL_GAUSS, 0, 1, p->n_head, 1, "blk.%u.attn_sinks.weight", il);
    }
    if (q_norm) { /* gemma4's attention has scale 1: the norm carries the 1/sqrt(head_dim) */
        float s = g4 || is_gemma3n(m) ? QUERY_GAIN / sqrtf((float)hd) : QUERY_GAIN;
        drawn(m, FILL_GAUSS, s, 0.1f * s, hd, 1, "blk.%u.attn_q_norm.weight", il);
        if (own)
            NORM(m, hd, "blk.%u.attn_k_norm.weight", il);
    }
}

static void add_deltanet(struct mk_model *m, uint32_t il)
{
    const struct preset *p = m->p;
    uint64_t d = p->n_embd, key = p->gdn_k * GDN_HEAD, value = p->gdn_v * GDN_HEAD, conv = 2 * key + value;
    matrix(m, 1, d, conv, "blk.%u.attn_qkv.weight", il);
    matrix(m, 1, d, value, "blk.%u.attn_gate.weight", il);
    if (p->family == FAMILY_QWEN3NEXT) {
        matrix(m, 1, d, 2 * p->gdn_v, "blk.%u.ssm_ba.weight", il);
    } else {
        matrix(m, 1, d, p->gdn_v, "blk.%u.ssm_beta.weight", il);
        matrix(m, 1, d, p->gdn_v, "blk.%u.ssm_alpha.weight", il);
    }
    drawn(m, FILL_GAUSS, 0, 0.5f, GDN_CONV, conv, "blk.%u.ssm_conv1d.weight", il);
    drawn(m, FILL_UNIFORM, -5, 0, p->gdn_v, 1, "blk.%u.ssm_dt.bias", il);
    drawn(m, FILL_SSM_A, 0, 0, p->gdn_v, 1, "blk.%u.ssm_a", il);
    NORM(m, GDN_HEAD, "blk.%u.ssm_norm.weight", il);
    matrix(m, BRANCH_GAIN, value, d, "blk.%u.ssm_out.weight", il);
}

/* The router's input is divided by the width: its tanh gets numbers near 1, and the streams are mixed by some tenths. */
static void add_altup(struct mk_model *m, uint32_t il)
{
    uint64_t d = m->p->n_embd;
    matrix(m, (float)d, d, MK_STREAMS, "blk.%u.altup_router.weight", il);
    NORM(m, d, "blk.%u.altup_router_norm.weight", il);
    drawn(m, FILL_GAUSS, 0, 0.1f, MK_STREAMS, MK_STREAMS * MK_STREAMS, "blk.%u.altup_predict_coef.weight", il);
    drawn(m, FILL_GAUSS, 0, 0.2f, MK_STREAMS, MK_STREAMS, "blk.%u.altup_correct_coef.weight", il);
    NORM(m, d, "blk.%u.altup_correct_scale.weight", il);
    matrix(m, 1, d, m->p->laurel, "blk.%u.laurel_l.weight", il);
    matrix(m, 1, m->p->laurel, d, "blk.%u.laurel_r.weight", il);
    NORM(m, d, "blk.%u.laurel_post_norm.weight", il);
}

static void add_dense_ffn(struct mk_model *m, uint32_t il)
{
    uint32_t n_ff = mk_n_ff(m, il);
    matrix(m, 1, m->p->n_embd, n_ff, "blk.%u.ffn_gate.weight", il);
    matrix(m, 1, m->p->n_embd, n_ff, "blk.%u.ffn_up.weight", il);
    matrix(m, BRANCH_GAIN, n_ff, m->p->n_embd, "blk.%u.ffn_down.weight", il);
}

static void add_experts(struct mk_model *m, uint32_t il)
{
    const struct preset *p = m->p;
    uint64_t d = p->n_embd, ff = p->n_ff_exp, n = p->n_expert;
    bool g4 = p->family == FAMILY_GEMMA4;
    /* gemma4's router reads a vector that was divided by sqrt(n_embd) */
    matrix(m, g4 ? ROUTER_GAIN * sqrtf((float)d) : ROUTER_GAIN, d, n, "blk.%u.ffn_gate_inp.weight", il);
    if (g4) {
        NORM(m, d, "blk.%u.ffn_gate_inp.scale", il);
        experts(m, 1, d, 2 * ff, "blk.%u.ffn_gate_up_exps.weight", il);
    } else {
        experts(m, 1, d, ff, "blk.%u.ffn_gate_exps.weight", il);
        experts(m, 1, d, ff, "blk.%u.ffn_up_exps.weight", il);
    }
    experts(m, BRANCH_GAIN, ff, d, "blk.%u.ffn_down_exps.weight", il);
    if (g4)
        NORM(m, n, "blk.%u.ffn_down_exps.scale", il);
    if (p->family == FAMILY_GPT_OSS) {
        BIAS(m, n, 1, "blk.%u.ffn_gate_inp.bias", il);
        BIAS(m, ff, n, "blk.%u.ffn_gate_exps.bias", il);
        BIAS(m, ff, n, "blk.%u.ffn_up_exps.bias", il);
        BIAS(m, d, n, "blk.%u.ffn_down_exps.bias", il);
    }
    if (p->n_ff_shexp) {
        drawn(m, FILL_GAUSS, 0, 1 / sqrtf((float)d), d, 1, "blk.%u.ffn_gate_inp_shexp.weight", il);
        matrix(m, 1, d, p->n_ff_shexp, "blk.%u.ffn_gate_shexp.weight", il);
        matrix(m, 1, d, p->n_ff_shexp, "blk.%u.ffn_up_shexp.weight", il);
        matrix(m, BRANCH_GAIN, p->n_ff_shexp, d, "blk.%u.ffn_down_shexp.weight", il);
    }
}

static void add_layer(struct mk_model *m, uint32_t il)
{
    const struct preset *p = m->p;
    enum model_family f = p->family;
    uint64_t d = p->n_embd;
    bool gemma = f == FAMILY_GEMMA3 || f == FAMILY_GEMMA3N || f == FAMILY_GEMMA4;
    float post = LOGIT_STD * BRANCH_GAIN; /* gemma's embeddings enter with the size of its logits */
    NORM(m, d, "blk.%u.attn_norm.weight", il);
    if (is_hybrid(f) && (il + 1) % 4 != 0)
        add_deltanet(m, il);
    else
        add_attention(m, il);
    if (gemma || is_hybrid(f) || f == FAMILY_GPT_OSS)
        drawn(m, FILL_GAUSS, gemma ? post : 1, 0.1f, d, 1, "blk.%u.post_attention_norm.weight", il);
    if (!is_hybrid(f) && f != FAMILY_GPT_OSS)
        NORM(m, d, "blk.%u.ffn_norm.weight", il);
    if (!p->n_expert || f == FAMILY_GEMMA4)
        add_dense_ffn(m, il);
    if (p->n_expert)
        add_experts(m, il);
    if (gemma)
        drawn(m, FILL_GAUSS, post, 0.1f, d, 1, "blk.%u.post_ffw_norm.weight", il);
    if (f == FAMILY_GEMMA4) {
        if (p->n_expert) {
            NORM(m, d, "blk.%u.post_ffw_norm_1.weight", il);
            NORM(m, d, "blk.%u.pre_ffw_norm_2.weight", il);
            NORM(m, d, "blk.%u.post_ffw_norm_2.weight", il);
        }
    }
    if (p->n_ple) {
        matrix(m, 1, d, p->n_ple, "blk.%u.inp_gate.weight", il);
        matrix(m, 1, p->n_ple, d, "blk.%u.proj.weight", il);
        drawn(m, FILL_GAUSS, post, 0.1f, d, 1, "blk.%u.post_norm.weight", il);
    }
    if (f == FAMILY_GEMMA4)
        NORM(m, 1, "blk.%u.layer_output_scale.weight", il);
    if (f == FAMILY_GEMMA3N)
        add_altup(m, il);
}

static void add_tensors(struct mk_model *m)
{
    const struct preset *p = m->p;
    uint64_t d = p->n_embd;
    float head = LOGIT_STD / sqrtf((float)d);
    drawn(m, FILL_GAUSS, 0, p->tied ? head : 1, d, p->n_vocab, "token_embd.weight");
    drawn(m, p->tied ? FILL_SIGNED : FILL_GAUSS, 1, 0.1f, d, 1, "output_norm.weight");
    if (!p->tied)
        drawn(m, FILL_GAUSS, 0, head, d, p->n_vocab, "output.weight");
    if (p->family == FAMILY_GEMMA4)
        drawn(m, FILL_ROPE_GEMMA4, 0, 0, p->head_dim / 2, 1, "rope_freqs.weight");
    else if (p->rope_freqs)
        drawn(m, FILL_ROPE_LLAMA3, p->rope_base, 8, p->head_dim / 2, 1, "rope_freqs.weight");
    if (p->rope_orig && p->family == FAMILY_LLAMA) { /* of the size that Phi-3's have */
        drawn(m, FILL_RAMP, 1, 2.5f, p->head_dim / 2, 1, "rope_factors_short.weight");
        drawn(m, FILL_RAMP, 1, 60, p->head_dim / 2, 1, "rope_factors_long.weight");
    }
    if (p->n_ple) { /* both parts of what a layer gets have the size 1 */
        uint64_t n = (uint64_t)p->n_ple * m->n_layer;
        drawn(m, FILL_GAUSS, 0, 1 / sqrtf((float)p->n_ple), n, p->n_vocab, "per_layer_token_embd.weight");
        matrix(m, 1, d, n, "per_layer_model_proj.weight");
        NORM(m, p->n_ple, "per_layer_proj_norm.weight");
    }
    if (is_gemma3n(m)) {
        stack(m, 1, d, d, MK_STREAMS - 1, "altup_proj.weight");
        stack(m, 1, d, d, MK_STREAMS - 1, "altup_unembd_proj.weight");
    }
    for (uint32_t il = 0; il < m->n_layer; il++)
        add_layer(m, il);
    if (p->pooling == POOLING_RANK)
        drawn(m, FILL_GAUSS, 0, head, d, 2, "cls.output.weight");
}

uint64_t mk_tensor_bytes(const struct mk_tensor *t)
{
    return qtype_row_bytes(t->type, t->ne[0]) * t->ne[1] * t->ne[2] * t->ne[3];
}

uint64_t mk_model_bytes(const struct mk_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += mk_tensor_bytes(&m->t[i]);
    return n;
}

/* Types of codebooks: here a name means every matrix, of random codes. */
static bool is_book(const char *type)
{
#define QTYPE_BOOK(NAME, ...)                                                                                          \
    if (strcasecmp(type, #NAME) == 0)                                                                                  \
        return true;
#include "kernels/qtypes.def"
    return false;
}

static bool has_tensor(const struct mk_model *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return true;
    return false;
}

/* What is looked up, and what files have no number beside. */
static bool is_no_product(const char *name)
{
    return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0 ||
           strcmp(name, "cls.output.weight") == 0;
}

/* The numbers beside NVFP4 matrices, one for each of the n_dims' last. */
static void add_scales(struct mk_model *m, uint32_t n_dims)
{
    for (size_t i = 0, n = m->n; i < n; i++) {
        char name[sizeof m->t->name + 8];
        const struct mk_tensor *t = &m->t[i];
        int base = (int)strlen(t->name) - (int)strlen(".weight");
        if (t->type != QT_NVFP4 || t->n_dims != n_dims || is_no_product(t->name))
            continue;
        snprintf(name, sizeof name, "%.*s.scale", base, t->name); /* gemma4's experts have one anyway */
        if (!has_tensor(m, name))
            drawn(m, FILL_UNIFORM, 0.8f, 1.25f, n_dims == 3 ? t->ne[2] : 1, 1, "%.*s.scale", base, m->t[i].name);
    }
}

void mk_model_expert_scales(struct mk_model *m)
{
    add_scales(m, 3);
}

int mk_model_init(struct mk_model *m, const struct preset *p, uint32_t n_layer, const char *type, struct err *e)
{
    struct quant_recipe r;
    *m = (struct mk_model){ .p = p, .n_layer = n_layer ? n_layer : p->n_layer, .arch = arch_names[p->family] };
    int rc = quant_recipe_parse(type ? type : p->recipe, type && (p->tiny || is_book(type)), &r, NULL);
    if (rc) /* of a tiny model a type's name means every matrix, and only the recipes' own names mean recipes */
        rc = quant_recipe_parse(type ? type : p->recipe, false, &r, e);
    if (rc)
        return rc;
    m->file_type = r.file_type;
    add_tensors(m);
    struct quant_item *items = calloc(m->n, sizeof *items);
    CHECK(items != NULL);
    for (size_t i = 0; i < m->n; i++) {
        items[i] = (struct quant_item){ m->t[i].name, m->t[i].n_dims, { 0 }, m->t[i].type };
        memcpy(items[i].ne, m->t[i].ne, sizeof items[i].ne);
    }
    struct quant_shape s = { m->arch, m->n_layer, p->n_expert, p->n_head, p->n_head_kv, false };
    quant_recipe_types(&r, &s, items, m->n);
    for (size_t i = 0; i < m->n; i++)
        m->t[i].type = !p->tiny && strcmp(m->t[i].name, "per_layer_model_proj.weight") == 0 ? QT_BF16 : items[i].type;
    free(items);
    add_scales(m, 2);
    return 0;
}

void mk_model_finish(struct mk_model *m)
{
    free(m->t);
    m->t = NULL;
}
