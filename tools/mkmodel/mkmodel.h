/* tools/mkmodel/mkmodel.h
 * A synthetic model: a preset (shape), its tensors (layout.c), their contents (fill.c), a vocabulary (vocab.c) and
 * a chat template (template.c), written as one GGUF file (main.c). Everything is a function of the preset, the
 * options and the seed; the number of threads changes nothing. */
#ifndef ZINC_TOOLS_MKMODEL_H
#define ZINC_TOOLS_MKMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/qtypes.h"
#include "model/gguf_write.h"
#include "model/model.h"

struct preset {
    const char *name;
    enum model_family family;
    const char *recipe;    /* the default of --type: a recipe, or a type for every matrix                   */
    bool tiny;             /* weights are drawn as floats, then quantised; else random blocks               */
    bool tied;             /* no output.weight                                                              */
    enum model_pooling pooling; /* what it is made for beside text                                          */
    bool rope_freqs;       /* llama: Llama 3.1's frequency divisors                                         */
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff;
    uint32_t n_expert, n_used, n_ff_exp, n_ff_shexp;
    uint32_t n_vocab, n_ctx;
    uint32_t window;       /* gemma, gpt-oss: sliding window                                                */
    uint32_t gdn_k, gdn_v; /* gated DeltaNet: key heads, value heads (of 128)                               */
    uint32_t swa_head_dim, full_kv, full_every; /* gemma4: sliding layers' head; full layers' kv heads; period (gemma3n) */
    uint32_t laurel, sparse; /* gemma3n: rank of the learned residual; first layers of whose gates few are left */
    uint32_t n_ple, shared_kv; /* gemma3n, gemma4: width of the per-layer embeddings; last layers that read another's cache   */
    bool wide_shared;      /* gemma4: these have twice the feed-forward width                               */
    float rope_base;
    float rope_factor;     /* gemma3: linear scaling of full layers; 0: none                                */
    uint32_t rope_orig;    /* llama: scaled by longrope from this context on, mistral3: by YaRN; 0: not     */
};

extern const struct preset presets[];
extern const size_t n_presets;
const struct preset *preset_find(const char *name); /* NULL when absent */

/* How a tensor's values are drawn; a and b are the kind's parameters. */
enum fill {
    FILL_GAUSS,       /* mean a, standard deviation b                                    */
    FILL_SIGNED,      /* as FILL_GAUSS, each with a random sign                          */
    FILL_UNIFORM,     /* between a and b                                                 */
    FILL_SSM_A,       /* DeltaNet decay rates, -8 .. -0.1, most of them small            */
    FILL_ROPE_LLAMA3, /* the divisors of Llama 3.1 for base a, factor b                  */
    FILL_ROPE_GEMMA4, /* 1 for the first quarter, 1e30 after                             */
    FILL_RAMP,        /* from a for the first to b for the last                          */
};

struct mk_tensor {
    char name[64];
    uint32_t n_dims;
    uint64_t ne[4];
    enum qtype type;
    enum fill fill;
    float a, b;
};

struct mk_model {
    const struct preset *p;
    const char *arch;      /* general.architecture                    */
    uint32_t n_layer;      /* after --layers                          */
    uint32_t file_type;
    uint64_t seed;
    struct mk_tensor *t;   /* owned */
    size_t n, cap;
};

/* Lists the tensors with the types of `type` (NULL: the preset's recipe). Free with mk_model_finish. */
int mk_model_init(struct mk_model *m, const struct preset *p, uint32_t n_layer, const char *type, struct err *e);
/* Adds a number for each expert beside its NVFP4 matrices, as released files have them. */
void mk_model_expert_scales(struct mk_model *m);
void mk_model_finish(struct mk_model *m);
/* gemma4: does layer il read an earlier one's cache, and the width of its feed-forward block. */
enum { MK_STREAMS = 4 }; /* gemma3n */
bool mk_shares_kv(const struct mk_model *m, uint32_t il);
uint32_t mk_n_ff(const struct mk_model *m, uint32_t il);
uint64_t mk_tensor_bytes(const struct mk_tensor *t);
uint64_t mk_model_bytes(const struct mk_model *m); /* of tensor data */

/* The hyper-parameters. */
int mk_write_keys(const struct mk_model *m, struct gguf_writer *w, struct err *e);

/* The vocabulary, n_vocab tokens, and the chat template; or, without `vocab`, only their number. */
int mk_write_vocab(const struct mk_model *m, bool vocab, struct gguf_writer *w, struct err *e);
const char *chat_template(enum model_family f);
extern const char rerank_template[]; /* {query} and {document} are replaced */

/* Writes elements [first, first + n) of the tensor, whole blocks, to `dst`. Threads may fill different ranges. */
int mk_fill(const struct mk_model *m, const struct mk_tensor *t, uint64_t first, uint64_t n, void *dst,
            struct err *e);

#endif
