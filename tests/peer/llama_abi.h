/* tests/peer/llama_abi.h
 * The part of libllama's public interface that llama_peer calls: the two parameter structs of its release v0.5.0, as
 * they lie in memory, and the functions. The structs are passed by value, so the layout has to be right: abi_check()
 * compares the library's own defaults with the values that this release is known to return. */
#ifndef ZINC_TESTS_PEER_LLAMA_ABI_H
#define ZINC_TESTS_PEER_LLAMA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lm_model_params {
    void *devices, *buft_overrides;
    int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
    const float *tensor_split;
    void *progress, *progress_data, *kv_overrides;
    bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
};

struct lm_context_params {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
    int32_t n_threads, n_threads_batch;
    int32_t ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
    float rope_freq_base, rope_freq_scale, yarn_ext, yarn_attn, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_thold;
    void *cb_eval, *cb_eval_data;
    int32_t type_k, type_v; /* of ggml: 0 f32, 1 f16, 8 q8_0 */
    void *abort_cb, *abort_data;
    bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    void *samplers;
    size_t n_samplers;
    void *ctx_other;
};

struct lm_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos, *n_seq_id, **seq_id;
    int8_t *logits;
};

/* Only its beginning: it is returned and passed by address, and the rest stays as the library fills it. */
struct lm_quantize_params {
    int32_t n_threads, file_type, output_type, embedding_type;
    bool allow_requantize, quantize_output, only_copy, pure, keep_split, dry_run;
    const struct lm_imatrix *imatrix;
    const void *kv_overrides;
    const struct lm_tensor_type *tensor_types;
    uint8_t rest[256];
};

/* The pattern is a regular expression; ends with a NULL one. */
struct lm_tensor_type {
    const char *pattern;
    int32_t type;
};

/* Ends with a NULL name. */
struct lm_imatrix {
    const char *name;
    const float *data;
    size_t n;
};

/* X(return type, name in struct lm, symbol, parameters) */
#define LM_FUNCS(X)                                                                                                    \
    X(void, log_set, "llama_log_set", (void (*)(int, const char *, void *), void *))                                   \
    X(void, backend_init, "llama_backend_init", (void))                                                                \
    X(struct lm_model_params, model_defaults, "llama_model_default_params", (void))                                    \
    X(struct lm_context_params, context_defaults, "llama_context_default_params", (void))                              \
    X(void *, model_load, "llama_model_load_from_file", (const char *, struct lm_model_params))                        \
    X(void, model_free, "llama_model_free", (void *))                                                                  \
    X(void *, context_create, "llama_init_from_model", (void *, struct lm_context_params))                             \
    X(void, context_free, "llama_free", (void *))                                                                      \
    X(void *, memory, "llama_get_memory", (void *))                                                                    \
    X(void, memory_clear, "llama_memory_clear", (void *, bool))                                                        \
    X(struct lm_batch, batch_one, "llama_batch_get_one", (int32_t *, int32_t))                                         \
    X(int32_t, decode, "llama_decode", (void *, struct lm_batch))                                                      \
    X(void, synchronize, "llama_synchronize", (void *))                                                                \
    X(float *, logits_ith, "llama_get_logits_ith", (void *, int32_t))                                                  \
    X(int32_t, pooling, "llama_pooling_type", (const void *))                                                          \
    X(float *, embeddings_seq, "llama_get_embeddings_seq", (void *, int32_t))                                          \
    X(int32_t, n_embd, "llama_model_n_embd", (const void *))                                                           \
    X(uint32_t, n_cls_out, "llama_model_n_cls_out", (const void *))                                                    \
    X(const void *, vocab, "llama_model_get_vocab", (const void *))                                                    \
    X(int32_t, n_tokens, "llama_vocab_n_tokens", (const void *))                                                       \
    X(bool, add_bos, "llama_vocab_get_add_bos", (const void *))                                                        \
    X(int32_t, bos, "llama_vocab_bos", (const void *))                                                                 \
    X(bool, is_eog, "llama_vocab_is_eog", (const void *, int32_t))                                                     \
    X(struct lm_quantize_params, quantize_defaults, "llama_model_quantize_default_params", (void))                     \
    X(uint32_t, quantize, "llama_model_quantize", (const char *, const char *, const struct lm_quantize_params *))     \
    X(int32_t, tokenize, "llama_tokenize", (const void *, const char *, int32_t, int32_t *, int32_t, bool, bool))

struct lm {
#define X(ret, name, symbol, params) ret(*name) params;
    LM_FUNCS(X)
#undef X
    void *(*backend_load)(const char *path);          /* of libggml */
    void (*backend_load_all)(const char *dir);
};

/* NULL, or which default is not the one of the release that llama_abi.h describes. */
static inline const char *abi_check(const struct lm *lm)
{
    struct lm_model_params m = lm->model_defaults();
    struct lm_context_params c = lm->context_defaults();
    if (m.devices || m.buft_overrides || m.n_gpu_layers != -1 || m.split_mode != 1 || m.load_mode != -1 ||
        m.lazy_mode != 1 || m.main_gpu || m.tensor_split || m.progress || m.kv_overrides)
        return "llama_model_default_params";
    if (m.vocab_only || m.check_tensors || !m.use_extra_bufts || m.no_host || m.no_alloc || m.load_mtp)
        return "llama_model_default_params (flags)";
    if (c.n_ctx != 512 || c.n_batch != 2048 || c.n_ubatch != 512 || c.n_seq_max != 1 || c.n_outputs_max_per_seq != 1 ||
        c.n_threads != c.n_threads_batch || c.rope_scaling_type != -1 || c.flash_attn_type != -1)
        return "llama_context_default_params";
    if (c.yarn_ext != -1.0f || c.yarn_beta_slow != -1.0f || c.defrag_thold != -1.0f || c.cb_eval || c.type_k != 1 ||
        c.type_v != 1 || c.abort_cb)
        return "llama_context_default_params (types)";
    if (c.embeddings || !c.offload_kqv || !c.no_perf || !c.op_offload || !c.swa_full || c.kv_unified || c.samplers ||
        c.n_samplers || c.ctx_other)
        return "llama_context_default_params (flags)";
    struct lm_quantize_params q = lm->quantize_defaults();
    if (q.n_threads || q.output_type != q.embedding_type || q.allow_requantize || !q.quantize_output || q.only_copy || q.pure || q.keep_split ||
        q.dry_run || q.imatrix || q.kv_overrides || q.tensor_types)
        return "llama_model_quantize_default_params";
    return NULL;
}

#endif
