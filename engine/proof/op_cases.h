/* engine/proof/op_cases.h: the op table. One line is one case: what it runs, its shape, and how far from --exact it
 * may be. */
#ifndef ZINC_PROOF_OP_CASES_H
#define ZINC_PROOF_OP_CASES_H

#include "engine/proof/opstream.h"

struct op_case {
    const char *name;
    struct ops *(*make)(const struct op_case *c); /* engine/proof/op_make.c */
    enum qtype type;
    uint32_t rows, n_in, n_out;
    /* attention: n_in positions are in the cache before, f16 alone */
    uint32_t heads, kv, dim; /* attention and DeltaNet: query (k) heads, kv (v) heads, head size     */
    uint32_t flags;          /* enum op_flags                                                        */
    uint32_t arg;            /* window, experts used, DeltaNet group, ...                            */
    double max_nmse;
    uint32_t cap;            /* of the stream, 0: the rows. More: another class of kernels; less: steps of so many */
};

enum op_flags {
    OF_NORM = 1,       /* norm folded into the product's input; q and k norm                       */
    OF_BIAS = 2,
    OF_RESID = 4,
    OF_SCALE = 8,      /* per row                                                                  */
    OF_SOFTCAP = 16,
    OF_GATE = 32,      /* attention's output gate                                                  */
    OF_SINKS = 64,
    OF_F32_KV = 128,
    OF_SLOTS = 256,    /* rows of two sequences, interleaved in runs                               */
    OF_ADJACENT = 512, /* rotate (2i, 2i + 1)                                                      */
    OF_PARTIAL = 1024, /* rotate half of the head                                                  */
    OF_V_NORM = 2048,
    OF_GELU = 4096,
    OF_OAI = 8192,
    OF_SHARE = 16384,  /* router: shared expert's gate                                             */
    OF_LATE = 32768,   /* router: softmax after the choice                                         */
    OF_FUSED = 65536,  /* gate and up rows in one tensor                                           */
    OF_Q_ONLY = 1 << 17, /* no k and v: another layer's cache                                      */
    OF_OUT = 1 << 18,  /* rows of the output                                                       */
    OF_LAST = 1 << 19, /* timing: only the last row                                                */
    OF_OUT_SCALE = 1 << 20, /* NORM, ADD: the result times one number                              */
    OF_EXPERT_SCALE = 1 << 21, /* router: weights times a number of the expert                     */
    OF_V_IS_K = 1 << 22, /* v is the same value as k                                               */
    OF_Q8_KV = 1 << 23,
    OF_WITH_Q6K = 1 << 24, /* one of the matrices is Q6_K                                          */
    OF_FP8_KV = 1 << 25,
    OF_Q4_KV = 1 << 26,
    OF_ROT4_KV = 1 << 27,
    OF_NUMBER = 1 << 28, /* products: each matrix's own number, or each expert's               */
    OF_TEMP = 1 << 29,   /* q is scaled by the position                                        */
    OF_SPARSE = 1 << 30, /* ACT_MUL: of what is far above the mean                             */
};

/* engine/proof/op_make.c */
#define OP_MAKERS(X)                                                                                                   \
    X(embed) X(norm) X(add) X(act_mul) X(matmul) X(proj) X(made) X(gate_up) X(rope) X(attn) X(gdn) X(router) X(moe_up) X(moe_down)        \
    X(gather) X(argmax) X(sample) X(match) X(altup)
#define X(name) struct ops *make_##name(const struct op_case *c);
OP_MAKERS(X)
#undef X

extern const struct op_case op_cases[];
extern const struct op_case op_time_cases[]; /* larger, for --time; both end with a NULL name */

#endif
