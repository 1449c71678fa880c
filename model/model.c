#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "model/model_read.h"

enum { MAX_EMBD = 1 << 20, MAX_LABELS = 1 << 16 };

static const char *const family_name[FAMILY_COUNT] = {
#define X(name, arch) [FAMILY_##name] = arch,
    MODEL_FAMILIES(X)
#undef X
};

const char *model_family_name(enum model_family f)
{
    return (unsigned)f < FAMILY_COUNT ? family_name[f] : "?";
}

const char *model_pooling_name(enum model_pooling p)
{
    static const char *const name[POOLING_COUNT] = {"none", "mean", "cls", "last", "rank"};
    return (unsigned)p < POOLING_COUNT ? name[p] : "?";
}

static void read_family(struct reading *r)
{
    struct gguf_str arch = {0};
    r->rc = gguf_get_str(r->g, "general.architecture", &arch, r->e);
    if (r->rc)
        return;
    if (!arch.s) {
        read_fail(r, -EINVAL,
                  "key 'general.architecture' is missing: expected the name of a model family (convert the "
                  "model again)");
        return;
    }
    for (int f = 0; f < FAMILY_COUNT; f++)
        if (arch.len == strlen(family_name[f]) && memcmp(arch.s, family_name[f], arch.len) == 0) {
            r->m->family = (enum model_family)f;
            r->arch = family_name[f];
            return;
        }
    char list[160] = "";
    for (int f = 0; f < FAMILY_COUNT; f++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", f ? ", " : "", family_name[f]);
    read_fail(r, -ENOTSUP, "architecture '%.*s': zinc runs %s", (int)MIN(arch.len, 60), arch.s, list);
}

/* general.name, or what the file is called. */
static void read_name(struct reading *r)
{
    struct gguf_str s = {0};
    const struct gguf_kv *kv = gguf_find(r->g, "general.name");
    const char *slash = strrchr(gguf_path(r->g), '/');
    const char *base = slash ? slash + 1 : gguf_path(r->g);
    if (kv && kv->type == GGUF_STR && gguf_kv_str(kv, 0, &s) && s.len)
        snprintf(r->m->name, sizeof r->m->name, "%.*s", (int)MIN(s.len, sizeof r->m->name - 1), s.s);
    else
        snprintf(r->m->name, sizeof r->m->name, "%s", base);
    for (char *c = r->m->name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static void read_sizes(struct reading *r)
{
    struct model *m = r->m;
    r->n_blocks = key_u32(r, "block_count", KEY_REQUIRED, 1, MODEL_MAX_LAYERS);
    m->n_nextn = key_u32(r, "nextn_predict_layers", 0, 0, r->n_blocks - 1);
    m->n_layer = r->n_blocks - m->n_nextn;
    m->n_ctx_train = key_u32(r, "context_length", KEY_REQUIRED, 1, INT32_MAX);
    m->n_embd = key_u32(r, "embedding_length", KEY_REQUIRED, 1, MAX_EMBD);
    m->norm_eps = key_f32_positive(r, "attention.layer_norm_rms_epsilon", 0);
    if (key_u32(r, "attention.causal", 1, 0, 1) != 1)
        read_fail(r, -ENOTSUP, "key '%s.attention.causal' is false: zinc runs causal models", r->arch);
    if (r->rc)
        return;
    m->layers = calloc(m->n_layer, sizeof *m->layers);
    if (!m->layers)
        read_fail(r, -ENOMEM, "no memory for %u layers", m->n_layer);
    for (uint32_t il = 0; m->layers && il < m->n_layer; il++)
        m->layers[il].kv_from = il;
}

/* The token array of the vocabulary gives n_vocab; a file without one leaves it to token_embd. */
static void read_n_vocab(struct reading *r)
{
    const struct gguf_kv *tokens = gguf_find(r->g, "tokenizer.ggml.tokens");
    const struct gguf_tensor *t = gguf_find_tensor(r->g, "token_embd.weight");
    uint64_t n = tokens && tokens->type == GGUF_ARR ? tokens->n : t ? t->ne[1] : 1;
    if (n < 1 || n > INT32_MAX)
        read_fail(r, -EINVAL, "vocabulary of %llu tokens: expected 1 to 2^31 - 1 (the file is damaged)",
                  (unsigned long long)n);
    else
        r->m->n_vocab = (uint32_t)n;
}

static void read_globals(struct reading *r)
{
    struct model *m = r->m;
    m->embed_scale = 1;
    m->expert_scale = 1;
    if (!r->rc && !r->g->n_tensors)
        read_fail(r, -EINVAL, "the file holds a vocabulary and no tensors: expected a whole model");
    if (r->rc)
        return;
    read_n_vocab(r);
    m->token_embd = read_mat(r, -1, "token_embd.weight", REQUIRED, m->n_embd, m->n_vocab);
    m->output_norm = read_vec(r, -1, "output_norm.weight", REQUIRED, m->n_embd);
    enum need need = m->family == FAMILY_GPT_OSS ? REQUIRED : OPTIONAL;
    m->output = read_mat(r, -1, "output.weight", need, m->n_embd, m->n_vocab);
    if (!m->output)
        m->output = m->token_embd;
}

/* The product that gives a sequence its scores: of Qwen3-Reranker the rows of "yes" and "no" of the output matrix, which
 * the converter keeps as a matrix of their own (ggml-org/llama.cpp, conversion/qwen.py and pull request 15824). */
static void read_pooling(struct reading *r)
{
    struct model *m = r->m;
    const struct gguf_tensor *t = gguf_find_tensor(r->g, "cls.output.weight");
    m->pooling = (enum model_pooling)key_u32(r, "pooling_type", POOLING_NONE, 0, POOLING_COUNT - 1);
    if (r->rc || m->pooling != POOLING_RANK || !t)
        return;
    m->n_labels = t->ne[1] <= MAX_LABELS ? (uint32_t)t->ne[1] : 0;
    m->cls = read_mat(r, -1, "cls.output.weight", OPTIONAL, m->n_embd, m->n_labels);
    m->cls_b = read_vec(r, -1, "cls.output.bias", OPTIONAL, m->n_labels);
}

static void read_layers(struct reading *r)
{
    if (r->rc)
        return;
    switch (r->m->family) {
    case FAMILY_LLAMA:
    case FAMILY_MISTRAL3: read_llama(r); break;
    case FAMILY_QWEN2: read_qwen2(r); break;
    case FAMILY_QWEN3:
    case FAMILY_QWEN3MOE: read_qwen3(r); break;
    case FAMILY_QWEN3NEXT:
    case FAMILY_QWEN35:
    case FAMILY_QWEN35MOE: read_hybrid(r); break;
    case FAMILY_GEMMA3: read_gemma3(r); break;
    case FAMILY_GEMMA3N: read_gemma3n(r); break;
    case FAMILY_GEMMA4: read_gemma4(r); break;
    case FAMILY_GPT_OSS: read_gpt_oss(r); break;
    case FAMILY_COUNT: break;
    }
}

/* Whether `t` is "<base><suffix>" beside a "<base>.weight" that the model uses. */
static bool belongs_to_used(const struct reading *r, const struct gguf_tensor *t, const char *suffix)
{
    size_t n = strlen(suffix);
    if (t->name.len <= n || memcmp(t->name.s + t->name.len - n, suffix, n) != 0)
        return false;
    char weight[80];
    snprintf(weight, sizeof weight, "%.*s.weight", (int)(t->name.len - n), t->name.s);
    const struct gguf_tensor *w = gguf_find_tensor(r->g, weight);
    return w && r->used[w - r->g->tensors];
}

/* Takes "<name>.scale", one number, beside a matrix that is multiplied with; false: it is something else. */
static bool take_scale(struct reading *r, const struct gguf_tensor *t)
{
    static const char *const names[] = { "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up",
                                         "ffn_down", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ssm_alpha",
                                         "ssm_beta", "ssm_ba",
                                         "ssm_out", "inp_gate", "proj", "output" };
    char base[80], tensor[96];
    int n = (int)t->name.len - (int)strlen(".scale"), at = 0;
    snprintf(base, sizeof base, "%.*s", n, t->name.s);
    if (sscanf(base, "blk.%*u.%n", &at) < 0 || t->type != QT_F32 || t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] != 1)
        return false;
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known |= strcmp(base + at, names[i]) == 0;
    snprintf(tensor, sizeof tensor, "%s.weight", base);
    const struct gguf_tensor *w = gguf_find_tensor(r->g, tensor);
    if (!known || !w || w->ne[2] != 1)
        return false;
    struct model_scale *s = realloc(r->m->scales, (r->m->n_scales + 1) * sizeof *s);
    if (!s) {
        read_fail(r, -ENOMEM, "no memory for the model");
        return true;
    }
    r->m->scales = s;
    float by;
    memcpy(&by, t->data, sizeof by);
    if (!isfinite(by))
        read_fail(r, -EINVAL, "tensor '%.*s' is %g, expected a number to multiply with; the file is damaged", (int)t->name.len,
                  t->name.s, (double)by);
    if (by != 1)
        s[r->m->n_scales++] = (struct model_scale){ w, t };
    return true;
}

/* A bias or a scale that nobody asked for would change the result if it were left out. */
static void report_unused(struct reading *r)
{
    for (uint64_t i = 0; i < r->g->n_tensors && !r->rc; i++) {
        const struct gguf_tensor *t = &r->g->tensors[i];
        if (r->used[i])
            continue;
        if (belongs_to_used(r, t, ".scale") && take_scale(r, t))
            continue;
        if (belongs_to_used(r, t, ".scale") || belongs_to_used(r, t, ".bias"))
            read_fail(r, -ENOTSUP,
                      "tensor '%.*s': zinc does not apply it in %s models (take a conversion without it)",
                      (int)t->name.len, t->name.s, r->arch);
        else
            log_debug(GGUF, "%s: tensor '%.*s' is not used", gguf_path(r->g), (int)t->name.len, t->name.s);
    }
}

int model_read(const struct gguf *g, struct model **out, struct err *e)
{
    *out = NULL;
    struct reading r = {.g = g, .e = e};
    r.m = calloc(1, sizeof *r.m);
    r.used = calloc(MAX(g->n_tensors, 1), sizeof *r.used);
    if (!r.m || !r.used)
        read_fail(&r, -ENOMEM, "no memory for the model");
    if (!r.rc) {
        r.m->gguf = g;
        read_family(&r);
    }
    if (!r.rc) {
        read_name(&r);
        read_sizes(&r);
        read_globals(&r);
        read_layers(&r);
        read_pooling(&r);
        report_unused(&r);
    }
    free(r.used);
    if (r.rc) {
        model_free(r.m);
        return r.rc;
    }
    *out = r.m;
    return 0;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    free(m->layers);
    free(m->scales);
    free(m);
}
