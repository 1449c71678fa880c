/* base/alloc_guard.h
 * Proves that a stretch of code allocates nothing: in debug and sanitize builds malloc, calloc, realloc and free of
 * the calling thread are counted between begin and end, and end aborts with the name when there were any. In release
 * builds both are empty. Guards of one thread may nest; the outermost one counts.
 *
 *     alloc_guard_begin("decode");
 *     ...
 *     alloc_guard_end(); */
#ifndef ZINC_BASE_ALLOC_GUARD_H
#define ZINC_BASE_ALLOC_GUARD_H

#include <stdint.h>

#ifdef ZINC_DEBUG_CHECKS
void alloc_guard_begin(const char *name);
void alloc_guard_end(void);
/* Calls counted by the guard that is open, for tests; 0 where counting is not possible (neither glibc nor a sanitizer). */
uint32_t alloc_guard_count(void);
/* Forgets what was counted: for an allocation that is meant, such as the report of an error. */
void alloc_guard_forgive(void);
/* Back to what was counted before a call into a library that allocates for itself. */
void alloc_guard_set(uint32_t count);
#else
static inline void alloc_guard_begin(const char *name)
{
    (void)name;
}
static inline void alloc_guard_end(void)
{
}
static inline uint32_t alloc_guard_count(void)
{
    return 0;
}
static inline void alloc_guard_forgive(void)
{
}
static inline void alloc_guard_set(uint32_t count)
{
    (void)count;
}
#endif

#endif
