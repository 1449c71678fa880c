/* model/gguf_write.h
 * Writes a GGUF version 3 file front to back, holding only the directory in memory:
 *
 *     struct gguf_writer *w;
 *     if (gguf_writer_create("out.gguf", &w, &e)) ...
 *     gguf_put_str(w, "general.architecture", "llama");
 *     gguf_put_u32(w, "llama.block_count", 2);
 *     gguf_put_tensor(w, "token_embd.weight", QT_Q8_0, 2, (uint64_t[]){ 64, 256 });
 *     ...                                            // every key and every tensor
 *     rc = gguf_writer_begin(w, &e);                  // the directory goes to the file
 *     rc = gguf_writer_data(w, bytes, n, &e);         // the tensors' data in the order of gguf_put_tensor, in pieces
 *     ...                                            // of any size; padding is the writer's business
 *     rc = gguf_writer_finish(w, &e);                 // checks, flushes, gives the file its name
 *     gguf_writer_destroy(w);                         // on every path; before finish it removes the partial file
 *
 * The file grows under the name "<path>.part-<pid>", or one that is gone on with later under "<path>.begun", and gets its own
 * name in gguf_writer_finish, so that a file named `path` is always whole. The put functions return nothing: the first thing that goes wrong (a key given twice, no
 * memory, a tensor of a shape its type cannot have) is kept and reported by gguf_writer_begin. */
#ifndef ZINC_MODEL_GGUF_WRITE_H
#define ZINC_MODEL_GGUF_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"

struct gguf_writer;

/* `path` NULL: write into memory (gguf_writer_bytes). */
int gguf_writer_create(const char *path, struct gguf_writer **out, struct err *e);
void gguf_writer_destroy(struct gguf_writer *w); /* NULL is fine */

/* The same for a file that takes long: gguf_writer_destroy leaves what there is as "<path>.begun", unless gguf_writer_drop was called,
 * and the next writer of the same keys and tensors goes on with it:
 *
 *     if (gguf_writer_begin(w, &e)) ...
 *     while (gguf_writer_again(w) && gguf_writer_peek(w, buf, n) && <buf is what it should be>)
 *         gguf_writer_skip(w, n, &e);
 *     ...                                            // then gguf_writer_data as ever
 *
 * -EBUSY: another program writes it. */
int gguf_writer_create_kept(const char *path, struct gguf_writer **out, struct err *e);
void gguf_writer_drop(struct gguf_writer *w); /* NULL is fine */

/* Metadata. Keys and values are copied. A u32 "general.alignment" also sets the alignment of the data (default 32). */
void gguf_put_u8(struct gguf_writer *w, const char *key, uint8_t v);
void gguf_put_i8(struct gguf_writer *w, const char *key, int8_t v);
void gguf_put_u16(struct gguf_writer *w, const char *key, uint16_t v);
void gguf_put_i16(struct gguf_writer *w, const char *key, int16_t v);
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t v);
void gguf_put_u64(struct gguf_writer *w, const char *key, uint64_t v);
void gguf_put_i64(struct gguf_writer *w, const char *key, int64_t v);
void gguf_put_f32(struct gguf_writer *w, const char *key, float v);
void gguf_put_f64(struct gguf_writer *w, const char *key, double v);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool v);
void gguf_put_str(struct gguf_writer *w, const char *key, const char *v);
void gguf_put_strn(struct gguf_writer *w, const char *key, const char *v, uint64_t len);

/* Arrays: `n` elements of `type` as they lie in memory (bool: one byte each), or strings. */
void gguf_put_arr(struct gguf_writer *w, const char *key, enum gguf_type type, const void *v, uint64_t n);
void gguf_put_arr_str(struct gguf_writer *w, const char *key, const struct gguf_str *v, uint64_t n);

/* A key and its value out of a file that is open. */
void gguf_put_kv(struct gguf_writer *w, const struct gguf_kv *kv);

/* Announces a tensor of `n_dims` (1 to 4) dimensions, contiguous first; returns its bytes (0 when it is refused). */
uint64_t gguf_put_tensor(struct gguf_writer *w, const char *name, enum qtype type, uint32_t n_dims, const uint64_t *ne);

/* Writes header, metadata and tensor directory. Nothing can be put afterwards. */
int gguf_writer_begin(struct gguf_writer *w, struct err *e);

/* Appends the next `bytes` of tensor data; -EINVAL when that is more than was announced. */
int gguf_writer_data(struct gguf_writer *w, const void *data, uint64_t bytes, struct err *e);

/* After gguf_writer_begin, of gguf_writer_create_kept: whether an earlier writer put the same keys and tensors. What it wrote behind them
 * may be anything. */
bool gguf_writer_again(const struct gguf_writer *w);
/* Reads what lies where the next `bytes` of data go; false: there is not as much. */
bool gguf_writer_peek(const struct gguf_writer *w, void *data, uint64_t bytes);
/* Leaves the next `bytes` of data, all of one tensor, as they lie there. */
int gguf_writer_skip(struct gguf_writer *w, uint64_t bytes, struct err *e);
/* Hands what was written to the system, so that it is there if this program is killed. */
int gguf_writer_flush(struct gguf_writer *w, struct err *e);

/* -EINVAL when data is missing; else as the system says (a full disk: -ENOSPC). */
int gguf_writer_finish(struct gguf_writer *w, struct err *e);

/* What was written, when writing into memory: valid from gguf_writer_finish to gguf_writer_destroy. */
const void *gguf_writer_bytes(const struct gguf_writer *w, uint64_t *n);

/* Bytes of the whole file as announced so far; known before any data is written. 0 when a put was refused. */
uint64_t gguf_writer_total(const struct gguf_writer *w);

#endif
