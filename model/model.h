/* model/model.h
 * A model as its file describes it: one struct of hyper-parameters for every family, and the tensors by role. Reading
 * checks all of it (presence, types, shapes against the hyper-parameters), so that whoever holds a `struct model` may
 * trust every field. Shapes are in GGUF order, contiguous dimension first: a weight [n_in, n_out] holds n_out rows.
 *
 * Types: matrices and expert stacks have any type of kernels/qtypes.def (routers too, though files keep them F32);
 * everything of one dimension (norms, biases, sinks, scales) and the DeltaNet convolution taps are F32, anything else
 * is refused. Bounds that every model keeps (model_read checks them): n_embd <= 2^20, n_ff <= 2^24, n_head <= 2^14,
 * head_dim <= 2^12, so that products of two of them fit in 64 bits and n_head * head_dim in 31. */
#ifndef ZINC_MODEL_MODEL_H
#define ZINC_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"

/* X(enum name, general.architecture) */
#define MODEL_FAMILIES(X)                                                                                              \
    X(LLAMA, "llama") X(QWEN2, "qwen2") X(QWEN3, "qwen3") X(QWEN3MOE, "qwen3moe") X(QWEN3NEXT, "qwen3next") X(QWEN35, "qwen35")          \
    X(QWEN35MOE, "qwen35moe") X(GEMMA3, "gemma3") X(GEMMA3N, "gemma3n") X(GEMMA4, "gemma4")                               \
    X(GPT_OSS, "gpt-oss") X(MISTRAL3, "mistral3")

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
/* What a file is made for beside text: a vector, or scores, for a whole sequence. Values as in `ARCH.pooling_type`
 * (ggml-org/llama.cpp, include/llama.h, enum llama_pooling_type; ollama/ollama, ml/nn/pooling/pooling.go). */
enum model_pooling {
    POOLING_NONE,  /* nothing: the model continues text                              */
    POOLING_MEAN,  /* the mean of all positions' final states                        */
    POOLING_CLS,   /* the first position's                                           */
    POOLING_LAST,  /* the last position's                                            */
    POOLING_RANK,  /* scores for labels, by a product of its own at the last position */
    POOLING_COUNT,
};

enum moe_gating { GATING_SOFTMAX /* softmax over all, top-k, renormalise */, GATING_TOPK_SOFTMAX /* gpt-oss */ };

/* YaRN, linear scaling and longrope; the formulas: model/rope.h. */
struct rope_params {
    float base;         /* > 0                                                  */
    float freq_scale;   /* 1 / factor; 1: none                                  */
    float ext_factor;   /* 1 for YaRN, 0 otherwise                              */
    float mscale;       /* multiplies cos and sin, as it is; 1 without YaRN (unless the file says otherwise) */
    float beta_fast, beta_slow;
    uint32_t n_ctx_orig;
    uint32_t n_rot;     /* rotated dimensions of a head, even                   */
    enum rope_kind kind;
};

struct model_layer {
    enum layer_kind kind;
    uint32_t n_head, n_head_kv, head_dim; /* attention layers; head_dim of q, k and v           */
    uint32_t n_ff;                        /* dense FFN; 0: none (gemma4 has it beside the experts) */
    uint32_t window;                      /* sliding window in positions, the query included; 0: full */
    uint32_t n_expert_used;
    uint32_t n_ff_exp;
    struct rope_params rope;
    float attn_scale;                     /* multiplies q.k before the softmax                  */
    bool q_gate;                          /* wq rows hold query and gate, interleaved per head: [n_embd, 2 n_head hd] */
    bool v_from_k;                        /* gemma4, no wv: v is the raw output of wk, before norm and rope */
    bool v_norm;                          /* gemma3n, gemma4: weightless RMSNorm of v per head            */
    uint32_t kv_from;                     /* the layer whose KV cache this one reads; its own index where it has wk.
                                             sharing layers (gemma3n, gemma4) have wq only: no wk, wv, k_norm */
    bool sparse;                          /* gemma3n: of the FFN's gate only what lies sparse_cut standard deviations above */
    float sparse_cut;                     /* its mean is left                                   */

