/* engine/grammar/grammar.h
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
 * Threads: everything here may be called on any thread, but a state belongs to one at a time. A grammar has a lock, held
 * while a mask is made or a token walked over; who must not wait for it uses grammar_state_prepare.
 *
 * Cost: most masks are made within some thousand steps, but a grammar can be written that takes any time. So work is
 * counted, in steps: an item or an edge that is looked at, a node of the vocabulary's trie, 64 words of a mask; some 5
 * to 20 ns each. A token that takes more than GRAMMAR_TOKEN_STEPS, or more memory than the cache may have, fails with
 * -E2BIG; the grammar and its other states stay as they were. Over a vocabulary of 250,000 tokens ordinary schemas take
 * some 600,000 steps for their costliest mask. What is compiled is bounded in states and edges (grammar_impl.h): 512 tools
 * of 30 parameters each fit, in less than 20 MiB.
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
 * JSON schemas: type, properties, required, additionalProperties, patternProperties and propertyNames, min and
 * maxProperties (as far as names in properties and one more go), items, prefixItems, min/maxItems, uniqueItems of an enum
 * or booleans, min/maxLength, pattern (look-ahead only where it begins), format date, time, date-time, uuid, email and
 * ipv4, minimum and maximum with their exclusive forms, multipleOf (powers of ten below one; any up to nine decimals with
 * up to 512 multiples between two bounds; whole numbers up to 100 from 0 on or without bounds), enum, const, not (enum,
 * const, type, pattern, one name in required), anyOf, oneOf (where it can be shown, or said by `not`, that at most one
 * holds), allOf, nullable, $ref inside the schema, also to what holds it. Not supported: contains, if, dependent...,
 * unevaluated... but false, $dynamicRef. Patterns and limits of length beside them may make STRINGS_MAX_STATES states.
 *
 * The texts are those that models write: members in the schema's order, a space or a line end with up to 32 blanks behind
 * { [ , and before ] }, a space behind a colon. They are a part of what the schema allows, never more: an object with
 * properties and without additionalProperties gets no others, prefixItems come all, more than five unique items come in
 * the enum's order, a number has at most 16 digits on each side of its point, a bounded one no exponent and no more digits
 * than a double keeps apart; nothing happens in the year 0000. */
#ifndef ZINC_GRAMMAR_GRAMMAR_H
#define ZINC_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/tok_buf.h"

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

/* -EINVAL: the text is no grammar, with line and column; a rule that is missing or left recursive, by name; -E2BIG:
 * beyond a limit (rules, repetitions, states, edges, steps), by name; -ENOMEM. *out starts with one reference. */
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

/* All that the grammar holds, its cache included, as it was when somebody last computed with it. */
uint64_t grammar_bytes(const struct grammar *g);

int grammar_state_create(struct grammar *g, struct grammar_state **out, struct err *e); /* takes a reference */
void grammar_state_destroy(struct grammar_state *st); /* NULL is fine */
void grammar_state_reset(struct grammar_state *st);

/* One bit per token, bit id % 64 of word id / 64, ceil(n_vocab / 64) words: what may come next. Valid until the state
 * goes on, is reset or destroyed. Never all zero while the grammar can go on or end, if every byte has a token. NULL:
 * out of memory, or too costly. */
const uint64_t *grammar_state_mask(struct grammar_state *st);
/* 0; -EINVAL: the token is not allowed here (the state stays); -ENOMEM, -E2BIG. A token that ends a generation ends the
 * state: only such tokens are allowed from then on. */
int grammar_state_accept(struct grammar_state *st, int32_t id);
bool grammar_state_can_end(struct grammar_state *st);

/* ---- the same for a thread that must not be held up ---- */

enum { GRAMMAR_TOKEN_STEPS = 20000000, GRAMMAR_GUESS_STEPS = 20000 }; /* the latter: for a look at what was guessed */

struct grammar_limit {
    uint64_t steps;            /* at most; beyond it the call ends with -E2BIG                              */
    uint64_t slice;            /* pause is called about every so many steps; 0: never                       */
    int (*pause)(void *user);  /* 0: go on; a negative errno ends the call. May be NULL, may block          */
    void *user;
    uint64_t used;             /* what was taken is added up here                                           */
};

/* The token that was chosen by the state's mask (which has its bit) comes next: a note, without work. */
void grammar_state_choose(struct grammar_state *st, int32_t id);
/* The mask, if it is there already; NULL: grammar_state_prepare has to be called. */
const uint64_t *grammar_state_ready(const struct grammar_state *st);
bool grammar_state_may_end(const struct grammar_state *st); /* it is there, and has a token that ends the generation */
/* Walks over the chosen token and makes the next mask. 0; -EAGAIN: another thread computes with the grammar just now
 * (only without `wait`); -E2BIG: more work than the limit, or more memory than the cache may have; -ENOMEM; what pause
 * returned. After a failure it can be called again, and has to do again little of what was done. */
int grammar_state_prepare(struct grammar_state *st, struct grammar_limit *l, bool wait, struct err *e);
/* How many of tok [n] may come next, one after the other, without one that ends the generation: what is worth a guess. Fewer, as far as
 * it got, where the limit is reached, or 0 where another thread computes with the grammar just now: it is a hint. The state stays. */
uint32_t grammar_state_allows(const struct grammar_state *st, const int32_t *tok, uint32_t n, struct grammar_limit *l);
struct grammar *grammar_of_state(const struct grammar_state *st);

struct grammar_stats {
    uint64_t masks, cached;     /* asked for, and found in the cache                */
    uint64_t cold_ns, bytes;    /* spent on making masks; held by the cache         */
    uint64_t steps, most_steps; /* taken altogether, and by the costliest call      */
};
struct grammar_stats grammar_stats(struct grammar *g);

#endif
