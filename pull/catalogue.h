/* pull/catalogue.h: the list of models that zinc knows by a short name: share/catalogue.json, which is part of the program.
 *
 * Each entry is an object: id (a name's word); name (hf:OWNER/REPO:FILE.gguf or :TYPE); family (as zinc inspect says it); about;
 * size in bytes and sha256, or null where no sum was published that could be relied on: the hub's is taken then;
 * context, the tokens that it was trained for; kv_bytes, of an f16 cache for each token, null where layers differ. */
#ifndef ZINC_PULL_CATALOGUE_H
#define ZINC_PULL_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pull/name.h"
#include "pull/sha256.h"

struct catalogue_entry {
    char id[NAME_TAG];
    char name[NAME_FILE + 2 * NAME_PART];
    char family[32], about[120];
    uint64_t size;            /* 0: not known  */
    char sha256[SHA256_TEXT]; /* "": not known */
    uint32_t context;
    uint64_t kv_bytes;        /* 0: not told   */
};

enum { CATALOGUE_MAX = 1000 };

/* The entries of a catalogue; malloc'ed. -EINVAL with the entry and what is wrong with it. */
int catalogue_read(const char *text, size_t n, struct catalogue_entry **out, size_t *n_out, struct err *e);
/* zinc's own. */
int catalogue_open(struct catalogue_entry **out, size_t *n_out, struct err *e);
/* NULL: none has this id. */
const struct catalogue_entry *catalogue_find(const struct catalogue_entry *c, size_t n, const char *id);
/* The id nearest to it, or NULL. */
const char *catalogue_nearest(const struct catalogue_entry *c, size_t n, const char *id);

#endif
