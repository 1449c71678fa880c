/* tests/lib/skip.h: what a Check program could not do here, in a line that tests/run counts. A program that could do
 * nothing at all returns 77 instead. */
#ifndef ZINC_TESTS_SKIP_H
#define ZINC_TESTS_SKIP_H

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static inline void cases_skipped(unsigned n, const char *why, ...)
{
    va_list ap;
    va_start(ap, why);
    printf("skipped: %u case%s: ", n, n == 1 ? "" : "s");
    vprintf(why, ap);
    printf("\n");
    va_end(ap);
    fflush(stdout); /* a case runs in a process of its own, which may end without */
}

#endif
