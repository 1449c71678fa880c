/* model/gguf.h
 * A GGUF file (version 2 or 3, little-endian), mapped read-only, with every count, string, type, shape and offset
 * checked before anybody sees it. Split models (-00001-of-0000N.gguf) open as one: name the first part.
 * Format: ggml-org/ggml docs/gguf.md.
 *
 *     struct gguf *g;
 *     if (gguf_open("model.gguf", &g, &e)) ...
 *     const struct gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
 *     gguf_close(g);
 *
 * Everything returned points into the gguf object or its mapping and lives until gguf_close. */
#ifndef ZINC_MODEL_GGUF_H
#define ZINC_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/qtypes.h"

enum gguf_type {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STR, GGUF_ARR,
    GGUF_U64, GGUF_I64, GGUF_F64, GGUF_TYPE_COUNT
};

struct gguf_str {
    const char *s; /* not terminated; bytes as stored, not checked for UTF-8 */
    uint64_t len;
};

struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type;      /* GGUF_ARR for arrays                                               */
    enum gguf_type elem_type; /* of an array; else equal to type                                    */
    uint64_t n;               /* elements: 1 for scalars                                           */
    const uint8_t *data;      /* raw little-endian elements, unaligned; for strings see gguf_kv_str */
    const uint64_t *str_off;  /* string arrays: n offsets from `data` to each (length, bytes) pair  */
};

struct gguf_tensor {
    struct gguf_str name;
    enum qtype type;
    uint32_t n_dims;    /* 1..4; missing dimensions are 1                                          */
    uint64_t ne[4];     /* ne[0] is contiguous; all >= 1                                           */
    uint64_t bytes;     /* rows * row bytes, checked to lie in the file                            */
    const uint8_t *data;
    uint32_t part;      /* which file of a split model                                             */
    uint64_t file_off;  /* offset of data in that file                                             */
};

struct gguf_part {
    char *path;
    const uint8_t *map;
    uint64_t bytes;
    int64_t changed[2];           /* when it was changed last, as it was opened: seconds and ns */
    uint64_t inode[2];            /* of which device, and its number                            */
};

struct gguf {
    uint32_t version;
    uint64_t alignment;
    uint64_t n_kv, n_tensors;
    struct gguf_kv *kv;           /* of the first part                            */
    struct gguf_tensor *tensors;  /* of all parts, in file order                  */
    uint32_t n_parts;
    struct gguf_part *parts;
    uint64_t total_bytes;         /* of all parts                                 */
    struct gguf_index *index;     /* private: name lookup                         */
};

/* Opens, maps and checks the file. -ENOENT and the like from the system; -EINVAL: not a valid GGUF file;
 * -ENOTSUP: valid, but of a version, endianness or tensor type that zinc does not read. */
int gguf_open(const char *path, struct gguf **out, struct err *e);
/* -ESTALE: a file was written to since it was opened. A new file under its name is none of ours. */
int gguf_check_unchanged(const struct gguf *g, struct err *e);

/* The same over `n` bytes in memory, which must outlive the object and start at a multiple of 8; `name` stands for the
 * path in messages. Split models open from files only. */
int gguf_open_memory(const char *name, const void *bytes, uint64_t n, struct gguf **out, struct err *e);
void gguf_close(struct gguf *g); /* NULL is fine */

/* In place of tensor `at`: n others, whose names and data lie in `mem`, from malloc, which is the object's from here on, also after an
 * error. Pointers to tensors are void. -EEXIST: a name is taken. */
int gguf_replace_tensor(struct gguf *g, uint64_t at, const struct gguf_tensor *with, uint32_t n, void *mem, struct err *e);

/* find: NULL when absent. Keys and names are C strings. */
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Typed reads of element i (0 for scalars). Integers of any width convert when the value fits; bools read as 0/1;
 * false: wrong type or out of range. */
bool gguf_kv_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out);
bool gguf_kv_i64(const struct gguf_kv *kv, uint64_t i, int64_t *out);
bool gguf_kv_f64(const struct gguf_kv *kv, uint64_t i, double *out); /* f32 and f64 only */
bool gguf_kv_str(const struct gguf_kv *kv, uint64_t i, struct gguf_str *out);

/* Optional scalars by key: returns 0 and leaves *out alone when the key is absent; -EINVAL with a message that names
 * the key, the wanted and the actual type when it is there but does not fit. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct err *e);
int gguf_get_f32(const struct gguf *g, const char *key, float *out, struct err *e);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *e);
int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out, struct err *e);

const char *gguf_type_name(enum gguf_type t);

/* The path that messages should name. */
const char *gguf_path(const struct gguf *g);

#endif
