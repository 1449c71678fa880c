/* base/toml.h
 * The part of TOML (toml.io/en/v1.0.0) that a list of models needs: tables with bare or quoted names, and in them keys with
 * strings on one line, whole numbers, reals, booleans, and arrays of these. No dotted keys, no tables in tables, no dates.
 *
 *     struct toml t;
 *     if (!(rc = toml_parse(text, n, "models.toml", &t, e)))
 *         for (i < t.n) t.pair[i].table, .key, .value[0..n_values)
 *     toml_clear(&t);
 *
 * Values come as text, as an option on a command line has them. What is given twice, and what is not understood, is an error
 * that names the line. */
#ifndef ZINC_BASE_TOML_H
#define ZINC_BASE_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TOML_TEXT_MAX = 1 << 20, TOML_PAIRS_MAX = 65536 };

enum toml_kind { TOML_STRING, TOML_NUMBER, TOML_BOOL };

struct toml_pair {
    uint32_t table;            /* index into toml.table                          */
    uint32_t line;
    const char *key;
    bool is_array;
    enum toml_kind kind;       /* of all its values                              */
    uint32_t n_values;
    const char **value;        /* [n_values] "true", "false"; numbers as they were written, without _ */
};

struct toml {
    const char **table;        /* [n_tables] in their order; the first one, "", is what stands before any */
    uint32_t *table_line;
    uint32_t n_tables;
    struct toml_pair *pair;    /* [n] in their order */
    uint32_t n;
    char *text;                /* what names and keys point into */
    const char **values;       /* [n_values] of all pairs, malloc'ed */
    uint32_t n_values;
};

/* -EINVAL: not that; -EFBIG: more than TOML_TEXT_MAX bytes; -ENOMEM. `name` stands for the file in messages. */
int toml_parse(const char *s, size_t n, const char *name, struct toml *out, struct err *e);
void toml_clear(struct toml *t); /* {0} is fine */

#endif
