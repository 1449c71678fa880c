/* engine/grammar/json_schema_strings.h
 * Sets of strings as deterministic automata over characters (Unicode code points): what a pattern, a format, limits of
 * length, or the names beside those in `properties` allow, and what is left when several of them hold at once.
 *
 *     strings_length(2, 8, &a); strings_without("</x>", &b);
 *     strings_both(&a, &b, &c);                              c: 2 to 8 characters without "</x>" among them
 *
 * Characters are U+0001 to U+10FFFF without surrogates. Each function that makes a set returns 0, -ENOMEM, or -E2BIG
 * beyond STRINGS_MAX_STATES, and then the set is empty; sets are freed by strings_finish. */
#ifndef ZINC_GRAMMAR_JSON_SCHEMA_STRINGS_H
#define ZINC_GRAMMAR_JSON_SCHEMA_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STRINGS_MAX_STATES = 20000 };

struct strings_edge {
    uint32_t lo, hi, to;
};

struct strings_state {
    uint32_t edge, n; /* edges of a state ascend and do not overlap */
    bool final;
};

struct strings { /* begins in state 0; without states: the empty set */
    struct strings_state *state;
    struct strings_edge *edge;
    uint32_t n_states, n_edges, cap_states, cap_edges;
};

void strings_finish(struct strings *a);
int strings_length(uint64_t min, uint64_t max, struct strings *out); /* max UINT64_MAX: any; all strings: 0, any */
int strings_without(const char *mark, struct strings *out); /* mark: ASCII; its first character comes once in it */
int strings_list(const char *const *s, size_t n, struct strings *out);
int strings_both(const struct strings *a, const struct strings *b, struct strings *out);
int strings_minus(const struct strings *a, const struct strings *b, struct strings *out);
bool strings_has(const struct strings *a, const char *s); /* s: UTF-8 */

/* For makers of sets: states are added in order, the edges of the newest one too. */
int strings_add_state(struct strings *a, bool final);
int strings_add_edge(struct strings *a, uint32_t lo, uint32_t hi, uint32_t to);
int strings_trim(struct strings *a); /* drops what leads nowhere */

/* The character at *s, which moves on. */
uint32_t strings_next(const char **s);

#endif
