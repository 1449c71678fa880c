/* graph/graph.h
 * From a model to command streams. A decoder runs the layers, which each family (graph/family_*.c) writes down op by
 * op, as the paper reads; lowering fuses (norm into the next product, QKV, gate+up+activation, residuals), plans memory
 * and emits the stream. Nothing outside graph/ knows a model family.
 *
 *     struct graph_opts o = { .n_ctx = 4096, .n_slots = 1, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16 };
 *     graph_compile(m, &o, &decode, &e);
 *     o.row_cap = 512; o.out_cap = 8;
 *     graph_compile(m, &o, &prefill, &e);       the same weights, KV and state layout: both run on one tier object
 *
 * A model may be cut between layers, into streams that run one after the other on tier objects of their own:
 *     o.end_layer = 14;                         embedding, layers 0 to 13
 *     graph_compile(m, &o, &front, &e);
 *     o.first_layer = 14; o.end_layer = 0;      the other layers, head
 *     graph_compile(m, &o, &back, &e);          what goes from one to the next: stream_residual (graph/stream.h) */
#ifndef ZINC_GRAPH_GRAPH_H
#define ZINC_GRAPH_GRAPH_H

#include <stdio.h>

#include "base/err.h"
#include "graph/stream.h"
#include "model/model.h"

struct graph_opts {
    uint32_t n_ctx;   /* positions of a slot; rounded up to a multiple of 16 in the stream */
    uint32_t n_slots; /* sequences                                                         */
    uint32_t row_cap; /* rows of one submission                                            */
    uint32_t out_cap; /* rows that need logits                                             */
    enum ka_kv kv_type;
    uint32_t kv_edge; /* the first and the last so many layers with a cache of their own have f16 in it, where kv_type takes less */
    enum model_pooling pooling; /* not POOLING_NONE: the stream ends with vectors (stream_vectors), not with logits */
    bool no_fuse;     /* one command per op where the catalogue has one: for bisecting     */
    uint32_t first_layer, end_layer; /* layers [first, end) alone; end 0: up to the last; both 0: the whole model */
};

/* Builds, fuses, lowers, plans and verifies. -EINVAL, -ENOTSUP: what does not fit, by layer and tensor; -E2BIG: the
 * arenas would pass 2^48 bytes. */
int graph_compile(const struct model *m, const struct graph_opts *o, struct stream **out, struct err *e);

/* May the model be cut in front of layer `at`? -ENOTSUP: a layer behind the cut reads the KV cache of one before it.
 * graph_compile asks for both ends of its range. */
int graph_check_cut(const struct model *m, uint32_t at, struct err *e);

/* For each weight of the stream's table where its bytes lie in the model's file; checks the hash first: -EINVAL when
 * the stream was made from another file. data: [s->h.n_weights], owned by the caller. */
int graph_bind_weights(const struct stream *s, const struct gguf *g, const uint8_t **data, struct err *e);

/* The memory plan in words: "weights 604.2 MiB, kv 224.0 MiB, state 0, scratch 3.1 MiB, io 2.4 MiB". */
void graph_print_plan(FILE *f, const struct stream *s);

/* Bytes, flops, arithmetic intensity and bottleneck per command for a step of n_rows rows at kv_len positions. */
struct graph_view {
    uint32_t n_rows, kv_len;
    double gbs, gflops; /* roofs that decide the bottleneck; 0: typical CPU figures, named in the output */
};
int graph_print_json(FILE *f, const struct stream *s, const struct graph_view *v);
int graph_print_dot(FILE *f, const struct stream *s, const struct graph_view *v);

#endif
