/* engine/json_schema_impl.h: a JSON schema on its way to GBNF, for the files json_schema*.c. */
#ifndef ZINC_ENGINE_JSON_SCHEMA_IMPL_H
#define ZINC_ENGINE_JSON_SCHEMA_IMPL_H

#include <jansson.h>

#include "engine/grammar.h"

/* X(name of a shared rule below the prefix, what it stands for); $ is the prefix. */
#define SCHEMA_SHARED(X)                                                                                               \
    X(WS, "ws", "(\" \" | \"\\n\" [ \\t]{0,32})?")                                                                     \
    X(ESCAPE, "escape", "[\"\\\\/bfnrt] | \"u\" $-unicode")                                                            \
    X(HEX, "hex", "[0-9a-fA-F]")                                                                                       \
    X(UNICODE, "unicode",                                                                                              \
      "[1-9a-cA-CefEF] $-hex $-hex $-hex | [dD] ([0-7] $-hex $-hex | [89abAB] $-hex $-hex \"\\\\u\" [dD] [c-fC-F] "    \
      "$-hex $-hex) | \"0\" ([1-9a-fA-F] $-hex $-hex | \"0\" ([1-9a-fA-F] $-hex | \"0\" [1-9a-fA-F]))")                \
    X(STRING, "string", "\"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" $-escape)* \"\\\"\"")                               \
    X(INTEGER, "integer", "\"-\"? (\"0\" | [1-9] [0-9]{0,15})")                                                        \
    X(NUMBER, "number", "$-integer (\".\" [0-9]{1,16})? ([eE] [+-]? [0-9]{1,2})?")                                     \
    X(VALUE, "value", "$-object | $-array | $-string | $-number | \"true\" | \"false\" | \"null\"")                    \
    X(MEMBER, "member", "$-string \":\" \" \"? $-value")                                                               \
    X(OBJECT, "object", "\"{\" $-ws ($-member (\",\" $-ws $-member)* $-ws)? \"}\"")                                    \
    X(ARRAY, "array", "\"[\" $-ws ($-value (\",\" $-ws $-value)* $-ws)? \"]\"")                                        \
    X(DATE, "date",                                                                                                    \
      "[0-9]{4} \"-\" (\"02\" \"-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8]) | (\"0\" [469] | \"11\") \"-\" (\"0\" "  \
      "[1-9] | [12] [0-9] | \"30\") | (\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]))")    \
    X(TIME, "time",                                                                                                    \
      "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,9})? (\"Z\" | [+-] ([01] [0-9] "  \
      "| \"2\" [0-3]) \":\" [0-5] [0-9])")                                                                             \
    X(UUID, "uuid", "$-hex{8} \"-\" $-hex{4} \"-\" $-hex{4} \"-\" $-hex{4} \"-\" $-hex{12}")

enum schema_shared {
#define X(id, name, text) SHARED_##id,
    SCHEMA_SHARED(X)
#undef X
    SHARED_COUNT
};

struct schema {
    json_t *root;
    const char *prefix;
    struct tok_buf rules; /* all but the first                       */
    json_t *names;        /* $ref -> number of the rule made for it  */
    uint32_t n_rules, n_merged, depth;
    bool shared[SHARED_COUNT]; /* which of them are used               */
    char path[512];
    struct err *e;
    int rc; /* the first failure; everything after it does nothing */
};

/* Both are no-ops after a failure. */
__attribute__((format(printf, 3, 4))) void schema_put(struct schema *s, struct tok_buf *b, const char *fmt, ...);
__attribute__((cold, format(printf, 3, 4))) void schema_fail(struct schema *s, int rc, const char *fmt, ...);

/* The bytes as a GBNF literal, and a shared rule's name. */
void schema_put_literal(struct schema *s, struct tok_buf *b, const char *text, size_t n);
void schema_put_shared(struct schema *s, struct tok_buf *b, enum schema_shared which);

void schema_put_json(struct schema *s, struct tok_buf *b, json_t *v); /* the value's text, as a literal */
void schema_put_buf(struct schema *s, struct tok_buf *b, const struct tok_buf *more);
/* Makes a rule with this text, which is freed, and appends its name to b. */
void schema_put_rule(struct schema *s, struct tok_buf *b, struct tok_buf *text);
/* The shared rules in use, and those that they use. */
void schema_put_shared_rules(struct schema *s, struct tok_buf *out);

/* Goes down the path by one step; returns what schema_leave takes back. */
size_t schema_enter(struct schema *s, const char *fmt, const char *key, size_t index);
void schema_leave(struct schema *s, size_t at);

/* json_schema.c: one name, literal or group for what a schema allows; min to max characters of a string; ", ". */
void schema_put_any(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_characters(struct schema *s, struct tok_buf *b, uint64_t min, uint64_t max);
void schema_put_separator(struct schema *s, struct tok_buf *b);

/* json_schema_object.c */
void schema_put_object(struct schema *s, struct tok_buf *b, json_t *schema);

/* json_schema_merge.c: follows references, merges allOf, and leaves a schema that holds keywords of one object, with
 * anyOf for all alternatives; refuses what is not supported. The result is the caller's; NULL after a failure. */
json_t *schema_flatten(struct schema *s, json_t *schema);
/* What "#/a/b" stands for; borrowed. */
json_t *schema_resolve(struct schema *s, const char *ref);

/* json_schema_number.c */
void schema_put_integer(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_number(struct schema *s, struct tok_buf *b, json_t *schema);

/* json_schema_pattern.c: the inside of a JSON string whose value matches a regular expression. */
void schema_put_pattern(struct schema *s, struct tok_buf *b, const char *regex);

#endif
