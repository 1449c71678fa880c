/* model/model.h
 * A model as its file describes it: one struct of hyper-parameters for every family, and the tensors by role. Reading
 * checks all of it (presence, types, shapes against the hyper-parameters), so that whoever holds a `struct model` may
 * trust every field. Shapes are in GGUF order, contiguous dimension first: a weight [n_in, n_out] holds n_out rows. */
#ifndef ZINC_MODEL_MODEL_H
#define ZINC_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"

/* X(enum name, general.architecture) */
#define MODEL_FAMILIES(X)                                                                                              \
    X(LLAMA, "llama") X(QWEN3, "qwen3") X(QWEN3MOE, "qwen3moe") X(QWEN3NEXT, "qwen3next") X(QWEN35, "qwen35")          \
    X(QWEN35MOE, "qwen35moe") X(GEMMA3, "gemma3") X(GEMMA4, "gemma4") X(GPT_OSS, "gpt-oss")

enum model_family {
#define X(name, arch) FAMILY_##name,
    MODEL_FAMILIES(X)
#undef X
    FAMILY_COUNT
};

enum { MODEL_MAX_LAYERS = 512, MODEL_MAX_EXPERTS = 1024 };

enum rope_kind { ROPE_NORM /* pairs (2i, 2i+1) */, ROPE_NEOX /* pairs (i, i + n_rot/2) */ };
enum layer_kind { LAYER_ATTN, LAYER_GDN /* gated DeltaNet */ };
enum ffn_act { ACT_SILU, ACT_GELU_TANH, ACT_SWIGLU_OAI };
enum moe_gating { GATING_SOFTMAX /* softmax over all, top-k, renormalise */, GATING_TOPK_SOFTMAX /* gpt-oss */ };

/* YaRN and linear scaling; DESIGN of the formula: model/rope.h. */
struct rope_params {
    float base;         /* > 0                                                  */
    float freq_scale;   /* 1 / factor; 1: none                                  */
    float ext_factor;   /* 1 for YaRN, 0 otherwise                              */
    float mscale;       /* multiplies cos and sin; 1 without YaRN               */
    float beta_fast, beta_slow;
    uint32_t n_ctx_orig;
    uint32_t n_rot;     /* rotated dimensions of a head, even                   */
    enum rope_kind kind;
};

struct model_layer {
    enum layer_kind kind;
    uint32_t n_head, n_head_kv, head_dim; /* attention layers; head_dim of q, k and v           */
    uint32_t n_ff;                        /* dense FFN; 0: none                                 */
    uint32_t window;                      /* sliding window in positions, the query included; 0: full */
    uint32_t n_expert_used;
    uint32_t n_ff_exp;
    struct rope_params rope;
    float attn_scale;
    bool q_gate;                          /* wq rows hold query and gate, interleaved per head  */

    /* NULL: this layer has none. */
    const struct gguf_tensor *attn_norm, *post_attn_norm /* gemma: after attention, inside the residual */;
    const struct gguf_tensor *wq, *wk, *wv, *wqkv /* q, k, v rows in one */, *wo;
    const struct gguf_tensor *bq, *bk, *bv, *bo;
    const struct gguf_tensor *q_norm, *k_norm, *sinks;
    const struct gguf_tensor *gdn_qkv, *gdn_gate, *gdn_alpha, *gdn_beta, *gdn_ba, *gdn_conv, *gdn_dt, *gdn_a, *gdn_norm,
        *gdn_out;
    const struct gguf_tensor *ffn_norm, *post_ffn_norm;
    const struct gguf_tensor *ffn_gate, *ffn_up, *ffn_down;
    const struct gguf_tensor *router, *router_b;
    const struct gguf_tensor *exp_gate, *exp_up, *exp_gate_up, *exp_down; /* [n_in, n_out, n_expert] */
    const struct gguf_tensor *exp_gate_b, *exp_up_b, *exp_down_b;         /* [n_out, n_expert]       */
    const struct gguf_tensor *shexp_gate, *shexp_up, *shexp_down, *shexp_router /* [n_embd] */;
    const struct gguf_tensor *out_scale; /* gemma4: [1] */
};

struct model {
    const struct gguf *gguf;   /* must outlive the model */
    enum model_family family;
    char name[128];            /* general.name, or the file's base name */
    uint32_t n_layer;          /* without multi-token-prediction blocks */
    uint32_t n_ctx_train, n_embd, n_vocab;
    float norm_eps;
    float embed_scale;         /* 1, or sqrt(n_embd) for gemma          */
    float logit_softcap;       /* 0: none                               */
    enum ffn_act act;
    uint32_t n_expert;         /* 0: dense                              */
    enum moe_gating gating;
    float expert_scale;        /* 1: none                               */
    uint32_t n_ff_shexp;       /* 0: no shared expert                   */
    /* gated DeltaNet */
    uint32_t gdn_conv_kernel, gdn_head_dim, gdn_n_k, gdn_n_v;
    bool gdn_grouped_heads;    /* qwen3next: v-head h uses k-head h / r; else h % n_k */
    uint64_t n_params;         /* elements of all tensors used          */

    const struct gguf_tensor *token_embd, *output_norm, *output /* token_embd when tied */, *rope_freqs;
    struct model_layer *layers; /* [n_layer] */
};

/* Reads and checks the model in `g`. -EINVAL: what is missing or does not fit, by key or tensor name, expected and
 * found; -ENOTSUP: a family or feature that zinc does not run. */
int model_read(const struct gguf *g, struct model **out, struct err *e);
void model_free(struct model *m); /* NULL is fine */

const char *model_family_name(enum model_family f);

#endif
