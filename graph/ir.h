/* graph/ir.h: private to graph/
 * The decode graph: fine-grained ops over values, in the order of execution. Families append ops through the helpers
 * below, so that a model reads as its paper does; graph_fuse rewrites the list into the commands of the catalogue;
 * graph_plan gives every value a place; graph_lower writes the stream.
 *
 * A value is [rows, n] with rows of the step or of the output, 4-byte elements. A gref names a value, 0 is none.
 * Errors are sticky: after the first one helpers return 0 and do nothing, and graph_compile reports it. */
#ifndef ZINC_GRAPH_IR_H
#define ZINC_GRAPH_IR_H

#include "graph/graph.h"

typedef uint32_t gref;

enum gop_kind {
    G_EMBED,     /* y = w[token] * scale                              mat[0].w                          */
    G_NORM,      /* y = (resid + rms(x) * norm) * out_scale, by groups as long as norm                  */
    G_ADD,       /* y = (x + a) * out_scale                                                             */
    G_MATMUL,    /* y_i = w_i x + b_i; with norm, resid, scale and softcap after fusion                 */
    G_ACT_MUL,   /* y = act(x) * a                                    GATE_UP where both are products, and it is not sparse */
    G_MATCH,     /* y = (resid + x * rms(a) / rms(x)) * scale, by groups as long as a                   */
    G_ALTUP,     /* streams x, a by b from each other, or c corrects them, d is added; form; out 1: the others */
    G_GATE_UP,   /* y = act(w_0 x + b_0, w_1 x + b_1)                                                   */
    G_ROW_GATE,  /* y[r] = sigmoid(norm . x)                          fused into ROUTER, always         */
    G_ROW_SCALE, /* y = x * scale[r]                                  fused into MATMUL, always         */
    G_SOFTCAP,   /* y = cap * tanh(x / cap)                           fused into MATMUL, always         */
    G_ROPE_KV,   /* q, k = rope(norm(q), norm(k)); the cache takes k and v; x = q, a = k, b = v         */
    G_ATTN,      /* y = attention(x = q) over the cache, times sigmoid(a)                               */
    G_GDN,       /* y = gated DeltaNet(x = qkv, a = z, b = alpha, c = beta)                             */
    G_ROUTER,    /* ids, weights = top-k(w x + b)                     out 0, 1; 2: share; 3: logits     */
    G_MOE_UP,    /* y = act(gate_e x, up_e x), e = ids (a)                                              */
    G_MOE_DOWN,  /* y = resid + sum_e weights (b) * down_e x, e = ids (a)                               */
    G_GATHER,    /* the rows that need logits                                                           */
    G_STEP_OUT,  /* rows of the output, for ROPE_KV and ATTN on them                                     */
    G_ARGMAX,    /* next token                                                                          */
    G_RESIDUAL_IN,  /* y = the residual that the layers before have left          no command: a place   */
    G_VECTORS_OUT,  /* x is what the stream ends with, in place of logits         no command            */
    G_RESIDUAL_OUT, /* x is the residual for the layers behind                    no command            */
};

enum { IN_X, IN_RESID, IN_SCALE, IN_A, IN_B, IN_C, IN_D, IN_COUNT };
enum { OUT_Y = 0, OUT_IDS = 0, OUT_REST = 1, OUT_WEIGHTS = 1, OUT_SHARE = 2, OUT_LOGITS = 3, OUT_C = 1, OUT_COUNT = 4 };

struct gmat {
    const struct gguf_tensor *w, *scale, *b; /* w [n_in, n_out]; scale [1], the number beside it, b [n_out], or NULL */
};

/* What multiplies a normed value, from the tensor `norm`. */
enum gnorm {
    GNORM_PLAIN,  /* the tensor                                                       */
    GNORM_ROUTER, /* a constant of the layer: router_scale / sqrt(n_embd)             */
    GNORM_PLE,    /* a constant of the model: ple_proj_norm / sqrt(2)                 */
};

