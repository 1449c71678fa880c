/* engine/grammar/json_schema_impl.h: a JSON schema on its way to GBNF, for the files json_schema*.c. */
#ifndef ZINC_GRAMMAR_JSON_SCHEMA_IMPL_H
#define ZINC_GRAMMAR_JSON_SCHEMA_IMPL_H

#include <jansson.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/json_schema_strings.h"

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
    X(RAW, "raw", "%until \"</parameter>\" \"\\n\"")                                                               \
    X(PAIR, "pair", "%until \"</arg_value>\" \"\\n\"?")                                                               \
    X(MARKED, "marked", "\"<|\\\"|>\" %until \"<|\\\"|>\"")                                                          \
    X(BARE, "bare", "[^:,<>{}\\[\\]\\\" \\x00-\\x1f]{1,60}")                                                             \
    X(ANY, "any", "$-map | $-list | $-marked | $-number | \"true\" | \"false\" | \"null\"")                           \
    X(ENTRY, "entry", "($-bare | $-marked) \":\" $-any")                                                               \
    X(MAP, "map", "\"{\" ($-entry (\",\" $-entry)*)? \"}\"")                                                           \
    X(LIST, "list", "\"[\" ($-any (\",\" $-any)*)? \"]\"")

enum schema_shared {
#define X(id, name, text) SHARED_##id,
    SCHEMA_SHARED(X)
#undef X
    SHARED_COUNT
};

/* How values are written: as JSON; as the plain text of a parameter up to its end (Qwen's XML), inside of which is JSON;
 * or in Gemma's own way, strings between <|"|> marks and without blanks. */
enum schema_syntax { SCHEMA_JSON, SCHEMA_XML, SCHEMA_GEMMA };

/* Of SCHEMA_XML: what is around keys and values. Those of rules are GBNF. */
struct schema_xml {
    const char *key_begin, *key_end_rule, *value_end_rule, *end_mark;
    enum schema_shared raw; /* any text up to and with the end */
};

enum { SCHEMA_PATTERN_WORK = 1 << 24 }; /* steps for all patterns of a schema: some tenth of a second */

struct schema {
    const json_t *root;
    enum schema_syntax syntax;
    const struct schema_xml *xml;
    bool strict;
    json_t *warnings; /* what was passed over; NULL: nobody asks */
    const char *where;
    json_t *arguments; /* XML: the schema of all */
    const char *prefix;
    struct tok_buf rules; /* all but the first                       */
    json_t *names;        /* $ref -> number of the rule made for it  */
    uint32_t n_rules, n_merged, depth;
    uint64_t work; /* what is left for patterns */
    uint64_t probe_work; /* the same, and below the schemas looked at and how deep, for what is only tried */
    uint32_t n_probed, probing;
    int decimals; /* that the number which is just written may have at most */
    bool shared[SHARED_COUNT]; /* which of them are used               */
    char path[512];
    struct err *e;
    int rc; /* the first failure; everything after it does nothing */
    bool impossible; /* it is that nothing can satisfy the schema    */
};

/* Both are no-ops after a failure. */
__attribute__((format(printf, 3, 4))) void schema_put(struct schema *s, struct tok_buf *b, const char *fmt, ...);
__attribute__((cold, format(printf, 3, 4))) void schema_fail(struct schema *s, int rc, const char *fmt, ...);

/* -EINVAL: nothing satisfies the schema. An alternative of which that is true is left out. */
__attribute__((cold, format(printf, 2, 3))) void schema_impossible(struct schema *s, const char *fmt, ...);

/* A keyword that cannot be done: a failure where the schema is strict, else a warning, and the keyword is passed over. */
__attribute__((cold, format(printf, 3, 4))) void schema_loosen(struct schema *s, int rc, const char *fmt, ...);

/* The bytes as a GBNF literal, and a shared rule's name. */
void schema_put_literal(struct schema *s, struct tok_buf *b, const char *text, size_t n);
void schema_put_shared(struct schema *s, struct tok_buf *b, enum schema_shared which);

void schema_put_json(struct schema *s, struct tok_buf *b, json_t *v); /* the value's text, as a literal */
void schema_put_buf(struct schema *s, struct tok_buf *b, const struct tok_buf *more);
/* Makes a rule with this text, which is freed, and appends its name to b. */
void schema_put_rule(struct schema *s, struct tok_buf *b, struct tok_buf *text);
/* Takes the next n numbers of rules, from n_rules + 1 on. */
void schema_claim_rules(struct schema *s, uint32_t n);
/* The shared rules in use, and those that they use. */
void schema_put_shared_rules(struct schema *s, struct tok_buf *out);

