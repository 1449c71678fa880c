/* Memory of one parsing or rendering, and how it fails. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja_impl.h"

struct jinja_chunk {
    struct jinja_chunk *next;
    _Alignas(16) char bytes[];
};

enum { FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

void jinja_fail(struct jinja_ctx *c, int rc, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    if (rc == -EPERM)
        c->rc = err_set(c->e, rc, "%s", text);
    else
        c->rc = err_set(c->e, rc, "template line %u: %s", c->line, text);
    longjmp(c->fail, 1);
}

char *jinja_alloc_bytes(struct jinja_ctx *c, size_t n)
{
    if (n > c->max_memory || c->used > c->max_memory - n)
        jinja_fail(c, -E2BIG, "more than %zu MiB of memory", c->max_memory >> 20);
    n = (n + 15) & ~(size_t)15;
    if (n > c->left) {
        size_t size = MIN(MAX((size_t)FIRST_CHUNK, c->used), (size_t)LARGEST_CHUNK);
        size = MAX(size, n);
        struct jinja_chunk *k = malloc(sizeof *k + size);
        if (!k)
            jinja_fail(c, -ENOMEM, "no memory for %zu bytes", size);
        k->next = c->chunks;
        c->chunks = k;
        if (size - n < c->left) { /* a large piece of its own: the chunk in use goes on */
            c->used += n;
            return k->bytes;
        }
        c->at = k->bytes;
        c->left = size;
    }
    char *p = c->at;
    c->at += n;
    c->left -= n;
    c->used += n;
    return p;
}

void *jinja_alloc(struct jinja_ctx *c, size_t n)
{
    return memset(jinja_alloc_bytes(c, n), 0, n);
}

void jinja_release(struct jinja_ctx *c)
{
    while (c->chunks) {
        struct jinja_chunk *next = c->chunks->next;
        free(c->chunks);
        c->chunks = next;
    }
    c->left = 0;
}

void jinja_enter(struct jinja_ctx *c)
{
    if (++c->depth > JINJA_MAX_DEPTH)
        jinja_fail(c, -E2BIG, "nested deeper than %d levels", JINJA_MAX_DEPTH);
}
