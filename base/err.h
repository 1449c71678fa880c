/* base/err.h
 * How a function says what went wrong.
 *
 * Functions that can fail return int: 0 or a negative errno. Set-up paths take `struct err *e` last (NULL is fine):
 * the place that detects the failure writes one line there (what was tried, on which object, expected against
 * actual, the remedy if one is known); callers may prepend a context, nobody rewrites. */
#ifndef ZINC_BASE_ERR_H
#define ZINC_BASE_ERR_H

#include <errno.h>
#include <stddef.h>

struct err {
    int code;      /* negative errno, 0: nothing went wrong */
    char msg[508]; /* one line, no newline at the end       */
};

/* Returns `code`, so that a failure reads: return err_set(e, -EINVAL, "gguf: ..."). */
__attribute__((cold, format(printf, 3, 4))) int err_set(struct err *e, int code, const char *fmt, ...);

/* Prepends "fmt: " to the message. */
__attribute__((cold, format(printf, 2, 3))) void err_context(struct err *e, const char *fmt, ...);

#endif
