/* engine/grammar.h
 * Constrained decoding: which tokens may come next so that the answer stays inside a grammar. A grammar is compiled
 * once, from GBNF text or from a JSON schema, to an automaton over bytes; a state walks it token by token and gives a
 * mask of the vocabulary, one bit per token. Masks are cached by automaton state, so that a warm step costs a lookup.
 *
 *     engine_vocab(eng, &v, &e);                               the vocabulary as a trie, made once per engine
 *     grammar_from_schema(v, json, n, &g, &e);
 *     grammar_state_create(g, &st, &e);
 *     sampler_set_mask(s, grammar_state_mask(st));             before each choice
 *     grammar_state_accept(st, id);                            after it
 *
 * Threads: compiling may happen on any thread, with one vocabulary index for all. A grammar and all of its states
 * belong to one thread at a time (they share the cache of masks); grammar_ref and grammar_unref may be called from any.
 *
 * GBNF as in the field: `name ::= alternatives` with start rule `root`; "literals" with \n \r \t \\ \" \[ \] \xHH
 * \uHHHH \UHHHHHHHH; classes [a-z] and [^...]; `.`; groups; | * + ? {m} {m,n} {m,}; # comments; token terminals
 * <name> (the token whose text is <name>), <[id]>, and !<...> (any one token but that one, and none that ends a
 * generation). One terminal of our own: `%until "text"` matches the shortest text that ends with the first occurrence
 * of "text".
 *
 * Characters are Unicode code points in UTF-8: a token may end inside a character, the next one must go on with it.
 * Control tokens (<|im_end|> and the like) stand for their text where a literal, a token terminal or %until asks for
 * it, never inside classes: they cannot leak into a JSON string. Tokens that end a generation are allowed exactly where
 * the grammar may end, which may be behind their own text.
 *
 * JSON schemas: type, properties, required, additionalProperties, items, prefixItems, min/maxItems, min/maxLength,
 * pattern, format date, time, date-time and uuid, minimum and maximum with their exclusive forms, enum, const, anyOf,
 * oneOf (as anyOf), allOf, nullable, $ref inside the schema, also to what holds it. The texts are those that models
 * write: members in the schema's order, a space or a line end with up to 32 blanks behind { [ , and before ] }, a space
 * behind a colon. They are a part of what the schema allows, never more: an object with properties and without
 * additionalProperties gets no others, prefixItems come all, a number has at most 16 digits on each side of its point,
 * a bounded one no exponent. */
#ifndef ZINC_ENGINE_GRAMMAR_H
#define ZINC_ENGINE_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/tok_buf.h"

struct engine;
struct vocab_index;
struct grammar;
struct grammar_state;

enum vocab_kind {
    VOCAB_TEXT,    /* stands for its bytes                                  */
    VOCAB_CONTROL, /* has a text, which plain text does not match           */
    VOCAB_END,     /* ends a generation                                     */
    VOCAB_UNUSED,  /* is never allowed: no bytes, suppressed                */
};
struct vocab_source {
    uint32_t n_vocab;
    void *user;
    /* What token `id` is, and its bytes (valid until the next call). */
    enum vocab_kind (*token)(void *user, int32_t id, const char **bytes, size_t *n);
};

/* -ENOMEM. The index copies what it needs. */
int vocab_index_create(const struct vocab_source *v, struct vocab_index **out, struct err *e);
void vocab_index_destroy(struct vocab_index *v); /* NULL is fine; grammars over it must be gone */

/* The engine's own index, made by the first call; any thread. -ENOENT: the model has no vocabulary. */
int engine_vocab(const struct engine *eng, const struct vocab_index **out, struct err *e);

/* -EINVAL: the text is no grammar, with line and column; a rule that is missing or left recursive, by name; -E2BIG:
 * beyond a limit (rules, repetitions, states), by name; -ENOMEM. *out starts with one reference. */
int grammar_from_gbnf(const struct vocab_index *v, const char *text, size_t n, struct grammar **out, struct err *e);
/* -EINVAL: not a JSON schema, with the path inside it; -ENOTSUP: a keyword that would change what is valid and is not
 * supported, by path and name. */
int grammar_from_schema(const struct vocab_index *v, const char *json, size_t n, struct grammar **out, struct err *e);
void grammar_ref(struct grammar *g);
void grammar_unref(struct grammar *g); /* NULL is fine */

/* A schema as GBNF rules, to be part of a larger grammar: appends rules whose names all begin with `prefix` and a dash
 * (prefix: letters, digits, dashes), but for the first, which is named exactly `prefix`. Errors as in
 * grammar_from_schema; a schema that holds itself without end is found by grammar_from_gbnf. */
int grammar_schema_to_gbnf(const char *json, size_t n, const char *prefix, struct tok_buf *out, struct err *e);
/* The same for "any JSON object" (response_format json_object) and "any JSON value". */
int grammar_json_to_gbnf(bool object_only, const char *prefix, struct tok_buf *out, struct err *e);

int grammar_state_create(struct grammar *g, struct grammar_state **out, struct err *e); /* takes a reference */
void grammar_state_destroy(struct grammar_state *st); /* NULL is fine */
void grammar_state_reset(struct grammar_state *st);

/* One bit per token, bit id % 64 of word id / 64, ceil(n_vocab / 64) words: what may come next. Valid until the next
 * call with this grammar. Never all zero while the grammar can go on or end, if every byte has a token. NULL: out of
 * memory. */
const uint64_t *grammar_state_mask(struct grammar_state *st);
/* 0; -EINVAL: the token is not allowed here (the state stays); -ENOMEM. A token that ends a generation ends the state:
 * only such tokens are allowed from then on. */
int grammar_state_accept(struct grammar_state *st, int32_t id);
bool grammar_state_can_end(const struct grammar_state *st);

struct grammar_stats {
    uint64_t masks, cached;     /* asked for, and found in the cache                */
    uint64_t cold_ns, bytes;    /* spent on making masks; held by the cache         */
};
struct grammar_stats grammar_stats(const struct grammar *g);

#endif
