/* tests/lib/edge.h: memory that ends where a page begins that nobody may touch, so that code compiled as it is shipped, which
 * no sanitizer watches, dies where it reads or writes past the end, be it by one byte. Where an alignment leaves room behind
 * the end, reads there are not seen; whether it was written edge_free looks. */
#ifndef ZINC_TESTS_EDGE_H
#define ZINC_TESTS_EDGE_H

#include <check.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EDGE_FILL = 0xa5 };

/* Bytes of the pages that `bytes` need, without the last, forbidden one. */
static inline size_t edge_span(size_t bytes, size_t page)
{
    return (bytes + page - 1) / page * page;
}

/* `bytes` (not 0) at a multiple of `align`, a power of two of at most a page: as near to the end of the page as that allows.
 * Each byte is EDGE_FILL. The caller's, for edge_free. */
static inline void *edge_alloc(size_t bytes, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span = edge_span(bytes, page);
    uint8_t *base = mmap(NULL, span + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_msg(base != MAP_FAILED && mprotect(base + span, page, PROT_NONE) == 0, "no %zu bytes to test with", span + page);
    memset(base, EDGE_FILL, span);
    return base + ((span - bytes) & ~(align - 1));
}

/* p is edge_alloc's, of so many bytes: nothing around them was written. */
static inline void edge_free(void *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span = edge_span(bytes, page);
    uint8_t *base = (uint8_t *)p - ((uintptr_t)p & (page - 1)), *end = (uint8_t *)p + bytes;
    for (uint8_t *q = base; q < base + span; q++)
        if (q == p)
            q = end - 1;
        else
            ck_assert_msg(*q == EDGE_FILL, "%zd bytes from the end of %zu bytes were written", q - end, bytes);
    ck_assert_int_eq(munmap(base, span + page), 0);
}

#endif
