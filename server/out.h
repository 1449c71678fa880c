/* server/out.h
 * A growing text to which JSON is written piece by piece: what a stream sends for each token needs no tree. Failure is
 * sticky: when memory runs out `failed` is set, the rest is ignored, and whoever sends the text looks at it once. */
#ifndef ZINC_SERVER_OUT_H
#define ZINC_SERVER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/budget.h"

struct out { /* {0} is empty */
    char *s; /* n bytes, not terminated */
    size_t n, cap;
    bool failed;
    struct budget *budget; /* pays for `cap`; NULL: nobody does */
};

void out_finish(struct out *o); /* empty; keeps the budget */
void out_clear(struct out *o); /* empty again; keeps memory and failure */

void out_raw(struct out *o, const char *s, size_t n);
void out_text(struct out *o, const char *s);
void out_escaped(struct out *o, const char *s, size_t n); /* the inside of a JSON string; U+FFFD for what is no UTF-8 */
void out_string(struct out *o, const char *s, size_t n);  /* the same between quotes                                  */
void out_int(struct out *o, int64_t v);
void out_real(struct out *o, double v);                   /* null where JSON has no such number                       */
void out_join(struct out *o, const struct out *from);     /* appends, and takes over its failure                      */

/* Bytes of the UTF-8 character at s[0..n), 0: there is none. */
size_t out_char(const char *s, size_t n);

#endif