struct gop {
    enum gop_kind kind;
    bool dead; /* fused into another */
    uint32_t layer;
    gref in[IN_COUNT], out[OUT_COUNT];
    const struct gguf_tensor *norm; /* NORM: its weight; products: the norm folded into their input */
    enum gnorm norm_as;
    float eps;        /* NORM: 0 is the model's           */
    const struct gguf_tensor *out_scale; /* NORM, ADD: f32 [1]; NULL: 1 */
    bool half_power;  /* NORM, ADD: out_scale is the root of a half */
    struct gmat mat[4];
    uint32_t n_mats;
    uint32_t off;  /* MATMUL: rows of mat[0] in front of those that it takes */
    uint32_t n_out; /* MATMUL: so many rows; 0: all         */
    enum ka_altup_form form; /* ALTUP                       */
    bool sparse;   /* ACT_MUL: of what is `cut` deviations above the mean */
    float cut;
    float scale;   /* EMBED, MATCH                         */
    float softcap; /* MATMUL, SOFTCAP; 0: none             */
    const struct model_layer *ml; /* parameters of attention, DeltaNet and expert ops */
};

/* Where a value lives. */
enum gplace {
    GP_SCRATCH,
    GP_LOGITS, /* the IO arena, read by the host */
    GP_VECTORS, /* the same                     */
    GP_RESIDUAL, /* the IO arena: where the model is cut */
};

struct gvalue {
    const char *name;
    uint32_t layer;
    enum ka_rows rows;
    enum gplace place;
    bool ints;     /* i32, not f32                                              */
    bool gathered; /* the output rows of the value of that name: "last.name"    */
    uint32_t n;   /* elements of a row                                          */
    gref base;    /* a view: of this value, `off` elements in; else 0           */
    uint32_t off;
    uint32_t buf; /* graph_plan: index of its stream_buf                        */
};

struct graph {
    const struct model *m;
    const struct graph_opts *o; /* n_ctx already rounded up, first_layer < end_layer <= n_layer */
    struct gop *ops;
    uint32_t n_ops, cap_ops;
    struct gvalue *vals; /* [0] is unused: gref 0 is none */
    uint32_t n_vals, cap_vals;
    const struct gguf_tensor **weights; /* in order of first use: the stream's weight table */
    uint32_t n_weights, cap_weights;
    gref ple;       /* gemma3n, gemma4: the step's per-layer embeddings [n_layer, n_embd_ple]; 0: none */
    gref rest;      /* gemma3n: the streams beside the residual [KA_STREAMS - 1, n_embd] */
    uint32_t layer; /* stamped on ops and values as they are made */
    int rc;         /* the first error */
    struct err err;
};

/* ---- what families append ops with (graph/ir.c) ---- */

/* A row of w [n, n_vocab]. */
gref graph_embed(struct graph *g, const struct gguf_tensor *w, uint32_t n, float scale, const char *name);
gref graph_norm(struct graph *g, gref x, const struct gguf_tensor *w, const char *name);
/* Of the layer's router input: the weight is router_scale / sqrt(n_embd). */
gref graph_router_norm(struct graph *g, const struct model_layer *l, gref x, const char *name);
/* Of products with per_layer_model_proj: rms of each layer's part of x / sqrt(n_embd), times ple_proj_norm / sqrt(2). */
gref graph_ple_norm(struct graph *g, gref x, const char *name);
gref graph_add(struct graph *g, gref a, gref b, const char *name);
/* (a + b) * scale, f32 [1]; NULL: 1. */
gref graph_add_scaled(struct graph *g, gref a, gref b, const struct gguf_tensor *scale, const char *name);
/* (a + b) / sqrt(2) */
gref graph_add_halves(struct graph *g, gref a, gref b, const char *name);
gref graph_matmul(struct graph *g, gref x, const struct gguf_tensor *w, const struct gguf_tensor *bias,
                  const char *name);
