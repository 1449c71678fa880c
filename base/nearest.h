/* base/nearest.h: "did you mean": the name that a mistyped word is nearest to, by edits (insert, delete, replace, swap two
 * neighbours: the restricted Damerau-Levenshtein distance) or as its beginning. */
#ifndef ZINC_BASE_NEAREST_H
#define ZINC_BASE_NEAREST_H

#include <stddef.h>

/* NULL when none is near. next(user, i) gives the i-th name, NULL at the end. */
const char *nearest_name(const char *word, const char *(*next)(const void *user, size_t i), const void *user);
/* The same of "a|b|c"; the name is put into buf. */
const char *nearest_word(const char *word, const char *words, char buf[64]);

#endif
