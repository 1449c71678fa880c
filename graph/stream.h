/* graph/stream.h
 * The command stream: what graph/ lowers a model to, what every tier executes, what can be saved, replayed, dumped
 * and diffed. It is data: fixed 64-byte commands, an arena of argument structs (kernels/kargs.h), a table of named
 * buffers in six arenas, the constants, the weights by name, and the patch table: the words that change from one
 * submission to the next. No pointer, no model family, no tier.
 *
 * One stream serves any row count up to its capacity: a decode stream 1..8 rows, a prefill stream one chunk.
 *
 *     struct stream *s;
 *     stream_load("model.zstream", &s, &e)  or  graph_compile(...)
 *     for (uint32_t i = 0; i < s->h.n_cmds; i++) ... s->cmds[i], stream_args(s, i)
 *     stream_free(s);
 *
 * A loaded stream has been verified (stream_verify): whoever executes it may trust every address, size and type. */
#ifndef ZINC_GRAPH_STREAM_H
#define ZINC_GRAPH_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "kernels/kargs.h"
#include "kernels/qtypes.h"

enum cmd_op {
    CMD_NOP,
#define X(name, args, list, what) CMD_##name,
    CMD_LIST(X)
#undef X
    CMD_COUNT
};

#define CMD_NO_WAIT  UINT32_MAX /* nothing has to be complete                                         */
#define CMD_NO_LAYER UINT32_MAX /* outside the layers                                                 */

enum cmd_flags {
    CMD_BYTES_PER_ROW = 1, /* `bytes` are moved for every row (experts, embedding), else once per step */
};

struct cmd {
    uint16_t op;         /* enum cmd_op                                                               */
    uint16_t flags;      /* enum cmd_flags                                                            */
    uint32_t args_off;   /* bytes into the args arena                                                 */
    uint32_t args_bytes;
    uint32_t wait;       /* newest earlier command that must be complete: all up to it are            */
    uint32_t layer;      /* or CMD_NO_LAYER                                                           */
    uint32_t first_use;  /* into uses[]                                                               */
    uint32_t n_uses;
    uint32_t kv_bytes;   /* bytes and flops per row for each cached position it looks at              */
    uint64_t bytes;      /* weights and state moved: per step, or per row by CMD_BYTES_PER_ROW        */
    uint64_t flops;      /* per row                                                                   */
    uint32_t kv_flops;
    uint32_t reserved[3]; /* zero                                                                     */
};
_Static_assert(sizeof(struct cmd) == 64, "stream ABI");

enum use_dir { USE_READ = 1, USE_WRITE = 2, USE_RDWR = 3 };

/* One address in a command's arguments: which buffer it falls in. */
struct stream_use {
    uint32_t buf;       /* index into bufs[]                              */
    uint16_t field_off; /* of the gpu_va inside the args struct           */
    uint8_t dir;        /* enum use_dir                                   */
    uint8_t reserved;
    uint64_t off;       /* bytes from the buffer's start                  */
};

/* A named buffer. Scratch buffers whose lives do not overlap share addresses. */
struct stream_buf {
    uint32_t name;   /* offset into the string table                                           */
    uint32_t arena;  /* enum arena                                                             */
    uint64_t off;    /* bytes into the arena, a multiple of STREAM_ALIGN                       */
    uint64_t bytes;
    uint32_t weight; /* ARENA_WEIGHTS: index into weights[]; else UINT32_MAX                   */
    uint32_t ld;     /* f32 elements of a row, for dumps and diffs; 0: does not hold f32 rows  */
};

enum { STREAM_ALIGN = 256 };

/* What a verified stream keeps, so that executors may size fixed arrays by it. Every count is below 2^31. */
enum {
    STREAM_MAX_ROWS = 1 << 16,
    STREAM_MAX_SLOTS = 1 << 16,
    STREAM_MAX_CTX = 1 << 28,
    STREAM_MAX_EXPERTS = 1024,
    STREAM_MAX_HEAD_DIM = 4096,
    STREAM_MAX_CONV_KERNEL = 16,
};
#define STREAM_MAX_ARENA (1ull << 48)

struct stream_weight {
    uint32_t name;     /* the tensor's name, offset into the string table                      */
    uint32_t type;     /* enum qtype                                                           */
    uint64_t ne[4];
    uint64_t off;      /* bytes into ARENA_WEIGHTS where its rows would lie, row-major         */
    uint64_t bytes;
    uint32_t part;     /* of a split file, and where its data lie there                        */
    uint32_t reserved;
    uint64_t file_off;
};

/* Symbols of the patch table: count words of `width` bytes, `stride` bytes apart, from `off` in ARENA_IO. */
#define SYM_LIST(X) X(N_ROWS) X(N_OUT) X(KV_LEN) X(TOKEN) X(POS) X(SLOT) X(OUT_ROW) X(TEMP) X(TOP_K) X(TOP_P)  \
    X(MIN_P) X(SEED) X(COUNTER) X(QUIET)
enum sym {
#define X(name) SYM_##name,
    SYM_LIST(X)
#undef X
    SYM_COUNT
};
#define PATCH_UNSET 0xdeadfa11u /* what a patched word holds before its first patch */