/* Of w [n_in, n, depth] the matrices [first, first + count), one below the other. */
gref graph_matmul_of(struct graph *g, gref x, const struct gguf_tensor *w, uint32_t first, uint32_t count, const char *name);
gref graph_act_mul(struct graph *g, gref gate, gref up, const char *name);
/* The same of what in gate lies `cut` standard deviations above its mean. */
gref graph_act_mul_sparse(struct graph *g, gref gate, gref up, float cut, const char *name);
/* (resid + x * rms(like) / rms(x)) * scale, by parts of x as long as like; resid 0: none. */
gref graph_match(struct graph *g, gref x, gref like, gref resid, float scale, const char *name);
/* AltUp, as kernels/kargs.h says: m is a product with the layer's altup_router. */
struct gstreams {
    gref first, rest;
};
struct gstreams graph_altup_predict(struct graph *g, const struct model_layer *l, struct gstreams s, gref m);
struct gstreams graph_altup_correct(struct graph *g, const struct model_layer *l, struct gstreams s, gref m, gref a, gref add);
gref graph_altup_first(struct graph *g, const struct model_layer *l, gref first, gref m, gref a);
gref graph_row_gate(struct graph *g, gref x, const struct gguf_tensor *w, const char *name);
gref graph_row_scale(struct graph *g, gref x, gref scale, const char *name);
gref graph_softcap(struct graph *g, gref x, float cap, const char *name);
/* Elements [off, off + n) of every row of x. */
gref graph_view(struct graph *g, gref x, uint32_t off, uint32_t n);
/* Returns the rotated q; k and v are stored. Both 0: the layer reads another's cache. */
gref graph_rope_kv(struct graph *g, const struct model_layer *l, gref q, gref k, gref v);
gref graph_attn(struct graph *g, const struct model_layer *l, gref q, gref gate, const char *name);
gref graph_gdn(struct graph *g, const struct model_layer *l, gref qkv, gref z, gref alpha, gref beta,
               const char *name);
struct groute {
    gref ids, weights;
};
struct groute graph_router(struct graph *g, const struct model_layer *l, gref x);
gref graph_moe_up(struct graph *g, const struct model_layer *l, gref x, gref ids, const char *name);
gref graph_moe_down(struct graph *g, const struct model_layer *l, gref x, struct groute r, const char *name);
gref graph_gather(struct graph *g, gref x, const char *name);
void graph_step_out(struct graph *g);
void graph_argmax(struct graph *g, gref logits);
/* The end of a stream without logits: x, of the output rows. */
void graph_vectors_out(struct graph *g, gref x);
/* Of layers first_layer..: what the layer before them has left. */
gref graph_residual_in(struct graph *g);
/* Of layers ..end_layer: x of the last. */
void graph_residual_out(struct graph *g, gref x);

/* A copy of an op at the end of the list. */
void graph_append(struct graph *g, const struct gop *op);

/* Records the first error, with the layer prepended; returns g->rc. */
__attribute__((cold, format(printf, 3, 4))) int graph_fail(struct graph *g, int code, const char *fmt, ...);
void graph_finish(struct graph *g);

/* Index in the weight table; every tensor that an op reads is there. */
uint32_t graph_weight_index(const struct graph *g, const struct gguf_tensor *t);

/* ---- blocks that families share (graph/blocks.c) ---- */

gref graph_block_attn(struct graph *g, const struct model_layer *l, gref h);
gref graph_block_gdn(struct graph *g, const struct model_layer *l, gref h);
gref graph_block_ffn(struct graph *g, const struct model_layer *l, gref h);
gref graph_block_ffn_up(struct graph *g, const struct model_layer *l, gref h); /* without its last product */
/* x + experts(h) [+ shared expert], the residual inside so that it can be folded into the last product. */
gref graph_block_moe(struct graph *g, const struct model_layer *l, gref x, gref h);

/* ---- families (graph/family_*.c) and the loop around their layers (graph/decoder.c) ---- */

/* What distinguishes a family from the others, beside its hyper-parameters. x is the residual, f32 [n_embd]. NULL: as
 * most models have it. */
struct graph_family {
    void (*begin)(struct graph *g, gref x); /* what layers share; x: the embedding, 0 where it is not the stream's; NULL: nothing */
    gref (*layer)(struct graph *g, const struct model_layer *l, gref x); /* x -> x; g->layer is its index        */
    gref (*end)(struct graph *g, gref x);  /* x behind the last layer -> what the head reads; NULL: x            */
    void (*head)(struct graph *g, gref x); /* x -> logits, next token; NULL: gather, norm, product, softcap      */
};
extern const struct graph_family family_llama, family_qwen35, family_gpt_oss, family_gemma3, family_gemma3n, family_gemma4;

/* The layers [o->first_layer, o->end_layer), op by op, with the embedding in front of the model's first and the head
 * behind its last. -ENOTSUP, -EINVAL, through g->rc. */
void graph_decoder(struct graph *g);

/* ---- the passes ---- */

/* Where there are fewer outputs than rows: drops rows before the last products, not behind them. */
void graph_narrow(struct graph *g);

/* Fuses what must be fused, and unless o->no_fuse what can be; removes dead ops. */
void graph_fuse(struct graph *g);

