/* model/model_read.h
 * Private to the model reader: the helpers over which each family's function is written. The first failure sticks
 * (`rc`, with its message in `e`); after it the helpers do nothing and return harmless values, so that a family reads
 * as a list of what it wants. */
#ifndef ZINC_MODEL_MODEL_READ_H
#define ZINC_MODEL_MODEL_READ_H

#include "model/model.h"

struct reading {
    const struct gguf *g;
    struct model *m;
    const char *arch;
    struct err *e;
    int rc;
    uint32_t n_blocks; /* m->n_layer + m->n_nextn: the length of per-layer arrays */
    bool *used;        /* [g->n_tensors] */
};

/* Messages get the file's path in front. Keeps the first one. */
__attribute__((cold, format(printf, 3, 4))) void read_fail(struct reading *r, int code, const char *fmt, ...);

/* --- keys: names are given without the "arch." in front ---------------------------------------------------------- */

#define KEY_REQUIRED (-1) /* in place of a default */

bool key_present(struct reading *r, const char *key);
/* An integer within [lo, hi]; a default is not checked. */
uint32_t key_u32(struct reading *r, const char *key, int64_t def, uint32_t lo, uint32_t hi);
/* The value for block `il` of a scalar or an array of n_blocks elements. */
uint32_t key_u32_at(struct reading *r, const char *key, uint32_t il, int64_t def, uint32_t lo, uint32_t hi);
float key_f32(struct reading *r, const char *key, float def);          /* finite                */
float key_f32_positive(struct reading *r, const char *key, float def); /* > 0; def 0: required  */

/* --- tensors: NULL when absent (and optional) or after a failure; `il` -1: the name as it is, else below blk.<il>. - */

enum need { OPTIONAL, REQUIRED };

const struct gguf_tensor *read_vec(struct reading *r, int il, const char *name, enum need need, uint64_t n);
const struct gguf_tensor *read_mat(struct reading *r, int il, const char *name, enum need need, uint64_t n_in,
                                   uint64_t n_out);
const struct gguf_tensor *read_mats(struct reading *r, int il, const char *name, enum need need,
                                    uint64_t n_in, uint64_t n_out, uint64_t n);
const struct gguf_tensor *read_f32_mat(struct reading *r, int il, const char *name, enum need need,
                                       uint64_t ne0, uint64_t ne1);
bool has_tensor(struct reading *r, int il, const char *name);

/* --- pieces that families share ---------------------------------------------------------------------------------- */

/* Head counts of an attention layer, and its head size by attention.key_length. */
void read_heads(struct reading *r, uint32_t il);
void read_head_counts(struct reading *r, uint32_t il);
/* Head size by the two keys, which must agree; `def` when they are absent. */
uint32_t read_head_dim(struct reading *r, const char *k_key, const char *v_key, uint32_t def);
/* Rotary parameters with YaRN or linear scaling, for heads of `head_dim`. */
struct rope_params read_rope(struct reading *r, uint32_t head_dim, enum rope_kind kind);
/* Global divisors of the frequencies, [n_rot / 2], all finite and above 0. */
const struct gguf_tensor *read_rope_freqs(struct reading *r, const char *name, enum need need, uint32_t n_rot);
/* Whether the file scales by longrope, which llama and mistral3 files may. */
bool has_longrope(struct reading *r);
/* wq, wk, wv or wqkv, wo; gate rows with q_gate. */
void read_projections(struct reading *r, uint32_t il);
void read_qk_norms(struct reading *r, uint32_t il);
/* Sets `window` on the sliding layers: by attention.sliding_window_pattern, flags per block or a period p (default
 * `period`; every p-th layer is full), where `window` is not 0. */
void read_windows(struct reading *r, uint32_t window, uint32_t period);
/* The keys of the expert FFN; n_ff_exp 0: fails. */
void read_expert_counts(struct reading *r, enum need need);
void read_dense_ffn(struct reading *r, uint32_t il);
void read_expert_ffn(struct reading *r, uint32_t il);

/* One per family: everything below the globals that model.c reads. */
void read_llama(struct reading *r);  /* and mistral3            */
void read_qwen2(struct reading *r);
void read_qwen3(struct reading *r);  /* and qwen3moe                */
void read_hybrid(struct reading *r); /* qwen3next, qwen35, qwen35moe */
void read_gemma3(struct reading *r);
void read_gemma3n(struct reading *r);
void read_gemma4(struct reading *r);
void read_gpt_oss(struct reading *r);

#endif
