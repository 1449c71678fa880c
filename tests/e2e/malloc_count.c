/* tests/e2e/malloc_count.c: preloaded; counts allocations and prints the number on the file descriptor that
 * MALLOC_COUNT_FD names when the program ends. Built and used by test_decode_allocates_nothing.sh. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long count;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    count++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count++;
    return __libc_realloc(p, n);
}

static __attribute__((destructor)) void report(void)
{
    const char *fd = getenv("MALLOC_COUNT_FD");
    if (fd)
        dprintf(atoi(fd), "%ld\n", (long)count);
}
