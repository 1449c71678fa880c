#include "base/alloc_guard.h"

#ifdef ZINC_DEBUG_CHECKS
#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"

static _Thread_local const char *guard_name;
static _Thread_local uint32_t guard_depth, guard_calls;

static void count(void)
{
    if (guard_depth)
        guard_calls++;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GUARD_HOOKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GUARD_HOOKS 1
#endif
#endif

#ifdef GUARD_HOOKS
/* From sanitizer/allocator_interface.h: the sanitizer owns malloc and calls these. */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n)
{
    count();
}
static void on_free(const volatile void *p)
{
    count();
}
static void install(void)
{
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

#elif defined(__GLIBC__)
/* The C library's own entry points, so that ours can stand in front of them, also for other libraries. */
#pragma GCC visibility push(default)
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);
void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t each)
{
    count();
    return __libc_calloc(n, each);
}
void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}
void free(void *p)
{
    if (p)
        count();
    __libc_free(p);
}
#pragma GCC visibility pop
static void install(void)
{
}
#else
static void install(void)
{
}
#endif

void alloc_guard_begin(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    if (guard_depth++ == 0) {
        guard_name = name;
        guard_calls = 0;
    }
}

void alloc_guard_end(void)
{
    CHECK(guard_depth > 0);
    if (--guard_depth == 0 && guard_calls)
        check_fail(__FILE__, __LINE__, "%s: %u allocations or frees where there may be none", guard_name,
                   guard_calls);
}

uint32_t alloc_guard_count(void)
{
    return guard_calls;
}

void alloc_guard_forgive(void)
{
    guard_calls = 0;
}
void alloc_guard_set(uint32_t calls)
{
    guard_calls = calls;
}
#endif