struct patch {
    uint32_t off;
    uint8_t sym, width; /* enum sym; 4 */
    uint16_t stride;
    uint32_t count;
};

#define STREAM_MAGIC "ZSTREAM\006" /* 8 bytes: the name, the version */

/* Fixed properties; the head of a saved stream. */
struct stream_head {
    char magic[8];              /* "ZSTREAM" and a version byte                                              */
    uint32_t n_cmds, n_uses, n_bufs, n_weights, n_patches;
    uint32_t args_bytes, const_bytes, str_bytes;
    uint32_t row_cap, out_cap;  /* rows and output rows of one submission                                    */
    uint32_t n_ctx, n_slots;    /* positions of a slot, sequences                                            */
    uint32_t n_vocab, n_embd, n_layer, kv_type;
    uint64_t arena_bytes[ARENA_COUNT];
    uint64_t logits_off;        /* f32 [out_cap, n_vocab] in ARENA_IO; 0: none                               */
    uint64_t next_off;          /* i32 [out_cap] in ARENA_IO                                                 */
    uint32_t family;            /* informational: enum model_family of the file it came from                 */
    uint16_t layers_before, layers_behind; /* of the model, that are not in the stream; see below            */
    uint64_t weights_hash;      /* over names, types, shapes, file offsets: a replay refuses another file    */
};

struct stream {
    struct stream_head h;
    struct cmd *cmds;
    uint8_t *args;
    struct stream_use *uses;
    struct stream_buf *bufs;
    struct stream_weight *weights;
    struct patch *patches;
    uint8_t *consts;  /* initial contents of ARENA_CONST */
    char *strs;       /* NUL-terminated strings          */
};

static inline const void *stream_args(const struct stream *s, uint32_t cmd)
{
    return s->args + s->cmds[cmd].args_off;
}
/* Does it end with the choice of next tokens? */
static inline bool stream_chooses(const struct stream *s)
{
    return s->h.n_cmds && s->cmds[s->h.n_cmds - 1].op == CMD_ARGMAX;
}
static inline const char *stream_str(const struct stream *s, uint32_t off)
{
    return s->strs + off;
}

/* A stream may have some of a model's layers only, with their weights, caches and states:
 *
 *     layers_before 0   it begins with the embedding, else with the residual that the layer before has left
 *     layers_behind 0   it ends with the head, logits and next tokens, else with the residual of its last layer
 *
 * The residual is f32 [row_cap, n_embd]: row r is that of row r of the step. As an input and as an output it has the
 * same place in ARENA_IO; its buffer is named x.LAYER, by the layer that made it, in both streams. The parts of a model
 * get the same step, one after the other, and who submits them copies the residual's n_rows rows on, by tier_read and
 * tier_write. A token named by an output (-1-i) is known where the head is: name the id where the embedding is. */
static inline bool stream_is_whole(const struct stream *s)
{
    return s->h.layers_before == 0 && s->h.layers_behind == 0;
}
/* A type of the KV cache by its name, KA_KV_COUNT: there is none such; and its name. */
enum ka_kv stream_kv_find(const char *name, size_t n);
const char *stream_kv_name(uint32_t kv_type);

/* Offset of the residual in ARENA_IO; 0: the stream is of a whole model. */
uint64_t stream_residual(const struct stream *s);

/* A whole stream may end without logits: with f32 [out_cap, n] in ARENA_IO, the final states of the output rows or what a
 * product makes of them, in a buffer named "vectors" of rows of n. It has no next tokens. Returns the offset, and *n
 * (may be NULL); 0: there are none. */
uint64_t stream_vectors(const struct stream *s, uint32_t *n);

/* What a submission says: the values of the symbols. */
struct step {
    uint32_t n_rows, n_out, kv_len;
    const ka_row *rows;      /* [n_rows]                                          */
    const uint32_t *out_row; /* [n_out] indices into rows, ascending              */
    const ka_sample *sample; /* [n_out] how next tokens are chosen; NULL: greedy  */
};

/* Writes the step's words into `io`, the mapped ARENA_IO, through the patch table; returns the number of words.
 * Array words beyond the step's own counts are not touched. */
uint32_t stream_patch(uint8_t *io, const struct stream *s, const struct step *step);

/* Checks everything that execution relies on: ops, argument extents against their buffers for the full row capacity,
 * types and divisibility, buffers inside arenas, waits that cover every hazard, patches inside the step block.
 * -EINVAL names the command and the field, expected and found. */
int stream_verify(const struct stream *s, struct err *e);

int stream_save(const struct stream *s, const char *path, struct err *e);
int stream_load(const char *path, struct stream **out, struct err *e);
int stream_load_memory(const char *name, const void *bytes, uint64_t n, struct stream **out, struct err *e);
void stream_free(struct stream *s); /* NULL is fine */

/* Text: a line per command with its arguments by name, buffers as name+offset; stable, for golden tests and diffs. */
void stream_dump(FILE *f, const struct stream *s);

const char *cmd_name(enum cmd_op op);
/* Bytes and flops of command i for a step of n_rows rows that each look at kv_len positions. */
void stream_cmd_cost(const struct stream *s, uint32_t i, uint32_t n_rows, uint32_t kv_len, uint64_t *bytes,
                     uint64_t *flops);

#endif
