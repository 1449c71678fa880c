/* base/progress.h
 * How long work tells a person where it is. The worker calls `fn` now and then, from one thread at a time; the
 * program that passed it decides how it looks. A NULL function is allowed everywhere. */
#ifndef ZINC_BASE_PROGRESS_H
#define ZINC_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    /* Returns false to ask the worker to stop; it then fails with -ECANCELED. */
    bool (*fn)(void *user, const char *what, uint64_t done, uint64_t total);
    void *user;
};

static inline bool progress_report(const struct progress *p, const char *what, uint64_t done, uint64_t total)
{
    return !p || !p->fn || p->fn(p->user, what, done, total);
}

/* The terminal bar on stderr: silent for work under two seconds, a line every few seconds when stderr is no terminal. */
struct progress progress_terminal(void);

#endif
