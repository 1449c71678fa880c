/* model/recut.h
 * Layouts of early conversions, cut anew into the tensors that later ones have. */
#ifndef ZINC_MODEL_RECUT_H
#define ZINC_MODEL_RECUT_H

#include "model/gguf.h"

/* qwen3next files of early conversions hold, as one matrix blk.N.ssm_in.weight, the rows of q, k, v and z by key head: each such
 * tensor becomes attn_qkv (all q, all k, all v) and attn_gate (all z), of the same type, copied row by row into memory of the
 * object's. Files without it are left alone. To be called before anything looks for tensors. -EINVAL: a shape that does not fit
 * the metadata. (ggml-org/llama.cpp, src/models/qwen3next.cpp, build_qkvz; huggingface/transformers, modeling_qwen3_next.py,
 * fix_query_key_value_ordering.) */
int recut_legacy(struct gguf *g, struct err *e);

#endif
