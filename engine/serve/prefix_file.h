/* engine/serve/prefix_file.h
 * The file that holds what was computed for a run of a beginning of tokens: a head, all tokens from the first one to the
 * end of the run, and the bytes of caches and states. It is read on the machine that wrote it, or on one like it: numbers
 * are the host's own, and a file from a host of the other byte order has another magic.
 *
 * A file is believed only if everything agrees: magic, class, key, positions, sizes, every token of the beginning (not
 * only their hash, which two beginnings might share) and a checksum over all of it (XXH3, 128 bits:
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). Whatever else the file says, it is a miss. */
#ifndef ZINC_SERVE_PREFIX_FILE_H
#define ZINC_SERVE_PREFIX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct prefix_hash {
    uint64_t lo, hi;
};

enum prefix_kind {
    PREFIX_BLOCK,            /* the caches of positions [from, to), a whole block                              */
    PREFIX_END,              /* the caches of a rest of a block, and the recurrent state behind position to - 1 */
};

/* What a file is about. */
struct prefix_id {
    struct prefix_hash class; /* whose bytes these are: the model and the arithmetic                           */
    struct prefix_hash key;   /* of owner and tokens                                                           */
    enum prefix_kind kind;
    uint32_t from, to;
    uint64_t n_data;          /* bytes of caches and state                                                     */
};

/* The hash of n tokens that follow a beginning with the hash `before`. */
struct prefix_hash prefix_hash_next(struct prefix_hash before, const int32_t *tok, uint32_t n);
bool prefix_hash_equal(struct prefix_hash a, struct prefix_hash b);

/* Bytes of the whole file, and where the data lies in it (a multiple of 64). */
uint64_t prefix_file_bytes(const struct prefix_id *id);
uint64_t prefix_file_data(const struct prefix_id *id);

/* Writes head, tokens [id->to] and checksum around the data, which is in its place in file [prefix_file_bytes]. */
void prefix_file_seal(void *file, const struct prefix_id *id, const int32_t *tok);

/* Is this file, n bytes, what is wanted? Then its data lies at prefix_file_data. -EINVAL says what is wrong. */
int prefix_file_check(const void *file, uint64_t n, const struct prefix_id *want, const int32_t *tok, struct err *e);

#endif
