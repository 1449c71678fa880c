/* model/quant_mix.h
 * Which type each tensor of a model gets: the recipes that quantised files are named after (Q4_K_M, ...), and the
 * rules that hold for all of them (what is never quantised, what takes a type's place when rows are ragged).
 * Source of the rules: ggml-org/llama.cpp, src/llama-quant.cpp.
 *
 *     struct quant_recipe r;
 *     quant_recipe_parse("Q4_K_M", &r, &e);
 *     quant_recipe_types(&r, &shape, items, n);      fills items[i].type
 */
#ifndef ZINC_MODEL_QUANT_MIX_H
#define ZINC_MODEL_QUANT_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/qtypes.h"

/* X(name, general.file_type, type of an ordinary matrix, help) */
#define QUANT_RECIPES(X)                                                                                             \
    X(F32, 0, F32, "every matrix f32")                                                                               \
    X(F16, 1, F16, "every matrix f16")                                                                               \
    X(BF16, 32, BF16, "every matrix bf16")                                                                           \
    X(Q8_0, 7, Q8_0, "8.5 bits a weight, hardly distinguishable from f16")                                           \
    X(Q6_K, 18, Q6_K, "6.6 bits")                                                                                    \
    X(Q5_K_S, 16, Q5_K, "Q5_K")                                                                                      \
    X(Q5_K_M, 17, Q5_K, "Q5_K, the sensitive half of attn_v and ffn_down Q6_K")                                      \
    X(Q4_K_M, 15, Q4_K, "Q4_K, the sensitive half of attn_v and ffn_down Q6_K: the usual choice")                    \
    X(Q4_K_S, 14, Q4_K, "Q4_K, the first attn_v and ffn_down Q5_K")                                                  \
    X(IQ4_XS, 30, IQ4_XS, "4.25 bits, non-linear codes")                                                             \
    X(IQ4_NL, 25, IQ4_NL, "4.5 bits, non-linear codes, rows of any multiple of 32")                                  \
    X(Q3_K_L, 13, Q3_K, "Q3_K, attn_v, attn_output and ffn_down Q5_K")                                               \
    X(Q3_K_M, 12, Q3_K, "Q3_K, attn_v, attn_output and ffn_down Q4_K or Q5_K")                                       \
    X(Q3_K_S, 11, Q3_K, "Q3_K")                                                                                      \
    X(IQ3_M, 27, IQ3_S, "IQ3_S, attn_v, attn_output and the first ffn_down Q4_K: 3.7 bits")                          \
    X(IQ3_S, 26, IQ3_S, "3.4 bits; this one and smaller ones want --imatrix")                                                     \
    X(IQ3_XS, 22, IQ3_S, "IQ3_S and IQ3_XXS: 3.3 bits")                                                              \
    X(IQ3_XXS, 23, IQ3_XXS, "IQ3_XXS, attn_q and attn_k IQ2_S, attn_output IQ3_S: 3.1 bits")                         \
    X(Q2_K, 10, Q2_K, "Q2_K, attention and ffn_down Q3_K or Q4_K")                                                   \
    X(Q2_K_S, 21, Q2_K, "Q2_K, the first ffn_down Q4_K")                                                             \
    X(IQ2_M, 29, IQ2_S, "IQ2_S, attention and the first ffn_down IQ3_S: 2.7 bits")                                   \
    X(IQ2_S, 28, IQ2_XS, "IQ2_XS, attention and the first ffn_down IQ3_S: 2.5 bits")                                 \
    X(IQ2_XS, 20, IQ2_XS, "2.3 bits")                                                                                \
    X(IQ2_XXS, 19, IQ2_XXS, "2.1 bits")                                                                              \
    X(IQ1_M, 31, IQ1_M, "1.8 bits")                                                                                  \
    X(IQ1_S, 24, IQ1_S, "1.6 bits")                                                                                  \
    X(TQ2_0, 37, TQ2_0, "for models trained with weights of -1, 0 and 1: 2.1 bits")                                  \
    X(TQ1_0, 36, TQ1_0, "the same in 1.7 bits")                                                                      \
    X(Q4_0, 2, Q4_0, "the oldest 4-bit type")                                                                        \
    X(Q4_1, 3, Q4_1, "Q4_0 with a minimum")                                                                          \
    X(Q5_0, 8, Q5_0, "5.5 bits, rows of any multiple of 32")                                                         \
    X(Q5_1, 9, Q5_1, "Q5_0 with a minimum")                                                                          \
    X(MXFP4_MOE, 38, Q8_0, "expert matrices MXFP4, the rest Q8_0")                                                   \
    X(NVFP4, 39, NVFP4, "every matrix NVFP4, 4.5 bits; weights below a hundredth lose much, as there is no scale beside them")  \
    X(UD_Q4_K_XL, 15, Q4_K, "experts Q4_K, their down projections Q5_K, everything else Q8_0, head Q6_K")

enum quant_recipe_id {
#define X(name, file_type, base, help) QR_##name,
    QUANT_RECIPES(X)
#undef X
    QR_COUNT
};

struct quant_recipe {
    enum quant_recipe_id id;
    enum qtype base;     /* of an ordinary matrix                                      */
    bool pure;           /* `base` for every matrix, the head included                 */
    uint32_t file_type;  /* general.file_type                                          */
    const char *name;
};

/* Facts about the model that the recipes look at. */
struct quant_shape {
    const char *arch;    /* general.architecture                                       */
    uint32_t n_layer;    /* block_count                                                */
    uint32_t n_expert;   /* 0: dense                                                   */
    uint32_t n_head, n_head_kv; /* of the first attention layer                        */
    bool importance;     /* there is an importance matrix                              */
};

struct quant_item {
    const char *name;    /* the tensor's                                               */
    uint32_t n_dims;
    uint64_t ne[4];
    enum qtype type;     /* in: as it is; out: as the recipe wants it                  */
};

/* A recipe's name, in any case; with `pure`, or for a type that is no recipe (Q4_K, Q5_K, Q3_K, MXFP4), a type's
 * name: then every matrix gets that type. -EINVAL with the list of names. */
int quant_recipe_parse(const char *name, bool pure, struct quant_recipe *out, struct err *e);

/* Whether the recipe leaves much to be desired without an importance matrix: types below 3.5 bits with codebooks. */
bool quant_recipe_wants_importance(const struct quant_recipe *r);

/* True for matrices that recipes may change; vectors, norms, routers, convolutions and the like stay as they are. */
bool quant_is_matrix(const struct quant_item *it);

/* Fills `type` of all items, which must be all tensors of the model, in any order. */
void quant_recipe_types(const struct quant_recipe *r, const struct quant_shape *s, struct quant_item *items,
                        size_t n);

/* `want`, or what takes its place when rows have `ne0` elements: a K type needs a multiple
 * of 256, the others of 32. */
enum qtype quant_fallback(enum qtype want, uint64_t ne0);

#endif