    /* NULL: this layer has none. */
    const struct gguf_tensor *attn_norm, *post_attn_norm /* gemma: after attention, inside the residual */;
    const struct gguf_tensor *wq, *wk, *wv, *wqkv /* q, k, v rows in one */, *wo;
    const struct gguf_tensor *bq, *bk, *bv, *bqkv, *bo;
    const struct gguf_tensor *q_norm, *k_norm /* [head_dim] */, *sinks /* [n_head] */;
    const struct gguf_tensor *rope_freqs; /* divisors [n_rot / 2] of this layer's frequencies     */
    const struct gguf_tensor *rope_long;  /* longrope: in their place in a context beyond rope.n_ctx_orig (rope_divisors) */
    /* key = gdn_n_k * gdn_head_dim, value = gdn_n_v * gdn_head_dim, conv = 2 key + value:
     * qkv [n_embd, conv], gate [n_embd, value], alpha and beta [n_embd, n_v] or ba [n_embd, 2 n_v] (per k-head: r betas,
     * r alphas, r = n_v / n_k), conv [kernel, conv], dt and a [n_v], norm [head_dim], out [value, n_embd] */
    const struct gguf_tensor *gdn_qkv, *gdn_gate, *gdn_alpha, *gdn_beta, *gdn_ba, *gdn_conv, *gdn_dt, *gdn_a, *gdn_norm,
        *gdn_out;
    const struct gguf_tensor *ffn_norm /* in front of the FFN, whatever the file calls it */, *post_ffn_norm;
    const struct gguf_tensor *ffn_gate, *ffn_up, *ffn_down;
    const struct gguf_tensor *router, *router_b;
    const struct gguf_tensor *exp_gate, *exp_up, *exp_gate_up, *exp_down; /* [n_in, n_out, n_expert] */
    const struct gguf_tensor *exp_gate_b, *exp_up_b, *exp_down_b;         /* [n_out, n_expert]       */
    /* [n_expert], what multiplies each expert's products (".scale": NVFP4, gemma4); NULL: 1. Of exp_gate_up both are one. */
    const struct gguf_tensor *exp_gate_scale, *exp_up_scale, *exp_down_scale;
    const struct gguf_tensor *shexp_gate, *shexp_up, *shexp_down, *shexp_router /* [n_embd] */;
    /* gemma4 with experts: router input scale [n_embd], norms [n_embd] */
    const struct gguf_tensor *router_scale, *post_ffn_norm_1, *pre_ffn_norm_2, *post_ffn_norm_2;
    /* gemma3n and gemma4, per-layer embeddings: gate [n_embd, n_embd_ple], proj [n_embd_ple, n_embd], norm [n_embd] */
    const struct gguf_tensor *ple_gate, *ple_proj, *ple_norm;
    /* gemma3n. Alternating updates: router [n_embd, 4] and its norm [n_embd], F32 predict [4, 16], correct [4, 4], scale [n_embd].
     * Learned residual: left [n_embd, rank], right [rank, n_embd], norm [n_embd] */
    const struct gguf_tensor *altup_router, *altup_router_norm, *altup_predict, *altup_correct, *altup_scale;
    const struct gguf_tensor *laurel_l, *laurel_r, *laurel_norm;
    const struct gguf_tensor *out_scale; /* gemma4: [1], multiplies the residual stream at the end of the layer */
};

struct model {
    const struct gguf *gguf;   /* must outlive the model */
    enum model_family family;
    char name[128];            /* general.name, or the file's base name */
    uint32_t n_layer;          /* without multi-token-prediction blocks */
    uint32_t n_nextn;          /* multi-token-prediction blocks after them in the file; not read */
    uint32_t n_ctx_train, n_embd, n_vocab;
    float norm_eps;
    float embed_scale;         /* 1, or sqrt(n_embd) for gemma          */
    float attn_temp;           /* queries are multiplied by 1 + attn_temp ln(1 + floor(pos / attn_temp_every)); 0: not */
    uint32_t attn_temp_every;
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

    uint32_t n_embd_ple;       /* gemma3n, gemma4: width of the per-layer embeddings; 0: none */

    enum model_pooling pooling; /* what the file says it is made for */
    const struct gguf_tensor *cls, *cls_b; /* POOLING_RANK: [n_embd, n_labels], [n_labels]; NULL: not in the file */
    uint32_t n_labels;

    const struct gguf_tensor *token_embd, *output_norm, *output /* token_embd when tied */, *rope_freqs;
    /* with n_embd_ple: [n_embd_ple * n_layer, n_vocab], [n_embd, n_embd_ple * n_layer], [n_embd_ple] */
    const struct gguf_tensor *ple_token_embd, *ple_model_proj, *ple_proj_norm;
    /* gemma3n: what makes the other three streams of the first, and what brings them back, [n_embd, n_embd, 3] */
    const struct gguf_tensor *altup_proj, *altup_unembd_proj;
    struct model_layer *layers; /* [n_layer] */

    /* Matrices whose products are multiplied by a number beside them, "<name>.scale": what NVFP4 leaves out. Others: 1 */
    struct model_scale {
        const struct gguf_tensor *w;
        const struct gguf_tensor *by; /* f32 [1] */
    } *scales;
    uint32_t n_scales;
};

/* Reads and checks the model in `g`. -EINVAL: what is missing or does not fit, by key or tensor name, expected and
 * found; -ENOTSUP: a family or feature that zinc does not run. */
int model_read(const struct gguf *g, struct model **out, struct err *e);
void model_free(struct model *m); /* NULL is fine */

const char *model_family_name(enum model_family f);
const char *model_pooling_name(enum model_pooling p); /* "none", "mean", "cls", "last", "rank" */

#endif