/* Everything that has an address. Built by graph_plan, and handed to the stream by graph_lower. */
struct gplan {
    struct stream_buf *bufs;
    uint32_t n_bufs, cap_bufs;
    struct stream_weight *weights; /* [g->n_weights] */
    char *strs;
    uint32_t str_bytes, cap_strs;
    uint8_t *consts;
    uint32_t const_bytes, cap_consts;
    uint64_t arena_bytes[ARENA_COUNT];
    uint32_t buf_step, buf_logits, buf_vectors, buf_weight0 /* weight i is buffer buf_weight0 + i */;
    uint32_t ple_norm; /* constant: GNORM_PLE's; UINT32_MAX: none */
    uint32_t half_power; /* constant: the root of a half; UINT32_MAX: none */
    uint32_t q_scale;  /* constant: what ROPE_KV multiplies queries by; UINT32_MAX: none */
    uint32_t buf_residual_in, buf_residual_out; /* at one place; these, buf_logits and _vectors UINT32_MAX: not in the stream */
    struct glayer_plan {
        uint32_t k, v, conv, state, inv_freq, router_norm; /* buffers; UINT32_MAX: none                    */
        uint32_t freq_table; /* which of the model's tables of frequencies: the number in inv_freq's name */
    } *layers; /* [n_layer]; those that are not the stream's have none */
};
/* -ENOMEM, -E2BIG, through g->rc. */
void graph_plan(struct graph *g, struct gplan *p);
void graph_plan_finish(struct gplan *p);

void graph_lower(struct graph *g, const struct gplan *p, struct stream **out);

/* Bytes of one slot, a multiple of STREAM_ALIGN. */
uint64_t kv_slot_bytes(const struct graph *g, const struct model_layer *l); /* of K, and of V */
uint64_t conv_slot_bytes(const struct model *m);
uint64_t state_slot_bytes(const struct model *m);

/* Channels of DeltaNet's convolution: q heads, k heads, v heads. */
static inline uint32_t gdn_conv_dim(const struct model *m)
{
    return (2 * m->gdn_n_k + m->gdn_n_v) * m->gdn_head_dim;
}

/* Of the cache that l reads: its own, or an earlier layer's. */
enum ka_kv kv_type_of(const struct graph *g, const struct model_layer *l);

/* Layout of the step block (kernels/kargs.h). */
static inline uint64_t step_out_row_off(uint32_t row_cap)
{
    return sizeof(ka_step) + (uint64_t)row_cap * sizeof(ka_row);
}
static inline uint64_t step_sample_off(uint32_t row_cap, uint32_t out_cap)
{
    return (step_out_row_off(row_cap) + (uint64_t)out_cap * 4 + 15) & ~15ull;
}
static inline uint64_t step_next_off(uint32_t row_cap, uint32_t out_cap)
{
    return step_sample_off(row_cap, out_cap) + (uint64_t)out_cap * sizeof(ka_sample);
}
/* What STEP_OUT writes: a step block of the output rows, behind what the host writes. */
static inline uint64_t step_sub_off(uint32_t row_cap, uint32_t out_cap)
{
    return (step_next_off(row_cap, out_cap) + (uint64_t)out_cap * 4 + 15) & ~15ull;
}
static inline uint64_t step_bytes(uint32_t row_cap, uint32_t out_cap)
{
    return step_sub_off(row_cap, out_cap) + sizeof(ka_step) + (uint64_t)out_cap * sizeof(ka_row);
}

/* ---- private parts of the stream object (graph/stream.c) ---- */


/* The arrays behind the head, in the order of the file. */
enum { STREAM_SECTIONS = 8 };
struct section {
    void *bytes_at;
    uint64_t bytes;
};
void stream_sections(const struct stream *s, struct section out[STREAM_SECTIONS]);

/* One zeroed allocation with room for everything that the head counts; NULL: no memory. */
struct stream *stream_alloc(const struct stream_head *h);

/* Copies the parts that `parts` points to into one allocation; the counts are in parts->h. */
struct stream *stream_pack(const struct stream *parts);
uint64_t stream_hash(const void *bytes, uint64_t n, uint64_t seed); /* FNV-1a, 64 bits */
uint64_t stream_weights_hash(const struct stream_weight *w, uint32_t n, const char *strs);

#endif
