/* base/json.h
 * JSON where memory may run out. jansson's writer goes on without a key for which there was no room, and its lexer does
 * not look whether a token's buffer could grow: it then reads past its end. Here a parser that finds no memory is given
 * what was put aside for it, sees the end of the text at once, and is told apart from a mistake in the text:
 *
 *     bool no_memory;
 *     json_t *v = json_read(s, n, JSON_ALLOW_NUL, &je, &no_memory);
 *     if (!v)
 *         ... no_memory ? -ENOMEM : -EINVAL, and je says what is wrong with the text
 *
 * The flags are those of json_loadb and json_dumps. Any thread; everything else of jansson may be used as usual beside it. */
#ifndef ZINC_BASE_JSON_H
#define ZINC_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* NULL: no JSON, or *no_memory. je and no_memory may be NULL. */
json_t *json_read(const char *s, size_t n, size_t flags, json_error_t *je, bool *no_memory);

/* Allocations of jansson's, and texts to be written, that failed on this thread until now. Jansson leaves out of a copy
 * what there was no room for, and of most calls that add to a tree nobody looks at the result: who has built one compares
 * this with what it was before. */
unsigned json_failures(void);

/* As json_dumps: malloc'ed text; NULL: out of memory, or what the flags do not allow. */
char *json_write(const json_t *v, size_t flags);

/* The text and a newline into a file, flushed; takes v, which may be NULL: what made it found no memory. -ENOMEM: nothing
 * was written, for the text is made before; any other -errno: the file takes no more. */
int json_print(FILE *f, json_t *v, size_t flags);

#endif
