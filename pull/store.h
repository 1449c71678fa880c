/* pull/store.h: what lies in the folder of models. */
#ifndef ZINC_PULL_STORE_H
#define ZINC_PULL_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A model that was pulled, or begun. */
struct store_model {
    char *name;           /* as zinc pull takes it, with the file's name */
    char *path;           /* of its first part                           */
    uint64_t bytes;       /* of the parts that are here whole            */
    unsigned n_parts, n_here;
};

/* Sorted by name; malloc'ed, freed by store_free. A folder that is not there holds nothing. Links are not followed. */
int store_list(const char *home, struct store_model **out, size_t *n, struct err *e);
void store_free(struct store_model *m, size_t n);

/* Removes all parts of the model at `path`, begun ones included, and folders that are empty then, up to `home`. */
int store_remove(const char *home, const char *path, struct err *e);

#endif
