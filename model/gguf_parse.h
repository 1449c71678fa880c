/* model/gguf_parse.h
 * Private to the GGUF reader: the checked directory of one file, before parts of a split model are joined. */
#ifndef ZINC_MODEL_GGUF_PARSE_H
#define ZINC_MODEL_GGUF_PARSE_H

#include "model/gguf.h"
#include "model/gguf_index.h"

struct gguf_dir {
    uint32_t version;
    uint64_t alignment;
    uint64_t n_kv, n_tensors;
    struct gguf_kv *kv;
    struct gguf_tensor *tensors; /* part 0, in the order of the file */
    struct gguf_names kv_names;
    uint64_t data_start;
};

/* Reads and checks everything but uniqueness of tensor names. Messages do not name the file. On failure `d` is empty. */
int gguf_parse(const uint8_t *map, uint64_t bytes, struct gguf_dir *d, struct err *e);
void gguf_dir_finish(struct gguf_dir *d);

const struct gguf_kv *gguf_dir_find(const struct gguf_dir *d, const char *key);

#endif
