#include "engine/proof/op_cases.h"

/* int8 activations: two roundings of a block of 32 normal numbers; the weights themselves are exact in both modes. */
#define NMSE_INT8  3e-4
#define NMSE_FLOAT 1e-11
#define NMSE_MATH  1e-9

/* A matrix of type t, n_in at least n: ragged against panels of 16, and one row more than any power of two. */
#define PER_TYPE(t, s, n, limit)                                                                                       \
    { "embed/" s, make_embed, QT_##t, 5, n, 64, .max_nmse = 1e-13 },                                                   \
    { "matmul/" s "/smallest", make_matmul, QT_##t, 3, n, 1, .max_nmse = limit },                                      \
    { "matmul/" s "/ragged", make_matmul, QT_##t, 9, 3 * n, 53, .max_nmse = limit },                                   \
    { "matmul/" s "/norm+bias+scale+resid", make_matmul, QT_##t, 17, 512, 64,                                          \
      .flags = OF_NORM | OF_BIAS | OF_SCALE | OF_RESID, .max_nmse = limit },                                           \
    { "proj/" s, make_proj, QT_##t, 4, 256, 50, .flags = OF_NORM | OF_BIAS, .max_nmse = NMSE_INT8 },                   \
    { "gate_up/" s, make_gate_up, QT_##t, 5, 256, 40, .flags = OF_NORM, .max_nmse = 2 * limit },                       \
    { "moe_up/" s, make_moe_up, QT_##t, 7, 256, 24, .heads = 5, .arg = 2, .max_nmse = 2 * limit },                     \
    { "moe_down/" s, make_moe_down, QT_##t, 7, 256, 24, .heads = 5, .arg = 2, .flags = OF_RESID,                       \
      .max_nmse = limit },                                                                                             \
    { "router/" s, make_router, QT_##t, 2, 256, .heads = 9, .arg = 2, .flags = OF_NORM | OF_LATE, .max_nmse = 1e-3 },

/* The types of codebooks, which have kernels for few rows alone. */
#define PER_BOOK(t, s)                                                                                                 \
    { "embed/" s, make_embed, QT_##t, 5, 256, 64, .max_nmse = 1e-13 },                                                 \
    { "matmul/" s "/one row", make_matmul, QT_##t, 1, 1024, 53, .max_nmse = NMSE_INT8 },                               \
    { "matmul/" s "/ragged", make_matmul, QT_##t, 9, 768, 53, .max_nmse = NMSE_INT8 },                                 \
    { "gate_up/" s, make_gate_up, QT_##t, 3, 256, 40, .flags = OF_NORM, .max_nmse = 2 * NMSE_INT8 },                   \
    { "moe_up/" s, make_moe_up, QT_##t, 7, 256, 24, .heads = 5, .arg = 2, .max_nmse = 2 * NMSE_INT8 },                 \
    { "moe_down/" s, make_moe_down, QT_##t, 7, 256, 24, .heads = 5, .arg = 2, .flags = OF_RESID,                       \
      .max_nmse = NMSE_INT8 },                                                                                         \
    { "router/" s, make_router, QT_##t, 2, 256, .heads = 9, .arg = 2, .flags = OF_NORM | OF_LATE, .max_nmse = 1e-3 },

const struct op_case op_cases[] = {
#define QTYPE_FLOAT(NAME, name, ...)                 PER_TYPE(NAME, #name, 16, NMSE_FLOAT)
#define QTYPE_BLOCK(NAME, name, set, id, elems, ...) PER_TYPE(NAME, #name, elems, NMSE_INT8)
#define QTYPE_BOOK(NAME, name, ...)                  PER_BOOK(NAME, #name)
#include "kernels/qtypes.def"
    /* tiles of matrix units, whole and ragged, on the tiers that have them */
    { "matmul/prompt q4_k", make_matmul, QT_Q4_K, 70, 512, 200, .flags = OF_NORM | OF_BIAS | OF_SCALE | OF_RESID,
      .max_nmse = NMSE_INT8 },
    { "matmul/prompt q6_k", make_matmul, QT_Q6_K, 150, 768, 136, .max_nmse = NMSE_INT8 },
    { "matmul/prompt k 320", make_matmul, QT_Q8_0, 40, 320, 136, .max_nmse = NMSE_INT8 },
    { "matmul/prompt k 448", make_matmul, QT_Q5_1, 40, 448, 72, .max_nmse = NMSE_INT8 },
    { "proj/prompt q4_k and q6_k", make_proj, QT_Q4_K, 70, 256, 136, .flags = OF_WITH_Q6K, .max_nmse = NMSE_INT8 },
    { "proj/prompt q5_k and q6_k", make_proj, QT_Q5_K, 40, 256, 72, .flags = OF_WITH_Q6K, .max_nmse = NMSE_INT8 },
    { "proj/prompt q8_0", make_proj, QT_Q8_0, 70, 768, 150, .flags = OF_NORM | OF_BIAS, .max_nmse = NMSE_INT8 },
    { "gate_up/prompt q4_k", make_gate_up, QT_Q4_K, 70, 256, 136, .flags = OF_NORM | OF_BIAS,
      .max_nmse = 2 * NMSE_INT8 },
    { "moe_up/prompt q4_k", make_moe_up, QT_Q4_K, 70, 512, 80, .heads = 9, .arg = 4, .flags = OF_NORM | OF_BIAS,
      .max_nmse = 2 * NMSE_INT8 },
    { "moe_up/q4_k and q6_k", make_moe_up, QT_Q4_K, 6, 256, 24, .heads = 5, .arg = 2, .flags = OF_WITH_Q6K | OF_NORM,
      .max_nmse = 2 * NMSE_INT8 },
    { "moe_up/iq2_xxs and q6_k", make_moe_up, QT_IQ2_XXS, 6, 256, 24, .heads = 5, .arg = 2, .flags = OF_WITH_Q6K | OF_NORM,
      .max_nmse = 2 * NMSE_INT8 },
    { "proj/iq3_s and q6_k", make_proj, QT_IQ3_S, 4, 256, 72, .flags = OF_WITH_Q6K, .max_nmse = NMSE_INT8 },
    { "moe_down/prompt q5_k", make_moe_down, QT_Q5_K, 70, 256, 144, .heads = 9, .arg = 4, .flags = OF_RESID | OF_BIAS,
      .max_nmse = NMSE_INT8 },
    { "router/prompt 256", make_router, QT_F32, 40, 512, .heads = 256, .arg = 8, .flags = OF_NORM | OF_SHARE,
      .max_nmse = NMSE_MATH },
    { "matmul/one row", make_matmul, QT_Q4_K, 1, 1024, 272, .max_nmse = NMSE_INT8 },
    { "matmul/wide f16", make_matmul, QT_F16, 3, 9728, 40, .flags = OF_NORM | OF_RESID, .max_nmse = NMSE_MATH },
    { "matmul/wide one row", make_matmul, QT_F16, 1, 9728, 40, .flags = OF_BIAS, .max_nmse = NMSE_MATH },
    { "gate_up/wide", make_gate_up, QT_F16, 2, 9728, 24, .flags = OF_NORM, .max_nmse = NMSE_MATH },
    { "matmul/wide q8_0", make_matmul, QT_Q8_0, 2, 28672, 24, .max_nmse = NMSE_INT8 },
    { "matmul/softcap", make_matmul, QT_F32, 5, 64, 40, .flags = OF_SOFTCAP, .max_nmse = NMSE_MATH },
    { "matmul/output rows", make_matmul, QT_Q8_0, 6, 64, 33, .flags = OF_OUT | OF_NORM, .max_nmse = NMSE_INT8 },
    { "matmul/many rows", make_matmul, QT_Q4_0, 70, 96, 40, .flags = OF_BIAS, .max_nmse = NMSE_INT8 },
    { "gate_up/gelu+bias", make_gate_up, QT_F16, 6, 48, 37, .flags = OF_GELU | OF_BIAS, .max_nmse = NMSE_MATH },
    { "gate_up/oai+bias", make_gate_up, QT_MXFP4, 6, 64, 37, .flags = OF_OAI | OF_BIAS, .max_nmse = 2 * NMSE_INT8 },
    { "norm/plain", make_norm, .rows = 5, .n_in = 70, .max_nmse = NMSE_FLOAT },
    { "norm/weight+resid", make_norm, .rows = 5, .n_in = 192, .flags = OF_NORM | OF_RESID, .max_nmse = NMSE_FLOAT },
    { "norm/output rows", make_norm, .rows = 3, .n_in = 33, .flags = OF_NORM | OF_OUT, .max_nmse = NMSE_FLOAT },
    { "norm/weight+resid+scale", make_norm, .rows = 5, .n_in = 70, .flags = OF_NORM | OF_RESID | OF_OUT_SCALE,
      .max_nmse = NMSE_FLOAT },
    { "norm/scale", make_norm, .rows = 4, .n_in = 48, .flags = OF_OUT_SCALE, .max_nmse = NMSE_FLOAT },
    { "made/norm", make_made, QT_Q4_K, 3, 2304, 40, .flags = OF_RESID | OF_OUT_SCALE, .max_nmse = NMSE_INT8 },
    { "made/norm, normed", make_made, QT_Q8_0, 4, 4640, 24, .flags = OF_NORM | OF_RESID, .max_nmse = NMSE_INT8 },
    { "made/norm alone", make_made, QT_F16, 2, 264, 40, .flags = OF_NORM, .max_nmse = NMSE_MATH },
    { "made/act", make_made, QT_Q6_K, 3, 256, 40, .flags = OF_GELU, .max_nmse = NMSE_INT8 },
    { "norm/groups", make_norm, .rows = 5, .n_in = 7 * 96, .flags = OF_NORM | OF_RESID, .arg = 96, .max_nmse = NMSE_FLOAT },
    { "norm/groups+output rows", make_norm, .rows = 3, .n_in = 5 * 256, .flags = OF_NORM | OF_OUT, .arg = 256,
      .max_nmse = NMSE_FLOAT },
    { "act_mul", make_act_mul, .rows = 4, .n_in = 75, .max_nmse = NMSE_MATH },
    { "act_mul/gelu, rows apart", make_act_mul, .rows = 5, .n_in = 256, .flags = OF_GELU, .arg = 300, .max_nmse = NMSE_MATH },
    { "act_mul/oai, output rows", make_act_mul, .rows = 3, .n_in = 40, .flags = OF_OAI | OF_OUT, .max_nmse = NMSE_MATH },
    { "add", make_add, .rows = 4, .n_in = 75, .max_nmse = NMSE_FLOAT },
    { "add/scale", make_add, .rows = 4, .n_in = 75, .flags = OF_OUT_SCALE, .max_nmse = NMSE_FLOAT },

    { "rope/neox", make_rope, .rows = 20, .heads = 3, .kv = 1, .dim = 64, .max_nmse = NMSE_FLOAT },
    { "rope/adjacent", make_rope, .rows = 20, .heads = 2, .kv = 2, .dim = 32, .flags = OF_ADJACENT,
      .max_nmse = NMSE_FLOAT },
    { "rope/partial+norm+gate", make_rope, .rows = 9, .heads = 4, .kv = 2, .dim = 256,
      .flags = OF_PARTIAL | OF_NORM | OF_GATE, .max_nmse = NMSE_FLOAT },
    { "rope/q8_0 cache", make_rope, .rows = 20, .heads = 3, .kv = 1, .dim = 64, .flags = OF_Q8_KV,
      .max_nmse = NMSE_FLOAT },
    { "rope/q only, output rows", make_rope, .rows = 9, .heads = 4, .kv = 2, .dim = 64,
      .flags = OF_NORM | OF_Q_ONLY | OF_OUT, .max_nmse = NMSE_FLOAT },
    { "rope/q only", make_rope, .rows = 9, .heads = 4, .kv = 2, .dim = 64, .flags = OF_NORM | OF_Q_ONLY,
      .max_nmse = NMSE_FLOAT },

    { "attn/32", make_attn, .rows = 40, .heads = 4, .kv = 4, .dim = 32, .max_nmse = 1e-7 },
    { "attn/64 gqa 2", make_attn, .rows = 40, .heads = 4, .kv = 2, .dim = 64, .max_nmse = 1e-7 },
    { "attn/64 gqa 16, wide", make_attn, .rows = 300, .heads = 16, .kv = 1, .dim = 64, .max_nmse = 1e-7 },
    { "attn/128 gqa 4", make_attn, .rows = 37, .heads = 8, .kv = 2, .dim = 128, .flags = OF_NORM, .max_nmse = 1e-7 },
    { "attn/256 gqa 8 gate", make_attn, .rows = 33, .heads = 8, .kv = 1, .dim = 256,
      .flags = OF_NORM | OF_PARTIAL | OF_GATE, .max_nmse = 1e-7 },
    { "attn/64 gqa 3 f32", make_attn, .rows = 40, .heads = 6, .kv = 2, .dim = 64, .flags = OF_F32_KV | OF_ADJACENT,
      .max_nmse = NMSE_MATH },
    { "attn/64 gqa 7 v norm", make_attn, .rows = 21, .heads = 7, .kv = 1, .dim = 64, .flags = OF_V_NORM | OF_F32_KV,
      .max_nmse = NMSE_MATH },
    { "attn/512 gqa 4 v from k", make_attn, .rows = 37, .heads = 4, .kv = 1, .dim = 512,
      .flags = OF_NORM | OF_V_NORM | OF_V_IS_K | OF_F32_KV, .max_nmse = NMSE_MATH },
    { "attn/48 f32", make_attn, .rows = 20, .heads = 2, .kv = 1, .dim = 48, .flags = OF_F32_KV,
      .max_nmse = NMSE_MATH },
    { "attn/64 sinks", make_attn, .rows = 40, .heads = 8, .kv = 1, .dim = 64, .flags = OF_SINKS, .max_nmse = 1e-7 },
    { "attn/32 sinks window 5", make_attn, .rows = 60, .heads = 4, .kv = 2, .dim = 32, .flags = OF_SINKS, .arg = 5,
      .max_nmse = 1e-7 },
    { "attn/32 three tiles", make_attn, .rows = 600, .heads = 2, .kv = 1, .dim = 32, .max_nmse = 1e-7 },
    { "attn/32 window across tiles", make_attn, .rows = 560, .heads = 2, .kv = 1, .dim = 32, .arg = 270,
      .flags = OF_SINKS, .max_nmse = 1e-7 },
    { "attn/32 q8_0", make_attn, .rows = 40, .heads = 4, .kv = 4, .dim = 32, .flags = OF_Q8_KV, .max_nmse = 1e-6 },
    { "attn/64 gqa 7 q8_0", make_attn, .rows = 39, .heads = 7, .kv = 1, .dim = 64, .flags = OF_Q8_KV | OF_V_NORM,
      .max_nmse = 1e-6 },
    { "attn/96 gqa 3 q8_0", make_attn, .rows = 21, .heads = 6, .kv = 2, .dim = 96, .flags = OF_Q8_KV | OF_ADJACENT,
      .max_nmse = 1e-6 },
    { "attn/256 gqa 8 gate q8_0", make_attn, .rows = 33, .heads = 8, .kv = 1, .dim = 256,
      .flags = OF_Q8_KV | OF_NORM | OF_PARTIAL | OF_GATE, .max_nmse = 1e-6 },
    { "attn/64 sinks two slots q8_0", make_attn, .rows = 50, .heads = 4, .kv = 2, .dim = 64,
      .flags = OF_Q8_KV | OF_SLOTS | OF_SINKS, .max_nmse = 1e-6 },
    { "attn/32 three tiles q8_0", make_attn, .rows = 600, .heads = 2, .kv = 1, .dim = 32, .flags = OF_Q8_KV,
      .max_nmse = 1e-6 },
    { "attn/32 window across tiles q8_0", make_attn, .rows = 560, .heads = 2, .kv = 1, .dim = 32, .arg = 270,
      .flags = OF_Q8_KV, .max_nmse = 1e-6 },
    { "attn/64 two slots", make_attn, .rows = 50, .heads = 4, .kv = 2, .dim = 64, .flags = OF_SLOTS | OF_F32_KV,
      .max_nmse = NMSE_MATH },
    /* single rows: heads that share a kv head, in chunks of positions that one or several work-groups merge */
    { "attn/group 64 gqa 8", make_attn, .rows = 64, .heads = 16, .kv = 2, .dim = 64, .flags = OF_SINKS, .max_nmse = 1e-7 },
    { "attn/group 128 gqa 5 three chunks", make_attn, .rows = 24, .cap = 8, .n_in = 118, .heads = 5, .kv = 1, .dim = 128,
      .flags = OF_NORM, .max_nmse = 1e-7 },
    { "attn/group 64 two merges", make_attn, .rows = 7, .n_in = 1150, .heads = 8, .kv = 1, .dim = 64, .max_nmse = 1e-7 },
    { "attn/group 64 64 rows at 100", make_attn, .rows = 64, .n_in = 100, .heads = 4, .kv = 1, .dim = 64,
      .flags = OF_SINKS, .max_nmse = 1e-7 },
    { "attn/group 128 window 130", make_attn, .rows = 9, .n_in = 500, .heads = 8, .kv = 2, .dim = 128, .arg = 130,
      .max_nmse = 1e-7 },
    { "attn/group 256 gqa 8 gate at 130", make_attn, .rows = 7, .n_in = 130, .heads = 8, .kv = 1, .dim = 256,
      .flags = OF_NORM | OF_PARTIAL | OF_GATE, .max_nmse = 1e-7 },
    { "attn/group 512 gqa 4", make_attn, .rows = 4, .n_in = 130, .heads = 8, .kv = 2, .dim = 512,
      .flags = OF_NORM | OF_V_NORM | OF_V_IS_K, .max_nmse = 1e-7 },
    { "attn/group 64 q8_0 two chunks", make_attn, .rows = 90, .cap = 64, .heads = 7, .kv = 1, .dim = 64,
      .flags = OF_Q8_KV | OF_SINKS, .max_nmse = 1e-6 },
    { "attn/group 128 q8_0", make_attn, .rows = 70, .cap = 8, .heads = 4, .kv = 1, .dim = 128, .flags = OF_Q8_KV,
      .max_nmse = 1e-6 },
    { "attn/group 512 q8_0", make_attn, .rows = 5, .heads = 8, .kv = 1, .dim = 512, .flags = OF_Q8_KV, .max_nmse = 1e-6 },
    { "attn/prompt 512 at 100, window 90", make_attn, .rows = 20, .cap = 65, .n_in = 100, .heads = 8, .kv = 1, .dim = 512,
      .arg = 90, .flags = OF_SINKS, .max_nmse = 1e-7 },
    { "attn/prompt 512 two slots q8_0", make_attn, .rows = 11, .cap = 65, .heads = 8, .kv = 2, .dim = 512,
      .flags = OF_Q8_KV | OF_SLOTS | OF_GATE, .max_nmse = 1e-6 },
    /* more heads of a kv head than attn_group takes */
    { "attn/output rows 64 gqa 2", make_attn, .rows = 33, .heads = 4, .kv = 2, .dim = 64, .flags = OF_OUT, .max_nmse = 1e-7 },
    { "attn/output rows 256 gqa 4 of a prompt", make_attn, .rows = 20, .cap = 65, .n_in = 300, .heads = 4, .kv = 1,
      .dim = 256, .arg = 90, .flags = OF_OUT, .max_nmse = 1e-7 },
    { "attn/output rows 512 gqa 8 of a prompt", make_attn, .rows = 20, .cap = 65, .n_in = 300, .heads = 8, .kv = 1,
      .dim = 512, .flags = OF_OUT, .max_nmse = 1e-7 },
    { "attn/128 gqa 12 at 130", make_attn, .rows = 7, .n_in = 130, .heads = 12, .kv = 1, .dim = 128, .max_nmse = 1e-7 },
    { "attn/256 gqa 9 at 130", make_attn, .rows = 7, .n_in = 130, .heads = 9, .kv = 1, .dim = 256, .max_nmse = 1e-7 },

    { "gdn/128", make_gdn, .rows = 12, .heads = 2, .kv = 2, .dim = 128, .max_nmse = NMSE_MATH },
    { "gdn/64 modulo 3", make_gdn, .rows = 19, .heads = 2, .kv = 6, .dim = 64, .max_nmse = NMSE_MATH },
    { "gdn/32 grouped 2", make_gdn, .rows = 19, .heads = 3, .kv = 6, .dim = 32, .flags = OF_FUSED,
      .max_nmse = NMSE_MATH },
    { "gdn/16 two slots", make_gdn, .rows = 23, .heads = 1, .kv = 2, .dim = 16, .flags = OF_SLOTS,
      .max_nmse = NMSE_MATH },

    { "router/softmax", make_router, QT_F32, 9, 64, .heads = 37, .arg = 4, .flags = OF_NORM, .max_nmse = NMSE_MATH },
    { "router/softmax share", make_router, QT_BF16, 9, 128, .heads = 64, .arg = 8, .flags = OF_SHARE | OF_NORM,
      .max_nmse = NMSE_MATH },
    { "router/late bias", make_router, QT_F32, 9, 64, .heads = 32, .arg = 4, .flags = OF_LATE | OF_BIAS,
      .max_nmse = NMSE_MATH },
    { "router/expert scale", make_router, QT_F32, 9, 64, .heads = 37, .arg = 4, .flags = OF_NORM | OF_EXPERT_SCALE,
      .max_nmse = NMSE_MATH },
    { "router/late expert scale", make_router, QT_F32, 3, 64, .heads = 16, .arg = 2,
      .flags = OF_LATE | OF_EXPERT_SCALE, .max_nmse = NMSE_MATH },
    { "router/all", make_router, QT_F16, 3, 64, .heads = 5, .arg = 5, .max_nmse = NMSE_MATH },
    { "moe_up/norm+bias+oai", make_moe_up, QT_MXFP4, 9, 64, 40, .heads = 8, .arg = 4,
      .flags = OF_NORM | OF_BIAS | OF_OAI, .max_nmse = 2 * NMSE_INT8 },
    { "moe_up/fused rows", make_moe_up, QT_Q4_0, 9, 64, 24, .heads = 4, .arg = 2, .flags = OF_FUSED,
      .max_nmse = 2 * NMSE_INT8 },
    { "moe_up/f32 norm", make_moe_up, QT_F32, 9, 48, 20, .heads = 4, .arg = 3, .flags = OF_NORM | OF_BIAS,
      .max_nmse = NMSE_MATH },
    { "moe_down/bias", make_moe_down, QT_Q8_0, 9, 64, 50, .heads = 8, .arg = 4, .flags = OF_BIAS,
      .max_nmse = NMSE_INT8 },
    { "moe_down/f16", make_moe_down, QT_F16, 9, 48, 33, .heads = 4, .arg = 3, .flags = OF_BIAS | OF_RESID,
      .max_nmse = NMSE_FLOAT },

    { "gather", make_gather, .rows = 7, .n_in = 40, .max_nmse = 0 },
    { "argmax", make_argmax, .rows = 7, .n_in = 40000 },
    { "argmax/ragged", make_argmax, .rows = 3, .n_in = 77 },
    { "sample", make_sample, .rows = 24, .n_in = 40000 },
    { "sample/ragged", make_sample, .rows = 24, .n_in = 777 },
    { "sample/few", make_sample, .rows = 8, .n_in = 19 },
    { "sample/151936", make_sample, .rows = 3, .n_in = 151936 },
    { 0 },
};

const struct op_case op_time_cases[] = {
    { "norm/4096", make_norm, .rows = 1, .n_in = 4096, .flags = OF_NORM },
    { "matmul/q4_k/4096x12288", make_matmul, QT_Q4_K, 1, 4096, 12288, .flags = OF_NORM },
    { "matmul/q4_k/4096x4096 x128", make_matmul, QT_Q4_K, 128, 4096, 4096, .flags = OF_NORM },
    { "matmul/q8_0/1024x3072", make_matmul, QT_Q8_0, 1, 1024, 3072, .flags = OF_RESID },
    { "gate_up/q4_k/2048x768", make_gate_up, QT_Q4_K, 1, 2048, 768, .flags = OF_NORM },
    { "rope/32x128", make_rope, .rows = 1, .heads = 32, .kv = 8, .dim = 128, .flags = OF_NORM },
    { "attn/prompt of 512, 16/8 x 128", make_attn, .rows = 512, .heads = 16, .kv = 8, .dim = 128 },
    { "attn/prompt of 2048, 4/1 x 128", make_attn, .rows = 2048, .heads = 4, .kv = 1, .dim = 128 },
    { "attn/prompt of 512, 8/1 x 256", make_attn, .rows = 512, .heads = 8, .kv = 1, .dim = 256 },
    { "attn/prompt of 2048, 8/1 x 256", make_attn, .rows = 2048, .heads = 8, .kv = 1, .dim = 256 },
    { "attn/decode at 4096, 16/8 x 128", make_attn, .rows = 4096, .heads = 16, .kv = 8, .dim = 128,
      .flags = OF_LAST },
    { "attn/decode at 4096, 32/8 x 128", make_attn, .rows = 4096, .heads = 32, .kv = 8, .dim = 128,
      .flags = OF_LAST },
    { "attn/decode at 4096, 16/8 x 128 q8_0", make_attn, .rows = 4096, .heads = 16, .kv = 8, .dim = 128,
      .flags = OF_LAST | OF_Q8_KV },
    { "attn/prompt of 512, 16/8 x 128 q8_0", make_attn, .rows = 512, .heads = 16, .kv = 8, .dim = 128,
      .flags = OF_Q8_KV },
    { "attn/decode at 4096, 8/8 x 64", make_attn, .rows = 4096, .heads = 8, .kv = 8, .dim = 64, .flags = OF_LAST },
    { "attn/prompt of 1024, window 128", make_attn, .rows = 1024, .heads = 16, .kv = 2, .dim = 64, .arg = 128 },
    { "gdn/1 row, 16/32 x 128", make_gdn, .rows = 1, .heads = 16, .kv = 32, .dim = 128 },
    { "gdn/256 rows, 16/32 x 128", make_gdn, .rows = 256, .heads = 16, .kv = 32, .dim = 128 },
    { "router/256 of 2048", make_router, QT_F32, 1, 2048, .heads = 256, .arg = 8, .flags = OF_NORM | OF_SHARE },
    { "moe_up/q4_k/8 of 128", make_moe_up, QT_Q4_K, 1, 2048, 768, .heads = 32, .arg = 8 },
    { "moe_down/q4_k/8 of 128", make_moe_down, QT_Q4_K, 1, 768, 2048, .heads = 32, .arg = 8, .flags = OF_RESID },
    { "argmax/151936", make_argmax, .rows = 1, .n_in = 151936 },
    { "sample/151936", make_sample, .rows = 1, .n_in = 151936 },
    { 0 },
};
