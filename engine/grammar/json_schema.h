/* engine/grammar/json_schema.h
 * JSON schemas as GBNF rules, in the syntax in which a chat format writes values: what grammar_schema_to_gbnf does, with
 * all that it can be told. engine/grammar/grammar.h says what is supported.
 *
 *     struct json_schema_opts o = { .strict = false, .warnings = json_array(), .where = "tools[0]" };
 *     json_schema_rules(schema, JSON_SCHEMA_ARGS_XML, "zinc-args-a", &o, &gbnf, &e);
 *
 * Threads: any; nothing is kept. */
#ifndef ZINC_GRAMMAR_JSON_SCHEMA_H
#define ZINC_GRAMMAR_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "model/tok_buf.h"

enum json_schema_form {
    JSON_SCHEMA_VALUE,      /* a JSON value                                                             */
    JSON_SCHEMA_ARGS_JSON,  /* a JSON object: the arguments of a call                                   */
    JSON_SCHEMA_ARGS_XML,   /* <parameter=KEY>\nVALUE\n</parameter>\n for each                          */
    JSON_SCHEMA_ARGS_PAIRS, /* <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> for each, with line ends between or not */
    JSON_SCHEMA_ARGS_GEMMA, /* key:value,.. without the braces around it, strings between <|"|> marks   */
};

struct json_schema_opts {
    bool strict;       /* refuse what cannot be done; else it is passed over with a warning               */
    json_t *warnings;  /* lines are appended, each once; NULL: nobody asks                                */
    const char *where; /* what the lines begin with; NULL: nothing                                        */
};

/* Appends rules whose names begin with `prefix` and a dash, but for the first, which is named `prefix`. schema NULL: any
 * object. -EINVAL: no schema, or nothing satisfies it, with the path inside it; -ENOTSUP, -E2BIG: a keyword that cannot
 * be done, or not as large (strict alone); -ENOMEM. */
int json_schema_rules(const json_t *schema, enum json_schema_form form, const char *prefix,
                      const struct json_schema_opts *o, struct tok_buf *out, struct err *e);

/* Appends a whole grammar, GBNF with the rule `root`: the texts that match the regular expression from their first to their
 * last character. -EINVAL, -ENOTSUP, -E2BIG, as a schema's pattern; -ENOMEM. */
int json_schema_regex(const char *regex, struct tok_buf *out, struct err *e);

/* How a parameter of a call in XML is written and read. */
enum json_schema_text {
    JSON_SCHEMA_RAW,  /* a string as it stands; null, true and false where `types` has them */
    JSON_SCHEMA_FREE, /* what is JSON of one of the types is that, all else is a string      */
    JSON_SCHEMA_JSON, /* the same, and marks inside JSON strings do not count                */
};
enum { /* types, as bits */
    TYPE_STRING = 1,
    TYPE_INTEGER = 2,
    TYPE_NUMBER = 4, /* with fraction */
    TYPE_TRUE = 8,
    TYPE_NULL = 16,
    TYPE_OBJECT = 32,
    TYPE_ARRAY = 64,
    TYPE_FALSE = 128,
    TYPE_BOOLEAN = TYPE_TRUE | TYPE_FALSE,
    TYPE_ANY = 255,
};
/* `params`: the schema of all parameters, in which references are followed; NULL or without the key: a string. */
enum json_schema_text json_schema_parameter(const json_t *params, const char *key, size_t n_key, unsigned *types);

#endif
