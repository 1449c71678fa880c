/* tests/lib/failing_alloc.h
 * Allocations that fail when a test says so. One file of the test program includes it, and from then on every malloc,
 * calloc, realloc and their kin of the process goes through here, those inside of the C library and of other libraries
 * too:
 *
 *     long live = fail_live();
 *     fail_arm(7, FAIL_ONCE);                  the seventh allocation from now on returns NULL
 *     ... what is tested, on any threads ...
 *     long failed = fail_disarm();             0: it did not make seven
 *     fail_live() == live                      and it gave everything back
 *
 * In other builds than release the allocator is the sanitizer's or the allocation guard's: there only calls of the linked
 * objects are seen (the linker's --wrap, which the Makefile asks for in programs named test_alloc_*), jansson's among
 * them (base/json.c); nothing is counted as live, because the leak checker knows better. */
#ifndef ZINC_TESTS_LIB_FAILING_ALLOC_H
#define ZINC_TESTS_LIB_FAILING_ALLOC_H

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(ZINC_DEBUG_CHECKS)
#define FAIL_WRAPPED 1
#else
#define FAIL_WRAPPED 0
#endif

enum fail_mode { FAIL_ONCE, FAIL_FROM_THERE_ON };

static struct {
    atomic_bool armed;
    atomic_long n, failed, live;
    long at;
    enum fail_mode mode;
    void *trace[24]; /* who asked for the first one that failed */
    int n_trace;
} fail_state;

/* The k-th allocation (from 1) of any thread fails; or it and all after it. */
static inline void fail_arm(long k, enum fail_mode mode)
{
    void *first[2];
    backtrace(first, 2); /* its own first call allocates */
    fail_state.at = k;
    fail_state.mode = mode;
    fail_state.n_trace = 0;
    atomic_store(&fail_state.n, 0);
    atomic_store(&fail_state.failed, 0);
    atomic_store(&fail_state.armed, true);
}

/* How many failed. */
static inline long fail_disarm(void)
{
    atomic_store(&fail_state.armed, false);
    return atomic_load(&fail_state.failed);
}

/* Allocations since fail_arm. */
static inline long fail_count(void)
{
    return atomic_load(&fail_state.n);
}

/* Blocks that were allocated and not freed. */
static inline long fail_live(void)
{
    return atomic_load(&fail_state.live);
}

/* Who asked for the first one that failed, on stderr. */
static inline void fail_tell(void)
{
    backtrace_symbols_fd(fail_state.trace, fail_state.n_trace, STDERR_FILENO);
}

static bool fail_now(void)
{
    if (!atomic_load_explicit(&fail_state.armed, memory_order_relaxed))
        return false;
    long n = atomic_fetch_add(&fail_state.n, 1) + 1;
    if (n < fail_state.at || (n > fail_state.at && fail_state.mode == FAIL_ONCE))
        return false;
    if (atomic_fetch_add(&fail_state.failed, 1) == 0)
        fail_state.n_trace = backtrace(fail_state.trace, 24);
    errno = ENOMEM;
    return true;
}

static void *fail_counted(void *p)
{
    atomic_fetch_add_explicit(&fail_state.live, p != NULL, memory_order_relaxed);
    return p;
}

#if FAIL_WRAPPED
#define FAIL_NAME(f) __wrap_##f
#define FAIL_REAL(f) __real_##f
#else
#define FAIL_NAME(f) f
#define FAIL_REAL(f) __libc_##f
void __libc_free(void *p);
void free(void *p)
{
    atomic_fetch_sub_explicit(&fail_state.live, p != NULL, memory_order_relaxed);
    __libc_free(p);
}
#endif

void *FAIL_REAL(malloc)(size_t n);
void *FAIL_REAL(calloc)(size_t n, size_t size);
void *FAIL_REAL(realloc)(void *p, size_t n);
void *FAIL_REAL(memalign)(size_t align, size_t n);
void *FAIL_NAME(malloc)(size_t n);
void *FAIL_NAME(calloc)(size_t n, size_t size);
void *FAIL_NAME(realloc)(void *p, size_t n);
void *FAIL_NAME(reallocarray)(void *p, size_t n, size_t size);
void *FAIL_NAME(memalign)(size_t align, size_t n);
void *FAIL_NAME(aligned_alloc)(size_t align, size_t n);
int FAIL_NAME(posix_memalign)(void **p, size_t align, size_t n);

void *FAIL_NAME(malloc)(size_t n)
{
    return fail_now() ? NULL : fail_counted(FAIL_REAL(malloc)(n));
}

void *FAIL_NAME(calloc)(size_t n, size_t size)
{
    return fail_now() ? NULL : fail_counted(FAIL_REAL(calloc)(n, size));
}

void *FAIL_NAME(realloc)(void *p, size_t n)
{
    if (fail_now())
        return NULL;
    void *q = FAIL_REAL(realloc)(p, n);
    if (!p)
        fail_counted(q);
    else if (!q && !n) /* it was freed */
        atomic_fetch_sub_explicit(&fail_state.live, 1, memory_order_relaxed);
    return q;
}

void *FAIL_NAME(reallocarray)(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return FAIL_NAME(realloc)(p, bytes);
}

void *FAIL_NAME(memalign)(size_t align, size_t n)
{
    return fail_now() ? NULL : fail_counted(FAIL_REAL(memalign)(align, n));
}

void *FAIL_NAME(aligned_alloc)(size_t align, size_t n)
{
    return FAIL_NAME(memalign)(align, n);
}

int FAIL_NAME(posix_memalign)(void **p, size_t align, size_t n)
{
    void *q = FAIL_NAME(memalign)(align, n);
    if (!q)
        return ENOMEM;
    *p = q;
    return 0;
}

#if FAIL_WRAPPED
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

char *__wrap_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *t = __wrap_malloc(n);
    return t ? memcpy(t, s, n) : NULL;
}

char *__wrap_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *t = __wrap_malloc(len + 1);
    if (t) {
        memcpy(t, s, len);
        t[len] = 0;
    }
    return t;
}

#endif

#endif