/* Goes down the path by one step; returns what schema_leave takes back. */
size_t schema_enter(struct schema *s, const char *fmt, const char *key, size_t index);
void schema_leave(struct schema *s, size_t at);

/* json_schema.c: one name, literal or group for what a schema allows; min to max characters of a JSON string; ", "; what
 * may stand behind brackets. */
void schema_put_any(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_flat(struct schema *s, struct tok_buf *b, json_t *flat); /* what schema_flatten made, which may change */
void schema_put_characters(struct schema *s, struct tok_buf *b, uint64_t min, uint64_t max);
void schema_put_separator(struct schema *s, struct tok_buf *b);
void schema_put_ws(struct schema *s, struct tok_buf *b);
void schema_put_free(struct schema *s, struct tok_buf *b); /* any value */
/* A count such as minLength; `none` where it is not there. */
uint64_t schema_count(struct schema *s, json_t *schema, const char *key, uint64_t none);
/* The values of a flat schema's enum that its other keywords allow; new. */
json_t *schema_enum(struct schema *s, json_t *flat);
/* The names of the types that a flat schema allows, `not` taken out. */
json_t *schema_type_names(struct schema *s, json_t *flat);
/* Each alternative of a flat schema with anyOf, together with what stands beside it; the caller's. */
json_t *schema_alternative(struct schema *s, json_t *flat, size_t i);

/* json_schema_array.c */
void schema_put_array(struct schema *s, struct tok_buf *b, json_t *schema);

/* json_schema_object.c */
void schema_put_object(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_members(struct schema *s, struct tok_buf *b, json_t *schema);

/* json_schema_call.c: all arguments of a call, which are an object in any case; a parameter's value in XML up to and with
 * its end; whether a key can stand bare in the syntax. */
void schema_put_arguments(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_parameter(struct schema *s, struct tok_buf *b, const char *key, json_t *value);
bool schema_key_fits(const struct schema *s, const char *key);

/* json_schema_merge.c: follows references, merges allOf, and leaves a schema that holds keywords of one object, with
 * anyOf for all alternatives, $patterns for those beyond the first, and $not for what must not hold; passes over or
 * refuses what is not supported. The result is the caller's; NULL after a failure. */
json_t *schema_flatten(struct schema *s, json_t *schema);
/* What "#/a/b" stands for; borrowed. */
json_t *schema_resolve(struct schema *s, const char *ref);

/* json_schema_probe.c: does the value satisfy those keywords of a flat schema that schema_enum does not look at itself? */
bool schema_allows(struct schema *s, json_t *flat, json_t *v);
/* Takes alternatives out of a flat schema's anyOf that nothing can satisfy. */
void schema_drop_alternatives(struct schema *s, json_t *flat);
/* Alternatives of a oneOf as those of an anyOf; new. Each gets a `not` of those that it does not exclude by itself; where
 * that cannot be said, there is a warning. alone: no other part of the schema speaks of members. */
json_t *schema_exclude_others(struct schema *s, json_t *list, bool alone);
bool schema_can_negate(json_t *v); /* in json_schema_merge.c: can it stand in a `not`? */
bool schema_equal(json_t *a, json_t *b); /* as JSON values: 1 is 1.0 */

/* json_schema_number.c */
void schema_put_integer(struct schema *s, struct tok_buf *b, json_t *schema);
void schema_put_number(struct schema *s, struct tok_buf *b, json_t *schema);

/* json_schema_pattern.c: the strings that match a regular expression. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM with the reason in
 * what. work: steps that may be done, all patterns of a schema together, and are taken off. */
int schema_pattern(const char *regex, uint64_t *work, struct strings *out, char what[160]);

/* json_schema_string.c */
void schema_put_string(struct schema *s, struct tok_buf *b, json_t *schema);
/* What pattern, format, `not` and, beside them, limits of length leave; false: all strings. */
bool schema_strings(struct schema *s, json_t *flat, struct strings *set);
void schema_narrow_by_list(struct schema *s, struct strings *set, json_t *values, bool minus);
/* Of *set what is also in other (minus: not in it), which is freed. rc: of making other. */
void schema_narrow(struct schema *s, struct strings *set, struct strings *other, int rc, bool minus, const char *what);
/* The set's rules, and the name of the first; in the syntax of strings, with what stands around them. */
void schema_put_strings(struct schema *s, struct tok_buf *b, const struct strings *set);
void schema_put_string_set(struct schema *s, struct tok_buf *b, struct strings *set);

#endif
